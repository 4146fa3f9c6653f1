/* Picks the header fields that mean something here out of all that came. */
#include "api/headers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static enum MHD_Result take_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct headers *headers = arg;
    (void)kind;
    if (value == NULL)
        return MHD_YES;
    if (strcasecmp(name, "Host") == 0) {
        headers->host_doubled = headers->host != NULL;
        headers->host = value;
    } else if (strcasecmp(name, "Accept") == 0) {
        accept_add(&headers->accept, value);
    } else if (strcasecmp(name, "Lock-Token") == 0) {
        headers->lock_token_doubled = headers->lock_token != NULL;
        headers->lock_token = value;
    } else if (strcasecmp(name, "Idempotency-Key") == 0) {
        headers->idempotency_doubled = headers->idempotency != NULL;
        headers->idempotency = value;
    } else if (strcasecmp(name, "Authorization") == 0) {
        headers->authorization_doubled = headers->authorization != NULL;
        headers->authorization = value;
    } else if (strcasecmp(name, "Origin") == 0) {
        headers->origin = value;
    } else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
        /* Whatever another one of them says. */
        headers->is_cross_site |= strcasecmp(value, "cross-site") == 0;
    } else if (strcasecmp(name, "Content-Type") == 0) {
        headers->content_type = value;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        headers->content_length = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        headers->transfer_encoding = value;
    } else if (strcasecmp(name, "traceparent") == 0) {
        headers->traceparent = value;
    }
    return MHD_YES;
}

void headers_read(struct MHD_Connection *http, struct headers *ret_headers)
{
    *ret_headers = (struct headers){0};
    MHD_get_connection_values(http, MHD_HEADER_KIND, take_header, ret_headers);
}

static bool is_hex(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f')))
            return false;
    return true;
}

/* W3C Trace Context: `00-<32 hex>-<16 hex>-<2 hex>`, later versions may go on behind a dash. */
void headers_trace_id(const struct headers *headers, char trace_id[33])
{
    const char *value = headers->traceparent;
    size_t len = value == NULL ? 0 : strlen(value);
    bool fine = len >= 55 && value[2] == '-' && value[35] == '-' && value[52] == '-' &&
                is_hex(value, 2) && is_hex(value + 3, 32) && is_hex(value + 36, 16) &&
                is_hex(value + 53, 2) && memcmp(value, "ff", 2) != 0 &&
                (len == 55 || (memcmp(value, "00", 2) != 0 && value[55] == '-'));
    fine = fine && strspn(value + 3, "0") < 32 && strspn(value + 36, "0") < 16;
    snprintf(trace_id, 33, "%.32s", fine ? value + 3 : "");
}
