/* Masters that die, freeze, forget and return. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(faults, .init = world_open, .fini = world_close, .timeout = 90);

/* Acquires, renews and releases ten locks, each within `at_most_ms`; says how long one life
 * takes. */
static void expect_whole_lives(struct agent *agent, const char *when, int64_t at_most_ms)
{
    enum { LIVES = 10 };
    const int64_t start = boottime_ms();
    for (int i = 0; i < LIVES; i++) {
        const int64_t before = boottime_ms();
        const char *key = format("k%d", i);
        const struct reply *granted = acquire(agent, key, "ttl=20s");
        expect(granted, 201, NULL);
        expect(renew(agent, key, token(granted), NULL), 200, NULL);
        expect(release(agent, key, token(granted)), 204, NULL);
        cr_assert_leq(boottime_ms() - before, at_most_ms, "%s: %lld ms", when,
                      (long long)(boottime_ms() - before));
    }
    fprintf(stderr, "%s: %.1f ms for acquire, renew and release\n", when,
            (double)(boottime_ms() - start) / LIVES);
}

/* One and two dead masters of five change nothing; a held lock goes on. */
Test(faults, a_minority_killed)
{
    masters_start(5, MASTERS_FORGETFUL);
    /* No call waits for a master that is dead, so a busy machine has a second for each answer. */
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "1s"});
    const struct reply *held = acquire_free(agent, "held", "ttl=6s&renew=agent");
    expect_whole_lives(agent, "all masters up", 5000);
    for (size_t dead = 0; dead < 2; dead++) {
        master_kill(dead);
        expect_whole_lives(agent, format("%zu killed", dead + 1), 5000);
        cr_assert_eq(get(agent, "/readyz")->status, 200, "a quorum is enough to be ready");
    }
    const struct reply *granted = acquire(agent, "count", "ttl=20s");
    cr_assert_eq(number(granted, "nodes.granted"), 3);
    cr_assert_eq(number(granted, "nodes.total"), 5);
    for (unsigned i = 0; i < 2; i++)
        await_renewal(agent, "held");
    expect(renew(agent, "held", token(held), NULL), 200, NULL);
}

/* One and two frozen masters: no caller waits for them longer than node_timeout, before and after
 * the agent gives them up (R3). */
Test(faults, a_minority_frozen)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "500ms"});
    const struct reply *held = acquire_free(agent, "held", "ttl=6s&renew=agent");
    for (size_t frozen = 1; frozen < 3; frozen++) {
        master_freeze(frozen);
        expect_whole_lives(agent, format("%zu frozen", frozen), 2500);
    }
    cr_assert(eventually(metric(agent, "lockagent_group_masters_up{group=\"main\"}") == 3));
    for (unsigned i = 0; i < 2; i++)
        await_renewal(agent, "held");
    expect_whole_lives(agent, "2 frozen and given up", 2500);
    for (size_t frozen = 1; frozen < 3; frozen++)
        master_thaw(frozen);
    /* Operations that the frozen ones still had to run, and releases that the agent still owed
     * them, leave no lock behind (R5, R6). */
    for (int i = 0; i < 10; i++)
        cr_assert(eventually(masters_with(format("lock:k%d", i)) == 0), "k%d was orphaned", i);
    give_back(agent, "held", token(held));
}

/* A majority frozen: the answer comes all the same, and late replies of given-up attempts leave
 * nothing behind. */
Test(faults, a_majority_frozen)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "300ms"});
    for (size_t i = 0; i < 3; i++)
        master_freeze(i);
    const int64_t before = boottime_ms();
    const struct reply *refused = acquire(agent, "k", "ttl=60s");
    expect(refused, 503, "quorum_unavailable");
    cr_assert_leq(boottime_ms() - before, 3000);
    for (size_t i = 0; i < 3; i++)
        master_thaw(i);
    cr_assert(eventually(masters_with("lock:k") == 0), "an attempt that was given up left its key");
    expect(acquire(agent, "k", "ttl=20s&wait=5s"), 201, NULL);
}

Test(faults, all_masters_away_from_the_start)
{
    masters_start(3, MASTERS_FORGETFUL);
    for (size_t i = 0; i < 3; i++)
        master_kill(i);
    struct agent *agent = agent_start(&(struct agent_options){.not_ready = true});
    const char *words = "group main: 0 of 3 masters are up, 2 are needed: no lock can be granted";
    const struct reply *refused = acquire(agent, "k", NULL);
    expect(refused, 503, "quorum_unavailable");
    cr_assert_str_eq(string(refused, "detail"), words);
    cr_assert_str_eq(string(get(agent, "/readyz"), "reason"), words);
    cr_assert(eventually(agent_logged(agent, "no lock can be granted yet", words) == 1));
}

/* Wall-clock milliseconds of a JSON log line's "ts". */
static int64_t logged_at_ms(const char *line)
{
    const char *stamp = strstr(line, "\"ts\":\"");
    struct tm date = {0};
    int milliseconds = 0;
    cr_assert_not_null(stamp, "%s", line);
    const char *rest = strptime(stamp + 6, "%Y-%m-%dT%H:%M:%S", &date);
    cr_assert(rest && sscanf(rest, ".%3d", &milliseconds) == 1, "%s", line);
    return (int64_t)timegm(&date) * 1000 + milliseconds;
}

/* Follows a hold until this agent does not report it any more; returns the last end of validity
 * that was promised. */
static int64_t follow_until_lost(struct agent *agent, const char *key, int64_t until)
{
    const int64_t give_up = boottime_ms() + PATIENCE_MS;
    for (;;) {
        const struct reply *seen = get(agent, format("/locks/%s", key));
        if (!json_is_object(member(seen, "hold")))
            return until;
        const int64_t promised = number(seen, "hold.valid_until_boottime_ms");
        cr_assert_gt(number(seen, "hold.valid_for_ms"), 0, "reported held after its validity: %s",
                     seen->body);
        if (promised > until)
            until = promised;
        cr_assert_lt(boottime_ms(), give_up, "never lost: %s", seen->body);
        sleep_ms(10);
    }
}

/* Returns the log line of the loss, or NULL. Too few masters confirmed the hold. An agent that was
 * late itself, and says so, cannot tell that from its own pause. */
static const char *loss_line(const struct agent *agent)
{
    const char *line = agent_log_line(agent, "lock lost", "\"reason\":\"quorum_lost\"");
    if (line == NULL && agent_logged(agent, "process was stopped or late", NULL) > 0)
        line = agent_log_line(agent, "lock lost", "\"reason\":\"stalled\"");
    return line;
}

/* Starts three masters, and returns how long the agent then grants no lock. */
static int64_t recovery_ms(struct agent *agent)
{
    const struct reply *granted;
    for (size_t i = 0; i < 3; i++)
        master_start(i);
    const int64_t returned = boottime_ms();
    cr_assert(eventually((granted = acquire(agent, "other", "ttl=2s"))->status == 201));
    const int64_t took = boottime_ms() - returned;
    give_back(agent, "other", token(granted));
    return took;
}

/* Three masters have died. They return, and the agent grants locks within a second. On a busy
 * machine they die and return again. */
static void expect_recovery(struct agent *agent)
{
    int64_t took = recovery_ms(agent);
    for (unsigned round = 1; took > 1000 && round < 5; round++) {
        for (size_t i = 0; i < 3; i++)
            master_kill(i);
        cr_assert(eventually(get(agent, "/readyz")->status == 503));
        took = recovery_ms(agent);
    }
    cr_assert_leq(took, 1000, "recovery took %lld ms", (long long)took);
}

/* Three of five dead: no new locks, the held one is reported lost before its validity ends, and all
 * is well within a second of their return. */
Test(faults, a_majority_killed)
{
    masters_start(5, MASTERS_DURABLE);
    struct agent *agent = agent_start(NULL);
    const struct reply *held = acquire_free(agent, "held", "ttl=6s&renew=agent");
    const struct reply *owed = acquire_free(agent, "owed", "ttl=30s");
    for (size_t i = 0; i < 3; i++)
        master_kill(i);

    const struct reply *refused = acquire(agent, "other", "ttl=2s");
    expect(refused, 503, "quorum_unavailable");
    cr_assert_not_null(header(refused, "Retry-After"));
    cr_assert_lt(number(refused, "nodes.granted"), 3);
    cr_assert_geq(number(refused, "nodes.error"), 3);
    cr_assert_geq(number(refused, "nodes.held"), 0);
    cr_assert_eq(get(agent, "/readyz")->status, 503);
    cr_assert_eq(get(agent, "/livez")->status, 200, "liveness never depends on Redis");
    const struct reply *failed = renew(agent, "held", token(held), NULL);
    expect(failed, 503, "renew_failed");
    cr_assert_gt(number(failed, "valid_for_ms"), 0);
    expect(release(agent, "owed", token(owed)), 202, "release_pending");

    const int64_t until = follow_until_lost(agent, "held", number(held, "valid_until_boottime_ms"));
    cr_assert(eventually(loss_line(agent) != NULL), "%s", read_whole_file(agent->log));
    const int64_t now = boottime_ms(), lost_at = now - wall_ms() + logged_at_ms(loss_line(agent));
    if (strstr(loss_line(agent), "stalled") == NULL) /* An agent that is stopped says it later. */
        cr_assert_lt(lost_at, until, "lost was said %lld ms too late",
                     (long long)(lost_at - until));
    /* another agent may have renewed it: the masters cannot say */
    expect(renew(agent, "held", token(held), NULL), 503, "quorum_unavailable");

    expect_recovery(agent);
    /* R6: a key that was released meanwhile is released there too, although those masters remember
     * it. */
    cr_assert(eventually_within(8000, masters_with("lock:owed") == 0));
    cr_assert(eventually_within(8000, masters_with("lock:held") == 0));
    cr_assert(eventually(get(agent, "/readyz")->status == 200));
}

/* R6: a release reaches the masters that were down when it was made. */
Test(faults, a_release_reaches_masters_that_return)
{
    masters_start(5, MASTERS_DURABLE);
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "1s"});
    const struct reply *granted = acquire_free(agent, "k", "ttl=60s");
    cr_assert(eventually(masters_with("lock:k") == 5));
    master_kill(0);
    master_kill(4);
    expect(release(agent, "k", token(granted)), 204, NULL);
    master_start(0);
    master_start(4);
    cr_assert_leq(masters_with("lock:k"), 2u);
    cr_assert(eventually_within(8000, masters_with("lock:k") == 0));
}

/* R7, repair: a master that returns empty gets the key again, with its fencing number, and counts
 * again. */
Test(faults, a_master_that_forgot_is_repaired)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "k", "ttl=4s&renew=agent");
    cr_assert(eventually(masters_with("lock:k") == 5));
    for (size_t i = 0; i < 5; i++) {
        master_kill(i);
        master_start(i);
        cr_assert(eventually_within(10000, masters_with("lock:k") == 5),
                  "master %zu was not repaired", i);
        cr_assert_geq(master_number(i, "k"), number(granted, "fencing_token"));
        /* The repaired copy counts from the next renewal on: one passes before the next master
         * forgets. */
        await_renewal(agent, "k");
        cr_assert(eventually(number(get(agent, "/locks/k"), "hold.confirmed") == 5));
    }
    /* All five have forgotten in turn, and it is still the same hold. */
    const struct reply *renewed = renew(agent, "k", token(granted), NULL);
    expect(renewed, 200, NULL);
    cr_assert_str_eq(token(renewed), token(granted));
}

/* R7: a key that is gone within its lease from a master which had confirmed it was released there.
 * Only a key that a master forgot is repaired. */
Test(faults, a_key_that_was_deleted_is_not_repaired)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "k", "ttl=6s&renew=agent");
    cr_assert(eventually(masters_with("lock:k") == 5));
    sleep_ms(2500); /* it has been renewed */
    master_do(0, "DEL lock:k");
    master_do(1, "DEL lock:k");
    sleep_ms(2000);
    cr_assert_eq(masters_with("lock:k"), 3u);
    cr_assert(held_here(agent, "k"), "three of five still say yes");
    give_back(agent, "k", token(granted));
}

/* R4: validity counts from before the first request was sent, not from when the masters
 * answered. */
Test(faults, slow_masters_cost_validity)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "5s"});
    for (size_t i = 0; i < 5; i++)
        master_freeze(i);
    const int wire = wire_request(agent, "POST", "/locks/k?ttl=30s", NULL);
    cr_assert(eventually(metric(agent, "lockagent_group_rounds_in_flight{group=\"main\"}") == 1));
    sleep_ms(700);
    for (size_t i = 0; i < 5; i++)
        master_thaw(i);
    const struct reply *granted = wire_receive(wire, PATIENCE_MS);
    wire_close(wire);
    expect(granted, 201, NULL);
    cr_assert_leq(number(granted, "valid_for_ms"), 30000 - 302 - 600);
    cr_assert_gt(number(granted, "valid_for_ms"), 0);
}

/* R7: masters that had confirmed the token and now deny it end the hold at once, not when its
 * validity does. */
Test(faults, a_stolen_lock_is_lost_at_once)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire(agent, "k", "ttl=9s&renew=agent");
    cr_assert(eventually(masters_with("lock:k") == 5));
    for (size_t i = 0; i < 3; i++)
        master_do(i, "SET lock:k somebody-else PX 60000");
    cr_assert(eventually_within(6000, !held_here(agent, "k")));
    cr_assert_lt(boottime_ms(), number(granted, "valid_until_boottime_ms"));
    const struct reply *lost = renew(agent, "k", token(granted), NULL);
    expect(lost, 410, "lock_lost");
    cr_assert_str_eq(string(lost, "reason"), "taken");
    for (size_t i = 0; i < 3; i++)
        cr_assert_str_eq(master_get(i, "lock:k"), "somebody-else", "never touch what is not ours");
}

/* R12: 1,000 grants of one key, each with a greater number, while masters die, return empty, and
 * take turns. */
Test(faults, fencing_tokens_rise)
{
    masters_start(5, MASTERS_FORGETFUL);
    /* Without the guard, so that masters vote as soon as they have forgotten everything. */
    const struct agent_options options = {.group = "      guard: off\n", .node_timeout = "1s"};
    struct agent *agents[2] = {agent_start(&options), agent_start(&options)};
    int64_t last = 0;
    for (int i = 0; i < 1000; i++) {
        if (i % 100 == 50)
            master_kill((size_t)(i / 100 % 5));
        if (i % 100 == 90)
            master_start((size_t)(i / 100 % 5));
        const struct reply *granted = acquire(agents[i / 7 % 2], "k", "ttl=20s&wait=10s");
        expect(granted, 201, NULL);
        cr_assert_gt(number(granted, "fencing_token"), last, "grant %d", i);
        last = number(granted, "fencing_token");
        give_back(agents[i / 7 % 2], "k", token(granted));
    }
}

/* R12: a stored number from the future is passed, not repeated; and a number that only one master
 * knows is raised on a quorum. */
Test(faults, fencing_passes_what_is_stored)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    /* one day ahead: a number two days ahead was never granted (R12) */
    const long long future = wall_ms() * 1000 + 86400LL * 1000 * 1000;
    for (size_t i = 0; i < 3; i++)
        master_do(i, "ZADD %s %s n", bucket_of("k"), format("%lld", future + (long long)i * 1000));
    const struct reply *granted = acquire_free(agent, "k", "ttl=20s");
    cr_assert_gt(number(granted, "fencing_token"), future);
    size_t storing = 0;
    for (size_t i = 0; i < 5; i++)
        storing += master_number(i, "k") >= number(granted, "fencing_token");
    cr_assert_geq(storing, 3u, "the number is stored on a quorum before the grant");
}

/* D5.2: an agent whose masters are all down starts, says so, and is ready when they come. */
Test(faults, masters_come_after_the_agent)
{
    masters_plan(5, MASTERS_FORGETFUL);
    /* One after the other they are not a group that is new, for all that this agent knows. */
    struct agent *agent =
        agent_start(&(struct agent_options){.not_ready = true, .group = "      guard: off\n"});
    cr_assert_eq(get(agent, "/readyz")->status, 503);
    cr_assert_eq(get(agent, "/livez")->status, 200);
    expect(acquire(agent, "k", "ttl=2s"), 503, "quorum_unavailable");
    cr_assert_str_eq(key_state(agent, "k"), "unknown");
    /* A caller that waits gets the lock as soon as there is a quorum. */
    const int wire = wire_request(agent, "POST", "/locks/k?ttl=20s&wait=30s", NULL);
    for (size_t i = 0; i < 3; i++)
        master_start(i);
    expect(wire_receive(wire, PATIENCE_MS), 201, NULL);
    wire_close(wire);
    cr_assert(eventually(get(agent, "/readyz")->status == 200));
    const int second = wire_request(agent, "POST", "/locks/k?ttl=20s&wait=200ms", NULL);
    expect(wire_receive(second, PATIENCE_MS), 409, "wait_timeout");
    wire_close(second);
}

/* Passwords come from a file that is read at every connect; a wrong one keeps masters down and
 * never shows. */
Test(faults, masters_with_a_password)
{
    masters_start_with(3, MASTERS_FORGETFUL, "--requirepass", "correct-horse");
    for (size_t i = 0; i < 3; i++) {
        master_do(i, "AUTH correct-horse");
        master_do(i, "SELECT 3");
        master_mark(i);
    }
    const char *file = write_file("password", "wrong-battery\n");
    struct agent *agent = agent_start(&(struct agent_options){
        .not_ready = true, .group = format("      password_file: %s\n      db: 3\n", file)});
    sleep_ms(500);
    cr_assert_eq(get(agent, "/readyz")->status, 503);
    expect(acquire(agent, "k", "ttl=2s"), 503, "quorum_unavailable");
    write_file("password", "correct-horse\n");
    cr_assert(eventually(get(agent, "/readyz")->status == 200));
    acquire_free(agent, "k", "ttl=20s");
    cr_assert_geq(masters_with("lock:k"), 2u, "db: 3 is where the keys are");
    cr_assert_eq(agent_logged(agent, NULL, "wrong-battery") +
                     agent_logged(agent, NULL, "correct-horse"),
                 0u);
}
