/* Views of the core between two steps. */
#include "core.h"

#include "core_assert.h"
#include "internal.h"
#include "state.h"

struct entropy *core_entropy(struct core *core)
{
    CORE_ASSERT(core->effects == NULL);
    return &core->entropy;
}

const struct core_stats *core_stats(const struct core *core)
{
    return &core->stats;
}

bool core_owes_quorum(const struct core *core)
{
    for (uint32_t i = 0; i < core->locks_used; i++) {
        const struct lock *lock = lock_at(core, i);
        uint8_t masters = core->groups[lock->group].config.masters;
        if (lock->owed != 0 && masters - set_size(lock->owed) < lock->quorum)
            return true;
    }
    return false;
}

static bool is_valid(const struct lock *lock, struct instant now)
{
    return lock->state == LOCK_HELD && instant_before(now, lock->valid_until);
}

bool core_next_hold(const struct core *core, struct instant now, uint32_t *cursor,
                    struct hold_view *ret_view)
{
    CORE_ASSERT(core->effects == NULL);
    while (*cursor < core->locks_used) {
        const struct lock *lock = lock_at(core, (*cursor)++);
        if (!is_valid(lock, now))
            continue;
        *ret_view = lock_view(lock);
        ret_view->confirmed = lease_confirmed(core, lock, now);
        return true;
    }
    return false;
}

bool core_has_hold(const struct core *core, struct lock_ref ref, struct instant now)
{
    CORE_ASSERT(core->effects == NULL && ref.slot < core->locks_size);
    const struct lock *lock = lock_at(core, ref.slot);
    return lock->generation == ref.generation && is_valid(lock, now);
}

bool core_find_hold(const struct core *core, struct text key, const struct token *token,
                    struct instant now, struct hold_view *ret_view, struct lock_ref *ret_lock)
{
    CORE_ASSERT(core->effects == NULL);
    const struct key *found = key_find(core, key);
    const struct lock *lock = found == NULL ? NULL : lock_index_next(core, found, token, NULL);
    while (lock != NULL && !(is_valid(lock, now) && token_same(&lock->token, token)))
        lock = lock_index_next(core, found, token, lock);
    if (lock == NULL)
        return false;
    *ret_view = lock_view(lock);
    ret_view->confirmed = lease_confirmed(core, lock, now);
    *ret_lock = lock_ref(lock);
    return true;
}

/* The cursor is the slot of the last lock that was returned, plus 1. */
bool core_next_hold_of(const struct core *core, struct text key, struct instant now,
                       uint32_t *cursor, struct hold_view *ret_view, struct lock_ref *ret_lock)
{
    CORE_ASSERT(core->effects == NULL && *cursor <= core->locks_used);
    const struct key *found = key_find(core, key);
    if (found == NULL)
        return false;
    const struct link *at = *cursor == 0 ? &found->holds.head : &lock_at(core, *cursor - 1)->link;
    while ((at = at->next) != &found->holds.head) {
        const struct lock *lock = CONTAINER_OF(at, const struct lock, link);
        if (!is_valid(lock, now))
            continue;
        *cursor = lock->slot + 1;
        *ret_view = lock_view(lock);
        ret_view->confirmed = lease_confirmed(core, lock, now);
        *ret_lock = lock_ref(lock);
        return true;
    }
    return false;
}

bool core_knows(const struct core *core, struct text key, const struct token *token)
{
    CORE_ASSERT(core->effects == NULL);
    const struct key *found = key_find(core, key);
    return found != NULL && lock_by_token(core, found, token) != NULL;
}

bool core_knows_secret(const struct core *core, struct text key, struct text secret)
{
    CORE_ASSERT(core->effects == NULL && secret.len > 0);
    const struct key *found = key_find(core, key);
    struct secret wanted = {0};
    secret_take(&wanted, secret);
    const struct lock *lock =
        found == NULL ? NULL : lock_index_next_secret(core, found, &wanted, /* after= */ NULL);
    return lock != NULL && !used_up_has(core, found, &wanted);
}

bool core_awaits_flush(const struct core *core)
{
    CORE_ASSERT(core->effects == NULL);
    return outbox_gathers(core) || admission_is_due(core);
}

bool core_next_in_queue(const struct core *core, uint8_t group, uint32_t *cursor,
                        struct text *ret_key)
{
    CORE_ASSERT(core->effects == NULL && group < core->group_count);
    const struct list *queue = &core->groups[group].admission.queue;
    const struct link *at = queue->head.next;
    for (uint32_t i = 0; i < *cursor && at != &queue->head; i++)
        at = at->next;
    if (at == &queue->head)
        return false;
    ++*cursor;
    *ret_key = key_text(CONTAINER_OF(at, struct contention, admission.link)->key);
    return true;
}

bool core_next_wait(const struct core *core, uint32_t *cursor, struct wait_view *ret_view)
{
    CORE_ASSERT(core->effects == NULL);
    while (*cursor < core->requests_used) {
        const struct core_request *request = &core->requests[(*cursor)++];
        if (request->state != REQUEST_WAITING)
            continue;
        *ret_view = (struct wait_view){.key = key_text(request->key),
                                       .label = metadata_label(&request->metadata),
                                       .mode = request->terms.mode,
                                       .since = request->came_at};
        return true;
    }
    return false;
}
