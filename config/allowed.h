/* What a key allows, in a few words: for messages, the sample file and the table of keys. */
#ifndef LOCKAGENT_CONFIG_ALLOWED_H
#define LOCKAGENT_CONFIG_ALLOWED_H

#include "config/keys.h"

enum { CONFIG_ALLOWED = 256 };

/* `1s to 1h (with ms, s, m or h)` */
const char *config_key_allowed(const struct config_key *key, char allowed[CONFIG_ALLOWED]);

#endif
