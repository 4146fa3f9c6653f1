/* The queue of a key (R9): requests in order of arrival, and one contender at a time that talks to the masters for all
 * of them.
 *
 *   waiters   want to wait. The first of them contends, and is handed the key by a holder here that releases it; when it tries
 *             again is wake.c's affair.
 *   once      want one answer now. They share the fate of the attempt that is under way, or cause one. */
#include <string.h>

#include "core_assert.h"
#include "state.h"

static struct effect_answer refusal_of_hold(const struct core *core, const struct lock *live, enum answer answer)
{
    struct instant until = instant_max(live->valid_until, core->now);
    return (struct effect_answer){
        .answer = answer,
        .retry_after_ms = instant_us_between(core->now, until) / 1000,
        .holder = {live->label, live->label_len},
    };
}

static struct effect_answer refusal_of_attempt(const struct core *core, const struct key *key, enum answer answer)
{
    struct effect_answer refusal = {
        .answer = answer,
        .tally = key->last_tally,
        .retry_after_ms = key->last_retry_ms,
        .guarded = answer == ANSWER_QUORUM_UNAVAILABLE ? key->last_guarded : 0,
        .holder = {key->last_holder, key->last_holder_len},
    };
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

static bool is_taken_here(const struct key *key)
{
    return key->live != NULL && (key->live->state == LOCK_HELD || key->live->state == LOCK_LOST);
}

static struct request *request_of(struct link *link)
{
    return link == NULL ? NULL : CONTAINER_OF(link, struct request, link);
}

static void answer_once(struct core *core, struct key *key, struct effect_answer answer)
{
    struct request *request;
    while ((request = request_of(list_first(&key->once))) != NULL)
        request_answer(core, request, answer);
}

void queue_join(struct core *core, struct key *key, struct request *request, int64_t wait_ms)
{
    if (wait_ms == 0) {
        request->state = REQUEST_ONCE;
        list_append(&key->once, &request->link);
        if (is_taken_here(key))
            request_answer(core, request, refusal_of_hold(core, key->live, ANSWER_LOCK_HELD));
        else if (key->live == NULL)
            queue_contend(core, key);
        return;
    }
    if (core->stats.waiters >= core->waiters_max) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_WAITERS});
        return;
    }
    bool first = list_is_empty(&key->waiters);
    request->state = REQUEST_WAITING;
    core->stats.waiters++;
    list_append(&key->waiters, &request->link);
    ticket_given(core, request);
    timers_set(&core->timers, &request->timer, instant_after_ms(request->came_at, wait_ms));
    if (first && key->live == NULL)
        queue_contend(core, key);
}

static void contend(struct core *core, struct key *key, enum cause cause)
{
    if (core->draining && !MUTANT(DRAIN_GRANTS))
        return;
    key->references++; /* the last request may leave below */
    timers_clear(&core->timers, &key->retry);
    while (key->live == NULL) {
        bool sits_out = wake_sits_out(core, key) && !list_is_empty(&key->waiters);
        struct request *next = sits_out ? NULL : request_of(list_first(&key->waiters));
        if (next == NULL)
            next = request_of(list_first(&key->once));
        if (next == NULL) {
            if (sits_out)
                wake_after_sitting_out(core, key);
            break;
        }
        if (core->locks_live < core->locks_max) {
            attempt_begun(core, key, next, cause);
            break;
        }
        request_answer(core, next, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
    }
    key_release(core, key);
}

void queue_contend(struct core *core, struct key *key)
{
    contend(core, key, CAUSE_ARRIVAL);
}

void queue_attempt_failed(struct core *core, struct key *key, struct request *contender)
{
    CORE_ASSERT(contender != NULL && contender->key == key);
    key->references++;
    answer_once(core, key, refusal_of_attempt(core, key, key->last_answer));
    if (core->draining)
        requests_answer(core, &key->waiters, ANSWER_DRAINING, REASON_NONE);
    if (!list_is_empty(&key->waiters) && !MUTANT(WAITER_FORGOTTEN))
        wake_after_failure(core, key);
    key_release(core, key);
}

void queue_attempt_won(struct core *core, struct key *key)
{
    key->back_off_ms = 0;
    key->channel.losses = 0;
    answer_once(core, key, refusal_of_hold(core, key->live, ANSWER_LOCK_HELD));
}

void queue_retry_timer(struct core *core, struct key *key)
{
    contend(core, key, key->cause);
}

/* R9: deadlines are exact. The answer is that of the last round. */
void queue_wait_over(struct core *core, struct request *request)
{
    struct key *key = request->key;
    key->references++;
    struct lock *live = key->live;
    if (is_taken_here(key)) {
        request_answer(core, request, refusal_of_hold(core, live, ANSWER_WAIT_TIMEOUT));
    } else {
        enum answer answer = key->last_answer == ANSWER_LOCK_HELD ? ANSWER_WAIT_TIMEOUT : key->last_answer;
        uint32_t number = request->slot;
        request_answer(core, request, refusal_of_attempt(core, key, answer));
        if (live != NULL && live->contender == number)
            attempt_abandoned(core, live);
        queue_left(core, key);
    }
    key_release(core, key);
}

/* Somebody left the queue: unless an attempt is under way or timed, the next one contends. */
void queue_left(struct core *core, struct key *key)
{
    if (list_is_empty(&key->waiters))
        timers_clear(&core->timers, &key->retry);
    if (key->live == NULL && (key->retry.place == 0 || ticket_is_stale(core, key)))
        queue_contend(core, key);
}
