/* Logs: one line per event on stderr, as text on a terminal and as JSON elsewhere. */
#ifndef LOCKAGENT_LOG_H
#define LOCKAGENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Sets the level and `format`, an enum log_format of config.h. Can be called at any time. */
void log_setup(int level, int format);
bool log_is_on(enum log_level level);

/* One field of a line, made by the macros below. Values are borrowed for the call. */
struct log_field {
    const char *name;
    enum { LOG_FIELD_TEXT, LOG_FIELD_BYTES, LOG_FIELD_INT } type;
    const char *text;
    int64_t number; /* The value; the length of `text` in a LOG_FIELD_BYTES. */
};
#define LOG_TEXT_FIELD(n, t) ((struct log_field){.name = (n), .type = LOG_FIELD_TEXT, .text = (t)})
#define LOG_BYTES_FIELD(n, t)                                                                      \
    ((struct log_field){                                                                           \
        .name = (n), .type = LOG_FIELD_BYTES, .text = (t).at, .number = (int64_t)(t).len})
#define LOG_INT_FIELD(n, i) ((struct log_field){.name = (n), .type = LOG_FIELD_INT, .number = (i)})

/* Writes one event as one line. The message is constant, and the fields vary:
 *
 *   log_event(LOG_INFO, "lock lost", LOG_BYTES_FIELD("key", key), LOG_TEXT_FIELD("reason",
 *   "taken"));
 *
 *   2026-11-21T10:00:00.123Z INFO  lock lost key=jobs/1 reason=taken
 *   {"ts":...,"level":"info","msg":"lock lost","key":...}
 *
 * Bytes that a terminal or JSON cannot contain are escaped. It never fails, and never blocks for
 * long: a line that stderr does not take is dropped and counted. */
#define log_event(level, message, ...)                                                             \
    do {                                                                                           \
        if (log_is_on(level)) {                                                                    \
            const struct log_field fields_[] = {__VA_ARGS__};                                      \
            log_write(level, message, fields_, sizeof(fields_) / sizeof(fields_[0]));              \
        }                                                                                          \
    } while (0)
void log_write(enum log_level level, const char *message, const struct log_field *fields,
               unsigned count);

/* Returns the number of lines that were dropped because stderr did not take them. */
uint64_t log_dropped(void);

#endif
