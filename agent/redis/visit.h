/* Connections to the masters of one group without a loop, for the commands by hand. Every call
 * blocks for a bounded time. */
#ifndef LOCKAGENT_REDIS_VISIT_H
#define LOCKAGENT_REDIS_VISIT_H

#include "agent/redis/blocking.h"
#include "agent/redis/command.h"
#include "agent/redis/outcomes.h"

/* There is one connection to each master. It is logged in, and stays open until the visit ends. */
struct visit {
    const struct config_group *group;
    struct resp *resp; /* Commands are built here, one at a time. */
    char says[160];    /* The last error; of a reply that is one, with the command's name. */
    enum redis_outcome outcome; /* Class of the last error; LOST: there was no reply. */
    struct visited {
        struct blocking *blocking; /* NULL: no connection. */
        char run_id[48];           /* "": the server does not tell it (no right to INFO). */
    } masters[LIMIT_MASTERS];
};

/* Begins a visit without connections. `resp` is the caller's and is used until visit_close(). */
void visit_begin(struct visit *visit, const struct config_group *group, struct resp *resp);

/* Connects to a master, logs in, selects its database, and reads its run id. Returns false, with
 * the error in `says`, if that fails; then there is no connection. */
bool visit_open(struct visit *visit, size_t master);

/* Sends a command to a connected master. Returns NULL, with the error in `says`, if there was no
 * reply or an error. A connection without a reply is closed. The caller frees the reply with
 * freeReplyObject(). The server's own error text is in `says`, but for that of AUTH: it may quote a
 * secret. */
redisReply *visit_ask(struct visit *visit, size_t master, struct text command);

/* The same without a reply to look at. Returns false if it failed. */
bool visit_do(struct visit *visit, size_t master, struct text command);

/* Reads the server's run id; "" if INFO is refused. Returns false, with the error in `says`, if the
 * connection has ended, or if the server asks for a password. */
bool visit_ask_run_id(struct visit *visit, size_t master, char *run_id, size_t size);

/* Returns an earlier master of the visit that is the same server, by its run id, under another
 * name; `master` itself: there is none. */
size_t visit_twin(const struct visit *visit, size_t master);

/* Closes all connections. */
void visit_close(struct visit *visit);

#endif
