/* What the files of this room share: listeners, connections, and the request that a connection carries. */
#ifndef LOCKAGENT_API_ROOM_H
#define LOCKAGENT_API_ROOM_H

#include <jansson.h>
#include <microhttpd.h>
#include <time.h>

#include "api/accept.h"
#include "api/api.h"
#include "api/params.h"
#include "api/problem.h"

enum {
    HEADER_BYTES_MAX = 8192, /* request line and header fields; more is 431 */
    TARGET_BYTES_MAX = 4096, /* request target; more is 414 */
    POOL_BYTES = 12 * 1024,  /* of libmicrohttpd, per connection: the largest header, and the reply's own */
    IDLE_MS = 60000,         /* a kept-alive connection without a request */
    WRITE_STALL_S = 75,      /* a caller that does not read its answer */
    ADMIN_CONNECTIONS = 128, /* of the admin listener's daemon */
    LISTENERS = 2 * CONFIG_LISTENERS,
    BACKLOG = 4096,
    SECRET_BYTES = 512,
};

/* ---- lists ----------------------------------------------------------------------------------------------------- */

struct list_link {
    struct list_link *next, *previous; /* NULL: in no list */
};
void list_start(struct list_link *head);
void list_add(struct list_link *head, struct list_link *link); /* at the end; leaves the list where it is now */
void list_drop(struct list_link *link);

/* ---- one request ----------------------------------------------------------------------------------------------- */

/* The life of a request: the picture is in request.c. */
enum phase {
    PHASE_IDLE,      /* no request line yet */
    PHASE_HEADER,    /* the request line is here */
    PHASE_BODY,      /* the header is here and judged */
    PHASE_CHECKED,   /* the whole request is here and well formed */
    PHASE_WORKING,   /* inside the core */
    PHASE_ANSWERED,  /* the core has answered */
    PHASE_WRITING,   /* a reply is queued */
    PHASE_STREAMING, /* ... that goes on for as long as a hold does */
    PHASE_GONE,      /* the caller went away while the core worked */
};

enum method { METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_DELETE, METHOD_OTHER };

struct route;
struct operation;

/* An answer of the core, kept until it is written: what it borrowed is copied. */
struct kept_answer {
    struct effect_answer answer;
    char holder[LIMIT_LABEL_BYTES], label[LIMIT_LABEL_BYTES];
    struct master_state masters[LIMIT_MASTERS];
};

/* What was wrong with a request, as far as it has been looked at. */
struct refusal {
    enum problem problem;
    char parameter[40]; /* named by a bad_request; "": none */
    char detail[400];   /* "": the problem's title says it all */
};

enum body_kind { BODY_NONE, BODY_FORM, BODY_JSON };

struct request {
    struct instant came_at;
    enum method method;
    bool is_head;
    const struct route *route;         /* NULL: unknown path */
    const struct operation *operation; /* NULL: the route does not take the method */
    enum media media;
    char key[LIMIT_KEY_BYTES];
    size_t key_len;
    struct params params;
    struct refusal refusal;
    uintptr_t behind_target; /* where the request line goes on behind the target */
    const char *lock_token;  /* the header, in libmicrohttpd's memory; NULL: none */
    const char *idempotency; /* the same for Idempotency-Key */
    char trace_id[33];       /* of a traceparent header; "": none */
    enum body_kind body_kind;
    char *body; /* malloc'ed */
    size_t body_len, body_size;
    uint32_t number; /* in the core while WORKING */
    bool suspended;
    bool parked;                /* counted in api->parked */
    unsigned status;            /* of the queued reply; 0: none */
    struct instant answered_at; /* of a stream: when it began */
    bool grants;                /* the reply hands out `lock`: if it is not wholly written, the lock is given back */
    struct lock_ref lock;
    struct kept_answer kept;
};

enum stream_end {
    STREAM_OPEN,
    STREAM_LOST,     /* to be told, */
    STREAM_RELEASED, /* and so is this */
    STREAM_OVER,     /* nothing is left to be told */
};

/* What a stream has still to tell: the picture is in streams.c. */
struct stream {
    struct list_link of_lock; /* in a bucket of api->streams */
    struct lock_ref lock;
    bool bound;   /* the caller's leaving is the release */
    bool parked;  /* suspended: there is nothing to tell */
    bool renewed; /* to be told */
    enum stream_end end;
    enum reason reason; /* LOST */
    struct instant valid_until;
    struct instant waits_since; /* when there was first something to tell that has not been taken */
    struct buffer line;         /* on its way, */
    size_t written;             /* so far */
};

struct connection {
    struct api *api;
    struct listener *listener;
    struct MHD_Connection *http;
    int fd;
    enum phase phase;
    bool peer_closed;       /* the caller has closed its sending side */
    bool peer_dead;         /* ... and its receiving side */
    struct list_link all;   /* api->open, or api->spare */
    struct list_link timed; /* api->arriving or api->idle: in the order of their deadlines */
    struct list_link ended; /* api->half_closed */
    uint64_t deadline_ms;   /* on the loop's clock */
    struct request request;
    struct stream stream;
};

/* ---- listeners and the room ------------------------------------------------------------------------------------ */

struct listener {
    struct api *api;
    const struct config_address *address;
    bool is_admin;
    bool checks_host; /* loopback TCP (D9) */
    char bound[300];  /* as in the log: with the real port */
    uint16_t port;
    int fd;                 /* the listening socket; -1 when handed back and closed */
    uint64_t device, inode; /* of a unix socket's file */
    struct MHD_Daemon *daemon;
    bool wants_run;
    uv_poll_t poll;
};

struct api {
    uv_loop_t *loop;
    const struct config *config;
    struct api_backend backend;
    struct listener listeners[LISTENERS];
    size_t listener_count;
    uv_prepare_t prepare; /* runs the daemons once per loop turn */
    uv_idle_t again;      /* active while a daemon has more to do at once */
    uv_timer_t wake;      /* libmicrohttpd's timeouts */
    uv_timer_t sweep;     /* our deadlines of slow and idle connections */
    uv_timer_t grace;     /* of stopping */
    uv_poll_t gone;       /* of `gone_fd` */
    int gone_fd;          /* an epoll instance that sees callers hang up, also while they are suspended */

    struct list_link open, spare, arriving, idle, half_closed;
    size_t connections;

    struct connection **by_number; /* requests inside the core */
    uint32_t *free_numbers;        /* a stack */
    uint32_t free_count, numbers;

    struct list_link *streams; /* buckets, by the slot of the lock */
    uint32_t stream_buckets, stream_count;
    uint32_t parked; /* requests that wait for a lock, or stream */

    struct MHD_Response *no_content, *openapi, *alive; /* constant replies */
    char secret[SECRET_BYTES];                         /* api.token_file as last read; "": nobody is let in */
    struct timespec secret_mtime;
    uint64_t secret_looked_ms;

    bool draining, stopping, daemons_stopped;
    unsigned handles; /* that are not closed yet */
    void (*done)(void *arg);
    void *done_arg;
};

/* ---- server.c --------------------------------------------------------------------------------------------------- */

/* Asks for a run of the listener's daemon in this loop turn. */
void server_wants_run(struct listener *listener);
/* The port that a listener is bound to, for tests. */
uint16_t api_port(const struct api *api, size_t listener);

/* ---- sockets.c --------------------------------------------------------------------------------------------------- */

/* Opens the listening socket of `listener->address`. False, with the reason in `error`. */
bool socket_open(struct listener *listener, unsigned mode, char *error, size_t error_size);
/* Removes the file of a unix socket, if it is still ours. */
void socket_remove(const struct listener *listener);

/* ---- connections.c ---- */

bool connections_start(struct api *api);
void connections_free(struct api *api);
void connection_notified(void *arg, struct MHD_Connection *http, void **context,
                         enum MHD_ConnectionNotificationCode code);
struct connection *connection_of(struct MHD_Connection *http);
/* A request line has come: the rest has limits.header_timeout. */
void connection_is_arriving(struct connection *connection);
/* The whole request has come. */
void connection_has_arrived(struct connection *connection);
/* The reply is written. */
void connection_is_idle(struct connection *connection);
/* Looks who has hung up. */
void connections_look(uv_poll_t *poll, int status, int events);
/* Closes what has hung up and has nothing left to be answered; call it after the daemons have run. */
void connections_close_ended(struct api *api);
void connections_sweep(uv_timer_t *timer);
/* Answers what is in the core `draining`, and closes what is idle. */
void connections_stop(struct api *api);

/* ---- request.c ---- */

void *request_line_came(void *arg, const char *target, struct MHD_Connection *http);
enum MHD_Result request_handler(void *arg, struct MHD_Connection *http, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_len, void **context);
void request_completed(void *arg, struct MHD_Connection *http, void **context, enum MHD_RequestTerminationCode code);
/* The caller has hung up. */
void request_caller_gone(struct connection *connection);
/* Hands an event of an operation to the core, and suspends the connection until it is answered. */
enum MHD_Result request_submit(struct connection *connection, struct event *event);
/* True for a request that keeps its connection for as long as a hold lasts. */
bool request_streams(const struct request *request);
/* Counts the request among those that wait or stream; false when they are too many. */
bool request_park(struct connection *connection);
/* Takes a request back from the core and answers it `draining`. */
void request_drained(struct connection *connection);

/* ---- guards.c ---- */

/* The header fields that matter, in libmicrohttpd's memory; NULL: absent. */
struct headers {
    const char *host, *origin, *authorization, *content_type, *content_length, *transfer_encoding, *lock_token,
        *idempotency, *traceparent;
    bool host_doubled, authorization_doubled, lock_token_doubled, idempotency_doubled;
    struct accept accept;
};

bool guard_secret_load(struct api *api, char *error, size_t error_size);
/* True, with the reason in `refusal`, when the caller is to be turned away whatever it asks for (D9). */
bool guard_refuses(struct connection *connection, const struct headers *headers, const char *version, bool open,
                   struct refusal *refusal);

/* ---- reply.c ---- */

/* Each queues a reply; MHD_NO closes the connection. `owned` bytes are malloc'ed and given away, also on failure. */
enum MHD_Result reply_queue(struct connection *connection, unsigned status, struct MHD_Response *response);
enum MHD_Result reply_stream(struct connection *connection, unsigned status, struct MHD_Response *response);
struct MHD_Response *reply_owned(char *owned, size_t len, const char *content_type);
struct MHD_Response *reply_copied(const char *bytes, size_t len, const char *content_type);
enum MHD_Result reply_json(struct connection *connection, unsigned status, json_t *body); /* consumes `body` */
enum MHD_Result reply_text(struct connection *connection, unsigned status, const char *text);
enum MHD_Result reply_problem(struct connection *connection, const struct problem_report *report);
enum MHD_Result reply_refusal(struct connection *connection, const struct refusal *refusal);
/* A constant reply that is shared. */
enum MHD_Result reply_shared(struct connection *connection, unsigned status, struct MHD_Response *response);

/* ---- answer.c ---- */

/* The status of each answer of the core. */
unsigned answer_status(enum answer answer);
void answer_keep(struct kept_answer *kept, const struct effect_answer *answer);
/* Nobody is there any more to be told: whatever lock the answer hands out is given back. */
void answer_give_back(struct api *api, const struct effect_answer *answer);
/* Writes the kept answer, with what is left of its validity now. */
enum MHD_Result answer_write(struct connection *connection);
/* {"key",...}: a hold as callers see it, never its token; NULL when its validity is over. */
json_t *answer_hold_json(const struct hold_view *hold, struct instant now);
/* Answers GET ?watch with a stream. */
enum MHD_Result answer_watch(struct connection *connection);
/* Answers without the core. */
enum MHD_Result answer_here(struct connection *connection, enum answer answer);

/* ---- pages.c, status.c, locks.c: what routes lead to ---- */

enum MHD_Result page_metrics(struct connection *connection);
enum MHD_Result page_alive(struct connection *connection);
enum MHD_Result page_ready(struct connection *connection);
enum MHD_Result page_openapi(struct connection *connection);
enum MHD_Result page_status(struct connection *connection);
enum MHD_Result locks_acquire(struct connection *connection);
enum MHD_Result locks_renew(struct connection *connection);
enum MHD_Result locks_release(struct connection *connection);
enum MHD_Result locks_read(struct connection *connection);
enum MHD_Result locks_list(struct connection *connection);

#endif
