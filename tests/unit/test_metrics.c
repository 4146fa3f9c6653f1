/* The metrics registry: counted events come out as a page that promtool accepts. Every series is
 * there from the start, and no secret is in the page. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/metrics/exposition.h"
#include "agent/metrics/metrics.h"
#include "agent/version.h"

/* An agent without its loop and its API: a configuration made by hand, the real Redis room, figures
 * of a core. */
static struct {
    struct config *config;
    struct core_stats *stats;
    uv_loop_t uv;
    struct redis *redis;
    struct metrics *metrics;
    struct buffer page;
} world;

static const char *const routes[] = {"/locks/{key}", "/locks", "/metrics"};

/* ---- the world ---- */

static struct config_master *add_master(size_t group, const char *host, uint16_t port)
{
    struct config_group *to = &world.config->groups[group];
    struct config_master *master = &to->masters[to->master_count++];
    master->address.is_unix = port == 0;
    master->address.port = port;
    snprintf(master->address.host, sizeof(master->address.host), "%s", host);
    snprintf(master->address.text, sizeof(master->address.text), "%s%s", port == 0 ? "unix:" : "",
             host);
    snprintf(master->url, sizeof(master->url), "redis:%s", host);
    return master;
}

static size_t add_group(const char *name)
{
    struct config_group *group = &world.config->groups[world.config->group_count];
    snprintf(group->name, sizeof(group->name), "%s", name);
    group->node_timeout_ms = 50;
    group->drift_ppm = 10000;
    return world.config->group_count++;
}

static void add_policy(const char *match, uint8_t group, enum algorithm algorithm)
{
    struct config_policy *policy = &world.config->policies[world.config->policy_count++];
    snprintf(policy->core.match, sizeof(policy->core.match), "%s", match);
    policy->core.groups[0] = group;
    policy->core.group_count = 1;
    policy->core.algorithm = algorithm;
    policy->core.renew = RENEW_AGENT;
    policy->core.ttl_ms = 30000;
    policy->core.max_hold_ms = 600000;
    policy->core.fencing = true;
    policy->core.permits = strcmp(match, "*") == 0 ? 1 : 4; /* the others are semaphores */
    snprintf(policy->prefix, sizeof(policy->prefix), "lock:");
}

static void ignore_event(void *arg, struct event *event)
{
    (void)arg, (void)event;
}

static void ignore_command(void *arg, uint8_t group, uint8_t master, enum op op,
                           enum redis_outcome outcome, int64_t latency_us)
{
    (void)arg, (void)group, (void)master, (void)op, (void)outcome, (void)latency_us;
}

static void ignore_clock(void *arg, uint8_t group, int64_t offset_us)
{
    (void)arg, (void)group, (void)offset_us;
}

static void ignore_state(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                         const char *text)
{
    (void)arg, (void)group, (void)master, (void)state, (void)text;
}

static void open_world(void)
{
    world.config = calloc(1, sizeof(*world.config));
    world.stats = calloc(1, sizeof(*world.stats));
    world.config->locks_max = 10000;
    world.config->waiters_max = 4000;
    world.config->connections_max = 4096;
    world.config->max_ttl_ms = 60000;
}

static void start_world(void)
{
    static const struct redis_sink sink = {.event = ignore_event,
                                           .observe = ignore_command,
                                           .state = ignore_state,
                                           .clock = ignore_clock};
    cr_assert_eq(uv_loop_init(&world.uv), 0);
    world.redis = redis_start(&world.uv, world.config, &sink);
    world.metrics = metrics_new(world.config);
    cr_assert(world.redis != NULL && world.metrics != NULL);
    metrics_http_routes(world.metrics, routes, sizeof(routes) / sizeof(routes[0]));
}

/* Configures five masters without answers, one more group, and patterns that are hard to write
 * down. */
static void usual_world(void)
{
    open_world();
    size_t main = add_group("main");
    for (uint16_t port = 1; port <= 3; port++)
        add_master(main, "127.0.0.1", port);
    add_master(main, "::1", 1);
    add_master(main, "/nowhere/redis.sock", 0);
    struct config_master *secret = add_master(add_group("side"), "127.0.0.1", 4);
    snprintf(secret->password, sizeof(secret->password), "hunter2");
    snprintf(secret->username, sizeof(secret->username), "alice");
    secret->db = 3;
    add_policy("jobs/*", 0, ALGORITHM_REDLOCK);
    add_policy("we\"ird\\\n\xff\xc3\xa9", 1, ALGORITHM_SINGLE);
    add_policy("*", 0, ALGORITHM_REDLOCK);
    start_world();
}

static void note_stopped(void *arg)
{
    *(bool *)arg = true;
}

static void close_world(void)
{
    bool stopped = false;
    redis_stop(world.redis, note_stopped, &stopped);
    while (!stopped)
        uv_run(&world.uv, UV_RUN_ONCE);
    redis_free(world.redis);
    uv_run(&world.uv, UV_RUN_DEFAULT);
    cr_expect_eq(uv_loop_close(&world.uv), 0);
    metrics_free(world.metrics);
    buffer_free(&world.page);
    free(world.config);
    free(world.stats);
}

static const char *render(void)
{
    struct metrics_scrape scrape = {world.stats, world.redis, world.config};
    buffer_free(&world.page);
    metrics_render(world.metrics, &scrape, &world.page);
    cr_assert_not(world.page.failed);
    cr_assert_eq(strlen(world.page.bytes), world.page.len);
    return world.page.bytes;
}

/* ---- reading a page ---- */

/* In strchr a sanitizer would read the whole rest of the page. */
static const char *end_of_line(const char *line)
{
    return memchr(line, '\n', world.page.len - (size_t)(line - world.page.bytes));
}

/* Returns the value of the series that is written exactly so, as text, or NULL if there is none. */
static const char *value_of(const char *series)
{
    static char value[64];
    size_t len = strlen(series);
    for (const char *line = world.page.bytes; *line != '\0'; line = end_of_line(line) + 1) {
        if (strncmp(line, series, len) == 0 && line[len] == ' ') {
            snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + len + 1, "\n"),
                     line + len + 1);
            return value;
        }
    }
    return NULL;
}

static void expect(const char *series, const char *value)
{
    const char *found = value_of(series);
    cr_expect(found != NULL, "%s is not there", series);
    if (found != NULL)
        cr_expect_str_eq(found, value, "%s is %s, not %s", series, found, value);
}

static size_t series_with(const char *text)
{
    size_t count = 0;
    for (const char *line = world.page.bytes; *line != '\0'; line = end_of_line(line) + 1)
        count += *line != '#' &&
                 memmem(line, (size_t)(end_of_line(line) - line), text, strlen(text)) != NULL;
    return count;
}

/* Expects that promtool prints nothing about a page without a flaw. */
static void expect_promtool_content(void)
{
    char said[4096];
    int page = memfd_create("page", 0), ends[2], status = 0;
    cr_assert(page >= 0 &&
              write(page, world.page.bytes, world.page.len) == (ssize_t)world.page.len);
    cr_assert(lseek(page, 0, SEEK_SET) == 0 && pipe(ends) == 0);
    pid_t promtool = fork();
    if (promtool == 0) {
        dup2(page, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execlp("promtool", "promtool", "check", "metrics", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t more;
         len < sizeof(said) - 1 && (more = read(ends[0], said + len, sizeof(said) - 1 - len)) > 0;)
        len += (size_t)more;
    said[len] = '\0';
    close(ends[0]);
    close(page);
    cr_assert_eq(waitpid(promtool, &status, 0), promtool);
    cr_expect(status == 0 && len == 0, "promtool: %s", said);
}

/* ---- traffic ---- */

static void trace(struct effect_trace trace)
{
    metrics_traced(world.metrics, &trace);
}

static void answer(enum answer answer, uint16_t policy, int64_t waited_us)
{
    struct effect_answer effect = {.answer = answer, .policy = policy, .waited_us = waited_us};
    metrics_answered(world.metrics, &effect);
}

/* Calls every counting function, with every value that it can be given. */
static void make_traffic(void)
{
    static const enum answer decided[] = {ANSWER_GRANTED, ANSWER_LOCK_HELD,
                                          ANSWER_QUORUM_UNAVAILABLE, ANSWER_VALIDITY_EXPIRED};
    static const enum answer answered[] = {ANSWER_GRANTED,          ANSWER_LOCK_HELD,
                                           ANSWER_WAIT_TIMEOUT,     ANSWER_QUORUM_UNAVAILABLE,
                                           ANSWER_REENTERED,        ANSWER_REPEATED,
                                           ANSWER_SUPERSEDED,       ANSWER_IDEMPOTENCY_MISMATCH,
                                           ANSWER_VALIDITY_EXPIRED, ANSWER_BAD_TTL,
                                           ANSWER_TOO_MANY_LOCKS,   ANSWER_TOO_MANY_WAITERS,
                                           ANSWER_OVERLOADED,       ANSWER_DRAINING};
    for (int64_t round = 0, us = 1; round < 40; round++, us = us * 2 + 1) {
        uint16_t policy = (uint16_t)(round % 3);
        us = us > 1LL << 36 ? 1 : us;
        trace((struct effect_trace){.kind = TRACE_ATTEMPT,
                                    .policy = policy,
                                    .answer = decided[round % 4],
                                    .elapsed_us = us,
                                    .queued_us = us});
        trace((struct effect_trace){.kind = TRACE_GRANTED, .policy = policy, .adopted = round % 2});
        trace((struct effect_trace){
            .kind = TRACE_RENEWED, .policy = policy, .margin_us = us, .ttl_ms = 30000});
        trace((struct effect_trace){.kind = TRACE_RENEW_FAILED, .policy = policy});
        trace((struct effect_trace){.kind = TRACE_LOST,
                                    .policy = policy,
                                    .reason = (enum reason)(1 + round % (REASON_COUNT - 1)),
                                    .elapsed_us = us});
        trace((struct effect_trace){.kind = TRACE_RELEASED, .policy = policy, .elapsed_us = us});
        trace((struct effect_trace){.kind = TRACE_DEBT_DROPPED, .group = (uint8_t)(round % 2)});
        trace((struct effect_trace){.kind = TRACE_FOREIGN, .master = (uint8_t)(round % 5)});
        trace((struct effect_trace){.kind = TRACE_STALLED, .elapsed_us = us});
        answer(answered[round % 9], policy, us);
        for (enum redis_outcome outcome = 0; outcome < REDIS_OUTCOME_COUNT; outcome++)
            metrics_command(world.metrics, 0, (uint8_t)(round % 5), (enum op)(round % OP_COUNT),
                            outcome, us);
        metrics_http(world.metrics, routes[round % 3], round % 2 ? "POST" : "GET",
                     200 + (unsigned)round % 4 * 100, us);
        metrics_loop_lag(world.metrics, us);
        metrics_http_connections(world.metrics, round, 4096);
        metrics_reloaded(world.metrics, round % 2, 1795255200123456 + round);
    }
}

/* ---- pages ---- */

TestSuite(metrics, .init = usual_world, .fini = close_world, .timeout = 60);

Test(metrics, promtool_accepts_a_page_before_anything_has_happened)
{
    render();
    expect_promtool_content();
}

Test(metrics, promtool_accepts_a_page_after_traffic)
{
    make_traffic();
    render();
    expect_promtool_content();
}

Test(metrics, every_known_series_is_there_from_the_start)
{
    const char *page = render();
    for (enum family_id id = 0; id < FAMILY_COUNT; id++) {
        char text[256];
        const struct family *family = &metric_families[id];
        snprintf(text, sizeof(text), "\n%s%s", family->name,
                 family->type == TYPE_HISTOGRAM ? "_count" : "");
        if (id == FAMILY_MASTER_CERTIFICATE || id == FAMILY_OWN_CERTIFICATE) {
            cr_expect(strstr(page, text) == NULL, "%s without TLS", family->name);
            continue;
        }
        cr_expect(strstr(page, text) != NULL, "no series of %s", family->name);
    }
    expect("lockagent_build_info{version=\"" LOCKAGENT_VERSION "\"}", "1");
    expect("lockagent_acquire_attempts_total{policy=\"jobs/*\",outcome=\"quorum_unavailable\"}",
           "0");
    expect("lockagent_acquire_requests_total{policy=\"*\",outcome=\"wait_timeout\"}", "0");
    expect("lockagent_acquire_requests_total{policy=\"*\",outcome=\"lock_lost\"}", "0");
    expect("lockagent_renewals_total{policy=\"*\",outcome=\"failed\"}", "0");
    expect("lockagent_locks_lost_total{policy=\"*\",reason=\"taken\"}", "0");
    expect("lockagent_acquire_duration_seconds_bucket{policy=\"*\",le=\"0.0001\"}", "0");
    expect("lockagent_acquire_duration_seconds_bucket{policy=\"*\",le=\"+Inf\"}", "0");
    expect("lockagent_acquire_duration_seconds_sum{policy=\"*\"}", "0");
    expect("lockagent_master_commands_total{group=\"main\",master=\"127.0.0.1:2\",op=\"repair\","
           "outcome=\"lost\"}",
           "0");
    expect("lockagent_master_error_replies_total{group=\"main\",master=\"[::1]:1\",class=\"oom\"}",
           "0");
    expect("lockagent_master_up{group=\"main\",master=\"/nowhere/redis.sock\"}", "0");
    expect("lockagent_http_requests_total{route=\"/locks/{key}\",method=\"POST\",status=\"5xx\"}",
           "0");
    expect("lockagent_config_last_reload_successful", "1");
    expect("lockagent_loop_lag_seconds_count", "0");
    cr_expect_eq(series_with("lockagent_locks_lost_total"), 3 * (REASON_MOVED - 1));
    cr_expect_eq(series_with("lockagent_locks_ended_elsewhere_total"), 3 * 2);
    expect("lockagent_locks_ended_elsewhere_total{policy=\"*\",reason=\"moved\"}", "0");
    expect("lockagent_locks_ended_elsewhere_total{policy=\"*\",reason=\"gone\"}", "0");
    cr_expect_eq(series_with("lockagent_master_commands_total"), 6 * OP_COUNT * 4);
}

Test(metrics, label_values_of_strangers_are_escaped)
{
    render();
    expect("lockagent_releases_total{policy=\"we\\\"ird\\\\\\n\xef\xbf\xbd\xc3\xa9\"}", "0");
}

/* A master's name is its address. The rest of its URL is not shown. */
Test(metrics, no_credential_is_shown)
{
    const char *page = render();
    expect("lockagent_master_up{group=\"side\",master=\"127.0.0.1:4/3\"}", "0");
    cr_expect(strstr(page, "hunter2") == NULL && strstr(page, "alice") == NULL);
}

Test(metrics, histograms_never_fall_and_end_in_their_count)
{
    make_traffic();
    double last = 0;
    size_t ends = 0;
    for (const char *line = render(); *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *le = strstr(line, "le=\""), *end = strchr(line, '\n');
        if (*line == '#' || le == NULL || le > end)
            continue;
        double value = strtod(strstr(le, "} ") + 2, NULL);
        cr_expect(value >= last, "falls: %.*s", (int)(end - line), line);
        last = value;
        if (strncmp(le, "le=\"+Inf\"", 9) == 0) {
            const char *count = strchr(strchr(end + 1, '\n') + 1, ' ');
            cr_expect_eq(value, strtod(count, NULL), "not its count: %.*s", (int)(end - line),
                         line);
            last = 0, ends++;
        }
    }
    /* By policy 6, by master 1, by route 1 (with "other"), and the loop's lag and turns. */
    cr_expect_eq(ends, 6 * 3 + 6 + 4 + 2);
}

Test(metrics, an_observation_falls_into_the_bucket_that_bounds_it)
{
    /* on the bound: inside */
    metrics_command(world.metrics, 0, 0, OP_ACQUIRE, REDIS_OUTCOME_OK, 100);
    /* above it: the next one */
    metrics_command(world.metrics, 0, 0, OP_ACQUIRE, REDIS_OUTCOME_OK, 101);
    metrics_command(world.metrics, 0, 0, OP_ACQUIRE, REDIS_OUTCOME_OK, 1000001); /* above all */
    render();
#define BUCKET(le)                                                                                 \
    "lockagent_master_command_duration_seconds_bucket{group=\"main\",master=\"127.0.0.1:1\",le="   \
    "\"" le "\"}"
    expect(BUCKET("0.0001"), "1");
    expect(BUCKET("0.00025"), "2");
    expect(BUCKET("1"), "2");
    expect(BUCKET("+Inf"), "3");
    expect("lockagent_master_command_duration_seconds_sum{group=\"main\",master=\"127.0.0.1:1\"}",
           "1.000202");
    expect("lockagent_master_command_duration_seconds_sum{group=\"main\",master=\"127.0.0.1:2\"}",
           "0");
#undef BUCKET
}

/* Millionths are printed exactly, and read back as the double that is nearest to them. */
Test(metrics, numbers_survive_being_printed)
{
    static const int64_t micros[] = {
        0,  1,        10,  999999,  1000000,  1000001,          -1,       -1500000,
        -5, 12345678, 100, 1000100, 60000000, 1795255200123456, INT64_MAX};
    int64_t *offset = world.metrics->families[FAMILY_CLOCK_OFFSET].cells;
    for (size_t i = 0; i < sizeof(micros) / sizeof(micros[0]); i++) {
        *offset = micros[i];
        buffer_free(&world.page);
        exposition_render(world.metrics, /* is_basic= */ false, &world.page);
        const char *text = value_of(
            "lockagent_master_clock_offset_seconds{group=\"main\",master=\"127.0.0.1:1\"}");
        cr_assert(text != NULL);
        char expected[64];
        snprintf(expected, sizeof(expected), "%.6Lf", (long double)micros[i] / 1000000.0L);
        cr_expect_eq(strtod(text, NULL), strtod(expected, NULL), "%s for %s", text, expected);
        cr_expect(strchr(text, '.') == NULL || text[strlen(text) - 1] != '0', "%s ends in zeros",
                  text);
    }
    *world.metrics->families[FAMILY_RELEASES].cells = INT64_MAX;
    render();
    expect("lockagent_releases_total{policy=\"jobs/*\"}", "9223372036854775807");
}

/* R16: a hand-over takes no round of the group. */
Test(metrics, a_handover_is_no_round)
{
    trace((struct effect_trace){
        .kind = TRACE_ATTEMPT, .answer = ANSWER_GRANTED, .cause = CAUSE_ARRIVAL, .queued_us = 1});
    trace((struct effect_trace){
        .kind = TRACE_ATTEMPT, .answer = ANSWER_GRANTED, .cause = CAUSE_HANDOVER, .queued_us = 1});
    render();
    expect("lockagent_group_rounds_total{group=\"main\"}", "1");
    expect("lockagent_acquire_causes_total{policy=\"jobs/*\",cause=\"handover\"}", "1");
}

Test(metrics, what_the_core_traces_is_counted)
{
    trace((struct effect_trace){.kind = TRACE_ATTEMPT,
                                .answer = ANSWER_LOCK_HELD,
                                .cause = CAUSE_MESSAGE,
                                .elapsed_us = 1500});
    trace((struct effect_trace){.kind = TRACE_GRANTED, .policy = 2, .adopted = true});
    trace((struct effect_trace){.kind = TRACE_GRANTED, .policy = 2});
    trace((struct effect_trace){.kind = TRACE_GRANTED, .policy = 0, .attempts = 3});
    trace((struct effect_trace){
        .kind = TRACE_RENEWED, .policy = 2, .margin_us = 7500000, .ttl_ms = 30000});
    trace((struct effect_trace){.kind = TRACE_RENEW_FAILED, .policy = 2});
    trace((struct effect_trace){
        .kind = TRACE_LOST, .policy = 2, .reason = REASON_QUORUM_LOST, .elapsed_us = 2000000});
    trace((struct effect_trace){.kind = TRACE_RELEASED, .policy = 2, .elapsed_us = 500000});
    /* That of another agent's hold: this agent does not know how long it was. */
    trace((struct effect_trace){.kind = TRACE_RELEASED, .policy = 2, .elapsed_us = -1});
    trace((struct effect_trace){.kind = TRACE_DEBT_DROPPED, .group = 1});
    trace((struct effect_trace){.kind = TRACE_FOREIGN, .group = 0, .master = 1});
    trace((struct effect_trace){.kind = TRACE_STALLED, .elapsed_us = 250000});
    render();
    expect("lockagent_slot_attempts_per_grant_bucket{policy=\"jobs/*\",le=\"2\"}", "0");
    expect("lockagent_slot_attempts_per_grant_bucket{policy=\"jobs/*\",le=\"3\"}", "1");
    expect("lockagent_slot_attempts_per_grant_count{policy=\"*\"}", "0");
    expect("lockagent_acquire_attempts_total{policy=\"jobs/*\",outcome=\"lock_held\"}", "1");
    expect("lockagent_acquire_causes_total{policy=\"jobs/*\",cause=\"arrival\"}", "0");
    expect("lockagent_acquire_causes_total{policy=\"jobs/*\",cause=\"message\"}", "1");
    expect("lockagent_acquire_duration_seconds_sum{policy=\"jobs/*\"}", "0.0015");
    expect("lockagent_adoptions_total{policy=\"*\"}", "1");
    expect("lockagent_renewals_total{policy=\"*\",outcome=\"renewed\"}", "1");
    expect("lockagent_renewals_total{policy=\"*\",outcome=\"failed\"}", "1");
    expect("lockagent_renewal_margin_seconds_sum{policy=\"*\"}", "7.5");
    expect("lockagent_renewal_margin_ratio_bucket{policy=\"*\",le=\"0.2\"}", "0");
    expect("lockagent_renewal_margin_ratio_bucket{policy=\"*\",le=\"0.25\"}", "1");
    expect("lockagent_locks_lost_total{policy=\"*\",reason=\"quorum_lost\"}", "1");
    expect("lockagent_releases_total{policy=\"*\"}", "2");
    expect("lockagent_hold_duration_seconds_sum{policy=\"*\"}", "2.5");
    expect("lockagent_hold_duration_seconds_count{policy=\"*\"}", "2");
    expect("lockagent_releases_dropped_total{group=\"side\"}", "1");
    expect("lockagent_master_foreign_keys_total{group=\"main\",master=\"127.0.0.1:2\"}", "1");
    expect("lockagent_stalls_total", "1");
    expect("lockagent_stall_seconds_total", "0.25");
}

Test(metrics, answers_to_acquires_are_counted_and_others_are_not)
{
    answer(ANSWER_GRANTED, 2, 3000);
    answer(ANSWER_DRAINING, 2, 1000);
    render();
    expect("lockagent_acquire_requests_total{policy=\"*\",outcome=\"granted\"}", "1");
    expect("lockagent_acquire_requests_total{policy=\"*\",outcome=\"draining\"}", "1");
    expect("lockagent_wait_duration_seconds_count{policy=\"*\"}", "2");
    expect("lockagent_wait_duration_seconds_sum{policy=\"*\"}", "0.004");
}

Test(metrics, commands_are_counted_by_what_came_of_them)
{
#define COMMANDS(outcome)                                                                          \
    "lockagent_master_commands_total{group=\"side\",master=\"127.0.0.1:4/"                         \
    "3\",op=\"renew\",outcome=\"" outcome "\"}"
    metrics_command(world.metrics, 1, 0, OP_RENEW, REDIS_OUTCOME_OK, 200);
    metrics_command(world.metrics, 1, 0, OP_RENEW, REDIS_OUTCOME_MISCONF, 200);
    metrics_command(world.metrics, 1, 0, OP_RENEW, REDIS_OUTCOME_OTHER, 200);
    metrics_command(world.metrics, 1, 0, OP_RENEW, REDIS_OUTCOME_LOST, 200);
    metrics_command(world.metrics, 1, 0, OP_RENEW, REDIS_OUTCOME_NOT_SENT, -1);
    render();
    expect(COMMANDS("ok"), "1");
    expect(COMMANDS("error"), "2");
    expect(COMMANDS("lost"), "1");
    expect(COMMANDS("not_sent"), "1");
    expect("lockagent_master_error_replies_total{group=\"side\",master=\"127.0.0.1:4/"
           "3\",class=\"misconf\"}",
           "1");
    expect("lockagent_master_error_replies_total{group=\"side\",master=\"127.0.0.1:4/"
           "3\",class=\"other\"}",
           "1");
    expect("lockagent_master_error_replies_total{group=\"side\",master=\"127.0.0.1:4/"
           "3\",class=\"oom\"}",
           "0");
    expect(
        "lockagent_master_command_duration_seconds_count{group=\"side\",master=\"127.0.0.1:4/3\"}",
        "4");
#undef COMMANDS
}

Test(metrics, http_requests_are_counted_by_route_method_and_class)
{
    metrics_http(world.metrics, "/locks/{key}", "POST", 201, 900);
    metrics_http(world.metrics, "/locks/{key}", "POST", 409, 900);
    metrics_http(world.metrics, "/etc/passwd", "BREW", 404, 20);
    metrics_http(world.metrics, NULL, NULL, 503, -1);
    metrics_http_connections(world.metrics, 17, 8192);
    render();
    expect("lockagent_http_requests_total{route=\"/locks/{key}\",method=\"POST\",status=\"2xx\"}",
           "1");
    expect("lockagent_http_requests_total{route=\"/locks/{key}\",method=\"POST\",status=\"4xx\"}",
           "1");
    expect("lockagent_http_requests_total{route=\"other\",method=\"other\",status=\"4xx\"}", "1");
    expect("lockagent_http_requests_total{route=\"other\",method=\"other\",status=\"5xx\"}", "1");
    expect("lockagent_http_request_duration_seconds_sum{route=\"/locks/{key}\"}", "0.0018");
    expect("lockagent_http_request_duration_seconds_sum{route=\"other\"}", "0.00002");
    expect("lockagent_http_connections", "17");
    expect("lockagent_http_connections_limit", "8192");
    cr_expect(strstr(world.page.bytes, "passwd") == NULL &&
              strstr(world.page.bytes, "BREW") == NULL);
}

Test(metrics, reloads_tell_whether_and_when)
{
    metrics_reloaded(world.metrics, true, 1795255200123456);
    metrics_reloaded(world.metrics, false, 1795255300000000);
    render();
    expect("lockagent_config_reloads_total{outcome=\"ok\"}", "1");
    expect("lockagent_config_reloads_total{outcome=\"failed\"}", "1");
    expect("lockagent_config_last_reload_successful", "0");
    expect("lockagent_config_last_reload_success_timestamp_seconds", "1795255200.123456");
}

Test(metrics, figures_of_the_core_and_the_limits_are_read_at_scrape_time)
{
    world.stats->held_by_policy[2] = 7;
    world.stats->read_by_policy[2] = 5;
    world.stats->locks_held = 7;
    world.stats->locks_tracked = 9;
    world.stats->waiters = 3;
    world.stats->requests = 4;
    world.stats->debt[0][4] = 11;
    render();
    expect("lockagent_locks_held{policy=\"*\"}", "7");
    expect("lockagent_locks_held{policy=\"jobs/*\"}", "0");
    expect("lockagent_locks_read{policy=\"*\"}", "5");
    expect("lockagent_locks_limit", "10000");
    expect("lockagent_locks_tracked", "9");
    expect("lockagent_waiters", "3");
    expect("lockagent_waiters_limit", "4000");
    expect("lockagent_requests_unanswered", "4");
    expect("lockagent_master_release_debt{group=\"main\",master=\"/nowhere/redis.sock\"}", "11");
    expect("lockagent_quorum_available{group=\"main\"}", "0");
    expect("lockagent_group_quorum{group=\"main\"}", "3");
    expect("lockagent_group_masters{group=\"main\"}", "5");
    expect("lockagent_group_masters_up{group=\"main\"}", "0");
}

Test(metrics, the_process_is_described)
{
    render();
    cr_expect_gt(strtod(value_of("process_resident_memory_bytes"), NULL), 1 << 20);
    cr_expect_gt(strtod(value_of("process_virtual_memory_bytes"), NULL), 1 << 20);
    cr_expect_geq(strtod(value_of("process_cpu_seconds_total"), NULL), 0);
    double files = strtod(value_of("process_open_fds"), NULL);
    cr_expect(files >= 3 && files <= strtod(value_of("process_max_fds"), NULL));
    double started = strtod(value_of("process_start_time_seconds"), NULL), now = (double)time(NULL);
    cr_expect(started <= now + 1 && started > now - 120, "started at %f, now is %f", started, now);
    int more = dup(0);
    render();
    cr_expect_eq(strtod(value_of("process_open_fds"), NULL), files + 1);
    close(more);
}

Test(metrics, a_figure_that_can_not_be_read_is_not_shown)
{
    render();
    *world.metrics->families[FAMILY_PROCESS_FDS].cells = CELL_ABSENT;
    buffer_free(&world.page);
    exposition_render(world.metrics, /* is_basic= */ false, &world.page);
    cr_expect(value_of("process_open_fds") == NULL);
    expect_promtool_content();
}

/* The series of one master are bounded. The whole page of a usual agent stays in the hundreds. */
Test(metrics, series_are_bounded)
{
    make_traffic();
    render();
    cr_expect_leq(series_with(",master=\"127.0.0.1:1\""), 98);
    cr_expect_leq(series_with("{policy=\"jobs/*\""), 144);
    size_t before = series_with("");
    for (int i = 0; i < 1000; i++) {
        char route[32];
        snprintf(route, sizeof(route), "/r%d", i);
        metrics_http(world.metrics, route, route, 200, 1);
    }
    render();
    cr_expect_eq(series_with(""), before);
    cr_expect_leq(before, 1265, "%zu series", before);
}

Test(metrics, counting_allocates_nothing)
{
    make_traffic();
    struct mallinfo2 before = mallinfo2();
    make_traffic();
    struct mallinfo2 after = mallinfo2();
    cr_expect_eq(before.uordblks, after.uordblks);
}

Test(metrics, the_table_for_docs_has_a_row_for_each_family)
{
    struct buffer out = {0};
    size_t rows = 0;
    exposition_print_markdown(&out);
    for (const char *at = out.bytes; (at = strchr(at, '\n')) != NULL; at++)
        rows++;
    cr_expect_eq(rows, FAMILY_COUNT + 2);
    cr_expect(strstr(out.bytes,
                     "| `lockagent_locks_lost_total` | counter | `policy`, `reason` | summed | "
                     "Holds that ended without a release, by reason. |\n") != NULL);
    cr_expect(strstr(out.bytes,
                     "| `lockagent_master_state` | gauge | `group`, `master`, `state` | ") != NULL);
    buffer_free(&out);
}

/* ---- worlds of their own ---- */

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

Test(metrics_alone, a_scrape_of_fifteen_masters_takes_a_fraction_of_5_ms, .fini = close_world,
     .timeout = 60)
{
    enum { SCRAPES = 50 };
    open_world();
    size_t main = add_group("main");
    for (uint16_t port = 1; port <= LIMIT_MASTERS; port++)
        add_master(main, "127.0.0.1", port);
    add_policy("*", 0, ALGORITHM_REDLOCK);
    start_world();
    render();
    expect_promtool_content();
    double before = cpu_seconds();
    for (int i = 0; i < SCRAPES; i++)
        render();
    double each = (cpu_seconds() - before) / SCRAPES;
    cr_log_info("%zu bytes in %.3f ms", world.page.len, each * 1e3);
    cr_expect_lt(each, 5e-3);
}

/* The largest configuration that the limits allow: all cells are there, and none is written
 * beside. */
Test(metrics_alone, the_largest_configuration_fits, .fini = close_world, .timeout = 60)
{
    open_world();
    for (int g = 0; g < LIMIT_GROUPS; g++) {
        char name[16];
        snprintf(name, sizeof(name), "g%d", g);
        size_t group = add_group(name);
        for (uint16_t port = 1; port <= LIMIT_MASTERS; port++)
            add_master(group, "127.0.0.1", port);
    }
    for (int p = 0; p < LIMIT_POLICIES; p++) {
        char pattern[LIMIT_PATTERN_BYTES + 1];
        memset(pattern, '"', LIMIT_PATTERN_BYTES);
        pattern[LIMIT_PATTERN_BYTES] = '\0';
        snprintf(pattern, sizeof(pattern), "%d", p);
        pattern[strlen(pattern)] = p == LIMIT_POLICIES - 1 ? '*' : '"';
        add_policy(pattern, (uint8_t)(p % LIMIT_GROUPS), ALGORITHM_REDLOCK);
    }
    start_world();
    trace((struct effect_trace){
        .kind = TRACE_FOREIGN, .group = LIMIT_GROUPS - 1, .master = LIMIT_MASTERS - 1});
    trace((struct effect_trace){.kind = TRACE_LOST,
                                .policy = LIMIT_POLICIES - 1,
                                .reason = REASON_DRAINED,
                                .elapsed_us = INT64_MAX / 4});
    render();
    expect("lockagent_master_foreign_keys_total{group=\"g7\",master=\"127.0.0.1:15\"}", "1");
    expect_promtool_content();
}

static pid_t start_redis(const char *folder, const char *socket)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket, "--dir",
               folder, "--save", "", "--appendonly", "no", "--logfile", "redis.log",
               "--maxmemory-policy", "noeviction", (char *)NULL);
        _exit(127);
    }
    return child;
}

/* Runs the loop until the only master's state is that, or five seconds are over. */
static void run_until(enum redis_state state)
{
    for (int i = 0; i < 500 && redis_master(world.redis, 0, 0).state != state; i++) {
        uv_run(&world.uv, UV_RUN_NOWAIT);
        usleep(10000);
    }
}

Test(metrics_alone, a_real_master_comes_and_goes, .fini = close_world, .timeout = 60)
{
    char folder[] = "/tmp/lockagent-metrics.XXXXXX", socket[64], log[64];
    cr_assert(mkdtemp(folder) != NULL);
    snprintf(socket, sizeof(socket), "%s/s", folder);
    snprintf(log, sizeof(log), "%s/redis.log", folder);
    pid_t redis = start_redis(folder, socket);
    open_world();
    add_master(add_group("main"), socket, 0);
    add_policy("*", 0, ALGORITHM_SINGLE);
    start_world();
    char up[128], state[160], reconnects[128];
    snprintf(up, sizeof(up), "lockagent_master_up{group=\"main\",master=\"%s\"}", socket);
    snprintf(state, sizeof(state),
             "lockagent_master_state{group=\"main\",master=\"%s\",state=\"up\"}", socket);
    snprintf(reconnects, sizeof(reconnects),
             "lockagent_master_reconnects_total{group=\"main\",master=\"%s\"}", socket);

    run_until(REDIS_UP);
    render();
    expect(up, "1");
    expect(state, "1");
    expect("lockagent_quorum_available{group=\"main\"}", "1");
    expect_promtool_content();
    uint64_t before = strtoull(value_of(reconnects), NULL, 10);

    kill(redis, SIGKILL);
    waitpid(redis, NULL, 0);
    run_until(REDIS_DOWN);
    for (int i = 0; i < 100 && redis_master(world.redis, 0, 0).reconnects <= before; i++) {
        uv_run(&world.uv, UV_RUN_NOWAIT);
        usleep(10000);
    }
    render();
    expect(up, "0");
    expect(state, "0");
    expect("lockagent_quorum_available{group=\"main\"}", "0");
    cr_expect_gt(strtoull(value_of(reconnects), NULL, 10), before);
    unlink(socket);
    unlink(log);
    cr_expect_eq(rmdir(folder), 0);
}
