/* Connections to the masters of one group without a loop, for commands that people give by hand:
 * one connection to each master, logged in, for as long as the visit lasts. */
#ifndef LOCKAGENT_REDIS_VISIT_H
#define LOCKAGENT_REDIS_VISIT_H

#include "agent/redis/blocking.h"
#include "agent/redis/resp.h"

struct visit {
    const struct config_group *group;
    struct resp *resp; /* commands are built here, one at a time */
    char says[160];    /* what went wrong last */
    struct visited {
        struct blocking *blocking; /* NULL: no connection */
        char run_id[48];           /* "": the server does not say (no right to INFO) */
    } masters[LIMIT_MASTERS];
};

/* Begins a visit without connections. `resp` is the caller's, and stays in use until
 * visit_close(). */
void visit_begin(struct visit *visit, const struct config_group *group, struct resp *resp);

/* Connects to a master, logs in, selects its database, and asks for its run id. False, and `says`,
 * if that fails; then there is no connection. */
bool visit_open(struct visit *visit, size_t master);

/* Asks a connected master. NULL, and `says`, if there was no reply or an error; a connection
 * without a reply is closed. The reply is freed with freeReplyObject(). */
redisReply *visit_ask(struct visit *visit, size_t master, struct text command);

/* False, and `says`, if the server process is another one than visit_open() met. */
bool visit_same_run(struct visit *visit, size_t master);

/* Closes all connections. */
void visit_close(struct visit *visit);

#endif
