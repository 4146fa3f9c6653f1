/* Renewals and the watchdog as timelines: R7 and R8, quoted in the names of the tests. */
#include "core_rig.h"

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

/* R7: the ttl and the `renew` of one PUT count together, also if the ttl is too short for the
 * watchdog that the hold has had. */
Test(renew, r7_a_put_may_end_the_watchdog_and_shorten_the_ttl)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000, .renew = RENEW_AGENT);
    at_ms(100), renew_as(1, "k", token, .ttl_ms = 500, .renew = RENEW_CALLER);
    expect_send(OP_RENEW, ALL);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 500);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.ttl_ms, 500);
}

/* R3: a master that is known to be down counts as failed at once, also for a PUT that waited for
 * the next round. */
Test(renew, r3_a_round_without_masters_is_over_at_once)
{
    prepare(1);
    rig.policy.algorithm = ALGORITHM_SINGLE;
    begin();
    acquire_as(30, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, 0x01), reply(OP_ACQUIRE, 0x01, VOTE_YES);
    expect_answer(30, ANSWER_GRANTED);
    struct token token = rig.answer.hold.token;
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, 0x01);
    renew(2, "k", token);
    master_is(0, EVENT_MASTER_DOWN, 1);
    reply(OP_RENEW, 0x01, VOTE_UNKNOWN);
    expect_answer(1, ANSWER_RENEW_FAILED);
    at_us(rig.now_us);
    expect_answer(2, ANSWER_RENEW_FAILED);
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

/* R3: 4,600 callers kept the loop for longer than the masters had, and every renewal failed though
 * all masters had answered in time. */
Test(renew, r3_a_process_that_is_late_hears_first)
{
    begin_five();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    at_ms(1000);
    expect_send(OP_RENEW, ALL);
    stalled_until_ms(1700), step((struct event){.kind = EVENT_TIME});
    expect_nothing(); /* late by 400 ms: it is no loss, and no failure yet */
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_nothing();
    uint32_t cursor = 0;
    struct hold_view hold;
    cr_assert(core_next_hold(rig.core, (struct instant){rig.now_us}, &cursor, &hold));
    cr_assert_gt(hold.valid_until.us, 3000 * 1000, "it is renewed");
}

/* If nothing lies unread the round has failed, within a quarter of the time until the loss. */
Test(renew, r3_a_process_that_is_late_does_not_wait_for_ever)
{
    begin_five();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    at_ms(1000);
    expect_send(OP_RENEW, ALL);
    stalled_until_ms(1700), step((struct event){.kind = EVENT_TIME});
    expect_nothing();
    at_ms(1700 + 450);
    expect_send(OP_RENEW, ALL);
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
    at_ms(9500), renew(2, "k", token); /* the shorter one counts from now on */
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    cr_assert_eq(valid_until_us(), 9500000 + 1000000 - 12000);
}

/* R7: the terms of a PUT count from the renewal that grants them. The round that was out does
 * not. */
Test(renew, r7_a_put_changes_nothing_before_its_own_round)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(100), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    renew_as(2, "k", token, .renew = RENEW_AGENT);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.renew, RENEW_CALLER);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_UNKNOWN);
    expect_answer(2, ANSWER_RENEW_FAILED);
    cr_assert_eq(rig.answer.hold.renew, RENEW_CALLER);
}

Test(renew, a_lease_that_its_caller_let_expire_is_lost_at_its_end)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000); /* valid for 988 ms */
    at_us(982999);
    expect_nothing();
    cr_assert(is_listed("k"));
    at_us(983000); /* `lost` is said in time, however long a timer and a socket take */
    expect_lost(REASON_EXPIRED);
    cr_assert_eq(rig.trace.valid_until.us, rig.epoch_us + 988000);
    cr_assert_not(is_listed("k"));
    at_us(987999);
    expect_nothing(); /* its validity goes on: no key is touched */
    at_us(988000);
    expect_send(OP_RELEASE, ALL); /* its validity has ended, its keys have not */
    at_us(988001), renew(1, "k", token);
    expect_send(OP_ADOPT, ALL); /* after the release: only another agent can still have it (D3) */
    reply(OP_ADOPT, ALL, VOTE_ABSENT);
    expect_answer(1, ANSWER_LOCK_LOST);
    cr_assert_eq(rig.answer.reason, REASON_EXPIRED);
}

/* R7: a renewal that is out is waited for a little longer, and then it is too late for it as
 * well. */
Test(renew, r7_a_put_that_is_confirmed_in_time_wins)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_us(982999), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    at_us(984999), reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(valid_until_us(), 982999 + 988000);
    at_us(982999 + 983000);
    expect_lost(REASON_EXPIRED);
}

Test(renew, r7_a_put_that_is_not_confirmed_in_time_is_told_before_the_end)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_us(982999), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    at_us(984999);
    expect_nothing();
    at_us(985000);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_lost(REASON_EXPIRED);
}

Test(renew, the_answer_may_not_come_after_the_end)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_us(980000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    at_us(981000), reply(OP_RENEW, 0x03, VOTE_YES);
    at_us(988000);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
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

/* R8: the agent renews no ttl below 1 s. A PUT may name such a ttl for its caller, and another one,
 * which was right by itself, may leave the renewals to the agent before the next round. */
Test(renew, r8_two_puts_together_make_no_watchdog_below_1_s)
{
    for (int i = 0; i < 4; i++) { /* both orders, with and without a round in flight */
        begin_five();
        struct token token = hold_as("k", .ttl_ms = 5000);
        if (i >= 2)
            renew(1, "k", token);
        for (uint32_t request = 2; request <= 3; request++)
            if ((request == 2) == (i % 2 == 0))
                renew_as(request, "k", token, .renew = RENEW_AGENT);
            else
                renew_as(request, "k", token, .ttl_ms = 200);
        for (int rounds = 0; rounds < 2; rounds++) {
            expect_send(OP_RENEW, ALL);
            reply(OP_RENEW, ALL, VOTE_YES);
        }
        if (i >= 2)
            expect_answer(1, ANSWER_RENEWED);
        for (uint32_t request = 2; request <= 3; request++) {
            expect_answer(request, ANSWER_RENEWED);
            cr_assert(rig.answer.hold.renew == RENEW_CALLER || rig.answer.hold.ttl_ms >= 1000,
                      "%d: request %u: %u ms", i, request, rig.answer.hold.ttl_ms);
        }
        expect_nothing();
    }
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
        cr_assert(rig.records[i].effect.kind != EFFECT_TRACE ||
                  rig.records[i].effect.trace.kind != TRACE_LOST);
    at_us(2668000);
    expect_lost(REASON_QUORUM_LOST);
    cr_assert_not(is_listed("k"));
    for (size_t i = 0; i < rig.count; i++) /* the keys stay until the validity has ended */
        cr_assert(rig.records[i].effect.kind != EFFECT_SEND ||
                  rig.records[i].effect.send.op != OP_RELEASE);
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
    reply(OP_RENEW, 0x04, VOTE_TAKEN); /* three of five have denied it */
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

/* Lets a quorum confirm, late enough to show that the key which 4 has lost was not released
 * elsewhere before (lease.c). */
static void prove(struct token token, int64_t ms)
{
    at_ms(ms), renew(40, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x10, VOTE_ABSENT);
    reply(OP_RENEW, 0x0f, VOTE_YES);
    expect_answer(40, ANSWER_RENEWED);
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
    prove(token, 1200);
    at_ms(1300), renew(1, "k", token);
    expect_send(OP_RENEW, 0x0f);
    expect_send(OP_REPAIR, 0x10);
    expect_nothing();
}

/* R7: three of five forgot, so no round can prove that the lock was not released elsewhere. */
Test(renew, r7_a_repair_that_nothing_proves_is_for_masters_without_a_vote)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    for (uint8_t m = 2; m < 5; m++)
        at_ms(100), master_is(m, EVENT_MASTER_UP, 2);
    rig.count = 0;
    at_ms(200), renew(1, "k", token);
    expect_send(OP_RENEW, 0x03);
    expect_send(OP_REPAIR, 0x1c);
    cr_assert(rig.sent[OP_REPAIR].unproved);
    reply(OP_RENEW, 0x03, VOTE_YES);
    reply(OP_REPAIR, 0x1c, VOTE_REPAIRED);
    at_ms(300), renew(2, "k", token);
    expect_send(OP_RENEW, ALL); /* a repaired key counts from the next renewal on */
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
}

/* Begins with a lease of 10 s. At 2.1 s request 1 renews it for 2 s. The last master forgot its
 * key. */
static struct token renew_for_less_where_one_forgot(void)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(100), master_is(4, EVENT_MASTER_UP, 2);
    rig.count = 0;
    prove(token, 1100);
    at_ms(2100), renew_as(1, "k", token, .ttl_ms = 2000);
    expect_send(OP_RENEW, 0x0f);
    return token;
}

/* Found by the simulator: the repaired keys would have run out before the validity that was
 * reported. */
Test(renew, r7_a_repaired_key_lives_as_long_as_the_lease_that_is_not_shortened)
{
    renew_for_less_where_one_forgot();
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 2000);
    expect_send(OP_REPAIR, 0x10);
    cr_assert_eq(rig.sent[OP_REPAIR].ttl_ms, 9000);
}

/* R7: the repaired key of master 4 lives until 11.1 s, although the ttl is 2 s. */
Test(renew, r7_a_repaired_key_is_not_created_anew_before_its_longer_lease_is_over)
{
    struct token token = renew_for_less_where_one_forgot();
    expect_send(OP_REPAIR, 0x10);
    reply(OP_REPAIR, 0x10, VOTE_REPAIRED);
    reply(OP_RENEW, 0x0f, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_ms(4500), renew(2, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x0f, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    at_ms(4600), renew(3, "k", token);
    expect_send(OP_RENEW, ALL);
}

/* Found by the simulator: a doubled vote that came after the news of another epoch confirmed a
 * token that was gone. */
Test(renew, r7_a_doubled_vote_confirms_nothing_in_a_new_epoch)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(100), master_is(4, EVENT_MASTER_UP, 2); /* it was emptied under its connection */
    at_ms(101), reply(OP_ACQUIRE, 0x10, VOTE_YES);
    rig.count = 0;
    prove(token, 1100);
    at_ms(1200), renew(1, "k", token);
    expect_send(OP_RENEW, 0x0f);
    expect_send(OP_REPAIR, 0x10);
    expect_nothing();
}

/* R8: a renewal begins ttl/3 after the round before it at the latest, also if the replies to that
 * one came late. */
Test(renew, r8_late_replies_do_not_put_off_the_next_renewal)
{
    enum { LATE_MS = 2900 }; /* in time: a tenth of the ttl is 3 s */
    begin_five();
    hold_as("k", .ttl_ms = 30000, .renew = RENEW_AGENT);
    let_time_pass_until(OP_RENEW, 10000);
    expect_send(OP_RENEW, ALL);
    at_us(rig.now_us + LATE_MS * 1000), reply(OP_RENEW, ALL, VOTE_YES);
    expect_nothing();
    let_time_pass_until(OP_RENEW, 10000 - LATE_MS);
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

/* R7: the lost margin is a tenth of max_hold if that is shorter than the ttl. */
Test(renew, r7_a_short_max_hold_has_a_short_margin)
{
    begin_five();
    hold_as("k", .ttl_ms = 30000, .max_hold_ms = 2000, .renew = RENEW_AGENT);
    cr_assert_eq(rig.answer.hold.max_hold_until.us - rig.epoch_us, 2000000);
    expect_nothing();
    at_ms(1799);
    expect_nothing();
    cr_assert(is_listed("k"));
    at_ms(1800);
    expect_lost(REASON_MAX_HOLD);
}

Test(renew, with_a_wrong_token_is_a_mismatch)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    token.random[RANDOM_BYTES - 1] ^= 1;
    at_ms(1), renew(1, "k", token);
    /* it may be adopted, for all that this agent knows */
    if (core_stats(rig.core)->requests == 1) {
        expect_send(OP_ADOPT, ALL);
        reply(OP_ADOPT, ALL, VOTE_TAKEN);
    }
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    cr_assert(is_listed("k"));
}
