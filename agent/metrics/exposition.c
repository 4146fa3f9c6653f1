/* Renders Prometheus text 0.0.4 and Markdown from the registry. It does not know the meaning of the
 * metrics. */
#include "agent/metrics/exposition.h"

#include <string.h>

static const char *const type_names[] = {"counter", "gauge", "histogram"};

/* ---- numbers and series ---- */

static char *digits_before(char *end, uint64_t number)
{
    do
        *--end = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return end;
}

/* Adds a number. Whole numbers and millionths are printed exactly, without floats. */
static void add_number(struct buffer *out, int64_t value, enum metric_unit unit)
{
    char text[32], *end = text + sizeof(text), *at = end;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (unit == UNIT_MICRO) {
        uint64_t fraction = size % 1000000;
        size /= 1000000;
        if (fraction > 0) {
            int places = 6;
            for (; fraction % 10 == 0; places--)
                fraction /= 10;
            at = digits_before(end, fraction);
            while (end - at < places)
                *--at = '0';
            *--at = '.';
        }
    }
    at = digits_before(at, size);
    if (value < 0)
        *--at = '-';
    buffer_add(out, at, (size_t)(end - at));
}

/* One series: its labels, as fragments. */
struct series {
    const struct family *family;
    const char *fragments[FAMILY_LABELS];
    size_t lens[FAMILY_LABELS];
};

/* Adds `name_suffix{labels} value`, with the upper bound of a bucket as the last label if there is
 * one. */
static void add_sample(struct buffer *out, const struct series *series, const char *suffix,
                       const int64_t *bound, int64_t value, enum metric_unit unit)
{
    char separator = '{';
    buffer_add_text(out, series->family->name);
    buffer_add_text(out, suffix);
    for (size_t i = 0; i < FAMILY_LABELS; i++) {
        if (series->lens[i] == 0)
            continue;
        buffer_add(out, &separator, 1);
        buffer_add(out, series->fragments[i], series->lens[i]);
        separator = ',';
    }
    if (bound != NULL) {
        buffer_add(out, &separator, 1);
        buffer_add_text(out, "le=\"");
        if (*bound == INT64_MAX)
            buffer_add_text(out, "+Inf");
        else
            add_number(out, *bound, UNIT_MICRO);
        buffer_add_text(out, "\"");
        separator = ',';
    }
    buffer_add_text(out, separator == ',' ? "} " : " ");
    add_number(out, value, unit);
    buffer_add_text(out, "\n");
}

enum { QUARTER = 250000 }; /* The bound of PART_QUARTER, in millionths. */

static void add_series(struct buffer *out, const struct series *series, enum family_part part,
                       const int64_t *cells)
{
    static const int64_t infinite = INT64_MAX;
    if (series->family->type != TYPE_HISTOGRAM) {
        if (*cells != CELL_ABSENT)
            add_sample(out, series, "", NULL, *cells, series->family->unit);
        return;
    }
    const struct bucket_bounds *set = &bucket_bounds[series->family->buckets];
    int64_t total = 0;
    for (size_t i = 0; i < set->count; i++) {
        total += cells[i];
        if (part != PART_QUARTER || set->bounds[i] == QUARTER)
            add_sample(out, series, "_bucket", &set->bounds[i], total, UNIT_WHOLE);
    }
    total += cells[set->count];
    add_sample(out, series, "_bucket", &infinite, total, UNIT_WHOLE);
    add_sample(out, series, "_sum", NULL, cells[set->count + 1], UNIT_MICRO);
    add_sample(out, series, "_count", NULL, total, UNIT_WHOLE);
}

static void choose(const struct metrics *metrics, struct series *series, size_t label, size_t value)
{
    const char *fragment = metrics->labels[series->family->labels[label]].fragments[value];
    series->fragments[label] = fragment;
    series->lens[label] = strlen(fragment);
}

static size_t value_count(const struct metrics *metrics, const struct family *family, size_t label)
{
    return metrics->labels[family->labels[label]].count;
}

/* Returns the sum over all values of the first label, of a family that is no histogram. */
static int64_t sum_over_first(const struct metrics *metrics, enum family_id id, size_t b, size_t c)
{
    const struct family_cells *cells = &metrics->families[id];
    int64_t sum = 0;
    for (size_t a = 0; a < value_count(metrics, &metric_families[id], 0); a++)
        sum += cells->cells[a * cells->step[0] + b * cells->step[1] + c * cells->step[2]];
    return sum;
}

static void render_summed(const struct metrics *metrics, enum family_id id, struct series *series,
                          struct buffer *out)
{
    const struct family *family = &metric_families[id];
    series->fragments[0] = "";
    series->lens[0] = 0;
    for (size_t b = 0; b < value_count(metrics, family, 1); b++) {
        choose(metrics, series, 1, b);
        for (size_t c = 0; c < value_count(metrics, family, 2); c++) {
            int64_t sum = sum_over_first(metrics, id, b, c);
            choose(metrics, series, 2, c);
            add_series(out, series, PART_SUMMED, &sum);
        }
    }
}

static void render_family(const struct metrics *metrics, enum family_id id, enum family_part part,
                          struct buffer *out)
{
    const struct family *family = &metric_families[id];
    const struct family_cells *cells = &metrics->families[id];
    struct series series = {.family = family};
    buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name,
                  type_names[family->type]);
    if (part == PART_SUMMED) {
        render_summed(metrics, id, &series, out);
        return;
    }
    for (size_t a = 0; a < value_count(metrics, family, 0); a++) {
        choose(metrics, &series, 0, a);
        for (size_t b = 0; b < value_count(metrics, family, 1); b++) {
            choose(metrics, &series, 1, b);
            for (size_t c = 0; c < value_count(metrics, family, 2); c++) {
                choose(metrics, &series, 2, c);
                add_series(out, &series, part,
                           cells->cells + a * cells->step[0] + b * cells->step[1] +
                               c * cells->step[2]);
            }
        }
    }
}

void exposition_render(const struct metrics *metrics, bool is_basic, struct buffer *out)
{
    for (enum family_id id = 0; id < FAMILY_COUNT; id++) {
        enum family_part part = is_basic ? basic_parts[id] : PART_WHOLE;
        if (part != PART_NONE)
            render_family(metrics, id, part, out);
    }
}

/* ---- the table of docs/metrics.md ---- */

void exposition_print_markdown(struct buffer *out)
{
#define X(id, names) names,
    static const char *const label_names[] = {LABELS(X)};
#undef X
    static const char *const part_names[] = {"", "yes", "summed", "le 0.25"};
    buffer_add_text(out, "| metric | type | labels | basic | meaning |\n|---|---|---|---|---|\n");
    for (enum family_id id = 0; id < FAMILY_COUNT; id++) {
        const struct family *family = &metric_families[id];
        buffer_printf(out, "| `%s` | %s | ", family->name, type_names[family->type]);
        for (size_t i = 0; i < FAMILY_LABELS; i++) {
            if (family->labels[i] != LABEL_NONE)
                buffer_printf(out, "%s%s", i > 0 ? ", " : "", label_names[family->labels[i]]);
        }
        buffer_printf(out, " | %s | %s |\n", part_names[basic_parts[id]], family->help);
    }
}
