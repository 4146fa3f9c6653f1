/* Jitter and hashes: two small published algorithms (random.h). */
#include "random.h"

#include <string.h>

#include "core_assert.h"

static uint64_t rotate(uint64_t x, int bits)
{
    CORE_ASSERT(bits > 0 && bits < 64);
    return x << bits | x >> (64 - bits);
}

/* splitmix64 spreads the seed over the whole state, so that no seed gives the all-zero one. */
void random_seed(struct random *random, uint64_t seed)
{
    for (size_t i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        random->state[i] = z ^ z >> 31;
    }
}

uint64_t random_next(struct random *random)
{
    uint64_t *s = random->state;
    CORE_ASSERT((s[0] | s[1] | s[2] | s[3]) != 0); /* It must be seeded. */
    uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

int64_t random_below(struct random *random, int64_t bound)
{
    return bound <= 1 ? 0 : (int64_t)(random_next(random) % (uint64_t)bound);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
}

uint64_t hash_bytes(uint64_t key0, uint64_t key1, const void *bytes, size_t len)
{
    CORE_ASSERT(bytes != NULL || len == 0);
    uint64_t v[4] = {key0 ^ 0x736f6d6570736575u, key1 ^ 0x646f72616e646f6du,
                     key0 ^ 0x6c7967656e657261u, key1 ^ 0x7465646279746573u};
    const uint8_t *at = bytes;
    size_t left = len;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = 0;
        for (int i = 7; i >= 0; i--)
            word = word << 8 | at[i];
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)len << 56;
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)at[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
