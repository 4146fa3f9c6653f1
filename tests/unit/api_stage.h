/* The stage of the API's tests: the real API on real sockets in a loop that the test itself turns,
 * over a core that is played by the test, so that every answer, delay and disconnect can be had at
 * will. One stage per test process. */
#ifndef LOCKAGENT_TESTS_UNIT_API_STAGE_H
#define LOCKAGENT_TESTS_UNIT_API_STAGE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/log.h"
#include "api/internal.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* no program needs all of it */

enum { PATIENCE = 8000 /* ms */, PENDING = 2048 };

static struct stage {
    uv_loop_t loop;
    struct config *config;
    struct metrics *metrics;
    struct redis *redis;
    struct core *core;
    struct effects effects;
    struct api *api;
    char folder[64], error[512];
    bool stopped;
    const char *not_ready;

    /* the part of the core that the test plays */
    bool answers_at_once;
    bool answers_cancelled;      /* a cancel gives the answer, decided just before */
    struct effect_answer answer; /* the core's answer, also of answer_pending() */
    int64_t skew_us;             /* added to the clock */
    size_t submitted, cancelled, undelivered, stuck;
    size_t checked;    /* answers of /readyz */
    int64_t busy_ms;   /* how long an acquire, a read or /readyz keeps the loop busy */
    struct event last; /* its texts are copied below */
    char last_key[LIMIT_KEY_BYTES + 1], last_label[LIMIT_LABEL_BYTES + 1];
    uint32_t pending[PENDING];
    size_t pending_count;
    uint32_t undelivered_slot;
} stage;

/* ---- the core as the test plays it ---- */

static struct instant stage_now(void *arg)
{
    struct timespec now;
    (void)arg;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (struct instant){(int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + stage.skew_us};
}

static int64_t stage_ms(void)
{
    return stage_now(NULL).us / 1000 - stage.skew_us / 1000;
}

static void be_busy(void)
{
    for (int64_t end = stage_ms() + stage.busy_ms; stage_ms() < end;)
        ;
}

static const char *stage_not_ready(void *arg)
{
    (void)arg;
    stage.checked++;
    be_busy();
    return stage.not_ready;
}

static void copy_text(char *to, struct text text)
{
    memcpy(to, text.at, text.len);
    to[text.len] = '\0';
}

static void forget_pending(uint32_t number)
{
    for (size_t i = 0; i < stage.pending_count; i++) {
        if (stage.pending[i] != number)
            continue;
        stage.pending[i] = stage.pending[--stage.pending_count];
        return;
    }
    cr_assert_fail("request %u is not in the core", number);
}

static void give_answer(uint32_t number)
{
    struct effect_answer answer = stage.answer;
    answer.request = number;
    api_answer(stage.api, &answer);
}

static void answer_pending(void)
{
    cr_assert_gt(stage.pending_count, 0);
    uint32_t number = stage.pending[0];
    forget_pending(number);
    give_answer(number);
}

static void take_request(uint32_t number, struct text key)
{
    cr_assert_lt(number, config_requests_max(stage.config));
    for (size_t i = 0; i < stage.pending_count; i++)
        cr_assert_neq(stage.pending[i], number,
                      "the number of an unanswered request was used again");
    copy_text(stage.last_key, key);
    stage.submitted++;
    be_busy();
    if (stage.answers_at_once)
        give_answer(number);
    else
        stage.pending[stage.pending_count++] = number;
}

static void stage_submit(void *arg, struct event *event)
{
    (void)arg;
    stage.last = *event;
    switch (event->kind) {
    case EVENT_ACQUIRE:
        copy_text(stage.last_label, event->acquire.label);
        take_request(event->acquire.request, event->acquire.key);
        break;
    case EVENT_RENEW:
        copy_text(stage.last_label, event->renew.label);
        take_request(event->renew.request, event->renew.key);
        break;
    case EVENT_RELEASE:
        take_request(event->release.request, event->release.key);
        break;
    case EVENT_READ:
        take_request(event->read.request, event->read.key);
        break;
    case EVENT_CANCEL:
        stage.cancelled++;
        forget_pending(event->cancel.request);
        if (stage.answers_cancelled)
            give_answer(event->cancel.request);
        break;
    case EVENT_UNDELIVERED:
        stage.undelivered++;
        stage.undelivered_slot = event->undelivered.lock.slot;
        break;
    case EVENT_STUCK:
        stage.stuck++;
        break;
    default:
        cr_assert_fail("event %d", (int)event->kind);
    }
}

/* Returns a grant of 10 s, taken now. */
static struct effect_answer a_hold(enum answer answer)
{
    static const struct token token = {.random = {0xab, 0xcd}, .fence = 1795226400000001};
    struct instant now = stage_now(NULL);
    return (struct effect_answer){
        .answer = answer,
        .lock = {7, 3, 1},
        .hold = {.token = token,
                 .renew = RENEW_CALLER,
                 .ttl_ms = 10000,
                 .acquired_at = now,
                 .valid_until = instant_after_ms(now, 9898),
                 .max_hold_until = instant_after_ms(now, 600000),
                 .confirmed = 2},
        .tally = {.granted = 2, .taken = 0, .failed = 1, .total = 3, .quorum = 2},
        .waited_us = 1234567,
        .occupant.left_ms = -1};
}

#define A_TOKEN "abcd000000000000000000000000000000000000.1795226400000001"

static void core_takes(struct event event)
{
    struct entropy *entropy = core_entropy(stage.core);
    memset(entropy->bytes, 1, sizeof(entropy->bytes));
    entropy->left = sizeof(entropy->bytes);
    event.now = stage_now(NULL);
    event.wall_us = 1795226400000000;
    cr_assert(core_step(stage.core, &event, &stage.effects));
    event.kind = EVENT_FLUSH;
    if (core_awaits_flush(stage.core))
        cr_assert(core_step(stage.core, &event, &stage.effects));
}

static const struct effect *core_said(enum effect_kind kind)
{
    for (size_t i = 0; i < stage.effects.count; i++)
        if (stage.effects.list[i].kind == kind)
            return &stage.effects.list[i];
    cr_assert_fail("effect %d is missing", (int)kind);
    return NULL;
}

/* Returns the real core's answer to a bound request. The core has its hold then. */
static struct effect_answer a_real_hold(const char *key)
{
    struct event event = {.kind = EVENT_MASTER_UP, .master.epoch = 1};
    core_takes(event);
    event = (struct event){.kind = EVENT_ACQUIRE,
                           .acquire = {.key = {key, strlen(key)}, .bound = true}};
    core_takes(event);
    const struct send_item item = stage.effects.items[core_said(EFFECT_SEND)->send.first];
    struct event_reply granted = {.op = OP_ACQUIRE,
                                  .ref = item.ref,
                                  .vote = VOTE_YES,
                                  .fence = item.token.fence,
                                  .occupant.left_ms = -1};
    event = (struct event){.kind = EVENT_REPLIES, .replies = {&granted, 1}};
    core_takes(event);
    return core_said(EFFECT_ANSWER)->answer;
}

/* ---- turning the loop ---- */

static void turn(void)
{
    uv_run(&stage.loop, UV_RUN_NOWAIT);
}

/* Turns until `condition` holds; false after `ms`. */
#define until_within(ms, condition)                                                                \
    __extension__({                                                                                \
        int64_t end_ = stage_ms() + (ms);                                                          \
        bool holds_ = (condition);                                                                 \
        while (!holds_ && stage_ms() < end_) {                                                     \
            turn();                                                                                \
            holds_ = (condition);                                                                  \
        }                                                                                          \
        holds_;                                                                                    \
    })
#define until(condition) until_within(PATIENCE, condition)

static void turn_for(int64_t ms)
{
    (void)until_within(ms, false);
}

/* ---- setting up ---- */

static void add_address(struct config_listener *listener, bool is_unix, const char *host)
{
    struct config_address *address = &listener->addresses[listener->count++];
    address->is_unix = is_unix;
    address->loopback = true;
    snprintf(address->host, sizeof(address->host), "%s", host);
    snprintf(address->text, sizeof(address->text), "%s%s", is_unix ? "unix:" : "", host);
}

/* Makes one group of one master that is never there, TCP and unix listeners, and an admin
 * listener. */
static void make_config(void)
{
    struct config *config = stage.config = calloc(1, sizeof(*config));
    char path[96];
    snprintf(path, sizeof(path), "%s/api.sock", stage.folder);
    add_address(&config->listen, false, "127.0.0.1");
    add_address(&config->listen, true, path);
    add_address(&config->admin, false, "127.0.0.1");
    config->socket_mode = 0600;
    config->group_count = 1;
    struct config_group *group = &config->groups[0];
    snprintf(group->name, sizeof(group->name), "main<&>");
    group->master_count = 1;
    group->node_timeout_ms = 5000; /* longer than a busy machine takes for two events */
    group->drift_ppm = 10000;
    struct config_master *master = &group->masters[0];
    snprintf(master->url, sizeof(master->url), "unix:/nowhere/redis.sock");
    master->address.is_unix = true;
    snprintf(master->address.host, sizeof(master->address.host), "/nowhere/redis.sock");
    for (config->policy_count = 0; config->policy_count < 2; config->policy_count++) {
        struct config_policy *policy = &config->policies[config->policy_count];
        policy->core = (struct core_policy){.group_count = 1,
                                            .algorithm = ALGORITHM_REDLOCK,
                                            .renew = RENEW_AGENT,
                                            .ttl_ms = 30000,
                                            .max_hold_ms = 600000,
                                            .bound_max_hold_ms = 3600000,
                                            .fencing = true,
                                            .retry_min_ms = 50,
                                            .retry_max_ms = 1000};
        policy->core.permits = 1;
    }
    snprintf(config->policies[0].core.match, sizeof(config->policies[0].core.match),
             "lockagent:prefixed*");
    snprintf(config->policies[0].prefix, sizeof(config->policies[0].prefix), "lock:");
    snprintf(config->policies[1].core.match, sizeof(config->policies[1].core.match), "*");
    config->max_ttl_ms = 60000;
    config->wait_ms_max = 300000;
    config->locks_max = 1000;
    config->waiters_max = 1000;
    config->connections_max = 1100;
    config->body_bytes_max = 65536;
    config->header_timeout_ms = 5000;
    config->log_level = LOG_ERROR;
}

static void make_core(void)
{
    static struct core_group groups[LIMIT_GROUPS];
    static struct core_policy policies[LIMIT_POLICIES];
    static const char *names[LIMIT_GROUPS];
    struct core_config config;
    config_for_core(stage.config, 1, groups, policies, names, &config);
    stage.core = core_init(calloc(1, core_size(&config)), &config);
}

/* Ignores the events of a master that is never there. */
static void no_event(void *arg, struct event *event)
{
    (void)arg, (void)event;
}

static void no_command(void *arg, uint8_t group, uint8_t master, enum op op,
                       enum redis_outcome outcome, int64_t latency_us)
{
    (void)arg, (void)group, (void)master, (void)op, (void)outcome, (void)latency_us;
}

static void no_clock(void *arg, uint8_t group, int64_t offset_us)
{
    (void)arg, (void)group, (void)offset_us;
}

static void no_state(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                     const char *text)
{
    (void)arg, (void)group, (void)master, (void)state, (void)text;
}

/* Starts the API. A test changes `stage.config` before it calls this. */
static void stage_start(void)
{
    static const struct redis_sink no_sink = {NULL, no_event, no_command, no_state, no_clock,
                                              NULL, NULL,     NULL,       NULL};
    struct api_backend backend = {NULL, stage_submit, stage_now, NULL, NULL, NULL, stage_not_ready};
    make_core();
    log_setup(stage.config->log_level, LOG_TEXT);
    stage.metrics = metrics_new(stage.config);
    stage.redis = redis_start(&stage.loop, stage.config, &no_sink);
    backend.core = stage.core;
    backend.redis = stage.redis;
    backend.metrics = stage.metrics;
    stage.api = api_start(&stage.loop, stage.config, &backend, stage.error, sizeof(stage.error));
}

static void stage_open(void)
{
    struct rlimit files;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max; /* a thousand callers, both ends in this process */
    setrlimit(RLIMIT_NOFILE, &files);
    snprintf(stage.folder, sizeof(stage.folder), "/tmp/lockagent-api.XXXXXX");
    cr_assert_not_null(mkdtemp(stage.folder));
    uv_loop_init(&stage.loop);
    stage.answers_at_once = true;
    make_config();
}

static void note_stopped(void *arg)
{
    *(bool *)arg = true;
}

static void stage_stop(void)
{
    stage.stopped = false;
    api_stop(stage.api, 300, note_stopped, &stage.stopped);
    cr_assert(until(stage.stopped), "the API does not stop");
    api_free(stage.api);
    stage.api = NULL;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static void stage_close(void)
{
    bool stopped = false;
    if (stage.api != NULL)
        stage_stop();
    if (stage.redis != NULL) {
        redis_stop(stage.redis, note_stopped, &stopped);
        cr_assert(until(stopped));
        redis_free(stage.redis);
    }
    uv_run(&stage.loop, UV_RUN_NOWAIT);
    cr_assert_eq(uv_loop_close(&stage.loop), 0, "handles are left");
    if (stage.metrics != NULL)
        metrics_free(stage.metrics);
    free(stage.core);
    free(stage.config);
    cr_assert_eq(nftw(stage.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void stage_play(void)
{
    stage_open();
    stage_start();
    cr_assert_not_null(stage.api, "%s", stage.error);
}

enum { FEW_CONNECTIONS = 128 };

/* Starts the API with a listener that is soon full. */
static void stage_of_few(void)
{
    stage_open();
    stage.config->connections_max = FEW_CONNECTIONS;
    stage_start();
}

/* ---- callers ---- */

enum { API, UNIX, ADMIN };

static int caller_open(int listener)
{
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    inet.sin_port = htons(stage.api->listeners[listener].port);
    snprintf(local.sun_path, sizeof(local.sun_path), "%s/api.sock", stage.folder);
    bool tcp = listener != UNIX;
    int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = tcp ? connect(fd, (struct sockaddr *)&inet, sizeof(inet))
                     : connect(fd, (struct sockaddr *)&local, sizeof(local));
    cr_assert_eq(failed, 0, "connect: %s", strerror(errno));
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void caller_send(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return; /* the server may have closed a refused connection */
        if (sent > 0) {
            bytes += sent;
            len -= (size_t)sent;
        }
        turn();
    }
}

static void caller_say(int fd, const char *text)
{
    caller_send(fd, text, strlen(text));
}

struct reply {
    int status; /* 0: closed without a reply; -1: none in time */
    char head[16384], body[262144];
    size_t body_len;
    bool closed; /* the connection ended after the reply */
    json_t *json;
};
static struct reply reply;

static char received[sizeof(reply.head) + sizeof(reply.body)];
static size_t received_len; /* includes bytes of the next reply */

static const char *header(const char *name)
{
    static char value[4096];
    for (const char *line = reply.head; line != NULL && *line != '\0';
         line = strstr(line, "\r\n"), line += line ? 2 : 0) {
        size_t len = strlen(name);
        if (strncasecmp(line, name, len) != 0 || line[len] != ':')
            continue;
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + len + 2, "\r"), line + len + 2);
        return value;
    }
    return NULL;
}

static bool take_bytes(int fd)
{
    ssize_t got = recv(fd, received + received_len, sizeof(received) - received_len - 1, 0);
    if (got > 0)
        received_len += (size_t)got;
    received[received_len] = '\0';
    reply.closed = got == 0 || (got < 0 && errno != EAGAIN);
    return got > 0;
}

/* Splits one reply off the received bytes. */
static bool take_reply(bool without_body)
{
    char *end = strstr(received, "\r\n\r\n");
    if (end == NULL)
        return false;
    size_t head = (size_t)(end - received) + 4;
    memcpy(reply.head, received, head);
    reply.head[head] = '\0';
    const char *length = header("Content-Length");
    size_t body = without_body || length == NULL ? 0 : (size_t)atoi(length);
    if (received_len < head + body)
        return false;
    memcpy(reply.body, received + head, body);
    reply.body[body] = '\0';
    reply.body_len = body;
    received_len -= head + body;
    memmove(received, received + head + body, received_len + 1);
    reply.status = atoi(reply.head + strlen("HTTP/1.1 "));
    return true;
}

static int receive_within(int fd, int64_t ms, bool without_body)
{
    json_decref(reply.json);
    reply.json = NULL;
    reply.status = -1;
    reply.closed = false;
    reply.body[0] = reply.head[0] = '\0';
    bool complete = false;
    (void)until_within(ms,
                       (complete = take_reply(without_body)) || (!take_bytes(fd) && reply.closed));
    if (!complete && reply.closed)
        reply.status = 0;
    reply.json = json_loads(reply.body, 0, NULL);
    cr_assert(reply.json == NULL || reply.body[strlen(reply.body) - 1] == '\n',
              "no newline at the end: %s", reply.body);
    return reply.status;
}

static int receive(int fd)
{
    return receive_within(fd, PATIENCE, false);
}

/* Returns true if the connection ends and no bytes are left over. */
static bool is_closed(int fd)
{
    return until_within(2000, (!take_bytes(fd) && reply.closed)) && received_len == 0;
}

/* One request on a connection of its own: `format` is all of it but the Host header. */
__attribute__((format(printf, 2, 3))) static int call(int listener, const char *format, ...)
{
    static char request[40000];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(request, sizeof(request), format, arguments);
    va_end(arguments);
    int fd = caller_open(listener);
    received_len = 0;
    received[0] = '\0';
    caller_send(fd, request, (size_t)len);
    int status = receive_within(fd, PATIENCE, strncmp(request, "HEAD", 4) == 0);
    close(fd);
    turn();
    return status;
}

#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"
#define JSON "Content-Type: application/json\r\n"

/* Sends a request line with further header lines (each with its line end) and a body. */
static int ask(const char *line, const char *headers, const char *body)
{
    return call(API, "%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s", line,
                headers, strlen(body), body);
}

static const char *code(void)
{
    const char *text = json_string_value(json_object_get(reply.json, "code"));
    return text == NULL ? "" : text;
}

static const char *detail(void)
{
    const char *text = json_string_value(json_object_get(reply.json, "detail"));
    return text == NULL ? "" : text;
}

static json_int_t number(const char *name)
{
    return json_integer_value(json_object_get(reply.json, name));
}

#define expect(wanted_status, wanted_code)                                                         \
    cr_assert(reply.status == (wanted_status) && strcmp(code(), wanted_code) == 0,                 \
              "expected %d %s, got %d %s: %s%s", (wanted_status), (wanted_code), reply.status,     \
              code(), reply.head, reply.body)

#endif
