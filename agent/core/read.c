/* Looking at a key without changing anything: on all masters, or what this agent holds. */
#include "read.h"

#include "core_assert.h"
#include "key_table.h"
#include "lease.h"
#include "lock_table.h"
#include "outbox.h"
#include "requests.h"

/* Held or free as an acquire would find it: free when a quorum has no key, held when so many have
 * one that no quorum is left. */
static enum key_state state_of(const struct core_request *request, uint8_t slot)
{
    CORE_ASSERT(round_pending(&request->round) == 0);
    CORE_ASSERT(slot < LIMIT_PERMITS);
    uint8_t quorum = request->round.quorum, total = request->round.total;
    uint8_t present = 0, absent = 0;
    for (uint8_t m = 0; m < total; m++) {
        const struct master_state *state = &request->states[m];
        bool has_key = state->vote == VOTE_YES || state->vote == VOTE_FOREIGN,
             is_taken = has_key && (state->taken >> slot & 1) != 0;
        present = (uint8_t)(present + is_taken);
        absent = (uint8_t)(absent + (state->vote == VOTE_ABSENT || (has_key && !is_taken)));
    }
    if (absent >= quorum)
        return KEY_FREE;
    return present > total - quorum ? KEY_HELD : KEY_UNKNOWN;
}

/* Of a semaphore: free when a slot is, held when all are (R20). */
static enum key_state states_of(const struct core_request *request, uint8_t *ret_taken)
{
    uint8_t counts[] = {[KEY_FREE] = 0, [KEY_HELD] = 0, [KEY_UNKNOWN] = 0};
    for (uint8_t slot = 0; slot < request->key->permits; slot++)
        counts[state_of(request, slot)]++;
    *ret_taken = counts[KEY_HELD];
    return counts[KEY_FREE] > 0 ? KEY_FREE : counts[KEY_UNKNOWN] > 0 ? KEY_UNKNOWN : KEY_HELD;
}

/* As many as a quorum says there are at least. */
static uint32_t readers_of(const struct core_request *request)
{
    uint32_t sorted[LIMIT_MASTERS];
    for (uint8_t m = 0; m < request->round.total; m++) {
        bool reads = request->states[m].vote == VOTE_YES && request->states[m].mode == MODE_READ;
        uint32_t readers = reads ? request->states[m].readers : 0;
        uint8_t at = m;
        for (; at > 0 && sorted[at - 1] < readers; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = readers;
    }
    CORE_ASSERT(request->round.quorum >= 1 && request->round.quorum <= request->round.total);
    return sorted[request->round.quorum - 1];
}

/* A master where the key is free has voted for nobody. */
static struct tally tally_of(const struct core_request *request)
{
    struct tally tally = round_tally(&request->round);
    for (uint8_t m = 0; m < request->round.total; m++)
        tally.taken = (uint8_t)(tally.taken - (request->states[m].vote == VOTE_ABSENT));
    return tally;
}

static void read_decided(struct core *core, struct core_request *request)
{
    CORE_ASSERT(round_pending(&request->round) == 0);
    const struct link *first = list_first(&request->key->holds);
    const struct lock *holder = first == NULL ? NULL : CONTAINER_OF(first, const struct lock, link);
    uint32_t readers = readers_of(request);
    struct effect_answer answer = {
        .answer = ANSWER_STATE,
        .tally = tally_of(request),
        .retry_after_ms = -1,
        .masters = request->states,
        .readers = readers,
        .mode = readers > 0 ? MODE_READ : MODE_WRITE,
    };
    answer.state = states_of(request, &answer.taken);
    if (holder != NULL && !request->key->is_shared && lock_is_held(core, holder)) {
        answer.local = true;
        answer.hold = lock_view(holder);
        answer.hold.confirmed = lease_confirmed(core, holder, core->now);
        answer.holder = answer.hold.label;
    } else {
        answer.holder = words_label(&request->words);
    }
    request_answer(core, request, answer);
}

void read_begun(struct core *core, struct key *key, struct core_request *request)
{
    CORE_ASSERT(request->key == key && request->state == REQUEST_BEGUN);
    struct group *group = &core->groups[key->group];
    uint8_t total = group->config.masters;
    request->state = REQUEST_READING;
    round_begin(&request->round, OP_READ, total,
                round_quorum(core->policies[key->policy].algorithm, total), group->up, core->now,
                group->config.node_timeout_ms);
    for (uint8_t m = 0; m < total; m++)
        request->states[m] = (struct master_state){
            .vote = set_has(group->up, m) ? VOTE_UNKNOWN : VOTE_NOT_SENT, .pttl_ms = -1};
    timers_set(&core->timers, timer_of_request(core, request), request->round.deadline);
    if (group->up != 0)
        outbox_read(core, request, group->up);
    else
        read_decided(core, request);
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
    request->states[reply->master] =
        (struct master_state){.vote = reply->vote,
                              .pttl_ms = reply->pttl_ms,
                              .taken = request->key->permits == 1 ? 1 : reply->taken,
                              .mode = reply->mode,
                              .readers = reply->readers};
    if (reply->vote == VOTE_YES && request->words.label_len == 0) {
        size_t len = reply->holder.len < LIMIT_LABEL_BYTES ? reply->holder.len : LIMIT_LABEL_BYTES;
        words_set_label(&request->words, (struct text){reply->holder.at, len});
    }
    if (round_pending(&request->round) == 0)
        read_decided(core, request);
}

void read_timer(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_READING);
    round_close(&request->round);
    read_decided(core, request);
}
