/* Keys spread over groups. Agents do not: each is connected to every master, and asks it for its
 * marker and its health. So agents decide between one per pod and one per node, and keys decide how
 * many groups there are. */
#include "agent/capacity/capacity.h"

#include <math.h>
#include <stddef.h>

#include "agent/capacity/costs.h"
#include "agent/core/limits.h"

enum {
    CONNECTIONS_ALONE = 1,   /* Connections of an agent to a master. */
    CONNECTIONS_WAITING = 2, /* One more, for the messages of releases (R9). */
};

static const double us_per_s = 1e6, ms_per_s = 1e3;

/* The share of a master's allowed use that connected agents may take. The rest is for locks. */
static const double agents_share_max = 0.5;

static const struct {
    double value;
    const char *unit, *meaning;
} costs[] = {
#define CAPACITY_COST_ROW(name, value, unit, meaning) [CAPACITY_##name] = {(value), unit, meaning},
    CAPACITY_COSTS(CAPACITY_COST_ROW)
#undef CAPACITY_COST_ROW
};

static double cost(double count, enum capacity_cost each)
{
    return count * costs[each].value;
}

static double connections_each(const struct capacity_load *load)
{
    return load->waiters > 0 ? CONNECTIONS_WAITING : CONNECTIONS_ALONE;
}

static struct capacity_use use_with(const struct capacity_load *load, double agents)
{
    struct capacity_use use = {.agents = agents};
    double held = load->pods * load->holds, locks = load->pods * load->rate,
           waiters = load->pods * load->waiters;
    double renewals = cost(held, CAPACITY_RENEWALS_A_TTL) * ms_per_s / load->ttl_ms;
    use.locks_us = cost(locks, CAPACITY_ACQUIRE_US) + cost(locks, CAPACITY_RELEASE_US);
    use.renewals_us = cost(renewals, CAPACITY_RENEWAL_US);
    use.refused_us = cost(load->pods * load->refused, CAPACITY_REFUSAL_US);
    use.reads_us = cost(load->pods * load->reads, CAPACITY_READ_US);
    use.waiters_us = cost(waiters, CAPACITY_WAITER_US);
    use.agents_us = cost(agents, CAPACITY_AGENT_US);
    use.core_share = (use.locks_us + use.renewals_us + use.refused_us + use.reads_us +
                      use.waiters_us + use.agents_us) /
                     us_per_s;
    use.connections = agents * connections_each(load);
    use.lock_bytes = cost(held, CAPACITY_LOCK_BYTES);
    double names = held + locks == 0 ? 0 : load->keys > 0 ? load->keys : (double)INFINITY;
    use.number_bytes = cost(fmin(names, NUMBER_BUCKETS), CAPACITY_BUCKET_BYTES); /* R12 */
    use.ticket_bytes = cost(waiters, CAPACITY_TICKET_BYTES);
    use.connection_bytes = cost(use.connections, CAPACITY_CONNECTION_BYTES);
    use.memory_bytes = use.lock_bytes + use.number_bytes + use.ticket_bytes + use.connection_bytes;
    return use;
}

/* Returns how many agents may be connected. */
static double agents_max_of(const struct capacity_load *load)
{
    double each = connections_each(load);
    double by_core =
        load->core_share * agents_share_max * us_per_s / costs[CAPACITY_AGENT_US].value;
    double by_memory =
        load->memory_bytes * agents_share_max / cost(each, CAPACITY_CONNECTION_BYTES);
    return floor(fmin(load->connections / each, fmin(by_core, by_memory)));
}

struct capacity_plan capacity_reckon(const struct capacity_load *load)
{
    struct capacity_plan plan = {.agents_max = agents_max_of(load)};
    double agents = load->pods;
    if (agents > plan.agents_max) {
        agents = ceil(load->pods / load->pods_per_node);
        plan.advice = agents > plan.agents_max ? CAPACITY_TOO_MANY : CAPACITY_ONE_PER_NODE;
    }
    plan.use = use_with(load, agents);
    if (plan.advice == CAPACITY_TOO_MANY)
        return plan;
    /* The load of the keys, divided by the use of each master that agents leave free. */
    const struct capacity_use *use = &plan.use;
    double agents_share = use->agents_us / us_per_s;
    double by_core = (use->core_share - agents_share) / (load->core_share - agents_share);
    double by_memory =
        (use->memory_bytes - use->connection_bytes) / (load->memory_bytes - use->connection_bytes);
    plan.groups = fmax(1, ceil(fmax(by_core, by_memory)));
    return plan;
}

void capacity_print_markdown(FILE *out)
{
    fputs("| what | costs each master |\n| --- | --- |\n", out);
    for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
        fprintf(out, "| %s | %g %s |\n", costs[i].meaning, costs[i].value, costs[i].unit);
}
