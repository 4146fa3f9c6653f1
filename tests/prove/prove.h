/* Unknown values for all drivers. */
#ifndef LOCKAGENT_PROVE_H
#define LOCKAGENT_PROVE_H

#include <__fc_builtin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Gives `place` any value. */
#define UNKNOWN(place) Frama_C_make_unknown((char *)&(place), sizeof(place))

/* Any value from least to most. */
#define ANY(least, most) Frama_C_interval((least), (most))

#endif
