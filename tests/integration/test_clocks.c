/* Clocks that are off (D5.4): a constant offset harms nobody, so it is told and no master is done
 * without for it. Where most masters agree, it is this agent's clock that is off. */
#include "harness.h"

#include <string.h>

TestSuite(clocks, .init = world_open, .fini = world_close, .timeout = 60);

enum { OFF_MS = 5000, PROBED_MS = 10000 };

static double degraded(struct agent *agent, size_t master)
{
    const char *url = master_url(master),
               *place = strstr(url, "//") ? strstr(url, "//") + 2 : strchr(url, ':') + 1;
    return metric(agent, format("lockagent_master_degraded{group=\"main\",master=\"%s\"}", place));
}

static double own_offset(struct agent *agent)
{
    return metric(agent, "lockagent_agent_clock_offset_seconds{group=\"main\"}");
}

static struct agent *strict_agent(void)
{
    return agent_start(
        &(struct agent_options){.group = "      durable: true\n      on_degraded: down\n"});
}

Test(clocks, d5_4_a_master_whose_clock_is_off_is_degraded_and_never_down)
{
    masters_start_with_clocks(3);
    struct agent *agent = strict_agent();
    for (int sign = -1; sign <= 1; sign += 2) {
        master_clock(1, sign * OFF_MS);
        cr_assert(eventually_within(PROBED_MS, degraded(agent, 1) == 1));
        cr_assert(degraded(agent, 0) == 0 && degraded(agent, 2) == 0);
        cr_assert_eq(own_offset(agent), 0);
        cr_assert_geq(agent_logged(agent, "master", "clock is off"), 1u);
        cr_assert_not_null(strstr(get(agent, "/readyz")->body, "clock is off"), "%s",
                           get(agent, "/readyz")->body);
        cr_assert_not_null(strstr(get(agent, "/")->body, "clock is off"));
        cr_assert_eq(metric(agent, "lockagent_group_masters_up{group=\"main\"}"), 3);
        const struct reply *granted = acquire(agent, "k", "ttl=20s");
        expect(granted, 201, NULL);
        cr_assert(eventually(masters_with("lock:k") == 3),
                  "a master was done without for its clock");
        expect(release(agent, "k", token(granted)), 204, NULL);
        master_clock(1, 0);
        cr_assert(eventually_within(PROBED_MS, degraded(agent, 1) == 0));
    }
}

Test(clocks, d5_4_where_most_masters_agree_this_agent_is_off)
{
    masters_start_with_clocks(3);
    struct agent *agent = strict_agent();
    for (size_t i = 0; i < 3; i++)
        master_clock(i, OFF_MS);
    cr_assert(eventually_within(PROBED_MS, own_offset(agent) > 4));
    cr_assert(own_offset(agent) < 6);
    cr_assert(eventually_within(PROBED_MS,
                                degraded(agent, 0) + degraded(agent, 1) + degraded(agent, 2) == 0));
    cr_assert_geq(
        agent_logged(agent, "this agent's clock is off from most masters'", "\"group\":\"main\""),
        1u);
    expect(acquire(agent, "k", "ttl=20s"), 201, NULL);
    /* One that is right is then the odd one out. */
    master_clock(2, 0);
    cr_assert(eventually_within(PROBED_MS, degraded(agent, 2) == 1));
    cr_assert(own_offset(agent) > 4);
    for (size_t i = 0; i < 3; i++)
        master_clock(i, 0);
    cr_assert(eventually_within(PROBED_MS, own_offset(agent) == 0));
    cr_assert_eq(agent_logged(agent, "this agent's clock agrees with most masters' again", NULL),
                 1u);
}
