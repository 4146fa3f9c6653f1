/* The simulator's clock: it plans what will happen, lets it happen in order, and so runs one seed
 * from start to end.
 *
 *   callers --requests--> agent: glue around one --orders--> connections --> masters
 *      ^                    |    unchanged core              (delay, order,  (the shipped scripts,
 *      +------answers-------+    (core_step, one  <--replies- cuts, resets)   own clocks, pauses)
 *                           |    timer)
 *                           +--> checker: windows, fencing numbers, answers; told by the seams
 *                                alone
 *
 * Phases: chaos (0..chaos_us, faults strike) -> healed (nothing fails; holders release, waiters
 * probe) -> end. One real time exists, `now`; every agent and master has a clock of its own over
 * it, each with its own rate (A1). */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    ARENA_BYTES = 512 << 20, /* A run touches 10 MB of them, rarely 160. */
    PROBE_AFTER_US = 3000000,
    TOLD_MS_MAX = 12000, /* the guard guesses after 10 s */
    SETTLED_AFTER_US = 2500000,
    CALM_TTL_MS_MAX = 3000,
    LONG_TTLS = 30, /* so many times the longest ttl that is asked for */
    AGING_TTL_MS_MAX = 1500,
    CALM_DELAY_US_MAX = 4000,
    AGENTS_OF_A_CROWD = 2,
    /* a clock that is off by more is known to be, and does not number grants (R12) */
    WALL_US_FORGETFUL = 600000,
};

void world_init(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->heap = calloc(SIM_HAPPENINGS, sizeof *w->heap);
    w->arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    w->effects = calloc(1, sizeof *w->effects);
    if (w->heap == NULL || w->arena == MAP_FAILED || w->effects == NULL)
        abort();
}

void world_say(struct world *w, const char *format, ...)
{
    if (!w->verbose)
        return;
    va_list list;
    va_start(list, format);
    printf("%11.6f  ", (double)w->now / 1e6);
    vprintf(format, list);
    putchar('\n');
    va_end(list);
}

void *world_allocate(struct world *w, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (w->arena_used + bytes > ARENA_BYTES) {
        checker_fail(w, "C7 bounded: one run filled the arena with messages");
        w->arena_used = 0;
    }
    void *at = w->arena + w->arena_used;
    w->arena_used += bytes;
    return memset(at, 0, bytes);
}

static bool earlier(const struct happening *a, const struct happening *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

unsigned world_quorum(const struct world *w)
{
    return w->options.algorithm == ALGORITHM_MULTILOCK ? w->options.masters
                                                       : w->options.masters / 2u + 1;
}

void world_plan(struct world *w, struct happening happening)
{
    if (w->heap_count == SIM_HAPPENINGS) {
        checker_fail(w, "C7 bounded: too much is pending");
        return;
    }
    happening.order = ++w->order;
    size_t i = w->heap_count++;
    while (i > 0 && earlier(&happening, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = happening;
}

void world_plan_in(struct world *w, int64_t us, struct happening happening)
{
    happening.at = w->now + us;
    world_plan(w, happening);
}

static struct happening next(struct world *w)
{
    struct happening top = w->heap[0];
    struct happening moved = w->heap[--w->heap_count];
    size_t i = 0;
    for (size_t child = 1; child < w->heap_count; child = 2 * i + 1) {
        if (child + 1 < w->heap_count && earlier(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!earlier(&w->heap[child], &moved))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = moved;
    return top;
}

/* Keeps an event for a stopped process until it goes on, in the order of arrival. */
static void park(struct agent *agent, const struct happening *happening)
{
    if (agent->parked_count == agent->parked_room) {
        agent->parked_room = agent->parked_room == 0 ? 64 : 2 * agent->parked_room;
        agent->parked = realloc(agent->parked, agent->parked_room * sizeof *agent->parked);
        if (agent->parked == NULL)
            abort();
    }
    agent->parked[agent->parked_count++] = *happening;
}

static void reach_agent(struct world *w, const struct happening *h)
{
    struct agent *agent = &w->agents[h->agent];
    if (agent->stalled) {
        park(agent, h);
        return;
    }
    switch (h->kind) {
    case HAPPEN_REPLY:
        network_reply(w, h->what, h->copy);
        break;
    case HAPPEN_TIMER:
        agent_timer(w, h->agent);
        break;
    case HAPPEN_FLUSH:
        agent_flush(w, h->agent);
        break;
    case HAPPEN_REQUEST:
        agent_take_request(w, h->what);
        break;
    case HAPPEN_CANCEL:
        agent_take_cancel(w, h->what);
        break;
    case HAPPEN_WRITE:
        agent_write(w, h->what);
        break;
    case HAPPEN_DELIVERED:
        agent_delivered(w, h->what);
        break;
    case HAPPEN_LEAVE:
        agent_take_leave(w, h->agent, h->what);
        break;
    case HAPPEN_CHECK:
        network_check(w, h->agent, h->master, h->number);
        break;
    case HAPPEN_DROP:
        network_drop(w, h->agent, h->master, h->number);
        break;
    case HAPPEN_SIGNAL:
        channel_signal(w, h->agent, h->master, h->number, h->what);
        break;
    case HAPPEN_MARKER:
        marking_time(w, h->agent);
        break;
    case HAPPEN_CLOCK_DUE:
        readings_due(w, h);
        break;
    case HAPPEN_CLOCK_TOLD:
        readings_told(w, h);
        break;
    case HAPPEN_GIVE_UP:
        network_give_up(w, h->agent, h->master, h->number);
        break;
    default: /* HAPPEN_CONNECT: nothing else reaches an agent */
        network_connect(w, h->agent, h->master, h->number);
        break;
    }
}

static void wake(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    if (!agent->stalled)
        return;
    world_say(w, "a%u goes on", index);
    clocks_go_on(w, index);
    agent->stalled = false;
    agent->stalled_last = w->now;
    size_t count = agent->parked_count;
    agent->parked_count = 0;
    for (size_t i = 0; i < count && w->violation[0] == '\0'; i++)
        reach_agent(w, &agent->parked[i]);
}

static void happen(struct world *w, const struct happening *h)
{
    switch (h->kind) {
    case HAPPEN_COMMAND:
        network_arrive(w, h->what);
        break;
    case HAPPEN_CLOCK_READ:
        readings_at_master(w, h);
        break;
    case HAPPEN_SUBSCRIBE:
        channel_subscribe(w, h->agent, h->master, h->number, h->what);
        break;
    case HAPPEN_CALLER:
        if (w->callers[h->agent].turn == h->number)
            caller_act(w, h->agent);
        break;
    case HAPPEN_JAVA:
        java_acts(w);
        break;
    case HAPPEN_OPERATOR:
        operator_acts(w);
        break;
    case HAPPEN_FAULT:
        fault_strike(w, h->what);
        break;
    case HAPPEN_REPLICATE:
        replica_arrive(w, h->master);
        network_replicated(w);
        break;
    case HAPPEN_THAW:
        fault_replica_thaws(w, h->master);
        break;
    case HAPPEN_WAITED:
        network_waited(w, h->what);
        break;
    case HAPPEN_RESUME:
        fault_master_resumes(w, h->master);
        break;
    case HAPPEN_START:
        fault_master_starts(w, h->master);
        break;
    case HAPPEN_WAKE:
        wake(w, h->agent);
        break;
    case HAPPEN_BOOT:
        agent_boot(w, h->agent);
        break;
    case HAPPEN_HEAL:
        for (uint8_t a = 0; a < w->options.agents; a++)
            wake(w, a);
        fault_heal(w);
        java_heals(w);
        caller_wind_down(w);
        break;
    case HAPPEN_PROBE:
        if (w->options.fair && w->options.chokes)
            fault_choke(w);
        caller_probe_all(w);
        break;
    case HAPPEN_ORPHAN:
        checker_orphan(w, h->master, h->what);
        break;
    case HAPPEN_SETTLED:
        checker_settled(w);
        break;
    case HAPPEN_STORE:
        checker_store(w, h->what);
        break;
    default:
        reach_agent(w, h);
        break;
    }
}

enum form world_form(unsigned permits, bool fair, bool rw, bool redisson)
{
    return rw            ? FORM_SHARED
           : redisson    ? FORM_REDISSON
           : permits > 1 ? FORM_SLOTS
           : fair        ? FORM_FAIR
                         : FORM_PLAIN;
}

/* Each key has a policy of its own. */
static void give_kind(struct world *w, uint8_t key)
{
    const struct key_kind *kind = &w->options.kinds[key];
    struct core_policy *policy = &w->policies[key];
    struct text name = options_key_text(key);
    snprintf(policy->match, sizeof policy->match, "%.*s", (int)name.len, name.at);
    policy->permits = kind->permits;
    policy->reentrant = policy->reentrant && kind->permits == 1;
    policy->form = world_form(kind->permits, kind->fair, kind->rw, kind->redisson);
}

/* Gives all groups the same masters, and all policies the same terms. The group and the policy of a
 * key change no promise. */
static void configure_core(struct world *w)
{
    static const char *const names[SIM_GROUPS] = {"main", "other", "third"};
    static const char *const patterns[SIM_PATTERNS - 1] = {"*2", "k?x*", "?3*"};
    const struct options *o = &w->options;
    struct core_policy policy = {.group_count = o->groups,
                                 .algorithm = o->algorithm,
                                 .renew = o->renew,
                                 .ttl_ms = o->ttl_ms,
                                 .max_hold_ms = o->max_hold_ms,
                                 .bound_max_hold_ms = 2 * o->max_hold_ms,
                                 .lock_delay_ms = o->lock_delay_ms,
                                 .reentrant = o->owns > 0,
                                 .fencing = o->fencing,
                                 .permits = o->permits,
                                 .retry_min_ms = o->retry_ms_min,
                                 .retry_max_ms = o->retry_ms_max,
                                 .form = world_form(o->permits, o->fair, o->rw, o->redisson),
                                 .handover_max = o->handover_max};
    for (uint8_t g = 0; g < o->groups; g++) {
        policy.groups[g] = g;
        w->groups[g] = (struct core_group){
            .masters = o->masters, .node_timeout_ms = o->node_timeout_ms, .drift_ppm = 10000};
    }
    for (uint8_t p = 0; p < o->policies; p++) {
        w->policies[p] = policy;
        if (o->several_kinds)
            give_kind(w, p);
        else
            strcpy(w->policies[p].match, p + 1 < o->policies ? patterns[p] : "*");
    }
    uint32_t longest_ms = o->ttl_ms > o->ttl_ms_max ? o->ttl_ms : o->ttl_ms_max;
    w->config =
        (struct core_config){.groups = w->groups,
                             .group_count = o->groups,
                             .group_names = names,
                             .policies = w->policies,
                             .policy_count = o->policies,
                             .max_ttl_ms = longest_ms + o->lock_delay_ms,
                             .wait_ms_max = 300000,
                             .locks_max = o->locks_max,
                             .requests_max = SIM_REQUESTS + (w->switches.followers ? SIM_KEYS : 0),
                             .waiters_max = o->waiters_max,
                             .rounds_min = o->rounds_min,
                             .rounds_first = o->rounds_first,
                             .rounds_max = o->rounds_max,
                             .journal = o->journal};
}

/* Removes the faults that chance brings, so that a quorum can carry each hold at every moment. No
 * caller ends a hold elsewhere. */
static void calm_down(struct options *o)
{
    o->algorithm = ALGORITHM_REDLOCK;
    o->masters = o->masters < 3 ? 3 : o->masters;
    o->renew = RENEW_AGENT;
    o->max_hold_ms = 600000;
    o->ttl_ms_max = o->ttl_ms_max > CALM_TTL_MS_MAX ? CALM_TTL_MS_MAX : o->ttl_ms_max;
    o->ttl_ms = o->ttl_ms > o->ttl_ms_max ? o->ttl_ms_max : o->ttl_ms;
    o->lock_delay_ms = 0;
    o->out_us_max = o->back_us_max = CALM_DELAY_US_MAX;
    o->silence_us = 1000000;
    o->late = o->doubled = o->refused = o->not_run = o->not_sent = o->message_lost =
        o->frozen_writes = 0;
    o->partitions = o->isolations = o->splits = o->flapping = o->wall_jumps = 0;
    o->resets = o->pauses = o->restarts = o->flushes = o->stalls = o->crashes = o->ends = 0;
    o->goes_elsewhere = o->bothers = o->loses_answers = o->sticks = 0;
    o->think_us_max = 1000 * (int64_t)o->ttl_ms_max; /* holds that last */
}

/* Agents are paused with their clocks, and masters' clocks step (A1, A3): nothing else goes wrong,
 * but connections end now and then, and agents are stopped as ever. */
static void shake_clocks(struct world *w)
{
    struct prng own = prng_stream(w->seed, STREAM_THEME, 5);
    struct options *o = &w->options;
    uint8_t resets = o->resets, stalls = o->stalls, wall_jumps = o->wall_jumps;
    enum algorithm algorithm = o->algorithm;
    enum renew renew = o->renew;
    uint8_t masters = o->masters;
    uint32_t ttl_ms_max = o->ttl_ms_max, ttl_ms = o->ttl_ms;
    calm_down(o);
    o->algorithm = algorithm;
    o->masters = masters;
    o->renew = renew;
    o->ttl_ms_max = ttl_ms_max;
    o->ttl_ms = ttl_ms;
    o->resets = resets;
    o->stalls = stalls;
    o->wall_jumps = wall_jumps;
    o->late = prng_percent(&own, 50) ? 500 : 0;
    o->late_us_max = 300000;
    o->fair = o->rw; /* an order by clocks, and those of the masters step; R18 knows no other */
    o->think_us_max = prng_percent(&own, 50) ? o->think_us_max : 100000;
    unsigned kinds = (unsigned)prng_between(&own, 1, 3);
    o->clock_pauses = kinds & 1 ? (uint8_t)prng_between(&own, 1, 5) : 0;
    o->clock_jumps = kinds & 2 ? (uint8_t)prng_between(&own, 1, 8) : 0;
}

/* More keys are wanted at once at each agent than may have rounds in flight (R16). */
static void crowd(struct world *w)
{
    struct prng own = prng_stream(w->seed, STREAM_THEME, 0);
    struct options *o = &w->options;
    o->agents = o->agents > AGENTS_OF_A_CROWD ? AGENTS_OF_A_CROWD : o->agents;
    o->callers = SIM_CALLERS;
    o->keys = (uint8_t)prng_between(&own, SIM_KEYS / 2, SIM_KEYS);
    o->think_us_max = 20000;
    o->rounds_min = o->rounds_first = 1;
    o->rounds_max = (uint32_t)prng_between(&own, 1, 3);
}

/* At each of several agents more wait for a key than its turn is long (R9). A turn is longer than
 * what happens on the way, so that delays can tell whose it is. */
static void crowd_one_key(struct options *o)
{
    o->algorithm = ALGORITHM_REDLOCK;
    o->masters = o->masters < 3 ? 3 : o->masters;
    o->out_us_max = o->back_us_max = CALM_DELAY_US_MAX;
    o->fair = false;
    o->agents = o->agents < 3 ? 3 : o->agents;
    o->handover_max = o->handover_max < 2 ? 2 : o->handover_max;
    o->locks_max = SIM_LOCKS;
    o->waiters_max = SIM_REQUESTS;
}

/* Few keys with several slots each (R20), which more callers want than there are. */
static void give_permits(struct world *w)
{
    struct prng own = prng_stream(w->seed, STREAM_THEME, 1);
    struct options *o = &w->options;
    o->fair = false;
    o->owns = 0;
    o->keys = (uint8_t)prng_between(&own, 1, 2);
    o->permits = (uint8_t)prng_between(&own, 2, SIM_KEYS / 2);
    o->callers = SIM_CALLERS;
    o->waits = (uint8_t)prng_between(&own, 20, 80);
}

/* A single master with replicas, some of which it WAITs for; they freeze, or are promoted
 * (R21). */
static void give_replicas(struct world *w)
{
    struct prng own = prng_stream(w->seed, STREAM_THEME, 2);
    struct options *o = &w->options;
    o->algorithm = ALGORITHM_SINGLE;
    o->masters = 1;
    o->replicas = (uint8_t)prng_between(&own, 1, SIM_REPLICAS);
    o->ack = prng_percent(&own, 60) ? o->replicas : (uint8_t)prng_between(&own, 1, o->replicas);
    o->replicas_timeout_ms = (uint32_t)prng_between(&own, 10, 100);
    if (o->node_timeout_ms < o->replicas_timeout_ms + 20)
        o->node_timeout_ms = o->replicas_timeout_ms + 20;
    o->freezes = (uint8_t)prng_between(&own, 0, 12);
    o->failovers = (uint8_t)prng_between(&own, 0, 3);
}

/* Many wait at each agent, and none of them is turned away (C11). */
static void make_room(struct options *o)
{
    o->locks_max = SIM_LOCKS;
    o->waiters_max = SIM_REQUESTS;
}

/* Each key draws its kind. Order and chokes are looked at with the first key. */
static void give_kinds(struct world *w)
{
    struct prng own = prng_stream(w->seed, STREAM_THEME, 3);
    struct options *o = &w->options;
    themes_draw_kinds(w);
    if (o->rw)
        o->readers = (uint8_t)prng_between(&own, 10, 90);
    if (o->fair)
        make_room(o);
    o->chokes = o->chokes && o->kinds[0].fair && o->agents > 1 && world_quorum(w) < o->masters;
}

/* Adapts further options to the switches of the command line. */
static void adapt_options(struct world *w)
{
    struct prng own = prng_stream(w->seed, STREAM_THEME, 4);
    struct options *o = &w->options;
    o->rw = w->switches.rw;
    o->fair = o->fair || w->switches.fair || o->rw;
    if (o->rw) {
        o->readers = (uint8_t)prng_between(&own, 10, 90);
        bool may_choke = o->agents > 1 && world_quorum(w) < o->masters;
        o->chokes = (o->chokes || prng_percent(&own, 30)) && may_choke;
    }
    if (o->fair)
        make_room(o);
    if (w->switches.forgetful) {
        o->restarts = (uint8_t)(o->restarts + prng_between(&own, 0, 4));
        o->flushes = (uint8_t)prng_between(&own, 0, 5);
        o->steps_clocks = prng_percent(&own, 50) && !w->switches.replicas;
        if (!o->steps_clocks)
            o->wall_us = o->wall_us > WALL_US_FORGETFUL ? WALL_US_FORGETFUL : o->wall_us;
    }
    if (w->switches.in_turn) {
        calm_down(o);
        if (w->seed % 2 ==
            0) /* a policy's ttl is no measure of a hold's: each caller names its own */
            o->ttl_ms = LONG_TTLS * o->ttl_ms_max;
    }
    if (w->switches.apart) {
        calm_down(o);
        o->agents = o->agents < 3 ? 3 : o->agents;
        o->masters = 3;
        o->think_us_max *= 4; /* Holds last for longer than a cut. */
        o->chaos_us *= 2;
    }
    if (w->switches.clocks)
        shake_clocks(w);
    if (w->switches.few_rounds)
        crowd(w);
    if (w->switches.many_wait)
        crowd_one_key(o);
    if (w->switches.replicas)
        give_replicas(w);
    o->redisson = w->switches.redisson;
    o->fair = o->fair && !o->redisson;
    o->permits = 1;
    if (w->switches.semaphores)
        give_permits(w);
    if (w->switches.kinds)
        give_kinds(w);
    master_name_places(o);
    if (w->switches.wild) { /* a quorum of others */
        o->fencing = true;
        o->algorithm = ALGORITHM_REDLOCK;
        o->masters = o->masters < 3 ? 3 : o->masters;
    }
    if (w->switches.broken == BREAK_DATA_LOSS || w->switches.broken == BREAK_ROLLBACK)
        o->restarts = (uint8_t)(o->restarts + 4);
    if (world_breaks(w, BREAK_DRIFT))
        o->rate_ppm *= 8;
}

static void set_up(struct world *w, uint64_t seed)
{
    w->seed = seed;
    w->faults = prng_stream(seed, STREAM_FAULTS, 0);
    w->java_chance = prng_stream(seed, STREAM_JAVA, 0);
    w->writes = prng_stream(seed, STREAM_WRITES, 0);
    w->readings = prng_stream(seed, STREAM_READINGS, 0);
    labels_reset(w);
    if (w->switches.draws_more) {
        prng_next(&w->writes);
        prng_next(&w->java_chance);
    }
    if (w->switches.mixed)
        themes_draw(w);
    memset(&w->options, 0, sizeof w->options);
    options_draw(&w->options, seed);
    adapt_options(w);
    master_configure(w);
    w->now = w->healed_at = w->jumped_at = w->jumped_us = w->set_back_us = 0;
    w->healed = false;
    turns_reset(w);
    wakes_reset(w);
    w->order = w->steps = w->arrivals = w->secrets = 0;
    w->heap_count = w->arena_used = w->caller_count = 0;
    configure_core(w);
    checker_reset(w);
    for (uint8_t m = 0; m < w->options.masters; m++)
        master_reset(w, m);
    replica_reset(w);
    for (uint8_t a = 0; a < w->options.agents; a++) {
        struct agent *agent = &w->agents[a];
        agent->chance = prng_stream(seed, STREAM_AGENT, a);
        for (uint8_t m = 0; m < SIM_MASTERS; m++)
            agent->links[m] = prng_stream(seed, STREAM_LINK, (uint64_t)a * SIM_MASTERS + m);
        agent->rate_ppm = prng_between(&agent->chance, -w->options.rate_ppm, w->options.rate_ppm);
        agent->boot_base_us = prng_between(&agent->chance, 1000000, 1000000000);
        agent->wall_us = prng_between(&agent->chance, -w->options.wall_us, w->options.wall_us);
        agent->stalled = agent->alive = agent->paused = false;
        agent->paused_us = agent->gone_on_at = agent->gained_us = 0;
        agent->attempts = NULL;
        memset(agent->clock_read_at, 0, sizeof agent->clock_read_at);
        agent->incarnation = agent->name = 0;
        agent->stalled_last = 0;
        agent->parked_count = 0;
        memset(agent->journal, 0, sizeof agent->journal);
        memset(agent->connections, 0, sizeof agent->connections);
        agent_boot(w, a);
    }
    for (uint8_t c = 0; c < w->options.callers; c++)
        caller_start(w, c);
    java_start(w);
    operator_start(w);
    if (w->switches.in_turn)
        fault_plan_in_turn(w);
    if (w->switches.apart)
        fault_plan_apart(w);
    if (w->switches.wild)
        fault_plan_wild(w);
    if (w->switches.neighbours)
        fault_plan_neighbours(w);
    fault_plan_all(w);
    world_plan_in(w, w->options.chaos_us, (struct happening){.kind = HAPPEN_HEAL});
    world_plan_in(w, w->options.chaos_us + SETTLED_AFTER_US,
                  (struct happening){.kind = HAPPEN_SETTLED});
    /* The liveness phase: no master is guarded any more, or waits to be told. */
    int64_t guard_us = w->switches.forgetful
                           ? ((int64_t)w->config.max_ttl_ms + 1000 + TOLD_MS_MAX) * 1000 * 102 / 100
                           : 0;
    world_plan_in(w, w->options.chaos_us + PROBE_AFTER_US + guard_us,
                  (struct happening){.kind = HAPPEN_PROBE});
}

void world_run(struct world *w, uint64_t seed)
{
    set_up(w, seed);
    if (w->verbose) {
        themes_say(w);
        options_print(&w->options);
    }
    bool ending = false;
    while (w->violation[0] == '\0') {
        struct happening h = next(w);
        w->now = h.at;
        if (h.kind == HAPPEN_END) {
            checker_end(w);
            followers_end(w);
            wakes_end(w);
            break;
        }
        happen(w, &h);
        if (!ending && w->healed && caller_all_done(w)) {
            ending = true;
            int64_t left_us = w->leftovers_until > w->now ? w->leftovers_until - w->now : 0;
            world_plan_in(w,
                          left_us + ((int64_t)w->config.max_ttl_ms + 1000) * 1000 + w->set_back_us,
                          (struct happening){.kind = HAPPEN_END});
        }
    }
    w->figures.runs++;
    w->figures.steps += w->steps;
    w->figures.virtual_us += (uint64_t)w->now;
}
