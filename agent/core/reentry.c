/* Reentrancy (R11): whoever holds a lock under a secret `owner` and asks for it again with the same owner, at this agent,
 * has it once more: same token, same number, no round trip. Each of them is released once; the last release frees the
 * key. Only the policy's keys are reentrant, and only a hold whose validity has not ended can be entered again. */
#include "core_assert.h"
#include "state.h"

bool reentry_takes(struct core *core, struct request *request)
{
    struct lock *live = request->key->live;
    if (live == NULL || !lock_is_held(core, live) || !secret_same(&live->owner, &request->owner))
        return false;
    if (live->count == LIMIT_REENTRIES) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return true;
    }
    live->count++;
    struct effect_answer answer = answer_for_lock(ANSWER_REENTERED, live);
    answer.tally = hold_tally(core, live);
    request_answer(core, request, answer);
    return true;
}

static void admit_from(struct core *core, struct list *list)
{
    struct link *next;
    for (struct link *at = list->head.next; at != &list->head; at = next) {
        next = at->next;
        reentry_takes(core, CONTAINER_OF(at, struct request, link));
    }
}

void reentry_admit(struct core *core, struct lock *lock)
{
    admit_from(core, &lock->key->waiters);
    admit_from(core, &lock->key->once);
}

bool reentry_left(struct lock *lock)
{
    CORE_ASSERT(lock->count >= 1);
    if (lock->count == 1)
        return false;
    lock->count--;
    return true;
}
