/* The simulator's command line: replay one seed, run many, or show that a broken rule is caught. */
#include "world.h"

#include "agent/core/core_assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What 1,000 schedules must at least contain: a run that exercised nothing has proved nothing. */
struct minimum {
    const char *name;
    size_t offset;
    uint64_t least;
};
static const struct minimum exercised[] = {
    {"grants", offsetof(struct figures, grants), 5000},
    {"take-overs from holders that did not release", offsetof(struct figures, take_overs), 300},
    {"renewals", offsetof(struct figures, renewals), 5000},
    {"renewal rounds that failed", offsetof(struct figures, renewal_failures), 1000},
    {"losses", offsetof(struct figures, losses), 300},
    {"leases that ran out", offsetof(struct figures, lost[REASON_EXPIRED]), 300},
    {"losses for want of a quorum", offsetof(struct figures, lost[REASON_QUORUM_LOST]), 40},
    {"losses by release elsewhere", offsetof(struct figures, lost[REASON_GONE]), 20},
    {"losses by max_hold", offsetof(struct figures, lost[REASON_MAX_HOLD]), 20},
    {"losses by a stall", offsetof(struct figures, lost[REASON_STALLED]), 20},
    {"losses by the agent's end", offsetof(struct figures, lost[REASON_DRAINED]), 20},
    {"adoptions", offsetof(struct figures, adoptions), 50},
    {"calls that acquire several locks", offsetof(struct figures, shared_acquires), 80},
    {"calls that release several locks", offsetof(struct figures, shared_releases), 1000},
    {"releases", offsetof(struct figures, releases), 5000},
    {"releases with a master unreachable", offsetof(struct figures, releases_partial), 800},
    {"releases by agents that did not know the hold", offsetof(struct figures, stranger_releases),
     5},
    {"releases left pending", offsetof(struct figures, releases_pending), 300},
    {"holds found in a journal", offsetof(struct figures, restored), 100},
    {"undelivered grants", offsetof(struct figures, undeliveries), 250},
    {"cancelled requests", offsetof(struct figures, cancels), 2000},
    {"refused requests", offsetof(struct figures, refusals), 10000},
    {"requests without a quorum", offsetof(struct figures, unavailable), 4000},
    {"waits that timed out", offsetof(struct figures, wait_timeouts), 2500},
    {"second fencing phases", offsetof(struct figures, second_phases), 200},
    {"keys handed over", offsetof(struct figures, handovers), 3000},
    {"messages", offsetof(struct figures, messages), 20000},
    {"repaired keys", offsetof(struct figures, repairs), 400},
    {"writes to the register", offsetof(struct figures, writes), 8000},
    {"writes that it rejected", offsetof(struct figures, writes_rejected), 500},
    {"stalls", offsetof(struct figures, stalls), 500},
    {"holds entered again by their owner", offsetof(struct figures, reentered), 100},
    {"requests repeated that had their lock", offsetof(struct figures, repeated), 6},
    {"requests that a repeat took the place of", offsetof(struct figures, superseded), 100},
    {"bound callers that left", offsetof(struct figures, unbound), 100},
    {"bound callers that did not read", offsetof(struct figures, stuck), 10},
    {"jumps of agents' wall clocks", offsetof(struct figures, wall_jumps), 500},
    {"ttls out of range", offsetof(struct figures, bad_ttls), 200},
    {"reloads", offsetof(struct figures, reloads), 300},
#ifdef TIGHT_LIMITS
    {"steps that their effects cut short", offsetof(struct figures, full_steps), 100},
#endif
};

/* The same if masters forget. The guard costs grants, and fewer grants lower all other figures. */
static const struct minimum exercised_forgetful[] = {
    {"times that a master forgot everything", offsetof(struct figures, forgotten), 2500},
    {"votes that the guard withheld", offsetof(struct figures, guarded), 20000},
};

/* The same of locks that native commands may take (R24). */
static const struct minimum exercised_native[] = {
    {"calls of native commands", offsetof(struct figures, natives), 20000},
    {"their grants", offsetof(struct figures, natives_granted), 10000},
};
/* The same if some tables are small. No request is refused if all keys are fair. */
static const struct minimum exercised_crowded[] = {
    {"requests that full tables turned away", offsetof(struct figures, crowded), 500},
};

/* Minima if one master gets numbers that no agent granted. */
static const struct minimum exercised_wild[] = {
    {"votes that a wild number withheld", offsetof(struct figures, spoiled), 1000},
};

/* Minima if other locks raise the buckets. */
static const struct minimum exercised_neighbours[] = {
    {"second fencing phases", offsetof(struct figures, second_phases), 5000},
};

/* Minima if masters can compare and delete (R24). */
static const struct minimum exercised_compares[] = {
    {"releases by native commands", offsetof(struct figures, natives_released), 3000},
};

/* Minima if keys are followed (D3.8). */
static const struct minimum exercised_followers[] = {
    {"lines of followers", offsetof(struct figures, told), 30000},
    {"of them of held keys", offsetof(struct figures, told_held), 10000},
};

/* Minima if PUTs change labels (D3.9). */
static const struct minimum exercised_labels[] = {
    {"PUTs that name a label", offsetof(struct figures, labels_named), 1000},
    {"of them answered by the hold's agent", offsetof(struct figures, labels_taken), 500},
};

/* Minima if masters are away in turn, and there is no other fault. */
static const struct minimum exercised_in_turn[] = {
    {"grants", offsetof(struct figures, grants), 5000},
    {"renewals", offsetof(struct figures, renewals), 20000},
    {"repaired keys", offsetof(struct figures, repairs), 2000},
};

/* Minima if agents are cut off from one master or two, and there is no other fault. */
static const struct minimum exercised_apart[] = {
    {"grants", offsetof(struct figures, grants), 15000},
    {"renewals", offsetof(struct figures, renewals), 12000},
    {"renewal rounds that failed", offsetof(struct figures, renewal_failures), 1000},
    {"repaired keys", offsetof(struct figures, repairs), 700},
    {"releases with a master unreachable", offsetof(struct figures, releases_partial), 3000},
};

/* Minima if few rounds may be in flight (R16). */
static const struct minimum exercised_few_rounds[] = {
    {"grants", offsetof(struct figures, grants), 5000},
    {"rounds that waited for a place", offsetof(struct figures, lined_up), 20000},
    {"requests that waited for a place in vain", offsetof(struct figures, overloaded), 5},
};

/* Minima if keys have several slots (R20). */
static const struct minimum exercised_semaphores[] = {
    {"grants", offsetof(struct figures, grants), 10000},
    {"keys handed over", offsetof(struct figures, handovers), 5000},
    {"slots that were not the first one tried", offsetof(struct figures, searched), 200},
    {"messages of releases", offsetof(struct figures, messages), 10000},
    {"adopted holds", offsetof(struct figures, adoptions), 5},
};

/* Minima if a single master has replicas (R21). */
static const struct minimum exercised_replicas[] = {
    {"grants", offsetof(struct figures, grants), 2000},
    {"renewals", offsetof(struct figures, renewals), 1000},
    {"votes that too few replicas had", offsetof(struct figures, unreplicated), 2000},
    {"replicas promoted", offsetof(struct figures, failovers), 500},
    {"of them by a master that stays the same server", offsetof(struct figures, failbacks), 100},
    {"votes that the guard withheld", offsetof(struct figures, guarded), 5000},
    {"repaired keys", offsetof(struct figures, repairs), 100},
};

/* Minima if clocks do not keep the assumptions (A1, A3). */
static const struct minimum exercised_clocks[] = {
    {"grants", offsetof(struct figures, grants), 10000},
    {"renewals", offsetof(struct figures, renewals), 10000},
    {"agents paused with their clocks", offsetof(struct figures, pauses), 1000},
    {"steps of masters' clocks", offsetof(struct figures, clock_jumps), 1000},
    {"readings of masters' clocks", offsetof(struct figures, readings), 100000},
    {"losses by clocks", offsetof(struct figures, lost[REASON_CLOCK_STOPPED]), 100},
    {"losses by a stall", offsetof(struct figures, lost[REASON_STALLED]), 20},
    {"repaired keys", offsetof(struct figures, repairs), 200},
};

/* Minima if seeds draw their themes. */
static const struct minimum exercised_mixed[] = {
    {"grants", offsetof(struct figures, grants), 5000},
    {"losses", offsetof(struct figures, losses), 300},
    {"renewals", offsetof(struct figures, renewals), 2000},
    {"adoptions", offsetof(struct figures, adoptions), 80},
    {"repaired keys", offsetof(struct figures, repairs), 200},
    {"keys handed over", offsetof(struct figures, handovers), 500},
    {"calls that acquire several locks", offsetof(struct figures, shared_acquires), 80},
    {"votes that the guard withheld", offsetof(struct figures, guarded), 5000},
    {"votes that tickets withheld", offsetof(struct figures, queued), 2000},
    {"grants of reads beside another one", offsetof(struct figures, read_together), 100},
    {"grants of the Java service", offsetof(struct figures, java_grants), 20},
};

/* Minima if keys are shared with a Java service (R22). */
static const struct minimum exercised_redisson[] = {
    {"grants", offsetof(struct figures, grants), 5000},
    {"grants of the Java service", offsetof(struct figures, java_grants), 500},
    {"keys handed over", offsetof(struct figures, handovers), 1000},
    {"renewals", offsetof(struct figures, renewals), 2000},
    {"repaired keys", offsetof(struct figures, repairs), 100},
    {"adoptions", offsetof(struct figures, adoptions), 20},
};

/* Minima if an operator unlocks holds (R25). */
static const struct minimum exercised_operator[] = {
    {"grants", offsetof(struct figures, grants), 5000},
    {"renewals", offsetof(struct figures, renewals), 2000},
    {"repaired keys", offsetof(struct figures, repairs), 100},
    {"holds that were unlocked", offsetof(struct figures, unlocked), 500},
    {"losses by that", offsetof(struct figures, lost[REASON_UNLOCKED]), 100},
    {"unlocks that deleted too few keys", offsetof(struct figures, unlocked_in_part), 500},
    {"holds that a quorum confirmed after that", offsetof(struct figures, unlocked_in_vain), 0},
};

/* Minima if keys are read and written (R17). */
static const struct minimum exercised_rw[] = {
    {"grants", offsetof(struct figures, grants), 5000},
    {"of them reads", offsetof(struct figures, reads_granted), 2000},
    {"of them beside another one", offsetof(struct figures, read_together), 1000},
    {"requests of readers to write as well", offsetof(struct figures, upgrades), 50},
    {"renewals", offsetof(struct figures, renewals), 2000},
    {"repaired keys", offsetof(struct figures, repairs), 200},
    {"adoptions", offsetof(struct figures, adoptions), 20},
    {"losses", offsetof(struct figures, losses), 150},
    {"votes that tickets withheld", offsetof(struct figures, queued), 5000},
    {"withdrawn tickets", offsetof(struct figures, withdrawn), 1000},
    {"second fencing phases", offsetof(struct figures, second_phases), 200},
};

/* The same if the order is fair, as it is with every fourth seed, or with all. */
static const struct minimum exercised_fair[] = {
    {"votes that tickets withheld", offsetof(struct figures, queued), 20000},
    {"withdrawn tickets", offsetof(struct figures, withdrawn), 2000},
};

enum { FORGETFUL_PERCENT = 50, FAIR_PERCENT = 25, ALL_FAIR_PERCENT = 50, BESIDE_PERCENT = 30 };

static struct world world;
static bool expects_violation;
/* The property that must catch a broken rule: C1..C20, or `assertion`; NULL: any. */
static const char *expected;

/* Reports a failed assertion of the core with the seed, and as a catch if one is expected. */
_Noreturn void lockcore_assert_failed(const char *expression, const char *file, int line)
{
    bool caught = expects_violation && (expected == NULL || strcmp(expected, "assertion") == 0);
    printf("seed %llu: at %.6f s: assertion: %s (%s:%d)\n", (unsigned long long)world.seed,
           (double)world.now / 1e6, expression, file, line);
    if (caught)
        printf("caught by assertion with seed %llu\n", (unsigned long long)world.seed);
    exit(caught ? 0 : 1);
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

/* Returns how many figures are too small; with few runs none is. */
static unsigned print_some(const struct minimum *minima, size_t count, uint64_t runs,
                           uint64_t percent)
{
    unsigned idle = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = figure(minima[i].offset);
        bool enough = runs < 500 || value * 100000 >= minima[i].least * runs * percent;
        printf("%10llu %s%s\n", (unsigned long long)value, minima[i].name,
               enough ? "" : ": too few, nothing was proved");
        idle += !enough;
    }
    return idle;
}

#ifdef TIGHT_LIMITS
enum { TIGHT = 1 };
#else
enum { TIGHT = 0 };
#endif

/* R9: Prints how many releases reached waiters. Late ones must be few: waiters seldom split the
 * vote. */
static unsigned print_wakes(uint64_t runs)
{
    uint64_t wakes = world.figures.wakes, late = world.figures.wakes_late;
    bool few = runs >= 500 && wakes < runs / (TIGHT ? 50 : 2),
         slow = runs >= 500 && late * 100 > wakes;
    printf("%10llu releases that others waited for, %llu of them heard late%s\n",
           (unsigned long long)wakes, (unsigned long long)late,
           few    ? ": too few, nothing was proved"
           : slow ? ": too many"
                  : "");
    return few + slow;
}

/* R9: agents that wait have their turns one after the other. */
static unsigned print_turns(uint64_t runs)
{
    uint64_t turns = world.figures.turns, passed_over = world.figures.turns_passed_over;
    bool few = runs >= 500 && turns < runs * 5, many = runs >= 500 && passed_over * 5 > turns;
    printf("%10llu turns of agents, by %llu of them another one was passed over%s\n",
           (unsigned long long)turns, (unsigned long long)passed_over,
           few    ? ": too few, nothing was proved"
           : many ? ": too many"
                  : "");
    return few + many;
}

static unsigned print_figures(uint64_t runs, double seconds)
{
    bool forgetful = world.switches.forgetful, fair = world.switches.fair || world.switches.rw,
         has_others = world.switches.unlocks || world.switches.followers;
    printf("%llu schedules, %.0f a second, %llu steps, %.0f s of virtual time\n",
           (unsigned long long)runs, (double)runs / seconds,
           (unsigned long long)world.figures.steps, (double)world.figures.virtual_us / 1e6);
    if (world.switches.mixed)
        return print_some(exercised_mixed, sizeof exercised_mixed / sizeof exercised_mixed[0], runs,
                          100) +
               themes_print(&world, runs);
    if (world.switches.in_turn)
        return print_some(exercised_in_turn, sizeof exercised_in_turn / sizeof exercised_in_turn[0],
                          runs, 100);
    if (world.switches.apart)
        return print_some(exercised_apart, sizeof exercised_apart / sizeof exercised_apart[0], runs,
                          100);
    if (world.switches.many_wait && !world.switches.semaphores) /* A slot is no agent's turn. */
        return print_turns(runs);
    if (world.switches.clocks)
        return print_some(exercised_clocks, sizeof exercised_clocks / sizeof exercised_clocks[0],
                          runs, 100);
    if (world.switches.replicas)
        return print_some(exercised_replicas,
                          sizeof exercised_replicas / sizeof exercised_replicas[0], runs, 100);
    if (world.switches.redisson)
        return print_some(exercised_redisson,
                          sizeof exercised_redisson / sizeof exercised_redisson[0], runs, 100);
    if (world.switches.semaphores)
        return print_some(exercised_semaphores,
                          sizeof exercised_semaphores / sizeof exercised_semaphores[0], runs, 100);
    if (world.switches.few_rounds)
        return print_some(exercised_few_rounds,
                          sizeof exercised_few_rounds / sizeof exercised_few_rounds[0], runs, 100);
    if (world.switches.rw)
        return print_some(exercised_rw, sizeof exercised_rw / sizeof exercised_rw[0], runs,
                          forgetful ? FORGETFUL_PERCENT : 100) +
               print_wakes(runs);
    unsigned idle = print_some(exercised, sizeof exercised / sizeof exercised[0], runs,
                               has_others  ? BESIDE_PERCENT
                               : forgetful ? FORGETFUL_PERCENT
                               : fair      ? ALL_FAIR_PERCENT
                                           : 100);
    if (world.switches.wild)
        idle +=
            print_some(exercised_wild, sizeof exercised_wild / sizeof exercised_wild[0], runs, 100);
    if (world.switches.unlocks)
        idle += print_some(exercised_operator,
                           sizeof exercised_operator / sizeof exercised_operator[0], runs, 100);
    if (world.switches.labels)
        idle += print_some(exercised_labels, sizeof exercised_labels / sizeof exercised_labels[0],
                           runs, 100);
    if (world.switches.neighbours)
        idle += print_some(exercised_neighbours,
                           sizeof exercised_neighbours / sizeof exercised_neighbours[0], runs, 100);
    if (world.switches.followers)
        idle += print_some(exercised_followers,
                           sizeof exercised_followers / sizeof exercised_followers[0], runs, 100);
    if (world.switches.compares)
        idle += print_some(exercised_compares,
                           sizeof exercised_compares / sizeof exercised_compares[0], runs, 100);
    if (forgetful)
        idle += print_some(exercised_forgetful,
                           sizeof exercised_forgetful / sizeof exercised_forgetful[0], runs, 100);
    idle += print_wakes(runs);
    if (!fair)
        idle += print_some(exercised_crowded,
                           sizeof exercised_crowded / sizeof exercised_crowded[0], runs, 100) +
                print_some(exercised_native, sizeof exercised_native / sizeof exercised_native[0],
                           runs, forgetful ? FORGETFUL_PERCENT : 100);
    idle += print_some(exercised_fair, sizeof exercised_fair / sizeof exercised_fair[0], runs,
                       fair ? 100 : FAIR_PERCENT / 2);
    return idle;
}

static int replay(uint64_t seed)
{
    world.verbose = true;
    world_run(&world, seed);
    printf("seed %llu: %s\n", (unsigned long long)seed,
           world.violation[0] == '\0' ? "no violation" : world.violation);
    return world.violation[0] != '\0';
}

/* True when the run that just ended caught the broken rule as it should. */
static bool is_caught(void)
{
    if (world.violation[0] == '\0')
        return false;
    printf("seed %llu: %s\n", (unsigned long long)world.seed, world.violation);
    return expected == NULL || strcmp(expected, world.property) == 0;
}

static int search(uint64_t from, uint64_t runs)
{
    for (uint64_t i = 0; i < runs; i++) {
        world_run(&world, from + i);
        if (is_caught()) {
            printf("caught by %s with seed %llu\n", world.property, (unsigned long long)world.seed);
            return 0;
        }
    }
    printf("%llu schedules, and the broken rule was not noticed\n", (unsigned long long)runs);
    return 1;
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
    }
    failed += print_figures(world.figures.runs, cpu_seconds() - begin);
    printf("%llu passed, %llu failed\n", (unsigned long long)(runs > failed ? runs - failed : 0),
           (unsigned long long)failed);
    return failed != 0;
}

static int usage(void)
{
    fputs(
        "usage: sim [OPTION...] SEED           replay one seed, with its timeline\n"
        "       sim [OPTION...] --runs N       run many, print figures; fails on a violation or "
        "when too little "
        "happened\n"
        "           [--from SEED]              the first of them (1)\n"
        "           [--keep-going N]           stop only after N violations\n"
        "           [--expect-violation]       stop at the first one; fails unless there is one\n"
        "           [--caught-by PROPERTY]     the same, by this property (C1..C20, assertion)\n"
        "options:   --forgetful                masters lose their keys, and the guard sees to it\n"
        "           --fair                     callers are served in the order in which they came, "
        "with every seed\n"
        "           --rw                       keys are read and written, with every seed\n"
        "           --roaming                  callers go to several living agents with one token\n"
        "           --in-turn                  nothing fails but that each master is away once, "
        "for longer than a "
        "lease\n"
        "           --apart                    nothing fails but that each agent is cut off from "
        "one master or two, for longer than a lease\n"
        "           --few-rounds               so few rounds may be in flight that most of them "
        "wait "
        "for a place\n"
        "           --many-wait                more wait for one key at each agent than its turn "
        "is long, "
        "and the order is any\n"
        "           --semaphores               keys have several slots\n"
        "           --clocks                   agents are paused with their clocks, and masters' "
        "clocks step\n"
        "           --replicas                 a single master WAITs for replicas, which freeze "
        "and are promoted\n"
        "           --redisson                 keys are shared with a Java service\n"
        "           --kinds                    each key has its own kind\n"
        "           --mixed                    the seed draws which of these are on (themes.c)\n"
        "           --wild-numbers             one master has numbers that no agent granted\n"
        "           --operator                 an operator unlocks holds by hand\n"
        "           --labels                   PUTs change labels\n"
        "           --neighbours               locks of other names raise the buckets\n"
        "           --followers                each agent follows each key\n"
        "           --compare-delete           masters release locks without a script\n"
        "           --break ASSUMPTION         drift | data-loss | rollback | clock-jump | "
        "disagreement | pause |\n"
        "                                      forgotten-release\n"
        "           --keep ASSUMPTION          the same schedules with the assumption kept\n"
        "           --draw-more                one draw more from streams that no agent sees: the "
        "timeline stays\n"
        "rules that others than the core keep, broken:\n"
        "           --answers-unchecked  --register-accepts-all  --waits-without-message\n"
        "           --replace FILE TEXT BY     in the scripts: FILE is the name of one of "
        "agent/redis/*.lua\n",
        stderr);
    return 2;
}

static bool name_assumption(const char *name, bool kept)
{
    static const char *const names[] = {
        "",           "drift",        "data-loss", "rollback",
        "clock-jump", "disagreement", "pause",     "forgotten-release"};
    for (unsigned i = 1; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            world.switches.broken = (enum assumption)i;
    world.switches.kept = kept;
    return world.switches.broken != ASSUME_ALL;
}

static bool turn_switch(const char *name)
{
    struct switches *switches = &world.switches;
    bool *theme = themes_find(switches, name);
    if (theme != NULL) {
        *theme = true;
        return true;
    }
    const struct {
        const char *name;
        bool *value;
    } table[] = {
        {"--mixed", &switches->mixed},
        {"--draw-more", &switches->draws_more},
        {"--answers-unchecked", &switches->answers_unchecked},
        {"--register-accepts-all", &switches->register_accepts_all},
        {"--waits-without-message", &switches->waits_without_message},
        {"--expect-violation", &expects_violation},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(name, table[i].name) == 0) {
            *table[i].value = true;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    uint64_t runs = 0, from = 1, keep_going = 0, seed = 0;
    struct replacement replacement = {NULL, NULL, NULL};
    world_init(&world);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (turn_switch(argv[i]))
            continue;
        if (strcmp(argv[i], "--runs") == 0)
            runs = strtoull(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--from") == 0)
            from = strtoull(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--keep-going") == 0)
            keep_going = strtoull(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--caught-by") == 0)
            expected = value, expects_violation = true, i++;
        else if (strcmp(argv[i], "--break") == 0 && name_assumption(value, /* kept= */ false))
            i++;
        else if (strcmp(argv[i], "--keep") == 0 && name_assumption(value, /* kept= */ true))
            i++;
        else if (strcmp(argv[i], "--replace") == 0 && i + 3 < argc) {
            replacement = (struct replacement){argv[i + 1], argv[i + 2], argv[i + 3]};
            i += 3;
        } else if (argv[i][0] >= '0' && argv[i][0] <= '9')
            seed = strtoull(argv[i], NULL, 10);
        else
            return usage();
    }
    if (runs == 0 && seed == 0)
        return usage();
    const char *a, *b, *clash = themes_clash(&world.switches, &a, &b);
    if (clash != NULL) {
        fprintf(stderr, "%s and %s exclude each other: %s\n", a, b, clash);
        return 2;
    }
    world.switches.forgetful |= world.switches.replicas;
    const char *why = master_load(&world, replacement.file == NULL ? NULL : &replacement);
    if (why != NULL) {
        fprintf(stderr, "%s: %s\n", replacement.file, why);
        return 2;
    }
    if (runs == 0)
        return replay(seed);
    return expects_violation ? search(from, runs) : run_many(from, runs, keep_going);
}
