/* What the surroundings may look at between two steps. */
#include "core.h"

#include "admission.h"
#include "core_assert.h"
#include "key_table.h"
#include "lease.h"
#include "lock_table.h"
#include "outbox.h"
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

bool core_next_hold(const struct core *core, struct instant now, uint32_t *cursor,
                    struct hold_view *ret_view)
{
    CORE_ASSERT(core->effects == NULL);
    while (*cursor < core->locks_used) {
        const struct lock *lock = lock_at(core, (*cursor)++);
        if (lock->state != LOCK_HELD || !instant_before(now, lock->valid_until))
            continue;
        *ret_view = lock_view(lock);
        ret_view->confirmed = lease_confirmed(core, lock, now);
        return true;
    }
    return false;
}

bool core_find_hold(const struct core *core, struct text key, struct instant now,
                    struct hold_view *ret_view, struct lock_ref *ret_lock)
{
    CORE_ASSERT(core->effects == NULL);
    const struct key *found = key_find(core, key);
    const struct lock *holder = found == NULL ? NULL : key_holder(found);
    if (holder == NULL || holder->state != LOCK_HELD || !instant_before(now, holder->valid_until))
        return false;
    *ret_view = lock_view(holder);
    ret_view->confirmed = lease_confirmed(core, holder, now);
    *ret_lock = lock_ref(holder);
    return true;
}

bool core_awaits_flush(const struct core *core)
{
    CORE_ASSERT(core->effects == NULL);
    return outbox_gathers(core) || admission_is_due(core);
}

bool core_next_in_line(const struct core *core, uint8_t group, uint32_t *cursor,
                       struct text *ret_key)
{
    CORE_ASSERT(core->effects == NULL && group < core->group_count);
    const struct list *line = &core->groups[group].admission.line;
    const struct link *at = line->head.next;
    for (uint32_t i = 0; i < *cursor && at != &line->head; i++)
        at = at->next;
    if (at == &line->head)
        return false;
    ++*cursor;
    *ret_key = key_text(CONTAINER_OF(at, struct contest, admission.link)->key);
    return true;
}

bool core_next_wait(const struct core *core, uint32_t *cursor, struct text *ret_key,
                    struct instant *ret_since)
{
    CORE_ASSERT(core->effects == NULL);
    while (*cursor < core->requests_used) {
        const struct core_request *request = &core->requests[(*cursor)++];
        if (request->state != REQUEST_WAITING)
            continue;
        *ret_key = key_text(request->key);
        *ret_since = request->came_at;
        return true;
    }
    return false;
}
