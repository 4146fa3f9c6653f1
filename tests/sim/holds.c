/* The holds that callers know, and the windows in which agents report them (C1, C5, C9, C17). */
#include "checker.h"

#include <string.h>

/* ---- holds ----------------------------------------------------------------------------------- */

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

struct hold *hold_new(struct world *w, uint8_t agent, uint8_t key, const struct token *token)
{
    if (w->hold_count == SIM_HOLDS) {
        checker_fail(w, "sim: too many holds in one run");
        return NULL;
    }
    uint16_t *first = bucket(w, token->random);
    struct hold *hold = &w->holds[w->hold_count];
    *hold = (struct hold){
        .token = *token, .key = key, .agent = agent, .granted_at = w->now, .window_from = w->now};
    hold->incarnation = w->agents[agent].incarnation;
    hold->unlocked.begun_at = -1;
    hold->next_in_bucket = *first;
    *first = w->hold_count++;
    return hold;
}

/* ---- agents' reports ------------------------------------------------------------------------- */

void hold_drop(struct world *w, uint8_t agent, struct hold *hold)
{
    struct hold **at = &w->agents[agent].held[hold->key];
    while (*at != NULL && *at != hold)
        at = &(*at)->tenures[agent].next;
    if (*at != NULL)
        *at = hold->tenures[agent].next;
    hold->tenures[agent].is_held = false;
    hold->tenures[agent].next = NULL;
}

/* R11: Notes that the hold has ended. Its owner asked for it again and may contend only now. */
void hold_left_owner(struct world *w, uint8_t agent, const struct hold *hold)
{
    for (size_t i = 0; i < SIM_REQUESTS && hold->owner != 0; i++) {
        struct request *request = w->agents[agent].open[i];
        if (request != NULL && request->kind == EVENT_ACQUIRE && request->key == hold->key &&
            request->owner == hold->owner)
            request->queued = ++w->arrivals;
    }
}

void checker_drop_all(struct world *w, uint8_t agent)
{
    for (uint8_t key = 0; key < SIM_KEYS; key++)
        while (w->agents[agent].held[key] != NULL)
            hold_drop(w, agent, w->agents[agent].held[key]);
}

/* At a mutex it takes the place of another one. */
void hold_put(struct world *w, uint8_t agent, struct hold *hold)
{
    struct hold **first = &w->agents[agent].held[hold->key];
    hold_drop(w, agent, hold);
    while (!options_kind(&w->options, hold->key).rw && *first != NULL)
        hold_drop(w, agent, *first);
    hold->tenures[agent].next = *first;
    hold->tenures[agent].is_held = true;
    *first = hold;
}

/* The window that the agent reported before binds it still. */
static void begin_tenure(struct world *w, uint8_t agent, struct hold *hold,
                         const struct hold_view *view)
{
    struct tenure *tenure = &hold->tenures[agent];
    hold_drop(w, agent, hold);
    *tenure = (struct tenure){.max_hold_until = view->max_hold_until,
                              .window_until = tenure->window_until,
                              .asked = tenure->asked};
    hold_put(w, agent, hold);
    clocks_granted(w, agent, hold);
}

void hold_begin_tenure(struct world *w, uint8_t agent, struct hold *hold,
                       const struct effect_answer *answer)
{
    begin_tenure(w, agent, hold, &answer->hold);
    hold->tenures[agent].lock = answer->lock;
    hold->tenures[agent].lock_is_known = true;
}

/* The hold that a trace tells of; NULL: none that this agent reports. */
struct hold *hold_traced(struct world *w, uint8_t agent, uint8_t key,
                         const struct effect_trace *trace)
{
    struct hold *hold = w->agents[agent].held[key], *unknown = NULL;
    bool is_shared = options_kind(&w->options, key).rw;
    for (; hold != NULL && is_shared; hold = hold->tenures[agent].next) {
        const struct tenure *tenure = &hold->tenures[agent];
        if (tenure->lock_is_known && tenure->lock.slot == trace->lock.slot &&
            tenure->lock.generation == trace->lock.generation)
            return hold;
        if (!tenure->lock_is_known && hold->token.fence == trace->fence)
            unknown = hold;
    }
    return is_shared ? unknown : hold;
}

/* ---- C1: windows ----------------------------------------------------------------------------- */

/* A2: The hold was released, masters forgot that, and a caller went on to use the token. It may
 * have the key beside a holder that had asked for it before they forgot, and beside no later one.
 */
static bool is_regained_beside(const struct world *w, const struct hold *hold,
                               const struct hold *other)
{
    return hold->release_forgotten_at > 0 && other->asked.begun_at <= hold->release_forgotten_at &&
           !world_breaks(w, BREAK_FORGOTTEN_RELEASE);
}

void hold_check_alone(struct world *w, struct hold *hold)
{
    struct hold **windows = w->windows[hold->key];
    struct key_kind kind = options_kind(&w->options, hold->key);
    uint16_t kept = 0;
    bool known = false;
    for (uint16_t i = 0; i < w->window_count[hold->key]; i++) {
        struct hold *other = windows[i];
        if (other->ended || other->window_until <= w->now)
            continue;
        windows[kept++] = other;
        known = known || other == hold;
        bool both_read = other->mode == MODE_READ && hold->mode == MODE_READ;
        bool excused = clocks_excuse_all(w, other) || clocks_excuse_all(w, hold) ||
                       unlocked_frees(w, other) || unlocked_frees(w, hold) ||
                       is_regained_beside(w, hold, other) || is_regained_beside(w, other, hold);
        if (other != hold && !hold->ended && !both_read && !excused)
            checker_fail(w,
                         "%s k%u: %02x%02x at a%u is valid for %lld us more, and %02x%02x at a%u "
                         "is held too",
                         kind.rw            ? "C14"
                         : kind.permits > 1 ? "C15"
                                            : "C1",
                         hold->key, other->token.random[0], other->token.random[1], other->agent,
                         (long long)(other->window_until - w->now), hold->token.random[0],
                         hold->token.random[1], hold->agent);
    }
    if (!known && kept < SIM_OPEN_WINDOWS)
        windows[kept++] = hold;
    w->window_count[hold->key] = kept;
}

static void check_view(struct world *w, uint8_t agent, struct hold *hold,
                       const struct hold_view *view)
{
    struct instant now = agent_clock(w, agent);
    const struct tenure *tenure = &hold->tenures[agent];
    if (!instant_before(now, view->valid_until))
        checker_fail(w, "C5 a%u reports k%u held %lld us after its validity", agent, hold->key,
                     (long long)instant_us_between(view->valid_until, now));
    if (tenure->lost)
        checker_fail(w, "C5 a%u reports k%u held after it said lost", agent, hold->key);
    if (view->token.fence != hold->token.fence || view->mode != hold->mode)
        checker_fail(w, "C9 a%u changed the number or the mode of k%u", agent, hold->key);
    if (instant_before(view->max_hold_until, view->valid_until) ||
        view->max_hold_until.us != tenure->max_hold_until.us)
        checker_fail(w, "C9 a%u: k%u goes beyond its max_hold", agent, hold->key);
    int64_t back_us = instant_us_between(view->valid_until, tenure->valid_until);
    if (back_us > 0 && !clocks_may_shorten(tenure, back_us))
        checker_fail(w, "C9 a%u shortened the validity of k%u by %lld us", agent, hold->key,
                     (long long)back_us);
}

/* R7: but for keys that it lost by its holder's wish, or on a master that forgot. */
static void check_confirmed(struct world *w, uint8_t agent, struct hold *hold,
                            const struct hold_view *view)
{
    unsigned up = 0;
    for (uint8_t m = 0; m < w->options.masters; m++)
        up += w->agents[agent].connections[m].serves;
    if (view->confirmed > up)
        checker_fail(w, "C5 a%u lists k%u as confirmed by %u masters, and %u are up", agent,
                     hold->key, view->confirmed, up);
    hold->known = hold->known || view->confirmed == w->options.masters;
    if (hold->ended || w->switches.broken != ASSUME_ALL || w->forgot_at >= hold->asked.begun_at ||
        clocks_excuse(w, agent, hold))
        return;
    unsigned has = master_count_holding(w, hold->key, hold->token.random);
    if (view->confirmed > has + clocks_unnoticed(w, agent, hold) + unlocked_unnoticed(w, hold))
        checker_fail(w, "C5 a%u lists k%u as confirmed by %u masters, and %u have its key", agent,
                     hold->key, view->confirmed, has);
}

/* R21: Checks that replicas have the hold. They have also forgotten the keys that a master has
 * forgotten since the round began. */
static void check_replicated(struct world *w, const struct hold *hold)
{
    int64_t round_us = (int64_t)w->options.ttl_ms_max * 1000;
    if (w->options.ack == 0 || hold->ended ||
        (w->forgot_at >= 0 && w->forgot_at >= w->now - round_us))
        return;
    unsigned has = replica_count_holding(w, hold->key, hold->token.random, hold->window_until);
    if (has < w->options.ack)
        checker_fail(w, "C17 k%u is valid for %lld us more, for so long %u replicas have it",
                     hold->key, (long long)(hold->window_until - w->now), has);
}

void checker_voted(struct world *w, const struct order *order)
{
    int64_t guard_us = (int64_t)w->config.max_ttl_ms * 990;
    bool is_promoted = w->options.replicas > 0 && w->promoted_at >= 0;
    if (is_promoted && w->now < w->promoted_at + guard_us)
        checker_fail(w, "C17 k%u is granted %lld us after a replica was promoted", order->key,
                     (long long)(w->now - w->promoted_at));
}

void hold_end_window(struct hold *hold, uint8_t agent, int64_t until)
{
    hold->tenures[agent].window_until = hold->window_until = until;
    for (uint8_t a = 0; a < SIM_AGENTS; a++)
        if (hold->tenures[a].window_until > hold->window_until)
            hold->window_until = hold->tenures[a].window_until;
}

/* A1, A3: Takes the agent's present report as its window, because a clock has stepped since the
 * agent asked for the hold. */
static void report_shaken(struct world *w, uint8_t agent, struct hold *hold,
                          const struct hold_view *view)
{
    hold->tenures[agent].valid_until = view->valid_until;
    hold_end_window(hold, agent, agent_real_us(w, agent, view->valid_until));
    hold_check_alone(w, hold);
}

/* Adopts a hold for a PUT whose caller has left: no answer names the lock. */
static void adopt_unanswered(struct world *w, uint8_t agent, struct hold *hold,
                             const struct hold_view *view)
{
    begin_tenure(w, agent, hold, view);
    hold->agent = agent;
    hold->incarnation = w->agents[agent].incarnation;
    hold->left_at = (uint8_t)(hold->left_at & ~(1u << agent));
}

void checker_asks(struct world *w, uint8_t agent, const struct order *order)
{
    bool is_needed = w->switches.unlocks || w->switches.clocks;
    struct hold *hold = is_needed ? checker_find(w, order->token.random) : NULL;
    if (hold == NULL)
        return;
    struct asked *asked = &hold->tenures[agent].asked;
    uint32_t incarnation = w->agents[agent].incarnation;
    if (asked->round == order->ref.round && asked->incarnation == incarnation)
        return; /* A master is asked once more in the same round. */
    *asked = (struct asked){order->ref.round, incarnation, w->now};
}

void hold_report(struct world *w, uint8_t agent, const struct hold_view *view)
{
    struct hold *hold = checker_find(w, view->token.random);
    if (hold != NULL && !hold->tenures[agent].is_held && (hold->left_at >> agent & 1) != 0)
        adopt_unanswered(w, agent, hold, view);
    if (hold == NULL || !hold->tenures[agent].is_held) {
        checker_fail(w, "C4 a%u reports a hold that it was never granted", agent);
        return;
    }
    check_view(w, agent, hold, view);
    hold->ttl_ms = view->ttl_ms;
    check_confirmed(w, agent, hold, view);
    struct tenure *tenure = &hold->tenures[agent];
    if (tenure->shaken.us > 0) {
        report_shaken(w, agent, hold, view);
        return;
    }
    if (!instant_before(tenure->valid_until, view->valid_until))
        return;
    tenure->valid_until = view->valid_until;
    int64_t until = agent_real_us(w, agent, view->valid_until), before = hold->window_until;
    if (until <= tenure->window_until)
        return;
    hold_end_window(hold, agent, until);
    if (until <= before)
        return;
    if (before < w->now)
        hold->window_from = w->now;
    hold_check_alone(w, hold);
    check_replicated(w, hold);
}

void checker_java(struct world *w, struct hold *hold)
{
    hold_check_alone(w, hold);
}

/* Restores a hold that has not ended. It is the same hold as before, and binds its agent as
 * before. */
void checker_restored(struct world *w, uint8_t agent, uint8_t key,
                      const struct noted_hold *restored)
{
    struct hold *hold = checker_find(w, restored->token.random);
    bool resumes = !restored->ended && instant_before(agent_clock(w, agent), restored->valid_until);
    if (hold == NULL || !resumes)
        return;
    struct tenure *tenure = &hold->tenures[agent];
    tenure->lock_is_known = false;
    if (tenure->lost)
        checker_fail(w, "C5 a%u finds k%u held, which it had said to be lost", agent, key);
    if (tenure->valid_until.us != restored->valid_until.us)
        checker_fail(w, "C5 a%u finds another validity of k%u than it had reported", agent, key);
    if (hold->agent == agent) { /* else it was adopted elsewhere meanwhile */
        hold->incarnation = w->agents[agent].incarnation;
        hold->doubtful = true;
        hold->bound = false;
        hold->count = restored->terms.count;
    }
    hold_put(w, agent, hold);
    w->agents[agent].stalled_last = w->now; /* no agent was there to report the loss */
    w->figures.restored++;
}

void checker_left(struct world *w, uint8_t agent, const struct leaving *leaving)
{
    const struct hold *hold = leaving->hold;
    *(leaving->stuck ? &w->figures.stuck : &w->figures.unbound) += 1;
    if (hold->tenures[agent].is_held && hold->owner == 0 && (hold->ended || leaving->stuck))
        checker_fail(w, "C6 a%u holds k%u on, and the caller that it was bound to %s", agent,
                     hold->key, leaving->stuck ? "does not read" : "is gone");
}

/* A2: Returns when so many masters had forgotten the hold's release that the others are no quorum;
 * 0: they have not. */
static int64_t release_forgotten_at(const struct world *w, const struct hold *hold)
{
    unsigned others = w->options.masters;
    int64_t latest = 0;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        int64_t forgot_at = w->masters[m].forgot_at;
        if (forgot_at < hold->released_from || forgot_at == 0)
            continue;
        others--;
        latest = forgot_at > latest ? forgot_at : latest;
    }
    return others < world_quorum(w) ? latest : 0;
}

/* C1: Makes a hold that was given up bind all callers again, because its agent reports it as held.
 * If the request is in flight together with its release at another agent, either may come last. */
void checker_taken_up(struct world *w, struct hold *hold, const struct request *request)
{
    if (hold->elsewhere && !answers_came_after_release(hold, request))
        return;
    hold->came_back |= hold->released;
    if (hold->released)
        hold->release_forgotten_at = release_forgotten_at(w, hold);
    hold->ended = hold->released = hold->elsewhere = false;
    hold_check_alone(w, hold);
}
