/* The simulator's command line: replay one seed, run many, or show that a broken rule is caught. */
#include "world.h"

#include "agent/core/core_assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What 1,000 schedules must at least contain: a run that exercised nothing has proved nothing. */
static const struct {
    const char *name;
    size_t offset;
    uint64_t least;
} exercised[] = {
    {"grants", offsetof(struct figures, grants), 7000},
    {"renewals", offsetof(struct figures, renewals), 7000},
    {"renewal rounds that failed", offsetof(struct figures, renewal_failures), 1500},
    {"leases that ran out", offsetof(struct figures, lost[REASON_EXPIRED]), 400},
    {"losses for want of a quorum", offsetof(struct figures, lost[REASON_QUORUM_LOST]), 40},
    {"losses by release elsewhere", offsetof(struct figures, lost[REASON_TAKEN]), 20},
    {"losses by max_hold", offsetof(struct figures, lost[REASON_MAX_HOLD]), 20},
    {"losses by a stall", offsetof(struct figures, lost[REASON_STALLED]), 20},
    {"losses by the agent's end", offsetof(struct figures, lost[REASON_DRAINED]), 20},
    {"adoptions", offsetof(struct figures, adoptions), 80},
    {"releases", offsetof(struct figures, releases), 6000},
    {"releases with a master unreachable", offsetof(struct figures, releases_partial), 800},
    {"releases left pending", offsetof(struct figures, releases_pending), 300},
    {"undelivered grants", offsetof(struct figures, undeliveries), 250},
    {"cancelled requests", offsetof(struct figures, cancels), 2000},
    {"refused requests", offsetof(struct figures, refusals), 10000},
    {"requests without a quorum", offsetof(struct figures, unavailable), 4000},
    {"waits that timed out", offsetof(struct figures, wait_timeouts), 2500},
    {"second fencing phases", offsetof(struct figures, second_phases), 350},
    {"keys handed over", offsetof(struct figures, handovers), 1},
    {"messages", offsetof(struct figures, messages), 1},
    {"repaired keys", offsetof(struct figures, repairs), 400},
    {"stalls", offsetof(struct figures, stalls), 500},
};

/* The same where masters forget. */
static const struct {
    const char *name;
    size_t offset;
    uint64_t least;
} exercised_forgetful[] = {
    {"times that a master forgot everything", offsetof(struct figures, forgotten), 2500},
    {"votes that the guard withheld", offsetof(struct figures, guarded), 20000},
};

/* The same where the order is fair. */
static const struct {
    const char *name;
    size_t offset;
    uint64_t least;
} exercised_fair[] = {
    {"votes that tickets withheld", offsetof(struct figures, queued), 20000},
    {"withdrawn tickets", offsetof(struct figures, withdrawn), 2000},
};

static struct world world;
static bool expects_violation;

/* The core's assertions end here: with the seed, and as a catch where one is wanted. */
_Noreturn void lockcore_assert_failed(const char *expression, const char *file, int line)
{
    printf("seed %llu: at %.6f s: an assertion failed: %s (%s:%d)\n", (unsigned long long)world.seed,
           (double)world.now / 1e6, expression, file, line);
    if (expects_violation)
        puts("caught by an assertion");
    exit(expects_violation ? 0 : 1);
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t figure(size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)&world.figures + offset, sizeof value);
    return value;
}

/* Returns how many figures are too small. */
static unsigned print_figures(uint64_t runs, double seconds)
{
    unsigned idle = 0;
    printf("%llu schedules, %.0f a second, %llu steps, %.0f s of virtual time\n", (unsigned long long)runs,
           (double)runs / seconds, (unsigned long long)world.figures.steps, (double)world.figures.virtual_us / 1e6);
    for (size_t i = 0; i < sizeof exercised / sizeof exercised[0]; i++) {
        uint64_t value = figure(exercised[i].offset);
        bool enough = runs < 500 || value * 1000 >= exercised[i].least * runs;
        printf("%10llu %s%s\n", (unsigned long long)value, exercised[i].name,
               enough ? "" : ": too few, nothing was proved");
        idle += !enough;
    }
    for (size_t i = 0; world.options.forgetful && i < sizeof exercised_forgetful / sizeof exercised_forgetful[0]; i++) {
        uint64_t value = figure(exercised_forgetful[i].offset);
        bool enough = runs < 500 || value * 1000 >= exercised_forgetful[i].least * runs;
        printf("%10llu %s%s\n", (unsigned long long)value, exercised_forgetful[i].name,
               enough ? "" : ": too few, nothing was proved");
        idle += !enough;
    }
    for (size_t i = 0; world.options.fair && i < sizeof exercised_fair / sizeof exercised_fair[0]; i++) {
        uint64_t value = figure(exercised_fair[i].offset);
        bool enough = runs < 500 || value * 1000 >= exercised_fair[i].least * runs;
        printf("%10llu %s%s\n", (unsigned long long)value, exercised_fair[i].name,
               enough ? "" : ": too few, nothing was proved");
        idle += !enough;
    }
    return idle;
}

static int replay(uint64_t seed)
{
    world.verbose = true;
    world_run(&world, seed);
    options_print(&world.options);
    printf("seed %llu: %s\n", (unsigned long long)seed, world.violation[0] == '\0' ? "no violation" : world.violation);
    return world.violation[0] != '\0';
}

static int run_many(uint64_t from, uint64_t runs, uint64_t keep_going)
{
    uint64_t failed = 0;
    double begin = cpu_seconds();
    for (uint64_t i = 0; i < runs && failed <= keep_going; i++) {
        world_run(&world, from + i);
        if (world.violation[0] == '\0')
            continue;
        failed++;
        printf("seed %llu: %s\n", (unsigned long long)(from + i), world.violation);
        if (expects_violation) {
            printf("caught after %llu schedules\n", (unsigned long long)i + 1);
            return 0;
        }
    }
    if (expects_violation) {
        printf("%llu schedules, and the broken rule was not noticed\n", (unsigned long long)runs);
        return 1;
    }
    failed += print_figures(world.figures.runs, cpu_seconds() - begin);
    printf("%llu passed, %llu failed\n", (unsigned long long)(runs > failed ? runs - failed : 0),
           (unsigned long long)failed);
    return failed != 0;
}

static int usage(void)
{
    fputs("usage: sim SEED                       replay one seed, with its timeline\n"
          "       sim --runs N [--from SEED]     run many, print figures; fails on a violation or when too little "
          "happened\n"
          "           [--keep-going N]           stop only after N violations\n"
          "           [--expect-violation]       fails unless there is a violation\n"
          "           [--forgetful]              masters lose their keys, and the guard sees to it\n"
          "           [--fair]                   callers are served in the order in which they came\n"
          "           [--ignore-tickets]         the same, and masters grant to anybody\n"
          "           [--eternal-tickets]        the same, and masters forget no ticket\n"
          "           [--guard-off]              the same without the guard\n"
          "           [--release-without-compare] masters that delete whatever they hold\n"
          "           [--break data-loss|clock-jump|drift] break an assumption of the promise\n",
          stderr);
    return 2;
}

static bool break_assumption(const char *name)
{
    static const char *const names[] = {"", "data-loss", "clock-jump", "drift"};
    for (unsigned i = 1; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            world.options.broken = (enum assumption)i;
    return world.options.broken != ASSUME_ALL;
}

int main(int argc, char **argv)
{
    uint64_t runs = 0, from = 1, keep_going = 0, seed = 0;
    world_init(&world);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--expect-violation") == 0)
            expects_violation = true;
        else if (strcmp(argv[i], "--forgetful") == 0)
            world.options.forgetful = true;
        else if (strcmp(argv[i], "--fair") == 0)
            world.options.fair = true;
        else if (strcmp(argv[i], "--ignore-tickets") == 0)
            world.options.fair = world.options.ignore_tickets = true;
        else if (strcmp(argv[i], "--eternal-tickets") == 0)
            world.options.fair = world.options.eternal_tickets = true;
        else if (strcmp(argv[i], "--guard-off") == 0)
            world.options.forgetful = world.options.guard_off = true;
        else if (strcmp(argv[i], "--release-without-compare") == 0)
            world.options.release_without_compare = true;
        else if (strcmp(argv[i], "--runs") == 0)
            runs = strtoull(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--from") == 0)
            from = strtoull(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--keep-going") == 0)
            keep_going = strtoull(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--break") == 0 && break_assumption(value))
            i++;
        else if (argv[i][0] >= '0' && argv[i][0] <= '9')
            seed = strtoull(argv[i], NULL, 10);
        else
            return usage();
    }
    if (runs == 0 && seed == 0)
        return usage();
    return runs != 0 ? run_many(from, runs, keep_going) : replay(seed);
}
