/* The shipped scripts over the keys of a master. */
#include "tests/guard/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "new_script.h"
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

/* new.lua is in no table of scripts. */
static bool breaks_new(void)
{
    return host.replacement.file && strcmp(host.replacement.file, "new") == 0;
}

static void start(void)
{
    const char *why = NULL;
    bool breaks = host.replacement.file && !breaks_new();
    host.scripting = scripting_new(breaks ? &host.replacement : NULL, &why);
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

/* Returns a lasting copy of a layout's text. A world has a few. */
static struct text lasting(struct text text)
{
    enum { TEXTS_MAX = 64 };
    static char *texts[TEXTS_MAX];
    unsigned i = 0;
    while (i < TEXTS_MAX && texts[i] != NULL &&
           (strlen(texts[i]) != text.len || memcmp(texts[i], text.at, text.len) != 0))
        i++;
    if (i == TEXTS_MAX)
        fail("marker", "too many layouts");
    if (texts[i] == NULL)
        texts[i] = strndup(text.at, text.len);
    return (struct text){texts[i], text.len};
}

void script_marker(struct keyspace *keys, int64_t wall_ms, const struct guard_ask *ask,
                   int64_t agreed_us, const char *run_id, const char *fresh_epoch,
                   struct guard_answer *ret_answer, struct guard_layouts *ret_layouts)
{
    struct text command =
        asking_marker_as(begin(), ask, run_id, fresh_epoch, agreed_us, /* whole= */ false);
    redisReply *reply = run(keys, wall_ms, command);
    memset(ret_answer, 0, sizeof(*ret_answer));
    memset(ret_layouts, 0, sizeof(*ret_layouts));
    if (!asking_read_marker(reply, ret_answer, ret_layouts))
        fail("marker", reply->type == REDIS_REPLY_ERROR ? reply->str : "another shape");
    for (unsigned i = 0; i < ret_layouts->count; i++)
        ret_layouts->others[i].text = lasting(ret_layouts->others[i].text);
    freeReplyObject(reply);
}

static const char *new_text(void)
{
    static char broken[sizeof(new_script) + 200];
    const struct replacement *with = &host.replacement;
    if (!breaks_new())
        return new_script;
    const char *at = strstr(new_script, with->from);
    if (!at || strstr(at + 1, with->from))
        fail("new", "the text to be replaced is not there exactly once");
    snprintf(broken, sizeof(broken), "%.*s%s%s", (int)(at - new_script), new_script, with->to,
             at + strlen(with->from));
    return broken;
}

const char *script_new(struct keyspace *keys, int64_t wall_ms, const char *call,
                       const char *own_key)
{
    static char word[16];
    const char *const words[] = {"EVAL", new_text(), "3", MARKER_KEY, VOTE_KEY, own_key,
                                 call,   "run",      "0", "ee",       "1000" /* max_ttl */};
    struct resp *resp = begin();
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        resp_text(resp, words[i]);
    redisReply *reply = run(keys, wall_ms, resp_end(resp));
    if (reply->type != REDIS_REPLY_ARRAY)
        fail("new", reply->type == REDIS_REPLY_ERROR ? reply->str : "another shape");
    snprintf(word, sizeof(word), "%s", reply->element[0]->str);
    freeReplyObject(reply);
    return word;
}

/* ---- locks ---- */

static struct config config = {.group_count = 1, .policy_count = 1, .groups = {{.guard = true}}};

struct bytes script_bucket(bool other_slot)
{
    static char buckets[2][32];
    char *bucket = buckets[other_slot];
    if (*bucket == '\0')
        snprintf(bucket, sizeof(buckets[0]), NUMBER_KEY "%u",
                 asking_bucket(other_slot ? "j" : "k"));
    return (struct bytes){bucket, strlen(bucket)};
}

static struct send_item item_of(const struct script_lock *lock)
{
    struct send_item item = {.key = {lock->other_slot ? "j" : "k", 1},
                             .agent = lock->renewer != 0 ? lock->renewer : lock->agent,
                             .fencing = true,
                             .permits = 1,
                             .ttl_ms = lock->ttl_ms,
                             .token = {.fence = lock->number}};
    memcpy(item.token.random, &lock->agent, sizeof(lock->agent));
    memcpy(item.token.random + sizeof(lock->agent), &lock->attempt, sizeof(lock->attempt));
    return item;
}

void script_vote(const struct guard *guard, uint8_t master, struct instant now, enum op op,
                 uint64_t number, char ret_vote[ASKING_VOTE_BYTES])
{
    asking_vote(ret_vote, guard, master, now, op, &(struct proposals){number, number});
}

/* The reply to a command that ends with an argument of the master's own. */
static redisReply *run_with_own(struct keyspace *keys, int64_t wall_ms, struct text command,
                                enum op op, const char *vote)
{
    char bytes[COMMAND_BYTES], own_bytes[ASKING_OWN_BYTES];
    struct text own =
        asking_own(own_bytes, op, /* clock_ms= */ 0, (struct text){vote, strlen(vote)});
    if (command.len + own.len > sizeof(bytes))
        fail("a command", "too long");
    memcpy(bytes, command.at, command.len);
    memcpy(bytes + command.len, own.at, own.len);
    return run(keys, wall_ms, (struct text){bytes, command.len + own.len});
}

enum script_says script_acquire(struct keyspace *keys, int64_t wall_ms,
                                const struct script_lock *lock, const char *vote,
                                uint64_t *ret_number)
{
    struct send_item item = item_of(lock);
    struct event_reply heard;
    struct text command = asking_op(begin(), &config, 0, OP_ACQUIRE, &item, 1);
    redisReply *reply = run_with_own(keys, wall_ms, command, OP_ACQUIRE, vote);
    item_reply_read(OP_ACQUIRE, reply, &heard);
    if (reply->type == REDIS_REPLY_ERROR)
        fail("acquire", reply->str);
    freeReplyObject(reply);
    *ret_number = heard.fence;
    return heard.vote == VOTE_YES       ? SAYS_YES
           : heard.vote == VOTE_GUARDED ? SAYS_GUARDED
           : heard.vote == VOTE_TAKEN   ? SAYS_HELD
                                        : SAYS_NO;
}

bool script_raise(struct keyspace *keys, int64_t wall_ms, const struct script_lock *lock)
{
    struct send_item item = item_of(lock);
    struct event_reply heard;
    redisReply *reply = run(keys, wall_ms, asking_op(begin(), &config, 0, OP_RAISE, &item, 1));
    item_reply_read(OP_RAISE, reply, &heard);
    if (reply->type == REDIS_REPLY_ERROR)
        fail("raise", reply->str);
    freeReplyObject(reply);
    return heard.vote == VOTE_YES && heard.fence >= lock->number;
}

bool script_extend(struct keyspace *keys, int64_t wall_ms, const struct script_lock *lock,
                   const char *vote)
{
    enum op op = *vote ? OP_ADOPT : OP_RENEW;
    struct send_item item = item_of(lock);
    struct event_reply heard;
    const char *error = NULL;
    struct text command = asking_op(begin(), &config, 0, op, &item, 1);
    redisReply *reply = op == OP_ADOPT ? run_with_own(keys, wall_ms, command, op, vote)
                                       : run(keys, wall_ms, command);
    reply_read(op, 1, reply, &heard, &error);
    if (error != NULL)
        fail("extend", error);
    freeReplyObject(reply);
    return heard.vote == VOTE_YES;
}

void script_release(struct keyspace *keys, int64_t wall_ms, const struct script_lock *lock)
{
    struct send_item item = item_of(lock);
    struct text command = asking_op(begin(), &config, 0, OP_RELEASE, &item, 1);
    /* No holder asks for it, so no vote counts. */
    redisReply *reply = run_with_own(keys, wall_ms, command, OP_RELEASE, asking_no_vote().at);
    if (reply->type == REDIS_REPLY_ERROR)
        fail("release", reply->str);
    freeReplyObject(reply);
}

/* ---- marker and vote ---- */

static const struct bytes marker_key = {MARKER_KEY, sizeof(MARKER_KEY) - 1},
                          vote_key = {VOTE_KEY, sizeof(VOTE_KEY) - 1};

bool marker_field(struct keyspace *keys, const char *name, char ret_value[GUARD_WORD_BYTES])
{
    const struct entry *marker = keyspace_find(keys, marker_key);
    const struct string *value =
        marker ? entry_field(marker, (struct bytes){name, strlen(name)}) : NULL;
    snprintf(ret_value, GUARD_WORD_BYTES, "%.*s", value ? (int)value->len : 0,
             value ? value->at : "");
    return value != NULL;
}

uint64_t marker_number(struct keyspace *keys, const char *name)
{
    char text[GUARD_WORD_BYTES];
    return marker_field(keys, name, text) ? strtoull(text, NULL, 10) : 0;
}

bool stored_vote(struct keyspace *keys, char ret_vote[GUARD_VOTE_BYTES])
{
    const struct entry *vote = keyspace_find(keys, vote_key);
    bool is_there = vote != NULL && vote->type == VALUE_STRING;
    snprintf(ret_vote, GUARD_VOTE_BYTES, "%.*s", is_there ? (int)vote->value.len : 0,
             is_there ? vote->value.at : "");
    return is_there;
}

void marker_set(struct keyspace *keys, const char *name, const char *value)
{
    const struct bytes set[] = {
        {"HSET", 4}, marker_key, {name, strlen(name)}, {value, strlen(value)}};
    keyspace_command(keys, set, 4);
}

void vote_delete(struct keyspace *keys)
{
    const struct bytes del[] = {{"DEL", 3}, vote_key};
    keyspace_command(keys, del, 2);
}
