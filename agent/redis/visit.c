/* Connections for commands that people give by hand (visit.h). */
#include <stdio.h>
#include <string.h>

#include "agent/redis/auth.h"
#include "agent/redis/info.h"
#include "agent/redis/outcomes.h"
#include "agent/redis/visit.h"

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

/* Does not repeat the server's own error text: that may quote a secret. */
redisReply *visit_ask(struct visit *visit, size_t master, struct text command)
{
    struct visited *at = &visit->masters[master];
    redisReply *reply = blocking_ask(at->blocking, command, visit->says, sizeof(visit->says));
    if (reply == NULL)
        hang_up(at);
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        outcome_describe(outcome_of_error(reply->str), NULL, visit->says, sizeof(visit->says));
        freeReplyObject(reply);
        return NULL;
    }
    return reply;
}

static bool do_well(struct visit *visit, size_t master, struct text command)
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
        well = do_well(visit, index, command);
        resp_wipe(visit->resp);
    }
    if (well && master->db != 0) {
        resp_begin(visit->resp);
        resp_text(visit->resp, "SELECT");
        resp_number(visit->resp, (uint64_t)master->db);
        well = do_well(visit, index, resp_end(visit->resp));
    }
    return well;
}

/* Reads the server's run id, "" where INFO is refused. False if the connection has ended. */
static bool ask_run_id(struct visit *visit, size_t master, char *run_id, size_t size)
{
    run_id[0] = '\0';
    resp_begin(visit->resp);
    resp_text(visit->resp, "INFO");
    resp_text(visit->resp, "server");
    redisReply *reply = visit_ask(visit, master, resp_end(visit->resp));
    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        info_field(reply->str, "run_id", run_id, size);
    freeReplyObject(reply);
    return visit->masters[master].blocking != NULL;
}

bool visit_open(struct visit *visit, size_t master)
{
    struct visited *at = &visit->masters[master];
    at->blocking = blocking_open(visit->group, &visit->group->masters[master], visit->says,
                                 sizeof(visit->says));
    bool well = at->blocking != NULL && log_in(visit, master) &&
                ask_run_id(visit, master, at->run_id, sizeof(at->run_id));
    if (!well)
        hang_up(at);
    return well;
}

bool visit_same_run(struct visit *visit, size_t master)
{
    char run_id[sizeof(visit->masters[master].run_id)];
    if (!ask_run_id(visit, master, run_id, sizeof(run_id)))
        return false;
    bool same = strcmp(run_id, visit->masters[master].run_id) == 0;
    if (!same)
        snprintf(visit->says, sizeof(visit->says), "is another server process than before");
    return same;
}

void visit_close(struct visit *visit)
{
    for (size_t m = 0; m < visit->group->master_count; m++)
        hang_up(&visit->masters[m]);
}
