/* Prints messages as lines on stderr. */
#include "agent/run/say.h"

#include <stdarg.h>
#include <stdio.h>

void run_say(const char *key, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "lockagent run: %s%s%s\n", key == NULL ? "" : key, key == NULL ? "" : ": ",
            text);
}
