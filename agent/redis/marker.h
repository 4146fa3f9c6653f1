/* Carries out the guard (D5.3): what agent/core/guard.c decides becomes scripts on the masters,
 * epochs of the core, and states. For groups that have a guard alone, but where it says
 * otherwise. */
#ifndef LOCKAGENT_REDIS_MARKER_H
#define LOCKAGENT_REDIS_MARKER_H

#include "agent/redis/master.h"

/* Any group. What hears the answers of READY masters to what the guard asks is
 * redis->marker_heard. */
void marker_start(struct redis *redis, uint8_t group);

/* The time has come by: any group. */
void marker_tick(struct redis *redis, uint8_t group);

/* The greeting has come to the marker: asks for it, and `heard` hears the answer. */
void marker_greet(struct master *master, heard_fn *heard);

/* The marker's answer; false: it makes no sense, and the guard has not been told. */
bool marker_take(struct master *master, const redisReply *reply);

/* The greeting's question was refused: the master can not write the marker now. */
void marker_refused(struct master *master);

/* An answer came that says nothing. */
void marker_unanswered(struct master *master);

/* The greeting has ended. The state is shown by whoever says that the master is up. */
void marker_ready(struct master *master);

/* The master can not be asked any more: any group. */
void marker_away(struct master *master);

/* An operation of the core met that epoch ("": no marker): any group. */
void marker_heard_epoch(struct master *master, const char *epoch);

/* An operation of the core had no vote for so long (-1: there is no marker). */
void marker_heard_guarded(struct master *master, int64_t left_ms);

#endif
