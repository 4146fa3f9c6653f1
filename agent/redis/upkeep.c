/* Asks a READY master for what it must keep, and hears its answers (upkeep.h). */
#include "agent/redis/upkeep.h"
#include "agent/redis/ask.h"
#include "agent/redis/health.h"
#include "agent/redis/marker.h"
#include "agent/redis/service.h"

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
        ask_scripts(master, heard_reload);
    }
}

void upkeep_heard_marker(struct master *master, const struct command *command,
                         const redisReply *reply, bool sent)
{
    (void)sent;
    if (reply == NULL || master->phase != PHASE_READY || command->greeting != master->greeting)
        return; /* the guard has been told that the master is away */
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
    if (reply->type == REDIS_REPLY_ERROR)
        service_refused(master, outcome_of_error(reply->str), reply->str);
    else
        master_answered_well(master);
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
    ASK(master, heard_info, "INFO", "replication");
    ASK(master, heard_info, "INFO", "memory");
    ASK(master, heard_ping, "PING");
}

void upkeep_read_clock(struct master *master)
{
    if (master->phase == PHASE_READY)
        ASK(master, heard_time, "TIME");
}

void upkeep_read_clocks(struct redis *redis, uint8_t group)
{
    for (size_t i = 0; i < redis->config->groups[group].master_count; i++)
        upkeep_read_clock(&redis->by_group[group][i]);
    redis_wake(redis);
}
