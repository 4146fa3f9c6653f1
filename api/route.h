/* A route: a path, and which methods and parameters it takes. */
#ifndef LOCKAGENT_API_ROUTE_H
#define LOCKAGENT_API_ROUTE_H

#include "api/internal.h"

enum { OPERATIONS = 4 };

struct operation {
    enum method method;
    unsigned params; /* bits PARAM_... */
    bool uses_core;  /* `run` submits an event, one call of the handler later (request.c) */
    enum MHD_Result (*run)(struct connection *connection);
};

struct route {
    const char *path;                        /* `{key}`: the rest of the path */
    bool is_lock_call;                       /* not on the admin listener; parameters are checked */
    bool is_open;                            /* without the API's bearer token: for health checks */
    struct operation operations[OPERATIONS]; /* unused ones have no `run` */
};

/* Those of a route that takes none are not looked at. */
bool route_takes_params(const struct route *route);

/* NULL: the route does not take the method. */
const struct operation *route_operation(const struct route *route, enum method method);
/* The Allow header: `POST, PUT, DELETE, GET, HEAD`. */
void route_allow(const struct route *route, char *out, size_t size);

/* HEAD is as GET. */
enum method method_find(const char *name, bool *ret_is_head);
const char *method_name(enum method method);

#endif
