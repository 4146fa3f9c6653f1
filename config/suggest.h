/* What an unknown word may have been meant for. */
#ifndef LOCKAGENT_CONFIG_SUGGEST_H
#define LOCKAGENT_CONFIG_SUGGEST_H

#include "config/keys.h"

/* How many letters must be inserted, removed, replaced or swapped to make `b` of `a`; a word that
 * holds the other counts as 1. */
size_t config_distance(const char *a, const char *b);
/* True when `distance` is small enough for a word like `name` to suggest it. */
bool config_is_near(const char *name, size_t distance);

/* What was meant by `name` below `parent`; NULL: no idea. */
const struct config_key *config_key_nearest(const struct config_key *parent, const char *name);
/* The name of another group that `name` may have been meant for, or NULL. */
const char *config_group_nearest(const struct config *config, const char *name);

#endif
