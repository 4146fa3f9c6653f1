/* The agent itself dies, freezes, returns and ends: adoption (D3), a late clock (R14), SIGTERM. */
#include "harness.h"

#include <signal.h>
#include <string.h>

TestSuite(restart, .init = world_open, .fini = world_close, .timeout = 60);

/* A token outlives the agent that gave it: PUT and DELETE go on after SIGKILL. */
Test(restart, old_tokens_are_adopted)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(
        &(struct agent_options){.extra = "policies:\n  - {match: 'plain/*', fencing: off}\n"});
    const struct reply *first = acquire(agent, "first", "ttl=30s&label=before");
    const struct reply *second = acquire(agent, "second", "ttl=30s");
    const struct reply *plain = acquire(agent, "plain/1", "ttl=30s");
    const struct reply *watched = acquire(agent, "watched", "ttl=30s");
    expect(plain, 201, NULL);
    agent_kill(agent);
    agent_restart(agent);

    expect(acquire(agent, "first", "ttl=2s"), 409, "lock_held");
    cr_assert_not(held_here(agent, "first"));
    const struct reply *adopted = renew(agent, "first", token(first), "ttl=20s");
    expect(adopted, 200, NULL);
    cr_assert_str_eq(token(adopted), token(first));
    cr_assert_eq(number(adopted, "fencing_token"), number(first, "fencing_token"));
    cr_assert(json_is_true(member(adopted, "continuous")), "%s", adopted->body);
    cr_assert_str_eq(string(adopted, "renew"), "caller",
                     "who adopts without a word gets a plain lease");
    cr_assert(held_here(agent, "first"));
    /* From then on it is a hold like any other. */
    expect(renew(agent, "first", token(first), NULL), 200, NULL);
    give_back(agent, "first", token(first));

    give_back(agent, "second", token(second));
    cr_assert(eventually(masters_with("lock:first") + masters_with("lock:second") == 0));

    /* Without fencing there is no proof that no other holder was in between, and the answer says
     * so. */
    adopted = renew(agent, "plain/1", token(plain), "ttl=20s");
    expect(adopted, 200, NULL);
    cr_assert_str_eq(string(adopted, "continuous"), "unknown");

    adopted = renew(agent, "watched", token(watched), "ttl=1s&renew=agent");
    expect(adopted, 200, NULL);
    cr_assert_str_eq(string(adopted, "renew"), "agent");
}

/* If another caller held the lock in between, an old token is worth nothing. */
Test(restart, old_tokens_are_refused_after_another_holder)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *rival = agent_start(NULL);
    const struct reply *held = acquire(agent, "held", "ttl=1s");
    const struct reply *freed = acquire(agent, "freed", "ttl=1s");
    const struct reply *numbered = acquire(agent, "numbered", "ttl=30s");
    expect(held, 201, NULL);
    expect(freed, 201, NULL);
    cr_assert(eventually(masters_with("lock:numbered") == 5));
    agent_kill(agent);

    const struct reply *heir = acquire(rival, "held", "ttl=30s&wait=10s");
    expect(heir, 201, NULL);
    const struct reply *visitor = acquire(rival, "freed", "ttl=30s&wait=10s");
    expect(visitor, 201, NULL);
    give_back(rival, "freed", token(visitor));
    cr_assert(eventually(masters_with("lock:freed") == 0));
    /* As refused attempts do: it is the floor of the next grant, and says nothing of this one. */
    for (size_t i = 0; i < 5; i++)
        master_do(i, "ZINCRBY %s 1 n", bucket_of("numbered"));
    agent_restart(agent);

    expect(renew(agent, "held", token(held), NULL), 412, "token_mismatch");
    expect(release(agent, "held", token(held)), 412, "token_mismatch");
    cr_assert(held_here(rival, "held"));
    expect(renew(agent, "freed", token(freed), NULL), 404, "not_held");
    expect(release(agent, "freed", token(freed)), 404, "not_held");
    cr_assert_eq(masters_with("lock:freed"), 0u, "an adoption creates no key");
    expect(renew(agent, "numbered", token(numbered), NULL), 200, NULL);
    /* As if it had been granted again with another number. */
    const char *value = master_get(0, "lock:numbered");
    for (size_t i = 0; i < 5; i++)
        master_do(i, "SET lock:numbered %s PX 30000",
                  format("%.50s%s:", value, "1760000000000000"));
    expect(renew(rival, "numbered", token(numbered), NULL), 412, "token_mismatch");
    expect(release(rival, "numbered", token(numbered)), 412, "token_mismatch");
    cr_assert_eq(masters_with("lock:numbered"), 5u);
}

/* R14: an agent that was stopped beyond its leases first reports its lost locks, and takes nothing
 * from the next holder. */
Test(restart, a_frozen_agent_has_lost_its_locks)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *rival = agent_start(NULL);
    const struct reply *granted = acquire(agent, "k", "ttl=1s&renew=agent");
    const struct reply *lasting = acquire(agent, "lasting", "ttl=30s&renew=agent");
    expect(granted, 201, NULL);
    expect(lasting, 201, NULL);
    agent_signal(agent, SIGSTOP);
    const struct reply *heir = acquire(rival, "k", "ttl=30s&wait=10s");
    expect(heir, 201, NULL);
    agent_signal(agent, SIGCONT);
    cr_assert_not(held_here(agent, "k"));
    const struct reply *lost = renew(agent, "k", token(granted), NULL);
    expect(lost, 410, "lock_lost");
    cr_assert_not_null(string(lost, "reason"));
    expect(renew(agent, "lasting", token(lasting), NULL), 200, NULL);
    sleep_ms(1500);
    cr_assert(held_here(rival, "k"), "the heir's lock was taken from it");
    cr_assert_geq(masters_with("lock:k"), 3u);
    expect(renew(rival, "k", token(heir), NULL), 200, NULL);
}

/* SIGTERM: open requests are answered, nothing is taken on, the exit status is 0, and held locks
 * run out by themselves. */
Test(restart, sigterm_ends_cleanly)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire(agent, "k", "ttl=20s&renew=agent");
    expect(granted, 201, NULL);
    const int waiter = wire_request(agent, "POST", "/locks/k?wait=60s", NULL);
    const int idle = wire_open(agent);
    sleep_ms(200);
    cr_assert(wire_is_silent(waiter));
    cr_assert_eq(agent_stop(agent), 0);
    expect(wire_receive(waiter, PATIENCE_MS), 503, "draining");
    wire_close(waiter);
    wire_close(idle);
    cr_assert_geq(masters_with("lock:k"), 3u, "unreleased: expire");

    struct agent *tidy =
        agent_start(&(struct agent_options){.extra = "shutdown: {unreleased: release}\n"});
    expect(acquire(tidy, "tidy", "ttl=20s&renew=agent"), 201, NULL);
    cr_assert_eq(agent_stop(tidy), 0);
    cr_assert_eq(masters_with("lock:tidy"), 0u, "unreleased: release");

    /* SIGINT (Ctrl-C) is the same, also with every master dead or frozen. */
    struct agent *last = agent_start(NULL);
    expect(acquire(last, "last", "ttl=20s"), 201, NULL);
    for (size_t i = 0; i < 4; i++)
        master_freeze(i);
    master_kill(4);
    agent_signal(last, SIGINT);
    cr_assert_eq(agent_ended(last), 0);
}

/* Until the grace ends a holder can still release, and no caller can acquire; the agent ends as
 * soon as nothing is held. */
Test(restart, a_holder_releases_while_the_agent_drains)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.extra = "shutdown: {grace: 20s}\n"});
    const struct reply *granted = acquire(agent, "k", "ttl=60s");
    expect(granted, 201, NULL);
    agent_signal(agent, SIGTERM);
    cr_assert(eventually(get(agent, "/readyz")->status == 503));
    const struct reply *refused = acquire(agent, "other", "ttl=5s");
    expect(refused, 503, "draining");
    cr_assert_eq(number(refused, "retry_after_ms"), 1000);
    cr_assert_not_null(header(refused, "Retry-After"));
    expect(renew(agent, "k", token(granted), NULL), 200, NULL);
    give_back(agent, "k", token(granted));
    cr_assert_eq(agent_ended(agent), 0);
    cr_assert_eq(masters_with("lock:k") + masters_with("lock:other"), 0u);
}

/* While it drains the agent goes on renewing, and a caller that asks again for its own lock gets
 * its answer (D3): that is no new lock. */
Test(restart, a_draining_agent_keeps_what_is_held)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.extra = "shutdown: {grace: 20s}\n"});
    struct call post = {.method = "POST",
                        .path = "/locks/k?ttl=6s&renew=agent&wait=10s",
                        .headers = {"Idempotency-Key: 0123456789abcdef"}};
    const struct reply *granted = http(agent, &post);
    expect(granted, 201, NULL);
    agent_signal(agent, SIGTERM);
    cr_assert(eventually(get(agent, "/readyz")->status == 503));
    sleep_ms(6500); /* beyond the lease that was granted */
    cr_assert(held_here(agent, "k"), "it was not renewed");
    const struct reply *again = http(agent, &post);
    expect(again, 200, NULL);
    cr_assert_str_eq(token(again), token(granted));
    give_back(agent, "k", token(granted));
    cr_assert_eq(agent_ended(agent), 0);
}

/* D8.2: `release` says that the application has ended, and so no caller comes to release. A caller
 * whose connection is open has not ended. */
Test(restart, d8_what_was_left_behind_is_released_without_a_wait)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(
        &(struct agent_options){.extra = "shutdown: {grace: 100s, unreleased: release}\n"});
    expect(acquire(agent, "left", "ttl=60s"), 201, NULL);
    const int bound = wire_request(agent, "POST", "/locks/bound?ttl=60s&bind=connection", NULL);
    cr_assert(eventually(held_here(agent, "bound")));
    const int64_t before = boottime_ms();
    agent_signal(agent, SIGTERM);
    cr_assert(eventually(get(agent, "/readyz")->status == 503));
    sleep_ms(500);
    cr_assert(held_here(agent, "left") && held_here(agent, "bound"));
    wire_close(bound);
    cr_assert_eq(agent_ended(agent), 0);
    cr_assert_lt(boottime_ms() - before, 60000);
    cr_assert_eq(masters_with("lock:left") + masters_with("lock:bound"), 0u);
}

/* Releases then wait for masters that are away, as long as the grace lasts. */
Test(restart, d8_the_end_waits_for_masters_that_are_away)
{
    masters_start(3, MASTERS_DURABLE);
    struct agent *agent = agent_start(
        &(struct agent_options){.extra = "shutdown: {grace: 60s, unreleased: release}\n"});
    expect(acquire(agent, "left", "ttl=60s"), 201, NULL);
    cr_assert(eventually(masters_with("lock:left") == 3u));
    for (size_t i = 0; i < 3; i++)
        master_kill(i);
    agent_signal(agent, SIGTERM);
    cr_assert(eventually(agent_logged(agent, NULL, "draining") == 1));
    sleep_ms(1000);
    for (size_t i = 0; i < 3; i++)
        master_start(i);
    const int64_t before = boottime_ms();
    cr_assert_eq(agent_ended(agent), 0);
    cr_assert_leq(masters_with("lock:left"), 1u, "a quorum has released it");
    cr_assert_lt(boottime_ms() - before, 30000);
}

/* A second signal means that the sender does not want to wait; held locks run out. */
Test(restart, a_second_signal_ends_it_at_once)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.extra = "shutdown: {grace: 60s}\n"});
    expect(acquire(agent, "k", "ttl=60s"), 201, NULL);
    const int64_t before = boottime_ms();
    agent_signal(agent, SIGTERM);
    cr_assert(eventually(get(agent, "/readyz")->status == 503));
    agent_signal(agent, SIGTERM);
    cr_assert_eq(agent_ended(agent), 128 + SIGTERM);
    cr_assert_lt(boottime_ms() - before, 30000);
    cr_assert_geq(masters_with("lock:k"), 3u);
}

/* Events that need no attention are no warnings: a guard that is found at the start, a lease that
 * its caller lets run out, and a clean end. */
Test(restart, what_is_expected_is_no_warning)
{
    masters_start(3, MASTERS_FORGETFUL);
    master_do(0, "FLUSHALL");
    struct agent *agent = agent_start(&(struct agent_options){.group = "      durable: false\n",
                                                              .extra = "limits: {max_ttl: 2s}\n"});
    cr_assert_geq(agent_logged(agent, "master state changed", "\"state\":\"guarded\""), 1u);
    acquire_free(agent, "k", "ttl=1s");
    cr_assert(eventually(agent_logged(agent, "lock lost", "\"reason\":\"expired\"") == 1));
    cr_assert_eq(agent_stop(agent), 0);
    cr_assert_eq(agent_logged(agent, "master state changed", "\"reason\":\"stopping\""), 3u);
    /* On a busy machine the agent may have been late, and that is a warning. */
    cr_assert_eq(agent_logged(agent, NULL, "\"level\":\"warn\""),
                 agent_logged(agent, "process was stopped or late", NULL), "%s",
                 read_whole_file(agent->log));
}

/* A failure while the agent runs is a warning. */
Test(restart, a_master_that_comes_back_guarded_is_a_warning)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.group = "      durable: false\n",
                                                              .extra = "limits: {max_ttl: 2s}\n"});
    master_kill(0);
    cr_assert(eventually(agent_logged(agent, "master state changed", "\"state\":\"down\"") >= 1));
    cr_assert_geq(agent_logged(agent, "master state changed", "\"level\":\"warn\""), 1u);
    master_start(0);
    const char *guarded = "\"state\":\"guarded\"";
    cr_assert(eventually(agent_logged(agent, "master state changed", guarded) > 0));
    cr_assert_not_null(strstr(agent_log_line(agent, "master state changed", guarded), "\"warn\""));
}
