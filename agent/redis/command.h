/* One command, which may have gone to several masters, and the pool of commands. A command returns
 * to the pool when every master has replied to it or its connection has ended. */
#ifndef LOCKAGENT_REDIS_COMMAND_H
#define LOCKAGENT_REDIS_COMMAND_H

#include <hiredis/hiredis.h>

#include "agent/core/core.h"

struct master;
struct command;

/* Receives the reply to a command; NULL if the connection ended first. `sent` is true if the
 * command may have reached the master. */
typedef void heard_fn(struct master *master, const struct command *command, const redisReply *reply,
                      bool sent);

struct command {
    /* Next command in the pool, in the queue of unsent commands, or among those kept back. */
    struct command *next;
    heard_fn *heard;
    uint64_t sent_at_ns;
    struct instant asked_at; /* When a command of the room itself was about to be written. */
    uint16_t references;     /* Number of connections that hold it, and 1 if the queue of unsent
                              * commands does. */
    master_set unsent;       /* Masters that it could not be sent to, which are still to be
                              * reported. */
    master_set unfit;        /* Those of `unsent` that were not asked because they may evict keys
                              * (D5.4). */
    bool of_core;            /* True for an operation of the core; false for a command of the room
                              * itself. */
    bool is_ahead;     /* A WAIT for replicas, or the write before it (R21). Its reply is passed
                              * on before those that were kept back for it. */
    bool unreplicated; /* Too few replicas have it, so its reply is no vote. Its group has one
                        * master. */
    /* A copy of the reply while it is kept back (R21). NULL: there was no memory for it. */
    redisReply *kept;
    enum op op;
    uint8_t group;
    uint16_t native_results; /* Native commands: elements of EXEC's reply. */
    bool native_fencing;     /* The same, of an acquire: each item is numbered. */
    uint32_t greeting;    /* Number of the greeting that asked. Replies to an earlier greeting are
                           * ignored. */
    uint16_t room, count; /* `room`: capacity of `refs`; `count`: number of refs used. */
    struct lock_ref refs[];
};

/* Unused commands of each size. Spare ones have the larger size, and are used only when memory is
 * short. All zero at the start. */
struct command_pool {
    struct command *single, *batch, *spare;
    uint32_t singles, batches, spares;
};

/* Sets the spare commands aside. Returns false if there is not enough memory. */
MUST_CHECK bool command_pool_fill(struct command_pool *pool);

/* Returns a command for `refs` items (0: a command of the room itself), without references.
 * `asked_at` is now. Returns NULL if there is no memory and no spare command. */
struct command *command_new(struct command_pool *pool, heard_fn *heard, uint16_t refs);

/* Drops one reference. The last one returns the command to the pool. */
void command_release(struct command_pool *pool, struct command *command);

void command_free_list(struct command *command);
void command_pool_free(struct command_pool *pool);

#endif
