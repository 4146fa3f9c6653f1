/* The status page: what this agent and its masters are up to, for people. Plain HTML without
 * scripts. */
#include "api/status.h"

#include "agent/version.h"
#include "api/response.h"

static void add_escaped(struct buffer *page, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            buffer_add_text(page, "&lt;");
            break;
        case '>':
            buffer_add_text(page, "&gt;");
            break;
        case '&':
            buffer_add_text(page, "&amp;");
            break;
        case '"':
            buffer_add_text(page, "&quot;");
            break;
        default:
            buffer_add(page, text, 1);
        }
    }
}

static void add_cell(struct buffer *page, const char *text)
{
    buffer_add_text(page, "<td>");
    add_escaped(page, text);
    buffer_add_text(page, "</td>");
}

static void add_master_row(struct buffer *page, const struct api *api, size_t g, size_t m)
{
    struct redis_master_view view = redis_master(api->backend.redis, (uint8_t)g, (uint8_t)m);
    buffer_printf(page, "<tr class=\"%s\">", redis_state_name(view.state));
    add_cell(page, api->config->groups[g].masters[m].url);
    add_cell(page, redis_state_name(view.state));
    if (view.guarded_ms > 0)
        buffer_printf(page, "<td>in %lld s</td>", (long long)((view.guarded_ms + 999) / 1000));
    else
        add_cell(page, view.votes ? "yes" : "no");
    add_cell(page, view.version);
    buffer_printf(page, "<td>%lld</td><td>%llu</td>", (long long)(view.clock_offset_us / 1000),
                  (unsigned long long)view.reconnects);
    add_cell(page, view.reason);
    buffer_add_text(page, "</tr>\n");
}

static void add_group_part(struct buffer *page, const struct api *api, size_t g)
{
    const struct config_group *group = &api->config->groups[g];
    struct redis_group_view view = redis_group(api->backend.redis, (uint8_t)g);
    buffer_add_text(page, "<h2>Group ");
    add_escaped(page, group->name);
    buffer_printf(page,
                  "</h2>\n<p>%zu of %zu masters are up, %zu vote on new locks; %zu are needed: "
                  "<strong>%s</strong></p>\n",
                  view.up, view.total, view.voting, view.quorum,
                  view.voting >= view.quorum ? "ready"
                  : view.up >= view.quorum   ? "guarded"
                                             : "no quorum");
    if (redis_clock_off_us(api->backend.redis, (uint8_t)g) != 0)
        buffer_printf(page,
                      "<p>Most of them agree that this agent's clock is off by %lld ms.</p>\n",
                      (long long)(redis_clock_off_us(api->backend.redis, (uint8_t)g) / 1000));
    buffer_add_text(
        page,
        "<table><tr><th>master</th><th>state</th><th>votes</th><th>version</th><th>clock offset "
        "(ms)</th><th>reconnects</th>"
        "<th>reason</th></tr>\n");
    for (size_t m = 0; m < group->master_count; m++)
        add_master_row(page, api, g, m);
    buffer_add_text(page, "</table>\n");
}

static void add_summary(struct buffer *page, const struct api *api)
{
    const struct core_stats *stats = core_stats(api->backend.core);
    const char *why_not = api->backend.not_ready(api->backend.arg);
    buffer_add_text(page, "<h1>lockagent " LOCKAGENT_VERSION "</h1>\n<p>");
    add_escaped(page, why_not == NULL ? "ready" : why_not);
    buffer_printf(page,
                  "</p>\n<table><tr><th>locks "
                  "held</th><th>waiting</th><th>requests</th><th>connections</th></tr>\n"
                  "<tr><td>%u</td><td>%u</td><td>%u</td><td>%zu</td></tr></table>\n",
                  stats->locks_held, stats->waiters, stats->requests, api->connections);
}

enum MHD_Result status_page(struct connection *connection)
{
    const struct api *api = connection->api;
    struct buffer page = {0};
    buffer_add_text(&page,
                    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
                    "charset=\"utf-8\"><title>lockagent</title>\n"
                    "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
                    "td,th{border:1px solid #ccc;padding:.3em .7em;text-align:left}tr.down "
                    "td{background:#fdd}tr.guarded "
                    "td,tr.degraded td{background:#ffd}</style>"
                    "</head><body>\n");
    add_summary(&page, api);
    for (size_t g = 0; g < api->config->group_count; g++)
        add_group_part(&page, api, g);
    buffer_add_text(&page, "<p><a href=\"/metrics\">metrics</a> <a href=\"/readyz\">readiness</a> "
                           "<a href=\"/openapi.yaml\">API</a></p>\n</body></html>\n");
    if (page.failed) {
        buffer_free(&page);
        return response_refusal(connection, &(struct refusal){.problem = PROBLEM_OUT_OF_MEMORY});
    }
    struct MHD_Response *response =
        response_owned(page.bytes, page.len, "text/html; charset=utf-8");
    if (response != NULL)
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'none'; style-src 'unsafe-inline'");
    return response_queue(connection, 200, response);
}
