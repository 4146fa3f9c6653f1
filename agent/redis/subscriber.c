/* Subscribes to the channels of watched keys, and hears of releases there (subscriber.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/redis/auth.h"
#include "agent/redis/replies.h"
#include "agent/redis/subscriber.h"

enum {
    IDLE_TICKS = 20,      /* 5 s without a watched key end the connection */
    PING_TICKS = 12,      /* 3 s without a word: is it still there? */
    RETRY_TICKS_MAX = 20, /* 5 s between two tries at the most, */
    BROKEN_TICKS = 8,     /* 2 s where the master broke the protocol */
};

struct subscription {
    struct line line;
    struct master *master;
    bool closing;
    bool failed; /* the turn must end it */
    uint32_t silent_ticks;
    /* Answers that are still to come: to AUTH, PING, SUBSCRIBE, UNSUBSCRIBE. */
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

/* `channel`: NULL for none. */
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

static void join(struct subscription *subscription, const struct channel *channel)
{
    subscription->joins++;
    write_command(subscription, "SUBSCRIBE", channel);
}

static void leave(struct subscription *subscription, const struct channel *channel)
{
    subscription->leaves++;
    write_command(subscription, "UNSUBSCRIBE", channel);
}

/* ---- the core is told ---- */

/* `said` by a message, else nothing. The channel may be gone when the core has heard of it. */
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

/* Whoever broke the protocol is not tried again soon. */
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

static const struct channel *channel_named(const struct master *master, const redisReply *name)
{
    if (name->type != REDIS_REPLY_STRING)
        return NULL;
    return channels_find(&master->redis->channels, master->group,
                         (struct text){name->str, name->len});
}

/* True when it was owed, and is now paid. */
static bool pays(uint32_t *owed)
{
    bool is_owed = *owed > 0;
    *owed -= is_owed;
    return is_owed;
}

/* R22: whatever else is said where Redisson's instances listen is no release. */
static void hear_message(struct master *master, const struct channel *channel, const char *text)
{
    if (channel->format == FORMAT_REDLOCK)
        tell_of_channel(master, EVENT_MESSAGE, channel, message_read(text));
    else if (message_is_redissons(text))
        tell_of_channel(master, EVENT_MESSAGE, channel, (struct event_channel){0});
}

/* One that was left meanwhile is not found. False when it was not to come. */
static bool hear_of_channel(struct subscription *subscription, const redisReply *reply)
{
    struct master *master = subscription->master;
    const redisReply *name = reply->element[1], *last = reply->element[2];
    const struct channel *channel = channel_named(master, name);
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
    return channel != NULL || subscription->leaves > 0;
}

/* False when it was not to come. */
static bool hear_reply(struct subscription *subscription, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3)
        return hear_of_channel(subscription, reply);
    /* That is how PING is answered where something is subscribed to. */
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_word(reply, 0, "pong"))
        return pays(&subscription->pongs);
    if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "PONG") == 0)
        return pays(&subscription->pongs);
    return reply->type == REDIS_REPLY_STATUS && pays(&subscription->auths);
}

static void subscription_heard(void *owner, const redisReply *reply)
{
    struct subscription *subscription = owner;
    struct master *master = subscription->master;
    subscription->silent_ticks = 0;
    if (reply->type == REDIS_REPLY_ERROR) {
        master_notice(master, outcome_of_error(reply->str), reply->str);
        try_later(master);
    } else if (!hear_reply(subscription, reply) && !subscription->closing) {
        try_much_later(master, REDIS_FAULT_SURPLUS,
                       "broke the protocol: a message or reply that nobody waits for");
    }
}

/* Messages come at any time. */
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

static void open_subscription(struct master *master)
{
    static const struct line_calls calls = {subscription_stands, subscription_awaits,
                                            subscription_heard,  subscription_ended,
                                            subscription_busy,   subscription_closed};
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

void subscriber_wanted(struct master *master)
{
    bool wanted =
        master->redis->channels.watched[master->group] > 0 && master->phase == PHASE_READY;
    if (wanted && master->subscriber.line == NULL && master->subscriber.retry_ticks == 0 &&
        !master->redis->stopping)
        open_subscription(master);
}

/* ---- the room's tick ---- */

static void tick_subscription(struct master *master, struct subscription *subscription)
{
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

void subscriber_tick(struct master *master)
{
    if (master->subscriber.line != NULL) {
        tick_subscription(master, master->subscriber.line);
        return;
    }
    master->subscriber.retry_ticks -= master->subscriber.retry_ticks > 0;
    subscriber_wanted(master);
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
    const struct channel *channel = channels_add(&redis->channels, watch->group,
                                                 policy->core.format, policy->prefix, watch->key);
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
    struct channel *channel = channels_take(&redis->channels, watch->group, policy->core.format,
                                            policy->prefix, watch->key);
    if (channel == NULL)
        return;
    for (size_t i = 0; i < redis->config->groups[watch->group].master_count; i++) {
        struct subscription *subscription = redis->by_group[watch->group][i].subscriber.line;
        if (subscription != NULL && subscription->line.connected)
            leave(subscription, channel);
    }
    free(channel);
}
