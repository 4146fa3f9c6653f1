/* Finds fields in the text of INFO (info.h). */
#include <stdio.h>
#include <string.h>

#include "agent/redis/info.h"

void info_field(const char *info, const char *name, char *into, size_t size)
{
    size_t len = strlen(name);
    for (const char *line = info; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            const char *value = line + len + 1;
            snprintf(into, size, "%.*s", (int)strcspn(value, "\r\n"), value);
            return;
        }
    }
}
