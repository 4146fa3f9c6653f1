/* Loads a configuration: runs the passes, and puts every setting into its field over the defaults. */
#include "config/load.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "config/values.h"

/* ---- settings ---- */

struct config_setting *config_setting_add(struct config_loading *loading, const struct config_key *key, size_t index,
                                          const struct config_node *node, struct config_place place, bool bad)
{
    struct config_setting *setting = config_arena_take(&loading->arena, sizeof(*setting));
    if (!setting) {
        loading->out_of_memory = true;
        return NULL;
    }
    *setting = (struct config_setting){
        .key = key, .index = index, .node = node, .place = place, .bad = bad, .older = loading->last};
    if (loading->last)
        loading->last->next = setting;
    else
        loading->first = setting;
    loading->last = setting;
    return setting;
}

const struct config_setting *config_setting_find(const struct config_loading *loading, const char *path, size_t index)
{
    const struct config_key *key = config_key_find(path);
    assert(key);
    for (const struct config_setting *setting = loading->last; setting; setting = setting->older)
        if (setting->key == key && setting->index == index)
            return setting;
    return NULL;
}

/* ---- groups and policies ---- */

static void preset(struct config *config, enum config_scope scope, size_t index)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_key_scope(&config_keys[i]) == scope && !config_key_is_section(&config_keys[i]))
            config_value_preset(&config_keys[i], config_key_field(&config_keys[i], config, index));
}

void config_policy_preset(struct config *config, size_t index)
{
    preset(config, SCOPE_POLICY, index);
}

int config_group_find(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->group_count; i++)
        if (strcmp(config->groups[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Small letters only, so that the environment can name every group in one way; null would be nothing in YAML. */
static bool is_group_name(const char *name)
{
    size_t len = strlen(name);
    bool known = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == len;
    return known && len > 0 && len < sizeof(((struct config_group *)0)->name) && name[0] != '-' && name[0] != '_' &&
           strcmp(name, "null") != 0;
}

int config_group_add(struct config_loading *loading, const char *name, struct config_place place)
{
    char quoted[CONFIG_QUOTED];
    struct config *config = loading->config;
    if (!is_group_name(name)) {
        config_report_add(
            &loading->report, place, "redis.groups",
            "%s is not a name for a group; allowed: 1 to 63 of a-z, 0-9, - and _, a letter or digit first",
            config_quote(name, /* is_url= */ false, quoted));
        loading->groups_unsure = true;
        return -1;
    }
    if (config->group_count == LIMIT_GROUPS) {
        config_report_add(&loading->report, place, "redis.groups", "too many groups; allowed: up to %d", LIMIT_GROUPS);
        loading->groups_unsure = true;
        return -1;
    }
    size_t index = config->group_count++;
    snprintf(config->groups[index].name, sizeof(config->groups[index].name), "%s", name);
    loading->group_places[index] = place;
    preset(config, SCOPE_GROUP, index);
    return (int)index;
}

/* ---- values ---- */

/* In the order of their discovery, so that flags have the last word, and a bad value in the file is told although the
 * environment overrides it. */
static void apply_settings(struct config_loading *loading)
{
    char path[CONFIG_PATH];
    for (struct config_setting *setting = loading->first; setting; setting = setting->next) {
        if (setting->bad || config_key_is_section(setting->key))
            continue;
        setting->bad = !config_value_set(
            &loading->report, setting->key, config_key_path(setting->key, loading->config, setting->index, path),
            setting->node, config_key_field(setting->key, loading->config, setting->index));
    }
}

/* ---- all passes ---- */

static void run_passes(struct config_loading *loading, char *const *environment, const char *const *overrides,
                       size_t override_count)
{
    preset(loading->config, SCOPE_AGENT, 0);
    bool readable = !loading->report.path || config_document_read(&loading->report, &loading->arena, &loading->root);
    if (loading->report.path && readable)
        loading->root_place = loading->root ? loading->root->place : (struct config_place){.line = 1, .column = 1};
    if (readable)
        config_structure_read(loading);
    config_sources_read(loading, environment, overrides, override_count);
    apply_settings(loading);
    if (loading->out_of_memory)
        config_report_add(&loading->report, (struct config_place){0}, NULL, "out of memory");
    else if (readable)
        config_relations_check(loading);
}

bool config_load(const char *path, char *const *environment, const char *const *overrides, size_t override_count,
                 struct config *ret_config, struct config_errors *ret_errors)
{
    memset(ret_errors, 0, sizeof(*ret_errors));
    struct config_loading loading = {.report = {.path = path, .errors = ret_errors}};
    loading.config = calloc(1, sizeof(*loading.config));
    if (loading.config)
        run_passes(&loading, environment, overrides, override_count);
    else
        config_report_add(&loading.report, loading.root_place, NULL, "out of memory");
    bool ok = ret_errors->count == 0;
    if (ok)
        memcpy(ret_config, loading.config, sizeof(*ret_config));
    if (loading.config)
        explicit_bzero(loading.config, sizeof(*loading.config));
    free(loading.config);
    config_arena_free(&loading.arena);
    return ok;
}
