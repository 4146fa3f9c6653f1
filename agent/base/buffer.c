/* Grows by doubling. A buffer that was cut reports it. */
#include "agent/base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES_MIN = 4096 };

/* Makes room for `len` more bytes and a NUL. If memory is short, sets `failed`. */
static bool buffer_make_room(struct buffer *buffer, size_t len)
{
    if (buffer->failed)
        return false;
    if (len < buffer->size - buffer->len)
        return true;
    size_t size = buffer->size < BUFFER_BYTES_MIN ? BUFFER_BYTES_MIN : buffer->size;
    while (size - buffer->len <= len && size <= SIZE_MAX / 2)
        size *= 2;
    char *bytes = size - buffer->len > len ? realloc(buffer->bytes, size) : NULL;
    if (bytes == NULL) {
        buffer->failed = true;
        return false;
    }
    buffer->bytes = bytes;
    buffer->size = size;
    return true;
}

void buffer_add(struct buffer *buffer, const char *bytes, size_t len)
{
    if (!buffer_make_room(buffer, len))
        return;
    if (len > 0)
        memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
    buffer->bytes[buffer->len] = '\0';
}

void buffer_add_text(struct buffer *buffer, const char *text)
{
    buffer_add(buffer, text, strlen(text));
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (len < 0)
        buffer->failed = true;
    else if (buffer_make_room(buffer, (size_t)len)) {
        vsnprintf(buffer->bytes + buffer->len, (size_t)len + 1, format, again);
        buffer->len += (size_t)len;
    }
    va_end(again);
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}
