/* Fuzzes whole conversations: the real API on real sockets, over one agent alone.
 *
 * The input is the text of the callers, one after the other. Byte FF begins an aside: `c` and a
 * number: the next caller speaks (two on a unix socket, one over TCP, one to the admin listener);
 * `t` and a number: it says a token that was granted; `h`: it closes its sending side; `x`: it
 * leaves; `s`: the world settles; `m`: its masters or the clock move; FF: FF. */
#include "api/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/log.h"
#include "tests/fuzz/solo.h"

enum { CALLERS = 4, SAID = 8192, HEARD = 1 << 18, TURNS = 4, MOVES_MAX = 64, ENDING_MS = 2000 };
enum { LISTENER_UNIX, LISTENER_TCP, LISTENER_ADMIN };

static struct stage {
    uv_loop_t loop;
    struct config config;
    struct api *api;
    char folder[32];
    struct core_group groups[LIMIT_GROUPS];
    struct core_policy policies[LIMIT_POLICIES];
    const char *names[LIMIT_GROUPS];
    struct core_config core_config;
} stage;

static struct caller {
    int fd; /* -1: not there */
    char said[SAID];
    size_t said_len;
    char *heard;
    size_t heard_len;
    /* it has said a plain request and nothing strange since; the API has closed */
    bool whole, closed;
} callers[CALLERS];

/* ---- the stage: set up once, swept after every run ------------------------------------------- */

static void submit(void *arg, struct event *event)
{
    (void)arg;
    solo_submit(event);
}

static struct instant now(void *arg)
{
    (void)arg;
    return solo_now();
}

static const char *always_ready(void *arg)
{
    (void)arg;
    return NULL;
}

static void answered(const struct effect_answer *answer)
{
    api_answer(stage.api, answer);
}

static void no_event(void *arg, struct event *event)
{
    (void)arg, (void)event;
}

static void no_command(void *arg, uint8_t group, uint8_t master, enum op op,
                       enum redis_outcome outcome, int64_t latency_us)
{
    (void)arg, (void)group, (void)master, (void)op, (void)outcome, (void)latency_us;
}

static void no_state(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                     const char *text)
{
    (void)arg, (void)group, (void)master, (void)state, (void)text;
}

static void no_clock(void *arg, uint8_t group, int64_t offset_us)
{
    (void)arg, (void)group, (void)offset_us;
}

static void add_address(struct config_listener *listener, const char *name)
{
    struct config_address *address = &listener->addresses[listener->count++];
    address->is_unix = name != NULL;
    address->loopback = true;
    if (name != NULL)
        snprintf(address->host, sizeof(address->host), "%s/%s", stage.folder, name);
    else
        snprintf(address->host, sizeof(address->host), "127.0.0.1");
    snprintf(address->text, sizeof(address->text), "%s", name != NULL ? name : "127.0.0.1");
}

static void make_group(struct config_group *group)
{
    snprintf(group->name, sizeof(group->name), "main");
    group->node_timeout_ms = 50;
    group->drift_ppm = 10000;
    for (group->master_count = 0; group->master_count < 3; group->master_count++) {
        struct config_master *master = &group->masters[group->master_count];
        snprintf(master->url, sizeof(master->url), "unix:/nowhere/%zu", group->master_count);
        master->address.is_unix = true;
        snprintf(master->address.host, sizeof(master->address.host), "/nowhere/%zu",
                 group->master_count);
    }
}

static void make_config(void)
{
    static const char *const matches[] = {"lockagent:prefixed*", "plain*", "rw*", "*"};
    enum { PLAIN = 1, READ_AND_WRITTEN = 2, POLICIES = 4 };
    struct config *config = &stage.config;
    add_address(&config->listen, "api");
    add_address(&config->listen, NULL);
    add_address(&config->admin, "admin");
    config->socket_mode = 0600;
    config->group_count = 1;
    make_group(&config->groups[0]);
    for (config->policy_count = 0; config->policy_count < POLICIES; config->policy_count++) {
        bool rw = config->policy_count == READ_AND_WRITTEN;
        struct config_policy *policy = &config->policies[config->policy_count];
        policy->core = (struct core_policy){.group_count = 1,
                                            .algorithm = ALGORITHM_REDLOCK,
                                            .renew = RENEW_AGENT,
                                            .ttl_ms = 2000,
                                            .max_hold_ms = 8000,
                                            .fencing = config->policy_count != PLAIN,
                                            .form = rw ? FORM_SHARED : FORM_PLAIN,
                                            .permits = 1,
                                            .retry_min_ms = 50,
                                            .retry_max_ms = 200,
                                            .handover_max = 2};
        snprintf(policy->core.match, sizeof(policy->core.match), "%s",
                 matches[config->policy_count]);
    }
    snprintf(config->policies[0].prefix, sizeof(config->policies[0].prefix), "lock:");
    config->max_ttl_ms = SOLO_TTL_MS_MAX;
    config->wait_ms_max = 20000;
    config->locks_max = 8;
    config->waiters_max = 4;
    config->connections_max = 80;
    config->body_bytes_max = 2048;
    config->header_timeout_ms = 60000;
    config->log_level = LOG_ERROR;
}

static void leave_no_files(void)
{
    char path[64];
    for (unsigned i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", stage.folder, i == 0 ? "api" : "admin");
        unlink(path);
    }
    rmdir(stage.folder);
}

static void set_up(void)
{
    static const struct redis_sink no_sink = {NULL, no_event, no_command, no_state, no_clock,
                                              NULL, NULL,     NULL,       NULL};
    struct api_backend backend = {.submit = submit, .now = now, .not_ready = always_ready};
    char error[512];
    signal(SIGPIPE, SIG_IGN);
    snprintf(stage.folder, sizeof(stage.folder), "/tmp/lockagent-fuzz.XXXXXX");
    FUZZ_CHECK(mkdtemp(stage.folder) != NULL && atexit(leave_no_files) == 0, "no folder");
    uv_loop_init(&stage.loop);
    make_config();
    log_setup(LOG_ERROR, LOG_TEXT);
    config_for_core(&stage.config, 1, stage.groups, stage.policies, stage.names,
                    &stage.core_config);
    solo_start(&stage.core_config, answered);
    backend.core = solo_core();
    backend.metrics = metrics_new(&stage.config);
    backend.redis = redis_start(&stage.loop, &stage.config, &no_sink);
    stage.api = api_start(&stage.loop, &stage.config, &backend, error, sizeof(error));
    FUZZ_CHECK(stage.api != NULL, "%s", error);
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i].fd = -1;
        callers[i].heard = malloc(HEARD);
        FUZZ_CHECK(callers[i].heard != NULL, "no memory");
    }
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Returns a copy of a header field's value within [head, end), or NULL if there is none. */
static const char *field(const char *head, const char *end, const char *name, char value[1024])
{
    size_t len = strlen(name);
    for (const char *line = head; line != NULL && (size_t)(end - line) > len + 1;) {
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            const char *from = line + len + 2;
            snprintf(value, 1024, "%.*s", (int)strcspn(from, "\r\n"), from);
            return value;
        }
        line = memchr(line, '\n', (size_t)(end - line));
        line = line == NULL ? NULL : line + 1;
    }
    return NULL;
}

static void check_json(const char *body, size_t len, int status, bool is_problem)
{
    json_error_t what;
    json_t *json = json_loadb(body, len, 0, &what);
    FUZZ_CHECK(json_is_object(json), "no JSON object: %s in %.*s", what.text, (int)len, body);
    FUZZ_CHECK(body[len - 1] == '\n', "no newline at the end of %.*s", (int)len, body);
    if (is_problem) {
        const char *code = json_string_value(json_object_get(json, "code"));
        const char *detail = json_string_value(json_object_get(json, "detail"));
        FUZZ_CHECK(code != NULL && code[0] != '\0' && detail != NULL && detail[0] != '\0', "%.*s",
                   (int)len, body);
        FUZZ_CHECK(json_integer_value(json_object_get(json, "status")) == status, "%d, but %.*s",
                   status, (int)len, body);
    }
    json_decref(json);
}

static void check_grant(const char *head, const char *end)
{
    char value[1024];
    struct token token;
    const char *text = field(head, end, "Lock-Token", value);
    FUZZ_CHECK(text != NULL && token_parse((struct text){text, strlen(text)}, &token), "no token");
    text = field(head, end, "Valid-For-Ms", value);
    FUZZ_CHECK(text != NULL && atoll(text) > 0 && atoll(text) < SOLO_TTL_MS_MAX, "no validity");
    text = field(head, end, "Location", value);
    FUZZ_CHECK(text != NULL && strncmp(text, "/locks/", 7) == 0, "no location");
}

/* Checks one reply. Returns the end of the reply, or NULL if it is not complete. */
static const char *check_reply(const char *at, const char *end)
{
    char value[1024];
    const char *head_end = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
    if (head_end == NULL)
        return NULL;
    FUZZ_CHECK(strncmp(at, "HTTP/1.", 7) == 0, "no reply: %.60s", at);
    int status = atoi(at + 9);
    const char *body = head_end + 4, *type = field(at, head_end, "Content-Type", value);
    bool problem = type != NULL && strcmp(type, "application/problem+json") == 0;
    bool json = problem || (type != NULL && strcmp(type, "application/json") == 0);
    FUZZ_CHECK(status >= 100 && status <= 599 && status != 500, "%.*s", (int)(end - at), at);
    if (status == 201)
        check_grant(at, head_end);
    const char *length = field(at, head_end, "Content-Length", value);
    size_t len = length == NULL ? 0 : (size_t)atoll(length);
    /* the answer to a HEAD */
    bool without_body = body == end || (end - body >= 7 && strncmp(body, "HTTP/1.", 7) == 0);
    if (without_body)
        return body;
    if ((size_t)(end - body) < len)
        return NULL;
    if (json)
        check_json(body, len, status, problem);
    return body + len;
}

/* Returns true if the request is plain. A plain request always gets a reply. A request line with a
 * NUL byte is not plain: the bytes behind the NUL are out of our sight, and libmicrohttpd's memory
 * may end there. */
static bool is_plain_request(const char *said, size_t len)
{
    static const char plain[] = " HTTP/1.1\r\nHost: localhost\r\n";
    const char *line_end = memchr(said, '\r', len);
    const char *found = memmem(said, len, plain, sizeof(plain) - 1);
    return len < 1000 && found != NULL && found + 9 == line_end &&
           memchr(said, '\0', (size_t)(line_end - said)) == NULL &&
           memmem(said, len, "\r\n\r\n", 4) != NULL &&
           (strncmp(said, "GET /", 5) == 0 || strncmp(said, "POST /", 6) == 0 ||
            strncmp(said, "PUT /", 5) == 0);
}

static void check_heard(struct caller *caller)
{
    FUZZ_CHECK(!caller->whole || !caller->closed || caller->heard_len > 0, "closed without a word");
    const char *at = caller->heard, *end = at + caller->heard_len;
    while (at != NULL && at < end)
        at = check_reply(at, end);
    caller->heard_len = 0;
}

/* ---- callers --------------------------------------------------------------------------------- */

static void turn(void)
{
    for (unsigned i = 0; i < TURNS; i++)
        uv_run(&stage.loop, UV_RUN_NOWAIT);
    for (unsigned i = 0; i < CALLERS; i++) {
        struct caller *caller = &callers[i];
        ssize_t got = caller->fd < 0 ? 0
                                     : recv(caller->fd, caller->heard + caller->heard_len,
                                            HEARD - 1 - caller->heard_len, MSG_DONTWAIT);
        caller->heard_len += got > 0 ? (size_t)got : 0;
        caller->closed |= got == 0 && caller->fd >= 0;
        caller->heard[caller->heard_len] = '\0';
    }
}

static void come(struct caller *caller)
{
    size_t index = (size_t)(caller - callers);
    bool tcp = index == 2;
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    inet.sin_port = htons(stage.api->listeners[LISTENER_TCP].port);
    snprintf(local.sun_path, sizeof(local.sun_path), "%s/%s", stage.folder,
             index == 3 ? "admin" : "api");
    caller->fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(caller->fd >= 0, "%s", strerror(errno));
    int failed;
    do /* libFuzzer's alarm may interrupt it */
        failed = tcp ? connect(caller->fd, (struct sockaddr *)&inet, sizeof(inet))
                     : connect(caller->fd, (struct sockaddr *)&local, sizeof(local));
    while (failed != 0 && errno == EINTR);
    FUZZ_CHECK(failed == 0, "%s", strerror(errno));
    if (tcp) { /* leaves by reset: a port that waits could not be used again in time */
        struct linger none = {.l_onoff = 1};
        setsockopt(caller->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    }
}

static void say(struct caller *caller)
{
    if (caller->said_len == 0)
        return;
    if (caller->fd < 0) {
        come(caller);
        caller->closed = false;
        caller->whole = is_plain_request(caller->said, caller->said_len);
    }
    if (send(caller->fd, caller->said, caller->said_len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        FUZZ_CHECK(errno == EPIPE || errno == ECONNRESET || errno == EAGAIN, "%s", strerror(errno));
    caller->said_len = 0;
    turn();
}

static void leave(struct caller *caller)
{
    if (caller->fd >= 0)
        close(caller->fd);
    caller->fd = -1;
    caller->said_len = 0;
    check_heard(caller);
    caller->whole = caller->closed = false;
}

static void utter(struct caller *caller, const char *bytes, size_t len)
{
    if (caller->said_len + len > sizeof(caller->said))
        say(caller);
    memcpy(caller->said + caller->said_len, bytes, len);
    caller->said_len += len;
}

static void utter_token(struct caller *caller, uint8_t which)
{
    struct token token = {.fence = 1};
    char text[TOKEN_CHARS_MAX + 1];
    solo_token(which, &token);
    utter(caller, text, token_print(&token, text));
}

/* Reads the bytes behind FF. Returns the caller that speaks next. */
static struct caller *aside(struct caller *caller, struct fuzz_bytes *bytes)
{
    uint8_t what = fuzz_byte(bytes);
    if (what == 0xff || what == 't') {
        if (what == 't')
            utter_token(caller, fuzz_byte(bytes) & 15);
        else
            utter(caller, "\xff", 1);
        return caller;
    }
    say(caller);
    switch (what) {
    case 'c':
        caller = &callers[fuzz_byte(bytes) % CALLERS];
        break;
    case 'h':
        if (caller->fd >= 0)
            shutdown(caller->fd, SHUT_WR);
        caller->whole = false;
        break;
    case 'x':
        leave(caller);
        break;
    case 's':
        solo_settle();
        break;
    default:
        solo_move(bytes);
        break;
    }
    turn();
    return caller;
}

/* Ends all callers. No connection, request or waiter of theirs may be left. */
static void sweep(void)
{
    for (unsigned i = 0; i < CALLERS; i++) {
        say(&callers[i]);
        leave(&callers[i]);
    }
    /* The admin listener rests between its turns, so that they are no measure. */
    for (uint64_t begun = uv_hrtime();
         stage.api->connections > 0 || api_unanswered(stage.api) > 0;) {
        FUZZ_CHECK(uv_hrtime() - begun < (uint64_t)ENDING_MS * 1000000,
                   "%zu connections and %zu requests are left of callers that have gone",
                   stage.api->connections, api_unanswered(stage.api));
        turn();
        solo_settle();
    }
    solo_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    struct caller *caller = &callers[0];
    if (stage.api == NULL)
        set_up();
    solo_start(&stage.core_config, answered);
    solo_calm();
    for (unsigned moves = 0; bytes.left > 0 && moves < MOVES_MAX;) {
        uint8_t byte = fuzz_byte(&bytes);
        if (byte == 0xff) {
            caller = aside(caller, &bytes);
            moves++;
        } else {
            utter(caller, (const char *)&byte, 1);
        }
    }
    say(caller);
    solo_settle();
    turn();
    sweep();
    return 0;
}
