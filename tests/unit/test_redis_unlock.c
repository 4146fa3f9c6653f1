/* The script of `lockagent unlock` (R25), on a real redis-server. */
#include "agent/redis/unlocking.h"
#include "redis_rig.h"

#define NAME "010101010101" /* the name of a hold by item_of(key, 1, ...) */
#define TOMBSTONE "lockagent:unlocked:" NAME ":lock:k"

enum { TOMBSTONE_MS = 60000 };

static struct server one;

/* Calls the script for the key `k`. `tombstone_ms` 0: only looks. */
static struct unlock_answer call(const char *name, uint64_t number, int64_t tombstone_ms)
{
    static char bytes[16 << 10];
    struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    const struct unlock_target target = {
        .config = rig.config, .policy = POLICY_FENCED, .key = {"k", 1}, .fencing = true};
    const struct unlock_ask unlock = {.name = name, .number = number, .tombstone_ms = tombstone_ms};
    struct text command = unlocking_ask(&resp, &target, &unlock);
    struct unlock_answer answer;
    void *reply = NULL;
    cr_assert_eq(redisAppendFormattedCommand(one.control, command.at, command.len), REDIS_OK);
    cr_assert_eq(redisGetReply(one.control, &reply), REDIS_OK);
    cr_assert(unlocking_read(reply, &answer), "%s", ((redisReply *)reply)->str);
    freeReplyObject(reply);
    return answer;
}

static struct unlock_answer look(const char *name)
{
    return call(name, BIG, 0);
}

static void begin_held(void)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
}

/* A look with the name of a hold is a look all the same. */
Test(redis_unlock, r25_a_look_writes_nothing)
{
    static const char *const names[] = {"", NAME, "0123456789ab"};
    begin_held();
    const long long keys = strtoll(ask(&one, "DBSIZE"), NULL, 10);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct unlock_answer answer = look(names[i]);
        cr_assert_eq(answer.word, UNLOCK_HELD);
        cr_assert_eq(answer.holds, 1);
        cr_assert_eq(answer.number, BIG);
        cr_assert_not(answer.gone);
    }
    ask(&one, "DEL lock:k");
    const struct unlock_answer answer = look(NAME);
    cr_assert_eq(answer.word, UNLOCK_FREE);
    cr_assert_not(answer.gone);
    cr_assert_eq(strtoll(ask(&one, "DBSIZE"), NULL, 10), keys - 1);
    end(&one);
}

/* R25: the tombstone shows that an earlier call has deleted the hold, and no other one. */
Test(redis_unlock, r25_a_look_finds_what_an_earlier_call_has_deleted)
{
    begin_held();
    cr_assert_eq(call(NAME, BIG + 1, TOMBSTONE_MS).word, UNLOCK_DELETED);
    cr_assert_null(ask(&one, "GET lock:k"));
    struct unlock_answer answer = look(NAME);
    cr_assert_eq(answer.word, UNLOCK_FREE);
    cr_assert(answer.gone);
    cr_assert_eq(answer.number, BIG + 1);
    cr_assert_not(look("").gone);
    cr_assert_not(look("0123456789ab").gone);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 2, BIG + 2)).vote, VOTE_YES);
    answer = look(NAME);
    cr_assert_eq(answer.word, UNLOCK_HELD);
    cr_assert(answer.gone, "the next hold hides it not");
    cr_assert_eq(call(NAME, BIG + 3, TOMBSTONE_MS).word, UNLOCK_DELETED);
    cr_assert_not_null(ask(&one, "GET lock:k"), "the next hold stays");
    end(&one);
}

/* R25: a master that did not have the hold has a tombstone as well, which does not count. */
Test(redis_unlock, r25_a_look_counts_no_hold_that_was_missing)
{
    begin(&one, NULL);
    cr_assert_eq(call(NAME, BIG, TOMBSTONE_MS).word, UNLOCK_MISSING);
    cr_assert_str_eq(ask(&one, "GET " TOMBSTONE), "missing");
    cr_assert_not(look(NAME).gone);
    ask(&one, "DEL " TOMBSTONE);
    ask(&one, "LPUSH " TOMBSTONE " deleted"); /* Another program wrote it. */
    cr_assert_not(look(NAME).gone);
    end(&one);
}
