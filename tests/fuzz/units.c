/* Fuzzes durations, sizes, percentages, modes and counts against exact arithmetic; the first byte
 * chooses which. */
#include "config/units.h"

#include "agent/base/text.h"
#include "config/config.h"
#include "tests/fuzz/fuzz.h"

static const struct {
    char letter;
    enum config_type type;
    const struct {
        const char *name;
        int64_t worth;
    } units[5];
} kinds[] = {
    {'d', TYPE_DURATION, {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0}}},
    {'s', TYPE_SIZE, {{"B", 1}, {"KiB", 1024}, {"MiB", 1048576}, {NULL, 0}}},
    {'p', TYPE_PERCENT, {{"%", 10000}, {NULL, 0}}},
    {'c', TYPE_COUNT, {{"", 1}, {NULL, 0}}},
    {'m', TYPE_MODE, {{NULL, 0}}},
};

/* Parses `digits[.digits]unit` with at most nine decimals, whole after all. Returns false if the
 * text has another form, or if the number cannot be counted exactly. */
static bool reference(struct text text, size_t kind, int64_t *ret_number)
{
    __extension__ __int128 number = 0, scale = 1;
    size_t i = 0, decimals = 0;
    for (; i < text.len && text.at[i] >= '0' && text.at[i] <= '9'; i++)
        number = number > 1000000000000 ? number : number * 10 + (text.at[i] - '0');
    if (i == 0 || number > 1000000000000)
        return false;
    if (i < text.len && text.at[i] == '.') {
        for (i++; i < text.len && text.at[i] >= '0' && text.at[i] <= '9';
             i++, decimals++, scale *= 10)
            if (decimals < 9)
                number = number * 10 + (text.at[i] - '0');
        if (decimals == 0 || decimals > 9 || kinds[kind].type == TYPE_COUNT)
            return false;
    }
    for (size_t u = 0; kinds[kind].units[u].name != NULL; u++)
        if (text_is((struct text){text.at + i, text.len - i}, kinds[kind].units[u].name)) {
            *ret_number = (int64_t)(number * kinds[kind].units[u].worth / scale);
            return number * kinds[kind].units[u].worth % scale == 0;
        }
    return false;
}

static void check_print(enum config_type type, int64_t number)
{
    char text[64];
    int64_t again = -1;
    config_number_print(type, number, text, sizeof(text));
    FUZZ_CHECK(config_number_parse(type, text_of(text), &again) == NULL && again == number,
               "%lld is printed as %s", (long long)number, text);
}

static void check_duration(struct text text, const char *fault, int64_t number)
{
    const int64_t ten_years_ms = 10LL * 365 * 24 * 3600000;
    int64_t ms = -1;
    bool taken = config_parse_duration(text, &ms);
    FUZZ_CHECK(taken == (fault == NULL && number <= ten_years_ms), "%lld ms", (long long)number);
    FUZZ_CHECK(ms == (taken ? number : -1), "%lld ms", (long long)ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t kind = 0;
    while (kind < sizeof(kinds) / sizeof(kinds[0]) - 1 && kinds[kind].letter != (char)data[0])
        kind++;
    struct text text = fuzz_text(data + 1, size - 1);
    enum config_type type = kinds[kind].type;
    int64_t number = -1, expected = -1;
    const char *fault = config_number_parse(type, text, &number);
    FUZZ_CHECK((fault == NULL) == (number >= 0), "%s", fault == NULL ? "negative" : fault);
    FUZZ_CHECK(fault == NULL || strncmp(fault, "is ", 3) == 0 || strncmp(fault, "has ", 4) == 0,
               "%s", fault);
    if (type == TYPE_DURATION)
        check_duration(text, fault, number);
    if (type != TYPE_MODE && reference(text, kind, &expected))
        FUZZ_CHECK(fault == NULL && number == expected, "%lld", (long long)expected);
    else if (type != TYPE_MODE && fault == NULL)
        FUZZ_CHECK(number >= 1000000000000, "%lld is none", (long long)number);
    else if (fault == NULL)
        FUZZ_CHECK(text.len == 4 && number <= 0777, "%lld", (long long)number);
    if (fault == NULL && number < 1000000000000)
        check_print(type, number);
    return 0;
}
