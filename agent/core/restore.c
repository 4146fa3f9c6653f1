/* Holds of the process before this one, out of its journal: the same boot, and so the same clock.
 *
 *   valid still     it goes on as if nothing had happened: same token, number, validity and
 *                   max_hold. The watchdog renews it at once, and that first renewal creates no key
 *                   (R7): while nobody renewed it, it may have been taken.
 *   valid still,    it goes on, but nobody renews it: the process ended between the grant and the
 *   undelivered     mark that its answer was written. Most often nobody has its token, and renewed
 *                   it would stand until max_hold. Yet the answer may have gone out a moment before
 *                   the end, so its keys stay until the validity that it promised is over. A PUT
 *                   shows that its caller lives. With an idempotency key the caller can ask again,
 *                   and it is renewed as any other (D3).
 *   over            its keys are released, as after any other end (R6).
 *   over, not       it runs out where the policy has a lock_delay: the key is to stay taken for
 *   released        that long (R15).
 *   lost, and the   it runs out: what was reported lost is not held again, and inside a validity
 *   validity not    that was reported no key is deleted but at its holder's wish. The same where it
 *                   was adopted: then more may have been reported.
 *
 * Its connection has ended with that process, so a bound hold goes on as a plain lease: its caller
 * may renew it or give it back by its token, and nobody does so instead. Until its validity is over
 * the caller may be at work, and its keys stay.
 *
 * A journal that was cut short may name a hold twice: the second time it is known. */
#include "restore.h"

#include "core_assert.h"
#include "debt.h"
#include "key_table.h"
#include "lock_index.h"
#include "lock_table.h"
#include "lock_words.h"
#include "outbox.h"
#include "policy.h"
#include "watchdog.h"

bool core_is_doubtful(const struct noted_hold *hold)
{
    return !hold->delivered && hold->terms.renew == RENEW_AGENT && hold->words.idempotency.len == 0;
}

static void take_noted(struct core *core, struct lock *lock, const struct noted_hold *noted)
{
    CORE_ASSERT(lock->state == LOCK_HELD || lock->state == LOCK_RELEASING);
    lock->token = noted->token;
    lock->terms = noted->terms;
    lock_keep_words(core, lock, &noted->words);
    lock->terms.max_hold_ms = lock_policy(core, lock)->max_hold_ms; /* a journal has none */
    if (core_is_doubtful(noted))
        lock->terms.renew = RENEW_CALLER;
    if (MUTANT(RESTORE_COUNTS_ONE))
        lock->terms.count = 1;
    lock->asked_ttl_ms = lock->terms.ttl_ms;
    policy_fit_lock_delay(core, lock);
    lock->adopted = noted->adopted;
    lock->delivered = noted->delivered;
    lock->acquired_at = noted->acquired_at;
    lock->valid_until = noted->valid_until;
    lock->max_hold_until = noted->max_hold_until;
    lock->lease_until = instant_max(noted->lease_until, core->now);
    lock->written = set_first(lock_group(core, lock)->config.masters);
    lock->unheard = MUTANT(RESTORE_REPAIRS) ? 0 : lock->written;
}

void restore_hold(struct core *core, struct key *key, const struct noted_hold *noted)
{
    CORE_ASSERT(noted->terms.ttl_ms > 0 && noted->terms.renew != RENEW_UNSET);
    CORE_ASSERT(noted->terms.count >= 1 && !noted->terms.bound);
    bool over = !instant_before(core->now, noted->valid_until);
    bool known = lock_by_token(core, key, &noted->token) != NULL ||
                 key_obstacle(key, noted->terms.mode, noted->token.permit) != NULL;
    bool is_delayed = core->policies[key->policy].lock_delay_ms > 0 && !noted->released &&
                      !MUTANT(RESTORE_ENDS_DELAY);
    bool runs_out = over ? noted->adopted || is_delayed : noted->ended;
    /* else the policy was of another kind: nothing that is asked now would find it */
    bool is_of_kind = (noted->token.permit > 0) == (key->permits > 1) &&
                      (noted->terms.mode == MODE_WRITE || key->is_shared);
    if (known || runs_out || !is_of_kind)
        return;
    struct lock *lock = lock_new(core, key, over ? LOCK_RELEASING : LOCK_HELD, noted->terms.mode);
    if (lock == NULL)
        return; /* limits.locks is less than it was */
    take_noted(core, lock, noted);
    lock_index_token(core, lock);
    lock_index_secret(core, lock);
    if (over) {
        lock->given_back = noted->released; /* else its holder may have it at another agent (D3) */
        outbox_hold(core, lock);
        debt_begun(core, lock, /* except= */ 0);
    } else {
        watchdog_resumed(core, lock);
    }
}
