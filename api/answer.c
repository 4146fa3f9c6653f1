/* Writes answers of the core for callers. */
#include "api/internal.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "api/params.h"

/* ---- answers ---- */

/* For each answer: its status, and the members of its problem beside code and title. */
enum { NODES = 1, RETRY = 2, HOLDER = 4, VALID_FOR = 8, REASON = 16, LIMITS = 32, GUARD = 64 };

static const struct {
    uint16_t status;
    uint16_t says;
} table[ANSWER_COUNT] = {
    [ANSWER_GRANTED] = {201, 0},
    [ANSWER_REENTERED] = {200, 0},
    [ANSWER_REPEATED] = {200, 0},
    [ANSWER_SUPERSEDED] = {409, 0},
    [ANSWER_IDEMPOTENCY_MISMATCH] = {409, 0},
    [ANSWER_RENEWED] = {200, 0},
    [ANSWER_RELEASED] = {204, 0},
    [ANSWER_RELEASE_PENDING] = {202, NODES},
    [ANSWER_STATE] = {200, NODES},
    [ANSWER_LOCK_HELD] = {409, RETRY | HOLDER},
    [ANSWER_WAIT_TIMEOUT] = {409, RETRY | HOLDER},
    [ANSWER_QUORUM_UNAVAILABLE] = {503, NODES | RETRY | GUARD},
    [ANSWER_VALIDITY_EXPIRED] = {503, NODES},
    [ANSWER_RENEW_FAILED] = {503, NODES | VALID_FOR},
    [ANSWER_LOCK_LOST] = {410, REASON},
    [ANSWER_TOKEN_MISMATCH] = {412, 0},
    [ANSWER_NOT_HELD] = {404, 0},
    [ANSWER_BAD_TTL] = {400, LIMITS},
    [ANSWER_TOO_MANY_LOCKS] = {429, RETRY},
    [ANSWER_TOO_MANY_WAITERS] = {429, RETRY},
    [ANSWER_OVERLOADED] = {503, RETRY},
    [ANSWER_UPGRADE_REFUSED] = {409, 0},
    [ANSWER_DRAINING] = {503, RETRY},
};

unsigned answer_status(enum answer answer)
{
    return table[answer].status;
}

/* ---- giving back ---- */

static bool hands_out(enum answer answer)
{
    return answer == ANSWER_GRANTED || answer == ANSWER_REENTERED || answer == ANSWER_REPEATED;
}

bool answer_takes_turn(const struct connection *connection)
{
    const struct request *request = connection->request;
    return request->method == METHOD_GET ||
           (request->method == METHOD_POST && !hands_out(request->kept.answer.answer));
}

/* Gives back the lock of an answer whose caller is gone. */
static void answer_give_back(struct api *api, const struct effect_answer *answer)
{
    struct event event = {.kind = EVENT_UNDELIVERED, .undelivered.lock = answer->lock};
    if (hands_out(answer->answer))
        api->backend.submit(api->backend.arg, &event);
}

static bool waits(const struct request *request)
{
    return request->method == METHOD_POST && request->params.wait_ms > 0;
}

/* Returns true if the request ends with its caller (exchange_caller_gone()), and the caller has
 * closed its sending side. Asks the kernel too, because the loop may not have looked since. */
static bool waiter_has_left(const struct connection *connection)
{
    struct pollfd end = {.fd = connection->fd, .events = POLLRDHUP};
    if (!waits(connection->request) && !request_streams(connection->request))
        return false;
    return connection->peer_closed || poll(&end, 1, 0) > 0;
}

/* ---- granted, renewed ---- */

/* Begins the stream of a bound hold with its grant. */
static struct MHD_Response *bound_response(struct connection *connection, const char *body,
                                           size_t len)
{
    struct request *request = connection->request;
    struct buffer line = {0};
    CORE_ASSERT(len > 0 && body[0] == '{');
    buffer_add_text(&line, "{\"event\":\"granted\",");
    buffer_add(&line, body + 1, len - 1);
    return stream_open(connection, line,
                       &(struct stream_terms){.lock = request->lock,
                                              .valid_until = request->kept.answer.hold.valid_until,
                                              .bound = true});
}

static struct MHD_Response *hold_response(struct connection *connection, const char *token,
                                          const char *fence, int64_t valid_ms)
{
    const struct request *request = connection->request;
    char body[2 * LIMIT_KEY_BYTES + 640];
    if (request->media == MEDIA_TEXT) {
        int len = snprintf(body, sizeof(body), "%s\n", token);
        return response_copied(body, (size_t)len, "text/plain; charset=utf-8");
    }
    size_t len = view_granted(connection->api, request, token, fence, valid_ms, body, sizeof(body));
    return request->params.bound ? bound_response(connection, body, len)
                                 : response_copied(body, len, "application/json");
}

static bool add_location(struct MHD_Response *response, const struct request *request)
{
    char location[sizeof("/locks/") + 3 * LIMIT_KEY_BYTES] = "/locks/";
    const size_t prefix = strlen(location);
    percent_encode((struct text){request->key, request->key_len}, location + prefix,
                   sizeof(location) - prefix);
    return MHD_add_response_header(response, MHD_HTTP_HEADER_LOCATION, location) == MHD_YES;
}

static enum MHD_Result write_hold(struct connection *connection, int64_t valid_ms)
{
    struct request *request = connection->request;
    const struct hold_view *hold = &request->kept.answer.hold;
    bool granted = request->kept.answer.answer == ANSWER_GRANTED,
         renewed = request->kept.answer.answer == ANSWER_RENEWED;
    unsigned status = answer_status(request->kept.answer.answer);
    char token[TOKEN_CHARS_MAX + 1], fence[24] = "", valid[24];
    token_print(&hold->token, token);
    snprintf(valid, sizeof(valid), "%" PRId64, valid_ms);
    if (hold->token.fence != 0)
        snprintf(fence, sizeof(fence), "%" PRIu64, hold->token.fence);
    request->grants = !renewed && !request->params.bound;
    request->lock = request->kept.answer.lock;
    struct MHD_Response *response = hold_response(connection, token, fence, valid_ms);
    bool complete =
        response != NULL && MHD_add_response_header(response, "Lock-Token", token) == MHD_YES &&
        MHD_add_response_header(response, "Valid-For-Ms", valid) == MHD_YES &&
        MHD_add_response_header(response, "Renewed-By", renew_name(hold->renew)) == MHD_YES &&
        (fence[0] == '\0' ||
         MHD_add_response_header(response, "Fencing-Token", fence) == MHD_YES) &&
        (!granted || add_location(response, request));
    if (complete && request->params.bound)
        return response_stream(connection, status, response);
    if (complete)
        return response_queue(connection, status, response);
    if (response == NULL && request->params.bound)
        answer_give_back(connection->api, &request->kept.answer);
    if (response != NULL)
        MHD_destroy_response(response);
    return MHD_NO;
}

/* ---- replies of the masters ---- */

static unsigned permits_of(const struct connection *connection)
{
    return connection->api->config->policies[connection->request->kept.answer.policy].core.permits;
}

static json_t *masters_json(const struct connection *connection)
{
    const struct effect_answer *answer = &connection->request->kept.answer;
    const struct config_group *group = &connection->api->config->groups[answer->group];
    json_t *list = json_array();
    for (size_t m = 0; m < answer->tally.total && answer->masters != NULL; m++) {
        const struct master_state *state = &answer->masters[m];
        const char *says = state->vote == VOTE_YES      ? "held"
                           : state->vote == VOTE_ABSENT ? "free"
                                                        : vote_name(state->vote);
        bool has_ttl = (state->vote == VOTE_YES || state->vote == VOTE_FOREIGN) &&
                       state->occupant.left_ms >= 0;
        json_t *entry = json_pack("{s:s, s:s, s:o}", "master", group->masters[m].url, "state", says,
                                  "remaining_ttl_ms",
                                  has_ttl ? json_integer(state->occupant.left_ms) : json_null());
        if (permits_of(connection) > 1) { /* Null if it did not report its slots (R20). */
            bool reports = state->vote == VOTE_YES || state->vote == VOTE_FOREIGN ||
                           state->vote == VOTE_ABSENT;
            json_object_set_new(entry, "taken",
                                reports ? json_integer(__builtin_popcountll(state->occupant.taken))
                                        : json_null());
        }
        json_array_append_new(list, entry);
    }
    return list;
}

/* Returns how long the last master keeps a held key if it is not renewed. */
static json_t *remaining_json(const struct effect_answer *answer)
{
    int64_t longest = -1;
    for (size_t m = 0; m < answer->tally.total && answer->masters != NULL; m++)
        if (answer->masters[m].vote == VOTE_YES && answer->masters[m].occupant.left_ms > longest)
            longest = answer->masters[m].occupant.left_ms;
    return answer->state == KEY_HELD && longest >= 0 ? json_integer(longest) : json_null();
}

/* Adds the mode of the holders, and the number of readers (R17). */
static void add_mode(json_t *object, const struct effect_answer *answer, bool is_held)
{
    json_object_set_new(object, "mode",
                        is_held ? json_string(mode_name(answer->occupant.mode)) : json_null());
    json_object_set_new(object, "readers", json_integer(answer->occupant.readers));
}

/* Returns this agent's holds of the key, without those that the masters have just denied, at most
 * HOLDS_SHOWN: there may be thousands of readers (D9). */
static json_t *holds_json(const struct api *api, const struct request *request, bool is_shared,
                          struct instant now)
{
    struct text key = {request->key, request->key_len};
    struct hold_view hold;
    struct lock_ref lock;
    uint32_t cursor = 0;
    json_t *list = json_array();
    while (json_array_size(list) < HOLDS_SHOWN &&
           core_next_hold_of(api->backend.core, key, now, &cursor, &hold, &lock)) {
        unsigned at = is_shared ? (unsigned)hold.mode : hold.token.slot;
        bool is_older = instant_before(hold.acquired_at, request->came_at),
             is_denied = is_older && (request->kept.answer.denied >> at & 1) != 0;
        json_t *view = is_denied ? NULL : view_hold(api, &hold, now);
        if (view != NULL)
            json_array_append_new(list, view);
    }
    return list;
}

static enum MHD_Result write_state(struct connection *connection)
{
    struct api *api = connection->api;
    struct request *request = connection->request;
    const struct effect_answer *answer = &request->kept.answer;
    const char *state = answer->state == KEY_HELD   ? "held"
                        : answer->state == KEY_FREE ? "free"
                                                    : "unknown";
    if (request->media == MEDIA_TEXT) {
        char line[16];
        snprintf(line, sizeof(line), "%s\n", state);
        return response_text(connection, 200, line);
    }
    json_t *body =
        json_pack("{s:s%, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "key", request->key,
                  request->key_len, "state", state, "holder", view_label(answer->occupant.label),
                  "agent", view_agent(answer->occupant.agent), "fencing_token",
                  view_fence(answer->occupant.fence), "remaining_ttl_ms", remaining_json(answer),
                  "nodes", view_nodes(&answer->tally), "masters", masters_json(connection));
    struct instant now = api->backend.now(api->backend.arg);
    bool is_shared = view_is_shared(api, answer->policy), has_slots = permits_of(connection) > 1;
    json_t *hold = answer->local && !has_slots ? view_hold(api, &answer->hold, now) : NULL;
    if (body != NULL && hold != NULL)
        json_object_set_new(body, "hold", hold);
    if (body != NULL && is_shared)
        add_mode(body, answer, answer->state == KEY_HELD);
    if (body != NULL && has_slots) {
        json_object_set_new(body, "permits", json_integer(permits_of(connection)));
        json_object_set_new(body, "taken",
                            json_integer(__builtin_popcountll(answer->occupant.taken))); /* R20 */
    }
    if (body != NULL && (is_shared || has_slots))
        json_object_set_new(body, "holds", holds_json(api, request, is_shared, now));
    return response_json(connection, 200, body);
}

/* ---- refusals ---- */

/* Returns the masters that have no vote, why, and for how long (D5.3, D5.4). */
static json_t *guarded_json(const struct connection *connection)
{
    const struct effect_answer *answer = &connection->request->kept.answer;
    const struct config_group *group = &connection->api->config->groups[answer->group];
    json_t *list = json_array();
    for (size_t m = 0; m < group->master_count; m++) {
        if ((answer->guarded >> m & 1) == 0)
            continue;
        uint32_t ms = answer->guarded_ms[m];
        struct redis_master_view view =
            redis_master(connection->api->backend.redis, answer->group, (uint8_t)m);
        json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "master", group->masters[m].url,
                                              "guarded_ms",
                                              ms == UINT32_MAX ? json_null() : json_integer(ms),
                                              "reason", view.reason));
    }
    return list;
}

/* Returns the time after which a refused caller may ask again; -1: not known. It is never 0: such a
 * caller would ask without a pause. */
static int64_t retry_after_ms(const struct effect_answer *answer)
{
    return answer->occupant.left_ms == 0 ? 1000 : answer->occupant.left_ms;
}

static json_t *members_json(const struct connection *connection, unsigned says, int64_t valid_ms)
{
    const struct effect_answer *answer = &connection->request->kept.answer;
    json_t *members = json_object();
    if (says & GUARD && answer->guarded != 0)
        json_object_set_new(members, "guarded", guarded_json(connection));
    if (says & NODES)
        json_object_set_new(members, "nodes", view_nodes(&answer->tally));
    if (says & HOLDER)
        json_object_set_new(members, "holder", view_label(answer->occupant.label));
    if (says & HOLDER && view_is_shared(connection->api, answer->policy))
        add_mode(members, answer, /* is_held= */ true);
    if (says & RETRY && answer->occupant.left_ms >= 0)
        json_object_set_new(members, "retry_after_ms", json_integer(retry_after_ms(answer)));
    if (says & VALID_FOR)
        json_object_set_new(members, "valid_for_ms", json_integer(valid_ms));
    if (says & REASON)
        json_object_set_new(members, "reason", json_string(reason_name(answer->reason)));
    if (says & LIMITS) {
        json_object_set_new(members, "parameter", json_string("ttl"));
        json_object_set_new(members, "ttl_ms_min", json_integer(answer->ttl_ms_min));
        json_object_set_new(members, "ttl_ms_max", json_integer(answer->ttl_ms_max));
    }
    return members;
}

static void say_guard(struct connection *connection, char *detail, size_t size)
{
    const struct effect_answer *answer = &connection->request->kept.answer;
    struct redis_group_view view =
        redis_group(connection->api->backend.redis, (uint8_t)answer->group);
    if (view.is_new)
        redis_say_new(&view, detail, size);
    else {
        char when[64];
        redis_say_votes_in(&view, when, sizeof(when));
        snprintf(detail, size, "%u of %u masters %s; %u votes are needed%s", answer->tally.guarded,
                 answer->tally.total,
                 view.unfit > 0
                     ? "may evict keys, or may have forgotten some, and have no vote on new locks"
                     : "may have forgotten keys and have no vote on new locks yet",
                 answer->tally.quorum, when);
    }
}

/* Refuses a new lock because of the layout of other agents (R23). */
static enum MHD_Result write_layout_mismatch(struct connection *connection,
                                             const struct redis_group_view *view)
{
    char detail[REDIS_LACKS_BYTES];
    struct problem_report report = problem_report(PROBLEM_LAYOUT_MISMATCH);
    redis_say_layouts(view, detail, sizeof(detail));
    report.detail = detail;
    report.retry_after_ms = view->refused_ms;
    report.members = json_pack("{s:I, s:s, s:s, s:I}", "masters", (json_int_t)view->disagreeing,
                               "ours", view->ours, "theirs", view->theirs, "retry_after_ms",
                               (json_int_t)view->refused_ms);
    return response_problem(connection, &report);
}

static enum MHD_Result write_refusal(struct connection *connection, int64_t valid_ms)
{
    const struct effect_answer *answer = &connection->request->kept.answer;
    unsigned says = table[answer->answer].says;
    if (says & GUARD && connection->request->method == METHOD_POST) {
        struct redis_group_view view =
            redis_group(connection->api->backend.redis, (uint8_t)answer->group);
        if (view.gate == GUARD_REFUSED_BY_LAYOUT)
            return write_layout_mismatch(connection, &view);
    }
    char detail[REDIS_LACKS_BYTES];
    struct problem_report report = {.code = answer_code(answer->answer),
                                    .title = answer_text(answer->answer),
                                    .status = table[answer->answer].status,
                                    .retry_after_ms = -1};
    if (says & RETRY)
        report.retry_after_ms = answer->occupant.left_ms > 0 ? answer->occupant.left_ms : 1000;
    if (says & GUARD && answer->guarded != 0) {
        say_guard(connection, detail, sizeof(detail));
        report.detail = detail;
    } else if (says & GUARD && connection->request->method == METHOD_POST) {
        redis_group_lacks(connection->api->backend.redis, (uint8_t)answer->group, detail,
                          sizeof(detail));
        report.detail = detail[0] == '\0' ? NULL : detail;
    }
    if (says & LIMITS) {
        char came[32] = "the policy's ttl", min[32], max[32];
        if (connection->request->params.ttl_ms != 0)
            config_print_duration(connection->request->params.ttl_came_ms, came, sizeof(came));
        snprintf(detail, sizeof(detail), "parameter ttl: %s came; allowed: %s to %s", came,
                 config_print_duration(answer->ttl_ms_min, min, sizeof(min)),
                 config_print_duration(answer->ttl_ms_max, max, sizeof(max)));
        report.detail = detail;
    }
    report.members = members_json(connection, says, valid_ms);
    /* Connections are scarce then. */
    connection->request->closes |= answer->answer == ANSWER_TOO_MANY_WAITERS;
    return response_problem(connection, &report);
}

/* ---- all of them ---- */

/* Returns true if the hold of a new stream has ended. The stream would never report that, because
 * it reports only what happens after its beginning. */
static bool stream_is_too_late(const struct connection *connection)
{
    const struct api *api = connection->api;
    const struct request *request = connection->request;
    if (!request->params.bound || !hands_out(request->kept.answer.answer))
        return false;
    return api->stopping || !core_has_hold(api->backend.core, request->kept.answer.lock,
                                           api->backend.now(api->backend.arg));
}

/* Checks the clock right before a promise is made. A grant without validity is given back, and a
 * renewed lease without validity is lost (R4, R14). */
static void mind_the_clock(struct connection *connection, int64_t valid_ms)
{
    struct api *api = connection->api;
    struct effect_answer *answer = &connection->request->kept.answer;
    if (valid_ms > 0 && !stream_is_too_late(connection))
        return;
    if (hands_out(answer->answer)) {
        answer_give_back(api, answer);
        answer->answer = valid_ms > 0 && api->stopping ? ANSWER_DRAINING : ANSWER_VALIDITY_EXPIRED;
    } else if (answer->answer == ANSWER_RENEWED || answer->answer == ANSWER_RENEW_FAILED) {
        answer->answer = ANSWER_LOCK_LOST;
        answer->reason = REASON_STALLED;
    }
}

/* Counts the last answer to a POST. An answer to a caller that has the lock already grants none. */
static void count_answer(struct api *api, const struct effect_answer *answer)
{
    metrics_answered(api->backend.metrics, answer);
    if (answer->answer == ANSWER_GRANTED)
        recent_count(&api->recent, RECENT_GRANTED, uv_now(api->loop));
    else if (!hands_out(answer->answer) && answer->answer != ANSWER_BAD_TTL)
        recent_count(&api->recent, RECENT_REFUSED, uv_now(api->loop));
}

enum MHD_Result answer_write(struct connection *connection)
{
    struct api *api = connection->api;
    struct effect_answer *answer = &connection->request->kept.answer;
    int64_t valid_ms = view_valid_for_ms(&answer->hold, api->backend.now(api->backend.arg));
    if (hands_out(answer->answer) && waiter_has_left(connection)) {
        answer_give_back(api, answer);
        return MHD_NO;
    }
    mind_the_clock(connection, valid_ms);
    if (connection->request->method == METHOD_POST)
        count_answer(api, answer);
    switch (answer->answer) {
    case ANSWER_GRANTED:
    case ANSWER_REENTERED:
    case ANSWER_REPEATED:
    case ANSWER_RENEWED:
        return write_hold(connection, valid_ms);
    case ANSWER_RELEASED:
        return response_shared(connection, 204, api->no_content);
    case ANSWER_RELEASE_PENDING:
        if (connection->request->media == MEDIA_TEXT)
            return response_text(connection, 202, "release_pending\n");
        return response_json(connection, 202,
                             json_pack("{s:s, s:s, s:o}", "code", answer_code(answer->answer),
                                       "detail", answer_text(answer->answer), "nodes",
                                       view_nodes(&answer->tally)));
    case ANSWER_STATE:
        return write_state(connection);
    default:
        return write_refusal(connection, valid_ms);
    }
}

/* Keeps an answer that the core did not give, but is counted like the core's. */
static void keep_answer(struct connection *connection, enum answer answer)
{
    struct request *request = connection->request;
    uint16_t policy = core_policy_of(connection->api->backend.core,
                                     (struct text){request->key, request->key_len});
    request->kept.answer =
        (struct effect_answer){.answer = answer, .policy = policy, .occupant.left_ms = 1000};
}

enum MHD_Result answer_here(struct connection *connection, enum answer answer)
{
    keep_answer(connection, answer);
    return answer_write(connection);
}

/* ---- the exchange with the core ---- */

/* Exchanges requests and answers with the core: a request goes in as an event, and its answer comes
 * back. */

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

uint32_t exchange_take_number(struct api *api)
{
    CORE_ASSERT(api->free_count > 0);
    return api->free_numbers[--api->free_count];
}

void exchange_give_number_back(struct api *api, uint32_t number)
{
    api->by_number[number] = NULL;
    api->free_numbers[api->free_count++] = number;
}

size_t api_unanswered(const struct api *api)
{
    return api->numbers - api->free_count;
}

/* ---- in -------------------------------------------------------------------------------------- */

enum MHD_Result exchange_submit(struct connection *connection, struct event *event)
{
    struct api *api = connection->api;
    struct request *request = connection->request;
    if (api->stopping)
        return answer_here(connection, ANSWER_DRAINING);
    bool lasts = waits(request) || request_streams(request);
    bool is_gone = connection->peer_dead && event->kind != EVENT_RELEASE;
    if (is_gone || (connection->peer_closed && lasts))
        return MHD_NO; /* No caller is left to hold the lock. */
    /* The token of a PUT or DELETE may be that of a hold: a connection is kept free for it (D9). */
    bool parks = lasts || event->kind == EVENT_ACQUIRE || event->kind == EVENT_READ;
    if (api->free_count == 0 || (parks && !connection_park(connection, lasts)))
        return answer_here(connection, ANSWER_TOO_MANY_WAITERS);
    request->queued_us = instant_us_between(request->came_at, api->backend.now(api->backend.arg));
    request->number = exchange_take_number(api);
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

static void keep_text(struct text *text, char *copy, size_t size)
{
    CORE_ASSERT(text->len <= size);
    if (text->len > 0)
        memcpy(copy, text->at, text->len);
    text->at = copy;
}

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
        /* The answer was decided in or before the step that cancels the request. exchange_cancel()
         * frees its number. */
        answer_give_back(api, answer);
        return;
    }
    CORE_ASSERT(connection->phase == PHASE_WORKING);
    /* Keep the answer until it is written. */
    struct kept_answer *kept = &connection->request->kept;
    kept->answer = *answer;
    kept->answer.waited_us += connection->request->queued_us;
    keep_text(&kept->answer.occupant.label, kept->holder, sizeof(kept->holder));
    keep_text(&kept->answer.hold.label, kept->label, sizeof(kept->label));
    kept->answer.hold.key = (struct text){NULL, 0}; /* The request has the key. */
    if (answer->masters != NULL && answer->tally.total <= LIMIT_MASTERS) {
        memcpy(kept->masters, answer->masters, answer->tally.total * sizeof(kept->masters[0]));
        kept->answer.masters = kept->masters;
    }
    exchange_give_number_back(api, answer->request);
    connection->phase = PHASE_ANSWERED;
    resume(connection);
}

/* ---- back ------------------------------------------------------------------------------------ */

void exchange_cancel(struct connection *connection)
{
    struct api *api = connection->api;
    struct event event = {.kind = EVENT_CANCEL, .cancel.request = connection->request->number};
    CORE_ASSERT(connection->phase == PHASE_WORKING);
    connection->phase = PHASE_GONE; /* Before the core can answer another request. */
    api->backend.submit(api->backend.arg, &event);
    exchange_give_number_back(api, connection->request->number);
}

/* Cancels a wait, because it ends with its caller. A caller that has only closed its sending side
 * and does not wait still gets its response. A holder's renewal, and each release, continues
 * without a caller. */
void exchange_caller_gone(struct connection *connection)
{
    const struct request *request = connection->request;
    bool continues = request->method == METHOD_DELETE || request->is_a_holders,
         nobody_reads = connection->peer_dead && !continues;
    if (!waits(request) && !request_streams(request) && !nobody_reads)
        return;
    exchange_cancel(connection);
    resume(connection);
}

void exchange_drained(struct connection *connection)
{
    exchange_cancel(connection);
    keep_answer(connection, ANSWER_DRAINING);
    connection->phase = PHASE_ANSWERED;
    resume(connection);
}
