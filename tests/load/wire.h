/* A non-blocking HTTP/1.1 connection to an agent on loopback, with at most one request at a time.
 * The holders and the strangers of the load suite use it. */
#ifndef LOCKAGENT_LOAD_WIRE_H
#define LOCKAGENT_LOAD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { HEAD_BYTES = 2048, TEXT_BYTES = 2048, TOKEN_BYTES = 128, STATUS_MAX = 600 };

enum wire_state {
    WIRE_MORE,   /* The answer is not complete yet. */
    WIRE_ANSWER, /* The answer is complete. */
    WIRE_BROKEN, /* The agent has closed the connection, or refused it. */
};

struct wire {
    int fd; /* -1: closed. */
    int status;
    bool closes;               /* The agent closes the connection after this answer. */
    bool streams;              /* The answer has no length: it ends with the connection. */
    char token[TOKEN_BYTES];   /* The header Lock-Token of the last answer that had one. */
    char text[TEXT_BYTES + 1]; /* The beginning of the body; longer bodies are counted alone. */
    size_t text_filled;
    uint64_t bytes; /* Received over all connections of this wire. */

    /* The parser's. */
    char head[HEAD_BYTES + 1];
    size_t head_filled;
    bool in_body, chunked;
    uint64_t left; /* Bytes of the body, or of its chunk, still to come. */
    int chunk_state;
};

/* Returns the address of `host`, which is 127.0.0.1 or ::1. */
struct sockaddr_storage wire_address(const char *host, int port, socklen_t *ret_length);
/* Begins to connect; adds the socket to `epoll_fd` with `events` and `owner`. A small receive
 * buffer is set if `small` is true. Returns false if there was no socket. */
bool wire_open(struct wire *wire, const struct sockaddr_storage *address, socklen_t length,
               int epoll_fd, uint32_t events, void *owner, bool small);
/* Closes with a reset, which leaves no port in TIME_WAIT. */
void wire_close(struct wire *wire);
/* Sends as much as the socket takes; returns the number of bytes. */
size_t wire_send(struct wire *wire, const char *bytes, size_t length);
/* Forgets the last answer; call it before each request. */
void wire_expect(struct wire *wire);
/* Reads the bytes that have arrived. */
enum wire_state wire_read(struct wire *wire);
/* Takes the first whole line off `text` and copies it to `line`; returns false if there is none. */
bool wire_take_line(struct wire *wire, char *line, size_t size);

int64_t now_ns(void);      /* CLOCK_MONOTONIC */
int64_t boottime_ms(void); /* The clock of valid_until_boottime_ms. */
/* Prints to stderr and exits with 2. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
