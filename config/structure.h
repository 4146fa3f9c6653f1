/* The second pass: compares the tree with the table of keys and turns it into settings. */
#ifndef LOCKAGENT_CONFIG_STRUCTURE_H
#define LOCKAGENT_CONFIG_STRUCTURE_H

#include "config/settings.h"

/* Reads `loading->root` (NULL: nothing to read). Unknown, doubled and misplaced keys end here,
 * reported. */
void config_structure_read(struct config_loading *loading);

#endif
