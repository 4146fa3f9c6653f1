/* One master's ordered stream of commands.
 *
 * A reply belongs to the oldest command without one. Where there is none the master has broken the
 * protocol: the pipeline ends, for no later reply could be told from another's. However it ends,
 * every command is heard exactly once. */
#include "agent/redis/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "agent/core/core_assert.h"
#include "agent/redis/asking.h"
#include "agent/redis/command.h"
#include "agent/redis/reply_memory.h"
#include "agent/redis/scripts.h"

/* ---- the room ---- */

static void stay_awake(uv_idle_t *idle)
{
    (void)idle; /* that it is active makes the loop look for events without sleeping */
}

void redis_wake(struct redis *redis)
{
    redis->work = true;
    if (!redis->closing)
        uv_idle_start(&redis->idle, stay_awake);
}

void redis_closed(struct redis *redis)
{
    CORE_ASSERT(redis->open > 0);
    if (--redis->open == 0)
        redis_wake(redis); /* it may have been what a stop waits for */
}

struct instant redis_now(void)
{
    return (struct instant){(int64_t)(uv_hrtime() / 1000)};
}

uint64_t redis_random(struct redis *redis)
{
    uint64_t x = redis->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- commands ---- */

/* Commands and their pool (command.h). */

enum {
    POOL_MAX = 1024, /* unused commands kept, of each size */
    SPARES = 64,     /* commands kept for the time when memory is short: 3,200 locks in a turn */
};

static struct command *command_of_room(uint16_t room)
{
    return malloc(sizeof(struct command) + room * sizeof(struct lock_ref));
}

static struct command *take_from(struct command **list, uint32_t *count)
{
    struct command *command = *list;
    if (command != NULL) {
        *list = command->next;
        --*count;
    }
    return command;
}

static void put_into(struct command **list, uint32_t *count, struct command *command)
{
    command->next = *list;
    *list = command;
    ++*count;
}

bool command_pool_fill(struct command_pool *pool)
{
    while (pool->spares < SPARES) {
        struct command *spare = command_of_room(LIMIT_BATCH);
        if (spare == NULL)
            return false;
        put_into(&pool->spare, &pool->spares, spare);
    }
    return true;
}

struct command *command_new(struct command_pool *pool, heard_fn *heard, uint16_t refs)
{
    bool single = refs <= 1;
    uint16_t room = single ? 1 : LIMIT_BATCH;
    struct command *command =
        single ? take_from(&pool->single, &pool->singles) : take_from(&pool->batch, &pool->batches);
    if (command == NULL)
        command = command_of_room(room);
    if (command == NULL) {
        room = LIMIT_BATCH;
        command = take_from(&pool->spare, &pool->spares);
    }
    if (command == NULL)
        return NULL;
    memset(command, 0, sizeof(*command));
    command->heard = heard;
    command->room = room;
    command->count = refs;
    command->sent_at_ns = uv_hrtime();
    return command;
}

void command_release(struct command_pool *pool, struct command *command)
{
    CORE_ASSERT(command->references > 0);
    if (--command->references > 0)
        return;
    bool single = command->room == 1;
    if (!single && pool->spares < SPARES)
        put_into(&pool->spare, &pool->spares, command);
    else if ((single ? pool->singles : pool->batches) == POOL_MAX)
        free(command);
    else if (single)
        put_into(&pool->single, &pool->singles, command);
    else
        put_into(&pool->batch, &pool->batches, command);
}

void command_free_list(struct command *command)
{
    while (command != NULL) {
        struct command *next = command->next;
        free(command);
        command = next;
    }
}

void command_pool_free(struct command_pool *pool)
{
    command_free_list(pool->single);
    command_free_list(pool->batch);
    command_free_list(pool->spare);
}

/* ---- the pipeline ---- */

enum { RING_MIN = 64 };

/* ---- what is expected ---- */

static bool expect(struct pipeline *pipeline, struct command *command, size_t bytes)
{
    if (pipeline->unheard == pipeline->ring) {
        uint32_t size = pipeline->ring > 0 ? 2 * pipeline->ring : RING_MIN;
        struct expected *ring = malloc(size * sizeof(*ring));
        if (ring == NULL)
            return false;
        for (uint32_t i = 0; i < pipeline->unheard; i++)
            ring[i] = pipeline->expected[(pipeline->first + i) & (pipeline->ring - 1)];
        free(pipeline->expected);
        pipeline->expected = ring;
        pipeline->ring = size;
        pipeline->first = 0;
    }
    uint32_t last = pipeline->first + pipeline->unheard++;
    pipeline->expected[last & (pipeline->ring - 1)] = (struct expected){command, bytes};
    return true;
}

/* `sent`: it may have reached the master. */
static struct command *take_oldest(struct pipeline *pipeline, bool *ret_sent)
{
    CORE_ASSERT(pipeline->unheard > 0);
    struct expected oldest = pipeline->expected[pipeline->first];
    *ret_sent = pipeline->bytes_heard < pipeline->line.written;
    pipeline->first = (pipeline->first + 1) & (pipeline->ring - 1);
    pipeline->unheard--;
    pipeline->bytes_heard += oldest.bytes;
    return oldest.command;
}

/* Its reply, or NULL because the pipeline has ended. */
static void hear(struct pipeline *pipeline, struct command *command, const redisReply *reply,
                 bool sent)
{
    pipeline->in_flight -= command->of_core;
    command->heard(pipeline->master, command, reply, sent);
    command_release(&pipeline->redis->pool, command);
}

/* ---- what is kept back for the replicas (R21) ---- */

/* Its group has one master, so no other connection holds the command. Without memory for a copy of
 * the reply nothing is known of it. */
static void keep(struct pipeline *pipeline, struct command *command, const redisReply *reply)
{
    CORE_ASSERT(command->references == 1);
    command->kept = reply_copy(reply);
    command->next = NULL;
    *pipeline->kept_end = command;
    pipeline->kept_end = &command->next;
}

static struct command *take_kept(struct pipeline *pipeline)
{
    struct command *command = pipeline->kept;
    pipeline->kept = command->next;
    if (pipeline->kept == NULL)
        pipeline->kept_end = &pipeline->kept;
    return command;
}

void pipeline_hear_kept(struct pipeline *pipeline, bool enough)
{
    while (pipeline->kept != NULL && !*pipeline->condemned) {
        struct command *command = take_kept(pipeline);
        redisReply *reply = command->kept;
        command->unreplicated = !enough;
        hear(pipeline, command, reply, /* sent= */ true);
        free(reply);
    }
    if (pipeline->replicas.due)
        redis_wake(pipeline->redis);
}

/* ---- its end ---- */

/* What is sent in answer to the loss finds no pipeline. */
void pipeline_end(struct pipeline *pipeline, const char *why)
{
    if (pipeline->ended)
        return;
    pipeline->ended = true;
    line_halt(&pipeline->line);
    pipeline->calls->lost(pipeline->master, *pipeline->condemned ? pipeline->condemned : why);
    while (pipeline->kept != NULL) {
        struct command *command = take_kept(pipeline);
        free(command->kept);
        hear(pipeline, command, NULL, /* sent= */ true);
    }
    while (pipeline->unheard > 0) {
        bool sent;
        struct command *command = take_oldest(pipeline, &sent);
        hear(pipeline, command, NULL, sent);
    }
    line_close(&pipeline->line);
    pipeline->calls->gone(pipeline->master, pipeline->line.connected);
}

void pipeline_condemn(struct pipeline *pipeline, const char *why)
{
    if (!*pipeline->condemned) {
        snprintf(pipeline->condemned, sizeof(pipeline->condemned), "%s", why);
        line_halt(&pipeline->line);
        redis_wake(pipeline->redis);
    }
}

/* ---- what its line calls ---- */

static void pipe_connected(void *owner)
{
    struct pipeline *pipeline = owner;
    pipeline->calls->connected(pipeline->master);
}

static bool pipe_awaits(const void *owner)
{
    const struct pipeline *pipeline = owner;
    return pipeline->unheard > 0;
}

static void pipe_heard(void *owner, const redisReply *reply)
{
    struct pipeline *pipeline = owner;
    bool sent;
    struct command *command = take_oldest(pipeline, &sent);
    pipeline->silent_ticks = 0;
    bool is_kept = !command->is_wait &&
                   replicas_keeps(&pipeline->replicas, command->of_core ? command->op : OP_COUNT);
    if (is_kept)
        keep(pipeline, command, reply);
    else
        hear(pipeline, command, reply, sent);
}

static void pipe_ended(void *owner, enum redis_fault fault, const char *why)
{
    struct pipeline *pipeline = owner;
    if (fault != REDIS_FAULT_NONE)
        pipeline->calls->broke(pipeline->master, fault);
    pipeline_end(pipeline, why);
}

static void pipe_busy(void *owner)
{
    struct pipeline *pipeline = owner;
    redis_wake(pipeline->redis);
}

static void pipe_closed(void *owner)
{
    struct pipeline *pipeline = owner;
    struct redis *redis = pipeline->redis;
    free(pipeline->expected);
    free(pipeline);
    redis_closed(redis);
}

/* ---- what the room calls ---- */

struct pipeline *pipeline_open(struct redis *redis, const struct line_end *end,
                               const struct pipeline_calls *calls, struct master *master, char *why,
                               size_t why_size)
{
    static const struct line_calls line_calls = {pipe_connected, pipe_awaits, pipe_heard,
                                                 pipe_ended,     pipe_busy,   pipe_closed};
    struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
    if (pipeline == NULL) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    pipeline->redis = redis;
    pipeline->master = master;
    pipeline->calls = calls;
    pipeline->kept_end = &pipeline->kept;
    if (!line_open(&pipeline->line, redis->loop, end, &line_calls, pipeline, why, why_size)) {
        free(pipeline);
        return NULL;
    }
    redis->open++;
    return pipeline;
}

bool pipeline_append(struct pipeline *pipeline, struct command *command, struct text bytes,
                     struct text own)
{
    if (pipeline->ended || !expect(pipeline, command, bytes.len + own.len))
        return false;
    if (!line_put_both(&pipeline->line, bytes, own)) {
        pipeline->unheard--;
        return false;
    }
    command->references++;
    pipeline->in_flight += command->of_core;
    return true;
}

void pipeline_turn(struct pipeline *pipeline)
{
    if (*pipeline->condemned)
        pipeline_end(pipeline, pipeline->condemned);
    else
        line_turn(&pipeline->line);
}

/* ---- commands of the room's own ---- */

void ask_bytes(struct master *master, heard_fn *heard, struct text bytes)
{
    struct command_pool *pool = &master->redis->pool;
    struct command *command = command_new(pool, heard, 0);
    if (command == NULL) {
        pipeline_condemn(master->pipeline, "out of memory");
        return;
    }
    command->asked_at = redis_now();
    command->greeting = master->greeting;
    command->references++;
    /* One that could not be sent is never heard: nothing must wait for it. */
    if (!pipeline_append(master->pipeline, command, bytes, nothing_own()))
        pipeline_condemn(master->pipeline, "out of memory");
    command_release(pool, command);
}

void ask_words(struct master *master, heard_fn *heard, unsigned count, const char *const *words)
{
    struct resp *resp = &master->redis->resp;
    resp_begin(resp);
    for (unsigned i = 0; i < count; i++)
        resp_text(resp, words[i]);
    ask_bytes(master, heard, resp_end(resp));
}

void ask_scripts(struct master *master, heard_fn *heard)
{
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        ASK(master, heard, "SCRIPT", "LOAD", redis_scripts[i].text);
}

bool ask_has_loaded(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && script_is_ours(reply->str);
}
