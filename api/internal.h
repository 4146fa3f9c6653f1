/* The private header of the API room: its limits, listeners, connections, and the request of a
 * connection. Then a section for each file. */
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
    HEADER_BYTES_MAX = 8192, /* Request line and header fields; a larger header is answered 431. */
    TARGET_BYTES_MAX = 4096, /* Request target; a longer one is answered 414. */
    POOL_BYTES = 10 * 1024,  /* libmicrohttpd's memory per connection, for header and response. */
    FIELD_BYTES = 64,        /* The part of it that each header field takes beside its own bytes. */
    ANSWER_HEADER_BYTES = 512, /* Largest header of an answer, without Location. */
    IDLE_MS = 60000,           /* Limit of a kept-alive connection without a request. */
    WRITE_MS = 10000,          /* Limit of an answer, from its first byte to its last. */
    HOLDS_SHOWN = 100,         /* Holds of one key in an answer to GET. */
    RENDERINGS = 8,            /* Pages that are kept to be shared. */
    SCARCE_ASK_MS = 50,        /* Time to send a request while free connections are scarce. */
    SCARCE_READ_MS = 1000,     /* Time to read an answer while they are scarce. */
    SCARCE_IDLE_MS = 1000,     /* Time between two requests while they are scarce, outside of a
                               * crowd. */
    SCARCE_HOLDER_MS = 10000,  /* The same, if the last request was a holder's. */
    HURRY_MS = 10,             /* A request that follows an answer sooner is hurried. */
    HURRIED = 2,               /* Hurried requests in a row after which a connection is one of a
                               * crowd. */
    KEPT_FREE = 16,            /* Connections of a listener that idle ones never take. */
    KEPT_UNPARKED = 64,        /* Connections of a listener that waits and streams never take. */
    KEPT_FOR_HOLDERS = 32,     /* Those of KEPT_UNPARKED that requests for a lock never take. */
    WRITE_STALL_S = 75,        /* Limit for a caller that does not read its answer. */
    RENDERING_NAME = 640,
    ADMIN_CONNECTIONS = 128, /* Connections of the admin listener. */
    LISTENERS = 2 * CONFIG_LISTENERS,
    BACKLOG = 4096,
    SECRET_BYTES = 512,
};

/* Moves the link from its list to the end of `list`. */
static inline void list_move(struct list *list, struct link *link)
{
    list_remove(link);
    list_append(list, link);
}

/* Returns the CPU time that this thread has used, in ns. Unlike the time of a clock it does not
 * count a pause of the process, or a turn of other processes (rendering.c). */
uint64_t worked_ns(void);

/* Returns for how long a kind of work rests that has used so much CPU time, in ns: three times as
 * long, so it has a quarter of the loop's time. */
static inline uint64_t rest_ns(uint64_t used_ns)
{
    enum { RESTS = 3 };
    return RESTS * used_ns;
}

/* ---- one request ----------------------------------------------------------------------------- */

/* The phases of a request; request.c has a picture. */
enum phase {
    PHASE_IDLE,      /* There is no request line yet. */
    PHASE_HEADER,    /* The request line has come. */
    PHASE_BODY,      /* The header has come and was checked. */
    PHASE_ARRIVED,   /* The whole request has come. */
    PHASE_CHECKED,   /* The whole request has come and is well formed. */
    PHASE_WORKING,   /* The core has the request. */
    PHASE_ANSWERED,  /* The core has answered. */
    PHASE_WRITING,   /* A response is queued. */
    PHASE_STREAMING, /* A response is queued that lasts as long as a hold. */
    PHASE_GONE,      /* The caller left while the core had the request. */
};

enum method { METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_DELETE, METHOD_OTHER };

struct route;
struct operation;

/* An answer of the core, kept until it is written. Borrowed texts are copied. */
struct kept_answer {
    struct effect_answer answer;
    char holder[LIMIT_LABEL_BYTES], label[LIMIT_LABEL_BYTES];
    struct master_state masters[LIMIT_MASTERS];
};

/* The first fault of a request, as far as it has been checked. */
struct refusal {
    enum problem problem;
    char parameter[40]; /* The parameter of a bad_request; "": none. */
    char detail[400];   /* "": the problem's title is enough. */
};

enum body_kind { BODY_NONE, BODY_FORM, BODY_JSON };

struct request {
    struct link spare; /* Link in api->spare_requests. */
    struct instant came_at;
    enum method method;
    bool is_head;
    const struct route *route;         /* NULL: unknown path. */
    const struct operation *operation; /* NULL: the route does not take the method. */
    enum media media;
    char key[LIMIT_KEY_BYTES];
    size_t key_len;
    struct params params;
    struct refusal refusal;
    const char *target_fault; /* Fault of the bytes of the request target; NULL: none. */
    uintptr_t target_at;      /* Address of the target in the request line. */
    uintptr_t behind_target;  /* Address of the rest of the request line after the target. */
    const char *lock_token;   /* The header in libmicrohttpd's memory; NULL: none. */
    const char *idempotency;  /* The Idempotency-Key header, likewise. */
    char trace_id[33];        /* From a traceparent header; "": none. */
    enum body_kind body_kind;
    char *body; /* Allocated with malloc(), `body_size` bytes: the announced size, or the limit. */
    size_t body_len, body_size;
    uint64_t body_came; /* Bytes of the body that came, also those that are not kept. */
    uint32_t number;    /* Its number in the core while WORKING. */
    bool suspended;
    bool parked, asks;             /* It is counted in its listener's `parked` or `asking`. */
    bool has_turn;                 /* It was queued and has been resumed. */
    bool is_strangers;             /* It uses the share of strangers (strangers.c). */
    bool is_a_holders;             /* It names a hold that this agent knows. */
    struct link in_line;           /* Link in a queue of api->shares or in api->rendering. */
    struct connection *connection; /* Its connection while it is in such a queue. */
    uint64_t line_number;          /* Its place in api->rendering; 0: it has not waited there. */
    int64_t queued_us;             /* Time until the core had it. */
    unsigned status;               /* Status of the queued response; 0: none. */
    struct instant answered_at;    /* When a stream began. */
    bool closes;                   /* The response is the last one of its connection. */
    bool grants;                   /* The response grants `lock`. If it is not written, the lock is
                                    * given back. */
    struct lock_ref lock;
    struct kept_answer kept;
};

/* Returns true if the request keeps its connection for as long as a hold lasts. */
static inline bool request_streams(const struct request *request)
{
    return request->params.watch || request->params.bound;
}

enum stream_end {
    STREAM_OPEN,
    STREAM_LOST,     /* The loss is still to be reported. */
    STREAM_RELEASED, /* The release is still to be reported. */
    STREAM_OVER,     /* Nothing is left to report. */
};

struct followed;
struct stream;

/* Writes the next line into `stream->line`. Returns false if there is nothing to report. */
typedef bool next_line_fn(struct stream *stream);

/* A stream, with the events that it still has to report; streams.c has a picture. */
struct stream {
    struct link of_lock; /* Link in a bucket of api->streams, or in the list of a followed key. */
    struct link waking;  /* Link in api->waking. */
    next_line_fn *next_line;
    struct followed *followed; /* The key that it follows (follow.c); NULL: it reports a hold. */
    /* Takes the end of a stream that follows `followed`; otherwise NULL. */
    void (*closed)(struct api *api, struct followed *followed);
    uint64_t seen; /* The last state of that key that was written. */
    struct lock_ref lock;
    bool bound;   /* If the caller leaves, the hold is released. */
    bool parked;  /* It is suspended, because there is nothing to report. */
    bool renewed; /* The renewal is still to be reported. */
    bool stuck;   /* The caller does not read; it is still to be logged. */
    enum stream_end end;
    enum reason reason; /* Reason of LOST. */
    struct instant valid_until;
    struct instant waits_since; /* When the first report came that has not been taken yet. */
    struct buffer line;         /* The line that is being written. */
    size_t written;             /* Bytes of `line` written so far. */
};

/* ---- one connection -------------------------------------------------------------------------- */

struct connection {
    struct api *api;
    struct listener *listener;
    struct MHD_Connection *http;
    int fd;
    const char *read_end; /* End of libmicrohttpd's last read; NULL: the bytes were moved
                           * (framing.c). */
    struct chunks chunks; /* The part of the request's body that was read. */
    enum phase phase;
    bool peer_closed;        /* The caller has closed its sending side. */
    bool peer_dead;          /* The caller has closed its receiving side as well. */
    bool gives_way;          /* It is being closed for others. */
    uint8_t hurried;         /* Hurried requests in a row, at most HURRIED. */
    struct link all;         /* Link in api->open or api->spare. */
    struct link timed;       /* Link in a list of its listener's `slack`. */
    struct link ended;       /* Link in api->half_closed. */
    uint64_t deadline_ms;    /* By the loop's clock. */
    uint64_t answered_ms;    /* By the loop's clock; 0: not answered yet. */
    struct request *request; /* NULL in PHASE_IDLE. */
    struct stream stream;
};

/* The reasons why a connection takes time. Each has a deadline, and a shorter one while free
 * connections are scarce (connection.c). */
enum slack {
    SLACK_HURRIED,  /* Between two requests, in a crowd. */
    SLACK_IDLE,     /* Between two requests, outside of a crowd. */
    SLACK_HOLDER,   /* Between two requests, if the last one was a holder's. */
    SLACK_SILENT,   /* Accepted, without a request line. */
    SLACK_ARRIVING, /* The request line came, but not the whole request. */
    SLACK_WRITING,  /* Answered, but not all was written. Not for streams (streams.c). */
    SLACKS
};

/* ---- listeners and the room ------------------------------------------------------------------ */

struct listener {
    struct api *api;
    const struct config_address *address;
    bool is_admin;
    bool checks_host; /* It is loopback TCP (D9). */
    bool is_absent;   /* It could not be opened, because the machine has no such address. */
    char bound[300];  /* Its address in the log, with the real port. */
    uint16_t port;
    int fd;                 /* The listening socket; -1: given back and closed. */
    uint64_t device, inode; /* Identify the file of a unix socket. */
    struct MHD_Daemon *daemon;
    bool wants_run;
    uint64_t rests_until_ns;   /* Rest of the admin listener; 0: it does not rest. */
    struct list slack[SLACKS]; /* Connections in the order of their deadlines. */
    size_t connections, connections_max, giving_way;
    uint64_t gave_way_ms; /* When a connection was last closed for others, by the loop's clock. */
    uint64_t scarce_since_ms; /* When free connections became too few; 0: there are enough. */
    size_t parked;            /* Requests that wait for a lock, or stream. */
    size_t asking;            /* Requests that ask for a lock or its state once, or wait for a turn
                               * or a page. */
    uv_poll_t poll;
};

/* The outcomes of calls for locks in each second of the last minute (recent.c). */
enum recent_kind {
    RECENT_GRANTED,
    RECENT_REFUSED, /* A POST that was let in, well formed, and answered without the lock. */
    RECENT_LOST,    /* Losses that lockagent_locks_lost_total counts. */
    RECENT_KINDS
};
enum { RECENT_SECONDS = 60 };
struct recent {
    uint64_t second; /* The latest one that has a bucket, by the loop's clock. */
    uint32_t counts[RECENT_SECONDS][RECENT_KINDS];
};

/* The last rendering of a page (rendering.c). */
struct rendering {
    char what[RENDERING_NAME];     /* The route and the parameters of the page. */
    struct MHD_Response *response; /* NULL: none. */
    uint64_t at_ms;
};

/* The requests that have a share of each iteration of the loop (strangers.c). */
enum share_kind {
    SHARE_CHECKS,    /* Health checks and constant pages. */
    SHARE_STRANGERS, /* All other requests that are not a holder's. */
    SHARES
};
/* The requests that wait for a share, in the order in which they are resumed. */
enum rank {
    RANK_RESUMED,  /* Resumed before, but the share of that turn was used up. */
    RANK_ANSWERED, /* Only its answer is left to write. */
    RANK_PAUSED,   /* The caller pauses between its requests. */
    RANK_CROWD,    /* All others. */
    RANKS
};
struct share {
    struct list waiting[RANKS];
    bool served;       /* A request was processed in this turn. */
    unsigned picked;   /* Requests of RANK_PAUSED and RANK_CROWD that were resumed. */
    unsigned at_once;  /* Requests that are resumed in one run of libmicrohttpd. */
    uint64_t until_ns; /* When the share of this turn ends. */
};

struct api {
    uv_loop_t *loop;
    const struct config *config;
    struct api_backend backend;
    struct listener listeners[LISTENERS];
    size_t listener_count;
    uv_prepare_t prepare; /* Runs the daemons once per iteration of the loop. */
    uv_idle_t again;      /* Active while a daemon has more to do at once. */
    uv_timer_t wake;      /* For libmicrohttpd's timeouts. */
    uv_timer_t sweep;     /* For our deadlines of slow and idle connections. */
    uv_timer_t grace;     /* Ends the grace while the API stops. */
    uv_poll_t gone;       /* Polls `gone_fd`. */
    int gone_fd;          /* An epoll instance that reports callers that hang up, also of suspended
                           * connections (server.c). */

    struct instant started_at;
    struct list open, spare, half_closed;
    struct list spare_requests;
    size_t connections;

    struct connection **by_number; /* Connections of the requests in the core. */
    uint32_t *free_numbers;        /* Used as a stack. */
    uint32_t free_count, numbers;

    struct list *streams; /* Buckets by the slot of the lock. */
    uint32_t stream_buckets, stream_count;
    struct list *followed; /* Buckets of followed keys (follow.c). */
    struct followed **followed_by_number;
    size_t followed_count, follower_count;
    struct list waking; /* Streams that have something to report and are not woken yet. */

    struct share shares[SHARES]; /* The shares of an iteration of the loop (strangers.c). */
    struct recent recent;

    struct MHD_Response *no_content, *openapi, *openapi_3_0, *alive, *alive_closing; /* Constant. */
    struct rendering renderings[RENDERINGS];
    struct list rendering;     /* Requests that wait for a page, in the order of goes_before(). */
    uint64_t line_numbers;     /* Requests that have waited for a page. */
    uint64_t rests_until_ns;   /* No page is rendered earlier; by uv_hrtime(). */
    uint64_t rendered_bytes;   /* Bytes of pages that are shared or being sent. */
    uv_timer_t share;          /* Ends the rest between two pages. */
    char secret[SECRET_BYTES]; /* The content of api.token_file; "": no caller is let in. */
    struct stat secret_file;   /* The file that it was read from; zeros: it was not read. */
    uint64_t secret_looked_ms;

    bool draining, stopping, daemons_stopped;
    unsigned handles; /* Handles that are not closed yet. */
    void (*done)(void *arg);
    void *done_arg;
};

/* ---- response.c: a route ---- */

enum { OPERATIONS = 4 };

struct operation {
    enum method method;
    unsigned params; /* Bits PARAM_... of the parameters that are allowed. */
    bool uses_core;  /* `run` submits an event, in the call of the handler after the check
                      * (request.c). */
    enum MHD_Result (*run)(struct connection *connection);
};

struct route {
    const char *path;                        /* `{key}`: the rest of the path. */
    bool is_lock_call;                       /* It is not on the admin listener, and its parameters
                                              * are checked. */
    bool is_open;                            /* It needs no bearer token, for health checks. */
    struct operation operations[OPERATIONS]; /* Unused ones have no `run`. */
};

/* Returns true if the route takes parameters. Otherwise they are ignored. */
bool route_takes_params(const struct route *route);

/* Returns the operation of the method, or NULL if the route does not take it. */
const struct operation *route_operation(const struct route *route, enum method method);

/* Returns the method of that name. HEAD counts as GET and sets `*ret_is_head`. */
enum method method_find(const char *name, bool *ret_is_head);
const char *method_name(enum method method);

/* ---- connection.c: listeners ---- */

/* Opens the listening socket of `listener->address`. `mode` is the mode of a unix socket's file.
 * Returns false, with the reason in `error`, if that fails. */
bool listener_open(struct listener *listener, unsigned mode, char *error, size_t error_size);
/* Removes the file of a unix socket if it is still ours. */
void listener_remove_file(const struct listener *listener);

/* Requests a run of the listener's daemon in this iteration of the loop (server.c). */
void listener_wants_run(struct listener *listener);

/* ---- connection.c: one connection among others ---- */

/* Returns the connection of a handle of libmicrohttpd; NULL if there was no memory for one. */
struct connection *connection_of(struct MHD_Connection *http);

/* Begins the time for the request line, limits.header_timeout, after the accept. */
void connection_is_silent(struct connection *connection);
/* Begins the time for the rest of the request, limits.header_timeout, after its first line. */
void connection_is_arriving(struct connection *connection);
/* Ends all limits until the request is answered, after the whole request has come. */
void connection_has_arrived(struct connection *connection);
/* Begins the time for the response to be taken, WRITE_MS, after it was queued. */
void connection_is_writing(struct connection *connection);
/* Begins the time for the next request line, IDLE_MS, after the response was written. */
void connection_is_idle(struct connection *connection);

/* Returns true if an earlier request was answered and this one came after a pause. Then the
 * connection is not one of a crowd (D9). */
bool connection_pauses(const struct connection *connection);

/* Counts the request among those that keep their connection. `lasts`: it waits or streams;
 * otherwise it asks for a lock, its state or a page once. A request is counted once. Returns false
 * if there are too many (D9). */
bool connection_park(struct connection *connection, bool lasts);
/* Ends the count of a request; does nothing if it was not counted. */
void connection_unpark(struct connection *connection);

/* Returns true if the response of this connection is to be its last one: the admin listener has few
 * free connections. A crowd there asks again faster than it can be told from those that pause,
 * because the listener rests. */
bool connection_makes_room(const struct connection *connection);

/* Sends a problem without details past libmicrohttpd, which has no way to answer a request that has
 * not arrived as a whole. No response is being sent then. The caller closes the connection. */
void connection_says(struct connection *connection, enum problem problem);

/* Closes, on each listener, one connection that reads its response slowly, if there is one. Called
 * if memory for pages is scarce. */
void connection_slow_reader_gives_way(struct api *api);

/* Resumes the suspended connection, and requests a run in which libmicrohttpd continues with it. */
void connection_resume(struct connection *connection);

/* ---- response.c: responses; NULL means out of memory ---- */

/* Adds the headers of every response, and the content type unless it is NULL. */
struct MHD_Response *response_typed(struct MHD_Response *response, const char *content_type);
struct MHD_Response *response_copied(const char *bytes, size_t len, const char *content_type);

/* ---- response.c: sending; each queues a response, and MHD_NO closes the connection ---- */

/* Queues `response`, which it owns from now on. Returns MHD_NO if it is NULL. */
enum MHD_Result response_queue(struct connection *connection, unsigned status,
                               struct MHD_Response *response);
/* Like response_queue(), for a stream, which lasts as long as a hold. */
enum MHD_Result response_stream(struct connection *connection, unsigned status,
                                struct MHD_Response *response);
/* Queues a constant response, which is shared. */
enum MHD_Result response_shared(struct connection *connection, unsigned status,
                                struct MHD_Response *response);
/* Queues `body`, which it owns from now on. */
enum MHD_Result response_json(struct connection *connection, unsigned status, json_t *body);
enum MHD_Result response_text(struct connection *connection, unsigned status, const char *text);
/* Queues the report, and owns its members from now on. */
enum MHD_Result response_problem(struct connection *connection,
                                 const struct problem_report *report);
enum MHD_Result response_refusal(struct connection *connection, const struct refusal *refusal);

/* ---- view.c: holds, votes and labels in JSON ---- */

/* Returns the rest of a hold's validity in ms; 0 or less if it is over. */
int64_t view_valid_for_ms(const struct hold_view *hold, struct instant now);

/* Returns the JSON as one line with its newline, allocated with malloc(). Consumes `json`. Returns
 * NULL if `json` is NULL, or if there is not enough memory. */
char *view_line(json_t *json);
/* Returns the numbers of votes of each kind. */
json_t *view_nodes(const struct tally *tally);
/* Returns the label; null if there is none that can be shown. */
json_t *view_label(struct text label);
/* Returns the fencing number; null for 0. */
json_t *view_fence(uint64_t fence);
/* Returns the name of an agent; null for 0. */
json_t *view_agent(uint32_t agent);
/* Returns {"label",...} of a hold, never its token; NULL if its validity is over. */
json_t *view_hold(const struct api *api, const struct hold_view *hold, struct instant now);
/* Returns true if readers share the keys of this policy (R17): then each lock has a mode. */
bool view_is_shared(const struct api *api, uint16_t policy);

/* Writes `text` as a terminated JSON string without its quotes. `text` must be valid UTF-8, and
 * `size` at least 2 * text.len + 1. */
size_t view_escape(struct text text, char *out, size_t size);

/* Writes the terminated body of a kept answer that grants or renews a hold, with a newline at its
 * end. Returns its length. `fence` is the fencing token in digits; "" for none. `size` must hold
 * the longest key twice, and 640 bytes. */
size_t view_granted(const struct api *api, const struct request *request, const char *token,
                    const char *fence, int64_t valid_ms, char *body, size_t size);

/* ---- streams.c: responses that stay open (D3) ---- */

/* Longest time that a line may wait when the next one comes. After it the caller counts as not
 * reading. A line that libmicrohttpd has taken does not wait, so a caller that stops within a line
 * is stuck one line later. */
enum { STREAM_STUCK_MS = 2000 };

bool streams_start(struct api *api);
void streams_free(struct api *api);

struct stream_terms {
    struct lock_ref lock;
    struct instant valid_until;
    bool bound; /* If the caller leaves, the hold is released. */
};

/* Begins a stream whose first line is `first_line`, with its line end. Owns the buffer, also if it
 * fails. Returns NULL if there is not enough memory. The caller queues the response, and the
 * connection is then in PHASE_STREAMING. */
struct MHD_Response *stream_open(struct connection *connection, struct buffer first_line,
                                 const struct stream_terms *terms);

/* Begins a stream of any kind in `list`, as `beginning` says. Its lines come from `next`. Owns the
 * first line of `beginning`, unless it returns NULL: there is not enough memory then. */
struct MHD_Response *stream_start(struct connection *connection, next_line_fn *next,
                                  struct list *list, const struct stream *beginning);
/* Lets the stream write in its turn: it has something to report. */
void stream_has_news(struct connection *connection);
/* Wakes the streams whose turn it is in this iteration of the loop, and gives up those that are
 * stuck. */
void streams_turn(struct api *api);
/* Acts on a caller that has hung up, or has closed its sending side. `has_left`: it has done so
 * itself, by FIN or reset; otherwise the way to it is broken. */
void stream_caller_gone(struct connection *connection, bool has_left);
/* Ends the stream because the agent ends. An open hold is reported as `lost`. */
void stream_stop(struct connection *connection);
/* Cleans up after the response has ended in any way; does nothing if it was not a stream.
 * `timed_out`: libmicrohttpd has closed it, because the caller did not read for WRITE_STALL_S.
 * Then, or if there was no memory for a line, a bound hold is lost as `stuck`, and not released
 * (D3.6). */
void stream_closed(struct connection *connection, bool timed_out);

/* ---- recent.c: the last minute ---- */

/* Counts one event of the present second. `now_ms` is the loop's clock. */
void recent_count(struct recent *recent, enum recent_kind kind, uint64_t now_ms);

/* Returns the number of events in the present second and the 59 before it. */
uint32_t recent_total(struct recent *recent, enum recent_kind kind, uint64_t now_ms);

/* ---- follow.c: streams of the state of a key (D3.8) ---- */

/* Call after exchange_start(). */
bool follow_start(struct api *api);
void follow_free(struct api *api);
/* Answers with such a stream. MHD_NO closes the connection. */
enum MHD_Result follow_begin(struct connection *connection);

/* ---- answer.c: answers of the core as callers see them ---- */

/* Returns the status of an answer of the core. */
unsigned answer_status(enum answer answer);
/* Returns true if the kept answer hands out no lock, so it is no holder's and may wait (D9). */
bool answer_takes_turn(const struct connection *connection);
/* Writes the kept answer, with the rest of its validity at this time. MHD_NO closes the
 * connection. */
enum MHD_Result answer_write(struct connection *connection);
/* Writes an answer that does not come from the core. */
enum MHD_Result answer_here(struct connection *connection, enum answer answer);

/* ---- answer.c: the exchange with the core ---- */

/* Allocates the room's numbers of requests. Returns false if there is not enough memory. */
bool exchange_start(struct api *api);
void exchange_free(struct api *api);

/* Takes a number for a request of the core; there is one (api->free_count). */
uint32_t exchange_take_number(struct api *api);
/* Gives it back, after the core was told that the request is cancelled. */
void exchange_give_number_back(struct api *api, uint32_t number);

/* Passes the event of an operation to the core, and suspends the connection until the answer.
 * MHD_NO closes the connection. */
enum MHD_Result exchange_submit(struct connection *connection, struct event *event);
/* Acts on a caller that has hung up while the core has its request. */
void exchange_caller_gone(struct connection *connection);
/* Takes a request back from the core and answers it `draining`. */
void exchange_drained(struct connection *connection);
/* Takes a request back from the core, because its caller is gone. */
void exchange_cancel(struct connection *connection);

/* ---- strangers.c: requests that no holder made (D9) ---- */

void strangers_start(struct api *api);
/* Begins an iteration of the loop. */
void strangers_begin(struct api *api);
/* Resumes some of the queued requests, if time is left. Returns true if a queue is not empty. */
bool strangers_next(struct api *api);
enum turn {
    TURN_NOW,   /* The request continues. */
    TURN_LATER, /* It is queued and suspended. The handler is called again in the same phase. */
    TURN_NEVER, /* Too many connections wait (D9). Never returned for a health check. */
};
enum turn strangers_turn_of(struct connection *connection, enum share_kind share);
/* Returns the handler's result for a turn that is later or never; never is answered 429. */
enum MHD_Result strangers_later(struct connection *connection, enum turn turn);
/* Resumes the request at once if it waits in a queue, because its caller is gone. */
void strangers_caller_gone(struct connection *connection);
/* Resumes all requests, because none may be suspended when the daemons stop. */
void strangers_stop(struct api *api);

/* ---- rendering.c: pages that take long to render ---- */

/* These pages are lists, the status page and metrics. Together they have a quarter of the agent's
 * time, on all listeners. While that is used up, a page is shared if it is younger than SHARED_MS.
 * Otherwise the connection waits. */

/* Renders the page of a request, and returns a response of rendering_response(); NULL if there is
 * not enough memory. */
typedef struct MHD_Response *rendering_fn(struct connection *connection);

/* Starts the timer. Called when the API is certain to start. */
void rendering_start(struct api *api);
void rendering_free(struct api *api);
/* Resumes every connection that waits for a page, because the API stops. */
void rendering_stop(struct api *api);

/* Answers with the page that `what` names: its route and all parameters that it depends on. The
 * connection waits, suspended, if there is no time for it now. If it `may_be_old`, a page younger
 * than SHARED_MS is shared even if there is time for a new one. MHD_NO closes the connection. */
enum MHD_Result rendering_answer(struct connection *connection, const char *what, bool may_be_old,
                                 rendering_fn *render);

/* Returns a response with the bytes of `page`, which it owns from now on. The bytes are counted
 * until the last reader has them. Returns NULL if there is not enough memory; the page is freed
 * then. */
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
/* Also for GET ?watch. */
enum MHD_Result locks_read(struct connection *connection);
enum MHD_Result locks_list(struct connection *connection);

/* ---- locks.c: a stream of the events of a hold ---- */

/* Answers with a stream that begins with the present state of the hold. Only reads the core. MHD_NO
 * closes the connection. */
enum MHD_Result watch_begin(struct connection *connection);

/* ---- status.c: the status page ---- */

/* Renders the status page. MHD_NO closes the connection. */
enum MHD_Result status_page(struct connection *connection);

/* ---- picks.c: the first rows of a table ---- */

enum { ROWS_MAX = LIST_LIMIT_MAX }; /* More would hold up the loop. */

/* A row of a table before it is written. */
struct pick {
    int64_t rank;    /* Rows are sorted by it, then by `cursor`. */
    uint32_t cursor; /* The cursor of core_next_hold() or core_next_wait() that returns it. */
};

/* The first rows of a table, at most `room` (1 to ROWS_MAX), which the owner sets. */
struct picks {
    uint32_t count, room;
    uint32_t matching;          /* Rows from which they were picked; the owner counts them. */
    struct pick list[ROWS_MAX]; /* A heap until picks_sort(). */
};

/* Keeps the pick, in place of the last one if there is no room, unless it comes behind all. */
void picks_take(struct picks *picks, struct pick pick);

/* Sorts the picks, after the last picks_take(). */
void picks_sort(struct picks *picks);

/* ---- status.c: text in HTML ---- */

/* Adds a time span in its two largest units: `850 ms`, `12 s`, `3 min 20 s`, `4 d 2 h`. A negative
 * span counts as 0. */
void html_add_span(struct buffer *page, int64_t ms);

/* Adds a number with a comma between thousands. */
void html_add_count(struct buffer *page, uint64_t number);

/* ---- routes.c ---- */

extern const struct route routes[];
extern const size_t route_count;

/* Returns the route of a path without query, and the raw text for `{key}` in `*ret_key`; NULL if
 * there is none. */
const struct route *route_find(struct text path, struct text *ret_key);

/* ---- parse.c: header fields ---- */

/* The header fields that the API uses, in libmicrohttpd's memory; NULL: absent. */
struct headers {
    const char *host, *origin, *authorization, *content_type, *content_length, *transfer_encoding,
        *lock_token, *idempotency, *traceparent;
    size_t cookie_bytes;
    bool is_of_other_page, host_doubled, authorization_doubled, lock_token_doubled,
        idempotency_doubled;
    struct accept accept;
};

/* ---- access.c: which callers may talk to the API (D9) ---- */

/* Reads api.token_file. Returns false, with the reason in `error`; then no caller is let in. */
bool access_load_secret(struct api *api, char *error, size_t error_size);
/* Returns true if `host` is a name of this machine's loopback or one of api.allowed_hosts, with or
 * without a port. */
bool access_knows_host(const struct config *config, const char *host);
/* Returns true, with the reason in `refusal`, if every request of the caller is refused. `open`:
 * the path needs no bearer token. */
bool access_refuses(struct connection *connection, const struct headers *headers,
                    const char *version, bool open, struct refusal *refusal);

/* ---- framing.c: the end of header and body ---- */

/* Returns the fault that leaves the end of the request in doubt, as a sentence; NULL: none.
 * `method` and `version` are those of the handler's first call. */
const char *framing_fault(const struct connection *connection, const char *method,
                          const char *version);
/* Returns such a fault of the request target, before libmicrohttpd has changed it. */
const char *framing_fault_of_target(const char *target);

/* ---- framing.c: the bytes that libmicrohttpd reads ---- */

/* Watch the bytes that libmicrohttpd reads, from the accept until the close. If there is no memory
 * for it, chunked requests are refused. */
void intake_watch(struct connection *connection);
void intake_forget(const struct connection *connection);

/* Begins a chunked body at `body`, in libmicrohttpd's buffer. Returns false if it is not known how
 * many of its bytes have come. */
bool intake_begin_chunks(struct connection *connection, const char *body);

/* Returns the fault that leaves the end of the chunked body in doubt, as a sentence; NULL: none so
 * far, or the body is not chunked. */
const char *intake_fault(const struct connection *connection);
/* Returns such a fault after libmicrohttpd has found the end and passed on `data` bytes. */
const char *intake_fault_at_end(const struct connection *connection, uint64_t data);

/* Ends the request: libmicrohttpd moves the bytes that it has read beyond it. */
void intake_end(struct connection *connection);

/* ---- parse.c: the checks of a request ---- */

/* Reads the raw target: its route, key and query. libmicrohttpd decodes the rest of it in place. */
void parse_target(struct connection *connection, const char *target);
/* Checks the whole header. Returns false if the request is to be refused at once, without reading
 * its body: its end is in doubt, or the announced body is too large. */
bool parse_header(struct connection *connection, const char *method, const char *version);
/* Takes a piece of the body. Returns false if the body is larger than limits.body allows. */
bool parse_piece(struct connection *connection, const char *bytes, size_t len);
/* Checks the end of the request. A chunked body whose end is in doubt is refused for that first. */
void parse_end(struct connection *connection);
/* Reads the parameters of the whole body, and checks them together. */
void parse_whole(struct connection *connection);

/* ---- request.c: the life of a request ---- */

/* Takes the request line and its raw target. */
void *request_line_came(void *arg, const char *target, struct MHD_Connection *http);
/* Takes the header, a piece of the body, or the end of the request; or continues a resumed
 * connection. */
enum MHD_Result request_handler(void *arg, struct MHD_Connection *http, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_len, void **context);
/* Returns true if the connection is dead and the request can be dropped: its answer hands out no
 * lock, or the core does not have it yet and it is not a release. */
bool request_is_for_nobody(const struct connection *connection);
/* Ends the request: the response is written, or never will be. */
void request_completed(void *arg, struct MHD_Connection *http, void **context,
                       enum MHD_RequestTerminationCode code);

/* ---- request.c: requests that are kept ---- */

void request_pool_start(struct api *api);
/* Frees the pool. No connection may have a request. */
void request_pool_free(struct api *api);

#endif
