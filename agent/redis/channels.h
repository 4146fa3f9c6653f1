/* The channels of watched keys, in a table by group and name: where releases are heard of (R9). */
#ifndef LOCKAGENT_REDIS_CHANNELS_H
#define LOCKAGENT_REDIS_CHANNELS_H

#include "agent/core/types.h"

enum { CHANNEL_BUCKETS = 4096, CHANNEL_PREFIX_BYTES = 127 };

struct channel {
    struct channel *next;
    uint8_t group;
    enum form form;
    uint16_t prefix_len, key_len, len; /* of name: in front of the key; the key; all of it */
    uint32_t walk;                     /* the last one that came by */
    char name[];
};

struct channels {
    struct channel *buckets[CHANNEL_BUCKETS];
    uint32_t watched[LIMIT_GROUPS]; /* how many of each group */
    uint32_t walks;
    uint64_t hash_key[2]; /* secret: callers choose the names, so the hash is keyed */
};

/* `hash_key` is drawn at random for each table. */
void channels_init(struct channels *channels, const uint64_t hash_key[2]);

/* The channel of a key under its policy's prefix (at most CHANNEL_PREFIX_BYTES), which is not there
 * yet. The table owns it. NULL when out of memory. */
const struct channel *channels_add(struct channels *channels, uint8_t group, enum form form,
                                   const char *prefix, struct text key);

/* Takes the channel of a key out of the table: the caller frees it. NULL: there was no memory for
 * it. */
struct channel *channels_take(struct channels *channels, uint8_t group, enum form form,
                              const char *prefix, struct text key);

/* NULL where there is none of that name. */
const struct channel *channels_find(const struct channels *channels, uint8_t group,
                                    struct text name);

struct text channel_key(const struct channel *channel);

/* Calls `act` with every channel of the group. Any channel may go, and others may come, while one
 * is acted on. */
void channels_walk(struct channels *channels, uint8_t group,
                   void (*act)(void *arg, const struct channel *channel), void *arg);

void channels_free(struct channels *channels);

#endif
