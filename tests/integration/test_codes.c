/* Every route and every error code of the API, provoked over real sockets. A code that is missing,
 * here or in openapi.yaml, is a failure (D3). */
#include "harness.h"

#include <signal.h>
#include <string.h>

TestSuite(codes, .init = world_open, .fini = world_close, .timeout = 60);

/* The whole table. */
static const struct {
    long status;
    const char *code;
} table[] = {
    {409, "lock_held"},          {409, "wait_timeout"},   {503, "quorum_unavailable"},
    {503, "validity_expired"},   {503, "renew_failed"},   {410, "lock_lost"},
    {202, "release_pending"},    {400, "token_required"}, {412, "token_mismatch"},
    {404, "not_held"},           {400, "bad_request"},    {401, "unauthorized"},
    {403, "origin_refused"},     {421, "misdirected"},    {404, "not_found"},
    {405, "method_not_allowed"}, {406, "not_acceptable"}, {415, "unsupported_media_type"},
    {413, "body_too_large"},     {414, "uri_too_long"},   {431, "headers_too_large"},
    {408, "request_timeout"},    {429, "too_many_locks"}, {429, "too_many_waiters"},
    {503, "draining"},           {409, "superseded"},     {409, "idempotency_mismatch"},
    {503, "overloaded"},
};
enum { CODES = sizeof(table) / sizeof(*table) };
static bool seen[CODES];

static void saw(const struct reply *reply, const char *expected)
{
    for (size_t i = 0; i < CODES; i++) {
        if (strcmp(table[i].code, expected) != 0)
            continue;
        expect(reply, table[i].status, expected);
        const char *type = header(reply, "Content-Type");
        cr_assert(reply->status < 400 || (type && strstr(type, "application/problem+json")),
                  "%s: %s", expected, reply->headers);
        const bool retry = !strcmp(expected, "lock_held") ||
                           !strcmp(expected, "quorum_unavailable") ||
                           !strncmp(expected, "too_many_", 9) || !strcmp(expected, "draining") ||
                           !strcmp(expected, "overloaded");
        cr_assert(!retry || header(reply, "Retry-After"), "%s without Retry-After", expected);
        seen[i] = true;
        return;
    }
    cr_assert_fail("%s is not in the table", expected);
}

static const struct reply *say(const struct agent *agent, const char *request_line,
                               const char *headers)
{
    return wire_exchange(agent, format("%s HTTP/1.1\r\n%s\r\n", request_line, headers));
}

static void refusals_of_requests(struct agent *agent)
{
    static const char nobody[] = "00112233445566778899aabbccddeeff00112233.7";
    const struct reply *holder = acquire(agent, "k", "ttl=60s");
    expect(holder, 201, NULL);
    saw(acquire(agent, "k", NULL), "lock_held");
    saw(acquire(agent, "k", "wait=200ms"), "wait_timeout");
    static const char retry[] = "Host: localhost\r\nIdempotency-Key: 0123456789abcdef\r\n";
    expect(say(agent, "POST /locks/retried?ttl=60s", retry), 201, NULL);
    saw(say(agent, "POST /locks/retried?ttl=50s", retry), "idempotency_mismatch");
    expect(say(agent, "DELETE /locks/retried", retry), 204, NULL);
    saw(say(agent, "POST /locks/retried?ttl=60s", retry), "superseded");
    saw(http(agent, &(struct call){.method = "DELETE", .path = "/locks/k"}), "token_required");
    saw(release(agent, "k", nobody), "token_mismatch");
    saw(release(agent, "free", nobody), "not_held");
    saw(acquire(agent, "k", "ttl=7"), "bad_request");
    saw(say(agent, "GET /locks/k", "Host: localhost\r\nOrigin: http://localhost\r\n"),
        "origin_refused");
    saw(say(agent, "GET /locks/k", "Host: example.com\r\n"), "misdirected");
    saw(say(agent, "GET /nowhere", "Host: localhost\r\n"), "not_found");
    saw(say(agent, "PATCH /locks/k", "Host: localhost\r\n"), "method_not_allowed");
    saw(say(agent, "GET /locks/k", "Host: localhost\r\nAccept: image/gif\r\n"), "not_acceptable");
    const struct call xml = {.method = "POST",
                             .path = "/locks/k",
                             .headers = {"Content-Type: text/xml"},
                             .body = "<ttl/>"};
    saw(http(agent, &xml), "unsupported_media_type");
    const char *large = format(
        "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n%s",
        repeat("x", 200000));
    saw(say(agent, "POST /locks/k", large), "body_too_large");
    give_back(agent, "k", token(holder));
    /* max_hold clips the validity to nothing: the grant is undone (R4). */
    saw(acquire(agent, "short", "ttl=60s&max_hold=1ms"), "validity_expired");
    cr_assert(eventually(masters_with("lock:short") == 0));
}

/* These three end in libmicrohttpd, before the agent sees a request. The status can be promised,
 * and a code if there is one. */
static void refusals_of_the_http_layer(struct agent *agent)
{
    const struct {
        const struct reply *reply;
        const char *code;
    } cases[] = {
        {say(agent, format("GET /locks/%s", repeat("x", 50000)), "Host: localhost\r\n"),
         "uri_too_long"},
        {say(agent, "GET /locks/k",
             format("Host: localhost\r\nX-Filler: %s\r\n", repeat("x", 50000))),
         "headers_too_large"},
        {wire_exchange(agent, "GET /locks/k HTTP/1.1\r\nHost: loc"), "request_timeout"},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        for (size_t i = 0; i < CODES; i++) {
            if (strcmp(table[i].code, cases[c].code) != 0)
                continue;
            /* A connection that is closed without a word is as good as 408. */
            const bool closed = cases[c].reply->status == 0 && table[i].status == 408;
            cr_assert(closed || cases[c].reply->status == table[i].status, "%s: %ld", cases[c].code,
                      cases[c].reply->status);
            cr_assert(!*code(cases[c].reply) || !strcmp(code(cases[c].reply), cases[c].code), "%s",
                      cases[c].reply->body);
            seen[i] = true;
        }
    }
}

static void refusals_of_full_tables(struct agent *agent)
{
    const struct reply *first = acquire(agent, "1", "ttl=60s"),
                       *second = acquire(agent, "2", "ttl=60s");
    expect(first, 201, NULL);
    expect(second, 201, NULL);
    saw(acquire(agent, "3", "ttl=60s"), "too_many_locks");
    const int waiter = wire_request(agent, "POST", "/locks/1?wait=60s", NULL);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 1));
    saw(acquire(agent, "1", "wait=1s"), "too_many_waiters");
    wire_close(waiter);
    give_back(agent, "1", token(first));
    give_back(agent, "2", token(second));
}

/* Rounds that no master answers hold all places (R16). */
static void refusals_of_a_long_line(void)
{
    enum { PLACES = 64 };
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "5s"});
    int wires[PLACES];
    for (size_t m = 0; m < master_count(); m++)
        master_freeze(m);
    for (size_t i = 0; i < PLACES; i++)
        wires[i] = wire_request(agent, "POST", format("/locks/place/%zu?wait=60s", i), NULL);
    cr_assert(
        eventually(metric(agent, "lockagent_group_rounds_in_flight{group=\"main\"}") == PLACES));
    saw(acquire(agent, "one-more", "wait=100ms"), "overloaded");
    for (size_t i = 0; i < PLACES; i++)
        wire_close(wires[i]);
    for (size_t m = 0; m < master_count(); m++)
        master_thaw(m);
    agent_stop(agent);
}

static void refusals_of_dead_masters(struct agent *agent)
{
    /* The masters were frozen until now: their connections may have ended. */
    const struct reply *held = acquire(agent, "held", "ttl=2s&max_hold=1500ms&wait=5s");
    const struct reply *owed = acquire(agent, "owed", "ttl=60s&wait=5s");
    expect(held, 201, NULL);
    expect(owed, 201, NULL);
    master_kill(0);
    master_kill(1);
    saw(renew(agent, "held", token(held), NULL), "renew_failed");
    saw(release(agent, "owed", token(owed)), "release_pending");
    sleep_ms(2100);
    saw(renew(agent, "held", token(held), NULL), "lock_lost");
    saw(acquire(agent, "other", "ttl=2s"), "quorum_unavailable");
}

static void refusals_of_one_who_leaves(struct agent *agent)
{
    const int waiter = wire_request(agent, "POST", "/locks/k?wait=60s", NULL);
    sleep_ms(100);
    agent_signal(agent, SIGTERM);
    saw(wire_receive(waiter, PATIENCE_MS), "draining");
    wire_close(waiter);
    cr_assert_eq(agent_ended(agent), 0);
}

Test(codes, every_one)
{
    masters_start(3, MASTERS_DURABLE);
    struct agent *agent = agent_start(&(struct agent_options){
        .node_timeout = "500ms",
        .extra = "limits: {locks: 2, waiters: 1, connections: 128, header_timeout: 1s}\n"});
    struct agent *guarded = agent_start(
        &(struct agent_options){.not_ready = true,
                                .extra = format("api: {token_file: %s}\n",
                                                write_file("token", "a-token-of-some-length\n"))});
    saw(acquire(guarded, "k", NULL), "unauthorized");
    const char *openapi = get(agent, "/openapi.yaml")->body;
    refusals_of_requests(agent);
    refusals_of_the_http_layer(agent);
    refusals_of_full_tables(agent);
    refusals_of_a_long_line();
    refusals_of_dead_masters(agent);
    refusals_of_one_who_leaves(agent);
    for (size_t i = 0; i < CODES; i++) {
        cr_expect(seen[i], "%s was not provoked", table[i].code);
        cr_expect(strstr(openapi, table[i].code), "openapi.yaml does not name %s", table[i].code);
        cr_expect(strstr(openapi, format("%ld", table[i].status)), "openapi.yaml does not name %ld",
                  table[i].status);
    }
}

/* openapi.yaml names every route, and every route that it names is there. */
Test(codes, every_route)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const char *openapi = get(agent, "/openapi.yaml")->body;
    static const char *const routes[] = {
        "/locks/{key}", "/locks",        "/metrics",          "/livez", "/readyz",
        "/healthz",     "/openapi.yaml", "/openapi-3.0.yaml", "/"};
    for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++)
        cr_assert_not_null(strstr(openapi, format("\n  %s:", routes[i])),
                           "%s is not in openapi.yaml", routes[i]);
    char *place = NULL;
    size_t named = 0;
    for (char *line = strtok_r(format("%s", openapi), "\n", &place); line;
         line = strtok_r(NULL, "\n", &place)) {
        if (strncmp(line, "  /", 3) != 0)
            continue;
        char *path = format("%.*s", (int)strcspn(line + 2, ":"), line + 2);
        const struct reply *reply = get(agent, strstr(path, "{key}") ? "/locks/k" : path);
        cr_assert_eq(reply->status, 200, "%s: %ld", path, reply->status);
        named++;
    }
    cr_assert_geq(named, sizeof(routes) / sizeof(*routes));
}
