/* An acquire as a timeline: R1 to R5 and R12, quoted in the names of the tests. */
#include "core_rig.h"

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
    cr_assert_eq(rig.answer.tally.taken, 0);
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
    reply(OP_ACQUIRE, 0x03, VOTE_TAKEN);
    expect_nothing();
    at_ms(2), reply(OP_ACQUIRE, 0x04, VOTE_TAKEN); /* a quorum is not possible any more */
    expect_answer(1, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.tally.taken, 3);
    cr_assert_eq(rig.answer.occupant.label.len, 5);
    cr_assert(memcmp(rig.answer.occupant.label.at, "other", 5) == 0);
    cr_assert_geq(rig.answer.occupant.left_ms, 690);
    cr_assert_leq(rig.answer.occupant.left_ms, 700);
    expect_send(OP_RELEASE, 0x18); /* R5: all masters that have not refused */
}

/* D5.3: a guarded master does not vote. The answer names such masters, the time that is left, and
 * when a retry is useful. */
Test(acquire, guarded_masters_have_no_vote)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x03, VOTE_YES);
    reply_with(OP_ACQUIRE, 0x04,
               (struct event_reply){.vote = VOTE_GUARDED, .occupant.left_ms = 900});
    reply_with(OP_ACQUIRE, 0x08,
               (struct event_reply){.vote = VOTE_GUARDED, .occupant.left_ms = 400});
    expect_nothing();
    at_ms(1), reply_with(OP_ACQUIRE, 0x10,
                         (struct event_reply){.vote = VOTE_GUARDED, .occupant.left_ms = -1});
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert_eq(rig.answer.tally.granted, 2);
    cr_assert_eq(rig.answer.tally.guarded, 3);
    cr_assert_eq(rig.answer.tally.failed, 0);
    cr_assert_eq(rig.answer.guarded, 0x1c);
    cr_assert_eq(rig.answer.guarded_ms[2], 899);
    cr_assert_eq(rig.answer.guarded_ms[3], 399);
    cr_assert_eq(rig.answer.guarded_ms[4], UINT32_MAX);
    cr_assert_eq(rig.answer.occupant.left_ms, 400,
                 "one more vote is needed, and that is when it comes");
    expect_send(OP_RELEASE, ALL);
}

Test(acquire, unavailable_where_the_failed_alone_make_a_quorum_impossible)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x03, VOTE_YES);
    reply(OP_ACQUIRE, 0x04, VOTE_TAKEN);
    at_ms(1), reply(OP_ACQUIRE, 0x18, VOTE_REFUSED);
    expect_answer(1, ANSWER_LOCK_HELD); /* 2 granted + 1 held */
    expect_send(OP_RELEASE, 0x1b);

    at_ms(100), acquire(2, "l");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x02, VOTE_TAKEN);
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
    at_ms(1), reply(OP_ACQUIRE, 0x10, VOTE_TAKEN);
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
    rig.group.drift_ppm = 500000; /* 98 of 200 ms are left */
    begin();
    at_ms(0), acquire_as(1, "k", .ttl_ms = 200);
    expect_send(OP_ACQUIRE, ALL);
    at_ms(49),
        reply_with(OP_ACQUIRE, 0x01,
                   (struct event_reply){.vote = VOTE_YES, .fence = PROPOSAL * 1000000ull + 77});
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

/* R12: it granted with a smaller number, and no raise reaches it. */
Test(acquire, r12_a_master_that_went_down_stores_no_number)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    uint64_t p = rig.sent[OP_ACQUIRE].token.fence;
    at_ms(1), reply_with(OP_ACQUIRE, 0x01, (struct event_reply){.vote = VOTE_YES, .fence = p + 77});
    reply(OP_ACQUIRE, 0x02, VOTE_YES);
    master_is(1, EVENT_MASTER_DOWN, 0);
    reply(OP_ACQUIRE, 0x04, VOTE_YES);
    expect_send(OP_RAISE, 0x04);
    at_ms(2), reply(OP_RAISE, 0x04, VOTE_YES);
    at_ms(200);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}

Test(acquire, r12_no_grant_where_the_number_can_not_be_raised)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    at_ms(1), reply(OP_ACQUIRE, 0x06, VOTE_YES);
    reply_with(
        OP_ACQUIRE, 0x01,
        (struct event_reply){.vote = VOTE_YES, .fence = rig.sent[OP_ACQUIRE].token.fence + 1});
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

/* Each jump is below the trusted limit, and together they are above it. The masters' known clocks
 * do not move with the agent's. */
Test(acquire, r12_small_jumps_of_the_wall_clock_do_not_add_up)
{
    begin_five();
    int64_t wall_us = PROPOSAL * (int64_t)1000000;
    struct event event = {.now = {rig.epoch_us}, .wall_us = wall_us};
    for (uint8_t m = 0; m < 5; m++) {
        event.kind = EVENT_MASTER_CLOCK;
        event.master = (struct event_master){.master = m};
        cr_assert(core_step(rig.core, &event, rig.effects));
    }
    event.kind = EVENT_TIME;
    for (int64_t jump_us = 700000; jump_us <= 1400000; jump_us += 700000) {
        event.wall_us = wall_us + jump_us;
        cr_assert(core_step(rig.core, &event, rig.effects));
    }
    event.kind = EVENT_ACQUIRE;
    event.acquire = (struct event_acquire){.request = 1, .key = text("k")};
    cr_assert(core_step(rig.core, &event, rig.effects));
    event.kind = EVENT_FLUSH;
    cr_assert(core_step(rig.core, &event, rig.effects));
    cr_assert_eq(rig.effects->items[0].token.fence, (uint64_t)wall_us);
}

/* D5.3: a grant from nothing is above the master's floor. A floor that is too far ahead was never
 * granted, and one that is behind changes nothing. */
Test(acquire, r12_a_proposal_is_above_the_floors_that_are_known)
{
    const uint64_t agreed = PROPOSAL * (uint64_t)1000000;
    const uint64_t floors[] = {agreed - 5, agreed + 7, agreed + FENCE_AHEAD_US, agreed + 3};
    const uint64_t proposed[] = {agreed, agreed + 8, agreed + 8, agreed + 8};
    for (unsigned last = 0; last < 4; last++) {
        begin_five();
        for (unsigned i = 0; i <= last; i++) {
            struct event event = {.kind = EVENT_FENCE_FLOOR};
            event.master.floor = floors[i];
            step(event);
        }
        at_ms(0), acquire(1, "k");
        expect_send(OP_ACQUIRE, ALL);
        cr_assert_eq(rig.sent[OP_ACQUIRE].token.fence, proposed[last], "%u", last);
    }
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

/* A table entry that is freed within a step is available only after it. One step may free many:
 * there are enough. */
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

/* More keys than one step has effects for: with each of them goes an answer, and a channel that is
 * left. */
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
        reply(OP_ACQUIRE, ALL, VOTE_TAKEN);
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

/* R12: reports a number of one master that cannot have been granted, `by` beyond two days ahead of
 * the agreed time. */
static void one_master_is_wild(int64_t by)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    uint64_t p = rig.sent[OP_ACQUIRE].token.fence;
    reply_with(OP_ACQUIRE, 0x01,
               (struct event_reply){.vote = VOTE_YES, .fence = p + FENCE_AHEAD_US + (uint64_t)by});
}

Test(acquire, r12_a_number_too_far_ahead_is_no_vote)
{
    one_master_is_wild(1);
    expect_trace(TRACE_FOREIGN);
    cr_assert(rig.trace.spoiled && rig.trace.master == 0);
    reply(OP_ACQUIRE, 0x06, VOTE_YES);
    expect_nothing();
    reply(OP_ACQUIRE, 0x08, VOTE_YES); /* the third that counts; the wild number is not followed */
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, rig.sent[OP_ACQUIRE].token.fence);
    cr_assert_eq(rig.answer.tally.granted, 3);
    release(2, "k", rig.answer.hold.token);
    expect_send(OP_RELEASE, ALL); /* its key may be there too */
}

Test(acquire, r12_a_number_just_within_two_days_is_followed)
{
    one_master_is_wild(0);
    reply(OP_ACQUIRE, 0x06, VOTE_YES);
    expect_send(OP_RAISE, 0x06);
    reply(OP_RAISE, 0x06, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, rig.sent[OP_ACQUIRE].token.fence + FENCE_AHEAD_US);
}

/* 0 is no number of a grant, even if all masters report it. */
Test(acquire, r12_a_grant_without_a_number_is_no_vote)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, (struct event_reply){.vote = VOTE_YES, .fence = 0});
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_trace(TRACE_FOREIGN);
    cr_assert(rig.trace.spoiled);
    expect_send(OP_RELEASE, ALL); /* its key may still be there */
}

/* 409 is for a lock that has a holder. */
Test(acquire, r12_too_many_spoiled_masters_are_no_holder)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x03, VOTE_YES);
    reply(OP_ACQUIRE, 0x1c, VOTE_SPOILED);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert_eq(rig.answer.tally.taken, 0);
    cr_assert_eq(rig.answer.tally.failed, 3);
    expect_send(OP_RELEASE, ALL);
}

/* A second phase that a spoiled master does not take part in. */
Test(acquire, r12_a_raise_that_is_spoiled_does_not_count)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    uint64_t p = rig.sent[OP_ACQUIRE].token.fence;
    reply_with(OP_ACQUIRE, 0x01, (struct event_reply){.vote = VOTE_YES, .fence = p + 77});
    reply(OP_ACQUIRE, 0x06, VOTE_YES);
    expect_send(OP_RAISE, 0x06);
    reply(OP_RAISE, 0x06, VOTE_SPOILED);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}

/* Returns the proposal while the wall clocks of the agent and of all masters show `wall_us`. */
static uint64_t proposed_at(int64_t wall_us)
{
    begin_five();
    struct event event = {.now = {rig.epoch_us + 1}, .wall_us = wall_us};
    for (uint8_t m = 0; m < 5; m++) {
        event.kind = EVENT_MASTER_CLOCK;
        event.master = (struct event_master){.master = m};
        cr_assert(core_step(rig.core, &event, rig.effects));
    }
    event.kind = EVENT_ACQUIRE;
    event.acquire = (struct event_acquire){.request = 1, .key = text("k")};
    cr_assert(core_step(rig.core, &event, rig.effects));
    event.kind = EVENT_FLUSH;
    cr_assert(core_step(rig.core, &event, rig.effects));
    return rig.effects->items[0].token.fence;
}

/* A clock beyond the numbers that scripts can count with still leads to a proposal. The highest
 * number that may be followed from there is a number too. */
Test(acquire, r12_the_proposal_leaves_room_for_its_limit)
{
    uint64_t most = LIMIT_FENCE - FENCE_AHEAD_US;
    cr_assert_eq(proposed_at((int64_t)most - 1), most - 1);
    cr_assert_eq(proposed_at((int64_t)most + 1), most);
    cr_assert_eq(proposed_at(LIMIT_FENCE), most);
    cr_assert_eq(proposed_at(INT64_MAX / 4), most);
}

/* A token with such a number is no proof of anything (D3). */
Test(acquire, r12_a_wild_number_is_not_adopted)
{
    begin_five();
    struct token token = {.random = {7}, .fence = PROPOSAL * 1000000ull + FENCE_AHEAD_US + 1};
    renew(1, "k", token);
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    token.fence--;
    renew(2, "k", token);
    expect_send(OP_ADOPT, ALL);
}
