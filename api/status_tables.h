/* The tables of the status page: holds, callers that wait, masters. */
#ifndef LOCKAGENT_API_STATUS_TABLES_H
#define LOCKAGENT_API_STATUS_TABLES_H

#include "api/internal.h"

/* A status page as it is written. */
struct status {
    const struct api *api;
    struct buffer page;
    struct instant now;
    struct text filter; /* of keys only those are shown that have it in them; empty: all */
};

/* Each adds a section of the page. */
void status_add_holds(struct status *status);
void status_add_waits(struct status *status);
void status_add_groups(struct status *status);

#endif
