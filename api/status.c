/* The status page: what this agent and its masters are up to, for people (api/page). */
#include "api/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "agent/version.h"
#include "api/html.h"
#include "api/page.h"
#include "api/rendering.h"
#include "api/response.h"
#include "api/status_tables.h"

/* ---- the verdict ----------------------------------------------------------------------------- */

/* What the page says first, and in which colour. */
struct verdict {
    const char *tone, *word;
    const char *colour; /* of the icon */
    char why[256];
};

/* Masters of all groups. */
struct fleet {
    size_t total, guarded, degraded, down;
    bool has_no_spare; /* of a group every vote is needed that it has, and it lacks some */
    bool clock_is_off;
};

static struct fleet look_at_masters(const struct api *api)
{
    struct fleet fleet = {0};
    for (size_t g = 0; g < api->config->group_count; g++) {
        struct redis_group_view group = redis_group(api->backend.redis, (uint8_t)g);
        fleet.has_no_spare |= group.voting <= group.quorum && group.voting < group.total;
        fleet.clock_is_off |= redis_clock_off_us(api->backend.redis, (uint8_t)g) != 0;
        for (size_t m = 0; m < api->config->groups[g].master_count; m++) {
            struct redis_master_view view =
                redis_master(api->backend.redis, (uint8_t)g, (uint8_t)m);
            fleet.total++;
            fleet.guarded += view.state == REDIS_GUARDED;
            fleet.degraded += view.state == REDIS_DEGRADED;
            fleet.down += view.state == REDIS_DOWN || view.state == REDIS_CONNECTING;
        }
    }
    return fleet;
}

static void say_faults(const struct fleet *fleet, char *why, size_t size)
{
    const struct {
        size_t count;
        const char *word;
    } faults[] = {
        {fleet->down, "down"}, {fleet->guarded, "guarded"}, {fleet->degraded, "degraded"}};
    int len = snprintf(why, size, "Locks are granted. Of %zu masters ", fleet->total);
    const char *before = "";
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (faults[i].count == 0)
            continue;
        len += snprintf(why + len, size - (size_t)len, "%s%zu %s %s", before, faults[i].count,
                        faults[i].count == 1 ? "is" : "are", faults[i].word);
        before = ", ";
    }
    snprintf(why + len, size - (size_t)len, ".%s",
             fleet->has_no_spare ? " None of the others may fail." : "");
}

static struct verdict verdict_of(const struct api *api)
{
    struct verdict good = {"good", "Ready", "1a7f37", ""},
                   fair = {"fair", "Ready, with faults", "bf8700", ""},
                   bad = {"bad", "Not ready", "cf222e", ""};
    const char *why_not = api->backend.not_ready(api->backend.arg);
    struct fleet fleet = look_at_masters(api);
    if (api->draining || api->stopping) {
        bad.word = "Draining";
        snprintf(bad.why, sizeof(bad.why),
                 "The agent ends: it takes no new locks, and renews those "
                 "that are held.");
        return bad;
    }
    if (why_not != NULL) {
        snprintf(bad.why, sizeof(bad.why), "No new locks: %s.", why_not);
        return bad;
    }
    if (fleet.down + fleet.guarded + fleet.degraded > 0) {
        say_faults(&fleet, fair.why, sizeof(fair.why));
        return fair;
    }
    if (fleet.clock_is_off) {
        snprintf(fair.why, sizeof(fair.why), "Locks are granted. This agent's clock is off.");
        return fair;
    }
    snprintf(good.why, sizeof(good.why), "Locks are granted, and every master votes.");
    return good;
}

static void add_title(struct status *status)
{
    buffer_printf(&status->page, "lockagent: %s", verdict_of(status->api).word);
}

/* A padlock; what a URL can not take is percent-encoded. */
static void add_icon(struct status *status)
{
    buffer_printf(&status->page,
                  "%%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='%%23%s'%%3E"
                  "%%3Cpath d='M5 7V5a3 3 0 0 1 6 0v2' fill='none' stroke='%%23%s' "
                  "stroke-width='2'/%%3E%%3Crect x='3' y='7' width='10' height='8' rx='2'/%%3E"
                  "%%3C/svg%%3E",
                  verdict_of(status->api).colour, verdict_of(status->api).colour);
}

static void add_verdict(struct status *status)
{
    struct verdict verdict = verdict_of(status->api);
    buffer_printf(&status->page,
                  "<p id=\"verdict\" class=\"live %s\" role=\"status\"><strong>%s</strong> ",
                  verdict.tone, verdict.word);
    html_add_word(&status->page, verdict.why);
    buffer_add_text(&status->page, "</p>");
}

/* ---- facts and limits ------------------------------------------------------------------------ */

static void add_facts(struct status *status)
{
    struct timespec now;
    struct tm utc;
    char clock[16], date[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    strftime(clock, sizeof(clock), "%H:%M:%S", &utc);
    buffer_add_text(&status->page, "Version " LOCKAGENT_VERSION ", up for ");
    html_add_span(&status->page, instant_us_between(status->api->started_at, status->now) / 1000);
    buffer_printf(&status->page, ", as of <time datetime=\"%s\">%s UTC</time>", date, clock);
}

static void add_limit(struct buffer *page, const char *id, const char *name, uint64_t used,
                      uint64_t limit)
{
    buffer_printf(page, "<div><dt>%s</dt><dd><data id=\"%s\" value=\"%" PRIu64 "\">", name, id,
                  used);
    html_add_count(page, used);
    buffer_add_text(page, "</data> of ");
    html_add_count(page, limit);
    buffer_printf(page,
                  " <meter aria-label=\"%s\" max=\"%" PRIu64 "\" high=\"%" PRIu64
                  "\" value=\"%" PRIu64 "\"></meter></dd></div>\n",
                  name, limit, limit - limit / 5, used);
}

static void add_limits(struct status *status)
{
    const struct api *api = status->api;
    const struct core_stats *stats = core_stats(api->backend.core);
    uint64_t connections = 0, connections_max = 0;
    for (size_t i = 0; i < api->listener_count; i++) {
        if (api->listeners[i].is_admin)
            continue;
        connections += api->listeners[i].connections;
        connections_max += api->listeners[i].connections_max;
    }
    buffer_add_text(&status->page, "<dl id=\"limits\" class=\"live\">\n");
    add_limit(&status->page, "held", "Locks held", stats->locks_held, api->config->locks_max);
    add_limit(&status->page, "waiting", "Waiting", stats->waiters, api->config->waiters_max);
    add_limit(&status->page, "connections", "Connections", connections, connections_max);
    buffer_add_text(&status->page, "</dl>");
}

static void add_filter(struct status *status)
{
    html_add(&status->page, status->filter);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void (*const fill[PAGE_SLOTS])(struct status *status) = {
    [PAGE_TITLE] = add_title,          [PAGE_ICON] = add_icon,
    [PAGE_FACTS] = add_facts,          [PAGE_VERDICT] = add_verdict,
    [PAGE_LIMITS] = add_limits,        [PAGE_FILTER] = add_filter,
    [PAGE_HOLDS] = status_add_holds,   [PAGE_WAITS] = status_add_waits,
    [PAGE_GROUPS] = status_add_groups,
};

/* Nothing runs and nothing is loaded but what was built in; no other page has it in a frame. */
static const char policy[] =
    "default-src 'none'; script-src '" PAGE_SCRIPT_HASH "'; style-src '" PAGE_STYLE_HASH
    "'; img-src data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'";

static struct MHD_Response *render_page(struct connection *connection)
{
    struct api *api = connection->api;
    const struct params *params = &connection->request->params;
    struct status status = {.api = api,
                            .now = api->backend.now(api->backend.arg),
                            .filter = {params->key_part, params->key_part_len}};
    for (size_t i = 0; i < sizeof(page_pieces) / sizeof(page_pieces[0]); i++) {
        buffer_add(&status.page, page_pieces[i].html, page_pieces[i].len);
        if (page_pieces[i].slot != PAGE_SLOTS)
            fill[page_pieces[i].slot](&status);
    }
    struct MHD_Response *response =
        rendering_response(api, &status.page, "text/html; charset=utf-8");
    if (response == NULL)
        return NULL;
    MHD_add_response_header(response, "Content-Security-Policy", policy);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    return response;
}

enum MHD_Result status_page(struct connection *connection)
{
    const struct params *params = &connection->request->params;
    char what[RENDERING_NAME];
    snprintf(what, sizeof(what), "page %.*s", (int)params->key_part_len, params->key_part);
    return rendering_answer(connection, what, /* may_be_old= */ false, render_page);
}
