/* Jitter from a seeded generator, and keyed hashes. Tokens come from the entropy pool instead. */
#ifndef LOCKAGENT_CORE_RANDOM_H
#define LOCKAGENT_CORE_RANDOM_H

#include "types.h"

/* xoshiro256** by Blackman and Vigna. */
struct random {
    uint64_t state[4];
};
void random_seed(struct random *random, uint64_t seed);
uint64_t random_next(struct random *random);
/* Returns a uniform number in 0..bound-1; 0 if bound <= 1. */
int64_t random_below(struct random *random, int64_t bound);

/* SipHash-1-3 by Aumasson and Bernstein. Callers choose the keys of our tables, so the hash needs a
 * secret key. */
uint64_t hash_bytes(uint64_t key0, uint64_t key1, const void *bytes, size_t len);

#endif
