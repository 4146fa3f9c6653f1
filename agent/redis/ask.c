/* Sends commands of the room's own (ask.h): built, pooled, and given to the pipeline. */
#include "agent/redis/ask.h"
#include "agent/redis/scripts.h"

void ask_bytes(struct master *master, heard_fn *heard, struct text bytes)
{
    struct command_pool *pool = &master->redis->pool;
    struct command *command = command_new(pool, heard, 0);
    if (command == NULL) {
        pipeline_condemn(master->pipeline, "out of memory");
        return;
    }
    command->asked_at = redis_now();
    command->greeting = master->greeting;
    command->references++;
    /* One that could not be sent is never heard: nothing must wait for it. */
    if (!pipeline_append(master->pipeline, command, bytes, nothing_own()))
        pipeline_condemn(master->pipeline, "out of memory");
    command_release(pool, command);
}

void ask_words(struct master *master, heard_fn *heard, unsigned count, const char *const *words)
{
    struct resp *resp = &master->redis->resp;
    resp_begin(resp);
    for (unsigned i = 0; i < count; i++)
        resp_text(resp, words[i]);
    ask_bytes(master, heard, resp_end(resp));
}

void ask_scripts(struct master *master, heard_fn *heard)
{
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        ASK(master, heard, "SCRIPT", "LOAD", redis_scripts[i].text);
}

bool ask_has_loaded(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && script_is_ours(reply->str);
}
