/* Numbers with units: short texts end at the end of their memory, and not one byte behind them
 * is read. Long ones begin with more digits than any number that is allowed.
 *
 * sources: config/units.c
 * options: -eva-precision 2 -eva-slevel 2000 -inline-calls read_decimal,parse_with_units */
#include "config/units.h"
#include "tests/prove/prove.h"

enum { SHORT = 8, DIGITS = 20, LONG = DIGITS + 3 };

int main(void)
{
    char bytes[SHORT], large[LONG];
    size_t len = (size_t)ANY(0, LONG);
    struct text text;
    int64_t number;
    UNKNOWN(bytes);
    UNKNOWN(large);
    for (size_t i = 0; i < DIGITS; i++)
        large[i] = (char)ANY('0', '9');
    //@ split len;
    text.at = len <= SHORT ? bytes + SHORT - len : large;
    text.len = len <= SHORT || len > DIGITS ? len : DIGITS;
    config_parse_duration(text, &number);
    config_number_parse(TYPE_DURATION, text, &number);
    config_number_parse(TYPE_SIZE, text, &number);
    config_number_parse(TYPE_PERCENT, text, &number);
    config_number_parse(TYPE_MODE, text, &number);
    config_number_parse(TYPE_COUNT, text, &number);
    return 0;
}
