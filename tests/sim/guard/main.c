/* The guard under a virtual clock: sim_guard [--calm | --fresh | --forgetful | --birth | --flushed]
 * [--break FILE FROM TO] [--runs N] [--from SEED] [--caught-by PROPERTY | --expect-violation]
 * [SEED].
 * One SEED alone prints its timeline. Exits with 0 where no property was broken, or, with
 * --caught-by, where that one was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/guard/world.h"

struct options {
    enum theme theme;
    uint64_t runs, from;
    const char *caught_by;
    bool expect, told;
};

static bool option_is(const char *argument, const char *name)
{
    return strcmp(argument, name) == 0;
}

static struct options options_of(int argc, char **argv)
{
    struct options options = {.theme = THEME_FRESH, .runs = 1000, .from = 1};
    for (int i = 1; i < argc; i++) {
        if (option_is(argv[i], "--calm"))
            options.theme = THEME_CALM;
        else if (option_is(argv[i], "--fresh"))
            options.theme = THEME_FRESH;
        else if (option_is(argv[i], "--forgetful"))
            options.theme = THEME_FORGETFUL;
        else if (option_is(argv[i], "--birth"))
            options.theme = THEME_BIRTH;
        else if (option_is(argv[i], "--flushed"))
            options.theme = THEME_FLUSHED;
        else if (option_is(argv[i], "--runs") && i + 1 < argc)
            options.runs = strtoull(argv[++i], NULL, 10);
        else if (option_is(argv[i], "--from") && i + 1 < argc)
            options.from = strtoull(argv[++i], NULL, 10);
        else if (option_is(argv[i], "--caught-by") && i + 1 < argc)
            options.caught_by = argv[++i];
        else if (option_is(argv[i], "--break") && i + 3 < argc) {
            script_break(argv[i + 1], argv[i + 2], argv[i + 3]);
            i += 3;
        } else if (option_is(argv[i], "--expect-violation"))
            options.expect = true;
        else {
            options.from = strtoull(argv[i], NULL, 10);
            options.runs = 1;
            options.told = true;
        }
    }
    return options;
}

int main(int argc, char **argv)
{
    static struct world world;
    struct options options = options_of(argc, argv);
    bool expects = options.expect || options.caught_by;
    uint64_t passed = 0, failed = 0, births = 0, forgets = 0;
    for (uint64_t seed = options.from; seed < options.from + options.runs; seed++) {
        world_run(&world, seed, options.theme, options.told);
        births += world.count.births;
        forgets += world.count.forgets;
        if (!*world.violation) {
            passed++;
            continue;
        }
        failed++;
        printf("seed %llu: at %.3f s: %s: %s\n", (unsigned long long)seed,
               (double)world.now_us / 1e6, world.violation, world.why);
        if (expects && (!options.caught_by || strcmp(options.caught_by, world.violation) == 0)) {
            printf("caught by %s with seed %llu\n", world.violation, (unsigned long long)seed);
            return 0;
        }
    }
    printf("%llu births, %llu times a master forgot\n%llu passed, %llu failed\n",
           (unsigned long long)births, (unsigned long long)forgets, (unsigned long long)passed,
           (unsigned long long)failed);
    return expects || failed > 0;
}
