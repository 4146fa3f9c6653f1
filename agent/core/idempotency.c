/* Safe retry (D3): a POST whose answer was lost is asked again with the same idempotency key, and
 * is the same request.
 *
 *   what became of the first one              the second one
 *   waits, or its round is out                takes its place; the first is answered `superseded`
 *   has got the lock                          gets the same answer, as `repeated`, once a quorum
 *                                             has confirmed the token (confirm.c)
 *   has got the lock and lost it              `lock_lost`
 *   nothing, or nobody was there to be told   is the first one
 *   was released by DELETE                    `superseded`, for as long as a copy of it may
 *                                             still be under way (wait_ms_max)
 *
 * A hold that was answered several times is given back only when none of the answers was delivered:
 * `answers` counts those that have not failed. */
#include "idempotency.h"

#include "again.h"
#include "attempt.h"
#include "contend.h"
#include "core_assert.h"
#include "debt.h"
#include "lock_index.h"
#include "lock_table.h"
#include "lock_words.h"
#include "requests.h"

static bool is_refused(const struct core *core, const struct lock *lock)
{
    return lock->refuses &&
           (lock->state == LOCK_RELEASING || instant_before(core->now, lock->forget_at));
}

/* The one lock of the key that the secret still means: as the first request left it. */
static struct lock *find_lock(const struct core *core, const struct key *key,
                              const struct secret *secret)
{
    CORE_ASSERT(secret->len > 0);
    struct lock *lock = NULL;
    while ((lock = lock_index_next_secret(core, key, secret, lock)) != NULL) {
        bool known = lock->state == LOCK_HELD || lock->state == LOCK_LOST ||
                     is_refused(core, lock) ||
                     (lock->state == LOCK_ENDED && lock->reason != REASON_NONE);
        if (known && !MUTANT(REPEAT_CONTENDS))
            return lock;
    }
    return NULL;
}

static struct core_request *find_in(const struct list *list, const struct secret *secret)
{
    for (struct link *at = list->head.next; at != &list->head; at = at->next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        if (secret_same(&request->words.idempotency, secret))
            return request;
    }
    return NULL;
}

static struct core_request *find_request(const struct key *key, const struct secret *secret)
{
    CORE_ASSERT(secret->len > 0);
    struct core_request *request = find_in(&key->contest->waiters, secret);
    return request != NULL ? request : find_in(&key->contest->once, secret);
}

static void answer_from_lock(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->key == request->key && request->state == REQUEST_BEGUN);
    if (is_refused(core, lock)) {
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_SUPERSEDED, .retry_after_ms = -1});
    } else if (lock_words(lock)->asked != request->words.asked) {
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_IDEMPOTENCY_MISMATCH});
    } else if (lock_is_held(core, lock)) {
        again_asked(core, lock, request, ANSWER_REPEATED);
    } else {
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
    }
}

/* In the queue, and before the masters, the newer request stands where the older one stood. */
static void take_place(struct core *core, struct core_request *older, struct core_request *newer)
{
    CORE_ASSERT(older->key == newer->key && newer->state == REQUEST_BEGUN);
    newer->state = older->state;
    newer->came = older->came;
    newer->ticket = older->ticket;
    newer->ticket_is_fresh = older->ticket_is_fresh;
    list_insert(&older->link, &newer->link);
    core->stats.waiters += newer->state == REQUEST_WAITING;
    timers_set(&core->timers, timer_of_request(core, newer), contend_deadline(newer));
    struct lock *attempt = request_attempt(older);
    if (attempt != NULL)
        attempt->errand->contender = newer->slot;
    newer->attempt = attempt;
    older->attempt = NULL;
    request_answer(core, older,
                   (struct effect_answer){.answer = ANSWER_SUPERSEDED, .retry_after_ms = -1});
}

/* D3: what must be the same when a request is asked again with its idempotency key; also after a
 * restart, so the hash has no key. */
uint64_t idempotency_hash(const struct event_acquire *event)
{
    const int64_t asked[] = {event->ttl_ms, event->wait_ms + event->late_ms, event->max_hold_ms,
                             event->renew, event->bound | event->mode << 1};
    return hash_bytes(0, hash_bytes(0, 0, event->label.at, event->label.len), asked, sizeof(asked));
}

bool idempotency_settles(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN);
    if (request->words.idempotency.len == 0)
        return false;
    struct lock *lock = find_lock(core, request->key, &request->words.idempotency);
    struct core_request *older =
        lock == NULL ? find_request(request->key, &request->words.idempotency) : NULL;
    if (lock != NULL)
        answer_from_lock(core, lock, request);
    else if (older != NULL && older->words.asked != request->words.asked)
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_IDEMPOTENCY_MISMATCH});
    else if (older != NULL)
        take_place(core, older, request);
    return lock != NULL || older != NULL;
}

bool idempotency_keeps(struct lock *lock)
{
    CORE_ASSERT(lock->state >= LOCK_HELD);
    if (lock->answers <= 1 || MUTANT(REPEAT_UNCOUNTED))
        return false;
    lock->answers--;
    return true;
}

void idempotency_use_up(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    if (lock_words(lock)->idempotency.len == 0 || MUTANT(IDEMPOTENCY_NOT_USED_UP))
        return;
    lock->refuses = true;
    /* remembered as lost or used up: from now on, for the whole time */
    if (lock->state == LOCK_ENDED) {
        lock->forget_at = instant_after_ms(core->now, used_up_ms(core));
        debt_settled(core, lock);
    }
}

struct lock *idempotency_released(struct core *core, struct key *key, const struct secret *secret)
{
    CORE_ASSERT(secret->len > 0);
    CORE_ASSERT(key->references > 0);
    struct lock *lock = find_lock(core, key, secret);
    if (lock != NULL) {
        idempotency_use_up(core, lock);
        return lock;
    }
    struct core_request *older = find_request(key, secret);
    if (older != NULL) {
        struct lock *attempt = request_attempt(older);
        request_answer(core, older,
                       (struct effect_answer){.answer = ANSWER_SUPERSEDED, .retry_after_ms = -1});
        if (attempt != NULL)
            attempt_abandoned(core, attempt);
        contend_left(core, key);
    }
    struct lock *memory = lock_new(core, key, LOCK_RELEASING, MODE_WRITE);
    if (memory == NULL)
        return NULL;
    lock_keep_words(core, memory, &(struct words){.idempotency = *secret});
    lock_index_secret(core, memory);
    memory->refuses = memory->stranger = memory->given_back = true;
    debt_begun(core, memory, /* except= */ 0);
    return memory;
}
