/* The end of one request and the beginning of the next one must be plain (RFC 9112). A request that
 * exhausts libmicrohttpd's memory of a connection ends that connection, and nothing else. */
#include "harness.h"

#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(framing, .init = world_open, .fini = world_close, .timeout = 120);

/* Sends all bytes, closes the sending side, and reads the whole reply. */
static const struct reply *say_and_leave(const struct agent *agent, const char *bytes)
{
    const int wire = wire_open(agent);
    wire_say(wire, bytes);
    const struct reply *reply = wire_receive(wire, 100);
    shutdown(wire, SHUT_WR);
    if (reply->status <= 0)
        reply = wire_receive(wire, PATIENCE_MS);
    wire_close(wire);
    return reply;
}

/* libmicrohttpd 1.0 refuses by itself some requests that an older one leaves to us. */
static bool is_of_library(const struct reply *reply)
{
    return MHD_VERSION >= 0x01000000 && strncmp(reply->body, "<html>", 6) == 0;
}

/* libmicrohttpd 0.9.75 closed such a connection between request line and header, without a word to
 * us: that aborted the agent, before Host, Origin and token were looked at. */
Test(framing, argument_floods)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true}), admin = *agent;
    admin.port = agent->admin_port;
    static const size_t counts[] = {1, 50, 150, 190, 200, 300, 1000, 3000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        const char *flood = repeat("&", counts[i]), *pairs = repeat("a=b&", counts[i]);
        const char *request = format("GET /livez?%s HTTP/1.1\r\nHost: localhost\r\n\r\n", flood);
        expect(say_and_leave(&admin, request), 200, NULL);
        expect(say_and_leave(agent, request), 200, NULL);
        const long status =
            wire_ask(agent, "POST", format("/locks/k?%s", pairs), NULL, NULL)->status;
        cr_assert(status == 400 || status == 414, "%zu pairs: %ld", counts[i], status);
    }
    acquire_free(agent, "k", "ttl=5s");
}

/* Arguments competed for the other memory too: cookies, which the agent never reads, and a length
 * that is invalid. */
Test(framing, cookie_floods)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    static const size_t counts[] = {50, 150, 190, 200, 300, 1000, 1900, 2000, 2100, 3000};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        const char *cookie = repeat("a=b;", counts[i]),
                   *head = "GET /livez HTTP/1.1\r\nHost: localhost\r\nCookie:";
        const long status = say_and_leave(agent, format("%s %s\r\n\r\n", head, cookie))->status;
        cr_assert(status == 200 || status == 431, "%zu cookies: %ld", counts[i], status);
        say_and_leave(agent, format("%s %s\r\nContent-Length: x\r\n\r\n", head, cookie));
        say_and_leave(
            agent, format("%s %s\r\nContent-Length: 99999999999999999999\r\n\r\n", head, cookie));
        expect(get(agent, "/livez"), 200, NULL);
    }
}

#define HEAD " HTTP/1.1\r\nHost: localhost\r\n"
#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"
#define BYTES(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
static const struct {
    const char *bytes;
    size_t length;
} doubtful[] = {
    BYTES("POST /locks/k" HEAD FORM "Content-Length: 6\r\nContent-Length: 60\r\n\r\nttl=5s"),
    BYTES("POST /locks/k" HEAD FORM "Content-Length: 60\r\nContent-Length: 6\r\n\r\nttl=5s"),
    BYTES("POST /locks/k" HEAD FORM "Content-Length: 6\r\nContent-Length: 6\r\n\r\nttl=5s"),
    BYTES("POST /locks/k" HEAD FORM "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"),
    BYTES("GET /livez" HEAD "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM
          "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM
          "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM "Transfer-Encoding : chunked\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM
          "Transfer-Encoding\t: chunked\r\nContent-Length: 6\r\n\r\nttl=5s"),
    BYTES("POST /locks/k" HEAD FORM "Content-Length : 6\r\n\r\nttl=5s"),
    BYTES("POST /locks/k" HEAD FORM
          "Transfer-Encoding: chunked, chunked\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM "Transfer-Encoding: chunked\r\nTransfer-Encoding: "
          "chunked\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM "Transfer-Encoding: chunked\r\nTransfer-Encoding: "
          "identity\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM "Transfer-Encoding: identity\r\n\r\nttl=5s"),
    BYTES("POST /locks/k" HEAD FORM
          "Transfer-Encoding: gzip, chunked\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM "Transfer-Encoding: xchunked\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM "Transfer-Encoding:\r\n\r\nttl=5s"),
    BYTES("POST /locks/k HTTP/1.0\r\n" FORM
          "Transfer-Encoding: chunked\r\n\r\n6\r\nttl=5s\r\n0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD "Lock-Token: a\0b\r\n\r\n"),
    BYTES("POST /locks/k" HEAD "X: a\0\r\n\r\n"),
    BYTES("POST /locks/k" HEAD "X: a\0\r\nY: b\r\n\r\n"),
    BYTES("POST /locks/k" HEAD "X: \0Content-Length: 6\r\n\r\n"),
    BYTES("POST /locks/k" HEAD "X: a\rTransfer-Encoding: chunked\r\n\r\n"),
    BYTES("POST /locks/k" HEAD "X: a\001b\r\n\r\n"),
    BYTES("POST /locks/k" HEAD "X: a\x7f"
          "b\r\n\r\n"),
#if MHD_VERSION < 0x01000000 /* a later one makes one line of it, as it may */
    BYTES("POST /locks/k" HEAD FORM "X: 1\r\n Content-Length: 6\r\n\r\n"),
    BYTES("POST /locks/k" HEAD FORM "Content-: 6\r\n Length\r\n\r\nttl=5s"),
#endif
    BYTES("POST /locks/k" HEAD "X@Y: a\r\n\r\n"),
    BYTES("POST /locks/k" HEAD ": a\r\n\r\n"),
    BYTES("PO\001ST /locks/k" HEAD "\r\n"),
    BYTES("PO\x7f"
          "ST /locks/k" HEAD "\r\n"),
    BYTES("POST /locks/a b" HEAD "\r\n"),
    BYTES("POST /locks/a\tb" HEAD "\r\n"),
#if MHD_VERSION < 0x01000000 /* a later one ends the connection without a word */
    BYTES("POST /locks/k\0l" HEAD "\r\n"),
    BYTES("POST /locks/k?ttl=5s\0&wait=5s" HEAD "\r\n"),
    BYTES("POST\0X /locks/k" HEAD "\r\n"),
    BYTES("POST\0 /locks/k" HEAD "\r\n"),
    BYTES("POST\0\0 /locks/k" HEAD "\r\n"),
    BYTES("POST\0 X /locks/k" HEAD "\r\n"),
    BYTES("POST \0 /locks/k" HEAD "\r\n"),
#endif
};
#undef BYTES

/* Expects that the request is refused, and that its connection ends. */
static void expect_doubtful(const struct agent *agent, size_t i)
{
    const int wire = wire_open(agent);
    wire_send(wire, doubtful[i].bytes, doubtful[i].length);
    const struct reply *reply = wire_receive(wire, PATIENCE_MS);
    /* 301: with the blank in the path encoded */
    cr_assert(reply->status == 400 || (reply->status == 301 && is_of_library(reply)),
              "request %zu: %ld %s", i, reply->status, reply->body);
    if (!is_of_library(reply)) {
        expect(reply, 400, "bad_request");
        cr_assert_str_eq(header(reply, "Content-Type"), "application/problem+json");
    }
    cr_assert_str_eq(header(reply, "Connection"), "close", "request %zu", i);
    wire_say(wire, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(wire_receive(wire, PATIENCE_MS)->status, 0, "request %zu: the connection goes on",
                 i);
    wire_close(wire);
}

/* RFC 9112, 5 and 6: a request whose end is in doubt is refused, and nothing behind it is read. A
 * proxy before us might have seen two requests when we see one. */
Test(framing, doubtful_ends)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true}), admin = *agent;
    admin.port = agent->admin_port;
    for (size_t i = 0; i < sizeof(doubtful) / sizeof(*doubtful); i++) {
        expect_doubtful(agent, i);
        expect_doubtful(&admin, i);
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
}

#define CHUNKED "POST /locks/k" HEAD FORM "Transfer-Encoding: chunked\r\n\r\n"

/* Sends pieces of this many bytes, each in a segment of its own. */
static void say_in_pieces(int wire, const char *bytes, size_t size)
{
    const size_t length = strlen(bytes);
    for (size_t at = 0; at < length; at += size) {
        wire_send(wire, bytes + at, length - at < size ? length - at : size);
        sleep_ms(3);
    }
}

/* RFC 9112, 7.1: the lines of a chunked body end in CR LF. If a bare LF ends one for us, a proxy
 * before us may read on. */
Test(framing, doubtful_chunks)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true}), admin = *agent;
    admin.port = agent->admin_port;
    static const char *const bodies[] = {
        "6\nttl=5s\r\n0\r\n\r\n",
        "6\r\nttl=5s\n0\r\n\r\n",
        "6\r\nttl=5s\r\n0\n\r\n",
        "6\r\nttl=5s\r\n0\r\n\n",
        "6\nttl=5s\n0\n\n",
        "6;x=y\nttl=5s\r\n0\r\n\r\n",
        "6;x=\"\n\"\r\nttl=5s\r\n0\r\n\r\n",
        "6\r\nttl=5s\r\n0\r\nX: 1\n\r\n",
        "6\r\nttl=5s\r\n0\r\nX: 1\r\n\n",
        "6\r\nttl=5s\r\n0\r\nX 1\r\n\r\n",
        "6\rttl=5s\r\n0\r\n\r\n",
        "6\r\nttl=5s\r0\r\n\r\n",
        "6\n\rttl=5s\r\n0\r\n\r\n",
        "6\r\nttl=5s\n\r0\r\n\r\n",
        "3\r\nttl\r\n3\n=5s\r\n0\r\n\r\n",
        "0\n\n",
    };
    static const size_t sizes[] = {10000, 1, 2, 5};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        for (size_t j = 0; j < sizeof(sizes) / sizeof(*sizes); j++) {
            const int wire = wire_open(j % 2 == 0 || i % 2 == 0 ? agent : &admin);
            wire_say(wire, CHUNKED);
            if (j > 0)
                sleep_ms(10); /* the header has been read */
            say_in_pieces(wire, bodies[i], sizes[j]);
            const struct reply *reply = wire_receive(wire, PATIENCE_MS);
            cr_assert_eq(reply->status, 400, "body %zu by %zu: %ld %s", i, sizes[j], reply->status,
                         reply->body);
            cr_assert_str_eq(header(reply, "Connection"), "close");
            wire_say(wire, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
            cr_assert_eq(wire_receive(wire, PATIENCE_MS)->status, 0,
                         "body %zu: the connection goes on", i);
            wire_close(wire);
        }
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
}

/* Honest chunks are taken however they come: in one segment, in two at every place, byte by byte;
 * and the connection goes on behind them. */
Test(framing, plain_chunks)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    static const char *const bodies[] = {
        "7\r\nttl=20s\r\n0\r\n\r\n",
        "4\r\nttl=\r\n003\r\n20s\r\n000\r\n\r\n",
        "1\r\nt\r\n1\r\nt\r\n1\r\nl\r\n1\r\n=\r\n1\r\n9\r\n1\r\ns\r\n0\r\n\r\n",
        "0\r\n\r\n",
        "7;x=y\r\nttl=20s\r\n0;z\r\nX-Trailer: 1\r\n\r\n",
        "1b\r\nttl=20s&label=a%0d%0a\r\n5%0D\r\n0\r\n\r\n",
    };
    size_t held = 0;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        const size_t length = strlen(bodies[i]);
        const long wanted = i == 5 ? 400 : 201; /* a label with a line break, as parameters go */
        for (size_t cut = 0; cut <= length + 1; cut++) {
            const int wire = wire_open(agent);
            for (int twice = 0; twice < 2; twice++) {
                const char *head = format(
                    "POST /locks/%zu" HEAD FORM "Transfer-Encoding: chunked\r\n\r\n", held++);
                if (cut <= length) {
                    const char *first = format("%s%.*s", head, (int)cut, bodies[i]);
                    wire_say(wire, first);
                    sleep_ms(4);
                    wire_say(wire, bodies[i] + cut);
                } else {
                    say_in_pieces(wire, format("%s%s", head, bodies[i]), 1);
                }
                const struct reply *reply = wire_receive(wire, PATIENCE_MS);
                if (strchr(bodies[i], ';') != NULL && is_of_library(reply))
                    break; /* takes no chunk extensions */
                cr_assert_eq(reply->status, wanted, "body %zu, cut %zu: %ld %s", i, cut,
                             reply->status, reply->body);
                const char *connection = header(reply, "Connection");
                cr_assert_null(connection, "body %zu, cut %zu: %s", i, cut, connection);
            }
            wire_close(wire);
        }
    }
    /* Bytes that came along with a request of a known length are known too. */
    const int wire = wire_open(agent);
    wire_say(wire, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
                   "POST /locks/behind" HEAD FORM "Transfer-Encoding: chunked\r\n");
    expect(wire_receive(wire, PATIENCE_MS), 200, NULL);
    wire_say(wire, "\r\n7\r\nttl=20s\r\n0\r\n\r\n");
    expect(wire_receive(wire, PATIENCE_MS), 201, NULL);
    /* A chunked request that came wholly with the one before it is not. */
    wire_say(wire, "GET /livez" HEAD "\r\n" CHUNKED "7\r\nttl=20s\r\n0\r\n\r\n");
    expect(wire_receive(wire, PATIENCE_MS), 200, NULL);
    const long status = wire_receive(wire, PATIENCE_MS)->status; /* 0: it came with the 200 */
    cr_assert(status == 400 || status == 0, "%ld", status);
    cr_assert_eq(wire_receive(wire, PATIENCE_MS)->status, 0, "the connection goes on");
    wire_close(wire);
    cr_assert_eq(masters_with("lock:k"), 0u);
}

/* Requests that are plain, though not pretty, are taken. */
Test(framing, plain_ends)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    static const char *const plain[] = {
        "POST /locks/%d" HEAD FORM "Content-Length: 7\r\n\r\nttl=20s",
        "POST /locks/%d" HEAD FORM "content-length:7\r\n\r\nttl=20s",
        "POST /locks/%d" HEAD FORM "Transfer-Encoding: chunked\r\n\r\n7\r\nttl=20s\r\n0\r\n\r\n",
        "POST /locks/%d" HEAD FORM "Transfer-Encoding:\t Chunked\r\n\r\n7\r\nttl=20s\r\n0\r\n\r\n",
        "POST /locks/%d" HEAD FORM
        "Transfer-Encoding: chunked\r\n\r\n7;x=y\r\nttl=20s\r\n0\r\nX-Trailer: 1\r\n\r\n",
        "POST /locks/%d" HEAD "X:\r\nY: \r\nZ:\t\r\nCookie: a=b; c=\"d\"\r\nAccept: */*\r\n\r\n",
        "POST /locks/%d" HEAD "X: caf\xc3\xa9 \t \r\n\r\n",
        "POST /locks/%d HTTP/1.1\nHost: localhost\nX: y\n\n",
        "\r\n\r\nPOST /locks/%d" HEAD "\r\n",
        "POST /locks/%d HTTP/1.0\r\n\r\n",
        "POST /locks/%d HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
        char bytes[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(bytes, sizeof(bytes), plain[i], (int)i);
#pragma GCC diagnostic pop
        const struct reply *reply = wire_exchange(agent, bytes);
        if (strstr(bytes, ";x=y") != NULL && is_of_library(reply)) /* takes no chunk extensions */
            continue;
        cr_assert_eq(reply->status, 201, "request %zu: %ld %s", i, reply->status, reply->body);
    }
}

/* libmicrohttpd answers these by itself, before the agent sees the request, as docs/api.md lists
 * them. */
Test(framing, errors_of_the_library)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
#define IN_CHUNKS FORM "Transfer-Encoding: chunked\r\n\r\n"
    const struct {
        long status;
        const char *request;
    } own[] = {
        {0, "GARBAGE\r\n\r\n"},
        {400, "GET /livez\r\n\r\n"},
        {400, "GET /livez HTTP/x\r\nHost: localhost\r\n\r\n"},
        {400, "GET /livez" HEAD "no colon\r\n\r\n"},
        {400, "POST /locks/k" HEAD FORM "Content-Length: abc\r\n\r\n"},
        {400, "POST /locks/k" HEAD FORM "Content-Length: -5\r\n\r\n"},
        {400, "POST /locks/k" HEAD FORM "Content-Length:\r\n\r\n"},
        {400, "POST /locks/k" HEAD FORM "Content-Length: 6, 6\r\n\r\nttl=5s"},
        {400, "POST /locks/k" HEAD IN_CHUNKS "zz\r\nttl=5s\r\n0\r\n\r\n"},
        {400, "POST /locks/k" HEAD IN_CHUNKS "6\r\nttl=5sX0\r\n\r\n"},
        {413, "POST /locks/k" HEAD FORM "Content-Length: 99999999999999999999\r\n\r\n"},
        {413, "POST /locks/k" HEAD IN_CHUNKS "fffffffffffffffff\r\nttl=5s\r\n"},
        {414, format("GET /%s" HEAD "\r\n", repeat("x", 20000))},
        {431, format("GET /livez" HEAD "X: %s\r\n\r\n", repeat("x", 20000))},
        {431, format("GET /livez" HEAD "%s\r\n", repeat("X: y\r\n", 2000))},
        {505, "GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n"},
        {505, "GET /livez HTTP/0.9\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
        const int wire = wire_open(agent);
        wire_say(wire, own[i].request);
        const struct reply *reply = wire_receive(wire, PATIENCE_MS);
        cr_assert_eq(reply->status, own[i].status, "request %zu: %ld %s", i, reply->status,
                     reply->body);
        cr_assert_eq(wire_receive(wire, PATIENCE_MS)->status, 0,
                     "request %zu: the connection goes on", i);
        wire_close(wire);
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
    /* Between the limits of the agent and those of the library, the agent answers. */
    expect(wire_ask(agent, "GET", format("/locks/%s", repeat("x", 5000)), NULL, NULL), 414,
           "uri_too_long");
    expect(wire_ask(agent, "GET", "/livez", format("X: %s\r\n", repeat("x", 9000)), NULL), 431,
           "headers_too_large");
    acquire_free(agent, "k", "ttl=5s");
}
