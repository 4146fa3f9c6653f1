/* Label values as fragments of a page: escaped once, when the registry is built. */
#include "agent/metrics/labels.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/utf8.h"
#include "agent/core/core_assert.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

void label_print(struct buffer *out, const char *name, const char *value)
{
    buffer_add_text(out, name);
    buffer_add_text(out, "=\"");
    for (size_t at = 0, len = strlen(value), size; at < len; at += size) {
        uint32_t code;
        size = utf8_decode(value + at, len - at, &code);
        if (size == 0) {
            size = 1;
            buffer_add_text(out, REPLACEMENT);
        } else if (value[at] == '\n') {
            buffer_add_text(out, "\\n");
        } else {
            if (value[at] == '"' || value[at] == '\\')
                buffer_add_text(out, "\\");
            buffer_add(out, value + at, size);
        }
    }
    buffer_add_text(out, "\"");
}

bool label_add_printed(struct label_values *values, struct buffer *fragment)
{
    CORE_ASSERT(values->count < values->room);
    if (fragment->failed || fragment->bytes == NULL) {
        buffer_free(fragment);
        return false;
    }
    values->fragments[values->count++] = fragment->bytes;
    return true;
}

bool label_add(struct label_values *values, const char *name, const char *value)
{
    struct buffer fragment = {0};
    label_print(&fragment, name, value);
    return label_add_printed(values, &fragment);
}

bool label_make_room(struct label_values *values, size_t room)
{
    values->room = room;
    values->fragments = calloc(room, sizeof(values->fragments[0]));
    return values->fragments != NULL;
}

bool label_add_all(struct label_values *values, const char *name, const char *const *texts,
                   size_t count)
{
    bool ok = label_make_room(values, count);
    for (size_t i = 0; ok && i < count; i++)
        ok = label_add(values, name, texts[i]);
    return ok;
}

void label_free(struct label_values *values)
{
    for (size_t i = 0; values->fragments != NULL && i < values->room; i++)
        free(values->fragments[i]);
    free(values->fragments);
}
