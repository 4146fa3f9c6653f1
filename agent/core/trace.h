/* State transitions for metrics and logs, beside the answers. */
#ifndef LOCKAGENT_CORE_TRACE_H
#define LOCKAGENT_CORE_TRACE_H

#include "types.h"

enum trace_kind {
    /* An acquire round was decided. `answer` is GRANTED, LOCK_HELD, QUORUM_UNAVAILABLE or
     * VALIDITY_EXPIRED. */
    TRACE_ATTEMPT,
    TRACE_GRANTED, /* A hold began. */
    /* A hold was renewed. `answer` is RENEWED. `margin_us` is the validity that was left,
     * `valid_until` the new one. */
    TRACE_RENEWED,
    TRACE_RENEW_FAILED, /* A renewal round did not reach a quorum. */
    /* A hold ended with `reason`. No other caller has it before `valid_until`, unless it was
     * taken. */
    TRACE_LOST,
    TRACE_RELEASED,     /* A hold ended by DELETE, or its grant could not be delivered. */
    TRACE_DEBT_DROPPED, /* A release that a master is owed was dropped before the ttl ran out. */
    /* `master` has a key of another type with a lock's name. `spoiled`: its number is
     * invalid, or if `tickets` is true, its key of the tickets has another type (R9). */
    TRACE_FOREIGN,
    TRACE_STALLED, /* This process was late by `elapsed_us` (R14). */
    /* The clock of `master` gained `elapsed_us` on this agent's. It jumped, or this agent was
     * paused together with its clocks (R14). */
    TRACE_CLOCK_GAINED,
};
struct effect_trace {
    enum trace_kind kind;
    struct lock_ref lock; /* As in the answer that granted it. ATTEMPT, STALLED: not used. */
    struct text key, label;
    uint16_t policy;
    uint8_t group, master;
    enum answer answer;
    enum reason reason;
    enum cause cause; /* ATTEMPT, GRANTED */
    uint64_t fence;
    bool adopted;     /* GRANTED */
    uint8_t slot;     /* The slot of a semaphore's token. Otherwise 0. */
    uint8_t attempts; /* GRANTED of a semaphore: attempts of the search that found the slot.
                       * Otherwise 0. */
    bool spoiled;     /* FOREIGN */
    bool tickets;     /* FOREIGN, if `spoiled` is true. */
    bool resumed;     /* RENEW_FAILED: the first round of a hold from a journal. */
    bool failing;     /* RENEW_FAILED, RENEWED: the renewal before this one failed too. */
    /* ATTEMPT: duration of the round. GRANTED: time since the request came. LOST, RELEASED:
     * duration of the hold (-1: it is another agent's). STALLED: lateness. CLOCK_GAINED: gain. */
    int64_t elapsed_us;
    int64_t queued_us;          /* ATTEMPT: time that its round waited to begin (R16). */
    int64_t margin_us;          /* RENEWED */
    uint32_t ttl_ms;            /* RENEWED: the lease that was renewed; 0: not known. */
    struct instant valid_until; /* RENEWED, LOST: the validity of the hold. */
};

#endif
