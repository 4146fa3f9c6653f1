/* What the rest of the agent asks of a configuration: whether it can be swapped in, the core's view, and secrets. */
#include "config/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "config/load.h"
#include "config/values.h"

/* ---- reload ---- */

struct comparison {
    const struct config *running, *next;
    struct config_report report;
};

static void report_changed(struct comparison *comparison, const char *path, const char *what)
{
    config_report_add(&comparison->report, (struct config_place){0}, path, "%s; that needs a restart", what);
}

static void compare_key(struct comparison *comparison, const struct config_key *key, size_t index)
{
    char path[CONFIG_PATH];
    if (config_key_is_section(key) || key->flags & KEY_RELOADABLE)
        return;
    /* `group` and `groups` are two spellings of one field: spoken of once, under the one that fits. */
    if (key->type == TYPE_GROUPS && (key->max == 1) != (comparison->next->policies[index].core.group_count == 1))
        return;
    if (!config_value_same(key, comparison->running, comparison->next, index))
        report_changed(comparison, config_key_path(key, comparison->next, index, path), "has changed");
}

static void compare_scope(struct comparison *comparison, enum config_scope scope, size_t index)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_key_scope(&config_keys[i]) == scope)
            compare_key(comparison, &config_keys[i], index);
}

static void report_missing_groups(struct comparison *comparison, const struct config *in, const struct config *other,
                                  const char *what)
{
    const struct config_key *key = config_key_find("redis.groups.<name>");
    char path[CONFIG_PATH];
    for (size_t i = 0; i < in->group_count; i++)
        if (config_group_find(other, in->groups[i].name) < 0)
            report_changed(comparison, config_key_path(key, in, i, path), what);
}

/* Groups are known by their number everywhere, so the order counts as well. */
static void compare_groups(struct comparison *comparison)
{
    const struct config *running = comparison->running, *next = comparison->next;
    report_missing_groups(comparison, running, next, "has been removed");
    report_missing_groups(comparison, next, running, "has been added");
    if (comparison->report.errors->count > 0 || running->group_count != next->group_count)
        return;
    for (size_t i = 0; i < next->group_count; i++) {
        if (strcmp(running->groups[i].name, next->groups[i].name) != 0) {
            report_changed(comparison, "redis.groups", "the order of the groups has changed");
            return;
        }
        compare_scope(comparison, SCOPE_GROUP, i);
    }
}

bool config_reloadable(const struct config *running, const struct config *next, const char *path,
                       struct config_errors *ret_errors)
{
    struct comparison comparison = {running, next, {path, ret_errors}};
    memset(ret_errors, 0, sizeof(*ret_errors));
    compare_groups(&comparison);
    compare_scope(&comparison, SCOPE_AGENT, 0);
    if (running->policy_count != next->policy_count)
        report_changed(&comparison, "policies", "their number has changed");
    else
        for (size_t i = 0; i < next->policy_count; i++)
            compare_scope(&comparison, SCOPE_POLICY, i);
    return ret_errors->count == 0;
}

/* ---- secrets ---- */

/* Fills `bytes` as far as the file goes; -1 with errno set. */
static ssize_t read_up_to(int fd, char *bytes, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(fd, bytes + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    return (ssize_t)len;
}

int config_read_secret(const char *path, char *secret, size_t size)
{
    assert(size > 0);
    /* The loop must not hang on a pipe that nobody writes to. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    char beyond;
    ssize_t len = read_up_to(fd, secret, size);
    ssize_t more = len == (ssize_t)size ? read_up_to(fd, &beyond, 1) : 0;
    int error = len < 0 || more < 0 ? errno : 0;
    close(fd);
    if (!error && len > 0 && more == 0 && secret[len - 1] == '\n')
        len -= len > 1 && secret[len - 2] == '\r' ? 2 : 1;
    if (!error && (more > 0 || len == (ssize_t)size))
        error = EFBIG;
    if (error) {
        explicit_bzero(secret, size);
        errno = error;
        return -1;
    }
    secret[len] = '\0';
    return (int)len;
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
        .requests_max = config->connections_max,
        .waiters_max = config->waiters_max,
        .seed = seed,
    };
}
