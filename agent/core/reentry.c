/* Reentrancy (R11): whoever holds a lock under a secret `owner` and asks for it again with the same
 * owner, at this agent, has it once more: same token, same number. Each of them is released once;
 * the last release frees the key. Only the policy's keys are reentrant, and only a hold whose
 * validity has not ended can be entered again, after a quorum has confirmed it (again.c). The
 * requests that waited as it was granted enter it at once: the grant is newer than they are, and
 * nobody knew the token before. */
#include "reentry.h"

#include "core_assert.h"
#include "key_table.h"
#include "lease.h"
#include "lock_table.h"
#include "lock_words.h"
#include "outbox.h"
#include "requests.h"

static bool is_of_owner(const struct core *core, const struct lock *lock,
                        const struct core_request *request)
{
    return lock_is_held(core, lock) &&
           (secret_same(&lock_words(lock)->owner, &request->words.owner) ||
            MUTANT(REENTRY_BY_ANYBODY));
}

static void answer_reentered(struct core *core, const struct lock *lock,
                             struct core_request *request)
{
    CORE_ASSERT(lock->terms.count >= 2);
    struct effect_answer answer = answer_for_lock(ANSWER_REENTERED, lock);
    answer.tally = lease_tally(core, lock);
    request_answer(core, request, answer);
}

/* Who reads would wait for itself to write (R19). Who writes may read. */
bool reentry_is_upgrade(const struct lock *lock, const struct core_request *request)
{
    return lock->terms.mode == MODE_READ && request->terms.mode == MODE_WRITE &&
           !MUTANT(UPGRADE_BY_REENTRY);
}

void reentry_refuses_upgrade(struct core *core, struct core_request *request)
{
    request_answer(core, request,
                   (struct effect_answer){.answer = ANSWER_UPGRADE_REFUSED, .retry_after_ms = -1});
}

struct lock *reentry_hold(const struct core *core, const struct core_request *request)
{
    if (request->words.owner.len == 0 && !MUTANT(REENTRY_BY_ANYBODY))
        return NULL;
    const struct list *holds = &request->key->holds;
    for (struct link *at = holds->head.next; at != &holds->head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, link);
        if (is_of_owner(core, lock, request))
            return lock;
    }
    return NULL;
}

/* One that contends itself, beside others who read, gets a hold of its own. */
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

static void admit_from(struct core *core, const struct lock *lock, struct list *list)
{
    struct link *next;
    for (struct link *at = list->head.next; at != &list->head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        if (!is_admitted(core, lock, request))
            continue;
        if (reentry_is_upgrade(lock, request))
            reentry_refuses_upgrade(core, request);
        else
            answer_reentered(core, lock, request);
    }
}

/* All at once, so that the journal is told once, and before any of them. */
void reentry_admit(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    struct key *key = lock->key;
    if (lock_words(lock)->owner.len == 0 && !MUTANT(REENTRY_BY_ANYBODY))
        return;
    uint32_t more =
        count_in(core, lock, &key->contest->waiters) + count_in(core, lock, &key->contest->once);
    CORE_ASSERT(lock->terms.count + more <= LIMIT_REENTRIES); /* fewer can wait */
    lock->terms.count = (uint16_t)(lock->terms.count + more);
    if (more > 0)
        outbox_hold(core, lock);
    admit_from(core, lock, &key->contest->waiters);
    admit_from(core, lock, &key->contest->once);
}

bool reentry_left(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->terms.count >= 1);
    CORE_ASSERT(lock->state >= LOCK_HELD);
    if (lock->terms.count == 1 || MUTANT(REENTRY_LEFT_AT_ONCE))
        return false;
    lock->terms.count--;
    /* the others' validity goes on: the journal's last word of it stays */
    if (lock->state != LOCK_ENDED)
        outbox_hold(core, lock);
    return true;
}
