/* The states that a search has looked at: 64 bits of the hash of each. */
#ifndef LOCKAGENT_EXPLORE_SEEN_H
#define LOCKAGENT_EXPLORE_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seen {
    uint64_t hash; /* 0: an empty place */
    uint16_t depth;
    uint8_t faults_left;
};
/* All zero: none. */
struct seen_table {
    struct seen *places;
    size_t room, count;
};

/* Returns the entry of this hash, which is not 0. If the entry's own hash is 0, the state was not
 * seen before, and the caller fills the entry in. Valid until the next call. */
struct seen *seen_place(struct seen_table *table, uint64_t hash);
void seen_forget_all(struct seen_table *table);

#endif
