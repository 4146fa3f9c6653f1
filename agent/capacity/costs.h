/* The cost for a master of each operation of agents, as measured by tests/bench/costs.py. This
 * table is the only place of the figures: the plan reckons by it, docs/capacity.md shows it. */
#ifndef LOCKAGENT_CAPACITY_COSTS_H
#define LOCKAGENT_CAPACITY_COSTS_H

/* X(NAME, value, unit, meaning) */
#define CAPACITY_COSTS(X)                                                                          \
    X(ACQUIRE_US, 28, "us", "an acquire, with its number and the guard")                           \
    X(RELEASE_US, 25, "us", "a release")                                                           \
    X(REFUSAL_US, 35, "us", "a call that does not wait, for a key that another agent holds")       \
    X(READ_US, 29, "us", "GET of a key that another agent holds")                                  \
    X(RENEWAL_US, 8, "us", "a renewal by the watchdog, of those that one call renews")             \
    X(RENEWALS_A_TTL, 3.3, "times", "how often the watchdog renews a hold within its ttl (R8)")    \
    X(WAITER_US, 46, "us", "a caller that waits for a key of its own, each second")                \
    X(AGENT_US, 160, "us", "an agent that is there, each second")                                  \
    X(LOCK_BYTES, 226, "bytes", "a key that is held, with a name of 23 bytes")                     \
    X(BUCKET_BYTES, 125, "bytes", "a bucket of fencing numbers; 16,384 at most")                   \
    X(TICKET_BYTES, 150, "bytes", "the ticket of an agent whose callers wait, with order: fair")   \
    X(CONNECTION_BYTES, 24000, "bytes", "a connection of an agent")

enum capacity_cost {
#define CAPACITY_COST_NAME(name, value, unit, meaning) CAPACITY_##name,
    CAPACITY_COSTS(CAPACITY_COST_NAME)
#undef CAPACITY_COST_NAME
};

#endif
