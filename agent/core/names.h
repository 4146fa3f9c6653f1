/* Room for the names of keys, which are of 1 to LIMIT_KEY_BYTES bytes: one array of slots for each
 * of a few sizes, each twice as large as the one before.
 *
 * No name is ever refused for which there is a key: every size has as many slots as there are keys,
 * a name takes one slot of one size, and slots are neither split nor merged; so whatever names came
 * and went before, of k keys at most k - 1 slots of a size are taken when another one comes. Slots
 * that were never used are never touched, and cost address space alone: what is resident is at most
 * twice the names of each size at its busiest. */
#ifndef LOCKAGENT_CORE_NAMES_H
#define LOCKAGENT_CORE_NAMES_H

#include "types.h"

/* A table of slots of one size, in memory of the caller's: what few of many need. It has as many
 * slots as there can be of those who need one, and none of them ever has two: so no slot is ever
 * refused. Slots that were never used are never touched, and cost address space alone: what is
 * resident are those of the busiest moment. */

struct slots {
    char *at;
    size_t bytes;  /* of a slot: at least a pointer's, and a multiple of it */
    void *free;    /* the first free one of those that were used before; NULL: none */
    uint32_t used; /* slots ever used, */
    uint32_t count;
    uint32_t taken; /* and those in use */
};

/* What stands in it is left from before. */
MUST_CHECK void *slots_take(struct slots *slots);
/* It may be another one's at once. */
void slots_give(struct slots *slots, void *slot);

enum { NAME_SIZES = 5, NAME_BYTES_LEAST = LIMIT_KEY_BYTES >> (NAME_SIZES - 1) };

static_assert(NAME_BYTES_LEAST >= sizeof(char *), "a free slot names the next one");
static_assert(NAME_BYTES_LEAST << (NAME_SIZES - 1) == LIMIT_KEY_BYTES, "the largest name fits");

struct names {
    struct slots sizes[NAME_SIZES];
    uint32_t taken; /* of all sizes */
};

/* Bytes of a slot of that size. */
size_t names_slot_bytes(unsigned size);
/* A copy of `name`. */
MUST_CHECK const char *names_take(struct names *names, struct text name);
/* Gives back what was taken for a name of so many bytes. */
void names_give(struct names *names, const char *name, size_t len);

#endif
