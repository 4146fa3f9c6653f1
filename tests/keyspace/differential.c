/* The keyspace beside a real redis-server: random commands and calls of all shipped scripts, with
 * plausible and implausible arguments, are given to both. Each reply and, after each call, all keys
 * with their values and remaining times must be the same, byte by byte; so must at the end all
 * messages published. If the keyspace counts a command as sent to replicas, the server's offset
 * must have moved. The server's wall clock is preloaded and goes only when it is set, so times are
 * exact.
 *
 * usage: differential STILL_CLOCK.so CALLS [SEED] */
#include "differential.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/redis/scripts.h"

enum { SKIPPED = 77 };

struct comparison d;

static void let_time_pass(void)
{
    int64_t us = prng_percent(&d.prng, 40)   ? prng_between(&d.prng, 0, 1000)
                 : prng_percent(&d.prng, 80) ? prng_between(&d.prng, 0, 100000)
                 : prng_percent(&d.prng, 95) ? prng_between(&d.prng, 0, 5000000)
                                             : prng_between(&d.prng, 0, 7200000000);
    *server.now_us += us;
}

static void set_memory(bool out_of_memory)
{
    d.out_of_memory = out_of_memory;
    tell_server(4, (const char *const[]){"CONFIG", "SET", "maxmemory", out_of_memory ? "1" : "0"});
}

static void one_call(void)
{
    let_time_pass();
    for (int64_t i = prng_between(&d.prng, 0, 2); i > 0; i--)
        ask_command();
    if (prng_percent(&d.prng, 60))
        ask_plausible();
    if (prng_percent(&d.prng, 5))
        ask_conversions();
    bool out_of_memory = prng_percent(&d.prng, 3);
    if (out_of_memory)
        set_memory(true);
    if (prng_percent(&d.prng, 15))
        ask_nonsense();
    else if (prng_percent(&d.prng, 10))
        ask_marker();
    else if (prng_percent(&d.prng, 10))
        ask_native();
    else
        ask_operation();
    if (out_of_memory)
        set_memory(false);
    compare_keys();
}

/* ---- messages ---- */

static bool is_subscribed(struct bytes channel)
{
    bool is_waiting = channel.len == sizeof WAITING_CHANNEL - 1 &&
                      memcmp(channel.at, WAITING_CHANNEL, channel.len) == 0;
    return is_waiting || (channel.len > 0 && (channel.at[channel.len - 1] - '0') % 2 == 0);
}

static uint32_t subscribers(void *owner, struct bytes channel)
{
    (void)owner;
    return is_subscribed(channel);
}

static uint32_t publish(void *owner, struct bytes channel, struct bytes message)
{
    (void)owner;
    if (!is_subscribed(channel))
        return 0;
    char *grown = realloc(d.published, d.published_len + channel.len + message.len + 64);
    if (grown == NULL)
        abort();
    d.published = grown;
    d.published_len +=
        (size_t)sprintf(grown + d.published_len, "*3\r\n$7\r\nmessage\r\n$%zu\r\n", channel.len);
    memcpy(grown + d.published_len, channel.at, channel.len);
    d.published_len += channel.len;
    d.published_len += (size_t)sprintf(grown + d.published_len, "\r\n$%zu\r\n", message.len);
    memcpy(grown + d.published_len, message.at, message.len);
    d.published_len += message.len;
    memcpy(grown + d.published_len, "\r\n", 2);
    d.published_len += 2;
    return 1;
}

static void subscribe_to(const char *channel)
{
    struct text command = command_of(2, (const char *const[]){"SUBSCRIBE", channel});
    send_all(server.subscriber, command.at, command.len);
    receive(server.subscriber);
}

static void subscribe(void)
{
    subscribe_to(WAITING_CHANNEL);
    for (unsigned i = 0; i < NAMES; i++) {
        char channel[96];
        int len = snprintf(channel, sizeof channel, "lockagent:channel:%s", d.names[i]);
        if (is_subscribed((struct bytes){channel, (size_t)len}))
            subscribe_to(channel);
    }
}

static unsigned compare_messages(void)
{
    const char *at = d.published;
    unsigned count = 0;
    for (size_t left = d.published_len; left > 0; count++) {
        struct bytes theirs = receive(server.subscriber);
        if (theirs.len > left || memcmp(theirs.at, at, theirs.len) != 0) {
            show("server", theirs);
            show("here", (struct bytes){at, left < 200 ? left : 200});
            fail("different messages");
        }
        at += theirs.len;
        left -= theirs.len;
    }
    /* No more messages than those may arrive. */
    struct text ping = command_of(1, (const char *const[]){"PING"});
    send_all(server.subscriber, ping.at, ping.len);
    struct bytes last = receive(server.subscriber);
    if (memmem(last.at, last.len, "pong", 4) == NULL)
        fail("the server published more");
    return count;
}

/* ---- */

/* Later ones write numbers of Lua that no agent sends, 0.1 and 2^63 and -0, in another way. */
static bool server_is_of_our_time(void)
{
    struct text ask = command_of(2, (const char *const[]){"INFO", "server"});
    send_all(server.commands, ask.at, ask.len);
    struct bytes said = receive(server.commands);
    const char *version = memmem(said.at, said.len, "redis_version:", 14);
    unsigned major = 0, minor = 0;
    if (version == NULL || sscanf(version + 14, "%u.%u", &major, &minor) != 2)
        fail("the server names no version");
    if (major > 7 || (major == 7 && minor > 0))
        printf("skipped: Redis %u.%u is not the 7.0 that is modelled here\n", major, minor);
    return major < 7 || (major == 7 && minor == 0);
}

static void set_up(const char *preload)
{
    const char *why = NULL;
    unsigned count = 0;
    d.keyspace = keyspace_new();
    d.keyspace->subscribers = subscribers;
    d.keyspace->publish = publish;
    d.scripting = scripting_new(NULL, &why);
    for (unsigned i = 0; i < 2; i++) {
        const char *prefix = i == 0 ? "lock:" : "plain:";
        for (unsigned k = 0; k < KEYS; k++)
            snprintf(d.names[count++], sizeof d.names[0], "%sk%u", prefix, k);
        snprintf(d.config.policies[i].prefix, sizeof d.config.policies[i].prefix, "%s", prefix);
    }
    for (unsigned i = 0; i < 2 * KEYS; i++) {
        snprintf(d.names[count++], sizeof d.names[0], NUMBER_KEY "%.*s%u",
                 (int)(strchr(d.names[i], ':') + 1 - d.names[i]), d.names[i],
                 asking_bucket(d.names[i]));
        snprintf(d.names[count++], sizeof d.names[0], "lockagent:ticket:%.40s", d.names[i]);
    }
    snprintf(d.names[count++], sizeof d.names[0], "%s", MARKER_KEY);
    snprintf(d.names[count], sizeof d.names[0], "%s", VOTE_KEY);
    d.config.group_count = 1;
    d.config.policy_count = 2;
    server_start(preload);
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        tell_server(3, (const char *const[]){"SCRIPT", "LOAD", redis_scripts[i].text});
    subscribe();
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: differential STILL_CLOCK.so CALLS [SEED]\n", stderr);
        return 2;
    }
    unsigned calls = (unsigned)strtoul(argv[2], NULL, 10);
    signal(SIGPIPE, SIG_IGN);
    d.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)time(NULL);
    d.prng.state = d.seed;
    set_up(argv[1]);
    if (!server_is_of_our_time()) {
        server_stop();
        return SKIPPED;
    }
    for (d.call = 1; d.call <= calls; d.call++)
        one_call();
    unsigned messages = compare_messages();
    server_stop();
    printf("seed %llu: %u script calls, %llu replies and %u messages: the same\n",
           (unsigned long long)d.seed, calls, (unsigned long long)d.replies, messages);
    unsigned idle = messages * 20000ull < 100ull * calls;
    idle += count_rare_replies(calls);
    return idle == 0 ? 0 : 1;
}
