/* Borrowed texts: compared with words, and checked for what a log or a page must not show. */
#ifndef LOCKAGENT_BASE_TEXT_H
#define LOCKAGENT_BASE_TEXT_H

#include "agent/core/types.h"

/* The bytes of a terminated `word`, which are borrowed. */
struct text text_of(const char *word);

bool text_is(struct text text, const char *word);

/* NULL when `text` is UTF-8 without control characters (C0, DEL, C1); else what is wrong with it,
 * to be read behind the name of what it stands in. */
const char *text_fault(struct text text);

/* Puts question marks in the place of what text_fault() finds wrong: what strangers sent can then
 * be quoted. */
void text_tame(char *text);

/* Puts `***` in the place of what may be a password in `text`, also where its URL is mistyped:
 *
 *   what stands before the last `@` of a URL, or of `user:password@host` without a scheme
 *   in a URL of Redis without an `@`: what is no host, no port and no database
 *   what stands behind `password=` */
void text_hide_passwords(char *text);

#endif
