/* Reports a wrong command line. getopt's own message would print an argument as it came. */
#include "agent/base/usage.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/text.h"

const char *usage_shown(const char *argument, char shown[USAGE_SHOWN])
{
    /* Cutting must not remove the `@` that shows the end of a password. */
    const char *host = strrchr(argument, '@');
    bool is_cut = host != NULL && host - argument >= USAGE_SHOWN - 1;
    snprintf(shown, USAGE_SHOWN, "%s%s", is_cut ? "***" : "", is_cut ? host : argument);
    text_tame(shown);
    text_hide_passwords(shown);
    return shown;
}

void usage_say_option(const char *program, int found, char *const *argv)
{
    char shown[USAGE_SHOWN], letter[] = {'-', (char)optopt, '\0'};
    const char *argument = argv[optind - 1];
    /* A long option is a whole argument, which getopt_long() has passed by. */
    bool is_long =
        strncmp(argument, "--", 2) == 0 && (optopt == 0 || strchr(argument, '=') != NULL);
    const char *option = found == ':' || is_long ? argument : letter;
    fprintf(stderr, "%s: %s%s%s; see %s --help\n", program,
            found == ':' ? "option " : "no such option: ", usage_shown(option, shown),
            found == ':' ? " needs a value" : "", program);
}
