/* More callers at once than the masters answer in time (R16): they wait their turn in the agent,
 * and are not undone one by one. */
#include "harness.h"

#include <poll.h>
#include <string.h>
#include <sys/resource.h>

TestSuite(overload, .init = world_open, .fini = world_close, .timeout = 180);

enum {
    CROWD = 1000,
    SILENT = 64,
    /* a machine that is busy with other things is late for some, but not for each of them over and
     * over: then 1,000 callers cost 60,000 refusals, and are not served in minutes */
    REFUSALS_MAX = 10 * CROWD,
};

enum stage { TAKING, GIVING, DONE };

static void allow_files(void)
{
    struct rlimit files;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void take(int wire, size_t caller)
{
    wire_say(wire, format("POST /locks/k%zu HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                          "0\r\n\r\n",
                          caller));
}

/* Handles the replies of one caller: it takes its lock, asks again if it is refused, and gives it
 * back. */
static enum stage go_on(int wire, size_t caller, enum stage stage, unsigned *refused)
{
    const struct reply *reply = wire_receive(wire, PATIENCE_MS);
    if (stage == GIVING) {
        cr_assert(reply->status == 204 || reply->status == 202, "%ld", reply->status);
        return DONE;
    }
    if (reply->status == 201) {
        wire_say(wire, format("DELETE /locks/k%zu HTTP/1.1\r\nHost: localhost\r\nLock-Token: "
                              "%s\r\n\r\n",
                              caller, token(reply)));
        return GIVING;
    }
    cr_assert_eq(reply->status, 503, "%ld %s", reply->status, reply->body);
    ++*refused;
    take(wire, caller);
    return TAKING;
}

/* With all rounds in flight at once next to none is decided in time, and each caller is refused
 * over and over. */
Test(overload, a_thousand_callers_at_once_are_served)
{
    static struct pollfd wires[CROWD];
    static enum stage stages[CROWD];
    allow_files();
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "50ms"});
    for (size_t i = 0; i < CROWD; i++)
        wires[i] = (struct pollfd){.fd = wire_open(agent), .events = POLLIN};
    for (size_t i = 0; i < CROWD; i++)
        take(wires[i].fd, i);
    unsigned refused = 0;
    for (size_t done = 0; done < CROWD;) {
        cr_assert_gt(poll(wires, CROWD, PATIENCE_MS), 0, "%zu are served, %u were refused", done,
                     refused);
        for (size_t i = 0; i < CROWD; i++) {
            if (wires[i].revents == 0)
                continue;
            stages[i] = go_on(wires[i].fd, i, stages[i], &refused);
            if (stages[i] != DONE)
                continue;
            done++;
            wire_close(wires[i].fd);
            wires[i].fd = -1;
        }
    }
    cr_log_info("%u refused of %d", refused, CROWD);
    cr_assert_lt(refused, REFUSALS_MAX, "%u rounds were undone for %d locks", refused, CROWD);
    const char *rounds = "lockagent_group_rounds_total{group=\"main\"}";
    cr_assert(eventually(metric(agent, rounds) >= CROWD));
    cr_assert(eventually(metric(agent, "lockagent_group_rounds_in_flight{group=\"main\"}") == 0));
    cr_assert_eq(metric(agent, "lockagent_group_rounds_waiting{group=\"main\"}"), 0);
}

/* Masters that are silent hold all places; after them no caller stays behind. */
Test(overload, the_line_goes_on_after_an_outage)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "300ms"});
    for (size_t m = 0; m < 3; m++)
        master_freeze(m);
    int wires[2 * SILENT];
    for (size_t i = 0; i < 2 * SILENT; i++)
        wires[i] = wire_request(agent, "POST", format("/locks/k%zu?wait=60s", i), NULL);
    cr_assert(eventually(metric(agent, "lockagent_group_rounds_in_flight{group=\"main\"}") > 0));
    cr_assert(eventually(metric(agent, "lockagent_group_rounds_waiting{group=\"main\"}") > 0));
    for (size_t m = 0; m < 3; m++)
        master_thaw(m);
    for (size_t i = 0; i < 2 * SILENT; i++) {
        expect(wire_receive(wires[i], 4 * PATIENCE_MS), 201, NULL);
        wire_close(wires[i]);
    }
    cr_assert(eventually(metric(agent, "lockagent_group_rounds_waiting{group=\"main\"}") == 0));
}
