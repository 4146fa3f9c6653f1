/* Requests and their answers. An answer goes out at once if the effects have room, otherwise as
 * soon as they have: one event may decide thousands of requests. */
#include "internal.h"

#include <string.h>

#include "core_assert.h"

/* ---- requests ---- */

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

void request_index_secret(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_WAITING || request->state == REQUEST_ONCE);
    const struct secret *secret = &request->metadata.idempotency;
    if (secret->len > 0)
        hash_add(&core->requests_by_secret, &request->by_secret,
                 secret_hash(core, request->key->hash, secret));
}

struct core_request *request_by_secret(const struct core *core, const struct key *key,
                                       const struct secret *secret)
{
    CORE_ASSERT(secret->len > 0);
    const struct hash_table *table = &core->requests_by_secret;
    struct hash_link *at = hash_first(table, secret_hash(core, key->hash, secret));
    for (; at != NULL; at = hash_next(table, at)) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, by_secret);
        if (request->key == key && secret_same(&request->metadata.idempotency, secret))
            return request;
    }
    return NULL;
}

/* Takes the request out of all lists, timers and tables. */
static void leave_queue(struct core *core, struct core_request *request)
{
    if (request->state == REQUEST_WAITING)
        core->stats.waiters--;
    if (hash_has(&request->by_secret))
        hash_remove(&core->requests_by_secret, &request->by_secret,
                    secret_hash(core, request->key->hash, &request->metadata.idempotency));
    admission_guest_left(core, request);
    key_touched(core, request->key);
    list_remove(&request->link);
    timers_clear(&core->timers, timer_of_request(core, request));
}

void request_forget(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state != REQUEST_FREE);
    CORE_ASSERT(request->key != NULL && core->stats.requests > 0);
    leave_queue(core, request);
    if (request->follows)
        follow_ended(request);
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
    /* The answer borrows texts from a lock that may be gone when it is sent: keep copies of
     * them. */
    struct text label = answer.hold.label.len > 0 ? answer.hold.label : answer.occupant.label;
    CORE_ASSERT(label.len <= sizeof(request->metadata.label));
    if (label.len > 0)
        memmove(request->metadata.label, label.at, label.len);
    if (answer.hold.label.len > 0)
        answer.hold.label.at = request->metadata.label;
    if (answer.occupant.label.len > 0)
        answer.occupant.label.at = request->metadata.label;
    if (answer.hold.key.len > 0)
        answer.hold.key = key_text(request->key);
    leave_queue(core, request);
    request->settled = answer;
    request->state = REQUEST_SETTLED;
    list_append(&core->settled, &request->link);
}

void request_awaits_next_round(const struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(request->key == lock->key && request->state == REQUEST_RENEWING);
    request->wants_round = lock->round.number + !MUTANT(ROUND_OUT_COUNTS);
}

struct lock *request_attempt(const struct core_request *request)
{
    CORE_ASSERT(request->attempt == NULL || request->attempt->pending->contender == request->slot);
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
                                              .occupant.left_ms = -1});
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
        .occupant.left_ms = -1,
        .reason = lock->reason,
    };
}

/* ---- reentrancy ---- */

/* Reentrancy (R11): A caller that holds a lock under a secret `owner`, and asks for it again with
 * the same owner at this agent, has it once more: same token, same number. Each of these is
 * released once; the last release frees the key. Only the policy's keys are reentrant. Only a hold
 * whose validity has not ended can be entered again, after a quorum has confirmed it (calls.c).
 * Requests that waited when it was granted enter it at once: the grant is newer than they are, and
 * no caller knew the token before. */

static bool is_of_owner(const struct core *core, const struct lock *lock,
                        const struct core_request *request)
{
    return lock_is_held(core, lock) &&
           (secret_same(&lock_metadata(lock)->owner, &request->metadata.owner) ||
            MUTANT(REENTRY_BY_ANYBODY));
}

/* Returns true if a reader asks to write. It would wait for itself (R19). A writer may read. */
bool reentry_is_upgrade(const struct lock *lock, const struct core_request *request)
{
    return lock->terms.mode == MODE_READ && request->terms.mode == MODE_WRITE &&
           !MUTANT(UPGRADE_BY_REENTRY);
}

void reentry_refuses_upgrade(struct core *core, struct core_request *request)
{
    request_answer(
        core, request,
        (struct effect_answer){.answer = ANSWER_UPGRADE_REFUSED, .occupant.left_ms = -1});
}

struct lock *reentry_hold(const struct core *core, const struct core_request *request)
{
    if (request->metadata.owner.len == 0 && !MUTANT(REENTRY_BY_ANYBODY))
        return NULL;
    const struct list *holds = &request->key->holds;
    for (struct link *at = holds->head.next; at != &holds->head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, link);
        if (is_of_owner(core, lock, request))
            return lock;
    }
    return NULL;
}

/* Returns true if the request enters the hold. A request that contends itself, beside other
 * readers, gets a hold of its own. */
static bool is_admitted(const struct core *core, const struct lock *lock,
                        const struct core_request *request)
{
    return request->attempt == NULL && is_of_owner(core, lock, request);
}

static uint32_t count_in(const struct core *core, const struct lock *lock, const struct list *list)
{
    uint32_t count = 0;
    for (struct link *at = list->head.next; at != &list->head; at = at->next) {
        const struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        count += is_admitted(core, lock, request) && !reentry_is_upgrade(lock, request);
    }
    return count;
}

/* `left`: how many more may enter. The others stay in the queue. */
static void admit_from(struct core *core, const struct lock *lock, struct list *list,
                       uint32_t *left)
{
    struct link *next;
    for (struct link *at = list->head.next; at != &list->head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        if (!is_admitted(core, lock, request))
            continue;
        if (reentry_is_upgrade(lock, request)) {
            reentry_refuses_upgrade(core, request);
            continue;
        }
        if (*left == 0)
            return;
        --*left;
        CORE_ASSERT(lock->terms.count >= 2);
        struct effect_answer answer = answer_for_lock(ANSWER_REENTERED, lock);
        answer.tally = lease_tally(core, lock);
        request_answer(core, request, answer);
    }
}

/* Admits all waiting requests of the owner at once. So the journal is written once, before any of
 * them is answered. */
void reentry_admit(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    struct key *key = lock->key;
    if (lock_metadata(lock)->owner.len == 0 && !MUTANT(REENTRY_BY_ANYBODY))
        return;
    uint32_t more = count_in(core, lock, &key->contention->waiters) +
                    count_in(core, lock, &key->contention->once),
             most = LIMIT_REENTRIES - lock->terms.count;
    if (more > most)
        more = most;
    lock->terms.count = (uint16_t)(lock->terms.count + more);
    if (more > 0)
        outbox_hold(core, lock);
    admit_from(core, lock, &key->contention->waiters, &more);
    admit_from(core, lock, &key->contention->once, &more);
}

bool reentry_left(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->terms.count >= 1);
    CORE_ASSERT(lock->state >= LOCK_HELD);
    if (lock->terms.count == 1 || MUTANT(REENTRY_LEFT_AT_ONCE))
        return false;
    lock->terms.count--;
    /* The validity of the other entries goes on, so the journal's last entry stays. */
    if (lock->state != LOCK_ENDED)
        outbox_hold(core, lock);
    return true;
}
