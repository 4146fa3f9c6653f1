/* Metrics, health and the API's description. */
#include "api/pages.h"

#include "api/rendering.h"
#include "api/response.h"
#include "api/strangers.h"

static struct MHD_Response *render_metrics(struct connection *connection)
{
    struct api *api = connection->api;
    struct metrics_scrape scrape = {
        .core = core_stats(api->backend.core), .redis = api->backend.redis, .config = api->config};
    struct buffer page = {0};
    metrics_render(api->backend.metrics, &scrape, &page);
    return rendering_response(api, &page, "text/plain; version=0.0.4; charset=utf-8");
}

enum MHD_Result page_metrics(struct connection *connection)
{
    return rendering_answer(connection, "metrics", /* may_be_old= */ true, render_metrics);
}

static enum MHD_Result constant(struct connection *connection, struct MHD_Response *response)
{
    enum turn turn = strangers_turn_of(connection, SHARE_CHECKS);
    return turn == TURN_NOW ? response_shared(connection, 200, response)
                            : strangers_later(connection, turn);
}

/* Liveness never depends on Redis (D5.2). */
enum MHD_Result page_alive(struct connection *connection)
{
    return constant(connection, connection->api->alive);
}

enum MHD_Result page_openapi(struct connection *connection)
{
    return constant(connection, connection->api->openapi);
}

enum MHD_Result page_openapi_3_0(struct connection *connection)
{
    return constant(connection, connection->api->openapi_3_0);
}

static json_t *master_json(const struct api *api, size_t group, size_t master)
{
    struct redis_master_view view =
        redis_master(api->backend.redis, (uint8_t)group, (uint8_t)master);
    json_t *json =
        json_pack("{s:s, s:s, s:s}", "master", api->config->groups[group].masters[master].url,
                  "state", redis_state_name(view.state), "reason", view.reason);
    if (view.guarded_ms != 0)
        json_object_set_new(json, "guarded_ms",
                            view.guarded_ms < 0 ? json_null() : json_integer(view.guarded_ms));
    return json;
}

static json_t *group_json(const struct api *api, size_t g)
{
    const struct config_group *group = &api->config->groups[g];
    struct redis_group_view view = redis_group(api->backend.redis, (uint8_t)g);
    json_t *not_up = json_array(), *guessed = json_array();
    for (size_t m = 0; m < group->master_count; m++) {
        struct redis_master_view master = redis_master(api->backend.redis, (uint8_t)g, (uint8_t)m);
        if (master.state != REDIS_UP)
            json_array_append_new(not_up, master_json(api, g, m));
        if (master.guessed)
            json_array_append_new(guessed, json_string(group->masters[m].url));
    }
    return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:o, s:o}", "group", group->name, "ready",
                     view.voting >= view.quorum, "up", (json_int_t)view.up, "voting",
                     (json_int_t)view.voting, "total", (json_int_t)view.total, "quorum",
                     (json_int_t)view.quorum, "not_up", not_up, "guessed", guessed);
}

enum MHD_Result page_ready(struct connection *connection)
{
    struct api *api = connection->api;
    enum turn turn = strangers_turn_of(connection, SHARE_CHECKS);
    if (turn != TURN_NOW)
        return strangers_later(connection, turn);
    const char *why_not = api->backend.not_ready(api->backend.arg);
    if (why_not == NULL && (api->draining || api->stopping))
        why_not = "draining";
    json_t *groups = json_array();
    for (size_t g = 0; g < api->config->group_count; g++)
        json_array_append_new(groups, group_json(api, g));
    json_t *body =
        json_pack("{s:b, s:o, s:o}", "ready", why_not == NULL, "reason",
                  why_not == NULL ? json_null() : json_string(why_not), "groups", groups);
    return response_json(connection, why_not == NULL ? 200 : 503, body);
}
