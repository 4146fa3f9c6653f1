/* Memory for the names of keys, which have 1 to LIMIT_KEY_BYTES bytes. There is an array of slots
 * for each of a few sizes: 16, 24, 32, 48, 64, 96 and so on.
 *
 * There is always a slot for the name of a key. Every size has as many slots as there can be keys.
 * A name takes one slot of one size, and slots are neither split nor merged. So if one of k keys
 * needs a slot, at most k - 1 slots of its size are in use. Slots that were never used are never
 * touched, so they only cost address space. The resident memory is at most one and a half times the
 * names of each size at its busiest, or 16 bytes for a name. */
#ifndef LOCKAGENT_CORE_NAMES_H
#define LOCKAGENT_CORE_NAMES_H

#include "types.h"

/* A table of slots of one size, in the caller's memory. It is for parts that few elements of a
 * table need. It has as many slots as elements that may need one, and no element has two. So there
 * is always a free slot. Slots that were never used are never touched, so they only cost address
 * space. The resident slots are those of the busiest moment. */

struct slots {
    char *at;
    size_t bytes;  /* Size of a slot: at least a pointer's, and a multiple of it. */
    void *free;    /* First free slot that was used before; NULL: none. */
    uint32_t used; /* Number of slots that were ever used. */
    uint32_t count;
    uint32_t taken; /* Number of slots in use. */
};

/* Returns a slot. Its content is left from its last use. */
MUST_CHECK void *slots_take(struct slots *slots);
/* Gives a slot back. It may be in use again at once. */
void slots_give(struct slots *slots, void *slot);

enum { NAME_BYTES_LEAST = 16, NAME_SIZES = 11 };

static_assert(NAME_BYTES_LEAST % (2 * sizeof(char *)) == 0,
              "a free slot names the next one, also in slots of half a size more");
static_assert(NAME_BYTES_LEAST << (NAME_SIZES / 2) == LIMIT_KEY_BYTES, "the largest name fits");

struct names {
    struct slots sizes[NAME_SIZES];
    uint32_t taken; /* Slots in use, of all sizes. */
};

/* Returns the bytes of a slot of the size with that index. */
size_t names_slot_bytes(unsigned size);
/* Returns a copy of `name`. */
MUST_CHECK const char *names_take(struct names *names, struct text name);
/* Gives back the copy of a name of `len` bytes. */
void names_give(struct names *names, const char *name, size_t len);

#endif
