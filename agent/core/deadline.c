/* Until when a command may create a key, by the clock of the master that runs it (R5).
 *
 * What a connection had in flight as it ended may run at any time after it: seconds later, and
 * behind the next holder. If it created the key then, a quorum could have a token although somebody
 * else was granted the lock in between, and an adoption would call that continuous (D3.4). So
 * whatever creates a key has a deadline, which ends with the validity that it was sent for: while
 * that runs nobody else can be granted the lock.
 *
 * The agent says what the master's clock shows at the least, by the last reading of it (R14), and
 * how long the master may do the command from then on:
 *
 *   agent     read  heard          now            end of the validity
 *               \    /              |--------- left ---------|
 *   master       `T-'---------------|--------------->
 *                 T + (now - heard) x (1 - drift)
 *
 * A late reading is as true: the clock shows no less than T when it is heard. So T is taken
 * whenever it is more than what the reading before it makes certain. Otherwise that bound would
 * fall behind by the drift for as long as all readings are late, and in the end no repair would
 * come in time.
 *
 * Both are reckoned low, so the deadline is never later than the validity. A master whose clock has
 * jumped since comes too late, until its clock is read again; and so does one whose clock has been
 * set back so far that it shows less than it did. Of a master whose clock nobody has read nothing
 * is known, and there is no deadline. */
#include "deadline.h"

#include "core_assert.h"

/* R4: validity = ttl - elapsed - drift, with drift = ttl * rate + 2 ms. */
struct instant deadline_of_validity(const struct core *core, uint8_t group, struct instant from,
                                    uint32_t ttl_ms)
{
    CORE_ASSERT(group < core->group_count);
    CORE_ASSERT(ttl_ms > 0 && ttl_ms <= TTL_MS_MAX);
    int64_t ttl_us = (int64_t)ttl_ms * 1000;
    int64_t drift_us =
        ttl_us * core->groups[group].config.drift_ppm / 1000000 + DRIFT_FIXED_MS * 1000;
    if (MUTANT(NO_DRIFT))
        drift_us = 0;
    return instant_after_us(from, ttl_us - drift_us);
}

struct instant deadline_to_create(const struct core *core, const struct lock *lock, enum op op)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    if (op == OP_ACQUIRE || op == OP_HANDOVER)
        return deadline_of_validity(core, lock->group, lock->acquired_at, lock->terms.ttl_ms);
    if (op == OP_REPAIR && !MUTANT(REPAIR_WITHOUT_DEADLINE))
        return lock->valid_until;
    return INSTANT_NEVER;
}

static int64_t slowly(const struct core *core, uint8_t group, int64_t us)
{
    return us - us * core->groups[group].config.drift_ppm / 1000000;
}

static bool is_any_known(const struct group *group)
{
    for (uint8_t m = 0; m < group->config.masters; m++)
        if (group->masters[m].clock.heard.us != 0)
            return true;
    return false;
}

uint32_t deadline_left_ms(const struct core *core, uint8_t group, struct instant deadline)
{
    CORE_ASSERT(group < core->group_count);
    int64_t left_us = instant_us_between(core->now, deadline);
    if (left_us <= 0 || !is_any_known(&core->groups[group]))
        return 0;
    if (left_us / 1000 > TTL_MS_MAX)
        return TTL_MS_MAX;
    return (uint32_t)(slowly(core, group, left_us) / 1000);
}

int64_t deadline_clock_ms(const struct core *core, uint8_t group, uint8_t master)
{
    CORE_ASSERT(group < core->group_count && master < core->groups[group].config.masters);
    const struct clock_reading *reading = &core->groups[group].masters[master].clock;
    if (reading->heard.us == 0)
        return 0;
    int64_t since_us = instant_us_between(reading->heard, core->now);
    int64_t wall_us = reading->wall_us + slowly(core, group, since_us);
    return wall_us < 1000 ? 0 : wall_us / 1000;
}

void deadline_heard(struct core *core, uint8_t group, uint8_t master,
                    const struct clock_reading *reading, bool is_base)
{
    CORE_ASSERT(group < core->group_count && master < core->groups[group].config.masters);
    CORE_ASSERT(reading->heard.us != 0);
    struct clock_reading *known = &core->groups[group].masters[master].clock;
    int64_t since_us = instant_us_between(known->heard, reading->heard);
    int64_t least_us = known->wall_us + slowly(core, group, since_us);
    if (is_base || known->heard.us == 0 || reading->wall_us > least_us)
        *known = *reading;
}
