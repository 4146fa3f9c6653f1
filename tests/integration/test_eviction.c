/* Masters that may evict keys: they have no vote on new locks (D5.4). */
#include "harness.h"

#include <string.h>

TestSuite(eviction, .init = world_open, .fini = world_close);

static void may_evict(size_t master)
{
    master_do(master, "CONFIG SET maxmemory 100mb");
    master_do(master, "CONFIG SET maxmemory-policy volatile-ttl");
}

static double voting(const struct agent *agent)
{
    return metric(agent, "lockagent_group_masters_voting{group=\"main\"}");
}

static const char *ready_says(const struct agent *agent)
{
    return get(agent, "/readyz")->body;
}

/* No caller is told of a lock that the masters may throw away before its lease is over. */
Test(eviction, d5_4_masters_that_may_evict_have_no_vote_on_new_locks)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "held", "ttl=30s");
    may_evict(0), may_evict(1);
    cr_assert(eventually_within(6000, voting(agent) == 1));
    const struct reply *refused = acquire(agent, "k", "ttl=20s");
    expect(refused, 503, "quorum_unavailable");
    cr_assert_not_null(strstr(refused->body, master_url(0)), "%s", refused->body);
    cr_assert_not_null(strstr(refused->body, "maxmemory-policy volatile-ttl"), "%s", refused->body);
    cr_assert(eventually(masters_with("lock:k") == 0), "it is not undone");
    cr_assert_eq(get(agent, "/readyz")->status, 503);
    cr_assert_not_null(strstr(ready_says(agent), "may evict keys"), "%s", ready_says(agent));
    cr_assert_not_null(strstr(get(agent, "/")->body, "may evict keys"));
    cr_assert_geq(agent_logged(agent, "master state changed", "may evict keys"), 2u);

    master_do(1, "DEL lock:held"); /* held locks go on: they are renewed, repaired, released */
    expect(renew(agent, "held", token(granted), "ttl=30s"), 200, NULL);
    master_do(0, "CONFIG SET maxmemory-policy noeviction");
    master_do(1, "CONFIG SET maxmemory 0"); /* with any policy */
    cr_assert(eventually_within(6000, voting(agent) == 3));
    acquire_free(agent, "k", "ttl=20s");
    may_evict(0), may_evict(1);
    cr_assert(eventually_within(6000, voting(agent) == 1));
    const int waiter = wire_request(agent, "POST", "/locks/held?ttl=20s&wait=20s", NULL);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 1));
    give_back(agent, "held", token(granted));
    const struct reply *next = wire_receive(waiter, PATIENCE_MS); /* it is handed on */
    expect(next, 201, NULL);
    cr_assert(eventually(masters_with("lock:held") == 3)); /* a quorum was enough for each */
    give_back(agent, "held", token(next));
    cr_assert(eventually(masters_with("lock:held") == 0));
    wire_close(waiter);
}

/* The opt-out: it is a fault that is shown, and nothing more. */
Test(eviction, d5_4_eviction_allow_uses_them_all_the_same)
{
    masters_start(3, MASTERS_FORGETFUL);
    may_evict(0), may_evict(1), may_evict(2);
    struct agent *allows = agent_start(&(struct agent_options){.group = "      durable: true\n"
                                                                        "      eviction: allow\n"}),
                 *refuses = agent_start(&(struct agent_options){.not_ready = true});
    acquire_free(allows, "k", "ttl=20s");
    cr_assert(eventually(masters_with("lock:k") == 3));
    cr_assert_eq(get(allows, "/readyz")->status, 200);
    cr_assert_not_null(strstr(ready_says(allows), "may evict keys"), "%s", ready_says(allows));
    cr_assert(eventually(strstr(ready_says(refuses), "may evict keys") != NULL));
    expect(acquire(refuses, "other", "ttl=20s"), 503, "quorum_unavailable");
    cr_assert(eventually(masters_with("lock:other") == 0), "it is not undone");
}

/* One of three has no vote, which changes nothing else. Its key comes with the first renewal. */
Test(eviction, d5_4_a_quorum_of_others_grants)
{
    masters_start(3, MASTERS_FORGETFUL);
    may_evict(2);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire(agent, "k", "ttl=20s");
    cr_assert_eq(masters_with("lock:k"), 2);
    expect(renew(agent, "k", token(granted), "ttl=20s"), 200, NULL);
    cr_assert(eventually(masters_with("lock:k") == 3));
}

/* A fault is a warning also if the master is guarded meanwhile, and also under `lockagent run`. */
Test(eviction, d5_4_is_a_warning_on_guarded_masters_and_under_run)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    for (size_t i = 0; i < 3; i++)
        may_evict(i);
    const struct agent_options options = {.not_ready = true, .group = "      durable: false\n"};
    struct agent *agent = agent_start(&options);
    const char *message = "master state changed";
    cr_assert(eventually(agent_logged(agent, message, "may evict keys") >= 3));
    const char *line = agent_log_line(agent, message, "may evict keys");
    cr_assert_not_null(strstr(line, "\"state\":\"guarded\""), "%s", line);
    cr_assert_not_null(strstr(line, "\"level\":\"warn\""), "%s", line);
    const struct outcome outcome = agent_run((const char *const[]){
        "run", "-c", agent_config(&options), "--wait", "1s", "k", "--", "true", NULL});
    cr_assert_neq(outcome.exit_status, 0);
    cr_assert_not_null(strstr(outcome.err, "master state changed"), "%s", outcome.err);
    cr_assert_not_null(strstr(outcome.err, "may evict keys"), "%s", outcome.err);
}
