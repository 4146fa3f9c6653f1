/* GET ?watch: a stream of what becomes of a hold, for any caller. */
#ifndef LOCKAGENT_API_WATCH_H
#define LOCKAGENT_API_WATCH_H

#include "api/internal.h"

/* Answers with a stream that begins with the hold as it stands; the core is only read. MHD_NO
 * closes the connection. */
enum MHD_Result watch_begin(struct connection *connection);

#endif
