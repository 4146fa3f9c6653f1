/* GET ?watch: a stream of what becomes of a hold, for any caller. */
#include "api/watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/answer.h"
#include "api/connection.h"
#include "api/response.h"
#include "api/streams.h"
#include "api/view.h"

static bool is_meant(const struct params *params, const struct hold_view *hold)
{
    bool names_token = (params->given & 1U << PARAM_TOKEN) != 0;
    return !names_token || token_same(&params->token, &hold->token);
}

/* The hold that is meant, of those of this agent: by its token, or the only one. Returns how many
 * may be meant: of a semaphore (R20), or of readers (R17), there may be several. */
static unsigned find_hold(const struct api *api, const struct request *request, struct instant now,
                          struct hold_view *ret_hold, struct lock_ref *ret_lock)
{
    struct text key = {request->key, request->key_len};
    struct hold_view hold;
    struct lock_ref lock;
    uint32_t cursor = 0;
    unsigned found = 0;
    while (core_next_hold_of(api->backend.core, key, now, &cursor, &hold, &lock)) {
        if (!is_meant(&request->params, &hold))
            continue;
        found++;
        *ret_hold = hold;
        *ret_lock = lock;
    }
    return found;
}

static enum MHD_Result refuse_many(struct connection *connection, unsigned found)
{
    struct refusal *refusal = &connection->request->refusal;
    refusal->problem = PROBLEM_TOKEN_REQUIRED;
    snprintf(refusal->detail, sizeof(refusal->detail),
             "%u callers of this agent hold the key: give the token of the hold to be watched, as "
             "the Lock-Token header or as the parameter token",
             found);
    return response_refusal(connection, refusal);
}

enum MHD_Result watch_begin(struct connection *connection)
{
    struct api *api = connection->api;
    const struct request *request = connection->request;
    struct instant now = api->backend.now(api->backend.arg);
    struct hold_view hold;
    struct stream_terms terms = {.bound = false};
    if (api->stopping)
        return answer_here(connection, ANSWER_DRAINING);
    unsigned found = find_hold(api, request, now, &hold, &terms.lock);
    if (found > 1)
        return refuse_many(connection, found);
    json_t *view = found == 1 ? view_hold(api, &hold, now) : NULL;
    if (view == NULL)
        return answer_here(connection, ANSWER_NOT_HELD);
    if (!connection_park(connection, /* lasts= */ true)) {
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
