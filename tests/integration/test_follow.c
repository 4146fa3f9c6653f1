/* Following a key (D3.8): callers without a token learn its holder, at any agent. */
#include "lines.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(follow, .init = lines_open_world, .fini = lines_close_world, .timeout = 90);

static struct lines *follow(const struct agent *agent, const char *key)
{
    return lines_open(agent, "GET", format("/locks/%s?watch=key", key));
}

/* The next line is this event. */
static const json_t *expect_line(struct lines *stream, const char *event)
{
    const json_t *line = lines_next(stream, PATIENCE_MS);
    cr_assert_not_null(line, "no %s came; so far: %s", event, stream->bytes);
    cr_assert_str_eq(lines_text(line, "event"), event, "%s", stream->bytes);
    return line;
}

/* A line of this event comes, perhaps after others: a follower may miss states, and may see a
 * master that answered late. */
static const json_t *await_line(struct lines *stream, const char *event, const char *holder)
{
    const json_t *line;
    while ((line = lines_next(stream, PATIENCE_MS)) != NULL)
        if (strcmp(lines_text(line, "event"), event) == 0 &&
            (holder == NULL || strcmp(lines_text(line, "holder"), holder) == 0))
            return line;
    cr_assert(false, "no %s of %s came; so far: %s", event, holder, stream->bytes);
    return NULL;
}

static int64_t number_of(const struct reply *grant)
{
    return number(grant, "fencing_token");
}

static const char *subscribers(size_t master, const char *key)
{
    const redisReply *reply = master_do(master, "PUBSUB NUMSUB lockagent:channel:lock:%s", key);
    cr_assert_eq(reply->elements, 2u);
    return format("%lld", reply->element[1]->integer);
}

/* ---- the lines of a follower ---- */

/* Free, held, free, another holder: at an agent that has nothing to do with any of them. The
 * numbers order the holders, and GET says the same. */
Test(follow, a_follower_elsewhere_hears_each_holder)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *one = agent_start(NULL), *two = agent_start(NULL), *third = agent_start(NULL);
    struct lines *stream = follow(third, "job");
    expect_line(stream, "free");
    const struct reply *first = acquire_free(one, "job", "ttl=30s&label=one");
    const json_t *line = expect_line(stream, "held");
    cr_assert_str_eq(lines_text(line, "holder"), "one");
    cr_assert_str_eq(lines_text(line, "mode"), "write");
    cr_assert_eq(lines_count(line, "fencing_token"), number_of(first));
    cr_assert_eq(strlen(lines_text(line, "agent")), 8u);
    cr_assert(json_is_false(json_object_get(line, "here")));
    const struct reply *look = get(third, "/locks/job");
    cr_assert_eq(number_of(look), number_of(first));
    cr_assert_str_eq(string(look, "agent"), lines_text(line, "agent"));
    const char *agent_of_one = lines_text(line, "agent");
    give_back(one, "job", token(first));
    expect_line(stream, "free");
    const struct reply *second = acquire_free(two, "job", "ttl=30s&label=two");
    line = expect_line(stream, "held");
    cr_assert_str_eq(lines_text(line, "holder"), "two");
    cr_assert_eq(lines_count(line, "fencing_token"), number_of(second));
    cr_assert_gt(number_of(second), number_of(first));
    cr_assert_str_neq(lines_text(line, "agent"), agent_of_one);
    cr_assert_null(strstr(stream->bytes, token(second)), "a follower got the token");
    /* A follower that comes later begins with the present state. */
    line = expect_line(follow(third, "job"), "held");
    cr_assert_str_eq(lines_text(line, "holder"), "two");
    cr_assert_eq(metric(third, "lockagent_followed_keys"), 1);
}

/* At the agent of the holder the line needs no look: it comes before that look could. */
Test(follow, the_agent_of_the_holder_says_it_at_once)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    struct lines *stream = follow(agent, "job");
    expect_line(stream, "free");
    for (int round = 0; round < 3; round++) {
        const struct reply *grant = acquire_free(agent, "job", "ttl=30s&label=me");
        const json_t *line = expect_line(stream, "held");
        cr_assert(json_is_true(json_object_get(line, "here")));
        cr_assert_str_eq(lines_text(line, "holder"), "me");
        cr_assert_eq(lines_count(line, "fencing_token"), number_of(grant));
        give_back(agent, "job", token(grant));
        expect_line(stream, "free");
    }
}

/* Masters publish no hand-over: the agent of the follower looks from time to time. */
Test(follow, a_handover_is_heard)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *other = agent_start(NULL);
    const struct reply *first = acquire_free(agent, "job", "ttl=30s&label=one");
    struct lines *stream = follow(other, "job"), *near = follow(agent, "job");
    cr_assert_str_eq(lines_text(expect_line(stream, "held"), "holder"), "one");
    cr_assert_str_eq(lines_text(expect_line(near, "held"), "holder"), "one");
    int waiter = wire_request(agent, "POST", "/locks/job?ttl=30s&wait=60s&label=two", NULL);
    cr_assert(eventually(waiting_at(agent) == 1));
    give_back(agent, "job", token(first));
    const struct reply *second = wire_receive(waiter, PATIENCE_MS);
    expect(second, 201, NULL);
    cr_assert_eq(lines_count(await_line(near, "held", "two"), "fencing_token"), number_of(second));
    cr_assert_eq(lines_count(await_line(stream, "held", "two"), "fencing_token"),
                 number_of(second));
}

/* The agent of the holder is killed, so no agent publishes a release. */
Test(follow, the_end_of_a_killed_holder_is_heard)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *other = agent_start(NULL);
    acquire_free(agent, "job", "ttl=5s&renew=agent&label=one");
    struct lines *stream = follow(other, "job");
    expect_line(stream, "held");
    sleep_ms(6000); /* It is renewed: its lease ended, and no line came. */
    cr_assert_null(lines_next(stream, 0), "%s", stream->bytes);
    agent_kill(agent);
    await_line(stream, "free", NULL);
    cr_assert(eventually(masters_with("lock:job") == 0));
}

/* A PUT at another agent: the agent of the holder is another one, its number stays. */
Test(follow, an_adoption_is_heard)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *other = agent_start(NULL), *third = agent_start(NULL);
    const struct reply *grant = acquire_free(agent, "job", "ttl=30s&label=one");
    struct lines *stream = follow(third, "job");
    const char *before = lines_text(expect_line(stream, "held"), "agent");
    expect(renew(other, "job", token(grant), NULL), 200, NULL);
    const json_t *line = expect_line(stream, "held");
    cr_assert_str_neq(lines_text(line, "agent"), before);
    cr_assert_str_eq(lines_text(line, "holder"), "one");
    cr_assert_eq(lines_count(line, "fencing_token"), number_of(grant));
}

/* ---- other kinds ---- */

Test(follow, slots_and_readers_are_counted)
{
    masters_start(3, MASTERS_FORGETFUL);
    const struct agent_options options = {
        .extra = "policies:\n  - {match: 'slots/*', permits: 2}\n  - {match: 'rw/*', kind: rw}\n"
                 "  - {match: 'fair/*', order: fair}\n"};
    struct agent *agent = agent_start(&options), *other = agent_start(&options);
    struct lines *slots = follow(other, "slots/k"), *rw = follow(other, "rw/k"),
                 *fair = follow(other, "fair/k");
    cr_assert_eq(lines_count(expect_line(slots, "free"), "taken"), 0);
    expect_line(rw, "free");
    expect_line(fair, "free");
    const struct reply *slot = acquire_free(agent, "slots/k", "ttl=30s&label=first");
    const json_t *line = expect_line(slots, "free");
    cr_assert_eq(lines_count(line, "taken"), 1);
    cr_assert_eq(lines_count(line, "permits"), 2);
    const struct reply *look = get(other, "/locks/slots/k");
    cr_assert_eq(number_of(look), number_of(slot), "%s", look->body);
    cr_assert_str_eq(string(look, "holder"), "first");
    acquire_free(agent, "slots/k", "ttl=30s");
    cr_assert_eq(lines_count(expect_line(slots, "held"), "taken"), 2);
    give_back(agent, "slots/k", token(slot));
    cr_assert_eq(lines_count(expect_line(slots, "free"), "taken"), 1);

    const struct reply *read = acquire_free(agent, "rw/k", "ttl=30s&mode=read&label=r");
    line = expect_line(rw, "held");
    cr_assert_str_eq(lines_text(line, "mode"), "read");
    cr_assert_str_eq(lines_text(line, "holder"), "r");
    cr_assert_eq(lines_count(line, "readers"), 1);
    cr_assert_eq(number_of(get(other, "/locks/rw/k")), number_of(read));
    const struct reply *more = acquire_free(agent, "rw/k", "ttl=30s&mode=read&label=r");
    cr_assert_eq(lines_count(expect_line(rw, "held"), "readers"), 2);
    give_back(agent, "rw/k", token(more));
    cr_assert_eq(lines_count(expect_line(rw, "held"), "readers"), 1);
    give_back(agent, "rw/k", token(read));
    expect_line(rw, "free");
    const struct reply *write = acquire_free(agent, "rw/k", "ttl=30s&label=w");
    line = expect_line(rw, "held");
    cr_assert_str_eq(lines_text(line, "mode"), "write");
    cr_assert_eq(lines_count(line, "fencing_token"), number_of(write));

    const struct reply *grant = acquire_free(agent, "fair/k", "ttl=30s&label=f");
    line = expect_line(fair, "held");
    cr_assert_eq(lines_count(line, "fencing_token"), number_of(grant));
    give_back(agent, "fair/k", token(grant));
    expect_line(fair, "free");
}

/* A key of another program has no holder that could be named. */
Test(follow, a_foreign_key_has_no_known_holder)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    for (size_t i = 0; i < 3; i++)
        master_do(i, "RPUSH lock:job x");
    const json_t *line = expect_line(follow(agent, "job"), "held");
    cr_assert(json_is_null(json_object_get(line, "holder")));
    cr_assert(json_is_null(json_object_get(line, "agent")));
    cr_assert(json_is_null(json_object_get(line, "fencing_token")));
    const struct reply *look = get(agent, "/locks/job");
    cr_assert(json_is_null(member(look, "fencing_token")));
}

/* ---- the cost ---- */

static int64_t calls_of(size_t master, const char *command)
{
    const redisReply *info = master_do(master, "INFO commandstats");
    const char *at = strstr(info->str, format("cmdstat_%s:calls=", command));
    return at == NULL ? 0 : strtoll(strchr(at, '=') + 1, NULL, 10);
}

/* 1,000 followers of one key and agent cost masters one subscription, and a few looks a change. */
Test(follow, a_herd_costs_as_much_as_one)
{
    enum { HERD = 1000, ROUNDS = 5, COMMANDS_MAX = 100 };
    static int herd[HERD];
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
                     agent_start(&(struct agent_options){.extra = "limits: {connections: 1200}\n"}),
                 *holder = agent_start(NULL);
    struct lines *stream = follow(agent, "job");
    expect_line(stream, "free");
    const int64_t before = calls_of(0, "evalsha");
    for (int i = 0; i < HERD; i++)
        herd[i] = wire_request(agent, "GET", "/locks/job?watch=key", NULL);
    cr_assert(eventually(metric(agent, "lockagent_streams") == HERD + 1));
    cr_assert_str_eq(subscribers(0, "job"), "1");
    for (int round = 0; round < ROUNDS; round++) {
        const struct reply *grant = acquire_free(holder, "job", "ttl=30s&label=me");
        expect_line(stream, "held");
        give_back(holder, "job", token(grant));
        expect_line(stream, "free");
    }
    const int64_t cost = calls_of(0, "evalsha") - before;
    cr_assert_lt(cost, COMMANDS_MAX, "%lld calls", (long long)cost);
    cr_assert_eq(metric(agent, "lockagent_followed_keys"), 1);
    /* All of the herd get the last change: the line that each has got last is the same. */
    acquire_free(holder, "job", "ttl=30s&label=last");
    for (int i = 0; i < HERD; i++) {
        static char bytes[8192];
        size_t len = 0;
        const int64_t until = boottime_ms() + PATIENCE_MS;
        while (strstr(bytes, "\"last\"") == NULL && boottime_ms() < until) {
            ssize_t got = recv(herd[i], bytes + len, sizeof(bytes) - len - 1, MSG_DONTWAIT);
            len += got > 0 ? (size_t)got : 0;
            bytes[len] = '\0';
        }
        cr_assert_not_null(strstr(bytes, "\"last\""), "follower %d: %s", i, bytes);
        memset(bytes, 0, sizeof(bytes));
        wire_close(herd[i]);
    }
    cr_assert(eventually(metric(agent, "lockagent_streams") == 1));
}

/* Returns how many reads the first master has answered. */
static double looks_at(const struct agent *agent)
{
    return metric(agent, format("lockagent_master_commands_total{group=\"main\",master=\"%s\","
                                "op=\"read\",outcome=\"ok\"}",
                                master_url(0) + strlen("redis://")));
}

/* With the last follower go the subscription and the looks. */
Test(follow, the_last_follower_takes_the_subscription_along)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    struct lines *first = follow(agent, "job"), *second = follow(agent, "job");
    expect_line(first, "free");
    expect_line(second, "free");
    cr_assert(eventually(strcmp(subscribers(0, "job"), "1") == 0));
    wire_close(first->wire);
    cr_assert(eventually(metric(agent, "lockagent_streams") == 1));
    cr_assert_str_eq(subscribers(0, "job"), "1");
    wire_close(second->wire);
    cr_assert(eventually(metric(agent, "lockagent_followed_keys") == 0));
    cr_assert(eventually(strcmp(subscribers(0, "job"), "0") == 0));
    /* A look that is in flight may still come. */
    sleep_ms(100);
    const double before = looks_at(agent);
    cr_assert_gt(before, 0);
    sleep_ms(2500); /* twice the longest pause while a key is free */
    cr_assert_eq(looks_at(agent), before);
}

/* A waiter keeps the subscription that a follower began, and is woken by it. */
Test(follow, a_waiter_and_a_follower_share_the_channel)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *holder = agent_start(NULL);
    const struct reply *grant = acquire_free(holder, "job", "ttl=60s&label=one");
    struct lines *stream = follow(agent, "job");
    expect_line(stream, "held");
    cr_assert(eventually(strcmp(subscribers(0, "job"), "1") == 0));
    int waiter = wire_request(agent, "POST", "/locks/job?ttl=60s&wait=60s&label=two", NULL);
    cr_assert(eventually(waiting_at(agent) == 1));
    wire_close(stream->wire);
    cr_assert(eventually(metric(agent, "lockagent_followed_keys") == 0));
    cr_assert_str_eq(subscribers(0, "job"), "1");
    stream = follow(agent, "job");
    expect_line(stream, "held");
    give_back(holder, "job", token(grant));
    const struct reply *second = wire_receive(waiter, PATIENCE_MS);
    expect(second, 201, NULL);
    const json_t *line = await_line(stream, "held", "two");
    cr_assert_eq(lines_count(line, "fencing_token"), number_of(second));
    give_back(agent, "job", token(second));
    expect_line(stream, "free");
    cr_assert_str_eq(subscribers(0, "job"), "1");
}

/* A follower that does not read misses states, and is closed in the end; the agent keeps no line
 * for it. */
Test(follow, a_follower_that_does_not_read_is_dropped)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const int deaf = wire_open_deaf(agent);
    wire_say(deaf, "GET /locks/job?watch=key HTTP/1.1\r\nHost: localhost\r\n\r\n");
    cr_assert(eventually(metric(agent, "lockagent_streams") == 1));
    const long before_kib = agent_memory_kib(agent, "VmRSS:");
    const char *label = repeat("x", 64);
    const int64_t until = boottime_ms() + 60000;
    while (metric(agent, "lockagent_streams_dropped_total") == 0 && boottime_ms() < until)
        for (int i = 0; i < 20; i++) {
            const struct reply *grant =
                acquire_free(agent, "job", format("ttl=30s&label=%s", label));
            expect(grant, 201, NULL);
            give_back(agent, "job", token(grant));
        }
    cr_assert_eq(metric(agent, "lockagent_streams_dropped_total"), 1);
    cr_assert(eventually(metric(agent, "lockagent_streams") == 0), "it was not closed");
    cr_assert(eventually(metric(agent, "lockagent_followed_keys") == 0));
    cr_assert_lt(agent_memory_kib(agent, "VmRSS:") - before_kib, 4096);
    cr_assert_not_null(agent_log_line(agent, "stream is not read", "followed"));
    wire_close(deaf);
}

/* Followers count as streams do: they never take the last connections. */
Test(follow, followers_leave_connections)
{
    enum { ROOM = 128 - 64 };
    static int wires[ROOM];
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "limits: {connections: 128, waiters: 64}\n"});
    for (int i = 0; i < ROOM; i++)
        wires[i] = wire_request(agent, "GET", format("/locks/k%d?watch=key", i), NULL);
    cr_assert(eventually(metric(agent, "lockagent_followed_keys") == ROOM));
    expect(get(agent, "/locks/other?watch=key"), 429, "too_many_waiters");
    expect(acquire(agent, "other", "ttl=30s"), 201, NULL); /* It does not wait. */
    for (int i = 0; i < ROOM; i++)
        wire_close(wires[i]);
    cr_assert(eventually(metric(agent, "lockagent_followed_keys") == 0));
}

/* ---- ends and faults ---- */

/* Followers do not hold the end of the agent up, and learn of it. */
Test(follow, draining_ends_it)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.extra = "shutdown: {grace: 60s}\n"});
    struct lines *stream = follow(agent, "job"), *other = follow(agent, "other");
    expect_line(stream, "free");
    expect_line(other, "free");
    agent_signal(agent, SIGTERM);
    struct lines *both[] = {stream, other};
    for (int i = 0; i < 2; i++) {
        const json_t *line = expect_line(both[i], "ended");
        cr_assert_str_eq(lines_text(line, "reason"), "drained");
        cr_assert(lines_over(both[i]));
    }
    cr_assert_eq(agent_ended(agent), 0); /* within 15 s: the end waits for no follower */
}

/* Without a quorum the agent says that it does not know, whether masters die or hang; and reports
 * the holder when they are back. */
Test(follow, without_masters_it_is_unknown)
{
    masters_start(3, MASTERS_DURABLE);
    struct agent *agent = agent_start(NULL), *holder = agent_start(NULL);
    struct lines *stream = follow(agent, "job");
    expect_line(stream, "free");
    acquire_free(holder, "job", "ttl=60s&label=one");
    expect_line(stream, "held");
    for (size_t i = 0; i < 2; i++)
        master_freeze(i);
    const json_t *line = expect_line(stream, "unknown");
    cr_assert_null(json_object_get(line, "holder"));
    for (size_t i = 0; i < 2; i++)
        master_thaw(i);
    /* The connections that were silent are made anew, so it may be unknown once more. */
    await_line(stream, "held", "one");
    while (lines_next(stream, 3000) != NULL)
        ;
    for (size_t i = 0; i < 2; i++)
        master_kill(i);
    await_line(stream, "unknown", NULL);
    for (size_t i = 0; i < 2; i++)
        master_start(i);
    await_line(stream, "held", "one");
    while (lines_next(stream, 3000) != NULL)
        ;
    /* A minority does not matter. */
    master_kill(2);
    cr_assert_null(lines_next(stream, 6000), "%s", stream->bytes);
}

/* D3.8, R20: a follower must not take slots for free whose state is not known. */
Test(follow, without_masters_it_is_unknown_how_many_slots_are_taken)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "policies: [{match: '*', permits: 2}]\n"});
    acquire_free(agent, "k", "ttl=60s");
    struct lines *stream = follow(agent, "k");
    cr_assert_eq(lines_count(expect_line(stream, "free"), "taken"), 1);
    for (size_t i = 0; i < 2; i++)
        master_freeze(i);
    const json_t *line = expect_line(stream, "unknown");
    cr_assert_eq(lines_count(line, "permits"), 2);
    cr_assert(json_is_null(json_object_get(line, "taken")), "%s", stream->bytes);
    cr_assert(json_is_true(json_object_get(line, "here")), "%s", stream->bytes);
    for (size_t i = 0; i < 2; i++)
        master_thaw(i);
}

Test(follow, its_parameters_are_checked)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *other = agent_start(NULL);
    const struct reply *grant = acquire_free(agent, "k", "ttl=30s");
    const struct reply *refused = get(agent, "/locks/k?watch=keys");
    expect(refused, 400, "bad_request");
    cr_assert_not_null(strstr(string(refused, "detail"), "no value, true, or key"));
    refused = get(agent, format("/locks/k?watch=key&token=%s", token(grant)));
    expect(refused, 400, "bad_request");
    cr_assert_str_eq(string(refused, "parameter"), "token");
    expect(http(agent,
                &(struct call){.path = "/locks/k?watch=key", .headers = {"Accept: text/plain"}}),
           406, NULL);
    expect(get(agent, "/locks/k?watch=key&watch"), 400, "bad_request");
    /* The watch of a hold that another agent has says so. */
    refused = get(other, "/locks/k?watch");
    expect(refused, 404, "not_held");
    cr_assert_not_null(strstr(string(refused, "detail"), "watch=key"), "%s", refused->body);
}
