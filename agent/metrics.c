/* The metrics registry: a block of cells, laid out by the table in agent/families.h, that counting functions add to
 * without a look-up and without an allocation. */
#include "agent/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/log.h"
#include "agent/process.h"
#include "agent/registry.h"
#include "agent/version.h"

/* ---- the tables ---- */

#define X(id, ...) static const int64_t bounds_##id[] = {__VA_ARGS__};
BUCKET_SETS(X)
#undef X
#define X(id, ...) [BUCKETS_##id] = {bounds_##id, sizeof(bounds_##id) / sizeof(bounds_##id[0])},
const struct bucket_bounds bucket_bounds[BUCKET_SET_COUNT] = {BUCKET_SETS(X)};
#undef X

#define X(id, name, type, unit, label1, label2, label3, buckets, help)                                                 \
    [FAMILY_##id] = {                                                                                                  \
        name, help, TYPE_##type, UNIT_##unit, {LABEL_##label1, LABEL_##label2, LABEL_##label3}, BUCKETS_##buckets},
const struct family metric_families[FAMILY_COUNT] = {FAMILIES(X)};
#undef X

static const enum answer attempt_outcomes[] = {ANSWER_GRANTED, ANSWER_LOCK_HELD, ANSWER_QUORUM_UNAVAILABLE,
                                               ANSWER_VALIDITY_EXPIRED};
static const enum answer answer_outcomes[] = {ANSWER_GRANTED,
                                              ANSWER_REENTERED,
                                              ANSWER_REPEATED,
                                              ANSWER_SUPERSEDED,
                                              ANSWER_IDEMPOTENCY_MISMATCH,
                                              ANSWER_LOCK_HELD,
                                              ANSWER_WAIT_TIMEOUT,
                                              ANSWER_QUORUM_UNAVAILABLE,
                                              ANSWER_VALIDITY_EXPIRED,
                                              ANSWER_BAD_TTL,
                                              ANSWER_TOO_MANY_LOCKS,
                                              ANSWER_TOO_MANY_WAITERS,
                                              ANSWER_DRAINING};

enum renewal_outcome { RENEWAL_RENEWED, RENEWAL_FAILED };
static const char *const renewal_outcomes[] = {"renewed", "failed"};

enum command_result { RESULT_OK, RESULT_ERROR, RESULT_LOST, RESULT_NOT_SENT };
static const char *const command_results[] = {"ok", "error", "lost", "not_sent"};

enum http_status { STATUS_2XX, STATUS_4XX, STATUS_5XX };
static const char *const http_statuses[] = {"2xx", "4xx", "5xx"};

static const char *const http_methods[] = {"other", "GET", "HEAD", "POST", "PUT", "DELETE"};
enum { METHOD_COUNT = sizeof(http_methods) / sizeof(http_methods[0]) };

enum reload_outcome { RELOAD_OK, RELOAD_FAILED };
static const char *const restored_outcomes[] = {"resumed", "ended", "refused"};
static const char *const reload_outcomes[] = {"ok", "failed"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- building ---- */

static bool add_fragment(struct label_values *values, struct buffer *fragment)
{
    CORE_ASSERT(values->count < values->room);
    if (fragment->failed || fragment->bytes == NULL) {
        buffer_free(fragment);
        return false;
    }
    values->fragments[values->count++] = fragment->bytes;
    return true;
}

static bool add_value(struct label_values *values, const char *name, const char *value)
{
    struct buffer fragment = {0};
    exposition_add_label(&fragment, name, value);
    return add_fragment(values, &fragment);
}

static bool make_room(struct label_values *values, size_t room)
{
    values->room = room;
    values->fragments = calloc(room, sizeof(values->fragments[0]));
    return values->fragments != NULL;
}

static bool add_texts(struct metrics *metrics, enum label label, const char *name, const char *const *texts,
                      size_t count)
{
    struct label_values *values = &metrics->labels[label];
    bool ok = make_room(values, count);
    for (size_t i = 0; ok && i < count; i++)
        ok = add_value(values, name, texts[i]);
    return ok;
}

/* Answers become the values of a label; `ret_index` tells where each of them stands. */
static bool add_answers(struct metrics *metrics, enum label label, const enum answer *answers, size_t count,
                        uint8_t ret_index[ANSWER_COUNT])
{
    const char *codes[ANSWER_COUNT];
    memset(ret_index, UINT8_MAX, ANSWER_COUNT);
    for (size_t i = 0; i < count; i++) {
        codes[i] = answer_code(answers[i]);
        ret_index[answers[i]] = (uint8_t)i;
    }
    return add_texts(metrics, label, "outcome", codes, count);
}

static bool add_tables_of_names(struct metrics *metrics)
{
    const char *reasons[REASON_COUNT], *causes[CAUSE_COUNT], *ops[OP_COUNT], *states[REDIS_STATE_COUNT],
        *classes[REDIS_OUTCOME_COUNT];
    size_t class_count = 0;
    for (enum reason reason = REASON_NONE + 1; reason < REASON_COUNT; reason++)
        reasons[reason - 1] = reason_name(reason);
    for (enum cause cause = 0; cause < CAUSE_COUNT; cause++)
        causes[cause] = cause_name(cause);
    for (enum op op = 0; op < OP_COUNT; op++)
        ops[op] = op_name(op);
    for (enum redis_state state = 0; state < REDIS_STATE_COUNT; state++)
        states[state] = redis_state_name(state);
    for (enum redis_outcome outcome = REDIS_OUTCOME_OK + 1; outcome < REDIS_OUTCOME_LOST; outcome++)
        classes[class_count++] = redis_outcome_name(outcome);
    return add_texts(metrics, LABEL_REASON, "reason", reasons, REASON_COUNT - 1) &&
           add_texts(metrics, LABEL_CAUSE, "cause", causes, CAUSE_COUNT) &&
           add_texts(metrics, LABEL_OP, "op", ops, OP_COUNT) &&
           add_texts(metrics, LABEL_STATE, "state", states, REDIS_STATE_COUNT) &&
           add_texts(metrics, LABEL_CLASS, "class", classes, class_count);
}
static_assert(REASON_NONE == 0, "the reason that is none comes first");
static_assert(REDIS_OUTCOME_OK == 0 && REDIS_OUTCOME_LOST + 2 == REDIS_OUTCOME_COUNT,
              "between ok and the two outcomes of transport stand the classes of error replies");

/* Where a master listens; never its URL, which may carry a password. */
static bool add_master(struct label_values *values, const char *group, const struct config_master *master)
{
    const struct config_address *address = &master->address;
    bool v6 = strchr(address->host, ':') != NULL;
    char place[sizeof(address->host) + 32];
    struct buffer fragment = {0};
    if (address->is_unix)
        snprintf(place, sizeof(place), "%s", address->host);
    else
        snprintf(place, sizeof(place), v6 ? "[%s]:%u" : "%s:%u", address->host, (unsigned)address->port);
    if (master->db != 0)
        snprintf(place + strlen(place), sizeof(place) - strlen(place), "/%d", master->db);
    exposition_add_label(&fragment, "group", group);
    buffer_add(&fragment, ",", 1);
    exposition_add_label(&fragment, "master", place);
    return add_fragment(values, &fragment);
}

static bool add_masters(struct metrics *metrics, const struct config *config)
{
    struct label_values *groups = &metrics->labels[LABEL_GROUP], *masters = &metrics->labels[LABEL_MASTER];
    size_t count = 0;
    metrics->group_count = config->group_count;
    for (size_t g = 0; g < config->group_count; g++) {
        metrics->first_master[g] = count;
        metrics->master_count[g] = config->groups[g].master_count;
        count += config->groups[g].master_count;
    }
    bool ok = make_room(groups, config->group_count) && make_room(masters, count);
    for (size_t g = 0; ok && g < config->group_count; g++) {
        const struct config_group *group = &config->groups[g];
        ok = add_value(groups, "group", group->name);
        for (size_t m = 0; ok && m < group->master_count; m++)
            ok = add_master(masters, group->name, &group->masters[m]);
    }
    return ok;
}

static bool add_policies(struct metrics *metrics, const struct config *config)
{
    const char *patterns[LIMIT_POLICIES];
    metrics->policy_count = config->policy_count;
    for (size_t i = 0; i < config->policy_count; i++)
        patterns[i] = config->policies[i].core.match;
    return add_texts(metrics, LABEL_POLICY, "policy", patterns, config->policy_count);
}

static bool add_labels(struct metrics *metrics, const struct config *config)
{
    static const char *const version[] = {LOCKAGENT_VERSION};
    struct label_values *none = &metrics->labels[LABEL_NONE], *routes = &metrics->labels[LABEL_ROUTE];
    bool ok = make_room(none, 1) && make_room(routes, ROUTES_MAX + 1) && add_value(routes, "route", "other");
    if (!ok || (none->fragments[0] = strdup("")) == NULL)
        return false;
    none->count = 1;
    return add_texts(metrics, LABEL_BUILD, "version", version, 1) && add_policies(metrics, config) &&
           add_masters(metrics, config) && add_tables_of_names(metrics) &&
           add_answers(metrics, LABEL_ATTEMPT, attempt_outcomes, COUNT(attempt_outcomes),
                       metrics->outcome_of_attempt) &&
           add_answers(metrics, LABEL_ANSWER, answer_outcomes, COUNT(answer_outcomes), metrics->outcome_of_answer) &&
           add_texts(metrics, LABEL_RENEWAL, "outcome", renewal_outcomes, COUNT(renewal_outcomes)) &&
           add_texts(metrics, LABEL_RESULT, "outcome", command_results, COUNT(command_results)) &&
           add_texts(metrics, LABEL_METHOD, "method", http_methods, COUNT(http_methods)) &&
           add_texts(metrics, LABEL_STATUS, "status", http_statuses, COUNT(http_statuses)) &&
           add_texts(metrics, LABEL_RESTORED, "outcome", restored_outcomes, COUNT(restored_outcomes)) &&
           add_texts(metrics, LABEL_RELOAD, "outcome", reload_outcomes, COUNT(reload_outcomes));
}

/* Cells of all families in one block. */
static bool lay_out(struct metrics *metrics)
{
    size_t first[FAMILY_COUNT], total = 0;
    for (enum family_id id = 0; id < FAMILY_COUNT; id++) {
        const struct family *family = &metric_families[id];
        size_t size = family->type == TYPE_HISTOGRAM ? bucket_bounds[family->buckets].count + 2 : 1;
        for (size_t i = FAMILY_LABELS; i-- > 0;) {
            metrics->families[id].step[i] = size;
            size *= metrics->labels[family->labels[i]].room;
        }
        first[id] = total;
        total += size;
    }
    metrics->cells = calloc(total, sizeof(metrics->cells[0]));
    for (enum family_id id = 0; metrics->cells != NULL && id < FAMILY_COUNT; id++)
        metrics->families[id].cells = metrics->cells + first[id];
    return metrics->cells != NULL;
}

/* ---- cells ---- */

static int64_t *cell(struct metrics *metrics, enum family_id id, size_t a, size_t b, size_t c)
{
    const struct family_cells *family = &metrics->families[id];
    return family->cells + a * family->step[0] + b * family->step[1] + c * family->step[2];
}

static void count(struct metrics *metrics, enum family_id id, size_t a, size_t b, size_t c)
{
    ++*cell(metrics, id, a, b, c);
}

static void set(struct metrics *metrics, enum family_id id, size_t a, int64_t value)
{
    *cell(metrics, id, a, 0, 0) = value;
}

/* A clock that was read in the wrong order must not make a sum go back. */
static void observe(struct metrics *metrics, enum family_id id, size_t a, int64_t micro)
{
    int64_t *cells = cell(metrics, id, a, 0, 0), value = micro > 0 ? micro : 0;
    const struct bucket_bounds *set = &bucket_bounds[metric_families[id].buckets];
    size_t bucket = 0;
    for (size_t i = 0; i < set->count; i++)
        bucket += value > set->bounds[i];
    cells[bucket]++;
    cells[set->count + 1] += value;
}

static size_t master_at(const struct metrics *metrics, uint8_t group, uint8_t master)
{
    CORE_ASSERT(group < metrics->group_count && master < metrics->master_count[group]);
    return metrics->first_master[group] + master;
}

/* ---- life ---- */

struct metrics *metrics_new(const struct config *config)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL || !add_labels(metrics, config) || !lay_out(metrics)) {
        metrics_free(metrics);
        return NULL;
    }
    int64_t started_us = process_started_wall_us();
    set(metrics, FAMILY_BUILD_INFO, 0, 1);
    set(metrics, FAMILY_PROCESS_START, 0, started_us);
    set(metrics, FAMILY_RELOAD_OK, 0, 1);
    set(metrics, FAMILY_RELOAD_TIME, 0, started_us);
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    for (enum label label = 0; label < LABEL_COUNT; label++) {
        struct label_values *values = &metrics->labels[label];
        for (size_t i = 0; values->fragments != NULL && i < values->room; i++)
            free(values->fragments[i]);
        free(values->fragments);
    }
    for (size_t i = 0; i < metrics->route_count; i++)
        free(metrics->routes[i]);
    free(metrics->cells);
    free(metrics);
}

/* ---- counted as it happens ---- */

static void count_renewal(struct metrics *metrics, const struct effect_trace *trace)
{
    count(metrics, FAMILY_RENEWALS, trace->policy, RENEWAL_RENEWED, 0);
    observe(metrics, FAMILY_MARGIN_SECONDS, trace->policy, trace->margin_us);
    if (trace->ttl_ms > 0)
        observe(metrics, FAMILY_MARGIN_RATIO, trace->policy, trace->margin_us * 1000 / trace->ttl_ms);
}

static void count_stall(struct metrics *metrics, int64_t late_us)
{
    count(metrics, FAMILY_STALLS, 0, 0, 0);
    *cell(metrics, FAMILY_STALL_SECONDS, 0, 0, 0) += late_us > 0 ? late_us : 0;
}

void metrics_traced(struct metrics *metrics, const struct effect_trace *trace)
{
    CORE_ASSERT(trace->policy < metrics->policy_count && trace->group < metrics->group_count);
    switch (trace->kind) {
    case TRACE_ATTEMPT:
        CORE_ASSERT(metrics->outcome_of_attempt[trace->answer] != UINT8_MAX);
        count(metrics, FAMILY_ACQUIRE_ATTEMPTS, trace->policy, metrics->outcome_of_attempt[trace->answer], 0);
        count(metrics, FAMILY_ACQUIRE_CAUSES, trace->policy, trace->cause, 0);
        observe(metrics, FAMILY_ACQUIRE_SECONDS, trace->policy, trace->elapsed_us);
        break;
    case TRACE_GRANTED:
        if (trace->adopted)
            count(metrics, FAMILY_ADOPTIONS, trace->policy, 0, 0);
        break;
    case TRACE_RENEWED:
        count_renewal(metrics, trace);
        break;
    case TRACE_RENEW_FAILED:
        count(metrics, FAMILY_RENEWALS, trace->policy, RENEWAL_FAILED, 0);
        break;
    case TRACE_LOST:
        CORE_ASSERT(trace->reason > REASON_NONE && trace->reason < REASON_COUNT);
        count(metrics, FAMILY_LOST, trace->policy, trace->reason - 1, 0);
        observe(metrics, FAMILY_HOLD_SECONDS, trace->policy, trace->elapsed_us);
        break;
    case TRACE_RELEASED:
        count(metrics, FAMILY_RELEASES, trace->policy, 0, 0);
        observe(metrics, FAMILY_HOLD_SECONDS, trace->policy, trace->elapsed_us);
        break;
    case TRACE_DEBT_DROPPED:
        count(metrics, FAMILY_DEBT_DROPPED, trace->group, 0, 0);
        break;
    case TRACE_FOREIGN:
        count(metrics, FAMILY_FOREIGN, master_at(metrics, trace->group, trace->master), 0, 0);
        break;
    case TRACE_STALLED:
        count_stall(metrics, trace->elapsed_us);
        break;
    }
}

void metrics_answered(struct metrics *metrics, const struct effect_answer *answer)
{
    CORE_ASSERT(answer->policy < metrics->policy_count && metrics->outcome_of_answer[answer->answer] != UINT8_MAX);
    count(metrics, FAMILY_ACQUIRE_REQUESTS, answer->policy, metrics->outcome_of_answer[answer->answer], 0);
    observe(metrics, FAMILY_WAIT_SECONDS, answer->policy, answer->waited_us);
}

static enum command_result result_of(enum redis_outcome outcome)
{
    switch (outcome) {
    case REDIS_OUTCOME_OK:
        return RESULT_OK;
    case REDIS_OUTCOME_LOST:
        return RESULT_LOST;
    case REDIS_OUTCOME_NOT_SENT:
        return RESULT_NOT_SENT;
    default:
        return RESULT_ERROR;
    }
}

void metrics_command(struct metrics *metrics, uint8_t group, uint8_t master, enum op op, enum redis_outcome outcome,
                     int64_t latency_us)
{
    size_t at = master_at(metrics, group, master);
    enum command_result result = result_of(outcome);
    CORE_ASSERT(op < OP_COUNT && outcome < REDIS_OUTCOME_COUNT);
    count(metrics, FAMILY_COMMANDS, at, op, result);
    if (result == RESULT_ERROR)
        count(metrics, FAMILY_ERRORS, at, outcome - 1, 0);
    if (latency_us >= 0)
        observe(metrics, FAMILY_COMMAND_SECONDS, at, latency_us);
}

void metrics_http_routes(struct metrics *metrics, const char *const *routes, size_t count)
{
    CORE_ASSERT(metrics->route_count == 0 && count <= ROUTES_MAX);
    for (size_t i = 0; i < count; i++) {
        char *copy = strdup(routes[i]);
        if (copy == NULL || !add_value(&metrics->labels[LABEL_ROUTE], "route", copy)) {
            free(copy);
            return; /* out of memory: what is left is counted as "other" */
        }
        metrics->routes[metrics->route_count++] = copy;
    }
}

static size_t route_index(const struct metrics *metrics, const char *route)
{
    for (size_t i = 0; route != NULL && i < metrics->route_count; i++) {
        if (strcmp(metrics->routes[i], route) == 0)
            return i + 1;
    }
    return 0;
}

static size_t method_index(const char *method)
{
    for (size_t i = 1; method != NULL && i < METHOD_COUNT; i++) {
        if (strcmp(http_methods[i], method) == 0)
            return i;
    }
    return 0;
}

void metrics_http(struct metrics *metrics, const char *route, const char *method, unsigned status, int64_t latency_us)
{
    size_t at = route_index(metrics, route);
    enum http_status class = status >= 500 ? STATUS_5XX : status >= 400 ? STATUS_4XX : STATUS_2XX;
    count(metrics, FAMILY_HTTP_REQUESTS, at, method_index(method), class);
    observe(metrics, FAMILY_HTTP_SECONDS, at, latency_us);
}

void metrics_http_connections(struct metrics *metrics, int64_t open)
{
    set(metrics, FAMILY_HTTP_CONNECTIONS, 0, open);
}

void metrics_streams(struct metrics *metrics, int64_t open)
{
    set(metrics, FAMILY_STREAMS, 0, open);
}

void metrics_stream_dropped(struct metrics *metrics)
{
    count(metrics, FAMILY_STREAMS_DROPPED, 0, 0, 0);
}

void metrics_loop_lag(struct metrics *metrics, int64_t lag_us)
{
    observe(metrics, FAMILY_LOOP_LAG, 0, lag_us);
}

void metrics_restored(struct metrics *metrics, enum metrics_restored outcome, uint32_t holds)
{
    while (holds-- > 0)
        count(metrics, FAMILY_JOURNAL_HOLDS, outcome, 0, 0);
}

void metrics_journal_failed(struct metrics *metrics)
{
    count(metrics, FAMILY_JOURNAL_ERRORS, 0, 0, 0);
}

void metrics_reloaded(struct metrics *metrics, bool ok, int64_t wall_us)
{
    count(metrics, FAMILY_RELOADS, ok ? RELOAD_OK : RELOAD_FAILED, 0, 0);
    set(metrics, FAMILY_RELOAD_OK, 0, ok);
    if (ok)
        set(metrics, FAMILY_RELOAD_TIME, 0, wall_us);
}

/* ---- read at scrape time ---- */

static void read_core(struct metrics *metrics, const struct core_stats *core)
{
    for (size_t i = 0; i < metrics->policy_count; i++)
        set(metrics, FAMILY_HELD, i, core->held_by_policy[i]);
    set(metrics, FAMILY_TRACKED, 0, core->locks_tracked);
    set(metrics, FAMILY_WAITERS, 0, core->waiters);
    set(metrics, FAMILY_REQUESTS, 0, core->requests);
}

static void read_limits(struct metrics *metrics, const struct config *config)
{
    set(metrics, FAMILY_LOCKS_LIMIT, 0, config->locks_max);
    set(metrics, FAMILY_WAITERS_LIMIT, 0, config->waiters_max);
    set(metrics, FAMILY_HTTP_CONNECTIONS_LIMIT, 0, config->connections_max);
}

static struct redis_master_view read_master(struct metrics *metrics, const struct metrics_scrape *scrape, uint8_t group,
                                            uint8_t master)
{
    struct redis_master_view view = redis_master(scrape->redis, group, master);
    size_t at = master_at(metrics, group, master);
    for (enum redis_state state = 0; state < REDIS_STATE_COUNT; state++)
        *cell(metrics, FAMILY_MASTER_STATE, at, state, 0) = view.state == state;
    /* Where it is not known how long the guard lasts: as long as one that begins now. */
    int64_t longest_ms = (int64_t)scrape->config->max_ttl_ms + 1000;
    set(metrics, FAMILY_MASTER_UP, at, view.serves);
    set(metrics, FAMILY_MASTER_GUARDED, at, (view.guarded_ms < 0 ? longest_ms : view.guarded_ms) * 1000);
    set(metrics, FAMILY_MASTER_DEGRADED, at, view.degraded);
    set(metrics, FAMILY_RECONNECTS, at, (int64_t)view.reconnects);
    set(metrics, FAMILY_CLOCK_OFFSET, at, view.clock_offset_us);
    set(metrics, FAMILY_IN_FLIGHT, at, view.in_flight);
    set(metrics, FAMILY_DEBT, at, scrape->core->debt[group][master]);
    return view;
}

static void read_groups(struct metrics *metrics, const struct metrics_scrape *scrape)
{
    for (size_t g = 0; g < metrics->group_count; g++) {
        size_t up = 0, voting = 0, quorum = config_group_quorum(scrape->config, g);
        for (size_t m = 0; m < metrics->master_count[g]; m++) {
            struct redis_master_view view = read_master(metrics, scrape, (uint8_t)g, (uint8_t)m);
            up += view.serves;
            voting += view.votes;
        }
        set(metrics, FAMILY_GROUP_VOTING, g, (int64_t)voting);
        set(metrics, FAMILY_AGENT_CLOCK, g, redis_clock_off_us(scrape->redis, (uint8_t)g));
        set(metrics, FAMILY_GROUP_MASTERS, g, (int64_t)metrics->master_count[g]);
        set(metrics, FAMILY_GROUP_UP, g, (int64_t)up);
        set(metrics, FAMILY_GROUP_QUORUM, g, (int64_t)quorum);
        set(metrics, FAMILY_QUORUM_AVAILABLE, g, up >= quorum);
    }
}

static void read_process(struct metrics *metrics)
{
    struct process_figures figures = process_read();
    set(metrics, FAMILY_LOG_DROPPED, 0, (int64_t)log_dropped());
    set(metrics, FAMILY_PROCESS_CPU, 0, figures.cpu_us);
    set(metrics, FAMILY_PROCESS_RESIDENT, 0, figures.resident_bytes);
    set(metrics, FAMILY_PROCESS_VIRTUAL, 0, figures.virtual_bytes);
    set(metrics, FAMILY_PROCESS_FDS, 0, figures.open_files);
    set(metrics, FAMILY_PROCESS_FDS_MAX, 0, figures.open_files_max);
}
static_assert(PROCESS_UNKNOWN == CELL_ABSENT, "what can not be read is not shown");

void metrics_render(struct metrics *metrics, const struct metrics_scrape *scrape, struct buffer *out)
{
    read_core(metrics, scrape->core);
    read_limits(metrics, scrape->config);
    read_groups(metrics, scrape);
    read_process(metrics);
    exposition_render(metrics, out);
}
