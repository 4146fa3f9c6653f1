/* The terms of a hold, and its caller's metadata. */
#include "terms.h"

#include <string.h>

#include "core_assert.h"

/* ---- secrets of callers ---- */

/* The owner of a reentrant lock (R11), and the idempotency key of a request (D3.5). */

void secret_take(struct secret *secret, struct text text)
{
    CORE_ASSERT(text.len <= LIMIT_SECRET_BYTES);
    secret->len = (uint8_t)text.len;
    if (text.len > 0)
        memcpy(secret->bytes, text.at, text.len);
}

/* In constant time, like tokens (R10). */
bool secret_same(const struct secret *a, const struct secret *b)
{
    CORE_ASSERT(a->len <= LIMIT_SECRET_BYTES && b->len <= LIMIT_SECRET_BYTES);
    uint8_t difference = a->len ^ b->len;
    for (size_t i = 0; i < LIMIT_SECRET_BYTES; i++)
        difference |= (uint8_t)(a->bytes[i] ^ b->bytes[i]);
    return a->len > 0 && difference == 0;
}

/* ---- metadata of callers ---- */

struct text metadata_label(const struct metadata *metadata)
{
    CORE_ASSERT(metadata->label_len <= LIMIT_LABEL_BYTES);
    return (struct text){metadata->label, metadata->label_len};
}

void metadata_set_label(struct metadata *metadata, struct text label)
{
    CORE_ASSERT(label.len <= LIMIT_LABEL_BYTES);
    metadata->label_len = (uint8_t)label.len;
    if (label.len > 0)
        memmove(metadata->label, label.at, label.len);
}

bool metadata_is_none(const struct metadata *metadata)
{
    CORE_ASSERT(metadata->label_len <= LIMIT_LABEL_BYTES);
    return metadata->owner.len == 0 && metadata->idempotency.len == 0 && metadata->label_len == 0;
}
