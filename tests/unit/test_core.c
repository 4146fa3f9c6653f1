/* The lock core as timelines: events at virtual instants go into core_step(), and every effect that comes out is
 * expected. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core.h"

/* ---- the rig: one core, a clock, and the effects that nobody has expected yet ----------------------------------- */

enum { ALL = 0x1f, RECORDS = 512, ITEMS = 64, PROPOSAL = 1700000000 };

struct record {
    struct effect effect;
    struct send_item items[ITEMS]; /* of a send */
    char key[LIMIT_KEY_BYTES], holder[LIMIT_LABEL_BYTES];
    bool expected;
};

static struct {
    struct core_group group;
    struct core_policy policy;
    struct core_config config;
    void *memory; /* the core's */
    struct core *core;
    struct effects *effects;
    int64_t now_us, epoch_us; /* since the beginning; what the boot clock shows then */
    struct record *records;
    size_t count;
    struct send_item sent[OP_COUNT]; /* the first item of the latest send of each kind */
    struct effect_answer answer;     /* the latest expected */
    struct effect_trace trace;
    size_t turns; /* of core_step() that the latest event took */
} rig;

static void record(const struct effect *effect)
{
    if (rig.count == RECORDS)
        return; /* the tests of abundance count for themselves */
    struct record *r = &rig.records[rig.count++];
    r->effect = *effect;
    r->expected = false;
    if (effect->kind == EFFECT_ANSWER && effect->answer.holder.len != 0) {
        memcpy(r->holder, effect->answer.holder.at, effect->answer.holder.len);
        r->effect.answer.holder.at = r->holder;
    }
    for (size_t i = 0; effect->kind == EFFECT_SEND && i < effect->send.count && i < ITEMS; i++)
        r->items[i] = rig.effects->items[effect->send.first + i];
}

static void step(struct event event)
{
    bool taken = false;
    struct entropy *entropy = core_entropy(rig.core);
    for (; entropy->left < ENTROPY_BYTES; entropy->left++)
        entropy->bytes[entropy->left] = (uint8_t)rand();
    event.now = (struct instant){rig.epoch_us + rig.now_us};
    event.wall_us = PROPOSAL * (int64_t)1000000 + rig.now_us;
    for (rig.turns = 0; !taken; rig.turns++) {
        cr_assert_lt(rig.turns, 2000, "core_step() never takes the event");
        taken = core_step(rig.core, &event, rig.effects);
        for (size_t i = 0; i < rig.effects->count; i++)
            record(&rig.effects->list[i]);
    }
}

static void master_is(uint8_t master, enum event_kind kind, uint16_t epoch)
{
    struct event event = {.kind = kind};
    event.master = (struct event_master){.master = master, .epoch = epoch};
    step(event);
}

/* A rig with defaults that a test may change between prepare() and begin(). */
static void prepare(uint8_t masters)
{
    static const char *const names[] = {"main"};
    static struct record records[RECORDS];
    static struct effects effects;
    free(rig.memory);
    memset(&rig, 0, sizeof rig);
    rig.records = records;
    rig.effects = &effects;
    rig.epoch_us = 5000000;
    rig.group = (struct core_group){.masters = masters, .node_timeout_ms = 50, .drift_ppm = 10000};
    rig.policy = (struct core_policy){.match = "*",
                                      .group_count = 1,
                                      .algorithm = ALGORITHM_REDLOCK,
                                      .renew = RENEW_CALLER,
                                      .ttl_ms = 10000,
                                      .max_hold_ms = 600000,
                                      .bound_max_hold_ms = 3600000,
                                      .fencing = true,
                                      .retry_min_ms = 50,
                                      .retry_max_ms = 50};
    rig.config = (struct core_config){.groups = &rig.group,
                                      .group_count = 1,
                                      .group_names = names,
                                      .policies = &rig.policy,
                                      .policy_count = 1,
                                      .max_ttl_ms = 60000,
                                      .wait_ms_max = 300000,
                                      .locks_max = 32,
                                      .requests_max = 64,
                                      .waiters_max = 4,
                                      .seed = 7};
}

static void begin(void)
{
    rig.memory = calloc(1, core_size(&rig.config));
    rig.core = core_init(rig.memory, &rig.config);
    for (uint8_t m = 0; m < rig.group.masters; m++)
        master_is(m, EVENT_MASTER_UP, 1);
}

static void begin_five(void)
{
    prepare(5);
    begin();
}

/* Lets time pass: every deadline is kept to the microsecond. */
static void at_us(int64_t us)
{
    cr_assert_geq(us, rig.now_us);
    for (;;) {
        int64_t due = core_next_deadline(rig.core).us - rig.epoch_us;
        if (due > us || core_next_deadline(rig.core).us == INT64_MAX)
            break;
        rig.now_us = due > rig.now_us ? due : rig.now_us;
        step((struct event){.kind = EVENT_TIME});
    }
    rig.now_us = us;
}

static void at_ms(int64_t ms)
{
    at_us(ms * 1000);
}

/* Goes on by the millisecond until such a command is sent, `ms` at most. */
static void let_time_pass_until(enum op op, int64_t ms)
{
    for (int64_t end_us = rig.now_us + ms * 1000;; at_us(rig.now_us + 1000)) {
        for (size_t i = 0; i < rig.count; i++)
            if (!rig.records[i].expected && rig.records[i].effect.kind == EFFECT_SEND &&
                rig.records[i].effect.send.op == op)
                return;
        cr_assert_leq(rig.now_us, end_us, "no %s within %lld ms", op_name(op), (long long)ms);
    }
}

/* The process stands still until then, and wakes up with its timer. */
static void stalled_until_ms(int64_t ms)
{
    rig.now_us = ms * 1000;
}

static struct text text(const char *string)
{
    return (struct text){string, strlen(string)};
}

static void acquire_with(uint32_t request, const char *key, struct event_acquire with)
{
    struct event event = {.kind = EVENT_ACQUIRE, .acquire = with};
    event.acquire.request = request;
    event.acquire.key = text(key);
    event.acquire.label = text("me");
    step(event);
}
#define acquire_as(request, key, ...) acquire_with(request, key, (struct event_acquire){__VA_ARGS__})

static void acquire(uint32_t request, const char *key)
{
    acquire_as(request, key, .wait_ms = 0);
}

static void renew_with(uint32_t request, const char *key, struct token token, struct event_renew with)
{
    struct event event = {.kind = EVENT_RENEW, .renew = with};
    event.renew.request = request;
    event.renew.key = text(key);
    event.renew.token = token;
    step(event);
}
#define renew_as(request, key, token, ...) renew_with(request, key, token, (struct event_renew){__VA_ARGS__})

static void renew(uint32_t request, const char *key, struct token token)
{
    renew_as(request, key, token, .ttl_ms = 0);
}

static void release(uint32_t request, const char *key, struct token token)
{
    struct event event = {.kind = EVENT_RELEASE};
    event.release = (struct event_release){.request = request, .key = text(key), .token = token};
    step(event);
}

static void read_key(uint32_t request, const char *key)
{
    struct event event = {.kind = EVENT_READ};
    event.read = (struct event_read){.request = request, .key = text(key)};
    step(event);
}

static void cancel(uint32_t request)
{
    struct event event = {.kind = EVENT_CANCEL};
    event.cancel.request = request;
    step(event);
}

/* The masters named in `masters` answer the latest send of this kind. */
static void reply_with(enum op op, master_set masters, struct event_reply with)
{
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++) {
        if ((masters >> m & 1) == 0)
            continue;
        struct event event = {.kind = EVENT_REPLY, .reply = with};
        event.reply.master = m;
        event.reply.op = op;
        event.reply.ref = rig.sent[op].ref;
        step(event);
    }
}

/* As `vote` usually comes: with the number that was asked for, or with another holder's label and 700 ms left. */
static void reply(enum op op, master_set masters, enum vote vote)
{
    bool numbered = vote == VOTE_YES || vote == VOTE_REPAIRED;
    struct event_reply with = {.vote = vote, .pttl_ms = -1};
    if (numbered)
        with.fence = rig.sent[op].token.fence;
    if (vote == VOTE_HELD) {
        with.pttl_ms = 700;
        with.holder = text("other");
    }
    reply_with(op, masters, with);
}

static void expect_send(enum op op, master_set masters)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_SEND || r->effect.send.op != op)
            continue;
        cr_assert_eq(r->effect.send.masters, masters, "at %lld us: %s goes to %03x, not to %03x", (long long)rig.now_us,
                     op_name(op), r->effect.send.masters, masters);
        r->expected = true;
        rig.sent[op] = r->items[0];
        return;
    }
    cr_assert_fail("at %lld us: %s was not sent", (long long)rig.now_us, op_name(op));
}

static void expect_answer(uint32_t request, enum answer answer)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_ANSWER || r->effect.answer.request != request)
            continue;
        cr_assert_eq(r->effect.answer.answer, answer, "at %lld us: the answer is %s, not %s", (long long)rig.now_us,
                     answer_code(r->effect.answer.answer), answer_code(answer));
        r->expected = true;
        rig.answer = r->effect.answer;
        return;
    }
    cr_assert_fail("at %lld us: request %u was not answered (%s)", (long long)rig.now_us, request, answer_code(answer));
}

static void expect_trace(enum trace_kind kind)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_TRACE || r->effect.trace.kind != kind)
            continue;
        r->expected = true;
        rig.trace = r->effect.trace;
        return;
    }
    cr_assert_fail("at %lld us: trace %d is missing", (long long)rig.now_us, kind);
}

static void expect_lost(enum reason reason)
{
    expect_trace(TRACE_LOST);
    cr_assert_eq(rig.trace.reason, reason, "at %lld us: lost by %s, not by %s", (long long)rig.now_us,
                 reason_name(rig.trace.reason), reason_name(reason));
}

/* Nothing but traces has come out that no test expected. */
static void expect_nothing(void)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected)
            continue;
        cr_assert(r->effect.kind != EFFECT_SEND, "at %lld us: %s to %03x was not expected", (long long)rig.now_us,
                  op_name(r->effect.send.op), r->effect.send.masters);
        cr_assert(r->effect.kind != EFFECT_ANSWER, "at %lld us: answer %s was not expected", (long long)rig.now_us,
                  answer_code(r->effect.answer.answer));
        cr_assert(r->effect.trace.kind != TRACE_LOST, "at %lld us: lost by %s was not expected", (long long)rig.now_us,
                  reason_name(r->effect.trace.reason));
    }
    rig.count = 0;
}

static int64_t valid_until_us(void)
{
    return rig.answer.hold.valid_until.us - rig.epoch_us;
}

static bool is_listed(const char *key)
{
    uint32_t cursor = 0;
    struct hold_view view;
    while (core_next_hold(rig.core, (struct instant){rig.epoch_us + rig.now_us}, &cursor, &view))
        if (view.key.len == strlen(key) && memcmp(view.key.at, key, view.key.len) == 0)
            return true;
    return false;
}

/* A hold of `key`, granted now by masters 0, 1 and 2; 3 and 4 grant it a moment later. */
static struct token hold_with(const char *key, struct event_acquire with)
{
    acquire_with(63, key, with);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_GRANTED);
    expect_nothing();
    return rig.answer.hold.token;
}
#define hold_as(key, ...) hold_with(key, (struct event_acquire){__VA_ARGS__})

static struct token hold(const char *key)
{
    return hold_as(key, .wait_ms = 0);
}

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

/* ---- wait -------------------------------------------------------------------------------------------------------- */

Test(wait, ends_exactly_at_its_deadline)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .wait_ms = 333);
    for (int64_t t = 0; rig.now_us < 333000; t += 10) { /* somebody else has it all the time */
        for (size_t i = 0; i < rig.count; i++)
            if (rig.records[i].effect.kind == EFFECT_SEND && rig.records[i].effect.send.op == OP_ACQUIRE &&
                !rig.records[i].expected) {
                expect_send(OP_ACQUIRE, ALL);
                reply(OP_ACQUIRE, 0x07, VOTE_HELD);
                expect_send(OP_RELEASE, 0x18);
            }
        expect_nothing();
        at_us(t * 1000 < 332999 ? t * 1000 : 332999);
        if (t * 1000 > 332999)
            break;
    }
    at_us(333000);
    expect_answer(1, ANSWER_WAIT_TIMEOUT);
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
    expect_answer(1, ANSWER_LOCK_HELD); /* at once, without asking anybody */
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
    struct text key;
    struct instant since;
    cr_assert(core_next_wait(rig.core, &cursor, &key, &since));
    cr_assert_eq(since.us - rig.epoch_us, 1000);
    cr_assert_not(core_next_wait(rig.core, &cursor, &key, &since));
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
    reply(OP_ACQUIRE, ALL, VOTE_HELD); /* 700 ms are left there, the back-off is 50 ms */
    expect_send(OP_RELEASE, 0x18);
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
    reply(OP_ACQUIRE, ALL, VOTE_HELD);
    expect_send(OP_RELEASE, 0x18);
    acquire_as(2, "k", .wait_ms = 60000);
    expect_nothing();
    at_ms(10), cancel(1);
    let_time_pass_until(OP_ACQUIRE, 100);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
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

/* ---- bound holds, and what becomes of them ------------------------------------------------------------------------ */

static void step_lock(enum event_kind kind, struct lock_ref lock)
{
    struct event event = {.kind = kind};
    if (kind == EVENT_STUCK)
        event.stuck.lock = lock;
    else
        event.undelivered.lock = lock;
    step(event);
}

/* Whatever the policy says, the agent renews; and it may hold for longer than a hold that outlives its caller. */
Test(bound, the_agent_renews_up_to_its_own_cap)
{
    prepare(5);
    rig.policy.renew = RENEW_CALLER;
    begin();
    hold_as("k", .bound = true, .ttl_ms = 10000);
    cr_assert(rig.answer.hold.bound);
    cr_assert_eq(rig.answer.hold.renew, RENEW_AGENT);
    cr_assert_eq(rig.answer.hold.max_hold_until.us - rig.epoch_us, 3600000000);
    hold_as("shorter", .bound = true, .max_hold_ms = 1200000);
    cr_assert_eq(rig.answer.hold.max_hold_until.us - rig.epoch_us, 1200000000);
    hold_as("longer", .bound = true, .max_hold_ms = 7200000);
    cr_assert_eq(rig.answer.hold.max_hold_until.us - rig.epoch_us, 3600000000);
    hold_as("free", .max_hold_ms = 7200000);
    cr_assert_not(rig.answer.hold.bound);
    cr_assert_eq(rig.answer.hold.max_hold_until.us - rig.epoch_us, 600000000);
}

/* D1: where the agent ends the hold itself, it says so, stops renewing, and lets the lease run out. */
Test(bound, a_caller_that_does_not_read_loses_it)
{
    begin_five();
    hold_as("k", .bound = true, .ttl_ms = 10000);
    const struct lock_ref lock = rig.answer.lock;
    at_ms(1000), step_lock(EVENT_STUCK, lock);
    expect_lost(REASON_STUCK);
    cr_assert_eq(rig.trace.lock.slot, lock.slot);
    cr_assert_eq(rig.trace.lock.generation, lock.generation);
    cr_assert_eq(rig.trace.valid_until.us - rig.epoch_us, 10000000 - 102000);
    cr_assert_not(is_listed("k"));
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_answer(1, ANSWER_LOCK_HELD); /* nobody else before its validity has ended */
    step_lock(EVENT_STUCK, lock);       /* it is lost once */
    at_ms(20000);
    expect_nothing();
}

/* What is told of a renewal is the validity that it gave. */
Test(bound, a_renewal_tells_the_new_validity)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    const struct lock_ref lock = rig.answer.lock;
    at_ms(4000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_trace(TRACE_RENEWED);
    cr_assert_eq(rig.trace.lock.slot, lock.slot);
    cr_assert_eq(rig.trace.lock.generation, lock.generation);
    cr_assert_eq(rig.trace.valid_until.us - rig.epoch_us, 4000000 + 10000000 - 102000);
    cr_assert_eq(rig.trace.margin_us, 10000000 - 102000 - 4000000);
}

/* Only a valid hold is found, by its key. */
Test(bound, finding_a_hold)
{
    struct hold_view view;
    struct lock_ref lock;
    const struct text key = {"k", 1}, other = {"other", 5};
    begin_five();
    struct instant now = {rig.epoch_us};
    cr_assert_not(core_find_hold(rig.core, key, now, &view, &lock));
    acquire_as(1, "k", .ttl_ms = 10000);
    cr_assert_not(core_find_hold(rig.core, key, now, &view, &lock), "it is not granted yet");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert(core_find_hold(rig.core, key, now, &view, &lock));
    cr_assert_eq(lock.generation, rig.answer.lock.generation);
    cr_assert_eq(view.valid_until.us, rig.answer.hold.valid_until.us);
    cr_assert_not(core_find_hold(rig.core, other, now, &view, &lock));
    cr_assert_not(core_find_hold(rig.core, key, view.valid_until, &view, &lock), "R14: its validity is over");
}

/* ---- reentrancy: R11 --------------------------------------------------------------------------------------------- */

static const struct text my_owner = {"0123456789abcdef", 16}, other_owner = {"0123456789abcdeF", 16},
                         longer_owner = {"0123456789abcdef0", 17};

static void begin_reentrant(void)
{
    prepare(5);
    rig.policy.reentrant = true;
    begin();
}

/* The same owner has it once more, without a word to the masters; as many releases end it. */
Test(reentry, r11_the_same_owner_counts_up_and_down)
{
    begin_reentrant();
    struct token token = hold_as("k", .owner = my_owner);
    const uint64_t fence = token.fence;
    cr_assert_eq(rig.answer.hold.count, 1);
    acquire_as(2, "k", .owner = my_owner);
    expect_answer(2, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.count, 2);
    cr_assert(token_same_random(&rig.answer.hold.token, &token));
    cr_assert_eq(rig.answer.hold.token.fence, fence);
    expect_nothing();
    acquire_as(3, "k", .owner = my_owner, .wait_ms = 1000);
    expect_answer(3, ANSWER_REENTERED);
    for (uint32_t i = 0; i < 2; i++) {
        release(4, "k", token);
        expect_answer(4, ANSWER_RELEASED);
        expect_nothing();
        cr_assert(is_listed("k"));
    }
    release(5, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(5, ANSWER_RELEASED);
    cr_assert_not(is_listed("k"));
}

Test(reentry, r11_nobody_else)
{
    begin_reentrant();
    hold_as("k", .owner = my_owner);
    acquire_as(2, "k", .owner = other_owner);
    expect_answer(2, ANSWER_LOCK_HELD);
    acquire_as(3, "k", .owner = longer_owner);
    expect_answer(3, ANSWER_LOCK_HELD);
    acquire(4, "k");
    expect_answer(4, ANSWER_LOCK_HELD);
    hold("without an owner");
    acquire(5, "without an owner");
    expect_answer(5, ANSWER_LOCK_HELD);
    /* Where the policy says nothing of it, an owner is nothing. */
    begin_five();
    hold_as("k", .owner = my_owner);
    acquire_as(2, "k", .owner = my_owner);
    expect_answer(2, ANSWER_LOCK_HELD);
}

/* Who asked while the first round was out is let in with the one who asked first. */
Test(reentry, r11_those_who_asked_before_the_grant)
{
    begin_reentrant();
    acquire_as(1, "k", .owner = my_owner);
    acquire_as(2, "k", .owner = my_owner);
    acquire_as(3, "k", .owner = my_owner, .wait_ms = 60000);
    acquire_as(4, "k", .owner = other_owner, .wait_ms = 60000);
    acquire_as(5, "k", .owner = other_owner);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    expect_answer(2, ANSWER_REENTERED);
    expect_answer(3, ANSWER_REENTERED);
    expect_answer(5, ANSWER_LOCK_HELD);
    cr_assert_eq(core_stats(rig.core)->waiters, 1);
    expect_nothing();
}

/* What was not delivered counts down, and only the last one releases; so does a DELETE after the loss. */
Test(reentry, r11_undelivered_and_lost)
{
    begin_reentrant();
    struct token token = hold_as("k", .ttl_ms = 10000, .owner = my_owner);
    acquire_as(2, "k", .owner = my_owner);
    expect_answer(2, ANSWER_REENTERED);
    const struct lock_ref lock = rig.answer.lock;
    step_lock(EVENT_UNDELIVERED, lock);
    expect_nothing();
    cr_assert(is_listed("k"));
    acquire_as(3, "k", .owner = my_owner);
    expect_answer(3, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.count, 2);
    step_lock(EVENT_STUCK, lock); /* lost, and valid for a while */
    expect_lost(REASON_STUCK);
    acquire_as(4, "k", .owner = my_owner);
    expect_answer(4, ANSWER_LOCK_HELD);
    release(5, "k", token);
    expect_answer(5, ANSWER_LOCK_LOST);
    expect_nothing(); /* the other one may still use it */
    release(6, "k", token);
    expect_answer(6, ANSWER_LOCK_LOST);
    expect_send(OP_RELEASE, ALL);
}

/* ---- safe retry: D3 ---------------------------------------------------------------------------------------------- */

static const struct text first_key = {"retry-0123456789", 16}, second_key = {"retry-012345678A", 16};

static void release_by(uint32_t request, const char *key, struct text idempotency)
{
    struct event event = {.kind = EVENT_RELEASE};
    event.release = (struct event_release){.request = request, .key = text(key), .idempotency = idempotency};
    step(event);
}

/* The answer was lost: the same request again gets the same hold, which is held once. */
Test(retry, d3_gets_the_answer_again)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    const struct lock_ref lock = rig.answer.lock;
    at_ms(100), acquire_as(2, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(2, ANSWER_REPEATED);
    cr_assert(token_same_random(&rig.answer.hold.token, &token));
    cr_assert_eq(rig.answer.hold.count, 1);
    expect_nothing();
    acquire_as(3, "k", .ttl_ms = 9000, .idempotency = first_key);
    expect_answer(3, ANSWER_IDEMPOTENCY_MISMATCH);
    acquire_as(4, "k", .ttl_ms = 10000, .max_hold_ms = 5000, .idempotency = first_key);
    expect_answer(4, ANSWER_IDEMPOTENCY_MISMATCH);
    acquire_as(5, "k", .ttl_ms = 10000, .idempotency = second_key);
    expect_answer(5, ANSWER_LOCK_HELD);
    step_lock(EVENT_UNDELIVERED, lock); /* only now the first answer turns out to be lost: the second one arrived */
    expect_nothing();
    cr_assert(is_listed("k"));
    release(6, "k", token); /* one release ends it */
    expect_send(OP_RELEASE, ALL);
}

/* Neither answer arrived: nobody holds it, and a third request acquires it anew. */
Test(retry, d3_nobody_was_told)
{
    begin_five();
    hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    const struct lock_ref lock = rig.answer.lock;
    acquire_as(2, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(2, ANSWER_REPEATED);
    step_lock(EVENT_UNDELIVERED, lock);
    expect_nothing();
    step_lock(EVENT_UNDELIVERED, lock);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    cr_assert_not(is_listed("k"));
    acquire_as(3, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
}

/* The older one waits: the newer one takes its place, in the queue as well as before the masters. */
Test(retry, d3_takes_over_the_wait)
{
    begin_five();
    struct token token = hold("k");
    acquire_as(1, "k", .ttl_ms = 10000, .wait_ms = 60000, .idempotency = first_key);
    acquire_as(2, "k", .ttl_ms = 10000, .wait_ms = 60000);
    at_ms(50), acquire_as(3, "k", .ttl_ms = 10000, .wait_ms = 60000, .idempotency = first_key);
    expect_answer(1, ANSWER_SUPERSEDED);
    cr_assert_eq(core_stats(rig.core)->waiters, 2);
    acquire_as(4, "k", .ttl_ms = 10000, .wait_ms = 50000, .idempotency = first_key);
    expect_answer(4, ANSWER_IDEMPOTENCY_MISMATCH);
    release(5, "k", token);
    expect_send(OP_RELEASE, ALL);
    expect_send(OP_ACQUIRE, ALL);
    at_ms(51), acquire_as(6, "k", .ttl_ms = 10000, .wait_ms = 60000, .idempotency = first_key); /* its round is out */
    expect_answer(3, ANSWER_SUPERSEDED);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(6, ANSWER_GRANTED);
    cr_assert_eq(core_stats(rig.core)->waiters, 1);
    /* The superseded caller leaves: nothing of it is left to be cancelled. */
    cancel(3);
    cr_assert(is_listed("k"));
}

/* DELETE takes it in the token's place, and then it is used up: a copy of the POST that comes late gets nothing. */
Test(retry, d3_a_release_uses_it_up)
{
    begin_five();
    hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    release_by(2, "k", second_key);
    expect_answer(2, ANSWER_NOT_HELD);
    cr_assert(is_listed("k"));
    release_by(3, "k", first_key);
    expect_send(OP_RELEASE, ALL);
    acquire_as(4, "k", .ttl_ms = 10000, .idempotency = first_key); /* while it is released */
    expect_answer(4, ANSWER_SUPERSEDED);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_RELEASED);
    at_ms(299999), acquire_as(5, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(5, ANSWER_SUPERSEDED);
    release_by(6, "k", first_key);
    expect_answer(6, ANSWER_NOT_HELD);
    expect_nothing();
    at_ms(600001); /* limits.wait after the last DELETE */
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 0);
    acquire_as(7, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
}

/* So does a DELETE by token. */
Test(retry, d3_a_release_by_token_uses_it_up)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    release(2, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    acquire_as(3, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(3, ANSWER_SUPERSEDED);
    expect_nothing();
}

/* A DELETE that overtakes its POST: while that waits, while its round is out, or before it has come at all. */
Test(retry, d3_a_release_before_the_grant)
{
    begin_five();
    release_by(1, "late", first_key);
    expect_answer(1, ANSWER_NOT_HELD);
    acquire_as(2, "late", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(2, ANSWER_SUPERSEDED);

    hold("k");
    acquire_as(3, "k", .ttl_ms = 10000, .wait_ms = 60000, .idempotency = first_key);
    release_by(4, "k", first_key);
    expect_answer(3, ANSWER_SUPERSEDED);
    expect_answer(4, ANSWER_NOT_HELD);
    cr_assert_eq(core_stats(rig.core)->waiters, 0);

    rig.count = 0;
    acquire_as(5, "out", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    release_by(6, "out", first_key);
    expect_answer(5, ANSWER_SUPERSEDED);
    expect_answer(6, ANSWER_NOT_HELD);
    expect_send(OP_RELEASE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    cr_assert_not(is_listed("out"));
}

/* What it got was lost since. */
Test(retry, d3_a_lost_hold_stays_lost)
{
    begin_five();
    hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    at_ms(12000);
    rig.count = 0;
    acquire_as(2, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(2, ANSWER_LOCK_LOST);
    cr_assert_eq(rig.answer.reason, REASON_EXPIRED);
    release_by(3, "k", first_key);
    expect_answer(3, ANSWER_LOCK_LOST);
    at_ms(12000 + 290000); /* long after the loss itself is forgotten */
    rig.count = 0;
    acquire_as(4, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(4, ANSWER_SUPERSEDED);
}

/* ---- lock_delay: R15 --------------------------------------------------------------------------------------------- */

static void begin_delayed(void)
{
    prepare(5);
    rig.policy.lock_delay_ms = 5000;
    begin();
}

/* Masters get ttl + lock_delay, on every command; validity counts from the ttl alone. */
Test(lock_delay, r15_leases_are_longer_than_validity)
{
    begin_delayed();
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].ttl_ms, 15000);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(valid_until_us(), 10000000 - 102000);
    cr_assert_eq(rig.answer.hold.ttl_ms, 10000);
    const struct token token = rig.answer.hold.token;
    at_ms(1000), renew_as(2, "k", token, .ttl_ms = 12000);
    expect_send(OP_RENEW, ALL);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 17000);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    cr_assert_eq(valid_until_us(), 1000000 + 12000000 - 122000);
    release(3, "k", token); /* a clean end needs no delay */
    expect_send(OP_RELEASE, ALL);
}

/* An unclean loss keeps the key taken: nobody asks the masters to delete it. */
Test(lock_delay, r15_a_loss_runs_out)
{
    begin_delayed();
    hold_as("k", .ttl_ms = 10000);
    at_us(10000000 - 102000);
    expect_lost(REASON_EXPIRED);
    at_ms(20000);
    expect_nothing();
}

/* R15: together they stay within max_ttl, which the restart guard counts on. */
Test(lock_delay, r15_within_max_ttl)
{
    begin_delayed();
    acquire_as(1, "k", .ttl_ms = 55000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].ttl_ms, 60000);
    acquire_as(2, "other", .ttl_ms = 55001);
    expect_answer(2, ANSWER_BAD_TTL);
    cr_assert_eq(rig.answer.ttl_ms_max, 55000);
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
