/* An operator that deletes locks with `lockagent unlock` (R25): it looks at all masters, and then
 * deletes a hold on one after the other. It misses some of them, and then the holder may keep the
 * lock. unlocked.c says from when others may have it. A hold that a quorum has deleted is to the
 * checkers one whose release was answered: no renewal of it succeeds (C12), and later numbers are
 * above the operator's (C2). */
#include "world.h"

#include <stdio.h>

enum {
    STEP_US_MAX = 20000,
    MISSED_PERCENT = 10,
    FAILING_PERCENT = 30, /* unlocks that miss more of the masters: */
    MISSED_OF_FAILING_PERCENT = 60,
    PAUSE_US_MAX = 1500000,
};

static void come_in(struct world *w, int64_t us)
{
    world_plan_in(w, us, (struct happening){.kind = HAPPEN_OPERATOR});
}

static bool reaches(struct world *w, uint8_t master)
{
    return !w->masters[master].down && !w->masters[master].paused &&
           !prng_percent(&w->unlocker.chance, w->unlocker.missed_percent);
}

/* Chooses a hold that binds its callers. Returns NULL if the key that was drawn has none. */
static struct hold *choose(struct world *w)
{
    struct prng *chance = &w->unlocker.chance;
    uint8_t place = (uint8_t)prng_below(chance, options_places(&w->options));
    if (w->window_count[place] == 0)
        return NULL;
    struct hold *hold = w->windows[place][prng_below(chance, w->window_count[place])];
    bool is_agents = hold->agent < SIM_AGENTS && hold->window_until > w->now && !hold->ended;
    return is_agents ? hold : NULL;
}

/* Calls the script on a master. `name`: of the hold; "": only looks. */
static struct unlock_answer ask(struct world *w, uint8_t master, uint8_t place, const char *name,
                                uint64_t number)
{
    const struct key_kind kind = options_kind(&w->options, place);
    bool has_slot = kind.permits > 1;
    uint8_t key = place, slot = 0;
    if (has_slot) {
        key = (uint8_t)(place % w->options.keys);
        slot = (uint8_t)(place / w->options.keys);
    }
    const struct unlock_target target = {
        .config = &w->naming[0],
        .key = options_key_text(key),
        .form = world_form(kind.permits, kind.fair, kind.rw, kind.redisson),
        .fencing = w->options.fencing,
        .has_slot = has_slot,
        .slot = slot};
    const struct unlock_ask unlock = {.name = name,
                                      .number = number,
                                      .tombstone_ms =
                                          *name == '\0' ? 0 : w->config.max_ttl_ms + 1000};
    return master_unlock(w, master, &target, &unlock);
}

/* Looks at all masters, and begins to unlock a hold if a quorum of them answers. */
static void look(struct world *w)
{
    struct unlocker *unlocker = &w->unlocker;
    struct hold *hold = choose(w);
    unsigned answered = 0;
    if (hold == NULL)
        return;
    unlocker->number = hold->token.fence;
    unlocker->missed_percent = MISSED_PERCENT;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        if (!reaches(w, m))
            continue;
        uint64_t stored = ask(w, m, hold->key, "", (uint64_t)master_wall_us(w, m)).number;
        unlocker->number = stored > unlocker->number ? stored : unlocker->number;
        answered++;
    }
    if (answered < world_quorum(w))
        return;
    unlocker->number++;
    unlocker->hold = hold;
    unlocker->master = unlocker->done = 0;
    if (prng_percent(&unlocker->chance, FAILING_PERCENT))
        unlocker->missed_percent = MISSED_OF_FAILING_PERCENT;
    unlocker->is_certain =
        w->forgot_at < 0 && w->fence_last[hold->key] == hold->token.fence &&
        master_count_holding(w, hold->key, hold->token.random) >= world_quorum(w);
    world_say(w, "operator unlocks k%u %02x%02x with %llu", hold->key, hold->token.random[0],
              hold->token.random[1], (unsigned long long)unlocker->number);
    unlocker->begun_at = w->now;
    unlocked_begun(w, hold);
}

static void ask_next(struct world *w)
{
    struct unlocker *unlocker = &w->unlocker;
    struct hold *hold = unlocker->hold;
    char name[HOLD_NAME_CHARS + 1];
    for (size_t i = 0; i < HOLD_NAME_CHARS / 2; i++)
        snprintf(name + 2 * i, 3, "%02x", hold->token.random[i]);
    uint8_t master = unlocker->master++;
    if (!reaches(w, master))
        return;
    bool had = master_holds(w, master, hold->key, hold->token.random);
    struct unlock_answer answer = ask(w, master, hold->key, name, unlocker->number);
    unlocker->done = (uint8_t)(unlocker->done + (answer.word == UNLOCK_DELETED));
    world_say(w, "    m%u unlock k%u: %s", master, hold->key,
              answer.word == UNLOCK_DELETED ? "deleted" : "not there");
    if (had && !master_holds(w, master, hold->key, hold->token.random))
        unlocked_deleted(w, master, hold);
}

static void finish(struct world *w)
{
    struct unlocker *unlocker = &w->unlocker;
    struct hold *hold = unlocker->hold;
    unlocker->hold = NULL;
    if (unlocker->done < world_quorum(w))
        w->figures.unlocked_in_part += unlocker->done > 0;
    if (unlocker->done < world_quorum(w) || hold->ended || hold->released)
        return;
    hold->released = true;
    hold->released_from = unlocker->begun_at;
    hold->released_at = w->now;
    hold->released_after = w->arrivals;
    w->figures.unlocked++;
    uint64_t *last = &w->fence_last[hold->key];
    bool is_rw = options_kind(&w->options, hold->key).rw;
    if (w->options.fencing && unlocker->is_certain && !is_rw && *last == hold->token.fence)
        *last = unlocker->number;
}

void operator_start(struct world *w)
{
    w->unlocker = (struct unlocker){.chance = prng_stream(w->seed, STREAM_OPERATOR, 0)};
    if (w->switches.unlocks)
        come_in(w, prng_between(&w->unlocker.chance, 0, PAUSE_US_MAX));
}

void operator_acts(struct world *w)
{
    struct unlocker *unlocker = &w->unlocker;
    if (unlocker->hold == NULL && w->healed)
        return;
    if (unlocker->hold == NULL)
        look(w);
    else if (unlocker->master < w->options.masters)
        ask_next(w);
    else
        finish(w);
    come_in(
        w, prng_between(&unlocker->chance, 1, unlocker->hold == NULL ? PAUSE_US_MAX : STEP_US_MAX));
}
