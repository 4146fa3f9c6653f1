/* An agent that keeps a journal is killed and started again, as a container is, and keeps its
 * holds. */
#include "harness.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(journal, .init = world_open, .fini = world_close, .timeout = 60);

static const char *journal_path(void)
{
    return world_path("holds");
}

/* On how many masters the key is locked with this token. */
static size_t held_by(const char *key, const char *token)
{
    size_t count = 0;
    for (size_t i = 0; i < master_count(); i++) {
        const char *value = master_get(i, format("lock:%s", key));
        count += value != NULL && strncmp(value, token, 40) == 0;
    }
    return count;
}

/* Starts an agent with a journal and a policy of this kind. */
static struct agent *keeper_of(const char *kind)
{
    return agent_start(&(struct agent_options){
        .extra =
            format("journal: {file: %s}\npolicies: [{match: 'k', %s}]\n", journal_path(), kind)});
}

static struct agent *keeper(void)
{
    return agent_start(
        &(struct agent_options){.extra = format("journal: {file: %s}\n", journal_path())});
}

/* That an answer was written is noted a moment after it was: another answer comes later. */
static void kill_after_answers(struct agent *agent)
{
    expect(get(agent, "/livez"), 200, NULL);
    agent_kill(agent);
}

static void kill_and_restart(struct agent *agent, int64_t away_ms)
{
    kill_after_answers(agent);
    sleep_ms(away_ms);
    agent_restart(agent);
}

/* It renews a lock that no other process would: far beyond the validity that the caller was told
 * of. */
Test(journal, a_killed_agent_goes_on_renewing)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    const struct reply *granted = acquire_free(agent, "k", "ttl=6s&renew=agent&label=me");
    kill_and_restart(agent, 200);
    cr_assert(held_here(agent, "k"), "the hold is not known any more");
    cr_assert_eq(metric(agent, "lockagent_journal_holds_total{outcome=\"resumed\"}"), 1);
    cr_assert_eq(agent_logged(agent, "lock resumed", "\"key\":\"k\""), 1u);
    cr_assert_eq(agent_logged(agent, NULL, token(granted)), 0u, "a token was logged");
    cr_assert_geq(agent_logged(agent, "renewal failed", "\"level\":\"info\""), 1u,
                  "no master is reached yet");
    sleep_ms(7000);
    cr_assert_geq(held_by("k", token(granted)), 3u);
    cr_assert(held_here(agent, "k"));
    const struct reply *renewed = renew(agent, "k", token(granted), NULL);
    expect(renewed, 200, NULL);
    cr_assert_eq(number(renewed, "fencing_token"), number(granted, "fencing_token"));
    cr_assert_null(member(renewed, "continuous"), "%s", renewed->body);
    cr_assert_eq(number(renewed, "max_hold_ms"), number(granted, "max_hold_ms"));
    expect_lock_held(agent, "k", NULL);
    give_back(agent, "k", token(granted));
    cr_assert(eventually(masters_with("lock:k") == 0));
}

/* A lease that its caller renews is known again and ends when it said it would; DELETE needs no
 * adoption. */
Test(journal, a_plain_lease_is_known_again)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    const struct reply *first = acquire_free(agent, "first", "ttl=20s"),
                       *second = acquire_free(agent, "second", "ttl=6s");
    kill_and_restart(agent, 0);
    cr_assert(held_here(agent, "first") && held_here(agent, "second"));
    give_back(agent, "first", token(first));
    cr_assert(eventually(!held_here(agent, "second")));
    sleep_ms(5); /* less than a millisecond of validity is shown as none */
    expect(renew(agent, "second", token(second), NULL), 410, "lock_lost");
    cr_assert(eventually(masters_with("lock:first") + masters_with("lock:second") == 0));
}

/* D3: the end of the agent is the end of its callers' connections, so no caller is left to renew
 * for. The validity that they were told holds. */
Test(journal, a_bound_lock_is_not_renewed_any_more)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    const int caller =
        wire_request(agent, "POST", "/locks/k?ttl=6s&bind=connection&wait=10s", NULL);
    cr_assert(eventually(held_here(agent, "k")));
    kill_and_restart(agent, 0);
    wire_close(caller);
    cr_assert(held_here(agent, "k"), "its validity has not ended");
    acquire_free(agent, "k", "ttl=10s");
}

/* R11: neither the count nor the owner is forgotten. */
Test(journal, a_reentrant_lock_is_counted_on)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){
        .extra = format("journal: {file: %s}\npolicies: [{match: 'r/*', reentrant: true}]\n",
                        journal_path()),
        .node_timeout = "2s"});
    const struct reply *held = acquire(agent, "r/k", "ttl=30s&owner=0123456789abcdef-mine");
    expect(acquire(agent, "r/k", "ttl=30s&owner=0123456789abcdef-mine"), 200, NULL);
    kill_and_restart(agent, 0);
    cr_assert_eq(number(get(agent, "/locks/r/k"), "hold.count"), 2);
    expect(release(agent, "r/k", token(held)), 204, NULL);
    expect(acquire(agent, "r/k", "ttl=30s"), 409, "lock_held");
    expect(acquire(agent, "r/k", "ttl=30s&owner=0123456789abcdef-mine"), 200, NULL);
    cr_assert_eq(agent_logged(agent, NULL, "-mine"), 0u);
}

/* Holds that ended while no agent ran are released: R15 aside, their keys are not waited for. */
Test(journal, what_has_ended_is_released)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    const struct reply *held = acquire(agent, "k", "ttl=2s&renew=agent");
    expect(held, 201, NULL);
    kill_after_answers(agent);
    /* The keys get a longer life, so that the test shows which agent deletes them. */
    for (size_t i = 0; i < 5; i++)
        master_do(i, "PEXPIRE lock:k 600000");
    sleep_ms(2200);
    agent_restart(agent);
    cr_assert_not(held_here(agent, "k"));
    cr_assert_eq(metric(agent, "lockagent_journal_holds_total{outcome=\"ended\"}"), 1);
}

/* D3.5: "had the lock and lost it". Another agent has the hold on, so a second one would be one too
 * many for one request. */
Test(journal, a_request_whose_hold_has_ended_gets_no_second_slot)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = keeper_of("permits: 3, ttl: 2s"),
                 *other = agent_start(&(struct agent_options){
                     .extra = "policies: [{match: 'k', permits: 3, ttl: 2s}]\n"});
    const struct call post = {.method = "POST",
                              .path = "/locks/k?renew=agent",
                              .headers = {"Idempotency-Key: 0123456789abcdef"}};
    const struct reply *held = http(agent, &post);
    expect(held, 201, NULL);
    expect(renew(other, "k", token(held), "ttl=30s"), 200, NULL);
    kill_and_restart(agent, 2200);
    expect(http(agent, &post), 410, "lock_lost");
    cr_assert_eq(number(get(other, "/locks/k"), "taken"), 1);
    give_back(other, "k", token(held));
}

/* R7: a key that was taken away meanwhile is not created again. */
Test(journal, r7_the_first_renewal_creates_no_key)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    acquire_free(agent, "k", "ttl=6s&renew=agent");
    cr_assert(eventually(masters_with("lock:k") == 5));
    kill_after_answers(agent);
    for (size_t i = 0; i < 5; i++)
        master_do(i, "DEL lock:k");
    agent_restart(agent);
    cr_assert(eventually(agent_logged(agent, "lock lost", "\"key\":\"k\"") == 1));
    cr_assert_eq(masters_with("lock:k"), 0u);
    expect(acquire(agent, "k", "wait=10s&ttl=10s"), 201, NULL);
}

/* R7: a minority that lost it is repaired, but only after a quorum has confirmed it. */
Test(journal, r7_a_minority_is_repaired_later)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    const struct reply *held = acquire_free(agent, "k", "ttl=6s&renew=agent");
    cr_assert(eventually(masters_with("lock:k") == 5));
    kill_after_answers(agent);
    master_do(0, "DEL lock:k"), master_do(1, "DEL lock:k");
    agent_restart(agent);
    cr_assert(eventually(masters_with("lock:k") == 5));
    cr_assert(held_here(agent, "k"));
    give_back(agent, "k", token(held));
}

Test(journal, what_was_released_or_lost_is_not_found)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    const struct reply *freed = acquire_free(agent, "freed", "ttl=20s");
    acquire_free(agent, "expired", "ttl=1s");
    give_back(agent, "freed", token(freed));
    cr_assert(eventually(!held_here(agent, "expired")));
    cr_assert(eventually(masters_with("lock:freed") + masters_with("lock:expired") == 0));
    kill_and_restart(agent, 0);
    cr_assert_not(held_here(agent, "freed"));
    cr_assert_not(held_here(agent, "expired"));
    cr_assert_eq(metric(agent, "lockagent_journal_holds_total{outcome=\"resumed\"}"), 0);
    expect(renew(agent, "freed", token(freed), NULL), 404, "not_held");
}

Test(journal, many_holds_and_many_restarts)
{
    enum { HOLDS = 40, RESTARTS = 4 };
    const char *tokens[HOLDS];
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    for (int i = 0; i < HOLDS; i++) {
        tokens[i] = token(acquire_free(agent, format("k%d", i), "ttl=30s&renew=agent"));
    }
    for (int restart = 1; restart <= RESTARTS; restart++) {
        for (int i = 0; i < 5; i++) /* some go, so that the others move */
            give_back(agent, format("k%d", restart * 7 - i), tokens[restart * 7 - i]);
        kill_and_restart(agent, 0);
        cr_assert_eq(metric(agent, "lockagent_journal_holds_total{outcome=\"resumed\"}"),
                     HOLDS - 5 * restart);
        cr_assert_eq(metric(agent, "lockagent_journal_holds_total{outcome=\"refused\"}"), 0);
    }
    cr_assert(held_here(agent, "k39"));
    give_back(agent, "k39", tokens[39]);
}

/* D8.3: its keys have another type or name now, so nothing that is done with it would find them. */
Test(journal, a_hold_of_another_kind_is_refused)
{
    static const char *const kinds[] = {"kind: mutex", "kind: rw", "permits: 3",
                                        "prefix: 'lock:jobs:'"};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    masters_start(3, MASTERS_FORGETFUL);
    for (size_t i = 0; i < KINDS; i++) {
        struct agent *agent = keeper_of(kinds[i]);
        const struct reply *granted = acquire(agent, "k", "ttl=1s&renew=agent&wait=10s");
        expect(granted, 201, NULL);
        kill_after_answers(agent);
        masters_forget_layouts();
        agent = keeper_of(kinds[(i + 1) % KINDS]);
        cr_assert_not(held_here(agent, "k"), "%s, then %s", kinds[i], kinds[(i + 1) % KINDS]);
        cr_assert_eq(metric(agent, "lockagent_journal_holds_total{outcome=\"resumed\"}"), 0);
        expect(acquire(agent, "k", "wait=10s&ttl=1s"), 201, NULL);
        cr_assert_eq(agent_stop(agent), 0);
        masters_forget_layouts();
    }
}

/* A reload may switch fencing, and the holds that were granted before go on. */
Test(journal, a_reload_of_fencing_keeps_the_holds)
{
    masters_start(3, MASTERS_FORGETFUL);
    static const char *const before[] = {"on", "off"}, *const after[] = {"off", "on"};
    for (size_t i = 0; i < 2; i++) {
        struct agent *agent = keeper_of(format("fencing: %s", before[i]));
        const struct reply *granted = acquire(agent, "k", "ttl=6s&renew=agent&wait=10s");
        expect(granted, 201, NULL);
        char *changed = format("%s", read_whole_file(agent->config));
        char *at = strstr(changed, "fencing: ");
        write_file(strrchr(agent->config, '/') + 1, format("%.*sfencing: %s%s", (int)(at - changed),
                                                           changed, after[i], strchr(at, '}')));
        agent_signal(agent, SIGHUP);
        cr_assert(eventually(agent_logged(agent, "configuration reloaded", NULL) == 1));
        kill_and_restart(agent, 0);
        cr_assert(held_here(agent, "k"), "%s, then %s", before[i], after[i]);
        cr_assert_eq(metric(agent, "lockagent_journal_holds_total{outcome=\"resumed\"}"), 1);
        for (unsigned renewals = 0; renewals < 2; renewals++)
            await_renewal(agent, "k");
        cr_assert(eventually(held_by("k", token(granted)) == 3));
        give_back(agent, "k", token(granted));
        cr_assert_eq(agent_stop(agent), 0);
        masters_forget_layouts();
    }
}

/* One agent at a time, readable for its owner alone, and no other program's file. */
Test(journal, a_file_that_can_not_be_had_ends_the_start)
{
    struct stat status;
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    cr_assert_eq(stat(journal_path(), &status), 0);
    cr_assert_eq(status.st_mode & 07777, 0600);
    const char *config = agent_config(
        &(struct agent_options){.extra = format("journal: {file: %s}\n", journal_path())});
    struct outcome second = agent_run((const char *const[]){"serve", "--config", config, NULL});
    cr_assert_neq(second.exit_status, 0);
    cr_assert_not_null(
        strstr(second.err, format("is in use by another process, %d", (int)agent->pid)), "%s",
        second.err);
    const char *foreign =
        write_file("foreign", "not a journal, but long enough to be taken for one\n");
    cr_assert_eq(chmod(foreign, 0600), 0);
    config =
        agent_config(&(struct agent_options){.extra = format("journal: {file: %s}\n", foreign)});
    second = agent_run((const char *const[]){"serve", "--config", config, NULL});
    cr_assert_neq(second.exit_status, 0);
    cr_assert_not_null(strstr(second.err, "is not a journal of lockagent"), "%s", second.err);
    cr_assert_str_eq(read_whole_file(foreign),
                     "not a journal, but long enough to be taken for one\n");
}

/* Cut short, half written, or of 200 GB of holes: an agent starts, and ends, at once. */
Test(journal, a_damaged_file_delays_no_start)
{
    static const struct {
        off_t kept, size;
        size_t torn;
    } damages[] = {{5, 5, 1}, {9, 4096, 1}, {0, (off_t)200 << 30, 1}, {1024, (off_t)200 << 30, 0}};
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
        agent_kill(agent);
        cr_assert_eq(truncate(journal_path(), damages[i].kept), 0);
        cr_assert_eq(truncate(journal_path(), damages[i].size), 0);
        agent_restart(agent);
        cr_assert_eq(agent_logged(agent, "journal was not used and was begun anew", "is torn"),
                     damages[i].torn, "damage %zu", i);
        acquire_free(agent, format("k/%zu", i), "ttl=5s");
    }
    const int64_t before = boottime_ms();
    cr_assert_eq(agent_stop(agent), 0);
    cr_assert_lt(boottime_ms() - before, 10000);
}

/* SIGTERM says `lost` to the holders: the next agent does not hold a lock that was reported
 * lost. */
Test(journal, an_orderly_end_leaves_no_holds)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    acquire_free(agent, "k", "ttl=20s&renew=agent");
    cr_assert_eq(agent_stop(agent), 0);
    agent_restart(agent);
    cr_assert_not(held_here(agent, "k"));
    cr_assert_eq(metric(agent, "lockagent_journal_holds_total{outcome=\"ended\"}"), 1);
    cr_assert_gt(masters_with("lock:k"), 0u,
                 "a key was deleted inside a validity that was reported");
}

Test(journal, without_one_there_is_no_file_and_a_put_adopts)
{
    struct stat status;
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "k", "ttl=20s&renew=agent");
    kill_and_restart(agent, 0);
    cr_assert_not(held_here(agent, "k"));
    const struct reply *adopted = renew(agent, "k", token(granted), NULL);
    expect(adopted, 200, NULL);
    cr_assert(json_is_true(member(adopted, "continuous")), "%s", adopted->body);
    cr_assert_neq(stat(journal_path(), &status), 0);
}
