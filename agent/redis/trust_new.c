/* `lockagent trust --new`: the first votes of groups on which no agent has ever been (D5.3).
 *
 * Three passes over all masters of a group, each begun when the one before has ended: new.lua says
 * what they do. Between the first two stand 2 s. An agent that lives and reaches any master writes
 * its marker there within that time, and a marker at any master stops the command. The key of this
 * run shows the other passes that a master has not forgotten since the first one, so the votes that
 * the third pass writes erase nothing that was granted meanwhile.
 *
 * The command may end at any point. The key of its run goes by itself. Masters that it has marked
 * vote, the others wait out their guard. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/core/core_assert.h"
#include "agent/redis/asking.h"
#include "agent/redis/redis.h"
#include "agent/redis/visit.h"
#include "new_script.h"

enum {
    OBJECTION_S = 2, /* an agent marks a master that it reaches within that time */
    GUARD_MARGIN_MS = 1001,
};

enum finding { FOUND_NOTHING, FOUND_NEW, FOUND_VOTES, FOUND_MARKED, FOUND_LOST, FOUND_COUNT };

struct newcomers {
    struct visit visit;
    char own_key[48]; /* of this run, for this group alone */
    bool stopped;
    enum finding found[LIMIT_MASTERS];
    int64_t left_ms[LIMIT_MASTERS]; /* FOUND_MARKED: until its guard is over; 0: it is */
};

static void print_random(char *into, size_t bytes)
{
    unsigned char random[16];
    CORE_ASSERT(bytes <= sizeof(random));
    ssize_t drawn = getrandom(random, bytes, 0);
    CORE_ASSERT(drawn == (ssize_t)bytes);
    for (size_t i = 0; i < bytes; i++)
        snprintf(into + 2 * i, 3, "%02x", random[i]);
}

/* ---- asking ---- */

static struct text new_command(struct newcomers *group, size_t master, const char *call,
                               uint32_t max_ttl_ms)
{
    struct resp *resp = group->visit.resp;
    char epoch[17];
    print_random(epoch, 8);
    resp_begin(resp);
    resp_text(resp, "EVAL");
    resp_text(resp, new_script);
    resp_number(resp, 3);
    resp_text(resp, MARKER_KEY);
    resp_text(resp, VOTE_KEY);
    resp_text(resp, group->own_key);
    resp_text(resp, call);
    resp_text(resp, group->visit.masters[master].run_id);
    resp_number(resp, group->visit.group->durable);
    resp_text(resp, epoch);
    resp_number(resp, max_ttl_ms);
    return resp_end(resp);
}

static enum finding read_finding(const redisReply *reply, int64_t *ret_left_ms)
{
    static const char *const words[FOUND_COUNT] = {
        [FOUND_NEW] = "new",
        [FOUND_VOTES] = "votes",
        [FOUND_MARKED] = "marked",
        [FOUND_LOST] = "lost",
    };
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_INTEGER)
        return FOUND_NOTHING;
    *ret_left_ms = reply->element[1]->integer;
    for (enum finding i = FOUND_NEW; i < FOUND_COUNT; i++)
        if (strcmp(reply->element[0]->str, words[i]) == 0)
            return i;
    return FOUND_NOTHING;
}

/* Calls the script at one master. False, and `says`, if that fails. */
static bool call_master(struct newcomers *group, size_t master, const char *call,
                        uint32_t max_ttl_ms)
{
    struct visit *visit = &group->visit;
    group->found[master] = FOUND_NOTHING;
    if (!visit_same_run(visit, master))
        return false;
    redisReply *reply = visit_ask(visit, master, new_command(group, master, call, max_ttl_ms));
    if (reply == NULL)
        return false;
    group->found[master] = read_finding(reply, &group->left_ms[master]);
    freeReplyObject(reply);
    if (group->found[master] == FOUND_NOTHING)
        snprintf(visit->says, sizeof(visit->says), "broke the protocol: its answer means nothing");
    return group->found[master] != FOUND_NOTHING;
}

static size_t count_found(const struct newcomers *group, enum finding finding)
{
    size_t count = 0;
    for (size_t m = 0; m < group->visit.group->master_count; m++)
        count += group->found[m] == finding;
    return count;
}

/* ---- what is said ---- */

static void stop(struct newcomers *group, trust_say *say, size_t master, const char *why)
{
    const struct config_group *config = group->visit.group;
    say(config->name, config->masters[master].url, why);
    group->stopped = true;
}

/* When the group votes without this command: when the guards of a quorum are over. */
static int64_t guards_end_in_ms(const struct newcomers *group, size_t quorum, uint32_t max_ttl_ms)
{
    int64_t sorted[LIMIT_MASTERS] = {0};
    for (size_t m = 0; m < group->visit.group->master_count; m++) {
        size_t at = m;
        int64_t left = group->found[m] == FOUND_VOTES    ? 0
                       : group->found[m] == FOUND_MARKED ? group->left_ms[m]
                                                         : max_ttl_ms + GUARD_MARGIN_MS;
        for (; at > 0 && sorted[at - 1] > left; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = left;
    }
    return sorted[quorum - 1];
}

static void say_found(const struct newcomers *group, trust_say *say, size_t quorum,
                      uint32_t max_ttl_ms, const char *who)
{
    const struct config_group *config = group->visit.group;
    char text[200], when[80];
    int64_t left_ms = guards_end_in_ms(group, quorum, max_ttl_ms);
    if (count_found(group, FOUND_VOTES) >= quorum)
        snprintf(when, sizeof(when), "%zu of its %zu masters vote", count_found(group, FOUND_VOTES),
                 config->master_count);
    else if (left_ms > 0)
        snprintf(when, sizeof(when), "the group votes by itself in %lld s",
                 (long long)(left_ms + 500) / 1000);
    else
        snprintf(when, sizeof(when), "the group votes by itself when an agent has asked it again");
    snprintf(text, sizeof(text), "%s; %s", who, when);
    say(config->name, NULL, text);
}

/* ---- the passes ---- */

/* Asks all masters of the group, and stops the group if one does not answer. */
static void pass(struct newcomers *group, const char *call, uint32_t max_ttl_ms, trust_say *say)
{
    for (size_t m = 0; m < group->visit.group->master_count; m++)
        if (!call_master(group, m, call, max_ttl_ms))
            stop(group, say, m, group->visit.says);
}

static bool begin_group(struct newcomers *group, const struct config_group *config,
                        struct resp *resp, trust_say *say)
{
    visit_begin(&group->visit, config, resp);
    group->stopped = !config->guard;
    if (!config->guard) {
        say(config->name, NULL, "guard: off: nothing to do");
        return true;
    }
    size_t len = (size_t)snprintf(group->own_key, sizeof(group->own_key), "%s", NEW_KEY);
    print_random(group->own_key + len, 16);
    for (size_t m = 0; m < config->master_count; m++)
        if (!visit_open(&group->visit, m))
            stop(group, say, m, group->visit.says);
    return !group->stopped;
}

/* True if the group needs nothing more: all its masters vote. */
static bool first_pass(struct newcomers *group, const struct config *config, size_t index,
                       trust_say *say)
{
    size_t count = group->visit.group->master_count;
    pass(group, "claim", config->max_ttl_ms, say);
    if (group->stopped || count_found(group, FOUND_NEW) == count)
        return false;
    group->stopped = true;
    if (count_found(group, FOUND_VOTES) == count) {
        say(group->visit.group->name, NULL, "all masters vote already");
        return true;
    }
    say_found(group, say, config_group_quorum(config, index), config->max_ttl_ms,
              "agents have been here");
    return false;
}

static void second_pass(struct newcomers *group, const struct config *config, size_t index,
                        trust_say *say)
{
    pass(group, "look", config->max_ttl_ms, say);
    for (size_t m = 0; m < group->visit.group->master_count; m++)
        if (group->found[m] == FOUND_LOST)
            stop(group, say, m, "lost its data within the last 2 s, or took too long");
    if (group->stopped || count_found(group, FOUND_NEW) == (size_t)group->visit.group->master_count)
        return;
    group->stopped = true;
    say_found(group, say, config_group_quorum(config, index), config->max_ttl_ms,
              "an agent came meanwhile");
}

/* True if all masters of the group vote now. */
static bool third_pass(struct newcomers *group, const struct config *config, trust_say *say)
{
    size_t count = group->visit.group->master_count;
    pass(group, "vote", config->max_ttl_ms, say);
    size_t voting = count_found(group, FOUND_NEW) + count_found(group, FOUND_VOTES);
    char text[120];
    if (voting == count)
        snprintf(text, sizeof(text), "new: all %zu masters vote now", count);
    else
        snprintf(text, sizeof(text),
                 "new: %zu of %zu masters vote now; the others vote when their guard is over",
                 voting, count);
    say(group->visit.group->name, NULL, text);
    return voting == count;
}

static void wait_for_objections(void)
{
    struct timespec left = {.tv_sec = OBJECTION_S};
    while (nanosleep(&left, &left) != 0) {
    }
}

size_t redis_trust_new(const struct config *config, trust_say *say)
{
    static struct newcomers groups[LIMIT_GROUPS];
    static char bytes[8 << 10];
    struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    size_t failed = 0, going_on = 0;
    bool well[LIMIT_GROUPS] = {false};
    for (size_t g = 0; g < config->group_count; g++)
        well[g] = begin_group(&groups[g], &config->groups[g], &resp, say);
    for (size_t g = 0; g < config->group_count; g++) {
        if (!groups[g].stopped)
            well[g] = first_pass(&groups[g], config, g, say);
        going_on += !groups[g].stopped;
    }
    if (going_on > 0)
        wait_for_objections();
    for (size_t g = 0; g < config->group_count; g++)
        if (!groups[g].stopped)
            second_pass(&groups[g], config, g, say);
    for (size_t g = 0; g < config->group_count; g++) {
        if (!groups[g].stopped)
            well[g] = third_pass(&groups[g], config, say);
        failed += !well[g];
        visit_close(&groups[g].visit);
    }
    return failed;
}
