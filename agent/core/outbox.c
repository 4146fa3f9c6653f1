/* The effects of a step. Commands for many locks on the same masters are gathered into one (R8); whatever must not be
 * overtaken by them flushes them first, so that each master sees what concerns a key in the order in which it was
 * decided (R5). */
#include "core_assert.h"
#include "state.h"

enum {
    ROOM_FOR_ONE_EVENT = 16, /* effects that one event or timer causes at the most, answers to lists aside */
    ROOM_FOR_BATCHES = 2 * BATCHES,
    ROOM_FOR_ANSWERS = ROOM_FOR_ONE_EVENT + ROOM_FOR_BATCHES,
};

/* For one more event or timer: its effects, and the tokens of the attempts that it begins. */
bool outbox_has_room(const struct core *core)
{
    const struct effects *effects = core->effects;
    return core->entropy.left >= ENTROPY_BYTES_OF_EVENT &&
           effects->count + ROOM_FOR_ANSWERS + ROOM_FOR_ONE_EVENT <= LIMIT_EFFECTS &&
           effects->item_count + core->gathered + ROOM_FOR_ONE_EVENT <= LIMIT_ITEMS;
}

bool outbox_has_room_for_answer(const struct core *core)
{
    return core->effects->count + ROOM_FOR_ANSWERS < LIMIT_EFFECTS;
}

struct effect *outbox_effect(struct core *core, enum effect_kind kind)
{
    struct effects *effects = core->effects;
    CORE_ASSERT(effects->count < LIMIT_EFFECTS);
    struct effect *effect = &effects->list[effects->count++];
    effect->kind = kind;
    return effect;
}

static void put_item(struct core *core, const struct send_item *item)
{
    CORE_ASSERT(core->effects->item_count < LIMIT_ITEMS);
    core->effects->items[core->effects->item_count++] = *item;
}

/* R7, nothing shortens: a key that is created anew lives for as long as those that were there before. */
static uint32_t lease_left_ms(const struct core *core, const struct lock *lock)
{
    int64_t left_us = instant_us_between(core->now, lock->lease_until);
    CORE_ASSERT(left_us > 0 && left_us / 1000 <= TTL_MS_MAX);
    return (uint32_t)((left_us + 999) / 1000);
}

static struct send_item item_of(const struct core *core, const struct lock *lock, enum op op)
{
    struct send_item item = {
        .ref = lock_ref(lock),
        .key = key_text(lock->key),
        .token = lock->token,
        .label = {lock->label, lock->label_len},
        .ttl_ms = op == OP_REPAIR ? lease_left_ms(core, lock) : lock_lease_ms(lock),
        .policy = lock->policy,
        .fencing = lock->fencing,
    };
    item.fair = lock_policy(core, lock)->order == ORDER_FAIR;
    if (item.fair)
        item.ticket = ticket_of(core, lock, op);
    if (op == OP_HANDOVER)
        item.previous = lock->previous;
    if ((op == OP_ACQUIRE || op == OP_HANDOVER) && lock->fencing)
        item.token.fence = fence_proposal(core, lock->group);
    return item;
}

static void put_send(struct core *core, enum op op, uint8_t group, master_set masters, uint16_t count)
{
    CORE_ASSERT(masters != 0);
    outbox_effect(core, EFFECT_SEND)->send = (struct effect_send){
        .op = op,
        .group = group,
        .masters = masters,
        .first = core->effects->item_count,
        .count = count,
    };
}

void outbox_send(struct core *core, struct lock *lock, enum op op, master_set masters)
{
    outbox_flush(core);
    put_send(core, op, lock->group, masters, 1);
    struct send_item item = item_of(core, lock, op);
    put_item(core, &item);
}

void outbox_read(struct core *core, struct request *request, master_set masters)
{
    outbox_flush(core);
    put_send(core, OP_READ, request->key->group, masters, 1);
    put_item(core, &(struct send_item){
                       .ref = {request->slot, request->generation, request->round.number},
                       .key = key_text(request->key),
                       .policy = request->key->policy,
                   });
}

void outbox_withdraw(struct core *core, struct key *key, master_set masters)
{
    outbox_flush(core);
    put_send(core, OP_WITHDRAW, key->group, masters, 1);
    put_item(core, &(struct send_item){
                       .key = key_text(key), .policy = key->policy, .fair = true, .ticket.agent = core->agent});
}

static void flush_batch(struct core *core, struct batch *batch)
{
    if (batch->count == 0)
        return;
    put_send(core, batch->op, batch->group, batch->masters, batch->count);
    for (uint8_t i = 0; i < batch->count; i++)
        put_item(core, &batch->items[i]);
    core->gathered -= batch->count;
    batch->count = 0;
}

void outbox_flush(struct core *core)
{
    for (uint32_t i = 0; i < core->batch_count; i++)
        flush_batch(core, &core->batches[i]);
    core->batch_count = 0;
}

void outbox_gather(struct core *core, struct lock *lock, enum op op, master_set masters)
{
    struct batch *batch = NULL;
    bool fair = op == OP_RELEASE && lock_policy(core, lock)->order == ORDER_FAIR;
    for (uint32_t i = 0; i < core->batch_count && batch == NULL; i++) {
        struct batch *other = &core->batches[i];
        if (other->op == op && other->group == lock->group && other->masters == masters && other->fair == fair)
            batch = other;
    }
    if (batch == NULL) {
        if (core->batch_count == BATCHES)
            outbox_flush(core);
        batch = &core->batches[core->batch_count++];
        batch->op = op, batch->group = lock->group, batch->masters = masters, batch->fair = fair, batch->count = 0;
    }
    batch->items[batch->count++] = item_of(core, lock, op);
    core->gathered++;
    if (batch->count == LIMIT_BATCH)
        flush_batch(core, batch);
}

void outbox_hold(struct core *core, struct lock *lock)
{
    bool released = lock->state == LOCK_RELEASING || lock->state == LOCK_ENDED;
    if (!core->journal)
        return;
    lock->noted = true;
    struct effect_hold *hold = &outbox_effect(core, EFFECT_HOLD)->hold;
    *hold = (struct effect_hold){
        .slot = lock->slot,
        .ended = lock->state != LOCK_HELD,
        .released = released,
        .adopted = lock->adopted && !released,
        .view = lock_view(lock),
        .lease_until = lock->lease_until,
        .secrets = {{lock->owner.bytes, lock->owner.len},
                    {lock->idempotency.bytes, lock->idempotency.len},
                    lock->terms},
    };
    if (lock->bound)
        hold->view.renew = RENEW_CALLER;
    if (released)
        hold->view.valid_until = instant_min(hold->view.valid_until, core->now);
}

void outbox_trace(struct core *core, struct effect_trace trace, const struct lock *lock)
{
    trace.lock = lock_ref(lock);
    trace.valid_until = lock->valid_until;
    trace.key = key_text(lock->key);
    trace.label = (struct text){lock->label, lock->label_len};
    trace.policy = lock->policy;
    trace.group = lock->group;
    trace.fence = lock->token.fence;
    trace.adopted = lock->adopted;
    trace.cause = lock->cause;
    outbox_effect(core, EFFECT_TRACE)->trace = trace;
}
