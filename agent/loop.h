/* The event loop around the core: every event goes through here, is stamped with the time, and its
 * effects are delivered to the rooms. One alarm for the core's deadlines, one queue for events that
 * arise while effects are being delivered. */
#ifndef LOCKAGENT_LOOP_H
#define LOCKAGENT_LOOP_H

#include <uv.h>

#include "agent/core/core.h"
#include "agent/journal.h"
#include "agent/metrics/metrics.h"
#include "agent/redis/redis.h"
#include "config/config.h"

struct loop;

/* A random name for this process among the agents (D3). */
uint32_t loop_agent_name(void);

/* Builds the core for `config` with all its memory. `agent` names it on the masters:
 * loop_agent_name(), or what its journal says. NULL, with errno, when out of memory or file
 * descriptors. The loop does not own `uv`. */
struct loop *loop_new(uv_loop_t *uv, const struct config *config, struct metrics *metrics,
                      uint32_t agent);

/* What hears of the core. Both may be called while effects are being delivered, and borrow what
 * they are given. */
struct loop_sink {
    void *arg;
    void (*answer)(void *arg, const struct effect_answer *answer);
    /* NULL: metrics and log are enough. */
    void (*trace)(void *arg, const struct effect_trace *trace);
};

/* Where effects go; set before the first event. */
void loop_connect(struct loop *loop, struct redis *redis, const struct loop_sink *sink);

/* The journal that holds are noted in from now on; before the first event. Not owned. */
void loop_keep_journal(struct loop *loop, struct journal *journal);

/* Stamps `event`, takes it, and delivers the effects. From within a delivery the event waits until
 * the effects are delivered; it may then hold no pointers. */
void loop_submit(struct loop *loop, struct event *event);

/* What was sent is about to be written: rounds begin that wait for that. Never from within a
 * delivery. */
void loop_flush(struct loop *loop);

struct core *loop_core(struct loop *loop);

/* Takes the policies of `next`, of which `config` gets the values in this turn. False when out of
 * memory: then nothing has changed. */
MUST_CHECK bool loop_reload(struct loop *loop, const struct config *next);

/* Closes the alarm; loop_free() when the uv loop has run it down. */
void loop_stop(struct loop *loop);
void loop_free(struct loop *loop);

#endif
