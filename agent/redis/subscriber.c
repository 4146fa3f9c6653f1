/* The subscriber's connection of a master (R9): where releases of watched keys are heard of.
 *
 * Opened when the first key of its group is watched and closed when none has been for a while, beside the connection of the
 * commands and only while that one is READY. A plain stream with hiredis' parser on it: hiredis' own subscriptions lose their
 * place where a channel is left and joined again before the server has answered.
 *
 *   CLOSED --a key is watched--> OPENING --connected--> AUTH, SUBSCRIBE of all that is watched --> each confirmed
 *      ^                            |                          |
 *      +---- back-off --------------+--------------------------+  any end, also the command connection's */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/room.h"

#define CHANNEL_PREFIX "lockagent:channel:"

enum {
    IDLE_TICKS = 20,      /* 5 s without a watched key end the connection */
    PING_TICKS = 12,      /* 3 s without a word: is it still there? */
    RETRY_TICKS_MAX = 20, /* 5 s between two tries at the most */
    READ_BYTES = 16 << 10,
};

struct channel {
    struct channel *next;
    uint8_t group;
    uint16_t prefix_len, len; /* of name: CHANNEL_PREFIX and the policy's prefix; all of it */
    uint32_t walk;            /* the last one that came by */
    char name[];              /* and the key */
};

struct line {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    uv_connect_t connecting;
    struct master *master;
    redisReader *reader;
    bool connected, closing;
    uint32_t silent_ticks;
    char bytes[READ_BYTES];
};

/* ---- channels ---- */

static struct channel **bucket_of(struct redis *redis, uint8_t group, const char *name, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u ^ group;
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
    }
    return &redis->channels[(hash ^ hash >> 32) % CHANNEL_BUCKETS];
}

static bool is_named(const struct channel *channel, uint8_t group, const char *name, size_t len)
{
    return channel->group == group && channel->len == len && memcmp(channel->name, name, len) == 0;
}

static struct channel *channel_of(const struct redis *redis, const struct effect_watch *watch)
{
    const char *prefix = redis->config->policies[watch->policy].prefix;
    size_t prefix_len = strlen(CHANNEL_PREFIX) + strlen(prefix), len = prefix_len + watch->key.len;
    struct channel *channel = calloc(1, sizeof(*channel) + len);
    REDIS_ASSERT(channel && len <= UINT16_MAX);
    channel->group = watch->group;
    channel->prefix_len = (uint16_t)prefix_len;
    channel->len = (uint16_t)len;
    memcpy(channel->name, CHANNEL_PREFIX, strlen(CHANNEL_PREFIX));
    memcpy(channel->name + strlen(CHANNEL_PREFIX), prefix, strlen(prefix));
    memcpy(channel->name + prefix_len, watch->key.at, watch->key.len);
    return channel;
}

/* ---- writing ---- */

struct written {
    uv_write_t request;
    char bytes[];
};

static void on_written(uv_write_t *request, int status)
{
    (void)status; /* the read finds out */
    free(request->data);
}

/* What has been built in the room's wire. */
static void put(struct line *line)
{
    const struct wire *wire = &line->master->redis->wire;
    struct written *written = malloc(sizeof(*written) + wire->len);
    REDIS_ASSERT(written);
    memcpy(written->bytes, wire->bytes, wire->len);
    written->request.data = written;
    uv_buf_t buffer = uv_buf_init(written->bytes, (unsigned)wire->len);
    if (uv_write(&written->request, &line->uv.stream, &buffer, 1, on_written) != 0) {
        free(written);
    }
}

static void ask(struct line *line, const char *command, const char *channel, size_t len)
{
    struct wire *wire = &line->master->redis->wire;
    wire_begin(wire, channel ? 2 : 1);
    wire_text(wire, command);
    if (channel) {
        wire_bytes(wire, channel, len);
    }
    put(line);
}

/* ---- the core is told ---- */

/* The channel may be gone when the core has heard of it. */
static void tell(struct master *master, enum event_kind kind, const struct channel *channel, uint32_t agents,
                 uint64_t next)
{
    struct redis_sink *sink = &master->redis->sink;
    char key[LIMIT_KEY_BYTES];
    size_t len = (size_t)(channel->len - channel->prefix_len);
    REDIS_ASSERT(len <= sizeof(key));
    memcpy(key, channel->name + channel->prefix_len, len);
    struct event event = {
        .kind = kind,
        .channel = {.group = master->group, .master = master->index, .key = {key, len}, .agents = agents, .next = next},
    };
    sink->event(sink->arg, &event);
}

/* Any channel may go while one is acted on, so each bucket is looked at anew until all in it have been. */
static void for_all_channels(struct master *master, void (*act)(struct master *master, const struct channel *channel))
{
    struct redis *redis = master->redis;
    uint32_t walk = ++redis->channel_walks;
    for (unsigned i = 0; i < CHANNEL_BUCKETS && redis->watched[master->group] > 0; i++) {
        struct channel *channel = redis->channels[i];
        while (channel) {
            if (channel->group != master->group || channel->walk == walk) {
                channel = channel->next;
                continue;
            }
            channel->walk = walk;
            act(master, channel);
            channel = redis->channels[i];
        }
    }
}

/* ---- the end of a connection ---- */

static void on_closed(uv_handle_t *handle)
{
    struct line *line = handle->data;
    struct redis *redis = line->master->redis;
    redisReaderFree(line->reader);
    free(line);
    redis_closed(redis);
}

static void tell_unsubscribed(struct master *master, const struct channel *channel)
{
    tell(master, EVENT_UNSUBSCRIBED, channel, 0, 0);
}

void subscriber_close(struct master *master)
{
    struct line *line = master->subscriber.line;
    if (!line) {
        return;
    }
    master->subscriber.line = NULL;
    line->closing = true;
    uv_close(&line->uv.handle, on_closed);
    if (line->connected) {
        for_all_channels(master, tell_unsubscribed);
    }
}

static void fail(struct master *master)
{
    subscriber_close(master);
    uint32_t *ticks = &master->subscriber.retry_ticks_last;
    *ticks = *ticks == 0 ? 1 : *ticks * 2 > RETRY_TICKS_MAX ? RETRY_TICKS_MAX : *ticks * 2;
    master->subscriber.retry_ticks = *ticks;
}

/* ---- hearing ---- */

static bool is_word(const redisReply *reply, size_t i, const char *word)
{
    return i < reply->elements && reply->element[i]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[i]->str, word) == 0;
}

/* One that was left meanwhile is not found. */
static void hear_of_channel(struct master *master, const redisReply *reply)
{
    const redisReply *name = reply->element[1], *last = reply->element[2];
    if (name->type != REDIS_REPLY_STRING) {
        return;
    }
    const struct channel *channel = *bucket_of(master->redis, master->group, name->str, name->len);
    while (channel && !is_named(channel, master->group, name->str, name->len)) {
        channel = channel->next;
    }
    if (!channel) {
        return;
    }
    if (is_word(reply, 0, "subscribe")) {
        master->subscriber.retry_ticks_last = 0;
        tell(master, EVENT_SUBSCRIBED, channel, 0, 0);
    } else if (is_word(reply, 0, "message") && last->type == REDIS_REPLY_STRING) {
        char *end;
        unsigned long agents = strtoul(last->str, &end, 10);
        uint64_t next = *end == ' ' ? strtoull(end + 1, NULL, 16) : 0;
        tell(master, EVENT_MESSAGE, channel, agents > UINT16_MAX ? UINT16_MAX : (uint32_t)agents, next);
    }
}

/* False when the connection is of no use. */
static bool hear(struct master *master, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        master_notice(master, outcome_of_error(reply->str), reply->str);
        return false;
    }
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3) {
        hear_of_channel(master, reply);
    }
    return true;
}

static void on_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct line *line = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(line->bytes, sizeof(line->bytes));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct line *line = ((uv_handle_t *)stream)->data;
    struct master *master = line->master;
    bool well = count >= 0 && redisReaderFeed(line->reader, buffer->base, (size_t)count) == REDIS_OK;
    void *reply = NULL;
    line->silent_ticks = 0;
    while (well && !line->closing && redisReaderGetReply(line->reader, &reply) == REDIS_OK && reply) {
        well = hear(master, reply);
        freeReplyObject(reply);
    }
    if (!line->closing && (!well || line->reader->err)) {
        fail(master);
    }
}

/* ---- opening ---- */

static void subscribe(struct master *master, const struct channel *channel)
{
    ask(master->subscriber.line, "SUBSCRIBE", channel->name, channel->len);
}

static void on_connected(uv_connect_t *connecting, int status)
{
    struct line *line = connecting->data;
    struct master *master = line->master;
    char why[160];
    if (line->closing) {
        return;
    }
    int asks = status == 0 ? greeting_auth(master, why, sizeof(why)) : -1;
    if (asks < 0 || uv_read_start(&line->uv.stream, on_buffer, on_read) != 0) {
        fail(master);
        return;
    }
    line->connected = true;
    if (asks > 0) {
        put(line);
        explicit_bzero(master->redis->wire.bytes, master->redis->wire.len);
    }
    for_all_channels(master, subscribe);
}

static int begin_to_connect(struct line *line)
{
    struct master *master = line->master;
    const struct config_address *address = &master->config->address;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to;
    line->connecting.data = line;
    if (address->is_unix) {
        uv_pipe_init(master->redis->loop, &line->uv.pipe, 0);
        uv_pipe_connect(&line->connecting, &line->uv.pipe, address->host, on_connected);
        return 0;
    }
    uv_tcp_init(master->redis->loop, &line->uv.tcp);
    if (uv_ip4_addr(master->connected_to, address->port, &to.v4) != 0 &&
        uv_ip6_addr(master->connected_to, address->port, &to.v6) != 0) {
        return UV_EINVAL;
    }
    return uv_tcp_connect(&line->connecting, &line->uv.tcp, &to.any, on_connected);
}

static void open_line(struct master *master)
{
    struct line *line = calloc(1, sizeof(*line));
    REDIS_ASSERT(line);
    line->master = master;
    line->reader = redisReaderCreate();
    REDIS_ASSERT(line->reader);
    master->subscriber.line = line;
    master->subscriber.idle_ticks = 0;
    master->redis->open++;
    int failed = begin_to_connect(line);
    line->uv.handle.data = line;
    if (failed) {
        fail(master);
    }
}

void subscriber_wanted(struct master *master)
{
    bool wanted = master->redis->watched[master->group] > 0 && master->phase == PHASE_READY;
    if (wanted && !master->subscriber.line && master->subscriber.retry_ticks == 0 && !master->redis->stopping) {
        open_line(master);
    }
}

/* ---- the room's tick ---- */

static void tick_line(struct master *master, struct line *line)
{
    bool idle = master->redis->watched[master->group] == 0;
    master->subscriber.idle_ticks = idle ? master->subscriber.idle_ticks + 1 : 0;
    line->silent_ticks++;
    if (master->subscriber.idle_ticks > IDLE_TICKS) {
        subscriber_close(master);
    } else if (line->silent_ticks > PING_TICKS + (master->silence_ms + TICK_MS - 1) / TICK_MS) {
        fail(master);
    } else if (line->connected && line->silent_ticks == PING_TICKS) {
        ask(line, "PING", NULL, 0);
    }
}

void subscriber_tick(struct master *master)
{
    if (master->subscriber.line) {
        tick_line(master, master->subscriber.line);
        return;
    }
    master->subscriber.retry_ticks -= master->subscriber.retry_ticks > 0;
    subscriber_wanted(master);
}

/* ---- the public face ---- */

void redis_watch(struct redis *redis, const struct effect_watch *watch)
{
    struct channel *channel = channel_of(redis, watch);
    struct channel **bucket = bucket_of(redis, channel->group, channel->name, channel->len);
    channel->next = *bucket;
    *bucket = channel;
    redis->watched[watch->group]++;
    for (size_t i = 0; i < redis->config->groups[watch->group].master_count; i++) {
        struct master *master = &redis->by_group[watch->group][i];
        if (master->subscriber.line && master->subscriber.line->connected) {
            subscribe(master, channel);
        } else {
            subscriber_wanted(master);
        }
    }
}

void redis_unwatch(struct redis *redis, const struct effect_watch *watch)
{
    struct channel *like = channel_of(redis, watch);
    struct channel **place = bucket_of(redis, like->group, like->name, like->len);
    while (*place && !is_named(*place, like->group, like->name, like->len)) {
        place = &(*place)->next;
    }
    REDIS_ASSERT(*place);
    struct channel *channel = *place;
    *place = channel->next;
    free(channel);
    redis->watched[watch->group]--;
    for (size_t i = 0; i < redis->config->groups[watch->group].master_count; i++) {
        struct line *line = redis->by_group[watch->group][i].subscriber.line;
        if (line && line->connected) {
            ask(line, "UNSUBSCRIBE", like->name, like->len);
        }
    }
    free(like);
}

void subscriber_free_channels(struct redis *redis)
{
    for (unsigned i = 0; i < CHANNEL_BUCKETS; i++) {
        while (redis->channels[i]) {
            struct channel *channel = redis->channels[i];
            redis->channels[i] = channel->next;
            free(channel);
        }
    }
}
