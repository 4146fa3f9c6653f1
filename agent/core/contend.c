/* Chooses the contender for a key (R9): one request at a time asks the masters for all that wait
 * here. The choice is made again when a request comes or leaves, when a hold here ends, and when it
 * is time to try again (order.c). */
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

static void begin_round(struct core *core, struct key *key, enum cause cause)
{
    CORE_ASSERT(cause != CAUSE_HANDOVER); /* A hand-over begins without waiting. */
    if (!key_admits(key))
        return;
    /* A message may have set it while the key waited for its round. */
    timers_clear(&core->timers, timer_of_key(core, key));
    key_refer(core, key); /* The last request may leave below. */
    uint32_t under_way = key->contention->attempts;
    struct core_request *next = next_with_room(core, key);
    if (next != NULL)
        attempt_begun(core, key, next, cause);
    else if (wake_sits_out(core, key) && key_next_waiter(key) != NULL)
        wake_after_sitting_out(core, key);
    bool is_begun = key->contention->attempts > under_way;
    if (key->form == FORM_SHARED && is_begun && key_admits(key) &&
        next_contender(core, key) != NULL)
        admission_awaited(core, key, cause); /* Readers contend side by side (R18). */
    key_release(core, key);
}

static void contend(struct core *core, struct key *key, enum cause cause)
{
    CORE_ASSERT(key->references > 0);
    if (core->draining && !MUTANT(DRAIN_GRANTS))
        return;
    timers_clear(&core->timers, timer_of_key(core, key));
    if (!key_admits(key))
        return;
    if (next_contender(core, key) == NULL) {
        if (wake_sits_out(core, key) && key_next_waiter(key) != NULL)
            wake_after_sitting_out(core, key);
        return;
    }
    slot_search_begun(core, key, cause);
}

void contend_admitted(struct core *core)
{
    struct key *key;
    while (outbox_has_room(core) && (key = admission_next(core)) != NULL)
        begin_round(core, key, key->contention->admission.cause);
}

/* Lets the next request of the queue contend, because the key seems to be free. */
static void contend_next(struct core *core, struct key *key)
{
    contend(core, key, CAUSE_ARRIVAL);
}

void contend_freed(struct core *core, struct key *key, enum mode mode)
{
    CORE_ASSERT(key->references > 0);
    bool waits_on =
        mode == MODE_READ && readers_wait_on(core, key, request_first(&key->contention->waiters));
    if (!waits_on)
        contend_next(core, key);
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
    for (struct link *at = waiters->head.next; at != &waiters->head; at = at->next) {
        const struct core_request *other = CONTAINER_OF(at, struct core_request, link);
        if (other->came < request->came || contention->attempts > 0)
            continue;
        list_insert(at, &request->link);
        request->ticket = other->ticket;
        return;
    }
    list_append(waiters, &request->link);
    ticket_given(core, request);
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
    request->state = waits ? REQUEST_WAITING : REQUEST_ONCE;
    core->stats.waiters += waits;
    if (waits)
        stand_in_queue(core, request);
    else
        list_append(&key->contention->once, &request->link);
    timers_set(&core->timers, timer_of_request(core, request), contend_deadline(request));
    return true;
}

void contend_arrived(struct core *core, struct core_request *request)
{
    struct key *key = request->key;
    bool first = list_is_empty(&key->contention->waiters);
    if (!is_queued(core, request))
        return;
    doubt_holds(core, key);
    if (request->state == REQUEST_ONCE) {
        const struct lock *holder = key_exhausted(key);
        if (holder != NULL)
            request_answer(core, request, queue_refusal_of_hold(core, holder, ANSWER_LOCK_HELD));
        else if (key_admits(key))
            contend_next(core, key);
        return;
    }
    /* A reader contends beside other readers, but not past one that was refused (R18). Of a
     * semaphore another slot may be free. */
    if ((first || !key_has_retry(core, key)) && key_admits(key))
        contend_next(core, key);
}

void contend_queued(struct core *core, struct core_request *request)
{
    (void)is_queued(core, request);
}

/* Refuses the requests that do not wait, if a hold takes the whole key, and lets others contend. */
void contend_again(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0);
    const struct lock *holder = key_exhausted(key);
    struct link *next;
    struct list *once = &key->contention->once;
    for (struct link *at = once->head.next; at != &once->head && holder != NULL; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        if (request->attempt == NULL)
            request_answer(core, request, queue_refusal_of_hold(core, holder, ANSWER_LOCK_HELD));
    }
    contend_left(core, key);
    if (!list_is_empty(once) && key_admits(key) && !MUTANT(REENTRY_WAITS_FOR_QUEUE))
        contend_next(core, key); /* At once, not only when those in the queue try again. */
}

void contend_anew(struct core *core, struct lock *attempt)
{
    CORE_ASSERT(lock_is_attempt(attempt));
    struct key *key = attempt->key;
    uint32_t contender = attempt->pending->contender;
    key_refer(core, key);
    attempt_voided(core, attempt);
    if (core->draining && contender != NO_REQUEST)
        request_answer(core, &core->requests[contender],
                       (struct effect_answer){.answer = ANSWER_DRAINING});
    contend_next(core, key);
    key_release(core, key);
}

void contend_timer(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0);
    contend(core, key, key->contention->cause);
}

void contend_left(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0);
    if (list_is_empty(&key->contention->waiters))
        timers_clear(&core->timers, timer_of_key(core, key));
    if (next_contender(core, key) == NULL && !MUTANT(PLACE_IN_LINE_KEPT))
        admission_left(core, key);
    if (key_admits(key) && (!key_has_retry(core, key) || ticket_is_stale(key)))
        contend_next(core, key);
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
    if (request->state == REQUEST_ONCE && under_way != NULL) {
        /* It is decided by then. */
        timers_set(&core->timers, timer_of_request(core, request),
                   timers_at(&core->timers, timer_of_lock(under_way)));
        return;
    }
    key_refer(core, key);
    const struct lock *holder = key_exhausted(key);
    if (holder != NULL) {
        request_answer(core, request, queue_refusal_of_hold(core, holder, ANSWER_WAIT_TIMEOUT));
    } else {
        enum answer answer = key->contention->last_answer == ANSWER_LOCK_HELD
                                 ? ANSWER_WAIT_TIMEOUT
                                 : key->contention->last_answer;
        struct lock *attempt = request_attempt(request);
        if (request->state == REQUEST_ONCE || was_never_asked(core, request))
            request_answer(core, request, queue_refusal_of_overload(core, key));
        else
            request_answer(core, request, queue_refusal_of_attempt(core, key, answer));
        if (attempt != NULL)
            attempt_abandoned(core, attempt);
        contend_left(core, key);
    }
    key_release(core, key);
}
