/* The end of every schedule. Nothing fails any more. A caller that has the lock releases it. A lock
 * that no caller uses is released by hand. Then a caller waits for it at each agent and must get it
 * in time. At the end no key may be left (C6, C7, C8). These steps are one schedule, in one
 * order. */
#include "explore.h"

#include <stdio.h>
#include <string.h>

enum {
    /* Owed releases are asked for again within OWED_RETRY_MS, and no lease is over yet. */
    SETTLED_US = 650000,
    PROBE_US = 3000000,
    HEARD_US = 250000,
    BACK_OFFS = 2,
    PROBES = 2,         /* Probes at each agent. One at each would show too little. */
    COMING_US = 100000, /* delay between two probes if the order is fair */
    STEPS_MAX = 20000,
};

static void heal(void)
{
    struct world *w = &world;
    w->healed = true;
    w->healed_at = w->now;
    for (uint8_t m = 0; m < w->options.masters; m++)
        if (w->masters[m].down)
            scene_master_starts(m);
    scene.lags_until = 0;
    if (w->options.redisson)
        java_releases();
    while (scene.stray_count > 0)
        scene_execute_stray(0);
    for (uint8_t a = 0; a < w->options.agents; a++) {
        struct agent *agent = &w->agents[a];
        if (agent->stalled)
            agent->stalled = false, agent->stalled_last = w->now;
        if (agent->alive && agent->draining)
            scene_crash(a, FATE_RUN);
        if (!agent->alive)
            scene_boot(a);
        for (uint8_t m = 0; m < w->options.masters; m++)
            agent->connections[m].cut_out_until = agent->connections[m].cut_back_until = 0;
    }
    scene_settle();
}

static void tell(const struct choice *choice)
{
    if (world.verbose)
        choice_tell(choice);
}

/* Runs until then. If `probing` is true, it ends earlier when all that asked have the key. */
static void run_until(int64_t until, bool probing)
{
    struct choice choice;
    for (unsigned steps = 0; world.violation[0] == '\0'; steps++) {
        if (steps == STEPS_MAX)
            checker_fail(&world, "C7 the world does not come to rest");
        if (choices_next_delivery(&choice)) {
            tell(&choice);
            choice_take(&choice);
            continue;
        }
        scene_check_orphans();
        bool done = probing;
        for (uint8_t c = 0; c < world.caller_count; c++)
            done = done && people_is_done(c);
        if (done || world.now >= until)
            return;
        int64_t next = choices_next_time();
        choices_pass_time(next < until ? next : until);
    }
}

/* Returns how many releases end the agent's hold (R11). */
static unsigned releases_left(uint8_t agent, const struct hold *hold)
{
    uint32_t cursor = 0;
    struct hold_view view;
    while (core_next_hold(world.agents[agent].core, agent_clock(&world, agent), &cursor, &view))
        if (token_same_random(&view.token, &hold->token))
            return view.count;
    return 1;
}

static void release_leftovers(void)
{
    for (uint8_t a = 0; a < world.options.agents; a++)
        for (uint8_t place = 0; place < options_places(&world.options); place++)
            for (struct hold *hold = world.agents[a].held[place], *next; hold != NULL;
                 hold = next) {
                next = hold->tenures[a].next;
                for (unsigned left = releases_left(a, hold); left > 0; left--)
                    people_release_leftover(a, hold);
            }
    scene_settle();
}

static void write_late(void)
{
    for (uint16_t i = 1; i < world.hold_count; i++)
        checker_store(&world, &world.holds[i]);
}

/* C8: Checks that no key that an agent has undone or released is left while its lease still lasts.
 * The checker excuses commands that may be in flight. No command is in flight if no caller asks. */
static void check_settled(void)
{
    for (uint8_t a = 0; a < world.options.agents; a++)
        if (core_stats(world.agents[a].core)->requests == 0)
            memset(world.agents[a].attempt, 0, sizeof world.agents[a].attempt);
    checker_settled(&world);
}

/* Returns how long a caller waits at the most. All keys are free, and nothing takes time. The
 * second agent learns of the first one's release (R9). If the order is fair, a ticket of a dead
 * agent may be in the way. */
static int64_t longest_us(void)
{
    const struct options *o = &world.options;
    int64_t ttl_us = 1000 * (int64_t)world.config.max_ttl_ms;
    return o->fair ? 3 * ttl_us + BACK_OFFS * 1000 * (int64_t)o->retry_ms_max : HEARD_US;
}

/* Lets a caller at each agent ask. The first of them does not release the lock before the last one
 * has come. If the order is fair they come one after the other, so that the order shows (C11).
 * Returns when all must have got it. */
static int64_t ask_all(void)
{
    const struct options *o = &world.options;
    unsigned each = (o->fair || o->permits > 1) && o->agents <= 2 ? PROBES : 1;
    scene.probes = (uint8_t)(o->agents * each);
    int64_t until_us = (o->fair ? scene.probes : 1) * longest_us();
    for (uint8_t probe = 0; probe < scene.probes && world.violation[0] == '\0'; probe++) {
        if (o->fair && probe > 0)
            run_until(world.now + COMING_US, false);
        people_probe((uint8_t)(o->callers + probe), probe % o->agents, world.now + until_us);
    }
    return world.now + until_us;
}

void calm_end(void)
{
    struct world *w = &world;
    const struct options *o = &w->options;
    int64_t ttl_us = 1000 * (int64_t)w->config.max_ttl_ms,
            guard_us = w->switches.forgetful ? (ttl_us + 1000000) * 102 / 100 : 0;
    heal();
    run_until(w->healed_at + SETTLED_US, false);
    if (w->violation[0] == '\0')
        check_settled();
    run_until(w->healed_at + PROBE_US + guard_us, false);
    if (w->violation[0] == '\0')
        release_leftovers();
    int64_t due_at = ask_all();
    run_until(due_at, true);
    for (uint8_t c = o->callers; c < w->caller_count; c++)
        if (!people_is_done(c))
            checker_fail(w, "C6 c%u at a%u waits in a healed world, and does not get it", c,
                         w->callers[c].agent);
    if (w->violation[0] == '\0')
        write_late();
    run_until(w->now + ttl_us * 101 / 100 + 1000000, false);
    if (w->violation[0] == '\0')
        checker_end(w);
}

/* Returns true if no core remembers the key and no master has it. No effect is left to see then. */
static bool is_forgotten(void)
{
    bool forgotten = true;
    for (uint8_t a = 0; a < world.options.agents; a++)
        forgotten = forgotten && world.agents[a].alive && !world.agents[a].stalled &&
                    !world.agents[a].draining && core_is_empty(world.agents[a].core);
    for (uint8_t m = 0; m < world.options.masters; m++)
        for (uint8_t place = 0; place < options_places(&world.options); place++)
            forgotten = forgotten && !master_is_locked(&world, m, place) && !world.masters[m].down;
    return forgotten && !world.options.fair;
}

void calm_check(bool always)
{
    if (!always && is_forgotten())
        return;
    struct figures figures = world.figures; /* exercised.c: of the schedule alone */
    size_t saved = state_save();
    for (uint8_t a = 0; a < world.options.agents; a++)
        state_touch_whole(a);
    if (world.verbose)
        puts("            From here on nothing fails.");
    calm_end();
    world.figures = figures;
    if (world.violation[0] == '\0')
        state_restore(saved);
}
