/* A thousand callers at once of a key that several hold, while a master is stopped and an agent is
 * killed: none is refused, none too many hold it, and nothing is left. */
#include "throng.h"

#include <sys/resource.h>

TestSuite(throng, .init = world_open, .fini = world_close, .timeout = 180);

enum { AGENTS = 3, CALLERS = 1000, DEAF = 12, PERMITS = 8, HOLD_MS = 5, TTL_MS = 3000 };

static struct throng throng;
static struct agent *agents[AGENTS];

static void allow_files(void)
{
    struct rlimit files;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void begin(const char *policy, size_t permits)
{
    allow_files();
    masters_start(5, MASTERS_FORGETFUL);
    for (int i = 0; i < AGENTS; i++)
        agents[i] = agent_start(&(struct agent_options){
            .node_timeout = "500ms", .extra = format("policies: [{match: 'k', %s}]\n", policy)});
    throng = (struct throng){.key = "k",
                             .terms = format("wait=100s&ttl=%dms", TTL_MS),
                             .hold_ms = HOLD_MS,
                             .permits = permits,
                             .refuge = agents[0]};
}

/* They ask as all others do, and read no answer: a caller that is granted the key holds it for its
 * lease. */
static void deaf_callers(int *ret_wires, const char *mode)
{
    for (int i = 0; i < DEAF; i++) {
        ret_wires[i] = wire_open_deaf(agents[i % 2]);
        wire_say(ret_wires[i],
                 format("POST /locks/k?%s%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
                        "\r\n",
                        throng.terms, mode));
    }
}

/* One of 20 writes, if some read. */
static void everybody_comes(bool some_read)
{
    for (int i = 0; i < CALLERS; i++)
        throng_join(&throng, agents[i % AGENTS], some_read && i % 20 != 7, /* again= */ false);
}

static void a_master_stops_and_an_agent_is_killed(void)
{
    throng_go_on_until(&throng, 50);
    master_freeze(4);
    throng_go_on_until(&throng, 100);
    agent_kill(agents[2]);
    throng_loses(&throng, agents[2]);
}

static void everybody_is_served(int64_t began_ms)
{
    throng_end(&throng);
    for (size_t i = 0; i < throng.count; i++)
        cr_assert(throng.callers[i].turns == 1 || i % AGENTS == 2, "caller %zu", i);
    cr_log_info("%zu grants to %d callers in %lld ms", throng.grants, CALLERS,
                (long long)(boottime_ms() - began_ms));
    master_thaw(4);
    for (int i = 0; i < 2; i++) {
        cr_assert(eventually(waiting_at(agents[i]) == 0), "callers that read no answer still wait");
        cr_assert(eventually(metric(agents[i], "lockagent_locks_held{policy=\"k\"}") == 0));
        cr_assert(eventually(metric(agents[i], "lockagent_requests_unanswered") == 0));
    }
}

Test(throng, r20_of_a_semaphore)
{
    const int64_t began_ms = boottime_ms();
    int deaf[DEAF];
    begin(format("permits: %d", PERMITS), PERMITS);
    everybody_comes(/* some_read= */ false);
    deaf_callers(deaf, "");
    a_master_stops_and_an_agent_is_killed();
    everybody_is_served(began_ms);
    cr_assert(eventually(number(get(agents[0], "/locks/k"), "taken") == 0));
    for (int slot = 0; slot < PERMITS; slot++)
        cr_assert(eventually(masters_with(format("lockagent:slot:%d:lock:k", slot)) == 0));
    for (int i = 0; i < DEAF; i++)
        wire_close(deaf[i]);
}

Test(throng, r18_of_readers_and_writers)
{
    const int64_t began_ms = boottime_ms();
    int deaf[DEAF];
    begin("kind: rw", 1);
    everybody_comes(/* some_read= */ true);
    deaf_callers(deaf, "&mode=read");
    a_master_stops_and_an_agent_is_killed();
    everybody_is_served(began_ms);
    cr_assert(eventually(masters_with("lock:k") == 0));
    cr_assert(eventually(masters_with("lockagent:ticket:lock:k") == 0));
    for (int i = 0; i < DEAF; i++)
        wire_close(deaf[i]);
}
