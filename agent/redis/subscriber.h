/* The subscriber's connection of a master (R9): where releases of watched keys are heard of.
 *
 * It is opened when the first key of its group is watched and closed when none has been for a
 * while, beside the pipeline and only while that one is READY. What it says has no fixed order, so
 * what may come is counted: a message is always awaited where a channel is watched, any other word
 * only as often as it was asked for.
 *
 *   CLOSED --a key is watched--> OPENING --connected--> AUTH, SUBSCRIBE of all that is watched
 *      ^                            |                          |
 *      +---- back-off --------------+--------------------------+  any end, also the pipeline's */
#ifndef LOCKAGENT_REDIS_SUBSCRIBER_H
#define LOCKAGENT_REDIS_SUBSCRIBER_H

#include "agent/redis/master.h"

/* Opens the connection if it is needed and may be had. */
void subscriber_wanted(struct master *master);

/* Closes it, and the core hears that nothing is subscribed to. Idempotent. */
void subscriber_close(struct master *master);

/* Ends it where it has failed; else writes what has been gathered. */
void subscriber_turn(struct master *master);

/* Every TICK_MS: its silence, and when it is tried again. */
void subscriber_tick(struct master *master);

#endif
