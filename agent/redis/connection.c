/* hiredis on libuv: one socket to one master, its ordered stream of commands, and its end.
 *
 * hiredis may free its context inside every read and write; before that it lets go through the `cleanup` hook, which is
 * where a connection ends for us, however it ended. "Add write" does not write: it marks the connection dirty, and the
 * turn of the loop writes what has been gathered with one system call. */
#include <fcntl.h>
#include <hiredis/sds.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/redis/room.h"

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct connection *connection, int events)
{
    if (connection->polled == events || !connection->ac) {
        return;
    }
    connection->polled = events;
    if (events == 0) {
        uv_poll_stop(&connection->poll);
    } else {
        uv_poll_start(&connection->poll, events, on_poll);
    }
}

/* ---- what hiredis calls ---- */

static void add_read(void *arg)
{
    struct connection *connection = arg;
    watch(connection, connection->polled | UV_READABLE);
}

static void del_read(void *arg)
{
    struct connection *connection = arg;
    watch(connection, connection->polled & ~UV_READABLE);
}

static void add_write(void *arg)
{
    struct connection *connection = arg;
    if (connection->writing || !connection->connected) {
        watch(connection, connection->polled | UV_WRITABLE);
    } else if (!connection->dirty) {
        connection->dirty = true;
        redis_wake(connection->master->redis);
    }
}

static void del_write(void *arg)
{
    struct connection *connection = arg;
    watch(connection, connection->polled & ~UV_WRITABLE);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    struct redis *redis = connection->master->redis;
    free(connection);
    redis_closed(redis);
}

/* Reports the end, once, and before any reply becomes unknown. Called on whichever comes first: the first command heard
 * without reply (hiredis 0.14) or the cleanup hook (1.x). */
static void lose(struct connection *connection)
{
    if (connection->lost) {
        return;
    }
    connection->lost = true;
    const char *why = connection->condemned;
    if (!*why) {
        why = connection->ac->c.err ? connection->ac->c.errstr : "the connection was closed";
    }
    master_lost(connection->master, why);
}

static void cleanup(void *arg)
{
    struct connection *connection = arg;
    if (!connection->ac) {
        return; /* hiredis 1.x calls this more than once */
    }
    lose(connection);
    connection->ac->ev.data = NULL;
    connection->ac->ev.addRead = connection->ac->ev.delRead = NULL;
    connection->ac->ev.addWrite = connection->ac->ev.delWrite = NULL;
    connection->ac->ev.cleanup = NULL;
    connection->ac = NULL;
    uv_poll_stop(&connection->poll);
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    master_disconnected(connection->master, connection->connected);
}

static void on_connect(const redisAsyncContext *ac, int status)
{
    struct connection *connection = ac->data;
    if (status != REDIS_OK) {
        if (!*connection->condemned) {
            snprintf(connection->condemned, sizeof(connection->condemned), "connect: %s",
                     ac->c.errstr[0] ? ac->c.errstr : "failed");
        }
        return; /* cleanup follows */
    }
    connection->connected = true;
    del_write(connection);
    master_connected(connection->master);
}

/* One reply, or none because the connection ended (every pending command is heard then). */
static void on_reply(redisAsyncContext *ac, void *reply, void *arg)
{
    struct connection *connection = ac->data;
    struct command *command = arg;
    if (!reply) {
        lose(connection);
    }
    uint64_t written = connection->bytes_appended - sdslen(ac->c.obuf);
    bool sent = connection->bytes_heard < written;
    connection->bytes_heard += command->bytes;
    connection->unheard--;
    connection->in_flight -= command->heard == op_heard;
    connection->silent_ticks = 0;
    command->heard(connection->master, command, reply, sent);
    command_release(connection->master->redis, command);
}

/* ---- what libuv calls ---- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct connection *connection = poll->data;
    int watched = connection->polled;
    if (status < 0) { /* libuv has stopped watching; the read finds out what is wrong */
        connection->polled = 0;
        events = UV_READABLE;
    }
    if (events & UV_READABLE) {
        redisAsyncHandleRead(connection->ac);
    }
    if (connection->ac && (events & UV_WRITABLE)) {
        connection_flush(connection);
    }
    if (connection->ac && status < 0) {
        watch(connection, connection->polled | watched);
    }
}

/* ---- what the room calls ---- */

static void tune_socket(int fd)
{
    static const int on = 1, idle_s = 15, interval_s = 5, probes = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

/* hiredis would cut a path that is too long and connect somewhere else. */
static redisAsyncContext *connect_unix(const char *path)
{
    return strlen(path) < sizeof(((struct sockaddr_un *)NULL)->sun_path) ? redisAsyncConnectUnix(path) : NULL;
}

/* Starts to connect to a numeric address or a socket's path. False, and `why`, when that failed at once. */
bool connection_open(struct master *master, const char *address, char *why, size_t why_size)
{
    const struct config_address *configured = &master->config->address;
    redisAsyncContext *ac =
        configured->is_unix ? connect_unix(configured->host) : redisAsyncConnect(address, configured->port);
    if (!ac || ac->err) {
        snprintf(why, why_size, "connect: %s", ac ? ac->errstr : "the path of the socket is too long");
        if (ac) {
            redisAsyncFree(ac);
        }
        return false;
    }
    struct connection *connection = calloc(1, sizeof(*connection));
    REDIS_ASSERT(connection);
    int failed = uv_poll_init(master->redis->loop, &connection->poll, ac->c.fd);
    if (failed) {
        snprintf(why, why_size, "connect: %s", uv_strerror(failed));
        free(connection);
        redisAsyncFree(ac);
        return false;
    }
    fcntl(ac->c.fd, F_SETFD, FD_CLOEXEC); /* hiredis leaves it to the program that `lockagent run` starts */
    if (!configured->is_unix) {
        tune_socket(ac->c.fd);
    }
    master->redis->open++;
    master->connection = connection;
    connection->poll.data = connection;
    connection->ac = ac;
    connection->master = master;
    ac->data = ac->ev.data = connection;
    ac->ev.addRead = add_read;
    ac->ev.delRead = del_read;
    ac->ev.addWrite = add_write;
    ac->ev.delWrite = del_write;
    ac->ev.cleanup = cleanup;
    redisAsyncSetConnectCallback(ac, on_connect);
    return true;
}

/* True when the bytes are on their way; the command is then heard exactly once. */
bool connection_append(struct connection *connection, struct command *command, const char *bytes, size_t len)
{
    REDIS_ASSERT(len == command->bytes);
    if (!connection->ac || sdslen(connection->ac->c.obuf) > OUTPUT_BYTES_MAX ||
        redisAsyncFormattedCommand(connection->ac, on_reply, command, bytes, len) != REDIS_OK) {
        return false;
    }
    command->references++;
    connection->bytes_appended += len;
    connection->unheard++;
    connection->in_flight += command->heard == op_heard;
    return true;
}

void connection_condemn(struct connection *connection, const char *why)
{
    if (!*connection->condemned) {
        snprintf(connection->condemned, sizeof(connection->condemned), "%s", why);
        redis_wake(connection->master->redis);
    }
}

void connection_end(struct connection *connection, const char *why)
{
    if (!*connection->condemned) {
        snprintf(connection->condemned, sizeof(connection->condemned), "%s", why);
    }
    redisAsyncFree(connection->ac);
}

void connection_flush(struct connection *connection)
{
    connection->dirty = false;
    connection->writing = true; /* from here on "add write" means: not all could be written */
    redisAsyncHandleWrite(connection->ac);
    connection->writing = false; /* the memory stays until libuv closes the handle */
}
