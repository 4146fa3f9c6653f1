/* The other sources of a configuration: environment, flags, files that are not regular, secrets.
 * Durations, and reloads. */
#include <criterion/criterion.h>
#include <sys/stat.h>

#include "tests/unit/config_rig.h"

/* environ's type dates from before const. */
#define ENVIRONMENT(...) ((char *const *)(uintptr_t)(const char *[]){__VA_ARGS__, NULL})
#define FLAGS(...)                                                                                 \
    ((const char *[]){__VA_ARGS__}), sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)

static const char ONE_MASTER[] = "LOCKAGENT_REDIS_GROUPS_MAIN_MASTERS=redis://a";

/* ---- environment and flags ---- */

Test(config_sources, an_agent_runs_without_any_file)
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

Test(config_sources, flag_over_environment_over_file_over_default)
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

Test(config_sources, unknown_variables_are_errors_with_a_guess)
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
Test(config_sources, variables_of_others_are_left_alone)
{
    char *const *environment = ENVIRONMENT(
        ONE_MASTER, "LOCKAGENT_KEY=jobs/1", "LOCKAGENT_TOKEN=x", "LOCKAGENT_FENCING_TOKEN=7",
        "LOCKAGENT_FENCING_TOKENS=a=7 b=9", "LOCKAGENT_SLOT=1", "LOCKAGENT_SERVICE_HOST=10.0.0.1",
        "LOCKAGENT_SERVICE_PORT=8080", "LOCKAGENT_SERVICE_PORT_HTTP=8080",
        "LOCKAGENT_PORT=tcp://10.0.0.1:8080", "LOCKAGENT_PORT_8080_TCP=tcp://10.0.0.1:8080",
        "LOCKAGENT_PORT_8080_TCP_ADDR=10.0.0.1", "LOCKAGENT_METRICS_SERVICE_HOST=10.0.0.1");
    expect_ok(config_load(NULL, environment, NULL, 0, &config, &errors));
    environment = ENVIRONMENT(ONE_MASTER, "LOCKAGENT_PORT=8080");
    cr_expect_not(config_load(NULL, environment, NULL, 0, &config, &errors),
                  "that one is a person's mistake");
}

Test(config_sources, bad_values_name_their_source)
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

Test(config_sources, a_message_never_holds_what_a_terminal_can_not_take)
{
    cr_expect_not(config_load(NULL, ENVIRONMENT(ONE_MASTER, "LOCKAGENT_A\x1b[2J=1"),
                              FLAGS("log\nlevel=info", "\xff\xc2\x85=1"), &config, &errors));
    expect_messages("environment: LOCKAGENT_A?[2J: unknown variable; allowed: LOCKAGENT_ and a "
                    "key's path in upper "
                    "case, as LOCKAGENT_LIMITS_MAX_TTL\n"
                    "flag: log?level: unknown key; did you mean log.level?\n"
                    "flag: ???: unknown key; allowed: a path such as log.level\n");
}

Test(config_sources, a_bad_value_in_the_file_is_told_although_it_is_overridden)
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

Test(config_sources, nothing_at_all_says_what_is_needed)
{
    cr_expect_not(config_load(NULL, NULL, NULL, 0, &config, &errors));
    expect_messages("configuration: redis: missing; needed is at least redis.groups.main.masters, "
                    "a list of URLs such as "
                    "redis://127.0.0.1:7001\n");
}

Test(config_sources, the_environment_completes_an_empty_file)
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

Test(config_sources, durations)
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
Test(config_sources, r22_numbers_do_not_move_while_running)
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

Test(config_sources, what_may_change_while_running)
{
    expect_reload(RELOAD_BEFORE,
                  "redis: {groups: {main: {masters: [redis://a, 'redis://:x@b']}, two: {masters: "
                  "[redis://c]}}}\n"
                  "policies: [{match: 'jobs/*', ttl: 9s, renew: caller, max_hold: 1m, "
                  "max_hold_bound: 2m, lock_delay: "
                  "3s, reentrant: on, fencing: off, "
                  "retry: {min: 1ms, max: 2ms}}, {match: 'x'}, {match: '*', ttl: 8s}]\n"
                  "log: {level: debug, format: json}\nshutdown: {grace: 1s, unreleased: release}\n"
                  "api: {token_file: /x, allow_remote: true, allowed_hosts: [a]}\n",
                  "");
}

/* Kind rw implies order fair. A change of the one word is not reported for the other as well. */
Test(config_sources, what_follows_from_a_change_is_not_reported_as_well)
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

Test(config_sources, what_may_not_change_while_running)
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

/* A master's user, password and database are parts of its URL: each one alone is a change. */
Test(config_sources, no_part_of_a_masters_url_may_change_while_running)
{
    static const char changed[] =
        "f.yaml:1:34: redis.groups.main.masters: has changed; that needs a restart\n";
    static const char *const urls[] = {"redis://u:y@b", "redis://v:x@b",   "redis://u:x@b/1",
                                       "redis://u:x@c", "redis://u:x@b:1", "redis://u:x@b#n"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        char after[128];
        snprintf(after, sizeof(after), "redis: {groups: {main: {masters: ['%s']}}}\n", urls[i]);
        expect_reload("redis: {groups: {main: {masters: ['redis://u:x@b']}}}\n", after, changed);
    }
}

Test(config_sources, groups_and_policies_that_come_and_go)
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

/* ---- files and secrets ---- */

/* If it were opened like a file, a pipe without a writer would keep the agent waiting forever. */
Test(config_sources, what_is_no_regular_file_is_refused)
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

Test(config_sources, secrets_lose_one_line_break_and_nothing_else)
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

/* The bytes after the NUL would be cut off, and a longer secret would become a shorter one. */
Test(config_sources, a_secret_with_a_nul_byte_is_refused)
{
    char secret[8];
    cr_expect_eq(secret_of("ab\0cd\n", 6, secret, sizeof(secret)), -1);
    cr_expect_eq(errno, EILSEQ);
    cr_expect_str_eq(config_secret_fault(EILSEQ), "it holds a NUL byte");
    cr_expect_eq(secret_of("abc\0", 4, secret, sizeof(secret)), -1);
    cr_expect_eq(secret_of("\0", 1, secret, sizeof(secret)), -1);
    cr_expect_eq(secret_of("\0\n", 2, secret, sizeof(secret)), -1);
}

Test(config_sources, a_secret_in_a_pipe_without_writer_does_not_hang)
{
    char path[] = "/tmp/lockagent-config-XXXXXX", secret[8];
    close(mkstemp(path));
    unlink(path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(config_read_secret(path, secret, sizeof(secret)), 0);
    unlink(path);
}
