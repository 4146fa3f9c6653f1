/* The header fields of a request that mean something here. */
#ifndef LOCKAGENT_API_HEADERS_H
#define LOCKAGENT_API_HEADERS_H

#include <microhttpd.h>
#include <stdbool.h>

#include "api/accept.h"

/* The header fields that matter, in libmicrohttpd's memory; NULL: absent. */
struct headers {
    const char *host, *origin, *authorization, *content_type, *content_length, *transfer_encoding,
        *lock_token, *idempotency, *traceparent;
    bool is_cross_site, host_doubled, authorization_doubled, lock_token_doubled,
        idempotency_doubled;
    struct accept accept;
};

/* Reads them all. */
void headers_read(struct MHD_Connection *http, struct headers *ret_headers);

/* Writes the trace id of a traceparent header that is well formed (W3C Trace Context), else "". */
void headers_trace_id(const struct headers *headers, char trace_id[33]);

#endif
