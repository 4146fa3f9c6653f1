/* The effects of a step. Commands for many locks on the same masters are gathered into one, over
 * all steps of an iteration of the loop, until EVENT_FLUSH (R1, R8). A command that is sent alone
 * sends the gathered ones first. A command for a key that is gathered later never comes before an
 * earlier one. So each master receives all commands for a key in the order in which they were
 * decided (R5). */
#include "internal.h"

#include "core_assert.h"

/* ---- deadlines of commands ---- */

/* The deadline of a command that creates a key, by the clock of the master that runs it (R5).
 *
 * A command that a connection had in flight when it ended may run at any later time, even after the
 * next holder's. If it created the key then, a quorum could have a token although another caller
 * was granted the lock in between, and an adoption would call that continuous (D3.4). So every
 * command that creates a key has a deadline: the end of the validity that it was sent for. Until
 * then, no other caller can be granted the lock unless the hold is released or the attempt is
 * undone.
 *
 * The agent sends a lower bound of the master's clock, from the last reading of it (R14), and the
 * time for which the master may run the command after that bound:
 *
 *   agent     read  reply          now            end of the validity
 *               \    /              |--------- left ---------|
 *   master       `T-'---------------|--------------->
 *                 T + (now - reply) x (1 - drift)
 *
 * A late reading is as valid: the clock shows at least T when the reply comes. So T is used if it
 * is larger than the bound from the earlier reading. Otherwise the bound would fall behind by the
 * drift while all readings are late, and in the end no repair would come in time.
 *
 * Both values are low estimates, so the deadline is never after the end of the validity. At a
 * master whose clock has jumped since, commands are late until its clock is read again. So are they
 * if the clock was set back so far that it shows less than the bound. If a master's clock was never
 * read, there is no deadline. */

/* Returns the end of the validity (R4): ttl - elapsed - drift, with drift = ttl * rate + 2 ms. */
struct instant deadline_of_validity(const struct core *core, uint8_t group, struct instant from,
                                    uint32_t ttl_ms)
{
    CORE_ASSERT(group < core->group_count);
    CORE_ASSERT(ttl_ms > 0 && ttl_ms <= TTL_MS_MAX);
    int64_t ttl_us = (int64_t)ttl_ms * 1000;
    int64_t drift_us =
        ttl_us * core->groups[group].config.drift_ppm / 1000000 + DRIFT_FIXED_MS * 1000;
    if (MUTANT(NO_DRIFT))
        drift_us = 0;
    return instant_after_us(from, ttl_us - drift_us);
}

/* Returns the deadline of the operation for the lock; INSTANT_NEVER if it creates no key. */
static struct instant deadline_to_create(const struct core *core, const struct lock *lock,
                                         enum op op)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    if (op == OP_ACQUIRE || op == OP_HANDOVER)
        return deadline_of_validity(core, lock->group, lock->acquired_at, lock->terms.ttl_ms);
    if (op == OP_REPAIR && !MUTANT(REPAIR_WITHOUT_DEADLINE))
        return lock->valid_until;
    return INSTANT_NEVER;
}

static int64_t slowly(const struct core *core, uint8_t group, int64_t us)
{
    return us - us * core->groups[group].config.drift_ppm / 1000000;
}

static bool is_any_known(const struct group *group)
{
    for (uint8_t m = 0; m < group->config.masters; m++)
        if (group->masters[m].clock.heard.us != 0)
            return true;
    return false;
}

/* Returns the rest of that deadline in ms of a slow clock; 0 if no master's clock is known. */
static uint32_t deadline_left_ms(const struct core *core, uint8_t group, struct instant deadline)
{
    CORE_ASSERT(group < core->group_count);
    int64_t left_us = instant_us_between(core->now, deadline);
    if (left_us <= 0 || !is_any_known(&core->groups[group]))
        return 0;
    if (left_us / 1000 > TTL_MS_MAX)
        return TTL_MS_MAX;
    return (uint32_t)(slowly(core, group, left_us) / 1000);
}

/* Returns a lower bound of the master's clock now, in ms of unix time; 0: it is not known. */
static int64_t deadline_clock_ms(const struct core *core, uint8_t group, uint8_t master)
{
    CORE_ASSERT(group < core->group_count && master < core->groups[group].config.masters);
    const struct clock_reading *reading = &core->groups[group].masters[master].clock;
    if (reading->heard.us == 0)
        return 0;
    int64_t since_us = instant_us_between(reading->heard, core->now);
    int64_t wall_us = reading->wall_us + slowly(core, group, since_us);
    return wall_us < 1000 ? 0 : wall_us / 1000;
}

void deadline_heard(struct core *core, uint8_t group, uint8_t master,
                    const struct clock_reading *reading, bool is_base)
{
    CORE_ASSERT(group < core->group_count && master < core->groups[group].config.masters);
    CORE_ASSERT(reading->heard.us != 0);
    struct clock_reading *known = &core->groups[group].masters[master].clock;
    int64_t since_us = instant_us_between(known->heard, reading->heard);
    int64_t least_us = known->wall_us + slowly(core, group, since_us);
    if (is_base || known->heard.us == 0 || reading->wall_us > least_us)
        *known = *reading;
}

/* ---- effects ---- */

enum {
    /* Limit of the effects of one event or timer, without answers to lists. */
    ROOM_FOR_ONE_EVENT = 16,
    ROOM_FOR_BATCHES = 2 * BATCHES,
    ROOM_FOR_ANSWERS = ROOM_FOR_ONE_EVENT + ROOM_FOR_BATCHES,
};

bool outbox_has_room(const struct core *core)
{
    CORE_ASSERT(core->effects != NULL);
    const struct effects *effects = core->effects;
    return core->entropy.left >= ENTROPY_BYTES_OF_EVENT &&
           effects->count + ROOM_FOR_ANSWERS + ROOM_FOR_ONE_EVENT <= LIMIT_EFFECTS &&
           effects->item_count + core->gathered + ROOM_FOR_ONE_EVENT <= LIMIT_ITEMS;
}

bool outbox_has_room_for_answer(const struct core *core)
{
    CORE_ASSERT(core->effects != NULL);
    return core->effects->count + ROOM_FOR_ANSWERS < LIMIT_EFFECTS;
}

struct effect *outbox_effect(struct core *core, enum effect_kind kind)
{
    CORE_ASSERT(core->effects != NULL);
    struct effects *effects = core->effects;
    CORE_ASSERT(effects->count < LIMIT_EFFECTS);
    struct effect *effect = &effects->list[effects->count++];
    effect->kind = kind;
    return effect;
}

static void put_item(struct core *core, uint8_t group, const struct send_item *item)
{
    CORE_ASSERT(core->effects->item_count < LIMIT_ITEMS);
    struct send_item *put = &core->effects->items[core->effects->item_count++];
    *put = *item;
    put->left_ms = deadline_left_ms(core, group, item->deadline);
}

/* Returns the lease of a key that is created again: the rest of the hold's longest lease, because
 * nothing shortens (R7). */
static uint32_t lease_left_ms(const struct core *core, const struct lock *lock)
{
    int64_t left_us = instant_us_between(core->now, lock->lease_until);
    CORE_ASSERT(left_us > 0 && left_us / 1000 <= TTL_MS_MAX);
    return (uint32_t)((left_us + 999) / 1000);
}

/* Returns the agent's position in the order, as the command shows it (R9). */
static struct ticket ticket_of(const struct core *core, const struct lock *lock, enum op op)
{
    bool shows = op == OP_ACQUIRE || op == OP_HANDOVER;
    /* The caller of an unknown token did not wait here with a ticket. */
    bool releases = lock->state == LOCK_RELEASING && !lock->stranger;
    bool undoes = lock->state == LOCK_ENDED && lock->pending->ticket != 0;
    struct ticket ticket = {.agent = shows || releases || undoes ? core->agent : 0,
                            .mode = lock->terms.mode};
    if (releases || undoes) {
        ticket.number = lock->pending->ticket;
        ticket.ttl_ms = lock->pending->ticket == 0 ? 0 : TICKET_MS;
        if (releases)
            ticket.mode = lock->pending->ticket_mode;
        if (lock->pending->ticket_is_left)
            ticket.agent = 0;
    } else if (shows) {
        ticket.number =
            op == OP_HANDOVER && MUTANT(HANDOVER_JUMPS_LINE) ? 1 : lock->pending->ticket;
        ticket.ttl_ms = !lock->pending->ticket_is_kept || lock->key->contention->tickets.unreachable
                            ? 0
                            : TICKET_MS;
        ticket.fresh = lock->pending->ticket_is_fresh && !MUTANT(TICKET_NOT_RAISED);
    }
    return ticket;
}

/* Returns the name of this agent in the value (D3.3). A late release that this agent sent by itself
 * for a hold that it granted must not delete the same hold after its adoption. */
static uint32_t agent_in_value(const struct core *core, bool adopts)
{
    return core->value_agent | (adopts && !MUTANT(ADOPTS_BY_ONE_NAME) ? AGENT_ADOPTED : 0);
}

/* Returns the number that an attempt proposes. Masters that are asked again by script all get the
 * same one, so that no second phase is needed (R12). */
static uint64_t proposal_of(struct core *core, const struct lock *lock)
{
    struct pending_operation *pending = lock->pending;
    bool is_again = pending->proposed != 0;
    if (is_again && pending->proposed_again == 0)
        pending->proposed_again = fence_propose(core, lock->group);
    return is_again ? pending->proposed_again : fence_propose(core, lock->group);
}

/* Returns the label that masters store (D3.9). An adoption takes theirs if its PUT names none. */
static struct text label_of_item(const struct lock *lock, enum op op)
{
    bool is_theirs = op == OP_ADOPT && !lock->relabels && !MUTANT(ADOPTION_RELABELS);
    return is_theirs ? (struct text){NULL, 0} : lock_label(lock);
}

static struct send_item item_of(struct core *core, const struct lock *lock, enum op op)
{
    CORE_ASSERT(lock->state != LOCK_FREE);
    struct send_item item = {
        .ref = lock_ref(lock),
        .key = key_text(lock->key),
        .token = lock->token,
        .label = label_of_item(lock, op),
        .ttl_ms = op == OP_REPAIR ? lease_left_ms(core, lock) : lock_lease_ms(lock),
        .deadline = deadline_to_create(core, lock, op),
        .policy = lock->policy,
        .permits = lock->key->permits,
        .fencing = lock->fencing,
    };
    item.form = lock->key->form;
    item.mode = lock->terms.mode;
    if (form_is_fair(item.form))
        item.ticket = ticket_of(core, lock, op);
    if (op == OP_HANDOVER) {
        item.previous = lock->pending->previous;
        item.previous_agent = agent_in_value(core, lock->pending->previous_adopted);
    }
    item.agent = agent_in_value(core, lock->adopted || lock->state == LOCK_ADOPTING);
    item.asked = (op == OP_HANDOVER ? lock->pending->previous_given_back : lock->given_back) ||
                 MUTANT(RELEASE_BY_RANDOM);
    bool is_proved = op == OP_RELEASE && lock->pending->is_proved;
    item.numbered = lock->stranger && lock->fencing && !is_proved && !MUTANT(STRANGER_BY_RANDOM);
    item.untold = op == OP_RELEASE && lock->pending->untold;
    item.voted = op == OP_RELEASE && !item.asked && lock_release_may_answer(lock);
    if ((op == OP_ACQUIRE || op == OP_HANDOVER) && lock->fencing)
        item.token.fence = proposal_of(core, lock);
    return item;
}

static void put_send(struct core *core, enum op op, uint8_t group, master_set masters,
                     uint16_t count, bool native)
{
    CORE_ASSERT(masters != 0);
    CORE_ASSERT((masters & ~set_first(core->groups[group].config.masters)) == 0);
    CORE_ASSERT(count >= 1 && count <= LIMIT_BATCH);
    struct effect_send *send = &outbox_effect(core, EFFECT_SEND)->send;
    *send = (struct effect_send){
        .op = op,
        .group = group,
        .masters = masters,
        .first = core->effects->item_count,
        .count = count,
        .native = native,
    };
    if (!op_creates(op))
        return;
    /* The deadline counts from these bounds (R5). */
    for (uint8_t m = 0; m < core->groups[group].config.masters; m++)
        if (set_has(masters, m))
            send->clocks_ms[m] = deadline_clock_ms(core, group, m);
}

static void send_one(struct core *core, struct lock *lock, enum op op, master_set masters,
                     bool was_set)
{
    if (!MUTANT(SENT_OVERTAKES))
        outbox_flush(core);
    put_send(core, op, lock->group, masters, 1, /* native= */ false);
    struct send_item item = item_of(core, lock, op);
    item.was_set = was_set;
    put_item(core, lock->group, &item);
}

void outbox_send(struct core *core, struct lock *lock, enum op op, master_set masters)
{
    send_one(core, lock, op, masters, /* was_set= */ false);
}

bool outbox_takes(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    enum taken taken = round_take(&lock->round, reply);
    master_set from = set_of(reply->master);
    if (reply->vote == VOTE_BY_SCRIPT && reply->is_set)
        lock->was_set |= from;
    if (taken == TAKEN_RERUN)
        send_one(core, lock, reply->op, from, set_has(lock->was_set, reply->master));
    return taken == TAKEN_VOTE;
}

void outbox_read(struct core *core, struct core_request *request, master_set masters)
{
    CORE_ASSERT(request->state == REQUEST_READING);
    outbox_flush(core);
    put_send(core, OP_READ, request->key->group, masters, 1, /* native= */ false);
    const struct lock *own = request->has_own ? lock_by_ref(core, request->own) : NULL;
    put_item(core, request->key->group,
             &(struct send_item){
                 .asked = own != NULL,
                 .token = own != NULL ? own->token : (struct token){.fence = 0},
                 .agent = core->value_agent,
                 .ref = {request->slot, request->generation, request->round.number},
                 .key = key_text(request->key),
                 .policy = request->key->policy,
                 .permits = request->key->permits,
                 .form = request->key->form,
             });
}

void outbox_withdraw(struct core *core, struct key *key, master_set masters)
{
    if (!MUTANT(SENT_OVERTAKES))
        outbox_flush(core);
    put_send(core, OP_WITHDRAW, key->group, masters, 1, /* native= */ false);
    put_item(core, key->group,
             &(struct send_item){.key = key_text(key),
                                 .policy = key->policy,
                                 .form = key->form,
                                 .ticket.agent = core->agent});
}

void outbox_flush(struct core *core)
{
    for (uint32_t at = 0; at < core->batch_count; at++) {
        const struct batch *batch = &core->batches[at];
        CORE_ASSERT(batch->count > 0 && core->gathered >= batch->count);
        put_send(core, batch->kind.op, batch->kind.group, batch->kind.masters, batch->count,
                 batch->kind.native);
        for (uint8_t i = 0; i < batch->count; i++)
            put_item(core, batch->kind.group, &batch->items[i]);
        core->gathered -= batch->count;
    }
    core->batches_sent += core->batch_count;
    core->batch_count = 0;
}

bool outbox_gathers(const struct core *core)
{
    return core->batch_count > 0;
}

static bool is_gathered(const struct core *core, const struct key *key)
{
    CORE_ASSERT(key->batch <= core->batches_sent + core->batch_count);
    return key->batch > core->batches_sent;
}

void outbox_let_go(struct core *core, const struct key *key)
{
    if (is_gathered(core, key))
        outbox_flush(core);
}

/* Returns the batch for an item. It is not before the last batch that names the item's key.
 * Otherwise the item would overtake an earlier command for the key (R5). */
static struct batch *batch_for(struct core *core, const struct key *key,
                               const struct batch_kind *kind)
{
    uint64_t at = is_gathered(core, key) && !MUTANT(GATHERED_OVERTAKES)
                      ? key->batch - core->batches_sent - 1
                      : 0;
    for (; at < core->batch_count; at++) {
        struct batch_kind *other = &core->batches[at].kind;
        if (other->op == kind->op && other->group == kind->group &&
            other->masters == kind->masters && other->native == kind->native &&
            other->fencing == kind->fencing &&
            (other->form == kind->form || MUTANT(BATCH_MIXES_FORMS)))
            return &core->batches[at];
    }
    if (core->batch_count == BATCHES)
        outbox_flush(core);
    struct batch *begun = &core->batches[core->batch_count++];
    begun->kind = *kind;
    begun->count = 0;
    return begun;
}

/* Returns the form that matters for a batch. Fair locks and slots are plain locks for all
 * operations but attempts and releases. */
static enum form form_of_batch(enum form form, enum op op)
{
    bool is_plain = form == FORM_FAIR || form == FORM_SLOTS;
    return is_plain && op != OP_ACQUIRE && op != OP_RELEASE ? FORM_PLAIN : form;
}

static struct instant *refused_until(struct core *core, const struct key *key)
{
    return &core->refused_until[key->hash % REFUSED_KEYS];
}

void outbox_refused(struct core *core, const struct key *key)
{
    *refused_until(core, key) = instant_after_ms(core->now, REFUSED_MS);
}

/* Returns true if the release is the first one that a holder asks for, of a hold that this agent
 * knows: then the whole value is known. */
static bool is_holders_release(const struct lock *lock)
{
    return lock->state == LOCK_RELEASING && lock->given_back && !lock->stranger &&
           !lock->pending->untold;
}

/* Returns true if the attempt or the release may go by native commands (R24). */
static bool is_native(struct core *core, const struct lock *lock, enum op op)
{
    bool is_form =
        form_is_native(lock->key->form) || (MUTANT(NATIVE_FAIR) && lock->key->form == FORM_FAIR);
    bool is_op = op == OP_ACQUIRE || (op == OP_RELEASE && is_holders_release(lock));
    return is_op && is_form && !instant_before(core->now, *refused_until(core, lock->key));
}

static void gather(struct core *core, struct lock *lock, enum op op, master_set masters,
                   bool unproved)
{
    CORE_ASSERT(masters != 0);
    bool native = is_native(core, lock, op);
    struct batch_kind kind = {.op = op,
                              .group = lock->group,
                              .masters = masters,
                              .form = form_of_batch(lock->key->form, op),
                              .native = native,
                              .fencing = native && op == OP_ACQUIRE && lock->fencing};
    struct batch *batch = batch_for(core, lock->key, &kind);
    CORE_ASSERT(batch->count < LIMIT_BATCH);
    struct send_item *item = &batch->items[batch->count++];
    *item = item_of(core, lock, op);
    item->unproved = unproved;
    if (native && op == OP_ACQUIRE) {
        lock->uncounted = masters;
        lock->was_set = 0;
        lock->pending->proposed = item->token.fence;
    } else if (native) {
        lock->pending->untold = true;
    }
    core->gathered++;
    lock->key->batch = core->batches_sent + (uint64_t)(batch - core->batches) + 1;
    if (batch->count == LIMIT_BATCH)
        outbox_flush(core);
}

void outbox_gather(struct core *core, struct lock *lock, enum op op, master_set masters)
{
    CORE_ASSERT(op != OP_REPAIR);
    gather(core, lock, op, masters, /* unproved= */ false);
}

void outbox_gather_repair(struct core *core, struct lock *lock, master_set masters, bool unproved)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    gather(core, lock, OP_REPAIR, masters, unproved && !MUTANT(UNPROVED_REPAIR));
}

void outbox_hold(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state >= LOCK_HELD);
    bool is_over = lock->state == LOCK_RELEASING || lock->state == LOCK_ENDED,
         given_back = is_over && (lock->given_back || MUTANT(END_GIVES_BACK)),
         runs_out = is_over && !given_back && lock->pending->was_lost;
    if (!core->journal)
        return;
    lock->noted = true;
    struct effect_hold *effect = &outbox_effect(core, EFFECT_HOLD)->hold;
    *effect = (struct effect_hold){
        .slot = lock->slot,
        .hold = {.key = key_text(lock->key),
                 .token = lock->token,
                 .ended = lock->state != LOCK_HELD,
                 .released = given_back,
                 .adopted = lock->adopted && !given_back,
                 .delivered = lock->delivered,
                 .acquired_at = lock->acquired_at,
                 .valid_until = is_over && !runs_out ? instant_min(lock->valid_until, core->now)
                                                     : lock->valid_until,
                 .max_hold_until = lock->max_hold_until,
                 .lease_until = lock->lease_until,
                 .terms = lock->terms,
                 .metadata = lock_metadata_copy(lock)},
    };
    if (lock->terms.bound)
        effect->hold.terms.renew = RENEW_CALLER, effect->hold.terms.bound = false;
}

void outbox_forget(struct core *core, struct lock *lock)
{
    if (!lock->noted)
        return;
    lock->noted = false;
    outbox_effect(core, EFFECT_HOLD)->hold =
        (struct effect_hold){.slot = lock->slot, .forgotten = true};
}

void outbox_trace(struct core *core, struct effect_trace trace, const struct lock *lock)
{
    CORE_ASSERT(trace.kind != TRACE_STALLED && trace.kind != TRACE_CLOCK_GAINED);
    CORE_ASSERT(lock->key != NULL);
    trace.lock = lock_ref(lock);
    trace.valid_until = lock->valid_until;
    trace.key = key_text(lock->key);
    trace.label = lock_label(lock);
    trace.policy = lock->policy;
    trace.group = lock->group;
    trace.fence = lock->token.fence;
    trace.slot = lock->token.slot;
    trace.adopted = lock->adopted;
    trace.cause = lock->cause;
    if (lock->key->contention != NULL)
        trace.queued_us = lock->key->contention->admission.waited_us;
    outbox_effect(core, EFFECT_TRACE)->trace = trace;
}
