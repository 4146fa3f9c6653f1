/* The tree that a configuration is read from: nodes that remember where they were written, and the
 * memory that they live in. */
#ifndef LOCKAGENT_CONFIG_NODE_H
#define LOCKAGENT_CONFIG_NODE_H

#include "config/report.h"

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

/* Each is NULL when out of memory. A scalar is checked: where its bytes are no line of text, that
 * is reported under `key` (NULL where the place says enough), and the node is BROKEN. */
struct config_node *config_node_new(struct config_arena *arena, enum config_node_kind kind,
                                    struct config_place place);
struct config_node *config_node_scalar(struct config_report *report, struct config_arena *arena,
                                       struct config_place place, const char *key, const char *text,
                                       size_t len);

void config_node_append(struct config_node *parent, struct config_node *child);

/* Nothing written, `~` or `null`. */
bool config_node_is_null(const struct config_node *node);
/* `a list`, for messages. */
const char *config_node_kind_name(const struct config_node *node);

#endif
