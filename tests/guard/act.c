/* Actions of agents and masters of the guard's world. The agents' shell acts as agent/redis does,
 * and an attempt at the lock acts as the core does (R1, R12). */
#include "tests/guard/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WALL_MS_BASE ((int64_t)1760000000 * 1000)

static const char *const request_words[] = {"question", "greeting", "acquire",       "raise",
                                            "renewal",  "release",  "missed renewal"};

int64_t master_wall_ms(const struct world *world, const struct sim_master *master)
{
    return WALL_MS_BASE + world->now_us / 1000 + master->skew_ms;
}

static int64_t agreed_us(const struct world *world, const struct sim_agent *agent)
{
    return WALL_MS_BASE * 1000 + world->now_us + agent->skew_ms * 1000;
}

void act_set_clocks(struct world *world, int64_t skew_ms)
{
    if (world->a6 == A6_KEPT && skew_ms < world->agents[0].skew_ms)
        return;
    world_say(world, "the clocks of all agents are set, to be off by %" PRId64 " ms", skew_ms);
    for (uint8_t a = 0; a < world->agent_count; a++)
        world->agents[a].skew_ms = skew_ms;
}

/* ---- an agent ---- */

void act_start(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    agent->alive = true;
    agent->life++;
    agent->attempt = (struct attempt){.open = false};
    world_say(world, "agent %u starts, max_ttl %u ms", a, (unsigned)agent->max_ttl_ms);
    guard_init(&agent->guard, (uint8_t)world->master_count, (uint8_t)world->quorum, world->durable,
               agent->max_ttl_ms);
    if (world->layouts[a] != NULL)
        guard_set_layout(&agent->guard, (struct text){world->layouts[a], strlen(world->layouts[a])},
                         /* silence_ms= */ 1000, ROUND_MS);
    for (uint8_t m = 0; m < world->master_count; m++)
        memset(agent->links[m].told_epoch, 0, GUARD_WORD_BYTES);
}

static void ask(struct world *world, uint8_t a, const struct guard_ask *ask, enum request_kind kind)
{
    struct sim_agent *agent = &world->agents[a];
    struct link *link = &agent->links[ask->master];
    struct happening request = {.request = kind,
                                .ask = *ask,
                                .agreed_us = agreed_us(world, agent),
                                .lock.ttl_ms = agent->max_ttl_ms};
    if (!link->open)
        abort();
    if (!world->hides_run)
        snprintf(request.run_id, sizeof(request.run_id), "r%us%u", ask->master,
                 (unsigned)link->server);
    if (ask->question == GUARD_ASK_TELL && ask->told == GUARD_GUESSED)
        check_guess(world, a, ask->master);
    world_send(world, a, ask->master, request);
}

void act_guard(struct world *world, uint8_t a, struct guard_event event, enum request_kind kind)
{
    struct sim_agent *agent = &world->agents[a];
    struct guard_effects effects;
    guard_step(&agent->guard, &event, (struct instant){world->now_us}, agreed_us(world, agent),
               &effects);
    for (uint8_t m = 0; m < world->master_count; m++)
        if (effects.epochs >> m & 1)
            memcpy(agent->links[m].told_epoch, agent->guard.masters[m].last.epoch,
                   GUARD_WORD_BYTES);
    /* The one ask that follows a greeting is the greeting's; the others are questions. */
    for (unsigned i = 0; i < effects.ask_count; i++)
        ask(world, a, &effects.asks[i], kind);
}

void act_ready(struct world *world, struct happening *h)
{
    struct link *link = &world->agents[h->agent].links[h->master];
    link->ready = link->was_ready = true;
    link->ready_since_us = world->now_us;
    link->failures = 0;
    act_guard(world, h->agent, (struct guard_event){.kind = GUARD_READY, .master = h->master},
              REQUEST_MARKER);
}

/* ---- its attempts at the lock ---- */

/* A question goes ahead of the first command of an idle group. `closed`: the command takes no lock,
 * because it names no vote. */
static void before_lease(struct world *world, uint8_t a, bool closed)
{
    struct sim_agent *agent = &world->agents[a];
    uint32_t lease_ms = closed ? 0 : agent->max_ttl_ms;
    if (guard_uses(&agent->guard, lease_ms, (struct instant){world->now_us}) &&
        guard_deadline(&agent->guard).us <= world->now_us)
        act_guard(world, a, (struct guard_event){.kind = GUARD_TIME}, REQUEST_MARKER);
    check_asks(world, a);
}

void act_lock(struct world *world, uint8_t a)
{
    struct sim_agent *agent = &world->agents[a];
    struct attempt *attempt = &agent->attempt;
    uint64_t wall = (uint64_t)agreed_us(world, agent), floor = guard_floor(&agent->guard);
    master_set asked = 0;
    *attempt = (struct attempt){.open = true,
                                .began_us = world->now_us,
                                .lock = {.agent = a + 1u,
                                         .attempt = ++agent->attempts * 16 + agent->life % 16,
                                         .ttl_ms = agent->max_ttl_ms,
                                         .other_slot = world->slots && agent->layout == 1}};
    struct happening request = {.request = REQUEST_LOCK, .lock = attempt->lock};
    request.lock.number = wall > floor ? wall : floor + 1;
    before_lease(world, a,
                 guard_gate(&agent->guard, (struct instant){world->now_us}) != GUARD_OPEN);
    for (uint8_t m = 0; m < world->master_count; m++) {
        if (!agent->links[m].ready)
            continue;
        script_vote(&agent->guard, m, (struct instant){world->now_us}, OP_ACQUIRE,
                    request.lock.number, request.vote);
        world_send(world, a, m, request);
        asked |= (master_set)(1u << m);
    }
    guard_numbers(&agent->guard, asked, request.lock.number);
    world->count.refused +=
        guard_gate(&agent->guard, (struct instant){world->now_us}) == GUARD_REFUSED_BY_LAYOUT;
    world_say(world, "agent %u asks for the lock, with %" PRIu64, a, request.lock.number);
}

void act_renew(struct world *world, uint8_t a, uint8_t m)
{
    world_send(world, a, m, (struct happening){.request = REQUEST_RENEW});
}

void act_release(struct world *world, struct happening *h)
{
    uint8_t a = h->agent;
    struct sim_agent *agent = &world->agents[a];
    if (!agent->attempt.open && !agent->attempt.holds)
        return;
    const struct script_lock *lock = &agent->attempt.lock;
    if (agent->attempt.holds && world->holder == lock->agent - 1 &&
        world->holder_attempt == lock->attempt) {
        world->hold_until_us = INT64_MIN;
        world->holder_attempt = 0;
    }
    for (uint8_t m = 0; m < world->master_count; m++)
        if (agent->links[m].ready)
            world_send(world, a, m,
                       (struct happening){.request = REQUEST_RELEASE, .lock = agent->attempt.lock});
    agent->attempt.open = agent->attempt.holds = agent->attempt.keeps = false;
}

/* ---- locks that are kept ---- */

static void begin_extending(struct world *world, uint8_t a, bool adopts)
{
    struct sim_agent *agent = &world->agents[a];
    before_lease(world, a, /* closed= */ false);
    agent->attempt.round_us = world->now_us;
    agent->attempt.extended = 0;
    for (uint8_t m = 0; m < world->master_count; m++) {
        struct happening request = {
            .request = REQUEST_EXTEND, .lock = agent->attempt.lock, .began_us = world->now_us};
        if (!agent->links[m].ready)
            continue;
        if (adopts)
            script_vote(&agent->guard, m, (struct instant){world->now_us}, OP_ADOPT,
                        request.lock.number, request.vote);
        world_send(world, a, m, request);
    }
}

void act_adopt(struct world *world, uint8_t a, uint8_t from)
{
    const struct attempt *theirs = &world->agents[from].attempt;
    struct attempt *attempt = &world->agents[a].attempt;
    *attempt = (struct attempt){
        .keeps = true, .keep_until_us = theirs->keep_until_us, .lock = theirs->lock};
    attempt->lock.renewer = a + 1u;
    world_say(world, "agent %u adopts the lock of agent %u", a, from);
    begin_extending(world, a, /* adopts= */ true);
}

bool act_extend(struct world *world, uint8_t a)
{
    struct attempt *attempt = &world->agents[a].attempt;
    bool lasts = attempt->holds && world->now_us < attempt->lease_until_us;
    if (!attempt->keeps || !lasts || world->now_us >= attempt->keep_until_us) {
        if (attempt->keeps && lasts)
            act_release(world, &(struct happening){.agent = a});
        attempt->keeps = attempt->holds = false;
        return false;
    }
    begin_extending(world, a, /* adopts= */ false);
    return true;
}

static void hear_extended(struct world *world, const struct happening *reply)
{
    struct attempt *attempt = &world->agents[reply->agent].attempt;
    bool is_of_round = attempt->keeps && attempt->round_us == reply->began_us &&
                       attempt->lock.agent == reply->lock.agent &&
                       attempt->lock.attempt == reply->lock.attempt;
    if (!is_of_round || reply->says != SAYS_YES)
        return;
    int64_t ttl_us = (int64_t)attempt->lock.ttl_ms * 1000;
    attempt->extended |= (master_set)(1u << reply->master);
    if ((unsigned)__builtin_popcount(attempt->extended) < world->quorum)
        return;
    world->count.adopted += !attempt->holds;
    attempt->holds = true;
    attempt->lease_until_us = reply->began_us + ttl_us - ttl_us / 100 - 2000;
    check_extended(world, reply->agent, attempt->lease_until_us);
}

/* Ends the time of the attempt. A number that a quorum has not stored by now is not answered. */
void act_decide(struct world *world, struct happening *h)
{
    if (world->agents[h->agent].attempt.open)
        act_release(world, h);
}

static bool is_in_time(const struct world *world, const struct attempt *attempt)
{
    return world->now_us - attempt->began_us < (int64_t)ROUND_MS * 1000;
}

/* A quorum has granted: the largest number counts once a quorum stores it. */
static void take_grants(struct world *world, uint8_t a)
{
    struct attempt *attempt = &world->agents[a].attempt;
    unsigned granted = 0, store = 0;
    for (uint8_t m = 0; m < world->master_count; m++) {
        granted += attempt->stored[m] != 0;
        if (!attempt->raises && attempt->stored[m] > attempt->lock.number)
            attempt->lock.number = attempt->stored[m];
    }
    for (uint8_t m = 0; m < world->master_count; m++)
        store += attempt->stored[m] != 0 && attempt->stored[m] >= attempt->lock.number;
    if (granted < world->quorum)
        return;
    if (store >= world->quorum) {
        attempt->open = false;
        attempt->holds = true;
        check_answered(world, a);
        attempt->lease_until_us = world->hold_until_us;
        return;
    }
    for (uint8_t m = 0; !attempt->raises && m < world->master_count; m++)
        if (attempt->stored[m] != 0 && attempt->stored[m] < attempt->lock.number &&
            world->agents[a].links[m].ready)
            world_send(world, a, m,
                       (struct happening){.request = REQUEST_RAISE, .lock = attempt->lock});
    world->count.raised += !attempt->raises;
    attempt->raises = true;
}

static void hear_grant(struct world *world, const struct happening *reply)
{
    struct attempt *attempt = &world->agents[reply->agent].attempt;
    if (!attempt->open || attempt->lock.attempt != reply->lock.attempt || reply->says != SAYS_YES ||
        !is_in_time(world, attempt))
        return;
    attempt->stored[reply->master] = reply->number;
    take_grants(world, reply->agent);
}

/* ---- replies to an agent ---- */

void act_hear(struct world *world, const struct happening *reply)
{
    world_say(world, "agent %u hears master %u's answer to its %s%s", reply->agent, reply->master,
              request_words[reply->request],
              reply->request == REQUEST_LOCK && reply->says == SAYS_YES ? ": yes" : "");
    struct guard_event event = {
        .master = reply->master, .answer = reply->answer, .layouts = reply->layouts};
    bool is_event = true;
    switch (reply->request) {
    case REQUEST_LOCK:
        event.kind = GUARD_SEES_GUARDED;
        is_event = reply->says == SAYS_GUARDED;
        hear_grant(world, reply);
        break;
    case REQUEST_RAISE:
    case REQUEST_RELEASE:
        is_event = false;
        hear_grant(world, reply);
        break;
    case REQUEST_EXTEND:
        is_event = false;
        hear_extended(world, reply);
        break;
    case REQUEST_RENEW:
        event.kind = GUARD_SEES_EPOCH;
        break;
    case REQUEST_MARKER:
        event.kind = reply->refused ? GUARD_UNANSWERED : GUARD_ANSWERED;
        break;
    case REQUEST_GREETING:
        event.kind = reply->refused ? GUARD_REFUSED : GUARD_ANSWERED;
        break;
    }
    if (is_event)
        act_guard(world, reply->agent, event, REQUEST_MARKER);
    check_heard(world, reply);
}

/* ---- a master ---- */

static void execute_marker(struct world *world, struct happening *h)
{
    struct sim_master *master = &world->masters[h->master];
    uint64_t ttl_ms = marker_number(master->keys, "max_ttl"),
             told = marker_number(master->keys, "told");
    script_marker(master->keys, master_wall_ms(world, master), &h->ask, h->agreed_us, h->run_id,
                  h->fresh_epoch, &h->answer, &h->layouts);
    world_say(world,
              "master %u runs %s of agent %u, %u ms: epoch '%.4s', left %" PRId64 ", top %" PRIu64
              ", floor %" PRIu64 ", told %u, vote '%s'",
              h->master, asking_question_word(h->ask.question), h->agent,
              (unsigned)h->ask.max_ttl_ms, h->answer.epoch, h->answer.left_ms, h->answer.top,
              h->answer.floor, h->answer.told, h->answer.vote);
    check_marker(world, h, ttl_ms, told);
}

void act_execute(struct world *world, struct happening *h)
{
    struct sim_master *master = &world->masters[h->master];
    int64_t wall_ms = master_wall_ms(world, master);
    h->refused = h->refused || (master->full && h->request < REQUEST_RELEASE);
    if (h->refused || h->request > REQUEST_GREETING)
        world_say(world, "master %u %s agent %u's %s", h->master, h->refused ? "refuses" : "runs",
                  h->agent, request_words[h->request]);
    if (h->refused)
        return;
    if (world->before_change)
        world->before_change(world, h->master);
    switch (h->request) {
    case REQUEST_MARKER:
    case REQUEST_GREETING:
        execute_marker(world, h);
        return;
    case REQUEST_LOCK:
        h->says = script_acquire(master->keys, wall_ms, &h->lock, h->vote, &h->number);
        break;
    case REQUEST_RAISE:
        h->says = script_raise(master->keys, wall_ms, &h->lock) ? SAYS_YES : SAYS_NO;
        h->number = h->lock.number;
        break;
    case REQUEST_EXTEND:
        h->says = script_extend(master->keys, wall_ms, &h->lock, h->vote) ? SAYS_YES : SAYS_NO;
        break;
    case REQUEST_RELEASE:
        script_release(master->keys, wall_ms, &h->lock);
        break;
    case REQUEST_RENEW:
        break;
    }
    marker_field(master->keys, "epoch", h->answer.epoch);
}

unsigned act_witnesses(const struct world *world)
{
    return world->master_count - world->quorum + 1;
}

/* It has not forgotten, or has been told since. */
bool act_remembers(struct world *world, uint8_t m)
{
    struct sim_master *master = &world->masters[m];
    char epoch[GUARD_WORD_BYTES];
    if (master->spoiled || !marker_field(master->keys, "epoch", epoch) ||
        marker_number(master->keys, "told") == 0)
        return false;
    for (unsigned i = 0; i < VOID_EPOCHS; i++)
        if (strcmp(master->void_epochs[i], epoch) == 0)
            return false;
    return true;
}

static void void_epoch(struct world *world, uint8_t m)
{
    struct sim_master *master = &world->masters[m];
    char epoch[GUARD_WORD_BYTES] = "";
    if (!marker_field(master->keys, "epoch", epoch))
        return;
    memmove(master->void_epochs[0], master->void_epochs[1],
            sizeof(master->void_epochs) - sizeof(master->void_epochs[0]));
    memset(master->void_epochs[VOID_EPOCHS - 1], 0, GUARD_WORD_BYTES);
    memcpy(master->void_epochs[VOID_EPOCHS - 1], epoch, strlen(epoch));
}

/* The newest writes are those of the one lock. */
static void lose_newest(struct keyspace *keys)
{
    const struct bytes del[] = {{"DEL", 3}, {"k", 1}, script_bucket(/* other_slot= */ false)};
    keyspace_command(keys, del, 3);
}

void act_forget(struct world *world, uint8_t m, enum forgetting how, uint8_t from)
{
    struct sim_master *master = &world->masters[m];
    static const char *const words[] = {"is flushed",
                                        "restarts empty",
                                        "restarts with old data",
                                        "restarts with old data, without its vote",
                                        "is filled with the data of another master",
                                        "restarts with its data"};
    world_say(world, "master %u %s (%u)", m, words[how], from);
    if (how != RESTARTED) {
        world->count.forgets++;
        check_forgets(world, m);
        void_epoch(world, m);
        master->forgot_us = world->now_us;
        master->spoiled = master->spoiled && (how == OLD_DATA || how == OLD_UNVOTED);
    }
    if (world->before_change)
        world->before_change(world, m);
    if (how == FLUSHED || how == EMPTIED)
        keyspace_clear(master->keys);
    if (how == OLD_DATA || how == OLD_UNVOTED)
        lose_newest(master->keys);
    if (how == OLD_UNVOTED)
        vote_delete(master->keys);
    if (how == COPIED) {
        world->count.copies++;
        if (master->skew_ms > world->masters[from].skew_ms)
            world->jumped_us = world->now_us; /* the leases that it takes over end earlier there */
        keyspace_copy(master->keys, world->masters[from].keys);
        void_epoch(world, m);
        check_copied(world, m, from);
    }
    if (how != FLUSHED && how != COPIED)
        master->server++;
}

/* Sets a master's clock. If it is set forward, a lease on it ends early there, and so does its
 * guard (A3). It is not set while a round is in flight to which the master gave a vote before it
 * forgot. Otherwise a number could be answered after the witnesses have been read. */
void act_set_clock(struct world *world, uint8_t m, int64_t by_ms)
{
    if (by_ms > 0 && world->now_us - world->masters[m].forgot_us < (int64_t)ROUND_MS * 2000)
        return;
    world_say(world, "the clock of master %u is set by %" PRId64 " ms", m, by_ms);
    world->masters[m].skew_ms += by_ms;
    if (by_ms > 0) {
        world->jumped_us = world->now_us;
        world->masters[m].owes_until_us = world->masters[m].lease_end_us = INT64_MIN;
    }
}
