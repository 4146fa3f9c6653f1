/* Keys that are read and written (R17 to R19), by real agents on real masters. */
#include "harness.h"

#include <signal.h>
#include <string.h>

TestSuite(readers, .init = world_open, .fini = world_close, .timeout = 150);

enum { READERS = 64, SOME = 12, RANDOM = 40 /* digits of a token before its number */ };

static struct agent *start_with(const char *node_timeout)
{
    return agent_start(&(struct agent_options){
        .node_timeout = node_timeout,
        .extra = "policies:\n  - {match: 'm/*'}\n"
                 "  - {match: '*', ttl: 30s, kind: rw, reentrant: true}\n"});
}

static struct agent *start(void)
{
    return start_with(NULL);
}

/* An agent that reaches no quorum within node_timeout withdraws its ticket (R9), and others pass
 * its waiters. On a busy machine it may be late. */
static struct agent *start_patiently(void)
{
    return start_with("2s");
}

static struct agent *start_with_journal(void)
{
    return agent_start(
        &(struct agent_options){.extra = format("policies:\n  - {match: '*', ttl: 10s, kind: rw}\n"
                                                "journal: {file: %s}\n",
                                                world_path("journal"))});
}

static void begin(void)
{
    masters_start(5, MASTERS_FORGETFUL);
}

static size_t entries(size_t master)
{
    return (size_t)master_do(master, "ZCARD lock:k")->integer;
}

/* D9: an answer does not grow with the number of readers. */
Test(readers, d9_a_look_shows_a_hundred_of_them)
{
    enum { MANY = 110 };
    begin();
    struct agent *agent = start();
    for (unsigned i = 0; i < MANY; i++)
        acquire_free(agent, "k", "mode=read&ttl=60s");
    const struct reply *look = get(agent, "/locks/k");
    cr_assert_eq(json_array_size(member(look, "holds")), 100);
    cr_assert(eventually(number(get(agent, "/locks/k"), "readers") == MANY), "%s", look->body);
}

/* R17: each of them has an entry, and a number that no write has come in between of. */
Test(readers, r17_many_read_beside_each_other)
{
    begin();
    struct agent *agent = start(), *other = start();
    int wires[READERS];
    char tokens[READERS][64];
    for (int i = 0; i < READERS; i++)
        wires[i] = wire_request(agent, "POST", "/locks/k?mode=read&label=reader&wait=10s", NULL);
    for (int i = 0; i < READERS; i++) {
        const struct reply *reply = wire_receive(wires[i], PATIENCE_MS);
        expect(reply, 201, NULL);
        cr_assert_str_eq(string(reply, "mode"), "read");
        cr_assert_gt(number(reply, "fencing_token"), 0);
        strcpy(tokens[i], token(reply));
        wire_close(wires[i]);
    }
    const struct reply *state; /* A master may get some of the entries later. */
    cr_assert(eventually(number(state = get(other, "/locks/k"), "readers") == READERS), "%s",
              state->body);
    cr_assert_str_eq(string(state, "state"), "held");
    cr_assert_str_eq(string(state, "mode"), "read");
    cr_assert_str_eq(string(state, "holder"), "reader");
    cr_assert_eq(json_array_size(member(get(agent, "/locks/k"), "holds")), READERS);
    const struct reply *refused;
    cr_assert(eventually(number(refused = acquire(other, "k", NULL), "readers") == READERS), "%s",
              refused->body);
    expect(refused, 409, "lock_held");
    cr_assert_str_eq(string(refused, "mode"), "read");
    for (int i = 0; i < READERS; i++)
        give_back(i % 2 == 0 ? agent : other, "k", tokens[i]);
    cr_assert(eventually(masters_with("lock:k") == 0));
    const struct reply *writer = acquire(other, "k", NULL);
    expect(writer, 201, NULL);
    cr_assert_str_eq(string(writer, "mode"), "write");
    refused = acquire(agent, "k", "mode=read");
    expect(refused, 409, "lock_held");
    cr_assert_str_eq(string(refused, "mode"), "write");
    cr_assert_eq(number(refused, "readers"), 0);
}

/* R18: a waiting writer is passed by no reader that comes later, at any agent. */
Test(readers, r18_a_writer_comes_before_later_readers)
{
    begin();
    struct agent *agents[] = {start_patiently(), start_patiently()};
    char tokens[SOME][64];
    for (int i = 0; i < SOME; i++)
        strcpy(tokens[i], token(acquire_free(agents[i % 2], "k", "mode=read")));
    const int writer = wire_request(agents[0], "POST", "/locks/k?wait=60s", NULL);
    cr_assert(eventually(waiting_at(agents[0]) == 1));
    cr_assert(eventually(masters_with("lockagent:ticket:lock:k") == master_count()));
    expect(acquire(agents[1], "k", "mode=read"), 409, "lock_held");
    expect(acquire(agents[0], "k", "mode=read"), 409, "lock_held");
    int later[2];
    for (int i = 0; i < 2; i++)
        later[i] = wire_request(agents[i], "POST", "/locks/k?mode=read&wait=60s", NULL);
    cr_assert(eventually(waiting_at(agents[0]) == 2 && waiting_at(agents[1]) == 1));
    for (int i = 0; i < SOME; i++) {
        cr_assert(wire_is_silent(writer));
        give_back(agents[i % 2], "k", tokens[i]);
    }
    const struct reply *written = wire_receive(writer, PATIENCE_MS);
    expect(written, 201, NULL);
    cr_assert(wire_is_silent(later[0]) && wire_is_silent(later[1]));
    give_back(agents[0], "k", token(written));
    for (int i = 0; i < 2; i++) {
        const struct reply *read = wire_receive(later[i], PATIENCE_MS);
        expect(read, 201, NULL);
        /* R19: there was no writer in between */
        cr_assert_eq(number(read, "fencing_token"), number(written, "fencing_token"));
        wire_close(later[i]);
    }
    wire_close(writer);
}

/* R18: and a reader among writers waits for those before it alone. */
Test(readers, r18_a_reader_comes_before_later_writers)
{
    begin();
    struct agent *agents[] = {start_patiently(), start_patiently()};
    const struct reply *holder = acquire_free(agents[1], "k", "mode=write");
    const int reader = wire_request(agents[0], "POST", "/locks/k?mode=read&wait=60s", NULL);
    cr_assert(eventually(waiting_at(agents[0]) == 1));
    int writers[4];
    for (int i = 0; i < 4; i++)
        writers[i] = wire_request(agents[i % 2], "POST", "/locks/k?wait=60s", NULL);
    cr_assert(eventually(waiting_at(agents[0]) == 3 && waiting_at(agents[1]) == 2));
    give_back(agents[1], "k", token(holder));
    const struct reply *read = wire_receive(reader, PATIENCE_MS);
    expect(read, 201, NULL);
    for (int i = 0; i < 4; i++)
        cr_assert(wire_is_silent(writers[i]), "writer %d passed a reader", i);
    give_back(agents[0], "k", token(read));
    for (int i = 0; i < 4; i++)
        wire_close(writers[i]);
    wire_close(reader);
}

/* R19: it would wait for itself. */
Test(readers, r19_an_owner_who_reads_can_not_write_as_well)
{
    begin();
    struct agent *agent = start();
    const struct reply *read = acquire(agent, "k", "mode=read&owner=0123456789abcdef");
    expect(read, 201, NULL);
    expect(acquire(agent, "k", "owner=0123456789abcdef"), 409, "upgrade_refused");
    expect(acquire(agent, "k", "wait=10s&owner=0123456789abcdef"), 409, "upgrade_refused");
    give_back(agent, "k", token(read));
    const struct reply *written = acquire(agent, "k", "owner=0123456789abcdef");
    expect(written, 201, NULL);
    const struct reply *again = acquire(agent, "k", "mode=read&owner=0123456789abcdef");
    expect(again, 200, NULL);
    cr_assert_str_eq(string(again, "mode"), "write");
    cr_assert_eq(number(again, "count"), 2);
}

Test(readers, a_mutex_is_not_read)
{
    begin();
    struct agent *agent = start();
    const struct reply *refused = acquire(agent, "m/k", "mode=read");
    expect(refused, 400, "bad_request");
    cr_assert_str_eq(string(refused, "parameter"), "mode");
    expect(acquire(agent, "m/k", "mode=write"), 201, NULL);
    expect(acquire(agent, "k", "mode=both"), 400, "bad_request");
}

/* R17: one of another kind under the same name keeps off. */
Test(readers, r17_another_kind_keeps_off)
{
    begin();
    struct agent *agent = start();
    for (size_t i = 0; i < master_count(); i++)
        master_do(i, "SET lock:k somebody");
    expect(acquire(agent, "k", "mode=read"), 409, "lock_held");
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    for (size_t i = 0; i < master_count(); i++) {
        master_do(i, "DEL lock:k");
        master_do(i, "ZADD lock:k 7 player");
    }
    expect(acquire(agent, "k", "mode=read"), 409, "lock_held");
    cr_assert_eq(entries(0), 1);
}

Test(readers, one_of_several_is_watched_by_its_token)
{
    begin();
    struct agent *agent = start();
    const struct reply *one = acquire(agent, "k", "mode=read"),
                       *two = acquire(agent, "k", "mode=read&label=two");
    expect(one, 201, NULL);
    expect(two, 201, NULL);
    expect(get(agent, "/locks/k?watch"), 400, "token_required");
    const int watch =
        wire_request(agent, "GET", format("/locks/k?watch&token=%s", token(two)), NULL);
    sleep_ms(200);
    give_back(agent, "k", token(one));
    sleep_ms(200);
    give_back(agent, "k", token(two));
    wire_close(watch);
}

/* D3: the token alone is shown, at an agent that knows nothing of it. */
Test(readers, d3_a_read_is_adopted)
{
    begin();
    struct agent *agent = start();
    const struct reply *read = acquire(agent, "k", "mode=read&ttl=20s&label=me");
    expect(read, 201, NULL);
    agent_kill(agent);
    struct agent *other = start();
    const struct reply *adopted = renew(other, "k", token(read), "ttl=20s");
    expect(adopted, 200, NULL);
    cr_assert_str_eq(string(adopted, "mode"), "read");
    expect(acquire(other, "k", NULL), 409, "lock_held");
    const struct reply *beside = acquire(other, "k", "mode=read");
    expect(beside, 201, NULL);
    give_back(other, "k", token(beside));
    expect(renew(other, "k", token(read), NULL), 200, NULL);
    give_back(other, "k", token(read));
    cr_assert(eventually(masters_with("lock:k") == 0));
}

/* D8.3: several holds of one key come back. */
Test(readers, d8_a_journal_keeps_reads)
{
    begin();
    struct agent *agent = start_with_journal();
    const struct reply *reads[3];
    for (int i = 0; i < 3; i++) {
        reads[i] = acquire(agent, "k", "mode=read");
        expect(reads[i], 201, NULL);
    }
    agent_kill(agent);
    agent_restart(agent);
    cr_assert_eq(json_array_size(member(get(agent, "/locks/k"), "holds")), 3);
    expect(acquire(agent, "k", NULL), 409, "lock_held");
    for (int i = 0; i < 3; i++)
        give_back(agent, "k", token(reads[i]));
    expect(acquire(agent, "k", NULL), 201, NULL);
}

/* R18: those of one agent have their rounds side by side, one each. While the masters do not reply,
 * all of them are in flight. */
Test(readers, r18_many_at_one_agent_take_one_round_each_side_by_side)
{
    begin();
    struct agent *agent = agent_start(&(struct agent_options){
        .node_timeout = "5s", .extra = "policies: [{match: '*', ttl: 30s, kind: rw}]\n"});
    int wires[READERS];
    give_back(agent, "k", token(acquire_free(agent, "k", "mode=read")));
    double before = metric(agent, "lockagent_group_rounds_total{group=\"main\"}");
    for (size_t m = 0; m < 5; m++)
        master_freeze(m);
    for (int i = 0; i < READERS; i++)
        wires[i] = wire_request(agent, "POST", "/locks/k?mode=read", NULL);
    cr_assert(
        eventually(metric(agent, "lockagent_group_rounds_in_flight{group=\"main\"}") == READERS),
        "%g", metric(agent, "lockagent_group_rounds_in_flight{group=\"main\"}"));
    for (size_t m = 0; m < 5; m++)
        master_thaw(m);
    for (int i = 0; i < READERS; i++) {
        expect(wire_receive(wires[i], PATIENCE_MS), 201, NULL);
        wire_close(wires[i]);
    }
    double after = metric(agent, "lockagent_group_rounds_total{group=\"main\"}");
    cr_assert_eq(after - before, READERS, "%g rounds", after - before);
    cr_assert_eq(json_array_size(member(get(agent, "/locks/k"), "holds")), READERS);
}

/* On how many masters the agent's one hold of `k` is, as they have replied. */
static json_int_t confirmed(const struct agent *agent)
{
    const json_t *holds = member(get(agent, "/locks/k"), "holds");
    cr_assert_eq(json_array_size(holds), 1);
    return json_integer_value(json_object_get(json_array_get(holds, 0), "confirmed"));
}

/* Masters that forgot let no caller in: not a writer beside readers, and no reader whose quorum a
 * writer might not meet. Present readers go on, and are repaired (D5.3, R7, C14). */
Test(readers, d5_masters_that_forgot_let_no_writer_in_beside_readers)
{
    const struct agent_options options = {
        .extra = "limits: {max_ttl: 6s}\npolicies: [{match: '*', ttl: 6s, kind: rw}]\n"};
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&options), *rival = agent_start(&options);
    static const char votes[] = "lockagent_group_masters_voting{group=\"main\"}";
    cr_assert(eventually(metric(agent, votes) == 3 && metric(rival, votes) == 3));
    const struct reply *one = acquire(agent, "k", "mode=read&ttl=6s&renew=agent"),
                       *two = acquire(rival, "k", "mode=read&ttl=6s&renew=agent");
    expect(one, 201, NULL);
    expect(two, 201, NULL);
    /* If a master died before it replied, its key would not be known, and only a quorum could prove
     * that it may be created anew (R7). */
    cr_assert(eventually(confirmed(agent) == 3 && confirmed(rival) == 3));
    for (size_t m = 0; m < 2; m++) {
        master_kill(m);
        master_start(m);
    }
    cr_assert(eventually(metric(rival, votes) == 1 &&
                         metric(rival, "lockagent_group_masters_up{group=\"main\"}") == 3));
    const struct reply *refused = acquire(rival, "k", "ttl=1s");
    cr_assert(refused->status == 503 || refused->status == 409, "%ld %s", refused->status,
              refused->body);
    expect(acquire(rival, "other", "ttl=1s"), 503, "quorum_unavailable");
    cr_assert(eventually_within(15000, entries(0) == 2 && entries(1) == 2), "%zu and %zu entries",
              entries(0), entries(1));
    cr_assert(eventually_within(25000, metric(rival, votes) == 3));
    refused = acquire(rival, "k", "ttl=1s");
    expect(refused, 409, "lock_held");
    cr_assert_eq(number(refused, "readers"), 2, "%s", refused->body);
    expect(renew(agent, "k", token(one), NULL), 200, NULL);
    expect(renew(rival, "k", token(two), NULL), 200, NULL);
    give_back(agent, "k", token(one));
    give_back(rival, "k", token(two));
    expect(acquire(rival, "k", "ttl=1s&wait=5s"), 201, NULL);
}

static bool has_entry(size_t master, const char *token)
{
    const redisReply *stored = master_do(master, "ZRANGE lock:k 0 -1");
    for (size_t i = 0; i < stored->elements; i++)
        if (strncmp(stored->element[i]->str + strlen("w:"), token, RANDOM) == 0)
            return true;
    return false;
}

/* Each master has the entries of these tokens, and no others. */
static bool all_have(const char *const *tokens, size_t count)
{
    for (size_t i = 0; i < master_count(); i++) {
        if (entries(i) != count)
            return false;
        for (size_t t = 0; t < count; t++)
            if (!has_entry(i, tokens[t]))
                return false;
    }
    return true;
}

/* A master that was late for a grant has its entry by a repair, with the next renewal (R7). */
static bool renewed_by_all(const struct agent *agent, const char *const *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(renew(agent, "k", tokens[i], NULL), 200, NULL);
    return all_have(tokens, count);
}

/* Holds from before the agent was stopped belong to others now, in either mode. The agent says so,
 * and touches nothing of theirs. */
static void return_after_others(const char *mode, const char *theirs, size_t count)
{
    begin();
    struct agent *away = start(), *other = start();
    const char *old = token(acquire(away, "k", format("ttl=2s&renew=agent&mode=%s", mode)));
    agent_signal(away, SIGSTOP);
    const char *taken[SOME];
    for (size_t i = 0; i < count; i++) {
        const struct reply *granted =
            acquire(other, "k", format("ttl=60s&wait=20s&mode=%s", theirs));
        expect(granted, 201, NULL);
        taken[i] = token(granted);
    }
    cr_assert(eventually(renewed_by_all(other, taken, count)));
    agent_signal(away, SIGCONT);
    expect(renew(away, "k", old, NULL), 410, "lock_lost");
    expect(release(away, "k", old), 410, "lock_lost");
    expect(acquire(away, "k", NULL), 409, "lock_held");
    sleep_ms(2500); /* beyond all that it may have owed */
    cr_assert(all_have(taken, count));
    for (size_t i = 0; i < count; i++)
        give_back(other, "k", taken[i]);
    cr_assert(eventually(masters_with("lock:k") == 0));
}

Test(readers, r14_a_writer_s_agent_returns_after_others_read)
{
    return_after_others("write", "read", 3);
}

Test(readers, r14_a_reader_s_agent_returns_after_another_one_wrote)
{
    return_after_others("read", "write", 1);
}

/* A bound reader that does not read its stream loses its own hold, and no other. */
Test(readers, a_stuck_caller_loses_its_own)
{
    begin();
    struct agent *agent = start();
    const char *beside = token(acquire(agent, "k", "ttl=60s&mode=read"));
    const int wire = wire_open_deaf(agent);
    wire_say(wire, "POST /locks/k?ttl=60s&bind=connection&mode=read HTTP/1.1\r\n"
                   "Host: localhost\r\nContent-Length: 0\r\n\r\n");
    const char *stuck = wire_unread_token(wire);
    const int64_t until = boottime_ms() + 60000;
    const struct reply *renewed = renew(agent, "k", stuck, NULL);
    while (renewed->status == 200 && boottime_ms() < until)
        renewed = renew(agent, "k", stuck, NULL);
    expect(renewed, 410, "lock_lost");
    cr_assert_str_eq(string(renewed, "reason"), "stuck");
    give_back(agent, "k", beside);
    const struct reply *refused = acquire(agent, "k", NULL);
    expect(refused, 409, "lock_held");
    cr_assert_str_eq(string(refused, "mode"), "read", "its lease runs out");
    wire_close(wire);
}
