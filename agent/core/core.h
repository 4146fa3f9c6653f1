/* The lock core: Redlock, fencing, renewal, release and waiting as one step function, without I/O,
 * clock or allocation.
 *
 *     event (its time in the header) --> core_step() --> effects, in order
 *                                        core_next_deadline() --> the latest time of the next step
 *
 * The surroundings (the event loop, or the simulator) must
 *   - deliver the effects of a step, in order, before the next step;
 *   - answer every item of every send effect with exactly one reply per master named. The replies
 *     of a command come in one event. They come also if the connection ends (VOTE_UNKNOWN) or never
 *     existed (VOTE_NOT_SENT);
 *   - send all commands for one master over one ordered connection (R5);
 *   - keep at least half of the entropy pool filled before each step (core_entropy()).
 * Pointers inside an event are borrowed for the step. Pointers inside effects are valid until the
 * next step. */
#ifndef LOCKAGENT_CORE_H
#define LOCKAGENT_CORE_H

#include "reading.h"
#include "terms.h"
#include "trace.h"
#include "types.h"

struct core;

/* ---- configuration --------------------------------------------------------------------------- */

struct core_group {
    uint8_t masters;          /* Number of masters: 1 to LIMIT_MASTERS. */
    uint32_t node_timeout_ms; /* Time of a master to vote on an acquire (R3). */
    /* Allowed difference of clock rates. Validity is shorter by ttl * drift + 2 ms (R4). */
    uint32_t drift_ppm;
};

struct core_policy {
    /* A glob over the whole key: `*` any run of bytes, `?` one byte. */
    char match[LIMIT_PATTERN_BYTES + 1];
    uint8_t groups[LIMIT_GROUPS]; /* A key belongs to one of them, by rendezvous hashing. */
    uint8_t group_count;
    enum algorithm algorithm;
    /* For a caller that gives neither ttl nor renew; never RENEW_UNSET. */
    enum renew renew;
    uint32_t ttl_ms;           /* The lease of a caller that gives none. */
    uint32_t lock_delay_ms;    /* Masters keep a key for this much longer than its ttl (R15). */
    int64_t max_hold_ms;       /* Limit of every hold, with all renewals. */
    int64_t bound_max_hold_ms; /* The same for holds that are bound to their caller's connection. */
    /* FENCING_REDISSON needs ALGORITHM_SINGLE and FORM_REDISSON. */
    enum fencing fencing;
    /* The same on every agent (A4). */
    enum form form;
    /* FORM_SLOTS: number of slots of a key, each of which one hold can have (R20), 2 to
     * LIMIT_PERMITS. The same on every agent (A4). Other forms: 1. */
    uint32_t permits;
    /* The same owner can enter its hold again at this agent (R11). Not with FORM_SLOTS. */
    bool reentrant;
    /* Back-off of a waiter between attempts, with jitter: doubles from min to max. */
    uint32_t retry_min_ms;
    uint32_t retry_max_ms;
    /* Hand-overs in a row to waiters of this agent while other agents wait for the key. */
    uint32_t handover_max;
};

struct core_config {
    const struct core_group *groups; /* Copied. */
    size_t group_count;
    /* For rendezvous hashing; the same on every agent (A4). Hashed by core_init() and not kept. */
    const char *const *group_names;
    const struct core_policy *policies; /* Copied. The first match counts. The last one must match
                                         * "*". */
    size_t policy_count;
    uint32_t max_ttl_ms;   /* The longest lease that a caller may ask for. */
    int64_t wait_ms_max;   /* The longest wait. */
    uint32_t locks_max;    /* 1 to LIMIT_LOCKS. */
    uint32_t requests_max; /* 1 to LIMIT_REQUESTS. Request numbers are smaller. */
    uint32_t waiters_max;
    /* The limit of a group's acquire rounds in flight (R16): its bounds, 1 to LIMIT_ROUNDS, and
     * its first value, between them. */
    uint32_t rounds_min, rounds_first, rounds_max;
    bool journal; /* The surroundings keep a journal: EFFECT_HOLD reports every hold. */
    /* Name of this agent in the values on masters (D3.3). Random, and valid as long as the holds:
     * with a journal it is the name that the journal has. Its lowest bit is not used. */
    uint32_t agent;
    uint64_t seed; /* Seed of jitter and of the hash tables. */
};

/* ---- events ---------------------------------------------------------------------------------- */

enum event_kind {
    EVENT_TIME,  /* core_next_deadline() has come. A batch of the renewals that are due begins. */
    EVENT_FLUSH, /* The gathered commands are about to be written. Rounds begin, timed from now
                  * (R16). */
    EVENT_ACQUIRE,
    EVENT_RENEW,
    EVENT_RELEASE,
    EVENT_READ,
    /* A hold of the process before this one, from its journal. Before any request. */
    EVENT_RESTORE,
    /* The caller of an unanswered request is gone. No answer may follow. */
    EVENT_CANCEL,
    /* No caller has the granted lock, so it is released. Its answer was not wholly written, or the
     * connection that it is bound to has ended. */
    EVENT_UNDELIVERED,
    /* The answer that granted the lock was wholly written, so its caller may have the token. Only a
     * journal needs this event; it may be omitted without one. */
    EVENT_DELIVERED,
    /* The caller that a hold is bound to does not read. The hold is lost and runs out. */
    EVENT_STUCK,
    EVENT_REPLIES, /* The replies of one master to one command. */
    EVENT_MASTER_UP,
    EVENT_MASTER_DOWN,
    EVENT_MASTER_CLOCK, /* A reading of a master's clock; once a second from each master that is
                         * up. */
    EVENT_FENCE_FLOOR,  /* Masters that have forgotten a key grant numbers above it (R12). */
    EVENT_SUBSCRIBED,   /* A master confirmed the subscription to a watched key (R9). */
    EVENT_UNSUBSCRIBED, /* The connection for messages has ended. Messages of that master may be
                         * missed. */
    EVENT_MESSAGE,      /* A watched key was deleted on a master. */
    EVENT_DRAIN,        /* From now on new locks are refused. Waiting requests are answered. */
    EVENT_END, /* The agent ends. Every hold is lost (`drained`) and runs out, or is released. */
};

/* `request` is a number below core_config.requests_max that the sender chooses. It is unique among
 * the sender's unanswered requests. Each request is answered by exactly one EFFECT_ANSWER, unless
 * it is cancelled first. A request whose deadline ends in the step that cancels it is still
 * answered, because a step handles expired timers first. */

/* The parameters of a caller. With the policy's values for those that are not given, they become
 * the terms of the hold. */
struct event_acquire {
    uint32_t request;
    struct text key;
    uint32_t ttl_ms;     /* 0: the policy's. */
    int64_t wait_ms;     /* 0: one attempt, as soon as its round may begin (R16). */
    int64_t late_ms;     /* The part of the caller's wait that is over already; wait_ms does not
                          * contain it. */
    int64_t max_hold_ms; /* 0: the policy's. A larger one than the policy's is reduced to it;
                          * the API refuses it. */
    enum mode mode;      /* MODE_READ only with FORM_SHARED. */
    enum renew renew;    /* RENEW_UNSET: agent without a ttl, caller with one, if the policy allows
                          * it. */
    /* Held for as long as the caller's connection is open. Never with RENEW_CALLER. */
    bool bound;
    struct text label;
    struct text idempotency; /* A secret; empty: none. Not with an owner, and not if bound. */
    struct text owner;       /* A secret; empty: none. Ignored if the policy is not reentrant. */
};
struct event_renew {
    uint32_t request;
    struct text key;
    struct token token;
    uint32_t ttl_ms;   /* 0: as before; the policy's if the token is not known. */
    enum renew renew;  /* RENEW_UNSET: as before; caller if the token is not known. */
    struct text label; /* The new label (D3.9); empty: as before. */
};
struct event_release {
    uint32_t request;
    struct text key;
    struct token token;
    struct text idempotency; /* The key of the POST, in place of the token; empty: none. */
};
struct event_read {
    uint32_t request;
    struct text key;
    /* The request is not answered. It gets EFFECT_FOLLOWED at once and at every change, until it is
     * cancelled (D3.8). A key has one such request at most. */
    bool follows;
};
/* A hold in the form in which EFFECT_HOLD reports it, a journal keeps it, and EVENT_RESTORE brings
 * it back. Only the key is borrowed. */
struct noted_hold {
    struct text key;
    struct token token;
    bool ended;    /* Released or lost: only its keys on masters are left. */
    bool released; /* Released by its holder; it was valid until then. */
    bool adopted;  /* An earlier agent may have reported a longer validity. */
    /* A caller is known to have its token. Otherwise the process may have ended before it
     * answered. */
    bool delivered;
    struct instant acquired_at, valid_until, max_hold_until;
    struct instant lease_until; /* When all leases that this agent has asked for have run out. */
    /* Never bound, because the caller's connection has ended with the process. A journal need not
     * keep max_hold_ms, because it has the instant. */
    struct terms terms;
    struct metadata metadata;
};
struct event_reply {
    uint8_t group, master;
    enum op op;
    struct lock_ref ref; /* The item's. */
    enum vote vote;
    /* YES, REPAIRED: the number that the master stores now (0: none). MISNUMBERED: the token's. */
    uint64_t fence;
    /* HELD, MOVED, FOREIGN, and YES of READ: of the key there. YES of ADOPT: label and mode of the
     * adopted entry. GUARDED, and YES of HANDOVER: the time without a vote. */
    struct occupant occupant;
    /* YES of ACQUIRE: by native commands (R24). The number is the proposal, and not in `fence`. */
    bool is_native;
    bool is_set;     /* BY_SCRIPT: the native commands have set the key (R24). */
    bool is_unset;   /* BY_SCRIPT: they have found another key, and have not set it. */
    bool is_deleted; /* BY_SCRIPT: they have deleted the key, and an agent waits for it. YES and
                      * HELD of HANDOVER: the script has found the old token, and deleted it. */
    uint64_t ticket; /* HELD: number of this agent's ticket there; 0: none. */
    bool is_own;     /* YES of READ: the key has the token of the hold that was named. */
    bool tickets;    /* SPOILED: the key of the tickets has another type. False: the number is
                      * spoiled. */
    /* YES of HANDOVER: agents subscribed to the key there, with this one. HELD: the same for
     * FORM_REDISSON, whose messages do not contain it. 0: not reported. */
    uint32_t agents;
};
struct event_channel {
    uint8_t group, master;
    struct text key; /* If the key is not watched (any more), the event is ignored. */
    /* MESSAGE: agents subscribed to the key there, with this one; 0: not reported. */
    uint32_t agents;
    /* MESSAGE: the agent with the lowest ticket; 0: no ticket is known there, or the order is
     * any. */
    uint64_t next;
    bool next_reads; /* MESSAGE: the waiter with the lowest ticket reads, so all readers may come
                      * (R18). */
    uint8_t slot;    /* MESSAGE of a semaphore: the slot that was released (R20). */
    bool has_slot;   /* False: no slot is reported. */
};

struct event {
    enum event_kind kind;
    struct instant now; /* CLOCK_BOOTTIME; never goes back. */
    int64_t wall_us;    /* Unix time, used only to propose fencing numbers. */
    union {
        struct event_acquire acquire;
        struct event_renew renew;
        struct event_release release;
        struct event_read read;
        struct noted_hold restore;
        struct {
            uint32_t request;
        } cancel;
        struct {
            struct lock_ref lock;
        } undelivered, delivered, stuck;
        struct {
            const struct event_reply *at; /* Its items, all of the same group, master and op. */
            uint16_t count;
        } replies;
        struct event_master master;   /* UP, DOWN, CLOCK, FENCE_FLOOR. */
        struct event_channel channel; /* SUBSCRIBED, UNSUBSCRIBED, MESSAGE. */
        struct {
            bool release; /* Only if the holders are known to have ended. */
        } end;
    };
};

/* ---- effects --------------------------------------------------------------------------------- */

enum effect_kind {
    EFFECT_SEND,
    EFFECT_ANSWER,
    EFFECT_FOLLOWED, /* The state of a followed key has changed (D3.8). */
    EFFECT_TRACE,
    EFFECT_HOLD, /* For the journal. */
    /* Subscribe to a key on every master of its group, again after every reconnect. */
    EFFECT_WATCH,
    EFFECT_UNWATCH,     /* End that subscription. */
    EFFECT_READ_CLOCKS, /* Read the clock of every master of the group at once. */
};

/* Order fair: this agent's position among the agents that wait for a key (R9). */
struct ticket {
    uint64_t agent; /* The agent that waits. 0 in a RELEASE: no ticket is changed. */
    /* The lowest is served first. 0: the caller does not wait, and is served only if no agent
     * waits. In a RELEASE: the ticket that is written when the key is deleted, of a failed
     * attempt's caller or of the next waiter at this agent; 0: the ticket is removed. */
    uint64_t number;
    uint32_t ttl_ms; /* Time for which the masters keep the ticket of a waiter; 0: they do not keep
                      * it. */
    /* No master has it yet. If it is not above the last one there, it becomes one more than
     * that. */
    bool fresh;
    enum mode mode; /* FORM_SHARED: mode of the waiter. */
};

/* One lock in a command. */
struct send_item {
    struct lock_ref ref;
    struct text key; /* As the caller named it. The Redis room adds prefix and format. */
    /* READ: not used. ADOPT, and RELEASE if `numbered`: the number that the value must have. RAISE,
     * RENEW, REPAIR: the number that the value gets. ACQUIRE, HANDOVER: `fence` is the proposal, 0
     * if the policy does not fence. */
    struct token token;
    struct token previous;   /* HANDOVER: the token that is replaced. */
    uint32_t previous_agent; /* HANDOVER: the agent in the value of `previous`; compared unless
                              * `asked`. */
    /* The agent in the value. ACQUIRE, HANDOVER, REPAIR and ADOPT write it. RAISE, RENEW, REPAIR,
     * and RELEASE unless `asked`, require it. */
    uint32_t agent;
    /* RELEASE, HANDOVER: the holder asked for it, so any agent's name in the value is accepted
     * (D3.3). READ: this agent has a hold of the key. */
    bool asked;
    bool numbered; /* RELEASE of a hold that is not known here: compares the number as well (C4). */
    /* RELEASE that no holder asked for: a DELETE may be answered by it, so masters without a vote
     * do not confirm it (D3.4). */
    bool voted;
    bool untold; /* RELEASE: native commands may have deleted the key and told no waiter (R24). */
    /* ACQUIRE, HANDOVER, RENEW, RESUME, REPAIR, ADOPT: stored beside the random part. Empty:
     * masters keep the label that they have (D3.9). A native RELEASE compares it. */
    struct text label;
    uint32_t ttl_ms; /* The lease on masters, with lock_delay; not used by RELEASE and READ. */
    struct instant deadline; /* ACQUIRE, HANDOVER, REPAIR: no key may be created after it. */
    uint32_t left_ms;        /* The rest of `deadline`, in ms of a slow clock (R5). */
    /* ACQUIRE: native commands of this attempt have set the key there. If it is gone, it is not
     * created again (R24). */
    bool was_set;
    /* REPAIR: no round proves that the lock was not released at another agent. Only a master
     * without a vote creates the key (R7). */
    bool unproved;
    uint16_t policy;
    bool fencing;    /* The policy numbers grants. */
    uint8_t permits; /* Slots of the key; 1: it is a mutex. The token names the slot (R20). */
    enum form form;  /* The form of its policy. */
    /* FORM_SHARED. For ADOPT, and a RELEASE `numbered`, only as far as it is known. */
    enum mode mode;
    /* ACQUIRE, HANDOVER, RELEASE if form_is_fair(). WITHDRAW: the ticket of its agent is
     * removed. */
    struct ticket ticket;
};
/* One command, with the same bytes for every master named. Only ACQUIRE, RENEW, RESUME, REPAIR and
 * RELEASE may have more than one item. The items of one ACQUIRE or RELEASE have the same form.
 * Replies to WITHDRAW may be omitted. */
struct effect_send {
    enum op op;
    uint8_t group;
    master_set masters;
    uint16_t first, count;            /* Range in effects.items. */
    int64_t clocks_ms[LIMIT_MASTERS]; /* Lower bounds of the masters' clocks, for `left_ms`; 0: not
                                       * known. */
    /* ACQUIRE: by native commands on masters whose clock is known; RELEASE: on masters that can
     * compare and delete (R24). */
    bool native;
};

/* The channel of a key. */
struct effect_watch {
    uint8_t group;
    uint16_t policy;
    struct text key;
};

/* The reply of one master about a key. */
struct master_state {
    /* YES: held; ABSENT; FOREIGN; REFUSED; UNKNOWN; NOT_SENT: the master is known to be down. */
    enum vote vote;
    /* YES, FOREIGN. Without the label. A mutex counts as taken in its first slot. The time of a
     * semaphore is the least of its slots. */
    struct occupant occupant;
};
enum key_state { KEY_FREE, KEY_HELD, KEY_UNKNOWN };

/* One hold of this agent at present, with the terms that may be shown: no secrets. */
struct hold_view {
    struct text key;
    struct text label;
    struct token token; /* Never listed, never logged. */
    uint16_t policy;
    uint8_t group;
    enum mode mode;
    enum renew renew;
    bool bound; /* Bound to its caller's connection. */
    uint32_t ttl_ms;
    struct instant acquired_at;
    struct instant valid_until; /* Not after max_hold_until. */
    struct instant max_hold_until;
    uint16_t count;  /* Number of times that its holder has it; more than 1 only if it is
                      * reentrant. */
    uint8_t permits; /* Slots of the key; 1: it is a mutex. The token names the slot. */
    /* STATE, core_next_hold(), core_next_hold_of(): number of masters that are up and have the key
     * for certain. Otherwise 0. */
    uint8_t confirmed;
};

/* One request that waits for a lock at this agent, with the terms that may be shown. */
struct wait_view {
    struct text key;
    struct text label;
    enum mode mode;
    struct instant since; /* When the request came. */
};

struct tally { /* Numbers of votes in the round that decided; all zero if no round was needed. */
    uint8_t granted, taken, failed, total, quorum;
    /* Masters without a vote yet (D5.3). For a grant they count like failed ones, but are not in
     * `failed`. */
    uint8_t guarded;
    uint8_t unreplicated; /* Masters that granted it on too few replicas (R21); not in `failed`
                           * either. */
};

struct effect_answer {
    uint32_t request;
    enum answer answer;
    uint16_t policy;
    uint8_t group;
    struct lock_ref lock; /* GRANTED, REENTERED, REPEATED: for EVENT_UNDELIVERED. */
    /* GRANTED, REENTERED, REPEATED, RENEWED, RENEW_FAILED. STATE: if `local`. */
    struct hold_view hold;
    /* GRANTED, REENTERED and REPEATED (as far as known), RENEWED, RENEW_FAILED, LOCK_HELD,
     * WAIT_TIMEOUT, QUORUM_UNAVAILABLE, VALIDITY_EXPIRED, STATE, RELEASED, RELEASE_PENDING. */
    struct tally tally;
    int64_t waited_us;  /* Time since the request came. */
    master_set guarded; /* QUORUM_UNAVAILABLE: the masters of tally.guarded. */
    /* For each master in `guarded`: its time without a vote; UINT32_MAX: not known. */
    uint32_t guarded_ms[LIMIT_MASTERS];
    /* LOCK_HELD, WAIT_TIMEOUT, STATE. A quorum reports so many readers at least. The time of other
     * refusals is a hint when to try again. STATE has no time. */
    struct occupant occupant;
    enum reason reason; /* LOCK_LOST. */
    bool adopted;       /* RENEWED: the token was not known at this agent. */
    /* RENEWED and adopted: the fencing number proves that no other caller held the lock in
     * between. */
    bool continuous;
    uint32_t ttl_ms_min, ttl_ms_max; /* BAD_TTL: the allowed range. */
    bool local; /* STATE: this agent holds it. Never for FORM_SHARED, see core_next_hold_of(). */
    /* STATE: holds of this agent that no quorum has. A bit for each slot; FORM_SHARED: 1 <<
     * mode. */
    slot_set denied;
    enum key_state state;               /* STATE: held only if all permits are taken. */
    const struct master_state *masters; /* STATE: tally.total of them. */
};

/* The state of a followed key, as its follower is told (D3.8). */
struct effect_followed {
    uint32_t request;
    uint16_t policy;
    enum key_state state; /* As of STATE. */
    bool here;            /* HELD: this agent has a hold of the key. */
    /* HELD: number and agent are those that a quorum reports, otherwise 0; the agent's lowest bit
     * is 0. `taken`: of a semaphore. Without left_ms. */
    struct occupant occupant;
};

/* The state of a hold for the journal. It comes before the answer to its caller. */
struct effect_hold {
    uint32_t slot;  /* Names the hold until it is forgotten. Small numbers, which are used again. */
    bool forgotten; /* Nothing is left of the hold, and `hold` is not set. */
    struct noted_hold hold;
};

struct effect {
    enum effect_kind kind;
    union {
        struct effect_send send;
        struct effect_answer answer;
        struct effect_followed followed;
        struct effect_trace trace;
        struct effect_hold hold;
        struct effect_watch watch; /* WATCH, UNWATCH. */
        uint8_t group;             /* READ_CLOCKS. */
    };
};

struct effects {
    uint16_t count, item_count;
    struct effect list[LIMIT_EFFECTS];
    struct send_item items[LIMIT_ITEMS];
};

/* Returns true if a hold of the watchdog is not to be renewed after a restart: its answer may not
 * have reached the caller, and the caller cannot ask for it again. Not meant for a hold that has
 * ended. */
bool core_is_doubtful(const struct noted_hold *hold);

/* ---- the core itself ------------------------------------------------------------------------- */

/* Returns the number of bytes that core_init() needs. */
size_t core_size(const struct core_config *config);

/* Builds a core in `memory`: core_size() bytes, zeroed, aligned as by malloc(), owned by the caller
 * and never freed by the core. `config` must be in range. This is asserted, because the
 * configuration room has checked it. */
struct core *core_init(void *memory, const struct core_config *config);

/* Replaces the policies after a reload. There must be as many, each with the same match, groups and
 * algorithm. */
void core_set_policies(struct core *core, const struct core_policy *policies, size_t count);

/* Takes one event. First handles everything that has expired by `event->now`, then the event (R14).
 * Returns true if the event was taken. Returns false if the effects are full, and the event or some
 * of its replies were not taken. Then the caller delivers the effects and calls again with the same
 * event, whose time may be newer. `effects` is emptied first. */
MUST_CHECK bool core_step(struct core *core, const struct event *event, struct effects *effects);

/* Returns true if EVENT_FLUSH must come before the surroundings rest, best right before they write.
 * It must come once more if the effects of one step had no room for all rounds. */
bool core_awaits_flush(const struct core *core);

/* Returns when EVENT_TIME is due at the latest; INSTANT_NEVER if nothing is pending. If it is in
 * the past, EVENT_TIME is due at once. */
struct instant core_next_deadline(const struct core *core);

/* Asserts, between two steps, the invariants of the tables in state.h. For tests. */
void core_check(const struct core *core);
/* Asserts the part of core_check() that needs no walk. */
void core_check_counters(const struct core *core);

/* Random bytes for tokens. Before every step the loop fills them up from getrandom() if fewer than
 * half are left. */
struct entropy {
    uint8_t bytes[ENTROPY_BYTES];
    uint32_t left; /* bytes[0..left) are unused. */
};
struct entropy *core_entropy(struct core *core);

struct core_stats {
    uint32_t locks_held;    /* Granted and valid. */
    uint32_t locks_tracked; /* Used slots: attempts, holds, releases owed, remembered losses. */
    uint32_t waiters;       /* Requests that wait for a lock. */
    uint32_t requests;      /* Unanswered requests. */
    uint32_t held_by_policy[LIMIT_POLICIES];
    uint32_t read_by_policy[LIMIT_POLICIES];    /* Reads among held_by_policy. */
    uint32_t debt[LIMIT_GROUPS][LIMIT_MASTERS]; /* Releases owed to each master. */
    struct core_rounds rounds[LIMIT_GROUPS];
};
const struct core_stats *core_stats(const struct core *core);

/* Returns true if a lock's release is owed to so many masters that those without debt are no quorum
 * of it. Then the key may still be taken until the lease has run out (R6). Looks at every lock. */
bool core_owes_quorum(const struct core *core);

/* Walks over the holds that are valid at `now`. Begin with *cursor = 0. Returns false at the end. A
 * hold that exists throughout the walk is returned once. */
MUST_CHECK bool core_next_hold(const struct core *core, struct instant now, uint32_t *cursor,
                               struct hold_view *ret_view);

/* Return true if this agent knows a hold of the key, also a lost one. The first looks for the
 * token. The second looks for the idempotency key (not empty) of the acquire, until a DELETE has
 * used it. */
MUST_CHECK bool core_knows(const struct core *core, struct text key, const struct token *token);
MUST_CHECK bool core_knows_secret(const struct core *core, struct text key, struct text secret);

/* Walks over the valid holds of `key` at this agent. Begin with *cursor = 0. There must be no step
 * during the walk. */
MUST_CHECK bool core_next_hold_of(const struct core *core, struct text key, struct instant now,
                                  uint32_t *cursor, struct hold_view *ret_view,
                                  struct lock_ref *ret_lock);

/* Return true if this agent has the hold, and it is valid at `now`. The second looks for exactly
 * the token. Neither walks over the holds of the key: readers may be many. */
MUST_CHECK bool core_has_hold(const struct core *core, struct lock_ref lock, struct instant now);
MUST_CHECK bool core_find_hold(const struct core *core, struct text key, const struct token *token,
                               struct instant now, struct hold_view *ret_view,
                               struct lock_ref *ret_lock);

/* Walks over the requests that wait for a lock. Begin with *cursor = 0. */
MUST_CHECK bool core_next_wait(const struct core *core, uint32_t *cursor,
                               struct wait_view *ret_view);

/* Walks over the keys that wait for a round to begin, in order (R16). Begin with *cursor = 0. */
MUST_CHECK bool core_next_in_queue(const struct core *core, uint8_t group, uint32_t *cursor,
                                   struct text *ret_key);

/* Returns the group of masters that a key belongs to, as an index into core_config.groups. */
uint8_t core_group_of(const struct core *core, struct text key);

/* Returns the policy of a key, as an index into core_config.policies. */
uint16_t core_policy_of(const struct core *core, struct text key);

#endif
