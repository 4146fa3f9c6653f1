/* The functions that the files of the room share: a section for each file, from the bottom up.
 * Private to config. */
#ifndef LOCKAGENT_CONFIG_INTERNAL_H
#define LOCKAGENT_CONFIG_INTERNAL_H

#include <stdio.h>

#include "config/config.h"

/* ---- keys.c: the table of keys ---- */

/* Sections hold other keys; the rest hold values. */
enum config_type {
    TYPE_SECTION,  /* a mapping of known keys */
    TYPE_NAMED,    /* a mapping of names that the user chooses: <path>.<name> */
    TYPE_ITEMS,    /* a list of mappings: <path>[] */
    TYPE_DURATION, /* kept in ms */
    TYPE_SIZE,     /* kept in bytes */
    TYPE_COUNT,
    TYPE_PERCENT,   /* kept in parts per million */
    TYPE_MODE,      /* octal */
    TYPE_FLAG,      /* true, false */
    TYPE_SWITCH,    /* on, off; also true, false */
    TYPE_CHOICE,    /* one of `words`, kept as min + its rank */
    TYPE_TEXT,      /* min..max bytes */
    TYPE_PATTERN,   /* TEXT with `*` and `?`; runs of `*` are folded */
    TYPE_ADDRESSES, /* struct config_listener: one or a list of min..max */
    TYPE_MASTERS,   /* a list of min..max URLs */
    TYPE_HOSTS,     /* a list of min..max host names */
    TYPE_GROUPS,    /* names of groups: one if max is 1, otherwise a list */
};

/* A key belongs to the agent, to each group, or to each policy. */
enum config_scope { SCOPE_AGENT, SCOPE_GROUP, SCOPE_POLICY };

enum { KEY_REQUIRED = 1, KEY_RELOADABLE = 2 };

struct config_key {
    const char *path; /* `<name>`: a group's name; `[]`: one policy */
    enum config_type type;
    unsigned flags;
    size_t offset, size;  /* The field in struct config, config_group or config_policy. */
    const char *preset;   /* The default, as users write it. NULL: none. */
    const char *example;  /* The sample's value if there is no default. */
    int64_t min, max;     /* Limits of the number, length or count. CHOICE: the first word's
                           * number. */
    const char *words[6]; /* CHOICE: the numbers are consecutive. */
    const char *prose;
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

enum { CONFIG_PATH = 192 };

/* Returns true for keys that hold other keys. */
bool config_key_is_section(const struct config_key *key);
/* Returns true if the environment and flags give several values as one text with commas. */
bool config_key_takes_several(const struct config_key *key);
enum config_scope config_key_scope(const struct config_key *key);

/* Looks a path of the table up (`redis.groups.<name>.db`). Returns NULL if there is none. */
const struct config_key *config_key_find(const char *path);
/* Returns the key `name` directly below `parent` (NULL: the top level). */
const struct config_key *config_key_child(const struct config_key *parent, const char *name);
bool config_key_is_child(const struct config_key *parent, const struct config_key *key);
/* Returns the last word of the path. */
const char *config_key_name(const struct config_key *key);

/* Returns the field of the key's value; `index` is that of the group or policy. */
void *config_key_field(const struct config_key *key, struct config *config, size_t index);
/* Returns the path as users write it (`redis.groups.main.db`, `policies[2].ttl`). */
const char *config_key_path(const struct config_key *key, const struct config *config, size_t index,
                            char path[CONFIG_PATH]);

/* Read and set numbers (also flags and choices) of any width. */
int64_t config_key_number(const struct config_key *key, const void *field);
void config_key_set_number(const struct config_key *key, void *field, int64_t number);

/* ---- document.c: reports ---- */

/* The place of a word of the configuration. */
struct config_place {
    int line, column;   /* 1-based. 0: not in the file. */
    const char *origin; /* `flag` or `environment: NAME`, kept by the loading. NULL: the file. */
};

struct config_report {
    const char *path; /* The path of the file. NULL: there is none. */
    struct config_errors *errors;
};

/* Adds `<place>: <key>: <message>`; `key` is a full path, or NULL if no key can be named. Keeps the
 * first 64 in the order of the file and counts all. */
void config_report_add(struct config_report *report, struct config_place place, const char *key,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

enum { CONFIG_QUOTED = 96 };

/* Writes `text` between backquotes, cut to a length that fits a message. With `is_url`, or if it
 * holds `://`, all before the last `@` becomes `***`: no message ever shows a password. */
const char *config_quote(const char *text, bool is_url, char quoted[CONFIG_QUOTED]);

/* ---- document.c: nodes ---- */

enum config_node_kind {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
    NODE_BROKEN, /* Reported already; no pass reads it any more. */
};

struct config_node {
    enum config_node_kind kind;
    bool plain; /* SCALAR: written without quotes, so an empty one means "nothing". */
    struct config_place place;
    const char *text;                        /* SCALAR: UTF-8 without control characters. */
    struct config_node *first, *last, *next; /* LIST: items. MAP: key, value, key, value, ... */
    int count;                               /* LIST, MAP: the number of nodes below. */
    const struct config_node *last_key;      /* MAP: the key that was added last. */
};

/* Memory that is freed as a whole. Zero-initialised: empty. */
struct config_arena {
    struct config_chunk *chunks;
};
/* Returns zeroed memory; NULL when out of memory. */
void *config_arena_take(struct config_arena *arena, size_t size);
void config_arena_free(struct config_arena *arena);

/* Returns a new scalar; NULL when out of memory. If its bytes are no line of text, that is reported
 * under `key` (NULL: the place says enough), and the node is BROKEN. */
struct config_node *config_node_scalar(struct config_report *report, struct config_arena *arena,
                                       struct config_place place, const char *key, const char *text,
                                       size_t len);

void config_node_append(struct config_node *parent, struct config_node *child);

/* Returns true if nothing is written, or `~` or `null`. */
bool config_node_is_null(const struct config_node *node);
/* Returns `a list` and the like, for messages. */
const char *config_node_kind_name(const struct config_node *node);

/* ---- document.c: the document ---- */

enum {
    CONFIG_FILE_BYTES = 1024 * 1024, /* largest file */
    CONFIG_DEPTH = 16,               /* deepest nesting */
    CONFIG_NODES = 10000,            /* most keys and values of one file */
};

/* Reads the file at `report->path`. Returns true and sets `*ret_root` (NULL: the file holds
 * nothing). Returns false, with the errors reported, if there is no tree. Anchors, tags and the
 * like are reported too, but leave a tree. */
bool config_document_read(struct config_report *report, struct config_arena *arena,
                          struct config_node **ret_root);

/* ---- settings.c: suggestions ---- */

/* Returns how many letters must be inserted, removed, replaced or swapped to make `b` of `a`; 1 if
 * one word holds the other. */
size_t config_distance(const char *a, const char *b);
/* Returns true if `distance` is small enough to suggest the other word for `name`. */
bool config_is_near(const char *name, size_t distance);

/* Returns the key that `name` below `parent` may have been meant for, or NULL. */
const struct config_key *config_key_nearest(const struct config_key *parent, const char *name);
/* Returns the name of another group that `name` may have been meant for, or NULL. */
const char *config_group_nearest(const struct config *config, const char *name);

/* ---- settings.c: settings ---- */

/* One key that some source sets. */
struct config_setting {
    const struct config_key *key;
    size_t index;                   /* Index of the group or policy. */
    const struct config_node *node; /* NULL: a similar key was written, and reported. */
    struct config_place place;      /* Position of the value. */
    bool bad;                       /* Reported already; relations with it are silent. */
    struct config_setting *next, *older;
};

/* One loading, on which all passes work. */
struct config_loading {
    struct config_report report;
    struct config_arena arena;
    struct config *config;               /* The result so far. */
    struct config_node *root;            /* NULL: no file, or an empty one. */
    struct config_setting *first, *last; /* In the order of discovery; the last of a key counts. */
    struct config_place root_place;
    struct config_place group_places[LIMIT_GROUPS], policy_places[LIMIT_POLICIES];
    size_t policies_written; /* In the file: without the implicit last one. */
    bool groups_unsure;      /* A group was refused, so a name of a group may be right. */
    bool out_of_memory;
};

/* Keeps a setting, also of a section. Returns NULL when out of memory, which the loading notes. */
struct config_setting *config_setting_add(struct config_loading *loading,
                                          const struct config_key *key, size_t index,
                                          const struct config_node *node, struct config_place place,
                                          bool bad);

/* ---- the setting of a key of the table; `path` as there, `index` of the group or policy ---- */

/* Returns the last setting of the key, which counts; NULL if the key is not set. */
const struct config_setting *config_setting_find(const struct config_loading *loading,
                                                 const char *path, size_t index);
bool config_is_set(const struct config_loading *loading, const char *path, size_t index);
/* Returns true if the key is set to a wrong value, which is reported already. */
bool config_is_bad(const struct config_loading *loading, const char *path, size_t index);
/* Marks the settings of the key as wrong, after their error is reported. */
void config_mark_bad(struct config_loading *loading, const char *path, size_t index);
/* Returns the position of the key; if it is not written, of its group or policy, or of the file. */
struct config_place config_place_of(const struct config_loading *loading, const char *path,
                                    size_t index);
/* Returns the path as users write it. */
const char *config_path_of(const struct config_loading *loading, const char *path, size_t index,
                           char out[CONFIG_PATH]);
/* Reports an error of the key. */
void config_refuse(struct config_loading *loading, const char *path, size_t index,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- groups and policies ---- */

/* Gives the agent, a group or a policy its defaults. */
void config_preset(struct config *config, enum config_scope scope, size_t index);
/* Returns the index of the group of this name; -1 if there is none. */
int config_group_find(const struct config *config, const char *name);
/* Adds a group with its defaults. Returns its index; -1, reported, if the name or the number of
 * groups is not allowed. */
int config_group_add(struct config_loading *loading, const char *name, struct config_place place);

/* ---- values.c: values ---- */

/* Checks a node's kind and value and sets the field. Returns false, with all errors reported, and
 * leaves the field in any state, if the value is wrong. Names of GROUPS are only checked for their
 * kind, because not all groups are known yet. */
bool config_value_set(struct config_report *report, const struct config_key *key, const char *path,
                      const struct config_node *node, void *field);

/* Sets the field to the key's default, if there is one. */
void config_value_preset(const struct config_key *key, void *field);

/* Returns true if two configurations have the same value. */
bool config_value_same(const struct config_key *key, const struct config *a, const struct config *b,
                       size_t index);

/* ---- values.c: allowed values ---- */

enum { CONFIG_ALLOWED = 256 };

/* Returns the allowed values, as `1s to 1h (with ms, s, m or h)`. */
const char *config_key_allowed(const struct config_key *key, char allowed[CONFIG_ALLOWED]);

/* ---- sources.c: environment and flags ---- */

/* Adds the settings of the environment (`environ`-style; NULL: none), then those of the overrides
 * ("key=value"), which count more. */
void config_sources_read(struct config_loading *loading, char *const *environment,
                         const char *const *overrides, size_t override_count);

/* ---- sources.c: sections ---- */

/* Makes settings of `loading->root` (NULL: none). Reports unknown, doubled and misplaced keys. */
void config_structure_read(struct config_loading *loading);

/* ---- relations.c: the table of relations between keys ---- */

/* Checks all rows and reports each relation that is broken. Moves defaults that give way. */
void config_relations_check(struct config_loading *loading);

/* ---- checks.c: all checks between keys ---- */

/* Completes groups and policies, and checks all that must hold between keys. */
void config_check(struct config_loading *loading);

#endif
