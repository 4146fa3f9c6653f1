/* Commands and their pool. */
#include "agent/redis/command.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "agent/core/core_assert.h"

enum {
    POOL_MAX = 1024, /* Unused commands kept, of each size. */
    SPARES = 64,     /* Commands kept for when memory is short: 3,200 locks in a turn. */
};

static struct command *command_of_room(uint16_t room)
{
    return malloc(sizeof(struct command) + room * sizeof(struct lock_ref));
}

static struct command *take_from(struct command **list, uint32_t *count)
{
    struct command *command = *list;
    if (command != NULL) {
        *list = command->next;
        --*count;
    }
    return command;
}

static void put_into(struct command **list, uint32_t *count, struct command *command)
{
    command->next = *list;
    *list = command;
    ++*count;
}

bool command_pool_fill(struct command_pool *pool)
{
    while (pool->spares < SPARES) {
        struct command *spare = command_of_room(LIMIT_BATCH);
        if (spare == NULL)
            return false;
        put_into(&pool->spare, &pool->spares, spare);
    }
    return true;
}

struct command *command_new(struct command_pool *pool, heard_fn *heard, uint16_t refs)
{
    bool single = refs <= 1;
    uint16_t room = single ? 1 : LIMIT_BATCH;
    struct command *command =
        single ? take_from(&pool->single, &pool->singles) : take_from(&pool->batch, &pool->batches);
    if (command == NULL)
        command = command_of_room(room);
    if (command == NULL) {
        room = LIMIT_BATCH;
        command = take_from(&pool->spare, &pool->spares);
    }
    if (command == NULL)
        return NULL;
    memset(command, 0, sizeof(*command));
    command->heard = heard;
    command->room = room;
    command->count = refs;
    command->sent_at_ns = uv_hrtime();
    return command;
}

void command_release(struct command_pool *pool, struct command *command)
{
    CORE_ASSERT(command->references > 0);
    if (--command->references > 0)
        return;
    bool single = command->room == 1;
    if (!single && pool->spares < SPARES)
        put_into(&pool->spare, &pool->spares, command);
    else if ((single ? pool->singles : pool->batches) == POOL_MAX)
        free(command);
    else if (single)
        put_into(&pool->single, &pool->singles, command);
    else
        put_into(&pool->batch, &pool->batches, command);
}

void command_free_list(struct command *command)
{
    while (command != NULL) {
        struct command *next = command->next;
        free(command);
        command = next;
    }
}

void command_pool_free(struct command_pool *pool)
{
    command_free_list(pool->single);
    command_free_list(pool->batch);
    command_free_list(pool->spare);
}
