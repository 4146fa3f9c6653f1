/* How many masters of a group are enough. */
#include "config/config.h"

static bool names_group(const struct core_policy *policy, size_t group)
{
    for (size_t i = 0; i < policy->group_count; i++) {
        if (policy->groups[i] == group)
            return true;
    }
    return false;
}

size_t config_group_quorum(const struct config *config, size_t group)
{
    size_t all = config->groups[group].master_count, least = all;
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct core_policy *policy = &config->policies[i].core;
        if (policy->algorithm == ALGORITHM_REDLOCK && names_group(policy, group))
            least = all / 2 + 1;
    }
    return least;
}
