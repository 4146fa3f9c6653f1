/* Which callers have hung up. libmicrohttpd does not look at a connection while it is suspended, so
 * every connection is also registered, once, in an epoll instance of our own (edge-triggered:
 * nothing has to be done per request). Its events are
 *
 *   the caller has closed its sending side   no more requests will come; a wait is given up
 *   the connection is dead (reset)           nobody will read an answer */
#include "api/hangup.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/exchange.h"
#include "api/request.h"
#include "api/strangers.h"
#include "api/streams.h"

enum { EVENTS = 64 };

bool hangup_start(struct api *api)
{
    list_init(&api->half_closed);
    api->gone_fd = epoll_create1(EPOLL_CLOEXEC);
    return api->gone_fd >= 0;
}

void hangup_free(struct api *api)
{
    if (api->gone_fd >= 0)
        close(api->gone_fd);
}

void hangup_watch(struct connection *connection)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    /* Better no connection than a waiter that can not be seen leaving. */
    if (epoll_ctl(connection->api->gone_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        shutdown(connection->fd, SHUT_RDWR);
}

static void hung_up(struct connection *connection, uint32_t events)
{
    connection->peer_closed = true;
    connection->peer_dead |= (events & (EPOLLHUP | EPOLLERR)) != 0;
    if (connection->phase == PHASE_WORKING)
        exchange_caller_gone(connection);
    else if (connection->phase == PHASE_STREAMING)
        stream_caller_gone(connection);
    else if (connection->phase <= PHASE_BODY) /* bytes that came before may still be unread */
        list_move(&connection->api->half_closed, &connection->ended);
    else if (request_is_for_nobody(connection))
        strangers_caller_gone(connection);
}

void hangup_look(uv_poll_t *poll, int status, int uv_events)
{
    struct api *api = poll->data;
    struct epoll_event events[EVENTS];
    (void)status, (void)uv_events;
    int count = epoll_wait(api->gone_fd, events, EVENTS, 0);
    for (int i = 0; i < count; i++)
        hung_up(events[i].data.ptr, events[i].events);
}

/* libmicrohttpd may have read the end of the stream together with the last request and then waits
 * for an event that never comes: our own end of the stream makes one. */
void hangup_close_ended(struct api *api)
{
    struct link *ended;
    while ((ended = list_first(&api->half_closed)) != NULL) {
        const struct connection *connection = CONTAINER_OF(ended, struct connection, ended);
        list_remove(ended);
        if (connection->phase == PHASE_IDLE)
            shutdown(connection->fd, SHUT_RDWR);
    }
}
