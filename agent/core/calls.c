/* What callers ask for, and what becomes of it as they leave: POST, PUT, DELETE, GET, and the
 * holds of the process before. */
#include "calls.h"

#include "admission.h"
#include "adopt.h"
#include "again.h"
#include "attempt.h"
#include "confirm.h"
#include "contend.h"
#include "core_assert.h"
#include "debt.h"
#include "hold_end.h"
#include "idempotency.h"
#include "key_table.h"
#include "lock_index.h"
#include "lock_table.h"
#include "outbox.h"
#include "policy.h"
#include "read.h"
#include "reentry.h"
#include "release.h"
#include "requests.h"
#include "restore.h"
#include "retire.h"
#include "wait_queue.h"
#include "watchdog.h"

/* As in Redisson: a caller that names a ttl gets a plain lease, one that names none the
 * watchdog; so does one that is bound. */
static enum renew renew_of(const struct event_acquire *event, const struct core_policy *policy)
{
    if (event->renew != RENEW_UNSET)
        return event->renew;
    if (event->bound)
        return RENEW_AGENT;
    return event->ttl_ms != 0 ? RENEW_CALLER : policy->renew;
}

static struct terms terms_of(const struct event_acquire *event, const struct core_policy *policy)
{
    struct terms terms = {
        .ttl_ms = event->ttl_ms != 0 ? event->ttl_ms : policy->ttl_ms,
        .renew = renew_of(event, policy),
        .mode = event->mode,
        .bound = event->bound,
        .max_hold_ms = event->bound ? policy->bound_max_hold_ms : policy->max_hold_ms,
        .count = 1,
    };
    if (event->max_hold_ms != 0 && event->max_hold_ms < terms.max_hold_ms)
        terms.max_hold_ms = event->max_hold_ms;
    CORE_ASSERT(terms.ttl_ms > 0 && terms.renew != RENEW_UNSET);
    return terms;
}

static struct words words_of(const struct event_acquire *event, const struct core_policy *policy)
{
    CORE_ASSERT(event->label.len <= LIMIT_LABEL_BYTES);
    struct words words = {.asked = idempotency_hash(event)};
    words_set_label(&words, event->label);
    secret_take(&words.idempotency, event->idempotency);
    if (policy->reentrant)
        secret_take(&words.owner, event->owner);
    return words;
}

/* Who asks for what it has already is answered also while the agent drains: that is no new lock. */
void call_acquire(struct core *core, const struct event_acquire *event)
{
    struct key *key = key_get(core, event->key);
    struct core_request *request = request_new(core, event->request, key);
    request->wait_ms = event->wait_ms < core->wait_ms_max ? event->wait_ms : core->wait_ms_max;
    request->terms = terms_of(event, &core->policies[key->policy]);
    request->words = words_of(event, &core->policies[key->policy]);
    if (!idempotency_settles(core, request) && !again_enters(core, request))
        contend_arrived(core, request);
}

/* The hold has ended here without a release, so another agent may have it. A hold that had run out
 * before this agent restarted has no reason. */
static bool is_lost(const struct lock *lock)
{
    return lock->state == LOCK_LOST ||
           (lock->state == LOCK_ENDED && (lock->reason != REASON_NONE || !lock->given_back));
}

/* D3: what another agent has by now, or the masters still have, may be asked for again, here as
 * at any other agent. What this agent has ended by itself is over here. */
static void renew_lost(struct core *core, struct lock *lock, struct core_request *request,
                       uint32_t ttl_ms, enum renew renew)
{
    CORE_ASSERT(is_lost(lock));
    struct effect_answer refusal;
    bool ended_here = lock->reason == REASON_MAX_HOLD || lock->reason == REASON_DRAINED ||
                      lock->reason == REASON_STUCK;
    if (ended_here)
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
    else if (core->draining)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    else if (policy_allows_ttl_of(core, lock, ttl_ms, renew, &refusal))
        adoption_of_lost(core, lock, request);
    else
        request_answer(core, request, refusal);
}

/* What a PUT of a lock that this agent knows comes to. */
static void renew_known(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->key == request->key && request->state == REQUEST_BEGUN);
    struct effect_answer refusal;
    uint32_t ttl_ms = request->terms.ttl_ms != 0 ? request->terms.ttl_ms : lock->terms.ttl_ms;
    enum renew renew =
        request->terms.renew != RENEW_UNSET ? request->terms.renew : lock->terms.renew;
    if (is_lost(lock))
        renew_lost(core, lock, request, ttl_ms, renew);
    else if (lock->state != LOCK_HELD)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_NOT_HELD});
    else if (!policy_allows_ttl_of(core, lock, ttl_ms, renew, &refusal))
        request_answer(core, request, refusal);
    else {
        /* whoever names the token has it; the journal learns of it with the renewal */
        lock->delivered = true;
        watchdog_renew(core, lock, request);
    }
}

/* C4: this agent holds the key by that random part, and with another number. */
static bool is_misnumbered(const struct core *core, const struct key *key,
                           const struct token *token)
{
    CORE_ASSERT(key->references > 0);
    const struct lock *lock = NULL;
    while ((lock = lock_index_next(core, key, token, lock)) != NULL)
        if (lock_is_held(core, lock))
            return true;
    return false;
}

/* A semaphore's tokens name a slot, a mutex's name none (R20): no grant has the other shape. */
static bool is_shapeless(const struct key *key, const struct token *token)
{
    return (token->permit > 0) != (key->permits > 1);
}

/* R16: true if the request asks the masters later, behind others. */
static bool waits_as_guest(struct core *core, struct core_request *request,
                           const struct token *token)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN);
    if (request->admitted || admission_admits_guest(core, request->key->group))
        return false;
    request->reads = token == NULL;
    if (token != NULL)
        request->token = *token;
    admission_guest_waits(core, request);
    return true;
}

/* A token that is not known here is asked of the masters, also while this agent holds the key
 * with another one: that may have been released elsewhere, and the key granted there since (D3). */
static void renew_stranger(struct core *core, struct core_request *request,
                           const struct token *token)
{
    struct key *key = request->key;
    struct effect_answer refusal;
    uint32_t ttl_ms =
        request->terms.ttl_ms != 0 ? request->terms.ttl_ms : core->policies[key->policy].ttl_ms;
    if (is_shapeless(key, token))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_NOT_HELD});
    else if (is_misnumbered(core, key, token))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
    else if (core->draining)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    else if (!policy_allows_ttl(core, key, ttl_ms, request->terms.renew, &refusal))
        request_answer(core, request, refusal);
    else if (adoption_is_under_way(core, key, token) || !waits_as_guest(core, request, token))
        adoption_begun(core, key, request, token);
}

static void renew(struct core *core, struct core_request *request, const struct token *token)
{
    struct lock *lock = lock_by_token(core, request->key, token);
    /* D3: its connection is open still */
    if (lock != NULL && lock->terms.bound && !is_lost(lock))
        request->terms.renew = RENEW_AGENT;
    if (lock != NULL)
        renew_known(core, lock, request);
    else
        renew_stranger(core, request, token);
}

void call_renew(struct core *core, const struct event_renew *event)
{
    struct core_request *request = request_new(core, event->request, key_get(core, event->key));
    request->terms.ttl_ms = event->ttl_ms;
    request->terms.renew = event->renew;
    renew(core, request, &event->token);
}

/* This agent holds it no more, but another one may by now (D3). */
static void release_lost(struct core *core, const struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->state == LOCK_ENDED && is_lost(lock));
    struct token token = lock->token;
    enum reason reason = lock->reason;
    adoption_released(core, request->key, &token);
    release_of_stranger(core, request->key, request, &token, reason);
}

static void release_known(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->key == request->key && request->state == REQUEST_BEGUN);
    switch (lock->state) {
    case LOCK_HELD:
        if (reentry_left(core, lock))
            request_answer(core, request, answer_for_lock(ANSWER_RELEASED, lock));
        else
            release_begun(core, lock, request, /* asked= */ true);
        break;
    case LOCK_RELEASING:
        request->state = REQUEST_RELEASING;
        list_append(&lock->requests, &request->link);
        break;
    /* the holder gives it up before its validity has ended: its keys need not wait */
    case LOCK_LOST:
        if (reentry_left(core, lock))
            request_answer(
                core, request,
                (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
        else
            release_begun(core, lock, request, /* asked= */ true);
        break;
    case LOCK_ENDED:
        if (lock->reason != REASON_NONE && reentry_left(core, lock))
            request_answer(
                core, request,
                (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
        else if (is_lost(lock))
            release_lost(core, lock, request);
        else
            request_answer(core, request,
                           answer_for_lock(debt_is_pending(core, lock) ? ANSWER_RELEASE_PENDING
                                                                       : ANSWER_NOT_HELD,
                                           lock));
        break;
    case LOCK_FREE:
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
    case LOCK_ADOPTING:
        CORE_ASSERT(!"a lock that callers can name");
    }
}

static void release_by_idempotency(struct core *core, struct key *key, struct core_request *request,
                                   struct text text)
{
    CORE_ASSERT(text.len > 0);
    CORE_ASSERT(request->key == key);
    struct secret secret = {0};
    secret_take(&secret, text);
    struct lock *lock = idempotency_released(core, key, &secret);
    if (lock == NULL)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
    else
        release_known(core, lock, request);
}

void call_release(struct core *core, const struct event_release *event)
{
    struct key *key = key_get(core, event->key);
    struct core_request *request = request_new(core, event->request, key);
    if (event->idempotency.len > 0) {
        release_by_idempotency(core, key, request, event->idempotency);
        return;
    }
    struct lock *lock = lock_by_token(core, key, &event->token);
    if (lock != NULL) {
        idempotency_use_up(core, lock);
        release_known(core, lock, request);
    } else if (is_shapeless(key, &event->token)) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_NOT_HELD});
    } else if (is_misnumbered(core, key, &event->token)) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
    } else {
        adoption_released(core, key, &event->token);
        release_of_stranger(core, key, request, &event->token, REASON_NONE);
    }
}

void call_read(struct core *core, const struct event_read *event)
{
    struct core_request *request = request_new(core, event->request, key_get(core, event->key));
    if (!waits_as_guest(core, request, /* token= */ NULL))
        read_begun(core, request->key, request);
}

void call_guests_admitted(struct core *core)
{
    struct core_request *request;
    while (outbox_has_room(core) && (request = admission_next_guest(core)) != NULL) {
        struct token token = request->token;
        struct key *key = request->key;
        key_refer(core, key); /* the request may leave below */
        if (request->reads)
            read_begun(core, key, request);
        else
            renew(core, request, &token);
        key_release(core, key);
    }
}

void call_guest_time_over(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_GUEST);
    request_answer(core, request, queue_refusal_of_overload(core, request->key));
}

void call_restore(struct core *core, const struct noted_hold *noted)
{
    struct key *key = key_get(core, noted->key);
    key_refer(core, key);
    restore_hold(core, key, noted);
    key_release(core, key);
}

/* A caller that goes away while it waits is never granted the lock. A release or renewal that it
 * asked for goes on. */
void call_cancel(struct core *core, uint32_t number)
{
    CORE_ASSERT(number < core->requests_max);
    struct core_request *request = &core->requests[number];
    if (request->state == REQUEST_FREE)
        return;
    struct key *key = request->key;
    bool queued = request->state == REQUEST_WAITING || request->state == REQUEST_ONCE;
    struct lock *attempt = queued ? request_attempt(request) : NULL;
    if (attempt != NULL && MUTANT(GRANT_AFTER_CANCEL))
        return;
    if (request->state == REQUEST_RENEWING && confirm_is_wanted(request)) {
        again_left(core, request);
        return;
    }
    key_refer(core, key);
    request_forget(core, request);
    if (attempt != NULL)
        attempt_abandoned(core, attempt);
    if (queued)
        contend_left(core, key);
    key_release(core, key);
}

void call_undelivered(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock == NULL || lock->state == LOCK_RELEASING || idempotency_keeps(lock) ||
        reentry_left(core, lock))
        return;
    if ((lock->state == LOCK_HELD || lock->state == LOCK_LOST) &&
        !(lock->terms.bound && MUTANT(BOUND_OUTLIVES_CALLER)))
        release_begun(core, lock, /* request= */ NULL, /* asked= */ false);
}

/* A lease that no watchdog renews ends by itself: the journal need not know of it (see
 * restore.c). */
void call_delivered(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock == NULL || lock->state != LOCK_HELD || lock->delivered)
        return;
    lock->delivered = true;
    if (lock->terms.renew == RENEW_AGENT && !lock->terms.bound)
        outbox_hold(core, lock);
}

void call_stuck(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock != NULL && lock->state == LOCK_HELD)
        hold_lost(core, lock, REASON_STUCK);
}
