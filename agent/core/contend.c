/* Decides whether an attempt at a key begins, now or at a planned time (R9). One request at a time,
 * the contender, asks the masters for all that wait here.
 *
 * An event changes a key and marks it (key_touched()). It need not know the consequences: at the
 * end of the event the whole state of each marked key decides.
 *
 *   no request wants the key, or no attempt       the key leaves the admission queue (R16)
 *     may begin (key_admits())
 *   all that want it sit out (order.c)            an attempt is planned for the end of that
 *   an attempt is planned (order.c), and no       nothing
 *     request is urgent
 *   otherwise                                     the key enters the admission queue
 *
 * The round of a key in that queue begins at EVENT_FLUSH. Its contender is chosen then. A hand-over
 * is not decided here, because it is a part of a release (release.c). */
#include "internal.h"

#include "core_assert.h"

/* Returns the request that asks the masters next; NULL if there is none, or if a pause must end
 * first. */
static struct core_request *next_contender(const struct core *core, const struct key *key)
{
    if (key->form == FORM_SHARED)
        return readers_next(key);
    struct core_request *waiter = key_next_waiter(key);
    return waiter != NULL && !wake_sits_out(core, key) ? waiter
                                                       : request_first(&key->contention->once);
}

/* Like next_contender(), but refuses requests for which the lock table has no room. */
static struct core_request *next_with_room(struct core *core, const struct key *key)
{
    struct core_request *next;
    while ((next = next_contender(core, key)) != NULL && core->locks_under_way >= core->locks_max)
        request_answer(core, next, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
    return next;
}

/* Returns true if a planned attempt is too late: a request wants one answer now, or masters have
 * the ticket of a request that has left. */
static bool is_urgent(const struct key *key)
{
    bool is_asked_once = !list_is_empty(&key->contention->once) && !MUTANT(ONCE_WAITS_FOR_QUEUE);
    return is_asked_once || ticket_is_stale(key);
}

/* Puts the key into the admission queue, takes it out, or plans an attempt. */
static void next_round(struct core *core, struct key *key)
{
    struct contention *contention = key->contention;
    bool is_open = key_admits(key) && (!core->draining || MUTANT(DRAIN_GRANTS));
    bool goes_on = contention->search.goes_on;
    contention->search.goes_on = false;
    if (!list_is_empty(&contention->once) && key_exhausted(key) != NULL)
        queue_refuse_once(core, key, key_exhausted(key));
    if (list_is_empty(&contention->waiters))
        key_retry_dropped(core, key);
    if (!is_open || next_contender(core, key) == NULL) {
        if (!MUTANT(PLACE_IN_LINE_KEPT))
            admission_left(core, key);
        if (!key_has_retry(core, key))
            contention->cause = CAUSE_ARRIVAL;
        if (is_open)
            wake_after_sitting_out(core, key);
    } else if (!key_awaits_round(key) && (!key_has_retry(core, key) || is_urgent(key))) {
        key_retry_dropped(core, key);
        if (!goes_on)
            contention->search = (struct search){0};
        admission_awaited(core, key);
    }
}

/* Returns true if a request wants the key, or if requests that have left began something for it. */
static bool is_contended(const struct core *core, const struct key *key)
{
    const struct contention *contention = key->contention;
    return !list_is_empty(&contention->waiters) || !list_is_empty(&contention->once) ||
           key_awaits_round(key) || key_has_retry(core, key) || contention->search.goes_on;
}

void contend_decide(struct core *core)
{
    for (struct key *key = core->keys_touched; key != NULL; key = key->next)
        if (key->references > 0 && key->contention != NULL) {
            if (is_contended(core, key))
                next_round(core, key);
            if (key->contention->follower != NULL)
                follow_key_changed(core, key);
        }
}

void contend_admitted(struct core *core)
{
    struct key *key;
    while (outbox_has_room(core) && (key = admission_next(core)) != NULL) {
        key_refer(core, key); /* The last request may leave below. */
        struct core_request *next = next_with_room(core, key);
        if (next != NULL)
            attempt_begun(core, key, next);
        if (key->form == FORM_SHARED)
            next_round(core, key); /* Readers contend side by side (R18). */
        key_release(core, key);
    }
}

struct instant contend_deadline(const struct core_request *request)
{
    CORE_ASSERT(request->wait_ms >= 0);
    return instant_after_ms(request->came_at,
                            request->wait_ms > 0 ? request->wait_ms : ADMISSION_MS_MAX);
}

/* Makes renewals of the holds due that keep the request from the key: they may have been released
 * at another agent. */
static void doubt_holds(struct core *core, struct key *key)
{
    if (key_exhausted(key) == NULL)
        return;
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next)
        if (!lock_is_attempt(CONTAINER_OF(at, struct lock, link)))
            hold_doubted(core, CONTAINER_OF(at, struct lock, link));
}

/* Puts the request into the queue, which is in order of arrival (R9). A request that had the lock
 * when it came may be older than those in the queue. It is put in front of them, and takes the
 * ticket of the first of them. If one of them contends already, the request is put at the end. */
static void stand_in_queue(struct core *core, struct core_request *request)
{
    const struct contention *contention = request->key->contention;
    struct list *waiters = &request->key->contention->waiters;
    struct link *at = waiters->head.prev;
    if (at == &waiters->head || contention->attempts > 0 ||
        CONTAINER_OF(at, struct core_request, link)->came < request->came) {
        list_append(waiters, &request->link);
        ticket_given(core, request);
        return;
    }
    at = waiters->head.next;
    while (CONTAINER_OF(at, struct core_request, link)->came < request->came)
        at = at->next;
    list_insert(at, &request->link);
    request->ticket = CONTAINER_OF(at, struct core_request, link)->ticket;
}

/* Returns true if the request was put into the queue, and false if it was refused. */
static bool is_queued(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN);
    struct key *key = request->key;
    struct effect_answer refusal = {.answer = ANSWER_DRAINING};
    bool drains = core->draining && !MUTANT(DRAIN_GRANTS);
    if (drains ||
        !policy_allows_ttl(core, key, request->terms.ttl_ms, request->terms.renew, &refusal)) {
        request_answer(core, request, refusal);
        return false;
    }
    bool waits = request->wait_ms > 0;
    if (waits && core->stats.waiters >= core->waiters_max) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_WAITERS});
        return false;
    }
    key_touched(core, key);
    request->state = waits ? REQUEST_WAITING : REQUEST_ONCE;
    core->stats.waiters += waits;
    if (waits)
        stand_in_queue(core, request);
    else
        list_append(&key->contention->once, &request->link);
    request_index_secret(core, request);
    timers_set(&core->timers, timer_of_request(core, request), contend_deadline(request));
    return true;
}

void contend_arrived(struct core *core, struct core_request *request)
{
    struct key *key = request->key;
    if (is_queued(core, request))
        doubt_holds(core, key);
}

void contend_queued(struct core *core, struct core_request *request)
{
    (void)is_queued(core, request);
}

/* Returns true if no round was begun, and nothing is known of the key since the request came
 * (R16). */
static bool was_never_asked(const struct core *core, const struct core_request *request)
{
    const struct key *key = request->key;
    return admission_was_refused(core, key) &&
           instant_before(key->contention->last_failed_at, request->came_at);
}

/* Answers a request whose deadline has come, which is exact (R9). The answer is that of the last
 * round. */
void contend_wait_over(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_WAITING || request->state == REQUEST_ONCE);
    CORE_ASSERT(request->link.next != NULL);
    struct key *key = request->key;
    const struct lock *under_way = request->attempt != NULL ? request->attempt : key_attempt(key);
    bool is_others =
        request->attempt == NULL && under_way != NULL && under_way->cause == CAUSE_HANDOVER;
    if (request->state == REQUEST_ONCE && under_way != NULL && !is_others) {
        /* It is decided by then. */
        timers_set(&core->timers, timer_of_request(core, request),
                   timers_at(&core->timers, timer_of_lock(under_way)));
        return;
    }
    const struct lock *holder = key_exhausted(key);
    struct lock *attempt = request_attempt(request);
    if (holder != NULL) {
        request_answer(core, request, queue_refusal_of_hold(core, holder, ANSWER_WAIT_TIMEOUT));
    } else {
        enum answer answer = key->contention->last_answer == ANSWER_LOCK_HELD
                                 ? ANSWER_WAIT_TIMEOUT
                                 : key->contention->last_answer;
        if (request->state == REQUEST_ONCE || was_never_asked(core, request))
            request_answer(core, request, queue_refusal_of_overload(core, key));
        else
            request_answer(core, request, queue_refusal_of_attempt(core, key, answer));
    }
    if (attempt != NULL)
        attempt_abandoned(core, attempt);
}
