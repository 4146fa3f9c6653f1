/* The last pass: what must hold between keys, and the defaults that depend on other keys. A
 * relation is silent where one of its keys is wrong already, and speaks of the key that was
 * written, never of a default that nobody wrote. */
#include "config/relations.h"

#include <string.h>

#include "config/address.h"
#include "config/policies.h"
#include "config/suggest.h"

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
