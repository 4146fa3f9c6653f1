/* The replies to one command come in one event. Each counts as if it had come alone. Replies
 * without room among the effects are taken in the steps that follow. */
#include "core_rig.h"

static struct event_reply batch[LIMIT_BATCH];
static uint16_t batched;

/* Expects the next command, and gathers its replies from now on. */
static const struct record *expect_call(enum op op, uint16_t count)
{
    batched = 0;
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_SEND)
            continue;
        cr_assert_eq(r->effect.send.op, op);
        cr_assert_eq(r->effect.send.count, count);
        r->expected = true;
        return r;
    }
    cr_assert_fail("%s was not sent", op_name(op));
    return NULL;
}

static void says(const struct record *call, size_t item, enum vote vote)
{
    batch[batched++] = (struct event_reply){.op = call->effect.send.op,
                                            .ref = call->items[item].ref,
                                            .vote = vote,
                                            .occupant.left_ms = vote == VOTE_TAKEN ? 700 : -1};
}

static struct event batch_of(uint8_t master)
{
    for (uint16_t i = 0; i < batched; i++)
        batch[i].master = master;
    return (struct event){.kind = EVENT_REPLIES, .replies = {batch, batched}};
}

/* Delivers the gathered replies from each of `masters`. */
static void all_say(master_set masters)
{
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++)
        if (masters >> m & 1)
            step(batch_of(m));
}

static const struct record *renewed_in_one_call(unsigned count, const char *const *keys,
                                                const struct token *tokens)
{
    rig.holds_back = true;
    rig.count = 0;
    for (uint32_t i = 0; i < count; i++)
        renew(i, keys[i], tokens[i]);
    rig.holds_back = false;
    step((struct event){.kind = EVENT_FLUSH});
    return expect_call(OP_RENEW, (uint16_t)count);
}

Test(batch, a_lock_that_is_gone_is_passed_over)
{
    begin_five();
    const char *keys[] = {"a", "b"};
    struct token tokens[] = {hold("a"), hold("b")};
    const struct record *call = renewed_in_one_call(2, keys, tokens);
    says(call, 0, VOTE_YES), says(call, 1, VOTE_YES);
    release(2, "a", tokens[0]);
    expect_answer(0, ANSWER_NOT_HELD);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 1);
    all_say(0x07);
    expect_answer(1, ANSWER_RENEWED);
    expect_nothing();
}

Test(batch, two_outcomes_of_one_lock_are_one_vote)
{
    begin_five();
    const char *keys[] = {"a"};
    struct token tokens[] = {hold("a")};
    const struct record *call = renewed_in_one_call(1, keys, tokens);
    says(call, 0, VOTE_YES), says(call, 0, VOTE_YES), says(call, 0, VOTE_ABSENT);
    all_say(0x03);
    expect_nothing();
    all_say(0x04);
    expect_answer(0, ANSWER_RENEWED);
    expect_nothing();
}

Test(batch, a_lock_that_an_outcome_has_ended_hears_no_other)
{
    begin_five();
    const char *keys[] = {"a", "b"};
    struct token tokens[] = {hold("a"), hold("b")};
    const struct record *call = renewed_in_one_call(2, keys, tokens);
    says(call, 0, VOTE_TAKEN), says(call, 0, VOTE_YES), says(call, 1, VOTE_YES);
    all_say(0x07);
    expect_answer(0, ANSWER_LOCK_LOST);
    expect_lost(REASON_TAKEN);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert(is_listed("b") && !is_listed("a"));
    all_say(0x18);
    expect_nothing();
}

/* A grant in the middle of the others, and the releases that it leaves. */
Test(batch, each_attempt_is_decided_by_its_own_outcome)
{
    begin_five();
    rig.holds_back = true;
    acquire(1, "a"), acquire(2, "b"), acquire(3, "c");
    rig.holds_back = false;
    step((struct event){.kind = EVENT_FLUSH});
    const struct record *call = expect_call(OP_ACQUIRE, 3);
    says(call, 0, VOTE_TAKEN), says(call, 1, VOTE_REFUSED), says(call, 2, VOTE_YES);
    batch[2].fence = call->items[2].token.fence;
    all_say(0x07);
    expect_answer(1, ANSWER_LOCK_HELD);
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    expect_answer(3, ANSWER_GRANTED);
    expect_send(OP_RELEASE, 0x18);
}

Test(batch, r7_each_lock_is_timed_by_its_own_lease)
{
    begin_five();
    const char *keys[] = {"3s", "1s", "2s"};
    struct token tokens[] = {hold_as("3s", .ttl_ms = 3000), hold_as("1s", .ttl_ms = 1000),
                             hold_as("2s", .ttl_ms = 2000)};
    at_ms(500);
    const struct record *call = renewed_in_one_call(3, keys, tokens);
    says(call, 0, VOTE_YES), says(call, 1, VOTE_YES), says(call, 2, VOTE_YES);
    at_ms(510), all_say(0x07);
    /* The drift is 1 % and 2 ms, and `lost` is reported 5 ms before the end. */
    const int64_t lost_ms[] = {500 + 3000 - 32 - 5, 500 + 1000 - 12 - 5, 500 + 2000 - 22 - 5};
    cr_assert_eq(core_next_deadline(rig.core).us, rig.epoch_us + lost_ms[1] * 1000);
    for (unsigned i = 0; i < 3; i++)
        expect_answer(i, ANSWER_RENEWED);
    expect_nothing();
    for (unsigned i = 1; i <= 3; i++) { /* 1s, 2s, 3s */
        at_us(lost_ms[i % 3] * 1000 - 1);
        expect_nothing();
        at_us(lost_ms[i % 3] * 1000);
        expect_lost(REASON_EXPIRED);
        cr_assert_not(is_listed(keys[i % 3]));
        at_us(rig.now_us + 10000);
        rig.count = 0; /* the releases are not checked */
    }
}

/* ---- more than the effects can hold ---- */

enum { PUTS = 5, CALLERS = LIMIT_BATCH * PUTS };

static char names[LIMIT_BATCH][8];

/* Makes as many holds as fit into a call. Of each, one caller's renewal is in flight, and other
 * callers want the next one. Then that one is in flight. */
static const struct record *many_ask_for_one_renewal(void)
{
    prepare(3);
    rig.config.locks_max = LIMIT_BATCH;
    rig.config.requests_max = CALLERS;
    begin();
    struct token tokens[LIMIT_BATCH];
    const char *keys[LIMIT_BATCH];
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        snprintf(names[i], sizeof names[i], "k%u", i);
        keys[i] = names[i];
        rig.count = 0;
        acquire(0, keys[i]);
        expect_send(OP_ACQUIRE, 0x07);
        reply(OP_ACQUIRE, 0x07, VOTE_YES);
        expect_answer(0, ANSWER_GRANTED);
        tokens[i] = rig.answer.hold.token;
    }
    const struct record *call = renewed_in_one_call(LIMIT_BATCH, keys, tokens);
    for (uint32_t request = LIMIT_BATCH; request < CALLERS; request++)
        renew(request, keys[request % LIMIT_BATCH], tokens[request % LIMIT_BATCH]);
    for (unsigned i = 0; i < LIMIT_BATCH; i++)
        says(call, i, VOTE_YES);
    all_say(0x03);
    for (uint32_t i = 0; i < LIMIT_BATCH; i++)
        expect_answer(i, ANSWER_RENEWED);
    call = expect_call(OP_RENEW, LIMIT_BATCH);
    for (unsigned i = 0; i < LIMIT_BATCH; i++)
        says(call, i, VOTE_YES);
    all_say(0x01);
    expect_nothing();
    return call;
}

Test(batch, what_finds_no_room_is_heard_in_the_next_step)
{
    many_ask_for_one_renewal();
    step(batch_of(1));
    cr_assert_gt(rig.turns, 1);
    for (uint32_t request = LIMIT_BATCH; request < CALLERS; request++)
        expect_answer(request, ANSWER_RENEWED);
    expect_nothing();
}

/* The steps that follow have their own time: holds that have expired by then come first. */
Test(batch, r14_the_rest_of_a_batch_may_come_too_late)
{
    many_ask_for_one_renewal();
    struct event event = batch_of(1);
    event.now = (struct instant){rig.epoch_us + rig.now_us};
    size_t answered[2] = {0};
    for (bool taken = false; !taken; event.now.us += 12 * 1000000) {
        event.wall_us = PROPOSAL * (int64_t)1000000 + event.now.us - rig.epoch_us;
        refill_entropy();
        taken = core_step(rig.core, &event, rig.effects);
        core_check(rig.core);
        for (size_t i = 0; i < rig.effects->count; i++) {
            const struct effect_answer *answer = &rig.effects->list[i].answer;
            if (rig.effects->list[i].kind == EFFECT_ANSWER)
                answered[answer->answer != ANSWER_RENEWED]++;
        }
    }
    cr_assert(answered[0] > 0 && answered[0] % (PUTS - 1) == 0);
    cr_assert_gt(answered[1], 0);
    cr_assert_eq(answered[0] + answered[1], CALLERS - LIMIT_BATCH);
}
