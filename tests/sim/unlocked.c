/* Holds whose keys an operator deletes (R25). An unlock that has only begun excuses nothing: its
 * hold binds like any other. It binds no more from the moment when a quorum of masters is without
 * its key because of the deletions: without them there would be no such quorum of masters that
 * vote. That moment excuses only the validity that was promised by rounds sent before the
 * deletions. A round that was sent later, and won, binds again: a quorum has confirmed the hold
 * without the deleted keys. */
#include "checker.h"

void unlocked_begun(struct world *w, struct hold *hold)
{
    if (hold->unlocked.begun_at < 0)
        hold->unlocked.begun_at = w->now;
}

void unlocked_deleted(struct world *w, uint8_t master, struct hold *hold)
{
    struct unlocked *unlocked = &hold->unlocked;
    uint16_t on = (uint16_t)(1u << master);
    unlocked->deleted_on |= on;
    unlocked->relied_on |= on;
    unlocked->deleted_at[master] = w->now;
}

void unlocked_renewed(struct world *w, uint8_t agent, struct hold *hold)
{
    struct unlocked *unlocked = &hold->unlocked;
    uint16_t relied_on = unlocked->relied_on;
    /* If the master has forgotten the tombstone, the hold may be back beside the next one (R7). */
    for (uint8_t m = 0; m < w->options.masters; m++)
        if (unlocked->deleted_at[m] < hold->tenures[agent].asked.sent_at &&
            master_has_tombstone(w, m, hold->key, hold->token.random))
            unlocked->relied_on &= (uint16_t) ~(1u << m);
    if (relied_on == 0 || unlocked->relied_on != 0)
        return;
    w->figures.unlocked_in_vain++;
    hold->came_back |= unlocked->frees;
    unlocked->frees = false;
    hold_check_alone(w, hold);
}

/* D5.3: Returns the masters that are not guarded. */
static uint16_t voters(const struct world *w)
{
    static const struct bytes vote = {VOTE_KEY, sizeof VOTE_KEY - 1};
    uint16_t set = 0;
    for (uint8_t m = 0; m < w->options.masters; m++)
        if (!w->switches.forgetful || keyspace_find(w->masters[m].keyspace, vote) != NULL)
            set |= (uint16_t)(1u << m);
    return set;
}

static bool is_quorum(const struct world *w, unsigned masters)
{
    return (unsigned)__builtin_popcount(masters) >= world_quorum(w);
}

bool unlocked_frees(struct world *w, struct hold *hold)
{
    struct unlocked *unlocked = &hold->unlocked;
    if (unlocked->relied_on == 0 || unlocked->frees)
        return unlocked->frees;
    unsigned all = (1u << w->options.masters) - 1,
             has = master_set_having(w, hold->key, &hold->token);
    unlocked->frees = is_quorum(w, all & ~has) &&
                      !is_quorum(w, voters(w) & ~has & ~(unsigned)unlocked->relied_on);
    return unlocked->frees;
}

bool unlocked_takes(struct world *w, struct hold *hold, enum reason reason)
{
    bool is_told = reason == REASON_UNLOCKED && hold->unlocked.begun_at >= 0;
    return unlocked_frees(w, hold) ||
           (is_told && !is_quorum(w, master_set_having(w, hold->key, &hold->token)));
}

unsigned unlocked_unnoticed(struct world *w, const struct hold *hold)
{
    uint16_t has = master_set_having(w, hold->key, &hold->token);
    return (unsigned)__builtin_popcount(hold->unlocked.deleted_on & (uint16_t)~has);
}
