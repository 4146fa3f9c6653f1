/* Releases: what a DELETE asks for, what a failed attempt leaves behind (R5), and what masters still owe (R6).
 *
 * Every release compares the token on the master (R10), so asking twice, or where the key never was, does no harm. A
 * release that a master has not confirmed stays owed until the lease has run out: it is asked for again when the master
 * comes back. */
#include "core_assert.h"
#include "state.h"

static void owe(struct core *core, struct lock *lock, master_set masters)
{
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        core->stats.debt[lock->group][m] += set_has(masters & (master_set)~lock->owed, m);
    lock->owed |= masters;
}

static void paid(struct core *core, struct lock *lock, uint8_t master)
{
    if (!set_has(lock->owed, master))
        return;
    core->stats.debt[lock->group][master]--;
    lock->owed &= (master_set)~set_of(master);
}

static bool is_definite(enum vote vote)
{
    return vote == VOTE_YES || vote == VOTE_ABSENT || vote == VOTE_HELD || vote == VOTE_FOREIGN ||
           vote == VOTE_MISNUMBERED;
}

/* ---- ended locks ---- */

static void ask_owed(struct core *core, struct lock *lock)
{
    struct group *group = lock_group(core, lock);
    master_set unanswered = round_pending(&lock->round), targets = lock->owed & group->up & (master_set)~unanswered;
    lock->owed_at = instant_after_ms(core->now, OWED_RETRY_MS);
    if (targets == 0)
        return;
    round_begin(&lock->round, OP_RELEASE, group->config.masters, lock->quorum, targets | unanswered, core->now,
                OWED_RETRY_MS);
    if (!MUTANT(NO_UNDO))
        outbox_gather(core, lock, OP_RELEASE, targets);
}

void lock_settled(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ENDED);
    bool remembered = (lock->reason != REASON_NONE || lock->refuses) && instant_before(core->now, lock->forget_at);
    if (lock->owed == 0 && !remembered) {
        lock_free(core, lock);
        return;
    }
    if (lock->owed == 0) {
        list_remove(&lock->of_state);
        list_append(&core->locks_remembered, &lock->of_state);
    }
    struct instant at = remembered ? lock->forget_at : INSTANT_NEVER;
    if (lock->owed != 0)
        at = instant_min(at, instant_min(lock->owed_at, lock->lease_until));
    timers_set(&core->timers, &lock->timer, at);
}

static void end(struct core *core, struct lock *lock, master_set owed)
{
    lock->forget_at = instant_after_ms(core->now, lock->refuses ? used_up_ms(core) : REMEMBER_LOST_MS);
    lock->label_len = lock->reason == REASON_NONE ? 0 : lock->label_len;
    lock_end(core, lock);
    owe(core, lock, owed);
}

/* R5: at once, before any retry; not where the answer was that another holder has it. */
void release_undone(struct core *core, struct lock *lock, master_set except)
{
    CORE_ASSERT(list_is_empty(&lock->requests));
    end(core, lock, lock->written & (master_set)~except);
    lock->round.asked = 0; /* whatever is still out was asked before the release, and decides nothing */
    if (MUTANT(UNDO_AFTER_RETRY))
        lock->owed_at = instant_after_ms(core->now, OWED_RETRY_MS);
    else if (lock->owed != 0)
        ask_owed(core, lock);
    ticket_forgotten(lock);
    lock_settled(core, lock);
}

void release_owed_timer(struct core *core, struct lock *lock)
{
    if (!instant_before(core->now, lock->lease_until) || MUTANT(DEBT_DROPPED)) {
        for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
            paid(core, lock, m);
    }
    if (lock->owed != 0 && !instant_before(core->now, lock->owed_at))
        ask_owed(core, lock);
    lock_settled(core, lock);
}

bool release_is_pending(const struct core *core, const struct lock *lock)
{
    return core->groups[lock->group].config.masters - set_size(lock->owed) < lock->quorum;
}

void release_master_up(struct core *core, uint8_t group, uint8_t master)
{
    struct link *end_of_list = &core->locks_ended.head;
    for (struct link *at = end_of_list->next; at != end_of_list; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, of_state);
        if (lock->group != group || !set_has(lock->owed, master))
            continue;
        lock->owed_at = core->now;
        timers_set(&core->timers, &lock->timer, core->now);
    }
}

/* ---- DELETE ---- */

/* A known lock: a quorum of masters confirmed, or the release is noted. A stranger's: only those count that had exactly
 * it. */
static void release_decided(struct core *core, struct lock *lock, enum verdict verdict)
{
    enum answer answer = ANSWER_RELEASED;
    if (lock->stranger && verdict == VERDICT_LOST) {
        answer = ANSWER_QUORUM_UNAVAILABLE;
        if (round_lost_to_holder(&lock->round))
            answer = lock->strange != 0 ? ANSWER_TOKEN_MISMATCH : ANSWER_NOT_HELD;
    } else if (verdict == VERDICT_LOST) {
        answer = ANSWER_RELEASE_PENDING;
    } else if (lock->stranger) {
        outbox_trace(core, (struct effect_trace){.kind = TRACE_RELEASED}, lock);
    }
    requests_answer_round(core, lock, answer);
    if (lock->refuses)
        lock->forget_at = instant_after_ms(core->now, used_up_ms(core));
    master_set owed = lock->owed;
    lock->owed_at = instant_after_ms(core->now, OWED_RETRY_MS);
    ticket_forgotten(lock);
    if (lock->handed_over)
        lock->round.asked = 0; /* no release of its own is out: one may be sent */
    lock_end(core, lock);
    CORE_ASSERT(lock->owed == owed);
    lock_settled(core, lock);
}

static void decide(struct core *core, struct lock *lock)
{
    enum verdict verdict = round_verdict(&lock->round);
    if (verdict != VERDICT_OPEN)
        release_decided(core, lock, verdict);
}

static void begin_round(struct core *core, struct lock *lock, enum op counted_as)
{
    struct group *group = lock_group(core, lock);
    owe(core, lock, lock->written);
    round_begin(&lock->round, counted_as, group->config.masters, lock->quorum, group->up, core->now,
                slow_timeout_ms(core, lock));
    timers_set(&core->timers, &lock->timer, lock->round.deadline);
}

/* Also those that are believed not to have it. */
static void ask_all(struct core *core, struct lock *lock)
{
    master_set up = lock_group(core, lock)->up;
    if (up != 0)
        outbox_send(core, lock, OP_RELEASE, up);
}

void release_begun(struct core *core, struct lock *lock, struct request *request)
{
    CORE_ASSERT(lock->state == LOCK_HELD || lock->state == LOCK_LOST);
    struct key *key = lock->key;
    if (lock->state == LOCK_HELD) {
        outbox_trace(core,
                     (struct effect_trace){.kind = TRACE_RELEASED,
                                           .elapsed_us = instant_us_between(lock->acquired_at, core->now)},
                     lock);
    }
    requests_answer(core, &lock->requests, ANSWER_NOT_HELD, REASON_NONE);
    struct request *heir = lock_is_held(core, lock) ? wake_heir(core, key) : NULL;
    lock->renewing = false;
    lock_set_state(core, lock, LOCK_RELEASING);
    outbox_hold(core, lock);
    if (request != NULL) {
        request->state = REQUEST_RELEASING;
        list_append(&lock->requests, &request->link);
    }
    key->references++;
    begin_round(core, lock, OP_RELEASE);
    lock->handed_over = heir != NULL;
    if (heir != NULL) {
        attempt_inherited(core, key, heir, lock);
    } else {
        ticket_released(core, lock);
        ask_all(core, lock);
    }
    decide(core, lock);
    queue_contend(core, key);
    key_release(core, key);
}

void release_inherited(struct core *core, const struct lock *heir, const struct event_reply *reply)
{
    struct lock *lock = lock_by_ref(core, heir->predecessor);
    if (lock == NULL || (lock->state != LOCK_RELEASING && lock->state != LOCK_ENDED) || reply->vote == VOTE_NOT_RUN)
        return;
    struct event_reply released = *reply;
    released.op = OP_RELEASE;
    if (reply->vote == VOTE_GUARDED) /* it looked for the token first */
        released.vote = VOTE_ABSENT;
    if (MUTANT(HANDOVER_BELIEVED))
        released.vote = VOTE_YES;
    release_reply(core, lock, &released);
}

void hold_over(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_LOST);
    struct key *key = lock->key;
    key->references++;
    /* Where the agent ends the hold itself, or an earlier agent may have reported a longer validity, the lease runs out; and
     * so it does with a lock_delay, which is there to keep the key taken after an unclean loss (R15). */
    bool runs_out = lock->reason == REASON_MAX_HOLD || lock->reason == REASON_DRAINED || lock->reason == REASON_STUCK ||
                    (lock->lock_delay_ms > 0 && !MUTANT(LOCK_DELAY_DROPPED)) ||
                    (lock->adopted && !MUTANT(ADOPTED_RELEASED_EARLY)) ||
                    (instant_before(core->now, lock->valid_until) && !MUTANT(LOSS_RELEASES_AT_ONCE));
    if (runs_out) {
        end(core, lock, /* owed= */ 0);
        lock_settled(core, lock);
    } else {
        release_undone(core, lock, /* except= */ 0);
    }
    queue_contend(core, key);
    key_release(core, key);
}

void release_of_stranger(struct core *core, struct key *key, struct request *request, const struct token *token)
{
    struct lock *lock = lock_new(core, key, LOCK_RELEASING);
    if (lock == NULL) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    request->state = REQUEST_RELEASING;
    list_append(&lock->requests, &request->link);
    lock->token = *token;
    lock->stranger = true;
    lock->written = set_first(core->groups[lock->group].config.masters);
    lock->lease_until = instant_after_ms(core->now, core->max_ttl_ms);
    begin_round(core, lock, /* counted_as= */ OP_ADOPT);
    ask_all(core, lock);
    decide(core, lock);
}

/* D3: a stranger's release counts where the token was there together with exactly its number. */
static enum vote vote_on_stranger(const struct lock *lock, const struct event_reply *reply)
{
    if (reply->vote == VOTE_YES && lock->fencing && reply->fence != lock->token.fence)
        return VOTE_MISNUMBERED;
    return reply->vote;
}

void release_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    struct round *round = &lock->round;
    if (reply->op != OP_RELEASE)
        return;
    if (is_definite(reply->vote))
        paid(core, lock, reply->master);
    if (set_has(round->asked, reply->master)) { /* one release at a time is out to a master, whichever round asked */
        if (round_wants_rerun(round, reply->master, reply->vote)) {
            outbox_send(core, lock, OP_RELEASE, set_of(reply->master));
            return;
        }
        enum vote vote = lock->stranger ? vote_on_stranger(lock, reply) : reply->vote;
        if (vote == VOTE_HELD || vote == VOTE_FOREIGN || vote == VOTE_MISNUMBERED)
            lock->strange |= set_of(reply->master);
        round_vote(round, reply->master, vote);
    }
    if (lock->state == LOCK_RELEASING)
        decide(core, lock);
    else
        lock_settled(core, lock);
}

void release_timer(struct core *core, struct lock *lock)
{
    round_close(&lock->round);
    decide(core, lock);
}
