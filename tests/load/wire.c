#include "tests/load/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { NO_CHUNKS, CHUNK_SIZE, CHUNK_DATA, CHUNK_END };

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t boottime_ms(void)
{
    return read_clock(CLOCK_BOOTTIME) / 1000000;
}

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

struct sockaddr_storage wire_address(const char *host, int port, socklen_t *ret_length)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in *v4 = (void *)&address;
    struct sockaddr_in6 *v6 = (void *)&address;

    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        *ret_length = sizeof *v4;
    } else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        *ret_length = sizeof *v6;
    } else {
        die("not an address: %s", host);
    }
    return address;
}

bool wire_open(struct wire *wire, const struct sockaddr_storage *address, socklen_t length,
               int epoll_fd, uint32_t events, void *owner, bool small)
{
    struct epoll_event event = {.events = events, .data.ptr = owner};
    int on = 1, bytes = 4096;

    wire->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (wire->fd < 0)
        return false;
    setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (small)
        setsockopt(wire->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    wire_expect(wire);
    if (connect(wire->fd, (const struct sockaddr *)address, length) != 0 && errno != EINPROGRESS) {
        wire_close(wire);
        return false;
    }
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wire->fd, &event) != 0)
        die("cannot watch a connection: %s", strerror(errno));
    return true;
}

void wire_close(struct wire *wire)
{
    struct linger reset = {.l_onoff = 1};

    if (wire->fd < 0)
        return;
    setsockopt(wire->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(wire->fd);
    wire->fd = -1;
}

size_t wire_send(struct wire *wire, const char *bytes, size_t length)
{
    ssize_t sent = send(wire->fd, bytes, length, MSG_NOSIGNAL);

    return sent < 0 ? 0 : (size_t)sent;
}

void wire_expect(struct wire *wire)
{
    wire->status = 0;
    wire->closes = wire->streams = wire->in_body = wire->chunked = false;
    wire->head_filled = wire->text_filled = 0;
    wire->text[0] = 0;
    wire->left = 0;
    wire->chunk_state = NO_CHUNKS;
}

static void read_field(struct wire *wire, const char *line, const char *end, bool *has_length)
{
    if (!strncasecmp(line, "Content-Length:", 15)) {
        wire->left = strtoull(line + 15, NULL, 10);
        *has_length = true;
    } else if (!strncasecmp(line, "Transfer-Encoding: chunked", 26)) {
        wire->chunked = true;
        wire->chunk_state = CHUNK_SIZE;
    } else if (!strncasecmp(line, "Connection: close", 17)) {
        wire->closes = true;
    } else if (!strncasecmp(line, "Lock-Token:", 11)) {
        for (line += 11; *line == ' ';)
            line++;
        size_t length = (size_t)(end - line);
        if (length < sizeof wire->token)
            memcpy(wire->token, line, length), wire->token[length] = 0;
    }
}

static void parse_head(struct wire *wire, const char *end)
{
    bool has_length = false;

    wire->status = strncmp(wire->head, "HTTP/1.1 ", 9) ? 0 : atoi(wire->head + 9);
    if (wire->status < 100 || wire->status >= STATUS_MAX)
        die("not an answer: %.60s", wire->head);
    for (const char *line = strstr(wire->head, "\r\n") + 2; line < end + 2;) {
        const char *line_end = strstr(line, "\r\n");
        read_field(wire, line, line_end, &has_length);
        line = line_end + 2;
    }
    wire->in_body = true;
    wire->streams = !has_length && wire->status != 204;
}

static void keep_text(struct wire *wire, const char *bytes, size_t length)
{
    size_t room = TEXT_BYTES - wire->text_filled;

    length = length < room ? length : room;
    memcpy(wire->text + wire->text_filled, bytes, length);
    wire->text_filled += length;
    wire->text[wire->text_filled] = 0;
}

/* Takes chunks apart; the size lines are short, so a byte at a time is fast enough. */
static void take_chunks(struct wire *wire, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length;) {
        if (wire->chunk_state == CHUNK_DATA) {
            size_t part = length - i < wire->left ? length - i : (size_t)wire->left;
            keep_text(wire, bytes + i, part);
            wire->left -= part;
            i += part;
            if (wire->left == 0)
                wire->chunk_state = CHUNK_END;
            continue;
        }
        char byte = bytes[i++];
        if (byte == '\n') {
            bool size = wire->chunk_state == CHUNK_SIZE;
            wire->chunk_state = size && wire->left ? CHUNK_DATA : CHUNK_SIZE;
        } else if (wire->chunk_state == CHUNK_SIZE && byte != '\r') {
            int digit = byte <= '9' ? byte - '0' : (byte | 32) - 'a' + 10;
            wire->left = wire->left * 16 + (uint64_t)digit;
        }
    }
}

static void take_bytes(struct wire *wire, const char *bytes, size_t length)
{
    while (!wire->in_body && length > 0) {
        if (wire->head_filled == HEAD_BYTES)
            die("a header of more than %d bytes", HEAD_BYTES);
        wire->head[wire->head_filled++] = *bytes++;
        length--;
        wire->head[wire->head_filled] = 0;
        if (wire->head_filled >= 4 && !memcmp(wire->head + wire->head_filled - 4, "\r\n\r\n", 4))
            parse_head(wire, wire->head + wire->head_filled - 4);
    }
    if (wire->chunked) {
        take_chunks(wire, bytes, length);
    } else {
        keep_text(wire, bytes, length);
        if (!wire->streams)
            wire->left -= length < wire->left ? length : wire->left;
    }
}

enum wire_state wire_read(struct wire *wire)
{
    static char bytes[1 << 16];

    for (;;) {
        ssize_t got = recv(wire->fd, bytes, sizeof bytes, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return WIRE_MORE;
        if (got <= 0)
            return WIRE_BROKEN;
        wire->bytes += (uint64_t)got;
        take_bytes(wire, bytes, (size_t)got);
        if (wire->in_body && !wire->streams && wire->left == 0)
            return WIRE_ANSWER;
        if (got < (ssize_t)sizeof bytes)
            return WIRE_MORE;
    }
}

bool wire_take_line(struct wire *wire, char *line, size_t size)
{
    char *end = memchr(wire->text, '\n', wire->text_filled);

    if (!end)
        return false;
    size_t length = (size_t)(end - wire->text);
    snprintf(line, size, "%.*s", (int)length, wire->text);
    wire->text_filled -= length + 1;
    memmove(wire->text, end + 1, wire->text_filled + 1);
    return true;
}
