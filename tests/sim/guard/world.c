/* What happens in the guard's world: a seed draws it, agents and masters live it. The agents' shell
 * does what agent/redis does. */
#include "tests/sim/guard/world.h"
#include "agent/redis/asking.h"

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
    SKEW_MS = 400,
    WALL_MS_BASE = 1760000000, /* times 1000 */
};

enum forgetting { FLUSHED, RESTARTED_EMPTY, PROMOTED_REPLICA, RESTARTED_WITH_DATA, FORGETTINGS };

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

int64_t master_wall_ms(const struct world *world, const struct sim_master *master)
{
    return (int64_t)WALL_MS_BASE * 1000 + world->now_us / MS + master->skew_ms;
}

/* ---- what is planned ---- */

static bool is_before(const struct happening *a, const struct happening *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void plan(struct world *world, int64_t at_us, struct happening happening)
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

bool world_is_fresh(const struct world *world)
{
    return world->theme == THEME_CALM || world->theme == THEME_FRESH;
}

static bool is_steady(const struct world *world, uint8_t agent)
{
    return world->theme == THEME_FLUSHED && agent == 0;
}

/* ---- an agent's shell ---- */

static void send(struct world *world, uint8_t a, uint8_t m, struct happening request)
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
    plan(world, link->last_request_us, request);
}

static void carry_out(struct world *world, uint8_t a, const struct guard_effects *effects,
                      enum request_kind kind)
{
    struct sim_agent *agent = &world->agents[a];
    for (uint8_t m = 0; m < world->master_count; m++)
        if (effects->epochs >> m & 1)
            memcpy(agent->links[m].told_epoch, agent->guard.masters[m].epoch, GUARD_WORD_BYTES);
    for (unsigned i = 0; i < effects->ask_count; i++) {
        struct happening request = {.request = kind, .ask = effects->asks[i]};
        struct link *link = &agent->links[effects->asks[i].master];
        if (!link->open)
            abort();
        snprintf(request.run_id, sizeof(request.run_id), "r%u", (unsigned)link->server);
        snprintf(request.fresh_epoch, sizeof(request.fresh_epoch), "%016" PRIx64,
                 prng_next(&world->prng));
        send(world, a, effects->asks[i].master, request);
    }
}

static void tell(struct world *world, uint8_t a, struct guard_event event, enum request_kind kind)
{
    struct guard_effects effects;
    guard_step(&world->agents[a].guard, &event, (struct instant){world->now_us}, &effects);
    carry_out(world, a, &effects, kind);
}

static void plan_connect(struct world *world, uint8_t a, uint8_t m, int64_t after_us)
{
    plan(world, world->now_us + after_us,
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

static void on_start(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    agent->alive = true;
    agent->life++;
    world_say(world, "agent %u starts", a);
    guard_init(&agent->guard, (uint8_t)world->master_count, world->durable, agent->max_ttl_ms);
    for (uint8_t m = 0; m < world->master_count; m++) {
        agent->links[m].failures = 0;
        agent->links[m].told_epoch[0] = '\0';
        plan_connect(world, a, m,
                     agent->life == 1 ? agent->links[m].first_connect_us
                                      : between(world, 0, 20 * MS));
    }
    plan(world, world->now_us + TICK_MS * MS,
         (struct happening){.kind = HAPPEN_TICK, .agent = a, .connection = agent->life});
    plan(world, world->now_us + between(world, 1, 400 * MS),
         (struct happening){.kind = HAPPEN_LOCK, .agent = a, .connection = agent->life});
}

static void end_connection(struct world *world, uint8_t a, uint8_t m)
{
    struct link *link = &world->agents[a].links[m];
    if (link->ready)
        link->away_since_us = world->now_us;
    link->open = link->ready = false;
    link->connection++; /* what it had in flight finds another number */
    link->last_request_us = link->last_reply_us = 0;
}

static void on_crash(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    if (!agent->alive || world->now_us >= world->chaos_until_us || is_steady(world, a))
        return;
    world_say(world, "agent %u is killed", a);
    world->count.crashes++;
    agent->alive = false;
    check_crashed(world, a);
    for (uint8_t m = 0; m < world->master_count; m++)
        end_connection(world, a, m);
    plan(world,
         world->now_us +
             between(world, 5 * MS, (world->theme == THEME_FORGETFUL ? 4000 : 800) * MS),
         (struct happening){.kind = HAPPEN_START, .agent = a});
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
    plan(world, world->now_us + 2 * GREETING_TRIPS * one_way_us(world, link),
         (struct happening){.kind = HAPPEN_GREET,
                            .agent = h->agent,
                            .master = h->master,
                            .connection = link->connection});
}

static void on_drop(struct world *world, const struct happening *h)
{
    struct sim_agent *agent = &world->agents[h->agent];
    struct link *link = &agent->links[h->master];
    bool by_master = h->connection != 0; /* and not the network's doing */
    if (!agent->alive || !link->open ||
        (by_master ? h->connection != link->connection : is_steady(world, h->agent)))
        return;
    world_say(world, "agent %u loses master %u", h->agent, h->master);
    if (!by_master && world->theme == THEME_FORGETFUL && prng_percent(&world->prng, 30))
        link->blocked_until_us = world->now_us + between(world, 0, 6000 * MS);
    world->count.drops++;
    end_connection(world, h->agent, h->master);
    tell(world, h->agent, (struct guard_event){.kind = GUARD_AWAY, .master = h->master},
         REQUEST_MARKER);
    plan_connect(world, h->agent, h->master, backoff_us(world, link));
}

static bool is_current(const struct world *world, const struct happening *h)
{
    const struct link *link = &world->agents[h->agent].links[h->master];
    return world->agents[h->agent].alive && link->open && link->connection == h->connection;
}

static void on_reply(struct world *world, const struct happening *h)
{
    struct link *link = &world->agents[h->agent].links[h->master];
    if (!is_current(world, h))
        return;
    struct guard_event event = {.kind = h->refused ? GUARD_REFUSED : GUARD_ANSWERED,
                                .master = h->master,
                                .answer = h->answer};
    if (h->request == REQUEST_LOCK)
        event.kind = GUARD_SEES_GUARDED;
    else if (h->request == REQUEST_RENEW)
        event.kind = GUARD_SEES_EPOCH;
    else if (h->request == REQUEST_MARKER && h->refused)
        event.kind = GUARD_UNANSWERED;
    world_say(world,
              "agent %u hears from master %u: epoch '%.4s', birth '%.4s', left %" PRId64 "%s",
              h->agent, h->master, h->answer.epoch, h->answer.birth, h->answer.left_ms,
              h->refused ? ", refused" : "");
    if (h->request != REQUEST_LOCK || h->answer.left_ms != 0)
        tell(world, h->agent, event, REQUEST_MARKER);
    check_told(world, h);
    if (h->request == REQUEST_GREETING)
        plan(world, world->now_us + 2 * ENDING_TRIPS * one_way_us(world, link),
             (struct happening){.kind = HAPPEN_READY,
                                .agent = h->agent,
                                .master = h->master,
                                .connection = h->connection});
}

static void on_ready(struct world *world, const struct happening *h)
{
    struct link *link = &world->agents[h->agent].links[h->master];
    link->ready = true;
    link->failures = 0;
    check_back(world, h->agent, h->master);
    link->away_since_us = INT64_MAX;
    tell(world, h->agent, (struct guard_event){.kind = GUARD_READY, .master = h->master},
         REQUEST_MARKER);
}

/* The core asks for a lock, or renews one: on any master that is READY. */
static void on_lock(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    uint8_t m = (uint8_t)prng_below(&world->prng, world->master_count);
    bool locks = prng_percent(&world->prng, 50);
    if (!agent->idle && agent->links[m].ready && !(locks && agent->guard.masters[m].unsure))
        send(world, a, m, (struct happening){.request = locks ? REQUEST_LOCK : REQUEST_RENEW});
    plan(world, world->now_us + between(world, 50 * MS, 400 * MS),
         (struct happening){.kind = HAPPEN_LOCK, .agent = a, .connection = agent->life});
}

/* ---- a master ---- */

static void on_request(struct world *world, struct happening h)
{
    struct sim_master *master = &world->masters[h.master];
    const struct link *link = &world->agents[h.agent].links[h.master];
    bool current = is_current(world, &h);
    if (h.server != master->server || (!current && !h.late))
        return;
    int64_t wall_ms = master_wall_ms(world, master);
    if (h.request >= REQUEST_LOCK) {
        h.answer.left_ms = script_guard_left_ms(master->keys, wall_ms);
        marker_field(master->keys, "epoch", h.answer.epoch);
    } else if (master->full) {
        h.refused = true;
    } else {
        uint32_t before_ms = marker_max_ttl_ms(master->keys);
        script_marker(master->keys, wall_ms, &h.ask, h.run_id, h.fresh_epoch, &h.answer);
        if (before_ms != h.answer.max_ttl_ms)
            master->ttl_since_us = world->now_us;
        world_say(world, "master %u runs %s of agent %u: epoch '%.4s', birth '%.4s', left %" PRId64,
                  h.master, guard_question_word(h.ask.question), h.agent, h.answer.epoch,
                  h.answer.birth, h.answer.left_ms);
        world->count.births += strcmp(h.answer.epoch, h.fresh_epoch) == 0;
    }
    if (!current)
        return;
    struct link *back = &world->agents[h.agent].links[h.master];
    int64_t at_us = world->now_us + one_way_us(world, link);
    back->last_reply_us = at_us > back->last_reply_us ? at_us : back->last_reply_us;
    h.kind = HAPPEN_REPLY;
    plan(world, back->last_reply_us, h);
}

static void restart_master(struct world *world, uint8_t m)
{
    world->masters[m].server++;
    for (uint8_t a = 0; a < world->agent_count; a++)
        plan(world, world->now_us + between(world, 1, 50 * MS),
             (struct happening){.kind = HAPPEN_DROP,
                                .agent = a,
                                .master = m,
                                .connection = world->agents[a].links[m].connection});
}

static void drop_vote(struct keyspace *keys)
{
    static const struct bytes del[] = {{"DEL", 3}, {VOTE_KEY, sizeof(VOTE_KEY) - 1}};
    keyspace_command(keys, del, 2);
}

static void on_forget(struct world *world, const struct happening *h)
{
    struct sim_master *master = &world->masters[h->master];
    if (h->how == RESTARTED_WITH_DATA) {
        world_say(world, "master %u restarts with its data", h->master);
        restart_master(world, h->master);
        return;
    }
    if ((h->how == PROMOTED_REPLICA && world->durable) || !check_may_forget(world, h->master))
        return;
    static const char *const how[] = {"is flushed", "restarts empty",
                                      "is replaced by a replica that lacks keys"};
    world_say(world, "master %u %s", h->master, how[h->how]);
    world->count.forgets++;
    check_forgot(world, h->master);
    if (h->how != PROMOTED_REPLICA)
        keyspace_clear(master->keys);
    else if (world->now_us % 2 == 0) /* it had not yet seen the vote either */
        drop_vote(master->keys);
    if (h->how != FLUSHED)
        restart_master(world, h->master);
}

static void on_full(struct world *world, uint8_t m)
{
    struct sim_master *master = &world->masters[m];
    master->full = !master->full && world->now_us < world->chaos_until_us;
    world_say(world, "master %u %s", m, master->full ? "can not write" : "can write again");
    if (master->full)
        plan(world, world->now_us + between(world, 100 * MS, 3000 * MS),
             (struct happening){.kind = HAPPEN_FULL, .master = m});
}

/* ---- a run ---- */

static void happen(struct world *world, const struct happening *h)
{
    struct sim_agent *agent = &world->agents[h->agent];
    /* of those that belong to an agent's life */
    bool lives = agent->alive && agent->life == h->connection;
    switch (h->kind) {
    case HAPPEN_START:
        on_start(world, h->agent);
        break;
    case HAPPEN_CRASH:
        on_crash(world, h->agent);
        break;
    case HAPPEN_TICK:
        if (lives) {
            if (!instant_before((struct instant){world->now_us}, guard_deadline(&agent->guard)))
                tell(world, h->agent, (struct guard_event){.kind = GUARD_TIME}, REQUEST_MARKER);
            plan(world, world->now_us + TICK_MS * MS, *h);
        }
        break;
    case HAPPEN_CONNECT:
        if (lives && !agent->links[h->master].open)
            on_connect(world, h);
        break;
    case HAPPEN_GREET:
        if (is_current(world, h))
            tell(world, h->agent, (struct guard_event){.kind = GUARD_GREETS, .master = h->master},
                 REQUEST_GREETING);
        break;
    case HAPPEN_REQUEST:
        on_request(world, *h);
        break;
    case HAPPEN_REPLY:
        on_reply(world, h);
        break;
    case HAPPEN_READY:
        if (is_current(world, h))
            on_ready(world, h);
        break;
    case HAPPEN_DROP:
        on_drop(world, h);
        break;
    case HAPPEN_LOCK:
        if (lives)
            on_lock(world, h->agent);
        break;
    case HAPPEN_FORGET:
        on_forget(world, h);
        break;
    case HAPPEN_FULL:
        on_full(world, h->master);
        break;
    case HAPPEN_LOOK:
        plan(world, world->now_us + 50 * MS, *h);
        break;
    }
}

static void draw_links(struct world *world, struct sim_agent *agent)
{
    bool calm = world->theme == THEME_CALM || is_steady(world, (uint8_t)(agent - world->agents));
    for (uint8_t m = 0; m < world->master_count; m++) {
        struct link *link = &agent->links[m];
        int64_t slow_us = world_is_fresh(world)         ? 100 * MS
                          : world->theme == THEME_BIRTH ? 200 * MS
                                                        : 30 * MS;
        *link = (struct link){.latency_us =
                                  prng_percent(&world->prng, world->theme == THEME_BIRTH ? 20 : 70)
                                      ? between(world, 30, 500)
                                      : between(world, 500, slow_us),
                              .away_since_us = INT64_MIN / 2};
        if (prng_percent(&world->prng, 60))
            link->first_connect_us = between(world, 0, calm ? 500 * MS : 1500 * MS);
    }
}

static void draw_agents(struct world *world)
{
    static const uint32_t fresh_ms[] = {10000, 30000, 60000},
                          forgetful_ms[] = {1000, 1000, 2000, 5000, 10000};
    for (uint8_t a = 0; a < world->agent_count; a++) {
        struct sim_agent *agent = &world->agents[a];
        agent->idle = prng_percent(&world->prng, 40);
        agent->max_ttl_ms = world_is_fresh(world) ? fresh_ms[prng_below(&world->prng, 3)]
                            : world->theme == THEME_FORGETFUL
                                ? forgetful_ms[prng_below(&world->prng, 5)]
                            : world->theme == THEME_BIRTH ? 5000
                                                          : 20000;
        agent->start_us =
            prng_percent(&world->prng, 30) || is_steady(world, a)
                ? 0
                : between(world, 0, world->theme == THEME_CALM ? 500 * MS : 2000 * MS);
        draw_links(world, agent);
        plan(world, agent->start_us, (struct happening){.kind = HAPPEN_START, .agent = a});
    }
}

/* An old group: every master has its marker and votes. */
static void draw_past(struct world *world)
{
    uint32_t longest_ms = 0;
    for (uint8_t a = 0; a < world->agent_count; a++)
        if (world->agents[a].max_ttl_ms > longest_ms)
            longest_ms = world->agents[a].max_ttl_ms;
    for (uint8_t m = 0; m < world->master_count; m++) {
        struct guard_ask ask = {.question = GUARD_ASK_TRUST, .max_ttl_ms = longest_ms};
        struct guard_answer answer;
        char epoch[24], run[24];
        snprintf(epoch, sizeof(epoch), "%016" PRIx64, prng_next(&world->prng));
        snprintf(run, sizeof(run), "r%u", (unsigned)world->masters[m].server);
        script_marker(world->masters[m].keys, master_wall_ms(world, &world->masters[m]), &ask, run,
                      epoch, &answer);
    }
}

static void draw_chaos(struct world *world)
{
    unsigned drops = (unsigned)prng_below(&world->prng, world_is_fresh(world) ? 12 : 30);
    for (unsigned i = 0; i < drops; i++)
        plan(world, between(world, 0, world->chaos_until_us),
             (struct happening){.kind = HAPPEN_DROP,
                                .agent = (uint8_t)prng_below(&world->prng, world->agent_count),
                                .master = (uint8_t)prng_below(&world->prng, world->master_count)});
    unsigned crashes = (unsigned)prng_below(&world->prng, 4);
    for (unsigned i = 0; i < crashes; i++)
        plan(world, between(world, 0, world->chaos_until_us),
             (struct happening){.kind = HAPPEN_CRASH,
                                .agent = (uint8_t)prng_below(&world->prng, world->agent_count)});
}

/* Masters forget by themselves, and sometimes several within moments. */
static void draw_forgetting(struct world *world)
{
    bool birth = world->theme == THEME_BIRTH;
    unsigned bursts = (unsigned)between(world, birth ? 4 : 1, birth ? 20 : 8);
    for (unsigned i = 0; i < bursts; i++) {
        int64_t at_us = between(world, 0, world->chaos_until_us);
        uint8_t how = (uint8_t)prng_below(&world->prng, birth ? PROMOTED_REPLICA : FORGETTINGS);
        unsigned masters = (unsigned)between(world, 1, world->master_count);
        for (unsigned k = 0; k < masters; k++)
            plan(world,
                 at_us + between(world, 0, prng_percent(&world->prng, 50) ? 3 * MS : 3000 * MS),
                 (struct happening){.kind = HAPPEN_FORGET,
                                    .how = how,
                                    .master =
                                        (uint8_t)prng_below(&world->prng, world->master_count)});
    }
    for (unsigned i = (unsigned)prng_below(&world->prng, 3); i > 0; i--)
        plan(world, between(world, 0, world->chaos_until_us),
             (struct happening){.kind = HAPPEN_FULL,
                                .master = (uint8_t)prng_below(&world->prng, world->master_count)});
}

/* All masters, one after the other, each after the one before it was missed. In a group of one this
 * would be a flush of all at once, which an agent that starts then takes for a new group
 * (docs/masters.md); so there are at least three. */
static void draw_flushes(struct world *world)
{
    int64_t at_us = between(world, 4000, 6000) * MS;
    uint8_t first = (uint8_t)prng_below(&world->prng, world->master_count);
    for (uint8_t i = 0; i < world->master_count; i++, at_us += between(world, 1500, 4000) * MS)
        plan(world, at_us,
             (struct happening){.kind = HAPPEN_FORGET,
                                .how = FLUSHED,
                                .master = (uint8_t)((first + i) % world->master_count)});
}

static void draw(struct world *world)
{
    static const unsigned sizes[] = {1, 3, 3, 5, 5, 5};
    bool forgetful = !world_is_fresh(world), flushed = world->theme == THEME_FLUSHED;
    world->durable = world->theme != THEME_FORGETFUL || prng_percent(&world->prng, 60);
    world->master_count =
        sizes[flushed ? 1 + prng_below(&world->prng, 5) : prng_below(&world->prng, 6)];
    world->agent_count = (unsigned)between(world, 1, AGENTS_MAX);
    bool brief = world_is_fresh(world) || world->theme == THEME_BIRTH;
    world->chaos_until_us = (brief ? 3000 : 25000) * MS;
    /* the longest guard, of a master that cannot be reached for 6 s after the last chaos */
    world->end_us = world->chaos_until_us + (flushed ? 22000 : forgetful ? 19000 : 3500) * MS;
    for (uint8_t m = 0; m < world->master_count; m++) {
        if (!world->keys[m])
            world->keys[m] = keyspace_new();
        keyspace_clear(world->keys[m]);
        world->masters[m] = (struct sim_master){.keys = world->keys[m],
                                                .server = 1,
                                                .skew_ms = between(world, -SKEW_MS, SKEW_MS),
                                                .forgot_us = INT64_MIN};
    }
    draw_agents(world);
    if (forgetful && world->theme != THEME_BIRTH &&
        (!world->durable || flushed || prng_percent(&world->prng, 70)))
        draw_past(world);
    if (world->theme != THEME_CALM)
        draw_chaos(world);
    if (flushed)
        draw_flushes(world);
    else if (forgetful)
        draw_forgetting(world);
    plan(world, 0, (struct happening){.kind = HAPPEN_LOOK});
}

void world_run(struct world *world, uint64_t seed, enum theme theme, bool told)
{
    memset(world, 0, offsetof(struct world, happenings));
    world->violation[0] = '\0';
    memset(&world->count, 0, sizeof(world->count));
    world->seed = seed;
    world->theme = theme;
    world->told = told;
    world->prng.state = seed * 4 + theme;
    draw(world);
    world_say(world, "%s group of %u, %u agents", world->durable ? "a durable" : "a not durable",
              world->master_count, world->agent_count);
    while (world->waiting > 0 && !*world->violation) {
        struct happening h = next(world);
        if (h.at_us > world->end_us)
            break;
        world->now_us = h.at_us;
        if (h.kind == HAPPEN_REQUEST || h.kind == HAPPEN_LOOK)
            check_now(world);
        happen(world, &h);
    }
    if (!*world->violation)
        check_end(world);
}
