/* The configuration room: golden messages for bad files, round trips of good ones, the sample and
 * the documentation. */
#include <criterion/criterion.h>
#include <dirent.h>

#include "config/address.h"
#include "tests/unit/config_rig.h"

/* Returns the whole file, or "" if there is none. The caller frees it. */
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

/* Compares bytes, padding included: the room zeroes fields that it does not set. */
static bool same_bytes(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
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
 * ttl-under-watchdog; D9 waiters, listen-remote. UPDATE_GOLDEN=1 writes the messages anew. */
Test(config, bad_files_have_golden_messages)
{
    enter("tests/unit/config/bad");
    cr_expect_geq(for_each_yaml(check_bad), 80u);
}

static char *all_messages; /* the messages of the bad files */

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

/* Returns true if a message has both texts, in this order. */
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
    cr_expect_geq(rows, 28u);
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

/* Loads a file with any content. It expects no crash, and success exactly if there is no error. */
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

/* Replaces passwords as the printed file does, by `***`. Their presence must survive, their text
 * must not. */
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
    cr_expect_eq(config.metrics_detail, METRICS_FULL);
    cr_expect_eq(config.shutdown_grace_ms, 5000);
    cr_expect_not(config.shutdown_release);
}

/* D9: the whole of 127.0.0.0/8 is loopback, and no address beside it. */
Test(config, d9_each_address_of_the_loopback_network_is_loopback)
{
    static const struct {
        const char *text;
        bool loopback;
    } cases[] = {
        {"127.0.0.1:80", true},        {"127.0.0.2:80", true},  {"127.255.255.254:80", true},
        {"126.255.255.255:80", false}, {"128.0.0.1:80", false}, {"0.0.0.0:80", false},
        {"localhost:80", true},        {"[::1]:80", true},      {"[::2]:80", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_address address;
        cr_assert_null(config_address_parse(cases[i].text, &address));
        cr_expect_eq(address.loopback, cases[i].loopback, "%s", cases[i].text);
    }
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
    cr_expect_eq(config.metrics_detail, METRICS_BASIC);
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
    cr_expect_eq(config.max_ttl_ms, 3600000u);
    cr_expect_eq(config.policies[0].core.ttl_ms, 30000u);
    expect_ok(config_load("last-policy-written.yaml", NULL, NULL, 0, &config, &errors));
    cr_expect_eq(config.policy_count, 2u, "a written `*` takes the place of the implicit one");
    cr_expect_str_eq(config.policies[1].core.match, "*");
}

/* ---- errors are true ---- */

#define ONE_MASTER "redis: {groups: {main: {masters: [redis://127.0.0.1:7001]}}}\n"

/* A relation is silent if one of its keys is wrong already: once the ttl is right, this lock_delay
 * is. The advice `at most 0s` would be wrong. */
Test(config, a_ttl_that_is_refused_is_not_held_against_lock_delay)
{
    cr_assert_not(load_text(ONE_MASTER "limits: {max_ttl: 10s}\n"
                                       "policies: [{match: \"*\", ttl: 12s, lock_delay: 1s}]\n",
                            &config));
    char *text = messages();
    cr_expect_eq(errors.count, 1u, "got:\n%s", text);
    cr_expect_null(strstr(text, "lock_delay: "), "got:\n%s", text);
    free(text);
}

/* The limit that an error of lock_delay names is taken, with the same default of renew. */
Test(config, a_lock_delay_at_the_limit_that_its_error_names_is_taken)
{
    cr_assert_not(load_text(ONE_MASTER "limits: {max_ttl: 10s}\n"
                                       "policies: [{match: \"*\", lock_delay: 10s}]\n",
                            &config));
    char yaml[300], limit[20] = "";
    const char *allowed = strstr(errors.list[0].text, "allowed: at most ");
    cr_assert_not_null(allowed, "%s", errors.list[0].text);
    cr_assert_eq(sscanf(allowed, "allowed: at most %19s", limit), 1);
    snprintf(yaml, sizeof(yaml),
             ONE_MASTER "limits: {max_ttl: 10s}\n"
                        "policies: [{match: \"*\", lock_delay: %s}]\n",
             limit);
    expect_ok(load_text(yaml, &config));
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

/* The sample shows the defaults and nothing more. Without its one policy it is the minimal file. */
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
                                        "policies[].fencing",
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

/* ---- the core's view ---- */

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
