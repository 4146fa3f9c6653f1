/* The HTTP load generator: one thread, one epoll, keep-alive connections that each take and give back their own lock,
 * over and over. */
#include "tests/bench/measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_BYTES = 8192, TOKEN_BYTES = 128, STATUS_MAX = 600, RECONNECTS_MAX = 10000 };

/* Waits for the answer to a POST, then for the answer to the DELETE with its token; idle when no pair may begin. */
enum caller_state { IDLE, ACQUIRING, RELEASING };

struct caller {
    int fd, number;
    enum caller_state state;
    int64_t began_ns;
    char token[TOKEN_BYTES];
    size_t filled;
    char answer[ANSWER_BYTES];
};

struct answer {
    int status;
    bool closes;
    size_t length; /* header and body */
    char token[TOKEN_BYTES];
};

static struct window window = {.callers = 1, .prefix = "bench-", .seconds = 2, .warmup_s = .3};
static struct caller *callers[CALLERS_MAX];
static int busy, port, epoll_fd;
static bool only_http; /* two GET /livez in place of each pair: what HTTP alone costs */
static uint64_t statuses[STATUS_MAX], broken, unanswered;

static void open_connection(struct caller *caller)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = caller};
    int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    caller->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (caller->fd < 0 || connect(caller->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("load: cannot connect to 127.0.0.1:%d: %s", port, strerror(errno));
    setsockopt(caller->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(caller->fd, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, caller->fd, &event) != 0)
        die("load: cannot watch a connection: %s", strerror(errno));
    caller->filled = 0;
}

/* What was under way on a connection that broke is lost; the caller begins anew on another one. */
static void reopen_connection(struct caller *caller)
{
    close(caller->fd);
    open_connection(caller);
}

static void send_request(struct caller *caller, enum caller_state state)
{
    char request[512];
    int length;

    if (only_http)
        length = snprintf(request, sizeof request, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    else if (state == ACQUIRING)
        length = snprintf(request, sizeof request,
                          "POST /locks/%s%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", window.prefix,
                          caller->number);
    else
        length = snprintf(request, sizeof request,
                          "DELETE /locks/%s%d HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n", window.prefix,
                          caller->number, caller->token);
    caller->state = state;
    /* A request is small and the connection has nothing else under way: it fits or the connection is broken, which the
     * next read reports. */
    (void)!send(caller->fd, request, (size_t)length, MSG_NOSIGNAL);
}

static void begin_pair(struct caller *caller, int64_t now)
{
    if (!window_takes_pairs(&window)) {
        busy -= caller->state != IDLE;
        caller->state = IDLE;
        return;
    }
    busy += caller->state == IDLE;
    caller->began_ns = now;
    send_request(caller, ACQUIRING);
}

static void read_field(const char *line, const char *end, struct answer *answer, size_t *body)
{
    if (!strncasecmp(line, "Content-Length:", 15)) {
        *body = strtoul(line + 15, NULL, 10);
    } else if (!strncasecmp(line, "Lock-Token:", 11)) {
        for (line += 11; *line == ' ';)
            line++;
        size_t length = (size_t)(end - line);
        if (length < sizeof answer->token)
            memcpy(answer->token, line, length), answer->token[length] = 0;
    } else if (!strncasecmp(line, "Connection: close", 17)) {
        answer->closes = true;
    } else if (!strncasecmp(line, "Transfer-Encoding:", 18)) {
        die("load: the answer comes in chunks, which this client does not read");
    }
}

/* True when `caller->answer` holds a whole answer. */
static bool parse_answer(struct caller *caller, struct answer *answer)
{
    size_t body = 0;

    caller->answer[caller->filled] = 0;
    char *end = strstr(caller->answer, "\r\n\r\n");
    if (!end)
        return false;
    *answer = (struct answer){.status = strncmp(caller->answer, "HTTP/1.1 ", 9) ? 0 : atoi(caller->answer + 9)};
    if (answer->status < 100 || answer->status >= STATUS_MAX)
        die("load: not an answer: %.60s", caller->answer);
    for (char *line = strstr(caller->answer, "\r\n") + 2; line < end + 2;) {
        char *line_end = strstr(line, "\r\n");
        read_field(line, line_end, answer, &body);
        line = line_end + 2;
    }
    answer->length = (size_t)(end + 4 - caller->answer) + body;
    if (answer->length >= ANSWER_BYTES)
        die("load: an answer of %zu bytes", answer->length);
    return caller->filled >= answer->length;
}

/* An acquire that was refused is counted by its status and tried again at once: the loop is closed, and its rate is the
 * result. */
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
    begin_pair(caller, now);
}

static void on_readable(struct caller *caller)
{
    struct answer answer;
    ssize_t got = recv(caller->fd, caller->answer + caller->filled, ANSWER_BYTES - 1 - caller->filled, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        if (++broken > RECONNECTS_MAX)
            die("load: %d connections were closed on us", RECONNECTS_MAX);
        reopen_connection(caller);
        begin_pair(caller, now_ns());
        return;
    }
    caller->filled += (size_t)got;
    if (!parse_answer(caller, &answer))
        return;
    if (caller->filled > answer.length || caller->state == IDLE)
        die("load: more bytes than were asked for");
    caller->filled = 0;
    if (answer.closes)
        reopen_connection(caller);
    take_answer(caller, &answer, now_ns());
}

static void run(void)
{
    struct epoll_event events[128];

    for (int i = 0; i < window.callers; i++) {
        if (!(callers[i] = calloc(1, sizeof *callers[i])))
            die("load: out of memory");
        callers[i]->number = i;
        open_connection(callers[i]);
    }
    window_start(&window);
    for (int i = 0; i < window.callers; i++)
        begin_pair(callers[i], now_ns());
    for (int64_t now = now_ns(); window_advance(&window, now) != PHASE_OVER && busy > 0; now = now_ns()) {
        int ready = epoll_wait(epoll_fd, events, 128, window_timeout_ms(&window, now));
        for (int i = 0; i < ready; i++)
            on_readable(events[i].data.ptr);
    }
    unanswered = (uint64_t)busy;
}

static void report(void)
{
    uint64_t refused = 0;

    window_print(&window);
    for (int i = 0; i < STATUS_MAX; i++) {
        refused += i < 200 || i > 299 ? statuses[i] : 0;
        if (statuses[i])
            printf(" status_%d=%llu", i, (unsigned long long)statuses[i]);
    }
    printf(" refused=%llu broken=%llu unanswered=%llu\n", (unsigned long long)refused, (unsigned long long)broken,
           (unsigned long long)unanswered);
}

static void parse_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        {"only-http", no_argument, NULL, 'h'},
        WINDOW_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p')
            port = atoi(optarg);
        else if (option == 'h')
            only_http = true;
        else
            good = window_option(&window, option, optarg);
    }
    if (!good || optind != argc || port < 1 || port > 65535)
        die("usage: load --port PORT [--only-http] " WINDOW_USAGE);
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
