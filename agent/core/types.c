/* Names of the fixed tables, and tokens as text. */
#include "types.h"

#include <string.h>

#include "core_assert.h"

#define NAMED(function, kind, count, TABLE)                                                        \
    const char *function(enum kind value)                                                          \
    {                                                                                              \
        static const char *const names[] = {TABLE(X)};                                             \
        CORE_ASSERT((unsigned)value < (unsigned)count);                                            \
        return names[value];                                                                       \
    }

#define X(name, text) text,
NAMED(op_name, op, OP_COUNT, OPS)
NAMED(vote_name, vote, VOTE_COUNT, VOTES)
NAMED(reason_name, reason, REASON_COUNT, REASONS)
NAMED(cause_name, cause, CAUSE_COUNT, CAUSES)
#undef X
#define X(name, code, text) code,
NAMED(answer_code, answer, ANSWER_COUNT, ANSWERS)
#undef X
#define X(name, code, text) (text),
NAMED(answer_text, answer, ANSWER_COUNT, ANSWERS)
#undef X

const char *algorithm_name(enum algorithm algorithm)
{
    static const char *const names[] = {"redlock", "multilock", "single"};
    CORE_ASSERT((unsigned)algorithm < sizeof(names) / sizeof(names[0]));
    return names[algorithm];
}

const char *renew_name(enum renew renew)
{
    static const char *const names[] = {"unset", "agent", "caller"};
    CORE_ASSERT((unsigned)renew < sizeof(names) / sizeof(names[0]));
    return names[renew];
}

const char *mode_name(enum mode mode)
{
    CORE_ASSERT(mode == MODE_WRITE || mode == MODE_READ);
    return mode == MODE_READ ? "read" : "write";
}

void token_print_random(const struct token *token, char text[TOKEN_RANDOM_CHARS])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < RANDOM_BYTES; i++) {
        text[2 * i] = digits[token->random[i] >> 4];
        text[2 * i + 1] = digits[token->random[i] & 15];
    }
}

/* Writes `.<number>` and returns its length. */
static size_t print_number(uint64_t number, char *text)
{
    char reversed[20];
    size_t digits = 0, len = 0;
    do
        reversed[digits++] = (char)('0' + number % 10);
    while (number /= 10);
    text[len++] = '.';
    while (digits > 0)
        text[len++] = reversed[--digits];
    return len;
}

size_t token_print(const struct token *token, char text[TOKEN_CHARS_MAX + 1])
{
    CORE_ASSERT(token->slot < LIMIT_PERMITS);
    token_print_random(token, text);
    size_t len = TOKEN_RANDOM_CHARS;
    len += print_number(token->fence, text + len);
    if (token->has_slot)
        len += print_number(token->slot, text + len);
    text[len] = '\0';
    CORE_ASSERT(len <= TOKEN_CHARS_MAX);
    return len;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* Reads a decimal number without sign, leading zero or overflow. Returns false for any other
 * text. */
static bool parse_number(const char *at, size_t len, uint64_t *ret_number)
{
    if (len == 0 || len > 20 || (at[0] == '0' && len > 1))
        return false;
    uint64_t number = 0;
    for (size_t i = 0; i < len; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(at[i] - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret_number = number;
    return true;
}

/* Reads `<fencing number>`, and for a semaphore `.<slot>` (R20). */
static bool parse_numbers(struct text text, struct token *token)
{
    size_t len = 0;
    uint64_t slot = 0;
    while (len < text.len && text.at[len] != '.')
        len++;
    if (!parse_number(text.at, len, &token->fence))
        return false;
    token->has_slot = false;
    token->slot = 0;
    if (len == text.len)
        return true;
    if (!parse_number(text.at + len + 1, text.len - len - 1, &slot) || slot >= LIMIT_PERMITS)
        return false;
    token->has_slot = true;
    token->slot = (uint8_t)slot;
    return true;
}

bool token_parse(struct text text, struct token *ret_token)
{
    struct token token;
    if (text.len < TOKEN_RANDOM_CHARS + 2 || text.at[TOKEN_RANDOM_CHARS] != '.')
        return false;
    for (size_t i = 0; i < RANDOM_BYTES; i++) {
        int high = hex_digit(text.at[2 * i]), low = hex_digit(text.at[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        token.random[i] = (uint8_t)(high << 4 | low);
    }
    struct text numbers = {text.at + TOKEN_RANDOM_CHARS + 1, text.len - TOKEN_RANDOM_CHARS - 1};
    if (!parse_numbers(numbers, &token))
        return false;
    *ret_token = token;
    return true;
}

bool text_same(struct text a, struct text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool token_same_random(const struct token *a, const struct token *b)
{
    uint8_t difference = 0;
    for (size_t i = 0; i < RANDOM_BYTES; i++)
        difference |= a->random[i] ^ b->random[i];
    return difference == 0;
}

bool token_same(const struct token *a, const struct token *b)
{
    return token_same_random(a, b) && a->fence == b->fence && token_same_slot(a, b);
}
