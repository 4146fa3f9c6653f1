/* Just enough of HTTP/1.1 to read the agent's answers: a status, three fields, a body of known
 * length. */
#include "tests/bench/http.h"

#include "tests/bench/measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

void http_open(struct http *http, int port, int epoll_fd, void *owner)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};
    int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    http->port = port;
    http->filled = 0;
    http->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (http->fd < 0 || connect(http->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("cannot connect to 127.0.0.1:%d: %s", port, strerror(errno));
    setsockopt(http->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fcntl(http->fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, http->fd, &event) != 0)
        die("cannot watch a connection: %s", strerror(errno));
}

void http_reopen(struct http *http, int epoll_fd, void *owner)
{
    close(http->fd);
    http_open(http, http->port, epoll_fd, owner);
}

void http_send(struct http *http, const char *request, size_t length)
{
    (void)!send(http->fd, request, length, MSG_NOSIGNAL);
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
        die("the answer comes in chunks, which this client does not read");
    }
}

/* True when `http->answer` holds a whole answer. */
static bool parse_answer(struct http *http, struct answer *answer)
{
    size_t body = 0;

    http->answer[http->filled] = 0;
    char *end = strstr(http->answer, "\r\n\r\n");
    if (!end)
        return false;
    *answer = (struct answer){
        .status = strncmp(http->answer, "HTTP/1.1 ", 9) ? 0 : atoi(http->answer + 9)};
    if (answer->status < 100 || answer->status >= STATUS_MAX)
        die("not an answer: %.60s", http->answer);
    for (char *line = strstr(http->answer, "\r\n") + 2; line < end + 2;) {
        char *line_end = strstr(line, "\r\n");
        read_field(line, line_end, answer, &body);
        line = line_end + 2;
    }
    answer->length = (size_t)(end + 4 - http->answer) + body;
    if (answer->length >= ANSWER_BYTES)
        die("an answer of %zu bytes", answer->length);
    return http->filled >= answer->length;
}

enum http_state http_read(struct http *http, struct answer *ret_answer)
{
    ssize_t got = recv(http->fd, http->answer + http->filled, ANSWER_BYTES - 1 - http->filled, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return HTTP_MORE;
    if (got <= 0)
        return HTTP_BROKEN;
    http->filled += (size_t)got;
    if (!parse_answer(http, ret_answer))
        return HTTP_MORE;
    if (http->filled > ret_answer->length)
        die("more bytes than were asked for");
    http->filled = 0;
    return HTTP_ANSWER;
}
