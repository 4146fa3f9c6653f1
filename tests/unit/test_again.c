/* A POST of a caller that has the lock already, as timelines: a repeat with its idempotency key
 * (D3), or its owner once more (R11). The agent's memory is no answer: a quorum has to confirm the
 * token in a round that was sent after the POST came. */
#include "core_rig.h"

#define MY_OWNER text("me-and-nobody-else")
#define MY_KEY text("0123456789abcdef")

static struct token begin_with(struct event_acquire with)
{
    prepare(5);
    rig.policy.reentrant = true;
    begin();
    return hold_with("k", with);
}

static struct token begin_owned(void)
{
    return begin_with((struct event_acquire){.ttl_ms = 10000, .owner = MY_OWNER});
}

static struct token begin_repeatable(void)
{
    return begin_with((struct event_acquire){.ttl_ms = 10000, .idempotency = MY_KEY});
}

static void enter(uint32_t request, int64_t wait_ms)
{
    acquire_as(request, "k", .ttl_ms = 10000, .wait_ms = wait_ms, .owner = MY_OWNER);
}

static void repeat(uint32_t request)
{
    acquire_as(request, "k", .ttl_ms = 10000, .idempotency = MY_KEY);
}

static void undelivered(struct lock_ref lock)
{
    step((struct event){.kind = EVENT_UNDELIVERED, .undelivered.lock = lock});
}

/* Two masters are no quorum. The validity is that of the renewal. */
Test(again, d3_r11_a_quorum_confirms_it_first)
{
    begin_owned();
    at_ms(3000), enter(1, 0);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x03, VOTE_YES);
    expect_nothing();
    reply(OP_RENEW, 0x04, VOTE_YES);
    expect_answer(1, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.count, 2);
    cr_assert_eq(rig.answer.tally.granted, 5);
    cr_assert_eq(valid_until_us(), 3000000 + 10000000 - 102000);
}

/* The owner asks for the lock on other terms. The terms of the hold stay. */
Test(again, r11_the_terms_stay)
{
    begin_owned();
    at_ms(1000), acquire_as(1, "k", .ttl_ms = 2000, .renew = RENEW_AGENT, .owner = MY_OWNER);
    expect_confirmed(1, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.ttl_ms, 10000);
    cr_assert_eq(rig.answer.hold.renew, RENEW_CALLER);
    cr_assert_eq(valid_until_us(), 1000000 + 10000000 - 102000);
}

/* A round that was sent before the request came proves nothing for it. */
Test(again, d3_r11_a_round_that_was_out_does_not_count)
{
    struct token token = begin_owned();
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    at_ms(1010), enter(2, 0);
    expect_nothing();
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    expect_send(OP_RENEW, ALL);
    expect_nothing();
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.count, 2);
}

/* No quorum answers: that is no loss, and nothing is counted. */
Test(again, d3_r11_without_a_quorum_nothing_is_counted)
{
    struct token token = begin_owned();
    at_ms(1000), enter(1, 0);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_REFUSED);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert_eq(rig.answer.tally.failed, 3);
    cr_assert(is_listed("k"));
    release(2, "k", token);
    expect_send(OP_RELEASE, ALL);
}

/* A request without a wait has the time of two acquires. A request with a wait is answered at its
 * deadline. */
Test(again, d3_r11_patience)
{
    begin_owned();
    at_ms(1000), enter(1, 0);
    expect_send(OP_RENEW, ALL);
    at_ms(1020), enter(2, 30);
    at_ms(1049), expect_nothing();
    at_ms(1050), expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    at_ms(1099), expect_nothing();
    at_ms(1100), expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_nothing(); /* no entry is counted */
    enter(3, 0);
    expect_confirmed(3, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.count, 2);
}

/* The lock was released at another agent. */
Test(again, d3_a_repeat_hears_that_it_is_lost)
{
    begin_repeatable();
    at_ms(1000), repeat(1);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    expect_answer(1, ANSWER_LOCK_LOST);
    cr_assert_not(is_listed("k"));
    repeat(2);
    expect_answer(2, ANSWER_LOCK_LOST);
}

/* Its owner gets the same answer as any other caller. */
Test(again, r11_an_owner_contends_then)
{
    struct token token = begin_owned();
    at_ms(1000), enter(1, 0), enter(2, 5000);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED); /* it waits, so it is the first of the queue */
    cr_assert_not(token_same_random(&rig.answer.hold.token, &token));
    cr_assert_eq(rig.answer.hold.count, 1);
    expect_answer(1, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.count, 2);
}

Test(again, r11_an_owner_is_refused_then)
{
    begin_owned();
    at_ms(1000), enter(1, 0);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_TAKEN);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x07, VOTE_TAKEN);
    expect_answer(1, ANSWER_LOCK_HELD);
}

/* A request that came before the others is served before them. */
Test(again, r9_an_owner_keeps_its_place)
{
    struct token token = begin_owned();
    at_ms(1000), enter(1, 5000);
    expect_send(OP_RENEW, ALL);
    acquire_as(2, "k", .wait_ms = 5000);
    release(3, "k", token);
    expect_send(OP_RELEASE, ALL);
    let_time_pass_until(OP_ACQUIRE, 10);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

/* R9, order fair: it takes the ticket of the first waiter, because it has none. */
Test(again, r9_an_owner_takes_the_ticket_of_the_one_that_it_stands_before)
{
    prepare(5);
    rig.policy.reentrant = true;
    rig.policy.form = FORM_FAIR;
    begin();
    struct token token = hold_with("k", (struct event_acquire){.ttl_ms = 10000, .owner = MY_OWNER});
    at_ms(1000), enter(1, 5000);
    expect_send(OP_RENEW, ALL);
    acquire_as(2, "k", .wait_ms = 5000);
    release(3, "k", token);
    expect_send(OP_RELEASE, ALL);
    uint64_t shown = rig.sent[OP_RELEASE].ticket.number;
    cr_assert_neq(shown, 0u, "that of the second request");
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].ticket.number, shown);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

/* R11: it is behind a request that contends already, also if that came later. */
Test(again, r11_an_owner_does_not_pass_a_writer_that_contends)
{
    prepare(5);
    rig.policy.reentrant = true;
    rig.policy.form = FORM_SHARED;
    begin();
    hold_as("k", .ttl_ms = 10000, .owner = MY_OWNER, .mode = MODE_READ);
    at_ms(1000);
    acquire_as(1, "k", .ttl_ms = 10000, .wait_ms = 5000, .owner = MY_OWNER, .mode = MODE_READ);
    expect_send(OP_RENEW, ALL);
    acquire_as(2, "k", .wait_ms = 5000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    expect_lost(REASON_GONE);
    reply(OP_ACQUIRE, 0x07, VOTE_TAKEN);
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    expect_nothing();
    let_time_pass_until(OP_ACQUIRE, 1000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].mode, MODE_WRITE);
}

/* R9: a repeat that replaces a waiter is as old as that waiter. */
Test(again, r9_an_owner_does_not_pass_the_repeat_of_an_older_waiter)
{
    struct token token = begin_owned();
    at_ms(1000), acquire_as(2, "k", .wait_ms = 5000, .idempotency = MY_KEY);
    enter(1, 5000);
    acquire_as(4, "k", .wait_ms = 5000, .idempotency = MY_KEY);
    expect_answer(2, ANSWER_SUPERSEDED);
    release(3, "k", token);
    expect_send(OP_RELEASE, ALL);
    let_time_pass_until(OP_ACQUIRE, 10);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(4, ANSWER_GRANTED);
}

/* Another agent has it by its holder's PUT: a repeat does not take it back. */
Test(again, d3_a_repeat_adopts_nothing)
{
    begin_repeatable();
    at_ms(1000), repeat(1);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_MOVED);
    expect_answer(1, ANSWER_LOCK_LOST);
    expect_lost(REASON_MOVED);
    expect_nothing();
}

/* The first answer did not arrive, and the repeat may. */
Test(again, d3_a_repeat_keeps_the_hold)
{
    begin_repeatable();
    const struct lock_ref lock = rig.answer.lock;
    at_ms(1000), repeat(1);
    expect_send(OP_RENEW, ALL);
    undelivered(lock);
    expect_nothing();
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_REPEATED);
    cr_assert(is_listed("k"));
    undelivered(lock);
    expect_send(OP_RELEASE, ALL);
}

/* Neither answer arrives anywhere: no caller has it. */
Test(again, d3_a_repeat_that_fails_hands_out_nothing)
{
    begin_repeatable();
    const struct lock_ref lock = rig.answer.lock;
    at_ms(1000), repeat(1);
    expect_send(OP_RENEW, ALL);
    undelivered(lock);
    reply(OP_RENEW, 0x07, VOTE_REFUSED);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_send(OP_RELEASE, ALL);
}

Test(again, d3_a_repeat_that_leaves_hands_out_nothing)
{
    begin_repeatable();
    const struct lock_ref lock = rig.answer.lock;
    at_ms(1000), repeat(1), repeat(2);
    expect_send(OP_RENEW, ALL);
    undelivered(lock), cancel(1);
    expect_nothing();
    cancel(2);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_nothing();
}

/* An owner that leaves has not entered. */
Test(again, r11_an_owner_that_leaves_is_not_counted)
{
    struct token token = begin_owned();
    at_ms(1000), enter(1, 0);
    expect_send(OP_RENEW, ALL);
    cancel(1);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_nothing();
    release(2, "k", token);
    expect_send(OP_RELEASE, ALL);
}

/* A DELETE comes as they wait. */
Test(again, d3_a_repeat_of_what_is_released)
{
    struct token token = begin_repeatable();
    at_ms(1000), repeat(1);
    expect_send(OP_RENEW, ALL);
    release(2, "k", token);
    expect_answer(1, ANSWER_SUPERSEDED);
    expect_send(OP_RELEASE, ALL);
}

Test(again, r11_an_owner_of_what_is_released)
{
    struct token token = begin_owned();
    at_ms(1000), enter(1, 0);
    expect_send(OP_RENEW, ALL);
    release(2, "k", token);
    expect_send(OP_RELEASE, ALL);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

/* The agent ends the hold itself as they wait. */
Test(again, d3_r11_at_the_end_of_the_agent)
{
    begin_owned();
    at_ms(1000), enter(1, 0);
    expect_send(OP_RENEW, ALL);
    step((struct event){.kind = EVENT_END});
    at_ms(1001);
    expect_lost(REASON_DRAINED);
    expect_answer(1, ANSWER_DRAINING);
}

/* R9: the hold that refuses a caller here may have been released elsewhere. So it is renewed at
 * once. */
Test(again, r9_a_refusal_asks_for_the_hold_that_refuses)
{
    prepare(5);
    begin();
    hold_as("k", .ttl_ms = 10000, .renew = RENEW_AGENT);
    at_ms(400), acquire(1, "k");
    expect_answer(1, ANSWER_LOCK_HELD);
    at_ms(499), expect_nothing(); /* a twentieth of the ttl after the last round */
    at_ms(500), expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    at_ms(800), acquire(2, "k");
    expect_answer(2, ANSWER_LOCK_HELD);
    at_ms(999), expect_nothing();
    at_ms(1000), expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    at_ms(1800), acquire_as(3, "k", .wait_ms = 5000);
    at_ms(1801), expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
}

/* A lease that its caller renews ends when its caller wants. */
Test(again, r9_a_refusal_extends_no_plain_lease)
{
    prepare(5);
    begin();
    hold_as("k", .ttl_ms = 10000);
    at_ms(3000), acquire(1, "k");
    expect_answer(1, ANSWER_LOCK_HELD);
    at_ms(3100), expect_nothing();
}

/* ---- why it ended ---------------------------------------------------------------------------- */

static void begin_watched(void)
{
    prepare(5);
    begin();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    let_time_pass_until(OP_RENEW, 1100);
    expect_send(OP_RENEW, ALL);
}

/* Begins with a hold that its owner has twice, and that is lost 5 ms before its end. */
static struct token lose_two_shares(bool bound)
{
    struct token token =
        begin_with((struct event_acquire){.ttl_ms = 10000, .owner = MY_OWNER, .bound = bound});
    acquire_as(1, "k", .ttl_ms = 10000, .owner = MY_OWNER, .bound = bound);
    expect_confirmed(1, ANSWER_REENTERED);
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    at_ms(9996);
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_UP, 1);
    rig.count = 0;
    return token;
}

static void adopt_back(struct token token)
{
    reply_with(OP_ADOPT, ALL, (struct event_reply){.vote = VOTE_YES, .fence = token.fence});
    expect_answer(3, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.count, 1);
    rig.count = 0;
    release(5, "k", token);
    expect_send(OP_RELEASE, ALL);
}

/* R11: a share is given back while the adoption is in flight. */
Test(ended, r11_a_share_that_is_given_back_meanwhile_is_not_adopted)
{
    struct token token = lose_two_shares(/* bound= */ false);
    renew(3, "k", token);
    expect_send(OP_ADOPT, ALL);
    release(4, "k", token);
    expect_answer(4, ANSWER_LOCK_LOST);
    adopt_back(token);
}

/* R11: the streams of both have said `lost`, and give nothing back any more. */
Test(ended, r11_bound_shares_end_with_the_loss)
{
    struct token token = lose_two_shares(/* bound= */ true);
    renew(3, "k", token);
    expect_send(OP_ADOPT, ALL);
    adopt_back(token);
}

/* A release at another agent leaves no key. */
Test(ended, d7_gone)
{
    begin_watched();
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    expect_lost(REASON_GONE);
}

/* A PUT at another agent leaves the token there. */
Test(ended, d7_moved)
{
    begin_watched();
    reply(OP_RENEW, 0x01, VOTE_ABSENT);
    reply(OP_RENEW, 0x06, VOTE_MOVED);
    expect_lost(REASON_MOVED);
}

/* One other holder is enough: no agent can tell whether the key was released before. */
Test(ended, d7_taken)
{
    begin_watched();
    reply(OP_RENEW, 0x01, VOTE_TAKEN);
    reply(OP_RENEW, 0x06, VOTE_ABSENT);
    expect_lost(REASON_TAKEN);
}

/* ---- C4: silence is no denial ---------------------------------------------------------------- */

/* Another agent may have promised it for longer. */
Test(silence, c4_a_put_that_no_quorum_answers_is_not_told_of_a_loss)
{
    prepare(5);
    begin();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(980), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x03, VOTE_YES);
    at_ms(985);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_lost(REASON_EXPIRED);
    renew(2, "k", token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x07, VOTE_REFUSED);
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    renew(3, "k", token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x07, VOTE_ABSENT);
    expect_answer(3, ANSWER_LOCK_LOST);
}

Test(silence, c4_a_delete_that_no_quorum_answers_is_not_told_of_a_loss)
{
    prepare(5);
    begin();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(988);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
    at_ms(2000), release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x07, VOTE_REFUSED);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}

/* It is at another agent, and could not be had back: no master has denied the token. */
Test(silence, c4_a_put_that_does_not_get_it_back)
{
    prepare(5);
    begin();
    struct token token = hold_as("k", .ttl_ms = 5000);
    at_ms(500), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_MOVED);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x07, VOTE_REFUSED);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_lost(REASON_MOVED);
}

/* ---- answers to a GET ------------------------------------------------------------------------ */

static void look(master_set own, master_set others, master_set absent)
{
    prepare(5);
    begin();
    hold_as("k", .ttl_ms = 5000, .label = text("mine"));
    read_key(1, "k");
    expect_send(OP_READ, ALL);
    reply(OP_READ, own, VOTE_YES);
    reply_with(OP_READ, others,
               (struct event_reply){.vote = VOTE_YES, .occupant.label = text("other")});
    reply(OP_READ, absent, VOTE_ABSENT);
    reply(OP_READ, (master_set)(ALL & ~(own | others | absent)), VOTE_UNKNOWN);
    expect_answer(1, ANSWER_STATE);
}

Test(look, c5_masters_that_agree)
{
    look(0x0f, 0, 0);
    cr_assert(rig.answer.local);
    cr_assert_eq(rig.answer.hold.confirmed, 4);
}

Test(look, c5_masters_that_deny)
{
    look(0x03, 0x1c, 0);
    cr_assert_not(rig.answer.local);
    look(0x03, 0, 0x1c);
    cr_assert_not(rig.answer.local);
    look(0, 0x1f, 0);
    cr_assert_not(rig.answer.local);
    cr_assert_eq(rig.answer.occupant.label.len, 5);
    cr_assert_eq(memcmp(rig.answer.occupant.label.at, "other", 5), 0);
}

/* The agent knows nothing more, but no master is called as a witness. */
Test(look, c5_masters_that_do_not_answer)
{
    look(0x01, 0x02, 0x04);
    cr_assert(rig.answer.local);
    cr_assert_eq(rig.answer.hold.confirmed, 1);
}
