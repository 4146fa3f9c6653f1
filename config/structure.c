/* The second pass: compares the tree with the table of keys and turns it into settings. */
#include "config/structure.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "config/suggest.h"

enum { NAMES = 256 /* of the keys of a section, for a message */ };

/* A mapping whose keys are known: one section, group or policy. */
struct level {
    const struct config_key *section; /* NULL: the top level */
    size_t index;
};

static void read_map(struct config_loading *loading, struct level level,
                     const struct config_node *map);

/* `section.name` as the user would write it. */
static const char *path_below(const struct config_loading *loading, struct level level,
                              const char *name, char *path)
{
    char above[CONFIG_PATH] = "";
    if (level.section != NULL)
        config_key_path(level.section, loading->config, level.index, above);
    snprintf(path, CONFIG_PATH, "%.110s%s%.64s", above, level.section != NULL ? "." : "", name);
    return path;
}

static void list_names(const struct config_key *section, char *names, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < config_key_count && used < size; i++)
        if (config_key_is_child(section, &config_keys[i]))
            used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "",
                                     config_key_name(&config_keys[i]));
}

static void report_unknown(struct config_loading *loading, struct level level,
                           const struct config_node *name)
{
    char path[CONFIG_PATH], meant[CONFIG_PATH], names[NAMES] = "";
    const struct config_key *nearest = config_key_nearest(level.section, name->text);
    path_below(loading, level, name->text, path);
    if (strchr(name->text, '.') != NULL) {
        config_report_add(&loading->report, name->place, path,
                          "unknown key; keys are nested, not joined by dots: `log: {level: info}`, "
                          "not `log.level: info`");
        return;
    }
    if (nearest == NULL) {
        list_names(level.section, names, sizeof(names));
        config_report_add(&loading->report, name->place, path, "unknown key; allowed here: %s",
                          names);
        return;
    }
    bool near = config_key_is_child(level.section, nearest);
    config_report_add(&loading->report, name->place, path, "unknown key; did you mean %s?",
                      near ? config_key_path(nearest, loading->config, level.index, meant)
                           : nearest->path);
    size_t index = near ? level.index : 0;
    if (config_setting_find(loading, nearest->path, index) == NULL)
        config_setting_add(loading, nearest, index, NULL, name->place, true);
}

/* Reports a section of the wrong kind; nothing at all is an empty one, as where all of its keys are
 * commented out. */
static bool is_kind(struct config_loading *loading, const struct config_node *node,
                    enum config_node_kind kind, const char *path, const char *allowed)
{
    if (node->kind == kind || config_node_is_null(node))
        return true;
    if (node->kind != NODE_BROKEN)
        config_report_add(&loading->report, node->place, path, "%s where %s belongs",
                          config_node_kind_name(node), allowed);
    return false;
}

static bool read_named(struct config_loading *loading, const struct config_node *map)
{
    const struct config_key *group = config_key_find("redis.groups.<name>");
    char path[CONFIG_PATH];
    if (!is_kind(loading, map, NODE_MAP, "redis.groups", "a mapping of names to groups"))
        return false;
    for (const struct config_node *name = map->first; name != NULL; name = name->next->next) {
        if (name->kind != NODE_SCALAR) {
            if (name->kind != NODE_BROKEN)
                config_report_add(&loading->report, name->place, "redis.groups",
                                  "%s where a name belongs", config_node_kind_name(name));
            loading->groups_unsure = true;
            continue;
        }
        int known = config_group_find(loading->config, name->text);
        if (known >= 0) {
            config_report_add(&loading->report, name->place,
                              config_key_path(group, loading->config, (size_t)known, path),
                              "doubled key; first set on line %d",
                              loading->group_places[known].line);
            continue;
        }
        int index = config_group_add(loading, name->text, name->place);
        if (index < 0)
            continue;
        config_key_path(group, loading->config, (size_t)index, path);
        bool ok = is_kind(loading, name->next, NODE_MAP, path, "a mapping");
        config_setting_add(loading, group, (size_t)index, name->next, name->place, !ok);
        if (ok)
            read_map(loading, (struct level){group, (size_t)index}, name->next);
    }
    return true;
}

static bool read_items(struct config_loading *loading, const struct config_node *list)
{
    const struct config_key *policy = config_key_find("policies[]");
    char path[CONFIG_PATH];
    if (!is_kind(loading, list, NODE_LIST, "policies", "a list of mappings"))
        return false;
    for (const struct config_node *item = list->first; item != NULL; item = item->next) {
        size_t index = loading->policies_written;
        if (index == LIMIT_POLICIES) {
            config_report_add(&loading->report, item->place, "policies",
                              "too many; allowed: up to %d", LIMIT_POLICIES);
            return false;
        }
        loading->policies_written++;
        loading->config->policy_count++;
        loading->policy_places[index] = item->place;
        config_preset(loading->config, SCOPE_POLICY, index);
        bool ok = is_kind(loading, item, NODE_MAP,
                          config_key_path(policy, loading->config, index, path), "a mapping");
        config_setting_add(loading, policy, index, item, item->place, !ok);
        if (ok)
            read_map(loading, (struct level){policy, index}, item);
    }
    return true;
}

static void read_key(struct config_loading *loading, struct level level,
                     const struct config_key *key, const struct config_node *name,
                     const struct config_node *value)
{
    char path[CONFIG_PATH];
    bool ok = true;
    /* Nothing is written where an empty value would stand: its key is what people look for. */
    struct config_place place = config_node_is_null(value) ? name->place : value->place;
    if (key->type == TYPE_NAMED)
        ok = read_named(loading, value);
    else if (key->type == TYPE_ITEMS)
        ok = read_items(loading, value);
    else if (key->type == TYPE_SECTION)
        ok = is_kind(loading, value, NODE_MAP,
                     config_key_path(key, loading->config, level.index, path), "a mapping");
    if (key->type == TYPE_SECTION && ok)
        read_map(loading, (struct level){key, level.index}, value);
    config_setting_add(loading, key, level.index, value, place, !ok);
}

static void read_map(struct config_loading *loading, struct level level,
                     const struct config_node *map)
{
    int *lines = calloc(config_key_count, sizeof(*lines));
    char path[CONFIG_PATH];
    if (lines == NULL) {
        loading->out_of_memory = true;
        return;
    }
    for (const struct config_node *name = map->first; name != NULL; name = name->next->next) {
        CORE_ASSERT(name->next != NULL);
        const struct config_key *key =
            name->kind == NODE_SCALAR ? config_key_child(level.section, name->text) : NULL;
        if (name->kind != NODE_SCALAR) {
            if (name->kind != NODE_BROKEN)
                config_report_add(&loading->report, name->place, NULL, "%s where a key belongs",
                                  config_node_kind_name(name));
        } else if (key == NULL) {
            report_unknown(loading, level, name);
        } else if (lines[key - config_keys]) {
            config_report_add(&loading->report, name->place,
                              config_key_path(key, loading->config, level.index, path),
                              "doubled key; first set on line %d", lines[key - config_keys]);
        } else {
            lines[key - config_keys] = name->place.line;
            read_key(loading, level, key, name, name->next);
        }
    }
    free(lines);
}

void config_structure_read(struct config_loading *loading)
{
    if (loading->root == NULL)
        return;
    if (is_kind(loading, loading->root, NODE_MAP, NULL, "a mapping of keys such as `redis:`")) {
        read_map(loading, (struct level){NULL, 0}, loading->root);
        return;
    }
    config_setting_add(loading, config_key_find("redis"), 0, NULL, loading->root_place, true);
}
