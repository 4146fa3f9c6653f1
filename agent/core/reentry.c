/* Reentrancy (R11): whoever holds a lock under a secret `owner` and asks for it again with the same owner, at this agent,
 * has it once more: same token, same number, no round trip. Each of them is released once; the last release frees the
 * key. Only the policy's keys are reentrant, and only a hold whose validity has not ended can be entered again. */
#include "core_assert.h"
#include "state.h"

static bool is_of_owner(const struct core *core, const struct lock *lock, const struct request *request)
{
    return lock_is_held(core, lock) && (secret_same(&lock->owner, &request->owner) || MUTANT(REENTRY_BY_ANYBODY));
}

static void answer_reentered(struct core *core, const struct lock *lock, struct request *request)
{
    struct effect_answer answer = answer_for_lock(ANSWER_REENTERED, lock);
    answer.tally = hold_tally(core, lock);
    request_answer(core, request, answer);
}

bool reentry_takes(struct core *core, struct request *request)
{
    struct lock *live = request->key->live;
    if (live == NULL || !is_of_owner(core, live, request))
        return false;
    if (live->count == LIMIT_REENTRIES) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return true;
    }
    live->count++;
    outbox_hold(core, live);
    answer_reentered(core, live, request);
    return true;
}

static uint32_t count_in(const struct core *core, const struct lock *lock, const struct list *list)
{
    uint32_t count = 0;
    for (struct link *at = list->head.next; at != &list->head; at = at->next)
        count += is_of_owner(core, lock, CONTAINER_OF(at, struct request, link));
    return count;
}

static void admit_from(struct core *core, const struct lock *lock, struct list *list)
{
    struct link *next;
    for (struct link *at = list->head.next; at != &list->head; at = next) {
        struct request *request = CONTAINER_OF(at, struct request, link);
        next = at->next;
        if (is_of_owner(core, lock, request))
            answer_reentered(core, lock, request);
    }
}

/* All at once, so that the journal is told once, and before any of them. */
void reentry_admit(struct core *core, struct lock *lock)
{
    struct key *key = lock->key;
    uint32_t more = count_in(core, lock, &key->waiters) + count_in(core, lock, &key->once);
    if (more == 0)
        return;
    CORE_ASSERT(lock->count + more <= LIMIT_REENTRIES); /* fewer can wait */
    lock->count = (uint16_t)(lock->count + more);
    outbox_hold(core, lock);
    admit_from(core, lock, &key->waiters);
    admit_from(core, lock, &key->once);
}

bool reentry_left(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->count >= 1);
    if (lock->count == 1 || MUTANT(REENTRY_LEFT_AT_ONCE))
        return false;
    lock->count--;
    outbox_hold(core, lock);
    return true;
}
