/* Callers that come, wait, leave and are slow, against real sockets. */
#include "tests/unit/api_stage.h"

TestSuite(connections, .timeout = 60);

/* ---- connections ---- */

#define POST "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define WAITING_POST "POST /locks/k?wait=1m HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define DELETE "DELETE /locks/k HTTP/1.1\r\nHost: localhost\r\nLock-Token: " A_TOKEN "\r\n\r\n"

Test(connections, keep_alive_over_all_kinds_of_replies, .init = stage_play, .fini = stage_close)
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
            caller_say(fd, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM
                           "Content-Length: 6\r\n\r\nttl=3x");
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

Test(connections, pipelining, .init = stage_play, .fini = stage_close)
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

/* Returns how long it took until the caller's end was noticed. */
static int64_t leave(int listener, bool reset)
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
    int64_t took = stage_ms() - left;
    cr_assert_eq(stage.pending_count, 0);
    cr_assert_eq(api_unanswered(stage.api), 0);
    return took;
}

/* Expects that a caller's end is noticed at once. A busy machine may delay it, but never most of
 * the time. */
static void expect_to_be_seen_leaving(int listener, bool reset, int times)
{
    int late = 0;
    for (int i = 0; i < times; i++) /* descriptors are used again */
        late += leave(listener, reset) >= 100;
    cr_assert_leq(late, times / 2, "%d of %d callers were seen leaving after 100 ms and more", late,
                  times);
}

Test(connections, a_waiting_caller_that_leaves_is_cancelled_at_once, .init = stage_play,
     .fini = stage_close)
{
    expect_to_be_seen_leaving(API, false, 20);
    expect_to_be_seen_leaving(API, true, 20);
    expect_to_be_seen_leaving(UNIX, false, 20);
    stage.answer = a_hold(ANSWER_GRANTED);
    stage.answers_at_once = true;
    ask("POST /locks/k", "", "");
    expect(201, "");
    cr_assert_eq(stage.undelivered, 0);
}

/* R11: the core counted the caller before it learned that the caller has left. No caller is left
 * that would release its share. */
Test(connections, what_a_caller_that_leaves_was_given_is_given_back, .init = stage_play,
     .fini = stage_close)
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

Test(connections, a_caller_that_has_closed_its_side_and_waits_is_gone, .init = stage_play,
     .fini = stage_close)
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

/* The end of the caller comes after the loop has last looked for it, and its grant in the same
 * iteration. */
Test(connections, a_waiter_that_leaves_as_its_grant_comes_gives_it_back, .init = stage_play,
     .fini = stage_close)
{
    static const char bound[] = "POST /locks/k?bind=connection HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stage.answers_at_once = false;
    for (size_t i = 0; i < 3; i++) {
        int fd = caller_open(i == 1 ? UNIX : API);
        received_len = 0;
        stage.answer = a_hold(ANSWER_GRANTED);
        caller_say(fd, i < 2 ? WAITING_POST : bound);
        cr_assert(until(stage.pending_count == 1));
        shutdown(fd, SHUT_WR);
        answer_pending();
        cr_assert(is_closed(fd), "round %zu: it was answered", i);
        cr_assert_eq(stage.undelivered, i + 1);
        cr_assert_eq(stage.undelivered_slot, stage.answer.lock.slot);
        close(fd);
    }
    cr_assert_eq(stage.cancelled, 0);
}

Test(connections, a_caller_that_has_closed_its_side_and_does_not_wait_gets_its_reply,
     .init = stage_play, .fini = stage_close)
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

Test(connections, a_half_closed_connection_without_a_request_is_closed, .init = stage_play,
     .fini = stage_close)
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

/* The caller has left when its grant is written. The lock must be given back, even if the kernel
 * still took the bytes. So must the share of a caller that has it once more (R11, D3.5). */
Test(connections, a_grant_to_a_caller_that_left_is_given_back, .init = stage_play,
     .fini = stage_close)
{
    static const enum answer grants[] = {ANSWER_GRANTED, ANSWER_REENTERED, ANSWER_REPEATED};
    for (int i = 0; i < 60; i++) {
        struct linger linger = {1, 0};
        size_t before = stage.undelivered + stage.cancelled;
        stage.answers_at_once = false;
        stage.answer = a_hold(grants[i % 3]);
        int fd = caller_open(i % 2 == 0 ? API : UNIX);
        caller_say(fd, POST);
        cr_assert(until(stage.pending_count == 1));
        if (i % 4 < 2)
            answer_pending(); /* answered, but not yet written */
        if (i >= 30)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(fd);
        turn_for(20);
        if (stage.pending_count == 1)
            answer_pending();
        cr_assert(until_within(1000, stage.undelivered + stage.cancelled == before + 1),
                  "round %d: an orphan", i);
    }
}

Test(connections, a_caller_that_reads_nothing_gives_the_grant_back, .init = stage_play,
     .fini = stage_close)
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
    cr_assert(until_within(1000, stage.undelivered == 1), "%d grants, %zu given back", grants,
              stage.undelivered);
}

Test(connections, a_renewal_goes_on_without_its_caller, .init = stage_play, .fini = stage_close)
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
    for (size_t i = 0; text[i % strlen(text)] != '\0' && stage_ms() - began < PATIENCE; i++) {
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
    cr_assert(took > 150 && took < PATIENCE, "after %lld ms", (long long)took);
    cr_assert(is_closed(fd));
    close(fd);
}

Test(connections, slow_headers_end_in_time, .init = short_header_time, .fini = stage_close)
{
    drip(caller_open(API), "GET /livez?................................");
    int fd = caller_open(API);
    caller_say(fd, "GET /livez HTTP/1.1\r\n");
    drip(fd, "X-Drop: 1\r\n");
    fd = caller_open(UNIX);
    caller_say(fd, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n" FORM
                   "Content-Length: 60000\r\n\r\n");
    drip(fd, "x");
    fd = caller_open(API); /* sends nothing at all */
    received_len = 0;
    receive(fd);
    expect(408, "request_timeout");
    close(fd);
}

/* The deadline of an idle connection is far away, and must not hide one that is near. */
Test(connections, a_slow_header_is_noticed_beside_idle_connections, .init = short_header_time,
     .fini = stage_close)
{
    int idle = caller_open(API);
    caller_say(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(receive(idle), 200);
    turn_for(700); /* no request is being received any more */
    int slow = caller_open(API);
    caller_say(slow, "GET /livez HTTP/1.1\r\n");
    cr_assert_eq(receive(slow), 408);
    caller_say(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(receive(idle), 200);
    /* The same is true for a later request of a connection. */
    caller_say(idle, "GET /livez HTTP/1.1\r\nHo");
    cr_assert_eq(receive(idle), 408);
    close(slow);
    close(idle);
}

Test(connections, a_wait_may_be_longer_than_the_header_time, .init = short_header_time,
     .fini = stage_close)
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

/* D9: a body beyond limits.body is answered as soon as that is known, also if the request has
 * another fault. */
Test(connections, a_body_beyond_the_limit_is_answered_at_once, .init = stage_play,
     .fini = stage_close)
{
    enum { SOON_MS = 2000 }; /* It is refused as too slow after 5 s. */
    static const struct {
        const char *line, *headers;
        int status;
    } cases[] = {
        {"POST /locks/k", "Host: localhost\r\nAccept: image/png\r\n", 406},
        {"POST /locks/k", "Host: attacker.example\r\n" FORM, 421},
        {"PATCH /locks/k", "Host: localhost\r\n" FORM, 405},
        {"POST /nothing", "Host: localhost\r\n" FORM, 404},
        {"POST /locks/k", "Host: localhost\r\n" FORM, 413},
    };
    static char body[70000], request[1024];
    memset(body, 'x', sizeof(body));
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        bool is_chunked = i % 2 != 0;
        int fd = caller_open(i / 2 % 2 != 0 ? API : UNIX);
        received_len = 0;
        snprintf(request, sizeof(request), "%s HTTP/1.1\r\n%s%s\r\n\r\n%s", cases[i / 2].line,
                 cases[i / 2].headers,
                 is_chunked ? "Transfer-Encoding: chunked" : "Content-Length: 9000000000",
                 is_chunked ? "10000000\r\n" : "");
        caller_say(fd, request);
        if (is_chunked)
            caller_send(fd, body, sizeof(body));
        int status = receive_within(fd, SOON_MS, false);
        cr_expect_eq(status, is_chunked ? 413 : cases[i / 2].status, "%d: %s", status, request);
        cr_expect(is_closed(fd), "%s", request);
        close(fd);
    }
    cr_assert_eq(stage.submitted, 0);
}

Test(connections, a_thousand_waiters, .init = stage_play, .fini = stage_close)
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

/* D9: at the limit of connections, the next one comes in as soon as one ends. Half of them wait:
 * no more may. */
Test(connections, at_the_limit_callers_come_in_as_others_leave, .init = stage_of_few,
     .fini = stage_close)
{
    enum { LIMIT = FEW_CONNECTIONS, HOLDERS = 32 /* connections kept for them */ };
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int fds[LIMIT];
    stage.answers_at_once = false;
    for (int i = 0; i < LIMIT; i++) {
        fds[i] = caller_open(API);
        if (i >= LIMIT / 2)
            setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        caller_say(fds[i], i < LIMIT / 2 ? WAITING_POST : i < LIMIT - HOLDERS ? POST : DELETE);
    }
    cr_assert(until(stage.pending_count == LIMIT));
    for (int i = 0; i < 20; i++) {
        int late = caller_open(API);
        received_len = 0;
        caller_say(late, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        if (i == 0)
            cr_assert_eq(receive_within(late, 100, false), -1, "the limit is no limit");
        close(fds[i]);
        cr_assert_eq(receive(late), 200);
        close(late);
        fds[i] = caller_open(API);
        caller_say(fds[i], WAITING_POST);
        cr_assert(until(stage.pending_count == LIMIT));
    }
    int fd = caller_open(UNIX); /* each listener has its own limit */
    caller_say(fd, POST);
    cr_assert(until(stage.pending_count == LIMIT + 1), "%zu", stage.pending_count);
    caller_say(fd, DELETE);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd);
    cr_assert(until(stage.pending_count == LIMIT), "%zu", stage.pending_count);
    fd = caller_open(ADMIN); /* D9: health stays reachable */
    caller_say(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    cr_assert_eq(receive(fd), 200);
    close(fd);
    for (int i = 0; i < LIMIT; i++)
        close(fds[i]);
    cr_assert(until(stage.pending_count == HOLDERS)); /* the requests go on */
}

/* ---- start and stop ---- */

Test(connections, stop_answers_who_waits, .init = stage_play, .fini = stage_close)
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

/* The grace of a stop is 300 ms. A machine that has others to serve may take as long, but not again
 * and again. */
Test(connections, stop_is_prompt_without_callers, .init = stage_play, .fini = stage_close)
{
    int64_t took = INT64_MAX;
    for (int round = 0; round < 20 && took >= 150; round++) {
        if (round > 0) {
            stage_close();
            stage_play();
        }
        int idle = caller_open(API);
        caller_say(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        cr_assert_eq(receive(idle), 200);
        int64_t began = stage_ms();
        stage_stop();
        took = stage_ms() - began;
        close(idle);
    }
    cr_assert_lt(took, 150, "%lld ms", (long long)took);
}

Test(connections, unix_socket, .init = stage_open, .fini = stage_close)
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
    cr_assert_null(
        api_start(&stage.loop, stage.config, &backend, stage.error, sizeof(stage.error)));
    cr_assert_not_null(strstr(stage.error, "another process listens there"), "%s", stage.error);
    stage.config->listen = tcp;
    cr_assert_eq(stat(path, &found), 0, "the file of a living agent is left alone");
    cr_assert_eq(call(UNIX, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    cr_assert_eq(stage.api, first);
    stage_stop();
    cr_assert_neq(stat(path, &found), 0, "the file must go with the agent");
}

Test(connections, a_file_that_is_no_socket_is_left_alone, .init = stage_open, .fini = stage_close)
{
    struct stat found;
    const char *path = stage.config->listen.addresses[1].host;
    close(open(path, O_CREAT | O_WRONLY, 0600));
    stage_start();
    cr_assert_null(stage.api);
    cr_assert_not_null(strstr(stage.error, "not a socket"), "%s", stage.error);
    cr_assert_eq(stat(path, &found), 0);
}

Test(connections, a_port_that_is_taken_is_an_error, .init = stage_open, .fini = stage_close)
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
