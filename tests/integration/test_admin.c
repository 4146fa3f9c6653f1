/* The access to the agent, and the data that it shows: listeners, bearer token, metrics, health,
 * the list of locks, and no secrets (D3, D7, D9). */
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(admin, .init = world_open, .fini = world_close, .timeout = 60);

/* The admin listener serves metrics and health to every client that reaches it, and never a
 * lock. */
Test(admin, the_admin_listener_serves_no_locks)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    static const char *const pages[] = {
        "/metrics", "/livez", "/readyz", "/healthz", "/openapi.yaml", "/openapi-3.0.yaml", "/"};
    for (size_t i = 0; i < sizeof(pages) / sizeof(*pages); i++) {
        expect(http(agent, &(struct call){.path = pages[i], .admin = true}), 200, NULL);
        /* D9: neither Host nor Origin are checked there: kubelet and Prometheus come to the pod's
         * address. */
        const struct call call = {.path = pages[i],
                                  .admin = true,
                                  .headers = {"Host: 10.1.2.3:9090", "Origin: http://x"}};
        expect(http(agent, &call), 200, NULL);
    }
    static const char *const methods[] = {"POST", "PUT", "DELETE", "GET"};
    for (int i = 0; i < 4; i++) {
        expect(http(agent, &(struct call){.method = methods[i], .path = "/locks/k", .admin = true}),
               404, NULL);
        expect(http(agent, &(struct call){.method = methods[i], .path = "/locks", .admin = true}),
               404, NULL);
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
    acquire_free(agent, "k", "ttl=5s");
}

/* The unix socket has the mode that was asked for, needs no Host, and goes away with the agent. */
Test(admin, a_unix_socket)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *path = world_path("api.sock"), *strict = world_path("strict.sock");
    struct stat about;
    struct agent *agent = agent_start(&(struct agent_options){.unix_path = path});
    cr_assert_eq(stat(path, &about), 0);
    cr_assert(S_ISSOCK(about.st_mode));
    cr_assert_eq(about.st_mode & 0777, 0660u, "%o", about.st_mode & 0777);
    const struct reply *granted = http(agent, &(struct call){.method = "POST",
                                                             .path = "/locks/k?ttl=20s",
                                                             .over_unix = true,
                                                             .headers = {"Host: anything"}});
    expect(granted, 201, NULL);
    expect_lock_held(agent, "k", NULL);
    give_back(agent, "k", token(granted));
    expect(http(agent, &(struct call){.path = "/livez",
                                      .over_unix = true,
                                      .headers = {"Origin: http://localhost"}}),
           403, "origin_refused");
    cr_assert_eq(agent_stop(agent), 0);
    cr_assert_neq(access(path, F_OK), 0, "the socket's file is left behind");

    /* A file that is left by a killed agent does not prevent the start. */
    struct agent *second =
        agent_start(&(struct agent_options){.listen = format("unix:%s", strict),
                                            .unix_path = strict,
                                            .extra = "api: {socket_mode: 0600}\n"});
    cr_assert_eq(stat(strict, &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0600u, "%o", about.st_mode & 0777);
    acquire_free(second, "k", "ttl=20s");
    agent_kill(second);
    cr_assert_eq(access(strict, F_OK), 0);
    agent_restart(second);
    expect_lock_held(second, "k", NULL);
    /* The socket of a living agent is not taken away from it. */
    const char *arguments[] = {"serve", "--config", second->config, NULL};
    cr_assert_neq(agent_run(arguments).exit_status, 0);
    acquire_free(second, "k2", "ttl=2s");
}

/* D9: with a token file every lock call carries the bearer token; it is read again on reload. */
Test(admin, bearer_token)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *file = write_file("bearer", "sesame-open-1234567890\n");
    struct agent *agent = agent_start(&(struct agent_options){
        .admin = true, .not_ready = true, .extra = format("api: {token_file: %s}\n", file)});
    cr_assert(
        eventually(http(agent, &(struct call){.path = "/readyz", .admin = true})->status == 200));
    static const char *const wrong[] = {
        "Authorization: Bearer wrong",
        "Authorization: Bearer sesame-open-123456789",
        "Authorization: Bearer sesame-open-12345678901",
        "Authorization: Basic sesame-open-1234567890",
        "Authorization: sesame-open-1234567890",
        "Authorization:",
        "X-None: 1",
        "Authorization: Bearer ",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        static const char *const methods[] = {"POST", "PUT", "DELETE", "GET"};
        for (int m = 0; m < 4; m++) {
            const struct call call = {
                .method = methods[m], .path = "/locks/k", .headers = {wrong[i]}};
            const struct reply *refused = http(agent, &call);
            expect(refused, 401, "unauthorized");
            cr_assert_not_null(header(refused, "WWW-Authenticate"));
        }
        expect(http(agent, &(struct call){.path = "/locks", .headers = {wrong[i]}}), 401,
               "unauthorized");
    }
    agent->bearer = "sesame-open-1234567890";
    acquire_free(agent, "k", "ttl=20s");
    expect(get(agent, "/locks/k"), 200, NULL);
    expect(http(agent, &(struct call){.path = "/metrics", .admin = true}), 200, NULL);
    cr_assert_eq(agent_logged(agent, NULL, "sesame"), 0u);
}

/* The page has Prometheus's format, counts the events of the test, and starts every known value at
 * 0. */
Test(admin, metrics)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    static const char *const arguments[] = {"check", "metrics", NULL};
    for (int round = 0; round < 2; round++) {
        const struct reply *page = get(agent, "/metrics");
        expect(page, 200, NULL);
        cr_assert_not_null(strstr(header(page, "Content-Type"), "text/plain; version=0.0.4"));
        const struct outcome promtool =
            program_run("promtool", arguments, write_file("page", page->body));
        cr_assert_eq(promtool.exit_status, 0, "%s%s", promtool.out, promtool.err);
        cr_assert_null(strstr(page->body, "very-secret-key"), "never the key as a label");
        if (round)
            break;
        const struct reply *granted =
            acquire(agent, "very-secret-key", "ttl=5s&label=very-public-label");
        expect(granted, 201, NULL);
        expect_lock_held(agent, "very-secret-key", NULL);
        expect(renew(agent, "very-secret-key", token(granted), NULL), 200, NULL);
        give_back(agent, "very-secret-key", token(granted));
    }
    cr_assert_eq(metric(agent, "lockagent_waiters"), 0);
    cr_assert_eq(metric(agent, "lockagent_locks_held{policy=\"*\"}"), 0);
    cr_assert_gt(metric(agent, "process_resident_memory_bytes"), 0);
    acquire_free(agent, "held", "ttl=20s");
    cr_assert_eq(metric(agent, "lockagent_locks_held{policy=\"*\"}"), 1);
}

/* Locks held and waited for by this agent, page by page; labels, never a token. */
Test(admin, the_list_of_locks)
{
    enum { LOCKS = 25 };
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const char *tokens[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        const struct reply *granted =
            acquire(agent, format("list/%d", i), format("ttl=60s&label=label-%d", i));
        expect(granted, 201, NULL);
        tokens[i] = token(granted);
    }
    const int waiter = wire_request(agent, "POST", "/locks/list/0?wait=60s", NULL);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 1));

    bool seen[LOCKS] = {false};
    size_t pages = 0, found = 0;
    const char *next = "/locks?limit=10";
    while (next) {
        const struct reply *page = get(agent, next);
        expect(page, 200, NULL);
        const json_t *locks = member(page, "held"), *lock;
        cr_assert(json_is_array(locks), "%s", page->body);
        cr_assert_leq(json_array_size(locks), 10u);
        size_t index;
        json_array_foreach(locks, index, lock)
        {
            int i = -1;
            const char *key = json_string_value(json_object_get(lock, "key"));
            cr_assert(key && sscanf(key, "list/%d", &i) == 1 && i >= 0 && i < LOCKS, "%s",
                      page->body);
            cr_assert_not(seen[i], "%s twice", key);
            cr_assert_str_eq(json_string_value(json_object_get(lock, "label")),
                             format("label-%d", i));
            seen[i] = true;
            found++;
        }
        for (int i = 0; i < LOCKS; i++)
            cr_assert_null(strstr(page->body, format("%.40s", tokens[i])),
                           "a list never shows a token");
        const char *cursor = string(page, "next_cursor");
        next = cursor ? format("/locks?limit=10&cursor=%s", cursor) : NULL;
        cr_assert_leq(++pages, 10u);
    }
    cr_assert_eq(found, (size_t)LOCKS);
    cr_assert_geq(pages, 3u);
    const struct reply *all = get(agent, "/locks");
    cr_assert_eq(json_array_size(member(all, "held")), (size_t)LOCKS);
    const json_t *first = json_array_get(member(all, "waiting"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(first, "key")), "list/0");
    cr_assert_geq(json_integer_value(json_object_get(first, "waited_ms")), 0);
    for (int i = 0; i < 5; i++)
        expect(get(agent, format("/locks?%s", (const char *[]){"limit=0", "limit=x", "limit=-1",
                                                               "x=1", "limit=1&limit=1"}[i])),
               400, "bad_request");
    wire_close(waiter);
}

/* /readyz says which masters are missing; /livez never cares. */
Test(admin, health)
{
    masters_start(3, MASTERS_DURABLE);
    struct agent *agent = agent_start(NULL);
    expect(get(agent, "/readyz"), 200, NULL);
    expect(get(agent, "/healthz"), 200, NULL);
    master_kill(0);
    master_kill(1);
    cr_assert(eventually(get(agent, "/readyz")->status == 503));
    cr_assert_not_null(strstr(get(agent, "/readyz")->body, "main"), "the group is named: %s",
                       get(agent, "/readyz")->body);
    expect(get(agent, "/livez"), 200, NULL);
    master_start(0);
    cr_assert(eventually(get(agent, "/readyz")->status == 200));
}

/* R10: after all kinds of calls neither log nor metrics nor lists show a token, its random part, or
 * an API secret. */
Test(admin, secrets_stay_secret)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *bearer = "a-bearer-token-that-nobody-may-see";
    struct agent *agent = agent_start(&(struct agent_options){
        .admin = true,
        .not_ready = true,
        .extra = format("api: {token_file: %s}\n", write_file("bearer", bearer))});
    cr_assert(
        eventually(http(agent, &(struct call){.path = "/readyz", .admin = true})->status == 200));
    agent->bearer = bearer;
    const struct reply *granted = acquire(agent, "k", "ttl=2s&label=public");
    const struct reply *lost = acquire(agent, "lost", "ttl=1s");
    const char *secrets[] = {token(granted), token(lost),
                             "00112233445566778899aabbccddeeff00112233.7"};
    expect(renew(agent, "k", secrets[0], NULL), 200, NULL);
    renew(agent, "k", secrets[2], NULL);
    release(agent, "k", secrets[2]);
    http(agent,
         &(struct call){.method = "PUT", .path = format("/locks/k?token=%s&ttl=1x", secrets[0])});
    http(agent, &(struct call){.method = "PUT", .path = "/locks/k?token=what-a-malformed-token"});
    sleep_ms(1200);
    renew(agent, "lost", secrets[1], NULL);
    for (size_t i = 0; i < 3; i++)
        master_kill(i);
    renew(agent, "k", secrets[0], NULL);
    release(agent, "k", secrets[0]);
    const char *places[] = {read_whole_file(agent->log),
                            http(agent, &(struct call){.path = "/metrics", .admin = true})->body,
                            get(agent, "/locks")->body,
                            http(agent, &(struct call){.path = "/readyz", .admin = true})->body};
    for (size_t p = 0; p < sizeof(places) / sizeof(*places); p++) {
        cr_assert_str_not_empty(places[p]);
        cr_assert_null(strstr(places[p], bearer));
        cr_assert_null(strstr(places[p], "what-a-malformed-token"));
        for (size_t s = 0; s < sizeof(secrets) / sizeof(*secrets); s++)
            cr_assert_null(strstr(places[p], format("%.40s", secrets[s])),
                           "secret %zu in place %zu: %s", s, p, places[p]);
    }
}
