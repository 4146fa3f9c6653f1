/* Requests that are not decent HTTP: too large, too slow, in pieces, or not HTTP at all (D9). */
#include "harness.h"

#include <string.h>

TestSuite(wire, .init = world_open, .fini = world_close, .timeout = 60);

/* Sizes: the reply says which part was too large, or the connection ends; the agent does not
 * care. */
Test(wire, oversized)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    static const size_t sizes[] = {7000, 8192, 8400, 8600, 9000, 16384, 100000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const char *filler = repeat("x", sizes[i]);
        const long uri = wire_ask(agent, "GET", format("/locks/%s", filler), NULL, NULL)->status;
        cr_assert(uri == 414 || uri == 400 || uri == 431 || uri == 0, "URI of %zu: %ld", sizes[i],
                  uri);
        const long field =
            wire_ask(agent, "GET", "/locks/k", format("X-Filler: %s\r\n", filler), NULL)->status;
        if (sizes[i] > 8500)
            cr_assert(field == 431 || field == 0, "header of %zu: %ld", sizes[i], field);
        else
            cr_assert(field == 431 || field == 200 || field == 0, "header of %zu: %ld", sizes[i],
                      field);
    }
    expect(wire_exchange(agent, format("GET /locks/%s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                       repeat("x", 100000))),
           414, NULL);
    expect(
        wire_ask(agent, "GET", "/locks/k", format("X-Filler: %s\r\n", repeat("x", 100000)), NULL),
        431, NULL);
    expect(wire_ask(agent, "GET", "/locks/k", repeat("X-Small: 1\r\n", 2000), NULL), 431, NULL);
    expect(acquire(agent, "k", "ttl=5s"), 201, NULL);
}

/* Asks for a key with this number of small header fields or cookies. Returns true if it is granted.
 */
static bool granted_with(const struct agent *agent, const char *key, const char *each, size_t count)
{
    const bool cookies = strchr(each, ':') == NULL;
    const char *many = repeat(each, count),
               *fields = cookies ? format("Cookie: %s\r\n", many) : many;
    const struct reply *reply =
        wire_ask(agent, "POST", format("/locks/%s?ttl=20s", key), fields, NULL);
    if (reply->status == 201)
        give_back(agent, key, token(reply));
    else
        cr_assert(reply->status == 431 || reply->status == 0, "%zu: %ld", count, reply->status);
    return reply->status == 201;
}

/* Many small fields, or cookies, take libmicrohttpd's memory, in which the answer must have room. A
 * call whose answer could not be sent is not carried out. */
Test(wire, a_header_of_many_fields_is_refused_before_the_lock)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const char *const keys[] = {"k", repeat("%C3%A4", 256)};
    const char *const small[] = {"X-Small: 12345678\r\n", "a=12345678; "};
    const char *series = "lockagent_acquire_requests_total{policy=\"*\",outcome=\"granted\"}";
    double granted = 0;
    for (size_t i = 0; i < 4; i++)
        for (size_t count = 40; count < 130; count += count < 60 ? 5 : 1)
            granted += granted_with(agent, keys[i % 2], small[i / 2], count);
    cr_assert_gt(granted, 40);
    cr_assert(eventually(metric(agent, series) >= granted));
    sleep_ms(300);
    cr_assert_eq(metric(agent, series), granted);
}

static const struct reply *ask_absolute(const struct agent *agent, const char *target)
{
    return wire_exchange(agent, format("%s HTTP/1.1\r\nHost: localhost\r\n\r\n", target));
}

/* As clients with http_proxy send it (RFC 9112, 3.2.2). */
Test(wire, a_target_in_absolute_form)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    expect(ask_absolute(agent, "POST http://localhost:8080/locks/k?ttl=5s"), 201, NULL);
    expect(ask_absolute(agent, "GET HTTP://127.0.0.1/locks/k"), 200, NULL);
    expect(ask_absolute(agent, "GET http://[::1]:1"), 200, NULL);
    const struct reply *page = ask_absolute(agent, "GET http://localhost?key=k");
    expect(page, 200, NULL);
    cr_assert_not_null(strstr(page->body, "<th scope=\"row\">k<"));
    page = ask_absolute(agent, "GET http://localhost?key=other");
    expect(page, 200, NULL);
    cr_assert_null(strstr(page->body, "<th scope=\"row\">k<"), "the query was not read");
    expect(ask_absolute(agent, "GET ?limit=1"), 404, "not_found");
    expect(ask_absolute(agent, "GET http://example.com/locks/k"), 421, "misdirected");
    expect(ask_absolute(agent, "GET http:///locks/k"), 421, "misdirected");
    expect(ask_absolute(agent, format("GET http://%s/locks/k", repeat("x", 300))), 421,
           "misdirected");
    expect(ask_absolute(agent, "GET https://localhost/locks/k"), 404, "not_found");
    expect(ask_absolute(agent, "GET http://localhost/nowhere"), 404, "not_found");
}

/* Bytes that are not HTTP: any refusal will do, but never a lock, a crash, or a connection that
 * stays forever. */
Test(wire, rubbish)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "limits: {header_timeout: 1s}\n"});
    static const struct {
        const char *bytes;
        size_t length;
    } rubbish[] = {
#define BYTES(text) {text, sizeof(text) - 1}
        BYTES("\r\n\r\n\r\n\r\n"),
        BYTES("GARBAGE\r\n\r\n"),
        BYTES("POST\r\n\r\n"),
        BYTES("POST /locks/k\r\n\r\n"),
        BYTES("POST /locks/k HTTP/3.7\r\nHost: localhost\r\n\r\n"),
        BYTES("POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n"),
        BYTES("POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
              "99999999999999999999\r\n\r\n"),
        BYTES("POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: abc\r\n\r\n"),
        BYTES("POST /locks/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
              "chunked\r\n\r\nzz\r\n"),
        BYTES("POST /lo\0cks/k HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        BYTES("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        BYTES("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"),
        BYTES("\0\0\0\0\0\0\0\0\r\n\r\n"),
#undef BYTES
    };
    for (size_t i = 0; i < sizeof(rubbish) / sizeof(*rubbish); i++) {
        const int wire = wire_open(agent);
        wire_send(wire, rubbish[i].bytes, rubbish[i].length);
        const struct reply *reply = wire_receive(wire, 6000);
        cr_assert(reply->status == 0 || reply->status >= 400, "rubbish %zu: %ld", i, reply->status);
        wire_close(wire);
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
    expect(acquire(agent, "k", "ttl=5s"), 201, NULL);
}

/* D9: the header has a deadline as a whole; dripping does not buy more time. */
Test(wire, a_slow_header)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "limits: {header_timeout: 1s}\n"});
    const int silent = wire_open(agent), dripping = wire_open(agent);
    const int64_t before = boottime_ms();
    wire_say(dripping, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n");
    while (wire_is_silent(dripping) && boottime_ms() - before < 8000) {
        wire_say(dripping, "X");
        sleep_ms(100);
    }
    const struct reply *reply = wire_receive(dripping, 100);
    cr_assert(reply->status == 408 || reply->status == 0, "%ld", reply->status);
    cr_assert_lt(boottime_ms() - before, 5000);
    reply = wire_receive(silent, 5000);
    cr_assert(reply->status == 408 || reply->status == 0, "%ld", reply->status);
    wire_close(silent);
    wire_close(dripping);
    /* A request whose header came in time is not hurried: it may wait as long as it asked for. */
    expect(acquire(agent, "k", "ttl=20s"), 201, NULL);
    expect(acquire(agent, "k", "wait=2500ms"), 409, "wait_timeout");
}

/* Several requests over one connection, also after refusals and in two packets. */
Test(wire, one_connection_many_requests)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const int wire = wire_open(agent);
    for (int i = 0; i < 5; i++) {
        wire_say(wire, format("POST /locks/k%d?ttl=20s HTTP/1.1\r\nHost: localhost\r\n\r\n", i));
        expect(wire_receive(wire, PATIENCE_MS), 201, NULL);
        wire_say(wire, format("POST /locks/k%d?ttl=20s HTTP/1.1\r\nHo", i));
        sleep_ms(20);
        wire_say(wire, "st: localhost\r\n\r\n");
        expect(wire_receive(wire, PATIENCE_MS), 409, "lock_held");
    }
    wire_close(wire);
    for (int i = 0; i < 5; i++)
        cr_assert(held_here(agent, format("k%d", i)),
                  "a lock belongs to its token, not to a connection");
}
