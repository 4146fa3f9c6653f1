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
static enum key_state state_of(const struct core_request *request)
{
    CORE_ASSERT(round_pending(&request->round) == 0);
    uint8_t quorum = request->round.quorum, total = request->round.total;
    uint8_t present = 0, absent = 0;
    for (uint8_t m = 0; m < total; m++) {
        present = (uint8_t)(present + (request->states[m].vote == VOTE_YES ||
                                       request->states[m].vote == VOTE_FOREIGN));
        absent = (uint8_t)(absent + (request->states[m].vote == VOTE_ABSENT));
    }
    if (absent >= quorum)
        return KEY_FREE;
    return present > total - quorum ? KEY_HELD : KEY_UNKNOWN;
}

static void read_decided(struct core *core, struct core_request *request)
{
    CORE_ASSERT(round_pending(&request->round) == 0);
    const struct lock *holder = key_holder(request->key);
    struct effect_answer answer = {
        .answer = ANSWER_STATE,
        .tally = round_tally(&request->round),
        .retry_after_ms = -1,
        .state = state_of(request),
        .masters = request->states,
    };
    if (holder != NULL && lock_is_held(core, holder)) {
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
        request->states[m] =
            (struct master_state){set_has(group->up, m) ? VOTE_UNKNOWN : VOTE_NOT_SENT, -1};
    timers_set(&core->timers, &request->timer, request->round.deadline);
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
    request->states[reply->master] = (struct master_state){reply->vote, reply->pttl_ms};
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
