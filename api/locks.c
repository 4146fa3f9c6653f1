/* The lock calls, from parameters to an event of the core, and the list of this agent's locks. */
#include "api/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"

/* ---- streams for any caller ---- */

/* GET ?watch: a stream of the events of a hold, for any caller. */

/* Finds the hold to watch among those of this agent: by its token, or the only one of the key.
 * Returns the number of candidates; 2 if there are more. A semaphore (R20) or readers (R17) may
 * have several. */
static unsigned find_hold(const struct api *api, const struct request *request, struct instant now,
                          struct hold_view *ret_hold, struct lock_ref *ret_lock)
{
    const struct params *params = &request->params;
    bool names_token = (params->given & 1U << PARAM_TOKEN) != 0;
    struct text key = {request->key, request->key_len};
    struct hold_view hold;
    struct lock_ref lock;
    uint32_t cursor = 0;
    unsigned found = 0;
    if (names_token)
        return core_find_hold(api->backend.core, key, &params->token, now, ret_hold, ret_lock);
    while (found < 2 && core_next_hold_of(api->backend.core, key, now, &cursor, &hold, &lock)) {
        found++;
        *ret_hold = hold;
        *ret_lock = lock;
    }
    return found;
}

/* Refuses to watch a hold that this agent does not have. It does not ask the masters, so another
 * agent may have it. */
static enum MHD_Result refuse_unheld(struct connection *connection)
{
    return response_problem(connection,
                            &(struct problem_report){
                                .code = answer_code(ANSWER_NOT_HELD),
                                .title = answer_text(ANSWER_NOT_HELD),
                                .status = answer_status(ANSWER_NOT_HELD),
                                .detail = "this agent does not hold the lock; a caller of another "
                                          "agent may: follow the key with watch=key",
                                .retry_after_ms = -1,
                            });
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
    if (found > 1) {
        struct refusal *refusal = &connection->request->refusal;
        refusal->problem = PROBLEM_TOKEN_REQUIRED;
        snprintf(refusal->detail, sizeof(refusal->detail),
                 "several callers of this agent hold the key: give the token of the hold to be "
                 "watched, as the Lock-Token header or as the parameter token");
        return response_refusal(connection, refusal);
    }
    json_t *view = found == 1 ? view_hold(api, &hold, now) : NULL;
    if (view == NULL)
        return refuse_unheld(connection);
    if (!connection_park(connection, /* lasts= */ true)) {
        json_decref(view);
        return answer_here(connection, ANSWER_TOO_MANY_WAITERS);
    }
    terms.valid_until = hold.valid_until;
    json_t *snapshot =
        json_pack("{s:s, s:s%}", "event", "held", "key", request->key, request->key_len);
    if (snapshot != NULL)
        json_object_update_new(snapshot, view);
    char *text = view_line(snapshot);
    struct buffer line = {.bytes = text, .len = text == NULL ? 0 : strlen(text)};
    line.failed = text == NULL;
    return response_stream(connection, 200, stream_open(connection, line, &terms));
}

/* ---- the lock calls ---- */

static struct text key_of(const struct request *request)
{
    return (struct text){request->key, request->key_len};
}

static struct text idempotency_of(const struct request *request)
{
    return request->idempotency == NULL ? (struct text){NULL, 0} : text_of(request->idempotency);
}

static enum MHD_Result refuse_parameter(struct connection *connection, const char *name,
                                        const char *why)
{
    struct refusal *refusal = &connection->request->refusal;
    refusal->problem = PROBLEM_BAD_REQUEST;
    snprintf(refusal->parameter, sizeof(refusal->parameter), "%s", name);
    snprintf(refusal->detail, sizeof(refusal->detail), "%s", why);
    return response_refusal(connection, refusal);
}

static const struct config_policy *policy_of(const struct api *api, const struct request *request)
{
    return &api->config->policies[core_policy_of(api->backend.core, key_of(request))];
}

/* Refuses a max_hold above that of the key's policy. The core would reduce it, and the caller would
 * lose its lock before it expects to. */
static enum MHD_Result refuse_max_hold(struct connection *connection, int64_t allowed_ms)
{
    const struct params *params = &connection->request->params;
    char came[32], allowed[32], detail[160];
    config_print_duration(params->max_hold_ms, came, sizeof(came));
    config_print_duration(allowed_ms, allowed, sizeof(allowed));
    snprintf(detail, sizeof(detail),
             "parameter max_hold: %s came; allowed: above 0, up to %s, which is %s of the key's "
             "policy",
             came, allowed, params->bound ? "max_hold_bound" : "max_hold");
    return refuse_parameter(connection, "max_hold", detail);
}

enum MHD_Result locks_acquire(struct connection *connection)
{
    const struct api *api = connection->api;
    const struct request *request = connection->request;
    const struct params *params = &request->params;
    const struct config_policy *policy = policy_of(api, request);
    /* It may have been queued (strangers.c). If the wait is over, 1 ms is left of it. */
    int64_t queued_ms =
                instant_us_between(request->came_at, api->backend.now(api->backend.arg)) / 1000,
            late_ms = params->wait_ms == 0              ? 0
                      : queued_ms < params->wait_ms - 1 ? queued_ms
                                                        : params->wait_ms - 1;
    struct event event = {.kind = EVENT_ACQUIRE,
                          .acquire = {.key = key_of(request),
                                      .ttl_ms = params->ttl_ms,
                                      .wait_ms = params->wait_ms - late_ms,
                                      .late_ms = late_ms,
                                      .max_hold_ms = params->max_hold_ms,
                                      .mode = params->mode,
                                      .renew = params->renew,
                                      .bound = params->bound,
                                      .label = {params->label, params->label_len},
                                      .idempotency = idempotency_of(request),
                                      .owner = {params->owner, params->owner_len}}};
    /* Without reentrancy (R11) the second acquire of an owner would wait for its first one. */
    if (params->owner_len > 0 && !policy->core.reentrant)
        return refuse_parameter(connection, "owner",
                                "parameter owner: not allowed, because the key's policy is not "
                                "reentrant");
    if (params->mode == MODE_READ && policy->core.form != FORM_SHARED)
        return refuse_parameter(connection, "mode",
                                "parameter mode: read came; allowed: write, because the key's "
                                "policy is not of kind rw");
    int64_t max_hold_ms = params->bound ? policy->core.bound_max_hold_ms : policy->core.max_hold_ms;
    if (params->max_hold_ms > max_hold_ms)
        return refuse_max_hold(connection, max_hold_ms);
    return exchange_submit(connection, &event);
}

enum MHD_Result locks_renew(struct connection *connection)
{
    const struct request *request = connection->request;
    const struct params *params = &request->params;
    struct event event = {.kind = EVENT_RENEW,
                          .renew = {.key = key_of(request),
                                    .token = params->token,
                                    .ttl_ms = params->ttl_ms,
                                    .renew = params->renew,
                                    .label = {params->label, params->label_len}}};
    /* A label is changed, and not taken away (D3.9). */
    if ((params->given & 1U << PARAM_LABEL) != 0 && params->label_len == 0)
        return refuse_parameter(connection, "label",
                                "parameter label: nothing came; allowed in PUT: 1 to 64 bytes of "
                                "UTF-8 without control characters");
    return exchange_submit(connection, &event);
}

enum MHD_Result locks_release(struct connection *connection)
{
    const struct request *request = connection->request;
    struct event event = {.kind = EVENT_RELEASE,
                          .release = {.key = key_of(request),
                                      .token = request->params.token,
                                      .idempotency = idempotency_of(request)}};
    return exchange_submit(connection, &event);
}

enum MHD_Result locks_read(struct connection *connection)
{
    if (connection->request->params.follow)
        return follow_begin(connection);
    if (connection->request->params.watch)
        return watch_begin(connection);
    struct event event = {.kind = EVENT_READ, .read = {.key = key_of(connection->request)}};
    return exchange_submit(connection, &event);
}

/* ---- the list: holds first, then the callers that wait ---- */

struct page {
    struct instant now;
    struct list_cursor cursor;
    uint32_t left;
    bool more;
    json_t *held, *waiting;
};

static json_t *key_json(struct text key)
{
    return json_stringn(key.at, key.len);
}

static void list_holds(const struct api *api, struct page *page)
{
    const struct core *core = api->backend.core;
    struct hold_view hold;
    uint32_t next = page->cursor.at;
    while (core_next_hold(core, page->now, &next, &hold)) {
        if (page->left == 0) {
            page->more = true;
            return;
        }
        json_t *view = view_hold(api, &hold, page->now);
        if (view != NULL) {
            json_t *entry = json_pack("{s:o}", "key", key_json(hold.key));
            json_object_update_new(entry, view);
            json_array_append_new(page->held, entry);
            page->left--;
        }
        page->cursor.at = next;
    }
    page->cursor = (struct list_cursor){.waits = true};
}

static void list_waits(const struct api *api, struct page *page)
{
    const struct core *core = api->backend.core;
    struct wait_view wait;
    uint32_t next = page->cursor.at;
    while (core_next_wait(core, &next, &wait)) {
        if (page->left == 0) {
            page->more = true;
            return;
        }
        int64_t waited_ms = instant_us_between(wait.since, page->now) / 1000;
        json_t *entry = json_pack("{s:o, s:o, s:I}", "key", key_json(wait.key), "label",
                                  view_label(wait.label), "waited_ms", (json_int_t)waited_ms);
        if (view_is_shared(api, core_policy_of(core, wait.key)))
            json_object_set_new(entry, "mode", json_string(mode_name(wait.mode)));
        json_array_append_new(page->waiting, entry);
        page->left--;
        page->cursor.at = next;
    }
}

static void list_as_text(const struct page *page, struct buffer *lines)
{
    size_t i;
    json_t *entry;
    buffer_add_text(lines, "");
    json_array_foreach(page->held, i, entry)
        buffer_printf(lines, "held %s\n", json_string_value(json_object_get(entry, "key")));
    json_array_foreach(page->waiting, i, entry)
        buffer_printf(lines, "waiting %s\n", json_string_value(json_object_get(entry, "key")));
}

static void list_as_json(const struct page *page, struct buffer *bytes)
{
    char cursor[16];
    snprintf(cursor, sizeof(cursor), "%c%u", page->cursor.waits ? 'w' : 'h', page->cursor.at);
    json_t *json = json_pack("{s:O, s:O, s:o}", "held", page->held, "waiting", page->waiting,
                             "next_cursor", page->more ? json_string(cursor) : json_null());
    char *text = view_line(json);
    if (text == NULL)
        bytes->failed = true;
    else
        *bytes = (struct buffer){.bytes = text, .len = strlen(text)};
}

static uint32_t limit_of(const struct params *params)
{
    return params->limit == 0 ? LIST_LIMIT_DEFAULT : params->limit;
}

static struct MHD_Response *render_list(struct connection *connection)
{
    struct api *api = connection->api;
    const struct params *params = &connection->request->params;
    bool is_text = connection->request->media == MEDIA_TEXT;
    struct buffer bytes = {0};
    struct page page = {.now = api->backend.now(api->backend.arg),
                        .cursor = params->cursor,
                        .left = limit_of(params),
                        .held = json_array(),
                        .waiting = json_array()};
    if (!page.cursor.waits)
        list_holds(api, &page);
    if (!page.more)
        list_waits(api, &page);
    if (is_text)
        list_as_text(&page, &bytes);
    else
        list_as_json(&page, &bytes);
    json_decref(page.held);
    json_decref(page.waiting);
    return rendering_response(api, &bytes,
                              is_text ? "text/plain; charset=utf-8" : "application/json");
}

enum MHD_Result locks_list(struct connection *connection)
{
    const struct params *params = &connection->request->params;
    char what[RENDERING_NAME];
    snprintf(what, sizeof(what), "list %d %u %c%u", connection->request->media == MEDIA_TEXT,
             limit_of(params), params->cursor.waits ? 'w' : 'h', params->cursor.at);
    return rendering_answer(connection, what, /* may_be_old= */ false, render_list);
}
