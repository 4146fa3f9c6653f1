/* The first pass: a file becomes a tree of nodes that remember where they were written. The only
 * file that knows libyaml is document.c. */
#ifndef LOCKAGENT_CONFIG_DOCUMENT_H
#define LOCKAGENT_CONFIG_DOCUMENT_H

#include "config/node.h"

enum {
    CONFIG_FILE_BYTES = 1024 * 1024, /* largest file */
    CONFIG_DEPTH = 16,               /* deepest nesting */
    CONFIG_NODES = 10000,            /* most keys and values of one file */
};

/* Reads the file at `report->path`. True and `*ret_root` set (NULL: the file holds nothing); false,
 * with what is wrong reported, when there is no tree to go on with. Anchors, tags and the like are
 * reported too, but leave a tree. */
bool config_document_read(struct config_report *report, struct config_arena *arena,
                          struct config_node **ret_root);

#endif
