/* One command in RESP, as it is built: the arguments one behind the other, and what counts them
 * written last, in front of them. */
#ifndef LOCKAGENT_RESP_H
#define LOCKAGENT_RESP_H

#include "agent/core/types.h"

enum {
    RESP_DIGITS_MAX = 20,  /* of the largest number */
    RESP_FRONT_BYTES = 128 /* kept free for what is written in front of the arguments */
};

/* The memory is its owner's and holds RESP_FRONT_BYTES more than the arguments. */
struct resp {
    char *bytes;
    size_t size;
    size_t at, len; /* what has been written is bytes[at..len) */
    unsigned args;  /* how many arguments that are */
};

/* Begins a command without arguments; the one before it is forgotten. */
void resp_begin(struct resp *resp);

/* Each adds one argument; its memory is large enough, or the programmer has erred. */
void resp_bytes(struct resp *resp, const char *bytes, size_t len);
void resp_text(struct resp *resp, const char *text);
void resp_number(struct resp *resp, uint64_t number);
/* One argument of three parts. */
void resp_joined(struct resp *resp, struct text a, struct text b, struct text c);

/* The same in front of all arguments so far: RESP_FRONT_BYTES are for these and for the header. */
void resp_text_first(struct resp *resp, const char *text);
void resp_number_first(struct resp *resp, uint64_t number);

/* Writes the header, which says how many arguments there are. Returns the whole command: it stands
 * in the memory of `resp` until that begins another one. */
struct text resp_end(struct resp *resp);

/* Leaves nothing of a command with a secret in it. */
void resp_wipe(struct resp *resp);

#endif
