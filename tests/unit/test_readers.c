/* Readers and writers: which requests contend beside which, and which wait for which (R17, R18,
 * R19). */
#include "core_rig.h"

enum { FIRST = 0x07, LATE = 0x18 }; /* a quorum of five, and the others */

static void prepare_shared(void)
{
    prepare(5);
    rig.policy.form = FORM_SHARED;
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = 2000;
    rig.config.requests_max = rig.config.locks_max = 2 * LIMIT_READS;
    rig.config.waiters_max = 2 * LIMIT_READS;
}

static void begin_shared(void)
{
    prepare_shared();
    begin();
}

static void ask(uint32_t request, enum mode mode, int64_t wait_ms)
{
    acquire_as(request, "k", .mode = mode, .wait_ms = wait_ms);
}

/* Lets all masters grant it, with this number. */
static struct token grant(uint32_t request, uint64_t fence)
{
    reply_with(OP_ACQUIRE, ALL, (struct event_reply){.vote = VOTE_YES, .fence = fence});
    expect_answer(request, ANSWER_GRANTED);
    return rig.answer.hold.token;
}

static struct token read_now(uint32_t request)
{
    ask(request, MODE_READ, 0);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].mode, MODE_READ);
    return grant(request, PROPOSAL);
}

/* Lets a quorum refuse the latest attempt. It is undone on the other masters. */
static void refuse(enum mode mode, uint32_t readers)
{
    reply_with(OP_ACQUIRE, FIRST,
               (struct event_reply){.vote = VOTE_TAKEN,
                                    .occupant = {.left_ms = 30000,
                                                 .mode = mode,
                                                 .readers = readers,
                                                 .label = text("other")},
                                    .ticket = rig.sent[OP_ACQUIRE].ticket.number});
    expect_send(OP_RELEASE, LATE);
    reply(OP_RELEASE, LATE, VOTE_ABSENT);
}

static struct send_item last_attempt; /* the last attempt that attempts() has counted */

/* Returns how many attempts have been sent since expect_nothing(), each to all masters. */
static size_t attempts(void)
{
    size_t count = 0;
    for (size_t i = 0; i < rig.count; i++) {
        const struct record *r = &rig.records[i];
        if (r->effect.kind != EFFECT_SEND || r->effect.send.op != OP_ACQUIRE)
            continue;
        cr_assert_eq(r->effect.send.masters, ALL);
        last_attempt = r->items[r->effect.send.count - 1];
        count += r->effect.send.count;
    }
    return count;
}

/* Leaves the request waiting after a refusal, with a subscription to releases. */
static void wait_refused(uint32_t request, enum mode mode, enum mode others)
{
    ask(request, mode, 60000);
    expect_send(OP_ACQUIRE, ALL);
    refuse(others, 1);
    expect_channel(EFFECT_WATCH);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    at_us(rig.now_us + 1000);
    expect_send(OP_ACQUIRE, ALL);
    refuse(others, 1);
    expect_nothing();
}

Test(readers, r18_readers_contend_side_by_side_each_with_a_round_of_its_own)
{
    struct send_item sent[3];
    begin_shared();
    for (uint32_t i = 0; i < 3; i++) {
        ask(i, MODE_READ, 0);
        expect_send(OP_ACQUIRE, ALL);
        sent[i] = rig.sent[OP_ACQUIRE];
    }
    for (uint32_t i = 0; i < 3; i++) {
        rig.sent[OP_ACQUIRE] = sent[2 - i]; /* masters may answer in any order */
        grant(2 - i, PROPOSAL);
        cr_assert_eq(rig.answer.hold.mode, MODE_READ);
    }
    expect_nothing();
}

Test(readers, r18_one_of_them_is_refused_at_once_whatever_becomes_of_the_others)
{
    begin_shared();
    ask(1, MODE_READ, 0);
    expect_send(OP_ACQUIRE, ALL);
    struct send_item first = rig.sent[OP_ACQUIRE];
    ask(2, MODE_READ, 0);
    expect_send(OP_ACQUIRE, ALL);
    struct send_item second = rig.sent[OP_ACQUIRE];
    rig.sent[OP_ACQUIRE] = first;
    refuse(MODE_WRITE, 0);
    expect_answer(1, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.occupant.mode, MODE_WRITE);
    expect_nothing();
    rig.sent[OP_ACQUIRE] = second;
    grant(2, PROPOSAL);
}

/* A master that refused it keeps its ticket. It reads for long, so the ticket is taken off at once:
 * a writer elsewhere would wait for it. */
Test(readers, r18_who_reads_leaves_no_ticket_where_it_was_refused)
{
    begin_shared();
    ask(1, MODE_READ, 60000);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, LATE,
               (struct event_reply){
                   .vote = VOTE_TAKEN,
                   .occupant = {.left_ms = 30000, .mode = MODE_WRITE, .label = text("other")},
                   .ticket = rig.sent[OP_ACQUIRE].ticket.number});
    reply_with(OP_ACQUIRE, FIRST, (struct event_reply){.vote = VOTE_YES, .fence = PROPOSAL});
    expect_answer(1, ANSWER_GRANTED);
    expect_send(OP_WITHDRAW, LATE);
}

/* If one is refused, none begins until all contenders are decided. Then all pause. */
Test(readers, r18_who_was_refused_does_not_ask_again_beside_those_that_contend)
{
    begin_shared();
    ask(1, MODE_READ, 60000);
    expect_send(OP_ACQUIRE, ALL);
    struct send_item first = rig.sent[OP_ACQUIRE];
    ask(2, MODE_READ, 60000);
    expect_send(OP_ACQUIRE, ALL);
    struct send_item second = rig.sent[OP_ACQUIRE];
    rig.sent[OP_ACQUIRE] = first;
    refuse(MODE_WRITE, 0);
    ask(3, MODE_READ, 60000);
    expect_nothing();
    rig.sent[OP_ACQUIRE] = second;
    refuse(MODE_WRITE, 0);
    expect_channel(EFFECT_WATCH);
    at_us(rig.now_us + 1000);
    expect_nothing();
}

/* The owner of a read enters it again and does not wait, while another reader of its agent pauses
 * for a writer elsewhere. The read turns out to be gone: its owner contends at once. */
Test(readers, r11_an_owner_whose_read_is_gone_contends_while_others_pause)
{
    prepare_shared();
    rig.policy.reentrant = true;
    begin();
    const struct event_acquire owned = {
        .mode = MODE_READ, .ttl_ms = 10000, .owner = text("me-and-nobody-else")};
    hold_with("k", owned);
    wait_refused(1, MODE_READ, MODE_READ);
    acquire_with(2, "k", owned);
    expect_send(OP_RENEW, ALL);
    expect_nothing();
    reply(OP_RENEW, FIRST, VOTE_ABSENT);
    expect_lost(REASON_GONE);
    const size_t begun = attempts();
    cr_assert_eq(begun, 2, "the one that waits, and the owner beside it (R18): %zu", begun);
    expect_send(OP_ACQUIRE, ALL);
    grant(1, PROPOSAL);
    expect_channel(EFFECT_UNWATCH);
    rig.sent[OP_ACQUIRE] = last_attempt;
    grant(2, PROPOSAL);
    expect_nothing();
}

/* The owner asks to write while its read is in flight. Once it reads, it would wait for itself. */
Test(readers, r19_a_refused_upgrade_is_no_entry)
{
    prepare_shared();
    rig.policy.reentrant = true;
    begin();
    const struct event_acquire reads = {
        .mode = MODE_READ, .ttl_ms = 10000, .wait_ms = 5000, .owner = text("me-and-nobody-else")};
    struct event_acquire writes = reads;
    writes.mode = MODE_WRITE;
    acquire_with(1, "k", reads);
    expect_send(OP_ACQUIRE, ALL);
    acquire_with(2, "k", writes);
    const struct token token = grant(1, PROPOSAL);
    cr_assert_eq(rig.answer.hold.count, 1);
    expect_answer(2, ANSWER_UPGRADE_REFUSED);
    release(3, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_RELEASED);
    cr_assert_not(is_listed("k"));
}

Test(readers, r18_a_writer_that_waits_asks_when_the_read_under_way_is_decided)
{
    begin_shared();
    ask(1, MODE_READ, 0);
    expect_send(OP_ACQUIRE, ALL);
    struct send_item read = rig.sent[OP_ACQUIRE];
    ask(2, MODE_WRITE, 60000);
    expect_nothing();
    rig.sent[OP_ACQUIRE] = read;
    grant(1, PROPOSAL);
}

Test(readers, r18_so_many_side_by_side_and_no_more)
{
    begin_shared();
    for (uint32_t i = 0; i <= LIMIT_READS; i++)
        ask(i, MODE_READ, 0);
    for (uint32_t i = 0; i < LIMIT_READS; i++)
        expect_send(OP_ACQUIRE, ALL);
    expect_nothing();
    grant(LIMIT_READS - 1, PROPOSAL);
    expect_send(OP_ACQUIRE, ALL); /* the last one is sent when the first one is decided */
    grant(LIMIT_READS, PROPOSAL);
}

Test(readers, r18_a_writer_that_does_not_wait_is_refused_by_the_read_that_was_under_way)
{
    begin_shared();
    ask(1, MODE_READ, 0);
    expect_send(OP_ACQUIRE, ALL);
    ask(2, MODE_WRITE, 0);
    expect_nothing();
    grant(1, PROPOSAL);
    expect_answer(2, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.occupant.mode, MODE_READ);
    cr_assert_eq(rig.answer.occupant.readers, 1);
    expect_nothing();
}

/* The writer waits on. A reader behind it would have to wait for it. */
Test(readers, r18_a_reader_that_does_not_wait_is_refused_with_a_writer_that_does)
{
    begin_shared();
    ask(1, MODE_WRITE, 60000);
    expect_send(OP_ACQUIRE, ALL);
    ask(2, MODE_READ, 0);
    expect_nothing();
    refuse(MODE_READ, 3);
    expect_answer(2, ANSWER_LOCK_HELD);
}

/* The masters of a quorum count differently. The least count is the number of readers. */
Test(readers, r17_a_refusal_tells_the_least_count_of_readers)
{
    static const uint32_t counts[] = {4, 2, 3};
    begin_shared();
    ask(1, MODE_WRITE, 0);
    expect_send(OP_ACQUIRE, ALL);
    for (unsigned m = 0; m < 3; m++)
        reply_with(OP_ACQUIRE, (master_set)(1u << m),
                   (struct event_reply){.vote = VOTE_TAKEN,
                                        .occupant = {.left_ms = 30000,
                                                     .mode = MODE_READ,
                                                     .readers = counts[m],
                                                     .label = text("other")}});
    expect_answer(1, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.occupant.readers, 2);
}

Test(readers, r18_a_reader_is_beside_the_one_whose_grant_it_waited_for)
{
    begin_shared();
    ask(1, MODE_WRITE, 0);
    expect_send(OP_ACQUIRE, ALL);
    ask(2, MODE_READ, 0);
    expect_nothing(); /* a writer contends alone */
    refuse(MODE_READ, 3);
    expect_answer(1, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.occupant.readers, 3);
    expect_send(OP_ACQUIRE, ALL); /* masters that refuse a writer may accept a reader */
    cr_assert_eq(rig.sent[OP_ACQUIRE].mode, MODE_READ);
    grant(2, PROPOSAL);
}

Test(readers, r18_a_writer_that_waits_asks_beside_readers_that_hold_here_and_keeps_its_ticket)
{
    begin_shared();
    read_now(1);
    ask(2, MODE_WRITE, 60000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].ticket.mode, MODE_WRITE);
    cr_assert_neq(rig.sent[OP_ACQUIRE].ticket.number, 0u);
    refuse(MODE_READ, 1);
    cr_assert_eq(rig.sent[OP_RELEASE].ticket.number, rig.sent[OP_ACQUIRE].ticket.number);
}

Test(readers, r18_who_comes_behind_a_writer_waits_for_it)
{
    begin_shared();
    wait_refused(1, MODE_WRITE, MODE_READ);
    ask(2, MODE_READ, 60000);
    expect_nothing();
    channel("k", EVENT_MESSAGE, FIRST, 1);
    at_us(rig.now_us + 1000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].mode, MODE_WRITE);
    struct token written = grant(1, PROPOSAL + 1);
    expect_nothing();
    release(3, "k", written);
    expect_send(OP_RELEASE, ALL); /* there is no hand-over: both go out, in this order (R5) */
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].mode, MODE_READ);
    grant(2, PROPOSAL + 1);
}

/* Gives the message of a release after which it is the turn of another agent, in this mode. */
static void tell_turn_of_another(enum mode mode)
{
    for (uint8_t m = 0; m < 3; m++) {
        struct event event = {.kind = EVENT_MESSAGE};
        event.channel = (struct event_channel){.master = m,
                                               .key = text("k"),
                                               .agents = 2,
                                               .next = rig.sent[OP_ACQUIRE].ticket.agent + 2,
                                               .next_reads = mode == MODE_READ};
        step(event);
    }
    at_us(rig.now_us + 1000);
}

/* R18: readers share the turn of a reader at another agent. No writer comes in between. */
Test(readers, r18_a_reader_wakes_if_it_is_another_readers_turn)
{
    begin_shared();
    wait_refused(1, MODE_READ, MODE_WRITE);
    tell_turn_of_another(MODE_WRITE);
    expect_nothing();
    tell_turn_of_another(MODE_READ);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].mode, MODE_READ);
}

Test(readers, r18_a_writer_sleeps_on_if_it_is_a_readers_turn)
{
    begin_shared();
    wait_refused(1, MODE_WRITE, MODE_READ);
    tell_turn_of_another(MODE_READ);
    expect_nothing();
}

Test(readers, r18_all_that_read_behind_a_writer_begin_as_it_is_released)
{
    begin_shared();
    ask(1, MODE_WRITE, 0);
    expect_send(OP_ACQUIRE, ALL);
    struct token written = grant(1, PROPOSAL);
    for (uint32_t i = 2; i <= 4; i++)
        ask(i, MODE_READ, 60000);
    ask(5, MODE_WRITE, 60000);
    expect_nothing();
    release(1, "k", written);
    const size_t begun = attempts();
    cr_assert_eq(begun, 3, "three readers, and not the writer behind them: %zu", begun);
}

/* R18: the ticket carries the mode of the next one, which reads. A writer's ticket would keep off
 * readers at other agents. */
Test(readers, r18_a_release_leaves_the_ticket_of_the_next_one_here_with_its_mode)
{
    begin_shared();
    ask(1, MODE_WRITE, 0);
    expect_send(OP_ACQUIRE, ALL);
    struct token token = grant(1, PROPOSAL);
    ask(2, MODE_READ, 60000);
    release(3, "k", token);
    expect_send(OP_RELEASE, ALL);
    cr_assert_neq(rig.sent[OP_RELEASE].ticket.number, 0);
    cr_assert_eq(rig.sent[OP_RELEASE].ticket.mode, MODE_READ);
}

Test(readers, r18_a_writer_that_was_refused_waits_until_the_last_reader_here_has_left)
{
    begin_shared();
    struct token first = read_now(1), second = read_now(1);
    wait_refused(2, MODE_WRITE, MODE_READ);
    release(1, "k", first);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    expect_nothing(); /* it would be refused by the second one */
    release(1, "k", second);
    expect_send(OP_RELEASE, ALL);
    expect_send(OP_ACQUIRE, ALL);
    grant(2, PROPOSAL + 1);
}

Test(readers, r9_a_subscription_while_a_reader_contends_is_not_forgotten)
{
    begin_shared();
    ask(1, MODE_READ, 60000);
    expect_send(OP_ACQUIRE, ALL);
    refuse(MODE_WRITE, 0);
    expect_channel(EFFECT_WATCH);
    let_time_pass_until(OP_ACQUIRE, 2000);
    expect_send(OP_ACQUIRE, ALL);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    at_us(rig.now_us + 1000); /* while it contends no other request need */
    refuse(MODE_WRITE, 0);
    at_us(rig.now_us + 1000);
    expect_send(OP_ACQUIRE, ALL); /* a release before that was missed */
}

Test(readers, r17_a_writer_here_refuses_all_without_a_question)
{
    begin_shared();
    ask(1, MODE_WRITE, 0);
    expect_send(OP_ACQUIRE, ALL);
    grant(1, PROPOSAL);
    ask(2, MODE_READ, 0);
    expect_answer(2, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.occupant.mode, MODE_WRITE);
    expect_nothing();
}

Test(readers, r19_a_read_carries_what_is_stored_and_the_largest_is_raised)
{
    begin_shared();
    ask(1, MODE_READ, 0);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x06, (struct event_reply){.vote = VOTE_YES, .fence = 7});
    reply_with(OP_ACQUIRE, 0x01, (struct event_reply){.vote = VOTE_YES, .fence = PROPOSAL});
    expect_send(OP_RAISE, 0x06);
    cr_assert_eq(rig.sent[OP_RAISE].token.fence, (uint64_t)PROPOSAL);
    cr_assert_eq(rig.sent[OP_RAISE].mode, MODE_READ);
    reply(OP_RAISE, 0x06, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, (uint64_t)PROPOSAL);
}

/* Answers a PUT of a token that this agent does not know. The masters say whether it was a
 * write's. */
static void adopt(enum mode mode, uint64_t fence)
{
    reply_with(OP_ADOPT, ALL,
               (struct event_reply){.vote = VOTE_YES, .fence = fence, .occupant.mode = mode});
}

Test(readers, r19_a_read_granted_here_shows_that_the_write_before_it_is_over)
{
    struct token written = {.random = {1}, .fence = PROPOSAL};
    begin_shared();
    renew(1, "k", written);
    expect_send(OP_ADOPT, ALL);
    read_now(2); /* it carries the number of that write, which was released elsewhere since */
    adopt(MODE_WRITE, PROPOSAL);
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    cr_assert(is_listed("k"));
}

/* A write of a later number shows that the read is over: it is not listed beside it. */
Test(readers, r17_a_read_that_a_write_has_outlived_is_lost)
{
    struct token written = {.random = {1}, .fence = PROPOSAL + 5};
    begin_shared();
    read_now(1);
    renew(2, "k", written);
    expect_send(OP_ADOPT, ALL);
    adopt(MODE_WRITE, PROPOSAL + 5);
    expect_answer(2, ANSWER_RENEWED);
    at_us(rig.now_us);
    expect_lost(REASON_TAKEN);
    struct hold_view view;
    struct lock_ref ref;
    uint32_t next = 0, count = 0;
    while (core_next_hold_of(rig.core, text("k"), (struct instant){rig.epoch_us + rig.now_us},
                             &next, &view, &ref)) {
        cr_assert_eq(view.mode, MODE_WRITE);
        count++;
    }
    cr_assert_eq(count, 1);
}

/* C5: it may have been released at another agent. */
Test(readers, c5_a_hold_is_not_shown_where_a_quorum_has_the_key_in_the_other_mode)
{
    static const struct event_reply reads = {.vote = VOTE_YES,
                                             .occupant = {.mode = MODE_READ, .readers = 1}},
                                    writes = {.vote = VOTE_YES, .occupant.mode = MODE_WRITE};
    begin_shared();
    read_now(1);
    at_ms(2000);
    read_key(2, "k");
    expect_send(OP_READ, ALL);
    reply_with(OP_READ, 0x03, writes);
    reply_with(OP_READ, 0x1c, reads);
    expect_answer(2, ANSWER_STATE);
    cr_assert_eq(rig.answer.denied, 0, "three masters have it");
    read_key(3, "k");
    expect_send(OP_READ, ALL);
    reply_with(OP_READ, 0x03, reads);
    reply_with(OP_READ, 0x1c, writes);
    expect_answer(3, ANSWER_STATE);
    cr_assert_eq(rig.answer.denied, (slot_set)1 << MODE_READ);
}

Test(readers, r19_a_read_is_adopted_beside_one_of_the_same_number)
{
    struct token other = {.random = {1}, .fence = PROPOSAL};
    begin_shared();
    renew(1, "k", other);
    expect_send(OP_ADOPT, ALL);
    read_now(2);
    adopt(MODE_READ, PROPOSAL);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.mode, MODE_READ);
}

/* R17: `lock_delay` is for writers alone. The agent learns from the masters that the token is a
 * read's. */
Test(readers, r17_an_adopted_read_has_no_lock_delay)
{
    struct token other = {.random = {1}, .fence = PROPOSAL};
    prepare_shared();
    rig.policy.lock_delay_ms = 5000;
    begin();
    renew_as(1, "k", other, .ttl_ms = 10000);
    expect_send(OP_ADOPT, ALL);
    cr_assert_eq(rig.sent[OP_ADOPT].ttl_ms, 15000);
    adopt(MODE_READ, PROPOSAL);
    expect_answer(1, ANSWER_RENEWED);
    renew(2, "k", other);
    expect_send(OP_RENEW, ALL);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 10000);
}

/* R7, R17: but its adoption has asked for the delay. So the masters have the key for so long, and a
 * *no* of those that decided the adoption counts until then. */
Test(readers, r17_the_adoption_of_a_read_has_asked_for_the_delay)
{
    struct token other = {.random = {1}, .fence = PROPOSAL};
    prepare_shared();
    rig.policy.lock_delay_ms = 5000;
    begin();
    renew_as(1, "k", other, .ttl_ms = 10000);
    expect_send(OP_ADOPT, ALL);
    adopt(MODE_READ, PROPOSAL);
    expect_answer(1, ANSWER_RENEWED);
    for (int64_t ms = 3000; ms <= 12000; ms += 3000) {
        at_ms(ms), renew(2, "k", other);
        expect_send(OP_RENEW, ALL);
        reply(OP_RENEW, 0x19, VOTE_YES);
        expect_answer(2, ANSWER_RENEWED);
    }
    at_ms(14000), renew(3, "k", other);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    expect_answer(3, ANSWER_LOCK_LOST);
}

/* The token may be another read's, which is held beside that of this agent. */
Test(readers, c4_a_token_of_which_no_master_says_anything_is_not_called_wrong_beside_a_read)
{
    struct token other = {.random = {1}, .fence = PROPOSAL};
    begin_shared();
    renew(1, "k", other);
    expect_send(OP_ADOPT, ALL);
    read_now(2);
    reply(OP_ADOPT, ALL, VOTE_UNKNOWN);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert(is_listed("k"));
}

/* Lets one round be in flight at most, and gives it to another key. */
static void begin_with_one_place(void)
{
    rig.config.rounds_min = rig.config.rounds_first = rig.config.rounds_max = 1;
    begin();
    acquire(9, "other");
    expect_send(OP_ACQUIRE, ALL);
}

static uint32_t in_line(void)
{
    return core_stats(rig.core)->rounds[0].waiting;
}

/* A refused reader pauses first. Otherwise, if few rounds may be in flight, waiting readers would
 * ask without a pause. */
Test(readers, r9_a_reader_that_was_refused_asks_again_after_a_pause_whoever_stands_in_line)
{
    prepare(5);
    rig.policy.form = FORM_SHARED;
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = 1000;
    rig.config.rounds_min = rig.config.rounds_first = rig.config.rounds_max = 1;
    begin();
    ask(1, MODE_READ, 60000);
    ask(2, MODE_READ, 60000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(in_line(), 1);
    refuse(MODE_WRITE, 0);
    expect_channel(EFFECT_WATCH);
    at_us(rig.now_us + 1000);
    expect_nothing();
    cr_assert_eq(in_line(), 0);
    let_time_pass_until(OP_ACQUIRE, 1100);
    expect_send(OP_ACQUIRE, ALL);
    grant(1, PROPOSAL);
    expect_send(OP_ACQUIRE, ALL); /* there is room for a reader */
    grant(2, PROPOSAL);
}

Test(readers, r16_a_write_that_is_adopted_takes_its_key_out_of_the_line)
{
    struct token written = {.random = {1}, .fence = PROPOSAL};
    prepare(5);
    rig.policy.form = FORM_SHARED;
    begin_with_one_place();
    ask(1, MODE_READ, 60000);
    cr_assert_eq(in_line(), 1);
    renew(2, "k", written);
    expect_send(OP_ADOPT, ALL);
    adopt(MODE_WRITE, PROPOSAL);
    expect_answer(2, ANSWER_RENEWED);
    cr_assert_eq(in_line(), 0);
}

Test(readers, r16_a_mutex_that_is_adopted_takes_its_key_out_of_the_line)
{
    struct token token = {.random = {1}, .fence = PROPOSAL};
    prepare(5);
    begin_with_one_place();
    acquire_as(1, "k", .wait_ms = 60000);
    cr_assert_eq(in_line(), 1);
    renew(2, "k", token);
    expect_send(OP_ADOPT, ALL);
    reply_with(OP_ADOPT, ALL, (struct event_reply){.vote = VOTE_YES, .fence = PROPOSAL});
    expect_answer(2, ANSWER_RENEWED);
    cr_assert_eq(in_line(), 0);
}
