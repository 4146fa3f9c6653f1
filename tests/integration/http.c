/* HTTP as callers speak it (libcurl), and as no caller should (bare sockets). */
#include "world.h"

#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct sink {
    char *bytes;
    size_t length, size;
};

static size_t add(char *bytes, size_t one, size_t count, void *arg)
{
    struct sink *sink = arg;
    const size_t length = one * count;
    if (sink->length + length + 1 > sink->size) {
        sink->size = 2 * (sink->length + length) + 512;
        sink->bytes = realloc(sink->bytes, sink->size);
        cr_assert_not_null(sink->bytes);
    }
    memcpy(sink->bytes + sink->length, bytes, length);
    sink->length += length;
    sink->bytes[sink->length] = '\0';
    return length;
}

static CURL *curl;

static void understand(struct reply *reply)
{
    const char *type = header(reply, "Content-Type");
    if (!type || !strstr(type, "json"))
        return;
    json_error_t error;
    reply->json = json_loadb(reply->body, reply->body_length, 0, &error);
    cr_assert(reply->json || !reply->body_length, "bad JSON: %s in %s", error.text, reply->body);
    if (reply->json)
        keep_json(reply->json);
}

static struct curl_slist *set_headers(const struct agent *agent, const struct call *call)
{
    /* No Expect: 100-continue, and only the type that the test gives. */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    for (size_t i = 0; i < sizeof(call->headers) / sizeof(*call->headers) && call->headers[i]; i++)
        list = curl_slist_append(list, call->headers[i]);
    if (agent->bearer)
        list = curl_slist_append(list, format("Authorization: Bearer %s", agent->bearer));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    return list;
}

static void set_body(const struct call *call)
{
    if (!call->body)
        return;
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(call->body));
}

/* Metrics are worded every 250 ms and shared until then: a test asks for the present state. */
static int64_t metrics_came_ms;

static void let_metrics_age(void)
{
    enum { SHARED_MS = 300 };
    const int64_t age_ms = boottime_ms() - metrics_came_ms;
    if (age_ms < SHARED_MS)
        sleep_ms(SHARED_MS - age_ms);
}

/* One handle for all calls keeps connections alive, as a decent client does. */
struct reply *http(const struct agent *agent, const struct call *call)
{
    if (!curl)
        curl = curl_easy_init();
    curl_easy_reset(curl);
    const char *method = call->method ? call->method : "GET";
    if (!strcmp(call->path, "/metrics"))
        let_metrics_age();
    const int port = call->admin ? agent->admin_port : agent->port;
    struct sink head = {0}, body = {0};
    add((char *)(uintptr_t) "", 1, 0, &head);
    add((char *)(uintptr_t) "", 1, 0, &body);
    if (call->over_unix || !port)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, agent->unix_path);
    curl_easy_setopt(curl, CURLOPT_URL,
                     format("http://127.0.0.1:%d%s", port ? port : 80, call->path));
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(call->timeout_ms ? call->timeout_ms : 30000));
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, add);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &head);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, add);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
    set_body(call);
    if (!strcmp(method, "HEAD"))
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    struct curl_slist *headers = set_headers(agent, call);
    const CURLcode result = curl_easy_perform(curl);
    if (!strcmp(call->path, "/metrics"))
        metrics_came_ms = boottime_ms();
    curl_slist_free_all(headers);

    struct reply *reply = keep(calloc(1, sizeof(*reply)));
    reply->headers = keep(head.bytes);
    reply->body = keep(body.bytes);
    reply->body_length = body.length;
    if (result == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply->status);
    else
        reply->status = result == CURLE_OPERATION_TIMEDOUT ? -1 : 0;
    understand(reply);
    return reply;
}

void http_close(void)
{
    if (curl)
        curl_easy_cleanup(curl);
    curl = NULL;
    curl_global_cleanup();
}

struct reply *get(const struct agent *agent, const char *path)
{
    return http(agent, &(struct call){.path = path});
}

static const char *lock_path(const char *key, const char *parameters)
{
    return parameters ? format("/locks/%s?%s", key, parameters) : format("/locks/%s", key);
}

struct reply *acquire(const struct agent *agent, const char *key, const char *parameters)
{
    return http(agent, &(struct call){.method = "POST", .path = lock_path(key, parameters)});
}

struct reply *acquire_free(const struct agent *agent, const char *key, const char *parameters)
{
    struct reply *granted = acquire(agent, key, format("%s&wait=10s", parameters));
    expect(granted, 201, NULL);
    return granted;
}

struct reply *renew(const struct agent *agent, const char *key, const char *token,
                    const char *parameters)
{
    return http(agent, &(struct call){.method = "PUT",
                                      .path = lock_path(key, parameters),
                                      .headers = {format("Lock-Token: %s", token)}});
}

struct reply *release(const struct agent *agent, const char *key, const char *token)
{
    return http(agent, &(struct call){.method = "DELETE",
                                      .path = lock_path(key, NULL),
                                      .headers = {format("Lock-Token: %s", token)}});
}

void give_back(const struct agent *agent, const char *key, const char *token)
{
    const struct reply *released = release(agent, key, token);
    if (released->status == 204)
        return;
    expect(released, 202, NULL);
    cr_assert(eventually((released = release(agent, key, token))->status != 202));
    /* Masters have confirmed it between two questions, and the next caller may have the lock. */
    if (released->status == 412)
        expect(released, 412, "token_mismatch");
    else if (released->status != 204)
        expect(released, 404, "not_held");
}

struct reply *expect_lock_held(const struct agent *agent, const char *key, const char *parameters)
{
    struct reply *refused;
    unsigned tries = 0;
    do
        refused = acquire(agent, key, parameters);
    while (refused->status == 503 && !strcmp(code(refused), "quorum_unavailable") && ++tries < 10);
    expect(refused, 409, "lock_held");
    return refused;
}

static int64_t valid_until_ms(const struct agent *agent, const char *key)
{
    return number(get(agent, lock_path(key, NULL)), "hold.valid_until_boottime_ms");
}

void await_renewal(const struct agent *agent, const char *key)
{
    const int64_t before = valid_until_ms(agent, key);
    cr_assert_gt(before, 0, "%s is not held here", key);
    cr_assert(eventually(valid_until_ms(agent, key) > before), "%s was not renewed", key);
}

void release_or_owe(const struct agent *agent, const char *key, const char *token)
{
    const struct reply *released = release(agent, key, token);
    if (released->status != 204)
        expect(released, 202, NULL);
}

/* ---- contents of a reply --------------------------------------------------------------------- */

const char *header(const struct reply *reply, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = reply->headers; *line;
         line += strcspn(line, "\n"), line += *line == '\n') {
        if (!strncasecmp(line, name, length) && line[length] == ':') {
            const char *value = line + length + 1;
            value += strspn(value, " ");
            return format("%.*s", (int)strcspn(value, "\r\n"), value);
        }
    }
    return NULL;
}

const json_t *member(const struct reply *reply, const char *path)
{
    const json_t *at = reply->json;
    char *place = NULL;
    for (char *name = strtok_r(format("%s", path), ".", &place); name && at;
         name = strtok_r(NULL, ".", &place))
        at = json_object_get(at, name);
    return at;
}

int64_t number(const struct reply *reply, const char *path)
{
    const json_t *value = member(reply, path);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

const char *string(const struct reply *reply, const char *path)
{
    return json_string_value(member(reply, path));
}

const char *code(const struct reply *reply)
{
    const char *text = string(reply, "code");
    return text ? text : "";
}

const char *token(const struct reply *reply)
{
    const char *text = string(reply, "token");
    cr_assert_not_null(text, "no token in %ld: %s", reply->status, reply->body);
    return text;
}

void expect_reply(const struct reply *reply, long status, const char *expected_code,
                  const char *file, int line)
{
    cr_assert(reply->status == status && (!expected_code || !strcmp(code(reply), expected_code)),
              "%s:%d: expected %ld %s, got %ld: %s", file, line, status,
              expected_code ? expected_code : "", reply->status, reply->body);
}

const char *key_state(const struct agent *agent, const char *key)
{
    const struct reply *reply = get(agent, lock_path(key, NULL));
    expect(reply, 200, NULL);
    const char *state = string(reply, "state");
    cr_assert_not_null(state, "no state in %s", reply->body);
    return state;
}

bool held_here(const struct agent *agent, const char *key)
{
    const struct reply *reply = get(agent, lock_path(key, NULL));
    expect(reply, 200, NULL);
    return json_is_object(member(reply, "hold"));
}

double metric(const struct agent *agent, const char *series)
{
    const struct reply *reply =
        http(agent, &(struct call){.path = "/metrics", .admin = agent->admin_port != 0});
    expect(reply, 200, NULL);
    const char *at = strstr(format("\n%s", reply->body), format("\n%s ", series));
    return at ? atof(at + 1 + strlen(series)) : -1;
}

int waiting_at(const struct agent *agent)
{
    const struct reply *page = get(agent, "/");
    int waiting = 0;
    expect(page, 200, NULL);
    const char *at = strstr(page->body, "id=\"waiting\"");
    cr_assert(at && sscanf(at, "id=\"waiting\" value=\"%d\"", &waiting) == 1, "%s", page->body);
    return waiting;
}

/* ---- bare sockets ---------------------------------------------------------------------------- */

int wire_open(const struct agent *agent)
{
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_port = htons((uint16_t)agent->port)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool tcp = agent->port != 0;
    if (!tcp)
        snprintf(local.sun_path, sizeof(local.sun_path), "%s", agent->unix_path);
    const int wire = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(wire, 0);
    cr_assert_eq(tcp ? connect(wire, (struct sockaddr *)&inet, sizeof(inet))
                     : connect(wire, (struct sockaddr *)&local, sizeof(local)),
                 0, "connect: %s", strerror(errno));
    return wire;
}

/* Bytes that the agent refuses to read are lost: the reply is what counts. */
void wire_send(int wire, const char *bytes, size_t length)
{
    while (length) {
        const ssize_t sent = send(wire, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return;
        bytes += sent;
        length -= (size_t)sent;
    }
}

void wire_say(int wire, const char *text)
{
    wire_send(wire, text, strlen(text));
}

/* Returns the length of the reply in `bytes` once it is complete, otherwise 0. */
static size_t complete(const char *bytes, size_t length)
{
    const char *end = strstr(bytes, "\r\n\r\n"), *field;
    if (!end)
        return 0;
    const size_t head = (size_t)(end - bytes) + 4;
    field = strcasestr(bytes, "\r\nContent-Length:");
    const size_t body = field && field < end ? strtoul(field + 17, NULL, 10) : 0;
    return length >= head + body ? head + body : 0;
}

static void take_apart(struct reply *reply, const struct sink *sink)
{
    const char *end = strstr(sink->bytes, "\r\n\r\n");
    if (sscanf(sink->bytes, "HTTP/1.%*d %ld", &reply->status) != 1 || !end)
        return;
    const size_t head = (size_t)(end - sink->bytes) + 4;
    reply->headers = format("%.*s", (int)head, sink->bytes);
    reply->body = sink->bytes + head;
    reply->body_length = sink->length - head;
    understand(reply);
}

struct reply *wire_receive(int wire, int64_t timeout_ms)
{
    const int64_t until = boottime_ms() + timeout_ms;
    struct sink sink = {0};
    struct reply *reply = keep(calloc(1, sizeof(*reply)));
    reply->headers = reply->body = "";
    add((char *)(uintptr_t) "", 1, 0, &sink);
    while (!complete(sink.bytes, sink.length)) {
        char bytes[4096];
        const int64_t left = until - boottime_ms();
        struct pollfd ready = {.fd = wire, .events = POLLIN};
        if (left <= 0 || poll(&ready, 1, (int)left) == 0) {
            reply->status = -1;
            break;
        }
        /* One byte at a time would be exact with pipelining; no test here pipelines. */
        const ssize_t got = recv(wire, bytes, sizeof(bytes), 0);
        if (got <= 0)
            break;
        add(bytes, 1, (size_t)got, &sink);
    }
    keep(sink.bytes);
    if (reply->status == 0)
        take_apart(reply, &sink);
    return reply;
}

void wire_close(int wire)
{
    close(wire);
}

bool wire_is_silent(int wire)
{
    struct pollfd ready = {.fd = wire, .events = POLLIN};
    return poll(&ready, 1, 0) == 0;
}

void wire_expect_event(int wire, const char *event, const char *part)
{
    char told[8192];
    size_t length = 0;
    const char *line = NULL;
    const int64_t until = boottime_ms() + PATIENCE_MS;
    for (told[0] = '\0'; (line == NULL || strchr(line, '}') == NULL) && boottime_ms() < until;
         told[length] = '\0', line = strstr(told, event)) {
        const ssize_t got = recv(wire, told + length, sizeof(told) - 1 - length, MSG_DONTWAIT);
        length += got > 0 ? (size_t)got : 0;
        if (got <= 0)
            sleep_ms(10);
    }
    cr_assert(line != NULL && strstr(line, part) != NULL, "%s", told);
}

int wire_open_deaf(const struct agent *agent)
{
    const int small = 1024, wire = wire_open(agent);
    cr_assert_eq(setsockopt(wire, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    return wire;
}

const char *wire_unread_token(int wire)
{
    char grant[4096] = "", text[80];
    const char *at = NULL;
    cr_assert(eventually(recv(wire, grant, sizeof(grant) - 1, MSG_PEEK | MSG_DONTWAIT) > 300));
    at = strstr(grant, "Lock-Token: ");
    cr_assert(at && sscanf(at, "Lock-Token: %79[^\r]", text) == 1, "%s", grant);
    return format("%s", text);
}

int wire_request(const struct agent *agent, const char *method, const char *path,
                 const char *headers)
{
    const int wire = wire_open(agent);
    wire_say(wire,
             format("%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s\r\n", method, path,
                    agent->bearer ? format("Authorization: Bearer %s\r\n", agent->bearer) : "",
                    headers ? headers : "", headers ? "\r\n" : ""));
    return wire;
}

struct reply *wire_exchange(const struct agent *agent, const char *bytes)
{
    const int wire = wire_open(agent);
    wire_say(wire, bytes);
    struct reply *reply = wire_receive(wire, PATIENCE_MS);
    wire_close(wire);
    return reply;
}

struct reply *wire_ask(const struct agent *agent, const char *method, const char *target,
                       const char *headers, const char *body)
{
    const char *length = body ? format("Content-Length: %zu\r\n", strlen(body)) : "";
    return wire_exchange(agent, format("%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n%s", method,
                                       target, headers ? headers : "", length, body ? body : ""));
}
