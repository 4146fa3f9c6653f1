/* A connection without a loop (blocking.h), as `lockagent trust` uses it. */
#include <netdb.h>

#include "agent/redis/blocking.h"
#include "redis_rig.h"

static struct server one;
static struct sockaddr_in addresses[2];
static struct addrinfo infos[2];

/* Replaces libc's function: every name has these two addresses. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **list)
{
    (void)name, (void)service, (void)hints;
    *list = infos;
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static void name_leads_to(int first_port, int second_port)
{
    const int ports[] = {first_port, second_port};
    for (unsigned i = 0; i < 2; i++) {
        addresses[i] = (struct sockaddr_in){.sin_family = AF_INET,
                                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                            .sin_port = htons((uint16_t)ports[i])};
        infos[i] = (struct addrinfo){.ai_family = AF_INET,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_addr = (struct sockaddr *)&addresses[i],
                                     .ai_addrlen = sizeof(addresses[i]),
                                     .ai_next = i == 0 ? &infos[1] : NULL};
    }
}

/* The first of a name's addresses that can be reached is taken. */
Test(redis_blocking, every_address_of_a_name_is_tried)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    const struct config_group group = {0};
    const struct config_master master = {.address = {.host = "two.addresses"}};
    char why[160] = "";
    server_start(&one, NULL);
    const int nobody = free_port();
    name_leads_to(nobody, one.port);
    struct blocking *blocking = blocking_open(&group, &master, why, sizeof(why));
    cr_assert_not_null(blocking, "%s", why);
    redisReply *reply = blocking_ask(blocking, (struct text){ping, strlen(ping)}, why, sizeof(why));
    cr_assert_not_null(reply, "%s", why);
    cr_assert_str_eq(reply->str, "PONG");
    freeReplyObject(reply);
    blocking_close(blocking);
    name_leads_to(nobody, nobody);
    cr_assert_null(blocking_open(&group, &master, why, sizeof(why)));
    cr_assert_str_eq(why, "connect: Connection refused");
    server_remove(&one);
}
