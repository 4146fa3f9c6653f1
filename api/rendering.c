/* Pages that take long to render.
 *
 *   requested --time is left, or a shared page is there--> answered
 *      |                                                       ^
 *      '--none--> waits, suspended --the share is there again--'
 *
 * A thousand locks in a list take the loop several milliseconds, and a renewal has 50. So after a
 * page the share rests for three times the CPU time of the page (rest_ns()). Meanwhile requests for
 * the same page get the same bytes, and all others wait.
 *
 * The bytes of all pages that are being sent are bounded. Beyond RENDERED_BYTES_MAX no page is
 * rendered before others have been read, and a connection that reads its page slowly is closed. */
#include "api/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "agent/core/core_assert.h"

uint64_t worked_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

/* ---- shared pages ---- */

enum {
    SHARED_MS = 250,                   /* Largest age of a shared page. */
    RESUMED = 64,                      /* Connections resumed in one iteration of the loop. */
    FULL_MS = 50,                      /* Interval of the checks whether pages have been read. */
    RENDERED_BYTES_MAX = 16 * 1048576, /* Bytes of all pages that are still being read. */
};

/* ---- the bytes ------------------------------------------------------------------------------- */

struct rendered {
    struct api *api;
    size_t len;
    char *bytes;
};

static void page_is_read(void *arg)
{
    struct rendered *rendered = arg;
    CORE_ASSERT(rendered->api->rendered_bytes >= rendered->len);
    rendered->api->rendered_bytes -= rendered->len;
    free(rendered->bytes);
    free(rendered);
}

struct MHD_Response *rendering_response(struct api *api, struct buffer *page,
                                        const char *content_type)
{
    struct rendered *rendered = page->failed ? NULL : malloc(sizeof(*rendered));
    if (rendered == NULL) {
        buffer_free(page);
        return NULL;
    }
    *rendered = (struct rendered){.api = api, .len = page->len, .bytes = page->bytes};
    api->rendered_bytes += rendered->len;
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        rendered->len, rendered->bytes, page_is_read, rendered);
    if (response == NULL)
        page_is_read(rendered);
    return response_typed(response, content_type);
}

/* ---- shared pages in use --------------------------------------------------------------------- */

static struct rendering *shared_page(struct api *api, const char *what)
{
    for (unsigned i = 0; i < RENDERINGS; i++) {
        struct rendering *rendering = &api->renderings[i];
        if (rendering->response != NULL && strcmp(rendering->what, what) == 0)
            return rendering;
    }
    return NULL;
}

static void drop(struct rendering *rendering)
{
    if (rendering->response != NULL)
        MHD_destroy_response(rendering->response); /* It is freed after its last reader. */
    rendering->response = NULL;
}

/* Shares the page in place of the page with the same name, or of the oldest one. */
static void share_page(struct api *api, const char *what, struct MHD_Response *response)
{
    struct rendering *place = shared_page(api, what);
    for (unsigned i = 0; i < RENDERINGS && place == NULL; i++)
        if (api->renderings[i].response == NULL)
            place = &api->renderings[i];
    for (unsigned i = 0; i < RENDERINGS && place == NULL; i++)
        place = &api->renderings[i];
    for (unsigned i = 0; i < RENDERINGS && strcmp(place->what, what) != 0; i++)
        if (api->renderings[i].at_ms < place->at_ms)
            place = &api->renderings[i];
    drop(place);
    snprintf(place->what, sizeof(place->what), "%s", what);
    place->response = response;
    place->at_ms = uv_now(api->loop);
}

/* ---- the share ------------------------------------------------------------------------------- */

static void on_share(uv_timer_t *timer);

static void share_within(struct api *api, uint64_t ms)
{
    if (!uv_is_active((const uv_handle_t *)&api->share))
        uv_timer_start(&api->share, on_share, ms, 0);
}

static void goes_on(struct connection *connection)
{
    list_remove(&connection->request->in_line);
    connection->request->suspended = false;
    connection_resume(connection);
}

static struct request *first_in_line(struct api *api)
{
    struct link *first = list_first(&api->rendering);
    return first == NULL ? NULL : CONTAINER_OF(first, struct request, in_line);
}

static bool is_of_admin(const struct request *request)
{
    return request->connection->listener->is_admin;
}

/* Those of the admin listener come first: a scrape is not to wait for the readers of lists. All
 * others are in the order of arrival. */
static bool goes_before(const struct request *a, const struct request *b)
{
    return is_of_admin(a) != is_of_admin(b) ? is_of_admin(a) : a->line_number < b->line_number;
}

/* A request that was resumed and has to wait again has its old place. */
static void stand_in_line(struct api *api, struct request *request)
{
    struct link *at = api->rendering.head.next;
    bool is_last = request->line_number == 0 && !is_of_admin(request);
    if (request->line_number == 0)
        request->line_number = ++api->line_numbers;
    if (is_last)
        at = &api->rendering.head;
    while (at != &api->rendering.head &&
           goes_before(CONTAINER_OF(at, struct request, in_line), request))
        at = at->next;
    list_insert(at, &request->in_line);
}

/* libmicrohttpd does not keep the order of those that are resumed at once, and the first of them
 * renders. So those of the admin listener are resumed alone. */
static void on_share(uv_timer_t *timer)
{
    struct api *api = timer->data;
    struct request *first = first_in_line(api);
    bool of_admin = first != NULL && is_of_admin(first);
    for (unsigned i = 0; i < RESUMED && first != NULL && is_of_admin(first) == of_admin; i++) {
        goes_on(first->connection);
        first = first_in_line(api);
    }
    if (first != NULL)
        share_within(api, 1);
}

/* Returns true if no more bytes may be rendered. Old pages without readers are freed first. */
static bool is_full(struct api *api)
{
    if (api->rendered_bytes <= RENDERED_BYTES_MAX)
        return false;
    for (unsigned i = 0; i < RENDERINGS; i++)
        drop(&api->renderings[i]);
    if (api->rendered_bytes > RENDERED_BYTES_MAX)
        connection_slow_reader_gives_way(api);
    return api->rendered_bytes > RENDERED_BYTES_MAX;
}

/* `is_shared`: its page may be an old one, so it does not keep its connection for long. */
static enum MHD_Result wait_for(struct connection *connection, bool is_shared, uint64_t ms)
{
    struct api *api = connection->api;
    struct request *request = connection->request;
    bool is_scrape = is_shared && connection->listener->is_admin;
    if (!request->asks && !is_scrape && !connection_park(connection, /* lasts= */ false))
        return answer_here(connection, ANSWER_TOO_MANY_WAITERS);
    connection->phase = PHASE_CHECKED; /* The handler is called again when it is resumed. */
    request->suspended = true;
    request->connection = connection;
    stand_in_line(api, request);
    MHD_suspend_connection(connection->http);
    share_within(api, ms);
    return MHD_YES;
}

enum MHD_Result rendering_answer(struct connection *connection, const char *what, bool may_be_old,
                                 rendering_fn *render)
{
    struct api *api = connection->api;
    const int bytes = 65536;
    CORE_ASSERT(strlen(what) < sizeof(api->renderings[0].what));
    enum turn turn = strangers_turn_of(connection, SHARE_STRANGERS);
    if (turn != TURN_NOW)
        return strangers_later(connection, turn);
    /* The kernel takes a page of some megabytes in pieces, over many iterations of the loop. */
    setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    uint64_t now_ns = uv_hrtime();
    bool rests = now_ns < api->rests_until_ns;
    const struct rendering *shared = rests || may_be_old ? shared_page(api, what) : NULL;
    if (shared != NULL && uv_now(api->loop) - shared->at_ms < SHARED_MS)
        return response_shared(connection, 200, shared->response);
    if (rests && !api->stopping)
        return wait_for(connection, may_be_old, (api->rests_until_ns - now_ns) / 1000000 + 1);
    if (is_full(api) && !api->stopping)
        return wait_for(connection, may_be_old, FULL_MS);
    uint64_t before_ns = worked_ns();
    struct MHD_Response *response = render(connection);
    api->rests_until_ns = uv_hrtime() + rest_ns(worked_ns() - before_ns);
    if (response == NULL)
        return response_refusal(connection, &(struct refusal){.problem = PROBLEM_OUT_OF_MEMORY});
    share_page(api, what, response);
    return response_shared(connection, 200, response);
}

/* ---- life ------------------------------------------------------------------------------------ */

void rendering_start(struct api *api)
{
    list_init(&api->rendering);
    uv_timer_init(api->loop, &api->share);
    api->share.data = api;
}

void rendering_stop(struct api *api)
{
    struct request *first;
    while ((first = first_in_line(api)) != NULL)
        goes_on(first->connection);
}

void rendering_free(struct api *api)
{
    for (unsigned i = 0; i < RENDERINGS; i++)
        drop(&api->renderings[i]);
}

/* ---- metrics, health, description ---- */

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
    struct api *api = connection->api;
    return constant(connection,
                    connection_makes_room(connection) ? api->alive_closing : api->alive);
}

enum MHD_Result page_openapi(struct connection *connection)
{
    return constant(connection, connection->api->openapi);
}

enum MHD_Result page_openapi_3_0(struct connection *connection)
{
    return constant(connection, connection->api->openapi_3_0);
}

static json_t *group_json(const struct api *api, size_t g)
{
    const struct config_group *group = &api->config->groups[g];
    struct redis_group_view view = redis_group(api->backend.redis, (uint8_t)g);
    json_t *not_up = json_array(), *guessed = json_array();
    for (size_t m = 0; m < group->master_count; m++) {
        struct redis_master_view master = redis_master(api->backend.redis, (uint8_t)g, (uint8_t)m);
        if (master.state != REDIS_UP || master.disagrees) {
            json_t *entry = json_pack("{s:s, s:s, s:s}", "master", group->masters[m].url, "state",
                                      redis_view_state(&master), "reason", master.reason);
            if (master.guarded_ms != 0)
                json_object_set_new(entry, "guarded_ms",
                                    master.guarded_ms < 0 ? json_null()
                                                          : json_integer(master.guarded_ms));
            json_array_append_new(not_up, entry);
        }
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
