/* What the modules of the Redis room share: the room itself, with what belongs to all masters.
 *
 *   redis.c        the public face: start, views, stop
 *   turn.c         the turn of the loop: what was not sent is reported, what is dirty is written
 *   phases.c       one master's way from a name to READY, its silence (R3)
 *   operations.c   the core's operations, sent to masters, and what is reported of them
 *   replication.c  the WAIT for a master's replicas, at the end of a turn (R21)
 *   upkeep.c       what is asked of a READY master aside: its scripts again, its marker, probes
 *   handshake.c    what is asked of a master before it counts as up, as a table of steps
 *   service.c      when a master's service begins, pauses and ends
 *   marker.c       carries out the guard: markers, epochs, until when a master has no vote (D5.3)
 *   subscriber.c   where releases of watched keys are heard of (R9)
 *   health.c       what makes a master degraded (D5.4)
 *   ask.c          commands of the room's own
 *   master.c       one master: what the core and people are told of it, its timer and back-off
 *   pipeline.c     one master's ordered stream of commands, each heard exactly once
 *   line.c         one socket, written once a turn, read within bounds
 *   tls.c          TLS over a socket, our certificates and the master's
 *
 * A file calls those below it. Upwards leads what was handed in: the calls of a pipeline and of a
 * line, the function that hears a command, the end of a greeting, the callback of a timer.
 *
 * Without a loop are resp_scan.c (where a reply ends, and whether it may be read at all),
 * channels.c, command.c, auth.c, info.c, and those that the simulator runs too: asking.c (effects
 * -> bytes), replies.c (replies -> votes), outcomes.c, scripts.c, resp.c. trust.c stands apart. */
#ifndef LOCKAGENT_REDIS_INTERNAL_H
#define LOCKAGENT_REDIS_INTERNAL_H

#include "agent/core/guard.h"
#include "agent/redis/channels.h"
#include "agent/redis/command.h"
#include "agent/redis/redis.h"
#include "agent/redis/replies.h"
#include "agent/redis/resp.h"

enum { TICK_MS = 250 }; /* how often silence, health and markers are looked at */

struct redis {
    uv_loop_t *loop;
    const struct config *config;
    struct redis_sink sink;
    uv_prepare_t prepare;
    uv_idle_t idle; /* active while there is work for the next turn: keeps the loop awake */
    uv_timer_t tick;
    bool work;
    struct command *unsent, **unsent_end;
    struct command_pool pool;
    struct resp resp; /* where each command is built */
    /* Of the reply that is being heard, one at a time: what it says, and what the core is told. */
    struct item_reply items[LIMIT_BATCH];
    struct event_reply replies[LIMIT_BATCH];
    uint64_t random;
    uint32_t open;          /* handles and requests of masters that libuv still holds */
    uint32_t open_turn;     /* the turn's own, which are closed last */
    bool stopping, closing; /* closing: the turn's own handles */
    void (*done)(void *arg);
    void *done_arg;
    struct master *by_group[LIMIT_GROUPS];
    struct channels channels;
    struct guard guards[LIMIT_GROUPS];  /* of the groups that have one */
    heard_fn *marker_heard;             /* hears the answers to what a guard asks */
    int64_t clock_off_us[LIMIT_GROUPS]; /* what most masters agree that this agent is off by */
    struct master *masters;
    size_t master_count;
};

/* There is work for the next turn. */
void redis_wake(struct redis *redis);

/* libuv has let go of one handle or request of a master. */
void redis_closed(struct redis *redis);

/* The clock of the guards. */
struct instant redis_now(void);

/* Jitter; no secret. */
uint64_t redis_random(struct redis *redis);

#endif
