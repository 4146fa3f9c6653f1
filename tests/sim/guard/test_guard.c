/* The guard's protocol step by step: timelines of one or two agents over the shipped scripts. Named
 * after what goes wrong without the rule. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/guard/script.h"

enum { MASTERS_MAX = 5, AGENTS = 2, MAX_TTL_MS = 5000, GUARD_MS = MAX_TTL_MS + 1001 };
#define WALL_MS ((int64_t)1760000000 * 1000)
#define WALL_US ((uint64_t)WALL_MS * 1000)
#define REPLID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define REPLID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* Questions go no further than here until the test lets them reach their master, and answers until
 * it lets them come back. */
static struct {
    struct keyspace *keys[MASTERS_MAX];
    unsigned servers[MASTERS_MAX]; /* number of the process, which is its run */
    int64_t skew_ms[MASTERS_MAX];  /* skew of its clock */
    struct agent {
        struct guard guard;
        struct {
            bool open, reached;
            struct guard_ask ask;
            struct guard_answer answer;
        } asked[MASTERS_MAX];
        master_set epochs, floors;
        int64_t wall_us; /* the agreed time; 0: the time of the rig */
    } agents[AGENTS];
    unsigned masters;
    int64_t now_ms;
    unsigned epochs;
    bool hides_run; /* INFO is not allowed */
} rig;

static int64_t wall_us(unsigned a)
{
    return rig.agents[a].wall_us != 0 ? rig.agents[a].wall_us : (WALL_MS + rig.now_ms) * 1000;
}

static int64_t wall_ms(unsigned m)
{
    return WALL_MS + rig.now_ms + rig.skew_ms[m];
}

static void tell(unsigned a, struct guard_event event)
{
    struct agent *agent = &rig.agents[a];
    struct guard_effects effects;
    guard_step(&agent->guard, &event, (struct instant){rig.now_ms * 1000}, wall_us(a), &effects);
    agent->epochs |= effects.epochs;
    agent->floors |= effects.floors;
    for (unsigned i = 0; i < effects.ask_count; i++) {
        uint8_t m = effects.asks[i].master;
        cr_assert_not(agent->asked[m].open, "master %u is asked twice", m);
        agent->asked[m].open = true;
        agent->asked[m].reached = false;
        agent->asked[m].ask = effects.asks[i];
    }
}

static void reach(unsigned a, const struct guard_ask *ask, struct guard_answer *ret_answer)
{
    char epoch[24], run[24] = "";
    snprintf(epoch, sizeof(epoch), "%016x", ++rig.epochs * 0x01030507u);
    if (!rig.hides_run)
        snprintf(run, sizeof(run), "%08x%08x", ask->master + 1u, rig.servers[ask->master]);
    script_marker(rig.keys[ask->master], wall_ms(ask->master), ask, wall_us(a), run, epoch,
                  ret_answer);
}

static void arrives(unsigned a, unsigned m)
{
    struct agent *agent = &rig.agents[a];
    cr_assert(agent->asked[m].open && !agent->asked[m].reached, "master %u is asked", m);
    agent->asked[m].reached = true;
    reach(a, &agent->asked[m].ask, &agent->asked[m].answer);
}

static void returns(unsigned a, unsigned m)
{
    struct agent *agent = &rig.agents[a];
    if (!agent->asked[m].reached)
        arrives(a, m);
    agent->asked[m].open = agent->asked[m].reached = false;
    tell(a, (struct guard_event){
                .kind = GUARD_ANSWERED, .master = (uint8_t)m, .answer = agent->asked[m].answer});
}

static void greets(unsigned a, unsigned m, bool same_connection)
{
    tell(a, (struct guard_event){.kind = GUARD_GREETS,
                                 .master = (uint8_t)m,
                                 .same_connection = same_connection,
                                 .knows_run = !rig.hides_run});
}

static void is_ready(unsigned a, unsigned m)
{
    tell(a, (struct guard_event){.kind = GUARD_READY, .master = (uint8_t)m});
}

static void meet(unsigned a, unsigned m)
{
    greets(a, m, /* same_connection= */ false);
    returns(a, m);
    is_ready(a, m);
}

static void loses(unsigned a, unsigned m)
{
    rig.agents[a].asked[m].open = false;
    tell(a, (struct guard_event){.kind = GUARD_AWAY, .master = (uint8_t)m});
}

static void is_refused(unsigned a, unsigned m)
{
    rig.agents[a].asked[m].open = false;
    tell(a, (struct guard_event){.kind = GUARD_REFUSED, .master = (uint8_t)m});
}

static void sees_guarded(unsigned a, unsigned m)
{
    tell(a, (struct guard_event){
                .kind = GUARD_SEES_GUARDED, .master = (uint8_t)m, .answer = {.left_ms = -1}});
}

static bool is_asked(unsigned a, unsigned m)
{
    return rig.agents[a].asked[m].open;
}

static const struct guard_ask *question(unsigned a, unsigned m)
{
    cr_assert(is_asked(a, m), "master %u is asked", m);
    return &rig.agents[a].asked[m].ask;
}

/* Until nothing is asked any more. */
static void settle(unsigned a)
{
    for (unsigned turns = 0, left = 1; left > 0; turns++) {
        cr_assert_lt(turns, 20u, "it asks without end");
        left = 0;
        for (unsigned m = 0; m < rig.masters; m++)
            if (is_asked(a, m)) {
                returns(a, m);
                left++;
            }
    }
}

static void passes(unsigned a, int64_t ms)
{
    rig.now_ms += ms;
    tell(a, (struct guard_event){.kind = GUARD_TIME});
}

/* The time passes, and the agent lives through it. */
static void lives(unsigned a, int64_t ms)
{
    for (int64_t end_ms = rig.now_ms + ms; rig.now_ms < end_ms;) {
        int64_t step_ms = end_ms - rig.now_ms < 100 ? end_ms - rig.now_ms : 100;
        rig.now_ms += step_ms;
        if (!instant_before((struct instant){rig.now_ms * 1000},
                            guard_deadline(&rig.agents[a].guard)))
            passes(a, 0);
        settle(a);
    }
}

static bool votes(unsigned m)
{
    char vote[GUARD_VOTE_BYTES];
    return stored_vote(rig.keys[m], vote);
}

static uint64_t field(unsigned m, const char *name)
{
    return marker_number(rig.keys[m], name);
}

static enum guard_state state(unsigned a, unsigned m)
{
    return guard_state(&rig.agents[a].guard, (uint8_t)m, (struct instant){rig.now_ms * 1000});
}

static int64_t left_ms(unsigned a, unsigned m)
{
    return guard_left_ms(&rig.agents[a].guard, (uint8_t)m, (struct instant){rig.now_ms * 1000});
}

static const char *vote_of(unsigned a, unsigned m)
{
    return guard_vote(&rig.agents[a].guard, (uint8_t)m);
}

static void restart(unsigned m, bool keeps_data)
{
    rig.servers[m]++;
    if (!keeps_data)
        keyspace_clear(rig.keys[m]);
}

static void flush(unsigned m)
{
    keyspace_clear(rig.keys[m]);
}

static void copy(unsigned into, unsigned from)
{
    keyspace_copy(rig.keys[into], rig.keys[from]);
}

static bool takes_lock(unsigned a, unsigned m, uint64_t proposal, uint64_t *ret_number)
{
    static uint32_t attempts;
    char vote[ASKING_VOTE_BYTES];
    struct script_lock lock = {
        .agent = a, .attempt = ++attempts, .number = proposal, .ttl_ms = MAX_TTL_MS};
    script_vote(&rig.agents[a].guard, (uint8_t)m, proposal, vote);
    bool yes = script_acquire(rig.keys[m], wall_ms(m), &lock, vote, ret_number) == SAYS_YES;
    script_release(rig.keys[m], wall_ms(m), &lock);
    return yes;
}

static void open_rig(unsigned masters, unsigned quorum, bool durable)
{
    rig.now_ms = 1000;
    rig.masters = masters;
    for (unsigned m = 0; m < masters; m++)
        rig.keys[m] = keyspace_new();
    for (unsigned a = 0; a < AGENTS; a++)
        guard_init(&rig.agents[a].guard, (uint8_t)masters, (uint8_t)quorum, durable, MAX_TTL_MS);
}

/* Frees all that open_rig() made, and forgets the rest. */
static void close_rig(void)
{
    for (unsigned m = 0; m < rig.masters; m++)
        keyspace_free(rig.keys[m]);
    memset(&rig, 0, sizeof(rig));
}

/* Every master votes, as one that was trusted by hand, and agent 0 knows it. */
static void open_old_group(unsigned masters, bool durable)
{
    open_rig(masters, masters / 2 + 1, durable);
    for (unsigned m = 0; m < masters; m++) {
        struct guard_answer answer;
        struct guard_ask ask = {.master = (uint8_t)m,
                                .question = GUARD_ASK_TRUST,
                                .max_ttl_ms = MAX_TTL_MS,
                                .top = 100,
                                .told = GUARD_TOLD};
        reach(0, &ask, &answer);
        cr_assert(votes(m));
        meet(0, m);
    }
    settle(0);
}

static void settle_others(unsigned a, unsigned m)
{
    for (unsigned other = 0; other < rig.masters; other++)
        if (other != m && is_asked(a, other))
            returns(a, other);
}

/* Makes master m forget. Its guard ends and agent 0 learns of that. All others are asked for the
 * first time since. */
static void forgets_and_waits(unsigned m)
{
    flush(m);
    sees_guarded(0, m);
    returns(0, m);
    cr_assert_eq(state(0, m), GUARD_RUNS);
    lives(0, GUARD_MS - 300);
    cr_assert_not(votes(m));
    passes(0, 300);
    while (!is_asked(0, m)) {
        passes(0, 100);
        settle_others(0, m);
    }
    settle_others(0, m);
    returns(0, m);
    cr_assert_eq(state(0, m), GUARD_WAITS);
    cr_assert_eq(left_ms(0, m), -1);
    cr_assert_not(votes(m));
}

/* Breaks the script that scripts.txt names. */
static void break_script(void)
{
    if (getenv("BREAK_FILE"))
        script_break(getenv("BREAK_FILE"), getenv("BREAK_FROM"), getenv("BREAK_TO"));
}

TestSuite(guard, .init = break_script, .fini = close_rig);

/* ---- telling ---- */

Test(guard, a_master_is_told_by_w_others)
{
    open_old_group(5, true);
    marker_set(rig.keys[3], "top", "777");
    forgets_and_waits(0);
    returns(0, 1);
    returns(0, 2);
    cr_assert_not(is_asked(0, 0), "two are too few");
    returns(0, 3);
    cr_assert_eq(question(0, 0)->question, GUARD_ASK_TELL);
    cr_assert_eq(question(0, 0)->told, GUARD_TOLD);
    returns(0, 0);
    cr_assert(votes(0));
    cr_assert_eq(state(0, 0), GUARD_VOTES);
    cr_assert_eq(guard_told(&rig.agents[0].guard, 0), GUARD_TOLD);
    cr_assert_eq(field(0, "floor"), 777u);
    cr_assert_eq(field(0, "top"), 777u);
    cr_assert_eq(guard_floor(&rig.agents[0].guard), 777u);
    cr_assert(rig.agents[0].floors & 1);
}

Test(guard, one_witness_is_enough_if_all_must_agree)
{
    open_old_group(2, true);
    guard_init(&rig.agents[1].guard, 2, 2, true, MAX_TTL_MS);
    flush(0);
    meet(1, 0);
    meet(1, 1);
    lives(1, GUARD_MS + 1200);
    cr_assert(votes(0));
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_TOLD);
}

Test(guard, w_minus_one_are_too_few)
{
    open_old_group(5, true);
    loses(0, 3);
    loses(0, 4);
    forgets_and_waits(0);
    settle(0);
    lives(0, 8000);
    cr_assert_not(votes(0));
    meet(0, 3);
    settle(0);
    cr_assert(votes(0));
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_TOLD);
}

/* A number may have been granted since, by a vote that the master gave before it forgot. */
Test(guard, an_answer_to_an_earlier_question_does_not_count)
{
    open_old_group(3, true);
    flush(0);
    sees_guarded(0, 0);
    returns(0, 0);
    rig.now_ms += GUARD_MS;
    passes(0, 0);
    arrives(0, 1);
    arrives(0, 2);
    marker_set(rig.keys[1], "top", "999");
    returns(0, 0);
    cr_assert_eq(state(0, 0), GUARD_WAITS);
    returns(0, 1);
    returns(0, 2);
    cr_assert_neq(question(0, 1)->question, GUARD_ASK_TELL);
    cr_assert_not(is_asked(0, 0) && question(0, 0)->question == GUARD_ASK_TELL);
    settle(0);
    cr_assert(votes(0));
    cr_assert_eq(field(0, "floor"), 999u);
}

/* D5.3: Master 0 voted and forgot once more while the agent was stopped. Masters 1 and 2 answered
 * before that. */
Test(guard, an_answer_of_before_it_forgot_again_does_not_count)
{
    struct guard_answer answer;
    struct guard_ask ask = {.question = GUARD_ASK_KEEP, .max_ttl_ms = MAX_TTL_MS};
    open_old_group(5, true);
    forgets_and_waits(0);
    returns(0, 1);
    returns(0, 2);
    marker_set(rig.keys[1], "top", "999");
    marker_set(rig.keys[2], "top", "999");
    flush(0);
    reach(1, &ask, &answer);
    passes(0, GUARD_MS);
    returns(0, 0);
    cr_assert_eq(state(0, 0), GUARD_WAITS);
    returns(0, 3);
    cr_assert_not(is_asked(0, 0) && question(0, 0)->question == GUARD_ASK_TELL);
    settle(0);
    cr_assert(votes(0));
    cr_assert_eq(field(0, "floor"), 999u);
}

/* An answer from an ended connection may be older than the end of the guard. */
Test(guard, a_witness_that_is_away_does_not_count_until_it_answers_anew)
{
    open_old_group(3, true);
    forgets_and_waits(0);
    returns(0, 1);
    loses(0, 1);
    returns(0, 2);
    cr_assert_not(is_asked(0, 0) && question(0, 0)->question == GUARD_ASK_TELL);
    marker_set(rig.keys[1], "top", "888");
    meet(0, 1);
    settle(0);
    cr_assert_eq(field(0, "floor"), 888u);
}

/* The time for which the others are waited for begins anew: an agent that was cut off from all of
 * them must not guess for the first one that is back. */
Test(guard, a_master_that_was_away_waits_anew_for_the_others)
{
    open_rig(3, 2, false);
    meet(0, 0);
    lives(0, GUARD_MS + 5000);
    cr_assert_eq(state(0, 0), GUARD_WAITS);
    loses(0, 0);
    rig.now_ms += 60000;
    meet(0, 0);
    passes(0, 1);
    cr_assert_not(is_asked(0, 0) && question(0, 0)->question == GUARD_ASK_TELL);
}

Test(guard, a_master_that_was_not_told_is_no_witness)
{
    open_old_group(5, true);
    flush(1);
    flush(2);
    marker_set(rig.keys[1], "told", "0"); /* no agent has read it yet */
    forgets_and_waits(0);
    for (unsigned m = 1; m < 4; m++)
        returns(0, m);
    cr_assert_not(is_asked(0, 0) && question(0, 0)->question == GUARD_ASK_TELL);
}

Test(guard, a_tell_of_another_epoch_does_nothing)
{
    open_old_group(3, true);
    forgets_and_waits(0);
    returns(0, 1);
    returns(0, 2);
    struct guard_ask late = *question(0, 0);
    cr_assert_eq(late.question, GUARD_ASK_TELL);
    settle(0);
    cr_assert(votes(0));
    flush(0);
    struct guard_answer answer;
    reach(1, &(struct guard_ask){.question = GUARD_ASK_KEEP, .max_ttl_ms = MAX_TTL_MS}, &answer);
    rig.now_ms += GUARD_MS;
    reach(0, &late, &answer);
    cr_assert_eq(answer.told, GUARD_NOT_TOLD);
    cr_assert_not(votes(0));
}

/* A second tell of the same epoch, with less, comes late. */
Test(guard, a_master_that_is_told_twice_keeps_what_it_was_told_first)
{
    open_old_group(3, true);
    forgets_and_waits(0);
    returns(0, 1);
    returns(0, 2);
    struct guard_ask late = *question(0, 0);
    late.top = 50;
    returns(0, 0);
    cr_assert(votes(0));
    struct guard_answer answer;
    marker_set(rig.keys[0], "top", "5000");
    reach(1, &late, &answer);
    cr_assert_eq(field(0, "floor"), 100u);
    cr_assert_eq(field(0, "top"), 5000u);
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_TOLD);
}

Test(guard, a_tell_while_the_guard_is_longer_by_now_does_nothing)
{
    open_old_group(3, true);
    forgets_and_waits(0);
    returns(0, 1);
    returns(0, 2);
    struct guard_answer answer;
    struct guard_ask longer = {.question = GUARD_ASK_KEEP, .max_ttl_ms = 3 * MAX_TTL_MS};
    reach(1, &longer, &answer);
    cr_assert_gt(answer.left_ms, MAX_TTL_MS);
    returns(0, 0);
    cr_assert_not(votes(0));
    cr_assert_eq(field(0, "told"), 0u, "what was read before its end does not count");
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    lives(0, 2 * MAX_TTL_MS + 1200);
    cr_assert(votes(0), "it is told once more");
}

/* The agent that gave the longest leases is dead, and the witnesses alone know of it. */
Test(guard, a_longer_max_ttl_of_the_witnesses_makes_the_guard_longer)
{
    open_old_group(3, true);
    struct guard_answer answer;
    reach(1, &(struct guard_ask){.master = 1, .question = GUARD_ASK_KEEP, .max_ttl_ms = 30000},
          &answer);
    flush(0);
    meet(1, 0); /* an agent that knows of nothing */
    lives(1, GUARD_MS + 900);
    cr_assert_not(votes(0));
    meet(1, 1);
    meet(1, 2);
    settle(1);
    cr_assert_not(votes(0));
    cr_assert_gt(left_ms(1, 0), 20000);
    lives(1, 25000);
    cr_assert(votes(0));
}

Test(guard, what_is_told_lies_below_the_own_top)
{
    open_old_group(3, true);
    guard_numbers(&rig.agents[0].guard, 1u << 0, 9000000);
    forgets_and_waits(0);
    settle(0);
    cr_assert_eq(field(0, "top"), 11000000u, "lifted by the question behind the number");
    cr_assert_eq(field(0, "floor"), 11000000u);
}

/* ---- guessing ---- */

Test(guard, a_guess_is_made_at_once_if_all_have_forgotten)
{
    open_rig(3, 2, false);
    for (unsigned m = 0; m < 3; m++)
        meet(0, m);
    settle(0);
    cr_assert_eq(left_ms(0, 0), GUARD_MS);
    lives(0, GUARD_MS + 1200);
    for (unsigned m = 0; m < 3; m++) {
        cr_assert(votes(m), "master %u", m);
        cr_assert_eq(field(m, "told"), (uint64_t)GUARD_GUESSED);
        cr_assert_geq(field(m, "floor"), WALL_US);
        cr_assert_eq(guard_told(&rig.agents[0].guard, (uint8_t)m), GUARD_GUESSED);
    }
}

Test(guard, a_guess_else_waits_for_ten_seconds)
{
    open_old_group(3, true);
    loses(0, 2);
    forgets_and_waits(0);
    settle(0);
    lives(0, 9500);
    cr_assert_not(votes(0));
    lives(0, 1000);
    cr_assert(votes(0));
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_GUESSED);
    cr_assert_eq(guard_told(&rig.agents[0].guard, 0), GUARD_GUESSED);
}

/* The guess is the largest of all numbers that it has read from any master, also from one that is
 * away now, of its own numbers and of its clock. */
Test(guard, a_guess_is_of_all_that_the_agent_knows)
{
    open_old_group(3, true);
    rig.agents[0].wall_us = 500;
    marker_set(rig.keys[2], "top", "700");
    lives(0, 1000);
    loses(0, 2);
    forgets_and_waits(0);
    lives(0, 10500);
    cr_assert_eq(field(0, "floor"), 700u);
    flush(0);
    rig.agents[0].wall_us = 60000000;
    guard_numbers(&rig.agents[0].guard, 0, 50000000);
    lives(0, GUARD_MS + 12500);
    cr_assert_eq(field(0, "floor"), 60000000u);
    flush(0);
    guard_numbers(&rig.agents[0].guard, 0, 70000000);
    lives(0, GUARD_MS + 12500);
    cr_assert_eq(field(0, "floor"), 70000000u);
}

Test(guard, a_master_that_voted_by_a_guess_is_a_witness_from_then_on)
{
    open_old_group(3, true);
    loses(0, 2);
    forgets_and_waits(0);
    lives(0, 10500);
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_GUESSED);
    flush(1);
    meet(0, 2);
    lives(0, GUARD_MS + 2200);
    cr_assert_eq(field(1, "told"), (uint64_t)GUARD_TOLD);
}

/* The agent was stopped for ten seconds, and the answers are unread. */
Test(guard, an_agent_that_stood_still_does_not_guess_before_it_has_heard)
{
    open_old_group(3, true);
    forgets_and_waits(0);
    arrives(0, 1);
    arrives(0, 2);
    passes(0, 11000);
    cr_assert_not(is_asked(0, 0) && question(0, 0)->question == GUARD_ASK_TELL);
    returns(0, 1);
    cr_assert_not(is_asked(0, 0) && question(0, 0)->question == GUARD_ASK_TELL);
    returns(0, 2);
    settle(0);
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_TOLD);
}

/* Master 2 has forgotten too, and reports it at once. Master 1's answer is three seconds old. */
Test(guard, an_agent_that_stood_still_does_not_guess_from_what_it_heard_before)
{
    open_old_group(3, true);
    forgets_and_waits(0);
    returns(0, 1);
    loses(0, 2);
    flush(2);
    passes(0, 3000);
    cr_assert(is_asked(0, 1));
    meet(0, 2);
    returns(0, 0);
    cr_assert_not(is_asked(0, 0) && question(0, 0)->question == GUARD_ASK_TELL);
    settle(0);
    lives(0, 500);
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_GUESSED);
}

/* Its questions find no answer, for it refuses writes: it does not delay the guess. */
Test(guard, a_witness_that_answers_nothing_does_not_stop_a_guess)
{
    open_old_group(3, true);
    forgets_and_waits(0);
    for (unsigned turns = 0; turns < 120 && !votes(0); turns++) {
        passes(0, 100);
        for (unsigned m = 0; m < 2; m++)
            if (is_asked(0, m))
                returns(0, m);
        if (is_asked(0, 2)) {
            rig.agents[0].asked[2].open = false;
            tell(0, (struct guard_event){.kind = GUARD_UNANSWERED, .master = 2});
        }
    }
    cr_assert(votes(0));
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_GUESSED);
}

/* ---- markers that are no good ---- */

Test(guard, numbers_that_nobody_granted_do_not_vote_and_are_no_witness)
{
    open_old_group(3, true);
    marker_set(rig.keys[1], "top", "1935000000000000"); /* in 2031 */
    lives(0, 1000);
    cr_assert_eq(state(0, 1), GUARD_SPOILED);
    cr_assert_str_empty(vote_of(0, 1));
    cr_assert_not(votes(1));
    forgets_and_waits(0);
    settle(0);
    cr_assert_not(votes(0));
    lives(0, 10500);
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_GUESSED);
    cr_assert_lt(field(0, "floor"), (uint64_t)1935000000000000, "it was not believed");
}

/* R12: A number is too far ahead by the agreed time. A master whose clock is days behind harms no
 * caller (D5.4). */
Test(guard, numbers_of_now_are_good_on_a_master_whose_clock_is_behind)
{
    char top[24];
    open_old_group(3, true);
    snprintf(top, sizeof(top), "%llu", (unsigned long long)WALL_US);
    marker_set(rig.keys[1], "top", top);
    rig.skew_ms[1] = -INT64_C(3) * 24 * 3600 * 1000;
    lives(0, 1000);
    cr_assert_eq(field(1, "top"), WALL_US);
    cr_assert_eq(state(0, 1), GUARD_VOTES);
    cr_assert(votes(1));
}

Test(guard, a_marker_that_lacks_a_field_is_none)
{
    open_old_group(3, true);
    marker_set(rig.keys[1], "told", "yes");
    lives(0, 1000);
    cr_assert_eq(state(0, 1), GUARD_RUNS);
    cr_assert_not(votes(1));
}

Test(guard, a_vote_that_the_marker_does_not_have_goes)
{
    open_old_group(3, true);
    char vote[GUARD_VOTE_BYTES];
    marker_set(rig.keys[1], "floor", "90");
    lives(0, 1000);
    cr_assert(stored_vote(rig.keys[1], vote));
    cr_assert_str_eq(vote, vote_of(0, 1));
    cr_assert_not_null(strstr(vote, ":0000000000000090"));
}

/* One master's nonsense is not carried on. */
Test(guard, a_max_ttl_that_no_agent_can_have_is_not_believed)
{
    open_old_group(3, true);
    marker_set(rig.keys[1], "max_ttl", "99999999");
    lives(0, 1000);
    flush(0);
    lives(0, 2000);
    cr_assert_leq(field(0, "max_ttl"), (uint64_t)TTL_MS_MAX);
}

/* ---- copies ---- */

Test(guard, a_copy_of_another_master_begins_anew)
{
    open_old_group(3, true);
    copy(1, 0);
    uint64_t number = 0;
    cr_assert_not(takes_lock(0, 1, 50, &number), "the vote is another master's");
    sees_guarded(0, 1);
    returns(0, 1);
    cr_assert_eq(state(0, 1), GUARD_RUNS);
    cr_assert_eq(state(0, 0), GUARD_VOTES);
    lives(0, 1000);
    cr_assert_eq(state(0, 0), GUARD_VOTES, "the original goes on");
    lives(0, GUARD_MS);
    cr_assert_eq(field(1, "told"), (uint64_t)GUARD_TOLD);
}

/* An agent that starts now asks both before either has answered. */
Test(guard, two_masters_with_one_epoch_never_vote_both)
{
    open_old_group(3, true);
    copy(1, 0);
    for (unsigned m = 0; m < 3; m++)
        greets(1, m, false);
    for (unsigned m = 0; m < 3; m++)
        returns(1, m);
    for (unsigned m = 0; m < 3; m++) {
        is_ready(1, m);
        cr_assert(!*vote_of(1, 0) || !*vote_of(1, 1), "after %u", m);
    }
    settle(1);
    cr_assert(*vote_of(1, 0) && !*vote_of(1, 1), "one goes on, and one alone begins anew");
    lives(1, 2000);
    cr_assert(*vote_of(1, 0) && *vote_of(1, 2) && !*vote_of(1, 1));
    lives(1, GUARD_MS);
    cr_assert_eq(field(1, "told"), (uint64_t)GUARD_TOLD);
}

/* The agent read both masters and was late. It asks both at once now. */
Test(guard, the_first_of_two_copies_goes_on_also_if_both_are_asked_at_once)
{
    open_old_group(3, true);
    copy(1, 0);
    for (unsigned m = 0; m < 3; m++)
        greets(1, m, false);
    for (unsigned m = 0; m < 3; m++)
        returns(1, m);
    for (unsigned m = 0; m < 3; m++)
        is_ready(1, m);
    passes(1, 1000);
    cr_assert(is_asked(1, 0) && is_asked(1, 1));
    settle(1);
    cr_assert_eq(state(1, 0), GUARD_VOTES);
    cr_assert_eq(state(1, 1), GUARD_RUNS);
}

Test(guard, a_copy_is_no_second_witness)
{
    open_old_group(3, true);
    flush(0);
    copy(2, 1);
    for (unsigned m = 0; m < 3; m++)
        greets(1, m, false);
    for (unsigned m = 0; m < 3; m++)
        returns(1, m);
    for (unsigned m = 0; m < 3; m++)
        is_ready(1, m);
    settle(1);
    cr_assert_eq(state(1, 2), GUARD_MISSING);
    lives(1, 600);
    cr_assert_eq(state(1, 1), GUARD_VOTES);
    cr_assert_eq(state(1, 2), GUARD_RUNS);
}

/* ---- clocks ---- */

/* The machine booted an hour ahead, and was set right. */
Test(guard, a_guard_that_began_in_the_future_lasts_no_longer)
{
    open_old_group(3, false);
    restart(0, true);
    rig.skew_ms[0] = 3600 * 1000;
    loses(0, 0);
    meet(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    lives(0, 1000);
    rig.skew_ms[0] = 0;
    lives(0, GUARD_MS + 1200);
    cr_assert(votes(0));
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_TOLD);
}

Test(guard, a_mistaken_max_ttl_falls_back)
{
    open_old_group(3, true);
    struct guard_answer answer;
    for (uint8_t m = 0; m < 3; m++)
        reach(1, &(struct guard_ask){.master = m, .question = GUARD_ASK_KEEP, .max_ttl_ms = 60000},
              &answer);
    lives(0, 69000);
    cr_assert_eq(field(0, "max_ttl"), 60000u, "a lease may run still");
    lives(0, 2 * 70000 - 69000 + 1000);
    for (unsigned m = 0; m < 3; m++)
        cr_assert_eq(field(m, "max_ttl"), (uint64_t)MAX_TTL_MS, "master %u", m);
}

/* D5.3: an agent that named 30 s may be gone, and its leases still run. */
Test(guard, a_mistaken_max_ttl_falls_back_to_the_longest_that_was_named_since)
{
    open_old_group(3, true);
    struct guard_answer answer;
    struct guard_ask ask = {.question = GUARD_ASK_KEEP, .max_ttl_ms = 60000};
    reach(1, &ask, &answer);
    lives(0, 72000);
    ask.max_ttl_ms = 30000;
    reach(1, &ask, &answer);
    lives(0, 72000);
    cr_assert_eq(field(0, "max_ttl"), 30000u);
}

/* D5.3: a mistaken max_ttl does not stay until the clock shows the old time again. */
Test(guard, a_mistaken_max_ttl_falls_back_though_the_clock_was_set_back)
{
    open_old_group(3, true);
    struct guard_answer answer;
    reach(1, &(struct guard_ask){.question = GUARD_ASK_KEEP, .max_ttl_ms = 60000}, &answer);
    rig.skew_ms[0] = -3600000;
    lives(0, 2 * 70000 + 2000);
    cr_assert_eq(field(0, "max_ttl"), (uint64_t)MAX_TTL_MS);
}

/* Each agent that comes learns the others' max_ttl before it greets the last master. */
Test(guard, agents_that_come_and_go_do_not_keep_a_mistaken_max_ttl_alive)
{
    open_old_group(3, true);
    struct guard_answer answer;
    for (uint8_t m = 0; m < 3; m++)
        reach(1, &(struct guard_ask){.master = m, .question = GUARD_ASK_KEEP, .max_ttl_ms = 60000},
              &answer);
    for (unsigned life = 0; life < 6; life++) {
        guard_init(&rig.agents[1].guard, 3, 2, true, MAX_TTL_MS);
        for (unsigned m = 0; m < 3; m++)
            meet(1, (m + life) % 3);
        lives(1, 30000);
        for (unsigned m = 0; m < 3; m++)
            loses(1, m);
    }
    for (unsigned m = 0; m < 3; m++)
        cr_assert_eq(field(m, "max_ttl"), (uint64_t)MAX_TTL_MS, "master %u", m);
}

Test(guard, max_ttl_is_the_own_for_those_that_vote_and_the_groups_for_the_others)
{
    open_old_group(3, true);
    struct guard_answer answer;
    reach(1, &(struct guard_ask){.master = 1, .question = GUARD_ASK_KEEP, .max_ttl_ms = 60000},
          &answer);
    lives(0, 1000);
    flush(0);
    sees_guarded(0, 0);
    returns(0, 0);
    passes(0, 900);
    cr_assert_eq(question(0, 0)->max_ttl_ms, 60000u, "it does not vote");
    cr_assert_eq(question(0, 1)->max_ttl_ms, (uint32_t)MAX_TTL_MS);
    cr_assert_eq(question(0, 2)->max_ttl_ms, (uint32_t)MAX_TTL_MS);
}

/* ---- numbers ---- */

Test(guard, the_question_behind_a_number_lifts_the_top)
{
    open_old_group(3, true);
    uint64_t number = 0, lifted = 40000000 + 2000000;
    guard_numbers(&rig.agents[0].guard, 1u << 0 | 1u << 1, 40000000);
    lives(0, 1000);
    cr_assert_eq(guard_top(&rig.agents[0].guard, 0), lifted);
    cr_assert_eq(field(1, "top"), lifted);
    cr_assert_eq(field(2, "top"), 100u);
    cr_assert(takes_lock(0, 0, 40000001, &number));
    cr_assert_eq(field(0, "top"), lifted, "nothing more is written");
    cr_assert_eq(number, 40000001u);
}

Test(guard, an_acquire_lifts_the_top_where_no_question_has)
{
    open_old_group(3, true);
    uint64_t number = 0;
    cr_assert(takes_lock(0, 2, 40000000, &number));
    cr_assert_geq(field(2, "top"), number);
}

/* The agent does not know the floor. */
Test(guard, a_number_is_above_the_floor_also_if_the_agent_does_not_know_it)
{
    open_old_group(3, true);
    marker_set(rig.keys[1], "top", "7000");
    forgets_and_waits(0);
    settle(0);
    meet(1, 0);
    rig.agents[1].guard.floor = 0;
    uint64_t number = 0;
    char vote[ASKING_VOTE_BYTES];
    struct script_lock lock = {.agent = 1, .attempt = 1, .number = 5, .ttl_ms = 1000};
    script_vote(&rig.agents[0].guard, 0, 5, vote);
    cr_assert_eq(script_acquire(rig.keys[0], wall_ms(0), &lock, vote, &number), SAYS_YES);
    cr_assert_eq(number, 7001u);
}

/* ---- connections ---- */

/* The core's own script is the first to meet the change. */
Test(guard, what_the_cores_scripts_meet_is_looked_at_at_once)
{
    open_old_group(5, true);
    flush(0);
    sees_guarded(0, 0);
    cr_assert(is_asked(0, 0));
    sees_guarded(0, 1);
    cr_assert(is_asked(0, 1));
    cr_assert_not(is_asked(0, 2));
    tell(0, (struct guard_event){
                .kind = GUARD_SEES_EPOCH, .master = 2, .answer = {.epoch = "00000000000000aa"}});
    cr_assert(is_asked(0, 2));
    settle(0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_eq(state(0, 1), GUARD_VOTES);
}

/* The reading of the earlier epoch does not count for the new one. */
Test(guard, a_master_of_a_new_epoch_is_not_seen_until_it_answers)
{
    open_old_group(3, true);
    cr_assert_str_not_empty(guard_vote(&rig.agents[0].guard, 2));
    tell(0, (struct guard_event){
                .kind = GUARD_SEES_EPOCH, .master = 2, .answer = {.epoch = "00000000000000aa"}});
    cr_assert_eq(state(0, 2), GUARD_MISSING);
    cr_assert_str_empty(guard_vote(&rig.agents[0].guard, 2));
}

/* D5.3: An operator who trusts a restarted master ends its guard for the present run. The earlier
 * run that the operator looked at is not trusted. */
Test(guard, trust_counts_for_the_run_that_it_meets)
{
    struct guard_ask ask = {
        .question = GUARD_ASK_TRUST, .max_ttl_ms = MAX_TTL_MS, .top = 100, .told = GUARD_TOLD};
    struct guard_answer answer;
    open_old_group(3, false);
    struct guard_ask look = {.question = GUARD_ASK_KEEP, .max_ttl_ms = MAX_TTL_MS};
    reach(0, &look, &answer);
    memcpy(ask.epoch, answer.epoch, sizeof(ask.epoch));
    rig.servers[0]++;
    reach(0, &ask, &answer);
    cr_assert_not(votes(0), "it has restarted since");
    cr_assert_str_neq(answer.epoch, ask.epoch);
    ask.epoch[0] = '\0';
    reach(0, &ask, &answer);
    cr_assert(votes(0));
    look.question = GUARD_ASK_RESTART;
    reach(0, &look, &answer);
    cr_assert_eq(answer.left_ms, 0);
    cr_assert(votes(0), "the run is the one that was trusted");
}

/* Acquires in flight with the earlier vote come back behind the new one. If they cleared the known
 * vote, the next ones would name no vote, and so on without end. */
Test(guard, late_refusals_do_not_clear_the_vote_that_was_read_since)
{
    open_old_group(3, true);
    marker_set(rig.keys[0], "floor", "90");
    sees_guarded(0, 0);
    for (unsigned turns = 0; turns < 10; turns++) {
        returns(0, 0);
        cr_assert(*vote_of(0, 0), "turn %u", turns);
        sees_guarded(0, 0);
        cr_assert(*vote_of(0, 0), "turn %u: an acquire that is sent now names it", turns);
        if (!is_asked(0, 0))
            break;
    }
}

Test(guard, a_refused_marker_makes_a_master_unsure_until_it_was_written)
{
    open_old_group(3, true);
    rig.agents[0].epochs = 0;
    loses(0, 1);
    greets(0, 1, false);
    is_refused(0, 1);
    is_ready(0, 1);
    cr_assert_eq(state(0, 1), GUARD_UNSURE);
    cr_assert_str_empty(vote_of(0, 1));
    cr_assert_eq(rig.agents[0].epochs, 1u << 1, "whatever was confirmed may be forgotten");
    lives(0, 1000);
    cr_assert_eq(state(0, 1), GUARD_VOTES);
}

/* INFO is not allowed. The server was restarted with its data and could not write its marker; then
 * it was LOADING for a moment, so the greeting began anew. */
Test(guard, an_unsure_master_is_asked_for_a_new_epoch_also_on_the_same_connection)
{
    rig.hides_run = true;
    open_old_group(3, false);
    lives(0, GUARD_MS + 1200); /* each new connection is as a restart then */
    restart(1, true);
    loses(0, 1);
    greets(0, 1, false);
    is_refused(0, 1);
    is_ready(0, 1);
    tell(0, (struct guard_event){.kind = GUARD_AWAY, .master = 1});
    greets(0, 1, /* same_connection= */ true);
    cr_assert_eq(question(0, 1)->question, GUARD_ASK_RESTART);
    returns(0, 1);
    is_ready(0, 1);
    cr_assert_eq(state(0, 1), GUARD_RUNS);
    tell(0, (struct guard_event){.kind = GUARD_AWAY, .master = 1});
    greets(0, 1, /* same_connection= */ true);
    cr_assert_eq(question(0, 1)->question, GUARD_ASK_KEEP, "now it was written");
}

Test(guard, another_run_is_a_new_epoch_unless_the_group_is_durable)
{
    open_old_group(3, false);
    restart(0, true);
    loses(0, 0);
    meet(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_eq(left_ms(0, 0), GUARD_MS);
    close_rig();
    open_old_group(3, true);
    restart(0, true);
    loses(0, 0);
    meet(0, 0);
    cr_assert_eq(state(0, 0), GUARD_VOTES);
}

/* INFO is not allowed, so the server may be another run behind each new connection. */
Test(guard, a_new_connection_is_a_new_epoch_if_the_run_is_not_known)
{
    rig.hides_run = true;
    open_old_group(3, false);
    lives(0, GUARD_MS + 1200);
    cr_assert_eq(state(0, 0), GUARD_VOTES);
    loses(0, 0);
    greets(0, 0, /* same_connection= */ false);
    cr_assert_eq(question(0, 0)->question, GUARD_ASK_RESTART);
    returns(0, 0);
    is_ready(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_not(votes(0));
}

/* The server's replication id, and its second one ("": zeros). */
static void has_replid(unsigned m, const char *replid, const char *second)
{
    snprintf(rig.keys[m]->replid, sizeof(rig.keys[m]->replid), "%s", replid);
    snprintf(rig.keys[m]->replid2, sizeof(rig.keys[m]->replid2), "%s", second);
}

Test(guard, a_server_that_followed_another_one_has_forgotten)
{
    open_old_group(3, false);
    has_replid(0, REPLID_A, "");
    lives(0, 1000);
    has_replid(0, REPLID_B, ""); /* its first replica */
    lives(0, 1000);
    cr_assert_eq(state(0, 0), GUARD_VOTES);
    has_replid(0, REPLID_A, REPLID_B);
    lives(0, 1000);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_not(votes(0));
}

/* The same server, and all within a second: no agent has asked it since. */
Test(guard, an_acquire_notices_that_the_master_has_followed_its_replica)
{
    uint64_t number = 0;
    open_rig(1, 1, false);
    has_replid(0, REPLID_A, "");
    rig.agents[0].guard.has_replicas = true;
    meet(0, 0);
    lives(0, 2 * GUARD_MS);
    cr_assert_eq(vote_of(0, 0)[0], '@');
    cr_assert(takes_lock(0, 0, WALL_US + 60000000, &number));
    has_replid(0, REPLID_B, REPLID_A);
    cr_assert_not(takes_lock(0, 0, WALL_US + 60000001, &number));
    sees_guarded(0, 0);
    returns(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
}

/* ---- lockagent trust --new ---- */

#define OWN "lockagent:new:1"

static const char *calls_new(unsigned m, const char *call)
{
    return script_new(rig.keys[m], wall_ms(m), call, OWN);
}

Test(guard, a_new_master_votes_after_three_calls)
{
    open_rig(1, 1, false);
    cr_assert_str_eq(calls_new(0, "claim"), "new");
    rig.now_ms += 2000;
    cr_assert_str_eq(calls_new(0, "look"), "new");
    cr_assert_not(votes(0));
    cr_assert_str_eq(calls_new(0, "vote"), "new");
    cr_assert(votes(0));
    cr_assert_str_eq(calls_new(0, "claim"), "votes");
}

/* The locks that were granted there since the first call are lost as well. */
Test(guard, a_new_master_that_has_forgotten_the_key_of_the_run_gets_no_vote)
{
    open_rig(2, 2, false);
    for (unsigned m = 0; m < 2; m++)
        cr_assert_str_eq(calls_new(m, "claim"), "new");
    flush(0);
    cr_assert_str_eq(calls_new(0, "look"), "lost");
    cr_assert_str_eq(calls_new(1, "look"), "new");
    flush(1);
    cr_assert_str_eq(calls_new(1, "vote"), "lost");
    cr_assert_not(votes(1));
}

/* The key of a run that was stopped for long has ended by itself. */
Test(guard, a_run_of_long_ago_gives_no_vote)
{
    open_rig(1, 1, false);
    calls_new(0, "claim");
    rig.now_ms += 5001;
    cr_assert_str_eq(calls_new(0, "vote"), "lost");
    cr_assert_not(votes(0));
}

Test(guard, an_agents_marker_stops_each_call_for_a_new_master)
{
    static const char *const calls[] = {"claim", "look", "vote"};
    for (unsigned i = 0; i < 3; i++) {
        open_rig(1, 1, false);
        calls_new(0, "claim");
        meet(0, 0);
        cr_assert_str_eq(calls_new(0, calls[i]), "marked");
        cr_assert_not(votes(0));
        close_rig();
    }
}

Test(guard, a_settled_master_is_not_asked_before_it_is_due)
{
    open_old_group(3, true);
    lives(0, 900);
    passes(0, 899);
    for (unsigned m = 0; m < 3; m++)
        cr_assert_not(is_asked(0, m));
    passes(0, 1);
    for (unsigned m = 0; m < 3; m++)
        cr_assert(is_asked(0, m));
}

Test(guard, the_deadline_is_never_while_no_master_can_be_asked)
{
    open_rig(3, 2, true);
    cr_assert_eq(guard_deadline(&rig.agents[0].guard).us, INSTANT_NEVER.us);
    meet(0, 0);
    cr_assert_eq(guard_deadline(&rig.agents[0].guard).us, (rig.now_ms + 900) * 1000);
}
