/* The course of a run of the guard's world, in time. */
#include "tests/guard/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"

enum {
    TICK_MS = 250,
    GREETING_TRIPS = 4, /* round trips of a greeting before the marker; behind it are */
    ENDING_TRIPS = 3,
    BACKOFF_MS_MIN = 20,
    BACKOFF_MS_MAX = 500,
    SKEW_MS_MAX = 20 * 60 * 1000, /* less than numbers may be ahead of the agreed time (R12) */
};

jmp_buf world_asserted;
static struct world *last_cleared;

/* The core's assertions end here, in the world of this process. */
_Noreturn void lockcore_assert_failed(const char *expression, const char *file, int line)
{
    check_broken(last_cleared, "assertion", "%s (%s:%d)", expression, file, line);
    longjmp(world_asserted, 1);
}

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

/* ---- the seam: chance draws, and a search has one value for each draw ---- */

static int64_t drawn(struct world *world, int64_t low, int64_t high, int64_t searched)
{
    return world->is_searched ? searched : prng_between(&world->prng, low, high);
}

static bool drawn_percent(struct world *world, unsigned percent)
{
    return !world->is_searched && prng_percent(&world->prng, percent);
}

/* ---- the happenings that wait ---- */

struct happening *world_waiting(struct world *world, unsigned place)
{
    return &world->happenings[world->line[place]];
}

void world_plan(struct world *world, int64_t at_us, struct happening happening)
{
    unsigned low = 0, high = world->waiting;
    if (world->waiting == HAPPENINGS_MAX)
        abort();
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (world_waiting(world, middle)->at_us <= at_us)
            low = middle + 1;
        else
            high = middle;
    }
    uint16_t free_place = world->line[world->waiting];
    memmove(world->line + low + 1, world->line + low, (world->waiting++ - low) * sizeof(uint16_t));
    world->line[low] = free_place;
    world->happenings[free_place] = happening;
    world->happenings[free_place].at_us = at_us;
}

struct happening world_remove(struct world *world, unsigned place)
{
    uint16_t at = world->line[place];
    memmove(world->line + place, world->line + place + 1,
            (--world->waiting - place) * sizeof(uint16_t));
    world->line[world->waiting] = at;
    return world->happenings[at];
}

static int64_t one_way_us(struct world *world, const struct link *link)
{
    return drawn(world, link->latency_us / 2, link->latency_us, 0);
}

static bool is_current(const struct world *world, const struct happening *h)
{
    const struct link *link = &world->agents[h->agent].links[h->master];
    return world->agents[h->agent].alive && link->open && link->connection == h->connection;
}

/* An event of an agent's life, not of one of its connections. */
static bool lives(const struct world *world, const struct happening *h)
{
    return world->agents[h->agent].alive && world->agents[h->agent].life == h->connection;
}

bool world_is_void(const struct world *world, const struct happening *h)
{
    const struct link *link = &world->agents[h->agent].links[h->master];
    switch (h->kind) {
    case HAPPEN_REQUEST:
        return h->server != world->masters[h->master].server || (!is_current(world, h) && !h->late);
    case HAPPEN_GREET:
    case HAPPEN_REPLY:
    case HAPPEN_READY:
        return !is_current(world, h);
    case HAPPEN_CONNECT:
        return !lives(world, h) || link->open;
    case HAPPEN_TICK:
    case HAPPEN_ROUND:
    case HAPPEN_DECIDE:
    case HAPPEN_RELEASE:
        return !lives(world, h);
    case HAPPEN_EXTEND:
        return !lives(world, h) || world->agents[h->agent].attempt.lock.attempt != h->lock.attempt;
    case HAPPEN_DROP: /* server: the master ended the connection, not the network */
        return h->server != 0 && (!link->open || link->server != h->server);
    default:
        return false;
    }
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
    request.late = drawn_percent(world, 50);
    if (!world->is_searched)
        snprintf(request.fresh_epoch, sizeof(request.fresh_epoch), "%016" PRIx64,
                 prng_next(&world->prng));
    world_plan(world, link->last_request_us, request);
    /* A request in flight on a dead connection may run much later. */
    if (drawn_percent(world, 2)) {
        request.late = true;
        request.connection = 0;
        world_plan(world, link->last_request_us + drawn(world, 0, 12000 * MS, 0), request);
    }
}

/* Runs a request. In a search an epoch that begins has the next name of the master's own. */
static void execute(struct world *world, struct happening *h)
{
    struct sim_master *master = &world->masters[h->master];
    if (world->is_searched)
        snprintf(h->fresh_epoch, sizeof(h->fresh_epoch), "%x%03x%012x", h->master + 1u,
                 (unsigned)master->epochs + 1, 0);
    act_execute(world, h);
    if (!world->is_searched)
        return;
    master->epochs += strcmp(h->answer.epoch, h->fresh_epoch) == 0;
    memset(h->fresh_epoch, 0, sizeof(h->fresh_epoch));
}

/* Decides on the requests in flight of a connection that ends. */
static void end_requests(struct world *world, uint8_t a, uint8_t m, enum fate fate)
{
    for (unsigned i = 0; fate != FATE_DRAWN && i < world->waiting; i++) {
        struct happening *h = world_waiting(world, i);
        if (h->kind != HAPPEN_REQUEST || h->agent != a || h->master != m || !is_current(world, h))
            continue;
        h->late = fate == FATE_LATER;
        if (fate == FATE_RUN && !world_is_void(world, h))
            execute(world, h);
    }
}

static void plan_connect(struct world *world, uint8_t a, uint8_t m, int64_t after_us)
{
    const struct sim_agent *agent = &world->agents[a];
    int64_t at_us = world->now_us + after_us, blocked_us = agent->links[m].blocked_until_us;
    if (world->is_searched && blocked_us > at_us)
        at_us = blocked_us;
    if (at_us < INT64_MAX)
        world_plan(world, at_us,
                   (struct happening){
                       .kind = HAPPEN_CONNECT, .agent = a, .master = m, .connection = agent->life});
}

static int64_t backoff_us(struct world *world, struct link *link)
{
    int64_t ms = BACKOFF_MS_MIN;
    for (uint32_t i = 0; i < link->failures && ms < BACKOFF_MS_MAX; i++)
        ms *= 2;
    ms = ms > BACKOFF_MS_MAX ? BACKOFF_MS_MAX : ms;
    link->failures++;
    return drawn(world, ms / 2, ms, BACKOFF_MS_MIN) * MS;
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

static void on_connect(struct world *world, struct happening *h)
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

static void on_drop(struct world *world, struct happening *h)
{
    struct link *link = &world->agents[h->agent].links[h->master];
    static const char *const fates[] = {"", ", and its requests in flight never run",
                                        ", after its requests in flight have run",
                                        ", and its requests in flight run later"};
    bool by_network = h->server == 0;
    if (world->is_searched && by_network)
        link->blocked_until_us = world->now_us + h->by_ms * MS;
    if (!world->agents[h->agent].alive || !link->open)
        return;
    world_say(world, "agent %u loses master %u%s", h->agent, h->master, fates[h->fate]);
    if (by_network && drawn_percent(world, world->theme == THEME_IN_TURN ? 60 : 30))
        link->blocked_until_us = world->now_us + drawn(world, 0, 6000 * MS, 0);
    world->count.drops++;
    end_requests(world, h->agent, h->master, (enum fate)h->fate);
    end_connection(world, h->agent, h->master);
    act_guard(world, h->agent, (struct guard_event){.kind = GUARD_AWAY, .master = h->master},
              REQUEST_MARKER);
    plan_connect(world, h->agent, h->master, backoff_us(world, link));
}

/* Holds up the messages in flight, and all that follow them. */
static void on_hold(struct world *world, struct happening *h)
{
    struct link *link = &world->agents[h->agent].links[h->master];
    enum happening_kind kind = h->how == 0 ? HAPPEN_REQUEST : HAPPEN_REPLY;
    int64_t until_us = world->now_us + h->by_ms * MS;
    *(h->how == 0 ? &link->last_request_us : &link->last_reply_us) = until_us;
    world_say(world, "%s between agent %u and master %u are held up for %" PRId64 " ms",
              h->how == 0 ? "requests" : "replies", h->agent, h->master, h->by_ms);
    for (unsigned i = 0; i < world->waiting && world_waiting(world, i)->at_us < until_us;) {
        const struct happening *held = world_waiting(world, i);
        if (held->kind == kind && held->agent == h->agent && held->master == h->master &&
            is_current(world, held))
            world_plan(world, until_us, world_remove(world, i));
        else
            i++;
    }
}

/* The master was LOADING for a moment, say: the greeting begins anew, on the same connection. */
static void on_pause(struct world *world, struct happening *h)
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

static void on_greet(struct world *world, struct happening *h)
{
    struct guard_event event = {.kind = GUARD_GREETS,
                                .master = h->master,
                                .same_connection =
                                    world->agents[h->agent].links[h->master].was_ready,
                                .knows_run = !world->hides_run};
    act_guard(world, h->agent, event, REQUEST_GREETING);
}

static void on_reply(struct world *world, struct happening *h)
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

static void on_start(struct world *world, struct happening *h)
{
    uint8_t a = h->agent;
    struct sim_agent *agent = &world->agents[a];
    if (!world->is_searched)
        draw_life(world, a);
    act_start(world, a);
    for (uint8_t m = 0; m < world->master_count; m++) {
        agent->links[m].failures = 0;
        if (agent->links[m].blocked_until_us == INT64_MAX)
            act_guard(world, a, (struct guard_event){.kind = GUARD_AWAY, .master = m},
                      REQUEST_MARKER);
        plan_connect(world, a, m,
                     agent->life == 1 ? agent->links[m].first_connect_us
                                      : drawn(world, 0, 20 * MS, 0));
    }
    if (world->is_searched)
        return;
    plan_life(world, a, HAPPEN_TICK, TICK_MS * MS);
    plan_life(world, a, HAPPEN_ROUND, drawn(world, 1, 400 * MS, 0));
}

static void on_crash(struct world *world, struct happening *h)
{
    struct sim_agent *agent = &world->agents[h->agent];
    bool is_steady = !world->is_searched && world->theme == THEME_LEASES && h->agent == 0;
    if (!agent->alive || world->now_us >= world->chaos_until_us || is_steady)
        return;
    world_say(world, "agent %u is killed", h->agent);
    world->count.crashes++;
    for (uint8_t m = 0; m < world->master_count; m++)
        end_requests(world, h->agent, m, (enum fate)h->fate);
    agent->alive = false;
    agent->frozen_until_us = 0;
    agent->attempt = (struct attempt){.open = false};
    memset(&agent->guard, 0, sizeof(agent->guard));
    for (uint8_t m = 0; m < world->master_count; m++)
        end_connection(world, h->agent, m);
    world_plan(world, world->now_us + drawn(world, 5 * MS, 4000 * MS, h->by_ms * MS),
               (struct happening){.kind = HAPPEN_START, .agent = h->agent});
}

static void on_tick(struct world *world, struct happening *h)
{
    struct instant due = guard_deadline(&world->agents[h->agent].guard);
    if (!instant_before((struct instant){world->now_us}, due))
        act_guard(world, h->agent, (struct guard_event){.kind = GUARD_TIME}, REQUEST_MARKER);
    if (!world->is_searched)
        plan_life(world, h->agent, HAPPEN_TICK, TICK_MS * MS);
}

static void plan_extending(struct world *world, uint8_t a)
{
    const struct script_lock *lock = &world->agents[a].attempt.lock;
    world_plan(
        world, world->now_us + (int64_t)lock->ttl_ms * MS / 3,
        (struct happening){
            .kind = HAPPEN_EXTEND, .agent = a, .connection = world->agents[a].life, .lock = *lock});
}

static void on_extend(struct world *world, struct happening *h)
{
    if (world->agents[h->agent].attempt.open || act_extend(world, h->agent))
        plan_extending(world, h->agent);
}

/* A lock that is kept is released when its time is over. */
static void on_release(struct world *world, struct happening *h)
{
    if (!world->agents[h->agent].attempt.keeps)
        act_release(world, h);
}

/* Draws whether the lock that the agent asks for will be kept: in some runs longer than a layout is
 * noted for. */
static void draw_keeping(struct world *world, uint8_t a)
{
    struct attempt *attempt = &world->agents[a].attempt;
    if (world->theme != THEME_LAYOUTS || !drawn_percent(world, 40))
        return;
    attempt->keeps = true;
    attempt->keep_until_us = world->now_us + drawn(world, 0, 40000 * MS, 0);
    plan_extending(world, a);
}

static void on_lock(struct world *world, struct happening *h)
{
    uint8_t a = h->agent;
    act_lock(world, a);
    plan_life(world, a, HAPPEN_DECIDE, ROUND_MS * MS);
    /* Some are never released. */
    int64_t until_us =
        world->is_searched || prng_percent(&world->prng, 80)
            ? drawn(world, (ROUND_MS + 1) * MS, 1000 * MS, ROUND_MS * MS)
            : (int64_t)world->agents[a].max_ttl_ms * MS + drawn(world, 0, 500 * MS, 0);
    plan_life(world, a, HAPPEN_RELEASE, until_us);
    draw_keeping(world, a);
}

/* R23: "A closed group adopts no hold (D3.4) and resumes none of its journal". */
static bool may_adopt(const struct world *world, uint8_t a)
{
    return world->adopts_while_refused ||
           guard_gate(&world->agents[a].guard, (struct instant){world->now_us}) == GUARD_OPEN;
}

/* A holder goes on with its token at this agent. */
static bool adopts(struct world *world, uint8_t a)
{
    uint8_t from = (uint8_t)prng_below(&world->prng, world->agent_count);
    const struct sim_agent *other = &world->agents[from];
    if (from == a || !other->alive || !other->attempt.holds || !other->attempt.keeps ||
        !may_adopt(world, a))
        return false;
    act_adopt(world, a, from);
    plan_extending(world, a);
    return true;
}

/* It asks for the lock, or meets a master with a renewal. */
static void on_round(struct world *world, struct happening *h)
{
    uint8_t a = h->agent;
    struct sim_agent *agent = &world->agents[a];
    uint8_t m = (uint8_t)prng_below(&world->prng, world->master_count);
    plan_life(world, a, HAPPEN_ROUND, drawn(world, 50 * MS, 700 * MS, 0));
    if (drawn_percent(world, 20) && agent->links[m].ready)
        act_renew(world, a, m);
    if (agent->attempt.open || agent->attempt.holds || agent->attempt.keeps)
        return;
    if (world->theme == THEME_LAYOUTS && drawn_percent(world, 30) && adopts(world, a))
        return;
    if (!agent->idle)
        on_lock(world, h);
}

static void on_clock(struct world *world, struct happening *h)
{
    int64_t skew_ms = drawn(world, -SKEW_MS_MAX, SKEW_MS_MAX, 0);
    if (drawn_percent(world, 50))
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

static void on_request(struct world *world, struct happening *h)
{
    struct link *back = &world->agents[h->agent].links[h->master];
    execute(world, h);
    if (!is_current(world, h))
        return;
    int64_t at_us = world->now_us + one_way_us(world, back);
    back->last_reply_us = at_us > back->last_reply_us ? at_us : back->last_reply_us;
    struct happening reply = *h;
    reply.kind = HAPPEN_REPLY;
    world_plan(world, back->last_reply_us, reply);
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

static void on_forget(struct world *world, struct happening *h)
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
        world_plan(world, world->now_us + drawn(world, 1, 50 * MS, 0),
                   (struct happening){.kind = HAPPEN_DROP,
                                      .fate = world->is_searched ? FATE_NEVER : FATE_DRAWN,
                                      .agent = a,
                                      .master = h->master,
                                      .server = server});
}

/* Writes a wrong value into a marker by hand. The first kinds of numbers last until the marker is
 * flushed. */
static void on_spoil(struct world *world, struct happening *h)
{
    uint8_t m = h->master;
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
    if (world->before_change)
        world->before_change(world, m);
    marker_set(world->masters[m].keys, what[i][0], what[i][1]);
    world->masters[m].spoiled = true;
    if (i < 2)
        world_plan(
            world, world->now_us + drawn(world, 0, 4000 * MS, 0),
            (struct happening){.kind = HAPPEN_FORGET, .how = FLUSHED, .late = true, .master = m});
}

static void on_full(struct world *world, struct happening *h)
{
    uint8_t m = h->master;
    struct sim_master *master = &world->masters[m];
    master->full = !master->full && world->now_us < world->chaos_until_us;
    world_say(world, "master %u %s", m, master->full ? "cannot write" : "can write again");
    if (master->full)
        world_plan(world, world->now_us + drawn(world, 100 * MS, 3000 * MS, 0),
                   (struct happening){.kind = HAPPEN_FULL, .master = m});
}

/* ---- a run ---- */

static void on_freeze(struct world *world, struct happening *h)
{
    int64_t *until_us = &world->agents[h->agent].frozen_until_us;
    world_say(world, "agent %u pauses for %" PRId64 " ms", h->agent, h->by_ms);
    if (*until_us < world->now_us + h->by_ms * MS)
        *until_us = world->now_us + h->by_ms * MS;
}

static const struct {
    void (*happens)(struct world *world, struct happening *h);
    bool is_of_agent; /* A frozen agent does it later. */
} kinds[] = {
    [HAPPEN_START] = {on_start, false},    [HAPPEN_CRASH] = {on_crash, false},
    [HAPPEN_FREEZE] = {on_freeze, false},  [HAPPEN_CLOCK] = {on_clock, false},
    [HAPPEN_TICK] = {on_tick, true},       [HAPPEN_CONNECT] = {on_connect, true},
    [HAPPEN_GREET] = {on_greet, true},     [HAPPEN_REQUEST] = {on_request, false},
    [HAPPEN_REPLY] = {on_reply, true},     [HAPPEN_READY] = {act_ready, true},
    [HAPPEN_PAUSE] = {on_pause, true},     [HAPPEN_DROP] = {on_drop, true},
    [HAPPEN_ROUND] = {on_round, true},     [HAPPEN_DECIDE] = {act_decide, true},
    [HAPPEN_RELEASE] = {on_release, true}, [HAPPEN_FORGET] = {on_forget, false},
    [HAPPEN_SPOIL] = {on_spoil, false},    [HAPPEN_FULL] = {on_full, false},
    [HAPPEN_TIME] = {NULL, false},         [HAPPEN_HOLD] = {on_hold, false},
    [HAPPEN_LOCK] = {on_lock, true},       [HAPPEN_EXTEND] = {on_extend, true},
};

void world_take(struct world *world, struct happening *h)
{
    int64_t frozen_until_us = world->agents[h->agent].frozen_until_us;
    if (kinds[h->kind].is_of_agent && world->now_us < frozen_until_us)
        world_plan(world, frozen_until_us, *h);
    else if (kinds[h->kind].happens && !world_is_void(world, h))
        kinds[h->kind].happens(world, h);
    check_now(world);
}

void world_clear(struct world *world, unsigned masters, unsigned quorum)
{
    bool told = world->told;
    struct counts count = world->count;
    memset(world, 0, offsetof(struct world, line));
    last_cleared = world;
    world->told = told;
    world->count = count;
    world->master_count = masters;
    world->quorum = quorum;
    world->hold_until_us = world->hold_began_us = INT64_MIN;
    world->jumped_us = world->unknown_until_us = INT64_MIN;
    for (uint8_t m = 0; m < masters; m++)
        world->masters[m] = (struct sim_master){.server = 1,
                                                .well_since_us = INT64_MAX,
                                                .lease_end_us = INT64_MIN,
                                                .owes_until_us = INT64_MIN,
                                                .forgot_us = INT64_MIN / 2};
    for (unsigned i = 0; i < HAPPENINGS_MAX; i++)
        world->line[i] = (uint16_t)i;
}

void world_trust(struct world *world, uint8_t m, const char *epoch)
{
    struct guard_ask ask = {
        .question = GUARD_ASK_TRUST, .max_ttl_ms = 1000, .top = 1, .told = GUARD_TOLD};
    struct guard_answer answer;
    struct guard_layouts layouts;
    char run[24] = "";
    if (world->before_change)
        world->before_change(world, m);
    if (!world->hides_run)
        snprintf(run, sizeof(run), "r%us%u", m, (unsigned)world->masters[m].server);
    script_marker(world->masters[m].keys, master_wall_ms(world, &world->masters[m]), &ask, 0, run,
                  epoch, &answer, &layouts);
}
