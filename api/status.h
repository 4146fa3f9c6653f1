/* The status page. */
#ifndef LOCKAGENT_API_STATUS_H
#define LOCKAGENT_API_STATUS_H

#include "api/internal.h"

/* MHD_NO closes the connection. */
enum MHD_Result status_page(struct connection *connection);

#endif
