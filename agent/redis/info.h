/* Fields of the text that INFO answers with. */
#ifndef LOCKAGENT_REDIS_INFO_H
#define LOCKAGENT_REDIS_INFO_H

#include <stddef.h>

/* Copies the value of `name:`, cut to what fits; leaves `into` as it is where there is none. */
void info_field(const char *info, const char *name, char *into, size_t size);

#endif
