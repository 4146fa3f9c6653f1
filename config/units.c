/* Reads and writes durations, sizes, percentages, octal modes and counts. Accepts no sign, no blank
 * and no exponent, and never rounds a value. */
#include "config/units.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/core_assert.h"

struct unit {
    const char *name;
    int64_t worth;
};

/* Largest first: printing tries them in this order. */
static const struct unit durations[] = {
    {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};
static const struct unit sizes[] = {{"MiB", 1048576}, {"KiB", 1024}, {"B", 1}, {NULL, 0}};
static const struct unit percents[] = {{"%", 10000}, {NULL, 0}};
static const struct unit counts[] = {{"", 1}, {NULL, 0}};

/* No unit makes WHOLE_MAX overflow. A larger number is read as INT64_MAX, which nothing allows. No
 * duration is longer than ten years. */
static const int64_t WHOLE_MAX = 1000000000000;
static const int64_t DURATION_MS_MAX = 10LL * 365 * 24 * 3600000;

struct decimal {
    int64_t whole, fraction, scale; /* whole + fraction / scale */
    struct text unit;               /* The rest of the text. */
};

static bool is_digit(struct text text, size_t i)
{
    return i < text.len && text.at[i] >= '0' && text.at[i] <= '9';
}

static bool read_decimal(struct text text, struct decimal *ret)
{
    struct decimal number = {.scale = 1};
    size_t i = 0;
    for (; is_digit(text, i); i++) {
        number.whole = number.whole * 10 + (text.at[i] - '0');
        if (number.whole > WHOLE_MAX)
            number.whole = WHOLE_MAX + 1;
    }
    if (i == 0)
        return false;
    if (i < text.len && text.at[i] == '.') {
        size_t begin = ++i;
        for (; is_digit(text, i); i++) {
            number.fraction = number.fraction * 10 + (text.at[i] - '0');
            number.scale *= 10;
            if (i - begin >= 9)
                return false;
        }
        if (i == begin)
            return false;
    }
    number.unit = (struct text){text.at + i, text.len - i};
    *ret = number;
    return true;
}

static const char *parse_with_units(struct text text, const struct unit *units, const char *not_one,
                                    int64_t *ret)
{
    struct decimal number;
    if (!read_decimal(text, &number))
        return not_one;
    if (number.unit.len == 0 && units[0].name[0])
        return "has no unit";
    for (const struct unit *unit = units; unit->name != NULL; unit++) {
        if (number.unit.len != strlen(unit->name) ||
            memcmp(number.unit.at, unit->name, number.unit.len) != 0)
            continue;
        if (number.fraction * unit->worth % number.scale != 0)
            return "is more exact than can be kept";
        *ret = number.whole > WHOLE_MAX
                   ? INT64_MAX
                   : number.whole * unit->worth + number.fraction * unit->worth / number.scale;
        return NULL;
    }
    return not_one;
}

bool config_parse_duration(struct text text, int64_t *ret_ms)
{
    int64_t ms;
    if (parse_with_units(text, durations, "", &ms) != NULL || ms > DURATION_MS_MAX)
        return false;
    *ret_ms = ms;
    return true;
}

/* Parses four digits with a leading zero. A tool that rewrites 0660 as decimal 432 must not change
 * the access rights unnoticed. */
static const char *parse_mode(struct text text, int64_t *ret)
{
    if (text.len != 4 || text.at[0] != '0')
        return "is not an octal mode";
    int64_t mode = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '7')
            return "is not an octal mode";
        mode = mode * 8 + (text.at[i] - '0');
    }
    *ret = mode;
    return NULL;
}

const char *config_number_parse(enum config_type type, struct text text, int64_t *ret_number)
{
    switch ((int)type) {
    case TYPE_DURATION:
        return parse_with_units(text, durations, "is not a duration", ret_number);
    case TYPE_SIZE:
        return parse_with_units(text, sizes, "is not a size", ret_number);
    case TYPE_PERCENT:
        return parse_with_units(text, percents, "is not a percentage", ret_number);
    case TYPE_MODE:
        return parse_mode(text, ret_number);
    default:
        CORE_ASSERT(type == TYPE_COUNT);
        for (size_t i = 0; i < text.len; i++)
            if (!is_digit(text, i))
                return "is not a whole number";
        return parse_with_units(text, counts, "is not a whole number", ret_number);
    }
}

static const char *print_with_units(int64_t number, const struct unit *units, char *out,
                                    size_t size)
{
    const struct unit *unit = units;
    while (unit[1].name != NULL && number % unit->worth != 0)
        unit++;
    snprintf(out, size, "%lld%s", (long long)(number / unit->worth), unit->name);
    return out;
}

/* Prints parts per million as a percentage, with no more decimals than needed. */
static const char *print_percent(int64_t ppm, char *out, size_t size)
{
    char decimals[8];
    snprintf(decimals, sizeof(decimals), "%04d", (int)(ppm % 10000));
    size_t len = strlen(decimals);
    while (len > 0 && decimals[len - 1] == '0')
        decimals[--len] = '\0';
    snprintf(out, size, "%lld%s%s%%", (long long)(ppm / 10000), len ? "." : "", decimals);
    return out;
}

const char *config_print_duration(int64_t ms, char *out, size_t size)
{
    return print_with_units(ms, ms == 0 ? &durations[2] : durations, out, size); /* 0s */
}

const char *config_number_print(enum config_type type, int64_t number, char *out, size_t size)
{
    switch ((int)type) {
    case TYPE_DURATION:
        return config_print_duration(number, out, size);
    case TYPE_SIZE:
        return print_with_units(number, sizes, out, size);
    case TYPE_PERCENT:
        return print_percent(number, out, size);
    case TYPE_MODE:
        snprintf(out, size, "%04o", (unsigned)number);
        return out;
    default:
        CORE_ASSERT(type == TYPE_COUNT);
        return print_with_units(number, counts, out, size);
    }
}
