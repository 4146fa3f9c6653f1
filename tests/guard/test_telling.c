/* Masters that forgot are told the numbers, or vote by a guess (D5.3). */
#include "tests/guard/rig.h"

TestSuite(guard_telling, .init = break_script, .fini = close_rig);

/* ---- telling ---- */

Test(guard_telling, a_master_is_told_by_w_others)
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

/* Found with a marker that another client had written: two agents asked 7,000 times a second. */
Test(guard_telling, a_master_that_is_told_and_does_not_vote_is_told_again_later)
{
    open_old_group(5, true);
    forgets_and_waits(0);
    for (unsigned m = 1; m <= 3; m++)
        returns(0, m);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(question(0, 0)->question, GUARD_ASK_TELL);
        arrives(0, 0);
        rig.agents[0].asked[0].answer.told = GUARD_NOT_TOLD;
        rig.agents[0].asked[0].answer.vote[0] = '\0';
        returns(0, 0);
        cr_assert_not(is_asked(0, 0));
        passes(0, GUARD_TICK_MS - 1);
        cr_assert_not(is_asked(0, 0));
        passes(0, 1);
    }
}

Test(guard_telling, one_witness_is_enough_if_all_must_agree)
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

Test(guard_telling, w_minus_one_are_too_few)
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
Test(guard_telling, an_answer_to_an_earlier_question_does_not_count)
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
Test(guard_telling, an_answer_of_before_it_forgot_again_does_not_count)
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
Test(guard_telling, a_witness_that_is_away_does_not_count_until_it_answers_anew)
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
Test(guard_telling, a_master_that_was_away_waits_anew_for_the_others)
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

Test(guard_telling, a_master_that_was_not_told_is_no_witness)
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

Test(guard_telling, a_tell_of_another_epoch_does_nothing)
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
Test(guard_telling, a_master_that_is_told_twice_keeps_what_it_was_told_first)
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

Test(guard_telling, a_tell_while_the_guard_is_longer_by_now_does_nothing)
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
Test(guard_telling, a_longer_max_ttl_of_the_witnesses_makes_the_guard_longer)
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

Test(guard_telling, what_is_told_lies_below_the_own_top)
{
    open_old_group(3, true);
    guard_numbers(&rig.agents[0].guard, 1u << 0, 9000000);
    forgets_and_waits(0);
    settle(0);
    cr_assert_eq(field(0, "top"), 11000000u, "lifted by the question behind the number");
    cr_assert_eq(field(0, "floor"), 11000000u);
}

/* ---- guessing ---- */

Test(guard_telling, a_guess_is_made_at_once_if_all_have_forgotten)
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

Test(guard_telling, a_guess_else_waits_for_ten_seconds)
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
Test(guard_telling, a_guess_is_of_all_that_the_agent_knows)
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
    lives(0, IDLE_MS + GUARD_MS + 12500);
    cr_assert_eq(field(0, "floor"), 60000000u);
    flush(0);
    guard_numbers(&rig.agents[0].guard, 0, 70000000);
    lives(0, IDLE_MS + GUARD_MS + 12500);
    cr_assert_eq(field(0, "floor"), 70000000u);
}

Test(guard_telling, a_master_that_voted_by_a_guess_is_a_witness_from_then_on)
{
    open_old_group(3, true);
    loses(0, 2);
    forgets_and_waits(0);
    lives(0, 10500);
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_GUESSED);
    flush(1);
    meet(0, 2);
    lives(0, IDLE_MS + GUARD_MS + 2200);
    cr_assert_eq(field(1, "told"), (uint64_t)GUARD_TOLD);
}

/* The agent was stopped for ten seconds, and the answers are unread. */
Test(guard_telling, an_agent_that_stood_still_does_not_guess_before_it_has_heard)
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
Test(guard_telling, an_agent_that_stood_still_does_not_guess_from_what_it_heard_before)
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
Test(guard_telling, a_witness_that_answers_nothing_does_not_stop_a_guess)
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
