/* The promises of D1 and D4, checked at the seams from the outside, after every step.
 *
 *   C1  at most one holder per key inside the validity windows that agents report: every report
 *       opens or extends a window [now, valid_until on the agent's clock) in real time, and two
 *       open ones of a key are a violation. A token is one hold, at however many agents its holder
 *       went to: its window lasts as long as the last of them has said (D3)
 *   C2  fencing numbers of one key's grants rise strictly, in the order of the grants, and an
 *       adopted number is the last that was granted (R12)
 *   C3  a register that rejects lower tokens never loses a write: each holder reads it when it is
 *       granted and writes later, also long after its lease; a write that is accepted must be based
 *       on the write before it
 *   C4  no wrong token ever succeeds, no right one is called wrong (R10): each request knows what
 *       its token is
 *   C5  nothing is promised or listed as held after its validity or its loss; `lost` is said in
 *       time, at the latest in the first step after the end (R7, R14): the agents' lists are read
 *       after every step. And no hold is listed with more masters that confirmed it than have its
 *       key
 *   C6  in a healed world a waiter wins within ttl + guard + back-off + 3 round trips, and no key
 *       is left ttl + 1 s after the last holder
 *   C7  exactly one answer per request, of its kind and in its time, no grant after a cancel;
 *       tables are bounded, their counts are right, and all of it comes to rest
 *   C8  no key of a failed or ended attempt is on a reachable master 3 round trips later (R5, R6):
 *       asked of the masters after each such attempt of the healed phase, and for those of the
 *       faulty phase once all masters are reachable again
 *   C9  a hold's fencing number, its max_hold and its validity are never taken back (R7): each
 *       report is held against the one before it
 *   C10 no key is deleted inside a validity that was reported but at its holder's wish: the masters
 *       report each deletion; and so no living hold is called taken. Where its holder went to
 *       several agents, an earlier one may delete what still bears its own name, as long as no
 *       quorum is free by that (D3)
 *   C11 those of an agent who wait for a key get it in the order in which they came (R9); and where
 *       the order is fair, in a healed world those of all agents do (turns.c); where it is any,
 *       agents take turns (wakes.c)
 *   C12 where masters are away one at a time, so that a quorum could carry every hold at every
 *       moment, none is lost; and no renewal that begins after a release was answered, at whatever
 *       agent, succeeds (R7)
 *
 *   C15 of a semaphore never more are held than it has permits, each in a slot of its own; and who
 *       does not wait is refused only where no slot was free all the time (R20)
 *
 *   C13 nobody waits for a place for its round that is free, and places are given in the order of
 *       coming (line.c)
 *   C14 where readers share a key, no reader's window meets a writer's (R17); and in a healed world
 *       neither mode waits for longer than the line before it needs, held in turn (R18)
 *   C16 a read's number is at least that of each write before it, and below each later one's (R19);
 *       and the register of C3 shows a reader the same as long as it takes its number
 *   C17 where a single master has replicas, what is promised is on as many of them as are asked
 *       for, until the end of the promise; and for max_ttl after one of them was promoted it grants
 *       nothing but what its holder hands on (R21)
 *   C18 what agents store beside Java is one holder, counted once, with its mode and an end; and
 *       they change nothing of what Java has (R22)
 *
 * Nothing but its holder's wish ends a window early: also when the agent has said `lost`, nobody
 * else may have the lock before the window is over. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SLACK_US = 6000, HEALED_SETTLED_US = 2500000 };

void checker_reset(struct world *w)
{
    w->hold_count = 1;
    memset(w->buckets, 0, sizeof w->buckets);
    memset(w->window_count, 0, sizeof w->window_count);
    for (uint8_t a = 0; a < SIM_AGENTS; a++) /* a run that showed a violation has left them */
        memset(w->agents[a].held, 0, sizeof w->agents[a].held);
    memset(w->fence_last, 0, sizeof w->fence_last);
    memset(w->busy_until, 0, sizeof w->busy_until);
    memset(w->granted_last, 0, sizeof w->granted_last);
    for (uint8_t a = 0; a < SIM_AGENTS; a++) /* also of those that are not in this run */
        memset(w->agents[a].held, 0, sizeof w->agents[a].held);
    memset(w->registers, 0, sizeof w->registers);
    memset(w->written_last, 0, sizeof w->written_last);
    w->forgot_at = w->epoch_at = w->intruded_at = -1;
    w->violation[0] = '\0';
}

void checker_fail(struct world *w, const char *format, ...)
{
    if (w->violation[0] != '\0')
        return;
    static const char *const tags[] = {"", "[A1] ", "[A2] ", "[A2] ", "[A3] ", "[A4] ", "[A1] "};
    const char *tag = tags[w->switches.kept ? ASSUME_ALL : w->switches.broken];
    int length =
        snprintf(w->violation, sizeof w->violation, "at %.6f s: %s", (double)w->now / 1e6, tag);
    va_list list;
    va_start(list, format);
    vsnprintf(w->violation + length, sizeof w->violation - (size_t)length, format, list);
    va_end(list);
    const char *said = w->violation + length;
    memset(w->property, 0, sizeof w->property);
    for (size_t i = 0; said[i] != ' ' && said[i] != ':' && i + 1 < sizeof w->property; i++)
        w->property[i] = said[i];
}

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

static struct hold *new_hold(struct world *w, uint8_t agent, uint8_t key, const struct token *token)
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
    hold->next_in_bucket = *first;
    *first = w->hold_count++;
    return hold;
}

/* ---- what agents report ---------------------------------------------------------------------- */

static void drop(struct world *w, uint8_t agent, struct hold *hold)
{
    struct hold **at = &w->agents[agent].held[hold->key];
    while (*at != NULL && *at != hold)
        at = &(*at)->tenures[agent].next;
    if (*at != NULL)
        *at = hold->tenures[agent].next;
    hold->tenures[agent].is_held = false;
    hold->tenures[agent].next = NULL;
}

/* R11: the hold has ended, and its owner, who asked for it once more, may contend only now. */
static void ended_for_owner(struct world *w, uint8_t agent, const struct hold *hold)
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
            drop(w, agent, w->agents[agent].held[key]);
}

/* At a mutex it takes the place of another one. */
static void put(struct world *w, uint8_t agent, struct hold *hold)
{
    struct hold **first = &w->agents[agent].held[hold->key];
    drop(w, agent, hold);
    while (!options_kind(&w->options, hold->key).rw && *first != NULL)
        drop(w, agent, *first);
    hold->tenures[agent].next = *first;
    hold->tenures[agent].is_held = true;
    *first = hold;
}

static void begin_tenure(struct world *w, uint8_t agent, struct hold *hold,
                         const struct effect_answer *answer)
{
    drop(w, agent, hold);
    hold->tenures[agent] = (struct tenure){
        .lock = answer->lock, .lock_is_known = true, .max_hold_until = answer->hold.max_hold_until};
    put(w, agent, hold);
}

/* The hold that a trace tells of; NULL: none that this agent reports. */
static struct hold *traced(struct world *w, uint8_t agent, uint8_t key,
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

static void check_alone(struct world *w, struct hold *hold)
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
        bool excused = clocks_excuse(w, other) || clocks_excuse(w, hold);
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
    if (back_us > 0 && !clocks_may_shorten(hold, back_us))
        checker_fail(w, "C9 a%u shortened the validity of k%u by %lld us", agent, hold->key,
                     (long long)back_us);
}

/* R7: but for keys that it lost by its holder's wish, or on a master that forgot. */
static void check_confirmed(struct world *w, uint8_t agent, struct hold *hold,
                            const struct hold_view *view)
{
    hold->known = hold->known || view->confirmed == w->options.masters;
    if (hold->ended || w->switches.broken != ASSUME_ALL || w->forgot_at >= hold->asked.begun_at ||
        clocks_excuse(w, hold))
        return;
    unsigned has = master_count_holding(w, hold->key, hold->token.random);
    if (view->confirmed > has + clocks_unnoticed(w, hold))
        checker_fail(w, "C5 a%u lists k%u as confirmed by %u masters, and %u have its key", agent,
                     hold->key, view->confirmed, has);
}

/* R21. What a master has forgotten since its round began, its replicas have forgotten too. */
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

/* A1, A3: a clock has stepped since the hold was asked for, so its window is what its agent reports
 * now. */
static void report_shaken(struct world *w, uint8_t agent, struct hold *hold,
                          const struct hold_view *view)
{
    hold->tenures[agent].valid_until = view->valid_until;
    hold->window_until = agent_real_us(w, agent, view->valid_until);
    check_alone(w, hold);
}

static void report(struct world *w, uint8_t agent, const struct hold_view *view)
{
    struct hold *hold = checker_find(w, view->token.random);
    if (hold == NULL || !hold->tenures[agent].is_held) {
        checker_fail(w, "C4 a%u reports a hold that it was never granted", agent);
        return;
    }
    check_view(w, agent, hold, view);
    hold->ttl_ms = view->ttl_ms;
    check_confirmed(w, agent, hold, view);
    if (hold->shaken_us > 0) {
        report_shaken(w, agent, hold, view);
        return;
    }
    if (!instant_before(hold->tenures[agent].valid_until, view->valid_until))
        return;
    hold->tenures[agent].valid_until = view->valid_until;
    int64_t until = agent_real_us(w, agent, view->valid_until);
    if (until <= hold->window_until)
        return;
    if (hold->window_until < w->now)
        hold->window_from = w->now;
    hold->window_until = until;
    check_alone(w, hold);
    check_replicated(w, hold);
}

void checker_java(struct world *w, struct hold *hold)
{
    check_alone(w, hold);
}

/* ---- C7: answers ----------------------------------------------------------------------------- */

static bool is_fitting(const struct world *w, uint8_t agent, const struct request *request,
                       enum answer answer)
{
#define IS(name) (1u << ANSWER_##name)
    uint32_t fitting;
    struct key_kind kind = options_kind(&w->options, request->key);
    /* R16: of an acquire, and of what this agent does not hold */
    bool is_late = w->agents[agent].stalled_last >= request->asked_at;
    uint32_t waited = w->switches.few_rounds || is_late ? IS(OVERLOADED) : 0;
    switch (request->kind) {
    case EVENT_ACQUIRE:
        fitting =
            IS(GRANTED) | IS(LOCK_HELD) | IS(QUORUM_UNAVAILABLE) | IS(VALIDITY_EXPIRED) |
            IS(TOO_MANY_LOCKS) | IS(TOO_MANY_WAITERS) | IS(DRAINING) |
            (request->wait_ms > 0 ? IS(WAIT_TIMEOUT) : 0) | waited |
            (kind.permits > 1 ? IS(OVERLOADED) : 0) |
            (request->bad_ttl || w->agents[agent].reloaded ? IS(BAD_TTL) : 0) |
            (request->owner != 0 ? IS(REENTERED) : 0) |
            (request->owner != 0 && kind.rw && request->mode == MODE_WRITE ? IS(UPGRADE_REFUSED)
                                                                           : 0) |
            (request->secret != 0
                 ? IS(REPEATED) | IS(SUPERSEDED) | IS(IDEMPOTENCY_MISMATCH) | IS(LOCK_LOST)
                 : 0);
        break;
    case EVENT_RENEW:
        fitting = IS(RENEWED) | IS(RENEW_FAILED) | IS(LOCK_LOST) | IS(TOKEN_MISMATCH) |
                  IS(NOT_HELD) | IS(QUORUM_UNAVAILABLE) | IS(TOO_MANY_LOCKS) | IS(BAD_TTL) |
                  IS(DRAINING) | waited;
        break;
    case EVENT_RELEASE:
        fitting = IS(RELEASED) | IS(RELEASE_PENDING) | IS(LOCK_LOST) | IS(TOKEN_MISMATCH) |
                  IS(NOT_HELD) | IS(QUORUM_UNAVAILABLE) | IS(TOO_MANY_LOCKS);
        break;
    default:
        fitting = IS(STATE) | waited;
        break;
    }
#undef IS
    return (fitting >> answer & 1) != 0;
}

/* Deadlines are exact, but for the timer's resolution and the difference of the clocks' rates. */
static void check_in_time(struct world *w, uint8_t agent, const struct request *request,
                          enum answer answer)
{
    const struct options *o = &w->options;
    int64_t ttl_ms = o->ttl_ms_max > SHORT_TTL_MS_MAX ? o->ttl_ms_max : SHORT_TTL_MS_MAX,
            round_ms = o->node_timeout_ms > ttl_ms / 10 ? o->node_timeout_ms : ttl_ms / 10;
    /* R3: a hold that was adopted without a ttl has the policy's. */
    int64_t renewal_ms = o->ttl_ms / 10 > round_ms ? o->ttl_ms / 10 : round_ms;
    int64_t most_ms = request->kind == EVENT_ACQUIRE ? 2 * (int64_t)o->node_timeout_ms
                      : request->kind == EVENT_RENEW ? (w->switches.roaming ? 3 : 2) * renewal_ms
                                                     : round_ms;
    if (request->kind == EVENT_RELEASE && most_ms < RELEASE_MS_MAX)
        most_ms = RELEASE_MS_MAX; /* R3 */
    if (request->kind == EVENT_ACQUIRE && request->wait_ms > most_ms)
        most_ms = request->wait_ms;
    else if (request->kind == EVENT_ACQUIRE && w->switches.few_rounds)
        most_ms = ADMISSION_MS_MAX; /* R16 */
    else if (request->kind == EVENT_ACQUIRE && request->wait_ms == 0)
        most_ms *= o->callers; /* who tries once stands behind those of this agent who try now */
    bool is_guest = request->kind == EVENT_RENEW || request->kind == EVENT_READ;
    if (is_guest && w->switches.few_rounds)
        most_ms += ADMISSION_MS_MAX; /* R16 */
    if (clocks_may_void(w, agent, request->asked_at))
        most_ms *= 2; /* R14: what is under way as a gain is noticed is asked again */
    int64_t took_us = w->now - request->asked_at;
    if (w->agents[agent].stalled_last < request->asked_at && took_us > most_ms * 1050 + SLACK_US)
        checker_fail(w, "C7 a%u answered %s after %lld us, %lld ms were allowed", agent,
                     answer_code(answer), (long long)took_us, (long long)most_ms);
}

/* R9, and a drain: who may be granted it. */
static void check_turn(struct world *w, uint8_t agent, const struct request *request)
{
    const struct agent *at = &w->agents[agent];
    struct key_kind kind = options_kind(&w->options, request->key);
    bool has_order = request->wait_ms > 0 && kind.permits == 1; /* R20: rounds overtake */
    if (at->draining && request->arrived > at->drained_from)
        checker_fail(w, "C7 a%u drains, and granted k%u to one who came later", agent,
                     request->key);
    for (size_t i = 0; i < SIM_REQUESTS && has_order; i++) {
        const struct request *other = at->open[i];
        bool passes = kind.rw && request->mode == MODE_READ && other != NULL &&
                      other->mode == MODE_READ; /* they contend side by side (R18) */
        if (other != NULL && other->kind == EVENT_ACQUIRE && other->key == request->key &&
            other->wait_ms > 0 && other->arrived < request->arrived &&
            other->queued < request->queued && !passes)
            checker_fail(w, "C11 a%u granted k%u to request %u, and request %u came before it",
                         agent, request->key, request->number, other->number);
    }
}

/* R6: the table is bounded, and what has ended makes room for what comes: where it is small, and
 * where so many callers meet a master that is away that its debts fill it. */
static bool may_have_forgotten(const struct world *w, uint8_t agent)
{
    const struct agent *at = &w->agents[agent];
    bool is_small = w->options.locks_max < SIM_LOCKS && at->begun >= w->options.locks_max;
    return is_small || at->was_full;
}

/* R15: whoever lost it without a release, nobody has it until lock_delay after its validity. */
static void check_lock_delay(struct world *w, uint8_t key)
{
    const struct hold *previous = w->granted_last[key];
    int64_t delay_us = (int64_t)w->options.lock_delay_ms * 980;
    /* Where the table is full, who lost a hold is forgotten, and a DELETE of one of several that
     * had it is taken for the last. */
    if (previous != NULL && may_have_forgotten(w, previous->agent))
        return;
    if (delay_us > 0 && previous != NULL && !previous->ended && previous->mode == MODE_WRITE &&
        w->now < previous->window_until + delay_us)
        checker_fail(
            w, "C1 k%u is granted %lld us after the last validity, and the lock_delay is %u ms",
            key, (long long)(w->now - previous->window_until), w->options.lock_delay_ms);
}

/* D3: a request whose lock was released by DELETE is over, and a copy of it gets nothing. */
static void check_copy(struct world *w, uint8_t agent, const struct request *request)
{
    bool remembers = w->options.locks_max == SIM_LOCKS && !may_have_forgotten(w, agent);
    if (request->copy && request->hold->used_up == w->agents[agent].incarnation && remembers)
        checker_fail(w, "C7 a%u granted k%u to a copy of a request whose lock was released", agent,
                     request->key);
}

/* An adoption back keeps the owner and the idempotency key, and one by an agent that does not know
 * the hold any more does not. */
static bool is_its_own(uint32_t now, uint32_t before, uint32_t asked)
{
    return asked != 0 && (asked == now || asked == before);
}

/* Where a master forgot the key, or may have, or its guard ended, the hold's agent may have
 * repaired the key before it heard of the release (R7). */
static bool may_be_repaired(const struct world *w, const struct hold *hold)
{
    return w->switches.broken != ASSUME_ALL || hold->crossed ||
           w->forgot_at >= hold->released_from || w->epoch_at >= hold->released_from;
}

static bool came_after_release(const struct hold *hold, const struct request *request)
{
    return hold->released && request->arrived > hold->released_after;
}

/* C12: a token that was released, at whatever agent, is nobody's for a request that came later. */
static void check_had_still(struct world *w, uint8_t agent, const struct request *request,
                            const struct hold *hold)
{
    if (came_after_release(hold, request) && !may_be_repaired(w, hold))
        checker_fail(w, "C12 a%u says that k%u is held, %lld us after its release was answered",
                     agent, hold->key, (long long)(request->asked_at - hold->released_at));
}

/* R11, D3: the hold is the caller's own. */
static void check_had(struct world *w, uint8_t agent, const struct request *request,
                      const struct effect_answer *answer)
{
    struct hold *hold = checker_find(w, answer->hold.token.random);
    bool again = answer->answer == ANSWER_REENTERED;
    if (hold == NULL || !hold->tenures[agent].is_held ||
        (options_kind(&w->options, request->key).permits == 1 && hold->key != request->key) ||
        (again ? !is_its_own(hold->owner, hold->owner_before, request->owner) ||
                     answer->hold.count < 2
               : !is_its_own(hold->secret, hold->secret_before, request->secret))) {
        checker_fail(w, "C4 a%u gave k%u, which is another's, to owner %u, request %u", agent,
                     request->key, request->owner, request->secret);
        return;
    }
    check_had_still(w, agent, request, hold);
    if (hold->mode == MODE_READ && request->mode == MODE_WRITE)
        checker_fail(w, "C14 a%u let request %u write k%u, and gave it a hold that reads", agent,
                     request->number, request->key);
    *(again ? &w->figures.reentered : &w->figures.repeated) += 1;
    hold->tenures[agent].lock = answer->lock;
    report(w, agent, &answer->hold);
}

/* D3: the same request can not be refused because of what it has got. */
static void check_refused(struct world *w, uint8_t agent, const struct request *request)
{
    const struct hold *held = w->agents[agent].held[request->key];
    for (; held != NULL; held = held->tenures[agent].next)
        if (request->secret != 0 && held->secret == request->secret && !held->given_up)
            checker_fail(w, "C7 a%u refuses k%u to the request that has it", agent, request->key);
}

/* R19: only one who reads the key would wait for itself. */
static void check_upgrade(struct world *w, uint8_t agent, const struct request *request)
{
    const struct hold *held = w->agents[agent].held[request->key];
    while (held != NULL && (held->mode != MODE_READ ||
                            !is_its_own(held->owner, held->owner_before, request->owner)))
        held = held->tenures[agent].next;
    w->figures.upgrades++;
    if (held == NULL)
        checker_fail(w, "C7 a%u refuses to let owner %u write k%u, which does not read it", agent,
                     request->owner, request->key);
}

/* D3: the repeat takes the place of the request that it repeats. */
static void check_superseded(struct world *w, uint8_t agent, const struct request *request)
{
    for (size_t i = 0; i < SIM_REQUESTS; i++) {
        struct request *other = w->agents[agent].open[i];
        if (other == NULL || other->secret != request->secret || other->kind != EVENT_ACQUIRE)
            continue;
        other->arrived = request->arrived;
        other->queued = request->queued;
        other->begun_at = request->begun_at;
    }
    w->figures.superseded++;
}

/* A6: where clocks are set back, numbers that were granted before a guess may come again if they
 * are above it. Numbers that are granted after it rise. */
void checker_guessed(struct world *w, uint64_t floor)
{
    if (!w->options.steps_clocks)
        return;
    for (uint8_t place = 0; place < SIM_KEYS; place++) {
        uint64_t *const numbers[] = {&w->fence_last[place], &w->written_last[place],
                                     &w->registers[place].token, &w->registers[place].read};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            if (*numbers[i] > floor)
                *numbers[i] = 0;
    }
    for (uint16_t i = 1; i < w->hold_count; i++)
        w->holds[i].guessed_below |= w->holds[i].token.fence > floor;
}

/* C2; a read's is at least the last write's, and may be the same as other reads' (C16). */
static void check_number(struct world *w, uint8_t agent, const struct request *request,
                         uint8_t place, uint64_t number)
{
    uint64_t *last = &w->fence_last[place], *written = &w->written_last[place];
    bool reads = request->mode == MODE_READ,
         falls = number != 0 && (reads ? number < *written : number <= *last);
    bool is_excused = clocks_are_behind(w, agent, request->asked_at);
    if (w->options.fencing != (number != 0) || (falls && !is_excused))
        checker_fail(w, "%s k%u: a%u granted number %llu after %llu",
                     options_kind(&w->options, place).rw ? "C16" : "C2", place, agent,
                     (unsigned long long)number, (unsigned long long)(reads ? *written : *last));
    w->figures.aged +=
        w->granted_last[place] != NULL &&
        w->granted_last[place]->window_until + 1000 * (int64_t)w->options.fence_retention_ms <
            w->now;
    *last = number > *last ? number : *last;
    if (!reads)
        *written = number;
}

static void count_read(struct world *w, uint8_t key)
{
    unsigned open = 0;
    for (uint16_t i = 0; i < w->window_count[key]; i++)
        open += !w->windows[key][i]->ended && w->windows[key][i]->window_until > w->now;
    w->figures.reads_granted++;
    w->figures.read_together += open > 0;
}

static void register_open(struct world *w, struct hold *hold);
static void check_granted(struct world *w, uint8_t agent, struct request *request,
                          const struct effect_answer *answer)
{
    const struct token *token = &answer->hold.token;
    if (checker_find(w, token->random) != NULL) {
        checker_fail(w, "C4 a%u granted the same token twice", agent);
        return;
    }
    uint8_t permits = options_kind(&w->options, request->key).permits;
    bool has_permit = permits > 1;
    if ((token->permit > 0) != has_permit || (has_permit && token->permit > permits)) {
        checker_fail(w, "C15 a%u granted permit %u of k%u", agent, token->permit, request->key);
        return;
    }
    uint8_t place = options_place(&w->options, request->key, token->permit);
    struct hold *hold = new_hold(w, agent, place, token);
    if (hold == NULL)
        return;
    check_number(w, agent, request, place, token->fence);
    if (request->bad_ttl)
        checker_fail(w, "C7 a%u granted k%u for longer than is allowed", agent, request->key);
    check_turn(w, agent, request);
    check_copy(w, agent, request);
    check_lock_delay(w, place);
    hold->bound = request->bound;
    hold->owner = request->owner;
    hold->secret = request->secret;
    hold->asked = *request;
    hold->mode = request->mode;
    if (request->mode == MODE_READ)
        count_read(w, request->key);
    begin_tenure(w, agent, hold, answer);
    const struct hold *previous = w->granted_last[place];
    w->figures.take_overs += previous != NULL && !previous->ended;
    w->granted_last[place] = hold;
    int64_t cap_ms = request->bound ? 2 * w->options.max_hold_ms : w->options.max_hold_ms;
    if (request->max_hold_ms != 0 && request->max_hold_ms < cap_ms)
        cap_ms = request->max_hold_ms;
    if (instant_before(instant_after_ms(agent_clock(w, agent), cap_ms),
                       answer->hold.max_hold_until))
        checker_fail(w, "C9 a%u: max_hold of k%u is longer than it may be", agent, request->key);
    w->figures.grants++;
    if (!has_permit)
        wakes_granted(w, agent, place);
    clocks_granted(w, hold);
    register_open(w, hold);
    report(w, agent, &answer->hold);
}

/* D3: the number proves that nobody was granted the lock in between. */
static void check_adopted(struct world *w, uint8_t agent, struct hold *hold,
                          const struct effect_answer *answer)
{
    bool proves = w->options.fencing && !options_kind(&w->options, hold->key).redisson; /* R22 */
    if (answer->continuous != proves)
        checker_fail(w, "C9 a%u adopted k%u, continuous %d", agent, hold->key, answer->continuous);
    bool is_released = hold->ended; /* by its holder, who asked for this at the same time */
    uint64_t last = hold->mode == MODE_READ ? w->written_last[hold->key] : w->fence_last[hold->key];
    bool is_last = hold->mode == MODE_READ ? hold->token.fence >= last : hold->token.fence == last;
    bool is_void = last == 0; /* A6 */
    if (w->options.fencing && !is_last && !is_released && !is_void)
        checker_fail(w, "C2 a%u adopted k%u, which was granted to another in between", agent,
                     hold->key);
    hold->agent = agent;
    hold->incarnation = w->agents[agent].incarnation;
    hold->doubtful = hold->bound = false;
    begin_tenure(w, agent, hold, answer);
    hold->count = 1;
    hold->owner_before = hold->owner != 0 ? hold->owner : hold->owner_before;
    hold->secret_before = hold->secret != 0 ? hold->secret : hold->secret_before;
    hold->secret = hold->owner = 0;
    w->figures.adoptions++;
}

/* Only a table that is full turns anybody away. What was full as the step began may have room at
 * its end. */
static void check_crowded(struct world *w, uint8_t agent, enum answer answer)
{
    const struct core_stats *stats = core_stats(w->agents[agent].core);
    bool full = answer == ANSWER_TOO_MANY_WAITERS
                    ? stats->waiters >= w->options.waiters_max ||
                          w->agents[agent].waiters >= w->options.waiters_max
                    : stats->locks_tracked >= w->options.locks_max ||
                          w->agents[agent].locks >= w->options.locks_max;
    if (!full)
        checker_fail(w, "C7 a%u answers %s with %u locks and %u waiters", agent,
                     answer_code(answer), stats->locks_tracked, stats->waiters);
    w->figures.crowded++;
}

/* C5: what a GET shows of a hold. Where too few masters answered to tell, it shows as confirmed
 * only what they said. */
static void check_shown(struct world *w, uint8_t agent, const struct request *request,
                        const struct effect_answer *answer)
{
    const struct hold *hold = checker_find(w, answer->hold.token.random);
    if (hold != NULL && came_after_release(hold, request) && !may_be_repaired(w, hold) &&
        (answer->hold.confirmed >= world_quorum(w) || answer->state == KEY_FREE))
        checker_fail(w, "C5 a%u shows a hold of k%u, %lld us after its release was answered", agent,
                     hold->key, (long long)(request->asked_at - hold->released_at));
    report(w, agent, &answer->hold);
}

static void check_renewed(struct world *w, uint8_t agent, struct request *request,
                          const struct effect_answer *answer)
{
    struct hold *hold = request->hold;
    bool is_back = hold != NULL && hold->released && may_be_repaired(w, hold) &&
                   request->token.fence == hold->token.fence;
    if ((request->wrong && !is_back) || hold == NULL ||
        !token_same_random(&answer->hold.token, &request->token)) {
        checker_fail(w, "C4 a%u renewed k%u for a wrong token", agent, request->key);
        return;
    }
    if (is_back)
        checker_taken_up(w, hold, request);
    if (answer->adopted)
        check_adopted(w, agent, request->hold, answer);
    if (request->hold->agent != agent)
        request->hold->count = 1; /* R11: it knows of one holder, whose release ends all shares */
    request->hold->agent = agent; /* also one that has adopted back what it had not missed yet */
    request->hold->incarnation = w->agents[agent].incarnation;
    report(w, agent, &answer->hold);
}

/* R7: an agent that has it and has not heard of a new epoch yet will create its key anew. Where an
 * epoch begins with a guard, the release is not answered before that. */
static bool knows_epochs(const struct world *w, const struct hold *hold)
{
    if (w->switches.forgetful || w->options.replicas > 0)
        return true;
    for (uint8_t a = 0; a < w->options.agents; a++)
        for (uint8_t m = 0; m < w->options.masters && hold->tenures[a].is_held; m++)
            if (w->agents[a].connections[m].epoch != w->masters[m].epoch)
                return false;
    return true;
}

/* D3.7: the holder is done with it. Where its owner has it several times over it may only have been
 * counted down. */
static void release_is_answered(struct world *w, uint8_t agent, const struct request *request)
{
    struct hold *hold = request->hold;
    if (!hold->ended || hold->released || hold->tenures[agent].is_held)
        return;
    hold->released = true;
    hold->crossed = hold->crossed || !knows_epochs(w, hold);
    hold->released_from = request->asked_at;
    hold->released_at = w->now;
    hold->released_after = w->arrivals;
}

static void check_released(struct world *w, uint8_t agent, const struct request *request,
                           const struct effect_answer *answer)
{
    if (request->by_secret && request->hold == NULL)
        return;
    if (request->wrong || request->hold == NULL) {
        checker_fail(w, "C4 a%u released k%u for a wrong token", agent, request->key);
        return;
    }
    /* R11: what its table has no room for any more it can not count down, only release. */
    bool is_held = request->hold->tenures[agent].is_held;
    if (!is_held && may_have_forgotten(w, agent))
        request->hold->ended = true;
    release_is_answered(w, agent, request);
    w->figures.releases++;
    w->figures.stranger_releases +=
        request->hold->agent != agent || request->hold->incarnation != w->agents[agent].incarnation;
    bool partial = false;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        const struct connection *connection = &w->agents[agent].connections[m];
        partial = partial || !connection->up || w->now < connection->cut_out_until ||
                  w->masters[m].paused;
    }
    w->figures.releases_partial += partial;
    (void)answer;
}

void checker_ran(struct world *w, uint8_t master, uint8_t place, bool was_there, bool is_there)
{
    int64_t longest_us = (int64_t)w->config.max_ttl_ms * 1050;
    if (was_there || is_there)
        w->busy_until[place][master] = is_there ? w->now + longest_us : w->now;
}

/* C15: the search that ended with this answer began before its request came by the rounds of one
 * search at most. What was released elsewhere, and is valid here, is no free slot (D3). */
static void check_none_was_free(struct world *w, uint8_t agent, const struct request *request)
{
    const struct options *o = &w->options;
    uint8_t permits = options_kind(o, request->key).permits;
    int64_t began = request->asked_at - 2000 * (int64_t)o->node_timeout_ms * (permits + 1);
    for (uint8_t permit = 1; permit <= permits; permit++) {
        uint8_t place = options_place(o, request->key, permit);
        const struct hold *last = w->granted_last[place];
        bool is_free = w->agents[agent].stalled_last < began &&
                       w->agents[agent].held[place] == NULL &&
                       (last == NULL || last->window_until < began);
        for (uint8_t m = 0; m < o->masters; m++)
            is_free = is_free && w->busy_until[place][m] < began;
        if (is_free)
            checker_fail(w, "C15 a%u refuses k%u, and its slot %u was free all the time", agent,
                         request->key, permit - 1);
    }
}

/* C4, at whatever agent: a quorum of masters has had the token from when the request came until its
 * answer. Which number they store for the next grant is no matter, nor which the token has on those
 * that were not needed. What a master forgot may have come back meanwhile. A hold whose last
 * reported validity has ended is being released, and a second DELETE may be told of the first one.
 * An Idempotency-Key is known to its agent alone, and a full table forgets it. */
static void check_called_wrong(struct world *w, uint8_t agent, const struct request *request,
                               const struct effect_answer *told)
{
    enum answer answer = told->answer;
    bool renews = request->kind == EVENT_RENEW, releases = request->kind == EVENT_RELEASE,
         is_called_wrong = answer == ANSWER_TOKEN_MISMATCH || answer == ANSWER_NOT_HELD ||
                           (answer == ANSWER_LOCK_LOST && reason_is_denial(told->reason) && renews);
    if ((!renews && !releases) || !is_called_wrong || request->hold == NULL ||
        (request->hold->ended && renews) || request->wrong || w->switches.broken != ASSUME_ALL ||
        w->forgot_at >= request->asked_at || request->hold->window_until <= w->now ||
        (releases && came_after_release(request->hold, request)) ||
        (request->by_secret && may_have_forgotten(w, agent)))
        return;
    uint16_t had = request->had & master_set_having(w, request->hold->key, &request->token);
    if ((unsigned)__builtin_popcount(had) >= world_quorum(w))
        checker_fail(w, "C4 a%u answered %s for k%u, whose token masters %03x have", agent,
                     answer_code(answer), request->hold->key, had);
}

void checker_answer(struct world *w, uint8_t agent, struct request *request,
                    const struct effect_answer *answer)
{
    if (!is_fitting(w, agent, request, answer->answer))
        checker_fail(w, "C7 a%u answered %s to a request of kind %d", agent,
                     answer_code(answer->answer), request->kind);
    check_in_time(w, agent, request, answer->answer);
    if (request->cancelled && answer->answer == ANSWER_GRANTED)
        checker_fail(w, "C7 a%u granted k%u to a caller that is gone", agent, request->key);
    if (request->expects_hold && !request->hold->ended && !may_have_forgotten(w, agent) &&
        (answer->answer == ANSWER_TOKEN_MISMATCH || answer->answer == ANSWER_NOT_HELD))
        checker_fail(w, "C4 a%u answered %s to the holder of k%u", agent,
                     answer_code(answer->answer), request->key);
    check_called_wrong(w, agent, request, answer);
    struct figures *figures = &w->figures;
    if (request->kind == EVENT_RELEASE && request->hold != NULL && request->hold->ended &&
        !request->bothers && request->hold->agent == agent &&
        request->hold->incarnation == w->agents[agent].incarnation)
        request->hold->used_up = w->agents[agent].incarnation;
    switch (answer->answer) {
    case ANSWER_GRANTED:
        check_granted(w, agent, request, answer);
        break;
    case ANSWER_REENTERED:
    case ANSWER_REPEATED:
        check_had(w, agent, request, answer);
        break;
    case ANSWER_SUPERSEDED:
        check_superseded(w, agent, request);
        break;
    case ANSWER_UPGRADE_REFUSED:
        check_upgrade(w, agent, request);
        break;
    case ANSWER_LOCK_HELD:
    case ANSWER_WAIT_TIMEOUT:
        check_refused(w, agent, request);
        if (answer->answer == ANSWER_LOCK_HELD &&
            options_kind(&w->options, request->key).permits > 1)
            check_none_was_free(w, agent, request);
        figures->refusals += answer->answer == ANSWER_LOCK_HELD;
        figures->wait_timeouts += answer->answer == ANSWER_WAIT_TIMEOUT;
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
    case ANSWER_NOT_HELD:
    case ANSWER_TOKEN_MISMATCH:
        /* After `lock_lost` a PUT may find the keys still, and gets the hold back (D3). */
        if (request->kind == EVENT_RELEASE && request->hold != NULL && !request->wrong &&
            !request->bothers && !request->by_secret)
            release_is_answered(w, agent, request);
        break;
    case ANSWER_STATE:
        if (answer->local)
            check_shown(w, agent, request, answer);
        break;
    case ANSWER_TOO_MANY_LOCKS:
    case ANSWER_TOO_MANY_WAITERS:
        check_crowded(w, agent, answer->answer);
        break;
    default:
        figures->overloaded += answer->answer == ANSWER_OVERLOADED;
        figures->bad_ttls += answer->answer == ANSWER_BAD_TTL;
        figures->releases_pending += answer->answer == ANSWER_RELEASE_PENDING;
        figures->unavailable += answer->answer == ANSWER_QUORUM_UNAVAILABLE;
        figures->expired_grants += answer->answer == ANSWER_VALIDITY_EXPIRED;
        break;
    }
}

/* What had not ended is the same hold as before, and binds its agent as before. */
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
    put(w, agent, hold);
    w->agents[agent].stalled_last = w->now; /* nobody was there to say that it is lost */
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

/* C1: what was given up is told to be held again, so it binds everybody again. Where it is asked
 * for as its release at another agent is under way, either may come last. */
void checker_taken_up(struct world *w, struct hold *hold, const struct request *request)
{
    if (hold->elsewhere && !came_after_release(hold, request))
        return;
    hold->came_back |= hold->released;
    hold->ended = hold->released = hold->elsewhere = false;
    check_alone(w, hold);
}

/* A key that an attempt of long ago took, by a connection that is dead, stands for its ttl. */
static bool is_intruded(const struct world *w)
{
    return w->intruded_at >= 0 && w->now < w->intruded_at + 2000 * (int64_t)w->options.ttl_ms_max;
}

/* Another agent goes on with a hold of the key that was released here, and repairs it on a master
 * that forgot the key, perhaps before its grant was heard (R7). */
static bool is_forestalled(const struct world *w, uint8_t agent, const struct hold *hold)
{
    int64_t written_at = hold->granted_at - 2000 * (int64_t)w->options.node_timeout_ms;
    bool is_repaired = false;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        const struct hold *other = w->agents[a].held[hold->key];
        is_repaired = is_repaired || (a != agent && other != NULL && other->ended);
    }
    return w->forgot_at >= 0 && w->forgot_at >= written_at && is_repaired;
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void check_lost(struct world *w, uint8_t agent, uint8_t key,
                       const struct effect_trace *trace)
{
    struct agent *at = &w->agents[agent];
    struct hold *hold = traced(w, agent, key, trace);
    enum reason reason = trace->reason;
    if (hold == NULL) {
        checker_fail(w, "C5 a%u lost k%u, which it did not hold", agent, key);
        return;
    }
    drop(w, agent, hold);
    ended_for_owner(w, agent, hold);
    hold->tenures[agent].lost = true;
    w->figures.lost[reason]++;
    w->figures.losses++;
    struct instant now = agent_clock(w, agent);
    if (hold->shaken_us > 0 && w->now < hold->window_until) /* its caller is told (A1, A3) */
        hold->window_until = w->now;
    int64_t left_us = instant_us_between(now, hold->tenures[agent].valid_until);
    bool stalled = at->stalled_last >= agent_real_us(w, agent, hold->tenures[agent].valid_until) -
                                           (int64_t)w->options.ttl_ms_max * 200;
    /* Where a master forgot its key, a hold that was released at another agent may be repaired
     * first (R7). */
    bool may_be_taken = (w->switches.broken != ASSUME_ALL && !w->switches.kept) ||
                        w->forgot_at >= hold->granted_at || hold->shared || hold->shaken_us > 0 ||
                        is_forestalled(w, agent, hold);
    if (reason_is_denial(reason) && !hold->ended && !may_be_taken)
        checker_fail(w, "C10 k%u was taken from a%u with %lld us left", key, agent,
                     (long long)left_us);
    /* The ttl is the one that the last PUT asked for, at whichever agent. */
    if (reason == REASON_QUORUM_LOST && !hold->shared &&
        left_us > lost_margin_ms(hold->ttl_ms) * 1000 + SLACK_US)
        checker_fail(w, "C5 a%u gave k%u up with %lld us left, which is more than the lost_margin",
                     agent, key, (long long)left_us);
    /* D3: where another agent was asked to go on with it, it is lost to that one. And an agent that
     * is far from the masters reaches no quorum in time. What Java could not give back takes a
     * master away (R22). */
    bool is_carried = w->switches.in_turn && !is_intruded(w) && !hold->shared &&
                      agent != w->choked && hold->granted_at >= w->java.until[key];
    if (is_carried && (reason == REASON_QUORUM_LOST || reason_is_denial(reason)) && !hold->ended)
        checker_fail(w, "C12 a%u lost k%u (%s), which a quorum could carry at every moment", agent,
                     key, reason_name(reason));
    if (reason == REASON_QUORUM_LOST && !stalled && left_us < LOST_MARGIN_MS_MIN * 1000 - SLACK_US)
        checker_fail(w, "C5 a%u said that k%u is lost with %lld us left", agent, key,
                     (long long)left_us);
    int64_t least_us = EXPIRY_MARGIN_RENEWING_MS * 1000 - SLACK_US;
    if (reason == REASON_EXPIRED && !stalled &&
        (left_us > EXPIRY_MARGIN_MS * 1000 || left_us < least_us))
        checker_fail(w, "C5 a%u said that k%u has expired with %lld us left", agent, key,
                     (long long)left_us);
    if (reason == REASON_STALLED && at->stalled_last == 0)
        checker_fail(w, "C5 a%u blames a stall for losing k%u, and there was none", agent, key);
}

/* Three round trips, of which none is longer than this once the world is healed. */
static void plan_orphan_check(struct world *w, uint8_t agent, uint8_t key,
                              const uint8_t random[RANDOM_BYTES])
{
    if (!w->healed || w->now <= w->healed_at + HEALED_SETTLED_US)
        return;
    void *copy = world_allocate(w, RANDOM_BYTES);
    memcpy(copy, random, RANDOM_BYTES);
    int64_t round_trip_us = options_round_trip_us(&w->options) +
                            (agent == w->choked ? FAR_US(w) : 0) +
                            1000 * (int64_t)w->options.replicas_timeout_ms; /* a WAIT is in front */
    world_plan_in(w, 3 * round_trip_us,
                  (struct happening){.kind = HAPPEN_ORPHAN, .master = key, .what = copy});
}

static void released(struct world *w, uint8_t agent, uint8_t key, const struct effect_trace *trace)
{
    struct hold *hold = traced(w, agent, key, trace);
    const struct tenure *tenure = hold == NULL ? NULL : &hold->tenures[agent];
    if (hold == NULL || !hold->ended || hold->token.fence != trace->fence ||
        (tenure->lock_is_known && (tenure->lock.slot != trace->lock.slot ||
                                   tenure->lock.generation != trace->lock.generation)))
        return; /* it was of another token than the one that this agent holds */
    hold->given_up = true;
    /* of what readers or slots leave others may have the rest */
    struct key_kind kind = options_kind(&w->options, key);
    if (kind.permits == 1 && (!kind.rw || hold->mode == MODE_WRITE))
        wakes_released(w, agent, key);
    drop(w, agent, hold);
    ended_for_owner(w, agent, hold);
    plan_orphan_check(w, agent, key, hold->token.random);
}

/* Where a master forgets its key, or may have, after the release was asked for, or has never
 * confirmed it, it is repaired at once: perhaps before its agent hears of the release (R7). */
static void check_renewal(struct world *w, uint8_t agent, uint8_t key,
                          const struct effect_trace *trace)
{
    struct hold *hold = traced(w, agent, key, trace);
    w->figures.renewals++;
    if (hold == NULL)
        return;
    hold->doubtful = false;
    clocks_renewed(w, agent, hold);
    if (hold->released && hold->known && hold->renewal_at > hold->released_at &&
        !may_be_repaired(w, hold))
        checker_fail(w, "C12 a%u renewed k%u %lld us after its release was answered", agent, key,
                     (long long)(hold->renewal_at - hold->released_at));
}

void checker_trace(struct world *w, uint8_t agent, const struct effect_trace *trace)
{
    uint8_t key = trace->key.len == 2 ? world_place(w, trace->key, trace->permit) : 0;
    struct key_kind kind = options_kind(&w->options, key);
    if (trace->kind == TRACE_GRANTED && trace->attempts > kind.permits)
        checker_fail(w, "C15 a%u took %u attempts to find one of %u slots of k%u", agent,
                     trace->attempts, kind.permits, key);
    w->figures.searched += trace->kind == TRACE_GRANTED && trace->attempts > 1;
    switch (trace->kind) {
    case TRACE_ATTEMPT:
        if (trace->answer != ANSWER_GRANTED)
            plan_orphan_check(w, agent, key,
                              kind.rw ? w->agents[agent].tries[trace->lock.slot % SIM_JOURNAL]
                                      : w->agents[agent].attempt[key]);
        break;
    case TRACE_RENEWED:
        check_renewal(w, agent, key, trace);
        break;
    case TRACE_RENEW_FAILED:
        w->figures.renewal_failures++;
        break;
    case TRACE_LOST:
        check_lost(w, agent, key, trace);
        break;
    case TRACE_RELEASED:
        released(w, agent, key, trace);
        break;
    case TRACE_DEBT_DROPPED:
        w->agents[agent].dropped_debt = true;
        break;
    default:
        break;
    }
}

/* ---- after every step ------------------------------------------------------------------------ */

static void check_losses_said(struct world *w, uint8_t agent)
{
    struct instant now = agent_clock(w, agent);
    for (uint8_t key = 0; key < options_places(&w->options); key++) {
        const struct hold *hold = w->agents[agent].held[key];
        for (; hold != NULL; hold = hold->tenures[agent].next)
            if (!hold->ended && !instant_before(now, hold->tenures[agent].valid_until))
                checker_fail(w, "C5 a%u did not say that k%u is lost, %lld us after its validity",
                             agent, key,
                             (long long)instant_us_between(hold->tenures[agent].valid_until, now));
    }
}

/* A restored hold has another lock than before. */
static void note_lock(struct world *w, uint8_t agent, const struct hold_view *found,
                      struct lock_ref lock)
{
    struct hold *hold = checker_find(w, found->token.random);
    if (hold == NULL || hold->tenures[agent].lock_is_known)
        return;
    hold->tenures[agent].lock = lock;
    hold->tenures[agent].lock_is_known = true;
}

/* A hold that is listed is found by its name. */
static void check_found(struct world *w, uint8_t agent, const struct hold_view *listed)
{
    struct hold_view found = {.count = 0};
    struct lock_ref lock = {0};
    uint32_t cursor = 0;
    bool is_found = false;
    while (!is_found && core_next_hold_of(w->agents[agent].core, listed->key, agent_clock(w, agent),
                                          &cursor, &found, &lock))
        is_found = token_same_random(&listed->token, &found.token);
    if (!is_found)
        checker_fail(w, "C5 a%u lists a hold of %.2s, and does not find it", agent, listed->key.at);
    else
        note_lock(w, agent, &found, lock);
}

static void check_waiters(struct world *w, uint8_t agent)
{
    const struct core *core = w->agents[agent].core;
    struct instant now = agent_clock(w, agent);
    uint32_t cursor = 0, count = 0, next = 0;
    struct hold_view found;
    struct wait_view wait;
    struct lock_ref lock;
    for (; core_next_wait(core, &cursor, &wait); count++)
        if (instant_before(now, wait.since))
            checker_fail(w, "C7 a%u lists a waiter for %.2s that is still to come", agent,
                         wait.key.at);
    if (count > 0 && core_next_hold_of(core, (struct text){"none", 4}, now, &next, &found, &lock))
        checker_fail(w, "C7 a%u finds a hold of a key that nobody asked for", agent);
    if (count != core_stats(core)->waiters)
        checker_fail(w, "C7 a%u counts %u waiters and lists %u", agent, core_stats(core)->waiters,
                     count);
}

static void check_requests(struct world *w, uint8_t agent)
{
    const struct core_stats *stats = core_stats(w->agents[agent].core);
    uint32_t open = 0;
    for (size_t i = 0; i < SIM_REQUESTS; i++)
        open += w->agents[agent].open[i] != NULL;
    if (open != stats->requests)
        checker_fail(w, "C7 a%u counts %u requests, and %u are open", agent, stats->requests, open);
}

void checker_after_step(struct world *w, uint8_t agent)
{
    enum { STEPS_PER_WALK = 16 };
    check_losses_said(w, agent);
    turns_after_step(w, agent);
    const struct core *core = w->agents[agent].core;
    if (core_stats(core)->locks_tracked >= w->options.locks_max)
        w->agents[agent].was_full = true;
    if (w->steps % STEPS_PER_WALK == 0)
        core_check(core);
    else
        core_check_counters(core);
    uint32_t cursor = 0, count = 0;
    struct hold_view view;
    while (core_next_hold(core, agent_clock(w, agent), &cursor, &view)) {
        report(w, agent, &view);
        check_found(w, agent, &view);
        count++;
    }
    if (count != core_stats(core)->locks_held)
        checker_fail(w, "C7 a%u counts %u holds and lists %u", agent, core_stats(core)->locks_held,
                     count);
    check_waiters(w, agent);
    check_requests(w, agent);
}

/* Without its key on `master` a quorum could grant another token. Who forgot it since is guarded,
 * and votes for nobody. */
static bool frees(struct world *w, uint8_t master, uint8_t key, const uint8_t random[RANDOM_BYTES])
{
    unsigned others = 0;
    for (uint8_t m = 0; m < w->options.masters; m++)
        others += m == master || !master_holds(w, m, key, random);
    return others >= world_quorum(w);
}

void checker_deleted(struct world *w, uint8_t master, const struct message *message,
                     const struct order *order, const uint8_t random[RANDOM_BYTES])
{
    struct hold *hold = checker_find(w, random);
    uint8_t key = order->key;
    int64_t sent_at = message->sent_at;
    /* R11: a small table forgets how many have a lost hold, and then the first of them ends it,
     * whether or not it waits for the answer. */
    bool is_shared_out = hold != NULL && (hold->owner != 0 || hold->owner_before != 0);
    if (is_shared_out && message->op == OP_RELEASE && may_have_forgotten(w, message->agent)) {
        hold->ended = hold->ended || !hold->tenures[message->agent].is_held;
        return;
    }
    if (hold != NULL && hold->shared &&
        (!frees(w, master, key, random) || w->forgot_at >= hold->granted_at))
        return;
    if (hold != NULL && !hold->ended && hold->window_until > w->now && sent_at >= hold->window_from)
        checker_fail(w, "C10 k%u %02x%02x was deleted on m%u with %lld us of its validity left",
                     key, random[0], random[1], master, (long long)(hold->window_until - w->now));
}

void checker_promised(struct world *w, uint8_t agent, uint8_t key, struct instant valid_until)
{
    struct instant now = agent_clock(w, agent);
    if (!instant_before(now, valid_until))
        checker_fail(w, "C5 a%u promises k%u %lld us after its validity", agent, key,
                     (long long)instant_us_between(valid_until, now));
}

/* ---- C8: what failed and ended attempts leave behind ----------------------------------------- */

/* R7: while its agent was away it may have been released. What the process before had sent may
 * still arrive. */
void checker_repaired(struct world *w, uint8_t master, const struct message *message,
                      const struct order *order)
{
    struct hold *hold = checker_find(w, order->token.random);
    bool of_this_process = message->incarnation == w->agents[message->agent].incarnation;
    if (hold != NULL && hold->ended && (!hold->released || message->sent_at < hold->released_at))
        hold->crossed = true;
    if (hold != NULL && hold->doubtful && hold->agent == message->agent && of_this_process)
        checker_fail(
            w, "C8 k%u was created on m%u for a hold out of a journal that no quorum has confirmed",
            order->key, master);
}

void checker_renews(struct world *w, const struct order *order)
{
    struct hold *hold = checker_find(w, order->token.random);
    if (hold == NULL || hold->renewal == order->ref.round)
        return;
    hold->renewal = order->ref.round;
    hold->renewal_at = w->now;
}

void checker_orphan(struct world *w, uint8_t key, const uint8_t random[RANDOM_BYTES])
{
    const struct hold *hold = checker_find(w, random);
    if (hold != NULL && (!hold->given_up || hold->shared))
        return;
    if (options_kind(&w->options, key).rw && is_intruded(w))
        return; /* perhaps beside the entry that an adoption has renamed (R17) */
    for (uint8_t m = 0; m < w->options.masters; m++)
        /* that one is asked again (R12) */
        if (master_holds(w, m, key, random) && !w->masters[m].keys[key].planted)
            checker_fail(w, "C8 %s on k%u left its key on m%u",
                         hold == NULL ? "a failed attempt" : "a release", key, m);
}

/* An agent that lives on still owes what it undid or released in the faulty phase. What a command
 * of a dead connection set behind the release's back stays for its ttl (R5), and the debt ends with
 * the lease (R6). */
static void check_unpaid(struct world *w, uint8_t m, uint8_t key,
                         const uint8_t random[RANDOM_BYTES])
{
    const struct master_key *state = &w->masters[m].keys[key];
    const struct agent *agent = &w->agents[state->set_by];
    if (state->stray || agent->dropped_debt || agent->stalled ||
        agent->incarnation != state->set_by_incarnation || w->now >= state->lease_until)
        return;
    const struct hold *hold = checker_find(w, random);
    bool under_way = memcmp(agent->attempt[key], random, RANDOM_BYTES) == 0;
    bool gave_up = hold != NULL && hold->given_up && !hold->shared &&
                   hold->agent == state->set_by && hold->incarnation == agent->incarnation;
    if (gave_up || (hold == NULL && !under_way))
        checker_fail(w, "C8 a%u still owes the release of k%u %02x%02x on m%u", state->set_by, key,
                     random[0], random[1], m);
}

void checker_settled(struct world *w)
{
    uint8_t random[RANDOM_BYTES];
    for (uint8_t m = 0; m < w->options.masters; m++)
        for (uint8_t key = 0; key < options_places(&w->options); key++) {
            if (options_kind(&w->options, key).rw)
                continue; /* it has many authors: what they leave is looked for after each */
            for (unsigned i = 0; master_holder(w, m, key, i, random); i++)
                check_unpaid(w, m, key, random);
        }
}

/* ---- C3: the register ------------------------------------------------------------------------ */

static void register_read(struct world *w, struct hold *hold)
{
    uint64_t *highest =
        hold->mode == MODE_READ ? &w->registers[hold->key].read : &w->registers[hold->key].token;
    if (hold->token.fence > *highest)
        *highest = hold->token.fence;
    hold->version_seen = w->registers[hold->key].version;
}

void checker_store(struct world *w, struct hold *hold)
{
    w->figures.writes++;
    if (hold->guessed_below)
        return;
    /* R19: a write that came too late would change what a reader of its number sees; a reader that
     * did sees more than it may */
    bool is_late = hold->token.fence < w->registers[hold->key].token ||
                   (hold->mode == MODE_WRITE && hold->token.fence <= w->registers[hold->key].read);
    if (is_late && !w->switches.register_accepts_all) {
        w->figures.writes_rejected++;
        if (!hold->came_back && !hold->ended && hold->window_until > w->now && hold->shaken_us == 0)
            checker_fail(w, "C3 k%u: the register rejects its living holder", hold->key);
        return;
    }
    if (w->registers[hold->key].version != hold->version_seen)
        checker_fail(
            w, "%s k%u: a write of %02x%02x is lost, one with number %llu saw version %u of %u",
            hold->mode == MODE_READ ? "C16" : "C3", hold->key, hold->token.random[0],
            hold->token.random[1], (unsigned long long)hold->token.fence, hold->version_seen,
            w->registers[hold->key].version);
    if (hold->mode == MODE_READ)
        return;
    hold->version_seen = ++w->registers[hold->key].version;
    w->registers[hold->key].token = hold->token.fence;
}

/* Its holder reads now, and writes once soon and once perhaps after its lease, as a paused
 * application does. */
static void register_open(struct world *w, struct hold *hold)
{
    if (!w->options.fencing)
        return;
    register_read(w, hold);
    world_plan_in(w, prng_between(&w->prng, 10, 50000),
                  (struct happening){.kind = HAPPEN_STORE, .what = hold});
    world_plan_in(w, prng_between(&w->prng, 10, 2000 * (int64_t)w->options.ttl_ms_max),
                  (struct happening){.kind = HAPPEN_STORE, .what = hold});
}

void checker_end(struct world *w)
{
    for (uint8_t m = 0; m < w->options.masters; m++)
        for (uint8_t key = 0; key < options_places(&w->options); key++)
            if (master_is_locked(w, m, key))
                checker_fail(w, "C6 k%u is still locked on m%u, and nobody holds it", key, m);
    for (uint8_t a = 0; a < w->options.agents; a++) {
        const struct core *core = w->agents[a].core;
        const struct core_stats *stats = core_stats(core);
        uint32_t debt = 0;
        for (uint8_t g = 0; g < w->options.groups; g++)
            for (uint8_t m = 0; m < w->options.masters; m++)
                debt += stats->debt[g][m];
        if (stats->locks_held != 0 || stats->waiters != 0 || stats->requests != 0 || debt != 0 ||
            core_owes_quorum(core))
            checker_fail(
                w,
                "C7 a%u does not come to rest: %u held, %u waiters, %u requests, %u releases owed",
                a, stats->locks_held, stats->waiters, stats->requests, debt);
    }
}
