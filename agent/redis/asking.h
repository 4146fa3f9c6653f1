/* How the masters are asked: which script with which keys and arguments, in RESP. Knows neither
 * loop nor socket. */
#ifndef LOCKAGENT_REDIS_ASKING_H
#define LOCKAGENT_REDIS_ASKING_H

#include "agent/core/core.h"
#include "agent/core/guard.h"
#include "agent/redis/resp.h"
#include "config/config.h"

#define MARKER_KEY "lockagent:marker"
#define VOTE_KEY "lockagent:vote"

/* One operation of the core on `count` items, on the masters of a group. Returns the command, which
 * stands in `resp` until that begins another one. */
struct text asking_op(struct resp *resp, const struct config *config, uint8_t group, enum op op,
                      const struct send_item *items, unsigned count);

/* R22: Redisson puts a name in braces behind what it puts in front of it, unless it has one. */
bool asking_adds_braces(const char *prefix, struct text key);

/* The marker's script (D5.3), for the server process that calls itself `run_id`. With `whole` the
 * script itself is sent, for a server that may not know it. Draws the epoch that may begin, and
 * returns the command as asking_op() does. */
struct text asking_marker(struct resp *resp, const struct guard_ask *ask, const char *run_id,
                          bool whole);

#endif
