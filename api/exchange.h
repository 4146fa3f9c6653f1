/* The exchange with the core: a request goes in as an event, its connection is suspended, and an
 * answer comes out; api_answer() and api_unanswered() of api.h are here too. */
#ifndef LOCKAGENT_API_EXCHANGE_H
#define LOCKAGENT_API_EXCHANGE_H

#include "api/internal.h"

/* Takes the room's numbers of requests; false when out of memory. */
bool exchange_start(struct api *api);
void exchange_free(struct api *api);

/* Hands an event of an operation to the core, and suspends the connection until it is answered.
 * MHD_NO closes it. */
enum MHD_Result exchange_submit(struct connection *connection, struct event *event);
/* The caller of a request that is in the core has hung up. */
void exchange_caller_gone(struct connection *connection);
/* Takes a request back from the core and answers it `draining`. */
void exchange_drained(struct connection *connection);
/* Takes a request back from the core: nobody is left to be answered. */
void exchange_cancel(struct connection *connection);

#endif
