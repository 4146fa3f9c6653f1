/* Adoption: a PUT with a token that this agent does not know, because it restarted or because the
 * caller uses several agents (D3.4).
 *
 * A master counts only if its value has the random part and exactly the token's fencing number. No
 * key is created after the validity that it was created for (outbox.c). So a quorum of such masters
 * proves that no other caller held the lock in between. The same random part with another number
 * proves nothing, unless a quorum has it: a master that was not needed for the grant may not know
 * the grant's number. An adoption creates no key.
 *
 * A token is one hold, for every caller that presents it. Masters keep it for the longest lease
 * that any agent asked for. The value on a master names one agent.
 * Each adoption writes its own name. Only the named agent renews and repairs the key, and releases
 * it without a request of the holder. Other agents get the reply `moved`.
 *   1. No other token is granted before the last validity that any agent has reported for this one
 *      is over, unless it was released by DELETE. An earlier agent does not change keys that do
 *      not name it, and an adopted hold runs out at its end and is never released then.
 *   2. At most one agent is confirmed by a quorum, because a master names one agent. If several
 *      agents adopt at once, each answer of 200 is right, as if the PUTs had come one after the
 *      other. An agent that no quorum names in the end extends nothing any more. It reports `lost`
 *      (taken) or lets its validity end. Until then several agents may report the same token; it is
 *      the same hold.
 *   3. A request of the holder works at any agent. A PUT at an agent that has lost the hold adopts
 *      it back. A DELETE compares the random part, and the number if the agent does not have the
 *      hold.
 * An adoption that fails may have written its name on some masters. These deny the former agent,
 * and the next PUT at any agent decides. */
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

/* Returns true if the masters were asked before the key was granted at this agent: then the token
 * was released since. A read held here proves nothing about a token that may be another read's,
 * because both can be held. */
static bool is_outdated(const struct core *core, const struct lock *lock)
{
    const struct lock *holder = key_obstacle(lock->key, lock->terms.mode, &lock->token);
    if (holder == NULL || !lock_is_held(core, holder))
        return false;
    /* Until a master reports its entry, the token may be a read's or a write's (R17). */
    bool is_mode_unknown =
        lock->key->form == FORM_SHARED && lock->round.yes == 0 && !MUTANT(ADOPT_UNHEARD_WRITES);
    if (holder->terms.mode == MODE_READ && is_mode_unknown)
        return false;
    /* A read carries the number of the write before it (R19). */
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
        answer = lock->pending->strange != 0 || round_has_other(&lock->round)
                     ? ANSWER_TOKEN_MISMATCH
                     : ANSWER_NOT_HELD;
    /* Only the masters know whether another agent has it now (C4). */
    if (lock->reason != REASON_NONE &&
        (answer != ANSWER_QUORUM_UNAVAILABLE || MUTANT(SILENCE_IS_LOSS)))
        answer = ANSWER_LOCK_LOST;
    requests_answer_round(core, lock, answer);
    lock_free(core, lock);
}

/* Removes this agent's earlier records of the hold: it is not lost any more, and may not be
 * released for that. A request that names the token must find the adopted hold. Owners may have
 * given shares of it back meanwhile (R11). */
static void forget_lost(struct core *core, struct lock *adopted)
{
    CORE_ASSERT(adopted->state == LOCK_ADOPTING);
    const struct token *token = &adopted->token;
    struct lock *next = lock_index_next(core, adopted->key, token, NULL);
    while (next != NULL) {
        struct lock *lock = next;
        next = lock_index_next(core, adopted->key, token, lock);
        if (lock->state != LOCK_ENDED || (lock->reason == REASON_NONE && !lock->pending->may_live))
            continue;
        if (!lock->stranger && !lock->terms.bound)
            adopted->terms.count = lock->terms.count;
        lock_free(core, lock);
    }
}

/* Ends this agent's attempt or hold of the key, because a quorum has the adopted token: an attempt
 * here cannot win, and a hold here was released at another agent. */
static void make_way(struct core *core, struct key *key, const struct lock *adopted)
{
    CORE_ASSERT(key->references > 0);
    holds_make_way(core, key, adopted);
    /* The end of the hold may have begun an attempt. Attempts of readers are refused by the
     * masters. */
    struct lock *attempt = key_obstacle(key, MODE_READ, &adopted->token);
    if (attempt == NULL)
        return;
    uint32_t contender = attempt->pending->contender;
    attempt_abandoned(core, attempt);
    if (core->draining && contender != NO_REQUEST) /* No other attempt comes: it is refused. */
        timers_set(&core->timers, timer_of_request(core, &core->requests[contender]), core->now);
}

static void adoption_won(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING);
    struct key *key = lock->key;
    struct instant from = lock->round.started;
    bool is_over = !instant_before(
        core->now, deadline_of_validity(core, lock->group, from, lock->terms.ttl_ms));
    if (is_over || core->ending || is_outdated(core, lock)) {
        adoption_lost(core, lock);
        return;
    }
    make_way(core, key, lock);
    forget_lost(core, lock);
    lock->reason = REASON_NONE;
    lock->adopted = lock->delivered = true; /* Its caller has the token already. */
    lock->lease_until = instant_after_ms(core->now, lock_lease_ms(lock));
    if (lock->terms.mode == MODE_READ)
        lock->lock_delay_ms = 0; /* R17. This round has asked for it, as the mode was not known. */
    hold_begun(core, lock, from);
    outbox_trace(core, (struct effect_trace){.kind = TRACE_GRANTED, .answer = ANSWER_RENEWED},
                 lock);
    struct link *next;
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = next) {
        next = at->next;
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        if (request->wants_round > lock->round.number)
            continue; /* It came later: a further round confirms the hold, with its terms. */
        struct effect_answer answer = answer_for_lock(ANSWER_RENEWED, lock);
        answer.adopted = true;
        /* Holds of Java have no number (R22). */
        answer.continuous = lock->fencing && lock->key->form != FORM_REDISSON;
        request_answer(core, request, answer);
    }
    queue_attempt_won(core, key, lock); /* Requests that contend here learn that the key is held. */
    if (!list_is_empty(&lock->requests))
        watchdog_renew_again(core, lock);
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

/* Takes over the parts of the same hold that its holder knows and may use again (R11, D3.5). The
 * ttl is that of the PUT, and max_hold begins anew. `lost` may have made room for another ended
 * lock in this step: its slot is used again only after the step. */
static void take_from_lost(struct core *core, struct lock *lock, const struct lock *lost)
{
    CORE_ASSERT(lost->state == LOCK_LOST || lost->state == LOCK_ENDED);
    lock->terms = lost->terms;
    struct metadata metadata = lock_metadata_copy(lost);
    lock_keep_metadata(core, lock, &metadata);
    if (lost->terms.bound)
        lock->terms.count = 1; /* The streams of all shares have said that it is lost (R11). */
    lock->terms.bound = false; /* The connection has ended, or the caller has left it. */
    lock->reason = lost->reason;
    lock->moved = lost->moved;
}

/* Cancels releases of the token that are still owed, because the PUT is its holder's latest
 * request. Returns the masters on which an earlier release may still be in flight. Such a release
 * would delete the adopted key. A release on a connection that is still up arrives before the
 * question (R5). */
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
        doubtful |= lock->pending->doubtful;
        debt_left_off(core, lock);
    }
    return doubtful;
}

/* Begins the adoption. `lost`: this agent's earlier record of the hold, or NULL. */
static void begin_adoption(struct core *core, struct key *key, struct core_request *request,
                           const struct token *token, const struct lock *lost)
{
    CORE_ASSERT(request->key == key && request->state == REQUEST_BEGUN);
    request->state = REQUEST_RENEWING;
    struct lock *lock = adoption_of(core, key, token);
    if (lock != NULL) {
        /* The lock may have another delay than the record of its loss (R15). */
        struct effect_answer refusal;
        if (request->terms.ttl_ms != 0 && !policy_allows_ttl_of(core, lock, request->terms.ttl_ms,
                                                                request->terms.renew, &refusal)) {
            request_answer(core, request, refusal);
            return;
        }
        list_append(&lock->requests, &request->link);
        request_awaits_next_round(lock, request);
        return;
    }
    bool numbered = token->fence != 0 && !fence_is_wild(core, key->group, token->fence),
         fencing = lost != NULL ? lost->fencing : core->policies[key->policy].fencing;
    if (fencing && !numbered) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
        return;
    }
    /* The mode is not known yet; a write is assumed. */
    lock = lock_new(core, key, LOCK_ADOPTING, MODE_WRITE);
    if (lock == NULL) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct group *group = lock_group(core, lock);
    lock->token = *token;
    lock->fencing = fencing;
    if (lost != NULL)
        take_from_lost(core, lock, lost);
    lock_index_token(core, lock);
    lock_index_secret(core, lock);
    if (request->terms.ttl_ms != 0)
        lock->terms.ttl_ms = request->terms.ttl_ms;
    lock->asked_ttl_ms = lock->terms.ttl_ms;
    policy_fit_lock_delay(core, lock); /* The hold may be older than the policy (R15). */
    lock->relabels = request->metadata.label_len > 0;
    if (lock->relabels)
        label_set(core, lock, metadata_label(&request->metadata));
    lock->terms.renew = request->terms.renew == RENEW_UNSET ? RENEW_CALLER : request->terms.renew;
    /* The lease of the hold is not known. */
    lock->lease_until = instant_after_ms(core->now, core->max_ttl_ms);
    lock->written = lock->unheard = set_first(group->config.masters);
    lock->uncounted = form_is_native(key->form) ? lock->written : 0;
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

/* Ends adoptions of the token, because a DELETE deletes the key on masters that may have confirmed
 * it before. */
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

void adoption_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING);
    CORE_ASSERT(reply->master < lock->round.total);
    if (!outbox_takes(core, lock, reply))
        return;
    if (reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN)
        lock->pending->strange |= set_of(reply->master);
    if (reply->vote == VOTE_MISNUMBERED)
        fence_heard_other(lock, reply->master, reply->fence);
    if (reply->vote == VOTE_YES && lock->key->form == FORM_SHARED) {
        /* The mode is in the master's entry (R17). */
        CORE_ASSERT(reply->op == OP_ADOPT);
        lock->terms.mode = reply->occupant.mode;
    }
    decide_adoption(core, lock);
}

/* Asks again if a master's clock gained on ours, because earlier replies do not count (R14). */
static void ask_anew(struct core *core, struct lock *lock)
{
    struct group *group = lock_group(core, lock);
    master_set asked = lock->round.asked & group->up;
    lock->is_void = false;
    lock->pending->misnumbered = 0;
    lock->label_votes = 0;
    round_begin(&lock->round, OP_ADOPT, group->config.masters, lock->quorum, asked, core->now,
                slow_timeout_ms(core, lock));
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        if (request->wants_round != 0) /* It has joined, and may name other terms. */
            request_awaits_next_round(lock, request);
    }
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
