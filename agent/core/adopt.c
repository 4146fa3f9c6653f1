/* Adoption: a PUT with a token that this agent does not know, because it restarted or because the
 * caller goes to several agents (D3).
 *
 * A master counts only if its value has the random part and exactly the token's fencing number. No
 * key is created after the validity that it was created for (outbox.c), so a quorum of such
 * masters proves that nobody held the lock since. The same random part with another number proves
 * nothing, unless a quorum has it: a master that was not needed for the grant may not know the
 * number that it got. An adoption creates no key.
 *
 * Who owns it: a token is one hold, of whoever presents it, and masters keep it for the longest
 * lease that any agent asked for. The value on a master names one agent, the owner: each adoption
 * writes its own name. Only the owner renews, repairs, and releases what no holder asked to be
 * released; all others are told `moved`.
 *   1. No other token is granted before the last validity that any agent has reported for this one
 *      is over, but after a DELETE: an earlier agent touches nothing of what it does not own, and
 *      an adopted hold is left to run out, never released at its end.
 *   2. At most one agent is confirmed by a quorum, because a master names one. Of several that
 *      adopt at once each that is answered 200 may be the last one or stand before it, as if they
 *      had been asked one after the other; whoever is not named by a quorum in the end extends
 *      nothing any more, and says `lost` (taken) or lets its validity end. Until then several
 *      agents may report the same token; it is the same hold.
 *   3. What a holder asks for works at any agent: a PUT at one that has lost the hold adopts it
 *      back, and a DELETE compares the random part, and the number where the agent does not hold
 *      it.
 * An adoption that fails may have written its name on some masters: they deny the owner before, and
 * the next PUT at any agent decides. */
#include "internal.h"

#include "core_assert.h"

static struct lock *adoption_of(const struct core *core, const struct key *key,
                                const struct token *token)
{
    struct lock *lock = NULL;
    while ((lock = lock_index_next(core, key, token, lock)) != NULL) {
        if (lock->state == LOCK_ADOPTING && lock->token.fence == token->fence)
            return lock;
    }
    return NULL;
}

/* Returns true if no master has said whether the token is a read's or a write's (R17). */
static bool is_mode_unknown(const struct lock *lock)
{
    return lock->key->form == FORM_SHARED && lock->round.yes == 0 && !MUTANT(ADOPT_UNHEARD_WRITES);
}

/* The masters were asked before the key was granted here, so the token was released since. A read
 * here shows nothing of a token that may be another read's, which is held beside it. */
static bool is_outdated(const struct core *core, const struct lock *lock)
{
    const struct lock *holder = key_obstacle(lock->key, lock->terms.mode, lock->token.permit);
    if (holder == NULL || !lock_is_held(core, holder))
        return false;
    if (holder->terms.mode == MODE_READ && is_mode_unknown(lock))
        return false;
    /* a read carries the number of the write before it (R19) */
    uint64_t last = holder->token.fence + (holder->terms.mode == MODE_READ);
    return lock->fencing ? last > lock->token.fence
                         : instant_before(lock->round.started, holder->acquired_at);
}

static void adoption_lost(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING);
    enum answer answer = ANSWER_QUORUM_UNAVAILABLE;
    if (is_outdated(core, lock))
        answer = ANSWER_TOKEN_MISMATCH;
    else if (round_denies(&lock->round))
        answer = lock->errand->strange != 0 || round_has_other(&lock->round) ? ANSWER_TOKEN_MISMATCH
                                                                             : ANSWER_NOT_HELD;
    /* C4: only the masters can tell whether another agent has it now */
    if (lock->reason != REASON_NONE &&
        (answer != ANSWER_QUORUM_UNAVAILABLE || MUTANT(SILENCE_IS_LOSS)))
        answer = ANSWER_LOCK_LOST;
    requests_answer_round(core, lock, answer);
    lock_free(core, lock);
}

/* What is left here of its time before: it is not lost any more, and no release of it may
 * follow. */
static void forget_lost(struct core *core, const struct lock *adopted)
{
    CORE_ASSERT(adopted->state == LOCK_ADOPTING);
    const struct token *token = &adopted->token;
    struct lock *next = lock_index_next(core, adopted->key, token, NULL);
    while (next != NULL) {
        struct lock *lock = next;
        next = lock_index_next(core, adopted->key, token, lock);
        if (lock->state == LOCK_ENDED && lock->reason != REASON_NONE)
            lock_free(core, lock);
    }
}

/* A quorum has the adopted token: an attempt here can not win, and a hold here was released
 * elsewhere before. */
static void make_way(struct core *core, struct key *key, const struct lock *adopted)
{
    CORE_ASSERT(key->references > 0);
    holds_make_way(core, key, adopted);
    /* perhaps one that the hold's end has begun; those who read are refused by the masters */
    struct lock *attempt = key_obstacle(key, MODE_READ, adopted->token.permit);
    if (attempt != NULL)
        attempt_abandoned(core, attempt);
}

static void adoption_won(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING);
    struct key *key = lock->key;
    struct instant from = lock->round.started;
    bool is_over = !instant_before(
        core->now, deadline_of_validity(core, lock->group, from, lock->terms.ttl_ms));
    if (is_over || is_outdated(core, lock)) {
        adoption_lost(core, lock);
        return;
    }
    make_way(core, key, lock);
    forget_lost(core, lock);
    lock->reason = REASON_NONE;
    lock->adopted = lock->delivered = true; /* its caller has the token already */
    lock->lease_until = instant_after_ms(core->now, lock_lease_ms(lock));
    hold_begun(core, lock, from);
    if (!key_admits(key))
        admission_left(core, key);
    outbox_trace(core, (struct effect_trace){.kind = TRACE_GRANTED, .answer = ANSWER_RENEWED},
                 lock);
    struct core_request *request;
    while ((request = request_first(&lock->requests)) != NULL) {
        struct effect_answer answer = answer_for_lock(ANSWER_RENEWED, lock);
        answer.adopted = true;
        /* R22: what others take has no number */
        answer.continuous = lock->fencing && lock->key->form != FORM_REDISSON;
        request_answer(core, request, answer);
    }
    queue_attempt_won(core, key, lock); /* who contended here learns that the key is held */
}

static void decide_adoption(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING);
    switch (round_verdict_on_token(&lock->round)) {
    case VERDICT_OPEN:
        return;
    case VERDICT_WON:
        adoption_won(core, lock);
        return;
    case VERDICT_LOST:
        adoption_lost(core, lock);
        return;
    }
}

/* What its holder knows of it, and may come back to: it is the same hold (R11, D3). The ttl is that
 * of the PUT, and the max_hold begins anew. `lost` may have made room for another ended lock in
 * this step: its slot is used again only after it. */
static void take_from_lost(struct core *core, struct lock *lock, const struct lock *lost)
{
    CORE_ASSERT(lost->state == LOCK_LOST || lost->state == LOCK_ENDED);
    lock->terms = lost->terms;
    lock_keep_words(core, lock, lock_words(lost));
    lock->terms.bound = false; /* its connection has ended, or its caller has left it */
    lock->reason = lost->reason;
    lock->moved = lost->moved;
}

/* A PUT is its holder's latest wish: what earlier releases of the token still owe is not tried
 * again. One that was sent may still run where its fate is unknown, and would delete what is
 * adopted: the masters of which that is true. What is out on a connection that stands is ahead of
 * the question (R5). */
static master_set leave_off_releases(struct core *core, const struct key *key,
                                     const struct token *token)
{
    master_set doubtful = 0;
    struct lock *next = lock_index_next(core, key, token, NULL);
    while (next != NULL) {
        struct lock *lock = next;
        next = lock_index_next(core, key, token, lock);
        if (lock->state != LOCK_ENDED || lock->token.fence != token->fence)
            continue;
        doubtful |= lock->errand->doubtful;
        debt_left_off(core, lock);
    }
    return doubtful;
}

/* `lost`: what this agent had of it before, or NULL. */
static void begin_adoption(struct core *core, struct key *key, struct core_request *request,
                           const struct token *token, const struct lock *lost)
{
    CORE_ASSERT(request->key == key && request->state == REQUEST_BEGUN);
    request->state = REQUEST_RENEWING;
    struct lock *lock = adoption_of(core, key, token);
    if (lock != NULL) {
        list_append(&lock->requests, &request->link);
        return;
    }
    bool numbered = token->fence != 0 && !fence_is_wild(core, key->group, token->fence);
    if (core->policies[key->policy].fencing && !numbered) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
        return;
    }
    lock = lock_new(core, key, LOCK_ADOPTING, MODE_WRITE); /* as far as is known */
    if (lock == NULL) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct group *group = lock_group(core, lock);
    lock->token = *token;
    if (lost != NULL)
        take_from_lost(core, lock, lost);
    lock_index_token(core, lock);
    lock_index_secret(core, lock);
    if (request->terms.ttl_ms != 0)
        lock->terms.ttl_ms = request->terms.ttl_ms;
    lock->asked_ttl_ms = lock->terms.ttl_ms;
    lock->terms.renew = request->terms.renew == RENEW_UNSET ? RENEW_CALLER : request->terms.renew;
    /* who knows what it was taken with */
    lock->lease_until = instant_after_ms(core->now, core->max_ttl_ms);
    lock->written = lock->unheard = set_first(group->config.masters);
    if (lost == NULL)
        admission_guest_adopts(core, lock);
    list_append(&lock->requests, &request->link);
    master_set asked = group->up & (master_set)~leave_off_releases(core, key, token);
    round_begin(&lock->round, OP_ADOPT, group->config.masters, lock->quorum, asked, core->now,
                slow_timeout_ms(core, lock));
    timers_set(&core->timers, timer_of_lock(lock), lock->round.deadline);
    if (asked != 0)
        outbox_send(core, lock, MUTANT(ADOPT_CREATES_KEYS) ? OP_REPAIR : OP_ADOPT, asked);
    decide_adoption(core, lock);
}

bool adoption_is_under_way(const struct core *core, const struct key *key,
                           const struct token *token)
{
    return adoption_of(core, key, token) != NULL;
}

void adoption_begun(struct core *core, struct key *key, struct core_request *request,
                    const struct token *token)
{
    begin_adoption(core, key, request, token, /* lost= */ NULL);
}

void adoption_of_lost(struct core *core, struct lock *lost, struct core_request *request)
{
    CORE_ASSERT(lost->key == request->key);
    CORE_ASSERT(lost->state == LOCK_LOST || lost->state == LOCK_ENDED);
    struct token token = lost->token;
    if (lost->state == LOCK_LOST)
        hold_runs_out(core, lost);
    begin_adoption(core, request->key, request, &token, lost);
}

/* A DELETE deletes on masters that may have said yes before. */
void adoption_released(struct core *core, struct key *key, const struct token *token)
{
    struct lock *next = lock_index_next(core, key, token, NULL);
    while (next != NULL) {
        struct lock *lock = next;
        next = lock_index_next(core, key, token, lock);
        if (lock->state != LOCK_ADOPTING || lock->token.fence != token->fence)
            continue;
        requests_answer_round(core, lock, ANSWER_NOT_HELD);
        lock_free(core, lock);
    }
}

/* R17: what the token is a part of, in the masters' words. */
static void take_from_entry(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING && reply->op == OP_ADOPT);
    struct words words = {0};
    lock->terms.mode = reply->mode;
    if (reply->mode == MODE_READ)
        lock->lock_delay_ms = 0;
    words_set_label(&words, reply->holder);
    if (lock->words == NULL)
        lock_keep_words(core, lock, &words);
}

void adoption_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING);
    CORE_ASSERT(reply->master < lock->round.total);
    if (!outbox_takes(core, lock, reply))
        return;
    if (reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN)
        lock->errand->strange |= set_of(reply->master);
    if (reply->vote == VOTE_MISNUMBERED)
        fence_heard_other(lock, reply->master, reply->fence);
    if (reply->vote == VOTE_YES && lock->key->form == FORM_SHARED)
        take_from_entry(core, lock, reply);
    decide_adoption(core, lock);
}

/* R14: what was asked before a master's clock gained on ours counts for nothing. */
static void ask_anew(struct core *core, struct lock *lock)
{
    struct group *group = lock_group(core, lock);
    master_set asked = lock->round.asked & group->up;
    lock->is_void = false;
    lock->errand->misnumbered = 0;
    round_begin(&lock->round, OP_ADOPT, group->config.masters, lock->quorum, asked, core->now,
                slow_timeout_ms(core, lock));
    timers_set(&core->timers, timer_of_lock(lock), lock->round.deadline);
    if (asked != 0)
        outbox_send(core, lock, OP_ADOPT, asked);
    decide_adoption(core, lock);
}

void adoption_timer(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING);
    if (lock->is_void) {
        ask_anew(core, lock);
        return;
    }
    round_close(&lock->round);
    decide_adoption(core, lock);
}
