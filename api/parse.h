/* What came, checked: the request's target, header and body. What is wrong stands in the request's
 * refusal, the first thing that is. */
#ifndef LOCKAGENT_API_PARSE_H
#define LOCKAGENT_API_PARSE_H

#include "api/internal.h"

/* The target, as it came: its route, key and query. libmicrohttpd decodes what is left of it in
 * place. */
void parse_target(struct connection *connection, const char *target);
/* The whole header. False when the request is to be refused at once, its body unread. */
bool parse_header(struct connection *connection, const char *method, const char *version);
/* A piece of the body. */
void parse_piece(struct connection *connection, const char *bytes, size_t len);
/* All has come: a chunked body of which the end is in doubt is refused, before anything else. */
void parse_end(struct connection *connection);
/* The body is whole: its parameters, and what they must be together. */
void parse_whole(struct connection *connection);

#endif
