/* Clocks that are off (D5.4): a constant offset harms no lock, so it is reported and the agent goes
 * on with that master. If most masters agree, it is this agent's clock that is off.
 * Clocks that gain on the agent's (R14). A machine that is paused together with its clocks and
 * masters that jump forward look alike to its agent, so the tests let masters jump. */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

TestSuite(clocks, .init = world_open, .fini = world_close, .timeout = 60);

enum { OFF_MS = 5000, PROBED_MS = 10000 };

static double degraded(struct agent *agent, size_t master)
{
    const char *url = master_url(master),
               *place = strstr(url, "//") ? strstr(url, "//") + 2 : strchr(url, ':') + 1;
    return metric(agent, format("lockagent_master_degraded{group=\"main\",master=\"%s\"}", place));
}

static double own_offset(struct agent *agent)
{
    return metric(agent, "lockagent_agent_clock_offset_seconds{group=\"main\"}");
}

static struct agent *strict_agent(void)
{
    return agent_start(
        &(struct agent_options){.group = "      durable: true\n      on_degraded: down\n"});
}

Test(clocks, d5_4_a_master_whose_clock_is_off_is_degraded_and_never_down)
{
    masters_start_with_clocks(3);
    struct agent *agent = strict_agent();
    for (int sign = -1; sign <= 1; sign += 2) {
        master_clock(1, sign * OFF_MS);
        cr_assert(eventually_within(PROBED_MS, degraded(agent, 1) == 1));
        cr_assert(degraded(agent, 0) == 0 && degraded(agent, 2) == 0);
        cr_assert_eq(own_offset(agent), 0);
        cr_assert_geq(agent_logged(agent, "master state changed", "clock is off"), 1u);
        cr_assert_not_null(strstr(get(agent, "/readyz")->body, "clock is off"), "%s",
                           get(agent, "/readyz")->body);
        cr_assert_not_null(strstr(get(agent, "/")->body, "clock is off"));
        cr_assert_eq(metric(agent, "lockagent_group_masters_up{group=\"main\"}"), 3);
        const struct reply *granted = acquire_free(agent, "k", "ttl=20s");
        cr_assert(eventually(masters_with("lock:k") == 3),
                  "a master was done without for its clock");
        give_back(agent, "k", token(granted));
        master_clock(1, 0);
        cr_assert(eventually_within(PROBED_MS, degraded(agent, 1) == 0));
    }
}

Test(clocks, d5_4_where_most_masters_agree_this_agent_is_off)
{
    masters_start_with_clocks(3);
    struct agent *agent = strict_agent();
    for (size_t i = 0; i < 3; i++)
        master_clock(i, OFF_MS);
    cr_assert(eventually_within(PROBED_MS, own_offset(agent) > 4));
    cr_assert(own_offset(agent) < 6);
    cr_assert(eventually_within(PROBED_MS,
                                degraded(agent, 0) + degraded(agent, 1) + degraded(agent, 2) == 0));
    cr_assert_geq(agent_logged(agent, "clock is off from most masters'", "\"group\":\"main\""), 1u);
    acquire_free(agent, "k", "ttl=20s");
    /* One that is right is then the odd one out. */
    master_clock(2, 0);
    cr_assert(eventually_within(PROBED_MS, degraded(agent, 2) == 1));
    cr_assert(own_offset(agent) > 4);
    for (size_t i = 0; i < 3; i++)
        master_clock(i, 0);
    cr_assert(eventually_within(PROBED_MS, own_offset(agent) == 0));
    cr_assert_eq(agent_logged(agent, "clock agrees with most masters' again", NULL), 1u);
}

/* ---- clocks that gain (R14) ------------------------------------------------------------------ */

enum {
    JUMP_MS = 10000,
    READ_MS = 1000,    /* each master's clock is read once in this time */
    MARGIN_MS = 4000,  /* for a busy machine; with READ_MS less than a lease of these tests */
    WATCH_BYTES = 8192 /* bytes of one stream */
};

/* The stream of a key that is watched: all that has come so far. */
struct watch {
    int wire;
    char bytes[WATCH_BYTES];
    size_t len;
};

static void receive(struct watch *watch)
{
    ssize_t got =
        read(watch->wire, watch->bytes + watch->len, sizeof(watch->bytes) - watch->len - 1);
    if (got > 0)
        watch->len += (size_t)got;
}

static bool told(struct watch *watch, const char *event)
{
    receive(watch);
    return strstr(watch->bytes, format("\"event\":\"%s\"", event)) != NULL;
}

/* The stream begins with the hold. */
static void watch_key(struct watch *watch, const struct agent *agent, const char *key)
{
    *watch =
        (struct watch){.wire = wire_request(agent, "GET", format("/locks/%s?watch", key), NULL)};
    cr_assert_neq(fcntl(watch->wire, F_SETFL, O_NONBLOCK), -1);
    cr_assert(eventually(told(watch, "held")), "%s", watch->bytes);
}

static double gains(struct agent *agent, size_t master)
{
    const char *url = master_url(master),
               *place = strstr(url, "//") ? strstr(url, "//") + 2 : strchr(url, ':') + 1;
    return metric(
        agent, format("lockagent_master_clock_gains_total{group=\"main\",master=\"%s\"}", place));
}

static double lost_by_clocks(struct agent *agent)
{
    return metric(agent, "lockagent_locks_lost_total{policy=\"*\",reason=\"clock_stopped\"}");
}

static int64_t valid_until_ms(const struct agent *agent, const char *key)
{
    return number(get(agent, format("/locks/%s", key)), "hold.valid_until_boottime_ms");
}

/* The agent learns of all these jumps after the last of them. It reads no clock while it is
 * stopped, and the readings that were in flight are answered before the first jump: a server whose
 * PING was answered twice has looked at all of its connections in between. */
static void jump(struct agent *agent, size_t first, size_t count)
{
    agent_signal(agent, SIGSTOP);
    for (size_t i = first; i < first + count; i++)
        master_do(i, "PING"), master_do(i, "PING");
    for (size_t i = first; i < first + count; i++)
        master_clock(i, JUMP_MS);
    agent_signal(agent, SIGCONT);
}

static void lost_by_a_jump(struct agent *agent, struct watch *watch)
{
    cr_assert(eventually_within(READ_MS + MARGIN_MS, told(watch, "lost")), "%s", watch->bytes);
    cr_assert_not_null(strstr(watch->bytes, "\"reason\":\"clock_stopped\""), "%s", watch->bytes);
    cr_assert_null(strstr(watch->bytes, "\"event\":\"renewed\""), "%s", watch->bytes);
    cr_assert(eventually(lost_by_clocks(agent) == 1));
}

/* D5.3, R12: masters that forgot are told a guess of the numbers. It is made by the clock that most
 * masters agree on, and this agent's is ten minutes ahead of it. */
Test(clocks, d5_3_a_guess_is_made_by_the_agreed_clock)
{
    enum { BEHIND_S = 600 };
    masters_start_with_clocks(3);
    for (size_t i = 0; i < 3; i++) {
        master_clock(i, -BEHIND_S * 1000);
        master_do(i, "FLUSHALL");
    }
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "limits: {max_ttl: 2s}\n", .not_ready = true});
    cr_assert(eventually_within(
        20000, metric(agent, "lockagent_group_masters_voting{group=\"main\"}") == 3));
    for (size_t i = 0; i < 3; i++) {
        const long long floor_s =
            strtoll(master_do(i, "HGET lockagent:marker floor")->str, NULL, 10) / 1000000;
        const long long ahead_s = floor_s - ((long long)time(NULL) - BEHIND_S);
        cr_assert(ahead_s > -60 && ahead_s < 60, "the floor is %lld s ahead", ahead_s);
    }
}

Test(clocks, r14_what_masters_that_jump_have_ended_is_lost_within_a_second)
{
    masters_start_with_clocks(3);
    struct agent *agent = agent_start(NULL), *rival = agent_start(NULL);
    const struct reply *plain = acquire_free(agent, "plain", "ttl=9s");
    struct watch watch;
    watch_key(&watch, agent, "plain");
    /* two of the masters that have the key: the third is no quorum against another holder */
    cr_assert(eventually(masters_with("lock:plain") == 3));
    jump(agent, 1, 2);
    lost_by_a_jump(agent, &watch);
    cr_assert(gains(agent, 0) == 0 && gains(agent, 1) == 1 && gains(agent, 2) == 1);
    cr_assert_eq(
        agent_logged(agent, "master's clock gained on this agent's: one of them stopped or jumped",
                     NULL),
        2u);
    cr_assert_not(held_here(agent, "plain"));
    const struct reply *late = renew(agent, "plain", token(plain), NULL);
    expect(late, 410, "lock_lost");
    cr_assert_str_eq(string(late, "reason"), "clock_stopped");
    const struct reply *next = acquire(rival, "plain", "ttl=5s");
    expect(next, 201, NULL);
    cr_assert_gt(number(next, "fencing_token"), number(plain, "fencing_token"));
}

/* All of the masters: with two, a renewal would restore the key on the one of them whose jump is
 * seen first, and be confirmed by it and by the third. */
Test(clocks, r14_no_renewal_saves_what_all_masters_have_ended)
{
    masters_start_with_clocks(3);
    struct agent *agent = agent_start(NULL);
    acquire_free(agent, "guarded", "ttl=9s&renew=agent");
    struct watch watch;
    watch_key(&watch, agent, "guarded");
    cr_assert(eventually(masters_with("lock:guarded") == 3));
    jump(agent, 0, 3);
    lost_by_a_jump(agent, &watch);
    cr_assert_not(held_here(agent, "guarded"));
}

Test(clocks, r14_a_hold_that_is_long_enough_is_shortened_and_renewed)
{
    masters_start_with_clocks(3);
    struct agent *agent = agent_start(NULL);
    acquire_free(agent, "guarded", "ttl=30s&renew=agent");
    acquire_free(agent, "plain", "ttl=30s");
    struct watch watches[2];
    watch_key(&watches[0], agent, "guarded");
    watch_key(&watches[1], agent, "plain");
    const int64_t guarded_until = valid_until_ms(agent, "guarded"),
                  plain_until = valid_until_ms(agent, "plain");
    cr_assert(eventually(masters_with("lock:guarded") == 3 && masters_with("lock:plain") == 3));
    jump(agent, 0, 3);
    /* a watchdog renews a lease of 30 s after 10 s otherwise */
    cr_assert(eventually_within(READ_MS + MARGIN_MS, told(&watches[0], "renewed")), "%s",
              watches[0].bytes);
    cr_assert_gt(valid_until_ms(agent, "guarded"), guarded_until);
    const int64_t most_gained_ms = JUMP_MS + MARGIN_MS; /* two round trips of readings */
    cr_assert(eventually(valid_until_ms(agent, "plain") <= plain_until - JUMP_MS));
    cr_assert_geq(valid_until_ms(agent, "plain"), plain_until - most_gained_ms);
    cr_assert_not(told(&watches[0], "lost") || told(&watches[1], "lost"));
    /* The masters keep the key for as long as the agent says. */
    for (size_t i = 0; i < 3; i++) {
        cr_assert_geq(boottime_ms() + master_pttl(i, "lock:plain"), plain_until - JUMP_MS);
        cr_assert_geq(boottime_ms() + master_pttl(i, "lock:guarded"),
                      valid_until_ms(agent, "guarded"));
    }
    cr_assert(gains(agent, 0) == 1 && gains(agent, 1) == 1 && gains(agent, 2) == 1);
    cr_assert_eq(lost_by_clocks(agent), 0);
}

Test(clocks, r14_one_master_that_jumps_costs_nothing_where_all_have_the_hold)
{
    masters_start_with_clocks(3);
    struct agent *agent = agent_start(NULL), *rival = agent_start(NULL);
    acquire_free(agent, "guarded", "ttl=8s&renew=agent");
    acquire_free(agent, "plain", "ttl=9s");
    struct watch watches[2];
    watch_key(&watches[0], agent, "guarded");
    watch_key(&watches[1], agent, "plain");
    const int64_t plain_until = valid_until_ms(agent, "plain");
    cr_assert(eventually(masters_with("lock:guarded") == 3 && masters_with("lock:plain") == 3));
    jump(agent, 1, 1);
    cr_assert(eventually_within(READ_MS + MARGIN_MS, gains(agent, 1) == 1));
    cr_assert_eq(valid_until_ms(agent, "plain"), plain_until);
    expect_lock_held(rival, "plain", "ttl=1s");
    expect_lock_held(rival, "guarded", "ttl=1s");
    cr_assert_eq(masters_with("lock:plain"), 2u);
    cr_assert(eventually(masters_with("lock:guarded") == 3), "it is repaired");
    cr_assert(held_here(agent, "guarded"));
    cr_assert_not(told(&watches[0], "lost"), "%s", watches[0].bytes);
    cr_assert(eventually(told(&watches[1], "lost")));
    cr_assert_not_null(strstr(watches[1].bytes, "\"reason\":\"expired\""), "%s", watches[1].bytes);
    cr_assert(gains(agent, 0) == 0 && gains(agent, 2) == 0);
    cr_assert_eq(lost_by_clocks(agent), 0);
}

static int64_t readings_of(size_t master)
{
    const redisReply *stats = master_do(master, "INFO commandstats");
    const char *found = strstr(stats->str, "cmdstat_time:calls=");
    return found == NULL ? 0 : atoll(found + strlen("cmdstat_time:calls="));
}

/* An agent whose kernel says that the wall clock was set as often as a byte comes to the FIFO. */
static struct agent *agent_with_a_clock_to_set(const char *fifo)
{
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    setenv("FAULT_CLOCK_SET", fifo, 1);
    setenv("LD_PRELOAD", format("%s/tests/faults/fault-clock-set.so", getenv("LOCKAGENT_BUILD")),
           1);
    /* in a build with sanitizers their library would want to be first */
    const char *given = getenv("ASAN_OPTIONS");
    setenv("ASAN_OPTIONS", format("%s:verify_asan_link_order=0", given == NULL ? "" : given), 1);
    struct agent *agent = agent_start(NULL);
    unsetenv("LD_PRELOAD");
    unsetenv("FAULT_CLOCK_SET");
    return agent;
}

Test(clocks, r14_the_kernels_word_that_the_wall_clock_was_set_has_all_clocks_read)
{
    enum { WORDS = 200 };
    static const char words[WORDS];
    masters_start(3, MASTERS_FORGETFUL);
    const char *fifo = world_path("clock-set");
    agent_with_a_clock_to_set(fifo);
    int64_t before[3];
    for (size_t i = 0; i < 3; i++)
        before[i] = readings_of(i);
    const int fd = open(fifo, O_WRONLY | O_CLOEXEC);
    cr_assert_eq(write(fd, words, WORDS), WORDS);
    close(fd);
    /* far more than once a second */
    for (size_t i = 0; i < 3; i++)
        cr_assert(eventually(readings_of(i) >= before[i] + WORDS), "master %zu: %lld readings", i,
                  (long long)(readings_of(i) - before[i]));
}
