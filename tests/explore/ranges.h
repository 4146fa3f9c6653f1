/* Bytes that are saved and hashed together. */
#ifndef LOCKAGENT_EXPLORE_RANGES_H
#define LOCKAGENT_EXPLORE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;

enum { RANGES_MAX = 160 };

struct range {
    void *at;
    size_t size;
};
struct ranges {
    struct range list[RANGES_MAX];
    size_t count;
};

void ranges_add(struct ranges *ranges, void *at, size_t size);
uint64_t ranges_hash(uint64_t hash, const struct ranges *ranges);
uint64_t hash_mix(uint64_t a, uint64_t b);
uint64_t hash_more(uint64_t hash, const void *bytes, size_t size);
#define ADD_FROM_TO(ranges, object, from, to)                                                      \
    ranges_add(ranges, (char *)(object) + (from), (size_t)(to) - (size_t)(from))
#define OFFSET_BEHIND(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/* All of a core that steps change, but for its random bytes. */
void ranges_of_core(struct ranges *ranges, struct core *core);
/* Clears the parts of the tables that the core has never used, as the core expects. Call it before
 * an earlier state comes back. */
void core_empty_tables(struct core *core);
uint64_t core_hash(struct core *core);
/* It knows no key. */
bool core_is_empty(const struct core *core);

#endif
