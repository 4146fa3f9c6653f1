/* The watchdog of a hold: its renewal rounds (R7, R8), and those that a PUT asks for. A failed
 * renewal unlocks nothing. */
#include "internal.h"

#include "core_assert.h"

/* ---- the end of a hold ---- */

/* The end of a hold without a release by its holder: it is lost, taken by another agent, or this
 * agent ends. A loss is reported before the validity ends, and the keys stay until then (R7). */

void hold_runs_out(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_LOST);
    struct key *key = lock->key;
    enum mode mode = lock->terms.mode;
    key_refer(core, key);
    debt_left_to_lease(core, lock);
    key_freed(core, key, mode);
    key_release(core, key);
}

/* Returns true if the lease of a lost hold runs out instead of being released. It does if the agent
 * ends the hold itself, if an earlier agent may have reported a longer validity, or if another
 * agent has it by now. It does with a lock_delay as well, which keeps the key taken after an
 * unclean loss (R15). */
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
    key_freed(core, key, mode);
    key_release(core, key);
}

/* Returns the answer to PUTs of a hold that is lost. It is lock_lost only if a quorum denies the
 * token (C4, D3.4): in this round, or for good. If the agent could not renew the hold in time, if
 * masters have the token for another agent, or if their denial is of an earlier round, a PUT may
 * find it there. */
static enum answer answer_to_puts(const struct core *core, const struct lock *lock,
                                  enum reason reason)
{
    /* Since an earlier round another agent may have adopted the hold, and may have repaired it. A
     * master that says `unlocked` does so for good (R25). */
    master_set denying =
        ((lease_word(core, lock, WORD_ABSENT) | lease_word(core, lock, WORD_OTHER)) &
         (MUTANT(STALE_DENIALS_COUNT) ? UINT16_MAX
                                      : lock->round.heard & (master_set)~lock->round.failed)) |
        lease_word(core, lock, WORD_UNLOCKED);
    bool may_live = reason_is_denial(reason) && set_size(denying) < lock->quorum;
    bool is_unknown = may_live || reason == REASON_QUORUM_LOST || reason == REASON_EXPIRED ||
                      reason == REASON_STALLED || reason == REASON_CLOCK_STOPPED;
    return is_unknown && !MUTANT(SILENCE_IS_LOSS) ? ANSWER_QUORUM_UNAVAILABLE : ANSWER_LOCK_LOST;
}

static void say_hold_lost(struct core *core, struct lock *lock, enum reason reason)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    CORE_ASSERT(reason != REASON_NONE);
    lock->reason = reason;
    lock->renewing = lock->claiming = false;
    if (!MUTANT(LOSS_NOTED_AS_FAILURE))
        lock->delivered = true; /* A repeat of its request is no new one (D3.5). */
    lock_set_state(core, lock, LOCK_LOST);
    outbox_trace(
        core,
        (struct effect_trace){.kind = TRACE_LOST,
                              .reason = reason,
                              .elapsed_us = instant_us_between(lock->acquired_at, core->now)},
        lock);
    outbox_hold(core, lock);
    confirm_hold_ended(core, lock, ANSWER_LOCK_LOST);
    requests_answer(core, &lock->requests, answer_to_puts(core, lock, reason), reason);
}

void hold_lost(struct core *core, struct lock *lock, enum reason reason)
{
    say_hold_lost(core, lock, reason);
    if (instant_before(core->now, lock->valid_until) && !MUTANT(LOSS_RELEASES_AT_ONCE))
        timers_set(&core->timers, timer_of_lock(lock), lock->valid_until);
    else
        hold_over(core, lock);
}

/* Ends a hold that masters deny, for TAKEN, UNLOCKED, MOVED or GONE. Requests that wait here
 * contend at once. */
static void hold_taken(struct core *core, struct lock *lock, enum reason reason)
{
    CORE_ASSERT(reason_is_denial(reason));
    say_hold_lost(core, lock, reason);
    if (instant_before(core->now, lock->valid_until) && !MUTANT(LOSS_RELEASES_AT_ONCE))
        hold_runs_out(core, lock);
    else
        hold_over(core, lock);
}

/* Ends the readers that a granted write has outlived. They may be many, so each is ended by its
 * timer. */
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
    struct lock *alone = key_obstacle(key, MODE_READ, &granted->token);
    if (alone != NULL && alone != granted && !lock_is_attempt(alone)) {
        if (alone->state == LOCK_HELD)
            hold_taken(core, alone, REASON_TAKEN);
        else
            hold_runs_out(core, alone);
    }
    if (granted->terms.mode == MODE_WRITE && key->form == FORM_SHARED)
        outlive_readers(core, key);
}

/* Ends the hold after EVENT_END, as the event says. */
static void hold_ended(struct core *core, struct lock *lock)
{
    CORE_ASSERT(core->ending);
    CORE_ASSERT(lock->state == LOCK_HELD || lock->state == LOCK_LOST);
    /* Its keys run out, because it is or was at another agent (D3.4). */
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

/* ---- renewals ---- */

enum { HEARING_SHARE = 4 /* Share of the time until the hold is lost. */ };

/* Arms the timers of a restored hold. A hold of the watchdog is renewed at once. */
static void watchdog_resumed(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD && !lock->renewing);
    if (lock->terms.renew == RENEW_AGENT && !hold_reaches_max(lock))
        timers_set(&core->renewals, timer_of_lock(lock), core->now);
    if (instant_before(core->now, hold_lost_at(lock))) {
        hold_arm(core, lock);
        outbox_hold(core, lock);
    } else {
        /* It was not renewed in time, because no agent was running. */
        hold_lost(core, lock, REASON_STALLED);
    }
}

static void answer_renewals(struct core *core, struct lock *lock, enum answer answer)
{
    CORE_ASSERT(lock->state == LOCK_HELD && !lock->renewing);
    struct link *next;
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = next) {
        next = at->next;
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        if (request->wants_round > lock->round.number)
            continue;
        if (confirm_is_wanted(request))
            confirm_answered(core, lock, request, /* is_good= */ answer == ANSWER_RENEWED);
        else
            request_answer(core, request, answer_for_lock(answer, lock));
    }
}

/* Sets the ttl to ask for. The terms of a PUT count from the renewal that grants them. Until then
 * the old ttl and margin are valid. */
static void ask_for_new_ttl(struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    lock->asked_ttl_ms = lock->terms.ttl_ms;
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next) {
        const struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        enum renew renew =
            request->terms.renew != RENEW_UNSET ? request->terms.renew : lock->terms.renew;
        bool fits = renew != RENEW_AGENT || request->terms.ttl_ms >= TTL_MS_MIN_AGENT;
        if (request->terms.ttl_ms != 0 && fits && !confirm_is_wanted(request))
            lock->asked_ttl_ms = request->terms.ttl_ms;
    }
}

static void take_new_renew(struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next) {
        const struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        bool fits = request->terms.renew != RENEW_AGENT || lock->terms.ttl_ms >= TTL_MS_MIN_AGENT;
        if (request->terms.renew != RENEW_UNSET && fits &&
            request->wants_round <= lock->round.number && !confirm_is_wanted(request))
            lock->terms.renew = request->terms.renew;
    }
}

static void begin_renewal(struct core *core, struct lock *lock);
static void renewal_failed(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD && lock->renewing);
    lock->renewing = lock->claiming = false;
    /* A hold that was granted here had rounds before. */
    bool resumed = lock->round.number == 1;
    outbox_trace(core,
                 (struct effect_trace){
                     .kind = TRACE_RENEW_FAILED, .resumed = resumed, .failing = lock->failing},
                 lock);
    lock->failing = true;
    if (lease_is_taken(core, lock)) {
        hold_taken(core, lock, lease_reason(core, lock)); /* It could not be adopted back. */
        return;
    }
    answer_renewals(core, lock, ANSWER_RENEW_FAILED);
    if (lock->answers == 0) { /* No caller has the hold, and the last repeat is refused. */
        release_begun(core, lock, /* request= */ NULL, /* asked= */ false);
        return;
    }
    if (!list_is_empty(&lock->requests)) {
        begin_renewal(core, lock);
        return;
    }
    if (lock->terms.renew == RENEW_AGENT && !hold_reaches_max(lock))
        timers_set(&core->renewals, timer_of_lock(lock),
                   instant_after_us(core->now, hold_retry_us(core, lock)));
    hold_arm(core, lock);
}

static void renewal_won(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD && lock->renewing);
    struct instant from = MUTANT(RENEWAL_FROM_REPLY) ? core->now : lock->round.started;
    lock->renewing = false;
    lock->won_from = lock->round.started;
    lease_round_won(core, lock);
    lock->token.fence += MUTANT(RENEWAL_BUMPS_FENCE);
    struct effect_trace trace = {.kind = TRACE_RENEWED,
                                 .answer = ANSWER_RENEWED,
                                 .margin_us = instant_us_between(core->now, lock->valid_until),
                                 .ttl_ms = lock->terms.ttl_ms,
                                 .failing = lock->failing};
    lock->failing = false;
    hold_extend(core, lock, from);
    outbox_trace(core, trace, lock);
    take_new_renew(lock);
    hold_plan_renewal(core, lock, from);
    lock->claiming = false;
    confirm_counted(lock);
    outbox_hold(core, lock);
    answer_renewals(core, lock, ANSWER_RENEWED);
    if (list_is_empty(&lock->requests))
        hold_arm(core, lock);
    else
        begin_renewal(core, lock);
}

static bool is_asked_by_put(const struct lock *lock)
{
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next) {
        if (!confirm_is_wanted(CONTAINER_OF(at, struct core_request, link)))
            return true;
    }
    return false;
}

/* Returns true if another agent has adopted the token and its holder now asks for it here (D3.4).
 * Then it is adopted back, once for each PUT. No other caller can have held the lock in between,
 * because the round counts only masters that store the token's number. */
static bool may_claim(struct core *core, const struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    return is_asked_by_put(lock) && lock->renewing && !lock->claiming && lock->moved != 0 &&
           set_size(lock_group(core, lock)->up) >= lock->quorum;
}

static void begin_claim(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD && !lock->claiming);
    const struct group *group = lock_group(core, lock);
    round_begin(&lock->round, OP_ADOPT, group->config.masters, lock->quorum, group->up, core->now,
                slow_timeout_ms(core, lock));
    ask_for_new_ttl(lock);
    lock->relabels = label_taken(core, lock);
    lock->label_votes = 0;
    /* The other agent may have reported a longer validity. */
    lock->claiming = lock->adopted = true;
    lock->moved = 0;
    /* The other agent may have repaired keys. */
    lock->unheard = lock->written = set_first(group->config.masters);
    lock->lease_until =
        instant_max(lock->lease_until, instant_after_ms(core->now, lock_lease_ms(lock)));
    outbox_hold(
        /* Before a master has this agent's name again: after a restart the hold must not be
         * released. */
        core, lock);
    outbox_send(core, lock, OP_ADOPT, group->up);
    hold_arm(core, lock);
}

static void decide_renewal(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD && lock->renewing);
    switch (round_verdict(&lock->round)) {
    case VERDICT_OPEN:
        hold_arm(core, lock);
        return;
    case VERDICT_WON:
        renewal_won(core, lock);
        return;
    case VERDICT_LOST:
        if (may_claim(core, lock))
            begin_claim(core, lock);
        else
            renewal_failed(core, lock);
        return;
    }
}

/* Begins a renewal: compare-and-extend on all masters that are up (R7). If a master has not
 * confirmed the token in its present epoch, or has no key after its lease (lease.c), the key is
 * repaired: created again with its number if it is missing. That master counts from the next
 * renewal on. If no round can prove that the lock was not released at another agent, only a master
 * without a vote creates the key.
 *
 * A resumption asks for the vote as well. It goes to masters that have the key perhaps without
 * their vote (R24). The first renewal of a restored hold goes to all masters in this way, and
 * creates no key: the hold may have been released while this agent was away. A closed group sends
 * no resumption (R23), so it is an operation of its own. */
static void begin_renewal(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD && !lock->renewing);
    struct group *group = lock_group(core, lock);
    master_set unproved, proved = group->up & lease_repairable(core, lock, &unproved);
    unproved &= group->up;
    if (MUTANT(REPAIR_EVERYWHERE))
        proved = group->up, unproved = 0;
    master_set repair = proved | unproved, extend = group->up & (master_set)~repair;
    uint8_t quorum = lock->quorum;
    if (MUTANT(RENEW_QUORUM_ONE_SHORT) && quorum > 1)
        quorum--;
    round_begin(&lock->round, OP_RENEW, group->config.masters, quorum, group->up, core->now,
                slow_timeout_ms(core, lock));
    ask_for_new_ttl(lock);
    (void)label_taken(core, lock);
    lock->renewing = true;
    lock->moved = lock->mending = 0;
    timers_clear(&core->renewals, timer_of_lock(lock));
    lock->written |= repair;
    lock->unheard |= repair;
    /* A release elsewhere may have deleted the key on another master since the proof, and have
     * found none here (R7). No round can be won without the unproved ones. */
    lock->repaired |= proved;
    lock->lease_until =
        instant_max(lock->lease_until, instant_after_ms(core->now, lock_lease_ms(lock)));
    master_set resume = lease_is_unproved(lock) ? extend : extend & lock->uncounted;
    if (MUTANT(UNCOUNTED_NOT_ASKED) && !lease_is_unproved(lock))
        resume = 0;
    if ((extend & (master_set)~resume) != 0)
        outbox_gather(core, lock, OP_RENEW, extend & (master_set)~resume);
    if (resume != 0)
        outbox_gather(core, lock, OP_RESUME, resume);
    if (proved != 0)
        outbox_gather_repair(core, lock, proved, /* unproved= */ false);
    if (unproved != 0)
        outbox_gather_repair(core, lock, unproved, /* unproved= */ true);
    if (round_verdict(&lock->round) != VERDICT_OPEN)
        lock->round.deadline = core->now; /* No master is up. */
    hold_arm(core, lock);
    if (round_verdict(&lock->round) != VERDICT_OPEN && list_is_empty(&lock->requests))
        decide_renewal(core, lock);
}

void watchdog_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    CORE_ASSERT(reply->master < core->groups[lock->group].config.masters);
    if (lease_is_taken(core, lock) && !lock->claiming) {
        if (may_claim(core, lock))
            begin_claim(core, lock);
        else
            hold_taken(core, lock, lease_reason(core, lock));
        return;
    }
    if (reply->ref.round == lock->round.number && lease_is_withheld(lock, reply)) {
        outbox_gather(core, lock, OP_RENEW, set_of(reply->master));
    } else if (!lock->renewing) { /* The round is won already. */
        hold_mend_soon(core, lock);
        hold_arm(core, lock);
    } else if (outbox_takes(core, lock, reply)) {
        decide_renewal(core, lock);
    }
}

/* Handles that a master's clock gained on ours (R14). A hold that is over is lost, and earlier
 * questions are asked again. An adoption begins again with the replies to the renewal. */
static void gained_on(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    bool was_shortened = lock->shortened, is_void = lock->is_void;
    lock->shortened = lock->is_void = false;
    if (was_shortened && !instant_before(core->now, hold_lost_at(lock))) {
        hold_lost(core, lock, REASON_CLOCK_STOPPED);
        return;
    }
    if (was_shortened)
        outbox_hold(core, lock);
    if (is_void && lock->renewing) {
        lock->renewing = lock->claiming = false;
        begin_renewal(core, lock);
    } else {
        hold_arm(core, lock);
    }
}

/* Returns true if replies are to be received before the round ends (R3): this process comes late to
 * its deadline, so replies may have arrived that are not read yet. This is done once, for as long
 * as the process was late, and for no more than a part of the time until the hold is lost. */
static bool hears_first(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD && lock->renewing);
    int64_t late_us = instant_us_between(lock->round.deadline, core->now),
            most_us = instant_us_between(core->now, hold_lost_at(lock)) / HEARING_SHARE;
    if (late_us <= TIMER_LATE_US || lock->round.overtime || MUTANT(LATE_RENEWAL_FAILS))
        return false;
    lock->round.overtime = true;
    lock->round.deadline = instant_after_us(core->now, late_us < most_us ? late_us : most_us);
    hold_arm(core, lock);
    return true;
}

void watchdog_timer(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD || lock->state == LOCK_LOST);
    if (core->ending) {
        hold_ended(core, lock);
    } else if (lock->state == LOCK_LOST) {
        hold_over(core, lock);
    } else if (lock->outlived) {
        hold_taken(core, lock, REASON_TAKEN);
    } else if (lock->is_void || lock->shortened) {
        gained_on(core, lock);
    } else if (!instant_before(core->now, hold_lost_at(lock))) {
        hold_lost(core, lock,
                  hold_reaches_max(lock)              ? REASON_MAX_HOLD
                  : lock->terms.renew == RENEW_CALLER ? REASON_EXPIRED
                  : core->stalled                     ? REASON_STALLED
                                                      : REASON_QUORUM_LOST);
    } else if (lock->renewing && !instant_before(core->now, lock->round.deadline)) {
        if (hears_first(core, lock))
            return;
        round_close(&lock->round);
        decide_renewal(core, lock);
    } else {
        hold_arm(core, lock);
    }
}

/* Begins the renewals that are due (R8): one call a step, so that other events come between and no
 * master is blocked. The next step is due at once. Renewals that are nearly due fill the call. Late
 * ones are not postponed. */
void watchdog_renews(struct core *core)
{
    struct timers *renewals = &core->renewals;
    if (instant_before(core->now, timers_due(renewals)))
        return;
    uint32_t begun = 0;
    while (renewals->count > 0 && outbox_has_room(core)) {
        struct lock *lock = lock_at(core, timers_first(renewals));
        int64_t early_us = instant_us_between(core->now, timers_due(renewals)),
                slack_us = hold_slack_us(lock);
        if (early_us > slack_us || (begun >= LIMIT_BATCH && early_us > -slack_us))
            break;
        begin_renewal(core, lock);
        begun++;
    }
}

static void renew_for_requests(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    if (lock->renewing)
        return;
    begin_renewal(core, lock);
    if (round_verdict(&lock->round) != VERDICT_OPEN)
        decide_renewal(core, lock);
}

/* Renews for a PUT, or for a POST that has the hold already. Begins a round, or waits for the next
 * one if a round is in flight. A shorter ttl shortens nothing (R7). */
void watchdog_renew(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN);
    request->state = REQUEST_RENEWING;
    list_append(&lock->requests, &request->link);
    request_awaits_next_round(lock, request);
    renew_for_requests(core, lock);
}

void watchdog_renew_again(struct core *core, struct lock *lock)
{
    CORE_ASSERT(!list_is_empty(&lock->requests));
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next)
        request_awaits_next_round(lock, CONTAINER_OF(at, struct core_request, link));
    renew_for_requests(core, lock);
}

/* ---- the holds of the process before ---- */

/* Holds of the process before this one, from its journal: of the same boot, so measured by the same
 * clock.
 *
 *   valid          it continues with the same token, number, validity and max_hold. The watchdog
 *                  renews it at once. That first renewal creates no key (R7): the key may have been
 *                  taken while no agent renewed it.
 *   valid,         it continues without renewals: the process ended between the grant and the mark
 *   undelivered    that its answer was written. Most often no caller has its token, and with
 *                  renewals it would last until max_hold. But the answer may have been sent just
 *                  before the end, so its keys stay until the promised validity is over. A PUT
 *                  shows that its caller lives. With an idempotency key the caller can ask again,
 *                  so it is renewed like any other (D3.5).
 *   over           its keys are released, as after any other end (R6).
 *   over, not      it runs out if the policy has a lock_delay, which keeps the key taken that long
 *   released       (R15).
 *   lost, still    it runs out: a hold that was reported lost is not held again, and inside a
 *   valid          reported validity a key is deleted only at its holder's request. So does an
 *                  adopted hold: a longer validity may have been reported.
 *   over or lost,  the same, and it is remembered for a minute: a repeat of its POST is no new
 *   with a key     request (D3.5).
 *
 * The connections of that process have ended, so a bound hold continues as a plain lease. Its
 * caller may renew it or release it by its token; the agent does neither. The caller may be at work
 * until the validity is over, so the keys stay until then.
 *
 * A journal that was cut may name a hold twice. The second time it is known already. */

bool core_is_doubtful(const struct noted_hold *hold)
{
    return !hold->delivered && hold->terms.renew == RENEW_AGENT &&
           hold->metadata.idempotency.len == 0;
}

static void take_noted(struct core *core, struct lock *lock, const struct noted_hold *noted)
{
    CORE_ASSERT(lock->state == LOCK_HELD || lock->state == LOCK_RELEASING);
    lock->token = noted->token;
    if (noted->token.fence == 0)
        lock->fencing = false; /* The policy has numbered its grants only since then. */
    lock->terms = noted->terms;
    lock_keep_metadata(core, lock, &noted->metadata);
    /* A journal does not contain it. */
    lock->terms.max_hold_ms = lock_policy(core, lock)->max_hold_ms;
    if (core_is_doubtful(noted))
        lock->terms.renew = RENEW_CALLER;
    if (MUTANT(RESTORE_COUNTS_ONE))
        lock->terms.count = 1;
    /* limits.max_ttl may have been larger. The validity stays, but no later lease may be longer
     * than masters are told (D5.3). */
    if (lock->terms.ttl_ms > core->max_ttl_ms)
        lock->terms.ttl_ms = core->max_ttl_ms;
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
    lock->uncounted = form_is_native(lock->key->form) ? lock->written : 0;
}

void restore_hold(struct core *core, struct key *key, const struct noted_hold *noted)
{
    CORE_ASSERT(noted->terms.ttl_ms > 0 && noted->terms.renew != RENEW_UNSET);
    CORE_ASSERT(noted->terms.count >= 1 && !noted->terms.bound);
    bool over = !instant_before(core->now, noted->valid_until);
    bool is_delayed = core->policies[key->policy].lock_delay_ms > 0 && !noted->released &&
                      !MUTANT(RESTORE_ENDS_DELAY);
    bool runs_out = over ? noted->adopted || is_delayed : noted->ended;
    bool goes_on = !over && !runs_out;
    bool known = lock_by_token(core, key, &noted->token) != NULL ||
                 (goes_on && key_obstacle(key, noted->terms.mode, &noted->token) != NULL);
    /* Otherwise the policy had another kind, and no request would find the hold now. */
    bool is_of_kind = noted->token.has_slot == (key->form == FORM_SLOTS) &&
                      (noted->terms.mode == MODE_WRITE || key->form == FORM_SHARED);
    /* Another agent may have it, and its holder may give it back by its idempotency key (D3.5). */
    bool is_remembered = noted->metadata.idempotency.len > 0 && !noted->released;
    /* A hold that was ended before its answer was written has failed for its caller. */
    bool was_lost =
        is_remembered && (noted->delivered || !noted->ended) && !MUTANT(RESTORE_FORGETS_LOSS);
    if (known || (runs_out && !is_remembered) || !is_of_kind)
        return;
    struct lock *lock =
        lock_new(core, key, goes_on ? LOCK_HELD : LOCK_RELEASING, noted->terms.mode);
    if (lock == NULL)
        return; /* limits.locks is smaller than before. */
    take_noted(core, lock, noted);
    lock_index_token(core, lock);
    lock_index_secret(core, lock);
    if (was_lost && !goes_on) /* For one more restart. */
        lock->delivered = !MUTANT(RESTORED_LOSS_UNNOTED);
    if (runs_out) {
        lock->pending->may_live = true;
        lock->pending->was_lost = was_lost;
        if (over || was_lost) /* Otherwise the end of its validity would be lost. */
            outbox_hold(core, lock);
        debt_begun(core, lock, /* except= */ lock->written);
    } else if (over) {
        /* A last renewal may have been sent then, and its reply lost. A holder's DELETE is owed for
         * longer, because other agents may have asked for a longer lease (R6). */
        lock->lease_until =
            instant_max(lock->lease_until,
                        instant_after_ms(noted->valid_until,
                                         noted->released ? core->max_ttl_ms : lock_lease_ms(lock)));
        /* Otherwise its holder may have it at another agent (D3.4). */
        lock->given_back = noted->released;
        lock->pending->may_live = is_remembered;
        lock->pending->was_lost = was_lost;
        outbox_hold(core, lock);
        debt_begun(core, lock, /* except= */ 0);
    } else {
        watchdog_resumed(core, lock);
    }
}
