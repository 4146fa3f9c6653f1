/* The API's answers, against real sockets: every route and code, and every answer of the core. */
#include "tests/unit/api_stage.h"

#include "agent/base/text.h"
#include "api/internal.h"

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
        expect_word(text, "\n        - ", own[i]);
    for (int a = 0; a < ANSWER_COUNT; a++)
        if (answer_status((enum answer)a) >= 400)
            expect_word(text, "\n        - ", answer_code((enum answer)a));
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
    cr_assert_geq(number("waited_ms"), 1234, "it counts from the arrival");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "renew")), "caller");
    cr_assert_str_eq(header("Renewed-By"), "caller");
    json_t *nodes = json_object_get(reply.json, "nodes");
    cr_assert_eq(json_integer_value(json_object_get(nodes, "granted")), 2);
    cr_assert_eq(json_integer_value(json_object_get(nodes, "total")), 3);
    cr_assert_eq(json_integer_value(json_object_get(nodes, "quorum")), 2);
    cr_assert_null(json_object_get(reply.json, "adopted"));

    stage.answer.hold.token.fence = 0;
    stage.answer.hold.renew = RENEW_AGENT;
    ask("POST /locks/k", "", "");
    expect(201, "");
    cr_assert_str_eq(header("Renewed-By"), "agent");
    cr_assert(json_is_null(json_object_get(reply.json, "fencing_token")));
    cr_assert_null(header("Fencing-Token"));
    cr_assert_eq(stage.undelivered, 0);
}

Test(api, plain_text, .init = stage_play, .fini = stage_close)
{
    static const struct effect_answer held = {.answer = ANSWER_LOCK_HELD, .occupant.left_ms = 100};
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
    cr_assert(strstr(reply.body, "bad_request: parameter ttl: x came") == reply.body, "%s",
              reply.body);
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
        {ANSWER_UPGRADE_REFUSED, "POST /locks/k", 409, "upgrade_refused", NULL, NULL},
        {ANSWER_OVERLOADED, "POST /locks/k", 503, "overloaded", "retry_after_ms", "3"},
        {ANSWER_DRAINING, "POST /locks/k", 503, "draining", NULL, "3"},
    };
    unsigned seen = 1U << ANSWER_GRANTED | 1U << ANSWER_REENTERED | 1U << ANSWER_REPEATED |
                    1U << ANSWER_RENEWED | 1U << ANSWER_STATE; /* have tests of their own */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        seen |= 1U << cases[i].answer;
        stage.answer = a_hold(cases[i].answer);
        stage.answer.occupant.label = text_of("night\"shift");
        stage.answer.occupant.left_ms = 2001;
        stage.answer.reason = REASON_TAKEN;
        stage.answer.ttl_ms_min = 200;
        stage.answer.ttl_ms_max = 60000;
        ask(cases[i].line,
            cases[i].line[0] == 'P' && cases[i].line[1] == 'O' ? "" : "Lock-Token: " A_TOKEN "\r\n",
            "");
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
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD,
                                          .occupant = {.label = text_of("rival"), .left_ms = -1}};
    ask("POST /locks/k", "", "");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "holder")), "rival");
    cr_assert_str_eq(header("Retry-After"), "1");
    cr_assert_null(json_object_get(reply.json, "retry_after_ms"));
    static const enum answer unknown[] = {ANSWER_DRAINING, ANSWER_TOO_MANY_LOCKS,
                                          ANSWER_TOO_MANY_WAITERS, ANSWER_OVERLOADED};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        stage.answer = (struct effect_answer){.answer = unknown[i]};
        ask("POST /locks/k", "", "");
        cr_assert_str_eq(header("Retry-After"), "1", "%zu", i);
        cr_assert_eq(number("retry_after_ms"), 1000, "%s", reply.body);
    }
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD, .occupant.left_ms = -1};
    stage.answer.occupant.label = text_of("\xff\xfe"); /* any client may have written it */
    ask("POST /locks/k", "", "");
    expect(409, "lock_held");
    cr_assert(json_is_null(json_object_get(reply.json, "holder")));
    stage.answer =
        (struct effect_answer){.answer = ANSWER_BAD_TTL, .ttl_ms_min = 1000, .ttl_ms_max = 60000};
    ask("POST /locks/k?ttl=500ms", "", "");
    cr_assert_str_eq(detail(), "parameter ttl: 500ms came; allowed: 1s to 1m");
    cr_assert_eq(number("ttl_ms_min"), 1000);
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = REASON_MAX_HOLD};
    ask("PUT /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "reason")), "max_hold");
}

Test(api, state_of_a_key, .init = stage_play, .fini = stage_close)
{
    struct master_state masters[3] = {{.vote = VOTE_YES, .occupant = {.left_ms = 7000, .taken = 1}},
                                      {.vote = VOTE_FOREIGN, .occupant.left_ms = -1},
                                      {.vote = VOTE_UNKNOWN, .occupant.left_ms = -1}};
    stage.config->groups[0].master_count = 1;
    stage.answer = a_hold(ANSWER_STATE);
    stage.answer.state = KEY_HELD;
    stage.answer.masters = masters;
    stage.answer.occupant.label = text_of("me");
    stage.answer.local = true;
    ask("GET /locks/k", "", "");
    expect(200, "");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "state")), "held");
    cr_assert_str_eq(json_string_value(json_object_get(reply.json, "holder")), "me");
    cr_assert_eq(number("remaining_ttl_ms"), 7000);
    json_t *list = json_object_get(reply.json, "masters"),
           *hold = json_object_get(reply.json, "hold");
    cr_assert_eq(json_array_size(list), 3);
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "master")),
                     "unix:/nowhere/redis.sock");
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "state")),
                     "foreign");
    const json_t *left = json_object_get(json_array_get(list, 0), "remaining_ttl_ms");
    cr_assert_eq(json_integer_value(left), 7000);
    for (size_t m = 1; m < 3; m++) /* A key without an end, and no reply. */
        cr_assert(json_is_null(json_object_get(json_array_get(list, m), "remaining_ttl_ms")));
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

/* A minority of masters may have the key of an attempt in flight: that is no holder's lease. */
Test(api, only_a_held_key_has_a_remaining_ttl, .init = stage_play, .fini = stage_close)
{
    static const enum key_state states[] = {KEY_HELD, KEY_FREE, KEY_UNKNOWN};
    struct master_state master = {.vote = VOTE_YES, .occupant = {.left_ms = 7000, .taken = 1}};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        stage.answer = (struct effect_answer){.answer = ANSWER_STATE,
                                              .state = states[i],
                                              .masters = &master,
                                              .tally = {.total = 1, .quorum = 1}};
        ask("GET /locks/k", "", "");
        expect(200, "");
        const json_t *remaining = json_object_get(reply.json, "remaining_ttl_ms");
        cr_assert_eq(json_integer_value(remaining), states[i] == KEY_HELD ? 7000 : 0, "%zu", i);
        cr_assert(states[i] == KEY_HELD || json_is_null(remaining), "%s", reply.body);
    }
}

/* C5: the masters deny a hold in slot 0. One that this agent has got since the request came is
 * another hold in the same slot: the masters were not asked about it. */
Test(api, r20_a_hold_that_began_after_the_question_is_not_denied, .init = stage_play,
     .fini = stage_close)
{
    stage.config->policies[1].core.permits = 3;
    stage.answers_at_once = false;
    int fd = caller_open(API);
    for (size_t is_older = 0; is_older < 2; is_older++) {
        caller_say(fd, "GET /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n");
        cr_assert(until(stage.pending_count == 1));
        if (!is_older)
            a_real_hold("k");
        stage.answer = (struct effect_answer){.answer = ANSWER_STATE, .policy = 1, .denied = 1};
        answer_pending();
        receive(fd);
        expect(200, "");
        cr_assert_eq(json_array_size(json_object_get(reply.json, "holds")), !is_older, "%s",
                     reply.body);
    }
    close(fd);
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

/* A caller that is granted a bound hold after its end would receive nothing more, and wait
 * forever. */
Test(api, a_bound_hold_that_is_over_begins_no_stream, .init = stage_play, .fini = stage_close)
{
    stage.answers_at_once = false;
    stage.answer = a_hold(ANSWER_GRANTED);
    int fd = caller_open(API);
    caller_say(fd, "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.pending_count == 1));
    answer_pending(); /* the core knows of no hold when it is written */
    receive(fd);
    expect(503, "validity_expired");
    cr_assert_eq(stage.undelivered, 1);
    close(fd);
}

Test(api, a_bound_hold_at_the_end_of_the_agent_begins_no_stream, .init = stage_play,
     .fini = stage_close)
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

/* Lets the stage grant a hold of "k" to which connections may be bound for an hour. */
static void grant_a_long_hold(void)
{
    stage.config->policies[1].core.max_hold_ms = 3600000;
    stage.config->policies[1].core.bound_max_hold_ms = 3600000;
    core_set_policies(
        stage.core,
        (struct core_policy[]){stage.config->policies[0].core, stage.config->policies[1].core}, 2);
    stage.answer = a_real_hold("k");
}

/* D3.6: libmicrohttpd closes a connection whose caller does not read. The caller did not close it,
 * and may be at work until the validity ends. */
Test(api, d3_a_bound_stream_that_times_out_is_stuck_and_not_released, .init = stage_play,
     .fini = stage_close)
{
    grant_a_long_hold();
    for (size_t timed_out = 0; timed_out < 2; timed_out++) {
        int fd = caller_open(API);
        caller_say(fd, "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
        cr_assert(until(stage.submitted == timed_out + 1));
        turn_for(50);
        stage.stuck = stage.undelivered = 0;
        struct link *link = list_first(&stage.api->open);
        stream_closed(CONTAINER_OF(link, struct connection, all), timed_out == 1);
        cr_assert(stage.stuck == timed_out && stage.undelivered == 1 - timed_out);
        close(fd);
        cr_assert(until(list_is_empty(&stage.api->open)));
    }
}

/* R11: a thousand callers that do not read may share one hold, and the loop has room for a thousand
 * events. */
Test(api, a_hold_of_several_stuck_readers_is_lost_once, .init = stage_play, .fini = stage_close)
{
    enum { CALLERS = 3 };
    int fds[CALLERS];
    grant_a_long_hold();
    for (int i = 0; i < CALLERS; i++) {
        fds[i] = caller_open(API);
        caller_say(fds[i], "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    cr_assert(until(stage.submitted == CALLERS));
    turn_for(50);
    struct effect_trace renewed = {.kind = TRACE_RENEWED,
                                   .lock = stage.answer.lock,
                                   .valid_until = stage.answer.hold.valid_until};
    api_notify(stage.api, &renewed);
    cr_assert_eq(stage.stuck, 0);
    stage.skew_us = 3000000;
    api_notify(stage.api, &renewed); /* none of them has written its line before */
    cr_assert_eq(stage.stuck, 1);
    struct effect_trace lost = renewed;
    lost.kind = TRACE_LOST;
    api_notify(stage.api, &lost);
    turn_for(50);
    cr_assert_eq(stage.undelivered, 0);
    for (int i = 0; i < CALLERS; i++)
        close(fds[i]);
}

/* R14: the process was stopped, or the loop was busy. */
Test(api, a_renewal_is_not_written_after_its_validity, .init = stage_play, .fini = stage_close)
{
    struct effect_answer held = a_real_hold("k");
    int fd = caller_open(API);
    caller_say(fd, "GET /locks/k?watch HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.api->stream_count == 1));
    turn_for(50);
    struct effect_trace trace = {
        .kind = TRACE_RENEWED, .lock = held.lock, .valid_until = held.hold.valid_until};
    api_notify(stage.api, &trace);
    stage.skew_us += 24 * INT64_C(3600) * 1000000;
    turn_for(50);
    trace.kind = TRACE_LOST;
    trace.reason = REASON_STALLED;
    api_notify(stage.api, &trace);
    received_len = 0;
    received[0] = '\0';
    cr_assert(until((take_bytes(fd), strstr(received, "\"lost\"") != NULL)));
    cr_assert_null(strstr(received, "\"renewed\""), "%s", received);
    close(fd);
}

/* D3.6: the stream ends here first, and the caller is not seen to leave. It may be at work. */
Test(api, d3_a_bound_stream_that_fails_leaves_its_key, .init = stage_play, .fini = stage_close)
{
    grant_a_long_hold();
    int fd = caller_open(API);
    caller_say(fd, "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.submitted == 1));
    struct stream *stream =
        &CONTAINER_OF(list_first(&stage.api->open), struct connection, all)->stream;
    cr_assert(until(stream->parked));
    stream->line.failed = true; /* There was no memory for the next line. */
    api_notify(stage.api, &(struct effect_trace){.kind = TRACE_RENEWED,
                                                 .lock = stage.answer.lock,
                                                 .valid_until = stage.answer.hold.valid_until});
    cr_assert(until(stage.stuck == 1));
    turn_for(50);
    cr_assert(stage.stuck == 1 && stage.undelivered == 0);
    close(fd);
}

/* A line that libmicrohttpd has taken, and the socket has not, counts from the next renewal. */
Test(api, a_caller_that_stops_within_a_line_is_stuck, .init = stage_play, .fini = stage_close)
{
    enum { LINES = 5000, TURNS = 10 };
    grant_a_long_hold();
    int fd = caller_open(UNIX), lines = 0;
    caller_say(fd, "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.submitted == 1));
    struct effect_trace renewed = {.kind = TRACE_RENEWED,
                                   .lock = stage.answer.lock,
                                   .valid_until = stage.answer.hold.valid_until};
    const struct stream *stream =
        &CONTAINER_OF(list_first(&stage.api->open), struct connection, all)->stream;
    cr_assert(until(stream->parked));
    for (; stream->parked && lines < LINES; lines++) { /* until the socket takes no more */
        api_notify(stage.api, &renewed);
        for (int i = 0; i < TURNS; i++)
            turn();
    }
    cr_assert_lt(lines, LINES);
    cr_assert_eq(stream->written, stream->line.len, "the line is with libmicrohttpd");
    cr_assert_not(stream->renewed);
    stage.skew_us += 3000000;
    api_notify(stage.api, &renewed);
    cr_assert_eq(stage.stuck, 0);
    turn();
    stage.skew_us += 1900000;
    api_notify(stage.api, &renewed);
    cr_assert_eq(stage.stuck, 0);
    stage.skew_us += 200000;
    api_notify(stage.api, &renewed);
    cr_assert_eq(stage.stuck, 1);
    close(fd);
}

/* D3.6: the same as libmicrohttpd says it, with a limit of 1 s in place of WRITE_STALL_S. */
Test(api, d3_a_time_out_of_libmicrohttpd_is_no_release, .init = stage_play, .fini = stage_close)
{
    enum { LINES = 5000, TURNS = 10 };
    grant_a_long_hold();
    int fd = caller_open(UNIX);
    caller_say(fd, "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.submitted == 1));
    struct effect_trace renewed = {.kind = TRACE_RENEWED,
                                   .lock = stage.answer.lock,
                                   .valid_until = stage.answer.hold.valid_until};
    struct connection *connection =
        CONTAINER_OF(list_first(&stage.api->open), struct connection, all);
    cr_assert(until(connection->stream.parked));
    for (int lines = 0; connection->stream.parked && lines < LINES; lines++) {
        api_notify(stage.api, &renewed);
        for (int i = 0; i < TURNS; i++)
            turn();
    }
    cr_assert_not(connection->stream.parked, "the socket takes no more");
    MHD_set_connection_option(connection->http, MHD_CONNECTION_OPTION_TIMEOUT, 1);
    int other = caller_open(UNIX); /* libmicrohttpd looks at its limits when it runs. */
    caller_say(other, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.stuck + stage.undelivered > 0));
    cr_assert(stage.stuck == 1 && stage.undelivered == 0);
    close(fd), close(other);
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
    ask("GET /openapi-3.0.yaml", "", "");
    cr_assert(strstr(reply.body, "openapi: 3.0.3\n") == reply.body);
    cr_assert_str_eq(header("Content-Type"), "application/yaml");
    cr_assert_not_null(strstr(reply.body, "\n  /locks/{key}:\n"));
    cr_assert_null(strstr(reply.body, "'null'"));
    ask("GET /metrics", "", "");
    cr_assert_not_null(strstr(reply.body, "# TYPE"));
    cr_assert_str_eq(header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    ask("GET /", "", "");
    cr_assert_str_eq(header("Content-Type"), "text/html; charset=utf-8");
    cr_assert_not_null(strstr(reply.body, "main&lt;&amp;&gt;"));
    cr_assert_not_null(strstr(reply.body, "unix:/nowhere/redis.sock"));
    cr_assert_not_null(strstr(reply.body, "Locks held"));
    cr_assert_str_eq(header("Cache-Control"), "no-store");
    cr_assert_not_null(strstr(header("Content-Security-Policy"), "default-src 'none'; script-src "
                                                                 "'sha256-"));
}

Test(api, the_filter_of_the_page_means_itself, .init = stage_play, .fini = stage_close)
{
    static const char *const ignored[] = {"GET /?label=a", "GET /?key=%00", "GET /?key=%ff",
                                          "GET /?sort=size", "GET /?limit=1001"};
    ask("GET /?key=%22%3E%3Cscript%3Ealert(1)%3C/script%3E%27%26+", "", "");
    cr_assert_eq(reply.status, 200);
    cr_assert_not_null(strstr(reply.body, "value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
                                          "&#39;&amp; \""));
    cr_assert_null(strstr(reply.body, "<script>alert"));
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        ask(ignored[i], "", "");
        cr_assert_eq(reply.status, 200);
        cr_assert_not_null(strstr(reply.body, "value=\"\">"));
    }
}

Test(api, time_spans_and_counts_for_people)
{
    static const struct {
        int64_t ms;
        const char *says;
    } cases[] = {
        {-5, "0 ms"},           {0, "0 ms"},
        {999, "999 ms"},        {1000, "1 s"},
        {59999, "59 s"},        {60000, "1 min"},
        {61000, "1 min 1 s"},   {3600000, "1 h"},
        {3661000, "1 h 1 min"}, {86399999, "23 h 59 min"},
        {86400000, "1 d"},      {13 * 86400000LL + 7200000, "13 d 2 h"},
    };
    struct buffer page = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        page.len = 0;
        html_add_span(&page, cases[i].ms);
        cr_assert_str_eq(page.bytes, cases[i].says);
    }
    page.len = 0;
    html_add_count(&page, 999);
    html_add_count(&page, 1000);
    html_add_count(&page, 1234567);
    cr_assert_str_eq(page.bytes, "9991,0001,234,567");
    buffer_free(&page);
}

/* The last minute is the present second and the 59 before it. */
Test(api, the_last_minute_ends_second_by_second)
{
    struct recent recent = {0};
    recent_count(&recent, RECENT_GRANTED, 7000);
    recent_count(&recent, RECENT_GRANTED, 7999);
    recent_count(&recent, RECENT_LOST, 8000);
    recent_count(&recent, RECENT_REFUSED, 50000);
    cr_assert_eq(recent_total(&recent, RECENT_GRANTED, 66999), 2);
    cr_assert_eq(recent_total(&recent, RECENT_GRANTED, 67000), 0);
    cr_assert_eq(recent_total(&recent, RECENT_LOST, 67999), 1);
    cr_assert_eq(recent_total(&recent, RECENT_LOST, 68000), 0);
    recent_count(&recent, RECENT_REFUSED, 109999);
    cr_assert_eq(recent_total(&recent, RECENT_REFUSED, 109999), 2);
    cr_assert_eq(recent_total(&recent, RECENT_REFUSED, 110000), 1);
    cr_assert_eq(recent_total(&recent, RECENT_REFUSED, 1000000000), 0, "after a long silence");
    for (uint64_t gap_s = RECENT_SECONDS; gap_s < 2 * RECENT_SECONDS; gap_s++) { /* all buckets */
        recent = (struct recent){0};
        recent_count(&recent, RECENT_LOST, 7000);
        cr_assert_eq(recent_total(&recent, RECENT_LOST, 7000 + gap_s * 1000), 0);
    }
    recent_count(&recent, RECENT_LOST, 1000000000);
    cr_assert_eq(recent_total(&recent, RECENT_LOST, 1000000000), 1);
}

/* A repeat or a re-entry grants nothing. A ttl that is not allowed is a fault of the call. */
Test(api, the_page_counts_the_answers_of_the_last_minute, .init = stage_play, .fini = stage_close)
{
    static const enum answer answers[] = {
        ANSWER_GRANTED,      ANSWER_REENTERED,          ANSWER_REPEATED, ANSWER_LOCK_HELD,
        ANSWER_WAIT_TIMEOUT, ANSWER_QUORUM_UNAVAILABLE, ANSWER_BAD_TTL};
    stage.answers_at_once = true;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        stage.answer = a_hold(answers[i]);
        ask("POST /locks/k", "", "");
    }
    ask("POST /locks/k?ttl=x", "", "");
    cr_assert_eq(reply.status, 400);
    struct effect_trace trace = {.kind = TRACE_LOST, .reason = REASON_EXPIRED};
    api_notify(stage.api, &trace);
    trace.reason = REASON_MOVED; /* The lock goes on elsewhere. */
    api_notify(stage.api, &trace);
    ask("GET /", "", "");
    cr_assert_not_null(strstr(reply.body, "id=\"granted\" value=\"1\""));
    cr_assert_not_null(strstr(reply.body, "id=\"refused\" value=\"3\""));
    cr_assert_not_null(strstr(reply.body, "id=\"lost\" value=\"1\""));
}

/* The first ones are kept, in any order of arrival. */
Test(api, picks_are_the_first_of_a_sorted_list)
{
    enum { ALL = 3000 };
    static struct pick all[ALL];
    static struct picks picks;
    static const uint32_t rooms[] = {1, 2, 50, 51, ROWS_MAX};
    for (size_t r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++) {
        for (uint32_t seen = 0; seen <= ALL; seen += seen < 60 ? 1 : 490) {
            picks = (struct picks){.room = rooms[r]};
            for (uint32_t i = 0; i < seen; i++) {
                all[i] = (struct pick){.rank = (int64_t)(i * 7919 % 1009) - 500, .cursor = i};
                picks_take(&picks, all[i]);
            }
            picks_sort(&picks);
            cr_assert_eq(picks.count, seen < rooms[r] ? seen : rooms[r]);
            for (uint32_t i = 0; i < picks.count; i++) {
                uint32_t before = 0;
                for (uint32_t other = 0; other < seen; other++)
                    before += all[other].rank < picks.list[i].rank ||
                              (all[other].rank == picks.list[i].rank &&
                               all[other].cursor < picks.list[i].cursor);
                cr_assert_eq(before, i, "row %u of %u, room %u", i, seen, rooms[r]);
            }
        }
    }
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
    cr_assert_str_eq(json_string_value(json_object_get(master, "master")),
                     "unix:/nowhere/redis.sock");
    cr_assert_eq(ask("GET /livez", "", ""), 200); /* D5.2: liveness never depends on Redis */
    stage.not_ready = NULL;
    api_drain(stage.api);
    ask("GET /readyz", "", "");
    expect(503, "");
    /* The core decides: it may be no new lock. */
    stage.answer = (struct effect_answer){.answer = ANSWER_DRAINING};
    ask("POST /locks/k", "", "");
    expect(503, "draining");
    cr_assert_not_null(header("Retry-After"));
    cr_assert_eq(stage.submitted, 1);
    stage.answer = (struct effect_answer){.answer = ANSWER_RELEASED};
    ask("DELETE /locks/k", "Lock-Token: " A_TOKEN "\r\n", "");
    expect(204, "");
}

/* Gives the event to the real core, which has holds and waiters. */
static void step(struct event *event)
{
    event->now = stage_now(NULL);
    event->wall_us = 1795226400000000;
    memset(core_entropy(stage.core)->bytes, (int)stage.submitted + 1, ENTROPY_BYTES);
    core_entropy(stage.core)->left = ENTROPY_BYTES;
    cr_assert(core_step(stage.core, event, &stage.effects));
    if (core_awaits_flush(stage.core)) {
        event->kind = EVENT_FLUSH;
        step(event);
    }
}

static void hold_in_core(uint32_t request, const char *key, int64_t wait_ms)
{
    struct event acquire = {
        .kind = EVENT_ACQUIRE,
        .acquire = {
            .request = request, .key = text_of(key), .wait_ms = wait_ms, .label = text_of("l\"1")}};
    stage.submitted++;
    step(&acquire);
    struct lock_ref ref =
        stage.effects.item_count > 0 ? stage.effects.items[0].ref : (struct lock_ref){0, 0, 0};
    bool sent = stage.effects.item_count > 0;
    struct event_reply granted = {.op = OP_ACQUIRE,
                                  .ref = ref,
                                  .vote = VOTE_YES,
                                  .fence = 1795226400000000,
                                  .occupant.left_ms = -1};
    struct event yes = {.kind = EVENT_REPLIES, .replies = {&granted, 1}};
    if (sent)
        step(&yes);
}

/* Reads the list of 250 holds and 130 waiters, so many a page: each is shown once. */
static void read_pages(size_t limit)
{
    bool seen[250] = {false}, seen_waiting[130] = {false};
    size_t held = 0, waiting = 0, pages = 0;
    char line[64];
    snprintf(line, sizeof(line), "GET /locks?limit=%zu", limit);
    for (bool more = true; more; pages++) {
        ask(line, "", "");
        expect(200, "");
        json_t *list = json_object_get(reply.json, "held"),
               *waits = json_object_get(reply.json, "waiting"),
               *next = json_object_get(reply.json, "next_cursor");
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
            cr_assert_geq(json_integer_value(json_object_get(entry, "fencing_token")),
                          1795226400000000);
        }
        json_array_foreach(waits, i, entry)
        {
            unsigned n = (unsigned)atoi(json_string_value(json_object_get(entry, "key")) + 4);
            cr_assert(n < 130 && !seen_waiting[n], "%u waits, and is shown twice", n);
            seen_waiting[n] = true;
        }
        held += json_array_size(list);
        waiting += json_array_size(waits);
        cr_assert_leq(json_array_size(list) + json_array_size(waits), limit);
        cr_assert_null(strstr(reply.body, "token\":\""));
        cr_assert_null(strstr(reply.body, "0101010101"));
        more = json_is_string(next);
        if (more)
            snprintf(line, sizeof(line), "GET /locks?limit=%zu&cursor=%s", limit,
                     json_string_value(next));
    }
    cr_assert_eq(held, 250);
    cr_assert_eq(waiting, 130);
    cr_assert_eq(pages, (250 + 130 + limit - 1) / limit);
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
    for (uint32_t i = 250; i < 380; i++) {
        char key[32];
        snprintf(key, sizeof(key), "key/%03u", i - 250);
        hold_in_core(i, key, 60000);
    }
    cr_assert_eq(core_stats(stage.core)->locks_held, 250);

    read_pages(60);
    read_pages(50); /* The holds fill the last of their pages. */
    ask("GET /locks", "", "");
    cr_assert_eq(json_array_size(json_object_get(reply.json, "held")), LIST_LIMIT_DEFAULT);
    ask("GET /locks?limit=1000", "Accept: text/plain\r\n", "");
    cr_assert_not_null(strstr(reply.body, "held key/249\n"));
    cr_assert_not_null(strstr(reply.body, "waiting key/000\n"));
}

/* ---- counted requests ---- */

Test(api, requests_are_counted, .init = stage_play, .fini = stage_close)
{
    ask("GET /livez", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n",
        "");
    ask("BREW /nothing", "traceparent: 00-zz\r\n", "");
    ask("GET /metrics", "", "");
    cr_assert_not_null(strstr(reply.body, "/locks/{key}"));
    cr_assert_not_null(strstr(reply.body, "/livez"));
    cr_assert_null(strstr(reply.body, "/nothing"));
}
