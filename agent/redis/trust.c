/* `lockagent trust`: writes the markers of every guarded group by hand, one master after the
 * other, and without a loop. */
#include "agent/redis/asking.h"
#include "agent/redis/auth.h"
#include "agent/redis/blocking.h"
#include "agent/redis/info.h"
#include "agent/redis/redis.h"

/* NULL when the reply is well; else what is wrong (in `says` already where there is none), which is
 * never the server's own text: that may quote a secret. */
static const char *fault_in(const redisReply *reply, char *says, size_t size)
{
    if (reply == NULL)
        return says;
    if (reply->type != REDIS_REPLY_ERROR)
        return NULL;
    outcome_describe(outcome_of_error(reply->str), NULL, says, size);
    return says;
}

static const char *do_blocking(struct blocking *blocking, struct text command, char *says,
                               size_t size)
{
    redisReply *reply = blocking_ask(blocking, command, says, size);
    const char *fault = fault_in(reply, says, size);
    freeReplyObject(reply);
    return fault;
}

static const char *log_in(struct blocking *blocking, const struct config_group *group,
                          const struct config_master *master, struct resp *resp, char *says,
                          size_t size)
{
    struct text command;
    int asks = auth_ask(resp, group, master, &command, says, size);
    const char *fault = asks < 0 ? says : NULL;
    if (asks > 0) {
        fault = do_blocking(blocking, command, says, size);
        resp_wipe(resp);
    }
    if (fault == NULL && master->db != 0) {
        resp_begin(resp);
        resp_text(resp, "SELECT");
        resp_number(resp, (uint64_t)master->db);
        fault = do_blocking(blocking, resp_end(resp), says, size);
    }
    return fault;
}

/* The run that is trusted: another one starts a new epoch where the group is not durable. "": the
 * master does not say. */
static void ask_run_id(struct blocking *blocking, struct resp *resp, char *run_id, size_t size)
{
    char says[160];
    run_id[0] = '\0';
    resp_begin(resp);
    resp_text(resp, "INFO");
    resp_text(resp, "server");
    redisReply *reply = blocking_ask(blocking, resp_end(resp), says, sizeof(says));
    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        info_field(reply->str, "run_id", run_id, size);
    freeReplyObject(reply);
}

static const char *mark(struct blocking *blocking, const struct config *config, struct resp *resp,
                        char *says, size_t size)
{
    char run_id[48];
    struct guard_ask ask = {.question = GUARD_ASK_TRUST, .max_ttl_ms = config->max_ttl_ms};
    ask_run_id(blocking, resp, run_id, sizeof(run_id));
    return do_blocking(blocking, asking_marker(resp, &ask, run_id, /* whole= */ true), says, size);
}

static const char *trust_one(const struct config *config, const struct config_group *group,
                             size_t index, struct resp *resp, char *says, size_t size)
{
    const struct config_master *master = &group->masters[index];
    struct blocking *blocking = blocking_open(group, master, says, size);
    if (blocking == NULL)
        return says;
    const char *fault = log_in(blocking, group, master, resp, says, size);
    if (fault == NULL)
        fault = mark(blocking, config, resp, says, size);
    blocking_close(blocking);
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
