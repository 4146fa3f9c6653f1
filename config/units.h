/* Durations, sizes, percentages, octal modes and counts as users write them. */
#ifndef LOCKAGENT_CONFIG_UNITS_H
#define LOCKAGENT_CONFIG_UNITS_H

#include "config/internal.h"

/* Reads a number of `type` (DURATION in ms, SIZE in bytes, PERCENT in parts per million, MODE,
 * COUNT). Returns NULL and sets `*ret_number`, to INT64_MAX if the number is too large to keep.
 * Otherwise returns why not, as a text to follow the quoted number. */
const char *config_number_parse(enum config_type type, struct text text, int64_t *ret_number);

/* Writes a number as config_number_parse() reads it. Returns `out`. */
const char *config_number_print(enum config_type type, int64_t number, char *out, size_t size);

#endif
