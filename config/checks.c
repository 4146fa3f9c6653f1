/* The last pass: completes groups and policies, and checks conditions between keys. The checks here
 * have an algorithm of their own; the table in relations.c has all others. */
#include "config/internal.h"

#include <string.h>

#include "agent/core/core_assert.h"
#include "config/address.h"

/* ---- groups ---- */

static const char masters_path[] = "redis.groups.<name>.masters";

static void report_no_group(struct config_loading *loading)
{
    static const char needed[] = "needed is at least redis.groups.main.masters, a list of URLs "
                                 "such as redis://127.0.0.1:7001";
    if (loading->groups_unsure || config_is_bad(loading, "redis", 0) ||
        config_is_bad(loading, "redis.groups", 0) || config_is_bad(loading, masters_path, 0))
        return;
    if (loading->report.path != NULL && loading->root == NULL)
        config_report_add(&loading->report, loading->root_place, NULL, "the file is empty; %s",
                          needed);
    else
        config_report_add(&loading->report, config_place_of(loading, "redis", 0),
                          config_is_set(loading, "redis", 0) ? "redis.groups" : "redis",
                          "missing; %s", needed);
}

/* Refuses a group without masters, and completes the others. */
static void check_group(struct config_loading *loading, size_t index)
{
    static const char name_path[] = "redis.groups.<name>.tls.server_name",
                      timeout_path[] = "redis.groups.<name>.replicas.timeout";
    enum { REPLICAS_TIMEOUT_MS = 100 };
    struct config_group *group = &loading->config->groups[index];
    if (group->master_count == 0 && !config_is_bad(loading, "redis.groups.<name>", index) &&
        !config_is_bad(loading, masters_path, index)) {
        /* A variable with a misspelt name makes a group of its own. */
        bool is_variable = loading->group_places[index].origin != NULL;
        const char *meant = is_variable ? config_group_nearest(loading->config, group->name) : NULL;
        config_refuse(loading, masters_path, index,
                      "missing; needed is a list of URLs such as redis://127.0.0.1:7001%s%s%s",
                      meant != NULL ? " (did you mean the group " : "", meant != NULL ? meant : "",
                      meant != NULL ? "?)" : "");
    }
    if (strpbrk(group->tls.server_name, "/@[] *") != NULL &&
        !config_is_bad(loading, name_path, index))
        config_refuse(loading, name_path, index, "is not a name or an address (without a port)");
    for (size_t i = 0; i < group->master_count; i++)
        config_master_complete(&group->masters[i], group->username, group->db);
    if (group->replicas_ack > 0 && !config_is_set(loading, timeout_path, index))
        group->replicas_timeout_ms = REPLICAS_TIMEOUT_MS;
}

/* ---- policies ---- */

/* Adds one of the groups that the policy names; they are sorted. */
static void add_group(struct config_loading *loading, size_t index, const char *path,
                      const struct config_node *name)
{
    struct core_policy *policy = &loading->config->policies[index].core;
    char full[CONFIG_PATH], quoted[CONFIG_QUOTED];
    int group = config_group_find(loading->config, name->text);
    bool is_twin = group >= 0 && memchr(policy->groups, group, policy->group_count) != NULL;
    if (group >= 0 && !is_twin) {
        uint8_t at = policy->group_count++;
        for (; at > 0 && policy->groups[at - 1] > group; at--)
            policy->groups[at] = policy->groups[at - 1];
        policy->groups[at] = (uint8_t)group;
        return;
    }
    const char *meant = is_twin ? NULL : config_group_nearest(loading->config, name->text);
    config_quote(name->text, /* is_url= */ false, quoted);
    config_path_of(loading, path, index, full);
    if (is_twin)
        config_report_add(&loading->report, name->place, full, "%s is listed twice", quoted);
    else if (!loading->groups_unsure)
        config_report_add(&loading->report, name->place, full,
                          "%s is not a group of redis.groups%s%s%s", quoted,
                          meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "",
                          meant != NULL ? "?" : "");
}

static void take_default_group(struct config_loading *loading, size_t index)
{
    static const char path[] = "policies[].group";
    struct config *config = loading->config;
    struct core_policy *policy = &config->policies[index].core;
    int group = config->group_count == 1 ? 0 : config_group_find(config, "main");
    if (group >= 0)
        policy->groups[policy->group_count++] = (uint8_t)group;
    else if (loading->groups_unsure || config->group_count == 0)
        return;
    else if (index < loading->policies_written)
        config_refuse(
            loading, path, index,
            "missing; it has a default only if a group is called main or is the only one");
    else
        config_report_add(&loading->report, config_place_of(loading, "policies", 0), "policies",
                          "no group for the other keys: call one main, or end the list with a "
                          "policy for `*` that names its group");
}

/* Looks the policy's groups up; none if the policy names both `group` and `groups`. */
static void take_groups(struct config_loading *loading, size_t index)
{
    const struct config_setting *one = config_setting_find(loading, "policies[].group", index),
                                *several = config_setting_find(loading, "policies[].groups", index),
                                *named = one != NULL ? one : several;
    if ((one != NULL && several != NULL) || (named != NULL && named->bad))
        return;
    if (named == NULL) {
        take_default_group(loading, index);
        return;
    }
    if (named->node->kind != NODE_LIST)
        add_group(loading, index, named->key->path, named->node);
    else
        for (const struct config_node *name = named->node->first; name != NULL; name = name->next)
            add_group(loading, index, named->key->path, name);
}

/* Returns true if `wide` matches every key that `narrow` does. Matches one pattern against the
 * other: a `*` takes any text with `*` and `?`, a `?` takes any byte but `*`. Some hidden policies
 * are not found, but a policy that applies is never called hidden. */
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
    static const char path[] = "policies[].match";
    const struct config *config = loading->config;
    if (config_is_bad(loading, path, index))
        return;
    if (!config_is_set(loading, path, index)) {
        config_refuse(loading, path, index, "missing; needed is a pattern such as jobs/* or *");
        return;
    }
    for (size_t i = 0; i < index; i++) {
        if (!config->policies[i].core.match[0] ||
            !covers(config->policies[i].core.match, config->policies[index].core.match))
            continue;
        config_refuse(loading, path, index,
                      "never applies: policies[%zu] above matches all of its keys; the first match "
                      "wins",
                      i);
        return;
    }
}

/* Refuses a prefix with which a lock could be stored among the agent's keys, under `lockagent:`. */
static void check_prefix(struct config_loading *loading, size_t index)
{
    static const char path[] = "policies[].prefix", ours[] = "lockagent:";
    const char *prefix = loading->config->policies[index].prefix;
    size_t len = strlen(prefix), shared = len < strlen(ours) ? len : strlen(ours);
    if (len > 0 && strncmp(prefix, ours, shared) == 0)
        config_refuse(loading, path, index,
                      "`%s` can lead into the agent's own keys, lockagent:*; allowed: any other "
                      "prefix",
                      prefix);
}

/* Adds the last policy for `*` if there is none. */
static void add_last_policy(struct config_loading *loading)
{
    struct config *config = loading->config;
    size_t last = config->policy_count;
    if (config_is_bad(loading, "policies", 0) ||
        (last > 0 && strcmp(config->policies[last - 1].core.match, "*") == 0))
        return;
    if (last == LIMIT_POLICIES) {
        config_report_add(&loading->report, config_place_of(loading, "policies", 0), "policies",
                          "too many; allowed: up to %d, or %d with one for `*` at the end",
                          LIMIT_POLICIES - 1, LIMIT_POLICIES);
        return;
    }
    config->policy_count++;
    config_preset(config, SCOPE_POLICY, last);
    strcpy(config->policies[last].core.match, "*");
    take_groups(loading, last);
}

static void check_policies(struct config_loading *loading)
{
    for (size_t i = 0; i < loading->policies_written; i++) {
        if (config_is_bad(loading, "policies[]", i))
            continue;
        take_groups(loading, i);
        check_match(loading, i);
        check_prefix(loading, i);
    }
    add_last_policy(loading);
}

/* Returns the form of a policy. The table excludes combinations that have no form. */
static enum form form_of(const struct config_policy *policy)
{
    return policy->format == FORMAT_REDISSON ? FORM_REDISSON
           : policy->kind == KIND_RW         ? FORM_SHARED
           : policy->core.permits > 1        ? FORM_SLOTS
           : policy->order == ORDER_FAIR     ? FORM_FAIR
                                             : FORM_PLAIN;
}

/* Refuses a group whose layout is too long to be noted on its masters (R23). */
static void check_layouts(struct config_loading *loading)
{
    char text[LAYOUT_BYTES + 1];
    for (size_t i = 0; i < loading->config->group_count && loading->report.errors->count == 0; i++)
        if (config_layout(loading->config, i, text) == 0)
            config_refuse(loading, masters_path, i,
                          "the prefixes of its policies and the names of its masters have more "
                          "than %d bytes together; allowed: shorter or fewer ones",
                          LAYOUT_BYTES);
}

/* Returns the first master of group `a` that is in group `b` as well; NULL: there is none. */
static const struct config_master *common_master(const struct config_group *a,
                                                 const struct config_group *b)
{
    for (size_t i = 0; i < a->master_count; i++)
        for (size_t j = 0; j < b->master_count; j++)
            if (strcmp(a->masters[i].name, b->masters[j].name) == 0)
                return &a->masters[i];
    return NULL;
}

/* Refuses two groups that would refuse each other on a master that both have (R23). */
static void check_common_masters(struct config_loading *loading)
{
    const struct config *config = loading->config;
    for (size_t i = 1; i < config->group_count && loading->report.errors->count == 0; i++)
        for (size_t j = 0; j < i; j++) {
            const struct config_group *group = &config->groups[i], *other = &config->groups[j];
            const struct config_master *common = common_master(group, other);
            char texts[2][LAYOUT_BYTES + 1];
            struct layout layouts[2];
            if (common == NULL || !config_group_has_layout(config, i) ||
                !config_group_has_layout(config, j))
                continue;
            for (size_t k = 0; k < 2; k++) {
                size_t len = config_layout(config, k == 0 ? i : j, texts[k]);
                bool is_layout = layout_parse((struct text){texts[k], len}, &layouts[k]);
                CORE_ASSERT(is_layout);
            }
            if (layout_compare(&layouts[0], &layouts[1]) != LAYOUT_NEIGHBOURS)
                config_refuse(loading, masters_path, i,
                              "%s is in redis.groups.%s as well, and both groups have locks with "
                              "the same prefix: they would refuse each other; allowed: a master "
                              "in one of them",
                              common->name, other->name);
        }
}

/* ---- listeners ---- */

/* Returns the place of one address; in a list, that of its item. */
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

/* D9: refuses an API that other machines can reach, unless it has a token or was opened on purpose.
 * */
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

/* ---- all of them ---- */

void config_check(struct config_loading *loading)
{
    struct config *config = loading->config;
    if (config->group_count == 0)
        report_no_group(loading);
    for (size_t i = 0; i < config->group_count; i++)
        check_group(loading, i);
    check_policies(loading);
    config_relations_check(loading);
    for (size_t i = 0; i < config->policy_count; i++)
        config->policies[i].core.form = form_of(&config->policies[i]);
    check_layouts(loading);
    check_common_masters(loading);
    check_remote(loading);
    check_admin(loading);
}
