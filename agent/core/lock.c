/* The table of locks: a fixed array, and lists of its free, retired and ended slots; how a lock
 * passes from one state to the next. */
#include "internal.h"

#include <string.h>

#include "core_assert.h"
#include "names.h"

/* ---- metadata of locks, in a table of their own ---- */

const struct metadata *lock_metadata(const struct lock *lock)
{
    static const struct metadata none;
    CORE_ASSERT(lock->metadata == NULL || lock->metadata->lock == lock);
    return lock->metadata == NULL ? &none : &lock->metadata->metadata;
}

struct text lock_label(const struct lock *lock)
{
    const struct metadata *metadata = lock_metadata(lock);
    struct text label = metadata_label(metadata);
    if (lock->metadata != NULL && lock->metadata->is_other)
        label.at = lock->metadata->other_label;
    return label;
}

struct metadata lock_metadata_copy(const struct lock *lock)
{
    struct metadata copy = *lock_metadata(lock);
    metadata_set_label(&copy, lock_label(lock));
    return copy;
}

void lock_keep_metadata(struct core *core, struct lock *lock, const struct metadata *metadata)
{
    CORE_ASSERT(lock->state != LOCK_FREE && lock->metadata == NULL);
    if (metadata_is_none(metadata))
        return;
    lock->metadata = slots_take(&core->metadata);
    *lock->metadata = (struct kept_metadata){.lock = lock, .metadata = *metadata};
}

/* ---- finding a lock ---- */

/* Two hash tables over all locks. Callers choose tokens and idempotency keys, so the hash is keyed.
 * The key's own hash is mixed in, because the same token or idempotency key may be shown with many
 * keys. Both are secrets: the secrets in a bucket are compared in constant time (R10). */

static uint64_t token_hash(const struct core *core, const struct key *key,
                           const struct token *token)
{
    return hash_bytes(core->hash_key[0] ^ key->hash, core->hash_key[1], token->random,
                      RANDOM_BYTES);
}

void lock_index_token(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    hash_add(&core->locks_by_token, &lock->by_token, token_hash(core, lock->key, &lock->token));
}

void lock_index_secret(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    const struct secret *secret = &lock_metadata(lock)->idempotency;
    if (secret->len == 0)
        return;
    uint64_t hash = secret_hash(core, lock->key->hash, secret);
    hash_add(&core->locks_by_secret, &lock->metadata->by_secret, hash);
}

/* Removes the lock from both tables, if it is in them. Its key and metadata must not have
 * changed. */
static void lock_index_remove(struct core *core, struct lock *lock)
{
    if (hash_has(&lock->by_token))
        hash_remove(&core->locks_by_token, &lock->by_token,
                    token_hash(core, lock->key, &lock->token));
    if (lock->metadata != NULL && hash_has(&lock->metadata->by_secret)) {
        const struct secret *secret = &lock->metadata->metadata.idempotency;
        hash_remove(&core->locks_by_secret, &lock->metadata->by_secret,
                    secret_hash(core, lock->key->hash, secret));
    }
}

struct lock *lock_index_next(const struct core *core, const struct key *key,
                             const struct token *token, const struct lock *after)
{
    const struct hash_table *table = &core->locks_by_token;
    struct hash_link *at = after != NULL ? hash_next(table, &after->by_token)
                                         : hash_first(table, token_hash(core, key, token));
    for (; at != NULL; at = hash_next(table, at)) {
        struct lock *lock = CONTAINER_OF(at, struct lock, by_token);
        bool is_at = lock->key == key && token_same_slot(&lock->token, token);
        if (is_at && token_same_random(&lock->token, token))
            return lock;
    }
    return NULL;
}

struct lock *lock_index_next_secret(const struct core *core, const struct key *key,
                                    const struct secret *secret, const struct lock *after)
{
    CORE_ASSERT(secret->len > 0);
    const struct hash_table *table = &core->locks_by_secret;
    struct hash_link *at = after != NULL ? hash_next(table, &after->metadata->by_secret)
                                         : hash_first(table, secret_hash(core, key->hash, secret));
    for (; at != NULL; at = hash_next(table, at)) {
        const struct kept_metadata *kept = CONTAINER_OF(at, struct kept_metadata, by_secret);
        if (kept->lock->key == key && secret_same(&kept->metadata.idempotency, secret))
            return kept->lock;
    }
    return NULL;
}

/* ---- the table ---- */

bool lock_is_under_way(const struct lock *lock)
{
    return lock->state != LOCK_FREE && lock->state != LOCK_ENDED;
}

static struct lock *take_slot(struct core *core)
{
    struct link *link = list_first(&core->locks_free);
    if (link != NULL) {
        list_remove(link);
        CORE_ASSERT(CONTAINER_OF(link, struct lock, link)->state == LOCK_FREE);
        return CONTAINER_OF(link, struct lock, link);
    }
    CORE_ASSERT(core->locks_used < core->locks_size);
    struct lock *lock = lock_at(core, core->locks_used);
    lock->slot = core->locks_used++;
    return lock;
}

struct lock *lock_new(struct core *core, struct key *key, enum lock_state state, enum mode mode)
{
    CORE_ASSERT(state != LOCK_FREE && state != LOCK_ENDED);
    CORE_ASSERT(key->references > 0 && (mode == MODE_WRITE || key->form == FORM_SHARED));
    if (core->locks_under_way >= core->locks_max)
        return NULL;
    struct lock *lock = take_slot(core);
    const struct core_policy *policy = &core->policies[key->policy];
    *lock = (struct lock){
        .slot = lock->slot,
        .generation = lock->generation + 1,
        .key = key,
        .policy = key->policy,
        .group = key->group,
        .quorum = round_quorum(policy->algorithm, core->groups[key->group].config.masters),
        .fencing = policy->fencing,
        .answers = 1,
        .lock_delay_ms = mode == MODE_READ ? 0 : policy->lock_delay_ms,
        .terms = {.ttl_ms = policy->ttl_ms,
                  .renew = policy->renew,
                  .mode = mode,
                  .max_hold_ms = policy->max_hold_ms,
                  .count = 1},
        .valid_until = {INT64_MIN},
        .lease_until = core->now,
    };
    memset(lock->masters, 0, core->lock_bytes - offsetof(struct lock, masters));
    list_init(&lock->requests);
    key_refer(core, key);
    core->locks_under_way++;
    core->stats.locks_tracked++;
    lock_set_state(core, lock, state);
    return lock;
}

struct lock_ref lock_ref(const struct lock *lock)
{
    return (struct lock_ref){lock->slot, lock->generation, lock->round.number};
}

bool lock_release_may_answer(const struct lock *lock)
{
    bool has_key = lock_metadata(lock)->idempotency.len > 0;
    return lock->given_back || (lock->state == LOCK_RELEASING && has_key);
}

struct lock *lock_by_ref(struct core *core, struct lock_ref ref)
{
    CORE_ASSERT(ref.slot < core->locks_used);
    struct lock *lock = lock_at(core, ref.slot);
    bool is_same = lock->generation == ref.generation || MUTANT(OLD_ATTEMPT_COUNTS);
    return lock->state != LOCK_FREE && is_same ? lock : NULL;
}

/* A lock that still waits for its first quorum has a token that no caller can know: it is not
 * found. A lock that is left of a stranger's release says nothing about the token: the masters are
 * asked anew. */
struct lock *lock_by_token(const struct core *core, const struct key *key,
                           const struct token *token)
{
    struct lock *lock = NULL;
    while ((lock = lock_index_next(core, key, token, lock)) != NULL) {
        bool known = lock->state == LOCK_HELD || lock->state == LOCK_LOST ||
                     lock->state == LOCK_RELEASING ||
                     (lock->state == LOCK_ENDED && !lock->stranger);
        if (known && lock->token.fence == token->fence)
            return lock;
    }
    return NULL;
}

static void count_held(struct core *core, const struct lock *lock, int by)
{
    CORE_ASSERT(by > 0 || core->stats.locks_held > 0);
    core->stats.locks_held += (uint32_t)by;
    lock->key->held += (uint32_t)by;
    core->stats.held_by_policy[lock->policy] += (uint32_t)by;
    if (lock->terms.mode == MODE_READ)
        core->stats.read_by_policy[lock->policy] += (uint32_t)by;
}

bool lock_occupies_key(enum lock_state state)
{
    return state == LOCK_ACQUIRING || state == LOCK_RAISING || state == LOCK_HELD ||
           state == LOCK_LOST;
}

/* Returns true if the diagram of state.h has this transition. */
static bool may_pass(enum lock_state from, enum lock_state to)
{
    CORE_ASSERT(from <= LOCK_ENDED && to <= LOCK_ENDED);
    enum {
        ACQUIRING = 1 << LOCK_ACQUIRING,
        RAISING = 1 << LOCK_RAISING,
        ADOPTING = 1 << LOCK_ADOPTING,
        HELD = 1 << LOCK_HELD,
        LOST = 1 << LOCK_LOST,
        RELEASING = 1 << LOCK_RELEASING,
        ENDED = 1 << LOCK_ENDED,
        FREE = 1 << LOCK_FREE,
    };
    static const uint8_t allowed[] = {
        [LOCK_FREE] = ACQUIRING | ADOPTING | HELD | RELEASING,
        [LOCK_ACQUIRING] = RAISING | HELD | ENDED,
        [LOCK_RAISING] = HELD | ENDED,
        [LOCK_ADOPTING] = HELD | FREE,
        [LOCK_HELD] = LOST | RELEASING,
        [LOCK_LOST] = RELEASING | ENDED,
        [LOCK_RELEASING] = ENDED,
        [LOCK_ENDED] = FREE,
    };
    return (allowed[from] >> to & 1) != 0;
}

static bool has_pending(enum lock_state state)
{
    return state != LOCK_HELD && state != LOCK_LOST && state != LOCK_FREE;
}

static void fit_pending(struct core *core, struct lock *lock, enum lock_state next)
{
    CORE_ASSERT(has_pending(lock->state) == (lock->pending != NULL));
    if (has_pending(next) && lock->pending == NULL) {
        lock->pending = slots_take(&core->pending);
        memset(lock->pending, 0, core->pending.bytes);
        lock->pending->contender = NO_REQUEST;
        lock->pending->owed_at = INSTANT_NEVER;
    } else if (!has_pending(next) && lock->pending != NULL && !MUTANT(PENDING_KEPT)) {
        slots_give(&core->pending, lock->pending);
        lock->pending = NULL;
    }
}

/* Keeps a writer at the head of key->holds, before all readers (invariant 1). */
static void occupy(struct lock *lock)
{
    struct key *key = lock->key;
    bool reads = lock->terms.mode == MODE_READ;
    CORE_ASSERT(key_obstacle(key, MODE_READ, &lock->token) == NULL);
    CORE_ASSERT(!reads || key->form == FORM_SHARED);
    if (reads || list_is_empty(&key->holds) || key->form != FORM_SHARED)
        list_append(&key->holds, &lock->link);
    else
        list_insert(list_first(&key->holds), &lock->link);
}

/* Changes the state of a lock. No other function does. */
void lock_set_state(struct core *core, struct lock *lock, enum lock_state state)
{
    CORE_ASSERT(may_pass(lock->state, state));
    key_touched(core, lock->key);
    if (lock->state == LOCK_HELD) {
        count_held(core, lock, -1);
        timers_clear(&core->renewals, timer_of_lock(lock));
    }
    if (state == LOCK_HELD)
        count_held(core, lock, 1);
    if (is_of_attempt(lock->state) && !is_of_attempt(state)) {
        struct contention *contention = lock->key->contention;
        CORE_ASSERT(contention->attempts > 0);
        contention->attempts--;
        contention->is_refused &= contention->attempts > 0;
        if (lock->pending->contender != NO_REQUEST)
            core->requests[lock->pending->contender].attempt = NULL;
    }
    fit_pending(core, lock, state);
    if (!lock_occupies_key(state))
        list_remove(&lock->link);
    else if (!lock_occupies_key(lock->state))
        occupy(lock);
    if (is_of_attempt(state) && !is_of_attempt(lock->state))
        lock->key->contention->attempts++;
    lock->state = state;
    if (!is_of_attempt(state) && state != LOCK_ADOPTING)
        admission_ended(core, lock);
}

bool lock_is_held(const struct core *core, const struct lock *lock)
{
    return lock->state == LOCK_HELD && instant_before(core->now, lock->valid_until);
}

struct hold_view lock_view(const struct lock *lock)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    return (struct hold_view){
        .key = key_text(lock->key),
        .label = lock_label(lock),
        .token = lock->token,
        .policy = lock->policy,
        .group = lock->group,
        .mode = lock->terms.mode,
        .renew = lock->terms.renew,
        .bound = lock->terms.bound,
        .ttl_ms = lock->terms.ttl_ms,
        .acquired_at = lock->acquired_at,
        .valid_until = lock->valid_until,
        .max_hold_until = lock->max_hold_until,
        .count = lock->terms.count,
        .permits = lock->key->permits,
    };
}

void lock_remove(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->key != NULL);
    CORE_ASSERT(list_is_empty(&lock->requests));
    CORE_ASSERT(lock->owed == 0);
    if (lock_is_under_way(lock))
        core->locks_under_way--;
    else
        core->ended_count--;
    lock_set_state(core, lock, LOCK_FREE);
    timers_clear(&core->timers, timer_of_lock(lock));
    list_remove(&lock->link);
    lock_index_remove(core, lock);
    list_append(&core->locks_retired, &lock->link);
    core->stats.locks_tracked--;
    lock->key = NULL;
}

void lock_table_recycle(struct core *core)
{
    struct link *link;
    while ((link = list_first(&core->locks_retired)) != NULL) {
        struct lock *lock = CONTAINER_OF(link, struct lock, link);
        list_remove(link);
        list_append(&core->locks_free, link);
        if (lock->metadata != NULL)
            slots_give(&core->metadata, lock->metadata);
        lock->metadata = NULL;
    }
}
