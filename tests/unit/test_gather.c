/* All that one iteration of the loop asks of the masters goes out in few calls, and in its order
 * (R1, R5). */
#include "core_rig.h"

/* Keeps the turn open: nothing is written before end_turn(). */
static void begin_turn(void)
{
    rig.holds_back = true;
    rig.count = 0;
}

static void end_turn(void)
{
    for (size_t i = 0; i < rig.count; i++)
        cr_assert_neq(rig.records[i].effect.kind, EFFECT_SEND, "it was sent within the turn");
    step((struct event){.kind = EVENT_FLUSH});
    rig.holds_back = false;
    cr_assert_not(core_awaits_flush(rig.core));
}

/* Expects this command next, of so many locks. The first of them is `key`. */
static void expect_next(enum op op, unsigned count, const char *key)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_SEND)
            continue;
        r->expected = true;
        cr_assert_eq(r->effect.send.op, op, "%s, not %s", op_name(r->effect.send.op), op_name(op));
        cr_assert_eq(r->effect.send.count, count, "%s of %u", op_name(op), r->effect.send.count);
        cr_assert(r->items[0].key.len == strlen(key) &&
                  memcmp(r->items[0].key.at, key, strlen(key)) == 0);
        rig.sent[op] = r->items[0];
        return;
    }
    cr_assert_fail("%s was not sent", op_name(op));
}

Test(gather, r1_acquires_of_a_turn_share_a_call)
{
    begin_five();
    begin_turn();
    acquire(1, "a"), acquire(2, "b"), acquire(3, "c");
    end_turn();
    struct record *sent = &rig.records[0];
    expect_next(OP_ACQUIRE, 3, "a");
    cr_assert_eq(sent->effect.send.masters, ALL);
    expect_nothing();
    for (unsigned i = 0; i < 3; i++) {
        rig.sent[OP_ACQUIRE] = sent->items[2 - i];
        reply(OP_ACQUIRE, 0x07, i == 1 ? VOTE_TAKEN : VOTE_YES);
    }
    expect_answer(3, ANSWER_GRANTED);
    expect_answer(2, ANSWER_LOCK_HELD);
    expect_answer(1, ANSWER_GRANTED);
}

Test(gather, releases_of_a_turn_share_a_call_before_its_acquires)
{
    begin_five();
    struct token a = hold("a"), b = hold("b");
    begin_turn();
    release(1, "a", a), acquire(2, "c"), release(3, "b", b), acquire(4, "b");
    end_turn();
    expect_next(OP_RELEASE, 2, "a");
    expect_next(OP_ACQUIRE, 2, "c");
    expect_nothing();
}

Test(gather, r8_renewals_that_callers_ask_for_share_a_call)
{
    begin_five();
    struct token a = hold("a"), b = hold("b");
    begin_turn();
    renew(1, "a", a), renew(2, "b", b);
    end_turn();
    expect_next(OP_RENEW, 2, "a");
    expect_nothing();
}

Test(gather, r8_a_call_names_fifty_locks_at_the_most)
{
    enum { MANY = LIMIT_BATCH + 3 };
    static char keys[MANY][8];
    prepare(5);
    rig.config.locks_max = MANY;
    begin();
    begin_turn();
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        acquire(i, keys[i]);
    }
    end_turn();
    expect_next(OP_ACQUIRE, LIMIT_BATCH, "k0");
    expect_next(OP_ACQUIRE, MANY - LIMIT_BATCH, keys[LIMIT_BATCH]);
    expect_nothing();
}

/* A release that ran before the renewal, or the repair, of the same hold would leave its key. */
Test(gather, r5_a_release_does_not_overtake_the_renewal_before_it)
{
    begin_five();
    struct token a = hold("a"), b = hold("b"), c = hold("c");
    begin_turn();
    release(1, "a", a), renew(2, "b", b), release(3, "b", b), release(4, "c", c);
    end_turn();
    expect_next(OP_RELEASE, 2, "a"); /* with c, which had no command before */
    expect_next(OP_RENEW, 1, "b");
    expect_next(OP_RELEASE, 1, "b");
    expect_answer(2, ANSWER_NOT_HELD);
    expect_nothing();
}

Test(gather, r5_what_goes_out_alone_overtakes_nothing)
{
    begin_five();
    struct token a = hold("a");
    begin_turn();
    release(1, "a", a), read_key(2, "a");
    expect_next(OP_RELEASE, 1, "a");
    expect_next(OP_READ, 1, "a");
    expect_nothing();
    rig.holds_back = false;
}

/* The undoing of an attempt puts its ticket back. A waiter that leaves takes it off after that
 * (R9). */
Test(gather, r9_a_withdrawal_does_not_overtake_the_ticket_that_it_takes_off)
{
    prepare(5);
    rig.policy.form = FORM_FAIR;
    begin();
    acquire_as(1, "k", .wait_ms = 60000);
    expect_send(OP_ACQUIRE, ALL);
    begin_turn();
    reply(OP_ACQUIRE, 0x07, VOTE_TAKEN);
    cancel(1);
    expect_channel(EFFECT_WATCH), expect_channel(EFFECT_UNWATCH);
    expect_next(OP_RELEASE, 1, "k");
    expect_next(OP_WITHDRAW, 1, "k");
    expect_nothing();
    rig.holds_back = false;
}

/* Masters that are asked differently are asked apart. */
Test(gather, those_of_other_masters_or_of_order_fair_go_apart)
{
    static struct core_policy policies[2];
    prepare(5);
    policies[1] = policies[0] = rig.policy;
    snprintf(policies[0].match, sizeof policies[0].match, "fair-*");
    policies[0].form = FORM_FAIR;
    rig.config.policies = policies;
    rig.config.policy_count = 2;
    begin();
    struct token a = hold("a"), b = hold("fair-b"), c = hold("c");
    begin_turn();
    release(1, "a", a), release(2, "fair-b", b);
    master_is(4, EVENT_MASTER_DOWN, 0);
    release(3, "c", c), acquire(4, "d"), acquire(5, "fair-e"), acquire(6, "f");
    end_turn();
    expect_next(OP_RELEASE, 1, "a");
    expect_next(OP_RELEASE, 1, "fair-b");
    expect_next(OP_RELEASE, 1, "c");
    expect_next(OP_ACQUIRE, 2, "d");
    expect_next(OP_ACQUIRE, 1, "fair-e");
    expect_nothing();
}

/* The same numbers of masters are other masters in another group. */
Test(gather, those_of_another_group_go_apart)
{
    static const char *const names[] = {"main", "other"};
    static struct core_group groups[2];
    static struct core_policy policies[2];
    prepare(5);
    groups[0] = groups[1] = rig.group;
    policies[0] = policies[1] = rig.policy;
    snprintf(policies[0].match, sizeof policies[0].match, "other-*");
    policies[0].groups[0] = 1;
    rig.config.groups = groups, rig.config.group_names = names, rig.config.group_count = 2;
    rig.config.policies = policies, rig.config.policy_count = 2;
    begin();
    for (uint8_t m = 0; m < 5; m++) {
        struct event event = {.kind = EVENT_MASTER_UP};
        event.master = (struct event_master){.group = 1, .master = m, .epoch = 1};
        step(event);
    }
    begin_turn();
    acquire(1, "a"), acquire(2, "other-b"), acquire(3, "c");
    end_turn();
    for (size_t i = 0; i < rig.count; i++)
        if (rig.records[i].effect.kind == EFFECT_SEND)
            cr_assert_eq(rig.records[i].effect.send.group,
                         rig.records[i].items[0].key.at[0] == 'o' ? 1 : 0);
    expect_next(OP_ACQUIRE, 2, "a");
    expect_next(OP_ACQUIRE, 1, "other-b");
    expect_nothing();
}

/* A lock makes room for another one. Its gathered commands are sent while its key is known. */
Test(gather, r6_a_lock_that_goes_has_its_release_sent)
{
    prepare(5);
    rig.config.locks_max = 1;
    begin();
    begin_turn();
    for (unsigned i = 0; i < 8; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%u", i);
        acquire(1, key);
        step((struct event){.kind = EVENT_FLUSH});
        expect_send(OP_ACQUIRE, ALL);
        cancel(1); /* undone, and the release is gathered */
        cr_assert(core_awaits_flush(rig.core));
    }
    step((struct event){.kind = EVENT_FLUSH});
    rig.holds_back = false;
}

/* After a stall more renewals are due than one step can name: gathered ones count as named. */
Test(gather, r8_renewals_of_many_locks_take_several_steps)
{
    enum { MANY = LIMIT_ITEMS + LIMIT_BATCH };
    static char keys[MANY][8];
    unsigned renewed = 0;
    prepare(3);
    rig.config.locks_max = MANY;
    begin();
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        rig.count = 0;
        acquire_as(1, keys[i], .renew = RENEW_AGENT);
        expect_send(OP_ACQUIRE, 0x07);
        reply(OP_ACQUIRE, 0x07, VOTE_YES);
    }
    rig.count = 0;
    stalled_until_ms(4000), step((struct event){.kind = EVENT_TIME});
    while (core_next_deadline(rig.core).us <= rig.epoch_us + rig.now_us)
        step((struct event){.kind = EVENT_TIME});
    for (size_t i = 0; i < rig.count; i++)
        if (rig.records[i].effect.kind == EFFECT_SEND)
            renewed += rig.records[i].effect.send.count;
    cr_assert_eq(renewed, MANY);
}
