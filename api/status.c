/* The status page: the state of this agent and its masters, for people (api/page). */
#include "api/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/base/text.h"
#include "agent/version.h"
#include "api/page.h"

enum {
    ROWS_FIRST = 50,   /* Rows of each table, if the caller does not say otherwise. */
    NAMED_MASTERS = 6, /* Masters that the verdict names. */
};

/* Numbers of masters of all groups, and of groups. */
struct fleet {
    size_t faulty;          /* Masters that are not up, or have no vote. */
    size_t groups, lacking; /* Groups; those that cannot grant locks. */
    bool clock_is_off;
};

/* A status page while it is written. */
struct status {
    struct api *api;
    struct buffer page;
    struct instant now;
    struct text filter; /* Only keys that contain it are shown; empty: all. */
    uint32_t rows;      /* Most rows of a table. */
    bool latest_first;
    struct picks holds, waits;
    struct fleet fleet;
    const char *why_not; /* NULL: the agent is ready. */
    /* The holds of each group, also those that the filter leaves out. */
    struct group_holds {
        uint32_t count;
        struct instant valid_until; /* The latest one. */
    } group_holds[LIMIT_GROUPS];
};

/* ---- the first rows ---- */

/* Takes the row of `key` if the filter lets it pass. */
static void consider(const struct status *status, struct picks *picks, struct text key,
                     struct instant since, uint32_t cursor)
{
    if (status->filter.len > 0 &&
        memmem(key.at, key.len, status->filter.at, status->filter.len) == NULL)
        return;
    picks->matching++;
    picks_take(picks, (struct pick){.rank = status->latest_first ? -since.us : since.us,
                                    .cursor = cursor});
}

/* Walks over all holds and waiting callers. */
static void pick_rows(struct status *status)
{
    const struct core *core = status->api->backend.core;
    struct hold_view hold;
    struct wait_view wait;
    status->holds.room = status->waits.room = status->rows;
    for (uint32_t cursor = 0; core_next_hold(core, status->now, &cursor, &hold);) {
        struct group_holds *group = &status->group_holds[hold.group];
        group->count++;
        group->valid_until = instant_max(group->valid_until, hold.valid_until);
        consider(status, &status->holds, hold.key, hold.acquired_at, cursor - 1);
    }
    for (uint32_t cursor = 0; core_next_wait(core, &cursor, &wait);)
        consider(status, &status->waits, wait.key, wait.since, cursor - 1);
    picks_sort(&status->holds);
    picks_sort(&status->waits);
}

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
    /* The head of the column by which the rows are sorted, and the heads behind it; NULL: none. */
    const char *sorted, *more_heads;
};

static void begin_section(struct buffer *page, const struct table *table)
{
    buffer_printf(page, "<section id=\"%s\"><h2 id=\"%s-name\">%s</h2>\n", table->id, table->id,
                  table->name);
}

/* Begins a table that can be scrolled sideways, also by keyboard. */
static void begin_table(const struct status *status, struct buffer *page, const struct table *table)
{
    buffer_printf(page,
                  "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-labelledby=\"%s-name\">"
                  "<table aria-labelledby=\"%s-name\"><thead><tr>%s",
                  table->id, table->id, table->heads);
    if (table->sorted != NULL)
        buffer_printf(page, "<th aria-sort=\"%s\">%s%s",
                      status->latest_first ? "ascending" : "descending", table->sorted,
                      table->more_heads);
    buffer_add_text(page, "</thead>\n<tbody>\n");
}

static void end_table(struct buffer *page)
{
    buffer_add_text(page, "</tbody></table></div>\n");
}

static void end_section(struct buffer *page)
{
    buffer_add_text(page, "</section>\n");
}

/* Says how many rows are left out, and offers them as far as that is allowed. */
static void add_more(struct status *status, const struct picks *picks)
{
    struct buffer *page = &status->page;
    uint32_t rows = status->rows >= ROWS_MAX / 2 ? ROWS_MAX : 2 * status->rows;
    buffer_add_text(page, "<p class=\"more\">");
    html_add_count(page, picks->count);
    buffer_add_text(page, " of ");
    html_add_count(page, picks->matching);
    buffer_add_text(page, " are shown");
    if (rows > status->rows)
        buffer_printf(page,
                      ". <button type=\"submit\" form=\"filter\" name=\"limit\" value=\"%" PRIu32
                      "\">Show %" PRIu32 " more</button></p>\n",
                      rows, rows - status->rows);
    else
        buffer_add_text(page, ": filter by key to see others.</p>\n");
}

/* Adds a section with the rows of `picks`. `add_row` writes the row at a cursor. `all`: number of
 * rows without the filter. */
static void add_rows(struct status *status, const struct table *table, const struct picks *picks,
                     uint32_t all, void (*add_row)(struct status *status, uint32_t cursor))
{
    struct buffer *page = &status->page;
    begin_section(page, table);
    if (picks->count > 0) {
        begin_table(status, page, table);
        for (uint32_t i = 0; i < picks->count; i++)
            add_row(status, picks->list[i].cursor);
        end_table(page);
    }
    if (picks->matching > picks->count)
        add_more(status, picks);
    else if (picks->count == 0)
        buffer_add_text(page, all > 0 ? "<p>No key contains this.</p>\n" : "<p>None.</p>\n");
    end_section(page);
}

/* ---- holds and waits ------------------------------------------------------------------------- */

static void add_hold_row(struct status *status, uint32_t cursor)
{
    struct buffer *page = &status->page;
    struct hold_view view, *hold = &view;
    if (!core_next_hold(status->api->backend.core, status->now, &cursor, hold))
        return;
    add_key_cell(page, hold->key);
    add_label_cell(page, hold->label);
    if (hold->permits > 1)
        /* People count from 1. */
        buffer_printf(page, "<td>slot %d of %u", hold->token.slot + 1, hold->permits);
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

static void add_holds(struct status *status)
{
    const struct table table = {.id = "holds",
                                .name = "Locks held here",
                                .heads = "<th>Key<th>Held by<th>Mode",
                                .sorted = "Held for",
                                .more_heads = "<th>Valid for<th>Renewed by<th>Number<th>Confirmed"};
    add_rows(status, &table, &status->holds, core_stats(status->api->backend.core)->locks_held,
             add_hold_row);
}

static void add_wait_row(struct status *status, uint32_t cursor)
{
    struct buffer *page = &status->page;
    const struct api *api = status->api;
    struct wait_view wait;
    if (!core_next_wait(api->backend.core, &cursor, &wait))
        return;
    const struct core_policy *policy =
        &api->config->policies[core_policy_of(api->backend.core, wait.key)].core;
    add_key_cell(page, wait.key);
    add_label_cell(page, wait.label);
    add_text_cell(page, text_of(policy->permits > 1           ? "any slot"
                                : policy->form == FORM_SHARED ? mode_name(wait.mode)
                                                              : "exclusive"));
    add_span_cell(page, instant_us_between(wait.since, status->now) / 1000);
    buffer_add_text(page, "\n");
}

static void add_waits(struct status *status)
{
    const struct table table = {.id = "waits",
                                .name = "Callers that wait here",
                                .heads = "<th>Key<th>Asked by<th>Mode",
                                .sorted = "Waits for",
                                .more_heads = ""};
    add_rows(status, &table, &status->waits, core_stats(status->api->backend.core)->waiters,
             add_wait_row);
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

static void add_groups(struct status *status)
{
    const struct config *config = status->api->config;
    struct buffer *page = &status->page;
    buffer_add_text(page, "<div id=\"masters\">\n");
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
        begin_table(status, page, &table);
        for (size_t m = 0; m < config->groups[g].master_count; m++)
            add_master_row(status, g, m);
        end_table(page);
        end_section(page);
    }
    buffer_add_text(page, "</div>\n");
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* The first sentence of the page, and its colour. */
struct verdict {
    const char *tone, *word;
    const char *colour; /* Colour of the icon. */
};

static bool is_well(const struct redis_master_view *view)
{
    return view->state == REDIS_UP && view->votes;
}

static struct fleet look_at_masters(const struct api *api)
{
    struct fleet fleet = {.groups = api->config->group_count};
    for (size_t g = 0; g < fleet.groups; g++) {
        struct redis_group_view group = redis_group(api->backend.redis, (uint8_t)g);
        fleet.lacking += group.voting < group.quorum;
        fleet.clock_is_off |= redis_clock_off_us(api->backend.redis, (uint8_t)g) != 0;
        for (size_t m = 0; m < group.total; m++) {
            struct redis_master_view view =
                redis_master(api->backend.redis, (uint8_t)g, (uint8_t)m);
            fleet.faulty += !is_well(&view);
        }
    }
    return fleet;
}

static bool is_ending(const struct status *status)
{
    return status->api->draining || status->api->stopping;
}

static struct verdict verdict_of(const struct status *status)
{
    const struct fleet *fleet = &status->fleet;
    struct verdict verdict = {"bad", "Not ready", "cf222e"};
    if (is_ending(status))
        verdict.word = "Draining";
    else if (fleet->lacking == fleet->groups)
        verdict.word = "No lock can be granted";
    else if (fleet->lacking > 0)
        verdict.word = "Some locks cannot be granted";
    else if (status->why_not == NULL && fleet->faulty == 0 && !fleet->clock_is_off)
        verdict = (struct verdict){"good", "Ready", "1a7f37"};
    else if (status->why_not == NULL)
        verdict = (struct verdict){"fair", "Ready, with faults", "bf8700"};
    return verdict;
}

/* Rounds up to whole seconds. */
static void add_seconds(struct buffer *page, int64_t ms)
{
    html_add_span(page, (ms + 999) / 1000 * 1000);
}

static void say_master(struct buffer *page, const char *url, const struct redis_master_view *view)
{
    bool is_away = view->state == REDIS_DOWN || view->state == REDIS_CONNECTING;
    buffer_add_text(page, "<strong>");
    html_add_word(page, url);
    buffer_add_text(page, "</strong>");
    if (view->guarded_ms > 0 && !is_away) {
        /* A screen reader does not announce each second. */
        buffer_add_text(page, " answers, and does not vote yet: <span aria-live=\"off\">");
        add_seconds(page, view->guarded_ms);
        buffer_add_text(page, "</span> left. ");
        return;
    }
    buffer_add_text(page, view->state == REDIS_DOWN         ? " is down"
                          : view->state == REDIS_CONNECTING ? " has not answered yet"
                          : !view->votes                    ? " answers, and does not vote"
                                                            : " is degraded");
    if (view->reason[0] != '\0') {
        buffer_add_text(page, ": ");
        html_add_word(page, view->reason);
    }
    buffer_add_text(page, ". ");
}

/* Names the masters at fault. */
static void say_masters(struct status *status)
{
    const struct api *api = status->api;
    size_t faulty = status->fleet.faulty, said = 0;
    if (faulty == 0)
        return;
    buffer_add_text(&status->page, "<p>");
    for (size_t g = 0; g < api->config->group_count; g++) {
        for (size_t m = 0; m < api->config->groups[g].master_count; m++) {
            struct redis_master_view view =
                redis_master(api->backend.redis, (uint8_t)g, (uint8_t)m);
            if (!is_well(&view) && said++ < NAMED_MASTERS)
                say_master(&status->page, api->config->groups[g].masters[m].url, &view);
        }
    }
    if (faulty > NAMED_MASTERS)
        buffer_printf(&status->page, "Others at fault: %zu.", faulty - NAMED_MASTERS);
    buffer_add_text(&status->page, "</p>");
}

/* Says what becomes of the holds of a group that cannot grant locks. Guarded masters renew. */
static void say_holds(struct status *status, size_t g, const struct redis_group_view *group)
{
    struct buffer *page = &status->page;
    const struct group_holds *holds = &status->group_holds[g];
    bool is_one = holds->count == 1;
    if (holds->count == 0)
        return;
    buffer_add_text(page, " ");
    html_add_count(page, holds->count);
    if (group->up >= group->quorum) {
        buffer_printf(page, " %s held, and can be renewed.", is_one ? "lock is" : "locks are");
        return;
    }
    buffer_printf(page, " %s within ", is_one ? "lock ends" : "locks end");
    add_seconds(page, instant_us_between(status->now, holds->valid_until) / 1000);
    buffer_printf(page, ", unless so many masters come back that %zu are up.", group->quorum);
}

/* Says what the faults mean for a group. */
static void say_group(struct status *status, size_t g)
{
    struct buffer *page = &status->page;
    const struct api *api = status->api;
    struct redis_group_view group = redis_group(api->backend.redis, (uint8_t)g);
    char lacks[REDIS_LACKS_BYTES];
    if (group.voting < group.quorum) {
        redis_group_lacks(api->backend.redis, (uint8_t)g, lacks, sizeof(lacks));
        buffer_add_text(page,
                        "<p class=\"group-says\" aria-live=\"off\">"); /* It counts seconds. */
        html_add_word(page, lacks);
        buffer_add_text(page, ".");
        say_holds(status, g, &group);
        buffer_add_text(page, "</p>");
        return;
    }
    buffer_add_text(page, "<p class=\"group-says\">");
    if (status->fleet.groups > 1) {
        buffer_add_text(page, "group ");
        html_add_word(page, api->config->groups[g].name);
        buffer_add_text(page, ": ");
    }
    buffer_printf(page, "locks are granted, %zu of %zu masters vote, and ", group.voting,
                  group.total);
    if (group.voting > group.quorum)
        buffer_printf(page, "%zu%s may fail.</p>", group.voting - group.quorum,
                      group.voting < group.total ? " more" : "");
    else
        buffer_add_text(page, "none of them may fail.</p>");
}

static void add_verdict(struct status *status)
{
    struct buffer *page = &status->page;
    struct verdict verdict = verdict_of(status);
    buffer_printf(page, "<div id=\"verdict\" class=\"live %s\" role=\"status\"><strong>%s</strong>",
                  verdict.tone, verdict.word);
    /* The agent is not ready, and no group is the reason. */
    bool has_other_reason = status->why_not != NULL && status->fleet.lacking == 0;
    if (is_ending(status)) {
        buffer_add_text(page, "<p>The agent ends: it takes no new locks, and renews those that are "
                              "held.</p>");
    } else if (has_other_reason) {
        buffer_add_text(page, "<p>No new locks: ");
        html_add_word(page, status->why_not);
        buffer_add_text(page, ".</p>");
    }
    say_masters(status);
    bool says_groups = !is_ending(status) && !has_other_reason;
    for (size_t g = 0; says_groups && g < status->fleet.groups; g++)
        say_group(status, g);
    if (status->fleet.clock_is_off)
        buffer_add_text(page, "<p>This agent's clock is off.</p>");
    buffer_add_text(page, "</div>");
}

static void add_title(struct status *status)
{
    buffer_printf(&status->page, "lockagent: %s", verdict_of(status).word);
}

/* Adds a padlock as icon. Characters that a URL cannot contain are percent-encoded. */
static void add_icon(struct status *status)
{
    buffer_printf(&status->page,
                  "%%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='%%23%s'%%3E"
                  "%%3Cpath d='M5 7V5a3 3 0 0 1 6 0v2' fill='none' stroke='%%23%s' "
                  "stroke-width='2'/%%3E%%3Crect x='3' y='7' width='10' height='8' rx='2'/%%3E"
                  "%%3C/svg%%3E",
                  verdict_of(status).colour, verdict_of(status).colour);
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

/* Adds a number of the last minute. */
static void add_recent(struct status *status, const char *id, const char *name,
                       enum recent_kind kind)
{
    struct api *api = status->api;
    uint32_t count = recent_total(&api->recent, kind, uv_now(api->loop));
    buffer_printf(&status->page, "<div><dt>%s</dt><dd><data id=\"%s\" value=\"%" PRIu32 "\">", name,
                  id, count);
    html_add_count(&status->page, count);
    buffer_add_text(&status->page, "</data> in the last minute</dd></div>\n");
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
    add_recent(status, "granted", "Granted", RECENT_GRANTED);
    add_recent(status, "refused", "Refused", RECENT_REFUSED);
    add_recent(status, "lost", "Lost", RECENT_LOST);
    buffer_add_text(&status->page, "</dl>");
}

static void add_filter(struct status *status)
{
    html_add(&status->page, status->filter);
}

static void add_orders(struct status *status)
{
    buffer_printf(
        &status->page,
        "<option value=\"longest\"%s>longest first<option value=\"latest\"%s>latest first",
        status->latest_first ? "" : " selected", status->latest_first ? " selected" : "");
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Adds the tables. If a master is not well, the masters come first. */
static void add_parts(struct status *status)
{
    bool masters_first = status->fleet.faulty > 0 || status->fleet.lacking > 0;
    if (masters_first)
        add_groups(status);
    add_holds(status);
    add_waits(status);
    if (!masters_first)
        add_groups(status);
}

static void (*const fill[PAGE_SLOTS])(struct status *status) = {
    [PAGE_TITLE] = add_title,     [PAGE_ICON] = add_icon,     [PAGE_FACTS] = add_facts,
    [PAGE_VERDICT] = add_verdict, [PAGE_LIMITS] = add_limits, [PAGE_FILTER] = add_filter,
    [PAGE_ORDERS] = add_orders,   [PAGE_PARTS] = add_parts,
};

/* Only the built-in script and style may run. No other page may have this one in a frame. */
static const char policy[] =
    "default-src 'none'; script-src '" PAGE_SCRIPT_HASH "'; style-src '" PAGE_STYLE_HASH
    "'; img-src data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'";

/* A limit that is not allowed counts as none, as any other parameter of the page. */
static uint32_t rows_of(const struct params *params)
{
    return params->limit == 0 ? ROWS_FIRST : params->limit;
}

static struct MHD_Response *render_page(struct connection *connection)
{
    struct api *api = connection->api;
    const struct params *params = &connection->request->params;
    struct status status = {.api = api,
                            .now = api->backend.now(api->backend.arg),
                            .filter = {params->key_part, params->key_part_len},
                            .rows = rows_of(params),
                            .latest_first = params->latest_first,
                            .fleet = look_at_masters(api),
                            .why_not = api->backend.not_ready(api->backend.arg)};
    pick_rows(&status);
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
    snprintf(what, sizeof(what), "page %d %u %.*s", params->latest_first, rows_of(params),
             (int)params->key_part_len, params->key_part);
    return rendering_answer(connection, what, /* may_be_old= */ false, render_page);
}
