/* One master's ordered stream of commands.
 *
 * A reply belongs to the oldest command without one. If there is no such command, the master has
 * broken the protocol, and no later reply could be assigned. So the pipeline ends. Every command
 * gets its reply, or NULL at the end, exactly once. */
#include "agent/redis/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/core/core_assert.h"
#include "agent/redis/asking.h"
#include "agent/redis/command.h"
#include "agent/redis/reply_memory.h"
#include "agent/redis/scripts.h"

/* ---- the room ---- */

static void stay_awake(uv_idle_t *idle)
{
    (void)idle; /* While it is active, the loop polls without sleeping. */
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
        redis_wake(redis); /* The room's stop may be waiting for this. */
}

struct instant redis_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now); /* uv_hrtime() stops while the machine sleeps. */
    return (struct instant){(int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000};
}

uint64_t redis_random(struct redis *redis)
{
    uint64_t x = redis->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- the pipeline ---- */

enum { RING_MIN = 64 };

/* ---- expected replies ---- */

static bool expect(struct pipeline *pipeline, const struct expected *expected)
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
    pipeline->expected[last & (pipeline->ring - 1)] = *expected;
    return true;
}

/* Returns the oldest command without a reply. `*ret_sent`: it may have reached the master. */
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

/* Passes the reply to the command's receiver; NULL because the pipeline has ended. */
static void hear(struct pipeline *pipeline, struct command *command, const redisReply *reply,
                 bool sent)
{
    pipeline->in_flight -= command->of_core;
    command->heard(pipeline->master, command, reply, sent);
    command_release(&pipeline->redis->pool, command);
}

/* ---- replies kept back for the replicas (R21) ---- */

/* Keeps the reply back until the replicas have confirmed. The group has one master, so no other
 * connection holds the command. If there is no memory for a copy, the vote is unknown. */
static void keep(struct pipeline *pipeline, struct command *command, const redisReply *reply)
{
    CORE_ASSERT(command->references == 1);
    command->kept = reply_copy(reply);
    if (command->kept == NULL)
        pipeline_condemn(pipeline, "out of memory");
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

/* Commands that the core sends in answer to the loss find no pipeline. */
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

/* ---- callbacks of its line ---- */

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

/* Notes how to read the reply to native commands. If another vote is known by now, the old one
 * equals no reply. */
static void begin_native(struct pipeline *pipeline, const struct expected *oldest)
{
    bool is_same = oldest->vote == pipeline->vote_number, has_guard = *pipeline->vote != '\0';
    pipeline->hears_native = oldest->vote != 0;
    pipeline->native = (struct native_results){
        .takes = oldest->command->op == OP_ACQUIRE,
        .results = oldest->command->native_results,
        .fencing = oldest->command->native_fencing,
        .clock_ms = oldest->clock_ms,
        .spread_ms = native_spread_ms(pipeline->master->group_config->node_timeout_ms),
        .vote = !is_same    ? ""
                : has_guard ? pipeline->vote
                            : NULL};
}

static bool pipe_heard(void *owner, const redisReply *reply)
{
    struct pipeline *pipeline = owner;
    bool sent;
    struct expected *oldest = &pipeline->expected[pipeline->first];
    pipeline->silent_ticks = 0;
    if (oldest->before > 0) {
        oldest->before--;
        return false;
    }
    begin_native(pipeline, oldest);
    struct command *command = take_oldest(pipeline, &sent);
    bool is_kept = !command->is_ahead &&
                   replicas_keeps(&pipeline->replicas, command->of_core ? command->op : OP_COUNT);
    if (is_kept)
        keep(pipeline, command, reply);
    else
        hear(pipeline, command, reply, sent);
    pipeline->hears_native = false;
    return true;
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

/* ---- calls of the room ---- */

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

static bool append_expected(struct pipeline *pipeline, const struct expected *expected,
                            struct text bytes, struct text own)
{
    if (pipeline->ended || !expect(pipeline, expected))
        return false;
    if (!line_put_both(&pipeline->line, bytes, own)) {
        pipeline->unheard--;
        return false;
    }
    expected->command->references++;
    pipeline->in_flight += expected->command->of_core;
    return true;
}

bool pipeline_append(struct pipeline *pipeline, struct command *command, struct text bytes,
                     struct text own)
{
    const struct expected expected = {.command = command, .bytes = bytes.len + own.len};
    return append_expected(pipeline, &expected, bytes, own);
}

bool pipeline_append_native(struct pipeline *pipeline, struct command *command,
                            const struct native *native, const char *vote, int64_t clock_ms)
{
    if (pipeline->vote_number == 0 || strcmp(pipeline->vote, vote) != 0) {
        snprintf(pipeline->vote, sizeof(pipeline->vote), "%s", vote);
        pipeline->vote_number++;
    }
    const struct expected expected = {.command = command,
                                      .bytes = native->bytes.len,
                                      .before = native->before,
                                      .vote = pipeline->vote_number,
                                      .clock_ms = clock_ms};
    return append_expected(pipeline, &expected, native->bytes, nothing_own());
}

const struct native_results *pipeline_native(const struct pipeline *pipeline)
{
    return pipeline->hears_native ? &pipeline->native : NULL;
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
    /* A command that could not be sent gets no reply. Nothing may wait for it. */
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

int ask_scripts(struct master *master, heard_fn *heard, script_set scripts)
{
    int count = 0;
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        if (scripts >> i & 1) {
            ASK(master, heard, "SCRIPT", "LOAD", redis_scripts[i].text);
            count++;
        }
    return count;
}

bool ask_has_loaded(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && script_is_ours(reply->str);
}
