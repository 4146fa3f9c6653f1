/* A new durable group votes at once (D5.3): many first deployments, with three real agents that
 * meet its masters at unequal speed, one master by TCP and four by unix socket behind the fault
 * proxy. */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(birth, .init = world_open, .fini = world_close, .timeout = 150);

enum { MASTERS = 5, PROXIED = MASTERS - 1, AGENTS = 3, ROUNDS = 12, DELAY_US_MAX = 70000 };

static struct proxy {
    pid_t pid;
    FILE *commands, *answers;
    int ports[AGENTS * PROXIED];
} proxy;

static void become_proxy(const int *in, const int *out)
{
    const char *arguments[AGENTS * PROXIED + 2] = {
        format("%s/tests/faults/fault-proxy", getenv("LOCKAGENT_BUILD"))};
    for (size_t i = 0; i < AGENTS * PROXIED; i++)
        arguments[i + 1] = master_url(1 + i % PROXIED) + strlen("unix:");
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(in[1]);
    execv(arguments[0], (char **)(uintptr_t)arguments);
    _exit(127);
}

static void proxy_start(void)
{
    int in[2], out[2];
    cr_assert(pipe(in) == 0 && pipe(out) == 0);
    proxy.pid = fork();
    if (proxy.pid == 0)
        become_proxy(in, out);
    close(in[0]);
    close(out[1]);
    proxy.commands = fdopen(in[1], "w");
    proxy.answers = fdopen(out[0], "r");
    cr_assert_eq(fscanf(proxy.answers, "ports"), 0);
    for (size_t i = 0; i < AGENTS * PROXIED; i++)
        cr_assert_eq(fscanf(proxy.answers, "%d", &proxy.ports[i]), 1);
    cr_assert_eq(fgetc(proxy.answers), '\n');
}

/* The proxy ends with its stdin. */
static void proxy_stop(void)
{
    fclose(proxy.commands);
    fclose(proxy.answers);
    cr_assert_eq(waitpid(proxy.pid, NULL, 0), proxy.pid);
}

static void proxy_do(const char *command)
{
    char answer[80];
    fprintf(proxy.commands, "%s\n", command);
    fflush(proxy.commands);
    cr_assert_not_null(fgets(answer, sizeof(answer), proxy.answers));
    cr_assert_str_eq(answer, "ok\n", "%s: %s", command, answer);
}

/* Every link has a delay of its own, so that no two masters are met at once. */
static void draw_delays(unsigned *random)
{
    for (size_t i = 0; i < AGENTS * PROXIED; i++)
        proxy_do(
            format("%zu delay_us=%d", i, rand_r(random) % 3 ? rand_r(random) % DELAY_US_MAX : 0));
}

static const char *masters_of(size_t agent)
{
    const char *list = format("'%s'", master_url(0));
    for (size_t i = 0; i < PROXIED; i++)
        list = format("%s, 'redis://127.0.0.1:%d'", list, proxy.ports[agent * PROXIED + i]);
    return format("[%s]", list);
}

static double votes(const struct agent *agent)
{
    return metric(agent, "lockagent_group_masters_voting{group=\"main\"}");
}

static void expect_no_guard(const struct agent *agent, size_t round)
{
    cr_assert(eventually(votes(agent) == MASTERS), "round %zu: %s", round,
              get(agent, "/readyz")->body);
    const char *guarded = agent_log_line(agent, "master", "guarded_ms");
    cr_assert_null(guarded, "round %zu: %s", round, guarded);
}

/* What the agents of the round before sent may still be in the proxy: a marker that comes late
 * would make the group an old one. */
static void forget_all(void)
{
    for (size_t i = 0; i < MASTERS; i++) {
        cr_assert(
            eventually(strstr(master_do(i, "INFO clients")->str, "connected_clients:1\r") != NULL));
        master_do(i, "FLUSHALL");
    }
}

static void deploy(size_t round, bool cuts)
{
    unsigned random = (unsigned)round * 7919 + 1;
    struct agent *agents[AGENTS];
    forget_all();
    draw_delays(&random);
    for (size_t i = 0; i < AGENTS; i++) {
        agents[i] =
            agent_start(&(struct agent_options){.masters = masters_of(i), .not_ready = true});
        sleep_ms(rand_r(&random) % 60);
    }
    for (size_t i = 0; cuts && i < 3; i++) {
        sleep_ms(rand_r(&random) % 150);
        proxy_do(format("%d,%d cut=1", rand_r(&random) % (AGENTS * PROXIED),
                        rand_r(&random) % (AGENTS * PROXIED)));
    }
    for (size_t i = 0; i < AGENTS; i++)
        expect_no_guard(agents[i], round);
    expect(acquire(agents[round % AGENTS], "k", "ttl=5s"), 201, NULL);
    for (size_t i = 0; i < AGENTS; i++)
        agent_kill(agents[i]);
}

static void deploy_often(bool cuts)
{
    masters_start_with(MASTERS, MASTERS_FORGETFUL, "--maxclients", "1000");
    proxy_start();
    for (size_t round = 0; round < ROUNDS; round++)
        deploy(round, cuts);
    proxy_stop();
}

Test(birth, a_first_deployment_is_never_guarded)
{
    deploy_often(/* cuts= */ false);
}

Test(birth, nor_where_connections_end_meanwhile)
{
    deploy_often(/* cuts= */ true);
}
