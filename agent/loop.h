/* The event loop around the core. It stamps every event with the time, passes it to the core, and
 * delivers the effects to the rooms. It has one alarm for the core's deadlines, and one queue for
 * events that arise while effects are delivered. */
#ifndef LOCKAGENT_LOOP_H
#define LOCKAGENT_LOOP_H

#include <uv.h>

#include "agent/core/core.h"
#include "agent/journal.h"
#include "agent/metrics/metrics.h"
#include "agent/redis/redis.h"
#include "config/config.h"

struct loop;

/* Returns a random name for this process among the agents (D3.3). */
uint32_t loop_agent_name(void);

/* Builds the core for `config` with all its memory. `agent` is its name on the masters:
 * loop_agent_name(), or the name in its journal. Returns NULL, with errno, if there is not enough
 * memory or no file descriptor. The loop does not own `uv`. */
struct loop *loop_new(uv_loop_t *uv, const struct config *config, struct metrics *metrics,
                      uint32_t agent);

/* Receives the core's answers and traces, and the states of followed keys. The functions may be
 * called while effects are delivered. They borrow their arguments for the call. */
struct loop_sink {
    void *arg;
    void (*answer)(void *arg, const struct effect_answer *answer);
    /* NULL: no key is followed. */
    void (*followed)(void *arg, const struct effect_followed *now);
    /* NULL: traces go to the metrics and the log only. */
    void (*trace)(void *arg, const struct effect_trace *trace);
};

/* Sets the receivers of effects; before the first event. */
void loop_connect(struct loop *loop, struct redis *redis, const struct loop_sink *sink);

/* Sets the journal in which holds are noted from now on; before the first event. The loop does not
 * own it. */
void loop_keep_journal(struct loop *loop, struct journal *journal);

/* Stamps `event`, passes it to the core, and delivers the effects. During a delivery, `event` is
 * copied and waits for the end of the delivery; it must not hold pointers then. */
void loop_submit(struct loop *loop, struct event *event);

/* Begins the rounds that wait until their bytes are about to be written (R16). Never called during
 * a delivery. */
void loop_flush(struct loop *loop);

/* Logs that a group lost its quorum, or has it again (the `quorum` of a redis_sink). */
void loop_log_quorum(const struct config *config, uint8_t group,
                     const struct redis_group_view *view);

struct core *loop_core(struct loop *loop);

/* Passes the policies of `next` to the core. The caller copies `next` into `config` in the same
 * iteration of the loop. Returns false if there is not enough memory; nothing has changed then. */
MUST_CHECK bool loop_reload(struct loop *loop, const struct config *next);

/* Closes the alarm and the other handles. Call loop_free() when the uv loop has closed them. */
void loop_stop(struct loop *loop);
void loop_free(struct loop *loop);

#endif
