/* Debts: the keys that a failed attempt leaves behind (R5), and the releases that masters are owed
 * (R6).
 *
 * Every release compares the token on the master (R10). So a second release does no harm, and a
 * release of a key that never was there does none either. A release that a master has not confirmed
 * stays owed until the lease has run out. It is sent again when the master comes back. */
#include "internal.h"

#include "core_assert.h"

/* ---- the end of keys and locks ---- */

/* The end of keys and locks: before they leave their tables, the ticket on masters and the hold in
 * the journal are withdrawn. */

void key_release(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0);
    if (list_is_empty(&key->contention->waiters)) {
        wake_unwatch(core, key);
        ticket_withdrawn(core, key);
    }
    key_touched(core, key);
    if (--key->references == 0)
        key_remove(core, key);
}

void lock_free(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING || lock->state == LOCK_ENDED);
    struct key *key = lock->key;
    outbox_let_go(core, key);
    outbox_forget(core, lock);
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        core->stats.debt[lock->group][m] -= set_has(lock->owed, m);
    lock->owed = 0;
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

/* ---- debts ---- */

void debt_add(struct core *core, struct lock *lock, master_set masters)
{
    CORE_ASSERT((masters & ~lock->written) == 0);
    CORE_ASSERT(lock->state == LOCK_RELEASING || lock->state == LOCK_ENDED);
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        core->stats.debt[lock->group][m] += set_has(masters & (master_set)~lock->owed, m);
    lock->owed |= masters;
}

void debt_paid(struct core *core, struct lock *lock, uint8_t master)
{
    CORE_ASSERT(master < LIMIT_MASTERS);
    if (!set_has(lock->owed, master))
        return;
    CORE_ASSERT(core->stats.debt[lock->group][master] > 0);
    core->stats.debt[lock->group][master]--;
    lock->owed &= (master_set)~set_of(master);
}

static void ask_owed(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ENDED);
    struct group *group = lock_group(core, lock);
    master_set unanswered = round_pending(&lock->round),
               targets = lock->owed & group->up & (master_set)~unanswered;
    lock->pending->owed_at = instant_after_ms(core->now, OWED_RETRY_MS);
    if (targets == 0)
        return;
    round_begin(&lock->round, OP_RELEASE, group->config.masters, lock->quorum, targets | unanswered,
                core->now, OWED_RETRY_MS);
    if (!MUTANT(NO_UNDO))
        outbox_gather(core, lock, OP_RELEASE, targets);
}

void debt_settled(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ENDED);
    CORE_ASSERT((lock->owed & ~lock->written) == 0);
    struct instant forget_at = lock->pending->forget_at;
    bool remembered = (lock->reason != REASON_NONE || lock->pending->may_live) &&
                      instant_before(core->now, forget_at);
    if (lock->owed == 0 && !remembered) {
        lock_free(core, lock);
        return;
    }
    if (lock->owed == 0) {
        list_remove(&lock->link);
        list_append(&core->locks_remembered, &lock->link);
    }
    struct instant at = remembered ? forget_at : INSTANT_NEVER;
    if (lock->owed != 0)
        at = instant_min(at, instant_min(lock->pending->owed_at, lock->lease_until));
    timers_set(&core->timers, timer_of_lock(lock), at);
}

static void end_owing(struct core *core, struct lock *lock, master_set owed)
{
    CORE_ASSERT(lock->owed == 0);
    /* The name of an entry contains its label (R17). */
    if (lock->reason == REASON_NONE && lock->metadata != NULL && lock->key->form != FORM_SHARED)
        lock->metadata->metadata.label_len = 0;
    lock_end(core, lock);
    lock->pending->forget_at = instant_after_ms(core->now, REMEMBER_LOST_MS);
    debt_add(core, lock, owed);
}

/* Releases at once, before any retry (R5), but not at `except`, which replied that another holder
 * has the key. */
void debt_begun(struct core *core, struct lock *lock, master_set except)
{
    CORE_ASSERT(list_is_empty(&lock->requests));
    end_owing(core, lock, lock->written & (master_set)~except);
    /* All rounds in flight are older than the release, and decide nothing. */
    lock->round.asked = 0;
    if (MUTANT(UNDO_AFTER_RETRY))
        lock->pending->owed_at = instant_after_ms(core->now, OWED_RETRY_MS);
    else if (lock->owed != 0)
        ask_owed(core, lock);
    ticket_forgotten(lock);
    debt_settled(core, lock);
}

void debt_left_to_lease(struct core *core, struct lock *lock)
{
    CORE_ASSERT(list_is_empty(&lock->requests));
    CORE_ASSERT(lock->state == LOCK_LOST);
    end_owing(core, lock, /* owed= */ 0);
    debt_settled(core, lock);
}

void debt_timer(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ENDED);
    if (!instant_before(core->now, lock->lease_until) || MUTANT(DEBT_DROPPED)) {
        for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
            debt_paid(core, lock, m);
    }
    if (lock->owed != 0 && !instant_before(core->now, lock->pending->owed_at))
        ask_owed(core, lock);
    debt_settled(core, lock);
}

void debt_left_off(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ENDED);
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        debt_paid(core, lock, m);
    outbox_forget(core, lock);
    debt_settled(core, lock);
}

void debt_replaced(struct core *core, const struct lock *granted)
{
    CORE_ASSERT(granted->state == LOCK_HELD);
    const struct secret *secret = &lock_metadata(granted)->idempotency;
    struct lock *next =
        secret->len == 0 ? NULL : lock_index_next_secret(core, granted->key, secret, NULL);
    while (next != NULL) {
        struct lock *lock = next;
        next = lock_index_next_secret(core, granted->key, secret, lock);
        if (lock->state != LOCK_ENDED || !lock->pending->may_live)
            continue;
        lock->pending->may_live = false;
        debt_settled(core, lock);
    }
}

bool debt_is_pending(const struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ENDED);
    return lock->owed != 0 && !lock->pending->is_confirmed;
}

void debt_master_up(struct core *core, uint8_t group, uint8_t master)
{
    CORE_ASSERT(set_has(core->groups[group].up, master));
    /* A release that is not decided is sent again by its lock's timer, for as many locks in a step
     * as the effects have room for. */
    for (uint32_t i = 0; i < core->locks_used; i++) {
        struct lock *lock = lock_at(core, i);
        if (lock->state == LOCK_RELEASING && lock->group == group && set_has(lock->owed, master))
            timers_set(&core->timers, timer_of_lock(lock), core->now);
    }
    struct link *end_of_list = &core->locks_ended.head;
    for (struct link *at = end_of_list->next; at != end_of_list; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, link);
        if (lock->group != group || !set_has(lock->owed, master))
            continue;
        lock->pending->owed_at = core->now;
        timers_set(&core->timers, timer_of_lock(lock), core->now);
    }
}
