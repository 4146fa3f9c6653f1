/* One connection among others: what it is about, how long that may take, and which makes room. */
#ifndef LOCKAGENT_API_CONNECTION_H
#define LOCKAGENT_API_CONNECTION_H

#include "api/internal.h"

/* The connection that a handle of libmicrohttpd stands for; NULL where there was no memory for
 * one. */
struct connection *connection_of(struct MHD_Connection *http);

/* It was accepted: the request line has limits.header_timeout. */
void connection_is_silent(struct connection *connection);
/* A request line has come: the rest has limits.header_timeout. */
void connection_is_arriving(struct connection *connection);
/* The whole request has come, and nothing is limited until it is answered. */
void connection_has_arrived(struct connection *connection);
/* A response is queued that has WRITE_MS to be taken. */
void connection_is_writing(struct connection *connection);
/* The response is written: the next request line has IDLE_MS. */
void connection_is_idle(struct connection *connection);

/* Returns true if an earlier request was answered and this one followed after a pause: the
 * connection is not one of a crowd (D9). */
bool connection_pauses(const struct connection *connection);

/* Counts the request among those that keep their connection: it waits or streams (`lasts`), or asks
 * for a lock or a page once. It is counted once. False when they are too many (D9). */
bool connection_park(struct connection *connection, bool lasts);
/* Counts it no more; nothing to do where it was not counted. */
void connection_unpark(struct connection *connection);

/* Memory for pages is scarce: of each listener one connection is closed that reads its response
 * slowly, if there is one. */
void connection_slow_reader_gives_way(struct api *api);

/* Resumes the suspended connection, and asks for a run in which libmicrohttpd goes on with it. */
void connection_resume(struct connection *connection);

#endif
