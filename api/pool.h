/* The pool of connections, from accept to close. */
#ifndef LOCKAGENT_API_POOL_H
#define LOCKAGENT_API_POOL_H

#include "api/internal.h"

bool pool_start(struct api *api);
/* All connections must be closed. */
void pool_free(struct api *api);

/* A connection was opened or closed: libmicrohttpd's callback; `arg` is the listener. */
void pool_notified(void *arg, struct MHD_Connection *http, void **context,
                   enum MHD_ConnectionNotificationCode code);

/* Answers what is in the core `draining`, ends the streams, and closes what is idle. */
void pool_stop(struct api *api);

#endif
