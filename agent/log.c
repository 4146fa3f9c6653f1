/* Writes log lines: one event, one line, one write(2). It never waits for the reader of stderr. */
#include "agent/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/utf8.h"
#include "agent/core/core_assert.h"
#include "config/config.h"

enum {
    LINE_BYTES = 4096,            /* PIPE_BUF: shorter lines of several writers do not mix. */
    BODY_BYTES = LINE_BYTES - 32, /* The rest is kept for the tail of a line that was cut. */
};

#define ELLIPSIS "\xe2\x80\xa6"

struct log_line {
    char bytes[LINE_BYTES];
    size_t len;
    bool cut; /* A part did not fit. Only the tail is added from here on. */
};

static struct {
    int level;
    bool is_set_up, json;
    bool torn; /* The last line was written in part. The next one begins with a line break. */
    uint64_t dropped;
} log_ = {.level = LOG_INFO};

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const level_words[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};

void log_setup(int level, int format)
{
    log_.level = level;
    log_.json = format == LOG_JSON || (format == LOG_AUTO && !isatty(STDERR_FILENO));
    log_.is_set_up = true;
}

bool log_is_on(enum log_level level)
{
    return (int)level >= log_.level;
}

uint64_t log_dropped(void)
{
    return log_.dropped;
}

/* ---- the bounded line ---- */

/* Appends all of the bytes, or none if they do not fit. */
static void put_bytes(struct log_line *line, const char *bytes, size_t len)
{
    if (line->cut || line->len + len > BODY_BYTES) {
        line->cut = true;
        return;
    }
    memcpy(line->bytes + line->len, bytes, len);
    line->len += len;
}

static void put_text(struct log_line *line, const char *text)
{
    put_bytes(line, text, strlen(text));
}

/* Appends the tail. It always fits, because its bytes are kept free. */
static void put_tail(struct log_line *line, const char *text)
{
    size_t len = strlen(text);
    CORE_ASSERT(line->len + len <= LINE_BYTES);
    memcpy(line->bytes + line->len, text, len);
    line->len += len;
}

static void put_time(struct log_line *line)
{
    static time_t second = -1;
    static char date[sizeof("2026-11-21T10:00:00")];
    struct timespec now;
    char text[sizeof(date) + sizeof(".000Z")];
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec != second) {
        struct tm parts;
        second = now.tv_sec;
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", gmtime_r(&second, &parts));
    }
    snprintf(text, sizeof(text), "%s.%03uZ", date, (unsigned)(now.tv_nsec / 1000000) % 1000);
    put_text(line, text);
}

/* ---- values of strangers ---- */

/* Returns true if the character moves a terminal's cursor, ends a line, or changes the order of the
 * text. */
static bool is_unprintable(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
           code == 0xfeff;
}

static void put_code(struct log_line *line, uint32_t code, const char *bytes, size_t size)
{
    char escape[8];
    if (code == '"' || code == '\\')
        put_bytes(line, (const char[]){'\\', (char)code}, 2);
    else if (code == '\n')
        put_text(line, "\\n");
    else if (code == '\t')
        put_text(line, "\\t");
    else if (is_unprintable(code))
        put_bytes(line, escape,
                  (size_t)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)code & 0xffff));
    else
        put_bytes(line, bytes, size);
}

/* Appends the inside of a quoted string. A byte that is not UTF-8 is escaped in text. In JSON,
 * which cannot contain it, it is replaced. */
static void put_escaped(struct log_line *line, struct text value, bool json)
{
    char escape[8];
    for (size_t at = 0, size; at < value.len && !line->cut; at += size) {
        uint32_t code = 0;
        size = utf8_decode(value.at + at, value.len - at, &code);
        if (size > 0) {
            put_code(line, code, value.at + at, size);
            continue;
        }
        size = 1;
        if (json)
            put_text(line, "\\ufffd");
        else
            put_bytes(
                line, escape,
                (size_t)snprintf(escape, sizeof(escape), "\\x%02x", (unsigned char)value.at[at]));
    }
}

static bool is_bare(struct text value)
{
    for (size_t at = 0, size; at < value.len; at += size) {
        uint32_t code = 0;
        size = utf8_decode(value.at + at, value.len - at, &code);
        if (size == 0 || is_unprintable(code) || code == ' ' || code == '"' || code == '\\' ||
            code == '=')
            return false;
    }
    return value.len > 0;
}

static void put_quoted(struct log_line *line, struct text value, bool json)
{
    put_bytes(line, "\"", 1);
    if (line->cut)
        return;
    put_escaped(line, value, json);
    if (line->cut)
        put_tail(line, ELLIPSIS);
    put_tail(line, "\"");
}

/* ---- the two formats ---- */

/* Appends a field, or leaves it out if it does not fit: a name without a value, or half of a
 * number, would mislead. */
static void put_field(struct log_line *line, const struct log_field *field, bool json)
{
    char number[24];
    size_t start = line->len;
    put_text(line, json ? ",\"" : " ");
    put_text(line, field->name);
    put_text(line, json ? "\":" : "=");
    size_t value = line->len;
    if (field->type == LOG_FIELD_INT) {
        snprintf(number, sizeof(number), "%" PRId64, field->number);
        put_text(line, number);
    } else {
        size_t len = field->text == NULL              ? 0
                     : field->type == LOG_FIELD_BYTES ? (size_t)field->number
                                                      : strlen(field->text);
        struct text text = {len == 0 ? "" : field->text, len};
        if (!json && line->len + text.len <= BODY_BYTES && is_bare(text))
            put_bytes(line, text.at, text.len);
        else
            put_quoted(line, text, json);
    }
    if (line->cut && line->len == value)
        line->len = start;
}

static void compose_json(struct log_line *line, enum log_level level, const char *message,
                         const struct log_field *fields, unsigned count)
{
    put_text(line, "{\"ts\":\"");
    put_time(line);
    put_text(line, "\",\"level\":\"");
    put_text(line, level_names[level]);
    put_text(line, "\",\"msg\":");
    put_quoted(line, (struct text){message, strlen(message)}, true);
    for (unsigned i = 0; i < count && !line->cut; i++)
        put_field(line, &fields[i], true);
    put_tail(line, line->cut ? ",\"cut\":true}\n" : "}\n");
}

static void compose_text(struct log_line *line, enum log_level level, const char *message,
                         const struct log_field *fields, unsigned count)
{
    put_time(line);
    put_text(line, " ");
    put_text(line, level_words[level]);
    put_text(line, " ");
    put_escaped(line, (struct text){message, strlen(message)}, false);
    for (unsigned i = 0; i < count && !line->cut; i++)
        put_field(line, &fields[i], false);
    put_tail(line, line->cut ? " " ELLIPSIS "\n" : "\n");
}

/* ---- stderr ---- */

/* Writes the line if stderr takes it at once. The flags of stderr belong to all processes that
 * share it, so it is not made non-blocking but polled. A pipe that polls as writable takes a line
 * of PIPE_BUF bytes whole. A terminal that is stopped does not poll as writable. */
void log_write(enum log_level level, const char *message, const struct log_field *fields,
               unsigned count)
{
    struct log_line line;
    line.len = 0;
    line.cut = false;
    if (!log_.is_set_up)
        log_setup(log_.level, LOG_AUTO);
    if (log_.torn)
        put_text(&line, "\n");
    if (log_.json)
        compose_json(&line, level, message, fields, count);
    else
        compose_text(&line, level, message, fields, count);
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    ssize_t written = -1;
    if (poll(&out, 1, 0) == 1 && out.revents == POLLOUT)
        do
            written = write(STDERR_FILENO, line.bytes, line.len);
        while (written < 0 && errno == EINTR);
    if (written > 0)
        log_.torn = (size_t)written < line.len;
    if (written != (ssize_t)line.len)
        log_.dropped++;
}
