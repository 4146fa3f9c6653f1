/* Builds commands in RESP (resp.h). */
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/redis/resp.h"

/* ---- behind what has been written ---- */

static void append(struct resp *resp, const void *bytes, size_t len)
{
    CORE_ASSERT(len <= resp->size - resp->len);
    if (len > 0)
        memcpy(resp->bytes + resp->len, bytes, len);
    resp->len += len;
}

static struct text digits_of(uint64_t number, char digits[RESP_DIGITS_MAX])
{
    char *at = digits + RESP_DIGITS_MAX;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return (struct text){at, (size_t)(digits + RESP_DIGITS_MAX - at)};
}

void resp_begin(struct resp *resp)
{
    CORE_ASSERT(resp->size >= RESP_FRONT_BYTES);
    resp->at = resp->len = RESP_FRONT_BYTES;
    resp->args = 0;
}

void resp_joined(struct resp *resp, struct text a, struct text b, struct text c)
{
    char digits[RESP_DIGITS_MAX];
    struct text len = digits_of(a.len + b.len + c.len, digits);
    append(resp, "$", 1);
    append(resp, len.at, len.len);
    append(resp, "\r\n", 2);
    append(resp, a.at, a.len);
    append(resp, b.at, b.len);
    append(resp, c.at, c.len);
    append(resp, "\r\n", 2);
    resp->args++;
}

void resp_bytes(struct resp *resp, const char *bytes, size_t len)
{
    static const struct text none = {"", 0};
    resp_joined(resp, (struct text){bytes, len}, none, none);
}

void resp_text(struct resp *resp, const char *text)
{
    resp_bytes(resp, text, strlen(text));
}

void resp_number(struct resp *resp, uint64_t number)
{
    char digits[RESP_DIGITS_MAX];
    struct text text = digits_of(number, digits);
    resp_bytes(resp, text.at, text.len);
}

/* ---- in front of it: what comes first is written last ---- */

static void prepend(struct resp *resp, const void *bytes, size_t len)
{
    CORE_ASSERT(len <= resp->at);
    resp->at -= len;
    memcpy(resp->bytes + resp->at, bytes, len);
}

static void prepend_header(struct resp *resp, const char *kind, size_t number)
{
    char digits[RESP_DIGITS_MAX];
    struct text text = digits_of(number, digits);
    prepend(resp, "\r\n", 2);
    prepend(resp, text.at, text.len);
    prepend(resp, kind, 1);
}

static void prepend_argument(struct resp *resp, struct text text)
{
    prepend(resp, "\r\n", 2);
    prepend(resp, text.at, text.len);
    prepend_header(resp, "$", text.len);
    resp->args++;
}

void resp_text_first(struct resp *resp, const char *text)
{
    prepend_argument(resp, (struct text){text, strlen(text)});
}

void resp_number_first(struct resp *resp, uint64_t number)
{
    char digits[RESP_DIGITS_MAX];
    prepend_argument(resp, digits_of(number, digits));
}

struct text resp_end(struct resp *resp)
{
    prepend_header(resp, "*", resp->args);
    return (struct text){resp->bytes + resp->at, resp->len - resp->at};
}

void resp_wipe(struct resp *resp)
{
    explicit_bzero(resp->bytes + resp->at, resp->len - resp->at);
}
