/* Checks the invariants of the tables (state.h). A broken one is a fault of this program. For
 * tests, which call it between two steps. */
#include "core_assert.h"
#include "internal.h"
#include "state.h"

/* The results of the walk, to be compared with the running counts. */
struct found {
    uint32_t under_way, ended, requests, waiters, held, timers, renewals;
    uint32_t in_flight[LIMIT_GROUPS], guests[LIMIT_GROUPS], guests_waiting[LIMIT_GROUPS];
    uint32_t held_by_policy[LIMIT_POLICIES];
    uint32_t debt[LIMIT_GROUPS][LIMIT_MASTERS];
    uint32_t contentions, pending, metadata;
    uint64_t references; /* References to keys. */
};

static uint32_t length_of(const struct list *list)
{
    uint32_t length = 0;
    for (const struct link *at = list->head.next; at != &list->head; at = at->next) {
        CORE_ASSERT(at->next->prev == at && at->prev->next == at);
        length++;
    }
    return length;
}

/* Asserts that the timer is armed if and only if it must be, and that its index in the heap is
 * right. */
static void check_timer(const struct timers *timers, uint32_t timer, bool must, bool may)
{
    CORE_ASSERT(timers_is_armed(timers, timer) ? may : !must);
    CORE_ASSERT(timers_know(timers, timer));
}

/* ---- locks ---- */

/* Invariant 1. */
static void check_holds(const struct lock *lock)
{
    const struct key *key = lock->key;
    bool is_listed = lock_occupies_key(lock->state) || lock->state == LOCK_ENDED;
    CORE_ASSERT(is_listed == (lock->link.next != NULL));
    CORE_ASSERT(lock->policy == key->policy && lock->group == key->group);
    CORE_ASSERT(lock->state != LOCK_ACQUIRING || lock->pending->contender != NO_REQUEST);
    CORE_ASSERT(!lock->is_guest || lock->state == LOCK_ADOPTING);
    CORE_ASSERT(lock->has_place ==
                (lock->is_guest || (lock_is_attempt(lock) && lock->cause != CAUSE_HANDOVER)));
    CORE_ASSERT(!lock_occupies_key(lock->state) ||
                lock->token.has_slot == (key->form == FORM_SLOTS));
}

/* Invariant 6. */
static void check_renewal(const struct core *core, const struct lock *lock)
{
    bool is_armed = lock->state == LOCK_HELD && !lock->renewing &&
                    lock->terms.renew == RENEW_AGENT && !hold_reaches_max(lock);
    check_timer(&core->renewals, timer_of_lock(lock), /* must= */ is_armed, /* may= */ is_armed);
}

/* Invariant 7. */
static void check_names(const struct core *core, const struct lock *lock)
{
    const struct secret *secret = &lock_metadata(lock)->idempotency;
    const struct lock *at = NULL;
    while ((at = lock_index_next(core, lock->key, &lock->token, at)) != lock)
        CORE_ASSERT(at != NULL);
    CORE_ASSERT(secret->len == 0 || hash_has(&lock->metadata->by_secret));
    at = NULL;
    while (secret->len > 0 && (at = lock_index_next_secret(core, lock->key, secret, at)) != lock)
        CORE_ASSERT(at != NULL);
}

/* Invariants 3 and 4. */
static void check_promises(const struct core *core, const struct lock *lock)
{
    bool is_held = lock->state == LOCK_HELD;
    bool owes = lock->state == LOCK_RELEASING || lock->state == LOCK_ENDED;
    CORE_ASSERT(
        !is_held ||
        !instant_before(hold_lost_at(lock), timers_at(&core->timers, timer_of_lock(lock))) ||
        core->ending);
    CORE_ASSERT(!is_held || lock->reason == REASON_NONE);
    CORE_ASSERT(lock->state != LOCK_LOST || lock->reason != REASON_NONE);
    CORE_ASSERT(owes || lock->owed == 0);
    CORE_ASSERT((lock->owed & ~lock->written) == 0);
    CORE_ASSERT((lock->written & ~set_first(core->groups[lock->group].config.masters)) == 0);
    CORE_ASSERT(lock->terms.count >= 1 && lock->quorum >= 1);
}

static void check_lock(const struct core *core, const struct lock *lock, struct found *found)
{
    bool is_free = lock->state == LOCK_FREE;
    CORE_ASSERT(lock == lock_at(core, lock->slot) && (lock->key == NULL) == is_free);
    /* invariant 2 */
    check_timer(&core->timers, timer_of_lock(lock), /* must= */ !is_free, /* may= */ !is_free);
    found->timers += timers_is_armed(&core->timers, timer_of_lock(lock));
    check_renewal(core, lock);
    found->renewals += timers_is_armed(&core->renewals, timer_of_lock(lock));
    CORE_ASSERT(!is_free || !hash_has(&lock->by_token));
    if (is_free)
        return;
    check_holds(lock);
    check_names(core, lock);
    check_promises(core, lock);
    found->under_way += lock_is_under_way(lock);
    found->ended += !lock_is_under_way(lock);
    found->references++;
    /* invariant 9 */
    CORE_ASSERT((lock->pending == NULL) == (lock->state == LOCK_HELD || lock->state == LOCK_LOST));
    found->pending += lock->pending != NULL;
    found->metadata += lock->metadata != NULL;
    found->in_flight[lock->group] += lock->has_place && !lock->is_guest;
    found->guests[lock->group] += lock->is_guest;
    found->held += lock->state == LOCK_HELD;
    found->held_by_policy[lock->policy] += lock->state == LOCK_HELD;
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        found->debt[lock->group][m] += set_has(lock->owed, m);
}

static void check_ended(const struct list *list, bool owe)
{
    for (const struct link *at = list->head.next; at != &list->head; at = at->next) {
        const struct lock *lock = CONTAINER_OF(at, struct lock, link);
        CORE_ASSERT(lock->state == LOCK_ENDED && (lock->owed != 0) == owe);
    }
}

/* ---- requests ---- */

static void check_request(const struct core *core, const struct core_request *request,
                          struct found *found)
{
    enum request_state state = request->state;
    bool is_again = state == REQUEST_RENEWING && confirm_is_wanted(request);
    bool must = state == REQUEST_WAITING || state == REQUEST_ONCE || state == REQUEST_READING ||
                state == REQUEST_FOLLOWING || state == REQUEST_GUEST || is_again;
    CORE_ASSERT(!is_again ||
                (request->held->state == LOCK_HELD && request->held->key == request->key));
    check_timer(&core->timers, timer_of_request(core, request), must, /* may= */ must);
    found->timers += timers_is_armed(&core->timers, timer_of_request(core, request));
    CORE_ASSERT((request->key == NULL) == (state == REQUEST_FREE));
    if (state == REQUEST_FREE)
        return;
    CORE_ASSERT(request == &core->requests[request->slot] && state != REQUEST_BEGUN);
    CORE_ASSERT((request->link.next == NULL) ==
                (state == REQUEST_READING || state == REQUEST_FOLLOWING));
    CORE_ASSERT(state != REQUEST_FOLLOWING || request->follows);
    /* Invariant 11. */
    CORE_ASSERT(request->follows == (request->key->contention != NULL &&
                                     request->key->contention->follower == request));
    CORE_ASSERT(request->attempt == NULL || (request->attempt->key == request->key && must));
    CORE_ASSERT(request->in_flight == (state == REQUEST_READING));
    found->guests[request->key->group] += request->in_flight;
    found->guests_waiting[request->key->group] += state == REQUEST_GUEST;
    found->requests++;
    found->waiters += state == REQUEST_WAITING;
    found->references++;
}

static void check_queue(const struct key *key, const struct list *list, enum request_state state)
{
    for (const struct link *at = list->head.next; at != &list->head; at = at->next) {
        const struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        CORE_ASSERT(request->key == key && request->state == state);
        CORE_ASSERT(hash_has(&request->by_secret) == (request->metadata.idempotency.len > 0));
    }
}

/* ---- keys ---- */

/* Invariant 10. */
static void check_cared_for(const struct core *core, const struct key *key)
{
    const struct contention *contention = key->contention;
    bool is_taken =
        key->form == FORM_SHARED
            ? key_obstacle(key, MODE_READ, /* token= */ NULL) != NULL || contention->attempts > 0
            : !key_admits(key);
    bool is_idle = !is_taken && !key_awaits_round(key);
    bool waits = key_next_waiter(key) != NULL;
    CORE_ASSERT(!is_idle || list_is_empty(&contention->once) || core->draining);
    CORE_ASSERT(!is_idle || !waits || key_has_retry(core, key) || core->draining);
}

static void check_contention(const struct core *core, const struct key *key, struct found *found)
{
    const struct contention *contention = key->contention;
    CORE_ASSERT(contention->key == key);
    CORE_ASSERT(key->references >= length_of(&key->holds) + length_of(&contention->waiters) +
                                       length_of(&contention->once));
    check_queue(key, &contention->waiters, REQUEST_WAITING);
    check_queue(key, &contention->once, REQUEST_ONCE);
    CORE_ASSERT(!contention->is_refused || contention->attempts > 0);
    CORE_ASSERT(contention->follower == NULL || contention->channel.watched);
    bool is_queued = key_awaits_round(key);
    CORE_ASSERT(!is_queued || (key_admits(key) && !key_has_retry(core, key)));
    CORE_ASSERT(!is_queued || !list_is_empty(&contention->waiters) ||
                !list_is_empty(&contention->once));
    check_cared_for(core, key);
    check_timer(&core->timers, timer_of_key(core, key), /* must= */ false, /* may= */ true);
    found->timers += key_has_retry(core, key);
    found->contentions++;
}

/* Invariant 1. */
static void check_occupants(const struct key *key)
{
    uint32_t attempts = 0, contending = 0, held = 0;
    for (const struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        const struct lock *lock = CONTAINER_OF(at, struct lock, link);
        CORE_ASSERT(lock->key == key);
        CORE_ASSERT(key->form == FORM_SHARED
                        ? lock->terms.mode == MODE_READ || at == key->holds.head.next
                        : key_obstacle(key, MODE_WRITE, &lock->token) == lock);
        CORE_ASSERT(lock->token.has_slot == (key->form == FORM_SLOTS));
        attempts += lock_is_attempt(lock);
        contending += lock->has_place;
        held += lock->state == LOCK_HELD;
    }
    CORE_ASSERT(key->held == held);
    CORE_ASSERT(attempts == (key->contention == NULL ? 0 : key->contention->attempts));
    CORE_ASSERT(contending <= 1 || key->form == FORM_SHARED);
}

/* Returns its references: their number and their sum are invariant 5. */
static uint32_t check_key(const struct core *core, const struct key *key, struct found *found)
{
    CORE_ASSERT(key_find(core, key_text(key)) == key);
    check_occupants(key);
    if (key->contention != NULL)
        check_contention(core, key, found);
    else /* invariant 9 */
        CORE_ASSERT(key->references == 1 && !list_is_empty(&key->holds));
    return key->references;
}

/* ---- all of it ---- */

static void check_heap(const struct timers *timers)
{
    for (uint32_t place = 2; place <= timers->count; place++)
        CORE_ASSERT(!instant_before(timers->heap[place].at, timers->heap[(place - 2) / 4 + 1].at));
}

/* Compares the slots in use with the keys, locks and attempts that were found, and with those that
 * were freed in this step. */
static void check_slots(const struct core *core, uint32_t keys, const struct found *found)
{
    uint32_t left = 0, metadata = found->metadata;
    for (const struct key *key = core->keys_touched; key != NULL; key = key->next)
        left += key->references == 0;
    const struct link *retired = &core->locks_retired.head;
    for (const struct link *at = retired->next; at != retired; at = at->next)
        metadata += CONTAINER_OF(at, struct lock, link)->metadata != NULL;
    CORE_ASSERT(core->names.taken == keys + left);
    CORE_ASSERT(core->contentions.taken == found->contentions + left);
    CORE_ASSERT(core->pending.taken == found->pending);
    CORE_ASSERT(core->metadata.taken == metadata);
}

/* R16. */
static void check_admission(const struct core *core, size_t group, const struct found *found)
{
    const struct core_rounds *rounds = &core->stats.rounds[group];
    CORE_ASSERT(rounds->in_flight == found->in_flight[group]);
    CORE_ASSERT(rounds->waiting == length_of(&core->groups[group].admission.queue));
    CORE_ASSERT(rounds->guests == found->guests[group]);
    CORE_ASSERT(rounds->guests_waiting == found->guests_waiting[group]);
    CORE_ASSERT(rounds->guests_waiting == length_of(&core->groups[group].admission.guests));
    CORE_ASSERT(rounds->limit >= core->rounds_min && rounds->limit <= core->rounds_max);
}

static void check_counts(const struct core *core, const struct found *found)
{
    const struct core_stats *stats = &core->stats;
    CORE_ASSERT(core->locks_under_way == found->under_way);
    CORE_ASSERT(core->ended_count == found->ended);
    CORE_ASSERT(length_of(&core->locks_ended) + length_of(&core->locks_remembered) == found->ended);
    CORE_ASSERT(stats->locks_held == found->held);
    CORE_ASSERT(stats->requests == found->requests);
    CORE_ASSERT(stats->waiters == found->waiters);
    CORE_ASSERT(core->timers.count == found->timers && core->renewals.count == found->renewals);
    for (size_t p = 0; p < core->policy_count; p++)
        CORE_ASSERT(stats->held_by_policy[p] == found->held_by_policy[p]);
    for (size_t g = 0; g < core->group_count; g++) {
        for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
            CORE_ASSERT(stats->debt[g][m] == found->debt[g][m]);
        check_admission(core, g, found);
    }
}

void core_check_counters(const struct core *core)
{
    const struct core_stats *stats = &core->stats;
    CORE_ASSERT(core->effects == NULL && (core->batch_count == 0) == (core->gathered == 0));
    CORE_ASSERT(core->locks_under_way <= core->locks_max && core->ended_count <= core->ended_max);
    CORE_ASSERT(core->locks_under_way + core->ended_count == stats->locks_tracked);
    CORE_ASSERT(stats->locks_held <= core->locks_under_way);
    CORE_ASSERT(stats->waiters <= core->waiters_max && stats->waiters <= stats->requests);
    CORE_ASSERT(stats->requests <= core->requests_used);
    CORE_ASSERT(core->locks_used <= core->locks_size && core->keys_used <= core->keys_size);
}

void core_check(const struct core *core)
{
    struct found found = {0};
    uint64_t references = 0;
    uint32_t keys = 0;
    core_check_counters(core);
    for (uint32_t i = 0; i < core->locks_used; i++)
        check_lock(core, lock_at(core, i), &found);
    for (uint32_t i = 0; i < core->requests_used; i++) {
        if (core->requests[i].generation != 0) /* Its number was used before. */
            check_request(core, &core->requests[i], &found);
    }
    for (uint32_t i = 0; i < core->keys_used; i++) {
        if (core->keys[i].references == 0)
            continue;
        keys++;
        references += check_key(core, &core->keys[i], &found);
    }
    check_slots(core, keys, &found);
    CORE_ASSERT(references == found.references);
    const struct link *settled = &core->settled.head;
    for (const struct link *at = settled->next; at != settled; at = at->next)
        CORE_ASSERT(CONTAINER_OF(at, struct core_request, link)->state == REQUEST_SETTLED);
    check_ended(&core->locks_ended, /* owe= */ true);
    check_ended(&core->locks_remembered, /* owe= */ false);
    check_heap(&core->timers);
    check_heap(&core->renewals);
    used_up_check(core);
    check_counts(core, &found);
}
