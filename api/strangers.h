/* Requests that no holder made: how much they may do in one turn of the loop (D9). */
#ifndef LOCKAGENT_API_STRANGERS_H
#define LOCKAGENT_API_STRANGERS_H

#include "api/internal.h"

void strangers_start(struct api *api);
/* A turn of the loop begins. */
void strangers_begin(struct api *api);
/* Resumes some of the requests in the queues, if time is left. Returns true if a queue is not
 * empty. */
bool strangers_next(struct api *api);
enum turn {
    TURN_NOW,   /* the request may go on */
    TURN_LATER, /* it is queued and suspended: the handler is called again in the same phase */
    TURN_NEVER, /* too many connections wait (D9); never said to a health check */
};
enum turn strangers_turn_of(struct connection *connection, enum share_kind share);
/* What the handler returns where the turn is later, or never: then it is 429. */
enum MHD_Result strangers_later(struct connection *connection, enum turn turn);
/* The caller is gone: the request is resumed at once if it waits in a queue. */
void strangers_caller_gone(struct connection *connection);
/* All of them go on: nothing may be suspended as the daemons stop. */
void strangers_stop(struct api *api);

#endif
