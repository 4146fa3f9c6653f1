/* Connects, logs in and asks, one master after the other. */
#include "agent/redis/visit.h"

#include <stdio.h>
#include <string.h>

#include "agent/redis/auth.h"
#include "agent/redis/replies.h"

void visit_begin(struct visit *visit, const struct config_group *group, struct resp *resp)
{
    *visit = (struct visit){.group = group, .resp = resp};
}

static void hang_up(struct visited *master)
{
    if (master->blocking != NULL)
        blocking_close(master->blocking);
    master->blocking = NULL;
}

/* Returns the first word of a command: `*<words>\r\n$<length>\r\n<word>\r\n...`. */
static const char *command_name(struct text command, int *ret_len)
{
    const char *end = command.at + command.len, *at = command.at;
    for (unsigned lines = 0; lines < 2 && at < end; at++)
        lines += *at == '\n';
    *ret_len = 0;
    while (at + *ret_len < end && at[*ret_len] != '\r')
        ++*ret_len;
    return at;
}

redisReply *visit_ask(struct visit *visit, size_t master, struct text command)
{
    struct visited *at = &visit->masters[master];
    redisReply *reply = blocking_ask(at->blocking, command, visit->says, sizeof(visit->says));
    if (reply == NULL) {
        visit->outcome = REDIS_OUTCOME_LOST;
        hang_up(at);
    }
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        char says[120];
        visit->outcome = outcome_of_error(reply->str);
        int len;
        const char *name = command_name(command, &len);
        bool is_secret = strncmp(name, "AUTH", (size_t)len) == 0;
        outcome_describe(visit->outcome, is_secret ? NULL : reply->str, says, sizeof(says));
        snprintf(visit->says, sizeof(visit->says), "%.*s: %s", len, name, says);
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

bool visit_do(struct visit *visit, size_t master, struct text command)
{
    redisReply *reply = visit_ask(visit, master, command);
    freeReplyObject(reply);
    return reply != NULL;
}

static bool log_in(struct visit *visit, size_t index)
{
    const struct config_master *master = &visit->group->masters[index];
    struct text command;
    int asks =
        auth_ask(visit->resp, visit->group, master, &command, visit->says, sizeof(visit->says));
    bool well = asks >= 0;
    if (asks > 0) {
        well = visit_do(visit, index, command);
        resp_wipe(visit->resp);
    }
    if (well && master->db != 0) {
        resp_begin(visit->resp);
        resp_text(visit->resp, "SELECT");
        resp_number(visit->resp, (uint64_t)master->db);
        well = visit_do(visit, index, resp_end(visit->resp));
    }
    return well;
}

bool visit_ask_run_id(struct visit *visit, size_t master, char *run_id, size_t size)
{
    run_id[0] = '\0';
    resp_begin(visit->resp);
    resp_text(visit->resp, "INFO");
    resp_text(visit->resp, "server");
    redisReply *reply = visit_ask(visit, master, resp_end(visit->resp));
    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        info_field(reply->str, "run_id", run_id, size);
    bool is_refused = reply == NULL && visit->outcome == REDIS_OUTCOME_NOAUTH;
    freeReplyObject(reply);
    return visit->masters[master].blocking != NULL && !is_refused;
}

bool visit_open(struct visit *visit, size_t master)
{
    struct visited *at = &visit->masters[master];
    at->blocking = blocking_open(visit->group, &visit->group->masters[master], visit->says,
                                 sizeof(visit->says));
    bool well = at->blocking != NULL && log_in(visit, master) &&
                visit_ask_run_id(visit, master, at->run_id, sizeof(at->run_id));
    if (!well)
        hang_up(at);
    return well;
}

size_t visit_twin(const struct visit *visit, size_t master)
{
    const struct visited *all = visit->masters;
    size_t m = 0;
    while (m < master && (all[m].blocking == NULL || all[master].run_id[0] == '\0' ||
                          strcmp(all[m].run_id, all[master].run_id) != 0))
        m++;
    return m;
}

void visit_close(struct visit *visit)
{
    for (size_t m = 0; m < visit->group->master_count; m++)
        hang_up(&visit->masters[m]);
}
