/* Hand-overs and the turns of agents (R9) as timelines. */
#include "core_rig.h"

enum { PAUSE_MS = 60000 }; /* no back-off ends within a test */

/* ---- hand-over ------------------------------------------------------------------------------- */

/* Begins with a hold of "k" here, for which requests 1, 2, ... wait. */
static struct token begin_handing(uint32_t handover_max, uint32_t waiters)
{
    prepare(5);
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = PAUSE_MS;
    rig.policy.handover_max = handover_max;
    rig.config.waiters_max = 40;
    begin();
    struct token token = hold("k");
    for (uint32_t request = 1; request <= waiters; request++)
        acquire_as(request, "k", .wait_ms = 300000);
    expect_nothing();
    return token;
}

/* Lets the masters confirm the hand-over. */
static void hand(master_set masters, uint32_t agents)
{
    reply_with(OP_HANDOVER, masters,
               (struct event_reply){.vote = VOTE_YES,
                                    .fence = rig.sent[OP_HANDOVER].token.fence,
                                    .agents = agents,
                                    .is_deleted = true});
}

Test(handover, r9_a_release_gives_the_key_to_the_next_waiter_in_one_round_trip)
{
    struct token token = begin_handing(16, 2);
    at_ms(10), release(63, "k", token);
    expect_send(OP_HANDOVER, ALL);
    expect_nothing(); /* no release besides */
    cr_assert(token_same_random(&rig.sent[OP_HANDOVER].previous, &token));
    cr_assert_not(token_same_random(&rig.sent[OP_HANDOVER].token, &token));
    at_ms(11), hand(0x03, 0);
    expect_nothing();
    hand(0x04, 0);
    expect_answer(63, ANSWER_RELEASED);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_gt(rig.answer.hold.token.fence, token.fence);
    cr_assert(token_same_random(&rig.answer.hold.token, &rig.sent[OP_HANDOVER].token));
    hand(0x18, 0);
    at_ms(1000);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->debt[0][3], 0);
    cr_assert_eq(core_stats(rig.core)->waiters, 1);
}

/* R5, R6: if the hand-over fails, both tokens are released. */
Test(handover, r9_without_a_quorum_both_tokens_are_released)
{
    struct token token = begin_handing(16, 1);
    at_ms(10), release(63, "k", token);
    expect_send(OP_HANDOVER, ALL);
    hand(0x03, 0);
    at_ms(60); /* the others are silent */
    expect_send(OP_RELEASE, ALL);
    struct token undone = rig.sent[OP_RELEASE].token;
    cr_assert_not(token_same_random(&undone, &token));
    reply(OP_RELEASE, ALL, VOTE_YES);
    cr_assert(core_stats(rig.core)->debt[0][2] == 1 && core_stats(rig.core)->debt[0][0] == 0);
    let_time_pass_until(OP_RELEASE, 3000);
    expect_answer(63, ANSWER_RELEASE_PENDING);
    expect_send(OP_RELEASE, 0x1c);
    cr_assert(token_same_random(&rig.sent[OP_RELEASE].token, &token));
    cr_assert_not(is_listed("k"));
}

/* Its lease had run out on those masters, and another agent has the key now. */
Test(handover, r9_what_another_holder_has_is_not_handed_over)
{
    struct token token = begin_handing(16, 1);
    at_ms(10), release(63, "k", token);
    expect_send(OP_HANDOVER, ALL);
    reply_with(OP_HANDOVER, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    expect_nothing();
    reply_with(OP_HANDOVER, 0x18, held_for(50000));
    expect_answer(63, ANSWER_RELEASED); /* the token is on no master any more */
    cr_assert_eq(core_stats(rig.core)->waiters, 1);
}

Test(handover, r9_a_script_that_was_flushed_is_asked_for_again)
{
    struct token token = begin_handing(16, 1);
    at_ms(10), release(63, "k", token);
    expect_send(OP_HANDOVER, ALL);
    struct send_item first = rig.sent[OP_HANDOVER];
    reply(OP_HANDOVER, 0x01, VOTE_NOT_RUN);
    expect_send(OP_HANDOVER, 0x01);
    cr_assert(token_same_random(&rig.sent[OP_HANDOVER].previous, &first.previous));
    hand(0x07, 0);
    expect_answer(63, ANSWER_RELEASED);
    expect_answer(1, ANSWER_GRANTED);
}

/* R6. Found by the simulator: the next holder's lease had ended before a silent master's reply to
 * the hand-over came. The longer lease of the previous holder was not taken into account. */
Test(handover, r6_the_old_token_is_owed_for_as_long_as_its_own_lease)
{
    prepare(5);
    rig.policy.handover_max = 16;
    begin();
    struct token token = hold_as("k", .ttl_ms = 20000);
    acquire_as(1, "k", .wait_ms = 300000, .ttl_ms = 1000);
    at_ms(10), release(63, "k", token);
    expect_send(OP_HANDOVER, ALL);
    hand(0x0f, 0);
    expect_answer(63, ANSWER_RELEASED);
    expect_answer(1, ANSWER_GRANTED);
    release(2, "k", rig.answer.hold.token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    at_ms(600);
    expect_send(OP_RELEASE, 0x10);
    cr_assert(token_same_random(&rig.sent[OP_RELEASE].token, &token));
}

Test(handover, r9_a_heir_that_goes_away_leaves_nothing_behind)
{
    struct token token = begin_handing(16, 1);
    at_ms(10), release(63, "k", token);
    expect_send(OP_HANDOVER, ALL);
    at_ms(11), cancel(1);
    expect_send(OP_RELEASE, ALL); /* behind the hand-over, so it finds the new token */
    cr_assert_not(token_same_random(&rig.sent[OP_RELEASE].token, &token));
    hand(ALL, 0);
    expect_answer(63, ANSWER_RELEASED);
    reply(OP_RELEASE, ALL, VOTE_YES);
    at_ms(1000);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 0);
}

/* Hands "k" over once, and returns the new holder's token. */
static struct token hand_on(struct token token, uint32_t heir, uint32_t agents)
{
    release(63, "k", token);
    expect_send(OP_HANDOVER, ALL);
    at_us(rig.now_us + 1000);
    hand(ALL, agents);
    expect_answer(63, ANSWER_RELEASED);
    expect_answer(heir, ANSWER_GRANTED);
    return rig.answer.hold.token;
}

Test(handover, r9_after_handover_max_the_others_have_their_chance)
{
    struct token token = begin_handing(2, 4);
    token = hand_on(token, 1, 2); /* two other agents wait */
    token = hand_on(token, 2, 2);
    at_ms(100), release(63, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_RELEASED);
    expect_nothing(); /* it sits out */
    let_time_pass_until(OP_ACQUIRE, 100);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_gt(rig.now_us, 100000);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
    hand_on(rig.answer.hold.token, 4, 2); /* the count begins again */
}

/* A caller that tries once meanwhile, and finds the lock table full, takes no waiter's turn. */
Test(handover, r9_who_sits_out_is_not_forgotten_where_the_core_is_full)
{
    prepare(5);
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = PAUSE_MS;
    rig.policy.handover_max = 1;
    rig.config.locks_max = 3;
    begin();
    struct token token = hold("k");
    acquire_as(1, "k", .wait_ms = 300000), acquire_as(2, "k", .wait_ms = 300000);
    token = hand_on(token, 1, 2);
    at_ms(100), release(63, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_RELEASED);
    expect_nothing(); /* it sits out */
    acquire(10, "a"), acquire(11, "b"), acquire(12, "c"), acquire(13, "k");
    expect_answer(13, ANSWER_TOO_MANY_LOCKS);
    for (uint32_t request = 10; request <= 12; request++) {
        expect_send(OP_ACQUIRE, ALL);
        reply(OP_ACQUIRE, ALL, VOTE_TAKEN);
        expect_answer(request, ANSWER_LOCK_HELD);
    }
    let_time_pass_until(OP_ACQUIRE, 100);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
}

Test(handover, r9_where_nobody_else_waits_it_goes_on)
{
    struct token token = begin_handing(2, 10);
    for (uint32_t heir = 1; heir <= 10; heir++)
        token = hand_on(token, heir, 0);
}

/* R9: an attempt before the grant found no quorum. A wait that ends beside the hand-over is told
 * that the lock is held. */
Test(handover, r9_a_wait_that_ends_beside_it_is_not_told_of_an_old_failure)
{
    prepare(5);
    rig.policy.handover_max = 16;
    begin();
    acquire_as(1, "k", .wait_ms = 60000);
    expect_send(OP_ACQUIRE, ALL);
    at_ms(60); /* no master answers */
    rig.count = 0;
    let_time_pass_until(OP_ACQUIRE, 1000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    struct token token = rig.answer.hold.token;
    at_ms(2000), acquire_as(2, "k", .wait_ms = 60000);
    acquire_as(3, "k", .wait_ms = 100);
    at_ms(2080), release(4, "k", token);
    expect_send(OP_HANDOVER, ALL);
    at_ms(2100);
    expect_answer(3, ANSWER_WAIT_TIMEOUT);
}

Test(handover, a_draining_agent_hands_nothing_over)
{
    struct token token = begin_handing(16, 1);
    step((struct event){.kind = EVENT_DRAIN});
    expect_answer(1, ANSWER_DRAINING);
    release(63, "k", token);
    expect_send(OP_RELEASE, ALL);
    expect_nothing();
}

/* A late reply to the hand-over decides the release of the previous holder. The next holder has
 * ended long before and makes room for that release. */
Test(handover, an_heir_that_is_forgotten_while_its_predecessor_ends)
{
    enum { LOCKS = 4 };
    prepare(5);
    rig.policy.handover_max = 16;
    rig.config.locks_max = LOCKS;
    begin();
    struct token token = hold("k");
    acquire_as(1, "k", .wait_ms = 60);
    release(62, "k", token);
    expect_send(OP_HANDOVER, ALL);
    at_ms(70);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    for (uint32_t i = 0; i < LOCKS - 1; i++) {
        const char *const names[] = {"a", "b", "c"};
        rig.count = 0;
        acquire(10 + i, names[i]);
        expect_send(OP_ACQUIRE, ALL);
        reply(OP_ACQUIRE, 0x07, VOTE_TAKEN); /* two masters have not answered yet */
        expect_answer(10 + i, ANSWER_LOCK_HELD);
    }
    reply_with(OP_HANDOVER, 0x07, (struct event_reply){.vote = VOTE_TAKEN, .is_deleted = true});
    expect_answer(62, ANSWER_RELEASED);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Asks for another key until a round trip is known to be 16 ms. */
static void learn_round_trip(void)
{
    for (uint32_t i = 0; i < 12; i++) {
        acquire(40, "other");
        expect_send(OP_ACQUIRE, ALL);
        at_us(rig.now_us + 16000);
        reply(OP_ACQUIRE, 0x07, VOTE_TAKEN);
        expect_answer(40, ANSWER_LOCK_HELD);
        expect_send(OP_RELEASE, 0x18);
        reply(OP_RELEASE, 0x18, VOTE_ABSENT);
    }
}

/* Lets the contender's attempt find that another agent has the key. */
static void come_second(void)
{
    expect_send(OP_ACQUIRE, ALL);
    at_us(rig.now_us + 16000);
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
}

/* Begins as one of three agents that wait for "k" all the time. This one has had its turn, and its
 * requests 3 to 6 wait. */
static void begin_behind_others(void)
{
    struct token token = begin_handing(2, 6);
    token = hand_on(token, 1, 2), token = hand_on(token, 2, 2); /* it does not listen itself yet */
    release(63, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_RELEASED);
    let_time_pass_until(OP_ACQUIRE, 200);
    come_second();
    expect_channel(EFFECT_WATCH);
    learn_round_trip();
}

/* Ends the turn of another agent. Returns how long this one waits until it tries, and comes
 * second. */
static int64_t pause_after_message_us(uint32_t agents)
{
    channel("k", EVENT_MESSAGE, 0x07, agents);
    int64_t heard_us = rig.now_us;
    let_time_pass_until(OP_ACQUIRE, 200);
    int64_t pause_us = rig.now_us - heard_us;
    come_second();
    return pause_us;
}

enum { A_TURN_US = 30000, NO_TURN_US = 9000 };

Test(turns, r9_who_has_waited_for_longest_comes_first)
{
    begin_behind_others();
    cr_assert_geq(pause_after_message_us(3), A_TURN_US); /* one is ahead still */
    for (int i = 0; i < 5; i++)
        cr_assert_leq(pause_after_message_us(3), NO_TURN_US);
}

/* R9, C11: an agent that hands nothing over does not take the key again before others can. */
Test(turns, r9_without_hand_overs_a_turn_ends_with_each_hold)
{
    struct token token = begin_handing(0, 2);
    at_ms(10), release(63, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_RELEASED);
    int64_t released_us = rig.now_us;
    let_time_pass_until(OP_ACQUIRE, 200);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_geq(rig.now_us - released_us, 1000);
}

Test(turns, r9_the_line_is_as_long_as_there_are_agents)
{
    begin_behind_others();
    channel("k", EVENT_MESSAGE, 0x07, 3);
    let_time_pass_until(OP_ACQUIRE, 200);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
    struct token token = hand_on(rig.answer.hold.token, 4, 5);
    token = hand_on(token, 5, 5);
    release(63, "k", token); /* four others listen, and this agent is behind them now */
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_RELEASED);
    channel("k", EVENT_MESSAGE, 0x07, 5); /* this message is that of its own turn */
    let_time_pass_until(OP_ACQUIRE, 300);
    come_second();
    learn_round_trip();
    cr_assert_geq(pause_after_message_us(5), 3 * A_TURN_US);
    cr_assert_geq(pause_after_message_us(5), 2 * A_TURN_US);
    cr_assert_leq(pause_after_message_us(2), NO_TURN_US); /* the others have left */
}

/* Several may believe to be first. */
Test(turns, r9_who_is_first_in_line_tries_in_no_certain_moment)
{
    int64_t longest_us = 0, shortest_us = INT64_MAX;
    begin_behind_others();
    pause_after_message_us(3); /* it is first now */
    for (int i = 0; i < 6; i++) {
        int64_t pause_us = pause_after_message_us(3);
        longest_us = pause_us > longest_us ? pause_us : longest_us;
        shortest_us = pause_us < shortest_us ? pause_us : shortest_us;
    }
    cr_assert_geq(longest_us - shortest_us, 2000);
}

/* This agent is one of the listeners itself. */
Test(turns, r9_whose_fellows_have_left_need_not_end_its_turn)
{
    begin_behind_others();
    channel("k", EVENT_MESSAGE, 0x07, 1);
    let_time_pass_until(OP_ACQUIRE, 200);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
    struct token token = hand_on(rig.answer.hold.token, 4, 1);
    token = hand_on(token, 5, 1);
    release(63, "k", token);
    expect_send(OP_HANDOVER, ALL);
}

/* A master may report any number of listeners. */
Test(turns, r9_nobody_sits_out_for_longer_than_two_seconds_and_some_round_trips)
{
    struct token token = begin_handing(2, 6);
    token = hand_on(token, 1, 60000), token = hand_on(token, 2, 60000);
    release(63, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_RELEASED);
    at_us(rig.now_us + 2010000);
    come_second();
    expect_channel(EFFECT_WATCH);
}

/* The agent keeps no turn for later callers. */
Test(turns, r9_where_nobody_waited_the_line_is_forgotten)
{
    int64_t longest_us = 0;
    begin_behind_others();
    pause_after_message_us(3); /* it is first now */
    for (uint32_t request = 3; request <= 6; request++)
        cancel(request);
    expect_channel(EFFECT_UNWATCH);
    acquire_as(7, "k", .wait_ms = 300000);
    come_second();
    expect_channel(EFFECT_WATCH);
    for (int i = 0; i < 5; i++) {
        int64_t pause_us = pause_after_message_us(10);
        longest_us = pause_us > longest_us ? pause_us : longest_us;
    }
    cr_assert_gt(longest_us, A_TURN_US);
}
