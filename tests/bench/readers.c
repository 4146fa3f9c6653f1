/* The cost of a read for a master beside so many other readers: one client takes reads of one key
 * by the agent's own script, one call after the other. Each has a lease of 1 ms, so that each
 * removes the ended one before it. With --give-back the lease is long, and its release is a call as
 * well. The time is the script's, as the master counts it. */
#include <errno.h>
#include <getopt.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"
#include "config/config.h"
#include "tests/bench/measure.h"

enum { COMMAND_BYTES = 64 * 1024, BATCH = 50, LIVE_MAX = 1000000 };
enum { LONG_MS = 600000, SHORT_MS = 1 };

static struct config config;
static redisContext *redis;
static const char *key = "readers";
static int port, live;
static double seconds = 1;
static bool give_back;

static struct send_item new_read(uint32_t ttl_ms)
{
    struct send_item item = {
        .key = {key, strlen(key)},
        .agent = 1,
        .label = {"reader", 6},
        .ttl_ms = ttl_ms,
        .policy = (uint16_t)(config.policy_count - 1),
        .fencing = true,
        .permits = 1,
        .form = FORM_SHARED,
        .mode = MODE_READ,
    };
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    item.token.fence = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    if (getrandom(item.token.random, sizeof item.token.random, 0) !=
        (ssize_t)sizeof item.token.random)
        die("readers: no random bytes");
    return item;
}

/* Returns the number that the first of them got. */
static uint64_t must_be_yes(enum op op, const redisReply *reply, unsigned count)
{
    struct event_reply read[BATCH];
    const char *error = "";

    if (!reply)
        die("readers: port %d: %s", port, redis->errstr);
    enum redis_outcome outcome = reply_read(op, count, reply, read, &error);
    for (unsigned i = 0; i < count; i++)
        if (read[i].vote != VOTE_YES)
            die("readers: the master refuses: %s", *error ? error : redis_outcome_name(outcome));
    return read[0].fence;
}

static uint64_t ask(enum op op, const struct send_item *items, unsigned count)
{
    static char bytes[COMMAND_BYTES];
    char own_bytes[ASKING_OWN_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes - sizeof own_bytes};
    struct text command = asking_op(&resp, &config, 0, op, items, count);
    struct text own = asking_own(own_bytes, op, /* clock_ms= */ 0, (struct text){"", 0});
    void *reply = NULL;

    memcpy(bytes + (command.at - bytes) + command.len, own.at, own.len);
    redisAppendFormattedCommand(redis, command.at, command.len + own.len);
    redisGetReply(redis, &reply);
    uint64_t number = must_be_yes(op, reply, count);
    freeReplyObject(reply);
    return number;
}

static redisReply *plain(const char *command, const char *argument)
{
    redisReply *reply =
        argument ? redisCommand(redis, command, argument) : redisCommand(redis, command);

    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die("readers: %s: %s", command, reply ? reply->str : redis->errstr);
    return reply;
}

static void fill(void)
{
    struct send_item items[BATCH];

    for (int left = live; left > 0; left -= BATCH) {
        unsigned count = left < BATCH ? (unsigned)left : BATCH;
        for (unsigned i = 0; i < count; i++)
            items[i] = new_read(LONG_MS);
        ask(OP_ACQUIRE, items, count);
    }
}

static void read_once(void)
{
    struct send_item item = new_read(give_back ? LONG_MS : SHORT_MS);

    item.token.fence = ask(OP_ACQUIRE, &item, 1);
    item.asked = true;
    if (give_back)
        ask(OP_RELEASE, &item, 1);
}

/* Returns the time that the master reports for its scripts, in us. */
static double scripts_us(void)
{
    redisReply *reply = plain("INFO commandstats", NULL);
    const char *line = strstr(reply->str, "cmdstat_evalsha:");
    const char *usec = line ? strstr(line, "usec=") : NULL;

    if (!usec)
        die("readers: the master does not count what scripts take");
    double us = strtod(usec + strlen("usec="), NULL);

    freeReplyObject(reply);
    return us;
}

static void measure(void)
{
    int64_t ends = now_ns() + (int64_t)(seconds * 1e9);
    uint64_t reads = 0;

    freeReplyObject(plain("CONFIG RESETSTAT", NULL));
    for (; now_ns() < ends; reads++)
        read_once();
    double us = scripts_us();
    redisReply *left = plain("ZCARD lock:%s", key);
    window_requires(reads, "readers", "read");
    if (left->integer < live)
        die("readers: of %d readers %lld are left", live, left->integer);
    printf("grants=%" PRIu64 " read_us=%.3f left=%lld\n", reads, us / (double)reads, left->integer);
    freeReplyObject(left);
}

static void open_master(const char *path)
{
    static const enum script_id scripts[] = {SCRIPT_ACQUIRE_RW, SCRIPT_RELEASE_RW};
    struct config_errors errors;

    if (!config_load(path, NULL, NULL, 0, &config, &errors))
        die("readers: %s", errors.list[0].text);
    config.groups[0].guard = false; /* this is no agent, and knows no vote */
    redis = redisConnect("127.0.0.1", port);
    if (!redis || redis->err)
        die("readers: no master on port %d", port);
    for (int i = 0; i < 2; i++)
        freeReplyObject(plain("SCRIPT LOAD %s", redis_scripts[scripts[i]].text));
}

static bool parse_count(const char *text)
{
    char *end;
    long count = strtol(text, &end, 10);

    live = (int)count;
    return end != text && !*end && count >= 0 && count <= LIVE_MAX;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"master", required_argument, NULL, 'm'},
        {"config", required_argument, NULL, 'c'},
        {"live", required_argument, NULL, 'l'},
        {"key", required_argument, NULL, 'k'},
        {"seconds", required_argument, NULL, 's'},
        {"give-back", no_argument, NULL, 'g'},
        {NULL, 0, NULL, 0},
    };
    const char *path = NULL;
    bool good = true;

    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        good = option != '?';
        if (option == 'm')
            port = atoi(optarg);
        else if (option == 'c')
            path = optarg;
        else if (option == 'l')
            good = parse_count(optarg);
        else if (option == 'k')
            key = optarg;
        else if (option == 's')
            good = (seconds = strtod(optarg, NULL)) > 0;
        else if (option == 'g')
            give_back = true;
    }
    if (!good || optind != argc || !path || port < 1 || port > 65535)
        die("usage: readers --master PORT --config FILE [--live N] [--key KEY] [--seconds S] "
            "[--give-back]");
    open_master(path);
    fill();
    measure();
    return 0;
}
