/* The Redis room's public face: takes commands, keeps the turn of the loop, reports replies, starts and stops. */
#include "agent/redis/redis.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/redis/room.h"

enum {
    WIRE_BYTES = 128 << 10, /* the largest command */
    LAST_TURNS = 100,       /* how often what the core sends while the room closes is still answered */
};
static_assert(WIRE_BYTES > LIMIT_BATCH * (2 * (LIMIT_KEY_BYTES + 128 + 32) + LIMIT_LABEL_BYTES + 256) + 4096,
              "the largest batch must fit");

/* ---- commands ---- */

struct command *command_new(struct redis *redis, heard_fn *heard, uint16_t refs)
{
    bool single = refs <= 1;
    struct command **pool = single ? &redis->pool_single : &redis->pool_batch;
    struct command *command = *pool;
    uint16_t room = single ? 1 : LIMIT_BATCH;
    if (command) {
        *pool = command->next;
        *(single ? &redis->pooled_single : &redis->pooled_batch) -= 1;
    } else {
        command = malloc(sizeof(*command) + room * sizeof(command->refs[0]));
        REDIS_ASSERT(command);
    }
    memset(command, 0, sizeof(*command));
    command->heard = heard;
    command->room = room;
    command->count = refs;
    command->sent_at_ns = uv_hrtime();
    return command;
}

void command_release(struct redis *redis, struct command *command)
{
    REDIS_ASSERT(command->references > 0);
    if (--command->references > 0) {
        return;
    }
    bool single = command->room == 1;
    uint32_t *pooled = single ? &redis->pooled_single : &redis->pooled_batch;
    if (*pooled == POOL_MAX) {
        free(command);
        return;
    }
    struct command **pool = single ? &redis->pool_single : &redis->pool_batch;
    command->next = *pool;
    *pool = command;
    ++*pooled;
}

static void free_list(struct command *command)
{
    while (command) {
        struct command *next = command->next;
        free(command);
        command = next;
    }
}

/* ---- replies ---- */

static void report_item(struct master *master, const struct command *command, unsigned i,
                        const struct item_reply *reply)
{
    struct redis_sink *sink = &master->redis->sink;
    struct event event = {
        .kind = EVENT_REPLY,
        .reply = {.group = master->group,
                  .master = master->index,
                  .op = command->op,
                  .ref = command->refs[i],
                  .vote = reply->vote,
                  .fence = reply->fence,
                  .pttl_ms = reply->pttl_ms,
                  .agents = reply->agents,
                  .ticket = reply->ticket,
                  .holder = reply->holder},
    };
    sink->event(sink->arg, &event);
}

static void observe(struct master *master, const struct command *command, enum redis_outcome outcome)
{
    struct redis_sink *sink = &master->redis->sink;
    int64_t latency_us = -1;
    if (outcome != REDIS_OUTCOME_NOT_SENT) {
        latency_us = (int64_t)((uv_hrtime() - command->sent_at_ns) / 1000);
    }
    sink->observe(sink->arg, master->group, master->index, command->op, outcome, latency_us);
}

/* The same for every item: an error, or no reply at all. */
static void report_all(struct master *master, const struct command *command, enum redis_outcome outcome)
{
    observe(master, command, outcome);
    struct item_reply reply = {.outcome = outcome, .vote = vote_of_outcome(outcome), .pttl_ms = -1};
    for (unsigned i = 0; i < command->count; i++) {
        report_item(master, command, i, &reply);
    }
}

/* The marker's epoch behind the entries of a batch in which a key was missing; NULL where there is none (D5.3). */
static const char *epoch_of(const redisReply *reply)
{
    const redisReply *last =
        reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 ? reply->element[reply->elements - 1] : NULL;
    return last && last->type == REDIS_REPLY_STRING ? last->str : NULL;
}

/* The entry of item `i`; NULL where the reply has another shape than the script's. */
static const redisReply *entry_of(const struct command *command, const redisReply *reply, unsigned i)
{
    if (reply->type == REDIS_REPLY_ERROR || !op_is_batched(command->op)) {
        return reply;
    }
    bool fits = reply->type == REDIS_REPLY_ARRAY &&
                (reply->elements == command->count || (reply->elements == command->count + 1u && epoch_of(reply)));
    return fits ? reply->element[i] : NULL;
}

/* What a reply says of the master comes before what it says of its items: no item may be asked again on a master that
 * can not serve, and after a NOSCRIPT the scripts must be on their way first. */
static enum redis_outcome judge(struct master *master, const struct command *command, const redisReply *reply)
{
    enum redis_outcome worst = REDIS_OUTCOME_OK;
    const char *text = NULL;
    for (unsigned i = 0; i < command->count; i++) {
        const redisReply *entry = entry_of(command, reply, i);
        struct item_reply item = {.outcome = REDIS_OUTCOME_OTHER};
        if (entry) {
            item_reply_read(command->op, entry, &item);
        }
        if (item.outcome != REDIS_OUTCOME_OK && (worst == REDIS_OUTCOME_OK || worst == REDIS_OUTCOME_WRONGTYPE)) {
            worst = item.outcome;
            text = entry && entry->type == REDIS_REPLY_ERROR ? entry->str : "a reply of an unknown shape";
        }
    }
    if (worst == REDIS_OUTCOME_OK) {
        master_answered_well(master);
    } else if (worst == REDIS_OUTCOME_NOSCRIPT) {
        greeting_reload_scripts(master);
    } else {
        master_refused(master, worst, text);
    }
    return worst;
}

void op_heard(struct master *master, const struct command *command, const redisReply *reply, bool sent)
{
    if (!reply) {
        report_all(master, command, sent ? REDIS_OUTCOME_LOST : REDIS_OUTCOME_NOT_SENT);
        return;
    }
    observe(master, command, judge(master, command, reply));
    const char *epoch = op_is_batched(command->op) ? epoch_of(reply) : NULL;
    if (epoch) {
        guard_heard_epoch(master, epoch); /* before the votes: they are of that epoch (R7) */
    }
    for (unsigned i = 0; i < command->count; i++) {
        const redisReply *entry = entry_of(command, reply, i);
        struct item_reply item = {.vote = VOTE_UNKNOWN, .pttl_ms = -1};
        if (entry) {
            item_reply_read(command->op, entry, &item);
        }
        if (item.vote == VOTE_GUARDED) {
            guard_heard_guarded(master, item.pttl_ms);
        }
        report_item(master, command, i, &item);
    }
}

/* ---- sending ---- */

static void queue_unsent(struct redis *redis, struct command *command)
{
    command->references++;
    command->next = NULL;
    *redis->unsent_end = command;
    redis->unsent_end = &command->next;
    redis_wake(redis);
}

static bool op_takes(enum op op)
{
    return op == OP_ACQUIRE || op == OP_HANDOVER;
}

void redis_send(struct redis *redis, const struct effect_send *send, const struct send_item *items)
{
    const struct config *config = redis->config;
    REDIS_ASSERT(send->group < config->group_count && send->op < OP_COUNT);
    REDIS_ASSERT(send->count >= 1 &&
                 send->count <= (op_is_batched(send->op) && send->op != OP_ADOPT ? LIMIT_BATCH : 1));
    REDIS_ASSERT(send->masters != 0 && send->masters >> config->groups[send->group].master_count == 0);
    struct wire *wire = &redis->wire;
    wire_op(wire, config, send->group, send->op, items, send->count);
    struct command *command = command_new(redis, op_heard, send->count);
    command->op = send->op;
    command->group = send->group;
    command->bytes = wire->len;
    command->references = 1;
    for (unsigned i = 0; i < send->count; i++) {
        command->refs[i] = items[i].ref;
    }
    for (unsigned i = 0; send->masters >> i; i++) {
        if (!(send->masters >> i & 1)) {
            continue;
        }
        struct master *master = &redis->by_group[send->group][i];
        bool asks = master->phase == PHASE_READY && !(op_takes(send->op) && master->guard.unsure);
        if (!asks || !connection_append(master->connection, command, wire->bytes, wire->len)) {
            command->unsent |= (master_set)(1u << i);
        }
    }
    if (command->unsent) {
        queue_unsent(redis, command);
    }
    command_release(redis, command);
}

/* Reports what had been queued when it began: what the core sends in answer waits for the next turn. */
static void report_unsent(struct redis *redis)
{
    struct command *command = redis->unsent;
    redis->unsent = NULL;
    redis->unsent_end = &redis->unsent;
    while (command) {
        struct command *next = command->next;
        for (unsigned i = 0; command->unsent >> i; i++) {
            if (command->unsent >> i & 1) {
                report_all(&redis->by_group[command->group][i], command, REDIS_OUTCOME_NOT_SENT);
            }
        }
        command_release(redis, command);
        command = next;
    }
}

/* ---- the turn ---- */

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* that it is active makes the loop look for events without sleeping */
}

void redis_wake(struct redis *redis)
{
    redis->work = true;
    if (!redis->closing) {
        uv_idle_start(&redis->idle, on_idle);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    redis_closed(handle->data);
}

static void on_master_timer_closed(uv_handle_t *handle)
{
    struct master *master = handle->data;
    redis_closed(master->redis);
}

static void close_handles(struct redis *redis)
{
    redis->closing = true;
    for (size_t i = 0; i < redis->master_count; i++) {
        uv_close((uv_handle_t *)&redis->masters[i].timer, on_master_timer_closed);
    }
    uv_close((uv_handle_t *)&redis->tick, on_handle_closed);
    uv_close((uv_handle_t *)&redis->idle, on_handle_closed);
    uv_close((uv_handle_t *)&redis->prepare, on_handle_closed);
}

void redis_closed(struct redis *redis)
{
    REDIS_ASSERT(redis->open > 0);
    if (--redis->open == 0 && redis->closing) {
        for (unsigned i = 0; redis->unsent && i < LAST_TURNS; i++) {
            report_unsent(redis);
        }
        redis->done(redis->done_arg);
    }
}

/* Ends everything that is open; when nothing is left to report, the handles go. */
static void stop(struct redis *redis)
{
    for (size_t i = 0; i < redis->master_count; i++) {
        master_stop(&redis->masters[i]);
    }
    if (!redis->unsent) {
        close_handles(redis);
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct redis *redis = prepare->data;
    if (!redis->work) {
        return;
    }
    redis->work = false;
    report_unsent(redis);
    for (size_t i = 0; i < redis->master_count; i++) {
        struct connection *connection = redis->masters[i].connection;
        if (connection && *connection->condemned) {
            connection_end(connection, "");
        } else if (connection && connection->dirty) {
            connection_flush(connection);
        }
    }
    if (redis->stopping) {
        stop(redis);
    }
    if (!redis->work && !redis->closing) {
        uv_idle_stop(&redis->idle);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct redis *redis = timer->data;
    for (size_t i = 0; i < redis->master_count; i++) {
        master_tick(&redis->masters[i]);
    }
    for (uint8_t group = 0; group < redis->config->group_count; group++) {
        sanity_look(redis, group);
        if (redis->config->groups[group].guard) {
            guard_missing(redis, group, /* patient= */ true);
        }
    }
}

uint64_t redis_random(struct redis *redis)
{
    uint64_t x = redis->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- start, views, stop ---- */

static bool allocate(struct redis *redis, const struct config *config)
{
    for (size_t group = 0; group < config->group_count; group++) {
        redis->master_count += config->groups[group].master_count;
    }
    REDIS_ASSERT(redis->master_count > 0);
    redis->masters = calloc(redis->master_count, sizeof(*redis->masters));
    redis->wire = (struct wire){.bytes = malloc(WIRE_BYTES), .size = WIRE_BYTES};
    return redis->masters && redis->wire.bytes;
}

static void start_masters(struct redis *redis)
{
    struct master *master = redis->masters;
    for (size_t group = 0; group < redis->config->group_count; group++) {
        const struct config_group *group_config = &redis->config->groups[group];
        redis->by_group[group] = master;
        for (size_t i = 0; i < group_config->master_count; i++, master++) {
            master->redis = redis;
            master->group = (uint8_t)group;
            master->index = (uint8_t)i;
            master->group_config = group_config;
            master->config = &group_config->masters[i];
            master_start(master);
        }
    }
}

struct redis *redis_start(uv_loop_t *loop, const struct config *config, const struct redis_sink *sink)
{
    struct redis *redis = calloc(1, sizeof(*redis));
    if (!redis || !allocate(redis, config)) {
        redis_free(redis);
        return NULL;
    }
    redis->loop = loop;
    redis->config = config;
    redis->sink = *sink;
    redis->unsent_end = &redis->unsent;
    if (getrandom(&redis->random, sizeof(redis->random), 0) < 0) {
        redis->random = uv_hrtime();
    }
    uv_prepare_init(loop, &redis->prepare);
    uv_idle_init(loop, &redis->idle);
    uv_timer_init(loop, &redis->tick);
    redis->open = 3;
    redis->prepare.data = redis->idle.data = redis->tick.data = redis;
    uv_prepare_start(&redis->prepare, on_prepare);
    uv_timer_start(&redis->tick, on_tick, TICK_MS, TICK_MS);
    start_masters(redis);
    return redis;
}

struct redis_master_view redis_master(const struct redis *redis, uint8_t group, uint8_t master)
{
    REDIS_ASSERT(group < redis->config->group_count && master < redis->config->groups[group].master_count);
    const struct master *at = &redis->by_group[group][master];
    struct redis_master_view view = at->view;
    view.serves = at->told_up;
    view.guarded_ms = guard_left_ms(at);
    view.votes = view.serves && view.guarded_ms == 0;
    view.degraded = at->phase == PHASE_READY && *at->sanity.fault;
    view.reconnects = at->attempts > 0 ? at->attempts - 1 : 0;
    view.in_flight = at->connection ? at->connection->in_flight : 0;
    return view;
}

int64_t redis_clock_off_us(const struct redis *redis, uint8_t group)
{
    return redis->clock_off_us[group];
}

bool redis_is_idle(const struct redis *redis)
{
    for (size_t i = 0; i < redis->master_count; i++) {
        const struct connection *connection = redis->masters[i].connection;
        if (connection && connection->in_flight > 0) {
            return false;
        }
    }
    return !redis->unsent;
}

void redis_stop(struct redis *redis, void (*done)(void *arg), void *arg)
{
    REDIS_ASSERT(!redis->stopping);
    redis->stopping = true;
    redis->done = done;
    redis->done_arg = arg;
    redis_wake(redis);
}

void redis_free(struct redis *redis)
{
    if (!redis) {
        return;
    }
    REDIS_ASSERT(redis->open == 0);
    free_list(redis->unsent);
    free_list(redis->pool_single);
    free_list(redis->pool_batch);
    subscriber_free_channels(redis);
    free(redis->wire.bytes);
    free(redis->masters);
    free(redis);
}
