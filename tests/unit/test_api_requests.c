/* Requests of callers, right and wrong, against real sockets: keys, parameters, bodies, headers,
 * guards. */
#include "tests/unit/api_stage.h"

#include "agent/base/text.h"
#include "api/params.h"

TestSuite(requests, .timeout = 60);

/* ---- keys ---- */

Test(requests, keys)
{
    static const struct {
        const char *raw, *key; /* NULL: refused */
    } cases[] = {
        {"a", "a"},
        {"jobs/1", "jobs/1"},
        {"jobs%2F1", "jobs/1"},
        {"a%20b", "a b"},
        {"a+b", "a+b"},
        {"%C3%A4", "\xC3\xA4"},
        {"\xC3\xA4", "\xC3\xA4"},
        {"%f0%9f%94%92", "\xF0\x9F\x94\x92"},
        {"%EF%BF%BF", "\xEF\xBF\xBF"},
        {"...", "..."},
        {"a.b/.c", "a.b/.c"},
        {"%25", "%"},
        {"a:b;c=d&e", "a:b;c=d&e"},
        {"", NULL},
        {"%00", NULL},
        {"a%00b", NULL},
        {"%0A", NULL},
        {"%1f", NULL},
        {"%7F", NULL},
        {"%C2%85", NULL}, /* C1 control */
        {"%", NULL},
        {"%4", NULL},
        {"a%4", NULL},
        {"%zz", NULL},
        {"%4g", NULL},
        {"%u0041", NULL},
        {"%C0%AF", NULL},       /* overlong / */
        {"%E0%80%AF", NULL},    /* overlong */
        {"%F0%80%80%AF", NULL}, /* overlong */
        {"%ED%A0%80", NULL},    /* surrogate */
        {"%F4%90%80%80", NULL}, /* beyond U+10FFFF */
        {"%F8%88%80%80%80", NULL},
        {"%80", NULL},
        {"%C3", NULL},
        {"%C3a", NULL},
        {"%E2%82", NULL},
        {"\xff", NULL},
        {"/a", NULL},
        {"a/", NULL},
        {"a//b", NULL},
        {"a%2F%2Fb", NULL},
        {"%2Fa", NULL},
        {".", NULL},
        {"..", NULL},
        {"a/./b", NULL},
        {"a/../b", NULL},
        {"%2e%2E/b", NULL},
        {"a/%2e", NULL},
        {"a#b", NULL},
        {"a b", NULL},
    };
    char key[LIMIT_KEY_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len = 0;
        const char *fault = key_decode(text_of(cases[i].raw), key, &len);
        cr_assert_eq(fault == NULL, cases[i].key != NULL, "%s: %s", cases[i].raw,
                     fault == NULL ? "taken" : fault);
        if (fault == NULL)
            cr_assert(text_is((struct text){key, len}, cases[i].key), "%s: %.*s", cases[i].raw,
                      (int)len, key);
    }
}

Test(requests, key_length)
{
    char raw[3 * LIMIT_KEY_BYTES + 4], key[LIMIT_KEY_BYTES];
    size_t len;
    memset(raw, 'k', sizeof(raw));
    cr_assert_null(key_decode((struct text){raw, LIMIT_KEY_BYTES}, key, &len));
    cr_assert_eq(len, LIMIT_KEY_BYTES);
    cr_assert_not_null(key_decode((struct text){raw, LIMIT_KEY_BYTES + 1}, key, &len));
    for (size_t i = 0; i <= LIMIT_KEY_BYTES; i++)
        memcpy(raw + 3 * i, "%41", 3);
    cr_assert_null(key_decode((struct text){raw, 3 * LIMIT_KEY_BYTES}, key, &len));
    cr_assert_not_null(key_decode((struct text){raw, 3 * LIMIT_KEY_BYTES + 3}, key, &len));
}

Test(requests, keys_over_http, .init = stage_play, .fini = stage_close)
{
    static const char *const bad[] = {"",       "a%00b",       "a//b", "a/../b",         "%zz",
                                      "%C0%AF", "lockagent:x", "a%2f", "%6cockagent%3Ax"};
    stage.answer = a_hold(ANSWER_GRANTED);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        call(API, "POST /locks/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", bad[i]);
        expect(400, "bad_request");
        cr_assert_str_eq(json_string_value(json_object_get(reply.json, "parameter")), "key");
        cr_assert(strstr(detail(), "the key ") == detail(), "%s", detail());
    }
    cr_assert_eq(stage.submitted, 0);
    ask("POST /locks/lockagent:prefixed", "", "");
    expect(201, "");
    ask("POST /locks/a%2Fb%20%C3%A4%22%5C", "", "");
    expect(201, "");
    cr_assert_str_eq(stage.last_key, "a/b \xC3\xA4\"\\");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "key")), "a/b \xC3\xA4\"\\");
    cr_assert_str_eq(header("Location"), "/locks/a/b%20%C3%A4%22%5C");

    static char key[3 * LIMIT_KEY_BYTES + 1];
    for (size_t i = 0; i < LIMIT_KEY_BYTES; i++)
        memcpy(key + 3 * i, "%22", 3);
    call(API, "POST /locks/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", key);
    expect(201, "");
    cr_assert_eq(strlen(stage.last_key), LIMIT_KEY_BYTES);
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "key")), stage.last_key);
}

/* R11: the answer is that of a grant, but with 200 and the count. If it is not delivered, the count
 * falls. */
Test(requests, reentered, .init = stage_play, .fini = stage_close)
{
    stage.config->policies[1].core.reentrant = true;
    stage.answer = a_hold(ANSWER_REENTERED);
    stage.answer.hold.count = 3;
    ask("POST /locks/k?owner=0123456789abcdef", "", "");
    expect(200, "");
    cr_assert_eq(number("count"), 3);
    cr_assert_null(header("Location"));
    cr_assert_str_eq(header("Lock-Token"), A_TOKEN);
    cr_assert_eq(stage.undelivered, 0);
    stage.answer.hold.valid_until = stage_now(NULL);
    ask("POST /locks/k?owner=0123456789abcdef", "", "");
    expect(503, "validity_expired");
    cr_assert_eq(stage.undelivered, 1);
}

/* Libmicrohttpd shows a request line only up to a NUL byte. That must never become a shorter
 * key. */
Test(requests, a_raw_nul_in_the_target_is_no_shorter_key, .init = stage_play, .fini = stage_close)
{
    static const char request[] = "POST /locks/ab\0cd HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stage.answer = a_hold(ANSWER_GRANTED);
    int fd = caller_open(API);
    caller_send(fd, request, sizeof(request) - 1);
    receive(fd);
    cr_assert_neq(reply.status / 100, 2, "%s", stage.last_key);
    cr_assert_eq(stage.submitted, 0);
    close(fd);
}

/* ---- parameters ---- */

static void expect_all_parameters(void)
{
    expect(201, "");
    const struct event_acquire *acquire = &stage.last.acquire;
    cr_assert_eq(stage.last.kind, EVENT_ACQUIRE);
    cr_assert_eq(acquire->ttl_ms, 1500);
    cr_assert(acquire->wait_ms > 1000 && acquire->wait_ms <= 2000, "it counts from when it came");
    cr_assert_eq(acquire->max_hold_ms, 300000);
    cr_assert_eq(acquire->renew, RENEW_AGENT);
    cr_assert_str_eq(stage.last_label, "me & \xC3\xA4");
    memset(&stage.last, 0, sizeof(stage.last));
}

Test(requests, parameters_in_three_forms, .init = stage_play, .fini = stage_close)
{
#define PAIRS "ttl=1.5s&wait=2s&max_hold=5m&renew=agent&label=me+%26%20%C3%A4"
    stage.answer = a_hold(ANSWER_GRANTED);
    ask("POST /locks/k?" PAIRS, "", "");
    expect_all_parameters();
    ask("POST /locks/k", FORM, PAIRS);
    expect_all_parameters();
    ask("POST /locks/k", "Content-Type: Application/X-WWW-Form-Urlencoded; charset=utf-8\r\n",
        PAIRS);
    expect_all_parameters();
    ask("POST /locks/k", JSON,
        "{\"ttl\":\"1.5s\",\"wait\":\"2s\",\"max_hold\":\"5m\",\"renew\":\"agent\",\"label\":\"me "
        "& \\u00e4\"}");
    expect_all_parameters();
    ask("POST /locks/k?ttl=1500ms&&wait=2s&", FORM,
        "max_hold=5m&renew=agent&label=me+%26%20%C3%A4");
    expect_all_parameters();
    call(API, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" FORM
              "\r\n8\r\nttl=1.5s\r\n36\r\n&wait=2s&max_hold=5m&renew=agent&label=me+%%26%%20%%C3%%"
              "A4\r\n0\r\n\r\n");
    expect_all_parameters();
    ask("POST /locks/k?label=", "", "");
    expect(201, "");
    cr_assert_eq(stage.last.acquire.label.len, 0);
    cr_assert_eq(stage.last.acquire.ttl_ms, 0);
    cr_assert_eq(stage.last.acquire.renew, RENEW_UNSET);
}

/* 200 pairs without a name or a value, on either side of each that has one. */
Test(requests, nothing_between_two_ampersands, .init = stage_play, .fini = stage_close)
{
    static const char *const pairs[] = {"ttl=1.5s", "wait=2s", "max_hold=5m", "renew=agent",
                                        "label=me+%26%20%C3%A4"};
    char form[5 * 256 + 256] = "", empty[200 + 1], line[sizeof(form) + 32];
    stage.answer = a_hold(ANSWER_GRANTED);
    memset(empty, '&', sizeof(empty) - 1);
    empty[sizeof(empty) - 1] = '\0';
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        strcat(form, empty);
        strcat(form, pairs[i]);
    }
    strcat(form, empty);
    ask("POST /locks/k", FORM, form);
    expect_all_parameters();
    snprintf(line, sizeof(line), "POST /locks/k?%s", form);
    ask(line, "", "");
    expect_all_parameters();
    ask("POST /locks/k", FORM, empty);
    expect(201, "");
    cr_assert_eq(stage.last.acquire.ttl_ms, 0);
    cr_assert_eq(stage.last.acquire.mode, MODE_WRITE);
}

#define TEN_CONTINUED "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"

static void refused(const char *line, const char *headers, const char *body, const char *parameter,
                    const char *part)
{
    ask(line, headers, body);
    expect(400, "bad_request");
    const char *named = json_string_value(json_object_get(reply.json, "parameter"));
    cr_assert_str_eq(named == NULL ? "" : named, parameter, "%s", reply.body);
    cr_assert_not_null(strstr(detail(), part), "%s: expected \"%s\" in \"%s\"", line, part,
                       detail());
}

Test(requests, unknown_parameters, .init = stage_play, .fini = stage_close)
{
    refused("POST /locks/k?tll=3s", "", "", "tll", "did you mean ttl?");
    refused("POST /locks/k?tll=3s", "", "", "tll",
            "allowed: ttl, wait, renew, mode, max_hold, bind, label, owner");
    refused("POST /locks/k?maxhold=3s", "", "", "maxhold", "did you mean max_hold?");
    refused("POST /locks/k?zebra=1", "", "", "zebra", "parameter zebra is not known here");
    refused("POST /locks/k?=3s", "", "", "", "parameter without a readable name is not known here");
    refused("POST /locks/k?%ff=3s", "", "", "",
            "parameter without a readable name is not known here");
    refused("POST /locks/k?TTL=3s", "", "", "TTL", "not known here");
    refused("POST /locks/k?token=x", "", "", "token", "parameter token is not known here");
    refused("POST /locks/k?watch", "", "", "watch", "not known here");
    refused("PUT /locks/k?bind=none", "Lock-Token: " A_TOKEN "\r\n", "", "bind",
            "allowed: ttl, renew, label, token");
    refused("PUT /locks/k?wait=3s", "Lock-Token: " A_TOKEN "\r\n", "", "wait",
            "allowed: ttl, renew, label, token");
    refused("DELETE /locks/k?ttl=3s", "Lock-Token: " A_TOKEN "\r\n", "", "ttl", "allowed: token");
    refused("GET /locks/k?ttl=3s", "", "", "ttl", "allowed: watch");
    refused("GET /locks?watch", "", "", "watch", "allowed: limit, cursor");
    refused("POST /locks/k?%FF=1", "", "", "", "not known here");
    refused("POST /locks/k?%zz=1", "", "", "%zz", "percent-encoding");
    /* Cut after its last whole character, this name is another one: no value is shown. */
    refused("POST /locks/k?tokenx" TEN_CONTINUED TEN_CONTINUED TEN_CONTINUED TEN_CONTINUED
            "%zz=" A_TOKEN,
            "", "", "token", "nothing or something unreadable came");
    cr_assert_eq(stage.submitted, 0);
}

Test(requests, bad_parameters, .init = stage_play, .fini = stage_close)
{
    refused("POST /locks/k?ttl=3", "", "", "ttl", "3 came");
    refused("POST /locks/k?ttl=", "", "", "ttl", "allowed: a duration with its unit");
    refused("POST /locks/k?ttl", "", "", "ttl", "allowed: a duration with its unit");
    refused("POST /locks/k?ttl=-3s", "", "", "ttl", "-3s came");
    refused("POST /locks/k?ttl=0s", "", "", "ttl", "above 0");
    refused("POST /locks/k?ttl=3%zz", "", "", "ttl", "parameter ttl");
    refused("POST /locks/k?ttl=3s%00", "", "", "ttl", "parameter ttl");
    refused("POST /locks/k?ttl=3s&ttl=3s", "", "", "ttl", "came twice");
    refused("POST /locks/k?ttl=3s", FORM, "ttl=3s", "ttl", "came twice");
    refused("POST /locks/k?ttl=3s", JSON, "{\"ttl\":\"3s\"}", "ttl", "came twice");
    refused("POST /locks/k?wait=6m", "", "", "wait", "here 5m");
    refused("POST /locks/k?wait=5", "", "", "wait", "5 came");
    refused("POST /locks/k?wait=5", "", "", "wait", "did you mean 5s?");
    refused("POST /locks/k?ttl=30", "", "", "ttl", "such as 30s; did you mean 30s?");
    refused("POST /locks/k?max_hold=0ms", "", "", "max_hold", "0ms came");
    refused("POST /locks/k?ttl=600", "", "", "ttl", "did you mean 600ms?");
    refused("POST /locks/k?ttl=070", "", "", "ttl", "did you mean 70ms?");
    refused("POST /locks/k?wait=1500", "", "", "wait", "did you mean 1500ms?");
    refused("POST /locks/k?max_hold=3600", "", "", "max_hold", "did you mean 3600s?");
    refused("POST /locks/k?max_hold=7200000", "", "", "max_hold", "such as 10m");
    cr_assert_null(strstr(detail(), "did you mean"), "%s", detail());
    refused("POST /locks/k?ttl=99999999999999999999", "", "", "ttl", "such as 30s");
    cr_assert_null(strstr(detail(), "did you mean"), "%s", detail());
    refused("POST /locks/k?renew=me", "", "", "renew", "agent or caller");
    refused("POST /locks/k?label=a%0Ab", "", "", "label", "without control characters");
    refused("POST /locks/k?label=%FF", "", "", "label", "parameter label");
    refused("POST /locks/k?label=12345678901234567890123456789012345678901234567890123456789012345",
            "", "", "label", "up to 64 bytes");
    refused("POST /locks/k?bind=pod", "", "", "bind", "none or connection");
    refused("POST /locks/k?bind=connection&renew=caller", "", "", "renew",
            "agent, if bind is connection");
    refused("POST /locks/k?owner=123456789012345", "", "", "owner", "16 to 64 visible ASCII");
    refused("POST /locks/k?owner=1234567890123456%20", "", "", "owner", "16 to 64 visible ASCII");
    refused("POST /locks/k?owner=1234567890123456", "", "", "owner", "policy is not reentrant");
    cr_assert_null(strstr(reply.body, "1234567890123456"), "an owner is secret: %s", reply.body);
    refused("POST /locks/k", JSON, "{\"owner\":1234567890123456}", "owner", "not a string");
    cr_assert_null(strstr(reply.body, "1234567890123456"), "an owner is secret: %s", reply.body);
    refused("GET /locks/k?watch=no", "", "", "watch", "no value, true, or key");
    refused("GET /locks?limit=0", "", "", "limit", "from 1 to 1000");
    refused("GET /locks?limit=1001", "", "", "limit", "from 1 to 1000");
    refused("GET /locks?limit=99999999999", "", "", "limit", "from 1 to 1000");
    refused("GET /locks?cursor=x7", "", "", "cursor", "next_cursor");
    cr_assert_eq(stage.submitted, 0);
}

Test(requests, bad_bodies, .init = stage_play, .fini = stage_close)
{
    refused("POST /locks/k", JSON, "{\"ttl\":5}", "ttl", "5 came, not a string");
    refused("POST /locks/k", JSON, "{\"ttl\":5}", "ttl", "did you mean 5s?");
    refused("POST /locks/k", JSON, "{\"max_hold\":600}", "max_hold", "did you mean 600s?");
    refused("POST /locks/k", JSON, "{\"ttl\":5000}", "ttl", "did you mean 5s?");
    refused("POST /locks/k", FORM, "{\"ttl\":\"5s\"}", "",
            "the header Content-Type: application/json");
    refused("POST /locks/k", FORM, "\n {\"token\":\"" A_TOKEN "\"}", "", "begins with a brace");
    cr_assert_null(strstr(reply.body, "abcd0000"), "a token is secret: %s", reply.body);
    refused("POST /locks/k", JSON, "{\"ttl\":30}", "ttl", "30 came, not a string");
    refused("POST /locks/k", JSON, "{\"ttl\":null}", "ttl", "null came, not a string");
    refused("POST /locks/k", JSON, "{\"ttl\":\"3s\",\"ttl\":\"4s\"}", "ttl", "came twice");
    refused("POST /locks/k", JSON, "{\"tll\":\"3s\"}", "tll", "did you mean ttl?");
    refused("POST /locks/k", JSON, "{\"ttl\":\"3s\"", "", "the body is not JSON");
    refused("POST /locks/k", JSON, "[\"ttl\"]", "", "not an object");
    refused("POST /locks/k", JSON, "{\"label\":\"a\\u0000b\"}", "", "the body is not JSON");
    refused("POST /locks/k", JSON, "{\"a\":\"\\u\xd0\x9c\"}", "", "the body is not JSON");
    cr_assert_eq(stage.submitted, 0);
}

/* The core reduces a max_hold above the policy's. The caller would lose its lock early, so the API
 * refuses it. */
Test(requests, max_hold_above_that_of_the_policy, .init = stage_play, .fini = stage_close)
{
    refused("POST /locks/k?max_hold=24h", "", "", "max_hold",
            "24h came; allowed: above 0, up to 10m, which is max_hold of the key's policy");
    refused("POST /locks/k?max_hold=600001ms", "", "", "max_hold", "up to 10m");
    refused("POST /locks/k?bind=connection&max_hold=61m", "", "", "max_hold",
            "61m came; allowed: above 0, up to 1h, which is max_hold_bound of the key's policy");
    cr_assert_eq(stage.submitted, 0);
    stage.answer = a_hold(ANSWER_GRANTED);
    ask("POST /locks/k?max_hold=10m", "", "");
    expect(201, "");
    cr_assert_eq(stage.last.acquire.max_hold_ms, 600000);
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD, .occupant.left_ms = -1};
    ask("POST /locks/k?bind=connection&max_hold=1h", "", "");
    expect(409, "lock_held");
    cr_assert_eq(stage.last.acquire.max_hold_ms, 3600000);
}

Test(requests, a_body_without_its_content_type, .init = stage_play, .fini = stage_close)
{
    ask("POST /locks/k", "", "{\"ttl\":\"5s\"}");
    expect(415, "unsupported_media_type");
    cr_assert_not_null(strstr(detail(), "Content-Type: none; "), "%s", detail());
    cr_assert_not_null(strstr(detail(), "application/json (a body like {\"ttl\":\"5s\"})"), "%s",
                       detail());
}

Test(requests, long_parameters, .init = stage_play, .fini = stage_close)
{
    ask("POST /locks/k",
        "Content-Type: "
        "123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
        "123456789\xc3\xa9\r\n",
        "x");
    expect(415, "unsupported_media_type"); /* its hundredth byte is half a character */
    cr_assert_not_null(strstr(detail(), "789?;"), "%s", detail());
    ask("POST /locks/k?label=1234567890123456789012345678901234567890123456789012345678901234", "",
        "");
    cr_assert_eq(strlen(stage.last_label), LIMIT_LABEL_BYTES);
}

/* A PUT without a label changes none. An empty one would say neither this nor that. */
Test(requests, d3_9_a_put_names_a_label_in_three_forms, .init = stage_play, .fini = stage_close)
{
    static const char *const tokens[] = {"Lock-Token: " A_TOKEN "\r\n",
                                         "Lock-Token: " A_TOKEN "\r\n" FORM,
                                         "Lock-Token: " A_TOKEN "\r\n" JSON};
    static const char *const bodies[] = {"", "label=10.0.0.7%3A80", "{\"label\":\"10.0.0.7:80\"}"};
    static const char *const empty[] = {"", "label=", "{\"label\":\"\"}"};
    stage.answer = a_hold(ANSWER_RENEWED);
    for (unsigned i = 0; i < 3; i++) {
        ask(i == 0 ? "PUT /locks/k?label=10.0.0.7:80" : "PUT /locks/k", tokens[i], bodies[i]);
        expect(200, "");
        cr_assert_str_eq(stage.last_label, "10.0.0.7:80");
        ask("PUT /locks/k", tokens[0], "");
        expect(200, "");
        cr_assert_str_eq(stage.last_label, "");
        int submitted = (int)stage.submitted;
        refused(i == 0 ? "PUT /locks/k?label=" : "PUT /locks/k", tokens[i], empty[i], "label",
                "allowed in PUT: 1 to 64 bytes");
        cr_assert_eq((int)stage.submitted, submitted);
    }
}

Test(requests, tokens, .init = stage_play, .fini = stage_close)
{
    stage.answer = a_hold(ANSWER_RENEWED);
    ask("PUT /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
    expect(200, "");
    cr_assert(token_same_random(&stage.last.renew.token, &stage.answer.hold.token));
    cr_assert_eq(stage.last.renew.token.fence, 1795226400000001);
    ask("PUT /locks/k?token=" A_TOKEN "&ttl=7s&renew=agent", "", "");
    expect(200, "");
    cr_assert_eq(stage.last.renew.ttl_ms, 7000);
    cr_assert_eq(stage.last.renew.renew, RENEW_AGENT);
    ask("PUT /locks/k", JSON, "{\"token\":\"" A_TOKEN "\"}");
    expect(200, "");
    ask("PUT /locks/k?token=" A_TOKEN, "Lock-Token: " A_TOKEN "\r\n", "");
    expect(200, "");
    size_t submitted = stage.submitted;
    refused("PUT /locks/k?token=" A_TOKEN,
            "Lock-Token: abce000000000000000000000000000000000000.1795226400000001\r\n", "",
            "token", "differ");
    refused("PUT /locks/k?token=" A_TOKEN, "Lock-Token: nonsense\r\n", "", "token", "differ");
    refused("DELETE /locks/k", "Lock-Token: s3cret\r\n", "", "token", "no token of this format");
    cr_assert_null(strstr(reply.body, "s3cret"));
    refused("DELETE /locks/k?token=s3cret", "", "", "token", "no token of this format");
    cr_assert_null(strstr(reply.body, "s3cret"));
    refused("DELETE /locks/k", "Lock-Token: " A_TOKEN "\r\nLock-Token: " A_TOKEN "\r\n", "", "",
            "twice");
    ask("PUT /locks/k", "", "");
    expect(400, "token_required");
    ask("DELETE /locks/k", "", "");
    expect(400, "token_required");
    cr_assert_eq(stage.submitted, submitted);
}

/* D3: the Idempotency-Key replaces the token of a DELETE. The core decides its effect. */
Test(requests, idempotency_key, .init = stage_play, .fini = stage_close)
{
#define KEY_HEADER "Idempotency-Key: 0123456789abcdef\r\n"
    stage.answer = a_hold(ANSWER_GRANTED);
    ask("POST /locks/k", KEY_HEADER, "");
    expect(201, "");
    cr_assert_eq(stage.last.acquire.idempotency.len, 16u);
    stage.answer = a_hold(ANSWER_REPEATED);
    stage.answer.hold.count = 1;
    ask("POST /locks/k", KEY_HEADER, "");
    expect(200, "");
    cr_assert_eq(number("count"), 1);
    cr_assert_str_eq(header("Lock-Token"), A_TOKEN);
    cr_assert_eq(stage.undelivered, 0);
    stage.answer = (struct effect_answer){.answer = ANSWER_RELEASED};
    ask("DELETE /locks/k", KEY_HEADER, "");
    expect(204, "");
    cr_assert_eq(stage.last.release.idempotency.len, 16u);
    ask("DELETE /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
    cr_assert_eq(stage.last.release.idempotency.len, 0u);
    const size_t submitted = stage.submitted;
    refused("DELETE /locks/k", KEY_HEADER "Lock-Token: " A_TOKEN "\r\n", "", "Idempotency-Key",
            "or the token");
    refused("POST /locks/k", "Idempotency-Key: 0123456789abcde\r\n", "", "Idempotency-Key",
            "16 to 64");
    refused("POST /locks/k", "Idempotency-Key: 0123456789 abcdef\r\n", "", "Idempotency-Key",
            "16 to 64");
    refused("POST /locks/k", KEY_HEADER KEY_HEADER, "", "", "came twice");
    refused("POST /locks/k?bind=connection", KEY_HEADER, "", "Idempotency-Key",
            "bind is connection");
    refused("POST /locks/k?owner=0123456789abcdef", KEY_HEADER, "", "Idempotency-Key", "an owner");
    cr_assert_eq(stage.submitted, submitted);
#undef KEY_HEADER
}

/* ---- refused requests ---- */

Test(requests, paths_and_methods, .init = stage_play, .fini = stage_close)
{
    static const char *const nowhere[] = {"/nothing", "/locks%2Fk", "/Locks/k", "/metrics/",
                                          "/livez/x", "//",         "*",        "/lock"};
    for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        call(API, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", nowhere[i]);
        expect(404, "not_found");
    }
    ask("OPTIONS /locks/k", "", "");
    expect(405, "method_not_allowed");
    cr_assert_str_eq(header("Allow"), "POST, PUT, DELETE, GET, HEAD");
    ask("PATCH /locks/k", "", "");
    expect(405, "method_not_allowed");
    ask("BREW /locks/k", "", "");
    expect(405, "method_not_allowed");
    ask("POST /metrics", "", "");
    expect(405, "method_not_allowed");
    cr_assert_str_eq(header("Allow"), "GET, HEAD");
    ask("DELETE /locks", "", "");
    expect(405, "method_not_allowed");
    call(API, "GET http://localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(200, "");
    call(API, "GET http://localhost/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(404, "not_found");
}

Test(requests, bodies, .init = stage_play, .fini = stage_close)
{
    static char large[70000], request[80000];
    ask("POST /locks/k", "Content-Type: multipart/form-data; boundary=x\r\n", "--x--");
    expect(415, "unsupported_media_type");
    ask("POST /locks/k", "", "ttl=3s");
    expect(415, "unsupported_media_type");
    ask("POST /locks/k", "Content-Type: application/jsonx\r\n", "{}");
    expect(415, "unsupported_media_type");
    memset(large, 'x', sizeof(large) - 1);
    int len = snprintf(request, sizeof(request),
                       "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM
                       "Content-Length: %zu\r\n\r\n%s",
                       strlen(large), large);
    int fd = caller_open(API);
    caller_send(fd, request, (size_t)len);
    receive(fd);
    expect(413, "body_too_large");
    close(fd);
    len = snprintf(request, sizeof(request),
                   "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM
                   "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n",
                   strlen(large), large);
    fd = caller_open(API);
    caller_send(fd, request, (size_t)len);
    receive(fd);
    expect(413, "body_too_large");
    close(fd);
    large[65536] = '\0'; /* exactly limits.body */
    len = snprintf(request, sizeof(request),
                   "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM
                   "Content-Length: 65536\r\n\r\n%s",
                   large);
    fd = caller_open(API);
    caller_send(fd, request, (size_t)len);
    receive(fd);
    expect(400, "bad_request");
    close(fd);
    ask("POST /livez", "Content-Type: image/png\r\n", "x");
    expect(405, "method_not_allowed");
    cr_assert_eq(stage.submitted, 0);
}

Test(requests, an_unfinished_upload_is_refused_before_it_is_sent, .init = stage_play,
     .fini = stage_close)
{
    int fd = caller_open(API);
    caller_say(fd, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" FORM
                   "Content-Length: 9000000000\r\n\r\n");
    receive(fd);
    expect(413, "body_too_large");
    close(fd);
}

/* A header of any length is taken and answered in full, or refused with 431 or 414. The connection
 * never just ends. */
Test(requests, long_headers, .init = stage_play, .fini = stage_close)
{
    static char padding[20000], request[24000];
    size_t refused_at = 0;
    stage.answer = a_hold(ANSWER_GRANTED);
    for (size_t len = 4000; len<16000; len += len> 7000 && len < 12600 ? 20 : 500) {
        memset(padding, 'p', len);
        padding[len] = '\0';
        int bytes = snprintf(request, sizeof(request),
                             "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", padding);
        int fd = caller_open(API);
        received_len = 0;
        caller_send(fd, request, (size_t)bytes);
        receive(fd);
        /* libmicrohttpd itself finds no room to answer */
        bool edge = bytes > POOL_BYTES - 450 && bytes < POOL_BYTES;
        cr_assert(reply.status == 201 || reply.status == 431 || (edge && reply.status == 0),
                  "%d: %d", bytes, reply.status);
        if (bytes <= HEADER_BYTES_MAX)
            cr_assert_eq(reply.status, 201, "%d bytes are fine", bytes);
        else if (refused_at == 0)
            refused_at = (size_t)bytes;
        cr_assert(bytes <= HEADER_BYTES_MAX || reply.status != 201);
        if (bytes > HEADER_BYTES_MAX && bytes < 9000)
            expect(431, "headers_too_large");
        close(fd);
    }
    cr_assert_gt(refused_at, 0);
    cr_assert_eq(stage.undelivered, 0);
}

Test(requests, long_targets, .init = stage_play, .fini = stage_close)
{
    static char padding[20000];
    for (size_t len = 3000; len < 16000; len += 331) {
        memset(padding, 'k', len);
        padding[len] = '\0';
        call(API, "GET /locks/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", padding);
        if (len < TARGET_BYTES_MAX - 10)
            expect(400, "bad_request");
        else
            cr_assert(reply.status == 414 || reply.status == 431 || len > POOL_BYTES - 450,
                      "%zu: %d", len, reply.status);
        if (len > TARGET_BYTES_MAX && len < 8000)
            expect(414, "uri_too_long");
    }
}

Test(requests, what_is_no_http_is_refused, .init = stage_play, .fini = stage_close)
{
    static const char *const wrong[] = {
        "\r\n\r\nxyz\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez\r\n\r\n",
        "GET /livez HTTP/3.0\r\nHost: localhost\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost localhost\r\n\r\n",
        "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "PUT /locks/k HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 99999999999999999999\r\n\r\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int fd = caller_open(API);
        caller_say(fd, wrong[i]);
        shutdown(fd, SHUT_WR);
        receive(fd);
        cr_assert(reply.status == 0 || reply.status >= 400 || (i == 2 && reply.status == 200),
                  "%s: %d", wrong[i], reply.status);
        close(fd);
    }
    cr_assert_eq(stage.submitted, 0);
    cr_assert_eq(ask("GET /livez", "", ""), 200);
}

/* ---- guards (D9) ---- */

Test(requests, origin, .init = stage_play, .fini = stage_close)
{
    ask("POST /locks/k", "Origin: http://localhost\r\n", "");
    expect(403, "origin_refused");
    ask("GET /livez", "Origin: null\r\n", "");
    expect(403, "origin_refused");
    call(UNIX, "POST /locks/k HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\n\r\n");
    expect(403, "origin_refused");
    call(ADMIN, "GET /livez HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\n\r\n");
    cr_assert_eq(reply.status, 200);
    cr_assert_eq(stage.submitted, 0);
}

Test(requests, host, .init = stage_play, .fini = stage_close)
{
    static const struct {
        const char *host;
        int status;
    } cases[] = {{"localhost", 200},
                 {"localhost:8080", 200},
                 {"LocalHost:1", 200},
                 {"127.0.0.1", 200},
                 {"127.0.0.1:", 200},
                 {"[::1]", 200},
                 {"[::1]:8080", 200},
                 {"agent.test", 200},
                 {"agent.test:99", 200},
                 {"evil.test", 421},
                 {"localhost.evil.test", 421},
                 {"127.0.0.2", 421},
                 {"[::2]", 421},
                 {"[::1", 421},
                 {"localhost:x", 421},
                 {"localhost@evil.test", 421},
                 {"", 421},
                 {":8080", 421},
                 {"::1", 421}};
    stage.config->allowed_host_count = 1;
    snprintf(stage.config->allowed_hosts[0], sizeof(stage.config->allowed_hosts[0]), "agent.test");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        call(API, "GET /livez HTTP/1.1\r\nHost: %s\r\n\r\n", cases[i].host);
        cr_assert_eq(reply.status, cases[i].status, "%s: %d", cases[i].host, reply.status);
        if (cases[i].status == 421)
            expect(421, "misdirected");
    }
    call(API, "GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n\r\n");
    cr_assert_eq(reply.status, 400);
    call(API, "GET /livez HTTP/1.1\r\n\r\n");
    cr_assert_eq(reply.status, 400);
    call(API, "GET /livez HTTP/1.0\r\n\r\n");
    cr_assert_eq(reply.status, 200);
    call(API, "GET /livez HTTP/1.0\r\nHost: evil.test\r\n\r\n");
    cr_assert_eq(reply.status, 421);
    call(UNIX, "GET /livez HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    cr_assert_eq(reply.status, 200);
    call(ADMIN, "GET /livez HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    cr_assert_eq(reply.status, 200);
}

static void write_secret(const char *secret)
{
    snprintf(stage.config->token_file, sizeof(stage.config->token_file), "%s/secret", stage.folder);
    FILE *file = fopen(stage.config->token_file, "w");
    fputs(secret, file);
    fclose(file);
}

Test(requests, bearer_token, .init = stage_open, .fini = stage_close)
{
    write_secret("s3cret\n");
    stage_start();
    ask("POST /locks/k", "", "");
    expect(401, "unauthorized");
    cr_assert(strstr(header("WWW-Authenticate"), "Bearer") == header("WWW-Authenticate"));
    static const char *const wrong[] = {
        "Bearer s3cre", "Bearer s3crets", "Bearer s3creT",      "Bearer ",
        "Basic s3cret", "s3cret",         "Bearer s3crets3cret"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char headers[64];
        snprintf(headers, sizeof(headers), "Authorization: %s\r\n", wrong[i]);
        ask("GET /locks", headers, "");
        expect(401, "unauthorized");
    }
    /* D9: of two headers a proxy may have looked at the other one. */
    ask("GET /locks", "Authorization: Bearer s3cret\r\nAuthorization: Bearer s3cret\r\n", "");
    expect(401, "unauthorized");
    ask("GET /locks", "Authorization: Bearer s3cret\r\n", "");
    expect(200, "");
    ask("GET /locks", "Authorization: bearer s3cret\r\n", "");
    expect(200, "");
    ask("GET /metrics", "", "");
    expect(401, "unauthorized");
    ask("GET /livez", "", "");
    expect(200, "");
    ask("GET /readyz", "", "");
    expect(200, "");
    call(ADMIN, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(200, "");

    write_secret("other");
    turn_for(1200);
    ask("GET /locks", "Authorization: Bearer s3cret\r\n", "");
    expect(401, "unauthorized");
    ask("GET /locks", "Authorization: Bearer other\r\n", "");
    expect(200, "");
    write_secret("third");
    api_reload(stage.api, stage.config);
    ask("GET /locks", "Authorization: Bearer third\r\n", "");
    expect(200, "");
    log_setup(LOG_ERROR + 1, LOG_TEXT);
    unlink(stage.config->token_file); /* The token is revoked. */
    turn_for(1200);
    ask("GET /locks", "Authorization: Bearer third\r\n", "");
    expect(401, "unauthorized");
    write_secret("");
    api_reload(stage.api, stage.config);
    ask("GET /locks", "Authorization: Bearer \r\n", "");
    expect(401, "unauthorized");
}

static void expect_bearer(const char *secret, int status)
{
    char headers[64];
    snprintf(headers, sizeof(headers), "Authorization: Bearer %s\r\n", secret);
    ask("GET /locks", headers, "");
    cr_assert_eq(reply.status, status, "%s: %d", secret, reply.status);
}

/* A mount may be missing for a moment, and comes back with the time of change that it had. */
Test(requests, a_token_file_that_was_away_is_read_again, .init = stage_open, .fini = stage_close)
{
    char away[sizeof(stage.config->token_file) + 8];
    write_secret("s3cret");
    snprintf(away, sizeof(away), "%s.away", stage.config->token_file);
    stage_start();
    expect_bearer("s3cret", 200);
    log_setup(LOG_ERROR + 1, LOG_TEXT);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(rename(stage.config->token_file, away), 0);
        turn_for(1200);
        expect_bearer("s3cret", 401);
        cr_assert_eq(rename(away, stage.config->token_file), 0);
        turn_for(1200);
        expect_bearer("s3cret", 200);
    }
}

/* A file that was copied with its times shows by its number alone that it is another one. */
Test(requests, a_token_file_that_was_replaced_is_read, .init = stage_open, .fini = stage_close)
{
    char path[sizeof(stage.config->token_file)], other[sizeof(path) + 8];
    struct stat before;
    write_secret("s3cret");
    snprintf(path, sizeof(path), "%s", stage.config->token_file);
    snprintf(other, sizeof(other), "%s.new", path);
    stage_start();
    expect_bearer("s3cret", 200);
    cr_assert_eq(stat(path, &before), 0);
    cr_assert_eq(rename(path, other), 0);
    write_secret("secret");
    const struct timespec times[] = {before.st_atim, before.st_mtim};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    turn_for(1200);
    expect_bearer("s3cret", 401);
    expect_bearer("secret", 200);
}

Test(requests, an_unreadable_token_file_stops_the_start, .init = stage_open, .fini = stage_close)
{
    snprintf(stage.config->token_file, sizeof(stage.config->token_file), "%s/missing",
             stage.folder);
    stage_start();
    cr_assert_null(stage.api);
    cr_assert(strstr(stage.error, "api.token_file") == stage.error, "%s", stage.error);
}

Test(requests, admin_listener_serves_no_lock_calls, .init = stage_play, .fini = stage_close)
{
    static const char *const locks[] = {"POST /locks/k", "GET /locks/k", "GET /locks",
                                        "DELETE /locks/k"};
    static const char *const pages[] = {
        "/metrics", "/livez", "/readyz", "/healthz", "/openapi.yaml", "/openapi-3.0.yaml", "/"};
    for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++) {
        call(ADMIN, "%s HTTP/1.1\r\nHost: x\r\n\r\n", locks[i]);
        expect(404, "not_found");
    }
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        call(ADMIN, "GET %s?x=1 HTTP/1.1\r\nHost: x\r\nAccept: image/png\r\n\r\n", pages[i]);
        cr_assert_eq(reply.status, 200, "%s", pages[i]);
        call(API, "HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n", pages[i]);
        cr_assert_eq(reply.status, 200, "%s", pages[i]);
    }
    cr_assert_eq(stage.submitted, 0);
}
