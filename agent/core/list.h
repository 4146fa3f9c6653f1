/* A doubly linked list whose links are embedded in its elements. */
#ifndef LOCKAGENT_CORE_LIST_H
#define LOCKAGENT_CORE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core_assert.h"

struct link {
    struct link *next, *prev; /* NULL, NULL: in no list. */
};
struct list {
    struct link head;
};

#define CONTAINER_OF(pointer, type, member) ((type *)((uintptr_t)(pointer)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->head.next = list->head.prev = &list->head;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

static inline void list_append(struct list *list, struct link *link)
{
    CORE_ASSERT(link->next == NULL && link->prev == NULL);
    link->prev = list->head.prev;
    link->next = &list->head;
    link->prev->next = link;
    list->head.prev = link;
}

/* Inserts `link` before `before`, which is in a list. */
static inline void list_insert(struct link *before, struct link *link)
{
    CORE_ASSERT(link->next == NULL && link->prev == NULL && before->next != NULL);
    link->prev = before->prev;
    link->next = before;
    link->prev->next = link;
    before->prev = link;
}

/* Removes the link; does nothing if it is in no list. */
static inline void list_remove(struct link *link)
{
    if (link->next == NULL)
        return;
    link->next->prev = link->prev;
    link->prev->next = link->next;
    link->next = link->prev = NULL;
}

/* Returns the first link, or NULL if the list is empty. */
static inline struct link *list_first(const struct list *list)
{
    return list_is_empty(list) ? NULL : list->head.next;
}

#endif
