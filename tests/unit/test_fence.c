/* The numbers that an agent proposes (R12), and the clock that it takes them from. */
#include "core_rig.h"

static const uint64_t start_us = PROPOSAL * (uint64_t)1000000;

/* Reports this offset for the wall clocks of all masters. */
static void masters_are_ahead_by(int64_t offset_us)
{
    for (uint8_t m = 0; m < 5; m++) {
        struct event event = {.kind = EVENT_MASTER_CLOCK};
        event.master = (struct event_master){.master = m, .clock_offset_us = offset_us};
        step(event);
    }
}

/* Returns the proposal for a key that no test asks for again. */
static uint64_t proposed(void)
{
    static unsigned asked;
    char key[16];
    snprintf(key, sizeof(key), "p%u", ++asked);
    acquire(asked % 60, key);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(asked % 60, ANSWER_GRANTED);
    rig.count = 0;
    return rig.sent[OP_ACQUIRE].token.fence;
}

/* R12: "It is above the agent's last proposal in the group." Locks of one bucket may be in one
 * command. */
Test(fence, r12_the_proposals_of_one_command_rise)
{
    enum { LOCKS = 5 };
    begin_five();
    rig.holds_back = true;
    for (unsigned i = 0; i < LOCKS; i++) {
        char key[2] = {(char)('a' + i), '\0'};
        acquire(i + 1, key);
    }
    rig.holds_back = false;
    step((struct event){.kind = EVENT_FLUSH});
    unsigned found = 0;
    for (size_t i = 0; i < rig.count; i++) {
        const struct effect *effect = &rig.records[i].effect;
        for (unsigned item = 0; effect->kind == EFFECT_SEND && item < effect->send.count; item++)
            cr_assert_eq(rig.records[i].items[item].token.fence, start_us + found++);
    }
    cr_assert_eq(found, LOCKS);
}

Test(fence, r12_the_proposals_of_several_steps_rise_while_the_clock_stands)
{
    begin_five();
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(proposed(), start_us + i);
    at_us(3);
    cr_assert_eq(proposed(), start_us + 5, "the clock has not come so far");
    at_us(100);
    cr_assert_eq(proposed(), start_us + 100, "the time counts, not the proposals before");
}

/* R12: the proposals of a group do not raise those of another one. */
Test(fence, r12_each_group_has_proposals_of_its_own)
{
    static const char *const names[] = {"main", "other"};
    struct core_group groups[2];
    struct core_policy policies[2];
    prepare(5);
    groups[0] = groups[1] = rig.group;
    policies[0] = policies[1] = rig.policy;
    strcpy(policies[0].match, "o*");
    policies[0].groups[0] = 1;
    rig.config.groups = groups, rig.config.group_count = 2, rig.config.group_names = names;
    rig.config.policies = policies, rig.config.policy_count = 2;
    begin();
    for (uint8_t m = 0; m < 5; m++) {
        struct event event = {.kind = EVENT_MASTER_UP};
        event.master = (struct event_master){.group = 1, .master = m, .epoch = 1};
        step(event);
    }
    cr_assert_eq(proposed(), start_us);
    acquire(61, "o");
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(rig.sent[OP_ACQUIRE].token.fence, start_us);
    cr_assert_eq(proposed(), start_us + 1);
}

/* R12: a clock that was set back by less than CLOCK_TRUST_MS lowers no proposal. Otherwise the last
 * proposal is ignored. The clocks of the masters are set back as well. */
Test(fence, r12_a_clock_that_is_set_back_a_little_lowers_no_proposal)
{
    static const int64_t trusted_us = CLOCK_TRUST_MS * (int64_t)1000, back_us[] = {0,
                                                                                   1,
                                                                                   19999,
                                                                                   20001,
                                                                                   trusted_us - 1,
                                                                                   trusted_us,
                                                                                   trusted_us + 1,
                                                                                   60 * trusted_us};
    for (unsigned i = 0; i < sizeof(back_us) / sizeof(back_us[0]); i++) {
        begin_five();
        cr_assert_eq(proposed(), start_us);
        rig.wall_off_us = -back_us[i];
        masters_are_ahead_by(0);
        uint64_t next = back_us[i] < trusted_us ? start_us + 1 : start_us - (uint64_t)back_us[i];
        cr_assert_eq(proposed(), next, "set back by %lld us", (long long)back_us[i]);
    }
}

/* R12: the masters' clocks count on if the agent's own clock is set, however far. */
Test(fence, r12_a_clock_that_is_set_alone_gives_way_to_the_median)
{
    static const int64_t off_us[] = {-3600000000, -1000001, -20001, 20001, 3600000000};
    for (unsigned i = 0; i < sizeof(off_us) / sizeof(off_us[0]); i++) {
        begin_five();
        masters_are_ahead_by(0);
        rig.wall_off_us = off_us[i];
        at_us(1000);
        cr_assert_eq(proposed(), start_us + 1000, "%lld", (long long)off_us[i]);
    }
}

/* R12: the floor of a master is below all proposals, and so is the last proposal. */
Test(fence, r12_proposals_rise_above_a_floor)
{
    begin_five();
    struct event event = {.kind = EVENT_FENCE_FLOOR};
    event.master.floor = start_us + 5000000;
    step(event);
    for (unsigned i = 1; i < 4; i++)
        cr_assert_eq(proposed(), start_us + 5000000 + i);
    at_ms(1000);
    cr_assert_eq(proposed(), start_us + 5000004);
    at_ms(6000);
    cr_assert_eq(proposed(), start_us + 6000000);
}

/* Returns the proposal of an agent whose clock differs from the median of its masters' by this. */
static uint64_t proposed_beside(int64_t offset_us)
{
    begin_five();
    masters_are_ahead_by(offset_us);
    return proposed();
}

/* R12: "or the median of the masters' clocks if the two differ by more than 20 ms" */
Test(fence, r12_a_proposal_is_within_20_ms_of_the_masters_median)
{
    for (int64_t sign = -1; sign <= 1; sign += 2) {
        cr_assert_eq(proposed_beside(sign * 19999), start_us);
        cr_assert_eq(proposed_beside(sign * 20000), start_us);
        cr_assert_eq(proposed_beside(sign * 20001), start_us + (uint64_t)(sign * 20001));
        cr_assert_eq(proposed_beside(sign * 999999), start_us + (uint64_t)(sign * 999999));
        cr_assert_eq(proposed_beside(sign * 5000000), start_us + (uint64_t)(sign * 5000000));
    }
}

/* A minority of wrong clocks does not move the median. */
Test(fence, r12_two_masters_of_five_do_not_move_proposals)
{
    begin_five();
    masters_are_ahead_by(0);
    for (uint8_t m = 0; m < 2; m++) {
        struct event event = {.kind = EVENT_MASTER_CLOCK};
        event.master = (struct event_master){.master = m, .clock_offset_us = 900000};
        step(event);
    }
    cr_assert_eq(proposed(), start_us);
}

/* R12: a number that was granted is judged with 1 s of trust, like a ticket. Returns true if the
 * agent takes up a hold whose number is two days and `by` ahead of its own clock. */
static bool adopts(int64_t offset_us, int64_t by_us)
{
    begin_five();
    masters_are_ahead_by(offset_us);
    struct token token = {.random = {7}, .fence = start_us + FENCE_AHEAD_US + (uint64_t)by_us};
    renew(1, "k", token);
    for (size_t i = 0; i < rig.count; i++)
        if (rig.records[i].effect.kind == EFFECT_SEND)
            return true;
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    return false;
}

Test(fence, r12_two_days_count_from_a_clock_that_is_trusted_within_1_s)
{
    cr_assert(adopts(-1000000, 0), "the own clock counts");
    cr_assert_not(adopts(-1000001, 0));
    cr_assert_not(adopts(1000000, 1));
    cr_assert(adopts(1000001, 1000001));
}

/* Returns the number of the ticket that a waiter shows first. */
static uint64_t ticket_beside(int64_t offset_us)
{
    prepare(5);
    rig.policy.form = FORM_FAIR;
    rig.policy.handover_max = 16;
    begin();
    masters_are_ahead_by(offset_us);
    acquire_as(1, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    return rig.sent[OP_ACQUIRE].ticket.number;
}

/* R9, R12: agents must not jump the queue by their masters' clocks, and a ticket is not sent to
 * two groups of masters. So its clock is trusted within 1 s. */
Test(fence, r9_a_ticket_is_of_a_clock_that_is_trusted_within_1_s)
{
    for (int64_t sign = -1; sign <= 1; sign += 2) {
        cr_assert_eq(ticket_beside(sign * 20001), start_us);
        cr_assert_eq(ticket_beside(sign * 1000000), start_us);
        cr_assert_eq(ticket_beside(sign * 1000001), start_us + (uint64_t)(sign * 1000001));
    }
}
