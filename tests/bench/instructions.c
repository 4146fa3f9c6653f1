/* The work whose instructions instructions.py counts: turns on one master, one call after the
 * other. The agent's calls are those of its own code, with a vote, a marker and fencing, and the
 * yardstick's are those of bare.c. All that could differ between two runs is fixed: the random
 * parts, the names, their order, and the guard's time.
 *
 * ECHO separates the rows: callgrind writes its counts when the master begins an ECHO. The first
 * part ends before the first row, and each row ends one more. */
#include <getopt.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"
#include "config/config.h"
#include "tests/bench/masters.h"
#include "tests/bench/measure.h"

enum {
    NAMES = 128,
    ITEMS_MAX = 13,
    WARM_ROUNDS = 3, /* Each name is used so often before the first row is measured. */
    LEASE_MS = 30000,
    HELD_MS = 600000, /* The lease of locks that are renewed. They are held to the end. */
    SLOW_MS = 60000,
    LEFT_MS = 29690, /* Rest of an attempt's deadline. */
    SILENCE_MS = 3000,
    SECOND_US = 1000000,
    AGENT = 0x1a2b3c4d,
    COMMAND_BYTES = 64 * 1024,
    KEY_BYTES = 32,
    RUN_ID_BYTES = 64,
};

static const uint64_t agent_with_tickets = 0x1a2b3c4d5e6f7081;

struct row {
    const char *name;
    void (*turn)(const struct row *row, unsigned turn);
    const char *keys; /* The names begin with it. */
    unsigned items;   /* Locks a call. */
    unsigned turns;   /* Turns that are measured. */
    enum form form;
    enum mode mode;
    bool by_script; /* As a lock is taken that was refused before (R24). */
    bool compares;  /* Released by native commands. A row of servers that have them. */
};

static struct config config;
static struct guard guard;
static struct instant now = {SECOND_US}; /* The guard's time. Only the guard's questions move it. */
static uint64_t number;                  /* The last proposal, or the last number of a question. */
static redisContext *redis;
static int port;
static enum compare_delete compares; /* How this server compares. */
static char run_id[RUN_ID_BYTES], layout[LAYOUT_BYTES + 1], delete_sha[SHA_CHARS + 1];

/* ---- calls ---- */

static redisReply *must_reply(const char *what, void *reply)
{
    redisReply *got = reply;
    if (!got || got->type == REDIS_REPLY_ERROR)
        die("instructions: %s: %s", what, got ? got->str : redis->errstr);
    return got;
}

static redisReply *next_reply(const char *what)
{
    void *reply = NULL;
    redisGetReply(redis, &reply);
    return must_reply(what, reply);
}

static void plain(const char *command)
{
    freeReplyObject(must_reply(command, redisCommand(redis, command)));
}

static uint64_t wall_us(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)wall.tv_sec * SECOND_US + (uint64_t)wall.tv_nsec / 1000;
}

/* Fills bytes with the same sequence in each run. */
static void draw(uint8_t *bytes, size_t count)
{
    static uint64_t state = 0x9e3779b97f4a7c15;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (uint8_t)(state >> 32);
    }
}

/* Sends one operation as redis_send() does. Ends the program unless the master does all of it. */
static void ask(const char *what, enum op op, const struct send_item *items, unsigned count)
{
    static char bytes[COMMAND_BYTES];
    char own_bytes[ASKING_OWN_BYTES], vote_bytes[ASKING_VOTE_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes - sizeof own_bytes};
    struct text command = asking_op(&resp, &config, 0, op, items, count);
    struct text own = {"", 0}, vote = {"", 0};
    struct proposals proposals = asking_proposals(&config, items, count);
    struct event_reply read[ITEMS_MAX];
    const char *error = "";

    if (asking_names_vote(&config, 0, op))
        vote = asking_vote(vote_bytes, &guard, 0, now, op, &proposals);
    /* The master has this machine's clock. */
    own = asking_own(own_bytes, op, (int64_t)(wall_us() / 1000), vote);
    memcpy(bytes + (command.at - bytes) + command.len, own.at, own.len);
    redisAppendFormattedCommand(redis, command.at, command.len + own.len);
    redisReply *reply = next_reply(what);
    enum redis_outcome outcome = reply_read(op, count, reply, read, &error);
    for (unsigned i = 0; i < count; i++)
        if (read[i].vote != VOTE_YES)
            die("instructions: %s: the master refuses: %s", what,
                *error ? error : redis_outcome_name(outcome));
    freeReplyObject(reply);
}

/* The same by native commands (R24). */
static void ask_native(const char *what, enum op op, const struct send_item *items, unsigned count)
{
    static char bytes[COMMAND_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    bool takes = op == OP_ACQUIRE;
    struct native native = takes ? asking_native(&resp, &config, 0, items, count)
                                 : asking_native_release(&resp, &config, 0, compares, items, count);
    struct proposals proposals = asking_proposals(&config, items, count);
    struct event_reply read[ITEMS_MAX];
    struct native_results call = {
        .takes = takes,
        .results = native.results,
        .fencing = items[0].fencing,
        .vote = asking_native_vote(&guard, 0, now, takes ? &proposals : NULL),
        .clock_ms = (int64_t)(wall_us() / 1000),
        .spread_ms = SLOW_MS, /* under callgrind */
    };

    if (!call.vote)
        die("instructions: %s: the master has no vote", what);
    if (takes)
        asking_native_ends(&native, bytes + resp.at, call.clock_ms);
    redisAppendFormattedCommand(redis, native.bytes.at, native.bytes.len);
    for (unsigned i = 0; i < native.before; i++)
        freeReplyObject(next_reply(what));
    redisReply *reply = next_reply(what);
    if (!native_reply_is_possible(&call, reply))
        die("instructions: %s: not a possible reply", what);
    native_reply_read(&call, count, reply, read);
    for (unsigned i = 0; i < count; i++)
        if (read[i].vote != VOTE_YES)
            die("instructions: %s: the master refuses", what);
    freeReplyObject(reply);
}

/* ---- the marker ---- */

static void tell_guard(const struct guard_event *event)
{
    struct guard_effects effects;
    char bytes[COMMAND_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};

    guard_step(&guard, event, now, (int64_t)wall_us(), &effects);
    if (effects.ask_count == 0)
        return;
    struct text command = asking_marker(&resp, &effects.asks[0], run_id, (int64_t)wall_us(),
                                        /* whole= */ false);
    redisAppendFormattedCommand(redis, command.at, command.len);
    redisReply *reply = next_reply("marker");
    struct guard_event answered = {.kind = GUARD_ANSWERED};
    if (!asking_read_marker(reply, &answered.answer, &answered.layouts))
        die("instructions: marker: not a possible reply");
    tell_guard(&answered);
    freeReplyObject(reply);
}

/* The question of each second. It lifts the top, because numbers were proposed. */
static void marker_turn(const struct row *row, unsigned turn)
{
    uint64_t questions = guard.questions;

    (void)row, (void)turn;
    (void)guard_uses(&guard, LEASE_MS, now); /* No idle group is asked each second. */
    guard_numbers(&guard, 1, ++number);
    now = instant_after_us(now, SECOND_US);
    tell_guard(&(struct guard_event){.kind = GUARD_TIME});
    if (guard.questions != questions + 1)
        die("instructions: marker: %" PRIu64 " questions in a second", guard.questions - questions);
}

/* ---- locks ---- */

static uint16_t policy_of(enum form form)
{
    for (size_t i = config.policy_count; i > 0; i--)
        if (config.policies[i - 1].core.form == form)
            return (uint16_t)(i - 1);
    die("instructions: the configuration has no policy of form %d", (int)form);
}

static void make_items(const struct row *row, unsigned turn, struct send_item *items,
                       char (*keys)[KEY_BYTES])
{
    uint16_t policy = policy_of(row->form);

    for (unsigned i = 0; i < row->items; i++) {
        unsigned name = (turn * row->items + i) % NAMES;
        int len = snprintf(keys[i], KEY_BYTES, "%s-%03u", row->keys, name);
        items[i] = (struct send_item){
            .key = {keys[i], (size_t)len},
            .agent = AGENT,
            .ttl_ms = LEASE_MS,
            .left_ms = LEFT_MS,
            .policy = policy,
            .fencing = true,
            .permits = (uint8_t)config.policies[policy].core.permits,
            .form = row->form,
            .mode = row->mode,
        };
        draw(items[i].token.random, sizeof items[i].token.random);
        items[i].token.fence = ++number;
        items[i].token.has_slot = row->form == FORM_SLOTS;
        if (items[i].token.has_slot)
            items[i].token.slot = (uint8_t)(turn % items[i].permits);
        if (form_is_fair(row->form))
            items[i].ticket = (struct ticket){.agent = agent_with_tickets, .mode = row->mode};
    }
}

static void pair_turn(const struct row *row, unsigned turn)
{
    struct send_item items[ITEMS_MAX];
    char keys[ITEMS_MAX][KEY_BYTES];

    make_items(row, turn, items, keys);
    if (form_is_native(row->form) && !row->by_script)
        ask_native(row->name, OP_ACQUIRE, items, row->items);
    else
        ask(row->name, OP_ACQUIRE, items, row->items);
    for (unsigned i = 0; i < row->items; i++) {
        items[i].asked = true;
        items[i].ticket.mode = MODE_WRITE;
    }
    if (row->compares)
        ask_native(row->name, OP_RELEASE, items, row->items);
    else
        ask(row->name, OP_RELEASE, items, row->items);
}

/* The first turns take the locks, which both rows of renewals share. */
static void renewal_turn(const struct row *row, unsigned turn)
{
    static struct send_item held[NAMES];
    static char keys[NAMES][KEY_BYTES];
    struct send_item items[ITEMS_MAX];

    for (unsigned i = 0; i < row->items; i++) {
        unsigned name = (turn * row->items + i) % NAMES;
        if (held[name].key.len == 0) {
            struct row one = *row;
            one.items = 1;
            make_items(&one, name, &held[name], &keys[name]);
            held[name].ttl_ms = HELD_MS;
            ask(row->name, OP_ACQUIRE, &held[name], 1);
        }
        items[i] = held[name];
    }
    ask(row->name, OP_RENEW, items, row->items);
}

/* ---- the yardstick ---- */

static void must_be_status_or_one(const struct row *row)
{
    redisReply *reply = next_reply(row->name);
    if (reply->type != REDIS_REPLY_STATUS && reply->integer != 1)
        die("instructions: %s: the master refuses", row->name);
    freeReplyObject(reply);
}

static void bare_turn(const struct row *row, unsigned turn)
{
    char keys[ITEMS_MAX][KEY_BYTES], randoms[ITEMS_MAX][TOKEN_RANDOM_CHARS + 1];

    for (unsigned i = 0; i < row->items; i++) {
        struct token token;
        draw(token.random, sizeof token.random);
        token_print_random(&token, randoms[i]);
        randoms[i][TOKEN_RANDOM_CHARS] = '\0';
        snprintf(keys[i], KEY_BYTES, "lock:%s-%03u", row->keys, (turn * row->items + i) % NAMES);
        redisAppendCommand(redis, "SET %s %s NX PX %d", keys[i], randoms[i], LEASE_MS);
    }
    for (unsigned i = 0; i < row->items; i++)
        must_be_status_or_one(row);
    for (unsigned i = 0; i < row->items; i++)
        redisAppendCommand(redis, "EVALSHA %s 1 %s %s", delete_sha, keys[i], randoms[i]);
    for (unsigned i = 0; i < row->items; i++)
        must_be_status_or_one(row);
}

/* ---- the greeting ---- */

static void load_script(const char *text, char ret_sha[SHA_CHARS + 1])
{
    redisReply *reply = must_reply("SCRIPT LOAD", redisCommand(redis, "SCRIPT LOAD %s", text));
    if (reply->type != REDIS_REPLY_STRING || reply->len != SHA_CHARS)
        die("instructions: SCRIPT LOAD: not a possible reply");
    memcpy(ret_sha, reply->str, SHA_CHARS + 1);
    freeReplyObject(reply);
}

/* The steps of handshake.c on a server without a password. */
static void greet(void)
{
    char sha[SHA_CHARS + 1];

    plain("PING");
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        load_script(redis_scripts[i].text, sha);
    redisReply *info = must_reply("INFO", redisCommand(redis, "INFO server"));
    info_field(info->str, "run_id", run_id, sizeof run_id);
    freeReplyObject(info);
    tell_guard(&(struct guard_event){.kind = GUARD_GREETS, .knows_run = true});
    plain("CLIENT ID");
    plain("TIME");
    redisReply *names =
        must_reply("COMMAND", redisCommand(redis, "COMMAND LIST FILTERBY PATTERN del*"));
    compares = asking_compares(names);
    freeReplyObject(names);
    plain("CLIENT SETNAME lockagent:bench");
    tell_guard(&(struct guard_event){.kind = GUARD_READY});
    number = wall_us();
    marker_turn(NULL, 0); /* lifts the top above the proposals */
    if (!*guard_vote(&guard, 0, now) || guard_top(&guard, 0) <= number)
        die("instructions: the master has no vote");
}

static void open_master(const char *path)
{
    struct config_errors errors;

    if (!config_load(path, NULL, NULL, 0, &config, &errors))
        die("instructions: %s", errors.list[0].text);
    const struct config_group *group = &config.groups[0];
    if (!group->guard || group->master_count != 1)
        die("instructions: the group must be guarded, and have one master");
    redis = redisConnect("127.0.0.1", port);
    if (!redis || redis->err)
        die("instructions: no master on port %d", port);
    guard_init(&guard, 1, (uint8_t)config_group_quorum(&config, 0), group->durable,
               config.max_ttl_ms);
    size_t len = config_layout(&config, 0, layout);
    guard_set_layout(&guard, (struct text){layout, len}, SILENCE_MS, group->node_timeout_ms);
    greet();
    load_script(compare_and_delete, delete_sha);
}

/* ---- rows ---- */

#define ONE .items = 1, .turns = 3 * NAMES
#define MANY .items = ITEMS_MAX, .turns = NAMES
static const struct row rows[] = {
    {"bare-1", bare_turn, "bare", ONE},
    {"bare-13", bare_turn, "bare", MANY},
    {"plain-1", pair_turn, "plain", ONE, .form = FORM_PLAIN},
    {"plain-13", pair_turn, "plain", MANY, .form = FORM_PLAIN},
    {"deleted-1", pair_turn, "plain", ONE, .form = FORM_PLAIN, .compares = true},
    {"deleted-13", pair_turn, "plain", MANY, .form = FORM_PLAIN, .compares = true},
    {"script-1", pair_turn, "plain", ONE, .form = FORM_PLAIN, .by_script = true},
    {"fair-1", pair_turn, "fair", ONE, .form = FORM_FAIR},
    {"permits-1", pair_turn, "permits", ONE, .form = FORM_SLOTS},
    {"read-1", pair_turn, "rw", ONE, .form = FORM_SHARED, .mode = MODE_READ},
    {"write-1", pair_turn, "rw", ONE, .form = FORM_SHARED, .mode = MODE_WRITE},
    {"renewal-1", renewal_turn, "renewal", ONE, .form = FORM_PLAIN},
    {"renewal-13", renewal_turn, "renewal", MANY, .form = FORM_PLAIN},
    {"marker", marker_turn, NULL, ONE},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static bool is_run(const struct row *row)
{
    return !row->compares || compares != COMPARE_DELETE_NONE;
}

static void run(void)
{
    unsigned turns[ROWS];

    for (unsigned i = 0; i < ROWS; i++)
        for (turns[i] = 0; is_run(&rows[i]) && turns[i] * rows[i].items < WARM_ROUNDS * NAMES;
             turns[i]++)
            rows[i].turn(&rows[i], turns[i]);
    plain("ECHO begin");
    for (unsigned i = 0; i < ROWS; i++) {
        if (!is_run(&rows[i]))
            continue;
        for (unsigned n = 0; n < rows[i].turns; n++)
            rows[i].turn(&rows[i], turns[i] + n);
        plain("ECHO end");
        printf("%s %u\n", rows[i].name, rows[i].turns * rows[i].items);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"master", required_argument, NULL, 'm'},
        {"config", required_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    const char *path = NULL;
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        good = option != '?';
        if (option == 'm')
            port = atoi(optarg);
        else
            path = optarg;
    }
    if (!good || optind != argc || !path || port < 1 || port > 65535)
        die("usage: instructions --master PORT --config FILE");
    open_master(path);
    run();
    return 0;
}
