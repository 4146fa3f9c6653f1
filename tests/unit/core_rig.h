/* The rig of the core's timelines: one core, a clock, and every effect until a test has expected
 * it. */
#ifndef LOCKAGENT_TESTS_UNIT_CORE_RIG_H
#define LOCKAGENT_TESTS_UNIT_CORE_RIG_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* no program needs all of it */

enum { ALL = 0x1f, RECORDS = 512, ITEMS = 64, PROPOSAL = 1700000000 };

struct record {
    struct effect effect;
    struct send_item items[ITEMS]; /* the items of a send */
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
    int64_t now_us, epoch_us; /* time since the beginning; boot clock at the beginning */
    int64_t wall_off_us;      /* By so much this agent's wall clock has been set forward. */
    struct record *records;
    size_t count;
    struct send_item sent[OP_COUNT]; /* the first item of the latest send of each kind */
    struct effect_answer answer;     /* the latest expected */
    struct effect_trace trace;
    size_t turns;    /* calls of core_step() for the latest event */
    bool holds_back; /* nothing is written, so no EVENT_FLUSH comes by itself */
} rig;

static void record(const struct effect *effect)
{
    if (rig.count == RECORDS)
        return; /* the tests of abundance count for themselves */
    struct record *r = &rig.records[rig.count++];
    r->effect = *effect;
    r->expected = false;
    if (effect->kind == EFFECT_ANSWER && effect->answer.occupant.label.len != 0) {
        memcpy(r->holder, effect->answer.occupant.label.at, effect->answer.occupant.label.len);
        r->effect.answer.occupant.label.at = r->holder;
    }
    if (effect->kind == EFFECT_FOLLOWED && effect->followed.occupant.label.len != 0) {
        memcpy(r->holder, effect->followed.occupant.label.at, effect->followed.occupant.label.len);
        r->effect.followed.occupant.label.at = r->holder;
    }
    for (size_t i = 0; effect->kind == EFFECT_SEND && i < effect->send.count && i < ITEMS; i++)
        r->items[i] = rig.effects->items[effect->send.first + i];
}

/* Refills no more often than the loop does: the core can count on half of the bytes. */
static void refill_entropy(void)
{
    struct entropy *entropy = core_entropy(rig.core);
    if (entropy->left >= ENTROPY_BYTES / 2)
        return;
    for (; entropy->left < ENTROPY_BYTES; entropy->left++)
        entropy->bytes[entropy->left] = (uint8_t)rand();
}

static void step(struct event event)
{
    bool taken = false;
    event.now = (struct instant){rig.epoch_us + rig.now_us};
    event.wall_us = PROPOSAL * (int64_t)1000000 + rig.now_us + rig.wall_off_us;
    for (rig.turns = 0; !taken; rig.turns++) {
        cr_assert_lt(rig.turns, 2000, "core_step() never takes the event");
        refill_entropy();
        taken = core_step(rig.core, &event, rig.effects);
        for (size_t i = 0; i < rig.effects->count; i++)
            record(&rig.effects->list[i]);
        core_check(rig.core);
    }
    if (core_awaits_flush(rig.core) && !rig.holds_back) {
        size_t turns = rig.turns;
        step((struct event){.kind = EVENT_FLUSH});
        rig.turns += turns;
    }
}

static void master_is(uint8_t master, enum event_kind kind, uint16_t epoch)
{
    struct event event = {.kind = kind};
    event.master = (struct event_master){.master = master, .epoch = epoch};
    step(event);
}

/* Prepares a rig with defaults. A test may change them between prepare() and begin(). */
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
                                      .permits = 1,
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
                                      .rounds_min = ROUNDS_MIN,
                                      .rounds_first = ROUNDS_FIRST,
                                      .rounds_max = LIMIT_ROUNDS,
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

/* Stops the process until then. It wakes up with its timer. */
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
#define acquire_as(request, key, ...)                                                              \
    acquire_with(request, key, (struct event_acquire){__VA_ARGS__})

static void acquire(uint32_t request, const char *key)
{
    acquire_as(request, key, .wait_ms = 0);
}

static void renew_with(uint32_t request, const char *key, struct token token,
                       struct event_renew with)
{
    struct event event = {.kind = EVENT_RENEW, .renew = with};
    event.renew.request = request;
    event.renew.key = text(key);
    event.renew.token = token;
    step(event);
}
#define renew_as(request, key, token, ...)                                                         \
    renew_with(request, key, token, (struct event_renew){__VA_ARGS__})

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

/* Lets the masters named in `masters` answer the latest send of this kind. */
static void reply_with(enum op op, master_set masters, struct event_reply with)
{
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++) {
        if ((masters >> m & 1) == 0)
            continue;
        with.master = m;
        with.op = op;
        with.ref = rig.sent[op].ref;
        step((struct event){.kind = EVENT_REPLIES, .replies = {&with, 1}});
    }
}

/* Returns the refusal of a master on which another holder has the key for so long. */
static inline struct event_reply held_for(int64_t left_ms)
{
    return (struct event_reply){.vote = VOTE_TAKEN, .occupant.left_ms = left_ms};
}

/* Replies with the usual content of `vote`: the number that was asked for, or another holder's
 * label and 700 ms left. */
static void reply(enum op op, master_set masters, enum vote vote)
{
    bool numbered = vote == VOTE_YES || vote == VOTE_REPAIRED;
    struct event_reply with = {.vote = vote, .occupant.left_ms = -1};
    with.is_own = op == OP_READ && vote == VOTE_YES && rig.sent[op].asked;
    if (numbered)
        with.fence = rig.sent[op].token.fence;
    if (vote == VOTE_TAKEN) {
        with.occupant.left_ms = 700;
        with.occupant.label = text("other");
    }
    reply_with(op, masters, with);
}

/* Returns the masters to which a command has just gone; 0: it was not sent. */
static inline master_set sent_to(enum op op)
{
    for (size_t i = 0; i < rig.count; i++) {
        const struct record *r = &rig.records[i];
        if (!r->expected && r->effect.kind == EFFECT_SEND && r->effect.send.op == op)
            return r->effect.send.masters;
    }
    return 0;
}

static void expect_send(enum op op, master_set masters)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_SEND || r->effect.send.op != op)
            continue;
        cr_assert_eq(r->effect.send.masters, masters, "at %lld us: %s goes to %03x, not to %03x",
                     (long long)rig.now_us, op_name(op), r->effect.send.masters, masters);
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
        cr_assert_eq(r->effect.answer.answer, answer, "at %lld us: the answer is %s, not %s",
                     (long long)rig.now_us, answer_code(r->effect.answer.answer),
                     answer_code(answer));
        r->expected = true;
        rig.answer = r->effect.answer;
        return;
    }
    cr_assert_fail("at %lld us: request %u was not answered (%s)", (long long)rig.now_us, request,
                   answer_code(answer));
}

/* Expects that a request which has the lock already is answered when a quorum has confirmed that
 * (R11, D3). */
static void expect_confirmed(uint32_t request, enum answer answer)
{
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(request, answer);
}

/* R24: a renewal. Masters that do not count are asked for their vote. */
static inline void expect_renewal(master_set counted, master_set uncounted)
{
    expect_send(OP_RENEW, counted);
    expect_send(OP_RESUME, uncounted);
}

static inline void find_without_vote(enum op op, master_set masters)
{
    reply_with(op, masters, (struct event_reply){.vote = VOTE_GUARDED, .occupant.left_ms = -1});
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
    cr_assert_eq(rig.trace.reason, reason, "at %lld us: lost by %s, not by %s",
                 (long long)rig.now_us, reason_name(rig.trace.reason), reason_name(reason));
}

/* Expects that nothing but traces is left that no test expected. */
static void expect_nothing(void)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected)
            continue;
        cr_assert(r->effect.kind != EFFECT_SEND, "at %lld us: %s to %03x was not expected",
                  (long long)rig.now_us, op_name(r->effect.send.op), r->effect.send.masters);
        cr_assert(r->effect.kind != EFFECT_ANSWER, "at %lld us: answer %s was not expected",
                  (long long)rig.now_us, answer_code(r->effect.answer.answer));
        cr_assert(r->effect.kind != EFFECT_FOLLOWED, "at %lld us: a line was not expected",
                  (long long)rig.now_us);
        cr_assert(r->effect.kind != EFFECT_WATCH && r->effect.kind != EFFECT_UNWATCH,
                  "at %lld us: a channel was not expected", (long long)rig.now_us);
        cr_assert(r->effect.trace.kind != TRACE_LOST, "at %lld us: lost by %s was not expected",
                  (long long)rig.now_us, reason_name(r->effect.trace.reason));
    }
    rig.count = 0;
}

static void expect_channel(enum effect_kind kind)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != kind)
            continue;
        r->expected = true;
        return;
    }
    cr_assert_fail("at %lld us: %s is missing", (long long)rig.now_us,
                   kind == EFFECT_WATCH ? "watch" : "unwatch");
}

/* Lets each of `masters` report this event of the channel of `key`. */
static void channel(const char *key, enum event_kind kind, master_set masters, uint32_t agents)
{
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++) {
        struct event event = {.kind = kind};
        event.channel = (struct event_channel){.master = m, .key = text(key), .agents = agents};
        if (masters >> m & 1)
            step(event);
    }
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

/* Returns the token of a hold of `key` that all masters grant now. */
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

#endif
