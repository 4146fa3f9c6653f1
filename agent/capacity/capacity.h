/* Compares the load of a fleet with the use that a master allows. A pure function of numbers. */
#ifndef LOCKAGENT_CAPACITY_CAPACITY_H
#define LOCKAGENT_CAPACITY_CAPACITY_H

#include <stdio.h>

/* The load of a fleet, and the use that a master allows. All values are finite and >= 0. */
struct capacity_load {
    double pods;          /* >= 1; each has an agent of its own, unless they share one per node */
    double pods_per_node; /* >= 1 */
    double holds;         /* locks that each pod holds at once, renewed by the watchdog */
    double rate;          /* locks that each pod takes and gives back in a second */
    double refused;       /* calls of each pod in a second for held keys, which do not wait */
    double reads;         /* looks of each pod at keys in a second */
    double waiters;       /* callers of each pod that wait at once */
    double keys;         /* different ones taken within the retention; 0: each lock has a new one */
    double ttl_ms;       /* > 0; the ttl of locks that the watchdog renews. */
    double retention_ms; /* A number is remembered for this long. */
    double core_share;   /* The share of one core that a master may use: > 0, at most 1. */
    double memory_bytes; /* The memory that a master may use: > 0. */
    double connections;  /* The connections that a master may have: >= 1. */
};

/* The use of each master, with all keys in one group. */
struct capacity_use {
    double agents, connections;
    double locks_us, renewals_us, refused_us, reads_us, waiters_us, agents_us; /* in a second */
    double core_share;                                                         /* all of these */
    double lock_bytes, fence_bytes, ticket_bytes, connection_bytes;
    double memory_bytes; /* all of these */
};

enum capacity_advice {
    CAPACITY_ONE_PER_POD,  /* an agent in every pod */
    CAPACITY_ONE_PER_NODE, /* as many agents as pods would use up the masters by being there */
    CAPACITY_TOO_MANY,     /* so would one agent per node: this is more than one fleet */
};

struct capacity_plan {
    enum capacity_advice advice;
    double agents_max;       /* The most agents that masters can serve, for any number of groups. */
    struct capacity_use use; /* The use with as many agents as advised. */
    double groups;           /* The number of groups that carry the load; 0: none does, as there are
                              * too many agents. */
};

struct capacity_plan capacity_reckon(const struct capacity_load *load);

/* The table of costs as Markdown, for docs/capacity.md. */
void capacity_print_markdown(FILE *out);

#endif
