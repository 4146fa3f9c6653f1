/* The chance of a simulated run: small generators that the run's seed begins, so that a seed is a
 * run. Each purpose has a stream of its own: a new draw in one moves none of the others. */
#ifndef LOCKAGENT_SIM_PRNG_H
#define LOCKAGENT_SIM_PRNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* splitmix64: one word of state, any seed is a good one. */
struct prng {
    uint64_t state;
};

static inline uint64_t prng_next(struct prng *prng)
{
    uint64_t z = (prng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns the stream of that purpose, and of the one with that number, in the run of `seed`. */
static inline struct prng prng_stream(uint64_t seed, uint64_t purpose, uint64_t number)
{
    struct prng prng = {seed};
    prng.state = prng_next(&prng) ^ (purpose << 32 | number);
    prng.state = prng_next(&prng);
    return prng;
}

/* Returns a number from 0 to n-1. The bias is below one in four billion for the ranges of the
 * simulator. */
static inline uint64_t prng_below(struct prng *prng, uint64_t n)
{
    return n == 0 ? 0 : prng_next(prng) % n;
}

/* low..high, both included. */
static inline int64_t prng_between(struct prng *prng, int64_t low, int64_t high)
{
    return low + (int64_t)prng_below(prng, (uint64_t)(high - low) + 1);
}

static inline bool prng_percent(struct prng *prng, unsigned percent)
{
    return prng_below(prng, 100) < percent;
}

static inline bool prng_in_10000(struct prng *prng, unsigned share)
{
    return share != 0 && prng_below(prng, 10000) < share;
}

static inline void prng_fill(struct prng *prng, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word = i % 8 == 0 ? prng_next(prng) : prng->state >> (i % 8 * 8);
        bytes[i] = (uint8_t)(word ^ (word >> 32));
    }
}

#endif
