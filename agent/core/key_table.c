/* The table of keys: a fixed array, a free list, one hash of names. Slots that were never used
 * are never touched, so that an idle agent stays small whatever its limits. */
#include "key_table.h"

#include <string.h>

#include "core_assert.h"
#include "policy.h"

static uint64_t hash_of(const struct core *core, struct text name)
{
    return hash_bytes(core->hash_key[0], core->hash_key[1], name.at, name.len);
}

struct text key_text(const struct key *key)
{
    CORE_ASSERT(key->len >= 1 && key->len <= LIMIT_KEY_BYTES);
    return (struct text){key->name, key->len};
}

struct key *key_find(const struct core *core, struct text name)
{
    uint64_t hash = hash_of(core, name);
    struct hash_link *at = hash_first(&core->keys_by_name, hash);
    for (; at != NULL; at = at->next) {
        struct key *key = CONTAINER_OF(at, struct key, by_name);
        if (key->hash == hash && key->len == name.len && memcmp(key->name, name.at, name.len) == 0)
            return key;
    }
    return NULL;
}

static struct contest *new_contest(struct core *core, struct key *key)
{
    struct contest *contest = slots_take(&core->contests);
    *contest = (struct contest){
        .key = key,
        .retry.owner = TIMER_OF_KEY,
        .last_answer = ANSWER_LOCK_HELD,
        .last_retry_ms = -1,
    };
    list_init(&contest->waiters);
    list_init(&contest->once);
    return contest;
}

void key_refer(struct core *core, struct key *key)
{
    key->references++;
    if (key->contest == NULL)
        key->contest = new_contest(core, key);
}

/* Its contest would begin anew as it stands. */
static bool knows_nothing(const struct core *core, const struct contest *contest)
{
    CORE_ASSERT(contest->key->contest == contest);
    return contest->back_off_ms == 0 && contest->handovers == 0 && contest->channel.losses == 0 &&
           contest->channel.agents == 0 && contest->tickets.behind == 0 &&
           !contest->tickets.unreachable && !instant_before(core->now, contest->sits_out_until);
}

/* Nobody wants it but its holder here. */
static bool is_at_rest(const struct core *core, const struct key *key)
{
    CORE_ASSERT(key->references > 0 && key->contest != NULL);
    const struct lock *holder = key_holder(key);
    bool is_alone = key->references == 1 || MUTANT(CONTEST_ENDED_EARLY);
    return is_alone && holder != NULL && holder->state == LOCK_HELD &&
           key->contest->retry.place == 0 && !key->contest->channel.watched &&
           knows_nothing(core, key->contest);
}

static void end_contest(struct core *core, struct key *key)
{
    CORE_ASSERT(list_is_empty(&key->contest->waiters) && list_is_empty(&key->contest->once));
    CORE_ASSERT(key->contest->retry.place == 0 && key->contest->admission.link.next == NULL);
    slots_give(&core->contests, key->contest);
    key->contest = NULL;
}

void key_left(struct core *core, struct key *key)
{
    if (key->is_left)
        return;
    key->is_left = true;
    key->next = core->keys_left;
    core->keys_left = key;
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
        CORE_ASSERT(key->references == 0);
    } else {
        /* Each key has a lock or a request, and the table a slot for every one of both (init.c).
         * One that was freed in this step had a slot of theirs before it, and no step makes more
         * than one. */
        CORE_ASSERT(core->keys_used < core->keys_size);
        key = &core->keys[core->keys_used++];
    }
    *key = (struct key){0};
    key->len = (uint16_t)name.len;
    key->name = names_take(&core->names, name);
    key->hash = hash_of(core, name);
    key->policy = core_policy_of(core, name);
    key->group = policy_group(core, key->policy, name);
    list_init(&key->holds);
    hash_add(&core->keys_by_name, &key->by_name, key->hash);
    return key;
}

bool key_admits(const struct key *key)
{
    return list_is_empty(&key->holds);
}

static struct lock *first_in(const struct key *key, enum lock_state one, enum lock_state other)
{
    CORE_ASSERT(one != other);
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, link);
        if (lock->state == one || lock->state == other)
            return lock;
    }
    return NULL;
}

struct lock *key_holder(const struct key *key)
{
    return first_in(key, LOCK_HELD, LOCK_LOST);
}

struct lock *key_attempt(const struct key *key)
{
    return first_in(key, LOCK_ACQUIRING, LOCK_RAISING);
}

void key_remove(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references == 0 && list_is_empty(&key->holds));
    CORE_ASSERT(list_is_empty(&key->contest->waiters) && list_is_empty(&key->contest->once));
    CORE_ASSERT(key->contest->admission.link.next == NULL);
    timers_clear(&core->timers, &key->contest->retry);
    hash_remove(&key->by_name);
    CORE_ASSERT(key->is_left);
}

void key_table_recycle(struct core *core)
{
    struct key *key;
    while ((key = core->keys_left) != NULL) {
        core->keys_left = key->next;
        key->is_left = false;
        if (key->contest != NULL && (key->references == 0 || is_at_rest(core, key)))
            end_contest(core, key);
        if (key->references > 0)
            continue;
        names_give(&core->names, key->name, key->len);
        key->next = core->keys_free;
        core->keys_free = key;
    }
}
