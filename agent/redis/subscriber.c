/* Subscribes to the channels of watched keys, and receives the messages of releases. */
#include "agent/redis/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/core/random.h"
#include "agent/redis/asking.h"
#include "agent/redis/auth.h"
#include "agent/redis/channels.h"
#include "agent/redis/replies.h"

/* ---- channels ---- */

/* The table of watched keys' channels (channels.h). */

/* Length of a channel's name: 24 bytes of ours, a prefix, a key and a brace. */
enum { NAME_BYTES = 1024 };
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

/* The parts of a channel's name. */
struct name_parts {
    const char *begin, *prefix;
    struct text key;
    bool braces;
    size_t prefix_len, len; /* As in struct channel. */
};

static struct name_parts parts_of(enum form form, const char *prefix, struct text key)
{
    bool braces = form == FORM_REDISSON && asking_adds_braces(prefix, key);
    const char *begin = form != FORM_REDISSON ? KEY_CHANNEL
                        : braces              ? "redisson_lock__channel:{"
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

struct text channel_key(const struct channel *channel)
{
    return (struct text){channel->name + channel->prefix_len, channel->key_len};
}

const struct channel *channels_add(struct channels *channels, uint8_t group, enum form form,
                                   const char *prefix, struct text key)
{
    struct name_parts parts = parts_of(form, prefix, key);
    struct channel *channel = calloc(1, sizeof(*channel) + parts.len);
    if (channel == NULL)
        return NULL;
    channel->group = group;
    channel->form = form;
    channel->key_len = (uint16_t)key.len;
    channel->prefix_len = (uint16_t)parts.prefix_len;
    channel->len = (uint16_t)parts.len;
    write_name(&parts, channel->name);
    struct text name = {channel->name, channel->len};
    struct channel **bucket = &channels->buckets[bucket_index(channels, group, name)];
    channel->next = *bucket;
    *bucket = channel;
    channels->watched[group]++;
    return channel;
}

struct channel *channels_take(struct channels *channels, uint8_t group, enum form form,
                              const char *prefix, struct text key)
{
    char bytes[NAME_BYTES];
    struct name_parts parts = parts_of(form, prefix, key);
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

/* Walks again through each bucket until `act` was called for all channels in it. */
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

/* ---- the subscription ---- */

enum {
    IDLE_TICKS = 20,      /* 5 s without a watched key end the connection. */
    PING_TICKS = 12,      /* 3 s without a reply or message: a PING is sent. */
    RETRY_TICKS_MAX = 20, /* At most 5 s between two tries. */
    BROKEN_TICKS = 8,     /* 2 s if the master broke the protocol. */
};

struct subscription {
    struct line line;
    struct master *master;
    bool closing;
    bool failed; /* The turn must end the connection. */
    bool waits;  /* The channel of all agents that wait was joined. */
    uint32_t silent_ticks;
    /* Numbers of outstanding replies to AUTH, PING, SUBSCRIBE and UNSUBSCRIBE. */
    uint32_t auths, pongs, joins, leaves;
};

/* ---- writing ---- */

static void write_bytes(struct subscription *subscription, struct text bytes)
{
    if (!line_put(&subscription->line, bytes.at, bytes.len)) {
        subscription->failed = true;
        redis_wake(subscription->master->redis);
    }
}

/* Writes a command for a channel; NULL: for none. */
static void write_command(struct subscription *subscription, const char *command,
                          const struct channel *channel)
{
    struct resp *resp = &subscription->master->redis->resp;
    resp_begin(resp);
    resp_text(resp, command);
    if (channel != NULL)
        resp_bytes(resp, channel->name, channel->len);
    write_bytes(subscription, resp_end(resp));
}

/* Joins the channel by which a release sees that an agent waits for some key (R9). */
static void join_waiting(struct subscription *subscription)
{
    struct resp *resp = &subscription->master->redis->resp;
    subscription->waits = true;
    subscription->joins++;
    resp_begin(resp);
    resp_text(resp, "SUBSCRIBE");
    resp_text(resp, WAITING_CHANNEL);
    write_bytes(subscription, resp_end(resp));
}

/* Joins a key's channel. An agent that has joined one of ours has joined the common one before. */
static void join(struct subscription *subscription, const struct channel *channel)
{
    if (channel->form != FORM_REDISSON && !subscription->waits)
        join_waiting(subscription);
    subscription->joins++;
    write_command(subscription, "SUBSCRIBE", channel);
}

/* ---- reports to the core ---- */

/* Reports an event of a channel to the core. `said` is the content of a message, otherwise empty.
 * The core may take the channel out of the table. */
static void tell_of_channel(struct master *master, enum event_kind kind,
                            const struct channel *channel, struct event_channel said)
{
    struct redis_sink *sink = &master->redis->sink;
    char key[LIMIT_KEY_BYTES];
    struct text name = channel_key(channel);
    CORE_ASSERT(name.len <= sizeof(key));
    memcpy(key, name.at, name.len);
    said.group = master->group;
    said.master = master->index;
    said.key = (struct text){key, name.len};
    struct event event = {.kind = kind, .channel = said};
    sink->event(sink->arg, &event);
}

/* ---- the end of a connection ---- */

static void subscription_closed(void *owner)
{
    struct subscription *subscription = owner;
    struct redis *redis = subscription->master->redis;
    free(subscription);
    redis_closed(redis);
}

static void tell_unsubscribed(void *arg, const struct channel *channel)
{
    tell_of_channel(arg, EVENT_UNSUBSCRIBED, channel, (struct event_channel){0});
}

void subscriber_close(struct master *master)
{
    struct subscription *subscription = master->subscriber.line;
    if (subscription == NULL)
        return;
    master->subscriber.line = NULL;
    subscription->closing = true;
    line_close(&subscription->line);
    if (subscription->line.connected)
        channels_walk(&master->redis->channels, master->group, tell_unsubscribed, master);
}

static void try_later(struct master *master)
{
    subscriber_close(master);
    uint32_t *ticks = &master->subscriber.retry_ticks_last;
    *ticks = *ticks == 0 ? 1 : *ticks * 2 > RETRY_TICKS_MAX ? RETRY_TICKS_MAX : *ticks * 2;
    master->subscriber.retry_ticks = *ticks;
}

/* Delays the next try, because the master broke the protocol. */
static void try_much_later(struct master *master, enum redis_fault fault, const char *why)
{
    char says[160];
    snprintf(says, sizeof(says), "subscriber: %s", why);
    master_broke_aside(master, fault, says);
    try_later(master);
    master->subscriber.retry_ticks_last = master->subscriber.retry_ticks = BROKEN_TICKS;
}

/* ---- hearing ---- */

static bool is_word(const redisReply *reply, size_t i, const char *word)
{
    return i < reply->elements && reply->element[i]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[i]->str, word) == 0;
}

/* Counts one outstanding reply as received. Returns false if there was none. */
static bool pays(uint32_t *owed)
{
    bool is_owed = *owed > 0;
    *owed -= is_owed;
    return is_owed;
}

/* Reports the release. On a channel of format redisson, only Redisson's texts are releases
 * (R22). */
static void hear_message(struct master *master, const struct channel *channel, const char *text)
{
    if (channel->form != FORM_REDISSON)
        tell_of_channel(master, EVENT_MESSAGE, channel, message_read(text));
    else if (message_is_redissons(text))
        tell_of_channel(master, EVENT_MESSAGE, channel, (struct event_channel){0});
}

/* Processes a reply about a channel. If the channel was left meanwhile, it is not in the table.
 * Returns false if the reply was not expected. */
static bool hear_of_channel(struct subscription *subscription, const redisReply *reply)
{
    struct master *master = subscription->master;
    const redisReply *name = reply->element[1], *last = reply->element[2];
    const struct channel *channel = name->type != REDIS_REPLY_STRING
                                        ? NULL
                                        : channels_find(&master->redis->channels, master->group,
                                                        (struct text){name->str, name->len});
    if (is_word(reply, 0, "unsubscribe"))
        return pays(&subscription->leaves);
    if (is_word(reply, 0, "subscribe")) {
        if (!pays(&subscription->joins))
            return false;
        master->subscriber.retry_ticks_last = 0;
        if (channel != NULL)
            tell_of_channel(master, EVENT_SUBSCRIBED, channel, (struct event_channel){0});
        return true;
    }
    if (!is_word(reply, 0, "message") || last->type != REDIS_REPLY_STRING)
        return false;
    if (channel != NULL)
        hear_message(master, channel, last->str);
    return channel != NULL || subscription->leaves > 0 || is_word(reply, 1, WAITING_CHANNEL);
}

/* Processes any reply. Returns false if it was not expected. */
static bool hear_reply(struct subscription *subscription, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3)
        return hear_of_channel(subscription, reply);
    /* The reply to PING on a connection with subscriptions. */
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_word(reply, 0, "pong"))
        return pays(&subscription->pongs);
    if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "PONG") == 0)
        return pays(&subscription->pongs);
    return reply->type == REDIS_REPLY_STATUS && pays(&subscription->auths);
}

static bool subscription_heard(void *owner, const redisReply *reply)
{
    struct subscription *subscription = owner;
    struct master *master = subscription->master;
    subscription->silent_ticks = 0;
    if (reply->type == REDIS_REPLY_ERROR) {
        master_notice(master, outcome_of_error(reply->str), reply->str);
        try_later(master);
    } else if (!hear_reply(subscription, reply) && !subscription->closing) {
        try_much_later(master, REDIS_FAULT_SURPLUS,
                       "broke the protocol: an unexpected message or reply");
    }
    return true;
}

/* Returns true if a reply or message may come. Messages may come at any time. */
static bool subscription_awaits(const void *owner)
{
    (void)owner;
    return true;
}

static void subscription_ended(void *owner, enum redis_fault fault, const char *why)
{
    const struct subscription *subscription = owner;
    master_tls_ended(subscription->master, &subscription->line);
    if (fault == REDIS_FAULT_NONE)
        try_later(subscription->master);
    else
        try_much_later(subscription->master, fault, why);
}

static void subscription_busy(void *owner)
{
    const struct subscription *subscription = owner;
    redis_wake(subscription->master->redis);
}

void subscriber_turn(struct master *master)
{
    struct subscription *subscription = master->subscriber.line;
    if (subscription != NULL && subscription->failed)
        try_later(master);
    else if (subscription != NULL)
        line_turn(&subscription->line);
}

/* ---- opening ---- */

static void join_on_line(void *arg, const struct channel *channel)
{
    const struct master *master = arg;
    join(master->subscriber.line, channel);
}

static void subscription_stands(void *owner)
{
    struct subscription *subscription = owner;
    struct master *master = subscription->master;
    char why[160];
    struct resp *resp = &master->redis->resp;
    struct text command;
    master_tls_began(master, &subscription->line);
    int asks = auth_ask(resp, master->group_config, master->config, &command, why, sizeof(why));
    if (asks < 0) {
        try_later(master);
        return;
    }
    if (asks > 0) {
        subscription->auths++;
        write_bytes(subscription, command);
        resp_wipe(resp);
    }
    channels_walk(&master->redis->channels, master->group, join_on_line, master);
}

void subscriber_wanted(struct master *master)
{
    static const struct line_calls calls = {subscription_stands, subscription_awaits,
                                            subscription_heard,  subscription_ended,
                                            subscription_busy,   subscription_closed};
    bool wanted =
        master->redis->channels.watched[master->group] > 0 && master->phase == PHASE_READY;
    if (!wanted || master->subscriber.line != NULL || master->subscriber.retry_ticks > 0 ||
        master->redis->stopping)
        return;
    struct subscription *subscription = calloc(1, sizeof(*subscription));
    char why[160];
    if (subscription == NULL) {
        master_lacks_memory(master, "subscriber: out of memory");
        try_later(master);
        return;
    }
    subscription->master = master;
    master->subscriber.idle_ticks = 0;
    struct line_end end = master_end(master);
    if (!line_open(&subscription->line, master->redis->loop, &end, &calls, subscription, why,
                   sizeof(why))) {
        free(subscription);
        try_later(master);
        return;
    }
    master->subscriber.line = subscription;
    master->redis->open++;
}

/* ---- the room's tick ---- */

void subscriber_tick(struct master *master)
{
    struct subscription *subscription = master->subscriber.line;
    if (subscription == NULL) {
        master->subscriber.retry_ticks -= master->subscriber.retry_ticks > 0;
        subscriber_wanted(master);
        return;
    }
    bool idle = master->redis->channels.watched[master->group] == 0;
    master->subscriber.idle_ticks = idle ? master->subscriber.idle_ticks + 1 : 0;
    subscription->silent_ticks++;
    if (master->subscriber.idle_ticks > IDLE_TICKS) {
        subscriber_close(master);
    } else if (subscription->silent_ticks >
               PING_TICKS + (master->silence_ms + TICK_MS - 1) / TICK_MS) {
        try_later(master);
    } else if (subscription->line.connected && subscription->silent_ticks == PING_TICKS) {
        subscription->pongs++;
        write_command(subscription, "PING", NULL);
    }
}

/* ---- the public face ---- */

static const struct config_policy *watched_policy(const struct redis *redis,
                                                  const struct effect_watch *watch)
{
    return &redis->config->policies[watch->policy];
}

void redis_watch(struct redis *redis, const struct effect_watch *watch)
{
    const struct config_policy *policy = watched_policy(redis, watch);
    const struct channel *channel =
        channels_add(&redis->channels, watch->group, policy->core.form, policy->prefix, watch->key);
    if (channel == NULL) {
        master_lacks_memory(redis->by_group[watch->group], "a key is not watched: out of memory");
        return;
    }
    for (size_t i = 0; i < redis->config->groups[watch->group].master_count; i++) {
        struct master *master = &redis->by_group[watch->group][i];
        if (master->subscriber.line != NULL && master->subscriber.line->line.connected)
            join(master->subscriber.line, channel);
        else
            subscriber_wanted(master);
    }
}

void redis_unwatch(struct redis *redis, const struct effect_watch *watch)
{
    const struct config_policy *policy = watched_policy(redis, watch);
    struct channel *channel = channels_take(&redis->channels, watch->group, policy->core.form,
                                            policy->prefix, watch->key);
    if (channel == NULL)
        return;
    for (size_t i = 0; i < redis->config->groups[watch->group].master_count; i++) {
        struct subscription *subscription = redis->by_group[watch->group][i].subscriber.line;
        if (subscription != NULL && subscription->line.connected) {
            subscription->leaves++;
            write_command(subscription, "UNSUBSCRIBE", channel);
        }
    }
    free(channel);
}
