/* Streams: a hold that is watched, and a hold that lives as long as its caller's connection
 * (D3). */
#include "lines.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(streams, .init = lines_open_world, .fini = lines_close_world, .timeout = 90);

/* The next line is this event; its validity has not passed by the time it is read, unless the hold
 * is over. */
static json_t *expect_event(struct lines *stream, const char *event)
{
    json_t *line = lines_next(stream, PATIENCE_MS);
    cr_assert_not_null(line, "no %s came; so far: %s", event, stream->bytes);
    cr_assert_str_eq(lines_text(line, "event"), event, "%s", stream->bytes);
    cr_assert_geq(lines_count(line, "valid_for_ms"), 0);
    cr_assert_gt(lines_count(line, "valid_until_boottime_ms"), 0);
    return line;
}

/* Returns the next event that is not a renewal. */
static json_t *skip_renewals(struct lines *stream)
{
    for (;;) {
        json_t *line = lines_next(stream, PATIENCE_MS);
        cr_assert_not_null(line, "so far: %s", stream->bytes);
        if (strcmp(lines_text(line, "event"), "renewed") != 0)
            return line;
    }
}

static json_t *grant_of(struct lines *stream)
{
    json_t *grant = lines_next(stream, PATIENCE_MS);
    cr_assert_not_null(grant, "so far: %s", stream->bytes);
    cr_assert_str_eq(lines_text(grant, "event"), "granted", "%s", stream->bytes);
    cr_assert(strncmp(stream->bytes, "HTTP/1.1 201 ", 13) == 0, "%s", stream->bytes);
    cr_assert_str_eq(lines_text(grant, "bind"), "connection");
    cr_assert_str_eq(lines_text(grant, "renew"), "agent");
    return grant;
}

/* ---- watching -------------------------------------------------------------------------------- */

/* A snapshot, then every good renewal with a validity that grows, then the release, then the
 * end. */
Test(streams, a_watcher_hears_renewals_and_the_release)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "a/k", "ttl=6s&renew=agent&label=me");
    struct lines *watch = lines_open(agent, "GET", "/locks/a/k?watch"),
                 *second = lines_open(agent, "GET", "/locks/a/k?watch=true");
    const json_t *snapshot = expect_event(watch, "held");
    cr_assert_str_eq(lines_text(snapshot, "key"), "a/k");
    cr_assert_str_eq(lines_text(snapshot, "label"), "me");
    cr_assert_null(json_object_get(snapshot, "token"));
    int64_t until = lines_count(snapshot, "valid_until_boottime_ms");
    for (int i = 0; i < 3; i++) {
        const json_t *renewed = expect_event(watch, "renewed");
        cr_assert_gt(lines_count(renewed, "valid_until_boottime_ms"), until);
        until = lines_count(renewed, "valid_until_boottime_ms");
    }
    cr_assert_eq(metric(agent, "lockagent_streams"), 2);
    give_back(agent, "a/k", token(granted));
    cr_assert_str_eq(lines_text(skip_renewals(watch), "event"), "released");
    cr_assert(lines_over(watch), "%s", watch->bytes);
    expect_event(second, "held");
    cr_assert_str_eq(lines_text(skip_renewals(second), "event"), "released");
    cr_assert(eventually(metric(agent, "lockagent_streams") == 0));
}

/* Nothing is streamed of locks that this agent does not hold, and a watcher that leaves takes
 * nothing with it. */
Test(streams, watching_holds_nothing)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *other = agent_start(NULL);
    expect(get(agent, "/locks/k?watch"), 404, "not_held");
    expect(acquire(agent, "k", "ttl=30s"), 201, NULL);
    expect(get(other, "/locks/k?watch"), 404, "not_held");
    struct lines *watch = lines_open(agent, "GET", "/locks/k?watch");
    expect_event(watch, "held");
    wire_close(watch->wire);
    cr_assert(eventually(metric(agent, "lockagent_streams") == 0), "the disconnect was not seen");
    cr_assert(held_here(agent, "k"));
    expect(get(agent, "/locks/k?watch=no"), 400, "bad_request");
    expect(http(agent, &(struct call){.path = "/locks/k?watch", .headers = {"Accept: text/plain"}}),
           406, NULL);
}

/* Reads a stream to its end, after all masters have gone. Returns whether `lost` came before the
 * validity that was last reported has ended. An agent that was late itself says `stalled`, and logs
 * that it was late. */
static bool lost_comes_in_time(const struct agent *agent, struct lines *watch, int64_t until)
{
    json_t *line;
    while ((line = lines_next(watch, PATIENCE_MS)) != NULL &&
           strcmp(lines_text(line, "event"), "renewed") == 0)
        until = lines_count(line, "valid_until_boottime_ms");
    const int64_t heard = boottime_ms();
    cr_assert_not_null(line, "so far: %s", watch->bytes);
    cr_assert_str_eq(lines_text(line, "event"), "lost");
    const bool was_late = strcmp(lines_text(line, "reason"), "stalled") == 0 &&
                          agent_logged(agent, "process was stopped or late", NULL) > 0;
    if (!was_late)
        cr_assert_str_eq(lines_text(line, "reason"), "quorum_lost");
    cr_assert_eq(lines_count(line, "valid_until_boottime_ms"), until);
    cr_assert(lines_over(watch));
    return !was_late && lines_count(line, "valid_for_ms") > 0 && heard < until;
}

/* With all masters gone `lost` comes before the validity that was last reported has ended. On a
 * busy machine a loss may be told too late; the leases end a second after each other. */
Test(streams, lost_is_said_in_time)
{
    enum { LEASES = 4, SHORTEST_S = 3 };
    struct lines *watches[LEASES];
    int64_t until[LEASES];
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    for (int i = 0; i < LEASES; i++)
        acquire_free(agent, format("k%d", i), format("ttl=%ds&renew=agent", SHORTEST_S + i));
    for (int i = 0; i < LEASES; i++) {
        watches[i] = lines_open(agent, "GET", format("/locks/k%d?watch", i));
        until[i] = lines_count(expect_event(watches[i], "held"), "valid_until_boottime_ms");
    }
    for (size_t i = 0; i < 5; i++)
        master_kill(i);
    bool in_time = false;
    for (int i = 0; i < LEASES; i++)
        in_time |= lost_comes_in_time(agent, watches[i], until[i]);
    cr_assert(in_time, "none of %d leases", LEASES);
    expect(get(agent, "/locks/k0?watch"), 404, "not_held");
}

/* D3.6: a lock that another holder has is valid no more, in spite of the validity that was reported
 * before. */
Test(streams, d3_6_what_another_holder_has_is_not_valid)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    expect(acquire(agent, "k", "ttl=9s&renew=agent"), 201, NULL);
    struct lines *watch = lines_open(agent, "GET", "/locks/k?watch");
    expect_event(watch, "held");
    for (size_t i = 0; i < 3; i++)
        master_do(i, "SET lock:k %s:000000b2:7:thief PX 60000", repeat("ab", 20));
    const json_t *line = skip_renewals(watch);
    cr_assert_str_eq(lines_text(line, "event"), "lost");
    cr_assert_str_eq(lines_text(line, "reason"), "taken");
    cr_assert_eq(lines_count(line, "valid_for_ms"), 0);
    cr_assert(lines_over(watch));
}

/* A lease that its caller lets run out: the agent words the line, and looks at the clock, while
 * there is still time. On a machine that is too busy for that it may be late, and says so; but
 * never because it was meant to. */
static bool end_of_lease_is_said_in_time(const struct agent *agent, const char *key)
{
    expect(acquire(agent, key, "ttl=1s"), 201, NULL);
    struct lines *watch = lines_open(agent, "GET", format("/locks/%s?watch", key));
    const int64_t until = lines_count(expect_event(watch, "held"), "valid_until_boottime_ms");
    const json_t *line = expect_event(watch, "lost");
    cr_assert_str_eq(lines_text(line, "reason"), "expired");
    cr_assert_leq(lines_count(line, "valid_for_ms"), 5);
    cr_assert_eq(lines_count(line, "valid_until_boottime_ms"), until);
    cr_assert(lines_over(watch));
    return lines_count(line, "valid_for_ms") > 0;
}

Test(streams, r7_lost_is_said_before_the_end_of_a_lease_too)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    bool in_time = false;
    for (size_t round = 0; round < LINES_STREAMS && !in_time; round++)
        in_time = end_of_lease_is_said_in_time(agent, format("k%zu", round));
    cr_assert(in_time, "%d leases in a row", LINES_STREAMS);
}

/* R14: an agent that was stopped for longer than the lease says `lost` first, and not `renewed`. */
Test(streams, lost_is_the_first_word_after_a_stall)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    struct lines *bound = lines_open(agent, "POST", "/locks/k?ttl=3s&bind=connection&wait=10s");
    grant_of(bound);
    expect_event(bound, "renewed");
    agent_signal(agent, SIGSTOP);
    sleep_ms(3500);
    lines_receive(bound);
    const size_t before = bound->len;
    agent_signal(agent, SIGCONT);
    bound->at = before;
    const json_t *lost = expect_event(bound, "lost");
    cr_assert_str_eq(lines_text(lost, "reason"), "stalled");
    cr_assert_eq(lines_count(lost, "valid_for_ms"), 0);
    cr_assert(lines_over(bound));
}

/* ---- bound holds ----------------------------------------------------------------------------- */

/* The connection is the hold: renewed while it is open, released when its end comes, whether by FIN
 * or by reset. */
Test(streams, the_end_of_the_caller_is_the_release)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    for (int reset = 0; reset < 2; reset++) {
        struct lines *bound = lines_open(agent, "POST", "/locks/k?ttl=10s&bind=connection");
        const json_t *grant = grant_of(bound);
        cr_assert_eq(lines_count(grant, "max_hold_ms"), 3600000);
        expect(acquire(agent, "k", NULL), 409, "lock_held");
        cr_assert_str_eq(string(get(agent, "/locks/k"), "hold.bind"), "connection");
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        if (reset)
            cr_assert_eq(setsockopt(bound->wire, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
                         0);
        const int64_t left = boottime_ms();
        wire_close(bound->wire);
        cr_assert(eventually_within(5000, masters_with("lock:k") == 0), "still there after %lld ms",
                  (long long)(boottime_ms() - left));
        cr_assert_not(held_here(agent, "k"));
    }
}

/* A process that is killed frees its key at once, though its lease is long. */
Test(streams, a_killed_holder_frees_the_key)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    /* the machine is busy: of three, or of as many as it takes for one to be good */
    int64_t best_ms = INT64_MAX;
    for (int round = 0; round < 3 || (round < 20 && best_ms >= 100); round++) {
        const char *key = format("k%d", round);
        const pid_t holder = fork();
        if (holder == 0) {
            const char *url =
                format("http://127.0.0.1:%d/locks/%s?ttl=30s&bind=connection", agent->port, key);
            execlp("curl", "curl", "-sN", "-X", "POST", "-o", "/dev/null", url, NULL);
            _exit(127);
        }
        cr_assert(eventually(held_here(agent, key)));
        const int waiter =
            wire_request(agent, "POST", format("/locks/%s?ttl=30s&wait=30s", key), NULL);
        sleep_ms(300);
        cr_assert(wire_is_silent(waiter));
        const int64_t before_ms = boottime_ms();
        kill(holder, SIGKILL);
        expect(wire_receive(waiter, PATIENCE_MS), 201, NULL); /* its lease would last longer */
        const int64_t took_ms = boottime_ms() - before_ms;
        best_ms = took_ms < best_ms ? took_ms : best_ms;
        wire_close(waiter);
    }
    cr_assert_lt(best_ms, 100, "%lld ms", (long long)best_ms);
}

/* Renewed for longer than its ttl; a DELETE with its token ends it with `released`; a PUT is a
 * renewal like others. */
Test(streams, a_bound_hold_is_renewed_and_can_be_deleted)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    enum { RENEWALS = 4 }; /* Each comes after a third of the ttl. */
    struct lines *bound =
        lines_open(agent, "POST", "/locks/k?ttl=4s&bind=connection&max_hold=1m&wait=10s");
    const char *its_token = lines_text(grant_of(bound), "token");
    cr_assert_not_null(strstr(bound->bytes, "Lock-Token:"));
    cr_assert_not_null(strstr(bound->bytes, "application/x-ndjson"));
    for (int i = 0; i < RENEWALS; i++)
        expect_event(bound, "renewed");
    cr_assert(held_here(agent, "k"));
    expect(renew(agent, "k", its_token, NULL), 200, NULL);
    expect_event(bound, "renewed");
    give_back(agent, "k", its_token);
    cr_assert_str_eq(lines_text(skip_renewals(bound), "event"), "released");
    cr_assert(lines_over(bound));
    const struct reply *again = acquire(agent, "k", "ttl=30s");
    expect(again, 201, NULL);
    wire_close(bound->wire);
    sleep_ms(200);
    cr_assert(held_here(agent, "k"), "the end of a stream released another hold");
}

Test(streams, what_a_bound_hold_can_not_be)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    expect(acquire(agent, "k", "bind=connection&renew=caller"), 400, "bad_request");
    expect(acquire(agent, "k", "bind=pod"), 400, "bad_request");
    expect(acquire(agent, "k", "bind=connection&ttl=900ms"), 400, "bad_request");
    expect(http(agent, &(struct call){.method = "POST",
                                      .path = "/locks/k?bind=connection",
                                      .headers = {"Accept: text/plain"}}),
           406, NULL);
    const struct reply *plain = acquire(agent, "k", "bind=none&ttl=30s");
    expect(plain, 201, NULL);
    cr_assert_str_eq(string(plain, "bind"), "none");
    expect(acquire(agent, "k", "bind=connection"), 409, "lock_held");
}

/* It waits like any other. A caller that leaves while waiting, or in the moment of the grant,
 * leaves nothing behind. */
Test(streams, bound_callers_that_wait)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *holder = acquire(agent, "k", "ttl=60s");
    struct lines *gone = lines_open(agent, "POST", "/locks/k?ttl=30s&bind=connection&wait=60s");
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 1));
    struct lines *stays = lines_open(agent, "POST", "/locks/k?ttl=30s&bind=connection&wait=60s");
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 2));
    wire_close(gone->wire);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 1));
    give_back(agent, "k", token(holder));
    grant_of(stays);
    wire_close(stays->wire);
    cr_assert(eventually(masters_with("lock:k") == 0)); /* Its lease is longer. */
    for (int i = 0; i < 20; i++) {
        struct lines *hasty = lines_open(agent, "POST", "/locks/hasty?ttl=30s&bind=connection");
        sleep_ms(i % 4);
        wire_close(hasty->wire);
    }
    cr_assert(eventually(!held_here(agent, "hasty") && masters_with("lock:hasty") == 0),
              "held for nobody");
    cr_assert_eq(metric(agent, "lockagent_streams"), 0);
}

/* A caller that does not read is not told anything: its hold is lost, and runs out instead of being
 * released. */
Test(streams, a_stuck_reader_loses_its_hold)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const int wire = wire_open_deaf(agent);
    wire_say(wire, "POST /locks/k?ttl=60s&bind=connection HTTP/1.1\r\nHost: "
                   "localhost\r\nContent-Length: 0\r\n\r\n");
    cr_assert(eventually(held_here(agent, "k")));
    const struct reply *page = get(agent, "/locks/k");
    cr_assert_str_eq(string(page, "hold.bind"), "connection");
    struct lines *watch = lines_open(agent, "GET", "/locks/k?watch");
    expect_event(watch, "held");
    /* The grant is on the wire unread; renewals by PUT fill the buffers that the kernel keeps for
     * the caller. */
    const char *token_text = wire_unread_token(wire);
    bool lost = false;
    const int64_t until = boottime_ms() + 60000;
    while (!lost && boottime_ms() < until) {
        lost = renew(agent, "k", token_text, NULL)->status == 410;
        watch->len = watch->at = 0;
        memset(watch->bytes, 0, sizeof(watch->bytes));
        lines_receive(watch);
    }
    cr_assert(lost, "never found stuck");
    cr_assert_str_eq(string(renew(agent, "k", token_text, NULL), "reason"), "stuck");
    cr_assert_eq(metric(agent, "lockagent_streams_dropped_total"), 1);
    cr_assert_geq(masters_with("lock:k"), 3u, "the lease does not run out, it was taken away");
    wire_close(wire);
}

/* A watcher that does not read is dropped, and takes nothing with it. */
Test(streams, a_stuck_watcher_is_dropped)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire(agent, "k", "ttl=60s");
    const int deaf = wire_open_deaf(agent);
    wire_say(deaf, "GET /locks/k?watch HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(eventually(metric(agent, "lockagent_streams") == 1));
    const int64_t until = boottime_ms() + 60000;
    while (metric(agent, "lockagent_streams_dropped_total") == 0 && boottime_ms() < until)
        for (int i = 0; i < 20; i++)
            expect(renew(agent, "k", token(granted), NULL), 200, NULL);
    cr_assert_eq(metric(agent, "lockagent_streams_dropped_total"), 1);
    cr_assert(eventually(metric(agent, "lockagent_streams") == 0), "it was not closed");
    cr_assert(held_here(agent, "k"));
    wire_close(deaf);
}

/* SIGTERM: the holder goes on for the grace, then receives `lost` (drained), and its lease runs
 * out. */
Test(streams, draining_says_lost)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "shutdown: {grace: 1500ms}\n"});
    struct lines *bound = lines_open(agent, "POST", "/locks/k?ttl=3s&bind=connection"),
                 *watch = lines_open(agent, "GET", "/locks/k?watch");
    grant_of(bound);
    wire_close(watch->wire);
    watch = lines_open(agent, "GET", "/locks/k?watch");
    expect_event(watch, "held");
    agent_signal(agent, SIGTERM);
    expect_event(bound, "renewed");
    struct lines *both[] = {bound, watch};
    for (int i = 0; i < 2; i++) {
        const json_t *lost = skip_renewals(both[i]);
        cr_assert_str_eq(lines_text(lost, "event"), "lost");
        cr_assert_str_eq(lines_text(lost, "reason"), "drained");
        cr_assert(lines_over(both[i]));
    }
    cr_assert_eq(agent_ended(agent), 0);
    cr_assert_geq(masters_with("lock:k"), 3u);
    cr_assert(eventually_within(5000, masters_with("lock:k") == 0));
}

/* D9: waiters and streams never take the last connections. */
Test(streams, some_connections_are_left)
{
    enum { ROOM = 128 - 64, HALF = ROOM / 2 };
    int waiters[ROOM];
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "limits: {connections: 128, waiters: 64}\n"});
    const struct reply *holder = acquire(agent, "k", "ttl=60s");
    for (int i = 0; i < ROOM; i++)
        waiters[i] = i % 2 ? wire_request(agent, "POST", "/locks/k?ttl=30s&wait=60s", NULL)
                           : wire_request(agent, "GET", "/locks/k?watch", NULL);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == HALF &&
                         metric(agent, "lockagent_streams") == HALF));
    expect(get(agent, "/locks/k?watch"), 429, "too_many_waiters");
    expect(acquire(agent, "k", "wait=1s"), 429, "too_many_waiters");
    expect(acquire(agent, "other", "bind=connection"), 429, "too_many_waiters");
    expect(acquire(agent, "other", "ttl=30s"), 201, NULL);
    wire_close(waiters[0]);
    cr_assert(eventually(metric(agent, "lockagent_streams") == HALF - 1));
    expect(acquire(agent, "k", "wait=1s"), 409, "wait_timeout");
    give_back(agent, "k", token(holder));
    for (int i = 1; i < ROOM; i++)
        wire_close(waiters[i]);
}
