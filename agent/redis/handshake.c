/* The greeting of a master, as a table of steps.
 *
 * Each step sends one or more commands. The next step begins when all of them have been answered
 * well. An error that passes by itself (LOADING, BUSY, ...) pauses the greeting, which then begins
 * again from the first step on the same pipeline. Any other error ends the pipeline. An optional
 * step may be refused: this is reported, and the greeting continues. A reply that is not a possible
 * one ends the pipeline in every step. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/redis/asking.h"
#include "agent/redis/auth.h"
#include "agent/redis/internal.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"

enum { WORDS_MAX = 3 };

struct step {
    const char *name;
    const char *words[WORDS_MAX]; /* The command, if it is always the same; otherwise `ask` is
                                   * set. */
    /* Sends the commands and returns their number: 0 if the step is not needed; -1, with `why`, if
     * it is not possible. */
    int (*ask)(struct master *master, char *why, size_t why_size);
    /* Takes a reply that is not an error. Returns false if it is not a possible one. NULL: any
     * reply is. */
    bool (*take)(struct master *master, const struct command *command, const redisReply *reply);
    enum redis_optional optional; /* REDIS_OPTIONAL_NONE: the step is needed. */
    /* Returns true if the greeting may continue after this error. NULL: never. */
    bool (*waits)(struct master *master, enum redis_outcome outcome);
    bool secret; /* The server's error text is not repeated, because it may quote a secret. */
};

static void heard_step(struct master *master, const struct command *command,
                       const redisReply *reply, bool sent);

/* ---- the steps ---- */

static int ask_auth(struct master *master, char *why, size_t why_size)
{
    struct resp *resp = &master->redis->resp;
    struct text command;
    int asks = auth_ask(resp, master->group_config, master->config, &command, why, why_size);
    if (asks > 0) {
        ask_bytes(master, heard_step, command);
        resp_wipe(resp);
    }
    return asks;
}

static int ask_select(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    if (master->config->db == 0)
        return 0; /* A connection begins in database 0, so no right to SELECT is needed. */
    char db[16];
    snprintf(db, sizeof(db), "%d", master->config->db);
    ASK(master, heard_step, "SELECT", db);
    return 1;
}

/* Most servers have all scripts, from the connections of other agents or from the one before. */
static int ask_what_exists(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    const char *words[2 + SCRIPT_COUNT] = {"SCRIPT", "EXISTS"};
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        words[2 + i] = redis_scripts[i].sha;
    master->missing = SCRIPTS_ALL;
    ask_words(master, heard_step, 2 + SCRIPT_COUNT, words);
    return 1;
}

static bool take_what_exists(struct master *master, const struct command *command,
                             const redisReply *reply)
{
    (void)command;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != SCRIPT_COUNT)
        return false;
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        if (reply->element[i]->type == REDIS_REPLY_INTEGER && reply->element[i]->integer == 1)
            master->missing &= ~(1u << i);
    return true;
}

static int ask_to_load(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    return ask_scripts(master, heard_step, master->missing);
}

static bool take_script(struct master *master, const struct command *command,
                        const redisReply *reply)
{
    (void)master, (void)command;
    return ask_has_loaded(reply);
}

/* Asks for a script that no server has. Without a guard no other step runs a script, and a master
 * that runs none would grant locks by native commands (R24) that cannot be renewed. */
static int ask_to_run(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    if (master->group_config->guard)
        return 0;
    ASK(master, heard_step, "EVALSHA", "0000000000000000000000000000000000000000", "0");
    return 1;
}

static bool run_waits(struct master *master, enum redis_outcome outcome)
{
    (void)master;
    return outcome == REDIS_OUTCOME_NOSCRIPT;
}

static int ask_info(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    master->view.run_id[0] = master->view.version[0] = '\0';
    ASK(master, heard_step, "INFO", "server");
    ASK(master, heard_step, "INFO", "replication");
    ASK(master, heard_step, "INFO", "memory");
    ASK(master, heard_step, "INFO", "cluster");
    ASK(master, heard_step, "INFO", "clients");
    return 5;
}

static bool take_info(struct master *master, const struct command *command, const redisReply *reply)
{
    (void)command;
    if (reply->type != REDIS_REPLY_STRING)
        return false;
    info_field(reply->str, "run_id", master->view.run_id, sizeof(master->view.run_id));
    info_field(reply->str, "redis_version", master->view.version, sizeof(master->view.version));
    health_take_info(master, reply->str);
    return true;
}

/* Kills the client of the connection before, so that its commands in flight do not run after later
 * ones (R5). Only in the same run of the server: another run counts its clients anew, and the id
 * would be another client's. The id is kept until the master has replied: if this connection ends
 * before, the next one asks again. */
static int ask_kill(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    if (!*master->view.run_id || strcmp(master->view.run_id, master->last_run_id) != 0)
        master->doubtful_client_id = 0;
    if (!master->doubtful_client_id)
        return 0;
    char number[24];
    snprintf(number, sizeof(number), "%lld", (long long)master->doubtful_client_id);
    ASK(master, heard_step, "CLIENT", "KILL", "ID", number);
    return 1;
}

static bool take_kill(struct master *master, const struct command *command, const redisReply *reply)
{
    (void)command, (void)reply;
    master->doubtful_client_id = 0;
    return true;
}

static bool take_client_id(struct master *master, const struct command *command,
                           const redisReply *reply)
{
    (void)command;
    master->client_id = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    return reply->type == REDIS_REPLY_INTEGER;
}

/* Asks which commands the server has that compare and delete (R24). */
static int ask_what_compares(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    master->compares = COMPARE_DELETE_NONE;
    ASK(master, heard_step, "COMMAND", "LIST", "FILTERBY", "PATTERN", "del*");
    return 1;
}

static bool take_what_compares(struct master *master, const struct command *command,
                               const redisReply *reply)
{
    (void)command;
    master->compares = asking_compares(reply);
    return reply->type == REDIS_REPLY_ARRAY;
}

/* Names the connection after this machine or pod, so that CLIENT LIST on a master finds an agent
 * that was forgotten in a roll-out (R23). */
static int ask_name(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    char host[64] = "", name[sizeof("lockagent:") + sizeof(host)];
    gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c; c++) /* Redis takes no other bytes. */
        *c = *c > ' ' && *c < 127 ? *c : '?';
    snprintf(name, sizeof(name), "lockagent:%s", host);
    ASK(master, heard_step, "CLIENT", "SETNAME", name);
    return 1;
}

/* Asks for the marker (D5.3). It comes after CLIENT KILL, so that no command of an earlier
 * connection runs between the marker and the locks. */
static int ask_marker(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    if (!master->group_config->guard)
        return 0;
    marker_greet(master, heard_step);
    return 1;
}

static bool take_marker(struct master *master, const struct command *command,
                        const redisReply *reply)
{
    (void)command;
    return marker_take(master, reply);
}

/* Continues the greeting, because a master that cannot write the marker now can still serve
 * holders. */
static bool marker_waits(struct master *master, enum redis_outcome outcome)
{
    if (outcome != REDIS_OUTCOME_OOM && outcome != REDIS_OUTCOME_READONLY &&
        outcome != REDIS_OUTCOME_NOREPLICAS)
        return false;
    marker_refused(master);
    return true;
}

/* A master that is loading answers AUTH, SELECT and INFO, but not PING. So PING comes before the
 * steps that need its data. */
static const struct step steps[] = {
    {"AUTH", .ask = ask_auth, .secret = true},
    {"SELECT", .ask = ask_select},
    {"PING", .words = {"PING"}},
    {"SCRIPT EXISTS", .ask = ask_what_exists, .take = take_what_exists,
     .optional = REDIS_OPTIONAL_SCRIPT_EXISTS},
    {"SCRIPT LOAD", .ask = ask_to_load, .take = take_script},
    {"EVALSHA", .ask = ask_to_run, .waits = run_waits},
    {"INFO", .ask = ask_info, .take = take_info, .optional = REDIS_OPTIONAL_INFO},
    {"CLIENT KILL", .ask = ask_kill, .take = take_kill, .optional = REDIS_OPTIONAL_CLIENT_KILL},
    {"EVALSHA of the marker", .ask = ask_marker, .take = take_marker, .waits = marker_waits},
    {"CLIENT ID", .words = {"CLIENT", "ID"}, .take = take_client_id,
     .optional = REDIS_OPTIONAL_CLIENT_ID},
    {"TIME", .words = {"TIME"}, .take = health_take_time, .optional = REDIS_OPTIONAL_TIME},
    {"COMMAND LIST", .ask = ask_what_compares, .take = take_what_compares,
     .optional = REDIS_OPTIONAL_COMMAND_LIST},
    {"CLIENT SETNAME", .ask = ask_name, .optional = REDIS_OPTIONAL_CLIENT_SETNAME},
};
enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

/* ---- walking through them ---- */

/* Ends the greeting. Replies that are still to come are ignored. */
static void end_greeting(struct master *master, enum greeted greeted, const char *why)
{
    if (greeted != GREETED_WELL)
        master->greeting++;
    master->on_greeted(master, greeted, why);
}

static int ask_step(struct master *master, const struct step *step, char *why, size_t why_size)
{
    if (step->ask != NULL)
        return step->ask(master, why, why_size);
    unsigned count = 1;
    while (count < WORDS_MAX && step->words[count] != NULL)
        count++;
    ask_words(master, heard_step, count, step->words);
    return 1;
}

static void go_on(struct master *master)
{
    char why[160];
    while (master->step < STEPS) {
        int asked = ask_step(master, &steps[master->step], why, sizeof(why));
        if (asked < 0) {
            end_greeting(master, GREETED_ILL, why);
            return;
        }
        if (asked > 0) {
            master->answers_left = (unsigned)asked;
            return;
        }
        master->step++;
    }
    end_greeting(master, GREETED_WELL, NULL);
}

void handshake_begin(struct master *master)
{
    master->phase = PHASE_GREETING;
    master->greeting++;
    master->step = 0;
    health_forget(master); /* Another server may have this address now (D5.4). */
    go_on(master);
}

static bool passes_by_itself(enum redis_outcome outcome)
{
    return outcome == REDIS_OUTCOME_LOADING || outcome == REDIS_OUTCOME_BUSY ||
           outcome == REDIS_OUTCOME_MASTERDOWN || outcome == REDIS_OUTCOME_MISCONF;
}

static void step_refused(struct master *master, const struct step *step, const char *text)
{
    enum redis_outcome outcome = outcome_of_error(text);
    char says[120], why[160];
    if (step->secret && outcome == REDIS_OUTCOME_OTHER)
        snprintf(says, sizeof(says), "the server does not accept it");
    else
        outcome_describe(outcome, text, says, sizeof(says));
    snprintf(why, sizeof(why), "%s: %s", step->name, says);
    end_greeting(master, passes_by_itself(outcome) ? GREETED_LATER : GREETED_ILL, why);
}

static void heard_step(struct master *master, const struct command *command,
                       const redisReply *reply, bool sent)
{
    (void)sent;
    if (reply == NULL || master->phase != PHASE_GREETING || command->greeting != master->greeting)
        return;
    const struct step *step = &steps[master->step];
    bool is_error = reply->type == REDIS_REPLY_ERROR;
    bool waits =
        is_error && step->waits != NULL && step->waits(master, outcome_of_error(reply->str));
    if (is_error && !waits && (!step->optional || passes_by_itself(outcome_of_error(reply->str)))) {
        step_refused(master, step, reply->str);
        return;
    }
    if (is_error && step->optional)
        master_refuses(master, step->optional, reply->str);
    else
        master_accepts(master, step->optional);
    if (!is_error && step->take != NULL && !step->take(master, command, reply)) {
        char why[160];
        snprintf(why, sizeof(why), "%s: not a possible reply", step->name);
        master_makes_no_sense(master, step->name);
        end_greeting(master, GREETED_ILL, why);
        return;
    }
    if (master->health.cluster) {
        end_greeting(
            master, GREETED_ILL,
            "a node of a Redis Cluster (cluster_enabled:1): masters of locks must be independent");
        return;
    }
    if (--master->answers_left == 0) {
        master->step++;
        go_on(master);
    }
}
