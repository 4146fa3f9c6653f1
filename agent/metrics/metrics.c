/* Counts events as they happen, and reads all other figures when a page is requested. */
#include "agent/metrics/metrics.h"

#include <stdlib.h>

#include "agent/core/core_assert.h"
#include "agent/log.h"
#include "agent/metrics/exposition.h"
#include "agent/metrics/process.h"
#include "agent/metrics/registry.h"

struct metrics *metrics_new(const struct config *config)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL || !registry_build(metrics, config)) {
        metrics_free(metrics);
        return NULL;
    }
    int64_t started_us = process_started_wall_us();
    registry_set(metrics, FAMILY_BUILD_INFO, 0, 1);
    registry_set(metrics, FAMILY_PROCESS_START, 0, started_us);
    registry_set(metrics, FAMILY_RELOAD_OK, 0, 1);
    registry_set(metrics, FAMILY_RELOAD_TIME, 0, started_us);
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    registry_free(metrics);
    free(metrics);
}

static size_t master_index(const struct metrics *metrics, uint8_t group, uint8_t master)
{
    CORE_ASSERT(group < metrics->group_count && master < metrics->master_count[group]);
    return metrics->first_master[group] + master;
}

/* ---- counted as it happens ---- */

static void count_renewal(struct metrics *metrics, const struct effect_trace *trace)
{
    registry_count(metrics, FAMILY_RENEWALS, trace->policy, RENEWAL_RENEWED, 0);
    registry_observe(metrics, FAMILY_MARGIN_SECONDS, trace->policy, trace->margin_us);
    if (trace->ttl_ms > 0)
        registry_observe(metrics, FAMILY_MARGIN_RATIO, trace->policy,
                         trace->margin_us * 1000 / trace->ttl_ms);
}

void metrics_traced(struct metrics *metrics, const struct effect_trace *trace)
{
    CORE_ASSERT(trace->policy < metrics->policy_count && trace->group < metrics->group_count);
    switch (trace->kind) {
    case TRACE_ATTEMPT:
        CORE_ASSERT(metrics->outcome_of_attempt[trace->answer] != UINT8_MAX);
        registry_count(metrics, FAMILY_ACQUIRE_ATTEMPTS, trace->policy,
                       metrics->outcome_of_attempt[trace->answer], 0);
        registry_count(metrics, FAMILY_ACQUIRE_CAUSES, trace->policy, trace->cause, 0);
        registry_observe(metrics, FAMILY_ACQUIRE_SECONDS, trace->policy, trace->elapsed_us);
        if (trace->cause != CAUSE_HANDOVER) {
            registry_count(metrics, FAMILY_ROUNDS, trace->group, 0, 0);
            *registry_cell(metrics, FAMILY_ROUND_WAIT, trace->group, 0, 0) += trace->queued_us;
        }
        break;
    case TRACE_GRANTED:
        if (trace->adopted)
            registry_count(metrics, FAMILY_ADOPTIONS, trace->policy, 0, 0);
        if (trace->attempts > 0)
            registry_observe(metrics, FAMILY_SLOT_ATTEMPTS, trace->policy,
                             trace->attempts * INT64_C(1000000));
        break;
    case TRACE_RENEWED:
        count_renewal(metrics, trace);
        break;
    case TRACE_RENEW_FAILED:
        registry_count(metrics, FAMILY_RENEWALS, trace->policy, RENEWAL_FAILED, 0);
        break;
    case TRACE_LOST:
        CORE_ASSERT(trace->reason > REASON_NONE && trace->reason < REASON_COUNT);
        if (reason_is_elsewhere(trace->reason))
            registry_count(metrics, FAMILY_ENDED_ELSEWHERE, trace->policy,
                           trace->reason - REASON_MOVED, 0);
        else
            registry_count(metrics, FAMILY_LOST, trace->policy, trace->reason - 1, 0);
        registry_observe(metrics, FAMILY_HOLD_SECONDS, trace->policy, trace->elapsed_us);
        break;
    case TRACE_RELEASED:
        registry_count(metrics, FAMILY_RELEASES, trace->policy, 0, 0);
        if (trace->elapsed_us >= 0)
            registry_observe(metrics, FAMILY_HOLD_SECONDS, trace->policy, trace->elapsed_us);
        break;
    case TRACE_DEBT_DROPPED:
        registry_count(metrics, FAMILY_DEBT_DROPPED, trace->group, 0, 0);
        break;
    case TRACE_FOREIGN:
        registry_count(metrics, FAMILY_FOREIGN, master_index(metrics, trace->group, trace->master),
                       0, 0);
        break;
    case TRACE_CLOCK_GAINED:
        registry_count(metrics, FAMILY_CLOCK_GAINS,
                       master_index(metrics, trace->group, trace->master), 0, 0);
        break;
    case TRACE_STALLED:
        registry_count(metrics, FAMILY_STALLS, 0, 0, 0);
        *registry_cell(metrics, FAMILY_STALL_SECONDS, 0, 0, 0) +=
            trace->elapsed_us > 0 ? trace->elapsed_us : 0;
        break;
    }
}

void metrics_answered(struct metrics *metrics, const struct effect_answer *answer)
{
    CORE_ASSERT(answer->policy < metrics->policy_count &&
                metrics->outcome_of_answer[answer->answer] != UINT8_MAX);
    registry_count(metrics, FAMILY_ACQUIRE_REQUESTS, answer->policy,
                   metrics->outcome_of_answer[answer->answer], 0);
    registry_observe(metrics, FAMILY_WAIT_SECONDS, answer->policy, answer->waited_us);
}

void metrics_command(struct metrics *metrics, uint8_t group, uint8_t master, enum op op,
                     enum redis_outcome outcome, int64_t latency_us)
{
    size_t at = master_index(metrics, group, master);
    enum command_result result = outcome == REDIS_OUTCOME_OK         ? RESULT_OK
                                 : outcome == REDIS_OUTCOME_LOST     ? RESULT_LOST
                                 : outcome == REDIS_OUTCOME_NOT_SENT ? RESULT_NOT_SENT
                                                                     : RESULT_ERROR;
    CORE_ASSERT(op < OP_COUNT && outcome < REDIS_OUTCOME_COUNT);
    registry_count(metrics, FAMILY_COMMANDS, at, op, result);
    if (result == RESULT_ERROR)
        registry_count(metrics, FAMILY_ERRORS, at, outcome - 1, 0);
    if (latency_us >= 0)
        registry_observe(metrics, FAMILY_COMMAND_SECONDS, at, latency_us);
}

void metrics_http_routes(struct metrics *metrics, const char *const *routes, size_t count)
{
    CORE_ASSERT(metrics->route_count == 0 && count <= ROUTES_MAX);
    bool ok = true;
    /* Routes for which there is no memory count as "other". */
    for (size_t i = 0; ok && i < count; i++)
        ok = registry_add_route(metrics, routes[i]);
}

void metrics_http(struct metrics *metrics, const char *route, const char *method, unsigned status,
                  int64_t latency_us)
{
    size_t at = registry_route(metrics, route);
    enum http_status class = status >= 500 ? STATUS_5XX : status >= 400 ? STATUS_4XX : STATUS_2XX;
    registry_count(metrics, FAMILY_HTTP_REQUESTS, at, registry_method(method), class);
    registry_observe(metrics, FAMILY_HTTP_SECONDS, at, latency_us);
}

void metrics_http_connections(struct metrics *metrics, int64_t open, int64_t most)
{
    registry_set(metrics, FAMILY_HTTP_CONNECTIONS, 0, open);
    registry_set(metrics, FAMILY_HTTP_CONNECTIONS_LIMIT, 0, most);
}

void metrics_streams(struct metrics *metrics, int64_t open)
{
    registry_set(metrics, FAMILY_STREAMS, 0, open);
}

void metrics_followed(struct metrics *metrics, int64_t keys)
{
    registry_set(metrics, FAMILY_FOLLOWED, 0, keys);
}

void metrics_stream_dropped(struct metrics *metrics)
{
    registry_count(metrics, FAMILY_STREAMS_DROPPED, 0, 0, 0);
}

void metrics_loop_lag(struct metrics *metrics, int64_t lag_us)
{
    registry_observe(metrics, FAMILY_LOOP_LAG, 0, lag_us);
}

void metrics_loop_turn(struct metrics *metrics, int64_t worked_us)
{
    registry_observe(metrics, FAMILY_LOOP_TURN, 0, worked_us);
}

void metrics_restored(struct metrics *metrics, enum metrics_restored outcome, uint32_t holds)
{
    while (holds-- > 0)
        registry_count(metrics, FAMILY_JOURNAL_HOLDS, outcome, 0, 0);
}

void metrics_journal_failed(struct metrics *metrics)
{
    registry_count(metrics, FAMILY_JOURNAL_ERRORS, 0, 0, 0);
}

void metrics_reloaded(struct metrics *metrics, bool ok, int64_t wall_us)
{
    registry_count(metrics, FAMILY_RELOADS, ok ? RELOAD_OK : RELOAD_FAILED, 0, 0);
    registry_set(metrics, FAMILY_RELOAD_OK, 0, ok);
    if (ok)
        registry_set(metrics, FAMILY_RELOAD_TIME, 0, wall_us);
}

/* ---- read when a page is asked for ---- */

/* Sets a point in unix time, which is shown only if it is known. */
static void set_end(struct metrics *metrics, enum family_id id, size_t at, int64_t end_s)
{
    registry_set(metrics, id, at, end_s != 0 ? end_s * 1000000 : CELL_ABSENT);
}

static void read_master(struct metrics *metrics, const struct metrics_scrape *scrape, uint8_t group,
                        uint8_t master)
{
    struct redis_master_view view = redis_master(scrape->redis, group, master);
    size_t at = master_index(metrics, group, master);
    for (enum redis_state state = 0; state < REDIS_STATE_COUNT; state++)
        *registry_cell(metrics, FAMILY_MASTER_STATE, at, state, 0) = view.state == state;
    /* If the end of the guard is not known, show the duration of a guard that begins now. */
    int64_t longest_ms = (int64_t)scrape->config->max_ttl_ms + 1000;
    registry_set(metrics, FAMILY_MASTER_UP, at, view.serves);
    registry_set(metrics, FAMILY_MASTER_GUARDED, at,
                 (view.guarded_ms < 0 ? longest_ms : view.guarded_ms) * 1000);
    registry_set(metrics, FAMILY_MASTER_GUESSED, at, view.guessed);
    registry_set(metrics, FAMILY_MASTER_DEGRADED, at, view.degraded);
    registry_set(metrics, FAMILY_UNREPLICATED, at, (int64_t)view.unreplicated);
    registry_set(metrics, FAMILY_RECONNECTS, at, (int64_t)view.reconnects);
    for (enum redis_fault fault = 0; fault < REDIS_FAULT_COUNT; fault++)
        *registry_cell(metrics, FAMILY_BROKEN, at, fault, 0) = (int64_t)view.faults[fault];
    for (enum tls_fault fault = 0; fault < TLS_FAULT_COUNT; fault++)
        *registry_cell(metrics, FAMILY_TLS_FAILURES, at, fault, 0) =
            (int64_t)view.tls_faults[fault];
    set_end(metrics, FAMILY_MASTER_CERTIFICATE, at, view.certificate_end_s);
    registry_set(metrics, FAMILY_CLOCK_OFFSET, at, view.clock_offset_us);
    registry_set(metrics, FAMILY_IN_FLIGHT, at, view.in_flight);
    registry_set(metrics, FAMILY_DEBT, at, scrape->core->debt[group][master]);
}

static void read_groups(struct metrics *metrics, const struct metrics_scrape *scrape)
{
    for (size_t g = 0; g < metrics->group_count; g++) {
        struct redis_group_view view = redis_group(scrape->redis, (uint8_t)g);
        for (size_t m = 0; m < metrics->master_count[g]; m++)
            read_master(metrics, scrape, (uint8_t)g, (uint8_t)m);
        const struct core_rounds *rounds = &scrape->core->rounds[g];
        registry_set(metrics, FAMILY_ROUNDS_IN_FLIGHT, g, rounds->in_flight);
        registry_set(metrics, FAMILY_ROUNDS_LIMIT, g, rounds->limit);
        registry_set(metrics, FAMILY_ROUNDS_WAITING, g, rounds->waiting);
        registry_set(metrics, FAMILY_GROUP_VOTING, g, (int64_t)view.voting);
        registry_set(metrics, FAMILY_LAYOUT_DISAGREEMENTS, g, (int64_t)view.disagreeing);
        registry_set(metrics, FAMILY_LAYOUTS, g, (int64_t)view.layouts);
        registry_set(metrics, FAMILY_AGENT_CLOCK, g, redis_clock_off_us(scrape->redis, (uint8_t)g));
        set_end(metrics, FAMILY_OWN_CERTIFICATE, g, view.own_end_s);
        registry_set(metrics, FAMILY_GROUP_MASTERS, g, (int64_t)view.total);
        registry_set(metrics, FAMILY_GROUP_UP, g, (int64_t)view.up);
        registry_set(metrics, FAMILY_GROUP_QUORUM, g, (int64_t)view.quorum);
        registry_set(metrics, FAMILY_QUORUM_AVAILABLE, g, view.up >= view.quorum);
    }
}

static_assert(PROCESS_UNKNOWN == CELL_ABSENT, "a value that cannot be read is not shown");

void metrics_render(struct metrics *metrics, const struct metrics_scrape *scrape,
                    struct buffer *out)
{
    const struct core_stats *core = scrape->core;
    const struct config *config = scrape->config;
    for (size_t i = 0; i < metrics->policy_count; i++) {
        bool has_slots = config->policies[i].core.permits > 1;
        registry_set(metrics, FAMILY_HELD, i, core->held_by_policy[i]);
        registry_set(metrics, FAMILY_SLOTS_HELD, i,
                     has_slots ? core->held_by_policy[i] : CELL_ABSENT);
        registry_set(metrics, FAMILY_READ, i, core->read_by_policy[i]);
    }
    registry_set(metrics, FAMILY_TRACKED, 0, core->locks_tracked);
    registry_set(metrics, FAMILY_WAITERS, 0, core->waiters);
    registry_set(metrics, FAMILY_REQUESTS, 0, core->requests);
    registry_set(metrics, FAMILY_LOCKS_LIMIT, 0, config->locks_max);
    registry_set(metrics, FAMILY_WAITERS_LIMIT, 0, config->waiters_max);
    read_groups(metrics, scrape);
    struct process_figures figures = process_read();
    registry_set(metrics, FAMILY_LOG_DROPPED, 0, (int64_t)log_dropped());
    registry_set(metrics, FAMILY_PROCESS_CPU, 0, figures.cpu_us);
    registry_set(metrics, FAMILY_PROCESS_RESIDENT, 0, figures.resident_bytes);
    registry_set(metrics, FAMILY_PROCESS_VIRTUAL, 0, figures.virtual_bytes);
    registry_set(metrics, FAMILY_PROCESS_FDS, 0, figures.open_files);
    registry_set(metrics, FAMILY_PROCESS_FDS_MAX, 0, figures.open_files_max);
    exposition_render(metrics, config->metrics_detail == METRICS_BASIC, out);
}
