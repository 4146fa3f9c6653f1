/* A hash table whose links are embedded in its elements, like those of a list. A link is an offset
 * of four bytes, because each of 100,000 holds has two of them. The number of buckets is fixed. A
 * table has at least half as many as it can have links. The links of a bucket are in the order in
 * which they were added. */
#ifndef LOCKAGENT_CORE_HASH_TABLE_H
#define LOCKAGENT_CORE_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core_assert.h"

enum { HASH_LAST = 1 };

struct hash_link {
    uint32_t next; /* Next link of the bucket; HASH_LAST: this is the last; 0: this link is in no
                    * table. */
};
struct hash_table {
    char *base;        /* Origin of the offsets. All links are in the 4 GB after it. */
    uint32_t *buckets; /* The first link of each bucket; 0 or HASH_LAST: it is empty. */
    uint32_t count;    /* A power of two. */
};

/* Returns true if the link is in a table. */
static inline bool hash_has(const struct hash_link *link)
{
    return link->next != 0;
}

static inline struct hash_link *hash_link_at(const struct hash_table *table, uint32_t offset)
{
    return offset <= HASH_LAST ? NULL : (struct hash_link *)(void *)(table->base + offset);
}

/* Returns the first link of a bucket, or NULL if it is empty. The bucket may contain links with
 * other hashes. */
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

/* Returns the address of the offset of that link in the bucket; the address of the last `next` if
 * it is not there. `offset` HASH_LAST: the end. */
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

/* Removes the link, which was added with that hash. */
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
