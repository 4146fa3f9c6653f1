/* What is asked of a master before it counts as up (D5.2), as a table of steps; and the probes afterwards.
 *
 * Each step asks one or more commands and the next one starts when all of them have been answered well. An error that
 * passes by itself (LOADING, BUSY, ...) pauses the greeting, which then begins again from the top on the same
 * connection; any other ends the connection. Errors of optional steps are passed over. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/redis/room.h"

struct step {
    const char *name;
    /* Asks, and returns how many commands that took: 0 when the step is not needed, -1 with `why` when it can not be.
     */
    int (*ask)(struct master *master, char *why, size_t why_size);
    /* Takes a reply that is not an error; false when it makes no sense. NULL: any will do. */
    bool (*take)(struct master *master, const struct command *command, const redisReply *reply);
    bool optional;
    /* True where the greeting may go on after this error. NULL: never. */
    bool (*waits)(struct master *master, enum redis_outcome outcome);
    bool secret; /* what the server says to it is not repeated */
};

static void heard_step(struct master *master, const struct command *command, const redisReply *reply, bool sent);

void master_ask(struct master *master, heard_fn *heard)
{
    struct redis *redis = master->redis;
    struct command *command = command_new(redis, heard, 0);
    command->bytes = redis->wire.len;
    command->greeting = master->greeting;
    command->references++;
    if (!connection_append(master->connection, command, redis->wire.bytes, redis->wire.len)) {
        connection_condemn(master->connection, "no memory for output"); /* not heard: the phase must not wait for it */
    }
    command_release(redis, command);
}

/* ---- the steps ---- */

/* A password from the URL, or else from the file, which is read anew every time. */
int greeting_auth(struct master *master, char *why, size_t why_size)
{
    const struct config_master *config = master->config;
    const struct config_group *group = master->group_config;
    const char *user = *config->username ? config->username : group->username;
    char password[sizeof(config->password)];
    snprintf(password, sizeof(password), "%s", config->password);
    if (!*password && *group->password_file &&
        config_read_secret(group->password_file, password, sizeof(password)) < 0) {
        snprintf(why, why_size, "password_file: %s", strerror(errno));
        return -1;
    }
    if (!*password && !*user) {
        return 0;
    }
    struct wire *wire = &master->redis->wire;
    wire_begin(wire, *user ? 3 : 2);
    wire_text(wire, "AUTH");
    if (*user) {
        wire_text(wire, user);
    }
    wire_text(wire, password);
    explicit_bzero(password, sizeof(password));
    return 1;
}

static int ask_auth(struct master *master, char *why, size_t why_size)
{
    int asks = greeting_auth(master, why, why_size);
    if (asks > 0) {
        master_ask(master, heard_step);
        explicit_bzero(master->redis->wire.bytes, master->redis->wire.len);
    }
    return asks;
}

static void ask_words(struct master *master, heard_fn *heard, unsigned count, const char *const *words)
{
    struct wire *wire = &master->redis->wire;
    wire_begin(wire, count);
    for (unsigned i = 0; i < count; i++) {
        wire_text(wire, words[i]);
    }
    master_ask(master, heard);
}
#define ASK(master, heard, ...)                                                                                        \
    ask_words(master, heard, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *),                        \
              (const char *const[]){__VA_ARGS__})

static int ask_select(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    if (master->config->db == 0) {
        return 0; /* a connection begins there: no right to SELECT is needed */
    }
    char db[16];
    snprintf(db, sizeof(db), "%d", master->config->db);
    ASK(master, heard_step, "SELECT", db);
    return 1;
}

/* A loading master answers AUTH, SELECT and INFO, but not PING. */
static int ask_ping(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    ASK(master, heard_step, "PING");
    return 1;
}

static void ask_all_scripts(struct master *master, heard_fn *heard)
{
    for (unsigned i = 0; i < SCRIPT_COUNT; i++) {
        ASK(master, heard, "SCRIPT", "LOAD", redis_scripts[i].text);
    }
}

static int ask_scripts(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    ask_all_scripts(master, heard_step);
    return SCRIPT_COUNT;
}

static bool take_script(struct master *master, const struct command *command, const redisReply *reply)
{
    (void)master, (void)command;
    for (unsigned i = 0; reply->type == REDIS_REPLY_STRING && i < SCRIPT_COUNT; i++) {
        if (strcmp(reply->str, redis_scripts[i].sha) == 0) {
            return true;
        }
    }
    return false;
}

static int ask_info(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    master->view.run_id[0] = master->view.version[0] = '\0';
    master->sanity.role[0] = master->sanity.policy[0] = '\0';
    ASK(master, heard_step, "INFO", "server");
    ASK(master, heard_step, "INFO", "replication");
    ASK(master, heard_step, "INFO", "memory");
    return 3;
}

static bool take_info(struct master *master, const struct command *command, const redisReply *reply)
{
    (void)command;
    if (reply->type != REDIS_REPLY_STRING) {
        return false;
    }
    copy_info_field(reply->str, "run_id", master->view.run_id, sizeof(master->view.run_id));
    copy_info_field(reply->str, "redis_version", master->view.version, sizeof(master->view.version));
    sanity_take_info(master, reply->str);
    return true;
}

/* What an earlier connection left in flight must not run after what comes now (R5). Only in the same server process:
 * another one counts its clients anew, and the number would be a stranger's. */
static int ask_kill(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    int64_t id = master->doubtful_client_id;
    master->doubtful_client_id = 0;
    if (!id || !*master->view.run_id || strcmp(master->view.run_id, master->last_run_id) != 0) {
        return 0;
    }
    char number[24];
    snprintf(number, sizeof(number), "%lld", (long long)id);
    ASK(master, heard_step, "CLIENT", "KILL", "ID", number);
    return 1;
}

static int ask_client_id(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    ASK(master, heard_step, "CLIENT", "ID");
    return 1;
}

static bool take_client_id(struct master *master, const struct command *command, const redisReply *reply)
{
    (void)command;
    master->client_id = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    return reply->type == REDIS_REPLY_INTEGER;
}

static int ask_time(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    ASK(master, heard_step, "TIME");
    return 1;
}

/* The master's clock is taken to have been read in the middle of the round trip. */
static bool take_time(struct master *master, const struct command *command, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING) {
        return false;
    }
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t wall_us = (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
    int64_t round_trip_us = (int64_t)((uv_hrtime() - command->sent_at_ns) / 1000);
    int64_t master_us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 + strtoll(reply->element[1]->str, NULL, 10);
    master->view.clock_offset_us = master_us - (wall_us - round_trip_us / 2);
    master->sanity.clock_known = true;
    return true;
}

static int ask_name(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    ASK(master, heard_step, "CLIENT", "SETNAME", "lockagent");
    return 1;
}

/* D5.3: behind CLIENT KILL, so that what an earlier connection left behind does not run between marker and locks. */
static int ask_marker(struct master *master, char *why, size_t why_size)
{
    (void)why, (void)why_size;
    if (!master->group_config->guard) {
        return 0;
    }
    guard_greet(master, heard_step);
    return 1;
}

static bool take_marker(struct master *master, const struct command *command, const redisReply *reply)
{
    (void)command;
    return guard_take(master, reply);
}

/* A master that can not write the marker now can still serve holders. */
static bool marker_waits(struct master *master, enum redis_outcome outcome)
{
    if (outcome != REDIS_OUTCOME_OOM && outcome != REDIS_OUTCOME_READONLY && outcome != REDIS_OUTCOME_NOREPLICAS) {
        return false;
    }
    guard_refused(master);
    return true;
}

static const struct step steps[] = {
    {"AUTH", ask_auth, NULL, .secret = true},
    {"SELECT", ask_select, NULL, .optional = false},
    {"PING", ask_ping, NULL, .optional = false},
    {"SCRIPT LOAD", ask_scripts, take_script, .optional = false},
    {"INFO", ask_info, take_info, .optional = true},
    {"CLIENT KILL", ask_kill, NULL, .optional = true},
    {"marker", ask_marker, take_marker, .waits = marker_waits},
    {"CLIENT ID", ask_client_id, take_client_id, .optional = true},
    {"TIME", ask_time, take_time, .optional = true},
    {"CLIENT SETNAME", ask_name, NULL, .optional = true},
};
enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

/* ---- walking through them ---- */

static void fail(struct master *master, const char *why)
{
    connection_condemn(master->connection, why);
    master->greeting++; /* answers still to come are of no interest */
    master_down(master, why);
}

static void go_on(struct master *master)
{
    char why[160];
    while (master->step < STEPS) {
        int asked = steps[master->step].ask(master, why, sizeof(why));
        if (asked < 0) {
            fail(master, why);
            return;
        }
        if (asked > 0) {
            master->answers_left = (unsigned)asked;
            return;
        }
        master->step++;
    }
    master_up(master);
}

void greeting_begin(struct master *master)
{
    master->phase = PHASE_GREETING;
    master->greeting++;
    master->step = 0;
    go_on(master);
}

static bool passes_by_itself(enum redis_outcome outcome)
{
    return outcome == REDIS_OUTCOME_LOADING || outcome == REDIS_OUTCOME_BUSY || outcome == REDIS_OUTCOME_MASTERDOWN ||
           outcome == REDIS_OUTCOME_MISCONF;
}

static void step_refused(struct master *master, const struct step *step, const char *text)
{
    enum redis_outcome outcome = outcome_of_error(text);
    char says[120], why[160];
    if (step->secret && outcome == REDIS_OUTCOME_OTHER) {
        snprintf(says, sizeof(says), "the server does not accept it");
    } else {
        outcome_describe(outcome, text, says, sizeof(says));
    }
    snprintf(why, sizeof(why), "%s: %s", step->name, says);
    if (passes_by_itself(outcome)) {
        master->greeting++;
        master_recheck(master, why);
    } else {
        fail(master, why);
    }
}

static void heard_step(struct master *master, const struct command *command, const redisReply *reply, bool sent)
{
    (void)sent;
    if (!reply || master->phase != PHASE_GREETING || command->greeting != master->greeting) {
        return;
    }
    const struct step *step = &steps[master->step];
    bool is_error = reply->type == REDIS_REPLY_ERROR;
    bool waits = is_error && step->waits && step->waits(master, outcome_of_error(reply->str));
    if (is_error && !waits && (!step->optional || passes_by_itself(outcome_of_error(reply->str)))) {
        step_refused(master, step, reply->str);
        return;
    }
    if (!is_error && step->take && !step->take(master, command, reply) && !step->optional) {
        char why[160];
        snprintf(why, sizeof(why), "%s: an answer that makes no sense", step->name);
        fail(master, why);
        return;
    }
    if (--master->answers_left == 0) {
        master->step++;
        go_on(master);
    }
}

/* ---- while READY ---- */

static void heard_reload(struct master *master, const struct command *command, const redisReply *reply, bool sent)
{
    (void)sent;
    if (!reply || master->phase != PHASE_READY) {
        return;
    }
    master->reloading = false;
    if (reply->type == REDIS_REPLY_ERROR || !take_script(master, command, reply)) {
        master_recheck(master, "SCRIPT LOAD: refused");
    }
}

/* After a NOSCRIPT. Whoever asks again comes behind these on the same connection. */
void greeting_reload_scripts(struct master *master)
{
    if (master->phase == PHASE_READY && !master->reloading) {
        master->reloading = true;
        ask_all_scripts(master, heard_reload);
    }
}

static void heard_ping(struct master *master, const struct command *command, const redisReply *reply, bool sent)
{
    (void)command, (void)sent;
    if (!reply || master->phase != PHASE_READY) {
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        master_refused(master, outcome_of_error(reply->str), reply->str);
    } else {
        master_answered_well(master);
    }
}

static void heard_time(struct master *master, const struct command *command, const redisReply *reply, bool sent)
{
    (void)sent;
    if (!reply || master->phase != PHASE_READY || !take_time(master, command, reply)) {
        return;
    }
    struct redis_sink *sink = &master->redis->sink;
    struct event event = {
        .kind = EVENT_MASTER_CLOCK,
        .master = {.group = master->group,
                   .master = master->index,
                   .epoch = master->epoch,
                   .clock_offset_us = master->view.clock_offset_us},
    };
    sink->event(sink->arg, &event);
}

static void heard_info(struct master *master, const struct command *command, const redisReply *reply, bool sent)
{
    (void)command, (void)sent;
    if (reply && reply->type == REDIS_REPLY_STRING && master->phase == PHASE_READY) {
        sanity_take_info(master, reply->str);
    }
}

void greeting_probe(struct master *master)
{
    ASK(master, heard_info, "INFO", "replication");
    ASK(master, heard_info, "INFO", "memory");
    ASK(master, heard_ping, "PING");
    ASK(master, heard_time, "TIME");
}
