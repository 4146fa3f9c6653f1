/* One attempt at a lock: ask all masters at once (R1), number the grant (R12), check the rest of
 * the validity (R4), or undo (R5). */
#include "internal.h"

#include <string.h>

#include "core_assert.h"

/* ---- the slots of a semaphore ---- */

/* A semaphore has N slots. Each is an ordinary mutex with a name and a number of its own (R20).
 * So it is exact over a quorum, and all rules of locks hold for each slot.
 *
 *   search --draw a slot--> attempt --granted------------------------> held
 *               ^              |
 *               |          refused, with the slots that are taken there
 *               |              v
 *               '---yes-- may another slot be free? --no--> as any lost attempt: wait, or 409
 *
 * An attempt names one slot, the same on all masters. If each master gave one of its free slots, or
 * counted holders, there could be more than N holders (R20).
 *
 * A key of a mutex is a semaphore with one slot that has no number: its search is one attempt. */

static_assert(LIMIT_PERMITS == 8 * sizeof(slot_set), "all slots of a key fit in a set");

static slot_set set_of_slot(uint8_t slot)
{
    CORE_ASSERT(slot < LIMIT_PERMITS);
    return (slot_set)1 << slot;
}

/* Returns the set with the token's slot. It is empty if the token is of a mutex. */
static slot_set slots_of(const struct token *token)
{
    return token->has_slot ? set_of_slot(token->slot) : 0;
}

static uint8_t count_slots(slot_set slots)
{
    uint8_t count = 0;
    for (; slots != 0; slots &= slots - 1)
        count++;
    return count;
}

/* Returns the slots that may be free; only those that a quorum called free, if there are any. */
static slot_set candidates(const struct key *key)
{
    CORE_ASSERT(key->form == FORM_SLOTS);
    const struct search *search = &key->contention->search;
    slot_set all = ~(slot_set)0 >> (LIMIT_PERMITS - key->permits);
    slot_set left = all & ~(search->tried | search->closed);
    for (const struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next)
        left &= ~slots_of(&CONTAINER_OF(at, struct lock, link)->token);
    return (left & search->open) != 0 ? left & search->open : left;
}

/* Draws the slot for the next attempt, by chance from those that may be free. Returns 0 if the key
 * is a mutex. */
static uint8_t slot_draw(struct core *core, struct key *key)
{
    if (key->form != FORM_SLOTS)
        return 0;
    slot_set from = candidates(key);
    /* The last candidate was taken at this agent meanwhile, so the search begins again. */
    if (from == 0) {
        key->contention->search = (struct search){0};
        from = candidates(key);
    }
    CORE_ASSERT(from != 0);
    for (int64_t skip = chance_below(core, CHANCE_SLOT, count_slots(from)); skip > 0; skip--)
        from &= from - 1;
    return (uint8_t)__builtin_ctzll(from);
}

/* Replaces the state of all slots by the replies of the masters that refused this attempt. */
static void compare_refusals(const struct lock *lock, struct search *search)
{
    const struct round *round = &lock->round;
    uint8_t refused = set_size(round->no);
    search->open = search->closed = 0;
    for (uint8_t i = 0; i < lock->key->permits; i++) {
        slot_set slot = set_of_slot(i);
        uint8_t taken = 0;
        for (uint8_t m = 0; m < round->total; m++)
            taken = (uint8_t)(taken + (set_has(round->no, m) &&
                                       (lock->pending->denials[m].taken & slot) != 0));
        if (refused - taken >= round->quorum)
            search->open |= slot;
        if (round->total - taken < round->quorum)
            search->closed |= slot;
    }
}

/* Notes that the attempt was lost to another holder. Returns false if no other slot can be free.
 * Then the search is lost, as it always is for a mutex. */
MUST_CHECK static bool slot_refused(struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock));
    if (!lock->token.has_slot || lock->cause == CAUSE_HANDOVER)
        return false;
    struct search *search = &lock->key->contention->search;
    search->tried |= slots_of(&lock->token);
    compare_refusals(lock, search);
    return candidates(lock->key) != 0 && !MUTANT(SEARCH_ENDS_EARLY);
}

/* ---- the queue of a key ---- */

/* The queue of a key (R9): requests in order of arrival, and the answers of those that leave it
 * without the lock.
 *
 *   waiters   want to wait. The first of them contends. If a holder at this agent releases the key,
 *             it is handed to the first.
 *   once      want one answer now. They get the result of the attempt in flight, or cause one. */

struct effect_answer queue_refusal_of_hold(const struct core *core, const struct lock *holder,
                                           enum answer answer)
{
    CORE_ASSERT(holder->state == LOCK_HELD || holder->state == LOCK_LOST);
    struct instant until = instant_max(holder->valid_until, core->now);
    return (struct effect_answer){
        .answer = answer,
        .occupant = {.label = lock_label(holder),
                     .left_ms = instant_us_between(core->now, until) / 1000,
                     .mode = holder->terms.mode,
                     .readers = holder->terms.mode == MODE_READ ? readers_here(holder->key) : 0},
    };
}

struct effect_answer queue_refusal_of_attempt(const struct core *core, const struct key *key,
                                              enum answer answer)
{
    CORE_ASSERT(key->contention->last_occupant.label.len <= LIMIT_LABEL_BYTES);
    struct effect_answer refusal = {
        .answer = answer,
        .tally = key->contention->last_tally,
        .guarded = answer == ANSWER_QUORUM_UNAVAILABLE ? key->contention->last_guarded : 0,
        .occupant = key->contention->last_occupant,
    };
    if (refusal.occupant.left_ms < 0 && core->stats.rounds[key->group].waiting > 0)
        refusal.occupant.left_ms = admission_wait_ms(core, key->group);
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++) {
        struct instant until = core->groups[key->group].masters[m].guarded_until;
        if (!set_has(refusal.guarded, m))
            continue;
        int64_t left_us = instant_us_between(core->now, instant_max(until, core->now));
        refusal.guarded_ms[m] = until.us == INSTANT_NEVER.us || left_us / 1000 >= UINT32_MAX
                                    ? UINT32_MAX
                                    : (uint32_t)((left_us + 999) / 1000);
    }
    return refusal;
}

struct effect_answer queue_refusal_of_overload(const struct core *core, const struct key *key)
{
    return (struct effect_answer){.answer = ANSWER_OVERLOADED,
                                  .occupant.left_ms = admission_wait_ms(core, key->group)};
}

void queue_refuse_once(struct core *core, struct key *key, const struct lock *holder)
{
    struct link *next;
    struct list *once = &key->contention->once;
    for (struct link *at = once->head.next; at != &once->head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        bool fits = holder->terms.mode == MODE_READ && request->terms.mode == MODE_READ;
        if (!fits && request->attempt == NULL)
            request_answer(core, request, queue_refusal_of_hold(core, holder, ANSWER_LOCK_HELD));
    }
}

/* Returns true if the request came after the search began that has found no free slot. A slot that
 * it has tried may have become free before the request came, so the request has a search of its own
 * (R20). */
static bool has_own_search(const struct core *core, const struct core_request *request)
{
    const struct contention *contention = request->key->contention;
    return request->key->form == FORM_SLOTS && !core->draining &&
           contention->last_answer == ANSWER_LOCK_HELD &&
           instant_before(contention->search.began, request->came_at) && !MUTANT(SEARCH_SHARED);
}

static void answer_failure(struct core *core, struct key *key, enum mode mode, bool waited)
{
    const struct core_request *first = request_first(&key->contention->waiters);
    bool waits = waited || (first != NULL && first->terms.mode == MODE_WRITE);
    struct effect_answer refusal =
        queue_refusal_of_attempt(core, key, key->contention->last_answer);
    struct link *next;
    struct list *once = &key->contention->once;
    for (struct link *at = once->head.next; at != &once->head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        if (readers_share_failure(request, mode, waits) && !has_own_search(core, request))
            request_answer(core, request, refusal);
    }
}

/* Refuses the waiters. Those with an attempt in flight get its result instead. */
static void refuse_while_draining(struct core *core, struct key *key)
{
    struct link *next;
    struct list *waiters = &key->contention->waiters;
    for (struct link *at = waiters->head.next; at != &waiters->head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        if (request->attempt == NULL)
            request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    }
}

/* Answers or delays the requests after an attempt of this mode for `contender` has failed. */
static void queue_attempt_failed(struct core *core, struct key *key, struct core_request *contender,
                                 enum mode mode)
{
    CORE_ASSERT(contender != NULL && contender->key == key && contender->attempt == NULL);
    key_refer(core, key);
    bool waits = contender->state == REQUEST_WAITING;
    if (!waits && !has_own_search(core, contender))
        request_answer(core, contender,
                       queue_refusal_of_attempt(core, key, key->contention->last_answer));
    answer_failure(core, key, mode, waits);
    if (core->draining)
        refuse_while_draining(core, key);
    const struct core_request *first = request_first(&key->contention->waiters);
    bool is_refused = first != NULL && first->terms.mode == mode;
    if (key->form == FORM_SHARED && is_refused && waits) { /* No other begins (R18). */
        key->contention->is_refused = key->contention->attempts > 0;
        admission_left(core, key);
    }
    bool is_decided =
        key_admits(key) && (key->form != FORM_SHARED || key->contention->attempts == 0);
    if (is_refused && is_decided)
        wake_after_failure(core, key);
    key_release(core, key);
}

void queue_attempt_won(struct core *core, struct key *key, const struct lock *lock)
{
    CORE_ASSERT(lock->key == key && lock->state == LOCK_HELD);
    key->contention->back_off_ms = 0;
    key->contention->channel.losses = 0;
    if (lock->terms.mode == MODE_READ) {
        queue_refuse_once(core, key, lock);
        key_retry_dropped(core, key); /* Other readers may have it. */
    }
}

/* ---- the attempt ---- */

enum {
    SMOOTHING = 8,
    HEARING_US = 1000, /* Time to receive unread replies: one iteration of the loop. */
};

static struct core_request *contender_of(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->pending->contender == NO_REQUEST ||
                lock->pending->contender < core->requests_max);
    return lock->pending->contender == NO_REQUEST ? NULL
                                                  : &core->requests[lock->pending->contender];
}

/* Returns the time in ms after which a retry can win (R9), or -1 if it is not known. Then so many
 * of `masters` have lost the other holders' leases, or their guard, that they are a quorum with
 * those that may be free now. A pending master may be free. Waiting for its reply could delay the
 * retry by a whole ttl: it may have another contender's key, which will be undone. */
static int64_t free_in_ms(const struct lock *lock, master_set masters)
{
    CORE_ASSERT((masters & ~set_first(lock->round.total)) == 0);
    const struct round *round = &lock->round;
    uint32_t sorted[LIMIT_MASTERS];
    size_t count = 0, free_now = set_size(round->yes | round_pending(round));
    CORE_ASSERT(free_now < round->quorum);
    for (uint8_t m = 0; m < round->total; m++) {
        uint32_t busy_ms = lock->pending->denials[m].busy_ms;
        if (!set_has(masters, m) || busy_ms == UINT32_MAX)
            /* Skip masters that do not say when their lease ends (a foreign key, for example). */
            continue;
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

/* Returns the time in ms until enough guards are over, if the guarded masters would make a quorum
 * with those that vote (D5.3). Otherwise -1. */
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
    key->contention->last_answer = answer;
    key->contention->last_failed_at = core->now;
    key->contention->last_refused_by = lock->round.no;
    key->contention->last_guarded = lock->round.guarded;
    struct occupant *last = &key->contention->last_occupant;
    last->left_ms = answer == ANSWER_LOCK_HELD            ? free_in_ms(lock, lock->round.no)
                    : answer == ANSWER_QUORUM_UNAVAILABLE ? guard_ends_in_ms(lock)
                                                          : -1;
    last->mode = lock->pending->others_mode;
    last->readers = lock->pending->others;
    if (answer != ANSWER_LOCK_HELD)
        last->label.len = 0;
    ticket_attempt_failed(core, lock, answer);
    bool has_more = answer == ANSWER_LOCK_HELD && slot_refused(lock);
    bool goes_on = has_more && !core->draining;
    if (has_more && core->draining)
        key->contention->last_answer = ANSWER_DRAINING; /* Another slot may be free. */
    enum cause cause = lock->cause;
    enum mode mode = lock->terms.mode;
    debt_begun(core, lock, /* except= */ lock->round.op == OP_RAISE ? 0 : lock->round.no);
    if (goes_on) {
        key->contention->search.goes_on = true;
        key->contention->cause = cause;
    } else if (key->form != FORM_SLOTS || !key_is_contended(key)) {
        queue_attempt_failed(core, key, contender, mode);
    } else if (core->draining) {
        refuse_while_draining(core, key);
    }
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
    key->contention->last_tally = tally;
    key->contention->last_answer = ANSWER_LOCK_HELD; /* From now on it is held here. */
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
    debt_replaced(core, lock);
    /* The attempts of the search that were lost. A hand-over is no search. */
    uint8_t lost = lock->cause == CAUSE_HANDOVER ? 0 : count_slots(key->contention->search.tried);
    outbox_trace(core,
                 (struct effect_trace){.kind = TRACE_ATTEMPT,
                                       .answer = ANSWER_GRANTED,
                                       .elapsed_us = instant_us_between(begun, core->now)},
                 lock);
    outbox_trace(
        core,
        (struct effect_trace){.kind = TRACE_GRANTED,
                              .answer = ANSWER_GRANTED,
                              .attempts = !lock->token.has_slot ? 0 : (uint8_t)(1 + lost),
                              .elapsed_us = instant_us_between(request->came_at, core->now)},
        lock);
    request_answer(core, request, answer_for_lock(ANSWER_GRANTED, lock));
    reentry_admit(core, lock);
    queue_attempt_won(core, key, lock);
}

/* Acts on the number of the grant. If no quorum stores it yet, raises it on the masters that have
 * the token and do not store it. */
static void attempt_numbered(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING && lock->fencing);
    CORE_ASSERT(lock->pending->fence_max != 0);
    struct instant from = lock->acquired_at;
    lock->token.fence = lock->pending->fence_max;
    master_set granted = lock->round.yes, stored = lock->pending->at_max;
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
    lock->key->contention->last_tally = round_tally(round);
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
        if (core->ending) { /* All other holds have ended. */
            attempt_failed(core, lock, ANSWER_DRAINING);
        } else if (lock->state == LOCK_ACQUIRING && lock->fencing) {
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

/* Returns a lock for `request`, with a token of its own. */
static struct lock *lock_for(struct core *core, struct key *key, struct core_request *request,
                             uint8_t slot, enum cause cause)
{
    const struct token token = {.slot = slot, .has_slot = key->form == FORM_SLOTS};
    struct entropy *entropy = &core->entropy;
    CORE_ASSERT(key_obstacle(key, MODE_READ, &token) == NULL);
    CORE_ASSERT(request->state == REQUEST_WAITING || request->state == REQUEST_ONCE);
    CORE_ASSERT(request->terms.ttl_ms > 0 && request->terms.renew != RENEW_UNSET);
    struct lock *lock = lock_new(core, key, LOCK_ACQUIRING, request->terms.mode);
    CORE_ASSERT(lock != NULL && entropy->left >= RANDOM_BYTES);
    lock->token = token;
    entropy->left -= RANDOM_BYTES;
    memcpy(lock->token.random, entropy->bytes + entropy->left, RANDOM_BYTES);
    memset(entropy->bytes + entropy->left, 0, RANDOM_BYTES);
    lock_index_token(core, lock);
    lock->pending->contender = request->slot;
    request->attempt = lock;
    /* Until it is granted, this is the time before the first byte was sent. */
    lock->acquired_at = core->now;
    lock->terms = request->terms;
    lock_keep_metadata(core, lock, &request->metadata);
    lock_index_secret(core, lock);
    lock->asked_ttl_ms = lock->terms.ttl_ms;
    policy_fit_lock_delay(core, lock); /* The policies may have changed while it waited. */
    if (MUTANT(READ_QUORUM_ONE_SHORT) && lock->terms.mode == MODE_READ && lock->quorum > 1)
        lock->quorum--;
    lock->cause = cause;
    ticket_begin_attempt(core, lock, request);
    return lock;
}

/* Sends the question to all masters at once (R1). */
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
        /* Too few masters are up. Nothing was sent, so nothing is undone. */
        decide_attempt(core, lock);
    }
}

void attempt_begun(struct core *core, struct key *key, struct core_request *request)
{
    CORE_ASSERT(request->key == key && key_admits(key));
    CORE_ASSERT(key->contention->cause != CAUSE_HANDOVER);
    key->contention->handovers = 0;
    uint8_t slot = slot_draw(core, key);
    if (key->contention->search.tried == 0) { /* It is the first attempt of a search. */
        key->contention->search.began = core->now;
        wake_begin_attempt(key);
    }
    struct lock *lock = lock_for(core, key, request, slot, key->contention->cause);
    admission_begun(core, lock);
    ask_masters(core, lock, OP_ACQUIRE);
}

void attempt_inherited(struct core *core, struct key *key, struct core_request *request,
                       struct lock *predecessor)
{
    CORE_ASSERT(request->key == key && request_attempt(request) == NULL);
    CORE_ASSERT(predecessor->key == key && predecessor->state == LOCK_RELEASING);
    key->contention->admission.waited_us = 0;
    if (!predecessor->token.has_slot)
        wake_begin_attempt(key);
    struct lock *lock = lock_for(core, key, request, predecessor->token.slot, CAUSE_HANDOVER);
    lock->pending->previous = predecessor->token;
    lock->predecessor = lock_ref(predecessor);
    lock->pending->previous_given_back = predecessor->given_back;
    lock->pending->previous_adopted = predecessor->adopted;
    lock->uncounted = MUTANT(HANDOVER_COUNTS) ? 0 : predecessor->uncounted;
    ask_masters(core, lock, OP_HANDOVER);
}

static uint32_t clipped_ms(int64_t ms)
{
    return ms < 0 || ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
}

static void heard_holder(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN);
    struct denial *denial = &lock->pending->denials[reply->master];
    outbox_refused(core, lock->key);
    denial->busy_ms = clipped_ms(reply->occupant.left_ms);
    denial->taken = reply->occupant.taken | slots_of(&lock->token);
    bool is_least =
        lock->pending->others_mode == MODE_WRITE || reply->occupant.readers < lock->pending->others;
    if (reply->occupant.mode == MODE_READ && is_least) {
        lock->pending->others_mode = MODE_READ;
        lock->pending->others = reply->occupant.readers;
    }
    struct contention *contention = lock->key->contention;
    struct text label = reply->occupant.label;
    CORE_ASSERT(label.len <= LIMIT_LABEL_BYTES);
    if (label.len > 0)
        memcpy(contention->last_label, label.at, label.len);
    contention->last_occupant.label = (struct text){contention->last_label, label.len};
}

/* Notes the other contents of a reply of the first phase: the time of a round trip, the number that
 * the master stores (R12), and the number of agents that wait for the key (R9). */
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
        lock->key->contention->channel.agents = reply->agents;
}

/* Notes all contents of a reply beside its vote. */
static void heard(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    if (lock->round.op != OP_RAISE)
        heard_first_phase(core, lock, reply);
    if (reply->vote == VOTE_TAKEN && reply->ticket != 0)
        ticket_heard(core, lock, reply->master, reply->ticket);
    if (reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN)
        heard_holder(core, lock, reply);
    if (reply->vote == VOTE_GUARDED) {
        int64_t left_ms = reply->occupant.left_ms; /* Until it has a vote again (D5.3). */
        lock->pending->denials[reply->master].busy_ms = clipped_ms(left_ms);
        lock_group(core, lock)->masters[reply->master].guarded_until =
            left_ms < 0 ? INSTANT_NEVER : instant_after_ms(core->now, left_ms);
    }
    if (reply->vote == VOTE_FOREIGN || reply->vote == VOTE_SPOILED)
        outbox_trace(core,
                     (struct effect_trace){.kind = TRACE_FOREIGN,
                                           .master = reply->master,
                                           .spoiled = reply->vote == VOTE_SPOILED,
                                           .tickets = reply->tickets},
                     lock);
}

void attempt_reply(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(lock_is_attempt(lock));
    CORE_ASSERT(reply->master < lock->round.total);
    if (reply->op != OP_RAISE && reply->vote == VOTE_NOT_SENT &&
        !set_has(lock->by_script, reply->master))
        lock->written &= (master_set)~set_of(reply->master);
    const struct round *round = &lock->round;
    if (reply->op != round->op || !outbox_takes(core, lock, reply))
        return; /* A late reply to an earlier phase decides nothing. */
    if (MUTANT(T0_STAMPED_LATE) && round->op != OP_RAISE &&
        (round->yes | round->no | round->failed) == set_of(reply->master))
        lock->acquired_at = core->now;
    heard(core, lock, reply);
    decide_attempt(core, lock);
}

/* Ends the time of the masters (R3): votes that are pending are unknown. If this process itself is
 * late, and was not stopped (R14), replies may have arrived that are not read yet. They are
 * received first, once. */
void attempt_timer(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock));
    bool is_late = instant_us_between(lock->round.deadline, core->now) > TIMER_LATE_US;
    if (is_late && !core->stalled && !lock->round.overtime) {
        lock->round.overtime = true;
        timers_set(&core->timers, timer_of_lock(lock), instant_after_us(core->now, HEARING_US));
        return;
    }
    if ((lock->round.scripted & round_pending(&lock->round)) != 0 && !MUTANT(LATE_SCRIPT_UNMARKED))
        outbox_refused(core, lock->key); /* Two round trips take too long (R24). */
    round_close(&lock->round);
    decide_attempt(core, lock);
}

void attempt_voided(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock) && lock->is_void);
    struct core_request *contender = contender_of(core, lock);
    /* It keeps its position among the waiters. */
    ticket_attempt_failed(core, lock, ANSWER_LOCK_HELD);
    debt_begun(core, lock, /* except= */ lock->round.op == OP_RAISE ? 0 : lock->round.no);
    if (core->draining && contender != NULL)
        request_answer(core, contender, (struct effect_answer){.answer = ANSWER_DRAINING});
}

void attempt_abandoned(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock));
    ticket_forgotten(lock);
    debt_begun(core, lock, /* except= */ lock->round.op == OP_RAISE ? 0 : lock->round.no);
}
