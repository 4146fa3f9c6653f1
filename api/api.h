/* The HTTP room: routes, parameters, JSON, problem+json, metrics and health pages. The only room
 * that knows libmicrohttpd. */
#ifndef LOCKAGENT_API_H
#define LOCKAGENT_API_H

#include <uv.h>

#include "agent/core/core.h"
#include "agent/metrics/metrics.h"
#include "agent/redis/redis.h"
#include "config/config.h"

struct api;

/* The functions and objects of the agent that the API uses. */
struct api_backend {
    void *arg;
    /* Passes an event to the core; the backend stamps the time. The answer may come before the call
     * returns, through api_answer(). */
    void (*submit)(void *arg, struct event *event);
    struct instant (*now)(void *arg); /* Returns the time on CLOCK_BOOTTIME, read anew. */
    const struct core *core;          /* For holds, waits, policies and counters; only read. */
    const struct redis *redis;        /* For redis_master(). */
    struct metrics *metrics;
    /* Returns NULL if the agent is ready to serve locks. Otherwise one sentence that says why not:
     * it is draining, or groups have no quorum. */
    const char *(*not_ready)(void *arg);
};

/* Opens every listener of `config`, which is kept by reference and must outlive the room, and
 * serves from `loop`. Returns NULL, with the reason in `error`, if that fails. */
struct api *api_start(uv_loop_t *loop, const struct config *config,
                      const struct api_backend *backend, char *error, size_t error_size);

/* Takes an EFFECT_ANSWER for a request of this room. Checks the validity with a fresh clock right
 * before the answer is written. A grant without validity is answered `validity_expired` and given
 * back with EVENT_UNDELIVERED. */
void api_answer(struct api *api, const struct effect_answer *answer);

/* Takes an EFFECT_TRACE of the core, and reports it to callers that watch the hold or are bound to
 * it. */
void api_notify(struct api *api, const struct effect_trace *trace);

/* Takes an EFFECT_FOLLOWED of the core, and reports it to the callers that follow the key. */
void api_followed(struct api *api, const struct effect_followed *now);

/* Returns false, with the reason in `error`, if the token file of the configuration cannot be
 * read. */
bool api_reads_token(const struct config *config, char *error, size_t error_size);

/* Takes over the reloadable part of the configuration: the same struct with new values. */
void api_reload(struct api *api, const struct config *config);

/* Makes the API answer every POST with `draining`, and /readyz with 503, from now on. */
void api_drain(struct api *api);

/* Returns true if a call is open that waits for a lock, or that is answered with a stream of a
 * hold. */
bool api_has_callers(const struct api *api);

/* Returns the number of keys that are followed. */
size_t api_followed_keys(const struct api *api);

/* Returns the number of requests that wait for an answer. */
size_t api_unanswered(const struct api *api);

/* Stops accepting connections, answers the open requests with `draining`, and lets responses be
 * written for at most `grace_ms`. Then closes all. `done` is called when the loop has no handle of
 * the room any more; then call api_free(). */
void api_stop(struct api *api, int64_t grace_ms, void (*done)(void *arg), void *arg);
void api_free(struct api *api);

#endif
