/* GET ?watch=key: streams of the state of a key, for callers that hold nothing (D3.8).
 *
 *   GET --> a stream of its key --line of the present state--> parked --a change--> woken
 *                                        ^                                           |
 *                                        '-------------------------------------------'
 *
 * All streams of a key share one request in the core, from the first of them to the last. The key
 * has the line of its present state, and a stream copies it when its socket has room. So nothing
 * piles up, and a caller that reads slowly misses states that are followed by newer ones. */
#include "api/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/random.h"

enum { FOLLOWED_BUCKETS = 1024 };

/* A key that is followed. */
struct followed {
    struct link of_bucket;
    uint32_t number; /* Number of its request in the core. */
    struct list streams;
    uint64_t version;   /* Number of the present state; 0: there is none yet. */
    struct buffer line; /* Its line. */
    size_t key_len;
    char key[];
};

/* ---- the table ------------------------------------------------------------------------------- */

bool follow_start(struct api *api)
{
    api->followed = calloc(FOLLOWED_BUCKETS, sizeof(*api->followed));
    api->followed_by_number = calloc(api->numbers, sizeof(struct followed *));
    for (size_t i = 0; api->followed != NULL && i < FOLLOWED_BUCKETS; i++)
        list_init(&api->followed[i]);
    return api->followed != NULL && api->followed_by_number != NULL;
}

void follow_free(struct api *api)
{
    free(api->followed);
    free(api->followed_by_number);
}

static struct list *followed_bucket(const struct api *api, const struct request *request)
{
    return &api->followed[hash_bytes(0, 0, request->key, request->key_len) % FOLLOWED_BUCKETS];
}

static struct followed *followed_find(const struct api *api, const struct request *request)
{
    const struct list *bucket = followed_bucket(api, request);
    for (struct link *at = bucket->head.next; at != &bucket->head; at = at->next) {
        struct followed *followed = CONTAINER_OF(at, struct followed, of_bucket);
        if (followed->key_len == request->key_len &&
            memcmp(followed->key, request->key, request->key_len) == 0)
            return followed;
    }
    return NULL;
}

/* Begins to follow the key of a request. Returns NULL if there is not enough memory. The core knows
 * of it when its first stream is open. */
static struct followed *followed_begun(struct api *api, const struct request *request)
{
    struct followed *followed = calloc(1, sizeof(*followed) + request->key_len);
    if (followed == NULL)
        return NULL;
    memcpy(followed->key, request->key, request->key_len);
    followed->key_len = request->key_len;
    list_init(&followed->streams);
    list_append(followed_bucket(api, request), &followed->of_bucket);
    followed->number = exchange_take_number(api);
    api->followed_by_number[followed->number] = followed;
    api->followed_count++;
    metrics_followed(api->backend.metrics, (int64_t)api->followed_count);
    return followed;
}

static void followed_ended(struct api *api, struct followed *followed)
{
    api->followed_by_number[followed->number] = NULL;
    exchange_give_number_back(api, followed->number);
    api->followed_count--;
    metrics_followed(api->backend.metrics, (int64_t)api->followed_count);
    list_remove(&followed->of_bucket);
    buffer_free(&followed->line);
    free(followed);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const char *event_name(enum key_state state)
{
    return state == KEY_HELD ? "held" : state == KEY_FREE ? "free" : "unknown";
}

/* Returns the line of a state; NULL if there is not enough memory. */
static char *line_of(const struct api *api, const struct effect_followed *now)
{
    const struct core_policy *policy = &api->config->policies[now->policy].core;
    const struct occupant *occupant = &now->occupant;
    json_t *line = json_pack("{s:s}", "event", event_name(now->state));
    if (line != NULL && policy->permits > 1) {
        bool is_known = now->state != KEY_UNKNOWN;
        json_object_set_new(line, "permits", json_integer(policy->permits));
        json_object_set_new(line, "taken",
                            is_known ? json_integer(__builtin_popcountll(occupant->taken))
                                     : json_null());
        json_object_set_new(line, "here", json_boolean(now->here));
    } else if (line != NULL && now->state == KEY_HELD) {
        json_object_set_new(line, "holder", view_label(occupant->label));
        json_object_set_new(line, "mode", json_string(mode_name(occupant->mode)));
        json_object_set_new(line, "agent", view_agent(occupant->agent));
        json_object_set_new(line, "fencing_token", view_fence(occupant->fence));
        json_object_set_new(line, "here", json_boolean(now->here));
        if (policy->form == FORM_SHARED)
            json_object_set_new(line, "readers", json_integer(occupant->readers));
    }
    return view_line(line);
}

/* Copies the line of the state that the stream has not shown yet. Returns false if there is
 * none. */
static bool next_news(struct stream *stream)
{
    static const char drained[] = "{\"event\":\"ended\",\"reason\":\"drained\"}\n";
    const struct followed *followed = stream->followed;
    buffer_free(&stream->line);
    stream->line = (struct buffer){0};
    stream->written = 0;
    if (stream->end == STREAM_LOST) {
        buffer_add_text(&stream->line, drained);
        stream->end = STREAM_OVER;
    } else if (stream->end == STREAM_OPEN && stream->seen != followed->version) {
        buffer_add(&stream->line, followed->line.bytes, followed->line.len);
        stream->line.failed |= followed->line.failed;
        stream->seen = followed->version;
    }
    return stream->line.len > 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Returns true if the caller has not taken a line for so long that it counts as not reading. */
static bool follower_is_stuck(struct stream *stream, struct instant now)
{
    bool waits = stream->seen != stream->followed->version || stream->written < stream->line.len;
    if (!waits)
        stream->waits_since = now;
    return instant_us_between(stream->waits_since, now) >= (int64_t)STREAM_STUCK_MS * 1000;
}

void api_followed(struct api *api, const struct effect_followed *now)
{
    struct followed *followed = api->followed_by_number[now->request];
    if (followed == NULL)
        return; /* It was cancelled in this step or before it. */
    char *text = line_of(api, now);
    struct instant at = api->backend.now(api->backend.arg);
    struct list *streams = &followed->streams;
    for (struct link *link = streams->head.next; link != &streams->head; link = link->next) {
        struct connection *connection = CONTAINER_OF(link, struct connection, stream.of_lock);
        stream_has_news(connection);
        if (connection->stream.end == STREAM_OPEN && follower_is_stuck(&connection->stream, at))
            connection->stream.stuck = true;
    }
    buffer_free(&followed->line);
    followed->line = (struct buffer){
        .bytes = text, .len = text == NULL ? 0 : strlen(text), .failed = text == NULL};
    followed->version++;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Takes the end of a stream of the key, and ends the following with the last of them. */
static void follower_left(struct api *api, struct followed *followed)
{
    api->follower_count--;
    if (!list_is_empty(&followed->streams))
        return;
    struct event event = {.kind = EVENT_CANCEL, .cancel.request = followed->number};
    api->backend.submit(api->backend.arg, &event);
    followed_ended(api, followed);
}

enum MHD_Result follow_begin(struct connection *connection)
{
    struct api *api = connection->api;
    struct request *request = connection->request;
    struct followed *followed = followed_find(api, request);
    bool is_new = followed == NULL;
    if (api->stopping)
        return answer_here(connection, ANSWER_DRAINING);
    if ((is_new && api->free_count == 0) || !connection_park(connection, /* lasts= */ true))
        return answer_here(connection, ANSWER_TOO_MANY_WAITERS);
    if (is_new)
        followed = followed_begun(api, request);
    struct MHD_Response *response =
        followed == NULL
            ? NULL
            : stream_start(connection, next_news, &followed->streams,
                           &(struct stream){.followed = followed, .closed = follower_left});
    if (response == NULL) {
        if (is_new && followed != NULL)
            followed_ended(api, followed);
        connection_unpark(connection);
        request->refusal.problem = PROBLEM_OUT_OF_MEMORY;
        return response_refusal(connection, &request->refusal);
    }
    api->follower_count++;
    if (is_new) {
        struct event event = {.kind = EVENT_READ,
                              .read = {.request = followed->number,
                                       .key = {request->key, request->key_len},
                                       .follows = true}};
        api->backend.submit(api->backend.arg, &event);
    }
    return response_stream(connection, 200, response);
}
