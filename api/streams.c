/* Streams: responses that stay open and report, line by line, the events of a hold.
 * Newline-delimited JSON, chunked.
 *
 *   watched   GET ?watch             first line: the hold    the caller may leave at any time
 *   followed  GET ?watch=key         follow.c
 *   bound     POST bind=connection   first line: the grant   if the caller leaves, the hold is
 *                                                            released
 *
 *   first line --> OPEN --renewal--> `renewed` --> OPEN
 *                  OPEN --loss, release--> `lost` or `released` --> end of the stream
 *                  OPEN --caller gone--> bound: EVENT_UNDELIVERED, which ends it with `released`;
 *                                        watched: end of the stream
 *                  OPEN --does not read--> bound: EVENT_STUCK, which ends it with `lost`;
 *                                          watched: closed
 *
 * An event wakes some streams in each iteration of the loop, and gives up some of those that are
 * not read, so that a crowd of them delays no holder.
 *
 * A stream keeps no lines. It remembers that the hold was renewed, and how it ended. It writes each
 * line when the socket has room for it, with the rest of the validity at that time. So nothing
 * piles up, and a caller that reads slowly misses renewals that a newer one or the end follows.
 * While there is nothing to report, the connection is suspended. Our own epoll instance still
 * reports that the caller leaves (server.c). */
#include "api/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/log.h"

enum {
    SEND_BYTES = 8192,  /* The kernel's buffer. It is small, so that a caller that does not read is
                         * noticed soon. */
    BLOCK_BYTES = 2048, /* libmicrohttpd's buffer. It holds every line but a grant with the longest
                         * key. */
    WOKEN_IN_TURN = 64, /* Streams that are woken in one iteration of the loop. */
};

/* ---- the table: streams by the slot of their lock -------------------------------------------- */

bool streams_start(struct api *api)
{
    list_init(&api->waking);
    api->stream_buckets = 1;
    while (api->stream_buckets < api->config->connections_max)
        api->stream_buckets *= 2;
    api->streams = calloc(api->stream_buckets, sizeof(*api->streams));
    for (uint32_t i = 0; api->streams != NULL && i < api->stream_buckets; i++)
        list_init(&api->streams[i]);
    return api->streams != NULL;
}

void streams_free(struct api *api)
{
    free(api->streams);
}

static struct list *streams_of(struct api *api, struct lock_ref lock)
{
    return &api->streams[lock.slot & (api->stream_buckets - 1)];
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void event_line(struct stream *stream, const char *event, const char *reason,
                       int64_t valid_ms)
{
    buffer_printf(&stream->line, "{\"event\":\"%s\"", event);
    if (reason != NULL)
        buffer_printf(&stream->line, ",\"reason\":\"%s\"", reason);
    buffer_printf(&stream->line,
                  ",\"valid_for_ms\":%" PRId64 ",\"valid_until_boottime_ms\":%" PRId64 "}\n",
                  valid_ms, stream->valid_until.us / 1000);
}

/* Writes the next line of a hold's stream. */
static bool next_line(struct stream *stream)
{
    const struct connection *connection = CONTAINER_OF(stream, struct connection, stream);
    const struct api *api = connection->api;
    int64_t valid_ms =
        instant_us_between(api->backend.now(api->backend.arg), stream->valid_until) / 1000;
    buffer_free(&stream->line);
    stream->line = (struct buffer){0};
    stream->written = 0;
    if (stream->end == STREAM_LOST || stream->end == STREAM_RELEASED) {
        bool lost = stream->end == STREAM_LOST;
        event_line(stream, lost ? "lost" : "released", lost ? reason_name(stream->reason) : NULL,
                   valid_ms > 0 ? valid_ms : 0);
        stream->end = STREAM_OVER;
    } else if (stream->end == STREAM_OPEN && stream->renewed) {
        stream->renewed = false;
        if (valid_ms > 0) /* Otherwise only the loss is reported (R14). */
            event_line(stream, "renewed", NULL, valid_ms);
    }
    return stream->line.len > 0;
}

static ssize_t read_stream(void *arg, uint64_t position, char *bytes, size_t size)
{
    struct connection *connection = arg;
    struct stream *stream = &connection->stream;
    (void)position;
    if (stream->written == stream->line.len && !stream->line.failed && !stream->next_line(stream) &&
        stream->end != STREAM_OVER) {
        stream->parked = true;
        MHD_suspend_connection(connection->http);
        return 0;
    }
    if (stream->line.failed || stream->written == stream->line.len)
        return MHD_CONTENT_READER_END_OF_STREAM;
    size_t left = stream->line.len - stream->written, count = left < size ? left : size;
    memcpy(bytes, stream->line.bytes + stream->written, count);
    stream->written += count;
    return (ssize_t)count;
}

/* Lets the stream write, if it waits for something to report. */
static void wake(struct connection *connection)
{
    if (!connection->stream.parked)
        return;
    connection->stream.parked = false;
    connection_resume(connection);
}

void stream_has_news(struct connection *connection)
{
    struct link *waking = &connection->stream.waking;
    if (waking->next == NULL) /* Otherwise it keeps its place. */
        list_append(&connection->api->waking, waking);
}

/* Reports that the caller does not read. Closes the stream, unless its hold is bound to it. */
static void stream_give_up(struct connection *connection)
{
    struct stream *stream = &connection->stream;
    stream->stuck = false;
    metrics_stream_dropped(connection->api->backend.metrics);
    log_event(LOG_WARN, "stream is not read",
              LOG_TEXT_FIELD("kind", stream->bound              ? "bound"
                                     : stream->followed != NULL ? "followed"
                                                                : "watched"),
              LOG_BYTES_FIELD(
                  "key", ((struct text){connection->request->key, connection->request->key_len})));
    if (stream->bound)
        return;
    stream->end = STREAM_OVER;
    shutdown(connection->fd, SHUT_RDWR);
}

void streams_turn(struct api *api)
{
    struct link *waking;
    for (unsigned i = 0; i < WOKEN_IN_TURN && (waking = list_first(&api->waking)) != NULL; i++) {
        struct connection *connection = CONTAINER_OF(waking, struct connection, stream.waking);
        list_remove(waking);
        if (connection->stream.stuck)
            stream_give_up(connection);
        wake(connection);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct MHD_Response *stream_start(struct connection *connection, next_line_fn *next,
                                  struct list *list, const struct stream *beginning)
{
    struct stream *stream = &connection->stream;
    struct api *api = connection->api;
    const int bytes = SEND_BYTES;
    struct MHD_Response *response =
        response_typed(MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream,
                                                         connection, NULL),
                       "application/x-ndjson");
    if (response == NULL)
        return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    *stream = *beginning;
    stream->next_line = next;
    stream->end = connection->peer_closed ? STREAM_OVER : STREAM_OPEN;
    stream->waits_since = api->backend.now(api->backend.arg);
    list_append(list, &stream->of_lock);
    api->stream_count++;
    metrics_streams(api->backend.metrics, (int64_t)api->stream_count);
    return response;
}

struct MHD_Response *stream_open(struct connection *connection, struct buffer first_line,
                                 const struct stream_terms *terms)
{
    struct MHD_Response *response =
        first_line.failed
            ? NULL
            : stream_start(connection, next_line, streams_of(connection->api, terms->lock),
                           &(struct stream){.lock = terms->lock,
                                            .bound = terms->bound,
                                            .valid_until = terms->valid_until,
                                            .line = first_line});
    if (response == NULL)
        buffer_free(&first_line);
    return response;
}

/* Gives the hold of a bound stream back, if its caller has closed the connection. Otherwise the
 * caller may be at work until the validity ends, so the hold is lost and runs out (D3.6). */
static void end_bound_hold(struct connection *connection, bool has_left)
{
    struct stream *stream = &connection->stream;
    struct api *api = connection->api;
    struct event event = {.kind = EVENT_STUCK, .stuck.lock = stream->lock};
    if (has_left)
        event = (struct event){.kind = EVENT_UNDELIVERED, .undelivered.lock = stream->lock};
    if (stream->bound && stream->end == STREAM_OPEN)
        api->backend.submit(api->backend.arg, &event);
}

void stream_caller_gone(struct connection *connection, bool has_left)
{
    struct stream *stream = &connection->stream;
    end_bound_hold(connection, has_left);
    if (stream->end == STREAM_OPEN)
        stream->end = STREAM_OVER;
    wake(connection);
}

void stream_stop(struct connection *connection)
{
    struct stream *stream = &connection->stream;
    if (stream->end == STREAM_OPEN) {
        stream->end = STREAM_LOST;
        stream->reason = REASON_DRAINED;
    }
    wake(connection);
}

void stream_closed(struct connection *connection, bool timed_out)
{
    struct stream *stream = &connection->stream;
    struct api *api = connection->api;
    if (stream->of_lock.next == NULL)
        return;
    list_remove(&stream->of_lock);
    list_remove(&stream->waking);
    api->stream_count--;
    metrics_streams(api->backend.metrics, (int64_t)api->stream_count);
    bool is_stuck = timed_out && stream->bound && stream->end == STREAM_OPEN,
         has_left = !timed_out && !stream->line.failed;
    buffer_free(&stream->line);
    stream->line = (struct buffer){0};
    if (stream->closed != NULL)
        stream->closed(api, stream->followed);
    if (is_stuck)
        stream_give_up(connection);
    end_bound_hold(connection, has_left);
}

/* ---- events of the hold ---------------------------------------------------------------------- */

/* Ends a hold or a stream whose caller has not taken a line since the renewal before. `*said`:
 * another caller of the same hold was reported already (R11). */
static void is_stuck(struct connection *connection, bool *said)
{
    struct stream *stream = &connection->stream;
    struct api *api = connection->api;
    stream->stuck = true;
    /* The loss comes back as a trace. If the caller reads again, it gets the report. */
    if (stream->bound) {
        struct event event = {.kind = EVENT_STUCK, .stuck.lock = stream->lock};
        if (!*said)
            api->backend.submit(api->backend.arg, &event);
        *said = true;
    }
}

static void told(struct connection *connection, const struct effect_trace *trace,
                 struct instant now, bool *said_stuck)
{
    struct stream *stream = &connection->stream;
    if (stream->end != STREAM_OPEN)
        return;
    if (trace->kind == TRACE_RENEWED) {
        bool waits = stream->renewed || stream->written < stream->line.len;
        stream->valid_until = trace->valid_until;
        if (!waits)
            stream->waits_since = now;
        if (instant_us_between(stream->waits_since, now) >= (int64_t)STREAM_STUCK_MS * 1000)
            is_stuck(connection, said_stuck);
        else
            stream->renewed = true;
    } else if (trace->kind == TRACE_LOST) {
        stream->end = STREAM_LOST;
        stream->reason = trace->reason;
        stream->valid_until = reason_is_denial(trace->reason) ? now : trace->valid_until;
    } else {
        stream->end = STREAM_RELEASED;
        stream->valid_until = now;
    }
    stream_has_news(connection);
}

void api_notify(struct api *api, const struct effect_trace *trace)
{
    if (trace->kind != TRACE_RENEWED && trace->kind != TRACE_LOST && trace->kind != TRACE_RELEASED)
        return;
    if (trace->kind == TRACE_LOST && !reason_is_elsewhere(trace->reason))
        recent_count(&api->recent, RECENT_LOST, uv_now(api->loop));
    if (api->stream_count == 0)
        return;
    struct instant now = api->backend.now(api->backend.arg);
    struct list *bucket = streams_of(api, trace->lock);
    struct link *next;
    bool said_stuck = false;
    for (struct link *at = bucket->head.next; at != &bucket->head; at = next) {
        next = at->next;
        struct connection *connection = CONTAINER_OF(at, struct connection, stream.of_lock);
        const struct lock_ref *lock = &connection->stream.lock;
        if (lock->slot == trace->lock.slot && lock->generation == trace->lock.generation)
            told(connection, trace, now, &said_stuck);
    }
}
