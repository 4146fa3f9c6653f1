/* The lock core as timelines: events at virtual instants go into core_step(), and every effect that comes out is
 * expected. */
#include "core_rig.h"

/* ---- acquire: R1 to R5 ------------------------------------------------------------------------------------------ */

Test(acquire, r1_granted_at_the_third_of_five_votes)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].ttl_ms, 10000);
    at_ms(1), reply(OP_ACQUIRE, 0x03, VOTE_YES);
    expect_nothing();
    at_ms(2), reply(OP_ACQUIRE, 0x04, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.tally.granted, 3);
    cr_assert_eq(rig.answer.tally.total, 5);
    cr_assert_eq(rig.answer.tally.quorum, 3);
    cr_assert_eq(rig.answer.waited_us, 2000);
    at_ms(40), reply(OP_ACQUIRE, 0x18, VOTE_YES);
    expect_nothing();
    cr_assert(is_listed("k"));
    cr_assert_eq(core_stats(rig.core)->locks_held, 1);
    cr_assert_eq(core_stats(rig.core)->requests, 0);
}

Test(acquire, r2_multilock_needs_all_and_single_one)
{
    prepare(3);
    rig.policy.algorithm = ALGORITHM_MULTILOCK;
    begin();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, 0x07);
    at_ms(1), reply(OP_ACQUIRE, 0x03, VOTE_YES);
    expect_nothing();
    at_ms(2), reply(OP_ACQUIRE, 0x04, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);

    prepare(1);
    rig.policy.algorithm = ALGORITHM_SINGLE;
    begin();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, 0x01);
    at_ms(1), reply(OP_ACQUIRE, 0x01, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

Test(acquire, r3_a_silent_master_is_waited_for_no_longer_than_the_node_timeout)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    at_ms(1), reply(OP_ACQUIRE, 0x03, VOTE_YES);
    at_us(49999);
    expect_nothing();
    at_us(50000);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert_eq(rig.answer.tally.granted, 2);
    cr_assert_eq(rig.answer.tally.held, 0);
    cr_assert_eq(rig.answer.tally.failed, 3);
    expect_send(OP_RELEASE, ALL);                 /* R5: the silent ones may have done it */
    at_ms(60), reply(OP_ACQUIRE, 0x1c, VOTE_YES); /* R3: late is unknown */
    expect_nothing();
    cr_assert_not(is_listed("k"));
}

Test(acquire, r3_a_vote_of_an_earlier_attempt_or_a_second_one_does_not_count)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    struct lock_ref old = rig.sent[OP_ACQUIRE].ref;
    at_ms(50);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_send(OP_RELEASE, ALL);
    at_ms(60), acquire(2, "k");
    expect_send(OP_ACQUIRE, ALL);
    struct lock_ref current = rig.sent[OP_ACQUIRE].ref;
    at_ms(61), reply(OP_ACQUIRE, 0x01, VOTE_YES);
    reply(OP_ACQUIRE, 0x01, VOTE_YES);
    reply(OP_ACQUIRE, 0x01, VOTE_YES);
    rig.sent[OP_ACQUIRE].ref = old;
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_nothing();
    rig.sent[OP_ACQUIRE].ref = current;
    at_ms(62), reply(OP_ACQUIRE, 0x06, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
}

Test(acquire, held_by_another_with_its_label_and_the_time_that_it_has)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    at_ms(1), reply(OP_ACQUIRE, 0x08, VOTE_YES);
    reply(OP_ACQUIRE, 0x03, VOTE_HELD);
    expect_nothing();
    at_ms(2), reply(OP_ACQUIRE, 0x04, VOTE_HELD); /* a quorum is not possible any more */
    expect_answer(1, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.tally.held, 3);
    cr_assert_eq(rig.answer.holder.len, 5);
    cr_assert(memcmp(rig.answer.holder.at, "other", 5) == 0);
    cr_assert_geq(rig.answer.retry_after_ms, 690);
    cr_assert_leq(rig.answer.retry_after_ms, 700);
    expect_send(OP_RELEASE, 0x18); /* R5: all but those that answered held */
}

/* D5.3: who is guarded does not vote; the answer says who that is, for how long, and when it is worth coming back. */
Test(acquire, guarded_masters_have_no_vote)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x03, VOTE_YES);
    reply_with(OP_ACQUIRE, 0x04, (struct event_reply){.vote = VOTE_GUARDED, .pttl_ms = 900});
    reply_with(OP_ACQUIRE, 0x08, (struct event_reply){.vote = VOTE_GUARDED, .pttl_ms = 400});
    expect_nothing();
    at_ms(1), reply_with(OP_ACQUIRE, 0x10, (struct event_reply){.vote = VOTE_GUARDED, .pttl_ms = -1});
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert_eq(rig.answer.tally.granted, 2);
    cr_assert_eq(rig.answer.tally.guarded, 3);
    cr_assert_eq(rig.answer.tally.failed, 0);
    cr_assert_eq(rig.answer.guarded, 0x1c);
    cr_assert_eq(rig.answer.guarded_ms[2], 899);
    cr_assert_eq(rig.answer.guarded_ms[3], 399);
    cr_assert_eq(rig.answer.guarded_ms[4], UINT32_MAX);
    cr_assert_eq(rig.answer.retry_after_ms, 400, "one more vote is needed, and that is when it comes");
    expect_send(OP_RELEASE, ALL);
}

Test(acquire, unavailable_where_the_failed_alone_make_a_quorum_impossible)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x03, VOTE_YES);
    reply(OP_ACQUIRE, 0x04, VOTE_HELD);
    at_ms(1), reply(OP_ACQUIRE, 0x18, VOTE_REFUSED);
    expect_answer(1, ANSWER_LOCK_HELD); /* 2 granted + 1 held */
    expect_send(OP_RELEASE, 0x1b);

    at_ms(100), acquire(2, "l");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x02, VOTE_HELD);
    reply(OP_ACQUIRE, 0x0c, VOTE_UNKNOWN);
    expect_answer(2, ANSWER_LOCK_HELD); /* without the holder there would be three */
    expect_send(OP_RELEASE, 0x1d);

    at_ms(200), acquire(3, "m");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x01, VOTE_YES);
    at_ms(201), reply(OP_ACQUIRE, 0x1c, VOTE_UNKNOWN);
    expect_answer(3, ANSWER_QUORUM_UNAVAILABLE);
    expect_send(OP_RELEASE, ALL);
}

Test(acquire, r5_nothing_is_undone_where_nothing_can_have_been_done)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x02, VOTE_NOT_SENT);
    reply(OP_ACQUIRE, 0x08, VOTE_FOREIGN);
    at_ms(1), reply(OP_ACQUIRE, 0x10, VOTE_HELD);
    expect_send(OP_RELEASE, 0x05);
    expect_trace(TRACE_FOREIGN);
    cr_assert_eq(rig.trace.master, 3);
}

Test(acquire, r3_masters_known_to_be_down_have_failed_at_once)
{
    begin_five();
    master_is(1, EVENT_MASTER_DOWN, 0);
    master_is(4, EVENT_MASTER_DOWN, 0);
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, 0x0d);
    at_ms(1), reply(OP_ACQUIRE, 0x0d, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.tally.failed, 2);
    expect_nothing();

    master_is(0, EVENT_MASTER_DOWN, 0);
    at_ms(10), acquire(2, "l"); /* two are left: no need to ask them */
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert_eq(rig.answer.tally.failed, 3);
}

Test(acquire, r4_validity_is_counted_from_before_sending_to_the_microsecond)
{
    begin_five();
    at_us(7), acquire_as(1, "k", .ttl_ms = 12345);
    expect_send(OP_ACQUIRE, ALL);
    at_us(41234), reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(valid_until_us(), 7 + 12345000 - 123450 - 2000);
    cr_assert_eq(rig.answer.hold.ttl_ms, 12345);
}

Test(acquire, r4_a_majority_too_late_for_any_validity_is_undone)
{
    prepare(5);
    rig.group.drift_ppm = 500000; /* of 200 ms, 98 are left */
    begin();
    at_ms(0), acquire_as(1, "k", .ttl_ms = 200);
    expect_send(OP_ACQUIRE, ALL);
    at_ms(49), reply_with(OP_ACQUIRE, 0x01, (struct event_reply){.vote = VOTE_YES, .fence = 1800000000000000});
    reply(OP_ACQUIRE, 0x06, VOTE_YES);
    expect_send(OP_RAISE, 0x06);
    at_us(98000), reply(OP_RAISE, 0x06, VOTE_YES);
    expect_answer(1, ANSWER_VALIDITY_EXPIRED);
    expect_send(OP_RELEASE, ALL);
}

Test(acquire, r12_the_highest_number_wins_and_is_raised_where_it_is_not_stored)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    uint64_t p = rig.sent[OP_ACQUIRE].token.fence;
    cr_assert_eq(p, PROPOSAL * (uint64_t)1000000);
    at_ms(1), reply_with(OP_ACQUIRE, 0x01, (struct event_reply){.vote = VOTE_YES, .fence = p + 77});
    reply(OP_ACQUIRE, 0x06, VOTE_YES);
    expect_send(OP_RAISE, 0x06);
    cr_assert_eq(rig.sent[OP_RAISE].token.fence, p + 77);
    expect_nothing(); /* no grant before a quorum stores it */
    at_ms(2), reply(OP_RAISE, 0x02, VOTE_YES);
    expect_nothing();
    at_ms(3), reply(OP_RAISE, 0x04, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, p + 77);
    cr_assert_eq(valid_until_us(), 10000000 - 102000);
}

Test(acquire, r12_no_grant_where_the_number_can_not_be_raised)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    at_ms(1), reply(OP_ACQUIRE, 0x06, VOTE_YES);
    reply_with(OP_ACQUIRE, 0x01, (struct event_reply){.vote = VOTE_YES, .fence = rig.sent[OP_ACQUIRE].token.fence + 1});
    expect_send(OP_RAISE, 0x06);
    at_ms(2), reply(OP_RAISE, 0x06, VOTE_REFUSED);
    at_ms(200);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_send(OP_RELEASE, ALL);
}

Test(acquire, r12_a_clock_far_off_gives_way_to_the_masters_median)
{
    begin_five();
    for (uint8_t m = 0; m < 5; m++) {
        struct event event = {.kind = EVENT_MASTER_CLOCK};
        event.master = (struct event_master){.master = m, .clock_offset_us = 3000000 + m};
        step(event);
    }
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].token.fence, PROPOSAL * (uint64_t)1000000 + 3000002);
}

Test(acquire, r12_without_fencing_there_is_no_number)
{
    prepare(5);
    rig.policy.fencing = false;
    begin();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].token.fence, 0);
    cr_assert_not(rig.sent[OP_ACQUIRE].fencing);
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, 0);
}

Test(acquire, a_command_that_did_not_run_is_sent_once_more)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    at_ms(1), reply(OP_ACQUIRE, 0x01, VOTE_NOT_RUN);
    expect_send(OP_ACQUIRE, 0x01);
    at_ms(2), reply(OP_ACQUIRE, 0x01, VOTE_NOT_RUN);
    expect_nothing(); /* twice is a failure */
    at_ms(3), reply(OP_ACQUIRE, 0x0e, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    reply(OP_ACQUIRE, 0x10, VOTE_NOT_RUN); /* D5.2: nothing is resent for a round that is over */
    expect_nothing();
}

Test(acquire, a_ttl_out_of_range_is_refused_with_the_range)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .ttl_ms = 199); /* under 4 x node_timeout (R1) */
    expect_answer(1, ANSWER_BAD_TTL);
    cr_assert_eq(rig.answer.ttl_ms_min, 200);
    cr_assert_eq(rig.answer.ttl_ms_max, 60000);
    acquire_as(2, "k", .ttl_ms = 60001);
    expect_answer(2, ANSWER_BAD_TTL);
    acquire_as(3, "k", .ttl_ms = 999, .renew = RENEW_AGENT);
    expect_answer(3, ANSWER_BAD_TTL);
    cr_assert_eq(rig.answer.ttl_ms_min, TTL_MS_MIN_AGENT);
    expect_nothing();
    acquire_as(4, "k", .ttl_ms = 200);
    expect_send(OP_ACQUIRE, ALL);
}

Test(acquire, renew_is_by_the_agent_without_a_ttl_and_by_the_caller_with_one)
{
    prepare(5);
    rig.policy.renew = RENEW_AGENT;
    begin();
    hold("a");
    cr_assert_eq(rig.answer.hold.renew, RENEW_AGENT);
    hold_as("b", .ttl_ms = 5000);
    cr_assert_eq(rig.answer.hold.renew, RENEW_CALLER);
    hold_as("c", .ttl_ms = 5000, .renew = RENEW_AGENT);
    cr_assert_eq(rig.answer.hold.renew, RENEW_AGENT);
}

Test(acquire, a_full_table_says_so)
{
    prepare(5);
    rig.config.locks_max = 2;
    begin();
    hold("a");
    hold("b");
    at_ms(1), acquire(3, "c");
    expect_answer(3, ANSWER_TOO_MANY_LOCKS);
    expect_nothing();
}

/* A place that is left within a step is free only after it, and a step may leave many: there are enough. */
Test(acquire, many_attempts_may_fail_in_one_step_of_a_small_table)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    prepare(5);
    rig.config.locks_max = 1;
    begin();
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    for (uint32_t i = 0; i < 4; i++)
        acquire_as(i, keys[i], .wait_ms = 5000);
    stalled_until_ms(1000);
    step((struct event){.kind = EVENT_TIME});
    cr_assert_eq(core_stats(rig.core)->waiters, 4);
    at_ms(5000);
    for (uint32_t i = 0; i < 4; i++)
        expect_answer(i, ANSWER_QUORUM_UNAVAILABLE);
}

Test(acquire, a_draining_agent_takes_no_locks_and_lets_waiters_go)
{
    begin_five();
    struct token token = hold("k");
    acquire_as(1, "k", .wait_ms = 5000);
    at_ms(1), step((struct event){.kind = EVENT_DRAIN});
    expect_answer(1, ANSWER_DRAINING);
    acquire(2, "l");
    expect_answer(2, ANSWER_DRAINING);
    release(3, "k", token);
    expect_send(OP_RELEASE, ALL);
}

/* More keys than one step has effects for: with each of them goes an answer, and a channel that is left. */
Test(acquire, a_draining_agent_lets_go_of_waiters_for_hundreds_of_keys)
{
    enum { MANY = 200 };
    char name[16];
    prepare(5);
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = 60000;
    rig.config.locks_max = rig.config.requests_max = rig.config.waiters_max = MANY;
    begin();
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "k%u", i);
        rig.count = 0;
        acquire_as(i, name, .wait_ms = 60000);
        expect_send(OP_ACQUIRE, ALL);
        reply(OP_ACQUIRE, ALL, VOTE_HELD);
        expect_channel(EFFECT_WATCH);
    }
    rig.count = 0;
    step((struct event){.kind = EVENT_DRAIN}), at_ms(0);
    for (uint32_t i = 0; i < MANY; i++) {
        expect_answer(i, ANSWER_DRAINING);
        expect_channel(EFFECT_UNWATCH);
    }
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->waiters, 0);
}

/* ---- renew: R7, R8 ----------------------------------------------------------------------------------------------- */

Test(renew, r7_extends_from_before_sending)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(4000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    at_ms(4300), reply(OP_RENEW, 0x03, VOTE_YES); /* a renewal has ttl/10 */
    expect_nothing();
    at_ms(4301), reply(OP_RENEW, 0x04, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(valid_until_us(), 4000000 + 10000000 - 102000);
    cr_assert_eq(rig.answer.hold.token.fence, token.fence);
    cr_assert_not(rig.answer.adopted);
}

Test(renew, r7_a_failure_unlocks_nothing)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(4000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x1c, VOTE_UNKNOWN);
    at_ms(5000);
    expect_answer(1, ANSWER_RENEW_FAILED);
    cr_assert_eq(valid_until_us(), 10000000 - 102000);
    expect_nothing();
    cr_assert(is_listed("k"));
}

Test(renew, r7_nothing_shortens)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(1000), renew_as(1, "k", token, .ttl_ms = 1000);
    expect_send(OP_RENEW, ALL);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 1000);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(valid_until_us(), 10000000 - 102000);
    at_ms(9500), renew(2, "k", token); /* and the shorter one counts from now on */
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    cr_assert_eq(valid_until_us(), 9500000 + 1000000 - 12000);
}

Test(renew, a_lease_that_its_caller_let_expire_is_lost_at_its_end)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000); /* valid for 988 ms */
    at_us(987999);
    expect_nothing();
    cr_assert(is_listed("k"));
    at_us(988000);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL); /* its validity has ended, its keys have not */
    cr_assert_not(is_listed("k"));
    at_us(988001), renew(1, "k", token);
    expect_answer(1, ANSWER_LOCK_LOST);
    cr_assert_eq(rig.answer.reason, REASON_EXPIRED);
}

Test(renew, the_answer_may_not_come_after_the_end)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_us(980000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    at_us(981000), reply(OP_RENEW, 0x03, VOTE_YES);
    at_us(988000);
    expect_answer(1, ANSWER_LOCK_LOST);
    at_us(989000), reply(OP_RENEW, 0x04, VOTE_YES); /* good only within the old validity (R7) */
    cr_assert_not(is_listed("k"));
}

Test(renew, r8_the_watchdog_renews_before_a_third_has_passed_and_again)
{
    begin_five();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    for (int round = 0; round < 5; round++) {
        int64_t before_us = rig.now_us;
        while (rig.count == 0 || rig.records[rig.count - 1].effect.kind != EFFECT_SEND) {
            cr_assert_leq(rig.now_us - before_us, 1000000, "no renewal within ttl/3");
            rig.count = 0;
            at_us(rig.now_us + 1000);
        }
        cr_assert_geq(rig.now_us - before_us, 500000, "too busy");
        expect_send(OP_RENEW, ALL);
        reply(OP_RENEW, ALL, VOTE_YES);
        expect_trace(TRACE_RENEWED);
        cr_assert_geq(rig.trace.margin_us, 1900000);
    }
    cr_assert(is_listed("k"));
}

Test(renew, r7_what_can_not_be_renewed_is_lost_a_margin_before_its_end)
{
    begin_five();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT); /* valid for 2,968 ms, lost 300 ms before */
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    at_us(2667999);
    cr_assert(is_listed("k"));
    for (size_t i = 0; i < rig.count; i++)
        cr_assert(rig.records[i].effect.kind != EFFECT_TRACE || rig.records[i].effect.trace.kind != TRACE_LOST);
    at_us(2668000);
    expect_lost(REASON_QUORUM_LOST);
    cr_assert_not(is_listed("k"));
    for (size_t i = 0; i < rig.count; i++) /* the keys stay until the validity has ended */
        cr_assert(rig.records[i].effect.kind != EFFECT_SEND || rig.records[i].effect.send.op != OP_RELEASE);
    rig.count = 0;
    at_us(2967999);
    expect_nothing();
    at_us(2968000);
    expect_send(OP_RELEASE, 0x18);
}

Test(renew, r7_masters_that_had_confirmed_and_deny_now_end_it_at_once)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x03, VOTE_ABSENT);
    expect_nothing();
    reply(OP_RENEW, 0x04, VOTE_HELD); /* three of five have said no */
    expect_answer(1, ANSWER_LOCK_LOST);
    cr_assert_eq(rig.answer.reason, REASON_TAKEN);
    expect_lost(REASON_TAKEN);
}

Test(renew, r7_repair_only_where_the_token_was_never_confirmed)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    struct token token = rig.answer.hold.token;
    reply(OP_ACQUIRE, 0x18, VOTE_REFUSED);
    at_ms(1000), renew(2, "k", token);
    expect_send(OP_RENEW, 0x07);
    expect_send(OP_REPAIR, 0x18);
    cr_assert_eq(rig.sent[OP_REPAIR].token.fence, token.fence);
    reply(OP_REPAIR, 0x18, VOTE_REPAIRED); /* not a vote yet */
    reply(OP_RENEW, 0x03, VOTE_YES);
    expect_nothing();
    reply(OP_RENEW, 0x04, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    at_ms(2000), renew(3, "k", token);
    expect_send(OP_RENEW, ALL);
    expect_nothing();
}

Test(renew, r7_a_master_in_a_new_epoch_has_confirmed_nothing)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(100), master_is(4, EVENT_MASTER_DOWN, 0);
    at_ms(200), master_is(4, EVENT_MASTER_UP, 2);
    at_ms(300), master_is(3, EVENT_MASTER_DOWN, 0);
    at_ms(400), master_is(3, EVENT_MASTER_UP, 1);
    rig.count = 0;
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, 0x0f);
    expect_send(OP_REPAIR, 0x10);
    expect_nothing();
}

/* Found by the simulator: the repaired keys would have run out before the validity that was reported. */
Test(renew, r7_a_repaired_key_lives_as_long_as_the_lease_that_is_not_shortened)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(100), master_is(4, EVENT_MASTER_UP, 2);
    rig.count = 0;
    at_ms(1000), renew_as(1, "k", token, .ttl_ms = 2000);
    expect_send(OP_RENEW, 0x0f);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 2000);
    expect_send(OP_REPAIR, 0x10);
    cr_assert_eq(rig.sent[OP_REPAIR].ttl_ms, 9000);
}

/* Found by the simulator: a doubled vote that came behind the news of another epoch confirmed a token that was gone. */
Test(renew, r7_a_doubled_vote_confirms_nothing_in_a_new_epoch)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(100), master_is(4, EVENT_MASTER_UP, 2); /* it was emptied under its connection */
    at_ms(101), reply(OP_ACQUIRE, 0x10, VOTE_YES);
    rig.count = 0;
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, 0x0f);
    expect_send(OP_REPAIR, 0x10);
    expect_nothing();
}

Test(renew, max_hold_caps_every_renewal)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000, .max_hold_ms = 1500);
    cr_assert_eq(rig.answer.hold.max_hold_until.us - rig.epoch_us, 1500000);
    at_ms(900), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(valid_until_us(), 1500000);
    at_us(1500000);
    expect_lost(REASON_MAX_HOLD);
    at_us(1500001), renew(2, "k", token);
    expect_answer(2, ANSWER_LOCK_LOST);
    cr_assert_eq(rig.answer.reason, REASON_MAX_HOLD);
}

Test(renew, with_a_wrong_token_is_a_mismatch)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    token.random[RANDOM_BYTES - 1] ^= 1;
    at_ms(1), renew(1, "k", token);
    if (core_stats(rig.core)->requests == 1) { /* it may be adopted, for all that this agent knows */
        expect_send(OP_ADOPT, ALL);
        reply(OP_ADOPT, ALL, VOTE_HELD);
    }
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    cr_assert(is_listed("k"));
}

/* ---- release: R6, R10 -------------------------------------------------------------------------------------------- */

Test(release, r10_released_when_a_quorum_has_confirmed)
{
    begin_five();
    struct token token = hold("k");
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, ALL); /* also where it is believed not to be locked */
    cr_assert_not(is_listed("k"));
    at_ms(11), reply(OP_RELEASE, 0x03, VOTE_YES);
    expect_nothing();
    at_ms(12), reply(OP_RELEASE, 0x10, VOTE_ABSENT);
    expect_answer(1, ANSWER_RELEASED);
}

Test(release, r6_pending_at_its_deadline_and_the_debt_is_paid_when_the_master_is_back)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    at_ms(11), reply(OP_RELEASE, 0x03, VOTE_YES);
    at_us(109999);
    expect_nothing();
    at_ms(110); /* ttl/10 */
    expect_answer(1, ANSWER_RELEASE_PENDING);
    at_ms(200), reply(OP_RELEASE, 0x0c, VOTE_YES);
    master_is(4, EVENT_MASTER_DOWN, 0);
    reply(OP_RELEASE, 0x10, VOTE_UNKNOWN);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
    at_ms(400), master_is(4, EVENT_MASTER_UP, 1);
    let_time_pass_until(OP_RELEASE, 10);
    expect_send(OP_RELEASE, 0x10);
    reply(OP_RELEASE, 0x10, VOTE_YES);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 0);
    at_ms(3000);
    expect_nothing();
}

Test(release, pending_at_once_where_a_quorum_is_impossible)
{
    begin_five();
    struct token token = hold("k");
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, 0x18);
    expect_answer(1, ANSWER_RELEASE_PENDING);
}

Test(release, r6_a_debt_ends_with_the_ttl)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    master_is(4, EVENT_MASTER_DOWN, 0);
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, 0x0f);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
    at_ms(1200);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 0);
    master_is(4, EVENT_MASTER_UP, 1);
    expect_nothing();
}

Test(release, r10_a_wrong_token_releases_nothing)
{
    begin_five();
    struct token token = hold("k");
    token.random[0] ^= 0x80;
    at_ms(1), release(1, "k", token);
    if (core_stats(rig.core)->requests == 1) {
        expect_send(OP_RELEASE, ALL);
        cr_assert(token_same_random(&rig.sent[OP_RELEASE].token, &token));
        reply(OP_RELEASE, ALL, VOTE_HELD);
    }
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    cr_assert(is_listed("k"));
}

/* ---- adoption: D3 ------------------------------------------------------------------------------------------------ */

static const struct token old_token = {.random = {1, 2, 3, 4, 5}, .fence = 1699999999000000};

Test(adoption, goes_on_where_a_quorum_stores_token_and_number)
{
    begin_five();
    at_ms(0), renew_as(1, "k", old_token, .ttl_ms = 2000);
    expect_send(OP_ADOPT, ALL);
    cr_assert_eq(rig.sent[OP_ADOPT].token.fence, old_token.fence);
    at_ms(1), reply(OP_ADOPT, 0x13, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert(rig.answer.adopted);
    cr_assert(rig.answer.continuous);
    cr_assert_eq(rig.answer.hold.renew, RENEW_CALLER);
    cr_assert_eq(rig.answer.hold.token.fence, old_token.fence);
    cr_assert_eq(valid_until_us(), 2000000 - 22000);
    reply(OP_ADOPT, 0x0c, VOTE_ABSENT);
    rig.count = 0;
    at_ms(100), renew(2, "k", old_token);
    expect_send(OP_RENEW, 0x13);
    expect_send(OP_REPAIR, 0x0c); /* what has not confirmed the token may not have had it yet */
    expect_nothing();
}

Test(adoption, another_number_means_that_somebody_held_it_in_between)
{
    begin_five();
    at_ms(0), renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x03, VOTE_YES);
    reply_with(OP_ADOPT, 0x1c,
               (struct event_reply){.vote = VOTE_MISNUMBERED, .fence = old_token.fence + 9, .pttl_ms = -1});
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    cr_assert_not(is_listed("k"));
}

Test(adoption, answers_what_the_masters_say)
{
    begin_five();
    at_ms(0), renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_ABSENT);
    expect_answer(1, ANSWER_NOT_HELD);
    renew(2, "l", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_HELD);
    expect_answer(2, ANSWER_TOKEN_MISMATCH);
    renew(3, "m", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_UNKNOWN);
    expect_answer(3, ANSWER_QUORUM_UNAVAILABLE);
}

Test(adoption, a_release_by_an_old_token_reaches_every_master)
{
    begin_five();
    at_ms(0), release(1, "k", old_token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x15, VOTE_YES);
    reply(OP_RELEASE, 0x0a, VOTE_ABSENT);
    expect_answer(1, ANSWER_RELEASED);
    release(2, "k", old_token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_ABSENT);
    expect_answer(2, ANSWER_NOT_HELD);
}

/* The masters say yes before they delete it: somebody else may have the key by the time they are heard. */
Test(adoption, a_release_of_the_same_token_ends_it)
{
    begin_five();
    at_ms(0), renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    release(2, "k", old_token);
    expect_answer(1, ANSWER_NOT_HELD);
    expect_send(OP_RELEASE, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_nothing();
    cr_assert_not(is_listed("k"));
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
}

/* ---- once found by the simulator ------------------------------------------------------------------------------- */

Test(found, an_adopted_hold_that_expired_released_what_an_earlier_agent_had_promised)
{
    begin_five();
    at_ms(0), renew_as(1, "k", old_token, .ttl_ms = 2000); /* which was granted for longer, before the restart */
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_us(1978000);
    expect_lost(REASON_EXPIRED);
    at_ms(9000);
    expect_nothing();
}

Test(found, a_put_behind_a_delete_with_the_same_strange_token_was_answered_without_the_masters)
{
    begin_five();
    at_ms(0), release(1, "k", old_token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x07, VOTE_HELD);
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    renew(2, "k", old_token); /* while two masters have not answered the release yet */
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x07, VOTE_HELD);
    expect_answer(2, ANSWER_TOKEN_MISMATCH);
}

Test(found, a_lease_given_to_the_watchdog_in_its_last_moment_was_lost_at_once)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(960), renew_as(1, "k", token, .renew = RENEW_AGENT); /* the margin of a watchdog's hold has begun 72 ms ago */
    expect_send(OP_RENEW, ALL);
    at_ms(970);
    expect_nothing();
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.renew, RENEW_AGENT);
    cr_assert_eq(valid_until_us(), 960000 + 988000);
}

Test(found, the_agents_end_released_a_lost_lock_within_its_validity)
{
    begin_five();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    at_ms(2668);
    expect_lost(REASON_QUORUM_LOST);
    rig.count = 0;
    at_ms(2700), step((struct event){.kind = EVENT_END});
    at_us(2967999);
    expect_nothing();
}

Test(found, a_second_copy_of_an_old_denial_took_the_lock)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    struct token token = rig.answer.hold.token;
    reply(OP_ACQUIRE, 0x18, VOTE_REFUSED);
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, 0x07);
    expect_send(OP_REPAIR, 0x18);
    struct lock_ref old = rig.sent[OP_REPAIR].ref;
    reply(OP_REPAIR, 0x18, VOTE_HELD); /* a dead holder's keys */
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_ms(2000), renew(1, "k", token);
    expect_send(OP_RENEW, 0x07);
    expect_send(OP_REPAIR, 0x18);
    reply(OP_REPAIR, 0x18, VOTE_REPAIRED);
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_ms(3000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x1e, VOTE_YES);
    reply(OP_RENEW, 0x01, VOTE_ABSENT); /* one of five says no */
    expect_answer(1, ANSWER_RENEWED);
    at_ms(3001), rig.sent[OP_REPAIR].ref = old, reply(OP_REPAIR, 0x18, VOTE_HELD);
    expect_nothing();
    cr_assert(is_listed("k"));
}

/* ---- read -------------------------------------------------------------------------------------------------------- */

Test(read, says_held_free_or_unknown_per_master)
{
    begin_five();
    at_ms(0), read_key(1, "k");
    expect_send(OP_READ, ALL);
    reply_with(OP_READ, 0x07, (struct event_reply){.vote = VOTE_YES, .pttl_ms = 500, .holder = text("other")});
    reply(OP_READ, 0x08, VOTE_ABSENT);
    reply(OP_READ, 0x10, VOTE_REFUSED);
    expect_answer(1, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_HELD);
    cr_assert_not(rig.answer.local);
    cr_assert_eq(rig.answer.holder.len, 5);

    read_key(2, "l");
    expect_send(OP_READ, ALL);
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_answer(2, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_FREE);

    read_key(3, "m");
    expect_send(OP_READ, ALL);
    reply(OP_READ, 0x07, VOTE_UNKNOWN);
    at_ms(1000);
    expect_answer(3, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_UNKNOWN);
}

/* ---- a late clock: R14 ------------------------------------------------------------------------------------------- */

Test(stall, r14_first_observe_then_act)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    stalled_until_ms(5000), renew(1, "k", token);
    expect_trace(TRACE_STALLED);
    expect_trace(TRACE_LOST);
    cr_assert(rig.trace.reason == REASON_STALLED || rig.trace.reason == REASON_QUORUM_LOST);
    expect_answer(1, ANSWER_LOCK_LOST);
    cr_assert_not(is_listed("k"));
}

Test(stall, r14_votes_that_were_read_late_are_unknown)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .ttl_ms = 1000);
    expect_send(OP_ACQUIRE, ALL);
    stalled_until_ms(2000), reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_send(OP_RELEASE, ALL);
    cr_assert_not(is_listed("k"));
}

/* ---- abundance --------------------------------------------------------------------------------------------------- */

Test(abundance, thousands_that_expire_together_come_out_in_turns)
{
    enum { MANY = 5000 };
    prepare(5);
    rig.config.locks_max = MANY;
    begin();
    for (int i = 0; i < MANY; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        hold_as(key, .ttl_ms = 1000);
    }
    cr_assert_eq(core_stats(rig.core)->locks_held, MANY);
    rig.now_us = 1000000;
    size_t lost = 0, items = 0, turns = 0;
    struct event event = {.kind = EVENT_TIME, .now = {rig.epoch_us + rig.now_us}};
    for (bool taken = false; !taken; turns++) {
        taken = core_step(rig.core, &event, rig.effects);
        for (size_t i = 0; i < rig.effects->count; i++) {
            const struct effect *effect = &rig.effects->list[i];
            lost += effect->kind == EFFECT_TRACE && effect->trace.kind == TRACE_LOST;
            items += effect->kind == EFFECT_SEND && effect->send.op == OP_RELEASE ? effect->send.count : 0;
            if (effect->kind == EFFECT_SEND)
                cr_assert_leq(effect->send.count, LIMIT_BATCH);
        }
        cr_assert_lt(turns, 1000);
    }
    for (; core_next_deadline(rig.core).us <= event.now.us && turns < 2000; turns++) {
        core_step(rig.core, &event, rig.effects);
        for (size_t i = 0; i < rig.effects->count; i++) {
            const struct effect *effect = &rig.effects->list[i];
            lost += effect->kind == EFFECT_TRACE && effect->trace.kind == TRACE_LOST;
            items += effect->kind == EFFECT_SEND && effect->send.op == OP_RELEASE ? effect->send.count : 0;
        }
    }
    cr_assert_gt(turns, MANY / LIMIT_EFFECTS);
    cr_assert_eq(lost, MANY, "%zu of %d were said to be lost", lost, MANY);
    cr_assert_eq(items, MANY, "%zu of %d were released", items, MANY);
    cr_assert_eq(core_stats(rig.core)->locks_held, 0);
}

Test(abundance, renewals_that_are_due_together_share_commands)
{
    enum { MANY = 500 };
    prepare(5);
    rig.config.locks_max = MANY;
    begin();
    for (int i = 0; i < MANY; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        hold_as(key, .ttl_ms = 3000, .renew = RENEW_AGENT);
    }
    stalled_until_ms(1050); /* every one is due by now */
    size_t commands = 0, items = 0;
    step((struct event){.kind = EVENT_TIME});
    for (size_t i = 0; i < rig.count; i++)
        if (rig.records[i].effect.kind == EFFECT_SEND) {
            cr_assert_eq(rig.records[i].effect.send.op, OP_RENEW);
            cr_assert_leq(rig.records[i].effect.send.count, LIMIT_BATCH);
            commands++;
            items += rig.records[i].effect.send.count;
        }
    cr_assert_eq(items, MANY);
    cr_assert_leq(commands, MANY / LIMIT_BATCH + 1);
}
