/* The settings of all sources, groups and policies, and suggestions for unknown words. */
#include "config/internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "agent/core/core_assert.h"

/* ---- suggestions ---- */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

enum { WORD = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Keeps three rows of the table. Two swapped neighbours count once. */
size_t config_distance(const char *a, const char *b)
{
    size_t rows[3][WORD + 1], a_len = strlen(a), b_len = strlen(b);
    if (a_len > WORD || b_len > WORD)
        return WORD;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] = least(above[j] + 1, row[j - 1] + 1);
            row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    size_t distance = rows[a_len % 3][b_len];
    if (distance > 1 && least(a_len, b_len) >= 4 && (strstr(a, b) != NULL || strstr(b, a) != NULL))
        return 1;
    return distance;
}

bool config_is_near(const char *name, size_t distance)
{
    size_t len = strlen(name);
    return distance < len && distance <= (len < 4 ? 1 : len / 3 + (len < 6));
}

/* Returns true for `log.level` and `loglevel`, `max_ttl` and `maxTtl`. */
static bool same_letters(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strcspn(a, LETTERS);
        b += strcspn(b, LETTERS);
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

const struct config_key *config_key_nearest(const struct config_key *parent, const char *name)
{
    const struct config_key *nearest = NULL;
    size_t distance = WORD;
    for (size_t i = 0; i < config_key_count; i++) {
        if (!config_key_is_child(parent, &config_keys[i]))
            continue;
        size_t here = config_distance(name, config_key_name(&config_keys[i]));
        if (here < distance) {
            nearest = &config_keys[i];
            distance = here;
        }
    }
    if (nearest != NULL && config_is_near(name, distance))
        return nearest;
    /* A key of this name in another section: `ttl` at the top level. */
    for (size_t i = 0; i < config_key_count; i++)
        if (same_letters(config_keys[i].path, name) ||
            same_letters(config_key_name(&config_keys[i]), name))
            return &config_keys[i];
    return NULL;
}

const char *config_group_nearest(const struct config *config, const char *name)
{
    const char *nearest = NULL;
    size_t distance = SIZE_MAX;
    for (size_t i = 0; i < config->group_count; i++) {
        size_t here = config_distance(name, config->groups[i].name);
        if (here < distance && strcmp(name, config->groups[i].name) != 0) {
            distance = here;
            nearest = config->groups[i].name;
        }
    }
    return nearest != NULL && config_is_near(name, distance) ? nearest : NULL;
}

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

void config_mark_bad(struct config_loading *loading, const char *path, size_t index)
{
    const struct config_key *key = config_key_find(path);
    for (struct config_setting *setting = loading->last; setting != NULL; setting = setting->older)
        if (setting->key == key && setting->index == index)
            setting->bad = true;
}

struct config_place config_place_of(const struct config_loading *loading, const char *path,
                                    size_t index)
{
    const struct config_setting *setting = config_setting_find(loading, path, index);
    enum config_scope scope = config_key_scope(config_key_find(path));
    struct config_place around = scope == SCOPE_GROUP    ? loading->group_places[index]
                                 : scope == SCOPE_POLICY ? loading->policy_places[index]
                                                         : loading->root_place;
    bool is_known = around.line > 0 || around.origin != NULL;
    return setting != NULL ? setting->place : is_known ? around : loading->root_place;
}

const char *config_path_of(const struct config_loading *loading, const char *path, size_t index,
                           char out[CONFIG_PATH])
{
    return config_key_path(config_key_find(path), loading->config, index, out);
}

void config_refuse(struct config_loading *loading, const char *path, size_t index,
                   const char *format, ...)
{
    char full[CONFIG_PATH], what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    config_report_add(&loading->report, config_place_of(loading, path, index),
                      config_path_of(loading, path, index, full), "%s", what);
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

int config_group_add(struct config_loading *loading, const char *name, struct config_place place)
{
    char quoted[CONFIG_QUOTED];
    struct config *config = loading->config;
    /* Only small letters, so the environment can name every group in one way. In YAML, null is
     * nothing. */
    size_t len = strlen(name);
    bool known = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == len;
    if (!known || len == 0 || len >= sizeof(config->groups[0].name) || name[0] == '-' ||
        name[0] == '_' || strcmp(name, "null") == 0) {
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
