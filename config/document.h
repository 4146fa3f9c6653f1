/* The first pass: a file becomes a tree of nodes that remember where they were written. The only file that knows
 * libyaml is document.c. */
#ifndef LOCKAGENT_CONFIG_DOCUMENT_H
#define LOCKAGENT_CONFIG_DOCUMENT_H

#include "config/report.h"

enum {
    CONFIG_FILE_BYTES = 1024 * 1024, /* largest file */
    CONFIG_DEPTH = 16,               /* deepest nesting */
    CONFIG_NODES = 10000,            /* most keys and values of one file */
};

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

/* Reads the file at `report->path`. True and `*ret_root` set (NULL: the file holds nothing); false, with what is wrong
 * reported, when there is no tree to go on with. Anchors, tags and the like are reported too, but leave a tree. */
bool config_document_read(struct config_report *report, struct config_arena *arena, struct config_node **ret_root);

/* Reads one character of at most `len` bytes; returns its length, 0 where it is not UTF-8. */
size_t config_utf8_decode(const unsigned char *at, size_t len, uint32_t *ret_code);
/* C0, DEL and C1. */
bool config_is_control(uint32_t code);

/* One scalar with its checks; `key` names it in a message (NULL where the place says enough). NULL: out of memory. */
struct config_node *config_document_scalar(struct config_report *report, struct config_arena *arena,
                                           struct config_place place, const char *key, const char *text, size_t len);
void config_node_append(struct config_node *parent, struct config_node *child);

/* Nothing written, `~` or `null`. */
bool config_node_is_null(const struct config_node *node);
const char *config_node_kind_name(const struct config_node *node);

#endif
