/* Types that the core shares with its surroundings: time, texts, tokens, sets of masters, and the
 * fixed tables of operations, votes, answers and reasons. */
#ifndef LOCKAGENT_CORE_TYPES_H
#define LOCKAGENT_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"

/* For a function that can fail: its caller must use the result. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* A point in time on CLOCK_BOOTTIME, which counts suspend. A struct, so that it cannot be mixed up
 * with a duration or with wall-clock time. */
struct instant {
    int64_t us;
};

#define INSTANT_NEVER ((struct instant){INT64_MAX})

static inline struct instant instant_after_us(struct instant t, int64_t us)
{
    struct instant sum;
    if (__builtin_add_overflow(t.us, us, &sum.us))
        sum.us = us > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}
static inline struct instant instant_after_ms(struct instant t, int64_t ms)
{
    return instant_after_us(t, ms * 1000);
}
static inline bool instant_before(struct instant a, struct instant b)
{
    return a.us < b.us;
}
static inline struct instant instant_min(struct instant a, struct instant b)
{
    return a.us < b.us ? a : b;
}
static inline struct instant instant_max(struct instant a, struct instant b)
{
    return a.us < b.us ? b : a;
}
static inline int64_t instant_us_between(struct instant from, struct instant to)
{
    return to.us - from.us;
}

/* Returns how long before the end of its validity a hold that the agent renews no more is lost, so
 * that its holder can stop (R7). */
static inline int64_t lost_margin_ms(uint32_t ttl_ms, int64_t max_hold_ms)
{
    int64_t margin_ms = (max_hold_ms < ttl_ms ? max_hold_ms : ttl_ms) / 10;
    return margin_ms > LOST_MARGIN_MS_MIN ? margin_ms : LOST_MARGIN_MS_MIN;
}

/* Borrowed bytes, not terminated. The function that passes them defines how long they are valid. */
struct text {
    const char *at;
    size_t len;
};

/* Returns true if both have the same bytes. Not in constant time: never for secrets. */
bool text_same(struct text a, struct text b);

/* A set of masters of one group, bit i for master i. */
typedef uint16_t master_set;

/* A set of the slots of a semaphore, bit i for slot i (R20). */
typedef uint64_t slot_set;

/* Proof of ownership. Masters compare the random part, resources the fencing number. */
struct token {
    uint8_t random[RANDOM_BYTES];
    uint8_t slot;   /* The slot of a semaphore (R20). Of a mutex 0. */
    bool has_slot;  /* False: it is a mutex. */
    uint64_t fence; /* 0: the policy does not fence. */
};

enum { TOKEN_RANDOM_CHARS = 2 * RANDOM_BYTES, TOKEN_CHARS_MAX = TOKEN_RANDOM_CHARS + 1 + 20 + 3 };

/* An operator names a hold by the first digits of its random part (R25). The other 28 stay
 * secret. */
enum { HOLD_NAME_CHARS = 12 };

/* Writes `<40 hex digits>.<fencing number>`, for a semaphore with `.<slot>`, and a NUL to `text`.
 * Returns the length. */
size_t token_print(const struct token *token, char text[TOKEN_CHARS_MAX + 1]);
/* Writes the 40 hex digits without NUL, as masters store them before the `:`. */
void token_print_random(const struct token *token, char text[TOKEN_RANDOM_CHARS]);
/* Reads a token. Returns true, with `*ret_token`, only for a text that token_print() writes. */
MUST_CHECK bool token_parse(struct text text, struct token *ret_token);
/* Compares the random parts in constant time (R10). */
bool token_same_random(const struct token *a, const struct token *b);
/* Compares random parts, numbers and slots, in constant time. */
bool token_same(const struct token *a, const struct token *b);
static inline bool token_same_slot(const struct token *a, const struct token *b)
{
    return a->has_slot == b->has_slot && a->slot == b->slot;
}

/* Acquire rounds of one group in flight (R16). */
struct core_rounds {
    uint32_t in_flight, limit;
    uint32_t waiting; /* Keys that wait for a round to begin. */
    /* Reads and adoptions of locks that this agent does not hold: in flight, and waiting. */
    uint32_t guests, guests_waiting;
};

/* Names one attempt or hold of one key. `round` distinguishes late replies from current ones. Only
 * the core uses the fields. */
struct lock_ref {
    uint32_t slot;
    uint32_t generation;
    uint32_t round;
};

enum algorithm { ALGORITHM_REDLOCK, ALGORITHM_MULTILOCK, ALGORITHM_SINGLE };
enum renew { RENEW_UNSET, RENEW_AGENT, RENEW_CALLER };
/* The kind of a policy's keys, which selects the scripts. */
enum form {
    FORM_PLAIN,    /* A mutex. Chance decides which of the waiting agents is next. */
    FORM_FAIR,     /* a mutex of order fair (R9) */
    FORM_SLOTS,    /* A semaphore with several slots (R20). */
    FORM_SHARED,   /* Any number of readers, or one writer (R17). The order is fair (R18). */
    FORM_REDISSON, /* A mutex that is stored as Redisson's RLock, and shared with it (R22). */
    FORM_COUNT
};
/* FENCING_REDISSON: the numbers are those of Redisson's RFencedLock (R22). */
enum fencing { FENCING_OFF, FENCING_ON, FENCING_REDISSON };
enum mode { MODE_WRITE, MODE_READ }; /* A mutex has MODE_WRITE. */

/* The holders of a key. In a refusal also a key of another type, the guard of a master, or an agent
 * that is overloaded or drains. */
struct occupant {
    struct text label; /* Label of a holder, at most LIMIT_LABEL_BYTES; empty: not known. */
    slot_set taken;    /* Slots of a semaphore that are taken; 0: none, or not known. */
    int64_t left_ms;   /* Time until the key may be free; 0: at once; -1: not known, or never. */
    uint32_t readers;  /* Number of readers among them; 0: none, or not known. */
    enum mode mode;    /* Mode of the holders; MODE_WRITE, which is 0, also if it is not known. */
    /* READ: number and agent in the value of a holder; 0: not known, or not an agent's. The number
     * is also 0 if the policy does not number. */
    uint64_t fence;
    uint32_t agent;
};

/* Returns true if tickets decide which of the waiting agents is next (R9). */
static inline bool form_is_fair(enum form form)
{
    return form == FORM_FAIR || form == FORM_SHARED;
}

/* Returns true if a lock of the form may be taken and released by native commands (R24). */
static inline bool form_is_native(enum form form)
{
    return form == FORM_PLAIN || form == FORM_SLOTS;
}

/* Returns how much more than its lower bound a master's clock may show when native commands run
 * (R24): the bound was read within node_timeout, and they have as long. */
static inline int64_t native_spread_ms(uint32_t node_timeout_ms)
{
    return 2 * (int64_t)node_timeout_ms;
}

/* The operations on masters. Every item of a send effect gets exactly one reply per master
 * named. */
#define OPS(X)                                                                                     \
    X(ACQUIRE, "acquire") /* Set the key if it is absent, and number the grant (R1, R12). */       \
    /* Like ACQUIRE, but replace the token of the holder that releases (R9). */                    \
    X(HANDOVER, "handover")                                                                        \
    /* Second phase of fencing: raise the stored number if the master has the token (R12). */      \
    X(RAISE, "raise")                                                                              \
    /* Extend if the master has the token with this agent's name. Never shortens (R7). */          \
    X(RENEW, "renew")                                                                              \
    /* Like RENEW, and compares the master's vote: it has perhaps not granted the lock (R24). */   \
    X(RESUME, "resume")                                                                            \
    X(REPAIR, "repair") /* Like RENEW, and create the key again if it is missing (R7). */          \
    /* Extend if the token has exactly this number, and write this agent's name (D3.3). */         \
    X(ADOPT, "adopt")                                                                              \
    X(RELEASE, "release")   /* Delete if the master has the token (R10). */                        \
    X(READ, "read")         /* Read, change nothing. */                                            \
    X(WITHDRAW, "withdraw") /* Remove this agent's ticket (R9). */

/* The meanings of a master's reply to one item. Unknown is a value of its own, never "no" (R3). */
#define VOTES(X)                                                                                   \
    X(YES, "yes")           /* Done: set, raised, extended, deleted. READ: the key exists. */      \
    X(REPAIRED, "repaired") /* REPAIR created the key again: counts from the next renewal on. */   \
    X(TAKEN, "held") /* The key has another token. In replies and in the API it is called held. */ \
    /* The token has the name of another agent, which has adopted it (D3). */                      \
    X(MOVED, "moved") /* another agent has it now: its holder sent a PUT there */                  \
    /* RENEW, RESUME, REPAIR: an operator has unlocked the hold, and it is not there (R25). */     \
    X(UNLOCKED, "unlocked")                                                                        \
    X(FOREIGN, "foreign") /* The key has another type: a stranger holds it. */                     \
    X(ABSENT, "absent")   /* The key does not exist. */                                            \
    /* ADOPT, RELEASE: the token has another number. Unknown, unless a quorum reports the same. */ \
    X(MISNUMBERED, "misnumbered")                                                                  \
    /* It came too late to create a key. Nothing was done, and the key's state is unknown (R5). */ \
    X(LATE, "late")                                                                                \
    /* The stored number is invalid (R12), or the tickets have another type (R9). Nothing done. */ \
    X(SPOILED, "spoiled")                                                                          \
    /* The master may have forgotten keys, so it has no vote. RESUME: extended all the same. */    \
    X(GUARDED, "guarded")                                                                          \
    /* Done, but on fewer replicas than the group requires. Counts as unknown (R21). */            \
    X(UNREPLICATED, "unreplicated")                                                                \
    X(REFUSED, "refused") /* An error reply: certainly not done. */                                \
    /* Certainly not done, and worth repeating at once (the scripts were flushed). */              \
    X(NOT_RUN, "not_run")                                                                          \
    /* ACQUIRE by native commands: no vote, and the key may be there. The script decides (R24). */ \
    X(BY_SCRIPT, "by_script")                                                                      \
    X(NOT_SENT, "not_sent") /* Never sent. */                                                      \
    X(UNKNOWN, "unknown")   /* The connection ended or the deadline passed: may have been done. */

/* The results of a request, with the code for callers. The API maps each to an HTTP status. */
#define ANSWERS(X)                                                                                 \
    X(GRANTED, "granted", "the lock was acquired")                                                 \
    X(REENTERED, "reentered", "the same owner has the lock once more")                             \
    X(REPEATED, "repeated", "the same request, asked again: it has the lock")                      \
    X(RENEWED, "renewed", "the lease was extended")                                                \
    X(RELEASED, "released", "the lock was released on a quorum of masters")                        \
    X(RELEASE_PENDING, "release_pending",                                                          \
      "the release is noted; the agent goes on until a quorum of masters has confirmed it or the " \
      "ttl has run out")                                                                           \
    X(STATE, "state", "the masters' present replies")                                              \
    X(LOCK_HELD, "lock_held", "the lock is held by another holder")                                \
    X(WAIT_TIMEOUT, "wait_timeout", "the wait ended while another holder held the lock")           \
    X(QUORUM_UNAVAILABLE, "quorum_unavailable", "too few masters answered")                        \
    X(VALIDITY_EXPIRED, "validity_expired",                                                        \
      "a majority granted the lock, but too late for any validity to be left")                     \
    X(RENEW_FAILED, "renew_failed", "the lease could not be extended now; it is still valid")      \
    X(LOCK_LOST, "lock_lost", "the lock is not held any more")                                     \
    X(TOKEN_MISMATCH, "token_mismatch", "the lock is held with another token")                     \
    X(NOT_HELD, "not_held", "no lock with this token is held here or on the masters")              \
    X(BAD_TTL, "bad_request", "the ttl is out of the range that this key's policy allows")         \
    X(TOO_MANY_LOCKS, "too_many_locks", "this agent holds as many locks as limits.locks allows")   \
    X(TOO_MANY_WAITERS, "too_many_waiters", "as many requests wait as limits.waiters allows")      \
    X(OVERLOADED, "overloaded",                                                                    \
      "its round could not begin in time: the masters are asked more than they can answer")        \
    X(SUPERSEDED, "superseded",                                                                    \
      "a later request with the same idempotency key has taken the place of this one")             \
    X(IDEMPOTENCY_MISMATCH, "idempotency_mismatch",                                                \
      "this idempotency key came with other parameters before")                                    \
    X(UPGRADE_REFUSED, "upgrade_refused",                                                          \
      "its owner reads the key, and would wait for itself to write it: release it first")          \
    X(DRAINING, "draining", "this agent is shutting down and takes no new locks")

/* Why a lock was lost. */
#define REASONS(X)                                                                                 \
    X(NONE, "none")                                                                                \
    X(EXPIRED, "expired")             /* The caller did not renew in time. */                      \
    X(QUORUM_LOST, "quorum_lost")     /* Too few masters confirmed a renewal in time. */           \
    X(TAKEN, "taken")                 /* Another holder has the key now. */                        \
    X(MAX_HOLD, "max_hold")           /* Held for as long as the policy or the request allows. */  \
    X(STALLED, "stalled")             /* This process was stopped or its loop was late (R14). */   \
    X(CLOCK_STOPPED, "clock_stopped") /* Masters' clocks gained on this agent's (R14). */          \
    X(DRAINED, "drained")             /* This agent ended. */                                      \
    X(STUCK, "stuck")                 /* The caller that it is bound to does not read. */          \
    X(UNLOCKED, "unlocked")           /* An operator took it away by hand (R25). */                \
    X(MOVED, "moved")                 /* another agent has it now: its holder sent a PUT there */  \
    X(GONE, "gone") /* Its key disappeared within its lease: released elsewhere, or deleted. */

/* The causes of an attempt. */
#define CAUSES(X)                                                                                  \
    X(ARRIVAL, "arrival")   /* A request came, or the contender before it left. */                 \
    X(HANDOVER, "handover") /* The holder's release gave the key to the next waiter. */            \
    X(MESSAGE, "message")   /* A quorum of masters published a release. */                         \
    /* A quorum confirmed the subscription, so an earlier release may have been missed. */         \
    X(SUBSCRIBED, "subscribed")                                                                    \
    X(TTL, "ttl")           /* The holder's lease has run out, according to the masters. */        \
    X(BACK_OFF, "back_off") /* No message came during the back-off. */                             \
    X(SAT_OUT, "sat_out")   /* The pause after handover_max hand-overs is over. */

#define X(name, ...) OP_##name,
enum op { OPS(X) OP_COUNT };
#undef X
#define X(name, ...) VOTE_##name,
enum vote { VOTES(X) VOTE_COUNT };
#undef X
#define X(name, ...) ANSWER_##name,
enum answer { ANSWERS(X) ANSWER_COUNT };
#undef X
#define X(name, ...) REASON_##name,
enum reason { REASONS(X) REASON_COUNT };
#undef X
#define X(name, ...) CAUSE_##name,
enum cause { CAUSES(X) CAUSE_COUNT };
#undef X

const char *op_name(enum op op);
/* Returns true if the operation creates keys that do not exist. */
static inline bool op_creates(enum op op)
{
    return op == OP_ACQUIRE || op == OP_HANDOVER || op == OP_REPAIR;
}
/* Returns true if the operation asks for a lease, or for a longer one. */
static inline bool op_leases(enum op op)
{
    return op_creates(op) || op == OP_RAISE || op == OP_RENEW || op == OP_RESUME || op == OP_ADOPT;
}
const char *vote_name(enum vote vote);
const char *answer_code(enum answer answer); /* A stable code for programs. */
const char *answer_text(enum answer answer); /* One sentence for people. */
/* Returns true if a hold that ended for this reason was denied by masters. */
static inline bool reason_is_denial(enum reason reason)
{
    return reason == REASON_TAKEN || reason == REASON_UNLOCKED || reason == REASON_MOVED ||
           reason == REASON_GONE;
}
/* Returns true if a hold that ended for this reason was not lost, as far as this agent can tell:
 * its holder has it at another agent, or released it there. */
static inline bool reason_is_elsewhere(enum reason reason)
{
    return reason == REASON_MOVED || reason == REASON_GONE;
}
const char *reason_name(enum reason reason);
const char *cause_name(enum cause cause);
const char *algorithm_name(enum algorithm algorithm);
const char *renew_name(enum renew renew);
const char *mode_name(enum mode mode);

#endif
