/* The end of a hold that nobody asked to be released: it is lost, or taken by another agent, or
 * this agent ends. A loss is said before the validity is over, and the keys stay until then
 * (R7). */
#include "hold_end.h"

#include "confirm.h"
#include "contend.h"
#include "core_assert.h"
#include "debt.h"
#include "key_table.h"
#include "lock_table.h"
#include "outbox.h"
#include "release.h"
#include "requests.h"
#include "retire.h"

void hold_runs_out(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_LOST);
    struct key *key = lock->key;
    enum mode mode = lock->terms.mode;
    key_refer(core, key);
    debt_left_to_lease(core, lock);
    contend_freed(core, key, mode);
    key_release(core, key);
}

/* Where the agent ends the hold itself, or an earlier agent may have reported a longer validity,
 * or another agent has it by now, the lease runs out; and so it does with a lock_delay, which is
 * there to keep the key taken after an unclean loss (R15). */
static bool runs_out(const struct core *core, const struct lock *lock)
{
    CORE_ASSERT(lock->reason != REASON_NONE);
    return lock->reason == REASON_MAX_HOLD || lock->reason == REASON_DRAINED ||
           lock->reason == REASON_STUCK || lock->moved != 0 ||
           (lock->lock_delay_ms > 0 && !MUTANT(LOCK_DELAY_DROPPED)) ||
           (lock->adopted && !MUTANT(ADOPTED_RELEASED_EARLY)) ||
           (instant_before(core->now, lock->valid_until) && !MUTANT(LOSS_RELEASES_AT_ONCE));
}

void hold_over(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_LOST);
    if (runs_out(core, lock)) {
        hold_runs_out(core, lock);
        return;
    }
    struct key *key = lock->key;
    enum mode mode = lock->terms.mode;
    key_refer(core, key);
    debt_begun(core, lock, /* except= */ 0);
    contend_freed(core, key, mode);
    key_release(core, key);
}

/* C4: a PUT is told that the lock is lost only if so many masters deny the token that no quorum can
 * have it. If the agent could not renew the hold in time, or masters have the token for another
 * agent, a PUT may find it there. */
static enum answer answer_to_puts(const struct core *core, const struct lock *lock,
                                  enum reason reason)
{
    uint8_t total = core->groups[lock->group].config.masters,
            denying = set_size(lock->denied & (master_set)~lock->elsewhere);
    bool is_elsewhere =
        reason_is_denial(reason) && lock->elsewhere != 0 && denying + lock->quorum <= total;
    bool is_unknown = is_elsewhere || reason == REASON_QUORUM_LOST || reason == REASON_EXPIRED ||
                      reason == REASON_STALLED || reason == REASON_CLOCK_STOPPED;
    return is_unknown && !MUTANT(SILENCE_IS_LOSS) ? ANSWER_QUORUM_UNAVAILABLE : ANSWER_LOCK_LOST;
}

/* Returns true if requests have entered the key's queue, which contend_again() has to be told. */
static bool say_hold_lost(struct core *core, struct lock *lock, enum reason reason)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    CORE_ASSERT(reason != REASON_NONE);
    lock->reason = reason;
    lock->renewing = lock->claiming = false;
    lock_set_state(core, lock, LOCK_LOST);
    outbox_trace(
        core,
        (struct effect_trace){.kind = TRACE_LOST,
                              .reason = reason,
                              .elapsed_us = instant_us_between(lock->acquired_at, core->now)},
        lock);
    outbox_hold(core, lock);
    bool has_owners = confirm_hold_ended(core, lock, ANSWER_LOCK_LOST);
    requests_answer(core, &lock->requests, answer_to_puts(core, lock, reason), reason);
    return has_owners;
}

void hold_lost(struct core *core, struct lock *lock, enum reason reason)
{
    struct key *key = lock->key;
    key_refer(core, key);
    bool has_owners = say_hold_lost(core, lock, reason);
    if (instant_before(core->now, lock->valid_until) && !MUTANT(LOSS_RELEASES_AT_ONCE))
        timers_set(&core->timers, timer_of_lock(lock), lock->valid_until);
    else
        hold_over(core, lock);
    if (has_owners)
        contend_again(core, key);
    key_release(core, key);
}

void hold_taken(struct core *core, struct lock *lock, enum reason reason)
{
    CORE_ASSERT(reason_is_denial(reason));
    struct key *key = lock->key;
    key_refer(core, key);
    bool has_owners = say_hold_lost(core, lock, reason);
    if (instant_before(core->now, lock->valid_until) && !MUTANT(LOSS_RELEASES_AT_ONCE))
        hold_runs_out(core, lock);
    else
        hold_over(core, lock);
    if (has_owners)
        contend_again(core, key);
    key_release(core, key);
}

/* Readers may be many: each is ended by its timer. */
static void outlive_readers(struct core *core, struct key *key)
{
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, link);
        if (lock->terms.mode != MODE_READ || lock->state != LOCK_HELD)
            continue;
        lock->outlived = true;
        timers_set(&core->timers, timer_of_lock(lock), core->now);
    }
}

void holds_make_way(struct core *core, struct key *key, const struct lock *granted)
{
    CORE_ASSERT(granted->key == key);
    struct lock *alone = key_obstacle(key, MODE_READ, granted->token.permit);
    if (alone != NULL && alone != granted && !lock_is_attempt(alone)) {
        if (alone->state == LOCK_HELD)
            hold_taken(core, alone, REASON_TAKEN);
        else
            hold_runs_out(core, alone);
    }
    if (granted->terms.mode == MODE_WRITE && key->is_shared)
        outlive_readers(core, key);
}

void hold_ended(struct core *core, struct lock *lock)
{
    CORE_ASSERT(core->ending);
    CORE_ASSERT(lock->state == LOCK_HELD || lock->state == LOCK_LOST);
    /* or was: its keys run out (D3) */
    bool is_elsewhere = lock->state == LOCK_LOST && lock->adopted;
    if ((core->ending_releases && !is_elsewhere) || MUTANT(DRAIN_RELEASES_LIVING)) {
        release_begun(core, lock, /* request= */ NULL, /* asked= */ false);
        return;
    }
    if (lock->state == LOCK_HELD)
        hold_lost(core, lock, REASON_DRAINED);
    if (lock->state == LOCK_LOST)
        hold_over(core, lock);
}
