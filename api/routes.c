/* The table of routes: paths, methods and their functions. */
#include "api/internal.h"

#include <string.h>

#include "agent/base/text.h"

#define P(name) (1U << PARAM_##name)

const struct route routes[] = {
    {"/locks/{key}",
     true,
     false,
     {{METHOD_POST,
       P(TTL) | P(WAIT) | P(RENEW) | P(MODE) | P(MAX_HOLD) | P(BIND) | P(LABEL) | P(OWNER), true,
       locks_acquire},
      {METHOD_PUT, P(TOKEN) | P(TTL) | P(RENEW) | P(LABEL), true, locks_renew},
      {METHOD_DELETE, P(TOKEN), true, locks_release},
      {METHOD_GET, P(WATCH) | P(TOKEN), true, locks_read}}},
    {"/locks", true, false, {{METHOD_GET, P(LIMIT) | P(CURSOR), false, locks_list}}},
    {"/metrics", false, false, {{METHOD_GET, 0, false, page_metrics}}},
    {"/livez", false, true, {{METHOD_GET, 0, false, page_alive}}},
    {"/healthz", false, true, {{METHOD_GET, 0, false, page_alive}}},
    {"/readyz", false, true, {{METHOD_GET, 0, false, page_ready}}},
    {"/openapi.yaml", false, false, {{METHOD_GET, 0, false, page_openapi}}},
    {"/openapi-3.0.yaml", false, false, {{METHOD_GET, 0, false, page_openapi_3_0}}},
    {"/", false, false, {{METHOD_GET, P(KEY) | P(SORT) | P(LIMIT), false, status_page}}},
};
const size_t route_count = sizeof(routes) / sizeof(routes[0]);

static const char LOCKS[] = "/locks/";

const struct route *route_find(struct text path, struct text *ret_key)
{
    const size_t prefix = sizeof(LOCKS) - 1;
    if (path.len >= prefix && memcmp(path.at, LOCKS, prefix) == 0) {
        *ret_key = (struct text){path.at + prefix, path.len - prefix};
        return &routes[0];
    }
    for (size_t i = 1; i < route_count; i++)
        if (text_is(path, routes[i].path))
            return &routes[i];
    return NULL;
}
