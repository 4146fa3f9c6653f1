/* The yardstick: the same commands on the same masters as the agent sends, decided at the same quorum, with as many
 * callers under way, but straight from hiredis, without HTTP, deadlines, renewal or anything else that makes it a
 * service. */
#include "tests/bench/masters.h"
#include "tests/bench/measure.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

enum { KEY_BYTES = 128 };
enum { TTL_MS = 30000, FENCE_RETENTION_MS = 3600000 };

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
static struct caller callers[CALLERS_MAX];
static int busy, quorum, epoll_fd;
static bool fencing;
static const char *scripts = "agent/redis";
static char acquire_sha[SHA_CHARS + 1], release_sha[SHA_CHARS + 1];
static uint64_t failed, second_phases;

static uint64_t unix_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void send_to_all(const struct caller *caller, char *bytes, int length)
{
    masters_send((uint16_t)(caller - callers), caller->operation, bytes, length);
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
    } else if (caller->state == ACQUIRING && caller->no > master_count() - quorum) {
        failed++;
        send_release(caller);
    } else if (caller->state == RELEASING && caller->yes == quorum) {
        window_paired(&window, caller->began_ns, now);
        begin_pair(caller, now);
    } else if (caller->state == RELEASING && caller->no > master_count() - quorum) {
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

static void on_reply(uint16_t number, uint32_t operation, const redisReply *reply, int64_t now)
{
    struct caller *caller = &callers[number];
    if (caller->operation == operation && caller->state != IDLE)
        on_vote(caller, reply_is_yes(caller, reply), now);
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

static void run(void)
{
    struct epoll_event events[MASTERS_MAX];

    masters_connect(epoll_fd, on_reply);
    masters_load(read_script("acquire"), acquire_sha);
    masters_load(read_script("release"), release_sha);
    window_start(&window);
    for (int i = 0; i < window.callers; i++) {
        snprintf(callers[i].key, KEY_BYTES, "lock:%s%d", window.prefix, i);
        snprintf(callers[i].fence_key, KEY_BYTES, "lockagent:fence:lock:%s%d", window.prefix, i);
        begin_pair(&callers[i], now_ns());
    }
    for (int64_t now = now_ns(); window_advance(&window, now) != PHASE_OVER && busy > 0; now = now_ns()) {
        int timeout_ms = masters_flush() ? window_timeout_ms(&window, now) : 0;
        int ready = epoll_wait(epoll_fd, events, MASTERS_MAX, timeout_ms);
        for (int i = 0; i < ready; i++)
            masters_read(events[i].data.ptr);
    }
    masters_flush();
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
            masters_add(optarg);
        else if (option == 'f')
            fencing = true;
        else if (option == 'l')
            scripts = optarg;
        else
            good = window_option(&window, option, optarg);
    }
    if (!good || optind != argc || !master_count())
        die("usage: bare --master PORT... [--fencing] [--scripts DIR] " WINDOW_USAGE);
    quorum = master_count() / 2 + 1;
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
