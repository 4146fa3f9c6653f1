/* A table that grows, with open addresses. */
#include "seen.h"

#include <stdlib.h>

static struct seen *place_of(struct seen *places, size_t room, uint64_t hash)
{
    size_t i = hash & (room - 1);
    while (places[i].hash != 0 && places[i].hash != hash)
        i = (i + 1) & (room - 1);
    return &places[i];
}

static void grow(struct seen_table *table)
{
    size_t room = table->room == 0 ? 1 << 16 : 2 * table->room;
    struct seen *places = calloc(room, sizeof *places);
    if (places == NULL)
        abort();
    for (size_t i = 0; i < table->room; i++)
        if (table->places[i].hash != 0)
            *place_of(places, room, table->places[i].hash) = table->places[i];
    free(table->places);
    table->places = places;
    table->room = room;
}

struct seen *seen_place(struct seen_table *table, uint64_t hash)
{
    if (2 * (table->count + 1) > table->room)
        grow(table);
    struct seen *place = place_of(table->places, table->room, hash);
    table->count += place->hash == 0;
    return place;
}

void seen_forget_all(struct seen_table *table)
{
    free(table->places);
    *table = (struct seen_table){0};
}
