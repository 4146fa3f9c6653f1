/* Other contents of answers: for browsers, about other people's secrets, and in plain words
 * (D9). */
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(manners, .init = world_open, .fini = world_close, .timeout = 60);

/* No answer is to be taken by a browser for something else than it says. */
Test(manners, nosniff_on_every_answer)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(
        &(struct agent_options){.admin = true, .extra = "limits: {header_timeout: 300ms}\n"});
    static const char *const pages[] = {"/metrics", "/livez",        "/readyz",
                                        "/healthz", "/openapi.yaml", "/openapi-3.0.yaml",
                                        "/",        "/nothing"};
    for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++)
        for (int admin = 0; admin < 2; admin++)
            cr_assert_str_eq(header(http(agent, &(struct call){.path = pages[i], .admin = admin}),
                                    "X-Content-Type-Options"),
                             "nosniff", "%s", pages[i]);
    const struct reply *granted = acquire(agent, "k", "ttl=60s");
    cr_assert_str_eq(header(granted, "X-Content-Type-Options"), "nosniff");
    cr_assert_str_eq(header(acquire(agent, "k", NULL), "X-Content-Type-Options"), "nosniff");
    cr_assert_str_eq(header(get(agent, "/locks/k"), "X-Content-Type-Options"), "nosniff");
    cr_assert_str_eq(header(get(agent, "/locks"), "X-Content-Type-Options"), "nosniff");
    const int watcher = wire_request(agent, "GET", "/locks/k?watch", NULL);
    char stream[4096] = "";
    cr_assert_gt(recv(watcher, stream, sizeof(stream) - 1, 0), 0);
    cr_assert_not_null(strstr(stream, "\r\nX-Content-Type-Options: nosniff\r\n"), "%s", stream);
    wire_close(watcher);
    cr_assert_str_eq(header(release(agent, "k", token(granted)), "X-Content-Type-Options"),
                     "nosniff");
    const int late = wire_open(agent);
    wire_say(late, "GET /livez HTTP/1.1\r\n");
    const struct reply *timeout = wire_receive(late, PATIENCE_MS);
    expect(timeout, 408, "request_timeout");
    cr_assert_str_eq(header(timeout, "X-Content-Type-Options"), "nosniff");
    wire_close(late);
}

/* A caller that accepts only text gets one line of it, as with every other error. */
Test(manners, a_timeout_is_text_for_those_that_ask_for_text)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "limits: {header_timeout: 300ms}\n"});
    const int late = wire_open(agent);
    wire_say(late, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n"
                   "Content-Type: application/x-www-form-urlencoded\r\n"
                   "Content-Length: 9\r\n\r\nttl");
    const struct reply *timeout = wire_receive(late, PATIENCE_MS);
    cr_assert_eq(timeout->status, 408);
    cr_assert_str_eq(header(timeout, "Content-Type"), "text/plain; charset=utf-8");
    cr_assert_eq(strncmp(timeout->body, "request_timeout: ", 17), 0, "%s", timeout->body);
    cr_assert_eq(strcspn(timeout->body, "\n"), strlen(timeout->body) - 1, "%s", timeout->body);
    wire_close(late);
}

/* A page elsewhere that shows `<img src="http://localhost:8080/...">` sends no Origin, but browsers
 * say that it does so. */
Test(manners, calls_from_other_sites_are_refused)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    static const char *const paths[] = {"/locks/k", "/locks", "/livez", "/"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        expect(http(agent,
                    &(struct call){.path = paths[i], .headers = {"Sec-Fetch-Site: cross-site"}}),
               403, "origin_refused");
        expect(http(agent,
                    &(struct call){.path = paths[i], .headers = {"sec-fetch-site: Cross-Site"}}),
               403, "origin_refused");
        expect(http(agent, &(struct call){.path = paths[i],
                                          .headers = {"Sec-Fetch-Site: cross-site",
                                                      "Sec-Fetch-Site: none"}}),
               403, "origin_refused");
        /* a page of another port of localhost */
        expect(
            http(agent, &(struct call){.path = paths[i], .headers = {"Sec-Fetch-Site: same-site"}}),
            403, "origin_refused");
        expect(http(agent, &(struct call){.path = paths[i], .headers = {"Sec-Fetch-Site: none"}}),
               200, NULL);
    }
    expect(http(agent, &(struct call){.method = "POST",
                                      .path = "/locks/k",
                                      .headers = {"Sec-Fetch-Site: cross-site"}}),
           403, "origin_refused");
    cr_assert_eq(masters_with("lock:k"), 0u);
    expect(http(agent, &(struct call){.path = "/livez",
                                      .admin = true,
                                      .headers = {"Sec-Fetch-Site: cross-site"}}),
           200, NULL);
}

/* Another program's value under a lock's key, of any shape, is no agent's label. */
Test(manners, what_is_no_label_is_not_told)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
#define RANDOM "0123456789abcdef0123456789abcdef01234567"
    const char *values[] = {
        "secret",
        "session:secret",
        RANDOM,
        RANDOM "secret",
        "x" RANDOM ":secret",
        RANDOM ":secret\nsecret",
        RANDOM ":secret\xff",
        RANDOM ":secret\x7f",
        format(RANDOM ":secret%s", repeat("-", 59)),
        format(RANDOM ":%ssecret", repeat("-", 59)),
        format(RANDOM ":secret%s", repeat("-", 5000)),
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        for (size_t m = 0; m < master_count(); m++)
            master_do(m, "SET lock:k %s PX 60000", values[i]);
        const struct reply *refused = acquire(agent, "k", NULL), *state = get(agent, "/locks/k");
        expect(refused, 409, "lock_held");
        expect(state, 200, NULL);
        cr_assert_null(strstr(refused->body, "secret"), "%zu: %s", i, refused->body);
        cr_assert_null(strstr(state->body, "secret"), "%zu: %s", i, state->body);
        cr_assert(json_is_null(member(refused, "holder")), "%zu: %s", i, refused->body);
    }
    cr_assert_eq(agent_logged(agent, NULL, "secret"), 0u);
}

Test(manners, messages_say_it_once)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    static const char *const bodies[] = {"{\"ttl\":5}",    "{\"ttl\":null}", "{\"owner\":5}",
                                         "{\"label\":{}}", "{\"ttl\":[1]}",  "{\"wait\":true}",
                                         "{\"ttl\":\"\"}", "{\"ttl\":\"x\"}"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        const struct reply *refused =
            http(agent, &(struct call){.method = "POST",
                                       .path = "/locks/k",
                                       .headers = {"Content-Type: application/json"},
                                       .body = bodies[i]});
        expect(refused, 400, "bad_request");
        cr_assert_null(strstr(string(refused, "detail"), "came came"), "%s", refused->body);
        cr_assert_not_null(strstr(string(refused, "detail"), "came"), "%s", refused->body);
    }
}
