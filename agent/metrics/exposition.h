/* Pages made from the registry: Prometheus text 0.0.4, and the documents' table. */
#ifndef LOCKAGENT_METRICS_EXPOSITION_H
#define LOCKAGENT_METRICS_EXPOSITION_H

#include "agent/metrics/registry.h"

/* Renders the current values of the cells. */
void exposition_render(const struct metrics *metrics, struct buffer *out);

/* Prints the table of all families in docs/metrics.md, as Markdown. */
void exposition_print_markdown(struct buffer *out);

#endif
