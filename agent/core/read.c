/* Reads a key without changing anything. The answer is made of the masters' replies. This agent's
 * hold is added, unless so many masters reply otherwise that no quorum can have its key. Then it
 * may have been released at another agent, and granted there since. */
#include "internal.h"

#include "core_assert.h"

/* Returns the state as an acquire would find it: free if a quorum has no key, held if so many
 * masters have one that no quorum is left. */
static enum key_state state_of(const struct core_request *request, uint8_t slot)
{
    CORE_ASSERT(round_pending(&request->round) == 0);
    CORE_ASSERT(slot < LIMIT_PERMITS);
    uint8_t quorum = request->round.quorum, total = request->round.total;
    uint8_t present = 0, absent = 0;
    for (uint8_t m = 0; m < total; m++) {
        const struct master_state *state = &request->states[m];
        bool has_key = state->vote == VOTE_YES || state->vote == VOTE_FOREIGN,
             is_taken = has_key && (state->occupant.taken >> slot & 1) != 0;
        present = (uint8_t)(present + is_taken);
        absent = (uint8_t)(absent + (state->vote == VOTE_ABSENT || (has_key && !is_taken)));
    }
    if (absent >= quorum)
        return KEY_FREE;
    return present > total - quorum ? KEY_HELD : KEY_UNKNOWN;
}

/* Returns the state of a semaphore: free if a slot is free, held if all are held (R20). */
static enum key_state states_of(const struct core_request *request, slot_set *ret_taken)
{
    slot_set slots[] = {[KEY_FREE] = 0, [KEY_HELD] = 0, [KEY_UNKNOWN] = 0};
    for (uint8_t slot = 0; slot < request->key->permits; slot++)
        slots[state_of(request, slot)] |= (slot_set)1 << slot;
    *ret_taken = slots[KEY_HELD];
    return slots[KEY_FREE] != 0 ? KEY_FREE : slots[KEY_UNKNOWN] != 0 ? KEY_UNKNOWN : KEY_HELD;
}

/* Returns the least number of readers that a quorum reports. */
static uint32_t readers_of(const struct core_request *request)
{
    uint32_t sorted[LIMIT_MASTERS];
    for (uint8_t m = 0; m < request->round.total; m++) {
        const struct master_state *state = &request->states[m];
        bool reads = state->vote == VOTE_YES && state->occupant.mode == MODE_READ;
        uint32_t readers = reads ? state->occupant.readers : 0;
        uint8_t at = m;
        for (; at > 0 && sorted[at - 1] < readers; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = readers;
    }
    CORE_ASSERT(request->round.quorum >= 1 && request->round.quorum <= request->round.total);
    return sorted[request->round.quorum - 1];
}

/* Returns the numbers of votes. A master on which the key is free has no holder. */
static struct tally tally_of(const struct core_request *request)
{
    struct tally tally = round_tally(&request->round);
    for (uint8_t m = 0; m < request->round.total; m++)
        tally.taken = (uint8_t)(tally.taken - (request->states[m].vote == VOTE_ABSENT));
    return tally;
}

/* Returns true if a quorum may have the key of this agent's hold. */
static bool may_have_key(const struct core_request *request)
{
    uint8_t others = 0, total = request->round.total;
    for (uint8_t m = 0; m < total; m++) {
        enum vote vote = request->states[m].vote;
        bool is_definite = vote == VOTE_YES || vote == VOTE_FOREIGN || vote == VOTE_ABSENT;
        others = (uint8_t)(others + (is_definite && !set_has(request->own_at, m)));
    }
    return total - others >= request->round.quorum;
}

/* Returns true if no quorum has the key of this hold. A slot of a semaphore is then free. A key of
 * FORM_SHARED is free, or held in the other mode. */
static bool is_denied(const struct core_request *request, const struct lock *lock)
{
    uint8_t denials = 0, total = request->round.total;
    uint8_t slot = request->key->form == FORM_SHARED ? 0 : lock->token.slot;
    for (uint8_t m = 0; m < total; m++) {
        const struct master_state *state = &request->states[m];
        bool has_key = state->vote == VOTE_YES || state->vote == VOTE_FOREIGN,
             is_slot_free = has_key && (state->occupant.taken >> slot & 1) == 0,
             is_other_mode =
                 request->key->form == FORM_SHARED && has_key &&
                 (state->vote == VOTE_FOREIGN || state->occupant.mode != lock->terms.mode);
        denials =
            (uint8_t)(denials + (state->vote == VOTE_ABSENT || is_slot_free || is_other_mode));
    }
    return total - denials < request->round.quorum;
}

/* Returns the holds of this agent that no quorum has. They may have been released at another agent,
 * so their renewals become due. */
static slot_set denied_of(struct core *core, const struct core_request *request)
{
    slot_set denied = 0;
    struct key *key = request->key;
    if (key->form != FORM_SHARED && key->form != FORM_SLOTS)
        return 0;
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        const struct lock *lock = CONTAINER_OF(at, struct lock, link);
        bool is_older = instant_before(lock->acquired_at, request->round.started);
        bool is_asked = key_has_slot(key, &lock->token); /* There may have been more permits. */
        if (!is_older || !is_asked || !lock_is_held(core, lock) || !is_denied(request, lock))
            continue;
        denied |= (slot_set)1 << (key->form == FORM_SHARED ? (unsigned)lock->terms.mode
                                                           : lock->token.slot);
        hold_doubted(core, lock);
    }
    return denied;
}

static uint32_t agent_at(const struct core_request *request, uint8_t master)
{
    return request->states[master].occupant.agent & ~(uint32_t)AGENT_ADOPTED;
}

/* Names the agent and the number that a quorum reports. A master that was not needed may keep
 * another number for a while (R12), and a master that was away another agent. */
static void name_holder(const struct core_request *request, struct occupant *holder)
{
    for (uint8_t m = 0; m < request->round.total; m++) {
        uint8_t same = 0;
        for (uint8_t other = 0; other < request->round.total; other++)
            same = (uint8_t)(same + (agent_at(request, m) == agent_at(request, other) &&
                                     request->states[m].occupant.fence ==
                                         request->states[other].occupant.fence));
        if (agent_at(request, m) == 0 || same < request->round.quorum)
            continue;
        holder->agent = agent_at(request, m);
        holder->fence = request->states[m].occupant.fence;
        return;
    }
}

static void read_decided(struct core *core, struct core_request *request)
{
    CORE_ASSERT(round_pending(&request->round) == 0);
    const struct lock *own = request->has_own ? lock_by_ref(core, request->own) : NULL;
    uint32_t readers = readers_of(request);
    struct effect_answer answer = {
        .answer = ANSWER_STATE,
        .tally = tally_of(request),
        .occupant = {.label = metadata_label(&request->metadata),
                     .left_ms = -1,
                     .mode = readers > 0 ? MODE_READ : MODE_WRITE,
                     .readers = readers},
        .masters = request->states,
    };
    answer.state = states_of(request, &answer.occupant.taken);
    answer.denied = denied_of(core, request);
    name_holder(request, &answer.occupant);
    uint8_t has_key = set_size(request->own_at);
    if (own != NULL && lock_is_held(core, own) &&
        (may_have_key(request) || MUTANT(READ_PREFERS_MEMORY))) {
        uint8_t confirmed = lease_confirmed(core, own, core->now);
        answer.local = true;
        answer.hold = lock_view(own);
        answer.hold.confirmed =
            confirmed < has_key || MUTANT(READ_PREFERS_MEMORY) ? confirmed : has_key;
    }
    if (request->follows)
        follow_looked(core, request, &answer);
    else
        request_answer(core, request, answer);
}

void read_begun(struct core *core, struct key *key, struct core_request *request)
{
    CORE_ASSERT(request->key == key && request->state == REQUEST_BEGUN);
    struct group *group = &core->groups[key->group];
    uint8_t total = group->config.masters;
    request->state = REQUEST_READING;
    request->own_at = 0;
    request->metadata.label_len = 0;
    admission_guest_reads(core, request);
    /* Holds of a key that readers share, and of a semaphore, are listed by core_next_hold_of(). */
    const struct lock *holder = key_holder(key);
    request->has_own = key->form != FORM_SHARED && key->form != FORM_SLOTS && holder != NULL &&
                       lock_is_held(core, holder);
    if (request->has_own)
        request->own = lock_ref(holder);
    round_begin(&request->round, OP_READ, total,
                round_quorum(core->policies[key->policy].algorithm, total), group->up, core->now,
                group->config.node_timeout_ms);
    for (uint8_t m = 0; m < total; m++)
        request->states[m] = (struct master_state){
            .vote = set_has(group->up, m) ? VOTE_UNKNOWN : VOTE_NOT_SENT, .occupant.left_ms = -1};
    timers_set(&core->timers, timer_of_request(core, request), request->round.deadline);
    if (group->up != 0)
        outbox_read(core, request, group->up);
    else
        read_decided(core, request);
}

/* Keeps the first label, and then one that a quorum reports. */
static void agree_on_label(struct core_request *request, uint8_t master, struct text label)
{
    uint8_t same = 0;
    uint64_t hash = hash_bytes(0, 0, label.at, label.len);
    request->label_hashes[master] = hash;
    for (uint8_t m = 0; m < request->round.total; m++)
        same = (uint8_t)(same +
                         (request->states[m].vote == VOTE_YES && request->label_hashes[m] == hash));
    if (request->metadata.label_len == 0 || same == request->round.quorum)
        metadata_set_label(&request->metadata, label);
}

void read_reply(struct core *core, struct core_request *request, const struct event_reply *reply)
{
    CORE_ASSERT(request->state == REQUEST_READING);
    CORE_ASSERT(reply->master < request->round.total);
    enum taken taken = round_take(&request->round, reply);
    if (taken == TAKEN_RERUN)
        outbox_read(core, request, set_of(reply->master));
    if (taken != TAKEN_VOTE)
        return;
    struct master_state *state = &request->states[reply->master];
    *state = (struct master_state){.vote = reply->vote, .occupant = reply->occupant};
    state->occupant.label = (struct text){NULL, 0}; /* Its bytes are gone after this step. */
    if (request->key->form != FORM_SLOTS)
        state->occupant.taken = 1;
    if (reply->vote == VOTE_YES && reply->is_own)
        request->own_at |= set_of(reply->master);
    if (reply->vote == VOTE_YES)
        agree_on_label(request, reply->master, reply->occupant.label);
    if (round_pending(&request->round) == 0)
        read_decided(core, request);
}

void read_timer(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_READING);
    round_close(&request->round);
    read_decided(core, request);
}
