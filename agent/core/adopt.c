/* Adoption: a PUT with a token that this agent does not know, because it restarted (D3).
 *
 * A master counts only if it holds the random part and stores exactly the token's fencing number: every grant in
 * between would have raised the number on a quorum, so a quorum of such masters proves that nobody held the lock since.
 * An adoption creates no key. */
#include "core_assert.h"
#include "state.h"

static struct lock *adoption_of(const struct key *key, const struct token *token)
{
    for (struct link *at = key->locks.head.next; at != &key->locks.head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, of_key);
        if (lock->state == LOCK_ADOPTING && lock->token.fence == token->fence && token_same_random(&lock->token, token))
            return lock;
    }
    return NULL;
}

static void adoption_lost(struct core *core, struct lock *lock)
{
    enum answer answer = ANSWER_QUORUM_UNAVAILABLE;
    if (round_lost_to_holder(&lock->round))
        answer = lock->strange != 0 ? ANSWER_TOKEN_MISMATCH : ANSWER_NOT_HELD;
    requests_answer_round(core, lock, answer);
    lock_free(core, lock);
}

static void adoption_won(struct core *core, struct lock *lock)
{
    struct key *key = lock->key;
    struct lock *live = key->live;
    struct instant from = lock->round.started;
    bool expired = !instant_before(core->now, validity_end(core, lock->group, from, lock->ttl_ms));
    if (expired || (live != NULL && (live->state == LOCK_HELD || live->state == LOCK_LOST))) {
        lock->strange |= live != NULL;
        adoption_lost(core, lock);
        return;
    }
    if (live != NULL)
        attempt_abandoned(core, live); /* it can not win: a quorum has the adopted token */
    lock->adopted = true;
    hold_begun(core, lock, from);
    outbox_trace(core, (struct effect_trace){.kind = TRACE_GRANTED, .answer = ANSWER_RENEWED}, lock);
    struct link *link;
    while ((link = list_first(&lock->requests)) != NULL) {
        struct effect_answer answer = answer_for_lock(ANSWER_RENEWED, lock);
        answer.adopted = true;
        answer.continuous = lock->fencing;
        request_answer(core, CONTAINER_OF(link, struct request, link), answer);
    }
    queue_attempt_won(core, key); /* who contended here learns that the key is held */
}

static void decide(struct core *core, struct lock *lock)
{
    switch (round_verdict(&lock->round)) {
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

void adoption_begun(struct core *core, struct key *key, struct request *request, const struct token *token)
{
    request->state = REQUEST_RENEWING;
    struct lock *lock = adoption_of(key, token);
    if (lock != NULL) {
        list_append(&lock->requests, &request->link);
        return;
    }
    if (core->policies[key->policy].fencing && token->fence == 0) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
        return;
    }
    lock = lock_new(core, key, LOCK_ADOPTING);
    if (lock == NULL) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct group *group = lock_group(core, lock);
    lock->token = *token;
    if (request->ttl_ms != 0)
        lock->ttl_ms = request->ttl_ms;
    lock->asked_ttl_ms = lock->ttl_ms;
    lock->renew = request->renew == RENEW_UNSET ? RENEW_CALLER : request->renew;
    lock->lease_until = instant_after_ms(core->now, core->max_ttl_ms); /* who knows what it was taken with */
    lock->written = set_first(group->config.masters);
    list_append(&lock->requests, &request->link);
    round_begin(&lock->round, OP_ADOPT, group->config.masters, lock->quorum, group->up, core->now,
                slow_timeout_ms(core, lock));
    timers_set(&core->timers, &lock->timer, lock->round.deadline);
    if (group->up != 0)
        outbox_send(core, lock,
                    MUTANT(ADOPT_IGNORES_FENCE)  ? OP_RENEW
                    : MUTANT(ADOPT_CREATES_KEYS) ? OP_REPAIR
                                                 : OP_ADOPT,
                    group->up);
    decide(core, lock);
}

/* A DELETE deletes by the random part alone, on masters that may have said yes before. */
void adoption_released(struct core *core, struct key *key, const struct token *token)
{
    struct link *at = key->locks.head.next;
    while (at != &key->locks.head) {
        struct lock *lock = CONTAINER_OF(at, struct lock, of_key);
        at = at->next;
        if (lock->state != LOCK_ADOPTING || !token_same_random(&lock->token, token))
            continue;
        requests_answer_round(core, lock, ANSWER_NOT_HELD);
        lock_free(core, lock);
    }
}

void adoption_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    if (reply->ref.round != lock->round.number)
        return;
    if (round_wants_rerun(&lock->round, reply->master, reply->vote)) {
        outbox_send(core, lock, reply->op, set_of(reply->master));
        return;
    }
    if (reply->vote == VOTE_HELD || reply->vote == VOTE_FOREIGN || reply->vote == VOTE_MISNUMBERED)
        lock->strange |= set_of(reply->master);
    round_vote(&lock->round, reply->master, reply->vote);
    decide(core, lock);
}

void adoption_timer(struct core *core, struct lock *lock)
{
    round_close(&lock->round);
    decide(core, lock);
}
