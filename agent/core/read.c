/* Looking at a key without changing anything: on all masters, or what this agent holds. */
#include <string.h>

#include "core_assert.h"
#include "state.h"

/* Held or free as an acquire would find it: free when a quorum has no key, held when so many have one that no quorum is
 * left. */
static enum key_state state_of(const struct request *request)
{
    uint8_t quorum = request->round.quorum, total = request->round.total;
    uint8_t present = 0, absent = 0;
    for (uint8_t m = 0; m < total; m++) {
        present = (uint8_t)(present + (request->states[m].vote == VOTE_YES || request->states[m].vote == VOTE_FOREIGN));
        absent = (uint8_t)(absent + (request->states[m].vote == VOTE_ABSENT));
    }
    if (absent >= quorum)
        return KEY_FREE;
    return present > total - quorum ? KEY_HELD : KEY_UNKNOWN;
}

static void read_decided(struct core *core, struct request *request)
{
    struct lock *live = request->key->live;
    struct effect_answer answer = {
        .answer = ANSWER_STATE,
        .tally = round_tally(&request->round),
        .retry_after_ms = -1,
        .state = state_of(request),
        .masters = request->states,
    };
    if (live != NULL && lock_is_held(core, live)) {
        answer.local = true;
        answer.hold = lock_view(live);
        answer.holder = answer.hold.label;
    } else {
        answer.holder = (struct text){request->label, request->label_len};
    }
    request_answer(core, request, answer);
}

void read_begun(struct core *core, struct key *key, struct request *request)
{
    struct group *group = &core->groups[key->group];
    uint8_t total = group->config.masters;
    request->state = REQUEST_READING;
    round_begin(&request->round, OP_READ, total, round_quorum(core->policies[key->policy].algorithm, total), group->up,
                core->now, group->config.node_timeout_ms);
    for (uint8_t m = 0; m < total; m++)
        request->states[m] = (struct master_state){set_has(group->up, m) ? VOTE_UNKNOWN : VOTE_NOT_SENT, -1};
    timers_set(&core->timers, &request->timer, request->round.deadline);
    if (group->up != 0)
        outbox_read(core, request, group->up);
    else
        read_decided(core, request);
}

void read_reply(struct core *core, struct request *request, const struct event_reply *reply)
{
    struct round *round = &request->round;
    if (round_wants_rerun(round, reply->master, reply->vote)) {
        outbox_read(core, request, set_of(reply->master));
        return;
    }
    request->states[reply->master] = (struct master_state){reply->vote, reply->pttl_ms};
    if (reply->vote == VOTE_YES && request->label_len == 0 && reply->holder.len > 0) {
        request->label_len = (uint8_t)(reply->holder.len < LIMIT_LABEL_BYTES ? reply->holder.len : LIMIT_LABEL_BYTES);
        memcpy(request->label, reply->holder.at, request->label_len);
    }
    round_vote(round, reply->master, reply->vote);
    if (round_pending(round) == 0)
        read_decided(core, request);
}

void read_timer(struct core *core, struct request *request)
{
    round_close(&request->round);
    read_decided(core, request);
}

bool core_find_hold(const struct core *core, struct text key, struct instant now, struct hold_view *ret_view,
                    struct lock_ref *ret_lock)
{
    const struct key *found = key_find(core, key);
    const struct lock *live = found == NULL ? NULL : found->live;
    if (live == NULL || live->state != LOCK_HELD || !instant_before(now, live->valid_until))
        return false;
    *ret_view = lock_view(live);
    *ret_lock = lock_ref(live);
    return true;
}
