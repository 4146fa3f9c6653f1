/* The callers of a script. They make their moves one after the other, and keep their answers as
 * callers of the simulator do (tests/sim/caller.c). */
#include "explore.h"

#include <string.h>

enum { LARGER = 1000003 };

static const struct move probing[] = {{.kind = MOVE_POST, .wait_ms = 120000, .soon = true},
                                      {.kind = MOVE_DELETE, .soon = true}},
                         probing_to_read = {
                             .kind = MOVE_POST, .wait_ms = 120000, .reads = true, .soon = true};

static struct caller *caller_of(uint8_t index)
{
    return &world.callers[index];
}

/* Returns true if this probe reads. Four probes of one key are: w r r w. */
static bool probes_to_read(uint8_t index)
{
    return world.options.rw && ((index - world.options.callers + 1) & 2) != 0;
}

/* Returns the caller's next move. In a healed world a caller that has the lock releases it, and no
 * caller asks for anything else. */
static const struct move *move_of(uint8_t index)
{
    const struct caller *caller = caller_of(index);
    uint8_t moved = scene.moved[index];
    if (caller->probes && moved == 0 && probes_to_read(index))
        return &probing_to_read;
    if (caller->probes)
        return moved < 2 ? &probing[moved] : NULL;
    if (world.healed)
        return caller->hold != NULL ? &probing[1] : NULL;
    return moved < MOVES_MAX && scene.script->moves[index][moved].kind != MOVE_NONE
               ? &scene.script->moves[index][moved]
               : NULL;
}

/* Returns the hold of the request with this idempotency key, if the hold is being released. */
static struct hold *released_by_secret(uint32_t secret)
{
    for (uint16_t i = 1; i < world.hold_count; i++)
        if (world.holds[i].secret == secret && world.holds[i].ended)
            return &world.holds[i];
    return NULL;
}

static struct hold *hold_for(uint8_t caller, const struct move *move)
{
    if (move->of_hold != 0)
        return &world.holds[move->of_hold];
    return caller_of(move->of_first ? 0 : caller)->hold;
}

/* Returns the agent of a move. A caller that leaves, leaves the agent that it has asked. */
static uint8_t agent_asked(uint8_t index, const struct move *move)
{
    const struct caller *caller = caller_of(index);
    if (caller->probes)
        return caller->agent;
    if (move->kind == MOVE_LEAVE && caller->request != NULL)
        return caller->request->agent;
    if ((move->kind == MOVE_LEAVE || world.healed) && caller->hold != NULL)
        return caller->hold->agent;
    return move->agent;
}

uint8_t people_agent(uint8_t index)
{
    return agent_asked(index, move_of(index));
}

bool people_is_done(uint8_t index)
{
    const struct caller *caller = caller_of(index);
    const struct move *move = move_of(index);
    if (caller->request != NULL)
        return false;
    if (move == NULL)
        return true;
    /* Nothing that it has asked for can give it the token any more. */
    bool needs_hold = (move->kind == MOVE_PUT || move->kind == MOVE_DELETE) && !move->by_secret;
    return needs_hold && !move->of_first && move->of_hold == 0 && caller->hold == NULL;
}

enum death people_death(const struct request *request)
{
    uint8_t c = request->caller;
    bool is_granted = request->kind == EVENT_ACQUIRE && c < world.options.callers && !world.healed;
    return is_granted ? scene.script->moves[c][scene.moved[c] - 1].death : DEATH_NONE;
}

/* The first caller that probes releases once the others wait. */
static bool all_probe(void)
{
    for (uint8_t c = world.options.callers; c < world.options.callers + scene.probes; c++)
        if (scene.moved[c] == 0)
            return false;
    return true;
}

const struct move *people_next_move(uint8_t index)
{
    const struct caller *caller = caller_of(index);
    const struct move *move = move_of(index);
    if (move == NULL)
        return NULL;
    uint8_t agent = agent_asked(index, move);
    if (!world.agents[agent].alive || world.agents[agent].stalled)
        return NULL;
    if (move->kind == MOVE_LEAVE)
        return caller->request != NULL || (caller->hold != NULL && caller->hold->bound) ? move
                                                                                        : NULL;
    if (caller->request != NULL)
        return NULL;
    if (caller->probes && move->kind == MOVE_DELETE && !all_probe())
        return NULL;
    if (move->follows || world.now < STARTS_US + 1000 * (int64_t)move->from_ms)
        return NULL;
    if (move->copy && released_by_secret(move->secret) == NULL)
        return NULL;
    for (uint8_t c = 0; move->after_all && c < index; c++)
        if (!people_is_done(c))
            return NULL;
    if ((move->kind == MOVE_PUT || (move->kind == MOVE_DELETE && !move->by_secret)) &&
        hold_for(index, move) == NULL)
        return NULL;
    return move;
}

/* ---- asking ---- */

static struct request *new_request(uint8_t caller, uint8_t agent, enum event_kind kind)
{
    struct request *request = caller == NOBODY ? &scene.unasked[scene.unasked_count++]
                                               : &scene.requests[caller][scene.asked[caller]++];
    memset(request, 0, sizeof *request);
    request->kind = kind;
    request->caller = request->label = caller;
    request->agent = agent;
    request->asked_at = request->begun_at = world.now;
    return request;
}

static void send(struct request *request)
{
    if (request->caller != NOBODY) {
        caller_of(request->caller)->request = request;
        caller_of(request->caller)->state = CALLER_ASKING;
    }
    agent_take_request(&world, request);
}

/* Makes a request with a token. A hold that has ended already may get any answer, except that it is
 * renewed. */
static struct request *with_token(uint8_t caller, uint8_t agent, enum event_kind kind,
                                  const struct move *move)
{
    struct request *request = new_request(caller, agent, kind);
    struct hold *hold = hold_for(caller, move);
    const struct agent *at = &world.agents[agent];
    bool is_wrong = move->wrong || move->is_strange, is_over = move->of_hold != 0 && hold->ended;
    request->token = hold->token;
    request->key = hold->key;
    request->hold = move->is_strange ? NULL : hold;
    request->expects_hold = hold->agent == agent && hold->incarnation == at->incarnation &&
                            !hold->ended && !hold->tenures[agent].lost &&
                            hold->window_until > world.now && !is_wrong;
    request->token.fence += move->wrong ? LARGER : 0;
    request->token.random[0] ^= move->is_strange;
    request->wrong = is_wrong || (is_over && kind == EVENT_RENEW);
    request->bothers = move->of_hold != 0 && (is_wrong || is_over);
    return request;
}

static bool is_at_home(const struct hold *hold, uint8_t agent)
{
    return hold->agent == agent && hold->incarnation == world.agents[agent].incarnation;
}

static void done_with(struct hold *hold, uint8_t agent)
{
    if (hold->count > 0)
        hold->count--;
    hold->elsewhere = hold->elsewhere || !is_at_home(hold, agent);
    if (hold->count == 0 || hold->elsewhere)
        hold->ended = true;
}

static bool is_bad_ttl(const struct move *move)
{
    const struct options *o = &world.options;
    bool renews = move->renew == RENEW_UNSET ? move->bound : move->renew == RENEW_AGENT;
    return move->ttl_ms < (renews ? TTL_MS_MIN_AGENT : 4 * o->node_timeout_ms) ||
           move->ttl_ms > world.config.max_ttl_ms - o->lock_delay_ms;
}

static void post(uint8_t caller, uint8_t agent, const struct move *move)
{
    struct request *request = new_request(move->copy ? NOBODY : caller, agent, EVENT_ACQUIRE);
    request->copy = move->copy;
    request->hold = move->copy ? released_by_secret(move->secret) : NULL;
    request->label = caller_of(caller)->index;
    request->key = move->key;
    request->ttl_ms = move->ttl_ms;
    request->bad_ttl = move->ttl_ms != 0 && is_bad_ttl(move);
    request->wait_ms = move->wait_ms;
    request->max_hold_ms = move->max_hold_ms;
    request->renew = move->renew;
    request->secret = move->secret;
    request->owner = move->owner;
    request->mode = move->reads ? MODE_READ : MODE_WRITE;
    request->bound = move->bound;
    request->loses_answer = move->unheard;
    send(request);
}

static void release(uint8_t caller, uint8_t agent, const struct move *move)
{
    struct hold *hold = hold_for(caller, move);
    if (move->by_secret) {
        struct request *request = new_request(caller, agent, EVENT_RELEASE);
        request->key = move->key;
        request->secret = move->secret;
        request->by_secret = true;
        request->hold = hold;
        if (hold != NULL)
            done_with(hold, agent);
        send(request);
        return;
    }
    struct request *request = with_token(caller, agent, EVENT_RELEASE, move);
    if (!request->wrong && !request->bothers) {
        checker_store(&world, hold);
        hold->shared = hold->shared || !is_at_home(hold, agent);
        done_with(hold, agent);
    }
    send(request);
}

static void get(uint8_t caller, uint8_t agent, const struct move *move)
{
    struct request *request = new_request(caller, agent, EVENT_READ);
    request->key = move->key;
    send(request);
}

static void leave(uint8_t index)
{
    struct caller *caller = caller_of(index);
    struct request *request = caller->request;
    struct hold *hold = caller->hold;
    if (request != NULL) {
        caller->request = NULL;
        agent_take_cancel(&world, request);
        return;
    }
    struct leaving leaving = {hold, hold->tenures[hold->agent].lock, hold->incarnation, false};
    done_with(hold, hold->agent);
    caller->hold = NULL;
    hold->users--;
    agent_take_leave(&world, hold->agent, &leaving);
}

static void make_move(uint8_t index)
{
    const struct move *move = move_of(index);
    uint8_t agent = people_agent(index);
    scene.moved[index]++;
    switch (move->kind) {
    case MOVE_POST:
        post(index, agent, move);
        break;
    case MOVE_PUT: {
        struct hold *hold = hold_for(index, move);
        struct request *request = with_token(index, agent, EVENT_RENEW, move);
        hold->shared = hold->shared || (!is_at_home(hold, agent) && !request->wrong);
        request->ttl_ms = move->ttl_ms;
        request->renew = move->renew;
        send(request);
        break;
    }
    case MOVE_DELETE:
        release(index, agent, move);
        break;
    case MOVE_GET:
        get(index, agent, move);
        break;
    case MOVE_LEAVE:
        leave(index);
        break;
    case MOVE_DRAIN:
        agent_drain(&world, agent);
        break;
    case MOVE_RELOAD:
        agent_reload(&world, agent);
        break;
    case MOVE_END:
        scene_end(agent, move->releases);
        break;
    case MOVE_JAVA_TAKES:
        java_takes(move->first_alone);
        break;
    case MOVE_JAVA_RELEASES:
        java_releases();
        break;
    case MOVE_NONE:
        break;
    }
}

/* Makes the caller's next move. An iteration of the loop that goes on writes nothing yet (D5.2). */
void people_move(uint8_t index)
{
    uint8_t agent = people_agent(index);
    bool together = move_of(index)->together,
         has_hold = world.callers[index + together].hold != NULL;
    world.options.turn_us_max = together;
    make_move(index);
    world.options.turn_us_max = 0;
    if (!together)
        return;
    if (move_of(index + 1)->kind == MOVE_POST || has_hold)
        make_move((uint8_t)(index + 1));
    else
        scene.moved[index + 1]++;
    agent_flush(&world, agent);
}

void people_release_leftover(uint8_t agent, struct hold *hold)
{
    if (scene.unasked_count == sizeof scene.unasked / sizeof scene.unasked[0])
        return;
    struct request *request = new_request(NOBODY, agent, EVENT_RELEASE);
    request->token = hold->token;
    request->key = hold->key;
    request->hold = hold;
    hold->ended = true;
    send(request);
}

void people_probe(uint8_t index, uint8_t agent, int64_t due_at)
{
    struct caller *caller = caller_of(index);
    *caller = (struct caller){.index = index, .agent = agent, .probes = true, .due_at = due_at};
    scene.moved[index] = scene.asked[index] = 0;
    if (world.caller_count <= index)
        world.caller_count = index + 1u;
}

/* ---- answers ---- */

static void not_received(struct hold *hold)
{
    if (hold != NULL && hold->users == 0)
        hold->ended = true;
}

static void forget(struct caller *caller)
{
    if (caller->hold != NULL)
        caller->hold->users--;
    caller->hold = NULL;
    caller->state = CALLER_IDLE;
}

static void granted(struct caller *caller, struct request *request, struct hold *hold,
                    const struct effect_answer *answer)
{
    if (people_death(request) == DEATH_UNTOLD)
        return;
    if (request->loses_answer) { /* its agent sees the connection end */
        not_received(hold);
        world_plan_in(&world, 0, (struct happening){.kind = HAPPEN_CANCEL, .what = request});
        return;
    }
    hold->users++;
    if (answer->answer != ANSWER_REPEATED || hold->count == 0) /* D3: it is one request */
        hold->count++;
    if (hold->ended)
        checker_taken_up(&world, hold, request);
    if (caller->hold != NULL && caller->hold != hold)
        caller->hold->users--;
    caller->hold = hold;
    caller->state = CALLER_HOLDING;
    if (caller->probes && world.options.fair)
        turns_granted(&world, caller, request);
}

static void renewed(struct caller *caller, const struct effect_answer *answer)
{
    bool kept = answer->answer == ANSWER_RENEWED || answer->answer == ANSWER_RENEW_FAILED ||
                answer->answer == ANSWER_QUORUM_UNAVAILABLE || answer->answer == ANSWER_BAD_TTL;
    if (!kept)
        forget(caller);
}

void caller_answered(struct world *w, struct request *request, const struct effect_answer *answer)
{
    struct hold *hold = request->granted ? checker_find(w, answer->hold.token.random) : NULL;
    struct caller *caller = request->caller == NOBODY ? NULL : caller_of(request->caller);
    if (caller == NULL || caller->request != request) {
        not_received(hold);
        if (caller == NULL && request->granted)
            world_plan_in(w, 0, (struct happening){.kind = HAPPEN_CANCEL, .what = request});
        return;
    }
    caller->request = NULL;
    exercised_answered(request, answer);
    if (answer->answer == ANSWER_GRANTED)
        faultless_granted(request);
    if (request->granted && hold != NULL)
        granted(caller, request, hold, answer);
    else if (request->bothers || request->kind == EVENT_READ)
        caller->state = caller->hold != NULL ? CALLER_HOLDING : CALLER_IDLE;
    else if (request->kind == EVENT_RENEW)
        renewed(caller, answer);
    else if (request->kind == EVENT_RELEASE)
        forget(caller);
    if (caller->probes && request->kind == EVENT_ACQUIRE && !request->granted)
        checker_fail(w, "C6 in a healed world a waiter was answered %s",
                     answer_code(answer->answer));
}

/* A small world has no late copies of requests from before a restart. */
void caller_restored(struct world *w, uint8_t agent, const struct noted_hold *restored)
{
    (void)w, (void)agent, (void)restored;
}

void caller_disconnected(struct world *w, struct request *request)
{
    (void)w;
    request->state = REQUEST_DEAD;
    struct caller *caller = request->caller == NOBODY ? NULL : caller_of(request->caller);
    if (caller == NULL || caller->request != request)
        return;
    caller->request = NULL;
    if (caller->hold != NULL && caller->hold->ended)
        forget(caller);
}

void caller_end_all(struct world *w, uint8_t agent)
{
    for (uint16_t i = 1; i < w->hold_count; i++)
        if (w->holds[i].agent == agent)
            w->holds[i].ended = true;
}
