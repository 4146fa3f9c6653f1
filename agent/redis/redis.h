/* The Redis room: one ordered connection per master, scripts, votes from replies, health. The only
 * room that knows hiredis and OpenSSL. */
#ifndef LOCKAGENT_REDIS_H
#define LOCKAGENT_REDIS_H

#include <uv.h>

#include "agent/core/core.h"
#include "agent/core/guard.h"
#include "agent/redis/outcomes.h"
#include "config/config.h"

struct redis_group_view;

/* Receives the room's reports. Only `event` leads to core_step(). redis_send() calls none of them
 * before it returns. */
struct redis_sink {
    void *arg;
    /* Passes an event for the core: REPLIES, MASTER_*, SUBSCRIBED, UNSUBSCRIBED or MESSAGE. The
     * sink stamps the time. */
    void (*event)(void *arg, struct event *event);
    /* Reports one command that completed on a master. `op` is an enum op. `latency_us` is -1 if it
     * was not sent. */
    void (*observe)(void *arg, uint8_t group, uint8_t master, enum op op,
                    enum redis_outcome outcome, int64_t latency_us);
    /* Reports that a master changed its state. `text` says why, for people, and never contains a
     * secret. REDIS_UP with a text: the master stays up but refuses something, reported once per
     * kind of refusal. REDIS_UP with view.guessed: the master votes by a guess, reported once. */
    void (*state)(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                  const char *text);
    /* Reports that most masters of the group agree that this agent's clock is wrong. `offset_us` is
     * their time minus ours; 0: it is right again. */
    void (*clock)(void *arg, uint8_t group, int64_t offset_us);
    /* Called before a turn writes the commands that were sent since the last turn. Commands that
     * are sent during the call are written with them. NULL: not needed. */
    void (*about_to_write)(void *arg);
    /* Reports that the group takes no new locks, because agents at work have another layout (R23).
     * `text` says which; "": it takes them again. NULL:
     * not needed. */
    void (*layout)(void *arg, uint8_t group, const char *text);
    /* Reports that fewer masters of the group are up than its quorum, after a quorum was up; then
     * that a quorum is up again. NULL: not needed. */
    void (*quorum)(void *arg, uint8_t group, const struct redis_group_view *view);
    /* Reports that a master refuses a command which it can serve without: once, until it accepts
     * the command again. `text` says why, for people. NULL: not needed. */
    void (*refused)(void *arg, uint8_t group, uint8_t master, enum redis_optional command,
                    const char *text);
};

/* One master, for people and metrics. */
struct redis_master_view {
    enum redis_state state;
    bool serves;        /* It takes commands: it is up, guarded, or degraded without `on_degraded:
                         * down`. */
    bool votes;         /* It serves, and has a vote on new locks. */
    bool unfit;         /* It has no vote because it may evict keys (D5.4). */
    bool has_voted;     /* It has had a vote since the start. */
    bool disagrees;     /* It knows agents at work with another layout (R23). */
    bool degraded;      /* Also set while it is guarded. */
    bool guessed;       /* It votes by a guess: its numbers rise only as the clocks do (A6). */
    int64_t guarded_ms; /* Time until it has a vote; 0: not guarded; -1: not known. */
    char reason[160];   /* Why it is not up; "" if it is up. */
    char version[24];   /* Version of the server; "": not known. */
    char run_id[48];
    char last_error[160];                 /* Why it went down last, or its last refusal; "":
                                           * never. */
    int64_t last_error_ago_ms;            /* Time since `last_error`. */
    int64_t round_trip_us;                /* Round trip of the last probe; -1: not known. */
    int64_t clock_offset_us;              /* Its wall clock minus ours. */
    uint64_t reconnects;                  /* Connection attempts after the first. */
    uint32_t in_flight;                   /* Commands without a reply. */
    uint64_t unreplicated;                /* Votes that too few replicas had (R21). */
    uint64_t faults[REDIS_FAULT_COUNT];   /* Connections that ended because it broke the
                                           * protocol. */
    uint64_t tls_faults[TLS_FAULT_COUNT]; /* Connections that ended because TLS failed. */
    int64_t certificate_end_s;            /* When the first certificate of its chain ends, in unix
                                           * time, by the last handshake; 0: not known. */
};

/* Returns the name of the master's state for people: `disagrees` (R23) in place of `up`. */
const char *redis_view_state(const struct redis_master_view *view);

/* One group, for people and metrics: numbers of masters. */
struct redis_group_view {
    size_t total;
    size_t up;     /* Masters that serve. */
    size_t voting; /* Masters of `up` that have a vote on new locks. */
    size_t unfit;  /* Masters of `up` that have no vote because they may evict keys. */
    size_t quorum; /* Votes that a lock needs. */
    /* The masters are guarded, and none of them remembers that it ever had a vote. */
    bool is_new;
    int64_t votes_in_ms; /* Time until the guards of a quorum are over; 0: they are over, or the
                          * time is not known. */
    /* R23 */
    enum guard_gate gate;          /* Whether the group's layout lets it take new locks. */
    enum layout_conflict conflict; /* Why not, if another layout refuses it. */
    const char *ours, *theirs;     /* Both layouts, borrowed from the room. */
    const char *told_by;           /* A master that knows the other one. */
    int64_t refused_ms;            /* Time until the other layout is forgotten; 0: it does not
                                    * refuse. */
    size_t disagreeing;            /* Masters that answer a layout which is no neighbour. */
    int64_t own_end_s;             /* When the certificate in cert_file ends, in unix time; 0: not
                                    * known, or there is none. */
    uint64_t layouts;              /* Most layouts that one master has noted; 0: none is known. */
};

enum { REDIS_LACKS_BYTES = 1024 };

struct redis;

/* Loads OpenSSL and sets it up if a master of `config` uses TLS. Returns false, with `why`, if that
 * fails. Then the process must end. Call it before redis_start(). */
MUST_CHECK bool redis_set_up_tls(const struct config *config, char *why, size_t size);

/* Begins to connect to every master of `config`, which is kept by reference and must outlive the
 * room. A master that is down is no failure. Returns NULL only if there is not enough memory. */
struct redis *redis_start(uv_loop_t *loop, const struct config *config,
                          const struct redis_sink *sink);

/* Sends one command to the masters that it names. The bytes are gathered, and written once per
 * master and iteration of the loop. `items` are the effect's own, send->count of them
 * (effects.items + first), and are copied if needed. Every item gets exactly one reply per master.
 * All replies of the command come in one EVENT_REPLIES, never before the call returns. If neither
 * memory nor a spare command is left, there is no reply, and the connections to these masters
 * end. */
void redis_send(struct redis *redis, const struct effect_send *send, const struct send_item *items);

/* Makes the room's turn, which begins with about_to_write(), run before the loop sleeps again. */
void redis_turn_soon(struct redis *redis);

/* Reads the clock of every READY master of the group at once (R14). */
void redis_read_clocks(struct redis *redis, uint8_t group);

/* Begin and end the subscription to a key's channel on every master of its group, which is renewed
 * after every reconnect (R9). If there is no memory for it, the key is not watched; its waiters
 * then only try again by back-off, as if no message arrived. */
void redis_watch(struct redis *redis, const struct effect_watch *watch);
void redis_unwatch(struct redis *redis, const struct effect_watch *watch);

/* Return the present view of a master, or of a group. */
struct redis_master_view redis_master(const struct redis *redis, uint8_t group, uint8_t master);
struct redis_group_view redis_group(const struct redis *redis, uint8_t group);

/* Writes why a new group (is_new) does not grant locks yet, and how long that lasts, for people. */
void redis_say_new(const struct redis_group_view *view, char *into, size_t size);

/* Writes when the guards of a quorum are over, as the end of a sentence for people; "" if that is
 * not known. */
void redis_say_votes_in(const struct redis_group_view *view, char *into, size_t size);

/* Writes both layouts of a group that is refused, for people. */
void redis_say_layouts(const struct redis_group_view *view, char *into, size_t size);

/* Writes for people why a group cannot grant locks; "" if it can. REDIS_LACKS_BYTES are enough. */
void redis_group_lacks(const struct redis *redis, uint8_t group, char *into, size_t size);

/* Returns the offset of this agent's clock from most masters of the group; 0 if they do not agree
 * or it is below a second. */
int64_t redis_clock_off_us(const struct redis *redis, uint8_t group);

/* Returns true if no command waits for its reply or to be written. */
bool redis_is_idle(const struct redis *redis);

/* Closes every connection. Pending commands are first reported as UNKNOWN. `done` is called when
 * the loop has closed all handles of the room; then call redis_free(). */
void redis_stop(struct redis *redis, void (*done)(void *arg), void *arg);
void redis_free(struct redis *redis);

/* Checks the files that the groups with TLS name. Calls `say` with the group, the key (`ca_file`)
 * and the fault. With `fatal` no master of the group can be reached. */
void redis_check_files(const struct config *config,
                       void (*say)(void *arg, const char *group, const char *key, bool fatal,
                                   const char *what),
                       void *arg);

/* Receives a text of a command by hand about a group, or about one of its masters (NULL: the
 * group). */
typedef void trust_say(const char *group, const char *master, const char *text);

/* Gives every master of every guarded group its vote at once, even if it has forgotten keys (D5.3).
 * Tells each the numbers that the others remember. Blocks meanwhile. Returns the number of masters
 * that still do not vote. */
size_t redis_trust(const struct config *config, trust_say *say);

/* Gives their first votes to the masters of every guarded group that no agent has ever used (D5.3).
 * Blocks for about 2 s. Returns the number of groups with masters that still do not vote. */
size_t redis_trust_new(const struct config *config, trust_say *say);

/* Asks every master of the configuration for each property that an agent needs, and says all that
 * is wrong with it, or that it is well. Writes nothing there. Blocks meanwhile. Returns the number
 * of findings. */
size_t redis_survey(const struct config *config, trust_say *say);

/* Shows the holders of a key, on all masters of its group. `name` is the name of a hold that the
 * look has shown: then it is unlocked (R25). NULL: nothing is written. Blocks meanwhile. Returns
 * true if a quorum of masters has answered and, with a name, has unlocked the hold. */
bool redis_unlock(const struct config *config, struct text key, const char *name, trust_say *say);

/* Reads the layouts at work on every master (R23), and says which are neighbours of the
 * configuration's. Blocks meanwhile. `*ret_conflicts`: number of entries that are no neighbours.
 * Returns false if fewer than a quorum of a group's masters could be read. */
bool redis_layouts(const struct config *config, trust_say *say, size_t *ret_conflicts);

#endif
