/* The guard's register of layouts (R23): which layouts are at work on the masters, and whether the
 * group may take new locks beside them. */
#include "register.h"

#include <string.h>

#include "core_assert.h"

enum {
    SETTLE_MS = 1000,           /* The time in which every master is tried, at a start. */
    STOPPED_MS = SETTLE_MS / 2, /* After a longer pause within that time it begins anew. */
    STEP_MS = 100,              /* Time between two steps within that time. */
};

void guard_set_layout(struct guard *guard, struct text text, uint32_t silence_ms,
                      uint32_t timeout_ms)
{
    enum { SPARE_MS = 6000 };
    struct guard_register *layouts = &guard->layouts;
    struct layout layout;
    bool is_layout = layout_parse(text, &layout);
    CORE_ASSERT(is_layout);
    layouts->text = text;
    layout_name(text, layouts->name);
    layouts->fresh_ms = REGISTER_QUESTION_MS_MAX + silence_ms;
    uint32_t lease_ms = MUTANT(GUARD_KEPT_SHORTER_THAN_LEASES) ? 0 : guard->max_ttl_ms;
    layouts->keep_ms = lease_ms + layouts->fresh_ms + timeout_ms + SPARE_MS;
}

/* ---- the gate ---- */

bool register_is_noted(const struct guard_master *master, struct instant now)
{
    return instant_before(now, master->noted_until) ||
           (master->noted && MUTANT(GUARD_STALE_ANSWER_COUNTS));
}

/* R23: "A group takes new locks only while no layout that is no neighbour is known to be at work,
 * and every master that can be reached has noted the agent's own." A master that refuses questions
 * cannot note anything: it has no vote here, and the others do not wait for it. */
enum guard_gate guard_gate(const struct guard *guard, struct instant now)
{
    const struct guard_register *layouts = &guard->layouts;
    struct instant settled = instant_after_ms(layouts->listens_since, SETTLE_MS);
    if (layouts->text.len == 0 || MUTANT(GUARD_GATE_NOT_LOOKED_AT))
        return GUARD_OPEN;
    if (instant_before(now, layouts->refused_until) && !MUTANT(GUARD_DISAGREES_ONE_MASTER))
        return GUARD_REFUSED_BY_LAYOUT;
    if (!layouts->has_stepped)
        return GUARD_LISTENS;
    for (uint8_t i = 0; i < guard->master_count; i++) {
        const struct guard_master *master = &guard->masters[i];
        bool ready = master->phase == GUARD_MASTER_READY,
             waits = !ready && !master->tried && instant_before(now, settled),
             lacks = ready && !master->errs && !register_is_noted(master, now) &&
                     !MUTANT(GUARD_DISAGREES_ONE_MASTER);
        if (waits || lacks)
            return GUARD_LISTENS;
    }
    return GUARD_OPEN;
}

/* ---- questions and answers ---- */

void register_ask(const struct guard *guard, struct instant now, struct guard_ask *ask)
{
    const struct guard_register *layouts = &guard->layouts;
    bool refused = instant_before(now, layouts->refused_until);
    ask->layout = layouts->text;
    if (layouts->text.len == 0)
        return;
    ask->renews =
        refused && instant_before(now, layouts->leases_until) && !MUTANT(GUARD_NOTED_WHILE_REFUSED);
    ask->keep_ms =
        refused && !ask->renews && !MUTANT(GUARD_NOTED_WHILE_REFUSED) ? 0 : layouts->keep_ms;
    memcpy(ask->layout_name, layouts->name, sizeof(ask->layout_name));
    for (uint8_t i = 0; i < layouts->neighbour_count; i++) {
        char *at = ask->neighbours + (size_t)i * LAYOUT_NAME_BYTES;
        memcpy(at, layouts->neighbours[i], LAYOUT_NAME_BYTES - 1);
        at[LAYOUT_NAME_BYTES - 1] = ' ';
    }
}

/* Notes a neighbour. Returns true if a further question names it, and the last one, which named so
 * many as `told`, did not. False: it took the place of an older one, or the master has it under
 * another name. */
static bool note_neighbour(struct guard_register *layouts, struct text text, uint8_t told)
{
    char name[LAYOUT_NAME_BYTES];
    layout_name(text, name);
    for (uint8_t i = 0; i < layouts->neighbour_count; i++)
        if (memcmp(layouts->neighbours[i], name, sizeof(name)) == 0)
            return i >= told; /* Another master has answered it meanwhile. */
    bool has_place = layouts->neighbour_count < GUARD_NEIGHBOURS;
    memcpy(layouts->neighbours[layouts->neighbour_next], name, sizeof(name));
    layouts->neighbour_next = (uint8_t)((layouts->neighbour_next + 1) % GUARD_NEIGHBOURS);
    layouts->neighbour_count = (uint8_t)(layouts->neighbour_count + has_place);
    return has_place;
}

/* R23: "So the layout with the greater name remembers the other one for F longer." Both may have
 * been refused, each of them by the other. */
static int64_t yield_ms(const struct guard_register *layouts, struct text other)
{
    char name[LAYOUT_NAME_BYTES];
    layout_name(other, name);
    return memcmp(layouts->name, name, LAYOUT_NAME_BYTES) > 0 && !MUTANT(GUARD_NEVER_YIELDS)
               ? layouts->fresh_ms
               : 0;
}

void register_hear(struct guard *guard, uint8_t index, const struct guard_layouts *heard,
                   struct instant now, struct guard_effects *effects)
{
    struct guard_register *layouts = &guard->layouts;
    struct guard_master *master = &guard->masters[index];
    struct layout own, other;
    CORE_ASSERT(heard->count <= GUARD_OTHERS);
    master->tried = true;
    master->noted = heard->noted;
    master->at_work = heard->at_work;
    master->errs = master->disagrees = false;
    master->meets = heard->count > 0;
    for (unsigned i = 0; i < heard->count; i++) {
        struct text text = heard->others[i].text;
        bool both = layout_parse(layouts->text, &own) && layout_parse(text, &other);
        enum layout_conflict conflict = both ? layout_compare(&own, &other) : LAYOUT_OTHER_WIRE;
        if (conflict == LAYOUT_NEIGHBOURS) {
            master->meets = note_neighbour(layouts, text, master->told) && master->meets;
            continue;
        }
        struct instant until =
            instant_after_ms(now, heard->others[i].left_ms + yield_ms(layouts, text));
        if (!MUTANT(GUARD_LAYOUT_FORGOTTEN_EARLY))
            layouts->refused_until = instant_max(layouts->refused_until, until);
        effects->theirs = text;
        effects->asked = index;
        effects->conflict = conflict;
        master->disagrees = true;
        master->meets = false;
    }
    /* The entry that was there is kept beside new neighbours, until a question names them. */
    if (heard->noted)
        master->noted_until = instant_after_ms(master->answered_asked_at, layouts->fresh_ms);
    else if (heard->count == 0 || master->disagrees)
        master->noted_until = (struct instant){0};
}

/* Returns true if the last step was within the time in which every master is tried. */
static bool is_listening(const struct guard_register *layouts)
{
    return layouts->has_stepped &&
           instant_before(layouts->stepped_at, instant_after_ms(layouts->listens_since, SETTLE_MS));
}

struct instant register_deadline(const struct guard *guard)
{
    const struct guard_register *layouts = &guard->layouts;
    if (layouts->text.len == 0)
        return INSTANT_NEVER;
    if (!layouts->has_stepped && !MUTANT(GUARD_WAITS_TO_REACH_ONE))
        return (struct instant){0}; /* It may reach no master for long, and other groups wait. */
    return is_listening(layouts) ? instant_after_ms(layouts->stepped_at, STEP_MS) : INSTANT_NEVER;
}

void register_step(struct guard *guard, struct instant now)
{
    struct guard_register *layouts = &guard->layouts;
    int64_t pause_ms = is_listening(layouts) && !MUTANT(GUARD_LISTENS_ASLEEP)
                           ? STOPPED_MS
                           : (int64_t)layouts->fresh_ms;
    bool was_paused = instant_before(instant_after_ms(layouts->stepped_at, pause_ms), now) &&
                      !MUTANT(GUARD_PAUSE_UNNOTICED);
    if (!layouts->has_stepped || was_paused) {
        layouts->listens_since = now;
        for (uint8_t i = 0; i < guard->master_count; i++)
            guard->masters[i].tried = false;
    }
    if (!layouts->has_stepped) /* An earlier process may have left it holds (D8.3). */
        guard->idle_from = instant_max(guard->idle_from, instant_after_ms(now, guard->max_ttl_ms));
    layouts->has_stepped = true;
    layouts->stepped_at = now;
}

void register_leases(struct guard *guard, struct instant until)
{
    guard->layouts.leases_until = instant_max(guard->layouts.leases_until, until);
}
