/* Tokens as callers send them, of up to NUMBERS characters behind the random part: they end at
 * the end of their memory, and not one byte behind them is read. Any token is printed.
 *
 * sources: agent/core/types.c
 * options: -eva-precision 2 -eva-slevel 3000 -inline-calls parse_number,parse_numbers
 *   -eva-split-return-function token_parse:0 */
#include "agent/core/types.h"
#include "tests/prove/prove.h"

enum { NUMBERS = 6, LONG = TOKEN_RANDOM_CHARS + NUMBERS };

int main(void)
{
    char bytes[LONG], text[TOKEN_CHARS_MAX + 1];
    struct token token, other;
    size_t len = (size_t)ANY(TOKEN_RANDOM_CHARS, LONG);
    UNKNOWN(bytes);
    UNKNOWN(other.random);
    other.has_slot = ANY(0, 1);
    other.slot = (uint8_t)ANY(0, LIMIT_PERMITS - 1);
    other.fence = Frama_C_unsigned_long_interval(0, UINT64_MAX);
    token_print(&other, text);
    token_parse((struct text){bytes, (size_t)ANY(0, TOKEN_RANDOM_CHARS)}, &token);
    //@ split len;
    if (token_parse((struct text){bytes + LONG - len, len}, &token))
        token_same(&token, &other);
    return 0;
}
