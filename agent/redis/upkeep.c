/* Asks a READY master for its scripts, marker and health, and receives the replies. */
#include "agent/redis/internal.h"

#include <string.h>

/* ---- service to the core ---- */

/* Returns true if the master may have forgotten keys and has no marker that would show it (D5.3):
 * the run of the server has changed or is not known. */
static bool may_have_forgotten(const struct master *master)
{
    const char *run_id = master->view.run_id;
    return master->epoch == 0 ||
           (!master->was_ready && (!*run_id || strcmp(run_id, master->last_run_id) != 0));
}

void service_up(struct master *master)
{
    bool guards = master->group_config->guard;
    if (!guards && may_have_forgotten(master))
        master_new_epoch(master);
    memcpy(master->last_run_id, master->view.run_id, sizeof(master->last_run_id));
    master->phase = PHASE_READY;
    master->was_ready = true;
    master->reloading = false;
    master->probe_ticks = 0;
    master->noticed = 0;
    if (guards)
        marker_ready(master);
    subscriber_wanted(master);
    health_look(master->redis, master->group);
}

void service_down(struct master *master, const char *why)
{
    marker_away(master);
    master_show_down(master, why);
}

/* The pipeline stays, so that commands before and after the pause keep their order (R5). */
void service_pause(struct master *master, const char *why)
{
    master->phase = PHASE_PAUSED;
    service_down(master, why);
    if (master->phase == PHASE_PAUSED)
        master_start_backoff(master);
}

/* OOM, READONLY, MISCONF and NOREPLICAS refuse some commands and leave the rest (D5.5). A key that
 * the ACL does not allow concerns that key only. Otherwise any caller could take the master
 * down. */
void service_refused(struct master *master, enum redis_outcome outcome, const char *text)
{
    bool unfit = outcome == REDIS_OUTCOME_LOADING || outcome == REDIS_OUTCOME_BUSY ||
                 outcome == REDIS_OUTCOME_MASTERDOWN || outcome == REDIS_OUTCOME_NOAUTH ||
                 outcome == REDIS_OUTCOME_NOCOMMAND ||
                 (outcome == REDIS_OUTCOME_NOPERM && strstr(text, " run ") != NULL);
    if (!unfit) {
        master_notice(master, outcome, text);
    } else if (master->phase == PHASE_READY) {
        char says[160];
        outcome_describe(outcome, text, says, sizeof(says));
        service_pause(master, says);
    }
}

/* ---- replicas ---- */

/* Returns the number of replicas that have all commands; -1: the reply is not a possible one. */
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

/* Without the right to this write, the answer of the WAIT counts for nothing (R21). */
static void heard_write(struct master *master, const struct command *command,
                        const redisReply *reply, bool sent)
{
    (void)command, (void)sent;
    if (reply == NULL)
        return;
    master->pipeline->is_written = reply->type == REDIS_REPLY_INTEGER;
    if (reply->type == REDIS_REPLY_ERROR)
        service_refused(master, outcome_of_error(reply->str), reply->str);
}

/* If the connection has ended, the commands that were kept back have been reported already. */
static void heard_wait(struct master *master, const struct command *command,
                       const redisReply *reply, bool sent)
{
    (void)command, (void)sent;
    if (reply == NULL)
        return;
    struct pipeline *pipeline = master->pipeline;
    int64_t count = pipeline->is_written ? count_of(master, reply) : -1;
    pipeline_hear_kept(pipeline, replicas_answered(&pipeline->replicas, count));
}

static void heard_nudge(struct master *master, const struct command *command,
                        const redisReply *reply, bool sent)
{
    (void)master, (void)command, (void)reply, (void)sent;
}

/* The loop's clock may be behind, so the timer may be early. */
void replication_time(struct master *master)
{
    struct replicas *replicas = &master->pipeline->replicas;
    struct instant now = redis_now();
    if (replicas_give_up(replicas, now)) {
        /* Make the server check the timeout of its WAIT. It checks timeouts only ten times a
         * second, or when a command arrives. Otherwise it would keep all commands after the WAIT
         * for longer. */
        ASK(master, heard_nudge, "PING");
        pipeline_hear_kept(master->pipeline, /* enough= */ false);
    } else if (replicas->under_way) {
        int64_t left_us = instant_us_between(now, replicas->until);
        master_start_timer(master, (uint64_t)left_us / 1000 + 1);
    }
}

/* Appends a command whose reply is passed on before those that were kept back. */
static void ask_ahead(struct master *master, heard_fn *heard, struct text bytes)
{
    struct command_pool *pool = &master->redis->pool;
    struct command *command = command_new(pool, heard, 0);
    /* Without a WAIT the replies that were kept back would never be passed on. */
    if (command == NULL) {
        pipeline_condemn(master->pipeline, "out of memory");
        return;
    }
    command->is_ahead = true;
    command->references = 1;
    if (!pipeline_append(master->pipeline, command, bytes, nothing_own()))
        pipeline_condemn(master->pipeline, "out of memory");
    command_release(pool, command);
}

/* R21: "A message goes before each WAIT." From Redis 7.2 on, WAIT looks only at the writes up to
 * the last write of its own connection, and a renewal that finds a longer lease writes nothing.
 * The message is sent to the replicas as well, so it is such a write. */
void replication_turn(struct master *master)
{
    struct resp *resp = &master->redis->resp;
    struct replicas *replicas = &master->pipeline->replicas;
    uint32_t timeout_ms = replicas_asks(replicas, redis_now());
    if (timeout_ms == 0)
        return;
    resp_begin(resp);
    resp_text(resp, "PUBLISH");
    resp_text(resp, REPLICAS_CHANNEL);
    resp_text(resp, "");
    ask_ahead(master, heard_write, resp_end(resp));
    resp_begin(resp);
    resp_text(resp, "WAIT");
    resp_number(resp, replicas->ack);
    resp_number(resp, timeout_ms);
    ask_ahead(master, heard_wait, resp_end(resp));
    if (master->phase == PHASE_READY)
        master_start_timer(master, timeout_ms); /* A greeting and a pause have their own. */
}

/* ---- scripts, marker and probes ---- */

static void heard_reload(struct master *master, const struct command *command,
                         const redisReply *reply, bool sent)
{
    (void)command, (void)sent;
    if (reply == NULL || master->phase != PHASE_READY)
        return;
    master->reloading = false;
    if (!ask_has_loaded(reply))
        service_pause(master, "SCRIPT LOAD: refused");
}

void upkeep_reload_scripts(struct master *master)
{
    if (master->phase == PHASE_READY && !master->reloading) {
        master->reloading = true;
        ask_scripts(master, heard_reload, SCRIPTS_ALL);
    }
}

void upkeep_heard_marker(struct master *master, const struct command *command,
                         const redisReply *reply, bool sent)
{
    (void)sent;
    if (reply == NULL || master->phase != PHASE_READY || command->greeting != master->greeting)
        return; /* The guard knows already that the master is away. */
    bool is_error = reply->type == REDIS_REPLY_ERROR;
    if (!is_error && marker_take(master, reply))
        return;
    marker_unanswered(master);
    if (!is_error)
        return;
    enum redis_outcome outcome = outcome_of_error(reply->str);
    if (outcome == REDIS_OUTCOME_NOSCRIPT)
        upkeep_reload_scripts(master);
    else
        service_refused(master, outcome, reply->str);
}

/* ---- probes ---- */

static void heard_ping(struct master *master, const struct command *command,
                       const redisReply *reply, bool sent)
{
    (void)command, (void)sent;
    if (reply == NULL || master->phase != PHASE_READY)
        return;
    if (reply->type != REDIS_REPLY_ERROR)
        master_answered_well(master);
    else if (outcome_of_error(reply->str) == REDIS_OUTCOME_MISCONF)
        service_pause(master, "PING: refuses writes because its snapshots fail");
    else
        service_refused(master, outcome_of_error(reply->str), reply->str);
}

static void heard_time(struct master *master, const struct command *command,
                       const redisReply *reply, bool sent)
{
    (void)sent;
    if (reply == NULL || master->phase != PHASE_READY || reply->type == REDIS_REPLY_ERROR)
        return;
    if (!health_take_time(master, command, reply))
        master_makes_no_sense(master, "TIME");
}

static void heard_info(struct master *master, const struct command *command,
                       const redisReply *reply, bool sent)
{
    (void)command, (void)sent;
    if (reply == NULL || master->phase != PHASE_READY || reply->type == REDIS_REPLY_ERROR)
        return;
    if (reply->type == REDIS_REPLY_STRING)
        health_take_info(master, reply->str);
    else
        master_makes_no_sense(master, "INFO");
}

void upkeep_count_replicas(struct master *master)
{
    ASK(master, heard_info, "INFO", "replication");
}

void upkeep_probe(struct master *master)
{
    enum { CLIENTS_PROBES = 20 }; /* At work its clients are counted once a minute, in the mean. */
    if (redis_random(master->redis) % CLIENTS_PROBES == 0)
        ASK(master, heard_info, "INFO", "clients");
    ASK(master, heard_info, "INFO", "replication");
    ASK(master, heard_info, "INFO", "memory");
    ASK(master, heard_ping, "PING");
}

void upkeep_read_clock(struct master *master)
{
    if (master->phase == PHASE_READY)
        ASK(master, heard_time, "TIME");
}

void upkeep_look(struct master *master)
{
    if (master->phase != PHASE_READY)
        return;
    master->probe_ticks = 0;
    upkeep_read_clock(master);
    upkeep_probe(master);
}

void upkeep_read_clocks(struct redis *redis, uint8_t group)
{
    for (size_t i = 0; i < redis->config->groups[group].master_count; i++)
        upkeep_read_clock(&redis->by_group[group][i]);
    redis_wake(redis);
}
