/* The shipped Lua texts over the keys of a master. */
#include "tests/sim/guard/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"
#include "tests/keyspace/scripting.h"

enum { COMMAND_BYTES = 4096 };

static struct {
    struct scripting *scripting;
    redisReader *reader;
    struct replacement replacement; /* file NULL: the scripts as they are shipped */
} host;

_Noreturn static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(3);
}

void script_break(const char *file, const char *from, const char *to)
{
    host.replacement = (struct replacement){.file = file, .from = from, .to = to};
}

static void start(void)
{
    const char *why = NULL;
    host.scripting = scripting_new(host.replacement.file ? &host.replacement : NULL, &why);
    host.reader = redisReaderCreate();
    if (!host.scripting || !host.reader)
        fail("the scripts", why ? why : "no reader");
}

static redisReply *run(struct keyspace *keys, int64_t wall_ms, struct text command)
{
    void *reply = NULL;
    if (!host.scripting)
        start();
    keys->now_us = wall_ms * 1000;
    struct bytes bytes =
        scripting_run(host.scripting, keys, (struct bytes){command.at, command.len});
    if (redisReaderFeed(host.reader, bytes.at, bytes.len) != REDIS_OK ||
        redisReaderGetReply(host.reader, &reply) != REDIS_OK || !reply)
        fail("a reply", host.reader->errstr);
    return reply;
}

static struct resp *begin(void)
{
    static char bytes[COMMAND_BYTES];
    static struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    resp_begin(&resp);
    return &resp;
}

void script_marker(struct keyspace *keys, int64_t wall_ms, const struct guard_ask *ask,
                   const char *run_id, const char *fresh_epoch, struct guard_answer *ret_answer)
{
    struct resp *resp = begin();
    resp_text(resp, "EVALSHA");
    resp_text(resp, redis_scripts[SCRIPT_MARKER].sha);
    resp_number(resp, 2);
    resp_text(resp, MARKER_KEY);
    resp_text(resp, VOTE_KEY);
    resp_text(resp, run_id);
    resp_text(resp, fresh_epoch);
    resp_number(resp, ask->max_ttl_ms);
    resp_text(resp, guard_question_word(ask->question));
    resp_text(resp, ask->epoch);
    resp_text(resp, ask->birth);
    redisReply *reply = run(keys, wall_ms, resp_end(resp));
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 4)
        fail("marker", reply->type == REDIS_REPLY_ERROR ? reply->str : "another shape");
    *ret_answer = (struct guard_answer){.left_ms = reply->element[1]->integer,
                                        .max_ttl_ms = (uint32_t)reply->element[3]->integer};
    snprintf(ret_answer->epoch, sizeof(ret_answer->epoch), "%s", reply->element[0]->str);
    snprintf(ret_answer->birth, sizeof(ret_answer->birth), "%s", reply->element[2]->str);
    freeReplyObject(reply);
}

/* The lock is taken, and is of no further interest. */
int64_t script_guard_left_ms(struct keyspace *keys, int64_t wall_ms)
{
    static struct config config = {
        .group_count = 1, .policy_count = 1, .groups = {{.guard = true}}};
    static const struct bytes del[] = {{"DEL", 3}, {"k", 1}};
    struct send_item item = {.key = {"k", 1}, .ttl_ms = 1000};
    struct item_reply heard;
    redisReply *reply = run(keys, wall_ms, asking_op(begin(), &config, 0, OP_ACQUIRE, &item, 1));
    item_reply_read(OP_ACQUIRE, reply, &heard);
    if (heard.vote != VOTE_YES && heard.vote != VOTE_GUARDED)
        fail("acquire", reply->type == REDIS_REPLY_ERROR ? reply->str : vote_name(heard.vote));
    freeReplyObject(reply);
    keyspace_command(keys, del, 2);
    return heard.vote == VOTE_YES ? 0 : heard.pttl_ms;
}

bool marker_field(struct keyspace *keys, const char *name, char ret_value[GUARD_WORD_BYTES])
{
    const struct entry *marker =
        keyspace_find(keys, (struct bytes){MARKER_KEY, sizeof(MARKER_KEY) - 1});
    const struct string *value =
        marker ? entry_field(marker, (struct bytes){name, strlen(name)}) : NULL;
    snprintf(ret_value, GUARD_WORD_BYTES, "%.*s", value ? (int)value->len : 0,
             value ? value->at : "");
    return value != NULL;
}

uint32_t marker_max_ttl_ms(struct keyspace *keys)
{
    char text[GUARD_WORD_BYTES];
    return marker_field(keys, "max_ttl", text) ? (uint32_t)strtoul(text, NULL, 10) : 0;
}
