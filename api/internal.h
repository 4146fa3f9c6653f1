/* What the files of the room share: its limits, listeners, connections and the request that a
 * connection carries; then a section for each file. Private to api. */
#ifndef LOCKAGENT_API_INTERNAL_H
#define LOCKAGENT_API_INTERNAL_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <time.h>

#include "agent/base/buffer.h"
#include "agent/core/list.h"
#include "agent/core/types.h"
#include "api/accept.h"
#include "api/api.h"
#include "api/chunks.h"
#include "api/params.h"
#include "api/problem.h"

enum {
    HEADER_BYTES_MAX = 8192,  /* request line and header fields; more is 431 */
    TARGET_BYTES_MAX = 4096,  /* request target; more is 414 */
    POOL_BYTES = 10 * 1024,   /* libmicrohttpd's, per connection: for header and response */
    IDLE_MS = 60000,          /* a kept-alive connection without a request */
    WRITE_MS = 10000,         /* an answer, from its first byte to its last */
    RENDERINGS = 8,           /* pages that are kept to be shared */
    SCARCE_ASK_MS = 50,       /* if free connections are scarce: to send a request */
    SCARCE_READ_MS = 1000,    /* the same: to read an answer */
    SCARCE_IDLE_MS = 1000,    /* the same: between two requests, for a connection of no crowd */
    SCARCE_HOLDER_MS = 10000, /* the same, if the last request was a holder's */
    HURRY_MS = 10,            /* a request that follows an answer sooner is hurried */
    HURRIED = 2,              /* hurried requests in a row that make a connection one of a crowd */
    KEPT_FREE = 16,           /* connections of a listener that idle ones never take */
    KEPT_UNPARKED = 64,       /* connections of a listener that waits and streams never take */
    KEPT_FOR_HOLDERS = 32,    /* of these, the ones that requests for a lock never take */
    WRITE_STALL_S = 75,       /* a caller that does not read its answer */
    RENDERING_NAME = 640,
    ADMIN_CONNECTIONS = 128, /* of the admin listener's daemon */
    LISTENERS = 2 * CONFIG_LISTENERS,
    BACKLOG = 4096,
    SECRET_BYTES = 512,
};

/* Puts the link at the end of the list; it leaves the one that it is in. */
static inline void list_move(struct list *list, struct link *link)
{
    list_remove(link);
    list_append(list, link);
}

/* ---- one request ----------------------------------------------------------------------------- */

/* The life of a request: the picture is in request.c. */
enum phase {
    PHASE_IDLE,      /* no request line yet */
    PHASE_HEADER,    /* the request line is here */
    PHASE_BODY,      /* the header is here and judged */
    PHASE_ARRIVED,   /* the whole request is here */
    PHASE_CHECKED,   /* the whole request is here and well formed */
    PHASE_WORKING,   /* inside the core */
    PHASE_ANSWERED,  /* the core has answered */
    PHASE_WRITING,   /* a response is queued */
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
    struct link spare; /* api->spare_requests */
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
    const char *target_fault; /* what is wrong with the request target's bytes; NULL: nothing */
    uintptr_t target_at;      /* where the target stands in the request line */
    uintptr_t behind_target;  /* where the request line goes on behind it */
    const char *lock_token;   /* the header, in libmicrohttpd's memory; NULL: none */
    const char *idempotency;  /* the same for Idempotency-Key */
    char trace_id[33];        /* of a traceparent header; "": none */
    enum body_kind body_kind;
    char *body; /* malloc'ed, `body_size` bytes: as many as were announced, or as may come */
    size_t body_len, body_size;
    uint64_t body_came; /* bytes of the body, also those that are not kept */
    uint32_t number;    /* in the core while WORKING */
    bool suspended;
    bool parked, asks;             /* counted in its listener's `parked` or `asking` */
    bool has_turn;                 /* it has stood in line, and goes on */
    bool is_strangers;             /* its time is that of strangers (strangers.c) */
    bool is_a_holders;             /* it names a hold that this agent knows */
    struct link in_line;           /* in a queue of api->shares or in api->rendering, */
    struct connection *connection; /* and then whose request it is */
    unsigned status;               /* of the queued response; 0: none */
    struct instant answered_at;    /* of a stream: when it began */
    bool closes;                   /* the response is the last one of its connection */
    bool grants;                   /* the response hands out `lock`: unwritten, it is given back */
    struct lock_ref lock;
    struct kept_answer kept;
};

/* True for a request that keeps its connection for as long as a hold lasts. */
static inline bool request_streams(const struct request *request)
{
    return request->params.watch || request->params.bound;
}

enum stream_end {
    STREAM_OPEN,
    STREAM_LOST,     /* to be told, */
    STREAM_RELEASED, /* and so is this */
    STREAM_OVER,     /* nothing is left to be told */
};

/* What a stream has still to tell: the picture is in streams.c. */
struct stream {
    struct link of_lock; /* in a bucket of api->streams */
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

/* ---- one connection -------------------------------------------------------------------------- */

struct connection {
    struct api *api;
    struct listener *listener;
    struct MHD_Connection *http;
    int fd;
    const char *read_end; /* behind what libmicrohttpd read last; NULL: it was moved (framing.c) */
    struct chunks chunks; /* of the request's body, as far as it was read */
    enum phase phase;
    bool peer_closed;        /* the caller has closed its sending side */
    bool peer_dead;          /* ... and its receiving side */
    bool gives_way;          /* is being closed for others */
    uint8_t hurried;         /* hurried requests in a row, at most HURRIED */
    struct link all;         /* api->open, or api->spare */
    struct link timed;       /* one of its listener's `slack` */
    struct link ended;       /* api->half_closed */
    uint64_t deadline_ms;    /* on the loop's clock */
    uint64_t answered_ms;    /* the same; 0: not yet */
    struct request *request; /* NULL while PHASE_IDLE */
    struct stream stream;
};

/* What a connection takes time for. Each has a deadline, and a shorter one while free connections
 * are scarce (connection.c). */
enum slack {
    SLACK_HURRIED,  /* between two requests, of a crowd */
    SLACK_IDLE,     /* between two requests, of all others */
    SLACK_HOLDER,   /* the same, if the last request was a holder's */
    SLACK_SILENT,   /* accepted, no request line yet */
    SLACK_ARRIVING, /* request line, but not the whole request */
    SLACK_WRITING,  /* answered, but not wholly written; streams are not counted (streams.c) */
    SLACKS
};

/* ---- listeners and the room ------------------------------------------------------------------ */

struct listener {
    struct api *api;
    const struct config_address *address;
    bool is_admin;
    bool checks_host; /* loopback TCP (D9) */
    bool is_absent;   /* could not be opened: the machine has no such address */
    char bound[300];  /* as in the log: with the real port */
    uint16_t port;
    int fd;                 /* the listening socket; -1 when handed back and closed */
    uint64_t device, inode; /* of a unix socket's file */
    struct MHD_Daemon *daemon;
    bool wants_run;
    uint64_t rests_until_ns;   /* of the admin listener; 0: it does not rest */
    struct list slack[SLACKS]; /* connections, in the order of their deadlines */
    size_t connections, connections_max, giving_way;
    uint64_t gave_way_ms; /* when a connection was last closed for others, on the loop's clock */
    uint64_t scarce_since_ms; /* since when too few connections are free; 0: enough are */
    size_t parked;            /* requests that wait for a lock, or stream */
    size_t asking;            /* requests that ask for a lock once, or wait for a turn or a page */
    uv_poll_t poll;
};

/* A page as it was last rendered (rendering.c). */
struct rendering {
    char what[RENDERING_NAME];     /* the route and what the page depends on */
    struct MHD_Response *response; /* NULL: none */
    uint64_t at_ms;
};

/* What has a share of each turn of the loop (strangers.c). */
enum share_kind {
    SHARE_CHECKS,    /* health checks and constant pages */
    SHARE_STRANGERS, /* all else that no holder asked for */
    SHARES
};
/* The requests that wait for a share, in the order in which they are resumed. */
enum rank {
    RANK_RESUMED, /* resumed before, but the time of that turn was over */
    RANK_PAUSED,  /* the caller pauses between its requests */
    RANK_CROWD,   /* all others */
    RANKS
};
struct share {
    struct list waiting[RANKS];
    bool served;       /* a request went on in this turn */
    unsigned picked;   /* requests of RANK_PAUSED and RANK_CROWD that were resumed */
    unsigned at_once;  /* requests that are resumed in one run of libmicrohttpd */
    uint64_t until_ns; /* when the share of this turn ends */
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
    int gone_fd;          /* epoll: sees callers hang up, also suspended ones (server.c) */

    struct instant started_at;
    struct list open, spare, half_closed;
    struct list spare_requests;
    size_t connections;

    struct connection **by_number; /* requests inside the core */
    uint32_t *free_numbers;        /* a stack */
    uint32_t free_count, numbers;

    struct list *streams; /* buckets, by the slot of the lock */
    uint32_t stream_buckets, stream_count;

    struct share shares[SHARES]; /* of a turn of the loop (strangers.c) */

    struct MHD_Response *no_content, *openapi, *openapi_3_0, *alive; /* constant responses */
    struct rendering renderings[RENDERINGS];
    struct list rendering;     /* requests that wait for a page */
    uint64_t rests_until_ns;   /* no page is rendered before; by uv_hrtime() */
    uint64_t rendered_bytes;   /* of pages that are shared, or on their way */
    uv_timer_t share;          /* the share of those who wait for a page is there again */
    char secret[SECRET_BYTES]; /* api.token_file as last read; "": nobody is let in */
    struct timespec secret_mtime;
    uint64_t secret_looked_ms;

    bool draining, stopping, daemons_stopped;
    unsigned handles; /* that are not closed yet */
    void (*done)(void *arg);
    void *done_arg;
};

/* ---- response.c: a route ---- */

enum { OPERATIONS = 4 };

struct operation {
    enum method method;
    unsigned params; /* bits PARAM_... */
    bool uses_core;  /* `run` submits an event, one call of the handler later (request.c) */
    enum MHD_Result (*run)(struct connection *connection);
};

struct route {
    const char *path;                        /* `{key}`: the rest of the path */
    bool is_lock_call;                       /* not on the admin listener; parameters are checked */
    bool is_open;                            /* without the API's bearer token: for health checks */
    struct operation operations[OPERATIONS]; /* unused ones have no `run` */
};

/* Those of a route that takes none are not looked at. */
bool route_takes_params(const struct route *route);

/* NULL: the route does not take the method. */
const struct operation *route_operation(const struct route *route, enum method method);

/* HEAD is as GET. */
enum method method_find(const char *name, bool *ret_is_head);
const char *method_name(enum method method);

/* ---- connection.c: listeners ---- */

/* Opens the listening socket of `listener->address`; `mode` is that of a unix socket's file. False,
 * with the reason in `error`. */
bool listener_open(struct listener *listener, unsigned mode, char *error, size_t error_size);
/* Removes the file of a unix socket, if it is still ours. */
void listener_remove_file(const struct listener *listener);

/* Asks for a run of the listener's daemon in this loop turn (server.c). */
void listener_wants_run(struct listener *listener);

/* ---- connection.c: one connection among others ---- */

/* The connection that a handle of libmicrohttpd stands for; NULL where there was no memory for
 * one. */
struct connection *connection_of(struct MHD_Connection *http);

/* It was accepted: the request line has limits.header_timeout. */
void connection_is_silent(struct connection *connection);
/* A request line has come: the rest has limits.header_timeout. */
void connection_is_arriving(struct connection *connection);
/* The whole request has come, and nothing is limited until it is answered. */
void connection_has_arrived(struct connection *connection);
/* A response is queued that has WRITE_MS to be taken. */
void connection_is_writing(struct connection *connection);
/* The response is written: the next request line has IDLE_MS. */
void connection_is_idle(struct connection *connection);

/* Returns true if an earlier request was answered and this one followed after a pause: the
 * connection is not one of a crowd (D9). */
bool connection_pauses(const struct connection *connection);

/* Counts the request among those that keep their connection: it waits or streams (`lasts`), or asks
 * for a lock or a page once. It is counted once. False when they are too many (D9). */
bool connection_park(struct connection *connection, bool lasts);
/* Counts it no more; nothing to do where it was not counted. */
void connection_unpark(struct connection *connection);

/* Memory for pages is scarce: of each listener one connection is closed that reads its response
 * slowly, if there is one. */
void connection_slow_reader_gives_way(struct api *api);

/* Resumes the suspended connection, and asks for a run in which libmicrohttpd goes on with it. */
void connection_resume(struct connection *connection);

/* ---- response.c: what is sent; NULL stands for out of memory ---- */

/* Adds what every response has, and the content type unless it is NULL. */
struct MHD_Response *response_typed(struct MHD_Response *response, const char *content_type);
struct MHD_Response *response_copied(const char *bytes, size_t len, const char *content_type);

/* ---- response.c: sending; each queues a response, and MHD_NO closes the connection ---- */

/* Consumes `response`; NULL: MHD_NO. */
enum MHD_Result response_queue(struct connection *connection, unsigned status,
                               struct MHD_Response *response);
/* The same for a stream: it goes on for as long as a hold does. */
enum MHD_Result response_stream(struct connection *connection, unsigned status,
                                struct MHD_Response *response);
/* A constant response, which is shared. */
enum MHD_Result response_shared(struct connection *connection, unsigned status,
                                struct MHD_Response *response);
/* Consumes `body`. */
enum MHD_Result response_json(struct connection *connection, unsigned status, json_t *body);
enum MHD_Result response_text(struct connection *connection, unsigned status, const char *text);
/* Consumes the report's members. */
enum MHD_Result response_problem(struct connection *connection,
                                 const struct problem_report *report);
enum MHD_Result response_refusal(struct connection *connection, const struct refusal *refusal);

/* ---- view.c: holds, votes and labels in JSON ---- */

/* What is left of a hold's validity, in ms; not above 0 when it is over. */
int64_t view_valid_for_ms(const struct hold_view *hold, struct instant now);

/* How many masters voted how. */
json_t *view_nodes(const struct tally *tally);
/* A label, or null where it is none that can be shown. */
json_t *view_label(struct text label);
/* {"label",...}: a hold, never its token; NULL when its validity is over. */
json_t *view_hold(const struct api *api, const struct hold_view *hold, struct instant now);
/* True where readers share the keys of this policy (R17): then each lock has a mode. */
bool view_is_shared(const struct api *api, uint16_t policy);

/* Writes `text` as a JSON string without its quotes, terminated. `text` is free of faults, and
 * `size` holds 2 * text.len + 1. */
size_t view_escape(struct text text, char *out, size_t size);

/* Writes the body of a kept answer that hands out or renews a hold, terminated; returns its length.
 * `fence` is the fencing token in digits, "" for none. `size` holds the longest key twice, and 640
 * bytes. */
size_t view_granted(const struct api *api, const struct request *request, const char *token,
                    const char *fence, int64_t valid_ms, char *body, size_t size);

/* ---- streams.c: responses that stay open (D3) ---- */

bool streams_start(struct api *api);
void streams_free(struct api *api);

struct stream_terms {
    struct lock_ref lock;
    struct instant valid_until;
    bool bound; /* the caller's leaving is the release */
};

/* Begins a stream whose first line is `first_line`, with its end; takes the buffer over, also on
 * failure. NULL when out of memory. The response is to be queued, and the connection is then
 * PHASE_STREAMING. */
struct MHD_Response *stream_open(struct connection *connection, struct buffer first_line,
                                 const struct stream_terms *terms);

/* The caller has hung up, or closed its sending side. */
void stream_caller_gone(struct connection *connection);
/* The agent ends: whatever has not been told yet is `lost`. */
void stream_stop(struct connection *connection);
/* The response is over, however that came about; nothing to do where it was no stream. */
void stream_closed(struct connection *connection);

/* ---- answer.c: answers of the core as callers see them ---- */

/* The status of each answer of the core. */
unsigned answer_status(enum answer answer);
/* Writes the kept answer, with what is left of its validity now. MHD_NO closes the connection. */
enum MHD_Result answer_write(struct connection *connection);
/* Answers without the core. */
enum MHD_Result answer_here(struct connection *connection, enum answer answer);

/* ---- answer.c: the exchange with the core ---- */

/* Takes the room's numbers of requests; false when out of memory. */
bool exchange_start(struct api *api);
void exchange_free(struct api *api);

/* Hands an event of an operation to the core, and suspends the connection until it is answered.
 * MHD_NO closes it. */
enum MHD_Result exchange_submit(struct connection *connection, struct event *event);
/* The caller of a request that is in the core has hung up. */
void exchange_caller_gone(struct connection *connection);
/* Takes a request back from the core and answers it `draining`. */
void exchange_drained(struct connection *connection);
/* Takes a request back from the core: nobody is left to be answered. */
void exchange_cancel(struct connection *connection);

/* ---- strangers.c: requests that no holder made (D9) ---- */

void strangers_start(struct api *api);
/* A turn of the loop begins. */
void strangers_begin(struct api *api);
/* Resumes some of the requests in the queues, if time is left. Returns true if a queue is not
 * empty. */
bool strangers_next(struct api *api);
enum turn {
    TURN_NOW,   /* the request may go on */
    TURN_LATER, /* it is queued and suspended: the handler is called again in the same phase */
    TURN_NEVER, /* too many connections wait (D9); never said to a health check */
};
enum turn strangers_turn_of(struct connection *connection, enum share_kind share);
/* What the handler returns where the turn is later, or never: then it is 429. */
enum MHD_Result strangers_later(struct connection *connection, enum turn turn);
/* The caller is gone: the request is resumed at once if it waits in a queue. */
void strangers_caller_gone(struct connection *connection);
/* All of them go on: nothing may be suspended as the daemons stop. */
void strangers_stop(struct api *api);

/* ---- rendering.c: pages that take long to render ---- */

/* Lists, the status page and metrics. Together they have a quarter of the agent's time, on all
 * listeners, whoever asks for them. While that is used up a page is shared if it is younger than
 * SHARED_MS. Otherwise the connection waits. */

/* Renders the page that the request asks for; its response is of rendering_response(). NULL: out of
 * memory. */
typedef struct MHD_Response *rendering_fn(struct connection *connection);

/* Once the API is certain to start. */
void rendering_start(struct api *api);
void rendering_free(struct api *api);
/* Every connection that waits for a page goes on: the API stops. */
void rendering_stop(struct api *api);

/* Answers with the page that `what` names: the route and all parameters that the page depends on.
 * The connection waits, suspended, if there is no time for it now. If it `may_be_old`, a page that
 * is younger than SHARED_MS is shared even if there is time for a new one. MHD_NO closes the
 * connection. */
enum MHD_Result rendering_answer(struct connection *connection, const char *what, bool may_be_old,
                                 rendering_fn *render);

/* A response with the bytes of `page`, which it owns from now on; they are counted until the last
 * reader has them. NULL: out of memory, and the page is freed. */
struct MHD_Response *rendering_response(struct api *api, struct buffer *page,
                                        const char *content_type);

/* ---- rendering.c: metrics, health and the description ---- */

enum MHD_Result page_metrics(struct connection *connection);
enum MHD_Result page_alive(struct connection *connection);
enum MHD_Result page_ready(struct connection *connection);
enum MHD_Result page_openapi(struct connection *connection);
enum MHD_Result page_openapi_3_0(struct connection *connection);

/* ---- locks.c: the lock calls ---- */

enum MHD_Result locks_acquire(struct connection *connection);
enum MHD_Result locks_renew(struct connection *connection);
enum MHD_Result locks_release(struct connection *connection);
/* Also GET ?watch. */
enum MHD_Result locks_read(struct connection *connection);
enum MHD_Result locks_list(struct connection *connection);

/* ---- locks.c: a stream of what becomes of a hold ---- */

/* Answers with a stream that begins with the hold as it stands; the core is only read. MHD_NO
 * closes the connection. */
enum MHD_Result watch_begin(struct connection *connection);

/* ---- status.c: the status page ---- */

/* MHD_NO closes the connection. */
enum MHD_Result status_page(struct connection *connection);

/* ---- status.c: text in HTML ---- */

/* Adds a time span with its two largest units: `850 ms`, `12 s`, `3 min 20 s`, `4 d 2 h`. What is
 * below 0 is 0. */
void html_add_span(struct buffer *page, int64_t ms);

/* Adds a number with a comma between thousands. */
void html_add_count(struct buffer *page, uint64_t number);

/* ---- routes.c ---- */

extern const struct route routes[];
extern const size_t route_count;

/* Finds the route of a path (without query). `*ret_key` is what stands for `{key}`, as it came.
 * NULL: none. */
const struct route *route_find(struct text path, struct text *ret_key);

/* ---- parse.c: header fields ---- */

/* The header fields that matter, in libmicrohttpd's memory; NULL: absent. */
struct headers {
    const char *host, *origin, *authorization, *content_type, *content_length, *transfer_encoding,
        *lock_token, *idempotency, *traceparent;
    bool is_cross_site, host_doubled, authorization_doubled, lock_token_doubled,
        idempotency_doubled;
    struct accept accept;
};

/* ---- access.c: which callers may talk to the API (D9) ---- */

/* Reads api.token_file. False, with the reason in `error`: then no caller is let in. */
bool access_load_secret(struct api *api, char *error, size_t error_size);
/* True if `host` is a name of this machine's loopback or one of api.allowed_hosts, with or without
 * a port. */
bool access_knows_host(const struct config *config, const char *host);
/* True, with the reason in `refusal`, when the caller is to be turned away whatever it asks for.
 * `open`: the path needs no bearer token. */
bool access_refuses(struct connection *connection, const struct headers *headers,
                    const char *version, bool open, struct refusal *refusal);

/* ---- framing.c: the end of header and body ---- */

/* What leaves in doubt where the request ends, as a sentence; NULL: nothing. `method` and `version`
 * as the handler got them, in its first call. */
const char *framing_fault(const struct connection *connection, const char *method,
                          const char *version);
/* The same of the request target, before libmicrohttpd has touched it. */
const char *framing_fault_of_target(const char *target);

/* ---- framing.c: what libmicrohttpd reads ---- */

/* From the accept until the close. Without memory for it, chunked requests are refused. */
void intake_watch(struct connection *connection);
void intake_forget(const struct connection *connection);

/* A chunked body begins at `body`, in libmicrohttpd's buffer. False when it is not known which of
 * its bytes have come. */
bool intake_begin_chunks(struct connection *connection, const char *body);

/* What leaves in doubt where the chunked body ends, as a sentence; NULL: nothing so far, or the
 * body is not chunked. */
const char *intake_fault(const struct connection *connection);
/* The same when libmicrohttpd has found the end, and handed over `data` bytes. */
const char *intake_fault_at_end(const struct connection *connection, uint64_t data);

/* The request has ended, and libmicrohttpd moves what it has read beyond it. */
void intake_end(struct connection *connection);

/* ---- parse.c: what came, checked ---- */

/* The target, as it came: its route, key and query. libmicrohttpd decodes what is left of it in
 * place. */
void parse_target(struct connection *connection, const char *target);
/* The whole header. False when the request is to be refused at once, its body unread. */
bool parse_header(struct connection *connection, const char *method, const char *version);
/* A piece of the body. */
void parse_piece(struct connection *connection, const char *bytes, size_t len);
/* All has come: a chunked body of which the end is in doubt is refused, before anything else. */
void parse_end(struct connection *connection);
/* The body is whole: its parameters, and what they must be together. */
void parse_whole(struct connection *connection);

/* ---- request.c: the life of a request ---- */

/* The request line is here, its target as it came. */
void *request_line_came(void *arg, const char *target, struct MHD_Connection *http);
/* The header is here, a piece of the body, all of it; or a suspended connection goes on. */
enum MHD_Result request_handler(void *arg, struct MHD_Connection *http, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_len, void **context);
/* Returns true if the connection is dead and the request can be dropped: it reads, or the core does
 * not have it yet and it is no release. */
bool request_is_for_nobody(const struct connection *connection);
/* The response is written, or never will be. */
void request_completed(void *arg, struct MHD_Connection *http, void **context,
                       enum MHD_RequestTerminationCode code);

/* ---- request.c: requests that are kept ---- */

void request_pool_start(struct api *api);
/* No connection may have one. */
void request_pool_free(struct api *api);

#endif
