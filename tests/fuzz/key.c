/* Fuzzes the decoding of keys against a second reading of D3 that shares no code with it. */
#include "api/params.h"

#include <jansson.h>

#include "agent/base/text.h"
#include "api/internal.h"
#include "tests/fuzz/fuzz.h"

static int hex(char c)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF",
               *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits) % 16;
}

/* Decodes a raw key. Returns true if every `%` is before two digits and no other character is one
 * that a URI must not hold plainly. */
static bool decode(struct text raw, char *out, size_t *ret_len)
{
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];
        if (c == '#' || c == ' ')
            return false;
        if (c == '%') {
            if (raw.len - i < 3 || hex(raw.at[i + 1]) < 0 || hex(raw.at[i + 2]) < 0)
                return false;
            c = (char)(hex(raw.at[i + 1]) * 16 + hex(raw.at[i + 2]));
            i += 2;
        }
        out[len++] = c;
    }
    *ret_len = len;
    return len >= 1 && len <= LIMIT_KEY_BYTES;
}

/* Reads the character at the start and returns its length; 0 if it is no UTF-8. It reads the number
 * of bytes off the leading ones and judges the value afterwards. */
static size_t read_character(const char *text, size_t len, uint32_t *ret_code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    size_t size = at[0] < 0x80       ? 1
                  : at[0] >> 5 == 6  ? 2
                  : at[0] >> 4 == 14 ? 3
                  : at[0] >> 3 == 30 ? 4
                                     : 0;
    if (size == 0 || size > len)
        return 0;
    uint32_t code = size == 1 ? at[0] : at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (at[i] >> 6 != 2)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    *ret_code = code;
    return code < least[size] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : size;
}

static bool is_plain_text(const char *key, size_t len)
{
    uint32_t code = 0;
    for (size_t i = 0, size; i < len; i += size) {
        size = read_character(key + i, len - i, &code);
        if (size == 0 || code < 0x20 || (code >= 0x7f && code <= 0x9f))
            return false;
    }
    return true;
}

static bool survives_proxies(const char *key, size_t len)
{
    char framed[LIMIT_KEY_BYTES + 3];
    int size = snprintf(framed, sizeof(framed), "/%.*s/", (int)len, key);
    return (size_t)size == len + 2 && strstr(framed, "//") == NULL &&
           strstr(framed, "/./") == NULL && strstr(framed, "/../") == NULL;
}

static void check_key(const char *key, size_t len)
{
    char encoded[3 * LIMIT_KEY_BYTES + 1], escaped[2 * LIMIT_KEY_BYTES + 1],
        quoted[2 * LIMIT_KEY_BYTES + 3];
    char again[LIMIT_KEY_BYTES];
    size_t again_len = 0;
    struct text text = {key, len};
    size_t encoded_len = percent_encode(text, encoded, sizeof(encoded));
    FUZZ_CHECK(
        strspn(
            encoded,
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/:@!$&'()*+,;=%") ==
            encoded_len,
        "%s is no path", encoded);
    FUZZ_CHECK(key_decode((struct text){encoded, encoded_len}, again, &again_len) == NULL, "%s",
               encoded);
    FUZZ_CHECK(again_len == len && memcmp(again, key, len) == 0, "%s names another key", encoded);
    view_escape(text, escaped, sizeof(escaped));
    snprintf(quoted, sizeof(quoted), "\"%s\"", escaped);
    json_t *string = json_loads(quoted, JSON_DECODE_ANY, NULL);
    FUZZ_CHECK(string != NULL && json_string_length(string) == len &&
                   memcmp(json_string_value(string), key, len) == 0,
               "%s is another string", quoted);
    json_decref(string);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char key[LIMIT_KEY_BYTES];
    size_t len = SIZE_MAX, reference_len = 0;
    char *reference = malloc(size + 1);
    const char *fault = key_decode(fuzz_text(data, size), key, &len);
    bool allowed = decode(fuzz_text(data, size), reference, &reference_len) &&
                   is_plain_text(reference, reference_len) &&
                   survives_proxies(reference, reference_len);
    FUZZ_CHECK(allowed == (fault == NULL), "%s", fault == NULL ? "taken" : fault);
    if (fault == NULL) {
        FUZZ_CHECK(len == reference_len && memcmp(key, reference, len) == 0, "decoded otherwise");
        check_key(key, len);
    } else {
        FUZZ_CHECK(len == SIZE_MAX, "a refused key has a length");
        FUZZ_CHECK(strncmp(fault, "is ", 3) == 0 || strncmp(fault, "has ", 4) == 0, "%s", fault);
    }
    free(reference);
    return 0;
}
