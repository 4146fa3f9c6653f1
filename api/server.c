/* The daemons of libmicrohttpd, one per address, in our event loop.
 *
 *   a daemon's epoll descriptor is readable --.
 *   a request was answered -------------------+--> wants_run --> [prepare: once per loop turn]
 *   a connection was closed, a timeout -------'                  MHD_run, a few times at most
 *                                                                  |
 *                 still more to do: the loop does not sleep (`again`)
 *
 * A run in the prepare phase handles all answers of an iteration of the loop at once. */
#include "api/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/core/core_assert.h"
#include "agent/log.h"
#include "api/openapi.h"
#include "api/openapi_3_0.h"

/* ---- callers that have hung up ---- */

/* Reports the callers that hang up. libmicrohttpd does not poll a connection while it is suspended.
 * So every connection is also registered, once, in an epoll instance of our own (edge-triggered,
 * without work per request). Its events are
 *
 *   the caller has closed its sending side   no more requests will come; a wait is cancelled
 *   the connection is dead (reset)           no caller will read an answer */

enum { EVENTS = 64 };

/* Returns true if the caller has closed the connection itself. A network that is broken for long
 * ends it as well (ETIMEDOUT, EHOSTUNREACH). */
static bool has_left(const struct connection *connection, uint32_t events)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if ((events & EPOLLERR) != 0)
        getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 || error == ECONNRESET || error == EPIPE;
}

static void hung_up(struct connection *connection, uint32_t events)
{
    connection->peer_closed = true;
    connection->peer_dead |= (events & (EPOLLHUP | EPOLLERR)) != 0;
    if (connection->phase == PHASE_WORKING)
        exchange_caller_gone(connection);
    else if (connection->phase == PHASE_STREAMING)
        stream_caller_gone(connection, has_left(connection, events));
    else if (connection->phase <= PHASE_BODY) /* Bytes that came earlier may still be unread. */
        list_move(&connection->api->half_closed, &connection->ended);
    else if (request_is_for_nobody(connection))
        strangers_caller_gone(connection);
}

/* Handles the callers that have hung up. Callback of `api->gone`. */
static void hangup_look(uv_poll_t *poll, int status, int uv_events)
{
    struct api *api = poll->data;
    struct epoll_event events[EVENTS];
    (void)status, (void)uv_events;
    int count = epoll_wait(api->gone_fd, events, EVENTS, 0);
    for (int i = 0; i < count; i++)
        hung_up(events[i].data.ptr, events[i].events);
}

/* Closes connections of callers that have hung up, if nothing is left to answer. Called after the
 * daemons have run. */
/* libmicrohttpd may have read the end of the stream together with the last request. Then it waits
 * for an event that never comes. Our own end of the stream makes one. */
static void hangup_close_ended(struct api *api)
{
    struct link *ended;
    while ((ended = list_first(&api->half_closed)) != NULL) {
        const struct connection *connection = CONTAINER_OF(ended, struct connection, ended);
        list_remove(ended);
        if (connection->phase == PHASE_IDLE)
            shutdown(connection->fd, SHUT_RDWR);
    }
}

/* ---- the pool of connections ---- */

/* The pool of connections, from accept to close. A closed connection is kept for the next one. */

/* Tells the metrics how many connections the API's listeners have and may have. Those of admin have
 * a limit of their own, so they do not count. */
static void count_connections(const struct api *api)
{
    uint64_t open = 0, most = 0;
    for (size_t i = 0; i < api->listener_count; i++) {
        const struct listener *listener = &api->listeners[i];
        open += listener->is_admin ? 0 : listener->connections;
        most += listener->is_admin ? 0 : listener->connections_max;
    }
    metrics_http_connections(api->backend.metrics, (int64_t)open, (int64_t)most);
}

static void connection_opened(struct listener *listener, struct MHD_Connection *http,
                              void **context)
{
    struct api *api = listener->api;
    struct link *spare = list_first(&api->spare);
    struct connection *connection = spare != NULL ? CONTAINER_OF(spare, struct connection, all)
                                                  : calloc(1, sizeof(struct connection));
    struct epoll_event hangup = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    if (connection == NULL)
        return; /* Without a context the request line is refused. */
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
    /* A waiter that could leave unnoticed is worse than no connection. */
    if (epoll_ctl(api->gone_fd, EPOLL_CTL_ADD, connection->fd, &hangup) != 0)
        shutdown(connection->fd, SHUT_RDWR);
    intake_watch(connection);
    api->connections++;
    count_connections(api);
}

static void connection_closed(struct listener *listener, struct connection *connection)
{
    struct api *api = listener->api;
    void *context = connection;
    /* libmicrohttpd 0.9.75 closes some connections whose memory is used up without that
     * notification. */
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
    count_connections(api);
    /* At its limit libmicrohttpd accepts the next connection only in its next run. */
    listener_wants_run(listener);
}

/* Reports to the pool that a connection was opened or closed. Callback of libmicrohttpd; `arg` is
 * the listener. */
static void pool_notified(void *arg, struct MHD_Connection *http, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_opened(arg, http, context);
    else if (*context != NULL)
        connection_closed(arg, *context);
}

/* ---- the server ---- */

enum { RUNS = 4 /* Runs per iteration of the loop; more would delay the masters' replies. */ };

#if MHD_VERSION >= 0x00097707
#define SINGLE_THREADED MHD_USE_NO_THREAD_SAFETY /* Saves a write per resumed connection. */
#else
#define SINGLE_THREADED 0
#endif

/* ---- running ---- */

static void on_wake(uv_timer_t *timer)
{
    struct api *api = timer->data;
    for (size_t i = 0; i < api->listener_count; i++)
        api->listeners[i].wants_run = true;
}

static void on_again(uv_idle_t *idle)
{
    (void)idle; /* The loop does not sleep while it is active; nothing else is needed. */
}

static void on_daemon_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    (void)status, (void)events;
    listener->wants_run = true;
}

/* Sets the timer to fire within `ms`. A timer that is too early does no harm, so it is never moved
 * back. */
static void wake_within(struct api *api, uint64_t ms)
{
    if (!uv_is_active((const uv_handle_t *)&api->wake) || uv_timer_get_due_in(&api->wake) > ms)
        uv_timer_start(&api->wake, on_wake, ms, 0);
}

static void run_daemon(struct listener *listener)
{
    MHD_UNSIGNED_LONG_LONG ms;
    listener->wants_run = false;
    MHD_run(listener->daemon);
    if (MHD_get_timeout(listener->daemon, &ms) != MHD_YES)
        return;
    if (ms == 0)
        listener->wants_run = true;
    else
        wake_within(listener->api, ms);
}

static bool run_all(struct api *api, bool admin)
{
    bool more = false;
    for (size_t i = 0; i < api->listener_count; i++) {
        struct listener *listener = &api->listeners[i];
        if (listener->is_admin != admin)
            continue;
        if (listener->wants_run)
            run_daemon(listener);
        more |= listener->wants_run;
    }
    return more;
}

/* ---- the admin's share ---- */

static bool rests(struct listener *listener)
{
    if (listener->rests_until_ns == 0)
        return false;
    uint64_t now_ns = uv_hrtime();
    if (now_ns < listener->rests_until_ns) {
        wake_within(listener->api, (listener->rests_until_ns - now_ns) / 1000000 + 1);
        return true;
    }
    listener->rests_until_ns = 0;
    uv_poll_start(&listener->poll, UV_READABLE, on_daemon_readable);
    return false;
}

/* Runs the admin listener after the lock calls, once per turn. Then it rests for as long as three
 * such runs take. So a flood of its requests takes at most a quarter of the loop's time. */
static bool run_admin(struct api *api)
{
    bool more = false;
    for (size_t i = 0; i < api->listener_count; i++) {
        struct listener *listener = &api->listeners[i];
        if (!listener->is_admin || !listener->wants_run || rests(listener))
            continue;
        uint64_t before_ns = worked_ns();
        run_daemon(listener);
        uint64_t rest = rest_ns(worked_ns() - before_ns);
        if (rest >= 1000000) {
            listener->rests_until_ns = uv_hrtime() + rest;
            uv_poll_stop(&listener->poll);
            wake_within(api, rest / 1000000 + 1);
        } else {
            more |= listener->wants_run;
        }
    }
    return more;
}

static void stop_daemons(struct api *api);

static void on_loop_turn(uv_prepare_t *prepare)
{
    struct api *api = prepare->data;
    bool more = true, wait = true;
    strangers_begin(api);
    streams_turn(api);
    for (int runs = 0; (more || wait) && runs < RUNS; runs++) {
        wait = strangers_next(api);
        more = run_all(api, false);
    }
    more |= api->stopping ? run_all(api, true) : run_admin(api);
    if (!more)
        hangup_close_ended(api);
    if (more || wait || !list_is_empty(&api->waking))
        uv_idle_start(&api->again, on_again);
    else
        uv_idle_stop(&api->again);
    if (api->stopping && api->connections == 0)
        stop_daemons(api);
}

/* ---- starting ---- */

__attribute__((format(printf, 2, 0))) static void on_log(void *arg, const char *format,
                                                         va_list arguments)
{
    char line[256];
    (void)arg;
    vsnprintf(line, sizeof(line), format, arguments);
    line[strcspn(line, "\r\n")] = '\0';
    log_event(LOG_DEBUG, "libmicrohttpd", LOG_TEXT_FIELD("text", line));
}

/* Leaves paths and parameters encoded: the API decodes them from the raw request target. */
static size_t leave_encoded(void *arg, struct MHD_Connection *http, char *text)
{
    (void)arg, (void)http;
    return strlen(text);
}

static struct MHD_Daemon *start_daemon(struct listener *listener)
{
    unsigned limit = (unsigned)listener->connections_max;
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                                SINGLE_THREADED,
                            0, NULL, NULL, request_handler, listener,                 //
                            MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,                 //
                            MHD_OPTION_LISTEN_SOCKET, listener->fd,                   //
                            MHD_OPTION_CONNECTION_LIMIT, limit,                       //
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,   //
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)WRITE_STALL_S,   //
                            MHD_OPTION_NOTIFY_CONNECTION, pool_notified, listener,    //
                            MHD_OPTION_NOTIFY_COMPLETED, request_completed, listener, //
                            MHD_OPTION_URI_LOG_CALLBACK, request_line_came, listener, //
                            MHD_OPTION_UNESCAPE_CALLBACK, leave_encoded, NULL,        //
                            MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

static bool open_listener(struct api *api, const struct config_address *address, bool is_admin,
                          char *error, size_t error_size)
{
    struct listener *listener = &api->listeners[api->listener_count];
    *listener = (struct listener){
        .api = api,
        .address = address,
        .is_admin = is_admin,
        .checks_host = !is_admin && !address->is_unix && address->loopback,
        .connections_max = is_admin ? ADMIN_CONNECTIONS : api->config->connections_max,
        .fd = -1};
    for (enum slack slack = 0; slack < SLACKS; slack++)
        list_init(&listener->slack[slack]);
    api->listener_count++;
    if (!listener_open(listener, api->config->socket_mode, error, error_size)) {
        bool is_spare = !is_admin && listener->is_absent && strcmp(address->host, "::1") == 0 &&
                        api->config->listen.count > 1;
        api->listener_count -= is_spare;
        if (is_spare)
            log_event(LOG_INFO, "not listening: this machine has no IPv6",
                      LOG_TEXT_FIELD("listener", "api"), LOG_TEXT_FIELD("address", address->text));
        return is_spare;
    }
    listener->daemon = start_daemon(listener);
    if (listener->daemon == NULL)
        snprintf(error, error_size, "listen: %s: libmicrohttpd could not start", address->text);
    return listener->daemon != NULL;
}

static bool open_listeners(struct api *api, char *error, size_t error_size)
{
    const struct config *config = api->config;
    for (size_t i = 0; i < config->listen.count; i++)
        if (!open_listener(api, &config->listen.addresses[i], false, error, error_size))
            return false;
    if (api->listener_count == 0)
        return false;
    for (size_t i = 0; i < config->admin.count; i++)
        if (!open_listener(api, &config->admin.addresses[i], true, error, error_size))
            return false;
    return true;
}

static void poll_readable(struct api *api, uv_poll_t *poll, int fd, void *data, uv_poll_cb look)
{
    int failed = uv_poll_init(api->loop, poll, fd);
    CORE_ASSERT(failed == 0);
    poll->data = data;
    failed = uv_poll_start(poll, UV_READABLE, look);
    CORE_ASSERT(failed == 0);
    api->handles++;
}

static void start_handles(struct api *api)
{
    uv_prepare_init(api->loop, &api->prepare);
    uv_idle_init(api->loop, &api->again);
    uv_timer_init(api->loop, &api->wake);
    uv_timer_init(api->loop, &api->sweep);
    uv_timer_init(api->loop, &api->grace);
    api->prepare.data = api->again.data = api->wake.data = api->sweep.data = api->grace.data = api;
    strangers_start(api);
    rendering_start(api);
    api->handles += 6;
    poll_readable(api, &api->gone, api->gone_fd, api, hangup_look);
    for (size_t i = 0; i < api->listener_count; i++) {
        struct listener *listener = &api->listeners[i];
        poll_readable(api, &listener->poll,
                      MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
                      listener, on_daemon_readable);
        log_event(LOG_INFO, "listening",
                  LOG_TEXT_FIELD("listener", listener->is_admin ? "admin" : "api"),
                  LOG_TEXT_FIELD("address", listener->bound));
    }
    uv_prepare_start(&api->prepare, on_loop_turn);
}

static bool make_constants(struct api *api)
{
    api->no_content =
        response_typed(MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT), NULL);
    api->alive = response_copied("ok\n", 3, "text/plain; charset=utf-8");
    api->alive_closing = response_copied("ok\n", 3, "text/plain; charset=utf-8");
    if (api->alive_closing != NULL)
        MHD_add_response_header(api->alive_closing, MHD_HTTP_HEADER_CONNECTION, "close");
    api->openapi = response_copied(openapi_yaml, sizeof(openapi_yaml), "application/yaml");
    api->openapi_3_0 =
        response_copied(openapi_3_0_yaml, sizeof(openapi_3_0_yaml), "application/yaml");
    return api->no_content != NULL && api->alive != NULL && api->alive_closing != NULL &&
           api->openapi != NULL && api->openapi_3_0 != NULL;
}

static void give_up(struct api *api)
{
    for (size_t i = 0; i < api->listener_count; i++) {
        struct listener *listener = &api->listeners[i];
        listener_remove_file(listener);
        if (listener->daemon != NULL)
            MHD_stop_daemon(listener->daemon); /* Also closes the socket. */
        else if (listener->fd >= 0)
            close(listener->fd);
    }
    api_free(api);
}

struct api *api_start(uv_loop_t *loop, const struct config *config,
                      const struct api_backend *backend, char *error, size_t error_size)
{
    struct api *api = calloc(1, sizeof(*api));
    snprintf(error, error_size, "out of memory");
    if (api == NULL)
        return NULL;
    api->loop = loop;
    api->config = config;
    api->backend = *backend;
    api->started_at = backend->now(backend->arg);
    list_init(&api->open);
    list_init(&api->spare);
    list_init(&api->half_closed);
    request_pool_start(api);
    api->gone_fd = epoll_create1(EPOLL_CLOEXEC); /* Fails if there is no descriptor left. */
    if (api->gone_fd < 0 || !exchange_start(api) || !streams_start(api) || !follow_start(api) ||
        !make_constants(api) || !access_load_secret(api, error, error_size) ||
        !open_listeners(api, error, error_size)) {
        give_up(api);
        return NULL;
    }
    const char *paths[16];
    CORE_ASSERT(route_count <= sizeof(paths) / sizeof(paths[0]));
    for (size_t i = 0; i < route_count; i++)
        paths[i] = routes[i].path;
    metrics_http_routes(backend->metrics, paths, route_count);
    start_handles(api);
    count_connections(api);
    return api;
}

void api_reload(struct api *api, const struct config *config)
{
    char error[CONFIG_TEXT + 64];
    api->config = config;
    if (!access_load_secret(api, error, sizeof(error)))
        log_event(LOG_ERROR, "API token could not be read: no caller is let in",
                  LOG_TEXT_FIELD("error", error));
}

bool api_has_callers(const struct api *api)
{
    size_t parked = 0;
    for (size_t i = 0; i < api->listener_count; i++)
        parked += api->listeners[i].parked;
    return parked > api->follower_count;
}

size_t api_followed_keys(const struct api *api)
{
    return api->followed_count;
}

void api_drain(struct api *api)
{
    api->draining = true;
}

/* ---- stopping ---- */

static void closed_one(struct api *api)
{
    if (--api->handles == 0)
        api->done(api->done_arg);
}

static void on_api_closed(uv_handle_t *handle)
{
    closed_one(handle->data);
}

static void on_listener_closed(uv_handle_t *handle)
{
    const struct listener *listener = handle->data;
    closed_one(listener->api);
}

static void stop_daemons(struct api *api)
{
    if (api->daemons_stopped)
        return;
    api->daemons_stopped = true;
    for (size_t i = 0; i < api->listener_count; i++) {
        struct listener *listener = &api->listeners[i];
        uv_close((uv_handle_t *)&listener->poll, on_listener_closed);
        MHD_stop_daemon(listener->daemon);
    }
    uv_close((uv_handle_t *)&api->prepare, on_api_closed);
    uv_close((uv_handle_t *)&api->again, on_api_closed);
    uv_close((uv_handle_t *)&api->wake, on_api_closed);
    uv_close((uv_handle_t *)&api->sweep, on_api_closed);
    uv_close((uv_handle_t *)&api->grace, on_api_closed);
    uv_close((uv_handle_t *)&api->share, on_api_closed);
    uv_close((uv_handle_t *)&api->gone, on_api_closed);
}

/* Ends the grace. All connections are resumed already, but libmicrohttpd must have noticed that
 * before it may be stopped. */
static void on_grace(uv_timer_t *timer)
{
    struct api *api = timer->data;
    on_wake(&api->wake);
    run_all(api, false);
    run_all(api, true);
    stop_daemons(api);
}

void api_stop(struct api *api, int64_t grace_ms, void (*done)(void *arg), void *arg)
{
    CORE_ASSERT(!api->stopping);
    api->stopping = api->draining = true;
    api->done = done;
    api->done_arg = arg;
    for (size_t i = 0; i < api->listener_count; i++) {
        struct listener *listener = &api->listeners[i];
        listener_remove_file(listener);
        close(MHD_quiesce_daemon(listener->daemon));
        listener->wants_run = true;
    }
    strangers_stop(api);
    rendering_stop(api);
    /* Answer the requests in the core with `draining`, end the streams, and close idle
     * connections. */
    for (struct link *at = api->open.head.next; at != &api->open.head; at = at->next) {
        struct connection *connection = CONTAINER_OF(at, struct connection, all);
        if (connection->phase == PHASE_WORKING)
            exchange_drained(connection);
        else if (connection->phase == PHASE_STREAMING)
            stream_stop(connection);
        else if (connection->phase == PHASE_IDLE)
            list_move(&api->half_closed, &connection->ended);
    }
    uv_timer_start(&api->grace, on_grace, grace_ms < 0 ? 0 : (uint64_t)grace_ms, 0);
}

void api_free(struct api *api)
{
    if (api == NULL)
        return;
    CORE_ASSERT(list_is_empty(&api->open));
    struct link *spare;
    while ((spare = list_first(&api->spare)) != NULL) {
        list_remove(spare);
        free(CONTAINER_OF(spare, struct connection, all));
    }
    request_pool_free(api);
    if (api->gone_fd >= 0)
        close(api->gone_fd);
    streams_free(api);
    follow_free(api);
    exchange_free(api);
    if (api->no_content != NULL)
        MHD_destroy_response(api->no_content);
    if (api->alive != NULL)
        MHD_destroy_response(api->alive);
    if (api->alive_closing != NULL)
        MHD_destroy_response(api->alive_closing);
    if (api->openapi != NULL)
        MHD_destroy_response(api->openapi);
    if (api->openapi_3_0 != NULL)
        MHD_destroy_response(api->openapi_3_0);
    rendering_free(api);
    free(api);
}
