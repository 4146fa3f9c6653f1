/* The queue of a key (R9): requests in order of arrival, and what those are told that leave it
 * without the lock.
 *
 *   waiters   want to wait. The first of them contends, and is handed the key by a holder here
 *             that releases it.
 *   once      want one answer now. They share the fate of the attempt that is under way, or cause
 *             one. */
#include "wait_queue.h"

#include "admission.h"
#include "core_assert.h"
#include "key_table.h"
#include "lock_table.h"
#include "lock_words.h"
#include "readers.h"
#include "requests.h"
#include "retire.h"
#include "slot.h"
#include "wake.h"

struct effect_answer queue_refusal_of_hold(const struct core *core, const struct lock *holder,
                                           enum answer answer)
{
    CORE_ASSERT(holder->state == LOCK_HELD || holder->state == LOCK_LOST);
    struct instant until = instant_max(holder->valid_until, core->now);
    return (struct effect_answer){
        .answer = answer,
        .retry_after_ms = instant_us_between(core->now, until) / 1000,
        .holder = words_label(lock_words(holder)),
        .mode = holder->terms.mode,
        .readers = holder->terms.mode == MODE_READ ? readers_here(holder->key) : 0,
    };
}

struct effect_answer queue_refusal_of_attempt(const struct core *core, const struct key *key,
                                              enum answer answer)
{
    CORE_ASSERT(key->contest->last_holder_len <= LIMIT_LABEL_BYTES);
    struct effect_answer refusal = {
        .answer = answer,
        .tally = key->contest->last_tally,
        .retry_after_ms = key->contest->last_retry_ms,
        .guarded = answer == ANSWER_QUORUM_UNAVAILABLE ? key->contest->last_guarded : 0,
        .holder = {key->contest->last_holder, key->contest->last_holder_len},
        .mode = key->contest->last_mode,
        .readers = key->contest->last_readers,
    };
    if (refusal.retry_after_ms < 0 && core->stats.rounds[key->group].waiting > 0)
        refusal.retry_after_ms = admission_wait_ms(core, key->group);
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++) {
        struct instant until = core->groups[key->group].masters[m].guarded_until;
        if (!set_has(refusal.guarded, m))
            continue;
        int64_t left_us = instant_us_between(core->now, instant_max(until, core->now));
        refusal.guarded_ms[m] = until.us == INSTANT_NEVER.us || left_us / 1000 >= UINT32_MAX
                                    ? UINT32_MAX
                                    : (uint32_t)((left_us + 999) / 1000);
    }
    return refusal;
}

struct effect_answer queue_refusal_of_overload(const struct core *core, const struct key *key)
{
    return (struct effect_answer){.answer = ANSWER_OVERLOADED,
                                  .retry_after_ms = admission_wait_ms(core, key->group)};
}

static void answer_once(struct core *core, struct key *key, const struct lock *holder)
{
    struct link *next;
    struct list *once = &key->contest->once;
    for (struct link *at = once->head.next; at != &once->head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        bool fits = holder->terms.mode == MODE_READ && request->terms.mode == MODE_READ;
        if (!fits && request->attempt == NULL)
            request_answer(core, request, queue_refusal_of_hold(core, holder, ANSWER_LOCK_HELD));
    }
}

static void answer_failure(struct core *core, struct key *key, enum mode mode, bool waited)
{
    const struct core_request *first = request_first(&key->contest->waiters);
    bool waits = waited || (first != NULL && first->terms.mode == MODE_WRITE);
    struct effect_answer refusal = queue_refusal_of_attempt(core, key, key->contest->last_answer);
    struct link *next;
    struct list *once = &key->contest->once;
    for (struct link *at = once->head.next; at != &once->head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        if (readers_share_failure(request, mode, waits))
            request_answer(core, request, refusal);
    }
}

/* Who contends is answered by what comes of that. */
static void refuse_while_draining(struct core *core, struct key *key)
{
    struct link *next;
    struct list *waiters = &key->contest->waiters;
    for (struct link *at = waiters->head.next; at != &waiters->head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        if (request->attempt == NULL)
            request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    }
}

/* R18: those of the other mode, or who come behind the readers that contended side by side. */
static void let_others_contend(struct core *core, struct key *key)
{
    if (core->draining || !key_admits(key) || readers_next(key) == NULL)
        return;
    timers_clear(&core->timers, timer_of_key(core, key));
    admission_awaited(core, key, CAUSE_ARRIVAL);
}

/* R18: a reader that waits was refused, so none begins beside those that are under way, and who
 * stands in line for a place leaves it. */
static void let_none_contend(struct core *core, struct key *key)
{
    key->contest->is_refused = key->contest->attempts > 0;
    admission_left(core, key);
}

/* Who stood there for a place beside those that contend may have been answered with them. */
static void leave_line(struct core *core, struct key *key)
{
    if (key->is_shared && (!key_admits(key) || readers_next(key) == NULL))
        admission_left(core, key);
}

void queue_attempt_failed(struct core *core, struct key *key, struct core_request *contender,
                          enum mode mode)
{
    CORE_ASSERT(contender != NULL && contender->key == key && contender->attempt == NULL);
    key_refer(core, key);
    bool waits = contender->state == REQUEST_WAITING;
    if (!waits)
        request_answer(core, contender,
                       queue_refusal_of_attempt(core, key, key->contest->last_answer));
    answer_failure(core, key, mode, waits);
    if (core->draining)
        refuse_while_draining(core, key);
    const struct core_request *first = request_first(&key->contest->waiters);
    bool is_refused = first != NULL && first->terms.mode == mode;
    if (key->is_shared && is_refused && waits)
        let_none_contend(core, key);
    bool is_decided = !key->is_shared || (key->contest->attempts == 0 && key_admits(key));
    if (is_refused && is_decided && !MUTANT(WAITER_FORGOTTEN))
        wake_after_failure(core, key);
    else if (key->is_shared && key->contest->attempts == 0 && !is_refused)
        let_others_contend(core, key);
    leave_line(core, key);
    key_release(core, key);
}

/* Somebody wants the key, and nothing is under way or planned for it. */
static bool is_neglected(const struct core *core, const struct key *key)
{
    const struct contest *contest = key->contest;
    bool is_wanted = key_next_waiter(key) != NULL || !list_is_empty(&contest->once);
    bool is_planned = list_is_empty(&contest->once) && key_has_retry(core, key);
    return is_wanted && key_admits(key) && !is_planned && !core->draining;
}

void queue_attempt_won(struct core *core, struct key *key, const struct lock *lock)
{
    CORE_ASSERT(lock->key == key && lock->state == LOCK_HELD);
    key->contest->back_off_ms = 0;
    key->contest->channel.losses = 0;
    const struct lock *holder = key->is_shared ? lock : key_exhausted(key);
    if (holder != NULL)
        answer_once(core, key, holder);
    else if (is_neglected(core, key))
        slot_search_begun(core, key, CAUSE_ARRIVAL); /* another permit may be free (R20) */
    if (key->is_shared)
        let_others_contend(core, key);
    leave_line(core, key);
}
