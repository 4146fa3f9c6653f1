/* Compares borrowed texts, and finds bytes in them that no log, page or terminal may be given. */
#include "agent/base/text.h"

#include <string.h>
#include <strings.h>

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

/* ---- passwords ---- */

/* Hides a part of a text. Returns the end of the stars. The text never gets longer. */
static char *hide(char *from, char *to)
{
    size_t stars = to - from < 3 ? (size_t)(to - from) : 3;
    memset(from, '*', stars);
    memmove(from + stars, to, strlen(to) + 1);
    return from + stars;
}

/* Returns the end of the part that may be shown of an address without an `@`: `host`,
 * `host:port/db`. */
static char *shown_end(char *address, char *end)
{
    char *tail = address + strcspn(address, "/?#");
    if (tail > end)
        tail = end;
    char *bracket = *address == '[' ? memchr(address, ']', (size_t)(tail - address)) : NULL,
         *from = bracket != NULL ? bracket : address,
         *colon = memchr(from, ':', (size_t)(tail - from));
    if (colon != NULL && colon + 1 + strspn(colon + 1, "0123456789:") < tail)
        return colon + 1;
    return tail < end && (*tail != '/' || tail + 1 + strspn(tail + 1, "0123456789") < end)
               ? tail + 1
               : end;
}

/* ---- URLs ---- */

static const char word_ends[] = " \t`";

/* The start of an address, after its scheme; `is_redis`: it may have a password without an `@`. */
struct url_address {
    char *at;
    bool has_scheme, is_redis;
};

static bool ends_in(const char *text, size_t len, const char *scheme)
{
    size_t scheme_len = strlen(scheme);
    return len >= scheme_len && strncasecmp(text + len - scheme_len, scheme, scheme_len) == 0;
}

static bool is_redis(const char *text, size_t len)
{
    return ends_in(text, len, "redis") || ends_in(text, len, "rediss") ||
           ends_in(text, len, "valkey") || ends_in(text, len, "valkeys");
}

/* Finds the address in a word: `redis://address`, mistyped `redis:address`, or without any scheme.
 * Its `at` is NULL in a form that a message shows, `redis[s]://...`. */
static struct url_address find_address(char *word, size_t len)
{
    char *mark = memmem(word, len, "://", 3);
    if (mark != NULL && mark > word && mark[-1] == ']')
        return (struct url_address){0};
    if (mark != NULL)
        return (struct url_address){mark + 3, true, is_redis(word, (size_t)(mark - word))};
    for (char *colon = word; (colon = memchr(colon, ':', len - (size_t)(colon - word))) != NULL;
         colon++)
        if (is_redis(word, (size_t)(colon - word)))
            return (struct url_address){colon + 1 + strspn(colon + 1, "/"), true, true};
    return (struct url_address){.at = word};
}

/* Returns the `@` after a password; NULL: there is none. In a URL of Redis the password may have
 * blanks. Without a scheme there must be a colon, as in `user:password@host`. */
static char *find_password_end(const struct url_address *address, char *word_end)
{
    char *end = word_end;
    if (address->is_redis) {
        char *next = strstr(address->at, "://");
        end = address->at + strcspn(address->at, "`");
        end = next != NULL && next < end ? next : end;
    }
    char *host = memrchr(address->at, '@', (size_t)(end - address->at));
    bool is_plain = host == NULL || address->has_scheme ||
                    memchr(address->at, ':', (size_t)(host - address->at)) != NULL;
    return is_plain ? host : NULL;
}

/* Hides the value of `password=...`, also as one parameter of several. Returns the end of the
 * word. */
static char *hide_parameter(char *from, char *end)
{
    static const char name[] = "password=";
    for (; (size_t)(end - from) >= sizeof(name) - 1; from++) {
        if (strncasecmp(from, name, sizeof(name) - 1) == 0) {
            from += sizeof(name) - 1;
            size_t len = strcspn(from, "& \t`'");
            return len == 0 ? end : hide(from, from + len);
        }
    }
    return end;
}

/* Hides the password of a word. Returns the point to go on from: no further than the end of the
 * hidden part. */
static char *hide_in_word(char *word, char *end)
{
    struct url_address address = find_address(word, (size_t)(end - word));
    if (address.at == NULL)
        return end;
    char *host = find_password_end(&address, end);
    if (host != NULL)
        return hide(address.at, host) + 1;
    char *from = address.is_redis && address.at < end ? shown_end(address.at, end) : end;
    return from < end ? hide(from, end) : hide_parameter(word, end);
}

void text_hide_passwords(char *text)
{
    for (text += strspn(text, word_ends); *text != '\0'; text += strspn(text, word_ends))
        text = hide_in_word(text, text + strcspn(text, word_ends));
}
