/* Metrics, health and the API's description. MHD_NO closes the connection. */
#ifndef LOCKAGENT_API_PAGES_H
#define LOCKAGENT_API_PAGES_H

#include "api/internal.h"

enum MHD_Result page_metrics(struct connection *connection);
enum MHD_Result page_alive(struct connection *connection);
enum MHD_Result page_ready(struct connection *connection);
enum MHD_Result page_openapi(struct connection *connection);
enum MHD_Result page_openapi_3_0(struct connection *connection);

#endif
