/* One master's ordered stream of commands: what was asked, in order, and its end.
 *
 * Invariants
 *   1. Every command appended is heard exactly once, in order, at the latest when it ends. A WAIT
 *      alone is heard before what it is waited for with.
 *   2. That it is lost is told before the replies that its end makes unknown are heard.
 *   3. It is ended from the loop's own callbacks only, never while a reply is heard: there it is
 *      condemned, hears nothing more, and the turn ends it. */
#ifndef LOCKAGENT_REDIS_PIPELINE_H
#define LOCKAGENT_REDIS_PIPELINE_H

#include "agent/core/replicas.h"
#include "agent/redis/command.h"
#include "agent/redis/internal.h"
#include "agent/redis/line.h"

/* What happens to a pipeline, for its master. None is called from within a pipeline_ function but
 * pipeline_end() and pipeline_turn(). */
struct pipeline_calls {
    void (*connected)(struct master *master);
    /* The master broke the protocol: the end follows. */
    void (*broke)(struct master *master, enum redis_fault fault);
    /* It ends: nothing can be appended any more, and nothing that is unheard has been heard yet. */
    void (*lost)(struct master *master, const char *why);
    /* It has ended, and everything has been heard: the master is to forget it. */
    void (*gone)(struct master *master, bool was_connected);
};

/* A command without a reply, and how long it is on this master's connection. */
struct expected {
    struct command *command;
    size_t bytes;
};

/* Lives until libuv has let go of its line. */
struct pipeline {
    struct line line;
    struct redis *redis;
    struct master *master;
    const struct pipeline_calls *calls;
    bool ended;                /* and told of */
    char condemned[160];       /* why the turn must end it; "" if it need not */
    struct expected *expected; /* a ring: the commands without reply, the oldest at `first` */
    uint32_t ring, first;      /* ring: how many it can hold, a power of two */
    uint32_t unheard;          /* how many it holds, also commands of the room's own */
    uint32_t in_flight;        /* of the core's among them */
    uint64_t bytes_heard;      /* of the commands that have been answered */
    struct replicas replicas;  /* of the master, and what is kept back for them (R21) */
    struct command *kept, **kept_end; /* the oldest first */
    uint32_t silent_ticks;
};

/* Starts to connect. NULL, and `why`, when that failed at once. `calls` is kept by reference. */
struct pipeline *pipeline_open(struct redis *redis, const struct line_end *end,
                               const struct pipeline_calls *calls, struct master *master, char *why,
                               size_t why_size);

/* What a command has of one master alone, where it has nothing of that kind. */
static inline struct text nothing_own(void)
{
    return (struct text){"", 0};
}

/* Appends the bytes, and `own` behind them: of this master alone. True when they are on their way;
 * the command is then heard exactly once. */
bool pipeline_append(struct pipeline *pipeline, struct command *command, struct text bytes,
                     struct text own);

/* Hears what was kept back for the replicas; `enough`: as many as are asked for have it. Called as
 * the WAIT is heard. */
void pipeline_hear_kept(struct pipeline *pipeline, bool enough);

/* From anywhere; the turn ends it. */
void pipeline_condemn(struct pipeline *pipeline, const char *why);

/* Never while a reply is heard. Idempotent. */
void pipeline_end(struct pipeline *pipeline, const char *why);

/* Ends it if it is condemned; else writes what has been gathered. */
void pipeline_turn(struct pipeline *pipeline);

#endif
