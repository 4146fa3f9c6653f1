/* What a hold was taken with. */
#include "terms.h"

#include <string.h>

#include "core_assert.h"

struct text words_label(const struct words *words)
{
    CORE_ASSERT(words->label_len <= LIMIT_LABEL_BYTES);
    return (struct text){words->label, words->label_len};
}

void words_set_label(struct words *words, struct text label)
{
    CORE_ASSERT(label.len <= LIMIT_LABEL_BYTES);
    words->label_len = (uint8_t)label.len;
    if (label.len > 0)
        memmove(words->label, label.at, label.len);
}

bool words_are_none(const struct words *words)
{
    CORE_ASSERT(words->label_len <= LIMIT_LABEL_BYTES);
    return words->owner.len == 0 && words->idempotency.len == 0 && words->label_len == 0;
}
