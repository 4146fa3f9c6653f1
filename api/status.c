/* The status page: the state of this agent and its masters, for people (api/page). */
#include "api/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/base/text.h"
#include "agent/version.h"
#include "api/page.h"

/* A status page while it is written. */
struct status {
    const struct api *api;
    struct buffer page;
    struct instant now;
    struct text filter; /* Only keys that contain it are shown; empty: all. */
};

/* ---- text in HTML ---- */

static const char *entity_of(char byte)
{
    switch (byte) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* Adds `text` with the characters of HTML escaped, for text between tags and inside quoted
 * attributes. */
static void html_add(struct buffer *page, struct text text)
{
    size_t done = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char *entity = entity_of(text.at[i]);
        if (entity == NULL)
            continue;
        buffer_add(page, text.at + done, i - done);
        buffer_add_text(page, entity);
        done = i + 1;
    }
    buffer_add(page, text.at + done, text.len - done);
}

/* Adds a terminated text, likewise. */
static void html_add_word(struct buffer *page, const char *word)
{
    html_add(page, text_of(word));
}

/* Each unit, and its number of the next smaller unit. */
static const struct {
    const char *name;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}};
enum { UNITS = sizeof(units) / sizeof(units[0]), SECONDS = 3 };

void html_add_span(struct buffer *page, int64_t ms)
{
    int unit = 0;
    if (ms < 0)
        ms = 0;
    while (unit < UNITS - 1 && ms < units[unit].ms)
        unit++;
    int64_t rest_ms = ms % units[unit].ms;
    buffer_printf(page, "%" PRId64 " %s", ms / units[unit].ms, units[unit].name);
    if (unit < SECONDS && rest_ms >= units[unit + 1].ms)
        buffer_printf(page, " %" PRId64 " %s", rest_ms / units[unit + 1].ms, units[unit + 1].name);
}

void html_add_count(struct buffer *page, uint64_t number)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buffer_add(page, ",", 1);
        buffer_add(page, &digits[i], 1);
    }
}

/* ---- tables ---- */

/* The tables of the status page. The ends of rows and cells are omitted, as HTML allows, because
 * the page is loaded every two seconds. */

enum { ROWS_MAX = 1000 }; /* Rows of each table; more would hold up the loop. */

static void add_text_cell(struct buffer *page, struct text text)
{
    buffer_add_text(page, "<td>");
    if (text.len == 0)
        buffer_add_text(page, "&ndash;");
    else
        html_add(page, text);
}

static void add_label_cell(struct buffer *page, struct text label)
{
    add_text_cell(page, text_fault(label) == NULL ? label : (struct text){NULL, 0});
}

static void add_span_cell(struct buffer *page, int64_t ms)
{
    buffer_add_text(page, "<td>");
    html_add_span(page, ms);
}

static void add_key_cell(struct buffer *page, struct text key)
{
    buffer_add_text(page, "<tr><th scope=\"row\">");
    html_add(page, key);
}

/* ---- a table and its surroundings ------------------------------------------------------------ */

struct table {
    const char *id, *name, *heads;
    uint32_t shown;
    bool is_cut;
};

static void begin_section(struct buffer *page, const struct table *table)
{
    buffer_printf(page, "<section id=\"%s\" class=\"live\"><h2 id=\"%s-name\">%s</h2>\n", table->id,
                  table->id, table->name);
}

/* Begins a table that can be scrolled sideways, also by keyboard. */
static void begin_table(struct buffer *page, const struct table *table)
{
    buffer_printf(page,
                  "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-labelledby=\"%s-name\">"
                  "<table aria-labelledby=\"%s-name\"><thead><tr>%s</thead>\n<tbody>\n",
                  table->id, table->id, table->heads);
}

static void end_table(struct buffer *page)
{
    buffer_add_text(page, "</tbody></table></div>\n");
}

static void end_section(struct buffer *page)
{
    buffer_add_text(page, "</section>\n");
}

/* Returns true if the row of `key` is to be added. The first one begins the table. */
static bool admit_row(struct status *status, struct table *table, struct text key)
{
    if (status->filter.len > 0 &&
        memmem(key.at, key.len, status->filter.at, status->filter.len) == NULL)
        return false;
    table->is_cut = table->shown == ROWS_MAX;
    if (table->is_cut)
        return false;
    if (table->shown++ == 0)
        begin_table(&status->page, table);
    return true;
}

/* Ends the table. `all`: number of rows with those that are not shown. */
static void end_rows(struct status *status, const struct table *table, uint32_t all)
{
    struct buffer *page = &status->page;
    if (table->shown > 0)
        end_table(page);
    if (table->is_cut)
        buffer_printf(page, "<p>Only the first %d are shown: filter by key to see others.</p>\n",
                      ROWS_MAX);
    else if (table->shown == 0 && all > 0)
        buffer_add_text(page, "<p>No key contains this.</p>\n");
    else if (table->shown == 0)
        buffer_add_text(page, "<p>None.</p>\n");
    end_section(page);
}

/* ---- holds and waits ------------------------------------------------------------------------- */

static void add_hold_row(struct status *status, const struct hold_view *hold)
{
    struct buffer *page = &status->page;
    add_key_cell(page, hold->key);
    add_label_cell(page, hold->label);
    if (hold->permits > 1)
        buffer_printf(page, "<td>slot %d of %u", hold->token.slot, hold->permits);
    else
        add_text_cell(page,
                      text_of(view_is_shared(status->api, hold->policy) ? mode_name(hold->mode)
                                                                        : "exclusive"));
    add_span_cell(page, instant_us_between(hold->acquired_at, status->now) / 1000);
    add_span_cell(page, view_valid_for_ms(hold, status->now));
    add_text_cell(page, text_of(hold->bound                   ? "agent, while connected"
                                : hold->renew == RENEW_CALLER ? "caller"
                                                              : "agent"));
    if (hold->token.fence == 0)
        buffer_add_text(page, "<td>&ndash;");
    else
        buffer_printf(page, "<td>%" PRIu64, hold->token.fence);
    buffer_printf(page, "<td>%u of %zu\n", hold->confirmed,
                  status->api->config->groups[hold->group].master_count);
}

/* Add a section of the page each. */
static void status_add_holds(struct status *status)
{
    const struct core *core = status->api->backend.core;
    struct table table = {.id = "holds",
                          .name = "Locks held here",
                          .heads = "<th>Key<th>Held by<th>Mode<th>Held for<th>Valid for"
                                   "<th>Renewed by<th>Number<th>Confirmed"};
    struct hold_view hold;
    uint32_t cursor = 0;
    begin_section(&status->page, &table);
    while (!table.is_cut && core_next_hold(core, status->now, &cursor, &hold))
        if (admit_row(status, &table, hold.key))
            add_hold_row(status, &hold);
    end_rows(status, &table, core_stats(core)->locks_held);
}

static void add_wait_row(struct status *status, const struct wait_view *wait)
{
    struct buffer *page = &status->page;
    const struct api *api = status->api;
    const struct core_policy *policy =
        &api->config->policies[core_policy_of(api->backend.core, wait->key)].core;
    add_key_cell(page, wait->key);
    add_label_cell(page, wait->label);
    add_text_cell(page, text_of(policy->permits > 1           ? "any slot"
                                : policy->form == FORM_SHARED ? mode_name(wait->mode)
                                                              : "exclusive"));
    add_span_cell(page, instant_us_between(wait->since, status->now) / 1000);
    buffer_add_text(page, "\n");
}

static void status_add_waits(struct status *status)
{
    const struct core *core = status->api->backend.core;
    struct table table = {.id = "waits",
                          .name = "Callers that wait here",
                          .heads = "<th>Key<th>Asked by<th>Mode<th>Waits for"};
    struct wait_view wait;
    uint32_t cursor = 0;
    begin_section(&status->page, &table);
    while (!table.is_cut && core_next_wait(core, &cursor, &wait))
        if (admit_row(status, &table, wait.key))
            add_wait_row(status, &wait);
    end_rows(status, &table, core_stats(core)->waiters);
}

/* ---- masters --------------------------------------------------------------------------------- */

static void add_master_row(struct status *status, size_t group, size_t master)
{
    struct buffer *page = &status->page;
    struct redis_master_view view =
        redis_master(status->api->backend.redis, (uint8_t)group, (uint8_t)master);
    const char *state = redis_view_state(&view);
    add_key_cell(page, text_of(status->api->config->groups[group].masters[master].url));
    buffer_printf(page, "<td><span class=\"state %s\">%s</span> ", state, state);
    if (strcmp(view.reason, view.last_error) != 0) /* The reason is in the same row. */
        html_add_word(page, view.reason);
    buffer_printf(page, "<td>%s", view.votes ? "yes" : "no");
    if (view.guarded_ms > 0) {
        buffer_add_text(page, ", in ");
        html_add_span(page, view.guarded_ms);
    }
    /* The round trip and the clock offset are not known of a master that does not answer. */
    if (view.round_trip_us >= 0 && view.state != REDIS_DOWN && view.state != REDIS_CONNECTING)
        buffer_printf(page, "<td>%.1f ms<td>%" PRId64 " ms", (double)view.round_trip_us / 1000,
                      view.clock_offset_us / 1000);
    else
        buffer_add_text(page, "<td>&ndash;<td>&ndash;");
    add_text_cell(page, text_of(view.version));
    buffer_printf(page, "<td>%" PRIu64, view.reconnects);
    add_text_cell(page, text_of(view.last_error));
    if (view.last_error[0] != '\0') {
        buffer_add_text(page, " <span class=\"aside\">");
        html_add_span(page, view.last_error_ago_ms);
        buffer_add_text(page, " ago</span>");
    }
    buffer_add_text(page, "\n");
}

static void add_group_words(struct status *status, size_t g)
{
    struct buffer *page = &status->page;
    struct redis_group_view view = redis_group(status->api->backend.redis, (uint8_t)g);
    const struct core_rounds *rounds = &core_stats(status->api->backend.core)->rounds[g];
    int64_t off_us = redis_clock_off_us(status->api->backend.redis, (uint8_t)g);
    buffer_printf(page, "<p>%zu of %zu masters vote on new locks, and %zu are needed: <strong>",
                  view.voting, view.total, view.quorum);
    if (view.voting > view.quorum)
        buffer_printf(page, "ready</strong>, and %zu of them may fail.", view.voting - view.quorum);
    else if (view.voting == view.quorum)
        buffer_add_text(page, "ready</strong>, but none of them may fail.");
    else
        buffer_printf(page, "%s</strong>.",
                      view.up < view.quorum                  ? "no quorum"
                      : view.gate == GUARD_REFUSED_BY_LAYOUT ? "agents at work have another layout"
                      : view.unfit > 0                       ? "masters may evict keys"
                                                             : "guarded");
    buffer_printf(page,
                  " Rounds under way: %" PRIu32 " of %" PRIu32 "; keys that wait for one: %" PRIu32
                  ".</p>\n",
                  rounds->in_flight, rounds->limit, rounds->waiting);
    if (off_us != 0)
        buffer_printf(
            page, "<p>Most of them agree that this agent's clock is off by %" PRId64 " ms.</p>\n",
            off_us / 1000);
}

static void status_add_groups(struct status *status)
{
    const struct config *config = status->api->config;
    struct buffer *page = &status->page;
    buffer_add_text(page, "<div id=\"masters\" class=\"live\">\n");
    for (size_t g = 0; g < config->group_count; g++) {
        char id[32];
        struct table table = {.id = id,
                              .heads = "<th>Master<th>State<th>Votes<th>Round trip<th>Clock"
                                       "<th>Version<th>Reconnects<th>Last error"};
        snprintf(id, sizeof(id), "group-%zu", g);
        buffer_printf(page, "<section class=\"group\"><h2 id=\"%s-name\">Masters of ", id);
        html_add_word(page, config->groups[g].name);
        buffer_add_text(page, "</h2>\n");
        add_group_words(status, g);
        begin_table(page, &table);
        for (size_t m = 0; m < config->groups[g].master_count; m++)
            add_master_row(status, g, m);
        end_table(page);
        end_section(page);
    }
    buffer_add_text(page, "</div>\n");
}

/* ---- the page ---- */

/* ---- the verdict ----------------------------------------------------------------------------- */

/* The first sentence of the page, and its colour. */
struct verdict {
    const char *tone, *word;
    const char *colour; /* Colour of the icon. */
    char why[256];
};

/* Numbers of masters of all groups. */
struct fleet {
    size_t total, guarded, degraded, down;
    bool has_no_spare; /* A group needs every vote that it has, and some of its masters have
                        * none. */
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

/* Adds a padlock as icon. Characters that a URL cannot contain are percent-encoded. */
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

/* Only the built-in script and style may run. No other page may have this one in a frame. */
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
