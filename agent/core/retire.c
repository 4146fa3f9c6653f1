/* The end of keys and locks: what masters and the journal were told of them is taken back as
 * they leave their tables. */
#include "retire.h"

#include "core_assert.h"
#include "key_table.h"
#include "lock_table.h"
#include "outbox.h"
#include "ticket.h"
#include "wake.h"

void key_release(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0);
    if (list_is_empty(&key->contest->waiters)) {
        wake_unwatch(core, key);
        ticket_withdrawn(core, key);
    }
    key_left(core, key);
    if (--key->references == 0)
        key_remove(core, key);
}

static void forgive_debts(struct core *core, struct lock *lock)
{
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        core->stats.debt[lock->group][m] -= set_has(lock->owed, m);
    lock->owed = 0;
}

void lock_free(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING || lock->state == LOCK_ENDED);
    struct key *key = lock->key;
    outbox_let_go(core, key);
    outbox_forget(core, lock);
    forgive_debts(core, lock);
    lock_remove(core, lock);
    key_release(core, key);
}

void lock_end(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_under_way(lock) && list_is_empty(&lock->requests));
    CORE_ASSERT(core->ended_count <= core->ended_max);
    lock_set_state(core, lock, LOCK_ENDED);
    core->locks_under_way--;
    if (core->ended_count == core->ended_max) {
        const struct list *from =
            list_is_empty(&core->locks_remembered) ? &core->locks_ended : &core->locks_remembered;
        struct lock *oldest = CONTAINER_OF(list_first(from), struct lock, link);
        if (oldest->owed != 0)
            outbox_trace(core, (struct effect_trace){.kind = TRACE_DEBT_DROPPED}, oldest);
        lock_free(core, oldest);
    }
    list_append(&core->locks_ended, &lock->link);
    core->ended_count++;
}
