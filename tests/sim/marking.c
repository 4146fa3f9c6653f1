/* The shipped guard of each agent (D5.3), over the simulated network: one for all of its groups,
 * for these have the same masters. Its questions travel as commands do; only the greeting's is
 * answered at once. */
#include "world.h"

#include <stdio.h>

enum { CLOCK_TRUST_US = CLOCK_TRUST_MS * 1000 };

/* Returns the agreed time (R12): the masters' median if the agent is off from that by a second. */
static int64_t agreed_wall_us(const struct world *w, uint8_t agent)
{
    int64_t sorted[SIM_MASTERS], own_us = agent_wall_us(w, agent);
    for (uint8_t m = 0; m < w->options.masters; m++) {
        unsigned i = m;
        for (; i > 0 && sorted[i - 1] > master_wall_us(w, m); i--)
            sorted[i] = sorted[i - 1];
        sorted[i] = master_wall_us(w, m);
    }
    int64_t off_us = sorted[w->options.masters / 2] - own_us;
    return off_us > CLOCK_TRUST_US || off_us < -CLOCK_TRUST_US ? own_us + off_us : own_us;
}

static void plan_time(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    struct instant deadline = guard_deadline(&agent->guard);
    if (deadline.us == INSTANT_NEVER.us)
        return;
    int64_t at = agent_real_us(w, index, deadline) + 1;
    at =
        (at > w->now ? at : w->now + 1) + prng_between(&agent->chance, 0, GUARD_TICK_MS * 1000 / 2);
    if (at >= agent->guard_at)
        return;
    agent->guard_at = at;
    world_plan(w, (struct happening){.at = at, .kind = HAPPEN_MARKER, .agent = index});
}

static void report_floor(struct world *w, uint8_t agent)
{
    for (uint8_t g = 0; g < w->options.groups; g++) {
        struct event event = {.kind = EVENT_FENCE_FLOOR};
        event.master.group = g;
        event.master.floor = guard_floor(&w->agents[agent].guard);
        agent_step(w, agent, &event);
    }
}

/* `greeted`: a master that the core does not believe up yet; SIM_MASTERS: none. */
static void step(struct world *w, uint8_t agent, const struct guard_event *event, uint8_t greeted,
                 struct guard_effects *effects)
{
    int64_t wall_us = agreed_wall_us(w, agent);
    guard_step(&w->agents[agent].guard, event, agent_clock(w, agent), wall_us, effects);
    for (uint8_t m = 0; m < w->options.masters; m++) {
        if ((effects->epochs >> m & 1) == 0)
            continue;
        w->agents[agent].connections[m].epoch++;
        if (m != greeted)
            network_tell_up(w, agent, m);
    }
    if (effects->floors != 0)
        report_floor(w, agent);
    for (unsigned i = 0; i < effects->ask_count && event->kind != GUARD_GREETS; i++) {
        struct marking *marking = world_allocate(w, sizeof *marking);
        marking->ask = effects->asks[i];
        marking->wall_us = wall_us;
        network_ask(w, agent, effects->asks[i].master, marking);
    }
    plan_time(w, agent);
}

void marking_boot(struct world *w, uint8_t agent)
{
    w->agents[agent].guard_at = INT64_MAX;
    guard_init(&w->agents[agent].guard, w->options.masters, (uint8_t)world_quorum(w),
               /* durable= */ false, w->config.max_ttl_ms);
    w->agents[agent].guard.has_replicas = w->options.replicas > 0;
}

void marking_greet(struct world *w, uint8_t agent, uint8_t master)
{
    struct guard_effects effects;
    struct guard_event event = {.kind = GUARD_GREETS, .master = master, .knows_run = true};
    step(w, agent, &event, master, &effects);
    event.kind = GUARD_ANSWERED;
    master_mark(w, master, &effects.asks[0], agreed_wall_us(w, agent), &event.answer);
    step(w, agent, &event, master, &effects);
}

void marking_ready(struct world *w, uint8_t agent, uint8_t master)
{
    struct guard_effects effects;
    struct guard_event event = {.kind = GUARD_READY, .master = master};
    step(w, agent, &event, master, &effects);
}

void marking_away(struct world *w, uint8_t agent, uint8_t master)
{
    struct guard_effects effects;
    struct guard_event event = {.kind = GUARD_AWAY, .master = master};
    step(w, agent, &event, SIM_MASTERS, &effects);
}

void marking_overhear(struct world *w, const struct flight *flight)
{
    uint8_t agent = flight->message->agent;
    struct guard_effects effects;
    struct guard_event event = {.kind = GUARD_SEES_EPOCH, .master = flight->master};
    if (flight->epoch != 0) {
        if (!flight->unmarked)
            snprintf(event.answer.epoch, sizeof event.answer.epoch, "%u", flight->epoch);
        step(w, agent, &event, SIM_MASTERS, &effects);
    }
    event.kind = GUARD_SEES_GUARDED;
    event.is_release = flight->message->op == OP_RELEASE;
    for (unsigned i = 0; i < flight->message->count; i++) {
        event.answer.left_ms = flight->verdicts[i].reply.occupant.left_ms;
        if (flight->verdicts[i].reply.vote == VOTE_GUARDED)
            step(w, agent, &event, SIM_MASTERS, &effects);
    }
}

void marking_run(struct world *w, struct flight *flight, enum mishap mishap)
{
    struct marking *marking = flight->marking;
    flight->executed = true;
    marking->answered = mishap == MISHAP_NONE;
    if (marking->answered)
        master_mark(w, flight->master, &marking->ask, marking->wall_us, &marking->answer);
}

void marking_answered(struct world *w, const struct flight *flight)
{
    const struct marking *marking = flight->marking;
    struct guard_effects effects;
    struct guard_event event = {.kind = marking->answered ? GUARD_ANSWERED : GUARD_UNANSWERED,
                                .master = flight->master,
                                .answer = marking->answer};
    step(w, flight->message->agent, &event, SIM_MASTERS, &effects);
}

void marking_time(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    struct guard_effects effects;
    struct guard_event event = {.kind = GUARD_TIME};
    if (!agent->alive || agent->guard_at > w->now)
        return;
    agent->guard_at = INT64_MAX;
    if (!instant_before(agent_clock(w, index), guard_deadline(&agent->guard)))
        step(w, index, &event, SIM_MASTERS, &effects);
    else
        plan_time(w, index);
}

void marking_uses(struct world *w, uint8_t agent, const struct effect_send *send,
                  const struct send_item *items)
{
    uint32_t lease_ms = 0;
    for (unsigned i = 0; i < send->count && op_leases(send->op); i++)
        lease_ms = items[i].ttl_ms > lease_ms ? items[i].ttl_ms : lease_ms;
    struct agent *at = &w->agents[agent];
    struct guard_effects effects;
    struct guard_event event = {.kind = GUARD_TIME};
    if (!guard_uses(&at->guard, lease_ms, agent_clock(w, agent)))
        return;
    if (!instant_before(agent_clock(w, agent), guard_deadline(&at->guard)))
        step(w, agent, &event, SIM_MASTERS, &effects);
    readings_ahead(w, agent);
}

struct text marking_vote(const struct world *w, uint8_t agent, uint8_t master,
                         const struct message *message, char bytes[ASKING_VOTE_BYTES])
{
    return asking_vote(bytes, &w->agents[agent].guard, master, agent_clock(w, agent), message->op,
                       &message->proposals);
}

const char *marking_native_vote(const struct world *w, uint8_t agent, uint8_t master,
                                const struct message *message)
{
    return asking_native_vote(&w->agents[agent].guard, master, agent_clock(w, agent),
                              message->native->takes ? &message->proposals : NULL);
}

void marking_numbers(struct world *w, uint8_t agent, master_set masters,
                     const struct message *message)
{
    if (message->proposals.most > 0)
        guard_numbers(&w->agents[agent].guard, masters, message->proposals.most);
}
