/* The HTTP room: routes, parameters, JSON, problem+json, metrics and health pages. The only place
 * that knows libmicrohttpd. */
#ifndef LOCKAGENT_API_H
#define LOCKAGENT_API_H

#include <uv.h>

#include "agent/core/core.h"
#include "agent/metrics/metrics.h"
#include "agent/redis/redis.h"
#include "config/config.h"

struct api;

/* What the API needs of the agent. */
struct api_backend {
    void *arg;
    /* Hands an event to the core; the backend stamps the time. The answer may come from within the
     * call, through api_answer(). */
    void (*submit)(void *arg, struct event *event);
    struct instant (*now)(void *arg); /* CLOCK_BOOTTIME, read anew */
    const struct core *core;          /* to read holds, waits, policies and counters */
    const struct redis *redis;        /* for redis_master() */
    struct metrics *metrics;
    /* NULL when the agent is ready to serve locks; else why not, in one sentence: draining, or
     * groups without a quorum. */
    const char *(*not_ready)(void *arg);
};

/* Opens every listener of `config` (by reference; must outlive the room) and serves from `loop`.
 * NULL on failure, with the reason in `error`. */
struct api *api_start(uv_loop_t *loop, const struct config *config,
                      const struct api_backend *backend, char *error, size_t error_size);

/* An EFFECT_ANSWER for a request of this room. Re-checks validity with a fresh clock at the last
 * moment before the answer is written: a grant that has no validity left is answered
 * `validity_expired` and given back with EVENT_UNDELIVERED. */
void api_answer(struct api *api, const struct effect_answer *answer);

/* An EFFECT_TRACE of the core: tells the callers that watch the hold or are bound to it. */
void api_notify(struct api *api, const struct effect_trace *trace);

/* The reloadable part of the configuration changed (same struct, new values). */
void api_reload(struct api *api, const struct config *config);

/* From now on POST is answered `draining`, and /readyz 503. */
void api_drain(struct api *api);

/* Whether a call is open that waits for a lock, or whose answer is a stream. */
bool api_has_callers(const struct api *api);

/* How many requests wait for an answer. */
size_t api_unanswered(const struct api *api);

/* Stops accepting, answers what is left with `draining`, lets responses be written until `grace_ms`
 * at most, closes all. `done` is called when the loop holds no handle of the room any more; then
 * api_free(). */
void api_stop(struct api *api, int64_t grace_ms, void (*done)(void *arg), void *arg);
void api_free(struct api *api);

#endif
