/* Semaphores: several holders of a key at once, each in a slot of its own (R20). */
#include "harness.h"

#include <signal.h>
#include <string.h>

TestSuite(slots, .init = world_open, .fini = world_close, .timeout = 120);

static const char policy[] =
    "policies: [{match: 's/*', permits: 3}, {match: 'wide/*', permits: 64}]\n";

static struct agent *start(void)
{
    masters_start(5, MASTERS_FORGETFUL);
    return agent_start(&(struct agent_options){.extra = policy});
}

static struct agent *start_another(void)
{
    return agent_start(&(struct agent_options){.extra = policy});
}

static const char *slot_key(int64_t slot)
{
    return format("lockagent:slot:%lld:lock:s/k", (long long)slot);
}

/* The last part of a token is the slot that the answer names. */
static void expect_slot(const struct reply *reply)
{
    int64_t slot = number(reply, "slot");
    cr_assert(slot >= 0 && slot < number(reply, "permits"), "%s", reply->body);
    cr_assert_str_eq(strrchr(token(reply), '.'), format(".%lld", (long long)slot));
    cr_assert_str_eq(header(reply, "Lock-Token"), token(reply));
}

Test(slots, as_many_as_there_are_permits_at_whichever_agent)
{
    struct agent *agent = start(), *other = start_another();
    const char *tokens[3];
    unsigned slots = 0;
    for (unsigned i = 0; i < 3; i++) {
        const struct reply *granted = acquire(i == 1 ? other : agent, "s/k", "ttl=30s&label=me");
        expect(granted, 201, NULL);
        cr_assert_eq(number(granted, "permits"), 3);
        expect_slot(granted);
        tokens[i] = token(granted);
        slots |= 1u << number(granted, "slot");
        cr_assert(eventually(masters_with(slot_key(number(granted, "slot"))) == 5));
    }
    cr_assert_eq(slots, 7u, "each has a slot of its own");
    const struct reply *refused = acquire(agent, "s/k", "ttl=30s");
    expect(refused, 409, "lock_held");
    cr_assert_str_eq(string(refused, "holder"), "me");
    cr_assert_gt(number(refused, "retry_after_ms"), 20000);
    expect(acquire(other, "s/k", "ttl=30s"), 409, "lock_held");
    cr_assert_eq(masters_with("lock:s/k"), 0u);

    give_back(other, "s/k", tokens[1]);
    const struct reply *next = acquire(agent, "s/k", "ttl=30s");
    expect(next, 201, NULL);
    cr_assert_str_eq(strrchr(token(next), '.'), strrchr(tokens[1], '.'), "the free one is found");
}

/* Returns how many slots are taken at this master, as the agent shows it. */
static json_int_t taken_there(const struct reply *state, size_t master)
{
    const json_t *shown = json_array_get(member(state, "masters"), master);
    return json_integer_value(json_object_get(shown, "taken"));
}

Test(slots, what_is_shown_of_them)
{
    struct agent *agent = start(), *other = start_another();
    const struct reply *state = get(agent, "/locks/s/k");
    cr_assert_str_eq(string(state, "state"), "free");
    cr_assert_eq(number(state, "taken"), 0);
    const char *first = token(acquire_free(agent, "s/k", "ttl=30s&label=one"));
    acquire_free(agent, "s/k", "ttl=30s&label=two");
    cr_assert(eventually(taken_there(state = get(agent, "/locks/s/k"), 0) == 2 &&
                         number(state, "taken") == 2),
              "%s", state->body);
    cr_assert_str_eq(string(state, "state"), "free", "a third one may come in");
    cr_assert_eq(number(state, "permits"), 3);
    cr_assert_eq(json_array_size(member(state, "holds")), 2u);
    cr_assert_null(member(state, "hold"));
    acquire_free(other, "s/k", "ttl=30s");
    cr_assert(eventually(!strcmp(string(get(agent, "/locks/s/k"), "state"), "held")));
    cr_assert(eventually(number(get(other, "/locks/s/k"), "taken") == 3));
    cr_assert_eq(json_array_size(member(get(other, "/locks/s/k"), "holds")), 1u);

    const json_t *listed = json_array_get(member(get(agent, "/locks"), "held"), 0);
    cr_assert_eq(json_integer_value(json_object_get(listed, "permits")), 3);
    cr_assert_not_null(json_object_get(listed, "slot"));
    const struct reply *renewed = renew(agent, "s/k", first, "ttl=30s");
    expect(renewed, 200, NULL);
    expect_slot(renewed);
    expect(get(agent, "/locks/s/k?watch"), 400, "token_required");
    const char *metrics = get(agent, "/metrics")->body;
    cr_assert_not_null(strstr(metrics, "lockagent_slots_held{policy=\"s/*\"} 2\n"));
    cr_assert_null(strstr(metrics, "lockagent_slots_held{policy=\"*\"}"));
    cr_assert_not_null(
        strstr(metrics, "lockagent_slot_attempts_per_grant_count{policy=\"s/*\"} 2\n"));
}

Test(slots, one_of_several_is_watched_by_its_token)
{
    struct agent *agent = start();
    const char *first = token(acquire(agent, "s/k", "ttl=30s"));
    expect(acquire(agent, "s/k", "ttl=30s"), 201, NULL);
    int wire = wire_request(agent, "GET", format("/locks/s/k?watch&token=%s", first), NULL);
    cr_assert(eventually(!wire_is_silent(wire)));
    wire_close(wire);
    expect(get(agent, format("/locks/s/k?watch&token=%.40s.1.0", first)), 404, "not_held");
}

Test(slots, a_release_is_heard_here_and_elsewhere)
{
    struct agent *agent = start(), *other = start_another();
    const char *tokens[3];
    for (unsigned i = 0; i < 3; i++)
        tokens[i] = token(acquire(agent, "s/k", "ttl=30s"));
    int here = wire_request(agent, "POST", "/locks/s/k?ttl=30s&wait=20s", NULL);
    int there = wire_request(other, "POST", "/locks/s/k?ttl=30s&wait=20s", NULL);
    cr_assert(eventually(json_array_size(member(get(other, "/locks"), "waiting")) == 1));
    sleep_ms(300); /* it has asked, and listens */
    give_back(agent, "s/k", tokens[0]);
    const struct reply *handed = wire_receive(here, 5000);
    expect(handed, 201, NULL);
    cr_assert_str_eq(strrchr(token(handed), '.'), strrchr(tokens[0], '.'), "in one round trip");
    give_back(agent, "s/k", tokens[2]);
    const struct reply *woken = wire_receive(there, 5000);
    expect(woken, 201, NULL);
    cr_assert_str_eq(strrchr(token(woken), '.'), strrchr(tokens[2], '.'));
    wire_close(here);
    wire_close(there);
}

/* A token says which slot it is of: any agent can go on with it, and no other slot is touched. */
Test(slots, d3_a_token_is_adopted_in_its_slot)
{
    struct agent *agent = start(), *other = start_another();
    const char *first = token(acquire(agent, "s/k", "ttl=30s"));
    const char *second = token(acquire(agent, "s/k", "ttl=30s"));
    const struct reply *adopted = renew(other, "s/k", first, "ttl=30s");
    expect(adopted, 200, NULL);
    expect_slot(adopted);
    cr_assert_str_eq(token(adopted), first);
    int len = (int)strlen(first) - 2; /* without `.<slot>` */
    const char *wrong = format("%.*s%s", len, first, second + strlen(second) - 2);
    expect(release(other, "s/k", wrong), 412, "token_mismatch");
    const char *none = format("%.*s", len, first);
    expect(release(other, "s/k", none), 404, "not_held");
    give_back(other, "s/k", second);
    give_back(other, "s/k", first);
    cr_assert(eventually(number(get(other, "/locks/s/k"), "taken") == 0));
}

Test(slots, a_journal_keeps_them)
{
    masters_start(5, MASTERS_DURABLE);
    struct agent *agent = agent_start(&(struct agent_options){
        .extra = format("%sjournal: {file: %s}\n", policy, world_path("holds"))});
    const char *first = token(acquire(agent, "s/k", NULL)),
               *second = token(acquire(agent, "s/k", NULL));
    agent_kill(agent);
    agent_restart(agent);
    cr_assert(eventually(json_array_size(member(get(agent, "/locks"), "held")) == 2));
    expect(renew(agent, "s/k", first, NULL), 200, NULL);
    give_back(agent, "s/k", second);
    cr_assert_eq(json_array_size(member(get(agent, "/locks/s/k"), "holds")), 1u);
}

Test(slots, sixty_four_of_them)
{
    struct agent *agent = start(), *other = start_another();
    for (unsigned i = 0; i < 64; i++)
        acquire_free(i % 2 == 0 ? agent : other, "wide/k", "ttl=60s");
    const struct reply *refused; /* On a busy machine masters may be late at first: 503. */
    cr_assert(eventually((refused = acquire(agent, "wide/k", "ttl=60s"))->status != 503));
    expect(refused, 409, "lock_held");
    cr_assert(eventually(number(get(agent, "/locks/wide/k"), "taken") == 64));
}

Test(slots, lockagent_run_tells_the_slot)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *config = agent_config(&(struct agent_options){.extra = policy});
    struct outcome outcome =
        agent_run((const char *const[]){"run", "-c", config, "s/k", "--", "sh", "-c",
                                        "echo $LOCKAGENT_SLOT $LOCKAGENT_TOKEN", NULL});
    cr_assert_eq(outcome.exit_status, 0, "%s", outcome.err);
    const char *slot = strrchr(outcome.out, '.');
    cr_assert_not_null(slot);
    cr_assert_eq(outcome.out[0], slot[1], "%s", outcome.out);
    outcome = agent_run((const char *const[]){"run", "-c", config, "mutex", "--", "sh", "-c",
                                              "echo [$LOCKAGENT_SLOT]", NULL});
    cr_assert_str_eq(outcome.out, "[]\n");
}

static bool all_have(const char *one)
{
    const char *key = format("lockagent:slot:%s:lock:s/k", strrchr(one, '.') + 1);
    for (size_t master = 0; master < master_count(); master++) {
        const char *value = master_get(master, key);
        if (!value || strncmp(value, one, 40) != 0)
            return false;
    }
    return true;
}

/* A master that was late for the grant has the key by a repair, with the next renewal (R7). */
static bool renewed_by_all(const struct agent *agent, const char *one)
{
    expect(renew(agent, "s/k", one, NULL), 200, NULL);
    return all_have(one);
}

/* The three slots of an agent that was stopped are another one's now: it says so, and touches none
 * of them. */
Test(slots, r14_an_agent_returns_after_another_one_took_over)
{
    struct agent *away = start(), *other = start_another();
    const char *old[3], *taken[3];
    for (int i = 0; i < 3; i++)
        old[i] = token(acquire(away, "s/k", "ttl=2s&renew=agent"));
    agent_signal(away, SIGSTOP);
    for (int i = 0; i < 3; i++) {
        const struct reply *granted = acquire(other, "s/k", "ttl=60s&wait=20s");
        expect(granted, 201, NULL);
        taken[i] = token(granted);
        cr_assert(eventually(renewed_by_all(other, taken[i])));
    }
    agent_signal(away, SIGCONT);
    for (int i = 0; i < 3; i++) {
        expect(renew(away, "s/k", old[i], NULL), 410, "lock_lost");
        expect(release(away, "s/k", old[i]), 410, "lock_lost");
        expect(release(other, "s/k", old[i]), 412, "token_mismatch");
    }
    const struct reply *state = get(away, "/locks/s/k");
    cr_assert_eq(number(state, "taken"), 3, "%s", state->body);
    cr_assert_eq(json_array_size(member(state, "holds")), 0u);
    expect(acquire(away, "s/k", "ttl=2s"), 409, "lock_held");
    sleep_ms(2500); /* beyond all that it may have owed */
    for (int i = 0; i < 3; i++)
        cr_assert(all_have(taken[i]), "slot %s", strrchr(taken[i], '.') + 1);
}

/* A bound caller that does not read loses its slot, and no other caller does. */
Test(slots, a_stuck_caller_loses_its_own)
{
    struct agent *agent = start();
    const char *beside = token(acquire(agent, "s/k", "ttl=60s"));
    const int wire = wire_open_deaf(agent);
    wire_say(wire, "POST /locks/s/k?ttl=60s&bind=connection HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Length: 0\r\n\r\n");
    const char *stuck = wire_unread_token(wire);
    const int64_t until = boottime_ms() + 60000;
    const struct reply *renewed = renew(agent, "s/k", stuck, NULL);
    while (renewed->status == 200 && boottime_ms() < until)
        renewed = renew(agent, "s/k", stuck, NULL);
    expect(renewed, 410, "lock_lost");
    cr_assert_str_eq(string(renewed, "reason"), "stuck");
    expect(renew(agent, "s/k", beside, NULL), 200, NULL);
    const struct reply *state = get(agent, "/locks/s/k");
    cr_assert_eq(json_array_size(member(state, "holds")), 1u, "%s", state->body);
    cr_assert_eq(number(state, "taken"), 2, "its lease runs out: %s", state->body);
    wire_close(wire);
}
