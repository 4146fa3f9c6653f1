/* `lockagent trust`: writes the markers of every guarded group by hand, one master after the
 * other, and without a loop. */
#include <stdio.h>

#include <hiredis/hiredis.h>

#include "agent/redis/asking.h"
#include "agent/redis/auth.h"
#include "agent/redis/info.h"
#include "agent/redis/redis.h"

enum { PATIENCE_S = 5 };

static redisContext *connect_blocking(const struct config_master *master)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const struct config_address *address = &master->address;
    redisContext *context = address->is_unix
                                ? redisConnectUnixWithTimeout(address->host, patience)
                                : redisConnectWithTimeout(address->host, address->port, patience);
    if (context != NULL && !context->err)
        redisSetTimeout(context, patience);
    return context;
}

/* NULL when the reply is well; else what is wrong, which is never the server's own text: that
 * may quote a secret. */
static const char *fault_in(const redisContext *context, const redisReply *reply, char *says,
                            size_t size)
{
    if (reply == NULL) {
        snprintf(says, size, "%s", context->errstr);
        return says;
    }
    if (reply->type != REDIS_REPLY_ERROR)
        return NULL;
    outcome_describe(outcome_of_error(reply->str), NULL, says, size);
    return says;
}

/* Asks, as resp_end() gives it; NULL when that could not even be sent. */
static redisReply *ask_blocking(redisContext *context, struct text command)
{
    void *reply = NULL;
    if (redisAppendFormattedCommand(context, command.at, command.len) == REDIS_OK)
        redisGetReply(context, &reply);
    return reply;
}

static const char *log_in(redisContext *context, const struct config_group *group,
                          const struct config_master *master, struct resp *resp, char *says,
                          size_t size)
{
    struct text command;
    int asks = auth_ask(resp, group, master, &command, says, size);
    const char *fault = asks < 0 ? says : NULL;
    if (asks > 0) {
        redisReply *reply = ask_blocking(context, command);
        resp_wipe(resp);
        fault = fault_in(context, reply, says, size);
        freeReplyObject(reply);
    }
    if (fault == NULL && master->db != 0) {
        redisReply *reply = redisCommand(context, "SELECT %d", master->db);
        fault = fault_in(context, reply, says, size);
        freeReplyObject(reply);
    }
    return fault;
}

/* The run that is trusted: another one starts a new epoch where the group is not durable. */
static void ask_run_id(redisContext *context, char *run_id, size_t size)
{
    run_id[0] = '\0';
    redisReply *reply = redisCommand(context, "INFO server");
    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        info_field(reply->str, "run_id", run_id, size);
    freeReplyObject(reply);
}

static const char *mark(redisContext *context, const struct config *config, struct resp *resp,
                        char *says, size_t size)
{
    char run_id[48];
    struct guard_ask ask = {.question = GUARD_ASK_TRUST, .max_ttl_ms = config->max_ttl_ms};
    ask_run_id(context, run_id, sizeof(run_id));
    redisReply *reply = ask_blocking(context, asking_marker(resp, &ask, run_id, /* whole= */ true));
    const char *fault = fault_in(context, reply, says, size);
    freeReplyObject(reply);
    return fault;
}

static const char *trust_one(const struct config *config, const struct config_group *group,
                             size_t index, struct resp *resp, char *says, size_t size)
{
    const struct config_master *master = &group->masters[index];
    redisContext *context = connect_blocking(master);
    const char *fault;
    if (context == NULL || context->err) {
        snprintf(says, size, "connect: %s", context != NULL ? context->errstr : "out of memory");
        fault = says;
    } else {
        fault = log_in(context, group, master, resp, says, size);
        if (fault == NULL)
            fault = mark(context, config, resp, says, size);
    }
    if (context != NULL)
        redisFree(context);
    return fault;
}

size_t redis_trust(const struct config *config,
                   void (*say)(const char *group, const char *master, const char *error))
{
    static char bytes[8 << 10];
    struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    size_t failed = 0;
    char says[160];
    for (size_t g = 0; g < config->group_count; g++) {
        const struct config_group *group = &config->groups[g];
        for (size_t m = 0; group->guard && m < group->master_count; m++) {
            const char *fault = trust_one(config, group, m, &resp, says, sizeof(says));
            say(group->name, group->masters[m].url, fault);
            failed += fault != NULL;
        }
    }
    return failed;
}
