/* Compares borrowed texts, and finds in them what no log, page or terminal may be given. */
#include "agent/base/text.h"

#include <string.h>

#include "agent/base/utf8.h"

struct text text_of(const char *word)
{
    return (struct text){word, strlen(word)};
}

bool text_is(struct text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

const char *text_fault(struct text text)
{
    for (size_t i = 0, size; i < text.len; i += size) {
        uint32_t code;
        size = utf8_decode(text.at + i, text.len - i, &code);
        if (size == 0)
            return "is not valid UTF-8";
        if (utf8_is_control(code))
            return "has a control character";
    }
    return NULL;
}

void text_tame(char *text)
{
    for (size_t left = strlen(text), size; left > 0; text += size, left -= size) {
        uint32_t code;
        size = utf8_decode(text, left, &code);
        bool tame = size > 0 && !utf8_is_control(code);
        size = size == 0 ? 1 : size;
        if (!tame)
            memset(text, '?', size);
    }
}
