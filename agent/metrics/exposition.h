/* Pages made from the registry: Prometheus text 0.0.4, and the documents' table. */
#ifndef LOCKAGENT_METRICS_EXPOSITION_H
#define LOCKAGENT_METRICS_EXPOSITION_H

#include "agent/metrics/registry.h"

/* Renders the current values of the cells. With `is_basic`, those of BASIC_FAMILIES only. */
void exposition_render(const struct metrics *metrics, bool is_basic, struct buffer *out);

/* Prints the table of all families in docs/metrics.md, as Markdown. */
void exposition_print_markdown(struct buffer *out);

#endif
