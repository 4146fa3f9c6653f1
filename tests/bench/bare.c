/* The yardstick: the same commands on the same masters as the agent sends, decided at the same quorum, with as many
 * callers under way, but straight from hiredis, without HTTP, deadlines, renewal or anything else that makes it a
 * service. */
#include "tests/bench/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>

enum {
    MASTERS_MAX = 15,
    RING = 1 << 16,
    RANDOM_BYTES = 20,
    RANDOM_CHARS = 2 * RANDOM_BYTES,
    KEY_BYTES = 128,
    SHA_CHARS = 40
};
enum { TTL_MS = 30000, FENCE_RETENTION_MS = 3600000 };

/* Whose reply comes next on a connection. A reply to an operation that has been decided meanwhile is stale and dropped.
 */
struct pending {
    uint16_t caller;
    uint32_t operation;
};

struct master {
    int port;
    redisContext *redis;
    bool dirty;
    uint32_t head, tail;
    struct pending ring[RING];
};

enum caller_state { IDLE, ACQUIRING, RELEASING };

struct caller {
    enum caller_state state;
    uint32_t operation;
    int yes, no;
    int64_t began_ns;
    char random[RANDOM_CHARS + 1];
    char key[KEY_BYTES], fence_key[KEY_BYTES];
    long long fence; /* the highest number of the masters' ... */
    int stored;      /* ... and how many of them store it */
};

static struct window window = {.callers = 1, .prefix = "bare-", .seconds = 2, .warmup_s = .3};
static struct master *masters[MASTERS_MAX];
static struct caller callers[CALLERS_MAX];
static int master_count, busy, quorum, epoll_fd;
static bool fencing;
static const char *scripts = "agent/redis";
static char acquire_sha[SHA_CHARS + 1], release_sha[SHA_CHARS + 1];
static uint64_t failed, second_phases;

static void fresh_random(char random[RANDOM_CHARS + 1])
{
    static uint8_t pool[4096];
    static size_t left;

    if (left < RANDOM_BYTES) {
        if (getrandom(pool, sizeof pool, 0) != sizeof pool)
            die("bare: no random bytes");
        left = sizeof pool;
    }
    left -= RANDOM_BYTES;
    for (int i = 0; i < RANDOM_BYTES; i++) {
        random[2 * i] = "0123456789abcdef"[pool[left + i] >> 4];
        random[2 * i + 1] = "0123456789abcdef"[pool[left + i] & 15];
    }
    random[RANDOM_CHARS] = 0;
}

static uint64_t unix_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Formats once and hands the same bytes to every master; they are written once per master and turn of the loop. */
static void send_to_all(const struct caller *caller, char *bytes, int length)
{
    if (length < 0)
        die("bare: out of memory");
    for (int i = 0; i < master_count; i++) {
        struct master *master = masters[i];
        if (master->tail - master->head == RING)
            die("bare: the master on port %d owes %d replies", master->port, RING);
        master->ring[master->tail++ % RING] =
            (struct pending){.caller = (uint16_t)(caller - callers), .operation = caller->operation};
        master->dirty = true;
        redisAppendFormattedCommand(master->redis, bytes, (size_t)length);
    }
    redisFreeCommand(bytes);
}

static void send_acquire(struct caller *caller, int64_t now)
{
    char *bytes;
    int length;

    fresh_random(caller->random);
    caller->state = ACQUIRING;
    caller->operation++;
    caller->yes = caller->no = caller->stored = 0;
    caller->fence = 0;
    caller->began_ns = now;
    if (fencing) {
        length =
            redisFormatCommand(&bytes, "EVALSHA %s 2 %s %s %s: %d %d %llu", acquire_sha, caller->key, caller->fence_key,
                               caller->random, TTL_MS, FENCE_RETENTION_MS, (unsigned long long)unix_us());
    } else {
        length = redisFormatCommand(&bytes, "SET %s %s: NX PX %d", caller->key, caller->random, TTL_MS);
    }
    send_to_all(caller, bytes, length);
}

static void send_release(struct caller *caller)
{
    char *bytes;

    caller->state = RELEASING;
    caller->operation++;
    caller->yes = caller->no = 0;
    int length = fencing
                     ? redisFormatCommand(&bytes, "EVALSHA %s 2 %s %s %s: %d", release_sha, caller->key,
                                          caller->fence_key, caller->random, FENCE_RETENTION_MS)
                     : redisFormatCommand(&bytes, "EVALSHA %s 1 %s %s: 0", release_sha, caller->key, caller->random);
    send_to_all(caller, bytes, length);
}

static void begin_pair(struct caller *caller, int64_t now)
{
    if (!window_takes_pairs(&window)) {
        busy -= caller->state != IDLE;
        caller->state = IDLE;
        return;
    }
    busy += caller->state == IDLE;
    send_acquire(caller, now);
}

/* A grant whose number a quorum does not store yet would cost the agent a second phase (R12). It can not happen to one
 * client whose clock runs forward; it is counted, so that a run in which it did is seen not to be comparable. */
static void on_granted(struct caller *caller, int64_t now)
{
    second_phases += fencing && caller->stored < quorum;
    window_acquired(&window, caller->began_ns, now);
    send_release(caller);
}

static void on_vote(struct caller *caller, bool yes, int64_t now)
{
    caller->yes += yes;
    caller->no += !yes;
    if (caller->state == ACQUIRING && caller->yes == quorum) {
        on_granted(caller, now);
    } else if (caller->state == ACQUIRING && caller->no > master_count - quorum) {
        failed++;
        send_release(caller);
    } else if (caller->state == RELEASING && caller->yes == quorum) {
        window_paired(&window, caller->began_ns, now);
        begin_pair(caller, now);
    } else if (caller->state == RELEASING && caller->no > master_count - quorum) {
        failed++;
        begin_pair(caller, now);
    }
}

/* Yes is OK to the plain SET, a number from acquire.lua, and a list with a number from release.lua. */
static bool reply_is_yes(struct caller *caller, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        die("bare: %s", reply->str);
    if (caller->state == ACQUIRING && !fencing)
        return reply->type == REDIS_REPLY_STATUS;
    if (caller->state == RELEASING)
        return reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
               reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[0]->integer >= 0;
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 0)
        return false;
    if (reply->integer > caller->fence) {
        caller->fence = reply->integer;
        caller->stored = 0;
    }
    caller->stored += reply->integer == caller->fence;
    return true;
}

static void on_reply(struct master *master, const redisReply *reply, int64_t now)
{
    if (master->head == master->tail)
        die("bare: a reply that nobody asked for");
    struct pending pending = master->ring[master->head++ % RING];
    struct caller *caller = &callers[pending.caller];
    if (caller->operation == pending.operation && caller->state != IDLE)
        on_vote(caller, reply_is_yes(caller, reply), now);
}

static void on_readable(struct master *master)
{
    void *reply;

    if (redisBufferRead(master->redis) != REDIS_OK)
        die("bare: port %d: %s", master->port, master->redis->errstr);
    int64_t now = now_ns();
    while (redisGetReplyFromReader(master->redis, &reply) == REDIS_OK && reply) {
        on_reply(master, reply, now);
        freeReplyObject(reply);
    }
    if (master->redis->err)
        die("bare: port %d: %s", master->port, master->redis->errstr);
}

/* True when everything went out; else the loop comes back at once. */
static bool flush(void)
{
    bool all_out = true;

    for (int i = 0; i < master_count; i++) {
        struct master *master = masters[i];
        int done = 0;
        if (!master->dirty)
            continue;
        if (redisBufferWrite(master->redis, &done) != REDIS_OK)
            die("bare: port %d: %s", master->port, master->redis->errstr);
        master->dirty = !done;
        all_out = all_out && done;
    }
    return all_out;
}

static char *read_script(const char *name)
{
    static char text[16384];
    const char *parts[] = {"common", name};
    size_t length = 0;

    for (int i = 0; i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.lua", scripts, parts[i]);
        FILE *file = fopen(path, "r");
        if (!file)
            die("bare: %s: %s", path, strerror(errno));
        length += fread(text + length, 1, sizeof text - 1 - length, file);
        fclose(file);
    }
    text[length] = 0;
    return text;
}

static void load_script(redisContext *redis, const char *name, char sha[SHA_CHARS + 1])
{
    redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", read_script(name));

    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != SHA_CHARS)
        die("bare: cannot load %s.lua: %s", name, reply && reply->str ? reply->str : redis->errstr);
    memcpy(sha, reply->str, SHA_CHARS + 1);
    freeReplyObject(reply);
}

static void connect_master(struct master *master)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = master};

    redisContext *setup = redisConnect("127.0.0.1", master->port);
    if (!setup || setup->err)
        die("bare: no master on port %d", master->port);
    load_script(setup, "acquire", acquire_sha);
    load_script(setup, "release", release_sha);
    redisFree(setup);
    master->redis = redisConnectNonBlock("127.0.0.1", master->port);
    if (!master->redis || master->redis->err)
        die("bare: no master on port %d", master->port);
    struct pollfd ready = {.fd = master->redis->fd, .events = POLLOUT};
    if (poll(&ready, 1, 1000) != 1 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, master->redis->fd, &event) != 0)
        die("bare: cannot watch the master on port %d", master->port);
}

static void run(void)
{
    struct epoll_event events[MASTERS_MAX];

    for (int i = 0; i < master_count; i++)
        connect_master(masters[i]);
    window_start(&window);
    for (int i = 0; i < window.callers; i++) {
        snprintf(callers[i].key, KEY_BYTES, "lock:%s%d", window.prefix, i);
        snprintf(callers[i].fence_key, KEY_BYTES, "lockagent:fence:lock:%s%d", window.prefix, i);
        begin_pair(&callers[i], now_ns());
    }
    for (int64_t now = now_ns(); window_advance(&window, now) != PHASE_OVER && busy > 0; now = now_ns()) {
        int timeout_ms = flush() ? window_timeout_ms(&window, now) : 0;
        int ready = epoll_wait(epoll_fd, events, MASTERS_MAX, timeout_ms);
        for (int i = 0; i < ready; i++)
            on_readable(events[i].data.ptr);
    }
    flush();
}

static void add_master(const char *text)
{
    int port = atoi(text);

    if (master_count == MASTERS_MAX || port < 1 || port > 65535 ||
        !(masters[master_count] = calloc(1, sizeof(struct master))))
        die("bare: bad port, or more than %d masters", MASTERS_MAX);
    masters[master_count++]->port = port;
}

static void parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"master", required_argument, NULL, 'm'},
        {"fencing", no_argument, NULL, 'f'},
        {"scripts", required_argument, NULL, 'l'},
        WINDOW_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'm')
            add_master(optarg);
        else if (option == 'f')
            fencing = true;
        else if (option == 'l')
            scripts = optarg;
        else
            good = window_option(&window, option, optarg);
    }
    if (!good || optind != argc || !master_count)
        die("usage: bare --master PORT... [--fencing] [--scripts DIR] " WINDOW_USAGE);
    quorum = master_count / 2 + 1;
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("bare: no epoll: %s", strerror(errno));
    run();
    window_print(&window);
    printf(" refused=%llu second_phases=%llu unanswered=%d\n", (unsigned long long)failed,
           (unsigned long long)second_phases, busy);
    return 0;
}
