/* A line is one socket to one master. It connects, in the clear or with TLS, gathers the bytes to
 * write, and passes on one bounded reply at a time.
 *
 * No master may hold up the loop. In one turn a line reads at most LINE_READ_BYTES and passes on at
 * most LINE_REPLIES_A_TURN replies. The rest waits for the next turn, and nothing more is read
 * meanwhile. */
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
    LINE_READ_BYTES = TLS_RECORD_BYTES, /* At least TLS_RECORD_BYTES: see there. */
    LINE_REPLIES_A_TURN = 64,
    LINE_KEPT_BYTES = 256 << 10,        /* Bytes of an empty output buffer that are kept. */
    LINE_UNWRITTEN_BYTES_MAX = 8 << 20, /* Limit of the bytes that wait to be written. */
};

/* Events of a line, for its owner. Only line_turn() calls these functions before it returns. */
struct line_calls {
    /* The connection is established, and its TLS as well. */
    void (*connected)(void *owner);
    /* Returns true if a reply may come now. Called before the first byte of each reply is read. */
    bool (*awaits)(const void *owner);
    /* Passes on one reply, which is freed after the call. Returns false if further replies to the
     * same command follow: they count as one. */
    bool (*heard)(void *owner, const struct redisReply *reply);
    /* The line has ended: the owner calls line_close(), at once or later. No reply follows. With
     * `fault` REDIS_FAULT_NONE the master or the network ended it. */
    void (*ended)(void *owner, enum redis_fault fault, const char *why);
    /* There is work for line_turn(). */
    void (*busy)(void *owner);
    /* libuv has closed the line. Its memory may be freed. */
    void (*closed)(void *owner);
};

/* Part of its owner's memory. Only line.c uses it, but the owner may read `connected` and
 * `written`. */
struct line {
    uv_poll_t poll;
    int fd;
    struct tls_files *tls_files; /* NULL: in the clear. */
    const char *host;            /* The name or address that the certificate must be for. */
    struct tls *tls;             /* NULL until the socket is connected, and without TLS. */
    int polled; /* The events that are polled: UV_READABLE, UV_WRITABLE, both or 0. */
    const struct line_calls *calls;
    void *owner;
    redisReader *reader;
    struct reply_memory memory; /* Memory of the reply that is being read. */
    struct resp_scan scan;
    bool connected;
    bool halted; /* Nothing is read or written any more. */
    bool closing;
    uint64_t written; /* Number of bytes that the socket has taken. */
    char *out;        /* Allocated with malloc(). The unwritten bytes are out[out_at..out_len). */
    size_t out_at, out_len, out_size;
    size_t in_at, in_len; /* The bytes not passed on yet are in[in_at..in_len). */
    char in[LINE_READ_BYTES];
};

/* The address of a line. Its pointers outlive the line. */
struct line_end {
    const struct config_address *address;
    const char *numeric;   /* Numeric address of the host; "" if the address is a path. */
    struct tls_files *tls; /* NULL: in the clear. */
};

/* Begins to connect to the socket's path or, if the address is not a path, to `numeric` and its
 * port. `calls` is kept by reference. Returns false, with `why`, if that failed at once; then the
 * line is as if it had never been opened, and makes no calls. */
bool line_open(struct line *line, uv_loop_t *loop, const struct line_end *end,
               const struct line_calls *calls, void *owner, char *why, size_t why_size);

/* Returns why TLS has failed on a line that has ended or is too late; TLS_FAULT_NONE if it has
 * not. */
enum tls_fault line_tls_fault(const struct line *line);

/* Returns when the certificate of the line's master ends (tls_master_end_s()); 0 if that is not
 * known, or without TLS. Call it when the line is connected. */
int64_t line_certificate_end_s(const struct line *line);

/* Gathers bytes for the next turn. Returns false if there are too many or the line has ended. */
bool line_put(struct line *line, const char *bytes, size_t len);

/* Like line_put() for two pieces: takes both or none. */
bool line_put_both(struct line *line, struct text bytes, struct text more);

/* Returns the number of bytes gathered and not written yet. */
size_t line_unwritten(const struct line *line);

/* Passes on the replies that an earlier turn has left, then writes the gathered bytes. */
void line_turn(struct line *line);

/* Stops reading and writing. The line only waits for line_close(). Idempotent. */
void line_halt(struct line *line);

/* Closes the socket at once; `closed` follows. Idempotent. */
void line_close(struct line *line);

#endif
