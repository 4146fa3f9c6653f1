/* Answers to requests: one for each, of its kind and in its time, and true (C2, C4, C7, C12). */
#include "checker.h"

/* ---- C7: answers ----------------------------------------------------------------------------- */

static bool is_fitting(const struct world *w, uint8_t agent, const struct request *request,
                       enum answer answer)
{
#define IS(name) (1u << ANSWER_##name)
    uint32_t fitting;
    struct key_kind kind = options_kind(&w->options, request->key);
    /* R16: for an acquire, and for a lock that this agent does not hold */
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
    /* D3.4: the round in flight, one of its own, and one that adopts the hold back. */
    bool may_move = w->switches.roaming || (request->hold != NULL && request->hold->adopted);
    int64_t most_ms = request->kind == EVENT_ACQUIRE ? 2 * (int64_t)o->node_timeout_ms
                      : request->kind == EVENT_RENEW ? (may_move ? 3 : 2) * renewal_ms
                                                     : round_ms;
    if (request->kind == EVENT_RELEASE && most_ms < RELEASE_MS_MAX)
        most_ms = RELEASE_MS_MAX; /* R3 */
    if (request->kind == EVENT_ACQUIRE && request->wait_ms > most_ms)
        most_ms = request->wait_ms;
    else if (request->kind == EVENT_ACQUIRE && w->switches.few_rounds)
        most_ms = ADMISSION_MS_MAX; /* R16 */
    else if (request->kind == EVENT_ACQUIRE && request->wait_ms == 0)
        /* a caller with one attempt waits behind those of this agent that try now */
        most_ms *= o->callers;
    bool is_guest = request->kind == EVENT_RENEW || request->kind == EVENT_READ;
    if (is_guest && w->switches.few_rounds)
        most_ms += ADMISSION_MS_MAX; /* R16 */
    if (clocks_may_void(w, agent, request->asked_at))
        most_ms *= 2; /* R14: an operation in flight when a gain is noticed is asked again */
    int64_t took_us = w->now - request->asked_at;
    if (w->agents[agent].stalled_last < request->asked_at && took_us > most_ms * 1050 + SLACK_US)
        checker_fail(w, "C7 a%u answered %s after %lld us, %lld ms were allowed", agent,
                     answer_code(answer), (long long)took_us, (long long)most_ms);
}

/* R9, and a drain: Checks that the caller may be granted the key now. */
static void check_turn(struct world *w, uint8_t agent, const struct request *request)
{
    const struct agent *at = &w->agents[agent];
    struct key_kind kind = options_kind(&w->options, request->key);
    bool has_order = request->wait_ms > 0 && kind.permits == 1; /* R20: rounds overtake */
    if (at->draining && request->arrived > at->drained_from)
        checker_fail(w, "C7 a%u drains, and granted k%u to a request that came later", agent,
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

/* R6: Returns true if the agent's bounded table may have dropped ended entries to make room. That
 * happens if the table is small. It also happens if many callers meet a master that is away, so
 * that its debts fill the table. */
bool answers_may_be_forgotten(const struct world *w, uint8_t agent)
{
    const struct agent *at = &w->agents[agent];
    bool is_small = w->options.locks_max < SIM_LOCKS && at->begun >= w->options.locks_max;
    return is_small || at->was_full;
}

/* R15: Checks that after a loss without a release no caller holds the key until lock_delay after
 * its validity. */
static void check_lock_delay(struct world *w, uint8_t key)
{
    struct hold *previous = w->granted_last[key];
    int64_t delay_us = (int64_t)w->options.lock_delay_ms * 980;
    /* If the table is full, the agent of a lost hold forgets it. A DELETE of one of several agents
     * that had it is then taken for the last. */
    if (previous != NULL && answers_may_be_forgotten(w, previous->agent))
        return;
    if (delay_us > 0 && previous != NULL && !previous->ended && !unlocked_frees(w, previous) &&
        previous->mode == MODE_WRITE && w->now < previous->window_until + delay_us)
        checker_fail(
            w, "C1 k%u is granted %lld us after the last validity, and the lock_delay is %u ms",
            key, (long long)(w->now - previous->window_until), w->options.lock_delay_ms);
}

/* D3: a request whose lock was released by DELETE, or lost before a restart of its agent, is over,
 * and a copy of it gets nothing. */
static void check_copy(struct world *w, uint8_t agent, const struct request *request)
{
    bool remembers = w->options.locks_max == SIM_LOCKS && !answers_may_be_forgotten(w, agent);
    if (request->after_loss && remembers)
        checker_fail(w, "C7 a%u granted k%u to a copy of a request whose lock was lost", agent,
                     request->key);
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

/* Returns true if the hold's agent may have repaired the key before it learned of the release (R7).
 * That is possible if a master forgot the key, or may have, or its guard ended. */
bool answers_may_be_undone(const struct world *w, const struct hold *hold)
{
    return w->switches.broken != ASSUME_ALL || hold->crossed ||
           w->forgot_at >= hold->released_from || w->epoch_at >= hold->released_from;
}

bool answers_came_after_release(const struct hold *hold, const struct request *request)
{
    return hold->released && request->arrived > hold->released_after;
}

/* C12: Checks that a released token is not valid for a request that came later, at any agent. */
static void check_had_still(struct world *w, uint8_t agent, const struct request *request,
                            const struct hold *hold)
{
    if (answers_came_after_release(hold, request) && !answers_may_be_undone(w, hold))
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
    hold_report(w, agent, &answer->hold);
}

/* D3: Checks that a request is not refused because of its own lock. */
static void check_refused(struct world *w, uint8_t agent, const struct request *request)
{
    const struct hold *held = w->agents[agent].held[request->key];
    for (; held != NULL; held = held->tenures[agent].next)
        if (request->secret != 0 && held->secret == request->secret && !held->given_up)
            checker_fail(w, "C7 a%u refuses k%u to the request that has it", agent, request->key);
}

/* R19: only a caller that reads the key would wait for itself. */
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

static void lower_to(uint64_t *number, uint64_t limit)
{
    if (*number > limit)
        *number = limit;
}

/* A6: If clocks are set back, numbers that were granted before a guess may come again if they are
 * above it. Numbers that are granted after it rise, and are above the floor. So a larger number is
 * remembered as one that was above the floor, and a register still refuses numbers up to it. */
void checker_guessed(struct world *w, uint64_t floor)
{
    if (!w->options.steps_clocks)
        return;
    for (uint8_t place = 0; place < SIM_KEYS; place++) {
        lower_to(&w->fence_last[place], floor);
        lower_to(&w->written_last[place], floor);
        lower_to(&w->registers[place].read, floor);
        /* A register refuses numbers below the last write's: the floor itself, too. */
        lower_to(&w->registers[place].token, floor + 1);
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

static void check_granted(struct world *w, uint8_t agent, struct request *request,
                          const struct effect_answer *answer)
{
    const struct token *token = &answer->hold.token;
    if (checker_find(w, token->random) != NULL) {
        checker_fail(w, "C4 a%u granted the same token twice", agent);
        return;
    }
    uint8_t permits = options_kind(&w->options, request->key).permits;
    bool has_slot = permits > 1;
    if (token->has_slot != has_slot || (has_slot && token->slot >= permits)) {
        checker_fail(w, "C15 a%u granted slot %u of k%u", agent, token->slot, request->key);
        return;
    }
    uint8_t place = options_place(&w->options, request->key, token->slot);
    struct hold *hold = hold_new(w, agent, place, token);
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
    hold_begin_tenure(w, agent, hold, answer);
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
    if (!has_slot)
        wakes_granted(w, agent, place);
    register_open(w, hold);
    hold_report(w, agent, &answer->hold);
}

/* D3: Checks by the number that no other caller was granted the lock in between. */
static void check_adopted(struct world *w, uint8_t agent, const struct request *request,
                          const struct effect_answer *answer)
{
    struct hold *hold = request->hold;
    bool proves = w->options.fencing && !options_kind(&w->options, hold->key).redisson; /* R22 */
    if (answer->continuous != proves)
        checker_fail(w, "C9 a%u adopted k%u, continuous %d", agent, hold->key, answer->continuous);
    /* By its holder, which asked for this at the same time, or by an operator meanwhile (R25). */
    bool is_released = hold->ended || ((hold->released || unlocked_frees(w, hold)) &&
                                       !answers_came_after_release(hold, request));
    bool is_excused =
        is_released || hold->came_back || clocks_are_behind(w, agent, request->asked_at);
    uint64_t last = hold->mode == MODE_READ ? w->written_last[hold->key] : w->fence_last[hold->key];
    bool is_last = hold->mode == MODE_READ ? hold->token.fence >= last : hold->token.fence == last;
    bool is_void = last == 0; /* A6 */
    if (w->options.fencing && !is_last && !is_excused && !is_void)
        checker_fail(w, "C2 a%u adopted k%u, which was granted to another in between", agent,
                     hold->key);
    hold->adopted = true;
    hold->agent = agent;
    hold->incarnation = w->agents[agent].incarnation;
    hold->doubtful = hold->bound = hold->lost_at_restart = false;
    hold_begin_tenure(w, agent, hold, answer);
    unlocked_renewed(w, agent, hold);
    hold->count = 1;
    hold->owner_before = hold->owner != 0 ? hold->owner : hold->owner_before;
    hold->secret_before = hold->secret != 0 ? hold->secret : hold->secret_before;
    hold->secret = hold->owner = 0;
    w->figures.adoptions++;
}

/* Checks that only a full table refuses a caller. A table that was full when the step began may
 * have room at its end. */
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

/* C5: Checks the hold that a GET shows. If too few masters answered to tell, it shows as confirmed
 * only the facts that they reported. */
static void check_shown(struct world *w, uint8_t agent, const struct request *request,
                        const struct effect_answer *answer)
{
    const struct hold *hold = checker_find(w, answer->hold.token.random);
    if (hold != NULL && answers_came_after_release(hold, request) &&
        !answers_may_be_undone(w, hold) &&
        (answer->hold.confirmed >= world_quorum(w) || answer->state == KEY_FREE))
        checker_fail(w, "C5 a%u shows a hold of k%u, %lld us after its release was answered", agent,
                     hold->key, (long long)(request->asked_at - hold->released_at));
    hold_report(w, agent, &answer->hold);
}

static void check_renewed(struct world *w, uint8_t agent, struct request *request,
                          const struct effect_answer *answer)
{
    struct hold *hold = request->hold;
    bool is_back = hold != NULL && hold->released && answers_may_be_undone(w, hold) &&
                   request->token.fence == hold->token.fence;
    if ((request->wrong && !is_back) || hold == NULL ||
        !token_same_random(&answer->hold.token, &request->token)) {
        checker_fail(w, "C4 a%u renewed k%u for a wrong token", agent, request->key);
        return;
    }
    check_had_still(w, agent, request, hold);
    if (is_back)
        checker_taken_up(w, hold, request);
    if (answer->adopted)
        check_adopted(w, agent, request, answer);
    if (request->hold->agent != agent)
        request->hold->count = 1; /* R11: it knows of one holder, whose release ends all shares */
    /* The agent may also have adopted back a hold that it had not missed yet. */
    request->hold->agent = agent;
    request->hold->incarnation = w->agents[agent].incarnation;
    hold_report(w, agent, &answer->hold);
}

/* D3.7: Notes that the holder has given it up. If its owner has it several times, the release may
 * only have counted down. */
static void release_is_answered(struct world *w, uint8_t agent, const struct request *request)
{
    struct hold *hold = request->hold;
    if (!hold->ended || hold->released || hold->tenures[agent].is_held)
        return;
    hold->released = true;
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
    /* R11: The agent cannot count down a hold for which its table has no room, only release it. */
    bool is_held = request->hold->tenures[agent].is_held;
    if (!is_held && answers_may_be_forgotten(w, agent))
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

/* C15: Checks that no slot was free from when the request was sent. A slot that was released
 * elsewhere and is valid here is not free (D3). A lease on a master whose clock was set back lasts
 * longer (A3). */
static void check_none_was_free(struct world *w, uint8_t agent, const struct request *request)
{
    const struct options *o = &w->options;
    uint8_t permits = options_kind(o, request->key).permits;
    int64_t began = request->asked_at;
    for (uint8_t slot = 0; slot < permits; slot++) {
        uint8_t place = options_place(o, request->key, slot);
        const struct hold *last = w->granted_last[place];
        bool is_free = w->agents[agent].stalled_last < began &&
                       w->agents[agent].held[place] == NULL &&
                       (last == NULL || last->window_until < began);
        for (uint8_t m = 0; m < o->masters; m++)
            is_free = is_free && w->busy_until[place][m] + w->set_back_us < began;
        if (is_free)
            checker_fail(w, "C15 a%u refuses k%u, and its slot %u was free all the time", agent,
                         request->key, slot);
    }
}

/* C4, at any agent: Fails if a quorum of masters has had the token from when the request came until
 * its answer. The number that they store for the next grant does not matter, nor does the token's
 * number on masters that were not needed. A key that a master forgot may have come back meanwhile.
 * A hold whose last reported validity has ended is being released, and a second DELETE may get the
 * answer of the first one. An agent that granted the lock after an unlock calls the unlocked hold
 * wrong (R25). An Idempotency-Key is known to its agent alone, and a full table forgets it. */
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
        (releases && answers_came_after_release(request->hold, request)) ||
        unlocked_frees(w, request->hold) ||
        (request->by_secret && answers_may_be_forgotten(w, agent)))
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
    if (request->expects_hold && !request->hold->ended && !unlocked_frees(w, request->hold) &&
        !answers_may_be_forgotten(w, agent) &&
        (answer->answer == ANSWER_TOKEN_MISMATCH || answer->answer == ANSWER_NOT_HELD))
        checker_fail(w, "C4 a%u answered %s to the holder of k%u", agent,
                     answer_code(answer->answer), request->key);
    check_called_wrong(w, agent, request, answer);
    labels_answered(w, agent, request, answer);
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
    case ANSWER_RENEW_FAILED: /* A hold released elsewhere may still look valid here. */
        if (request->hold == NULL || request->token.fence != request->hold->token.fence)
            checker_fail(w, "C4 a%u took a wrong token for k%u's", agent, request->key);
        else
            hold_report(w, agent, &answer->hold);
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
