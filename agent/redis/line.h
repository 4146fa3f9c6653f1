/* One socket to one master: connects, in the clear or with TLS, gathers what is to be written, and
 * hands over one bounded reply at a time.
 *
 * No peer may hold up the loop: a turn reads at most LINE_READ_BYTES and hands over at most
 * LINE_REPLIES_A_TURN replies of one line; what is left waits for the next turn, and nothing
 * more is read meanwhile. */
#ifndef LOCKAGENT_LINE_H
#define LOCKAGENT_LINE_H

#include <hiredis/read.h>
#include <uv.h>

#include "agent/redis/outcomes.h"
#include "agent/redis/reply_memory.h"
#include "agent/redis/resp_scan.h"
#include "agent/redis/tls.h"
#include "config/config.h"

struct redisReply;

enum {
    LINE_READ_BYTES = TLS_RECORD_BYTES, /* no fewer: see there */
    LINE_REPLIES_A_TURN = 64,
    LINE_KEPT_BYTES = 256 << 10,        /* of an output buffer that has been written */
    LINE_UNWRITTEN_BYTES_MAX = 8 << 20, /* beyond it nothing more is taken */
};

/* What happens to a line, for its owner. None is called from within a line_ function but
 * line_turn(). */
struct line_calls {
    /* The connection stands, and its TLS. */
    void (*connected)(void *owner);
    /* Whether a reply may come now. Asked before the first byte of each is looked at. */
    bool (*awaits)(const void *owner);
    /* One reply; it is gone when the call returns. */
    void (*heard)(void *owner, const struct redisReply *reply);
    /* The end: the owner is to call line_close(), at once or later; nothing is heard any more.
     * With `fault` REDIS_FAULT_NONE the peer or the network ended it. */
    void (*ended)(void *owner, enum redis_fault fault, const char *why);
    /* There is work for line_turn(). */
    void (*busy)(void *owner);
    /* libuv has let go of it: its memory may be freed. */
    void (*closed)(void *owner);
};

/* Part of its owner's memory. Everything is line.c's but for reading `connected` and `written`. */
struct line {
    uv_poll_t poll;
    int fd;
    const struct config_tls *tls_config; /* NULL: in the clear */
    const char *host;                    /* that its certificate is for */
    struct tls *tls;                     /* from when the socket is connected; else NULL */
    int polled;                          /* UV_READABLE | UV_WRITABLE, as far as they are watched */
    const struct line_calls *calls;
    void *owner;
    redisReader *reader;
    struct reply_memory memory; /* of the reply that the reader is at */
    struct resp_scan scan;
    bool connected;
    bool halted; /* nothing is heard or written any more */
    bool closing;
    uint64_t written; /* bytes that the socket has taken */
    char *out;        /* malloc'ed: what is unwritten is out[out_at..out_len) */
    size_t out_at, out_len, out_size;
    size_t in_at, in_len; /* what has been read and not been heard is in[in_at..in_len) */
    char in[LINE_READ_BYTES];
};

/* Where a line leads to, which outlives it. */
struct line_end {
    const struct config_address *address;
    const char *numeric;          /* what the address's host stands for; "" where it is a path */
    const struct config_tls *tls; /* NULL: in the clear */
};

/* Starts to connect to a socket's path or, where the address is not one, to `numeric` on its port.
 * False, and `why`, when that failed at once: then the line is as if it had never been opened,
 * and none of `calls` (kept by reference) is ever made. */
bool line_open(struct line *line, uv_loop_t *loop, const struct line_end *end,
               const struct line_calls *calls, void *owner, char *why, size_t why_size);

/* Why TLS has failed on it, when it has ended or is too late; TLS_FAULT_NONE: it has not. */
enum tls_fault line_tls_fault(const struct line *line);

/* Gathers bytes for the next turn; false when they can not be taken: there are too many, or the
 * line has ended. */
bool line_put(struct line *line, const char *bytes, size_t len);

/* The same for two pieces, both or none. */
bool line_put_both(struct line *line, struct text bytes, struct text more);

/* Bytes gathered and not written yet. */
size_t line_unwritten(const struct line *line);

/* Hears what an earlier turn has left, then writes what has been gathered. */
void line_turn(struct line *line);

/* Hears and writes nothing more, whatever comes: it only waits for line_close(). Idempotent. */
void line_halt(struct line *line);

/* Closes the socket now; `closed` follows. Idempotent. */
void line_close(struct line *line);

#endif
