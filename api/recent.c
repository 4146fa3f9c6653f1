/* Counts of the last minute: a ring with a bucket for each of its seconds. */
#include "api/internal.h"

#include <string.h>

#include "agent/core/core_assert.h"

static void recent_advance(struct recent *recent, uint64_t second)
{
    uint64_t first = recent->second + 1;
    if (second >= recent->second + RECENT_SECONDS)
        first = second - RECENT_SECONDS + 1;
    for (; first <= second; first++)
        memset(recent->counts[first % RECENT_SECONDS], 0, sizeof(recent->counts[0]));
    if (second > recent->second)
        recent->second = second;
}

void recent_count(struct recent *recent, enum recent_kind kind, uint64_t now_ms)
{
    CORE_ASSERT(kind < RECENT_KINDS);
    recent_advance(recent, now_ms / 1000);
    recent->counts[recent->second % RECENT_SECONDS][kind]++;
}

uint32_t recent_total(struct recent *recent, enum recent_kind kind, uint64_t now_ms)
{
    CORE_ASSERT(kind < RECENT_KINDS);
    uint32_t total = 0;
    recent_advance(recent, now_ms / 1000);
    for (size_t i = 0; i < RECENT_SECONDS; i++)
        total += recent->counts[i][kind];
    return total;
}
