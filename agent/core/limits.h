/* Every limit of the lock core, in one place, with the relations that must hold between them. */
#ifndef LOCKAGENT_CORE_LIMITS_H
#define LOCKAGENT_CORE_LIMITS_H

#include <assert.h>

enum {
    LIMIT_GROUPS = 8,       /* groups of masters */
    LIMIT_MASTERS = 15,     /* masters of one group; a set of them is a uint16_t */
    LIMIT_POLICIES = 64,    /* with the implicit last one */
    LIMIT_LOCKS = 100000,   /* locks held or attempted at once (limits.locks) */
    LIMIT_REQUESTS = 65536, /* API requests inside the core at once (limits.connections) */
    /* of the table of locks: in use, and ended */
    LIMIT_LOCK_SLOTS = 2 * LIMIT_LOCKS + LIMIT_REQUESTS + 1,
    LIMIT_KEY_BYTES = 512,     /* a key, as the caller names it, after percent-decoding */
    LIMIT_PERMITS = 64,        /* slots of a semaphore; a set of them is a uint64_t */
    LIMIT_LABEL_BYTES = 64,    /* the public word on who holds a lock */
    LIMIT_SECRET_BYTES = 64,   /* an owner, or an idempotency key */
    SECRET_BYTES_MIN = 16,     /* shorter ones could be guessed */
    LIMIT_REENTRIES = 65535,   /* times that one holder may have the same lock */
    LIMIT_PATTERN_BYTES = 512, /* policies[].match */
#ifdef TIGHT_LIMITS            /* a build of the simulator, where steps fill their effects */
    LIMIT_BATCH = 2,
    LIMIT_EFFECTS = 64,
    LIMIT_ITEMS = 32,
#else
    LIMIT_BATCH = 50,    /* locks in one call to a master: more would block it for too long */
    LIMIT_EFFECTS = 256, /* effects of one step */
    LIMIT_ITEMS = 1024,  /* locks named by the send effects of one step */
#endif
    RANDOM_BYTES = 20, /* 160 bits of every token */
    /* random bytes kept ready for the core, at least half of them before each step */
    ENTROPY_BYTES = 4096,
    /* one event or timer begins so many attempts at the most */
    ENTROPY_BYTES_OF_EVENT = 4 * RANDOM_BYTES,
    ROUNDS_MIN = 64,     /* acquire rounds of one group in flight: where the limit begins (R16) */
    LIMIT_ROUNDS = 4096, /* and where it ends */
    LIMIT_READS = 64,    /* attempts to read one key, side by side at one agent (R18) */
    ROUNDS_GROWTH = 8,   /* by so many it grows a round trip */
    /* a caller who tries once waits for a place for so long */
    ADMISSION_MS_MAX = 10 * 1000,
    TTL_MS_MIN = 100,         /* shortest lease */
    TTL_MS_MIN_AGENT = 1000,  /* shortest lease that the watchdog renews */
    TTL_MS_MAX = 3600 * 1000, /* largest value of limits.max_ttl */
    /* A release is decided within this time or node_timeout, whichever is longer (R3). Agents that
     * do not know each other's ttl count on it before a repair (R7). */
    RELEASE_MS_MAX = 250,
    /* a lost lock is reported at least this long before its validity ends */
    LOST_MARGIN_MS_MIN = 50,
    FENCE_RETENTION_MS_MIN = 5000, /* a floor may be ahead of the agreed time (R12) */
    EXPIRY_MARGIN_MS =
        /* the end of a lease that its caller renews is said so long before: what is late comes
         * in time, */
    5,
    /* and so long where a renewal is out, which may still be confirmed */
    EXPIRY_MARGIN_RENEWING_MS = 3,
    TICKET_AHEAD_MS = 2000, /* clocks of agents that are trusted differ by less (R9, R12) */
    TICKET_MS = 3000,       /* a ticket that is not shown again is void (R9) */
    TIMER_LATE_US = 2000,   /* no timer is late by more if the process is not (R3) */
    /* a step this much later than the deadline it was asked for is a stall (R14) */
    STALL_MS = 100,
    /* beyond this the masters' median clock proposes fencing numbers (R12) */
    CLOCK_TRUST_MS = 1000,
};

/* Fencing numbers (R12), which are unix time in us: how far ahead of the agreed time one may be,
 * and the largest that a double of the masters' scripts tells from its neighbours. */
#define FENCE_AHEAD_US (2LL * 24 * 3600 * 1000 * 1000)
#define LIMIT_FENCE ((1LL << 53) - 1)

static_assert(LIMIT_MASTERS <= 16, "a set of masters is a uint16_t");
static_assert(ENTROPY_BYTES / 2 >= 2 * ENTROPY_BYTES_OF_EVENT,
              "a step must come on between two refills");
static_assert(TICKET_AHEAD_MS == 2 * CLOCK_TRUST_MS, "one may be fast and another one slow");
static_assert(EXPIRY_MARGIN_RENEWING_MS < EXPIRY_MARGIN_MS && EXPIRY_MARGIN_MS < LOST_MARGIN_MS_MIN,
              "who can still do something about it is told earlier");
static_assert(ROUNDS_MIN >= 1 && ROUNDS_MIN <= LIMIT_ROUNDS, "the limit has room to grow");
static_assert(TTL_MS_MIN_AGENT >= TTL_MS_MIN, "the watchdog's floor is a floor");
static_assert(RELEASE_MS_MAX <= TTL_MS_MIN_AGENT / 3,
              "a master is repaired before the lease on the next one that goes is over");
static_assert(LIMIT_EFFECTS >= 64 && LIMIT_ITEMS >= 4 * LIMIT_BATCH, "one event must always fit");

#endif
