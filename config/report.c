/* Collects what is wrong with a configuration, all of it at once and in the order of the file. */
#include "config/report.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "agent/base/text.h"

enum {
    PATH_SHOWN = 200,
    LIST = sizeof(((struct config_errors *)0)->list) / sizeof(struct config_error)
};

/* What comes from the environment or from flags has no line: it stands behind the file, in the
 * order of its discovery. */
static bool comes_before(struct config_place a, const struct config_error *b)
{
    int a_line = a.line ? a.line : INT_MAX, b_line = b->line ? b->line : INT_MAX;
    return a_line != b_line ? a_line < b_line : a.column < b->column;
}

/* Opens a gap at the place's rank; NULL when the list is full of earlier ones. */
static struct config_error *insert(struct config_errors *errors, struct config_place place)
{
    size_t kept = errors->count++;
    if (kept > LIST)
        kept = LIST;
    size_t at = kept;
    while (at > 0 && comes_before(place, &errors->list[at - 1]))
        at--;
    if (at == LIST)
        return NULL;
    size_t moved = (kept == LIST ? kept - 1 : kept) - at;
    memmove(&errors->list[at + 1], &errors->list[at], moved * sizeof(errors->list[0]));
    errors->list[at].line = place.line;
    errors->list[at].column = place.column;
    return &errors->list[at];
}

static size_t print_place(const struct config_report *report, struct config_place place, char *out,
                          size_t size)
{
    if (place.origin != NULL)
        return (size_t)snprintf(out, size, "%s: ", place.origin);
    if (report->path == NULL)
        return (size_t)snprintf(out, size, "configuration: ");
    size_t len = strlen(report->path);
    const char *tail = len > PATH_SHOWN ? report->path + len - PATH_SHOWN : report->path;
    if (!place.line)
        return (size_t)snprintf(out, size, "%s: ", tail);
    return (size_t)snprintf(out, size, "%s:%d:%d: ", tail, place.line, place.column);
}

void config_report_add(struct config_report *report, struct config_place place, const char *key,
                       const char *format, ...)
{
    struct config_error *error = insert(report->errors, place);
    if (error == NULL)
        return;
    size_t size = sizeof(error->text);
    size_t used = print_place(report, place, error->text, size);
    if (key != NULL && used < size)
        used += (size_t)snprintf(error->text + used, size - used, "%s: ", key);
    if (used < size) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text + used, size - used, format, args);
        va_end(args);
    }
    /* It may quote the name of a file, a variable or a flag, in which anything can stand, and be
     * cut within a character: what a terminal can not take becomes a question mark. */
    text_tame(error->text);
    text_hide_passwords(error->text); /* a URL in the wrong place, or mistyped */
}

const char *config_quote(const char *text, bool is_url, char quoted[CONFIG_QUOTED])
{
    const char *shown = text, *scheme_end = strstr(text, "://"),
               *at = is_url || scheme_end != NULL ? strrchr(text, '@') : NULL;
    int scheme = 0;
    if (at != NULL) {
        shown = at;
        scheme = scheme_end != NULL && scheme_end < at ? (int)(scheme_end + 3 - text) : 0;
    }
    enum { SHOWN = 60 };
    size_t len = strlen(shown), cut = len > SHOWN ? SHOWN : len;
    while (cut > 0 && cut < len && ((unsigned char)shown[cut] & 0xc0) == 0x80)
        cut--;
    snprintf(quoted, CONFIG_QUOTED, "`%.*s%s%.*s%s`", scheme > 9 ? 9 : scheme, text,
             at != NULL ? "***" : "", (int)cut, shown, cut < len ? "..." : "");
    return quoted;
}
