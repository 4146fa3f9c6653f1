/* Keys that are read and written (R18). Those who wait here stand in one queue, whatever they want:
 *
 *   w r r r w    a writer contends alone, as of a mutex
 *   r r r w r    the readers in front contend side by side, each with a lock and a round of its
 *                own; who comes behind a writer waits for it
 *
 * Where one of those side by side is refused, no other begins, and who was refused not again, until
 * all that contend are decided: then all pause. Otherwise more readers than there are places would
 * take each other's for ever, and ask the masters without a pause.
 *
 * A key has one writer's attempt or hold, or any number of readers'. A writer that waits contends
 * also while readers here hold the key: its attempt is refused, and leaves its ticket with the
 * masters, so that no reader elsewhere passes it. There is no hand-over. A release and the attempts
 * of the next ones go out together, in order, and the tickets decide. */
#include "readers.h"

#include "core_assert.h"

/* The first of the list that does not contend yet, where all in front of it read; or a writer. */
static struct core_request *first_idle(const struct list *list)
{
    for (struct link *at = list->head.next; at != &list->head; at = at->next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        if (MUTANT(READER_PASSES_HERE) && request->terms.mode == MODE_WRITE &&
            at->next != &list->head)
            continue;
        if (request->attempt == NULL || request->terms.mode == MODE_WRITE)
            return request;
    }
    return NULL;
}

struct core_request *readers_next(const struct key *key)
{
    CORE_ASSERT(key->is_shared);
    const struct contest *contest = key->contest;
    if (contest->is_refused)
        return NULL;
    struct core_request *next = first_idle(&contest->waiters);
    bool waits = next != NULL;
    if (!waits)
        next = first_idle(&contest->once);
    if (next == NULL || next->terms.mode == MODE_READ)
        return next;
    bool is_first = waits
                        ? request_first(&contest->waiters) == next
                        : list_is_empty(&contest->waiters) && request_first(&contest->once) == next;
    return is_first && contest->attempts == 0 ? next : NULL;
}

bool readers_wait_on(const struct core *core, const struct key *key,
                     const struct core_request *first)
{
    CORE_ASSERT(key->is_shared);
    bool is_in_vain =
        first == NULL || first->terms.mode == MODE_READ || !list_is_empty(&key->holds);
    return is_in_vain && key_has_retry(core, key);
}

bool readers_share_failure(const struct core_request *once, enum mode mode, bool waits)
{
    CORE_ASSERT(once->state == REQUEST_ONCE);
    bool may_differ = once->terms.mode == MODE_READ && mode == MODE_WRITE && !waits;
    return once->attempt == NULL && !may_differ;
}

uint32_t readers_here(const struct key *key)
{
    uint32_t count = 0;
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        const struct lock *lock = CONTAINER_OF(at, struct lock, link);
        count += lock->terms.mode == MODE_READ && lock->state == LOCK_HELD;
    }
    return count;
}
