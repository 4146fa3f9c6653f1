/* The guard under a virtual clock: sim_guard [--fresh | --in-turn | --forgetful | --copies |
 * --leases] [--break FILE FROM TO | --break A6 | --keep A6] [--runs N] [--from SEED]
 * [--caught-by PROPERTY | --expect-violation] [SEED].
 * One SEED alone prints its timeline. Exits with 0 if no property was broken. With more than
 * LEAST_RUNS runs, the theme's own events must also have happened. With --caught-by, exits with 0
 * if that property was broken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/guard/world.h"

enum { LEAST_RUNS = 50 };

struct options {
    enum theme theme;
    enum a6 a6;
    uint64_t runs, from;
    const char *caught_by;
    bool expect, told;
};

static const char *const themes[THEME_COUNT] = {"--fresh", "--in-turn", "--forgetful", "--copies",
                                                "--leases"};

static bool takes_theme(struct options *options, const char *argument)
{
    for (unsigned i = 0; i < THEME_COUNT; i++)
        if (strcmp(argument, themes[i]) == 0) {
            options->theme = (enum theme)i;
            return true;
        }
    return false;
}

static bool option_is(const char *argument, const char *name)
{
    return strcmp(argument, name) == 0;
}

/* Reads two arguments: A6 broken, or kept. */
static bool takes_a6(struct options *options, char **arguments)
{
    bool breaks = option_is(arguments[0], "--break"), keeps = option_is(arguments[0], "--keep");
    if ((!breaks && !keeps) || !arguments[1] || !option_is(arguments[1], "A6"))
        return false;
    options->a6 = breaks ? A6_BROKEN : A6_KEPT;
    return true;
}

static struct options options_of(int argc, char **argv)
{
    struct options options = {.theme = THEME_IN_TURN, .runs = 1000, .from = 1};
    for (int i = 1; i < argc; i++) {
        if (takes_theme(&options, argv[i]))
            continue;
        if (takes_a6(&options, argv + i)) {
            i++;
            continue;
        }
        if (option_is(argv[i], "--runs") && i + 1 < argc)
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

static void add_counts(struct counts *sum, const struct counts *of)
{
    sum->forgets += of->forgets;
    sum->drops += of->drops;
    sum->crashes += of->crashes;
    sum->told += of->told;
    sum->guessed += of->guessed;
    sum->answered += of->answered;
    sum->raised += of->raised;
    sum->copies += of->copies;
    sum->fallen += of->fallen;
}

/* Returns true if the theme's own events were too few. Such a run proves nothing. */
static bool is_thin(const struct options *options, const struct counts *sum)
{
    uint64_t runs = options->runs;
    if (runs < LEAST_RUNS)
        return false;
    switch (options->theme) {
    case THEME_FRESH:
        return sum->guessed < runs || sum->answered < 5 * runs;
    case THEME_IN_TURN:
        return sum->told < runs || sum->answered < 10 * runs || sum->raised < runs;
    case THEME_FORGETFUL:
        return sum->told < runs || sum->guessed < runs / 2;
    case THEME_COPIES:
        return sum->copies < runs || sum->told < runs;
    default:
        return sum->told < runs || sum->fallen < runs / 2;
    }
}

int main(int argc, char **argv)
{
    static struct world world;
    struct options options = options_of(argc, argv);
    bool expects = options.expect || options.caught_by;
    struct counts sum = {0};
    uint64_t passed = 0, failed = 0;
    for (uint64_t seed = options.from; seed < options.from + options.runs; seed++) {
        world_run(&world, seed, options.theme, options.a6, options.told);
        add_counts(&sum, &world.count);
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
    printf("%u times a master forgot (%u copies), %u were told, %u voted by a guess; %u numbers "
           "were answered, %u of them raised; max_ttl fell %u times\n",
           sum.forgets, sum.copies, sum.told, sum.guessed, sum.answered, sum.raised, sum.fallen);
    bool thin = !expects && is_thin(&options, &sum);
    printf("%s%llu passed, %llu failed\n", thin ? "too little happened\n" : "",
           (unsigned long long)passed, (unsigned long long)failed);
    return expects || thin || failed > 0;
}
