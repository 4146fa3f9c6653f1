/* A listener: its TCP or unix socket, also where an agent that is gone has left its socket file
 * behind. */
#include "api/listener.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/core/core_assert.h"

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

static bool somebody_listens(const struct sockaddr_un *address)
{
    int fd = open_socket(AF_UNIX);
    bool listens =
        fd >= 0 &&
        (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return listens;
}

/* A socket file that nobody answers behind is a leftover; anything else is not ours to remove. */
static const char *clear_the_way(const struct sockaddr_un *address)
{
    struct stat found;
    if (lstat(address->sun_path, &found) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (!S_ISSOCK(found.st_mode))
        return "a file that is no socket is in the way";
    if (somebody_listens(address))
        return "another process listens there";
    return unlink(address->sun_path) == 0 ? NULL : strerror(errno);
}

/* The mode is set before anyone can connect: connects are refused until listen(). */
static const char *bind_unix(struct listener *listener, const struct sockaddr_un *address,
                             unsigned mode)
{
    struct stat made;
    if (bind(listener->fd, (const struct sockaddr *)address, sizeof(*address)) != 0 ||
        chmod(address->sun_path, mode) != 0 || lstat(address->sun_path, &made) != 0)
        return strerror(errno);
    listener->device = made.st_dev;
    listener->inode = made.st_ino;
    return listen(listener->fd, BACKLOG) == 0 ? NULL : strerror(errno);
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
    fault = listener->fd < 0 ? strerror(errno) : bind_unix(listener, &address, mode);
    if (fault != NULL)
        return explain(listener, fault, error, error_size);
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

static void name_bound(struct listener *listener)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    char host[128] = "?", port[8] = "0";
    getsockname(listener->fd, (struct sockaddr *)&address, &len);
    getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(listener->bound, sizeof(listener->bound),
             strchr(host, ':') == NULL ? "%s:%s" : "[%s]:%s", host, port);
    unsigned number = 0;
    sscanf(port, "%u", &number);
    listener->port = (uint16_t)number;
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
    name_bound(listener);
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
