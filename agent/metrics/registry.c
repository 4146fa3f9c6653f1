/* Builds the registry: the values of all labels, known from the start, and one block with the cells
 * of all families, laid out by the table in agent/metrics/families.h, that counting adds to without
 * a look-up and an allocation. */
#include "agent/metrics/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/redis/redis.h"
#include "agent/version.h"
#include "config/config.h"

/* ---- the words of the labels ---- */

static const enum answer attempt_outcomes[] = {ANSWER_GRANTED, ANSWER_LOCK_HELD,
                                               ANSWER_QUORUM_UNAVAILABLE, ANSWER_VALIDITY_EXPIRED};
static const enum answer answer_outcomes[] = {ANSWER_GRANTED,
                                              ANSWER_REENTERED,
                                              ANSWER_REPEATED,
                                              ANSWER_SUPERSEDED,
                                              ANSWER_IDEMPOTENCY_MISMATCH,
                                              ANSWER_LOCK_HELD,
                                              ANSWER_WAIT_TIMEOUT,
                                              ANSWER_QUORUM_UNAVAILABLE,
                                              ANSWER_VALIDITY_EXPIRED,
                                              ANSWER_LOCK_LOST,
                                              ANSWER_BAD_TTL,
                                              ANSWER_TOO_MANY_LOCKS,
                                              ANSWER_TOO_MANY_WAITERS,
                                              ANSWER_OVERLOADED,
                                              ANSWER_UPGRADE_REFUSED,
                                              ANSWER_DRAINING};

static const char *const renewal_outcomes[] = {"renewed", "failed"};
static const char *const command_results[] = {"ok", "error", "lost", "not_sent"};
static const char *const http_statuses[] = {"2xx", "4xx", "5xx"};
static const char *const http_methods[] = {"other", "GET", "HEAD", "POST", "PUT", "DELETE"};
enum { METHOD_COUNT = sizeof(http_methods) / sizeof(http_methods[0]) };

static const char *const restored_outcomes[] = {"resumed", "ended", "refused"};
static const char *const reload_outcomes[] = {"ok", "failed"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- building ---- */

/* Makes answers the values of a label. `ret_index` gets the index of each answer. */
static bool add_answers(struct metrics *metrics, enum label label, const enum answer *answers,
                        size_t count, uint8_t ret_index[ANSWER_COUNT])
{
    const char *codes[ANSWER_COUNT];
    memset(ret_index, UINT8_MAX, ANSWER_COUNT);
    for (size_t i = 0; i < count; i++) {
        codes[i] = answer_code(answers[i]);
        ret_index[answers[i]] = (uint8_t)i;
    }
    return label_add_all(&metrics->labels[label], "outcome", codes, count);
}

static bool add_tables_of_names(struct metrics *metrics)
{
    const char *reasons[REASON_COUNT], *causes[CAUSE_COUNT], *ops[OP_COUNT],
        *states[REDIS_STATE_COUNT], *classes[REDIS_OUTCOME_COUNT], *faults[REDIS_FAULT_COUNT],
        *tls_faults[TLS_FAULT_COUNT];
    size_t class_count = 0;
    for (enum reason reason = REASON_NONE + 1; reason < REASON_COUNT; reason++)
        reasons[reason - 1] = reason_name(reason);
    for (enum cause cause = 0; cause < CAUSE_COUNT; cause++)
        causes[cause] = cause_name(cause);
    for (enum op op = 0; op < OP_COUNT; op++)
        ops[op] = op_name(op);
    for (enum redis_state state = 0; state < REDIS_STATE_COUNT; state++)
        states[state] = redis_state_name(state);
    for (enum redis_fault fault = 0; fault < REDIS_FAULT_COUNT; fault++)
        faults[fault] = redis_fault_name(fault);
    for (enum tls_fault fault = 0; fault < TLS_FAULT_COUNT; fault++)
        tls_faults[fault] = tls_fault_name(fault);
    for (enum redis_outcome outcome = REDIS_OUTCOME_OK + 1; outcome < REDIS_OUTCOME_LOST; outcome++)
        classes[class_count++] = redis_outcome_name(outcome);
    return label_add_all(&metrics->labels[LABEL_REASON], "reason", reasons, REASON_MOVED - 1) &&
           label_add_all(&metrics->labels[LABEL_ELSEWHERE], "reason", &reasons[REASON_MOVED - 1],
                         REASON_COUNT - REASON_MOVED) &&
           label_add_all(&metrics->labels[LABEL_CAUSE], "cause", causes, CAUSE_COUNT) &&
           label_add_all(&metrics->labels[LABEL_OP], "op", ops, OP_COUNT) &&
           label_add_all(&metrics->labels[LABEL_STATE], "state", states, REDIS_STATE_COUNT) &&
           label_add_all(&metrics->labels[LABEL_CLASS], "class", classes, class_count) &&
           label_add_all(&metrics->labels[LABEL_FAULT], "fault", faults, REDIS_FAULT_COUNT) &&
           label_add_all(&metrics->labels[LABEL_TLS_FAULT], "fault", tls_faults, TLS_FAULT_COUNT);
}
static_assert(REASON_NONE == 0, "the reason that is none comes first");
static_assert(REASON_MOVED + 1 == REASON_GONE && REASON_GONE + 1 == REASON_COUNT,
              "the reasons that are no losses come last");
static_assert(REDIS_OUTCOME_OK == 0 && REDIS_OUTCOME_LOST + 2 == REDIS_OUTCOME_COUNT,
              "the classes of error replies are between ok and the two outcomes of transport");

/* Adds the address of a master; never its URL, which may carry a password. */
static bool add_master_label(struct label_values *values, const char *group,
                             const struct config_master *master)
{
    const struct config_address *address = &master->address;
    bool v6 = strchr(address->host, ':') != NULL;
    char place[sizeof(address->host) + 32];
    struct buffer fragment = {0};
    if (address->is_unix)
        snprintf(place, sizeof(place), "%s", address->host);
    else
        snprintf(place, sizeof(place), v6 ? "[%s]:%u" : "%s:%u", address->host,
                 (unsigned)address->port);
    if (master->db != 0)
        snprintf(place + strlen(place), sizeof(place) - strlen(place), "/%d", master->db);
    label_print(&fragment, "group", group);
    buffer_add(&fragment, ",", 1);
    label_print(&fragment, "master", place);
    return label_add_printed(values, &fragment);
}

static bool add_group_labels(struct metrics *metrics, const struct config *config)
{
    struct label_values *groups = &metrics->labels[LABEL_GROUP],
                        *masters = &metrics->labels[LABEL_MASTER];
    size_t count = 0;
    metrics->group_count = config->group_count;
    for (size_t g = 0; g < config->group_count; g++) {
        metrics->first_master[g] = count;
        metrics->master_count[g] = config->groups[g].master_count;
        count += config->groups[g].master_count;
    }
    bool ok = label_make_room(groups, config->group_count) && label_make_room(masters, count);
    for (size_t g = 0; ok && g < config->group_count; g++) {
        const struct config_group *group = &config->groups[g];
        ok = label_add(groups, "group", group->name);
        for (size_t m = 0; ok && m < group->master_count; m++)
            ok = add_master_label(masters, group->name, &group->masters[m]);
    }
    return ok;
}

static bool add_labels(struct metrics *metrics, const struct config *config)
{
    static const char *const version[] = {LOCKAGENT_VERSION};
    const char *patterns[LIMIT_POLICIES];
    struct label_values *none = &metrics->labels[LABEL_NONE],
                        *routes = &metrics->labels[LABEL_ROUTE];
    bool ok = label_make_room(none, 1) && label_make_room(routes, ROUTES_MAX + 1) &&
              label_add(routes, "route", "other");
    if (!ok || (none->fragments[0] = strdup("")) == NULL)
        return false;
    none->count = 1;
    metrics->policy_count = config->policy_count;
    for (size_t i = 0; i < config->policy_count; i++)
        patterns[i] = config->policies[i].core.match;
    return label_add_all(&metrics->labels[LABEL_BUILD], "version", version, 1) &&
           label_add_all(&metrics->labels[LABEL_POLICY], "policy", patterns,
                         config->policy_count) &&
           add_group_labels(metrics, config) && add_tables_of_names(metrics) &&
           add_answers(metrics, LABEL_ATTEMPT, attempt_outcomes, COUNT(attempt_outcomes),
                       metrics->outcome_of_attempt) &&
           add_answers(metrics, LABEL_ANSWER, answer_outcomes, COUNT(answer_outcomes),
                       metrics->outcome_of_answer) &&
           label_add_all(&metrics->labels[LABEL_RENEWAL], "outcome", renewal_outcomes,
                         COUNT(renewal_outcomes)) &&
           label_add_all(&metrics->labels[LABEL_RESULT], "outcome", command_results,
                         COUNT(command_results)) &&
           label_add_all(&metrics->labels[LABEL_METHOD], "method", http_methods,
                         COUNT(http_methods)) &&
           label_add_all(&metrics->labels[LABEL_STATUS], "status", http_statuses,
                         COUNT(http_statuses)) &&
           label_add_all(&metrics->labels[LABEL_RESTORED], "outcome", restored_outcomes,
                         COUNT(restored_outcomes)) &&
           label_add_all(&metrics->labels[LABEL_RELOAD], "outcome", reload_outcomes,
                         COUNT(reload_outcomes));
}

bool registry_build(struct metrics *metrics, const struct config *config)
{
    size_t first[FAMILY_COUNT], total = 0;
    if (!add_labels(metrics, config))
        return false;
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

void registry_free(struct metrics *metrics)
{
    for (enum label label = 0; label < LABEL_COUNT; label++)
        label_free(&metrics->labels[label]);
    for (size_t i = 0; i < metrics->route_count; i++)
        free(metrics->routes[i]);
    free(metrics->cells);
}

/* ---- routes and methods ---- */

bool registry_add_route(struct metrics *metrics, const char *route)
{
    CORE_ASSERT(metrics->route_count < ROUTES_MAX);
    char *copy = strdup(route);
    if (copy == NULL || !label_add(&metrics->labels[LABEL_ROUTE], "route", copy)) {
        free(copy);
        return false;
    }
    metrics->routes[metrics->route_count++] = copy;
    return true;
}

size_t registry_route(const struct metrics *metrics, const char *route)
{
    for (size_t i = 0; route != NULL && i < metrics->route_count; i++) {
        if (strcmp(metrics->routes[i], route) == 0)
            return i + 1;
    }
    return 0;
}

size_t registry_method(const char *method)
{
    for (size_t i = 1; method != NULL && i < METHOD_COUNT; i++) {
        if (strcmp(http_methods[i], method) == 0)
            return i;
    }
    return 0;
}

/* ---- cells ---- */

int64_t *registry_cell(struct metrics *metrics, enum family_id id, size_t a, size_t b, size_t c)
{
    const struct family_cells *family = &metrics->families[id];
    return family->cells + a * family->step[0] + b * family->step[1] + c * family->step[2];
}

void registry_count(struct metrics *metrics, enum family_id id, size_t a, size_t b, size_t c)
{
    ++*registry_cell(metrics, id, a, b, c);
}

void registry_set(struct metrics *metrics, enum family_id id, size_t a, int64_t value)
{
    *registry_cell(metrics, id, a, 0, 0) = value;
}

/* Adds an observation. It is never negative, because a clock that was read in the wrong order must
 * not make a sum go back. */
void registry_observe(struct metrics *metrics, enum family_id id, size_t a, int64_t micro)
{
    int64_t *cells = registry_cell(metrics, id, a, 0, 0), value = micro > 0 ? micro : 0;
    const struct bucket_bounds *set = &bucket_bounds[metric_families[id].buckets];
    size_t bucket = 0;
    for (size_t i = 0; i < set->count; i++)
        bucket += value > set->bounds[i];
    cells[bucket]++;
    cells[set->count + 1] += value;
}
