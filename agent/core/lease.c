/* The masters that have the key of a hold, by their last replies (R7).
 *
 *   sent    reply                        ends[m]     reply   + release    a later round is won
 *     |-------|------- lease + drift -------|----------|-----------|---------------|------------->
 *       RENEW |  RENEW; no key is a *no*:     RENEW    |  no key is no *no*:  REPAIR: the key is
 *             |  it was deleted, or another            |  it may have run     created anew, if no
 *             |  holder took it                        |  out by itself       other holder has it
 *
 * A master that confirmed the token counts until its lease may have run out. Its replies until then
 * are definite. A later reply is not: a master that was away for longer than the lease comes back
 * without the key, although no holder has taken it. So from then on the master counts like one that
 * has not confirmed, even if it has another holder's key meanwhile.
 *
 * The end of the lease is not known to the microsecond. For a *no*, and before a repair, the latest
 * possible end is used: the lease began when the reply came, and the master's clock is slow
 * (`ends`). The count of confirmed masters must not include one that has no key. So it uses the
 * earliest possible end: the lease began when the command was sent, and the clock is fast
 * (`early_ms` before `ends`).
 *
 * A repair must never bring back a lock that was released at another agent. Such a release deleted
 * the key on a quorum. A master that has no key now may belong to that quorum. So a key that may
 * have been there is created anew only when the masters have shown that there was no such release:
 * a quorum confirmed the token in a round that was sent after the key was gone.
 *   1. If the release deleted the key on this master, it did so before the key was seen to be gone
 *      (or an earlier agent of the hold has created it again in between, D3.4).
 *   2. The rest of its quorum deleted the key within the time that a release has for its votes. The
 *      round was sent after that (proof_from()).
 *   3. Two quorums have a master in common: one master of the round would have denied the token.
 * While any master denies within its lease, no such key is repaired: a definite *no* without a
 * quorum against it may be the beginning of such a release. The time at which the key was gone:
 *
 *   FORGOTTEN   the moment at which this agent saw the new epoch of the master. If so many masters
 *               forgot that the others are no quorum, no proof can ever come. The guard keeps all
 *               other holders away meanwhile. So the key is repaired at once, unless the hold
 *               comes out of a journal and no quorum has confirmed it since
 *   MISSING     the moment at which the master replied that no key is there
 *   UNHEARD     the key may be there still: no repair, but a RENEW, whose reply shows whether it is
 *               there. All masters of a hold that was adopted or restored are UNHEARD: another
 *               agent or process has sent a command that creates it. So is a master after the end
 *               of the lease that it confirmed: the key may live longer, by a longer ttl of another
 *               agent or by a RENEW whose reply was lost
 *   UNSENT      the key never was there: it is repaired at once */
#include "internal.h"

#include "core_assert.h"

/* ---- the lease on each master ---- */

static bool is_of_this_epoch(const struct core *core, const struct lock *lock, uint8_t m)
{
    CORE_ASSERT(m < LIMIT_MASTERS);
    uint16_t epoch = core->groups[lock->group].masters[m].epoch;
    return lock->masters[m].confirmed != 0 &&
           (lock->masters[m].confirmed == epoch || MUTANT(EPOCH_IGNORED));
}

/* The key of a lock at one master. */
enum standing {
    UNSENT,    /* Nothing that creates it was sent, or the master has answered that it did not. */
    UNHEARD,   /* A command that creates or prolongs it was sent, and its result is not known. */
    RUNNING,   /* The master confirmed the token, and that lease may not be over. */
    FORGOTTEN, /* The master confirmed the token in another epoch. */
    MISSING,   /* The master replied that no key is there, and no earlier lease is left. */
};

static bool can_run(const struct core *core, const struct lock *lock, uint8_t m)
{
    return is_of_this_epoch(core, lock, m) &&
           (instant_before(core->now, lock->masters[m].ends) || MUTANT(DENIED_FOREVER));
}

static enum standing standing_of(const struct core *core, const struct lock *lock, uint8_t m)
{
    const struct lock_master *master = &lock->masters[m];
    CORE_ASSERT(master->confirmed == 0 || master->ends.us != 0);
    if (can_run(core, lock, m))
        return RUNNING;
    if (MUTANT(RUN_OUT_IS_GONE) && is_of_this_epoch(core, lock, m))
        return MISSING;
    if (set_has(lock->unheard, m) || is_of_this_epoch(core, lock, m))
        return UNHEARD;
    if (master->confirmed != 0)
        return FORGOTTEN;
    return master->ends.us == 0 ? UNSENT : MISSING;
}

static int64_t drift_us(const struct core *core, const struct lock *lock, int64_t lease_us)
{
    CORE_ASSERT(lease_us >= 0);
    return lease_us * core->groups[lock->group].config.drift_ppm / 1000000 + DRIFT_FIXED_MS * 1000;
}

/* Returns WORD_NONE for a vote that says nothing of the token. */
static enum word word_of(enum vote vote)
{
    CORE_ASSERT(vote < VOTE_COUNT);
    switch (vote) {
    case VOTE_YES:
    case VOTE_REPAIRED:
        return WORD_YES;
    case VOTE_ABSENT:
        return WORD_ABSENT;
    case VOTE_TAKEN:
    case VOTE_FOREIGN:
        return WORD_OTHER;
    case VOTE_MOVED:
        return WORD_ELSEWHERE;
    case VOTE_UNLOCKED:
        return WORD_UNLOCKED;
    default:
        return WORD_NONE;
    }
}

static bool is_denial(enum word word)
{
    CORE_ASSERT(word <= WORD_UNLOCKED);
    return word >= WORD_ABSENT;
}

master_set lease_word(const struct core *core, const struct lock *lock, enum word word)
{
    CORE_ASSERT(word <= WORD_UNLOCKED);
    master_set set = 0;
    for (uint8_t m = 0; m < core->groups[lock->group].config.masters; m++)
        set |= lock->masters[m].word == word ? set_of(m) : 0;
    return set;
}

/* Returns true if the vote says that the command has not created the key. */
static bool has_written_nothing(enum vote vote)
{
    return is_denial(word_of(vote)) || vote == VOTE_GUARDED || vote == VOTE_SPOILED ||
           vote == VOTE_LATE || vote == VOTE_REFUSED || vote == VOTE_NOT_SENT;
}

/* Notes that the master confirmed the token. Nothing shortens: an earlier confirmation in this
 * epoch may be longer. The end that native commands name may be later (R24). */
static void confirmed(const struct core *core, struct lock *lock, const struct event_reply *reply)
{
    enum op op = reply->op;
    uint8_t m = reply->master;
    CORE_ASSERT(!instant_before(core->now, lock->round.started));
    CORE_ASSERT(lock->asked_ttl_ms > 0);
    const struct round *round = &lock->round;
    int64_t least_us = (int64_t)lock_lease_ms(lock) * 1000, most_us = least_us;
    if (op == OP_REPAIR && instant_us_between(round->started, lock->lease_until) > most_us)
        /* At least as long as the other leases (outbox.c). */
        most_us = instant_us_between(round->started, lock->lease_until);
    bool is_first = op == OP_ACQUIRE || set_has(lock->unheard, m);
    if (is_first && form_is_native(lock->key->form))
        most_us += native_spread_ms(core->groups[lock->group].config.node_timeout_ms) * 1000;
    struct instant early =
        instant_after_us(round->started, least_us - drift_us(core, lock, least_us));
    struct instant ends = instant_after_us(core->now, most_us + drift_us(core, lock, most_us));
    if (is_of_this_epoch(core, lock, m)) {
        early = instant_max(
            early, instant_after_ms(lock->masters[m].ends, -(int64_t)lock->masters[m].early_ms));
        ends = instant_max(ends, lock->masters[m].ends);
    }
    lock->masters[m].confirmed = core->groups[lock->group].masters[m].epoch;
    lock->unheard &= (master_set)~set_of(m);
    lock->masters[m].ends = ends;
    CORE_ASSERT(!instant_before(ends, early));
    lock->masters[m].early_ms = (uint32_t)((instant_us_between(early, ends) + 999) / 1000);
}

/* Notes that no key is there. If it may have been there until now, this is the moment at which it
 * is known to be gone. */
static void denied(const struct core *core, struct lock *lock, enum op op, uint8_t m)
{
    if (op_creates(op))
        return;
    bool is_first = standing_of(core, lock, m) == UNHEARD;
    lock->unheard &= (master_set)~set_of(m);
    if (!is_first)
        return;
    lock->masters[m].confirmed = 0;
    lock->masters[m].ends = core->now;
}

/* Notes that another agent owns the token there, and may release it. From then on the master is
 * like one to which other agents have sent a command that creates the key. */
static void moved(const struct core *core, struct lock *lock, uint8_t m)
{
    lock->moved |= set_of(m);
    if (can_run(core, lock, m))
        return;
    lock->masters[m].confirmed = 0;
    lock->unheard |= set_of(m);
}

/* Returns true if the reply to an acquire says that the master does not have the key. The script
 * leaves a key that native commands have set (R24), so then only another holder's key says so. If
 * the lock has been granted, no script is asked after native commands that found another key. */
static bool is_not_there(const struct lock *lock, const struct event_reply *reply)
{
    if (reply->vote == VOTE_BY_SCRIPT)
        return reply->op == OP_ACQUIRE && reply->is_unset && lock->state == LOCK_HELD &&
               !MUTANT(UNSET_IS_UNHEARD);
    return op_creates(reply->op) && has_written_nothing(reply->vote) &&
           (is_denial(word_of(reply->vote)) || !set_has(lock->by_script, reply->master));
}

/* Notes whether the key of a master counts (R24): it does if the master granted it with its
 * vote. */
static void heard_native(struct lock *lock, const struct event_reply *reply)
{
    master_set from = set_of(reply->master);
    bool by_vote = reply->op == OP_ACQUIRE || reply->op == OP_RESUME || reply->op == OP_ADOPT;
    if (reply->vote == VOTE_BY_SCRIPT)
        lock->by_script |= from;
    if ((by_vote && reply->vote == VOTE_YES) ||
        (reply->op == OP_ACQUIRE && is_not_there(lock, reply)))
        lock->uncounted &= (master_set)~from;
}

bool lease_is_withheld(const struct lock *lock, const struct event_reply *reply)
{
    return reply->op == OP_RESUME && reply->vote == VOTE_NOT_SENT && !lease_is_unproved(lock);
}

static master_set denying(const struct core *core, const struct lock *lock)
{
    master_set set = 0;
    for (uint8_t m = 0; m < core->groups[lock->group].config.masters; m++)
        set |= is_denial(lock->masters[m].word) && can_run(core, lock, m) ? set_of(m) : 0;
    return set;
}

bool lease_counts(const struct core *core, const struct lock *lock, const struct event_reply *reply)
{
    bool finds = reply->op == OP_RENEW || reply->op == OP_REPAIR || reply->op == OP_HANDOVER;
    bool renews = finds || reply->op == OP_RESUME,
         is_repaired = reply->vote == VOTE_YES && set_has(lock->repaired, reply->master);
    if (renews && is_repaired && denying(core, lock) != 0 && !MUTANT(REPAIRED_COUNTS))
        return false;
    if (reply->op == OP_RESUME && reply->vote == VOTE_GUARDED)
        return lease_is_unproved(lock); /* It has found the key, without its vote. */
    return !finds || reply->vote != VOTE_YES || !set_has(lock->uncounted, reply->master) ||
           MUTANT(UNCOUNTED_COUNTS);
}

void lease_round_won(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    lock->uncounted &= (master_set) ~(lock->round.heard & lease_word(core, lock, WORD_YES));
    lock->repaired = 0;
}

/* Returns the masters that confirmed the token in an earlier epoch. */
static master_set forgetful(const struct core *core, const struct lock *lock)
{
    master_set set = 0;
    for (uint8_t m = 0; m < core->groups[lock->group].config.masters; m++)
        set |= lock->masters[m].confirmed != 0 && !is_of_this_epoch(core, lock, m) ? set_of(m) : 0;
    return set;
}

/* Returns true if so many masters have forgotten the token that the others are no quorum. */
static bool is_forgotten(const struct core *core, const struct lock *lock)
{
    int masters = core->groups[lock->group].config.masters;
    return masters - set_size(forgetful(core, lock)) < lock->quorum;
}

void lease_heard(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(reply->master < core->groups[lock->group].config.masters);
    CORE_ASSERT(lock->state != LOCK_FREE);
    uint8_t m = reply->master;
    bool is_latest = reply->ref.round == lock->round.number || MUTANT(STALE_VOTES_COUNT);
    /* No other one is sent for this lock. */
    bool is_only = reply->op == OP_ACQUIRE || reply->op == OP_HANDOVER;
    if (is_latest || is_only)
        heard_native(lock, reply);
    if ((is_latest || is_only) && is_not_there(lock, reply))
        lock->unheard &= (master_set)~set_of(m);
    if (!is_latest || reply->op == OP_RELEASE || reply->vote == VOTE_NOT_RUN ||
        reply->vote == VOTE_BY_SCRIPT || lease_is_withheld(lock, reply))
        return;
    if (set_has(lock->round.heard, m) && !MUTANT(STALE_VOTES_COUNT))
        return;
    lock->round.heard |= set_of(m);
    if (reply->vote == VOTE_REPAIRED || reply->vote == VOTE_ABSENT)
        lock->mending |= set_of(m);
    if (reply->op == OP_REPAIR && (reply->vote == VOTE_YES || has_written_nothing(reply->vote)))
        lock->repaired &= (master_set)~set_of(m);
    enum word word = word_of(reply->vote);
    if (word == WORD_NONE || (word == WORD_YES && reply->op == OP_RAISE))
        return;
    if (word == WORD_YES)
        confirmed(core, lock, reply);
    else
        denied(core, lock, reply->op, m);
    if (word == WORD_ELSEWHERE)
        moved(core, lock, m);
    if (word == WORD_YES && reply->op == OP_ADOPT)
        label_heard(core, lock, reply->occupant.label);
    lock->masters[m].word = word;
}

/* Masters that say `unlocked` deny the token for good, also after its lease (R25). */
bool lease_is_taken(const struct core *core, const struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    master_set no = denying(core, lock) | lock->moved | lease_word(core, lock, WORD_UNLOCKED);
    if (MUTANT(ONE_UNLOCKED_IS_LOSS) && lease_word(core, lock, WORD_UNLOCKED) != 0)
        return true;
    return core->groups[lock->group].config.masters - set_size(no) < lock->quorum;
}

/* Returns the reason that the denying masters show. They show the same for a release at another
 * agent and for a key that was deleted by hand. If another holder has the key, they show the same
 * for a release and for a master that forgot. */
enum reason lease_reason(const struct core *core, const struct lock *lock)
{
    CORE_ASSERT(lease_is_taken(core, lock));
    if (lease_word(core, lock, WORD_UNLOCKED) != 0)
        return REASON_UNLOCKED;
    if ((denying(core, lock) & lease_word(core, lock, WORD_OTHER)) != 0)
        return REASON_TAKEN;
    return lease_word(core, lock, WORD_ELSEWHERE) != 0 ? REASON_MOVED : REASON_GONE;
}

/* A round that is sent from then on, and won, proves that no release took the key of `m`.
 *
 * A release anywhere begins at s, and its votes count until s + D (R3). D is the same at all
 * agents, but for the drift of their clocks (A1), and depends on no ttl: an agent that does not
 * know the hold, or knows it by another ttl, has no longer. Say that the release found the key of
 * `m`, so before it was gone: s <= gone. Then it was decided by gone + D. A round that is sent at
 * gone + D or later and won has a master in common with each quorum that decided the release, and
 * this master confirmed the token after it had answered the release: a contradiction.
 *
 * A shorter wait proves nothing, also one as long as the hold's own lease, as other agents may have
 * renewed the hold meanwhile: the release may delete on `m` first, and on the masters of the won
 * round after it. */
static struct instant proof_from(const struct core *core, const struct lock *lock, uint8_t m)
{
    CORE_ASSERT(lock->terms.ttl_ms > 0);
    int64_t wait_ms = release_ms_max(core, lock->group);
    if (MUTANT(PROOF_BY_POLICY) && lock_policy(core, lock)->ttl_ms / 10 > wait_ms)
        wait_ms = lock_policy(core, lock)->ttl_ms / 10;
    int64_t wait_us = wait_ms * 1000 + drift_us(core, lock, wait_ms * 1000);
    if (MUTANT(PROOF_AT_ONCE))
        wait_us = 0;
    if (MUTANT(PROOF_WITHOUT_DRIFT))
        wait_us = wait_ms * 1000;
    bool is_lost = lock->masters[m].confirmed != 0 && !is_of_this_epoch(core, lock, m);
    struct instant gone =
        is_lost ? core->groups[lock->group].masters[m].epoch_since : lock->masters[m].ends;
    return instant_after_us(gone, wait_us);
}

static bool is_proved_since(const struct core *core, const struct lock *lock, uint8_t m)
{
    return !instant_before(lock->won_from, proof_from(core, lock, m));
}

/* Returns true if the master confirmed the token in an earlier epoch, and the masters that did not
 * forget it are no quorum. So no round can prove that the lock was not released elsewhere. */
static bool is_unprovable(const struct core *core, const struct lock *lock, uint8_t m)
{
    /* A quorum has confirmed it to this process. Otherwise it may have been released before. */
    bool is_won = lock->won_from.us != 0;
    return is_won && is_forgotten(core, lock) && standing_of(core, lock, m) == FORGOTTEN &&
           !is_proved_since(core, lock, m);
}

master_set lease_repairable(const struct core *core, const struct lock *lock,
                            master_set *ret_unproved)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    bool is_denied = (denying(core, lock) | lease_word(core, lock, WORD_UNLOCKED)) != 0 &&
                     !MUTANT(REPAIR_TOO_EARLY);
    master_set set = 0;
    *ret_unproved = 0;
    for (uint8_t m = 0; m < core->groups[lock->group].config.masters; m++) {
        enum standing standing = standing_of(core, lock, m);
        bool is_over = standing == FORGOTTEN || standing == MISSING;
        bool is_early = MUTANT(REPAIR_TOO_EARLY) && is_denial(lock->masters[m].word);
        if (standing == UNSENT || (is_over && is_proved_since(core, lock, m) && !is_denied) ||
            is_early)
            set |= set_of(m);
        else if (is_unprovable(core, lock, m) && !is_denied)
            *ret_unproved |= set_of(m);
    }
    return set;
}

/* Returns when a further round brings a master nearer to being counted. That is at once if the key
 * is there again or can be created anew. Otherwise it is the time from which a round can prove that
 * the key may be created. Returns NEVER if there is no such master. */
static struct instant lease_mends_at(const struct core *core, const struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    struct instant at = INSTANT_NEVER;
    for (uint8_t m = 0; m < core->groups[lock->group].config.masters; m++) {
        if (!set_has(lock->mending, m))
            continue;
        if (!is_denial(lock->masters[m].word) ||
            (!can_run(core, lock, m) && is_proved_since(core, lock, m)))
            at = core->now;
        else if (!can_run(core, lock, m))
            at = instant_min(at, proof_from(core, lock, m));
    }
    return at;
}

/* Returns the masters whose last reply and lease say that they have the key at `now`. */
static master_set having(const struct core *core, const struct lock *lock, struct instant now)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    master_set set = 0;
    for (uint8_t m = 0; m < core->groups[lock->group].config.masters; m++) {
        struct instant early =
            instant_after_ms(lock->masters[m].ends, -(int64_t)lock->masters[m].early_ms);
        bool runs = is_of_this_epoch(core, lock, m) && instant_before(now, early) &&
                    !is_denial(lock->masters[m].word);
        bool was_confirmed = lock->masters[m].confirmed != 0 && MUTANT(CONFIRMED_COUNTS_DENIAL);
        set |= runs || was_confirmed ? set_of(m) : 0;
    }
    return set;
}

uint8_t lease_confirmed(const struct core *core, const struct lock *lock, struct instant now)
{
    master_set up = MUTANT(CONFIRMED_COUNTS_DOWN) ? UINT16_MAX : core->groups[lock->group].up;
    return set_size(having(core, lock, now) & up);
}

/* Until a quorum has confirmed it here, `early_ms` of a master that has not is the time that the
 * master gained since. */
bool lease_is_unproved(const struct lock *lock)
{
    return lock->won_from.us == 0;
}

static void end_earlier(struct lock *lock, uint8_t m, int64_t least_us, int64_t most_us)
{
    struct lock_master *master = &lock->masters[m];
    bool is_counted = lease_is_unproved(lock) && master->confirmed == 0;
    int64_t earlier_us = is_counted ? most_us : most_us - least_us;
    if (MUTANT(CLOCK_GAIN_LEAST))
        earlier_us = is_counted ? least_us : 0;
    int64_t early_ms = master->early_ms + (earlier_us + 999) / 1000;
    master->early_ms = early_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)early_ms;
    if (!is_counted && master->ends.us != 0)
        master->ends = instant_after_us(master->ends, -least_us);
}

/* Returns the largest gain of the masters that have not confirmed. Any of them may be needed. */
static uint32_t most_gained_ms(const struct core *core, const struct lock *lock)
{
    uint32_t most_ms = 0;
    for (uint8_t m = 0; m < core->groups[lock->group].config.masters; m++)
        if (lock->masters[m].confirmed == 0 && lock->masters[m].early_ms > most_ms)
            most_ms = lock->masters[m].early_ms;
    return most_ms;
}

/* Returns the end of the validity that follows from the lease of a master (R4, R15). */
static struct instant validity_at(const struct core *core, const struct lock *lock, uint8_t m)
{
    int64_t delay_us = (int64_t)lock->lock_delay_ms * 1000;
    delay_us -= delay_us * core->groups[lock->group].config.drift_ppm / 1000000;
    return instant_after_us(
        instant_after_ms(lock->masters[m].ends, -(int64_t)lock->masters[m].early_ms), -delay_us);
}

/* Returns the last instant at which masters - quorum + 1 masters still have the key. Until then
 * every other quorum lacks a master (R2). */
static struct instant backed_until(const struct core *core, const struct lock *lock)
{
    uint8_t total = core->groups[lock->group].config.masters, count = 0,
            needed = MUTANT(CLOCK_GAIN_SUM_ALL) ? 1 : (uint8_t)(total - lock->quorum + 1);
    struct instant latest[LIMIT_MASTERS];
    for (uint8_t m = 0; m < total; m++) {
        if (lock->masters[m].ends.us == 0 || set_has(lock->uncounted, m))
            continue;
        struct instant at = validity_at(core, lock, m);
        uint8_t i = count++;
        for (; i > 0 && instant_before(latest[i - 1], at); i--)
            latest[i] = latest[i - 1];
        latest[i] = at;
    }
    return count < needed ? (struct instant){0} : latest[needed - 1];
}

struct instant lease_gained(const struct core *core, struct lock *lock, uint8_t master,
                            int64_t least_us, int64_t most_us)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    CORE_ASSERT(least_us > 0 && least_us <= most_us);
    int64_t before_ms = most_gained_ms(core, lock);
    end_earlier(lock, master, least_us, most_us);
    if (lease_is_unproved(lock) && lock->masters[master].confirmed != 0)
        return instant_after_us(lock->valid_until, -most_us);
    if (lease_is_unproved(lock))
        return instant_after_ms(lock->valid_until, before_ms - most_gained_ms(core, lock));
    /* The leases of a hold out of a journal are not known, and a renewal for less shows none of
     * them. But no lease has become shorter by more than its master gained. */
    struct instant until =
        instant_max(backed_until(core, lock), instant_after_us(lock->valid_until, -most_us));
    /* `early_ms` is rounded up. */
    bool is_earlier = instant_us_between(until, lock->valid_until) > 1000;
    return is_earlier ? until : lock->valid_until;
}

struct tally lease_tally(const struct core *core, const struct lock *lock)
{
    CORE_ASSERT(lock->quorum >= 1);
    CORE_ASSERT(lock->quorum <= core->groups[lock->group].config.masters);
    return (struct tally){.granted = set_size(having(core, lock, core->now)),
                          .total = core->groups[lock->group].config.masters,
                          .quorum = lock->quorum};
}

/* ---- the validity ---- */

/* A hold: how long it is valid, when it is renewed, when it is lost.
 *
 *   acquired  ttl/3       ttl/3        valid_until - lost_margin  valid_until  lease_until
 *      |--------|-----------|----- ... -------|-----------------------|------------|
 *            renewal     renewal,         LOST: said,             keys are      gone on
 *                        retried          keys stay               released      the masters
 *
 * Timers of a hold: in core->timers the deadline of the round that is out, or the moment of loss if
 * that is earlier; in core->renewals the next renewal.
 *
 * Invariants: nothing shortens (R7): neither the lease on a master nor the validity here;
 * validity counts from before the first byte of the round was sent (R4); no renewal reaches
 * beyond max_hold. */

enum { RENEWALS_PER_TTL = 3, SPREAD = 8, SLACK = 64, RETRIES_PER_TTL = 20, RETRY_MS_MAX = 1000 };

/* Returns when the hold is lost (R7). An agent's hold is lost when it could not be renewed until
 * validity - lost_margin. A caller's hold is lost a moment before its validity ends, so that `lost`
 * is still true after the delays of a timer and a socket. A renewal that is confirmed before is in
 * time. */
struct instant hold_lost_at(const struct lock *lock)
{
    CORE_ASSERT(lock->terms.ttl_ms > 0);
    int64_t max_hold_ms = instant_us_between(lock->acquired_at, lock->max_hold_until) / 1000,
            margin_ms = lost_margin_ms(lock->terms.ttl_ms, max_hold_ms);
    if (MUTANT(LOST_AFTER_VALIDITY))
        return instant_after_ms(lock->valid_until, 500);
    if (lock->terms.renew == RENEW_CALLER)
        return instant_after_ms(lock->valid_until,
                                lock->renewing ? -EXPIRY_MARGIN_RENEWING_MS : -EXPIRY_MARGIN_MS);
    if (MUTANT(LOST_TOO_EARLY))
        return instant_after_ms(lock->valid_until, -3 * margin_ms);
    return instant_after_ms(lock->valid_until, -margin_ms);
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

/* Returns a twentieth of the ttl, at most a second. */
static int64_t longest_retry_us(const struct lock *lock)
{
    CORE_ASSERT(lock->terms.ttl_ms > 0);
    int64_t delay_us = (int64_t)lock->terms.ttl_ms * 1000 / RETRIES_PER_TTL;
    return delay_us > RETRY_MS_MAX * 1000 ? RETRY_MS_MAX * 1000 : delay_us;
}

/* Returns longest_retry_us(), less a random part of up to half. */
int64_t hold_retry_us(struct core *core, const struct lock *lock)
{
    int64_t delay_us = longest_retry_us(lock);
    return delay_us / 2 + chance_below(core, CHANCE_RETRY, delay_us / 2);
}

/* Renews a hold soon that may be gone. Leases that callers renew are left alone. Otherwise refused
 * callers would extend them without end. */
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

/* Plans a renewal soon if it brings a master back: a master that lost the key counts only after
 * further rounds (R7). So the hold outlives the loss of the next master. */
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

/* Plans the next renewal (R8): ttl/3 after `from`, less a random part so that holds spread, and
 * less the time by which it may be put off. */
void hold_plan_renewal(struct core *core, struct lock *lock, struct instant from)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    CORE_ASSERT(!timers_is_armed(&core->renewals, timer_of_lock(lock)));
    if (lock->terms.renew != RENEW_AGENT || hold_reaches_max(lock))
        return;
    int64_t period_us = renewal_period_us(lock);
    struct instant at =
        instant_after_us(from, period_us - hold_slack_us(lock) -
                                   chance_below(core, CHANCE_RENEWAL, period_us / SPREAD));
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
    lock->moved = 0; /* Adopted back. */
    hold_extend(core, lock, from);
    hold_plan_renewal(core, lock, from);
    hold_arm(core, lock);
    outbox_hold(core, lock);
}
