/* Commands and their pool (command.h). */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "agent/core/core_assert.h"
#include "agent/redis/command.h"

enum { POOL_MAX = 1024 }; /* unused commands kept, of each size */

struct command *command_new(struct command_pool *pool, heard_fn *heard, uint16_t refs)
{
    bool single = refs <= 1;
    struct command **list = single ? &pool->single : &pool->batch;
    struct command *command = *list;
    uint16_t room = single ? 1 : LIMIT_BATCH;
    if (command != NULL) {
        *list = command->next;
        *(single ? &pool->singles : &pool->batches) -= 1;
    } else {
        command = malloc(sizeof(*command) + room * sizeof(command->refs[0]));
        CORE_ASSERT(command != NULL);
    }
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
    uint32_t *pooled = single ? &pool->singles : &pool->batches;
    if (*pooled == POOL_MAX) {
        free(command);
        return;
    }
    struct command **list = single ? &pool->single : &pool->batch;
    command->next = *list;
    *list = command;
    ++*pooled;
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
}
