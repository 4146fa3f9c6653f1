/* An arena behind hiredis' parser. */
#include "agent/redis/reply_memory.h"

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- a reply that outlives its reading ---- */

static size_t aligned(size_t size)
{
    const size_t unit = _Alignof(max_align_t);
    return (size + unit - 1) / unit * unit;
}

static size_t bytes_of_reply(const redisReply *reply)
{
    size_t size = aligned(sizeof(*reply));
    if (reply->str != NULL)
        size += aligned((size_t)reply->len + 1);
    size += aligned(reply->elements * sizeof(redisReply *));
    for (size_t i = 0; i < reply->elements; i++)
        size += bytes_of_reply(reply->element[i]);
    return size;
}

static void *take_piece(char **at, size_t size)
{
    char *taken = *at;
    *at += aligned(size);
    return taken;
}

static redisReply *copy(const redisReply *reply, char **at)
{
    redisReply *into = take_piece(at, sizeof(*into));
    *into = *reply;
    if (reply->str != NULL)
        into->str =
            memcpy(take_piece(at, (size_t)reply->len + 1), reply->str, (size_t)reply->len + 1);
    if (reply->elements > 0)
        into->element = take_piece(at, reply->elements * sizeof(redisReply *));
    for (size_t i = 0; i < reply->elements; i++)
        into->element[i] = copy(reply->element[i], at);
    return into;
}

redisReply *reply_copy(const redisReply *reply)
{
    char *at = malloc(bytes_of_reply(reply));
    return at == NULL ? NULL : copy(reply, &at);
}

/* ---- memory of the reply that is read ---- */

enum { SPILL_BYTES = 32 << 10 };

struct reply_spill {
    struct reply_spill *next;
    size_t size;
    _Alignas(max_align_t) char bytes[];
};

static bool spill(struct reply_memory *memory, size_t wanted)
{
    size_t size = wanted > SPILL_BYTES ? wanted : SPILL_BYTES;
    struct reply_spill *spilled = malloc(sizeof(*spilled) + size);
    if (spilled == NULL)
        return false;
    spilled->next = memory->spilled;
    spilled->size = size;
    memory->spilled = spilled;
    memory->used = 0;
    return true;
}

/* Returns zeroed memory, aligned for any type; NULL if there is not enough. */
static void *take(struct reply_memory *memory, size_t size)
{
    const size_t unit = _Alignof(max_align_t);
    size = (size + unit - 1) / unit * unit;
    size_t room = memory->spilled != NULL ? memory->spilled->size : sizeof(memory->first);
    if (size > room - memory->used && !spill(memory, size))
        return NULL;
    char *at = (memory->spilled != NULL ? memory->spilled->bytes : memory->first) + memory->used;
    memory->used += size;
    return memset(at, 0, size);
}

/* ---- callbacks of the parser; NULL: there is not enough memory ---- */

static redisReply *new_reply(const redisReadTask *task, int type)
{
    redisReply *reply = take(task->privdata, sizeof(*reply));
    if (reply == NULL)
        return NULL;
    reply->type = type;
    if (task->parent != NULL) {
        redisReply *list = task->parent->obj;
        list->element[task->idx] = reply;
    }
    return reply;
}

static void *new_string(const redisReadTask *task, char *bytes, size_t len)
{
    redisReply *reply = new_reply(task, task->type);
    char *copy = reply == NULL ? NULL : take(task->privdata, len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, bytes, len);
    reply->str = copy;
    reply->len = len;
    return reply;
}

/* Since 1.0 hiredis counts the elements of a list in another type (D10). */
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static void *new_list(const redisReadTask *task, element_count count)
{
    redisReply *reply = new_reply(task, REDIS_REPLY_ARRAY);
    if (reply == NULL || count <= 0)
        return reply;
    reply->element = take(task->privdata, (size_t)count * sizeof(redisReply *));
    reply->elements = (size_t)count;
    return reply->element == NULL ? NULL : reply;
}

static void *new_integer(const redisReadTask *task, long long value)
{
    redisReply *reply = new_reply(task, REDIS_REPLY_INTEGER);
    if (reply != NULL)
        reply->integer = value;
    return reply;
}

static void *new_nil(const redisReadTask *task)
{
    return new_reply(task, REDIS_REPLY_NIL);
}

/* ---- for the line ---- */

redisReader *reply_memory_reader(struct reply_memory *memory)
{
    static redisReplyObjectFunctions functions = {
        .createString = new_string,
        .createArray = new_list,
        .createInteger = new_integer,
        .createNil = new_nil,
        .freeObject = NULL, /* All objects are freed at once. */
    };
    redisReader *reader = redisReaderCreateWithFunctions(&functions);
    if (reader != NULL)
        reader->privdata = memory;
    return reader;
}

void reply_memory_reset(struct reply_memory *memory)
{
    while (memory->spilled != NULL) {
        struct reply_spill *spilled = memory->spilled;
        memory->spilled = spilled->next;
        free(spilled);
    }
    memory->used = 0;
}
