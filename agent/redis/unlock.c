/* `lockagent unlock`: shows the holders of a key, and deletes one of its holds by hand (R25).
 *
 * It makes two passes over the masters of the key's group. The first one only looks. If fewer than
 * a quorum of them answer, or none has the hold that is asked for, nothing is written. The second
 * pass compares, deletes, leaves a tombstone and raises the number on each master that has
 * answered. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/key.h"
#include "agent/core/round.h"
#include "agent/redis/redis.h"
#include "agent/redis/unlocking.h"
#include "agent/redis/visit.h"

enum {
    UNLOCK_TEXT_BYTES = 400,
    UNLOCK_RESP_BYTES = 24 << 10,
    UNLOCK_MARGIN_MS = 1000, /* A tombstone stays for so much longer than the longest lease. */
    RAISES_MAX = 3,          /* Second passes. A round in flight may raise a number meanwhile. */
};

/* One hold, as the masters have it. */
struct unlock_seen {
    struct unlock_hold hold; /* The largest number and the latest end of all masters. */
    uint8_t slot;
    size_t masters; /* Masters that have it. */
};

struct unlocking {
    struct unlock_target target;
    uint32_t permits; /* Slots of the key; 1: it has none. */
    size_t quorum;
    trust_say *say;
    struct visit visit;
    struct unlock_seen *seen;
    size_t seen_count;
    uint64_t number;         /* The largest number that is stored or granted. */
    const char *name;        /* The hold to unlock; "": none is named. */
    struct unlock_seen gone; /* The named hold, as the masters had it that deleted it before. */
    master_set foreign;      /* Masters that have a key of another program. */
};

static const char *group_name(const struct unlocking *unlocking)
{
    return unlocking->visit.group->name;
}

__attribute__((format(printf, 3, 4))) static void unlock_say(const struct unlocking *unlocking,
                                                             const char *master, const char *format,
                                                             ...)
{
    char text[UNLOCK_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    unlocking->say(group_name(unlocking), master, text);
}

static uint64_t unix_time_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* R12: returns false for a number that was never granted. Masters that stored it, or one above it,
 * would have no vote on any lock of the bucket. */
static bool is_possible(uint64_t number)
{
    return number <= LIMIT_FENCE && number < unix_time_us() + FENCE_AHEAD_US;
}

/* ---- the first pass: looking ---- */

/* Calls the script at a master. Returns its reply, which the caller frees. Returns NULL, with the
 * error in `says`, if there is none. */
static redisReply *call_unlock(struct unlocking *unlocking, size_t master,
                               const struct unlock_ask *ask, struct unlock_answer *ret_answer)
{
    struct visit *visit = &unlocking->visit;
    redisReply *reply =
        visit_ask(visit, master, unlocking_ask(visit->resp, &unlocking->target, ask));
    if (reply == NULL)
        return NULL;
    if (unlocking_read(reply, ret_answer)) {
        ret_answer->spoiled |= !is_possible(ret_answer->number);
        return reply;
    }
    snprintf(visit->says, sizeof(visit->says), "broke the protocol: not a possible reply");
    freeReplyObject(reply);
    return NULL;
}

static struct unlock_seen *seen_by_name(const struct unlocking *unlocking, const char *name)
{
    for (size_t i = 0; i < unlocking->seen_count; i++)
        if (strcmp(unlocking->seen[i].hold.name, name) == 0)
            return &unlocking->seen[i];
    return NULL;
}

/* Adds a hold of one master to those that are known. Returns false without memory. */
static bool add_seen(struct unlocking *unlocking, const struct unlock_hold *hold)
{
    struct unlock_seen *seen = seen_by_name(unlocking, hold->name);
    if (seen == NULL) {
        seen = realloc(unlocking->seen, (unlocking->seen_count + 1) * sizeof(*seen));
        if (seen == NULL)
            return false;
        unlocking->seen = seen;
        seen += unlocking->seen_count++;
        *seen = (struct unlock_seen){.hold = *hold, .slot = unlocking->target.slot};
    }
    seen->masters++;
    if (hold->number > seen->hold.number)
        seen->hold.number = hold->number;
    if (hold->left_ms > seen->hold.left_ms)
        seen->hold.left_ms = hold->left_ms;
    return true;
}

/* Looks at the key, or at one slot of it, on one master. Returns false, with the error in `says`,
 * if that fails. */
static bool look_at_slot(struct unlocking *unlocking, size_t master)
{
    struct visit *visit = &unlocking->visit;
    const struct unlock_ask ask = {.name = unlocking->name, .number = unix_time_us()};
    struct unlock_answer answer;
    redisReply *reply = call_unlock(unlocking, master, &ask, &answer);
    if (reply == NULL)
        return false;
    bool well = true;
    for (size_t i = 0; well && i < answer.holds; i++) {
        struct unlock_hold hold;
        well = unlocking_read_hold(reply, i, &hold);
        if (!well)
            snprintf(visit->says, sizeof(visit->says), "broke the protocol: not a possible hold");
        else if (!add_seen(unlocking, &hold)) {
            snprintf(visit->says, sizeof(visit->says), "out of memory");
            well = false;
        }
    }
    freeReplyObject(reply);
    if (well && answer.spoiled) {
        snprintf(visit->says, sizeof(visit->says),
                 "its number is invalid, or this machine's clock is wrong (R12)");
        return false;
    }
    if (answer.number > unlocking->number)
        unlocking->number = answer.number;
    if (answer.word == UNLOCK_FOREIGN)
        unlocking->foreign |= (master_set)(1u << master);
    if (answer.gone) {
        unlocking->gone.slot = unlocking->target.slot;
        unlocking->gone.masters++;
    }
    return well;
}

static bool look_at_master(struct unlocking *unlocking, size_t master)
{
    bool well = visit_open(&unlocking->visit, master);
    for (uint32_t slot = 0; well && slot < unlocking->permits; slot++) {
        unlocking->target.slot = (uint8_t)slot;
        well = look_at_slot(unlocking, master);
    }
    if (!well)
        unlock_say(unlocking, unlocking->visit.group->masters[master].url, "%s",
                   unlocking->visit.says);
    return well;
}

static void say_seen(const struct unlocking *unlocking, const struct unlock_seen *seen)
{
    const struct unlock_hold *hold = &seen->hold;
    char slot[24] = "", mode[24] = "", number[48] = "", left[64] = "without end";
    if (unlocking->target.has_slot)
        snprintf(slot, sizeof(slot), ", slot %u", (unsigned)seen->slot);
    if (unlocking->target.form == FORM_SHARED)
        snprintf(mode, sizeof(mode), ", to %s", mode_name(hold->mode));
    if (hold->number != 0)
        snprintf(number, sizeof(number), ", number %" PRIu64, hold->number);
    if (hold->left_ms >= 0)
        snprintf(left, sizeof(left), "for %" PRId64 ".%" PRId64 " s unless it is renewed",
                 hold->left_ms / 1000, hold->left_ms % 1000 / 100);
    unlock_say(unlocking, NULL,
               "held by %s, label \"%s\", agent %s%s%s%s, on %zu of %zu masters, %s", hold->name,
               hold->label, hold->agent, slot, mode, number, seen->masters,
               (size_t)unlocking->visit.group->master_count, left);
}

/* Looks at all masters. `ret_answered` are those that the second pass may ask. Returns how many. */
static size_t look_at_all(struct unlocking *unlocking, bool ret_answered[LIMIT_MASTERS])
{
    const struct config_group *group = unlocking->visit.group;
    size_t answered = 0;
    for (size_t m = 0; m < group->master_count; m++) {
        ret_answered[m] = look_at_master(unlocking, m);
        answered += ret_answered[m];
    }
    for (size_t i = 0; i < unlocking->seen_count; i++)
        say_seen(unlocking, &unlocking->seen[i]);
    if (unlocking->foreign != 0)
        unlock_say(unlocking, NULL,
                   "held by another program on %u masters: its key has another shape, and is left "
                   "alone",
                   set_size(unlocking->foreign));
    return answered;
}

/* ---- the second pass: unlocking ---- */

struct unlock_count {
    size_t done;      /* Masters that have deleted the hold, and have its tombstone. */
    uint64_t largest; /* Number that a master had stored or granted before it was asked. */
};

/* Unlocks the hold on one master. */
static void unlock_master(struct unlocking *unlocking, size_t master, const struct unlock_ask *ask,
                          struct unlock_count *count)
{
    const char *url = unlocking->visit.group->masters[master].url;
    struct unlock_answer answer;
    redisReply *reply = call_unlock(unlocking, master, ask, &answer);
    freeReplyObject(reply);
    if (reply == NULL) {
        unlock_say(unlocking, url, "%s", unlocking->visit.says);
        return;
    }
    if (answer.number > count->largest && !answer.spoiled)
        count->largest = answer.number;
    count->done += answer.word == UNLOCK_DELETED && !answer.spoiled;
    unlock_say(unlocking, url, "%s",
               answer.spoiled                  ? "its number is invalid (R12)"
               : answer.word == UNLOCK_FOREIGN ? "another program has the key now"
               : answer.word == UNLOCK_DELETED ? "deleted"
                                               : "does not have the hold, and will not repair it");
}

/* Returns true if a quorum of masters has unlocked the hold. */
static bool unlock_seen(struct unlocking *unlocking, const struct unlock_seen *seen,
                        const bool answered[LIMIT_MASTERS])
{
    struct unlock_count count = {.largest = unlocking->number};
    struct unlock_ask ask = {.name = seen->hold.name,
                             .tombstone_ms = unlocking->target.config->max_ttl_ms};
    if (seen->hold.left_ms > ask.tombstone_ms)
        ask.tombstone_ms = seen->hold.left_ms;
    ask.tombstone_ms += UNLOCK_MARGIN_MS;
    if (seen->hold.number > count.largest && is_possible(seen->hold.number))
        count.largest = seen->hold.number;
    if (count.largest == 0)
        count.largest = unix_time_us(); /* All masters have forgotten it. */
    unlocking->target.slot = seen->slot;
    /* A grant that was in flight may have a larger number than the first pass has seen. */
    for (int i = 0; i < RAISES_MAX && ask.number <= count.largest; i++) {
        ask.number = count.largest + 1;
        count = (struct unlock_count){0};
        for (size_t m = 0; m < unlocking->visit.group->master_count; m++)
            if (answered[m] && unlocking->visit.masters[m].blocking != NULL)
                unlock_master(unlocking, m, &ask, &count);
    }
    bool is_raised = ask.number > count.largest || !unlocking->target.fencing;
    if (count.done < unlocking->quorum || !is_raised) {
        unlock_say(
            unlocking, NULL,
            "NOT unlocked: %zu of %zu masters have deleted it, %zu are needed: the holder may "
            "keep the lock; run the command again",
            is_raised ? count.done : 0, (size_t)unlocking->visit.group->master_count,
            unlocking->quorum);
        return false;
    }
    if (unlocking->target.fencing)
        unlock_say(unlocking, NULL,
                   "unlocked, number %" PRIu64
                   ": the next grant is above it%s, and a resource that "
                   "has seen it refuses the former holder",
                   ask.number, unlocking->target.form == FORM_SHARED ? ", or a read with it" : "");
    else
        unlock_say(unlocking, NULL,
                   "unlocked, without a number: nothing keeps the former holder from its resource");
    return true;
}

/* Decides after the first pass. Returns true if all has been done that was asked for. */
static bool look_and_unlock(struct unlocking *unlocking)
{
    const char *name = unlocking->name;
    bool answered[LIMIT_MASTERS] = {false};
    size_t count = look_at_all(unlocking, answered);
    if (count < unlocking->quorum) {
        unlock_say(unlocking, NULL, "%zu of %zu masters answer, %zu are needed: nothing is deleted",
                   count, (size_t)unlocking->visit.group->master_count, unlocking->quorum);
        return false;
    }
    const struct unlock_seen *seen = seen_by_name(unlocking, name);
    if (seen == NULL && unlocking->gone.masters > 0) { /* An earlier run was not told of all. */
        snprintf(unlocking->gone.hold.name, sizeof(unlocking->gone.hold.name), "%s", name);
        seen = &unlocking->gone;
    }
    if (seen != NULL)
        return unlock_seen(unlocking, seen, answered);
    if (*name != '\0')
        unlock_say(unlocking, NULL, "no master has a hold %s of the key: nothing is deleted", name);
    else if (unlocking->seen_count > 0)
        unlock_say(unlocking, NULL, "nothing is deleted; to unlock a hold, add its name: --yes %s",
                   unlocking->seen[0].hold.name);
    else if (unlocking->foreign == 0)
        unlock_say(unlocking, NULL, "no agent holds the key");
    return *name == '\0';
}

/* Fills the policy and the group of the key. The core knows how. Returns false without memory. */
static bool find_target(const struct config *config, struct unlock_target *target)
{
    struct core_group groups[LIMIT_GROUPS];
    struct core_policy policies[LIMIT_POLICIES];
    const char *names[LIMIT_GROUPS];
    struct core_config core_config;
    config_for_core(config, /* seed= */ 0, groups, policies, names, &core_config);
    core_config.locks_max = core_config.requests_max = core_config.waiters_max = 1;
    void *memory = calloc(1, core_size(&core_config));
    if (memory == NULL)
        return false;
    const struct core *core = core_init(memory, &core_config);
    target->config = config;
    target->policy = core_policy_of(core, target->key);
    target->group = core_group_of(core, target->key);
    free(memory);
    return true;
}

bool redis_unlock(const struct config *config, struct text key, const char *name, trust_say *say)
{
    static char bytes[UNLOCK_RESP_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    struct unlocking unlocking = {.target.key = key, .say = say, .name = name == NULL ? "" : name};
    struct unlock_target *target = &unlocking.target;
    if (!find_target(config, target)) {
        say("unlock", NULL, "out of memory");
        return false;
    }
    const struct core_policy *policy = &config->policies[target->policy].core;
    const struct config_group *group = &config->groups[target->group];
    if (config->policies[target->policy].prefix[0] == '\0' && key_is_agents_own(key)) {
        say(group->name, NULL, "a key that begins with lockagent: is the agents' own");
        return false;
    }
    unlocking.permits = policy->permits;
    target->form = policy->form;
    target->fencing = policy->fencing != FENCING_OFF;
    target->has_slot = policy->form == FORM_SLOTS;
    unlocking.quorum = round_quorum(policy->algorithm, (uint8_t)group->master_count);
    visit_begin(&unlocking.visit, group, &resp);
    bool well = look_and_unlock(&unlocking);
    visit_close(&unlocking.visit);
    free(unlocking.seen);
    return well;
}
