/* The guard of a small group under a virtual clock:
 *
 *   guard_world [--fresh | --in-turn | --forgetful | --copies | --leases | --layouts]
 *               [--break A6 | --keep A6] [--runs N] [--from SEED] [SEED]
 *   guard_world --search [--quick | --bound N] [--orders] [--first] [--seconds S] [SCRIPT...]
 *   guard_world --list
 *
 * The first draws runs from seeds. One SEED alone prints its timeline. The second takes every
 * schedule of scripts, within their bounds. A violation prints its schedule. The third lists the
 * scripts. Both take
 *
 *   --break FILE FROM TO      of the script FILE the text FROM becomes TO
 *   --adopts-while-refused    agents whose layout is refused adopt locks all the same
 *   --caught-by PROPERTY      that property must be broken
 *   --expect-violation        any property must be broken
 *
 * Exits with 0 if no property was broken, and enough happened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guard/world.h"

static const char *const themes[THEME_COUNT] = {"--fresh",  "--in-turn", "--forgetful",
                                                "--copies", "--leases",  "--layouts"};
static struct options options = {
    .theme = THEME_IN_TURN, .a6 = A6_EXCUSES, .runs = 1000, .from = 1, .bound = -1};

static bool option_is(const char *argument, const char *name)
{
    return strcmp(argument, name) == 0;
}

/* Returns true if the argument is one without a value. */
static bool takes_flag(const char *argument)
{
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {{"--search", &options.is_searched},
                 {"--quick", &options.quick},
                 {"--orders", &options.all_orders},
                 {"--first", &options.stops_at_first},
                 {"--adopts-while-refused", &options.adopts_while_refused},
                 {"--expect-violation", &options.expects}};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (option_is(argument, flags[i].name))
            return *flags[i].flag = true;
    for (unsigned i = 0; i < THEME_COUNT; i++)
        if (option_is(argument, themes[i])) {
            options.theme = (enum theme)i;
            return true;
        }
    return false;
}

/* Returns how many arguments it took with their values; 0: none. */
static int takes_value(int count, char **arguments)
{
    const char *name = arguments[0], *value = count > 1 ? arguments[1] : NULL;
    if (!value)
        return 0;
    if (option_is(value, "A6") && (option_is(name, "--break") || option_is(name, "--keep")))
        options.a6 = option_is(name, "--break") ? A6_BROKEN : A6_KEPT;
    else if (option_is(name, "--break") && count > 3) {
        script_break(value, arguments[2], arguments[3]);
        return 4;
    } else if (option_is(name, "--runs"))
        options.runs = strtoull(value, NULL, 10);
    else if (option_is(name, "--from"))
        options.from = strtoull(value, NULL, 10);
    else if (option_is(name, "--bound"))
        options.bound = atoi(value);
    else if (option_is(name, "--seconds"))
        options.seconds = strtod(value, NULL);
    else if (option_is(name, "--caught-by")) {
        options.caught_by = value;
        options.expects = true;
    } else
        return 0;
    return 2;
}

int main(int argc, char **argv)
{
    int i = 1;
    while (i < argc && strncmp(argv[i], "--", 2) == 0) {
        int taken = takes_flag(argv[i]) ? 1 : takes_value(argc - i, argv + i);
        if (option_is(argv[i], "--list")) {
            search_list();
            return 0;
        }
        if (taken == 0) {
            fprintf(stderr, "guard_world: %s is not known, or has no value\n", argv[i]);
            return 2;
        }
        i += taken;
    }
    options.names = argv + i;
    if (options.is_searched)
        return search_runs(&options) ? 0 : 1;
    if (i < argc) {
        options.from = strtoull(argv[i], NULL, 10);
        options.runs = 1;
        options.told = true;
    }
    return chance_runs(&options) ? 0 : 1;
}
