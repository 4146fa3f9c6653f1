/* Accepted and refused requests of the API: keys, parameters, bodies, headers and methods (D3,
 * D9). */
#include "harness.h"

#include <string.h>

TestSuite(http, .init = world_open, .fini = world_close, .timeout = 60);

/* Every refusal is problem+json (RFC 9457) with the status repeated and a stable code. */
static void expect_problem(const struct reply *reply, long status, const char *what)
{
    cr_assert_eq(reply->status, status, "%s: expected %ld, got %ld: %s", what, status,
                 reply->status, reply->body);
    cr_assert_not_null(header(reply, "Content-Type"), "%s", what);
    cr_assert_not_null(strstr(header(reply, "Content-Type"), "application/problem+json"), "%s: %s",
                       what, reply->headers);
    cr_assert_eq(number(reply, "status"), status, "%s: %s", what, reply->body);
    cr_assert_str_not_empty(code(reply), "%s: %s", what, reply->body);
    cr_assert_not_null(string(reply, "title"), "%s: %s", what, reply->body);
}

Test(http, keys)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const char *bad[] = {
        "%00",
        "a%00b",
        "a%00",
        "a%",
        "a%2",
        "a%zz",
        "%g0",
        "a%0ab",
        "%7f",
        "%ff",
        "%c3",
        "%c3%28",
        "%ed%a0%80",
        "%c0%af",
        "%f5%80%80%80",
        "/a",
        "a/",
        "a//b",
        "a%2f%2fb",
        "%2fa",
        "a%2f",
        ".",
        "..",
        "a/./b",
        "a/../b",
        "%2e%2e",
        "a/%2e/b",
        "a/..",
        format("%s", repeat("k", 513)),
        format("%s", repeat("%C3%BC", 257)),
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        static const char *const methods[] = {"POST", "GET", "PUT", "DELETE"};
        const struct reply *reply =
            wire_ask(agent, methods[i % 4], format("/locks/%s", bad[i]), NULL, NULL);
        expect_problem(reply, 400, bad[i]);
        cr_assert_str_eq(code(reply), "bad_request", "%s", bad[i]);
        expect_problem(wire_ask(agent, "POST", format("/locks/%s", bad[i]), NULL, NULL), 400,
                       bad[i]);
    }
    cr_assert(eventually(master_do(0, "EXISTS lockagent:votes")->integer == 1));
    cr_assert_eq(master_do(0, "DBSIZE")->integer, 3,
                 "a bad key reached a master, which had only its marker, its vote and layouts");

    static const struct {
        const char *target, *key;
    } good[] = {
        {"a", "a"},
        {"a/b/c", "a/b/c"},
        {"a%2Fb", "a/b"},
        {"%C3%BCber", "\xc3\xbc"
                      "ber"},
        {"a%20b", "a b"},
        {"a+b", "a+b"},
        {"%25", "%"},
        {"a.b", "a.b"},
        {"...", "..."},
        {"lockagent:x", "lockagent:x"},
        {"q%3Fx", "q?x"},
        {"%F0%9F%94%92", "\xf0\x9f\x94\x92"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        const struct reply *granted = wire_ask(
            agent, "POST", format("/locks/%s?ttl=5s&wait=10s", good[i].target), NULL, NULL);
        cr_assert_eq(granted->status, 201, "%s: %ld %s", good[i].target, granted->status,
                     granted->body);
        cr_assert_str_eq(string(granted, "key"), good[i].key);
        cr_assert(eventually(master_do(0, "EXISTS lock:%s", good[i].key)->integer == 1));
        give_back(agent, good[i].target, token(granted));
    }
    const char *longest = repeat("k", 512);
    give_back(agent, longest, token(acquire_free(agent, longest, "ttl=5s")));
}

/* D3: a key that would fall among our own keys is refused if no prefix keeps it apart. */
Test(http, keys_without_a_prefix)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.group = "      username: default\n",
                                            .extra = "policies:\n  - {match: '*', prefix: ''}\n"});
    expect(acquire(agent, "lockagent:number:x", "ttl=5s"), 400, "bad_request");
    expect(acquire(agent, "lockagent:marker", "ttl=5s"), 400, "bad_request");
    acquire_free(agent, "plain", "ttl=5s");
    cr_assert_geq(masters_with("plain"), 2u);
}

/* Each refusal names the parameter, its value, and the allowed values. */
Test(http, bad_parameters)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct {
        const char *parameters, *named;
    } bad[] = {
        {"tt=1s", "tt"},
        {"ttl=1s&ttl=1s", "ttl"},
        {"TTL=1s", "TTL"},
        {"ttl=10", "ttl"},
        {"ttl=abc", "ttl"},
        {"ttl=", "ttl"},
        {"ttl", "ttl"},
        {"ttl=-1s", "ttl"},
        {"ttl=1x", "ttl"},
        {"ttl=1s2s", "ttl"},
        {"ttl=99999999999999999999s", "ttl"},
        {"ttl=9223372036854775807h", "ttl"},
        {"ttl=0s", "ttl"},
        {"ttl=50ms", "ttl"},
        {"ttl=700ms", "ttl"},
        {"ttl=61s", "ttl"},
        {"ttl=%00", "ttl"},
        {"ttl=1s%", NULL},
        {"ttl=nan", "ttl"},
        {"ttl=1e3s", "ttl"},
        {"ttl=0x10s", "ttl"},
        {"ttl=%201s", "ttl"},
        {"wait=6m", "wait"},
        {"wait=1", "wait"},
        {"wait=forever", "wait"},
        {"renew=maybe", "renew"},
        {"renew=", "renew"},
        {"max_hold=x", "max_hold"},
        {"max_hold=0s", "max_hold"},
        {"ttl=900ms&renew=agent", NULL},
        {"keys=a", "keys"},
        {"a=1&b=2", "a"},
        {format("label=%s", repeat("x", 65)), "label"},
        {"label=a%0ab", "label"},
        {"label=%ff", "label"},
        {"=1s", NULL},
        {"%74tl=1s&ttl=1s", "ttl"},
        {"mode=sideways", "mode"},
        {"bind=rope", "bind"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const struct reply *reply =
            wire_ask(agent, "POST", format("/locks/k?%s", bad[i].parameters), NULL, NULL);
        expect_problem(reply, 400, bad[i].parameters);
        cr_assert_str_eq(code(reply), "bad_request", "%s", bad[i].parameters);
        if (bad[i].named)
            cr_assert_not_null(strstr(reply->body, bad[i].named), "%s is not named: %s",
                               bad[i].named, reply->body);
        const struct reply *form =
            wire_ask(agent, "POST", "/locks/k",
                     "Content-Type: application/x-www-form-urlencoded\r\n", bad[i].parameters);
        expect_problem(form, 400, bad[i].parameters);
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
    /* A parameter of another call is an unknown one. */
    const struct reply *granted = acquire(agent, "k", "ttl=20s");
    expect(renew(agent, "k", token(granted), "wait=1s"), 400, "bad_request");
    expect(renew(agent, "k", token(granted), "label="), 400, "bad_request");
    expect(http(agent, &(struct call){.method = "DELETE",
                                      .path = "/locks/k?ttl=1s",
                                      .headers = {format("Lock-Token: %s", token(granted))}}),
           400, "bad_request");
    expect(get(agent, "/locks/k?ttl=1s"), 400, "bad_request");
    give_back(agent, "k", token(granted));
}

/* Query, form and JSON carry the same names with the same checks. */
Test(http, three_ways_to_say_it)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct {
        const char *path, *type, *body;
    } ways[] = {
        {"/locks/k?ttl=7s&label=night%20shift&renew=agent&max_hold=9s&wait=0s", NULL, NULL},
        {"/locks/k", "Content-Type: application/x-www-form-urlencoded",
         "ttl=7s&label=night%20shift&renew=agent&max_hold=9s"},
        {"/locks/k", "Content-Type: application/x-www-form-urlencoded; charset=UTF-8",
         "ttl=7s&label=night+shift&renew=agent&max_hold=9s"},
        {"/locks/k", "Content-Type: application/json",
         "{\"ttl\":\"7s\",\"label\":\"night shift\",\"renew\":\"agent\",\"max_hold\":\"9s\"}"},
        {"/locks/k?ttl=7s", "Content-Type: application/json; charset=utf-8",
         "{\"label\":\"night shift\",\"renew\":\"agent\",\"max_hold\":\"9s\"}"},
        {"/locks/k?renew=agent&label=night%20shift",
         "Content-Type: application/x-www-form-urlencoded", "ttl=7s&max_hold=9s"},
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        const struct reply *granted = http(agent, &(struct call){.method = "POST",
                                                                 .path = ways[i].path,
                                                                 .headers = {ways[i].type},
                                                                 .body = ways[i].body});
        cr_assert_eq(granted->status, 201, "way %zu: %s", i, granted->body);
        cr_assert_eq(number(granted, "ttl_ms"), 7000, "way %zu", i);
        cr_assert_eq(number(granted, "max_hold_ms"), 9000, "way %zu", i);
        cr_assert_str_eq(string(granted, "renew"), "agent", "way %zu", i);
        cr_assert_str_eq(string(get(agent, "/locks/k"), "holder"), "night shift", "way %zu", i);
        /* The token travels in the header, in the query, in a form or in JSON. */
        const char *given = token(granted);
        const struct call calls[] = {
            {.method = "PUT", .path = format("/locks/k?token=%s", given)},
            {.method = "PUT",
             .path = "/locks/k",
             .body = format("token=%s&ttl=8s", given),
             .headers = {"Content-Type: application/x-www-form-urlencoded"}},
            {.method = "PUT",
             .path = "/locks/k",
             .body = format("{\"token\":\"%s\"}", given),
             .headers = {"Content-Type: application/json"}},
            {.method = "PUT", .path = "/locks/k", .headers = {format("lock-token:%s", given)}},
        };
        for (size_t c = 0; c < sizeof(calls) / sizeof(*calls); c++)
            cr_assert_eq(http(agent, &calls[c])->status, 200, "way %zu call %zu: %s", i, c,
                         http(agent, &calls[c])->body);
        const struct reply *released =
            i % 2
                ? http(agent, &(struct call){.method = "DELETE",
                                             .path = format("/locks/k?token=%s", given)})
                : http(agent, &(struct call){
                                  .method = "DELETE",
                                  .path = "/locks/k",
                                  .body = format("token=%s", given),
                                  .headers = {"Content-Type: application/x-www-form-urlencoded"}});
        expect(released, 204, NULL);
    }
}

Test(http, bad_bodies)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    static const char *const json[] = {
        "{",
        "[]",
        "\"ttl\"",
        "7",
        "null",
        "{\"ttl\":7}",
        "{\"ttl\":null}",
        "{\"ttl\":\"7s\",\"ttl\":\"7s\"}",
        "{\"ttl\":[\"7s\"]}",
        "{\"tt\":\"7s\"}",
        "{\"ttl\":\"7s\"} x",
        "{'ttl':'7s'}",
        "{\"ttl\":\"7s\\u0000\"}",
        "{\"ttl\":{\"a\":\"7s\"}}",
        "\xff\xfe",
    };
    for (size_t i = 0; i < sizeof(json) / sizeof(*json); i++)
        expect_problem(
            wire_ask(agent, "POST", "/locks/k", "Content-Type: application/json\r\n", json[i]), 400,
            json[i]);
    expect_problem(wire_ask(agent, "POST", "/locks/k", "Content-Type: application/json\r\n",
                            format("%s%s", repeat("[", 2040), repeat("]", 2040))),
                   400, "deep nesting");
    expect_problem(wire_ask(agent, "POST", "/locks/k?ttl=5s", "Content-Type: application/json\r\n",
                            "{\"ttl\":\"5s\"}"),
                   400, "doubled between query and body");
    expect_problem(
        wire_ask(agent, "POST", "/locks/k", "Content-Type: application/xml\r\n", "<ttl>5s</ttl>"),
        415, "xml");
    expect_problem(wire_ask(agent, "POST", "/locks/k",
                            "Content-Type: multipart/form-data; boundary=x\r\n", "--x--"),
                   415, "multipart");
    expect_problem(wire_ask(agent, "POST", "/locks/k",
                            "Content-Type: application/x-www-form-urlencoded\r\n",
                            repeat("x", 70000)),
                   413, "large body");
    /* The same without a declared length. */
    const char *chunk = format("1000\r\n%s\r\n", repeat("x", 4096));
    const struct reply *chunked =
        wire_exchange(agent, format("POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                    "application/x-www-form-urlencoded\r\n"
                                    "Transfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n",
                                    repeat(chunk, 20)));
    expect_problem(chunked, 413, "large chunked body");
    cr_assert_eq(masters_with("lock:k"), 0u);
    const struct reply *small = wire_exchange(
        agent, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
               "application/x-www-form-urlencoded\r\n"
               "Transfer-Encoding: chunked\r\n\r\n6\r\nttl=20\r\n1\r\ns\r\n0\r\n\r\n");
    expect(small, 201, NULL);
    cr_assert_eq(number(small, "ttl_ms"), 20000);
}

Test(http, methods_paths_and_types)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    static const struct {
        const char *method, *target, *headers;
        long status;
    } cases[] = {
        {"PATCH", "/locks/k", NULL, 405},
        {"OPTIONS", "/locks/k", NULL, 405},
        {"BREW", "/locks/k", NULL, 405},
        {"post", "/locks/k", NULL, 405},
        {"TRACE", "/locks/k", NULL, 405},
        {"DELETE", "/metrics", NULL, 405},
        {"POST", "/livez", NULL, 405},
        {"PUT", "/readyz", NULL, 405},
        {"POST", "/healthz", NULL, 405},
        {"POST", "/openapi.yaml", NULL, 405},
        {"OPTIONS", "/metrics", NULL, 405},
        {"POST", "/locks", NULL, 405},
        {"DELETE", "/locks", NULL, 405},
        {"GET", "/nothing", NULL, 404},
        {"POST", "/lock/k", NULL, 404},
        {"GET", "/metrics/x", NULL, 404},
        {"GET", "/Locks/k", NULL, 404},
        {"GET", "//locks/k", NULL, 404},
        {"GET", "/%6cocks/../metrics", NULL, 404},
        {"GET", "/livez%00", NULL, 404},
        {"POST", "/locks/k", "Accept: image/png\r\n", 406},
        {"GET", "/locks/k", "Accept: image/png\r\n", 406},
        {"GET", "/locks/k", "Accept: */*\r\n", 200},
        {"GET", "/locks/k", "Accept: application/json\r\n", 200},
        {"GET", "/locks/k", "Accept: image/png, application/*;q=0.5\r\n", 200},
        {"GET", "/livez", NULL, 200},
        {"GET", "/readyz", NULL, 200},
        {"GET", "/healthz", NULL, 200},
        {"GET", "/metrics", NULL, 200},
        {"GET", "/openapi.yaml", NULL, 200},
        {"GET", "/openapi-3.0.yaml", NULL, 200},
        {"GET", "/locks", NULL, 200},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *what = format("%s %s", cases[i].method, cases[i].target);
        const struct reply *reply =
            wire_ask(agent, cases[i].method, cases[i].target, cases[i].headers, NULL);
        cr_assert_eq(reply->status, cases[i].status, "%s: expected %ld, got %ld %s", what,
                     cases[i].status, reply->status, reply->body);
        if (reply->status >= 400)
            expect_problem(reply, cases[i].status, what);
        if (reply->status == 405) {
            cr_assert_not_null(header(reply, "Allow"), "%s", what);
            cr_assert_not_null(
                strstr(header(reply, "Allow"), strstr(what, "/locks/k") ? "POST" : "GET"), "%s",
                what);
        }
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
    static const char *const pages[] = {
        "/locks/k", "/locks",        "/metrics",          "/livez", "/readyz",
        "/healthz", "/openapi.yaml", "/openapi-3.0.yaml", "/"};
    for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
        const struct reply *head = http(agent, &(struct call){.method = "HEAD", .path = pages[i]});
        expect(head, 200, NULL);
        cr_assert_eq(head->body_length, 0u, "HEAD is as GET, without the body");
    }
    cr_assert(eventually(metric(agent, "lockagent_http_requests_total{route=\"/livez\","
                                       "method=\"HEAD\",status=\"2xx\"}") == 1));
}

/* D3: shells without jq take the token as it is. */
Test(http, plain_text)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *plain = http(agent, &(struct call){.method = "POST",
                                                           .path = "/locks/k?ttl=20s",
                                                           .headers = {"Accept: text/plain"}});
    expect(plain, 201, NULL);
    cr_assert_not_null(strstr(header(plain, "Content-Type"), "text/plain"));
    const char *bare = format("%.*s", (int)strcspn(plain->body, "\r\n"), plain->body);
    cr_assert_str_eq(bare, header(plain, "Lock-Token"));
    const struct reply *renewed = http(
        agent, &(struct call){.method = "PUT",
                              .path = "/locks/k",
                              .headers = {"Accept: text/plain", format("Lock-Token: %s", bare)}});
    expect(renewed, 200, NULL);
    give_back(agent, "k", bare);
}

/* D9: the guards against browsers and forged requests, on loopback TCP. */
Test(http, hosts_and_origins)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "api: {allowed_hosts: [locks.internal]}\n"});
    static const struct {
        const char *headers;
        long status;
        const char *code;
    } cases[] = {
        {"Host: localhost\r\n", 200, NULL},
        {"Host: localhost:8080\r\n", 200, NULL},
        {"Host: LocalHost\r\n", 200, NULL},
        {"Host: 127.0.0.1\r\n", 200, NULL},
        {"Host: 127.0.0.1:1\r\n", 200, NULL},
        {"Host: [::1]\r\n", 200, NULL},
        {"Host: [::1]:8080\r\n", 200, NULL},
        {"Host: locks.internal\r\n", 200, NULL},
        {"Host: locks.internal:99\r\n", 200, NULL},
        {"Host: evil.example\r\n", 421, "misdirected"},
        {"Host: localhost.evil.example\r\n", 421, "misdirected"},
        {"Host: 127.0.0.1.evil.example\r\n", 421, "misdirected"},
        {"Host: 127.0.0.2\r\n", 421, "misdirected"},
        {"Host: locks.internal.evil\r\n", 421, "misdirected"},
        {"Host: localhost\r\nOrigin: http://localhost\r\n", 403, "origin_refused"},
        {"Host: localhost\r\nOrigin: null\r\n", 403, "origin_refused"},
        {"Host: localhost\r\norigin: https://evil.example\r\n", 403, "origin_refused"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct reply *reply =
            wire_exchange(agent, format("GET /locks/k HTTP/1.1\r\n%s\r\n", cases[i].headers));
        cr_assert_eq(reply->status, cases[i].status, "%s: %ld %s", cases[i].headers, reply->status,
                     reply->body);
        if (cases[i].code)
            cr_assert_str_eq(code(reply), cases[i].code, "%s", cases[i].headers);
        reply = wire_exchange(
            agent, format("POST /locks/k%zu?ttl=5s HTTP/1.1\r\n%s\r\n", i, cases[i].headers));
        cr_assert_eq(reply->status, cases[i].status == 200 ? 201 : cases[i].status, "%s",
                     cases[i].headers);
    }
    const long without = wire_exchange(agent, "POST /locks/without HTTP/1.1\r\n\r\n")->status;
    cr_assert(without == 400 || without == 421 || without == 0, "%ld", without);
    const long doubled =
        wire_exchange(
            agent, "POST /locks/doubled HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
            ->status;
    cr_assert(doubled == 400 || doubled == 421 || doubled == 0, "%ld", doubled);
    cr_assert_eq(masters_with("lock:without") + masters_with("lock:doubled"), 0u);
}
