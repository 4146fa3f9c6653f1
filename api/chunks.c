/* A scanner of chunked bodies. It keeps nothing of them. It tells whether the lines around the data
 * are well formed, where the body ends, and how much data it had.
 *
 *   SIZE -> DIGITS -+-> BLANKS -> EXTENSION -+-> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE
 *                   '------------------------'      |
 *                                      a size of 0: '-> LAST -> LAST_LF -> DONE
 *                                       a trailer:     LAST -> NAME -> VALUE -> VALUE_LF -> LAST */
#include "api/chunks.h"

#include <string.h>

static int digit_of(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    char lower = (char)(byte | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* Of an extension or of a field's value. */
static bool is_text(char byte)
{
    return ((unsigned char)byte >= 0x20 && byte != 0x7f) || byte == '\t';
}

static bool is_name(char byte)
{
    char lower = (char)(byte | 0x20);
    return (byte >= '0' && byte <= '9') || (lower >= 'a' && lower <= 'z') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

/* More than can be counted stays more than may come. */
static void take_digit(struct chunks *chunks, int digit)
{
    chunks->left =
        chunks->left > UINT64_MAX >> 4 ? UINT64_MAX : chunks->left << 4 | (uint64_t)digit;
}

static enum chunks_state behind_size(struct chunks *chunks, char byte)
{
    int digit = digit_of(byte);
    if (digit >= 0) {
        take_digit(chunks, digit);
        return CHUNKS_DIGITS;
    }
    return chunks->state == CHUNKS_SIZE ? CHUNKS_BROKEN
           : byte == '\r'               ? CHUNKS_SIZE_LF
           : byte == ';'                ? CHUNKS_EXTENSION
           : is_blank(byte)             ? CHUNKS_BLANKS
                                        : CHUNKS_BROKEN;
}

static enum chunks_state next_if(char byte, char wanted, enum chunks_state next)
{
    return byte == wanted ? next : CHUNKS_BROKEN;
}

static enum chunks_state next_state(struct chunks *chunks, char byte)
{
    switch (chunks->state) {
    case CHUNKS_SIZE:
    case CHUNKS_DIGITS:
        return behind_size(chunks, byte);
    case CHUNKS_BLANKS:
        return is_blank(byte) ? CHUNKS_BLANKS : next_if(byte, ';', CHUNKS_EXTENSION);
    case CHUNKS_EXTENSION:
        return is_text(byte) ? CHUNKS_EXTENSION : next_if(byte, '\r', CHUNKS_SIZE_LF);
    case CHUNKS_SIZE_LF:
        return next_if(byte, '\n', chunks->left > 0 ? CHUNKS_DATA : CHUNKS_LAST);
    case CHUNKS_DATA_CR:
        return next_if(byte, '\r', CHUNKS_DATA_LF);
    case CHUNKS_DATA_LF:
        return next_if(byte, '\n', CHUNKS_SIZE);
    case CHUNKS_LAST:
        return is_name(byte) ? CHUNKS_NAME : next_if(byte, '\r', CHUNKS_LAST_LF);
    case CHUNKS_NAME:
        return is_name(byte) ? CHUNKS_NAME : next_if(byte, ':', CHUNKS_VALUE);
    case CHUNKS_VALUE:
        return is_text(byte) ? CHUNKS_VALUE : next_if(byte, '\r', CHUNKS_VALUE_LF);
    case CHUNKS_VALUE_LF:
        return next_if(byte, '\n', CHUNKS_LAST);
    case CHUNKS_LAST_LF:
        return next_if(byte, '\n', CHUNKS_DONE);
    default:
        return CHUNKS_BROKEN;
    }
}

static size_t take_data(struct chunks *chunks, size_t len)
{
    size_t taken = len < chunks->left ? len : (size_t)chunks->left;
    chunks->left -= taken;
    chunks->data += taken;
    if (chunks->left == 0)
        chunks->state = CHUNKS_DATA_CR;
    return taken;
}

void chunks_begin(struct chunks *chunks)
{
    *chunks = (struct chunks){.state = CHUNKS_SIZE};
}

void chunks_take(struct chunks *chunks, const char *bytes, size_t len)
{
    size_t at = 0;
    while (at < len && chunks->state != CHUNKS_NONE && chunks->state < CHUNKS_DONE) {
        if (chunks->state == CHUNKS_DATA)
            at += take_data(chunks, len - at);
        else
            chunks->state = next_state(chunks, bytes[at++]);
    }
}
