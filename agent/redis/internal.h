/* What the files of the Redis room share: the room itself, with what belongs to all masters, and a
 * section for each file. Private to agent/redis.
 *
 *   redis.c        the public face: start, views, stop. The turn of the loop: what was not sent is
 *                  reported, what is dirty is written
 *   phases.c       one master's way from a name to READY, its silence (R3)
 *   operations.c   the core's operations, sent to masters, and what is reported of them
 *   handshake.c    what is asked of a master before it counts as up, as a table of steps
 *   upkeep.c       when a master's service begins, pauses and ends. What a READY master is asked
 *                  aside: its scripts again, its marker, probes; the WAIT for its replicas (R21)
 *   subscriber.c   where releases of watched keys are heard of (R9)
 *   health.c       what makes a master degraded (D5.4)
 *   marker.c       carries out the guard: markers, epochs, until when a master has no vote (D5.3)
 *   master.c       one master: what the core and people are told of it, its timer and back-off
 *   pipeline.c     one master's ordered stream of commands, each heard exactly once
 *   line.c         one socket, written once a turn, read within bounds
 *   tls.c          TLS over a socket, our certificates and the master's
 *
 * A file calls those below it. Upwards leads what was handed in: the calls of a pipeline and of a
 * line, the function that hears a command, the end of a greeting, the callback of a timer.
 *
 * Without a loop are resp_scan.c (where a reply ends, and whether it may be read at all),
 * command.c, auth.c, and those that the simulator runs too: asking.c (effects -> bytes) and
 * replies.c (replies -> votes). trust.c and blocking.c stand apart. */
#ifndef LOCKAGENT_REDIS_INTERNAL_H
#define LOCKAGENT_REDIS_INTERNAL_H

#include "agent/core/guard.h"
#include "agent/core/replicas.h"
#include "agent/redis/asking.h"
#include "agent/redis/channels.h"
#include "agent/redis/command.h"
#include "agent/redis/line.h"
#include "agent/redis/redis.h"
#include "agent/redis/replies.h"

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

/* ---- pipeline.c: the ordered stream of commands of a master ---- */

/* What was asked, in order, and its end.
 *
 * Invariants
 *   1. Every command appended is heard exactly once, in order, at the latest when it ends. A WAIT
 *      alone is heard before what it is waited for with.
 *   2. That it is lost is told before the replies that its end makes unknown are heard.
 *   3. It is ended from the loop's own callbacks only, never while a reply is heard: there it is
 *      condemned, hears nothing more, and the turn ends it. */

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

/* ---- master.c: one master ---- */

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

/* ---- master.c: what the core and people are told ---- */

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

/* ---- master.c: the guard's word on it, in any group ---- */

/* GUARD_VOTES where the group has no guard, or the master is not READY. */
enum guard_state master_guard_state(const struct master *master);

/* D5.4: it may evict keys, and is not asked for new locks for that. */
bool master_is_unfit(const struct master *master);

/* For how long it has no vote; 0: it has one, or the same; -1: not known for how long. */
int64_t master_guarded_ms(const struct master *master);

/* ---- master.c: the timer ---- */

/* Not while the room stops. */
void master_start_timer(struct master *master, uint64_t ms);

/* Until a next try, which waits for longer with every failure (D5.2). */
void master_start_backoff(struct master *master);

/* A good reply: the next failure is the first again. */
void master_answered_well(struct master *master);

/* ---- pipeline.c: commands of the room's own ---- */

/* Sends a command, as resp_end() gives it; `heard` hears the answer. */
void ask_bytes(struct master *master, heard_fn *heard, struct text bytes);

/* The same for a command of `count` words. */
void ask_words(struct master *master, heard_fn *heard, unsigned count, const char *const *words);
#define ASK(master, heard, ...)                                                                    \
    ask_words(master, heard, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *),    \
              (const char *const[]){__VA_ARGS__})

/* Loads every script: SCRIPT_COUNT commands. */
void ask_scripts(struct master *master, heard_fn *heard);

/* True where a reply is one to those. */
bool ask_has_loaded(const redisReply *reply);

/* ---- marker.c: the guard (D5.3) ---- */

/* What agent/core/guard.c decides becomes scripts on the masters, epochs of the core, and states.
 * For groups that have a guard, unless a function says `any group`. */

/* Any group. What hears the answers of READY masters to what the guard asks is
 * redis->marker_heard. */
void marker_start(struct redis *redis, uint8_t group);

/* The time has come by: any group. */
void marker_tick(struct redis *redis, uint8_t group);

/* The greeting has come to the marker: asks for it, and `heard` hears the answer. */
void marker_greet(struct master *master, heard_fn *heard);

/* The marker's answer; false: it makes no sense, and the guard has not been told. */
bool marker_take(struct master *master, const redisReply *reply);

/* The greeting's question was refused: the master can not write the marker now. */
void marker_refused(struct master *master);

/* An answer came that says nothing. */
void marker_unanswered(struct master *master);

/* The greeting has ended. The state is shown by whoever says that the master is up. */
void marker_ready(struct master *master);

/* The master can not be asked any more: any group. */
void marker_away(struct master *master);

/* An operation of the core met that epoch ("": no marker): any group. */
void marker_heard_epoch(struct master *master, const char *epoch);

/* An operation of the core had no vote for so long (-1: there is no marker). */
void marker_heard_guarded(struct master *master, int64_t left_ms);

/* ---- health.c: what makes a master degraded (D5.4) ---- */

/* What INFO has told of an earlier greeting is forgotten. */
void health_forget(struct master *master);

/* Takes the text of INFO, of any section. */
void health_take_info(struct master *master, const char *info);

/* Takes an answer to TIME, and tells the core of the reading; false when it makes no sense. */
bool health_take_time(struct master *master, const struct command *command,
                      const redisReply *reply);

/* Looks at every READY master of a group, and at this agent's own clock, and shows what it
 * finds. */
void health_look(struct redis *redis, uint8_t group);

/* ---- subscriber.c: where releases are heard of (R9) ---- */

/* The subscriber's connection of a master. It is opened when the first key of its group is watched,
 * and closed when none has been for a while, beside the pipeline and only while that one is READY.
 * What it says has no fixed order, so what may come is counted: a message is always awaited where a
 * channel is watched, any other word only as often as it was asked for.
 *
 *   CLOSED --a key is watched--> OPENING --connected--> AUTH, SUBSCRIBE of all that is watched
 *      ^                            |                          |
 *      +---- back-off --------------+--------------------------+  any end, also the pipeline's */

/* Opens the connection if it is needed and may be had. */
void subscriber_wanted(struct master *master);

/* Closes it, and the core hears that nothing is subscribed to. Idempotent. */
void subscriber_close(struct master *master);

/* Ends it where it has failed; else writes what has been gathered. */
void subscriber_turn(struct master *master);

/* Every TICK_MS: its silence, and when it is tried again. */
void subscriber_tick(struct master *master);

/* ---- upkeep.c: service to the core ---- */

/* The greeting has ended well: it is READY. */
void service_up(struct master *master);

/* It can not be used, and `why`. */
void service_down(struct master *master, const char *why);

/* It can not serve now: it is greeted again later, on the same pipeline. */
void service_pause(struct master *master, const char *why);

/* An error reply while READY; `text` is the server's. */
void service_refused(struct master *master, enum redis_outcome outcome, const char *text);

/* ---- upkeep.c: the replicas of a master (R21) ---- */

/* The turn ends: sends a WAIT behind what was written in it, where that needs one. The master has a
 * pipeline. */
void replication_turn(struct master *master);

/* The timer of a READY master: its WAIT may have lasted for too long. */
void replication_time(struct master *master);

/* ---- upkeep.c: scripts, marker and probes ---- */

/* After a NOSCRIPT. Whoever asks again comes behind these on the same pipeline. */
void upkeep_reload_scripts(struct master *master);

/* Hears what a guard has asked of a READY master (redis->marker_heard). */
void upkeep_heard_marker(struct master *master, const struct command *command,
                         const redisReply *reply, bool sent);

/* How many replicas it has (R21). */
void upkeep_count_replicas(struct master *master);

void upkeep_probe(struct master *master);

/* Reads the clock of a READY master, or of all that a group has (R14). */
void upkeep_read_clock(struct master *master);
void upkeep_read_clocks(struct redis *redis, uint8_t group);

/* ---- handshake.c: what is asked of a master before it counts as up (D5.2) ---- */

/* Begins to greet a master on its pipeline: it is in phase GREETING then. How that ends is told to
 * master->on_greeted, once, unless the pipeline ends before. */
void handshake_begin(struct master *master);

/* ---- operations.c: the core's operations ---- */

/* Hears the reply to an operation (heard_fn): it is read once, and reported item by item. */
void operations_heard(struct master *master, const struct command *command, const redisReply *reply,
                      bool sent);

/* Reports what had not been sent when it began: what the core sends in answer waits for the next
 * call. */
void operations_report_unsent(struct redis *redis);

/* ---- phases.c: a master's way through its phases ---- */

/* Begins with a master whose configuration has been set. */
void phases_start(struct master *master);

/* Every TICK_MS: its silence, and when it is probed. */
void phases_tick(struct master *master);

/* Ends all that is open of it, now or as soon as libuv lets go. Idempotent. */
void phases_stop(struct master *master);

#endif
