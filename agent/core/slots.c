/* A table of slots of one size, with a free list in the slots themselves. */
#include "slots.h"

#include <string.h>

#include "core_assert.h"

void *slots_take(struct slots *slots)
{
    CORE_ASSERT(slots->bytes >= sizeof(slots->free));
    void *slot = slots->free;
    if (slot != NULL) {
        memcpy(&slots->free, slot, sizeof(slots->free));
    } else {
        CORE_ASSERT(slots->used < slots->count);
        slot = slots->at + slots->used++ * slots->bytes;
    }
    slots->taken++;
    return slot;
}

void slots_give(struct slots *slots, void *slot)
{
    CORE_ASSERT(slots->taken > 0 && (char *)slot >= slots->at);
    size_t offset = (size_t)((char *)slot - slots->at);
    CORE_ASSERT(offset < slots->used * slots->bytes && offset % slots->bytes == 0);
    memcpy(slot, &slots->free, sizeof(slots->free));
    slots->free = slot;
    slots->taken--;
}
