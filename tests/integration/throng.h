/* Many callers of one key, each over a connection of its own: it asks, holds, gives back, and
 * leaves or asks again. One loop drives all of them, so it sees every grant in order; a grant
 * without room beside the valid holds of the others fails the test. */
#ifndef LOCKAGENT_TESTS_THRONG_H
#define LOCKAGENT_TESTS_THRONG_H

#include "harness.h"

enum { THRONG_MAX = 1024 };

enum throng_state { THRONG_ASKS, THRONG_HOLDS, THRONG_RELEASES, THRONG_LEFT };

struct throng_caller {
    struct agent *agent; /* the agent that it asks */
    bool reads;
    bool again; /* asks again when it has given back; otherwise it leaves */
    enum throng_state state;
    bool stranger; /* its agent was killed, and the one that it asks now does not know its hold */
    bool retried;  /* an earlier DELETE of its hold may have released it, wholly or in part */
    int wire;
    int slot; /* slot of a semaphore; otherwise -1 */
    const char *token;
    int64_t valid_until_ms, ends_ms; /* the validity that its hold was told, and its own wish */
    unsigned turns;                  /* how often the key was its own */
};

struct throng {
    const char *key, *terms; /* the query with which all ask */
    int64_t hold_ms;
    size_t permits;       /* number of callers that do not read and may hold at once */
    struct agent *refuge; /* callers release at this agent if their own one is gone */
    size_t count, grants;
    struct throng_caller callers[THRONG_MAX];
};

/* One more caller comes, and asks at once. */
struct throng_caller *throng_join(struct throng *throng, struct agent *agent, bool reads,
                                  bool again);
/* Reads replies and performs due actions, for at most `ms`. */
void throng_go_on(struct throng *throng, int64_t ms);
/* Goes on until as many have been granted the key in all, or for PATIENCE_MS without a grant. */
void throng_go_on_until(struct throng *throng, size_t grants);
/* The agent was killed: callers that asked there leave. Callers that held there hold on, and
 * release elsewhere, again and again until an agent knows the end of their hold. */
void throng_loses(struct throng *throng, const struct agent *agent);
/* Stops further requests, and goes on until all have left. */
void throng_end(struct throng *throng);

#endif
