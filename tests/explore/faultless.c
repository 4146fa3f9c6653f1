/* Promises to callers in a schedule without a fault, or with one fault of one connection: a quorum
 * does not need that one. Nothing takes time there, so the orders and delays that the rules leave
 * to chance and to slow networks do not show.
 *
 *   C11  With `order: fair` no request is granted a key while an earlier one waits for it. A reader
 *        passes readers, and a writer that is behind readers of its own agent (R18).
 *   C6   A free key is not left alone while a request waits for it. Its release was published, and
 *        the agent that received the message tries at once (R9, R18, R20, R22).
 *
 * Both look at callers and at the masters' keys, never at tickets, messages or cores. */
#include "explore.h"

#include "tests/keyspace/keyspace.h"

enum {
    EARLIER_US = 5000, /* A caller that came within this time of another one came beside it. */
    HEARD_US = 50000,  /* At most so long after a key is free a waiter has it. */
};

static const struct request *waiting_request(uint8_t caller)
{
    const struct request *request = world.callers[caller].request;
    bool waits = request != NULL && request->kind == EVENT_ACQUIRE && request->wait_ms > 0 &&
                 request->state == REQUEST_OPEN;
    return waits ? request : NULL;
}

static bool is_of_connection(const struct choice *fault)
{
    return (fault->kind >= CHOICE_HOLD_OUT && fault->kind <= CHOICE_CUT_LATER) ||
           fault->kind == CHOICE_DOUBLE || fault->kind == CHOICE_LOSE_SIGNAL ||
           fault->kind == CHOICE_REFUSE;
}

void faultless_fails(const struct choice *fault)
{
    scene.has_failed = scene.has_failed || scene.is_hampered || scene.script->needs_each ||
                       !is_of_connection(fault);
    scene.is_hampered = true;
}

static bool is_watched(void)
{
    return !world.healed && !scene.has_failed;
}

/* ---- C11 ---- */

/* No other request of the key came to its agent before it, and waits still. */
static bool is_first_there(const struct request *request)
{
    for (uint8_t c = 0; c < world.caller_count; c++) {
        const struct request *other = waiting_request(c);
        if (other != NULL && other->agent == request->agent && other->key == request->key &&
            other->arrived < request->arrived)
            return false;
    }
    return true;
}

static bool may_pass(const struct request *request, const struct request *other)
{
    return request->mode == MODE_READ && (other->mode == MODE_READ || !is_first_there(other));
}

/* Returns true if the agent reports a hold of the key that is written, or a mutex. Until that has
 * ended, no caller contends there, even if the key was released at another agent (R11). */
static bool is_held_at(uint8_t agent, uint8_t key)
{
    for (uint8_t place = 0; place < options_places(&world.options); place++) {
        const struct hold *hold = world.agents[agent].held[place];
        while (hold != NULL && hold->mode == MODE_READ)
            hold = hold->tenures[agent].next;
        if (hold != NULL && options_key_of(&world.options, place) == key)
            return true;
    }
    return false;
}

void faultless_granted(const struct request *request)
{
    for (uint8_t c = 0; c < world.caller_count && is_watched() && world.options.fair; c++) {
        const struct request *other = waiting_request(c);
        if (other == NULL || other->key != request->key || may_pass(request, other) ||
            is_held_at(other->agent, other->key))
            continue;
        if (other->asked_at + EARLIER_US < request->asked_at)
            checker_fail(&world, "C11 c%u at a%u is granted k%u before c%u at a%u, which waits",
                         request->caller, request->agent, request->key, c, other->agent);
    }
}

/* ---- C6 ---- */

/* Nothing there keeps a request from the key; `reads`: nothing that writes. */
static bool is_free_at(uint8_t master, uint8_t place, bool reads)
{
    if (master_next_end_ms(&world, master, place) == INT64_MAX)
        return true;
    const struct keyspace *keyspace = world.masters[master].keyspace;
    const struct entry *entry =
        keyspace_find(world.masters[master].keyspace, master_lock_name(place));
    int64_t now_ms = keyspace->now_us / 1000;
    bool is_read = reads && entry->type == VALUE_SORTED;
    for (uint32_t i = 0; is_read && i < entry->field_count; i++)
        is_read = entry->fields[i].name.at[0] == 'r' || entry->fields[i].score <= (double)now_ms;
    return is_read;
}

/* No master keeps it from one that wants it. Beside readers there is room for readers, unless a
 * writer waits as well. */
static bool is_free_for(const struct request *request)
{
    bool writes = request->mode == MODE_WRITE;
    for (uint8_t c = 0; c < world.caller_count; c++) {
        const struct request *other = waiting_request(c);
        writes =
            writes || (other != NULL && other->key == request->key && other->mode == MODE_WRITE);
    }
    for (uint8_t place = request->key; place < options_places(&world.options);
         place = (uint8_t)(place + world.options.keys)) {
        bool is_free = true;
        for (uint8_t m = 0; m < world.options.masters; m++)
            is_free = is_free && is_free_at(m, place, !writes);
        if (is_free)
            return true;
    }
    return false;
}

static bool is_left_alone(void)
{
    for (uint8_t c = 0; c < world.caller_count; c++) {
        const struct request *request = waiting_request(c);
        if (request != NULL && request->asked_at < world.now &&
            !is_held_at(request->agent, request->key) && is_free_for(request))
            return true;
    }
    return false;
}

void faultless_time_passes(int64_t until)
{
    if (!is_watched() || world.switches.forgetful || !is_left_alone())
        scene.idle_since = 0;
    else if (scene.idle_since == 0)
        scene.idle_since = world.now;
    if (scene.idle_since != 0 && until - scene.idle_since > HEARD_US)
        checker_fail(&world, "C6 a key is free for %lld us, and a request waits for it",
                     (long long)(until - scene.idle_since));
}
