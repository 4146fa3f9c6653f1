/* Reports that the core believes only once masters agree, and takes back if they do not. */
#include "core_rig.h"

/* R5, R12: in the second phase a master reports `foreign` for the number, and the lock is
 * there. */
Test(agreement, r12_a_raise_answered_foreign_is_undone)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    at_ms(1), reply(OP_ACQUIRE, 0x06, VOTE_YES);
    reply_with(
        OP_ACQUIRE, 0x01,
        (struct event_reply){.vote = VOTE_YES, .fence = rig.sent[OP_ACQUIRE].token.fence + 1});
    expect_send(OP_RAISE, 0x06);
    at_ms(2), reply(OP_RAISE, 0x06, VOTE_FOREIGN);
    at_ms(200);
    expect_send(OP_RELEASE, ALL); /* also to the masters that reported `foreign` */
}

/* R7: a PUT that no quorum confirmed changes nothing, also not the period of the renewals that
 * follow. */
Test(agreement, r7_the_ttl_of_a_put_counts_only_once_a_quorum_agreed)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(4000), renew_as(1, "k", token, .ttl_ms = 60000);
    expect_send(OP_RENEW, ALL);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 60000);
    reply(OP_RENEW, 0x03, VOTE_YES);
    reply(OP_RENEW, 0x1c, VOTE_REFUSED);
    at_ms(5000);
    expect_answer(1, ANSWER_RENEW_FAILED);
    cr_assert_eq(rig.answer.hold.ttl_ms, 10000);
    cr_assert_eq(valid_until_us(), 10000000 - 102000);
    rig.count = 0;
    at_ms(5100), renew(2, "k", token);
    expect_send(OP_RENEW, ALL);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 10000);
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.ttl_ms, 10000);
    cr_assert_eq(valid_until_us(), 5100000 + 10000000 - 102000);
    at_ms(6000), renew_as(3, "k", token, .ttl_ms = 60000); /* a quorum confirms this one */
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(3, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.ttl_ms, 60000);
}
