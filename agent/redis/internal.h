/* The private header of the Redis room: the room itself, which all masters share, and a section for
 * each file.
 *
 *   redis.c        the public face: start, views, stop. In each iteration of the loop: reports
 *                  commands that were not sent, writes the gathered bytes
 *   phases.c       takes one master from its name to READY; its silence (R3)
 *   operations.c   sends the core's operations to masters, and reports the replies
 *   handshake.c    the questions to a master before it counts as up, as a table of steps
 *   upkeep.c       begins, pauses and ends a master's service. Other commands to a READY master:
 *                  scripts, marker, probes; the WAIT for its replicas (R21)
 *   subscriber.c   receives the releases of watched keys (R9)
 *   health.c       finds the faults that make a master degraded (D5.4)
 *   marker.c       carries out the guard: markers, epochs, the time without a vote (D5.3)
 *   certificates.c keeps the ends of our certificates, for people
 *   master.c       one master: reports to the core and to people, its timer and back-off
 *   pipeline.c     one master's ordered stream of commands, each answered exactly once
 *   line.c         one socket, written once a turn, read within bounds
 *   tls.c          TLS over a socket, our certificates and the master's
 *
 * A file calls those below it. Calls upwards go through functions that were passed down: the calls
 * of a pipeline and of a line, the receiver of a command's reply, the end of a greeting, the
 * callback of a timer.
 *
 * These files need no loop: resp_scan.c (the bounds of a reply), command.c, auth.c, and two that
 * the simulator runs too: asking.c (effects to bytes) and replies.c (replies to votes). by_hand.c
 * and blocking.c are used by commands only. */
#ifndef LOCKAGENT_REDIS_INTERNAL_H
#define LOCKAGENT_REDIS_INTERNAL_H

#include <sys/stat.h>

#include "agent/core/guard.h"
#include "agent/core/replicas.h"
#include "agent/redis/asking.h"
#include "agent/redis/channels.h"
#include "agent/redis/command.h"
#include "agent/redis/line.h"
#include "agent/redis/redis.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"

enum { TICK_MS = 250 }; /* Interval of the checks of silence, health and markers. */

struct redis {
    uv_loop_t *loop;
    const struct config *config;
    struct redis_sink sink;
    uv_prepare_t prepare;
    uv_idle_t idle; /* Active while there is work for the next turn, so that the loop does not
                     * sleep. */
    uv_timer_t tick;
    bool work;
    struct command *unsent, **unsent_end;
    struct command_pool pool;
    struct resp resp;                        /* Every command is built here. */
    struct event_reply replies[LIMIT_BATCH]; /* The items of the reply that is being read. */
    uint64_t random;
    uint32_t open;          /* Number of masters' handles and requests that libuv still uses. */
    uint32_t open_turn;     /* Number of the turn's own handles, which are closed last. */
    bool stopping, closing; /* `closing`: the turn's own handles are being closed. */
    void (*done)(void *arg);
    void *done_arg;
    struct master *by_group[LIMIT_GROUPS];
    struct channels channels;
    struct guard guards[LIMIT_GROUPS]; /* Used for groups that have a guard. */
    struct group_layout {
        char ours[LAYOUT_BYTES + 1];
        /* The last layout that is no neighbour, why it is none, and a master that knows it. */
        char theirs[LAYOUT_BYTES + 1];
        enum layout_conflict conflict;
        uint8_t master;
        bool told;           /* People were told that it keeps this agent from new locks. */
        uint8_t kin;         /* The set of groups that share a prefix with this one, and itself. */
    } layouts[LIMIT_GROUPS]; /* R23 */
    struct group_quorum {
        bool is_up, was_up; /* A quorum was up at the last tick; at any tick since the start. */
    } quorums[LIMIT_GROUPS];
    heard_fn *marker_heard;             /* Receives the replies to a guard's questions. */
    int64_t clock_off_us[LIMIT_GROUPS]; /* Most masters' time minus ours, as reported last; 0: none
                                         * was. */
    struct own_certificate {
        int64_t end_s;    /* When it ends, in unix time; 0: not known. */
        struct stat file; /* The file when it was read. */
    } own_certificates[LIMIT_GROUPS];
    uint32_t certificate_ticks; /* Ticks since the start. */
    struct tls_files tls_files[LIMIT_GROUPS];
    struct master *masters;
    size_t master_count;
};

/* Makes the loop run the next turn without sleeping. */
void redis_wake(struct redis *redis);

/* Counts one handle or request of a master that libuv has closed. */
void redis_closed(struct redis *redis);

/* Returns the time on CLOCK_BOOTTIME. The core compares the readings of masters' clocks with it,
 * and the guards count by it. */
struct instant redis_now(void);

/* Returns a random number for jitter; not for secrets. */
uint64_t redis_random(struct redis *redis);

/* ---- pipeline.c: the ordered stream of commands of a master ---- */

/* The ordered stream of commands to one master, from connect to end.
 *
 * Invariants
 *   1. Every appended command gets its reply exactly once, in order, at the latest when the
 *      pipeline ends. Only a WAIT and the write before it get it before the commands that it waits
 *      for.
 *   2. The loss of the pipeline is reported before the replies that the loss makes unknown.
 *   3. The pipeline is ended only from the loop's own callbacks, never while a reply is processed.
 *      A reply may condemn it. Then it processes no more replies, and the turn ends it. */

/* Events of a pipeline, for its master. Only pipeline_end() and pipeline_turn() call these
 * functions before they return. */
struct pipeline_calls {
    void (*connected)(struct master *master);
    /* The master broke the protocol. The end follows. */
    void (*broke)(struct master *master, enum redis_fault fault);
    /* The pipeline ends. Nothing can be appended any more. No outstanding command has been reported
     * yet. */
    void (*lost)(struct master *master, const char *why);
    /* The pipeline has ended, and all commands have been reported. The master must drop its
     * pointer. */
    void (*gone)(struct master *master, bool was_connected);
};

/* A command without a reply, and its length in bytes on this connection. */
struct expected {
    struct command *command;
    size_t bytes;
    uint16_t before;  /* Native commands: replies that come before EXEC's. */
    uint32_t vote;    /* The same: the number of the vote with which they were written; 0: one
                      * command. */
    int64_t clock_ms; /* The same: a lower bound of the master's clock. */
};

/* Freed when libuv has closed its line. */
struct pipeline {
    struct line line;
    struct redis *redis;
    struct master *master;
    const struct pipeline_calls *calls;
    bool ended;                /* It has ended, and this was reported. */
    char condemned[160];       /* Why the turn must end it; "" if it need not. */
    struct expected *expected; /* Ring of the commands without a reply; the oldest is at `first`. */
    uint32_t ring, first;      /* `ring`: capacity of `expected`, a power of two. */
    uint32_t unheard;          /* Number of commands in `expected`. */
    uint32_t in_flight;        /* Number of the core's operations among them. */
    uint64_t bytes_heard;      /* Bytes of the commands that have been answered. */
    struct replicas replicas;  /* State of the WAIT of this master (R21). */
    bool is_written;           /* The message before the last WAIT was published (R21). */
    struct command *kept, **kept_end; /* Commands whose replies are kept back, the oldest first. */
    uint32_t silent_ticks;
    /* The vote with which the last native commands were written ("": no guard), and its number: it
     * grows with every change. */
    char vote[GUARD_VOTE_BYTES];
    uint32_t vote_number;
    struct native_results native; /* How to read the reply that is being received. */
    bool hears_native;
};

/* Begins to connect. `calls` is kept by reference. Returns NULL, with `why`, if that failed at
 * once. */
struct pipeline *pipeline_open(struct redis *redis, const struct line_end *end,
                               const struct pipeline_calls *calls, struct master *master, char *why,
                               size_t why_size);

/* Returns the part of a command that is for one master alone, if there is no such part. */
static inline struct text nothing_own(void)
{
    return (struct text){"", 0};
}

/* Appends `bytes`, and `own`, which is for this master alone. Returns true if they will be sent;
 * then the command gets its reply exactly once. */
bool pipeline_append(struct pipeline *pipeline, struct command *command, struct text bytes,
                     struct text own);

/* Appends a call of native commands (R24). `vote`: the vote that the agent knows now; "": the group
 * has no guard. `clock_ms`: a lower bound of the master's clock. The command gets EXEC's reply. */
bool pipeline_append_native(struct pipeline *pipeline, struct command *command,
                            const struct native *native, const char *vote, int64_t clock_ms);

/* Returns how to read the reply that is being received; NULL: it is not EXEC's. */
const struct native_results *pipeline_native(const struct pipeline *pipeline);

/* Passes on the replies that were kept back for the replicas. `enough`: as many replicas as
 * required have the commands. Called when the WAIT is answered. */
void pipeline_hear_kept(struct pipeline *pipeline, bool enough);

/* Makes the turn end the pipeline. May be called from anywhere. */
void pipeline_condemn(struct pipeline *pipeline, const char *why);

/* Ends the pipeline. Never called while a reply is processed. Idempotent. */
void pipeline_end(struct pipeline *pipeline, const char *why);

/* Ends the pipeline if it is condemned. Otherwise writes the gathered bytes. */
void pipeline_turn(struct pipeline *pipeline);

/* ---- master.c: one master ---- */

/* One master: its whole state, the reports on it to the core and to people, its timer.
 *
 * Invariants
 *   1. Operations of the core are sent only to a master that the core believes up (told_up). The
 *      pipeline of such a master is READY.
 *   2. The core learns that a master is down before it gets the replies that the end of the
 *      pipeline makes unknown.
 *
 * Phases
 *
 *   WAITING --timer--> RESOLVING --> CONNECTING --> GREETING --last step--> READY
 *      ^                   |             |           |    ^                   |
 *      |                   |             |           |    +--timer-- PAUSED <-+  it cannot serve
 *      |                   |             |           +--------------> PAUSED     now: BUSY, ...
 *      +-------------------+-------------+-----------+  any end of the pipeline, from every phase
 *
 * Timers: master.timer (WAITING: back-off; CONNECTING: time limit; PAUSED: back-off; READY: the end
 * of a WAIT), redis.tick (silence, probes). */

enum {
    BACKOFF_MS_MIN = 20,  /* First delay before a reconnect; doubled with every failure. */
    BACKOFF_MS_MAX = 500, /* Largest such delay (D5.2). */
    GREETING_US = 400,    /* Time of a master for a greeting: many of them are spread by it. */
    SPREAD_MS_MAX = 5000, /* Largest time over which they are spread. */
    ADDRESSES_MAX = 8,    /* Addresses kept of one name. */
};

enum phase {
    PHASE_WAITING,
    PHASE_RESOLVING,
    PHASE_CONNECTING,
    PHASE_GREETING,
    PHASE_PAUSED,
    PHASE_READY
};

/* Result of a greeting. */
enum greeted {
    GREETED_WELL,
    GREETED_LATER, /* The master cannot serve now. It is greeted again on the same pipeline. */
    GREETED_ILL,   /* The pipeline must end. */
};

struct master {
    struct redis *redis;
    uint8_t group, index;
    const struct config_group *group_config;
    const struct config_master *config;

    enum phase phase;
    struct redis_master_view view; /* State, reason, and the results of the greeting. */
    struct instant failed_at;      /* When view.last_error came. */
    struct pipeline *pipeline;     /* NULL in WAITING and RESOLVING. */
    uv_timer_t timer;
    uv_timer_cb on_timer; /* Set by phases.c. */
    uint32_t silence_ms;  /* The pipeline ends after this time without a reply (R3). */
    uint32_t failures;    /* Failures since the last good reply; they set the back-off. */
    uint32_t noticed; /* A bit for each outcome and fault, and for lack of memory, that was reported
                       * since it came up. */
    uint32_t refused; /* A bit for each optional command that it refused last, and that was
                       * reported. */
    uint32_t probe_ticks;
    struct clock_reading reading; /* The last reading of its clock. */
    struct instant native_from; /* Until then it is asked by script: it did not run native commands
                                 * (R24), on this connection or an earlier one. */
    enum compare_delete compares; /* How locks are released there without a script (R24). */

    uv_getaddrinfo_t resolve;
    char addresses[ADDRESSES_MAX][64];
    unsigned address_count, address_next;
    uint64_t attempts;

    uint32_t greeting; /* Number of the present greeting. */
    unsigned step, answers_left;
    /* Set by phases.c. Receives the result of the present greeting; `why` is NULL if it ended
     * well. */
    void (*on_greeted)(struct master *master, enum greeted greeted, const char *why);
    bool was_ready;       /* This pipeline has been READY before. */
    script_set missing;   /* Scripts that the server does not have, by the present greeting. */
    bool reloading;       /* SCRIPT LOAD was sent after a NOSCRIPT and is not answered yet. */
    char last_run_id[48]; /* Run id of the server when it was last up. */
    uint16_t epoch;
    bool told_up; /* The core believes it up. */
    struct {
        char role[16], policy[32]; /* "": not known. */
        char maxmemory[24];        /* In bytes; "": not known. */
        bool cluster;              /* It is a node of a Redis Cluster. */
        bool clock_known;
        int replicas;     /* Number of replicas that are connected and keep up; -1: not known. */
        uint32_t clients; /* Number of its clients, as it reported last; 0: not known. */
        char fault[100];  /* "": none. */
        bool grave;       /* The fault is one that `on_degraded` is for. */
        bool evicts;      /* It may evict keys before their lease is over. */
    } health;
    const char *connected_to; /* The address of the pipeline: one of `addresses`. */
    struct {
        struct subscription *line;              /* NULL: closed. */
        uint32_t idle_ticks;                    /* Ticks without a watched key. */
        uint32_t retry_ticks, retry_ticks_last; /* Ticks until the next try; ticks that the last
                                                 * pause had. */
    } subscriber;
    int64_t client_id;          /* Client id of this pipeline's connection; 0: not known. */
    int64_t doubtful_client_id; /* Client id of a connection that ended with commands in flight
                                 * (R5); 0: none. */
};

/* ---- certificates.c: the ends of our certificates ---- */

/* Reads the certificates again whose files have changed. Called every TICK_MS. */
void certificates_tick(struct redis *redis);

/* Returns true if a master of the group is reached over TLS. */
bool group_has_tls(const struct config_group *group);

/* ---- master.c: reports to the core and to people ---- */

/* Sends the core an event about this master: MASTER_UP, MASTER_DOWN or MASTER_CLOCK. */
void master_tell_core(struct master *master, enum event_kind kind);

/* Begins a new epoch of the core for this master, which may have forgotten keys (R7). */
void master_new_epoch(struct master *master);

/* Returns the state of a READY master at this time, and writes the reason, "" if it is up. It also
 * changes without an event, when an answer no longer counts (R23). */
enum redis_state master_state_now(const struct master *master, char *reason, size_t size);

/* Reports the state of a READY master to people if it changed, and to the core if it matters
 * there. */
void master_show(struct master *master);

/* Reports that the master is down, with `why`. */
void master_show_down(struct master *master, const char *why);

/* Reports a remark to people about a master whose state does not change: once per kind and
 * pipeline. */
void master_notice(struct master *master, enum redis_outcome outcome, const char *text);

/* Reports to people that the master refuses a command which it can serve without: once, until
 * master_accepts(). `error` is the server's text. */
void master_refuses(struct master *master, enum redis_optional command, const char *error);

/* Notes that the master runs this command. */
void master_accepts(struct master *master, enum redis_optional command);

/* Returns the address to connect to: the last one to which the master's name was resolved. */
struct line_end master_end(const struct master *master);

/* Keeps the end of the certificate that the master showed on a connection that was just made. */
void master_tls_began(struct master *master, const struct line *line);

/* Counts the end of one of its connections if TLS failed. */
void master_tls_ended(struct master *master, const struct line *line);

/* Counts that the master broke the protocol. The next connection then waits for the longest
 * back-off. */
void master_broke(struct master *master, enum redis_fault fault);

/* Like master_broke(), on a connection other than the pipeline. Reported to people once per
 * kind. */
void master_broke_aside(struct master *master, enum redis_fault fault, const char *why);

/* Like master_broke(), for a reply in the pipeline that does not fit the question. The turn ends
 * the pipeline. */
void master_makes_no_sense(struct master *master, const char *asked);

/* Reports to people, once per pipeline, that this agent had no memory for `what`. It is not one of
 * the commands, and is left out or tried again. */
void master_lacks_memory(struct master *master, const char *what);

/* ---- master.c: the state of its guard, in any group ---- */

/* Returns the state of its guard: GUARD_VOTES if the group has no guard or the master is not
 * READY. */
enum guard_state master_guard_state(const struct master *master);

/* Returns true if it gets no new locks because it may evict keys (D5.4). */
bool master_is_unfit(const struct master *master);

/* Returns the time in ms until it has a vote; 0: it has one, the group has no guard or it is not
 * READY; -1: not known. */
int64_t master_guarded_ms(const struct master *master);

/* ---- master.c: the timer ---- */

/* Starts the timer, unless the room stops. */
void master_start_timer(struct master *master, uint64_t ms);

/* Returns over how many ms the tries of all clients of a master are spread, so that it can greet
 * them one after the other. */
uint32_t master_spread_ms(uint32_t clients);

/* Returns for how many ms more than usual the master may be silent in a greeting, because it greets
 * others as well. */
uint32_t master_greets_others_ms(const struct master *master);

/* Starts the timer for the next try. The delay grows with every failure, and with the number of the
 * master's clients (D5.2). */
void master_start_backoff(struct master *master);

/* Counts a good reply: the next failure has the shortest back-off again. */
void master_answered_well(struct master *master);

/* ---- pipeline.c: commands of the room's own ---- */

/* Sends a command of resp_end(). `heard` receives the reply. */
void ask_bytes(struct master *master, heard_fn *heard, struct text bytes);

/* Sends a command of `count` words. `heard` receives the reply. */
void ask_words(struct master *master, heard_fn *heard, unsigned count, const char *const *words);
#define ASK(master, heard, ...)                                                                    \
    ask_words(master, heard, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *),    \
              (const char *const[]){__VA_ARGS__})

/* Sends SCRIPT LOAD for each of these scripts. Returns the number of commands. */
int ask_scripts(struct master *master, heard_fn *heard, script_set scripts);

/* Returns true if the reply is a possible one to SCRIPT LOAD. */
bool ask_has_loaded(const redisReply *reply);

/* ---- marker.c: the guard (D5.3) ---- */

/* Carries out the decisions of agent/core/guard.c: scripts on the masters, epochs of the core, and
 * states. These functions are for groups that have a guard, unless the comment says `any group`. */

/* Starts the guard of a group; any group. redis->marker_heard receives READY masters' replies to
 * it. `silence_ms`: phases_silence_ms(). */
void marker_start(struct redis *redis, uint8_t group, uint32_t silence_ms);

/* Passes the time to the guard; any group. Returns the masters that were asked for the marker. */
master_set marker_tick(struct redis *redis, uint8_t group);

/* Returns true if the clocks and the health of the group's masters are looked at seldom: it is idle
 * for this agent, and the drift is small (D5.3). */
bool marker_idles(const struct redis *redis, uint8_t group);

/* Asks for the marker, as a step of the greeting. `heard` receives the reply. */
void marker_greet(struct master *master, heard_fn *heard);

/* Passes the reply with the marker to the guard. Returns false, and passes nothing, if the reply is
 * not a possible one. */
bool marker_take(struct master *master, const redisReply *reply);

/* Reports to the guard that the greeting's question was refused, because the master cannot write
 * the marker now. */
void marker_refused(struct master *master);

/* Reports to the guard that a reply came without a marker. */
void marker_unanswered(struct master *master);

/* Reports to the guard that the greeting has ended. The caller shows the state. */
void marker_ready(struct master *master);

/* Reports to the guard that the master cannot be asked any more; any group. */
void marker_away(struct master *master);

/* Reports the epoch that an operation of the core met ("": no marker); any group. */
void marker_heard_epoch(struct master *master, const char *epoch);

/* Reports that an operation of the core had no vote, and none for `left_ms` more (-1: there is no
 * marker). */
void marker_heard_guarded(struct master *master, bool is_release, int64_t left_ms);

/* Returns the group whose layout decides on this one (R23): itself, or one that shares a prefix
 * with it and is closed. Keys may have moved between the two. Any group. */
uint8_t marker_decides(const struct redis *redis, uint8_t group, struct instant now);

/* Returns whether the group may take new locks (R23): not while another layout refuses it, or a
 * group that shares a prefix with it. Any group. */
enum guard_gate marker_gate(const struct redis *redis, uint8_t group);

/* ---- health.c: faults that make a master degraded (D5.4) ---- */

/* Forgets the INFO of an earlier greeting. */
void health_forget(struct master *master);

/* Reads the text of any section of INFO. */
void health_take_info(struct master *master, const char *info);

/* Reads a reply to TIME and passes the reading to the core. Returns false if it is not a possible
 * reply. */
bool health_take_time(struct master *master, const struct command *command,
                      const redisReply *reply);

/* Checks every READY master of a group and this agent's own clock, and shows the result. */
void health_look(struct redis *redis, uint8_t group);

/* ---- subscriber.c: messages of releases (R9) ---- */

/* The connection of a master for messages. It exists only while the pipeline is READY. It is opened
 * when the first key of the group is watched, and closed after a while without one. Its replies
 * have no fixed order, so they are counted. A message may come at any time while a channel is
 * watched. Any other reply may come only as often as it was asked for.
 *
 *   CLOSED --a key is watched--> OPENING --connected--> AUTH, SUBSCRIBE of all that is watched
 *      ^                            |                          |
 *      +---- back-off --------------+--------------------------+  any end, also the pipeline's */

/* Opens the connection if it is needed and possible. */
void subscriber_wanted(struct master *master);

/* Closes the connection. The core learns that no channel is subscribed to. Idempotent. */
void subscriber_close(struct master *master);

/* Ends the connection if it has failed. Otherwise writes the gathered bytes. */
void subscriber_turn(struct master *master);

/* Returns the time without a reply after which a pipeline ends (R3). */
uint32_t phases_silence_ms(const struct config_group *group);

/* Checks the silence of the connection, or counts down to its next try. Called every TICK_MS. */
void subscriber_tick(struct master *master);

/* ---- upkeep.c: service to the core ---- */

/* Begins the service after a good greeting. The master is READY. */
void service_up(struct master *master);

/* Ends the service, because of `why`. */
void service_down(struct master *master, const char *why);

/* Pauses the service. The master is greeted again later on the same pipeline. */
void service_pause(struct master *master, const char *why);

/* Acts on an error reply of a READY master. `text` is the server's. */
void service_refused(struct master *master, enum redis_outcome outcome, const char *text);

/* ---- upkeep.c: the replicas of a master (R21) ---- */

/* Sends a write and a WAIT at the end of the turn if commands of the turn need one. The master has
 * a pipeline. */
void replication_turn(struct master *master);

/* Ends a WAIT that lasts for too long. Called by the timer of a READY master. */
void replication_time(struct master *master);

/* ---- upkeep.c: scripts, marker and probes ---- */

/* Loads the scripts again after a NOSCRIPT. Commands that are sent afterwards find them. */
void upkeep_reload_scripts(struct master *master);

/* Receives the reply of a READY master to a question of the guard (redis->marker_heard). */
void upkeep_heard_marker(struct master *master, const struct command *command,
                         const redisReply *reply, bool sent);

/* Asks for the number of replicas (R21). */
void upkeep_count_replicas(struct master *master);

void upkeep_probe(struct master *master);

/* Read the clock of a READY master, or of all READY masters of a group (R14). */
void upkeep_read_clock(struct master *master);
void upkeep_read_clocks(struct redis *redis, uint8_t group);

/* Reads the clock of a READY master and probes it, now in place of later. */
void upkeep_look(struct master *master);

/* ---- handshake.c: the questions to a master before it counts as up (D5.2) ---- */

/* Begins to greet a master on its pipeline, in phase GREETING. master->on_greeted gets the result
 * once, unless the pipeline ends before. */
void handshake_begin(struct master *master);

/* ---- operations.c: the core's operations ---- */

/* Receives the reply to an operation (a heard_fn), reads it, and reports its items. */
void operations_heard(struct master *master, const struct command *command, const redisReply *reply,
                      bool sent);

/* Reports the commands that were unsent when it began. Commands that the core sends in answer wait
 * for the next call. */
void operations_report_unsent(struct redis *redis);

/* ---- phases.c: a master's way through its phases ---- */

/* Starts a master whose configuration has been set. */
void phases_start(struct master *master);

/* Ends the connection to a server that has become a replica: its address may lead to another server
 * by now (R21). Returns true if it does. */
bool phases_leave_replica(struct master *master);

/* Checks the silence of a master and probes it. Called every TICK_MS. */
void phases_tick(struct master *master);

/* Ends everything open of a master, at once or when libuv has closed it. Idempotent. */
void phases_stop(struct master *master);

#endif
