/* The life of a request, from its first line to the last byte of its reply.
 *
 *   IDLE --request_line_came--> HEADER --judge_header--> BODY --all_came--> WRITING   pages, lists, refusals
 *                                 |                       |
 *                                 |                       '--all_came--> CHECKED      calls that need the core
 *                                 '--body too large--> WRITING
 *
 *   CHECKED --request_submit, suspended--> WORKING --api_answer--> ANSWERED --answer_write--> WRITING
 *   CHECKED --the core answers at once---------------------------> ANSWERED
 *                                          WORKING --request_caller_gone, EVENT_CANCEL--> GONE, closed
 *
 *   CHECKED, ANSWERED --answer_watch, answer_write--> STREAMING   watched and bound holds: streams.c
 *
 *   every phase --request_completed--> IDLE
 *
 * libmicrohttpd calls the handler when the header is here, for every piece of the body, when all is here, and again, in
 * every run, until a reply is queued or the connection is suspended. CHECKED waits for one such further call: by then
 * everything that arrived has been read, so that a caller that has closed its sending side still gets its reply. Only
 * the last phases queue replies: one queued earlier would cost the caller its connection. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "agent/log.h"
#include "api/key.h"
#include "api/routes.h"
#include "api/streams.h"
#include "api/text.h"

/* ---- the request line -------------------------------------------------------------------------------------------- */

/* The first thing that is wrong is what the caller hears of. */
static void refuse(struct request *request, enum problem problem)
{
    if (request->refusal.problem == PROBLEM_NONE)
        request->refusal.problem = problem;
}

__attribute__((format(printf, 3, 4))) static void refuse_saying(struct request *request, enum problem problem,
                                                                const char *format, ...)
{
    va_list arguments;
    if (request->refusal.problem != PROBLEM_NONE)
        return;
    request->refusal.problem = problem;
    va_start(arguments, format);
    vsnprintf(request->refusal.detail, sizeof(request->refusal.detail), format, arguments);
    va_end(arguments);
    text_tame(request->refusal.detail);
}

/* Keys of ours would be locks of theirs where nothing stands before the key (D3). */
static bool key_is_reserved(const struct api *api, struct text key)
{
    static const char reserved[] = "lockagent:";
    const size_t len = sizeof(reserved) - 1;
    return key.len >= len && memcmp(key.at, reserved, len) == 0 &&
           api->config->policies[core_policy_of(api->backend.core, key)].prefix[0] == '\0';
}

static void read_key(struct connection *connection, struct text raw)
{
    struct request *request = &connection->request;
    const char *fault = key_decode(raw, request->key, &request->key_len);
    if (fault == NULL && key_is_reserved(connection->api, (struct text){request->key, request->key_len}))
        fault = "begins with lockagent:, which is the agent's own where no prefix is configured";
    if (fault == NULL)
        return;
    request->key_len = 0;
    refuse_saying(request, PROBLEM_BAD_REQUEST,
                  "the key %s; allowed: 1 to 512 bytes of UTF-8 in which every / stands between two parts", fault);
    snprintf(request->refusal.parameter, sizeof(request->refusal.parameter), "key");
}

/* The raw target is only to be seen here: libmicrohttpd cuts and decodes it in place afterwards. */
static void read_target(struct connection *connection, struct text target)
{
    struct request *request = &connection->request;
    const char *question = memchr(target.at, '?', target.len);
    struct text path = {target.at, question == NULL ? target.len : (size_t)(question - target.at)}, key = {NULL, 0};
    if (target.len > TARGET_BYTES_MAX)
        refuse(request, PROBLEM_URI_TOO_LONG);
    request->route = route_find(path, &key);
    if (request->route == NULL || !request->route->is_lock_call)
        return;
    if (connection->listener->is_admin) {
        request->route = NULL;
        refuse_saying(request, PROBLEM_NOT_FOUND, "the admin listener serves no lock calls");
        return;
    }
    if (key.at != NULL)
        read_key(connection, key);
    if (question != NULL)
        params_take_form(&request->params, connection->api->config,
                         (struct text){question + 1, target.len - path.len - 1});
}

void *request_line_came(void *arg, const char *target, struct MHD_Connection *http)
{
    struct connection *connection = connection_of(http);
    (void)arg;
    if (connection == NULL)
        return NULL;
    assert(connection->phase == PHASE_IDLE);
    struct request *request = &connection->request;
    memset(request, 0, offsetof(struct request, kept));
    request->came_at = connection->api->backend.now(connection->api->backend.arg);
    connection->phase = PHASE_HEADER;
    connection_is_arriving(connection);
    request->behind_target = (uintptr_t)target + strlen(target) + 1;
    read_target(connection, text_of(target));
    return connection;
}

/* ---- the header ---- */

static enum MHD_Result take_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct headers *headers = arg;
    (void)kind;
    if (value == NULL)
        return MHD_YES;
    if (strcasecmp(name, "Host") == 0) {
        headers->host_doubled = headers->host != NULL;
        headers->host = value;
    } else if (strcasecmp(name, "Accept") == 0) {
        accept_add(&headers->accept, value);
    } else if (strcasecmp(name, "Lock-Token") == 0) {
        headers->lock_token_doubled = headers->lock_token != NULL;
        headers->lock_token = value;
    } else if (strcasecmp(name, "Idempotency-Key") == 0) {
        headers->idempotency_doubled = headers->idempotency != NULL;
        headers->idempotency = value;
    } else if (strcasecmp(name, "Authorization") == 0) {
        headers->authorization_doubled = headers->authorization != NULL;
        headers->authorization = value;
    } else if (strcasecmp(name, "Origin") == 0) {
        headers->origin = value;
    } else if (strcasecmp(name, "Content-Type") == 0) {
        headers->content_type = value;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        headers->content_length = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        headers->transfer_encoding = value;
    } else if (strcasecmp(name, "traceparent") == 0) {
        headers->traceparent = value;
    }
    return MHD_YES;
}

static bool is_hex(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f')))
            return false;
    return true;
}

/* W3C Trace Context: `00-<32 hex>-<16 hex>-<2 hex>`, later versions may go on behind a dash. */
static void read_traceparent(struct request *request, const char *value)
{
    size_t len = value == NULL ? 0 : strlen(value);
    bool fine = len >= 55 && value[2] == '-' && value[35] == '-' && value[52] == '-' && is_hex(value, 2) &&
                is_hex(value + 3, 32) && is_hex(value + 36, 16) && is_hex(value + 53, 2) &&
                memcmp(value, "ff", 2) != 0 && (len == 55 || (memcmp(value, "00", 2) != 0 && value[55] == '-'));
    if (fine && strspn(value + 3, "0") < 32 && strspn(value + 36, "0") < 16)
        snprintf(request->trace_id, sizeof(request->trace_id), "%.32s", value + 3);
}

static bool is_media_type(const char *header, const char *type)
{
    size_t len = strlen(type);
    return strncasecmp(header, type, len) == 0 && strchr("; \t", header[len]) != NULL;
}

static void judge_body(struct connection *connection, const struct headers *headers)
{
    struct request *request = &connection->request;
    const char *type = headers->content_type == NULL ? "" : headers->content_type;
    unsigned long long length = headers->content_length == NULL ? 0 : strtoull(headers->content_length, NULL, 10);
    if (length > connection->api->config->body_bytes_max)
        refuse(request, PROBLEM_BODY_TOO_LARGE);
    if ((length == 0 && headers->transfer_encoding == NULL) || request->route == NULL || !request->route->is_lock_call)
        return;
    if (is_media_type(type, "application/x-www-form-urlencoded"))
        request->body_kind = BODY_FORM;
    else if (is_media_type(type, "application/json"))
        request->body_kind = BODY_JSON;
    else
        refuse_saying(request, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                      "Content-Type: %.100s; allowed: application/x-www-form-urlencoded, application/json",
                      text_fault(text_of(type)) == NULL && type[0] != '\0' ? type : "none");
}

/* A NUL byte ends the target for libmicrohttpd, a shorter key than the caller named; but the version stands where the line goes on. */
static bool target_was_cut(const struct request *request, const char *version)
{
    uintptr_t skipped = (uintptr_t)version - request->behind_target;
    return skipped != 0 && skipped < POOL_BYTES;
}

/* The first thing that is wrong, from the outermost inwards: the caller, the path, the method, the answer's medium, the
 * target, the body. */
static void judge_header(struct connection *connection, const struct headers *headers, const char *version)
{
    struct request *request = &connection->request;
    struct refusal of_target = request->refusal;
    request->refusal = (struct refusal){.problem = PROBLEM_NONE};
    bool is_open = request->route != NULL && request->route->is_open,
         is_lock_call = request->route != NULL && request->route->is_lock_call;
    request->media = is_lock_call ? accept_choose(&headers->accept) : MEDIA_JSON;
    size_t size = MHD_get_connection_info(connection->http, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    if (guard_refuses(connection, headers, version, is_open, &request->refusal))
        return;
    if (size > HEADER_BYTES_MAX)
        refuse(request, PROBLEM_HEADERS_TOO_LARGE);
    if (of_target.problem == PROBLEM_URI_TOO_LONG || of_target.problem == PROBLEM_NOT_FOUND)
        request->refusal = of_target;
    if (request->route == NULL)
        refuse(request, PROBLEM_NOT_FOUND);
    else if (request->operation == NULL)
        refuse(request, PROBLEM_METHOD_NOT_ALLOWED);
    if (request->media == MEDIA_NONE)
        refuse_saying(request, PROBLEM_NOT_ACCEPTABLE,
                      "allowed: application/json, application/problem+json, text/plain");
    if (request->refusal.problem == PROBLEM_NONE)
        request->refusal = of_target;
    judge_body(connection, headers);
}

static enum MHD_Result header_came(struct connection *connection, const char *method, const char *version)
{
    struct request *request = &connection->request;
    struct headers headers = {0};
    MHD_get_connection_values(connection->http, MHD_HEADER_KIND, take_header, &headers);
    request->method = method_find(method, &request->is_head);
    request->operation = request->route == NULL ? NULL : route_operation(request->route, request->method);
    read_traceparent(request, headers.traceparent);
    if (target_was_cut(request, version))
        refuse_saying(request, PROBLEM_BAD_REQUEST, "the request line is not well formed");
    judge_header(connection, &headers, version);
    if (headers.lock_token_doubled)
        refuse_saying(request, PROBLEM_BAD_REQUEST, "the Lock-Token header came twice");
    if (headers.idempotency_doubled)
        refuse_saying(request, PROBLEM_BAD_REQUEST, "the Idempotency-Key header came twice");
    request->lock_token = headers.lock_token;
    if (request->method == METHOD_POST || request->method == METHOD_DELETE)
        request->idempotency = headers.idempotency;
    connection->phase = PHASE_BODY;
    if (request->refusal.problem != PROBLEM_BODY_TOO_LARGE)
        return MHD_YES;
    connection_has_arrived(connection); /* answered at once, and closed: nobody needs the rest */
    return reply_refusal(connection, &request->refusal);
}

/* ---- the body ---- */

static void body_came(struct connection *connection, const char *bytes, size_t len)
{
    struct request *request = &connection->request;
    size_t max = connection->api->config->body_bytes_max;
    if (request->refusal.problem != PROBLEM_NONE || request->body_kind == BODY_NONE)
        return;
    if (len > max - request->body_len) {
        refuse(request, PROBLEM_BODY_TOO_LARGE);
        return;
    }
    if (request->body_len + len > request->body_size) {
        size_t size = request->body_len + len < 512 ? 512 : 2 * (request->body_len + len);
        char *body = realloc(request->body, size);
        if (body == NULL) {
            refuse(request, PROBLEM_OUT_OF_MEMORY);
            return;
        }
        request->body = body;
        request->body_size = size;
    }
    memcpy(request->body + request->body_len, bytes, len);
    request->body_len += len;
}

static void read_body(struct connection *connection)
{
    struct request *request = &connection->request;
    const struct config *config = connection->api->config;
    struct text body = {request->body, request->body_len};
    char error[256];
    const char *fault = NULL;
    if (body.len > 0 && request->body_kind == BODY_FORM)
        params_take_form(&request->params, config, body);
    if (body.len > 0 && request->body_kind == BODY_JSON)
        fault = params_take_json(&request->params, config, body, error, sizeof(error));
    if (fault != NULL)
        refuse_saying(request, PROBLEM_BAD_REQUEST, "%s", fault);
}

/* A bound hold is the agent's to renew; a stream has one form. */
static void judge_stream(struct request *request)
{
    struct refusal *refusal = &request->refusal;
    if (refusal->problem != PROBLEM_NONE || !request_streams(request))
        return;
    if (request->media == MEDIA_TEXT)
        refuse_saying(request, PROBLEM_NOT_ACCEPTABLE, "a stream comes as application/x-ndjson only");
    if (request->params.bound && request->params.renew == RENEW_CALLER) {
        refuse_saying(request, PROBLEM_BAD_REQUEST,
                      "parameter renew: caller came; allowed: agent, where bind is connection");
        snprintf(refusal->parameter, sizeof(refusal->parameter), "renew");
    }
}

/* D3. A bound hold ends with its connection, so that there is nothing to ask again for; and what an owner has several times
 * can not be told apart by it. */
static void judge_idempotency(struct request *request)
{
    struct refusal *refusal = &request->refusal;
    if (request->idempotency == NULL || refusal->problem != PROBLEM_NONE)
        return;
    const struct params *params = &request->params;
    struct text value = text_of(request->idempotency);
    const char *fault = !params_is_secret(value)            ? "allowed: 16 to 64 visible ASCII characters"
                        : params->bound                     ? "not where bind is connection"
                        : params->owner_len > 0             ? "not together with an owner"
                        : params->given & 1U << PARAM_TOKEN ? "give it or the token"
                                                            : NULL;
    if (fault == NULL)
        return;
    refuse_saying(request, PROBLEM_BAD_REQUEST, "the Idempotency-Key header: %s", fault);
    snprintf(refusal->parameter, sizeof(refusal->parameter), "Idempotency-Key");
}

static void judge_params(struct connection *connection)
{
    struct request *request = &connection->request;
    struct refusal *refusal = &request->refusal;
    unsigned allowed = request->operation->params;
    if (allowed & 1U << PARAM_TOKEN && request->lock_token != NULL &&
        !params_take_token_header(&request->params, request->lock_token)) {
        refuse_saying(request, PROBLEM_BAD_REQUEST, "the Lock-Token header and the parameter token differ");
        snprintf(refusal->parameter, sizeof(refusal->parameter), "token");
        return;
    }
    if (!params_are_fine(&request->params, connection->api->config, allowed, refusal->parameter, refusal->detail,
                         sizeof(refusal->detail))) {
        refusal->problem = PROBLEM_BAD_REQUEST;
        return;
    }
    refusal->parameter[0] = '\0';
    if (allowed & 1U << PARAM_TOKEN && (request->params.given & 1U << PARAM_TOKEN) == 0 && request->idempotency == NULL)
        refuse_saying(request, PROBLEM_TOKEN_REQUIRED, "give it as the Lock-Token header or as the parameter token");
    judge_stream(request);
    judge_idempotency(request);
}

static enum MHD_Result all_came(struct connection *connection)
{
    struct request *request = &connection->request;
    connection_has_arrived(connection);
    if (request->refusal.problem == PROBLEM_NONE && request->route->is_lock_call) {
        read_body(connection);
        if (request->refusal.problem == PROBLEM_NONE)
            judge_params(connection);
    }
    if (request->refusal.problem != PROBLEM_NONE)
        return reply_refusal(connection, &request->refusal);
    if (!request->operation->uses_core)
        return request->operation->run(connection);
    connection->phase = PHASE_CHECKED;
    return MHD_YES;
}

/* ---- the core ---- */

static bool waits(const struct request *request)
{
    return request->method == METHOD_POST && request->params.wait_ms > 0;
}

bool request_streams(const struct request *request)
{
    return request->params.watch || request->params.bound;
}

bool request_park(struct connection *connection)
{
    if (!streams_have_room(connection->api))
        return false;
    connection->request.parked = true;
    connection->api->parked++;
    return true;
}

static void unpark(struct connection *connection)
{
    connection->api->parked -= connection->request.parked;
    connection->request.parked = false;
}

enum MHD_Result answer_here(struct connection *connection, enum answer answer)
{
    struct request *request = &connection->request;
    uint16_t policy = core_policy_of(connection->api->backend.core, (struct text){request->key, request->key_len});
    request->kept.answer = (struct effect_answer){.answer = answer, .policy = policy, .retry_after_ms = 1000};
    return answer_write(connection);
}

static void give_number_back(struct api *api, uint32_t number)
{
    api->by_number[number] = NULL;
    api->free_numbers[api->free_count++] = number;
}

static void resume(struct connection *connection)
{
    if (!connection->request.suspended)
        return;
    connection->request.suspended = false;
    MHD_resume_connection(connection->http);
    server_wants_run(connection->listener);
}

enum MHD_Result request_submit(struct connection *connection, struct event *event)
{
    struct api *api = connection->api;
    struct request *request = &connection->request;
    if (api->stopping)
        return answer_here(connection, ANSWER_DRAINING);
    bool lasts = waits(request) || request_streams(request);
    if (connection->peer_dead || (connection->peer_closed && lasts))
        return MHD_NO; /* nobody is there to hold the lock */
    if (api->free_count == 0 || (lasts && !request_park(connection)))
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
        assert(event->kind == EVENT_READ);
        event->read.request = request->number;
    }
    api->backend.submit(api->backend.arg, event);
    if (connection->phase == PHASE_ANSWERED)
        return answer_write(connection);
    assert(connection->phase == PHASE_WORKING);
    MHD_suspend_connection(connection->http);
    request->suspended = true;
    return MHD_YES;
}

void api_answer(struct api *api, const struct effect_answer *answer)
{
    struct connection *connection = answer->request < api->numbers ? api->by_number[answer->request] : NULL;
    assert(connection != NULL);
    if (connection->phase == PHASE_GONE) {
        answer_give_back(api, answer);
        return; /* it was decided in or before the step that also cancels it: cancel() gives the number back */
    }
    assert(connection->phase == PHASE_WORKING);
    answer_keep(&connection->request.kept, answer);
    give_number_back(api, answer->request);
    connection->phase = PHASE_ANSWERED;
    resume(connection);
}

size_t api_unanswered(const struct api *api)
{
    return api->numbers - api->free_count;
}

static void cancel(struct connection *connection)
{
    struct api *api = connection->api;
    struct event event = {.kind = EVENT_CANCEL, .cancel.request = connection->request.number};
    assert(connection->phase == PHASE_WORKING);
    connection->phase = PHASE_GONE; /* before the core can answer anybody else */
    api->backend.submit(api->backend.arg, &event);
    give_number_back(api, connection->request.number);
}

/* A wait ends with its caller. Who has only closed its sending side and does not wait still gets its reply; renewals
 * and releases go on without a caller. */
void request_caller_gone(struct connection *connection)
{
    bool nobody_reads = connection->peer_dead && connection->request.method == METHOD_POST;
    if (!waits(&connection->request) && !request_streams(&connection->request) && !nobody_reads)
        return;
    cancel(connection);
    resume(connection);
}

void request_drained(struct connection *connection)
{
    cancel(connection);
    connection->request.kept.answer = (struct effect_answer){.answer = ANSWER_DRAINING, .retry_after_ms = 1000};
    connection->phase = PHASE_ANSWERED;
    resume(connection);
}

/* ---- libmicrohttpd's calls --------------------------------------------------------------------------------------- */

enum MHD_Result request_handler(void *arg, struct MHD_Connection *http, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_len, void **context)
{
    struct connection *connection = *context;
    (void)arg, (void)http, (void)url;
    if (connection == NULL)
        return MHD_NO;
    switch (connection->phase) {
    case PHASE_HEADER:
        return header_came(connection, method, version);
    case PHASE_BODY:
        if (*upload_len == 0)
            return all_came(connection);
        body_came(connection, upload, *upload_len);
        *upload_len = 0;
        return MHD_YES;
    case PHASE_CHECKED:
        return connection->request.operation->run(connection);
    case PHASE_ANSWERED:
        return answer_write(connection);
    case PHASE_IDLE:
    case PHASE_WORKING:
    case PHASE_WRITING:
    case PHASE_STREAMING:
    case PHASE_GONE:
        break;
    }
    return MHD_NO;
}

/* The last byte was taken by the kernel. If the caller had closed its socket before, the reset has come back by now, and
 * the kernel says EPIPE: its end of the stream came before the reset. (A reset alone may come from a caller that has read all of the reply and is
 * in a hurry: it keeps its lock.) */
static bool was_delivered(const struct connection *connection, enum MHD_RequestTerminationCode code)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        return false;
    return getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != EPIPE;
}

static void count(const struct connection *connection, unsigned status)
{
    struct api *api = connection->api;
    const struct request *request = &connection->request;
    const char *route = request->route == NULL ? "other" : request->route->path;
    bool streamed = connection->phase == PHASE_STREAMING;
    int64_t took_us =
        instant_us_between(request->came_at, streamed ? request->answered_at : api->backend.now(api->backend.arg));
    metrics_http(api->backend.metrics, route, method_name(request->method), status, took_us);
    log_event(LOG_DEBUG, "request", LOG_TEXT_FIELD("method", method_name(request->method)),
              LOG_TEXT_FIELD("route", route), LOG_BYTES_FIELD("key", ((struct text){request->key, request->key_len})),
              LOG_INT_FIELD("status", status), LOG_INT_FIELD("took_us", took_us),
              LOG_TEXT_FIELD("trace_id", request->trace_id));
}

void request_completed(void *arg, struct MHD_Connection *http, void **context, enum MHD_RequestTerminationCode code)
{
    enum { CLIENT_CLOSED_REQUEST = 499 }; /* as others count it too */
    struct connection *connection = *context;
    (void)arg, (void)http;
    if (connection == NULL)
        return;
    struct api *api = connection->api;
    struct request *request = &connection->request;
    *context = NULL;
    if (connection->phase == PHASE_WORKING)
        cancel(connection);
    if (request->grants && !was_delivered(connection, code)) {
        struct event event = {.kind = EVENT_UNDELIVERED, .undelivered.lock = request->lock};
        api->backend.submit(api->backend.arg, &event);
    }
    stream_closed(connection);
    unpark(connection);
    count(connection, request->status == 0 ? CLIENT_CLOSED_REQUEST : request->status);
    free(request->body);
    request->body = NULL;
    connection->phase = PHASE_IDLE;
    connection_is_idle(connection);
}
