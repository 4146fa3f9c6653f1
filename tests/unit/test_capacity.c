/* The capacity of masters: the sum of the parts, the number of groups, and when pods share
 * agents. */
#include <criterion/criterion.h>

#include "agent/capacity/capacity.h"
#include "agent/capacity/costs.h"

static const double costs[] = {
#define VALUE(name, value, unit, meaning) [CAPACITY_##name] = (value),
    CAPACITY_COSTS(VALUE)
#undef VALUE
};

/* Returns the load of one pod that does nothing, on masters of which all may be used. */
static struct capacity_load nothing(void)
{
    return (struct capacity_load){.pods = 1,
                                  .pods_per_node = 30,
                                  .ttl_ms = 30000,
                                  .core_share = 1,
                                  .memory_bytes = 1e9,
                                  .connections = 10000};
}

#define expect_near(got, wanted)                                                                   \
    cr_assert((got) > (wanted)*0.999999 && (got) < (wanted)*1.000001 + 1e-9, "%g, not %g",         \
              (double)(got), (double)(wanted))

Test(capacity, who_does_nothing_costs_a_connection)
{
    struct capacity_load load = nothing();
    struct capacity_plan plan = capacity_reckon(&load);
    cr_assert_eq(plan.advice, CAPACITY_ONE_PER_POD);
    cr_assert_eq(plan.groups, 1);
    cr_assert_eq(plan.use.connections, 1);
    expect_near(plan.use.core_share, costs[CAPACITY_AGENT_US] / 1e6);
    expect_near(plan.use.memory_bytes, costs[CAPACITY_CONNECTION_BYTES]);
}

Test(capacity, each_part_by_its_cost)
{
    struct capacity_load load = nothing();
    load.pods = 10;
    load.rate = 2, load.holds = 3, load.refused = 4, load.reads = 5, load.waiters = 6;
    struct capacity_use use = capacity_reckon(&load).use;
    expect_near(use.locks_us, 20 * (costs[CAPACITY_ACQUIRE_US] + costs[CAPACITY_RELEASE_US]));
    expect_near(use.renewals_us,
                30 * costs[CAPACITY_RENEWALS_A_TTL] / 30 * costs[CAPACITY_RENEWAL_US]);
    expect_near(use.refused_us, 40 * costs[CAPACITY_REFUSAL_US]);
    expect_near(use.reads_us, 50 * costs[CAPACITY_READ_US]);
    expect_near(use.waiters_us, 60 * costs[CAPACITY_WAITER_US]);
    expect_near(use.agents_us, 10 * costs[CAPACITY_AGENT_US]);
    expect_near(use.core_share, (use.locks_us + use.renewals_us + use.refused_us + use.reads_us +
                                 use.waiters_us + use.agents_us) /
                                    1e6);
    expect_near(use.lock_bytes, 30 * costs[CAPACITY_LOCK_BYTES]);
    expect_near(use.number_bytes, 16384 * costs[CAPACITY_BUCKET_BYTES]);
    expect_near(use.ticket_bytes, 60 * costs[CAPACITY_TICKET_BYTES]);
    cr_assert_eq(use.connections, 20, "waiters receive messages on a second one");
    expect_near(use.memory_bytes, use.lock_bytes + use.number_bytes + use.ticket_bytes +
                                      20 * costs[CAPACITY_CONNECTION_BYTES]);
}

/* R12: a key has one of 16,384 buckets, whether it is held or was held once. */
Test(capacity, r12_numbers_are_of_different_keys_and_at_most_of_all_buckets)
{
    static const double keys[] = {1, 100, 16383, 16384, 16385, 1e12, 0};
    for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        for (unsigned held = 0; held < 2; held++) {
            struct capacity_load load = nothing();
            load.rate = held ? 0 : 10;
            load.holds = held;
            load.keys = keys[i];
            double buckets = keys[i] > 0 && keys[i] < 16384 ? keys[i] : 16384;
            expect_near(capacity_reckon(&load).use.number_bytes,
                        buckets * costs[CAPACITY_BUCKET_BYTES]);
        }
    }
    struct capacity_load load = nothing();
    load.keys = 100;
    load.reads = 5, load.refused = 5;
    cr_assert_eq(capacity_reckon(&load).use.number_bytes, 0, "no lock is ever taken");
}

/* Returns each group's share of the core if there are so many groups. */
static double share_of_core(const struct capacity_plan *plan, double groups)
{
    double agents = plan->use.agents_us / 1e6;
    return agents + (plan->use.core_share - agents) / groups;
}

static double share_of_memory(const struct capacity_plan *plan, double groups)
{
    double agents = plan->use.connection_bytes;
    return agents + (plan->use.memory_bytes - agents) / groups;
}

Test(capacity, as_many_groups_as_carry_it_and_no_more)
{
    unsigned several = 0;
    for (unsigned i = 1; i < 6000; i += 37) {
        double pods = i;
        struct capacity_load load = nothing();
        load.pods = pods;
        load.rate = 20;
        load.keys = 1e6;
        struct capacity_plan plan = capacity_reckon(&load);
        if (plan.advice == CAPACITY_TOO_MANY)
            continue;
        cr_assert_leq(share_of_core(&plan, plan.groups), load.core_share * 1.000001);
        cr_assert_leq(share_of_memory(&plan, plan.groups), load.memory_bytes * 1.000001);
        if (plan.groups == 1)
            continue;
        several++;
        cr_assert(share_of_core(&plan, plan.groups - 1) > load.core_share ||
                      share_of_memory(&plan, plan.groups - 1) > load.memory_bytes,
                  "%g pods: %g groups are too many", pods, plan.groups);
    }
    cr_assert_gt(several, 10u);
}

Test(capacity, memory_alone_asks_for_groups)
{
    struct capacity_load load = nothing();
    load.pods = 1000;
    load.holds = 10000;
    load.ttl_ms = 3600000;
    struct capacity_plan plan = capacity_reckon(&load);
    cr_assert_gt(plan.groups, 1);
    cr_assert_lt(plan.use.core_share, load.core_share, "a core would carry all of it");
    load.holds = 1000;
    cr_assert_eq(capacity_reckon(&load).groups, 1);
}

/* More groups do not help: each agent is connected to all masters. */
Test(capacity, agents_are_shared_where_they_are_too_many)
{
    struct capacity_load load = nothing();
    load.connections = 100;
    load.pods = 100;
    cr_assert_eq(capacity_reckon(&load).advice, CAPACITY_ONE_PER_POD);
    load.pods = 101;
    struct capacity_plan plan = capacity_reckon(&load);
    cr_assert_eq(plan.advice, CAPACITY_ONE_PER_NODE);
    cr_assert_eq(plan.use.agents, 4, "101 pods are on four nodes of 30");
    cr_assert_eq(plan.use.connections, 4);
    cr_assert_eq(plan.agents_max, 100);
    load.pods = 30 * 100;
    cr_assert_eq(capacity_reckon(&load).advice, CAPACITY_ONE_PER_NODE);
    load.pods++;
    plan = capacity_reckon(&load);
    cr_assert_eq(plan.advice, CAPACITY_TOO_MANY);
    cr_assert_eq(plan.groups, 0);
}

Test(capacity, agents_leave_half_of_core_and_memory_to_locks)
{
    struct capacity_load load = nothing();
    load.connections = 1e6;
    load.memory_bytes = 1e12;
    load.pods = (double)(long)(0.5 * 1e6 / costs[CAPACITY_AGENT_US]);
    cr_assert_eq(capacity_reckon(&load).advice, CAPACITY_ONE_PER_POD);
    load.pods++;
    cr_assert_eq(capacity_reckon(&load).advice, CAPACITY_ONE_PER_NODE);
    load.pods = 1000;
    load.memory_bytes = 2 * 1000 * costs[CAPACITY_CONNECTION_BYTES];
    cr_assert_eq(capacity_reckon(&load).advice, CAPACITY_ONE_PER_POD);
    load.memory_bytes -= 1;
    cr_assert_eq(capacity_reckon(&load).advice, CAPACITY_ONE_PER_NODE);
}
