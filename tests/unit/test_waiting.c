/* Waiting (R9) as timelines: the queue of a key, its contender, and messages. */
#include "core_rig.h"

/* ---- the queue ------------------------------------------------------------------------------- */

Test(wait, ends_exactly_at_its_deadline)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .wait_ms = 333);
    for (int64_t t = 0; rig.now_us < 333000; t += 10) { /* another agent holds the key throughout */
        for (size_t i = 0; i < rig.count; i++)
            if (rig.records[i].effect.kind == EFFECT_SEND &&
                rig.records[i].effect.send.op == OP_ACQUIRE && !rig.records[i].expected) {
                expect_send(OP_ACQUIRE, ALL);
                reply(OP_ACQUIRE, 0x07, VOTE_TAKEN);
                expect_send(OP_RELEASE, 0x18);
                if (t == 0)
                    expect_channel(EFFECT_WATCH);
            }
        expect_nothing();
        at_us(t * 1000 < 332999 ? t * 1000 : 332999);
        if (t * 1000 > 332999)
            break;
    }
    at_us(333000);
    expect_answer(1, ANSWER_WAIT_TIMEOUT);
    expect_channel(EFFECT_UNWATCH);
    cr_assert_eq(rig.answer.waited_us, 333000);
    cr_assert_eq(core_stats(rig.core)->waiters, 0);
}

Test(wait, ends_as_unavailable_where_the_masters_are)
{
    begin_five();
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    at_ms(0), acquire_as(1, "k", .wait_ms = 100);
    at_us(99999);
    expect_nothing();
    at_ms(100);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}

Test(wait, behind_this_agents_own_hold_is_a_queue_in_order)
{
    begin_five();
    struct token token = hold("k");
    at_ms(1), acquire(1, "k");
    expect_answer(1, ANSWER_LOCK_HELD); /* at once, without a question to a master */
    acquire_as(2, "k", .wait_ms = 60000);
    acquire_as(3, "k", .wait_ms = 60000);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->waiters, 2);
    at_ms(100), release(4, "k", token);
    expect_send(OP_RELEASE, ALL);
    at_ms(101), reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(4, ANSWER_RELEASED);
    let_time_pass_until(OP_ACQUIRE, 100);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
    cr_assert_eq(core_stats(rig.core)->waiters, 1);
    uint32_t cursor = 0;
    struct wait_view wait;
    cr_assert(core_next_wait(rig.core, &cursor, &wait));
    cr_assert_eq(wait.since.us - rig.epoch_us, 1000);
    cr_assert(wait.key.len == 1 && *wait.key.at == 'k');
    cr_assert(wait.label.len == 2 && memcmp(wait.label.at, "me", 2) == 0);
    cr_assert_eq(wait.mode, MODE_WRITE);
    cr_assert_not(core_next_wait(rig.core, &cursor, &wait));
}

Test(wait, too_many_waiters)
{
    begin_five();
    hold("k");
    for (uint32_t request = 1; request <= 4; request++)
        acquire_as(request, "k", .wait_ms = 1000);
    expect_nothing();
    acquire_as(5, "k", .wait_ms = 1000);
    expect_answer(5, ANSWER_TOO_MANY_WAITERS);
}

Test(wait, tries_again_no_later_than_the_back_off)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .wait_ms = 60000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_TAKEN); /* 700 ms are left there, the back-off is 50 ms */
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    expect_nothing();
    let_time_pass_until(OP_ACQUIRE, 75);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.waited_us, rig.now_us);
}

Test(wait, a_caller_that_went_away_is_never_granted_the_lock)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    at_ms(1), reply(OP_ACQUIRE, 0x03, VOTE_YES);
    at_ms(2), cancel(1);
    expect_send(OP_RELEASE, ALL);
    at_ms(3), reply(OP_ACQUIRE, 0x1c, VOTE_YES);
    at_ms(1000);
    for (size_t i = 0; i < rig.count; i++)
        cr_assert_neq(rig.records[i].effect.kind, EFFECT_ANSWER);
    cr_assert_not(is_listed("k"));
}

Test(wait, the_next_one_takes_over_when_the_first_goes_away)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .wait_ms = 60000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_TAKEN);
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    acquire_as(2, "k", .wait_ms = 60000);
    expect_nothing();
    at_ms(10), cancel(1);
    let_time_pass_until(OP_ACQUIRE, 100);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
}

/* R9: each next waiter begins with the shortest pause, however long earlier waiters have tried. */
Test(wait, r9_a_grant_ends_the_growing_pauses)
{
    prepare(5);
    rig.policy.retry_min_ms = 50;
    rig.policy.retry_max_ms = 5000;
    rig.policy.handover_max = 0;
    begin();
    acquire_as(1, "k", .wait_ms = 60000);
    acquire_as(2, "k", .wait_ms = 60000);
    for (unsigned tries = 0; tries < 8; tries++) {
        let_time_pass_until(OP_ACQUIRE, 6000);
        expect_send(OP_ACQUIRE, ALL);
        reply(OP_ACQUIRE, ALL, VOTE_UNKNOWN);
        rig.count = 0;
    }
    let_time_pass_until(OP_ACQUIRE, 6000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    release(3, "k", rig.answer.hold.token);
    rig.count = 0;
    let_time_pass_until(OP_ACQUIRE, 100);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_UNKNOWN);
    rig.count = 0;
    let_time_pass_until(OP_ACQUIRE, 200);
}

Test(wait, a_grant_that_was_not_delivered_is_released)
{
    begin_five();
    hold("k");
    struct event event = {.kind = EVENT_UNDELIVERED};
    event.undelivered.lock = rig.answer.lock;
    at_ms(5), step(event);
    expect_send(OP_RELEASE, ALL);
    expect_trace(TRACE_RELEASED);
    expect_nothing();
    cr_assert_not(is_listed("k"));
}

/* Hundreds of callers, each waiting for another key, are due in one step, and the random bytes that
 * are ready do not go round. */
Test(wait, attempts_that_are_due_together_wait_for_random_bytes)
{
    enum { MANY = ENTROPY_BYTES / RANDOM_BYTES * 2 };
    char name[16];
    prepare(5);
    rig.config.locks_max = rig.config.requests_max = rig.config.waiters_max = MANY;
    rig.config.rounds_min = rig.config.rounds_first = LIMIT_ROUNDS;
    begin();
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "k%u", i);
        rig.count = 0;
        acquire_as(i, name, .wait_ms = 60000);
        expect_send(OP_ACQUIRE, ALL);
        reply(OP_ACQUIRE, 0x07, VOTE_TAKEN);
    }
    rig.count = 0;
    stalled_until_ms(1000), step((struct event){.kind = EVENT_TIME});
    cr_assert_gt(rig.turns, 1);
    size_t asked = 0;
    for (size_t i = 0; i < rig.count; i++)
        if (rig.records[i].effect.kind == EFFECT_SEND &&
            rig.records[i].effect.send.op == OP_ACQUIRE)
            asked += rig.records[i].effect.send.count;
    cr_assert_eq(asked, MANY, "%zu of %d ask again", asked, MANY);
    cr_assert_eq(core_stats(rig.core)->waiters, MANY);
}

/* ---- messages -------------------------------------------------------------------------------- */

enum { PAUSE_MS = 60000 }; /* no back-off ends within a test */

/* Leaves request 1 waiting for "k", which another agent holds for a long time. */
static void begin_waiting(void)
{
    prepare(5);
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = PAUSE_MS;
    begin();
    acquire_as(1, "k", .wait_ms = 300000);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    expect_nothing();
}

static void refuse_again(void)
{
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
    expect_nothing();
}

Test(messages, r9_what_was_released_before_a_quorum_listened_is_tried_for_once_more)
{
    begin_waiting();
    at_ms(1), channel("k", EVENT_SUBSCRIBED, 0x03, 0), at_ms(2);
    expect_nothing();
    channel("k", EVENT_SUBSCRIBED, 0x04, 0), at_ms(3);
    refuse_again();
    channel("k", EVENT_SUBSCRIBED, 0x18, 0), at_ms(1000);
    expect_nothing();
    /* One connection is lost: messages may be missed once more when too few listen. */
    channel("k", EVENT_UNSUBSCRIBED, 0x07, 0), channel("k", EVENT_SUBSCRIBED, 0x01, 0), at_ms(1001);
    refuse_again();
}

Test(messages, r9_a_subscription_that_is_confirmed_during_an_attempt_counts_after_it)
{
    prepare(5);
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = 100;
    begin();
    acquire_as(1, "k", .wait_ms = 300000);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_channel(EFFECT_WATCH);
    expect_send(OP_RELEASE, 0x18);
    let_time_pass_until(OP_ACQUIRE, 200);
    expect_send(OP_ACQUIRE, ALL);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    expect_nothing();
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
    at_us(rig.now_us + 1);
    expect_send(OP_ACQUIRE, ALL);
}

Test(messages, r9_the_quorum_th_message_wakes)
{
    begin_waiting();
    at_ms(10), channel("k", EVENT_MESSAGE, 0x03, 1), channel("k", EVENT_MESSAGE, 0x02, 1);
    channel("other", EVENT_MESSAGE, 0x1c, 1); /* no request waits for that key */
    at_ms(20);
    expect_nothing();
    channel("k", EVENT_MESSAGE, 0x10, 1), at_us(rig.now_us + 1);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    expect_channel(EFFECT_UNWATCH);
    cr_assert_eq(rig.answer.waited_us, rig.now_us);
}

Test(messages, r9_those_that_come_during_an_attempt_count_after_it)
{
    begin_waiting();
    at_ms(1), channel("k", EVENT_SUBSCRIBED, ALL, 0), at_ms(2);
    expect_send(OP_ACQUIRE, ALL);
    channel("k", EVENT_MESSAGE, 0x07, 1); /* it had asked a moment before the release */
    channel("k", EVENT_MESSAGE, 0x18, 1); /* the other masters report it as well */
    expect_nothing();
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
    at_us(rig.now_us + 1);
    expect_send(OP_ACQUIRE, ALL);
}

/* Expects the spread of attempts of ten agents with a round trip of 4 to 5 ms. A message and a
 * refusal name so many agents. */
static void expect_spread(uint32_t by_message, uint32_t by_refusal)
{
    int64_t longest_us = 0, shortest_us = INT64_MAX;
    struct event_reply refusal = {
        .vote = VOTE_TAKEN, .occupant.left_ms = 50000, .agents = by_refusal};
    begin_waiting();
    for (int i = 0; i < 40; i++) {
        channel("k", EVENT_MESSAGE, 0x07, by_message);
        int64_t heard_us = rig.now_us;
        let_time_pass_until(OP_ACQUIRE, 100);
        int64_t after_us = rig.now_us - heard_us;
        expect_send(OP_ACQUIRE, ALL);
        at_us(rig.now_us + 4000);
        reply_with(OP_ACQUIRE, 0x07, refusal);
        expect_send(OP_RELEASE, 0x18);
        longest_us = after_us > longest_us ? after_us : longest_us;
        shortest_us = after_us < shortest_us ? after_us : shortest_us;
    }
    cr_assert_leq(longest_us, 51000);
    cr_assert_geq(longest_us, 15000);
    cr_assert_leq(shortest_us, 8000);
}

Test(messages, r9_agents_that_hear_the_same_message_spread)
{
    expect_spread(10, 0);
}

/* R22: a message of Redisson's names no number, but each refusal does. */
Test(messages, r22_agents_spread_by_what_a_refusal_has_told)
{
    expect_spread(0, 10);
}

/* A master may report any number of listeners. No other waiter wakes. */
Test(messages, r9_nobody_pauses_after_a_message_for_longer_than_two_seconds)
{
    begin_waiting();
    at_ms(1), channel("k", EVENT_SUBSCRIBED, ALL, 0), at_ms(2);
    for (int i = 0; i < 20; i++) {
        expect_send(OP_ACQUIRE, ALL);
        channel("k", EVENT_MESSAGE, 0x07, UINT16_MAX);
        reply_with(OP_ACQUIRE, 0x07, held_for(50000));
        expect_send(OP_RELEASE, 0x18);
        let_time_pass_until(OP_ACQUIRE, 2001);
    }
}

/* Otherwise an agent that has seen longer round trips than nine others would lose to them
 * forever. */
Test(messages, r9_who_loses_again_and_again_pauses_less)
{
    begin_waiting();
    for (int i = 0; i < 60; i++) {
        channel("k", EVENT_MESSAGE, 0x07, 10);
        int64_t heard_us = rig.now_us;
        let_time_pass_until(OP_ACQUIRE, 100);
        cr_assert(i < 40 || rig.now_us - heard_us <= 51000 / 16 + 1000, "%lld us",
                  (long long)(rig.now_us - heard_us));
        expect_send(OP_ACQUIRE, ALL);
        at_us(rig.now_us + 4000);
        reply_with(OP_ACQUIRE, 0x07, held_for(50000));
        expect_send(OP_RELEASE, 0x18);
    }
}

/* A lost message costs the holder's remaining ttl at the most, or the back-off if that is
 * shorter. */
Test(messages, r9_without_a_message_it_tries_when_the_lease_has_run_out)
{
    begin_waiting();
    at_ms(1), channel("k", EVENT_SUBSCRIBED, ALL, 0), at_ms(2);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, held_for(700));
    expect_send(OP_RELEASE, 0x18);
    at_ms(701);
    expect_nothing();
    at_ms(704);
    expect_send(OP_ACQUIRE, ALL);
}

/* Two agents meet that both waited for the same lease to end. 10 ms of it are left on some masters.
 * On another one the other agent has the key already, which is undone at once. */
Test(messages, r9_the_key_of_another_contender_is_not_waited_for)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .wait_ms = 60000);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x03, held_for(10));
    reply_with(OP_ACQUIRE, 0x04, held_for(5000));
    expect_send(OP_RELEASE, 0x18); /* two do not reply; one more makes a quorum */
    expect_channel(EFFECT_WATCH);
    at_us(10999);
    expect_nothing();
    at_us(11000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

/* If all must agree, a single master that had granted another contender can refuse. When that grant
 * is undone, perhaps no other master announces a release. */
Test(messages, r9_a_contender_that_was_undone_is_not_waited_for_where_all_must_agree)
{
    prepare(5);
    rig.policy.algorithm = ALGORITHM_MULTILOCK;
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = 100;
    begin();
    acquire_as(1, "k", .wait_ms = 60000);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x01, held_for(5000));
    expect_send(OP_RELEASE, 0x1e);
    expect_channel(EFFECT_WATCH);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    for (unsigned i = 0; i < 8; i++) { /* its back-off grows */
        let_time_pass_until(OP_ACQUIRE, 4000);
        expect_send(OP_ACQUIRE, ALL);
        reply_with(OP_ACQUIRE, 0x01, held_for(5000));
        expect_send(OP_RELEASE, 0x1e);
    }
    channel("k", EVENT_MESSAGE, 0x01, 2);
    let_time_pass_until(OP_ACQUIRE, 101);
    expect_send(OP_ACQUIRE, ALL);
}

Test(messages, r9_who_has_not_answered_may_be_free)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x01, held_for(900));
    reply(OP_ACQUIRE, 0x02, VOTE_YES);
    reply(OP_ACQUIRE, 0x04, VOTE_SPOILED);
    reply_with(OP_ACQUIRE, 0x08, held_for(400));
    expect_answer(1, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.occupant.left_ms, 400);

    at_ms(100), acquire(2, "l"); /* a master that has not answered in time does not count */
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x02, VOTE_YES);
    reply_with(OP_ACQUIRE, 0x01, held_for(900));
    reply_with(OP_ACQUIRE, 0x08, held_for(400));
    at_ms(150);
    expect_answer(2, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.occupant.left_ms, 900);
}

/* Many waiters that listen do not poll the masters constantly. A release without a message is still
 * noticed after a while. */
Test(messages, r9_who_listens_pauses_ever_longer)
{
    int64_t longest_us = 0;
    prepare(5);
    rig.policy.retry_min_ms = 20, rig.policy.retry_max_ms = 100;
    begin();
    acquire_as(1, "k", .wait_ms = 300000);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    channel("k", EVENT_SUBSCRIBED, ALL, 0), at_us(rig.now_us + 1);
    refuse_again();
    for (int i = 0; i < 12; i++) {
        int64_t since_us = rig.now_us;
        let_time_pass_until(OP_ACQUIRE, 2001);
        longest_us = rig.now_us - since_us > longest_us ? rig.now_us - since_us : longest_us;
        refuse_again();
    }
    cr_assert_geq(longest_us, 1000000);
    /* Without a subscription, attempts are as frequent as before. */
    channel("k", EVENT_UNSUBSCRIBED, ALL, 0);
    let_time_pass_until(OP_ACQUIRE, 2001);
    refuse_again();
    let_time_pass_until(OP_ACQUIRE, 101);
}

Test(messages, r9_the_subscription_ends_with_the_last_waiter)
{
    begin_waiting();
    at_ms(5), acquire_as(2, "k", .wait_ms = 300000);
    cancel(1), rig.count = 0;
    at_ms(6);
    expect_nothing();
    cancel(2);
    expect_channel(EFFECT_UNWATCH);
}
