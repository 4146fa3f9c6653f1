/* The event loop around the core: every event goes through here, is stamped with the time, and its effects are
 * delivered to the rooms. One timer of the core's, one queue for events that arise while effects are being delivered.
 */
#ifndef LOCKAGENT_LOOP_H
#define LOCKAGENT_LOOP_H

#include <uv.h>

#include "agent/core/core.h"
#include "agent/journal.h"
#include "agent/metrics.h"
#include "agent/redis/redis.h"
#include "config/config.h"

struct loop;

/* CLOCK_BOOTTIME and CLOCK_REALTIME, read now. */
struct instant clock_now(void);
int64_t clock_wall_us(void);

/* Builds the core for `config` with all its memory. NULL when out of memory. The loop does not own `uv`. */
struct loop *loop_new(uv_loop_t *uv, const struct config *config, struct metrics *metrics);

/* Who asks the core, and what it is told: both may be called while effects are being delivered, and borrow what they are given. */
struct loop_sink {
    void *arg;
    void (*answer)(void *arg, const struct effect_answer *answer);
    void (*trace)(void *arg, const struct effect_trace *trace); /* NULL: metrics and log are enough */
};

/* Where effects go; set before the first event. */
void loop_connect(struct loop *loop, struct redis *redis, const struct loop_sink *sink);

/* The journal that holds are noted in from now on; before the first event. Not owned. */
void loop_keep_journal(struct loop *loop, struct journal *journal);

/* Stamps `event`, takes it, and delivers the effects. From within a delivery the event waits until the effects are
 * delivered; it may then hold no pointers. */
void loop_submit(struct loop *loop, struct event *event);

struct core *loop_core(struct loop *loop);

/* The policies of `config` have changed (same struct, new values). */
void loop_reload(struct loop *loop);

/* Closes the timer; loop_free() when the uv loop has run it down. */
void loop_stop(struct loop *loop);
void loop_free(struct loop *loop);

#endif
