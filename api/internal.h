/* What the room's modules share, and nothing that they do: listeners, connections, the request that
 * a connection carries, and the room's limits. */
#ifndef LOCKAGENT_API_INTERNAL_H
#define LOCKAGENT_API_INTERNAL_H

#include <microhttpd.h>
#include <time.h>

#include "agent/base/buffer.h"
#include "agent/core/list.h"
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

struct route;     /* of route.h */
struct operation; /* of route.h */

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
    bool is_strangers;             /* its time is that of strangers (strangers.h) */
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
    const char *read_end; /* behind what libmicrohttpd read last; NULL: it was moved (intake.c) */
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
    int gone_fd;          /* epoll: sees callers hang up, also suspended ones (hangup.c) */

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

#endif
