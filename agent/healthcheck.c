/* One blocking HTTP request with a deadline. */
#include "agent/healthcheck.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { TIMEOUT_S = 3 };

static int connect_in_time(const struct sockaddr *address, socklen_t len)
{
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, address, len) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path));
    return connect_in_time((const struct sockaddr *)&address, sizeof(address));
}

/* Connects to the agent. An agent that listens on every address of its host is reached through
 * loopback. */
static int connect_tcp(const struct config_address *address)
{
    const char *host = strcmp(address->host, "0.0.0.0") == 0 ? "127.0.0.1"
                       : strcmp(address->host, "::") == 0    ? "::1"
                                                             : address->host;
    char port[8];
    snprintf(port, sizeof(port), "%u", address->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        errno = EHOSTUNREACH;
        return -1;
    }
    int fd = -1;
    for (struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next)
        fd = connect_in_time(at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    return fd;
}

int healthcheck(const struct config_address *address, bool ready)
{
    const char *path = ready ? "/readyz" : "/livez";
    char request[128], reply[1024];
    int fd = address->is_unix ? connect_unix(address->host) : connect_tcp(address);
    if (fd < 0) {
        fprintf(stderr, "lockagent healthcheck: %s: %s\n", address->text, strerror(errno));
        return 1;
    }
    int len = snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    ssize_t got = send(fd, request, (size_t)len, MSG_NOSIGNAL) == len
                      ? recv(fd, reply, sizeof(reply) - 1, MSG_WAITALL)
                      : -1;
    close(fd);
    if (got <= 0) {
        fprintf(stderr, "lockagent healthcheck: %s: no answer\n", address->text);
        return 1;
    }
    reply[got] = '\0';
    if (strncmp(reply, "HTTP/1.1 200", strlen("HTTP/1.1 200")) == 0)
        return 0;
    const char *body = strstr(reply, "\r\n\r\n");
    fprintf(stderr, "lockagent healthcheck: %s%s: %.12s: %s\n", address->text, path, reply,
            body == NULL ? "" : body + 4);
    return 1;
}
