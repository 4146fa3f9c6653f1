/* The growable buffer that pages, lines and answers are written into. */
#ifndef LOCKAGENT_BASE_BUFFER_H
#define LOCKAGENT_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* Begins as {0}. `bytes` is malloc'ed and the caller's: buffer_free() frees it. */
struct buffer {
    char *bytes; /* Terminated after the first addition. */
    size_t len;  /* Without the NUL. */
    size_t size; /* allocated */
    bool failed; /* Out of memory: the content is cut. */
};

/* Both add at the end. If memory is short, the text is left out, and `failed` is then true. */
void buffer_add(struct buffer *buffer, const char *bytes, size_t len);
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a terminated text. */
void buffer_add_text(struct buffer *buffer, const char *text);

/* Frees the bytes; the buffer is then empty, and can be used again. */
void buffer_free(struct buffer *buffer);

#endif
