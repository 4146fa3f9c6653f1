/* Every limit of the lock core, and the relations that must hold between them. */
#ifndef LOCKAGENT_CORE_LIMITS_H
#define LOCKAGENT_CORE_LIMITS_H

#include <assert.h>

enum {
    LIMIT_GROUPS = 8,       /* Groups of masters. */
    LIMIT_MASTERS = 15,     /* Masters of one group; a set of them is a uint16_t. */
    LIMIT_POLICIES = 64,    /* Policies, with the implicit last one. */
    LIMIT_LOCKS = 100000,   /* Locks held or attempted at once (limits.locks). */
    LIMIT_REQUESTS = 65536, /* API requests inside the core at once (limits.connections). */
    /* Slots of the table of locks: those in use, and ended ones. */
    LIMIT_LOCK_SLOTS = 2 * LIMIT_LOCKS + LIMIT_REQUESTS + 1,
    LIMIT_KEY_BYTES = 512,     /* Bytes of a key, after percent-decoding. */
    LIMIT_PERMITS = 64,        /* Slots of a semaphore; a set of them is a uint64_t. */
    LIMIT_LABEL_BYTES = 64,    /* Bytes of the public label of a holder. */
    LIMIT_SECRET_BYTES = 64,   /* Bytes of an owner, or of an idempotency key. */
    SECRET_BYTES_MIN = 16,     /* Shorter secrets could be guessed. */
    LIMIT_REENTRIES = 65535,   /* Limit of the times that one holder has the same lock. */
    LIMIT_PATTERN_BYTES = 512, /* Bytes of policies[].match. */
#ifdef TIGHT_LIMITS            /* A build of the simulator in which steps fill their effects. */
    LIMIT_BATCH = 2,
    LIMIT_EFFECTS = 64,
    LIMIT_ITEMS = 32,
#else
    LIMIT_BATCH = 50,    /* Locks in one call to a master. More would block it for too long. */
    LIMIT_EFFECTS = 256, /* Effects of one step. */
    LIMIT_ITEMS = 1024,  /* Locks named by the send effects of one step. */
#endif
    RANDOM_BYTES = 20, /* 160 random bits of every token. */
    /* Random bytes kept ready for the core. At least half are there before each step. */
    ENTROPY_BYTES = 4096,
    /* One event or timer begins this many attempts at most. */
    ENTROPY_BYTES_OF_EVENT = 4 * RANDOM_BYTES,
    ROUNDS_FIRST = 64,   /* Initial limit of acquire rounds of a group in flight (R16). */
    ROUNDS_MIN = 8,      /* Least such limit. */
    LIMIT_ROUNDS = 4096, /* Largest such limit. */
    LIMIT_READS = 64,    /* Concurrent attempts to read one key at one agent (R18). */
    ROUNDS_GROWTH = 8,   /* Growth of that limit in a round trip. */
    /* Time for which a request without `wait` waits for its round. */
    ADMISSION_MS_MAX = 10 * 1000,
    TTL_MS_MIN = 100,         /* Shortest lease. */
    TTL_MS_MIN_AGENT = 1000,  /* Shortest lease that the watchdog renews. */
    TTL_MS_MAX = 3600 * 1000, /* Largest value of limits.max_ttl. */
    /* A release is decided within the longer of this time and node_timeout (R3). Agents that do not
     * know each other's ttl count on it before a repair (R7). */
    RELEASE_MS_MAX = 250,
    /* A lost lock is reported at least this long before its validity ends. */
    LOST_MARGIN_MS_MIN = 50,
    EXPIRY_MARGIN_MS =
        /* The end of a lease that its caller renews is reported this long before, so that a late
         * report comes in time. */
    5,
    /* The same while a renewal is in flight that may still be confirmed. */
    EXPIRY_MARGIN_RENEWING_MS = 3,
    TICKET_AHEAD_MS = 2000, /* More than trusted clocks of two agents can differ (R9, R12). */
    TICKET_MS = 3000,       /* A ticket that is not shown again within this time is void (R9). */
    TIMER_LATE_US = 2000,   /* No timer is late by more if the process is not late (R3). */
    /* The numbers of a prefix are kept in so many buckets (R12). All agents must have the same. */
    NUMBER_BUCKETS = 16384,
    /* A step that comes this much later than its deadline is a stall (R14). */
    STALL_MS = 100,
    /* If this agent's clock differs by more, the masters' median clock is the agreed time (R12). */
    CLOCK_TRUST_MS = 1000,
    /* The same for the numbers that it proposes: agents whose clocks differ are ahead of each other
     * in a bucket. */
    PROPOSAL_TRUST_MS = 20,
    /* A key that was refused here is asked for by script for this long (R24). */
    REFUSED_MS = 10 * 1000,
    REFUSED_KEYS = 4096, /* Places of the table of such keys. */
    /* A followed key is looked at again after such a pause (D3.8): the least one, the longest while
     * no holder is known, and the longest while it is held. */
    FOLLOW_MS_MIN = 20,
    FOLLOW_FREE_MS_MAX = 1000,
    FOLLOW_HELD_MS_MAX = 5000,
};

/* Fencing numbers are unix time in us (R12). FENCE_AHEAD_US: how far a number may be ahead of the
 * agreed time. LIMIT_FENCE: the largest number that a double in the masters' scripts can represent
 * exactly, like all smaller ones. */
#define FENCE_AHEAD_US (2LL * 24 * 3600 * 1000 * 1000)
#define LIMIT_FENCE ((1LL << 53) - 1)

static_assert(LIMIT_MASTERS <= 16, "a set of masters is a uint16_t");
static_assert(ENTROPY_BYTES / 2 >= 2 * ENTROPY_BYTES_OF_EVENT,
              "a step must come on between two refills");
static_assert(TICKET_AHEAD_MS == 2 * CLOCK_TRUST_MS, "one may be fast and another one slow");
static_assert(EXPIRY_MARGIN_RENEWING_MS < EXPIRY_MARGIN_MS && EXPIRY_MARGIN_MS < LOST_MARGIN_MS_MIN,
              "a caller that can still act gets the report earlier");
static_assert(ROUNDS_MIN >= 1 && ROUNDS_MIN <= ROUNDS_FIRST && ROUNDS_FIRST <= LIMIT_ROUNDS,
              "the limit begins between its bounds");
static_assert(TTL_MS_MIN_AGENT >= TTL_MS_MIN, "the watchdog's floor is a floor");
static_assert(RELEASE_MS_MAX <= TTL_MS_MIN_AGENT / 3,
              "a master is repaired before the lease on the next one that goes is over");
static_assert(LIMIT_EFFECTS >= 64 && LIMIT_ITEMS >= 4 * LIMIT_BATCH, "one event must always fit");

#endif
