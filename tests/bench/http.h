/* The HTTP client of the benchmark's callers: one keep-alive connection each, with at most one
 * request in flight. */
#ifndef LOCKAGENT_BENCH_HTTP_H
#define LOCKAGENT_BENCH_HTTP_H

#include <stdbool.h>
#include <stddef.h>

enum { ANSWER_BYTES = 8192, TOKEN_BYTES = 128, STATUS_MAX = 600 };

struct http {
    int port, fd;
    size_t filled;
    char answer[ANSWER_BYTES];
};

struct answer {
    int status; /* 100 .. STATUS_MAX - 1 */
    bool closes;
    size_t length; /* header and body */
    char token[TOKEN_BYTES];
};

enum http_state { HTTP_MORE, HTTP_ANSWER, HTTP_BROKEN };

/* Connects to 127.0.0.1 and has `epoll_fd` report `owner` when bytes arrive. */
void http_open(struct http *http, int port, int epoll_fd, void *owner);
/* Opens the connection anew. A request that was in flight on the broken one is lost. */
void http_reopen(struct http *http, int epoll_fd, void *owner);
/* A request is small and the connection has nothing else in flight. So it fits, or the connection
 * is broken, which the next read reports. */
void http_send(struct http *http, const char *request, size_t length);
/* Reads the bytes that have arrived; on HTTP_ANSWER sets `ret_answer`, and the connection can take
 * the next request unless the answer closes it. */
enum http_state http_read(struct http *http, struct answer *ret_answer);

#endif
