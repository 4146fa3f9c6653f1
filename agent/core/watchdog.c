/* A hold and its watchdog: how long it is valid, when it is renewed, when it is lost.
 *
 *   acquired      ttl/3         ttl/3            valid_until - lost_margin    valid_until   lease_until
 *      |------------|-------------|----- ... ----------|------------------------|------------|
 *                renewal       renewal, retried      LOST: said,          keys are       gone on
 *                                                    keys stay            released       the masters
 *
 * Timers of a hold: the next renewal, the deadline of the round that is out, the moment of loss; lock->timer is the
 * earliest.
 *
 * Invariants: nothing shortens (R7): neither the lease on a master nor the validity here; validity counts from before
 * the first byte of the round was sent (R4); a failed renewal unlocks nothing; no renewal reaches beyond max_hold. */
#include "core_assert.h"
#include "state.h"

enum { DRIFT_FIXED_MS = 2, RENEWALS_PER_TTL = 3, SPREAD = 8, GRID = 64, RETRIES_PER_TTL = 20, RETRY_MS_MAX = 1000 };

/* R4: validity = ttl - elapsed - drift, with drift = ttl * rate + 2 ms. */
struct instant validity_end(const struct core *core, uint8_t group, struct instant from, uint32_t ttl_ms)
{
    int64_t ttl_us = (int64_t)ttl_ms * 1000;
    int64_t drift_us = ttl_us * core->groups[group].config.drift_ppm / 1000000 + DRIFT_FIXED_MS * 1000;
    if (MUTANT(NO_DRIFT))
        drift_us = 0;
    return instant_after_us(from, ttl_us - drift_us);
}

/* R7: an agent's hold is lost when it could not be renewed until validity - lost_margin; a caller's simply ends. */
static struct instant lost_at(const struct lock *lock)
{
    if (MUTANT(LOST_AFTER_VALIDITY))
        return instant_after_ms(lock->valid_until, 500);
    if (lock->renew == RENEW_CALLER)
        return lock->valid_until;
    return instant_after_ms(lock->valid_until, -lost_margin_ms(lock->ttl_ms));
}

static bool reaches_max_hold(const struct lock *lock)
{
    return !instant_before(lock->valid_until, lock->max_hold_until) && !MUTANT(RENEW_BEYOND_MAX_HOLD);
}

static void arm(struct core *core, struct lock *lock)
{
    struct instant at = instant_min(lost_at(lock), lock->renew_at);
    if (lock->renewing)
        at = instant_min(at, lock->round.deadline);
    timers_set(&core->timers, &lock->timer, at);
}

/* R8: every ttl/3, a little earlier by chance so that holds spread, on a grid so that those which meet share a command.
 */
static void plan_renewal(struct core *core, struct lock *lock, struct instant from)
{
    lock->renew_at = INSTANT_NEVER;
    if (lock->renew != RENEW_AGENT || reaches_max_hold(lock))
        return;
    int64_t period_us = (int64_t)lock->ttl_ms * 1000 / RENEWALS_PER_TTL, grid_us = period_us / GRID;
    struct instant at = instant_after_us(from, period_us - random_below(&core->random, period_us / SPREAD));
    at.us -= at.us % grid_us;
    lock->renew_at = instant_max(at, core->now);
}

static void extend_validity(struct core *core, struct lock *lock, struct instant from)
{
    lock->ttl_ms = lock->asked_ttl_ms;
    struct instant until = validity_end(core, lock->group, from, lock->ttl_ms);
    if (!MUTANT(RENEW_BEYOND_MAX_HOLD))
        until = instant_min(until, lock->max_hold_until);
    lock->valid_until = MUTANT(SHORTER_VALIDITY_WINS) ? until : instant_max(lock->valid_until, until);
}

void hold_begun(struct core *core, struct lock *lock, struct instant from)
{
    lock_set_state(core, lock, LOCK_HELD);
    lock->acquired_at = core->now;
    lock->max_hold_until = instant_after_ms(core->now, lock->max_hold_ms);
    extend_validity(core, lock, from);
    plan_renewal(core, lock, from);
    arm(core, lock);
    outbox_hold(core, lock);
}

void hold_resumed(struct core *core, struct lock *lock)
{
    lock->renew_at = lock->renew == RENEW_AGENT && !reaches_max_hold(lock) ? core->now : INSTANT_NEVER;
    if (instant_before(core->now, lost_at(lock))) {
        arm(core, lock);
        outbox_hold(core, lock);
    } else {
        hold_lost(core, lock, REASON_STALLED); /* nobody was here to renew it */
    }
}

/* A yes shows that the master has the token in its present epoch, and a no after such a yes that it has not any more. Only
 * the first reply to the latest round counts: an older one that comes late may contradict what the master said since. */
void hold_heard(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    uint8_t m = reply->master;
    uint16_t epoch = core->groups[lock->group].masters[m].epoch;
    bool is_latest = reply->ref.round == lock->round.number || MUTANT(STALE_VOTES_COUNT);
    if (!is_latest || reply->op == OP_RELEASE || reply->vote == VOTE_NOT_RUN)
        return;
    if (set_has(lock->round.heard, m) && !MUTANT(STALE_VOTES_COUNT))
        return;
    lock->round.heard |= set_of(m);
    if (reply->vote == VOTE_YES || reply->vote == VOTE_REPAIRED) {
        lock->confirmed[m] = epoch;
        lock->denied[m] = 0;
    } else if ((reply->vote == VOTE_ABSENT || reply->vote == VOTE_HELD || reply->vote == VOTE_FOREIGN) &&
               (lock->confirmed[m] == epoch || MUTANT(EPOCH_IGNORED))) {
        lock->denied[m] = epoch;
    }
}

static master_set confirmed_now(const struct core *core, const struct lock *lock)
{
    const struct group *group = &core->groups[lock->group];
    master_set set = 0;
    for (uint8_t m = 0; m < group->config.masters; m++) {
        if (lock->confirmed[m] != 0 && (lock->confirmed[m] == group->masters[m].epoch || MUTANT(EPOCH_IGNORED)))
            set |= set_of(m);
    }
    return set;
}

/* R7: masters that had confirmed the token deny it; once those that have not said no are fewer than a quorum, it was
 * taken. */
static bool is_taken(const struct core *core, const struct lock *lock)
{
    const struct group *group = &core->groups[lock->group];
    uint8_t left = group->config.masters;
    for (uint8_t m = 0; m < group->config.masters; m++)
        left = (uint8_t)(left - (lock->denied[m] != 0 && lock->denied[m] == group->masters[m].epoch));
    return left < lock->quorum;
}

static void answer_renewals(struct core *core, struct lock *lock, enum answer answer)
{
    struct link *next;
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = next) {
        next = at->next;
        struct request *request = CONTAINER_OF(at, struct request, link);
        if (request->wants_round <= lock->round.number)
            request_answer(core, request, answer_for_lock(answer, lock));
    }
}

/* The terms of a PUT count from the renewal that grants them: until then the old ttl and margin hold. */
static void ask_for_new_ttl(struct lock *lock)
{
    lock->asked_ttl_ms = lock->ttl_ms;
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next) {
        const struct request *request = CONTAINER_OF(at, struct request, link);
        if (request->ttl_ms != 0)
            lock->asked_ttl_ms = request->ttl_ms;
    }
}

static void take_new_renew(struct lock *lock)
{
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next) {
        const struct request *request = CONTAINER_OF(at, struct request, link);
        if (request->renew != RENEW_UNSET && request->wants_round <= lock->round.number)
            lock->renew = request->renew;
    }
}

static void begin_round(struct core *core, struct lock *lock);
static void renewal_failed(struct core *core, struct lock *lock)
{
    lock->renewing = false;
    outbox_trace(core, (struct effect_trace){.kind = TRACE_RENEW_FAILED}, lock);
    answer_renewals(core, lock, ANSWER_RENEW_FAILED);
    if (!list_is_empty(&lock->requests)) {
        begin_round(core, lock);
        return;
    }
    if (lock->renew == RENEW_AGENT && !reaches_max_hold(lock)) {
        int64_t delay_us = (int64_t)lock->ttl_ms * 1000 / RETRIES_PER_TTL;
        delay_us = delay_us > RETRY_MS_MAX * 1000 ? RETRY_MS_MAX * 1000 : delay_us;
        lock->renew_at = instant_after_us(core->now, delay_us / 2 + random_below(&core->random, delay_us / 2));
    }
    arm(core, lock);
}

static void renewal_won(struct core *core, struct lock *lock)
{
    struct instant from = MUTANT(RENEWAL_FROM_REPLY) ? core->now : lock->round.started;
    lock->renewing = false;
    lock->token.fence += MUTANT(RENEWAL_BUMPS_FENCE);
    struct effect_trace trace = {.kind = TRACE_RENEWED,
                                 .answer = ANSWER_RENEWED,
                                 .margin_us = instant_us_between(core->now, lock->valid_until),
                                 .ttl_ms = lock->ttl_ms};
    extend_validity(core, lock, from);
    outbox_trace(core, trace, lock);
    take_new_renew(lock);
    plan_renewal(core, lock, from);
    lock->restored = false;
    outbox_hold(core, lock);
    answer_renewals(core, lock, ANSWER_RENEWED);
    if (list_is_empty(&lock->requests))
        arm(core, lock);
    else
        begin_round(core, lock);
}

static void decide(struct core *core, struct lock *lock)
{
    switch (round_verdict(&lock->round)) {
    case VERDICT_OPEN:
        arm(core, lock);
        return;
    case VERDICT_WON:
        renewal_won(core, lock);
        return;
    case VERDICT_LOST:
        renewal_failed(core, lock);
        return;
    }
}

/* R7: compare-and-extend on all masters that are up. Where the token was not confirmed in the present epoch the key is
 * repaired: re-created if it is missing, with its number; that master counts from the next renewal on. The first renewal of a
 * restored hold never creates a key: it may have been released or taken while this agent was away. */
static void begin_round(struct core *core, struct lock *lock)
{
    struct group *group = lock_group(core, lock);
    bool creates = !lock->restored || MUTANT(RESTORE_REPAIRS);
    master_set extend = creates ? group->up & confirmed_now(core, lock) : group->up;
    if (MUTANT(REPAIR_EVERYWHERE))
        extend = 0;
    master_set repair = group->up & (master_set)~extend;
    uint8_t quorum = lock->quorum;
    if (MUTANT(RENEW_QUORUM_ONE_SHORT) && quorum > 1)
        quorum--;
    round_begin(&lock->round, OP_RENEW, group->config.masters, quorum, group->up, core->now,
                slow_timeout_ms(core, lock));
    ask_for_new_ttl(lock);
    lock->renewing = true;
    lock->renew_at = INSTANT_NEVER;
    lock->written |= repair;
    lock->lease_until = instant_max(lock->lease_until, instant_after_ms(core->now, lock_lease_ms(lock)));
    if (extend != 0)
        outbox_gather(core, lock, OP_RENEW, extend);
    if (repair != 0)
        outbox_gather(core, lock, OP_REPAIR, repair);
    arm(core, lock);
    if (round_verdict(&lock->round) != VERDICT_OPEN && list_is_empty(&lock->requests))
        decide(core, lock);
}

void hold_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    struct round *round = &lock->round;
    if (is_taken(core, lock)) {
        hold_lost(core, lock, REASON_TAKEN);
        return;
    }
    bool current = lock->renewing && reply->ref.round == round->number;
    if (!current && !(MUTANT(STALE_VOTES_COUNT) && lock->renewing && set_has(round->asked, reply->master)))
        return;
    if (round_wants_rerun(round, reply->master, reply->vote)) {
        outbox_send(core, lock, reply->op, set_of(reply->master));
        return;
    }
    round_vote(round, reply->master, reply->vote);
    decide(core, lock);
}

void hold_timer(struct core *core, struct lock *lock)
{
    if (core->ending) {
        hold_ended(core, lock);
    } else if (lock->state == LOCK_LOST) {
        hold_over(core, lock);
    } else if (!instant_before(core->now, lost_at(lock))) {
        hold_lost(core, lock,
                  reaches_max_hold(lock)        ? REASON_MAX_HOLD
                  : lock->renew == RENEW_CALLER ? REASON_EXPIRED
                  : core->stalled               ? REASON_STALLED
                                                : REASON_QUORUM_LOST);
    } else if (lock->renewing && !instant_before(core->now, lock->round.deadline)) {
        round_close(&lock->round);
        decide(core, lock);
    } else if (!lock->renewing && !instant_before(core->now, lock->renew_at)) {
        begin_round(core, lock);
    } else {
        arm(core, lock);
    }
}

/* A PUT: begins a round, or waits for one of its own if a round is out. A shorter ttl shortens nothing (R7). */
void hold_renew(struct core *core, struct lock *lock, struct request *request)
{
    request->state = REQUEST_RENEWING;
    request->wants_round = lock->round.number + 1;
    list_append(&lock->requests, &request->link);
    if (lock->renewing)
        return;
    begin_round(core, lock);
    if (round_verdict(&lock->round) != VERDICT_OPEN)
        decide(core, lock);
}

void hold_lost(struct core *core, struct lock *lock, enum reason reason)
{
    lock->reason = reason;
    lock->renewing = false;
    lock_set_state(core, lock, LOCK_LOST);
    outbox_trace(core,
                 (struct effect_trace){.kind = TRACE_LOST,
                                       .reason = reason,
                                       .elapsed_us = instant_us_between(lock->acquired_at, core->now)},
                 lock);
    outbox_hold(core, lock);
    requests_answer(core, &lock->requests, ANSWER_LOCK_LOST, reason);
    if (instant_before(core->now, lock->valid_until) && !MUTANT(LOSS_RELEASES_AT_ONCE))
        timers_set(&core->timers, &lock->timer, lock->valid_until);
    else
        hold_over(core, lock);
}

void hold_ended(struct core *core, struct lock *lock)
{
    if (core->ending_releases || MUTANT(DRAIN_RELEASES_LIVING)) {
        release_begun(core, lock, /* request= */ NULL);
        return;
    }
    if (lock->state == LOCK_HELD)
        hold_lost(core, lock, REASON_DRAINED);
    if (lock->state == LOCK_LOST)
        hold_over(core, lock);
}
