/* The life of a request, from its first line to the last byte of its response.
 *
 *   IDLE --request_line_came--> HEADER --parse_header--> BODY --its end--> ARRIVED
 *                                 |                 |
 *                                 |                 '--body too large--> closed (413)
 *                                 '--announced body too large--> WRITING
 *
 *   ARRIVED --check--> CHECKED --run--> WRITING   pages, lists, refusals
 *
 *   CHECKED --exchange_submit--> WORKING --api_answer--> ANSWERED --answer_write--> WRITING
 *   CHECKED --the core answers at once-----------------> ANSWERED
 *                                WORKING --exchange_caller_gone, EVENT_CANCEL--> GONE, closed
 *
 *   CHECKED, ANSWERED --watch_begin, answer_write--> STREAMING   watched and bound holds: streams.c
 *
 *   every phase --request_completed--> IDLE
 *
 * libmicrohttpd calls the handler with the header, with every piece of the body, and at the end of
 * the request. Then it calls it in every run until a response is queued or the connection is
 * suspended. ARRIVED waits for one such further call. By then everything that arrived has been
 * read, so a caller that has closed its sending side still gets its response. Only the last phases
 * queue responses: after an earlier one libmicrohttpd would close the connection.
 *
 * Strangers wait for their turn (strangers.c) before a large body is parsed, before their request
 * is run or refused, and before the answer to a GET, or the refusal of a POST, is written. */
#include "api/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/base/text.h"
#include "agent/core/core_assert.h"
#include "agent/log.h"

/* ---- requests that are kept ---- */

/* The pool of requests. */

void request_pool_start(struct api *api)
{
    list_init(&api->spare_requests);
}

void request_pool_free(struct api *api)
{
    struct link *spare;
    while ((spare = list_first(&api->spare_requests)) != NULL) {
        list_remove(spare);
        free(CONTAINER_OF(spare, struct request, spare));
    }
}

/* Begins a request of the connection. All of it is zero, but `kept`. Returns false if there is not
 * enough memory. */
MUST_CHECK static bool request_begin(struct connection *connection)
{
    struct api *api = connection->api;
    CORE_ASSERT(connection->request == NULL);
    struct link *spare = list_first(&api->spare_requests);
    struct request *request =
        spare != NULL ? CONTAINER_OF(spare, struct request, spare) : malloc(sizeof(*request));
    if (request == NULL)
        return false;
    if (spare != NULL)
        list_remove(spare);
    memset(request, 0, offsetof(struct request, kept));
    connection->request = request;
    return true;
}

/* ---- the life of a request ---- */

/* ---- arrival --------------------------------------------------------------------------------- */

void *request_line_came(void *arg, const char *target, struct MHD_Connection *http)
{
    struct connection *connection = connection_of(http);
    (void)arg;
    if (connection == NULL)
        return NULL;
    CORE_ASSERT(connection->phase == PHASE_IDLE);
    if (!request_begin(connection))
        return NULL;
    connection->request->came_at = connection->api->backend.now(connection->api->backend.arg);
    connection->phase = PHASE_HEADER;
    connection_is_arriving(connection);
    parse_target(connection, target);
    return connection;
}

static enum MHD_Result header_came(struct connection *connection, const char *method,
                                   const char *version)
{
    connection->phase = PHASE_BODY;
    if (parse_header(connection, method, version))
        return MHD_YES;
    /* Answer before the rest of the request has come, and close the connection. */
    connection_has_arrived(connection);
    connection->request->closes = true;
    return response_refusal(connection, &connection->request->refusal);
}

/* Takes all bytes of a piece. MHD_NO closes the connection. */
static enum MHD_Result piece_came(struct connection *connection, const char *bytes, size_t *len)
{
    bool fits = parse_piece(connection, bytes, *len);
    *len = 0;
    if (!fits)
        connection_says(connection, PROBLEM_BODY_TOO_LARGE);
    return fits ? MHD_YES : MHD_NO;
}

/* Returns true if the request names a hold that this agent knows. */
static bool is_a_holders(const struct connection *connection)
{
    const struct request *request = connection->request;
    const struct core *core = connection->api->backend.core;
    const struct text key = {request->key, request->key_len};
    if (request->method == METHOD_DELETE && request->idempotency != NULL)
        return core_knows_secret(core, key, text_of(request->idempotency));
    bool has_token = request->method == METHOD_PUT || request->method == METHOD_DELETE;
    return has_token && core_knows(core, key, &request->params.token);
}

static enum MHD_Result run(struct connection *connection)
{
    struct request *request = connection->request;
    if (request->refusal.problem != PROBLEM_NONE) /* It takes as long to write as any answer. */
        return strangers_turn_of(connection, SHARE_STRANGERS) == TURN_LATER
                   ? MHD_YES
                   : response_refusal(connection, &request->refusal);
    const struct operation *operation = request->operation;
    request->is_a_holders = operation->uses_core && is_a_holders(connection);
    enum turn turn = !operation->uses_core || request->is_a_holders
                         ? TURN_NOW
                         : strangers_turn_of(connection, SHARE_STRANGERS);
    return turn == TURN_NOW ? operation->run(connection) : strangers_later(connection, turn);
}

static enum MHD_Result check(struct connection *connection)
{
    enum { SMALL_BODY = 512 }; /* Nested arrays take the longest to parse. */
    struct request *request = connection->request;
    enum turn turn =
        request->body_len > SMALL_BODY ? strangers_turn_of(connection, SHARE_STRANGERS) : TURN_NOW;
    if (turn != TURN_NOW)
        return strangers_later(connection, turn);
    parse_end(connection);
    parse_whole(connection);
    connection->phase = PHASE_CHECKED;
    return run(connection);
}

bool request_is_for_nobody(const struct connection *connection)
{
    enum phase phase = connection->phase;
    bool is_before_core = phase == PHASE_ARRIVED || phase == PHASE_CHECKED,
         is_unread = phase == PHASE_ANSWERED && answer_takes_turn(connection);
    return connection->peer_dead &&
           (is_unread || (is_before_core && connection->request->method != METHOD_DELETE));
}

enum MHD_Result request_handler(void *arg, struct MHD_Connection *http, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_len, void **context)
{
    struct connection *connection = *context;
    (void)arg, (void)http, (void)url;
    if (connection == NULL || request_is_for_nobody(connection))
        return MHD_NO;
    switch (connection->phase) {
    case PHASE_HEADER:
        return header_came(connection, method, version);
    case PHASE_BODY:
        if (*upload_len == 0) {
            connection_has_arrived(connection);
            connection->phase = PHASE_ARRIVED;
            return MHD_YES;
        }
        return piece_came(connection, upload, upload_len);
    case PHASE_ARRIVED:
        return check(connection);
    case PHASE_CHECKED:
        return run(connection);
    case PHASE_ANSWERED:
        return answer_takes_turn(connection) &&
                       strangers_turn_of(connection, SHARE_STRANGERS) == TURN_LATER
                   ? MHD_YES
                   : answer_write(connection);
    case PHASE_IDLE:
    case PHASE_WORKING:
    case PHASE_WRITING:
    case PHASE_STREAMING:
    case PHASE_GONE:
        break;
    }
    return MHD_NO;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Gives back a grant that was not delivered. A delivered one is marked in the journal.
 *
 * A grant was delivered if the kernel took the last byte. If the caller had closed its socket
 * before, its reset has come back by now, and the kernel reports EPIPE: the caller's end of the
 * stream came before the reset. (A reset alone may come from a caller that has read the whole
 * response and closed at once: it keeps its lock.) */
static void grant_is_written(const struct connection *connection,
                             enum MHD_RequestTerminationCode code)
{
    struct api *api = connection->api;
    struct event event = {.kind = EVENT_UNDELIVERED, .undelivered.lock = connection->request->lock};
    int error = 0;
    socklen_t len = sizeof(error);
    if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK &&
        (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != EPIPE))
        event =
            (struct event){.kind = EVENT_DELIVERED, .delivered.lock = connection->request->lock};
    if (event.kind == EVENT_UNDELIVERED || api->config->journal_file[0] != '\0')
        api->backend.submit(api->backend.arg, &event);
}

static void count_request(const struct connection *connection, unsigned status)
{
    const char *method =
        connection->request->is_head ? "HEAD" : method_name(connection->request->method);
    struct api *api = connection->api;
    const struct request *request = connection->request;
    const char *route = request->route == NULL ? "other" : request->route->path;
    bool streamed = connection->phase == PHASE_STREAMING;
    int64_t took_us = instant_us_between(
        request->came_at, streamed ? request->answered_at : api->backend.now(api->backend.arg));
    metrics_http(api->backend.metrics, route, method, status, took_us);
    log_event(LOG_DEBUG, "request", LOG_TEXT_FIELD("method", method),
              LOG_TEXT_FIELD("route", route),
              LOG_BYTES_FIELD("key", ((struct text){request->key, request->key_len})),
              LOG_INT_FIELD("status", status), LOG_INT_FIELD("took_us", took_us),
              LOG_TEXT_FIELD("trace_id", request->trace_id));
}

void request_completed(void *arg, struct MHD_Connection *http, void **context,
                       enum MHD_RequestTerminationCode code)
{
    enum { CLIENT_CLOSED_REQUEST = 499 }; /* The status by which nginx logs such requests. */
    struct connection *connection = *context;
    (void)arg, (void)http;
    if (connection == NULL)
        return;
    struct request *request = connection->request;
    *context = NULL;
    if (connection->phase == PHASE_WORKING)
        exchange_cancel(connection);
    if (request->grants)
        grant_is_written(connection, code);
    stream_closed(connection, code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED);
    connection_unpark(connection);
    count_request(connection, request->status == 0 ? CLIENT_CLOSED_REQUEST : request->status);
    free(request->body);
    request->body = NULL;
    intake_end(connection);
    connection->phase = PHASE_IDLE;
    connection_is_idle(connection);
    if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK && connection_makes_room(connection))
        shutdown(connection->fd, SHUT_RD); /* libmicrohttpd closes it: pages are shared. */
    list_append(&connection->api->spare_requests, &request->spare);
    connection->request = NULL;
}
