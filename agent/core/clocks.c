/* The masters' clocks as witnesses (R14): of a pause of this agent together with its clocks (A1),
 * and of a master's clock that jumps forward (A3).
 *
 *    agent    s1        r1                          s2        r2
 *              \       /                              \       /
 *    master     `--T1-'                                `--T2-'
 *
 *   least = (T2 - T1) - (r2 - s1)    the least that the master gained on this agent
 *
 *   most = (T2 - T1) - (s2 - r1)     the most
 *
 * If `least` is more than the drift allows, the master counts as having gained `most`. It makes no
 * difference which of the two clocks is wrong: leases on that master end earlier than this agent
 * has computed. Nothing else counts. So a late reply, paths of different length, a clock that is
 * slewed within the drift, and a clock that is set back never shorten anything.
 *
 * A reading that took longer than a master's time to vote (R3) is evaluated, but it is no base for
 * the next one: the longer a base took, the more can be gained unnoticed. It becomes the base all
 * the same if the base before it took longer still, or if it shows a step. A base from before a
 * step back would hide the next step forward. The part of a gain that the round trip of a reading
 * may hide was counted with the gain.
 *
 * Each hold counts the gain for itself. Its leases on that master end earlier by it (lease.c). Its
 * validity ends when so many of these leases end that the other masters are no quorum. One master
 * that jumps shortens nothing, if enough others have confirmed the hold and kept time.
 *
 * A round that was sent before is void, because its validity would count from an instant that is
 * longer ago than it seems. An attempt is undone (R5) and asked again, while its callers wait. A
 * renewal and an adoption are asked again. There may be many locks, so each is handled by its
 * timer, which is due at once. */
#include "internal.h"

#include "core_assert.h"

struct gain {
    int64_t least_us, most_us;
};

static struct gain gain_between(const struct clock_reading *first,
                                const struct clock_reading *second)
{
    int64_t told_us = second->wall_us - first->wall_us;
    if (MUTANT(CLOCK_LATE_COUNTS))
        return (struct gain){told_us - instant_us_between(first->sent, second->sent),
                             told_us - instant_us_between(first->heard, second->sent)};
    return (struct gain){told_us - instant_us_between(first->sent, second->heard),
                         told_us - instant_us_between(first->heard, second->sent)};
}

static int64_t took_us(const struct clock_reading *reading)
{
    return instant_us_between(reading->sent, reading->heard);
}

/* Returns the drift that is possible from the first reading to the second. */
static int64_t drift_between(const struct group *group, const struct clock_reading *first,
                             const struct clock_reading *second)
{
    return instant_us_between(first->sent, second->heard) * group->config.drift_ppm / 1000000;
}

static void shake_hold(struct core *core, struct lock *lock, uint8_t master,
                       const struct gain *gain)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    struct instant until = lease_gained(core, lock, master, gain->least_us, gain->most_us);
    if (instant_before(until, lock->valid_until)) {
        lock->valid_until = instant_max(until, core->now);
        lock->shortened = true;
    }
    if (lock->terms.renew == RENEW_AGENT && !lock->renewing && !hold_reaches_max(lock))
        timers_set(&core->renewals, timer_of_lock(lock), core->now);
    if (!lock->renewing)
        lock->round.number++; /* A late reply is stale. */
}

/* Handles a gain for one lock. The validity of an earlier round would count from an instant that is
 * longer ago than it seems (R4). */
static void shake(struct core *core, struct lock *lock, uint8_t master, const struct gain *gain)
{
    bool is_round =
        lock_is_attempt(lock) || (lock->state == LOCK_ADOPTING && !MUTANT(CLOCK_ADOPTION_KEPT));
    if (lock->state == LOCK_HELD)
        shake_hold(core, lock, master, gain);
    else if (!is_round)
        return;
    if (is_round || lock->renewing)
        lock->is_void = !MUTANT(CLOCK_ROUND_KEPT);
    if (lock->is_void || lock->shortened)
        timers_set(&core->timers, timer_of_lock(lock), core->now);
}

static void gained(struct core *core, uint8_t group, uint8_t master, const struct gain *gain)
{
    CORE_ASSERT(gain->least_us <= gain->most_us);
    for (uint32_t i = 0; i < core->locks_used; i++) {
        struct lock *lock = lock_at(core, i);
        if (lock->state != LOCK_FREE && lock->group == group)
            shake(core, lock, master, gain);
    }
    outbox_effect(core, EFFECT_TRACE)->trace = (struct effect_trace){
        .kind = TRACE_CLOCK_GAINED, .group = group, .master = master, .elapsed_us = gain->most_us};
    outbox_effect(core, EFFECT_READ_CLOCKS)->group = group;
}

void clocks_heard(struct core *core, uint8_t group, uint8_t master,
                  const struct clock_reading *reading)
{
    CORE_ASSERT(group < core->group_count && master < core->groups[group].config.masters);
    struct group *at = &core->groups[group];
    struct clock_reading *base = &at->masters[master].base;
    if (reading->heard.us == 0)
        return;
    CORE_ASSERT(!instant_before(reading->heard, reading->sent));
    int64_t limit_us = (int64_t)at->config.node_timeout_ms * 1000;
    bool is_late =
        took_us(reading) > limit_us && took_us(reading) > took_us(base) && !MUTANT(CLOCK_BASE_LATE);
    bool is_gained = false, is_lost = false;
    if (base->heard.us != 0) {
        struct gain gain = gain_between(base, reading);
        is_gained = gain.least_us > drift_between(at, base, reading);
        is_lost = gain.most_us < -drift_between(at, base, reading);
        if (is_gained)
            gained(core, group, master, &gain);
    }
    bool is_base = !is_late || is_gained || is_lost;
    if (is_base)
        *base = *reading;
    deadline_heard(core, group, master, reading, is_base);
}
