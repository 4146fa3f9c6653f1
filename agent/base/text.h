/* Borrowed texts: compares them with words, and finds bytes that a log or a page must not show. */
#ifndef LOCKAGENT_BASE_TEXT_H
#define LOCKAGENT_BASE_TEXT_H

#include "agent/core/types.h"

/* Returns the bytes of a terminated `word`, which are borrowed. */
struct text text_of(const char *word);

bool text_is(struct text text, const char *word);

/* Returns NULL if `text` is UTF-8 without control characters (C0, DEL, C1). Otherwise returns a
 * description of the fault, to be read after the name of the text's origin. */
const char *text_fault(struct text text);

/* Replaces the bytes that text_fault() refuses by question marks, so that bytes of strangers can be
 * quoted. */
void text_tame(char *text);

/* Replaces every part of `text` that may be a password by `***`, even if its URL is mistyped:
 *
 *   the part before the last `@` of a URL, or of `user:password@host` without a scheme
 *   in a URL of Redis without an `@`: all but host, port and database
 *   the value of `password=` */
void text_hide_passwords(char *text);

#endif
