/* The yardstick: the least that Redlock can do on the same masters, SET NX PX and a
 * compare-and-delete, decided at the same quorum, with as many callers at work, but straight from
 * hiredis, without HTTP, fencing, deadlines, renewal or anything else that makes it a service. */
#include "tests/bench/masters.h"
#include "tests/bench/measure.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

enum { KEY_BYTES = 128, TTL_MS = 30000 };

enum caller_state { IDLE, ACQUIRING, RELEASING };

struct caller {
    enum caller_state state;
    uint32_t operation;
    int yes, no;
    int64_t began_ns;
    char random[RANDOM_CHARS + 1];
    char key[KEY_BYTES];
};

static struct window window = {.callers = 1, .prefix = "bare-", .seconds = 2, .warmup_s = .3};
static struct caller callers[CALLERS_MAX];
static int busy, quorum, epoll_fd;
static char delete_sha[SHA_CHARS + 1];
static uint64_t failed;

static void send_to_all(const struct caller *caller, char *bytes, int length)
{
    masters_send_formatted((uint16_t)(caller - callers), caller->operation, bytes, length);
}

static void send_acquire(struct caller *caller, int64_t now)
{
    char *bytes;

    fresh_random(caller->random);
    caller->state = ACQUIRING;
    caller->operation++;
    caller->yes = caller->no = 0;
    caller->began_ns = now;
    int length =
        redisFormatCommand(&bytes, "SET %s %s NX PX %d", caller->key, caller->random, TTL_MS);
    send_to_all(caller, bytes, length);
}

static void send_release(struct caller *caller)
{
    char *bytes;

    caller->state = RELEASING;
    caller->operation++;
    caller->yes = caller->no = 0;
    int length =
        redisFormatCommand(&bytes, "EVALSHA %s 1 %s %s", delete_sha, caller->key, caller->random);
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

static void on_vote(struct caller *caller, bool yes, int64_t now)
{
    caller->yes += yes;
    caller->no += !yes;
    if (caller->state == ACQUIRING && caller->yes == quorum) {
        window_acquired(&window, caller->began_ns, now);
        send_release(caller);
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

/* Yes is OK to the SET, and 1 from the compare-and-delete. */
static bool reply_is_yes(const struct caller *caller, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        die("bare: %s", reply->str);
    if (caller->state == ACQUIRING)
        return reply->type == REDIS_REPLY_STATUS;
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
}

static void on_reply(uint16_t number, uint32_t operation, const redisReply *reply, int64_t now)
{
    struct caller *caller = &callers[number];
    if (caller->operation == operation && caller->state != IDLE)
        on_vote(caller, reply_is_yes(caller, reply), now);
}

static void run(void)
{
    struct epoll_event events[MASTERS_MAX];

    masters_connect(epoll_fd, on_reply);
    masters_load(compare_and_delete, delete_sha);
    window_start(&window);
    for (int i = 0; i < window.callers; i++) {
        snprintf(callers[i].key, KEY_BYTES, "lock:%s%d", window.prefix, i);
        begin_pair(&callers[i], now_ns());
    }
    for (int64_t now = now_ns(); window_advance(&window, now) != PHASE_OVER && busy > 0;
         now = now_ns()) {
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
        WINDOW_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'm')
            masters_add(optarg);
        else
            good = window_option(&window, option, optarg);
    }
    if (!good || optind != argc || !master_count())
        die("usage: bare --master PORT... " WINDOW_USAGE);
    quorum = master_count() / 2 + 1;
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("bare: no epoll: %s", strerror(errno));
    run();
    window_requires(window.pair.count, "bare", "pair");
    window_print(&window);
    printf(" refused=%llu unanswered=%d\n", (unsigned long long)failed, busy);
    return 0;
}
