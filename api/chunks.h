/* Chunked bodies as RFC 9112 (7.1) has them: every line ends in CR LF, and nothing else does. */
#ifndef LOCKAGENT_API_CHUNKS_H
#define LOCKAGENT_API_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chunks_state {
    CHUNKS_NONE, /* the body is not chunked */
    CHUNKS_SIZE, /* the first digit of a size */
    CHUNKS_DIGITS,
    CHUNKS_BLANKS, /* before the `;` of an extension */
    CHUNKS_EXTENSION,
    CHUNKS_SIZE_LF,
    CHUNKS_DATA,
    CHUNKS_DATA_CR,
    CHUNKS_DATA_LF,
    CHUNKS_LAST, /* behind the last chunk, or a line of the trailer */
    CHUNKS_NAME,
    CHUNKS_VALUE,
    CHUNKS_VALUE_LF,
    CHUNKS_LAST_LF,
    CHUNKS_DONE,
    CHUNKS_BROKEN,
};

/* Zero-initialised: no chunked body. */
struct chunks {
    enum chunks_state state;
    uint64_t left; /* bytes of data of this chunk that have not come */
    uint64_t data; /* bytes of data that came */
};

/* A chunked body begins. */
void chunks_begin(struct chunks *chunks);
/* Takes the next bytes of it, up to its end; they may be cut anywhere. */
void chunks_take(struct chunks *chunks, const char *bytes, size_t len);

#endif
