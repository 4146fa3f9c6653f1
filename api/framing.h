/* Where a request's header and body end, beyond doubt or not. */
#ifndef LOCKAGENT_API_FRAMING_H
#define LOCKAGENT_API_FRAMING_H

#include "api/internal.h"

/* What leaves in doubt where the request ends, as a sentence; NULL: nothing. `method` and `version`
 * as the handler got them, in its first call. */
const char *framing_fault(const struct connection *connection, const char *method,
                          const char *version);
/* The same of the request target, before libmicrohttpd has touched it. */
const char *framing_fault_of_target(const char *target);

#endif
