/* The Redis room against real redis-servers: scripts, the connect sequence, error classes, loss
 * and return of masters. */
#include <fcntl.h>
#include <sys/syscall.h>

#include "redis_rig.h"

/* The room's system calls for writing, counted. */
static unsigned writes;

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    writes += len > 0 && *(const char *)bytes == '*';
    return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

static struct server one, two;

/* ---- connecting ---- */

Test(connect, tcp_unix_names_and_databases)
{
    server_start(&one, NULL);
    server_start(&two, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig_master(1, &two, false);
    rig_master(2, &two, true);
    strcpy(rig.config->groups[0].masters[2].address.host,
           "localhost"); /* may resolve to ::1 first, which has no listener */
    rig.config->groups[0].masters[2].db = 3;
    rig_start();
    RUN_UNTIL(is_up(0) && is_up(1) && is_up(2), 3000);
    struct send_item item = item_of("k", 1, BIG);
    uint32_t slot = rig_send(OP_ACQUIRE, 7, &item, 1);
    RUN_UNTIL(replies() == 3, 1000);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(reply_to(slot, i)->vote, VOTE_YES);
        cr_assert_eq(last_of(EVENT_MASTER_UP, i)->epoch, 1);
        cr_assert_lt(llabs(last_of(EVENT_MASTER_UP, i)->clock_offset_us), 200000);
    }
    ask(&two, "SELECT 3");
    cr_assert_str_eq(ask(&two, "GET lock:k"), A40 AGENT BIG_TEXT ":me");
    /* D5.4: two masters that are one server vote for each other's keys. */
    cr_assert(redis_master(rig.redis, 0, 1).degraded && redis_master(rig.redis, 0, 2).degraded);
    cr_assert(strstr(redis_master(rig.redis, 0, 2).reason, "the same server as "));
    struct redis_master_view view = redis_master(rig.redis, 0, 0);
    cr_assert_str_eq(view.reason, "");
    cr_assert(view.votes && !view.degraded && view.guarded_ms == 0);
    cr_assert_eq(strlen(view.run_id), 40);
    cr_assert(strstr(ask(&one, "INFO server"), view.version));
    cr_assert(strstr(ask(&one, "CLIENT LIST"), "name=lockagent"));
    cr_assert(redis_is_idle(rig.redis));
    rig_stop();
    server_remove(&one);
    server_remove(&two);
}

static void write_password(const char *password)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/password", one.dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert_eq(write(fd, password, strlen(password)), (ssize_t)strlen(password));
    close(fd);
}

Test(connect, a_password_file_is_read_anew_and_its_absence_is_told)
{
    server_start(&one, NULL);
    ask(&one, "ACL SETUSER agent on >right-password ~* +@all");
    ask(&one, "ACL SETUSER default resetpass >other");
    rig_configure();
    rig_master(0, &one, true);
    struct config_group *group = &rig.config->groups[0];
    strcpy(group->username, "agent");
    snprintf(group->password_file, sizeof(group->password_file), "%s/password", one.dir);
    rig_start();
    RUN_UNTIL(is_down_with(0, "password_file: No such file"), 2000);
    write_password("wrong-password");
    RUN_UNTIL(is_down_with(0, "AUTH: wrongpass"), 2000);
    write_password("right-password\n");
    RUN_UNTIL(is_up(0), 1000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    cr_assert_not(state_was_told("-password"), "a secret was told");
    end(&one);
}

Test(connect, a_password_from_the_url)
{
    server_start(&one, NULL);
    ask(&one, "CONFIG SET requirepass from-url");
    rig_configure();
    rig_master(0, &one, false);
    rig_start();
    RUN_UNTIL(is_down_with(0, "noauth"), 2000);
    cr_assert_eq(exchange(OP_READ, 0, plain_of("k", 1)).vote, VOTE_NOT_SENT);
    strcpy(rig.config->groups[0].masters[0].password, "from-url");
    RUN_UNTIL(is_up(0), 1000);
    end(&one);
}

Test(connect, what_can_not_be_reached_is_down_with_a_reason)
{
    server_start(&one, NULL);
    rig_configure();
    for (unsigned i = 0; i < 5; i++)
        rig_master(i, &one, true);
    struct config_master *masters = rig.config->groups[0].masters;
    masters[0].address.port = (uint16_t)free_port();
    strcpy(masters[1].address.host, "no-such-name.invalid");
    masters[2].address.is_unix = true;
    strcpy(masters[2].address.host, "/nowhere/s");
    masters[3].address.is_unix = true;
    memset(masters[3].address.host, 'x', 200);
    rig_start();
    RUN_UNTIL(is_down_with(0, "connect: Connection refused") && is_down_with(1, "resolve: ") &&
                  is_down_with(2, "connect: No such file") && is_down_with(3, "too long") &&
                  is_up(4),
              5000);
    cr_assert_eq(count_of(EVENT_MASTER_DOWN, 0), 0); /* it never was up */
    RUN_UNTIL(redis_master(rig.redis, 0, 0).reconnects > 3, 5000);
    struct send_item item = plain_of("k", 1);
    uint32_t slot = rig_send(OP_ACQUIRE, 31, &item, 1);
    RUN_UNTIL(replies() == 5, 1000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_NOT_SENT);
    cr_assert_eq(reply_to(slot, 4)->vote, VOTE_YES);
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_NOT_SENT], 4);
    end(&one);
}

Test(connect, a_loading_master_is_not_up)
{
    server_start(&one, NULL);
    ask(&one, "DEBUG POPULATE 400");
    ask(&one, "SAVE");
    server_kill(&one);
    static const char *const slow[] = {"--key-load-delay", "4000",
                                       "--loading-process-events-interval-bytes", "1024", NULL};
    server_run(&one, slow);
    rig_configure();
    rig_master(0, &one, true);
    rig_start();
    RUN_UNTIL(is_down_with(0, "loading"), 3000);
    RUN_UNTIL(is_up(0), 6000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    end(&one);
}

Test(connect, a_full_master_is_retried)
{
    server_start(&one, NULL);
    ask(&one, "CONFIG SET maxclients 1");
    rig_configure();
    rig_master(0, &one, true);
    rig_start();
    RUN_UNTIL(is_down_with(0, "maxclients"), 2000);
    ask(&one, "CONFIG SET maxclients 100");
    RUN_UNTIL(is_up(0), 1000);
    end(&one);
}

/* ---- masters that go and come ---- */

Test(loss, sigkill_and_restart)
{
    begin(&one, NULL);
    kill(one.pid, SIGSTOP);
    struct send_item items[2] = {item_of("a", 1, BIG), item_of("b", 1, BIG)};
    uint32_t slot = rig_send(OP_RENEW, 1, items, 2);
    uv_run(&rig.loop, UV_RUN_ONCE); /* written */
    uv_run(&rig.loop, UV_RUN_ONCE);
    cr_assert_eq(redis_master(rig.redis, 0, 0).in_flight, 1);
    cr_assert_not(redis_is_idle(rig.redis));
    uint32_t late = rig_send(OP_READ, 1, &items[0], 1); /* stays in the output buffer */
    server_kill(&one);
    RUN_UNTIL(reply_to(late, 0), 500);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_UNKNOWN);
    cr_assert_eq(reply_to(slot + 1, 0)->vote, VOTE_UNKNOWN);
    cr_assert_lt(last_of(EVENT_MASTER_DOWN, 0), reply_to(slot, 0), "down must be told first");
    cr_assert_eq(reply_to(late, 0)->vote, VOTE_NOT_SENT);
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_LOST], 1);
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_NOT_SENT], 1);
    cr_assert_eq(exchange(OP_READ, 0, items[0]).vote, VOTE_NOT_SENT);
    RUN_UNTIL(redis_master(rig.redis, 0, 0).reconnects > 6, 5000); /* the back-off is at its cap */
    server_run(&one, NULL);
    server_control(&one);
    RUN_UNTIL(is_up(0), 1000);
    cr_assert_eq(last_of(EVENT_MASTER_UP, 0)->epoch, 2);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, items[0]).vote, VOTE_YES);
    end(&one);
}

Test(loss, a_lost_connection_alone_keeps_the_epoch)
{
    begin(&one, NULL);
    for (unsigned i = 0; i < 3; i++) {
        ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
        RUN_UNTIL(count_of(EVENT_MASTER_DOWN, 0) == i + 1, 500);
        RUN_UNTIL(is_up(0), 1000);
        cr_assert_eq(last_of(EVENT_MASTER_UP, 0)->epoch, 1);
    }
    ask(&one, "ACL SETUSER default -info"); /* without a run id it may have forgotten */
    ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
    RUN_UNTIL(count_of(EVENT_MASTER_UP, 0) == 5, 1000);
    cr_assert_eq(last_of(EVENT_MASTER_UP, 0)->epoch, 2);
    ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
    RUN_UNTIL(count_of(EVENT_MASTER_UP, 0) == 6, 1000);
    cr_assert_eq(last_of(EVENT_MASTER_UP, 0)->epoch, 3);
    end(&one);
}

/* Returns how often the server's clock was read. Tests below are about R3: silence ends a
 * connection, and nothing else waits for it. */
static unsigned times_read(struct server *server)
{
    const char *says = strstr(ask(server, "INFO commandstats"), "cmdstat_time:calls=");
    return says == NULL ? 0 : (unsigned)strtoul(says + strlen("cmdstat_time:calls="), NULL, 10);
}

/* R14: as one connection of a group ends, the clocks of all its masters are read at once, and not
 * only a second after they were read last. A try in which this process stalls shows nothing. */
Test(loss, r14_the_end_of_one_connection_has_all_clocks_read)
{
    enum { TRIES = 10, AT_ONCE_MS = 700 };
    bool was_at_once = false;
    server_start(&one, NULL);
    server_start(&two, NULL);
    rig_configure();
    rig_master(0, &one, false);
    rig_master(1, &two, false);
    rig_start();
    for (unsigned try = 0; try < TRIES && !was_at_once; try++) {
        RUN_UNTIL(is_up(0) && is_up(1), 5000);
        const unsigned before = times_read(&two);
        RUN_UNTIL(times_read(&two) > before, 5000); /* the next one is due in a second */
        const unsigned regular = times_read(&two);
        const uint64_t read_ns = uv_hrtime();
        ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
        RUN_UNTIL(times_read(&two) > regular, 5000);
        was_at_once = uv_hrtime() - read_ns < AT_ONCE_MS * 1000000ULL;
    }
    cr_assert(was_at_once);
    rig_stop();
    server_remove(&one);
    server_remove(&two);
}

Test(loss, a_frozen_master_is_disconnected_after_a_second_and_blocks_nobody)
{
    server_start(&one, NULL);
    server_start(&two, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig_master(1, &two, false);
    rig_start();
    RUN_UNTIL(is_up(0) && is_up(1), 3000);
    kill(one.pid, SIGSTOP);
    uint64_t from = uv_hrtime();
    struct send_item item = item_of("k", 1, BIG);
    uint32_t slot = rig_send(OP_ACQUIRE, 3, &item, 1);
    RUN_UNTIL(reply_to(slot, 1), 300);
    cr_assert_null(reply_to(slot, 0));
    RUN_UNTIL(reply_to(slot, 0), 2000);
    uint64_t ms = (uv_hrtime() - from) / 1000000;
    cr_assert(ms >= 1000 && ms < 1600, "%d ms", (int)ms);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_UNKNOWN);
    cr_assert(is_down_with(0, "no reply for 1000 ms"));
    for (unsigned i = 0; i < 20; i++)
        cr_assert_eq(exchange(OP_READ, 1, item).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_READ, 0, item).vote, VOTE_NOT_SENT);
    kill(one.pid, SIGCONT);
    RUN_UNTIL(is_up(0), 1000);
    cr_assert_eq(last_of(EVENT_MASTER_UP, 0)->epoch, 1);
    /* R5: the remaining command of the old connection ran before its CLIENT KILL or never. The
     * release comes after both. */
    enum vote vote = exchange(OP_RELEASE, 0, item).vote;
    cr_assert(vote == VOTE_YES || vote == VOTE_ABSENT);
    usleep(50000);
    cr_assert_eq(exchange(OP_READ, 0, item).vote, VOTE_ABSENT);
    cr_assert(strstr(ask(&one, "INFO commandstats"), "cmdstat_client|kill:calls=1,"));
    rig_stop();
    server_remove(&one);
    server_remove(&two);
}

/* R5: another run of the server counts its clients anew. The id of the connection that ended with a
 * command in flight may be another client's there, which must not be killed. */
Test(loss, r5_no_client_of_another_run_is_killed)
{
    begin(&one, NULL);
    kill(one.pid, SIGSTOP);
    struct send_item item = item_of("k", 1, BIG);
    uint32_t slot = rig_send(OP_ACQUIRE, 1, &item, 1);
    uint64_t until = uv_hrtime() + 50000000;
    RUN_UNTIL(uv_hrtime() > until, 1000); /* It is written, and not answered. */
    server_kill(&one);
    RUN_UNTIL(reply_to(slot, 0), 3000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_UNKNOWN);
    server_run(&one, NULL);
    server_control(&one);
    RUN_UNTIL(is_up(0), 3000);
    cr_assert_null(strstr(ask(&one, "INFO commandstats"), "cmdstat_client|kill:"));
    end(&one);
}

/* D5.2: a master that has many agents to greet may be silent for longer with each try. Otherwise
 * the agents would end each other's greetings. */
Test(loss, a_greeting_may_wait_for_the_greetings_of_others, .timeout = 20)
{
    begin(&one, NULL);
    uint64_t before = redis_master(rig.redis, 0, 0).reconnects;
    kill(one.pid, SIGSTOP);
    for (uint64_t from = uv_hrtime(); uv_hrtime() - from < 5000000000;)
        uv_run(&rig.loop, UV_RUN_ONCE);
    uint64_t tries = redis_master(rig.redis, 0, 0).reconnects - before;
    kill(one.pid, SIGCONT);
    cr_assert(tries == 1 || tries == 2, "%d tries", (int)tries);
    RUN_UNTIL(is_up(0), 2000);
    end(&one);
}

/* R3: a command is in flight each time that silence is checked, and each reply ends the silence. */
Test(loss, a_slow_master_that_replies_is_not_silent, .timeout = 20)
{
    begin(&one, NULL);
    struct send_item item = item_of("k", 1, BIG);
    for (uint64_t from = uv_hrtime(); uv_hrtime() - from < 3000000000;) {
        kill(one.pid, SIGSTOP);
        uint32_t slot = rig_send(OP_READ, 1, &item, 1);
        for (uint64_t sent = uv_hrtime(); uv_hrtime() - sent < 100000000;)
            uv_run(&rig.loop, UV_RUN_ONCE);
        kill(one.pid, SIGCONT);
        RUN_UNTIL(reply_to(slot, 0), 2000);
        cr_assert_eq(reply_to(slot, 0)->vote, VOTE_ABSENT);
    }
    cr_assert_eq(count_of(EVENT_MASTER_DOWN, 0), 0u);
    end(&one);
}

Test(loss, an_idle_frozen_master_is_found_by_the_probe, .timeout = 20)
{
    begin(&one, NULL);
    RUN_UNTIL(count_of(EVENT_MASTER_CLOCK, 0) >= 1, 4000);
    cr_assert_lt(llabs(last_of(EVENT_MASTER_CLOCK, 0)->clock_offset_us), 200000);
    kill(one.pid, SIGSTOP);
    RUN_UNTIL(is_down_with(0, "no reply"), 5000);
    kill(one.pid, SIGCONT);
    RUN_UNTIL(is_up(0), 1000);
    end(&one);
}

/* R12: the master may have looked at its clock at any time of the round trip. So a late answer
 * moves a known offset only as far as it must. */
Test(loss, r12_a_late_answer_does_not_move_a_clock_that_is_known, .timeout = 20)
{
    begin(&one, NULL);
    RUN_UNTIL(count_of(EVENT_MASTER_CLOCK, 0) >= 1, 4000);
    unsigned before = (unsigned)count_of(EVENT_MASTER_CLOCK, 0);
    uint64_t from = uv_hrtime();
    kill(one.pid, SIGSTOP);
    redis_read_clocks(rig.redis, 0);
    RUN_UNTIL(uv_hrtime() - from >= 600000000, 1000);
    kill(one.pid, SIGCONT);
    RUN_UNTIL(count_of(EVENT_MASTER_CLOCK, 0) > before, 400);
    for (unsigned i = 0; i < rig.count; i++)
        if (rig.records[i].kind == EVENT_MASTER_CLOCK)
            cr_assert_lt(llabs(rig.records[i].clock_offset_us), 200000);
    end(&one);
}

Test(loss, sends_from_within_the_sink_are_safe_while_connections_die)
{
    begin(&one, NULL);
    rig.resend = 2000;
    struct send_item item = plain_of("k", 1);
    for (unsigned i = 0; i < 40; i++)
        rig_send(OP_READ, 1, &item, 1);
    for (unsigned i = 0; i < 10; i++) {
        ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
        for (unsigned j = 0; j < 20; j++)
            uv_run(&rig.loop, UV_RUN_ONCE);
    }
    RUN_UNTIL(rig.resend == 0 && replies() == rig.expected, 5000);
    end(&one);
}

/* ---- gathering ---- */

Test(gather, many_commands_take_one_system_call_per_master)
{
    begin(&one, NULL);
    unsigned before = writes;
    struct send_item item = plain_of("k", 1);
    for (unsigned i = 0; i < 500; i++)
        rig_send(OP_READ, 1, &item, 1);
    RUN_UNTIL(replies() == 500, 2000);
    /* One write, or a few if the socket takes less at once. */
    cr_assert_leq(writes - before, 3, "%u writes", writes - before);
    cr_assert_geq(writes - before, 1);
    end(&one);
}

/* libuv runs the prepare handles in the opposite order of their start: one that was started
 * before the room runs after the room's flush, in the last moment before the loop would sleep. */
Test(gather, what_is_sent_after_the_flush_does_not_wait_for_the_next_event)
{
    begin(&one, NULL);
    uv_timer_stop(&rig.clock); /* now nothing wakes the loop but the tick, every 250 ms */
    for (unsigned i = 1; i <= 5; i++) {
        rig.send_before_sleep = true;
        uint64_t from = uv_hrtime();
        while (replies() < i)
            uv_run(&rig.loop, UV_RUN_ONCE);
        cr_assert_lt((uv_hrtime() - from) / 1000000, 100, "slept on unwritten bytes");
    }
    uv_timer_start(&rig.clock, nothing, 5, 5);
    end(&one);
}

/* D7: metrics show a master's latency as the time from the sending to the reply. */
Test(gather, the_latency_of_a_command_is_told_in_us)
{
    begin(&one, NULL);
    kill(one.pid, SIGSTOP);
    struct send_item item = plain_of("k", 1);
    uint64_t from = uv_hrtime();
    uint32_t slot = rig_send(OP_READ, 1, &item, 1);
    uint64_t sent = uv_hrtime();
    RUN_UNTIL(uv_hrtime() - sent > 200000000, 1000);
    kill(one.pid, SIGCONT);
    RUN_UNTIL(reply_to(slot, 0), 3000);
    int64_t took_us = (int64_t)((uv_hrtime() - from) / 1000);
    cr_assert(rig.latency_us >= 200000 && rig.latency_us <= took_us, "%lld us of %lld",
              (long long)rig.latency_us, (long long)took_us);
    end(&one);
}

/* ---- the end ---- */

Test(stop, every_item_is_answered_once_also_at_the_end)
{
    server_start(&one, NULL);
    server_start(&two, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig_master(1, &two, false);
    rig_master(2, &two, true);
    strcpy(rig.config->groups[0].masters[2].address.host, "no-such-name.invalid");
    rig_start();
    RUN_UNTIL(is_up(0) && is_up(1), 3000);
    kill(one.pid, SIGSTOP);
    struct send_item items[LIMIT_BATCH];
    for (unsigned i = 0; i < LIMIT_BATCH; i++)
        items[i] = item_of("k", 1, BIG);
    for (unsigned i = 0; i < 20; i++) {
        rig_send(OP_RENEW, 7, items, LIMIT_BATCH);
        rig_send(OP_ACQUIRE, 5, items, 1);
    }
    rig.resend = 50; /* the core goes on sending meanwhile */
    uint64_t from = uv_hrtime();
    rig_stop();
    cr_assert_lt((uv_hrtime() - from) / 1000000, 2000);
    cr_assert_geq(rig.expected, 3 * 20 * LIMIT_BATCH + 2 * 20);
    kill(one.pid, SIGCONT);
    server_remove(&one);
    server_remove(&two);
}

Test(stop, before_anything_is_connected)
{
    server_start(&one, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig_start();
    struct send_item item = plain_of("k", 1);
    rig_send(OP_ACQUIRE, 1, &item, 1);
    cr_assert_eq(replies(), 0);
    end(&one);
}
