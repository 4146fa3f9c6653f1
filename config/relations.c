/* The last pass: what must hold between keys, and the defaults that depend on other keys. A
 * relation is silent where one of its keys is wrong already, and speaks of the key that was
 * written, never of a default that nobody wrote. */
#include "config/internal.h"

#include <string.h>

#include "config/address.h"

/* ---- policies ---- */

/* What must hold within a policy and between policies. */

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

static void refuse_key(struct config_loading *loading, size_t index, const char *key,
                       const char *why)
{
    char path[CONFIG_PATH];
    if (!config_is_bad(loading, key, index))
        config_report_add(&loading->report,
                          config_place_of(loading, key, index, (struct config_place){0}),
                          config_path_of(loading, key, index, path), "%s", why);
}

/* R18: tickets keep readers and writers from passing each other, so order is fair. */
static void default_order(struct config_loading *loading, size_t index)
{
    struct config_policy *policy = &loading->config->policies[index];
    if (policy->kind == KIND_RW && !config_is_set(loading, "policies[].order", index))
        policy->order = ORDER_FAIR;
}

enum trait {
    TRAIT_RW = 1,
    TRAIT_ANY = 2,
    TRAIT_FAIR = 4, /* of a mutex or a semaphore */
    TRAIT_PERMITS = 8,
    TRAIT_REENTRANT = 16,
    TRAIT_REDISSON = 32,
};

static unsigned traits_of(const struct config_policy *policy)
{
    bool is_rw = policy->kind == KIND_RW, is_fair = policy->order == ORDER_FAIR;
    return (is_rw ? TRAIT_RW : 0u) | (is_fair ? 0u : TRAIT_ANY) |
           (is_fair && !is_rw ? TRAIT_FAIR : 0u) | (policy->core.permits > 1 ? TRAIT_PERMITS : 0u) |
           (policy->core.reentrant ? TRAIT_REENTRANT : 0u) |
           (policy->format == FORMAT_REDISSON ? TRAIT_REDISSON : 0u);
}

/* What a policy can not be at once: a semaphore has slots of order any (R20), who reads and writes
 * shows tickets (R18), and Redisson knows neither readers, nor tickets, nor slots of ours (R22). */
static const struct conflict {
    enum trait trait, beside;
    const char *key; /* that is refused */
    const char *why;
} conflicts[] = {
    {TRAIT_PERMITS, TRAIT_RW, "policies[].permits",
     "can not stand beside kind: rw; allowed: kind: mutex, or one permit"},
    {TRAIT_PERMITS, TRAIT_FAIR, "policies[].permits",
     "can not stand beside order: fair; allowed: order: any, or one permit"},
    {TRAIT_PERMITS, TRAIT_REENTRANT, "policies[].permits",
     "can not stand beside reentrant; allowed: reentrant: off, or one permit"},
    {TRAIT_ANY, TRAIT_RW, "policies[].order",
     "can not stand beside kind: rw; allowed: fair, which it is where it is left away"},
    {TRAIT_REDISSON, TRAIT_RW, "policies[].format",
     "can not stand beside kind: rw; allowed: kind: mutex, or format: redlock"},
    {TRAIT_REDISSON, TRAIT_FAIR, "policies[].format",
     "can not stand beside order: fair; allowed: order: any, or format: redlock"},
    {TRAIT_REDISSON, TRAIT_PERMITS, "policies[].format",
     "can not stand beside permits; allowed: one permit, or format: redlock"},
};

/* The value of the key that a conflict refuses. */
static void print_trait(char value[24], const struct config_policy *policy, enum trait trait)
{
    if (trait == TRAIT_PERMITS)
        snprintf(value, 24, "%u", (unsigned)policy->core.permits);
    else
        snprintf(value, 24, "%s", trait == TRAIT_ANY ? "any" : "redisson");
}

static void check_form(struct config_loading *loading, size_t index)
{
    struct config_policy *policy = &loading->config->policies[index];
    char why[160], value[24];
    default_order(loading, index);
    unsigned traits = traits_of(policy);
    for (size_t i = 0; i < sizeof(conflicts) / sizeof(conflicts[0]); i++) {
        const struct conflict *conflict = &conflicts[i];
        if (!(traits & conflict->trait) || !(traits & conflict->beside))
            continue;
        print_trait(value, policy, conflict->trait);
        snprintf(why, sizeof(why), "`%s` %s", value, conflict->why);
        refuse_key(loading, index, conflict->key, why);
    }
    policy->core.form = traits & TRAIT_REDISSON  ? FORM_REDISSON
                        : traits & TRAIT_RW      ? FORM_SHARED
                        : traits & TRAIT_PERMITS ? FORM_SLOTS
                        : traits & TRAIT_FAIR    ? FORM_FAIR
                                                 : FORM_PLAIN;
}

/* R22: the numbers of Redisson are those of one master. */
static void check_fencing(struct config_loading *loading, size_t index)
{
    static const char fencing[] = "policies[].fencing";
    const struct config_policy *policy = &loading->config->policies[index];
    if (policy->core.fencing != FENCING_REDISSON)
        return;
    if (policy->format != FORMAT_REDISSON)
        refuse_key(loading, index, fencing,
                   "`redisson` needs format: redisson; allowed: on, off, or that format");
    if (policy->core.algorithm != ALGORITHM_SINGLE)
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
    check_form(loading, index);
    check_fencing(loading, index);
}

/* Checks every policy, and adds the last one for `*` where there is none. The groups must be known
 * and checked. */
static void config_policies_check(struct config_loading *loading)
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

/* ---- relations ---- */

/* ---- replicas (R21) ---- */

enum { REPLICAS_TIMEOUT_MS = 100, REPLICAS_SPARE_MS = 20, DURATION_TEXT = 32 };

static const char ack_path[] = "redis.groups.<name>.replicas.ack",
                  timeout_path[] = "redis.groups.<name>.replicas.timeout",
                  node_path[] = "redis.groups.<name>.node_timeout";

/* An error of replicas.ack. */
static void report_replicas(struct config_loading *loading, size_t index, const char *what,
                            const char *name)
{
    char path[CONFIG_PATH];
    config_report_add(&loading->report,
                      config_place_of(loading, ack_path, index, loading->root_place),
                      config_path_of(loading, ack_path, index, path), "`%u` %s%s",
                      (unsigned)loading->config->groups[index].replicas_ack, what, name);
}

/* What comes to a master behind a WAIT waits as well. */
static void check_replicas_timeout(struct config_loading *loading, size_t index)
{
    struct config_group *group = &loading->config->groups[index];
    char path[CONFIG_PATH], is[DURATION_TEXT], floor[DURATION_TEXT];
    if (!config_is_set(loading, timeout_path, index))
        group->replicas_timeout_ms = REPLICAS_TIMEOUT_MS;
    uint32_t floor_ms = group->replicas_timeout_ms + REPLICAS_SPARE_MS;
    if (group->node_timeout_ms >= floor_ms || config_is_bad(loading, timeout_path, index) ||
        config_is_bad(loading, node_path, index))
        return;
    if (!config_is_set(loading, node_path, index)) {
        group->node_timeout_ms = floor_ms;
        return;
    }
    config_report_add(&loading->report,
                      config_place_of(loading, node_path, index, loading->root_place),
                      config_path_of(loading, node_path, index, path),
                      "`%s` is less than replicas.timeout + 20ms (%s)",
                      config_print_duration(group->node_timeout_ms, is, sizeof(is)),
                      config_print_duration(floor_ms, floor, sizeof(floor)));
}

static void check_replicas(struct config_loading *loading, size_t index)
{
    const struct config_group *group = &loading->config->groups[index];
    char path[CONFIG_PATH];
    if (config_is_bad(loading, ack_path, index))
        return;
    if (group->replicas_ack == 0) {
        if (config_is_set(loading, timeout_path, index))
            config_report_add(&loading->report,
                              config_place_of(loading, timeout_path, index, loading->root_place),
                              config_path_of(loading, timeout_path, index, path),
                              "needs replicas.ack beside it: how many must confirm");
        return;
    }
    check_replicas_timeout(loading, index);
    if (group->master_count > 1 && !config_is_bad(loading, "redis.groups.<name>.masters", index))
        report_replicas(loading, index,
                        "needs a group of exactly one master: several masters are independent, "
                        "and no replicas of each other",
                        "");
    if (group->durable)
        report_replicas(loading, index,
                        "can not stand beside durable: true, which promises that no replica is "
                        "promoted",
                        "");
}

/* Every policy over the group: its locks share the master. */
static void check_replicas_algorithm(struct config_loading *loading, size_t index)
{
    const struct config *config = loading->config;
    if (config->groups[index].replicas_ack == 0 || config_is_bad(loading, ack_path, index))
        return;
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct core_policy *policy = &config->policies[i].core;
        bool uses = memchr(policy->groups, (int)index, policy->group_count) != NULL;
        if (!uses || policy->algorithm == ALGORITHM_SINGLE ||
            config_is_bad(loading, "policies[].algorithm", i))
            continue;
        char what[128], name[LIMIT_PATTERN_BYTES + 2];
        snprintf(what, sizeof(what), "needs algorithm: single, and it is %s in the policy for `",
                 algorithm_name(policy->algorithm));
        snprintf(name, sizeof(name), "%s`", policy->match);
        report_replicas(loading, index, what, name);
        return;
    }
}

/* ---- redis ---- */

static void report_no_group(struct config_loading *loading)
{
    static const char needed[] = "needed is at least redis.groups.main.masters, a list of URLs "
                                 "such as redis://127.0.0.1:7001";
    if (loading->groups_unsure || config_is_bad(loading, "redis", 0) ||
        config_is_bad(loading, "redis.groups", 0) ||
        config_is_bad(loading, "redis.groups.<name>.masters", 0))
        return;
    if (loading->report.path != NULL && loading->root == NULL)
        config_report_add(&loading->report, loading->root_place, NULL, "the file is empty; %s",
                          needed);
    else
        config_report_add(
            &loading->report, config_place_of(loading, "redis", 0, loading->root_place),
            config_is_set(loading, "redis", 0) ? "redis.groups" : "redis", "missing; %s", needed);
}

#define TLS "redis.groups.<name>.tls."

/* A key of `tls` that was written and makes no sense as it stands. */
static void report_tls(struct config_loading *loading, size_t index, const char *key,
                       const char *what)
{
    char path[CONFIG_PATH];
    if (config_is_set(loading, key, index) && !config_is_bad(loading, key, index))
        config_report_add(&loading->report,
                          config_place_of(loading, key, index, loading->group_places[index]),
                          config_path_of(loading, key, index, path), "%s", what);
}

static bool asks_for_tls(const struct config_group *group)
{
    for (size_t i = 0; i < group->master_count; i++)
        if (group->masters[i].tls)
            return true;
    return false;
}

static void check_tls(struct config_loading *loading, size_t index)
{
    const struct config_group *group = &loading->config->groups[index];
    const struct config_tls *tls = &group->tls;
    static const char *const keys[] = {TLS "ca_file", TLS "cert_file", TLS "key_file",
                                       TLS "server_name"};
    const char *const texts[] = {tls->ca_file, tls->cert_file, tls->key_file, tls->server_name};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !asks_for_tls(group); i++)
        if (*texts[i])
            report_tls(loading, index, keys[i],
                       "is of no use: no master of the group is rediss://");
    if (*tls->cert_file && !*tls->key_file && !config_is_bad(loading, TLS "key_file", index))
        report_tls(loading, index, TLS "cert_file",
                   "needs key_file, the certificate's private key");
    if (*tls->key_file && !*tls->cert_file && !config_is_bad(loading, TLS "cert_file", index))
        report_tls(loading, index, TLS "key_file", "needs cert_file, the key's certificate");
    if (strpbrk(tls->server_name, "/@[] *") != NULL)
        report_tls(loading, index, TLS "server_name",
                   "is not a name or an address (without a port)");
}

static void check_group(struct config_loading *loading, size_t index)
{
    struct config_group *group = &loading->config->groups[index];
    bool broken = config_is_bad(loading, "redis.groups.<name>", index) ||
                  config_is_bad(loading, "redis.groups.<name>.masters", index);
    if (group->master_count == 0 && !broken) {
        char path[CONFIG_PATH];
        struct config_place place = loading->group_places[index];
        /* A variable with a misspelt name makes a group of its own. */
        const char *meant =
            place.origin != NULL ? config_group_nearest(loading->config, group->name) : NULL;
        config_report_add(&loading->report, place,
                          config_path_of(loading, "redis.groups.<name>.masters", index, path),
                          "missing; needed is a list of URLs such as redis://127.0.0.1:7001%s%s%s",
                          meant != NULL ? " (did you mean the group " : "",
                          meant != NULL ? meant : "", meant != NULL ? "?)" : "");
    }
    if (!broken)
        check_tls(loading, index);
    for (size_t i = 0; i < group->master_count; i++)
        config_master_complete(&group->masters[i], group->username, group->db);
    check_replicas(loading, index);
}

/* ---- the agent ---- */

/* D9: waiting callers leave room for a holder that comes to release. */
static void check_waiters(struct config_loading *loading)
{
    enum { SPARE = 64 };
    struct config *config = loading->config;
    if (config_is_bad(loading, "limits.waiters", 0) ||
        config_is_bad(loading, "limits.connections", 0) ||
        config->waiters_max + SPARE <= config->connections_max)
        return;
    if (!config_is_set(loading, "limits.waiters", 0))
        config->waiters_max = config->connections_max - SPARE;
    else
        config_report_add(&loading->report,
                          config_place_of(loading, "limits.waiters", 0, (struct config_place){0}),
                          "limits.waiters",
                          "`%u` is more than limits.connections - %d (%u): holders must always "
                          "find room to release",
                          config->waiters_max, SPARE, config->connections_max - SPARE);
}

/* The place of one address: of its item, where they are a list. */
static struct config_place address_place(const struct config_loading *loading, const char *path,
                                         size_t at)
{
    const struct config_setting *setting = config_setting_find(loading, path, 0);
    if (setting == NULL)
        return loading->root_place;
    const struct config_node *node =
        setting->node->kind == NODE_LIST ? setting->node->first : setting->node;
    while (at-- > 0)
        node = node->next;
    return node->place;
}

/* An API that other machines reach must be protected, or opened on purpose (D9). */
static void check_remote(struct config_loading *loading)
{
    const struct config *config = loading->config;
    char quoted[CONFIG_QUOTED];
    bool unsure = config_is_bad(loading, "listen", 0) ||
                  config_is_bad(loading, "api.token_file", 0) ||
                  config_is_bad(loading, "api.allow_remote", 0);
    if (unsure || config->token_file[0] || config->allow_remote)
        return;
    for (size_t i = 0; i < config->listen.count; i++)
        if (!config->listen.addresses[i].loopback)
            config_report_add(
                &loading->report, address_place(loading, "listen", i), "listen",
                "%s can be reached from other machines; that needs api.token_file, or "
                "api.allow_remote: true",
                config_quote(config->listen.addresses[i].text, /* is_url= */ false, quoted));
}

static void check_admin(struct config_loading *loading)
{
    const struct config *config = loading->config;
    char quoted[CONFIG_QUOTED];
    if (config_is_bad(loading, "listen", 0) || config_is_bad(loading, "admin.listen", 0))
        return;
    for (size_t i = 0; i < config->admin.count; i++) {
        const struct config_address *address = &config->admin.addresses[i];
        for (size_t j = 0; j < config->listen.count; j++)
            if ((address->is_unix || address->port) &&
                config_address_same(address, &config->listen.addresses[j]))
                config_report_add(&loading->report, address_place(loading, "admin.listen", i),
                                  "admin.listen", "%s is taken by listen; allowed: another address",
                                  config_quote(address->text, /* is_url= */ false, quoted));
    }
}

void config_relations_check(struct config_loading *loading)
{
    if (loading->config->group_count == 0)
        report_no_group(loading);
    for (size_t i = 0; i < loading->config->group_count; i++)
        check_group(loading, i);
    config_policies_check(loading);
    for (size_t i = 0; i < loading->config->group_count; i++)
        check_replicas_algorithm(loading, i);
    check_waiters(loading);
    check_remote(loading);
    check_admin(loading);
}
