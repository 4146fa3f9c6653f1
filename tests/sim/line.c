/* The queue of rounds (C13, R16), checked after every step of a core:
 *
 *   - No key and no guest waits while a round may begin, once the sent bytes are written. No more
 *     guests are in flight than the limit allows.
 *   - Rounds begin in the order in which keys needed them: the rest of a queue after a step is its
 *     end, in its order, and before the keys that came in that step.
 *   - The limit grows while the masters are quick and a key waits.
 *
 * Invariant 10 of the core says that no waiter is forgotten as its key leaves the queue. */
#include "world.h"

#include <string.h>

static bool has(const struct line *line, uint8_t key)
{
    return memchr(line->keys, key, line->count) != NULL;
}

static void read_line(const struct core *core, uint8_t group, struct line *ret_line)
{
    struct text key;
    uint32_t cursor = 0;
    ret_line->count = 0;
    while (ret_line->count < SIM_KEYS && core_next_in_queue(core, group, &cursor, &key))
        ret_line->keys[ret_line->count++] = options_key_named(key);
}

/* A round of it was sent in this step. */
static bool was_sent(const struct world *w, uint8_t key)
{
    for (size_t i = 0; i < w->effects->count; i++) {
        const struct effect *effect = &w->effects->list[i];
        uint16_t items =
            effect->kind == EFFECT_SEND && effect->send.op == OP_ACQUIRE ? effect->send.count : 0;
        for (uint16_t at = 0; at < items; at++)
            if (options_key_named(w->effects->items[effect->send.first + at].key) == key)
                return true;
    }
    return false;
}

/* Returns true if a round of the key was decided in this step. For a key with one round at a time,
 * this is a round that waited and was not sent. */
static bool was_decided(const struct world *w, uint8_t key)
{
    for (size_t i = 0; i < w->effects->count; i++) {
        const struct effect_trace *trace = &w->effects->list[i].trace;
        if (w->effects->list[i].kind == EFFECT_TRACE && trace->kind == TRACE_ATTEMPT &&
            options_key_named(trace->key) == key)
            return true;
    }
    return false;
}

/* The key left the line as its time was over, and came again with the event of that step. */
static bool came_again(const struct event *event, uint8_t key, const struct line *after)
{
    return event->kind == EVENT_ACQUIRE && options_key_named(event->acquire.key) == key &&
           after->keys[after->count - 1] == key;
}

static void check_order(struct world *w, uint8_t index, const struct event *event,
                        const struct line *before, const struct line *after)
{
    uint8_t kept = 0;
    for (uint8_t i = 0; i < before->count; i++) {
        uint8_t key = before->keys[i];
        /* If readers share the key, other events send and decide rounds of readers beside the
         * waiter. */
        bool is_shared = options_kind(&w->options, key).rw;
        bool may_begin = !is_shared || event->kind == EVENT_FLUSH;
        bool is_sent = may_begin && was_sent(w, key),
             begins = is_sent || (may_begin && was_decided(w, key));
        if (is_shared && begins && !is_sent)
            return; /* if no master is up, the checker cannot know which of them it was */
        /* A reader's round begins, and the key waits again for the next one (R18). */
        bool stays = has(after, key) && !(is_shared && is_sent);
        /* One of several readers was refused. All of them left the queue, and others wait in it. */
        bool gave_up = is_shared && was_decided(w, key);
        if (stays && after->keys[kept] != key && (gave_up || came_again(event, key, after)))
            continue;
        if (stays && after->keys[kept] != key)
            checker_fail(w, "C13 a%u: k%u has lost its place in the line", index, key);
        if (stays)
            kept++;
        else if (begins && kept > 0)
            checker_fail(w, "C13 a%u: the round of k%u begins before that of k%u, which came first",
                         index, key, after->keys[0]);
    }
}

/* C13: Checks that the limit grows after enough quick decisions. A quick one took less than a
 * quarter of the allowed time while another round waited. */
static void check_growth(struct world *w, uint8_t index, uint8_t group,
                         const struct core_rounds *rounds)
{
    enum { SPARE = 24 };
    struct line *line = &w->agents[index].lines[group];
    if (rounds->limit != line->limit || rounds->limit == w->options.rounds_max)
        line->quick = 0;
    for (size_t i = 0; i < w->effects->count; i++) {
        const struct effect_trace *trace = &w->effects->list[i].trace;
        if (w->effects->list[i].kind != EFFECT_TRACE || trace->kind != TRACE_ATTEMPT ||
            trace->group != group)
            continue;
        w->figures.lined_up += trace->queued_us > 0;
        bool answered = trace->answer == ANSWER_GRANTED || trace->answer == ANSWER_LOCK_HELD;
        line->quick += line->is_full && trace->cause != CAUSE_HANDOVER && answered &&
                       trace->elapsed_us < 250 * (int64_t)w->options.node_timeout_ms;
    }
    if (line->quick > 2 * rounds->limit + SPARE)
        checker_fail(w,
                     "C13 a%u: %u rounds were quick and others waited, and the limit stays at %u",
                     index, line->quick, rounds->limit);
    line->limit = rounds->limit;
    line->is_full = rounds->waiting > 0 && rounds->in_flight >= rounds->limit;
}

/* Half of all places, and one in any case. A limit below its first value counts as that. */
static uint32_t most_guests(const struct world *w, const struct core_rounds *rounds)
{
    uint32_t first = w->options.rounds_first, limit = rounds->limit < first ? first : rounds->limit;
    return limit < 2 ? 1 : limit / 2;
}

void line_after_step(struct world *w, uint8_t index, const struct event *event)
{
    struct agent *agent = &w->agents[index];
    for (uint8_t g = 0; g < w->options.groups && w->switches.few_rounds; g++) {
        struct line after = agent->lines[g];
        read_line(agent->core, g, &after);
        check_order(w, index, event, &agent->lines[g], &after);
        agent->lines[g] = after;
        const struct core_rounds *rounds = &core_stats(agent->core)->rounds[g];
        check_growth(w, index, g, rounds);
        if (rounds->guests > agent->guests[g] && rounds->guests > most_guests(w, rounds))
            checker_fail(w, "C13 a%u: guest %u begins, and the limit is %u", index, rounds->guests,
                         rounds->limit);
        agent->guests[g] = rounds->guests;
    }
}

void line_after_flush(struct world *w, uint8_t index)
{
    for (uint8_t g = 0; g < w->options.groups; g++) {
        const struct core_rounds *rounds = &core_stats(w->agents[index].core)->rounds[g];
        if (rounds->waiting > 0 && rounds->in_flight < rounds->limit)
            checker_fail(w, "C13 a%u: %u keys wait for a place, and %u of %u are taken", index,
                         rounds->waiting, rounds->in_flight, rounds->limit);
        bool has_room = rounds->waiting == 0 && rounds->guests < most_guests(w, rounds) &&
                        rounds->in_flight + rounds->guests < rounds->limit;
        if (rounds->guests_waiting > 0 && (has_room || rounds->guests == 0))
            checker_fail(w, "C13 a%u: %u guests wait, %u and %u rounds of %u are in flight", index,
                         rounds->guests_waiting, rounds->guests, rounds->in_flight, rounds->limit);
    }
}
