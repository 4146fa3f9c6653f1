/* Answers the questions of the other rooms: quorums, the core's view, and secrets. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/file.h"
#include "agent/core/core_assert.h"

/* ---- quorums ---- */

bool config_policy_uses(const struct config *config, size_t policy, size_t group)
{
    const struct core_policy *core = &config->policies[policy].core;
    return memchr(core->groups, (int)group, core->group_count) != NULL;
}

bool config_group_has_layout(const struct config *config, size_t group)
{
    bool is_used = false;
    for (size_t i = 0; i < config->policy_count; i++)
        is_used |= config_policy_uses(config, i, group);
    return is_used && config->groups[group].guard;
}

size_t config_group_quorum(const struct config *config, size_t group)
{
    size_t all = config->groups[group].master_count, least = all;
    for (size_t i = 0; i < config->policy_count; i++)
        if (config->policies[i].core.algorithm == ALGORITHM_REDLOCK &&
            config_policy_uses(config, i, group))
            least = all / 2 + 1;
    return least;
}

bool config_group_is_even(const struct config *config, size_t group)
{
    bool decides = false; /* A majority of the group decides some key. */
    for (size_t i = 0; i < config->policy_count; i++)
        decides |= config->policies[i].core.algorithm == ALGORITHM_REDLOCK &&
                   config_policy_uses(config, i, group);
    return decides && config->groups[group].master_count % 2 == 0;
}

/* ---- the core's view ---- */

void config_for_core(const struct config *config, uint64_t seed, struct core_group *groups,
                     struct core_policy *policies, const char **names, struct core_config *ret_core)
{
    for (size_t i = 0; i < config->group_count; i++) {
        const struct config_group *group = &config->groups[i];
        groups[i] = (struct core_group){.masters = (uint8_t)group->master_count,
                                        .node_timeout_ms = group->node_timeout_ms,
                                        .drift_ppm = group->drift_ppm};
        names[i] = group->name;
    }
    for (size_t i = 0; i < config->policy_count; i++)
        policies[i] = config->policies[i].core;
    *ret_core = (struct core_config){
        .groups = groups,
        .group_count = config->group_count,
        .group_names = names,
        .policies = policies,
        .policy_count = config->policy_count,
        .max_ttl_ms = config->max_ttl_ms,
        .wait_ms_max = config->wait_ms_max,
        .journal = config->journal_file[0] != '\0',
        .locks_max = config->locks_max,
        .requests_max = config_requests_max(config),
        .waiters_max = config->waiters_max,
        .rounds_min = ROUNDS_MIN,
        .rounds_first = ROUNDS_FIRST,
        .rounds_max = LIMIT_ROUNDS,
        .seed = seed,
    };
}

uint32_t config_requests_max(const struct config *config)
{
    size_t listeners = config->listen.count > 0 ? config->listen.count : 1,
           most = config->connections_max * listeners;
    return most < LIMIT_REQUESTS ? (uint32_t)most : LIMIT_REQUESTS;
}

/* ---- secrets ---- */

int config_read_secret(const char *path, char *secret, size_t size)
{
    CORE_ASSERT(size > 0);
    /* The loop must not hang on a pipe without a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    char beyond;
    ssize_t len = file_read(fd, secret, size);
    ssize_t more = len == (ssize_t)size ? file_read(fd, &beyond, 1) : 0;
    int error = len < 0 || more < 0 ? errno : 0;
    close(fd);
    if (!error && len > 0 && more == 0 && secret[len - 1] == '\n')
        len -= len > 1 && secret[len - 2] == '\r' ? 2 : 1;
    if (!error && (more > 0 || len == (ssize_t)size))
        error = EFBIG;
    if (!error && memchr(secret, '\0', (size_t)len) != NULL)
        error = EILSEQ; /* The rest of the secret would be cut off. */
    if (error) {
        explicit_bzero(secret, size);
        errno = error;
        return -1;
    }
    secret[len] = '\0';
    return (int)len;
}

const char *config_secret_fault(int error)
{
    return error == EILSEQ  ? "it holds a NUL byte"
           : error == EFBIG ? "it is too long"
                            : strerror(error);
}
