/* Sends the core's operations, and reports each item exactly once per master. */
#include "agent/core/core_assert.h"
#include "agent/redis/asking.h"
#include "agent/redis/internal.h"
#include "agent/redis/replies.h"

/* ---- reports ---- */

/* Reports redis->replies in one event. */
static void report_replies(struct master *master, const struct command *command)
{
    struct redis *redis = master->redis;
    for (unsigned i = 0; i < command->count; i++) {
        struct event_reply *reply = &redis->replies[i];
        reply->group = master->group;
        reply->master = master->index;
        reply->op = command->op;
        reply->ref = command->refs[i];
    }
    struct event event = {.kind = EVENT_REPLIES, .replies = {redis->replies, command->count}};
    redis->sink.event(redis->sink.arg, &event);
}

static void report_outcome(struct master *master, const struct command *command,
                           enum redis_outcome outcome)
{
    struct redis_sink *sink = &master->redis->sink;
    int64_t latency_us = -1;
    if (outcome != REDIS_OUTCOME_NOT_SENT)
        latency_us = (int64_t)((uv_hrtime() - command->sent_at_ns) / 1000);
    sink->observe(sink->arg, master->group, master->index, command->op, outcome, latency_us);
}

/* Reports the same vote for every item of a command without a reply. */
static void report_same(struct master *master, const struct command *command,
                        enum redis_outcome outcome, enum vote vote)
{
    report_outcome(master, command, outcome);
    for (unsigned i = 0; i < command->count; i++)
        master->redis->replies[i] = (struct event_reply){.vote = vote, .occupant.left_ms = -1};
    report_replies(master, command);
}

static void report_none(struct master *master, const struct command *command,
                        enum redis_outcome outcome)
{
    report_same(master, command, outcome, vote_of_outcome(outcome));
}

/* ---- replies ---- */

/* Acts on the meaning of the reply for the master, before its items are reported. So the core does
 * not ask for an item again on a master that cannot serve. After a NOSCRIPT the scripts are sent
 * before that as well. */
static void judge(struct master *master, enum redis_outcome worst, const char *error)
{
    if (worst == REDIS_OUTCOME_OK)
        master_answered_well(master);
    else if (worst == REDIS_OUTCOME_NOSCRIPT)
        upkeep_reload_scripts(master);
    else
        service_refused(master, worst, error);
}

/* After a reply that is not a possible one, no later reply can be assigned to its command. */
void operations_heard(struct master *master, const struct command *command, const redisReply *reply,
                      bool sent)
{
    if (reply == NULL) {
        report_none(master, command, sent ? REDIS_OUTCOME_LOST : REDIS_OUTCOME_NOT_SENT);
        return;
    }
    if (!reply_is_possible(command->op, command->count, reply))
        master_makes_no_sense(master, op_name(command->op));
    struct event_reply *replies = master->redis->replies;
    const char *error = NULL;
    enum redis_outcome worst = reply_read(command->op, command->count, reply, replies, &error);
    judge(master, worst, error);
    report_outcome(master, command, worst);
    const char *epoch = reply_epoch(command->op, reply);
    if (epoch != NULL)
        marker_heard_epoch(master, epoch); /* Before the votes, which belong to that epoch (R7). */
    for (unsigned i = 0; i < command->count; i++) {
        bool takes_lock = command->op == OP_ACQUIRE || command->op == OP_HANDOVER;
        if (replies[i].vote == VOTE_GUARDED && takes_lock)
            marker_heard_guarded(master, replies[i].occupant.left_ms);
        if (command->unreplicated) { /* Too few replicas have it (R21). */
            replies[i].vote = replicas_vote(command->op, replies[i].vote);
            master->view.unreplicated += replies[i].vote == VOTE_UNREPLICATED;
        }
    }
    report_replies(master, command);
}

/* ---- sending ---- */

static void queue_unsent(struct redis *redis, struct command *command)
{
    command->references++;
    command->next = NULL;
    *redis->unsent_end = command;
    redis->unsent_end = &command->next;
    redis_wake(redis);
}

/* Sends to one master: the bytes that all masters get, and the arguments of this one. */
static bool send_to(struct master *master, struct command *command, struct text bytes,
                    int64_t clock_ms, const struct proposals *proposals)
{
    char vote_bytes[ASKING_VOTE_BYTES], own_bytes[ASKING_OWN_BYTES];
    struct text own = nothing_own(), vote = {"", 0};
    bool takes_lock = command->op == OP_ACQUIRE || command->op == OP_HANDOVER;
    if (master->phase != PHASE_READY || (takes_lock && master_guard_state(master) == GUARD_UNSURE))
        return false;
    if (proposals != NULL && marker_gate(master->redis, master->group) != GUARD_OPEN)
        vote = asking_no_vote();
    else if (proposals != NULL)
        vote = asking_vote(vote_bytes, &master->redis->guards[master->group], master->index,
                           redis_now(), proposals);
    if (asking_has_own(command->op))
        own = asking_own(own_bytes, clock_ms, vote);
    return pipeline_append(master->pipeline, command, bytes, own);
}

/* Ends the connections to the command's masters. There is neither memory nor a spare command, so
 * the items could not be reported later. Without a reply they count as unknown (R3). */
static void give_up_sending(struct redis *redis, const struct effect_send *send)
{
    for (unsigned i = 0; send->masters >> i; i++) {
        struct pipeline *pipeline = redis->by_group[send->group][i].pipeline;
        if ((send->masters >> i & 1) && pipeline != NULL)
            pipeline_condemn(pipeline, "out of memory");
    }
}

void redis_send(struct redis *redis, const struct effect_send *send, const struct send_item *items)
{
    const struct config *config = redis->config;
    CORE_ASSERT(send->group < config->group_count && send->op < OP_COUNT);
    CORE_ASSERT(send->count >= 1 && send->count <= (op_is_gathered(send->op) ? LIMIT_BATCH : 1));
    CORE_ASSERT(send->masters != 0 &&
                send->masters >> config->groups[send->group].master_count == 0);
    struct text bytes = asking_op(&redis->resp, config, send->group, send->op, items, send->count);
    struct command *command = command_new(&redis->pool, operations_heard, send->count);
    if (command == NULL) {
        give_up_sending(redis, send);
        return;
    }
    command->of_core = true;
    command->op = send->op;
    command->group = send->group;
    command->references = 1;
    bool votes = asking_names_vote(config, send->group, send->op);
    struct proposals proposals = asking_proposals(config, items, send->count);
    master_set sent = 0;
    for (unsigned i = 0; i < send->count; i++)
        command->refs[i] = items[i].ref;
    for (unsigned i = 0; send->masters >> i; i++) {
        struct master *master = &redis->by_group[send->group][i];
        bool is_asked = send->masters >> i & 1;
        if (!is_asked)
            continue;
        bool is_unfit = send->op == OP_ACQUIRE && master_is_unfit(master);
        command->unfit |= (master_set)(is_unfit ? 1u << i : 0u);
        if (!is_unfit &&
            send_to(master, command, bytes, send->clocks_ms[i], votes ? &proposals : NULL)) {
            replicas_sent(&master->pipeline->replicas, send->op, redis_now());
            sent |= (master_set)(1u << i);
        }
    }
    command->unsent = send->masters & (master_set)~sent;
    if (votes && proposals.most > 0)
        guard_numbers(&redis->guards[send->group], sent, proposals.most);
    if (command->unsent)
        queue_unsent(redis, command);
    command_release(&redis->pool, command);
}

void operations_report_unsent(struct redis *redis)
{
    struct command *command = redis->unsent;
    redis->unsent = NULL;
    redis->unsent_end = &redis->unsent;
    while (command != NULL) {
        struct command *next = command->next;
        for (unsigned i = 0; command->unsent >> i; i++) {
            struct master *master = &redis->by_group[command->group][i];
            if (command->unfit >> i & 1) /* Like a guarded master: it has no vote. */
                report_same(master, command, REDIS_OUTCOME_NOT_SENT, VOTE_GUARDED);
            else if (command->unsent >> i & 1)
                report_none(master, command, REDIS_OUTCOME_NOT_SENT);
        }
        command_release(&redis->pool, command);
        command = next;
    }
}
