/* Masters that break the protocol, one of five and three of five: the agent lives, stays small,
 * answers, and recovers. */
#include "hostile.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASTERS = 5, PEAK_KIB_MORE = 40 << 10 };

#define MESSAGE "*3\r\n$7\r\nmessage\r\n$23\r\nlockagent:channel:lock:\r\n$1\r\n1\r\n"
#define WATCHED "*3\r\n$7\r\nmessage\r\n$27\r\nlockagent:channel:lock:busy\r\n$1\r\n1\r\n"
#define DEEP "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"

/* Bytes on top of the master's reply, when the agent does not wait for more. */
static const struct attack surplus[] = {
    {"a status", HOSTILE_ADD, .bytes = "+OK\r\n", .fault = "surplus"},
    {"a number", HOSTILE_ADD, .bytes = ":7\r\n", .fault = "surplus"},
    {"half a list", HOSTILE_ADD, .bytes = "*1\r\n", .fault = "surplus"},
    {"nothing", HOSTILE_ADD, .bytes = "$-1\r\n", .fault = "surplus"},
    {"an error", HOSTILE_ADD, .bytes = "-ERR no\r\n", .fault = "surplus"},
    {"a message", HOSTILE_ADD, .bytes = MESSAGE, .fault = "surplus"},
    {"a push", HOSTILE_ADD, .bytes = ">2\r\n+invalidate\r\n*0\r\n", .fault = "surplus"},
    {"a giant list", HOSTILE_ADD, .bytes = "*2147483647\r\n", .fault = "surplus"},
    {"an endless flood of statuses", HOSTILE_ADD, .bytes = "+OK\r\n", .endless = true,
     .fault = "surplus"},
    {"before the greeting", HOSTILE_GREET, .bytes = "+OK\r\n", .fault = NULL},
};

/* Bytes in place of a script's reply, or behind the question. */
static const struct attack instead[] = {
    {"a status", HOSTILE_REPLACE, .bytes = "+OK\r\n", .fault = "malformed"},
    {"a word", HOSTILE_REPLACE, .bytes = "$4\r\nheld\r\n", .fault = "malformed"},
    {"nothing", HOSTILE_REPLACE, .bytes = "$-1\r\n", .fault = "malformed"},
    {"no list", HOSTILE_REPLACE, .bytes = "*-1\r\n", .fault = "malformed"},
    {"an empty list", HOSTILE_REPLACE, .bytes = "*0\r\n"},
    {"a push", HOSTILE_REPLACE, .bytes = ">1\r\n+x\r\n", .fault = "malformed"},
    {"another protocol", HOSTILE_REPLACE, .bytes = "HTTP/1.1 400 Bad Request\r\n\r\n",
     .fault = "malformed"},
    {"a giant list", HOSTILE_REPLACE, .bytes = "*2147483647\r\n", .fault = "oversized"},
    {"a long list", HOSTILE_REPLACE, .bytes = "*4097\r\n", .fault = "oversized"},
    {"a deep list", HOSTILE_REPLACE, .bytes = DEEP, .fault = "oversized"},
    {"a giant string", HOSTILE_REPLACE, .bytes = "$2147483647\r\n", .fault = "oversized"},
    {"a giant string that comes", HOSTILE_REPLACE, .bytes = "$2147483640\r\n", .endless = true,
     .tail = "aaaaaaaa", .fault = "oversized"},
    {"a length beyond numbers", HOSTILE_REPLACE, .bytes = "$99999999999999999999\r\n",
     .fault = "malformed"},
    {"a negative length", HOSTILE_REPLACE, .bytes = "*-2\r\n", .fault = "malformed"},
    {"a number beyond numbers", HOSTILE_REPLACE, .bytes = ":-9223372036854775809\r\n",
     .fault = "malformed"},
    {"the least number", HOSTILE_REPLACE, .bytes = ":-9223372036854775808\r\n"},
    {"held for ever", HOSTILE_REPLACE,
     .bytes = "*3\r\n$4\r\nheld\r\n:9223372036854775807\r\n$2\r\nme\r\n"},
    {"guarded for ever", HOSTILE_REPLACE,
     .bytes = "*2\r\n$7\r\nguarded\r\n:9223372036854775807\r\n"},
    {"its first half", HOSTILE_TRUNCATE, .bytes = NULL},
    {"its first half and the end", HOSTILE_CUT, .bytes = NULL},
    {"an endless line", HOSTILE_REPLACE, .bytes = "+", .endless = true, .tail = "aaaaaaaa",
     .fault = "oversized"},
    {"an endless string", HOSTILE_REPLACE, .bytes = "$65000\r\n", .endless = true,
     .tail = "aaaaaaaa", .fault = "malformed"},
    {"an endless list", HOSTILE_REPLACE, .bytes = "*999999999999\r\n", .fault = "oversized"},
    {"a time in words", HOSTILE_TIME, .bytes = "*2\r\n$4\r\nnoon\r\n$1\r\n0\r\n",
     .fault = "malformed"},
    {"a time out of range", HOSTILE_TIME,
     .bytes = "*2\r\n$20\r\n99999999999999999999\r\n$1\r\n0\r\n", .fault = "malformed"},
    {"a negative time", HOSTILE_TIME, .bytes = "*2\r\n$2\r\n-1\r\n$1\r\n0\r\n",
     .fault = "malformed"},
};

static const struct attack on_subscriber[] = {
    {"a status", HOSTILE_ADD, true, .bytes = "+OK\r\n", .fault = "surplus"},
    {"a number", HOSTILE_ADD, true, .bytes = ":7\r\n", .fault = "surplus"},
    {"a list", HOSTILE_ADD, true, .bytes = "*1\r\n:1\r\n", .fault = "surplus"},
    {"nothing", HOSTILE_ADD, true, .bytes = "$-1\r\n", .fault = "surplus"},
    {"a message of another channel", HOSTILE_ADD, true, .bytes = MESSAGE, .fault = "surplus"},
    {"a giant list", HOSTILE_ADD, true, .bytes = "*2147483647\r\n", .fault = "oversized"},
    {"an endless string", HOSTILE_ADD, true, .bytes = "$65000\r\n", .endless = true,
     .tail = "aaaaaaaa", .fault = "malformed"},
    {"an endless line", HOSTILE_ADD, true, .bytes = "+", .endless = true, .tail = "aaaaaaaa",
     .fault = "oversized"},
    {"an endless list", HOSTILE_ADD, true, .bytes = "*4096\r\n", .endless = true, .tail = ":1\r\n",
     .fault = "surplus"},
    {"a push", HOSTILE_ADD, true, .bytes = ">2\r\n+x\r\n+y\r\n", .fault = "malformed"},
};

static struct hostile *proxies[MASTERS];
static struct agent *agent;
static long peak_kib_before;

static void close_all(void)
{
    hostile_stop_all();
    world_close();
}

TestSuite(hostile, .init = world_open, .fini = close_all, .timeout = 170);

static long peak_kib(void)
{
    return agent_memory_kib(agent, "VmHWM:");
}

/* Five masters, the first `hostile` of them behind proxies; a lock that another agent holds is
 * waited for, so that this one subscribes. */
static void begin(size_t hostile)
{
    const char *list = "", *list_of_other = "";
    masters_start(MASTERS, MASTERS_FORGETFUL);
    for (size_t i = 0; i < MASTERS; i++) { /* Both agents have the same names for them (R23). */
        proxies[i] = i < hostile ? hostile_start(i) : NULL;
        list = format("%s%s\"%s#m%zu\"", list, i ? ", " : "",
                      proxies[i] ? hostile_url(proxies[i]) : master_url(i), i);
        list_of_other = format("%s%s\"%s#m%zu\"", list_of_other, i ? ", " : "", master_url(i), i);
    }
    agent = agent_start(&(struct agent_options){.masters = format("[%s]", list)});
    struct agent *other =
        agent_start(&(struct agent_options){.masters = format("[%s]", list_of_other)});
    acquire_free(other, "busy", "renew=agent");
    acquire_free(agent, "mine", "renew=agent");
    wire_request(agent, "POST", "/locks/busy?wait=5m", NULL);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 1));
    peak_kib_before = peak_kib();
}

static void expect_alive(const char *what)
{
    const struct reply *reply = get(agent, "/livez");
    cr_assert_eq(reply->status, 200, "%s: /livez says %ld", what, reply->status);
    cr_assert_leq(peak_kib(), peak_kib_before + PEAK_KIB_MORE, "%s: %ld KiB", what, peak_kib());
}

/* On a busy machine the honest masters may be late for one round: the acquire waits for another,
 * and the agent goes on with the release. */
static void expect_a_life(const char *what)
{
    const struct reply *granted = acquire(agent, "life", "ttl=20s&wait=5s");
    cr_assert_eq(granted->status, 201, "%s: %ld %s", what, granted->status, granted->body);
    const struct reply *renewed = renew(agent, "life", token(granted), NULL);
    cr_assert_eq(renewed->status, 200, "%s: %ld %s", what, renewed->status, renewed->body);
    const struct reply *released = release(agent, "life", token(granted));
    cr_assert(released->status == 204 || released->status == 202, "%s: %ld %s", what,
              released->status, released->body);
    cr_assert(eventually(masters_with("lock:life") <= MASTERS / 2), "%s", what);
}

static double faults(const struct hostile *hostile, const char *fault)
{
    return metric(agent, format("lockagent_master_protocol_errors_total{%s,fault=\"%s\"}",
                                hostile_label(hostile), fault));
}

static bool is_up(const struct hostile *hostile)
{
    return metric(agent, format("lockagent_master_up{%s}", hostile_label(hostile))) == 1;
}

/* One attack by one of five: it hits, it is counted, and locks are taken, renewed and released all
 * the while. */
static void survive(const struct attack *attack)
{
    struct hostile *hostile = proxies[0];
    const double before = attack->fault ? faults(hostile, attack->fault) : 0;
    cr_assert(eventually(is_up(hostile)), "before %s", attack->name);
    hostile_attack(hostile, attack);
    if (attack->way == HOSTILE_GREET)
        hostile_drop(hostile);
    for (unsigned i = 0; !hostile_hits(hostile); i++) {
        cr_assert_lt(i, PATIENCE_MS / 100, "%s: never made", attack->name);
        expect_a_life(attack->name);
        sleep_ms(100);
    }
    for (unsigned i = 0; i < 3; i++)
        expect_a_life(attack->name);
    if (attack->fault)
        cr_assert(eventually(faults(hostile, attack->fault) > before), "%s is not counted as %s",
                  attack->name, attack->fault);
    sleep_ms(attack->endless ? 500 : 0); /* it goes on */
    expect_alive(attack->name);
    hostile_attack(hostile, NULL);
    cr_assert(eventually(is_up(hostile)), "%s: not recovered", attack->name);
}

static void survive_all(const struct attack *attacks, size_t count)
{
    begin(1);
    const pid_t pid = agent->pid;
    for (size_t i = 0; i < count; i++)
        survive(&attacks[i]);
    cr_assert_eq(agent->pid, pid);
    expect_a_life("afterwards");
    cr_assert(held_here(agent, "mine"));
}
#define SURVIVE_ALL(attacks) survive_all(attacks, sizeof(attacks) / sizeof((attacks)[0]))

/* hiredis' async layer asserted: the agent died of five bytes. */
Test(hostile, a_reply_that_nobody_waits_for)
{
    SURVIVE_ALL(surplus);
    cr_assert_geq(agent_logged(agent, "master state changed", "an unexpected reply"), 1);
}

Test(hostile, another_reply_than_was_asked_for)
{
    SURVIVE_ALL(instead);
    /* To which command it comes is chance. */
    cr_assert_geq(agent_logged(agent, "master state changed", ": not a possible reply"), 3);
}

Test(hostile, a_subscriber_hears_what_no_master_says)
{
    SURVIVE_ALL(on_subscriber);
    cr_assert_geq(agent_logged(agent, "master state changed", "subscriber: broke the protocol"), 1);
}

/* With three of five nothing can be granted for sure; nothing may be broken either, and all comes
 * back. */
Test(hostile, three_of_five)
{
    static const struct attack *const lists[] = {surplus, instead};
    static const size_t lengths[] = {sizeof(surplus) / sizeof(surplus[0]),
                                     sizeof(instead) / sizeof(instead[0])};
    begin(3);
    const pid_t pid = agent->pid;
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; i < lengths[l]; i += 2) {
            const struct attack *attack = &lists[l][i];
            for (size_t h = 0; h < 3; h++)
                hostile_attack(proxies[h], attack);
            for (unsigned j = 0; j < 3; j++) {
                const struct reply *reply =
                    acquire(agent, format("three%zu.%zu.%u", l, i, j), "ttl=1s");
                cr_assert(reply->status == 201 || reply->status == 503 || reply->status == 409,
                          "%s: %ld %s", attack->name, reply->status, reply->body);
                sleep_ms(40);
            }
            expect_alive(attack->name);
        }
    }
    for (size_t h = 0; h < 3; h++)
        hostile_attack(proxies[h], NULL);
    for (size_t h = 0; h < 3; h++)
        cr_assert(eventually(is_up(proxies[h])));
    cr_assert(eventually(acquire(agent, "afterwards", "ttl=20s")->status == 201));
    cr_assert_eq(agent->pid, pid);
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How long nine of ten of these calls take at the most. */
static int64_t nine_of_ten_ms(void)
{
    enum { CALLS = 40 };
    int64_t took[CALLS];
    for (unsigned i = 0; i < CALLS; i++) {
        const int64_t from = boottime_ms();
        expect(get(agent, "/livez"), 200, NULL);
        took[i] = boottime_ms() - from;
        expect_a_life("under a flood");
    }
    qsort(took, CALLS, sizeof(took[0]), compare);
    return took[CALLS * 9 / 10];
}

/* The loop is never blocked longer than 50 ms by one master, not even by one that sends allowed
 * bytes at full speed. */
Test(hostile, a_flood_starves_nobody)
{
    static const struct attack floods[] = {
        {"messages of a watched key", HOSTILE_ADD, true, .bytes = WATCHED, .endless = true},
        {"garbage", HOSTILE_GREET, false, .bytes = "+OK\r\n", .endless = true},
        {"one endless line", HOSTILE_ADD, true, .bytes = "+", .endless = true, .tail = "aaaaaaaa"},
    };
    begin(1);
    const int64_t usual_ms = nine_of_ten_ms();
    for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
        hostile_attack(proxies[0], &floods[i]);
        if (floods[i].way == HOSTILE_GREET)
            hostile_drop(proxies[0]);
        cr_assert(eventually(hostile_hits(proxies[0]) > 0), "%s", floods[i].name);
        int64_t flooded_ms = nine_of_ten_ms();
        for (unsigned again = 0; again < 3 && flooded_ms > usual_ms + 50; again++)
            /* a busy machine is slow for a while, a blocked loop always */
            flooded_ms = nine_of_ten_ms();
        fprintf(stderr, "%s: /livez within %lld ms, usually %lld\n", floods[i].name,
                (long long)flooded_ms, (long long)usual_ms);
        cr_assert_leq(flooded_ms, usual_ms + 50, "%s", floods[i].name);
        expect_alive(floods[i].name);
        hostile_attack(proxies[0], NULL);
        cr_assert(eventually(is_up(proxies[0])));
    }
}

/* D5.4: the keys of one call live in different slots, so that every call would be refused. */
Test(hostile, a_node_of_a_redis_cluster_is_down_in_words)
{
    masters_start_with(1, MASTERS_FORGETFUL, "--cluster-enabled", "yes");
    agent = agent_start(&(struct agent_options){.not_ready = true, .admin = true});
    cr_assert(eventually(agent_logged(agent, "master state changed",
                                      "a node of a Redis Cluster (cluster_enabled:1)") == 1));
    const struct reply *ready = http(agent, &(struct call){.path = "/readyz", .admin = true});
    cr_assert_eq(ready->status, 503);
    cr_assert(strstr(ready->body, "a node of a Redis Cluster (cluster_enabled:1)"), "%s",
              ready->body);
    const struct reply *page = http(agent, &(struct call){.path = "/", .admin = true});
    cr_assert(strstr(page->body, "a node of a Redis Cluster (cluster_enabled:1)"), "%s",
              page->body);
    expect(acquire(agent, "k", "ttl=2s"), 503, "quorum_unavailable");
    cr_assert_eq(agent_logged(agent, "master state changed", "\"state\":\"up\""), 0);
}
