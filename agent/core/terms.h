/* The terms that every hold has, and the metadata that few callers give. Both are made of the
 * request and the policy. They are copied into the attempt, from a lost hold into its adoption, and
 * into and out of the journal. They own their bytes. An answer has a part of them, without the
 * secrets (struct hold_view). */
#ifndef LOCKAGENT_CORE_TERMS_H
#define LOCKAGENT_CORE_TERMS_H

#include "types.h"

/* Secrets of callers, compared in constant time. */

struct secret {
    uint8_t len; /* 0: none. */
    char bytes[LIMIT_SECRET_BYTES];
};

/* Copies `text`, which has at most LIMIT_SECRET_BYTES; empty: none. */
void secret_take(struct secret *secret, struct text text);
/* Returns true if both are the same; false if one of them is none. */
bool secret_same(const struct secret *a, const struct secret *b);

struct terms {
    int64_t max_hold_ms;
    uint32_t ttl_ms; /* The ttl that the last good round has set. */
    uint16_t count;  /* Number of releases that end the hold. */
    enum renew renew : 8;
    enum mode mode : 4;
    bool bound : 1; /* Bound to its caller's connection. */
};

static_assert(sizeof(struct terms) <= 16, "every lock has them");

struct metadata {
    struct secret owner, idempotency;
    /* A hash of the parameters. It is the same if the request is repeated. */
    uint64_t asked;
    uint8_t label_len;
    char label[LIMIT_LABEL_BYTES];
};

/* Returns the label, borrowed from `metadata`. */
struct text metadata_label(const struct metadata *metadata);
/* Copies `label`, which has at most LIMIT_LABEL_BYTES. */
void metadata_set_label(struct metadata *metadata, struct text label);
/* Returns true if the caller gave no label, owner or idempotency key. */
bool metadata_is_none(const struct metadata *metadata);

#endif
