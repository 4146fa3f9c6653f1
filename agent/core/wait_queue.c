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
#include "requests.h"
#include "retire.h"
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

static void answer_once(struct core *core, struct key *key, struct effect_answer answer)
{
    CORE_ASSERT(answer.answer < ANSWER_COUNT);
    struct core_request *request;
    while ((request = request_first(&key->contest->once)) != NULL)
        request_answer(core, request, answer);
}

void queue_attempt_failed(struct core *core, struct key *key, struct core_request *contender)
{
    CORE_ASSERT(contender != NULL && contender->key == key);
    key_refer(core, key);
    answer_once(core, key, queue_refusal_of_attempt(core, key, key->contest->last_answer));
    if (core->draining)
        requests_answer(core, &key->contest->waiters, ANSWER_DRAINING, REASON_NONE);
    if (!list_is_empty(&key->contest->waiters) && !MUTANT(WAITER_FORGOTTEN))
        wake_after_failure(core, key);
    key_release(core, key);
}

void queue_attempt_won(struct core *core, struct key *key)
{
    const struct lock *holder = key_holder(key);
    CORE_ASSERT(holder != NULL && holder->state == LOCK_HELD);
    key->contest->back_off_ms = 0;
    key->contest->channel.losses = 0;
    answer_once(core, key, queue_refusal_of_hold(core, holder, ANSWER_LOCK_HELD));
}
