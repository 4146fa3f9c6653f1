/* The guard of a master (D5.3): its marker, the epochs that follow from it, and when a missing one is written.
 *
 *   marker there     its epoch is the master's; the acquiring script itself refuses while the guard lasts
 *   marker missing   the master has forgotten, or is new: a group that is not durable gets a new epoch at once. In a durable one
 *                    - all masters answer and none has a marker, and this agent has never seen one there: a new group, which votes
 *                      at once;
 *                    - else a new epoch when it has been missing for 2 s: an agent that boots together with this one may be about
 *                      to write it as new.
 *   unsure           the master refuses to write the marker (OOM, a replica): it is not asked for new locks until it has.
 *
 * Asked at every greeting, then once a second, so that an agent with a longer max_ttl is heard of before the shortest guard ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/redis/room.h"

enum { MISSING_MS = 2000, EPOCH_BYTES = 8 };

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

/* ---- asking ---- */

void guard_ask(struct wire *wire, const struct marker_question *question)
{
    unsigned char random[EPOCH_BYTES];
    char epoch[2 * EPOCH_BYTES + 1];
    REDIS_ASSERT(getrandom(random, sizeof(random), 0) == sizeof(random));
    for (unsigned i = 0; i < EPOCH_BYTES; i++) {
        snprintf(epoch + 2 * (size_t)i, 3, "%02x", random[i]);
    }
    bool is_new = strcmp(question->how, "new") == 0;
    wire_begin(wire, is_new ? 9 : 8);
    wire_text(wire, question->whole ? "EVAL" : "EVALSHA");
    wire_text(wire, question->whole ? redis_scripts[SCRIPT_MARKER].text : redis_scripts[SCRIPT_MARKER].sha);
    wire_number(wire, 1);
    wire_text(wire, MARKER_KEY);
    wire_text(wire, question->run_id);
    wire_text(wire, epoch);
    wire_number(wire, question->max_ttl_ms);
    wire_text(wire, question->how);
    if (is_new) {
        wire_number(wire, question->seen_at_ms);
    }
}

static void heard_marker(struct master *master, const struct command *command, const redisReply *reply, bool sent);

static void ask(struct master *master, const char *how, heard_fn *heard)
{
    guard_ask(&master->redis->wire, &(struct marker_question){.run_id = master->view.run_id,
                                                              .max_ttl_ms = master->redis->config->max_ttl_ms,
                                                              .how = how,
                                                              .seen_at_ms = master->guard.missing_seen_at_ms});
    master->guard.asked += heard == heard_marker;
    master_ask(master, heard);
}

/* What a connection begins with: on one that was READY before, the server can not have been another. */
static const char *first_question(const struct master *master)
{
    return master->group_config->durable ? "look" : master->was_ready && !master->guard.unsure ? "keep" : "restart";
}

void guard_greet(struct master *master, heard_fn *heard)
{
    ask(master, first_question(master), heard);
}

/* ---- hearing ---- */

static void take_guard(struct master *master, int64_t left_ms)
{
    master->guard.until_ms = left_ms < 0 ? UINT64_MAX : left_ms == 0 ? 0 : now_ms() + (uint64_t)left_ms;
}

/* True where the epoch is another one than before, or can not be told. */
static bool take_epoch(struct master *master, const char *epoch)
{
    bool changed = strcmp(epoch, master->guard.epoch) != 0;
    if (*epoch) {
        master->redis->had_marker[master->group] = true;
        master->guard.missing = false;
    } else if (!master->guard.missing) {
        master->guard.missing = true;
        master->guard.missing_since_ms = now_ms();
    }
    snprintf(master->guard.epoch, sizeof(master->guard.epoch), "%s", epoch);
    return changed;
}

bool guard_take(struct master *master, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_INTEGER || reply->element[2]->type != REDIS_REPLY_INTEGER) {
        return false;
    }
    master->guard.unsure = false;
    master->guard.changed |= take_epoch(master, reply->element[0]->str);
    take_guard(master, reply->element[1]->integer);
    master->guard.missing_seen_at_ms = (uint64_t)reply->element[2]->integer;
    return true;
}

/* The master can not write now. What its marker says may be of before a restart, so it is not asked for new locks. */
void guard_refused(struct master *master)
{
    master->guard.unsure = true;
    master->guard.changed = true;
    master->guard.epoch[0] = '\0';
}

static void heard_marker(struct master *master, const struct command *command, const redisReply *reply, bool sent)
{
    (void)sent;
    master->guard.asked--;
    if (!reply || master->phase != PHASE_READY || command->greeting != master->greeting) {
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        enum redis_outcome outcome = outcome_of_error(reply->str);
        if (outcome == REDIS_OUTCOME_NOSCRIPT) {
            greeting_reload_scripts(master);
        } else {
            master_refused(master, outcome, reply->str);
        }
        return;
    }
    if (guard_take(master, reply)) {
        guard_settle(master);
    }
}

/* The scripts of the core's own commands say when a marker is not what it was. */
void guard_heard_epoch(struct master *master, const char *epoch)
{
    if (master->phase != PHASE_READY || master->guard.unsure || strcmp(epoch, master->guard.epoch) == 0) {
        return;
    }
    master->guard.changed |= take_epoch(master, epoch);
    take_guard(master, -1); /* until the marker has been read */
    guard_settle(master);
    guard_probe(master);
}

void guard_heard_guarded(struct master *master, int64_t left_ms)
{
    if (master->phase != PHASE_READY || master->guard.unsure) {
        return;
    }
    if (left_ms < 0) {
        guard_heard_epoch(master, "");
    } else if (master->guard.until_ms == 0) {
        take_guard(master, left_ms);
        guard_settle(master);
        guard_probe(master);
    }
}

/* ---- what follows ---- */

/* A new epoch is told to the core before anything else: votes that come later are of that epoch. */
void guard_settle(struct master *master)
{
    if (master->guard.changed) {
        master->guard.changed = false;
        master_new_epoch(master);
    }
    master_show(master);
    if (master->guard.missing) {
        guard_missing(master->redis, master->group, /* patient= */ false);
    }
}

int64_t guard_left_ms(const struct master *master)
{
    if (!master->group_config->guard || master->phase != PHASE_READY) {
        return 0;
    }
    if (master->guard.unsure || master->guard.until_ms == UINT64_MAX) {
        return -1;
    }
    uint64_t now = now_ms();
    return master->guard.until_ms > now ? (int64_t)(master->guard.until_ms - now) : 0;
}

static bool group_is_new(const struct redis *redis, uint8_t group)
{
    const struct master *masters = redis->by_group[group];
    for (size_t i = 0; i < redis->config->groups[group].master_count; i++) {
        if (masters[i].phase != PHASE_READY || !masters[i].guard.missing || masters[i].guard.unsure) {
            return false;
        }
    }
    return !redis->had_marker[group];
}

/* Writes the markers that are missing in this group where that may be. If `patient`, asks once more for the others: somebody else
 * may have written them. */
void guard_missing(struct redis *redis, uint8_t group, bool patient)
{
    const struct config_group *config = &redis->config->groups[group];
    bool is_new = config->durable && group_is_new(redis, group);
    for (size_t i = 0; i < config->master_count; i++) {
        struct master *master = &redis->by_group[group][i];
        if (master->phase != PHASE_READY || !master->guard.missing || master->guard.asked) {
            continue;
        }
        bool long_enough = !config->durable || now_ms() - master->guard.missing_since_ms >= MISSING_MS;
        if (is_new || long_enough || patient) {
            ask(master, is_new ? "new" : long_enough ? "keep" : "look", heard_marker);
        }
    }
}

void guard_probe(struct master *master)
{
    if (!master->group_config->guard || master->phase != PHASE_READY || master->guard.asked) {
        return;
    }
    const char *how = master->guard.unsure ? first_question(master) : master->group_config->durable ? "look" : "keep";
    ask(master, how, heard_marker);
}
