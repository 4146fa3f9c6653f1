/* What some source sets, one setting for each key: the structure of the file and the other sources
 * add to them, and the later passes ask for them. */
#ifndef LOCKAGENT_CONFIG_SETTINGS_H
#define LOCKAGENT_CONFIG_SETTINGS_H

#include "config/keys.h"
#include "config/node.h"

/* One key that some source sets. */
struct config_setting {
    const struct config_key *key;
    size_t index;                   /* of the group or policy */
    const struct config_node *node; /* NULL: the key was only meant (a near miss was reported) */
    struct config_place place;      /* of the value */
    bool bad;                       /* reported already: no relation speaks of it */
    struct config_setting *next, *older;
};

/* One loading, which all passes work on. */
struct config_loading {
    struct config_report report;
    struct config_arena arena;
    struct config *config;               /* being filled */
    struct config_node *root;            /* NULL: no file, or an empty one */
    struct config_setting *first, *last; /* as discovered: a later one of the same key overrides */
    struct config_place root_place;
    struct config_place group_places[LIMIT_GROUPS], policy_places[LIMIT_POLICIES];
    size_t policies_written; /* in the file: without the implicit last one */
    bool groups_unsure;      /* a group was refused: no guess about names of groups */
    bool out_of_memory;
};

/* Remembers a setting; sections too, so that relations can ask whether they are there. NULL when
 * out of memory, which the loading remembers. */
struct config_setting *config_setting_add(struct config_loading *loading,
                                          const struct config_key *key, size_t index,
                                          const struct config_node *node, struct config_place place,
                                          bool bad);

/* ---- the setting of a key of the table; `path` as there, `index` of the group or policy ---- */

/* The one that counts: the last. NULL: the key is not set. */
const struct config_setting *config_setting_find(const struct config_loading *loading,
                                                 const char *path, size_t index);
bool config_is_set(const struct config_loading *loading, const char *path, size_t index);
/* It is set, and wrong; that is reported already. */
bool config_is_bad(const struct config_loading *loading, const char *path, size_t index);
struct config_place config_place_of(const struct config_loading *loading, const char *path,
                                    size_t index, struct config_place otherwise);
/* The path as users write it. */
const char *config_path_of(const struct config_loading *loading, const char *path, size_t index,
                           char out[CONFIG_PATH]);

/* ---- groups and policies ---- */

/* Gives the agent, a group or a policy its defaults. */
void config_preset(struct config *config, enum config_scope scope, size_t index);
/* Looks a group up by name; -1: there is none. */
int config_group_find(const struct config *config, const char *name);
/* Adds a group with its defaults; -1, reported, where the name or the number of groups is not
 * allowed. */
int config_group_add(struct config_loading *loading, const char *name, struct config_place place);

#endif
