/* Requests and their answers. An answer goes out at once while the effects have room, and else as
 * soon as they have: one event may decide thousands of requests. */
#include "requests.h"

#include <string.h>

#include "admission.h"
#include "core_assert.h"
#include "key_table.h"
#include "lock_table.h"
#include "outbox.h"
#include "retire.h"

struct core_request *request_new(struct core *core, uint32_t number, struct key *key)
{
    CORE_ASSERT(number < core->requests_max);
    struct core_request *request = &core->requests[number];
    CORE_ASSERT(request->state == REQUEST_FREE);
    CORE_ASSERT(request->link.next == NULL);
    uint32_t generation = request->generation + 1, rounds = request->round.number;
    memset(request, 0, offsetof(struct core_request, states));
    request->slot = number;
    request->generation = generation;
    request->round.number = rounds;
    request->state = REQUEST_BEGUN;
    request->key = key;
    request->came_at = core->now;
    request->came = ++core->requests_came;
    key_refer(core, key);
    if (core->requests_used <= number)
        core->requests_used = number + 1;
    core->stats.requests++;
    return request;
}

/* It is in no list and waits for nothing any more. */
static void leave_queue(struct core *core, struct core_request *request)
{
    if (request->state == REQUEST_WAITING)
        core->stats.waiters--;
    admission_guest_left(core, request);
    list_remove(&request->link);
    timers_clear(&core->timers, timer_of_request(core, request));
}

void request_forget(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state != REQUEST_FREE);
    CORE_ASSERT(request->key != NULL && core->stats.requests > 0);
    leave_queue(core, request);
    request->state = REQUEST_FREE;
    core->stats.requests--;
    struct key *key = request->key;
    request->key = NULL;
    key_release(core, key);
}

static void put_answer(struct core *core, const struct effect_answer *answer)
{
    CORE_ASSERT(answer->request < core->requests_max);
    outbox_effect(core, EFFECT_ANSWER)->answer = *answer;
}

void request_answer(struct core *core, struct core_request *request, struct effect_answer answer)
{
    CORE_ASSERT(request->state != REQUEST_FREE && request->state != REQUEST_SETTLED);
    answer.request = request->slot;
    answer.policy = request->key->policy;
    answer.group = request->key->group;
    answer.waited_us = instant_us_between(request->came_at, core->now);
    if (outbox_has_room_for_answer(core)) {
        put_answer(core, &answer);
        request_forget(core, request);
        return;
    }
    /* What the answer borrows from a lock may be gone by then: keep copies of it. */
    struct text label = answer.hold.label.len > 0 ? answer.hold.label : answer.holder;
    CORE_ASSERT(label.len <= sizeof(request->words.label));
    if (label.len > 0)
        memmove(request->words.label, label.at, label.len);
    if (answer.hold.label.len > 0)
        answer.hold.label.at = request->words.label;
    if (answer.holder.len > 0)
        answer.holder.at = request->words.label;
    if (answer.hold.key.len > 0)
        answer.hold.key = key_text(request->key);
    leave_queue(core, request);
    request->settled = answer;
    request->state = REQUEST_SETTLED;
    list_append(&core->settled, &request->link);
}

struct lock *request_attempt(const struct core_request *request)
{
    CORE_ASSERT(request->attempt == NULL || request->attempt->errand->contender == request->slot);
    return request->attempt;
}

void requests_answer(struct core *core, struct list *list, enum answer answer, enum reason reason)
{
    struct core_request *request;
    while ((request = request_first(list)) != NULL)
        request_answer(core, request, (struct effect_answer){.answer = answer, .reason = reason});
}

void requests_answer_round(struct core *core, struct lock *lock, enum answer answer)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING || lock->state == LOCK_RELEASING);
    struct core_request *request;
    while ((request = request_first(&lock->requests)) != NULL) {
        request_answer(core, request,
                       (struct effect_answer){.answer = answer,
                                              .tally = round_tally(&lock->round),
                                              .reason = lock->reason,
                                              .retry_after_ms = -1});
    }
}

void requests_settle(struct core *core)
{
    struct core_request *request;
    while (outbox_has_room_for_answer(core) && (request = request_first(&core->settled)) != NULL) {
        CORE_ASSERT(request->state == REQUEST_SETTLED);
        put_answer(core, &request->settled);
        request_forget(core, request);
    }
}

struct effect_answer answer_for_lock(enum answer answer, const struct lock *lock)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    return (struct effect_answer){
        .answer = answer,
        .lock = lock_ref(lock),
        .hold = lock_view(lock),
        .tally = round_tally(&lock->round),
        .retry_after_ms = -1,
        .reason = lock->reason,
    };
}
