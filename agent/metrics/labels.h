/* The values that a label can have, each kept in the form that a page shows. */
#ifndef LOCKAGENT_METRICS_LABELS_H
#define LOCKAGENT_METRICS_LABELS_H

#include "agent/base/buffer.h"

/* Values of one label. Begins as {0}. */
struct label_values {
    size_t count;     /* Number of values that are shown. */
    size_t room;      /* Number of values for which there are cells. */
    char **fragments; /* `name="escaped value"`, malloc'ed */
};

/* Makes room for `room` values, once. Returns false if out of memory. */
bool label_make_room(struct label_values *values, size_t room);

/* Adds one value, for which there must be room. Returns false if out of memory. */
bool label_add(struct label_values *values, const char *name, const char *value);

/* The same for a value that label_print() has printed. Takes over `fragment` in any case. */
bool label_add_printed(struct label_values *values, struct buffer *fragment);

/* Makes room for `count` values and adds them all. */
bool label_add_all(struct label_values *values, const char *name, const char *const *texts,
                   size_t count);

void label_free(struct label_values *values);

/* Adds `name="value"` to a page, the value escaped as the text format wants it; bytes that are no
 * UTF-8 are replaced. */
void label_print(struct buffer *out, const char *name, const char *value);

#endif
