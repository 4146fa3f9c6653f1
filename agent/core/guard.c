/* The guard of a group's masters (D5.3): a master that forgot leases and numbers votes on new locks
 * again when everything that it forgot has run out, and when it has been told the numbers.
 *
 * Each master has a marker, whose fields marker.lua describes. An agent begins an epoch on a master
 * without one. The guard of that master lasts for max_ttl and 1 s. Then it waits to be told:
 *
 *   no marker, or   --question-->  guard runs  --max_ttl + 1 s-->  waits  --TELL-->  votes
 *   of another run                                                  |                  ^
 *                                                                   +--- 10 s: guess --+
 *
 * N masters, quorum Q. W = N - Q + 1 masters meet every quorum: they are enough witnesses. A master
 * remembers if it has not forgotten, or has been told since.
 *   1. An agent that reads "guard over, not told, epoch e" asks all other masters for their markers
 *      after that. An answer to an earlier question does not count: a number may have been granted
 *      since, by a vote that the master gave before it forgot.
 *   2. When W others that remember have answered, the agent tells: epoch e, the largest top, the
 *      largest max_ttl. The script does nothing if the epoch has changed, or if the guard is not
 *      over with that max_ttl: then the master is told once more.
 *   3. If fewer than W others remember, the agent guesses: at once if all others have just
 *      answered, otherwise GUESS_MS after it read that the guard is over. It tells the largest of
 *      its clock and the numbers that it knows. The marker keeps that it was a guess (A6).
 *
 * Why numbers rise: let n be answered to a caller. A quorum stored n, and each of it has top >= n.
 * Let L be the masters that remember with a smaller top: at most N - Q. L never grows: a master
 * that is told has W > N - Q witnesses, and one of them is not in L. A later grant needs Q masters
 * that remember; one is not in L, and has n stored or floor >= n. The longest lease is told in the
 * same way, because an agent names its own on a master before it asks there for a lock.
 *
 * Invariants
 *   1. The marker's script has run on a connection before an agent asks there for a lock. The vote
 *      of an acquire is compared with the script's answer: a vote of other data, of another run or
 *      of another epoch does not count.
 *   2. A master that has not been told is no witness. A master with numbers that were never granted
 *      (`spoiled`) neither votes nor is a witness, nor does the second of two with one epoch.
 *   3. An agent names its own max_ttl to masters that vote, and the largest that it knows to the
 *      others. If it repeated each one that it read, two masters would keep a mistaken one alive.
 *
 * Phases of a master: AWAY -greets-> GREETING -ready-> READY, and to AWAY from each.
 *
 * Timers: a READY master is asked for its marker every PROBE_MS. So an agent with a longer max_ttl
 * is noticed before the shortest guard ends. A master that waits to be told, or is a copy, is asked
 * every GUARD_TICK_MS. Those of an idle group are asked every IDLE_PROBE_MS while all vote and have
 * noted the layout. There a question precedes the next command if PROBE_MS are over. */
#include "register.h"

#include <string.h>

#include "core_assert.h"

/* ---- knowledge of the masters ---- */

enum {
    PROBE_MS = 900,
    IDLE_PROBE_MS = 4900, /* The longest time between two questions. */
    IDLE_AFTER_MS = 5000, /* A group is idle so long after the last command at the earliest. */
    GUESS_MS = 10 * 1000,
};
static_assert(PROBE_MS + GUARD_TICK_MS < TTL_MS_MIN_AGENT + 1000,
              "the shortest guard must not end between two probes");
static_assert(IDLE_PROBE_MS + 2 * GUARD_TICK_MS + 500 < REGISTER_QUESTION_MS_MAX,
              "the last answer must count until the next one comes");

static bool guard_same_word(const char *a, const char *b)
{
    size_t len = strlen(a);
    return len == strlen(b) && memcmp(a, b, len) == 0;
}

/* ---- for the protocol ---- */

/* Returns true if a master before it has the same epoch: the data of one is that of the other. One
 * of them forgot by that. It is not known which, so the two count as one master until this one has
 * begun a new epoch. */
static bool guard_is_copy(const struct guard *guard, uint8_t index)
{
    const struct guard_master *master = &guard->masters[index];
    for (uint8_t i = 0; i < index && master->seen && !MUTANT(GUARD_COPIES_VOTE); i++)
        if (guard->masters[i].seen &&
            guard_same_word(guard->masters[i].last.epoch, master->last.epoch))
            return true;
    return false;
}

static bool guard_votes_now(const struct guard *guard, uint8_t index)
{
    const struct guard_master *master = &guard->masters[index];
    return master->seen && *master->last.vote && !guard_is_copy(guard, index);
}

/* Returns true if it has not forgotten, or has been told since: it can be a witness. */
static bool guard_remembers(const struct guard *guard, uint8_t index)
{
    const struct guard_master *master = &guard->masters[index];
    return master->seen && !master->last.spoiled && !guard_is_copy(guard, index) &&
           (master->last.told != GUARD_NOT_TOLD || MUTANT(GUARD_UNTOLD_WITNESS));
}

/* Returns true if its guard is over and it has not been told. */
static bool guard_waits(const struct guard_master *master)
{
    return master->seen && !master->last.spoiled && master->last.told == GUARD_NOT_TOLD &&
           master->last.left_ms == 0;
}

/* Returns true if it answered a question that was asked after the agent read that `waiting`
 * waits. */
static bool guard_answered_since(const struct guard_master *master,
                                 const struct guard_master *waiting)
{
    CORE_ASSERT(waiting->waits_from != 0);
    return master->seen &&
           (master->answered_number >= waiting->waits_from || MUTANT(GUARD_EARLIER_ANSWERS_COUNT));
}

static bool is_noted(const struct guard *guard, const struct guard_master *master,
                     struct instant now)
{
    return guard->layouts.text.len == 0 || register_is_noted(master, now) ||
           MUTANT(GUARD_GATE_NOT_LOOKED_AT) ||
           (MUTANT(GUARD_DISAGREES_ONE_MASTER) && !master->disagrees);
}

/* ---- for the caller ---- */

enum guard_state guard_state(const struct guard *guard, uint8_t index, struct instant now)
{
    CORE_ASSERT(index < guard->master_count);
    const struct guard_master *master = &guard->masters[index];
    if (master->phase != GUARD_MASTER_READY)
        return GUARD_VOTES;
    if (master->unsure)
        return GUARD_UNSURE;
    if (!master->seen || guard_is_copy(guard, index))
        return GUARD_MISSING;
    if (guard_votes_now(guard, index))
        return is_noted(guard, master, now) || guard_gate(guard, now) != GUARD_OPEN ? GUARD_VOTES
                                                                                    : GUARD_UNNOTED;
    if (master->last.spoiled)
        return GUARD_SPOILED;
    return instant_before(now, master->until) ? GUARD_RUNS : GUARD_WAITS;
}

int64_t guard_left_ms(const struct guard *guard, uint8_t index, struct instant now)
{
    CORE_ASSERT(index < guard->master_count);
    enum guard_state state = guard_state(guard, index, now);
    if (state == GUARD_VOTES)
        return 0;
    if (state != GUARD_RUNS)
        return -1;
    return (instant_us_between(now, guard->masters[index].until) + 999) / 1000;
}

const char *guard_known_vote(const struct guard *guard, uint8_t index)
{
    return guard_votes_now(guard, index) ? guard->masters[index].last.vote : "";
}

const char *guard_vote(const struct guard *guard, uint8_t index, struct instant now)
{
    CORE_ASSERT(index < guard->master_count);
    const struct guard_master *master = &guard->masters[index];
    return is_noted(guard, master, now) && guard_gate(guard, now) == GUARD_OPEN
               ? guard_known_vote(guard, index)
               : "";
}

uint64_t guard_top(const struct guard *guard, uint8_t index)
{
    CORE_ASSERT(index < guard->master_count);
    return guard->masters[index].seen ? guard->masters[index].last.top : 0;
}

uint64_t guard_floor(const struct guard *guard)
{
    return guard->floor;
}

enum guard_told guard_told(const struct guard *guard, uint8_t index)
{
    CORE_ASSERT(index < guard->master_count);
    return guard->masters[index].seen ? guard->masters[index].last.told : GUARD_NOT_TOLD;
}

bool guard_is_new(const struct guard *guard)
{
    for (unsigned i = 0; i < guard->master_count; i++) {
        const struct guard_master *master = &guard->masters[i];
        /* Each master that was told has a floor, and keeps it in a new epoch. */
        if (master->phase != GUARD_MASTER_READY || !master->seen || master->last.floor != 0)
            return false;
    }
    return true;
}

/* ---- the protocol ---- */

#define TOP_AHEAD_US UINT64_C(2000000) /* A lift reaches this far above the number. */

static void take_word(char into[GUARD_WORD_BYTES], const char *word)
{
    CORE_ASSERT(strlen(word) < GUARD_WORD_BYTES);
    memcpy(into, word, strlen(word) + 1);
}

static master_set bit(uint8_t index)
{
    CORE_ASSERT(index < LIMIT_MASTERS);
    return (master_set)(1u << index);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- asking ---- */

/* Returns the max_ttl to name. A lease longer than the agent's own is named only to masters that do
 * not vote, as the agent has read: their guard must take it into account. A greeting names the
 * agent's own. Otherwise agents that come and go would keep a mistaken max_ttl alive, each by the
 * one that it read on the masters before. */
static uint32_t named_ttl_ms(const struct guard *guard, uint8_t index)
{
    const struct guard_master *asked = &guard->masters[index];
    uint32_t longest_ms = guard->max_ttl_ms;
    if ((!asked->seen && !MUTANT(GUARD_MAX_TTL_GREETED)) ||
        (guard_votes_now(guard, index) && !MUTANT(GUARD_MAX_TTL_REPEATED)) ||
        MUTANT(GUARD_MAX_TTL_FORGOTTEN))
        return longest_ms;
    for (uint8_t i = 0; i < guard->master_count; i++)
        if (guard->masters[i].seen && guard->masters[i].last.max_ttl_ms > longest_ms)
            longest_ms = guard->masters[i].last.max_ttl_ms;
    return longest_ms;
}

/* Adds the epochs of the other masters. A master with the epoch of another one is a copy of it. If
 * the epochs of two were never seen to differ, the first continues. If both were told of each
 * other, both would begin a new epoch. */
static void add_others(const struct guard *guard, struct guard_ask *ask)
{
    const char *own = guard->masters[ask->master].last.epoch;
    size_t len = 0;
    for (uint8_t i = 0; i < guard->master_count && !MUTANT(GUARD_COPY_UNNOTICED); i++) {
        const char *epoch = guard->masters[i].last.epoch;
        size_t epoch_len = strlen(epoch);
        bool goes_on =
            i > ask->master && (!*own || guard_same_word(own, epoch)) && !MUTANT(GUARD_BOTH_COPIES);
        if (i == ask->master || !guard->masters[i].seen || goes_on ||
            len + epoch_len + 1 >= sizeof(ask->others))
            continue;
        memcpy(ask->others + len, epoch, epoch_len);
        len += epoch_len;
        ask->others[len++] = ' ';
    }
    ask->others[len] = '\0';
}

static struct guard_ask *put_ask(struct guard *guard, uint8_t index, enum guard_question question,
                                 struct instant now, struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    CORE_ASSERT(!master->asked && effects->ask_count < LIMIT_MASTERS);
    CORE_ASSERT(master->phase != GUARD_MASTER_AWAY);
    struct guard_ask *ask = &effects->asks[effects->ask_count++];
    *ask = (struct guard_ask){.master = index,
                              .question = question,
                              .max_ttl_ms = named_ttl_ms(guard, index),
                              .lift = master->numbered,
                              .has_replicas = guard->has_replicas};
    add_others(guard, ask);
    register_ask(guard, now, ask);
    master->numbered = 0;
    master->meets = false;
    master->told = guard->layouts.neighbour_count;
    master->asked = true;
    master->asked_at = now;
    master->asked_number = ++guard->questions;
    return ask;
}

static enum guard_question plain_question(const struct guard *guard,
                                          const struct guard_master *master, bool same_connection)
{
    bool unsure = master->unsure && !MUTANT(GUARD_UNSURE_FORGOTTEN);
    bool compares = master->knows_run || !same_connection || unsure;
    if (guard->durable || MUTANT(GUARD_RUN_IGNORED))
        return GUARD_ASK_KEEP;
    return compares ? GUARD_ASK_RESTART : GUARD_ASK_KEEP;
}

static bool can_be_asked(const struct guard_master *master)
{
    return master->phase == GUARD_MASTER_READY && !master->asked;
}

static void look(struct guard *guard, uint8_t index, struct instant now,
                 struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    CORE_ASSERT(can_be_asked(master));
    put_ask(guard, index, plain_question(guard, master, /* same_connection= */ true), now, effects);
}

/* ---- telling ---- */

struct witnesses {
    uint8_t answered, remember;
    uint64_t top;
};

/* Returns true if the answer is too old for a guess: an agent that was stopped for long may have
 * newer answers that it has not read yet. */
static bool is_of_long_ago(struct instant asked_at, struct instant now)
{
    return instant_before(instant_after_ms(asked_at, 2 * PROBE_MS), now) &&
           !MUTANT(GUARD_GUESS_OF_LONG_AGO);
}

static struct witnesses witnesses_of(const struct guard *guard, uint8_t index, struct instant now)
{
    struct witnesses found = {.top = 0};
    for (uint8_t i = 0; i < guard->master_count; i++) {
        const struct guard_master *other = &guard->masters[i];
        if (i == index || !guard_answered_since(other, &guard->masters[index]))
            continue;
        if (!other->last.spoiled && !is_of_long_ago(other->answered_asked_at, now))
            found.answered++;
        found.remember += guard_remembers(guard, i);
        if (!other->last.spoiled)
            found.top = larger(found.top, other->last.top);
    }
    return found;
}

static void tell(struct guard *guard, uint8_t index, enum guard_told told, uint64_t top,
                 struct instant now, struct guard_effects *effects)
{
    struct guard_ask *ask = put_ask(guard, index, GUARD_ASK_TELL, now, effects);
    guard->masters[index].told_at = now;
    take_word(ask->epoch, guard->masters[index].last.epoch);
    ask->told = (uint8_t)told;
    ask->top = top;
}

/* Returns true if a READY master has not given its present state: its answer is not read yet, or it
 * was not asked. A master that was asked and has not answered does not delay a guess. */
static bool is_yet_to_say(const struct guard *guard, uint8_t index, struct instant now)
{
    for (uint8_t i = 0; i < guard->master_count; i++) {
        const struct guard_master *other = &guard->masters[i];
        if (i != index && other->phase == GUARD_MASTER_READY &&
            (other->asked || other->asked_number < guard->masters[index].waits_from ||
             is_of_long_ago(other->asked_at, now)))
            return true;
    }
    return false;
}

uint8_t guard_witnesses_needed(uint8_t witnesses, uint8_t masters, bool has_neighbours)
{
    uint8_t all = masters > 3 ? (uint8_t)(masters - 1) : 2;
    return has_neighbours && all > witnesses ? all : witnesses;
}

static uint8_t witnesses_needed(const struct guard *guard)
{
    bool has_neighbours = false;
    for (uint8_t i = 0; i < guard->master_count; i++)
        has_neighbours |= guard->masters[i].at_work > (uint64_t)guard->masters[i].noted;
    return guard_witnesses_needed(guard->witnesses, guard->master_count, has_neighbours);
}

/* Tells a master that waits, if that is possible now. */
static void tell_or_guess(struct guard *guard, uint8_t index, struct instant now, int64_t wall_us,
                          struct guard_effects *effects)
{
    const struct guard_master *master = &guard->masters[index];
    struct witnesses found = witnesses_of(guard, index, now);
    uint8_t needed = witnesses_needed(guard);
    if (MUTANT(GUARD_WITNESS_SHORT) && needed > 1)
        needed--;
    /* No agent can tell it: the others that forgot have no more witnesses than this one. */
    bool is_alone = found.answered == guard->master_count - 1 && found.remember < needed,
         is_late = !instant_before(now, instant_after_ms(master->waits_since, GUESS_MS)) &&
                   (!is_yet_to_say(guard, index, now) || MUTANT(GUARD_GUESS_UNHEARD));
    if (found.remember >= needed)
        tell(guard, index, GUARD_TOLD, found.top, now, effects);
    else if (is_alone || is_late || MUTANT(GUARD_GUESS_AT_ONCE))
        tell(guard, index, MUTANT(GUARD_GUESS_AS_TOLD) ? GUARD_TOLD : GUARD_GUESSED,
             larger(larger(guard->top, found.top), wall_us > 0 ? (uint64_t)wall_us : 0), now,
             effects);
}

static bool is_needed_anew(const struct guard *guard, uint8_t index)
{
    for (uint8_t i = 0; i < guard->master_count; i++) {
        const struct guard_master *waiting = &guard->masters[i];
        if (i != index && guard_waits(waiting) && waiting->waits_from != 0 &&
            guard->masters[index].answered_number < waiting->waits_from)
            return true;
    }
    return false;
}

/* A master that does not vote although it was told is not told again at once, without end. */
static bool was_just_told(const struct guard_master *master, struct instant now)
{
    return master->told_at.us != 0 &&
           instant_before(now, instant_after_ms(master->told_at, GUARD_TICK_MS));
}

/* Continues telling as far as possible now. */
static void advance(struct guard *guard, struct instant now, int64_t wall_us,
                    struct guard_effects *effects)
{
    for (uint8_t i = 0; i < guard->master_count; i++)
        if (can_be_asked(&guard->masters[i]) && guard_waits(&guard->masters[i]) &&
            !was_just_told(&guard->masters[i], now))
            tell_or_guess(guard, i, now, wall_us, effects);
    for (uint8_t i = 0; i < guard->master_count; i++)
        if (can_be_asked(&guard->masters[i]) &&
            (is_needed_anew(guard, i) || guard->masters[i].meets))
            look(guard, i, now, effects);
}

/* ---- hearing ---- */

static void show(uint8_t index, struct guard_effects *effects)
{
    effects->shown |= bit(index);
}

/* Reports a new epoch when the master is READY, because the core can receive its votes only from
 * then on. */
static void report_epoch(struct guard *guard, uint8_t index, struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    if (master->phase != GUARD_MASTER_READY)
        return;
    if (master->changed && !MUTANT(GUARD_EPOCH_UNTOLD))
        effects->epochs |= bit(index);
    master->changed = false;
    show(index, effects);
}

static void take_epoch(struct guard_master *master, const char *epoch)
{
    if (guard_same_word(epoch, master->last.epoch))
        return;
    master->changed = true;
    master->waits_from = 0;
    take_word(master->last.epoch, epoch);
}

static void take_numbers(struct guard *guard, uint8_t index, const struct guard_answer *answer,
                         struct guard_effects *effects)
{
    if (answer->spoiled)
        return;
    guard->top = larger(guard->top, answer->top);
    if (answer->floor > guard->floor) {
        guard->floor = answer->floor;
        effects->floors |= bit(index);
    }
}

static void take_answer(struct guard *guard, uint8_t index, const struct guard_answer *answer,
                        struct instant now, struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    CORE_ASSERT(answer->left_ms >= 0);
    CORE_ASSERT(master->phase != GUARD_MASTER_AWAY && !master->asked);
    take_epoch(master, answer->epoch);
    master->last = *answer;
    if (master->last.max_ttl_ms > TTL_MS_MAX)
        master->last.max_ttl_ms = TTL_MS_MAX;
    master->seen = true;
    master->unsure = false;
    master->answered_asked_at = master->asked_at;
    master->answered_number = master->asked_number;
    master->until = instant_after_ms(now, answer->left_ms);
    take_numbers(guard, index, answer, effects);
    if (!guard_waits(master)) {
        master->waits_from = 0;
    } else if (master->waits_from == 0) {
        master->waits_from = guard->questions + 1;
        master->waits_since = now;
    }
}

/* Notes that its marker is not the one that was read last. */
static void unsee(struct guard *guard, uint8_t index, const char *epoch, struct instant now,
                  struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    CORE_ASSERT(master->phase == GUARD_MASTER_READY);
    take_epoch(master, epoch);
    master->seen = false;
    report_epoch(guard, index, effects);
    if (!master->asked)
        look(guard, index, now, effects);
}

static void see_epoch(struct guard *guard, uint8_t index, const char *epoch, struct instant now,
                      struct guard_effects *effects)
{
    CORE_ASSERT(strlen(epoch) < GUARD_WORD_BYTES);
    const struct guard_master *master = &guard->masters[index];
    if (master->phase == GUARD_MASTER_READY && !master->unsure &&
        !guard_same_word(epoch, master->last.epoch))
        unsee(guard, index, epoch, now, effects);
}

/* Handles that the vote which an acquire or a release named is gone or has changed: the marker
 * shows why. Until it is read, the known state is kept. Refusals of acquires that were in flight
 * come after the marker's answer. If they cleared its vote, the next acquires would name none, and
 * so on without end. */
static void see_guarded(struct guard *guard, uint8_t index, bool is_release, struct instant now,
                        struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    const char *named = is_release ? guard_known_vote(guard, index) : guard_vote(guard, index, now);
    if (master->phase != GUARD_MASTER_READY || master->asked || !*named)
        return; /* It named no vote (R23), or the marker's answer is on the way. */
    look(guard, index, now, effects);
}

/* ---- events ---- */

void guard_init(struct guard *guard, uint8_t master_count, uint8_t quorum, bool durable,
                uint32_t max_ttl_ms)
{
    CORE_ASSERT(master_count >= 1 && master_count <= LIMIT_MASTERS);
    CORE_ASSERT(quorum >= 1 && quorum <= master_count);
    CORE_ASSERT(max_ttl_ms <= TTL_MS_MAX);
    *guard = (struct guard){.durable = durable,
                            .master_count = master_count,
                            .witnesses = (uint8_t)(master_count - quorum + 1),
                            .max_ttl_ms = max_ttl_ms};
}

static void greets(struct guard *guard, const struct guard_event *event, struct instant now,
                   struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[event->master];
    CORE_ASSERT(master->phase == GUARD_MASTER_AWAY && !master->asked);
    master->phase = GUARD_MASTER_GREETING;
    master->knows_run = event->knows_run;
    put_ask(guard, event->master, plain_question(guard, master, event->same_connection), now,
            effects);
}

static void away(struct guard_master *master)
{
    master->phase = GUARD_MASTER_AWAY;
    master->asked = master->seen = master->noted = master->disagrees = master->errs = false;
    master->tried = true;
    master->at_work = master->waits_from = 0;
    master->noted_until = (struct instant){0};
}

/* The marker may be of an earlier run, so the master gets no requests for new locks. */
static void refused(struct guard_master *master)
{
    CORE_ASSERT(master->phase != GUARD_MASTER_AWAY);
    master->asked = master->seen = master->noted = false;
    master->errs = master->tried = true;
    master->unsure = !MUTANT(GUARD_REFUSAL_IGNORED);
    master->changed = true;
    master->last.epoch[0] = '\0';
    master->at_work = master->waits_from = 0;
    master->noted_until = (struct instant){0};
}

/* Returns true if every master that can be asked votes and has noted the layout. */
static bool is_settled(const struct guard *guard)
{
    for (uint8_t i = 0; i < guard->master_count && !MUTANT(GUARD_IDLE_UNSETTLED); i++) {
        const struct guard_master *master = &guard->masters[i];
        bool noted = !master->errs && (guard->layouts.text.len == 0 || master->noted);
        if (master->phase == GUARD_MASTER_READY && !(noted && guard_votes_now(guard, i)))
            return false;
    }
    return true;
}

/* Returns when a master is to be asked again. `settled`: is_settled(). */
static struct instant due(const struct guard *guard, uint8_t index, bool settled)
{
    const struct guard_master *master = &guard->masters[index];
    int64_t probe_ms = MUTANT(GUARD_SELDOM_PROBED) ? 3 * PROBE_MS : PROBE_MS;
    bool soon = guard_waits(master) || guard_is_copy(guard, index);
    struct instant at = instant_after_ms(master->asked_at, soon ? GUARD_TICK_MS : probe_ms);
    if (settled && !instant_before(at, guard->idle_from))
        at = instant_after_ms(master->asked_at, IDLE_PROBE_MS);
    /* A layout that was refused is noted soon after the other one is forgotten (R23). */
    return guard->layouts.text.len == 0 || master->noted || master->errs
               ? at
               : instant_min(at, instant_max(instant_after_ms(master->asked_at, GUARD_TICK_MS),
                                             guard->layouts.refused_until));
}

static void time_passed(struct guard *guard, struct instant now, int64_t wall_us,
                        struct guard_effects *effects)
{
    advance(guard, now, wall_us, effects);
    bool settled = is_settled(guard);
    for (uint8_t i = 0; i < guard->master_count; i++)
        if (can_be_asked(&guard->masters[i]) && !instant_before(now, due(guard, i, settled)))
            look(guard, i, now, effects);
}

void guard_step(struct guard *guard, const struct guard_event *event, struct instant now,
                int64_t wall_us, struct guard_effects *ret_effects)
{
    uint8_t index = event->master;
    CORE_ASSERT(index < guard->master_count);
    struct guard_master *master = &guard->masters[index];
    *ret_effects = (struct guard_effects){0};
    register_step(guard, now);
    switch (event->kind) {
    case GUARD_GREETS:
        greets(guard, event, now, ret_effects);
        return;
    case GUARD_READY:
        CORE_ASSERT(master->phase == GUARD_MASTER_GREETING);
        master->phase = GUARD_MASTER_READY;
        report_epoch(guard, index, ret_effects);
        break;
    case GUARD_AWAY:
        away(master);
        return;
    case GUARD_ANSWERED:
        CORE_ASSERT(master->asked);
        master->asked = false;
        take_answer(guard, index, &event->answer, now, ret_effects);
        register_hear(guard, index, &event->layouts, now, ret_effects);
        report_epoch(guard, index, ret_effects);
        break;
    case GUARD_UNANSWERED:
        CORE_ASSERT(master->asked);
        master->asked = false;
        master->errs = true;
        ret_effects->shown |= bit(index);
        return;
    case GUARD_REFUSED:
        CORE_ASSERT(master->asked);
        refused(master);
        return;
    case GUARD_SEES_EPOCH:
        see_epoch(guard, index, event->answer.epoch, now, ret_effects);
        return;
    case GUARD_SEES_GUARDED:
        see_guarded(guard, index, event->is_release, now, ret_effects);
        return;
    case GUARD_TIME:
        time_passed(guard, now, wall_us, ret_effects);
        return;
    }
    advance(guard, now, wall_us, ret_effects);
}

bool guard_idles(const struct guard *guard, struct instant now)
{
    return is_settled(guard) && !instant_before(now, guard->idle_from);
}

bool guard_uses(struct guard *guard, uint32_t lease_ms, struct instant now)
{
    bool was_idle = !instant_before(now, guard->idle_from) && !MUTANT(GUARD_WAKE_UNASKED),
         is_long = lease_ms > IDLE_AFTER_MS && !MUTANT(GUARD_IDLE_WITH_LEASES);
    struct instant until = instant_after_ms(now, is_long ? lease_ms : IDLE_AFTER_MS);
    guard->idle_from = instant_max(guard->idle_from, until);
    if (lease_ms > 0)
        register_leases(guard, instant_after_ms(now, lease_ms));
    return was_idle;
}

void guard_numbers(struct guard *guard, master_set masters, uint64_t number)
{
    uint64_t lift = number + TOP_AHEAD_US;
    guard->top = larger(guard->top, number);
    for (uint8_t i = 0; i < guard->master_count; i++)
        if (masters & bit(i))
            guard->masters[i].numbered = larger(guard->masters[i].numbered, lift);
}

struct instant guard_deadline(const struct guard *guard)
{
    struct instant first = register_deadline(guard);
    bool settled = is_settled(guard);
    for (uint8_t i = 0; i < guard->master_count; i++)
        if (can_be_asked(&guard->masters[i]))
            first = instant_min(first, due(guard, i, settled));
    return first;
}
