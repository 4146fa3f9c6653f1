/* The replies of a hostile master: how they are delimited, and the text that comes in place of one,
 * beside one, or unasked. */
#ifndef LOCKAGENT_TESTS_FAULTS_LIES_H
#define LOCKAGENT_TESTS_FAULTS_LIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LIE_BYTES = 1024, /* bytes of all texts together */
    LIE_TEXTS = 16,
    TAIL_BYTES = 64,
};

/* Follows RESP from the first byte of a connection, up to the first byte that is not RESP. */
struct framing {
    enum { AT_TYPE, IN_LINE, IN_BODY } at;
    bool broken, negative;
    char type;
    int64_t number;   /* number of the line */
    int64_t elements; /* still to come until the message is whole; 0: none has begun */
    int64_t body;     /* bytes still to come of a bulk */
};

/* How many of the bytes belong to the message that they go on with, or begin. `ret_whole`: it ends
 * with them. */
size_t framing_take(struct framing *framing, const char *bytes, size_t length, bool *ret_whole);

/* The fate of a reply. TORN loses the second half of it, and the next reply follows at once. */
enum lie_mode {
    LIE_NEVER,
    LIE_INSTEAD,
    LIE_BESIDE,
    LIE_UNASKED,
    LIE_HALF,
    LIE_HALF_AND_END,
    LIE_TORN,
    LIE_MODES
};
enum lie_to { LIE_TO_ALL, LIE_TO_COMMANDS, LIE_TO_SUBSCRIBER, LIE_TOS };

struct lie {
    enum lie_mode mode;
    enum lie_to to;
    int64_t permille; /* share of the replies; if unasked, share of the moments, one every 10 ms */
    size_t text_count, text_ends[LIE_TEXTS], tail_length;
    int64_t tail_times; /* how often the tail follows the text */
    char texts[LIE_BYTES], tail[TAIL_BYTES];
};

/* Settings of a lie by name: `lie=instead`, `lie_to=subscriber`, `lie_permille=5`,
 * `lie_texts=HEX/HEX`, `lie_tail=HEX`, `lie_times=N`. Returns false if there is no such setting, or
 * its value means nothing; then nothing is changed but the texts. */
bool lie_set(struct lie *lie, const char *name, const char *value);

/* Text number `drawn` (any number) of those that are there, or nothing. */
const char *lie_text(const struct lie *lie, uint64_t drawn, size_t *ret_length);

#endif
