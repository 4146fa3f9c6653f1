/* When a master WAITs for its replicas, and the value of its votes without them (R21). */
#include <criterion/criterion.h>

#include "agent/core/replicas.h"
#include "agent/core/round.h"

static struct replicas replicas;

static struct instant at_ms(int64_t ms)
{
    return (struct instant){1000000 + ms * 1000};
}

static void begin(void)
{
    replicas_begin(&replicas, 2, 100);
}

TestSuite(replicas, .init = begin);

Test(replicas, r21_one_wait_stands_behind_all_that_a_turn_writes)
{
    replicas_sent(&replicas, OP_ACQUIRE, at_ms(0));
    replicas_sent(&replicas, OP_RENEW, at_ms(0));
    cr_assert_eq(replicas_asks(&replicas, at_ms(1)), 99u, "since the first of them was sent");
    cr_assert_eq(replicas_asks(&replicas, at_ms(1)), 0u);
}

Test(replicas, r21_what_takes_away_waits_for_nobody)
{
    static const enum op others[] = {OP_RELEASE, OP_READ, OP_WITHDRAW, OP_COUNT};
    for (unsigned i = 0; i < 4; i++) {
        if (others[i] != OP_COUNT)
            replicas_sent(&replicas, others[i], at_ms(0));
        cr_assert_not(replicas_keeps(&replicas, others[i]));
    }
    cr_assert_eq(replicas_asks(&replicas, at_ms(0)), 0u);
}

Test(replicas, r21_what_is_written_meanwhile_shares_the_next_wait)
{
    replicas_sent(&replicas, OP_ACQUIRE, at_ms(0));
    cr_assert_eq(replicas_asks(&replicas, at_ms(0)), 100u);
    replicas_sent(&replicas, OP_REPAIR, at_ms(20));
    replicas_sent(&replicas, OP_ADOPT, at_ms(60));
    cr_assert_eq(replicas_asks(&replicas, at_ms(60)), 0u, "one is under way");
    cr_assert(replicas_answered(&replicas, 2));
    cr_assert_eq(replicas_asks(&replicas, at_ms(70)), 50u);
    cr_assert_not(replicas_answered(&replicas, 1));
    replicas_sent(&replicas, OP_HANDOVER, at_ms(200));
    cr_assert_eq(replicas_asks(&replicas, at_ms(400)), 1u, "0 would be for ever");
    cr_assert_not(replicas_answered(&replicas, -1));
}

Test(replicas, r21_nothing_overtakes_what_is_kept_back)
{
    replicas_sent(&replicas, OP_RAISE, at_ms(0));
    cr_assert_eq(replicas_asks(&replicas, at_ms(0)), 100u);
    cr_assert_not(replicas_keeps(&replicas, OP_RELEASE), "it came before");
    cr_assert(replicas_keeps(&replicas, OP_RAISE));
    cr_assert(replicas_keeps(&replicas, OP_RELEASE));
    cr_assert(replicas_keeps(&replicas, OP_COUNT));
    cr_assert(replicas_answered(&replicas, 3));
    cr_assert_not(replicas_keeps(&replicas, OP_RELEASE));
}

Test(replicas, r21_an_answer_that_does_not_come_is_given_up)
{
    replicas_sent(&replicas, OP_ACQUIRE, at_ms(0));
    cr_assert_not(replicas_give_up(&replicas, at_ms(500)), "none was asked for");
    cr_assert_eq(replicas_asks(&replicas, at_ms(10)), 90u);
    cr_assert(replicas_keeps(&replicas, OP_ACQUIRE));
    cr_assert_not(replicas_give_up(&replicas, at_ms(104)));
    cr_assert(replicas_give_up(&replicas, at_ms(105)));
    cr_assert_not(replicas_keeps(&replicas, OP_RELEASE));
    replicas_sent(&replicas, OP_RENEW, at_ms(110));
    cr_assert_eq(replicas_asks(&replicas, at_ms(110)), 0u, "it is under way still");
    cr_assert(replicas_answered(&replicas, 2));
    cr_assert_eq(replicas_asks(&replicas, at_ms(110)), 100u);
}

Test(replicas, r21_a_group_without_replicas_waits_for_nothing)
{
    replicas_begin(&replicas, 0, 0);
    replicas_sent(&replicas, OP_ACQUIRE, at_ms(0));
    cr_assert_eq(replicas_asks(&replicas, at_ms(0)), 0u);
    cr_assert_not(replicas_keeps(&replicas, OP_ACQUIRE));
}

Test(replicas, r21_only_what_was_done_is_unreplicated)
{
    cr_assert_eq(replicas_vote(OP_ACQUIRE, VOTE_YES), VOTE_UNREPLICATED);
    cr_assert_eq(replicas_vote(OP_REPAIR, VOTE_REPAIRED), VOTE_UNREPLICATED);
    cr_assert_eq(replicas_vote(OP_RESUME, VOTE_GUARDED), VOTE_UNREPLICATED);
    cr_assert_eq(replicas_vote(OP_ADOPT, VOTE_GUARDED), VOTE_GUARDED);
    cr_assert_eq(replicas_vote(OP_ACQUIRE, VOTE_TAKEN), VOTE_TAKEN);
    cr_assert_eq(replicas_vote(OP_RENEW, VOTE_ABSENT), VOTE_ABSENT);
    cr_assert_eq(replicas_vote(OP_RELEASE, VOTE_YES), VOTE_YES);
}

Test(replicas, r21_an_unreplicated_vote_is_neither_yes_nor_no)
{
    struct round round = {0};
    round_begin(&round, OP_RENEW, 1, 1, 1, at_ms(0), 50);
    round_vote(&round, 0, VOTE_UNREPLICATED);
    cr_assert_eq(round_verdict(&round), VERDICT_LOST);
    cr_assert_not(round_lost_to_holder(&round));
    cr_assert_eq(round_tally(&round).unreplicated, 1);
    cr_assert_eq(round_tally(&round).failed, 0);
}
