/* State transitions, for metrics and logs: what the core tells of itself beside its answers. */
#ifndef LOCKAGENT_CORE_TRACE_H
#define LOCKAGENT_CORE_TRACE_H

#include "types.h"

enum trace_kind {
    /* one acquire round was decided: answer is GRANTED, LOCK_HELD, QUORUM_UNAVAILABLE or
     * VALIDITY_EXPIRED */
    TRACE_ATTEMPT,
    TRACE_GRANTED, /* a hold began */
    /* answer RENEWED; margin_us is the validity that was left when the renewal completed;
     * valid_until the new one */
    TRACE_RENEWED,
    TRACE_RENEW_FAILED, /* one renewal round did not reach a quorum */
    /* a hold ended with `reason`; nobody else has it before valid_until, unless it was taken */
    TRACE_LOST,
    TRACE_RELEASED,     /* a hold ended by DELETE, or its grant could not be delivered */
    TRACE_DEBT_DROPPED, /* a release that a master still owed was given up before the ttl ran out */
    /* `master` holds a key of another type under a lock's name, or `spoiled`: no possible number
     * in its fence key */
    TRACE_FOREIGN,
    TRACE_STALLED, /* this process was late by elapsed_us (R14) */
    /* the clock of `master` gained elapsed_us on this agent's: it jumped, or this agent was paused
     * together with its clocks (R14) */
    TRACE_CLOCK_GAINED,
};
struct effect_trace {
    enum trace_kind kind;
    struct lock_ref lock; /* as in the answer that granted it; ATTEMPT, STALLED: unused */
    struct text key, label;
    uint16_t policy;
    uint8_t group, master;
    enum answer answer;
    enum reason reason;
    enum cause cause; /* ATTEMPT, GRANTED */
    uint64_t fence;
    bool adopted;     /* GRANTED */
    uint8_t permit;   /* of a semaphore: as in its token; else 0 */
    uint8_t attempts; /* GRANTED of a semaphore: of the search that found the slot; else 0 */
    bool spoiled;     /* FOREIGN */
    bool resumed;     /* RENEW_FAILED: the first round of a hold out of a journal */
    /* ATTEMPT: of the round; GRANTED: since the request came; LOST, RELEASED: of the hold;
     * STALLED: how late; CLOCK_GAINED: how much */
    int64_t elapsed_us;
    int64_t queued_us;          /* ATTEMPT: how long its round waited for a place before (R16) */
    int64_t margin_us;          /* RENEWED */
    uint32_t ttl_ms;            /* RENEWED: the lease that margin_us was left of; 0: not told */
    struct instant valid_until; /* RENEWED, LOST: of the hold */
};

#endif
