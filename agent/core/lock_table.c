/* The tables of keys and locks: fixed arrays, free lists, one hash of names. Slots that were never used are never
 * touched, so that an idle agent stays small whatever its limits. */
#include <string.h>

#include "core_assert.h"
#include "state.h"

void list_init(struct list *list)
{
    list->head.next = list->head.prev = &list->head;
}

bool list_is_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

void list_append(struct list *list, struct link *link)
{
    CORE_ASSERT(link->next == NULL && link->prev == NULL);
    link->prev = list->head.prev;
    link->next = &list->head;
    link->prev->next = link;
    list->head.prev = link;
}

void list_insert(struct link *before, struct link *link)
{
    CORE_ASSERT(link->next == NULL && link->prev == NULL && before->next != NULL);
    link->prev = before->prev;
    link->next = before;
    link->prev->next = link;
    before->prev = link;
}

void list_remove(struct link *link)
{
    if (link->next == NULL)
        return;
    link->next->prev = link->prev;
    link->prev->next = link->next;
    link->next = link->prev = NULL;
}

struct link *list_first(const struct list *list)
{
    return list_is_empty(list) ? NULL : list->head.next;
}

/* ---- keys ---- */

static uint64_t hash_of(const struct core *core, struct text name)
{
    return hash_bytes(core->hash_key[0], core->hash_key[1], name.at, name.len);
}

static struct key **bucket_of(const struct core *core, uint64_t hash)
{
    return &core->buckets[hash & (core->bucket_count - 1)];
}

struct text key_text(const struct key *key)
{
    return (struct text){key->name, key->len};
}

struct key *key_find(const struct core *core, struct text name)
{
    uint64_t hash = hash_of(core, name);
    for (struct key *key = *bucket_of(core, hash); key != NULL; key = key->next) {
        if (key->hash == hash && key->len == name.len && memcmp(key->name, name.at, name.len) == 0)
            return key;
    }
    return NULL;
}

struct key *key_get(struct core *core, struct text name)
{
    CORE_ASSERT(name.len >= 1 && name.len <= LIMIT_KEY_BYTES);
    struct key *key = key_find(core, name);
    if (key != NULL)
        return key;
    if (core->keys_free != NULL) {
        key = core->keys_free;
        core->keys_free = key->next;
    } else if (core->keys_used < core->keys_size) {
        key = &core->keys[core->keys_used++];
    } else {
        return NULL;
    }
    uint32_t slot = (uint32_t)(key - core->keys);
    memset(key, 0, offsetof(struct key, name));
    key->slot = slot;
    key->len = (uint16_t)name.len;
    memcpy(key->name, name.at, name.len);
    key->hash = hash_of(core, name);
    key->policy = core_policy_of(core, name);
    key->group = policy_group(core, key->policy, name);
    key->last_answer = ANSWER_LOCK_HELD;
    key->last_retry_ms = -1;
    key->last_guarded = 0;
    key->retry.owner = TIMER_OF_KEY;
    list_init(&key->locks);
    list_init(&key->waiters);
    list_init(&key->once);
    struct key **bucket = bucket_of(core, key->hash);
    key->next = *bucket;
    *bucket = key;
    return key;
}

void key_release(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0);
    if (list_is_empty(&key->waiters)) {
        wake_unwatch(core, key);
        ticket_withdrawn(core, key);
    }
    if (--key->references > 0)
        return;
    CORE_ASSERT(key->live == NULL && list_is_empty(&key->locks));
    timers_clear(&core->timers, &key->retry);
    struct key **at = bucket_of(core, key->hash);
    while (*at != key)
        at = &(*at)->next;
    *at = key->next;
    key->next = core->keys_retired;
    core->keys_retired = key;
}

void lock_table_recycle(struct core *core)
{
    while (core->keys_retired != NULL) {
        struct key *key = core->keys_retired;
        core->keys_retired = key->next;
        key->next = core->keys_free;
        core->keys_free = key;
    }
    struct link *link;
    while ((link = list_first(&core->locks_retired)) != NULL) {
        list_remove(link);
        list_append(&core->locks_free, link);
    }
}

/* ---- locks ---- */

static bool is_live(enum lock_state state)
{
    return state != LOCK_FREE && state != LOCK_ENDED;
}

static struct lock *take_slot(struct core *core)
{
    struct link *link = list_first(&core->locks_free);
    if (link != NULL) {
        list_remove(link);
        return CONTAINER_OF(link, struct lock, of_state);
    }
    CORE_ASSERT(core->locks_used < core->locks_size);
    struct lock *lock = &core->locks[core->locks_used];
    lock->slot = core->locks_used++;
    return lock;
}

struct lock *lock_new(struct core *core, struct key *key, enum lock_state state)
{
    if (core->locks_live >= core->locks_max)
        return NULL;
    struct lock *lock = take_slot(core);
    const struct core_policy *policy = &core->policies[key->policy];
    *lock = (struct lock){
        .slot = lock->slot,
        .generation = lock->generation + 1,
        .key = key,
        .contender = NO_REQUEST,
        .policy = key->policy,
        .group = key->group,
        .quorum = round_quorum(policy->algorithm, core->groups[key->group].config.masters),
        .fencing = policy->fencing,
        .renew = policy->renew,
        .ttl_ms = policy->ttl_ms,
        .count = 1,
        .answers = 1,
        .lock_delay_ms = policy->lock_delay_ms,
        .max_hold_ms = policy->max_hold_ms,
        .valid_until = {INT64_MIN},
        .renew_at = INSTANT_NEVER,
        .lease_until = core->now,
        .forget_at = core->now,
        .owed_at = INSTANT_NEVER,
        .timer.owner = TIMER_OF_LOCK,
    };
    list_init(&lock->requests);
    key->references++;
    list_append(&key->locks, &lock->of_key);
    core->locks_live++;
    core->stats.locks_tracked++;
    lock_set_state(core, lock, state);
    return lock;
}

struct lock_ref lock_ref(const struct lock *lock)
{
    return (struct lock_ref){lock->slot, lock->generation, lock->round.number};
}

struct lock *lock_by_ref(struct core *core, struct lock_ref ref)
{
    CORE_ASSERT(ref.slot < core->locks_used);
    struct lock *lock = &core->locks[ref.slot];
    bool is_same = lock->generation == ref.generation || MUTANT(OLD_ATTEMPT_COUNTS);
    return lock->state != LOCK_FREE && is_same ? lock : NULL;
}

/* A lock that still waits for its first quorum has a token that no caller can know: it is not found. What is left of a
 * stranger's release says nothing about the token: the masters are asked anew. */
struct lock *lock_by_token(const struct key *key, const struct token *token)
{
    for (struct link *at = key->locks.head.next; at != &key->locks.head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, of_key);
        bool known = lock->state == LOCK_HELD || lock->state == LOCK_LOST || lock->state == LOCK_RELEASING ||
                     (lock->state == LOCK_ENDED && !lock->stranger);
        if (known && lock->token.fence == token->fence && token_same_random(&lock->token, token))
            return lock;
    }
    return NULL;
}

static void count_held(struct core *core, const struct lock *lock, int by)
{
    core->stats.locks_held += (uint32_t)by;
    core->stats.held_by_policy[lock->policy] += (uint32_t)by;
}

void lock_set_state(struct core *core, struct lock *lock, enum lock_state state)
{
    if (lock->state == LOCK_HELD && state != LOCK_HELD)
        count_held(core, lock, -1);
    if (lock->state != LOCK_HELD && state == LOCK_HELD)
        count_held(core, lock, 1);
    lock->state = state;
    bool occupies = state == LOCK_ACQUIRING || state == LOCK_RAISING || state == LOCK_HELD || state == LOCK_LOST;
    if (occupies) {
        CORE_ASSERT(lock->key->live == NULL || lock->key->live == lock);
        lock->key->live = lock;
    } else if (lock->key->live == lock) {
        lock->key->live = NULL;
    }
}

void lock_end(struct core *core, struct lock *lock)
{
    CORE_ASSERT(is_live(lock->state) && list_is_empty(&lock->requests));
    lock_set_state(core, lock, LOCK_ENDED);
    lock->contender = NO_REQUEST;
    core->locks_live--;
    if (core->ended_count == core->ended_max) {
        const struct list *from = list_is_empty(&core->locks_remembered) ? &core->locks_ended : &core->locks_remembered;
        struct lock *oldest = CONTAINER_OF(list_first(from), struct lock, of_state);
        if (oldest->owed != 0)
            outbox_trace(core, (struct effect_trace){.kind = TRACE_DEBT_DROPPED}, oldest);
        lock_free(core, oldest);
    }
    list_append(&core->locks_ended, &lock->of_state);
    core->ended_count++;
}

static void forgive_debts(struct core *core, struct lock *lock)
{
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        core->stats.debt[lock->group][m] -= set_has(lock->owed, m);
    lock->owed = 0;
}

void lock_free(struct core *core, struct lock *lock)
{
    CORE_ASSERT(list_is_empty(&lock->requests));
    if (lock->noted)
        outbox_effect(core, EFFECT_HOLD)->hold = (struct effect_hold){.slot = lock->slot, .forgotten = true};
    if (is_live(lock->state)) {
        core->locks_live--;
    } else {
        core->ended_count--;
        forgive_debts(core, lock);
    }
    lock_set_state(core, lock, LOCK_FREE);
    timers_clear(&core->timers, &lock->timer);
    list_remove(&lock->of_state);
    list_remove(&lock->of_key);
    list_append(&core->locks_retired, &lock->of_state);
    core->stats.locks_tracked--;
    struct key *key = lock->key;
    lock->key = NULL;
    key_release(core, key);
}

bool lock_is_held(const struct core *core, const struct lock *lock)
{
    return lock->state == LOCK_HELD && instant_before(core->now, lock->valid_until);
}

struct hold_view lock_view(const struct lock *lock)
{
    uint8_t confirmed = 0;
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        confirmed = (uint8_t)(confirmed + (lock->confirmed[m] != 0));
    return (struct hold_view){
        .key = key_text(lock->key),
        .label = {lock->label, lock->label_len},
        .token = lock->token,
        .policy = lock->policy,
        .group = lock->group,
        .renew = lock->renew,
        .bound = lock->bound,
        .ttl_ms = lock->ttl_ms,
        .acquired_at = lock->acquired_at,
        .valid_until = lock->valid_until,
        .max_hold_until = lock->max_hold_until,
        .count = lock->count,
        .confirmed = confirmed,
    };
}
