#include "guard_known.h"

#include <string.h>

#include "core_assert.h"

bool guard_same_word(const char *a, const char *b)
{
    size_t len = strlen(a);
    return len == strlen(b) && memcmp(a, b, len) == 0;
}

/* ---- for the protocol ---- */

bool guard_is_copy(const struct guard *guard, uint8_t index)
{
    const struct guard_master *master = &guard->masters[index];
    for (uint8_t i = 0; i < index && master->seen && !MUTANT(GUARD_COPIES_VOTE); i++)
        if (guard->masters[i].seen &&
            guard_same_word(guard->masters[i].last.epoch, master->last.epoch))
            return true;
    return false;
}

bool guard_votes_now(const struct guard *guard, uint8_t index)
{
    const struct guard_master *master = &guard->masters[index];
    return master->seen && *master->last.vote && !guard_is_copy(guard, index);
}

bool guard_remembers(const struct guard *guard, uint8_t index)
{
    const struct guard_master *master = &guard->masters[index];
    return master->seen && !master->last.spoiled && !guard_is_copy(guard, index) &&
           (master->last.told != GUARD_NOT_TOLD || MUTANT(GUARD_UNTOLD_WITNESS));
}

bool guard_waits(const struct guard_master *master)
{
    return master->seen && !master->last.spoiled && master->last.told == GUARD_NOT_TOLD &&
           master->last.left_ms == 0;
}

bool guard_answered_since(const struct guard_master *master, const struct guard_master *waiting)
{
    CORE_ASSERT(waiting->waits_from != 0);
    return master->seen &&
           (master->answered_number >= waiting->waits_from || MUTANT(GUARD_EARLIER_ANSWERS_COUNT));
}

/* ---- for the caller ---- */

enum guard_state guard_state(const struct guard *guard, uint8_t index, struct instant now)
{
    CORE_ASSERT(index < guard->master_count);
    const struct guard_master *master = &guard->masters[index];
    if (master->phase != GUARD_MASTER_READY)
        return GUARD_VOTES;
    if (master->unsure)
        return GUARD_UNSURE;
    if (!master->seen || guard_is_copy(guard, index))
        return GUARD_MISSING;
    if (guard_votes_now(guard, index))
        return GUARD_VOTES;
    if (master->last.spoiled)
        return GUARD_SPOILED;
    return instant_before(now, master->until) ? GUARD_RUNS : GUARD_WAITS;
}

int64_t guard_left_ms(const struct guard *guard, uint8_t index, struct instant now)
{
    CORE_ASSERT(index < guard->master_count);
    enum guard_state state = guard_state(guard, index, now);
    if (state == GUARD_VOTES)
        return 0;
    if (state != GUARD_RUNS)
        return -1;
    return (instant_us_between(now, guard->masters[index].until) + 999) / 1000;
}

const char *guard_vote(const struct guard *guard, uint8_t index)
{
    CORE_ASSERT(index < guard->master_count);
    return guard_votes_now(guard, index) ? guard->masters[index].last.vote : "";
}

uint64_t guard_top(const struct guard *guard, uint8_t index)
{
    CORE_ASSERT(index < guard->master_count);
    return guard->masters[index].seen ? guard->masters[index].last.top : 0;
}

uint64_t guard_floor(const struct guard *guard)
{
    return guard->floor;
}

enum guard_told guard_told(const struct guard *guard, uint8_t index)
{
    CORE_ASSERT(index < guard->master_count);
    return guard->masters[index].seen ? guard->masters[index].last.told : GUARD_NOT_TOLD;
}

bool guard_is_new(const struct guard *guard)
{
    for (unsigned i = 0; i < guard->master_count; i++) {
        const struct guard_master *master = &guard->masters[i];
        /* each master that was told has a floor, and keeps it in a new epoch */
        if (master->phase != GUARD_MASTER_READY || !master->seen || master->last.floor != 0)
            return false;
    }
    return true;
}

const char *guard_question_word(enum guard_question question)
{
    static const char *const words[] = {
        [GUARD_ASK_RESTART] = "restart",
        [GUARD_ASK_KEEP] = "keep",
        [GUARD_ASK_TELL] = "tell",
        [GUARD_ASK_TRUST] = "trust",
    };
    CORE_ASSERT(question < GUARD_QUESTION_COUNT);
    return words[question];
}
