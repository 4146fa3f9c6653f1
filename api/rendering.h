/* Pages that take long to render: lists, the status page, metrics. Together they have a quarter of
 * the agent's time, on all listeners, whoever asks for them. While that is used up a page is shared
 * if it is younger than SHARED_MS, and else waited for. */
#ifndef LOCKAGENT_API_RENDERING_H
#define LOCKAGENT_API_RENDERING_H

#include "api/internal.h"

/* Renders the page that the request asks for; its response is of rendering_response(). NULL: out of
 * memory. */
typedef struct MHD_Response *rendering_fn(struct connection *connection);

/* Once the API is certain to start. */
void rendering_start(struct api *api);
void rendering_free(struct api *api);
/* Every connection that waits for a page goes on: the API stops. */
void rendering_stop(struct api *api);

/* Answers with the page that `what` names: the route and all parameters that the page depends on.
 * The connection waits, suspended, if there is no time for it now. If it `may_be_old`, a page that
 * is younger than SHARED_MS is shared even if there is time for a new one. MHD_NO closes the
 * connection. */
enum MHD_Result rendering_answer(struct connection *connection, const char *what, bool may_be_old,
                                 rendering_fn *render);

/* A response with the bytes of `page`, which it owns from now on; they are counted until the last
 * reader has them. NULL: out of memory, and the page is freed. */
struct MHD_Response *rendering_response(struct api *api, struct buffer *page,
                                        const char *content_type);

#endif
