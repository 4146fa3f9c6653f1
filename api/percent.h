/* Percent-encoding, as in URIs and forms. */
#ifndef LOCKAGENT_API_PERCENT_H
#define LOCKAGENT_API_PERCENT_H

#include "agent/core/types.h"

/* Decodes `%XX` (and `+` as a blank, where `plus_is_blank`) into `out`. NULL and `*ret_len` set, or
 * why not. */
const char *percent_decode(struct text raw, bool plus_is_blank, char *out, size_t size,
                           size_t *ret_len);

/* Writes `text` as it may stand in the path of a URI, terminated; `size` must hold 3 * text.len +
 * 1. Returns its length. */
size_t percent_encode(struct text text, char *out, size_t size);

#endif
