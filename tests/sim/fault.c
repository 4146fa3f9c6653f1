/* What goes wrong in a run: partitions, resets, paused and restarting masters, stalled and crashing
 * agents; and the healing. */
#include "world.h"

enum fault_kind {
    FAULT_PARTITION, /* one agent from one master */
    FAULT_ISOLATION, /* one agent from all masters, or one master from all agents */
    FAULT_SPLIT,     /* some agents from a majority of the masters */
    FAULT_RESET,
    FAULT_PAUSE,
    FAULT_RESTART,
    FAULT_STALL,
    FAULT_CRASH,
    FAULT_END,
    FAULT_JUMP,
    FAULT_FLUSH,
    FAULT_WALL, /* an agent's wall clock is set */
    FAULT_SNAPSHOT,
    FAULT_RELOAD,      /* no fault: an agent reads its configuration again */
    FAULT_FREEZE,      /* a replica stops for a while */
    FAULT_FAILOVER,    /* A replica takes the place of its master, or gives it its data (R21). */
    FAULT_CLOCK_PAUSE, /* an agent and its clocks stop for a while */
    FAULT_CLOCK_JUMP,  /* a master's clock steps, and masters that share its mistake follow */
    FAULT_WILD,        /* A bucket gets a number that no agent granted. */
    FAULT_NEIGHBOUR,   /* no fault: a lock of another name raises a bucket on one master */
};

struct fault {
    enum fault_kind kind;
    uint8_t agent, master, key;
    bool out, back;           /* the cuts: which ways */
    uint16_t agents, masters; /* the cuts: between whom */
    uint8_t flaps;            /* the cuts: how often they come back */
    int64_t us;
};

enum { FLAPS_MAX = 8, WALL_NEAR_US = 450000, RECONNECTED_US = 600000 };

static uint16_t random_subset(struct world *w, unsigned size, unsigned of)
{
    uint16_t set = 0;
    for (unsigned left = size; left > 0;) {
        uint16_t bit = (uint16_t)(1u << prng_below(&w->faults, of));
        left -= (set & bit) == 0;
        set |= bit;
    }
    return set;
}

static void draw_cut(struct world *w, struct fault *fault)
{
    const struct options *o = &w->options;
    fault->agents = (uint16_t)(1u << fault->agent);
    fault->masters = (uint16_t)(1u << fault->master);
    if (fault->kind == FAULT_ISOLATION && prng_percent(&w->faults, 50))
        fault->agents = (uint16_t)((1u << o->agents) - 1);
    else if (fault->kind == FAULT_ISOLATION)
        fault->masters = (uint16_t)((1u << o->masters) - 1);
    if (fault->kind == FAULT_SPLIT) {
        fault->agents =
            random_subset(w, (unsigned)prng_between(&w->faults, 1, o->agents), o->agents);
        fault->masters = random_subset(w, o->masters / 2u + 1, o->masters);
    }
    if (prng_percent(&w->faults, o->flapping)) {
        fault->flaps = (uint8_t)prng_between(&w->faults, 1, FLAPS_MAX);
        fault->us /= fault->flaps;
    }
}

static void plan(struct world *w, enum fault_kind kind, unsigned count)
{
    int64_t ttl_us = (int64_t)w->options.ttl_ms_max * 1000;
    for (unsigned i = 0; i < count; i++) {
        struct fault *fault = world_allocate(w, sizeof *fault);
        fault->kind = kind;
        fault->agent = (uint8_t)prng_below(&w->faults, w->options.agents);
        fault->master = (uint8_t)prng_below(&w->faults, w->options.masters);
        fault->out = prng_percent(&w->faults, 70);
        fault->back = !fault->out || prng_percent(&w->faults, 60);
        if (kind == FAULT_FREEZE || kind == FAULT_FAILOVER)
            fault->key = (uint8_t)prng_below(&w->faults, w->options.replicas);
        fault->us = prng_percent(&w->faults, 50)
                        ? prng_between(&w->faults, 1000, 500000)
                        : prng_between(&w->faults, 100000, ttl_us + ttl_us / 2);
        if (kind <= FAULT_SPLIT)
            draw_cut(w, fault);
        world_plan_in(w, prng_between(&w->faults, 0, w->options.chaos_us),
                      (struct happening){.kind = HAPPEN_FAULT, .what = fault});
    }
}

/* Plans a reload. It is spread without a draw, so that the other faults do not change. */
static void plan_reload(struct world *w, unsigned i)
{
    struct fault *fault = world_allocate(w, sizeof *fault);
    *fault = (struct fault){.kind = FAULT_RELOAD, .agent = (uint8_t)(i % w->options.agents)};
    world_plan_in(w, w->options.chaos_us * (i + 1) / (w->options.reloads + 1),
                  (struct happening){.kind = HAPPEN_FAULT, .what = fault});
}

void fault_plan_all(struct world *w)
{
    plan(w, FAULT_PARTITION, w->options.partitions);
    plan(w, FAULT_ISOLATION, w->options.isolations);
    plan(w, FAULT_SPLIT, w->options.splits);
    plan(w, FAULT_WALL, w->options.wall_jumps);
    plan(w, FAULT_RESET, w->options.resets);
    plan(w, FAULT_PAUSE, w->options.pauses);
    plan(w, FAULT_RESTART, w->options.restarts);
    plan(w, FAULT_STALL, w->options.stalls);
    plan(w, FAULT_CRASH, w->options.crashes);
    plan(w, FAULT_END, w->options.ends);
    if (w->switches.forgetful)
        plan(w, FAULT_FLUSH, w->options.flushes);
    if (w->switches.broken == BREAK_CLOCK_JUMP)
        plan(w, FAULT_JUMP, 8);
    if (w->switches.broken == BREAK_PAUSE)
        plan(w, FAULT_CLOCK_PAUSE, 4);
    plan(w, FAULT_CLOCK_PAUSE, w->options.clock_pauses);
    plan(w, FAULT_CLOCK_JUMP, w->options.clock_jumps);
    if (w->switches.broken == BREAK_ROLLBACK)
        plan(w, FAULT_SNAPSHOT, 16);
    if (w->switches.replicas) {
        plan(w, FAULT_FREEZE, w->options.freezes);
        plan(w, FAULT_FAILOVER, w->options.failovers);
    }
    for (unsigned i = 0; i < w->options.reloads; i++)
        plan_reload(w, i);
}

void fault_plan_wild(struct world *w)
{
    uint8_t master = (uint8_t)prng_below(&w->faults, w->options.masters);
    for (uint8_t key = 0; key < options_places(&w->options); key++) {
        struct fault *fault = world_allocate(w, sizeof *fault);
        *fault = (struct fault){.kind = FAULT_WILD, .master = master, .key = key};
        fault->out = prng_percent(&w->faults, 50);
        fault->us = prng_between(&w->faults, 0, 3);
        world_plan_in(w, prng_between(&w->faults, 0, w->options.chaos_us),
                      (struct happening){.kind = HAPPEN_FAULT, .what = fault});
    }
}

/* Out of those that a test of real masters uses too. */
static void plant_wild(struct world *w, const struct fault *fault)
{
    const uint64_t numbers[] = {9007199254740993, 9999999999999999, 99999999999999999,
                                (uint64_t)master_wall_us(w, fault->master) +
                                    FENCE_AHEAD_US / 2 * 3};
    world_say(w, "m%u: the number of k%u is %llu now%s", fault->master, fault->key,
              (unsigned long long)numbers[fault->us], fault->out ? ", and it lies on" : "");
    master_plant(w, fault->master, fault->key, numbers[fault->us], fault->out);
}

/* Plans numbers that are ahead of the master's time by as much as a top is lifted (D5.3). */
void fault_plan_neighbours(struct world *w)
{
    enum { RAISES = 20, AHEAD_US_MAX = 2000000 };
    for (uint8_t key = 0; key < options_places(&w->options); key++)
        for (unsigned i = 0; i < RAISES; i++) {
            struct fault *fault = world_allocate(w, sizeof *fault);
            *fault = (struct fault){.kind = FAULT_NEIGHBOUR, .key = key};
            fault->master = (uint8_t)prng_below(&w->faults, w->options.masters);
            fault->us = prng_between(&w->faults, 0, AHEAD_US_MAX);
            world_plan_in(w, prng_between(&w->faults, 0, w->options.chaos_us),
                          (struct happening){.kind = HAPPEN_FAULT, .what = fault});
        }
}

/* Plans absences in turn: a master is stopped, isolated or paused, with its data and in its epoch.
 * While one is away every other master is needed. So the next one stays until this one is found,
 * repaired and counts again: a back-off and four renewals (R7). */
void fault_plan_in_turn(struct world *w)
{
    static const enum fault_kind kinds[] = {FAULT_PAUSE, FAULT_RESTART, FAULT_ISOLATION};
    const struct options *o = &w->options;
    int64_t ttl_us = (int64_t)o->ttl_ms_max * 1000, at = prng_between(&w->faults, 0, 2 * ttl_us);
    uint8_t first = (uint8_t)prng_below(&w->faults, o->masters);
    for (uint8_t i = 0; i < o->masters; i++) {
        struct fault *fault = world_allocate(w, sizeof *fault);
        *fault = (struct fault){.kind = kinds[prng_below(&w->faults, 3)],
                                .master = (uint8_t)((first + i) % o->masters)};
        fault->agents = (uint16_t)((1u << o->agents) - 1);
        fault->masters = (uint16_t)(1u << fault->master);
        fault->out = fault->back = true;
        fault->us = prng_between(&w->faults, ttl_us + ttl_us / 20, 3 * ttl_us);
        world_plan_in(w, at, (struct happening){.kind = HAPPEN_FAULT, .what = fault});
        at += fault->us + RECONNECTED_US + prng_between(&w->faults, 0, ttl_us);
        if (o->masters - world_quorum(w) < 2)
            at += ttl_us + ttl_us / 2;
    }
    w->options.chaos_us = at;
}

/* Plans for each agent that one master after another, or two at a time, are out of its reach for
 * longer than a lease. So agents learn at different times that a release has deleted a key (R7),
 * and a release may delete it on too few masters. */
void fault_plan_apart(struct world *w)
{
    const struct options *o = &w->options;
    int64_t ttl_us = (int64_t)o->ttl_ms_max * 1000;
    for (uint8_t a = 0; a < o->agents; a++) {
        int64_t at = prng_between(&w->faults, 0, 2 * ttl_us);
        while (at < o->chaos_us) {
            struct fault *fault = world_allocate(w, sizeof *fault);
            *fault = (struct fault){.kind = FAULT_ISOLATION, .out = true, .back = true};
            fault->agents = (uint16_t)(1u << a);
            fault->masters = (uint16_t)(1u << prng_below(&w->faults, o->masters));
            if (prng_below(&w->faults, 4) == 0)
                fault->masters |= (uint16_t)(1u << prng_below(&w->faults, o->masters));
            fault->us = prng_between(&w->faults, ttl_us, 2 * ttl_us);
            world_plan_in(w, at, (struct happening){.kind = HAPPEN_FAULT, .what = fault});
            at += fault->us + prng_between(&w->faults, 0, ttl_us);
        }
    }
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void pause_master(struct world *w, const struct fault *fault)
{
    struct master *master = &w->masters[fault->master];
    if (master->paused || master->down)
        return;
    world_say(w, "m%u pauses for %lld us", fault->master, (long long)fault->us);
    master->paused = true;
    world_plan_in(w, fault->us, (struct happening){.kind = HAPPEN_RESUME, .master = fault->master});
}

void fault_master_resumes(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[index];
    if (!master->paused)
        return;
    world_say(w, "m%u goes on", index);
    master->paused = false;
    struct flight *flight = master->parked;
    master->parked = NULL;
    master->parked_end = &master->parked;
    while (flight != NULL) {
        struct flight *next = flight->next_parked;
        network_arrive(w, flight);
        flight = next;
    }
}

static void stop_master(struct world *w, const struct fault *fault)
{
    struct master *master = &w->masters[fault->master];
    if (master->down)
        return;
    world_say(w, "m%u stops for %lld us", fault->master, (long long)fault->us);
    master->down = true;
    master->paused = false;
    master->boot++;
    master->parked = NULL;
    master->parked_end = &master->parked;
    for (uint8_t a = 0; a < w->options.agents; a++)
        world_plan_in(
            w, prng_between(&w->faults, 0, 5000),
            (struct happening){.kind = HAPPEN_DROP,
                               .agent = a,
                               .master = fault->master,
                               .number = w->agents[a].connections[fault->master].generation});
    world_plan_in(w, fault->us, (struct happening){.kind = HAPPEN_START, .master = fault->master});
}

void fault_master_starts(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[index];
    if (!master->down)
        return;
    master->down = false;
    /* Another epoch says that keys may be gone, not that they are. */
    if (master->promoted) {
        master->promoted = false;
        w->promoted_at = w->forgot_at = master->forgot_at = w->now;
    } else if (w->switches.forgetful) {
        if (prng_percent(&w->faults, 60))
            master_forget(w, index);
    } else if (!w->switches.in_turn && prng_percent(&w->faults, 50)) {
        master->epoch++;
        master->epoch_at = w->epoch_at = w->now;
    }
    if (world_breaks(w, BREAK_DATA_LOSS))
        master_clear(w, index);
    if (world_breaks(w, BREAK_ROLLBACK))
        master_roll_back(w, index);
    replica_follow(w);
    world_say(w, "m%u is back in epoch %u", index, master->epoch);
}

/* Freezes a replica. It receives the master's later commands at the end. Often an agent loses its
 * connection to the master meanwhile: WAIT knows the writes of one connection alone. */
static void freeze_replica(struct world *w, const struct fault *fault)
{
    const struct connection *connection = &w->agents[fault->agent].connections[0];
    struct replica *replica = &w->replicas[fault->key];
    if (replica->frozen)
        return;
    world_say(w, "replica %u freezes for %lld us", fault->key, (long long)fault->us);
    replica->frozen = true;
    world_plan_in(w, fault->us, (struct happening){.kind = HAPPEN_THAW, .master = fault->key});
    /* The violation of A2 is rare, and a connection that ends would hide it. */
    if (fault->out && w->switches.broken == ASSUME_ALL)
        world_plan_in(w, fault->us / 2,
                      (struct happening){.kind = HAPPEN_DROP,
                                         .agent = fault->agent,
                                         .number = connection->generation});
}

void fault_replica_thaws(struct world *w, uint8_t index)
{
    w->replicas[index].frozen = false;
    replica_arrive(w, index);
    network_replicated(w);
}

/* Stops the master. After a while one of its replicas answers in its place, with the replica's own
 * data. */
static void fail_over(struct world *w, const struct fault *fault)
{
    if (w->masters[0].down)
        return;
    stop_master(w, fault);
    replica_promote(w, fault->key);
}

/* The master follows one of its replicas, and is the master again, all at once: the same process,
 * with the data of the replica. Only the connections that wait for replicas end. */
static void fail_back(struct world *w, const struct fault *fault)
{
    struct master *master = &w->masters[0];
    if (master->down || master->paused)
        return;
    world_say(w, "m0 follows replica %u, and is the master again", fault->key);
    replica_promote(w, fault->key);
    master->promoted = false;
    w->promoted_at = w->now;
    w->figures.failbacks++;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        const struct connection *connection = &w->agents[a].connections[0];
        if (connection->waiting == NULL)
            continue;
        connection->waiting->wait.offset = UINT64_MAX; /* no replica ever has it */
        world_plan_in(
            w, 0,
            (struct happening){.kind = HAPPEN_DROP, .agent = a, .number = connection->generation});
    }
    replica_follow(w);
}

/* FLUSHALL: no connection ends by it, and the agents find out within a second. */
static void flush_master(struct world *w, const struct fault *fault)
{
    if (w->masters[fault->master].down)
        return;
    master_forget(w, fault->master);
    replica_follow(w);
}

static void stall_agent(struct world *w, const struct fault *fault)
{
    struct agent *agent = &w->agents[fault->agent];
    if (agent->stalled || !agent->alive)
        return;
    world_say(w, "a%u stalls for %lld us", fault->agent, (long long)fault->us);
    agent_stall(w, fault->agent, fault->us);
}

/* A reading that comes late and shows a step hides the next one from the agent, until one comes in
 * time. That is left to the assumption (R14). */
static bool hides_a_step(const struct world *w, uint8_t agent, uint8_t master)
{
    const struct agent *at = &w->agents[agent];
    int64_t stepped_at = w->masters[master].stepped_at;
    int64_t last_at = at->gone_on_at > stepped_at ? at->gone_on_at : stepped_at;
    return last_at != 0 && at->clock_read_at[master] < last_at;
}

/* The round trips of two readings can hide a step that is no longer (R14). */
static int64_t hidden_us(const struct world *w)
{
    return 2000 * (int64_t)w->options.node_timeout_ms;
}

static void pause_with_clocks(struct world *w, const struct fault *fault)
{
    for (uint8_t m = 0; m < w->options.masters; m++)
        if (hides_a_step(w, fault->agent, m))
            return;
    clocks_pause(w, fault->agent, fault->us + hidden_us(w));
}

static void step_clock(struct world *w, const struct fault *fault)
{
    struct master *master = &w->masters[fault->master];
    bool forward = fault->out || w->options.clock_pauses > 0;
    for (uint8_t a = 0; a < w->options.agents; a++)
        if (hides_a_step(w, a, fault->master))
            return;
    master->stepped_at = w->now;
    clocks_jump(w, fault->master, forward ? fault->us + hidden_us(w) : -fault->us);
}

/* Far off or nearly right; small jumps are not noticed, and must not add up (R12: a clock that is
 * off by more than a second proposes no numbers). */
static void set_wall_clock(struct world *w, uint8_t agent)
{
    int64_t far_us = prng_percent(&w->faults, 50)   ? 0
                     : prng_percent(&w->faults, 50) ? 60000000
                                                    : -60000000;
    int64_t near_us = WALL_NEAR_US;
    int64_t before_us = w->agents[agent].wall_us;
    w->agents[agent].wall_us = far_us + prng_between(&w->faults, -near_us, near_us);
    w->figures.wall_jumps++;
    world_say(w, "a%u: the wall clock jumps by %lld us", agent,
              (long long)(w->agents[agent].wall_us - before_us));
}

static void cut(struct world *w, const struct fault *fault)
{
    world_say(w, "agents %02x and masters %03x cut%s%s for %lld us", fault->agents, fault->masters,
              fault->out ? " out" : "", fault->back ? " back" : "", (long long)fault->us);
    for (uint8_t a = 0; a < w->options.agents; a++) {
        for (uint8_t m = 0; m < w->options.masters; m++) {
            struct connection *connection = &w->agents[a].connections[m];
            if ((fault->agents >> a & 1) == 0 || (fault->masters >> m & 1) == 0)
                continue;
            if (fault->out)
                connection->cut_out_until = later(connection->cut_out_until, w->now + fault->us);
            if (fault->back)
                connection->cut_back_until = later(connection->cut_back_until, w->now + fault->us);
        }
    }
    if (fault->flaps == 0)
        return;
    struct fault *again = world_allocate(w, sizeof *again);
    *again = *fault;
    again->flaps--;
    world_plan_in(w, 2 * fault->us, (struct happening){.kind = HAPPEN_FAULT, .what = again});
}

/* An orderly end: a drain, perhaps with time for the holders, then the news for them, and a moment
 * later the process is gone. */
static void end_agent(struct world *w, const struct fault *fault)
{
    if (!w->agents[fault->agent].draining && prng_percent(&w->faults, 50)) {
        struct fault *later = world_allocate(w, sizeof *later);
        *later = *fault;
        agent_drain(w, fault->agent);
        world_plan_in(w, prng_between(&w->faults, 0, 2000 * (int64_t)w->options.ttl_ms_max),
                      (struct happening){.kind = HAPPEN_FAULT, .what = later});
        return;
    }
    struct fault *crash = world_allocate(w, sizeof *crash);
    *crash = *fault;
    crash->kind = FAULT_CRASH;
    agent_end(w, fault->agent, fault->out);
    world_plan_in(w, prng_between(&w->faults, 0, 50000),
                  (struct happening){.kind = HAPPEN_FAULT, .what = crash});
}

void fault_strike(struct world *w, const void *what)
{
    const struct fault *fault = what;
    struct connection *connection = &w->agents[fault->agent].connections[fault->master];
    if (w->healed)
        return;
    switch (fault->kind) {
    case FAULT_PARTITION:
    case FAULT_ISOLATION:
    case FAULT_SPLIT:
        cut(w, fault);
        break;
    case FAULT_RESET:
        world_plan_in(w, 0,
                      (struct happening){.kind = HAPPEN_DROP,
                                         .agent = fault->agent,
                                         .master = fault->master,
                                         .number = connection->generation});
        break;
    case FAULT_PAUSE:
        pause_master(w, fault);
        break;
    case FAULT_RESTART:
        stop_master(w, fault);
        break;
    case FAULT_STALL:
        stall_agent(w, fault);
        break;
    case FAULT_END:
        if (w->agents[fault->agent].alive && !w->agents[fault->agent].stalled)
            end_agent(w, fault);
        break;
    case FAULT_CRASH:
        if (w->agents[fault->agent].alive) {
            agent_crash(w, fault->agent);
            world_plan_in(w, fault->us / 2,
                          (struct happening){.kind = HAPPEN_BOOT, .agent = fault->agent});
        }
        break;
    case FAULT_FLUSH:
        flush_master(w, fault);
        break;
    case FAULT_JUMP:
        if (world_breaks(w, BREAK_CLOCK_JUMP))
            clocks_jump(w, fault->master, fault->us);
        break;
    case FAULT_CLOCK_PAUSE:
        if (!w->switches.kept)
            pause_with_clocks(w, fault);
        break;
    case FAULT_CLOCK_JUMP:
        step_clock(w, fault);
        break;
    case FAULT_WALL:
        set_wall_clock(w, fault->agent);
        break;
    case FAULT_RELOAD:
        if (!w->agents[fault->agent].stalled)
            agent_reload(w, fault->agent);
        break;
    case FAULT_FREEZE:
        freeze_replica(w, fault);
        break;
    case FAULT_FAILOVER:
        fault->out ? fail_over(w, fault) : fail_back(w, fault);
        break;
    case FAULT_WILD:
        plant_wild(w, fault);
        break;
    case FAULT_NEIGHBOUR:
        master_raise(w, fault->master, fault->key,
                     (uint64_t)(master_wall_us(w, fault->master) + fault->us));
        break;
    case FAULT_SNAPSHOT:
        master_snapshot(w, fault->master);
        break;
    }
}

void fault_choke(struct world *w)
{
    unsigned masters = w->options.masters, near = (unsigned)prng_below(&w->faults, world_quorum(w));
    w->choked = (uint8_t)prng_below(&w->faults, w->options.agents);
    w->far = random_subset(w, masters - near, masters);
    w->choked_at = w->now;
    world_say(w, "a%u is far from masters %03x", w->choked, w->far);
}

void fault_heal(struct world *w)
{
    struct options *o = &w->options;
    world_say(w, "---- healed");
    w->healed = true;
    w->healed_at = w->now;
    o->late = o->doubled = o->refused = o->not_run = o->not_sent = o->message_lost =
        o->frozen_writes = 0;
    o->silence_us = 1000000;
    if (o->out_us_max > 2000)
        o->out_us_max = 2000;
    if (o->back_us_max > 2000)
        o->back_us_max = 2000;
    for (uint8_t m = 0; m < o->masters; m++) {
        fault_master_resumes(w, m);
        fault_master_starts(w, m);
        for (uint8_t name = 0; name < SIM_NAMES; name++)
            master_end_set_back(w, m, name);
    }
    for (uint8_t r = 0; r < o->replicas; r++)
        fault_replica_thaws(w, r);
    for (uint8_t a = 0; a < o->agents; a++) {
        if (w->agents[a].reloaded)
            agent_reload(w, a);
        if (w->agents[a].alive && (w->agents[a].draining || w->agents[a].ending))
            agent_crash(w, a);
        agent_boot(w, a);
        for (uint8_t m = 0; m < o->masters; m++) {
            struct connection *connection = &w->agents[a].connections[m];
            connection->cut_out_until = connection->cut_back_until = 0;
            world_plan_in(w, o->silence_us,
                          (struct happening){.kind = HAPPEN_CHECK,
                                             .agent = a,
                                             .master = m,
                                             .number = connection->generation});
        }
    }
}
