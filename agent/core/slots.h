/* A table of slots of one size, in memory of the caller's: what few of many need. It has as many
 * slots as there can be of those who need one, and none of them ever has two: so no slot is ever
 * refused. Slots that were never used are never touched, and cost address space alone: what is
 * resident are those of the busiest moment. */
#ifndef LOCKAGENT_CORE_SLOTS_H
#define LOCKAGENT_CORE_SLOTS_H

#include "types.h"

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

#endif
