/* Callers that come, wait, go away and take their time, against real sockets. */
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

/* How long it took until the caller's leaving was seen. */
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

/* At once: what takes longer is the machine, that had others to serve, and never most of the
 * time. */
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

/* R11: the core had let it in before it heard that the caller is gone; nobody is there to count
 * down again. */
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

/* The caller is gone when its grant is written: the lock must be given back, also where the kernel
 * still took the bytes. */
Test(connections, a_grant_that_nobody_reads_is_given_back, .init = stage_play, .fini = stage_close)
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
    fd = caller_open(API); /* says nothing at all */
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
    turn_for(700); /* nobody is on the way any more */
    int slow = caller_open(API);
    caller_say(slow, "GET /livez HTTP/1.1\r\n");
    cr_assert_eq(receive(slow), 408);
    caller_say(idle, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert_eq(receive(idle), 200);
    /* and the same for a later request of a connection */
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

static void few_connections(void)
{
    stage_open();
    stage.config->connections_max = 128;
    stage_start();
}

/* D9: at the limit of connections, the next one comes in as soon as one ends. Half of them wait,
 * which is all that may. */
Test(connections, at_the_limit_callers_come_in_as_others_leave, .init = few_connections,
     .fini = stage_close)
{
    enum { LIMIT = 128, HOLDERS = 32 /* whose places nobody takes who asks for a lock */ };
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
    cr_assert(until(stage.pending_count == HOLDERS)); /* what they asked for goes on */
}

/* ---- strangers ---- */

/* D9: after 2.5 ms of a turn the others wait for the next one. They come in their order, and a
 * health check passes them. */
Test(connections, d9_strangers_have_a_share_of_a_turn, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 20 };
    int fds[STRANGERS], probe = caller_open(API);
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    stage.busy_ms = 5;
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = caller_open(API);
        turn_for(5);
    }
    for (int i = 0; i < STRANGERS; i++)
        cr_assert_eq(send(fds[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
    caller_say(probe, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while (stage.submitted < STRANGERS) {
        size_t before = stage.submitted;
        turn();
        cr_assert_leq(stage.submitted - before, 2, "more than its share in one turn");
        if (stage.submitted == STRANGERS / 2) {
            cr_assert_eq(receive(probe), 200);
            cr_assert_lt(stage.submitted, STRANGERS, "the health check stood in line");
        }
    }
    for (int i = 0; i < STRANGERS; i++) {
        received_len = 0;
        cr_assert_eq(receive(fds[i]), 409);
        close(fds[i]);
    }
    close(probe);
}

static size_t count_asking(void)
{
    size_t count = 0;
    for (size_t i = 0; i < stage.api->listener_count; i++)
        count += stage.api->listeners[i].asking;
    return count;
}

static size_t count_parked(void)
{
    size_t count = 0;
    for (size_t i = 0; i < stage.api->listener_count; i++)
        count += stage.api->listeners[i].parked;
    return count;
}

/* D9: health checks have a share of their own, and one that comes later waits for the others. */
Test(connections, d9_health_checks_have_a_share_of_a_turn, .init = stage_play, .fini = stage_close)
{
    enum { CHECKS = 20 };
    static const char ready[] = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fds[CHECKS];
    stage.busy_ms = 5;
    for (int i = 0; i < CHECKS; i++) {
        fds[i] = caller_open(API);
        turn_for(5);
    }
    for (int i = 0; i < CHECKS; i++)
        cr_assert_eq(send(fds[i], ready, strlen(ready), 0), (ssize_t)strlen(ready));
    while (stage.checked < CHECKS) {
        size_t before = stage.checked;
        turn();
        cr_assert_leq(stage.checked - before, 2, "more than its share in one turn");
    }
    for (int i = 0; i < CHECKS; i++) {
        received_len = 0;
        cr_assert_eq(receive(fds[i]), 200);
        close(fds[i]);
    }
    cr_assert(until(count_asking() == 0), "%zu", count_asking());
}

#define LIVEZ "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* D9: who has paused between two requests of one connection passes those who have not. */
Test(connections, d9_who_pauses_passes_the_crowd, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 60, PAUSE_MS = 15 };
    int fds[STRANGERS], paused = caller_open(API);
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    caller_say(paused, POST);
    cr_assert_eq(receive(paused), 409);
    stage.busy_ms = 5;
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = caller_open(API);
        turn();
    }
    turn_for(PAUSE_MS);
    const size_t before = stage.submitted;
    for (int i = 0; i < STRANGERS; i++)
        cr_assert_eq(send(fds[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
    turn_for(5);
    caller_say(paused, POST);
    received_len = 0;
    cr_assert_eq(receive(paused), 409);
    cr_assert_lt(stage.submitted, before + STRANGERS / 2, "it waited for the crowd");
    for (int i = 0; i < STRANGERS; i++) {
        received_len = 0;
        cr_assert_eq(receive(fds[i]), 409);
        close(fds[i]);
    }
    close(paused);
}

static int answered_count(const int *fds, int count)
{
    int answered = 0;
    char byte;
    for (int i = 0; i < count; i++)
        answered += recv(fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    return answered;
}

/* D9: of four requests that go on, one is of the crowd, however many callers pause. */
Test(connections, d9_one_in_four_is_of_the_crowd, .init = stage_play, .fini = stage_close)
{
    enum { PAUSED = 40, CROWD = 8, PAUSE_MS = 15 };
    int paused[PAUSED], crowd[CROWD];
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    for (int i = 0; i < PAUSED; i++) {
        paused[i] = caller_open(API);
        received_len = 0;
        caller_say(paused[i], POST);
        cr_assert_eq(receive(paused[i]), 409);
    }
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = caller_open(API);
        turn();
    }
    turn_for(PAUSE_MS);
    stage.busy_ms = 5; /* one request in a turn */
    const size_t before = stage.submitted;
    for (int i = 0; i < PAUSED; i++)
        cr_assert_eq(send(paused[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
    for (int i = 0; i < CROWD; i++)
        cr_assert_eq(send(crowd[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
    while (stage.submitted < before + PAUSED / 2)
        turn();
    int of_crowd = answered_count(crowd, CROWD);
    cr_assert(of_crowd >= PAUSED / 8 - 2 && of_crowd <= PAUSED / 8 + 2,
              "%d of %d were of the crowd", of_crowd, PAUSED / 2);
    while (answered_count(crowd, CROWD) < CROWD)
        turn();
    cr_assert_lt(answered_count(paused, PAUSED), PAUSED, "the crowd was starved");
    cr_assert(until(answered_count(paused, PAUSED) == PAUSED));
    for (int i = 0; i < PAUSED; i++)
        close(paused[i]);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
}

static bool has_ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static int ended_count(const int *fds, int count)
{
    int ended = 0;
    for (int i = 0; i < count; i++)
        ended += has_ended(fds[i]);
    return ended;
}

static int call_often(const char *request, size_t times)
{
    int fd = caller_open(API);
    for (size_t i = 0; i < times; i++) {
        received_len = 0;
        caller_say(fd, request);
        cr_assert_neq(receive(fd), -1);
    }
    return fd;
}

/* D9: where places are few, the connections of a crowd are closed, and not one that has asked once
 * and been idle for longer. A crowd is strangers, or checks that ask again at once. */
Test(connections, d9_a_crowd_makes_room_first, .init = few_connections, .fini = stage_close)
{
    enum {
        LIMIT = 128,
        FREE = 16,
        CROWD = 104,
        LATE = 20,
        MUST_GO = 1 + CROWD + LATE + FREE - LIMIT
    };
    static const struct {
        const char *request;
        size_t times;
    } kinds[] = {{POST, 1}, {LIVEZ, 3}};
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    for (size_t kind = 0; kind < 2; kind++) {
        int crowd[CROWD], late[LATE], probe = call_often(LIVEZ, 1);
        for (int i = 0; i < CROWD; i++)
            crowd[i] = call_often(kinds[kind].request, kinds[kind].times);
        for (int i = 0; i < LATE; i++)
            late[i] = caller_open(API);
        cr_assert(until(ended_count(crowd, CROWD) == MUST_GO), "%d of the crowd made room, not %d",
                  ended_count(crowd, CROWD), MUST_GO);
        cr_expect_not(has_ended(probe), "the probe made room");
        for (int i = 0; i < CROWD; i++)
            close(crowd[i]);
        for (int i = 0; i < LATE; i++)
            close(late[i]);
        close(probe);
        cr_assert(until(stage.api->connections == 0));
    }
}

/* D9: callers that pause fill a listener. Their connections are closed before they have been idle
 * for a second, because no other connection makes room. A try that takes a second shows nothing. */
Test(connections, d9_callers_that_pause_make_room_if_no_crowd_does, .init = few_connections,
     .fini = stage_close)
{
    enum { LIMIT = 128, CALLERS = LIMIT + 20, TRIES = 15, IDLE_LIMIT_MS = 1000 };
    bool was_in_time = false;
    for (int try = 0; try < TRIES && !was_in_time; try++) {
        int fds[CALLERS];
        const uint64_t began_ns = uv_hrtime();
        for (int i = 0; i < CALLERS; i++)
            fds[i] = call_often(LIVEZ, 1);
        was_in_time = uv_hrtime() - began_ns < IDLE_LIMIT_MS * 1000000ULL;
        cr_expect_geq(ended_count(fds, CALLERS), 16 + LIMIT / 4, "too few made room");
        cr_expect(has_ended(fds[0]) && !has_ended(fds[CALLERS - 1]), "not the longest idle");
        for (int i = 0; i < CALLERS; i++)
            close(fds[i]);
        cr_assert(until(stage.api->connections == 0));
    }
    cr_assert(was_in_time, "the last caller came in after a second");
}

/* D9: no connection has been idle for long as the free ones become few. So silent ones are closed
 * when they have had their time, and not the one that has asked. */
Test(connections, d9_who_asks_stays_while_silent_callers_have_their_time, .init = few_connections,
     .fini = stage_close)
{
    enum { SILENT = 126, MUST_GO = 1 + SILENT + 16 - 128 };
    int probe = call_often(LIVEZ, 1), silent[SILENT];
    for (int i = 0; i < SILENT; i++)
        silent[i] = caller_open(API);
    cr_assert(until(ended_count(silent, SILENT) == MUST_GO));
    cr_assert_not(has_ended(probe), "the probe made room");
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    close(probe);
}

/* D9: a holder's connection is the last to be closed, however long it has been idle. */
Test(connections, d9_callers_that_pause_make_room_before_a_holder, .init = few_connections,
     .fini = stage_close)
{
    enum { LIMIT = 128, CALLERS = LIMIT + 20 };
    char token[TOKEN_CHARS_MAX + 1], put[400];
    struct effect_answer held = a_real_hold("held");
    int fds[CALLERS];
    token_print(&held.hold.token, token);
    snprintf(put, sizeof(put),
             "PUT /locks/held HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n", token);
    stage.answer = (struct effect_answer){.answer = ANSWER_QUORUM_UNAVAILABLE};
    int holder = call_often(put, 1);
    turn_for(1100);
    for (int i = 0; i < CALLERS; i++)
        fds[i] = call_often(LIVEZ, 1);
    cr_assert_geq(ended_count(fds, CALLERS), CALLERS + 1 - LIMIT);
    cr_assert_not(has_ended(holder), "the holder made room");
    for (int i = 0; i < CALLERS; i++)
        close(fds[i]);
    close(holder);
}

/* D9: scarcity begins with the connection that is one too many, not when it was last looked for. */
Test(connections, d9_a_quiet_listener_closes_no_holder_at_once, .init = few_connections,
     .fini = stage_close)
{
    enum { HOLDERS = 112 };
    char token[TOKEN_CHARS_MAX + 1], put[400];
    struct effect_answer held = a_real_hold("held");
    int fds[HOLDERS];
    token_print(&held.hold.token, token);
    snprintf(put, sizeof(put),
             "PUT /locks/held HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n", token);
    stage.answer = (struct effect_answer){.answer = ANSWER_QUORUM_UNAVAILABLE};
    for (int i = 0; i < HOLDERS; i++)
        fds[i] = call_often(put, 1);
    turn_for(200);
    const uint64_t came_ms = uv_now(&stage.loop);
    int late = caller_open(API);
    while (uv_now(&stage.loop) < came_ms + 40)
        turn();
    if (uv_now(&stage.loop) < came_ms + 50) /* else this process stood still for too long */
        cr_assert_eq(ended_count(fds, HOLDERS), 0);
    for (int i = 0; i < HOLDERS; i++)
        close(fds[i]);
    close(late);
}

/* D9: what gives way is closed once, whatever it had still sent. */
Test(connections, d9_room_that_was_made_is_counted_once, .init = few_connections,
     .fini = stage_close)
{
    enum { CALLERS = 300 };
    static const char requests[] = LIVEZ LIVEZ LIVEZ "GET /livez HTTP/1.1\r\nHost: ";
    int fds[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        fds[i] = caller_open(API);
        cr_assert_eq(send(fds[i], requests, strlen(requests), 0), (ssize_t)strlen(requests));
    }
    turn_for(600);
    for (int i = 0; i < CALLERS; i++)
        close(fds[i]);
    cr_assert(until(stage.api->connections == 0));
    for (size_t i = 0; i < stage.api->listener_count; i++)
        cr_assert_eq(stage.api->listeners[i].giving_way, 0);
}

/* D9: a wait counts from the request's arrival. What was asked for is told as well (D3). */
Test(connections, d9_a_wait_counts_from_the_arrival, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 10, WAIT_MS = 60000 };
    int fds[STRANGERS], waiter = caller_open(API);
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    stage.busy_ms = 5;
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = caller_open(API);
        turn_for(5);
    }
    for (int i = 0; i < STRANGERS; i++)
        cr_assert_eq(send(fds[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
    while (stage.submitted == 0)
        turn();
    cr_assert_eq(send(waiter, WAITING_POST, strlen(WAITING_POST), 0),
                 (ssize_t)strlen(WAITING_POST));
    cr_assert(until(stage.submitted == STRANGERS + 1));
    cr_assert_gt(stage.last.acquire.late_ms, 5);
    cr_assert_eq(stage.last.acquire.wait_ms + stage.last.acquire.late_ms, WAIT_MS);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    close(waiter);
}

/* D9: a request that is refused waits like the others: its answer costs as much. */
Test(connections, d9_a_refusal_waits_for_its_turn, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 20 };
    static const struct {
        const char *request;
        int status;
    } bad[] = {
        {"POST /locks/k?ttl=5 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
        {"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
        {"PATCH /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
        {"GET /locks/k HTTP/1.1\r\nHost: localhost\r\nAccept: image/png\r\n\r\n", 406},
        {"DELETE /locks/k HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: "
         "0123456789abcdef\r\n\r\n",
         409}, /* it names nothing that this agent has */
    };
    enum { BAD = sizeof(bad) / sizeof(bad[0]) };
    int fds[STRANGERS], refused[BAD];
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    stage.busy_ms = 5;
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = caller_open(API);
        turn_for(5);
    }
    for (int i = 0; i < BAD; i++)
        refused[i] = caller_open(API);
    turn_for(5);
    for (int i = 0; i < STRANGERS; i++)
        cr_assert_eq(send(fds[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
    while (stage.submitted == 0)
        turn();
    for (int i = 0; i < BAD; i++) {
        cr_assert_eq(send(refused[i], bad[i].request, strlen(bad[i].request), 0),
                     (ssize_t)strlen(bad[i].request));
        shutdown(refused[i], SHUT_WR); /* it is answered all the same */
    }
    while (stage.submitted < STRANGERS / 2)
        turn();
    cr_assert_eq(answered_count(refused, BAD), 0, "a refusal passed those that came before");
    for (int i = 0; i < BAD; i++) {
        received_len = 0;
        cr_assert_eq(receive(refused[i]), bad[i].status);
        close(refused[i]);
    }
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
}

/* D9: nobody reads the answer, so the request leaves the queue. A DELETE goes on: its token may be
 * that of a hold at another agent. */
Test(connections, d9_a_caller_that_is_gone_leaves_the_queue, .init = stage_play,
     .fini = stage_close)
{
    enum { STRANGERS = 20, GONE = 10 };
    static const char get[] = "GET /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const struct linger reset = {.l_onoff = 1};
    int fds[STRANGERS], gone[GONE + 1];
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = caller_open(API);
        turn_for(5);
    }
    for (int i = 0; i <= GONE; i++) {
        gone[i] = caller_open(API);
        turn_for(5);
    }
    stage.busy_ms = 5;
    for (int i = 0; i < STRANGERS; i++)
        cr_assert_eq(send(fds[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
    while (stage.submitted == 0)
        turn();
    for (int i = 0; i <= GONE; i++) {
        const char *request = i == GONE ? DELETE : i % 2 == 0 ? get : POST;
        cr_assert_eq(send(gone[i], request, strlen(request), 0), (ssize_t)strlen(request));
    }
    turn();
    for (int i = 0; i <= GONE; i++) {
        setsockopt(gone[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(gone[i]);
    }
    cr_assert(until(stage.api->connections <= STRANGERS + 1));
    cr_assert_lt(stage.submitted, STRANGERS, "they waited for their turn");
    cr_assert(until(stage.submitted == STRANGERS + 1), "%zu", stage.submitted);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
}

/* D9: a body that may be costly to read is read in its turn. */
Test(connections, d9_a_body_is_read_in_its_turn, .init = stage_play, .fini = stage_close)
{
    enum { POSTS = 10, STRANGERS = 15, NESTED = 300 };
    static char post[NESTED * 2 + 400];
    int fds[STRANGERS];
    size_t head = (size_t)snprintf(post, sizeof(post),
                                   "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                   "application/json\r\nContent-Length: %d\r\n\r\n{\"label\": ",
                                   2 * NESTED + 11);
    memset(post + head, '[', NESTED);
    memset(post + head + NESTED, ']', NESTED);
    post[head + 2 * NESTED] = '}';
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    stage.busy_ms = 5;
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = caller_open(API);
        turn_for(5);
    }
    for (int i = 0; i < POSTS; i++)
        cr_assert_eq(send(fds[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
    while (stage.submitted == 0)
        turn();
    for (int i = POSTS; i < STRANGERS; i++)
        cr_assert_eq(send(fds[i], post, strlen(post), 0), (ssize_t)strlen(post));
    turn();
    for (int i = POSTS; i < STRANGERS; i++)
        cr_assert_lt(recv(fds[i], received, 1, MSG_DONTWAIT | MSG_PEEK), 0, "it was read at once");
    for (int i = 0; i < STRANGERS; i++) {
        received_len = 0;
        cr_assert_eq(receive(fds[i]), i < POSTS ? 409 : 400);
        close(fds[i]);
    }
}

/* D9: a PUT whose token this agent knows passes strangers. One with another token is queued. */
Test(connections, d9_a_holder_passes_strangers, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 20 };
    char token[TOKEN_CHARS_MAX + 1], put[2][400];
    struct effect_answer held = a_real_hold("held");
    token_print(&held.hold.token, token);
    for (int known = 0; known < 2; known++)
        snprintf(put[known], sizeof(put[0]),
                 "PUT /locks/held HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n",
                 known ? token : A_TOKEN);
    stage.answer = (struct effect_answer){.answer = ANSWER_QUORUM_UNAVAILABLE};
    stage.busy_ms = 5;
    for (int known = 0; known < 2; known++) {
        int fds[STRANGERS + 1];
        for (int i = 0; i <= STRANGERS; i++) {
            fds[i] = caller_open(API);
            turn_for(5);
        }
        size_t before = stage.submitted;
        for (int i = 0; i < STRANGERS; i++)
            cr_assert_eq(send(fds[i], POST, strlen(POST), 0), (ssize_t)strlen(POST));
        while (stage.submitted == before)
            turn();
        cr_assert_gt(send(fds[STRANGERS], put[known], strlen(put[known]), 0), 0);
        while (stage.last.kind != EVENT_RENEW)
            turn();
        size_t first = stage.submitted - before;
        cr_assert(known ? first < STRANGERS / 2 : first > STRANGERS, "it came as number %zu",
                  first);
        cr_assert(until(stage.submitted == before + STRANGERS + 1));
        for (int i = 0; i <= STRANGERS; i++)
            close(fds[i]);
        stage.last.kind = EVENT_ACQUIRE;
    }
}

/* D9: a wait that has stood in line is counted once, and no more when it has ended. */
Test(connections, d9_who_stood_in_line_is_counted_once, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 10 };
    int fds[STRANGERS];
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    stage.busy_ms = 5;
    for (int i = 0; i < STRANGERS; i++)
        fds[i] = caller_open(API);
    turn_for(20);
    for (int i = 0; i < STRANGERS; i++)
        cr_assert_gt(send(fds[i], WAITING_POST, strlen(WAITING_POST), 0), 0);
    cr_assert(until(!list_is_empty(&stage.api->shares[SHARE_STRANGERS].waiting[RANK_CROWD])));
    cr_assert_gt(count_asking(), 0);
    for (int i = 0; i < STRANGERS; i++) {
        received_len = 0;
        cr_assert_eq(receive(fds[i]), 409);
        close(fds[i]);
    }
    cr_assert(until(count_parked() == 0), "%zu", count_parked());
    cr_assert(until(count_asking() == 0), "%zu", count_asking());
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
    cr_assert_not_null(strstr(stage.error, "no socket"), "%s", stage.error);
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
