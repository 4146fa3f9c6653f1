/* The tables of the status page. The ends of rows and cells are left to the browser, as HTML
 * allows: the page comes every two seconds. */
#include "api/status_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/text.h"
#include "api/html.h"
#include "api/view.h"

enum { ROWS_MAX = 1000 }; /* of each table: more would hold up the loop, and nobody reads them */

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

/* ---- a table and what stands around it ------------------------------------------------------- */

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

/* It may be scrolled sideways, also by keys. */
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

/* True where the row of `key` is to be added; the first one begins the table. */
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

/* `all`: how many there are, shown or not. */
static void end_rows(struct status *status, const struct table *table, uint32_t all)
{
    struct buffer *page = &status->page;
    if (table->shown > 0)
        end_table(page);
    if (table->is_cut)
        buffer_printf(page, "<p>Only the first %d are shown: filter by key to see others.</p>\n",
                      ROWS_MAX);
    else if (table->shown == 0 && all > 0)
        buffer_add_text(page, "<p>None whose key has this in it.</p>\n");
    else if (table->shown == 0)
        buffer_add_text(page, "<p>None.</p>\n");
    end_section(page);
}

/* ---- holds and waits ------------------------------------------------------------------------- */

static void add_hold_mode(struct status *status, const struct hold_view *hold)
{
    struct buffer *page = &status->page;
    if (hold->permits > 1)
        buffer_printf(page, "<td>slot %d of %u", hold->token.permit - 1, hold->permits);
    else
        add_text_cell(page,
                      text_of(view_is_shared(status->api, hold->policy) ? mode_name(hold->mode)
                                                                        : "exclusive"));
}

static void add_hold_row(struct status *status, const struct hold_view *hold)
{
    struct buffer *page = &status->page;
    add_key_cell(page, hold->key);
    add_label_cell(page, hold->label);
    add_hold_mode(status, hold);
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

void status_add_holds(struct status *status)
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
    add_text_cell(page, text_of(policy->permits > 1       ? "any slot"
                                : policy->kind == KIND_RW ? mode_name(wait->mode)
                                                          : "exclusive"));
    add_span_cell(page, instant_us_between(wait->since, status->now) / 1000);
    buffer_add_text(page, "\n");
}

void status_add_waits(struct status *status)
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

/* How far away it is, and how far off its clock: neither is known of one that does not answer. */
static void add_lag_cells(struct buffer *page, const struct redis_master_view *view)
{
    bool answers = view->state != REDIS_DOWN && view->state != REDIS_CONNECTING;
    if (answers && view->round_trip_us >= 0)
        buffer_printf(page, "<td>%.1f ms<td>%" PRId64 " ms", (double)view->round_trip_us / 1000,
                      view->clock_offset_us / 1000);
    else
        buffer_add_text(page, "<td>&ndash;<td>&ndash;");
}

static void add_vote_cell(struct buffer *page, const struct redis_master_view *view)
{
    buffer_printf(page, "<td>%s", view->votes ? "yes" : "no");
    if (view->guarded_ms <= 0)
        return;
    buffer_add_text(page, ", in ");
    html_add_span(page, view->guarded_ms);
}

static void add_last_error(struct buffer *page, const struct redis_master_view *view)
{
    add_text_cell(page, text_of(view->last_error));
    if (view->last_error[0] == '\0')
        return;
    buffer_add_text(page, " <span class=\"aside\">");
    html_add_span(page, view->last_error_ago_ms);
    buffer_add_text(page, " ago</span>");
}

static void add_master_row(struct status *status, size_t group, size_t master)
{
    struct buffer *page = &status->page;
    struct redis_master_view view =
        redis_master(status->api->backend.redis, (uint8_t)group, (uint8_t)master);
    const char *state = redis_state_name(view.state);
    add_key_cell(page, text_of(status->api->config->groups[group].masters[master].url));
    buffer_printf(page, "<td><span class=\"state %s\">%s</span> ", state, state);
    if (strcmp(view.reason, view.last_error) != 0) /* which stands in the same row */
        html_add_word(page, view.reason);
    add_vote_cell(page, &view);
    add_lag_cells(page, &view);
    add_text_cell(page, text_of(view.version));
    buffer_printf(page, "<td>%" PRIu64, view.reconnects);
    add_last_error(page, &view);
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
                      view.up < view.quorum ? "no quorum"
                      : view.unfit > 0      ? "masters may evict keys"
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

void status_add_groups(struct status *status)
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
