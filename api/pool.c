/* The pool of connections, from accept to close; what has been closed is kept for the next one. */
#include "api/pool.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "api/connection.h"
#include "api/exchange.h"
#include "api/hangup.h"
#include "api/intake.h"
#include "api/listener.h"
#include "api/request.h"
#include "api/request_pool.h"
#include "api/streams.h"

static struct connection *take_spare(struct api *api)
{
    struct link *spare = list_first(&api->spare);
    if (spare == NULL)
        return calloc(1, sizeof(struct connection));
    list_remove(spare);
    return CONTAINER_OF(spare, struct connection, all);
}

static void connection_opened(struct listener *listener, struct MHD_Connection *http,
                              void **context)
{
    struct api *api = listener->api;
    struct connection *connection = take_spare(api);
    if (connection == NULL)
        return; /* without a context the request line is refused */
    *context = connection;
    connection->api = api;
    connection->listener = listener;
    connection->http = http;
    connection->fd = MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    connection->phase = PHASE_IDLE;
    connection->peer_closed = connection->peer_dead = connection->gives_way = false;
    connection->answered_ms = 0;
    list_move(&api->open, &connection->all);
    listener->connections++;
    connection_is_silent(connection);
    hangup_watch(connection);
    intake_watch(connection);
    api->connections++;
    metrics_http_connections(api->backend.metrics, (int64_t)api->connections);
}

static void connection_closed(struct listener *listener, struct connection *connection)
{
    struct api *api = listener->api;
    void *context = connection;
    /* libmicrohttpd 0.9.75 closes some whose memory is exhausted without that notification. */
    if (connection->phase != PHASE_IDLE)
        request_completed(listener, connection->http, &context, MHD_REQUEST_TERMINATED_WITH_ERROR);
    CORE_ASSERT(connection->phase == PHASE_IDLE);
    intake_forget(connection);
    list_remove(&connection->timed);
    list_remove(&connection->ended);
    list_move(&api->spare, &connection->all);
    listener->connections--;
    listener->giving_way -= connection->gives_way;
    api->connections--;
    metrics_http_connections(api->backend.metrics, (int64_t)api->connections);
    /* At its limit, libmicrohttpd accepts the next one only in its next run. */
    listener_wants_run(listener);
}

void pool_notified(void *arg, struct MHD_Connection *http, void **context,
                   enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_opened(arg, http, context);
    else if (*context != NULL)
        connection_closed(arg, *context);
}

void pool_stop(struct api *api)
{
    for (struct link *at = api->open.head.next; at != &api->open.head; at = at->next) {
        struct connection *connection = CONTAINER_OF(at, struct connection, all);
        if (connection->phase == PHASE_WORKING)
            exchange_drained(connection);
        else if (connection->phase == PHASE_STREAMING)
            stream_stop(connection);
        else if (connection->phase == PHASE_IDLE)
            list_move(&api->half_closed, &connection->ended);
    }
}

bool pool_start(struct api *api)
{
    list_init(&api->open);
    list_init(&api->spare);
    request_pool_start(api);
    return hangup_start(api);
}

void pool_free(struct api *api)
{
    CORE_ASSERT(list_is_empty(&api->open));
    struct link *spare;
    while ((spare = list_first(&api->spare)) != NULL) {
        list_remove(spare);
        free(CONTAINER_OF(spare, struct connection, all));
    }
    request_pool_free(api);
    hangup_free(api);
}
