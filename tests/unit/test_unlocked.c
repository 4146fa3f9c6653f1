/* Holds that an operator has unlocked (R25): the core's part, as timelines. */
#include "core_rig.h"

/* R25: an operator has deleted the key on a quorum. The hold is lost at once, and nothing is sent
 * after that. */
Test(unlocked, r25_what_was_unlocked_is_lost_and_not_repaired)
{
    prepare(5);
    begin();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    let_time_pass_until(OP_RENEW, 1100);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x03, VOTE_UNLOCKED);
    reply(OP_RENEW, 0x04, VOTE_TAKEN); /* The next holder's. */
    expect_lost(REASON_UNLOCKED);
    at_ms(20000);
    expect_nothing();
}

/* R25: it is a no also of masters that have forgotten the hold since they confirmed it. */
Test(unlocked, r25_unlocked_is_a_denial_in_a_new_epoch_too)
{
    prepare(5);
    begin();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_UP, 9);
    let_time_pass_until(OP_REPAIR, 1100);
    expect_send(OP_REPAIR, ALL);
    reply(OP_REPAIR, 0x07, VOTE_UNLOCKED);
    expect_lost(REASON_UNLOCKED);
    at_ms(20000);
    expect_nothing();
}

/* R25: while one master says so, no other one is repaired, although a quorum confirms the hold. */
Test(unlocked, r25_one_master_that_unlocked_keeps_the_others_from_repair)
{
    prepare(5);
    begin();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    master_is(4, EVENT_MASTER_UP, 9); /* It has forgotten the key. */
    let_time_pass_until(OP_RENEW, 1100);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x01, VOTE_UNLOCKED);
    reply(OP_RENEW, 0x10, VOTE_ABSENT);
    reply(OP_RENEW, 0x0e, VOTE_YES);
    for (int i = 0; i < 60; i++) { /* Beyond the lease that the first master confirmed. */
        let_time_pass_until(OP_RENEW, 1100);
        expect_send(OP_RENEW, ALL);
        reply(OP_RENEW, 0x01, VOTE_UNLOCKED);
        reply(OP_RENEW, 0x10, VOTE_ABSENT);
        reply(OP_RENEW, 0x0e, VOTE_YES);
    }
}
