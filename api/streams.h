/* Responses that stay open and tell what becomes of a hold (D3): GET ?watch and bind=connection. */
#ifndef LOCKAGENT_API_STREAMS_H
#define LOCKAGENT_API_STREAMS_H

#include "api/internal.h"

bool streams_start(struct api *api);
void streams_free(struct api *api);

struct stream_terms {
    struct lock_ref lock;
    struct instant valid_until;
    bool bound; /* the caller's leaving is the release */
};

/* Begins a stream whose first line is `first_line`, with its end; takes the buffer over, also on
 * failure. NULL when out of memory. The response is to be queued, and the connection is then
 * PHASE_STREAMING. */
struct MHD_Response *stream_open(struct connection *connection, struct buffer first_line,
                                 const struct stream_terms *terms);

/* The caller has hung up, or closed its sending side. */
void stream_caller_gone(struct connection *connection);
/* The agent ends: whatever has not been told yet is `lost`. */
void stream_stop(struct connection *connection);
/* The response is over, however that came about; nothing to do where it was no stream. */
void stream_closed(struct connection *connection);

#endif
