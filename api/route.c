/* What a route takes. */
#include "api/route.h"

#include <stdio.h>
#include <string.h>

bool route_takes_params(const struct route *route)
{
    return route->operations[0].params != 0;
}

const struct operation *route_operation(const struct route *route, enum method method)
{
    for (size_t i = 0; i < OPERATIONS && route->operations[i].run != NULL; i++)
        if (route->operations[i].method == method)
            return &route->operations[i];
    return NULL;
}

void route_allow(const struct route *route, char *out, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < OPERATIONS && route->operations[i].run != NULL; i++)
        len += (size_t)snprintf(out + len, size - len, "%s, ",
                                method_name(route->operations[i].method));
    snprintf(out + len, size - len, "HEAD"); /* every route takes GET, and HEAD is as GET */
}

static const char *const method_names[] = {"GET", "POST", "PUT", "DELETE", "other"};

enum method method_find(const char *name, bool *ret_is_head)
{
    *ret_is_head = strcmp(name, "HEAD") == 0;
    if (*ret_is_head)
        return METHOD_GET;
    int i = 0;
    while (i < METHOD_OTHER && strcmp(name, method_names[i]) != 0)
        i++;
    return (enum method)i;
}

const char *method_name(enum method method)
{
    return method_names[method];
}
