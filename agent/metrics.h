/* The metrics registry: one table of families, rendered as Prometheus text 0.0.4. Never a lock's key as a label. */
#ifndef LOCKAGENT_METRICS_H
#define LOCKAGENT_METRICS_H

#include <stdint.h>

#include "agent/core/core.h"
#include "agent/redis/redis.h"
#include "config/config.h"

/* A growable buffer for a rendered page; `bytes` is malloc'ed, the caller's. */
struct buffer {
    char *bytes;
    size_t len, size;
    bool failed; /* out of memory: the page is cut */
};
void buffer_add(struct buffer *buffer, const char *bytes, size_t len);
void buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(struct buffer *buffer);

struct metrics;

/* Registry for the policies, groups and masters of `config` (names copied). All known label values are exported as 0 from the start. */
struct metrics *metrics_new(const struct config *config);
void metrics_free(struct metrics *metrics);

/* ---- counted as it happens ---- */
void metrics_traced(struct metrics *metrics, const struct effect_trace *trace); /* every EFFECT_TRACE of the core */
/* How a POST was answered in the end: acquire and wait durations, by policy and outcome. */
void metrics_answered(struct metrics *metrics, const struct effect_answer *answer);
void metrics_command(struct metrics *metrics, uint8_t group, uint8_t master, enum op op, enum redis_outcome outcome,
                     int64_t latency_us); /* latency_us < 0: not observed */
void metrics_http(struct metrics *metrics, const char *route, const char *method, unsigned status, int64_t latency_us);
/* routes and methods are those of the API's table; unknown ones are counted as "other". */
void metrics_http_routes(struct metrics *metrics, const char *const *routes, size_t count);
void metrics_http_connections(struct metrics *metrics, int64_t open); /* gauge */
void metrics_streams(struct metrics *metrics, int64_t open);          /* gauge */
void metrics_stream_dropped(struct metrics *metrics);
void metrics_loop_lag(struct metrics *metrics, int64_t lag_us);
enum metrics_restored { RESTORED_RESUMED, RESTORED_ENDED, RESTORED_REFUSED };
void metrics_restored(struct metrics *metrics, enum metrics_restored outcome, uint32_t holds);
void metrics_journal_failed(struct metrics *metrics);
void metrics_reloaded(struct metrics *metrics, bool ok, int64_t wall_us);

/* ---- read at scrape time ---- */
struct metrics_scrape {
    const struct core_stats *core;
    const struct redis *redis;
    const struct config *config;
};
void metrics_render(struct metrics *metrics, const struct metrics_scrape *scrape, struct buffer *out);

/* The README's table of all families, as Markdown. */
void metrics_print_markdown(struct buffer *out);

#endif
