/* `lockagent unlock` (R25): an operator takes a lock away from its holder. */
#include "world.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

TestSuite(unlock, .init = world_open, .fini = world_close, .timeout = 180);

enum { NAME_CHARS = 12 };

static struct agent *first, *second;

static void begin(const char *group, const char *extra)
{
    masters_start(3, MASTERS_DURABLE);
    first = agent_start(&(struct agent_options){.group = group, .extra = extra});
    second = agent_start(&(struct agent_options){.group = group, .extra = extra});
}

/* Takes a free lock, and returns when all masters have it: a grant needs only a quorum. */
static const struct reply *acquire_everywhere(const struct agent *agent, const char *key,
                                              const char *parameters)
{
    const struct reply *granted = acquire_free(agent, key, parameters);
    cr_assert(eventually(masters_with(format("lock:%s", key)) == master_count()));
    return granted;
}

/* The name of a hold: the first digits of its token. */
static const char *name_of(const struct reply *granted)
{
    return format("%.12s", token(granted));
}

/* Without a name: only looks. */
static struct outcome unlock(const char *key, const char *name)
{
    return agent_run(
        (const char *[]){"unlock", first->config, key, name == NULL ? NULL : "--yes", name, NULL});
}

static void expect_outcome(const struct outcome *outcome, int status, const char *text)
{
    cr_assert_eq(outcome->exit_status, status, "%d:\n%s%s", outcome->exit_status, outcome->out,
                 outcome->err);
    cr_assert_not_null(strstr(outcome->out, text), "%s is missing in:\n%s%s", text, outcome->out,
                       outcome->err);
}

/* Unlocks the hold of a grant. Returns the number that the command prints. */
static int64_t unlocked(const char *key, const struct reply *granted)
{
    const struct outcome outcome = unlock(key, name_of(granted));
    expect_outcome(&outcome, 0, "unlocked, number ");
    return strtoll(strstr(outcome.out, "unlocked, number ") + strlen("unlocked, number "), NULL,
                   10);
}

static int watch(const struct agent *agent, const char *key)
{
    const int wire = wire_request(agent, "GET", format("/locks/%s?watch", key), NULL);
    cr_assert(eventually(!wire_is_silent(wire)));
    return wire;
}

static double lost(const struct agent *agent, const char *reason)
{
    return metric(agent, format("lockagent_locks_lost_total{policy=\"*\",reason=\"%s\"}", reason));
}

Test(unlock, the_holder_hears_it_and_the_next_number_is_larger)
{
    begin(NULL, NULL);
    const struct reply *granted =
        acquire_everywhere(first, "k", "ttl=3s&renew=agent&label=worker-7");
    const int stream = watch(first, "k");
    const int64_t raised = unlocked("k", granted);
    cr_assert_gt(raised, number(granted, "fencing_token"));
    cr_assert_eq(masters_with("lock:k"), 0);
    wire_expect_event(stream, "\"event\":\"lost\"", "\"reason\":\"unlocked\"");
    wire_close(stream);
    cr_assert(!held_here(first, "k"));
    cr_assert(eventually(lost(first, "unlocked") == 1));
    cr_assert(eventually(agent_logged(first, NULL, "unlocked") >= 1));
    expect(renew(first, "k", token(granted), "ttl=3s"), 410, "lock_lost");
    const struct reply *next = acquire_free(second, "k", "ttl=3s");
    cr_assert_gt(number(next, "fencing_token"), raised);
    expect(renew(first, "k", token(granted), "ttl=3s"), 410, "lock_lost");
    cr_assert(held_here(second, "k"));
}

/* A multilock needs all masters of a group, also to be unlocked, though two are a quorum of it for
 * the other policy. */
Test(unlock, the_quorum_is_that_of_the_key)
{
    begin(NULL, "policies: [{match: 'all/*', algorithm: multilock}, {match: '*'}]\n");
    const struct reply *granted = acquire_everywhere(first, "all/k", "ttl=30s");
    master_kill(2);
    const struct outcome outcome = unlock("all/k", name_of(granted));
    expect_outcome(&outcome, 1, "2 of 3 masters answer, 3 are needed: nothing is deleted");
    cr_assert_eq(masters_with("lock:all/k"), 2);
}

/* The stored number is what decides, also if the agents' clocks are behind it. */
Test(unlock, the_number_is_stored_on_a_quorum)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=30s");
    const int64_t ahead = number(granted, "fencing_token") + 3600 * INT64_C(1000000);
    for (size_t m = 0; m < 3; m++)
        master_do(m, "ZADD %s %lld n", bucket_of("k"), (long long)ahead);
    cr_assert_eq(unlocked("k", granted), ahead + 1);
    for (size_t m = 0; m < 3; m++)
        cr_assert_eq(master_number(m, "k"), ahead + 1, "master %zu", m);
    const struct reply *next = acquire_free(second, "k", "ttl=3s");
    cr_assert_gt(number(next, "fencing_token"), ahead + 1);
}

Test(unlock, without_yes_nothing_is_deleted)
{
    begin(NULL, NULL);
    struct outcome outcome = unlock("k", NULL);
    expect_outcome(&outcome, 0, "main: no agent holds the key\n");
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=30s&label=worker-7");
    outcome = unlock("k", NULL);
    expect_outcome(&outcome, 0,
                   format("main: held by %s, label \"worker-7\", agent ", name_of(granted)));
    expect_outcome(&outcome, 0,
                   format(", number %lld, on 3 of 3 masters, for ",
                          (long long)number(granted, "fencing_token")));
    expect_outcome(&outcome, 0, format("add its name: --yes %s\n", name_of(granted)));
    cr_assert_null(strstr(outcome.out, format("%.13s", token(granted))), "part of the secret");
    cr_assert_eq(masters_with("lock:k"), 3);
    cr_assert_eq(master_do(0, "KEYS lockagent:unlocked:*")->elements, 0);
    expect(renew(first, "k", token(granted), "ttl=30s"), 200, NULL);
}

/* The holder has renewed, or the lock has another holder, since the operator has looked. */
Test(unlock, a_hold_is_compared_and_not_its_key)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=30s");
    struct outcome outcome = unlock("k", NULL);
    expect_outcome(&outcome, 0, name_of(granted));
    give_back(first, "k", token(granted));
    cr_assert(eventually(masters_with("lock:k") == 0));
    const struct reply *next = acquire_everywhere(second, "k", "ttl=30s");
    outcome = unlock("k", name_of(granted));
    expect_outcome(&outcome, 1, "nothing is deleted");
    cr_assert_eq(masters_with("lock:k"), 3);
    expect(renew(second, "k", token(next), "ttl=20s"), 200, NULL);
    expect(renew(first, "k", token(next), "ttl=40s"), 200, NULL); /* adopted: still that hold */
    cr_assert_gt(unlocked("k", next), number(next, "fencing_token"));
    cr_assert_eq(masters_with("lock:k"), 0);
    outcome = unlock("k", name_of(next)); /* a second operator */
    expect_outcome(&outcome, 0, "unlocked, number ");
}

/* Returns how many masters have a tombstone of any hold. */
static size_t tombstones(void)
{
    size_t masters = 0;
    for (size_t m = 0; m < master_count(); m++)
        masters += master_do(m, "KEYS lockagent:unlocked:*")->elements > 0;
    return masters;
}

/* Without a hold and without a tombstone nothing is written. */
Test(unlock, r25_a_hold_that_never_was_leaves_no_tombstone)
{
    static const char stranger[] = "0123456789ab";
    begin(NULL, NULL);
    struct outcome outcome = unlock("k", stranger);
    expect_outcome(&outcome, 1, "no master has a hold 0123456789ab of the key: nothing is deleted");
    cr_assert_eq(tombstones(), 0);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    outcome = unlock("k", stranger);
    expect_outcome(&outcome, 1, "no master has a hold 0123456789ab of the key: nothing is deleted");
    cr_assert_eq(tombstones(), 0);
    cr_assert_eq(masters_with("lock:k"), 3);
    expect(renew(first, "k", token(granted), "ttl=60s"), 200, NULL);
}

/* A run that ended before it was told that all keys are deleted is completed by the next one. */
Test(unlock, r25_what_a_run_has_deleted_counts_in_the_next_one)
{
    static const char *const keys[] = {"k", "slots", "shared"};
    begin(NULL, "policies:\n  - {match: slots, permits: 3}\n  - {match: shared, kind: rw}\n");
    for (size_t i = 0; i < 3; i++) {
        const struct reply *granted = acquire_free(first, keys[i], "ttl=60s");
        expect(granted, 201, NULL);
        cr_assert_gt(unlocked(keys[i], granted), number(granted, "fencing_token"));
        const int64_t raised = unlocked(keys[i], granted); /* Once more, for the same hold. */
        cr_assert_gt(raised, number(granted, "fencing_token"));
        const struct reply *next = acquire_free(second, keys[i], "ttl=60s");
        expect(next, 201, NULL);
        cr_assert_gt(number(next, "fencing_token"), raised);
        unlocked(keys[i], granted); /* The next holder keeps the lock. */
        expect(renew(second, keys[i], token(next), NULL), 200, NULL);
    }
}

/* One master alone has deleted it: as many as that are not enough, and the command says so. */
Test(unlock, r25_what_fewer_than_a_quorum_have_deleted_is_not_unlocked)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    agent_kill(first);
    for (size_t m = 0; m < 3; m++)
        master_do(m, "DEL lock:k");
    master_do(1, "SET lockagent:unlocked:%s:lock:k deleted PX 60000", name_of(granted));
    const struct outcome outcome = unlock("k", name_of(granted));
    expect_outcome(&outcome, 1, "NOT unlocked: 1 of 3 masters have deleted it, 2 are needed");
}

/* One master is cut off while the other two unlock, and comes back with the key. The holder goes
 * on to renew: no repair brings the lock back, and the next holder keeps it. */
Test(unlock, no_repair_brings_the_lock_back)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=6s&renew=agent");
    agent_signal(first, SIGSTOP); /* It asks no master before all is done. */
    master_freeze(2);
    const struct outcome outcome = unlock("k", name_of(granted));
    expect_outcome(&outcome, 0, "unlocked, number ");
    const struct reply *next = acquire_free(second, "k", "ttl=30s");
    master_thaw(2);
    agent_signal(first, SIGCONT);
    cr_assert(eventually(!held_here(first, "k")));
    sleep_ms(1500);
    for (size_t m = 0; m < 2; m++)
        cr_assert_eq(strncmp(master_get(m, "lock:k"), token(next), 40), 0, "master %zu", m);
    expect(renew(second, "k", token(next), "ttl=30s"), 200, NULL);
    cr_assert(held_here(second, "k"));
}

/* A master that has lost the key before is not repaired after it. */
Test(unlock, a_master_without_the_key_gets_none)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=6s&renew=agent");
    master_do(0, "DEL lock:k"); /* This master is repaired with one of the next renewals. */
    unlocked("k", granted);
    cr_assert(eventually(!held_here(first, "k")));
    sleep_ms(500);
    cr_assert_eq(masters_with("lock:k"), 0);
    cr_assert(eventually(lost(first, "unlocked") == 1));
}

/* Returns true if a message has set off a round of the second agent. */
static bool message_has_woken(const char *policy)
{
    return metric(second, format("lockagent_acquire_causes_total{policy=\"%s\",cause=\"message\"}",
                                 policy)) >= 1;
}

/* An attempt after a back-off may come between the deletion and the message, so the message has
 * more than one chance. */
Test(unlock, a_message_wakes_a_waiter)
{
    begin(NULL, "policies:\n  - {match: fair, order: fair}\n");
    static const char *const keys[] = {"k", "fair"}, *const policies[] = {"*", "fair"};
    for (size_t i = 0; i < 2; i++)
        for (int chances = 5; !message_has_woken(policies[i]); chances--) {
            cr_assert_gt(chances, 0, "no message has woken a waiter for %s", keys[i]);
            const struct reply *granted = acquire_free(first, keys[i], "ttl=60s");
            expect(granted, 201, NULL);
            const int waiter =
                wire_request(second, "POST", format("/locks/%s?ttl=10s&wait=50s", keys[i]), NULL);
            for (size_t m = 0; m < 3; m++)
                cr_assert(
                    eventually(master_do(m, "PUBSUB NUMSUB lockagent:channel:lock:%s", keys[i])
                                   ->element[1]
                                   ->integer == 1));
            cr_assert_gt(unlocked(keys[i], granted), number(granted, "fencing_token"));
            const struct reply *next = wire_receive(waiter, PATIENCE_MS);
            expect(next, 201, NULL);
            wire_close(waiter);
            release(second, keys[i], token(next));
        }
}

Test(unlock, a_quorum_must_answer)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    master_kill(1);
    master_kill(2);
    const struct outcome outcome = unlock("k", name_of(granted));
    expect_outcome(&outcome, 1, "1 of 3 masters answer, 2 are needed: nothing is deleted\n");
    expect_outcome(&outcome, 1, ": connect: ");
    cr_assert_eq(masters_with("lock:k"), 1);
    cr_assert_eq(master_do(0, "KEYS lockagent:unlocked:*")->elements, 0);
}

/* Takes the lock, and unlocks it while two of the three masters refuse to delete. The command says
 * that one has deleted it. */
static const struct reply *deleted_on_one_master(void)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    for (size_t m = 1; m < 3; m++)
        master_do(m, "ACL SETUSER lockagent -del");
    const struct outcome outcome = unlock("k", name_of(granted));
    expect_outcome(&outcome, 1, "NOT unlocked: 1 of 3 masters have deleted it, 2 are needed");
    return granted;
}

/* Half of it is done, and the command says so. */
Test(unlock, a_refusal_in_the_second_pass_is_told)
{
    const struct reply *granted = deleted_on_one_master();
    cr_assert_eq(masters_with("lock:k"), 2);
    for (size_t m = 1; m < 3; m++)
        master_do(m, "ACL SETUSER lockagent +del");
    cr_assert_gt(unlocked("k", granted), number(granted, "fencing_token"));
    cr_assert_eq(masters_with("lock:k"), 0);
}

Test(unlock, an_agent_that_is_dead_need_not_answer)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    agent_kill(first);
    const int64_t raised = unlocked("k", granted);
    const struct reply *next = acquire_free(second, "k", "ttl=3s");
    cr_assert_gt(number(next, "fencing_token"), raised);
}

/* A master that has deleted the hold in an earlier run counts in the next one. */
Test(unlock, r25_a_quorum_may_delete_it_in_several_runs)
{
    const struct reply *granted = deleted_on_one_master();
    master_do(1, "ACL SETUSER lockagent +del");
    cr_assert_gt(unlocked("k", granted), number(granted, "fencing_token"));
    cr_assert_eq(masters_with("lock:k"), 1);
}

/* An acquire of the hold may still be in flight to a master that does not have its key. */
Test(unlock, r25_a_master_without_the_key_does_not_count)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    for (size_t m = 1; m < 3; m++)
        master_do(m, "DEL lock:k");
    const struct outcome outcome = unlock("k", name_of(granted));
    expect_outcome(&outcome, 1, "NOT unlocked: 1 of 3 masters have deleted it, 2 are needed");
    expect_outcome(&outcome, 1, ": does not have the hold, and will not repair it\n");
}

/* No renewal that ran before lets the validity last longer. */
Test(unlock, r25_the_tombstone_stays_as_long_as_the_hold_may_be_valid)
{
    enum { MAX_TTL_MS = 60000, LONG_MS = 300000, PASSED_MS_MAX = 20000 };
    static const char *const keys[] = {"usual", "long"};
    begin(NULL, NULL);
    for (size_t i = 0; i < 2; i++) {
        const struct reply *granted = acquire_free(first, keys[i], "ttl=30s");
        expect(granted, 201, NULL);
        for (size_t m = 0; m < 3 && i == 1; m++)
            master_do(m, "PEXPIRE lock:long %d", LONG_MS);
        unlocked(keys[i], granted);
        const char *tombstone = format("lockagent:unlocked:%s:lock:%s", name_of(granted), keys[i]);
        const int64_t least_ms = (i == 0 ? MAX_TTL_MS : LONG_MS) - PASSED_MS_MAX;
        for (size_t m = 0; m < 3; m++)
            cr_assert_gt(master_pttl(m, tombstone), least_ms, "master %zu", m);
    }
}

/* A master that forgets its numbers later begins above its top (D5.3). */
Test(unlock, r12_the_top_is_above_the_number)
{
    static const char *const keys[] = {"k", "fair", "shared"};
    begin(NULL, "policies:\n  - {match: fair, order: fair}\n  - {match: shared, kind: rw}\n");
    for (size_t i = 0; i < 3; i++) {
        const struct reply *granted = acquire_free(first, keys[i], "ttl=30s");
        expect(granted, 201, NULL);
        const int64_t ahead =
            number(granted, "fencing_token") + ((int64_t)i + 1) * 3600 * INT64_C(1000000);
        for (size_t m = 0; m < 3; m++)
            master_do(m, "ZADD %s %lld n", bucket_of(keys[i]), (long long)ahead);
        const int64_t raised = unlocked(keys[i], granted);
        for (size_t m = 0; m < 3; m++) {
            const char *top = master_do(m, "HGET lockagent:marker top")->str;
            cr_assert_geq(strtoll(top, NULL, 10), raised, "%s", keys[i]);
        }
    }
}

/* ---- between the two passes ---- */

/* An operator that has looked at masters 0 and 1, and waits for master 2, which is frozen. */
struct operator
{
    pid_t pid;
    const char *out;
};

static long long evals(size_t master)
{
    static const char field[] = "cmdstat_eval:calls=";
    const char *at = strstr(master_do(master, "INFO commandstats")->str, field);
    return at == NULL ? 0 : strtoll(at + strlen(field), NULL, 10);
}

static struct operator operator_looks(const char *key, const char *name)
{
    const long long before = evals(1);
    master_freeze(2);
    const char *program = format("%s/lockagent", getenv("LOCKAGENT_BUILD"));
    struct operator operator= {.out = write_file(NULL, "")};
    operator.pid =
        spawn((const char *[]){program, "unlock", first->config, key, "--yes", name, NULL},
              NULL, operator.out, operator.out);
    cr_assert(eventually(evals(1) > before));
    return operator;
}

/* Lets it go on. Returns its outcome. */
static struct outcome operator_ends(const struct operator* operator)
{
    struct outcome outcome = {.err = ""};
    master_thaw(2);
    cr_assert(reap(operator->pid, PATIENCE_MS, &outcome.exit_status));
    outcome.out = read_whole_file(operator->out);
    return outcome;
}

Test(unlock, r25_a_number_that_was_granted_since_the_look_is_passed)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    const struct operator operator= operator_looks("k", name_of(granted));
    const int64_t larger = number(granted, "fencing_token") + 60 * INT64_C(1000000);
    for (size_t m = 0; m < 2; m++)
        master_do(m, "ZADD %s %lld n", bucket_of("k"), (long long)larger);
    const struct outcome outcome = operator_ends(&operator);
    expect_outcome(&outcome, 0, format("unlocked, number %lld: ", (long long)larger + 1));
    for (size_t m = 0; m < 3; m++)
        cr_assert_eq(master_number(m, "k"), larger + 1, "master %zu", m);
}

/* Each pass counts its masters anew. */
Test(unlock, r25_a_master_counts_once)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    for (size_t m = 1; m < 3; m++)
        master_do(m, "ACL SETUSER lockagent -del");
    const struct operator operator= operator_looks("k", name_of(granted));
    master_do(0, "ZADD %s %lld n", bucket_of("k"),
              (long long)number(granted, "fencing_token") + 60 * INT64_C(1000000));
    const struct outcome outcome = operator_ends(&operator);
    expect_outcome(&outcome, 1, "NOT unlocked: 1 of 3 masters have deleted it, 2 are needed");
}

Test(unlock, r25_a_holder_that_came_since_the_look_keeps_the_lock)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    const struct operator operator= operator_looks("k", name_of(granted));
    give_back(first, "k", token(granted));
    const struct reply *next = acquire_free(second, "k", "ttl=60s");
    expect(next, 201, NULL);
    const struct outcome outcome = operator_ends(&operator);
    expect_outcome(&outcome, 1, "NOT unlocked: ");
    expect(renew(second, "k", token(next), NULL), 200, NULL);
}

/* A hold that is renewed and adopted meanwhile is still that hold. */
Test(unlock, r25_a_hold_that_was_adopted_since_the_look_is_unlocked)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    const struct operator operator= operator_looks("k", name_of(granted));
    expect(renew(second, "k", token(granted), NULL), 200, NULL);
    const struct outcome outcome = operator_ends(&operator);
    expect_outcome(&outcome, 0, "unlocked, number ");
    expect(renew(second, "k", token(granted), NULL), 410, "lock_lost");
}

/* A master forgets the lock between the passes: it does not count, and the others are enough. */
Test(unlock, r25_a_master_that_forgot_since_the_look_does_not_count)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    const struct operator operator= operator_looks("k", name_of(granted));
    master_do(0, "FLUSHALL");
    const struct outcome outcome = operator_ends(&operator);
    expect_outcome(&outcome, 0, ": does not have the hold, and will not repair it\n");
    expect_outcome(&outcome, 0, "unlocked, number ");
    cr_assert_eq(masters_with("lock:k"), 0);
    const struct reply *next = acquire_free(second, "k", "ttl=3s");
    expect(next, 201, NULL);
    cr_assert_gt(number(next, "fencing_token"), number(granted, "fencing_token"));
}

/* A hold out of a journal: its first renewal learns of the tombstone as well. */
Test(unlock, a_restarted_agent_learns_of_it)
{
    masters_start(3, MASTERS_DURABLE);
    first = second = agent_start(
        &(struct agent_options){.extra = format("journal: {file: %s}\n", world_path("journal"))});
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=30s&renew=agent");
    expect(get(first, "/livez"), 200, NULL); /* The journal has noted the answer before. */
    agent_kill(first);
    unlocked("k", granted);
    agent_restart(first);
    cr_assert(eventually(lost(first, "unlocked") == 1));
    cr_assert_eq(masters_with("lock:k"), 0);
}

/* A semaphore has several holders, and a lock of kind rw several readers: one of them goes. */
Test(unlock, one_holder_of_several)
{
    begin(NULL, "policies:\n  - {match: slots, permits: 3}\n  - {match: shared, kind: rw}\n");
    static const char *const keys[] = {"slots", "shared"};
    for (size_t i = 0; i < 2; i++) {
        const char *parameters = i == 0 ? "ttl=30s&renew=agent" : "ttl=30s&renew=agent&mode=read";
        /* The one that goes came last: it is not the first one that a master finds. */
        const struct reply *other = acquire_free(second, keys[i], parameters),
                           *stuck = acquire_free(first, keys[i], parameters);
        expect(stuck, 201, NULL);
        expect(other, 201, NULL);
        const struct outcome seen = unlock(keys[i], NULL);
        expect_outcome(&seen, 0, name_of(stuck));
        expect_outcome(&seen, 0, name_of(other));
        expect_outcome(&seen, 0, i == 0 ? ", slot " : ", to read, ");
        cr_assert_geq(unlocked(keys[i], stuck), number(stuck, "fencing_token"));
        expect(renew(first, keys[i], token(stuck), NULL), 410, "lock_lost");
        expect(renew(second, keys[i], token(other), NULL), 200, NULL);
    }
    /* The reader that is left keeps writers off; without it a writer has a larger number. */
    expect(acquire(first, "shared", "ttl=3s"), 409, "lock_held");
}

/* Slots are drawn by chance, so all of them are taken, and unlocked one after the other. */
Test(unlock, a_hold_in_each_of_the_slots)
{
    enum { SLOTS = 3 };
    begin(NULL, "policies:\n  - {match: slots, permits: 3}\n");
    const struct reply *granted[SLOTS];
    for (size_t i = 0; i < SLOTS; i++) {
        granted[i] = acquire_free(first, "slots", "ttl=30s&renew=agent");
        expect(granted[i], 201, NULL);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        cr_assert_geq(unlocked("slots", granted[i]), number(granted[i], "fencing_token"));
        expect(renew(first, "slots", token(granted[i]), NULL), 410, "lock_lost");
        for (size_t other = i + 1; other < SLOTS; other++)
            expect(renew(first, "slots", token(granted[other]), NULL), 200, NULL);
    }
}

Test(unlock, a_master_counts_once_for_all_slots_of_another_program)
{
    begin(NULL, "policies:\n  - {match: slots, permits: 3}\n");
    for (size_t m = 0; m < 3; m++)
        for (int slot = 0; slot < 2; slot++)
            master_do(m, "RPUSH lockagent:slot:%d:lock:slots theirs", slot);
    struct outcome outcome = unlock("slots", NULL);
    expect_outcome(&outcome, 0, "held by another program on 3 masters");
}

Test(unlock, locks_of_java)
{
    begin(NULL, "policies:\n  - {match: java, format: redisson}\n");
    const struct reply *granted = acquire_free(first, "java", "ttl=30s&renew=agent");
    expect(granted, 201, NULL);
    cr_assert_gt(unlocked("java", granted), number(granted, "fencing_token"));
    cr_assert_eq(masters_with("lock:java"), 0);
    expect(renew(first, "java", token(granted), NULL), 410, "lock_lost");
    for (size_t m = 0; m < 3; m++)
        master_do(m, "HSET lock:java 8b9e:42 1");
    struct outcome outcome = unlock("java", NULL);
    expect_outcome(&outcome, 0, "held by another program on 3 masters");
    outcome = unlock("java", "0123456789ab");
    expect_outcome(&outcome, 1, "nothing is deleted");
    cr_assert_eq(masters_with("lock:java"), 3);
}

/* A master whose number is invalid has no vote on the lock, and is left alone. */
Test(unlock, r12_a_master_with_an_invalid_number_does_not_count)
{
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=60s");
    for (size_t m = 0; m < 2; m++)
        master_do(m, "ZADD %s 9000000000000000 n", bucket_of("k"));
    struct outcome outcome = unlock("k", name_of(granted));
    expect_outcome(&outcome, 1, "its number is invalid, or this machine's clock is wrong (R12)\n");
    expect_outcome(&outcome, 1, "1 of 3 masters answer, 2 are needed: nothing is deleted\n");
    cr_assert_eq(masters_with("lock:k"), 3);
    master_do(0, "DEL %s", bucket_of("k"));
    const int64_t raised = unlocked("k", granted);
    cr_assert_eq(master_number(0, "k"), raised);
    cr_assert_eq(master_number(2, "k"), raised);
    cr_assert_eq(masters_with("lock:k"), 1);
}

/* Any client may have written a value with a number that was never granted (R12). Masters that
 * stored it would not vote again. */
Test(unlock, r12_a_number_that_was_never_granted_is_not_followed)
{
    static const char *const wild[] = {"8999999999999999", "9999999999999999",
                                       "18446744073709551615", "18446744073709551616000"};
    begin(NULL, NULL);
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=3s");
    give_back(first, "k", token(granted));
    for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
        for (size_t m = 0; m < 3; m++)
            master_do(m, "SET lock:k %s PX 60000",
                      format("%.40s:01234567:%s:", token(granted), wild[i]));
        const struct outcome outcome = unlock("k", name_of(granted));
        expect_outcome(&outcome, 0, "unlocked, number ");
        cr_assert_eq(masters_with("lock:k"), 0);
        const struct reply *next = acquire_free(second, "k", "ttl=3s");
        expect(next, 201, NULL);
        cr_assert_lt(number(next, "fencing_token"), INT64_C(1000) * wall_ms() + 86400000000);
        give_back(second, "k", token(next));
    }
}

Test(unlock, a_policy_that_does_not_fence)
{
    begin(NULL, "policies:\n  - {match: '*', fencing: off}\n");
    const struct reply *granted = acquire_everywhere(first, "k", "ttl=30s");
    const struct outcome outcome = unlock("k", name_of(granted));
    expect_outcome(&outcome, 0, "unlocked, without a number: ");
    cr_assert_eq(masters_with("lock:k"), 0);
    cr_assert_eq(master_do(0, "KEYS lockagent:number:*")->elements, 0);
}

/* The key is in the group and under the prefix of its policy. Any client may have written its
 * label. */
Test(unlock, a_key_of_another_group)
{
    masters_start(2, MASTERS_DURABLE);
    const char *file =
        write_file("groups.yaml", format("redis: {groups: {main: {masters: ['%s']},\n"
                                         "                 other: {masters: ['%s']}}}\n"
                                         "policies:\n"
                                         "  - {match: 'o/*', prefix: 'other:', group: other}\n"
                                         "  - {match: '*', group: main}\n",
                                         master_url(0), master_url(1)));
    const char *name = repeat("0123456789ab", 1);
    master_do(1, "SET other:o/k %s PX 60000",
              format("%s%s:01234567:0:\x1b[31mred", name, repeat("0", 28)));
    struct outcome outcome = agent_run((const char *[]){"unlock", file, "o/k", NULL});
    expect_outcome(&outcome, 0, format("other: held by %s, label \"", name));
    cr_assert_null(strchr(outcome.out, '\x1b'));
    outcome = agent_run((const char *[]){"unlock", file, "k", NULL});
    expect_outcome(&outcome, 0, "main: no agent holds the key\n");
    outcome = agent_run((const char *[]){"unlock", file, "o/k", "--yes", name, NULL});
    expect_outcome(&outcome, 0, "other: unlocked, number ");
    cr_assert_null(master_get(1, "other:o/k"));
}

Test(unlock, wrong_usage)
{
    masters_start(1, MASTERS_DURABLE);
    const char *config = agent_config(NULL);
    const char *const wrong[][5] = {
        {"unlock"},
        {"unlock", config},
        {"unlock", config, "k", "more"},
        {"unlock", config, "k", "--yes"},
        {"unlock", config, "k", "--yes", "0123456789a"},
        {"unlock", config, "k", "--yes", "0123456789aB"},
        {"unlock", config, "/k"},
        {"unlock", config, ""},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const char *arguments[6] = {NULL};
        memcpy(arguments, wrong[i], sizeof(wrong[i]));
        const struct outcome outcome = agent_run(arguments);
        cr_assert_eq(outcome.exit_status, 2, "%zu: %d %s", i, outcome.exit_status, outcome.err);
        cr_assert_str_not_empty(outcome.err);
    }
    const char *bare = write_file(
        "bare.yaml",
        format("redis: {groups: {main: {masters: ['%s']}}}\npolicies: [{match: '*', prefix: ''}]\n",
               master_url(0)));
    const struct outcome own =
        agent_run((const char *[]){"unlock", bare, "lockagent:marker", NULL});
    expect_outcome(&own, 1, "is the agents' own");
    const struct outcome none = agent_run((const char *[]){"unlock", "/nowhere.yaml", "k", NULL});
    cr_assert_eq(none.exit_status, 1);
}
