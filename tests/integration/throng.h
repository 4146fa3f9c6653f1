/* Many callers of one key, each over a connection of its own: it asks, holds, gives back, and
 * leaves or asks again. One loop drives all of them, so it sees every grant in order; one for whom
 * there is no room beside the valid holds of the others fails the test. */
#ifndef LOCKAGENT_TESTS_THRONG_H
#define LOCKAGENT_TESTS_THRONG_H

#include "harness.h"

enum { THRONG_MAX = 1024 };

enum throng_state { THRONG_ASKS, THRONG_HOLDS, THRONG_RELEASES, THRONG_LEFT };

struct throng_caller {
    struct agent *agent; /* where it asks */
    bool reads;
    bool again; /* asks again when it has given back; else it leaves */
    enum throng_state state;
    bool stranger; /* its agent was killed, and the one that it asks now does not know its hold */
    bool retried;  /* an earlier DELETE of its hold may have released it, wholly or in part */
    int wire;
    int slot; /* of a semaphore; else -1 */
    const char *token;
    int64_t valid_until_ms, ends_ms; /* of its hold: the validity it was told, and its own wish */
    unsigned turns;                  /* how often the key was its own */
};

struct throng {
    const char *key, *terms; /* the query with which all ask */
    int64_t hold_ms;
    size_t permits;       /* of those who do not read: how many may hold at once */
    struct agent *refuge; /* where those release whose agent is gone */
    size_t count, grants;
    struct throng_caller callers[THRONG_MAX];
};

/* One more caller comes, and asks at once. */
struct throng_caller *throng_join(struct throng *throng, struct agent *agent, bool reads,
                                  bool again);
/* Hears and does what is due, for at most `ms`. */
void throng_go_on(struct throng *throng, int64_t ms);
/* Goes on until as many have been granted the key in all, or for PATIENCE_MS without a grant. */
void throng_go_on_until(struct throng *throng, size_t grants);
/* The agent was killed: who asked there leaves, who held there holds on, and releases elsewhere,
 * again and again until an agent can say what became of its hold. */
void throng_loses(struct throng *throng, const struct agent *agent);
/* Nobody asks again; goes on until all have left. */
void throng_end(struct throng *throng);

#endif
