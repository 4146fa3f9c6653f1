/* What goes wrong in a run: partitions, resets, paused and restarting masters, stalled and crashing agents; and the
 * healing. */
#include "world.h"

#include <string.h>

enum fault_kind {
    FAULT_PARTITION,
    FAULT_RESET,
    FAULT_PAUSE,
    FAULT_RESTART,
    FAULT_STALL,
    FAULT_CRASH,
    FAULT_END,
    FAULT_JUMP,
    FAULT_FLUSH
};

struct fault {
    enum fault_kind kind;
    uint8_t agent, master;
    bool out, back; /* PARTITION: which ways are cut */
    int64_t us;
};

static void plan(struct world *w, enum fault_kind kind, unsigned count)
{
    int64_t ttl_us = (int64_t)w->options.ttl_ms_max * 1000;
    for (unsigned i = 0; i < count; i++) {
        struct fault *fault = world_allocate(w, sizeof *fault);
        fault->kind = kind;
        fault->agent = (uint8_t)prng_below(&w->prng, w->options.agents);
        fault->master = (uint8_t)prng_below(&w->prng, w->options.masters);
        fault->out = prng_percent(&w->prng, 70);
        fault->back = !fault->out || prng_percent(&w->prng, 60);
        fault->us = prng_percent(&w->prng, 50) ? prng_between(&w->prng, 1000, 500000)
                                               : prng_between(&w->prng, 100000, ttl_us + ttl_us / 2);
        world_plan_in(w, prng_between(&w->prng, 0, w->options.chaos_us),
                      (struct happening){.kind = HAPPEN_FAULT, .what = fault});
    }
}

void fault_plan_all(struct world *w)
{
    plan(w, FAULT_PARTITION, w->options.partitions);
    plan(w, FAULT_RESET, w->options.resets);
    plan(w, FAULT_PAUSE, w->options.pauses);
    plan(w, FAULT_RESTART, w->options.restarts);
    plan(w, FAULT_STALL, w->options.stalls);
    plan(w, FAULT_CRASH, w->options.crashes);
    plan(w, FAULT_END, w->options.ends);
    if (w->options.forgetful)
        plan(w, FAULT_FLUSH, w->options.flushes);
    if (w->options.broken == BREAK_CLOCK_JUMP)
        plan(w, FAULT_JUMP, 8);
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
        world_plan_in(w, prng_between(&w->prng, 0, 5000),
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
    if (w->options.forgetful) {
        if (prng_percent(&w->prng, 60))
            master_forget(w, index);
    } else if (prng_percent(&w->prng, 50)) {
        master->epoch++;
    }
    if (w->options.broken == BREAK_DATA_LOSS)
        memset(master->keys, 0, sizeof master->keys);
    world_say(w, "m%u is back in epoch %u", index, master->epoch);
}

/* FLUSHALL: no connection ends by it, and the agents find out within a second. */
static void flush_master(struct world *w, const struct fault *fault)
{
    if (w->masters[fault->master].down)
        return;
    master_forget(w, fault->master);
    for (uint8_t a = 0; a < w->options.agents; a++)
        world_plan_in(w, prng_between(&w->prng, 0, 1000000),
                      (struct happening){.kind = HAPPEN_MARKER,
                                         .agent = a,
                                         .master = fault->master,
                                         .number = w->agents[a].connections[fault->master].generation});
}

static void stall_agent(struct world *w, const struct fault *fault)
{
    struct agent *agent = &w->agents[fault->agent];
    if (agent->stalled || !agent->alive)
        return;
    world_say(w, "a%u stalls for %lld us", fault->agent, (long long)fault->us);
    agent->stalled = true;
    w->figures.stalls++;
    world_plan_in(w, fault->us, (struct happening){.kind = HAPPEN_WAKE, .agent = fault->agent});
}

/* An orderly end: a drain, the news for the holders, and a moment later the process is gone. */
static void end_agent(struct world *w, const struct fault *fault)
{
    struct fault *crash = world_allocate(w, sizeof *crash);
    *crash = *fault;
    crash->kind = FAULT_CRASH;
    agent_end(w, fault->agent, fault->out);
    world_plan_in(w, prng_between(&w->prng, 0, 50000), (struct happening){.kind = HAPPEN_FAULT, .what = crash});
}

void fault_strike(struct world *w, const void *what)
{
    const struct fault *fault = what;
    struct connection *connection = &w->agents[fault->agent].connections[fault->master];
    if (w->healed)
        return;
    switch (fault->kind) {
    case FAULT_PARTITION:
        world_say(w, "a%u-m%u cut%s%s for %lld us", fault->agent, fault->master, fault->out ? " out" : "",
                  fault->back ? " back" : "", (long long)fault->us);
        if (fault->out)
            connection->cut_out_until = later(connection->cut_out_until, w->now + fault->us);
        if (fault->back)
            connection->cut_back_until = later(connection->cut_back_until, w->now + fault->us);
        break;
    case FAULT_RESET:
        world_plan_in(
            w, 0,
            (struct happening){
                .kind = HAPPEN_DROP, .agent = fault->agent, .master = fault->master, .number = connection->generation});
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
            world_plan_in(w, fault->us / 2, (struct happening){.kind = HAPPEN_BOOT, .agent = fault->agent});
        }
        break;
    case FAULT_FLUSH:
        flush_master(w, fault);
        break;
    case FAULT_JUMP:
        world_say(w, "m%u: the clock jumps by %lld us", fault->master, (long long)fault->us);
        w->masters[fault->master].jumped_us += fault->us;
        break;
    }
}

void fault_heal(struct world *w)
{
    struct options *o = &w->options;
    world_say(w, "---- healed");
    w->healed = true;
    w->healed_at = w->now;
    o->late = o->doubled = o->refused = o->not_run = o->not_sent = 0;
    o->silence_us = 1000000;
    if (o->out_us_max > 2000)
        o->out_us_max = 2000;
    if (o->back_us_max > 2000)
        o->back_us_max = 2000;
    for (uint8_t m = 0; m < o->masters; m++) {
        fault_master_resumes(w, m);
        fault_master_starts(w, m);
    }
    for (uint8_t a = 0; a < o->agents; a++) {
        if (w->agents[a].alive && w->agents[a].ending)
            agent_crash(w, a);
        agent_boot(w, a);
        for (uint8_t m = 0; m < o->masters; m++) {
            struct connection *connection = &w->agents[a].connections[m];
            connection->cut_out_until = connection->cut_back_until = 0;
            world_plan_in(
                w, o->silence_us,
                (struct happening){.kind = HAPPEN_CHECK, .agent = a, .master = m, .number = connection->generation});
        }
    }
}
