/* Fuzzes tokens: a text that parses equals the printed token (D3), and every token can be
 * printed. */
#include "tests/fuzz/fuzz.h"

static void check_print(const struct token *token)
{
    char text[TOKEN_CHARS_MAX + 1], random[TOKEN_RANDOM_CHARS];
    struct token again = {.fence = 0};
    size_t len = token_print(token, text);
    FUZZ_CHECK(len <= TOKEN_CHARS_MAX && strlen(text) == len, "%zu characters", len);
    FUZZ_CHECK(token_parse((struct text){text, len}, &again), "%s", text);
    FUZZ_CHECK(token_same_random(token, &again) && token->fence == again.fence &&
                   token_same_slot(token, &again),
               "%s", text);
    token_print_random(token, random);
    FUZZ_CHECK(memcmp(random, text, sizeof(random)) == 0, "%s", text);
    again.random[token->fence % RANDOM_BYTES] ^= 1;
    FUZZ_CHECK(!token_same_random(token, &again), "%s: one bit more or less", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TOKEN_CHARS_MAX + 1];
    struct token token = {.fence = 0};
    struct fuzz_bytes bytes = {data, size};
    if (token_parse(fuzz_text(data, size), &token)) {
        size_t len = token_print(&token, text);
        FUZZ_CHECK(len == size && memcmp(text, data, size) == 0, "%s is another spelling", text);
        check_print(&token);
    } else {
        FUZZ_CHECK(token.fence == 0 && !token.has_slot, "a refused text has left a token");
    }
    for (size_t i = 0; i < RANDOM_BYTES; i++)
        token.random[i] = fuzz_byte(&bytes);
    token.fence = fuzz_number(&bytes, sizeof(token.fence));
    uint8_t slots = fuzz_byte(&bytes) % (LIMIT_PERMITS + 1);
    token.has_slot = slots > 0;
    token.slot = (uint8_t)(slots - token.has_slot);
    check_print(&token);
    return 0;
}
