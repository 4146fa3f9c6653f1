/* A hash table of what it links, embedded in it as a list's links are. The buckets do not grow: a
 * table has at least half as many as it can have links. Those of one bucket stand in the order in
 * which they came. */
#ifndef LOCKAGENT_CORE_HASH_TABLE_H
#define LOCKAGENT_CORE_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "core_assert.h"

struct hash_link {
    struct hash_link *next;
    struct hash_link **at; /* what points to this one; NULL: it is in no table */
};
struct hash_table {
    struct hash_link **buckets;
    uint32_t count; /* a power of two */
};

/* The first of a bucket; NULL if it is empty. Others with another hash may be in it too. */
static inline struct hash_link *hash_first(const struct hash_table *table, uint64_t hash)
{
    return table->buckets[hash & (table->count - 1)];
}

static inline void hash_add(const struct hash_table *table, struct hash_link *link, uint64_t hash)
{
    CORE_ASSERT(link->at == NULL);
    struct hash_link **end = &table->buckets[hash & (table->count - 1)];
    while (*end != NULL)
        end = &(*end)->next;
    link->next = NULL;
    link->at = end;
    *end = link;
}

/* Nothing to do if it is in no table. */
static inline void hash_remove(struct hash_link *link)
{
    if (link->at == NULL)
        return;
    *link->at = link->next;
    if (link->next != NULL)
        link->next->at = link->at;
    link->next = NULL;
    link->at = NULL;
}

#endif
