/* The strangers of the load suite: many connections that do allowed work in a closed loop.
 *
 *   strangers --connections N --seconds S [options] HOST PORT REQUEST...
 *
 * Each connection sends the requests in turn, each after the answer to the one before. In a request
 * {n} is the number of the connection, {i} that of the request on it, {token} the last Lock-Token
 * that the connection was given.
 *
 *   --spread     connection n begins with request n, not with the first one
 *   --pace MS    rests after each answer
 *   --fresh      closes the connection after each answer, and after the first line of a stream
 *   --mute       sends all requests at once and reads nothing
 *   --trickle MS sends one byte each MS
 *
 * A connection that the agent closes is opened again after 50 ms. At the end one line of JSON has
 * the counts. */
#include "tests/load/wire.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
    CONNECTIONS_MAX = 16000,
    REQUESTS_MAX = 16,
    REQUEST_BYTES = 1 << 17,
    EVENTS_MAX = 256,
    TICK_MS = 10,
    REOPEN_MS = 50,
    OPENED_PER_TICK = 200,
};

enum state { CLOSED, RESTING, SENDING, WAITING };

struct stranger {
    struct wire wire;
    enum state state;
    int64_t due_ns;
    uint64_t requests, turn; /* `turn`: which request comes next. */
    char *request;           /* The bytes that are left to be sent begin at `sent`. */
    size_t length, sent;
    bool is_open; /* It was writable. */
};

static struct sockaddr_storage address;
static socklen_t address_length;
static int epoll_fd;
static struct stranger *strangers;
static int count, open_count, most_open;
static char **requests;
static int request_count;
static bool fresh, mute, spread;
static int64_t pace_ns, trickle_ns, ends_ns;
static uint64_t answers, streams, broken, statuses[STATUS_MAX];
static volatile sig_atomic_t told_to_end;

static void end(int number)
{
    (void)number;
    told_to_end = 1;
}

/* Writes the request with its words filled in; returns its length. */
static size_t fill_in(const struct stranger *stranger, const char *from, char *to, size_t size)
{
    size_t length = 0;

    while (*from && length < size - TOKEN_BYTES) {
        if (!strncmp(from, "{n}", 3)) {
            length += (size_t)sprintf(to + length, "%d", (int)(stranger - strangers));
            from += 3;
        } else if (!strncmp(from, "{i}", 3)) {
            length += (size_t)sprintf(to + length, "%llu", (unsigned long long)stranger->requests);
            from += 3;
        } else if (!strncmp(from, "{token}", 7)) {
            length += (size_t)sprintf(to + length, "%s", stranger->wire.token);
            from += 7;
        } else {
            to[length++] = *from++;
        }
    }
    return length;
}

static void close_stranger(struct stranger *stranger, int64_t due)
{
    open_count -= stranger->is_open;
    stranger->is_open = false;
    wire_close(&stranger->wire);
    stranger->state = CLOSED;
    stranger->due_ns = due;
}

static void send_more(struct stranger *stranger, int64_t now)
{
    size_t left = stranger->length - stranger->sent;

    if (trickle_ns)
        left = left > 0;
    stranger->sent += wire_send(&stranger->wire, stranger->request + stranger->sent, left);
    if (stranger->sent < stranger->length) {
        stranger->due_ns = now + (trickle_ns ? trickle_ns : TICK_MS * 1000000);
        return;
    }
    free(stranger->request);
    stranger->request = NULL;
    stranger->state = WAITING;
}

/* Begins the next request; a mute stranger sends all of them as one. */
static void ask(struct stranger *stranger, int64_t now)
{
    static char bytes[REQUEST_BYTES];

    wire_expect(&stranger->wire);
    stranger->length = stranger->sent = 0;
    for (int i = 0; i < (mute ? request_count : 1); i++) {
        const char *request = requests[stranger->turn++ % (uint64_t)request_count];
        stranger->length +=
            fill_in(stranger, request, bytes + stranger->length, sizeof bytes - stranger->length);
        stranger->requests++;
    }
    free(stranger->request);
    stranger->request = malloc(stranger->length);
    if (!stranger->request)
        die("strangers: out of memory");
    memcpy(stranger->request, bytes, stranger->length);
    stranger->state = SENDING;
    send_more(stranger, now);
}

static void take_answer(struct stranger *stranger, int64_t now)
{
    answers++;
    statuses[stranger->wire.status]++;
    if (fresh) {
        close_stranger(stranger, now);
    } else if (stranger->wire.closes) {
        close_stranger(stranger, now + REOPEN_MS * 1000000);
    } else if (pace_ns) {
        stranger->state = RESTING;
        stranger->due_ns = now + pace_ns;
    } else {
        ask(stranger, now);
    }
}

static void on_event(struct stranger *stranger, uint32_t events, int64_t now)
{
    if (stranger->wire.fd < 0)
        return;
    if ((events & EPOLLOUT) && !stranger->is_open && !(events & (EPOLLERR | EPOLLHUP))) {
        stranger->is_open = true;
        if (++open_count > most_open)
            most_open = open_count;
        if (stranger->state == RESTING)
            ask(stranger, now);
    }
    if (mute) {
        if (events & (EPOLLRDHUP | EPOLLERR | EPOLLHUP)) {
            broken++;
            close_stranger(stranger, now + REOPEN_MS * 1000000);
        }
        return;
    }
    if (!(events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
        return;
    switch (wire_read(&stranger->wire)) {
    case WIRE_MORE:
        if (stranger->wire.streams && stranger->wire.text_filled && fresh) {
            streams++;
            statuses[stranger->wire.status]++;
            close_stranger(stranger, now);
        }
        return;
    case WIRE_BROKEN:
        broken++;
        close_stranger(stranger, now + REOPEN_MS * 1000000);
        return;
    case WIRE_ANSWER:
        take_answer(stranger, now);
    }
}

static void open_stranger(struct stranger *stranger, int64_t now)
{
    uint32_t events = EPOLLOUT | EPOLLET | EPOLLRDHUP | (mute ? 0u : (uint32_t)EPOLLIN);

    stranger->wire.token[0] = 0;
    stranger->turn = spread ? (uint64_t)(stranger - strangers) : 0;
    if (!wire_open(&stranger->wire, &address, address_length, epoll_fd, events, stranger, mute)) {
        stranger->due_ns = now + REOPEN_MS * 1000000;
        return;
    }
    stranger->state = RESTING;
    stranger->due_ns = INT64_MAX; /* Until it is open. */
}

static void tick(int64_t now)
{
    int opened = 0;

    for (int i = 0; i < count; i++) {
        struct stranger *stranger = &strangers[i];
        if (stranger->due_ns > now)
            continue;
        if (stranger->state == CLOSED && opened < OPENED_PER_TICK) {
            open_stranger(stranger, now);
            opened++;
        } else if (stranger->state == RESTING) {
            ask(stranger, now);
        } else if (stranger->state == SENDING) {
            send_more(stranger, now);
        }
    }
}

static void run(void)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t ticked = 0;

    for (int64_t now = now_ns(); now < ends_ns && !told_to_end; now = now_ns()) {
        int ready = epoll_wait(epoll_fd, events, EVENTS_MAX, fresh ? 1 : TICK_MS);
        now = now_ns();
        for (int i = 0; i < ready; i++)
            on_event(events[i].data.ptr, events[i].events, now);
        if (now - ticked < (fresh ? 1 : TICK_MS) * INT64_C(1000000))
            continue;
        tick(now);
        ticked = now;
    }
}

static void report(void)
{
    uint64_t bytes = 0;

    for (int i = 0; i < count; i++)
        bytes += strangers[i].wire.bytes;
    printf("{\"answers\": %llu, \"streams\": %llu, \"broken\": %llu, \"open\": %d, \"bytes\": %llu",
           (unsigned long long)answers, (unsigned long long)streams, (unsigned long long)broken,
           most_open, (unsigned long long)bytes);
    for (int status = 0; status < STATUS_MAX; status++)
        if (statuses[status])
            printf(", \"%d\": %llu", status, (unsigned long long)statuses[status]);
    puts("}");
}

static void parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},
        {"pace", required_argument, NULL, 'p'},
        {"trickle", required_argument, NULL, 't'},
        {"fresh", no_argument, NULL, 'f'},
        {"mute", no_argument, NULL, 'm'},
        {"spread", no_argument, NULL, 'd'},
        {NULL, 0, NULL, 0},
    };

    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
        if (option == 'c')
            count = atoi(optarg);
        else if (option == 's')
            ends_ns = now_ns() + (int64_t)(atof(optarg) * 1e9);
        else if (option == 'p')
            pace_ns = atoi(optarg) * INT64_C(1000000);
        else if (option == 't')
            trickle_ns = atoi(optarg) * INT64_C(1000000);
        else if (option == 'f')
            fresh = true;
        else if (option == 'm')
            mute = true;
        else if (option == 'd')
            spread = true;
        else
            optind = argc;
    }
    request_count = argc - optind - 2;
    if (count < 1 || count > CONNECTIONS_MAX || !ends_ns || request_count < 1 ||
        request_count > REQUESTS_MAX)
        die("usage: strangers --connections N --seconds S [--pace MS] [--fresh] [--mute] "
            "[--spread] [--trickle MS] HOST PORT REQUEST...");
    address = wire_address(argv[optind], atoi(argv[optind + 1]), &address_length);
    requests = argv + optind + 2;
}

int main(int argc, char **argv)
{
    struct sigaction on_end = {.sa_handler = end};

    sigaction(SIGTERM, &on_end, NULL);
    parse_arguments(argc, argv);
    strangers = calloc((size_t)count, sizeof *strangers);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!strangers || epoll_fd < 0)
        die("strangers: no epoll: %s", strerror(errno));
    for (int i = 0; i < count; i++)
        strangers[i].wire.fd = -1;
    run();
    report();
    return 0;
}
