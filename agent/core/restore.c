/* Holds of the process before this one, out of its journal: the same boot, and so the same clock.
 *
 *   valid still     it goes on as if nothing had happened: same token, number, validity and max_hold. The watchdog renews it at
 *                   once, and that first renewal creates no key (R7): while nobody renewed it, it may have been taken.
 *   over            its keys are released, as after any other end (R6).
 *   over, unreleased,  it runs out: the key is to stay taken for that long (R15).
 *   lock_delay
 *   lost, and the   it runs out: what was reported lost is not held again, and inside a validity that was reported no key is
 *   validity not    deleted but at its holder's wish. The same where it was adopted: then more may have been reported.
 *
 * Its connection has ended with that process, so a bound hold goes on as a plain lease: its caller may renew it or give it back by
 * its token, and nobody does so instead. Until its validity is over the caller may be at work, and its keys stay.
 *
 * A journal that was cut short may name a hold twice: the second time it is known. */
#include <string.h>

#include "core_assert.h"
#include "state.h"

static void take_terms(struct core *core, struct lock *lock, const struct event_restore *event)
{
    lock->token = event->token;
    lock->renew = event->renew;
    lock->adopted = event->adopted;
    lock->ttl_ms = lock->asked_ttl_ms = event->ttl_ms;
    policy_fit_lock_delay(core, lock);
    lock->acquired_at = event->acquired_at;
    lock->valid_until = event->valid_until;
    lock->max_hold_until = event->max_hold_until;
    lock->lease_until = instant_max(event->lease_until, core->now);
    secret_take(&lock->owner, event->secrets.owner);
    secret_take(&lock->idempotency, event->secrets.idempotency);
    lock->terms = event->secrets.terms;
    lock->count = MUTANT(RESTORE_COUNTS_ONE) ? 1 : event->count;
    lock->written = set_first(lock_group(core, lock)->config.masters);
    lock->label_len = (uint8_t)event->label.len;
    if (event->label.len > 0)
        memcpy(lock->label, event->label.at, event->label.len);
}

void hold_restored(struct core *core, struct key *key, const struct event_restore *event)
{
    CORE_ASSERT(event->label.len <= LIMIT_LABEL_BYTES && event->renew != RENEW_UNSET && event->count >= 1);
    bool over = !instant_before(core->now, event->valid_until);
    bool known = lock_by_token(key, &event->token) != NULL || key->live != NULL;
    bool is_delayed = core->policies[key->policy].lock_delay_ms > 0 && !event->released && !MUTANT(RESTORE_ENDS_DELAY);
    bool runs_out = over ? event->adopted || is_delayed : event->ended;
    if (known || runs_out)
        return;
    struct lock *lock = lock_new(core, key, over ? LOCK_RELEASING : LOCK_HELD);
    if (lock == NULL)
        return; /* limits.locks is less than it was */
    take_terms(core, lock, event);
    if (over) {
        outbox_hold(core, lock);
        release_undone(core, lock, /* except= */ 0);
    } else {
        lock->restored = true;
        hold_resumed(core, lock);
    }
}
