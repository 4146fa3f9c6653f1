/* The routes: one table of paths, methods, and the parameters that each takes. */
#ifndef LOCKAGENT_API_ROUTES_H
#define LOCKAGENT_API_ROUTES_H

#include "api/route.h"

extern const struct route routes[];
extern const size_t route_count;

/* Finds the route of a path (without query). `*ret_key` is what stands for `{key}`, as it came.
 * NULL: none. */
const struct route *route_find(struct text path, struct text *ret_key);

#endif
