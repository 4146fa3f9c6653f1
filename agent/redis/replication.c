/* Sends the WAIT for a master's replicas, and hears its answer (replication.h). */
#include "agent/redis/replication.h"
#include "agent/redis/ask.h"
#include "agent/redis/service.h"

/* How many replicas have it all; -1: the master does not say. */
static int64_t count_of(struct master *master, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    if (reply->type == REDIS_REPLY_ERROR)
        service_refused(master, outcome_of_error(reply->str), reply->str);
    else
        master_makes_no_sense(master, "WAIT");
    return -1;
}

/* Where the connection has ended, so has all that was kept back for it. */
static void heard_wait(struct master *master, const struct command *command,
                       const redisReply *reply, bool sent)
{
    (void)command, (void)sent;
    if (reply == NULL)
        return;
    struct pipeline *pipeline = master->pipeline;
    bool enough = replicas_answered(&pipeline->replicas, count_of(master, reply));
    pipeline_hear_kept(pipeline, enough);
}

static void heard_nudge(struct master *master, const struct command *command,
                        const redisReply *reply, bool sent)
{
    (void)master, (void)command, (void)reply, (void)sent;
}

/* A server looks at such timeouts as it wakes: ten times a second, or when something comes in. Else
 * it would keep all that is behind the WAIT for so much longer. */
static void nudge(struct master *master)
{
    ASK(master, heard_nudge, "PING");
}

/* The loop's clock may be behind: then it is early. */
void replication_time(struct master *master)
{
    struct replicas *replicas = &master->pipeline->replicas;
    struct instant now = redis_now();
    if (replicas_give_up(replicas, now)) {
        nudge(master);
        pipeline_hear_kept(master->pipeline, /* enough= */ false);
    } else if (replicas->under_way) {
        int64_t left_us = instant_us_between(now, replicas->until);
        master_start_timer(master, (uint64_t)left_us / 1000 + 1);
    }
}

void replication_turn(struct master *master)
{
    struct redis *redis = master->redis;
    struct replicas *replicas = &master->pipeline->replicas;
    uint32_t timeout_ms = replicas_asks(replicas, redis_now());
    if (timeout_ms == 0)
        return;
    resp_begin(&redis->resp);
    resp_text(&redis->resp, "WAIT");
    resp_number(&redis->resp, replicas->ack);
    resp_number(&redis->resp, timeout_ms);
    struct text bytes = resp_end(&redis->resp);
    struct command *command = command_new(&redis->pool, heard_wait, 0);
    /* Without it nothing that was kept back would ever be heard. */
    if (command == NULL) {
        pipeline_condemn(master->pipeline, "out of memory");
        return;
    }
    command->is_wait = true;
    command->references = 1;
    if (!pipeline_append(master->pipeline, command, bytes, nothing_own()))
        pipeline_condemn(master->pipeline, "out of memory");
    command_release(&redis->pool, command);
    master_start_timer(master, timeout_ms);
}
