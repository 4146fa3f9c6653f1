/* Loads a configuration: runs the passes in this order. Each pass goes on after an error.
 *
 *   document    bytes -> tree of nodes
 *   sources     tree -> settings, one per key that is set; refuses unknown, doubled and misplaced
 *               keys. Then environment and flags -> settings
 *   values      each setting into its field, over the defaults
 *   checks      relations between keys; defaults that depend on other keys
 *   changes     (here, at a reload alone) keys that cannot change without a restart */
#include "config/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- changes ---- */

struct comparison {
    const struct config *running, *next;
    struct config_loading *loading; /* Belongs to `next`. */
};

/* Returns the place of the key; if it is not written, that of the nearest section around it. */
static struct config_place place_around(const struct comparison *comparison, const char *path,
                                        size_t index)
{
    char around[CONFIG_PATH], *end = around;
    snprintf(around, sizeof(around), "%s", path);
    while (end != NULL) {
        const struct config_key *key = config_key_find(around);
        size_t here = config_key_scope(key) == SCOPE_AGENT ? 0 : index;
        const struct config_setting *setting =
            config_setting_find(comparison->loading, around, here);
        if (setting != NULL)
            return setting->place;
        /* Cuts `policies[].retry.min` to `policies[].retry`, `policies[]` and `policies`. */
        end = strrchr(around, '.');
        if (end == NULL)
            end = strrchr(around, '[');
        if (end != NULL)
            *end = '\0';
    }
    return comparison->loading->root_place;
}

static void report_changed(struct comparison *comparison, struct config_place place,
                           const char *path, const char *what)
{
    config_report_add(&comparison->loading->report, place, path, "%s; that needs a restart", what);
}

/* Returns true for a default of `order` that follows `kind` (R18): then only kind has changed. */
static bool follows_from_kind(const struct comparison *comparison, const struct config_key *key,
                              size_t index)
{
    return strcmp(key->path, "policies[].order") == 0 &&
           comparison->running->policies[index].kind != comparison->next->policies[index].kind &&
           !config_is_set(comparison->loading, key->path, index);
}

/* R22: returns true if the numbers would come from another key, and so might not rise. */
static bool moves_numbers(const struct comparison *comparison, const struct config_key *key,
                          size_t index)
{
    return strcmp(key->path, "policies[].fencing") == 0 &&
           (comparison->running->policies[index].core.fencing == FENCING_REDISSON ||
            comparison->next->policies[index].core.fencing == FENCING_REDISSON);
}

static void compare_key(struct comparison *comparison, const struct config_key *key, size_t index)
{
    char path[CONFIG_PATH];
    if (config_key_is_section(key) ||
        (key->flags & KEY_RELOADABLE && !moves_numbers(comparison, key, index)))
        return;
    /* `group` and `groups` are two spellings of one field: one of them is reported. */
    if (key->type == TYPE_GROUPS &&
        (key->max == 1) != (comparison->next->policies[index].core.group_count == 1))
        return;
    if (follows_from_kind(comparison, key, index))
        return;
    if (!config_value_same(key, comparison->running, comparison->next, index))
        report_changed(comparison, place_around(comparison, key->path, index),
                       config_key_path(key, comparison->next, index, path), "has changed");
}

static void compare_scope(struct comparison *comparison, enum config_scope scope, size_t index)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_key_scope(&config_keys[i]) == scope)
            compare_key(comparison, &config_keys[i], index);
}

static void report_missing_groups(struct comparison *comparison, const struct config *in,
                                  const struct config *other, const char *what)
{
    const struct config_key *key = config_key_find("redis.groups.<name>");
    char path[CONFIG_PATH];
    for (size_t i = 0; i < in->group_count; i++)
        if (config_group_find(other, in->groups[i].name) < 0)
            report_changed(comparison,
                           in == comparison->next ? comparison->loading->group_places[i]
                                                  : place_around(comparison, "redis.groups", 0),
                           config_key_path(key, in, i, path), what);
}

/* Compares the groups. The agent knows a group by its index, so the order counts as well. */
static void compare_groups(struct comparison *comparison)
{
    const struct config *running = comparison->running, *next = comparison->next;
    report_missing_groups(comparison, running, next, "has been removed");
    report_missing_groups(comparison, next, running, "has been added");
    if (comparison->loading->report.errors->count > 0 || running->group_count != next->group_count)
        return;
    for (size_t i = 0; i < next->group_count; i++) {
        if (strcmp(running->groups[i].name, next->groups[i].name) != 0) {
            report_changed(comparison, place_around(comparison, "redis.groups", 0), "redis.groups",
                           "the order of the groups has changed");
            return;
        }
        compare_scope(comparison, SCOPE_GROUP, i);
    }
}

/* Reports every key that differs from `running` and is not reloadable. The loading must be free of
 * errors. */
static void config_changes_check(struct config_loading *loading, const struct config *running)
{
    struct comparison comparison = {running, loading->config, loading};
    compare_groups(&comparison);
    compare_scope(&comparison, SCOPE_AGENT, 0);
    if (running->policy_count != loading->config->policy_count)
        report_changed(&comparison, place_around(&comparison, "policies", 0), "policies",
                       "their number has changed");
    else
        for (size_t i = 0; i < running->policy_count; i++)
            compare_scope(&comparison, SCOPE_POLICY, i);
}

/* ---- loading ---- */

/* Sets the fields in the order of discovery, so flags count most. A bad value in the file is
 * reported although the environment overrides it. */
static void apply_settings(struct config_loading *loading)
{
    char path[CONFIG_PATH];
    for (struct config_setting *setting = loading->first; setting != NULL;
         setting = setting->next) {
        if (setting->bad || config_key_is_section(setting->key))
            continue;
        setting->bad = !config_value_set(
            &loading->report, setting->key,
            config_key_path(setting->key, loading->config, setting->index, path), setting->node,
            config_key_field(setting->key, loading->config, setting->index));
    }
}

static void run_passes(struct config_loading *loading, char *const *environment,
                       const char *const *overrides, size_t override_count)
{
    config_preset(loading->config, SCOPE_AGENT, 0);
    bool readable = loading->report.path == NULL ||
                    config_document_read(&loading->report, &loading->arena, &loading->root);
    if (loading->report.path != NULL && readable)
        loading->root_place = loading->root != NULL ? loading->root->place
                                                    : (struct config_place){.line = 1, .column = 1};
    if (readable)
        config_structure_read(loading);
    config_sources_read(loading, environment, overrides, override_count);
    apply_settings(loading);
    if (loading->out_of_memory)
        config_report_add(&loading->report, (struct config_place){0}, NULL, "out of memory");
    else if (readable)
        config_check(loading);
}

static bool load(const struct config *running, const char *path, char *const *environment,
                 const char *const *overrides, size_t override_count, struct config *ret_config,
                 struct config_errors *ret_errors)
{
    memset(ret_errors, 0, sizeof(*ret_errors));
    struct config_loading loading = {.report = {.path = path, .errors = ret_errors}};
    loading.config = calloc(1, sizeof(*loading.config));
    if (loading.config != NULL)
        run_passes(&loading, environment, overrides, override_count);
    else
        config_report_add(&loading.report, loading.root_place, NULL, "out of memory");
    if (running != NULL && ret_errors->count == 0)
        config_changes_check(&loading, running);
    bool ok = ret_errors->count == 0;
    if (ok)
        memcpy(ret_config, loading.config, sizeof(*ret_config));
    if (loading.config != NULL)
        explicit_bzero(loading.config, sizeof(*loading.config));
    free(loading.config);
    config_arena_free(&loading.arena);
    return ok;
}

bool config_load(const char *path, char *const *environment, const char *const *overrides,
                 size_t override_count, struct config *ret_config, struct config_errors *ret_errors)
{
    return load(/* running= */ NULL, path, environment, overrides, override_count, ret_config,
                ret_errors);
}

bool config_load_next(const struct config *running, const char *path, char *const *environment,
                      const char *const *overrides, size_t override_count, struct config *ret_next,
                      struct config_errors *ret_errors)
{
    return load(running, path, environment, overrides, override_count, ret_next, ret_errors);
}
