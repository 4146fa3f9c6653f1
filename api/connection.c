/* The deadlines of connections, and the choice of those that are closed when free ones are scarce.
 *
 * One sweep checks all deadlines, on the loop's clock:
 *
 *   silent     from the accept until the request line: limits.header_timeout
 *   arriving   from the request line until the whole request is here: limits.header_timeout in
 *              total (libmicrohttpd's own limit begins again with every byte)
 *   writing    from the answer until its last byte is taken: WRITE_MS
 *   idle       between two requests of a kept-alive connection: IDLE_MS
 *
 * D9: a listener keeps KEPT_FREE connections free for callers that come. If fewer are free, it
 * closes idle connections, the longest idle first. It begins with those of a crowd: they were
 * served as strangers, or have asked again at once HURRIED times in a row. Then it closes the
 * oldest connection of another kind that has taken its SCARCE time. Holders and health checks
 * pause between their requests. Their connections are closed before SCARCE_IDLE_MS, or
 * SCARCE_HOLDER_MS, only if no other connection could be closed for SCARCE_ASK_MS, and a
 * holder's last. Then a quarter of the listener is freed: callers that pause may be so many that
 * others would wait for seconds. SCARCE_ASK_MS is short: a crowd connects again as often as it is
 * closed, and it must pass through faster than a health check times out. Requests that wait or
 * stream have a bound of their own (connection_park), so a holder can always connect to release. */
#include "api/internal.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/core/core_assert.h"
#include "api/problem.h"

/* ---- listeners ---- */

/* A listener has a TCP or a unix socket. The socket file of an ended agent is removed. */

static bool explain(const struct listener *listener, const char *what, char *error,
                    size_t error_size)
{
    snprintf(error, error_size, "listen: %s: %s", listener->address->text, what);
    return false;
}

static int open_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* ---- unix ------------------------------------------------------------------------------------ */

/* Removes a socket file without a server. Any other file is not ours. Returns the fault, or
 * NULL. */
static const char *clear_the_way(const struct sockaddr_un *address)
{
    struct stat found;
    if (lstat(address->sun_path, &found) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (!S_ISSOCK(found.st_mode))
        return "the path is a file, not a socket";
    int fd = open_socket(AF_UNIX);
    bool has_server =
        fd >= 0 &&
        (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    if (has_server)
        return "another process listens there";
    return unlink(address->sun_path) == 0 ? NULL : strerror(errno);
}

static bool open_unix(struct listener *listener, unsigned mode, char *error, size_t error_size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(listener->address->host);
    if (len >= sizeof(address.sun_path))
        return explain(listener, "the path is too long for a socket", error, error_size);
    memcpy(address.sun_path, listener->address->host, len);
    const char *fault = clear_the_way(&address);
    if (fault != NULL)
        return explain(listener, fault, error, error_size);
    listener->fd = open_socket(AF_UNIX);
    /* No client can connect before listen(), so the mode is set in time. */
    struct stat made;
    if (listener->fd < 0 ||
        bind(listener->fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        chmod(address.sun_path, mode) != 0 || lstat(address.sun_path, &made) != 0)
        return explain(listener, strerror(errno), error, error_size);
    listener->device = made.st_dev;
    listener->inode = made.st_ino;
    if (listen(listener->fd, BACKLOG) != 0)
        return explain(listener, strerror(errno), error, error_size);
    snprintf(listener->bound, sizeof(listener->bound), "unix:%s", address.sun_path);
    return true;
}

void listener_remove_file(const struct listener *listener)
{
    struct stat found;
    const char *path = listener->address->host;
    bool ours = listener->inode != 0 && lstat(path, &found) == 0 &&
                found.st_dev == listener->device && found.st_ino == listener->inode;
    if (ours)
        unlink(path);
}

/* ---- TCP ------------------------------------------------------------------------------------- */

static int bind_tcp(const struct addrinfo *at)
{
    const int on = 1;
    int fd = open_socket(at->ai_family);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static bool open_tcp(struct listener *listener, char *error, size_t error_size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    char port[8];
    snprintf(port, sizeof(port), "%u", listener->address->port);
    int fault = getaddrinfo(listener->address->host, port, &hints, &found);
    if (fault != 0)
        return explain(listener, gai_strerror(fault), error, error_size);
    for (const struct addrinfo *at = found; at != NULL && listener->fd < 0; at = at->ai_next)
        listener->fd = bind_tcp(at);
    int saved = errno;
    freeaddrinfo(found);
    listener->is_absent = listener->fd < 0 && (saved == EADDRNOTAVAIL || saved == EAFNOSUPPORT);
    if (listener->fd < 0)
        return explain(listener, strerror(saved), error, error_size);
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    char bound_host[128] = "?", bound_port[8] = "0";
    getsockname(listener->fd, (struct sockaddr *)&address, &len);
    getnameinfo((struct sockaddr *)&address, len, bound_host, sizeof(bound_host), bound_port,
                sizeof(bound_port), NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(listener->bound, sizeof(listener->bound),
             strchr(bound_host, ':') == NULL ? "%s:%s" : "[%s]:%s", bound_host, bound_port);
    unsigned number = 0;
    sscanf(bound_port, "%u", &number);
    listener->port = (uint16_t)number;
    return true;
}

bool listener_open(struct listener *listener, unsigned mode, char *error, size_t error_size)
{
    CORE_ASSERT(listener->fd == -1);
    if (listener->address->is_unix)
        return open_unix(listener, mode, error, error_size);
    return open_tcp(listener, error, error_size);
}

void listener_wants_run(struct listener *listener)
{
    listener->wants_run = true;
}

/* ---- problems ---- */

/* The reports of the problems, without details. */

static const struct problem_report table[PROBLEM_COUNT] = {
#define X(name, code, status, title) [PROBLEM_##name] = {code, title, status, NULL, -1, NULL},
    PROBLEMS(X)
#undef X
};

struct problem_report problem_report(enum problem problem)
{
    CORE_ASSERT(problem != PROBLEM_NONE && problem < PROBLEM_COUNT);
    return table[problem];
}

char *problem_json(const struct problem_report *report)
{
    char type[64];
    snprintf(type, sizeof(type), "urn:lockagent:problem:%s", report->code);
    json_t *body = json_pack("{s:s, s:s, s:s, s:i, s:s}", "code", report->code, "type", type,
                             "title", report->title, "status", (int)report->status, "detail",
                             report->detail == NULL ? report->title : report->detail);
    if (body != NULL && report->members != NULL)
        json_object_update(body, report->members);
    json_decref(report->members);
    return view_line(body);
}

char *problem_line(const struct problem_report *report)
{
    const char *what = report->detail == NULL ? report->title : report->detail;
    size_t size = strlen(report->code) + strlen(what) + sizeof(": \n");
    char *line = malloc(size);
    if (line != NULL)
        snprintf(line, size, "%s: %s\n", report->code, what);
    json_decref(report->members);
    return line;
}

/* ---- connections ---- */

struct connection *connection_of(struct MHD_Connection *http)
{
    return MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void on_sweep(uv_timer_t *timer);

static void sweep_within(struct api *api, uint64_t ms)
{
    const uv_handle_t *sweep = (const uv_handle_t *)&api->sweep;
    bool sooner = !uv_is_active(sweep) || uv_timer_get_due_in(&api->sweep) > ms;
    if (sooner && !uv_is_closing(sweep))
        uv_timer_start(&api->sweep, on_sweep, ms, 0);
}

static uint64_t time_ms(const struct api *api, enum slack slack)
{
    return slack <= SLACK_HOLDER    ? IDLE_MS
           : slack == SLACK_WRITING ? WRITE_MS
                                    : api->config->header_timeout_ms;
}

static void set_deadline(struct connection *connection, enum slack slack)
{
    struct api *api = connection->api;
    if (connection->gives_way) /* It is shut down. libmicrohttpd may still call for its requests. */
        return;
    uint64_t ms = time_ms(api, slack);
    connection->deadline_ms = uv_now(api->loop) + ms;
    /* All in this list have the same time, so it stays in order. */
    list_move(&connection->listener->slack[slack], &connection->timed);
    sweep_within(api, ms);
}

/* ---- making room ----------------------------------------------------------------------------- */

static void give_way(struct connection *connection)
{
    list_remove(&connection->timed);
    connection->gives_way = true;
    connection->listener->giving_way++;
    connection->listener->gave_way_ms = uv_now(connection->api->loop);
    shutdown(connection->fd, SHUT_RDWR);
}

/* Returns the oldest connection of a kind that has taken at least `taken_ms`; NULL if none of the
 * OLDEST is one. It asks the kernel about each of them. */
static struct connection *oldest(struct listener *listener, enum slack slack, uint64_t taken_ms)
{
    enum { OLDEST = 16 };
    struct api *api = listener->api;
    uint64_t left_ms = time_ms(api, slack) > taken_ms ? time_ms(api, slack) - taken_ms : 0;
    struct list *list = &listener->slack[slack];
    struct link *at = list->head.next;
    for (unsigned i = 0; i < OLDEST && at != &list->head; i++, at = at->next) {
        struct connection *connection = CONTAINER_OF(at, struct connection, timed);
        if (connection->deadline_ms > uv_now(api->loop) + left_ms)
            break;
        /* No byte of a request may have come. If the loop is behind, one may not be read yet. */
        int unread = 0;
        if (slack == SLACK_WRITING || ioctl(connection->fd, FIONREAD, &unread) != 0 || unread == 0)
            return connection;
    }
    return NULL;
}

/* The time that a connection may take while free connections are scarce. */
static const uint64_t scarce_ms[SLACKS] = {
    [SLACK_IDLE] = SCARCE_IDLE_MS,    [SLACK_HOLDER] = SCARCE_HOLDER_MS,
    [SLACK_SILENT] = SCARCE_ASK_MS,   [SLACK_ARRIVING] = SCARCE_ASK_MS,
    [SLACK_WRITING] = SCARCE_READ_MS,
};

static bool is_scarce(const struct listener *listener, size_t kept_free)
{
    return listener->connections - listener->giving_way + kept_free > listener->connections_max;
}

/* Returns true if no connection could be closed for others for SCARCE_ASK_MS. */
static bool all_stay(struct listener *listener)
{
    uint64_t now_ms = uv_now(listener->api->loop);
    if (listener->scarce_since_ms == 0)
        listener->scarce_since_ms = now_ms;
    return now_ms - listener->scarce_since_ms >= SCARCE_ASK_MS &&
           now_ms - listener->gave_way_ms >= SCARCE_ASK_MS;
}

/* Returns a connection that has taken more than its time; NULL if there is none. */
static struct connection *first_late(struct listener *listener)
{
    struct connection *connection = NULL;
    for (enum slack slack = 0; connection == NULL && slack < SLACKS; slack++)
        connection = oldest(listener, slack, scarce_ms[slack]);
    return connection;
}

static void keep_places_free(struct listener *listener)
{
    const size_t kept_free = KEPT_FREE + listener->connections_max / 4;
    struct connection *connection;
    while (is_scarce(listener, KEPT_FREE) && (connection = first_late(listener)) != NULL)
        give_way(connection);
    if (is_scarce(listener, KEPT_FREE) && all_stay(listener)) {
        /* Idle connections, the longest idle first, and holders' last. */
        for (enum slack slack = SLACK_IDLE; slack <= SLACK_HOLDER; slack++)
            while (is_scarce(listener, kept_free) &&
                   (connection = oldest(listener, slack, 0)) != NULL)
                give_way(connection);
    }
    if (is_scarce(listener, KEPT_FREE))
        sweep_within(listener->api, SCARCE_ASK_MS);
    else
        listener->scarce_since_ms = 0;
}

void connection_slow_reader_gives_way(struct api *api)
{
    for (size_t i = 0; i < api->listener_count; i++) {
        struct connection *reader = oldest(&api->listeners[i], SLACK_WRITING, SCARCE_READ_MS);
        if (reader != NULL)
            give_way(reader);
    }
}

bool connection_makes_room(const struct connection *connection)
{
    return connection->listener->is_admin && is_scarce(connection->listener, KEPT_FREE);
}

/* ---- the sweep ------------------------------------------------------------------------------- */

void connection_says(struct connection *connection, enum problem problem)
{
    struct problem_report report = problem_report(problem);
    /* Before the whole header has come, neither media nor method is known. */
    const struct request *request = connection->request;
    bool is_text = request != NULL && request->media == MEDIA_TEXT;
    bool is_head = request != NULL && request->is_head;
    char *body = is_text ? problem_line(&report) : problem_json(&report), bytes[1024];
    if (body == NULL)
        return;
    int len = snprintf(bytes, sizeof(bytes),
                       "HTTP/1.1 %u %s\r\nContent-Type: %s\r\n"
                       "Content-Length: %zu\r\n"
                       "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
                       report.status, MHD_get_reason_phrase_for(report.status),
                       is_text ? "text/plain; charset=utf-8" : "application/problem+json",
                       strlen(body), is_head ? "" : body);
    free(body);
    if (send(connection->fd, bytes, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) == len &&
        connection->phase != PHASE_IDLE)
        connection->request->status = report.status;
}

/* Ends connections whose time is over: at most SWEPT, because thousands of callers may have begun
 * together, and each costs the loop some 20 us. Returns when to come back. */
static uint64_t sweep_list(struct list *list, uint64_t now_ms, bool arriving)
{
    enum { SWEPT = 64 };
    struct link *first = NULL;
    for (unsigned i = 0; i < SWEPT && (first = list_first(list)) != NULL; i++) {
        struct connection *connection = CONTAINER_OF(first, struct connection, timed);
        if (connection->deadline_ms > now_ms)
            return connection->deadline_ms;
        list_remove(&connection->timed);
        if (arriving)
            connection_says(connection, PROBLEM_REQUEST_TIMEOUT);
        shutdown(connection->fd, SHUT_RDWR); /* It makes libmicrohttpd close the connection. */
    }
    /* libuv runs a timer that is due now in the same iteration. */
    return list_is_empty(list) ? UINT64_MAX : now_ms + 1;
}

static void on_sweep(uv_timer_t *timer)
{
    struct api *api = timer->data;
    uint64_t now_ms = uv_now(api->loop), next = UINT64_MAX;
    for (size_t i = 0; i < api->listener_count; i++) {
        for (enum slack slack = 0; slack < SLACKS; slack++) {
            bool arriving = slack == SLACK_SILENT || slack == SLACK_ARRIVING;
            uint64_t due = sweep_list(&api->listeners[i].slack[slack], now_ms, arriving);
            next = due < next ? due : next;
        }
    }
    if (next != UINT64_MAX)
        uv_timer_start(timer, on_sweep, next - now_ms, 0);
    for (size_t i = 0; i < api->listener_count; i++)
        keep_places_free(&api->listeners[i]);
}

/* ---- kinds of connections -------------------------------------------------------------------- */

void connection_is_silent(struct connection *connection)
{
    set_deadline(connection, SLACK_SILENT);
    keep_places_free(connection->listener);
}

void connection_is_arriving(struct connection *connection)
{
    uint64_t now_ms = uv_now(connection->api->loop);
    if (connection->answered_ms == 0)
        connection->hurried = HURRIED - 1; /* It has not shown yet that it pauses. */
    else if (now_ms - connection->answered_ms >= HURRY_MS)
        connection->hurried = 0;
    else if (connection->hurried < HURRIED)
        connection->hurried++;
    set_deadline(connection, SLACK_ARRIVING);
}

void connection_has_arrived(struct connection *connection)
{
    list_remove(&connection->timed);
}

void connection_is_writing(struct connection *connection)
{
    set_deadline(connection, SLACK_WRITING);
}

void connection_is_idle(struct connection *connection)
{
    const struct request *request = connection->request;
    if (connection->api->stopping || connection->peer_closed) {
        list_remove(&connection->timed);
        list_move(&connection->api->half_closed, &connection->ended);
        return;
    }
    bool is_of_crowd = request->is_strangers || connection->hurried >= HURRIED;
    connection->answered_ms = uv_now(connection->api->loop);
    set_deadline(connection, is_of_crowd             ? SLACK_HURRIED
                             : request->is_a_holders ? SLACK_HOLDER
                                                     : SLACK_IDLE);
    if (!connection->request->closes)
        keep_places_free(connection->listener);
}

bool connection_pauses(const struct connection *connection)
{
    return connection->answered_ms != 0 && connection->hurried < HURRIED;
}

/* ---- waiting and streaming ------------------------------------------------------------------- */

void connection_unpark(struct connection *connection)
{
    connection->listener->parked -= connection->request->parked;
    connection->listener->asking -= connection->request->asks;
    connection->request->parked = connection->request->asks = false;
}

/* A caller that waits or streams keeps a connection for long, and many callers that ask for a lock
 * once may wait for the masters. So some connections are kept for callers that ask once, and some
 * for holders that connect to renew or to release (D9). */
bool connection_park(struct connection *connection, bool lasts)
{
    struct listener *listener = connection->listener;
    connection_unpark(connection);
    if (lasts ? listener->parked + KEPT_UNPARKED >= listener->connections_max
              : listener->parked + listener->asking + KEPT_FOR_HOLDERS >= listener->connections_max)
        return false;
    connection->request->parked = lasts;
    connection->request->asks = !lasts;
    listener->parked += lasts;
    listener->asking += !lasts;
    return true;
}

void connection_resume(struct connection *connection)
{
    MHD_resume_connection(connection->http);
    listener_wants_run(connection->listener);
}
