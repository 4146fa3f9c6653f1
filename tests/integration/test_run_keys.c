/* `lockagent run` with several keys: taken in one order, under one deadline, all or none (D8.1). */
#include "running.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

TestSuite(run_keys, .init = running_world_open, .fini = world_close, .timeout = 60);

static const char *stored(const char *key)
{
    return format("lock:%s", key);
}

/* True if some process waits for the key. */
static bool is_awaited(const char *key)
{
    const redisReply *reply = master_do(0, "PUBSUB NUMSUB lockagent:channel:lock:%s", key);
    return reply->element[1]->integer > 0;
}

static struct running hold(const char *key)
{
    const struct running running = start(key, "--", "sh", "-c", "echo held; sleep 60");
    cr_assert(eventually(has_said(&running, "held")), "%s", read_whole_file(running.err));
    return running;
}

static void let_go(const struct running *running)
{
    kill(running->pid, SIGTERM);
    expect_code(end(running), 143, "");
}

static void expect_free(const char *key)
{
    cr_assert_eq(masters_with(stored(key)), 0u, "%s is left", key);
}

Test(run_keys, wrong_usage)
{
    expect_code(run("a", "b"), 125, "-- COMMAND");
    expect_code(run("a", "b", "--"), 125, "command");
    expect_code(run("a", "b//c", "--", "true"), 125, "\"b//c\" has a leading");
    expect_code(run("a", "", "--", "true"), 125, "\"\" is empty");
    expect_code(run("01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13",
                    "14", "15", "16", "17", "--", "true"),
                125, "17 different keys; allowed: 1 to 16");
    expect_code(run("-r", "rw/a", "b", "rw/c", "--", "true"), 125, "b: --read");
    expect_code(run("-t", "5m", "a", "b", "--", "true"), 125, "a: the ttl");
    expect_free("a");
}

Test(run_keys, sixteen_are_held_at_once)
{
    const struct running running =
        start("16", "15", "14", "13", "12", "11", "10", "09", "08", "07", "06", "05", "04", "03",
              "02", "01", "01", "--", "sh", "-c", "echo on; sleep 60");
    cr_assert(eventually(has_said(&running, "on")), "%s", read_whole_file(running.err));
    for (int i = 1; i <= 16; i++)
        cr_assert(eventually(masters_with(format("lock:%02d", i)) == 3), "%02d", i);
    let_go(&running);
    for (int i = 1; i <= 16; i++)
        expect_free(format("%02d", i));
}

static const char *number_of(const char *key)
{
    return format("%lld", (long long)master_number(0, key));
}

/* The numbers of all keys, in their order, each once. */
Test(run_keys, environment)
{
    static const char *const keys[] = {"a", "a b", "plain/k", "x=y%"};
    const struct running running = start("x=y%", "plain/k", "a b", "a", "x=y%", "--", "sh", "-c",
                                         "env | grep ^LOCKAGENT_; echo on; sleep 60");
    cr_assert(eventually(has_said(&running, "on")), "%s", read_whole_file(running.err));
    for (size_t i = 0; i < 4; i++)
        cr_assert(
            eventually(master_do(0, "EXISTS lock:%b", keys[i], strlen(keys[i]))->integer == 1),
            "%s", keys[i]);
    cr_assert_str_eq(read_whole_file(running.out),
                     format("LOCKAGENT_FENCING_TOKENS=a=%s a%%20b=%s x%%3Dy%%25=%s\non\n",
                            number_of("a"), number_of("a b"), number_of("x=y%")));
    let_go(&running);
}

/* A key that is named twice is one key. */
Test(run_keys, doubles_of_one)
{
    const struct outcome outcome =
        run("a", "a", "--", "sh", "-c", "echo $LOCKAGENT_KEY; env | grep -c ^LOCKAGENT_");
    expect_code(outcome, 0, "");
    cr_assert_str_eq(outcome.out, "a\n3\n");
}

/* The environment of a command does not keep it from running another one, nor from checking. */
Test(run_keys, nested)
{
    const char *script = format("'%s' check '%s' && '%s' run -c '%s' c d -- "
                                "sh -c 'echo $LOCKAGENT_FENCING_TOKENS'",
                                program(), config, program(), config);
    const struct outcome outcome = run("a", "b", "--", "sh", "-c", script);
    expect_code(outcome, 0, "");
    cr_assert_not_null(strstr(outcome.out, "\nc="), "%s", outcome.out);
}

/* While a key is awaited, those before it are held, and none behind it. */
Test(run_keys, order)
{
    const struct running holder = hold("b");
    const struct running running = start("c", "b", "a", "B", "--", "echo", "on");
    cr_assert(eventually(is_awaited("b")));
    cr_assert(eventually(masters_with("lock:B") == 3), "bytewise: capitals come first");
    cr_assert(eventually(masters_with("lock:a") == 3));
    cr_assert_eq(masters_with("lock:c"), 0u);
    let_go(&holder);
    expect_code(end(&running), 0, "");
    cr_assert(has_said(&running, "on"));
}

/* Named in opposite orders they wait for each other in turn, and not in a circle. */
Test(run_keys, opposite_orders)
{
    enum { RUNS = 8 };
    struct running runs[RUNS];
    const char *counter = write_file("counter", "0\n");
    const char *script = format("n=$(cat %s); sleep 0.05; echo $((n + 1)) >%s", counter, counter);
    for (size_t i = 0; i < RUNS; i++)
        runs[i] = i % 2 == 0 ? start("a", "b", "--", "sh", "-c", script)
                             : start("b", "a", "--", "sh", "-c", script);
    for (size_t i = 0; i < RUNS; i++)
        expect_code(end(&runs[i]), 0, "");
    cr_assert_str_eq(read_whole_file(counter), format("%d\n", RUNS));
}

/* The keys have one deadline. If each had its own, the second one's would begin with the grant of
 * the first, and end behind that of a later caller. */
Test(run_keys, one_deadline)
{
    const struct running first = hold("a"), second = hold("b");
    const struct running both = start("-w", "6s", "a", "b", "--", "echo", "never");
    cr_assert(eventually(is_awaited("a")));
    sleep_ms(2500);
    const struct running later = start("-w", "6s", "b", "--", "echo", "never");
    cr_assert(eventually(is_awaited("b")));
    let_go(&first);
    expect_code(end(&both), 1, "b: not acquired: the lock is held by another holder");
    cr_assert(is_alive(later.pid), "the later one still waits");
    expect_free("a");
    expect_code(end(&later), 1, "");
    let_go(&second);
}

/* The keys that a master deleted since the log was reset, in the order in which it did. */
static const char *deleted(size_t master)
{
    const redisReply *log = master_do(master, "SLOWLOG GET 1000");
    const char *keys = "";
    for (size_t entry = log->elements; entry-- > 0;) { /* The last one is the first. */
        const redisReply *words = log->element[entry]->element[3];
        if (strcasecmp(words->element[0]->str, "DEL") == 0)
            for (size_t i = 1; i < words->elements; i++)
                keys = format("%s %s", keys, words->element[i]->str);
        else if (strcasecmp(words->element[0]->str, "DELIFEQ") == 0 || /* R24 */
                 strcasecmp(words->element[0]->str, "DELEX") == 0)
            keys = format("%s %s", keys, words->element[1]->str);
    }
    return keys;
}

Test(run_keys, a_failure_releases_in_reverse_order)
{
    const struct running holder = hold("c");
    const char *kept; /* This master may get the key later. */
    cr_assert(eventually((kept = master_get(0, "lock:c")) != NULL));
    master_do(0, "CONFIG SET slowlog-log-slower-than 0");
    master_do(0, "SLOWLOG RESET");
    expect_code(run("-n", "a", "b", "c", "d", "--", "echo", "never"), 1,
                "c: not acquired: the lock is held by another holder");
    expect_free("a");
    expect_free("b");
    expect_free("d");
    cr_assert_str_eq(deleted(0), " lock:b lock:a");
    cr_assert_str_eq(master_get(0, "lock:c"), kept);
    struct outcome quiet; /* On a busy machine it may say that it was late. */
    cr_assert(eventually(
        *(quiet = run("-q", "-E", "9", "-n", "c", "a", "--", "echo", "never")).err == '\0'));
    expect_code(quiet, 9, "");
    cr_assert_str_empty(quiet.out);
    let_go(&holder);
}

/* A signal ends the wait. The keys that were taken before are released. */
Test(run_keys, signals_end_the_wait)
{
    const struct running holder = hold("b");
    const struct running waiter = start("a", "b", "--", "echo", "never");
    cr_assert(eventually(is_awaited("b")));
    cr_assert(eventually(masters_with("lock:a") == 3));
    kill(waiter.pid, SIGTERM);
    const struct outcome outcome = end(&waiter);
    expect_code(outcome, 143, "");
    cr_assert_str_empty(outcome.out);
    expect_free("a");
    let_go(&holder);
}

/* A process that is killed while it waits holds its keys no longer than their lease. */
Test(run_keys, killed_while_it_waits)
{
    const struct running holder = hold("b");
    const struct running waiter = start("-t", "2s", "a", "b", "--", "echo", "never");
    cr_assert(eventually(is_awaited("b")));
    end_process(waiter.pid);
    expect_code(run("-w", "10s", "a", "--", "true"), 0, "");
    let_go(&holder);
}

static void take_away(const char *key)
{
    for (size_t i = 0; i < 2; i++)
        master_do(i, "SET lock:%s stranger", key);
}

Test(run_keys, the_loss_of_one_ends_the_command)
{
    const struct running running =
        start("-t", "6s", "c", "a", "b", "--", "sh", "-c",
              "trap 'echo told' TERM; echo on; while :; do sleep 0.05; done");
    cr_assert(eventually(has_said(&running, "on")), "%s", read_whole_file(running.err));
    take_away("b");
    const struct outcome outcome = end(&running);
    expect_code(outcome, 75, "b: the lock was lost (");
    cr_assert_null(strstr(outcome.out, "told\ntold"), "it is told once: %s", outcome.out);
    cr_assert_null(strstr(outcome.err, "a: "), "%s", outcome.err);
    cr_assert_str_eq(master_get(0, "lock:b"), "stranger");
    expect_free("a");
    expect_free("c");
}

/* The loss of all keys tells it no more than once. */
Test(run_keys, the_loss_of_all)
{
    const struct running running =
        start("-t", "6s", "a", "b", "--", "sh", "-c",
              "trap 'echo told' TERM; echo on; while :; do sleep 0.05; done");
    cr_assert(eventually(has_said(&running, "on")), "%s", read_whole_file(running.err));
    master_freeze(1);
    master_freeze(2);
    const struct outcome outcome = end(&running);
    expect_code(outcome, 75, "a: the lock was lost (");
    cr_assert_null(strstr(outcome.out, "told\ntold"), "%s", outcome.out);
}

/* The others are kept and renewed. */
Test(run_keys, a_loss_that_is_ignored)
{
    const char *flag = world_path("flag");
    const char *script = format("echo on; until test -e %s; do sleep 0.05; done; exit 5", flag);
    const struct running running =
        start("--on-lost", "ignore", "-t", "4s", "a", "b", "--", "sh", "-c", script);
    cr_assert(eventually(has_said(&running, "on")), "%s", read_whole_file(running.err));
    take_away("a");
    cr_assert(eventually(strstr(read_whole_file(running.err), "goes on without it") != NULL));
    sleep_ms(4500); /* beyond the validity of all */
    cr_assert(eventually(masters_with("lock:b") == 3));
    write_file("flag", "");
    const struct outcome outcome = end(&running);
    expect_code(outcome, 5, "a: the lock was lost (");
    cr_assert_null(strstr(outcome.err, "b: "), "%s", outcome.err);
    expect_free("b");
}

/* A key that is lost while another one is awaited: the command never begins. */
Test(run_keys, a_loss_before_the_command)
{
    const struct running holder = hold("b");
    const struct running waiter = start("-t", "3s", "a", "b", "--", "echo", "never");
    cr_assert(eventually(is_awaited("b")));
    take_away("a");
    const struct outcome outcome = end(&waiter);
    expect_code(outcome, 1, "a: not acquired: the lock was lost (");
    cr_assert_str_empty(outcome.out);
    let_go(&holder);
}

/* All leases are renewed, those too that wait for the last key. */
Test(run_keys, held_to_the_end)
{
    const struct running holder = hold("b");
    const struct running running =
        start("-t", "4s", "a", "b", "short/1", "--", "sh", "-c", "echo on; sleep 60");
    cr_assert(eventually(is_awaited("b")));
    sleep_ms(4500); /* beyond all leases that were granted */
    expect_code(run("-n", "a", "--", "true"), 1, "");
    let_go(&holder);
    cr_assert(eventually(has_said(&running, "on")), "%s", read_whole_file(running.err));
    sleep_ms(4500); /* beyond all leases that were granted */
    expect_code(run("-n", "a", "--", "true"), 1, "");
    expect_code(run("-n", "b", "--", "true"), 1, "");
    expect_code(run("-n", "short/1", "--", "true"), 1, "");
    let_go(&running);
    expect_code(run("-t", "5s", "--max-hold", "2500ms", "a", "b", "--", "sleep", "60"), 75,
                "a: the lock was lost (max_hold)");
}

/* R14: a `run` that is stopped renews none of its keys. Its command ends before the first validity
 * does, although the other key is valid for half a minute. */
Test(run_keys, stopped)
{
    const struct running running =
        start("k", "brief/k", "--", "sh", "-c", "echo $$; exec sleep 300");
    cr_assert(eventually(has_said(&running, "\n")), "%s", read_whole_file(running.err));
    const pid_t command = atoi(read_whole_file(running.out));
    kill(running.pid, SIGSTOP);
    cr_assert(eventually(!is_alive(command)), "it is killed while `run` is stopped");
    kill(running.pid, SIGCONT);
    const struct outcome outcome = end(&running);
    expect_code(outcome, 75, "brief/k: the lock was lost (stalled)");
    cr_assert_null(strstr(outcome.err, ": k: "), "%s", outcome.err);
}
