/* The registry behind agent/metrics/metrics.h: the cells of each family, and the values of its
 * labels. */
#ifndef LOCKAGENT_METRICS_REGISTRY_H
#define LOCKAGENT_METRICS_REGISTRY_H

#include "agent/core/types.h"
#include "agent/metrics/families.h"
#include "agent/metrics/labels.h"

enum { ROUTES_MAX = 24 }; /* Most routes that the API's table can have. */

#define CELL_ABSENT INT64_MIN /* The value of a gauge that cannot be read: it is not shown. */

/* The index of each word among the values of its label. */
enum renewal_outcome { RENEWAL_RENEWED, RENEWAL_FAILED };
enum command_result { RESULT_OK, RESULT_ERROR, RESULT_LOST, RESULT_NOT_SENT };
enum http_status { STATUS_2XX, STATUS_4XX, STATUS_5XX };
enum reload_outcome { RELOAD_OK, RELOAD_FAILED };

/* Cells of one family. Those of the values (a, b, c) begin at
 *
 *   cells[a * step[0] + b * step[1] + c * step[2]].
 *
 * A histogram has a cell for each bucket (not cumulated), one for values above them, and one for
 * the sum. */
struct family_cells {
    int64_t *cells;
    size_t step[FAMILY_LABELS];
};

struct metrics {
    struct family_cells families[FAMILY_COUNT];
    struct label_values labels[LABEL_COUNT];
    int64_t *cells; /* The cells of all families. */
    size_t first_master[LIMIT_GROUPS];
    size_t group_count, policy_count, master_count[LIMIT_GROUPS];
    uint8_t outcome_of_attempt[ANSWER_COUNT],
        outcome_of_answer[ANSWER_COUNT]; /* values of LABEL_ATTEMPT, LABEL_ANSWER */
    char *routes[ROUTES_MAX];
    size_t route_count;
};

struct config;

/* Makes the labels and cells for the policies, groups and masters of `config` (names are copied),
 * in a struct of zeros. Returns false if out of memory. registry_free() frees everything that was
 * made, in any case, but not `metrics` itself. */
bool registry_build(struct metrics *metrics, const struct config *config);
void registry_free(struct metrics *metrics);

/* Makes `route` (copied) a value of LABEL_ROUTE. Returns false if out of memory. */
bool registry_add_route(struct metrics *metrics, const char *route);

/* Return the index of a route or a method among the values of its label. It is 0, which is "other",
 * if the route or method is unknown or NULL. */
size_t registry_route(const struct metrics *metrics, const char *route);
size_t registry_method(const char *method);

/* Returns the first cell of the values (a, b, c). */
int64_t *registry_cell(struct metrics *metrics, enum family_id id, size_t a, size_t b, size_t c);
/* Adds 1. */
void registry_count(struct metrics *metrics, enum family_id id, size_t a, size_t b, size_t c);
void registry_set(struct metrics *metrics, enum family_id id, size_t a, int64_t value);
/* Adds one observation, in the family's millionths, to a histogram. */
void registry_observe(struct metrics *metrics, enum family_id id, size_t a, int64_t micro);

#endif
