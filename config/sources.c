/* Environment and flags: other spellings of the same keys, for those that are not inside of
 * lists. */
#include "config/sources.h"

#include <ctype.h>
#include <string.h>

#include "config/suggest.h"

static const char PREFIX[] = "LOCKAGENT_";
static const char GROUPS[] = "redis.groups.";

enum { NAME = 160, ORIGIN = 200 };

/* A key that environment or flag name, with the group it belongs to. */
struct target {
    const struct config_key *key;
    char group[64]; /* "": the key is the agent's */
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

/* `tls.ca_file` of `redis.groups.<name>.tls.ca_file`. */
static const char *path_in_group(const struct config_key *key)
{
    return key->path + strlen(GROUPS) + strlen("<name>.");
}

/* `redis.groups.main.node_timeout` -> `LOCKAGENT_REDIS_GROUPS_MAIN_NODE_TIMEOUT` */
static const char *variable_of(const char *path, char name[NAME])
{
    size_t len = (size_t)snprintf(name, NAME, "%s%s", PREFIX, path);
    for (size_t i = 0; i < len && i < NAME - 1; i++)
        name[i] = name[i] == '.' || name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    return name;
}

/* The group that `MAIN` stands for: one of the file, else a new one. */
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

/* Names that others give: what `run` runs gets the first four, and Kubernetes gives the rest
 * to every pod beside a service that is called lockagent or lockagent-something. */
static bool is_foreign(const char *name, size_t len, const char *value)
{
    static const char *const given[] = {"LOCKAGENT_KEY", "LOCKAGENT_TOKEN",
                                        "LOCKAGENT_FENCING_TOKEN", "LOCKAGENT_SLOT"};
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

static void consider(const char *wanted, const char *path, char nearest[NAME], size_t *distance)
{
    char here[NAME];
    /* What all names begin with would make any two of them look alike. */
    size_t far = config_distance(wanted + strlen(PREFIX), variable_of(path, here) + strlen(PREFIX));
    if (far < *distance) {
        *distance = far;
        memcpy(nearest, here, NAME);
    }
}

static void report_unknown_variable(struct config_loading *loading, struct config_place place,
                                    const char *name)
{
    char nearest[NAME] = "", path[CONFIG_PATH];
    size_t distance = SIZE_MAX;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (config_key_is_section(key) || config_key_scope(key) == SCOPE_POLICY)
            continue;
        size_t groups = config_key_scope(key) == SCOPE_GROUP ? loading->config->group_count : 1;
        for (size_t j = 0; j < groups; j++)
            consider(name, config_key_path(key, loading->config, j, path), nearest, &distance);
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

/* The key of `limits.wait` or `redis.groups.main.db`; false: there is none. */
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
