/* Copies a reply with all that it holds (reply_copy.h). */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/reply_copy.h"

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
