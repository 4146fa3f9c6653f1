/* The lock core: Redlock, fencing, renewal, release and waiting as one step function, without I/O,
 * clock or allocation.
 *
 *     event (its time in the header) --> core_step() --> effects, in order
 *                                        core_next_deadline() --> when to come back at the latest
 *
 * The surroundings (the event loop, or the simulator) must
 *   - deliver the effects of a step, in order, before the next step;
 *   - answer every item of every send effect with exactly one reply per master named, those of a
 *     command in one event, also when the connection ends (VOTE_UNKNOWN) or never was (NOT_SENT);
 *   - send what one master is sent over one ordered connection (R5);
 *   - keep at least half of the entropy pool filled, before each step (core_entropy()).
 * Pointers inside an event are borrowed for the step; pointers inside effects are valid until the
 * next step. */
#ifndef LOCKAGENT_CORE_H
#define LOCKAGENT_CORE_H

#include "reading.h"
#include "terms.h"
#include "trace.h"
#include "types.h"

struct core;

/* ---- what the core is told at start ---------------------------------------------------------- */

struct core_group {
    uint8_t masters;          /* how many: 1..LIMIT_MASTERS */
    uint32_t node_timeout_ms; /* a master's time to vote on an acquire (R3) */
    /* clock-rate difference allowed for; validity loses ttl * drift + 2 ms (R4) */
    uint32_t drift_ppm;
};

struct core_policy {
    /* glob over the whole key: `*` any run of bytes, `?` one byte */
    char match[LIMIT_PATTERN_BYTES + 1];
    uint8_t groups[LIMIT_GROUPS]; /* a key belongs to one of them, by rendezvous hashing */
    uint8_t group_count;
    enum algorithm algorithm;
    /* what a caller who names neither ttl nor renew gets; never RENEW_UNSET */
    enum renew renew;
    uint32_t ttl_ms;           /* the lease of a caller who names none */
    uint32_t lock_delay_ms;    /* masters keep a key for so much longer than its ttl (R15) */
    int64_t max_hold_ms;       /* cap on every hold, whatever is renewed */
    int64_t bound_max_hold_ms; /* the same for holds that are bound to their caller's connection */
    /* FENCING_REDISSON: ALGORITHM_SINGLE and FORM_REDISSON */
    enum fencing fencing;
    uint32_t fence_retention_ms; /* what a fence key gets at a grant (R12) */
    /* the same on every agent (A4) */
    enum form form;
    /* FORM_SLOTS: how many hold a key at once, each in a slot of its own (R20), 2 to LIMIT_PERMITS;
     * the same on every agent (A4). Of the other forms 1 */
    uint32_t permits;
    /* the same owner, asking again here, has the lock once more (R11); not of FORM_SLOTS */
    bool reentrant;
    /* jittered back-off between the attempts of a waiter: doubles from min to max */
    uint32_t retry_min_ms;
    uint32_t retry_max_ms;
    /* releases in a row that hand the key on here while other agents wait for it */
    uint32_t handover_max;
};

struct core_config {
    const struct core_group *groups; /* copied */
    size_t group_count;
    /* for rendezvous hashing: the same on every agent (A4); hashed at init, not kept */
    const char *const *group_names;
    const struct core_policy *policies; /* copied; first match wins; the last one must match "*" */
    size_t policy_count;
    uint32_t max_ttl_ms;   /* longest lease a caller may ask for */
    int64_t wait_ms_max;   /* longest wait */
    uint32_t locks_max;    /* 1..LIMIT_LOCKS */
    uint32_t requests_max; /* 1..LIMIT_REQUESTS; request numbers are below it */
    uint32_t waiters_max;
    /* bounds of the limit of acquire rounds of a group in flight (R16): 1..LIMIT_ROUNDS */
    uint32_t rounds_min, rounds_max;
    bool journal; /* the surroundings keep a journal: EFFECT_HOLD tells them of every hold */
    /* names the owner in what masters store; random, and as long-lived as the holds: with a
     * journal the one that stands there (D3.3). Its lowest bit says nothing */
    uint32_t agent;
    uint64_t seed; /* of jitter and of the hash tables */
};

/* ---- events ---------------------------------------------------------------------------------- */

enum event_kind {
    EVENT_TIME,  /* core_next_deadline() has come; a batch of the renewals that are due begins */
    EVENT_FLUSH, /* what is gathered is about to be written; rounds begin (R16), timed from now */
    EVENT_ACQUIRE,
    EVENT_RENEW,
    EVENT_RELEASE,
    EVENT_READ,
    /* a hold of the process before this one, out of its journal; before any other request */
    EVENT_RESTORE,
    /* the caller of an unanswered request is gone; it must not be answered any more */
    EVENT_CANCEL,
    /* nobody is there to hold the lock: its grant was answered, but the answer was not wholly
     * written, or the connection that it is bound to has ended: release it */
    EVENT_UNDELIVERED,
    /* the answer that handed out the lock was written wholly: whoever asked may have its token.
     * Only a journal needs to know; may be left away where none is kept */
    EVENT_DELIVERED,
    /* the caller that a hold is bound to does not read: the hold is lost and runs out */
    EVENT_STUCK,
    EVENT_REPLIES, /* what one master says of one command */
    EVENT_MASTER_UP,
    EVENT_MASTER_DOWN,
    EVENT_MASTER_CLOCK, /* a reading of its clock; once a second of each one that is up */
    EVENT_FENCE_FLOOR,  /* numbers that masters grant from nothing are above it (R12) */
    EVENT_SUBSCRIBED,   /* a master confirmed the subscription to a watched key (R9) */
    EVENT_UNSUBSCRIBED, /* its connection has ended: messages of that master may be missed */
    EVENT_MESSAGE,      /* a watched key was deleted on a master */
    EVENT_DRAIN,        /* new locks are refused from now on, and waiting requests are answered */
    EVENT_END, /* the agent ends: every hold is lost (`drained`) and runs out, or is released */
};

/* `request` is a number below core_config.requests_max that the sender chooses, unique among its
 * unanswered requests. Each is answered by exactly one EFFECT_ANSWER, unless it is cancelled first.
 * A request whose time is up in the very step that cancels it is still answered: first comes what
 * has expired. */

/* What a caller asks for. With the policy's part where it names none, it becomes the terms of the
 * hold. */
struct event_acquire {
    uint32_t request;
    struct text key;
    uint32_t ttl_ms;     /* 0: the policy's */
    int64_t wait_ms;     /* 0: try once, as soon as there is a place for its round (R16) */
    int64_t late_ms;     /* so much of the wait that was asked for is over, and not in wait_ms */
    int64_t max_hold_ms; /* 0: the policy's; a larger one than the policy's is cut to it */
    enum mode mode;      /* MODE_READ: of FORM_SHARED alone */
    enum renew renew;    /* RENEW_UNSET: agent without a ttl, caller with one (policy permitting) */
    /* held for as long as the caller's connection stays open: never with RENEW_CALLER */
    bool bound;
    struct text label;
    struct text idempotency; /* a secret; empty: none. Not together with an owner, and not bound */
    struct text owner;       /* a secret; empty: none. Ignored if the policy is not reentrant */
};
struct event_renew {
    uint32_t request;
    struct text key;
    struct token token;
    uint32_t ttl_ms;  /* 0: as before; for an unknown token the policy's */
    enum renew renew; /* RENEW_UNSET: as before; for an unknown token caller */
};
struct event_release {
    uint32_t request;
    struct text key;
    struct token token;
    struct text idempotency; /* of the POST, in place of its token; empty: none */
};
struct event_read {
    uint32_t request;
    struct text key;
};
/* A hold as a journal keeps it: what EFFECT_HOLD tells and EVENT_RESTORE brings back. The key alone
 * is borrowed. */
struct noted_hold {
    struct text key;
    struct token token;
    bool ended;    /* released or lost: nothing but its keys is left */
    bool released; /* by its holder: valid until then */
    bool adopted;  /* an agent before may have reported a longer validity */
    /* a caller is known to have its token: else the process before may have ended before it told
     * anybody */
    bool delivered;
    struct instant acquired_at, valid_until, max_hold_until;
    struct instant lease_until; /* no master keeps the key for longer by what this agent sent */
    /* never bound: nobody renews it for a caller whose connection has ended. A journal need not
     * keep max_hold_ms, beside the instant */
    struct terms terms;
    struct words words;
};
struct event_reply {
    uint8_t group, master;
    enum op op;
    struct lock_ref ref; /* of the item */
    enum vote vote;
    /* YES, REPAIRED: the number that the master stores now (0: none); MISNUMBERED: the token's */
    uint64_t fence;
    int64_t pttl_ms;    /* HELD, MOVED, FOREIGN, and YES of READ: remaining ttl there; -1: none.
                           GUARDED, YES of HANDOVER: how long it has no vote; -1: not known, none */
    struct text holder; /* HELD, MOVED, and YES of READ: label of the holder; of ADOPT: its own */
    enum mode mode;     /* HELD, and YES of READ: of those who have the key; of ADOPT: its own */
    uint32_t readers;   /* HELD, and YES of READ: how many they are, if they read */
    uint64_t ticket;    /* HELD: number of this agent's ticket there; 0: none */
    slot_set taken;     /* HELD, FOREIGN, and YES of READ, of a semaphore: its slots that are */
    bool is_own;        /* YES of READ: the key is that of the hold that was named */
    /* YES of HANDOVER: agents subscribed to the key there, this one counted; HELD: the same where a
     * message does not tell it (FORM_REDISSON); 0: not told */
    uint32_t agents;
};
struct event_channel {
    uint8_t group, master;
    struct text key; /* one that is not watched (any more) is no error */
    /* MESSAGE: agents subscribed to it there, this one counted (0: not told), */
    uint32_t agents;
    /* and the one whose ticket is the lowest; 0: no ticket is known there, or order is any */
    uint64_t next;
    bool next_reads; /* the one who waits there does: all who read may come (R18) */
    uint8_t permit;  /* of a semaphore, the slot that was released, plus 1; 0: not said (R20) */
};

struct event {
    enum event_kind kind;
    struct instant now; /* CLOCK_BOOTTIME; never goes back */
    int64_t wall_us;    /* unix time: proposes fencing numbers, decides nothing else */
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
            const struct event_reply *at; /* of its items: all of the same group, master and op */
            uint16_t count;
        } replies;
        struct event_master master;   /* UP, DOWN, CLOCK, FENCE_FLOOR */
        struct event_channel channel; /* SUBSCRIBED, UNSUBSCRIBED, MESSAGE */
        struct {
            bool release; /* only where the holders are known to have ended */
        } end;
    };
};

/* ---- effects --------------------------------------------------------------------------------- */

enum effect_kind {
    EFFECT_SEND,
    EFFECT_ANSWER,
    EFFECT_TRACE,
    EFFECT_HOLD, /* for the journal */
    /* subscribe to a key on every master of its group, again after every reconnect, until */
    EFFECT_WATCH,
    EFFECT_UNWATCH,     /* this */
    EFFECT_READ_CLOCKS, /* read the clock of every master of the group, at once */
};

/* Order fair: this agent's place among those who wait for a key (R9). */
struct ticket {
    uint64_t agent; /* who waits; 0 in a RELEASE: no ticket is touched */
    /* the lowest is served first; 0: a caller who does not wait, served only where nobody does;
     * RELEASE: is put there as the key is deleted, of a failed attempt's caller or the next one
     * here; 0: the ticket is taken off */
    uint64_t number;
    uint32_t ttl_ms; /* so long the masters keep it, if it has to wait; 0: they do not */
    /* not told to any master yet: becomes one more than the last one there, if it is not above
     * it */
    bool fresh;
    enum mode mode; /* FORM_SHARED: of the one who waits */
};

/* One lock within a command. */
struct send_item {
    struct lock_ref ref;
    struct text key; /* as the caller named it; prefix and format are the Redis room's affair */
    /* READ: unused. ADOPT, and RELEASE if `numbered`: the number that the value must have. RAISE,
     * RENEW, REPAIR: the number that it gets. ACQUIRE, HANDOVER: `fence` is the proposal, 0 where
     * the policy does not fence */
    struct token token;
    struct token previous;   /* HANDOVER: the token that is replaced */
    uint32_t previous_agent; /* HANDOVER: the owner of `previous`; compared unless `asked` */
    /* the owner: is written by ACQUIRE, HANDOVER, REPAIR, ADOPT; must stand there for RAISE,
     * RENEW, REPAIR, and for RELEASE unless it is `asked` */
    uint32_t agent;
    /* RELEASE, HANDOVER: its holder asked, so it counts at any agent (D3). READ: of a hold here. */
    bool asked;
    bool numbered; /* RELEASE of a hold that is not known here: compares the number as well (C4) */
    struct text label; /* ACQUIRE, HANDOVER, REPAIR: stored beside the random part */
    uint32_t ttl_ms; /* what masters keep the key for, lock_delay included; not of RELEASE, READ */
    struct instant deadline; /* ACQUIRE, HANDOVER, REPAIR: a key is created until then, */
    uint32_t left_ms;        /* in so many ms of a slow clock (R5) */
    uint16_t policy;
    bool fencing;    /* keep the fence key (and number the grant); RENEW: now and then */
    uint8_t permits; /* of the key; 1: it is a mutex. Which of them is in the token (R20) */
    enum form form;  /* of its policy */
    /* FORM_SHARED; of ADOPT, and of a RELEASE `numbered`, as far as is known */
    enum mode mode;
    /* form_is_fair(), of ACQUIRE, HANDOVER, RELEASE. WITHDRAW: its agent's ticket is taken off */
    struct ticket ticket;
};
/* One command, the same bytes for every master named. Only ACQUIRE, RENEW, REPAIR and RELEASE carry
 * more than one item. Those of one ACQUIRE or RELEASE are all of one form. Replies to WITHDRAW may
 * be left away. */
struct effect_send {
    enum op op;
    uint8_t group;
    master_set masters;
    uint16_t first, count;            /* into effects.items */
    int64_t clocks_ms[LIMIT_MASTERS]; /* the masters' at the least, for `left_ms`; 0: unknown */
};

/* The channel of a key. */
struct effect_watch {
    uint8_t group;
    uint16_t policy;
    struct text key;
};

/* What one master said of a key. */
struct master_state {
    enum vote vote;   /* YES: held; ABSENT; FOREIGN; REFUSED; UNKNOWN; NOT_SENT: known to be down */
    int64_t pttl_ms;  /* YES, FOREIGN; -1: no expiry. Of a semaphore: the least */
    slot_set taken;   /* YES, FOREIGN: the slots of a semaphore that are; of a mutex the first */
    enum mode mode;   /* YES: of those who have it, */
    uint32_t readers; /* and how many of them read */
};
enum key_state { KEY_FREE, KEY_HELD, KEY_UNKNOWN };

/* One hold of this agent as it stands, with what may be shown of its terms: not the secrets. */
struct hold_view {
    struct text key;
    struct text label;
    struct token token; /* never listed, never logged */
    uint16_t policy;
    uint8_t group;
    enum mode mode;
    enum renew renew;
    bool bound; /* to its caller's connection */
    uint32_t ttl_ms;
    struct instant acquired_at;
    struct instant valid_until; /* already clipped to max_hold_until */
    struct instant max_hold_until;
    uint16_t count;  /* how often its holder has it; more than 1 only where it is reentrant */
    uint8_t permits; /* of the key; 1: it is a mutex. Which of them it is stands in the token */
    /* STATE, core_next_hold(), core_next_hold_of(): masters that have the key for certain; others:
     * 0 */
    uint8_t confirmed;
};

/* One request that waits for a lock at this agent, with what may be shown of it. */
struct wait_view {
    struct text key;
    struct text label;
    enum mode mode;
    struct instant since; /* when the request came */
};

struct tally { /* of the round that decided; all zero where none was needed */
    uint8_t granted, taken, failed, total, quorum;
    /* have no vote yet (D5.3); for a grant as good as failed, but not counted among the failed */
    uint8_t guarded;
    uint8_t unreplicated; /* granted it on too few replicas (R21); the same */
};

struct effect_answer {
    uint32_t request;
    enum answer answer;
    uint16_t policy;
    uint8_t group;
    struct lock_ref lock; /* GRANTED, REENTERED, REPEATED: for EVENT_UNDELIVERED */
    /* GRANTED, REENTERED, REPEATED, RENEWED, RENEW_FAILED; STATE: if `local` */
    struct hold_view hold;
    /* GRANTED, REENTERED and REPEATED (as known), RENEWED, RENEW_FAILED, LOCK_HELD, WAIT_TIMEOUT,
     * QUORUM_UNAVAILABLE, VALIDITY_EXPIRED, STATE, RELEASED, RELEASE_PENDING */
    struct tally tally;
    int64_t waited_us; /* since the request came */
    /* LOCK_HELD, WAIT_TIMEOUT: until the lock may be free; others: a hint; -1: not known */
    int64_t retry_after_ms;
    master_set guarded; /* QUORUM_UNAVAILABLE: the masters of tally.guarded, */
    /* and for how long each of them still is; UINT32_MAX: not known */
    uint32_t guarded_ms[LIMIT_MASTERS];
    struct text holder; /* LOCK_HELD, WAIT_TIMEOUT, STATE: the holder's label; may be empty */
    enum mode mode;     /* LOCK_HELD, WAIT_TIMEOUT, STATE: of those who have the key, */
    uint32_t readers;   /* and how many of them read, as far as a quorum says so */
    enum reason reason; /* LOCK_LOST */
    bool adopted;       /* RENEWED: the token was not known here */
    /* RENEWED and adopted: the fencing number proves that nobody held the lock in between */
    bool continuous;
    uint32_t ttl_ms_min, ttl_ms_max; /* BAD_TTL: what is allowed */
    bool local; /* STATE: this agent holds it. FORM_SHARED: never, see core_next_hold_of() */
    /* STATE: holds here that no quorum has. FORM_SHARED: 1 << mode, else of the slot */
    slot_set denied;
    enum key_state state;               /* STATE: held only where all its permits are taken, */
    uint8_t taken;                      /* of which so many are */
    const struct master_state *masters; /* STATE: tally.total of them */
};

/* What a journal has to know of a hold; comes before the answer that tells its caller of it. */
struct effect_hold {
    uint32_t slot;  /* names the hold until it is forgotten; small numbers, used again */
    bool forgotten; /* nothing is left of it, and `hold` is not set */
    struct noted_hold hold;
};

struct effect {
    enum effect_kind kind;
    union {
        struct effect_send send;
        struct effect_answer answer;
        struct effect_trace trace;
        struct effect_hold hold;
        struct effect_watch watch; /* WATCH, UNWATCH */
        uint8_t group;             /* READ_CLOCKS */
    };
};

struct effects {
    uint16_t count, item_count;
    struct effect list[LIMIT_EFFECTS];
    struct send_item items[LIMIT_ITEMS];
};

/* A hold of the watchdog whose answer may have reached nobody, and that nobody can ask for again:
 * it is not renewed. Says nothing of one that has ended. */
bool core_is_doubtful(const struct noted_hold *hold);

/* ---- the core itself ------------------------------------------------------------------------- */

/* Bytes that core_init() needs. */
size_t core_size(const struct core_config *config);

/* Builds a core in `memory` (core_size() bytes, zeroed, aligned as by malloc, owned by the caller
 * and never freed by the core). `config` must be in range: that is asserted, the configuration room
 * has checked it. */
struct core *core_init(void *memory, const struct core_config *config);

/* Replaces the policies (reload): as many, each with the same match, groups and algorithm. */
void core_set_policies(struct core *core, const struct core_policy *policies, size_t count);

/* Takes one event. First observes what has expired by `event->now`, and only then looks at the
 * event (R14). Returns true when the event was taken. False: the effects are full, and the event
 * was not looked at, or not all of its replies: deliver them and call again with the same event
 * (its time may be refreshed). `effects` is emptied first. */
MUST_CHECK bool core_step(struct core *core, const struct event *event, struct effects *effects);

/* EVENT_FLUSH must come before the surroundings rest, best right before they write; and once more,
 * where the effects of one step had no room for all rounds. */
bool core_awaits_flush(const struct core *core);

/* When EVENT_TIME is due at the latest; INSTANT_NEVER if nothing is pending. May be in the past:
 * then at once. */
struct instant core_next_deadline(const struct core *core);

/* For tests: asserts between two steps that the tables hold all that state.h says of them. */
void core_check(const struct core *core);
/* The part of it that needs no walk. */
void core_check_counters(const struct core *core);

/* Random bytes for tokens. Before every step the loop fills it up from getrandom if fewer than half
 * are left. */
struct entropy {
    uint8_t bytes[ENTROPY_BYTES];
    uint32_t left; /* bytes[0..left) are unused */
};
struct entropy *core_entropy(struct core *core);

struct core_stats {
    uint32_t locks_held;    /* granted and valid */
    uint32_t locks_tracked; /* slots in use: attempts, holds, releases owed, remembered losses */
    uint32_t waiters;       /* requests that wait for a lock */
    uint32_t requests;      /* unanswered requests */
    uint32_t held_by_policy[LIMIT_POLICIES];
    uint32_t read_by_policy[LIMIT_POLICIES];    /* those of them that are reads */
    uint32_t debt[LIMIT_GROUPS][LIMIT_MASTERS]; /* releases owed to each master */
    struct core_rounds rounds[LIMIT_GROUPS];
};
const struct core_stats *core_stats(const struct core *core);

/* Releases are owed to so many masters of a group that fewer than a quorum owe nothing: what was
 * given back may be taken still, until its lease has run out (R6). */
bool core_owes_quorum(const struct core *core);

/* Walks the holds that are valid at `now`. Start with *cursor = 0; false at the end. A hold that
 * stays throughout the walk is seen once. */
MUST_CHECK bool core_next_hold(const struct core *core, struct instant now, uint32_t *cursor,
                               struct hold_view *ret_view);

/* True if this agent knows a hold of the key by this token, also one that is lost; or by the
 * idempotency key (not empty) that it was acquired with, until a DELETE has named that. */
MUST_CHECK bool core_knows(const struct core *core, struct text key, const struct token *token);
MUST_CHECK bool core_knows_secret(const struct core *core, struct text key, struct text secret);

/* Walks the valid holds of `key` at this agent. *cursor = 0 at first; nothing may come between. */
MUST_CHECK bool core_next_hold_of(const struct core *core, struct text key, struct instant now,
                                  uint32_t *cursor, struct hold_view *ret_view,
                                  struct lock_ref *ret_lock);

/* Walks the requests that wait for a lock. Start with *cursor = 0. */
MUST_CHECK bool core_next_wait(const struct core *core, uint32_t *cursor,
                               struct wait_view *ret_view);

/* Walks the keys that wait for a place for their round, in order (R16). Start with *cursor = 0. */
MUST_CHECK bool core_next_in_line(const struct core *core, uint8_t group, uint32_t *cursor,
                                  struct text *ret_key);

/* The group of masters that a key belongs to: an index into core_config.groups. */
uint8_t core_group_of(const struct core *core, struct text key);

/* The policy that a key falls under: an index into core_config.policies. */
uint16_t core_policy_of(const struct core *core, struct text key);

#endif
