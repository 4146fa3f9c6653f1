/* The Redis room around the guard of a master (D5.3), and around commands that an old connection
 * left behind (R5). */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "agent/redis/internal.h"
#include "redis_rig.h"

static struct server one;

static void begin_guarded(bool durable, bool started)
{
    if (!started)
        server_start(&one, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig.config->groups[0].guard = true;
    rig.config->groups[0].durable = durable;
    rig.config->max_ttl_ms = 1000;
    rig_start();
    RUN_UNTIL(is_up(0), 3000);
}

static struct redis_master_view view(void)
{
    return redis_master(rig.redis, 0, 0);
}

/* A master that refuses its marker may have restarted since: it is unknown whether it forgot. It
 * serves holders all the same. */
Test(redis_guard, an_unsure_master_is_not_asked_for_new_locks)
{
    server_start(&one, NULL);
    ask(&one, "REPLICAOF 127.0.0.1 1"); /* READONLY */
    begin_guarded(/* durable= */ false, /* started= */ true);
    cr_assert_eq(view().state, REDIS_GUARDED);
    cr_assert(strstr(view().reason, "its marker cannot be written"), "%s", view().reason);
    cr_assert_eq(view().guarded_ms, -1);
    cr_assert_eq(redis_group(rig.redis, 0).voting, 0u, "nobody knows when it votes");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_NOT_SENT);
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_NOT_SENT], 1u);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_ABSENT);
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_NOT_SENT], 1u, "a renewal is asked for");
    ask(&one, "REPLICAOF NO ONE");
    RUN_UNTIL(view().guarded_ms > 0, 3000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_GUARDED);
    RUN_UNTIL(view().votes, 4000);
    cr_assert_eq(redis_group(rig.redis, 0).voting, 1u);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    end(&one);
}

/* D5.5: a master without memory for its marker serves holders too. */
Test(redis_guard, d5_5_a_master_without_memory_serves_holders)
{
    server_start(&one, NULL);
    ask(&one, "CONFIG SET maxmemory 1");
    begin_guarded(/* durable= */ false, /* started= */ true);
    cr_assert(strstr(view().reason, "its marker cannot be written"), "%s", view().reason);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_NOT_SENT);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_ABSENT);
    ask(&one, "CONFIG SET maxmemory 0");
    RUN_UNTIL(view().votes, 5000);
    end(&one);
}

/* D5.3: a guard that seems to have begun in the future began before a clock was set right. It lasts
 * no longer for that. */
Test(redis_guard, d5_3_a_guard_from_the_future_ends_in_time)
{
    begin_guarded(/* durable= */ false, /* started= */ false);
    RUN_UNTIL(view().guarded_ms > 0, 3000);
    ask(&one, "HSET lockagent:marker since %lld", ((long long)time(NULL) + 3600) * 1000);
    RUN_UNTIL(view().votes, 8000);
    end(&one);
}

static int64_t wall_ahead_s; /* lead of the faked wall clock over the real one */

/* Replaces the C library's function. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME)
        now->tv_sec += wall_ahead_s;
    return failed;
}

/* R12: an agent guesses the agreed time, even if its own clock is wrong. */
Test(redis_guard, r12_a_guess_is_the_agreed_time)
{
    long long from_s = (long long)time(NULL);
    wall_ahead_s = -3600;
    begin_guarded(/* durable= */ false, /* started= */ false);
    RUN_UNTIL(view().votes, 5000);
    long long floor_s = strtoll(ask(&one, "HGET lockagent:marker floor"), NULL, 10) / 1000000;
    cr_assert(floor_s >= from_s && floor_s <= (long long)time(NULL) + 1, "%lld s from %lld",
              floor_s - from_s, from_s);
    end(&one);
}

static char trust_said[200];

static void keep_words(const char *group, const char *master, const char *words)
{
    (void)group, (void)master;
    snprintf(trust_said, sizeof(trust_said), "%s", words);
}

/* D5.3: a master that was told remembers. `lockagent trust` ends its guard, and makes no guess of
 * it (A6), however few others there are. */
Test(redis_guard, d5_3_trust_makes_no_guess_of_what_was_told)
{
    begin_guarded(/* durable= */ false, /* started= */ false);
    RUN_UNTIL(view().votes, 5000);
    long long now_ms = (long long)time(NULL) * 1000;
    ask(&one, "HSET lockagent:marker told 1 since %lld longer_since %lld max_ttl 60000", now_ms,
        now_ms);
    RUN_UNTIL(view().guarded_ms > 50000, 7000); /* The group is idle (D5.3). */
    cr_assert_eq(redis_trust(rig.config, keep_words), 0, "%s", trust_said);
    cr_assert_str_eq(ask(&one, "HGET lockagent:marker told"), "1");
    cr_assert_str_eq(trust_said, "trusted: 0 other masters remembered, 1 are needed");
    RUN_UNTIL(view().votes, 3000);
    cr_assert_not(view().guessed);
    end(&one);
}

static bool has_marker(void)
{
    return strcmp(ask(&one, "EXISTS lockagent:marker"), "1") == 0;
}

/* A master without memory refuses the question for its marker. It is asked again and again, and for
 * the first time within 5 s, because the group is idle. */
Test(redis_guard, a_refused_question_is_not_the_last_one)
{
    begin_guarded(/* durable= */ true, /* started= */ false);
    RUN_UNTIL(view().votes, 4000);
    ask(&one, "CONFIG SET maxmemory 1");
    ask(&one, "FLUSHALL");
    for (uint64_t from = uv_hrtime(); uv_hrtime() - from < 6000000000;)
        uv_run(&rig.loop, UV_RUN_ONCE);
    cr_assert_not(has_marker());
    ask(&one, "CONFIG SET maxmemory 0");
    RUN_UNTIL(has_marker(), 4000);
    end(&one);
}

/* D5.3: the question for the marker loads its script again, even if nothing else is asked. */
Test(redis_guard, d5_3_a_flushed_script_is_loaded_for_the_marker_too)
{
    begin_guarded(/* durable= */ true, /* started= */ false);
    RUN_UNTIL(view().votes, 4000);
    ask(&one, "SCRIPT FLUSH");
    ask(&one, "FLUSHALL");
    RUN_UNTIL(has_marker(), 8000);
    end(&one);
}

/* D5.3: a server that does not report its run id counts as the same run while the connection lives.
 * A pause is no restart. */
Test(redis_guard, d5_3_a_busy_master_has_not_restarted)
{
    static const char *const options[] = {"--busy-reply-threshold", "50", NULL};
    server_start(&one, options);
    ask(&one, "ACL SETUSER default -info");
    begin_guarded(/* durable= */ false, /* started= */ true);
    RUN_UNTIL(view().votes, 4000);
    const uint16_t epoch = last_of(EVENT_MASTER_UP, 0)->epoch;
    redisContext *stuck = redisConnectUnix(one.socket);
    redisAppendCommand(stuck, "EVAL %s 0", "while true do end");
    int done = 0;
    cr_assert_eq(redisBufferWrite(stuck, &done), REDIS_OK);
    usleep(100000);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_REFUSED);
    RUN_UNTIL(is_down_with(0, "busy"), 1000);
    ask(&one, "SCRIPT KILL");
    RUN_UNTIL(is_up(0), 3000);
    cr_assert(view().votes, "%s", view().reason);
    cr_assert_eq(last_of(EVENT_MASTER_UP, 0)->epoch, epoch);
    redisFree(stuck);
    end(&one);
}

/* D5.3: the group is idle, and no question is due for at least a second. */
static bool is_idle_for_a_second(void)
{
    const struct guard *guard = &rig.redis->guards[0];
    int64_t asked_us = instant_us_between(guard->masters[0].asked_at, redis_now());
    return !guard->masters[0].asked && !instant_before(redis_now(), guard->idle_from) &&
           asked_us > 1500000 && asked_us < 3500000;
}

/* D5.3: the master looks at its marker before the first command of an idle group. The marker names
 * another run, and the vote that the agent knows is still there. */
Test(redis_guard, d5_3_a_question_precedes_the_first_command_of_an_idle_group)
{
    begin_guarded(/* durable= */ false, /* started= */ false);
    RUN_UNTIL(view().votes, 5000);
    RUN_UNTIL(is_idle_for_a_second(), 12000);
    ask(&one, "HSET lockagent:marker run another");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_GUARDED);
    RUN_UNTIL(view().guarded_ms > 0, 1000);
    end(&one);
}

/* R23: "Attempts that are refused keep nothing." Adoptions and resumptions, which a closed group
 * does not send, keep nothing either. Renewals do. */
Test(redis_guard, r23_a_closed_group_counts_the_leases_that_it_asks_for)
{
    static const char layout[] = "w2 1 lock:=mutex a:1/0";
    static const enum op refused[] = {OP_ACQUIRE, OP_ADOPT, OP_RESUME};
    begin_guarded(/* durable= */ true, /* started= */ false);
    struct guard *guard = &rig.redis->guards[0];
    guard_set_layout(guard, (struct text){layout, sizeof(layout) - 1}, 1000, 50);
    guard->layouts.refused_until = instant_after_ms(redis_now(), 60000);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        enum vote vote = exchange(refused[i], 0, item_of("k", 1, BIG)).vote;
        cr_assert(vote == VOTE_NOT_SENT || vote == VOTE_GUARDED, "%s", vote_name(vote));
        cr_assert_eq(guard->layouts.leases_until.us, 0, "%s", op_name(refused[i]));
    }
    exchange(OP_RENEW, 0, item_of("k", 1, BIG));
    cr_assert(instant_before(redis_now(), guard->layouts.leases_until));
    end(&one);
}

static long calls_of(const char *command)
{
    char name[32];
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    const char *at = strstr(ask(&one, "INFO commandstats"), name);
    return at == NULL ? 0 : strtol(at + strlen(name), NULL, 10);
}

/* D5.3: clock and health of an idle group are asked for with the marker, every 5 s, and once more
 * ahead of the first command. */
Test(redis_guard, d5_3_an_idle_group_is_looked_at_with_its_marker, .timeout = 40)
{
    enum { TICKS = 48 }; /* 12 s: two or three questions for the marker. */
    begin_guarded(/* durable= */ false, /* started= */ false);
    RUN_UNTIL(view().votes, 5000);
    RUN_UNTIL(is_idle_for_a_second(), 12000);
    long times = calls_of("time"), pings = calls_of("ping");
    int64_t from_ms = (int64_t)(uv_hrtime() / 1000000);
    RUN_UNTIL((int64_t)(uv_hrtime() / 1000000) - from_ms >= TICKS * 250, TICKS * 250 + 1000);
    cr_assert_geq(calls_of("ping") - pings, 2);
    cr_assert_leq(calls_of("ping") - pings, 3);
    /* The marker's script reads the clock as well, twice at most. */
    cr_assert_geq(calls_of("time") - times, 2);
    cr_assert_leq(calls_of("time") - times, 9);
    RUN_UNTIL(is_idle_for_a_second(), 12000);
    cr_assert(marker_idles(rig.redis, 0));
    uint32_t drift_ppm = rig.config->groups[0].drift_ppm;
    rig.config->groups[0].drift_ppm = 200 * rig.config->groups[0].node_timeout_ms + 1;
    cr_assert_not(marker_idles(rig.redis, 0), "a deadline would lag");
    rig.config->groups[0].drift_ppm = drift_ppm;
    pings = calls_of("ping");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    cr_assert_eq(calls_of("ping"), pings + 1, "the group was idle");
    end(&one);
}

static unsigned place_of_reply(uint32_t slot)
{
    unsigned i = 0;
    while (i < rig.count && !(rig.records[i].kind == EVENT_REPLIES && rig.records[i].slot == slot))
        i++;
    cr_assert_lt(i, rig.count);
    return i;
}

/* Expects that the core learns of a new epoch before the vote (R7). The core counts a vote for the
 * epoch that it knows of. */
static void expect_epoch_first(uint16_t *epoch)
{
    struct send_item item = item_of("k", 1, BIG);
    uint32_t slot = rig_send(OP_RENEW, 1, &item, 1);
    RUN_UNTIL(reply_to(slot, 0), 3000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_ABSENT);
    unsigned reply = place_of_reply(slot), up = reply;
    while (up > 0 && rig.records[up].kind != EVENT_MASTER_UP)
        up--;
    cr_assert_eq(rig.records[up].kind, EVENT_MASTER_UP);
    cr_assert_neq(rig.records[up].epoch, *epoch, "the vote came before its epoch");
    *epoch = rig.records[up].epoch;
}

Test(redis_guard, r7_votes_never_come_before_their_epoch)
{
    begin_guarded(/* durable= */ true, /* started= */ false);
    RUN_UNTIL(view().votes, 4000);
    uint16_t epoch = last_of(EVENT_MASTER_UP, 0)->epoch;
    ask(&one, "FLUSHALL");
    expect_epoch_first(&epoch);
    RUN_UNTIL(ask_number(&one, "EXISTS", "lockagent:marker") == 1, 3000);
    RUN_UNTIL(view().guarded_ms > 0, 3000);
    epoch = last_of(EVENT_MASTER_UP, 0)->epoch;
    ask(&one, "HSET lockagent:marker epoch 00000000000000aa"); /* like another agent */
    expect_epoch_first(&epoch);
    end(&one);
}

/* ---- commands that an old connection left behind (R5) ---- */

/* Leaves an acquire in flight on a connection that the room gives up. */
static void leave_in_flight(void)
{
    kill(one.pid, SIGSTOP);
    struct send_item item = item_of("k", 1, BIG);
    uint32_t slot = rig_send(OP_ACQUIRE, 1, &item, 1);
    RUN_UNTIL(reply_to(slot, 0), 4000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_UNKNOWN);
}

static bool was_asked_to_kill(void)
{
    return strstr(ask(&one, "INFO commandstats"), "cmdstat_client|kill:") != NULL;
}

Test(redis_guard, r5_a_client_is_killed_in_the_same_run_of_the_server)
{
    begin(&one, NULL);
    leave_in_flight();
    kill(one.pid, SIGCONT);
    RUN_UNTIL(is_up(0), 3000);
    cr_assert(was_asked_to_kill());
    end(&one);
}

/* Another run counts its clients anew: the number would be a stranger's. */
Test(redis_guard, r5_no_client_is_killed_in_another_run_of_the_server)
{
    begin(&one, NULL);
    leave_in_flight();
    server_kill(&one);
    unlink(one.socket);
    server_run(&one, NULL);
    server_control(&one);
    RUN_UNTIL(is_up(0), 5000);
    cr_assert_not(was_asked_to_kill());
    end(&one);
}

/* A server that does not tell its run id may be another one. */
Test(redis_guard, r5_no_client_is_killed_where_the_run_is_not_known)
{
    static const char *const options[] = {"--user", "default", "on",    "nopass", "~*",
                                          "&*",     "+@all",   "-info", NULL};
    begin(&one, options);
    leave_in_flight();
    server_kill(&one);
    unlink(one.socket);
    server_run(&one, options);
    server_control(&one);
    RUN_UNTIL(is_up(0), 5000);
    ask(&one, "ACL SETUSER default +info");
    cr_assert_not(was_asked_to_kill());
    end(&one);
}

/* A relay in front of the server. It passes bytes on, or swallows those of the room. It ends the
 * connection when it is told to, or instead of passing on a KILL. */
static struct relay {
    pthread_t thread;
    int listener;
    char path[108], server[108];
    atomic_bool swallows, cuts, stops;
    atomic_int kills, kills_to_cut;
} relay;

static int connect_to_server(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", relay.server);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd : -1;
}

/* Returns false if the connection is to end. */
static bool pass_on(int from, int to, bool up)
{
    char bytes[65536];
    ssize_t len = read(from, bytes, sizeof(bytes));
    if (len <= 0)
        return false;
    if (up && memmem(bytes, (size_t)len, "\r\nKILL\r\n", 8)) {
        atomic_fetch_add(&relay.kills, 1);
        if (atomic_fetch_sub(&relay.kills_to_cut, 1) > 0)
            return false;
    }
    return (up && atomic_load(&relay.swallows)) || write(to, bytes, (size_t)len) == len;
}

static void serve_one(int agent)
{
    int server = connect_to_server();
    bool goes_on = server >= 0;
    while (goes_on && !atomic_load(&relay.stops) && !atomic_exchange(&relay.cuts, false)) {
        struct pollfd fds[] = {{.fd = agent, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        poll(fds, 2, 10);
        goes_on = (!fds[0].revents || pass_on(agent, server, true)) &&
                  (!fds[1].revents || pass_on(server, agent, false));
    }
    close(agent);
    close(server);
}

static void *serve(void *arg)
{
    (void)arg;
    while (!atomic_load(&relay.stops)) {
        struct pollfd fd = {.fd = relay.listener, .events = POLLIN};
        int agent = poll(&fd, 1, 10) == 1 ? accept(relay.listener, NULL, NULL) : -1;
        if (agent >= 0)
            serve_one(agent);
    }
    return NULL;
}

static void relay_start(void)
{
    snprintf(relay.path, sizeof(relay.path), "%.100s.r", one.socket);
    snprintf(relay.server, sizeof(relay.server), "%s", one.socket);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", relay.path);
    relay.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(relay.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(relay.listener, 8), 0);
    cr_assert_eq(pthread_create(&relay.thread, NULL, serve, NULL), 0);
}

static void relay_stop(void)
{
    atomic_store(&relay.stops, true);
    pthread_join(relay.thread, NULL);
    close(relay.listener);
    unlink(relay.path);
}

/* The client stays in doubt until the master has answered. A connection that ends meanwhile has
 * killed no client. */
Test(redis_guard, r5_the_doubtful_client_is_forgotten_only_when_the_kill_was_answered)
{
    server_start(&one, NULL);
    relay_start();
    rig_configure();
    rig_master(0, &one, false);
    snprintf(rig.config->groups[0].masters[0].address.host,
             sizeof(rig.config->groups[0].masters[0].address.host), "%s", relay.path);
    rig_start();
    RUN_UNTIL(is_up(0), 3000);
    cr_assert_eq(atomic_load(&relay.kills), 0);
    atomic_store(&relay.swallows, true);
    struct send_item item = item_of("k", 1, BIG);
    uint32_t slot = rig_send(OP_ACQUIRE, 1, &item, 1);
    uint64_t until = uv_hrtime() + 50000000;
    RUN_UNTIL(uv_hrtime() > until, 1000);
    atomic_store(&relay.kills_to_cut, 2);
    atomic_store(&relay.swallows, false);
    atomic_store(&relay.cuts, true);
    RUN_UNTIL(reply_to(slot, 0), 3000);
    RUN_UNTIL(is_up(0), 5000);
    cr_assert_eq(atomic_load(&relay.kills), 3, "%d", atomic_load(&relay.kills));
    cr_assert(was_asked_to_kill());
    /* Then it is forgotten: a killed client is not killed again. */
    atomic_store(&relay.cuts, true);
    RUN_UNTIL(!is_up(0), 3000);
    RUN_UNTIL(is_up(0), 5000);
    cr_assert_eq(atomic_load(&relay.kills), 3);
    rig_stop();
    relay_stop();
    server_remove(&one);
}

/* D5.3: the vote has changed while the agent was connected. Found when each DELETE was guarded
 * until the agent's next question. */
Test(redis_guard, a_guarded_delete_looks_at_the_marker)
{
    enum { TRIES = 50 }; /* Some are on their way before the marker's answer. */
    begin_guarded(true, false);
    RUN_UNTIL(view().votes, 5000);
    struct send_item item = item_of("k", 1, BIG);
    item.asked = true;
    exchange(OP_RELEASE, 0, item);
    ask(&one, "HSET lockagent:marker floor 1900000000 top 1900000000");
    ask(&one, "SET lockagent:votes =x:y:1");
    int tries = 0;
    while (tries <= TRIES && exchange(OP_RELEASE, 0, item).vote == VOTE_GUARDED)
        tries++;
    cr_assert(tries >= 1 && tries <= TRIES, "%d were guarded", tries);
    end(&one);
}
