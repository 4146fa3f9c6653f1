/* Secrets of callers, compared in constant time. */
#ifndef LOCKAGENT_CORE_SECRET_H
#define LOCKAGENT_CORE_SECRET_H

#include "types.h"

struct secret {
    uint8_t len; /* 0: none */
    char bytes[LIMIT_SECRET_BYTES];
};

/* `text` has at most LIMIT_SECRET_BYTES; empty: none. */
void secret_take(struct secret *secret, struct text text);
/* False where either of them is none. */
bool secret_same(const struct secret *a, const struct secret *b);

#endif
