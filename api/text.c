/* Decoding and encoding of what travels in URIs, forms and JSON. Nothing here forgives: what is not exactly right is
 * refused by name. */
#include "api/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char HEX[] = "0123456789ABCDEF";

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *text_percent_decode(struct text raw, bool plus_is_blank, char *out, size_t size, size_t *ret_len)
{
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];
        if (c == '+' && plus_is_blank)
            c = ' ';
        if (c == '%') {
            bool complete = i + 2 < raw.len;
            int high = complete ? hex_digit(raw.at[i + 1]) : -1;
            int low = complete ? hex_digit(raw.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return "has a % that two hexadecimal digits do not follow";
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (len == size)
            return "is too long";
        out[len++] = c;
    }
    *ret_len = len;
    return NULL;
}

/* ---- UTF-8 ----------------------------------------------------------------------------------------------------- */

/* How many bytes the character at `at` has, 0 where it is no UTF-8. The bounds of the second byte keep out overlong
 * forms, surrogates and what lies beyond U+10FFFF. */
static size_t character_len(const unsigned char *at, size_t left)
{
    unsigned char lead = at[0], low = 0x80, high = 0xBF;
    if (lead < 0x80)
        return 1;
    size_t len = lead >= 0xC2 && lead <= 0xDF ? 2 : (lead & 0xF0) == 0xE0 ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
    if (len == 0 || len > left)
        return 0;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

const char *text_fault(struct text text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    for (size_t i = 0; i < text.len;) {
        size_t len = character_len(at + i, text.len - i);
        if (len == 0)
            return "is not valid UTF-8";
        if (at[i] < 0x20 || at[i] == 0x7F || (at[i] == 0xC2 && at[i + 1] < 0xA0))
            return "has a control character";
        i += len;
    }
    return NULL;
}

void text_tame(char *text)
{
    for (size_t left = strlen(text), len; left > 0; text += len, left -= len) {
        len = character_len((const unsigned char *)text, left);
        bool tame = len > 0 && text_fault((struct text){text, len}) == NULL;
        len = len == 0 ? 1 : len;
        if (!tame)
            memset(text, '?', len);
    }
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static bool stands_for_itself(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~/:@!$&'()*+,;=", c) != NULL);
}

size_t text_percent_encode(struct text text, char *out, size_t size)
{
    assert(size > 3 * text.len);
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

size_t text_json_escape(struct text text, char *out, size_t size)
{
    assert(size > 2 * text.len);
    char *end = out;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '"' || text.at[i] == '\\')
            *end++ = '\\';
        *end++ = text.at[i];
    }
    *end = '\0';
    return (size_t)(end - out);
}

const char *text_duration(int64_t ms, char *out, size_t size)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    size_t i = 0;
    while (ms % units[i].ms != 0)
        i++;
    snprintf(out, size, "%lld%s", (long long)(ms / units[i].ms), units[i].unit);
    return out;
}

bool text_is(struct text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

struct text text_of(const char *word)
{
    return (struct text){word, strlen(word)};
}
