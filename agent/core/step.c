/* The step: first handles everything that has expired, then the event (R14). */
#include "core.h"

#include "core_assert.h"
#include "internal.h"
#include "state.h"

/* ---- events ---- */

/* Returns the reply with the vote that it counts as. */
static struct event_reply judged(struct core *core, const struct lock *lock,
                                 const struct event_reply *reply)
{
    struct event_reply counts = *reply;
    if (counts.is_native && lock->state == LOCK_ACQUIRING)
        counts.fence = lock->pending->proposed;
    if (!lease_counts(core, lock, reply))
        counts.vote = VOTE_REPAIRED;
    /* R24: the master has found the key and extended it. Only native commands set keys that do not
     * count. */
    bool always_counts = !form_is_native(lock->key->form) || MUTANT(UNCOUNTED_COUNTS);
    if (reply->op == OP_RESUME && reply->vote == VOTE_GUARDED && always_counts)
        counts.vote = VOTE_YES;
    bool grants = (reply->op == OP_ACQUIRE || reply->op == OP_HANDOVER) && counts.vote == VOTE_YES;
    /* No grant has the number 0 (R12). */
    bool is_none = lock->fencing && reply->fence == 0 && !reply->is_native;
    if (grants && (is_none || fence_is_wild(core, lock->group, reply->fence)))
        counts.vote = VOTE_SPOILED;
    if (MUTANT(SLOTS_COUNTED) && reply->vote == VOTE_TAKEN &&
        set_size((master_set)reply->occupant.taken) < lock->key->permits)
        counts.vote = VOTE_YES, counts.fence = fence_propose(core, lock->group);
    return counts;
}

/* Passes a reply to its lock. Everything due by now has been handled before (R14). */

static void replied(struct core *core, const struct event_reply *reply)
{
    CORE_ASSERT(reply->group < core->group_count && reply->master < LIMIT_MASTERS);
    if (reply->vote != VOTE_UNKNOWN && reply->vote != VOTE_NOT_SENT)
        core->groups[reply->group].masters[reply->master].heard_at = core->now;
    if (reply->op == OP_WITHDRAW)
        return; /* A ticket that was not withdrawn runs out. */
    if (reply->op == OP_READ) {
        CORE_ASSERT(reply->ref.slot < core->requests_max);
        struct core_request *request = &core->requests[reply->ref.slot];
        if (request->state == REQUEST_READING && request->generation == reply->ref.generation)
            read_reply(core, request, reply);
        return;
    }
    struct lock *lock = lock_by_ref(core, reply->ref);
    if (lock == NULL)
        return;
    if (reply->op == OP_HANDOVER) {
        release_inherited(core, lock, reply);
        /* It had ended, and was freed to make room for its predecessor. */
        if (lock->state == LOCK_FREE)
            return;
    }
    const struct event_reply counts = judged(core, lock, reply);
    reply = &counts;
    lease_heard(core, lock, reply);
    ticket_answered(core, lock, reply);
    switch (lock->state) {
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
        attempt_reply(core, lock, reply);
        if (lock->state == LOCK_HELD && lock->key->form == FORM_SHARED)
            holds_make_way(core, lock->key, lock);
        break;
    case LOCK_ADOPTING:
        adoption_reply(core, lock, reply);
        break;
    case LOCK_HELD:
        watchdog_reply(core, lock, reply);
        break;
    case LOCK_RELEASING:
    case LOCK_ENDED:
        release_reply(core, lock, reply);
        break;
    case LOCK_LOST: /* Replies come too late for it. */
        break;
    case LOCK_FREE:
        CORE_ASSERT(!"lock_by_ref finds no free lock");
    }
}

/* Handles the replies of one command. Returns false if the effects are full; the rest is handled in
 * the next step. */
static bool all_replied(struct core *core, const struct event_reply *replies, uint16_t count)
{
    CORE_ASSERT(count <= LIMIT_BATCH && core->heard < count);
    for (; core->heard < count; core->heard++) {
        if (!outbox_has_room(core))
            return false;
        replied(core, &replies[core->heard]);
    }
    core->heard = 0;
    return true;
}

static void master_changed(struct core *core, enum event_kind kind,
                           const struct event_master *event)
{
    CORE_ASSERT(event->group < core->group_count);
    struct group *group = &core->groups[event->group];
    CORE_ASSERT(event->master < group->config.masters);
    struct core_master *master = &group->masters[event->master];
    if (kind == EVENT_FENCE_FLOOR) {
        fence_learns_floor(core, event->group, event->floor);
        return;
    }
    if (kind == EVENT_MASTER_DOWN) {
        master->up = false;
        group->up &= (master_set)~set_of(event->master);
        return;
    }
    master->clock_known = true;
    master->wall_ahead_us = core->wall_us + event->clock_offset_us - core->now.us;
    if (kind == EVENT_MASTER_CLOCK)
        clocks_heard(core, event->group, event->master, &event->reading);
    if (kind == EVENT_MASTER_UP) {
        CORE_ASSERT(event->epoch != 0);
        master->up = true;
        if (master->epoch != event->epoch)
            master->epoch_since = core->now;
        master->epoch = event->epoch;
        group->up |= set_of(event->master);
        debt_master_up(core, event->group, event->master);
    }
}

static void channel_changed(struct core *core, enum event_kind kind,
                            const struct event_channel *event)
{
    if (kind == EVENT_SUBSCRIBED)
        wake_subscribed(core, event);
    else if (kind == EVENT_UNSUBSCRIBED)
        wake_unsubscribed(core, event);
    else
        wake_message(core, event);
}

/* Handles the event. Returns false if the effects are full; the rest of the replies is handled in
 * the next step. */
MUST_CHECK static bool event_take(struct core *core, const struct event *event)
{
    CORE_ASSERT(core->heard == 0 || event->kind == EVENT_REPLIES);
    switch (event->kind) {
    case EVENT_TIME:
        watchdog_renews(core);
        break;
    case EVENT_FLUSH:
        contend_admitted(core);
        call_guests_admitted(core);
        break;
    case EVENT_ACQUIRE:
        call_acquire(core, &event->acquire);
        break;
    case EVENT_RENEW:
        call_renew(core, &event->renew);
        break;
    case EVENT_RELEASE:
        call_release(core, &event->release);
        break;
    case EVENT_RESTORE:
        call_restore(core, &event->restore);
        break;
    case EVENT_READ:
        call_read(core, &event->read);
        break;
    case EVENT_CANCEL:
        call_cancel(core, event->cancel.request);
        break;
    case EVENT_UNDELIVERED:
        call_undelivered(core, event->undelivered.lock);
        break;
    case EVENT_DELIVERED:
        call_delivered(core, event->delivered.lock);
        break;
    case EVENT_STUCK:
        call_stuck(core, event->stuck.lock);
        break;
    case EVENT_REPLIES:
        return all_replied(core, event->replies.at, event->replies.count);
    case EVENT_MASTER_UP:
    case EVENT_MASTER_DOWN:
    case EVENT_MASTER_CLOCK:
    case EVENT_FENCE_FLOOR:
        master_changed(core, event->kind, &event->master);
        break;
    case EVENT_SUBSCRIBED:
    case EVENT_UNSUBSCRIBED:
    case EVENT_MESSAGE:
        channel_changed(core, event->kind, &event->channel);
        break;
    case EVENT_DRAIN:
        drain_begun(core);
        break;
    case EVENT_END:
        drain_ends(core, event->end.release);
        break;
    }
    return true;
}

/* ---- the step ---- */

static void lock_is_due(struct core *core, struct lock *lock)
{
    switch (lock->state) {
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
        if (lock->is_void)
            attempt_voided(core, lock);
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
    else if (request->state == REQUEST_FOLLOWING)
        call_look_is_due(core, request);
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
    if (timer < core->locks_size) {
        lock_is_due(core, lock_at(core, timer));
    } else if (timer < core->locks_size + core->keys_size) {
        if (!MUTANT(WAITER_FORGOTTEN)) /* Its next attempt is not planned any more. */
            key_touched(core, &core->keys[timer - core->locks_size]);
    } else {
        request_is_due(core, &core->requests[timer - core->locks_size - core->keys_size]);
    }
}

/* Handles everything that is due by now, before the event (R14). Returns false if the effects are
 * full. */
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
    if (core->keys_touched != NULL)
        contend_decide(core);
    return outbox_has_room(core);
}

/* Notes a stall: a step that comes much later than its deadline means that this process was stopped
 * or its loop was late (R14). */
static void notice_lateness(struct core *core, const struct event *event)
{
    /* A deadline in the past is no stall. */
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
        /* First handles everything that the gain has ended. If the event comes again, it shows no
         * gain. */
        taken = observe_expired(core);
    if (MUTANT(LATE_CLOCK_ACTS))
        observe_expired(core);
    if (core->keys_touched != NULL)
        contend_decide(core);
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
