/* Which callers have hung up. */
#ifndef LOCKAGENT_API_HANGUP_H
#define LOCKAGENT_API_HANGUP_H

#include "api/internal.h"

/* False where the system has no descriptor to give. */
bool hangup_start(struct api *api);
void hangup_free(struct api *api);

/* Sees the connection's caller hang up from now on, until its descriptor is closed. */
void hangup_watch(struct connection *connection);
/* Looks which callers have hung up: the callback of `api->gone`. */
void hangup_look(uv_poll_t *poll, int status, int events);
/* Closes what has hung up and has nothing left to be answered; to be called after the daemons have
 * run. */
void hangup_close_ended(struct api *api);

#endif
