/* One attempt at a lock: ask all masters at once (R1), number the grant (R12), check what validity
 * is left (R4), or undo (R5). */
#include "attempt.h"

#include <string.h>

#include "admission.h"
#include "core_assert.h"
#include "deadline.h"
#include "debt.h"
#include "fence.h"
#include "hold.h"
#include "key_table.h"
#include "lock_index.h"
#include "lock_table.h"
#include "lock_words.h"
#include "outbox.h"
#include "policy.h"
#include "reentry.h"
#include "requests.h"
#include "slot.h"
#include "ticket.h"
#include "wait_queue.h"
#include "wake.h"

enum {
    SMOOTHING = 8,
    HEARING_US = 1000, /* for what lies unread then: one turn of the loop */
};

static void take_random(struct core *core, struct token *token)
{
    CORE_ASSERT(core->entropy.left >= RANDOM_BYTES);
    core->entropy.left -= RANDOM_BYTES;
    memcpy(token->random, core->entropy.bytes + core->entropy.left, RANDOM_BYTES);
    memset(core->entropy.bytes + core->entropy.left, 0, RANDOM_BYTES);
}

static struct core_request *contender_of(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->errand->contender == NO_REQUEST ||
                lock->errand->contender < core->requests_max);
    return lock->errand->contender == NO_REQUEST ? NULL : &core->requests[lock->errand->contender];
}

/* R9: when as many of `masters` have let go of the other holders' leases, or of their guard, as
 * make a quorum with those that may be free now: the time after which a retry can win. Who has not
 * answered yet may be; if all were waited for, one that has another contender's key, which is
 * undone at once, would make it a whole ttl. */
static int64_t free_in_ms(const struct lock *lock, master_set masters)
{
    CORE_ASSERT((masters & ~set_first(lock->round.total)) == 0);
    const struct round *round = &lock->round;
    uint32_t sorted[LIMIT_MASTERS];
    size_t count = 0, free_now = set_size(round->yes | round_pending(round));
    CORE_ASSERT(free_now < round->quorum);
    for (uint8_t m = 0; m < round->total; m++) {
        uint32_t busy_ms = lock->errand->denials[m].busy_ms;
        if (!set_has(masters, m) || busy_ms == UINT32_MAX)
            continue; /* who does not say when, a foreign key for one, is not waited for */
        size_t i = count++;
        for (; i > 0 && sorted[i - 1] > busy_ms; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = busy_ms;
    }
    size_t needed = round->quorum - free_now;
    if (count == 0)
        return -1;
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
    CORE_ASSERT(lock_is_attempt(lock));
    CORE_ASSERT(answer != ANSWER_GRANTED);
    struct key *key = lock->key;
    struct core_request *contender = contender_of(core, lock);
    key->contest->last_answer = answer;
    key->contest->last_failed_at = core->now;
    key->contest->last_retry_ms = answer == ANSWER_LOCK_HELD ? free_in_ms(lock, lock->round.no)
                                  : answer == ANSWER_QUORUM_UNAVAILABLE ? guard_ends_in_ms(lock)
                                                                        : -1;
    key->contest->last_refused_by = lock->round.no;
    key->contest->last_guarded = lock->round.guarded;
    key->contest->last_mode = lock->errand->others_mode;
    key->contest->last_readers = lock->errand->others;
    if (answer != ANSWER_LOCK_HELD)
        key->contest->last_holder_len = 0;
    ticket_attempt_failed(core, lock, answer);
    bool has_more = answer == ANSWER_LOCK_HELD && slot_refused(lock);
    bool goes_on = has_more && !core->draining;
    if (has_more && core->draining)
        key->contest->last_answer = ANSWER_DRAINING; /* another slot may be free */
    enum cause cause = lock->cause;
    enum mode mode = lock->terms.mode;
    debt_begun(core, lock, /* except= */ lock->round.op == OP_RAISE ? 0 : lock->round.no);
    if (goes_on)
        admission_awaited(core, key, cause);
    else if (key->permits == 1 || !key_is_contended(key))
        queue_attempt_failed(core, key, contender, mode);
}

static void attempt_granted(struct core *core, struct lock *lock, struct instant from)
{
    CORE_ASSERT(lock_is_attempt(lock));
    CORE_ASSERT(!instant_before(core->now, from));
    struct key *key = lock->key;
    struct core_request *request = contender_of(core, lock);
    CORE_ASSERT(request != NULL && request->key == key);
    struct tally tally = round_tally(&lock->round);
    struct instant begun = lock->acquired_at;
    key->contest->last_tally = tally;
    if (MUTANT(VALIDITY_FROM_REPLY))
        from = core->now;
    if (!instant_before(core->now,
                        deadline_of_validity(core, lock->group, from, lock->terms.ttl_ms))) {
        outbox_trace(core,
                     (struct effect_trace){.kind = TRACE_ATTEMPT,
                                           .answer = ANSWER_VALIDITY_EXPIRED,
                                           .elapsed_us = instant_us_between(begun, core->now)},
                     lock);
        attempt_failed(core, lock, ANSWER_VALIDITY_EXPIRED);
        return;
    }
    ticket_granted(lock);
    hold_begun(core, lock, from);
    outbox_trace(core,
                 (struct effect_trace){.kind = TRACE_ATTEMPT,
                                       .answer = ANSWER_GRANTED,
                                       .elapsed_us = instant_us_between(begun, core->now)},
                 lock);
    outbox_trace(
        core,
        (struct effect_trace){.kind = TRACE_GRANTED,
                              .answer = ANSWER_GRANTED,
                              .attempts = lock->token.permit == 0 ? 0 : slot_attempts(lock),
                              .elapsed_us = instant_us_between(request->came_at, core->now)},
        lock);
    request_answer(core, request, answer_for_lock(ANSWER_GRANTED, lock));
    reentry_admit(core, lock);
    queue_attempt_won(core, key, lock);
}

/* The grant's number is known. Raise it where it is not stored yet, on masters that hold the token,
 * unless a quorum stores it. */
static void attempt_numbered(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING && lock->fencing);
    CORE_ASSERT(lock->errand->fence_max != 0);
    struct instant from = lock->acquired_at;
    lock->token.fence = lock->errand->fence_max;
    master_set granted = lock->round.yes, stored = lock->errand->at_max;
    bool reads = lock->terms.mode == MODE_READ;
    if (set_size(stored) >= lock->quorum || MUTANT(ONE_PHASE_FENCE) ||
        (reads && MUTANT(READ_NOT_RAISED))) {
        attempt_granted(core, lock, from);
        return;
    }
    lock_set_state(core, lock, LOCK_RAISING);
    struct group *group = lock_group(core, lock);
    master_set asked = granted & (master_set)~stored & group->up;
    round_begin(&lock->round, OP_RAISE, group->config.masters, lock->quorum, asked | stored,
                core->now, group->config.node_timeout_ms);
    lock->round.yes = stored;
    if (asked != 0)
        outbox_send(core, lock, OP_RAISE, asked);
    timers_set(&core->timers, timer_of_lock(lock), lock->round.deadline);
}

static void attempt_lost(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock));
    struct round *round = &lock->round;
    lock->key->contest->last_tally = round_tally(round);
    enum answer answer = round_lost_to_holder(round) ? ANSWER_LOCK_HELD : ANSWER_QUORUM_UNAVAILABLE;
    outbox_trace(
        core,
        (struct effect_trace){.kind = TRACE_ATTEMPT,
                              .answer = answer,
                              .elapsed_us = instant_us_between(lock->acquired_at, core->now)},
        lock);
    attempt_failed(core, lock, answer);
}

static void decide_attempt(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock) && lock->link.next != NULL);
    enum verdict verdict = round_verdict(&lock->round);
    if (lock->state == LOCK_ACQUIRING && verdict != VERDICT_OPEN)
        admission_decided(core, lock);
    switch (verdict) {
    case VERDICT_OPEN:
        return;
    case VERDICT_LOST:
        attempt_lost(core, lock);
        return;
    case VERDICT_WON:
        if (lock->state == LOCK_ACQUIRING && lock->fencing) {
            attempt_numbered(core, lock);
            if (lock->state == LOCK_RAISING)
                decide_attempt(core, lock);
        } else {
            attempt_granted(core, lock,
                            MUTANT(VALIDITY_IGNORES_ELAPSED) ? lock->round.started
                                                             : lock->acquired_at);
        }
        return;
    }
}

/* A lock for what `request` asks, with a token of its own. */
static struct lock *lock_for(struct core *core, struct key *key, struct core_request *request,
                             uint8_t permit, enum cause cause)
{
    CORE_ASSERT(key_obstacle(key, MODE_READ, permit) == NULL);
    CORE_ASSERT(request->state == REQUEST_WAITING || request->state == REQUEST_ONCE);
    CORE_ASSERT(request->terms.ttl_ms > 0 && request->terms.renew != RENEW_UNSET);
    struct lock *lock = lock_new(core, key, LOCK_ACQUIRING, request->terms.mode);
    CORE_ASSERT(lock != NULL);
    take_random(core, &lock->token);
    lock->token.permit = permit;
    lock_index_token(core, lock);
    lock->errand->contender = request->slot;
    request->attempt = lock;
    lock->acquired_at = core->now; /* until it is granted: before the first byte was sent */
    lock->terms = request->terms;
    lock_keep_words(core, lock, &request->words);
    lock_index_secret(core, lock);
    lock->asked_ttl_ms = lock->terms.ttl_ms;
    policy_fit_lock_delay(core, lock); /* the policies may have changed while it waited */
    if (MUTANT(READ_QUORUM_ONE_SHORT) && lock->terms.mode == MODE_READ && lock->quorum > 1)
        lock->quorum--;
    lock->cause = cause;
    ticket_begin_attempt(core, lock, request);
    return lock;
}

/* R1: all masters at once. */
static void ask_masters(struct core *core, struct lock *lock, enum op op)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING);
    CORE_ASSERT(op == OP_ACQUIRE || op == OP_HANDOVER);
    struct group *group = lock_group(core, lock);
    round_begin(&lock->round, op, group->config.masters, lock->quorum, group->up, core->now,
                group->config.node_timeout_ms);
    timers_set(&core->timers, timer_of_lock(lock), lock->round.deadline);
    if (round_verdict(&lock->round) == VERDICT_OPEN) {
        lock->written = lock->unheard = group->up;
        lock->lease_until = instant_after_ms(core->now, lock_lease_ms(lock));
        if (op == OP_ACQUIRE)
            outbox_gather(core, lock, op, group->up);
        else
            outbox_send(core, lock, op, group->up);
    } else {
        /* too few masters are up: nothing was written, nothing is to be undone */
        decide_attempt(core, lock);
    }
}

void attempt_begun(struct core *core, struct key *key, struct core_request *request,
                   enum cause cause)
{
    CORE_ASSERT(request->key == key && key_admits(key));
    key->contest->handovers = 0;
    uint8_t permit = slot_draw(core, key);
    if (slot_search_is_new(key))
        wake_begin_attempt(key);
    struct lock *lock = lock_for(core, key, request, permit, cause);
    admission_begun(core, lock);
    ask_masters(core, lock, OP_ACQUIRE);
}

void attempt_inherited(struct core *core, struct key *key, struct core_request *request,
                       struct lock *predecessor)
{
    CORE_ASSERT(request->key == key && request_attempt(request) == NULL);
    CORE_ASSERT(predecessor->key == key && predecessor->state == LOCK_RELEASING);
    key->contest->admission.waited_us = 0;
    uint8_t permit = predecessor->token.permit;
    if (permit == 0)
        wake_begin_attempt(key);
    struct lock *lock = lock_for(core, key, request, permit, CAUSE_HANDOVER);
    lock->errand->previous = predecessor->token;
    lock->predecessor = lock_ref(predecessor);
    lock->errand->previous_given_back = predecessor->given_back;
    lock->errand->previous_adopted = predecessor->adopted;
    ask_masters(core, lock, OP_HANDOVER);
}

static uint32_t clipped_ms(int64_t ms)
{
    return ms < 0 || ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

/* D5.3: it has no vote yet; the answer says for how long. */
static void heard_guard(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(reply->vote == VOTE_GUARDED);
    struct core_master *master = &lock_group(core, lock)->masters[reply->master];
    lock->errand->denials[reply->master].busy_ms = clipped_ms(reply->pttl_ms);
    master->guarded_until =
        reply->pttl_ms < 0 ? INSTANT_NEVER : instant_after_ms(core->now, reply->pttl_ms);
}

static void heard_holder(struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN);
    struct key *key = lock->key;
    lock->errand->denials[reply->master].busy_ms = clipped_ms(reply->pttl_ms);
    slot_heard(lock, reply->master, reply->taken);
    bool is_least =
        lock->errand->others_mode == MODE_WRITE || reply->readers < lock->errand->others;
    if (reply->mode == MODE_READ && is_least) {
        lock->errand->others_mode = MODE_READ;
        lock->errand->others = reply->readers;
    }
    key->contest->last_holder_len =
        (uint8_t)(reply->holder.len <= LIMIT_LABEL_BYTES ? reply->holder.len : LIMIT_LABEL_BYTES);
    if (key->contest->last_holder_len > 0)
        memcpy(key->contest->last_holder, reply->holder.at, key->contest->last_holder_len);
}

/* What the first phase tells besides its vote: how long a round trip takes, the number that the
 * master stores (R12), and how many agents wait for the key (R9). */
static void heard_first_phase(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING);
    struct group *group = lock_group(core, lock);
    group->round_trip_us +=
        (instant_us_between(lock->round.started, core->now) - group->round_trip_us) / SMOOTHING;
    if (reply->vote == VOTE_YES)
        fence_heard(lock, reply->master, reply->fence);
    bool is_told = reply->vote == VOTE_TAKEN && reply->agents > 0;
    if (is_told || (reply->op == OP_HANDOVER && reply->vote == VOTE_YES))
        lock->key->contest->channel.agents = reply->agents;
}

/* What a reply of the round tells besides its vote. */
static void heard(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    if (lock->round.op != OP_RAISE)
        heard_first_phase(core, lock, reply);
    if (reply->vote == VOTE_TAKEN && reply->ticket != 0)
        ticket_heard(core, lock, reply->master, reply->ticket);
    if (reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN)
        heard_holder(lock, reply);
    if (reply->vote == VOTE_GUARDED)
        heard_guard(core, lock, reply);
    if (reply->vote == VOTE_FOREIGN || reply->vote == VOTE_SPOILED)
        outbox_trace(core,
                     (struct effect_trace){.kind = TRACE_FOREIGN,
                                           .master = reply->master,
                                           .spoiled = reply->vote == VOTE_SPOILED},
                     lock);
}

void attempt_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(lock_is_attempt(lock));
    CORE_ASSERT(reply->master < lock->round.total);
    if (reply->op != OP_RAISE && reply->vote == VOTE_NOT_SENT)
        lock->written &= (master_set)~set_of(reply->master);
    const struct round *round = &lock->round;
    if (reply->op != round->op || !outbox_takes(core, lock, reply))
        return; /* a late word on an earlier phase decides nothing */
    if (MUTANT(T0_STAMPED_LATE) && round->op != OP_RAISE &&
        (round->yes | round->no | round->failed) == set_of(reply->master))
        lock->acquired_at = core->now;
    heard(core, lock, reply);
    decide_attempt(core, lock);
}

/* R3: the masters' time is up; who has not answered is unknown. Where this process is late itself,
 * and was not stopped (R14), what came in time may lie unread: it is heard first, once. */
void attempt_timer(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock));
    bool is_late = instant_us_between(lock->round.deadline, core->now) > TIMER_LATE_US;
    if (is_late && !core->stalled && !lock->round.overtime) {
        lock->round.overtime = true;
        timers_set(&core->timers, timer_of_lock(lock), instant_after_us(core->now, HEARING_US));
        return;
    }
    round_close(&lock->round);
    decide_attempt(core, lock);
}

void attempt_voided(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock) && lock->is_void);
    ticket_attempt_failed(core, lock, ANSWER_LOCK_HELD); /* it keeps its place among the waiters */
    debt_begun(core, lock, /* except= */ lock->round.op == OP_RAISE ? 0 : lock->round.no);
}

void attempt_abandoned(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock));
    ticket_forgotten(lock);
    debt_begun(core, lock, /* except= */ lock->round.op == OP_RAISE ? 0 : lock->round.no);
}
