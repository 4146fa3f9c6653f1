/* A connection without a loop (blocking.h). The socket's own timeouts bound every call. */
#include "agent/redis/blocking.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/core_assert.h"
#include "agent/redis/tls.h"

enum { PATIENCE_S = 5 };

struct blocking {
    int fd;
    struct tls *tls; /* NULL: in the clear. */
    redisReader *reader;
};

/* ---- connecting ---- */

/* Connects within the timeout. Returns the descriptor; -1, with errno, if that fails. */
static int connect_within_patience(const struct sockaddr *to, socklen_t size)
{
    static const struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, to, size) == 0)
        return fd;
    int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    errno = error;
    return -1;
}

static int connect_path(const char *path, char *why, size_t why_size)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    CORE_ASSERT(len < sizeof(to.sun_path)); /* The configuration refuses longer paths. */
    memcpy(to.sun_path, path, len);
    int fd = connect_within_patience((struct sockaddr *)&to, sizeof(to));
    if (fd < 0)
        snprintf(why, why_size, "connect: %s", strerror(errno));
    return fd;
}

/* Connects to the first address of a name that can be reached. Returns the descriptor; -1, with
 * `why`. */
static int connect_name(const struct config_address *address, char *why, size_t why_size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    char port[8];
    snprintf(port, sizeof(port), "%u", (unsigned)address->port);
    int failed = getaddrinfo(address->host, port, &hints, &list);
    if (failed) {
        snprintf(why, why_size, "resolve: %s", gai_strerror(failed));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next)
        fd = connect_within_patience(at->ai_addr, at->ai_addrlen);
    if (fd < 0)
        snprintf(why, why_size, "connect: %s", strerror(errno));
    freeaddrinfo(list);
    return fd;
}

/* Writes why a call failed. `count` is its result. */
static void tell_why(const struct blocking *blocking, ssize_t count, char *why, size_t why_size)
{
    if (count == 0)
        snprintf(why, why_size, "the master closed the connection");
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
        snprintf(why, why_size, "no answer for %d s", PATIENCE_S);
    else
        snprintf(why, why_size, "%s",
                 errno == EPROTO && blocking->tls != NULL ? tls_why(blocking->tls)
                                                          : strerror(errno));
}

/* Does the handshake. Returns false, with `why`, if it fails. */
static bool begin_tls(struct blocking *blocking, const struct config_tls *config, const char *host,
                      char *why, size_t why_size)
{
    struct tls_files files = {.config = config};
    blocking->tls = tls_open(&files, host, blocking->fd);
    tls_files_forget(&files);
    if (blocking->tls == NULL) {
        snprintf(why, why_size, "out of memory");
        return false;
    }
    int done = tls_greet(blocking->tls);
    if (done <= 0)
        tell_why(blocking, done, why, why_size);
    return done > 0;
}

struct blocking *blocking_open(const struct config_group *group, const struct config_master *master,
                               char *why, size_t why_size)
{
    const struct config_address *address = &master->address;
    int fd = address->is_unix ? connect_path(address->host, why, why_size)
                              : connect_name(address, why, why_size);
    if (fd < 0)
        return NULL;
    struct blocking *blocking = calloc(1, sizeof(*blocking));
    redisReader *reader = redisReaderCreate();
    if (blocking == NULL || reader == NULL) {
        free(blocking);
        if (reader != NULL)
            redisReaderFree(reader);
        close(fd);
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    *blocking = (struct blocking){.fd = fd, .reader = reader};
    if (master->tls && !begin_tls(blocking, &group->tls, address->host, why, why_size)) {
        blocking_close(blocking);
        return NULL;
    }
    return blocking;
}

void blocking_close(struct blocking *blocking)
{
    if (blocking->tls != NULL)
        tls_close(blocking->tls);
    close(blocking->fd);
    redisReaderFree(blocking->reader);
    free(blocking);
}

/* ---- asking ---- */

static int64_t uptime_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Reads bytes. A TLS record without data, such as a session ticket, ends tls_read() like a timeout.
 * So it is called again. */
static ssize_t read_bytes(const struct blocking *blocking, char *into, size_t size)
{
    if (blocking->tls == NULL)
        return recv(blocking->fd, into, size, 0);
    int64_t give_up_s = uptime_s() + PATIENCE_S;
    ssize_t count;
    do
        count = tls_read(blocking->tls, into, size);
    while (count < 0 && errno == EAGAIN && uptime_s() < give_up_s);
    return count;
}

redisReply *blocking_ask(struct blocking *blocking, struct text command, char *why, size_t why_size)
{
    char bytes[4096];
    void *reply = NULL;
    ssize_t count = 1;
    while (command.len > 0 && count > 0) {
        count = blocking->tls != NULL ? tls_write(blocking->tls, command.at, command.len)
                                      : send(blocking->fd, command.at, command.len, MSG_NOSIGNAL);
        command.at += count > 0 ? count : 0;
        command.len -= count > 0 ? (size_t)count : 0;
    }
    /* If writing fails, the master's last reply may still be there to read. */
    while (reply == NULL) {
        count = read_bytes(blocking, bytes, sizeof(bytes));
        if (count <= 0) {
            tell_why(blocking, count, why, why_size);
            return NULL;
        }
        if (redisReaderFeed(blocking->reader, bytes, (size_t)count) != REDIS_OK ||
            redisReaderGetReply(blocking->reader, &reply) != REDIS_OK) {
            snprintf(why, why_size, "%s",
                     blocking->reader->err == REDIS_ERR_OOM
                         ? "out of memory"
                         : "broke the protocol: it sent something else than a reply");
            return NULL;
        }
    }
    return reply;
}
