/* Collects what is wrong with a configuration, all of it at once and in the order of the file. */
#ifndef LOCKAGENT_CONFIG_REPORT_H
#define LOCKAGENT_CONFIG_REPORT_H

#include "config/config.h"

/* Where a word of the configuration was written. */
struct config_place {
    int line, column;   /* 1-based; 0: not in the file */
    const char *origin; /* NULL: the file; else `flag` or `environment: NAME`, of the loading */
};

struct config_report {
    const char *path; /* of the file; NULL: there is none */
    struct config_errors *errors;
};

/* Adds `<place>: <key>: <message>`; `key` is a full path, or NULL where no key can be named. Keeps
 * the first 64 in the order of the file and counts all. */
void config_report_add(struct config_report *report, struct config_place place, const char *key,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

enum { CONFIG_QUOTED = 96 };

/* Writes `text` between backquotes, cut to a length that fits a message. With `is_url`, and where a
 * `://` is in it, all in front of the last `@` becomes `***`: no message ever shows a password. */
const char *config_quote(const char *text, bool is_url, char quoted[CONFIG_QUOTED]);

#endif
