/* The requests of callers (POST, PUT, DELETE, GET) and how they end, and the holds of the process
 * before. */
#include "internal.h"

#include "core_assert.h"

/* ---- a caller that has the lock already ---- */

/* A POST of a caller that has the lock already, by its idempotency key or as its owner, waits for a
 * round of the hold (confirm.c). */

enum { ROUNDS = 2 }; /* The round that may be in flight already, and the one that counts. */

/* Begins a round that confirms `lock`, which is held here, for a request of its holder. The request
 * is answered `answer` (REPEATED or REENTERED) when a quorum has confirmed the lock.
 * A repeat counts as an answer in flight from its arrival. So the hold is not given back because
 * the first answer did not arrive. */
static void again_asked(struct core *core, struct lock *lock, struct core_request *request,
                        enum answer answer)
{
    CORE_ASSERT(lock->state == LOCK_HELD && request->state == REQUEST_BEGUN);
    CORE_ASSERT(answer == ANSWER_REPEATED || answer == ANSWER_REENTERED);
    request->again = answer;
    request->held = lock;
    lock->answers += answer == ANSWER_REPEATED;
    if (answer == ANSWER_REPEATED ? MUTANT(REPEAT_FROM_MEMORY) : MUTANT(REENTRY_FROM_MEMORY)) {
        lock->terms.count = (uint16_t)(lock->terms.count + (answer == ANSWER_REENTERED));
        request->counted = true;
        confirm_answered(core, lock, request, /* is_good= */ true);
        return;
    }
    int64_t round_ms = core->groups[request->key->group].config.node_timeout_ms;
    timers_set(&core->timers, timer_of_request(core, request),
               request->wait_ms > 0 ? contend_deadline(request)
                                    : instant_after_ms(request->came_at, ROUNDS * round_ms));
    watchdog_renew(core, lock, request);
}

/* Returns true if the owner of the request holds the key here. Then the request enters that hold,
 * or is refused. */
MUST_CHECK static bool again_enters(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN);
    struct lock *holder = reentry_hold(core, request);
    if (holder == NULL)
        return false;
    if (reentry_is_upgrade(holder, request)) {
        hold_doubted(core, holder);
        reentry_refuses_upgrade(core, request);
    } else {
        again_asked(core, holder, request, ANSWER_REENTERED);
    }
    return true;
}

/* Gives the hold back: no earlier answer reached its caller, and the last request that could be
 * answered has left. */
static void give_back_untold(struct core *core, struct lock *lock)
{
    if (lock->answers == 0)
        release_begun(core, lock, /* request= */ NULL, /* asked= */ false);
}

void again_time_over(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_RENEWING && confirm_is_wanted(request));
    struct lock *lock = request->held;
    confirm_answered(core, lock, request, /* is_good= */ false);
    give_back_untold(core, lock);
}

/* ---- safe retry ---- */

/* Safe retry (D3): a POST whose answer was lost is asked again with the same idempotency key, and
 * is the same request.
 *
 *   state of the first one                    the second one
 *   waits, or its round is out                takes its place; the first is answered `superseded`
 *   has got the lock                          gets the same answer, as `repeated`, once a quorum
 *                                             has confirmed the token (confirm.c)
 *   has got the lock and lost it              `lock_lost`
 *   nothing, or its caller had left           is the first one
 *   was released by DELETE                    `superseded`, for as long as a copy of it may
 *                                             still be in flight (wait_ms_max)
 *
 * A hold that was answered several times is given back only when none of the answers was delivered:
 * `answers` counts those that have not failed. */

/* Returns how well the lock fits a request with its secret; 0: not at all. A DELETE also means a
 * hold whose release is in flight or is owed, or which the agent has released by itself. */
static unsigned rank_of(const struct lock *lock, bool deletes, bool is_used_up)
{
    enum { ENDED = 1, RELEASING, LIVING };
    bool was_held = lock->valid_until.us != INT64_MIN; /* An undone attempt has the secret, too. */
    /* Another agent may have the hold if no holder asked for the release (D3.4). */
    bool is_meant;
    switch (lock->state) {
    case LOCK_HELD:
    case LOCK_LOST:
        return LIVING;
    case LOCK_RELEASING:
        return deletes ? RELEASING : 0;
    case LOCK_ENDED:
        if (lock->reason != REASON_NONE || lock->pending->was_lost)
            return ENDED;
        is_meant = lock->given_back ? is_used_up || debt_is_pending(lock) : lock->pending->may_live;
        return deletes && was_held && is_meant ? ENDED : 0;
    default:
        return 0;
    }
}

/* Returns the lock of the key that the secret still means, or NULL. */
static struct lock *find_lock(const struct core *core, const struct key *key,
                              const struct secret *secret, bool deletes, bool is_used_up)
{
    CORE_ASSERT(secret->len > 0);
    struct lock *lock = NULL, *found = NULL;
    unsigned best = 0;
    while (!MUTANT(REPEAT_CONTENDS) &&
           (lock = lock_index_next_secret(core, key, secret, lock)) != NULL) {
        unsigned rank = rank_of(lock, deletes, is_used_up);
        if (rank > best) {
            best = rank;
            found = lock;
        }
    }
    return found;
}

static void answer_from_lock(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->key == request->key && request->state == REQUEST_BEGUN);
    if (lock_metadata(lock)->asked != request->metadata.asked) {
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_IDEMPOTENCY_MISMATCH});
    } else if (lock_is_held(core, lock)) {
        again_asked(core, lock, request, ANSWER_REPEATED);
    } else {
        /* The journal does not say why. */
        enum reason reason = lock->reason != REASON_NONE ? lock->reason : REASON_EXPIRED;
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = reason});
    }
}

static void answer_superseded(struct core *core, struct core_request *request)
{
    request_answer(core, request,
                   (struct effect_answer){.answer = ANSWER_SUPERSEDED, .occupant.left_ms = -1});
}

/* Puts the newer request in the place of the older one, in the queue and in its attempt. */
static void take_place(struct core *core, struct core_request *older, struct core_request *newer)
{
    CORE_ASSERT(older->key == newer->key && newer->state == REQUEST_BEGUN);
    newer->state = older->state;
    newer->came = older->came;
    newer->ticket = older->ticket;
    newer->ticket_is_fresh = older->ticket_is_fresh;
    list_insert(&older->link, &newer->link);
    request_index_secret(core, newer);
    core->stats.waiters += newer->state == REQUEST_WAITING;
    timers_set(&core->timers, timer_of_request(core, newer), contend_deadline(newer));
    struct lock *attempt = request_attempt(older);
    if (attempt != NULL)
        attempt->pending->contender = newer->slot;
    newer->attempt = attempt;
    older->attempt = NULL;
    answer_superseded(core, older);
}

/* Returns a hash of all that must be the same when a request is repeated with its idempotency key
 * (D3). A request may be repeated after a restart too, so the hash has no key. */
static uint64_t idempotency_hash(const struct event_acquire *event)
{
    const int64_t asked[] = {event->ttl_ms, event->wait_ms + event->late_ms, event->max_hold_ms,
                             event->renew, event->bound | event->mode << 1};
    return hash_bytes(0, hash_bytes(0, 0, event->label.at, event->label.len), asked, sizeof(asked));
}

/* Returns true if the request was asked before. Then it is answered, or has taken the place of the
 * older one. */
MUST_CHECK static bool idempotency_settles(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN);
    const struct secret *secret = &request->metadata.idempotency;
    if (secret->len == 0)
        return false;
    if (used_up_has(core, request->key, secret)) {
        answer_superseded(core, request);
        return true;
    }
    struct lock *lock = find_lock(core, request->key, secret, /* deletes= */ false,
                                  /* is_used_up= */ false);
    struct core_request *older =
        lock == NULL ? request_by_secret(core, request->key, secret) : NULL;
    if (lock != NULL)
        answer_from_lock(core, lock, request);
    else if (older != NULL && older->metadata.asked != request->metadata.asked)
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_IDEMPOTENCY_MISMATCH});
    else if (older != NULL)
        take_place(core, older, request);
    return lock != NULL || older != NULL;
}

/* Returns true if an answer did not arrive, but another one did or may. */
MUST_CHECK static bool idempotency_keeps(struct lock *lock)
{
    CORE_ASSERT(lock->state >= LOCK_HELD);
    if (lock->answers <= 1 || MUTANT(REPEAT_UNCOUNTED))
        return false;
    lock->answers--;
    return true;
}

static void use_up(struct core *core, const struct key *key, const struct secret *secret)
{
    if (secret->len > 0 && !MUTANT(IDEMPOTENCY_NOT_USED_UP))
        used_up_add(core, key, secret);
}

/* ---- the calls ---- */

/* Returns the renewal of the hold, as in Redisson: a caller that names a ttl gets a plain lease. A
 * caller that names none gets the watchdog, and so does a bound one. */
static enum renew renew_of(const struct event_acquire *event, const struct core_policy *policy)
{
    if (event->renew != RENEW_UNSET)
        return event->renew;
    if (event->bound)
        return RENEW_AGENT;
    return event->ttl_ms != 0 ? RENEW_CALLER : policy->renew;
}

static struct terms terms_of(const struct event_acquire *event, const struct core_policy *policy)
{
    struct terms terms = {
        .ttl_ms = event->ttl_ms != 0 ? event->ttl_ms : policy->ttl_ms,
        .renew = renew_of(event, policy),
        .mode = event->mode,
        .bound = event->bound,
        .max_hold_ms = event->bound ? policy->bound_max_hold_ms : policy->max_hold_ms,
        .count = 1,
    };
    if (event->max_hold_ms != 0 && event->max_hold_ms < terms.max_hold_ms)
        terms.max_hold_ms = event->max_hold_ms;
    CORE_ASSERT(terms.ttl_ms > 0 && terms.renew != RENEW_UNSET);
    return terms;
}

static struct metadata metadata_of(const struct event_acquire *event,
                                   const struct core_policy *policy)
{
    CORE_ASSERT(event->label.len <= LIMIT_LABEL_BYTES);
    struct metadata metadata = {.asked = idempotency_hash(event)};
    metadata_set_label(&metadata, event->label);
    secret_take(&metadata.idempotency, event->idempotency);
    if (policy->reentrant)
        secret_take(&metadata.owner, event->owner);
    return metadata;
}

/* Handles a POST. A caller that has the lock already is answered also while the agent drains,
 * because that is no new lock. */
void call_acquire(struct core *core, const struct event_acquire *event)
{
    struct key *key = key_get(core, event->key);
    struct core_request *request = request_new(core, event->request, key);
    request->wait_ms = event->wait_ms < core->wait_ms_max ? event->wait_ms : core->wait_ms_max;
    request->terms = terms_of(event, &core->policies[key->policy]);
    request->metadata = metadata_of(event, &core->policies[key->policy]);
    if (!idempotency_settles(core, request) && !again_enters(core, request))
        contend_arrived(core, request);
}

/* Returns true if the hold has ended here without a release, so another agent may have it. A hold
 * that had run out before this agent restarted has no reason. */
static bool is_lost(const struct lock *lock)
{
    return lock->state == LOCK_LOST ||
           (lock->state == LOCK_ENDED && (lock->reason != REASON_NONE || !lock->given_back));
}

/* Handles a PUT of a lost lock (D3). If another agent or the masters may still have it, it may be
 * asked for again, here as at any other agent. A hold that this agent has ended by itself stays
 * ended. */
static void renew_lost(struct core *core, struct lock *lock, struct core_request *request,
                       uint32_t ttl_ms, enum renew renew)
{
    CORE_ASSERT(is_lost(lock));
    struct effect_answer refusal;
    bool ended_here = lock->reason == REASON_MAX_HOLD || lock->reason == REASON_DRAINED ||
                      lock->reason == REASON_STUCK;
    if (ended_here)
        request_answer(core, request,
                       (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
    else if (core->draining)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    else if (policy_allows_ttl_of(core, lock, ttl_ms, renew, &refusal))
        adoption_of_lost(core, lock, request);
    else
        request_answer(core, request, refusal);
}

/* Handles a PUT of a lock that this agent knows. */
static void renew_known(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->key == request->key && request->state == REQUEST_BEGUN);
    struct effect_answer refusal;
    uint32_t ttl_ms = request->terms.ttl_ms != 0 ? request->terms.ttl_ms : lock->terms.ttl_ms;
    enum renew renew =
        request->terms.renew != RENEW_UNSET ? request->terms.renew : lock->terms.renew;
    if (is_lost(lock))
        renew_lost(core, lock, request, ttl_ms, renew);
    else if (lock->state != LOCK_HELD) /* Without a DELETE another agent may have it. */
        request_answer(core, request,
                       (struct effect_answer){.answer = lock->given_back
                                                            ? ANSWER_NOT_HELD
                                                            : ANSWER_QUORUM_UNAVAILABLE});
    else if (!policy_allows_ttl_of(core, lock, ttl_ms, renew, &refusal))
        request_answer(core, request, refusal);
    else {
        /* A caller that names the token has it. The journal learns of it with the renewal. */
        lock->delivered = true;
        watchdog_renew(core, lock, request);
    }
}

/* Returns true if this agent holds the key by that random part, and with another number (C4). */
static bool is_misnumbered(const struct core *core, const struct key *key,
                           const struct token *token)
{
    CORE_ASSERT(key->references > 0);
    const struct lock *lock = NULL;
    while ((lock = lock_index_next(core, key, token, lock)) != NULL)
        if (lock_is_held(core, lock))
            return true;
    return false;
}

/* Returns true if no grant of the key has a token of this shape: a semaphore's tokens name a slot,
 * a mutex's tokens do not (R20). */
static bool is_shapeless(const struct key *key, const struct token *token)
{
    return token->has_slot != (key->form == FORM_SLOTS);
}

/* Returns true if the request asks the masters later, behind others (R16). */
static bool waits_as_guest(struct core *core, struct core_request *request,
                           const struct token *token)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN);
    if (request->admitted || admission_admits_guest(core, request->key->group))
        return false;
    request->reads = token == NULL;
    if (token != NULL)
        request->token = *token;
    admission_guest_waits(core, request);
    return true;
}

/* Asks the masters about a token that is not known here, even if this agent holds the key with
 * another one. That one may have been released elsewhere, and the key granted there since (D3). */
static void renew_stranger(struct core *core, struct core_request *request,
                           const struct token *token)
{
    struct key *key = request->key;
    struct effect_answer refusal;
    uint32_t ttl_ms =
        request->terms.ttl_ms != 0 ? request->terms.ttl_ms : core->policies[key->policy].ttl_ms;
    if (is_shapeless(key, token))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_NOT_HELD});
    else if (is_misnumbered(core, key, token))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
    else if (core->draining)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    else if (!policy_allows_ttl(core, key, ttl_ms, request->terms.renew, &refusal))
        request_answer(core, request, refusal);
    else if (adoption_is_under_way(core, key, token) || !waits_as_guest(core, request, token))
        adoption_begun(core, key, request, token);
}

static void renew(struct core *core, struct core_request *request, const struct token *token)
{
    struct lock *lock = lock_by_token(core, request->key, token);
    /* D3: its connection is still open. */
    if (lock != NULL && lock->terms.bound && !is_lost(lock))
        request->terms.renew = RENEW_AGENT;
    if (lock != NULL)
        renew_known(core, lock, request);
    else
        renew_stranger(core, request, token);
}

void call_renew(struct core *core, const struct event_renew *event)
{
    struct core_request *request = request_new(core, event->request, key_get(core, event->key));
    request->terms.ttl_ms = event->ttl_ms;
    request->terms.renew = event->renew;
    metadata_set_label(&request->metadata, event->label);
    renew(core, request, &event->token);
}

/* Handles a DELETE of a lock that has ended here without one: another agent may have it by now
 * (D3.4), and the agent's own release does not delete it there. */
static void release_elsewhere(struct core *core, const struct lock *lock,
                              struct core_request *request)
{
    struct token token = lock->token;
    enum reason reason = lock->reason;
    bool fencing = lock->fencing; /* A reload may have changed the policy since. */
    adoption_released(core, request->key, &token);
    release_of_stranger(core, request->key, request, &token, fencing, reason);
}

static void join_release(struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING);
    request->state = REQUEST_RELEASING;
    list_append(&lock->requests, &request->link);
}

static void release_known(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->key == request->key && request->state == REQUEST_BEGUN);
    switch (lock->state) {
    case LOCK_HELD:
        if (reentry_left(core, lock))
            request_answer(core, request, answer_for_lock(ANSWER_RELEASED, lock));
        else
            release_begun(core, lock, request, /* asked= */ true);
        break;
    case LOCK_RELEASING:
        if (lock->given_back)
            join_release(lock, request);
        else
            release_elsewhere(core, lock, request);
        break;
    /* The holder gives it up before its validity has ended, so its keys need not wait. */
    case LOCK_LOST:
        if (reentry_left(core, lock))
            request_answer(
                core, request,
                (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
        else
            release_begun(core, lock, request, /* asked= */ true);
        break;
    case LOCK_ENDED:
        if (lock->reason != REASON_NONE && reentry_left(core, lock)) {
            request_answer(
                core, request,
                (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
        } else if (is_lost(lock)) {
            release_elsewhere(core, lock, request);
        } else {
            request_answer(
                core, request,
                answer_for_lock(debt_is_pending(lock) ? ANSWER_RELEASE_PENDING : ANSWER_NOT_HELD,
                                lock));
        }
        break;
    case LOCK_FREE:
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
    case LOCK_ADOPTING:
        CORE_ASSERT(!"a lock that callers can name");
    }
}

static void release_by_idempotency(struct core *core, struct core_request *request,
                                   const struct secret *secret)
{
    CORE_ASSERT(secret->len > 0);
    struct key *key = request->key;
    bool is_used_up = used_up_has(core, key, secret);
    const struct lock *living = find_lock(core, key, secret, /* deletes= */ false, is_used_up);
    struct core_request *older = living == NULL ? request_by_secret(core, key, secret) : NULL;
    struct lock *attempt = older == NULL ? NULL : request_attempt(older);
    use_up(core, key, secret);
    if (older != NULL)
        answer_superseded(core, older);
    if (attempt != NULL)
        attempt_abandoned(core, attempt);
    /* Found only now, because an abandoned attempt may take the place of a lock that ended. */
    struct lock *lock = find_lock(core, key, secret, /* deletes= */ true, is_used_up);
    if (lock != NULL && lock->state == LOCK_RELEASING)
        join_release(lock, request); /* Also one that the agent has begun itself (D3.5). */
    else if (lock != NULL)
        release_known(core, lock, request);
    else
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_NOT_HELD});
}

void call_release(struct core *core, const struct event_release *event)
{
    struct key *key = key_get(core, event->key);
    struct core_request *request = request_new(core, event->request, key);
    if (event->idempotency.len > 0) {
        struct secret secret = {0};
        secret_take(&secret, event->idempotency);
        release_by_idempotency(core, request, &secret);
        return;
    }
    struct lock *lock = lock_by_token(core, key, &event->token);
    if (lock != NULL) {
        use_up(core, key, &lock_metadata(lock)->idempotency);
        release_known(core, lock, request);
    } else if (is_shapeless(key, &event->token)) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_NOT_HELD});
    } else if (is_misnumbered(core, key, &event->token)) {
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
    } else {
        adoption_released(core, key, &event->token);
        release_of_stranger(core, key, request, &event->token, core->policies[key->policy].fencing,
                            REASON_NONE);
    }
}

void call_read(struct core *core, const struct event_read *event)
{
    struct core_request *request = request_new(core, event->request, key_get(core, event->key));
    if (event->follows) {
        follow_begun(core, request->key, request);
        wake_watch(core, request->key);
        call_look_is_due(core, request);
    } else if (!waits_as_guest(core, request, /* token= */ NULL)) {
        read_begun(core, request->key, request);
    }
}

void call_look_is_due(struct core *core, struct core_request *request)
{
    if (follow_tells_own(core, request))
        return;
    follow_looks(core, request);
    if (!waits_as_guest(core, request, /* token= */ NULL))
        read_begun(core, request->key, request);
}

void call_guests_admitted(struct core *core)
{
    struct core_request *request;
    while (outbox_has_room(core) && (request = admission_next_guest(core)) != NULL) {
        struct token token = request->token;
        struct key *key = request->key;
        key_refer(core, key); /* The request may leave below. */
        if (request->reads)
            read_begun(core, key, request);
        else
            renew(core, request, &token);
        key_release(core, key);
    }
}

void call_guest_time_over(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_GUEST);
    if (request->follows)
        follow_look_failed(core, request);
    else
        request_answer(core, request, queue_refusal_of_overload(core, request->key));
}

void call_restore(struct core *core, const struct noted_hold *noted)
{
    struct key *key = key_get(core, noted->key);
    key_refer(core, key);
    restore_hold(core, key, noted);
    key_release(core, key);
}

/* Handles that a caller goes away. If it waits, it is never granted the lock. A release or renewal
 * that it asked for goes on. */
void call_cancel(struct core *core, uint32_t number)
{
    CORE_ASSERT(number < core->requests_max);
    struct core_request *request = &core->requests[number];
    if (request->state == REQUEST_FREE)
        return;
    bool queued = request->state == REQUEST_WAITING || request->state == REQUEST_ONCE;
    struct lock *attempt = queued ? request_attempt(request) : NULL;
    if (attempt != NULL && MUTANT(GRANT_AFTER_CANCEL))
        return;
    if (request->state == REQUEST_RENEWING && confirm_is_wanted(request)) {
        struct lock *held = request->held;
        held->answers -= request->again == ANSWER_REPEATED;
        request_forget(core, request);
        give_back_untold(core, held);
        return;
    }
    request_forget(core, request);
    if (attempt != NULL)
        attempt_abandoned(core, attempt);
}

void call_undelivered(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock == NULL || lock->state == LOCK_RELEASING || idempotency_keeps(lock) ||
        reentry_left(core, lock))
        return;
    if ((lock->state == LOCK_HELD || lock->state == LOCK_LOST) &&
        !(lock->terms.bound && MUTANT(BOUND_OUTLIVES_CALLER)))
        release_begun(core, lock, /* request= */ NULL, /* asked= */ false);
}

/* A lease that no watchdog renews ends by itself: the journal need not know of it (see
 * watchdog.c). */
void call_delivered(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock == NULL || lock->state != LOCK_HELD || lock->delivered)
        return;
    lock->delivered = true;
    if (lock->terms.renew == RENEW_AGENT && !lock->terms.bound)
        outbox_hold(core, lock);
}

void call_stuck(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock != NULL && lock->state == LOCK_HELD)
        hold_lost(core, lock, REASON_STUCK);
}

/* ---- the end of the agent ---- */

/* The end of the agent: it takes no new locks (EVENT_DRAIN), and then gives up or gives back those
 * that it has (EVENT_END). */

void drain_refuses(struct core *core, struct core_request *request)
{
    CORE_ASSERT(core->draining);
    CORE_ASSERT(request->state == REQUEST_WAITING || request->state == REQUEST_ONCE);
    request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
}

/* Answers the requests that wait. Each may be the last one of its key, and then the agent leaves
 * the key's channel. If the effects have no room for a request, its timer answers it. */
void drain_begun(struct core *core)
{
    core->draining = true;
    for (uint32_t i = 0; i < core->requests_used; i++) {
        struct core_request *request = &core->requests[i];
        if ((request->state != REQUEST_WAITING && request->state != REQUEST_ONCE) ||
            request_attempt(request) != NULL)
            continue;
        if (outbox_has_room(core))
            drain_refuses(core, request);
        else
            timers_set(&core->timers, timer_of_request(core, request), core->now);
    }
}

/* Ends the holds by their timers, in each step as many as the effects have room for. */
void drain_ends(struct core *core, bool releases)
{
    core->draining = core->ending = true;
    core->ending_releases = releases;
    for (uint32_t i = 0; i < core->locks_used; i++) {
        struct lock *lock = lock_at(core, i);
        if (lock->state == LOCK_HELD || lock->state == LOCK_LOST)
            timers_set(&core->timers, timer_of_lock(lock), core->now);
    }
}
