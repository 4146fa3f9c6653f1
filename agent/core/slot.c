/* A semaphore has N slots, each of them an ordinary mutex with a name and a fence key of its own
 * (R20). So it is exact over a quorum, and all that is known of locks holds for each slot.
 *
 *   search --draw a slot--> attempt --granted------------------------> held
 *               ^              |
 *               |          refused, and told which slots are taken there
 *               |              v
 *               '---yes-- is one left that may be free? --no--> as any lost attempt: wait, or 409
 *
 * An attempt names one slot, the same on all masters. If each master gave what it has free, or
 * counted who is in, more than N would come in (R20).
 *
 * A key of a mutex is a semaphore with one slot that has no number: its search is one attempt. */
#include "slot.h"

#include "admission.h"
#include "core_assert.h"

static_assert(LIMIT_PERMITS == 8 * sizeof(slot_set), "all slots of a key fit in a set");

static slot_set set_of_slot(uint8_t permit)
{
    CORE_ASSERT(permit <= LIMIT_PERMITS);
    return permit == 0 ? 0 : (slot_set)1 << (permit - 1);
}

static uint8_t count_slots(slot_set slots)
{
    uint8_t count = 0;
    for (; slots != 0; slots &= slots - 1)
        count++;
    return count;
}

static slot_set held_here(const struct key *key)
{
    slot_set held = 0;
    for (const struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next)
        held |= set_of_slot(CONTAINER_OF(at, struct lock, link)->token.permit);
    return held;
}

/* Those that may be free: of them those that a quorum called free, if there are any. */
static slot_set candidates(const struct key *key)
{
    CORE_ASSERT(key->permits > 1);
    const struct search *search = &key->contest->search;
    slot_set all = ~(slot_set)0 >> (LIMIT_PERMITS - key->permits);
    slot_set left = all & ~(held_here(key) | search->tried | search->closed);
    return (left & search->open) != 0 ? left & search->open : left;
}

void slot_search_begun(struct core *core, struct key *key, enum cause cause)
{
    if (key->contest->admission.link.next == NULL)
        key->contest->search = (struct search){0};
    admission_awaited(core, key, cause);
}

bool slot_search_is_new(const struct key *key)
{
    return key->contest->search.tried == 0;
}

uint8_t slot_draw(struct core *core, struct key *key)
{
    if (key->permits == 1)
        return 0;
    slot_set from = candidates(key);
    if (from == 0) { /* the last one was taken here since: what was heard before says nothing */
        key->contest->search = (struct search){0};
        from = candidates(key);
    }
    CORE_ASSERT(from != 0);
    for (int64_t skip = random_below(&core->random, count_slots(from)); skip > 0; skip--)
        from &= from - 1;
    return (uint8_t)(1 + __builtin_ctzll(from));
}

void slot_heard(struct lock *lock, uint8_t master, slot_set taken)
{
    CORE_ASSERT(master < lock->round.total);
    lock->errand->denials[master].taken = taken | set_of_slot(lock->token.permit);
}

/* What the masters that refused this attempt said of all slots replaces what was said before. */
static void compare_refusals(const struct lock *lock, struct search *search)
{
    const struct round *round = &lock->round;
    uint8_t refused = set_size(round->no);
    search->open = search->closed = 0;
    for (uint8_t permit = 1; permit <= lock->key->permits; permit++) {
        slot_set slot = set_of_slot(permit);
        uint8_t taken = 0;
        for (uint8_t m = 0; m < round->total; m++)
            taken = (uint8_t)(taken + (set_has(round->no, m) &&
                                       (lock->errand->denials[m].taken & slot) != 0));
        if (refused - taken >= round->quorum)
            search->open |= slot;
        if (round->total - taken < round->quorum)
            search->closed |= slot;
    }
}

bool slot_refused(struct lock *lock)
{
    CORE_ASSERT(lock_is_attempt(lock));
    if (lock->token.permit == 0 || lock->cause == CAUSE_HANDOVER)
        return false;
    struct search *search = &lock->key->contest->search;
    search->tried |= set_of_slot(lock->token.permit);
    compare_refusals(lock, search);
    return candidates(lock->key) != 0 && !MUTANT(SEARCH_ENDS_EARLY);
}

uint8_t slot_attempts(const struct lock *lock)
{
    CORE_ASSERT(lock->key->contest != NULL);
    bool is_found = lock->token.permit != 0 && lock->cause != CAUSE_HANDOVER;
    return (uint8_t)(1 + (is_found ? count_slots(lock->key->contest->search.tried) : 0));
}
