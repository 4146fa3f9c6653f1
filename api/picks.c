/* The first rows of a table, in an order that the core does not keep.
 *
 * The status page lists the locks that have been held for longest, or for shortest, and likewise
 * the callers that wait. So it walks over all of them once, and keeps the first rows in a heap
 * whose root is the last of them: most rows of a long walk cost one comparison. */
#include "api/internal.h"

#include <stdlib.h>

#include "agent/core/core_assert.h"

static int compare_picks(const void *one, const void *other)
{
    const struct pick *a = one, *b = other;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->cursor < b->cursor ? -1 : a->cursor > b->cursor;
}

static void swap_picks(struct pick *one, struct pick *other)
{
    struct pick kept = *one;
    *one = *other;
    *other = kept;
}

void picks_take(struct picks *picks, struct pick pick)
{
    struct pick *list = picks->list;
    uint32_t at = 0;
    CORE_ASSERT(picks->room > 0 && picks->room <= ROWS_MAX);
    if (picks->count < picks->room) {
        at = picks->count++;
        list[at] = pick;
        for (; at > 0 && compare_picks(&list[at], &list[(at - 1) / 2]) > 0; at = (at - 1) / 2)
            swap_picks(&list[at], &list[(at - 1) / 2]);
        return;
    }
    if (compare_picks(&pick, &list[0]) > 0)
        return;
    list[0] = pick;
    for (uint32_t child = 1; child < picks->count; child = 2 * at + 1) {
        if (child + 1 < picks->count && compare_picks(&list[child + 1], &list[child]) > 0)
            child++;
        if (compare_picks(&list[child], &list[at]) <= 0)
            return;
        swap_picks(&list[child], &list[at]);
        at = child;
    }
}

void picks_sort(struct picks *picks)
{
    qsort(picks->list, picks->count, sizeof(picks->list[0]), compare_picks);
}
