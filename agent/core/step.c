/* The step: first what has expired, then the event (R14). */
#include "core.h"

#include "adopt.h"
#include "again.h"
#include "attempt.h"
#include "calls.h"
#include "contend.h"
#include "core_assert.h"
#include "debt.h"
#include "drain.h"
#include "events.h"
#include "key_table.h"
#include "lock_table.h"
#include "outbox.h"
#include "read.h"
#include "release.h"
#include "requests.h"
#include "state.h"
#include "watchdog.h"

static void lock_is_due(struct core *core, struct lock *lock)
{
    switch (lock->state) {
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
        if (lock->is_void)
            contend_anew(core, lock);
        else
            attempt_timer(core, lock);
        break;
    case LOCK_ADOPTING:
        adoption_timer(core, lock);
        break;
    case LOCK_HELD:
    case LOCK_LOST:
        watchdog_timer(core, lock);
        break;
    case LOCK_RELEASING:
        release_timer(core, lock);
        break;
    case LOCK_ENDED:
        debt_timer(core, lock);
        break;
    case LOCK_FREE:
        CORE_ASSERT(!"a free lock has no timer");
    }
}

static void request_is_due(struct core *core, struct core_request *request)
{
    if (request->state == REQUEST_READING)
        read_timer(core, request);
    else if (request->state == REQUEST_GUEST)
        call_guest_time_over(core, request);
    else if (request->state == REQUEST_RENEWING)
        again_time_over(core, request);
    else if (core->draining && request_attempt(request) == NULL)
        drain_refuses(core, request);
    else
        contend_wait_over(core, request);
}

static void timer_is_due(struct core *core, uint32_t timer)
{
    if (timer < core->locks_size)
        lock_is_due(core, lock_at(core, timer));
    else if (timer < core->locks_size + core->keys_size)
        contend_timer(core, &core->keys[timer - core->locks_size]);
    else
        request_is_due(core, &core->requests[timer - core->locks_size - core->keys_size]);
}

/* R14: whatever was due by now is observed before anything is done. False when the effects
 * filled up before all of it was. */
static bool observe_expired(struct core *core)
{
    CORE_ASSERT(core->effects != NULL);
    requests_settle(core);
    while (!instant_before(core->now, timers_due(&core->timers))) {
        if (!outbox_has_room(core))
            return false;
        uint32_t timer = timers_first(&core->timers);
        timers_clear(&core->timers, timer);
        timer_is_due(core, timer);
    }
    return outbox_has_room(core);
}

/* R14: a step that comes much later than it was asked for means that this process was stopped or
 * its loop was stuck. */
static void notice_lateness(struct core *core, const struct event *event)
{
    /* one set in the past is no stall */
    struct instant due = instant_max(core_next_deadline(core), core->now);
    int64_t late_us =
        core->started && due.us != INSTANT_NEVER.us ? instant_us_between(due, event->now) : 0;
    if (!core->unfinished)
        core->stalled = late_us > (int64_t)STALL_MS * 1000;
    if (core->stalled && !core->unfinished)
        outbox_effect(core, EFFECT_TRACE)->trace =
            (struct effect_trace){.kind = TRACE_STALLED, .elapsed_us = late_us};
}

bool core_step(struct core *core, const struct event *event, struct effects *effects)
{
    CORE_ASSERT(event != NULL && effects != NULL);
    CORE_ASSERT(core->effects == NULL);
    CORE_ASSERT(!core->started || !instant_before(event->now, core->now));
    effects->count = effects->item_count = 0;
    core->effects = effects;
    key_table_recycle(core);
    lock_table_recycle(core);
    notice_lateness(core, event);
    if (MUTANT(WALL_CLOCK_USED) && core->started)
        core->now = instant_after_us(
            core->now, event->wall_us > core->wall_us ? event->wall_us - core->wall_us : 0);
    else
        core->now = event->now;
    core->wall_us = event->wall_us;
    core->started = true;
    bool observed = MUTANT(LATE_CLOCK_ACTS) || observe_expired(core);
    bool taken = observed && event_take(core, event);
    if (taken && event->kind == EVENT_MASTER_CLOCK)
        taken = observe_expired(core); /* what it has ended; heard again, it shows no gain */
    if (MUTANT(LATE_CLOCK_ACTS))
        observe_expired(core);
    if (!taken || event->kind == EVENT_FLUSH)
        outbox_flush(core);
    core->effects = NULL;
    core->unfinished = !taken;
    return taken;
}

struct instant core_next_deadline(const struct core *core)
{
    if (!list_is_empty(&core->settled))
        return core->now;
    return instant_min(timers_due(&core->timers), timers_due(&core->renewals));
}
