/* The channels of watched keys, in a table by group and name. Releases are published there (R9). */
#ifndef LOCKAGENT_REDIS_CHANNELS_H
#define LOCKAGENT_REDIS_CHANNELS_H

#include "agent/core/types.h"

enum { CHANNEL_BUCKETS = 4096, CHANNEL_PREFIX_BYTES = 127 };

struct channel {
    struct channel *next;
    uint8_t group;
    enum form form;
    uint16_t prefix_len, key_len, len; /* Bytes of the name: before the key; of the key; in
                                        * total. */
    uint32_t walk;                     /* Number of the last channels_walk() that passed this
                                        * channel. */
    char name[];
};

struct channels {
    struct channel *buckets[CHANNEL_BUCKETS];
    uint32_t watched[LIMIT_GROUPS]; /* Number of channels of each group. */
    uint32_t walks;
    uint64_t hash_key[2]; /* Secret: callers choose the names, so the hash needs a key. */
};

/* Initializes an empty table. `hash_key` is drawn at random for each table. */
void channels_init(struct channels *channels, const uint64_t hash_key[2]);

/* Adds the channel of a key, which is not in the table yet. `prefix` has at most
 * CHANNEL_PREFIX_BYTES. The table owns the channel. Returns NULL if there is not enough memory. */
const struct channel *channels_add(struct channels *channels, uint8_t group, enum form form,
                                   const char *prefix, struct text key);

/* Takes the channel of a key out of the table. The caller frees it. Returns NULL if channels_add()
 * had no memory for it. */
struct channel *channels_take(struct channels *channels, uint8_t group, enum form form,
                              const char *prefix, struct text key);

/* Returns the channel of that name, or NULL if there is none. */
const struct channel *channels_find(const struct channels *channels, uint8_t group,
                                    struct text name);

struct text channel_key(const struct channel *channel);

/* Calls `act` for every channel of the group. Meanwhile any channel may be added or taken out. */
void channels_walk(struct channels *channels, uint8_t group,
                   void (*act)(void *arg, const struct channel *channel), void *arg);

void channels_free(struct channels *channels);

#endif
