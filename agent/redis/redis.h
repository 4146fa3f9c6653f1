/* The Redis room: one ordered connection per master, scripts, replies -> votes, health. The only
 * place that knows hiredis and OpenSSL. */
#ifndef LOCKAGENT_REDIS_H
#define LOCKAGENT_REDIS_H

#include <uv.h>

#include "agent/core/core.h"
#include "agent/redis/outcomes.h"
#include "config/config.h"

/* Where the room reports to. Only `event` leads to core_step(); none may be called from within
 * redis_send(). */
struct redis_sink {
    void *arg;
    /* REPLIES, MASTER_*, SUBSCRIBED, UNSUBSCRIBED or MESSAGE; the sink stamps the time. */
    void (*event)(void *arg, struct event *event);
    /* One command completed on a master (op is enum op). latency_us is -1 where it was not sent. */
    void (*observe)(void *arg, uint8_t group, uint8_t master, enum op op,
                    enum redis_outcome outcome, int64_t latency_us);
    /* A master changed state: text says why, for people (never a secret). Called with REDIS_UP
     * and a text for a master that stays up but refuses something: once per kind of refusal. The
     * same for a master that votes by a guess (view.guessed): once. */
    void (*state)(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                  const char *text);
    /* Most masters of the group agree that this agent's clock is off; offset_us is theirs minus
     * ours, 0 when it is well again. */
    void (*clock)(void *arg, uint8_t group, int64_t offset_us);
    /* What has been sent since the last turn is written right after this, and what is sent from
     * within it. NULL: nobody waits for that. */
    void (*about_to_write)(void *arg);
};

/* One master as people and metrics see it. */
struct redis_master_view {
    enum redis_state state;
    bool serves;        /* takes commands: up, guarded, or degraded where that is only warned of */
    bool votes;         /* serves, and has a vote on new locks */
    bool unfit;         /* has none because it may evict keys (D5.4) */
    bool has_voted;     /* at some time since the start */
    bool degraded;      /* also while it is guarded */
    bool guessed;       /* its numbers rise only as the clocks do (A6) */
    int64_t guarded_ms; /* until it has a vote; 0: it is not guarded; -1: not known */
    char reason[160];   /* why it is not up; "" when up */
    char version[24];   /* of the server; "" while unknown */
    char run_id[48];
    char last_error[160];                 /* why it went down last, or refused; "": never */
    int64_t last_error_ago_ms;            /* when that was */
    int64_t round_trip_us;                /* of the last probe; -1: not known */
    int64_t clock_offset_us;              /* its wall clock minus ours */
    uint64_t reconnects;                  /* connection attempts after the first */
    uint32_t in_flight;                   /* commands without reply */
    uint64_t unreplicated;                /* votes that too few replicas had (R21) */
    uint64_t faults[REDIS_FAULT_COUNT];   /* connections that ended because it broke the protocol */
    uint64_t tls_faults[TLS_FAULT_COUNT]; /* connections that ended because TLS failed */
};

/* One group as people and metrics see it: counts of masters. */
struct redis_group_view {
    size_t total;
    size_t up;     /* serve: take commands */
    size_t voting; /* of those: have a vote on new locks */
    size_t unfit;  /* of those: have none because they may evict keys */
    size_t quorum; /* votes that a lock needs */
    /* The masters are guarded, and none of them has ever had a vote, as far as it remembers. */
    bool is_new;
    int64_t votes_in_ms; /* until the guards of a quorum are over; 0: they are, or not known */
};

struct redis;

/* Starts connecting to every master of `config` (kept by reference, must outlive the room).
 * Never fails because a master is down. NULL only when out of memory. */
struct redis *redis_start(uv_loop_t *loop, const struct config *config,
                          const struct redis_sink *sink);

/* Sends one command to the masters that it names; the bytes are gathered and written once per
 * master and loop turn. `items` are the effect's own, send->count of them (effects.items +
 * first), and are copied as far as needed. Every item gets exactly one reply per master, all of the
 * command in one EVENT_REPLIES, later, never from within. Only when memory and the spare commands
 * are used up there is none, and the connections to these masters end. */
void redis_send(struct redis *redis, const struct effect_send *send, const struct send_item *items);

/* The room's turn, with about_to_write() at its begin, comes before the loop sleeps again. */
void redis_turn_soon(struct redis *redis);

/* Reads the clock of every master of the group that is ready, at once (R14). */
void redis_read_clocks(struct redis *redis, uint8_t group);

/* Subscribes to the channel of a key on every master of its group, again after every reconnect
 * (R9), and no more. Without memory for it the key is not watched: then its waiters only ask again
 * by themselves, as where messages do not arrive. */
void redis_watch(struct redis *redis, const struct effect_watch *watch);
void redis_unwatch(struct redis *redis, const struct effect_watch *watch);

/* How a master, or a group of them, looks now. */
struct redis_master_view redis_master(const struct redis *redis, uint8_t group, uint8_t master);
struct redis_group_view redis_group(const struct redis *redis, uint8_t group);

/* Why a new group (is_new) does not grant locks yet, and until when, for people. */
void redis_say_new(const struct redis_group_view *view, char *into, size_t size);

/* What a group lacks to be able to grant locks, for people; "" if it can. */
void redis_group_lacks(const struct redis *redis, uint8_t group, char *into, size_t size);

/* How far most masters of the group agree this agent's clock to be off; 0: they do not, or by
 * less than a second. */
int64_t redis_clock_off_us(const struct redis *redis, uint8_t group);

/* True once nothing that was sent waits for a reply or for being written. */
bool redis_is_idle(const struct redis *redis);

/* Closes every connection; pending commands are reported as UNKNOWN first. `done` is called when
 * the loop holds no handle of the room any more; then redis_free(). */
void redis_stop(struct redis *redis, void (*done)(void *arg), void *arg);
void redis_free(struct redis *redis);

/* Looks at the files that groups with masters over TLS name. Calls `say` with every group and key
 * (`ca_file`) and what is wrong; with `fatal` no master can be reached like that. */
void redis_check_files(const struct config *config,
                       void (*say)(void *arg, const char *group, const char *key, bool fatal,
                                   const char *what),
                       void *arg);

/* What a command by hand says of a group, or of one of its masters (else NULL). */
typedef void trust_say(const char *group, const char *master, const char *text);

/* Gives every master of every guarded group its vote at once, whatever it may have forgotten
 * (D5.3). Tells each what the others remember. Blocks meanwhile. Returns how many masters do not
 * vote in the end. */
size_t redis_trust(const struct config *config, trust_say *say);

/* Gives the masters of every guarded group on which no agent has ever been their first votes
 * (D5.3). Blocks for about 2 s. Returns how many groups have masters that do not vote in the
 * end. */
size_t redis_trust_new(const struct config *config, trust_say *say);

#endif
