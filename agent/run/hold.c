/* When the hold of one key begins and ends. */
#include "agent/run/hold.h"

#include "agent/base/text.h"
#include "agent/clock.h"

void run_hold_take(struct run_hold *hold, const struct hold_view *granted)
{
    hold->granted = true;
    hold->token = granted->token;
    hold->margin_ms = lost_margin_ms(
        granted->ttl_ms, instant_us_between(granted->acquired_at, granted->max_hold_until) / 1000);
    hold->valid_until = granted->valid_until;
}

bool run_hold_may_begin(const struct run_hold *hold)
{
    return !hold->lost && !clock_has_reached(instant_after_ms(hold->valid_until, -hold->margin_ms));
}

struct instant run_hold_kill_at(const struct run_hold *hold)
{
    return instant_after_ms(hold->valid_until, -hold->margin_ms / 2);
}

void run_hold_refresh(struct run_hold *holds, size_t count, const struct core *core)
{
    struct hold_view view;
    uint32_t cursor = 0;
    while (core_next_hold(core, clock_now(), &cursor, &view)) {
        struct run_hold *hold = run_hold_find(holds, count, view.key);
        if (hold != NULL && hold->granted)
            hold->valid_until = view.valid_until;
    }
}

struct run_hold *run_hold_find(struct run_hold *holds, size_t count, struct text key)
{
    for (size_t i = 0; i < count; i++)
        if (text_is(key, holds[i].key))
            return &holds[i];
    return NULL;
}
