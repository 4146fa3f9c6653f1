/* The grammar of RESP, as far as it says where a message ends, and the settings of a lie. */
#include "tests/faults/lies.h"

#include <stdlib.h>
#include <string.h>

static const char *const modes[] = {"never", "instead",      "beside", "unasked",
                                    "half",  "half_and_end", "torn"};
static const char *const tos[] = {"all", "commands", "subscriber"};
_Static_assert(sizeof(modes) / sizeof(*modes) == LIE_MODES && sizeof(tos) / sizeof(*tos) == LIE_TOS,
               "one name each");

/* ---- the end of a message -------------------------------------------------------------------- */

static void begin_line(struct framing *framing, char type)
{
    framing->broken = strchr("+-:$*", type) == NULL || type == '\0';
    framing->type = type;
    framing->number = 0;
    framing->negative = false;
    framing->elements += framing->elements == 0;
    framing->at = IN_LINE;
}

static void end_line(struct framing *framing)
{
    framing->at = AT_TYPE;
    if (framing->type == '$' && !framing->negative) {
        framing->body = framing->number + 2;
        framing->at = IN_BODY;
        return;
    }
    framing->elements--;
    if (framing->type == '*' && !framing->negative)
        framing->elements += framing->number;
}

static void go_on_in_line(struct framing *framing, char byte)
{
    if (byte == '\n')
        end_line(framing);
    else if (byte == '-')
        framing->negative = true;
    else if (byte >= '0' && byte <= '9' && framing->number < INT32_MAX)
        framing->number = framing->number * 10 + (byte - '0');
}

static size_t skip_body(struct framing *framing, size_t length)
{
    const size_t part = (uint64_t)framing->body < length ? (size_t)framing->body : length;
    framing->body -= (int64_t)part;
    if (framing->body == 0) {
        framing->at = AT_TYPE;
        framing->elements--;
    }
    return part;
}

size_t framing_take(struct framing *framing, const char *bytes, size_t length, bool *ret_whole)
{
    size_t taken = 0;
    *ret_whole = false;
    while (taken < length && !framing->broken) {
        if (framing->at == IN_BODY) {
            taken += skip_body(framing, length - taken);
        } else {
            const char byte = bytes[taken++];
            if (framing->at == AT_TYPE)
                begin_line(framing, byte);
            else
                go_on_in_line(framing, byte);
        }
        if (framing->at == AT_TYPE && framing->elements == 0) {
            *ret_whole = true;
            return taken;
        }
    }
    return framing->broken ? length : taken;
}

/* ---- settings -------------------------------------------------------------------------------- */

static bool set_name(const char *const *names, size_t count, const char *value, size_t *ret_number)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], value) == 0) {
            *ret_number = i;
            return true;
        }
    }
    return false;
}

static bool set_number(int64_t *number, int64_t most, const char *value)
{
    char *end;
    const long long read = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || read < 0 || read > most)
        return false;
    *number = read;
    return true;
}

static int nibble(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                          : -1;
}

/* Reads hex digits up to anything else; -1 when there are too many, or half a byte. */
static int read_hex(const char **hex, char *into, size_t size)
{
    size_t length = 0;
    while (nibble(**hex) >= 0) {
        if (length == size || nibble((*hex)[1]) < 0)
            return -1;
        into[length++] = (char)(nibble(**hex) * 16 + nibble((*hex)[1]));
        *hex += 2;
    }
    return (int)length;
}

static bool set_texts(struct lie *lie, const char *hex)
{
    size_t filled = 0;
    lie->text_count = 0;
    while (lie->text_count < LIE_TEXTS) {
        const int length = read_hex(&hex, lie->texts + filled, LIE_BYTES - filled);
        if (length < 0)
            return false;
        lie->text_ends[lie->text_count++] = filled += (size_t)length;
        if (*hex != '/')
            return *hex == '\0';
        hex++;
    }
    return false;
}

static bool set_tail(struct lie *lie, const char *hex)
{
    const int length = read_hex(&hex, lie->tail, TAIL_BYTES);
    lie->tail_length = length > 0 ? (size_t)length : 0;
    return length >= 0 && *hex == '\0';
}

bool lie_set(struct lie *lie, const char *name, const char *value)
{
    size_t number;
    if (strcmp(name, "lie") == 0 && set_name(modes, LIE_MODES, value, &number)) {
        lie->mode = (enum lie_mode)number;
        return true;
    }
    if (strcmp(name, "lie_to") == 0 && set_name(tos, LIE_TOS, value, &number)) {
        lie->to = (enum lie_to)number;
        return true;
    }
    if (strcmp(name, "lie_texts") == 0)
        return set_texts(lie, value);
    if (strcmp(name, "lie_tail") == 0)
        return set_tail(lie, value);
    if (strcmp(name, "lie_permille") == 0)
        return set_number(&lie->permille, 1000, value);
    return strcmp(name, "lie_times") == 0 && set_number(&lie->tail_times, 1 << 24, value);
}

const char *lie_text(const struct lie *lie, uint64_t drawn, size_t *ret_length)
{
    *ret_length = 0;
    if (lie->text_count == 0)
        return lie->texts;
    const size_t which = (size_t)(drawn % lie->text_count),
                 begins = which > 0 ? lie->text_ends[which - 1] : 0;
    *ret_length = lie->text_ends[which] - begins;
    return lie->texts + begins;
}
