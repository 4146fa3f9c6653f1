/* The tree that a configuration is read from, and the memory that it lives in. */
#include "config/node.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/utf8.h"

/* ---- memory ---- */

struct config_chunk {
    struct config_chunk *next;
    size_t used, size;
    max_align_t bytes[];
};

void *config_arena_take(struct config_arena *arena, size_t size)
{
    enum { CHUNK = 64 * 1024 };
    size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct config_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->size - chunk->used < size) {
        size_t room = size > CHUNK ? size : CHUNK;
        chunk = calloc(1, sizeof(*chunk) + room);
        if (chunk == NULL)
            return NULL;
        chunk->size = room;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *taken = (char *)chunk->bytes + chunk->used;
    chunk->used += size;
    return taken;
}

void config_arena_free(struct config_arena *arena)
{
    while (arena->chunks != NULL) {
        struct config_chunk *next = arena->chunks->next;
        /* A password may have stood in a URL. */
        explicit_bzero(arena->chunks->bytes, arena->chunks->used);
        free(arena->chunks);
        arena->chunks = next;
    }
}

/* ---- nodes ---- */

struct config_node *config_node_new(struct config_arena *arena, enum config_node_kind kind,
                                    struct config_place place)
{
    struct config_node *node = config_arena_take(arena, sizeof(*node));
    if (node != NULL) {
        node->kind = kind;
        node->place = place;
    }
    return node;
}

static const char *scalar_fault(const char *text, size_t len)
{
    for (size_t i = 0, size; i < len; i += size) {
        uint32_t code = 0;
        size = utf8_decode(text + i, len - i, &code);
        if (size == 0)
            return "is not UTF-8";
        if (utf8_is_control(code))
            return "holds a control character or a line break";
    }
    return NULL;
}

struct config_node *config_node_scalar(struct config_report *report, struct config_arena *arena,
                                       struct config_place place, const char *key, const char *text,
                                       size_t len)
{
    struct config_node *node = config_node_new(arena, NODE_SCALAR, place);
    char *copy = config_arena_take(arena, len + 1);
    if (node == NULL || copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    node->text = copy;
    const char *fault = scalar_fault(text, len);
    if (fault != NULL) {
        config_report_add(report, place, key, "the value %s; allowed: one line of text", fault);
        node->kind = NODE_BROKEN;
    }
    return node;
}

void config_node_append(struct config_node *parent, struct config_node *child)
{
    if (parent->last != NULL)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    if (parent->count++ % 2 == 0)
        parent->last_key = child;
}

bool config_node_is_null(const struct config_node *node)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0;
         node->kind == NODE_SCALAR && node->plain && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(node->text, words[i]) == 0)
            return true;
    return false;
}

const char *config_node_kind_name(const struct config_node *node)
{
    switch (node->kind) {
    case NODE_SCALAR:
        return "a single value";
    case NODE_LIST:
        return "a list";
    case NODE_MAP:
        return "a mapping";
    case NODE_BROKEN:
        break;
    }
    return "broken";
}
