#include "tls_flood.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { CONNECTIONS = 64 };

static struct {
    enum flood flood;
    SSL_CTX *context;
    int listener;
    pthread_t acceptor, threads[CONNECTIONS];
    int clients[CONNECTIONS];
    size_t count;
    atomic_size_t records;
    atomic_bool stop;
} server;

static bool send_record(SSL *ssl)
{
    if (server.flood == FLOOD_KEY_UPDATES)
        SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
    else
        SSL_renegotiate(ssl);
    return SSL_do_handshake(ssl) == 1;
}

static void *flood(void *arg)
{
    const int client = *(const int *)arg;
    SSL *ssl = SSL_new(server.context);
    SSL_set_fd(ssl, client);
    if (SSL_accept(ssl) == 1)
        while (server.flood != FLOOD_NOTHING && !atomic_load(&server.stop) && send_record(ssl))
            atomic_fetch_add(&server.records, 1);
    SSL_free(ssl);
    close(client);
    return NULL;
}

static void *accept_all(void *unused)
{
    (void)unused;
    const struct timeval patience = {.tv_sec = 1};
    while (server.count < CONNECTIONS) {
        const int client = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            return NULL;
        setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        server.clients[server.count] = client;
        pthread_create(&server.threads[server.count], NULL, flood, &server.clients[server.count]);
        server.count++;
    }
    return NULL;
}

int tls_flood_start(enum flood kind, const char *certificate, const char *key)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    signal(SIGPIPE, SIG_IGN);
    server.flood = kind;
    server.context = SSL_CTX_new(TLS_server_method());
    const int version = kind == FLOOD_HELLO_REQUESTS ? TLS1_2_VERSION : TLS1_3_VERSION;
    cr_assert(SSL_CTX_set_min_proto_version(server.context, version) == 1 &&
              SSL_CTX_set_max_proto_version(server.context, version) == 1 &&
              SSL_CTX_use_certificate_chain_file(server.context, certificate) == 1 &&
              SSL_CTX_use_PrivateKey_file(server.context, key, SSL_FILETYPE_PEM) == 1);
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert(bind(server.listener, (struct sockaddr *)&address, len) == 0 &&
              listen(server.listener, 16) == 0 &&
              getsockname(server.listener, (struct sockaddr *)&address, &len) == 0);
    pthread_create(&server.acceptor, NULL, accept_all, NULL);
    return ntohs(address.sin_port);
}

size_t tls_flood_records(void)
{
    return atomic_load(&server.records);
}

void tls_flood_stop(void)
{
    atomic_store(&server.stop, true);
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.acceptor, NULL);
    for (size_t i = 0; i < server.count; i++)
        pthread_join(server.threads[i], NULL);
    close(server.listener);
    SSL_CTX_free(server.context);
}
