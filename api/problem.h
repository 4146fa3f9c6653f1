/* The table of the API's own refusals, and the RFC 9457 body of every refusal. */
#ifndef LOCKAGENT_API_PROBLEM_H
#define LOCKAGENT_API_PROBLEM_H

#include <jansson.h>

#include "agent/core/core.h"

/* Code, status, and one sentence for people. The core's refusals are in ANSWERS; answer_status()
 * has their status. */
#define PROBLEMS(X)                                                                                \
    X(BAD_REQUEST, "bad_request", 400, "the request is not well formed")                           \
    X(TOKEN_REQUIRED, "token_required", 400, "this call needs the lock's token")                   \
    X(UNAUTHORIZED, "unauthorized", 401, "the API's bearer token is missing or wrong")             \
    X(ORIGIN_REFUSED, "origin_refused", 403, "calls from web pages are refused")                   \
    X(NOT_FOUND, "not_found", 404, "there is nothing at this path")                                \
    X(METHOD_NOT_ALLOWED, "method_not_allowed", 405, "this path does not take this method")        \
    X(NOT_ACCEPTABLE, "not_acceptable", 406, "answers come as JSON or as plain text")              \
    X(REQUEST_TIMEOUT, "request_timeout", 408, "the request did not arrive in time")               \
    X(BODY_TOO_LARGE, "body_too_large", 413, "the body is larger than limits.body allows")         \
    X(URI_TOO_LONG, "uri_too_long", 414, "the request target is too long")                         \
    X(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", 415,                                       \
      "parameters come as a form or as JSON")                                                      \
    X(MISDIRECTED, "misdirected", 421, "this agent does not answer under this host name")          \
    X(HEADERS_TOO_LARGE, "headers_too_large", 431, "the header is larger than the agent takes")    \
    X(LAYOUT_MISMATCH, "layout_mismatch", 503,                                                     \
      "agents at work have another layout, so this one takes no new locks")                        \
    X(OUT_OF_MEMORY, "out_of_memory", 503, "the agent is out of memory")
#define X(name, ...) PROBLEM_##name,
enum problem { PROBLEM_NONE, PROBLEMS(X) PROBLEM_COUNT };
#undef X

/* The content of a problem's response. */
struct problem_report {
    const char *code, *title;
    unsigned status;
    const char *detail;     /* More details; NULL: the title is enough. */
    int64_t retry_after_ms; /* Sets Retry-After unless negative; at least one second is sent. */
    json_t *members;        /* More members, consumed; or NULL. */
};

/* Returns the report of a problem of the table, without detail, Retry-After and members. */
struct problem_report problem_report(enum problem problem);

/* Returns the body as problem+json with a newline at its end, allocated with malloc(), or NULL if
 * there is not enough memory. Consumes the members. */
char *problem_json(const struct problem_report *report);

/* The same as one line of plain text, `code: detail`, for callers that accept only that. */
char *problem_line(const struct problem_report *report);

#endif
