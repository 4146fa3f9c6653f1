/* A label that changes (D3.9), by timelines. */
#include "core_rig.h"

enum { QUORUM = 0x07, REST = 0x18, FOLLOWER = 40 };

static const struct token old_token = {.random = {1, 2, 3, 4, 5}, .fence = 1699999999000000};

TestSuite(label);

static void expect_label(struct text found, const char *label)
{
    const struct text wanted = {label, strlen(label)};
    cr_assert(text_same(found, wanted), "%.*s, not %s", (int)found.len, found.at, label);
}

/* Expects a command to these masters that names the label. */
static void expect_named(enum op op, master_set masters, const char *label)
{
    expect_send(op, masters);
    expect_label(rig.sent[op].label, label);
}

static void put(uint32_t request, struct token token, const char *label)
{
    renew_as(request, "k", token, .label = text(label));
}

/* A master confirms an adoption, and tells the label that it has. */
static void adopted(master_set masters, const char *label)
{
    reply_with(OP_ADOPT, masters,
               (struct event_reply){.vote = VOTE_YES,
                                    .fence = rig.sent[OP_ADOPT].token.fence,
                                    .occupant = {.label = text(label), .left_ms = -1}});
}

static void expect_renewed_as(uint32_t request, const char *label)
{
    expect_answer(request, ANSWER_RENEWED);
    expect_label(rig.answer.hold.label, label);
}

/* Expects that the journal's last record of a hold has this label. */
static void expect_noted(const char *label)
{
    const struct effect_hold *last = NULL;
    for (size_t i = 0; i < rig.count; i++)
        if (rig.records[i].effect.kind == EFFECT_HOLD)
            last = &rig.records[i].effect.hold;
    cr_assert_not_null(last);
    expect_label(metadata_label(&last->hold.metadata), label);
}

Test(label, d3_9_a_put_names_it_to_masters_and_so_does_each_later_renewal)
{
    begin_five();
    struct token token = hold("k");
    put(1, token, "leader");
    expect_named(OP_RENEW, ALL, "leader");
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_renewed_as(1, "leader");
    renew(2, "k", token);
    expect_named(OP_RENEW, ALL, "leader");
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_renewed_as(2, "leader");
    cr_assert(token_same(&rig.answer.hold.token, &token));
    put(3, token, "drains");
    expect_named(OP_RENEW, ALL, "drains");
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_renewed_as(3, "drains");
}

Test(label, d3_9_a_repair_names_the_new_one)
{
    begin_five();
    struct token token = hold("k");
    master_is(4, EVENT_MASTER_DOWN, 0);
    master_is(4, EVENT_MASTER_UP, 2);
    at_ms(1000);
    put(1, token, "leader");
    expect_named(OP_RENEW, ALL, "leader");
    reply(OP_RENEW, 0x0f, VOTE_YES);
    reply(OP_RENEW, 0x10, VOTE_ABSENT);
    expect_answer(1, ANSWER_RENEWED);
    at_ms(2000);
    renew(2, "k", token);
    expect_named(OP_RENEW, 0x0f, "leader");
    expect_named(OP_REPAIR, 0x10, "leader");
}

/* Nothing is unlocked, and what some masters may have is not taken back. */
Test(label, d3_9_a_failed_renewal_keeps_the_new_one)
{
    begin_five();
    struct token token = hold("k");
    put(1, token, "leader");
    expect_named(OP_RENEW, ALL, "leader");
    reply(OP_RENEW, 0x01, VOTE_YES);
    reply(OP_RENEW, 0x1e, VOTE_REFUSED);
    expect_answer(1, ANSWER_RENEW_FAILED);
    expect_label(rig.answer.hold.label, "leader");
    renew(2, "k", token);
    expect_named(OP_RENEW, ALL, "leader");
}

/* The round in flight answers no PUT that comes after it. */
Test(label, d3_9_a_put_beside_a_round_waits_for_the_next_one)
{
    begin_five();
    struct token token = hold("k");
    put(1, token, "one");
    expect_named(OP_RENEW, ALL, "one");
    put(2, token, "two");
    put(3, token, "three");
    expect_nothing();
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_renewed_as(1, "one");
    expect_named(OP_RENEW, ALL, "three");
    reply(OP_RENEW, QUORUM, VOTE_YES);
    expect_renewed_as(2, "three");
    expect_renewed_as(3, "three");
}

/* Commands that are gathered borrow the label, and are sent with the one of their time. */
Test(label, d3_9_what_is_gathered_keeps_its_own)
{
    begin_five();
    struct token token = hold("k");
    for (uint8_t m = 1; m < 5; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    rig.holds_back = true;
    put(1, token, "a longer one");
    step((struct event){.kind = EVENT_TIME});
    at_ms(rig.now_us / 1000 + 1100);
    put(2, token, "b");
    rig.holds_back = false;
    step((struct event){.kind = EVENT_FLUSH});
    expect_named(OP_RENEW, 0x01, "a longer one");
    expect_named(OP_RENEW, 0x01, "b");
}

Test(label, d3_9_the_journal_has_the_new_one)
{
    prepare(5);
    rig.config.journal = true;
    begin();
    struct token token = hold("k");
    put(1, token, "leader");
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, QUORUM, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    expect_noted("leader");
}

/* Otherwise a restarted agent would write the one of the minority on all masters. */
Test(label, d3_9_the_journal_has_the_one_that_is_heard_after_the_decision)
{
    prepare(5);
    rig.config.journal = true;
    begin();
    renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    adopted(0x03, "old");
    adopted(0x04, "new");
    expect_renewed_as(1, "old");
    adopted(0x18, "new");
    expect_noted("new");
}

/* The label of a POST that enters its hold again is not that of the hold (R11). */
Test(label, d3_9_a_repeated_post_changes_nothing)
{
    begin_five();
    struct token token = hold_as("k", .idempotency = text("a-secret-of-16-b"));
    put(1, token, "leader");
    expect_named(OP_RENEW, ALL, "leader");
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    acquire_as(2, "k", .idempotency = text("a-secret-of-16-b"));
    expect_named(OP_RENEW, ALL, "leader");
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(2, ANSWER_REPEATED);
    expect_label(rig.answer.hold.label, "leader");
}

Test(label, d3_9_an_adoption_takes_that_of_most_masters)
{
    begin_five();
    renew(1, "k", old_token);
    expect_named(OP_ADOPT, ALL, "");
    adopted(0x01, "old");
    adopted(0x06, "new");
    expect_renewed_as(1, "new");
    renew(2, "k", old_token);
    expect_named(OP_RENEW, QUORUM, "new");
    expect_named(OP_RESUME, 0x18, "new");
}

/* A master without a label has missed the first one. */
Test(label, d3_9_an_adoption_takes_a_label_before_none)
{
    begin_five();
    renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    adopted(0x03, "");
    adopted(0x04, "new");
    expect_renewed_as(1, "new");
}

Test(label, d3_9_replies_after_the_decision_count)
{
    begin_five();
    renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    adopted(0x03, "old");
    adopted(0x04, "new");
    expect_renewed_as(1, "old");
    adopted(0x18, "new");
    renew(2, "k", old_token);
    expect_named(OP_RENEW, ALL, "new");
}

Test(label, d3_9_an_adoption_names_that_of_its_put)
{
    begin_five();
    put(1, old_token, "mine");
    expect_named(OP_ADOPT, ALL, "mine");
    adopted(QUORUM, "old");
    expect_renewed_as(1, "mine");
    adopted(REST, "old");
    renew(2, "k", old_token);
    expect_named(OP_RENEW, ALL, "mine");
}

/* Masters are asked once for both PUTs. The second one's label comes with a renewal. */
Test(label, d3_9_a_put_that_joins_an_adoption_is_answered_when_masters_have_its_own)
{
    begin_five();
    put(1, old_token, "one");
    expect_named(OP_ADOPT, ALL, "one");
    put(2, old_token, "two");
    adopted(QUORUM, "old");
    expect_renewed_as(1, "one");
    expect_named(OP_RENEW, QUORUM, "two");
    expect_named(OP_RESUME, 0x18, "two");
    reply(OP_RENEW, QUORUM, VOTE_YES);
    expect_renewed_as(2, "two");
}

/* Otherwise each of them would begin and fail a round of its own in one step, more than a step has
 * room for, and the bytes of the first labels would be lost. */
Test(label, d3_9_puts_that_join_an_adoption_share_one_renewal)
{
    enum { JOINING = 300 };
    prepare(3);
    rig.config.requests_max = 2 + JOINING;
    begin();
    renew(1, "k", old_token);
    expect_named(OP_ADOPT, 0x07, "");
    for (uint32_t i = 0; i < JOINING; i++)
        put(2 + i, old_token, i % 2 == 0 ? "a longer one" : "b");
    adopted(0x01, "new");
    master_is(0, EVENT_MASTER_DOWN, 0);
    master_is(2, EVENT_MASTER_DOWN, 0);
    adopted(0x02, "new");
    expect_renewed_as(1, "new");
    expect_named(OP_RENEW, 0x02, "b");
    for (uint32_t i = 0; i < JOINING; i++) {
        expect_answer(2 + i, ANSWER_RENEW_FAILED);
        expect_label(rig.answer.hold.label, "b");
    }
    expect_nothing();
}

/* The adoption has told masters no label. So 200 comes when a quorum has that of the second PUT,
 * although a master has told the agent the same one. */
Test(label, d3_9_a_label_that_joins_an_adoption_without_one_is_written)
{
    begin_five();
    renew(1, "k", old_token);
    expect_named(OP_ADOPT, ALL, "");
    put(2, old_token, "new");
    adopted(0x01, "new");
    adopted(0x06, "");
    expect_renewed_as(1, "new");
    expect_named(OP_RENEW, QUORUM, "new");
    expect_named(OP_RESUME, 0x18, "new");
    reply(OP_RENEW, QUORUM, VOTE_YES);
    expect_renewed_as(2, "new");
}

/* Another agent has adopted the hold, and changed its label since. */
Test(label, d3_9_an_adoption_back_takes_the_other_agents)
{
    begin_five();
    struct token token = hold("k");
    renew(1, "k", token);
    expect_named(OP_RENEW, ALL, "me");
    reply(OP_RENEW, ALL, VOTE_MOVED);
    expect_named(OP_ADOPT, ALL, "");
    adopted(QUORUM, "new");
    expect_renewed_as(1, "new");
}

/* Labels that masters told an earlier adoption do not count in a later one. */
Test(label, d3_9_an_adoption_back_counts_its_own_replies_alone)
{
    begin_five();
    renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    adopted(ALL, "old");
    expect_renewed_as(1, "old");
    renew(2, "k", old_token);
    expect_named(OP_RENEW, ALL, "old");
    reply(OP_RENEW, ALL, VOTE_MOVED);
    expect_named(OP_ADOPT, ALL, "");
    adopted(QUORUM, "new");
    expect_renewed_as(2, "new");
}

Test(label, d3_9_an_adoption_back_names_that_of_its_put)
{
    begin_five();
    struct token token = hold("k");
    put(1, token, "mine");
    expect_named(OP_RENEW, ALL, "mine");
    reply(OP_RENEW, ALL, VOTE_MOVED);
    expect_named(OP_ADOPT, ALL, "mine");
    adopted(QUORUM, "new");
    expect_renewed_as(1, "mine");
}

Test(label, d3_9_followers_are_told_at_once)
{
    begin_five();
    struct token token = hold("k");
    struct event event = {.kind = EVENT_READ};
    event.read = (struct event_read){.request = FOLLOWER, .key = text("k"), .follows = true};
    step(event);
    step((struct event){.kind = EVENT_TIME});
    put(1, token, "leader");
    step((struct event){.kind = EVENT_TIME});
    const struct record *last = NULL;
    for (size_t i = 0; i < rig.count; i++)
        if (rig.records[i].effect.kind == EFFECT_FOLLOWED)
            last = &rig.records[i];
    cr_assert_not_null(last);
    expect_label(last->effect.followed.occupant.label, "leader");
}

/* Only followers of a mutex are told without a look. A label causes no look, and ends none that is
 * in flight. */
Test(label, d3_9_the_label_of_a_shared_lock_causes_no_look)
{
    prepare(5);
    rig.policy.form = FORM_SHARED;
    begin();
    struct token token = hold("k");
    struct event event = {.kind = EVENT_READ};
    event.read = (struct event_read){.request = FOLLOWER, .key = text("k"), .follows = true};
    step(event);
    step((struct event){.kind = EVENT_TIME});
    expect_send(OP_READ, ALL);
    put(1, token, "leader");
    expect_named(OP_RENEW, ALL, "leader");
    step((struct event){.kind = EVENT_TIME});
    for (size_t i = 0; i < rig.count; i++)
        cr_assert(rig.records[i].expected || rig.records[i].effect.kind != EFFECT_SEND);
}
