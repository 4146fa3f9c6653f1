/* The lock calls: what the routes of /locks lead to. MHD_NO closes the connection. */
#ifndef LOCKAGENT_API_LOCKS_H
#define LOCKAGENT_API_LOCKS_H

#include "api/internal.h"

enum MHD_Result locks_acquire(struct connection *connection);
enum MHD_Result locks_renew(struct connection *connection);
enum MHD_Result locks_release(struct connection *connection);
/* Also GET ?watch. */
enum MHD_Result locks_read(struct connection *connection);
enum MHD_Result locks_list(struct connection *connection);

#endif
