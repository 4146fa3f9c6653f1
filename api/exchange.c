/* The exchange with the core: a request goes in as an event, and comes back as an answer. */
#include "api/exchange.h"

#include <stdlib.h>

#include "agent/core/core_assert.h"
#include "api/answer.h"
#include "api/connection.h"

/* ---- numbers: by these the core knows the requests ------------------------------------------- */

bool exchange_start(struct api *api)
{
    api->numbers = api->free_count = config_requests_max(api->config);
    api->by_number = calloc(api->numbers, sizeof(struct connection *));
    api->free_numbers = calloc(api->numbers, sizeof(*api->free_numbers));
    for (uint32_t i = 0; api->free_numbers != NULL && i < api->numbers; i++)
        api->free_numbers[i] = api->numbers - 1 - i;
    return api->by_number != NULL && api->free_numbers != NULL;
}

void exchange_free(struct api *api)
{
    free(api->by_number);
    free(api->free_numbers);
}

static void give_number_back(struct api *api, uint32_t number)
{
    api->by_number[number] = NULL;
    api->free_numbers[api->free_count++] = number;
}

size_t api_unanswered(const struct api *api)
{
    return api->numbers - api->free_count;
}

/* ---- in -------------------------------------------------------------------------------------- */

static bool waits(const struct request *request)
{
    return request->method == METHOD_POST && request->params.wait_ms > 0;
}

enum MHD_Result exchange_submit(struct connection *connection, struct event *event)
{
    struct api *api = connection->api;
    struct request *request = connection->request;
    if (api->stopping)
        return answer_here(connection, ANSWER_DRAINING);
    bool lasts = waits(request) || request_streams(request);
    bool is_gone = connection->peer_dead && event->kind != EVENT_RELEASE;
    if (is_gone || (connection->peer_closed && lasts))
        return MHD_NO; /* nobody is there to hold the lock */
    bool parks = lasts || event->kind == EVENT_ACQUIRE;
    if (api->free_count == 0 || (parks && !connection_park(connection, lasts)))
        return answer_here(connection, ANSWER_TOO_MANY_WAITERS);
    request->number = api->free_numbers[--api->free_count];
    api->by_number[request->number] = connection;
    connection->phase = PHASE_WORKING;
    switch (event->kind) {
    case EVENT_ACQUIRE:
        event->acquire.request = request->number;
        break;
    case EVENT_RENEW:
        event->renew.request = request->number;
        break;
    case EVENT_RELEASE:
        event->release.request = request->number;
        break;
    default:
        CORE_ASSERT(event->kind == EVENT_READ);
        event->read.request = request->number;
    }
    api->backend.submit(api->backend.arg, event);
    if (connection->phase == PHASE_ANSWERED)
        return answer_write(connection);
    CORE_ASSERT(connection->phase == PHASE_WORKING);
    MHD_suspend_connection(connection->http);
    request->suspended = true;
    return MHD_YES;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void resume(struct connection *connection)
{
    if (!connection->request->suspended)
        return;
    connection->request->suspended = false;
    connection_resume(connection);
}

void api_answer(struct api *api, const struct effect_answer *answer)
{
    struct connection *connection =
        answer->request < api->numbers ? api->by_number[answer->request] : NULL;
    CORE_ASSERT(connection != NULL);
    if (connection->phase == PHASE_GONE) {
        /* It was decided in or before the step that also cancels it: exchange_cancel() gives the
         * number back. */
        answer_give_back(api, answer);
        return;
    }
    CORE_ASSERT(connection->phase == PHASE_WORKING);
    answer_keep(&connection->request->kept, answer);
    give_number_back(api, answer->request);
    connection->phase = PHASE_ANSWERED;
    resume(connection);
}

/* ---- back ------------------------------------------------------------------------------------ */

void exchange_cancel(struct connection *connection)
{
    struct api *api = connection->api;
    struct event event = {.kind = EVENT_CANCEL, .cancel.request = connection->request->number};
    CORE_ASSERT(connection->phase == PHASE_WORKING);
    connection->phase = PHASE_GONE; /* before the core can answer anybody else */
    api->backend.submit(api->backend.arg, &event);
    give_number_back(api, connection->request->number);
}

/* A wait ends with its caller. A caller that has only closed its sending side and does not wait
 * still gets its response; renewals and releases go on without a caller. */
void exchange_caller_gone(struct connection *connection)
{
    bool nobody_reads = connection->peer_dead && connection->request->method == METHOD_POST;
    if (!waits(connection->request) && !request_streams(connection->request) && !nobody_reads)
        return;
    exchange_cancel(connection);
    resume(connection);
}

void exchange_drained(struct connection *connection)
{
    exchange_cancel(connection);
    connection->request->kept.answer =
        (struct effect_answer){.answer = ANSWER_DRAINING, .retry_after_ms = 1000};
    connection->phase = PHASE_ANSWERED;
    resume(connection);
}
