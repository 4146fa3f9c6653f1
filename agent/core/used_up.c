/* Idempotency keys that a DELETE has used up (D3.5).
 *
 * A copy of a POST may still be in flight when its lock is released. So its idempotency key is
 * refused for as long as such a copy can wait. It is remembered in a table of its own, so that no
 * lock and no key is kept for it. The table has as many entries as locks may be held. If it is
 * full, the oldest entry makes room. */
#include "internal.h"

#include "core_assert.h"

enum {
    USED_UP_MS_MIN = 1000, /* An idempotency key is refused for at least this long. */
    FORGOTTEN_AT_ONCE = 2, /* Keys that a new one takes out at most, so that none waits for many. */
};

static struct used_up *used_up_find(const struct core *core, const struct key *key,
                                    const struct secret *secret)
{
    CORE_ASSERT(secret->len > 0);
    const struct hash_table *table = &core->used_up_by_secret;
    struct hash_link *at = hash_first(table, secret_hash(core, key->hash, secret));
    for (; at != NULL; at = hash_next(table, at)) {
        struct used_up *used_up = CONTAINER_OF(at, struct used_up, by_secret);
        if (used_up->key_hash == key->hash && secret_same(&used_up->secret, secret))
            return used_up;
    }
    return NULL;
}

static void forget(struct core *core, struct used_up *used_up)
{
    hash_remove(&core->used_up_by_secret, &used_up->by_secret,
                secret_hash(core, used_up->key_hash, &used_up->secret));
    list_remove(&used_up->link);
    slots_give(&core->used_up, used_up);
}

bool used_up_has(const struct core *core, const struct key *key, const struct secret *secret)
{
    const struct used_up *used_up = used_up_find(core, key, secret);
    return used_up != NULL && instant_before(core->now, used_up->until);
}

void used_up_add(struct core *core, const struct key *key, const struct secret *secret)
{
    struct used_up *used_up = used_up_find(core, key, secret);
    if (used_up != NULL)
        forget(core, used_up);
    for (unsigned i = 0; i < FORGOTTEN_AT_ONCE; i++) {
        struct link *oldest = list_first(&core->used_up_order);
        if (oldest == NULL)
            break;
        used_up = CONTAINER_OF(oldest, struct used_up, link);
        if (core->used_up.taken < core->used_up.count && instant_before(core->now, used_up->until))
            break;
        forget(core, used_up);
    }
    int64_t ms = core->wait_ms_max > USED_UP_MS_MIN ? core->wait_ms_max : USED_UP_MS_MIN;
    used_up = slots_take(&core->used_up);
    *used_up = (struct used_up){
        .key_hash = key->hash, .secret = *secret, .until = instant_after_ms(core->now, ms)};
    hash_add(&core->used_up_by_secret, &used_up->by_secret, secret_hash(core, key->hash, secret));
    list_append(&core->used_up_order, &used_up->link);
}

void used_up_check(const struct core *core)
{
    uint32_t count = 0;
    struct instant before = {INT64_MIN};
    const struct list *list = &core->used_up_order;
    for (const struct link *at = list->head.next; at != &list->head; at = at->next, count++) {
        const struct used_up *used_up = CONTAINER_OF(at, struct used_up, link);
        CORE_ASSERT(used_up->secret.len > 0 && hash_has(&used_up->by_secret));
        CORE_ASSERT(!instant_before(used_up->until, before));
        before = used_up->until;
    }
    CORE_ASSERT(count == core->used_up.taken && count <= core->used_up.count);
}
