/* Holds out of a journal as timelines: what goes on, what is released, what runs out (R7). */
#include "core_rig.h"

static void begin_with_journal(void)
{
    prepare(5);
    rig.config.journal = true;
    begin();
}

static struct event_restore a_hold(int64_t valid_ms)
{
    struct event_restore hold = {
        .key = text("k"),
        .label = text("me"),
        .token = {.fence = 77},
        .renew = RENEW_AGENT,
        .ttl_ms = 3000,
        .count = 1,
        .acquired_at = {rig.epoch_us - 1000},
        .valid_until = {rig.epoch_us + valid_ms * 1000},
        .max_hold_until = {rig.epoch_us + 600000000},
        .lease_until = {rig.epoch_us + (valid_ms + 50) * 1000},
    };
    memset(hold.token.random, 7, RANDOM_BYTES);
    return hold;
}

static void restore(struct event_restore hold)
{
    step((struct event){.kind = EVENT_RESTORE, .restore = hold});
}

static const struct effect_hold *noted(void)
{
    for (size_t i = rig.count; i-- > 0;)
        if (rig.records[i].effect.kind == EFFECT_HOLD)
            return &rig.records[i].effect.hold;
    cr_assert_fail("nothing was noted");
    return NULL;
}

Test(restore, r7_a_watchdog_hold_is_renewed_at_once_and_the_first_renewal_creates_no_key)
{
    begin_with_journal();
    restore(a_hold(2000)), at_ms(1);
    cr_assert(is_listed("k"));
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x03, VOTE_ABSENT);
    reply(OP_RENEW, 0x1c, VOTE_YES);
    cr_assert(!noted()->ended && noted()->view.valid_until.us > rig.epoch_us + 2000000);
    expect_nothing();
    let_time_pass_until(OP_RENEW, 1500);
    expect_send(OP_RENEW, 0x1c);
    expect_send(OP_REPAIR, 0x03); /* from the second on it is a hold like any other */
    struct token token = a_hold(0).token;
    release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    cr_assert(noted()->ended);
}

Test(restore, r7_a_quorum_that_does_not_confirm_leaves_it_to_end)
{
    begin_with_journal();
    restore(a_hold(2000)), at_ms(1);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    reply(OP_RENEW, 0x18, VOTE_YES);
    let_time_pass_until(OP_RENEW, 500);
    expect_send(OP_RENEW, ALL); /* and again no repair */
    at_ms(1700);
    expect_lost(REASON_QUORUM_LOST);
}

Test(restore, the_masters_may_come_up_later)
{
    prepare(5);
    rig.config.journal = true;
    begin();
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    restore(a_hold(2000)), at_ms(300);
    cr_assert(is_listed("k"));
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_UP, 2);
    rig.count = 0;
    let_time_pass_until(OP_RENEW, 300);
    expect_send(OP_RENEW, ALL);
}

Test(restore, a_plain_lease_ends_when_it_was_to_end)
{
    begin_with_journal();
    struct event_restore hold = a_hold(2000);
    hold.renew = RENEW_CALLER;
    restore(hold), at_us(1999999);
    expect_nothing();
    cr_assert(is_listed("k"));
    at_ms(2000);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
}

Test(restore, what_is_over_is_released_also_where_masters_come_up_later)
{
    prepare(5);
    rig.config.journal = true;
    begin();
    master_is(4, EVENT_MASTER_DOWN, 0), rig.count = 0;
    at_ms(10), restore(a_hold(5));
    expect_send(OP_RELEASE, 0x0f);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    cr_assert_not(is_listed("k"));
    master_is(4, EVENT_MASTER_UP, 1);
    at_ms(11);
    expect_send(OP_RELEASE, 0x10);
    reply(OP_RELEASE, 0x10, VOTE_YES);
    cr_assert(noted()->forgotten);
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 0);
}

Test(restore, what_was_reported_lost_runs_out)
{
    begin_with_journal();
    struct event_restore hold = a_hold(2000);
    hold.ended = true;
    restore(hold), at_ms(3000);
    cr_assert_eq(rig.count, 0);
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 0);
}

/* Another agent may have reported a longer validity. */
Test(restore, what_was_adopted_and_is_over_runs_out)
{
    begin_with_journal();
    struct event_restore hold = a_hold(5);
    hold.adopted = true;
    at_ms(10), restore(hold), at_ms(3000);
    cr_assert_eq(rig.count, 0);
}

/* R15: whatever the policy says by now, the restart guard counts on max_ttl. */
Test(restore, r15_a_lock_delay_is_cut_to_max_ttl)
{
    prepare(5);
    rig.config.journal = true;
    rig.policy.lock_delay_ms = 59000;
    begin();
    rig.count = 0;
    restore(a_hold(2000)), at_ms(1);
    expect_send(OP_RENEW, ALL);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 60000);
}

Test(restore, r14_too_late_for_any_renewal_it_is_lost_at_once)
{
    begin_with_journal();
    restore(a_hold(200)); /* the margin is 300 ms */
    expect_lost(REASON_STALLED);
    cr_assert(noted()->ended);
    cr_assert_not(is_listed("k"));
}

Test(restore, a_hold_that_is_found_twice_is_one)
{
    begin_with_journal();
    restore(a_hold(2000)), restore(a_hold(2000)), at_ms(1);
    expect_send(OP_RENEW, ALL);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->locks_held, 1);
}

Test(restore, every_change_is_noted_before_it_is_answered)
{
    begin_with_journal();
    acquire_as(1, "k", .ttl_ms = 3000);
    expect_send(OP_ACQUIRE, ALL);
    rig.count = 0;
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    size_t note = RECORDS, answer = RECORDS;
    for (size_t i = 0; i < rig.count; i++) {
        note = rig.records[i].effect.kind == EFFECT_HOLD && note == RECORDS ? i : note;
        answer = rig.records[i].effect.kind == EFFECT_ANSWER ? i : answer;
    }
    cr_assert(note < answer && answer < RECORDS);
    cr_assert_eq(noted()->lease_until.us, rig.epoch_us + 3000000);
}

Test(restore, without_a_journal_nothing_is_noted)
{
    begin_five();
    hold("k");
    for (size_t i = 0; i < rig.count; i++)
        cr_assert_neq(rig.records[i].effect.kind, EFFECT_HOLD);
}

/* ---- what callers are to it -------------------------------------------------------------------------------------- */

static struct token granted(struct event_acquire with)
{
    acquire_with(63, "k", with);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_GRANTED);
    return rig.answer.hold.token;
}

Test(restore, r11_an_owner_goes_on_with_its_count)
{
    prepare(5);
    rig.config.journal = rig.policy.reentrant = true;
    begin();
    struct token token = granted((struct event_acquire){.ttl_ms = 3000, .owner = text("0123456789abcdef")});
    cr_assert_eq(noted()->view.count, 1);
    acquire_as(1, "k", .owner = text("0123456789abcdef"));
    expect_answer(1, ANSWER_REENTERED);
    cr_assert_eq(noted()->view.count, 2);
    const struct text owner = noted()->secrets.owner;
    cr_assert(owner.len == 16 && memcmp(owner.at, "0123456789abcdef", 16) == 0);
    release(2, "k", token);
    expect_answer(2, ANSWER_RELEASED);
    cr_assert_eq(noted()->view.count, 1);
}

Test(restore, r11_as_many_releases_as_before)
{
    prepare(5);
    rig.config.journal = rig.policy.reentrant = true;
    begin();
    struct event_restore hold = a_hold(2000);
    hold.renew = RENEW_CALLER;
    hold.count = 2;
    hold.secrets.owner = text("0123456789abcdef");
    restore(hold), at_ms(1);
    acquire_as(1, "k", .owner = text("0123456789abcdef"));
    expect_answer(1, ANSWER_REENTERED);
    acquire_as(2, "k", .owner = text("fedcba9876543210"));
    expect_answer(2, ANSWER_LOCK_HELD);
    release(3, "k", hold.token), release(4, "k", hold.token);
    expect_answer(3, ANSWER_RELEASED), expect_answer(4, ANSWER_RELEASED);
    expect_nothing();
    release(5, "k", hold.token);
    expect_send(OP_RELEASE, ALL);
}

/* A POST whose answer was lost with the process is asked again, and has its hold. */
Test(restore, d3_a_request_that_is_asked_again_after_a_restart)
{
    begin_with_journal();
    granted((struct event_acquire){.ttl_ms = 3000, .idempotency = text("0123456789abcdef")});
    struct event_restore hold = a_hold(2000);
    hold.secrets.terms = noted()->secrets.terms;
    cr_assert_eq(noted()->secrets.idempotency.len, 16);
    begin_with_journal();
    hold.secrets.idempotency = text("0123456789abcdef");
    hold.renew = RENEW_CALLER;
    restore(hold), at_ms(1);
    acquire_as(1, "k", .ttl_ms = 3000, .idempotency = text("0123456789abcdef"));
    expect_answer(1, ANSWER_REPEATED);
    cr_assert(token_same_random(&rig.answer.hold.token, &hold.token));
    acquire_as(2, "k", .ttl_ms = 2000, .idempotency = text("0123456789abcdef"));
    expect_answer(2, ANSWER_IDEMPOTENCY_MISMATCH);
}

/* The connection that it was bound to is gone; its caller may live, and has its validity. */
Test(restore, a_bound_hold_is_a_plain_lease_from_then_on)
{
    begin_with_journal();
    granted((struct event_acquire){.ttl_ms = 3000, .bound = true});
    cr_assert_eq(noted()->view.renew, RENEW_CALLER);
    cr_assert_eq(rig.answer.hold.renew, RENEW_AGENT);
}

/* R15: what was not released keeps its key taken for the lock_delay, and what was released does not. */
Test(restore, r15_only_a_release_ends_the_lock_delay)
{
    prepare(5);
    rig.config.journal = true;
    rig.policy.lock_delay_ms = 5000;
    begin();
    struct event_restore hold = a_hold(5);
    at_ms(10), restore(hold);
    expect_nothing();
    hold.ended = true;
    restore(hold);
    expect_nothing();
    hold.released = true;
    restore(hold);
    expect_send(OP_RELEASE, ALL);
}
