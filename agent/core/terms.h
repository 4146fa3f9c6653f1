/* What a hold was taken with: its terms, which every hold has, and its words, which few callers
 * give. Both are made of the request and the policy, copied into the attempt, from a lost hold into
 * its adoption, and into and out of the journal. They own their bytes: a copy borrows nothing. An
 * answer shows a part of them, without the secrets (struct hold_view). */
#ifndef LOCKAGENT_CORE_TERMS_H
#define LOCKAGENT_CORE_TERMS_H

#include "types.h"

/* Secrets of callers, compared in constant time. */

struct secret {
    uint8_t len; /* 0: none */
    char bytes[LIMIT_SECRET_BYTES];
};

/* `text` has at most LIMIT_SECRET_BYTES; empty: none. */
void secret_take(struct secret *secret, struct text text);
/* False where either of them is none. */
bool secret_same(const struct secret *a, const struct secret *b);

struct terms {
    int64_t max_hold_ms;
    uint32_t ttl_ms; /* of a hold: as the last good round extended it */
    uint16_t count;  /* releases that end it */
    enum renew renew : 8;
    enum mode mode : 8;
    bool bound; /* to its caller's connection */
};

struct words {
    struct secret owner, idempotency;
    /* a hash of what its request asked for, which is the same when that is asked again */
    uint64_t asked;
    uint8_t label_len;
    char label[LIMIT_LABEL_BYTES];
};

/* Borrowed from the words. */
struct text words_label(const struct words *words);
/* Copies `label`, which has at most LIMIT_LABEL_BYTES. */
void words_set_label(struct words *words, struct text label);
/* No word was given: whoever looks for one later may as well have none. */
bool words_are_none(const struct words *words);

#endif
