/* The surroundings of one core: its clock, its timer, its requests, and the way of its effects. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMER_JITTER_US = 1000 };

struct instant agent_clock(const struct world *w, uint8_t index)
{
    const struct agent *agent = &w->agents[index];
    int64_t run_us = clocks_agent_us(w, index);
    return (struct instant){agent->boot_base_us + run_us + run_us * agent->rate_ppm / 1000000};
}

int64_t agent_wall_us(const struct world *w, uint8_t index)
{
    const struct agent *agent = &w->agents[index];
    int64_t run_us = clocks_agent_us(w, index);
    return 1700000000000000 + run_us + run_us * agent->rate_ppm / 1000000 + agent->wall_us;
}

int64_t agent_real_us(const struct world *w, uint8_t index, struct instant t)
{
    const struct agent *agent = &w->agents[index];
    int64_t shown = t.us - agent->boot_base_us;
    return shown - shown * agent->rate_ppm / (1000000 + agent->rate_ppm) + agent->paused_us;
}

static void arm_timer(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    struct instant deadline = core_next_deadline(agent->core);
    if (deadline.us == INT64_MAX)
        return;
    int64_t at = agent_real_us(w, index, deadline) + 1;
    if (at <= w->now)
        at = w->now + 1;
    at += prng_between(&agent->chance, 0, TIMER_JITTER_US);
    if (at >= agent->timer_at)
        return;
    agent->timer_at = at;
    world_plan(w, (struct happening){.at = at, .kind = HAPPEN_TIMER, .agent = index});
}

static struct text key_of_place(const struct world *w, uint8_t place)
{
    return options_key_text(options_key_of(&w->options, place));
}

static void restore(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    struct journalled found[SIM_JOURNAL];
    memcpy(found, agent->journal, sizeof found);
    memset(agent->journal, 0, sizeof agent->journal);
    for (size_t i = 0; i < SIM_JOURNAL && w->violation[0] == '\0'; i++) {
        struct event event = {.kind = EVENT_RESTORE, .restore = found[i].hold};
        if (!found[i].used)
            continue;
        event.restore.key = key_of_place(w, found[i].key);
        checker_restored(w, index, found[i].key, &event.restore);
        caller_restored(w, index, &event.restore);
        agent_step(w, index, &event);
    }
}

void agent_boot(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    if (agent->alive)
        return;
    w->config.seed = prng_next(&agent->chance);
    /* Two names an agent: the last bit says which holds it adopted (D3.3). */
    if (agent->name == 0 || !w->options.journal)
        agent->name = 2 * (1 + index + SIM_AGENTS * agent->incarnation);
    w->config.agent = agent->name;
    size_t bytes = core_size(&w->config);
    if (bytes > agent->memory_bytes) {
        free(agent->memory);
        agent->memory = malloc(bytes);
        agent->memory_bytes = bytes;
    }
    if (agent->memory == NULL)
        abort();
    memset(agent->memory, 0, bytes);
    agent->core = core_init(agent->memory, &w->config);
    for (uint8_t m = 0; m < w->options.masters; m++)
        agent->connections[m].serves = false;
    agent->alive = true;
    agent->draining = agent->ending = agent->dropped_debt = agent->reloaded = false;
    agent->in_turn = false;
    agent->begun = 0;
    agent->was_full = false;
    agent->incarnation++;
    agent->timer_at = INT64_MAX;
    memset(agent->open, 0, sizeof agent->open);
    memset(agent->followed, 0, sizeof agent->followed);
    checker_drop_all(w, index);
    memset(agent->watches, 0, sizeof agent->watches);
    memset(agent->lines, 0, sizeof agent->lines);
    world_say(w, "a%u boots", index);
    marking_boot(w, index);
    for (uint8_t m = 0; m < w->options.masters; m++)
        world_plan_in(w, prng_between(&agent->links[m], 100, 20000),
                      (struct happening){.kind = HAPPEN_CONNECT,
                                         .agent = index,
                                         .master = m,
                                         .number = agent->connections[m].generation});
    arm_timer(w, index);
    if (w->options.journal)
        restore(w, index);
    followers_boot(w, index);
}

void agent_reload(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    struct core_policy policies[SIM_POLICIES];
    if (!agent->alive)
        return;
    agent->reloaded = !agent->reloaded;
    memcpy(policies, w->policies, sizeof policies);
    for (uint8_t p = 0; p < w->options.policies && agent->reloaded; p++) {
        policies[p].ttl_ms = w->options.ttl_ms_max / 2 + 500;
        policies[p].lock_delay_ms += policies[p].lock_delay_ms > 0 ? 500 : 0;
        policies[p].retry_max_ms += 100;
        policies[p].handover_max = w->options.handover_max / 2;
    }
    world_say(w, "a%u reloads its configuration", index);
    w->figures.reloads++;
    core_set_policies(agent->core, policies, w->options.policies);
}

uint8_t agent_group_of(const struct world *w, uint8_t index, uint8_t key)
{
    return core_group_of(w->agents[index].core, options_key_text(key));
}

void agent_step_master(struct world *w, uint8_t index, struct event *event)
{
    struct connection *connection = &w->agents[index].connections[event->master.master];
    connection->serves = connection->serves || event->kind == EVENT_MASTER_UP;
    for (uint8_t g = 0; g < w->options.groups; g++) {
        event->master.group = g;
        agent_step(w, index, event);
    }
    connection->serves = connection->serves && event->kind != EVENT_MASTER_DOWN;
}

void agent_drain(struct world *w, uint8_t index)
{
    struct event event = {.kind = EVENT_DRAIN};
    if (!w->agents[index].draining)
        w->agents[index].drained_from = w->arrivals;
    w->agents[index].draining = true;
    agent_step(w, index, &event);
}

void agent_end(struct world *w, uint8_t index, bool release)
{
    struct event end = {.kind = EVENT_END};
    if (release)
        caller_end_all(w, index);
    end.end.release = release;
    w->agents[index].ending = true;
    agent_drain(w, index);
    agent_step(w, index, &end);
}

void agent_crash(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    world_say(w, "a%u crashes", index);
    agent->alive = agent->stalled = false;
    agent->incarnation++;
    size_t parked = agent->parked_count;
    agent->parked_count = 0;
    network_abandon(w, index);
    for (size_t i = 0; i < parked; i++) {
        struct request *request = agent->parked[i].what;
        if (agent->parked[i].kind == HAPPEN_REQUEST && request->state == REQUEST_SENT)
            caller_disconnected(w, request);
        if (agent->parked[i].kind == HAPPEN_WRITE)
            agent_write(w, agent->parked[i].what);
    }
    for (size_t i = 0; i < SIM_REQUESTS; i++) {
        struct request *request = agent->open[i];
        agent->open[i] = NULL;
        if (request != NULL && request->state == REQUEST_OPEN)
            caller_disconnected(w, request);
    }
}

void agent_stall(struct world *w, uint8_t index, int64_t us)
{
    w->agents[index].stalled = true;
    w->figures.stalls++;
    world_plan_in(w, us, (struct happening){.kind = HAPPEN_WAKE, .agent = index});
}

/* The core's answer to a request, until its caller has it. */
struct written {
    struct request *request;
    struct effect_answer answer;
};

/* The process is stopped after the core's decision and before the answer is written. */
static void freeze(struct world *w, uint8_t index, struct written *written)
{
    int64_t us =
        prng_between(&w->agents[index].chance, 1000, 1500 * (int64_t)w->options.ttl_ms_max);
    world_say(w, "a%u is stopped for %lld us before it writes the answer", index, (long long)us);
    agent_stall(w, index, us);
    world_plan_in(w, 0, (struct happening){.kind = HAPPEN_WRITE, .agent = index, .what = written});
}

static void give_back(struct world *w, struct request *request, const struct token *token)
{
    struct event event = {.kind = EVENT_UNDELIVERED, .undelivered.lock = request->lock};
    struct hold *hold = checker_find(w, token->random);
    if (hold != NULL && hold->users == 0)
        hold->ended = true;
    agent_step(w, request->agent, &event);
}

/* R4: the last look at the clock. A grant without validity is given back, a renewed lease that is
 * over is lost. */
void agent_write(struct world *w, struct written *written)
{
    struct request *request = written->request;
    struct effect_answer *says = &written->answer;
    bool promises = request->granted || says->answer == ANSWER_RENEWED;
    if (!w->agents[request->agent].alive ||
        w->agents[request->agent].incarnation != request->incarnation) {
        caller_disconnected(w, request); /* it died with the answer unwritten */
        return;
    }
    bool is_over =
        promises && !instant_before(agent_clock(w, request->agent), says->hold.valid_until);
    if (is_over && !w->switches.answers_unchecked) {
        bool gives_back = request->granted;
        request->granted = false;
        says->answer = gives_back ? ANSWER_VALIDITY_EXPIRED : ANSWER_LOCK_LOST;
        caller_answered(w, request, says);
        if (gives_back)
            give_back(w, request, &says->hold.token);
        return;
    }
    if (promises)
        checker_promised(w, request->agent, request->key, says->hold.valid_until);
    if (w->violation[0] == '\0')
        caller_answered(w, request, says);
    if (w->options.journal && request->granted)
        world_plan_in(
            w, 0,
            (struct happening){.kind = HAPPEN_DELIVERED, .agent = request->agent, .what = request});
}

/* The last byte of the answer was taken by the kernel; the process may have ended just before it
 * could note so. */
void agent_delivered(struct world *w, struct request *request)
{
    struct event event = {.kind = EVENT_DELIVERED, .delivered.lock = request->lock};
    if (w->agents[request->agent].incarnation == request->incarnation)
        agent_step(w, request->agent, &event);
}

static void answer(struct world *w, uint8_t index, const struct effect_answer *answered)
{
    struct agent *agent = &w->agents[index];
    struct request *request =
        answered->request < SIM_REQUESTS ? agent->open[answered->request] : NULL;
    if (request == NULL) {
        checker_fail(w, "C7 a%u answered request %u (%s), which is not open", index,
                     answered->request, answer_code(answered->answer));
        return;
    }
    agent->open[answered->request] = NULL;
    request->state = REQUEST_ANSWERED;
    request->lock = answered->lock;
    request->granted = answered->answer == ANSWER_GRANTED || answered->answer == ANSWER_REENTERED ||
                       answered->answer == ANSWER_REPEATED;
    checker_answer(w, index, request, answered);
    if (w->violation[0] != '\0')
        return;
    bool promises = request->granted || answered->answer == ANSWER_RENEWED;
    if (promises && prng_in_10000(&agent->chance, w->options.frozen_writes)) {
        struct written *written = world_allocate(w, sizeof *written);
        *written = (struct written){request, *answered};
        freeze(w, index, written);
    } else {
        agent_write(w, &(struct written){request, *answered});
    }
}

/* Writes one entry of the agent's journal, which outlives a crash. */
static void journal(struct world *w, uint8_t index, const struct effect_hold *hold)
{
    struct journalled *cell = &w->agents[index].journal[hold->slot % SIM_JOURNAL];
    if (hold->slot >= SIM_JOURNAL)
        checker_fail(w, "seam: a%u notes a hold in slot %u", index, hold->slot);
    *cell = (struct journalled){.used = !hold->forgotten};
    if (hold->forgotten)
        return;
    cell->key = world_place(w, hold->hold.key, hold->hold.token.slot);
    cell->hold = hold->hold;
}

static void note_attempt(struct world *w, uint8_t index, const struct effect_send *send)
{
    for (uint16_t i = 0; i < send->count; i++) {
        const struct send_item *item = &w->effects->items[send->first + i];
        uint8_t place = world_place(w, item->key, item->token.slot);
        memcpy(w->agents[index].attempt[place], item->token.random, RANDOM_BYTES);
        if (w->options.rw)
            memcpy(w->agents[index].tries[item->ref.slot % SIM_JOURNAL], item->token.random,
                   RANDOM_BYTES);
    }
    w->agents[index].begun += send->count;
}

static void deliver(struct world *w, uint8_t index)
{
    struct effects *effects = w->effects;
    for (size_t i = 0; i < effects->count && w->violation[0] == '\0'; i++) {
        const struct effect *effect = &effects->list[i];
        if (w->verbose)
            timeline_effect(w, index, effect, effects->items);
        switch (effect->kind) {
        case EFFECT_SEND:
            if (effect->send.op == OP_ACQUIRE || effect->send.op == OP_HANDOVER)
                note_attempt(w, index, &effect->send);
            network_send(w, index, &effect->send, effects->items);
            break;
        case EFFECT_WATCH:
        case EFFECT_UNWATCH:
            channel_watch(w, index, options_key_named(effect->watch.key),
                          effect->kind == EFFECT_WATCH);
            break;
        case EFFECT_ANSWER:
            answer(w, index, &effect->answer);
            break;
        case EFFECT_FOLLOWED:
            followers_told(w, index, &effect->followed);
            break;
        case EFFECT_HOLD:
            journal(w, index, &effect->hold);
            break;
        case EFFECT_READ_CLOCKS:
            readings_all(w, index);
            break;
        case EFFECT_TRACE:
            checker_trace(w, index, &effect->trace);
            break;
        }
    }
}

static void refill_entropy(struct world *w, uint8_t index)
{
    struct entropy *entropy = core_entropy(w->agents[index].core);
    if (entropy->left < ENTROPY_BYTES / 2) {
        prng_fill(&w->agents[index].chance, entropy->bytes + entropy->left, ENTROPY_BYTES / 2);
        entropy->left += ENTROPY_BYTES / 2;
    }
}

static void take_event(struct world *w, uint8_t index, const struct event *event)
{
    struct agent *agent = &w->agents[index];
    bool taken = false;
    for (unsigned turns = 0; !taken && w->violation[0] == '\0'; turns++) {
        taken = core_step(agent->core, event, w->effects);
        w->figures.full_steps += !taken;
        deliver(w, index);
        if (w->violation[0] == '\0')
            line_after_step(w, index, event);
        if (turns > 100 || ++w->steps > SIM_STEPS)
            checker_fail(w, "C7 a%u does not come to rest", index);
    }
}

/* As the loop does it, right before it writes. */
static void write_gathered(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    struct event event = {
        .kind = EVENT_FLUSH, .now = agent_clock(w, index), .wall_us = agent_wall_us(w, index)};
    while (w->violation[0] == '\0' && core_awaits_flush(agent->core)) {
        refill_entropy(w, index);
        take_event(w, index, &event);
    }
    if (w->violation[0] == '\0')
        line_after_flush(w, index);
}

void agent_step(struct world *w, uint8_t index, struct event *event)
{
    struct agent *agent = &w->agents[index];
    if (!agent->alive || w->violation[0] != '\0')
        return;
    refill_entropy(w, index);
    event->now = agent_clock(w, index);
    event->wall_us = agent_wall_us(w, index);
    if (w->verbose)
        timeline_event(w, index, event);
    /* A cancelled request may still get the answer of its deadline in this step (R14: observe
     * first), but never a grant. */
    struct request *cancelled =
        event->kind == EVENT_CANCEL ? agent->open[event->cancel.request] : NULL;
    if (cancelled != NULL)
        cancelled->cancelled = true;
    agent->locks = core_stats(agent->core)->locks_tracked;
    agent->waiters = core_stats(agent->core)->waiters;
    take_event(w, index, event);
    if (cancelled != NULL && cancelled->state == REQUEST_OPEN) {
        cancelled->state = REQUEST_CANCELLED;
        agent->open[cancelled->number] = NULL;
    }
    if (core_awaits_flush(agent->core) && w->options.turn_us_max == 0) {
        write_gathered(w, index);
    } else if (core_awaits_flush(agent->core) && !agent->in_turn) {
        agent->in_turn = true;
        world_plan_in(w, prng_between(&agent->chance, 0, w->options.turn_us_max),
                      (struct happening){.kind = HAPPEN_FLUSH, .agent = index});
    }
    if (w->violation[0] == '\0')
        checker_after_step(w, index);
    if (!agent->in_turn)
        network_turn(w, index);
    arm_timer(w, index);
}

void agent_flush(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    agent->in_turn = false;
    if (!agent->alive || w->violation[0] != '\0')
        return;
    bool steps = core_awaits_flush(agent->core); /* false if all commands were sent before */
    write_gathered(w, index);
    if (steps && w->violation[0] == '\0')
        checker_after_step(w, index);
    network_turn(w, index);
    arm_timer(w, index);
}

void agent_timer(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    if (!agent->alive || agent->timer_at > w->now)
        return;
    agent->timer_at = INT64_MAX;
    struct instant deadline = core_next_deadline(agent->core);
    if (deadline.us <= agent_clock(w, index).us) {
        struct event event = {.kind = EVENT_TIME};
        agent_step(w, index, &event);
    } else {
        arm_timer(w, index);
    }
}

/* The caller's number, as its public label. */
static struct text label_text(uint8_t caller, char label[SIM_LABEL])
{
    label[0] = 'c';
    label[1] = (char)('0' + caller / 10);
    label[2] = (char)('0' + caller % 10);
    return (struct text){label, 3};
}

/* What only a caller and its agent know. */
struct secrets {
    char owner[SIM_SECRET], idempotency[SIM_SECRET];
};

static struct text secret_text(char bytes[SIM_SECRET], const char *kind, uint32_t number)
{
    if (number == 0)
        return (struct text){0};
    return (struct text){bytes, (size_t)snprintf(bytes, SIM_SECRET, "%s-%016x", kind, number)};
}

static void fill_event(const struct world *w, const struct request *request,
                       char label[SIM_LABEL + 1], struct secrets *secrets, struct event *event)
{
    struct text idempotency = secret_text(secrets->idempotency, "key", request->secret);
    event->kind = request->kind;
    switch (request->kind) {
    case EVENT_ACQUIRE:
        event->acquire =
            (struct event_acquire){.request = request->number,
                                   .key = key_of_place(w, request->key),
                                   .ttl_ms = request->ttl_ms,
                                   .wait_ms = request->wait_ms,
                                   .max_hold_ms = request->max_hold_ms,
                                   .mode = request->mode,
                                   .renew = request->renew,
                                   .bound = request->bound,
                                   .owner = secret_text(secrets->owner, "owner", request->owner),
                                   .idempotency = idempotency,
                                   .label = label_text(request->label, label)};
        break;
    case EVENT_RENEW:
        event->renew = (struct event_renew){.request = request->number,
                                            .key = key_of_place(w, request->key),
                                            .token = request->token,
                                            .ttl_ms = request->ttl_ms,
                                            .renew = request->renew,
                                            .label = labels_text(request, label)};
        break;
    case EVENT_RELEASE:
        event->release = (struct event_release){.request = request->number,
                                                .key = key_of_place(w, request->key),
                                                .token = request->token};
        if (request->by_secret)
            event->release.idempotency = idempotency;
        break;
    default:
        event->read =
            (struct event_read){.request = request->number, .key = key_of_place(w, request->key)};
        break;
    }
}

void agent_take_request(struct world *w, struct request *request)
{
    struct agent *agent = &w->agents[request->agent];
    if (request->state != REQUEST_SENT)
        return;
    uint32_t number = 0;
    while (number < SIM_REQUESTS && agent->open[number] != NULL)
        number++;
    if (!agent->alive || number == SIM_REQUESTS) {
        caller_disconnected(w, request);
        return;
    }
    request->number = number;
    request->incarnation = agent->incarnation;
    request->state = REQUEST_OPEN;
    agent->open[number] = request;
    struct event event = {.kind = request->kind};
    char label[SIM_LABEL + 1];
    struct secrets secrets;
    labels_name(w, request);
    fill_event(w, request, label, &secrets, &event);
    request->arrived = request->queued = ++w->arrivals;
    if ((request->kind == EVENT_RENEW || request->kind == EVENT_RELEASE) && request->hold != NULL)
        request->had = master_set_having(w, request->hold->key, &request->token);
    turns_came(w, request);
    agent_step(w, request->agent, &event);
}

/* The agent sees the caller's end of the connection close: before its answer, or while it was being
 * written. */
void agent_take_cancel(struct world *w, struct request *request)
{
    struct agent *agent = &w->agents[request->agent];
    struct event event = {.kind = EVENT_CANCEL};
    if (request->state == REQUEST_SENT) { /* it comes no more */
        request->state = REQUEST_CANCELLED;
        return;
    }
    if (!agent->alive || agent->incarnation != request->incarnation)
        return;
    if (request->state == REQUEST_OPEN) {
        if (request->kind == EVENT_RENEW && request->hold != NULL)
            request->hold->left_at |= (uint8_t)(1u << request->agent);
        event.cancel.request = request->number;
        w->figures.cancels++;
        agent_step(w, request->agent, &event);
        return;
    }
    if (request->state == REQUEST_ANSWERED && request->granted) {
        event.kind = EVENT_UNDELIVERED;
        event.undelivered.lock = request->lock;
        w->figures.undeliveries++;
    } else {
        request->state = REQUEST_CANCELLED;
        return;
    }
    request->state = REQUEST_CANCELLED;
    agent_step(w, request->agent, &event);
}

void agent_take_leave(struct world *w, uint8_t index, const struct leaving *leaving)
{
    const struct agent *agent = &w->agents[index];
    struct event event = {.kind = leaving->stuck ? EVENT_STUCK : EVENT_UNDELIVERED};
    if (!agent->alive || agent->incarnation != leaving->incarnation)
        return;
    if (leaving->stuck)
        event.stuck.lock = leaving->lock;
    else
        event.undelivered.lock = leaving->lock;
    agent_step(w, index, &event);
    if (w->violation[0] == '\0')
        checker_left(w, index, leaving);
}
