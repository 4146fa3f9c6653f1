/* Callers that want one key, each at one of the agents: POST with a wait, hold, DELETE, over and
 * over. Some of them read, or several hold at once, if the agents' policy is of such a kind. */
#include "tests/bench/contest.h"
#include "tests/bench/http.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { AGENTS_MAX = 8, REFUSED_MAX = 10000 };

enum caller_state { IDLE, WAITING, HOLDING, RELEASING };

struct caller {
    int number, place;
    enum caller_state state;
    char token[TOKEN_BYTES];
    struct http http;
};

static struct contest contest = {
    .window = {.callers = 100, .prefix = "contest", .seconds = 2, .warmup_s = 1}, .permits = 1};
static struct caller *callers[CALLERS_MAX];
static int ports[AGENTS_MAX], port_count, busy, epoll_fd;
static uint64_t refused;

static void ask(struct caller *caller, int64_t now)
{
    char request[512];

    if (!window_takes_pairs(&contest.window)) {
        busy -= caller->state != IDLE;
        caller->state = IDLE;
        return;
    }
    busy += caller->state == IDLE;
    caller->state = WAITING;
    contest_wants(&contest, caller->number, now);
    int length = snprintf(request, sizeof request,
                          "POST /locks/%s?wait=60s%s HTTP/1.1\r\nHost: localhost\r\n"
                          "Content-Length: 0\r\n\r\n",
                          contest.window.prefix, contest.reads[caller->number] ? "&mode=read" : "");
    http_send(&caller->http, request, (size_t)length);
}

static void release(struct caller *caller)
{
    char request[512];
    int length = snprintf(request, sizeof request,
                          "DELETE /locks/%s HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n",
                          contest.window.prefix, caller->token);

    caller->state = RELEASING;
    http_send(&caller->http, request, (size_t)length);
}

/* A refused request is counted and sent again. */
static void take_answer(struct caller *caller, const struct answer *answer, int64_t now)
{
    if (caller->state == WAITING && answer->status == 201) {
        memcpy(caller->token, answer->token, sizeof caller->token);
        caller->state = HOLDING;
        contest_granted(&contest, caller->number, caller->place, now);
        return;
    }
    if (answer->status / 100 != 2 && ++refused > REFUSED_MAX)
        die("contend: %d requests were refused, the last one with %d", REFUSED_MAX, answer->status);
    ask(caller, now);
}

static void on_readable(struct caller *caller)
{
    struct answer answer;

    switch (http_read(&caller->http, &answer)) {
    case HTTP_MORE:
        return;
    case HTTP_BROKEN:
        die("contend: a connection was closed on us");
    case HTTP_ANSWER:
        if (caller->state != WAITING && caller->state != RELEASING)
            die("contend: an answer that nobody asked for");
        if (answer.closes)
            http_reopen(&caller->http, epoll_fd, caller);
        take_answer(caller, &answer, now_ns());
    }
}

static void end_holds(void)
{
    int64_t now = now_ns();

    while (contest_hold_ends(&contest) <= now)
        release(callers[contest_released(&contest, now)]);
}

static void run(void)
{
    struct epoll_event events[128];

    for (int i = 0; i < contest.window.callers; i++) {
        struct caller *caller = callers[i] = calloc(1, sizeof *caller);
        if (!caller)
            die("contend: out of memory");
        caller->number = i;
        caller->place = i % port_count;
        http_open(&caller->http, ports[caller->place], epoll_fd, caller);
    }
    contest_start(&contest, epoll_fd);
    for (int i = 0; i < contest.window.callers; i++)
        ask(callers[i], now_ns());
    while (contest_advance(&contest, contest_hold_ends(&contest)) && busy > 0) {
        int ready = epoll_wait(epoll_fd, events, 128, -1);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr)
                on_readable(events[i].data.ptr);
        end_holds();
    }
}

static void add_port(const char *text)
{
    int port = atoi(text);

    if (port_count == AGENTS_MAX || port < 1 || port > 65535)
        die("contend: bad port, or more than %d agents", AGENTS_MAX);
    ports[port_count++] = port;
}

static bool parse_percent(const char *text)
{
    char *end;
    long percent = strtol(text, &end, 10);

    contest.read_share = (double)percent / 100;
    return end != text && !*end && percent >= 0 && percent <= 100;
}

static void parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        {"hold", required_argument, NULL, 'h'},
        {"permits", required_argument, NULL, 'n'},
        {"reads", required_argument, NULL, 'r'},
        WINDOW_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p')
            add_port(optarg);
        else if (option == 'h')
            good = parse_hold(&contest, optarg);
        else if (option == 'n')
            good = (contest.permits = atoi(optarg)) > 0;
        else if (option == 'r')
            good = parse_percent(optarg);
        else
            good = window_option(&contest.window, option, optarg);
    }
    if (!good || optind != argc || !port_count)
        die("usage: contend --port PORT... [--permits N] [--reads PERCENT] " CONTEST_USAGE);
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("contend: no epoll: %s", strerror(errno));
    run();
    window_requires(contest.grants, "contend", "grant");
    contest_print(&contest);
    printf(" refused=%llu unanswered=%d\n", (unsigned long long)refused, busy);
    return 0;
}
