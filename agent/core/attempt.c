/* One attempt at a lock: ask all masters at once (R1), number the grant (R12), check what validity is left (R4), or
 * undo (R5). */
#include <string.h>

#include "core_assert.h"
#include "state.h"

enum { SMOOTHING = 8 };

static void take_random(struct core *core, struct token *token)
{
    CORE_ASSERT(core->entropy.left >= RANDOM_BYTES);
    core->entropy.left -= RANDOM_BYTES;
    memcpy(token->random, core->entropy.bytes + core->entropy.left, RANDOM_BYTES);
    memset(core->entropy.bytes + core->entropy.left, 0, RANDOM_BYTES);
}

static struct request *contender_of(struct core *core, struct lock *lock)
{
    return lock->contender == NO_REQUEST ? NULL : &core->requests[lock->contender];
}

/* When as many of `masters` as are needed will have let go of the other holders' leases, or of their guard, as they say:
 * the time after which a retry can win. */
static int64_t free_in_ms(const struct lock *lock, master_set masters)
{
    const struct round *round = &lock->round;
    uint32_t sorted[LIMIT_MASTERS];
    size_t count = 0, needed = 0;
    for (uint8_t m = 0; m < round->total; m++) {
        if (!set_has(masters, m) || lock->held_ms[m] == UINT32_MAX)
            continue; /* who does not say when, a foreign key for one, is not waited for */
        size_t i = count++;
        for (; i > 0 && sorted[i - 1] > lock->held_ms[m]; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = lock->held_ms[m];
    }
    uint8_t free_now = set_size(round->yes);
    if (count == 0)
        return -1;
    needed = round->quorum > free_now ? (size_t)(round->quorum - free_now) : 1;
    return sorted[(needed <= count ? needed : count) - 1];
}

/* D5.3: where the masters that are guarded would make a quorum with those that vote. */
static int64_t guard_ends_in_ms(const struct lock *lock)
{
    const struct round *round = &lock->round;
    bool would_do = set_size(round->guarded | round->yes | round->no) >= round->quorum;
    return would_do ? free_in_ms(lock, round->guarded | round->no) : -1;
}

static void attempt_failed(struct core *core, struct lock *lock, enum answer answer)
{
    struct key *key = lock->key;
    struct request *contender = contender_of(core, lock);
    key->last_answer = answer;
    key->last_retry_ms = answer == ANSWER_LOCK_HELD            ? free_in_ms(lock, lock->round.no)
                         : answer == ANSWER_QUORUM_UNAVAILABLE ? guard_ends_in_ms(lock)
                                                               : -1;
    key->last_guarded = lock->round.guarded;
    if (answer != ANSWER_LOCK_HELD)
        key->last_holder_len = 0;
    ticket_attempt_failed(core, lock, answer);
    release_undone(core, lock, /* except= */ lock->round.op == OP_RAISE ? 0 : lock->round.no);
    queue_attempt_failed(core, key, contender);
}

static void attempt_granted(struct core *core, struct lock *lock, struct instant from)
{
    struct key *key = lock->key;
    struct request *request = contender_of(core, lock);
    struct tally tally = round_tally(&lock->round);
    struct instant begun = lock->acquired_at;
    key->last_tally = tally;
    if (MUTANT(VALIDITY_FROM_REPLY))
        from = core->now;
    if (!instant_before(core->now, validity_end(core, lock->group, from, lock->ttl_ms))) {
        outbox_trace(core,
                     (struct effect_trace){.kind = TRACE_ATTEMPT,
                                           .answer = ANSWER_VALIDITY_EXPIRED,
                                           .elapsed_us = instant_us_between(begun, core->now)},
                     lock);
        attempt_failed(core, lock, ANSWER_VALIDITY_EXPIRED);
        return;
    }
    hold_begun(core, lock, from);
    ticket_granted(lock);
    outbox_trace(core,
                 (struct effect_trace){.kind = TRACE_ATTEMPT,
                                       .answer = ANSWER_GRANTED,
                                       .elapsed_us = instant_us_between(begun, core->now)},
                 lock);
    outbox_trace(core,
                 (struct effect_trace){.kind = TRACE_GRANTED,
                                       .answer = ANSWER_GRANTED,
                                       .elapsed_us = instant_us_between(request->came_at, core->now)},
                 lock);
    lock->contender = NO_REQUEST;
    request_answer(core, request, answer_for_lock(ANSWER_GRANTED, lock));
    reentry_admit(core, lock);
    queue_attempt_won(core, key);
}

/* The grant's number is known. Raise it where it is not stored yet, on masters that hold the token, unless a quorum
 * stores it. */
static void attempt_numbered(struct core *core, struct lock *lock)
{
    struct instant from = lock->acquired_at;
    lock->token.fence = lock->fence_max;
    master_set granted = lock->round.yes, stored = lock->at_max;
    if (set_size(stored) >= lock->quorum || MUTANT(ONE_PHASE_FENCE)) {
        attempt_granted(core, lock, from);
        return;
    }
    lock_set_state(core, lock, LOCK_RAISING);
    struct group *group = lock_group(core, lock);
    master_set asked = granted & (master_set)~stored & group->up;
    round_begin(&lock->round, OP_RAISE, group->config.masters, lock->quorum, asked | stored, core->now,
                group->config.node_timeout_ms);
    lock->round.yes = stored;
    if (asked != 0)
        outbox_send(core, lock, OP_RAISE, asked);
    timers_set(&core->timers, &lock->timer, lock->round.deadline);
}

static void attempt_lost(struct core *core, struct lock *lock)
{
    struct round *round = &lock->round;
    lock->key->last_tally = round_tally(round);
    enum answer answer = round_lost_to_holder(round) ? ANSWER_LOCK_HELD : ANSWER_QUORUM_UNAVAILABLE;
    outbox_trace(core,
                 (struct effect_trace){.kind = TRACE_ATTEMPT,
                                       .answer = answer,
                                       .elapsed_us = instant_us_between(lock->acquired_at, core->now)},
                 lock);
    attempt_failed(core, lock, answer);
}

static void decide(struct core *core, struct lock *lock)
{
    switch (round_verdict(&lock->round)) {
    case VERDICT_OPEN:
        return;
    case VERDICT_LOST:
        attempt_lost(core, lock);
        return;
    case VERDICT_WON:
        if (lock->state == LOCK_ACQUIRING && lock->fencing) {
            attempt_numbered(core, lock);
            if (lock->state == LOCK_RAISING)
                decide(core, lock);
        } else {
            attempt_granted(core, lock, MUTANT(VALIDITY_IGNORES_ELAPSED) ? lock->round.started : lock->acquired_at);
        }
        return;
    }
}

/* A lock for what `request` asks, with a token of its own. */
static struct lock *lock_for(struct core *core, struct key *key, struct request *request, enum cause cause)
{
    struct lock *lock = lock_new(core, key, LOCK_ACQUIRING);
    CORE_ASSERT(lock != NULL);
    wake_begin_attempt(key);
    take_random(core, &lock->token);
    lock->contender = request->slot;
    lock->acquired_at = core->now; /* until it is granted: before the first byte was sent */
    lock->ttl_ms = lock->asked_ttl_ms = request->ttl_ms;
    policy_fit_lock_delay(core, lock); /* the policies may have changed while it waited */
    lock->renew = request->renew;
    lock->bound = request->bound;
    lock->owner = request->owner;
    lock->idempotency = request->idempotency;
    lock->terms = request->terms;
    lock->max_hold_ms = request->max_hold_ms;
    lock->label_len = request->label_len;
    memcpy(lock->label, request->label, request->label_len);
    lock->cause = cause;
    ticket_begin_attempt(core, lock, request);
    return lock;
}

/* R1: all masters at once. */
static void ask_all(struct core *core, struct lock *lock, enum op op)
{
    struct group *group = lock_group(core, lock);
    round_begin(&lock->round, op, group->config.masters, lock->quorum, group->up, core->now,
                group->config.node_timeout_ms);
    timers_set(&core->timers, &lock->timer, lock->round.deadline);
    if (round_verdict(&lock->round) == VERDICT_OPEN) {
        lock->written = group->up;
        lock->lease_until = instant_after_ms(core->now, lock_lease_ms(lock));
        outbox_send(core, lock, op, group->up);
    } else {
        decide(core, lock); /* too few masters are up: nothing was written, nothing is to be undone */
    }
}

void attempt_begun(struct core *core, struct key *key, struct request *request, enum cause cause)
{
    key->handovers = 0;
    ask_all(core, lock_for(core, key, request, cause), OP_ACQUIRE);
}

void attempt_inherited(struct core *core, struct key *key, struct request *request, struct lock *predecessor)
{
    struct lock *lock = lock_for(core, key, request, CAUSE_HANDOVER);
    lock->previous = predecessor->token;
    lock->predecessor = lock_ref(predecessor);
    ask_all(core, lock, OP_HANDOVER);
}

static uint32_t clipped_ms(int64_t ms)
{
    return ms < 0 || ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* D5.3: it has no vote yet; the answer says for how long. */
static void heard_guard(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    struct master *master = &lock_group(core, lock)->masters[reply->master];
    lock->held_ms[reply->master] = clipped_ms(reply->pttl_ms);
    master->guarded_until = reply->pttl_ms < 0 ? INSTANT_NEVER : instant_after_ms(core->now, reply->pttl_ms);
}

static void heard_holder(struct lock *lock, const struct event_reply *reply)
{
    struct key *key = lock->key;
    lock->held_ms[reply->master] = clipped_ms(reply->pttl_ms);
    key->last_holder_len = (uint8_t)(reply->holder.len <= LIMIT_LABEL_BYTES ? reply->holder.len : LIMIT_LABEL_BYTES);
    if (key->last_holder_len > 0)
        memcpy(key->last_holder, reply->holder.at, key->last_holder_len);
}

/* What the first phase tells besides its vote: how long a round trip takes, and how many agents wait for the key (R9). */
static void heard_in_time(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    struct group *group = lock_group(core, lock);
    group->round_trip_us += (instant_us_between(lock->round.started, core->now) - group->round_trip_us) / SMOOTHING;
    if (reply->op == OP_HANDOVER && reply->vote == VOTE_YES)
        lock->key->channel.agents = reply->agents;
}

void attempt_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    struct round *round = &lock->round;
    if (reply->op != OP_RAISE && reply->vote == VOTE_NOT_SENT)
        lock->written &= (master_set)~set_of(reply->master);
    if (reply->ref.round != round->number || reply->op != round->op)
        return; /* a late word on an earlier phase decides nothing */
    if (round_wants_rerun(round, reply->master, reply->vote)) {
        outbox_send(core, lock, round->op, set_of(reply->master));
        return;
    }
    if (MUTANT(T0_STAMPED_LATE) && round->op != OP_RAISE && (round->yes | round->no | round->failed) == 0)
        lock->acquired_at = core->now;
    if (round->op != OP_RAISE)
        heard_in_time(core, lock, reply);
    if (reply->vote == VOTE_YES && round->op != OP_RAISE)
        fence_heard(lock, reply->master, reply->fence);
    if (reply->vote == VOTE_HELD && reply->ticket != 0)
        ticket_heard(core, lock, reply->ticket);
    if (reply->vote == VOTE_HELD || reply->vote == VOTE_FOREIGN)
        heard_holder(lock, reply);
    if (reply->vote == VOTE_GUARDED)
        heard_guard(core, lock, reply);
    if (reply->vote == VOTE_FOREIGN)
        outbox_trace(core, (struct effect_trace){.kind = TRACE_FOREIGN, .master = reply->master}, lock);
    round_vote(round, reply->master, reply->vote);
    decide(core, lock);
}

/* R3: the masters' time is up; who has not answered is unknown. */
void attempt_timer(struct core *core, struct lock *lock)
{
    round_close(&lock->round);
    decide(core, lock);
}

void attempt_abandoned(struct core *core, struct lock *lock)
{
    ticket_forgotten(lock);
    release_undone(core, lock, /* except= */ lock->round.op == OP_RAISE ? 0 : lock->round.no);
}
