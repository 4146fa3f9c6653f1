/* The last pass: what must hold between keys, and the defaults that depend on other keys. A
 * relation is silent where one of its keys is wrong already, and speaks of the key that was
 * written, never of a default that nobody wrote. */
#include "config/relations.h"

#include "config/address.h"
#include "config/policies.h"
#include "config/suggest.h"

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
    for (size_t i = 0; i < group->master_count; i++)
        config_master_complete(&group->masters[i], group->username, group->db);
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
    check_waiters(loading);
    check_remote(loading);
    check_admin(loading);
}
