/* The table of watched keys' channels (channels.h). */
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/core/random.h"
#include "agent/redis/asking.h"
#include "agent/redis/channels.h"

enum { NAME_BYTES = 1024 }; /* of a channel, at most: 24 of ours, a prefix, a key, a brace */
static_assert(NAME_BYTES >= 24 + CHANNEL_PREFIX_BYTES + LIMIT_KEY_BYTES + 1,
              "every channel's name must fit");

void channels_init(struct channels *channels, const uint64_t hash_key[2])
{
    memset(channels, 0, sizeof(*channels));
    memcpy(channels->hash_key, hash_key, sizeof(channels->hash_key));
}

static size_t bucket_index(const struct channels *channels, uint8_t group, struct text name)
{
    const uint64_t *key = channels->hash_key;
    return hash_bytes(key[0] ^ group, key[1], name.at, name.len) % CHANNEL_BUCKETS;
}

static bool is_named(const struct channel *channel, uint8_t group, struct text name)
{
    return channel->group == group && channel->len == name.len &&
           memcmp(channel->name, name.at, name.len) == 0;
}

/* What the name of a channel is put together from. */
struct name_parts {
    const char *begin, *prefix;
    struct text key;
    bool braces;
    size_t prefix_len, len; /* as of a channel */
};

static struct name_parts parts_of(enum lock_format format, const char *prefix, struct text key)
{
    bool braces = format == FORMAT_REDISSON && asking_adds_braces(prefix, key);
    const char *begin = format == FORMAT_REDLOCK ? "lockagent:channel:"
                        : braces                 ? "redisson_lock__channel:{"
                                                 : "redisson_lock__channel:";
    size_t prefix_len = strlen(begin) + strlen(prefix), len = prefix_len + key.len + braces;
    CORE_ASSERT(len <= NAME_BYTES);
    return (struct name_parts){begin, prefix, key, braces, prefix_len, len};
}

static void write_name(const struct name_parts *parts, char *into)
{
    size_t own = strlen(parts->begin);
    memcpy(into, parts->begin, own);
    memcpy(into + own, parts->prefix, parts->prefix_len - own);
    memcpy(into + parts->prefix_len, parts->key.at, parts->key.len);
    if (parts->braces)
        into[parts->len - 1] = '}';
}

struct text channel_name(const struct channel *channel)
{
    return (struct text){channel->name, channel->len};
}

struct text channel_key(const struct channel *channel)
{
    return (struct text){channel->name + channel->prefix_len, channel->key_len};
}

const struct channel *channels_add(struct channels *channels, uint8_t group,
                                   enum lock_format format, const char *prefix, struct text key)
{
    struct name_parts parts = parts_of(format, prefix, key);
    struct channel *channel = calloc(1, sizeof(*channel) + parts.len);
    if (channel == NULL)
        return NULL;
    channel->group = group;
    channel->format = format;
    channel->key_len = (uint16_t)key.len;
    channel->prefix_len = (uint16_t)parts.prefix_len;
    channel->len = (uint16_t)parts.len;
    write_name(&parts, channel->name);
    struct channel **bucket =
        &channels->buckets[bucket_index(channels, group, channel_name(channel))];
    channel->next = *bucket;
    *bucket = channel;
    channels->watched[group]++;
    return channel;
}

struct channel *channels_take(struct channels *channels, uint8_t group, enum lock_format format,
                              const char *prefix, struct text key)
{
    char bytes[NAME_BYTES];
    struct name_parts parts = parts_of(format, prefix, key);
    write_name(&parts, bytes);
    struct text name = {bytes, parts.len};
    struct channel **at = &channels->buckets[bucket_index(channels, group, name)];
    while (*at != NULL && !is_named(*at, group, name))
        at = &(*at)->next;
    struct channel *channel = *at;
    if (channel == NULL)
        return NULL;
    *at = channel->next;
    channels->watched[group]--;
    return channel;
}

const struct channel *channels_find(const struct channels *channels, uint8_t group,
                                    struct text name)
{
    const struct channel *channel = channels->buckets[bucket_index(channels, group, name)];
    while (channel != NULL && !is_named(channel, group, name))
        channel = channel->next;
    return channel;
}

/* Each bucket is looked at anew until all in it have been acted on. */
void channels_walk(struct channels *channels, uint8_t group,
                   void (*act)(void *arg, const struct channel *channel), void *arg)
{
    uint32_t walk = ++channels->walks;
    for (unsigned i = 0; i < CHANNEL_BUCKETS && channels->watched[group] > 0; i++) {
        struct channel *channel = channels->buckets[i];
        while (channel != NULL) {
            if (channel->group != group || channel->walk == walk) {
                channel = channel->next;
                continue;
            }
            channel->walk = walk;
            act(arg, channel);
            channel = channels->buckets[i];
        }
    }
}

void channels_free(struct channels *channels)
{
    for (unsigned i = 0; i < CHANNEL_BUCKETS; i++) {
        while (channels->buckets[i] != NULL) {
            struct channel *channel = channels->buckets[i];
            channels->buckets[i] = channel->next;
            free(channel);
        }
    }
}
