/* Order over all agents, as timelines (R9, order fair). */
#include "core_rig.h"

enum { MASTER_US = 1000 };

static void begin_fair_of(uint8_t masters)
{
    prepare(masters);
    rig.policy.form = FORM_FAIR;
    rig.policy.handover_max = 16;
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = 60000;
    begin();
}

static void begin_fair(void)
{
    begin_fair_of(5);
}

/* Refuses like masters do: with the number of this agent's ticket. Its turn comes in 2.9 s at the
 * latest. */
static void refuse(enum op op, master_set masters, uint64_t ticket)
{
    reply_with(
        op, masters,
        (struct event_reply){.vote = VOTE_TAKEN, .occupant.left_ms = 2900, .ticket = ticket});
}

static struct ticket *shown(enum op op)
{
    return &rig.sent[op].ticket;
}

static void expect_undone_with_ticket(enum op op, master_set masters)
{
    expect_send(OP_RELEASE, masters);
    cr_assert(form_is_fair(rig.sent[OP_RELEASE].form));
    cr_assert_eq(shown(OP_RELEASE)->agent, shown(op)->agent);
    cr_assert_eq(shown(OP_RELEASE)->number, shown(op)->number);
    cr_assert_eq(shown(OP_RELEASE)->ttl_ms, TICKET_MS);
}

/* The alarm names the key that has to go. */
Test(fair, r9_tickets_of_another_type_are_traced_as_tickets)
{
    begin_fair();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x01, (struct event_reply){.vote = VOTE_SPOILED, .tickets = true});
    expect_trace(TRACE_FOREIGN);
    cr_assert(rig.trace.spoiled && rig.trace.tickets && rig.trace.master == 0);
    reply(OP_ACQUIRE, 0x02, VOTE_SPOILED);
    expect_trace(TRACE_FOREIGN);
    cr_assert(rig.trace.spoiled && !rig.trace.tickets && rig.trace.master == 1);
    reply(OP_ACQUIRE, 0x1c, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

/* Refuses a round by all masters, of which two reply too late to decide. Their part is undone, and
 * the ticket stays. */
static void refused(enum op op)
{
    refuse(op, 0x07, shown(op)->number);
    expect_undone_with_ticket(op, 0x18);
    refuse(op, 0x18, shown(op)->number);
    reply(OP_RELEASE, 0x18, VOTE_TAKEN);
}

/* Gives a message as masters send it. `next` is the agent whose turn it is. */
static void told(master_set masters, uint64_t next)
{
    for (uint8_t m = 0; m < 5; m++) {
        struct event event = {.kind = EVENT_MESSAGE};
        event.channel =
            (struct event_channel){.master = m, .key = text("k"), .agents = 3, .next = next};
        if (masters >> m & 1)
            step(event);
    }
}

/* Leaves request 1 waiting after a refusal, with a subscription to releases. */
static void begin_waiting(void)
{
    begin_fair();
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    refused(OP_ACQUIRE);
    expect_channel(EFFECT_WATCH);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    expect_send(OP_ACQUIRE, ALL);
    refused(OP_ACQUIRE);
    expect_nothing();
}

Test(fair, r9_a_number_is_the_time_of_coming)
{
    begin_fair();
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    uint64_t first = shown(OP_ACQUIRE)->number;
    cr_assert_eq(first, PROPOSAL * (uint64_t)1000000);
    cr_assert_neq(shown(OP_ACQUIRE)->agent, 0u);
    cr_assert(shown(OP_ACQUIRE)->fresh);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, TICKET_MS);
    at_us(700);
    acquire_as(2, "k", .wait_ms = 200000);
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    at_ms(10), release(63, "k", rig.answer.hold.token);
    expect_send(OP_HANDOVER, ALL);
    cr_assert_eq(shown(OP_HANDOVER)->number, first + 700);
    cr_assert_not(shown(OP_HANDOVER)->fresh);
}

/* D3.5: a repeat that replaces a waiter has its ticket too. */
Test(fair, r9_a_repeat_keeps_the_ticket_of_the_request_before)
{
    begin_fair();
    acquire_as(1, "k", .wait_ms = 200000, .idempotency = text("0123456789abcdef"));
    expect_send(OP_ACQUIRE, ALL);
    const uint64_t number = shown(OP_ACQUIRE)->number;
    refused(OP_ACQUIRE);
    expect_channel(EFFECT_WATCH);
    at_ms(500), acquire_as(2, "k", .wait_ms = 200000, .idempotency = text("0123456789abcdef"));
    expect_answer(1, ANSWER_SUPERSEDED);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->number, number);
    cr_assert_not(shown(OP_ACQUIRE)->fresh);
}

/* No master has told the number of the request before, so it may still be raised. */
Test(fair, r9_a_repeat_keeps_that_the_number_is_new_to_the_masters)
{
    begin_fair();
    acquire_as(1, "k", .wait_ms = 200000, .idempotency = text("0123456789abcdef"));
    expect_send(OP_ACQUIRE, ALL);
    at_ms(1), acquire_as(2, "k", .wait_ms = 199999, .late_ms = 1,
                         .idempotency = text("0123456789abcdef"));
    expect_answer(1, ANSWER_SUPERSEDED);
    reply(OP_ACQUIRE, ALL, VOTE_UNKNOWN);
    expect_send(OP_RELEASE, ALL);
    let_time_pass_until(OP_ACQUIRE, 1100);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert(shown(OP_ACQUIRE)->fresh);
}

/* A grant takes the ticket off. A waiter that loses the vote gets it back, and no other agent
 * overtakes it. */
Test(fair, r9_a_split_vote_costs_nobody_the_place)
{
    begin_waiting();
    told(0x07, shown(OP_ACQUIRE)->agent);
    at_us(MASTER_US);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x03, VOTE_YES);
    refuse(OP_ACQUIRE, 0x1c, shown(OP_ACQUIRE)->number);
    expect_undone_with_ticket(OP_ACQUIRE, 0x03);
    reply(OP_RELEASE, 0x01, VOTE_YES);
    /* It is asked again, perhaps after the next attempt. That attempt shows the ticket. */
    reply(OP_RELEASE, 0x02, VOTE_NOT_RUN);
    expect_send(OP_RELEASE, 0x02);
    cr_assert_eq(shown(OP_RELEASE)->agent, 0u);
}

/* An ended request keeps no ticket either. */
Test(fair, r9_an_attempt_for_nobody_leaves_no_ticket)
{
    begin_fair();
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x01, VOTE_YES);
    refuse(OP_ACQUIRE, 0x02, shown(OP_ACQUIRE)->number);
    cancel(1);
    expect_send(OP_RELEASE, 0x1d);
    cr_assert_eq(shown(OP_RELEASE)->agent, 0u);
    expect_send(OP_WITHDRAW, ALL);
}

/* If no hand-over is allowed, no other agent overtakes between the release and the attempt of the
 * next waiter here. */
Test(fair, r9_a_release_keeps_the_place_of_the_next_one_here)
{
    prepare(5);
    rig.policy.form = FORM_FAIR;
    rig.policy.handover_max = 0;
    begin();
    struct token token = hold("k");
    at_ms(1);
    acquire_as(1, "k", .wait_ms = 200000);
    expect_nothing();
    at_ms(10), release(62, "k", token);
    expect_send(OP_RELEASE, ALL);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_RELEASE)->agent, shown(OP_ACQUIRE)->agent);
    cr_assert_eq(shown(OP_RELEASE)->number, shown(OP_ACQUIRE)->number);
    cr_assert_eq(shown(OP_RELEASE)->ttl_ms, TICKET_MS);
}

/* It came later than the waiters elsewhere, even if its clock shows less. */
Test(fair, r9_the_masters_may_raise_the_number_of_one_that_is_new_to_them)
{
    /* The clock is fast, but by less than 2 s: the number stays, also while it is ahead. */
    enum { FAST_US = 1900000 };
    begin_fair();
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    uint64_t first = shown(OP_ACQUIRE)->number;
    refuse(OP_ACQUIRE, 0x01, first);
    refuse(OP_ACQUIRE, 0x02, first + FAST_US);
    refuse(OP_ACQUIRE, 0x04, first + 500);
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    let_time_pass_until(OP_ACQUIRE, 1100);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->number, first + FAST_US);
    cr_assert_not(shown(OP_ACQUIRE)->fresh);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, TICKET_MS);
}

/* It was given before any master's clock was known. */
Test(fair, r9_a_number_from_the_future_is_brought_back)
{
    begin_fair();
    for (uint8_t m = 0; m < 5; m++) {
        struct event clock = {.kind = EVENT_MASTER_CLOCK};
        clock.master = (struct event_master){.master = m, .clock_offset_us = 50000000};
        step(clock);
    }
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->number, (PROPOSAL + 50) * (uint64_t)1000000);
    refused(OP_ACQUIRE);
    expect_channel(EFFECT_WATCH);
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_UP, 1);
    let_time_pass_until(OP_ACQUIRE, 1100);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->number, PROPOSAL * (uint64_t)1000000 + (uint64_t)rig.now_us);
}

Test(fair, r9_only_the_one_whose_turn_it_is_wakes)
{
    begin_waiting();
    told(ALL, shown(OP_ACQUIRE)->agent + 2);
    at_us(MASTER_US);
    expect_nothing();
    told(0x03, shown(OP_ACQUIRE)->agent);
    expect_nothing();
    told(0x04, shown(OP_ACQUIRE)->agent);
    at_us(MASTER_US + 1); /* at once: no other agent tries now */
    expect_send(OP_ACQUIRE, ALL);
}

Test(fair, r9_a_message_without_a_ticket_is_for_all)
{
    begin_waiting();
    told(0x07, 0);
    let_time_pass_until(OP_ACQUIRE, 5);
    expect_send(OP_ACQUIRE, ALL);
}

/* The pauses are a minute by the policy, and the masters keep a ticket for 3 s. */
Test(fair, r9_a_ticket_is_shown_again_in_time)
{
    begin_waiting();
    for (int i = 0; i < 10; i++) {
        int64_t before_us = rig.now_us;
        let_time_pass_until(OP_ACQUIRE, 1001);
        cr_assert_gt(rig.now_us, before_us + 400000, "it polls");
        expect_send(OP_ACQUIRE, ALL);
        refused(OP_ACQUIRE);
        expect_nothing();
    }
}

Test(fair, r9_the_last_waiter_that_leaves_takes_the_ticket_off)
{
    begin_waiting();
    cancel(1);
    expect_send(OP_WITHDRAW, ALL);
    cr_assert_eq(rig.sent[OP_WITHDRAW].ticket.agent, shown(OP_ACQUIRE)->agent);
    expect_channel(EFFECT_UNWATCH);
    reply(OP_WITHDRAW, ALL, VOTE_YES);
    reply(OP_WITHDRAW, 0x01, VOTE_UNKNOWN);
    expect_nothing();
    at_ms(2000);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 0);
}

Test(fair, r9_the_next_one_shows_its_own_number_at_once)
{
    begin_waiting();
    uint64_t first = shown(OP_ACQUIRE)->number;
    at_us(500);
    acquire_as(2, "k", .wait_ms = 200000);
    expect_nothing();
    cancel(1);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->number, first + 500);
}

Test(fair, r9_one_of_the_middle_leaves_without_a_word)
{
    begin_waiting();
    acquire_as(2, "k", .wait_ms = 200000);
    cancel(2);
    expect_nothing();
}

/* Otherwise it would block agents that reach the other masters as well. */
Test(fair, r9_who_reaches_no_quorum_leaves_no_ticket)
{
    begin_waiting();
    let_time_pass_until(OP_ACQUIRE, 1001);
    expect_send(OP_ACQUIRE, ALL);
    refuse(OP_ACQUIRE, 0x03, shown(OP_ACQUIRE)->number);
    at_us(rig.now_us + 50000); /* the others are silent */
    expect_send(OP_RELEASE, 0x1c);
    expect_send(OP_WITHDRAW, ALL);
    reply(OP_RELEASE, 0x1c, VOTE_ABSENT);
    let_time_pass_until(OP_ACQUIRE, 1001);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, 0);
    cr_assert_neq(shown(OP_ACQUIRE)->number, 0u);
    refused(OP_ACQUIRE); /* a quorum answers again */
    let_time_pass_until(OP_ACQUIRE, 1001);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, TICKET_MS);
    expect_nothing();
}

/* Two of four are enough to refuse it, and no quorum. */
Test(fair, r9_who_is_refused_by_the_few_that_it_reaches_leaves_no_ticket)
{
    begin_fair_of(4);
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, 0x0f);
    refuse(OP_ACQUIRE, 0x03, shown(OP_ACQUIRE)->number);
    expect_send(OP_RELEASE, 0x0c);
    expect_channel(EFFECT_WATCH);
    let_time_pass_until(OP_ACQUIRE, 1001);
    expect_send(OP_WITHDRAW, 0x0f);
    expect_send(OP_ACQUIRE, 0x0f);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, 0);
    refuse(OP_ACQUIRE, 0x03, shown(OP_ACQUIRE)->number);
    expect_send(OP_RELEASE, 0x0c);
    refuse(OP_ACQUIRE, 0x0c, shown(OP_ACQUIRE)->number); /* it is decided, but they do answer */
    let_time_pass_until(OP_ACQUIRE, 1001);
    expect_send(OP_ACQUIRE, 0x0f);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, TICKET_MS);
    expect_nothing();
}

/* The remains of the first attempt keep the key. The results of that attempt are of no use now. */
Test(fair, r9_a_newcomer_is_not_taken_for_unreachable)
{
    begin_fair();
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    at_ms(50);
    expect_send(OP_RELEASE, ALL);
    expect_send(OP_WITHDRAW, ALL);
    cancel(1);
    at_ms(60), acquire_as(2, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, TICKET_MS);
}

/* The next attempt may come at once, and another one only after a second. */
Test(fair, r9_who_is_answered_again_shows_its_ticket_at_once)
{
    begin_fair();
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    at_ms(50);
    expect_send(OP_RELEASE, ALL);
    expect_send(OP_WITHDRAW, ALL);
    let_time_pass_until(OP_ACQUIRE, 60001);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, 0);
    refused(OP_ACQUIRE);
    expect_channel(EFFECT_WATCH);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, TICKET_MS);
}

Test(fair, r9_who_does_not_wait_has_no_ticket)
{
    begin_fair();
    acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->number, 0u);
    cr_assert_eq(shown(OP_ACQUIRE)->ttl_ms, 0);
    cr_assert_neq(shown(OP_ACQUIRE)->agent, 0u);
    refuse(OP_ACQUIRE, ALL, 0);
    expect_answer(1, ANSWER_LOCK_HELD);
    expect_send(OP_RELEASE, 0x18);
    expect_nothing();
}

/* Masters on which it is another agent's turn delete the key: the holder has released it anyway. */
Test(fair, r9_a_hand_over_that_is_refused_is_a_release)
{
    begin_fair();
    struct token token = hold("k");
    acquire_as(1, "k", .wait_ms = 200000);
    release(62, "k", token);
    expect_send(OP_HANDOVER, ALL);
    cr_assert_eq(shown(OP_HANDOVER)->ttl_ms, TICKET_MS);
    reply_with(OP_HANDOVER, 0x07,
               (struct event_reply){.vote = VOTE_TAKEN,
                                    .occupant.left_ms = 2900,
                                    .ticket = shown(OP_HANDOVER)->number,
                                    .is_deleted = true});
    expect_answer(62, ANSWER_RELEASED);
    expect_channel(EFFECT_WATCH);
    expect_send(OP_RELEASE, 0x18);
    refuse(OP_HANDOVER, 0x18, shown(OP_HANDOVER)->number);
    expect_nothing();
    told(0x07, shown(OP_HANDOVER)->agent);
    at_us(rig.now_us + 1);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(shown(OP_ACQUIRE)->number, shown(OP_HANDOVER)->number);
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

/* Tickets keep the order, so no agent sits out. */
Test(fair, r9_hand_overs_are_not_counted)
{
    begin_fair();
    struct token token = hold("k");
    for (uint32_t i = 1; i <= 40; i++) {
        acquire_as(1, "k", .wait_ms = 200000);
        release(62, "k", token);
        expect_send(OP_HANDOVER, ALL);
        struct event_reply handed = {
            .vote = VOTE_YES, .fence = rig.sent[OP_HANDOVER].token.fence, .agents = 2};
        reply_with(OP_HANDOVER, ALL, handed);
        expect_answer(62, ANSWER_RELEASED);
        expect_answer(1, ANSWER_GRANTED);
        token = rig.answer.hold.token;
        expect_nothing();
        at_us(rig.now_us + MASTER_US);
    }
}

/* The release might take off a ticket of a waiter here. */
Test(fair, r9_a_strangers_release_takes_no_ticket_off)
{
    begin_waiting();
    struct token token = {.fence = 7};
    release(62, "k", token);
    expect_send(OP_RELEASE, ALL);
    cr_assert(form_is_fair(rig.sent[OP_RELEASE].form) && rig.sent[OP_RELEASE].ticket.agent == 0);
}

Test(fair, releases_of_both_orders_go_in_commands_of_their_own)
{
    begin_fair();
    struct token token = hold("k");
    release(62, "k", token);
    expect_send(OP_RELEASE, ALL);
    cr_assert_neq(rig.sent[OP_RELEASE].ticket.agent, 0u);
    begin_five();
    token = hold("k");
    release(62, "k", token);
    expect_send(OP_RELEASE, ALL);
    cr_assert_eq(rig.sent[OP_RELEASE].ticket.agent, 0u);
}
