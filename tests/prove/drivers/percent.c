/* Percent-decoding and -encoding. Short texts end at the end of their memory, and so do results.
 * Not one byte behind either is touched. Long ones are up to LONG bytes, into memory of up to LONG
 * bytes.
 *
 * sources: api/params.c
 * options: -eva-precision 2 -eva-split-limit 100 */
#include "api/params.h"
#include "tests/prove/prove.h"

enum { SHORT = 5, LONG = 4096 };

static void short_texts(void)
{
    char raw[SHORT], decoded[SHORT], encoded[3 * SHORT + 1];
    size_t len = (size_t)ANY(0, SHORT), size = (size_t)ANY(0, SHORT), ret_len;
    UNKNOWN(raw);
    //@ split len;
    struct text text = {raw + SHORT - len, len};
    percent_encode(text, encoded + 3 * (SHORT - len), 3 * len + 1);
    //@ split size;
    percent_decode(text, ANY(0, 1), decoded + SHORT - size, size, &ret_len);
}

static void long_texts(void)
{
    char raw[LONG], decoded[LONG];
    size_t ret_len;
    UNKNOWN(raw);
    percent_decode((struct text){raw, (size_t)ANY(0, LONG)}, ANY(0, 1), decoded,
                   (size_t)ANY(0, LONG), &ret_len);
}

int main(void)
{
    short_texts();
    long_texts();
    return 0;
}
