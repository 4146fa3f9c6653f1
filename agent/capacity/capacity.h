/* Compares the load of a fleet with the use that a master allows. A pure function of numbers. */
#ifndef LOCKAGENT_CAPACITY_CAPACITY_H
#define LOCKAGENT_CAPACITY_CAPACITY_H

#include <stdio.h>

/* The load of a fleet, and the use that a master allows. All values are finite and >= 0. */
struct capacity_load {
    double pods;          /* >= 1; each has an agent of its own, unless they share one per node */
    double pods_per_node; /* >= 1 */
    double holds;         /* Locks that each pod holds at once, renewed by the watchdog. */
    double rate;          /* Locks that each pod takes and gives back in a second. */
    double refused;       /* Calls of each pod in a second for held keys, which do not wait. */
    double reads;         /* Reads of keys by each pod in a second. */
    double waiters;       /* Callers of each pod that wait at the same time. */
    double keys;          /* Different keys that are ever taken; 0: each lock has a new key. */
    double ttl_ms;        /* > 0; the ttl of locks that the watchdog renews. */
    double core_share;    /* The share of one core that a master may use: > 0, at most 1. */
    double memory_bytes;  /* The memory that a master may use: > 0. */
    double connections;   /* The connections that a master may have: >= 1. */
};

/* The use of each master, with all keys in one group. */
struct capacity_use {
    double agents, connections;
    double locks_us, renewals_us, refused_us, reads_us, waiters_us, agents_us; /* in a second */
    double core_share;                                                         /* all of these */
    double lock_bytes, number_bytes, ticket_bytes, connection_bytes;
    double memory_bytes; /* all of these */
};

enum capacity_advice {
    CAPACITY_ONE_PER_POD,  /* An agent in every pod. */
    CAPACITY_ONE_PER_NODE, /* One agent per pod would use up the masters by its connections. */
    CAPACITY_TOO_MANY,     /* One agent per node would do so too: this is more than one fleet. */
};

struct capacity_plan {
    enum capacity_advice advice;
    double agents_max;       /* The most agents that masters can serve, for any number of groups. */
    struct capacity_use use; /* The use with as many agents as advised. */
    double groups;           /* Groups that carry the load; 0: there are too many agents. */
};

struct capacity_plan capacity_reckon(const struct capacity_load *load);

/* Prints the table of costs as Markdown, for docs/capacity.md. */
void capacity_print_markdown(FILE *out);

#endif
