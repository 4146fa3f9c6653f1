/* D9: which request waits for its turn, and which connection makes room, against real sockets. */
#include "tests/unit/api_stage.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

TestSuite(shares, .timeout = 60);

#define POST "POST /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define GET "GET /locks/k HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define WAITING_POST "POST /locks/k?wait=1m HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define DELETE "DELETE /locks/k HTTP/1.1\r\nHost: localhost\r\nLock-Token: " A_TOKEN "\r\n\r\n"
#define LIVEZ "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

enum {
    COST_MS = 5,   /* time of a request that keeps the loop busy: the whole share of a turn */
    PAUSE_MS = 15, /* more than the 10 ms that a caller must pause in order to pass the crowd */
};

/* ---- looks at sockets ---- */

static unsigned looks; /* Calls of ioctl(FIONREAD). */

/* Counts the looks of the API at the bytes that a socket has not handed out. */
int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    looks += request == FIONREAD;
    return (int)syscall(SYS_ioctl, fd, request, argument);
}

/* ---- many callers at once ---- */

/* Opens connections. The agent has accepted each of them when this returns. */
static void open_all(int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        fds[i] = caller_open(API);
        turn_for(5);
    }
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

/* Sends without an iteration of the loop in between, so that all requests arrive together. */
static void say_together(const int *fds, int count, const char *request)
{
    for (int i = 0; i < count; i++)
        cr_assert_eq(send(fds[i], request, strlen(request), 0), (ssize_t)strlen(request));
}

/* Lets strangers ask for a lock that is held. When this returns, the loop is busy with the first of
 * them, and the others wait. */
static void start_crowd(const int *fds, int count)
{
    const size_t before = stage.submitted;
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    stage.busy_ms = COST_MS;
    say_together(fds, count, POST);
    while (stage.submitted == before)
        turn();
}

static void expect_status(int fd, int status)
{
    received_len = 0;
    cr_assert_eq(receive(fd), status);
}

static void expect_all(const int *fds, int count, int status)
{
    for (int i = 0; i < count; i++)
        expect_status(fds[i], status);
}

static int answered_count(const int *fds, int count)
{
    int answered = 0;
    char byte;
    for (int i = 0; i < count; i++)
        answered += recv(fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    return answered;
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

/* Returns a connection on which `request` was answered so many times. */
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

/* Returns a PUT with the token of a hold that the agent has: the request of a holder. */
static const char *put_of_a_holder(void)
{
    static char put[400];
    char token[TOKEN_CHARS_MAX + 1];
    struct effect_answer held = a_real_hold("held");
    token_print(&held.hold.token, token);
    snprintf(put, sizeof(put),
             "PUT /locks/held HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n", token);
    stage.answer = (struct effect_answer){.answer = ANSWER_QUORUM_UNAVAILABLE};
    return put;
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

/* ---- requests wait for their turn ---- */

/* D9: after 2.5 ms of a turn the others wait for the next one. They come in their order, and a
 * health check passes them. */
Test(shares, d9_strangers_have_a_share_of_a_turn, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 20 };
    int fds[STRANGERS], probe = caller_open(API);
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    stage.busy_ms = COST_MS;
    open_all(fds, STRANGERS);
    say_together(fds, STRANGERS, POST);
    caller_say(probe, LIVEZ);
    while (stage.submitted < STRANGERS) {
        size_t before = stage.submitted;
        turn();
        cr_assert_leq(stage.submitted - before, 2, "more than its share in one turn");
        if (stage.submitted == STRANGERS / 2) {
            cr_assert_eq(receive(probe), 200);
            cr_assert_lt(stage.submitted, STRANGERS, "the health check waited for the crowd");
        }
    }
    expect_all(fds, STRANGERS, 409);
    close_all(fds, STRANGERS);
    close(probe);
}

/* D9: health checks have a share of their own. A check that comes later waits for the others. */
Test(shares, d9_health_checks_have_a_share_of_a_turn, .init = stage_play, .fini = stage_close)
{
    enum { CHECKS = 20 };
    int fds[CHECKS];
    stage.busy_ms = COST_MS;
    open_all(fds, CHECKS);
    say_together(fds, CHECKS, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while (stage.checked < CHECKS) {
        size_t before = stage.checked;
        turn();
        cr_assert_leq(stage.checked - before, 2, "more than its share in one turn");
    }
    expect_all(fds, CHECKS, 200);
    close_all(fds, CHECKS);
    cr_assert(until(count_asking() == 0), "%zu", count_asking());
}

/* D9: a caller that has paused between two requests of one connection passes callers that have
 * not. */
Test(shares, d9_who_pauses_passes_the_crowd, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 60 };
    int fds[STRANGERS], paused;
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    paused = call_often(POST, 1);
    open_all(fds, STRANGERS);
    turn_for(PAUSE_MS);
    const size_t before = stage.submitted;
    start_crowd(fds, STRANGERS);
    caller_say(paused, POST);
    expect_status(paused, 409);
    cr_assert_lt(stage.submitted, before + STRANGERS / 2, "it waited for the crowd");
    expect_all(fds, STRANGERS, 409);
    close_all(fds, STRANGERS);
    close(paused);
}

/* D9: of four requests that go on, one is of the crowd, however many callers pause. */
Test(shares, d9_one_in_four_is_of_the_crowd, .init = stage_play, .fini = stage_close)
{
    enum { PAUSED = 40, CROWD = 8 };
    int paused[PAUSED], crowd[CROWD];
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    for (int i = 0; i < PAUSED; i++)
        paused[i] = call_often(POST, 1);
    open_all(crowd, CROWD);
    turn_for(PAUSE_MS);
    stage.busy_ms = COST_MS; /* one request in a turn */
    const size_t before = stage.submitted;
    say_together(paused, PAUSED, POST);
    say_together(crowd, CROWD, POST);
    while (stage.submitted < before + PAUSED / 2)
        turn();
    int of_crowd = answered_count(crowd, CROWD);
    cr_assert(of_crowd >= PAUSED / 8 - 2 && of_crowd <= PAUSED / 8 + 2,
              "%d of %d were of the crowd", of_crowd, PAUSED / 2);
    while (answered_count(crowd, CROWD) < CROWD)
        turn();
    cr_assert_lt(answered_count(paused, PAUSED), PAUSED, "the crowd was starved");
    cr_assert(until(answered_count(paused, PAUSED) == PAUSED));
    close_all(paused, PAUSED);
    close_all(crowd, CROWD);
}

/* D9: a wait counts from the request's arrival. The core also learns how long the request has
 * waited here, so that it can tell a repeat (D3). */
Test(shares, d9_a_wait_counts_from_the_arrival, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 10, WAIT_MS = 60000 };
    int fds[STRANGERS], waiter = caller_open(API);
    open_all(fds, STRANGERS);
    start_crowd(fds, STRANGERS);
    say_together(&waiter, 1, WAITING_POST);
    cr_assert(until(stage.submitted == STRANGERS + 1));
    cr_assert_gt(stage.last.acquire.late_ms, 5);
    cr_assert_eq(stage.last.acquire.wait_ms + stage.last.acquire.late_ms, WAIT_MS);
    close_all(fds, STRANGERS);
    close(waiter);
}

/* `waited_ms` counts from the arrival as well, not from when the core had the request. */
Test(shares, waited_ms_counts_from_the_arrival, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 10 };
    int fds[STRANGERS], late = caller_open(API);
    open_all(fds, STRANGERS);
    start_crowd(fds, STRANGERS);
    stage.answer = a_hold(ANSWER_GRANTED);
    stage.answer.waited_us = 1000;
    say_together(&late, 1, POST);
    expect_status(late, 201);
    cr_assert_gt(number("waited_ms"), COST_MS, "%s", reply.body);
    close_all(fds, STRANGERS);
    close(late);
}

/* D9: a wait that is over in the queue is still a wait: a call without one is decided otherwise. */
Test(shares, d9_of_a_wait_that_is_over_something_is_left, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 10, WAIT_MS = 5 };
    int fds[STRANGERS], waiter = caller_open(API);
    open_all(fds, STRANGERS);
    start_crowd(fds, STRANGERS);
    say_together(&waiter, 1, "POST /locks/k?wait=5ms HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.submitted == STRANGERS + 1));
    cr_assert_eq(stage.last.acquire.wait_ms, 1);
    cr_assert_eq(stage.last.acquire.late_ms, WAIT_MS - 1);
    close_all(fds, STRANGERS);
    close(waiter);
}

/* D9: a request that is refused waits like the others: its answer costs as much. */
Test(shares, d9_a_refusal_waits_for_its_turn, .init = stage_play, .fini = stage_close)
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
    open_all(fds, STRANGERS);
    open_all(refused, BAD);
    start_crowd(fds, STRANGERS);
    for (int i = 0; i < BAD; i++) {
        say_together(&refused[i], 1, bad[i].request);
        shutdown(refused[i], SHUT_WR); /* it is still answered */
    }
    while (stage.submitted < STRANGERS / 2)
        turn();
    cr_assert_eq(answered_count(refused, BAD), 0, "a refusal passed those that came before");
    for (int i = 0; i < BAD; i++)
        expect_status(refused[i], bad[i].status);
    close_all(refused, BAD);
    close_all(fds, STRANGERS);
}

/* D9: the request of a caller that is gone leaves the queue. A DELETE goes on: its token may be
 * that of a hold at another agent. */
Test(shares, d9_a_caller_that_is_gone_leaves_the_queue, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 20, GONE = 10 };
    const struct linger reset = {.l_onoff = 1};
    int fds[STRANGERS], gone[GONE + 1];
    open_all(fds, STRANGERS);
    open_all(gone, GONE + 1);
    start_crowd(fds, STRANGERS);
    for (int i = 0; i < GONE; i++)
        say_together(&gone[i], 1, i % 2 == 0 ? GET : POST);
    say_together(&gone[GONE], 1, DELETE);
    turn();
    for (int i = 0; i <= GONE; i++)
        setsockopt(gone[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close_all(gone, GONE + 1);
    cr_assert(until(stage.api->connections <= STRANGERS + 1));
    cr_assert_lt(stage.submitted, STRANGERS, "they waited for their turn");
    cr_assert(until(stage.submitted == STRANGERS + 1), "%zu", stage.submitted);
    close_all(fds, STRANGERS);
}

/* Expects what becomes of a request that the core has when its connection is reset. */
static void expect_after_reset(const char *request, bool is_dropped)
{
    const struct linger reset = {.l_onoff = 1};
    const size_t before = stage.cancelled;
    int fd = caller_open(API);
    caller_say(fd, request);
    cr_assert(until(stage.pending_count == 1));
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd);
    (void)until_within(is_dropped ? PATIENCE : 50, stage.cancelled != before);
    cr_expect_eq(stage.cancelled - before, is_dropped, "%.20s", request);
    if (stage.pending_count > 0)
        answer_pending();
    cr_assert(until(stage.api->connections == 0));
}

/* A call whose connection is reset is dropped, also while the core has it. A release goes on, and
 * so does a renewal of a lock of this agent. */
Test(shares, a_caller_that_is_gone_leaves_the_core, .init = stage_play, .fini = stage_close)
{
    const char *put = put_of_a_holder();
    stage.answers_at_once = false;
    expect_after_reset(POST, true);
    expect_after_reset(GET, true);
    expect_after_reset(
        "PUT /locks/k HTTP/1.1\r\nHost: localhost\r\nLock-Token: " A_TOKEN "\r\n\r\n", true);
    expect_after_reset(put, false);
    expect_after_reset(DELETE, false);
}

/* D9: a body that may be costly to read is read in its turn. */
Test(shares, d9_a_body_is_read_in_its_turn, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 10, POSTS = 5, NESTED = 300 };
    static char post[NESTED * 2 + 400];
    int fds[STRANGERS], nested[POSTS];
    size_t head = (size_t)snprintf(post, sizeof(post),
                                   "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                   "application/json\r\nContent-Length: %d\r\n\r\n{\"label\": ",
                                   2 * NESTED + 11);
    memset(post + head, '[', NESTED);
    memset(post + head + NESTED, ']', NESTED);
    post[head + 2 * NESTED] = '}';
    open_all(fds, STRANGERS);
    open_all(nested, POSTS);
    start_crowd(fds, STRANGERS);
    say_together(nested, POSTS, post);
    turn();
    cr_assert_eq(answered_count(nested, POSTS), 0, "it was read at once");
    expect_all(fds, STRANGERS, 409);
    expect_all(nested, POSTS, 400);
    close_all(fds, STRANGERS);
    close_all(nested, POSTS);
}

/* D9: a PUT whose token this agent knows passes strangers. One with another token is queued. */
Test(shares, d9_a_holder_passes_strangers, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 20 };
    const char *puts[] = {
        "PUT /locks/held HTTP/1.1\r\nHost: localhost\r\nLock-Token: " A_TOKEN "\r\n\r\n",
        put_of_a_holder(),
    };
    for (int known = 0; known < 2; known++) {
        int fds[STRANGERS], caller = caller_open(API);
        open_all(fds, STRANGERS);
        size_t before = stage.submitted;
        start_crowd(fds, STRANGERS);
        say_together(&caller, 1, puts[known]);
        while (stage.last.kind != EVENT_RENEW)
            turn();
        size_t first = stage.submitted - before;
        cr_assert(known ? first < STRANGERS / 2 : first > STRANGERS, "it came as number %zu",
                  first);
        cr_assert(until(stage.submitted == before + STRANGERS + 1));
        close_all(fds, STRANGERS);
        close(caller);
        stage.last.kind = EVENT_ACQUIRE;
    }
}

/* D9: a wait that was queued is counted once, and no more when it has ended. */
Test(shares, d9_a_wait_that_was_queued_is_counted_once, .init = stage_play, .fini = stage_close)
{
    enum { STRANGERS = 10 };
    int fds[STRANGERS];
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    stage.busy_ms = COST_MS;
    open_all(fds, STRANGERS);
    say_together(fds, STRANGERS, WAITING_POST);
    cr_assert(until(!list_is_empty(&stage.api->shares[SHARE_STRANGERS].waiting[RANK_CROWD])));
    cr_assert_gt(count_asking(), 0);
    expect_all(fds, STRANGERS, 409);
    close_all(fds, STRANGERS);
    cr_assert(until(count_parked() == 0), "%zu", count_parked());
    cr_assert(until(count_asking() == 0), "%zu", count_asking());
}

/* D9: requests for a lock or its state, with those that wait, never take the last 32
 * connections. */
static void last_connections_are_for_holders(const char *request)
{
    enum { WAITING = 64, ASKING = FEW_CONNECTIONS - WAITING - 32 };
    int waiting[WAITING], asking[ASKING], late, holder;
    stage.answers_at_once = false;
    open_all(waiting, WAITING);
    say_together(waiting, WAITING, WAITING_POST);
    open_all(asking, ASKING);
    say_together(asking, ASKING, request);
    cr_assert(until(stage.pending_count == WAITING + ASKING));
    late = caller_open(API);
    caller_say(late, request);
    expect_status(late, 429);
    holder = caller_open(API);
    caller_say(holder, DELETE);
    cr_assert(until(stage.pending_count == WAITING + ASKING + 1), "a DELETE is let in");
    close_all(waiting, WAITING);
    close_all(asking, ASKING);
    close(late);
    close(holder);
}

Test(shares, d9_the_last_connections_are_for_holders, .init = stage_of_few, .fini = stage_close)
{
    last_connections_are_for_holders(POST);
}

Test(shares, d9_callers_that_look_leave_them_too, .init = stage_of_few, .fini = stage_close)
{
    last_connections_are_for_holders(GET);
}

/* D9: waits whose deadlines end together are answered in several turns. A grant waits for none of
 * them. */
Test(shares, d9_refusals_that_come_together_have_their_turns, .init = stage_play,
     .fini = stage_close)
{
    enum { WAITING = 800 };
    static int fds[WAITING];
    stage.answers_at_once = false;
    for (int i = 0; i < WAITING; i++) {
        fds[i] = caller_open(API);
        say_together(&fds[i], 1, WAITING_POST);
        turn();
    }
    cr_assert(until(stage.pending_count == WAITING));
    int granted = caller_open(API);
    caller_say(granted, WAITING_POST);
    cr_assert(until(stage.pending_count == WAITING + 1));
    uint32_t of_grant = stage.last.acquire.request;
    forget_pending(of_grant);
    stage.answer = (struct effect_answer){.answer = ANSWER_WAIT_TIMEOUT};
    while (stage.pending_count > 0)
        answer_pending();
    stage.answer = a_hold(ANSWER_GRANTED);
    give_answer(of_grant);
    turn();
    int answered = answered_count(fds, WAITING);
    cr_expect_lt(answered, WAITING, "all were answered in one turn");
    cr_expect_eq(answered_count(&granted, 1), 1, "the grant waited for refusals");
    expect_status(granted, 201);
    expect_all(fds, WAITING, 409);
    close_all(fds, WAITING);
    close(granted);
}

static void take_all_that_came(const int *fds, int count)
{
    char bytes[4096];
    turn_for(50);
    for (int i = 0; i < count; i++)
        while (recv(fds[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            ;
}

static void watch_all(int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        fds[i] = caller_open(API);
        caller_say(fds[i], "GET /locks/held?watch HTTP/1.1\r\nHost: localhost\r\n\r\n");
        cr_assert(until(stage.api->stream_count == (uint32_t)i + 1));
    }
}

/* D9: an event of a hold wakes its watchers in several turns, in their order. The last event comes
 * last. */
Test(shares, d9_watchers_are_woken_in_turns, .init = stage_play, .fini = stage_close)
{
    enum { WATCHERS = 200, WOKEN = 64 };
    int fds[WATCHERS];
    struct effect_answer held = a_real_hold("held");
    struct effect_trace trace = {
        .kind = TRACE_RENEWED, .lock = held.lock, .valid_until = held.hold.valid_until};
    watch_all(fds, WATCHERS);
    take_all_that_came(fds, WATCHERS);
    api_notify(stage.api, &trace);
    turn();
    int woken = answered_count(fds, WATCHERS);
    cr_assert(woken > 0 && woken <= WOKEN, "%d of them in one turn", woken);
    cr_assert_eq(answered_count(fds, WOKEN), woken, "not in their order");
    trace.kind = TRACE_LOST;
    trace.reason = REASON_EXPIRED;
    api_notify(stage.api, &trace);
    for (int i = 0; i < WATCHERS; i++) {
        received_len = 0;
        received[0] = '\0';
        cr_assert(until((take_bytes(fds[i]), strstr(received, "\r\n0\r\n") != NULL)));
        const char *lost = strstr(received, "\"lost\""), *renewed = strstr(received, "\"renewed\"");
        cr_assert_not_null(lost, "watcher %d: %s", i, received);
        cr_assert(renewed == NULL || (i < WOKEN && renewed < lost), "watcher %d: %s", i, received);
    }
    close_all(fds, WATCHERS);
}

/* D9: "those of the admin listener go first, the rest in the order of arrival", also after they
 * were resumed in vain. */
Test(shares, d9_pages_wait_in_order_behind_those_of_the_admin_listener, .init = stage_play,
     .fini = stage_close)
{
    enum { READERS = 20, SECOND_NS = 1000000000 };
    int fds[READERS], scrape = caller_open(ADMIN);
    open_all(fds, READERS);
    stage.api->rests_until_ns = uv_hrtime() + SECOND_NS / 10;
    for (int i = 0; i < READERS; i++) {
        char list[80];
        snprintf(list, sizeof(list), "GET /locks?limit=%d HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 i + 1);
        caller_say(fds[i], list);
        turn();
    }
    caller_say(scrape, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(until(stage.api->line_numbers == READERS + 1));
    for (int resumed = 0; resumed < 2; resumed++) {
        uint64_t earlier = 0;
        size_t count = 0;
        for (struct link *at = stage.api->rendering.head.next; at != &stage.api->rendering.head;
             at = at->next) {
            struct request *request = CONTAINER_OF(at, struct request, in_line);
            cr_assert_eq(request->connection->listener->is_admin, count == 0);
            cr_assert(count < 2 || request->line_number > earlier);
            earlier = request->line_number;
            count++;
        }
        cr_assert_eq(count, READERS + 1, "%zu", count);
        stage.api->rests_until_ns = uv_hrtime() + SECOND_NS;
        if (!resumed)
            turn_for(200);
    }
    stage.api->rests_until_ns = 0;
    expect_status(scrape, 200);
    expect_all(fds, READERS, 200);
    close_all(fds, READERS);
    close(scrape);
}

/* ---- connections make room ---- */

/* D9: if connections are few, those of a crowd are closed. A connection that has asked once and
 * been idle for longer stays. A crowd is strangers, or checks that ask again at once. */
Test(shares, d9_a_crowd_makes_room_first, .init = stage_of_few, .fini = stage_close)
{
    enum { CROWD = 104, LATE = 20, MUST_GO = 1 + CROWD + LATE + 16 - FEW_CONNECTIONS };
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
        close_all(crowd, CROWD);
        close_all(late, LATE);
        close(probe);
        cr_assert(until(stage.api->connections == 0));
    }
}

/* D9: callers that pause fill a listener. Their connections are closed before they have been idle
 * for a second, because no other connection makes room. A try that takes a second shows nothing. */
Test(shares, d9_callers_that_pause_make_room_if_no_crowd_does, .init = stage_of_few,
     .fini = stage_close)
{
    enum { CALLERS = FEW_CONNECTIONS + 20, TRIES = 15, IDLE_LIMIT_MS = 1000 };
    bool was_in_time = false;
    for (int try = 0; try < TRIES && !was_in_time; try++) {
        int fds[CALLERS];
        const uint64_t began_ns = uv_hrtime();
        for (int i = 0; i < CALLERS; i++)
            fds[i] = call_often(LIVEZ, 1);
        was_in_time = uv_hrtime() - began_ns < IDLE_LIMIT_MS * 1000000ULL;
        cr_expect_geq(ended_count(fds, CALLERS), 16 + FEW_CONNECTIONS / 4, "too few made room");
        cr_expect(has_ended(fds[0]) && !has_ended(fds[CALLERS - 1]), "not the longest idle");
        close_all(fds, CALLERS);
        cr_assert(until(stage.api->connections == 0));
    }
    cr_assert(was_in_time, "the last caller came in after a second");
}

/* D9: no connection has been idle for long as the free ones become few. So silent connections are
 * closed when they have had their time. The connection that has asked stays. */
Test(shares, d9_who_asks_stays_while_silent_callers_have_their_time, .init = stage_of_few,
     .fini = stage_close)
{
    enum { SILENT = 126, MUST_GO = 1 + SILENT + 16 - FEW_CONNECTIONS };
    int probe = call_often(LIVEZ, 1), silent[SILENT];
    for (int i = 0; i < SILENT; i++)
        silent[i] = caller_open(API);
    cr_assert(until(ended_count(silent, SILENT) == MUST_GO));
    cr_assert_not(has_ended(probe), "the probe made room");
    close_all(silent, SILENT);
    close(probe);
}

/* D9: a holder's connection is the last to be closed, however long it has been idle. */
Test(shares, d9_callers_that_pause_make_room_before_a_holder, .init = stage_of_few,
     .fini = stage_close)
{
    enum { CALLERS = FEW_CONNECTIONS + 20 };
    int fds[CALLERS], holder = call_often(put_of_a_holder(), 1);
    turn_for(1100);
    for (int i = 0; i < CALLERS; i++)
        fds[i] = call_often(LIVEZ, 1);
    cr_assert_geq(ended_count(fds, CALLERS), CALLERS + 1 - FEW_CONNECTIONS);
    cr_assert_not(has_ended(holder), "the holder made room");
    close_all(fds, CALLERS);
    close(holder);
}

/* D9: of connections that have sent a request already, only a few are looked at. */
Test(shares, d9_the_choice_looks_at_few_connections, .init = stage_of_few, .fini = stage_close)
{
    enum { CROWD = 100, LOOKS_MAX = 16 };
    struct listener *listener = &stage.api->listeners[API];
    int fds[CROWD];
    stage.answer = (struct effect_answer){.answer = ANSWER_LOCK_HELD};
    for (int i = 0; i < CROWD; i++)
        fds[i] = call_often(POST, 1);
    say_together(fds, CROWD, POST);
    listener->connections_max = CROWD;
    looks = 0;
    connection_is_silent(CONTAINER_OF(list_first(&stage.api->open), struct connection, all));
    listener->connections_max = FEW_CONNECTIONS;
    cr_expect(looks > 0 && looks <= LOOKS_MAX, "%u looks", looks);
    close_all(fds, CROWD);
}

/* D9: scarcity begins with the connection that is one too many, not when it was last looked for. */
Test(shares, d9_a_quiet_listener_closes_no_holder_at_once, .init = stage_of_few,
     .fini = stage_close)
{
    enum { HOLDERS = 112 };
    const char *put = put_of_a_holder();
    int fds[HOLDERS];
    for (int i = 0; i < HOLDERS; i++)
        fds[i] = call_often(put, 1);
    turn_for(200);
    const uint64_t came_ms = uv_now(&stage.loop);
    int late = caller_open(API);
    while (uv_now(&stage.loop) < came_ms + 40)
        turn();
    if (uv_now(&stage.loop) < came_ms + 50) /* otherwise this process was stopped for too long */
        cr_assert_eq(ended_count(fds, HOLDERS), 0);
    close_all(fds, HOLDERS);
    close(late);
}

/* D9: a connection that makes room is closed once, even if it has sent further requests. */
Test(shares, d9_room_that_was_made_is_counted_once, .init = stage_of_few, .fini = stage_close)
{
    enum { CALLERS = 300 };
    int fds[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        fds[i] = caller_open(API);
        say_together(&fds[i], 1, LIVEZ LIVEZ LIVEZ "GET /livez HTTP/1.1\r\nHost: ");
    }
    turn_for(600);
    close_all(fds, CALLERS);
    cr_assert(until(stage.api->connections == 0));
    for (size_t i = 0; i < stage.api->listener_count; i++)
        cr_assert_eq(stage.api->listeners[i].giving_way, 0);
}

/* ---- ends of many at once ---- */

/* Counts the connections that the API has ended. */
static int hung_up_count(const int *fds, int count)
{
    int hung_up = 0;
    for (int i = 0; i < count; i++) {
        struct pollfd end = {.fd = fds[i], .events = POLLRDHUP};
        hung_up += poll(&end, 1, 0) == 1;
    }
    return hung_up;
}

Test(shares, d9_callers_that_are_late_are_ended_in_turns, .init = stage_play, .fini = stage_close)
{
    enum { LATE = 200, ENDED = 64, TIMEOUT_MS = 200 };
    int fds[LATE];
    open_all(fds, LATE);
    stage.config->header_timeout_ms = TIMEOUT_MS;
    say_together(fds, LATE, "GET /livez HTTP/1.1\r\n");
    turn_for(20);
    usleep(2 * TIMEOUT_MS * 1000);
    turn();
    int ended = hung_up_count(fds, LATE);
    cr_assert(ended > 0 && ended <= ENDED, "%d of them in one turn", ended);
    expect_all(fds, LATE, 408);
    close_all(fds, LATE);
}

Test(shares, d9_watchers_that_do_not_read_are_given_up_in_turns, .init = stage_play,
     .fini = stage_close)
{
    enum { WATCHERS = 200, GIVEN_UP = 64 };
    int fds[WATCHERS];
    struct effect_answer held = a_real_hold("held");
    struct effect_trace renewed = {
        .kind = TRACE_RENEWED, .lock = held.lock, .valid_until = held.hold.valid_until};
    watch_all(fds, WATCHERS);
    api_notify(stage.api, &renewed);
    stage.skew_us = 3000000;
    api_notify(stage.api, &renewed); /* none of them has written its line before */
    cr_assert_eq(hung_up_count(fds, WATCHERS), 0);
    turn();
    int ended = hung_up_count(fds, WATCHERS);
    cr_assert(ended > 0 && ended <= GIVEN_UP, "%d of them in one turn", ended);
    cr_assert(until(hung_up_count(fds, WATCHERS) == WATCHERS));
    close_all(fds, WATCHERS);
}

/* D9: libmicrohttpd and the scanner of chunks read the lines around the data outside of any
 * share. */
Test(shares, d9_the_lines_around_chunks_are_bounded, .init = stage_play, .fini = stage_close)
{
    enum { BYTES = 2048, FIT = 8 * 65536 / BYTES, TOO_MANY = FIT + 50 };
    static char chunk[BYTES + 1];
    int fd = caller_open(API), sent = 0;
    memset(chunk, 'x', BYTES);
    memcpy(chunk, "1;", 2);
    memcpy(chunk + BYTES - 5, "\r\na\r\n", 5);
    caller_say(fd, "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
                   "Content-Type: application/x-www-form-urlencoded\r\n\r\n");
    for (; sent < TOO_MANY && answered_count(&fd, 1) == 0; sent++) {
        caller_send(fd, chunk, BYTES);
        turn();
    }
    cr_assert(sent >= FIT && sent < TOO_MANY, "%d chunks", sent);
    expect_status(fd, 413);
    close(fd);
}
