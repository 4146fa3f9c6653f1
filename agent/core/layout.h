/* The layout of a group (R23): what two agents must agree on, so that their quorums meet and their
 * keys mean the same. As text, at most LAYOUT_BYTES:
 *
 *   w2 <quorum> <prefix>=<policies>[,<prefix>=<policies>...] <master> <master>...
 *
 * The prefixes and the masters are sorted and unique. Bytes that layout_is_plain() refuses are
 * percent-encoded, so the separators are unique too. The policies of a prefix are compared byte for
 * byte; config/layout.c writes them. */
#ifndef LOCKAGENT_CORE_LAYOUT_H
#define LOCKAGENT_CORE_LAYOUT_H

#include "types.h"

enum {
    LAYOUT_WIRE = 2, /* Raised by a build for which stored data means something else. */
    LAYOUT_BYTES = 4096,
    LAYOUT_NAME_BYTES = 17, /* 16 hex digits and a NUL byte. */
};

/* Borrows the bytes of the text. */
struct layout {
    unsigned wire, quorum, prefix_count, master_count;
    struct {
        struct text name, policies;
    } prefixes[LIMIT_POLICIES];
    struct text masters[LIMIT_MASTERS];
};

/* The reason for which two layouts are no neighbours. */
enum layout_conflict {
    LAYOUT_NEIGHBOURS, /* Nothing. */
    LAYOUT_OTHER_WIRE,
    LAYOUT_OTHER_POLICIES,
    LAYOUT_OTHER_MASTERS,
};

/* Returns true if the byte is written as it is. */
bool layout_is_plain(char byte);

/* Returns false, with an undefined `*ret_layout`, if the text is not a layout of any build. */
bool layout_parse(struct text text, struct layout *ret_layout);

/* Compares two layouts. They are neighbours if they share no prefix, or if they agree and every
 * quorum of one meets every quorum of the other. The order of the two does not matter. */
enum layout_conflict layout_compare(const struct layout *a, const struct layout *b);

/* Writes the name of a layout: a hash of its text that never changes between builds. */
void layout_name(struct text text, char ret_name[LAYOUT_NAME_BYTES]);

#endif
