/* Numbers as people write them: durations, sizes, percentages, octal modes, counts. */
#ifndef LOCKAGENT_CONFIG_UNITS_H
#define LOCKAGENT_CONFIG_UNITS_H

#include "config/internal.h"

/* Reads a number of `type` (DURATION in ms, SIZE in bytes, PERCENT in parts per million, MODE,
 * COUNT). NULL and `*ret_number` set; else why not, to be read behind the text itself. */
const char *config_number_parse(enum config_type type, struct text text, int64_t *ret_number);

/* Writes a number so that config_number_parse() reads it back. */
const char *config_number_print(enum config_type type, int64_t number, char *out, size_t size);

#endif
