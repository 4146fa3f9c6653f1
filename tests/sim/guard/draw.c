/* Draws the conditions of a run of the guard's world from its seed. */
#include "tests/sim/guard/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MS = 1000, SKEW_MS = 400, LONG_TTL_MS = 20000 };

static int64_t between(struct world *world, int64_t low, int64_t high)
{
    return prng_between(&world->prng, low, high);
}

/* Draws the max_ttl of an agent's new life. Agents that live long name little. */
uint32_t world_draw_max_ttl(struct world *world, uint8_t a)
{
    static const uint32_t ms[] = {1000, 2000, 5000, 5000};
    if (!world->unequal || world->a6 == A6_KEPT)
        return world->agents[0].max_ttl_ms;
    if (a != 0 && world->now_us < world->chaos_until_us / 2 && prng_percent(&world->prng, 25))
        return LONG_TTL_MS;
    return ms[prng_below(&world->prng, a == 0 ? 2 : 4)];
}

static uint8_t any_agent(struct world *world)
{
    return (uint8_t)prng_below(&world->prng, world->agent_count);
}

static uint8_t any_master(struct world *world)
{
    return (uint8_t)prng_below(&world->prng, world->master_count);
}

static void draw_links(struct world *world, struct sim_agent *agent)
{
    for (uint8_t m = 0; m < world->master_count; m++) {
        struct link *link = &agent->links[m];
        *link = (struct link){.latency_us = prng_percent(&world->prng, 70)
                                                ? between(world, 30, 500)
                                                : between(world, 500, 30 * MS)};
        if (prng_percent(&world->prng, 60))
            link->first_connect_us = between(world, 0, 1500 * MS);
        if (world->theme == THEME_LEASES && prng_percent(&world->prng, 25))
            link->blocked_until_us = between(world, 0, world->chaos_until_us);
    }
}

static void draw_agents(struct world *world)
{
    static const uint32_t ms[] = {1000, 1000, 2000, 5000};
    world->agents[0].max_ttl_ms = ms[prng_below(&world->prng, 4)];
    for (uint8_t a = 0; a < world->agent_count; a++) {
        struct sim_agent *agent = &world->agents[a];
        agent->idle = prng_percent(&world->prng, 20);
        agent->start_us = prng_percent(&world->prng, 30) ? 0 : between(world, 0, 2000 * MS);
        draw_links(world, agent);
        world_plan(world, agent->start_us, (struct happening){.kind = HAPPEN_START, .agent = a});
    }
}

/* An old group: every master has its marker and votes. */
static void draw_past(struct world *world)
{
    for (uint8_t m = 0; m < world->master_count; m++) {
        struct sim_master *master = &world->masters[m];
        struct guard_ask ask = {
            .question = GUARD_ASK_TRUST, .max_ttl_ms = 1000, .top = 1, .told = GUARD_TOLD};
        struct guard_answer answer;
        char epoch[24], run[24] = "";
        if (!world->hides_run)
            snprintf(run, sizeof(run), "r%us%u", m, (unsigned)master->server);
        snprintf(epoch, sizeof(epoch), "%016" PRIx64, prng_next(&world->prng));
        script_marker(master->keys, master_wall_ms(world, master), &ask, 0, run, epoch, &answer);
    }
}

static void draw_happenings(struct world *world, enum happening_kind kind, unsigned most,
                            int64_t by_ms)
{
    for (unsigned i = (unsigned)prng_below(&world->prng, most + 1); i > 0; i--)
        world_plan(world, between(world, 0, world->chaos_until_us),
                   (struct happening){.kind = kind,
                                      .agent = any_agent(world),
                                      .master = any_master(world),
                                      .how = (uint8_t)prng_below(&world->prng, 2),
                                      .by_ms = by_ms ? between(world, 300, by_ms) : 0});
}

static enum forgetting draw_how(struct world *world)
{
    if (world->theme == THEME_COPIES && prng_percent(&world->prng, 50))
        return COPIED;
    enum forgetting how = (enum forgetting)prng_below(&world->prng, FORGETTINGS);
    return how == COPIED ? FLUSHED : how;
}

/* Masters forget by themselves, and sometimes several within moments. */
static void draw_forgetting(struct world *world)
{
    bool fresh = world->theme == THEME_FRESH, turn = world->theme != THEME_FORGETFUL && !fresh;
    unsigned bursts = (unsigned)between(world, fresh ? 0 : 1, fresh ? 2 : turn ? 14 : 8);
    for (unsigned i = 0; i < bursts; i++) {
        int64_t at_us = between(world, 0, world->chaos_until_us);
        enum forgetting how = draw_how(world);
        unsigned masters = turn ? 1 : (unsigned)between(world, 1, world->master_count);
        for (unsigned k = 0; k < masters; k++)
            world_plan(world,
                       at_us +
                           between(world, 0, prng_percent(&world->prng, 50) ? 3 * MS : 3000 * MS),
                       (struct happening){.kind = HAPPEN_FORGET,
                                          .how = (uint8_t)how,
                                          .from = any_master(world),
                                          .master = any_master(world)});
    }
}

static void draw_group(struct world *world)
{
    static const unsigned sizes[] = {1, 2, 3, 3, 4, 5, 5};
    bool needs_witnesses = world->theme != THEME_FRESH && world->theme != THEME_FORGETFUL;
    unsigned from = needs_witnesses ? 1 : 0;
    world->durable = prng_percent(&world->prng, 50);
    world->hides_run = prng_percent(&world->prng, 10);
    world->unequal = world->theme == THEME_LEASES || world->a6 != A6_EXCUSES;
    world->clocks_step = world->theme == THEME_IN_TURN || world->theme == THEME_FORGETFUL;
    world->master_count = sizes[from + prng_below(&world->prng, 7 - from)];
    bool all = world->master_count == 2 || prng_percent(&world->prng, 10); /* multilock */
    world->quorum = all ? world->master_count : world->master_count / 2 + 1;
    for (uint8_t m = 0; m < world->master_count; m++) {
        if (!world->keys[m])
            world->keys[m] = keyspace_new();
        keyspace_clear(world->keys[m]);
        world->masters[m] = (struct sim_master){.keys = world->keys[m],
                                                .server = 1,
                                                .skew_ms = between(world, -SKEW_MS, SKEW_MS),
                                                .well_since_us = INT64_MAX,
                                                .lease_end_us = INT64_MIN,
                                                .owes_until_us = INT64_MIN,
                                                .forgot_us = INT64_MIN / 2};
    }
}

void world_draw(struct world *world)
{
    world->hold_until_us = world->hold_began_us = INT64_MIN;
    world->jumped_us = world->unknown_until_us = INT64_MIN;
    draw_group(world);
    bool leases = world->theme == THEME_LEASES;
    world->agent_count = (unsigned)between(world, leases ? 2 : 1, AGENTS_MAX);
    world->chaos_until_us = (int64_t)(leases ? 70000 : 25000) * MS;
    /* The longest guard, a guess behind it, and a master that was out of reach before. */
    world->end_us = world->chaos_until_us + (int64_t)(leases ? LONG_TTL_MS + 22000 : 42000) * MS;
    draw_agents(world);
    if (world->theme != THEME_FRESH)
        draw_past(world);
    bool in_turn = world->theme == THEME_IN_TURN;
    draw_happenings(world, HAPPEN_DROP, in_turn ? 60 : 30, 0);
    draw_happenings(world, HAPPEN_CRASH, leases ? 8 : 4, 0);
    draw_happenings(world, HAPPEN_PAUSE, 4, 0);
    draw_happenings(world, HAPPEN_FREEZE, in_turn ? 6 : 2, leases ? 5000 : 12000);
    draw_happenings(world, HAPPEN_FULL, 2, 0);
    if (world->clocks_step)
        draw_happenings(world, HAPPEN_CLOCK, 12, 0);
    if (world->theme == THEME_COPIES)
        draw_happenings(world, HAPPEN_SPOIL, 2, 0);
    draw_forgetting(world);
    world_plan(world, 0, (struct happening){.kind = HAPPEN_LOOK});
}
