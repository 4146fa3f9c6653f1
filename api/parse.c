/* Checks the target, header and body of a request. */
#include "api/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/key.h"
#include "agent/base/text.h"
#include "api/accept.h"
#include "api/params.h"

/* ---- Accept ---- */

/* Content negotiation between the two media of lock calls: JSON, with problem+json, and plain text
 * for shells. */

static const struct {
    const char *name;
    unsigned media; /* Bits MEDIA_... */
    int exactness;
} ranges[] = {
    {"application/json", 1U << MEDIA_JSON, 3},
    {"application/problem+json", 1U << MEDIA_JSON, 3},
    {"application/x-ndjson", 1U << MEDIA_JSON, 3},
    {"text/plain", 1U << MEDIA_TEXT, 3},
    {"application/*", 1U << MEDIA_JSON, 2},
    {"text/*", 1U << MEDIA_TEXT, 2},
    {"*/*", 1U << MEDIA_JSON | 1U << MEDIA_TEXT, 1},
};

/* Cuts `*rest` at the first `mark`. Returns the part before it, without outer blanks. */
static struct text next_part(struct text *rest, char mark)
{
    const char *end = memchr(rest->at, mark, rest->len);
    struct text part = {rest->at, end == NULL ? rest->len : (size_t)(end - rest->at)};
    size_t taken = part.len + (end != NULL);
    rest->at += taken;
    rest->len -= taken;
    while (part.len > 0 && (part.at[0] == ' ' || part.at[0] == '\t'))
        part.at++, part.len--;
    while (part.len > 0 && (part.at[part.len - 1] == ' ' || part.at[part.len - 1] == '\t'))
        part.len--;
    return part;
}

/* Returns the weight of `0`, `0.5`, `1.000` in thousandths. Any other text counts as 1, so that a
 * typing error is never a refusal. */
static int weight_of(struct text q)
{
    if (q.len == 0 || q.at[0] != '0')
        return 1000;
    int weight = 0, scale = 100;
    for (size_t i = 2; i < q.len && i < 5; i++, scale /= 10)
        weight += q.at[i] >= '0' && q.at[i] <= '9' ? (q.at[i] - '0') * scale : 0;
    return weight;
}

static void take_range(struct accept *accept, struct text range, int weight)
{
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (range.len != strlen(ranges[i].name) ||
            strncasecmp(range.at, ranges[i].name, range.len) != 0)
            continue;
        for (int m = 0; m < MEDIA_NONE; m++) {
            bool better =
                ranges[i].exactness > accept->exactness[m] ||
                (ranges[i].exactness == accept->exactness[m] && weight > accept->weight[m]);
            if ((ranges[i].media & 1U << m) == 0 || !better)
                continue;
            accept->exactness[m] = ranges[i].exactness;
            accept->weight[m] = weight;
        }
    }
}

/* Takes one Accept header. */
static void accept_add(struct accept *accept, const char *header)
{
    struct text rest = text_of(header);
    accept->headers++;
    while (rest.len > 0) {
        struct text element = next_part(&rest, ',');
        struct text range = next_part(&element, ';');
        int weight = 1000;
        while (element.len > 0) {
            struct text parameter = next_part(&element, ';');
            if (parameter.len > 2 && (parameter.at[0] | 0x20) == 'q' && parameter.at[1] == '=')
                weight = weight_of((struct text){parameter.at + 2, parameter.len - 2});
        }
        take_range(accept, range, weight);
    }
}

enum media accept_choose(const struct accept *accept)
{
    const int *weight = accept->weight, *exactness = accept->exactness;
    if (accept->headers == 0)
        return MEDIA_JSON;
    if (weight[MEDIA_JSON] == 0 && weight[MEDIA_TEXT] == 0)
        return MEDIA_NONE;
    if (weight[MEDIA_JSON] != weight[MEDIA_TEXT])
        return weight[MEDIA_JSON] > weight[MEDIA_TEXT] ? MEDIA_JSON : MEDIA_TEXT;
    return exactness[MEDIA_JSON] >= exactness[MEDIA_TEXT] ? MEDIA_JSON : MEDIA_TEXT;
}

/* ---- header fields ---- */

/* Takes a header field if the API uses it. */

static enum MHD_Result take_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
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
    } else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
        /* If there are several, one such field is enough. All ports of a host are one site. */
        headers->is_of_other_page |=
            strcasecmp(value, "cross-site") == 0 || strcasecmp(value, "same-site") == 0;
    } else if (strcasecmp(name, "Content-Type") == 0) {
        headers->content_type = value;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        headers->content_length = value;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        headers->transfer_encoding = value;
    } else if (strcasecmp(name, "traceparent") == 0) {
        headers->traceparent = value;
    } else if (strcasecmp(name, "Cookie") == 0) {
        headers->cookie_bytes += strlen(value) + 1;
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

/* Writes the trace id of a valid traceparent header, otherwise "". */
/* W3C Trace Context: `00-<32 hex>-<16 hex>-<2 hex>`. Later versions may continue after a dash. */
static void headers_trace_id(const struct headers *headers, char trace_id[33])
{
    const char *value = headers->traceparent;
    size_t len = value == NULL ? 0 : strlen(value);
    bool fine = len >= 55 && value[2] == '-' && value[35] == '-' && value[52] == '-' &&
                is_hex(value, 2) && is_hex(value + 3, 32) && is_hex(value + 36, 16) &&
                is_hex(value + 53, 2) && memcmp(value, "ff", 2) != 0 &&
                (len == 55 || (memcmp(value, "00", 2) != 0 && value[55] == '-'));
    fine = fine && strspn(value + 3, "0") < 32 && strspn(value + 36, "0") < 16;
    snprintf(trace_id, 33, "%.32s", fine ? value + 3 : "");
}

/* ---- the request ---- */

/* Refuses the request, unless it is refused already: the caller gets the first fault. */
static void refuse(struct request *request, enum problem problem)
{
    if (request->refusal.problem == PROBLEM_NONE)
        request->refusal.problem = problem;
}

__attribute__((format(printf, 3, 4))) static void refuse_saying(struct request *request,
                                                                enum problem problem,
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

/* Refuses a request whose end is in doubt, before any other fault. */
static void refuse_framing(struct request *request, const char *fault)
{
    request->refusal = (struct refusal){.problem = PROBLEM_BAD_REQUEST};
    snprintf(request->refusal.detail, sizeof(request->refusal.detail), "%s", fault);
}

/* ---- the target ------------------------------------------------------------------------------ */

static void read_target_key(struct connection *connection, struct text raw)
{
    const struct api *api = connection->api;
    struct request *request = connection->request;
    const char *fault = key_decode(raw, request->key, &request->key_len);
    const struct text key = {request->key, request->key_len};
    if (fault == NULL && key_is_agents_own(key) &&
        api->config->policies[core_policy_of(api->backend.core, key)].prefix[0] == '\0') /* D3.1 */
        fault = "begins with lockagent:, which only the agent may use if no prefix is configured";
    if (fault == NULL)
        return;
    request->key_len = 0;
    refuse_saying(
        request, PROBLEM_BAD_REQUEST,
        "the key %s; allowed: 1 to 512 bytes of UTF-8 in which every / is between two parts",
        fault);
    snprintf(request->refusal.parameter, sizeof(request->refusal.parameter), "key");
}

/* Returns the path of `http://authority/path`, which a client sends that takes the agent for a
 * proxy (RFC 9112, 3.2.2). The authority must be our host, as `Host` must. */
static struct text strip_authority(struct connection *connection, struct text target)
{
    static const char scheme[] = "http://";
    enum { SCHEME = sizeof(scheme) - 1, HOST_BYTES_MAX = 255 };
    char host[HOST_BYTES_MAX + 1];
    if (target.len < SCHEME || strncasecmp(target.at, scheme, SCHEME) != 0)
        return target;
    struct text rest = {target.at + SCHEME, target.len - SCHEME};
    size_t len = 0;
    while (len < rest.len && rest.at[len] != '/' && rest.at[len] != '?')
        len++;
    snprintf(host, sizeof(host), "%.*s", (int)(len < sizeof(host) ? len : 0), rest.at);
    if (connection->listener->checks_host && !access_knows_host(connection->api->config, host))
        refuse_saying(
            connection->request, PROBLEM_MISDIRECTED,
            "the host of the target is not allowed; allowed: localhost, 127.0.0.1, [::1], "
            "api.allowed_hosts");
    return (struct text){rest.at + len, rest.len - len};
}

/* Reads the raw target. It is visible only here, because libmicrohttpd then cuts and decodes it in
 * place. */
static void read_target(struct connection *connection, struct text target)
{
    struct request *request = connection->request;
    if (target.len > TARGET_BYTES_MAX)
        refuse(request, PROBLEM_URI_TOO_LONG);
    const struct text rest = strip_authority(connection, target);
    const char *question = memchr(rest.at, '?', rest.len);
    struct text path = {rest.at, question == NULL ? rest.len : (size_t)(question - rest.at)},
                key = {NULL, 0};
    bool is_bare = path.len == 0 && rest.at != target.at; /* http://host means http://host/ */
    request->route = route_find(is_bare ? text_of("/") : path, &key);
    if (request->route == NULL)
        return;
    if (request->route->is_lock_call && connection->listener->is_admin) {
        request->route = NULL;
        refuse_saying(request, PROBLEM_NOT_FOUND, "the admin listener serves no lock calls");
        return;
    }
    if (key.at != NULL)
        read_target_key(connection, key);
    if (question != NULL && route_takes_params(request->route))
        params_take_form(&request->params, connection->api->config,
                         (struct text){question + 1, rest.len - path.len - 1});
}

void parse_target(struct connection *connection, const char *target)
{
    struct request *request = connection->request;
    request->target_at = (uintptr_t)target;
    request->behind_target = request->target_at + strlen(target) + 1;
    request->target_fault = framing_fault_of_target(target);
    read_target(connection, text_of(target));
    /* Hide the arguments from libmicrohttpd. It would keep each in the connection's memory, and
     * many would leave no memory for an answer. They are read already. The buffer is
     * libmicrohttpd's, which changes it itself right after this. */
    const char *question = strchr(target, '?');
    if (question != NULL)
        ((char *)(uintptr_t)question)[1] = '\0';
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool is_media_type(const char *header, const char *type)
{
    size_t len = strlen(type);
    return strncasecmp(header, type, len) == 0 && strchr("; \t", header[len]) != NULL;
}

/* Returns the announced size of the body; 0: none, or it is chunked. */
static unsigned long long body_length(const struct headers *headers)
{
    return headers->content_length == NULL ? 0 : strtoull(headers->content_length, NULL, 10);
}

static void judge_body(struct connection *connection, const struct headers *headers)
{
    struct request *request = connection->request;
    const char *type = headers->content_type == NULL ? "" : headers->content_type;
    unsigned long long length = body_length(headers);
    if (length > connection->api->config->body_bytes_max)
        refuse(request, PROBLEM_BODY_TOO_LARGE);
    if ((length == 0 && headers->transfer_encoding == NULL) || request->route == NULL ||
        !request->route->is_lock_call)
        return;
    if (is_media_type(type, "application/x-www-form-urlencoded"))
        request->body_kind = BODY_FORM;
    else if (is_media_type(type, "application/json"))
        request->body_kind = BODY_JSON;
    else
        refuse_saying(
            request, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
            "Content-Type: %.100s; allowed: application/x-www-form-urlencoded (a body like ttl=5s),"
            " application/json (a body like {\"ttl\":\"5s\"})",
            text_fault(text_of(type)) == NULL && type[0] != '\0' ? type : "none");
}

#if MHD_VERSION < 0x01000000
/* Returns true if a NUL byte cut the method. Between it and the target there may only be a blank,
 * which libmicrohttpd replaces by a NUL byte, and more blanks. Later versions of libmicrohttpd
 * refuse the byte. */
static bool method_was_cut(const struct request *request, const char *method)
{
    const char *end = method + strlen(method);
    size_t gap = request->target_at - (uintptr_t)end;
    if (gap == 0 || gap >= POOL_BYTES)
        return true;
    for (size_t i = 1; i < gap; i++)
        if (end[i] != ' ')
            return true;
    return false;
}
#else
static bool method_was_cut(const struct request *request, const char *method)
{
    (void)request, (void)method;
    return false;
}
#endif

/* Returns true if the header of any answer fits into libmicrohttpd's memory beside the request's.
 * An answer without room would be lost, and the lock with it. */
static bool has_room_for_answer(const struct connection *connection, const struct headers *headers,
                                size_t size)
{
    size_t fields = 0;
    static const enum MHD_ValueKind kinds[] = {MHD_HEADER_KIND, MHD_COOKIE_KIND,
                                               MHD_GET_ARGUMENT_KIND};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        fields += (size_t)MHD_get_connection_values(connection->http, kinds[i], NULL, NULL);
    return size + fields * FIELD_BYTES + headers->cookie_bytes + ANSWER_HEADER_BYTES +
               3 * connection->request->key_len <=
           POOL_BYTES;
}

/* Finds the first fault in this order: the caller, the path, the method, the answer's medium, the
 * target, the body. */
static void judge_header(struct connection *connection, const struct headers *headers,
                         const char *version)
{
    struct request *request = connection->request;
    struct refusal of_target = request->refusal;
    request->refusal = (struct refusal){.problem = PROBLEM_NONE};
    bool is_open = request->route != NULL && request->route->is_open,
         is_lock_call = request->route != NULL && request->route->is_lock_call;
    request->media = is_lock_call ? accept_choose(&headers->accept) : MEDIA_JSON;
    size_t size = MHD_get_connection_info(connection->http, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
                      ->header_size;
    if (access_refuses(connection, headers, version, is_open, &request->refusal))
        return;
    if (size > HEADER_BYTES_MAX || !has_room_for_answer(connection, headers, size))
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

static const char *fault_of_framing(const struct connection *connection, const char *method,
                                    const char *version)
{
    const struct request *request = connection->request;
    if (request->target_fault != NULL)
        return request->target_fault;
    /* If a NUL byte cut the target for libmicrohttpd, the key would be shorter than the caller
     * named. Then the version is not right after the target. */
    uintptr_t skipped = (uintptr_t)version - request->behind_target;
    if ((skipped != 0 && skipped < POOL_BYTES) || method_was_cut(request, method))
        return "the request line is not well formed";
    return framing_fault(connection, method, version);
}

bool parse_header(struct connection *connection, const char *method, const char *version)
{
    struct request *request = connection->request;
    struct headers headers = {0};
    MHD_get_connection_values(connection->http, MHD_HEADER_KIND, take_header, &headers);
    request->method = method_find(method, &request->is_head);
    request->operation =
        request->route == NULL ? NULL : route_operation(request->route, request->method);
    headers_trace_id(&headers, request->trace_id);
    const char *fault = fault_of_framing(connection, method, version);
    if (fault == NULL && headers.transfer_encoding != NULL) {
        /* The chunked body follows the header. Its check begins here. */
        size_t size =
            MHD_get_connection_info(connection->http, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
                ->header_size;
        fault = intake_begin_chunks(connection, method + size)
                    ? intake_fault(connection)
                    : "a chunked request came together with the request before it";
    }
    if (fault != NULL) {
        refuse_framing(request, fault);
        return false;
    }
    unsigned long long length = body_length(&headers);
    size_t max = connection->api->config->body_bytes_max;
    request->body_size = length > 0 && length < max ? (size_t)length : max;
    judge_header(connection, &headers, version);
    if (headers.lock_token_doubled)
        refuse_saying(request, PROBLEM_BAD_REQUEST, "the Lock-Token header came twice");
    if (headers.idempotency_doubled)
        refuse_saying(request, PROBLEM_BAD_REQUEST, "the Idempotency-Key header came twice");
    request->lock_token = headers.lock_token;
    if (request->method == METHOD_POST || request->method == METHOD_DELETE)
        request->idempotency = headers.idempotency;
    return length <= max;
}

/* ---- the body -------------------------------------------------------------------------------- */

bool parse_piece(struct connection *connection, const char *bytes, size_t len)
{
    /* Chunks of one byte take six; their lines may be longer. */
    enum { AROUND = 8, AROUND_BYTES = 1024 };
    struct request *request = connection->request;
    request->body_came += len;
    if (request->body_came > request->body_size ||
        connection->chunks.came > AROUND * (uint64_t)request->body_size + AROUND_BYTES)
        return false;
    if (request->refusal.problem != PROBLEM_NONE || request->body_kind == BODY_NONE)
        return true;
    if (request->body == NULL)
        request->body = malloc(request->body_size);
    if (request->body == NULL) {
        refuse(request, PROBLEM_OUT_OF_MEMORY);
        return true;
    }
    memcpy(request->body + request->body_len, bytes, len);
    request->body_len += len;
    return true;
}

void parse_end(struct connection *connection)
{
    struct request *request = connection->request;
    const char *fault = intake_fault_at_end(connection, request->body_came);
    if (fault == NULL)
        return;
    request->closes = true;
    refuse_framing(request, fault);
}

/* ---- parameters, and checks of several together ---------------------------------------------- */

/* Checks the parameters of a stream. A bound hold is renewed by the agent, and a stream has one
 * medium. */
static void judge_stream(struct request *request)
{
    struct refusal *refusal = &request->refusal;
    if (refusal->problem != PROBLEM_NONE || !request_streams(request))
        return;
    if (request->media == MEDIA_TEXT)
        refuse_saying(request, PROBLEM_NOT_ACCEPTABLE,
                      "a stream comes as application/x-ndjson only");
    if (request->params.bound && request->params.renew == RENEW_CALLER) {
        refuse_saying(request, PROBLEM_BAD_REQUEST,
                      "parameter renew: caller came; allowed: agent, if bind is connection");
        snprintf(refusal->parameter, sizeof(refusal->parameter), "renew");
    }
}

/* Checks an Idempotency-Key (D3.5). A bound hold ends with its connection, so it cannot be
 * requested again. The holds of an owner cannot be told apart by it. */
static void judge_idempotency(struct request *request)
{
    struct refusal *refusal = &request->refusal;
    if (request->idempotency == NULL || refusal->problem != PROBLEM_NONE)
        return;
    const struct params *params = &request->params;
    struct text value = text_of(request->idempotency);
    const char *fault = !params_is_secret(value) ? "allowed: 16 to 64 visible ASCII characters"
                        : params->bound          ? "not allowed if bind is connection"
                        : params->owner_len > 0  ? "not allowed together with an owner"
                        : params->given & 1U << PARAM_TOKEN ? "give it or the token"
                                                            : NULL;
    if (fault == NULL)
        return;
    refuse_saying(request, PROBLEM_BAD_REQUEST, "the Idempotency-Key header: %s", fault);
    snprintf(refusal->parameter, sizeof(refusal->parameter), "Idempotency-Key");
}

static void judge_params(struct connection *connection)
{
    struct request *request = connection->request;
    struct refusal *refusal = &request->refusal;
    unsigned allowed = request->operation->params;
    /* Only the watch of a hold needs the token. */
    if (request->method == METHOD_GET && (!request->params.watch || request->params.follow))
        allowed &= ~(1U << PARAM_TOKEN);
    if (allowed & 1U << PARAM_TOKEN && request->lock_token != NULL &&
        !params_take_token_header(&request->params, request->lock_token)) {
        refuse_saying(request, PROBLEM_BAD_REQUEST,
                      "the Lock-Token header and the parameter token differ");
        snprintf(refusal->parameter, sizeof(refusal->parameter), "token");
        return;
    }
    if (!params_are_fine(&request->params, connection->api->config, allowed, refusal->parameter,
                         refusal->detail, sizeof(refusal->detail))) {
        refusal->problem = PROBLEM_BAD_REQUEST;
        return;
    }
    refusal->parameter[0] = '\0';
    bool needs_token = allowed & 1U << PARAM_TOKEN && request->operation->method != METHOD_GET;
    if (needs_token && (request->params.given & 1U << PARAM_TOKEN) == 0 &&
        request->idempotency == NULL)
        refuse_saying(request, PROBLEM_TOKEN_REQUIRED,
                      "give it as the Lock-Token header or as the parameter token");
    judge_stream(request);
    judge_idempotency(request);
}

/* Returns true if the body of a form is JSON most likely, as `curl -d '{...}'` sends it. No
 * parameter begins with a brace. */
static bool form_is_json(struct text body)
{
    size_t blanks = 0;
    while (blanks < body.len && strchr(" \t\r\n", body.at[blanks]) != NULL)
        blanks++;
    return blanks < body.len && body.at[blanks] == '{';
}

void parse_whole(struct connection *connection)
{
    struct request *request = connection->request;
    if (request->refusal.problem != PROBLEM_NONE || !request->route->is_lock_call)
        return;
    const struct config *config = connection->api->config;
    struct text body = {request->body, request->body_len};
    char error[256];
    const char *fault = NULL;
    if (body.len > 0 && request->body_kind == BODY_FORM && form_is_json(body))
        fault = "the body begins with a brace as JSON does, and came as a form; allowed: JSON with "
                "the header Content-Type: application/json, or a form like ttl=5s";
    else if (body.len > 0 && request->body_kind == BODY_FORM)
        params_take_form(&request->params, config, body);
    if (body.len > 0 && request->body_kind == BODY_JSON)
        fault = params_take_json(&request->params, config, body, error, sizeof(error));
    if (fault != NULL)
        refuse_saying(request, PROBLEM_BAD_REQUEST, "%s", fault);
    if (request->refusal.problem == PROBLEM_NONE)
        judge_params(connection);
}
