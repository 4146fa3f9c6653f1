/* Percent-encoding, as in URIs and forms. Nothing here forgives: what is not exactly right is
 * refused by name. */
#include "api/percent.h"

#include <string.h>

#include "agent/core/core_assert.h"

static const char HEX[] = "0123456789ABCDEF";

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *percent_decode(struct text raw, bool plus_is_blank, char *out, size_t size,
                           size_t *ret_len)
{
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];
        if (c == '+' && plus_is_blank)
            c = ' ';
        if (c == '%') {
            bool complete = i + 2 < raw.len;
            int high = complete ? hex_value(raw.at[i + 1]) : -1;
            int low = complete ? hex_value(raw.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return "has a % that two hexadecimal digits do not follow";
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (len >= size)
            return "is too long";
        out[len++] = c;
    }
    *ret_len = len;
    return NULL;
}

static bool stands_for_itself(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~/:@!$&'()*+,;=", c) != NULL);
}

size_t percent_encode(struct text text, char *out, size_t size)
{
    CORE_ASSERT(size > 3 * text.len);
    char *end = out;
    for (size_t i = 0; i < text.len; i++) {
        if (stands_for_itself(text.at[i])) {
            *end++ = text.at[i];
            continue;
        }
        *end++ = '%';
        *end++ = HEX[(unsigned char)text.at[i] >> 4];
        *end++ = HEX[(unsigned char)text.at[i] & 15];
    }
    *end = '\0';
    return (size_t)(end - out);
}
