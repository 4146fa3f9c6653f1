/* How a run of the guard's world comes about, in time. */
#include "tests/sim/guard/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MS = 1000,
    TICK_MS = 250,
    GREETING_TRIPS = 4, /* round trips of a greeting before the marker; behind it are */
    ENDING_TRIPS = 3,
    BACKOFF_MS_MIN = 20,
    BACKOFF_MS_MAX = 500,
    SKEW_MS_MAX = 20 * 60 * 1000, /* two of them are less than fence keys are kept for */
};

void world_say(const struct world *world, const char *format, ...)
{
    if (!world->told)
        return;
    va_list args;
    va_start(args, format);
    printf("%9.3f ms  ", (double)world->now_us / 1000);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

/* ---- planned events ---- */

static bool is_before(const struct happening *a, const struct happening *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void world_plan(struct world *world, int64_t at_us, struct happening happening)
{
    if (world->waiting == HAPPENINGS_MAX)
        abort();
    happening.at_us = at_us;
    happening.order = world->planned++;
    unsigned at = world->waiting++;
    for (; at > 0 && is_before(&happening, &world->happenings[(at - 1) / 2]); at = (at - 1) / 2)
        world->happenings[at] = world->happenings[(at - 1) / 2];
    world->happenings[at] = happening;
}

static struct happening next(struct world *world)
{
    struct happening *heap = world->happenings, first = heap[0], last = heap[--world->waiting];
    unsigned at = 0;
    for (unsigned child; (child = 2 * at + 1) < world->waiting; at = child) {
        if (child + 1 < world->waiting && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

static int64_t between(struct world *world, int64_t low, int64_t high)
{
    return prng_between(&world->prng, low, high);
}

static int64_t one_way_us(struct world *world, const struct link *link)
{
    return between(world, link->latency_us / 2, link->latency_us);
}

static bool is_current(const struct world *world, const struct happening *h)
{
    const struct link *link = &world->agents[h->agent].links[h->master];
    return world->agents[h->agent].alive && link->open && link->connection == h->connection;
}

/* ---- an agent's connections ---- */

void world_send(struct world *world, uint8_t a, uint8_t m, struct happening request)
{
    struct link *link = &world->agents[a].links[m];
    int64_t at_us = world->now_us + one_way_us(world, link);
    link->last_request_us = at_us > link->last_request_us ? at_us : link->last_request_us;
    request.kind = HAPPEN_REQUEST;
    request.agent = a;
    request.master = m;
    request.connection = link->connection;
    request.server = link->server;
    request.late = prng_percent(&world->prng, 50);
    snprintf(request.fresh_epoch, sizeof(request.fresh_epoch), "%016" PRIx64,
             prng_next(&world->prng));
    world_plan(world, link->last_request_us, request);
    /* A request in flight on a dead connection may run much later. */
    if (prng_percent(&world->prng, 2)) {
        request.late = true;
        request.connection = 0;
        world_plan(world, link->last_request_us + between(world, 0, 12000 * MS), request);
    }
}

static void plan_connect(struct world *world, uint8_t a, uint8_t m, int64_t after_us)
{
    world_plan(
        world, world->now_us + after_us,
        (struct happening){
            .kind = HAPPEN_CONNECT, .agent = a, .master = m, .connection = world->agents[a].life});
}

static int64_t backoff_us(struct world *world, struct link *link)
{
    int64_t ms = BACKOFF_MS_MIN;
    for (uint32_t i = 0; i < link->failures && ms < BACKOFF_MS_MAX; i++)
        ms *= 2;
    ms = ms > BACKOFF_MS_MAX ? BACKOFF_MS_MAX : ms;
    link->failures++;
    return between(world, ms / 2, ms) * MS;
}

static void plan_greeting(struct world *world, const struct happening *h)
{
    struct link *link = &world->agents[h->agent].links[h->master];
    world_plan(world, world->now_us + 2 * GREETING_TRIPS * one_way_us(world, link),
               (struct happening){.kind = HAPPEN_GREET,
                                  .agent = h->agent,
                                  .master = h->master,
                                  .connection = link->connection});
}

static void end_connection(struct world *world, uint8_t a, uint8_t m)
{
    struct link *link = &world->agents[a].links[m];
    link->open = link->ready = link->was_ready = false;
    link->connection++; /* Requests in flight then have another number. */
    link->last_request_us = link->last_reply_us = 0;
}

static void on_connect(struct world *world, const struct happening *h)
{
    struct link *link = &world->agents[h->agent].links[h->master];
    if (world->now_us < link->blocked_until_us) {
        plan_connect(world, h->agent, h->master, backoff_us(world, link));
        return;
    }
    link->connection++;
    link->open = true;
    link->server = world->masters[h->master].server;
    world_say(world, "agent %u is connected to master %u", h->agent, h->master);
    plan_greeting(world, h);
}

static void on_drop(struct world *world, const struct happening *h)
{
    struct sim_agent *agent = &world->agents[h->agent];
    struct link *link = &agent->links[h->master];
    bool by_master = h->server != 0; /* the master ended the connection, not the network */
    if (!agent->alive || !link->open || (by_master && link->server != h->server))
        return;
    world_say(world, "agent %u loses master %u", h->agent, h->master);
    if (!by_master && prng_percent(&world->prng, world->theme == THEME_IN_TURN ? 60 : 30))
        link->blocked_until_us = world->now_us + between(world, 0, 6000 * MS);
    world->count.drops++;
    end_connection(world, h->agent, h->master);
    act_guard(world, h->agent, (struct guard_event){.kind = GUARD_AWAY, .master = h->master},
              REQUEST_MARKER);
    plan_connect(world, h->agent, h->master, backoff_us(world, link));
}

/* The master was LOADING for a moment, say: the greeting begins anew, on the same connection. */
static void on_pause(struct world *world, const struct happening *h)
{
    struct sim_agent *agent = &world->agents[h->agent];
    struct link *link = &agent->links[h->master];
    if (!agent->alive || !link->ready)
        return;
    link->ready = false;
    link->connection++;
    act_guard(world, h->agent, (struct guard_event){.kind = GUARD_AWAY, .master = h->master},
              REQUEST_MARKER);
    plan_greeting(world, h);
}

static void on_greet(struct world *world, const struct happening *h)
{
    struct guard_event event = {.kind = GUARD_GREETS,
                                .master = h->master,
                                .same_connection =
                                    world->agents[h->agent].links[h->master].was_ready,
                                .knows_run = !world->hides_run};
    act_guard(world, h->agent, event, REQUEST_GREETING);
}

static void on_reply(struct world *world, const struct happening *h)
{
    struct link *link = &world->agents[h->agent].links[h->master];
    act_hear(world, h);
    if (h->request == REQUEST_GREETING)
        world_plan(world, world->now_us + 2 * ENDING_TRIPS * one_way_us(world, link),
                   (struct happening){.kind = HAPPEN_READY,
                                      .agent = h->agent,
                                      .master = h->master,
                                      .connection = h->connection});
}

/* ---- an agent ---- */

static void plan_life(struct world *world, uint8_t a, enum happening_kind kind, int64_t after_us)
{
    world_plan(world, world->now_us + after_us,
               (struct happening){.kind = kind, .agent = a, .connection = world->agents[a].life});
}

static void on_start(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    agent->max_ttl_ms = world_draw_max_ttl(world, a);
    act_start(world, a);
    for (uint8_t m = 0; m < world->master_count; m++) {
        agent->links[m].failures = 0;
        plan_connect(world, a, m,
                     agent->life == 1 ? agent->links[m].first_connect_us
                                      : between(world, 0, 20 * MS));
    }
    plan_life(world, a, HAPPEN_TICK, TICK_MS * MS);
    plan_life(world, a, HAPPEN_ROUND, between(world, 1, 400 * MS));
}

static void on_crash(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    bool is_steady = world->theme == THEME_LEASES && a == 0;
    if (!agent->alive || world->now_us >= world->chaos_until_us || is_steady)
        return;
    world_say(world, "agent %u is killed", a);
    world->count.crashes++;
    agent->alive = false;
    agent->frozen_until_us = 0;
    for (uint8_t m = 0; m < world->master_count; m++)
        end_connection(world, a, m);
    world_plan(world, world->now_us + between(world, 5 * MS, 4000 * MS),
               (struct happening){.kind = HAPPEN_START, .agent = a});
}

static void on_tick(struct world *world, uint8_t a)
{
    if (!instant_before((struct instant){world->now_us}, guard_deadline(&world->agents[a].guard)))
        act_guard(world, a, (struct guard_event){.kind = GUARD_TIME}, REQUEST_MARKER);
    plan_life(world, a, HAPPEN_TICK, TICK_MS * MS);
}

/* It asks for the lock, or meets a master with a renewal. */
static void on_round(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    uint8_t m = (uint8_t)prng_below(&world->prng, world->master_count);
    plan_life(world, a, HAPPEN_ROUND, between(world, 50 * MS, 700 * MS));
    if (prng_percent(&world->prng, 20) && agent->links[m].ready)
        act_renew(world, a, m);
    if (agent->idle || agent->attempt.open || agent->attempt.holds)
        return;
    act_lock(world, a);
    plan_life(world, a, HAPPEN_DECIDE, ROUND_MS * MS);
    /* Some are never released. */
    plan_life(world, a, HAPPEN_RELEASE,
              prng_percent(&world->prng, 80)
                  ? between(world, (ROUND_MS + 1) * MS, 1000 * MS)
                  : (int64_t)agent->max_ttl_ms * MS + between(world, 0, 500 * MS));
}

static void on_clock(struct world *world, const struct happening *h)
{
    int64_t skew_ms = between(world, -SKEW_MS_MAX, SKEW_MS_MAX);
    if (prng_percent(&world->prng, 50))
        skew_ms /= 1000;
    if (h->how == 0 && world->a6 != A6_EXCUSES) {
        act_set_clocks(world, skew_ms);
    } else if (h->how == 0) {
        world->agents[h->agent].skew_ms = skew_ms;
        world_say(world, "the clock of agent %u is set, to be off by %" PRId64 " ms", h->agent,
                  skew_ms);
    } else {
        act_set_clock(world, h->master, skew_ms - world->masters[h->master].skew_ms);
    }
}

/* ---- a master ---- */

static void on_request(struct world *world, struct happening h)
{
    struct sim_master *master = &world->masters[h.master];
    struct link *back = &world->agents[h.agent].links[h.master];
    bool current = is_current(world, &h);
    if (h.server != master->server || (!current && !h.late))
        return;
    act_execute(world, &h);
    if (!current)
        return;
    int64_t at_us = world->now_us + one_way_us(world, back);
    back->last_reply_us = at_us > back->last_reply_us ? at_us : back->last_reply_us;
    h.kind = HAPPEN_REPLY;
    world_plan(world, back->last_reply_us, h);
}

/* Returns true if so many others remember that no agent needs to guess. */
static bool has_witnesses(struct world *world, uint8_t m)
{
    unsigned others = 0;
    for (uint8_t other = 0; other < world->master_count; other++)
        others += other != m && act_remembers(world, other);
    return others >= act_witnesses(world);
}

static bool may_forget(struct world *world, uint8_t m)
{
    if (world->theme == THEME_FRESH || world->theme == THEME_FORGETFUL)
        return true;
    for (uint8_t i = 0; i < world->master_count; i++)
        if (i != m && !act_remembers(world, i) && !has_witnesses(world, i))
            return false;
    for (uint8_t i = 0; i < world->master_count; i++)
        if (i != m && !act_remembers(world, i) && act_remembers(world, m))
            return false;
    return has_witnesses(world, m);
}

static void on_forget(struct world *world, const struct happening *h)
{
    struct sim_master *master = &world->masters[h->master];
    uint32_t server = master->server;
    bool is_old = h->how == OLD_DATA || h->how == OLD_UNVOTED;
    if ((is_old && world->durable) ||
        (h->how == COPIED && (h->from == h->master || world->masters[h->from].spoiled)) ||
        (h->how != RESTARTED && !h->late && !may_forget(world, h->master)))
        return;
    act_forget(world, h->master, (enum forgetting)h->how, h->from);
    for (uint8_t a = 0; master->server != server && a < world->agent_count; a++)
        world_plan(world, world->now_us + between(world, 1, 50 * MS),
                   (struct happening){
                       .kind = HAPPEN_DROP, .agent = a, .master = h->master, .server = server});
}

/* Writes a wrong value into a marker by hand. The first kinds of numbers last until the marker is
 * flushed. */
static void on_spoil(struct world *world, uint8_t m)
{
    static const char *const what[][2] = {
        {"top", "1935000000000000"},
        {"floor", "1935000000000000"},
        {"told", "x"},
        {"since", "99999999999999"},
        {"longer", ""},
    };
    unsigned i = (unsigned)prng_below(&world->prng, sizeof(what) / sizeof(what[0]));
    if (!may_forget(world, m) || !act_remembers(world, m))
        return;
    world_say(world, "the %s of master %u becomes '%s'", what[i][0], m, what[i][1]);
    marker_set(world->masters[m].keys, what[i][0], what[i][1]);
    world->masters[m].spoiled = true;
    if (i < 2)
        world_plan(
            world, world->now_us + between(world, 0, 4000 * MS),
            (struct happening){.kind = HAPPEN_FORGET, .how = FLUSHED, .late = true, .master = m});
}

static void on_full(struct world *world, uint8_t m)
{
    struct sim_master *master = &world->masters[m];
    master->full = !master->full && world->now_us < world->chaos_until_us;
    world_say(world, "master %u %s", m, master->full ? "cannot write" : "can write again");
    if (master->full)
        world_plan(world, world->now_us + between(world, 100 * MS, 3000 * MS),
                   (struct happening){.kind = HAPPEN_FULL, .master = m});
}

/* ---- a run ---- */

static void happen_to_agent(struct world *world, const struct happening *h)
{
    /* events that belong to an agent's life */
    bool lives = world->agents[h->agent].alive && world->agents[h->agent].life == h->connection;
    switch (h->kind) {
    case HAPPEN_TICK:
        if (lives)
            on_tick(world, h->agent);
        break;
    case HAPPEN_CONNECT:
        if (lives && !world->agents[h->agent].links[h->master].open)
            on_connect(world, h);
        break;
    case HAPPEN_GREET:
        if (is_current(world, h))
            on_greet(world, h);
        break;
    case HAPPEN_REPLY:
        if (is_current(world, h))
            on_reply(world, h);
        break;
    case HAPPEN_READY:
        if (is_current(world, h))
            act_ready(world, h->agent, h->master);
        break;
    case HAPPEN_PAUSE:
        on_pause(world, h);
        break;
    case HAPPEN_DROP:
        on_drop(world, h);
        break;
    case HAPPEN_ROUND:
        if (lives)
            on_round(world, h->agent);
        break;
    case HAPPEN_DECIDE:
        if (lives)
            act_decide(world, h->agent);
        break;
    default: /* RELEASE */
        if (lives)
            act_release(world, h->agent);
        break;
    }
}

static void happen(struct world *world, const struct happening *h)
{
    struct sim_agent *agent = &world->agents[h->agent];
    switch (h->kind) {
    case HAPPEN_START:
        on_start(world, h->agent);
        break;
    case HAPPEN_CRASH:
        on_crash(world, h->agent);
        break;
    case HAPPEN_FREEZE:
        world_say(world, "agent %u stands still for %" PRId64 " ms", h->agent, h->by_ms);
        if (agent->frozen_until_us < world->now_us + h->by_ms * MS)
            agent->frozen_until_us = world->now_us + h->by_ms * MS;
        break;
    case HAPPEN_CLOCK:
        on_clock(world, h);
        break;
    case HAPPEN_REQUEST:
        on_request(world, *h);
        break;
    case HAPPEN_FORGET:
        on_forget(world, h);
        break;
    case HAPPEN_SPOIL:
        on_spoil(world, h->master);
        break;
    case HAPPEN_FULL:
        on_full(world, h->master);
        break;
    case HAPPEN_LOOK:
        world_plan(world, world->now_us + 50 * MS, *h);
        break;
    default:
        if (world->now_us < agent->frozen_until_us)
            world_plan(world, agent->frozen_until_us, *h);
        else
            happen_to_agent(world, h);
        break;
    }
}

void world_run(struct world *world, uint64_t seed, enum theme theme, enum a6 a6, bool told)
{
    memset(world, 0, offsetof(struct world, happenings));
    world->violation[0] = '\0';
    memset(&world->count, 0, sizeof(world->count));
    world->seed = seed;
    world->theme = theme;
    world->a6 = a6;
    world->told = told;
    world->prng.state = seed * 8 + theme;
    world_draw(world);
    world_say(world, "%s group of %u, quorum %u, %u agents",
              world->durable ? "a durable" : "a not durable", world->master_count, world->quorum,
              world->agent_count);
    while (world->waiting > 0 && !*world->violation) {
        struct happening h = next(world);
        if (h.at_us > world->end_us)
            break;
        world->now_us = h.at_us;
        check_reach(world);
        happen(world, &h);
        if (h.kind == HAPPEN_REQUEST || h.kind == HAPPEN_LOOK || h.kind == HAPPEN_FORGET)
            check_now(world);
    }
    if (!*world->violation)
        check_end(world);
}
