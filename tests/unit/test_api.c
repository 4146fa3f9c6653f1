/* The API against real sockets: every route and code, everything that callers get wrong, and callers that go away. */
#include "tests/unit/api_stage.h"

#include "api/key.h"
#include "api/text.h"

TestSuite(api, .timeout = 60);

/* ---- tables and prose ---- */

static char *read_source(const char *path)
{
    const char *top = getenv("LOCKAGENT_SOURCE");
    char name[512];
    snprintf(name, sizeof(name), "%s/%s", top == NULL ? "." : top, path);
    FILE *file = fopen(name, "r");
    cr_assert_not_null(file, "%s", name);
    char *text = calloc(1, 1 << 20);
    cr_assert_gt(fread(text, 1, (1 << 20) - 1, file), 0);
    fclose(file);
    return text;
}

static void expect_word(const char *text, const char *format, const char *word)
{
    char line[256];
    snprintf(line, sizeof(line), "%s%s%s", format, word, "\n");
    cr_assert_not_null(strstr(text, line), "openapi.yaml does not name \"%s%s\"", format, word);
}

Test(api, openapi_names_every_route_parameter_code_and_reason)
{
    static const char *const own[] = {
#define X(id, code, ...) code,
        PROBLEMS(X)
#undef X
    };
    char *text = read_source("api/openapi.yaml"), line[256];
    for (size_t i = 0; i < route_count; i++) {
        snprintf(line, sizeof(line), "%s:", routes[i].path);
        expect_word(text, "\n  ", line);
    }
    for (int p = 0; p < PARAM_COUNT; p++)
        expect_word(text, "\n      name: ", param_name((enum param)p));
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        expect_word(text, "            - ", own[i]);
    for (int a = 0; a < ANSWER_COUNT; a++)
        if (answer_status((enum answer)a) >= 400)
            expect_word(text, "            - ", answer_code((enum answer)a));
    for (int r = 0; r < REASON_COUNT; r++)
        cr_assert_not_null(strstr(text, reason_name((enum reason)r)));
    free(text);
}

Test(api, every_code_of_the_core_has_a_status)
{
    for (int a = 0; a < ANSWER_COUNT; a++)
        cr_assert(answer_status((enum answer)a) >= 200 && answer_status((enum answer)a) < 600, "%s",
                  answer_code((enum answer)a));
}

/* ---- keys ---- */

Test(api, keys)
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
        cr_assert_eq(fault == NULL, cases[i].key != NULL, "%s: %s", cases[i].raw, fault == NULL ? "taken" : fault);
        if (fault == NULL)
            cr_assert(text_is((struct text){key, len}, cases[i].key), "%s: %.*s", cases[i].raw, (int)len, key);
    }
}

Test(api, key_length)
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

Test(api, keys_over_http, .init = stage_play, .fini = stage_close)
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

/* R11: as a grant, but with 200 and the count; if it is not delivered, it is counted down. */
Test(api, reentered, .init = stage_play, .fini = stage_close)
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

/* A NUL byte cuts what libmicrohttpd shows of a request line: it must never become a shorter key. */
Test(api, a_raw_nul_in_the_target_is_no_shorter_key, .init = stage_play, .fini = stage_close)
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

#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"
#define JSON "Content-Type: application/json\r\n"

static void expect_all_parameters(void)
{
    expect(201, "");
    const struct event_acquire *acquire = &stage.last.acquire;
    cr_assert_eq(stage.last.kind, EVENT_ACQUIRE);
    cr_assert_eq(acquire->ttl_ms, 1500);
    cr_assert_eq(acquire->wait_ms, 2000);
    cr_assert_eq(acquire->max_hold_ms, 300000);
    cr_assert_eq(acquire->renew, RENEW_AGENT);
    cr_assert_str_eq(stage.last_label, "me & \xC3\xA4");
    memset(&stage.last, 0, sizeof(stage.last));
}

Test(api, parameters_in_three_forms, .init = stage_play, .fini = stage_close)
{
#define PAIRS "ttl=1.5s&wait=2s&max_hold=5m&renew=agent&label=me+%26%20%C3%A4"
    stage.answer = a_hold(ANSWER_GRANTED);
    ask("POST /locks/k?" PAIRS, "", "");
    expect_all_parameters();
    ask("POST /locks/k", FORM, PAIRS);
    expect_all_parameters();
    ask("POST /locks/k", "Content-Type: Application/X-WWW-Form-Urlencoded; charset=utf-8\r\n", PAIRS);
    expect_all_parameters();
    ask("POST /locks/k", JSON,
        "{\"ttl\":\"1.5s\",\"wait\":\"2s\",\"max_hold\":\"5m\",\"renew\":\"agent\",\"label\":\"me & \\u00e4\"}");
    expect_all_parameters();
    ask("POST /locks/k?ttl=1500ms&&wait=2s&", FORM, "max_hold=5m&renew=agent&label=me+%26%20%C3%A4");
    expect_all_parameters();
    call(API, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" FORM
              "\r\n8\r\nttl=1.5s\r\n36\r\n&wait=2s&max_hold=5m&renew=agent&label=me+%%26%%20%%C3%%A4\r\n0\r\n\r\n");
    expect_all_parameters();
    ask("POST /locks/k?label=", "", "");
    expect(201, "");
    cr_assert_eq(stage.last.acquire.label.len, 0);
    cr_assert_eq(stage.last.acquire.ttl_ms, 0);
    cr_assert_eq(stage.last.acquire.renew, RENEW_UNSET);
}

static void refused(const char *line, const char *headers, const char *body, const char *parameter, const char *part)
{
    ask(line, headers, body);
    expect(400, "bad_request");
    const char *named = json_string_value(json_object_get(reply.json, "parameter"));
    cr_assert_str_eq(named == NULL ? "" : named, parameter, "%s", reply.body);
    cr_assert_not_null(strstr(detail(), part), "%s: expected \"%s\" in \"%s\"", line, part, detail());
}

Test(api, bad_parameters, .init = stage_play, .fini = stage_close)
{
    refused("POST /locks/k?tll=3s", "", "", "tll", "did you mean ttl?");
    refused("POST /locks/k?tll=3s", "", "", "tll", "allowed: ttl, wait, renew, max_hold, bind, label, owner");
    refused("POST /locks/k?maxhold=3s", "", "", "maxhold", "did you mean max_hold?");
    refused("POST /locks/k?zebra=1", "", "", "zebra", "parameter zebra is not known here");
    refused("POST /locks/k?=3s", "", "", "", "parameter without a readable name is not known here");
    refused("POST /locks/k?%ff=3s", "", "", "", "parameter without a readable name is not known here");
    refused("POST /locks/k?TTL=3s", "", "", "TTL", "not known here");
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
    refused("POST /locks/k?max_hold=0ms", "", "", "max_hold", "0ms came");
    refused("POST /locks/k?renew=me", "", "", "renew", "agent or caller");
    refused("POST /locks/k?label=a%0Ab", "", "", "label", "without control characters");
    refused("POST /locks/k?label=%FF", "", "", "label", "parameter label");
    refused("POST /locks/k?label=12345678901234567890123456789012345678901234567890123456789012345", "", "", "label",
            "up to 64 bytes");
    refused("POST /locks/k?token=x", "", "", "token", "parameter token is not known here");
    refused("POST /locks/k?bind=pod", "", "", "bind", "none or connection");
    refused("POST /locks/k?bind=connection&renew=caller", "", "", "renew", "agent, where bind is connection");
    refused("POST /locks/k?watch", "", "", "watch", "not known here");
    refused("POST /locks/k?owner=123456789012345", "", "", "owner", "16 to 64 visible ASCII");
    refused("POST /locks/k?owner=1234567890123456%20", "", "", "owner", "16 to 64 visible ASCII");
    refused("POST /locks/k?owner=1234567890123456", "", "", "owner", "which this one's is not");
    cr_assert_null(strstr(reply.body, "1234567890123456"), "an owner is secret: %s", reply.body);
    refused("POST /locks/k", JSON, "{\"owner\":1234567890123456}", "owner", "no string");
    cr_assert_null(strstr(reply.body, "1234567890123456"), "an owner is secret: %s", reply.body);
    refused("PUT /locks/k?bind=none", "Lock-Token: " A_TOKEN "\r\n", "", "bind", "allowed: ttl, renew, token");
    refused("PUT /locks/k?wait=3s", "Lock-Token: " A_TOKEN "\r\n", "", "wait", "allowed: ttl, renew, token");
    refused("DELETE /locks/k?ttl=3s", "Lock-Token: " A_TOKEN "\r\n", "", "ttl", "allowed: token");
    refused("GET /locks/k?watch=no", "", "", "watch", "no value, or true");
    refused("GET /locks/k?ttl=3s", "", "", "ttl", "allowed: watch");
    refused("GET /locks?watch", "", "", "watch", "allowed: limit, cursor");
    refused("GET /locks?limit=0", "", "", "limit", "from 1 to 1000");
    refused("GET /locks?limit=1001", "", "", "limit", "from 1 to 1000");
    refused("GET /locks?limit=99999999999", "", "", "limit", "from 1 to 1000");
    refused("GET /locks?cursor=x7", "", "", "cursor", "next_cursor");
    refused("POST /locks/k", JSON, "{\"ttl\":30}", "ttl", "30 came, which is no string");
    refused("POST /locks/k", JSON, "{\"ttl\":null}", "ttl", "null came, which is no string");
    refused("POST /locks/k", JSON, "{\"ttl\":\"3s\",\"ttl\":\"4s\"}", "ttl", "came twice");
    refused("POST /locks/k", JSON, "{\"tll\":\"3s\"}", "tll", "did you mean ttl?");
    refused("POST /locks/k", JSON, "{\"ttl\":\"3s\"", "", "the body is no JSON");
    refused("POST /locks/k", JSON, "[\"ttl\"]", "", "no object");
    refused("POST /locks/k", JSON, "{\"label\":\"a\\u0000b\"}", "", "the body is no JSON");
    refused("POST /locks/k?%FF=1", "", "", "", "not known here");
    refused("POST /locks/k?%zz=1", "", "", "%zz", "percent-encoding");
    refused("POST /locks/k", JSON, "{\"a\":\"\\u\xd0\x9c\"}", "", "the body is no JSON");
    cr_assert_eq(stage.submitted, 0);
    ask("POST /locks/k",
        "Content-Type: 123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
        "123456789\xc3\xa9\r\n",
        "x");
    expect(415, "unsupported_media_type"); /* its hundredth byte is half a character */
    cr_assert_not_null(strstr(detail(), "789?;"), "%s", detail());
    ask("POST /locks/k?label=1234567890123456789012345678901234567890123456789012345678901234", "", "");
    cr_assert_eq(strlen(stage.last_label), LIMIT_LABEL_BYTES);
}

Test(api, tokens, .init = stage_play, .fini = stage_close)
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
    refused("PUT /locks/k?token=" A_TOKEN, "Lock-Token: abce000000000000000000000000000000000000.1795226400000001\r\n",
            "", "token", "differ");
    refused("PUT /locks/k?token=" A_TOKEN, "Lock-Token: nonsense\r\n", "", "token", "differ");
    refused("DELETE /locks/k", "Lock-Token: s3cret\r\n", "", "token", "no token of this format");
    cr_assert_null(strstr(reply.body, "s3cret"));
    refused("DELETE /locks/k?token=s3cret", "", "", "token", "no token of this format");
    cr_assert_null(strstr(reply.body, "s3cret"));
    refused("DELETE /locks/k", "Lock-Token: " A_TOKEN "\r\nLock-Token: " A_TOKEN "\r\n", "", "", "twice");
    ask("PUT /locks/k", "", "");
    expect(400, "token_required");
    ask("DELETE /locks/k", "", "");
    expect(400, "token_required");
    cr_assert_eq(stage.submitted, submitted);
}

/* D3: the Idempotency-Key stands in for the token of a DELETE; what it is worth is the core's affair. */
Test(api, idempotency_key, .init = stage_play, .fini = stage_close)
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
    refused("DELETE /locks/k", KEY_HEADER "Lock-Token: " A_TOKEN "\r\n", "", "Idempotency-Key", "or the token");
    refused("POST /locks/k", "Idempotency-Key: 0123456789abcde\r\n", "", "Idempotency-Key", "16 to 64");
    refused("POST /locks/k", "Idempotency-Key: 0123456789 abcdef\r\n", "", "Idempotency-Key", "16 to 64");
    refused("POST /locks/k", KEY_HEADER KEY_HEADER, "", "", "came twice");
    refused("POST /locks/k?bind=connection", KEY_HEADER, "", "Idempotency-Key", "bind is connection");
    refused("POST /locks/k?owner=0123456789abcdef", KEY_HEADER, "", "Idempotency-Key", "an owner");
    cr_assert_eq(stage.submitted, submitted);
#undef KEY_HEADER
}

/* ---- answers ---- */

Test(api, granted, .init = stage_play, .fini = stage_close)
{
    stage.answer = a_hold(ANSWER_GRANTED);
    ask("POST /locks/jobs/1", "", "");
    expect(201, "");
    cr_assert_str_eq(header("Content-Type"), "application/json");
    cr_assert_str_eq(header("Location"), "/locks/jobs/1");
    cr_assert_str_eq(header("Lock-Token"), A_TOKEN);
    cr_assert_str_eq(header("Fencing-Token"), "1795226400000001");
    cr_assert_eq(atoll(header("Valid-For-Ms")), number("valid_for_ms"));
    cr_assert(number("valid_for_ms") > 9000 && number("valid_for_ms") <= 9898);
    cr_assert_eq(number("valid_until_boottime_ms"), stage.answer.hold.valid_until.us / 1000);
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "token")), A_TOKEN);
    cr_assert_eq(number("fencing_token"), 1795226400000001);
    cr_assert_eq(number("ttl_ms"), 10000);
    cr_assert_eq(number("max_hold_ms"), 600000);
    cr_assert_eq(number("waited_ms"), 1234);
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "renew")), "caller");
    json_t *nodes = json_object_get(reply.json, "nodes");
    cr_assert_eq(json_integer_value(json_object_get(nodes, "granted")), 2);
    cr_assert_eq(json_integer_value(json_object_get(nodes, "total")), 3);
    cr_assert_eq(json_integer_value(json_object_get(nodes, "quorum")), 2);
    cr_assert_null(json_object_get(reply.json, "adopted"));

    stage.answer.hold.token.fence = 0;
    ask("POST /locks/k", "", "");
    expect(201, "");
    cr_assert(json_is_null(json_object_get(reply.json, "fencing_token")));
    cr_assert_null(header("Fencing-Token"));
    cr_assert_eq(stage.undelivered, 0);
}

Test(api, plain_text, .init = stage_play, .fini = stage_close)
{
    static const struct effect_answer held = {.answer = ANSWER_LOCK_HELD, .retry_after_ms = 100};
    stage.answer = a_hold(ANSWER_GRANTED);
    ask("POST /locks/k", "Accept: text/plain\r\n", "");
    cr_assert_eq(reply.status, 201);
    cr_assert_str_eq(reply.body, A_TOKEN "\n");
    cr_assert_str_eq(header("Lock-Token"), A_TOKEN);
    stage.answer = held;
    ask("POST /locks/k", "Accept: text/plain\r\n", "");
    cr_assert_eq(reply.status, 409);
    cr_assert_str_eq(reply.body, "lock_held: the lock is held by another holder\n");
    cr_assert_str_eq(header("Retry-After"), "1");
    ask("POST /locks/k?ttl=x", "Accept: text/plain\r\n", "");
    cr_assert_eq(reply.status, 400);
    cr_assert(strstr(reply.body, "bad_request: parameter ttl: x came") == reply.body, "%s", reply.body);
    stage.answer = (struct effect_answer){.answer = ANSWER_STATE, .state = KEY_HELD};
    ask("GET /locks/k", "Accept: text/plain\r\n", "");
    cr_assert_str_eq(reply.body, "held\n");
    stage.answer = (struct effect_answer){.answer = ANSWER_RELEASE_PENDING};
    ask("DELETE /locks/k", "Accept: text/plain\r\nLock-Token: " A_TOKEN "\r\n", "");
    cr_assert_eq(reply.status, 202);
    cr_assert_str_eq(reply.body, "release_pending\n");
}

Test(api, accept, .init = stage_play, .fini = stage_close)
{
    static const struct {
        const char *accept, *type; /* NULL: 406 */
    } cases[] = {
        {"*/*", "application/json"},
        {"application/json", "application/json"},
        {"application/*", "application/json"},
        {"application/problem+json", "application/json"},
        {"application/json, text/plain, */*", "application/json"},
        {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"},
        {"text/plain", "text/plain; charset=utf-8"},
        {"TEXT/PLAIN ; charset=utf-8", "text/plain; charset=utf-8"},
        {"text/*", "text/plain; charset=utf-8"},
        {"text/plain, application/json;q=0.5", "text/plain; charset=utf-8"},
        {"text/plain;q=0.4, application/json;q=0.5", "application/json"},
        {"text/plain, */*", "text/plain; charset=utf-8"},
        {"application/json;q=0, */*", "text/plain; charset=utf-8"},
        {"image/png", NULL},
        {"text/html", NULL},
        {"text/plain;q=0", NULL},
        {"*/*;q=0.0", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char headers[128];
        snprintf(headers, sizeof(headers), "Accept: %s\r\n", cases[i].accept);
        stage.answer = a_hold(ANSWER_GRANTED);
        ask("POST /locks/k", headers, "");
        if (cases[i].type == NULL) {
            expect(406, "not_acceptable");
            continue;
        }
        cr_assert_eq(reply.status, 201, "%s: %d", cases[i].accept, reply.status);
        cr_assert_str_eq(header("Content-Type"), cases[i].type, "%s", cases[i].accept);
    }
}

Test(api, adopted, .init = stage_play, .fini = stage_close)
{
    stage.answer = a_hold(ANSWER_RENEWED);
    stage.answer.adopted = stage.answer.continuous = true;
    ask("PUT /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
    expect(200, "");
    cr_assert(json_is_true(json_object_get(reply.json, "adopted")));
    cr_assert(json_is_true(json_object_get(reply.json, "continuous")));
    stage.answer.continuous = false;
    ask("PUT /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "continuous")), "unknown");
    cr_assert_null(header("Location"));
}

/* Every answer of the core: its status, its code, and the members that belong to it. */
Test(api, every_answer_of_the_core, .init = stage_play, .fini = stage_close)
{
    static const struct {
        enum answer answer;
        const char *line;
        int status;
        const char *code, *member, *retry;
    } cases[] = {
        {ANSWER_RELEASED, "DELETE /locks/k", 204, "", NULL, NULL},
        {ANSWER_RELEASE_PENDING, "DELETE /locks/k", 202, "release_pending", "nodes", NULL},
        {ANSWER_LOCK_HELD, "POST /locks/k", 409, "lock_held", "holder", "3"},
        {ANSWER_LOCK_HELD, "POST /locks/k", 409, "lock_held", "retry_after_ms", "3"},
        {ANSWER_WAIT_TIMEOUT, "POST /locks/k", 409, "wait_timeout", "retry_after_ms", "3"},
        {ANSWER_QUORUM_UNAVAILABLE, "POST /locks/k", 503, "quorum_unavailable", "nodes", "3"},
        {ANSWER_VALIDITY_EXPIRED, "POST /locks/k", 503, "validity_expired", "nodes", NULL},
        {ANSWER_RENEW_FAILED, "PUT /locks/k", 503, "renew_failed", "valid_for_ms", NULL},
        {ANSWER_LOCK_LOST, "PUT /locks/k", 410, "lock_lost", "reason", NULL},
        {ANSWER_TOKEN_MISMATCH, "PUT /locks/k", 412, "token_mismatch", NULL, NULL},
        {ANSWER_NOT_HELD, "DELETE /locks/k", 404, "not_held", NULL, NULL},
        {ANSWER_BAD_TTL, "POST /locks/k?ttl=50ms", 400, "bad_request", "parameter", NULL},
        {ANSWER_TOO_MANY_LOCKS, "POST /locks/k", 429, "too_many_locks", NULL, "3"},
        {ANSWER_TOO_MANY_WAITERS, "POST /locks/k", 429, "too_many_waiters", NULL, "3"},
        {ANSWER_SUPERSEDED, "POST /locks/k", 409, "superseded", NULL, NULL},
        {ANSWER_IDEMPOTENCY_MISMATCH, "POST /locks/k", 409, "idempotency_mismatch", NULL, NULL},
        {ANSWER_DRAINING, "POST /locks/k", 503, "draining", NULL, "3"},
    };
    unsigned seen = 1U << ANSWER_GRANTED | 1U << ANSWER_REENTERED | 1U << ANSWER_REPEATED | 1U << ANSWER_RENEWED |
                    1U << ANSWER_STATE; /* have tests of their own */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        seen |= 1U << cases[i].answer;
        stage.answer = a_hold(cases[i].answer);
        stage.answer.holder = text_of("night\"shift");
        stage.answer.retry_after_ms = 2001;
        stage.answer.reason = REASON_TAKEN;
        stage.answer.ttl_ms_min = 200;
        stage.answer.ttl_ms_max = 60000;
        ask(cases[i].line, cases[i].line[0] == 'P' && cases[i].line[1] == 'O' ? "" : "Lock-Token: " A_TOKEN "\r\n", "");
        expect(cases[i].status, cases[i].code);
        if (cases[i].member != NULL)
            cr_assert_not_null(json_object_get(reply.json, cases[i].member), "%s", reply.body);
        const char *retry = header("Retry-After");
        cr_assert_eq(retry == NULL, cases[i].retry == NULL, "%s", cases[i].code);
        if (retry != NULL)
            cr_assert_str_eq(retry, cases[i].retry);
        if (cases[i].status < 400)
            continue;
        cr_assert_str_eq(header("Content-Type"), "application/problem+json");
        cr_assert_eq(number("status"), cases[i].status);
        cr_assert(json_is_string(json_object_get(reply.json, "title")) &&
                  json_is_string(json_object_get(reply.json, "type")));
    }
    cr_assert_eq(seen, (1U << ANSWER_COUNT) - 1, "an answer of the core has no test");
}

Test(api, details_of_answers, .init = stage_play, .fini = stage_close)
{
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD, .holder = text_of("rival"), .retry_after_ms = -1};
    ask("POST /locks/k", "", "");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "holder")), "rival");
    cr_assert_str_eq(header("Retry-After"), "1");
    cr_assert_null(json_object_get(reply.json, "retry_after_ms"));
    stage.answer.holder = text_of("\xff\xfe"); /* anybody may have written it */
    ask("POST /locks/k", "", "");
    expect(409, "lock_held");
    cr_assert(json_is_null(json_object_get(reply.json, "holder")));
    stage.answer = (struct effect_answer){.answer = ANSWER_BAD_TTL, .ttl_ms_min = 1000, .ttl_ms_max = 60000};
    ask("POST /locks/k?ttl=500ms", "", "");
    cr_assert_str_eq(detail(), "parameter ttl: 500ms came; allowed: 1s to 1m");
    cr_assert_eq(number("ttl_ms_min"), 1000);
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = REASON_MAX_HOLD};
    ask("PUT /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "reason")), "max_hold");
}

Test(api, state_of_a_key, .init = stage_play, .fini = stage_close)
{
    struct master_state masters[3] = {{VOTE_YES, 7000}, {VOTE_FOREIGN, -1}, {VOTE_UNKNOWN, -1}};
    stage.config->groups[0].master_count = 1;
    stage.answer = a_hold(ANSWER_STATE);
    stage.answer.state = KEY_HELD;
    stage.answer.masters = masters;
    stage.answer.holder = text_of("me");
    stage.answer.local = true;
    ask("GET /locks/k", "", "");
    expect(200, "");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "state")), "held");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "holder")), "me");
    cr_assert_eq(number("remaining_ttl_ms"), 7000);
    json_t *list = json_object_get(reply.json, "masters"), *hold = json_object_get(reply.json, "hold");
    cr_assert_eq(json_array_size(list), 3);
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "master")), "unix:/nowhere/redis.sock");
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "state")), "foreign");
    cr_assert(json_integer_value(json_object_get(hold, "valid_for_ms")) > 9000);
    cr_assert_null(strstr(reply.body, "abcd0000"), "a token must never be listed");
    stage.skew_us = 11000000; /* R14: nothing is reported held after its validity */
    ask("GET /locks/k", "", "");
    cr_assert_null(json_object_get(reply.json, "hold"));
    stage.skew_us = 0;
    call(API, "HEAD /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(reply.status, 200);
    cr_assert_gt(atoi(header("Content-Length")), 100);
}

/* ---- the clock (R4, R14) ---- */

Test(api, a_grant_that_is_late_is_given_back, .init = stage_play, .fini = stage_close)
{
    stage.answers_at_once = false;
    stage.answer = a_hold(ANSWER_GRANTED);
    int fd = caller_open(API);
    caller_say(fd, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.pending_count == 1));
    answer_pending();
    stage.skew_us = 9898000; /* between the core's answer and the write */
    receive(fd);
    expect(503, "validity_expired");
    cr_assert_null(header("Lock-Token"));
    cr_assert_eq(stage.undelivered, 1);
    cr_assert_eq(stage.undelivered_slot, 7);
    close(fd);
}

/* Whoever is told of a bound hold after its end would hear nothing more, and wait for ever. */
Test(api, a_bound_hold_that_is_over_begins_no_stream, .init = stage_play, .fini = stage_close)
{
    stage.answers_at_once = false;
    stage.answer = a_hold(ANSWER_GRANTED);
    int fd = caller_open(API);
    caller_say(fd, "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.pending_count == 1));
    answer_pending(); /* and the core knows of no hold when it is written */
    receive(fd);
    expect(503, "validity_expired");
    cr_assert_eq(stage.undelivered, 1);
    close(fd);
}

Test(api, a_bound_hold_at_the_end_of_the_agent_begins_no_stream, .init = stage_play, .fini = stage_close)
{
    stage.answers_at_once = false;
    stage.answer = a_hold(ANSWER_GRANTED);
    int fd = caller_open(API);
    caller_say(fd, "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.pending_count == 1));
    answer_pending();
    stage_stop();
    receive(fd);
    expect(503, "draining");
    cr_assert_eq(stage.undelivered, 1);
    close(fd);
}

/* R11: a thousand callers that do not read may share one hold, and the loop has room for a thousand events. */
Test(api, a_hold_of_several_stuck_readers_is_lost_once, .init = stage_play, .fini = stage_close)
{
    enum { CALLERS = 3 };
    int fds[CALLERS];
    stage.config->policies[1].core.max_hold_ms = 3600000;
    stage.config->policies[1].core.bound_max_hold_ms = 3600000;
    core_set_policies(stage.core,
                      (struct core_policy[]){stage.config->policies[0].core, stage.config->policies[1].core}, 2);
    stage.answer = a_real_hold("k");
    for (int i = 0; i < CALLERS; i++) {
        fds[i] = caller_open(API);
        caller_say(fds[i], "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    cr_assert(until(stage.submitted == CALLERS));
    turn_for(50);
    struct effect_trace renewed = {
        .kind = TRACE_RENEWED, .lock = stage.answer.lock, .valid_until = stage.answer.hold.valid_until};
    api_notify(stage.api, &renewed);
    cr_assert_eq(stage.stuck, 0);
    stage.skew_us = 3000000;
    api_notify(stage.api, &renewed); /* none of them has taken the line before */
    cr_assert_eq(stage.stuck, 1);
    struct effect_trace lost = renewed;
    lost.kind = TRACE_LOST;
    api_notify(stage.api, &lost);
    turn_for(50);
    cr_assert_eq(stage.undelivered, 0);
    for (int i = 0; i < CALLERS; i++)
        close(fds[i]);
}

Test(api, a_renewal_that_is_late_is_lost, .init = stage_play, .fini = stage_close)
{
    static const enum answer answers[] = {ANSWER_RENEWED, ANSWER_RENEW_FAILED};
    for (size_t i = 0; i < 2; i++) {
        stage.answer = a_hold(answers[i]);
        stage.answer.hold.valid_until = instant_after_ms(stage_now(NULL), -1);
        ask("PUT /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
        expect(410, "lock_lost");
    }
    cr_assert_eq(stage.undelivered, 0);
}

/* ---- what is refused ---- */

Test(api, paths_and_methods, .init = stage_play, .fini = stage_close)
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
    expect(404, "not_found"); /* no proxy */
}

Test(api, bodies, .init = stage_play, .fini = stage_close)
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
                       "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM "Content-Length: %zu\r\n\r\n%s",
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
                   "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM "Content-Length: 65536\r\n\r\n%s", large);
    fd = caller_open(API);
    caller_send(fd, request, (size_t)len);
    receive(fd);
    expect(400, "bad_request");
    close(fd);
    ask("POST /livez", "Content-Type: image/png\r\n", "x");
    expect(405, "method_not_allowed");
    cr_assert_eq(stage.submitted, 0);
}

Test(api, an_unfinished_upload_is_refused_before_it_is_sent, .init = stage_play, .fini = stage_close)
{
    int fd = caller_open(API);
    caller_say(fd, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" FORM
                   "Content-Length: 9000000000\r\n\r\n");
    receive(fd);
    expect(413, "body_too_large");
    close(fd);
}

/* Whatever the length of a header: it is taken and answered in full, or refused with 431 or 414; never a bare end of
 * the connection. */
Test(api, long_headers, .init = stage_play, .fini = stage_close)
{
    static char padding[20000], request[24000];
    size_t refused_at = 0;
    stage.answer = a_hold(ANSWER_GRANTED);
    for (size_t len = 4000; len<16000; len += len> 7000 && len < 12600 ? 20 : 500) {
        memset(padding, 'p', len);
        padding[len] = '\0';
        int bytes =
            snprintf(request, sizeof(request), "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", padding);
        int fd = caller_open(API);
        received_len = 0;
        caller_send(fd, request, (size_t)bytes);
        receive(fd);
        bool edge = bytes > POOL_BYTES - 450 && bytes < POOL_BYTES; /* libmicrohttpd itself finds no room to answer */
        cr_assert(reply.status == 201 || reply.status == 431 || (edge && reply.status == 0), "%d: %d", bytes,
                  reply.status);
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

Test(api, long_targets, .init = stage_play, .fini = stage_close)
{
    static char padding[20000];
    for (size_t len = 3000; len < 16000; len += 331) {
        memset(padding, 'k', len);
        padding[len] = '\0';
        call(API, "GET /locks/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", padding);
        if (len < TARGET_BYTES_MAX - 10)
            expect(400, "bad_request");
        else
            cr_assert(reply.status == 414 || reply.status == 431 || len > POOL_BYTES - 450, "%zu: %d", len,
                      reply.status);
        if (len > TARGET_BYTES_MAX && len < 8000)
            expect(414, "uri_too_long");
    }
}

Test(api, what_is_no_http_is_refused, .init = stage_play, .fini = stage_close)
{
    static const char *const wrong[] = {
        "\r\n\r\nxyz\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez\r\n\r\n",
        "GET /livez HTTP/3.0\r\nHost: localhost\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost localhost\r\n\r\n",
        "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int fd = caller_open(API);
        caller_say(fd, wrong[i]);
        shutdown(fd, SHUT_WR);
        receive(fd);
        cr_assert(reply.status == 0 || reply.status >= 400 || (i == 2 && reply.status == 200), "%s: %d", wrong[i],
                  reply.status);
        close(fd);
    }
    cr_assert_eq(stage.submitted, 0);
    cr_assert_eq(ask("GET /livez", "", ""), 200);
}

/* ---- guards (D9) ---- */

Test(api, origin, .init = stage_play, .fini = stage_close)
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

Test(api, host, .init = stage_play, .fini = stage_close)
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

Test(api, bearer_token, .init = stage_open, .fini = stage_close)
{
    write_secret("s3cret\n");
    stage_start();
    ask("POST /locks/k", "", "");
    expect(401, "unauthorized");
    cr_assert(strstr(header("WWW-Authenticate"), "Bearer") == header("WWW-Authenticate"));
    static const char *const wrong[] = {"Bearer s3cre", "Bearer s3crets", "Bearer s3creT",      "Bearer ",
                                        "Basic s3cret", "s3cret",         "Bearer s3crets3cret"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char headers[64];
        snprintf(headers, sizeof(headers), "Authorization: %s\r\n", wrong[i]);
        ask("GET /locks", headers, "");
        expect(401, "unauthorized");
    }
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
    write_secret("");
    log_setup(LOG_ERROR + 1, LOG_TEXT);
    api_reload(stage.api, stage.config);
    ask("GET /locks", "Authorization: Bearer \r\n", "");
    expect(401, "unauthorized");
}

Test(api, an_unreadable_token_file_stops_the_start, .init = stage_open, .fini = stage_close)
{
    snprintf(stage.config->token_file, sizeof(stage.config->token_file), "%s/missing", stage.folder);
    stage_start();
    cr_assert_null(stage.api);
    cr_assert(strstr(stage.error, "api.token_file") == stage.error, "%s", stage.error);
}

Test(api, admin_listener_serves_no_lock_calls, .init = stage_play, .fini = stage_close)
{
    static const char *const locks[] = {"POST /locks/k", "GET /locks/k", "GET /locks", "DELETE /locks/k"};
    static const char *const pages[] = {"/metrics", "/livez", "/readyz", "/healthz", "/openapi.yaml", "/"};
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

/* ---- pages ---- */

Test(api, pages, .init = stage_play, .fini = stage_close)
{
    ask("GET /livez", "", "");
    cr_assert_str_eq(reply.body, "ok\n");
    ask("GET /healthz", "", "");
    cr_assert_str_eq(reply.body, "ok\n");
    ask("GET /openapi.yaml", "", "");
    cr_assert(strstr(reply.body, "openapi: 3.1.0") == reply.body);
    cr_assert_str_eq(header("Content-Type"), "application/yaml");
    char *source = read_source("api/openapi.yaml");
    cr_assert_str_eq(reply.body, source);
    free(source);
    ask("GET /metrics", "", "");
    cr_assert_not_null(strstr(reply.body, "# TYPE"));
    cr_assert_str_eq(header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    ask("GET /", "", "");
    cr_assert_str_eq(header("Content-Type"), "text/html; charset=utf-8");
    cr_assert_not_null(strstr(reply.body, "main&lt;&amp;&gt;"));
    cr_assert_not_null(strstr(reply.body, "unix:/nowhere/redis.sock"));
    cr_assert_not_null(strstr(reply.body, "locks held"));
    cr_assert_null(strstr(reply.body, "<script"));
}

Test(api, readiness, .init = stage_play, .fini = stage_close)
{
    ask("GET /readyz", "", "");
    expect(200, "");
    cr_assert(json_is_true(json_object_get(reply.json, "ready")));
    stage.not_ready = "group main: 0 of 1 masters are up, 1 is needed";
    ask("GET /readyz", "", "");
    expect(503, "");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "reason")), stage.not_ready);
    json_t *group = json_array_get(json_object_get(reply.json, "groups"), 0);
    cr_assert_eq(json_integer_value(json_object_get(group, "up")), 0);
    cr_assert_eq(json_integer_value(json_object_get(group, "quorum")), 1);
    json_t *master = json_array_get(json_object_get(group, "not_up"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(master, "master")), "unix:/nowhere/redis.sock");
    cr_assert_eq(ask("GET /livez", "", ""), 200); /* D5.2: liveness never depends on Redis */
    stage.not_ready = NULL;
    api_drain(stage.api);
    ask("GET /readyz", "", "");
    expect(503, "");
    stage.answer = (struct effect_answer){.answer = ANSWER_DRAINING}; /* the core's to say: it may be no new lock */
    ask("POST /locks/k", "", "");
    expect(503, "draining");
    cr_assert_not_null(header("Retry-After"));
    cr_assert_eq(stage.submitted, 1);
    stage.answer = (struct effect_answer){.answer = ANSWER_RELEASED};
    ask("DELETE /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
    expect(204, "");
}

/* Holds and waiters of the real core. */
static void step(struct event *event)
{
    event->now = stage_now(NULL);
    event->wall_us = 1795226400000000;
    memset(core_entropy(stage.core)->bytes, (int)stage.submitted + 1, ENTROPY_BYTES);
    core_entropy(stage.core)->left = ENTROPY_BYTES;
    cr_assert(core_step(stage.core, event, &stage.effects));
}

static void hold_in_core(uint32_t request, const char *key, int64_t wait_ms)
{
    struct event acquire = {
        .kind = EVENT_ACQUIRE,
        .acquire = {.request = request, .key = text_of(key), .wait_ms = wait_ms, .label = text_of("l\"1")}};
    stage.submitted++;
    step(&acquire);
    struct lock_ref ref = stage.effects.item_count > 0 ? stage.effects.items[0].ref : (struct lock_ref){0, 0, 0};
    bool sent = stage.effects.item_count > 0;
    struct event yes = {
        .kind = EVENT_REPLY,
        .reply = {.op = OP_ACQUIRE, .ref = ref, .vote = VOTE_YES, .fence = 1795226400000000, .pttl_ms = -1}};
    if (sent)
        step(&yes);
}

Test(api, list_is_paged_and_shows_no_token, .init = stage_play, .fini = stage_close)
{
    struct event up = {.kind = EVENT_MASTER_UP, .master = {.epoch = 1}};
    step(&up);
    for (uint32_t i = 0; i < 250; i++) {
        char key[32];
        snprintf(key, sizeof(key), "key/%03u", i);
        hold_in_core(i, key, 0);
    }
    for (uint32_t i = 250; i < 260; i++)
        hold_in_core(i, "key/000", 60000);
    cr_assert_eq(core_stats(stage.core)->locks_held, 250);

    bool seen[250] = {false};
    size_t held = 0, waiting = 0, pages = 0;
    char line[64] = "GET /locks?limit=60";
    for (bool more = true; more; pages++) {
        ask(line, "", "");
        expect(200, "");
        json_t *list = json_object_get(reply.json, "held"), *next = json_object_get(reply.json, "next_cursor");
        size_t i;
        json_t *entry;
        json_array_foreach(list, i, entry)
        {
            unsigned n = (unsigned)atoi(json_string_value(json_object_get(entry, "key")) + 4);
            cr_assert(n < 250 && !seen[n]);
            seen[n] = true;
            cr_assert_str_eq(json_string_value(json_object_get(entry, "label")), "l\"1");
            cr_assert_eq(json_integer_value(json_object_get(entry, "ttl_ms")), 30000);
            cr_assert_gt(json_integer_value(json_object_get(entry, "valid_for_ms")), 20000);
            cr_assert_geq(json_integer_value(json_object_get(entry, "fencing_token")), 1795226400000000);
        }
        held += json_array_size(list);
        waiting += json_array_size(json_object_get(reply.json, "waiting"));
        cr_assert_leq(json_array_size(list) + json_array_size(json_object_get(reply.json, "waiting")), 60);
        cr_assert_null(strstr(reply.body, "token\":\""));
        cr_assert_null(strstr(reply.body, "0101010101"));
        more = json_is_string(next);
        if (more)
            snprintf(line, sizeof(line), "GET /locks?limit=60&cursor=%s", json_string_value(next));
    }
    cr_assert_eq(held, 250);
    cr_assert_eq(waiting, 10);
    cr_assert_eq(pages, 5);
    ask("GET /locks", "", "");
    cr_assert_eq(json_array_size(json_object_get(reply.json, "held")), LIST_LIMIT_DEFAULT);
    ask("GET /locks?limit=1000", "Accept: text/plain\r\n", "");
    cr_assert_not_null(strstr(reply.body, "held key/249\n"));
    cr_assert_not_null(strstr(reply.body, "waiting key/000\n"));
}

/* ---- connections ---- */

#define POST "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define WAITING_POST "POST /locks/k?wait=1m HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define DELETE "DELETE /locks/k HTTP/1.1\r\nHost: localhost\r\nLock-Token: " A_TOKEN "\r\n\r\n"

Test(api, keep_alive_over_all_kinds_of_replies, .init = stage_play, .fini = stage_close)
{
    for (int listener = API; listener <= UNIX; listener++) {
        int fd = caller_open(listener);
        for (int i = 0; i < 50; i++) {
            stage.answer = a_hold(ANSWER_GRANTED);
            caller_say(fd, POST);
            cr_assert_eq(receive(fd), 201);
            stage.answer = (struct effect_answer){.answer = ANSWER_RELEASED};
            caller_say(fd, DELETE);
            cr_assert_eq(receive(fd), 204);
            caller_say(fd, "POST /locks/k?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
            cr_assert_eq(receive(fd), 400);
            caller_say(fd, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM "Content-Length: 6\r\n\r\nttl=3x");
            cr_assert_eq(receive(fd), 400);
            caller_say(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
            cr_assert_eq(receive(fd), 200);
            stage.answers_at_once = false;
            stage.answer = a_hold(ANSWER_GRANTED);
            caller_say(fd, WAITING_POST);
            cr_assert(until(stage.pending_count == 1));
            answer_pending();
            cr_assert_eq(receive(fd), 201);
            stage.answers_at_once = true;
        }
        close(fd);
    }
    cr_assert_eq(stage.cancelled + stage.undelivered, 0);
}

Test(api, pipelining, .init = stage_play, .fini = stage_close)
{
    int fd = caller_open(API);
    stage.answer = a_hold(ANSWER_GRANTED);
    caller_say(fd, POST "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" POST
                        "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(receive(fd), 201);
    cr_assert_eq(receive(fd), 200);
    cr_assert_eq(receive(fd), 201);
    cr_assert_eq(receive(fd), 404);
    stage.answers_at_once = false;
    caller_say(fd, WAITING_POST "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.pending_count == 1));
    cr_assert_eq(receive_within(fd, 50, false), -1);
    answer_pending();
    cr_assert_eq(receive(fd), 201);
    cr_assert_eq(receive(fd), 200);
    close(fd);
}

static void leave(int listener, bool reset)
{
    struct linger linger = {1, 0};
    stage.answers_at_once = false;
    int fd = caller_open(listener);
    caller_say(fd, WAITING_POST);
    cr_assert(until(stage.pending_count == 1));
    turn_for(20);
    size_t before = stage.cancelled;
    if (reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    int64_t left = stage_ms();
    close(fd);
    cr_assert(until(stage.cancelled == before + 1));
    cr_assert_lt(stage_ms() - left, 100, "it took %lld ms to see the caller leave", (long long)(stage_ms() - left));
    cr_assert_eq(stage.pending_count, 0);
    cr_assert_eq(api_unanswered(stage.api), 0);
}

Test(api, a_waiting_caller_that_leaves_is_cancelled_at_once, .init = stage_play, .fini = stage_close)
{
    for (int i = 0; i < 20; i++) { /* descriptors are used again */
        leave(API, false);
        leave(API, true);
        leave(UNIX, false);
    }
    stage.answer = a_hold(ANSWER_GRANTED);
    stage.answers_at_once = true;
    ask("POST /locks/k", "", "");
    expect(201, "");
    cr_assert_eq(stage.undelivered, 0);
}

/* R11: the core had let it in before it heard that the caller is gone; nobody is there to count down again. */
Test(api, what_a_caller_that_leaves_was_given_is_given_back, .init = stage_play, .fini = stage_close)
{
    stage.answers_at_once = false;
    stage.answers_cancelled = true;
    stage.answer = a_hold(ANSWER_REENTERED);
    leave(API, false);
    cr_assert_eq(stage.undelivered, 1);
    cr_assert_eq(stage.undelivered_slot, 7);
    stage.answer = (struct effect_answer){.answer = ANSWER_WAIT_TIMEOUT};
    leave(API, false);
    cr_assert_eq(stage.undelivered, 1);
}

Test(api, a_caller_that_has_closed_its_side_and_waits_is_gone, .init = stage_play, .fini = stage_close)
{
    stage.answers_at_once = false;
    int fd = caller_open(API);
    caller_say(fd, WAITING_POST);
    shutdown(fd, SHUT_WR);
    cr_assert(is_closed(fd));
    cr_assert_eq(stage.submitted, stage.cancelled);
    close(fd);
    fd = caller_open(API);
    caller_say(fd, WAITING_POST);
    cr_assert(until(stage.pending_count == 1));
    shutdown(fd, SHUT_WR);
    cr_assert(until_within(100, stage.pending_count == 0));
    cr_assert(is_closed(fd));
    close(fd);
}

Test(api, a_caller_that_has_closed_its_side_and_does_not_wait_gets_its_reply, .init = stage_play, .fini = stage_close)
{
    for (int i = 0; i < 40; i++) {
        int fd = caller_open(i % 2 == 0 ? API : UNIX);
        received_len = 0;
        stage.answers_at_once = i % 4 < 2;
        stage.answer = a_hold(ANSWER_GRANTED);
        caller_say(fd, POST);
        if (i >= 20)
            turn_for(5);
        shutdown(fd, SHUT_WR);
        if (!stage.answers_at_once) {
            cr_assert(until(stage.pending_count == 1));
            turn_for(5);
            answer_pending();
        }
        cr_assert_eq(receive(fd), 201);
        cr_assert(is_closed(fd), "round %d: the connection stays open", i);
        close(fd);
    }
    cr_assert_eq(stage.cancelled + stage.undelivered, 0);
}

Test(api, a_half_closed_connection_without_a_request_is_closed, .init = stage_play, .fini = stage_close)
{
    for (int i = 0; i < 20; i++) {
        int fd = caller_open(API);
        caller_say(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if (i % 2 == 0)
            cr_assert_eq(receive(fd), 200);
        shutdown(fd, SHUT_WR);
        if (i % 2 != 0)
            cr_assert_eq(receive(fd), 200);
        cr_assert(is_closed(fd));
        close(fd);
    }
}

/* The caller is gone when its grant is written: the lock must be given back, also where the kernel still took the
 * bytes. */
Test(api, a_grant_that_nobody_reads_is_given_back, .init = stage_play, .fini = stage_close)
{
    for (int i = 0; i < 20; i++) {
        struct linger linger = {1, 0};
        size_t before = stage.undelivered + stage.cancelled;
        stage.answers_at_once = false;
        stage.answer = a_hold(ANSWER_GRANTED);
        int fd = caller_open(i % 2 == 0 ? API : UNIX);
        caller_say(fd, POST);
        cr_assert(until(stage.pending_count == 1));
        if (i % 4 < 2)
            answer_pending(); /* answered, but not yet written */
        if (i >= 10)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(fd);
        turn_for(20);
        if (stage.pending_count == 1)
            answer_pending();
        cr_assert(until_within(1000, stage.undelivered + stage.cancelled == before + 1), "round %d: an orphan", i);
    }
}

Test(api, a_caller_that_reads_nothing_gives_the_grant_back, .init = stage_play, .fini = stage_close)
{
    int fd = caller_open(UNIX), grants = 0;
    stage.answer = a_hold(ANSWER_GRANTED);
    for (int i = 0; i < 3000; i++) { /* until the socket takes no more */
        if (send(fd, POST, strlen(POST), MSG_NOSIGNAL) < 0)
            break;
        turn();
    }
    turn_for(100);
    grants = (int)stage.submitted;
    close(fd);
    cr_assert(until_within(1000, stage.undelivered == 1), "%d grants, %zu given back", grants, stage.undelivered);
}

Test(api, a_renewal_goes_on_without_its_caller, .init = stage_play, .fini = stage_close)
{
    stage.answers_at_once = false;
    stage.answer = a_hold(ANSWER_RENEWED);
    int fd = caller_open(API);
    caller_say(fd, "PUT /locks/k HTTP/1.1\r\nHost: localhost\r\nLock-Token: " A_TOKEN "\r\n\r\n");
    cr_assert(until(stage.pending_count == 1));
    close(fd);
    turn_for(30);
    cr_assert_eq(stage.cancelled, 0);
    answer_pending();
    turn_for(30);
    cr_assert_eq(api_unanswered(stage.api), 0);
}

/* ---- time ---- */

static void short_header_time(void)
{
    stage_open();
    stage.config->header_timeout_ms = 300;
    stage_start();
}

static void drip(int fd, const char *text)
{
    int64_t began = stage_ms();
    for (size_t i = 0; text[i % strlen(text)] != '\0' && stage_ms() - began < 2000; i++) {
        if (send(fd, &text[i % strlen(text)], 1, MSG_NOSIGNAL) < 0)
            break;
        turn_for(20);
        char byte;
        if (recv(fd, &byte, 1, MSG_PEEK) >= 0)
            break;
    }
    int64_t took = stage_ms() - began;
    received_len = 0;
    receive(fd);
    expect(408, "request_timeout");
    cr_assert(took > 150 && took < 700, "after %lld ms", (long long)took);
    cr_assert(is_closed(fd));
    close(fd);
}

Test(api, slow_headers_end_in_time, .init = short_header_time, .fini = stage_close)
{
    drip(caller_open(API), "GET /livez?................................");
    int fd = caller_open(API);
    caller_say(fd, "GET /livez HTTP/1.1\r\n");
    drip(fd, "X-Drop: 1\r\n");
    fd = caller_open(UNIX);
    caller_say(fd, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM "Content-Length: 60000\r\n\r\n");
    drip(fd, "x");
    fd = caller_open(API); /* says nothing at all */
    received_len = 0;
    receive(fd);
    expect(408, "request_timeout");
    close(fd);
}

/* The deadline of an idle connection is far away, and must not hide one that is near. */
Test(api, a_slow_header_is_noticed_beside_idle_connections, .init = short_header_time, .fini = stage_close)
{
    int idle = caller_open(API);
    caller_say(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(receive(idle), 200);
    turn_for(700); /* nobody is on the way any more */
    int slow = caller_open(API);
    caller_say(slow, "GET /livez HTTP/1.1\r\n");
    cr_assert_eq(receive_within(slow, 700, false), 408);
    caller_say(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(receive(idle), 200);
    caller_say(idle, "GET /livez HTTP/1.1\r\nHo"); /* and the same for a later request of a connection */
    cr_assert_eq(receive_within(idle, 700, false), 408);
    close(slow);
    close(idle);
}

Test(api, a_wait_may_be_longer_than_the_header_time, .init = short_header_time, .fini = stage_close)
{
    stage.answers_at_once = false;
    stage.answer = a_hold(ANSWER_GRANTED);
    int fd = caller_open(API);
    for (int i = 0; i < 2; i++) {
        caller_say(fd, WAITING_POST);
        cr_assert(until(stage.pending_count == 1));
        turn_for(700);
        answer_pending();
        cr_assert_eq(receive(fd), 201);
        turn_for(400); /* idle between requests is another matter */
    }
    close(fd);
}

/* ---- limits ---- */

Test(api, a_thousand_waiters, .init = stage_play, .fini = stage_close)
{
    enum { WAITERS = 1000 };
    static int fds[WAITERS];
    stage.answers_at_once = false;
    for (int i = 0; i < WAITERS; i++) {
        fds[i] = caller_open(i % 2 == 0 ? API : UNIX);
        caller_say(fds[i], WAITING_POST);
    }
    cr_assert(until(stage.pending_count == WAITERS));
    cr_assert_eq(api_unanswered(stage.api), WAITERS);
    for (int i = 0; i < WAITERS; i += 4)
        close(fds[i]);
    cr_assert(until(stage.cancelled == WAITERS / 4));
    stage.answer = a_hold(ANSWER_GRANTED);
    while (stage.pending_count > 0)
        answer_pending();
    for (int i = 0; i < WAITERS; i++) {
        if (i % 4 == 0)
            continue;
        received_len = 0;
        cr_assert_eq(receive(fds[i]), 201);
        close(fds[i]);
    }
    cr_assert_eq(stage.undelivered, 0);
    cr_assert_eq(api_unanswered(stage.api), 0);
}

static void few_connections(void)
{
    stage_open();
    stage.config->connections_max = 128;
    stage_start();
}

/* D9: at the limit of connections, the next one comes in as soon as one ends. Half of them wait, which is all that may. */
Test(api, at_the_limit_callers_come_in_as_others_leave, .init = few_connections, .fini = stage_close)
{
    enum { LIMIT = 128 };
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int fds[LIMIT];
    stage.answers_at_once = false;
    for (int i = 0; i < LIMIT; i++) {
        fds[i] = caller_open(API);
        if (i >= LIMIT / 2)
            setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        caller_say(fds[i], i < LIMIT / 2 ? WAITING_POST : POST);
    }
    cr_assert(until(stage.pending_count == LIMIT));
    for (int i = 0; i < 20; i++) {
        int late = caller_open(API);
        received_len = 0;
        caller_say(late, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        if (i == 0)
            cr_assert_eq(receive_within(late, 100, false), -1, "the limit is no limit");
        close(fds[i]);
        cr_assert_eq(receive_within(late, 500, false), 200);
        close(late);
        fds[i] = caller_open(API);
        caller_say(fds[i], WAITING_POST);
        cr_assert(until(stage.pending_count == LIMIT));
    }
    int fd = caller_open(UNIX); /* every number is taken */
    received_len = 0;
    caller_say(fd, POST);
    receive(fd);
    expect(429, "too_many_waiters");
    cr_assert_not_null(header("Retry-After"));
    close(fd);
    fd = caller_open(ADMIN); /* D9: health stays reachable */
    caller_say(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    cr_assert_eq(receive(fd), 200);
    close(fd);
    for (int i = 0; i < LIMIT; i++)
        close(fds[i]);
    cr_assert(until(stage.pending_count == 0));
}

/* ---- start and stop ---- */

Test(api, stop_answers_who_waits, .init = stage_play, .fini = stage_close)
{
    int waiting[40], idle = caller_open(API), half = caller_open(API);
    stage.answers_at_once = false;
    caller_say(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(receive(idle), 200);
    caller_say(half, "GET /livez HTTP/1.1\r\nHo");
    for (int i = 0; i < 40; i++) {
        waiting[i] = caller_open(i % 2 == 0 ? API : UNIX);
        caller_say(waiting[i], i % 4 == 0 ? POST : WAITING_POST);
    }
    cr_assert(until(stage.pending_count == 40));
    int64_t began = stage_ms();
    stage_stop();
    cr_assert_lt(stage_ms() - began, 2000);
    cr_assert_eq(stage.cancelled, 40);
    for (int i = 0; i < 40; i++) {
        received_len = 0;
        received[0] = '\0';
        receive(waiting[i]);
        expect(503, "draining");
        cr_assert(is_closed(waiting[i]));
        close(waiting[i]);
    }
    cr_assert(is_closed(idle));
    received_len = 0;
    cr_assert(is_closed(half));
    close(idle);
    close(half);
}

Test(api, stop_is_prompt_without_callers, .init = stage_play, .fini = stage_close)
{
    int idle = caller_open(API);
    caller_say(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(receive(idle), 200);
    int64_t began = stage_ms();
    stage_stop();
    cr_assert_lt(stage_ms() - began, 150, "%lld ms", (long long)(stage_ms() - began));
    close(idle);
}

Test(api, unix_socket, .init = stage_open, .fini = stage_close)
{
    struct stat found;
    const char *path = stage.config->listen.addresses[1].host;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(stale, (struct sockaddr *)&address, sizeof(address)), 0);
    close(stale); /* its file stays */
    stage_start();
    cr_assert_not_null(stage.api, "%s", stage.error);
    cr_assert_eq(stat(path, &found), 0);
    cr_assert_eq(found.st_mode & 0777, 0600);
    cr_assert_eq(call(UNIX, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"), 200);

    struct config_listener tcp = {.count = 1};
    struct api *first = stage.api;
    tcp = stage.config->listen;
    stage.config->listen.addresses[0] = tcp.addresses[1];
    stage.config->listen.count = 1;
    struct api_backend backend = {NULL,        stage_submit,  stage_now,      stage.core,
                                  stage.redis, stage.metrics, stage_not_ready};
    cr_assert_null(api_start(&stage.loop, stage.config, &backend, stage.error, sizeof(stage.error)));
    cr_assert_not_null(strstr(stage.error, "another process listens there"), "%s", stage.error);
    stage.config->listen = tcp;
    cr_assert_eq(stat(path, &found), 0, "the file of a living agent is left alone");
    cr_assert_eq(call(UNIX, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    cr_assert_eq(stage.api, first);
    stage_stop();
    cr_assert_neq(stat(path, &found), 0, "the file must go with the agent");
}

Test(api, a_file_that_is_no_socket_is_left_alone, .init = stage_open, .fini = stage_close)
{
    struct stat found;
    const char *path = stage.config->listen.addresses[1].host;
    close(open(path, O_CREAT | O_WRONLY, 0600));
    stage_start();
    cr_assert_null(stage.api);
    cr_assert_not_null(strstr(stage.error, "no socket"), "%s", stage.error);
    cr_assert_eq(stat(path, &found), 0);
}

Test(api, a_port_that_is_taken_is_an_error, .init = stage_open, .fini = stage_close)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
    cr_assert_eq(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&address, &len);
    stage.config->listen.addresses[0].port = ntohs(address.sin_port);
    stage_start();
    cr_assert_null(stage.api);
    cr_assert_not_null(strstr(stage.error, "Address already in use"), "%s", stage.error);
    close(fd);
}

/* ---- what is counted ---- */

Test(api, requests_are_counted, .init = stage_play, .fini = stage_close)
{
    ask("GET /livez", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n", "");
    ask("BREW /nothing", "traceparent: 00-zz\r\n", "");
    ask("GET /metrics", "", "");
    cr_assert_not_null(strstr(reply.body, "/locks/{key}"));
    cr_assert_not_null(strstr(reply.body, "/livez"));
    cr_assert_null(strstr(reply.body, "/nothing"));
}
