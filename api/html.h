/* Text as it stands in HTML. Whatever is not our own goes through here: keys and labels are
 * anybody's to choose. */
#ifndef LOCKAGENT_API_HTML_H
#define LOCKAGENT_API_HTML_H

#include "agent/base/buffer.h"
#include "agent/core/types.h"

/* Adds `text` so that it means itself, between tags and between the quotes of an attribute. */
void html_add(struct buffer *page, struct text text);
/* The same for a terminated text. */
void html_add_word(struct buffer *page, const char *word);

/* Adds a time span with its two largest units: `850 ms`, `12 s`, `3 min 20 s`, `4 d 2 h`. What is
 * below 0 is 0. */
void html_add_span(struct buffer *page, int64_t ms);

/* Adds a number with a comma between thousands. */
void html_add_count(struct buffer *page, uint64_t number);

#endif
