/* Makes settings of the file's tree, of the environment and of flags. The latter two can name every
 * key that is not inside a list. */
#include "config/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"

static const char PREFIX[] = "LOCKAGENT_";
static const char GROUPS[] = "redis.groups.";

enum { NAME = 160, ORIGIN = 200 };

/* A key that the environment or a flag names, with its group. */
struct target {
    const struct config_key *key;
    char group[64]; /* "": the key is the agent's. */
};

/* ---- from a target to a setting ---- */

static struct config_node *split_list(struct config_loading *loading, struct config_place place,
                                      const char *key, const char *text)
{
    struct config_node *list = config_arena_take(&loading->arena, sizeof(*list));
    if (list == NULL)
        return NULL;
    list->kind = NODE_LIST;
    list->place = place;
    while (*text) {
        size_t len = strcspn(text, ","), begin = strspn(text, " "), end = len;
        while (end > begin && text[end - 1] == ' ')
            end--;
        begin = begin > end ? end : begin;
        struct config_node *item = config_node_scalar(&loading->report, &loading->arena, place, key,
                                                      text + begin, end - begin);
        if (item == NULL)
            return NULL;
        config_node_append(list, item);
        text += len + (text[len] == ',');
    }
    return list;
}

static void set_target(struct config_loading *loading, const struct target *target,
                       struct config_place place, const char *key, const char *text)
{
    int index = 0;
    if (target->group[0]) {
        index = config_group_find(loading->config, target->group);
        if (index < 0)
            index = config_group_add(loading, target->group, place);
        if (index < 0)
            return;
    }
    struct config_node *node =
        config_key_takes_several(target->key)
            ? split_list(loading, place, key, text)
            : config_node_scalar(&loading->report, &loading->arena, place, key, text, strlen(text));
    if (node != NULL)
        config_setting_add(loading, target->key, (size_t)index, node, place,
                           node->kind == NODE_BROKEN);
    else
        loading->out_of_memory = true;
}

/* ---- environment ---- */

/* Returns `tls.ca_file` of `redis.groups.<name>.tls.ca_file`. */
static const char *path_in_group(const struct config_key *key)
{
    return key->path + strlen(GROUPS) + strlen("<name>.");
}

/* Makes `LOCKAGENT_REDIS_GROUPS_MAIN_NODE_TIMEOUT` of `redis.groups.main.node_timeout`. */
static const char *variable_of(const char *path, char name[NAME])
{
    size_t len = (size_t)snprintf(name, NAME, "%s%s", PREFIX, path);
    for (size_t i = 0; i < len && i < NAME - 1; i++)
        name[i] = name[i] == '.' || name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    return name;
}

/* Finds the group that `MAIN` means: one of the file, otherwise a new one. */
static void name_group(const struct config *config, const char *segment, size_t len, char group[64])
{
    char wanted[NAME], here[NAME];
    snprintf(wanted, sizeof(wanted), "%s%.*s", PREFIX, (int)len, segment);
    for (size_t i = 0; i < config->group_count; i++) {
        if (strcmp(variable_of(config->groups[i].name, here), wanted) == 0) {
            snprintf(group, 64, "%s", config->groups[i].name);
            return;
        }
    }
    for (size_t i = 0; i < len; i++)
        group[i] = (char)tolower((unsigned char)segment[i]);
    group[len] = '\0';
}

static bool find_group_variable(const struct config *config, const char *name, struct target *ret)
{
    char above[NAME], behind[NAME];
    size_t len = strlen(name), above_len = strlen(variable_of(GROUPS, above));
    if (len <= above_len || strncmp(name, above, above_len) != 0)
        return false;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (config_key_scope(key) != SCOPE_GROUP || config_key_is_section(key))
            continue;
        variable_of(path_in_group(key), behind);
        const char *suffix = behind + strlen(PREFIX) - 1; /* with its underscore */
        size_t suffix_len = strlen(suffix);
        if (len <= above_len + suffix_len || strcmp(name + len - suffix_len, suffix) != 0)
            continue;
        size_t group_len = len - above_len - suffix_len;
        if (group_len >= sizeof(ret->group))
            return false;
        ret->key = key;
        name_group(config, name + above_len, group_len, ret->group);
        return true;
    }
    return false;
}

static bool find_variable(const struct config *config, const char *name, struct target *ret)
{
    char here[NAME];
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (config_key_scope(key) == SCOPE_AGENT && !config_key_is_section(key) &&
            strcmp(variable_of(key->path, here), name) == 0) {
            *ret = (struct target){.key = key};
            return true;
        }
    }
    return find_group_variable(config, name, ret);
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t end_len = strlen(end);
    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

/* Returns true for names that are not settings. `run` gives those in the list to its command.
 * Kubernetes gives the others to every pod if a service is called lockagent or lockagent-something.
 * */
static bool is_foreign(const char *name, size_t len, const char *value)
{
    static const char *const given[] = {"LOCKAGENT_KEY", "LOCKAGENT_TOKEN",
                                        "LOCKAGENT_FENCING_TOKEN", "LOCKAGENT_FENCING_TOKENS",
                                        "LOCKAGENT_SLOT"};
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
        if (strlen(given[i]) == len && memcmp(given[i], name, len) == 0)
            return true;
    if (ends_with(name, len, "_SERVICE_HOST") ||
        memmem(name, len, "_SERVICE_PORT", strlen("_SERVICE_PORT")) != NULL)
        return true;
    if (ends_with(name, len, "_PORT") && strstr(value, "://") != NULL)
        return true;
    const char *port = memmem(name, len, "_PORT_", strlen("_PORT_"));
    return port != NULL && isdigit((unsigned char)port[strlen("_PORT_")]);
}

static void report_unknown_variable(struct config_loading *loading, struct config_place place,
                                    const char *name)
{
    char nearest[NAME] = "", here[NAME], path[CONFIG_PATH];
    size_t distance = SIZE_MAX;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (config_key_is_section(key) || config_key_scope(key) == SCOPE_POLICY)
            continue;
        size_t groups = config_key_scope(key) == SCOPE_GROUP ? loading->config->group_count : 1;
        for (size_t j = 0; j < groups; j++) {
            variable_of(config_key_path(key, loading->config, j, path), here);
            /* The common prefix would make any two names similar. */
            size_t far = config_distance(name + strlen(PREFIX), here + strlen(PREFIX));
            if (far < distance) {
                distance = far;
                memcpy(nearest, here, NAME);
            }
        }
    }
    if (strncmp(name, "LOCKAGENT_POLICIES", strlen("LOCKAGENT_POLICIES")) == 0)
        config_report_add(&loading->report, place, NULL, "policies can only be set in the file");
    else if (config_is_near(name + strlen(PREFIX), distance))
        config_report_add(&loading->report, place, NULL, "unknown variable; did you mean %s?",
                          nearest);
    else
        config_report_add(&loading->report, place, NULL,
                          "unknown variable; allowed: LOCKAGENT_ and a key's path in upper case, "
                          "as LOCKAGENT_LIMITS_MAX_TTL");
}

static void read_variable(struct config_loading *loading, const char *entry)
{
    size_t len = strcspn(entry, "=");
    if (strncmp(entry, PREFIX, strlen(PREFIX)) != 0 || entry[len] != '=' ||
        is_foreign(entry, len, entry + len + 1))
        return;
    char *origin = config_arena_take(&loading->arena, ORIGIN);
    if (origin == NULL) {
        loading->out_of_memory = true;
        return;
    }
    char name[NAME], path[CONFIG_PATH];
    snprintf(name, sizeof(name), "%.*s", (int)(len < NAME ? len : NAME - 1), entry);
    snprintf(origin, ORIGIN, "environment: %s", name);
    struct config_place place = {.origin = origin};
    struct target target;
    if (!find_variable(loading->config, name, &target)) {
        report_unknown_variable(loading, place, name);
        return;
    }
    snprintf(path, sizeof(path), "%s%s%s%s", target.group[0] ? GROUPS : "", target.group,
             target.group[0] ? "." : "",
             target.group[0] ? path_in_group(target.key) : target.key->path);
    set_target(loading, &target, place, path, entry + len + 1);
}

/* ---- flags ---- */

/* Finds the key of `limits.wait` or `redis.groups.main.db`. Returns false if there is none. */
static bool find_path(const char *path, struct target *ret)
{
    char pattern[CONFIG_PATH];
    const char *group = path + strlen(GROUPS), *dot = NULL;
    memset(ret, 0, sizeof(*ret));
    if (strncmp(path, GROUPS, strlen(GROUPS)) == 0)
        dot = strchr(group, '.');
    if (dot != NULL && (size_t)(dot - group) < sizeof(ret->group)) {
        memcpy(ret->group, group, (size_t)(dot - group));
        snprintf(pattern, sizeof(pattern), "%s<name>%s", GROUPS, dot);
        ret->key = config_key_find(pattern);
    } else if (strpbrk(path, "<[") == NULL) {
        ret->key = config_key_find(path);
    }
    return ret->key != NULL;
}

static void report_unknown_path(struct config_loading *loading, struct config_place place,
                                const char *path)
{
    char above[CONFIG_PATH];
    const char *dot = strrchr(path, '.');
    snprintf(above, sizeof(above), "%.*s", dot != NULL ? (int)(dot - path) : 0, path);
    bool in_group = strncmp(path, GROUPS, strlen(GROUPS)) == 0;
    const struct config_key *nearest = config_key_nearest(
        config_key_find(in_group ? "redis.groups.<name>" : above), dot != NULL ? dot + 1 : path);
    if (strncmp(path, "policies", strlen("policies")) == 0)
        config_report_add(&loading->report, place, path, "policies can only be set in the file");
    else if (nearest != NULL)
        config_report_add(&loading->report, place, path, "unknown key; did you mean %s?",
                          nearest->path);
    else
        config_report_add(&loading->report, place, path,
                          "unknown key; allowed: a path such as log.level");
}

static void read_flag(struct config_loading *loading, const char *entry)
{
    size_t len = strcspn(entry, "=");
    char path[CONFIG_PATH];
    struct config_place place = {.origin = "flag"};
    struct target target;
    snprintf(path, sizeof(path), "%.*s", (int)(len < CONFIG_PATH ? len : CONFIG_PATH - 1), entry);
    if (entry[len] != '=')
        config_report_add(&loading->report, place, path, "no value; allowed: key=value");
    else if (!find_path(path, &target))
        report_unknown_path(loading, place, path);
    else if (target.key->type == TYPE_ITEMS)
        report_unknown_path(loading, place, path);
    else if (config_key_is_section(target.key))
        config_report_add(&loading->report, place, path,
                          "a section, which has no value; allowed: one of its keys");
    else
        set_target(loading, &target, place, path, entry + len + 1);
}

void config_sources_read(struct config_loading *loading, char *const *environment,
                         const char *const *overrides, size_t override_count)
{
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        read_variable(loading, environment[i]);
    for (size_t i = 0; i < override_count; i++)
        read_flag(loading, overrides[i]);
}

/* ---- sections ---- */

/* The second pass: compares the tree with the table of keys and makes settings of it. */

enum { NAMES = 256 /* Bytes of the list of a section's keys, in a message. */ };

/* A mapping whose keys are known: one section, group or policy. */
struct level {
    const struct config_key *section; /* NULL: the top level */
    size_t index;
};

static void read_map(struct config_loading *loading, struct level level,
                     const struct config_node *map);

static void report_unknown(struct config_loading *loading, struct level level,
                           const struct config_node *name)
{
    char above[CONFIG_PATH] = "", path[CONFIG_PATH], meant[CONFIG_PATH], names[NAMES] = "";
    const struct config_key *nearest = config_key_nearest(level.section, name->text);
    if (level.section != NULL)
        config_key_path(level.section, loading->config, level.index, above);
    snprintf(path, sizeof(path), "%.110s%s%.64s", above, level.section != NULL ? "." : "",
             name->text);
    if (strchr(name->text, '.') != NULL) {
        config_report_add(&loading->report, name->place, path,
                          "unknown key; keys are nested, not joined by dots: `log: {level: info}`, "
                          "not `log.level: info`");
        return;
    }
    if (nearest == NULL) {
        for (size_t i = 0, used = 0; i < config_key_count && used < sizeof(names); i++)
            if (config_key_is_child(level.section, &config_keys[i]))
                used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                         used ? ", " : "", config_key_name(&config_keys[i]));
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

/* Reports a section of the wrong kind. Nothing at all is an empty section: all of its keys may be
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
    /* An empty value has no text of its own, so the error is at its key. */
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
