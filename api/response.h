/* The ways to hand bytes to libmicrohttpd. */
#ifndef LOCKAGENT_API_RESPONSE_H
#define LOCKAGENT_API_RESPONSE_H

#include <jansson.h>

#include "api/internal.h"

/* ---- what is sent: NULL stands for out of memory ---- */

/* Adds what every response has, and the content type unless it is NULL. */
struct MHD_Response *response_typed(struct MHD_Response *response, const char *content_type);
/* `owned` is malloc'ed and given away, also on failure. */
struct MHD_Response *response_owned(char *owned, size_t len, const char *content_type);
struct MHD_Response *response_copied(const char *bytes, size_t len, const char *content_type);

/* ---- sending: each queues a response; MHD_NO closes the connection ---- */

/* Consumes `response`; NULL: MHD_NO. */
enum MHD_Result response_queue(struct connection *connection, unsigned status,
                               struct MHD_Response *response);
/* The same for a stream: it goes on for as long as a hold does. */
enum MHD_Result response_stream(struct connection *connection, unsigned status,
                                struct MHD_Response *response);
/* A constant response, which is shared. */
enum MHD_Result response_shared(struct connection *connection, unsigned status,
                                struct MHD_Response *response);
/* Consumes `body`. */
enum MHD_Result response_json(struct connection *connection, unsigned status, json_t *body);
enum MHD_Result response_text(struct connection *connection, unsigned status, const char *text);
/* Consumes the report's members. */
enum MHD_Result response_problem(struct connection *connection,
                                 const struct problem_report *report);
enum MHD_Result response_refusal(struct connection *connection, const struct refusal *refusal);

#endif
