/* The configuration room: golden messages for bad files, round trips of good ones, environment,
 * flags, durations, reload. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/log.h"
#include "config/config.h"

/* Both are too large for the stack. */
static struct config config, other;
static struct config_errors errors;

/* environ's type dates from before const. */
#define ENVIRONMENT(...) ((char *const *)(uintptr_t)(const char *[]){__VA_ARGS__, NULL})
#define FLAGS(...)                                                                                 \
    ((const char *[]){__VA_ARGS__}), sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)

static const char ONE_MASTER[] = "LOCKAGENT_REDIS_GROUPS_MAIN_MASTERS=redis://a";

static void enter(const char *folder)
{
    const char *source = getenv("LOCKAGENT_SOURCE");
    cr_assert_not_null(source, "LOCKAGENT_SOURCE must name the top of the source tree");
    cr_assert_eq(chdir(source), 0);
    cr_assert_eq(chdir(folder), 0, "%s: %s", folder, strerror(errno));
}

/* The whole file, to be freed; "" where there is none. */
static char *slurp(const char *path)
{
    char *text = calloc(1, 4 << 20);
    FILE *file = fopen(path, "rb");
    if (file) {
        cr_assert_lt(fread(text, 1, 4 << 20, file), (size_t)4 << 20);
        fclose(file);
    }
    return text;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file, "%s: %s", path, strerror(errno));
    cr_assert_eq(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

/* A file of its own below /tmp; removed by the caller. */
static const char *temporary(const char *bytes, size_t len)
{
    static char path[64];
    strcpy(path, "/tmp/lockagent-config-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    write_file(path, bytes, len);
    return path;
}

static bool load_text(const char *text, struct config *ret)
{
    const char *path = temporary(text, strlen(text));
    bool ok = config_load(path, NULL, NULL, 0, ret, &errors);
    unlink(path);
    return ok;
}

/* The same for a reload, of a file that is called f.yaml. */
static bool load_next(const struct config *running, const char *text, struct config *ret)
{
    char folder[] = "/tmp/lockagent-config-XXXXXX";
    int here = open(".", O_RDONLY | O_DIRECTORY);
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
    write_file("f.yaml", text, strlen(text));
    bool ok = config_load_next(running, "f.yaml", NULL, NULL, 0, ret, &errors);
    unlink("f.yaml");
    cr_assert_eq(fchdir(here), 0);
    close(here);
    rmdir(folder);
    return ok;
}

/* Bytes, padding included: the room zeroes what it does not set. */
static bool same_bytes(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

/* All messages, one per line; to be freed. */
static char *messages(void)
{
    char *text = NULL;
    size_t len = 0, kept = sizeof(errors.list) / sizeof(errors.list[0]);
    FILE *out = open_memstream(&text, &len);
    for (size_t i = 0; i < errors.count && i < kept; i++)
        fprintf(out, "%s\n", errors.list[i].text);
    if (errors.count > kept)
        fprintf(out, "and %zu more\n", errors.count - kept);
    fclose(out);
    return text;
}

static void expect_messages(const char *expected)
{
    char *text = messages();
    cr_expect_str_eq(text, expected, "got:\n%sexpected:\n%s", text, expected);
    free(text);
}

static void expect_ok(bool ok)
{
    char *text = messages();
    cr_assert(ok, "%s", text);
    free(text);
}

/* Calls `each` for all files of the working folder that end in .yaml; returns how many. */
static size_t for_each_yaml(void (*each)(const char *name))
{
    size_t count = 0;
    DIR *folder = opendir(".");
    cr_assert_not_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t len = strlen(entry->d_name);
        if (len < 5 || strcmp(entry->d_name + len - 5, ".yaml") != 0)
            continue;
        each(entry->d_name);
        count++;
    }
    closedir(folder);
    return count;
}

/* ---- bad files ---- */

static void expect_in_file_order(const char *name)
{
    for (size_t i = 1; i < errors.count && i < 64; i++) {
        const struct config_error *a = &errors.list[i - 1], *b = &errors.list[i];
        cr_expect(a->line < b->line || (a->line == b->line && a->column <= b->column),
                  "%s: message %zu", name, i);
    }
}

static void check_bad(const char *name)
{
    char golden[300];
    snprintf(golden, sizeof(golden), "%.*s.err", (int)(strlen(name) - 5), name);
    memset(&config, 0xa5, sizeof(config));
    memset(&other, 0xa5, sizeof(other));
    cr_expect_not(config_load(name, NULL, NULL, 0, &config, &errors), "%s was taken", name);
    cr_expect(same_bytes(&config, &other, sizeof(config)), "%s: the result was touched", name);
    expect_in_file_order(name);
    char *got = messages(), *expected = slurp(golden);
    if (getenv("UPDATE_GOLDEN"))
        write_file(golden, got, strlen(got));
    else
        cr_expect_str_eq(got, expected, "%s: got:\n%sexpected:\n%s", name, got, expected);
    cr_expect_null(strstr(got, "secret"), "%s: a secret in a message:\n%s", name, got);
    free(got);
    free(expected);
}

/* Among them: R1 ttl-under-node-timeout, node-timeout-above-ttl; R2 single-of-three; R8
 * ttl-under-watchdog; R12 fence-retention; D9 waiters, listen-remote. UPDATE_GOLDEN=1 writes the
 * messages anew. */
Test(config, bad_files_have_golden_messages)
{
    enter("tests/unit/config/bad");
    cr_expect_geq(for_each_yaml(check_bad), 80u);
}

static char *all_messages; /* of the bad files */

static void add_messages(const char *name)
{
    char golden[300];
    snprintf(golden, sizeof(golden), "%.*s.err", (int)(strlen(name) - 5), name);
    char *text = slurp(golden), *joined = NULL;
    cr_assert_geq(asprintf(&joined, "%s%s", all_messages, text), 0);
    free(all_messages);
    free(text);
    all_messages = joined;
}

/* True if a message has both texts, in this order. */
static bool one_message_has(const char *first, const char *second)
{
    for (const char *at = all_messages; (at = strstr(at, first)) != NULL; at++) {
        const char *found = strstr(at, second);
        if (found != NULL && found < strchr(at, '\n'))
            return true;
    }
    return false;
}

/* A row of the documentation: | `policies[].ttl` | at most `limits.max_ttl` | ... | why | */
Test(config, every_relation_is_broken_by_a_bad_file)
{
    char *table = NULL;
    size_t len = 0, rows = 0;
    FILE *out = open_memstream(&table, &len);
    config_print_relations(out);
    fclose(out);
    enter("tests/unit/config/bad");
    all_messages = strdup("");
    for_each_yaml(add_messages);
    for (char *line = strstr(table, "|---|") + strlen("|---|---|---|---|\n"), *end; *line;
         line = end + 1, rows++) {
        end = strchr(line, '\n');
        *end = '\0';
        char *why = end - strlen(" |");
        *why = '\0';
        while (strncmp(why, "| ", 2) != 0)
            why--;
        char *key = strchr(line, '`') + 1, named[80], said[160];
        key[strcspn(key, ":`")] = '\0';
        key += strncmp(key, "redis.groups.<name>", 19) == 0 ? 19
               : strncmp(key, "policies[]", 10) == 0        ? 10
                                                            : 0;
        snprintf(named, sizeof(named), "%s: ", key);
        snprintf(said, sizeof(said), ": %s; allowed: ", why + 2);
        cr_expect(one_message_has(named, said), "no bad file breaks the relation of %s%s", named,
                  why + 2);
    }
    cr_expect_geq(rows, 29u);
    free(all_messages);
    free(table);
}

Test(config, files_that_can_not_be_read)
{
    enter("tests/unit/config");
    cr_expect_not(config_load("nowhere.yaml", NULL, NULL, 0, &config, &errors));
    expect_messages("nowhere.yaml: cannot be opened: No such file or directory\n");
    cr_expect_not(config_load("bad", NULL, NULL, 0, &config, &errors));
    expect_messages("bad: cannot be read: it is a folder; allowed: a regular file\n");
}

Test(config, a_file_above_the_limit_is_refused)
{
    size_t len = (1 << 20) + 1;
    char *text = malloc(len);
    memset(text, '#', len);
    const char *path = temporary(text, len);
    cr_expect_not(config_load(path, NULL, NULL, 0, &config, &errors));
    cr_expect_not_null(strstr(errors.list[0].text, "too large; allowed: up to 1 MiB"));
    static const char start[] = "redis: {groups: {main: {masters: [redis://a]}}} ";
    memcpy(text, start, sizeof(start) - 1);
    write_file(path, text, len - 1);
    expect_ok(config_load(path, NULL, NULL, 0, &config, &errors));
    unlink(path);
    free(text);
}

/* Whatever stands in the file: an answer, no crash, and no success with an error or the other way
 * round. */
static void load_anything(const char *path, const char *bytes, size_t len)
{
    write_file(path, bytes, len);
    bool ok = config_load(path, NULL, NULL, 0, &config, &errors);
    cr_assert_eq(ok, errors.count == 0);
}

Test(config, cut_and_scrambled_files_are_survived)
{
    enter("tests/unit/config");
    char path[] = "/tmp/lockagent-config-XXXXXX";
    close(mkstemp(path));
    const char *const names[] = {"good/everything.yaml", "bad/all-at-once.yaml",
                                 "bad/anchors.yaml"};
    unsigned random = 1;
    for (size_t i = 0; i < 3; i++) {
        char *text = slurp(names[i]);
        size_t len = strlen(text);
        cr_assert_gt(len, 0u);
        for (size_t cut = 0; cut < len; cut += 5)
            load_anything(path, text, cut);
        for (size_t round = 0; round < 300; round++) {
            random = random * 1103515245 + 12345;
            char *byte = &text[random / 65536 % len], was = *byte;
            *byte = "\n\t -:[]{}&*!|>'\"%@#,?~x"[random / 7 % 24];
            load_anything(path, text, len);
            if (random % 2)
                *byte = was;
        }
        free(text);
    }
    unlink(path);
}

/* ---- good files ---- */

static char *printed(const struct config *what)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    config_print(what, out);
    fclose(out);
    return text;
}

/* Printed as `***`: whether there is one must survive, what it is must not. */
static void blank_passwords(struct config *what)
{
    for (size_t i = 0; i < what->group_count; i++)
        for (size_t j = 0; j < what->groups[i].master_count; j++) {
            char *password = what->groups[i].masters[j].password;
            bool some = password[0];
            memset(password, 0, sizeof(what->groups[i].masters[j].password));
            password[0] = some ? '*' : '\0';
        }
}

static void check_round_trip(const char *name)
{
    expect_ok(config_load(name, NULL, NULL, 0, &config, &errors));
    char *first = printed(&config);
    cr_expect_null(strstr(first, "p@ss/word"), "%s", first);
    cr_expect_null(strstr(first, "only-password"), "%s", first);
    expect_ok(load_text(first, &other));
    char *second = printed(&other);
    cr_expect_str_eq(first, second, "%s:\n%s\n%s", name, first, second);
    blank_passwords(&config);
    blank_passwords(&other);
    cr_expect(same_bytes(&config, &other, sizeof(config)), "%s changed:\n%s", name, first);
    expect_ok(load_text(second, &other));
    expect_ok(load_next(&other, second, &config));
    free(first);
    free(second);
}

Test(config, what_is_printed_reads_back_to_the_same)
{
    enter("tests/unit/config/good");
    cr_expect_geq(for_each_yaml(check_round_trip), 8u);
    enter("config");
    cr_expect_eq(for_each_yaml(check_round_trip), 2u);
}

Test(config, a_file_with_only_redis_has_all_defaults)
{
    enter("config");
    expect_ok(config_load("minimal.yaml", NULL, NULL, 0, &config, &errors));
    cr_assert_eq(config.listen.count, 2u);
    cr_expect_str_eq(config.listen.addresses[0].host, "127.0.0.1");
    cr_expect_str_eq(config.listen.addresses[1].host, "::1");
    for (size_t i = 0; i < config.listen.count; i++) {
        cr_expect_eq(config.listen.addresses[i].port, 8080);
        cr_expect(config.listen.addresses[i].loopback);
    }
    cr_expect_eq(config.admin.count, 0u);
    cr_expect_eq(config.group_count, 1u);
    const struct config_group *group = &config.groups[0];
    cr_expect_str_eq(group->name, "main");
    cr_expect_eq(group->master_count, 3u);
    cr_expect_eq(group->masters[2].address.port, 7003);
    cr_expect_str_eq(group->masters[2].url, "redis://127.0.0.1:7003");
    cr_expect_eq(group->node_timeout_ms, 50u);
    cr_expect_eq(group->drift_ppm, 10000u);
    cr_expect_eq(config.policy_count, 1u);
    const struct core_policy *policy = &config.policies[0].core;
    cr_expect_str_eq(policy->match, "*");
    cr_expect_eq(policy->group_count, 1);
    cr_expect_eq(policy->groups[0], 0);
    cr_expect_eq(policy->algorithm, ALGORITHM_REDLOCK);
    cr_expect_eq(policy->renew, RENEW_AGENT);
    cr_expect_eq(policy->ttl_ms, 30000u);
    cr_expect_eq(policy->max_hold_ms, 600000);
    cr_expect(policy->fencing);
    cr_expect_eq(policy->retry_min_ms, 20u);
    cr_expect_eq(policy->retry_max_ms, 250u);
    cr_expect_str_eq(config.policies[0].prefix, "lock:");
    cr_expect_eq(config.policies[0].core.fence_retention_ms, 3600000u);
    cr_expect_eq(config.max_ttl_ms, 60000u);
    cr_expect_eq(config.wait_ms_max, 300000);
    cr_expect_eq(config.locks_max, 10000u);
    cr_expect_eq(config.waiters_max, 4000u);
    cr_expect_eq(config.connections_max, 4096u);
    cr_expect_eq(config.body_bytes_max, 4096u);
    cr_expect_eq(config.header_timeout_ms, 5000u);
    cr_expect_str_empty(config.token_file);
    cr_expect_not(config.allow_remote);
    cr_expect_eq(config.allowed_host_count, 0u);
    cr_expect_eq(config.socket_mode, 0660u);
    cr_expect_eq(config.log_level, LOG_INFO);
    cr_expect_eq(config.log_format, LOG_AUTO);
    cr_expect_eq(config.shutdown_grace_ms, 5000);
    cr_expect_not(config.shutdown_release);
}

Test(config, every_key_reaches_its_field)
{
    enter("tests/unit/config/good");
    expect_ok(config_load("everything.yaml", NULL, NULL, 0, &config, &errors));
    cr_expect_eq(config.listen.count, 4u);
    cr_expect(config.listen.addresses[1].loopback);
    cr_expect(config.listen.addresses[2].is_unix && config.listen.addresses[2].loopback);
    cr_expect_str_eq(config.listen.addresses[2].host, "/run/lockagent/api.sock");
    cr_expect_not(config.listen.addresses[3].loopback);
    cr_expect_eq(config.admin.count, 1u);
    cr_expect_str_eq(config.admin.addresses[0].host, "::");
    const struct config_group *group = &config.groups[0];
    cr_expect_eq(group->node_timeout_ms, 120u);
    cr_expect_eq(group->drift_ppm, 2500u);
    cr_expect_str_eq(group->username, "app");
    cr_expect_str_eq(group->password_file, "/run/secrets/redis");
    const struct config_policy *policy = &config.policies[0];
    cr_expect_eq(policy->core.group_count, 2);
    cr_expect_eq(policy->core.groups[0], 0);
    cr_expect_eq(policy->core.groups[1], 2);
    cr_expect_eq(policy->core.algorithm, ALGORITHM_MULTILOCK);
    cr_expect_str_empty(policy->prefix);
    cr_expect_eq(policy->core.ttl_ms, 1500u);
    cr_expect_eq(policy->core.renew, RENEW_CALLER);
    cr_expect_eq(policy->core.max_hold_ms, 5400000);
    cr_expect_eq(policy->core.bound_max_hold_ms, 10800000);
    cr_expect_eq(policy->core.lock_delay_ms, 2500u);
    cr_expect(policy->core.reentrant);
    cr_expect_not(policy->core.fencing);
    cr_expect_eq(policy->core.fence_retention_ms, 86400000u);
    cr_expect_eq(policy->core.retry_min_ms, 5u);
    cr_expect_eq(policy->core.retry_max_ms, 1000u);
    cr_expect_eq(config.policies[1].core.algorithm, ALGORITHM_SINGLE);
    cr_expect_str_eq(config.policies[1].core.match, "say \"hi\" \\ é*");
    cr_expect_eq(config.policy_count, 4u);
    cr_expect_str_eq(config.policies[3].core.match, "*");
    cr_expect_eq(config.body_bytes_max, 1536u);
    cr_expect_eq(config.header_timeout_ms, 750u);
    cr_expect_str_eq(config.token_file, "/run/secrets/token file");
    cr_expect(config.allow_remote);
    cr_expect_str_eq(config.allowed_hosts[1], "[fd00::2]");
    cr_expect_eq(config.socket_mode, 0600u);
    cr_expect_eq(config.log_level, LOG_DEBUG);
    cr_expect_eq(config.log_format, LOG_JSON);
    cr_expect_eq(config.shutdown_grace_ms, 0);
    cr_expect(config.shutdown_release);
}

Test(config, what_a_url_leaves_out_comes_from_its_group)
{
    static const struct {
        const char *url, *username, *password;
        int db;
    } expected[] = {
        {"redis://127.0.0.1:7001/2", "app", "", 2},
        {"redis://127.0.0.1:7002/3", "user", "", 3},
        {"redis://redis.example:7003/2", "user", "p@ss/word", 2},
        {"redis://[fd00::1]:7004", "app", "only-password", 0},
        {"unix:/run/redis/redis.sock?db=2", "app", "", 2},
        {"unix:/run/redis/other.sock?db=7", "app", "", 7},
    };
    enter("tests/unit/config/good");
    expect_ok(config_load("everything.yaml", NULL, NULL, 0, &config, &errors));
    cr_assert_eq(config.groups[0].master_count, 6u);
    for (size_t i = 0; i < 6; i++) {
        const struct config_master *master = &config.groups[0].masters[i];
        cr_expect_str_eq(master->url, expected[i].url);
        cr_expect_str_eq(master->username, expected[i].username);
        cr_expect_str_eq(master->password, expected[i].password);
        cr_expect_eq(master->db, expected[i].db);
    }
    cr_expect_str_eq(config.groups[0].masters[3].address.host, "fd00::1");
}

Test(config, defaults_follow_the_keys_they_depend_on)
{
    enter("tests/unit/config/good");
    expect_ok(config_load("defaults-give-way.yaml", NULL, NULL, 0, &config, &errors));
    cr_expect_eq(config.waiters_max, 136u);
    cr_expect_eq(config.policies[0].core.ttl_ms, 10000u);
    cr_expect_eq(config.policies[0].core.retry_max_ms, 2000u);
    cr_expect_eq(config.policies[1].core.retry_min_ms, 5u);
    cr_expect_eq(config.policies[5].core.ttl_ms, 6000u, "the lock_delay needs room as well (R15)");
    cr_expect_eq(config.policies[6].core.ttl_ms, 10000u);
    cr_expect_eq(config.groups[1].replicas_timeout_ms, 100u);
    cr_expect_eq(config.groups[1].node_timeout_ms, 120u);
    cr_expect_eq(config.groups[0].node_timeout_ms, 25u);
    cr_expect_eq(config.policies[3].core.ttl_ms, 100u, "the least that a ttl may be");
    cr_expect_eq(config.policies[4].order, ORDER_FAIR);
    expect_ok(config_load("long-leases.yaml", NULL, NULL, 0, &config, &errors));
    cr_expect_eq(config.policies[0].core.fence_retention_ms, 7200000u);
    cr_expect_eq(config.policies[0].core.ttl_ms, 30000u);
    expect_ok(config_load("last-policy-written.yaml", NULL, NULL, 0, &config, &errors));
    cr_expect_eq(config.policy_count, 2u, "a written `*` takes the place of the implicit one");
    cr_expect_str_eq(config.policies[1].core.match, "*");
}

/* ---- environment and flags ---- */

Test(config, an_agent_runs_without_any_file)
{
    char *const *environment = ENVIRONMENT(
        "PATH=/bin",
        "LOCKAGENT_REDIS_GROUPS_MAIN_MASTERS=redis://a, redis://:pw@b ,unix:/run/c?db=3",
        "LOCKAGENT_REDIS_GROUPS_MAIN_PASSWORD_FILE=/run/secrets/redis",
        "LOCKAGENT_REDIS_GROUPS_FAR_AWAY_MASTERS=rediss://d",
        "LOCKAGENT_REDIS_GROUPS_FAR_AWAY_NODE_TIMEOUT=200ms",
        "LOCKAGENT_REDIS_GROUPS_FAR_AWAY_TLS_CA_FILE=/run/secrets/ca.pem",
        "LOCKAGENT_LISTEN=127.0.0.1:1,unix:/run/api", "LOCKAGENT_LIMITS_MAX_TTL=90s",
        "LOCKAGENT_LOG_LEVEL=warn", "LOCKAGENT_API_ALLOWED_HOSTS=");
    expect_ok(config_load(NULL, environment, NULL, 0, &config, &errors));
    cr_expect_eq(config.group_count, 2u);
    cr_expect_eq(config.groups[0].master_count, 3u);
    cr_expect_str_eq(config.groups[0].masters[1].password, "pw");
    cr_expect_str_eq(config.groups[0].password_file, "/run/secrets/redis");
    cr_expect_str_eq(config.groups[1].name, "far_away");
    cr_expect_eq(config.groups[1].node_timeout_ms, 200u);
    cr_expect_str_eq(config.groups[1].tls.ca_file, "/run/secrets/ca.pem");
    cr_expect_eq(config.listen.count, 2u);
    cr_expect_eq(config.max_ttl_ms, 90000u);
    cr_expect_eq(config.log_level, LOG_WARN);
}

Test(config, flag_over_environment_over_file_over_default)
{
    static const char text[] =
        "redis: {groups: {main: {masters: [redis://a]}, far-away: {masters: [redis://b]}}}\n"
        "limits: {wait: 1s, locks: 1, connections: 1000}\nlisten: [127.0.0.1:1, 127.0.0.1:2]\n";
    const char *path = temporary(text, strlen(text));
    char *const *environment =
        ENVIRONMENT("LOCKAGENT_LIMITS_WAIT=2s", "LOCKAGENT_LIMITS_LOCKS=2",
                    "LOCKAGENT_LISTEN=127.0.0.1:3", "LOCKAGENT_REDIS_GROUPS_FAR_AWAY_DB=4");
    expect_ok(config_load(path, environment,
                          FLAGS("limits.wait=3s", "redis.groups.main.db=5", "limits.wait=4s"),
                          &config, &errors));
    cr_expect_eq(config.wait_ms_max, 4000);
    cr_expect_eq(config.locks_max, 2u);
    cr_expect_eq(config.connections_max, 1000u);
    cr_expect_eq(config.header_timeout_ms, 5000u);
    cr_expect_eq(config.listen.count, 1u, "a list replaces, it does not add");
    cr_expect_eq(config.listen.addresses[0].port, 3);
    cr_expect_eq(config.groups[0].masters[0].db, 5);
    cr_expect_eq(config.groups[1].masters[0].db, 4, "FAR_AWAY is the file's far-away");
    unlink(path);
}

Test(config, unknown_variables_are_errors_with_a_guess)
{
    char *const *environment = ENVIRONMENT(ONE_MASTER, "LOCKAGENT_LOG_LEVL=debug",
                                           "LOCKAGENT_REDIS_GROUPS_MAIN_MASTER=redis://b",
                                           "LOCKAGENT_XYZZY=1", "LOCKAGENT_POLICIES_0_TTL=1s",
                                           "LOCKAGENT_REDIS_GROUPS_MIAN_DB=1", "LOCKAGENT=1");
    cr_expect_not(config_load(NULL, environment, NULL, 0, &config, &errors));
    expect_messages(
        "environment: LOCKAGENT_LOG_LEVL: unknown variable; did you mean LOCKAGENT_LOG_LEVEL?\n"
        "environment: LOCKAGENT_REDIS_GROUPS_MAIN_MASTER: unknown variable; did you mean "
        "LOCKAGENT_REDIS_GROUPS_MAIN_MASTERS?\n"
        "environment: LOCKAGENT_XYZZY: unknown variable; allowed: LOCKAGENT_ and a key's path in "
        "upper case, as "
        "LOCKAGENT_LIMITS_MAX_TTL\n"
        "environment: LOCKAGENT_POLICIES_0_TTL: policies can only be set in the file\n"
        "environment: LOCKAGENT_REDIS_GROUPS_MIAN_DB: redis.groups.mian.masters: missing; needed "
        "is a list of URLs "
        "such as "
        "redis://127.0.0.1:7001 (did you mean the group main?)\n");
}

/* Children of the agent, and every pod beside a Kubernetes service called lockagent, would not
 * start otherwise. */
Test(config, variables_of_others_are_left_alone)
{
    char *const *environment = ENVIRONMENT(
        ONE_MASTER, "LOCKAGENT_KEY=jobs/1", "LOCKAGENT_TOKEN=x", "LOCKAGENT_FENCING_TOKEN=7",
        "LOCKAGENT_SLOT=1", "LOCKAGENT_SERVICE_HOST=10.0.0.1", "LOCKAGENT_SERVICE_PORT=8080",
        "LOCKAGENT_SERVICE_PORT_HTTP=8080", "LOCKAGENT_PORT=tcp://10.0.0.1:8080",
        "LOCKAGENT_PORT_8080_TCP=tcp://10.0.0.1:8080", "LOCKAGENT_PORT_8080_TCP_ADDR=10.0.0.1",
        "LOCKAGENT_METRICS_SERVICE_HOST=10.0.0.1");
    expect_ok(config_load(NULL, environment, NULL, 0, &config, &errors));
    environment = ENVIRONMENT(ONE_MASTER, "LOCKAGENT_PORT=8080");
    cr_expect_not(config_load(NULL, environment, NULL, 0, &config, &errors),
                  "that one is a person's mistake");
}

Test(config, bad_values_name_their_source)
{
    char *const *environment =
        ENVIRONMENT(ONE_MASTER, "LOCKAGENT_LOG_LEVEL=loud", "LOCKAGENT_LISTEN=127.0.0.1:1,x",
                    "LOCKAGENT_LIMITS_WAIT=", "LOCKAGENT_API_TOKEN_FILE=a\nb",
                    "LOCKAGENT_LIMITS_WAITERS=5000", "LOCKAGENT_REDIS_GROUPS_MAIN_USERNAME=\xff");
    cr_expect_not(config_load(NULL, environment,
                              FLAGS("log.level", "log.levl=debug", "limits=1", "policies=1",
                                    "redis.groups.main.dbs=1", "=1", "log.level=quiet",
                                    "log.format=", "redis.groups.X.db=1"),
                              &config, &errors));
    expect_messages(
        "environment: LOCKAGENT_API_TOKEN_FILE: api.token_file: the value holds a control "
        "character or a line break; "
        "allowed: "
        "one line of text\n"
        "environment: LOCKAGENT_REDIS_GROUPS_MAIN_USERNAME: redis.groups.main.username: the value "
        "is not UTF-8; "
        "allowed: one "
        "line of text\n"
        "flag: log.level: no value; allowed: key=value\n"
        "flag: log.levl: unknown key; did you mean log.level?\n"
        "flag: limits: a section, which has no value; allowed: one of its keys\n"
        "flag: policies: policies can only be set in the file\n"
        "flag: redis.groups.main.dbs: unknown key; did you mean redis.groups.<name>.db?\n"
        "flag: : unknown key; allowed: a path such as log.level\n"
        "flag: redis.groups: `X` is not a name for a group; allowed: 1 to 63 of a-z, 0-9, - and _, "
        "a letter or digit "
        "first\n"
        "environment: LOCKAGENT_LOG_LEVEL: log.level: `loud` is not a choice; allowed: debug, "
        "info, warn, error\n"
        "environment: LOCKAGENT_LISTEN: listen: `x` has no port; allowed: host:port, [v6]:port or "
        "unix:/path; one or a "
        "list of "
        "up to 8\n"
        "environment: LOCKAGENT_LIMITS_WAIT: limits.wait: `` is not a duration; allowed: 0s to 24h "
        "(with ms, s, m or "
        "h)\n"
        "flag: log.level: `quiet` is not a choice; allowed: debug, info, warn, error\n"
        "flag: log.format: `` is not a choice; allowed: auto, text, json\n"
        "environment: LOCKAGENT_LIMITS_WAITERS: limits.waiters: `5000` is more than "
        "limits.connections (4096) - 64: a holder must always find room to release; allowed: at "
        "most 4032\n");
}

Test(config, a_message_never_holds_what_a_terminal_can_not_take)
{
    cr_expect_not(config_load(NULL, ENVIRONMENT(ONE_MASTER, "LOCKAGENT_A\x1b[2J=1"),
                              FLAGS("log\nlevel=info", "\xff\xc2\x85=1"), &config, &errors));
    expect_messages("environment: LOCKAGENT_A?[2J: unknown variable; allowed: LOCKAGENT_ and a "
                    "key's path in upper "
                    "case, as LOCKAGENT_LIMITS_MAX_TTL\n"
                    "flag: log?level: unknown key; did you mean log.level?\n"
                    "flag: ???: unknown key; allowed: a path such as log.level\n");
}

Test(config, a_bad_value_in_the_file_is_told_although_it_is_overridden)
{
    static const char text[] =
        "redis: {groups: {main: {masters: [redis://a]}}}\nlog: {level: loud}\n";
    const char *path = temporary(text, strlen(text));
    cr_expect_not(
        config_load(path, ENVIRONMENT("LOCKAGENT_LOG_LEVEL=debug"), NULL, 0, &config, &errors));
    cr_expect_eq(errors.count, 1u);
    cr_expect_eq(errors.list[0].line, 2);
    unlink(path);
}

Test(config, nothing_at_all_says_what_is_needed)
{
    cr_expect_not(config_load(NULL, NULL, NULL, 0, &config, &errors));
    expect_messages("configuration: redis: missing; needed is at least redis.groups.main.masters, "
                    "a list of URLs such as "
                    "redis://127.0.0.1:7001\n");
}

Test(config, the_environment_completes_an_empty_file)
{
    const char *path = temporary("# all in the environment\n", 25);
    expect_ok(config_load(path, ENVIRONMENT(ONE_MASTER), NULL, 0, &config, &errors));
    unlink(path);
}

/* ---- durations ---- */

static int64_t duration_of(const char *text)
{
    int64_t ms = -1;
    bool ok = config_parse_duration((struct text){text, strlen(text)}, &ms);
    cr_expect_eq(ok, ms != -1, "%s", text);
    return ms;
}

Test(config, durations)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"500ms", 500},           {"30s", 30000},      {"5m", 300000},
        {"1h", 3600000},          {"1.5s", 1500},      {"0.001s", 1},
        {"0.25h", 900000},        {"0s", 0},           {"0ms", 0},
        {"007s", 7000},           {"1.000000s", 1000}, {"2.50ms", -1},
        {"87600h", 315360000000}, {"87601h", -1},
    };
    static const char *const bad[] = {"",
                                      "s",
                                      "5",
                                      " 5s",
                                      "5s ",
                                      "5 s",
                                      "-5s",
                                      "+5s",
                                      "5S",
                                      "5sec",
                                      "5d",
                                      "1e3s",
                                      "0x5s",
                                      ".5s",
                                      "5.s",
                                      "1.5",
                                      "1.5.5s",
                                      "1,5s",
                                      "1h30m",
                                      "0.0001s",
                                      "5us",
                                      "5M",
                                      "inf",
                                      "nans",
                                      "1_000s",
                                      "5ss",
                                      "ms",
                                      "５s",
                                      "5\n",
                                      "1.5ms",
                                      "0.0000000001h",
                                      "9223372036854775807ms",
                                      "9223372036854775808s",
                                      "99999999999999999999999999999999h",
                                      "18446744073709551616ms"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_expect_eq(duration_of(good[i].text), good[i].ms, "%s", good[i].text);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_eq(duration_of(bad[i]), -1, "%s", bad[i]);
    int64_t ms;
    cr_expect_not(config_parse_duration((struct text){"5s\0", 3}, &ms));
    cr_expect(config_parse_duration((struct text){"5sXXX", 2}, &ms), "texts are not terminated");
    cr_expect_eq(ms, 5000);
}

/* ---- reload ---- */

static void expect_reload(const char *before, const char *after, const char *expected)
{
    expect_ok(load_text(before, &config));
    cr_expect_eq(load_next(&config, after, &other), expected[0] == '\0');
    expect_messages(expected);
}

static const char RELOAD_BEFORE[] =
    "redis: {groups: {main: {masters: [redis://a, 'redis://:x@b']}, two: {masters: [redis://c]}}}\n"
    "policies: [{match: 'jobs/*'}, {match: 'x'}]\n";

/* R22: the same grants, numbered somewhere else, would not rise. */
Test(config, r22_numbers_do_not_move_while_running)
{
    static const char on[] = "redis: {groups: {main: {masters: [redis://a]}}}\n"
                             "policies: [{match: 'x', algorithm: single, format: redisson}]\n";
    static const char theirs[] = "redis: {groups: {main: {masters: [redis://a]}}}\n"
                                 "policies: [{match: 'x', algorithm: single, format: redisson, "
                                 "fencing: redisson}]\n";
    expect_reload(on, theirs,
                  "f.yaml:2:71: policies[0].fencing: has changed; that needs a restart\n");
    expect_reload(theirs, on,
                  "f.yaml:2:12: policies[0].fencing: has changed; that needs a restart\n");
}

Test(config, what_may_change_while_running)
{
    expect_reload(RELOAD_BEFORE,
                  "redis: {groups: {main: {masters: [redis://a, 'redis://:x@b']}, two: {masters: "
                  "[redis://c]}}}\n"
                  "policies: [{match: 'jobs/*', ttl: 9s, renew: caller, max_hold: 1m, "
                  "max_hold_bound: 2m, lock_delay: "
                  "3s, reentrant: on, fencing: off, fence_retention: 9h, "
                  "retry: {min: 1ms, max: 2ms}}, {match: 'x'}, {match: '*', ttl: 8s}]\n"
                  "log: {level: debug, format: json}\nshutdown: {grace: 1s, unreleased: release}\n"
                  "api: {token_file: /x, allow_remote: true, allowed_hosts: [a]}\n",
                  "");
}

/* Order fair goes with kind rw: who wrote the one word is not told of the other. */
Test(config, what_follows_from_a_change_is_not_reported_as_well)
{
    static const char masters[] = "redis: {groups: {main: {masters: [redis://a]}}}\n";
    static const struct {
        const char *before, *after, *expected;
    } cases[] = {
        {"{match: a}", "{match: a, kind: rw}",
         "f.yaml:2:29: policies[0].kind: has changed; that needs a restart\n"},
        {"{match: a, kind: rw}", "{match: a}",
         "f.yaml:2:12: policies[0].kind: has changed; that needs a restart\n"},
        {"{match: a, kind: rw}", "{match: a, kind: mutex, order: fair}",
         "f.yaml:2:29: policies[0].kind: has changed; that needs a restart\n"},
        {"{match: a}", "{match: a, kind: rw, order: fair}",
         "f.yaml:2:29: policies[0].kind: has changed; that needs a restart\n"
         "f.yaml:2:40: policies[0].order: has changed; that needs a restart\n"},
        {"{match: a, order: fair}", "{match: a}",
         "f.yaml:2:12: policies[0].order: has changed; that needs a restart\n"},
        {"{match: a, kind: rw}", "{match: a, kind: rw, order: fair}", ""},
        {"{match: a, permits: 2}", "{match: a, permits: 3}",
         "f.yaml:2:32: policies[0].permits: has changed; that needs a restart\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char before[256], after[256];
        snprintf(before, sizeof(before), "%spolicies: [%s]\n", masters, cases[i].before);
        snprintf(after, sizeof(after), "%spolicies: [%s]\n", masters, cases[i].after);
        expect_reload(before, after, cases[i].expected);
    }
}

Test(config, what_may_not_change_while_running)
{
    expect_reload(
        RELOAD_BEFORE,
        "redis: {groups: {main: {masters: [redis://a, 'redis://:y@b'], drift: 2%, username: u}, "
        "two: {masters: [redis://c], node_timeout: 60ms, password_file: /p, db: 1}}}\n"
        "policies: [{match: 'jobs/?'}, {match: 'x', group: two, algorithm: single, prefix: 'l:'}]\n"
        "listen: unix:/a\nadmin: {listen: 127.0.0.1:1}\napi: {socket_mode: 0600}\n"
        "limits: {max_ttl: 50s, wait: 1s, locks: 1, waiters: 1, connections: 2000, body: 1KiB, "
        "header_timeout: 1s}\n",
        "f.yaml:1:34: redis.groups.main.masters: has changed; that needs a restart\n"
        "f.yaml:1:70: redis.groups.main.drift: has changed; that needs a restart\n"
        "f.yaml:1:84: redis.groups.main.username: has changed; that needs a restart\n"
        "f.yaml:1:103: redis.groups.two.masters: has changed; that needs a restart\n"
        "f.yaml:1:130: redis.groups.two.node_timeout: has changed; that needs a restart\n"
        "f.yaml:1:151: redis.groups.two.password_file: has changed; that needs a restart\n"
        "f.yaml:1:159: redis.groups.two.db: has changed; that needs a restart\n"
        "f.yaml:2:20: policies[0].match: has changed; that needs a restart\n"
        "f.yaml:2:51: policies[1].group: has changed; that needs a restart\n"
        "f.yaml:2:67: policies[1].algorithm: has changed; that needs a restart\n"
        "f.yaml:2:83: policies[1].prefix: has changed; that needs a restart\n"
        "f.yaml:3:9: listen: has changed; that needs a restart\n"
        "f.yaml:4:17: admin.listen: has changed; that needs a restart\n"
        "f.yaml:5:20: api.socket_mode: has changed; that needs a restart\n"
        "f.yaml:6:19: limits.max_ttl: has changed; that needs a restart\n"
        "f.yaml:6:30: limits.wait: has changed; that needs a restart\n"
        "f.yaml:6:41: limits.locks: has changed; that needs a restart\n"
        "f.yaml:6:53: limits.waiters: has changed; that needs a restart\n"
        "f.yaml:6:69: limits.connections: has changed; that needs a restart\n"
        "f.yaml:6:81: limits.body: has changed; that needs a restart\n"
        "f.yaml:6:103: limits.header_timeout: has changed; that needs a restart\n");
}

Test(config, groups_and_policies_that_come_and_go)
{
    expect_reload(
        RELOAD_BEFORE,
        "redis: {groups: {main: {masters: [redis://a]}, three: {masters: [redis://c]}}}\n",
        "f.yaml:1:1: policies: their number has changed; that needs a restart\n"
        "f.yaml:1:17: redis.groups.two: has been removed; that needs a restart\n"
        "f.yaml:1:48: redis.groups.three: has been added; that needs a restart\n");
    expect_reload(
        RELOAD_BEFORE,
        "redis: {groups: {two: {masters: [redis://c]}, main: {masters: [redis://a, "
        "'redis://:x@b']}}}\n"
        "policies: [{match: 'jobs/*', groups: [main, two]}, {match: 'x'}]\n",
        "f.yaml:1:17: redis.groups: the order of the groups has changed; that needs a restart\n"
        "f.yaml:2:11: policies[2].group: has changed; that needs a restart\n"
        "f.yaml:2:38: policies[0].groups: has changed; that needs a restart\n"
        "f.yaml:2:52: policies[1].group: has changed; that needs a restart\n");
}

/* ---- documentation ---- */

static char *written(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    print(out);
    fclose(out);
    return text;
}

Test(config, the_sample_file_is_what_the_table_says)
{
    enter("config");
    char *sample = written(config_print_sample);
    if (getenv("UPDATE_GOLDEN"))
        write_file("lockagent.yaml", sample, strlen(sample));
    char *file = slurp("lockagent.yaml");
    cr_expect_str_eq(sample, file,
                     "config/lockagent.yaml differs from config/keys.c: write it anew with "
                     "config_print_sample()");
    free(file);
    free(sample);
}

/* Takes the `# ` away that keeps the sample's further policies from counting. */
static void uncomment(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        *to++ = *from;
        if (strncmp(from, "\n  # - ", 7) == 0 || strncmp(from, "\n  #   ", 7) == 0) {
            memcpy(to, "  ", 2);
            to += 2;
            from += 4;
        }
    }
    *to = '\0';
}

Test(config, the_policies_that_the_sample_file_shows_are_good)
{
    enter("config");
    char *file = slurp("lockagent.yaml");
    uncomment(file);
    expect_ok(load_text(file, &config));
    cr_assert_eq(config.policy_count, 4u, "and the last one for `*`");
    cr_expect_str_eq(config.policies[1].core.match, "slots/*");
    cr_expect_eq(config.policies[1].core.permits, 8);
    cr_expect_str_eq(config.policies[2].core.match, "reports/*");
    cr_expect_eq(config.policies[2].core.form, FORM_SHARED);
    cr_expect_eq(config.policies[2].order, ORDER_FAIR);
    free(file);
}

/* The sample shows the defaults and nothing else: but for its one policy it is the minimal file. */
Test(config, the_sample_file_changes_nothing)
{
    enter("config");
    expect_ok(config_load("minimal.yaml", NULL, NULL, 0, &config, &errors));
    cr_expect_not(config_load_next(&config, "lockagent.yaml", NULL, NULL, 0, &other, &errors));
    cr_expect_eq(errors.count, 1u);
    cr_expect_not_null(
        strstr(errors.list[0].text, ": policies: their number has changed; that needs a restart"));
    expect_ok(config_load("lockagent.yaml", NULL, NULL, 0, &other, &errors));
    cr_expect(
        same_bytes(&config.policies[0].core.algorithm, &other.policies[1].core.algorithm,
                   sizeof(config.policies[0]) - offsetof(struct config_policy, core.algorithm)));
    cr_expect_eq(config.shutdown_grace_ms, other.shutdown_grace_ms);
    cr_expect_eq(config.log_level, other.log_level);
}

Test(config, every_key_is_in_every_document)
{
    static const char *const names[] = {"listen",
                                        "admin.listen",
                                        "redis.groups.<name>.masters",
                                        "redis.groups.<name>.node_timeout",
                                        "policies[].ttl",
                                        "policies[].retry.min",
                                        "redis.groups.<name>.password_file",
                                        "policies[].fence_retention",
                                        "limits.body",
                                        "api.allowed_hosts",
                                        "log.format",
                                        "shutdown.unreleased"};
    char *markdown = written(config_print_markdown), *sample = written(config_print_sample);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char cell[80];
        snprintf(cell, sizeof(cell), "\n| `%s` | ", names[i]);
        cr_expect_not_null(strstr(markdown, cell), "%s", names[i]);
        const char *dot = strrchr(names[i], '.');
        snprintf(cell, sizeof(cell), " %s:", dot ? dot + 1 : names[i]);
        cr_expect(strstr(sample, cell) || strstr(sample, "\nlisten:"), "%s", names[i]);
    }
    for (const char *line = markdown; *line; line = strchr(line, '\n') + 1) {
        size_t bars = 0;
        for (const char *c = line; *c != '\n'; c++)
            bars += *c == '|' && (c == line || c[-1] != '\\');
        cr_expect_eq(bars, 6u, "%.80s", line);
    }
    free(markdown);
    free(sample);
}

/* ---- the rest ---- */

/* Opened as a file is, a pipe without a writer would keep the agent waiting for ever. */
Test(config, what_is_no_regular_file_is_refused)
{
    char path[] = "/tmp/lockagent-config-XXXXXX";
    close(mkstemp(path));
    unlink(path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_not(config_load(path, NULL, NULL, 0, &config, &errors));
    cr_expect_eq(errors.count, 1u);
    cr_expect_not_null(
        strstr(errors.list[0].text, ": cannot be read: it is a pipe; allowed: a regular file"),
        "%s", errors.list[0].text);
    unlink(path);
    cr_expect_not(config_load("/dev/null", NULL, NULL, 0, &config, &errors));
    expect_messages("/dev/null: cannot be read: it is a device; allowed: a regular file\n");
}

static int secret_of(const char *bytes, size_t len, char *secret, size_t size)
{
    const char *path = temporary(bytes, len);
    int got = config_read_secret(path, secret, size);
    int error = errno;
    unlink(path);
    errno = error;
    return got;
}

Test(config, secrets_lose_one_line_break_and_nothing_else)
{
    char secret[8];
    cr_expect_eq(secret_of("abc\n", 4, secret, sizeof(secret)), 3);
    cr_expect_str_eq(secret, "abc");
    cr_expect_eq(secret_of("abc\r\n", 5, secret, sizeof(secret)), 3);
    cr_expect_eq(secret_of(" a\n\n", 4, secret, sizeof(secret)), 3);
    cr_expect_str_eq(secret, " a\n");
    cr_expect_eq(secret_of("", 0, secret, sizeof(secret)), 0);
    cr_expect_eq(secret_of("\n", 1, secret, sizeof(secret)), 0);
    cr_expect_eq(secret_of("1234567\n", 8, secret, sizeof(secret)), 7);
    cr_expect_eq(secret_of("1234567", 7, secret, sizeof(secret)), 7);
    cr_expect_eq(secret_of("12345678", 8, secret, sizeof(secret)), -1);
    cr_expect_eq(errno, EFBIG);
    cr_expect_eq(secret_of("12345678\n", 9, secret, sizeof(secret)), -1);
    cr_expect_eq(errno, EFBIG);
    cr_expect_eq(config_read_secret("/nonexistent/secret", secret, sizeof(secret)), -1);
    cr_expect_eq(errno, ENOENT);
    cr_expect_eq(config_read_secret("/tmp", secret, sizeof(secret)), -1);
    cr_expect_eq(errno, EISDIR);
}

/* What stands behind it would be cut off, and a longer secret would be a shorter one. */
Test(config, a_secret_with_a_nul_byte_is_refused)
{
    char secret[8];
    cr_expect_eq(secret_of("ab\0cd\n", 6, secret, sizeof(secret)), -1);
    cr_expect_eq(errno, EILSEQ);
    cr_expect_str_eq(config_secret_fault(EILSEQ), "it holds a NUL byte");
    cr_expect_eq(secret_of("abc\0", 4, secret, sizeof(secret)), -1);
    cr_expect_eq(secret_of("\0", 1, secret, sizeof(secret)), -1);
    cr_expect_eq(secret_of("\0\n", 2, secret, sizeof(secret)), -1);
}

Test(config, a_secret_in_a_pipe_without_writer_does_not_hang)
{
    char path[] = "/tmp/lockagent-config-XXXXXX", secret[8];
    close(mkstemp(path));
    unlink(path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(config_read_secret(path, secret, sizeof(secret)), 0);
    unlink(path);
}

Test(config, the_cores_view)
{
    struct core_group groups[LIMIT_GROUPS];
    static struct core_policy policies[LIMIT_POLICIES];
    const char *names[LIMIT_GROUPS];
    struct core_config core;
    enter("tests/unit/config/good");
    expect_ok(config_load("everything.yaml", NULL, NULL, 0, &config, &errors));
    config_for_core(&config, 42, groups, policies, names, &core);
    cr_expect_eq(core.group_count, 3u);
    cr_expect_eq(core.groups[0].masters, 6);
    cr_expect_eq(core.groups[0].node_timeout_ms, 120u);
    cr_expect_eq(core.groups[0].drift_ppm, 2500u);
    cr_expect_str_eq(core.group_names[2], "other-3");
    cr_expect_eq(core.policy_count, 4u);
    cr_expect_eq(core.policies[0].ttl_ms, 1500u);
    cr_expect_eq(core.max_ttl_ms, 150000u);
    cr_expect_eq(core.wait_ms_max, 0);
    cr_expect_eq(core.locks_max, 100000u);
    cr_expect_eq(core.requests_max, 512u * config.listen.count); /* one for each connection */
    cr_expect_eq(core.waiters_max, 10u);
    cr_expect_eq(core.seed, 42u);
}
