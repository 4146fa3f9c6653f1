/* Functions that the fuzz targets share: the entry point that libFuzzer and the replay driver call,
 * checks that stay on, and a reader that makes decisions out of bytes. */
#ifndef LOCKAGENT_TESTS_FUZZ_H
#define LOCKAGENT_TESTS_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/types.h"

/* One input. Every target is one program with one of these. Nothing but its bytes may decide what
 * happens. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks a property that must hold for every input. Prints the other arguments if it does not
 * hold. */
#define FUZZ_CHECK(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold: ", __FILE__, __LINE__, #condition);          \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The input as a source of decisions. Zeros follow after its end. */
struct fuzz_bytes {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
    if (bytes->left == 0)
        return 0;
    bytes->left--;
    return *bytes->at++;
}

static inline uint64_t fuzz_number(struct fuzz_bytes *bytes, unsigned size)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < size; i++)
        number = number << 8 | fuzz_byte(bytes);
    return number;
}

static inline struct text fuzz_text(const uint8_t *data, size_t size)
{
    return (struct text){(const char *)data, size};
}

#endif
