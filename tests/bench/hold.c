/* Holds locks, each with a key of its own: takes them as fast as its connections allow, prints
 * `held=N seconds=...` and closes the connections. The agent's watchdog renews them, unless
 * `--terms` says otherwise. The first line or the end of its standard input has it release them
 * all. */
#include "tests/bench/http.h"
#include "tests/bench/measure.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A refused lock is asked for again, as often as there are locks, and REFUSED_MORE times more: a
 * failure of slow masters is not the end of it. */
enum { HELD_MAX = 1000000, REFUSED_MORE = 100, SILENCE_MS = 30000 };
enum { LOST = 410 }; /* the agent says so when it is to be released: then there is nothing to do */

struct caller {
    int lock; /* that its request is about */
    struct http http;
};

static struct window window = {.callers = 16, .prefix = "held-"};
static struct caller *callers[CALLERS_MAX];
static char (*tokens)[TOKEN_BYTES];
static const char *terms = ""; /* the query of each acquire */
static int port, epoll_fd, wanted, begun, done, refused;
static bool releasing;

static void ask(struct caller *caller)
{
    char request[512];
    int length =
        releasing
            ? snprintf(request, sizeof request,
                       "DELETE /locks/%s%d HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n",
                       window.prefix, caller->lock, tokens[caller->lock])
            : snprintf(request, sizeof request,
                       "POST /locks/%s%d%s HTTP/1.1\r\nHost: localhost\r\n"
                       "Content-Length: 0\r\n\r\n",
                       window.prefix, caller->lock, terms);
    http_send(&caller->http, request, (size_t)length);
}

static void ask_next(struct caller *caller)
{
    if (begun == wanted)
        return;
    caller->lock = begun++;
    ask(caller);
}

static void on_readable(struct caller *caller)
{
    struct answer answer;
    enum http_state state = http_read(&caller->http, &answer);

    if (state == HTTP_BROKEN)
        die("hold: a connection was closed on us");
    if (state != HTTP_ANSWER)
        return;
    if (answer.closes)
        http_reopen(&caller->http, epoll_fd, caller);
    if (answer.status / 100 != 2 && !(releasing && answer.status == LOST)) {
        if (++refused > wanted + REFUSED_MORE)
            die("hold: %d refusals for %d locks, the last one with %d", refused, wanted,
                answer.status);
        ask(caller);
        return;
    }
    if (!releasing && !answer.token[0])
        die("hold: a 201 without Lock-Token");
    if (!releasing)
        memcpy(tokens[caller->lock], answer.token, TOKEN_BYTES);
    done++;
    ask_next(caller);
}

static void go_through_all(bool release)
{
    struct epoll_event events[128];

    releasing = release;
    begun = done = 0;
    for (int i = 0; i < window.callers; i++) {
        http_open(&callers[i]->http, port, epoll_fd, callers[i]);
        ask_next(callers[i]);
    }
    while (done < wanted) {
        int ready = epoll_wait(epoll_fd, events, 128, SILENCE_MS);
        if (ready <= 0)
            die("hold: the agent was silent for %d ms, at %d of %d locks", SILENCE_MS, done,
                wanted);
        for (int i = 0; i < ready; i++)
            on_readable(events[i].data.ptr);
    }
    for (int i = 0; i < window.callers; i++)
        close(callers[i]->http.fd);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        {"held", required_argument, NULL, 'n'},
        {"terms", required_argument, NULL, 't'},
        WINDOW_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p')
            port = atoi(optarg);
        else if (option == 'n')
            wanted = atoi(optarg);
        else if (option == 't')
            terms = optarg;
        else
            good = window_option(&window, option, optarg);
    }
    if (!good || optind != argc || port < 1 || port > 65535 || wanted < 1 || wanted > HELD_MAX)
        die("usage: hold --port PORT --held N [--terms QUERY] [--callers N] [--prefix KEY]");
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0 || !(tokens = calloc((size_t)wanted, TOKEN_BYTES)))
        die("hold: no epoll, or out of memory: %s", strerror(errno));
    for (int i = 0; i < window.callers; i++)
        if (!(callers[i] = calloc(1, sizeof *callers[i])))
            die("hold: out of memory");
    int64_t began_ns = now_ns();
    go_through_all(false);
    printf("held=%d seconds=%.3f refused=%d\n", wanted, (double)(now_ns() - began_ns) / 1e9,
           refused);
    fflush(stdout);
    getchar();
    go_through_all(true);
    return 0;
}
