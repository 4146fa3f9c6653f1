/* Callers of a hold, as timelines. A caller may be bound to its hold by a connection, enter it
 * again as its owner (R11), or repeat its request (D3). R15 is about keys that an unclean end
 * leaves. */
#include "core_rig.h"

/* ---- bound holds, and what becomes of them --------------------------------------------------- */

static void step_lock(enum event_kind kind, struct lock_ref lock)
{
    struct event event = {.kind = kind};
    if (kind == EVENT_STUCK)
        event.stuck.lock = lock;
    else
        event.undelivered.lock = lock;
    step(event);
}

/* The agent renews under any policy. It may hold for longer than a hold that outlives its
 * caller. */
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

/* D3: the agent renews it for as long as its connection is open, even if a PUT asks otherwise. */
Test(bound, a_put_does_not_end_the_watchdog)
{
    begin_five();
    struct token token = hold_as("k", .bound = true, .ttl_ms = 3000);
    renew_as(1, "k", token, .renew = RENEW_CALLER);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.renew, RENEW_AGENT);
    let_time_pass_until(OP_RENEW, 1001);
}

/* D1: if the agent ends the hold itself, it says so, stops renewing, and lets the lease run out. */
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
    expect_answer(1, ANSWER_LOCK_HELD); /* no other caller before its validity has ended */
    step_lock(EVENT_STUCK, lock);       /* it is lost once */
    at_ms(20000);
    expect_nothing();
}

/* D3.4: a PUT does not bring back a hold that this agent has ended itself. */
Test(bound, d3_a_caller_that_did_not_read_does_not_get_it_back_by_a_put)
{
    begin_five();
    struct token token = hold_as("k", .bound = true, .ttl_ms = 10000);
    step_lock(EVENT_STUCK, rig.answer.lock);
    expect_lost(REASON_STUCK);
    for (uint32_t request = 1; request <= 2; request++) { /* while it is valid, and afterwards */
        renew(request, "k", token);
        expect_answer(request, ANSWER_LOCK_LOST);
        cr_assert_eq(rig.answer.reason, REASON_STUCK);
        at_ms(20000);
    }
    expect_nothing();
}

Test(bound, d3_what_the_end_of_the_agent_has_ended_is_lost_for_a_put)
{
    begin_five();
    struct token token = hold("k");
    step((struct event){.kind = EVENT_END});
    at_ms(1);
    expect_lost(REASON_DRAINED);
    renew(1, "k", token);
    expect_answer(1, ANSWER_LOCK_LOST);
    cr_assert_eq(rig.answer.reason, REASON_DRAINED);
    expect_nothing();
}

/* Ends the connection of a bound hold, and returns the token of the hold. The agent's own release
 * is in flight. Another agent may have adopted the hold. */
static struct token end_connection(void)
{
    begin_five();
    struct token token = hold_as("k", .bound = true, .ttl_ms = 10000);
    at_ms(1000), step_lock(EVENT_UNDELIVERED, rig.answer.lock);
    expect_send(OP_RELEASE, ALL);
    cr_assert_not(rig.sent[OP_RELEASE].asked);
    return token;
}

/* D3.4: the agent's own release leaves a hold alone that another agent has adopted. A DELETE
 * deletes it there as well. */
Test(bound, d3_a_delete_beside_the_agents_own_release_asks_the_masters)
{
    static const struct {
        enum vote vote;
        enum answer answer;
    } cases[] = {{VOTE_YES, ANSWER_RELEASED},
                 {VOTE_ABSENT, ANSWER_NOT_HELD},
                 {VOTE_TAKEN, ANSWER_TOKEN_MISMATCH},
                 {VOTE_UNKNOWN, ANSWER_QUORUM_UNAVAILABLE}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct token token = end_connection();
        const struct send_item own = rig.sent[OP_RELEASE];
        release(1, "k", token);
        expect_send(OP_RELEASE, ALL);
        cr_assert(rig.sent[OP_RELEASE].asked);
        const struct send_item asked = rig.sent[OP_RELEASE];
        rig.sent[OP_RELEASE] = own;
        reply(OP_RELEASE, ALL, VOTE_MOVED);
        expect_nothing();
        rig.sent[OP_RELEASE] = asked;
        reply(OP_RELEASE, 0x03, cases[i].vote);
        expect_nothing();
        reply(OP_RELEASE, 0x04, cases[i].vote);
        expect_answer(1, cases[i].answer);
    }
}

/* D3.4: the agent cannot know whether the hold goes on at another one. */
Test(bound, d3_a_put_beside_the_agents_own_release_is_not_told_that_it_is_not_held)
{
    struct token token = end_connection();
    renew(1, "k", token);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_nothing();
}

Test(bound, d3_nor_is_a_put_that_waits_when_the_agent_begins_its_release)
{
    begin_five();
    struct token token = hold_as("k", .bound = true, .ttl_ms = 10000);
    const struct lock_ref lock = rig.answer.lock;
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    step_lock(EVENT_UNDELIVERED, lock);
    expect_send(OP_RELEASE, ALL);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_nothing();
}

/* D3.4: the agent releases the hold for a DELETE. That it knows itself. */
Test(bound, d3_a_put_beside_the_release_for_a_delete_is_not_held)
{
    begin_five();
    struct token token = hold_as("k", .bound = true, .ttl_ms = 10000);
    release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    renew(2, "k", token);
    expect_answer(2, ANSWER_NOT_HELD);
    release(3, "k", token);
    expect_nothing(); /* It waits for the same release. */
    reply(OP_RELEASE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    expect_answer(3, ANSWER_RELEASED);
}

/* A renewal is reported with its new validity. */
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

/* The same by its token or its reference, without a walk over the holds of the key. */
Test(bound, finding_one_hold)
{
    struct hold_view view;
    struct lock_ref lock;
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000), wrong = token;
    const struct text key = {"k", 1}, other = {"other", 5};
    struct instant now = {rig.epoch_us};
    cr_assert(core_find_hold(rig.core, key, &token, now, &view, &lock));
    cr_assert(token_same(&view.token, &token) && lock.slot == rig.answer.lock.slot);
    cr_assert_not(core_find_hold(rig.core, other, &token, now, &view, &lock));
    cr_assert_not(core_find_hold(rig.core, key, &token, view.valid_until, &view, &lock), "over");
    wrong.fence++;
    cr_assert_not(core_find_hold(rig.core, key, &wrong, now, &view, &lock));
    cr_assert(core_has_hold(rig.core, lock, now));
    cr_assert_not(core_has_hold(rig.core, lock, view.valid_until));
    lock.generation++;
    cr_assert_not(core_has_hold(rig.core, lock, now));
}

/* Only a valid hold is found, by its key. */
Test(bound, finding_a_hold)
{
    struct hold_view view;
    struct lock_ref lock;
    const struct text key = {"k", 1}, other = {"other", 5};
    uint32_t next = 0;
    begin_five();
    struct instant now = {rig.epoch_us};
    cr_assert_not(core_next_hold_of(rig.core, key, now, &next, &view, &lock));
    acquire_as(1, "k", .ttl_ms = 10000);
    cr_assert_not(core_next_hold_of(rig.core, key, now, &next, &view, &lock), "not granted yet");
    next = 0;
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert(core_next_hold_of(rig.core, key, now, &next, &view, &lock));
    cr_assert_eq(lock.generation, rig.answer.lock.generation);
    cr_assert_eq(view.valid_until.us, rig.answer.hold.valid_until.us);
    cr_assert_not(core_next_hold_of(rig.core, key, now, &next, &view, &lock), "it is one");
    next = 0;
    cr_assert_not(core_next_hold_of(rig.core, other, now, &next, &view, &lock));
    cr_assert_not(core_next_hold_of(rig.core, key, view.valid_until, &next, &view, &lock),
                  "R14: its validity is over");
}

/* ---- reentrancy: R11 ------------------------------------------------------------------------- */

static const struct text my_owner = {"0123456789abcdef", 16},
                         other_owner = {"0123456789abcdeF", 16},
                         longer_owner = {"0123456789abcdef0", 17};

static void begin_reentrant(void)
{
    prepare(5);
    rig.policy.reentrant = true;
    begin();
}

/* The same owner has it once more, when the masters have confirmed it; as many releases end it. */
Test(reentry, r11_the_same_owner_counts_up_and_down)
{
    begin_reentrant();
    struct token token = hold_as("k", .owner = my_owner);
    const uint64_t fence = token.fence;
    cr_assert_eq(rig.answer.hold.count, 1);
    acquire_as(2, "k", .owner = my_owner);
    expect_confirmed(2, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.count, 2);
    cr_assert(token_same_random(&rig.answer.hold.token, &token));
    cr_assert_eq(rig.answer.hold.token.fence, fence);
    expect_nothing();
    acquire_as(3, "k", .owner = my_owner, .wait_ms = 1000);
    expect_confirmed(3, ANSWER_REENTERED);
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

static void acquire_without_label(uint32_t request, const char *key, struct text owner)
{
    step((struct event){.kind = EVENT_ACQUIRE,
                        .acquire = {.request = request, .key = text(key), .owner = owner}});
}

Test(reentry, r11_an_owner_needs_no_label)
{
    begin_reentrant();
    acquire_without_label(1, "k", my_owner);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    acquire_without_label(2, "k", my_owner);
    expect_confirmed(2, ANSWER_REENTERED);
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
    /* If the policy does not mention owners, an owner has no effect. */
    begin_five();
    hold_as("k", .owner = my_owner);
    acquire_as(2, "k", .owner = my_owner);
    expect_answer(2, ANSWER_LOCK_HELD);
}

/* Requests of the owner that came while the first round was out enter with the first one. */
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

/* A share that was not delivered counts down, and only the last one releases. So does a DELETE
 * after the loss. */
Test(reentry, r11_undelivered_and_lost)
{
    begin_reentrant();
    struct token token = hold_as("k", .ttl_ms = 10000, .owner = my_owner);
    acquire_as(2, "k", .owner = my_owner);
    expect_confirmed(2, ANSWER_REENTERED);
    const struct lock_ref lock = rig.answer.lock;
    step_lock(EVENT_UNDELIVERED, lock);
    expect_nothing();
    cr_assert(is_listed("k"));
    acquire_as(3, "k", .owner = my_owner);
    expect_confirmed(3, ANSWER_REENTERED);
    cr_assert_eq(rig.answer.hold.count, 2);
    step_lock(EVENT_STUCK, lock); /* lost, and valid for a while */
    expect_lost(REASON_STUCK);
    acquire_as(4, "k", .owner = my_owner);
    expect_answer(4, ANSWER_LOCK_HELD);
    release(5, "k", token);
    expect_answer(5, ANSWER_LOCK_LOST);
    expect_nothing(); /* the other one may still use it */
    release(6, "k", token);
    expect_send(OP_RELEASE, ALL);
    expect_nothing(); /* only the masters know whether another agent has it (C4) */
    at_ms(rig.now_us / 1000 + 1), reply(OP_RELEASE, 0x07, VOTE_YES);
    expect_answer(6, ANSWER_LOCK_LOST);
}

/* The agent could not renew the hold in time, and another one may have adopted it. */
Test(reentry, c4_a_delete_of_a_lost_lock_was_called_done_before_a_master_had_answered)
{
    begin_reentrant();
    struct token token = hold_as("k", .ttl_ms = 10000);
    step_lock(EVENT_STUCK, rig.answer.lock);
    expect_lost(REASON_STUCK);
    release(2, "k", token);
    expect_send(OP_RELEASE, ALL);
    expect_nothing();
    at_ms(rig.now_us / 1000 + 300);
    expect_answer(2, ANSWER_RELEASE_PENDING);
}

/* ---- safe retry: D3 -------------------------------------------------------------------------- */

static const struct text first_key = {"retry-0123456789", 16},
                         second_key = {"retry-012345678A", 16};

static void release_by(uint32_t request, const char *key, struct text idempotency)
{
    struct event event = {.kind = EVENT_RELEASE};
    event.release =
        (struct event_release){.request = request, .key = text(key), .idempotency = idempotency};
    step(event);
}

/* A lease to read is none to write. */
Test(retry, d3_another_mode_is_another_request)
{
    prepare(5);
    rig.policy.form = FORM_SHARED;
    begin();
    acquire_as(1, "k", .ttl_ms = 10000, .mode = MODE_READ, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    acquire_as(2, "k", .ttl_ms = 10000, .mode = MODE_WRITE, .idempotency = first_key);
    expect_answer(2, ANSWER_IDEMPOTENCY_MISMATCH);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    acquire_as(3, "k", .ttl_ms = 10000, .mode = MODE_WRITE, .idempotency = first_key);
    expect_answer(3, ANSWER_IDEMPOTENCY_MISMATCH);
}

/* The request was queued for some milliseconds, so its remaining wait is shorter by as much. */
Test(retry, d3_a_request_that_was_queued_is_the_same_request)
{
    begin_five();
    hold("k");
    acquire_as(1, "k", .wait_ms = 60000, .idempotency = first_key);
    acquire_as(2, "k", .wait_ms = 59990, .late_ms = 10, .idempotency = first_key);
    expect_answer(1, ANSWER_SUPERSEDED);
    acquire_as(3, "k", .wait_ms = 59990, .idempotency = first_key);
    expect_answer(3, ANSWER_IDEMPOTENCY_MISMATCH);
}

/* The answer was lost: the same request again gets the same hold, which is held once. */
Test(retry, d3_gets_the_answer_again)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    const struct lock_ref lock = rig.answer.lock;
    at_ms(100), acquire_as(2, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_confirmed(2, ANSWER_REPEATED);
    cr_assert(token_same_random(&rig.answer.hold.token, &token));
    cr_assert_eq(rig.answer.hold.count, 1);
    expect_nothing();
    acquire_as(3, "k", .ttl_ms = 9000, .idempotency = first_key);
    expect_answer(3, ANSWER_IDEMPOTENCY_MISMATCH);
    acquire_as(4, "k", .ttl_ms = 10000, .max_hold_ms = 5000, .idempotency = first_key);
    expect_answer(4, ANSWER_IDEMPOTENCY_MISMATCH);
    acquire_as(5, "k", .ttl_ms = 10000, .idempotency = second_key);
    expect_answer(5, ANSWER_LOCK_HELD);
    /* only now the first answer turns out to be lost: the second one arrived */
    step_lock(EVENT_UNDELIVERED, lock);
    expect_nothing();
    cr_assert(is_listed("k"));
    release(6, "k", token); /* one release ends it */
    expect_send(OP_RELEASE, ALL);
}

/* Neither answer arrived: no caller holds it, and a third request acquires it anew. */
Test(retry, d3_nobody_was_told)
{
    begin_five();
    hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    const struct lock_ref lock = rig.answer.lock;
    acquire_as(2, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_confirmed(2, ANSWER_REPEATED);
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

/* The older request waits. The newer one replaces it, in the queue as well as before the
 * masters. */
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
    let_time_pass_until(OP_ACQUIRE, 10);
    expect_send(OP_ACQUIRE, ALL);
    /* its round is out */
    at_us(rig.now_us + 1000),
        acquire_as(6, "k", .ttl_ms = 10000, .wait_ms = 60000, .idempotency = first_key);
    expect_answer(3, ANSWER_SUPERSEDED);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(6, ANSWER_GRANTED);
    cr_assert_eq(core_stats(rig.core)->waiters, 1);
    /* The superseded caller leaves: nothing of it is left to be cancelled. */
    cancel(3);
    cr_assert(is_listed("k"));
}

/* DELETE accepts the key instead of the token, and then the key is used up: a late copy of the POST
 * gets nothing. */
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

/* limits.wait may be short, or 0. A copy of the POST may be in flight for a second all the same. */
Test(retry, d3_it_stays_used_up_for_a_second_at_least)
{
    prepare(5);
    rig.config.wait_ms_max = 200;
    begin();
    hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    release_by(2, "k", first_key);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    at_ms(999), acquire_as(3, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(3, ANSWER_SUPERSEDED);
    expect_nothing();
    at_ms(1001), acquire_as(4, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
}

/* A DELETE by token uses it up as well. */
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

/* Begins with a hold whose grant did not arrive. Its release is in flight. */
static void begin_undelivered(void)
{
    begin_five();
    hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    step_lock(EVENT_UNDELIVERED, rig.answer.lock);
    expect_send(OP_RELEASE, ALL);
}

/* The agent ends, and has begun to release the hold. Then the DELETE comes. */
static void release_what_the_agent_releases(void)
{
    begin_five();
    hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    step((struct event){.kind = EVENT_END, .end.release = true});
    at_ms(1);
    expect_send(OP_RELEASE, ALL);
    release_by(2, "k", first_key);
}

/* A DELETE waits for the masters as by token. */
Test(retry, d3_a_release_of_what_the_agent_releases)
{
    release_what_the_agent_releases();
    expect_nothing();
    reply(OP_RELEASE, 0x03, VOTE_YES);
    expect_nothing();
    reply(OP_RELEASE, 0x04, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
}

/* D3.4: before the end, another agent had adopted the hold, and has it still. */
Test(retry, d3_a_release_of_what_the_agent_releases_and_another_has)
{
    release_what_the_agent_releases();
    reply(OP_RELEASE, 0x03, VOTE_YES);
    reply(OP_RELEASE, 0x1c, VOTE_MOVED);
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
}

/* Its grant did not arrive, its release is in flight, and the POST was sent once more. A DELETE
 * ends both. */
Test(retry, d3_a_release_beside_a_release)
{
    begin_undelivered();
    acquire_as(2, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    release_by(3, "k", first_key);
    expect_answer(2, ANSWER_SUPERSEDED);
    expect_send(OP_RELEASE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    cr_assert_not(is_listed("k"));
    at_ms(1000); /* No master has replied to the release of the first one. */
    expect_answer(3, ANSWER_RELEASE_PENDING);
}

/* The same, and the second POST was granted: the DELETE means that hold. */
Test(retry, d3_a_release_of_the_later_hold)
{
    begin_undelivered();
    acquire_as(2, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
    release_by(3, "k", first_key);
    expect_trace(TRACE_RELEASED);
    cr_assert_not(is_listed("k"));
}

/* ---- attempts that are owed their undo, and have the key as well ---- */

/* Leaves request 2 waiting, with an attempt that two slow masters are owed the undo of. */
static void wait_and_lose(void)
{
    acquire_as(2, "k", .ttl_ms = 10000, .wait_ms = 60000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
}

Test(retry, d3_a_release_means_no_attempt_that_was_undone)
{
    static const enum fencing fencings[] = {FENCING_OFF, FENCING_ON};
    for (size_t i = 0; i < 2; i++) {
        prepare(5);
        rig.policy.fencing = fencings[i];
        begin();
        wait_and_lose();
        release_by(3, "k", first_key);
        expect_answer(2, ANSWER_SUPERSEDED);
        expect_answer(3, ANSWER_NOT_HELD);
    }
}

Test(retry, d3_a_release_after_a_post_that_failed)
{
    begin_five();
    acquire_as(2, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, held_for(50000));
    expect_send(OP_RELEASE, 0x18);
    expect_answer(2, ANSWER_LOCK_HELD);
    release_by(3, "k", first_key);
    expect_answer(3, ANSWER_NOT_HELD);
}

/* The attempt that the DELETE ends needs the place of the one that had ended before. */
Test(retry, d3_a_release_where_no_further_lock_can_be_remembered)
{
    prepare(5);
    rig.config.locks_max = 1;
    begin();
    wait_and_lose();
    let_time_pass_until(OP_ACQUIRE, 60000);
    expect_send(OP_ACQUIRE, ALL);
    release_by(3, "k", first_key);
    expect_answer(2, ANSWER_SUPERSEDED);
    expect_answer(3, ANSWER_NOT_HELD);
}

/* A later attempt of the same key was undone. The DELETE waits for the release of the hold. */
Test(retry, d3_a_release_beside_an_attempt_that_was_undone)
{
    begin_undelivered();
    struct send_item first = rig.sent[OP_RELEASE];
    wait_and_lose();
    release_by(4, "k", first_key);
    expect_answer(2, ANSWER_SUPERSEDED);
    rig.sent[OP_RELEASE] = first;
    reply(OP_RELEASE, 0x07, VOTE_YES);
    expect_answer(4, ANSWER_RELEASED);
}

/* The release is decided, and owed. The masters are asked again, as by token. */
Test(retry, d3_a_release_of_what_is_owed)
{
    begin_undelivered();
    reply(OP_RELEASE, 0x03, VOTE_YES);
    at_ms(1000);
    rig.count = 0;
    release_by(4, "k", first_key);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x03, VOTE_ABSENT);
    reply(OP_RELEASE, 0x1c, VOTE_YES);
    expect_answer(4, ANSWER_RELEASED);
}

/* A DELETE that overtakes its POST: while that waits, while its round is out, or before it has come
 * at all. */
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

/* R6: as many used-up keys are remembered as locks may be held. They take no lock, and end no debt:
 * only the oldest of them is forgotten. */
Test(retry, d3_what_is_used_up_makes_room_for_debts)
{
    const char *const names[] = {"a", "b", "c", "d"};
    prepare(5);
    rig.config.locks_max = 3;
    begin();
    struct token token = hold_as("k", .ttl_ms = 10000);
    release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    for (uint32_t i = 0; i < 4; i++) {
        release_by(2, names[i], first_key);
        expect_answer(2, ANSWER_NOT_HELD);
    }
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 1);
    for (uint32_t i = 1; i < 4; i++) {
        acquire_as(3, names[i], .ttl_ms = 10000, .idempotency = first_key);
        expect_answer(3, ANSWER_SUPERSEDED);
    }
    at_ms(501);
    reply(OP_RELEASE, 0x10, VOTE_UNKNOWN);
    at_ms(1002);
    expect_send(OP_RELEASE, 0x10);
    acquire_as(4, "a", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
}

/* A second DELETE of a key renews its time. The key that is older then is forgotten first. */
Test(retry, d3_the_last_use_counts)
{
    prepare(5);
    rig.config.locks_max = 2;
    begin();
    release_by(1, "a", first_key);
    release_by(1, "b", first_key);
    at_ms(200000);
    release_by(1, "a", first_key);
    at_ms(300000); /* limits.wait after the DELETE of b */
    acquire_as(2, "a", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(2, ANSWER_SUPERSEDED);
    rig.count = 0;
    acquire_as(3, "b", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_FOREIGN);
    release_by(4, "c", first_key);
    release_by(5, "d", first_key);
    rig.count = 0;
    acquire_as(6, "a", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
}

/* A used-up request is identified by the key of its lock and by its whole secret. */
Test(retry, d3_another_key_or_secret_is_not_used_up)
{
    begin_five();
    release_by(1, "a", first_key);
    acquire_as(2, "b", .ttl_ms = 10000, .idempotency = first_key);
    expect_send(OP_ACQUIRE, ALL);
    rig.count = 0;
    acquire_as(3, "a", .ttl_ms = 10000, .idempotency = second_key);
    expect_send(OP_ACQUIRE, ALL);
}

/* A lock that waits for its release, after a DELETE by its token: a DELETE by its idempotency key
 * gets the answer of that release. */
Test(retry, d3_a_second_delete_waits_for_the_release)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000, .idempotency = first_key);
    release(2, "k", token);
    release_by(3, "k", first_key);
    expect_send(OP_RELEASE, ALL);
    expect_nothing();
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    expect_answer(3, ANSWER_RELEASED);
}

/* Its hold was lost since. */
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
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_ABSENT);
    expect_answer(3, ANSWER_LOCK_LOST);
    at_ms(12000 + 290000); /* long after the loss itself is forgotten */
    rig.count = 0;
    acquire_as(4, "k", .ttl_ms = 10000, .idempotency = first_key);
    expect_answer(4, ANSWER_SUPERSEDED);
}

/* ---- lock_delay: R15 ------------------------------------------------------------------------- */

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

/* An unclean loss keeps the key taken: the masters are not asked to delete it. */
Test(lock_delay, r15_a_loss_runs_out)
{
    begin_delayed();
    hold_as("k", .ttl_ms = 10000);
    at_us(10000000 - 102000);
    expect_lost(REASON_EXPIRED);
    at_ms(20000);
    expect_nothing();
}

/* R15: lease and lock_delay stay within max_ttl even if the policies were loaded again. A hold
 * keeps its own delay. A waiter's delay is cut to the time that is left. */
Test(lock_delay, r15_within_max_ttl_after_a_reload)
{
    begin_delayed();
    rig.policy.handover_max = 16;
    struct token token = hold_as("k", .ttl_ms = 10000);
    rig.policy.lock_delay_ms = 0;
    core_set_policies(rig.core, &rig.policy, 1);
    renew_as(1, "k", token, .ttl_ms = 55001);
    expect_answer(1, ANSWER_BAD_TTL);
    acquire_as(2, "k", .ttl_ms = 57000, .wait_ms = 60000);
    rig.policy.lock_delay_ms = 5000;
    core_set_policies(rig.core, &rig.policy, 1);
    release(3, "k", token);
    expect_send(OP_HANDOVER, ALL);
    cr_assert_eq(rig.sent[OP_HANDOVER].ttl_ms, 60000);
}

/* Begins with a lost hold of ttl 50 s, or of max_ttl if that is TTL_MS_MAX. The policy has got a
 * lock_delay of 40 s since the grant, with which a lease of the policy's ttl is within max_ttl. */
static struct token lose_and_reload(uint32_t max_ttl_ms)
{
    uint32_t ttl_ms = max_ttl_ms == TTL_MS_MAX ? TTL_MS_MAX : 50000;
    prepare(5);
    rig.config.max_ttl_ms = max_ttl_ms;
    rig.policy.max_hold_ms = 3 * TTL_MS_MAX;
    begin();
    struct token token = hold_as("k", .ttl_ms = ttl_ms, .renew = RENEW_AGENT);
    rig.policy.lock_delay_ms = 40000;
    core_set_policies(rig.core, &rig.policy, 1);
    at_ms((int64_t)ttl_ms * 92 / 100); /* Its lost margin is a tenth. */
    expect_lost(REASON_QUORUM_LOST);
    rig.count = 0;
    return token;
}

/* R15: the hold is taken back with the delay of the new policy, and with the ttl of the old one. */
Test(lock_delay, r15_an_adoption_back_stays_within_max_ttl_after_a_reload)
{
    struct token token = lose_and_reload(/* max_ttl_ms= */ 60000);
    renew(1, "k", token);
    expect_send(OP_ADOPT, ALL);
    cr_assert_eq(rig.sent[OP_ADOPT].ttl_ms, 60000);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.ttl_ms, 50000);
}

/* R15: a repair asks for the same lease, and has no lease above TTL_MS_MAX to ask for. */
Test(lock_delay, r15_a_repair_after_an_adoption_back_stays_within_max_ttl)
{
    struct token token = lose_and_reload(TTL_MS_MAX);
    renew(1, "k", token);
    expect_send(OP_ADOPT, ALL);
    cr_assert_eq(rig.sent[OP_ADOPT].ttl_ms, TTL_MS_MAX);
    reply(OP_ADOPT, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    reply(OP_ADOPT, 0x18, VOTE_ABSENT);
    at_ms(rig.now_us / 1000 + 1000), renew(2, "k", token);
    expect_renewal(0x07, 0x18);
    reply(OP_RESUME, 0x18, VOTE_ABSENT);
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    renew(3, "k", token);
    expect_send(OP_RENEW, 0x07);
    expect_send(OP_REPAIR, 0x18);
    cr_assert_leq(rig.sent[OP_REPAIR].ttl_ms, TTL_MS_MAX);
}

/* R15: the adoption in flight has the delay of the new policy, the record of the loss has not. */
Test(lock_delay, r15_a_put_that_joins_an_adoption_back_stays_within_max_ttl)
{
    struct token token = lose_and_reload(/* max_ttl_ms= */ 60000);
    struct event event = {.kind = EVENT_RENEW};
    event.renew = (struct event_renew){
        .request = 1, .key = text("k"), .token = token, .ttl_ms = 20000, .renew = RENEW_UNSET};
    step(event);
    expect_send(OP_ADOPT, ALL);
    event.renew.request = 2, event.renew.ttl_ms = 60000;
    step(event);
    expect_answer(2, ANSWER_BAD_TTL);
    cr_assert_eq(rig.answer.ttl_ms_max, 20000);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
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

/* ---- drain ----------------------------------------------------------------------------------- */

/* A lock that the caller has already is no new lock. */
Test(drain, d3_r11_who_asks_for_what_it_has_is_answered)
{
    prepare(5);
    rig.policy.reentrant = true;
    begin();
    hold_as("once", .ttl_ms = 10000, .idempotency = text("0123456789abcdef"));
    hold_as("nested", .ttl_ms = 10000, .owner = text("0123456789abcdef"));
    step((struct event){.kind = EVENT_DRAIN});
    acquire_as(1, "once", .ttl_ms = 10000, .idempotency = text("0123456789abcdef"));
    expect_confirmed(1, ANSWER_REPEATED);
    acquire_as(2, "nested", .ttl_ms = 10000, .owner = text("0123456789abcdef"));
    expect_confirmed(2, ANSWER_REENTERED);
    acquire_as(3, "once", .ttl_ms = 10000, .idempotency = text("fedcba9876543210"));
    expect_answer(3, ANSWER_DRAINING);
    acquire(4, "other");
    expect_answer(4, ANSWER_DRAINING);
    expect_nothing();
}
