/* Secrets of callers: the owner of a reentrant lock (R11), and the idempotency key of a request
 * (D3). */
#include "secret.h"

#include <string.h>

#include "core_assert.h"

void secret_take(struct secret *secret, struct text text)
{
    CORE_ASSERT(text.len <= LIMIT_SECRET_BYTES);
    secret->len = (uint8_t)text.len;
    if (text.len > 0)
        memcpy(secret->bytes, text.at, text.len);
}

/* In constant time, as tokens are (R10). */
bool secret_same(const struct secret *a, const struct secret *b)
{
    CORE_ASSERT(a->len <= LIMIT_SECRET_BYTES && b->len <= LIMIT_SECRET_BYTES);
    uint8_t difference = a->len ^ b->len;
    for (size_t i = 0; i < LIMIT_SECRET_BYTES; i++)
        difference |= (uint8_t)(a->bytes[i] ^ b->bytes[i]);
    return a->len > 0 && difference == 0;
}
