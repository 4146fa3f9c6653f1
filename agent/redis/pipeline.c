/* One master's ordered stream of commands (pipeline.h).
 *
 * A reply belongs to the oldest command without one. Where there is none the master has broken the
 * protocol: the pipeline ends, for no later reply could be told from another's. However it ends,
 * every command is heard exactly once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/redis/pipeline.h"

enum { RING_MIN = 64 };

/* ---- what is expected ---- */

static bool expect(struct pipeline *pipeline, struct command *command)
{
    if (pipeline->unheard == pipeline->ring) {
        uint32_t size = pipeline->ring > 0 ? 2 * pipeline->ring : RING_MIN;
        struct command **ring = malloc(size * sizeof(struct command *));
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
    pipeline->expected[last & (pipeline->ring - 1)] = command;
    return true;
}

/* Its reply, or NULL because the pipeline has ended. */
static void hear_oldest(struct pipeline *pipeline, const redisReply *reply)
{
    CORE_ASSERT(pipeline->unheard > 0);
    struct command *command = pipeline->expected[pipeline->first];
    bool sent = pipeline->bytes_heard < pipeline->line.written;
    pipeline->first = (pipeline->first + 1) & (pipeline->ring - 1);
    pipeline->unheard--;
    pipeline->bytes_heard += command->bytes;
    pipeline->in_flight -= command->of_core;
    pipeline->silent_ticks = 0;
    command->heard(pipeline->master, command, reply, sent);
    command_release(&pipeline->redis->pool, command);
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
    while (pipeline->unheard > 0)
        hear_oldest(pipeline, NULL);
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
    hear_oldest(owner, reply);
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

struct pipeline *pipeline_open(struct redis *redis, const struct config_address *address,
                               const char *numeric, const struct pipeline_calls *calls,
                               struct master *master, char *why, size_t why_size)
{
    static const struct line_calls line_calls = {pipe_connected, pipe_awaits, pipe_heard,
                                                 pipe_ended,     pipe_busy,   pipe_closed};
    struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
    CORE_ASSERT(pipeline != NULL);
    pipeline->redis = redis;
    pipeline->master = master;
    pipeline->calls = calls;
    if (!line_open(&pipeline->line, redis->loop, address, numeric, &line_calls, pipeline, why,
                   why_size)) {
        free(pipeline);
        return NULL;
    }
    redis->open++;
    return pipeline;
}

bool pipeline_append(struct pipeline *pipeline, struct command *command, struct text bytes)
{
    CORE_ASSERT(bytes.len == command->bytes);
    if (pipeline->ended || !expect(pipeline, command))
        return false;
    if (!line_put(&pipeline->line, bytes.at, bytes.len)) {
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
