/* What libmicrohttpd reads of a connection, seen as it reads it. */
#ifndef LOCKAGENT_API_INTAKE_H
#define LOCKAGENT_API_INTAKE_H

#include "api/internal.h"

/* From the accept until the close. Without memory for it, chunked requests are refused. */
void intake_watch(struct connection *connection);
void intake_forget(const struct connection *connection);

/* A chunked body begins at `body`, in libmicrohttpd's buffer. False when it is not known which of
 * its bytes have come. */
bool intake_begin_chunks(struct connection *connection, const char *body);

/* What leaves in doubt where the chunked body ends, as a sentence; NULL: nothing so far, or the
 * body is not chunked. */
const char *intake_fault(const struct connection *connection);
/* The same when libmicrohttpd has found the end, and handed over `data` bytes. */
const char *intake_fault_at_end(const struct connection *connection, uint64_t data);

/* The request has ended, and libmicrohttpd moves what it has read beyond it. */
void intake_end(struct connection *connection);

#endif
