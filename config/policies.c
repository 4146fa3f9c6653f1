/* What must hold within a policy and between policies. */
#include "config/policies.h"

#include <string.h>

#include "config/suggest.h"

enum { DURATION = 32 };

static const char *duration(int64_t ms, char text[DURATION])
{
    return config_print_duration(ms, text, DURATION);
}

/* ---- which groups ---- */

static bool add_group(struct config_loading *loading, size_t index, const char *path,
                      const struct config_node *name)
{
    struct core_policy *policy = &loading->config->policies[index].core;
    char full[CONFIG_PATH], quoted[CONFIG_QUOTED];
    int group = config_group_find(loading->config, name->text);
    if (group < 0) {
        const char *meant = config_group_nearest(loading->config, name->text);
        if (!loading->groups_unsure)
            config_report_add(&loading->report, name->place,
                              config_path_of(loading, path, index, full),
                              "%s is not a group of redis.groups%s%s%s",
                              config_quote(name->text, /* is_url= */ false, quoted),
                              meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "",
                              meant != NULL ? "?" : "");
        return false;
    }
    for (uint8_t i = 0; i < policy->group_count; i++) {
        if (policy->groups[i] != group)
            continue;
        config_report_add(&loading->report, name->place, config_path_of(loading, path, index, full),
                          "%s is there twice",
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
    const struct config_node *first =
        setting->node->kind == NODE_LIST ? setting->node->first : setting->node;
    bool ok = true;
    for (const struct config_node *name = first; name != NULL;
         name = setting->node == name ? NULL : name->next)
        ok = add_group(loading, index, path, name) && ok;
    sort_groups(&loading->config->policies[index].core);
    return ok;
}

static bool take_default_group(struct config_loading *loading, size_t index,
                               struct config_place place)
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
        config_report_add(
            &loading->report, place, config_path_of(loading, "policies[].group", index, path),
            "missing; it has a default only where a group is called main or is the only one");
    else
        config_report_add(&loading->report, place, "policies",
                          "no group for the other keys: call one main, or end the list with a "
                          "policy for `*` that names its group");
    return false;
}

static bool take_groups(struct config_loading *loading, size_t index, struct config_place place)
{
    char path[CONFIG_PATH];
    bool one = config_is_set(loading, "policies[].group", index),
         several = config_is_set(loading, "policies[].groups", index);
    if (config_is_bad(loading, "policies[].group", index) ||
        config_is_bad(loading, "policies[].groups", index))
        return false;
    if (one && several) {
        config_report_add(&loading->report,
                          config_place_of(loading, "policies[].groups", index, place),
                          config_path_of(loading, "policies[].groups", index, path),
                          "can not stand beside group; allowed: one of the two");
        return false;
    }
    if (one || several)
        return take_named_groups(loading, index, one ? "policies[].group" : "policies[].groups");
    return take_default_group(loading, index, place);
}

/* ---- what is matched ---- */

/* True when `wide` matches every key that `narrow` does. Matches one pattern against the other:
 * what a `*` takes may hold the other's `*` and `?`, what a `?` takes may not be a `*`. Some hidden
 * policies are not found, but none is called hidden that is not. */
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
        } else if (star != NULL) {
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
    config_path_of(loading, "policies[].match", index, path);
    if (config_is_bad(loading, "policies[]", index) ||
        config_is_bad(loading, "policies[].match", index))
        return;
    if (!config_is_set(loading, "policies[].match", index)) {
        config_report_add(&loading->report, loading->policy_places[index], path,
                          "missing; needed is a pattern such as jobs/* or *");
        return;
    }
    for (size_t i = 0; i < index; i++) {
        if (!config->policies[i].core.match[0] ||
            !covers(config->policies[i].core.match, config->policies[index].core.match))
            continue;
        config_report_add(
            &loading->report,
            config_place_of(loading, "policies[].match", index, (struct config_place){0}), path,
            "never applies: policies[%zu] above matches all of its keys; the first match wins", i);
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
    config_report_add(
        &loading->report,
        config_place_of(loading, "policies[].prefix", index, (struct config_place){0}),
        config_path_of(loading, "policies[].prefix", index, path),
        "`%s` can lead into the agent's own keys, lockagent:*; allowed: any other prefix", prefix);
}

/* ---- times ---- */

/* R1: a lease that four rounds could use up is refused. */
static void check_ttl_floor(struct config_loading *loading, size_t index,
                            const struct config_group *group, size_t group_index)
{
    const struct core_policy *policy = &loading->config->policies[index].core;
    char path[CONFIG_PATH], other[CONFIG_PATH], ttl[DURATION], timeout[DURATION];
    int64_t floor = 4 * (int64_t)group->node_timeout_ms;
    if (policy->ttl_ms >= floor ||
        config_is_bad(loading, "redis.groups.<name>.node_timeout", group_index))
        return;
    duration(policy->ttl_ms, ttl);
    duration(group->node_timeout_ms, timeout);
    config_path_of(loading, "redis.groups.<name>.node_timeout", group_index, other);
    if (config_is_set(loading, "policies[].ttl", index))
        config_report_add(
            &loading->report,
            config_place_of(loading, "policies[].ttl", index, (struct config_place){0}),
            config_path_of(loading, "policies[].ttl", index, path), "`%s` is less than 4 x %s (%s)",
            ttl, other, timeout);
    else
        config_report_add(&loading->report,
                          config_place_of(loading, "redis.groups.<name>.node_timeout", group_index,
                                          loading->root_place),
                          other,
                          "`%s` is more than a quarter of the ttl of the policy for `%s` (%s)",
                          timeout, policy->match, ttl);
}

/* R15: the restart guard must know the longest time that a master keeps a key. */
static void check_lock_delay(struct config_loading *loading, size_t index)
{
    struct config *config = loading->config;
    const struct core_policy *policy = &config->policies[index].core;
    char path[CONFIG_PATH], delay[DURATION], ttl[DURATION], max[DURATION];
    bool fits = (int64_t)policy->lock_delay_ms + policy->ttl_ms <= config->max_ttl_ms;
    if (policy->lock_delay_ms == 0 || fits ||
        config_is_bad(loading, "policies[].lock_delay", index) ||
        config_is_bad(loading, "policies[].ttl", index) ||
        config_is_bad(loading, "limits.max_ttl", 0) || policy->ttl_ms > config->max_ttl_ms)
        return;
    config_report_add(
        &loading->report,
        config_place_of(loading, "policies[].lock_delay", index, (struct config_place){0}),
        config_path_of(loading, "policies[].lock_delay", index, path),
        "`%s` and the ttl (%s) are together more than limits.max_ttl (%s)",
        duration(policy->lock_delay_ms, delay), duration(policy->ttl_ms, ttl),
        duration(config->max_ttl_ms, max));
}

static void check_ttl(struct config_loading *loading, size_t index)
{
    struct config *config = loading->config;
    struct core_policy *policy = &config->policies[index].core;
    char path[CONFIG_PATH], ttl[DURATION], max[DURATION];
    config_path_of(loading, "policies[].ttl", index, path);
    struct config_place place =
        config_place_of(loading, "policies[].ttl", index, (struct config_place){0});
    uint32_t delay_ms = policy->lock_delay_ms < config->max_ttl_ms ? policy->lock_delay_ms : 0;
    if (!config_is_set(loading, "policies[].ttl", index) &&
        policy->ttl_ms > config->max_ttl_ms - delay_ms)
        policy->ttl_ms = config->max_ttl_ms - delay_ms;
    check_lock_delay(loading, index);
    if (config_is_bad(loading, "policies[].ttl", index))
        return;
    if (policy->ttl_ms > config->max_ttl_ms && !config_is_bad(loading, "limits.max_ttl", 0))
        config_report_add(&loading->report, place, path, "`%s` is more than limits.max_ttl (%s)",
                          duration(policy->ttl_ms, ttl), duration(config->max_ttl_ms, max));
    if (policy->ttl_ms < TTL_MS_MIN_AGENT && policy->renew == RENEW_AGENT &&
        !config_is_bad(loading, "policies[].renew", index))
        config_report_add(
            &loading->report, place, path,
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
    if (policy->core.fence_retention_ms >= floor)
        return;
    if (!config_is_set(loading, "policies[].fence_retention", index)) {
        policy->core.fence_retention_ms = (uint32_t)floor;
        return;
    }
    if (config_is_bad(loading, "policies[].fence_retention", index) ||
        config_is_bad(loading, "limits.max_ttl", 0))
        return;
    config_report_add(
        &loading->report,
        config_place_of(loading, "policies[].fence_retention", index, (struct config_place){0}),
        config_path_of(loading, "policies[].fence_retention", index, path),
        "`%s` is less than 2 x limits.max_ttl (%s)", duration(policy->core.fence_retention_ms, is),
        duration(loading->config->max_ttl_ms, max));
}

/* Where only one of the two pauses is written, the other one's default gives way. */
static void check_retry(struct config_loading *loading, size_t index)
{
    static const char min_path[] = "policies[].retry.min", max_path[] = "policies[].retry.max";
    struct core_policy *policy = &loading->config->policies[index].core;
    char path[CONFIG_PATH], min[DURATION], max[DURATION];
    if (policy->retry_min_ms <= policy->retry_max_ms || config_is_bad(loading, min_path, index) ||
        config_is_bad(loading, max_path, index))
        return;
    if (!config_is_set(loading, max_path, index))
        policy->retry_max_ms = policy->retry_min_ms;
    else if (!config_is_set(loading, min_path, index))
        policy->retry_min_ms = policy->retry_max_ms;
    else
        config_report_add(
            &loading->report, config_place_of(loading, min_path, index, (struct config_place){0}),
            config_path_of(loading, min_path, index, path), "`%s` is more than retry.max (%s)",
            duration(policy->retry_min_ms, min), duration(policy->retry_max_ms, max));
}

/* ---- all of them ---- */

/* R2: `single` is decided by the one master of its group. */
static void check_algorithm(struct config_loading *loading, size_t index)
{
    const struct core_policy *policy = &loading->config->policies[index].core;
    char path[CONFIG_PATH];
    if (policy->algorithm != ALGORITHM_SINGLE ||
        config_is_bad(loading, "policies[].algorithm", index))
        return;
    for (uint8_t i = 0; i < policy->group_count; i++) {
        size_t group = policy->groups[i], masters = loading->config->groups[group].master_count;
        if (masters <= 1 || config_is_bad(loading, "redis.groups.<name>.masters", group))
            continue;
        config_report_add(
            &loading->report,
            config_place_of(loading, "policies[].algorithm", index, (struct config_place){0}),
            config_path_of(loading, "policies[].algorithm", index, path),
            "`single` needs a group of exactly one master, and redis.groups.%s has %zu",
            loading->config->groups[group].name, masters);
        return;
    }
}

/* R20: what a semaphore can not be. */
static void check_permits(struct config_loading *loading, size_t index)
{
    static const char permits[] = "policies[].permits";
    const struct core_policy *policy = &loading->config->policies[index].core;
    char path[CONFIG_PATH];
    config_path_of(loading, permits, index, path);
    struct config_place place = config_place_of(loading, permits, index, (struct config_place){0});
    if (policy->permits == 1 || config_is_bad(loading, permits, index))
        return;
    if (policy->kind == KIND_RW)
        config_report_add(&loading->report, place, path,
                          "`%u` can not stand beside kind: rw; allowed: kind: mutex, or one permit",
                          (unsigned)policy->permits);
    else if (policy->order == ORDER_FAIR)
        config_report_add(
            &loading->report, place, path,
            "`%u` can not stand beside order: fair; allowed: order: any, or one permit",
            (unsigned)policy->permits);
    if (policy->reentrant)
        config_report_add(&loading->report, place, path,
                          "`%u` can not stand beside reentrant; allowed: reentrant: off, or one "
                          "permit",
                          (unsigned)policy->permits);
}

/* R18: tickets are what keeps readers and writers from passing each other. */
static void check_kind(struct config_loading *loading, size_t index)
{
    struct core_policy *policy = &loading->config->policies[index].core;
    char path[CONFIG_PATH];
    if (policy->kind != KIND_RW || policy->order == ORDER_FAIR)
        return;
    if (!config_is_set(loading, "policies[].order", index))
        policy->order = ORDER_FAIR;
    else if (!config_is_bad(loading, "policies[].order", index))
        config_report_add(
            &loading->report,
            config_place_of(loading, "policies[].order", index, (struct config_place){0}),
            config_path_of(loading, "policies[].order", index, path),
            "`any` can not stand beside kind: rw; allowed: fair, which it is where it is left "
            "away");
}

static void refuse_key(struct config_loading *loading, size_t index, const char *key,
                       const char *why)
{
    char path[CONFIG_PATH];
    if (!config_is_bad(loading, key, index))
        config_report_add(&loading->report,
                          config_place_of(loading, key, index, (struct config_place){0}),
                          config_path_of(loading, key, index, path), "%s", why);
}

/* R22: Redisson knows neither readers, nor tickets, nor slots of ours, and numbers one master. */
static void check_format(struct config_loading *loading, size_t index)
{
    static const char format[] = "policies[].format", fencing[] = "policies[].fencing";
    const struct core_policy *policy = &loading->config->policies[index].core;
    bool redisson = policy->format == FORMAT_REDISSON;
    if (redisson && policy->kind == KIND_RW)
        refuse_key(loading, index, format,
                   "`redisson` can not stand beside kind: rw; allowed: kind: mutex, or format: "
                   "redlock");
    else if (redisson && policy->order == ORDER_FAIR)
        refuse_key(loading, index, format,
                   "`redisson` can not stand beside order: fair; allowed: order: any, or format: "
                   "redlock");
    if (redisson && policy->permits > 1)
        refuse_key(
            loading, index, format,
            "`redisson` can not stand beside permits; allowed: one permit, or format: redlock");
    if (policy->fencing != FENCING_REDISSON)
        return;
    if (!redisson)
        refuse_key(loading, index, fencing,
                   "`redisson` needs format: redisson; allowed: on, off, or that format");
    if (policy->algorithm != ALGORITHM_SINGLE)
        refuse_key(loading, index, fencing,
                   "`redisson` needs algorithm: single; allowed: on, off, or one master");
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
    check_permits(loading, index);
    check_kind(loading, index);
    check_format(loading, index);
}

void config_policies_check(struct config_loading *loading)
{
    struct config *config = loading->config;
    for (size_t i = 0; i < loading->policies_written; i++)
        if (!config_is_bad(loading, "policies[]", i))
            check_policy(loading, i, loading->policy_places[i]);
    size_t last = config->policy_count;
    if (config_is_bad(loading, "policies", 0) ||
        (last > 0 && strcmp(config->policies[last - 1].core.match, "*") == 0))
        return;
    struct config_place place = config_place_of(loading, "policies", 0, loading->root_place);
    if (last == LIMIT_POLICIES) {
        config_report_add(&loading->report, place, "policies",
                          "too many; allowed: up to %d, or %d with one for `*` at the end",
                          LIMIT_POLICIES - 1, LIMIT_POLICIES);
        return;
    }
    config->policy_count++;
    config_preset(config, SCOPE_POLICY, last);
    strcpy(config->policies[last].core.match, "*");
    take_groups(loading, last, place);
    check_ttl(loading, last);
    check_fence_retention(loading, last);
}
