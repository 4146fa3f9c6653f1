/* Who contends for a key (R9): one request at a time talks to the masters for all that queue
 * here. It is chosen anew as a request comes or leaves, as a hold here ends, and when it is time
 * to try again (wake.c). */
#include "contend.h"

#include "admission.h"
#include "attempt.h"
#include "core_assert.h"
#include "key_table.h"
#include "outbox.h"
#include "readers.h"
#include "requests.h"
#include "retire.h"
#include "slot.h"
#include "ticket.h"
#include "wait_queue.h"
#include "wake.h"

/* Who talks to the masters next; NULL: nobody, or nobody before it has sat out. */
static struct core_request *next_contender(const struct core *core, const struct key *key)
{
    if (key->is_shared)
        return readers_next(key);
    struct core_request *waiter = key_next_waiter(key);
    return waiter != NULL && !wake_sits_out(core, key) ? waiter
                                                       : request_first(&key->contest->once);
}

/* The same, where there is room for its attempt; for whom there is none is told so. */
static struct core_request *next_with_room(struct core *core, const struct key *key)
{
    struct core_request *next;
    while ((next = next_contender(core, key)) != NULL && core->locks_under_way >= core->locks_max)
        request_answer(core, next, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
    return next;
}

static void begin_round(struct core *core, struct key *key, enum cause cause)
{
    CORE_ASSERT(cause != CAUSE_HANDOVER); /* that needs no place */
    if (!key_admits(key))
        return;
    key_refer(core, key); /* the last request may leave below */
    uint32_t under_way = key->contest->attempts;
    struct core_request *next = next_with_room(core, key);
    if (next != NULL)
        attempt_begun(core, key, next, cause);
    else if (wake_sits_out(core, key) && key_next_waiter(key) != NULL)
        wake_after_sitting_out(core, key);
    bool is_begun = key->contest->attempts > under_way;
    if (key->is_shared && is_begun && key_admits(key) && next_contender(core, key) != NULL)
        admission_awaited(core, key, cause); /* readers contend side by side (R18) */
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
        begin_round(core, key, key->contest->admission.cause);
}

void contend_next(struct core *core, struct key *key)
{
    contend(core, key, CAUSE_ARRIVAL);
}

void contend_freed(struct core *core, struct key *key, enum mode mode)
{
    CORE_ASSERT(key->references > 0);
    bool waits_on =
        mode == MODE_READ && readers_wait_on(core, key, request_first(&key->contest->waiters));
    if (!waits_on)
        contend_next(core, key);
}

struct instant contend_deadline(const struct core_request *request, int64_t wait_ms)
{
    CORE_ASSERT(wait_ms >= 0);
    return instant_after_ms(request->came_at, wait_ms > 0 ? wait_ms : ADMISSION_MS_MAX);
}

void contend_arrived(struct core *core, struct key *key, struct core_request *request,
                     int64_t wait_ms)
{
    CORE_ASSERT(request->key == key && request->state == REQUEST_BEGUN);
    CORE_ASSERT(wait_ms >= 0);
    if (wait_ms == 0) {
        request->state = REQUEST_ONCE;
        list_append(&key->contest->once, &request->link);
        timers_set(&core->timers, timer_of_request(core, request),
                   contend_deadline(request, wait_ms));
        const struct lock *holder = key_exhausted(key);
        if (holder != NULL)
            request_answer(core, request, queue_refusal_of_hold(core, holder, ANSWER_LOCK_HELD));
        else if (key_admits(key))
            contend_next(core, key);
        return;
    }
    if (core->stats.waiters >= core->waiters_max) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_WAITERS});
        return;
    }
    bool first = list_is_empty(&key->contest->waiters);
    request->state = REQUEST_WAITING;
    core->stats.waiters++;
    list_append(&key->contest->waiters, &request->link);
    ticket_given(core, request);
    timers_set(&core->timers, timer_of_request(core, request), contend_deadline(request, wait_ms));
    /* one who reads comes beside those who contend, but not past one who was refused (R18); and of
     * a semaphore another slot may be free */
    if ((first || !key_has_retry(core, key)) && key_admits(key))
        contend_next(core, key);
}

void contend_timer(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0);
    contend(core, key, key->contest->cause);
}

void contend_left(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0);
    if (list_is_empty(&key->contest->waiters))
        timers_clear(&core->timers, timer_of_key(core, key));
    if (next_contender(core, key) == NULL && !MUTANT(PLACE_IN_LINE_KEPT))
        admission_left(core, key);
    if (key_admits(key) && (!key_has_retry(core, key) || ticket_is_stale(core, key)))
        contend_next(core, key);
}

/* It had no place, and nothing is known of the key since it came (R16). */
static bool was_never_asked(const struct core *core, const struct core_request *request)
{
    const struct key *key = request->key;
    return admission_was_refused(core, key) &&
           instant_before(key->contest->last_failed_at, request->came_at);
}

/* R9: deadlines are exact. The answer is that of the last round. */
void contend_wait_over(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_WAITING || request->state == REQUEST_ONCE);
    CORE_ASSERT(request->link.next != NULL);
    struct key *key = request->key;
    const struct lock *under_way = request->attempt != NULL ? request->attempt : key_attempt(key);
    if (request->state == REQUEST_ONCE && under_way != NULL) {
        /* decided by then */
        timers_set(&core->timers, timer_of_request(core, request),
                   timers_at(&core->timers, timer_of_lock(under_way)));
        return;
    }
    key_refer(core, key);
    const struct lock *holder = key_exhausted(key);
    if (holder != NULL) {
        request_answer(core, request, queue_refusal_of_hold(core, holder, ANSWER_WAIT_TIMEOUT));
    } else {
        enum answer answer = key->contest->last_answer == ANSWER_LOCK_HELD
                                 ? ANSWER_WAIT_TIMEOUT
                                 : key->contest->last_answer;
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
