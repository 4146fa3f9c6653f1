/* The last pass: what must hold between keys, and the defaults that depend on other keys. A relation is silent where
 * one of its keys is wrong already, and speaks of the key that was written, never of a default that nobody wrote. */
#include "config/load.h"

#include <assert.h>
#include <string.h>

#include "config/address.h"
#include "config/units.h"

enum { DURATION = 32 };

static const char *duration(int64_t ms, char text[DURATION])
{
    return config_number_print(TYPE_DURATION, ms, text, DURATION);
}

static bool is_set(const struct config_loading *loading, const char *path, size_t index)
{
    return config_setting_find(loading, path, index);
}

static bool is_bad(const struct config_loading *loading, const char *path, size_t index)
{
    const struct config_setting *setting = config_setting_find(loading, path, index);
    return setting && setting->bad;
}

static struct config_place place_of(const struct config_loading *loading, const char *path, size_t index,
                                    struct config_place otherwise)
{
    const struct config_setting *setting = config_setting_find(loading, path, index);
    return setting ? setting->place : otherwise;
}

static const char *path_of(const struct config_loading *loading, const char *path, size_t index, char out[CONFIG_PATH])
{
    return config_key_path(config_key_find(path), loading->config, index, out);
}

/* ---- redis ---- */

static void report_no_group(struct config_loading *loading)
{
    static const char needed[] =
        "needed is at least redis.groups.main.masters, a list of URLs such as redis://127.0.0.1:7001";
    if (loading->groups_unsure || is_bad(loading, "redis", 0) || is_bad(loading, "redis.groups", 0) ||
        is_bad(loading, "redis.groups.<name>.masters", 0))
        return;
    if (loading->report.path && !loading->root)
        config_report_add(&loading->report, loading->root_place, NULL, "the file is empty; %s", needed);
    else
        config_report_add(&loading->report, place_of(loading, "redis", 0, loading->root_place),
                          is_set(loading, "redis", 0) ? "redis.groups" : "redis", "missing; %s", needed);
}

/* The name of another group that `name` may have been meant for, or NULL. */
static const char *near_group(const struct config *config, const char *name)
{
    const char *nearest = NULL;
    size_t distance = SIZE_MAX;
    for (size_t i = 0; i < config->group_count; i++) {
        size_t here = config_distance(name, config->groups[i].name);
        if (here < distance && strcmp(name, config->groups[i].name) != 0) {
            distance = here;
            nearest = config->groups[i].name;
        }
    }
    return nearest && config_is_near(name, distance) ? nearest : NULL;
}

static void check_group(struct config_loading *loading, size_t index)
{
    struct config_group *group = &loading->config->groups[index];
    bool broken =
        is_bad(loading, "redis.groups.<name>", index) || is_bad(loading, "redis.groups.<name>.masters", index);
    if (group->master_count == 0 && !broken) {
        char path[CONFIG_PATH];
        struct config_place place = loading->group_places[index];
        /* A variable with a misspelt name makes a group of its own. */
        const char *meant = place.origin ? near_group(loading->config, group->name) : NULL;
        config_report_add(&loading->report, place, path_of(loading, "redis.groups.<name>.masters", index, path),
                          "missing; needed is a list of URLs such as redis://127.0.0.1:7001%s%s%s",
                          meant ? " (did you mean the group " : "", meant ? meant : "", meant ? "?)" : "");
    }
    for (size_t i = 0; i < group->master_count; i++)
        config_master_complete(&group->masters[i], group->username, group->db);
}

/* ---- policies: which groups ---- */

static bool add_group(struct config_loading *loading, size_t index, const char *path, const struct config_node *name)
{
    struct core_policy *policy = &loading->config->policies[index].core;
    char full[CONFIG_PATH], quoted[CONFIG_QUOTED];
    int group = config_group_find(loading->config, name->text);
    if (group < 0) {
        const char *meant = near_group(loading->config, name->text);
        if (!loading->groups_unsure)
            config_report_add(&loading->report, name->place, path_of(loading, path, index, full),
                              "%s is not a group of redis.groups%s%s%s",
                              config_quote(name->text, /* is_url= */ false, quoted), meant ? "; did you mean " : "",
                              meant ? meant : "", meant ? "?" : "");
        return false;
    }
    for (uint8_t i = 0; i < policy->group_count; i++) {
        if (policy->groups[i] != group)
            continue;
        config_report_add(&loading->report, name->place, path_of(loading, path, index, full), "%s is there twice",
                          config_quote(name->text, /* is_url= */ false, quoted));
        return false;
    }
    policy->groups[policy->group_count++] = (uint8_t)group;
    return true;
}

static void sort_groups(struct core_policy *policy)
{
    for (uint8_t i = 1; i < policy->group_count; i++)
        for (uint8_t j = i; j > 0 && policy->groups[j] < policy->groups[j - 1]; j--) {
            uint8_t swapped = policy->groups[j];
            policy->groups[j] = policy->groups[j - 1];
            policy->groups[j - 1] = swapped;
        }
}

/* True when the policy's groups are known. */
static bool take_named_groups(struct config_loading *loading, size_t index, const char *path)
{
    const struct config_setting *setting = config_setting_find(loading, path, index);
    const struct config_node *first = setting->node->kind == NODE_LIST ? setting->node->first : setting->node;
    bool ok = true;
    for (const struct config_node *name = first; name; name = setting->node == name ? NULL : name->next)
        ok = add_group(loading, index, path, name) && ok;
    sort_groups(&loading->config->policies[index].core);
    return ok;
}

static bool take_default_group(struct config_loading *loading, size_t index, struct config_place place)
{
    struct config *config = loading->config;
    int group = config->group_count == 1 ? 0 : config_group_find(config, "main");
    char path[CONFIG_PATH];
    if (group >= 0) {
        config->policies[index].core.groups[0] = (uint8_t)group;
        config->policies[index].core.group_count = 1;
        return true;
    }
    if (loading->groups_unsure || config->group_count == 0)
        return false;
    if (index < loading->policies_written)
        config_report_add(&loading->report, place, path_of(loading, "policies[].group", index, path),
                          "missing; it has a default only where a group is called main or is the only one");
    else
        config_report_add(
            &loading->report, place, "policies",
            "no group for the other keys: call one main, or end the list with a policy for `*` that names its group");
    return false;
}

static bool take_groups(struct config_loading *loading, size_t index, struct config_place place)
{
    char path[CONFIG_PATH];
    bool one = is_set(loading, "policies[].group", index), several = is_set(loading, "policies[].groups", index);
    if (is_bad(loading, "policies[].group", index) || is_bad(loading, "policies[].groups", index))
        return false;
    if (one && several) {
        config_report_add(&loading->report, place_of(loading, "policies[].groups", index, place),
                          path_of(loading, "policies[].groups", index, path),
                          "can not stand beside group; allowed: one of the two");
        return false;
    }
    if (one || several)
        return take_named_groups(loading, index, one ? "policies[].group" : "policies[].groups");
    return take_default_group(loading, index, place);
}

/* ---- policies: what is matched ---- */

/* True when `wide` matches every key that `narrow` does. Matches one pattern against the other: what a `*` takes may
 * hold the other's `*` and `?`, what a `?` takes may not be a `*`. Some hidden policies are not found, but none is
 * called hidden that is not. */
static bool covers(const char *wide, const char *narrow)
{
    const char *star = NULL, *resume = NULL;
    while (*narrow) {
        if (*wide == '*') {
            star = wide++;
            resume = narrow;
        } else if ((*wide == '?' && *narrow != '*') || (*wide == *narrow && *wide != '?')) {
            wide++;
            narrow++;
        } else if (star) {
            wide = star + 1;
            narrow = ++resume;
        } else {
            return false;
        }
    }
    while (*wide == '*')
        wide++;
    return *wide == '\0';
}

static void check_match(struct config_loading *loading, size_t index)
{
    const struct config *config = loading->config;
    char path[CONFIG_PATH];
    path_of(loading, "policies[].match", index, path);
    if (is_bad(loading, "policies[]", index) || is_bad(loading, "policies[].match", index))
        return;
    if (!is_set(loading, "policies[].match", index)) {
        config_report_add(&loading->report, loading->policy_places[index], path,
                          "missing; needed is a pattern such as jobs/* or *");
        return;
    }
    for (size_t i = 0; i < index; i++) {
        if (!config->policies[i].core.match[0] ||
            !covers(config->policies[i].core.match, config->policies[index].core.match))
            continue;
        config_report_add(&loading->report, place_of(loading, "policies[].match", index, (struct config_place){0}),
                          path, "never applies: policies[%zu] above matches all of its keys; the first match wins", i);
        return;
    }
}

/* Masters keep fence keys and more under `lockagent:`, where no lock may come to lie. */
static void check_prefix(struct config_loading *loading, size_t index)
{
    static const char ours[] = "lockagent:";
    const char *prefix = loading->config->policies[index].prefix;
    char path[CONFIG_PATH];
    size_t len = strlen(prefix), shared = len < strlen(ours) ? len : strlen(ours);
    if (len == 0 || strncmp(prefix, ours, shared) != 0)
        return;
    config_report_add(&loading->report, place_of(loading, "policies[].prefix", index, (struct config_place){0}),
                      path_of(loading, "policies[].prefix", index, path),
                      "`%s` can lead into the agent's own keys, lockagent:*; allowed: any other prefix", prefix);
}

/* ---- policies: times ---- */

/* R1: a lease that four rounds could use up is refused. */
static void check_ttl_floor(struct config_loading *loading, size_t index, const struct config_group *group,
                            size_t group_index)
{
    const struct core_policy *policy = &loading->config->policies[index].core;
    char path[CONFIG_PATH], other[CONFIG_PATH], ttl[DURATION], timeout[DURATION];
    int64_t floor = 4 * (int64_t)group->node_timeout_ms;
    if (policy->ttl_ms >= floor || is_bad(loading, "redis.groups.<name>.node_timeout", group_index))
        return;
    duration(policy->ttl_ms, ttl);
    duration(group->node_timeout_ms, timeout);
    path_of(loading, "redis.groups.<name>.node_timeout", group_index, other);
    if (is_set(loading, "policies[].ttl", index))
        config_report_add(&loading->report, place_of(loading, "policies[].ttl", index, (struct config_place){0}),
                          path_of(loading, "policies[].ttl", index, path), "`%s` is less than 4 x %s (%s)", ttl, other,
                          timeout);
    else
        config_report_add(
            &loading->report, place_of(loading, "redis.groups.<name>.node_timeout", group_index, loading->root_place),
            other, "`%s` is more than a quarter of the ttl of the policy for `%s` (%s)", timeout, policy->match, ttl);
}

/* R15: the restart guard must know the longest time that a master keeps a key. */
static void check_lock_delay(struct config_loading *loading, size_t index)
{
    struct config *config = loading->config;
    const struct core_policy *policy = &config->policies[index].core;
    char path[CONFIG_PATH], delay[DURATION], ttl[DURATION], max[DURATION];
    bool fits = (int64_t)policy->lock_delay_ms + policy->ttl_ms <= config->max_ttl_ms;
    if (policy->lock_delay_ms == 0 || fits || is_bad(loading, "policies[].lock_delay", index) ||
        is_bad(loading, "policies[].ttl", index) || is_bad(loading, "limits.max_ttl", 0) ||
        policy->ttl_ms > config->max_ttl_ms)
        return;
    config_report_add(&loading->report, place_of(loading, "policies[].lock_delay", index, (struct config_place){0}),
                      path_of(loading, "policies[].lock_delay", index, path),
                      "`%s` and the ttl (%s) are together more than limits.max_ttl (%s)",
                      duration(policy->lock_delay_ms, delay), duration(policy->ttl_ms, ttl),
                      duration(config->max_ttl_ms, max));
}

static void check_ttl(struct config_loading *loading, size_t index)
{
    struct config *config = loading->config;
    struct core_policy *policy = &config->policies[index].core;
    char path[CONFIG_PATH], ttl[DURATION], max[DURATION];
    path_of(loading, "policies[].ttl", index, path);
    struct config_place place = place_of(loading, "policies[].ttl", index, (struct config_place){0});
    uint32_t delay_ms = policy->lock_delay_ms < config->max_ttl_ms ? policy->lock_delay_ms : 0;
    if (!is_set(loading, "policies[].ttl", index) && policy->ttl_ms > config->max_ttl_ms - delay_ms)
        policy->ttl_ms = config->max_ttl_ms - delay_ms;
    check_lock_delay(loading, index);
    if (is_bad(loading, "policies[].ttl", index))
        return;
    if (policy->ttl_ms > config->max_ttl_ms && !is_bad(loading, "limits.max_ttl", 0))
        config_report_add(&loading->report, place, path, "`%s` is more than limits.max_ttl (%s)",
                          duration(policy->ttl_ms, ttl), duration(config->max_ttl_ms, max));
    if (policy->ttl_ms < TTL_MS_MIN_AGENT && policy->renew == RENEW_AGENT &&
        !is_bad(loading, "policies[].renew", index))
        config_report_add(&loading->report, place, path,
                          "`%s` is too short for the watchdog; allowed: at least %s, or renew: caller",
                          duration(policy->ttl_ms, ttl), duration(TTL_MS_MIN_AGENT, max));
    for (uint8_t i = 0; i < policy->group_count; i++)
        check_ttl_floor(loading, index, &config->groups[policy->groups[i]], policy->groups[i]);
}

/* R12: a fence key must outlive every lease that it numbered. */
static void check_fence_retention(struct config_loading *loading, size_t index)
{
    struct config_policy *policy = &loading->config->policies[index];
    char path[CONFIG_PATH], is[DURATION], max[DURATION];
    int64_t floor = 2 * (int64_t)loading->config->max_ttl_ms;
    if (policy->fence_retention_ms >= floor)
        return;
    if (!is_set(loading, "policies[].fence_retention", index)) {
        policy->fence_retention_ms = (uint32_t)floor;
        return;
    }
    if (is_bad(loading, "policies[].fence_retention", index) || is_bad(loading, "limits.max_ttl", 0))
        return;
    config_report_add(
        &loading->report, place_of(loading, "policies[].fence_retention", index, (struct config_place){0}),
        path_of(loading, "policies[].fence_retention", index, path), "`%s` is less than 2 x limits.max_ttl (%s)",
        duration(policy->fence_retention_ms, is), duration(loading->config->max_ttl_ms, max));
}

/* Where only one of the two pauses is written, the other one's default gives way. */
static void check_retry(struct config_loading *loading, size_t index)
{
    static const char min_path[] = "policies[].retry.min", max_path[] = "policies[].retry.max";
    struct core_policy *policy = &loading->config->policies[index].core;
    char path[CONFIG_PATH], min[DURATION], max[DURATION];
    if (policy->retry_min_ms <= policy->retry_max_ms || is_bad(loading, min_path, index) ||
        is_bad(loading, max_path, index))
        return;
    if (!is_set(loading, max_path, index))
        policy->retry_max_ms = policy->retry_min_ms;
    else if (!is_set(loading, min_path, index))
        policy->retry_min_ms = policy->retry_max_ms;
    else
        config_report_add(&loading->report, place_of(loading, min_path, index, (struct config_place){0}),
                          path_of(loading, min_path, index, path), "`%s` is more than retry.max (%s)",
                          duration(policy->retry_min_ms, min), duration(policy->retry_max_ms, max));
}

/* R2: `single` is decided by the one master of its group. */
static void check_algorithm(struct config_loading *loading, size_t index)
{
    const struct core_policy *policy = &loading->config->policies[index].core;
    char path[CONFIG_PATH];
    if (policy->algorithm != ALGORITHM_SINGLE || is_bad(loading, "policies[].algorithm", index))
        return;
    for (uint8_t i = 0; i < policy->group_count; i++) {
        size_t group = policy->groups[i], masters = loading->config->groups[group].master_count;
        if (masters <= 1 || is_bad(loading, "redis.groups.<name>.masters", group))
            continue;
        config_report_add(&loading->report, place_of(loading, "policies[].algorithm", index, (struct config_place){0}),
                          path_of(loading, "policies[].algorithm", index, path),
                          "`single` needs a group of exactly one master, and redis.groups.%s has %zu",
                          loading->config->groups[group].name, masters);
        return;
    }
}

static void check_policy(struct config_loading *loading, size_t index, struct config_place place)
{
    take_groups(loading, index, place);
    check_match(loading, index);
    check_prefix(loading, index);
    check_ttl(loading, index);
    check_fence_retention(loading, index);
    check_retry(loading, index);
    check_algorithm(loading, index);
}

static void check_policies(struct config_loading *loading)
{
    struct config *config = loading->config;
    for (size_t i = 0; i < loading->policies_written; i++)
        if (!is_bad(loading, "policies[]", i))
            check_policy(loading, i, loading->policy_places[i]);
    size_t last = config->policy_count;
    if (is_bad(loading, "policies", 0) || (last > 0 && strcmp(config->policies[last - 1].core.match, "*") == 0))
        return;
    struct config_place place = place_of(loading, "policies", 0, loading->root_place);
    if (last == LIMIT_POLICIES) {
        config_report_add(&loading->report, place, "policies",
                          "too many; allowed: up to %d, or %d with one for `*` at the end", LIMIT_POLICIES - 1,
                          LIMIT_POLICIES);
        return;
    }
    config->policy_count++;
    config_policy_preset(config, last);
    strcpy(config->policies[last].core.match, "*");
    take_groups(loading, last, place);
    check_ttl(loading, last);
    check_fence_retention(loading, last);
}

/* ---- the agent ---- */

/* D9: waiting callers leave room for a holder who comes to release. */
static void check_waiters(struct config_loading *loading)
{
    enum { SPARE = 64 };
    struct config *config = loading->config;
    if (is_bad(loading, "limits.waiters", 0) || is_bad(loading, "limits.connections", 0) ||
        config->waiters_max + SPARE <= config->connections_max)
        return;
    if (!is_set(loading, "limits.waiters", 0))
        config->waiters_max = config->connections_max - SPARE;
    else
        config_report_add(&loading->report, place_of(loading, "limits.waiters", 0, (struct config_place){0}),
                          "limits.waiters",
                          "`%u` is more than limits.connections - %d (%u): holders must always find room to release",
                          config->waiters_max, SPARE, config->connections_max - SPARE);
}

/* The place of one address: of its item, where they are a list. */
static struct config_place address_place(const struct config_loading *loading, const char *path, size_t at)
{
    const struct config_setting *setting = config_setting_find(loading, path, 0);
    if (!setting)
        return loading->root_place;
    const struct config_node *node = setting->node->kind == NODE_LIST ? setting->node->first : setting->node;
    while (at-- > 0)
        node = node->next;
    return node->place;
}

/* An API that other machines reach must be protected, or opened on purpose (D9). */
static void check_remote(struct config_loading *loading)
{
    const struct config *config = loading->config;
    char quoted[CONFIG_QUOTED];
    bool unsure =
        is_bad(loading, "listen", 0) || is_bad(loading, "api.token_file", 0) || is_bad(loading, "api.allow_remote", 0);
    if (unsure || config->token_file[0] || config->allow_remote)
        return;
    for (size_t i = 0; i < config->listen.count; i++)
        if (!config->listen.addresses[i].loopback)
            config_report_add(
                &loading->report, address_place(loading, "listen", i), "listen",
                "%s can be reached from other machines; that needs api.token_file, or api.allow_remote: true",
                config_quote(config->listen.addresses[i].text, /* is_url= */ false, quoted));
}

static void check_admin(struct config_loading *loading)
{
    const struct config *config = loading->config;
    char quoted[CONFIG_QUOTED];
    if (is_bad(loading, "listen", 0) || is_bad(loading, "admin.listen", 0))
        return;
    for (size_t i = 0; i < config->admin.count; i++) {
        const struct config_address *address = &config->admin.addresses[i];
        for (size_t j = 0; j < config->listen.count; j++)
            if ((address->is_unix || address->port) && config_address_same(address, &config->listen.addresses[j]))
                config_report_add(&loading->report, address_place(loading, "admin.listen", i), "admin.listen",
                                  "%s is taken by listen; allowed: another address",
                                  config_quote(address->text, /* is_url= */ false, quoted));
    }
}

void config_relations_check(struct config_loading *loading)
{
    if (loading->config->group_count == 0)
        report_no_group(loading);
    for (size_t i = 0; i < loading->config->group_count; i++)
        check_group(loading, i);
    check_policies(loading);
    check_waiters(loading);
    check_remote(loading);
    check_admin(loading);
}
