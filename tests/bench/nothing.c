/* The do-nothing agent: the cost of libmicrohttpd as an HTTP server, and nothing else.
 *
 *   alone         every POST and DELETE is answered at once, with an answer of the agent's size
 *   with masters  the requests of an iteration of the loop are gathered, as the agent gathers them.
 *                 The agent's own commands, encoded and read by its own code, go to all masters of
 *                 its configuration: native ones to acquire, and the script to release. A request
 *                 is answered at the quorum
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

enum {
    COMMAND_BYTES = 1024 * LIMIT_BATCH,
    CONNECTIONS = 2 * CALLERS_MAX,
    TTL_MS = 30000,
    RUNS = 4,
};

enum exchange_state { UNUSED, CAME, ASKED, DECIDED };

/* One request that is in flight. */
struct exchange {
    enum exchange_state state;
    enum op op;
    uint32_t operation; /* Votes on an earlier one are late. */
    int yes, no;
    struct MHD_Connection *http;
    struct token token;
    char key[LIMIT_KEY_BYTES + 1];
    struct exchange *next_unused;
};

/* One call to all masters. The slot is taken again when all of them have replied. */
struct call {
    enum op op;
    unsigned count;
    int replies; /* That are awaited. */
    struct native_results native;
    struct exchange *exchanges[LIMIT_BATCH];
    uint32_t operations[LIMIT_BATCH];
    struct call *next_unused;
};

static struct exchange exchanges[CONNECTIONS], *unused;
static struct call calls[CONNECTIONS], *unused_calls;
/* Gathered in this iteration of the loop; NULL: none. */
static struct call *acquires, *releases;
static struct config config;
static bool with_masters;
static int port, quorum, epoll_fd;
static struct MHD_Response *released, *refused;

static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static struct token fresh_token(void)
{
    static uint64_t number; /* Rises, so that no master refuses it. */
    struct token token = {.fence = 0};
    char digits[TOKEN_CHARS_MAX + 1];
    uint64_t now = wall_us();

    number = now > number ? now : number + 1;
    fresh_random(digits);
    int length = snprintf(digits + RANDOM_CHARS, sizeof digits - RANDOM_CHARS, ".%" PRIu64, number);
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

static uint16_t number_of(const struct call *call)
{
    return (uint16_t)(call - calls);
}

static struct call *call_new(enum op op)
{
    struct call *call = unused_calls;

    if (!call)
        die("nothing: more than %d calls at once", CONNECTIONS);
    unused_calls = call->next_unused;
    call->op = op;
    call->count = 0;
    return call;
}

static void send_acquire(struct resp *resp, struct call *call, const struct send_item *items)
{
    int64_t clock_ms = (int64_t)(wall_us() / 1000); /* The masters are on this machine. */
    struct native native = asking_native(resp, &config, 0, items, call->count);

    asking_native_ends(&native, resp->bytes + (native.bytes.at - resp->bytes), clock_ms);
    call->native = (struct native_results){.takes = true,
                                           .results = native.results,
                                           .fencing = true,
                                           .clock_ms = clock_ms,
                                           .spread_ms = native.spread_ms};
    masters_send(number_of(call), 0, native.before + 1, native.bytes.at, native.bytes.len);
}

static void send_release(struct resp *resp, const struct call *call, const struct send_item *items)
{
    struct text command = asking_op(resp, &config, 0, OP_RELEASE, items, call->count);

    masters_send(number_of(call), 0, 1, command.at, command.len);
}

static void ask_masters(struct call *call)
{
    static char bytes[COMMAND_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    struct send_item items[LIMIT_BATCH];

    for (unsigned i = 0; i < call->count; i++) {
        const struct exchange *exchange = call->exchanges[i];
        items[i] = (struct send_item){
            .key = {exchange->key, strlen(exchange->key)},
            .token = exchange->token,
            .agent = 1,
            .asked = true,
            .ttl_ms = TTL_MS,
            .policy = (uint16_t)(config.policy_count - 1),
            .fencing = true,
        };
    }
    call->replies = master_count();
    if (call->op == OP_ACQUIRE)
        send_acquire(&resp, call, items);
    else
        send_release(&resp, call, items);
}

static void ask_gathered(struct call **call)
{
    if (*call)
        ask_masters(*call);
    *call = NULL;
}

static void gather(struct exchange *exchange)
{
    struct call **call = exchange->op == OP_ACQUIRE ? &acquires : &releases;

    if (!*call)
        *call = call_new(exchange->op);
    (*call)->operations[(*call)->count] = ++exchange->operation;
    (*call)->exchanges[(*call)->count++] = exchange;
    exchange->state = ASKED;
    exchange->yes = exchange->no = 0;
    MHD_suspend_connection(exchange->http);
    if ((*call)->count == LIMIT_BATCH)
        ask_gathered(call);
}

static void count_vote(struct exchange *exchange, enum vote vote)
{
    exchange->yes += vote == VOTE_YES;
    exchange->no += vote != VOTE_YES;
    if (exchange->yes < quorum && exchange->no <= master_count() - quorum)
        return;
    exchange->state = DECIDED;
    MHD_resume_connection(exchange->http);
}

static void on_reply(uint16_t number, uint32_t operation, const redisReply *reply, int64_t now)
{
    struct call *call = &calls[number];
    struct event_reply read[LIMIT_BATCH];
    const char *error = NULL;

    (void)operation, (void)now;
    if (call->op == OP_ACQUIRE)
        native_reply_read(&call->native, call->count, reply, read);
    else if (reply_read(call->op, call->count, reply, read, &error) != REDIS_OUTCOME_OK)
        die("nothing: %s", error);
    for (unsigned i = 0; i < call->count; i++) {
        struct exchange *exchange = call->exchanges[i];
        if (exchange->state == ASKED && exchange->operation == call->operations[i])
            count_vote(exchange, read[i].vote);
    }
    if (--call->replies == 0) {
        call->next_unused = unused_calls;
        unused_calls = call;
    }
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
    const char *key = strrchr(url, '/') + 1;
    if (strlen(key) > LIMIT_KEY_BYTES)
        die("nothing: a key of %zu bytes", strlen(key));
    snprintf(exchange->key, sizeof exchange->key, "%s", key);
    gather(exchange);
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
        ask_gathered(&acquires);
        ask_gathered(&releases);
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
        calls[i].next_unused = unused_calls;
        unused_calls = &calls[i];
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
