/* Chance as the driver of the guard's world: draws the conditions and the faults of a run from its
 * seed. */
#include "tests/guard/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_RUNS = 50, SKEW_MS = 400, LONG_TTL_MS = 20000 };

static int64_t between(struct world *world, int64_t low, int64_t high)
{
    return prng_between(&world->prng, low, high);
}

/* The layouts of one group: two, or three, which are no neighbours of each other. */
static const struct {
    uint8_t masters, quorum, count;
    const char *layouts[3];
    master_set unnamed[3]; /* masters that a layout does not name */
    bool apart, slots;     /* as of the world */
} sets[] = {
    {5, 2, 2, {"w1 2 lock:=mutex a b c", "w1 2 lock:=mutex a d e"}, {24, 6}, true, false},
    {4, 2, 2, {"w1 2 lock:=mutex a b c", "w1 2 lock:=mutex a b d"}, {8, 4}, true, false},
    {3, 2, 2, {"w1 2 lock:=mutex a b c", "w1 2 lock:=permits-2 a b c"}, {0, 0}, true, true},
    {4, 3, 2, {"w1 2 lock:=mutex a b c", "w1 3 lock:=mutex a b c d"}, {8, 0}, false, false},
    {5,
     2,
     3,
     {"w1 2 lock:=mutex a b c", "w1 2 lock:=mutex a b d", "w1 2 lock:=mutex a c e"},
     {24, 20, 10},
     true,
     false},
};

/* Agents that live long name little. */
static uint32_t draw_max_ttl(struct world *world, uint8_t a)
{
    static const uint32_t ms[] = {1000, 2000, 5000, 5000};
    if (!world->unequal || world->a6 == A6_KEPT)
        return world->agents[0].max_ttl_ms;
    if (a != 0 && world->now_us < world->chaos_until_us / 2 && prng_percent(&world->prng, 25))
        return LONG_TTL_MS;
    return ms[prng_below(&world->prng, a == 0 ? 2 : 4)];
}

static void draw_layout(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    agent->layout = (uint8_t)prng_below(&world->prng, sets[world->set].count);
    world->layouts[a] = sets[world->set].layouts[agent->layout];
    for (uint8_t m = 0; m < world->master_count; m++)
        agent->links[m].blocked_until_us =
            sets[world->set].unnamed[agent->layout] >> m & 1 ? INT64_MAX : 0;
}

void draw_life(struct world *world, uint8_t a)
{
    world->agents[a].max_ttl_ms = draw_max_ttl(world, a);
    if (world->theme == THEME_LAYOUTS)
        draw_layout(world, a);
}

static uint8_t any_agent(struct world *world)
{
    return (uint8_t)prng_below(&world->prng, world->agent_count);
}

static uint8_t any_master(struct world *world)
{
    return (uint8_t)prng_below(&world->prng, world->master_count);
}

static void draw_links(struct world *world, struct sim_agent *agent)
{
    for (uint8_t m = 0; m < world->master_count; m++) {
        struct link *link = &agent->links[m];
        *link = (struct link){.latency_us = prng_percent(&world->prng, 70)
                                                ? between(world, 30, 500)
                                                : between(world, 500, 30 * MS)};
        if (world->theme != THEME_LAYOUTS && prng_percent(&world->prng, 60))
            link->first_connect_us = between(world, 0, 1500 * MS);
        if (world->theme == THEME_LEASES && prng_percent(&world->prng, 25))
            link->blocked_until_us = between(world, 0, world->chaos_until_us);
    }
}

static void draw_agents(struct world *world)
{
    static const uint32_t ms[] = {1000, 1000, 2000, 5000},
                          of_layouts[] = {1000, 2000, 5000, LONG_TTL_MS};
    world->agents[0].max_ttl_ms =
        (world->theme == THEME_LAYOUTS ? of_layouts : ms)[prng_below(&world->prng, 4)];
    for (uint8_t a = 0; a < world->agent_count; a++) {
        struct sim_agent *agent = &world->agents[a];
        agent->idle = prng_percent(&world->prng, 20);
        agent->start_us = prng_percent(&world->prng, 30) ? 0 : between(world, 0, 2000 * MS);
        draw_links(world, agent);
        world_plan(world, agent->start_us, (struct happening){.kind = HAPPEN_START, .agent = a});
    }
}

/* An old group: every master has its marker and votes. */
static void draw_past(struct world *world)
{
    for (uint8_t m = 0; m < world->master_count; m++) {
        char epoch[24];
        snprintf(epoch, sizeof(epoch), "%016" PRIx64, prng_next(&world->prng));
        world_trust(world, m, epoch);
    }
}

static void draw_happenings(struct world *world, enum happening_kind kind, unsigned most,
                            int64_t by_ms)
{
    for (unsigned i = (unsigned)prng_below(&world->prng, most + 1); i > 0; i--)
        world_plan(world, between(world, 0, world->chaos_until_us),
                   (struct happening){.kind = kind,
                                      .agent = any_agent(world),
                                      .master = any_master(world),
                                      .how = (uint8_t)prng_below(&world->prng, 2),
                                      .by_ms = by_ms ? between(world, 300, by_ms) : 0});
}

static enum forgetting draw_how(struct world *world)
{
    if (world->theme == THEME_COPIES && prng_percent(&world->prng, 50))
        return COPIED;
    enum forgetting how = (enum forgetting)prng_below(&world->prng, FORGETTINGS);
    return how == COPIED ? FLUSHED : how;
}

/* Masters forget by themselves, and sometimes several within moments. */
static void draw_forgetting(struct world *world)
{
    bool fresh = world->theme == THEME_FRESH, turn = world->theme != THEME_FORGETFUL && !fresh;
    unsigned bursts = (unsigned)between(world, fresh ? 0 : 1, fresh ? 2 : turn ? 14 : 8);
    for (unsigned i = 0; i < bursts; i++) {
        int64_t at_us = between(world, 0, world->chaos_until_us);
        enum forgetting how = draw_how(world);
        unsigned masters = turn ? 1 : (unsigned)between(world, 1, world->master_count);
        for (unsigned k = 0; k < masters; k++)
            world_plan(world,
                       at_us +
                           between(world, 0, prng_percent(&world->prng, 50) ? 3 * MS : 3000 * MS),
                       (struct happening){.kind = HAPPEN_FORGET,
                                          .how = (uint8_t)how,
                                          .from = any_master(world),
                                          .master = any_master(world)});
    }
}

/* Draws the faults of a group whose agents have two layouts. If these are no neighbours, R23 needs
 * a master that both name, that all agents reach, and that forgets nothing (A4). */
static void draw_layout_faults(struct world *world)
{
    master_set named_once = 0;
    for (unsigned i = 0; i < sets[world->set].count; i++)
        named_once |= sets[world->set].unnamed[i];
    draw_happenings(world, HAPPEN_CRASH, 12, 0);
    draw_happenings(world, HAPPEN_FREEZE, 6, 20000); /* longer than most layouts are noted for */
    if (!world->apart)
        draw_forgetting(world);
    for (unsigned i = (unsigned)prng_below(&world->prng, 20); i > 0; i--) {
        static const enum happening_kind kinds[] = {HAPPEN_DROP, HAPPEN_PAUSE, HAPPEN_FULL};
        uint8_t m = any_master(world);
        if (!world->apart || named_once >> m & 1)
            world_plan(world, between(world, 0, world->chaos_until_us),
                       (struct happening){.kind = kinds[prng_below(&world->prng, 3)],
                                          .agent = any_agent(world),
                                          .master = m});
    }
}

static void draw_group(struct world *world, enum theme theme, enum a6 a6, uint64_t seed)
{
    static struct keyspace *keys[LIMIT_MASTERS];
    static const unsigned sizes[] = {1, 2, 3, 3, 4, 5, 5};
    struct prng prng = {seed * 8 + theme};
    bool needs_witnesses = theme != THEME_FRESH && theme != THEME_FORGETFUL;
    bool durable = prng_percent(&prng, 50), hides_run = prng_percent(&prng, 10);
    unsigned from = needs_witnesses ? 1 : 0, masters = sizes[from + prng_below(&prng, 7 - from)];
    bool all = masters == 2 || prng_percent(&prng, 10); /* multilock */
    unsigned quorum = all ? masters : masters / 2 + 1;
    uint8_t set = 0;
    if (theme == THEME_LAYOUTS) {
        set = (uint8_t)prng_below(&prng, sizeof(sets) / sizeof(sets[0]));
        masters = sets[set].masters;
        quorum = sets[set].quorum;
    }
    world_clear(world, masters, quorum);
    world->theme = theme;
    world->a6 = a6;
    world->durable = durable;
    world->hides_run = hides_run;
    world->unequal = theme == THEME_LEASES || a6 != A6_EXCUSES;
    world->clocks_step = theme == THEME_IN_TURN || theme == THEME_FORGETFUL;
    world->set = set;
    world->apart = theme == THEME_LAYOUTS && sets[set].apart;
    world->slots = theme == THEME_LAYOUTS && sets[set].slots;
    for (uint8_t m = 0; m < masters; m++) {
        if (!keys[m])
            keys[m] = keyspace_new();
        keyspace_clear(keys[m]);
        world->masters[m].keys = keys[m];
        world->masters[m].skew_ms = prng_between(&prng, -SKEW_MS, SKEW_MS);
    }
    world->prng = prng;
}

static void draw_run(struct world *world, const struct options *options, uint64_t seed)
{
    draw_group(world, options->theme, options->a6, seed);
    world->adopts_while_refused = options->adopts_while_refused;
    bool leases = world->theme == THEME_LEASES, in_turn = world->theme == THEME_IN_TURN,
         layouts = world->theme == THEME_LAYOUTS;
    world->agent_count = (unsigned)between(world, leases || layouts ? 2 : 1, AGENTS_MAX);
    world->chaos_until_us = (int64_t)(leases ? 70000 : 25000) * MS;
    /* The longest guard, a guess behind it, and a master that was out of reach before. Of three
     * layouts two may keep each other out once more, when both have forgotten the third (R23). */
    world->end_us = world->chaos_until_us + (int64_t)(leases    ? LONG_TTL_MS + 22000
                                                      : layouts ? 105000
                                                                : 42000) *
                                                MS;
    draw_agents(world);
    if (world->theme != THEME_FRESH)
        draw_past(world);
    if (layouts) {
        draw_layout_faults(world);
        return;
    }
    draw_happenings(world, HAPPEN_DROP, in_turn ? 60 : 30, 0);
    draw_happenings(world, HAPPEN_CRASH, leases ? 8 : 4, 0);
    draw_happenings(world, HAPPEN_PAUSE, 4, 0);
    draw_happenings(world, HAPPEN_FREEZE, in_turn ? 6 : 2, leases ? 5000 : 12000);
    draw_happenings(world, HAPPEN_FULL, 2, 0);
    if (world->clocks_step)
        draw_happenings(world, HAPPEN_CLOCK, 12, 0);
    if (world->theme == THEME_COPIES)
        draw_happenings(world, HAPPEN_SPOIL, 2, 0);
    draw_forgetting(world);
}

/* ---- runs ---- */

static void run_seed(struct world *world, const struct options *options, uint64_t seed)
{
    draw_run(world, options, seed);
    world_say(world, "%s group of %u, quorum %u, %u agents",
              world->durable ? "a durable" : "a not durable", world->master_count, world->quorum,
              world->agent_count);
    if (setjmp(world_asserted) != 0)
        return;
    while (world->waiting > 0 && !*world->violation) {
        struct happening h = world_remove(world, 0);
        if (h.at_us > world->end_us)
            break;
        world->now_us = h.at_us;
        world_take(world, &h);
    }
    if (!*world->violation)
        check_end(world);
}

/* The events of each theme that must have happened: minimum counts for two runs. */
static const struct counts least[THEME_COUNT] = {
    [THEME_FRESH] = {.guessed = 2, .answered = 10},
    [THEME_IN_TURN] = {.told = 2, .answered = 20, .raised = 2},
    [THEME_FORGETFUL] = {.told = 2, .guessed = 1},
    [THEME_COPIES] = {.copies = 2, .told = 2},
    [THEME_LEASES] = {.told = 2, .fallen = 1},
    [THEME_LAYOUTS] = {.answered = 10, .refused = 2, .adopted = 1},
};

bool chance_runs(const struct options *options)
{
    static struct world world;
    const struct counts *sum = &world.count;
    uint64_t passed = 0, failed = 0;
    world.told = options->told;
    for (uint64_t seed = options->from; seed < options->from + options->runs; seed++) {
        run_seed(&world, options, seed);
        if (!*world.violation) {
            passed++;
            continue;
        }
        failed++;
        printf("seed %llu: at %.3f s: %s: %s\n", (unsigned long long)seed,
               (double)world.now_us / 1e6, world.violation, world.why);
        if (options->expects &&
            (!options->caught_by || strcmp(options->caught_by, world.violation) == 0)) {
            printf("caught by %s with seed %llu\n", world.violation, (unsigned long long)seed);
            return true;
        }
    }
    printf("%u times a master forgot (%u copies), %u were told, %u voted by a guess; %u numbers "
           "were answered, %u of them raised; max_ttl fell %u times; layouts refused %u attempts; "
           "%u locks were adopted\n",
           sum->forgets, sum->copies, sum->told, sum->guessed, sum->answered, sum->raised,
           sum->fallen, sum->refused, sum->adopted);
    bool thin = !options->expects && options->runs >= LEAST_RUNS &&
                check_is_thin(sum, &least[options->theme], (unsigned)options->runs / 2);
    printf("%s%llu passed, %llu failed\n", thin ? "too little happened\n" : "",
           (unsigned long long)passed, (unsigned long long)failed);
    return !options->expects && !thin && failed == 0;
}
