/* The life of a request: what libmicrohttpd calls for each. */
#ifndef LOCKAGENT_API_REQUEST_H
#define LOCKAGENT_API_REQUEST_H

#include "api/internal.h"

/* The request line is here, its target as it came. */
void *request_line_came(void *arg, const char *target, struct MHD_Connection *http);
/* The header is here, a piece of the body, all of it; or a suspended connection goes on. */
enum MHD_Result request_handler(void *arg, struct MHD_Connection *http, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_len, void **context);
/* Returns true if the connection is dead and the request can be dropped: it reads, or the core does
 * not have it yet and it is no release. */
bool request_is_for_nobody(const struct connection *connection);
/* The response is written, or never will be. */
void request_completed(void *arg, struct MHD_Connection *http, void **context,
                       enum MHD_RequestTerminationCode code);

#endif
