/* The requests that connections carry: one that has been answered is kept for the next. */
#ifndef LOCKAGENT_API_REQUEST_POOL_H
#define LOCKAGENT_API_REQUEST_POOL_H

#include "api/internal.h"

void request_pool_start(struct api *api);
/* No connection may have one. */
void request_pool_free(struct api *api);

/* The connection begins a request: all of it is zero, but `kept`. False: out of memory. */
MUST_CHECK bool request_begin(struct connection *connection);
/* The connection has none any more. */
void request_end(struct connection *connection);

#endif
