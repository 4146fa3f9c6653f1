/* Releases: the DELETE of a lock that this agent holds, or of one that it does not know. Every
 * release compares the token on the master (R10). A release that a master has not confirmed when
 * the round is decided stays owed (debt.c). */
#include "internal.h"

#include "core_assert.h"

/* Returns true if the master need not be asked again. A master without a vote confirms nothing, but
 * it has looked for the token, which is enough after the deletion by a quorum (R6). */
static bool is_definite(const struct lock *lock, enum vote vote)
{
    bool has_looked =
        vote == VOTE_GUARDED && lock->state == LOCK_ENDED && lock->pending->is_confirmed;
    return has_looked || vote == VOTE_YES || vote == VOTE_ABSENT || vote == VOTE_TAKEN ||
           vote == VOTE_FOREIGN || vote == VOTE_MOVED || vote == VOTE_MISNUMBERED;
}

/* Returns true if no agent can have the hold any more (R6). A master without the key proves
 * nothing: another agent may have adopted the hold, and may repair that key by an earlier proof
 * (R7). So this release must have deleted the key on a quorum, or all masters have answered. */
static bool is_gone_for_good(const struct lock *lock)
{
    return set_size(lock->pending->deleted & lock->round.yes & (master_set)~lock->moved) >=
               lock->quorum ||
           (lock->round.yes & (master_set)~lock->moved) == set_first(lock->round.total) ||
           MUTANT(ABSENT_IS_RELEASED);
}

/* Answers the release of a known lock when a quorum of masters has confirmed it; otherwise it is
 * noted. For an unknown lock only masters count that had exactly the token. */
static void release_decided(struct core *core, struct lock *lock, enum verdict verdict)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING && verdict != VERDICT_OPEN);
    enum answer answer = ANSWER_RELEASED;
    if (lock->stranger && verdict == VERDICT_LOST) {
        answer = ANSWER_QUORUM_UNAVAILABLE;
        if (round_denies(&lock->round) || MUTANT(SILENCE_IS_LOSS))
            answer = lock->reason != REASON_NONE ? ANSWER_LOCK_LOST
                     : lock->pending->strange != 0 || round_has_other(&lock->round)
                         ? ANSWER_TOKEN_MISMATCH
                         : ANSWER_NOT_HELD;
    } else if (verdict == VERDICT_LOST) {
        answer = ANSWER_RELEASE_PENDING;
    } else if (!lock->given_back && !is_gone_for_good(lock)) {
        answer = ANSWER_QUORUM_UNAVAILABLE; /* Another agent may have it (D3.4). */
    } else if (lock->reason != REASON_NONE && !lock->stranger) {
        answer = ANSWER_LOCK_LOST; /* It was lost, and no other agent has it either (C4). */
    }
    if (lock->stranger && verdict == VERDICT_WON)
        outbox_trace(core, (struct effect_trace){.kind = TRACE_RELEASED, .elapsed_us = -1}, lock);
    requests_answer_round(core, lock, answer);
    lock->pending->is_confirmed = verdict == VERDICT_WON;
    lock->pending->is_proved = lock->stranger && verdict == VERDICT_WON;
    if (!lock->pending->is_proved) {
        /* No quorum shows that the token is right, so masters that have it with another number are
         * owed nothing. */
        for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
            if (set_has(lock->pending->misnumbered, m))
                debt_paid(core, lock, m);
        lock->pending->misnumbered = 0;
    }
    master_set owed = lock->owed;
    if (!lock->given_back && !is_gone_for_good(lock) && !MUTANT(OWN_RELEASE_IS_LAST)) {
        /* A DELETE by its idempotency key must not be taken for one of an unknown key (D3.5). */
        lock->pending->may_live = lock_metadata(lock)->idempotency.len > 0;
        lock->pending->forget_at = instant_after_ms(core->now, REMEMBER_LOST_MS);
    }
    lock->pending->owed_at = instant_after_ms(core->now, OWED_RETRY_MS);
    if (lock->pending->misnumbered != 0 && lock->pending->is_proved)
        lock->pending->owed_at = core->now; /* They are now asked to delete it with any number. */
    ticket_forgotten(lock);
    if (lock->handed_over)
        lock->round.asked = 0; /* It has sent no release itself, so one may be sent. */
    lock_end(core, lock);
    CORE_ASSERT(lock->owed == owed);
    debt_settled(core, lock);
}

/* The release that a holder asked for, or waits for, is confirmed only if the hold is gone for
 * good. */
static enum verdict verdict_on_known(const struct lock *lock)
{
    enum verdict verdict = round_verdict(&lock->round);
    bool is_asked = lock->given_back || !list_is_empty(&lock->requests);
    if (verdict != VERDICT_WON || !is_asked || is_gone_for_good(lock))
        return verdict;
    if (round_pending(&lock->round) != 0)
        return VERDICT_OPEN;
    return lock->given_back ? VERDICT_LOST : VERDICT_WON; /* release_decided() tells them apart. */
}

static void decide_release(struct core *core, struct lock *lock)
{
    enum verdict verdict =
        lock->stranger ? round_verdict_on_token(&lock->round) : verdict_on_known(lock);
    if (verdict != VERDICT_OPEN)
        release_decided(core, lock, verdict);
}

static void begin_release(struct core *core, struct lock *lock, enum op counted_as)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING);
    CORE_ASSERT(lock->owed == 0);
    struct group *group = lock_group(core, lock);
    if (lock->adopted || lock->given_back) /* Other agents may have asked for a longer lease
                                            * (R6). */
        lock->lease_until =
            instant_max(lock->lease_until, instant_after_ms(core->now, core->max_ttl_ms));
    debt_add(core, lock, lock->written);
    round_begin(&lock->round, counted_as, group->config.masters, lock->quorum, group->up, core->now,
                release_timeout_ms(core, lock));
    timers_set(&core->timers, timer_of_lock(lock), lock->round.deadline);
}

/* Sends the release to all masters that are up, even if they do not seem to have the key. */
static void ask_to_delete(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING);
    master_set up = lock_group(core, lock)->up;
    if (up != 0)
        outbox_gather(core, lock, OP_RELEASE, up);
}

void release_begun(struct core *core, struct lock *lock, struct core_request *request, bool asked)
{
    CORE_ASSERT(lock->state == LOCK_HELD || lock->state == LOCK_LOST);
    struct key *key = lock->key;
    enum mode mode = lock->terms.mode;
    key_refer(core, key);
    if (lock->state == LOCK_HELD) {
        outbox_trace(
            core,
            (struct effect_trace){.kind = TRACE_RELEASED,
                                  .elapsed_us = instant_us_between(lock->acquired_at, core->now)},
            lock);
    }
    confirm_hold_ended(core, lock, asked ? ANSWER_SUPERSEDED : ANSWER_DRAINING);
    /* Without a DELETE another agent may have the lock (D3.4). */
    requests_answer(core, &lock->requests, asked ? ANSWER_NOT_HELD : ANSWER_QUORUM_UNAVAILABLE,
                    REASON_NONE);
    bool may_hand_over = lock_is_held(core, lock) && key_has_slot(key, &lock->token);
    struct core_request *next_holder = may_hand_over ? wake_next_holder(core, key) : NULL;
    lock->renewing = lock->claiming = false;
    lock->moved = 0; /* It is of the last renewal. */
    lock->given_back = asked;
    lock_set_state(core, lock, LOCK_RELEASING);
    outbox_hold(core, lock);
    if (request != NULL) {
        request->state = REQUEST_RELEASING;
        list_append(&lock->requests, &request->link);
    }
    begin_release(core, lock, OP_RELEASE);
    lock->handed_over = next_holder != NULL;
    if (next_holder != NULL) {
        attempt_inherited(core, key, next_holder, lock);
    } else {
        ticket_released(core, lock);
        ask_to_delete(core, lock);
    }
    decide_release(core, lock);
    if (next_holder == NULL)
        key_freed(core, key, mode);
    key_release(core, key);
}

void release_inherited(struct core *core, const struct lock *next_holder,
                       const struct event_reply *reply)
{
    CORE_ASSERT(reply->op == OP_HANDOVER);
    struct lock *lock = lock_by_ref(core, next_holder->predecessor);
    if (lock == NULL || (lock->state != LOCK_RELEASING && lock->state != LOCK_ENDED) ||
        reply->vote == VOTE_NOT_RUN)
        return;
    struct event_reply released = *reply;
    released.op = OP_RELEASE;
    /* The token is gone, even if replicas have it (R21). */
    bool is_handed = reply->vote == VOTE_YES || reply->vote == VOTE_UNREPLICATED,
         is_guarded = is_handed && reply->occupant.left_ms > 0;
    if (reply->vote == VOTE_TAKEN && !reply->is_deleted && !lock->given_back)
        released.vote = VOTE_MOVED; /* It may be this token, for another agent (D3.4). */
    else if (is_guarded && lock_release_may_answer(lock))
        released.vote = VOTE_GUARDED; /* Another agent may still have the token (D3.4). */
    else if (is_handed || (reply->vote == VOTE_GUARDED && !lock_release_may_answer(lock)))
        released.vote = VOTE_ABSENT; /* The master has looked for the token first. */
    released.is_deleted = (reply->is_deleted && !is_guarded) || MUTANT(HANDED_IS_DELETED);
    if (MUTANT(HANDOVER_BELIEVED))
        released.vote = VOTE_YES;
    release_reply(core, lock, &released);
}

void release_of_stranger(struct core *core, struct key *key, struct core_request *request,
                         const struct token *token, bool fencing, enum reason reason)
{
    CORE_ASSERT(request->key == key && request->state == REQUEST_BEGUN);
    if (fencing && token->fence == 0) {
        /* No grant has such a token. */
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
        return;
    }
    struct lock *lock = lock_new(core, key, LOCK_RELEASING, MODE_WRITE);
    if (lock == NULL) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    request->state = REQUEST_RELEASING;
    list_append(&lock->requests, &request->link);
    lock->token = *token;
    lock->fencing = fencing;
    lock_index_token(core, lock);
    lock->stranger = lock->given_back = true;
    lock->reason = reason;
    lock->written = set_first(core->groups[lock->group].config.masters);
    lock->lease_until = instant_after_ms(core->now, core->max_ttl_ms);
    begin_release(core, lock, /* counted_as= */ OP_ADOPT);
    ask_to_delete(core, lock);
    decide_release(core, lock);
}

void release_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING || lock->state == LOCK_ENDED);
    CORE_ASSERT(reply->master < core->groups[lock->group].config.masters);
    if (reply->op != OP_RELEASE)
        return;
    bool is_open = lock->state == LOCK_RELEASING;
    bool is_other = reply->vote == VOTE_MISNUMBERED,
         may_be_right = is_other && (!lock->stranger || is_open || lock->pending->is_proved);
    if (is_definite(lock, reply->vote) && !may_be_right)
        debt_paid(core, lock, reply->master);
    if (is_open && (reply->vote == VOTE_YES || reply->is_deleted))
        lock->pending->deleted |= set_of(reply->master);
    if (reply->vote == VOTE_MOVED)
        lock->moved |= set_of(reply->master);
    struct event_reply heard = *reply;
    bool is_denial =
        reply->vote == VOTE_ABSENT || reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN;
    if (lock->stranger && is_denial && set_has(lock->pending->doubtful, reply->master))
        heard.vote = VOTE_UNKNOWN; /* The command before may have deleted it (C4). */
    if (reply->vote == VOTE_UNKNOWN)
        lock->pending->doubtful |= set_of(reply->master);
    if (reply->vote == VOTE_BY_SCRIPT)
        outbox_refused(core, lock->key); /* An agent waits for it, or the values differ. */
    enum taken taken = round_take(&lock->round, &heard);
    bool is_wanted = lock->state == LOCK_RELEASING || set_has(lock->owed, reply->master);
    if (taken == TAKEN_RERUN && is_wanted) {
        outbox_send(core, lock, OP_RELEASE, set_of(reply->master));
        return;
    }
    if (taken == TAKEN_VOTE && (heard.vote == VOTE_TAKEN || heard.vote == VOTE_FOREIGN))
        lock->pending->strange |= set_of(reply->master);
    if (may_be_right && !is_open && lock->stranger)
        lock->pending->owed_at = core->now;
    if (taken == TAKEN_VOTE && is_other && is_open && lock->stranger)
        fence_heard_other(lock, reply->master, reply->fence);
    if (lock->state == LOCK_RELEASING)
        decide_release(core, lock);
    else
        debt_settled(core, lock);
}

/* Sends the release again to masters that are up again after their connection ended without a reply
 * (R6). */
static void ask_again(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING);
    struct round *round = &lock->round;
    master_set targets = lock->owed & lock_group(core, lock)->up &
                         (master_set) ~(round_pending(round) | lock->pending->misnumbered);
    round_reopen(round, targets);
    timers_set(&core->timers, timer_of_lock(lock), round->deadline);
    if (targets != 0)
        outbox_gather(core, lock, OP_RELEASE, targets);
}

void release_timer(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING);
    if (instant_before(core->now, lock->round.deadline)) {
        ask_again(core, lock);
        return;
    }
    round_close(&lock->round);
    decide_release(core, lock);
}
