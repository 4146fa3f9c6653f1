/* Text as it stands in HTML. */
#include "api/html.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/text.h"

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

void html_add(struct buffer *page, struct text text)
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

void html_add_word(struct buffer *page, const char *word)
{
    html_add(page, text_of(word));
}

/* Each unit, and how many of the next smaller one it has. */
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
