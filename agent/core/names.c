/* The names of keys, in slots of a few sizes. */
#include "names.h"

#include <string.h>

#include "core_assert.h"

/* ---- slots of one size ---- */

/* The free list uses the slots themselves. */

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

/* ---- names of keys ---- */

size_t names_slot_bytes(unsigned size)
{
    CORE_ASSERT(size < NAME_SIZES);
    /* Even sizes double: 16, 32, 64. An odd one is half more than the one before it: 24, 48. */
    size_t least = size % 2 == 0 ? NAME_BYTES_LEAST : NAME_BYTES_LEAST * 3 / 2;
    return least << size / 2;
}

static unsigned size_of(size_t len)
{
    unsigned size = 0;
    CORE_ASSERT(len >= 1 && len <= LIMIT_KEY_BYTES);
    while (names_slot_bytes(size) < len)
        size++;
    return size;
}

const char *names_take(struct names *names, struct text name)
{
    char *slot = slots_take(&names->sizes[size_of(name.len)]);
    memcpy(slot, name.at, name.len);
    names->taken++;
    return slot;
}

void names_give(struct names *names, const char *name, size_t len)
{
    CORE_ASSERT(names->taken > 0);
    struct slots *slots = &names->sizes[size_of(len)];
    slots_give(slots, slots->at + (name - (const char *)slots->at));
    names->taken--;
}
