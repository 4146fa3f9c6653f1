/* Two hash tables over all locks. Callers choose tokens and idempotency keys, so the hash is keyed;
 * the key's own hash is mixed in, for the same one may be shown with many keys. Both are secrets:
 * what a bucket has is compared in constant time (R10). */
#include "lock_index.h"

#include "lock_words.h"

static uint64_t secret_hash(const struct core *core, const struct key *key, const void *bytes,
                            size_t len)
{
    return hash_bytes(core->hash_key[0] ^ key->hash, core->hash_key[1], bytes, len);
}

void lock_index_token(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    uint64_t hash = secret_hash(core, lock->key, lock->token.random, RANDOM_BYTES);
    hash_add(&core->locks_by_token, &lock->by_token, hash);
}

void lock_index_secret(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    const struct secret *secret = &lock_words(lock)->idempotency;
    if (secret->len == 0)
        return;
    uint64_t hash = secret_hash(core, lock->key, secret->bytes, secret->len);
    hash_add(&core->locks_by_secret, &lock->words->by_secret, hash);
}

void lock_index_remove(struct lock *lock)
{
    hash_remove(&lock->by_token);
    if (lock->words != NULL)
        hash_remove(&lock->words->by_secret);
}

struct lock *lock_index_next(const struct core *core, const struct key *key,
                             const struct token *token, const struct lock *after)
{
    CORE_ASSERT(after == NULL || after->by_token.at != NULL);
    struct hash_link *at = after != NULL
                               ? after->by_token.next
                               : hash_first(&core->locks_by_token,
                                            secret_hash(core, key, token->random, RANDOM_BYTES));
    for (; at != NULL; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, by_token);
        if (lock->key == key && token_same_random(&lock->token, token))
            return lock;
    }
    return NULL;
}

struct lock *lock_index_next_secret(const struct core *core, const struct key *key,
                                    const struct secret *secret, const struct lock *after)
{
    CORE_ASSERT(secret->len > 0);
    CORE_ASSERT(after == NULL || after->words->by_secret.at != NULL);
    struct hash_link *at = after != NULL
                               ? after->words->by_secret.next
                               : hash_first(&core->locks_by_secret,
                                            secret_hash(core, key, secret->bytes, secret->len));
    for (; at != NULL; at = at->next) {
        const struct kept_words *kept = CONTAINER_OF(at, struct kept_words, by_secret);
        if (kept->lock->key == key && secret_same(&kept->words.idempotency, secret))
            return kept->lock;
    }
    return NULL;
}
