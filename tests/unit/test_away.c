/* Masters that were away for longer than the lease, as timelines (R7). */
#include "core_rig.h"

/* A lease of 10 s that was granted at 0 and not renewed since is over at 10,203 ms at the latest
 * (native commands may set it for twice node_timeout more, R24), and at 9,898 ms at the earliest. A
 * lease that was renewed at 0 is over at 10,102 ms at the latest. */
enum {
    LATE_US = 10203000,
    RENEWED_LATE_US = 10102000,
    EARLY_US = 9898000,
    PROOF_MS = 255, /* A release's 250 ms, and the drift of two clocks in that time. */
};

static uint32_t requests;
static struct token token;

static void begin_hold(void)
{
    requests = 0;
    begin_five();
    token = hold_as("k", .ttl_ms = 10000);
}

static uint8_t confirmed(void)
{
    struct hold_view view;
    struct lock_ref ref;
    uint32_t next = 0;
    cr_assert(core_next_hold_of(rig.core, text("k"), (struct instant){rig.epoch_us + rig.now_us},
                                &next, &view, &ref));
    return view.confirmed;
}

/* Runs a renewal in which `yes` confirm, `no` do not have the key, and the others are silent. None
 * of them is asked to create it. */
static void renewal(master_set yes, master_set no)
{
    renew(++requests, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, no, VOTE_ABSENT);
    reply(OP_RENEW, yes, VOTE_YES);
    expect_answer(requests, ANSWER_RENEWED);
    expect_nothing();
}

/* Runs a renewal in which `repaired` are asked to create the key. */
static void repair(master_set repaired, enum vote vote)
{
    renew(++requests, "k", token);
    expect_send(OP_RENEW, ALL & (master_set)~repaired);
    expect_send(OP_REPAIR, repaired);
    reply(OP_REPAIR, repaired, vote);
    reply(OP_RENEW, ALL & (master_set)~repaired, VOTE_YES);
    expect_answer(requests, ANSWER_RENEWED);
    expect_nothing();
}

/* Keeps master 0 silent until its lease is over and a quorum has shown that the hold goes on. */
static void be_away(void)
{
    for (int64_t ms = 3000; ms <= 12000; ms += 3000)
        at_ms(ms), renewal(0x1e, 0);
}

/* Master 0 is back without the key. It says so, and a quorum confirms the token 250 ms later: after
 * the time of a release. */
static void come_back(int64_t ms)
{
    at_ms(ms), renewal(0x1e, 0x01);
    at_ms(ms + PROOF_MS), renewal(0x1e, 0x01);
}

Test(away, who_comes_back_is_repaired_and_counts_from_the_next_renewal)
{
    begin_hold();
    be_away();
    come_back(12500);
    at_ms(13000), renew(30, "k", token);
    expect_send(OP_RENEW, 0x1e);
    expect_send(OP_REPAIR, 0x01);
    cr_assert_eq(rig.sent[OP_REPAIR].token.fence, token.fence);
    reply(OP_REPAIR, 0x01, VOTE_REPAIRED); /* not a vote yet */
    reply(OP_RENEW, 0x06, VOTE_YES);
    expect_nothing();
    reply(OP_RENEW, 0x08, VOTE_YES);
    expect_answer(30, ANSWER_RENEWED);
    at_ms(14000), renew(31, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_YES); /* now it belongs to the quorum */
    expect_answer(31, ANSWER_RENEWED);
    cr_assert_eq(confirmed(), 5);
}

/* The next master may go as soon as this one counts again: the rounds which that takes do not wait
 * for a third of the ttl each. */
Test(away, a_watchdog_mends_without_waiting_for_its_turn)
{
    begin_five();
    hold_as("k", .ttl_ms = 10000, .renew = RENEW_AGENT);
    for (int i = 0; i < 4; i++) {
        let_time_pass_until(OP_RENEW, 3334);
        expect_send(OP_RENEW, ALL);
        reply(OP_RENEW, 0x1c, VOTE_YES), reply(OP_RENEW, 0x02, VOTE_YES);
    }
    for (int i = 0; i < 2; i++) { /* It has no key, and the others show that the hold goes on. */
        let_time_pass_until(OP_RENEW, i == 0 ? 3334 : 1000);
        expect_send(OP_RENEW, ALL);
        reply(OP_RENEW, 0x1e, VOTE_YES), reply(OP_RENEW, 0x01, VOTE_ABSENT);
    }
    let_time_pass_until(OP_REPAIR, 500);
    expect_send(OP_RENEW, 0x1e);
    expect_send(OP_REPAIR, 0x01);
    reply(OP_RENEW, 0x1e, VOTE_YES), reply(OP_REPAIR, 0x01, VOTE_REPAIRED);
    let_time_pass_until(OP_RENEW, 500);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    for (int64_t end_us = rig.now_us + 2500000; rig.now_us < end_us; at_us(rig.now_us + 1000))
        expect_nothing(); /* all count: the next one is the usual one */
    let_time_pass_until(OP_RENEW, 834);
}

/* A master that lost its key by itself is repaired as soon as that is safe: when the masters can
 * show that the hold was not released. */
Test(away, a_watchdog_proves_as_soon_as_it_can)
{
    begin_five();
    hold_as("k", .ttl_ms = 10000, .renew = RENEW_AGENT);
    for (int i = 0; i < 3; i++) {
        let_time_pass_until(OP_RENEW, 3334);
        expect_send(OP_RENEW, ALL);
        reply(OP_RENEW, 0x1e, VOTE_YES);
    }
    at_us(LATE_US + 10000), renew(1, "k", rig.answer.hold.token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x1e, VOTE_YES), reply(OP_RENEW, 0x01, VOTE_ABSENT);
    expect_answer(1, ANSWER_RENEWED);
    let_time_pass_until(OP_RENEW, 1500); /* it shows that the hold goes on */
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x1e, VOTE_YES), reply(OP_RENEW, 0x01, VOTE_ABSENT);
    let_time_pass_until(OP_REPAIR, 500);
    expect_send(OP_REPAIR, 0x01);
}

/* All of them, one after another: at every moment four could carry the hold. */
Test(away, all_in_turn_cost_no_hold)
{
    begin_hold();
    int64_t ms = 0;
    for (uint8_t m = 0; m < 5; m++) {
        for (int i = 0; i < 4; i++)
            at_ms(ms += 3000), renewal(ALL & (master_set) ~(1u << m), 0);
        for (int i = 0; i < 2; i++)
            at_ms(ms += PROOF_MS), renewal(ALL & (master_set) ~(1u << m), (master_set)(1u << m));
        at_ms(ms += 500), repair((master_set)(1u << m), VOTE_REPAIRED);
        at_ms(ms += 1000), renewal(ALL, 0);
    }
    cr_assert_eq(confirmed(), 5);
}

/* The policy's ttl is no measure of this hold. A repair waits for the time of a release, and that
 * time does not grow with the ttl. */
Test(away, all_in_turn_cost_no_hold_whose_ttl_is_much_shorter_than_the_policys)
{
    prepare(3);
    rig.policy.ttl_ms = 30000;
    begin();
    acquire_as(30, "k", .ttl_ms = 1000, .renew = RENEW_AGENT);
    expect_send(OP_ACQUIRE, 0x07), reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(30, ANSWER_GRANTED);
    bool has_key[3] = {true, true, true};
    for (int64_t ms = 1, away_ms = 1800; ms < 4 * away_ms; at_ms(++ms)) {
        uint8_t away = (uint8_t)(ms / away_ms); /* the fourth one is none of them */
        if (ms % away_ms == 1100 && away < 3)
            has_key[away] = false; /* its lease has run out */
        bool is_back = away < 3 && ms % away_ms >= 1110;
        for (size_t i = 0; i < rig.count; i++) {
            struct record *r = &rig.records[i];
            if (r->expected || r->effect.kind != EFFECT_SEND)
                continue;
            enum op op = r->effect.send.op;
            master_set asked = r->effect.send.masters;
            expect_send(op, asked);
            for (uint8_t m = 0; m < 3; m++) {
                if ((asked >> m & 1) == 0 || (m == away && !is_back))
                    continue;
                bool creates = op == OP_REPAIR && !has_key[m];
                reply(op, (master_set)(1u << m),
                      creates      ? VOTE_REPAIRED
                      : has_key[m] ? VOTE_YES
                                   : VOTE_ABSENT);
                has_key[m] = has_key[m] || creates;
            }
        }
        rig.count = 0;
        cr_assert(is_listed("k"), "lost at %lld ms", (long long)ms);
    }
    cr_assert_eq(confirmed(), 3);
}

/* A denial is one while the lease can still run: counted from the reply, with the drift. */
Test(away, a_denial_counts_until_the_lease_is_over_for_certain)
{
    begin_hold();
    at_ms(5000), renewal(0x1e, 0);
    at_us(LATE_US - 1), renewal(0x1c, 0x01); /* by the microsecond: */
    at_us(LATE_US - 1), renew(30, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x06, VOTE_TAKEN); /* with 0 these are three of five */
    expect_answer(30, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert_not(is_listed("k"));
}

Test(away, a_denial_does_not_count_when_the_lease_is_over)
{
    begin_hold();
    at_ms(5000), renewal(0x1e, 0);
    at_us(LATE_US - 1), renewal(0x1c, 0x01);
    at_us(LATE_US), renew(30, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x06, VOTE_TAKEN);
    expect_nothing(); /* fewer than three have denied */
    reply(OP_RENEW, 0x18, VOTE_YES);
    expect_nothing();
    cr_assert(is_listed("k"));
}

/* A lease that a renewal extended is the longer one, even if the answer came late. A shorter ttl
 * shortens nothing. */
Test(away, the_lease_is_the_longest_that_was_confirmed)
{
    begin_hold();
    at_ms(1000), renew_as(1, "k", token, .ttl_ms = 2000);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_us(LATE_US - 500000), renew(2, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    expect_answer(2, ANSWER_LOCK_LOST);
    cr_assert_eq(rig.answer.reason, REASON_GONE);
}

/* A released hold must not come back (R7). Before a key that may have been deleted is created anew,
 * a quorum must have confirmed the token. That round must have been sent after the key was seen to
 * be gone, and after any release of that time was decided. */
Test(away, nothing_is_repaired_before_a_quorum_has_shown_that_it_goes_on)
{
    begin_hold();
    at_ms(9000), renewal(0x1e, 0);
    at_ms(10401), renewal(0x1e, 0x01);            /* the last quorum was before that */
    at_ms(10401 + PROOF_MS), renewal(0x1e, 0x01); /* sent after a release's time */
    at_ms(10402 + PROOF_MS), repair(0x01, VOTE_REPAIRED);
}

/* The key may live longer than the lease that this agent knows. A release at another
 * agent may find it there, after the rounds that a quorum confirmed here. So the end of that lease
 * proves nothing about the key (R7). */
static void release_elsewhere_after_the_lease(void)
{
    be_away();
    at_ms(13000), renew(30, "k", token); /* 0 and 1 confirmed a DELETE at 12,900 ms. */
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x01, VOTE_ABSENT);
    reply(OP_RENEW, 0x1c, VOTE_YES); /* The rest of the DELETE is in flight. */
    expect_answer(30, ANSWER_RENEWED);
    reply(OP_RENEW, 0x02, VOTE_ABSENT);
    at_ms(13250), renewal(0x1c, 0x03);
    at_ms(13300), renew(31, "k", token);
    expect_send(OP_RENEW, ALL); /* 1 denies within its lease. */
    reply(OP_RENEW, 0x0e, VOTE_ABSENT);
    expect_answer(31, ANSWER_LOCK_LOST);
    cr_assert_eq(rig.answer.reason, REASON_GONE);
}

Test(away, a_key_that_lived_longer_by_a_lost_reply_is_not_brought_back)
{
    begin_hold();
    at_ms(2000), renew(29, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x1e, VOTE_YES), reply(OP_RENEW, 0x01, VOTE_UNKNOWN);
    expect_answer(29, ANSWER_RENEWED);
    release_elsewhere_after_the_lease();
}

Test(away, a_key_that_lived_longer_by_another_agents_ttl_is_not_brought_back)
{
    requests = 0;
    begin_five();
    token = (struct token){.random = {7}, .fence = 77};
    renew_as(29, "k", token, .ttl_ms = 10000); /* At the agent that granted it: a minute. */
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(29, ANSWER_RENEWED);
    release_elsewhere_after_the_lease();
}

Test(away, a_quorum_of_too_early_a_round_shows_nothing)
{
    begin_hold();
    at_ms(9000), renewal(0x1e, 0);
    at_us(LATE_US), renewal(0x1e, 0x01);
    at_us(LATE_US + 249999), renewal(0x1e, 0x01);
    at_us(LATE_US + 400000), renewal(0x1e, 0x01);
    at_us(LATE_US + 500000), repair(0x01, VOTE_REPAIRED);
}

/* A definite no may be the first sign of a release elsewhere. A master that has lost its key by
 * then may have lost it by that release. */
Test(away, nothing_is_repaired_while_another_master_denies)
{
    begin_hold();
    for (int64_t ms = 3000; ms <= 9000; ms += 3000)
        at_ms(ms), renewal(0x1e, 0);
    at_ms(12000), renewal(0x1c, 0x02); /* 1 confirmed at 9 s: a no until 19,102 ms */
    at_ms(15000), renewal(0x1c, 0x03);
    at_us(RENEWED_LATE_US + 8999999), renewal(0x1c, 0x03);
    at_us(RENEWED_LATE_US + 9000000), renew(30, "k", token);
    expect_send(OP_RENEW, 0x1e); /* no quorum has shown anything about 1 yet */
    expect_send(OP_REPAIR, 0x01);
    reply(OP_RENEW, 0x1c, VOTE_YES);
    expect_answer(30, ANSWER_RENEWED);
}

/* Another holder's key that came while it was away counts the same way: asked again, repaired once
 * it is gone. */
Test(away, another_holders_key_is_asked_again)
{
    begin_hold();
    be_away();
    come_back(12500);
    at_ms(13000), repair(0x01, VOTE_TAKEN);
    at_ms(16000), repair(0x01, VOTE_FOREIGN);
    cr_assert_eq(confirmed(), 4);
    at_ms(19000), repair(0x01, VOTE_REPAIRED);
    at_ms(19001), renewal(ALL, 0);
    cr_assert_eq(confirmed(), 5);
}

/* A renewal that was done left the key there, although its answer was lost. That is no loss
 * either. */
Test(away, a_key_that_is_there_after_all_counts_at_once)
{
    begin_hold();
    be_away();
    at_ms(13000), renew(30, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(30, ANSWER_RENEWED);
    cr_assert_eq(confirmed(), 5);
}

Test(away, confirmed_counts_no_master_that_denies)
{
    begin_hold();
    cr_assert_eq(confirmed(), 5);
    at_ms(1000), renew(30, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x01, VOTE_ABSENT);
    cr_assert_eq(confirmed(), 4);
    reply(OP_RENEW, 0x02, VOTE_TAKEN);
    cr_assert_eq(confirmed(), 3);
    reply(OP_RENEW, 0x1c, VOTE_YES);
    expect_answer(30, ANSWER_RENEWED);
    read_key(31, "k");
    expect_send(OP_READ, ALL);
    reply(OP_READ, ALL, VOTE_YES);
    expect_answer(31, ANSWER_STATE);
    cr_assert_eq(rig.answer.hold.confirmed, 3);
}

/* A silent master may have lost the key by itself. The lease counts from the sending, and by a fast
 * clock there. */
Test(away, confirmed_counts_a_silent_master_no_longer_than_its_lease)
{
    begin_hold();
    at_ms(8000), renewal(0x1e, 0);
    at_us(EARLY_US - 1000);
    cr_assert_eq(confirmed(), 5);
    at_us(EARLY_US);
    cr_assert_eq(confirmed(), 4);
}

/* A master that is down may have lost its keys with its process: nothing is certain of it until it
 * is back in the same epoch. */
Test(away, confirmed_counts_no_master_that_is_down)
{
    begin_hold();
    at_ms(1000), renewal(ALL, 0);
    at_ms(2000), master_is(0, EVENT_MASTER_DOWN, 1);
    cr_assert_eq(confirmed(), 4);
    read_key(30, "k");
    expect_send(OP_READ, 0x1e);
    reply(OP_READ, 0x1e, VOTE_YES);
    expect_answer(30, ANSWER_STATE);
    cr_assert_eq(rig.answer.hold.confirmed, 4);
    master_is(1, EVENT_MASTER_DOWN, 1);
    cr_assert_eq(confirmed(), 3);
    at_ms(2500), master_is(0, EVENT_MASTER_UP, 1);
    cr_assert_eq(confirmed(), 4, "it is back with its keys");
    master_is(1, EVENT_MASTER_UP, 2);
    cr_assert_eq(confirmed(), 4, "it is back without them");
}

/* A yes that came late is of a lease that began as early as any other's. */
Test(away, confirmed_counts_from_the_sending)
{
    begin_hold();
    at_ms(8000), renew(30, "k", token);
    expect_send(OP_RENEW, ALL);
    at_ms(8900), reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(30, ANSWER_RENEWED);
    at_ms(12000), renewal(0x1e, 0);
    at_us(8000000 + EARLY_US - 1000);
    cr_assert_eq(confirmed(), 5);
    at_us(8000000 + EARLY_US);
    cr_assert_eq(confirmed(), 4);
}

/* In a new epoch the key is gone after any lease. It was gone at the latest when this agent learned
 * of the epoch (R7). */
Test(away, a_new_epoch_is_repaired_when_a_quorum_has_shown_that_the_hold_goes_on)
{
    begin_hold();
    at_ms(1000), renewal(0x1e, 0x01);
    at_ms(1100), master_is(0, EVENT_MASTER_UP, 2);
    rig.count = 0;
    at_us(1354499), renewal(0x1e, 0x01);
    at_us(1354500), renewal(0x1e, 0x01);
    at_ms(1400), repair(0x01, VOTE_REPAIRED);
    at_ms(2300), renewal(ALL, 0);
    cr_assert_eq(confirmed(), 5);
}

/* The watchdog by itself: a master that was killed and restarted with its data, longer than the
 * lease ago. */
Test(away, the_watchdog_repairs_by_itself)
{
    begin_five();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    bool repaired = false;
    for (int64_t ms = 0; ms < 12000 && !repaired; ms++) {
        at_ms(ms);
        if (ms == 100)
            master_is(0, EVENT_MASTER_DOWN, 0);
        if (ms == 6000)
            master_is(0, EVENT_MASTER_UP, 1);
        for (size_t i = 0; i < rig.count; i++) {
            struct record *r = &rig.records[i];
            if (r->expected || r->effect.kind != EFFECT_SEND)
                continue;
            cr_assert(r->effect.send.op == OP_RENEW || ms >= 6000, "%s",
                      op_name(r->effect.send.op));
            repaired = repaired || r->effect.send.op == OP_REPAIR;
            expect_send(r->effect.send.op, r->effect.send.masters);
            reply(r->effect.send.op, r->effect.send.masters & 0x1e, VOTE_YES);
            reply(r->effect.send.op, r->effect.send.masters & 0x01,
                  repaired    ? VOTE_REPAIRED
                  : ms < 3000 ? VOTE_YES
                              : VOTE_ABSENT);
        }
        rig.count = 0;
        cr_assert(is_listed("k"));
    }
    cr_assert(repaired);
}

/* D3.4: a DELETE at another agent has deleted the key on master 2. A second one, at a third agent,
 * found none on 0 and 2, and was answered 404. The hold must not go on with 0 and 1. */
Test(away, r7_a_repaired_key_counts_for_nothing_beside_a_denial)
{
    for (int i = 0; i < 3; i++) { /* beside a denial, a silent master; the reply was lost */
        enum vote of_the_third = i == 1 ? VOTE_UNKNOWN : VOTE_ABSENT;
        enum vote of_the_repair = i == 2 ? VOTE_UNKNOWN : VOTE_REPAIRED;
        prepare(3);
        begin();
        master_is(0, EVENT_MASTER_DOWN, 0);
        acquire(30, "k");
        expect_send(OP_ACQUIRE, 0x06);
        reply(OP_ACQUIRE, 0x06, VOTE_YES);
        expect_answer(30, ANSWER_GRANTED);
        token = rig.answer.hold.token;
        master_is(0, EVENT_MASTER_UP, 1);
        at_ms(100), rig.count = 0;
        renew(1, "k", token);
        expect_send(OP_RENEW, 0x06);
        expect_send(OP_REPAIR, 0x01);
        reply(OP_REPAIR, 0x01, of_the_repair), reply(OP_RENEW, 0x02, VOTE_YES);
        reply(OP_RENEW, 0x04, of_the_third);
        expect_answer(1, ANSWER_RENEW_FAILED);
        at_ms(200), rig.count = 0;
        renew(2, "k", token);
        expect_send(OP_RENEW, 0x07);
        reply(OP_RENEW, 0x03, VOTE_YES), reply(OP_RENEW, 0x04, of_the_third);
        expect_answer(2, i == 1 ? ANSWER_RENEWED : ANSWER_RENEW_FAILED);
    }
}

/* C4: another agent has adopted the hold since the first denial, and has repaired master 0. */
Test(away, c4_a_denial_of_an_earlier_round_makes_no_loss_certain)
{
    for (int i = 0; i < 3; i++) { /* said in an earlier round, in this one, unknown in this one */
        prepare(3);
        begin();
        acquire(30, "k"), expect_send(OP_ACQUIRE, 0x07);
        reply(OP_ACQUIRE, 0x07, VOTE_YES), expect_answer(30, ANSWER_GRANTED);
        struct token held = rig.answer.hold.token;
        at_ms(100), renew(1, "k", held), expect_send(OP_RENEW, 0x07);
        reply(OP_RENEW, 0x01, VOTE_ABSENT), reply(OP_RENEW, 0x06, VOTE_YES);
        expect_answer(1, ANSWER_RENEWED);
        at_ms(150), rig.count = 0;
        renew(2, "k", held), expect_send(OP_RENEW, 0x07);
        if (i > 0)
            reply(OP_RENEW, 0x01, i == 1 ? VOTE_ABSENT : VOTE_UNKNOWN);
        reply(OP_RENEW, 0x02, VOTE_ABSENT);
        expect_answer(2, i == 1 ? ANSWER_LOCK_LOST : ANSWER_QUORUM_UNAVAILABLE);
    }
}
