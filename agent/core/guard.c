/* The guard of a group's masters (D5.3): no master that forgot leases votes on new locks before
 * whatever it forgot has run out, and a new group, which has nothing to forget, votes at once.
 *
 * Each master carries a marker: epoch (random), since (its own TIME), max_ttl (the longest lease of
 * any agent). A master without one has forgotten, or is new. Whoever misses it writes it anew,
 * since now: the master votes when since + max_ttl + 1 s have passed, which needs nothing but time.
 * The marker's script writes that down as the vote, a key that acquires read in the marker's place.
 * All that follows is for a new durable group, which should not wait that long.
 *
 * The birth of a group is a commit in two phases over all N masters, and any agent may take any of
 * its steps:
 *
 *   missing --begin--> new --join B--> of B --vote B--> votes          the marker's way in a birth
 *      |                |                |
 *      +--keep,restart--+--- time -------+----- time ------> votes      and every other way
 *
 *   begin   the marker is written since now, as any other is, and says that it may be the first one
 *           here
 *   join B  all N have been seen in a birth. B is the sum of the N epochs, so that agents who see
 *           the same markers name the same birth, in whatever order they list the masters
 *   vote B  all N have been seen of B
 *
 * Both name the epoch that was seen, and the script does nothing where the marker is another one by
 * now. So a step may come late, twice, from a dead connection, or from an agent that was killed
 * meanwhile.
 *
 * Invariants
 *   1. Who votes by B was seen of B together with all others, and none of them has forgotten
 *      between its own epoch and then: when the last of the N epochs began, all N markers were new,
 *      none had a vote, and each had been missing before. So no master votes early unless all have
 *      forgotten within one guard. (D5.3 takes that for a new group: `durable` promises that it
 *      does not happen.)
 *   2. A master that votes by B and forgets has another epoch afterwards. The others are of B, and
 *      never of another birth. So it is guarded.
 *   3. In a new group every marker is written by begin: nobody knows of an old master there before
 *      all are of B, and then none is missing.
 *   4. A marker of a birth that is not completed, because a master can not be reached, is guarded
 *      since it was written.
 *   5. An agent that has seen the group old begins no birth: one marker of its writing, and none
 *      can be completed within that guard.
 *   6. What a marker said of max_ttl outlives the marker in every agent that has read it.
 *   7. Where the marker's script has run, the vote is there if the marker votes, and is of its
 *      epoch; and before an agent asks a master for a lock, it has run there on that connection. So
 *      no vote outlives what it was given for, and one that is missing is counted from the marker.
 *
 * A group that is not durable knows no births: a new run of a server is a new epoch, since now.
 *
 * Phases of a master: AWAY -greets-> GREETING -ready-> READY, and to AWAY from each. Markers are
 * asked for in the greeting and when READY.
 *
 * Timers: a READY master is asked for its marker every PROBE_MS, so that an agent with a longer
 * max_ttl is heard of before the shortest guard ends (TTL_MS_MIN_AGENT and 1 s); every
 * GUARD_TICK_MS while it is in a birth, since others may have taken it further. For BIRTH_SHOWN_MS
 * from the first sight of a birth its guards are not shown: it will be over in a moment. */
#include "guard.h"

#include <string.h>

#include "core_assert.h"

enum { PROBE_MS = 900, BIRTH_SHOWN_MS = 2000, EPOCH_DIGITS = 16 };
static_assert(PROBE_MS + GUARD_TICK_MS < TTL_MS_MIN_AGENT + 1000,
              "the shortest guard must not end between two probes");

static const char is_new[] = "new";

static bool same(const char *a, const char *b)
{
    size_t len = strlen(a);
    return len == strlen(b) && memcmp(a, b, len) == 0;
}

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

/* ---- where a master stands in the birth ---- */

static bool has_birth(const struct guard_master *master)
{
    return master->seen && *master->birth;
}

static bool may_be_new(const struct guard_master *master)
{
    return has_birth(master) && same(master->birth, is_new);
}

static bool votes_now(const struct guard_master *master)
{
    return master->seen && master->until.us == 0;
}

static bool is_of(const struct guard_master *master, const char *birth)
{
    return has_birth(master) && same(master->birth, birth);
}

static bool is_being_born(const struct guard_master *master)
{
    return has_birth(master) && !votes_now(master);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Adds modulo 2^64: so a server that is named twice counts, as it would not by XOR. False where an
 * epoch is none of ours. */
static bool add_epoch(const char *epoch, char sum[GUARD_WORD_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(epoch) != EPOCH_DIGITS)
        return false;
    int carry = 0;
    for (unsigned i = EPOCH_DIGITS; i-- > 0; carry >>= 4) {
        int digit = digit_of(epoch[i]);
        if (digit < 0)
            return false;
        carry += digit + digit_of(sum[i]);
        sum[i] = digits[carry & 15];
    }
    return true;
}

/* The birth that the masters of the group may join, if all may be new; else "". */
static void birth_to_join(const struct guard *guard, char ret_birth[GUARD_WORD_BYTES])
{
    char sum[GUARD_WORD_BYTES] = "0000000000000000";
    ret_birth[0] = '\0';
    for (uint8_t i = 0; i < guard->master_count; i++) {
        const struct guard_master *master = &guard->masters[i];
        if (MUTANT(GUARD_JOINS_PARTLY) && !has_birth(master))
            continue;
        if (!has_birth(master) || !add_epoch(master->epoch, sum))
            return;
    }
    take_word(ret_birth, sum);
}

static bool may_vote_by(const struct guard *guard, const char *birth)
{
    CORE_ASSERT(*birth != '\0');
    unsigned of_it = 0;
    for (uint8_t i = 0; i < guard->master_count && !same(birth, is_new); i++)
        of_it += is_of(&guard->masters[i], birth);
    return MUTANT(GUARD_QUORUM_VOTES) ? of_it > guard->master_count / 2
                                      : of_it == guard->master_count;
}

/* ---- asking ---- */

static void put_ask(struct guard *guard, uint8_t index, enum guard_question question,
                    const char *birth, struct instant now, struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    CORE_ASSERT(!master->asked && effects->ask_count < LIMIT_MASTERS);
    CORE_ASSERT(master->phase != GUARD_MASTER_AWAY);
    struct guard_ask *asked = &effects->asks[effects->ask_count++];
    bool longer = master->max_ttl_ms > guard->max_ttl_ms && !MUTANT(GUARD_MAX_TTL_FORGOTTEN);
    *asked = (struct guard_ask){.master = index,
                                .question = question,
                                .max_ttl_ms = longer ? master->max_ttl_ms : guard->max_ttl_ms};
    master->asked = true;
    master->asked_at = now;
    master->stepped = question >= GUARD_ASK_JOIN;
    if (master->stepped) {
        CORE_ASSERT(guard->durable && is_being_born(master));
        take_word(asked->epoch, master->epoch);
        take_word(asked->birth, birth);
    }
}

/* Without a step to take. */
static enum guard_question plain_question(const struct guard *guard,
                                          const struct guard_master *master, bool same_connection)
{
    if (guard->durable)
        return guard->old && !MUTANT(GUARD_OLD_BEGINS) ? GUARD_ASK_KEEP : GUARD_ASK_BEGIN;
    bool same_run = same_connection && !master->unsure;
    return same_run || MUTANT(GUARD_RUN_IGNORED) ? GUARD_ASK_KEEP : GUARD_ASK_RESTART;
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
    master->rests = false;
    put_ask(guard, index, plain_question(guard, master, /* same_connection= */ true), "", now,
            effects);
}

/* Takes the birth as far as it goes now. */
static void advance(struct guard *guard, struct instant now, struct guard_effects *effects)
{
    char joined[GUARD_WORD_BYTES];
    birth_to_join(guard, joined);
    for (uint8_t i = 0; guard->durable && i < guard->master_count; i++) {
        struct guard_master *master = &guard->masters[i];
        if (!can_be_asked(master) || master->rests || !is_being_born(master))
            continue;
        bool joins = may_be_new(master) && *joined;
        if (joins || may_vote_by(guard, master->birth))
            put_ask(guard, i, joins ? GUARD_ASK_JOIN : GUARD_ASK_VOTE,
                    joins ? joined : master->birth, now, effects);
    }
}

/* ---- hearing ---- */

static void show(uint8_t index, struct guard_effects *effects)
{
    effects->shown |= bit(index);
}

/* A new epoch is told when the master is READY: not before the core may hear of it. */
static void tell_epoch(struct guard *guard, uint8_t index, struct guard_effects *effects)
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
    master->changed |= !same(epoch, master->epoch);
    take_word(master->epoch, epoch);
}

static void take_answer(struct guard *guard, struct guard_master *master,
                        const struct guard_answer *answer, struct instant now)
{
    CORE_ASSERT(answer->left_ms >= 0);
    CORE_ASSERT(master->phase != GUARD_MASTER_AWAY && !master->asked);
    bool voted = votes_now(master);
    master->rests = master->stepped && same(answer->epoch, master->epoch) &&
                    same(answer->birth, master->birth) && voted == (answer->left_ms == 0);
    take_epoch(master, answer->epoch);
    take_word(master->birth, answer->birth);
    master->seen = true;
    master->unsure = false;
    master->until =
        answer->left_ms == 0 ? (struct instant){0} : instant_after_ms(now, answer->left_ms);
    if (answer->max_ttl_ms > master->max_ttl_ms && answer->max_ttl_ms <= TTL_MS_MAX)
        master->max_ttl_ms = answer->max_ttl_ms;
    guard->old |= !*master->birth || votes_now(master);
    if (is_being_born(master) && guard->birth_seen.us == INSTANT_NEVER.us)
        guard->birth_seen = now;
}

/* Its marker is not what was seen last. */
static void unsee(struct guard *guard, uint8_t index, const char *epoch, struct instant now,
                  struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    CORE_ASSERT(master->phase == GUARD_MASTER_READY);
    take_epoch(master, epoch);
    master->seen = false;
    tell_epoch(guard, index, effects);
    if (!master->asked)
        look(guard, index, now, effects);
}

static void see_epoch(struct guard *guard, uint8_t index, const char *epoch, struct instant now,
                      struct guard_effects *effects)
{
    CORE_ASSERT(strlen(epoch) < GUARD_WORD_BYTES);
    const struct guard_master *master = &guard->masters[index];
    if (master->phase == GUARD_MASTER_READY && !master->unsure && !same(epoch, master->epoch))
        unsee(guard, index, epoch, now, effects);
}

static void see_guarded(struct guard *guard, uint8_t index, int64_t left_ms, struct instant now,
                        struct guard_effects *effects)
{
    const struct guard_master *master = &guard->masters[index];
    if (left_ms < 0)
        see_epoch(guard, index, "", now, effects);
    else if (master->phase == GUARD_MASTER_READY && guard_state(guard, index, now) == GUARD_VOTES)
        unsee(guard, index, master->epoch, now, effects);
}

/* ---- events ---- */

void guard_init(struct guard *guard, uint8_t master_count, bool durable, uint32_t max_ttl_ms)
{
    CORE_ASSERT(master_count >= 1 && master_count <= LIMIT_MASTERS);
    CORE_ASSERT(max_ttl_ms <= TTL_MS_MAX);
    *guard = (struct guard){.durable = durable,
                            .master_count = master_count,
                            .max_ttl_ms = max_ttl_ms,
                            .birth_seen = INSTANT_NEVER};
}

static void greets(struct guard *guard, uint8_t index, bool same_connection, struct instant now,
                   struct guard_effects *effects)
{
    struct guard_master *master = &guard->masters[index];
    CORE_ASSERT(master->phase == GUARD_MASTER_AWAY && !master->asked);
    master->phase = GUARD_MASTER_GREETING;
    put_ask(guard, index, plain_question(guard, master, same_connection), "", now, effects);
}

static void away(struct guard_master *master)
{
    master->phase = GUARD_MASTER_AWAY;
    master->asked = master->seen = master->rests = false;
}

/* What the marker says may be of before a restart, so the master is not asked for new locks. */
static void refused(struct guard_master *master)
{
    CORE_ASSERT(master->phase != GUARD_MASTER_AWAY);
    master->asked = master->seen = false;
    master->unsure = !MUTANT(GUARD_REFUSAL_IGNORED);
    master->changed = true;
    master->epoch[0] = '\0';
}

static bool is_settled(const struct guard_master *master)
{
    return master->seen && !is_being_born(master);
}

static struct instant due(const struct guard_master *master)
{
    int64_t probe_ms = MUTANT(GUARD_SELDOM_PROBED) ? 3 * PROBE_MS : PROBE_MS;
    return instant_after_ms(master->asked_at,
                            is_settled(master) || master->unsure ? probe_ms : GUARD_TICK_MS);
}

static void time_passed(struct guard *guard, struct instant now, struct guard_effects *effects)
{
    for (uint8_t i = 0; i < guard->master_count; i++) {
        struct guard_master *master = &guard->masters[i];
        if (can_be_asked(master) && !instant_before(now, due(master)))
            look(guard, i, now, effects);
        if (is_being_born(master))
            show(i, effects);
    }
}

void guard_step(struct guard *guard, const struct guard_event *event, struct instant now,
                struct guard_effects *ret_effects)
{
    uint8_t index = event->master;
    CORE_ASSERT(index < guard->master_count);
    struct guard_master *master = &guard->masters[index];
    *ret_effects = (struct guard_effects){0};
    switch (event->kind) {
    case GUARD_GREETS:
        greets(guard, index, event->same_connection, now, ret_effects);
        return;
    case GUARD_READY:
        CORE_ASSERT(master->phase == GUARD_MASTER_GREETING);
        master->phase = GUARD_MASTER_READY;
        tell_epoch(guard, index, ret_effects);
        break;
    case GUARD_AWAY:
        away(master);
        return;
    case GUARD_ANSWERED:
        CORE_ASSERT(master->asked);
        master->asked = false;
        take_answer(guard, master, &event->answer, now);
        tell_epoch(guard, index, ret_effects);
        if (MUTANT(GUARD_STEPS_SKIPPED))
            return;
        break;
    case GUARD_UNANSWERED:
        CORE_ASSERT(master->asked);
        master->asked = false;
        return;
    case GUARD_REFUSED:
        CORE_ASSERT(master->asked);
        refused(master);
        return;
    case GUARD_SEES_EPOCH:
        see_epoch(guard, index, event->answer.epoch, now, ret_effects);
        return;
    case GUARD_SEES_GUARDED:
        see_guarded(guard, index, event->answer.left_ms, now, ret_effects);
        return;
    case GUARD_TIME:
        time_passed(guard, now, ret_effects);
        break;
    }
    advance(guard, now, ret_effects);
}

/* ---- questions ---- */

struct instant guard_deadline(const struct guard *guard)
{
    struct instant first = INSTANT_NEVER;
    for (uint8_t i = 0; i < guard->master_count; i++)
        if (can_be_asked(&guard->masters[i]))
            first = instant_min(first, due(&guard->masters[i]));
    return first;
}

enum guard_state guard_state(const struct guard *guard, uint8_t index, struct instant now)
{
    CORE_ASSERT(index < guard->master_count);
    const struct guard_master *master = &guard->masters[index];
    if (master->phase != GUARD_MASTER_READY)
        return GUARD_VOTES;
    if (master->unsure)
        return GUARD_UNSURE;
    if (!master->seen)
        return GUARD_MISSING;
    if (!instant_before(now, master->until))
        return GUARD_VOTES;
    bool shown = instant_before(now, instant_after_ms(guard->birth_seen, BIRTH_SHOWN_MS));
    return is_being_born(master) && shown ? GUARD_BEGINS : GUARD_RUNS;
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

const char *guard_question_word(enum guard_question question)
{
    static const char *const words[] = {
        [GUARD_ASK_RESTART] = "restart", [GUARD_ASK_KEEP] = "keep", [GUARD_ASK_BEGIN] = "begin",
        [GUARD_ASK_TRUST] = "trust",     [GUARD_ASK_JOIN] = "join", [GUARD_ASK_VOTE] = "vote",
    };
    CORE_ASSERT(question < GUARD_QUESTION_COUNT);
    return words[question];
}
