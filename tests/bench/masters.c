/* Plain hiredis: formatted once, written once per master and iteration of the loop. */
#include "tests/bench/masters.h"

#include "tests/bench/measure.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

enum { RING = 1 << 18, BYTES_DRAWN = RANDOM_CHARS / 2 };

/* The operation whose reply comes next on a connection. */
struct pending {
    uint16_t caller, replies;
    uint32_t operation;
};

struct master {
    int port;
    redisContext *redis;
    bool dirty;
    uint32_t head, tail;
    struct pending ring[RING];
};

static struct master *masters[MASTERS_MAX];
static int count;
static masters_reply_fn *reply_to;

const char compare_and_delete[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then return "
                                  "redis.call('DEL', KEYS[1]) else return 0 end";

void masters_add(const char *text)
{
    int port = atoi(text);

    if (count == MASTERS_MAX || port < 1 || port > 65535 ||
        !(masters[count] = calloc(1, sizeof(struct master))))
        die("bad port, or more than %d masters", MASTERS_MAX);
    masters[count++]->port = port;
}

int master_count(void)
{
    return count;
}

void masters_connect(int epoll_fd, masters_reply_fn *on_reply)
{
    reply_to = on_reply;
    for (int i = 0; i < count; i++) {
        struct master *master = masters[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = master};
        master->redis = redisConnectNonBlock("127.0.0.1", master->port);
        if (!master->redis || master->redis->err)
            die("no master on port %d", master->port);
        struct pollfd ready = {.fd = master->redis->fd, .events = POLLOUT};
        if (poll(&ready, 1, 1000) != 1 ||
            epoll_ctl(epoll_fd, EPOLL_CTL_ADD, master->redis->fd, &event) != 0)
            die("cannot watch the master on port %d", master->port);
    }
}

void masters_load(const char *script, char ret_sha[SHA_CHARS + 1])
{
    for (int i = 0; i < count; i++) {
        redisContext *redis = redisConnect("127.0.0.1", masters[i]->port);
        if (!redis || redis->err)
            die("no master on port %d", masters[i]->port);
        redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", script);
        if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != SHA_CHARS)
            die("cannot load a script: %s", reply && reply->str ? reply->str : redis->errstr);
        memcpy(ret_sha, reply->str, SHA_CHARS + 1);
        freeReplyObject(reply);
        redisFree(redis);
    }
}

void masters_send(uint16_t caller, uint32_t operation, uint16_t replies, const char *bytes,
                  size_t length)
{
    for (int i = 0; i < count; i++) {
        struct master *master = masters[i];
        if (master->tail - master->head == RING)
            die("the master on port %d owes %d replies", master->port, RING);
        master->ring[master->tail++ % RING] =
            (struct pending){.caller = caller, .replies = replies, .operation = operation};
        master->dirty = true;
        redisAppendFormattedCommand(master->redis, bytes, length);
    }
}

void masters_send_formatted(uint16_t caller, uint32_t operation, char *bytes, int length)
{
    if (length < 0)
        die("out of memory");
    masters_send(caller, operation, /* replies= */ 1, bytes, (size_t)length);
    redisFreeCommand(bytes);
}

static void take_reply(struct master *master, const redisReply *reply, int64_t now)
{
    if (master->head == master->tail)
        die("a reply that nobody asked for");
    struct pending *pending = &master->ring[master->head % RING];
    if (--pending->replies > 0)
        return;
    master->head++;
    reply_to(pending->caller, pending->operation, reply, now);
}

void masters_read(struct master *master)
{
    void *reply;

    if (redisBufferRead(master->redis) != REDIS_OK)
        die("port %d: %s", master->port, master->redis->errstr);
    int64_t now = now_ns();
    while (redisGetReplyFromReader(master->redis, &reply) == REDIS_OK && reply) {
        take_reply(master, reply, now);
        freeReplyObject(reply);
    }
    if (master->redis->err)
        die("port %d: %s", master->port, master->redis->errstr);
}

bool masters_flush(void)
{
    bool all_out = true;

    for (int i = 0; i < count; i++) {
        struct master *master = masters[i];
        int done = 0;
        if (!master->dirty)
            continue;
        if (redisBufferWrite(master->redis, &done) != REDIS_OK)
            die("port %d: %s", master->port, master->redis->errstr);
        master->dirty = !done;
        all_out = all_out && done;
    }
    return all_out;
}

void fresh_random(char ret_random[RANDOM_CHARS + 1])
{
    static uint8_t pool[4096];
    static size_t left;

    if (left < BYTES_DRAWN) {
        if (getrandom(pool, sizeof pool, 0) != sizeof pool)
            die("no random bytes");
        left = sizeof pool;
    }
    left -= BYTES_DRAWN;
    for (size_t i = 0; i < BYTES_DRAWN; i++) {
        ret_random[2 * i] = "0123456789abcdef"[pool[left + i] >> 4];
        ret_random[2 * i + 1] = "0123456789abcdef"[pool[left + i] & 15];
    }
    ret_random[RANDOM_CHARS] = 0;
}
