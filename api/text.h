/* Bytes from the wire: percent-encoding, UTF-8, and how both are written into answers. */
#ifndef LOCKAGENT_API_TEXT_H
#define LOCKAGENT_API_TEXT_H

#include "agent/core/core.h"

/* Decodes `%XX` (and `+` as a blank, where `plus_is_blank`) into `out`. NULL and `*ret_len` set, or why not. */
const char *text_percent_decode(struct text raw, bool plus_is_blank, char *out, size_t size, size_t *ret_len);

/* NULL when `text` is UTF-8 without control characters (C0, DEL, C1); else what is wrong with it. */
const char *text_fault(struct text text);

/* Puts question marks in the place of what text_fault() finds wrong: what strangers sent can then be quoted in JSON. */
void text_tame(char *text);

/* Writes `text` as it may stand in the path of a URI, terminated; `size` must hold 3 * text.len + 1. Returns its
 * length. */
size_t text_percent_encode(struct text text, char *out, size_t size);

/* Writes `text` as a JSON string without its quotes, terminated. `text` is free of faults, and `size` holds 2 *
 * text.len + 1. */
size_t text_json_escape(struct text text, char *out, size_t size);

/* Writes a duration as people write it (`1500ms`, `30s`, `5m`), terminated. */
const char *text_duration(int64_t ms, char *out, size_t size);

bool text_is(struct text text, const char *word);
struct text text_of(const char *word);

#endif
