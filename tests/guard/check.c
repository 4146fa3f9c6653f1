/* The properties of the guard (docs/design.md, D11):
 *
 *   C1  one holder at a time; C2 numbers that are answered rise
 *   G3  all guards end, telling and guessing as well, and every agent sees it; of agents whose
 *       layouts are apart some are let in
 *   G4  no vote is counted before the core has been told of the epoch that it is of (R7)
 *   G5  of the masters that remember at most N - Q have a top below a number that was answered
 *   G6  the vote is `=<run>:<epoch>:<floor>` of the marker
 *   G7  a master that forgot has no vote before the longest lease that any agent has asked for
 *       there, and 1 s, have passed; of masters with the same data one at most has a vote until
 *       then
 *   G8  at a master that votes, and is asked for its marker, a max_ttl that no agent has any more
 *       falls back within 2 x (max_ttl + 10 s)
 *   G9  no agent guesses while enough others that remember have answered it for 3 s
 *
 * A master remembers if it has not forgotten, or has been told since: by the world's own account of
 * the losses. These are no violations, by the assumptions of D1:
 *   A3  a master's clock that is set forward ends its leases and its guard early: not C1 of holds
 *       that were there then, and not G7 of that master. So does data of another master whose clock
 *       is behind.
 *   A6  a guess: not G5 and C2 of the numbers before it, if it is below them; if agents have
 *       unequal max_ttl not C1 and G7, until all leases from before it have ended. With --break A6
 *       and --keep A6 a guess excuses nothing. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guard/world.h"

#define SECOND_US ((int64_t)1000 * 1000)

enum {
    LONGEST_MS = 25000 /* max_ttl of any agent */,
    HEARD_S = 3,
    ASKED_S = 7, /* A master that can be asked is asked within it, also of an idle group. */
    SETTLING_MS = 10000
};

void check_broken(struct world *world, const char *property, const char *format, ...)
{
    if (*world->violation)
        return;
    snprintf(world->violation, sizeof(world->violation), "%s", property);
    va_list args;
    va_start(args, format);
    vsnprintf(world->why, sizeof(world->why), format, args);
    va_end(args);
}

/* ---- possible leases, and how long they last (G7) ---- */

static bool is_there(const struct world *world, uint8_t a, uint8_t m)
{
    const struct sim_agent *agent = &world->agents[a];
    const struct link *link = &agent->links[m];
    return agent->alive && link->ready && link->server == world->masters[m].server &&
           !agent->guard.masters[m].unsure;
}

/* Before an agent asks for a lock: if it is connected with a quorum, it can be granted a lease of
 * its max_ttl. */
void check_asks(struct world *world, uint8_t a)
{
    unsigned there = 0;
    int64_t until_us = world->now_us + (int64_t)world->agents[a].max_ttl_ms * 1000 + SECOND_US;
    for (uint8_t m = 0; m < world->master_count; m++)
        there += is_there(world, a, m);
    for (uint8_t m = 0; there >= world->quorum && m < world->master_count; m++)
        if (is_there(world, a, m) && until_us > world->masters[m].lease_end_us)
            world->masters[m].lease_end_us = until_us;
}

/* Before it forgets. */
void check_forgets(struct world *world, uint8_t m)
{
    struct sim_master *master = &world->masters[m];
    if (master->lease_end_us > master->owes_until_us)
        master->owes_until_us = master->lease_end_us;
    master->well_since_us = INT64_MAX;
    master->is_copy = false;
    master->twins = 0;
    for (uint8_t other = 0; other < world->master_count; other++)
        world->masters[other].twins &= (master_set) ~(1u << m);
}

/* Notes that the master has another one's data, after it has forgotten its own. Of all masters with
 * the same data one may vote. */
void check_copied(struct world *world, uint8_t m, uint8_t from)
{
    struct sim_master *master = &world->masters[m], *source = &world->masters[from];
    master->is_copy = world->now_us >= source->owes_until_us || source->is_copy;
    master->twins = source->twins | (master_set)(1u << from);
    for (uint8_t other = 0; other < world->master_count; other++)
        if (world->masters[other].twins >> from & 1)
            master->twins |= (master_set)(1u << other);
    master->twins &= (master_set) ~(1u << m);
}

/* The agent knows the vote that the master has. */
static bool can_use(struct world *world, uint8_t a, uint8_t m)
{
    char vote[GUARD_VOTE_BYTES];
    return is_there(world, a, m) && stored_vote(world->masters[m].keys, vote) &&
           strcmp(vote, guard_vote(&world->agents[a].guard, m, (struct instant){world->now_us})) ==
               0;
}

static bool can_use_twin(struct world *world, uint8_t a, uint8_t m)
{
    for (uint8_t other = 0; other < world->master_count; other++)
        if (world->masters[m].twins >> other & 1 && can_use(world, a, other))
            return true;
    return false;
}

static void check_debt(struct world *world, uint8_t m)
{
    struct sim_master *master = &world->masters[m];
    if (world->now_us >= master->owes_until_us) {
        master->is_copy = false;
        master->twins = 0;
        return;
    }
    for (uint8_t a = 0; a < world->agent_count && world->now_us >= world->unknown_until_us; a++)
        if (can_use(world, a, m) && (!master->is_copy || can_use_twin(world, a, m)))
            check_broken(world, "G7", "master %u%s votes, for agent %u, %lld ms too early", m,
                         master->is_copy ? ", with the data of another that votes," : "", a,
                         (long long)(master->owes_until_us - world->now_us) / 1000);
}

/* ---- answers to callers ---- */

void check_answered(struct world *world, uint8_t a)
{
    const struct attempt *attempt = &world->agents[a].attempt;
    int64_t ttl_us = (int64_t)attempt->lock.ttl_ms * 1000;
    world->count.answered++;
    world_say(world, "agent %u has the lock, with %" PRIu64, a, attempt->lock.number);
    bool is_held = world->now_us < world->hold_until_us &&
                   world->hold_began_us > world->jumped_us &&
                   world->now_us >= world->unknown_until_us;
    if (is_held)
        check_broken(world, world->apart ? "G10" : "C1",
                     "agent %u has the lock, and agent %u for another %lld ms", a,
                     (unsigned)world->holder,
                     (long long)(world->hold_until_us - world->now_us) / 1000);
    if (attempt->lock.number <= world->answered)
        check_broken(world, "C2", "agent %u is answered %" PRIu64 " after %" PRIu64, a,
                     attempt->lock.number, world->answered);
    world->answered = attempt->lock.number;
    world->hold_began_us = attempt->began_us;
    world->hold_until_us = attempt->began_us + ttl_us - ttl_us / 100 - 2000;
    world->holder = a;
    world->holder_attempt = attempt->lock.attempt;
}

void check_extended(struct world *world, uint8_t a, int64_t until_us)
{
    const struct script_lock *lock = &world->agents[a].attempt.lock;
    bool is_holder = world->holder == lock->agent - 1 && world->holder_attempt == lock->attempt;
    if (is_holder && until_us > world->hold_until_us)
        world->hold_until_us = until_us;
}

static void check_tops(struct world *world)
{
    unsigned below = 0;
    for (uint8_t m = 0; m < world->master_count; m++)
        below += act_remembers(world, m) &&
                 marker_number(world->masters[m].keys, "top") < world->answered;
    if (below > world->master_count - world->quorum)
        check_broken(world, "G5", "%u masters that remember have a top below %" PRIu64, below,
                     world->answered);
}

/* ---- a marker was looked at ---- */

static void check_vote(struct world *world, uint8_t m)
{
    struct keyspace *keys = world->masters[m].keys;
    char vote[GUARD_VOTE_BYTES], want[2 * GUARD_VOTE_BYTES], run[GUARD_WORD_BYTES],
        epoch[GUARD_WORD_BYTES];
    marker_field(keys, "run", run);
    marker_field(keys, "epoch", epoch);
    snprintf(want, sizeof(want), "=%s:%s:%016" PRIu64, run, epoch, marker_number(keys, "floor"));
    if (!world->masters[m].spoiled && stored_vote(keys, vote) && *epoch && strcmp(vote, want) != 0)
        check_broken(world, "G6", "the vote of master %u is '%s', and not '%s'", m, vote, want);
}

/* The vote that the script answers is there, exactly while the guard is over and it was told. */
static void check_answer(struct world *world, const struct happening *h)
{
    const struct guard_answer *answer = &h->answer;
    char vote[GUARD_VOTE_BYTES];
    bool votes = stored_vote(world->masters[h->master].keys, vote);
    bool should = answer->left_ms == 0 && answer->told != GUARD_NOT_TOLD && !answer->spoiled;
    if (votes != should || strcmp(vote, answer->vote) != 0)
        check_broken(world, "G6", "master %u says '%s', and has '%s'", h->master, answer->vote,
                     vote);
}

static void note_guess(struct world *world, const struct happening *h)
{
    int64_t longest_us = ((int64_t)LONGEST_MS + SETTLING_MS) * 1000;
    world->count.guessed++;
    if (world->a6 != A6_EXCUSES)
        return;
    if (h->answer.floor < world->answered)
        world->answered = 0;
    if (world->unequal)
        world->unknown_until_us = world->now_us + longest_us;
}

/* A max_ttl of an agent that is there, or that is told to a master that does not vote. */
static void note_named(const struct world *world, struct sim_master *master, uint32_t ttl_ms)
{
    unsigned i = 0;
    while (master->named[i].ttl_ms != 0 && master->named[i].ttl_ms != ttl_ms)
        if (++i == NAMED_MAX)
            abort();
    master->named[i].ttl_ms = ttl_ms;
    master->named[i].at_us = world->now_us;
}

static int64_t named_us(const struct sim_master *master, int64_t ttl_ms)
{
    int64_t last_us = 0;
    for (unsigned i = 0; i < NAMED_MAX; i++)
        if (master->named[i].ttl_ms >= ttl_ms && master->named[i].at_us > last_us)
            last_us = master->named[i].at_us;
    return last_us;
}

void check_marker(struct world *world, const struct happening *h, uint64_t ttl_before_ms,
                  uint64_t told_before)
{
    struct sim_master *master = &world->masters[h->master];
    uint64_t ttl_ms = marker_number(master->keys, "max_ttl"),
             told = marker_number(master->keys, "told");
    master->spoiled = h->answer.spoiled;
    if (told_before == 0 && told == GUARD_GUESSED && h->ask.told == GUARD_GUESSED)
        note_guess(world, h);
    world->count.told += told_before == 0 && told == GUARD_TOLD;
    world->count.fallen += ttl_ms < ttl_before_ms && h->answer.left_ms == 0;
    bool was_away = world->now_us - master->asked_us > ASKED_S * SECOND_US;
    note_named(world, master, h->lock.ttl_ms);
    if (h->connection == 0) /* It was sent on a dead connection while the master did not vote. */
        note_named(world, master, h->ask.max_ttl_ms);
    if (ttl_ms != ttl_before_ms || was_away || !*h->answer.vote ||
        h->ask.question == GUARD_ASK_TELL)
        note_named(world, master, (uint32_t)ttl_ms);
    master->asked_us = world->now_us;
    check_vote(world, h->master);
    check_answer(world, h);
}

/* ---- guesses ---- */

static bool has_answered(const struct world *world, uint8_t a, uint8_t m)
{
    const struct link *link = &world->agents[a].links[m];
    int64_t since_us = world->now_us - HEARD_S * SECOND_US;
    return link->ready && link->ready_since_us < since_us &&
           world->masters[m].well_since_us < since_us;
}

/* Returns true if a master has noted two layouts (R23). */
static bool has_neighbours(const struct world *world)
{
    const struct bytes name = {LAYOUTS_KEY, strlen(LAYOUTS_KEY)};
    for (uint8_t m = 0; m < world->master_count; m++) {
        const struct entry *layouts = keyspace_find(world->masters[m].keys, name);
        if (layouts != NULL && layouts->field_count > 1)
            return true;
    }
    return false;
}

/* An agent is about to guess for the master. Beside a neighbour all others have to remember, and
 * two at least. */
void check_guess(struct world *world, uint8_t a, uint8_t m)
{
    unsigned witnesses = 0, needed = act_witnesses(world);
    if (has_neighbours(world))
        needed = world->master_count > 3 ? world->master_count - 1u : 2;
    for (uint8_t other = 0; other < world->master_count; other++)
        witnesses += other != m && has_answered(world, a, other);
    if (witnesses >= needed)
        check_broken(world, "G9", "agent %u guesses for master %u, and %u others remember", a, m,
                     witnesses);
}

/* ---- reports to the core (G4) ---- */

/* After the guard has been told of it. */
void check_heard(struct world *world, const struct happening *reply)
{
    const struct sim_agent *agent = &world->agents[reply->agent];
    const struct link *link = &agent->links[reply->master];
    bool tells = reply->request == REQUEST_RENEW ||
                 (reply->request == REQUEST_LOCK && reply->says == SAYS_YES);
    if (tells && !agent->guard.masters[reply->master].unsure &&
        strcmp(link->told_epoch, reply->answer.epoch) != 0)
        check_broken(world, "G4",
                     "agent %u hears master %u of epoch '%.4s', of which its core "
                     "does not know",
                     reply->agent, reply->master, reply->answer.epoch);
}

/* ---- all ---- */

static void check_leases(struct world *world, uint8_t m)
{
    const struct sim_master *master = &world->masters[m];
    int64_t ttl_ms = (int64_t)marker_number(master->keys, "max_ttl"),
            falls_ms = 2 * (ttl_ms + SETTLING_MS) + 2 * ASKED_S * 1000;
    if (ttl_ms > 0 && world->now_us - master->asked_us < ASKED_S * SECOND_US &&
        world->now_us - named_us(master, ttl_ms) > falls_ms * 1000)
        check_broken(world, "G8", "master %u keeps a max_ttl of %lld ms", m, (long long)ttl_ms);
}

void check_now(struct world *world)
{
    struct instant now = {world->now_us};
    for (uint8_t m = 0; m < world->master_count; m++) {
        struct sim_master *master = &world->masters[m];
        if (master->full || !act_remembers(world, m))
            master->well_since_us = INT64_MAX;
        else if (master->well_since_us == INT64_MAX)
            master->well_since_us = world->now_us;
        check_debt(world, m);
        check_vote(world, m);
        if (world->theme == THEME_LEASES)
            check_leases(world, m);
    }
    check_tops(world);
    for (uint8_t a = 0; a < world->agent_count && !world->apart; a++)
        if (guard_gate(&world->agents[a].guard, now) == GUARD_REFUSED_BY_LAYOUT)
            check_broken(world, "G11", "agent %u is refused by the layout of a neighbour", a);
}

static bool is_reached(const struct world *world, uint8_t m)
{
    for (uint8_t a = 0; a < world->agent_count; a++)
        if (world->agents[a].links[m].blocked_until_us <= world->now_us)
            return true;
    return false;
}

/* While two layouts that are no neighbours are at work, the agents of one of them are let in. */
static void check_let_in(struct world *world)
{
    unsigned refused = 0;
    for (uint8_t a = 0; a < world->agent_count; a++)
        refused += guard_gate(&world->agents[a].guard, (struct instant){world->now_us}) ==
                   GUARD_REFUSED_BY_LAYOUT;
    if (refused == world->agent_count)
        check_broken(world, "G3", "all agents are refused by layouts at the end");
}

void check_end(struct world *world)
{
    check_let_in(world);
    for (uint8_t m = 0; m < world->master_count; m++) {
        char vote[GUARD_VOTE_BYTES];
        if (!stored_vote(world->masters[m].keys, vote) && is_reached(world, m))
            check_broken(world, "G3", "master %u does not vote at the end", m);
        for (uint8_t a = 0; a < world->agent_count; a++) {
            const struct guard *guard = &world->agents[a].guard;
            enum guard_state state = guard_state(guard, m, (struct instant){world->now_us});
            if (world->agents[a].links[m].blocked_until_us > world->now_us || world->apart)
                continue; /* Agents whose layouts are apart are refused (G10). */
            if (state != GUARD_VOTES ||
                strcmp(guard_vote(guard, m, (struct instant){world->now_us}), vote) != 0)
                check_broken(world, "G3", "agent %u takes master %u for %d at the end", a, m,
                             (int)state);
        }
    }
}

bool check_is_thin(const struct counts *count, const struct counts *least, unsigned times)
{
    return count->told < times * least->told || count->guessed < times * least->guessed ||
           count->answered < times * least->answered || count->raised < times * least->raised ||
           count->copies < times * least->copies || count->fallen < times * least->fallen ||
           count->refused < times * least->refused || count->adopted < times * least->adopted;
}
