/* One master: its state as a whole, what the core and people are told of it, its timer.
 *
 * Invariants
 *   1. Only a master that the core believes up (told_up) is sent operations of the core; its
 *      pipeline is then READY.
 *   2. The core hears that a master is down before the replies that the end of its pipeline makes
 *      unknown are reported.
 *
 * Phases
 *
 *   WAITING --timer--> RESOLVING --> CONNECTING --> GREETING --last step--> READY
 *      ^                   |             |           |    ^                   |
 *      |                   |             |           |    +--timer-- PAUSED <-+  it can not serve
 *      |                   |             |           +--------------> PAUSED     now: BUSY, ...
 *      +-------------------+-------------+-----------+  any end of the pipeline, from every phase
 *
 * Timers: master.timer (WAITING: back-off; CONNECTING: time limit; PAUSED: back-off; READY: the end
 * of a WAIT), redis.tick (silence, probes). */
#ifndef LOCKAGENT_REDIS_MASTER_H
#define LOCKAGENT_REDIS_MASTER_H

#include "agent/redis/internal.h"
#include "agent/redis/pipeline.h"

enum {
    BACKOFF_MS_MIN = 20,  /* first delay before a reconnect, doubled with every failure */
    BACKOFF_MS_MAX = 500, /* D5.2 */
    ADDRESSES_MAX = 8,    /* of one name */
};

enum phase {
    PHASE_WAITING,
    PHASE_RESOLVING,
    PHASE_CONNECTING,
    PHASE_GREETING,
    PHASE_PAUSED,
    PHASE_READY
};

/* How a greeting ended. */
enum greeted {
    GREETED_WELL,
    GREETED_LATER, /* the master can not serve now: greet it again on the same pipeline */
    GREETED_ILL,   /* the pipeline is to end */
};

struct master {
    struct redis *redis;
    uint8_t group, index;
    const struct config_group *group_config;
    const struct config_master *config;

    enum phase phase;
    struct redis_master_view view; /* state, reason and what the greeting found out */
    struct instant failed_at;      /* when view.last_error came */
    struct pipeline *pipeline;     /* NULL in WAITING and RESOLVING */
    uv_timer_t timer;
    uv_timer_cb on_timer; /* handed in */
    uint32_t silence_ms;  /* without a reply for so long the pipeline ends (R3) */
    uint32_t failures;    /* since the last good reply: drives the back-off */
    uint32_t noticed; /* a bit for each outcome, each fault, and memory, told of since it came up */
    uint32_t probe_ticks;
    struct clock_reading reading; /* of its clock, the last one */

    uv_getaddrinfo_t resolve;
    char addresses[ADDRESSES_MAX][64];
    unsigned address_count, address_next;
    uint64_t attempts;

    uint32_t greeting; /* number of the present greeting */
    unsigned step, answers_left;
    /* Handed in; how the present greeting ended, and why (NULL: well). */
    void (*on_greeted)(struct master *master, enum greeted greeted, const char *why);
    bool was_ready;       /* this pipeline has been READY before */
    bool reloading;       /* SCRIPT LOAD is on its way after a NOSCRIPT */
    char last_run_id[48]; /* when it was last up */
    uint16_t epoch;
    bool told_up; /* the core believes it up */
    struct {
        char role[16], policy[32]; /* "": not known */
        char maxmemory[24];        /* bytes; "": not known */
        bool cluster;              /* a node of a Redis Cluster */
        bool clock_known;
        int replicas;    /* that are connected and keep up; -1: not known */
        char fault[100]; /* "": none */
        bool grave;      /* on_degraded applies */
        bool evicts;     /* keys may go before their lease is over */
    } health;
    const char *connected_to; /* the address of the pipeline: one of `addresses` */
    struct {
        struct subscription *line;              /* NULL: closed */
        uint32_t idle_ticks;                    /* without a watched key */
        uint32_t retry_ticks, retry_ticks_last; /* until the next try, and how many those were */
    } subscriber;
    int64_t client_id;          /* of this pipeline's connection; 0: unknown */
    int64_t doubtful_client_id; /* of one that ended with commands in flight (R5); 0: none */
};

/* ---- what the core and people are told ---- */

/* The core's event of that kind about this master: MASTER_UP, MASTER_DOWN or MASTER_CLOCK. */
void master_tell_core(struct master *master, enum event_kind kind);

/* It may have forgotten what it confirmed (R7). */
void master_new_epoch(struct master *master);

/* The state of a READY master may have changed: tells people, and the core where it matters. */
void master_show(struct master *master);

/* It is down, and `why`: the same. */
void master_show_down(struct master *master, const char *why);

/* A remark about a master whose state does not change: once per kind and pipeline. */
void master_notice(struct master *master, enum redis_outcome outcome, const char *text);

/* Where its connections lead: to the address that its name stood for when it was resolved last. */
struct line_end master_end(const struct master *master);

/* One of its connections ends: counted where TLS is to blame. */
void master_tls_ended(struct master *master, const struct line *line);

/* The master broke the protocol: counted, and the next pipeline waits for as long as back-off
 * knows. */
void master_broke(struct master *master, enum redis_fault fault);

/* The same on a connection that is not the commands': people are told, once per kind. */
void master_broke_aside(struct master *master, enum redis_fault fault, const char *why);

/* The same for a reply, in the pipeline, that is none to what was asked: the turn ends it. */
void master_makes_no_sense(struct master *master, const char *asked);

/* This agent has no memory for something beside the commands, which is done without or tried again.
 * People are told once per pipeline; `what` says of what. */
void master_lacks_memory(struct master *master, const char *what);

/* ---- the guard's word on it, in any group ---- */

/* GUARD_VOTES where the group has no guard, or the master is not READY. */
enum guard_state master_guard_state(const struct master *master);

/* D5.4: it may evict keys, and is not asked for new locks for that. */
bool master_is_unfit(const struct master *master);

/* For how long it has no vote; 0: it has one, or the same; -1: not known for how long. */
int64_t master_guarded_ms(const struct master *master);

/* ---- the timer ---- */

/* Not while the room stops. */
void master_start_timer(struct master *master, uint64_t ms);

/* Until a next try, which waits for longer with every failure (D5.2). */
void master_start_backoff(struct master *master);

/* A good reply: the next failure is the first again. */
void master_answered_well(struct master *master);

#endif
