/* Holds, votes and labels as callers read them, in JSON. */
#ifndef LOCKAGENT_API_VIEW_H
#define LOCKAGENT_API_VIEW_H

#include <jansson.h>

#include "api/internal.h"

/* What is left of a hold's validity, in ms; not above 0 when it is over. */
int64_t view_valid_for_ms(const struct hold_view *hold, struct instant now);

/* How many masters voted how. */
json_t *view_nodes(const struct tally *tally);
/* A label, or null where it is none that can be shown. */
json_t *view_label(struct text label);
/* {"label",...}: a hold, never its token; NULL when its validity is over. */
json_t *view_hold(const struct api *api, const struct hold_view *hold, struct instant now);
/* True where readers share the keys of this policy (R17): then each lock has a mode. */
bool view_is_shared(const struct api *api, uint16_t policy);

/* Writes `text` as a JSON string without its quotes, terminated. `text` is free of faults, and
 * `size` holds 2 * text.len + 1. */
size_t view_escape(struct text text, char *out, size_t size);

/* Writes the body of a kept answer that hands out or renews a hold, terminated; returns its length.
 * `fence` is the fencing token in digits, "" for none. `size` holds the longest key twice, and 640
 * bytes. */
size_t view_granted(const struct api *api, const struct request *request, const char *token,
                    const char *fence, int64_t valid_ms, char *body, size_t size);

#endif
