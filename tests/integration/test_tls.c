/* TLS to the masters (D5.8): whole lives of locks over it, and each way in which it can fail, with
 * the reason that is reported. */
#include "harness.h"
#include "tls_flood.h"
#include "world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

TestSuite(tls, .init = world_open, .fini = world_close, .timeout = 120);

#define OF_CA "      tls: {ca_file: %s}\n"
#define WITH_CERTIFICATE "      tls: {ca_file: %s, cert_file: %s, key_file: %s}\n"

static bool is_ready(const struct agent *agent)
{
    return get(agent, "/readyz")->status == 200;
}

static const char *key_of(const char *name)
{
    return world_path(format("%s.key", name));
}

static struct agent *start_not_ready(const char *group)
{
    return agent_start(&(struct agent_options){.not_ready = true, .group = group});
}

/* The log and /readyz report why, metrics count it, and no lock is granted. */
static void expect_refusal(struct agent *agent, const char *why, const char *fault)
{
    cr_assert(eventually(strstr(get(agent, "/readyz")->body, why) != NULL), "%s\n%s",
              get(agent, "/readyz")->body, read_whole_file(agent->log));
    cr_assert(eventually(agent_logged(agent, "master state changed", why) > 0));
    const char *series =
        format("lockagent_master_tls_failures_total{group=\"main\",master=\"%s\",fault=\"%s\"}",
               strstr(master_url(0), "://") + 3, fault);
    cr_assert(eventually(metric(agent, series) > 0), "%s", series);
    expect(get(agent, "/readyz"), 503, NULL);
    expect(acquire(agent, "k", "ttl=2s"), 503, "quorum_unavailable");
    cr_assert_eq(agent_logged(agent, NULL, "PRIVATE"), 0u);
}

/* ---- it works ---- */

/* Renewals by the watchdog, and a waiter at another agent that is told of the release. */
Test(tls, life_of_a_lock)
{
    masters_start_over_tls(3, "yes");
    const char *group = format(WITH_CERTIFICATE, world_path("ca.pem"),
                               certificate("client", "ca", "DNS:agent", 2), key_of("client"));
    struct agent *first = agent_start(&(struct agent_options){.group = group});
    struct agent *second = agent_start(&(struct agent_options){.group = group});
    const struct reply *granted = acquire_free(first, "k", "ttl=6s&renew=agent");
    int waiter = wire_request(second, "POST", "/locks/k?ttl=20s&wait=20s", NULL);
    cr_assert(eventually(waiting_at(second) == 1));
    sleep_ms(6500); /* beyond the lease that was granted */
    cr_assert(held_here(first, "k"));
    cr_assert(eventually(strcmp(key_state(first, "k"), "held") == 0));
    cr_assert(eventually(masters_with("lock:k") == 3));
    const int64_t released = boottime_ms();
    give_back(first, "k", token(granted));
    const struct reply *next = wire_receive(waiter, 20000);
    expect(next, 201, NULL);
    cr_assert_lt(boottime_ms() - released, 5000);
    give_back(second, "k", token(next));
    cr_assert(eventually(masters_with("lock:k") == 0));
    wire_close(waiter);
}

/* D5.8: a connection that was established and has ended is no failure of TLS. */
Test(tls, the_end_of_a_connection_is_no_failure)
{
    masters_start_over_tls(1, "no");
    struct agent *agent =
        agent_start(&(struct agent_options){.group = format(OF_CA, world_path("ca.pem"))});
    const char *master = strstr(master_url(0), "://") + 3;
    const char *reconnects =
        format("lockagent_master_reconnects_total{group=\"main\",master=\"%s\"}", master);
    master_do(0, "CLIENT KILL TYPE normal SKIPME yes");
    cr_assert(eventually(metric(agent, reconnects) == 1));
    cr_assert(eventually(is_ready(agent)));
    cr_assert_eq(
        metric(agent, format("lockagent_master_tls_failures_total{group=\"main\",master=\"%s\","
                             "fault=\"silent\"}",
                             master)),
        0);
}

/* More than a record of TLS in one turn, in both directions: the keys of all are in one batch. */
Test(tls, many_at_once)
{
    enum { CALLERS = 100 };
    int wires[CALLERS];
    masters_start_over_tls(3, "no");
    struct agent *agent =
        agent_start(&(struct agent_options){.group = format(OF_CA, world_path("ca.pem"))});
    const char *key = repeat("long", 100);
    for (size_t i = 0; i < CALLERS; i++)
        wires[i] = wire_request(agent, "POST",
                                format("/locks/%s%zu?ttl=20s&wait=10s&renew=agent", key, i), NULL);
    for (size_t i = 0; i < CALLERS; i++) {
        expect(wire_receive(wires[i], 20000), 201, NULL);
        wire_close(wires[i]);
    }
    cr_assert(eventually(metric(agent, "lockagent_locks_held{policy=\"*\"}") == CALLERS));
}

/* The name that a certificate is for: the host of the URL, or the configured name. */
Test(tls, names)
{
    authority("ca");
    certificate("master", "ca", "DNS:localhost,DNS:masters.example", 2);
    masters_start_over_tls(1, "no");
    const char *port = strrchr(master_url(0), ':') + 1;
    agent_start(&(struct agent_options){
        .masters = format("['rediss://localhost:%s#127.0.0.1:%s']", port, port),
        .group = format(OF_CA, world_path("ca.pem"))});
    agent_start(&(struct agent_options){
        .group = format("      tls: {ca_file: %s, server_name: masters.example}\n",
                        world_path("ca.pem"))});
    expect_refusal(start_not_ready(format(OF_CA, world_path("ca.pem"))),
                   "tls: the master's certificate is for another name", "name");
    expect_refusal(start_not_ready(format("      tls: {ca_file: %s, server_name: example}\n",
                                          world_path("ca.pem"))),
                   "tls: the master's certificate is for another name", "name");
}

/* ---- when certificates end ---- */

static double ends(const struct agent *agent, const char *family, const char *labels)
{
    return metric(agent,
                  format("lockagent_%s_certificate_end_timestamp_seconds{%s}", family, labels));
}

/* Returns true if a point in unix time is `days` away. */
static bool is_in_days(double at_s, double days)
{
    double off_s = at_s - (double)time(NULL) - days * 86400;
    return off_s > -120 && off_s < 120;
}

static const char *labels_of(size_t master)
{
    return format("group=\"main\",master=\"%s\"", strstr(master_url(master), "://") + 3);
}

/* The master's chain ends with the first of its certificates: here with the authority's. */
Test(tls, the_end_of_an_authority)
{
    authority("ca"); /* For 2 days. */
    certificate("master", "ca", "IP:127.0.0.1", 9);
    masters_start_over_tls(1, "no");
    struct agent *agent =
        agent_start(&(struct agent_options){.group = format(OF_CA, world_path("ca.pem"))});
    cr_assert(is_in_days(ends(agent, "master", labels_of(0)), 2));
}

/* Metrics show both ends: that of each master's chain, and that of the agent's own certificate. The
 * latter also when its file is replaced while the connections stay. */
Test(tls, ends_of_certificates)
{
    authority("ca"); /* For 2 days. */
    certificate("master", "ca", "IP:127.0.0.1", 1);
    masters_start_over_tls(3, "yes");
    const char *group = format(WITH_CERTIFICATE, world_path("ca.pem"),
                               certificate("client", "ca", "DNS:agent", 9), key_of("client"));
    struct agent *agent = agent_start(&(struct agent_options){.group = group});
    for (size_t i = 0; i < 3; i++)
        cr_assert(is_in_days(ends(agent, "master", labels_of(i)), 1), "%s", labels_of(i));
    cr_assert(eventually(is_in_days(ends(agent, "client", "group=\"main\""), 9)));
    certificate("client", "ca", "DNS:agent", 30);
    cr_assert(eventually_within(15000, is_in_days(ends(agent, "client", "group=\"main\""), 30)));
    cr_assert(unlink(world_path("client.pem")) == 0);
    cr_assert(eventually_within(15000, ends(agent, "client", "group=\"main\"") == -1));
}

/* ---- how it fails ---- */

Test(tls, wrong_authority)
{
    masters_start_over_tls(3, "no");
    const char *why = "tls: the master's certificate is signed by no authority of ca_file";
    expect_refusal(start_not_ready(format(OF_CA, authority("other"))), why, "authority");
    /* The system's own do not know it either. */
    expect_refusal(start_not_ready(NULL), why, "authority");
}

Test(tls, expired)
{
    authority("ca");
    certificate("master", "ca", "IP:127.0.0.1", -1);
    masters_start_over_tls(3, "no");
    expect_refusal(start_not_ready(format(OF_CA, world_path("ca.pem"))),
                   "tls: the master's certificate, or its authority's, has expired", "expired");
}

Test(tls, another_address)
{
    authority("ca");
    certificate("master", "ca", "IP:127.0.0.2,DNS:localhost", 2);
    masters_start_over_tls(3, "no");
    expect_refusal(start_not_ready(format(OF_CA, world_path("ca.pem"))),
                   "tls: the master's certificate is for another name", "name");
}

Test(tls, client_certificate)
{
    masters_start_over_tls(3, "yes");
    const char *ca = world_path("ca.pem");
    authority("other");
    const char *stranger = format(
        WITH_CERTIFICATE, ca, certificate("stranger", "other", "DNS:agent", 2), key_of("stranger"));
    expect_refusal(start_not_ready(format(OF_CA, ca)),
                   "tls: the master asks for a client certificate", "refused");
    expect_refusal(start_not_ready(stranger),
                   "tls: the master does not know the authority of the certificate", "refused");
    for (size_t i = 0; i < master_count(); i++)
        master_do(i, "CONFIG SET tls-protocols TLSv1.2");
    expect_refusal(start_not_ready(format(OF_CA, ca)), "tls: the master refuses the handshake",
                   "refused");
    agent_start(&(struct agent_options){.group = format(WITH_CERTIFICATE, ca,
                                                        certificate("client", "ca", "DNS:agent", 2),
                                                        key_of("client"))});
}

/* One side speaks TLS and the other does not. */
Test(tls, in_the_clear)
{
    masters_start(1, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){
        .not_ready = true, .masters = format("['rediss%s']", strstr(master_url(0), "://"))});
    cr_assert(eventually(strstr(get(agent, "/readyz")->body, "\"reason\":\"tls: ") != NULL));
    const char *body = get(agent, "/readyz")->body;
    cr_assert(strstr(body, "tls: no answer for") || strstr(body, "speaks no TLS on this port"),
              "%s", body);
}

Test(tls, without_it)
{
    masters_start_over_tls(1, "no");
    struct agent *agent = agent_start(&(struct agent_options){
        .not_ready = true, .masters = format("['redis%s']", strstr(master_url(0), "://"))});
    cr_assert(
        eventually(agent_logged(agent, "master state changed", "a port for TLS (rediss://)?") > 0),
        "%s", read_whole_file(agent->log));
}

/* A master that stops within the handshake costs its own vote, in bounded time. */
Test(tls, silent)
{
    masters_start_over_tls(3, "no");
    struct agent *agent =
        agent_start(&(struct agent_options){.group = format(OF_CA, world_path("ca.pem"))});
    master_do(0, "CLIENT KILL TYPE normal SKIPME yes");
    master_freeze(0);
    cr_assert(eventually(agent_logged(agent, "master state changed", "tls: no answer for") > 0),
              "%s", read_whole_file(agent->log));
    expect(acquire(agent, "k", "ttl=2s&wait=5s"), 201, NULL);
    master_thaw(0);
    cr_assert(eventually(metric(agent, "lockagent_group_masters_up{group=\"main\"}") == 3));
}

Test(tls, versions_of_old)
{
    masters_start_over_tls(1, "no");
    master_do(0, "CONFIG SET tls-ciphers ALL:@SECLEVEL=0");
    master_do(0, "CONFIG SET tls-protocols TLSv1.1");
    expect_refusal(start_not_ready(format(OF_CA, world_path("ca.pem"))),
                   "tls: the master does not speak TLS 1.2 or 1.3", "other");
}

Test(tls, our_files)
{
    masters_start_over_tls(1, "no");
    const char *ca = world_path("ca.pem");
    certificate("client", "ca", "DNS:agent", 2);
    const char *client = world_path("client.pem");
    expect_refusal(start_not_ready(format(OF_CA, "/nowhere")),
                   "tls: ca_file: No such file or directory", "files");
    expect_refusal(start_not_ready(format(OF_CA, write_file("text", "no certificate\n"))),
                   "tls: ca_file: holds no certificate in PEM", "files");
    expect_refusal(start_not_ready(format(WITH_CERTIFICATE, ca, client, key_of("master"))),
                   "tls: key_file: is not the key of the certificate in cert_file", "files");
}

/* The log gives no hint of a port for TLS: the master spoke TLS. */
Test(tls, a_master_that_ends_after_its_handshake)
{
    masters_start_over_tls(1, "no");
    const int port = tls_flood_start(FLOOD_NOTHING, world_path("master.pem"), key_of("master"));
    struct agent *agent =
        agent_start(&(struct agent_options){.masters = format("['rediss://127.0.0.1:%d']", port),
                                            .group = format(OF_CA, world_path("ca.pem")),
                                            .not_ready = true});
    cr_assert(eventually(agent_logged(agent, "master state changed", "\"state\":\"down\"") > 0));
    cr_assert_eq(agent_logged(agent, "master state changed", "a port for TLS"), 0u, "%s",
                 read_whole_file(agent->log));
    agent_kill(agent);
    tls_flood_stop();
}

/* Holds locks of short leases for several leases while a master floods. Returns whether all of them
 * lived. On a busy machine the agent may be late, and say so of locks that it lost. */
static bool holds_live(const struct agent *agent)
{
    enum { HOLDS = 20 };
    const struct reply *granted[HOLDS];
    const size_t lost = agent_logged(agent, "lock lost", ""),
                 stalled = agent_logged(agent, "lock lost", "\"reason\":\"stalled\"");
    for (size_t i = 0; i < HOLDS; i++)
        granted[i] = acquire_free(agent, format("k%zu", i), "ttl=2s&renew=agent");
    const size_t sent = tls_flood_records();
    sleep_ms(6000);
    cr_assert_gt(tls_flood_records(), sent + 1000, "it floods");
    bool released = true;
    for (size_t i = 0; i < HOLDS; i++) {
        const long status = release(agent, format("k%zu", i), token(granted[i]))->status;
        released &= status == 204 || status == 202;
    }
    cr_assert(eventually(metric(agent, "lockagent_locks_tracked") == 0));
    const size_t losses = agent_logged(agent, "lock lost", "") - lost;
    cr_assert_eq(losses, agent_logged(agent, "lock lost", "\"reason\":\"stalled\"") - stalled, "%s",
                 read_whole_file(agent->log));
    cr_assert(released || losses > 0);
    return losses == 0;
}

/* A master that sends records without data, as fast as it can, costs no caller a lock: each is an
 * iteration of the loop. */
static void flooded(enum flood flood)
{
    enum { TRIES = 3 };
    masters_start_over_tls(4, "no");
    const int port = tls_flood_start(flood, world_path("master.pem"), key_of("master"));
    const char *list = "";
    for (size_t i = 0; i < 4; i++)
        list = format("%s'%s', ", list, master_url(i));
    struct agent *agent = agent_start(
        &(struct agent_options){.masters = format("[%s'rediss://127.0.0.1:%d']", list, port),
                                .group = format(OF_CA, world_path("ca.pem"))});
    bool lived = false;
    for (int try = 0; try < TRIES && !lived; try++)
        lived = holds_live(agent);
    cr_assert(lived, "%s", read_whole_file(agent->log));
    tls_flood_stop();
}

Test(tls, key_updates_without_end)
{
    flooded(FLOOD_KEY_UPDATES);
}

Test(tls, hello_requests_without_end)
{
    flooded(FLOOD_HELLO_REQUESTS);
}

/* ---- changes of files under it */

/* An authority is replaced by another one, and then a client's certificate, without a restart. */
Test(tls, rotation)
{
    masters_start_over_tls(3, "yes");
    const char *ca = world_path("ca.pem");
    const char *group = format(WITH_CERTIFICATE, write_file("trusted.pem", read_whole_file(ca)),
                               certificate("client", "ca", "DNS:agent", 2), key_of("client"));
    struct agent *agent = agent_start(&(struct agent_options){.group = group});
    const struct reply *granted = acquire(agent, "k", "ttl=20s");
    expect(granted, 201, NULL);
    authority("next");
    certificate("renewed", "next", "IP:127.0.0.1", 2);
    write_file("both.pem",
               format("%s%s", read_whole_file(ca), read_whole_file(world_path("next.pem"))));
    for (size_t i = 0; i < 3; i++) {
        master_do(i, "CONFIG SET tls-cert-file %s tls-key-file %s tls-ca-cert-file %s",
                  world_path("renewed.pem"), key_of("renewed"), world_path("both.pem"));
        master_do(i, "CLIENT KILL TYPE normal SKIPME yes");
    }
    cr_assert(eventually(
        agent_logged(agent, "master state changed", "signed by no authority of ca_file") > 0));
    write_file("trusted.pem", read_whole_file(world_path("next.pem")));
    cr_assert(eventually(metric(agent, "lockagent_group_masters_up{group=\"main\"}") == 3));
    expect(renew(agent, "k", token(granted), NULL), 200, NULL);
    certificate("client", "next", "DNS:agent", 2);
    const size_t downs = agent_logged(agent, "master state changed", "\"state\":\"down\"");
    for (size_t i = 0; i < 3; i++) {
        master_do(i, "CONFIG SET tls-ca-cert-file %s", world_path("next.pem"));
        master_do(i, "CLIENT KILL TYPE normal SKIPME yes");
    }
    cr_assert(
        eventually(agent_logged(agent, "master state changed", "\"state\":\"down\"") >= downs + 3));
    cr_assert(eventually(metric(agent, "lockagent_group_masters_up{group=\"main\"}") == 3));
    give_back(agent, "k", token(granted));
}

/* Reading a file with all public authorities takes long, so connections share its contents. */
Test(tls, files_are_read_once)
{
    masters_start_over_tls(3, "no");
    const char *trusted = write_file("trusted.pem", read_whole_file(world_path("ca.pem")));
    struct agent *agent = agent_start(&(struct agent_options){.group = format(OF_CA, trusted)});
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    cr_assert_geq(inotify_add_watch(watch, trusted, IN_OPEN), 0);
    for (size_t i = 0; i < 3; i++)
        master_do(i, "CLIENT KILL TYPE normal SKIPME yes");
    cr_assert(eventually(agent_logged(agent, "master state changed", "\"state\":\"up\"") >= 6));
    expect(acquire(agent, "k", "ttl=2s"), 201, NULL);
    char events[4096];
    cr_assert_eq(read(watch, events, sizeof(events)), -1, "it was opened again");
    cr_assert_eq(errno, EAGAIN);
    close(watch);
}

/* A master whose handshakes fail has them read again, but not at each try. */
Test(tls, files_are_not_read_for_each_handshake_that_fails)
{
    masters_start_over_tls(3, "no");
    const char *trusted = write_file("trusted.pem", read_whole_file(world_path("ca.pem")));
    struct agent *agent = agent_start(&(struct agent_options){.group = format(OF_CA, trusted)});
    authority("other");
    certificate("foreign", "other", "IP:127.0.0.1", 2);
    master_do(0, "CONFIG SET tls-cert-file %s tls-key-file %s", world_path("foreign.pem"),
              key_of("foreign"));
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    cr_assert_geq(inotify_add_watch(watch, trusted, IN_OPEN), 0);
    master_do(0, "CLIENT KILL TYPE normal SKIPME yes");
    const char *failures =
        format("lockagent_master_tls_failures_total{group=\"main\",master=\"%s\",fault=\"%s\"}",
               strstr(master_url(0), "://") + 3, "authority");
    cr_assert(eventually(metric(agent, failures) >= 10));
    size_t reads = 0;
    char events[sizeof(struct inotify_event)];
    while (read(watch, events, sizeof(events)) == (ssize_t)sizeof(events))
        reads++;
    cr_assert(reads >= 1 && reads <= 5, "%zu times for %g failures", reads,
              metric(agent, failures));
    close(watch);
}

/* ---- commands ---- */

Test(tls, trust)
{
    masters_start_over_tls(3, "no");
    for (size_t i = 0; i < 3; i++)
        master_do(i, "FLUSHALL");
    struct agent *agent =
        start_not_ready(format("      durable: false\n" OF_CA, world_path("ca.pem")));
    cr_assert(eventually(metric(agent, "lockagent_group_masters_up{group=\"main\"}") == 3));
    expect(acquire(agent, "k", "ttl=2s"), 503, "quorum_unavailable");
    struct outcome outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    cr_assert(eventually(is_ready(agent)), "%s", get(agent, "/readyz")->body);
    expect(acquire(agent, "k", "ttl=2s"), 201, NULL);
    const char *config =
        agent_config(&(struct agent_options){.group = format(OF_CA, authority("other"))});
    outcome = agent_run((const char *[]){"trust", config, NULL});
    cr_assert_eq(outcome.exit_status, 1);
    cr_assert_not_null(strstr(outcome.out, "tls: the master's certificate is signed by no"), "%s",
                       outcome.out);
    for (size_t i = 0; i < 3; i++)
        master_do(i, "CONFIG SET tls-auth-clients yes");
    outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_eq(outcome.exit_status, 1);
    cr_assert_not_null(strstr(outcome.out, "tls: the master asks for a client certificate"), "%s",
                       outcome.out);
}

Test(tls, run)
{
    masters_start_over_tls(3, "no");
    const char *config =
        agent_config(&(struct agent_options){.group = format(OF_CA, world_path("ca.pem"))});
    const struct outcome outcome =
        agent_run((const char *[]){"run", "-c", config, "k", "--", "echo", "done", NULL});
    cr_assert_eq(outcome.exit_status, 0, "%s", outcome.err);
    cr_assert_str_eq(outcome.out, "done\n");
    cr_assert(eventually(masters_with("lock:k") == 0));
}

static struct outcome check(const char *tls)
{
    const char *path = write_file("check.yaml", format("redis:\n"
                                                       "  groups:\n"
                                                       "    main:\n"
                                                       "      masters: ['rediss://h1']\n"
                                                       "      tls: {%s}\n",
                                                       tls));
    return agent_run((const char *[]){"check", path, NULL});
}

static void expect_found(const char *tls, int status, const char *says)
{
    const struct outcome outcome = check(tls);
    cr_assert_eq(outcome.exit_status, status, "%s: %s", tls, outcome.err);
    cr_assert_not_null(strstr(outcome.err, says), "%s: %s", tls, outcome.err);
}

/* `check` looks into the files. */
Test(tls, check)
{
    const char *ca = authority("ca"), *client = certificate("client", "ca", "DNS:agent", 2),
               *key = key_of("client"), *encrypted = world_path("encrypted.key"),
               *old = certificate("old", "ca", "DNS:agent", -1);
    const char *pair = format("cert_file: %s, key_file: %s", client, key);
    cr_assert_eq(chmod(key, 0600), 0);
    cr_assert_eq(check(format("ca_file: %s, %s", ca, pair)).exit_status, 0);
    cr_assert_str_eq(check(format("ca_file: %s, %s", ca, pair)).err, "");
    expect_found("ca_file: /nowhere", 1,
                 "check.yaml: redis.groups.main.tls.ca_file: No such file or directory\n");
    expect_found("ca_file: /dev/null", 1, "tls.ca_file: is not a regular file\n");
    expect_found(format("ca_file: %s", key), 1, "tls.ca_file: holds no certificate in PEM\n");
    expect_found(format("cert_file: %s, key_file: %s", key, key), 1,
                 "tls.cert_file: holds no certificate in PEM that can be used\n");
    expect_found(format("cert_file: %s, key_file: %s", client, client), 1,
                 "tls.key_file: holds no private key in PEM\n");
    expect_found(format("cert_file: %s, key_file: %s", client, key_of("ca")), 1,
                 "tls.key_file: is not the key of the certificate in cert_file\n");
    expect_found(format("cert_file: %s, key_file: %s", old, key_of("old")), 1,
                 "tls.cert_file: the certificate has expired\n");
    program_run("openssl",
                (const char *[]){"ec", "-in", key, "-aes128", "-passout", "pass:word", "-out",
                                 encrypted, NULL},
                NULL);
    expect_found(format("cert_file: %s, key_file: %s", client, encrypted), 1,
                 "tls.key_file: the key is encrypted; allowed: a key without a passphrase\n");
    cr_assert_eq(chmod(key, 0640), 0);
    expect_found(pair, 0,
                 "tls.key_file: warning: users other than its owner may read the private key");
}

/* An agent warns and starts: a file may come later. */
Test(tls, warns_at_the_start)
{
    masters_start_over_tls(1, "no");
    certificate("client", "ca", "DNS:agent", 2);
    cr_assert_eq(chmod(key_of("client"), 0644), 0);
    struct agent *agent = agent_start(
        &(struct agent_options){.group = format(WITH_CERTIFICATE, world_path("ca.pem"),
                                                world_path("client.pem"), key_of("client"))});
    cr_assert_eq(agent_logged(agent, "TLS file has a fault", "may read the private key"), 1u);
}

/* If OpenSSL has no algorithms, that is said. */
Test(tls, broken_openssl)
{
    const char *broken = write_file("openssl.cnf", "openssl_conf = all\n[all]\nproviders = some\n"
                                                   "[some]\nnull = none\n[none]\nactivate = 1\n");
    const char *path =
        write_file("check.yaml", "redis: {groups: {main: {masters: ['rediss://h']}}}");
    const struct outcome outcome = program_run(
        "env",
        (const char *[]){format("OPENSSL_CONF=%s", broken),
                         format("%s/lockagent", getenv("LOCKAGENT_BUILD")), "check", path, NULL},
        NULL);
    cr_assert_eq(outcome.exit_status, 1);
    cr_assert_not_null(strstr(outcome.err, "OpenSSL cannot be used"), "%s", outcome.err);
}

/* ---- OpenSSL is loaded only if a master uses TLS ---- */

static bool has_mapped(const struct agent *agent, const char *library)
{
    return strstr(read_whole_file(format("/proc/%d/maps", (int)agent->pid)), library) != NULL;
}

Test(tls, openssl_is_loaded_only_for_a_master_over_tls)
{
    if (!is_privileged())
        cr_skip_test("only root may see the memory map of an agent");
    masters_start(1, MASTERS_FORGETFUL);
    const struct agent *plain = agent_start(NULL);
    cr_assert(has_mapped(plain, "/libuv.so"));
    cr_assert_not(has_mapped(plain, "/libssl.so"));
    cr_assert_not(has_mapped(plain, "/libcrypto.so"));
    const struct agent *over_tls = agent_start(
        &(struct agent_options){.masters = "['rediss://127.0.0.1:1']", .not_ready = true});
    cr_assert(has_mapped(over_tls, "/libssl.so"));
    cr_assert(has_mapped(over_tls, "/libcrypto.so"));
}

static const char *config_for(const char *master)
{
    return write_file(NULL, format("listen: 127.0.0.1:0\n"
                                   "redis: {groups: {main: {masters: ['%s']}}}\n",
                                   master));
}

/* Runs the agent with a command line. Libraries of the world's folder come first. */
static struct outcome run_with_our_libraries(const char *line)
{
    const char *script = format("LD_LIBRARY_PATH='%s' exec %s/lockagent %s", world_path(""),
                                getenv("LOCKAGENT_BUILD"), line);
    return program_run("sh", (const char *[]){"-c", script, NULL}, NULL);
}

/* Each command that connects to masters fails at once, and names the file and the function. */
static void expect_not_loaded(const char *reason)
{
    masters_start(1, MASTERS_FORGETFUL);
    const char *config = config_for(format("rediss%s", strstr(master_url(0), "://")));
    const char *lines[] = {format("check %s", config), format("serve --config %s", config),
                           format("run -c %s k -- echo done", config), format("trust %s", config)};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const struct outcome outcome = run_with_our_libraries(lines[i]);
        const char *said = format("%s%s", outcome.out, outcome.err);
        cr_assert_gt(outcome.exit_status, 0, "%s: %s", lines[i], said);
        cr_assert_not_null(strstr(said, format("tls: OpenSSL cannot be loaded: %s", reason)),
                           "%s: %s", lines[i], said);
    }
    config = config_for(master_url(0));
    const struct outcome outcome = run_with_our_libraries(format("check %s", config));
    cr_assert_eq(outcome.exit_status, 0, "without TLS: %s", outcome.err);
}

Test(tls, a_library_that_cannot_be_loaded_is_named)
{
    expect_not_loaded(format("%s: file too short", write_file("libssl.so.3", "none\n")));
}

/* A copy of another library is a libssl without functions of OpenSSL. */
Test(tls, a_function_that_is_missing_is_named)
{
    const char *maps = read_whole_file("/proc/self/maps");
    const char *name = strstr(maps, "/libjansson.so"), *path = name;
    cr_assert_not_null(name);
    while (path[-1] != ' ')
        path--;
    const char *copy = world_path("libssl.so.3");
    program_run("cp", (const char *[]){format("%.*s", (int)strcspn(path, "\n"), path), copy, NULL},
                NULL);
    expect_not_loaded(format("%s: undefined symbol: OPENSSL_init_ssl", copy));
}
