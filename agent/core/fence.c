/* Fencing numbers (R12): the number of each grant is larger than that of every earlier grant of its
 * key.
 *
 * The number that a master stores for the key is the floor of its next grant, and nothing else:
 * refused attempts raise it, and so do grants of other keys of its bucket. The number of a grant is
 * in the value, and is compared there (D3.4).
 *
 * The agent proposes p, unix time in us. Each granting master stores and returns max(stored + 1,
 * p). The number is the largest that came back. Any later grant needs a master of this quorum. So
 * it is enough that a quorum which has the token stores the number. If clocks agree, all store p at
 * once. Otherwise a second phase raises the number before the grant. (The maximum of counters on
 * single masters is not monotonic: 10,1,1 gives 11 by masters {1,2} and then 3 by {2,3}.)
 *
 * A number that is more than two days ahead of the agreed time was never granted: a person, a
 * broken disk or a lying master wrote it. It is invalid, and the master that has it does not vote
 * on its key (VOTE_SPOILED). Otherwise one master could move the numbers of all, up to the point
 * beyond which they cannot rise. The scripts refuse such numbers that they find, and the core those
 * that it receives. */
#include "internal.h"

#include "core_assert.h"

/* Computes the time of the median of the masters' known clocks. Returns false if none is known. */
static bool median_wall(const struct core *core, const struct group *group, int64_t *ret_us)
{
    int64_t sorted[LIMIT_MASTERS];
    size_t count = 0;
    for (uint8_t m = 0; m < group->config.masters; m++) {
        if (!group->masters[m].clock_known)
            continue;
        int64_t ahead_us = group->masters[m].wall_ahead_us;
        size_t i = count++;
        for (; i > 0 && sorted[i - 1] > ahead_us; i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = ahead_us;
    }
    if (count == 0)
        return false;
    *ret_us = core->now.us + sorted[count / 2];
    return true;
}

/* Returns this agent's time; if it differs from the median of the masters' clocks by more than
 * `trust_us`, that median. */
static uint64_t time_within(const struct core *core, uint8_t group, int64_t trust_us)
{
    CORE_ASSERT(group < core->group_count);
    int64_t median_us = 0, agreed_us = core->wall_us;
    if (median_wall(core, &core->groups[group], &median_us)) {
        int64_t off_us = median_us - core->wall_us;
        if (off_us > trust_us || off_us < -trust_us)
            agreed_us = median_us;
    }
    if (agreed_us > LIMIT_FENCE - FENCE_AHEAD_US)
        agreed_us = LIMIT_FENCE - FENCE_AHEAD_US; /* Then its limit is a valid number. */
    return agreed_us > 0 ? (uint64_t)agreed_us : 1;
}

uint64_t fence_agreed_time(const struct core *core, uint8_t group)
{
    return time_within(core, group, (int64_t)CLOCK_TRUST_MS * 1000);
}

uint64_t fence_propose(struct core *core, uint8_t group)
{
    uint64_t proposal = time_within(core, group, (int64_t)PROPOSAL_TRUST_MS * 1000),
             floor = core->groups[group].fence_floor, *proposed = &core->groups[group].proposed;
    if (floor >= proposal && floor < proposal + FENCE_AHEAD_US)
        proposal = floor + 1;
    if (*proposed >= proposal && *proposed < proposal + (uint64_t)CLOCK_TRUST_MS * 1000)
        proposal = *proposed + 1;
    return *proposed = proposal;
}

void fence_learns_floor(struct core *core, uint8_t group, uint64_t floor)
{
    CORE_ASSERT(group < core->group_count);
    bool is_wild = floor >= fence_agreed_time(core, group) + FENCE_AHEAD_US;
    if (floor > core->groups[group].fence_floor && !is_wild)
        core->groups[group].fence_floor = floor;
}

bool fence_is_wild(const struct core *core, uint8_t group, uint64_t number)
{
    return number > fence_agreed_time(core, group) + FENCE_AHEAD_US && !MUTANT(FENCE_UNBOUNDED);
}

void fence_heard(struct lock *lock, uint8_t master, uint64_t number)
{
    CORE_ASSERT(master < LIMIT_MASTERS);
    CORE_ASSERT(lock->state == LOCK_ACQUIRING);
    if (number > lock->pending->fence_max) {
        lock->pending->fence_max = number;
        lock->pending->at_max = 0;
    }
    if (number == lock->pending->fence_max)
        lock->pending->at_max |= set_of(master);
}

void fence_heard_other(struct lock *lock, uint8_t master, uint64_t number)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING || (lock->state == LOCK_RELEASING && lock->stranger));
    CORE_ASSERT(master < lock->round.total);
    lock->pending->misnumbered |= set_of(master);
    lock->pending->denials[master].number = number;
    master_set same = 0;
    for (uint8_t m = 0; m < lock->round.total; m++)
        if (set_has(lock->pending->misnumbered, m) && lock->pending->denials[m].number == number)
            same |= set_of(m);
    if (set_size(same) > set_size(lock->round.otherwise))
        lock->round.otherwise = same;
}
