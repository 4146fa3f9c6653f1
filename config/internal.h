/* What the files of the room offer each other: a section for each file, from the bottom up. Private
 * to config. */
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
    TYPE_GROUPS,    /* names of groups: one where max is 1, else a list */
};

/* What a key belongs to: there is one agent, but many groups and policies. */
enum config_scope { SCOPE_AGENT, SCOPE_GROUP, SCOPE_POLICY };

enum { KEY_REQUIRED = 1, KEY_RELOADABLE = 2 };

struct config_key {
    const char *path; /* `<name>`: a group's name; `[]`: one policy */
    enum config_type type;
    unsigned flags;
    size_t offset, size;  /* of the field, within struct config, config_group or config_policy */
    const char *preset;   /* the default, as it would be written; NULL: none */
    const char *example;  /* for the sample, where there is no default */
    int64_t min, max;     /* of the number, length or count of items; CHOICE: the first word */
    const char *words[6]; /* CHOICE: each stands for one more than the one before */
    const char *prose;
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

enum { CONFIG_PATH = 192 };

/* True for keys that hold other keys. */
bool config_key_is_section(const struct config_key *key);
/* True where several values are given as one text with commas (environment, flags). */
bool config_key_takes_several(const struct config_key *key);
enum config_scope config_key_scope(const struct config_key *key);

/* Looks a path of the table up (`redis.groups.<name>.db`); NULL: there is none. */
const struct config_key *config_key_find(const char *path);
/* The key `name` directly below `parent` (NULL: the top level). */
const struct config_key *config_key_child(const struct config_key *parent, const char *name);
bool config_key_is_child(const struct config_key *parent, const struct config_key *key);
/* The last word of the path. */
const char *config_key_name(const struct config_key *key);

/* Where the key's value is kept; `index` is that of the group or policy. */
void *config_key_field(const struct config_key *key, struct config *config, size_t index);
/* The path as users write it (`redis.groups.main.db`, `policies[2].ttl`). */
const char *config_key_path(const struct config_key *key, const struct config *config, size_t index,
                            char path[CONFIG_PATH]);

/* Numbers (also flags and choices) of any width. */
int64_t config_key_number(const struct config_key *key, const void *field);
void config_key_set_number(const struct config_key *key, void *field, int64_t number);

/* ---- document.c: reports ---- */

/* Where a word of the configuration was written. */
struct config_place {
    int line, column;   /* 1-based; 0: not in the file */
    const char *origin; /* NULL: the file; else `flag` or `environment: NAME`, of the loading */
};

struct config_report {
    const char *path; /* of the file; NULL: there is none */
    struct config_errors *errors;
};

/* Adds `<place>: <key>: <message>`; `key` is a full path, or NULL where no key can be named. Keeps
 * the first 64 in the order of the file and counts all. */
void config_report_add(struct config_report *report, struct config_place place, const char *key,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

enum { CONFIG_QUOTED = 96 };

/* Writes `text` between backquotes, cut to a length that fits a message. With `is_url`, and where a
 * `://` is in it, all in front of the last `@` becomes `***`: no message ever shows a password. */
const char *config_quote(const char *text, bool is_url, char quoted[CONFIG_QUOTED]);

/* ---- document.c: nodes ---- */

enum config_node_kind {
    NODE_SCALAR,
    NODE_LIST,
    NODE_MAP,
    NODE_BROKEN, /* already reported; nobody looks at it any more */
};

struct config_node {
    enum config_node_kind kind;
    bool plain; /* SCALAR: written without quotes, so that an empty one means "nothing" */
    struct config_place place;
    const char *text;                        /* SCALAR: UTF-8 without control characters */
    struct config_node *first, *last, *next; /* LIST: items; MAP: key, value, key, value, ... */
    int count;                               /* of these */
    const struct config_node *last_key;      /* MAP */
};

/* Memory that is given back as a whole. Zero-initialised: empty. */
struct config_arena {
    struct config_chunk *chunks;
};
void *config_arena_take(struct config_arena *arena, size_t size); /* zeroed; NULL: out of memory */
void config_arena_free(struct config_arena *arena);

struct config_node *config_node_scalar(struct config_report *report, struct config_arena *arena,
                                       struct config_place place, const char *key, const char *text,
                                       size_t len);

void config_node_append(struct config_node *parent, struct config_node *child);

/* Nothing written, `~` or `null`. */
bool config_node_is_null(const struct config_node *node);
/* `a list`, for messages. */
const char *config_node_kind_name(const struct config_node *node);

/* ---- document.c: the document ---- */

enum {
    CONFIG_FILE_BYTES = 1024 * 1024, /* largest file */
    CONFIG_DEPTH = 16,               /* deepest nesting */
    CONFIG_NODES = 10000,            /* most keys and values of one file */
};

/* Reads the file at `report->path`. True and `*ret_root` set (NULL: the file holds nothing); false,
 * with what is wrong reported, when there is no tree to go on with. Anchors, tags and the like are
 * reported too, but leave a tree. */
bool config_document_read(struct config_report *report, struct config_arena *arena,
                          struct config_node **ret_root);

/* ---- settings.c: suggestions ---- */

/* How many letters must be inserted, removed, replaced or swapped to make `b` of `a`; a word that
 * holds the other counts as 1. */
size_t config_distance(const char *a, const char *b);
/* True when `distance` is small enough for a word like `name` to suggest it. */
bool config_is_near(const char *name, size_t distance);

/* What was meant by `name` below `parent`; NULL: no idea. */
const struct config_key *config_key_nearest(const struct config_key *parent, const char *name);
/* The name of another group that `name` may have been meant for, or NULL. */
const char *config_group_nearest(const struct config *config, const char *name);

/* ---- settings.c: settings ---- */

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
/* Returns where the key is written; otherwise where its group or policy is, or the file. */
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
/* Looks a group up by name; -1: there is none. */
int config_group_find(const struct config *config, const char *name);
/* Adds a group with its defaults; -1, reported, where the name or the number of groups is not
 * allowed. */
int config_group_add(struct config_loading *loading, const char *name, struct config_place place);

/* ---- values.c: values ---- */

/* Checks a node's kind and value and sets the field; false, with all that is wrong reported, leaves
 * it in any state. GROUPS are only looked at: their names have no meaning before all groups are
 * known. */
bool config_value_set(struct config_report *report, const struct config_key *key, const char *path,
                      const struct config_node *node, void *field);

/* Sets the field to the key's default (a key without one: leaves it). */
void config_value_preset(const struct config_key *key, void *field);

/* True when two configurations have the same value. */
bool config_value_same(const struct config_key *key, const struct config *a, const struct config *b,
                       size_t index);

/* ---- values.c: what is allowed ---- */

enum { CONFIG_ALLOWED = 256 };

/* `1s to 1h (with ms, s, m or h)` */
const char *config_key_allowed(const struct config_key *key, char allowed[CONFIG_ALLOWED]);

/* ---- sources.c: where values come from ---- */

/* Adds what the environment sets (`environ`-style; NULL: nothing), then the overrides
 * ("key=value"), so that these have the last word. */
void config_sources_read(struct config_loading *loading, char *const *environment,
                         const char *const *overrides, size_t override_count);

/* ---- sources.c: sections ---- */

/* Reads `loading->root` (NULL: nothing to read). Unknown, doubled and misplaced keys end here,
 * reported. */
void config_structure_read(struct config_loading *loading);

/* ---- relations.c: the table of relations between keys ---- */

/* Checks all rows and reports what breaks them; defaults give way. */
void config_relations_check(struct config_loading *loading);

/* ---- checks.c: all checks between keys ---- */

/* Completes groups and policies, and checks all that must hold between keys. */
void config_check(struct config_loading *loading);

#endif
