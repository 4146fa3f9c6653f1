/* The scripts of the search: a small group, its agents, the faults that may occur, and how far each
 * is searched. */
#ifndef LOCKAGENT_TESTS_GUARD_SCRIPTS_H
#define LOCKAGENT_TESTS_GUARD_SCRIPTS_H

#include "tests/guard/world.h"

enum { AGENTS = 2, MASTERS_MOST = 5 };

enum fault {
    MAY_LOSE = 1,     /* connections and time */
    MAY_CRASH = 2,    /* agents */
    MAY_FLUSH = 4,    /* masters, as are all that follow */
    MAY_EMPTY = 8,    /* restart without their data */
    MAY_AGE = 16,     /* restart with old data, or a replica that lacks keys takes their place */
    MAY_RESTART = 32, /* with their data */
    MAY_REFUSE = 64,  /* to write */
    MAY_COPY = 128,   /* are filled with the data of another one */
    /* Requests in flight on an ending connection run later. No other connection is lost. */
    MAY_DELAY = 256,
};

struct script {
    const char *name, *what;
    uint8_t masters, quorum;     /* 0: three; more than half of them */
    const char *layouts[AGENTS]; /* NULL: the agents compare none */
    bool apart;                  /* The layouts are no neighbours. */
    bool slots;                  /* Agent 1 takes the lock under another key. */
    bool durable, is_new;
    unsigned faults;
    uint32_t max_ttl_ms[AGENTS]; /* 0: 1 s */
    uint8_t asks[AGENTS];        /* how often each takes the lock */
    master_set blocked[AGENTS];  /* masters that it never reaches */
    int64_t chaos_ms, calm_ms;
    uint8_t quick_bound, bound; /* as of the other scripts (explore.h) */
    struct counts least;        /* The search must have met so many events at least. */
};
extern const struct script scripts[];
extern const size_t script_count;

#endif
