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

static uint64_t token_hash(const struct core *core, const struct key *key,
                           const struct token *token)
{
    return secret_hash(core, key, token->random, RANDOM_BYTES);
}

void lock_index_token(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    hash_add(&core->locks_by_token, &lock->by_token, token_hash(core, lock->key, &lock->token));
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

void lock_index_remove(struct core *core, struct lock *lock)
{
    if (hash_has(&lock->by_token))
        hash_remove(&core->locks_by_token, &lock->by_token,
                    token_hash(core, lock->key, &lock->token));
    if (lock->words != NULL && hash_has(&lock->words->by_secret)) {
        const struct secret *secret = &lock->words->words.idempotency;
        hash_remove(&core->locks_by_secret, &lock->words->by_secret,
                    secret_hash(core, lock->key, secret->bytes, secret->len));
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
        bool is_at = lock->key == key && lock->token.permit == token->permit;
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
    struct hash_link *at =
        after != NULL ? hash_next(table, &after->words->by_secret)
                      : hash_first(table, secret_hash(core, key, secret->bytes, secret->len));
    for (; at != NULL; at = hash_next(table, at)) {
        const struct kept_words *kept = CONTAINER_OF(at, struct kept_words, by_secret);
        if (kept->lock->key == key && secret_same(&kept->words.idempotency, secret))
            return kept->lock;
    }
    return NULL;
}
