/* The properties of the guard:
 *
 *   G1  a new durable group is never guarded, and votes as soon as it is whole: no master ever gets
 *       a guard that is not a birth's, and when all has been well for a while, every master votes
 *   G2  a master that forgot has no vote before the longest lease of any agent that was connected,
 *       and one second, have passed since
 *
 *   G3  all guards end, and everybody sees it
 *   G4  no vote is heard before the core has been told of the epoch that it is of (R7)
 *
 * An agent counts as connected while it was never away from that master for longer than a second
 * since. What the marker said of max_ttl counts as well, while one of these that has not been
 * restarted had read it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/guard/world.h"

enum {
    AWAY_US = 1000 * 1000,
    READ_US = 1500 * 1000, /* who is connected reads a marker at least that often */
};

static void broken(struct world *world, const char *property, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void broken(struct world *world, const char *property, const char *format, ...)
{
    if (*world->violation)
        return;
    snprintf(world->violation, sizeof(world->violation), "%s", property);
    va_list args;
    va_start(args, format);
    vsnprintf(world->why, sizeof(world->why), format, args);
    va_end(args);
}

static int64_t left_ms(struct world *world, struct sim_master *master)
{
    return script_guard_left_ms(master->keys, master_wall_ms(world, master));
}

/* ---- G2 ---- */

static bool was_away(const struct world *world, uint8_t agent, uint8_t master)
{
    return world->now_us - AWAY_US > world->agents[agent].links[master].away_since_us;
}

static int64_t needed_us(const struct world *world, uint8_t index)
{
    const struct sim_master *master = &world->masters[index];
    uint32_t longest_ms = 0;
    for (uint8_t i = 0; i < world->agent_count; i++) {
        bool is_witness = master->witnesses >> i & 1 && !was_away(world, i, index);
        if (is_witness && world->agents[i].max_ttl_ms > longest_ms)
            longest_ms = world->agents[i].max_ttl_ms;
        if (is_witness && master->readers >> i & 1 && master->owed_ms > longest_ms)
            longest_ms = master->owed_ms;
    }
    return longest_ms ? ((int64_t)longest_ms + 1000) * 1000 : 0;
}

void check_crashed(struct world *world, uint8_t agent)
{
    for (uint8_t m = 0; m < world->master_count; m++)
        world->masters[m].readers &= (uint8_t) ~(1u << agent);
}

/* A link is ready again: whoever was away for too long is no witness of what the master forgot. */
void check_back(struct world *world, uint8_t agent, uint8_t master)
{
    if (was_away(world, agent, master))
        world->masters[master].witnesses &= (uint8_t) ~(1u << agent);
}

/* True where the guard of what it forgot last must still run. */
static bool is_owing(const struct world *world, uint8_t index)
{
    const struct sim_master *master = &world->masters[index];
    return master->forgot_us != INT64_MIN &&
           world->now_us < master->forgot_us + needed_us(world, index);
}

/* Several masters forget, but never all: one is left that votes and owes nothing, for as long as
 * any lease can last. */
bool check_may_forget(struct world *world, uint8_t index)
{
    if (world->theme == THEME_FLUSHED)
        return true;
    uint32_t longest_ms = 0;
    for (uint8_t i = 0; i < world->agent_count; i++)
        if (world->agents[i].max_ttl_ms > longest_ms)
            longest_ms = world->agents[i].max_ttl_ms;
    for (uint8_t i = 0; i < world->master_count; i++) {
        struct sim_master *other = &world->masters[i];
        bool old = other->forgot_us == INT64_MIN ||
                   world->now_us - other->forgot_us > ((int64_t)longest_ms + 2000) * 1000;
        if (i != index && old && left_ms(world, other) == 0)
            return true;
    }
    return false;
}

/* Before it forgets. */
void check_forgot(struct world *world, uint8_t index)
{
    struct sim_master *master = &world->masters[index];
    master->lived |= left_ms(world, master) == 0;
    if (!master->lived)
        return;
    master->forgot_us = world->now_us;
    bool was_read = world->now_us - master->ttl_since_us > READ_US;
    master->owed_ms = was_read ? marker_max_ttl_ms(master->keys) : 0;
    master->witnesses = 0;
    for (uint8_t i = 0; i < world->agent_count; i++)
        if (world->agents[i].links[index].away_since_us == INT64_MAX)
            master->witnesses |= (uint8_t)(1u << i);
    master->readers = master->witnesses;
}

/* A vote is one that somebody can ask for: a replica that was just promoted is asked by those alone
 * who have greeted it, and by none of those whom it did not let write its marker. */
static bool is_asked(const struct world *world, uint8_t index)
{
    for (uint8_t i = 0; i < world->agent_count; i++)
        if (world->agents[i].links[index].ready &&
            world->agents[i].links[index].server == world->masters[index].server &&
            !world->agents[i].guard.masters[index].unsure)
            return true;
    return false;
}

/* ---- G1 ---- */

/* Beyond what a birth is: that is over in a moment. */
static bool is_guarded(struct world *world, struct sim_master *master)
{
    char birth[GUARD_WORD_BYTES];
    bool is_marked = marker_field(master->keys, "birth", birth);
    return is_marked && !*birth && left_ms(world, master) != 0;
}

/* ---- G4 ---- */

/* After the guard has been told of it. */
void check_told(struct world *world, const struct happening *reply)
{
    const struct sim_agent *agent = &world->agents[reply->agent];
    bool tells = reply->request == REQUEST_RENEW ||
                 (reply->request == REQUEST_LOCK && reply->answer.left_ms == 0);
    if (tells && !agent->guard.masters[reply->master].unsure &&
        strcmp(agent->links[reply->master].told_epoch, reply->answer.epoch) != 0)
        broken(world, "G4",
               "agent %u hears master %u of epoch '%.4s' before its core knows of that",
               reply->agent, reply->master, reply->answer.epoch);
}

/* ---- all ---- */

void check_now(struct world *world)
{
    for (uint8_t m = 0; m < world->master_count; m++)
        if (is_owing(world, m) && is_asked(world, m) && left_ms(world, &world->masters[m]) == 0)
            broken(world, "G2", "master %u votes %lld ms after it forgot; %lld ms are needed", m,
                   (long long)(world->now_us - world->masters[m].forgot_us) / 1000,
                   (long long)needed_us(world, m) / 1000);
    for (uint8_t m = 0; world_is_fresh(world) && m < world->master_count; m++)
        if (is_guarded(world, &world->masters[m]))
            broken(world, "G1", "master %u of a new group is guarded", m);
}

void check_end(struct world *world)
{
    for (uint8_t m = 0; m < world->master_count; m++) {
        int64_t left = left_ms(world, &world->masters[m]);
        if (left != 0 && world_is_fresh(world))
            broken(world, "G1", "master %u of a new group does not vote at the end, for %lld ms", m,
                   (long long)left);
        else if (left != 0)
            broken(world, "G3", "master %u is guarded at the end, for %lld ms", m, (long long)left);
    }
    for (uint8_t a = 0; a < world->agent_count; a++)
        for (uint8_t m = 0; m < world->master_count; m++) {
            int64_t left =
                guard_left_ms(&world->agents[a].guard, m, (struct instant){world->now_us});
            if (left != 0)
                broken(world, "G3", "agent %u takes master %u for guarded at the end, for %lld ms",
                       a, m, (long long)left);
        }
}
