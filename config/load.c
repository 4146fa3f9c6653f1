/* Loads a configuration: runs the passes, in this order; each goes on behind what it finds wrong.
 *
 *   document    bytes -> tree of nodes
 *   structure   tree -> settings, one per key that is set; here end unknown, doubled and misplaced
 *               keys
 *   sources     environment and flags -> settings
 *   values      each setting into its field, over the defaults
 *   relations   what must hold between keys; defaults that depend on other keys
 *   changes     against what runs: keys that need a restart; of a reload alone */
#include <stdlib.h>
#include <string.h>

#include "config/changes.h"
#include "config/document.h"
#include "config/relations.h"
#include "config/sources.h"
#include "config/structure.h"
#include "config/values.h"

/* In the order of their discovery, so that flags have the last word, and a bad value in the file is
 * told although the environment overrides it. */
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
        config_relations_check(loading);
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
