/* Callers that wait and are never granted, each for a key of its own that another holder has. Their
 * costs are read from outside, so this program follows its standard input. It prints `connected`
 * once every connection has had an answer to GET /livez. The first line that it reads sends the
 * waiting requests, and the end of the input ends it. */
#include "tests/bench/http.h"
#include "tests/bench/measure.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct window window = {.callers = 1000, .prefix = "park-"};
static struct http *connections[CALLERS_MAX];
static int port, epoll_fd;

static void on_livez(struct http *http, int *left)
{
    struct answer answer;
    enum http_state state = http_read(http, &answer);

    if (state == HTTP_BROKEN || (state == HTTP_ANSWER && answer.status != 200))
        die("park: a connection is of no use");
    *left -= state == HTTP_ANSWER;
}

static void connect_all(void)
{
    static const char livez[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct epoll_event event;
    int left = window.callers;

    for (int i = 0; i < window.callers; i++) {
        if (!(connections[i] = calloc(1, sizeof *connections[i])))
            die("park: out of memory");
        http_open(connections[i], port, epoll_fd, connections[i]);
        http_send(connections[i], livez, strlen(livez));
    }
    while (left > 0) {
        if (epoll_wait(epoll_fd, &event, 1, 5000) != 1)
            die("park: %d connections got no answer", left);
        on_livez(event.data.ptr, &left);
    }
    puts("connected");
    fflush(stdout);
}

static void wait_all(void)
{
    char request[512];

    for (int i = 0; i < window.callers; i++) {
        int length = snprintf(
            request, sizeof request,
            "POST /locks/%s%d?wait=300s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
            window.prefix, i);
        http_send(connections[i], request, (size_t)length);
    }
}

/* No caller may be answered while the input is open. */
static void stay(void)
{
    struct epoll_event event, input = {.events = EPOLLIN, .data.ptr = NULL};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &input) != 0)
        die("park: the input must be a pipe");
    if (epoll_wait(epoll_fd, &event, 1, -1) == 1 && event.data.ptr) {
        struct answer answer = {0};
        http_read(event.data.ptr, &answer);
        die("park: a waiter was answered with %d", answer.status);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        WINDOW_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p')
            port = atoi(optarg);
        else
            good = window_option(&window, option, optarg);
    }
    if (!good || optind != argc || port < 1 || port > 65535)
        die("usage: park --port PORT [--callers N] [--prefix KEY]");
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        die("park: no epoll: %s", strerror(errno));
    connect_all();
    if (getchar() == EOF)
        return 0;
    wait_all();
    stay();
    return 0;
}
