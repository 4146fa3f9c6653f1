/* The pool of requests. */
#include "api/request_pool.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"

void request_pool_start(struct api *api)
{
    list_init(&api->spare_requests);
}

void request_pool_free(struct api *api)
{
    struct link *spare;
    while ((spare = list_first(&api->spare_requests)) != NULL) {
        list_remove(spare);
        free(CONTAINER_OF(spare, struct request, spare));
    }
}

bool request_begin(struct connection *connection)
{
    struct api *api = connection->api;
    CORE_ASSERT(connection->request == NULL);
    struct link *spare = list_first(&api->spare_requests);
    struct request *request =
        spare != NULL ? CONTAINER_OF(spare, struct request, spare) : malloc(sizeof(*request));
    if (request == NULL)
        return false;
    if (spare != NULL)
        list_remove(spare);
    memset(request, 0, offsetof(struct request, kept));
    connection->request = request;
    return true;
}

void request_end(struct connection *connection)
{
    CORE_ASSERT(connection->request != NULL);
    list_append(&connection->api->spare_requests, &connection->request->spare);
    connection->request = NULL;
}
