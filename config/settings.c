/* What some source sets, one setting for each key. */
#include "config/settings.h"

#include <string.h>

#include "agent/core/core_assert.h"
#include "config/values.h"

/* ---- settings ---- */

struct config_setting *config_setting_add(struct config_loading *loading,
                                          const struct config_key *key, size_t index,
                                          const struct config_node *node, struct config_place place,
                                          bool bad)
{
    struct config_setting *setting = config_arena_take(&loading->arena, sizeof(*setting));
    if (setting == NULL) {
        loading->out_of_memory = true;
        return NULL;
    }
    *setting = (struct config_setting){.key = key,
                                       .index = index,
                                       .node = node,
                                       .place = place,
                                       .bad = bad,
                                       .older = loading->last};
    if (loading->last != NULL)
        loading->last->next = setting;
    else
        loading->first = setting;
    loading->last = setting;
    return setting;
}

const struct config_setting *config_setting_find(const struct config_loading *loading,
                                                 const char *path, size_t index)
{
    const struct config_key *key = config_key_find(path);
    CORE_ASSERT(key != NULL);
    for (const struct config_setting *setting = loading->last; setting != NULL;
         setting = setting->older)
        if (setting->key == key && setting->index == index)
            return setting;
    return NULL;
}

bool config_is_set(const struct config_loading *loading, const char *path, size_t index)
{
    return config_setting_find(loading, path, index) != NULL;
}

bool config_is_bad(const struct config_loading *loading, const char *path, size_t index)
{
    const struct config_setting *setting = config_setting_find(loading, path, index);
    return setting != NULL && setting->bad;
}

struct config_place config_place_of(const struct config_loading *loading, const char *path,
                                    size_t index, struct config_place otherwise)
{
    const struct config_setting *setting = config_setting_find(loading, path, index);
    return setting != NULL ? setting->place : otherwise;
}

const char *config_path_of(const struct config_loading *loading, const char *path, size_t index,
                           char out[CONFIG_PATH])
{
    return config_key_path(config_key_find(path), loading->config, index, out);
}

/* ---- groups and policies ---- */

void config_preset(struct config *config, enum config_scope scope, size_t index)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_key_scope(&config_keys[i]) == scope && !config_key_is_section(&config_keys[i]))
            config_value_preset(&config_keys[i], config_key_field(&config_keys[i], config, index));
}

int config_group_find(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->group_count; i++)
        if (strcmp(config->groups[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Small letters only, so that the environment can name every group in one way; null would be
 * nothing in YAML. */
static bool is_group_name(const char *name)
{
    size_t len = strlen(name);
    bool known = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == len;
    return known && len > 0 && len < sizeof(((struct config_group *)0)->name) && name[0] != '-' &&
           name[0] != '_' && strcmp(name, "null") != 0;
}

int config_group_add(struct config_loading *loading, const char *name, struct config_place place)
{
    char quoted[CONFIG_QUOTED];
    struct config *config = loading->config;
    if (!is_group_name(name)) {
        config_report_add(&loading->report, place, "redis.groups",
                          "%s is not a name for a group; allowed: 1 to 63 of a-z, 0-9, - and _, a "
                          "letter or digit first",
                          config_quote(name, /* is_url= */ false, quoted));
        loading->groups_unsure = true;
        return -1;
    }
    if (config->group_count == LIMIT_GROUPS) {
        config_report_add(&loading->report, place, "redis.groups",
                          "too many groups; allowed: up to %d", LIMIT_GROUPS);
        loading->groups_unsure = true;
        return -1;
    }
    size_t index = config->group_count++;
    snprintf(config->groups[index].name, sizeof(config->groups[index].name), "%s", name);
    loading->group_places[index] = place;
    config_preset(config, SCOPE_GROUP, index);
    return (int)index;
}
