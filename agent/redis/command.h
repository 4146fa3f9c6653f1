/* One command, which may have gone to several masters, and the pool that it comes from
 * and goes back to when the last of them has been heard of. */
#ifndef LOCKAGENT_REDIS_COMMAND_H
#define LOCKAGENT_REDIS_COMMAND_H

#include <hiredis/hiredis.h>

#include "agent/core/core.h"

struct master;
struct command;

/* Takes the reply to a command; NULL when the connection ended first. `sent` tells whether it may
 * have reached the master. */
typedef void heard_fn(struct master *master, const struct command *command, const redisReply *reply,
                      bool sent);

struct command {
    /* The next one in the pool, in the queue of what was not sent, or of what is kept back. */
    struct command *next;
    heard_fn *heard;
    uint64_t sent_at_ns;
    struct instant asked_at; /* of the room's own: before it was written */
    uint16_t references;     /* connections, and the queue of what was not sent, that hold it */
    master_set unsent;       /* masters that it could not be sent to and that are to be reported */
    master_set unfit;        /* of those: not asked because they may evict keys (D5.4) */
    bool of_core;            /* an operation of the core; else it is the room's own */
    bool is_wait;            /* for replicas (R21): heard before what was kept back for it */
    bool unreplicated; /* that were too few: what it did is no vote. Its group has one master */
    /* A copy of its reply, while that is kept back (R21). NULL: there was no memory for it. */
    redisReply *kept;
    enum op op;
    uint8_t group;
    uint32_t greeting;    /* that asked: late answers of an earlier one are not its */
    uint16_t room, count; /* of refs */
    struct lock_ref refs[];
};

/* Unused commands, of each size, and spare ones of the larger size, which are taken only when
 * memory is short. All zero in the beginning. */
struct command_pool {
    struct command *single, *batch, *spare;
    uint32_t singles, batches, spares;
};

/* Sets the spare commands aside. False when out of memory. */
MUST_CHECK bool command_pool_fill(struct command_pool *pool);

/* A command for `refs` items (0: of the room's own), without references, sent now. NULL when out of
 * memory and no spare one is left. */
struct command *command_new(struct command_pool *pool, heard_fn *heard, uint16_t refs);

/* One reference less; without any the command goes back to the pool. */
void command_release(struct command_pool *pool, struct command *command);

void command_free_list(struct command *command);
void command_pool_free(struct command_pool *pool);

#endif
