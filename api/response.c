/* Responses: the ways to pass bytes to libmicrohttpd. */
#include "api/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- routes ---- */

/* Returns the parameters and methods of a route. */

bool route_takes_params(const struct route *route)
{
    return route->operations[0].params != 0;
}

const struct operation *route_operation(const struct route *route, enum method method)
{
    for (size_t i = 0; i < OPERATIONS && route->operations[i].run != NULL; i++)
        if (route->operations[i].method == method)
            return &route->operations[i];
    return NULL;
}

/* Writes the Allow header: `POST, PUT, DELETE, GET, HEAD`. */
static void route_allow(const struct route *route, char *out, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < OPERATIONS && route->operations[i].run != NULL; i++)
        len += (size_t)snprintf(out + len, size - len, "%s, ",
                                method_name(route->operations[i].method));
    snprintf(out + len, size - len, "HEAD"); /* Every route takes GET, so HEAD as well. */
}

static const char *const method_names[] = {"GET", "POST", "PUT", "DELETE", "other"};

enum method method_find(const char *name, bool *ret_is_head)
{
    *ret_is_head = strcmp(name, "HEAD") == 0;
    if (*ret_is_head)
        return METHOD_GET;
    int i = 0;
    while (i < METHOD_OTHER && strcmp(name, method_names[i]) != 0)
        i++;
    return (enum method)i;
}

const char *method_name(enum method method)
{
    return method_names[method];
}

/* ---- responses ---- */

static const char JSON[] = "application/json", PROBLEM[] = "application/problem+json",
                  TEXT[] = "text/plain; charset=utf-8";

struct MHD_Response *response_typed(struct MHD_Response *response, const char *content_type)
{
    bool fine =
        response != NULL &&
        MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES &&
        (content_type == NULL ||
         MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) == MHD_YES);
    if (fine || response == NULL)
        return response;
    MHD_destroy_response(response);
    return NULL;
}

/* Returns a response with `owned`, which was allocated with malloc(). It is freed also if this
 * fails. */
static struct MHD_Response *response_owned(char *owned, size_t len, const char *content_type)
{
    struct MHD_Response *response =
        owned == NULL ? NULL : MHD_create_response_from_buffer(len, owned, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        free(owned);
    return response_typed(response, content_type);
}

struct MHD_Response *response_copied(const char *bytes, size_t len, const char *content_type)
{
    union { /* libmicrohttpd only reads the bytes. */
        const char *bytes;
        void *buffer;
    } source = {.bytes = bytes};
    return response_typed(
        MHD_create_response_from_buffer(len, source.buffer, MHD_RESPMEM_MUST_COPY), content_type);
}

enum MHD_Result response_shared(struct connection *connection, unsigned status,
                                struct MHD_Response *response)
{
    connection->phase = PHASE_WRITING;
    connection->request->status = status;
    connection_is_writing(connection);
    return MHD_queue_response(connection->http, status, response);
}

enum MHD_Result response_queue(struct connection *connection, unsigned status,
                               struct MHD_Response *response)
{
    if (response == NULL)
        return MHD_NO;
    if (connection->api->stopping || connection->request->closes ||
        connection_makes_room(connection))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = response_shared(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result response_stream(struct connection *connection, unsigned status,
                                struct MHD_Response *response)
{
    struct api *api = connection->api;
    enum MHD_Result result = response_queue(connection, status, response);
    connection->request->answered_at = api->backend.now(api->backend.arg);
    if (response != NULL) {
        connection->phase = PHASE_STREAMING;
        connection_has_arrived(connection); /* A stream that is not read has a limit of its own. */
    }
    return result;
}

enum MHD_Result response_json(struct connection *connection, unsigned status, json_t *body)
{
    char *text = view_line(body);
    return response_queue(connection, status,
                          response_owned(text, text == NULL ? 0 : strlen(text), JSON));
}

enum MHD_Result response_text(struct connection *connection, unsigned status, const char *text)
{
    return response_queue(connection, status, response_copied(text, strlen(text), TEXT));
}

/* ---- problems -------------------------------------------------------------------------------- */

static struct MHD_Response *problem_as_text(const struct problem_report *report)
{
    char *line = problem_line(report);
    return response_owned(line, line == NULL ? 0 : strlen(line), TEXT);
}

static struct MHD_Response *problem_as_json(const struct problem_report *report)
{
    char *text = problem_json(report);
    return response_owned(text, text == NULL ? 0 : strlen(text), PROBLEM);
}

enum MHD_Result response_problem(struct connection *connection, const struct problem_report *report)
{
    struct MHD_Response *response = connection->request->media == MEDIA_TEXT
                                        ? problem_as_text(report)
                                        : problem_as_json(report);
    if (response != NULL && report->retry_after_ms >= 0) {
        char seconds[24];
        long long ms = (long long)report->retry_after_ms;
        snprintf(seconds, sizeof(seconds), "%lld", ms <= 1000 ? 1 : (ms + 999) / 1000);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    if (response != NULL && report->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                "Bearer realm=\"lockagent\"");
    if (response != NULL && report->status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        char allow[64];
        route_allow(connection->request->route, allow, sizeof(allow));
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
    }
    return response_queue(connection, report->status, response);
}

enum MHD_Result response_refusal(struct connection *connection, const struct refusal *refusal)
{
    struct problem_report report = problem_report(refusal->problem);
    if (refusal->detail[0] != '\0')
        report.detail = refusal->detail;
    if (refusal->parameter[0] != '\0')
        report.members = json_pack("{s:s}", "parameter", refusal->parameter);
    return response_problem(connection, &report);
}
