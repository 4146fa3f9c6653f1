/* Keys as a request's target has them, UTF-8 and control characters. Short texts end at the end of
 * their memory: not one byte behind them is read. The memory that is decoded into has been
 * written before, as that of a request has.
 *
 * sources: agent/base/key.c agent/base/text.c api/params.c
 * options: -eva-precision 2 -eva-slevel 5000
 *   -eva-split-return-function utf8_decode:0:1:2:3:4,percent_decode:0 */
#include "agent/base/key.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"
#include "api/params.h"
#include "tests/prove/prove.h"

enum { SHORT = 5 };

int main(void)
{
    char bytes[SHORT], key[LIMIT_KEY_BYTES];
    size_t len = (size_t)ANY(0, SHORT), decoded;
    UNKNOWN(bytes);
    UNKNOWN(key);
    //@ split len;
    struct text text = {bytes + SHORT - len, len};
    uint32_t code;
    if (len > 0)
        utf8_decode(text.at, text.len, &code);
    text_fault(text);
    key_fault(text);
    key_is_agents_own(text);
    key_decode(text, key, &decoded);
    return 0;
}
