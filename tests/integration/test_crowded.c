/* Connections that are of no use make room for those that are: holders that come in to release,
 * health checks, the work on locks (D9). */
#include "harness.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(crowded, .init = world_open, .fini = world_close, .timeout = 120);

enum { WORKERS = 140, WORKERS_MAX = 260 };

/* Keeps so many connections busy with the request until it is killed: after each answer the request
 * is sent again at once, over the same connection while that is kept alive. */
static pid_t workers_start(const struct agent *agent, const char *request, size_t count)
{
    const pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid != 0)
        return pid;
    struct pollfd wires[WORKERS_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < count; i++) {
        wires[i] = (struct pollfd){.fd = wire_open(agent), .events = POLLIN};
        wire_say(wires[i].fd, request);
    }
    for (;;) {
        poll(wires, count, -1);
        for (size_t i = 0; i < count; i++) {
            static char bytes[1 << 20];
            if (wires[i].revents == 0)
                continue;
            const ssize_t got = recv(wires[i].fd, bytes, sizeof(bytes), 0);
            if (got <= 0) {
                close(wires[i].fd);
                wires[i].fd = wire_open(agent);
            }
            if (got <= 0 || memmem(bytes, (size_t)got, "HTTP/1.1", 8))
                wire_say(wires[i].fd, request);
        }
    }
}

static void workers_stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* All places are taken by waiters and by callers that are refused and ask again; the holder still
 * comes in. */
Test(crowded, a_holder_comes_in_among_the_refused)
{
    enum { ROUNDS = 4 };
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){
        .admin = true,
        .extra = "limits: {connections: 128, waiters: 64}\n",
        .node_timeout = "2s"}); /* On a busy machine the DELETE is 204 too. */
    for (int round = 0; round < ROUNDS; round++) {
        const struct reply *granted = acquire_free(agent, format("k%d", round), "ttl=60s");
        const int wire = wire_open(agent);
        wire_close(wire); /* the holder's own connection is not one that was kept */
        const pid_t pid = workers_start(
            agent,
            format("POST /locks/k%d?ttl=60s&wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n", round),
            WORKERS);
        cr_assert(eventually(metric(agent, "lockagent_waiters") == 64));
        sleep_ms(300);
        const int64_t before = boottime_ms();
        const int release = wire_request(agent, "DELETE", format("/locks/k%d", round),
                                         format("Lock-Token: %s", token(granted)));
        expect(wire_receive(release, 8000), 204, NULL);
        cr_log_info("released in %lld ms", (long long)(boottime_ms() - before));
        wire_close(release);
        workers_stop(pid);
        cr_assert(eventually(metric(agent, "lockagent_waiters") == 0));
    }
}

/* A caller that is refused because there are too many does not keep its place. */
Test(crowded, too_many_waiters_closes)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.extra = "limits: {waiters: 0}\n"});
    const struct reply *granted = acquire(agent, "k", "ttl=60s");
    const int wire = wire_request(agent, "POST", "/locks/k?ttl=5s&wait=5s", NULL);
    const struct reply *refused = wire_receive(wire, PATIENCE_MS);
    expect(refused, 429, "too_many_waiters");
    cr_assert_str_eq(header(refused, "Connection"), "close");
    cr_assert_eq(wire_receive(wire, PATIENCE_MS)->status, 0, "the connection goes on");
    give_back(agent, "k", token(granted));
}

/* Connections that were kept alive, or never said a word, on either listener. */
static void idle_give_way(struct agent *agent, bool silent)
{
    int idle[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        idle[i] = wire_open(agent);
        if (silent)
            continue;
        wire_say(idle[i], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        expect(wire_receive(idle[i], PATIENCE_MS), 200, NULL);
    }
    for (int i = 0; i < 3; i++) {
        const int fresh = wire_request(agent, "GET", "/livez", NULL);
        expect(wire_receive(fresh, 8000), 200, NULL);
        wire_close(fresh);
    }
    /* The oldest go first; the youngest are still there. The admin listener closes the youngest
     * with its answer instead, unless older ones are late. */
    const bool is_admin = agent->port == agent->admin_port;
    cr_assert(eventually(!wire_is_silent(idle[0]) ||
                         (is_admin && !silent && !wire_is_silent(idle[WORKERS - 1]))));
    if (!silent && !is_admin) {
        cr_assert(wire_is_silent(idle[WORKERS - 1]));
        wire_say(idle[WORKERS - 1], "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        expect(wire_receive(idle[WORKERS - 1], PATIENCE_MS), 200, NULL);
    }
    for (int i = 0; i < WORKERS; i++)
        wire_close(idle[i]);
}

Test(crowded, idle_connections_give_way)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){
        .admin = true, .extra = "limits: {connections: 128, waiters: 64, header_timeout: 60s}\n"});
    struct agent admin = *agent;
    admin.port = agent->admin_port;
    idle_give_way(agent, false);
    idle_give_way(agent, true);
    idle_give_way(&admin, false);
    idle_give_way(&admin, true);
}

/* As slow as can be: every place is taken by a client that sends, or reads, a byte at a time. */
static void slow_give_way(const struct agent *agent, const char *request)
{
    int slow[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        slow[i] = wire_open(agent);
        wire_say(slow[i], request);
    }
    const int fresh = wire_request(agent, "GET", "/livez", NULL);
    const struct reply *reply = wire_receive(fresh, 8000);
    cr_assert_eq(reply->status, 200, "%ld at port %d beside \"%.60s\"; the agent: %s",
                 reply->status, agent->port, request,
                 read_whole_file(format("/proc/%d/stat", (int)agent->pid)));
    wire_close(fresh);
    for (int i = 0; i < WORKERS; i++)
        wire_close(slow[i]);
}

Test(crowded, slow_connections_give_way)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){
        .admin = true, .extra = "limits: {connections: 128, waiters: 64, header_timeout: 60s}\n"});
    struct agent admin = *agent;
    admin.port = agent->admin_port;
    static const char
        slow_header[] = "GET /livez HTTP/1.1\r\nHost: loc",
        slow_body[] = "POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nttl";
    slow_give_way(agent, slow_header);
    slow_give_way(agent, slow_body);
    slow_give_way(&admin, slow_header);
    slow_give_way(&admin, slow_body);
    /* Ever more answers that the client does not read. */
    const char *pipeline = repeat("GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n", 400);
    slow_give_way(agent, pipeline);
    slow_give_way(&admin, pipeline);
}

/* An answer has a deadline as a whole; a byte now and then does not buy more time. */
Test(crowded, a_slow_reader)
{
    enum { WRITE_MS = 10000 };
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const int wire = wire_open(agent), small = 4096;
    setsockopt(wire, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    const int64_t before = boottime_ms();
    wire_say(wire, repeat("GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n", 600));
    char byte;
    size_t got = 0;
    struct pollfd about = {.fd = wire, .events = POLLRDHUP};
    while (poll(&about, 1, 50) == 0 && boottime_ms() - before < 3 * WRITE_MS)
        got += recv(wire, &byte, 1, MSG_DONTWAIT) == 1;
    const int64_t took = boottime_ms() - before;
    cr_assert_gt(got, 20);
    cr_assert_geq(took, WRITE_MS / 2);
    cr_assert_lt(took, 3 * WRITE_MS, "still written after %lld ms", (long long)took);
    wire_close(wire);
    acquire_free(agent, "k", "ttl=5s");
}

enum { HOLDS = 50, SCRAPERS = 120 };

/* Takes locks, and returns how many of them a flood of scrapes costs. */
static int lost_in_a_flood(struct agent *agent, int round)
{
    enum { FLOOD_MS = 6000 };
    struct agent admin = *agent;
    admin.port = agent->admin_port;
    for (int i = 0; i < HOLDS; i++)
        acquire_free(agent, format("k%d/%d", round, i), "ttl=2s&renew=agent");
    const pid_t pid =
        workers_start(&admin, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", SCRAPERS);
    sleep_ms(FLOOD_MS);
    workers_stop(pid);
    int lost = 0;
    for (int i = 0; i < HOLDS; i++)
        lost += !held_here(agent, format("k%d/%d", round, i));
    return lost;
}

/* Metrics are for operators; holders must not pay for them (D7). A pause of the machine costs short
 * leases too. Such a loss has the reason `stalled`, and then there is another flood: a flood that
 * is the cause of the pause costs locks each time. */
Test(crowded, a_flood_of_scrapes_costs_no_lock)
{
    enum { ROUNDS = 4 };
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    int lost = HOLDS;
    for (int round = 0; lost > 0 && round < ROUNDS; round++) {
        lost = lost_in_a_flood(agent, round);
        cr_assert_eq(agent_logged(agent, "lock lost", NULL),
                     agent_logged(agent, "lock lost", "\"reason\":\"stalled\""), "%s",
                     agent_log_line(agent, "lock lost", NULL));
    }
    cr_assert_eq(lost, 0, "%d of %d lost", lost, HOLDS);
    const double scrapes = metric(
        agent, "lockagent_http_requests_total{route=\"/metrics\",method=\"GET\",status=\"2xx\"}");
    cr_assert_gt(scrapes, SCRAPERS, "%f scrapes only", scrapes);
}

/* After a turn the admin listener rests for three times as long, and answers no health check
 * meanwhile. A pause of the process in such a turn is no work of it. */
Test(crowded, after_a_pause_the_admin_listener_answers)
{
    enum { PAUSES = 8, PAUSE_MS = 2000, ANSWER_MS = 4000 };
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    struct agent admin = *agent;
    admin.port = agent->admin_port;
    const pid_t pid =
        workers_start(&admin, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", SCRAPERS);
    for (int i = 0; i < PAUSES; i++) {
        sleep_ms(100 + 7 * i);
        agent_signal(agent, SIGSTOP); /* In a quarter of the cases, while the listener works. */
        sleep_ms(PAUSE_MS);
        agent_signal(agent, SIGCONT);
        const int probe = wire_request(&admin, "GET", "/livez", NULL);
        expect(wire_receive(probe, ANSWER_MS), 200, NULL);
        wire_close(probe);
    }
    workers_stop(pid);
}

/* Twice as many callers as the admin listener has connections ask there again and again. A probe on
 * a new connection passes through them. */
static void crowd_asks_for(const char *path)
{
    enum { CROWD = WORKERS_MAX, PROBES = 5, ANSWER_MS = 3000 };
    int in_time = 0;
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    struct agent admin = *agent;
    admin.port = agent->admin_port;
    const pid_t pid =
        workers_start(&admin, format("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path), CROWD);
    sleep_ms(500);
    for (int i = 0; i < PROBES; i++) {
        const int probe = wire_request(&admin, "GET", "/livez", NULL);
        in_time += wire_receive(probe, ANSWER_MS)->status == 200;
        wire_close(probe);
    }
    workers_stop(pid);
    cr_assert_geq(in_time, PROBES - 1, "%d of %d in time", in_time, PROBES); /* a busy machine */
}

Test(crowded, a_crowd_on_the_admin_listener_lets_health_checks_through)
{
    crowd_asks_for("/livez");
}

Test(crowded, a_crowd_that_scrapes_lets_health_checks_through)
{
    crowd_asks_for("/metrics");
}

/* Shared metrics are not old: a scrape shows the state of a quarter of a second ago at most. */
Test(crowded, metrics_are_fresh)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    for (int i = 1; i <= 3; i++) {
        acquire_free(agent, format("k%d", i), "ttl=60s");
        cr_assert_eq(metric(agent, "lockagent_locks_held{policy=\"*\"}"), i);
    }
}

static size_t resident_bytes(const struct agent *agent)
{
    return (size_t)agent_memory_kib(agent, "VmRSS:") * 1024;
}

/* Callers that begin as large a body as they may, and never end it. */
Test(crowded, slow_bodies_take_little_memory)
{
    enum { SLOW = 600, EACH = 24 * 1024 };
    static const size_t sizes[] = {65536, 4096};
    static int wires[SLOW];
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "limits: {header_timeout: 60s}\n"});
    const size_t before = resident_bytes(agent);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        const char *request =
            format("POST /locks/k HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                   "application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n\r\n%s",
                   sizes[s], repeat("l", sizes[s] - 1));
        for (int i = 0; i < SLOW; i++) {
            wires[i] = wire_open(agent);
            wire_say(wires[i], request);
        }
        acquire_free(agent, format("k%zu", s), "ttl=5s");
        const size_t grown = resident_bytes(agent) - before;
        cr_assert_lt(grown / SLOW, EACH, "%zu bytes for each of %d bodies of %zu", grown / SLOW,
                     SLOW, sizes[s]);
        for (int i = 0; i < SLOW; i++)
            wire_close(wires[i]);
    }
}

/* Every scrape counts the ones before it, so two that are the same are one text. */
Test(crowded, metrics_are_shared)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    cr_assert(eventually(({
        const char *request =
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        const struct reply *one = wire_exchange(agent, request),
                           *other = wire_exchange(agent, request);
        expect(one, 200, NULL);
        expect(other, 200, NULL);
        strcmp(one->body, other->body) == 0;
    })));
}
