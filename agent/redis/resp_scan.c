/* The scanner of resp_scan.h: one step a byte, but for strings, which are passed over.
 *
 *   TYPE --+ or ---> TEXT -----------------> LINE_END --> the element has ended
 *     |---:, $, *--> NUMBER ---------------> LINE_END --> the same; of a list: its elements follow
 *                                               | of a string
 *                    STRING <-------------------+
 *                       +--> STRING_CR -----> LINE_END */
#include <string.h>

#include "agent/redis/resp_scan.h"

enum resp_state {
    STATE_TYPE,
    STATE_TEXT,
    STATE_NUMBER,
    STATE_LINE_END,
    STATE_STRING,
    STATE_STRING_CR
};

bool resp_scan_is_fresh(const struct resp_scan *scan)
{
    return scan->bytes == 0;
}

/* Reads the number. Returns false unless it is written as a 64-bit integer is printed. */
static bool scanned_number(const struct resp_scan *scan, int64_t *ret_number)
{
    bool negative = scan->digits > 0 && scan->number[0] == '-';
    uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX, number = 0;
    const char *digits = scan->number + negative;
    size_t count = (size_t)scan->digits - negative;
    if (count == 0 || (digits[0] == '0' && (count > 1 || negative)))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(digits[i] - '0');
        if (number > (most - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret_number = negative ? (int64_t)(0 - number) : (int64_t)number;
    return true;
}

static enum resp_found element_ended(struct resp_scan *scan)
{
    scan->state = STATE_TYPE;
    while (scan->depth > 0) {
        if (--scan->left[scan->depth - 1] > 0)
            return RESP_MORE;
        scan->depth--;
    }
    return RESP_REPLY;
}

static enum resp_found list_began(struct resp_scan *scan, int64_t count)
{
    if (count <= 0)
        return element_ended(scan);
    if (count > RESP_ELEMENTS_MAX - (int64_t)scan->elements || scan->depth == RESP_DEPTH_MAX)
        return RESP_OVERSIZED;
    scan->elements += (uint32_t)count;
    scan->left[scan->depth++] = (uint32_t)count;
    scan->state = STATE_TYPE;
    return RESP_MORE;
}

static enum resp_found string_began(struct resp_scan *scan, int64_t len)
{
    if (len < 0)
        return element_ended(scan);
    if (len > RESP_BYTES_MAX - (int64_t)scan->bytes)
        return RESP_OVERSIZED;
    scan->string_left = (size_t)len;
    scan->state = len > 0 ? STATE_STRING : STATE_STRING_CR;
    return RESP_MORE;
}

static enum resp_found line_ended(struct resp_scan *scan)
{
    if (scan->digits == 0) /* The line of a text, or the end of a string. */
        return element_ended(scan);
    int64_t number;
    bool is_number = scanned_number(scan, &number);
    scan->digits = 0;
    if (!is_number || (scan->type != ':' && number < -1))
        return RESP_MALFORMED;
    return scan->type == '*'   ? list_began(scan, number)
           : scan->type == '$' ? string_began(scan, number)
                               : element_ended(scan);
}

static enum resp_found type_came(struct resp_scan *scan, char byte)
{
    scan->type = byte;
    scan->digits = 0;
    switch (byte) {
    case '+':
    case '-':
        scan->state = STATE_TEXT;
        return RESP_MORE;
    case ':':
    case '$':
    case '*':
        scan->state = STATE_NUMBER;
        return RESP_MORE;
    default:
        return RESP_MALFORMED;
    }
}

static enum resp_found scan_byte(struct resp_scan *scan, char byte)
{
    switch ((enum resp_state)scan->state) {
    case STATE_TYPE:
        return type_came(scan, byte);
    case STATE_TEXT:
        scan->state = byte == '\r' ? STATE_LINE_END : STATE_TEXT;
        return byte == '\n' ? RESP_MALFORMED : RESP_MORE;
    case STATE_NUMBER:
        if (byte == '\r') {
            scan->state = STATE_LINE_END;
            return scan->digits > 0 ? RESP_MORE : RESP_MALFORMED;
        }
        if (scan->digits >= RESP_NUMBER_CHARS)
            return RESP_MALFORMED;
        scan->number[scan->digits++] = byte;
        return (byte >= '0' && byte <= '9') || byte == '-' ? RESP_MORE : RESP_MALFORMED;
    case STATE_LINE_END:
        return byte == '\n' ? line_ended(scan) : RESP_MALFORMED;
    case STATE_STRING: /* resp_scan() skips strings. */
        break;
    case STATE_STRING_CR:
        scan->state = STATE_LINE_END;
        return byte == '\r' ? RESP_MORE : RESP_MALFORMED;
    }
    return RESP_MALFORMED;
}

enum resp_found resp_scan(struct resp_scan *scan, const char *bytes, size_t len, size_t *ret_taken)
{
    size_t at = 0;
    enum resp_found found = RESP_MORE;
    while (at < len && found == RESP_MORE) {
        if (scan->bytes >= RESP_BYTES_MAX) {
            found = RESP_OVERSIZED;
        } else if (scan->state == STATE_STRING) {
            size_t passed = len - at < scan->string_left ? len - at : scan->string_left;
            at += passed;
            scan->bytes += passed;
            scan->string_left -= passed;
            scan->state = scan->string_left > 0 ? STATE_STRING : STATE_STRING_CR;
        } else {
            scan->bytes++;
            found = scan_byte(scan, bytes[at++]);
        }
    }
    if (found == RESP_REPLY)
        memset(scan, 0, sizeof(*scan));
    *ret_taken = at;
    return found;
}
