/* Ports for the servers of tests. */
#ifndef LOCKAGENT_TEST_FREE_PORT_H
#define LOCKAGENT_TEST_FREE_PORT_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Reserves the port for this process, among tests that run side by side, with an abstract socket
 * of its number. So no other test takes it before its server is up, or while it is down. */
static inline bool port_is_reserved(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "lockagent-test-port-%d", port);
    const int held = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* until the process ends */
    if (!bind(held, (struct sockaddr *)&name, sizeof(name)))
        return true;
    close(held);
    return false;
}

/* Returns an unused TCP port of 127.0.0.1 outside the range that the kernel gives to clients, so it
 * stays free while its server is down. The port that is 10,000 above it, the second one of a
 * cluster node, is outside that range too. */
static inline int free_port(void)
{
    static unsigned salt;
    for (;;) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        unsigned mix =
            ((unsigned)getpid() * 2654435761u) ^ (unsigned)now.tv_nsec ^ (++salt * 40503u);
        const int port = 12000 + (int)((mix >> 4) % 10000);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool is_free = !bind(probe, (struct sockaddr *)&address, sizeof(address));
        close(probe);
        if (is_free && port_is_reserved(port))
            return port;
    }
}

#endif
