/* A hash table of what it links, embedded in it as a list's links are. A link is an offset of four
 * bytes: one of 100,000 holds has two of them. The buckets do not grow: a table has at least half
 * as many as it can have links. Those of one bucket stand in the order in which they came. */
#ifndef LOCKAGENT_CORE_HASH_TABLE_H
#define LOCKAGENT_CORE_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core_assert.h"

enum { HASH_LAST = 1 };

struct hash_link {
    uint32_t next; /* of its bucket; HASH_LAST: there is none; 0: this one is in no table */
};
struct hash_table {
    char *base;        /* what links are offsets from: all are in the 4 GB behind it */
    uint32_t *buckets; /* the first of each; 0 or HASH_LAST: it is empty */
    uint32_t count;    /* a power of two */
};

/* It is in a table. */
static inline bool hash_has(const struct hash_link *link)
{
    return link->next != 0;
}

static inline struct hash_link *hash_link_at(const struct hash_table *table, uint32_t offset)
{
    return offset <= HASH_LAST ? NULL : (struct hash_link *)(void *)(table->base + offset);
}

/* The first of a bucket; NULL if it is empty. Others with another hash may be in it too. */
static inline struct hash_link *hash_first(const struct hash_table *table, uint64_t hash)
{
    return hash_link_at(table, table->buckets[hash & (table->count - 1)]);
}

static inline struct hash_link *hash_next(const struct hash_table *table,
                                          const struct hash_link *link)
{
    CORE_ASSERT(hash_has(link));
    return hash_link_at(table, link->next);
}

/* What points to that link of the bucket, or to its end. */
static inline uint32_t *hash_before(const struct hash_table *table, uint64_t hash, uint32_t offset)
{
    uint32_t *at = &table->buckets[hash & (table->count - 1)];
    while (*at > HASH_LAST && *at != offset)
        at = &hash_link_at(table, *at)->next;
    return at;
}

static inline uint32_t hash_offset(const struct hash_table *table, const struct hash_link *link)
{
    size_t offset = (size_t)((const char *)link - table->base);
    CORE_ASSERT(offset > HASH_LAST && offset <= UINT32_MAX);
    return (uint32_t)offset;
}

static inline void hash_add(const struct hash_table *table, struct hash_link *link, uint64_t hash)
{
    CORE_ASSERT(!hash_has(link));
    *hash_before(table, hash, HASH_LAST) = hash_offset(table, link);
    link->next = HASH_LAST;
}

/* It was added with that hash. */
static inline void hash_remove(const struct hash_table *table, struct hash_link *link,
                               uint64_t hash)
{
    CORE_ASSERT(hash_has(link));
    uint32_t *before = hash_before(table, hash, hash_offset(table, link));
    CORE_ASSERT(*before > HASH_LAST);
    *before = link->next;
    link->next = 0;
}

#endif
