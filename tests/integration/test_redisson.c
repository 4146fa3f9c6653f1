/* Locks that are shared with Java services (R22): the scripts of each form of Redisson's locks,
 * written here again, beside real agents on real masters. docs/interop.md has the table. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

TestSuite(redisson, .init = world_open, .fini = world_close, .timeout = 150);

/* ---- Java's scripts; KEYS: lock, channel, number; ARGV: holder, lease in ms ---- */

/* RLock, and SpinLock: nil if it is held now, otherwise the time for which it is taken. */
static const char takes[] =
    "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then\n"
    "    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)\n"
    "    redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "    return nil\n"
    "end\n"
    "return redis.call('PTTL', KEYS[1])\n";
/* NonReentrantLock: its holder is refused as well. */
static const char takes_once[] = "if redis.call('EXISTS', KEYS[1]) == 1 then\n"
                                 "    return redis.call('PTTL', KEYS[1])\n"
                                 "end\n"
                                 "redis.call('HSET', KEYS[1], ARGV[1], 1)\n"
                                 "redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                                 "return nil\n";
/* FencedLock: numbers count up under a key of their own. */
static const char takes_numbered[] = "local own = redis.call('HEXISTS', KEYS[1], ARGV[1])\n"
                                     "if redis.call('EXISTS', KEYS[1]) == 1 and own == 0 then\n"
                                     "    return redis.call('PTTL', KEYS[1])\n"
                                     "end\n"
                                     "if own == 0 then redis.call('INCR', KEYS[3]) end\n"
                                     "redis.call('HINCRBY', KEYS[1], ARGV[1], 1)\n"
                                     "redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                                     "return redis.call('GET', KEYS[3])\n";
/* 1: free; 0: the holder has entered more often; nil: another holder has it. */
static const char releases[] =
    "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end\n"
    "if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then\n"
    "    redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "    return 0\n"
    "end\n"
    "redis.call('DEL', KEYS[1])\n"
    "redis.call('PUBLISH', KEYS[2], '0')\n"
    "return 1\n";
/* SpinLock: waiters look by themselves. */
static const char releases_silently[] =
    "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end\n"
    "if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 0 end\n"
    "return redis.call('DEL', KEYS[1])\n";
static const char renews[] = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end\n"
                             "return redis.call('PEXPIRE', KEYS[1], ARGV[2])\n";
/* forceUnlock(), which asks for no holder. */
static const char forces[] = "local gone = redis.call('DEL', KEYS[1])\n"
                             "if gone == 1 then redis.call('PUBLISH', KEYS[2], '0') end\n"
                             "return gone\n";
/* RReadWriteLock: a hash without a mode is as free as none. */
static const char reads[] =
    "local mode = redis.call('HGET', KEYS[1], 'mode')\n"
    "local mine = redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 1\n"
    "if mode == 'read' or mode == 'write' and mine or not mode then\n"
    "    if not mode then redis.call('HSET', KEYS[1], 'mode', 'read') end\n"
    "    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)\n"
    "    redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "    return nil\n"
    "end\n"
    "return redis.call('PTTL', KEYS[1])\n";
static const char writes[] =
    "local mode = redis.call('HGET', KEYS[1], 'mode')\n"
    "local mine = redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 1\n"
    "if mode == 'write' and mine or not mode then\n"
    "    redis.call('HSET', KEYS[1], 'mode', 'write')\n"
    "    redis.call('HINCRBY', KEYS[1], ARGV[1] .. ':write', 1)\n"
    "    redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "    return nil\n"
    "end\n"
    "return redis.call('PTTL', KEYS[1])\n";

#define ONE "9f0c6a4e-5e0b-4b63-9d0d-1f5f6d2f0001:41"
#define TWO "9f0c6a4e-5e0b-4b63-9d0d-1f5f6d2f0002:42"
#define LOCK "lock:k"
#define CHANNEL "redisson_lock__channel:{lock:k}"
#define NUMBER "redisson_lock_token:{lock:k}"

static redisReply *java_at(size_t master, const char *asks, const char *who, int lease_ms)
{
    redisReply *reply =
        master_do(master, "EVAL %s 3 " LOCK " " CHANNEL " " NUMBER " %s %d", asks, who, lease_ms);
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "%s", reply->str);
    return reply;
}

static redisReply *java(const char *asks, const char *who, int lease_ms)
{
    return java_at(0, asks, who, lease_ms);
}

static bool java_has(const char *asks, const char *who, int lease_ms)
{
    return java(asks, who, lease_ms)->type == REDIS_REPLY_NIL;
}

/* ---- the stage ---- */

static const char *policies(const char *more)
{
    return format("policies:\n  - {match: '*', format: redisson, ttl: 10s%s}\n", more);
}

static struct agent *agent_of(const char *more)
{
    return agent_start(&(struct agent_options){.extra = policies(more)});
}

/* One master that both use: an agent's `single`, a Redisson client in single-server mode. */
static struct agent *begin(void)
{
    masters_start(1, MASTERS_FORGETFUL);
    return agent_of(", algorithm: single");
}

static int64_t field_of(const char *holder)
{
    const redisReply *count = master_do(0, "HGET " LOCK " %s", holder);
    return count->type == REDIS_REPLY_STRING ? strtoll(count->str, NULL, 10) : -1;
}

/* ---- RLock ---- */

Test(redisson, r22_each_keeps_the_other_out)
{
    struct agent *agent = begin();
    cr_assert(java_has(takes, ONE, 20000));
    const struct reply *refused = acquire(agent, "k", NULL);
    expect(refused, 409, "lock_held");
    cr_assert_gt(number(refused, "retry_after_ms"), 15000, "%s", refused->body);
    cr_assert_str_eq(key_state(agent, "k"), "held");
    cr_assert_eq(java(releases, ONE, 20000)->integer, 1);
    const struct reply *granted = acquire(agent, "k", "label=pod");
    expect(granted, 201, NULL);
    cr_assert(java(takes, ONE, 20000)->integer > 5000, "it hears how long it has to wait");
    cr_assert_eq(java(releases, ONE, 20000)->type, REDIS_REPLY_NIL, "it is not its own");
    expect(renew(agent, "k", token(granted), NULL), 200, NULL);
    give_back(agent, "k", token(granted));
    cr_assert(java_has(takes, TWO, 20000));
    expect(acquire(agent, "k", NULL), 409, "lock_held");
}

/* Java's holder counts its entries. An agent's holder has one, even if a request comes twice. */
Test(redisson, r22_only_java_counts)
{
    struct agent *agent = begin();
    cr_assert(java_has(takes, ONE, 20000));
    cr_assert(java_has(takes, ONE, 20000));
    cr_assert_eq(field_of(ONE), 2);
    cr_assert_eq(java(releases, ONE, 20000)->integer, 0);
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    cr_assert_eq(java(releases, ONE, 20000)->integer, 1);
    const struct reply *granted = acquire(agent, "k", "label=pod");
    expect(granted, 201, NULL);
    const redisReply *fields = master_do(0, "HGETALL " LOCK);
    cr_assert_eq(fields->elements, 4);
    /* a server keeps fields of this length in no order */
    size_t own = strcmp(fields->element[0]->str, "mode") == 0 ? 2 : 0, mode = 2 - own;
    cr_assert(strstr(fields->element[own]->str, ":pod") != NULL, "%s", fields->element[own]->str);
    cr_assert_str_eq(fields->element[own + 1]->str, "1");
    cr_assert_str_eq(fields->element[mode]->str, "mode");
    cr_assert_str_eq(fields->element[mode + 1]->str, "lockagent");
}

Test(redisson, r22_the_watchdog_of_java_is_respected)
{
    enum { LEASE_MS = 3000, ROUND_MS = 300, ROUNDS = 14 /* longer than the lease */ };
    struct agent *agent = begin();
    cr_assert(java_has(takes, ONE, LEASE_MS));
    const int waiter = wire_request(agent, "POST", "/locks/k?wait=30s", NULL);
    for (int i = 0; i < ROUNDS; i++) {
        sleep_ms(ROUND_MS);
        cr_assert_eq(java(renews, ONE, LEASE_MS)->integer, 1);
        cr_assert(wire_is_silent(waiter));
    }
    cr_assert_eq(java(releases, ONE, LEASE_MS)->integer, 1);
    expect(wire_receive(waiter, PATIENCE_MS), 201, NULL);
    cr_assert_eq(java(renews, ONE, LEASE_MS)->integer, 0);
    wire_close(waiter);
}

/* ---- callers that wait ---- */

Test(redisson, r22_a_release_of_java_wakes_an_agent)
{
    struct agent *agent = begin();
    cr_assert(java_has(takes, ONE, 60000));
    const int waiter = wire_request(agent, "POST", "/locks/k?wait=30s", NULL);
    cr_assert(eventually(master_do(0, "PUBSUB NUMSUB " CHANNEL)->element[1]->integer == 1));
    sleep_ms(300);
    const int64_t from = boottime_ms();
    cr_assert_eq(java(releases, ONE, 60000)->integer, 1);
    expect(wire_receive(waiter, PATIENCE_MS), 201, NULL);
    cr_assert_lt(boottime_ms() - from, 3000, "the back-off alone is up to 5 s");
    wire_close(waiter);
}

static redisContext *listen_to(const char *channel)
{
    const int port = atoi(strrchr(master_url(0), ':') + 1);
    redisContext *listener = redisConnect("127.0.0.1", port);
    redisSetTimeout(listener, (struct timeval){.tv_sec = 10});
    freeReplyObject(redisCommand(listener, "SUBSCRIBE %s", channel));
    return listener;
}

static void expect_zero(redisContext *listener)
{
    redisReply *message = NULL;
    cr_assert_eq(redisGetReply(listener, (void **)&message), REDIS_OK);
    cr_assert_eq(message->elements, 3u);
    cr_assert_str_eq(message->element[2]->str, "0");
    freeReplyObject(message);
}

/* Any other text would break the decoder of the subscribers. */
Test(redisson, r22_a_release_tells_java_in_its_own_words)
{
    struct agent *agent = begin();
    redisContext *listener = listen_to(CHANNEL);
    const struct reply *granted = acquire(agent, "k", NULL);
    expect(granted, 201, NULL);
    give_back(agent, "k", token(granted));
    expect_zero(listener);
    redisFree(listener);
}

/* Redisson adds no braces to a name that has one. */
Test(redisson, r22_names_with_braces_keep_them)
{
    struct agent *agent = begin();
    redisContext *listener = listen_to("redisson_lock__channel:lock:{order}/7");
    const struct reply *granted = acquire(agent, "%7Border%7D/7", NULL);
    expect(granted, 201, NULL);
    cr_assert_eq(master_do(0, "HLEN lock:{order}/7")->integer, 2);
    give_back(agent, "%7Border%7D/7", token(granted));
    expect_zero(listener);
    master_do(0, "HSET lock:{order}/7 " ONE " 1");
    const int waiter = wire_request(agent, "POST", "/locks/%7Border%7D/7?wait=20s", NULL);
    cr_assert(eventually(
        master_do(0, "PUBSUB NUMSUB redisson_lock__channel:lock:{order}/7")->element[1]->integer ==
        2));
    master_do(0, "DEL lock:{order}/7");
    master_do(0, "PUBLISH redisson_lock__channel:lock:{order}/7 0");
    expect_zero(listener);
    const struct reply *next = wire_receive(waiter, PATIENCE_MS);
    expect(next, 201, NULL);
    give_back(agent, "%7Border%7D/7", token(next));
    expect_zero(listener);
    redisFree(listener);
    wire_close(waiter);
}

/* A lock whose end is not published is waited for until its lease ends. */
Test(redisson, r22_a_death_of_java_is_waited_out)
{
    struct agent *agent = begin();
    cr_assert(java_has(takes, ONE, 2000));
    const int64_t from = boottime_ms();
    const struct reply *granted = acquire(agent, "k", "wait=30s");
    expect(granted, 201, NULL);
    cr_assert_geq(boottime_ms() - from, 1500);
    cr_assert_lt(boottime_ms() - from, 6000);
}

/* ---- the other forms ---- */

Test(redisson, r22_a_spin_lock)
{
    struct agent *agent = begin();
    cr_assert(java_has(takes, ONE, 3000));
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    const int waiter = wire_request(agent, "POST", "/locks/k?wait=30s", NULL);
    sleep_ms(300);
    cr_assert_eq(java(releases_silently, ONE, 0)->integer, 1);
    const struct reply *granted = wire_receive(waiter, 8000);
    expect(granted, 201, NULL);
    cr_assert(!java_has(takes, ONE, 3000));
    give_back(agent, "k", token(granted));
    cr_assert(java_has(takes, ONE, 3000));
    wire_close(waiter);
}

Test(redisson, r22_a_lock_that_is_not_reentrant)
{
    struct agent *agent = begin();
    cr_assert(java_has(takes_once, ONE, 20000));
    cr_assert(!java_has(takes_once, ONE, 20000));
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    cr_assert_eq(java(releases, ONE, 20000)->integer, 1);
    expect(acquire(agent, "k", NULL), 201, NULL);
    cr_assert(!java_has(takes_once, ONE, 20000));
}

/* `fencing: redisson`: both count on in one key, which never expires. */
Test(redisson, r22_a_fenced_lock_counts_with_the_agents)
{
    masters_start(1, MASTERS_FORGETFUL);
    struct agent *agent = agent_of(", algorithm: single, fencing: redisson");
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        const struct reply *granted = acquire(agent, "k", NULL);
        expect(granted, 201, NULL);
        cr_assert_gt(number(granted, "fencing_token"), last);
        last = number(granted, "fencing_token");
        cr_assert_eq(master_pttl(0, NUMBER), -1, "it would begin at 1 again");
        expect(renew(agent, "k", token(granted), NULL), 200, NULL);
        give_back(agent, "k", token(granted));
        const int64_t java_number = strtoll(java(takes_numbered, ONE, 20000)->str, NULL, 10);
        cr_assert_eq(java_number, last + 1);
        last = java_number;
        expect(acquire(agent, "k", NULL), 409, "lock_held");
        cr_assert_eq(java(releases, ONE, 20000)->integer, 1);
    }
    cr_assert_eq(master_pttl(0, NUMBER), -1);
    cr_assert_eq(master_do(0, "EXISTS %s", bucket_of("k"))->integer, 0);
}

/* Agents cannot refuse forceUnlock() (A4); the former holder is told so. */
Test(redisson, r22_who_is_forced_out_hears_of_it)
{
    struct agent *agent = begin();
    const struct reply *granted = acquire(agent, "k", "renew=agent&ttl=3s");
    expect(granted, 201, NULL);
    cr_assert_eq(java(forces, ONE, 0)->integer, 1);
    cr_assert(java_has(takes, ONE, 20000));
    cr_assert(eventually(agent_logged(agent, "lock lost", "taken") == 1));
    expect(release(agent, "k", token(granted)), 410, "lock_lost");
    cr_assert_eq(field_of(ONE), 1, "what Java took is left alone");
}

/* A hash without the field `mode` would be free to both. */
Test(redisson, r22_a_read_write_lock_of_that_name_is_refused)
{
    struct agent *agent = begin();
    const struct reply *granted = acquire(agent, "k", NULL);
    expect(granted, 201, NULL);
    cr_assert(!java_has(reads, ONE, 20000));
    cr_assert(!java_has(writes, ONE, 20000));
    cr_assert_eq(master_do(0, "HLEN " LOCK)->integer, 2);
    give_back(agent, "k", token(granted));
    cr_assert(java_has(reads, ONE, 20000));
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    master_do(0, "DEL " LOCK);
    cr_assert(java_has(writes, ONE, 20000));
    expect(acquire(agent, "k", NULL), 409, "lock_held");
}

/* RedissonRedLock: an RLock on each master, and more than half of them. */
Test(redisson, r22_a_redlock_over_the_same_masters)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_of("");
    const struct reply *granted = acquire(agent, "k", "wait=10s");
    expect(granted, 201, NULL);
    cr_assert(eventually(masters_with(LOCK) == 3)); /* A master may get the key later. */
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(java_at(i, takes, ONE, 20000)->type, REDIS_REPLY_INTEGER);
    give_back(agent, "k", token(granted));
    for (size_t i = 0; i < 3; i++)
        cr_assert(eventually(java_at(i, takes, ONE, 20000)->type == REDIS_REPLY_NIL));
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    master_do(0, "DEL " LOCK);
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    cr_assert(eventually(master_do(0, "EXISTS " LOCK)->integer == 0), "R5: it is undone");
    master_do(1, "DEL " LOCK);
    expect(acquire(agent, "k", "wait=5s"), 201, NULL);
}

/* ---- the agents among themselves ---- */

/* A look is at the hash, as everything else is: no stranger's key, and the holder by its label. */
Test(redisson, r22_a_look_knows_the_holder)
{
    struct agent *agent = begin();
    struct agent *other = agent_of(", algorithm: single");
    const struct reply *granted = acquire(agent, "k", "label=pod");
    expect(granted, 201, NULL);
    struct agent *const agents[] = {agent, other};
    for (size_t i = 0; i < 2; i++) {
        const struct reply *seen = get(agents[i], "/locks/k");
        expect(seen, 200, NULL);
        cr_assert_str_eq(string(seen, "state"), "held");
        cr_assert_str_eq(string(seen, "holder"), "pod");
        cr_assert_gt(number(seen, "remaining_ttl_ms"), 0, "%s", seen->body);
        cr_assert(strstr(seen->body, "foreign") == NULL, "%s", seen->body);
    }
    give_back(agent, "k", token(granted));
    cr_assert_str_eq(key_state(other, "k"), "free");
    cr_assert(java_has(takes, ONE, 20000));
    const struct reply *seen = get(other, "/locks/k");
    cr_assert_str_eq(string(seen, "state"), "held");
    cr_assert_gt(number(seen, "remaining_ttl_ms"), 15000, "%s", seen->body);
    cr_assert(strstr(seen->body, "foreign") == NULL, "%s", seen->body);
}

/* R7: neither a PUT nor a repair shortens. */
Test(redisson, r22_a_shorter_ttl_shortens_nothing)
{
    struct agent *agent = begin();
    const struct reply *granted = acquire(agent, "k", "ttl=30s");
    expect(granted, 201, NULL);
    expect(renew(agent, "k", token(granted), "ttl=2s"), 200, NULL);
    cr_assert_gt(master_pttl(0, LOCK), 20000);
}

/* D3.4: Java's holds in between have no number. */
Test(redisson, r22_an_adoption_says_that_it_does_not_know)
{
    struct agent *agent = begin();
    const struct reply *granted = acquire(agent, "k", "ttl=20s&label=me");
    expect(granted, 201, NULL);
    agent_kill(agent);
    struct agent *other = agent_of(", algorithm: single");
    const struct reply *adopted = renew(other, "k", token(granted), "ttl=20s");
    expect(adopted, 200, NULL);
    cr_assert_str_eq(string(adopted, "continuous"), "unknown");
    cr_assert_eq(master_do(0, "HLEN " LOCK)->integer, 2);
    expect(acquire(other, "k", NULL), 409, "lock_held");
    give_back(other, "k", token(granted));
    cr_assert_eq(master_do(0, "EXISTS " LOCK)->integer, 0);
}

/* R7: a master that lost it gets it again, as a hash. */
Test(redisson, r7_a_lost_key_is_repaired)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_of("");
    const struct reply *granted = acquire(agent, "k", "ttl=2s&renew=agent");
    expect(granted, 201, NULL);
    master_kill(2);
    master_start(2);
    cr_assert(eventually(master_do(2, "HLEN " LOCK)->integer == 2));
    cr_assert_gt(master_pttl(2, LOCK), 0);
    cr_assert(held_here(agent, "k"));
}

/* If several callers wait at several agents, each has the key once. */
Test(redisson, r9_all_who_wait_come_to_their_turn)
{
    enum { WAITERS = 12 };
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agents[] = {agent_of(""), agent_of(""), agent_of("")};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(java_at(i, takes, ONE, 60000)->type, REDIS_REPLY_NIL);
    int wires[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        wires[i] = wire_request(agents[i % 3], "POST", "/locks/k?wait=60s&ttl=20s", NULL);
    sleep_ms(500);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(java_at(i, releases, ONE, 60000)->integer, 1);
    for (int served = 0; served < WAITERS;) {
        for (int i = 0; i < WAITERS; i++) {
            if (wires[i] < 0 || wire_is_silent(wires[i]))
                continue;
            const struct reply *granted = wire_receive(wires[i], PATIENCE_MS);
            expect(granted, 201, NULL);
            give_back(agents[i % 3], "k", token(granted));
            wire_close(wires[i]);
            wires[i] = -1;
            served++;
        }
        sleep_ms(5);
    }
}

/* A4: agents of the other format and of this one keep each other out, with an alarm. */
Test(redisson, a4_the_other_format_keeps_off)
{
    struct agent *agent = begin();
    /* Without a guard it compares no layouts (R23). */
    struct agent *plain =
        agent_start(&(struct agent_options){.group = "      durable: true\n      guard: off\n",
                                            .extra = "policies: [{match: '*', ttl: 10s}]\n"});
    const struct reply *granted = acquire(agent, "k", NULL);
    expect(granted, 201, NULL);
    expect(acquire(plain, "k", NULL), 409, "lock_held");
    cr_assert(eventually(agent_logged(plain, "a key of another type has a lock's name", NULL) > 0));
    give_back(agent, "k", token(granted));
    granted = acquire(plain, "k", NULL);
    expect(granted, 201, NULL);
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    const redisReply *refused =
        master_do(0, "EVAL %s 3 " LOCK " " CHANNEL " " NUMBER " " ONE " 1000", takes);
    cr_assert_eq(refused->type, REDIS_REPLY_ERROR);
    cr_assert(strstr(refused->str, "WRONGTYPE") != NULL, "%s", refused->str);
    expect(renew(plain, "k", token(granted), NULL), 200, NULL);
}
