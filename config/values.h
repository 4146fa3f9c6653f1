/* One value of one key: from a node into its field, and compared with another one. */
#ifndef LOCKAGENT_CONFIG_VALUES_H
#define LOCKAGENT_CONFIG_VALUES_H

#include "config/keys.h"
#include "config/node.h"

/* Checks a node's kind and value and sets the field; false, with all that is wrong reported, leaves
 * it in any state. GROUPS are only looked at: their names have no meaning before all groups are
 * known. */
bool config_value_set(struct config_report *report, const struct config_key *key, const char *path,
                      const struct config_node *node, void *field);

/* Sets the field to the key's default (a key without one: leaves it). */
void config_value_preset(const struct config_key *key, void *field);

/* True when two configurations have the same value. */
bool config_value_same(const struct config_key *key, const struct config *a, const struct config *b,
                       size_t index);

#endif
