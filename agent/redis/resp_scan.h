/* Finds the end of a reply and refuses replies beyond the bounds, before hiredis' reader sees them.
 *
 * The reader allocates as many elements as a list claims to have, and as many bytes as a string
 * claims to have. So a broken master could freeze the agent, or use up its memory, with a dozen
 * bytes. The scanner takes RESP2 in pieces of any size and keeps no byte of it. It stops at the
 * first byte that no sane master sends. */
#ifndef LOCKAGENT_RESP_SCAN_H
#define LOCKAGENT_RESP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESP_BYTES_MAX = 64 << 10, /* Bytes of one reply on the wire. */
    RESP_ELEMENTS_MAX = 4096,  /* Elements of all lists of one reply together. */
    RESP_DEPTH_MAX = 4,        /* Nesting of lists. */
    RESP_NUMBER_CHARS = 20,    /* Length of the least 64-bit integer. */
};

enum resp_found {
    RESP_MORE,      /* The reply continues after these bytes. */
    RESP_REPLY,     /* The reply ends at the last byte taken. */
    RESP_MALFORMED, /* The bytes are not RESP2. */
    RESP_OVERSIZED, /* The reply is, or claims to be, larger than the bounds above. */
};

/* All zero before the first byte. */
struct resp_scan {
    uint8_t state;                 /* An enum resp_state of resp_scan.c. */
    char type;                     /* Type of the element that is being read. */
    size_t bytes;                  /* Bytes of the reply so far. */
    size_t string_left;            /* Bytes of the string still to come. */
    uint32_t elements;             /* Elements that the reply's lists have claimed so far. */
    uint32_t depth;                /* Number of open lists. */
    uint32_t left[RESP_DEPTH_MAX]; /* Elements that each open list still lacks. */
    uint8_t digits;
    char number[RESP_NUMBER_CHARS];
};

/* Returns true between two replies. */
bool resp_scan_is_fresh(const struct resp_scan *scan);

/* Takes bytes up to the end of one reply, and sets `*ret_taken` to their number. Not to be called
 * again after MALFORMED or OVERSIZED. */
enum resp_found resp_scan(struct resp_scan *scan, const char *bytes, size_t len, size_t *ret_taken);

#endif
