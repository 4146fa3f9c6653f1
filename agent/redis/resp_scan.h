/* Where a reply ends, and whether it may be read at all: what a master sends is bounded before
 * hiredis' reader sees it.
 *
 * The reader sets room aside for as many elements as a list claims to have and for as many bytes
 * as a string claims to have, so a broken master could freeze the agent or eat its memory with a
 * dozen bytes. The scanner takes RESP2 as it comes, in pieces of any size, keeps no byte of it,
 * and stops at the first one that no sane master sends. */
#ifndef LOCKAGENT_RESP_SCAN_H
#define LOCKAGENT_RESP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESP_BYTES_MAX = 64 << 10, /* of one reply on the wire */
    RESP_ELEMENTS_MAX = 4096,  /* of all lists of one reply together */
    RESP_DEPTH_MAX = 4,        /* lists within lists */
    RESP_NUMBER_CHARS = 20,    /* of the least 64-bit integer */
};

enum resp_found {
    RESP_MORE,      /* the reply goes on behind these bytes */
    RESP_REPLY,     /* it ends at the last byte taken */
    RESP_MALFORMED, /* this is not RESP2 */
    RESP_OVERSIZED, /* it is, or says that it will be, larger than the bounds above */
};

/* All zero before the first byte. */
struct resp_scan {
    uint8_t state;                 /* enum resp_state of resp_scan.c */
    char type;                     /* of the element that is being read */
    size_t bytes;                  /* of the reply so far */
    size_t string_left;            /* of a string's bytes */
    uint32_t elements;             /* that the reply's lists have claimed so far */
    uint32_t depth;                /* open lists, */
    uint32_t left[RESP_DEPTH_MAX]; /* and what each of them still lacks */
    uint8_t digits;
    char number[RESP_NUMBER_CHARS];
};

/* True between two replies. */
bool resp_scan_is_fresh(const struct resp_scan *scan);

/* Takes bytes up to the end of one reply; `*ret_taken` says how many that were. Not to be called
 * again after MALFORMED or OVERSIZED. */
enum resp_found resp_scan(struct resp_scan *scan, const char *bytes, size_t len, size_t *ret_taken);

#endif
