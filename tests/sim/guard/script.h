/* The one way by which the guard's world runs scripts: the shipped Lua texts over the keys of one
 * master (tests/keyspace), asked and heard as the agent does. */
#ifndef LOCKAGENT_SIM_GUARD_SCRIPT_H
#define LOCKAGENT_SIM_GUARD_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/guard.h"
#include "tests/keyspace/keyspace.h"

/* wall_ms is the master's own TIME. Ends the program where the script fails. */
void script_marker(struct keyspace *keys, int64_t wall_ms, const struct guard_ask *ask,
                   const char *run_id, const char *fresh_epoch, struct guard_answer *ret_answer);

/* What the acquiring script would say to a new lock: 0: a vote; else for how long it has none, -1:
 * its marker is missing. */
int64_t script_guard_left_ms(struct keyspace *keys, int64_t wall_ms);

/* Breaks a script on purpose, before the first run: of the file (acquire, marker) the text `from`
 * becomes `to`. */
void script_break(const char *file, const char *from, const char *to);

/* A field of the marker; false, and "", where that or the marker is missing. */
bool marker_field(struct keyspace *keys, const char *name, char ret_value[GUARD_WORD_BYTES]);

/* The longest lease that the marker names; 0: there is none. */
uint32_t marker_max_ttl_ms(struct keyspace *keys);

#endif
