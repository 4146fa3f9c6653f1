/* The words that the core shares with its surroundings: time, texts, tokens, sets of masters, and
 * the fixed tables of operations, votes, answers and reasons. */
#ifndef LOCKAGENT_CORE_TYPES_H
#define LOCKAGENT_CORE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"

/* Of a function that can fail: its caller looks at what it returns. */
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

/* R7: how long before its validity ends a hold that could not be renewed is given up, so that its
 * holder can stop. */
static inline int64_t lost_margin_ms(uint32_t ttl_ms)
{
    int64_t margin_ms = ttl_ms / 10;
    return margin_ms > LOST_MARGIN_MS_MIN ? margin_ms : LOST_MARGIN_MS_MIN;
}

/* Borrowed bytes, not terminated; whoever hands them over says how long they live. */
struct text {
    const char *at;
    size_t len;
};

/* A set of masters of one group, bit i for master i. */
typedef uint16_t master_set;

/* A set of the slots of a semaphore, bit i for slot i (R20). */
typedef uint64_t slot_set;

/* What proves ownership: the random part is what masters compare, the fencing number is what
 * resources compare. */
struct token {
    uint8_t random[RANDOM_BYTES];
    uint8_t permit; /* of a semaphore: its slot, counted from 1 (R20); 0: it is a mutex */
    uint64_t fence; /* 0: the policy does not fence */
};

enum { TOKEN_RANDOM_CHARS = 2 * RANDOM_BYTES, TOKEN_CHARS_MAX = TOKEN_RANDOM_CHARS + 1 + 20 + 3 };

/* Writes `<40 hex digits>.<fencing number>`, of a semaphore `.<slot>` as well, and a NUL to `text`;
 * returns its length. */
size_t token_print(const struct token *token, char text[TOKEN_CHARS_MAX + 1]);
/* Writes the 40 hex digits (no NUL): what masters store before the `:`. */
void token_print_random(const struct token *token, char text[TOKEN_RANDOM_CHARS]);
/* True, and `*ret_token` set, only for exactly what token_print() writes. */
MUST_CHECK bool token_parse(struct text text, struct token *ret_token);
/* Compares the random parts in constant time (R10). */
bool token_same_random(const struct token *a, const struct token *b);
/* The same, and their numbers and slots. */
bool token_same(const struct token *a, const struct token *b);

/* Acquire rounds of one group that a place is taken for (R16). */
struct core_rounds {
    uint32_t in_flight, limit;
    uint32_t waiting; /* keys that wait for a place */
    /* Reads and adoptions of what this agent does not hold: in flight, and waiting for that. */
    uint32_t guests, guests_waiting;
};

/* Names one attempt at, or hold of, one key; `round` tells late replies from current ones. Opaque
 * outside. */
struct lock_ref {
    uint32_t slot;
    uint32_t generation;
    uint32_t round;
};

enum algorithm { ALGORITHM_REDLOCK, ALGORITHM_MULTILOCK, ALGORITHM_SINGLE };
enum renew { RENEW_UNSET, RENEW_AGENT, RENEW_CALLER };
/* What the keys of a policy are, and by which scripts masters are asked for them. */
enum form {
    FORM_PLAIN,    /* a mutex; which of the waiting agents is next is left to chance */
    FORM_FAIR,     /* a mutex of order fair (R9) */
    FORM_SLOTS,    /* a semaphore of several permits (R20) */
    FORM_SHARED,   /* any number of readers, or one writer (R17); of order fair (R18) */
    FORM_REDISSON, /* a mutex that is stored as Redisson's RLock is, and shared with it (R22) */
    FORM_COUNT
};
/* FENCING_REDISSON: by the numbers of Redisson's RFencedLock (R22). */
enum fencing { FENCING_OFF, FENCING_ON, FENCING_REDISSON };
enum mode { MODE_WRITE, MODE_READ }; /* a mutex is written */

/* Those who wait at different agents are served by tickets (R9). */
static inline bool form_is_fair(enum form form)
{
    return form == FORM_FAIR || form == FORM_SHARED;
}

/* What a master can be asked. Every item of a send effect gets exactly one reply per master
 * named. */
#define OPS(X)                                                                                     \
    X(ACQUIRE, "acquire") /* set the key if it is absent, and number the grant (R1, R12) */        \
    /* as ACQUIRE, and replaces the token of the holder that releases (R9) */                      \
    X(HANDOVER, "handover")                                                                        \
    /* second phase of fencing: raise the stored number where the token is (R12) */                \
    X(RAISE, "raise")                                                                              \
    /* extend where the token is and this agent owns it; never shortens (R7) */                    \
    X(RENEW, "renew")                                                                              \
    X(REPAIR, "repair") /* as RENEW, and re-creates the key where it is missing (R7) */            \
    /* extend where the token is, with exactly this number: this agent owns it from now (D3) */    \
    X(ADOPT, "adopt")                                                                              \
    X(RELEASE, "release")   /* delete where the token is (R10) */                                  \
    X(READ, "read")         /* look, change nothing */                                             \
    X(WITHDRAW, "withdraw") /* forget this agent's ticket (R9) */

/* What a master's reply to one item means. Unknown is a value of its own: never "no" (R3). */
#define VOTES(X)                                                                                   \
    X(YES, "yes")           /* done: set, raised, extended, deleted; READ: the key is there */     \
    X(REPAIRED, "repaired") /* REPAIR re-created the key: counts from the next renewal on */       \
    X(TAKEN, "held") /* the key is there with another token; on the wire and in the API: held */   \
    /* the token is there, and another agent owns it: it was adopted there (D3) */                 \
    X(MOVED, "moved")     /* another agent has it now: its holder sent a PUT there */              \
    X(FOREIGN, "foreign") /* the key is there with another type: held by a stranger */             \
    X(ABSENT, "absent")   /* the key is not there */                                               \
    /* ADOPT, RELEASE: the token is there with another number: unknown, unless a quorum says so */ \
    X(MISNUMBERED, "misnumbered")                                                                  \
    /* it came too late to create a key: nothing was done, and nothing is known (R5) */            \
    X(LATE, "late")                                                                                \
    /* its fence key holds no number, or an impossible one: nothing was done (R12) */              \
    X(SPOILED, "spoiled")                                                                          \
    /* ACQUIRE: may have forgotten keys a while ago, so it has no vote on new locks yet */         \
    X(GUARDED, "guarded")                                                                          \
    /* done, but on fewer replicas than the group asks for: unknown, by another name (R21) */      \
    X(UNREPLICATED, "unreplicated")                                                                \
    X(REFUSED, "refused") /* an error reply: certainly not done */                                 \
    /* certainly not done, and worth asking again at once (script was flushed) */                  \
    X(NOT_RUN, "not_run")                                                                          \
    X(NOT_SENT, "not_sent") /* never left this process */                                          \
    X(UNKNOWN, "unknown")   /* the connection ended or the deadline passed: may have been done */

/* How a request can end, with the code that callers see. The API maps each to an HTTP status. */
#define ANSWERS(X)                                                                                 \
    X(GRANTED, "granted", "the lock was acquired")                                                 \
    X(REENTERED, "reentered", "the same owner has the lock once more")                             \
    X(REPEATED, "repeated", "the same request, asked again: it has the lock")                      \
    X(RENEWED, "renewed", "the lease was extended")                                                \
    X(RELEASED, "released", "the lock was released on a quorum of masters")                        \
    X(RELEASE_PENDING, "release_pending",                                                          \
      "the release is noted; the agent goes on until a quorum of masters has confirmed it or the " \
      "ttl has run out")                                                                           \
    X(STATE, "state", "what the masters say now")                                                  \
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
      "no place for its round came free in time: more is asked than the masters answer")           \
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
    X(EXPIRED, "expired")             /* the caller did not renew in time */                       \
    X(QUORUM_LOST, "quorum_lost")     /* too few masters confirmed a renewal in time */            \
    X(TAKEN, "taken")                 /* another holder has the key now */                         \
    X(MAX_HOLD, "max_hold")           /* held for as long as the policy or the request allows */   \
    X(STALLED, "stalled")             /* this process was stopped or its loop was late (R14) */    \
    X(CLOCK_STOPPED, "clock_stopped") /* masters' clocks gained on this agent's (R14) */           \
    X(DRAINED, "drained")             /* this agent ended */                                       \
    X(STUCK, "stuck")                 /* the caller that it is bound to does not read */           \
    X(MOVED, "moved")                 /* another agent has it now: its holder sent a PUT there */  \
    X(GONE, "gone") /* its key is gone within its lease: released at another agent, or deleted */

/* What set an attempt off. */
#define CAUSES(X)                                                                                  \
    X(ARRIVAL, "arrival")   /* a request came, or the contender before it left */                  \
    X(HANDOVER, "handover") /* the holder's release gave the key to the next waiter */             \
    X(MESSAGE, "message")   /* a quorum of masters told of a release */                            \
    /* a quorum confirmed the subscription: what was released before was not heard of */           \
    X(SUBSCRIBED, "subscribed")                                                                    \
    X(TTL, "ttl")           /* the holder's lease has run out, as the masters said */              \
    X(BACK_OFF, "back_off") /* nothing was heard for so long */                                    \
    X(SAT_OUT, "sat_out")   /* after handover_max hand-overs others had their chance */

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
/* True if it creates keys where there are none. */
static inline bool op_creates(enum op op)
{
    return op == OP_ACQUIRE || op == OP_HANDOVER || op == OP_REPAIR;
}
const char *vote_name(enum vote vote);
const char *answer_code(enum answer answer); /* stable, for programs */
const char *answer_text(enum answer answer); /* one sentence, for people */
/* True if masters deny the token of a hold that has ended for this reason. */
static inline bool reason_is_denial(enum reason reason)
{
    return reason == REASON_TAKEN || reason == REASON_MOVED || reason == REASON_GONE;
}
/* True if that is no loss, as far as this agent can tell: the holder has it at another agent, or
 * released it there. */
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
