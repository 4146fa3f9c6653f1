/* The classic recipes: SET NX, and after a failure again, at once or after a pause. With one master
 * it is the lock of most tutorials. With several it is the Redlock of a plain library: undo the
 * granted keys, pause, try again. */
#include "tests/bench/contest.h"
#include "tests/bench/masters.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { KEY_BYTES = 128, TTL_MS = 60000 };

enum caller_state { IDLE, ASKING, UNDOING, PAUSING, HOLDING, RELEASING };

struct caller {
    enum caller_state state;
    uint32_t operation;
    int yes, no;
    int64_t asks_again_ns; /* while PAUSING */
    char random[RANDOM_CHARS + 1];
    char key[KEY_BYTES];
};

static struct contest contest = {
    .window = {.callers = 100, .prefix = "contest", .seconds = 2, .warmup_s = 1}, .permits = 1};
static struct caller callers[CALLERS_MAX];
static int64_t pause_ns;
static int quorum, busy, epoll_fd;
static char delete_sha[SHA_CHARS + 1];

static uint16_t number_of(const struct caller *caller)
{
    return (uint16_t)(caller - callers);
}

static void ask(struct caller *caller)
{
    char *bytes;

    if (!window_takes_pairs(&contest.window)) {
        busy -= caller->state != IDLE;
        caller->state = IDLE;
        return;
    }
    busy += caller->state == IDLE;
    caller->state = ASKING;
    caller->operation++;
    caller->yes = caller->no = 0;
    fresh_random(caller->random);
    int length =
        redisFormatCommand(&bytes, "SET %s %s NX PX %d", caller->key, caller->random, TTL_MS);
    masters_send_formatted(number_of(caller), caller->operation, bytes, length);
}

static void send_delete(struct caller *caller)
{
    char *bytes;
    int length =
        redisFormatCommand(&bytes, "EVALSHA %s 1 %s %s", delete_sha, caller->key, caller->random);

    caller->operation++;
    caller->yes = caller->no = 0;
    masters_send_formatted(number_of(caller), caller->operation, bytes, length);
}

/* On one master the pause is constant, as in the recipe. On several it is spread by half, for
 * Redlock asks for a random delay: otherwise callers that once split the votes would do so
 * forever. */
static void pause_before_asking(struct caller *caller, int64_t now)
{
    int64_t pause =
        master_count() == 1 ? pause_ns : pause_ns / 2 + (int64_t)(drand48() * (double)pause_ns);

    caller->state = PAUSING;
    caller->asks_again_ns = now + pause;
}

static void on_refused(struct caller *caller, int64_t now)
{
    if (master_count() == 1) {
        pause_before_asking(caller, now);
        return;
    }
    caller->state = UNDOING;
    send_delete(caller);
}

static void want(struct caller *caller, int64_t now)
{
    contest_wants(&contest, number_of(caller), now);
    ask(caller);
}

static void on_decided(struct caller *caller, bool yes, int64_t now)
{
    if (caller->state == RELEASING) {
        want(caller, now);
    } else if (yes) {
        caller->state = HOLDING;
        contest_granted(&contest, number_of(caller), 0, now);
    } else {
        on_refused(caller, now);
    }
}

/* An undo waits for all masters, as libraries do: otherwise callers without a pause would owe the
 * slowest one more and more. */
static void on_vote(struct caller *caller, bool yes, int64_t now)
{
    caller->yes += yes;
    caller->no += !yes;
    if (caller->state == UNDOING) {
        if (caller->yes + caller->no == master_count())
            pause_before_asking(caller, now);
    } else if (caller->yes == quorum || caller->no > master_count() - quorum) {
        on_decided(caller, yes, now);
    }
}

static void on_reply(uint16_t number, uint32_t operation, const redisReply *reply, int64_t now)
{
    struct caller *caller = &callers[number];

    if (reply->type == REDIS_REPLY_ERROR)
        die("naive: %s", reply->str);
    bool asks = caller->state == ASKING;
    if (caller->operation == operation &&
        (asks || caller->state == UNDOING || caller->state == RELEASING))
        on_vote(caller, asks ? reply->type == REDIS_REPLY_STATUS : reply->integer == 1, now);
}

/* Sends releases whose time has come, asks again if a pause is over; returns when the next action
 * is due. */
static int64_t act_on_time(void)
{
    int64_t now = now_ns(), due;

    if (contest_hold_ends(&contest) <= now) {
        struct caller *holder = &callers[contest_released(&contest, now)];
        holder->state = RELEASING;
        send_delete(holder);
    }
    due = contest_hold_ends(&contest);
    for (int i = 0; i < contest.window.callers; i++) {
        if (callers[i].state != PAUSING)
            continue;
        if (callers[i].asks_again_ns <= now)
            ask(&callers[i]);
        else if (callers[i].asks_again_ns < due)
            due = callers[i].asks_again_ns;
    }
    return due;
}

static void run(void)
{
    struct epoll_event events[MASTERS_MAX + 1];
    int64_t due = INT64_MAX;

    masters_connect(epoll_fd, on_reply);
    masters_load(compare_and_delete, delete_sha);
    contest_start(&contest, epoll_fd);
    for (int i = 0; i < contest.window.callers; i++) {
        snprintf(callers[i].key, KEY_BYTES, "lock:%s", contest.window.prefix);
        want(&callers[i], now_ns());
    }
    while (contest_advance(&contest, due) && busy > 0) {
        int ready = epoll_wait(epoll_fd, events, MASTERS_MAX + 1, masters_flush() ? -1 : 0);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr)
                masters_read(events[i].data.ptr);
        due = act_on_time();
    }
    masters_flush();
}

static bool parse_pause(const char *ms)
{
    char *end;
    double pause_ms = strtod(ms, &end);

    pause_ns = (int64_t)(pause_ms * 1e6);
    return end != ms && !*end && pause_ms >= 0 && pause_ms <= 10000;
}

static void parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"master", required_argument, NULL, 'm'},
        {"hold", required_argument, NULL, 'h'},
        {"pause", required_argument, NULL, 'P'},
        WINDOW_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'm')
            masters_add(optarg);
        else if (option == 'h')
            good = parse_hold(&contest, optarg);
        else if (option == 'P')
            good = parse_pause(optarg);
        else
            good = window_option(&contest.window, option, optarg);
    }
    if (!good || optind != argc || !master_count())
        die("usage: naive --master PORT... [--pause MS] " CONTEST_USAGE);
    quorum = master_count() / 2 + 1;
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("naive: no epoll: %s", strerror(errno));
    run();
    window_requires(contest.grants, "naive", "grant");
    contest_print(&contest);
    printf(" refused=0 unanswered=%d\n", busy);
    return 0;
}
