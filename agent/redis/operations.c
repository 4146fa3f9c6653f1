/* Sends the core's operations, and reports each item exactly once per master. */
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/redis/asking.h"
#include "agent/redis/internal.h"
#include "agent/redis/replies.h"

/* ---- reports ---- */

static bool takes_lock(enum op op)
{
    return op == OP_ACQUIRE || op == OP_HANDOVER;
}

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

enum { NATIVE_PAUSE_MS = 10 * 1000, MULTI_PAUSE_MS = 10 * 60 * 1000 };

/* Returns true if EXEC says that the server refuses MULTI, or EXEC itself. */
static bool refuses_multi(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return false;
    enum redis_outcome outcome = outcome_of_error(reply->str);
    return outcome == REDIS_OUTCOME_NOPERM || outcome == REDIS_OUTCOME_NOCOMMAND ||
           native_reply_lacks_multi(reply);
}

/* A master that has not run the commands is asked for locks by script for a while: there may be no
 * memory. That is longer if it refuses MULTI or EXEC: without EXEC alone each such call ends the
 * connection, because the scripts that follow it are queued. Locks are released there by script
 * until the next greeting, because a user that may not delete so is mostly the reason. */
static void heard_exec(struct master *master, const struct command *command,
                       const redisReply *reply, const struct native_results *call)
{
    if (!native_reply_is_possible(call, reply))
        master_makes_no_sense(master, op_name(command->op));
    bool runs = native_reply_read(call, command->count, reply, master->redis->replies);
    enum redis_outcome outcome = runs                               ? REDIS_OUTCOME_OK
                                 : reply->type == REDIS_REPLY_ERROR ? outcome_of_error(reply->str)
                                                                    : REDIS_OUTCOME_OTHER;
    if (runs) {
        master_answered_well(master);
        master_accepts(master, REDIS_OPTIONAL_MULTI);
    } else {
        bool is_refused = refuses_multi(reply);
        if (is_refused)
            master_refuses(master, REDIS_OPTIONAL_MULTI, reply->str);
        if (is_refused || call->takes)
            master->native_from =
                instant_after_ms(redis_now(), is_refused ? MULTI_PAUSE_MS : NATIVE_PAUSE_MS);
        if (!call->takes)
            master->compares = COMPARE_DELETE_NONE;
    }
    report_outcome(master, command, outcome);
    report_replies(master, command);
}

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
    const struct native_results *call = reply == NULL ? NULL : pipeline_native(master->pipeline);
    if (call != NULL) {
        heard_exec(master, command, reply, call);
        return;
    }
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
        bool is_release = command->op == OP_RELEASE;
        if (replies[i].vote == VOTE_GUARDED && (takes_lock(command->op) || is_release))
            marker_heard_guarded(master, is_release, replies[i].occupant.left_ms);
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

/* R23: true for operations by which an agent may become the one that renews a hold. A hold of its
 * own is renewed without them (R24). */
static bool takes_over(enum op op)
{
    return op == OP_ADOPT || op == OP_RESUME;
}

static bool is_ready_for(const struct master *master, enum op op)
{
    return master->phase == PHASE_READY &&
           !(takes_lock(op) && master_guard_state(master) == GUARD_UNSURE) &&
           !(takes_over(op) && marker_gate(master->redis, master->group) != GUARD_OPEN);
}

/* Returns the vote with which native commands can be sent ("": the group has no guard), or NULL if
 * the script must be asked. */
static const char *native_vote(const struct master *master, const struct effect_send *send,
                               const struct proposals *proposals)
{
    struct redis *redis = master->redis;
    int64_t clock_ms = send->clocks_ms[master->index];
    bool takes = send->op == OP_ACQUIRE,
         runs = takes ? clock_ms > 0 && clock_ms <= NATIVE_CLOCK_MS_MAX
                      : master->compares != COMPARE_DELETE_NONE;
    if (!send->native || !runs || !is_ready_for(master, send->op) ||
        instant_before(redis_now(), master->native_from) || master->group_config->replicas_ack > 0)
        return NULL;
    if (!master->group_config->guard)
        return "";
    if (takes && marker_gate(redis, send->group) != GUARD_OPEN)
        return NULL;
    return asking_native_vote(&redis->guards[send->group], master->index, redis_now(),
                              takes ? proposals : NULL);
}

/* Builds the call for a master, unless it is that of the master before. `compared`: how that one
 * compares. */
static void build_native(struct redis *redis, const struct master *master,
                         const struct effect_send *send, const struct send_item *items,
                         struct native *native, enum compare_delete *compared)
{
    bool is_same = native->results != 0 && *compared == master->compares;
    if (send->op == OP_ACQUIRE && native->results == 0)
        *native = asking_native(&redis->resp, redis->config, send->group, items, send->count);
    else if (send->op == OP_RELEASE && !is_same)
        *native = asking_native_release(&redis->resp, redis->config, send->group, master->compares,
                                        items, send->count);
    *compared = master->compares;
}

/* Sends native commands to those of `masters` that can run them (R24). Returns the masters to which
 * they were sent. */
static master_set send_native(struct redis *redis, struct command *command,
                              const struct effect_send *send, const struct send_item *items,
                              const struct proposals *proposals, master_set masters)
{
    struct native native = {0};
    enum compare_delete compared = COMPARE_DELETE_NONE;
    master_set sent = 0;
    for (uint8_t i = 0; masters >> i; i++) {
        struct master *master = &redis->by_group[send->group][i];
        const char *vote = masters >> i & 1 ? native_vote(master, send, proposals) : NULL;
        if (vote == NULL)
            continue;
        build_native(redis, master, send, items, &native, &compared);
        if (native.takes)
            asking_native_ends(&native, redis->resp.bytes + redis->resp.at, send->clocks_ms[i]);
        command->native_results = native.results;
        command->native_fencing = items[0].fencing;
        if (pipeline_append_native(master->pipeline, command, &native, vote, send->clocks_ms[i]))
            sent |= (master_set)(1u << i);
    }
    return sent;
}

/* Sends to one master: the bytes that all masters get, and the arguments of this one. */
static bool send_to(struct master *master, struct command *command, struct text bytes,
                    int64_t clock_ms, const struct proposals *proposals)
{
    char vote_bytes[ASKING_VOTE_BYTES], own_bytes[ASKING_OWN_BYTES];
    struct text own = nothing_own(), vote = {"", 0};
    enum op op = command->op;
    if (!is_ready_for(master, op))
        return false;
    if (asking_names_vote(master->redis->config, master->group, op)) {
        bool is_closed = takes_lock(op) && marker_gate(master->redis, master->group) != GUARD_OPEN;
        vote = is_closed ? asking_no_vote()
                         : asking_vote(vote_bytes, &master->redis->guards[master->group],
                                       master->index, redis_now(), op, proposals);
    }
    if (asking_has_own(master->redis->config, master->group, op))
        own = asking_own(own_bytes, op, clock_ms, vote);
    return pipeline_append(master->pipeline, command, bytes, own);
}

/* Sends to all of `masters`. Returns those to which it was sent. */
static master_set send_script(struct redis *redis, struct command *command,
                              const struct effect_send *send, const struct send_item *items,
                              const struct proposals *proposals, master_set masters)
{
    master_set sent = 0;
    if (masters == 0)
        return 0;
    struct text bytes =
        asking_op(&redis->resp, redis->config, send->group, send->op, items, send->count);
    for (uint8_t i = 0; masters >> i; i++) {
        struct master *master = &redis->by_group[send->group][i];
        if ((masters >> i & 1) && send_to(master, command, bytes, send->clocks_ms[i], proposals)) {
            replicas_sent(&master->pipeline->replicas, send->op, redis_now());
            sent |= (master_set)(1u << i);
        }
    }
    return sent;
}

/* Returns those of the masters that are not asked for new locks, because they may evict keys
 * (D5.4). */
static master_set unfit_masters(struct redis *redis, const struct effect_send *send)
{
    master_set unfit = 0;
    for (uint8_t i = 0; send->op == OP_ACQUIRE && send->masters >> i; i++)
        if ((send->masters >> i & 1) && master_is_unfit(&redis->by_group[send->group][i]))
            unfit |= (master_set)(1u << i);
    return unfit;
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

/* Makes the masters of an idle group look at their markers before the command comes (D5.3). Their
 * clocks are read anew (R14), and their health (D5.4). */
static void wake_group(struct redis *redis, const struct effect_send *send,
                       const struct send_item *items)
{
    uint32_t lease_ms = 0;
    /* R23: "Attempts that are refused keep nothing." */
    bool is_closed = (send->op == OP_ACQUIRE || takes_over(send->op)) &&
                     marker_gate(redis, send->group) != GUARD_OPEN;
    for (unsigned i = 0; i < send->count && op_leases(send->op) && !is_closed; i++)
        lease_ms = items[i].ttl_ms > lease_ms ? items[i].ttl_ms : lease_ms;
    bool idled = marker_idles(redis, send->group);
    if (guard_uses(&redis->guards[send->group], lease_ms, redis_now()))
        marker_tick(redis, send->group);
    for (size_t i = 0; idled && i < redis->config->groups[send->group].master_count; i++)
        upkeep_look(&redis->by_group[send->group][i]);
}

void redis_send(struct redis *redis, const struct effect_send *send, const struct send_item *items)
{
    const struct config *config = redis->config;
    CORE_ASSERT(send->group < config->group_count && send->op < OP_COUNT);
    CORE_ASSERT(send->count >= 1 && send->count <= (op_is_gathered(send->op) ? LIMIT_BATCH : 1));
    CORE_ASSERT(send->masters != 0 &&
                send->masters >> config->groups[send->group].master_count == 0);
    wake_group(redis, send, items); /* It builds commands of its own in redis->resp. */
    struct command *command = command_new(&redis->pool, operations_heard, send->count);
    if (command == NULL) {
        give_up_sending(redis, send);
        return;
    }
    command->of_core = true;
    command->op = send->op;
    command->group = send->group;
    command->references = 1;
    struct proposals proposals = asking_proposals(config, items, send->count);
    for (unsigned i = 0; i < send->count; i++)
        command->refs[i] = items[i].ref;
    command->unfit = unfit_masters(redis, send);
    master_set fit = send->masters & (master_set)~command->unfit,
               sent = send_native(redis, command, send, items, &proposals, fit);
    sent |= send_script(redis, command, send, items, &proposals, fit & (master_set)~sent);
    command->unsent = send->masters & (master_set)~sent;
    bool numbers = takes_lock(send->op) && asking_names_vote(config, send->group, send->op);
    if (numbers && proposals.most > 0)
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
