/* The table of all configuration keys. It drives the parser, the checks, the printed configuration,
 * the sample file and the table of docs/configuration.md: what is not in it can not be set. */
#ifndef LOCKAGENT_CONFIG_KEYS_H
#define LOCKAGENT_CONFIG_KEYS_H

#include "config/config.h"

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

#endif
