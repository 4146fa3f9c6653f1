/* Fencing numbers (R12): each grant's is greater than every earlier grant's of its key.
 *
 * The agent proposes p, unix time in us; each granting master stores and returns max(stored + 1, p). The number is the
 * largest that came back. Any later grant meets a master of this quorum, so it is enough that a quorum which holds the
 * token stores the number: where clocks agree all store p at once; else a second phase raises it there before the
 * grant. (The maximum of per-master counters alone is not monotonic: 10,1,1 gives 11 by masters {1,2} and then 3 by
 * {2,3}.) */
#include "core_assert.h"
#include "state.h"

/* Median of the masters' clock offsets that are known; false while none is. */
static bool median_offset(const struct group *group, int64_t *ret_us)
{
    int64_t sorted[LIMIT_MASTERS];
    size_t count = 0;
    for (uint8_t m = 0; m < group->config.masters; m++) {
        if (!group->masters[m].clock_known)
            continue;
        int64_t offset = group->masters[m].clock_offset_us;
        size_t i = count++;
        for (; i > 0 && sorted[i - 1] > offset; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = offset;
    }
    if (count == 0)
        return false;
    *ret_us = sorted[count / 2];
    return true;
}

/* Where this agent's clock is off from the median of the masters' by more than a second, that median proposes. */
uint64_t fence_proposal(const struct core *core, uint8_t group)
{
    int64_t offset = 0, proposal = core->wall_us;
    if (MUTANT(FENCE_COUNTS_ONLY))
        return 1;
    if (median_offset(&core->groups[group], &offset)) {
        int64_t limit = (int64_t)CLOCK_TRUST_MS * 1000;
        if (offset > limit || offset < -limit)
            proposal += offset;
    }
    return proposal > 0 ? (uint64_t)proposal : 1;
}

void fence_heard(struct lock *lock, uint8_t master, uint64_t number)
{
    if (number > lock->fence_max) {
        lock->fence_max = number;
        lock->at_max = 0;
    }
    if (number == lock->fence_max)
        lock->at_max |= set_of(master);
}
