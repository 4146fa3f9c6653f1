/* What the passes of config_load() share. They run in this order, and each goes on behind what it finds wrong:
 *
 *   document   (document.c)   bytes -> tree of nodes
 *   structure  (structure.c)  tree -> settings, one per key that is set; unknown, doubled and misplaced keys end here
 *   sources    (sources.c)    environment and flags -> settings
 *   values     (load.c)       each setting into its field, over the defaults
 *   relations  (relations.c)  what must hold between keys; defaults that depend on other keys */
#ifndef LOCKAGENT_CONFIG_LOAD_H
#define LOCKAGENT_CONFIG_LOAD_H

#include "config/document.h"
#include "config/keys.h"

/* One key that some source sets. */
struct config_setting {
    const struct config_key *key;
    size_t index;                   /* of the group or policy */
    const struct config_node *node; /* NULL: none, the key was only meant (a near miss was reported) */
    struct config_place place;      /* of the value */
    bool bad;                       /* reported already: no relation speaks of it */
    struct config_setting *next, *older;
};

struct config_loading {
    struct config_report report;
    struct config_arena arena;
    struct config *config;               /* being filled */
    struct config_node *root;            /* NULL: no file, or an empty one */
    struct config_setting *first, *last; /* in the order of their discovery: a later one of the same key overrides */
    struct config_place root_place;
    struct config_place group_places[LIMIT_GROUPS], policy_places[LIMIT_POLICIES];
    size_t policies_written; /* in the file: without the implicit last one */
    bool groups_unsure;      /* a group was refused: no guess about names of groups */
    bool out_of_memory;
};

/* Remembers a setting; sections too, so that relations can ask whether they are there. */
struct config_setting *config_setting_add(struct config_loading *loading, const struct config_key *key, size_t index,
                                          const struct config_node *node, struct config_place place, bool bad);
/* The one that counts: the last. NULL: the key is not set. */
const struct config_setting *config_setting_find(const struct config_loading *loading, const char *path, size_t index);

/* Looks a group up by name; -1: there is none. */
int config_group_find(const struct config *config, const char *name);
/* Adds a group with its defaults; -1, reported, where the name or the number of groups is not allowed. */
int config_group_add(struct config_loading *loading, const char *name, struct config_place place);
/* Gives a policy its defaults. */
void config_policy_preset(struct config *config, size_t index);

void config_structure_read(struct config_loading *loading);
void config_sources_read(struct config_loading *loading, char *const *environment, const char *const *overrides,
                         size_t override_count);
void config_relations_check(struct config_loading *loading);

#endif
