/* The do-nothing agent: the cost of libmicrohttpd as an HTTP server, and nothing else.
 *
 *   alone         every POST and DELETE is answered at once, with an answer of the agent's size
 *   with masters  the agent's own scripts, encoded and read by its own code, go to all masters of
 *                 its configuration, and the answer is given at the quorum
 *
 * There is no table of locks, deadline, renewal, repair, undo, validity, policy or parameter: no
 * agent of this make can cost less, and this one locks nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"
#include "config/config.h"
#include "tests/bench/masters.h"
#include "tests/bench/measure.h"

#if MHD_VERSION >= 0x00097707
#define SINGLE_THREADED MHD_USE_NO_THREAD_SAFETY
#else
#define SINGLE_THREADED 0
#endif

enum { COMMAND_BYTES = 4096, CONNECTIONS = 2 * CALLERS_MAX, TTL_MS = 30000, RUNS = 4 };

enum exchange_state { UNUSED, CAME, ASKED, DECIDED };

/* One request that is in flight. */
struct exchange {
    enum exchange_state state;
    enum op op;
    uint32_t operation;
    int yes, no;
    struct MHD_Connection *http;
    struct token token;
    struct exchange *next_unused;
};

static struct exchange exchanges[CONNECTIONS], *unused;
static struct config config;
static bool with_masters;
static int port, quorum, epoll_fd;
static struct MHD_Response *released, *refused;

static struct token fresh_token(void)
{
    struct token token = {.fence = 0};
    char digits[TOKEN_CHARS_MAX + 1];
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    fresh_random(digits);
    int length = snprintf(digits + RANDOM_CHARS, sizeof digits - RANDOM_CHARS, ".%" PRIu64,
                          (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    if (!token_parse((struct text){digits, RANDOM_CHARS + (size_t)length}, &token))
        die("nothing: a bad token");
    return token;
}

/* ---- answers ---- */

static enum MHD_Result answer_granted(const struct exchange *exchange)
{
    char body[512], token[TOKEN_CHARS_MAX + 1];

    token_print(&exchange->token, token);
    int length = snprintf(body, sizeof body,
                          "{\"key\":\"bench\",\"token\":\"%s\",\"fencing_token\":%" PRIu64
                          ",\"valid_for_ms\":29690,\"valid_until_boottime_ms\":1234567890,"
                          "\"ttl_ms\":30000,\"renew\":\"agent\",\"masters\":{\"granted\":%d,"
                          "\"total\":%d,\"quorum\":%d},\"waited_ms\":0}\n",
                          token, exchange->token.fence, exchange->yes, master_count(), quorum);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)length, body, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", "application/json");
    MHD_add_response_header(response, "Lock-Token", token);
    enum MHD_Result result = MHD_queue_response(exchange->http, MHD_HTTP_CREATED, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(const struct exchange *exchange)
{
    if (with_masters && exchange->yes < quorum)
        return MHD_queue_response(exchange->http, MHD_HTTP_SERVICE_UNAVAILABLE, refused);
    return exchange->op == OP_ACQUIRE
               ? answer_granted(exchange)
               : MHD_queue_response(exchange->http, MHD_HTTP_NO_CONTENT, released);
}

/* ---- masters ---- */

static void ask_masters(struct exchange *exchange, const char *url)
{
    static char bytes[COMMAND_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    const char *key = strrchr(url, '/') + 1;
    struct send_item item = {
        .key = {key, strlen(key)},
        .token = exchange->token,
        .agent = 1,
        .asked = true,
        .ttl_ms = TTL_MS,
        .policy = (uint16_t)(config.policy_count - 1),
        .fencing = true,
    };
    char own_bytes[ASKING_OWN_BYTES];

    if (item.key.len > LIMIT_KEY_BYTES)
        die("nothing: a key of %zu bytes", item.key.len);
    exchange->state = ASKED;
    exchange->yes = exchange->no = 0;
    exchange->operation++;
    struct text command = asking_op(&resp, &config, 0, exchange->op, &item, 1);
    if (op_creates(exchange->op)) { /* no deadline */
        struct text own =
            asking_own(own_bytes, exchange->op, /* clock_ms= */ 0, (struct text){"", 0});
        size_t at = (size_t)(command.at - resp.bytes) + command.len;
        if (at + own.len > resp.size)
            die("nothing: a command of %zu bytes", command.len);
        memcpy(resp.bytes + at, own.at, own.len);
        command.len += own.len;
    }
    masters_send((uint16_t)(exchange - exchanges), exchange->operation, command.at, command.len);
    MHD_suspend_connection(exchange->http);
}

static void on_reply(uint16_t number, uint32_t operation, const redisReply *reply, int64_t now)
{
    struct exchange *exchange = &exchanges[number];
    struct event_reply read;
    const char *error = NULL;

    (void)now;
    if (exchange->state != ASKED || exchange->operation != operation)
        return;
    if (reply_read(exchange->op, 1, reply, &read, &error) != REDIS_OUTCOME_OK)
        die("nothing: %s", error);
    exchange->yes += read.vote == VOTE_YES;
    exchange->no += read.vote != VOTE_YES;
    if (exchange->yes < quorum && exchange->no <= master_count() - quorum)
        return;
    exchange->state = DECIDED;
    MHD_resume_connection(exchange->http);
}

/* ---- requests ---- */

static struct exchange *exchange_new(const char *method)
{
    struct exchange *exchange = unused;

    if (!exchange)
        die("nothing: more than %d requests at once", CONNECTIONS);
    unused = exchange->next_unused;
    exchange->state = CAME;
    exchange->op = strcmp(method, "POST") == 0 ? OP_ACQUIRE : OP_RELEASE;
    return exchange;
}

static void on_completed(void *arg, struct MHD_Connection *http, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct exchange *exchange = *context;

    (void)arg, (void)http, (void)why;
    if (!exchange)
        return;
    exchange->state = UNUSED;
    exchange->next_unused = unused;
    unused = exchange;
}

static bool read_token(struct exchange *exchange)
{
    const char *text = MHD_lookup_connection_value(exchange->http, MHD_HEADER_KIND, "Lock-Token");

    return text && token_parse((struct text){text, strlen(text)}, &exchange->token);
}

/* Libmicrohttpd calls this when the header has come, when the body has, and after a resumption. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *http, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_bytes, void **context)
{
    struct exchange *exchange = *context;

    (void)arg, (void)version, (void)body;
    if (!exchange) {
        *context = exchange = exchange_new(method);
        exchange->http = http;
        return MHD_YES;
    }
    *body_bytes = 0;
    if (exchange->state == DECIDED)
        return answer(exchange);
    if (exchange->op == OP_ACQUIRE)
        exchange->token = fresh_token();
    else if (!read_token(exchange))
        die("nothing: a DELETE without a token");
    if (!with_masters)
        return answer(exchange);
    ask_masters(exchange, url);
    return MHD_YES;
}

/* ---- the loop ---- */

static struct MHD_Daemon *start_daemon(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_SUSPEND_RESUME | SINGLE_THREADED,
                            (uint16_t)port, NULL, NULL, on_request, NULL, //
                            MHD_OPTION_SOCK_ADDR, &address,               //
                            MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,     //
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
}

/* True when the library has more to do at once. */
static bool run_daemon(struct MHD_Daemon *http)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;

    for (int i = 0; i < RUNS; i++) {
        MHD_run(http);
        if (MHD_get_timeout(http, &ms) != MHD_YES || ms > 0)
            return false;
    }
    return true;
}

static _Noreturn void run(struct MHD_Daemon *http)
{
    struct epoll_event events[MASTERS_MAX + 1], event = {.events = EPOLLIN, .data.ptr = NULL};
    int http_fd = MHD_get_daemon_info(http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, http_fd, &event) != 0)
        die("nothing: cannot watch the HTTP server: %s", strerror(errno));
    for (;;) {
        bool more = run_daemon(http);
        more |= !masters_flush();
        int ready = epoll_wait(epoll_fd, events, MASTERS_MAX + 1, more ? 0 : -1);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr)
                masters_read(events[i].data.ptr);
    }
}

static void open_masters(const char *path)
{
    struct config_errors errors;
    char sha[SHA_CHARS + 1];

    if (!config_load(path, NULL, NULL, 0, &config, &errors))
        die("nothing: %s", errors.list[0].text);
    /* It reads no marker, so it knows no vote that it could name. */
    config.groups[0].guard = false;
    for (size_t i = 0; i < config.groups[0].master_count; i++) {
        char text[8];
        snprintf(text, sizeof text, "%u", (unsigned)config.groups[0].masters[i].address.port);
        masters_add(text);
    }
    quorum = master_count() / 2 + 1;
    masters_connect(epoll_fd, on_reply);
    masters_load(redis_scripts[SCRIPT_ACQUIRE].text, sha);
    masters_load(redis_scripts[SCRIPT_RELEASE].text, sha);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'},
        {"config", required_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    const char *path = NULL;
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        good = option == 'p' || option == 'c';
        if (option == 'p')
            port = atoi(optarg);
        else
            path = optarg;
    }
    if (!good || optind != argc || port < 1 || port > 65535)
        die("usage: nothing --port PORT [--config FILE]");
    for (int i = CONNECTIONS - 1; i >= 0; i--) {
        exchanges[i].next_unused = unused;
        unused = &exchanges[i];
    }
    released = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    refused = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    with_masters = path != NULL;
    if (with_masters)
        open_masters(path);
    struct MHD_Daemon *http = start_daemon();
    if (epoll_fd < 0 || !http)
        die("nothing: no epoll, or libmicrohttpd does not start");
    run(http);
}
