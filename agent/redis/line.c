/* A line to a master (line.h): a socket that never blocks, libuv's poll, TLS if configured, and
 * hiredis' parser after our own bounds. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/redis/line.h"

static void on_line_polled(uv_poll_t *poll, int status, int events);

static void poll_for(struct line *line, int events)
{
    if (line->polled == events || line->closing)
        return;
    line->polled = events;
    if (events == 0)
        uv_poll_stop(&line->poll);
    else
        uv_poll_start(&line->poll, events, on_line_polled);
}

void line_halt(struct line *line)
{
    line->halted = true;
    poll_for(line, 0);
}

static void end_with(struct line *line, enum redis_fault fault, const char *why)
{
    line_halt(line);
    line->calls->ended(line->owner, fault, why);
}

/* Returns the error text of the socket or of TLS. */
static const char *fault_of(const struct line *line, int error)
{
    return error == EPROTO && line->tls != NULL ? tls_why(line->tls) : strerror(error);
}

enum tls_fault line_tls_fault(const struct line *line)
{
    if (line->tls == NULL || tls_fault(line->tls) != TLS_FAULT_NONE)
        return line->tls != NULL ? tls_fault(line->tls) : TLS_FAULT_NONE;
    return line->connected ? TLS_FAULT_NONE : TLS_FAULT_SILENT;
}

int64_t line_certificate_end_s(const struct line *line)
{
    return line->tls != NULL ? tls_master_end_s(line->tls) : 0;
}

/* ---- reading ---- */

static void end_as(struct line *line, enum resp_found found)
{
    if (found == RESP_OVERSIZED)
        end_with(line, REDIS_FAULT_OVERSIZED,
                 "broke the protocol: a reply beyond 64 KiB, 4,096 elements or 4 levels");
    else
        end_with(line, REDIS_FAULT_MALFORMED,
                 "broke the protocol: it sent something else than a reply");
}

/* Passes on the replies that were read, at most LINE_REPLIES_A_TURN, so that the other lines get
 * their turn. */
static void hear_what_came(struct line *line)
{
    for (unsigned replies = 0; line->in_at < line->in_len && !line->halted;) {
        if (replies == LINE_REPLIES_A_TURN) {
            line->calls->busy(line->owner);
            break;
        }
        if (resp_scan_is_fresh(&line->scan) && !line->calls->awaits(line->owner)) {
            end_with(line, REDIS_FAULT_SURPLUS, "broke the protocol: an unexpected reply");
            return;
        }
        const char *bytes = line->in + line->in_at;
        size_t taken;
        enum resp_found found = resp_scan(&line->scan, bytes, line->in_len - line->in_at, &taken);
        if (found != RESP_MORE && found != RESP_REPLY) {
            end_as(line, found);
            return;
        }
        line->in_at += taken;
        /* If the scanner has found the end of a reply, the reader has all of its bytes. */
        void *reply = NULL;
        if (redisReaderFeed(line->reader, bytes, taken) != REDIS_OK ||
            (found == RESP_REPLY &&
             (redisReaderGetReply(line->reader, &reply) != REDIS_OK || reply == NULL))) {
            if (line->reader->err == REDIS_ERR_OOM)
                end_with(line, REDIS_FAULT_NONE, "out of memory");
            else
                end_as(line, RESP_MALFORMED);
            return;
        }
        if (found == RESP_REPLY) {
            replies += line->calls->heard(line->owner, reply);
            reply_memory_reset(&line->memory);
        }
    }
    if (!line->halted) {
        bool more = line->in_at < line->in_len;
        poll_for(line, more ? line->polled & ~UV_READABLE : line->polled | UV_READABLE);
    }
}

static void read_some(struct line *line)
{
    ssize_t count = line->tls != NULL ? tls_read(line->tls, line->in, sizeof(line->in))
                                      : recv(line->fd, line->in, sizeof(line->in), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (line->tls != NULL && tls_waits_to_write(line->tls))
            poll_for(line, line->polled | UV_WRITABLE);
        return;
    }
    if (count <= 0) {
        char why[160];
        bool was_mute = line->tls == NULL && line->in_len == 0;
        snprintf(why, sizeof(why), "%s%s",
                 count < 0 ? fault_of(line, errno) : "the master closed the connection",
                 was_mute ? " before its first reply: a port for TLS (rediss://)?" : "");
        end_with(line, REDIS_FAULT_NONE, why);
        return;
    }
    line->in_at = 0;
    line->in_len = (size_t)count;
    hear_what_came(line);
}

/* ---- writing ---- */

static void flush(struct line *line)
{
    while (line->out_at < line->out_len) {
        const char *bytes = line->out + line->out_at;
        size_t len = line->out_len - line->out_at;
        /* A TLS record of which the socket has taken a part counts as not written, because no
         * master can read it. */
        ssize_t count = line->tls != NULL ? tls_write(line->tls, bytes, len)
                                          : send(line->fd, bytes, len, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN) {
            poll_for(line, line->polled | UV_WRITABLE);
            return;
        }
        if (count <= 0) {
            end_with(line, REDIS_FAULT_NONE, fault_of(line, count < 0 ? errno : EPIPE));
            return;
        }
        line->out_at += (size_t)count;
        line->written += (uint64_t)count;
    }
    poll_for(line, line->polled & ~UV_WRITABLE);
    if (line->out_len == 0)
        return;
    /* Overwrite the bytes, because passwords are sent as well. */
    explicit_bzero(line->out, line->out_len);
    line->out_at = line->out_len = 0;
    if (line->out_size > LINE_KEPT_BYTES) {
        free(line->out);
        line->out = NULL;
        line->out_size = 0;
    }
}

static bool make_out_room(struct line *line, size_t len)
{
    /* The master is slow: the bytes that it has taken are dropped. */
    if (line->out_at > 0 && line->out_at >= line->out_len / 2) {
        memmove(line->out, line->out + line->out_at, line->out_len - line->out_at);
        line->out_len -= line->out_at;
        line->out_at = 0;
    }
    size_t size = line->out_size > 0 ? line->out_size : 4096;
    while (size < line->out_len + len)
        size *= 2;
    if (size == line->out_size)
        return true;
    char *grown = realloc(line->out, size);
    if (grown != NULL) {
        line->out = grown;
        line->out_size = size;
    }
    return grown != NULL;
}

size_t line_unwritten(const struct line *line)
{
    return line->out_len - line->out_at;
}

static void put(struct line *line, struct text bytes)
{
    if (bytes.len > 0)
        memcpy(line->out + line->out_len, bytes.at, bytes.len);
    line->out_len += bytes.len;
}

bool line_put_both(struct line *line, struct text bytes, struct text more)
{
    if (line->halted || line_unwritten(line) > LINE_UNWRITTEN_BYTES_MAX ||
        !make_out_room(line, bytes.len + more.len))
        return false;
    put(line, bytes);
    put(line, more);
    line->calls->busy(line->owner);
    return true;
}

bool line_put(struct line *line, const char *bytes, size_t len)
{
    return line_put_both(line, (struct text){bytes, len}, (struct text){"", 0});
}

void line_turn(struct line *line)
{
    if (!line->halted && line->in_at < line->in_len)
        hear_what_came(line);
    if (!line->halted && line->connected && !(line->polled & UV_WRITABLE))
        flush(line);
}

/* ---- connecting ---- */

static void stands(struct line *line)
{
    line->connected = true;
    poll_for(line, UV_READABLE);
    line->calls->connected(line->owner);
}

static void shake_hands(struct line *line)
{
    int done = tls_greet(line->tls);
    if (done > 0) {
        stands(line);
        return;
    }
    if (done < 0 && errno == EAGAIN) {
        poll_for(line, tls_waits_to_write(line->tls) ? UV_WRITABLE : UV_READABLE);
        return;
    }
    const char *fault = done < 0 ? fault_of(line, errno) : "tls: the master closed the connection";
    tls_files_doubt(line->tls_files, uv_now(line->poll.loop));
    end_with(line, REDIS_FAULT_NONE, fault);
}

static void connected(struct line *line)
{
    char why[160];
    int fault = 0;
    socklen_t size = sizeof(fault);
    if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &fault, &size) != 0)
        fault = errno;
    if (fault) {
        snprintf(why, sizeof(why), "connect: %s", strerror(fault));
        end_with(line, REDIS_FAULT_NONE, why);
        return;
    }
    if (line->tls_files == NULL) {
        stands(line);
        return;
    }
    line->tls = tls_open(line->tls_files, line->host, line->fd);
    if (line->tls == NULL)
        end_with(line, REDIS_FAULT_NONE, "tls: out of memory");
    else
        shake_hands(line);
}

static void on_line_polled(uv_poll_t *poll, int status, int events)
{
    struct line *line = poll->data;
    int watched = line->polled;
    if (status < 0) { /* libuv has stopped polling. The socket has the error. */
        line->polled = 0;
        events = UV_READABLE;
    }
    if (!line->connected) {
        if (line->tls == NULL)
            connected(line);
        else
            shake_hands(line);
        return;
    }
    /* TLS may have had to write before it could continue to read. */
    if (events & UV_READABLE || (line->tls != NULL && line->polled & UV_READABLE))
        read_some(line);
    if (!line->halted && (events & UV_WRITABLE))
        flush(line);
    if (!line->halted && status < 0)
        poll_for(line, line->polled | watched);
}

union address {
    struct sockaddr any;
    struct sockaddr_un path;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Sets the address to connect to. Returns its length; 0 if it is not valid. */
static socklen_t address_of(const struct config_address *address, const char *numeric,
                            union address *to)
{
    memset(to, 0, sizeof(*to));
    if (address->is_unix) {
        to->path.sun_family = AF_UNIX;
        size_t len = strlen(address->host);
        if (len >= sizeof(to->path.sun_path))
            return 0;
        memcpy(to->path.sun_path, address->host, len + 1);
        return sizeof(to->path);
    }
    if (uv_ip4_addr(numeric, address->port, &to->v4) == 0)
        return sizeof(to->v4);
    return uv_ip6_addr(numeric, address->port, &to->v6) == 0 ? sizeof(to->v6) : 0;
}

/* Returns the descriptor; -1, with errno, if connecting failed at once. */
static int begin_to_connect(const union address *to, socklen_t size)
{
    int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (to->any.sa_family != AF_UNIX) {
        static const int on = 1, idle_s = 15, interval_s = 5, probes = 3;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    }
    if (connect(fd, &to->any, size) != 0 && errno != EINPROGRESS) {
        int fault = errno;
        close(fd);
        errno = fault;
        return -1;
    }
    return fd;
}

bool line_open(struct line *line, uv_loop_t *loop, const struct line_end *end,
               const struct line_calls *calls, void *owner, char *why, size_t why_size)
{
    union address to;
    socklen_t size = address_of(end->address, end->numeric, &to);
    if (size == 0) {
        snprintf(why, why_size, "connect: %s",
                 end->address->is_unix ? "the path of the socket is too long" : "not an address");
        return false;
    }
    *line = (struct line){.fd = begin_to_connect(&to, size),
                          .tls_files = end->tls,
                          .host = end->address->host,
                          .calls = calls,
                          .owner = owner};
    if (line->fd < 0) {
        snprintf(why, why_size, "connect: %s", strerror(errno));
        return false;
    }
    line->reader = reply_memory_reader(&line->memory);
    int failed = line->reader == NULL ? UV_ENOMEM : uv_poll_init(loop, &line->poll, line->fd);
    if (failed) {
        snprintf(why, why_size, "connect: %s",
                 failed == UV_ENOMEM ? "out of memory" : uv_strerror(failed));
        if (line->reader != NULL)
            redisReaderFree(line->reader);
        close(line->fd);
        return false;
    }
    line->poll.data = line;
    poll_for(line, UV_WRITABLE); /* A socket becomes writable when its connection is established. */
    return true;
}

static void on_line_closed(uv_handle_t *handle)
{
    struct line *line = handle->data;
    /* Not earlier, because the owner may have called line_close() while it received a reply. */
    reply_memory_reset(&line->memory);
    line->calls->closed(line->owner);
}

void line_close(struct line *line)
{
    if (line->closing)
        return;
    line_halt(line);
    line->closing = true;
    uv_close((uv_handle_t *)&line->poll, on_line_closed);
    if (line->tls != NULL)
        tls_close(line->tls);
    line->tls = NULL;
    close(line->fd);
    redisReaderFree(line->reader);
    free(line->out);
}
