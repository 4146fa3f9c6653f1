/* The promises of D1 and D4, checked at the seams from the outside, after every step.
 *
 *   C1  At most one holder per key inside the validity windows that agents report. Every report
 *       opens or extends a window [now, valid_until on the agent's clock) in real time, and two
 *       open windows of a key are a violation. A token is one hold, also if its holder went to
 *       several agents: its window lasts until the latest end that any of them has reported (D3).
 *   C2  The fencing numbers of a key's grants rise strictly, in the order of the grants, and an
 *       adopted number is the last one that was granted (R12).
 *   C3  A register that refuses smaller numbers never loses a write. Each holder reads it when it
 *       is granted and writes later, also long after its lease. A write that is accepted must be
 *       based on the write before it.
 *   C4  No wrong token ever succeeds, and no right one is called wrong (R10). Each request knows
 *       whether its token is right.
 *   C5  Nothing is promised or listed as held after its validity or its loss. `lost` is reported in
 *       time, at the latest in the first step after the end (R7, R14): the agents' lists are read
 *       after every step. No hold is listed with more confirmed masters than have its key, or
 *       than are up.
 *   C6  In a healed world a waiter wins within ttl + guard + back-off + 3 round trips, and no key
 *       is left ttl + 1 s after the last holder.
 *   C7  Every request gets exactly one answer, of its kind and in its time, and no grant after a
 *       cancel. A copy of a request whose lock was released, or lost before a restart, gets no
 *       other lock (D3.5). Tables are bounded, their counts are right, and all comes to rest.
 *   C8  No key of a failed or ended attempt is on a reachable master 3 round trips later (R5, R6).
 *       The masters are asked after each such attempt of the healed phase, and for those of the
 *       faulty phase once all masters are reachable again.
 *   C9  A hold's number, its max_hold and its validity are never taken back (R7): each report is
 *       compared with the one before it.
 *   C10 No key is deleted inside a validity that was reported, but by its holder's wish: the
 *       masters report each deletion. So no living hold is called taken. If the holder went to
 *       several agents, an earlier one may delete keys that still bear its own name, as long as no
 *       quorum is free by that (D3).
 *   C11 The waiters of one agent get the key in the order in which they came (R9). With order fair
 *       so do those of all agents, in a healed world (turns.c). Without it agents take turns
 *       (wakes.c).
 *   C12 With masters away one at a time no hold is lost that a quorum could carry at every moment;
 *       and no renewal that begins after a release was answered, at any agent, succeeds (R7).
 *   C13 No key waits while a round may begin, and rounds begin in the order in which keys needed
 *       them (line.c).
 *   C14 No reader's window meets a writer's (R17). In a healed world neither mode waits for longer
 *       than the earlier waiters need, one after another (R18).
 *   C15 Of a semaphore never more are held than it has permits, each in a slot of its own. A call
 *       without wait is refused only if no slot was free all the time (R20).
 *   C16 A read's number is at least that of each write before it and below each later one's (R19).
 *       The register of C3 shows a reader the same for as long as it takes its number.
 *   C17 Each key that a single master's agents promise is on as many replicas as are asked for,
 *       until the end of the promise. For max_ttl after one of them was promoted nothing is granted
 *       except a hand-over by its holder (R21).
 *   C18 Beside Java an agent stores one holder, counted once, with its mode and an end, and changes
 *       nothing that Java has stored (R22).
 *   C19 The numbers that an agent tells its followers of a mutex never fall. In a healed world they
 *       learn that the key is free (D3.8; followers.c).
 *   C20 A label that a PUT names comes to its own hold alone, and stays until the next one (D3.9;
 *       labels.c).
 *
 * Only the holder's wish ends a window early. If the agent has said `lost`, no other caller may
 * have the lock before the window is over. */
#include "checker.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { HEALED_SETTLED_US = 2500000 };

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
    static const char *const tags[] = {"",      "[A1] ", "[A2] ", "[A2] ",
                                       "[A3] ", "[A4] ", "[A1] ", "[A2] "};
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

/* A command of an old attempt, by a dead connection, took the key. The key remains for its ttl. */
static bool is_intruded(const struct world *w)
{
    return w->intruded_at >= 0 && w->now < w->intruded_at + 2000 * (int64_t)w->options.ttl_ms_max;
}

/* Another agent goes on with a hold of the key that was released here. It repairs the key on a
 * master that forgot it, perhaps before the grant was reported (R7). */
static bool is_forestalled(struct world *w, uint8_t agent, const struct hold *hold)
{
    int64_t written_at = hold->granted_at - 2000 * (int64_t)w->options.node_timeout_ms;
    bool is_repaired = false;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        struct hold *other = w->agents[a].held[hold->key];
        is_repaired = is_repaired ||
                      (a != agent && other != NULL && (other->ended || unlocked_frees(w, other)));
    }
    return w->forgot_at >= 0 && w->forgot_at >= written_at && is_repaired;
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void check_lost(struct world *w, uint8_t agent, uint8_t key,
                       const struct effect_trace *trace)
{
    struct agent *at = &w->agents[agent];
    struct hold *hold = hold_traced(w, agent, key, trace);
    enum reason reason = trace->reason;
    if (hold == NULL) {
        checker_fail(w, "C5 a%u lost k%u, which it did not hold", agent, key);
        return;
    }
    hold_drop(w, agent, hold);
    hold_left_owner(w, agent, hold);
    hold->tenures[agent].lost = true;
    w->figures.lost[reason]++;
    w->figures.losses++;
    struct instant now = agent_clock(w, agent);
    const struct tenure *tenure = &hold->tenures[agent];
    if (tenure->shaken.us > 0 && w->now < tenure->window_until) /* its caller is told (A1, A3) */
        hold_end_window(hold, agent, w->now);
    int64_t left_us = instant_us_between(now, hold->tenures[agent].valid_until);
    bool stalled = at->stalled_last >= agent_real_us(w, agent, hold->tenures[agent].valid_until) -
                                           (int64_t)w->options.ttl_ms_max * 200;
    /* If a master forgot its key, a hold that was released at another agent may be repaired first
     * (R7). */
    bool may_be_taken = (w->switches.broken != ASSUME_ALL && !w->switches.kept) ||
                        w->forgot_at >= hold->granted_at || hold->shared || clocks_shook(hold) ||
                        is_forestalled(w, agent, hold);
    if (reason_is_denial(reason) && !hold->ended && !unlocked_takes(w, hold, reason) &&
        !may_be_taken)
        checker_fail(w, "C10 k%u was taken from a%u with %lld us left", key, agent,
                     (long long)left_us);
    /* The ttl is the one of the last PUT, at any agent. */
    if (reason == REASON_QUORUM_LOST && !hold->shared &&
        left_us > lost_margin_ms(hold->ttl_ms, INT64_MAX) * 1000 + SLACK_US)
        checker_fail(w, "C5 a%u gave k%u up with %lld us left, which is more than the lost_margin",
                     agent, key, (long long)left_us);
    /* D3: If another agent was asked to go on with the hold, this agent loses it to that one. An
     * agent that is far from the masters reaches no quorum in time. A key that Java could not give
     * back takes a master away (R22). */
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
    struct hold *hold = hold_traced(w, agent, key, trace);
    const struct tenure *tenure = hold == NULL ? NULL : &hold->tenures[agent];
    if (hold == NULL || !hold->ended || hold->token.fence != trace->fence ||
        (tenure->lock_is_known && (tenure->lock.slot != trace->lock.slot ||
                                   tenure->lock.generation != trace->lock.generation)))
        return; /* it was of another token than the one that this agent holds */
    hold->given_up = true;
    /* Other callers may have the rest of a key that readers or slots leave. */
    struct key_kind kind = options_kind(&w->options, key);
    if (kind.permits == 1 && (!kind.rw || hold->mode == MODE_WRITE))
        wakes_released(w, agent, key);
    hold_drop(w, agent, hold);
    hold_left_owner(w, agent, hold);
    plan_orphan_check(w, agent, key, hold->token.random);
}

/* Checks a renewal after a release. If a master forgets its key, or may have, after the release was
 * asked for, or never confirmed the release, the key is repaired at once. The repair may come
 * before the agent learns of the release (R7). */
static void check_renewal(struct world *w, uint8_t agent, uint8_t key,
                          const struct effect_trace *trace)
{
    struct hold *hold = hold_traced(w, agent, key, trace);
    w->figures.renewals++;
    if (hold == NULL)
        return;
    hold->doubtful = false;
    clocks_renewed(w, agent, hold);
    unlocked_renewed(w, agent, hold);
    if (hold->released && hold->known && hold->renewal_at > hold->released_at &&
        !answers_may_be_undone(w, hold))
        checker_fail(w, "C12 a%u renewed k%u %lld us after its release was answered", agent, key,
                     (long long)(hold->renewal_at - hold->released_at));
}

void checker_trace(struct world *w, uint8_t agent, const struct effect_trace *trace)
{
    uint8_t key = trace->key.len > 0 ? world_place(w, trace->key, trace->slot) : 0;
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
        checker_fail(w, "C5 a%u lists a hold of %.*s, and does not find it", agent,
                     (int)listed->key.len, listed->key.at);
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
            checker_fail(w, "C7 a%u lists a waiter for %.*s that is still to come", agent,
                         (int)wait.key.len, wait.key.at);
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
    open += followers_count(w, agent);
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
        hold_report(w, agent, &view);
        check_found(w, agent, &view);
        count++;
    }
    if (count != core_stats(core)->locks_held)
        checker_fail(w, "C7 a%u counts %u holds and lists %u", agent, core_stats(core)->locks_held,
                     count);
    check_waiters(w, agent);
    check_requests(w, agent);
}

/* Returns true if without its key on `master` a quorum could grant another token. A master that
 * forgot it since is guarded and has no vote. */
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
    if (is_shared_out && message->op == OP_RELEASE && answers_may_be_forgotten(w, message->agent)) {
        hold->ended = hold->ended || !hold->tenures[message->agent].is_held;
        return;
    }
    if (hold != NULL && hold->shared &&
        (!frees(w, master, key, random) || w->forgot_at >= hold->granted_at))
        return;
    if (hold != NULL && !hold->ended && !unlocked_frees(w, hold) && hold->window_until > w->now &&
        sent_at >= hold->window_from && !clocks_excuse_all(w, hold))
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

/* R7: Notes a repair. The hold may have been released while its agent was away. Commands of the
 * process before may still arrive. */
void checker_repaired(struct world *w, uint8_t master, const struct message *message,
                      const struct order *order)
{
    struct hold *hold = checker_find(w, order->token.random);
    bool of_this_process = message->incarnation == w->agents[message->agent].incarnation;
    if (hold != NULL && master_has_tombstone(w, master, hold->key, hold->token.random))
        checker_fail(w, "C12 k%u was repaired on m%u, where it was unlocked", order->key, master);
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

/* Checks the debts of an agent that lives on. It still owes the releases of the faulty phase. A key
 * that a command of a dead connection set after the release stays for its ttl (R5). The debt ends
 * with the lease (R6). */
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
                continue; /* Such a key has many authors. Their leftovers are checked after each. */
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
    if (!w->options.fencing)
        return;
    w->figures.writes++;
    if (hold->guessed_below)
        return;
    /* R19: A late write would change the data that a reader of its number sees. A reader that sees
     * it sees more than it may. */
    bool is_late = hold->token.fence < w->registers[hold->key].token ||
                   (hold->mode == MODE_WRITE && hold->token.fence <= w->registers[hold->key].read);
    if (is_late && !w->switches.register_accepts_all) {
        w->figures.writes_rejected++;
        if (!hold->came_back && !hold->ended && !unlocked_frees(w, hold) &&
            hold->window_until > w->now && !clocks_shook(hold))
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
void register_open(struct world *w, struct hold *hold)
{
    if (!w->options.fencing)
        return;
    register_read(w, hold);
    world_plan_in(w, prng_between(&w->writes, 10, 50000),
                  (struct happening){.kind = HAPPEN_STORE, .what = hold});
    world_plan_in(w, prng_between(&w->writes, 10, 2000 * (int64_t)w->options.ttl_ms_max),
                  (struct happening){.kind = HAPPEN_STORE, .what = hold});
}

void checker_end(struct world *w)
{
    for (uint8_t m = 0; m < w->options.masters; m++)
        for (uint8_t key = 0; key < options_places(&w->options); key++) {
            master_end_set_back(w, m, key);
            if (master_is_locked(w, m, key))
                checker_fail(w, "C6 k%u is still locked on m%u, and nobody holds it", key, m);
        }
    for (uint8_t a = 0; a < w->options.agents; a++) {
        const struct core *core = w->agents[a].core;
        const struct core_stats *stats = core_stats(core);
        uint32_t debt = 0;
        for (uint8_t g = 0; g < w->options.groups; g++)
            for (uint8_t m = 0; m < w->options.masters; m++)
                debt += stats->debt[g][m];
        if (stats->locks_held != 0 || stats->waiters != 0 ||
            stats->requests != followers_count(w, a) || debt != 0 || core_owes_quorum(core))
            checker_fail(
                w,
                "C7 a%u does not come to rest: %u held, %u waiters, %u requests, %u releases owed",
                a, stats->locks_held, stats->waiters, stats->requests, debt);
    }
}
