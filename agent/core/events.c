/* What each event does: requests, the end of callers, replies, masters, the end of the agent. Whatever was due by then has been observed
 * before (R14). */
#include "core.h"

#include <string.h>

#include "core_assert.h"
#include "state.h"

/* As in Redisson: a caller that names a ttl gets a plain lease, one that names none the watchdog; so does one that is bound. */
static enum renew renew_of(const struct event_acquire *event, const struct core_policy *policy)
{
    if (event->renew != RENEW_UNSET)
        return event->renew;
    if (event->bound)
        return RENEW_AGENT;
    return event->ttl_ms != 0 ? RENEW_CALLER : policy->renew;
}

static void take_terms(struct request *request, const struct event_acquire *event, const struct core_policy *policy)
{
    request->ttl_ms = event->ttl_ms != 0 ? event->ttl_ms : policy->ttl_ms;
    request->renew = renew_of(event, policy);
    request->bound = event->bound;
    request->max_hold_ms = event->bound ? policy->bound_max_hold_ms : policy->max_hold_ms;
    if (event->max_hold_ms != 0 && event->max_hold_ms < request->max_hold_ms)
        request->max_hold_ms = event->max_hold_ms;
    CORE_ASSERT(event->label.len <= LIMIT_LABEL_BYTES);
    request->label_len = (uint8_t)event->label.len;
    if (event->label.len > 0)
        memcpy(request->label, event->label.at, event->label.len);
    secret_take(&request->idempotency, event->idempotency);
    request->terms = idempotency_terms(event);
    if (policy->reentrant)
        secret_take(&request->owner, event->owner);
}

/* Who asks for what it has already is answered also while the agent drains: that is no new lock. */
static void acquire(struct core *core, const struct event_acquire *event)
{
    struct effect_answer refusal;
    struct key *key = key_get(core, event->key);
    if (key == NULL) {
        request_refuse(core, event->request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct request *request = request_new(core, event->request, key);
    int64_t wait_ms = event->wait_ms < core->wait_ms_max ? event->wait_ms : core->wait_ms_max;
    take_terms(request, event, &core->policies[key->policy]);
    if (idempotency_settles(core, request, wait_ms) || reentry_takes(core, request))
        return;
    if (core->draining && !MUTANT(DRAIN_GRANTS))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    else if (policy_allows_ttl(core, key, request->ttl_ms, request->renew, &refusal))
        queue_join(core, key, request, wait_ms);
    else
        request_answer(core, request, refusal);
}

/* What a PUT of a lock that this agent knows comes to. */
static void renew_known(struct core *core, struct lock *lock, struct request *request)
{
    struct effect_answer refusal;
    uint32_t ttl_ms = request->ttl_ms != 0 ? request->ttl_ms : lock->ttl_ms;
    enum renew renew = request->renew != RENEW_UNSET ? request->renew : lock->renew;
    if (lock->state == LOCK_LOST || (lock->state == LOCK_ENDED && lock->reason != REASON_NONE))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
    else if (lock->state != LOCK_HELD)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_NOT_HELD});
    else if (!policy_allows_ttl_of(core, lock, ttl_ms, renew, &refusal))
        request_answer(core, request, refusal);
    else
        hold_renew(core, lock, request);
}

/* True while this agent holds the key with another token: the masters need not be asked. */
static bool is_held_here(const struct core *core, const struct key *key)
{
    return key->live != NULL && lock_is_held(core, key->live);
}

static void renew(struct core *core, const struct event_renew *event)
{
    struct effect_answer refusal;
    struct key *key = key_get(core, event->key);
    if (key == NULL) {
        request_refuse(core, event->request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct request *request = request_new(core, event->request, key);
    request->ttl_ms = event->ttl_ms;
    struct lock *lock = lock_by_token(key, &event->token);
    request->renew = lock != NULL && lock->bound ? RENEW_AGENT : event->renew; /* D3: its connection is open still */
    uint32_t ttl_ms = event->ttl_ms != 0 ? event->ttl_ms : core->policies[key->policy].ttl_ms;
    if (lock != NULL)
        renew_known(core, lock, request);
    else if (is_held_here(core, key))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
    else if (core->draining)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    else if (!policy_allows_ttl(core, key, ttl_ms, event->renew, &refusal))
        request_answer(core, request, refusal);
    else
        adoption_begun(core, key, request, &event->token);
}

static void release_known(struct core *core, struct lock *lock, struct request *request)
{
    switch (lock->state) {
    case LOCK_HELD:
        if (reentry_left(core, lock))
            request_answer(core, request, answer_for_lock(ANSWER_RELEASED, lock));
        else
            release_begun(core, lock, request);
        break;
    case LOCK_RELEASING:
        request->state = REQUEST_RELEASING;
        list_append(&lock->requests, &request->link);
        break;
    case LOCK_LOST: /* the holder gives it up before its validity has ended: its keys need not wait */
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
        if (!reentry_left(core, lock))
            release_begun(core, lock, /* request= */ NULL);
        break;
    case LOCK_ENDED:
        if (lock->reason != REASON_NONE)
            request_answer(core, request, (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
        else
            request_answer(
                core, request,
                answer_for_lock(release_is_pending(core, lock) ? ANSWER_RELEASE_PENDING : ANSWER_NOT_HELD, lock));
        break;
    case LOCK_FREE:
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
    case LOCK_ADOPTING:
        CORE_ASSERT(!"a lock that callers can name");
    }
}

static void release_by_idempotency(struct core *core, struct key *key, struct request *request, struct text text)
{
    struct secret secret = {0};
    secret_take(&secret, text);
    struct lock *lock = idempotency_released(core, key, &secret);
    if (lock == NULL)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
    else
        release_known(core, lock, request);
}

static void release(struct core *core, const struct event_release *event)
{
    struct key *key = key_get(core, event->key);
    if (key == NULL) {
        request_refuse(core, event->request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct request *request = request_new(core, event->request, key);
    if (event->idempotency.len > 0) {
        release_by_idempotency(core, key, request, event->idempotency);
        return;
    }
    struct lock *lock = lock_by_token(key, &event->token);
    if (lock != NULL)
        idempotency_use_up(core, lock);
    if (lock != NULL)
        release_known(core, lock, request);
    else if (is_held_here(core, key))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
    else {
        adoption_released(core, key, &event->token);
        release_of_stranger(core, key, request, &event->token);
    }
}

static void read_state(struct core *core, const struct event_read *event)
{
    struct key *key = key_get(core, event->key);
    if (key == NULL)
        request_refuse(core, event->request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
    else
        read_begun(core, key, request_new(core, event->request, key));
}

static void restore(struct core *core, const struct event_restore *event)
{
    struct key *key = key_get(core, event->key);
    if (key == NULL)
        return;
    key->references++;
    hold_restored(core, key, event);
    key_release(core, key);
}

/* A caller that goes away while it waits is never granted the lock. A release or renewal that it asked for goes on. */
static void cancel(struct core *core, uint32_t number)
{
    CORE_ASSERT(number < core->requests_max);
    struct request *request = &core->requests[number];
    if (request->state == REQUEST_FREE)
        return;
    struct key *key = request->key;
    bool queued = request->state == REQUEST_WAITING || request->state == REQUEST_ONCE;
    struct lock *live = key->live;
    bool contends = queued && live != NULL && live->contender == number;
    if (contends && MUTANT(GRANT_AFTER_CANCEL))
        return;
    key->references++;
    request_forget(core, request);
    if (contends)
        attempt_abandoned(core, live);
    if (queued)
        queue_left(core, key);
    key_release(core, key);
}

static void undelivered(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock != NULL && (lock->state == LOCK_HELD || lock->state == LOCK_LOST) && !idempotency_keeps(lock) &&
        !reentry_left(core, lock) && !(lock->bound && MUTANT(BOUND_OUTLIVES_CALLER)))
        release_begun(core, lock, /* request= */ NULL);
}

static void stuck(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock != NULL && lock->state == LOCK_HELD)
        hold_lost(core, lock, REASON_STUCK);
}

static void replied(struct core *core, const struct event_reply *reply)
{
    if (reply->op == OP_WITHDRAW)
        return; /* what was not withdrawn runs out */
    if (reply->op == OP_READ) {
        CORE_ASSERT(reply->ref.slot < core->requests_max);
        struct request *request = &core->requests[reply->ref.slot];
        if (request->state == REQUEST_READING && request->generation == reply->ref.generation &&
            request->round.number == reply->ref.round)
            read_reply(core, request, reply);
        return;
    }
    struct lock *lock = lock_by_ref(core, reply->ref);
    if (lock == NULL)
        return;
    if (reply->op == OP_HANDOVER) {
        release_inherited(core, lock, reply);
        if (lock->state == LOCK_FREE) /* it ended before, and has made room for its predecessor */
            return;
    }
    hold_heard(core, lock, reply);
    ticket_answered(core, lock, reply);
    switch (lock->state) {
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
        attempt_reply(core, lock, reply);
        break;
    case LOCK_ADOPTING:
        adoption_reply(core, lock, reply);
        break;
    case LOCK_HELD:
        hold_reply(core, lock, reply);
        break;
    case LOCK_RELEASING:
    case LOCK_ENDED:
        release_reply(core, lock, reply);
        break;
    case LOCK_LOST: /* it is too late for any reply */
        break;
    case LOCK_FREE:
        CORE_ASSERT(!"lock_by_ref finds no free lock");
    }
}

static void master_changed(struct core *core, enum event_kind kind, const struct event_master *event)
{
    CORE_ASSERT(event->group < core->group_count);
    struct group *group = &core->groups[event->group];
    CORE_ASSERT(event->master < group->config.masters);
    struct master *master = &group->masters[event->master];
    if (kind == EVENT_MASTER_DOWN) {
        master->up = false;
        group->up &= (master_set)~set_of(event->master);
        return;
    }
    master->clock_known = true;
    master->clock_offset_us = event->clock_offset_us;
    if (kind == EVENT_MASTER_UP) {
        CORE_ASSERT(event->epoch != 0);
        master->up = true;
        master->epoch = event->epoch;
        group->up |= set_of(event->master);
        release_master_up(core, event->group, event->master);
    }
}

/* Its attempt is under way, and will be decided soon. */
bool request_contends(const struct request *request)
{
    const struct lock *live = request->key->live;
    return live != NULL && live->contender == request->slot;
}

void request_refused_by_drain(struct core *core, struct request *request)
{
    struct key *key = request->key;
    key->references++;
    request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    queue_left(core, key);
    key_release(core, key);
}

/* Each of those who wait may be the last one of its key, whose channel is then left: whom the effects have no room for is
 * answered by its timer. */
static void drain(struct core *core)
{
    core->draining = true;
    for (uint32_t i = 0; i < core->requests_used; i++) {
        struct request *request = &core->requests[i];
        if ((request->state != REQUEST_WAITING && request->state != REQUEST_ONCE) || request_contends(request))
            continue;
        if (outbox_has_room(core))
            request_refused_by_drain(core, request);
        else
            timers_set(&core->timers, &request->timer, core->now);
    }
}

/* The holds are ended by their timers, as many a step as its effects can take. */
static void end_all(struct core *core, bool releases)
{
    core->draining = core->ending = true;
    core->ending_releases = releases;
    for (uint32_t i = 0; i < core->locks_used; i++) {
        struct lock *lock = &core->locks[i];
        if (lock->state == LOCK_HELD || lock->state == LOCK_LOST)
            timers_set(&core->timers, &lock->timer, core->now);
    }
}

void event_take(struct core *core, const struct event *event)
{
    switch (event->kind) {
    case EVENT_TIME:
        break;
    case EVENT_ACQUIRE:
        acquire(core, &event->acquire);
        break;
    case EVENT_RENEW:
        renew(core, &event->renew);
        break;
    case EVENT_RELEASE:
        release(core, &event->release);
        break;
    case EVENT_RESTORE:
        restore(core, &event->restore);
        break;
    case EVENT_READ:
        read_state(core, &event->read);
        break;
    case EVENT_CANCEL:
        cancel(core, event->cancel.request);
        break;
    case EVENT_UNDELIVERED:
        undelivered(core, event->undelivered.lock);
        break;
    case EVENT_STUCK:
        stuck(core, event->stuck.lock);
        break;
    case EVENT_REPLY:
        replied(core, &event->reply);
        break;
    case EVENT_MASTER_UP:
    case EVENT_MASTER_DOWN:
    case EVENT_MASTER_CLOCK:
        master_changed(core, event->kind, &event->master);
        break;
    case EVENT_SUBSCRIBED:
        wake_subscribed(core, &event->channel);
        break;
    case EVENT_UNSUBSCRIBED:
        wake_unsubscribed(core, &event->channel);
        break;
    case EVENT_MESSAGE:
        wake_message(core, &event->channel);
        break;
    case EVENT_DRAIN:
        drain(core);
        break;
    case EVENT_END:
        end_all(core, event->end.release);
        break;
    }
}
