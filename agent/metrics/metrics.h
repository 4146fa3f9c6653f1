/* The counts of this agent, and the page that shows them: Prometheus text 0.0.4. The families are
 * one table (agent/metrics/families.h). A lock's key is never a label. */
#ifndef LOCKAGENT_METRICS_METRICS_H
#define LOCKAGENT_METRICS_METRICS_H

#include <stdint.h>

#include "agent/base/buffer.h"
#include "agent/core/core.h"
#include "agent/redis/redis.h"
#include "config/config.h"

struct metrics;

/* Makes a registry for the policies, groups and masters of `config` (names are copied). All known
 * label values are exported as 0 from the start. Returns NULL if out of memory. */
struct metrics *metrics_new(const struct config *config);
void metrics_free(struct metrics *metrics); /* NULL is allowed. */

/* ---- counted as it happens ---- */

/* Counts an EFFECT_TRACE of the core. */
void metrics_traced(struct metrics *metrics, const struct effect_trace *trace);

/* Counts the last answer to a POST: acquire and wait durations, by policy and outcome. */
void metrics_answered(struct metrics *metrics, const struct effect_answer *answer);

/* Counts a command to a master by its outcome. `latency_us` below 0 is not observed. */
void metrics_command(struct metrics *metrics, uint8_t group, uint8_t master, enum op op,
                     enum redis_outcome outcome, int64_t latency_us);

/* The routes that metrics_http() knows: those of the API's table, copied. Called once, before
 * it. */
void metrics_http_routes(struct metrics *metrics, const char *const *routes, size_t count);

/* Counts one HTTP request that was answered. An unknown route or method is counted as "other". */
void metrics_http(struct metrics *metrics, const char *route, const char *method, unsigned status,
                  int64_t latency_us);

/* Sets the number of open connections of the API, and how many may be open. Those of admin do not
 * count. */
void metrics_http_connections(struct metrics *metrics, int64_t open, int64_t most);

/* Sets the number of open streams of the API. */
void metrics_streams(struct metrics *metrics, int64_t open);

/* Sets the number of keys that are followed. */
void metrics_followed(struct metrics *metrics, int64_t keys);

/* Counts a stream that was given up because its caller did not read it. */
void metrics_stream_dropped(struct metrics *metrics);

/* Observes the delay of the loop after a deadline of the core. */
void metrics_loop_lag(struct metrics *metrics, int64_t lag_us);
/* Observes how long the loop worked between two looks at its sockets. */
void metrics_loop_turn(struct metrics *metrics, int64_t worked_us);

/* Counts holds of the journal by their outcome. */
enum metrics_restored { RESTORED_RESUMED, RESTORED_ENDED, RESTORED_REFUSED };
void metrics_restored(struct metrics *metrics, enum metrics_restored outcome, uint32_t holds);

/* Counts a change of a hold that could not be written to the journal. */
void metrics_journal_failed(struct metrics *metrics);

/* Counts a reload of the configuration at `wall_us` (unix time), which was taken or refused. */
void metrics_reloaded(struct metrics *metrics, bool ok, int64_t wall_us);

/* ---- read when a page is asked for ---- */

/* The sources of the figures that are not counted here. Borrowed for the call. */
struct metrics_scrape {
    const struct core_stats *core;
    const struct redis *redis;
    const struct config *config;
};

/* Adds the page of now to `out`. */
void metrics_render(struct metrics *metrics, const struct metrics_scrape *scrape,
                    struct buffer *out);

#endif
