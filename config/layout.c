/* Writes the layout of a group (R23), as agent/core/layout.h describes it. */
#include <stdio.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "config/internal.h"

/* Longer policies of one prefix are replaced by a hash, which is compared as well. */
enum { POLICIES_BYTES = 256, ENTRY_BYTES = 3 * LIMIT_PATTERN_BYTES + 2048 };

/* Text that is built. If a part does not fit, `full` is set, and nothing more is added. */
struct writing {
    char *at;
    size_t len, size;
    bool full;
};

static void add(struct writing *writing, const char *text)
{
    size_t len = strlen(text);
    writing->full = writing->full || len >= writing->size - writing->len;
    if (writing->full)
        return;
    memcpy(writing->at + writing->len, text, len + 1);
    writing->len += len;
}

static void add_encoded(struct writing *writing, const char *text)
{
    for (const char *c = text; *c; c++) {
        char part[4] = {*c, '\0'};
        if (!layout_is_plain(*c))
            snprintf(part, sizeof(part), "%%%02X", (unsigned)(unsigned char)*c);
        add(writing, part);
    }
}

/* ---- policies ---- */

/* Writes the settings of a policy that agents must agree on, and its groups if the prefix has
 * several. */
static void write_terms(const struct config *config, const struct config_policy *policy,
                        bool spreads, char *out, size_t size)
{
    static const char *const algorithms[] = {[ALGORITHM_REDLOCK] = "",
                                             [ALGORITHM_MULTILOCK] = "+multilock",
                                             [ALGORITHM_SINGLE] = "+single"};
    struct writing terms = {.at = out, .size = size};
    char permits[32] = "mutex";
    if (policy->core.permits > 1)
        snprintf(permits, sizeof(permits), "permits-%u", (unsigned)policy->core.permits);
    add(&terms, policy->kind == KIND_RW ? "rw" : permits);
    add(&terms, policy->kind != KIND_RW && policy->order == ORDER_FAIR ? "+fair" : "");
    add(&terms, policy->format == FORMAT_REDISSON ? "+redisson" : "");
    add(&terms, algorithms[policy->core.algorithm]);
    for (uint8_t i = 0; spreads && i < policy->core.group_count; i++) {
        add(&terms, "@");
        add_encoded(&terms, config->groups[policy->core.groups[i]].name);
    }
    CORE_ASSERT(!terms.full);
}

static bool is_under(const struct config *config, size_t policy, const char *prefix)
{
    return strcmp(config->policies[policy].prefix, prefix) == 0;
}

/* Returns the set of groups that the keys of the prefix are in. */
static unsigned groups_of(const struct config *config, const char *prefix)
{
    unsigned groups = 0;
    for (size_t i = 0; i < config->policy_count; i++)
        for (uint8_t g = 0; is_under(config, i, prefix) && g < config->policies[i].core.group_count;
             g++)
            groups |= 1u << config->policies[i].core.groups[g];
    return groups;
}

/* Writes the policies of a prefix in their order: `<match>~<terms>;...`. Those before a last `*`
 * with the same terms as it make no difference and are left out. If that is all, only its terms are
 * written. If the prefix has several groups, the name of this one follows: its masters have only
 * the keys that the policies give to that name. */
static void write_policies(const struct config *config, size_t group, const char *prefix, char *out,
                           size_t size)
{
    struct writing all = {.at = out, .size = size};
    char terms[ENTRY_BYTES], last[ENTRY_BYTES] = "";
    unsigned groups = groups_of(config, prefix);
    bool spreads = (groups & (groups - 1)) != 0;
    size_t end = config->policy_count;
    while (end > 0 && !is_under(config, end - 1, prefix))
        end--;
    CORE_ASSERT(end > 0);
    bool covers = strcmp(config->policies[end - 1].core.match, "*") == 0;
    write_terms(config, &config->policies[end - 1], spreads, last, sizeof(last));
    size_t told = end - 1;
    for (size_t i = told; covers && i-- > 0;) {
        if (!is_under(config, i, prefix))
            continue;
        write_terms(config, &config->policies[i], spreads, terms, sizeof(terms));
        if (strcmp(terms, last) != 0)
            break;
        told = i;
    }
    for (size_t i = 0; i < told; i++) {
        if (!is_under(config, i, prefix))
            continue;
        write_terms(config, &config->policies[i], spreads, terms, sizeof(terms));
        add_encoded(&all, config->policies[i].core.match);
        add(&all, "~");
        add(&all, terms);
        add(&all, ";");
    }
    if (all.len > 0 || !covers) {
        add_encoded(&all, config->policies[end - 1].core.match);
        add(&all, "~");
    }
    add(&all, last);
    if (spreads) {
        add(&all, "!");
        add_encoded(&all, config->groups[group].name);
    }
    CORE_ASSERT(!all.full);
}

static void add_prefix(struct writing *layout, const struct config *config, size_t group,
                       const char *prefix)
{
    static char policies[LIMIT_POLICIES * ENTRY_BYTES];
    char name[LAYOUT_NAME_BYTES];
    write_policies(config, group, prefix, policies, sizeof(policies));
    add_encoded(layout, prefix);
    add(layout, "=");
    if (strlen(policies) <= POLICIES_BYTES) {
        add(layout, policies);
        return;
    }
    layout_name((struct text){policies, strlen(policies)}, name);
    add(layout, "~");
    add(layout, name);
}

/* ---- the layout ---- */

/* Returns the next of the group's prefixes in the order of their encoded bytes; NULL: none. */
static const char *prefix_after(const struct config *config, size_t group, const char *after)
{
    char last[3 * sizeof(config->policies[0].prefix)] = "",
                  best[3 * sizeof(config->policies[0].prefix)] = "";
    const char *found = NULL;
    struct writing encoded = {.at = last, .size = sizeof(last)};
    if (after != NULL)
        add_encoded(&encoded, after);
    for (size_t i = 0; i < config->policy_count; i++) {
        char own[sizeof(best)] = "";
        struct writing writing = {.at = own, .size = sizeof(own)};
        if (!config_policy_uses(config, i, group))
            continue;
        add_encoded(&writing, config->policies[i].prefix);
        if ((after != NULL && strcmp(own, last) <= 0) || (found != NULL && strcmp(own, best) >= 0))
            continue;
        found = config->policies[i].prefix;
        memcpy(best, own, sizeof(best));
    }
    return found;
}

/* Writes the names of the masters, sorted. */
static void add_masters(struct writing *layout, const struct config_group *group)
{
    char names[LIMIT_MASTERS][3 * sizeof(group->masters[0].name)];
    for (size_t i = 0; i < group->master_count; i++) {
        char name[sizeof(names[0])] = "";
        struct writing writing = {.at = name, .size = sizeof(name)};
        size_t at = i;
        add_encoded(&writing, group->masters[i].name);
        for (; at > 0 && strcmp(names[at - 1], name) > 0; at--)
            memcpy(names[at], names[at - 1], sizeof(names[0]));
        memcpy(names[at], name, sizeof(names[0]));
    }
    for (size_t i = 0; i < group->master_count; i++) {
        add(layout, " ");
        add(layout, names[i]);
    }
}

size_t config_layout(const struct config *config, size_t group, char text[LAYOUT_BYTES + 1])
{
    struct writing layout = {.at = text, .size = LAYOUT_BYTES + 1};
    char front[32];
    text[0] = '\0';
    snprintf(front, sizeof(front), "w%u %zu ", (unsigned)LAYOUT_WIRE,
             config_group_quorum(config, group));
    add(&layout, front);
    const char *prefix = prefix_after(config, group, NULL);
    if (prefix == NULL)
        add(&layout, "-=-"); /* No policy uses the group. */
    for (bool first = true; prefix != NULL; first = false) {
        add(&layout, first ? "" : ",");
        add_prefix(&layout, config, group, prefix);
        prefix = prefix_after(config, group, prefix);
    }
    add_masters(&layout, &config->groups[group]);
    return layout.full ? 0 : layout.len;
}

static_assert(LIMIT_GROUPS <= 8, "a set of groups is a uint8_t");

uint8_t config_group_kin(const struct config *config, size_t group)
{
    unsigned kin = 1u << group;
    for (size_t i = 0; i < config->policy_count; i++)
        if (config_policy_uses(config, i, group))
            kin |= groups_of(config, config->policies[i].prefix);
    return (uint8_t)kin;
}
