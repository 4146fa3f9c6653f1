/* Fuzzes what masters may say: RESP as hiredis reads it -> outcomes and votes. The first byte chooses the command. */
#include "agent/redis/room.h"
#include "tests/fuzz/fuzz.h"

enum { REPLIES_MAX = 64 };

static void check_description(const struct item_reply *item, const char *text)
{
    char said[120];
    outcome_describe(item->outcome, text, said, sizeof(said));
    size_t len = strlen(said);
    FUZZ_CHECK(len > 0 && len < sizeof(said), "%zu bytes", len);
    for (size_t i = 0; i < len; i++)
        FUZZ_CHECK(said[i] >= ' ' && said[i] < 0x7f, "byte %d in a sentence", said[i]);
    FUZZ_CHECK(strstr(said, ", with args") == NULL, "arguments are told: %s", said);
}

/* What each vote may rest on (room.h, types.h). */
static void check_vote(enum op op, const redisReply *entry, const struct item_reply *item)
{
    bool number = entry->type == REDIS_REPLY_INTEGER, list = entry->type == REDIS_REPLY_ARRAY;
    switch (item->vote) {
    case VOTE_YES:
        FUZZ_CHECK(op == OP_READ ? list : number && entry->integer >= 0, "%s said yes", op_name(op));
        break;
    case VOTE_REPAIRED:
        FUZZ_CHECK(op == OP_REPAIR && list, "%s repaired", op_name(op));
        break;
    case VOTE_MISNUMBERED:
        FUZZ_CHECK(op == OP_ADOPT && list, "%s misnumbered", op_name(op));
        break;
    case VOTE_ABSENT:
        FUZZ_CHECK(op != OP_ACQUIRE && number && entry->integer == -1, "%s said absent", op_name(op));
        break;
    case VOTE_HELD:
        FUZZ_CHECK(list, "%s said held", op_name(op));
        break;
    case VOTE_FOREIGN:
        FUZZ_CHECK(item->outcome == REDIS_OUTCOME_WRONGTYPE, "foreign, but %s", redis_outcome_name(item->outcome));
        break;
    default:
        FUZZ_CHECK(item->vote != VOTE_NOT_SENT && item->outcome != REDIS_OUTCOME_OK, "%s, but %s",
                   vote_name(item->vote), redis_outcome_name(item->outcome));
    }
}

static void check_entry(enum op op, const redisReply *entry)
{
    struct item_reply item;
    memset(&item, 0xff, sizeof(item));
    item_reply_read(op, entry, &item);
    FUZZ_CHECK((unsigned)item.outcome < REDIS_OUTCOME_COUNT && (unsigned)item.vote < VOTE_COUNT, "out of the tables");
    FUZZ_CHECK(item.outcome != REDIS_OUTCOME_LOST && item.outcome != REDIS_OUTCOME_NOT_SENT, "but there is a reply");
    FUZZ_CHECK(item.holder.len <= LIMIT_LABEL_BYTES, "a label of %zu bytes", item.holder.len);
    FUZZ_CHECK(item.fence <= INT64_MAX, "no script can store %llu", (unsigned long long)item.fence);
    FUZZ_CHECK(item.pttl_ms >= -1, "%lld ms are left", (long long)item.pttl_ms);
    check_vote(op, entry, &item);
    if (entry->type == REDIS_REPLY_ERROR) {
        FUZZ_CHECK(item.outcome != REDIS_OUTCOME_OK && item.vote == vote_of_outcome(item.outcome), "an error");
        check_description(&item, entry->str);
    }
    check_description(&item, NULL);
}

/* The reader sets room aside for as many elements as a list claims to have: hiredis's affair, not ours. */
static bool claims_too_much(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 6 < size; i++)
        if (data[i] == '*' && strspn((const char[]){(char)data[i + 1], (char)data[i + 2], (char)data[i + 3],
                                                    (char)data[i + 4], (char)data[i + 5], (char)data[i + 6], '\0'},
                                     "+-0123456789") >= 5)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || claims_too_much(data, size))
        return 0;
    enum op op = (enum op)(data[0] % OP_COUNT);
    redisReader *reader = redisReaderCreate();
    redisReaderFeed(reader, (const char *)data + 1, size - 1);
    void *reply = NULL;
    for (unsigned i = 0; i < REPLIES_MAX && redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL; i++) {
        const redisReply *list = reply;
        check_entry(op, list);
        for (size_t at = 0; list->type == REDIS_REPLY_ARRAY && op_is_batched(op) && at < list->elements; at++)
            check_entry(op, list->element[at]);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
    return 0;
}
