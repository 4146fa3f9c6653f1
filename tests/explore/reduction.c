/* Deliveries that need not be tried in every order, because they commute with all other events that
 * can happen before them (persistent sets: P. Godefroid, Partial-Order Methods, 1996). The rules
 * apply only if every order of delivery is searched and no fault is left. Each of the two rules has
 * the reason why no event outside of the set can meet it first:
 *
 *   at a master  Each agent either has a command there that is next in its connection, or can do
 *                nothing at all. No command overtakes the next one (R5). An agent can do nothing if
 *                it waits for nothing, subscribes to no channel, and no caller has a move left
 *                there. So the next event at this master is one of those commands. At other masters
 *                and agents nothing depends on the order. Commands that ask or tell a channel meet
 *                subscriptions too. So they count only if all other agents can do nothing and no
 *                caller can come to wait.
 *
 *   at an agent  All its commands have run, it subscribes to no channel, no deadline of its has
 *                come and no caller has a move left there. So the next event at this agent is one
 *                of the answers on their way. Masters and other agents do not see the order. The
 *                rule does not apply if a caller elsewhere has a move that needs the lock of a
 *                caller here.
 *
 * The facts that the checkers compare across agents (C1, C2) are the same in either order. All
 * events happen at one instant, and a second holder is one in any order of the answers.
 * `--every-order` turns both rules off.
 */
#include "explore.h"

static bool has_move_left(uint8_t agent)
{
    for (uint8_t c = 0; c < world.options.callers; c++)
        for (unsigned i = scene.moved[c]; i < MOVES_MAX; i++)
            if (scene.script->moves[c][i].kind != MOVE_NONE &&
                scene.script->moves[c][i].agent == agent)
                return true;
    return false;
}

static bool needs_another(void)
{
    for (uint8_t c = 0; c < world.options.callers; c++)
        for (unsigned i = scene.moved[c]; i < MOVES_MAX; i++)
            if (scene.script->moves[c][i].of_first)
                return true;
    return false;
}

/* Returns true if only commands and answers on their way can reach the agent. */
static bool is_left_alone(uint8_t a)
{
    const struct agent *agent = &world.agents[a];
    bool alone = agent->alive && !agent->stalled && !agent->watches[0] && !agent->watches[1] &&
                 !has_move_left(a) &&
                 core_next_deadline(agent->core).us > agent_clock(&world, a).us;
    for (uint8_t m = 0; m < world.options.masters; m++) {
        const struct path *path = &scene.paths[a][m];
        alone = alone && path->signal_count == 0 && !path->subscribes &&
                path->connect_at > world.now && path->marker_at > world.now;
    }
    return alone;
}

static bool is_idle(uint8_t a)
{
    for (uint8_t m = 0; m < world.options.masters; m++)
        if (scene.paths[a][m].parcel_count > 0)
            return false;
    return is_left_alone(a);
}

/* Returns true if a caller may come to wait there. */
static bool is_asked(uint8_t a)
{
    for (unsigned i = 0; i < SIM_REQUESTS; i++)
        if (world.agents[a].open[i] != NULL && world.agents[a].open[i]->kind == EVENT_ACQUIRE)
            return true;
    return (world.agents[a].watches[0] || world.agents[a].watches[1]);
}

static bool uses_channel(uint8_t a, uint8_t m)
{
    const struct path *path = &scene.paths[a][m];
    enum op op = path->parcels[path->parcel_count - scene_pending(path)].message->op;
    return op != OP_ACQUIRE && op != OP_RENEW && op != OP_RAISE;
}

static unsigned at_master(const struct choice *due, unsigned count, uint8_t m,
                          struct choice *ret_list)
{
    unsigned found = 0, busy = 0;
    bool asks = false, may_watch = false;
    for (uint8_t a = 0; a < world.options.agents; a++) {
        bool is_next = false;
        for (unsigned i = 0; i < count; i++)
            if (due[i].kind == CHOICE_EXECUTE && due[i].agent == a && due[i].master == m) {
                ret_list[found++] = due[i];
                is_next = true;
            }
        if (scene.paths[a][m].subscribes || (!is_next && !is_idle(a)))
            return 0;
        busy += !is_idle(a);
        asks = asks || (is_next && uses_channel(a, m));
        may_watch = may_watch || has_move_left(a) || is_asked(a);
    }
    return asks && (busy > 1 || may_watch) ? 0 : found;
}

static unsigned at_agent(const struct choice *due, unsigned count, uint8_t a,
                         struct choice *ret_list)
{
    unsigned found = 0;
    if (!is_left_alone(a) || needs_another())
        return 0;
    for (uint8_t m = 0; m < world.options.masters; m++)
        if (scene_pending(&scene.paths[a][m]) > 0)
            return 0;
    for (unsigned i = 0; i < count; i++)
        if (due[i].kind == CHOICE_REPLY && due[i].agent == a)
            ret_list[found++] = due[i];
    return found;
}

unsigned reduction_of(struct choice *due, unsigned count)
{
    struct choice list[CHOICES_MAX];
    unsigned found = 0;
    if (scene.stray_count > 0)
        return 0;
    for (uint8_t a = 0; a < world.options.agents && found == 0; a++)
        found = at_agent(due, count, a, list);
    for (uint8_t m = 0; m < world.options.masters && found == 0; m++)
        found = at_master(due, count, m, list);
    for (unsigned i = 0; i < found; i++)
        due[i] = list[i];
    return found;
}
