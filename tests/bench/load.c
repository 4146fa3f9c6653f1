/* The HTTP load generator: one thread, one epoll, keep-alive connections that each take and give
 * back their own lock, over and over. */
#include "tests/bench/http.h"
#include "tests/bench/measure.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

enum { RECONNECTS_MAX = 10000 };

/* Waits for the answer to a POST, then for the answer to the DELETE with its token; rests until its
 * pace lets it begin again; idle when no pair may begin. */
enum caller_state { IDLE, RESTING, ACQUIRING, RELEASING };

struct caller {
    int number;
    enum caller_state state;
    int64_t began_ns;
    char token[TOKEN_BYTES];
    struct http http;
};

static struct window window = {.callers = 1, .prefix = "bench-", .seconds = 2, .warmup_s = .3};
static struct caller *callers[CALLERS_MAX];
static int busy, port, epoll_fd;
static bool only_http; /* two GET /livez in place of each pair: the cost of HTTP alone */
/* The interval at which each caller begins a pair; 0: as soon as the last one has ended. If a late
 * answer keeps a pair from beginning in time, the pair counts from its due time. */
static int64_t pace_ns;
static uint64_t statuses[STATUS_MAX], broken, unanswered;

static void send_request(struct caller *caller, enum caller_state state)
{
    char request[512];
    int length;

    if (only_http)
        length =
            snprintf(request, sizeof request, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    else if (state == ACQUIRING)
        length =
            snprintf(request, sizeof request,
                     "POST /locks/%s%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
                     window.prefix, caller->number);
    else
        length =
            snprintf(request, sizeof request,
                     "DELETE /locks/%s%d HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n",
                     window.prefix, caller->number, caller->token);
    caller->state = state;
    http_send(&caller->http, request, (size_t)length);
}

static void begin_pair(struct caller *caller, int64_t began)
{
    if (!window_takes_pairs(&window)) {
        busy -= caller->state != IDLE;
        caller->state = IDLE;
        return;
    }
    busy += caller->state == IDLE;
    caller->began_ns = began;
    send_request(caller, ACQUIRING);
}

static void next_pair(struct caller *caller, int64_t now)
{
    int64_t due = caller->began_ns + pace_ns;

    if (!pace_ns)
        begin_pair(caller, now);
    else if (due <= now)
        begin_pair(caller, due);
    else
        caller->state = RESTING;
}

/* Ends the rests that are over; returns when the next one is. */
static int64_t end_rests(int64_t now)
{
    int64_t next = window.phase_ends_ns;

    for (int i = 0; pace_ns && i < window.callers; i++) {
        int64_t due = callers[i]->began_ns + pace_ns;
        if (callers[i]->state != RESTING)
            continue;
        if (due <= now || !window_takes_pairs(&window))
            begin_pair(callers[i], now);
        else if (due < next)
            next = due;
    }
    return next;
}

/* An acquire that was refused is counted by its status and tried again at once: the loop is closed,
 * and its rate is the result. */
static void take_answer(struct caller *caller, const struct answer *answer, int64_t now)
{
    if (window.phase == PHASE_OPEN)
        statuses[answer->status]++;
    if (caller->state == ACQUIRING && answer->status == (only_http ? 200 : 201)) {
        if (!only_http && !answer->token[0])
            die("load: a 201 without Lock-Token");
        window_acquired(&window, caller->began_ns, now);
        memcpy(caller->token, answer->token, sizeof caller->token);
        send_request(caller, RELEASING);
        return;
    }
    if (caller->state == RELEASING && answer->status / 100 == 2)
        window_paired(&window, caller->began_ns, now);
    next_pair(caller, now);
}

static void on_readable(struct caller *caller)
{
    struct answer answer;

    switch (http_read(&caller->http, &answer)) {
    case HTTP_MORE:
        return;
    case HTTP_BROKEN:
        if (++broken > RECONNECTS_MAX)
            die("load: %d connections were closed on us", RECONNECTS_MAX);
        http_reopen(&caller->http, epoll_fd, caller);
        begin_pair(caller, now_ns());
        return;
    case HTTP_ANSWER:
        if (caller->state != ACQUIRING && caller->state != RELEASING)
            die("load: an answer that nobody asked for");
        if (answer.closes)
            http_reopen(&caller->http, epoll_fd, caller);
        take_answer(caller, &answer, now_ns());
    }
}

static void run(void)
{
    static const struct timespec no_time;
    struct epoll_event events[128];

    for (int i = 0; i < window.callers; i++) {
        if (!(callers[i] = calloc(1, sizeof *callers[i])))
            die("load: out of memory");
        callers[i]->number = i;
        http_open(&callers[i]->http, port, epoll_fd, callers[i]);
    }
    window_start(&window);
    for (int i = 0; i < window.callers; i++)
        begin_pair(callers[i], now_ns());
    for (int64_t now = now_ns(); window_advance(&window, now) != PHASE_OVER && busy > 0;
         now = now_ns()) {
        int64_t left = end_rests(now) - now;
        struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        int ready = epoll_pwait2(epoll_fd, events, 128, left > 0 ? &timeout : &no_time, NULL);
        for (int i = 0; i < ready; i++)
            on_readable(events[i].data.ptr);
    }
    unanswered = (uint64_t)busy;
}

static void report(void)
{
    uint64_t refused = 0;

    window_requires(window.pair.count, "load", "pair");
    window_print(&window);
    for (int i = 0; i < STATUS_MAX; i++) {
        refused += i < 200 || i > 299 ? statuses[i] : 0;
        if (statuses[i])
            printf(" status_%d=%llu", i, (unsigned long long)statuses[i]);
    }
    printf(" refused=%llu broken=%llu unanswered=%llu\n", (unsigned long long)refused,
           (unsigned long long)broken, (unsigned long long)unanswered);
}

static void parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        {"only-http", no_argument, NULL, 'h'},
        {"pace", required_argument, NULL, 'P'},
        WINDOW_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p')
            port = atoi(optarg);
        else if (option == 'h')
            only_http = true;
        else if (option == 'P')
            good = (pace_ns = atoi(optarg) * INT64_C(1000000)) > 0;
        else
            good = window_option(&window, option, optarg);
    }
    if (!good || optind != argc || port < 1 || port > 65535)
        die("usage: load --port PORT [--only-http] [--pace MS] " WINDOW_USAGE);
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("load: no epoll: %s", strerror(errno));
    run();
    report();
    return 0;
}
