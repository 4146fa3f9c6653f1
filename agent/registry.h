/* The registry behind agent/metrics.h: where the cells of each family are, and what its labels can say. */
#ifndef LOCKAGENT_REGISTRY_H
#define LOCKAGENT_REGISTRY_H

#include "agent/families.h"
#include "agent/metrics.h"

enum {
    FAMILY_LABELS = 3, /* labels of one family, at most */
    ROUTES_MAX = 24,   /* of the API's table */
};

#define CELL_ABSENT INT64_MIN /* a gauge that can not be read: not shown */

#define X(id, ...) FAMILY_##id,
enum family_id { FAMILIES(X) FAMILY_COUNT };
#undef X
#define X(id, ...) LABEL_##id,
enum label { LABELS(X) LABEL_COUNT };
#undef X
#define X(id, ...) BUCKETS_##id,
enum bucket_set { BUCKET_SETS(X) BUCKET_SET_COUNT };
#undef X

enum metric_type { TYPE_COUNTER, TYPE_GAUGE, TYPE_HISTOGRAM };
enum metric_unit { UNIT_WHOLE, UNIT_MICRO };

struct bucket_bounds {
    const int64_t *bounds;
    size_t count;
};
extern const struct bucket_bounds bucket_bounds[BUCKET_SET_COUNT];

struct family {
    const char *name, *help;
    enum metric_type type;
    enum metric_unit unit;
    enum label labels[FAMILY_LABELS]; /* LABEL_NONE has one value, which is empty */
    enum bucket_set buckets;
};
extern const struct family metric_families[FAMILY_COUNT];

/* Values of one label, each as it stands in a page: `name="escaped value"`. */
struct label_values {
    size_t count; /* shown */
    size_t room;  /* cells are kept for so many */
    char **fragments;
};

/* Cells of one family: the one of the values (a, b, c) starts at cells[a * step[0] + b * step[1] + c * step[2]].
 * A histogram has a cell for each bucket (not cumulated), one for what is above them, and one for the sum. */
struct family_cells {
    int64_t *cells;
    size_t step[FAMILY_LABELS];
};

struct metrics {
    struct family_cells families[FAMILY_COUNT];
    struct label_values labels[LABEL_COUNT];
    int64_t *cells; /* of all families */
    size_t first_master[LIMIT_GROUPS];
    size_t group_count, policy_count, master_count[LIMIT_GROUPS];
    uint8_t outcome_of_attempt[ANSWER_COUNT],
        outcome_of_answer[ANSWER_COUNT]; /* values of LABEL_ATTEMPT, LABEL_ANSWER */
    char *routes[ROUTES_MAX];
    size_t route_count;
};

/* Renders what the cells say now. */
void exposition_render(const struct metrics *metrics, struct buffer *out);

/* Adds `name="value"`, the value escaped as the text format wants it; bytes that are no UTF-8 are replaced. */
void exposition_add_label(struct buffer *out, const char *name, const char *value);

#endif
