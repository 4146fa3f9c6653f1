/* GET ?watch: a stream of what becomes of a hold, for any caller. */
#include "api/watch.h"

#include <stdlib.h>

#include "api/answer.h"
#include "api/connection.h"
#include "api/response.h"
#include "api/streams.h"
#include "api/view.h"

enum MHD_Result watch_begin(struct connection *connection)
{
    struct api *api = connection->api;
    const struct request *request = connection->request;
    struct instant now = api->backend.now(api->backend.arg);
    struct text key = {request->key, request->key_len};
    struct hold_view hold;
    struct stream_terms terms = {.bound = false};
    if (api->stopping)
        return answer_here(connection, ANSWER_DRAINING);
    json_t *view = core_find_hold(api->backend.core, key, now, &hold, &terms.lock)
                       ? view_hold(&hold, now)
                       : NULL;
    if (view == NULL)
        return answer_here(connection, ANSWER_NOT_HELD);
    if (!connection_park(connection)) {
        json_decref(view);
        return answer_here(connection, ANSWER_TOO_MANY_WAITERS);
    }
    terms.valid_until = hold.valid_until;
    json_t *snapshot =
        json_pack("{s:s, s:s%}", "event", "held", "key", request->key, request->key_len);
    if (snapshot != NULL)
        json_object_update_new(snapshot, view);
    char *text = snapshot == NULL ? NULL : json_dumps(snapshot, JSON_COMPACT);
    json_decref(snapshot);
    struct buffer line = {.failed = text == NULL};
    if (text != NULL)
        buffer_printf(&line, "%s\n", text);
    free(text);
    return response_stream(connection, 200, stream_open(connection, line, &terms));
}
