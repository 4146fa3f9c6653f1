/* A hold: how long it is valid, when it is renewed, when it is lost.
 *
 *   acquired  ttl/3       ttl/3        valid_until - lost_margin  valid_until  lease_until
 *      |--------|-----------|----- ... -------|-----------------------|------------|
 *            renewal     renewal,         LOST: said,             keys are      gone on
 *                        retried          keys stay               released      the masters
 *
 * Timers of a hold: in core->timers the deadline of the round that is out, or the moment of loss,
 * whichever comes first; in core->renewals the next renewal.
 *
 * Invariants: nothing shortens (R7): neither the lease on a master nor the validity here;
 * validity counts from before the first byte of the round was sent (R4); no renewal reaches
 * beyond max_hold. */
#include "hold.h"

#include "core_assert.h"
#include "deadline.h"
#include "lease.h"
#include "lock_table.h"
#include "outbox.h"

enum { RENEWALS_PER_TTL = 3, SPREAD = 8, SLACK = 64, RETRIES_PER_TTL = 20, RETRY_MS_MAX = 1000 };

/* R7: an agent's hold is lost when it could not be renewed until validity - lost_margin. A
 * caller's is lost a moment before its validity ends, so that `lost` is true of it too when a
 * timer and a socket have had their time: a renewal is in time that is confirmed before. */
struct instant hold_lost_at(const struct lock *lock)
{
    CORE_ASSERT(lock->terms.ttl_ms > 0);
    if (MUTANT(LOST_AFTER_VALIDITY))
        return instant_after_ms(lock->valid_until, 500);
    if (lock->terms.renew == RENEW_CALLER)
        return instant_after_ms(lock->valid_until,
                                lock->renewing ? -EXPIRY_MARGIN_RENEWING_MS : -EXPIRY_MARGIN_MS);
    if (MUTANT(LOST_TOO_EARLY))
        return instant_after_ms(lock->valid_until, -3 * lost_margin_ms(lock->terms.ttl_ms));
    return instant_after_ms(lock->valid_until, -lost_margin_ms(lock->terms.ttl_ms));
}

bool hold_reaches_max(const struct lock *lock)
{
    return !instant_before(lock->valid_until, lock->max_hold_until) &&
           !MUTANT(RENEW_BEYOND_MAX_HOLD);
}

static int64_t renewal_period_us(const struct lock *lock)
{
    return (int64_t)lock->terms.ttl_ms * 1000 / RENEWALS_PER_TTL;
}

int64_t hold_slack_us(const struct lock *lock)
{
    CORE_ASSERT(lock->terms.ttl_ms > 0);
    return renewal_period_us(lock) / SLACK;
}

void hold_arm(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    struct instant at = hold_lost_at(lock);
    if (lock->renewing)
        at = instant_min(at, lock->round.deadline);
    timers_set(&core->timers, timer_of_lock(lock), at);
}

/* A twentieth of the ttl, a second at most. */
static int64_t longest_retry_us(const struct lock *lock)
{
    CORE_ASSERT(lock->terms.ttl_ms > 0);
    int64_t delay_us = (int64_t)lock->terms.ttl_ms * 1000 / RETRIES_PER_TTL;
    return delay_us > RETRY_MS_MAX * 1000 ? RETRY_MS_MAX * 1000 : delay_us;
}

/* That, or by chance up to half less. */
int64_t hold_retry_us(struct core *core, const struct lock *lock)
{
    int64_t delay_us = longest_retry_us(lock);
    return delay_us / 2 + random_below(&core->random, delay_us / 2);
}

/* This leaves a lease alone that its caller renews. Otherwise refused callers would extend it
 * without end. */
void hold_doubted(struct core *core, const struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD || lock->state == LOCK_LOST);
    if (!timers_is_armed(&core->renewals, timer_of_lock(lock)) || MUTANT(HOLD_NEVER_DOUBTED))
        return;
    struct instant planned = timers_at(&core->renewals, timer_of_lock(lock)),
                   at = instant_after_us(lock->round.started, longest_retry_us(lock));
    at = instant_max(at, core->now);
    timers_set(&core->renewals, timer_of_lock(lock), instant_min(planned, at));
}

/* R7: a master that lost the key counts only after further rounds. They come soon, so that the
 * hold outlives the next master that goes. */
void hold_mend_soon(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    struct instant at = lease_mends_at(core, lock);
    struct instant planned = timers_at(&core->renewals, timer_of_lock(lock));
    if (!instant_before(at, planned) || lock->terms.renew != RENEW_AGENT || hold_reaches_max(lock))
        return;
    at = instant_max(at, instant_after_us(core->now, hold_retry_us(core, lock)));
    timers_set(&core->renewals, timer_of_lock(lock), instant_min(planned, at));
}

/* R8: every ttl/3, a little earlier by chance so that holds spread, and by what it may be put
 * off. */
void hold_plan_renewal(struct core *core, struct lock *lock, struct instant from)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    CORE_ASSERT(!timers_is_armed(&core->renewals, timer_of_lock(lock)));
    if (lock->terms.renew != RENEW_AGENT || hold_reaches_max(lock))
        return;
    int64_t period_us = renewal_period_us(lock);
    struct instant at = instant_after_us(from, period_us - hold_slack_us(lock) -
                                                   random_below(&core->random, period_us / SPREAD));
    timers_set(&core->renewals, timer_of_lock(lock), instant_max(at, core->now));
    hold_mend_soon(core, lock);
}

void hold_extend(struct core *core, struct lock *lock, struct instant from)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    CORE_ASSERT(!instant_before(core->now, from));
    lock->terms.ttl_ms = lock->asked_ttl_ms;
    struct instant until = deadline_of_validity(core, lock->group, from, lock->terms.ttl_ms);
    if (!MUTANT(RENEW_BEYOND_MAX_HOLD))
        until = instant_min(until, lock->max_hold_until);
    lock->valid_until =
        MUTANT(SHORTER_VALIDITY_WINS) ? until : instant_max(lock->valid_until, until);
}

void hold_begun(struct core *core, struct lock *lock, struct instant from)
{
    CORE_ASSERT(lock->state != LOCK_HELD && lock->quorum >= 1);
    lock_set_state(core, lock, LOCK_HELD);
    lock->acquired_at = core->now;
    lock->max_hold_until = instant_after_ms(core->now, lock->terms.max_hold_ms);
    lock->won_from = from;
    lock->moved = 0; /* adopted back */
    hold_extend(core, lock, from);
    hold_plan_renewal(core, lock, from);
    hold_arm(core, lock);
    outbox_hold(core, lock);
}
