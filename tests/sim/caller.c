/* Callers of changing manners. They hold, renew, release, vanish, lose answers, ask again, come
 * back with old tokens, and try wrong ones. Some are bound to their hold by a connection. Some hold
 * a lock several times. */
#include "world.h"

#include <string.h>

enum {
    CALLER_NOBODY = 255,
    PROBE_WAIT_MS = 120000,
    BACK_OFFS = 2,
    PROBE_SLACK_US = 50000,
    COPY_AFTER_US = 1000,  /* after a restart */
    PROBE_HOLD_US = 60000, /* if many callers wait for one key */
    FAIR_PROBING_US = 3000000,
    FAIR_PROBE_MS = 600,
    HOPELESS_PROBES = 3,
    HOPELESS_LOOK_US = 500000,
    LEAVES_US = 2000000,
    TURNED_AWAY_US = 100000,
    TURNED_AWAY_MAX = 200, /* beside those that the longest lease explains */
    LARGER = 1000003,
};

static struct caller *caller_of(struct world *w, uint8_t index)
{
    return &w->callers[index];
}

static void act_in(struct world *w, struct caller *caller, int64_t us)
{
    caller->turn++;
    world_plan_in(
        w, us,
        (struct happening){.kind = HAPPEN_CALLER, .agent = caller->index, .number = caller->turn});
}

void caller_start(struct world *w, uint8_t index)
{
    struct caller *caller = caller_of(w, index);
    *caller = (struct caller){.index = index, .chance = prng_stream(w->seed, STREAM_CALLER, index)};
    caller->agent = (uint8_t)prng_below(&caller->chance, w->options.agents);
    if (index >= w->caller_count)
        w->caller_count = (size_t)index + 1;
    act_in(w, caller, prng_between(&caller->chance, 20000, 300000));
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct request *new_request(struct world *w, uint8_t caller, uint8_t agent,
                                   enum event_kind kind, uint8_t key)
{
    struct request *request = world_allocate(w, sizeof *request);
    request->kind = kind;
    request->caller = caller;
    request->agent = agent;
    request->key = key;
    request->label = caller;
    return request;
}

static void send_in(struct world *w, struct request *request, int64_t us)
{
    request->asked_at = request->begun_at = w->now + us;
    if (request->caller != CALLER_NOBODY) {
        struct caller *caller = caller_of(w, request->caller);
        caller->request = request;
        caller->state = CALLER_ASKING;
        caller->turn++;
    }
    world_plan_in(
        w, us,
        (struct happening){.kind = HAPPEN_REQUEST, .agent = request->agent, .what = request});
}

static void send(struct world *w, struct request *request)
{
    send_in(w, request, 10);
}

static uint32_t draw_ttl(const struct world *w, struct caller *caller)
{
    return (uint32_t)prng_between(&caller->chance, 1000, w->options.ttl_ms_max);
}

static void ask_for_lock(struct world *w, struct caller *caller)
{
    const struct options *o = &w->options;
    struct request *request = new_request(w, caller->index, caller->agent, EVENT_ACQUIRE,
                                          (uint8_t)prng_below(&caller->chance, o->keys));
    request->bad_ttl = prng_percent(&caller->chance, o->bad_ttls);
    bool names_none = !request->bad_ttl && prng_percent(&caller->chance, 30);
    request->ttl_ms = request->bad_ttl                           ? w->config.max_ttl_ms + 1
                      : names_none && o->ttl_ms <= o->ttl_ms_max ? 0
                                                                 : draw_ttl(w, caller);
    request->wait_ms =
        prng_percent(&caller->chance, o->waits) ? prng_between(&caller->chance, 10, 6000) : 0;
    request->renew = (enum renew)prng_below(&caller->chance, 3);
    request->max_hold_ms =
        prng_percent(&caller->chance, 80) ? 0 : prng_between(&caller->chance, 1000, 10000);
    request->loses_answer = prng_percent(&caller->chance, o->loses_answers);
    if (options_kind(o, request->key).rw && prng_percent(&caller->chance, o->readers))
        request->mode = MODE_READ;
    request->bound = prng_percent(&caller->chance, o->binds);
    if (request->bound && request->renew == RENEW_CALLER)
        request->renew = RENEW_UNSET;
    if (prng_percent(&caller->chance, o->owns) && options_kind(o, request->key).permits == 1)
        request->owner = (uint8_t)prng_between(&caller->chance, 1, SIM_OWNERS);
    else if (!request->bound && prng_percent(&caller->chance, o->repeats))
        request->secret = ++w->secrets;
    send(w, request);
    if (prng_percent(&caller->chance,
                     o->cancels)) /* its patience ends before the answer, perhaps */
        world_plan_in(w,
                      prng_between(&caller->chance, 10,
                                   request->wait_ms == 0 ? 100000 : request->wait_ms * 1000),
                      (struct happening){
                          .kind = HAPPEN_CALLER, .agent = caller->index, .number = caller->turn});
}

static struct request *request_with_token(struct world *w, struct caller *caller, uint8_t agent,
                                          enum event_kind kind, struct hold *hold)
{
    struct request *request = new_request(w, caller->index, agent, kind, hold->key);
    const struct agent *at = &w->agents[agent];
    request->token = hold->token;
    request->hold = hold;
    request->expects_hold = hold->agent == agent && hold->incarnation == at->incarnation &&
                            !hold->ended && !hold->tenures[agent].lost &&
                            hold->window_until > w->now;
    return request;
}

/* D3: callers behind one address that spreads them over agents. */
static uint8_t next_agent(struct world *w, struct caller *caller)
{
    struct hold *hold = caller->hold;
    if (!w->switches.roaming || w->healed || !prng_percent(&caller->chance, 50))
        return caller->agent;
    hold->shared = true;
    return (uint8_t)prng_below(&caller->chance, w->options.agents);
}

/* The same PUT at two agents at once. */
static void renew_twice(struct world *w, struct caller *caller, const struct request *asked)
{
    struct request *request =
        new_request(w, CALLER_NOBODY, (uint8_t)prng_below(&caller->chance, w->options.agents),
                    EVENT_RENEW, asked->key);
    request->token = asked->token;
    request->hold = caller->hold;
    request->ttl_ms = asked->ttl_ms;
    request->renew = asked->renew;
    send_in(w, request, prng_between(&caller->chance, 10, 5000));
}

static void renew(struct world *w, struct caller *caller)
{
    struct request *request =
        request_with_token(w, caller, next_agent(w, caller), EVENT_RENEW, caller->hold);
    if (prng_percent(&caller->chance, w->options.shortens))
        request->ttl_ms = (uint32_t)prng_between(&caller->chance, 1000, SHORT_TTL_MS_MAX);
    else if (prng_percent(&caller->chance, 40))
        request->ttl_ms = draw_ttl(w, caller);
    if (prng_percent(&caller->chance, 20))
        request->renew = prng_percent(&caller->chance, 50) ? RENEW_AGENT : RENEW_CALLER;
    send(w, request);
    if (request->agent != caller->agent && prng_percent(&caller->chance, 20))
        renew_twice(w, caller, request);
}

/* The same request once more, for `caller`. */
static struct request *ask_again(struct world *w, uint8_t caller, const struct request *asked)
{
    struct request *request = new_request(w, caller, asked->agent, EVENT_ACQUIRE, asked->key);
    request->label = asked->label;
    request->ttl_ms = asked->ttl_ms;
    request->mode = asked->mode;
    request->bad_ttl = asked->bad_ttl;
    request->wait_ms = asked->wait_ms;
    request->renew = asked->renew;
    request->max_hold_ms = asked->max_hold_ms;
    request->secret = asked->secret;
    return request;
}

/* D3: the answer did not come, so it asks again. Seldom it asks for something else, and is told
 * so. */
static void repeat(struct world *w, struct caller *caller, const struct request *asked)
{
    struct request *request = ask_again(w, caller->index, asked);
    if (prng_percent(&caller->chance, 5))
        request->max_hold_ms += 1000;
    request->loses_answer = prng_percent(&caller->chance, w->options.loses_answers);
    send_in(w, request, prng_between(&caller->chance, 10, 30000));
}

static bool is_at_home(const struct world *w, const struct hold *hold, uint8_t agent)
{
    return hold->agent == agent && hold->incarnation == w->agents[agent].incarnation;
}

/* Ends the use of one of the hold's callers. From the request of its last release a hold binds no
 * caller any more. Only its own agent counts. */
static void done_with(struct world *w, struct hold *hold, uint8_t agent)
{
    if (hold->count > 0)
        hold->count--;
    hold->elsewhere = hold->elsewhere || !is_at_home(w, hold, agent);
    if (hold->count == 0 || hold->elsewhere)
        hold->ended = true;
}

/* Sends a late copy of the request that took the hold. No caller wants its answer. */
static void send_copy(struct world *w, struct caller *caller, struct hold *hold)
{
    if (hold->secret == 0 || w->healed || !prng_percent(&caller->chance, w->options.copies))
        return;
    struct request *copy = ask_again(w, CALLER_NOBODY, &hold->asked);
    copy->copy = true;
    copy->hold = hold;
    send_in(w, copy, prng_between(&caller->chance, 10, 3000000));
}

void caller_restored(struct world *w, uint8_t agent, const struct noted_hold *restored)
{
    struct hold *hold = checker_find(w, restored->token.random);
    if (hold == NULL || hold->asked.secret == 0 || restored->metadata.idempotency.len == 0 ||
        hold->asked.agent != agent || restored->released)
        return;
    bool is_over = !instant_before(agent_clock(w, agent), restored->valid_until),
         is_lost = hold->tenures[agent].lost || (restored->ended ? restored->delivered : is_over);
    hold->lost_at_restart = hold->lost_at_restart || is_lost;
    if (!hold->lost_at_restart || w->healed || w->options.copies == 0)
        return;
    struct request *copy = ask_again(w, CALLER_NOBODY, &hold->asked);
    copy->copy = copy->after_loss = true;
    copy->hold = hold;
    send_in(w, copy, COPY_AFTER_US);
}

static void release(struct world *w, struct caller *caller, uint8_t agent)
{
    struct hold *hold = caller->hold;
    struct request *request = request_with_token(w, caller, agent, EVENT_RELEASE, hold);
    if (hold->secret != 0 && is_at_home(w, hold, agent) && prng_percent(&caller->chance, 30)) {
        request->secret = hold->secret;
        request->by_secret = true;
    }
    done_with(w, hold, agent);
    send_copy(w, caller, hold);
    send(w, request);
    if (prng_percent(&caller->chance, w->options.cancels) && !w->healed)
        world_plan_in(w, prng_between(&caller->chance, 10, 5000),
                      (struct happening){
                          .kind = HAPPEN_CALLER, .agent = caller->index, .number = caller->turn});
}

static void read_key(struct world *w, struct caller *caller)
{
    send(w, new_request(w, caller->index, caller->agent, EVENT_READ,
                        (uint8_t)prng_below(&caller->chance, w->options.keys)));
}

/* Tries a token that must not work: one bit off, renewed after its release, or (at an agent that
 * does not know it) another number. A second release may get any answer, because the token is not
 * valid any more and all masters agree on that. */
static bool bother(struct world *w, struct caller *caller)
{
    if (w->hold_count <= 1)
        return false;
    uint16_t recent = (uint16_t)(w->hold_count - 1 < 6 ? w->hold_count - 1 : 6);
    struct hold *hold = &w->holds[w->hold_count - 1 - prng_below(&caller->chance, recent)];
    bool renews = prng_percent(&caller->chance, 50);
    bool at_home = prng_percent(&caller->chance, 70);
    uint8_t agent = at_home ? hold->agent : (uint8_t)prng_below(&caller->chance, w->options.agents);
    bool known = hold->agent == agent && hold->incarnation == w->agents[agent].incarnation;
    struct request *request =
        new_request(w, caller->index, agent, renews ? EVENT_RENEW : EVENT_RELEASE, hold->key);
    request->token = hold->token;
    request->wrong = renews || !hold->released;
    request->bothers = true;
    request->hold = hold;
    if (!hold->released) {
        if ((renews || w->switches.roaming) && !known && w->options.fencing &&
            prng_percent(&caller->chance, 50)) {
            bool larger = prng_percent(&caller->chance, 50);
            /* A lower number may be the one that a master gave the token and that was not raised. A
             * number that is larger by little may come from a master that was asked too late to be
             * counted. Such a master deletes (R12). */
            larger = larger || !renews;
            request->token.fence += larger ? LARGER : (uint64_t)-1;
        } else {
            uint8_t bit = (uint8_t)(1u << prng_below(&caller->chance, 8));
            uint8_t *byte = &request->token.random[prng_below(&caller->chance, RANDOM_BYTES)];
            *byte = (uint8_t)(*byte ^ bit);
            request->hold = NULL;
        }
    } else if (hold->unlocked.begun_at >= 0) { /* The token may not have been released. */
        if (!renews)
            hold->ended = hold->elsewhere = true;
        else
            hold->given_up = false; /* A PUT cancels a release that is owed (R6). */
    }
    send(w, request);
    return true;
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void forget(struct world *w, struct caller *caller)
{
    if (caller->hold != NULL)
        caller->hold->users--;
    caller->hold = NULL;
    caller->state = w->healed ? CALLER_GONE : CALLER_IDLE;
    if (caller->state == CALLER_IDLE)
        act_in(w, caller, prng_between(&caller->chance, 100, w->options.think_us_max));
}

static void hold_on(struct world *w, struct caller *caller)
{
    caller->state = CALLER_HOLDING;
    int64_t most = prng_percent(&caller->chance, 50) ? 50000 : (int64_t)w->options.ttl_ms_max * 500;
    bool many = w->options.fair || w->switches.many_wait;
    int64_t longest = w->healed && many ? PROBE_HOLD_US : w->healed ? 1000 : most;
    act_in(w, caller, prng_between(&caller->chance, 10, longest));
}

/* Returns a hold that no caller uses, at an agent that may have restarted since. */
static struct hold *find_abandoned(struct world *w, const struct caller *caller)
{
    for (uint16_t i = w->hold_count; i-- > 1 && w->hold_count - i < 8;) {
        struct hold *hold = &w->holds[i];
        if (hold->users == 0 && hold->count > 0 && !hold->ended && hold->agent == caller->agent &&
            hold->window_until > w->now)
            return hold;
    }
    return NULL;
}

static void act_idle(struct world *w, struct caller *caller)
{
    const struct options *o = &w->options;
    struct hold *found = prng_percent(&caller->chance, 20) ? find_abandoned(w, caller) : NULL;
    if (found != NULL) {
        found->users = 1;
        caller->hold = found;
        renew(w, caller);
    } else if (prng_percent(&caller->chance, o->reads)) {
        read_key(w, caller);
    } else if (!prng_percent(&caller->chance, o->bothers) || !bother(w, caller)) {
        ask_for_lock(w, caller);
    }
}

/* Ends the connection that the hold is bound to, or stops reading from it (`stuck`). */
static void leave(struct world *w, struct caller *caller, bool stuck)
{
    struct hold *hold = caller->hold;
    struct leaving *leaving = world_allocate(w, sizeof *leaving);
    *leaving = (struct leaving){hold, hold->tenures[hold->agent].lock, hold->incarnation, stuck};
    world_say(w, stuck ? "c%u does not read" : "c%u leaves", caller->index);
    if (!stuck)
        done_with(w, hold, hold->agent);
    world_plan_in(w, prng_between(&caller->chance, 10, 5000),
                  (struct happening){.kind = HAPPEN_LEAVE, .agent = hold->agent, .what = leaving});
    stuck ? hold_on(w, caller) : forget(w, caller);
}

static void act_holding(struct world *w, struct caller *caller)
{
    bool bound = caller->hold->bound && is_at_home(w, caller->hold, caller->agent);
    const struct options *o = &w->options;
    if (bound && prng_percent(&caller->chance, 50)) {
        leave(w, caller, /* stuck= */ !w->healed && prng_percent(&caller->chance, o->sticks));
    } else if (w->healed) {
        release(w, caller, caller->agent);
    } else if (prng_percent(&caller->chance, o->renews)) {
        renew(w, caller);
    } else if (caller->hold->incarnation != w->agents[caller->agent].incarnation &&
               prng_percent(&caller->chance, 60)) {
        renew(w, caller); /* its agent restarted, and is asked to go on */
    } else if (prng_percent(&caller->chance, o->bothers) && bother(w, caller)) {
        return;
    } else if (prng_percent(&caller->chance, o->reads)) {
        read_key(w, caller);
    } else if (prng_percent(&caller->chance, o->vanishes)) {
        world_say(w, "c%u vanishes", caller->index);
        forget(w, caller);
    } else if (prng_percent(&caller->chance, o->goes_elsewhere)) {
        release(w, caller, (uint8_t)prng_below(&caller->chance, o->agents));
    } else {
        release(w, caller, caller->agent);
    }
}

/* Hangs up. The caller does not want the answer any more, unless it asks again. It keeps a hold
 * that it has. */
static void hang_up(struct world *w, struct caller *caller)
{
    struct request *request = caller->request;
    bool may_repeat = request->secret != 0 && request->kind == EVENT_ACQUIRE && !w->healed;
    world_say(w, "c%u hangs up", caller->index);
    caller->request = NULL;
    world_plan_in(
        w, may_repeat ? prng_between(&caller->chance, 10, 30000) : 10,
        (struct happening){.kind = HAPPEN_CANCEL, .agent = request->agent, .what = request});
    if (may_repeat && prng_percent(&caller->chance, 70)) {
        repeat(w, caller, request);
        return;
    }
    if (may_repeat &&
        /* a release of the lock that it may have been granted */
        prng_percent(&caller->chance, 50)) {
        struct request *end =
            new_request(w, CALLER_NOBODY, request->agent, EVENT_RELEASE, request->key);
        end->secret = request->secret;
        end->by_secret = true;
        send_in(w, end, prng_between(&caller->chance, 10, 30000));
    }
    forget(w, caller);
}

/* Returns how long an unused key may remain, and how long a waiter's own attempts take. */
static int64_t patience_us(const struct world *w)
{
    const struct options *o = &w->options;
    return (int64_t)(w->config.max_ttl_ms * 101 / 100 + BACK_OFFS * o->retry_ms_max) * 1000 +
           3 * options_round_trip_us(o) + PROBE_SLACK_US + w->set_back_us;
}

/* C14: A later caller, in any mode, makes no waiter wait for longer. */
static void stand_in_line(struct world *w, struct caller *caller)
{
    unsigned ahead = 1;
    for (size_t i = w->options.callers; i < w->caller_count; i++) {
        const struct caller *other = &w->callers[i];
        ahead += other != caller && other->key == caller->key &&
                 (other->state == CALLER_ASKING || other->state == CALLER_HOLDING);
    }
    int64_t from = w->now > w->leftovers_until ? w->now : w->leftovers_until;
    int64_t due_at = from + patience_us(w) + TICKET_MS * 1000 + ahead * FAIR_PROBE_MS * 1000;
    caller->due_at = due_at < caller->due_at ? due_at : caller->due_at;
}

static void probe(struct world *w, struct caller *caller)
{
    struct request *request =
        new_request(w, caller->index, caller->agent, EVENT_ACQUIRE, caller->key);
    request->ttl_ms = w->options.ttl_ms_max;
    request->wait_ms = PROBE_WAIT_MS;
    bool shares = options_kind(&w->options, caller->key).rw;
    if (shares && prng_percent(&caller->chance, w->options.readers))
        request->mode = MODE_READ;
    if (shares && !w->switches.few_rounds)
        stand_in_line(w, caller);
    send(w, request);
    if (caller->hopeless || caller->leaves) {
        act_in(w, caller,
               caller->hopeless ? HOPELESS_LOOK_US : prng_between(&caller->chance, 10, LEAVES_US));
        return;
    }
    world_plan(w, (struct happening){.at = caller->due_at,
                                     .kind = HAPPEN_CALLER,
                                     .agent = caller->index,
                                     .number = caller->turn});
}

/* Returns true if all others are done, except those that wait in vain. */
static bool all_others_done(const struct world *w)
{
    for (size_t i = w->options.callers; i < w->caller_count; i++)
        if (w->callers[i].state != CALLER_GONE && !w->callers[i].hopeless)
            return false;
    return true;
}

void caller_act(struct world *w, uint8_t index)
{
    struct caller *caller = caller_of(w, index);
    switch (caller->state) {
    case CALLER_IDLE:
        if (caller->probes)
            probe(w, caller);
        else
            act_idle(w, caller);
        break;
    case CALLER_HOLDING:
        act_holding(w, caller);
        break;
    case CALLER_ASKING:
        if (caller->hopeless && !all_others_done(w))
            act_in(w, caller, HOPELESS_LOOK_US);
        else if (caller->hopeless || caller->leaves)
            hang_up(w, caller);
        else if (caller->probes)
            checker_fail(w, "%s c%u at a%u waits for k%u in a healed world, and does not get it",
                         options_kind(&w->options, caller->key).rw ? "C14" : "C6", index,
                         caller->agent, caller->key);
        else if (caller->request != NULL)
            hang_up(w, caller);
        break;
    case CALLER_GONE:
        break;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Ends a grant whose answer reached no caller. */
static void not_received(struct hold *hold)
{
    if (hold != NULL && hold->users == 0)
        hold->ended = true;
}

/* Handles an answer without a caller. Some connections are still there to take it. */
static void answered_nobody(struct world *w, struct request *request)
{
    if (request->granted)
        world_plan_in(
            w, 10,
            (struct happening){.kind = HAPPEN_CANCEL, .agent = request->agent, .what = request});
}

static void granted(struct world *w, struct caller *caller, struct request *request,
                    const struct effect_answer *answer)
{
    struct hold *hold = checker_find(w, answer->hold.token.random);
    if (hold == NULL)
        return;
    if (request->loses_answer && !w->healed) {
        not_received(hold);
        world_plan_in(
            w, prng_between(&caller->chance, 10, 20000),
            (struct happening){.kind = HAPPEN_CANCEL, .agent = request->agent, .what = request});
        if (request->secret != 0 && prng_percent(&caller->chance, 80))
            repeat(w, caller, request);
        else
            forget(w, caller);
        return;
    }
    hold->users++;
    /* A repeat is one request (D3), and shares are the affair of one agent (R11): another one may
     * have adopted the hold meanwhile. */
    if (is_at_home(w, hold, request->agent) &&
        (answer->answer != ANSWER_REPEATED || hold->count == 0))
        hold->count++;
    if (hold->ended)
        checker_taken_up(w, hold, request);
    caller->hold = hold;
    if (caller->probes && options_kind(&w->options, caller->key).fair)
        turns_granted(w, caller, request);
    hold_on(w, caller);
}

static void released(struct world *w, struct caller *caller, const struct effect_answer *answer)
{
    if (caller->probes && answer->answer != ANSWER_RELEASED)
        checker_fail(w, "C6 in a healed world a release was answered %s",
                     answer_code(answer->answer));
    forget(w, caller);
}

/* Lost or refused for good; or only not now. */
static void renewed(struct world *w, struct caller *caller, const struct effect_answer *answer)
{
    bool kept = answer->answer == ANSWER_RENEWED || answer->answer == ANSWER_RENEW_FAILED ||
                answer->answer == ANSWER_QUORUM_UNAVAILABLE || answer->answer == ANSWER_BAD_TTL;
    if (kept && caller->hold != NULL)
        hold_on(w, caller);
    else
        forget(w, caller);
}

static bool is_crowded(enum answer answer)
{
    return answer == ANSWER_TOO_MANY_LOCKS || answer == ANSWER_TOO_MANY_WAITERS;
}

/* The tables of its agent are full of other keys. Each of them is held for a moment, or left to run
 * out (D3.4). */
static uint32_t turned_away_most(const struct world *w)
{
    return TURNED_AWAY_MAX + (uint32_t)(1000 * (int64_t)w->config.max_ttl_ms / TURNED_AWAY_US);
}

static void probe_later(struct world *w, struct caller *caller)
{
    int64_t us = prng_between(&caller->chance, 10000, 2 * TURNED_AWAY_US);
    caller->due_at += us;
    caller->state = CALLER_IDLE;
    act_in(w, caller, us);
}

void caller_answered(struct world *w, struct request *request, const struct effect_answer *answer)
{
    struct hold *hold = request->granted ? checker_find(w, answer->hold.token.random) : NULL;
    if (request->caller == CALLER_NOBODY) {
        not_received(hold);
        answered_nobody(w, request);
        return;
    }
    struct caller *caller = caller_of(w, request->caller);
    if (caller->request != request) { /* it has gone, and its agent will see it in a moment */
        not_received(hold);
        return;
    }
    caller->request = NULL;
    if (request->granted)
        granted(w, caller, request, answer);
    else if (request->bothers || request->kind == EVENT_READ)
        caller->hold != NULL ? hold_on(w, caller) : forget(w, caller);
    else if (request->kind == EVENT_RENEW)
        renewed(w, caller, answer);
    else if (request->kind == EVENT_RELEASE)
        released(w, caller, answer);
    else if (caller->probes && is_crowded(answer->answer) &&
             caller->turned_away++ < turned_away_most(w))
        probe_later(w, caller);
    else if (caller->probes)
        checker_fail(w, "C6 in a healed world a waiter was answered %s",
                     answer_code(answer->answer));
    else
        forget(w, caller);
}

void caller_disconnected(struct world *w, struct request *request)
{
    request->state = REQUEST_DEAD;
    if (request->caller == CALLER_NOBODY)
        return;
    struct caller *caller = caller_of(w, request->caller);
    if (caller->request != request)
        return;
    caller->request = NULL;
    if (caller->hold != NULL && !caller->hold->ended)
        hold_on(w, caller);
    else
        forget(w, caller);
}

void caller_end_all(struct world *w, uint8_t agent)
{
    for (uint16_t i = 1; i < w->hold_count; i++)
        if (w->holds[i].agent == agent ||
            (w->holds[i].shared && w->holds[i].tenures[agent].is_held))
            w->holds[i].ended = true;
    for (size_t i = 0; i < w->caller_count; i++)
        if (w->callers[i].state == CALLER_HOLDING && w->callers[i].hold->ended)
            forget(w, &w->callers[i]);
}

/* ---- the end --------------------------------------------------------------------------------- */

void caller_wind_down(struct world *w)
{
    for (size_t i = 0; i < w->caller_count; i++) {
        struct caller *caller = &w->callers[i];
        if (caller->state == CALLER_HOLDING)
            act_in(w, caller, prng_between(&caller->chance, 10, 100000));
        else if (caller->state == CALLER_ASKING && caller->request != NULL &&
                 caller->request->kind == EVENT_ACQUIRE)
            hang_up(w, caller);
        else if (caller->state == CALLER_IDLE)
            caller->state = CALLER_GONE;
    }
}

/* Returns how many releases end the hold at the agent. */
static unsigned counted(const struct world *w, uint8_t agent, const struct hold *hold)
{
    uint32_t cursor = 0;
    struct hold_view view;
    while (core_next_hold(w->agents[agent].core, agent_clock(w, agent), &cursor, &view))
        if (token_same_random(&view.token, &hold->token))
            return view.count;
    return 1;
}

static void release_leftover(struct world *w, uint8_t agent, struct hold *hold, unsigned *sent)
{
    for (unsigned left = counted(w, agent, hold); left > 0; left--) {
        struct request *request = new_request(w, CALLER_NOBODY, agent, EVENT_RELEASE, hold->key);
        request->token = hold->token;
        request->hold = hold;
        /* no more at once than an agent has room for */
        int64_t turn = (*sent)++ / (SIM_REQUESTS / 2);
        send_in(w, request, 10 + turn * 4 * options_round_trip_us(&w->options));
    }
}

/* Releases most of the holds that no caller uses. The others end by max_hold. Returns when the last
 * of them must have ended. */
static int64_t clear_leftovers(struct world *w)
{
    int64_t latest = w->now;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        unsigned sent = 0;
        for (uint8_t key = 0; key < options_places(&w->options); key++) {
            struct hold *hold = w->agents[a].held[key];
            for (; hold != NULL; hold = hold->tenures[a].next) {
                int64_t until = agent_real_us(w, a, hold->tenures[a].max_hold_until);
                if (until - w->now < 10000000 && prng_percent(&w->agents[a].chance, 30)) {
                    latest = until > latest ? until : latest;
                    continue;
                }
                hold->ended = true;
                release_leftover(w, a, hold, &sent);
            }
        }
    }
    return latest;
}

void caller_probe_all(struct world *w)
{
    const struct options *o = &w->options;
    int64_t latest = w->leftovers_until = clear_leftovers(w);
    unsigned each = o->agents > 1 ? 2 : 1;
    bool many = o->fair || w->switches.many_wait;
    unsigned first_key = many ? (unsigned)(o->agents * SIM_MANY_PROBES) : each,
             count = first_key + (o->keys - 1u) * each;
    for (unsigned i = 0; i < count; i++) {
        struct caller *caller = &w->callers[w->caller_count];
        bool choked = i % o->agents == w->choked;
        if (choked && (i >= first_key || i / o->agents >= HOPELESS_PROBES))
            continue;
        *caller = (struct caller){.index = (uint8_t)w->caller_count,
                                  .agent = (uint8_t)(i % o->agents),
                                  .key = (uint8_t)(i < first_key ? 0 : (i - first_key) / each + 1),
                                  .probes = true,
                                  .hopeless = choked,
                                  .chance = prng_stream(w->seed, STREAM_CALLER, w->caller_count)};
        caller->leaves = o->fair && !choked && prng_percent(&caller->chance, o->leaves);
        caller->due_at = latest + patience_us(w);
        if (w->switches.few_rounds) /* they wait for places too */
            caller->due_at += 2000 * (int64_t)(count * o->node_timeout_ms);
        if (many)
            caller->due_at += FAIR_PROBING_US + (int64_t)count * FAIR_PROBE_MS * 1000;
        w->caller_count++;
        act_in(w, caller, prng_between(&caller->chance, 10, o->fair ? FAIR_PROBING_US : 20000));
    }
}

bool caller_all_done(const struct world *w)
{
    if (w->caller_count == w->options.callers)
        return false; /* the probes have not begun */
    for (size_t i = w->options.callers; i < w->caller_count; i++)
        if (w->callers[i].state != CALLER_GONE)
            return false;
    return true;
}
