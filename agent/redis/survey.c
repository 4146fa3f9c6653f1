/* `lockagent check --ask`: asks each master of a configuration for each property that an agent
 * needs, and reports all that is wrong. It writes nothing on the masters. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "agent/redis/asking.h"
#include "agent/redis/redis.h"
#include "agent/redis/replies.h"
#include "agent/redis/visit.h"

enum { CLOCK_OFF_US = 1000000, SURVEY_TEXT_BYTES = 320 };

/* One master's answers. */
struct surveyed {
    size_t index;
    char version[24], role[24];
    int64_t took_us, clock_off_us;
};

struct survey {
    const struct config *config;
    size_t group; /* Its index in the configuration. */
    trust_say *say;
    struct visit visit;
    size_t findings; /* In this group. */
    size_t unused;   /* Masters of this group without an agent's marker. */
};

__attribute__((format(printf, 3, 4))) static void note(struct survey *survey, size_t master,
                                                       const char *format, ...)
{
    char text[SURVEY_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    survey->findings++;
    survey->say(survey->visit.group->name, survey->visit.group->masters[master].url, text);
}

static redisReply *survey_ask(struct survey *survey, size_t master, const char *const *words)
{
    struct resp *resp = survey->visit.resp;
    resp_begin(resp);
    for (size_t i = 0; words[i] != NULL; i++)
        resp_text(resp, words[i]);
    return visit_ask(&survey->visit, master, resp_end(resp));
}
#define ASK_WORDS(survey, master, ...)                                                             \
    survey_ask(survey, master, (const char *const[]){__VA_ARGS__, NULL})

/* ---- INFO ---- */

/* Compares a setting of a durable master. A master that refuses CONFIG is believed. */
static void look_at_setting(struct survey *survey, size_t master, const char *name,
                            const char *needed)
{
    redisReply *reply = ASK_WORDS(survey, master, "CONFIG", "GET", name);
    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[1]->type == REDIS_REPLY_STRING &&
        strcmp(reply->element[1]->str, needed) != 0)
        note(survey, master,
             "durable is true, and %s is %.20s: a crash may forget keys; needed: %s", name,
             reply->element[1]->str, needed);
    freeReplyObject(reply);
}

/* While it rewrites its log or takes a snapshot, a master with no-appendfsync-on-rewrite answers
 * before the disk has the write, also if appendfsync is always. */
static void look_at_persistence(struct survey *survey, size_t master, const char *info)
{
    char aof[4] = "";
    info_field(info, "aof_enabled", aof, sizeof(aof));
    if (!survey->visit.group->durable)
        return;
    if (strcmp(aof, "0") == 0) {
        note(survey, master, "durable is true, and appendonly is off: a restart forgets keys");
        return;
    }
    look_at_setting(survey, master, "appendfsync", "always");
    if (survey->visit.masters[master].blocking != NULL)
        look_at_setting(survey, master, "no-appendfsync-on-rewrite", "no");
}

static void look_at_memory(struct survey *survey, size_t master, const char *info)
{
    char policy[32] = "", limit[24] = "";
    info_field(info, "maxmemory_policy", policy, sizeof(policy));
    info_field(info, "maxmemory", limit, sizeof(limit));
    if (*policy && strcmp(policy, "noeviction") != 0 && strcmp(limit, "0") != 0)
        note(survey, master, "may evict keys: maxmemory-policy is %s; needed: noeviction", policy);
}

static void look_at_info(struct survey *survey, struct surveyed *at)
{
    const struct config_group *group = survey->visit.group;
    char cluster[4] = "", replicas[12] = "0";
    redisReply *reply = ASK_WORDS(survey, at->index, "INFO");
    if (reply == NULL || reply->type != REDIS_REPLY_STRING) {
        note(survey, at->index, "%s: %s",
             reply == NULL ? survey->visit.says : "INFO: not a possible reply",
             redis_optional_cost(REDIS_OPTIONAL_INFO));
        freeReplyObject(reply);
        return;
    }
    const char *info = reply->str;
    info_field(info, "redis_version", at->version, sizeof(at->version));
    info_field(info, "valkey_version", at->version, sizeof(at->version)); /* Only Valkey has it. */
    info_field(info, "role", at->role, sizeof(at->role));
    info_field(info, "cluster_enabled", cluster, sizeof(cluster));
    info_field(info, "connected_slaves", replicas, sizeof(replicas));
    if (*at->role && strcmp(at->role, "master") != 0)
        note(survey, at->index, "a replica, not a master (role:%s)", at->role);
    if (strcmp(cluster, "1") == 0)
        note(survey, at->index, "a server of a Redis Cluster");
    if (strtoul(replicas, NULL, 10) < group->replicas_ack)
        note(survey, at->index, "%s replicas are connected, and replicas.ack asks for %u", replicas,
             (unsigned)group->replicas_ack);
    look_at_memory(survey, at->index, info);
    look_at_persistence(survey, at->index, info);
    freeReplyObject(reply);
}

/* ---- clock and rights ---- */

static int64_t time_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void look_at_clock(struct survey *survey, struct surveyed *at)
{
    const struct config_group *group = survey->visit.group;
    int64_t sent_us = time_us(CLOCK_BOOTTIME);
    redisReply *reply = ASK_WORDS(survey, at->index, "TIME");
    at->took_us = time_us(CLOCK_BOOTTIME) - sent_us;
    bool is_time = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                   reply->element[0]->type == REDIS_REPLY_STRING &&
                   reply->element[1]->type == REDIS_REPLY_STRING;
    if (!is_time)
        note(survey, at->index, "%s: %s",
             reply == NULL ? survey->visit.says : "TIME: not a possible reply",
             redis_optional_cost(REDIS_OPTIONAL_TIME));
    else
        at->clock_off_us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                           strtoll(reply->element[1]->str, NULL, 10) -
                           (time_us(CLOCK_REALTIME) - at->took_us / 2);
    freeReplyObject(reply);
    if (llabs(at->clock_off_us) > CLOCK_OFF_US)
        note(survey, at->index, "its clock is %lld ms %s this machine's",
             (long long)llabs(at->clock_off_us) / 1000,
             at->clock_off_us > 0 ? "ahead of" : "behind");
    if (at->took_us > (int64_t)group->node_timeout_ms * 1000)
        note(survey, at->index, "answers in %lld ms, and node_timeout is %u ms",
             (long long)at->took_us / 1000, (unsigned)group->node_timeout_ms);
}

/* Runs a script that only looks whether a key exists, by GET, the command that all agents need.
 * Reports why, if that fails. Returns true if it does not exist. */
static bool look_at_script(struct survey *survey, size_t master, const char *prefix,
                           const char *key)
{
    static const char script[] =
        "local got = redis.pcall('GET', KEYS[1]) "
        "if type(got) == 'table' and not string.find(got.err, 'WRONGTYPE', 1, true) then "
        "return got end return got and 1 or 0";
    redisReply *reply = ASK_WORDS(survey, master, "EVAL", script, "1", key);
    if (reply == NULL)
        note(survey, master, "a script may not read keys with the prefix \"%s\": %s", prefix,
             survey->visit.says);
    bool is_missing = reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == 0;
    freeReplyObject(reply);
    return is_missing;
}

#define NO_SCRIPT "0000000000000000000000000000000000000000"
static const char cannot_serve[] = "no lock can be taken";

/* Looks whether the master has the commands that an agent greets it with, beside INFO and TIME. */
static void look_at_commands(struct survey *survey, size_t master)
{
    struct visit *visit = &survey->visit;
    redisReply *reply = ASK_WORDS(survey, master, "EVALSHA", NO_SCRIPT, "0");
    freeReplyObject(reply);
    if (reply == NULL && visit->outcome != REDIS_OUTCOME_NOSCRIPT)
        note(survey, master, "%s: %s", visit->says, cannot_serve);
    if (visit->masters[master].blocking == NULL)
        return;
    reply = ASK_WORDS(survey, master, "SCRIPT", "EXISTS", NO_SCRIPT);
    freeReplyObject(reply);
    if (reply == NULL)
        note(survey, master, "%s: %s", visit->says,
             visit->outcome == REDIS_OUTCOME_NOCOMMAND
                 ? cannot_serve
                 : redis_optional_cost(REDIS_OPTIONAL_SCRIPT_EXISTS));
    if (visit->masters[master].blocking == NULL)
        return;
    reply = ASK_WORDS(survey, master, "CLIENT", "ID");
    freeReplyObject(reply);
    if (reply == NULL)
        note(survey, master, "%s: %s", visit->says, redis_optional_cost(REDIS_OPTIONAL_CLIENT_ID));
}

/* Looks for the commands that scripts call. The list is that of deploy/acl/full.acl
 * (tests/servers/needs.py). A server without COMMAND LIST is believed. */
static void look_at_scripts_commands(struct survey *survey, size_t master)
{
    static const char *const needed[] = {
        "del",  "exists", "get",     "hdel", "hget",    "hgetall",         "hmget",
        "hset", "mget",   "pexpire", "pttl", "publish", "pexpireat",       "set",
        "zadd", "zcount", "zrange",  "zrem", "zscore",  "zremrangebyscore"};
    redisReply *reply = ASK_WORDS(survey, master, "COMMAND", "LIST");
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        size_t at = 0,
               count = reply != NULL && reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
        while (at < count && (reply->element[at]->type != REDIS_REPLY_STRING ||
                              strcasecmp(reply->element[at]->str, needed[i]) != 0))
            at++;
        if (count > 0 && at == count)
            note(survey, master, "%s: nocommand: scripts that need it fail", needed[i]);
    }
    freeReplyObject(reply);
}

/* Looks whether scripts may read the agents' own keys, and the keys of each prefix of the group.
 * `*ret_unused`: no agent has left a marker there. */
static void look_at_rights(struct survey *survey, size_t master, bool *ret_unused)
{
    *ret_unused =
        survey->visit.group->guard && look_at_script(survey, master, "lockagent:", MARKER_KEY);
    for (size_t i = 0; i < survey->config->policy_count; i++) {
        const struct config_policy *policy = &survey->config->policies[i];
        char key[sizeof(policy->prefix) + 32];
        bool is_asked = config_policy_uses(survey->config, i, survey->group);
        for (size_t j = 0; j < i; j++)
            is_asked &= !config_policy_uses(survey->config, j, survey->group) ||
                        strcmp(survey->config->policies[j].prefix, policy->prefix) != 0;
        if (!is_asked || survey->visit.masters[master].blocking == NULL)
            continue;
        snprintf(key, sizeof(key), "%slockagent-check", policy->prefix);
        look_at_script(survey, master, policy->prefix, key);
    }
}

static void look_at_twin(struct survey *survey, size_t master)
{
    size_t twin = visit_twin(&survey->visit, master);
    if (twin != master)
        note(survey, master, "the same server as %.120s", survey->visit.group->masters[twin].url);
}

/* ---- all of them ---- */

/* Returns false if the master could not be asked to the end. */
static bool survey_master(struct survey *survey, size_t master)
{
    struct surveyed at = {.index = master};
    size_t before = survey->findings;
    char text[SURVEY_TEXT_BYTES];
    const struct visited *visited = &survey->visit.masters[master];
    if (!visit_open(&survey->visit, master)) {
        note(survey, master, "%s", survey->visit.says);
        return false;
    }
    look_at_twin(survey, master);
    look_at_info(survey, &at);
    if (visited->blocking != NULL)
        look_at_clock(survey, &at);
    if (visited->blocking != NULL)
        look_at_commands(survey, master);
    if (visited->blocking != NULL)
        look_at_scripts_commands(survey, master);
    bool is_unused = false;
    if (visited->blocking != NULL)
        look_at_rights(survey, master, &is_unused);
    if (visited->blocking == NULL)
        return false;
    survey->unused += is_unused;
    if (survey->findings == before) {
        snprintf(text, sizeof(text), "ok: version %s, answers in %lld.%lld ms",
                 at.version[0] == '\0' ? "unknown" : at.version, (long long)at.took_us / 1000,
                 (long long)at.took_us % 1000 / 100);
        survey->say(survey->visit.group->name, survey->visit.group->masters[master].url, text);
    }
    return true;
}

static void survey_group(struct survey *survey)
{
    const struct config_group *group = survey->visit.group;
    size_t asked = 0, quorum = config_group_quorum(survey->config, survey->group);
    char text[SURVEY_TEXT_BYTES];
    for (size_t m = 0; m < group->master_count; m++)
        asked += survey_master(survey, m);
    /* Without a guard no agent leaves a marker, and no vote is needed. */
    bool is_new = group->guard && asked >= quorum && survey->unused == asked;
    snprintf(text, sizeof(text), "%zu of %zu masters answer, %zu are needed%s%s", asked,
             (size_t)group->master_count, quorum, asked < quorum ? ": no lock can be granted" : "",
             is_new ? "; no agent has been here: lockagent trust --new gives them their first votes"
                    : "");
    survey->say(group->name, NULL, text);
}

size_t redis_survey(const struct config *config, trust_say *say)
{
    static char bytes[4 << 10];
    struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    size_t findings = 0;
    for (size_t g = 0; g < config->group_count; g++) {
        struct survey survey = {.config = config, .group = g, .say = say};
        visit_begin(&survey.visit, &config->groups[g], &resp);
        survey_group(&survey);
        visit_close(&survey.visit);
        findings += survey.findings;
    }
    return findings;
}
