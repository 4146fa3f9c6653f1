/* Connections: their pool, their deadlines, and who has hung up.
 *
 * libmicrohttpd does not look at a connection while it is suspended, so every connection is also registered, once, in
 * an epoll instance of our own (edge-triggered: nothing has to be done per request). Its events are
 *
 *   the caller has closed its sending side   no more requests will come; a wait is given up
 *   the connection is dead (reset)           nobody will read an answer
 *
 * Timers, both run by one sweep, on the loop's clock:
 *
 *   arriving   from the accept, or the request line, until the whole request is here: limits.header_timeout in total,
 *              whatever trickles in (libmicrohttpd's own timeout starts anew with every byte)
 *   idle       between two requests of a kept-alive connection: IDLE_MS */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/room.h"
#include "api/streams.h"

#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

enum { EVENTS = 64 };

/* ---- lists ------------------------------------------------------------------------------------------------------ */

void list_start(struct list_link *head)
{
    head->next = head->previous = head;
}

void list_drop(struct list_link *link)
{
    if (link->next == NULL)
        return;
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->next = link->previous = NULL;
}

void list_add(struct list_link *head, struct list_link *link)
{
    list_drop(link);
    link->previous = head->previous;
    link->next = head;
    head->previous->next = link;
    head->previous = link;
}

static bool list_is_empty(const struct list_link *head)
{
    return head->next == head;
}

/* ---- deadlines -------------------------------------------------------------------------------------------------- */

static void set_deadline(struct connection *connection, struct list_link *list, uint64_t ms)
{
    struct api *api = connection->api;
    connection->deadline_ms = uv_now(api->loop) + ms;
    list_add(list, &connection->timed); /* all of a list have the same time, so it stays in order */
    const uv_handle_t *sweep = (const uv_handle_t *)&api->sweep;
    bool sooner = !uv_is_active(sweep) || uv_timer_get_due_in(&api->sweep) > ms;
    if (sooner && !uv_is_closing(sweep))
        uv_timer_start(&api->sweep, connections_sweep, ms, 0);
}

void connection_is_arriving(struct connection *connection)
{
    set_deadline(connection, &connection->api->arriving, connection->api->config->header_timeout_ms);
}

void connection_has_arrived(struct connection *connection)
{
    list_drop(&connection->timed);
}

void connection_is_idle(struct connection *connection)
{
    if (connection->api->stopping || connection->peer_closed)
        list_add(&connection->api->half_closed, &connection->ended);
    else
        set_deadline(connection, &connection->api->idle, IDLE_MS);
}

/* Nothing of a reply is on its way while a request arrives, so the bytes can go past libmicrohttpd; the shutdown makes
 * it close. */
static void say_timeout(struct connection *connection)
{
    struct problem_report report = problem_report(PROBLEM_REQUEST_TIMEOUT);
    char *body = problem_json(&report), bytes[1024];
    if (body == NULL)
        return;
    int len =
        snprintf(bytes, sizeof(bytes),
                 "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
                 "Connection: close\r\n\r\n%s",
                 strlen(body), body);
    free(body);
    if (send(connection->fd, bytes, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) == len && connection->phase != PHASE_IDLE)
        connection->request.status = report.status;
}

static uint64_t sweep_list(struct list_link *list, uint64_t now_ms, bool arriving)
{
    while (!list_is_empty(list)) {
        struct connection *connection = CONTAINER_OF(list->next, struct connection, timed);
        if (connection->deadline_ms > now_ms)
            return connection->deadline_ms;
        list_drop(&connection->timed);
        if (arriving)
            say_timeout(connection);
        shutdown(connection->fd, SHUT_RDWR);
    }
    return UINT64_MAX;
}

void connections_sweep(uv_timer_t *timer)
{
    struct api *api = timer->data;
    uint64_t now_ms = uv_now(api->loop);
    uint64_t next = sweep_list(&api->arriving, now_ms, true), next_idle = sweep_list(&api->idle, now_ms, false);
    if (next_idle < next)
        next = next_idle;
    if (next != UINT64_MAX)
        uv_timer_start(timer, connections_sweep, next - now_ms, 0);
}

/* ---- hanging up ------------------------------------------------------------------------------------------------- */

static void hung_up(struct connection *connection, uint32_t events)
{
    connection->peer_closed = true;
    connection->peer_dead |= (events & (EPOLLHUP | EPOLLERR)) != 0;
    if (connection->phase == PHASE_WORKING)
        request_caller_gone(connection);
    else if (connection->phase == PHASE_STREAMING)
        stream_caller_gone(connection);
    else if (connection->phase <= PHASE_BODY)
        list_add(&connection->api->half_closed, &connection->ended); /* bytes that came before may still be unread */
}

void connections_look(uv_poll_t *poll, int status, int uv_events)
{
    struct api *api = poll->data;
    struct epoll_event events[EVENTS];
    (void)status, (void)uv_events;
    int count = epoll_wait(api->gone_fd, events, EVENTS, 0);
    for (int i = 0; i < count; i++)
        hung_up(events[i].data.ptr, events[i].events);
}

/* libmicrohttpd may have read the end of the stream together with the last request and then waits for an event that
 * never comes: our own end of the stream makes one. */
void connections_close_ended(struct api *api)
{
    while (!list_is_empty(&api->half_closed)) {
        struct connection *connection = CONTAINER_OF(api->half_closed.next, struct connection, ended);
        list_drop(&connection->ended);
        if (connection->phase == PHASE_IDLE)
            shutdown(connection->fd, SHUT_RDWR);
    }
}

void connections_stop(struct api *api)
{
    for (struct list_link *at = api->open.next; at != &api->open; at = at->next) {
        struct connection *connection = CONTAINER_OF(at, struct connection, all);
        if (connection->phase == PHASE_WORKING)
            request_drained(connection);
        else if (connection->phase == PHASE_STREAMING)
            stream_stop(connection);
        else if (connection->phase == PHASE_IDLE)
            list_add(&api->half_closed, &connection->ended);
    }
}

/* ---- the pool --------------------------------------------------------------------------------------------------- */

static struct connection *take_spare(struct api *api)
{
    if (list_is_empty(&api->spare))
        return calloc(1, sizeof(struct connection));
    struct connection *connection = CONTAINER_OF(api->spare.next, struct connection, all);
    list_drop(&connection->all);
    return connection;
}

static void connection_opened(struct listener *listener, struct MHD_Connection *http, void **context)
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
    connection->peer_closed = connection->peer_dead = false;
    list_add(&api->open, &connection->all);
    connection_is_arriving(connection);
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(api->gone_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        shutdown(connection->fd, SHUT_RDWR); /* better no connection than a waiter that can not be seen leaving */
    api->connections++;
    metrics_http_connections(api->backend.metrics, (int64_t)api->connections);
}

static void connection_closed(struct listener *listener, struct connection *connection)
{
    struct api *api = listener->api;
    assert(connection->phase == PHASE_IDLE);
    list_drop(&connection->timed);
    list_drop(&connection->ended);
    list_add(&api->spare, &connection->all);
    api->connections--;
    metrics_http_connections(api->backend.metrics, (int64_t)api->connections);
    server_wants_run(listener); /* at its limit, libmicrohttpd accepts the next one only in its next run */
}

void connection_notified(void *arg, struct MHD_Connection *http, void **context,
                         enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_opened(arg, http, context);
    else if (*context != NULL)
        connection_closed(arg, *context);
}

struct connection *connection_of(struct MHD_Connection *http)
{
    return MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

bool connections_start(struct api *api)
{
    list_start(&api->open);
    list_start(&api->spare);
    list_start(&api->arriving);
    list_start(&api->idle);
    list_start(&api->half_closed);
    api->gone_fd = epoll_create1(EPOLL_CLOEXEC);
    return api->gone_fd >= 0;
}

void connections_free(struct api *api)
{
    assert(list_is_empty(&api->open));
    struct list_link *next;
    for (struct list_link *at = api->spare.next; at != &api->spare; at = next) {
        next = at->next;
        free(CONTAINER_OF(at, struct connection, all));
    }
    if (api->gone_fd >= 0)
        close(api->gone_fd);
}
