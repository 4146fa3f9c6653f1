/* Requests and their answers. An answer goes out at once while the effects have room, and else as soon as they have:
 * one event may decide thousands of requests. */
#include <string.h>

#include "core_assert.h"
#include "state.h"

struct request *request_new(struct core *core, uint32_t number, struct key *key)
{
    CORE_ASSERT(number < core->requests_max);
    struct request *request = &core->requests[number];
    CORE_ASSERT(request->state == REQUEST_FREE);
    uint32_t generation = request->generation + 1, rounds = request->round.number;
    memset(request, 0, offsetof(struct request, states));
    request->slot = number;
    request->generation = generation;
    request->round.number = rounds;
    request->state = REQUEST_BEGUN;
    request->key = key;
    request->came_at = core->now;
    request->timer.owner = TIMER_OF_REQUEST;
    key->references++;
    if (core->requests_used <= number)
        core->requests_used = number + 1;
    core->stats.requests++;
    return request;
}

void request_forget(struct core *core, struct request *request)
{
    CORE_ASSERT(request->state != REQUEST_FREE);
    if (request->state == REQUEST_WAITING)
        core->stats.waiters--;
    list_remove(&request->link);
    timers_clear(&core->timers, &request->timer);
    request->state = REQUEST_FREE;
    core->stats.requests--;
    struct key *key = request->key;
    request->key = NULL;
    key_release(core, key);
}

static void put_answer(struct core *core, const struct effect_answer *answer)
{
    outbox_effect(core, EFFECT_ANSWER)->answer = *answer;
}

void request_answer(struct core *core, struct request *request, struct effect_answer answer)
{
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
    CORE_ASSERT(label.len <= sizeof(request->label));
    if (label.len > 0)
        memmove(request->label, label.at, label.len);
    if (answer.hold.label.len > 0)
        answer.hold.label.at = request->label;
    if (answer.holder.len > 0)
        answer.holder.at = request->label;
    if (answer.hold.key.len > 0)
        answer.hold.key = key_text(request->key);
    if (request->state == REQUEST_WAITING)
        core->stats.waiters--;
    list_remove(&request->link);
    timers_clear(&core->timers, &request->timer);
    request->settled = answer;
    request->state = REQUEST_SETTLED;
    list_append(&core->settled, &request->link);
}

void request_refuse(struct core *core, uint32_t number, struct effect_answer answer)
{
    answer.request = number;
    put_answer(core, &answer);
}

void requests_answer(struct core *core, struct list *list, enum answer answer, enum reason reason)
{
    struct link *link;
    while ((link = list_first(list)) != NULL) {
        struct request *request = CONTAINER_OF(link, struct request, link);
        request_answer(core, request, (struct effect_answer){.answer = answer, .reason = reason});
    }
}

void requests_answer_round(struct core *core, struct lock *lock, enum answer answer)
{
    struct link *link;
    while ((link = list_first(&lock->requests)) != NULL) {
        struct request *request = CONTAINER_OF(link, struct request, link);
        request_answer(
            core, request,
            (struct effect_answer){
                .answer = answer, .tally = round_tally(&lock->round), .reason = lock->reason, .retry_after_ms = -1});
    }
}

void requests_settle(struct core *core)
{
    struct link *link;
    while (outbox_has_room_for_answer(core) && (link = list_first(&core->settled)) != NULL) {
        struct request *request = CONTAINER_OF(link, struct request, link);
        put_answer(core, &request->settled);
        request_forget(core, request);
    }
}

struct tally hold_tally(const struct core *core, const struct lock *lock)
{
    return (struct tally){.granted = lock_view(lock).confirmed,
                          .total = core->groups[lock->group].config.masters,
                          .quorum = lock->quorum};
}

struct effect_answer answer_for_lock(enum answer answer, const struct lock *lock)
{
    return (struct effect_answer){
        .answer = answer,
        .lock = lock_ref(lock),
        .hold = lock_view(lock),
        .tally = round_tally(&lock->round),
        .retry_after_ms = -1,
        .reason = lock->reason,
    };
}
