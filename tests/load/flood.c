/* A hostile master over TLS: it answers nothing, and sends records of the protocol without an end.
 *
 *   flood KIND CERTIFICATE KEY PORT
 *
 * KIND is key-updates (TLS 1.3) or hello-requests (TLS 1.2). Listens on 127.0.0.1, and prints
 * `connected` when the first client is there. The end of stdin ends the program, which then prints
 * the number of records. */
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static bool key_updates;
static SSL_CTX *context;
static int listener;
static atomic_ullong records;
static atomic_bool connected;

static bool send_record(SSL *ssl)
{
    if (key_updates)
        SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
    else
        SSL_renegotiate(ssl);
    return SSL_do_handshake(ssl) == 1;
}

static void *flood(void *arg)
{
    int client = (int)(intptr_t)arg;
    SSL *ssl = SSL_new(context);

    SSL_set_fd(ssl, client);
    if (SSL_accept(ssl) == 1) {
        if (!atomic_exchange(&connected, true))
            puts("connected");
        while (send_record(ssl))
            atomic_fetch_add(&records, 1);
    }
    SSL_free(ssl);
    close(client);
    return NULL;
}

static void *accept_all(void *unused)
{
    struct timeval patience = {.tv_sec = 2};
    pthread_t thread;

    (void)unused;
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            return NULL;
        setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (pthread_create(&thread, NULL, flood, (void *)(intptr_t)client) == 0)
            pthread_detach(thread);
        else
            close(client);
    }
}

static bool prepare(const char *certificate, const char *key)
{
    int version = key_updates ? TLS1_3_VERSION : TLS1_2_VERSION;

    context = SSL_CTX_new(TLS_server_method());
    return context && SSL_CTX_set_min_proto_version(context, version) == 1 &&
           SSL_CTX_set_max_proto_version(context, version) == 1 &&
           SSL_CTX_use_certificate_chain_file(context, certificate) == 1 &&
           SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    pthread_t acceptor;
    int on = 1;
    char byte;

    if (argc != 5 || (strcmp(argv[1], "key-updates") && strcmp(argv[1], "hello-requests"))) {
        fputs("usage: flood key-updates|hello-requests CERTIFICATE KEY PORT\n", stderr);
        return 2;
    }
    key_updates = !strcmp(argv[1], "key-updates");
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)atoi(argv[4]));
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!prepare(argv[2], argv[3]) ||
        bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 16) != 0 || pthread_create(&acceptor, NULL, accept_all, NULL) != 0) {
        perror("flood");
        return 2;
    }
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    printf("%llu\n", atomic_load(&records));
    return 0;
}
