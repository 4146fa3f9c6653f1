/* The watchdog: holds as long as it should, and no longer (R7, R8, max_hold). */
#include "harness.h"

#include <string.h>

TestSuite(watchdog, .init = world_open, .fini = world_close, .timeout = 90);

/* A 6 s lease, held for 20 s by the agent alone: at no moment may the key be free or the hold be
 * invalid. */
Test(watchdog, holds_a_short_lease_for_long)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *rival = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "k", "ttl=6s&renew=agent");
    cr_assert(eventually(masters_with("lock:k") == 5));
    const int64_t until = boottime_ms() + 20000;
    while (boottime_ms() < until) {
        const struct reply *refused = expect_lock_held(rival, "k", "ttl=2s");
        cr_assert_leq(number(refused, "retry_after_ms"), 6000);
        cr_assert(held_here(agent, "k"), "%s", get(agent, "/locks/k")->body);
        sleep_ms(200);
    }
    /* The number stays; the lease was extended, not taken anew. */
    const struct reply *renewed = renew(agent, "k", token(granted), NULL);
    expect(renewed, 200, NULL);
    cr_assert_str_eq(token(renewed), token(granted));
    /* With the agent dead there are no renewals: the key is free after one ttl. */
    agent_kill(agent);
    const struct reply *heir = acquire(rival, "k", "ttl=2s&wait=20s");
    expect(heir, 201, NULL);
    cr_assert_gt(number(heir, "fencing_token"), number(granted, "fencing_token"));
}

/* A watchdog must never outlive its caller forever. */
Test(watchdog, max_hold_ends_it)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *rival = agent_start(NULL);
    const int64_t before = boottime_ms();
    const struct reply *granted = acquire(agent, "k", "ttl=2s&renew=agent&max_hold=2500ms");
    expect(granted, 201, NULL);
    cr_assert_eq(number(granted, "max_hold_ms"), 2500);
    const struct reply *heir = acquire(rival, "k", "ttl=20s&wait=10s");
    const int64_t taken_after = boottime_ms() - before;
    expect(heir, 201, NULL);
    cr_assert_geq(taken_after, 2000, "ended early: after %lld ms", (long long)taken_after);
    const struct reply *lost = renew(agent, "k", token(granted), NULL);
    expect(lost, 410, "lock_lost");
    cr_assert_str_eq(string(lost, "reason"), "max_hold");
    cr_assert_not(held_here(agent, "k"));
    cr_assert(eventually(agent_logged(agent, NULL, "max_hold") > 0));

    /* max_hold also clips the promise of a grant or a PUT. */
    const struct reply *clipped = acquire(agent, "clipped", "ttl=20s&max_hold=2s");
    expect(clipped, 201, NULL);
    cr_assert_leq(number(clipped, "valid_for_ms"), 2000);
    clipped = renew(agent, "clipped", token(clipped), "ttl=30s");
    expect(clipped, 200, NULL);
    cr_assert_leq(number(clipped, "valid_for_ms"), 2000);
    cr_assert(eventually_within(4000, !held_here(agent, "clipped")));
}

/* Many locks are renewed in shared calls: all of them live, and all end when they are released. */
Test(watchdog, renews_many)
{
    enum { LOCKS = 120 };
    const char *tokens[LOCKS];
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    for (int i = 0; i < LOCKS; i++) {
        const char *key = format("many/%d", i);
        tokens[i] = token(acquire_free(agent, key, "ttl=6s&renew=agent"));
    }
    sleep_ms(7000); /* beyond the leases that were granted */
    for (int i = 0; i < LOCKS; i++) {
        cr_assert_geq(masters_with(format("lock:many/%d", i)), 3u, "lock %d", i);
        give_back(agent, format("many/%d", i), tokens[i]);
    }
    for (int i = 0; i < LOCKS; i++)
        cr_assert(eventually(masters_with(format("lock:many/%d", i)) == 0));
}

/* ---- the log of an outage ---- */

enum { LOGGED_HOLDS = 200 };

static void hold_many(const struct agent *agent, const char *ttl)
{
    for (size_t i = 0; i < LOGGED_HOLDS; i++)
        acquire_free(agent, format("k%zu", i), format("ttl=%s&renew=agent", ttl));
}

/* Returns how many holds were lost because no quorum replied. An agent that was late itself says
 * `stalled` of these, and logs that it was late. */
static size_t lost_with_the_quorum(const struct agent *agent)
{
    const bool was_late = agent_logged(agent, "process was stopped or late", NULL) > 0;
    return agent_logged(agent, "lock lost", "\"reason\":\"quorum_lost\"") +
           (was_late ? agent_logged(agent, "lock lost", "\"reason\":\"stalled\"") : 0);
}

static void expect_quorum_line(const struct agent *agent, const char *message, const char *up)
{
    cr_assert(eventually(agent_logged(agent, message, NULL) == 1), "%s", message);
    const char *line = agent_log_line(agent, message, NULL);
    cr_assert(strstr(line, "\"group\":\"main\"") && strstr(line, up) &&
                  strstr(line, "\"quorum\":2") && strstr(line, "\"masters\":3"),
              "%s", line);
}

/* One line tells that the group lost its quorum. Each hold has one line when its renewal first
 * fails and one when it is lost, however often it fails in between. */
Test(watchdog, a_lost_quorum_and_lost_holds_are_logged_once)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    hold_many(agent, "4s");
    cr_assert_eq(agent_logged(agent, "group lost its quorum", NULL), 0u);
    master_freeze(0);
    master_freeze(1);
    expect_quorum_line(agent, "group lost its quorum", "\"masters_up\":1");
    cr_assert(eventually(lost_with_the_quorum(agent) == LOGGED_HOLDS));
    const double failed =
        metric(agent, "lockagent_renewals_total{policy=\"*\",outcome=\"failed\"}");
    cr_assert_gt(failed, 2 * LOGGED_HOLDS);
    cr_assert_eq(agent_logged(agent, "renewal failed", NULL), LOGGED_HOLDS);
    cr_assert_eq(agent_logged(agent, "renewal succeeded again", NULL), 0u);
    master_thaw(0);
    expect_quorum_line(agent, "group has its quorum again", "\"masters_up\":2");
    master_thaw(1);
    cr_assert_eq(agent_stop(agent), 0);
    cr_assert_eq(agent_logged(agent, "group lost its quorum", NULL), 1u); /* Its end is none. */
}

/* Holds that are kept have one line when their renewal first fails, and one when it succeeds. */
Test(watchdog, renewals_that_succeed_again_are_logged_once)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const char *const series = "lockagent_renewals_total{policy=\"*\",outcome=\"failed\"}";
    hold_many(agent, "20s");
    master_freeze(0);
    master_freeze(1);
    cr_assert(eventually(agent_logged(agent, "renewal failed", NULL) == LOGGED_HOLDS &&
                         metric(agent, series) > 2 * LOGGED_HOLDS));
    master_thaw(0);
    master_thaw(1);
    cr_assert(eventually(agent_logged(agent, "renewal succeeded again", NULL) == LOGGED_HOLDS));
    cr_assert_eq(agent_logged(agent, "renewal failed", NULL), LOGGED_HOLDS);
    cr_assert_eq(agent_logged(agent, "lock lost", NULL), 0u);
    expect_quorum_line(agent, "group has its quorum again", "\"masters_up\":");
}
