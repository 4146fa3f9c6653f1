/* Chunked bodies of RFC 9112 (7.1): every line ends in CR LF, and nothing else does. */
#ifndef LOCKAGENT_API_CHUNKS_H
#define LOCKAGENT_API_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chunks_state {
    CHUNKS_NONE, /* The body is not chunked. */
    CHUNKS_SIZE, /* The first digit of a size is next. */
    CHUNKS_DIGITS,
    CHUNKS_BLANKS, /* Blanks before the `;` of an extension. */
    CHUNKS_EXTENSION,
    CHUNKS_SIZE_LF,
    CHUNKS_DATA,
    CHUNKS_DATA_CR,
    CHUNKS_DATA_LF,
    CHUNKS_LAST, /* After the last chunk, or after a line of the trailer. */
    CHUNKS_NAME,
    CHUNKS_VALUE,
    CHUNKS_VALUE_LF,
    CHUNKS_LAST_LF,
    CHUNKS_DONE,
    CHUNKS_BROKEN,
};

/* All zero: no chunked body. */
struct chunks {
    enum chunks_state state;
    uint64_t left; /* Bytes of data of this chunk that are still to come. */
    uint64_t data; /* Bytes of data that have come. */
    uint64_t came; /* Bytes that have come, with the lines around the data. */
};

/* Begins a chunked body. */
void chunks_begin(struct chunks *chunks);
/* Takes the next bytes of the body, up to its end. They may be split anywhere. */
void chunks_take(struct chunks *chunks, const char *bytes, size_t len);

#endif
