/* Safe retry (D3): a POST whose answer was lost is asked again with the same idempotency key, and is the same request.
 *
 *   what became of the first one              the second one
 *   waits, or its round is out                takes its place; the first is answered `superseded`
 *   has got the lock                          gets the same answer, as `repeated`
 *   has got the lock and lost it              `lock_lost`
 *   nothing, or nobody was there to be told   is the first one
 *   was released by DELETE                    `superseded`, for as long as a copy of it may still be under way (wait_ms_max)
 *
 * A hold that was answered several times is given back only when none of the answers was delivered: `answers` counts
 * those that have not failed. */
#include "core_assert.h"
#include "state.h"

static bool is_refused(const struct core *core, const struct lock *lock)
{
    return lock->refuses && (lock->state == LOCK_RELEASING || instant_before(core->now, lock->forget_at));
}

/* The one lock of the key that the secret still means: as the first request left it. */
static struct lock *find_lock(const struct core *core, const struct key *key, const struct secret *secret)
{
    for (struct link *at = key->locks.head.next; at != &key->locks.head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, of_key);
        bool known = lock->state == LOCK_HELD || lock->state == LOCK_LOST || is_refused(core, lock) ||
                     (lock->state == LOCK_ENDED && lock->reason != REASON_NONE);
        if (known && !MUTANT(REPEAT_CONTENDS) && secret_same(&lock->idempotency, secret))
            return lock;
    }
    return NULL;
}

static struct request *find_in(const struct list *list, const struct secret *secret)
{
    for (struct link *at = list->head.next; at != &list->head; at = at->next) {
        struct request *request = CONTAINER_OF(at, struct request, link);
        if (secret_same(&request->idempotency, secret))
            return request;
    }
    return NULL;
}

static struct request *find_request(const struct key *key, const struct secret *secret)
{
    struct request *request = find_in(&key->waiters, secret);
    return request != NULL ? request : find_in(&key->once, secret);
}

static void answer_from_lock(struct core *core, struct lock *lock, struct request *request)
{
    if (is_refused(core, lock)) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_SUPERSEDED, .retry_after_ms = -1});
    } else if (lock->terms != request->terms) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_IDEMPOTENCY_MISMATCH});
    } else if (lock_is_held(core, lock)) {
        lock->answers++;
        struct effect_answer answer = answer_for_lock(ANSWER_REPEATED, lock);
        answer.tally = hold_tally(core, lock);
        request_answer(core, request, answer);
    } else {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
    }
}

/* In the queue, and before the masters, the newer request stands where the older one stood. */
static void take_place(struct core *core, struct request *older, struct request *newer, int64_t wait_ms)
{
    struct lock *live = older->key->live;
    newer->state = older->state;
    newer->ticket = older->ticket;
    newer->ticket_is_fresh = older->ticket_is_fresh;
    list_insert(&older->link, &newer->link);
    if (newer->state == REQUEST_WAITING) {
        core->stats.waiters++;
        timers_set(&core->timers, &newer->timer, instant_after_ms(newer->came_at, wait_ms));
    }
    if (live != NULL && live->contender == older->slot)
        live->contender = newer->slot;
    request_answer(core, older, (struct effect_answer){.answer = ANSWER_SUPERSEDED, .retry_after_ms = -1});
}

/* D3: what must be the same when a request is asked again with its idempotency key; also after a restart, so the hash has no key. */
uint64_t idempotency_terms(const struct event_acquire *event)
{
    const int64_t terms[] = {event->ttl_ms, event->wait_ms, event->max_hold_ms, event->renew, event->bound};
    return hash_bytes(0, hash_bytes(0, 0, event->label.at, event->label.len), terms, sizeof(terms));
}

bool idempotency_settles(struct core *core, struct request *request, int64_t wait_ms)
{
    if (request->idempotency.len == 0)
        return false;
    struct lock *lock = find_lock(core, request->key, &request->idempotency);
    struct request *older = lock == NULL ? find_request(request->key, &request->idempotency) : NULL;
    if (lock != NULL)
        answer_from_lock(core, lock, request);
    else if (older != NULL && older->terms != request->terms)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_IDEMPOTENCY_MISMATCH});
    else if (older != NULL)
        take_place(core, older, request, wait_ms);
    return lock != NULL || older != NULL;
}

bool idempotency_keeps(struct lock *lock)
{
    if (lock->answers <= 1 || MUTANT(REPEAT_UNCOUNTED))
        return false;
    lock->answers--;
    return true;
}

void idempotency_use_up(struct core *core, struct lock *lock)
{
    if (lock->idempotency.len == 0 || MUTANT(IDEMPOTENCY_NOT_USED_UP))
        return;
    lock->refuses = true;
    if (lock->state == LOCK_ENDED) { /* remembered as lost or used up: from now on, for the whole time */
        lock->forget_at = instant_after_ms(core->now, used_up_ms(core));
        lock_settled(core, lock);
    }
}

struct lock *idempotency_released(struct core *core, struct key *key, const struct secret *secret)
{
    struct lock *lock = find_lock(core, key, secret);
    if (lock != NULL) {
        idempotency_use_up(core, lock);
        return lock;
    }
    struct request *older = find_request(key, secret);
    if (older != NULL) {
        struct lock *live = key->live;
        bool contends = live != NULL && live->contender == older->slot;
        request_answer(core, older, (struct effect_answer){.answer = ANSWER_SUPERSEDED, .retry_after_ms = -1});
        if (contends)
            attempt_abandoned(core, live);
        queue_left(core, key);
    }
    struct lock *memory = lock_new(core, key, LOCK_RELEASING);
    if (memory == NULL)
        return NULL;
    memory->idempotency = *secret;
    memory->refuses = memory->stranger = true;
    release_undone(core, memory, /* except= */ 0);
    return memory;
}
