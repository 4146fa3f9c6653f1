/* The promises of DESIGN 1 and 4, checked at the seams from the outside, after every step.
 *
 *   C1  at most one holder per key inside the validity windows that agents report
 *   C2  fencing numbers of one key's grants rise strictly, in the order of the grants (R12)
 *   C3  nothing that is held is ever taken (R7): masters that forgot nothing never deny a living token
 *   C4  no wrong token ever succeeds, no right one is called wrong (R10)
 *   C5  nothing is reported held after its validity, nor after its loss; a loss is said in time (R7, R14)
 *   C6  in a healed world every waiter gets its lock in time, and nothing is left behind (R5, R6)
 *   C7  exactly one answer per request, of its kind and in its time, none after a cancel
 *   C8  everything comes to rest, and what the core counts is what it reports
 *   C9  a hold's fencing number, its max_hold and its validity are never taken back (R7)
 *   C10 no key is deleted on a master inside a reported window but at its holder's wish
 *   C11 where the order is fair, nobody is granted a key before one who came earlier and waits still, but for the difference of the
 *       clocks (R9); checked in a healed world
 *
 * A window is [the answer, valid_until on the agent's clock), in real time. Nothing but its holder's wish ends it
 * early: also when the agent has said `lost`, nobody else may have the lock before the window is over. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SLACK_US = 6000, ORPHAN_AFTER_US = 50000, HEALED_SETTLED_US = 2500000, FAIR_SLACK_US = 300000 };

void checker_reset(struct world *w)
{
    w->hold_count = 1;
    memset(w->buckets, 0, sizeof w->buckets);
    memset(w->window_count, 0, sizeof w->window_count);
    memset(w->fence_last, 0, sizeof w->fence_last);
    w->violation[0] = '\0';
}

void checker_fail(struct world *w, const char *format, ...)
{
    if (w->violation[0] != '\0')
        return;
    va_list list;
    va_start(list, format);
    int length = snprintf(w->violation, sizeof w->violation, "at %.6f s: ", (double)w->now / 1e6);
    vsnprintf(w->violation + length, sizeof w->violation - (size_t)length, format, list);
    va_end(list);
}

/* ---- holds ----------------------------------------------------------------------------------------------------- */

static uint16_t *bucket(struct world *w, const uint8_t random[RANDOM_BYTES])
{
    uint32_t hash;
    memcpy(&hash, random, sizeof hash);
    return &w->buckets[hash % SIM_HOLD_BUCKETS];
}

struct hold *checker_find(struct world *w, const uint8_t random[RANDOM_BYTES])
{
    for (uint16_t i = *bucket(w, random); i != 0; i = w->holds[i].next_in_bucket)
        if (memcmp(w->holds[i].token.random, random, RANDOM_BYTES) == 0)
            return &w->holds[i];
    return NULL;
}

static struct hold *new_hold(struct world *w, uint8_t agent, uint8_t key, const struct token *token)
{
    if (w->hold_count == SIM_HOLDS) {
        checker_fail(w, "sim: too many holds in one run");
        return NULL;
    }
    uint16_t *first = bucket(w, token->random);
    struct hold *hold = &w->holds[w->hold_count];
    *hold = (struct hold){.token = *token, .key = key, .agent = agent, .granted_at = w->now, .window_from = w->now};
    hold->incarnation = w->agents[agent].incarnation;
    hold->next_in_bucket = *first;
    *first = w->hold_count++;
    return hold;
}

/* ---- C1: windows ----------------------------------------------------------------------------------------------- */

static void check_alone(struct world *w, struct hold *hold)
{
    struct hold **windows = w->windows[hold->key];
    uint8_t kept = 0;
    bool known = false;
    for (uint8_t i = 0; i < w->window_count[hold->key]; i++) {
        struct hold *other = windows[i];
        if (other->ended || other->window_until <= w->now)
            continue;
        windows[kept++] = other;
        known = known || other == hold;
        if (other != hold && !hold->ended)
            checker_fail(w, "C1 k%u: %02x%02x at a%u is valid for %lld us more, and %02x%02x at a%u is held too",
                         hold->key, other->token.random[0], other->token.random[1], other->agent,
                         (long long)(other->window_until - w->now), hold->token.random[0], hold->token.random[1],
                         hold->agent);
    }
    if (!known && kept < SIM_OPEN_WINDOWS)
        windows[kept++] = hold;
    w->window_count[hold->key] = kept;
}

static void check_view(struct world *w, uint8_t agent, struct hold *hold, const struct hold_view *view)
{
    struct instant now = agent_clock(w, agent);
    if (!instant_before(now, view->valid_until))
        checker_fail(w, "C5 a%u reports k%u held %lld us after its validity", agent, hold->key,
                     (long long)instant_us_between(view->valid_until, now));
    if (hold->lost)
        checker_fail(w, "C5 a%u reports k%u held after it said lost", agent, hold->key);
    if (view->token.fence != hold->token.fence)
        checker_fail(w, "C9 a%u changed the number of k%u", agent, hold->key);
    if (instant_before(view->max_hold_until, view->valid_until) || view->max_hold_until.us != hold->max_hold_until.us)
        checker_fail(w, "C9 a%u: k%u goes beyond its max_hold", agent, hold->key);
    if (instant_before(view->valid_until, hold->valid_until))
        checker_fail(w, "C9 a%u shortened the validity of k%u by %lld us", agent, hold->key,
                     (long long)instant_us_between(view->valid_until, hold->valid_until));
}

static void report(struct world *w, uint8_t agent, const struct hold_view *view)
{
    struct hold *hold = checker_find(w, view->token.random);
    if (hold == NULL || hold->agent != agent || hold->incarnation != w->agents[agent].incarnation) {
        checker_fail(w, "C4 a%u reports a hold that it was never granted", agent);
        return;
    }
    check_view(w, agent, hold, view);
    if (!instant_before(hold->valid_until, view->valid_until))
        return;
    hold->valid_until = view->valid_until;
    int64_t until = agent_real_us(w, agent, view->valid_until);
    if (until <= hold->window_until)
        return;
    if (hold->window_until < w->now)
        hold->window_from = w->now;
    hold->window_until = until;
    check_alone(w, hold);
}

/* ---- C7: answers ----------------------------------------------------------------------------------------------- */

static bool is_fitting(const struct request *request, enum answer answer)
{
#define IS(name) (1u << ANSWER_##name)
    uint32_t fitting;
    switch (request->kind) {
    case EVENT_ACQUIRE:
        fitting = IS(GRANTED) | IS(LOCK_HELD) | IS(QUORUM_UNAVAILABLE) | IS(VALIDITY_EXPIRED) | IS(TOO_MANY_LOCKS) |
                  IS(TOO_MANY_WAITERS) | IS(DRAINING) | (request->wait_ms > 0 ? IS(WAIT_TIMEOUT) : 0);
        break;
    case EVENT_RENEW:
        fitting = IS(RENEWED) | IS(RENEW_FAILED) | IS(LOCK_LOST) | IS(TOKEN_MISMATCH) | IS(NOT_HELD) |
                  IS(QUORUM_UNAVAILABLE) | IS(TOO_MANY_LOCKS) | IS(BAD_TTL) | IS(DRAINING);
        break;
    case EVENT_RELEASE:
        fitting = IS(RELEASED) | IS(RELEASE_PENDING) | IS(LOCK_LOST) | IS(TOKEN_MISMATCH) | IS(NOT_HELD) |
                  IS(QUORUM_UNAVAILABLE) | IS(TOO_MANY_LOCKS);
        break;
    default:
        fitting = IS(STATE) | IS(TOO_MANY_LOCKS);
        break;
    }
#undef IS
    return (fitting >> answer & 1) != 0;
}

/* Deadlines are exact, but for the timer's resolution and the difference of the clocks' rates. */
static void check_in_time(struct world *w, uint8_t agent, const struct request *request, enum answer answer)
{
    const struct options *o = &w->options;
    int64_t round_ms = o->node_timeout_ms > o->ttl_ms_max / 10 ? o->node_timeout_ms : o->ttl_ms_max / 10;
    int64_t most_ms = request->kind == EVENT_ACQUIRE ? 2 * (int64_t)o->node_timeout_ms
                      : request->kind == EVENT_RENEW ? 2 * round_ms
                                                     : round_ms;
    if (request->kind == EVENT_ACQUIRE && request->wait_ms > most_ms)
        most_ms = request->wait_ms;
    else if (request->kind == EVENT_ACQUIRE && request->wait_ms == 0)
        most_ms *= o->callers; /* who tries once stands behind those of this agent who try now */
    int64_t took_us = w->now - request->asked_at;
    if (w->agents[agent].stalled_last < request->asked_at && took_us > most_ms * 1050 + SLACK_US)
        checker_fail(w, "C7 a%u answered %s after %lld us, %lld ms were allowed", agent, answer_code(answer),
                     (long long)took_us, (long long)most_ms);
}

static void check_granted(struct world *w, uint8_t agent, struct request *request, const struct effect_answer *answer)
{
    const struct token *token = &answer->hold.token;
    if (checker_find(w, token->random) != NULL) {
        checker_fail(w, "C4 a%u granted the same token twice", agent);
        return;
    }
    struct hold *hold = new_hold(w, agent, request->key, token);
    if (hold == NULL)
        return;
    if (w->options.fencing != (token->fence != 0) || (token->fence != 0 && token->fence <= w->fence_last[request->key]))
        checker_fail(w, "C2 k%u: a%u granted number %llu after %llu", request->key, agent,
                     (unsigned long long)token->fence, (unsigned long long)w->fence_last[request->key]);
    w->fence_last[request->key] = token->fence;
    hold->max_hold_until = answer->hold.max_hold_until;
    int64_t cap_ms = w->options.max_hold_ms;
    if (request->max_hold_ms != 0 && request->max_hold_ms < cap_ms)
        cap_ms = request->max_hold_ms;
    if (instant_before(instant_after_ms(agent_clock(w, agent), cap_ms), hold->max_hold_until))
        checker_fail(w, "C9 a%u: max_hold of k%u is longer than it may be", agent, request->key);
    w->agents[agent].held[request->key] = hold;
    w->figures.grants++;
    report(w, agent, &answer->hold);
}

/* D3: the number proves that nobody was granted the lock in between. */
static void check_adopted(struct world *w, uint8_t agent, struct hold *hold, const struct effect_answer *answer)
{
    if (answer->continuous != w->options.fencing)
        checker_fail(w, "C9 a%u adopted k%u, continuous %d", agent, hold->key, answer->continuous);
    if (w->options.fencing && w->fence_last[hold->key] != hold->token.fence)
        checker_fail(w, "C2 a%u adopted k%u, which was granted to another in between", agent, hold->key);
    hold->agent = agent;
    hold->incarnation = w->agents[agent].incarnation;
    hold->lost = false;
    hold->valid_until = (struct instant){0};
    hold->max_hold_until = answer->hold.max_hold_until;
    w->agents[agent].held[hold->key] = hold;
    w->figures.adoptions++;
}

static void check_renewed(struct world *w, uint8_t agent, struct request *request, const struct effect_answer *answer)
{
    if (request->wrong || request->hold == NULL || !token_same_random(&answer->hold.token, &request->token)) {
        checker_fail(w, "C4 a%u renewed k%u for a wrong token", agent, request->key);
        return;
    }
    if (answer->adopted)
        check_adopted(w, agent, request->hold, answer);
    report(w, agent, &answer->hold);
}

static void check_released(struct world *w, uint8_t agent, const struct request *request,
                           const struct effect_answer *answer)
{
    if (request->wrong || request->hold == NULL) {
        checker_fail(w, "C4 a%u released k%u for a wrong token", agent, request->key);
        return;
    }
    request->hold->released = true;
    w->figures.releases++;
    bool partial = false;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        const struct connection *connection = &w->agents[agent].connections[m];
        partial = partial || !connection->up || w->now < connection->cut_out_until || w->masters[m].paused;
    }
    w->figures.releases_partial += partial;
    (void)answer;
}

void checker_answer(struct world *w, uint8_t agent, struct request *request, const struct effect_answer *answer)
{
    if (!is_fitting(request, answer->answer))
        checker_fail(w, "C7 a%u answered %s to a request of kind %d", agent, answer_code(answer->answer),
                     request->kind);
    check_in_time(w, agent, request, answer->answer);
    if (request->cancelled && answer->answer == ANSWER_GRANTED)
        checker_fail(w, "C7 a%u granted k%u to a caller that is gone", agent, request->key);
    if (request->expects_hold && !request->hold->ended &&
        (answer->answer == ANSWER_TOKEN_MISMATCH || answer->answer == ANSWER_NOT_HELD))
        checker_fail(w, "C4 a%u answered %s to the holder of k%u", agent, answer_code(answer->answer), request->key);
    struct figures *figures = &w->figures;
    switch (answer->answer) {
    case ANSWER_GRANTED:
        check_granted(w, agent, request, answer);
        break;
    case ANSWER_RENEWED:
        check_renewed(w, agent, request, answer);
        break;
    case ANSWER_RENEW_FAILED: /* what was released elsewhere may still look valid here */
        if (request->hold == NULL || request->token.fence != request->hold->token.fence)
            checker_fail(w, "C4 a%u took a wrong token for k%u's", agent, request->key);
        else
            report(w, agent, &answer->hold);
        break;
    case ANSWER_RELEASED:
        check_released(w, agent, request, answer);
        break;
    case ANSWER_STATE:
        if (answer->local)
            report(w, agent, &answer->hold);
        break;
    default:
        figures->releases_pending += answer->answer == ANSWER_RELEASE_PENDING;
        figures->refusals += answer->answer == ANSWER_LOCK_HELD;
        figures->unavailable += answer->answer == ANSWER_QUORUM_UNAVAILABLE;
        figures->wait_timeouts += answer->answer == ANSWER_WAIT_TIMEOUT;
        figures->expired_grants += answer->answer == ANSWER_VALIDITY_EXPIRED;
        break;
    }
}

/* ---- traces ---------------------------------------------------------------------------------------------------- */

static void check_lost(struct world *w, uint8_t agent, uint8_t key, enum reason reason)
{
    struct agent *at = &w->agents[agent];
    struct hold *hold = at->held[key];
    if (hold == NULL) {
        checker_fail(w, "C5 a%u lost k%u, which it did not hold", agent, key);
        return;
    }
    at->held[key] = NULL;
    hold->lost = true;
    w->figures.lost[reason]++;
    struct instant now = agent_clock(w, agent);
    int64_t left_us = instant_us_between(now, hold->valid_until);
    bool stalled =
        at->stalled_last >= agent_real_us(w, agent, hold->valid_until) - (int64_t)w->options.ttl_ms_max * 200;
    if (reason == REASON_TAKEN && !hold->ended && w->options.broken == ASSUME_ALL)
        checker_fail(w, "C3 k%u was taken from a%u with %lld us left", key, agent, (long long)left_us);
    if (reason == REASON_QUORUM_LOST && !stalled && left_us < LOST_MARGIN_MS_MIN * 1000 - SLACK_US)
        checker_fail(w, "C5 a%u said that k%u is lost with %lld us left", agent, key, (long long)left_us);
    if (reason == REASON_EXPIRED && !stalled && (left_us > 0 || left_us < -SLACK_US))
        checker_fail(w, "C5 a%u said that k%u has expired with %lld us left", agent, key, (long long)left_us);
    if (reason == REASON_STALLED && at->stalled_last == 0)
        checker_fail(w, "C5 a%u blames a stall for losing k%u, and there was none", agent, key);
}

static void plan_orphan_check(struct world *w, uint8_t agent, uint8_t key)
{
    void *random = world_allocate(w, RANDOM_BYTES);
    memcpy(random, w->agents[agent].attempt[key], RANDOM_BYTES);
    world_plan_in(w, ORPHAN_AFTER_US, (struct happening){.kind = HAPPEN_ORPHAN, .master = key, .what = random});
}

void checker_trace(struct world *w, uint8_t agent, const struct effect_trace *trace)
{
    uint8_t key = trace->key.len == 2 ? (uint8_t)(trace->key.at[1] - '0') : 0;
    switch (trace->kind) {
    case TRACE_ATTEMPT:
        if (trace->answer != ANSWER_GRANTED && w->healed && w->now > w->healed_at + HEALED_SETTLED_US)
            plan_orphan_check(w, agent, key);
        break;
    case TRACE_RENEWED:
        w->figures.renewals++;
        break;
    case TRACE_RENEW_FAILED:
        w->figures.renewal_failures++;
        break;
    case TRACE_LOST:
        check_lost(w, agent, key, trace->reason);
        break;
    case TRACE_RELEASED: /* perhaps of an older token that this agent does not hold any more */
        if (w->agents[agent].held[key] != NULL && w->agents[agent].held[key]->ended)
            w->agents[agent].held[key] = NULL;
        break;
    default:
        break;
    }
}

/* ---- after every step ------------------------------------------------------------------------------------------ */

void checker_after_step(struct world *w, uint8_t agent)
{
    const struct core *core = w->agents[agent].core;
    uint32_t cursor = 0, count = 0;
    struct hold_view view;
    while (core_next_hold(core, agent_clock(w, agent), &cursor, &view)) {
        report(w, agent, &view);
        count++;
    }
    if (count != core_stats(core)->locks_held)
        checker_fail(w, "C8 a%u counts %u holds and lists %u", agent, core_stats(core)->locks_held, count);
    uint32_t open = 0;
    for (size_t i = 0; i < SIM_REQUESTS; i++)
        open += w->agents[agent].open[i] != NULL;
    if (open != core_stats(core)->requests)
        checker_fail(w, "C8 a%u counts %u requests, and %u are open", agent, core_stats(core)->requests, open);
}

void checker_deleted(struct world *w, uint8_t master, uint8_t key, const uint8_t random[RANDOM_BYTES], int64_t sent_at)
{
    const struct hold *hold = checker_find(w, random);
    if (hold != NULL && !hold->ended && hold->window_until > w->now && sent_at >= hold->window_from)
        checker_fail(w, "C10 k%u %02x%02x was deleted on m%u with %lld us of its validity left", key, random[0],
                     random[1], master, (long long)(hold->window_until - w->now));
}

/* A lost hold that was released elsewhere: its agent lets nobody contend before the validity that it reported has ended. */
static bool sat_on_a_loss(const struct world *w, uint8_t agent, uint8_t key)
{
    for (uint16_t i = 1; i < w->hold_count; i++) {
        const struct hold *hold = &w->holds[i];
        if (hold->agent == agent && hold->key == key && hold->lost && hold->window_until + FAIR_SLACK_US > w->now)
            return true;
    }
    return false;
}

/* Agents whose clocks are off from the masters' median by less than CLOCK_TRUST_MS go by their own, the others by that median, as
 * they read it once. */
void checker_turn(struct world *w, const struct caller *caller, const struct request *request)
{
    int64_t slack_us = FAIR_SLACK_US + 2 * w->now / 1000000 * w->options.rate_ppm;
    if (w->options.wall_us != 0)
        slack_us += 2 * (int64_t)CLOCK_TRUST_MS * 1000;
    for (size_t i = 0; i < w->caller_count; i++) {
        const struct caller *other = &w->callers[i];
        if (!other->probes || other->key != caller->key || other->state != CALLER_ASKING || other->request == NULL ||
            other->request->kind != EVENT_ACQUIRE)
            continue;
        int64_t earlier_us = request->asked_at - other->request->asked_at;
        if (earlier_us > slack_us && !sat_on_a_loss(w, other->agent, caller->key))
            checker_fail(w, "C11 c%u at a%u is granted k%u before c%u at a%u, who came %lld us earlier", caller->index,
                         caller->agent, caller->key, other->index, other->agent, (long long)earlier_us);
    }
}

void checker_orphan(struct world *w, uint8_t key, const uint8_t random[RANDOM_BYTES])
{
    if (checker_find(w, random) != NULL)
        return;
    for (uint8_t m = 0; m < w->options.masters; m++)
        if (master_holds(w, m, key, random))
            checker_fail(w, "C6 a failed attempt on k%u left its key on m%u", key, m);
}

void checker_end(struct world *w)
{
    for (uint8_t m = 0; m < w->options.masters; m++)
        for (uint8_t key = 0; key < w->options.keys; key++)
            if (master_is_locked(w, m, key))
                checker_fail(w, "C6 k%u is still locked on m%u, and nobody holds it", key, m);
    for (uint8_t a = 0; a < w->options.agents; a++) {
        const struct core_stats *stats = core_stats(w->agents[a].core);
        uint32_t debt = 0;
        for (uint8_t m = 0; m < w->options.masters; m++)
            debt += stats->debt[0][m];
        if (stats->locks_held != 0 || stats->waiters != 0 || stats->requests != 0 || debt != 0)
            checker_fail(w, "C8 a%u does not come to rest: %u held, %u waiters, %u requests, %u releases owed", a,
                         stats->locks_held, stats->waiters, stats->requests, debt);
    }
}
