/* Keys that are read and written (R18): who contends for them here, and beside whom. */
#ifndef LOCKAGENT_CORE_READERS_H
#define LOCKAGENT_CORE_READERS_H

#include "state.h"

/* Who talks to the masters next; NULL: nobody, or nobody before those who do now are answered. */
struct core_request *readers_next(const struct key *key);
/* True where whoever waits first gains nothing by an attempt as a hold here ends: it shows its
 * ticket in time, and hears of the last one that is in its way. */
bool readers_wait_on(const struct core *core, const struct key *key,
                     const struct core_request *first);
/* An attempt of this mode has failed, for a request that waits or not, or behind which a writer
 * waits: does it answer another one, that wants one answer now? */
bool readers_share_failure(const struct core_request *once, enum mode mode, bool waits);
/* How many read the key by this agent. */
uint32_t readers_here(const struct key *key);

#endif
