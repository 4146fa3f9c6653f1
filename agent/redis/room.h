/* What the files of the Redis room share: commands, connections, masters, and who calls whom.
 *
 *   redis.c       the public face; the turn of the loop: what was not sent is reported, then what is dirty is written
 *   master.c      one master's way through its phases, its back-off, its silence (R3) and its probes
 *   connection.c  hiredis on libuv: one socket, one ordered stream of commands
 *   subscriber.c  where releases of watched keys are heard of (R9)
 *   guard.c       the marker of a master: its epoch, and until when it has no vote (D5.3)
 *   sanity.c      what makes a master degraded (D5.4)
 *   trust.c       markers written by hand, without a loop
 *   greeting.c    what is asked of a master before it counts as up, as a table of steps
 *   wire.c        effects -> bytes          replies.c  replies -> votes
 *
 * Invariants
 *   1. Every command appended to a connection is heard exactly once, in order, at the latest when the connection ends.
 *   2. Only a master that the core believes up (told_up) is sent commands of the core; its connection is then READY.
 *   3. The core hears that a master is down before the replies that its end makes unknown are reported.
 *   4. A connection is ended from the loop's own callbacks only, never from inside hiredis: there it is condemned, and
 * the turn ends it.
 *
 * Phases of a master
 *
 *   WAITING --timer--> RESOLVING --> CONNECTING --> GREETING --last step--> READY
 *      ^                   |             |           |    ^                   |
 *      |                   |             |           |    +--timer-- PAUSED <-+ the master can not serve now: LOADING,
 * BUSY, ... |                   |             |           +--------------> PAUSED
 *      +-------------------+-------------+-----------+  any end of the connection, from every phase
 *
 * Timers: master.timer (WAITING: back-off; CONNECTING: time limit; PAUSED: back-off), redis.tick (silence, probes). */
#ifndef LOCKAGENT_REDIS_ROOM_H
#define LOCKAGENT_REDIS_ROOM_H

#include <hiredis/async.h>

#include "agent/core/core_assert.h"
#include "agent/redis/redis.h"

#define REDIS_ASSERT(expression) CORE_ASSERT(expression)

enum {
    TICK_MS = 250,              /* how often silence is looked for */
    SILENCE_MS_MIN = 1000,      /* R3: max(this, 4 x node_timeout) without a reply ends a connection */
    PROBE_TICKS = 12,           /* a connection is probed every 3 s, */
    GUARD_TICKS = 4,            /* and its marker every second */
    BACKOFF_MS_MIN = 20,        /* first delay before a reconnect, doubled with every failure */
    BACKOFF_MS_MAX = 500,       /* D5.2 */
    ADDRESSES_MAX = 8,          /* of one name */
    OUTPUT_BYTES_MAX = 8 << 20, /* unwritten bytes of one connection: beyond it commands are not taken */
    CHANNEL_BUCKETS = 4096,     /* of the hash of watched keys */
    POOL_MAX = 1024,            /* unused commands kept, of each size */
    FENCE_DIGITS_MAX = 20,
};

enum script_id {
    SCRIPT_ACQUIRE,
    SCRIPT_RAISE,
    SCRIPT_EXTEND,
    SCRIPT_RELEASE,
    SCRIPT_READ,
    SCRIPT_MARKER,
    SCRIPT_ACQUIRE_FAIR, /* with order fair (R9) */
    SCRIPT_RELEASE_FAIR,
    SCRIPT_WITHDRAW_FAIR,
    SCRIPT_COUNT
};
struct script {
    const char *name, *sha, *text;
};
extern const struct script redis_scripts[SCRIPT_COUNT];

#define MARKER_KEY "lockagent:marker"

struct master;
struct command;

/* Takes the reply to a command; NULL when the connection ended first. `sent` tells whether it may have reached the
 * master. */
typedef void heard_fn(struct master *master, const struct command *command, const redisReply *reply, bool sent);

/* One command, the same bytes for every master that it was sent to. Comes from a pool and goes back when the last of
 * them has been heard of. */
struct command {
    struct command *next; /* in the pool, or in the queue of what was not sent */
    heard_fn *heard;
    uint64_t sent_at_ns;
    size_t bytes;
    uint16_t references; /* connections, and the queue of what was not sent, that hold it */
    master_set unsent;   /* masters that it could not be sent to and that are to be reported */
    enum op op;
    uint8_t group;
    uint32_t greeting;    /* of the greeting that asked: late answers of an earlier one are not its */
    uint16_t room, count; /* of refs */
    struct lock_ref refs[];
};

/* One socket. Lives until libuv has closed its poll handle; `ac` is NULL as soon as hiredis lets go of it. */
struct connection {
    uv_poll_t poll;
    redisAsyncContext *ac;
    struct master *master;
    int polled; /* UV_READABLE | UV_WRITABLE, as far as they are watched */
    bool connected;
    bool dirty;          /* has unwritten bytes that the turn must write */
    bool writing;        /* inside a write: "add write" then means that the socket is full */
    bool lost;           /* its end has been reported */
    char condemned[160]; /* why the turn must end it; "" if it need not */
    uint64_t bytes_appended, bytes_heard;
    uint32_t unheard;   /* commands without reply, also our own */
    uint32_t in_flight; /* of the core's among them */
    uint32_t silent_ticks;
};

enum phase { PHASE_WAITING, PHASE_RESOLVING, PHASE_CONNECTING, PHASE_GREETING, PHASE_PAUSED, PHASE_READY };

struct master {
    struct redis *redis;
    uint8_t group, index;
    const struct config_group *group_config;
    const struct config_master *config;

    enum phase phase;
    struct redis_master_view view; /* state, reason and what the greeting found out */
    struct connection *connection; /* NULL in WAITING and RESOLVING */
    uv_timer_t timer;
    uint32_t silence_ms;
    uint32_t failures; /* since the last good reply: drives the back-off */
    uint32_t noticed;  /* outcomes that have been told of since it came up, bit per outcome */
    uint32_t probe_ticks;

    uv_getaddrinfo_t resolve;
    char addresses[ADDRESSES_MAX][64];
    unsigned address_count, address_next;
    uint64_t attempts;

    uint32_t greeting; /* number of the present greeting */
    unsigned step, answers_left;
    bool was_ready;       /* this connection has been READY before */
    bool reloading;       /* SCRIPT LOAD is on its way after a NOSCRIPT */
    char last_run_id[48]; /* when it was last up */
    uint16_t epoch;
    bool told_up; /* the core believes it up */
    struct {
        char epoch[48]; /* of the marker; "": missing, or it could not be asked for */
        bool changed;   /* and the core has not been told */
        bool missing;
        bool unsure;                         /* it refused to write the marker: it is not asked for new locks */
        unsigned asked;                      /* questions without an answer */
        uint64_t until_ms, missing_since_ms; /* on uv_hrtime(); until: 0 none, UINT64_MAX not known */
        uint64_t missing_seen_at_ms;         /* the master's own TIME then */
    } guard;
    struct {
        char role[16], policy[32]; /* "": not known */
        bool clock_known;
        char fault[100]; /* "": none */
        bool grave;      /* on_degraded applies */
    } sanity;
    const char *connected_to; /* the address of the connection: one of `addresses` */
    struct {
        struct line *line;                      /* NULL: closed */
        uint32_t idle_ticks;                    /* without a watched key */
        uint32_t retry_ticks, retry_ticks_last; /* until the next try, and how many those were */
    } subscriber;
    int64_t client_id;          /* of this connection; 0: unknown */
    int64_t doubtful_client_id; /* of an earlier one that ended with commands in flight (R5); 0: none */
};

/* Where one command is built. */
struct wire {
    char *bytes;
    size_t len, size;
};

struct redis {
    uv_loop_t *loop;
    const struct config *config;
    struct redis_sink sink;
    uv_prepare_t prepare;
    uv_idle_t idle; /* active while there is work for the next turn: keeps the loop from sleeping */
    uv_timer_t tick;
    bool work;
    struct command *unsent, **unsent_end;
    struct command *pool_single, *pool_batch;
    uint32_t pooled_single, pooled_batch;
    struct wire wire;
    uint64_t random;
    uint32_t open; /* handles and requests that libuv still holds */
    bool stopping, closing;
    void (*done)(void *arg);
    void *done_arg;
    struct master *by_group[LIMIT_GROUPS];
    struct channel *channels[CHANNEL_BUCKETS]; /* watched keys */
    uint32_t watched[LIMIT_GROUPS];            /* how many of them */
    uint32_t channel_walks;
    bool had_marker[LIMIT_GROUPS];      /* this agent has seen one there: the group is not new */
    int64_t clock_off_us[LIMIT_GROUPS]; /* most masters agree that this agent is off by that; 0: they do not */
    struct master *masters;
    size_t master_count;
};

/* redis.c */
struct command *command_new(struct redis *redis, heard_fn *heard, uint16_t refs);
void command_release(struct redis *redis, struct command *command);
void redis_wake(struct redis *redis);   /* there is work for the next turn */
void redis_closed(struct redis *redis); /* libuv has let go of one handle or request */
uint64_t redis_random(struct redis *redis);
void op_heard(struct master *master, const struct command *command, const redisReply *reply, bool sent);

/* connection.c */
bool connection_open(struct master *master, const char *address, char *why, size_t why_size);
bool connection_append(struct connection *connection, struct command *command, const char *bytes, size_t len);
void connection_condemn(struct connection *connection, const char *why); /* from anywhere; the turn ends it */
void connection_end(struct connection *connection, const char *why);     /* never from inside hiredis */
void connection_flush(struct connection *connection);

/* master.c */
void master_start(struct master *master);
void master_tick(struct master *master);
void master_connected(struct master *master);                        /* by connection.c */
void master_lost(struct master *master, const char *why);            /* the same: before unknown replies are heard */
void master_disconnected(struct master *master, bool was_connected); /* the same: the connection is gone */
void master_up(struct master *master);
void master_down(struct master *master, const char *why);
void master_recheck(struct master *master, const char *why); /* greet again later, on the same connection */
void master_answered_well(struct master *master);
void master_refused(struct master *master, enum redis_outcome outcome,
                    const char *text); /* an error reply while READY */
void master_notice(struct master *master, enum redis_outcome outcome, const char *text);
void master_stop(struct master *master);

void master_new_epoch(struct master *master); /* while READY */
void master_show(struct master *master); /* its state may have changed: tells people, and the core where it matters */

/* guard.c */
struct marker_question {
    const char *run_id, *how;
    uint32_t max_ttl_ms;
    uint64_t seen_at_ms; /* `new` alone: TIME when it was seen missing */
    bool whole;          /* the script itself, for a server that may not know it */
};
void guard_ask(struct wire *wire, const struct marker_question *question);
void guard_greet(struct master *master, heard_fn *heard);
bool guard_take(struct master *master, const redisReply *reply); /* false: it makes no sense */
void guard_refused(struct master *master);
void guard_settle(struct master *master);
void guard_missing(struct redis *redis, uint8_t group, bool patient);
void guard_probe(struct master *master);
void guard_heard_epoch(struct master *master, const char *epoch);
void guard_heard_guarded(struct master *master, int64_t left_ms);
int64_t guard_left_ms(const struct master *master); /* 0: votes; -1: not known for how long it will not */

/* subscriber.c */
void subscriber_wanted(struct master *master); /* opens the connection if it is needed and may be had */
void subscriber_close(struct master *master);
void subscriber_tick(struct master *master);
void subscriber_free_channels(struct redis *redis);

/* sanity.c */
void sanity_take_info(struct master *master, const char *info);
void sanity_look(struct redis *redis, uint8_t group);
void copy_info_field(const char *info, const char *name, char *into, size_t size);

/* greeting.c */
/* Builds the AUTH of a connection to this master in the room's wire: 1, 0 when none is needed, -1 and `why` when it can not be
 * had. Whoever sends it wipes the wire. */
int greeting_auth(struct master *master, char *why, size_t why_size);
void greeting_begin(struct master *master);
void greeting_reload_scripts(struct master *master);
void greeting_probe(struct master *master);
/* Sends one command of the room's own on the master's connection. */
void master_ask(struct master *master, heard_fn *heard);

/* wire.c */
void wire_begin(struct wire *wire, unsigned args);
void wire_bytes(struct wire *wire, const char *bytes, size_t len);
void wire_text(struct wire *wire, const char *text);
void wire_number(struct wire *wire, uint64_t number);
void wire_op(struct wire *wire, const struct config *config, uint8_t group, enum op op, const struct send_item *items,
             unsigned count);

/* replies.c */
struct item_reply {
    enum redis_outcome outcome;
    enum vote vote;
    uint32_t agents;
    uint64_t fence, ticket;
    int64_t pttl_ms;
    struct text holder;
};
enum redis_outcome outcome_of_error(const char *text);
enum vote vote_of_outcome(enum redis_outcome outcome);
bool op_is_batched(enum op op);
/* One sentence on an outcome, for people; `text` (the server's, may be NULL) is told only where no secret can be in it.
 */
void outcome_describe(enum redis_outcome outcome, const char *text, char *into, size_t size);
void item_reply_read(enum op op, const redisReply *entry, struct item_reply *ret_reply);

#endif
