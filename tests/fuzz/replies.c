/* Fuzzes replies of masters: RESP, in pieces, through the scanner and hiredis' reader -> outcomes
 * and votes. The first byte chooses the command, and how large the pieces are. */
#include "agent/redis/replies.h"
#include "agent/redis/resp_scan.h"
#include "tests/fuzz/fuzz.h"

enum { REPLIES_MAX = 64 };

static void check_description(enum redis_outcome outcome, const char *text)
{
    char said[120];
    outcome_describe(outcome, text, said, sizeof(said));
    size_t len = strlen(said);
    FUZZ_CHECK(len > 0 && len < sizeof(said), "%zu bytes", len);
    for (size_t i = 0; i < len; i++)
        FUZZ_CHECK(said[i] >= ' ' && said[i] < 0x7f, "byte %d in a sentence", said[i]);
    FUZZ_CHECK(strstr(said, ", with args") == NULL, "arguments are told: %s", said);
}

/* A master that is guarded has no vote in these (R7). */
static bool op_needs_vote(enum op op)
{
    return op == OP_ACQUIRE || op == OP_HANDOVER || op == OP_RESUME || op == OP_ADOPT ||
           op == OP_RELEASE;
}

/* A grant names its number as text as well (R12). */
static bool is_number_text(enum op op, const redisReply *entry)
{
    return op == OP_ACQUIRE && entry->type == REDIS_REPLY_STRING && entry->len > 0 &&
           strspn(entry->str, "0123456789") == entry->len;
}

/* Checks that the reply supports the vote (replies.h, types.h). */
static void check_vote(enum op op, const redisReply *entry, enum vote vote,
                       enum redis_outcome outcome)
{
    bool number = entry->type == REDIS_REPLY_INTEGER, list = entry->type == REDIS_REPLY_ARRAY;
    switch (vote) {
    case VOTE_YES:
        FUZZ_CHECK((op == OP_ADOPT && list) || op == OP_READ || op == OP_HANDOVER ? list
                   : number ? entry->integer >= 0
                            : is_number_text(op, entry),
                   "%s said yes", op_name(op));
        break;
    case VOTE_REPAIRED:
        FUZZ_CHECK(op == OP_REPAIR && list, "%s repaired", op_name(op));
        break;
    case VOTE_MISNUMBERED:
        FUZZ_CHECK((op == OP_ADOPT || op == OP_RELEASE) && list, "%s misnumbered", op_name(op));
        break;
    case VOTE_LATE:
        FUZZ_CHECK(op_creates(op) && list, "%s is late", op_name(op));
        break;
    case VOTE_ABSENT:
        FUZZ_CHECK(op != OP_ACQUIRE && number && entry->integer == -1, "%s said absent",
                   op_name(op));
        break;
    case VOTE_GUARDED:
        FUZZ_CHECK(op_needs_vote(op) && list, "%s is guarded", op_name(op));
        break;
    case VOTE_UNLOCKED:
        FUZZ_CHECK((op == OP_RENEW || op == OP_RESUME || op == OP_REPAIR) && list, "%s is unlocked",
                   op_name(op));
        break;
    case VOTE_TAKEN:
        FUZZ_CHECK(list, "%s said held", op_name(op));
        break;
    case VOTE_FOREIGN:
        FUZZ_CHECK(outcome == REDIS_OUTCOME_WRONGTYPE, "foreign, but %s",
                   redis_outcome_name(outcome));
        break;
    default:
        FUZZ_CHECK(vote != VOTE_NOT_SENT && outcome != REDIS_OUTCOME_OK, "%s, but %s",
                   vote_name(vote), redis_outcome_name(outcome));
    }
}

static void check_entry(enum op op, const redisReply *entry)
{
    struct event_reply item;
    memset(&item, 0xff, sizeof(item));
    enum redis_outcome outcome = item_reply_read(op, entry, &item);
    const struct occupant *occupant = &item.occupant;
    FUZZ_CHECK((unsigned)outcome < REDIS_OUTCOME_COUNT && (unsigned)item.vote < VOTE_COUNT,
               "out of the tables");
    FUZZ_CHECK(outcome != REDIS_OUTCOME_LOST && outcome != REDIS_OUTCOME_NOT_SENT,
               "but there is a reply");
    FUZZ_CHECK(occupant->label.len <= LIMIT_LABEL_BYTES, "a label of %zu bytes",
               occupant->label.len);
    FUZZ_CHECK(item.fence <= INT64_MAX, "no script can store %llu", (unsigned long long)item.fence);
    FUZZ_CHECK(occupant->left_ms >= -1 && occupant->left_ms <= REPLY_MS_MAX, "%lld ms are left",
               (long long)occupant->left_ms);
    FUZZ_CHECK(item.agents <= AGENTS_MAX && item.ticket <= INT64_MAX, "%u agents", item.agents);
    FUZZ_CHECK(occupant->readers <= READERS_MAX &&
                   (occupant->mode == MODE_READ || occupant->readers == 0),
               "%u readers", occupant->readers);
    FUZZ_CHECK(occupant->taken == 0 || entry->type == REDIS_REPLY_ARRAY, "slots in no list");
    check_vote(op, entry, item.vote, outcome);
    if (entry->type == REDIS_REPLY_ERROR) {
        FUZZ_CHECK(outcome != REDIS_OUTCOME_OK && item.vote == vote_of_outcome(outcome),
                   "an error");
        check_description(outcome, entry->str);
    }
    check_description(outcome, NULL);
}

/* Checks that a reply which the scanner accepts is within its bounds. */
static void check_bounds(const redisReply *reply, unsigned depth, size_t *elements)
{
    FUZZ_CHECK(depth <= RESP_DEPTH_MAX + 1, "%u levels", depth);
    if (reply->type != REDIS_REPLY_ARRAY)
        return;
    *elements += reply->elements;
    FUZZ_CHECK(*elements <= RESP_ELEMENTS_MAX, "%zu elements", *elements);
    for (size_t i = 0; i < reply->elements; i++)
        check_bounds(reply->element[i], depth + 1, elements);
}

static void check_message(const char *text)
{
    struct event_channel said = message_read(text);
    bool is_number = text[0] >= '0' && text[0] <= '9';
    FUZZ_CHECK(said.agents <= AGENTS_MAX, "%u agents", said.agents);
    FUZZ_CHECK(said.agents == 0 || is_number, "%u agents in %s", said.agents, text);
    size_t behind = said.next == 0 ? 0 : strlen(strchr(text, ' ') + 1);
    FUZZ_CHECK(said.next == 0 || behind == 16 || behind == 18, "a name in %s", text);
    FUZZ_CHECK(!said.next_reads || is_number, "a mode in %s", text);
    FUZZ_CHECK(said.slot < LIMIT_PERMITS, "slot %u in %s", said.slot, text);
    FUZZ_CHECK(!said.has_slot || strstr(text, " slot ") != NULL, "a slot in %s", text);
}

static void check_reply(enum op op, const redisReply *reply)
{
    size_t elements = 0;
    check_bounds(reply, 1, &elements);
    check_entry(op, reply);
    bool is_list = reply->type == REDIS_REPLY_ARRAY && (op_is_gathered(op) || op == OP_ADOPT);
    for (size_t at = 0; is_list && at < reply->elements; at++)
        check_entry(op, reply->element[at]);
    if (reply->type == REDIS_REPLY_STRING)
        check_message(reply->str);
}

/* Checks that the scanner and the reader agree on the end of a reply. There is no reply before the
 * end, exactly one at the end, and no byte is left over. */
static void read_one(enum op op, redisReader *reader, const char *bytes, size_t len)
{
    void *reply = NULL;
    for (size_t at = 0; at < len; at++) {
        FUZZ_CHECK(reply == NULL, "a reply ends %zu bytes before the scanner says", len - at);
        FUZZ_CHECK(redisReaderFeed(reader, bytes + at, 1) == REDIS_OK, "%s", reader->errstr);
        FUZZ_CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK, "%s", reader->errstr);
    }
    FUZZ_CHECK(reply != NULL, "the scanner ends a reply that the reader does not");
    check_reply(op, reply);
    freeReplyObject(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    enum op op = (enum op)(data[0] % OP_COUNT);
    size_t piece = 1u + data[0] / OP_COUNT, from = 1;
    redisReader *reader = redisReaderCreate();
    struct resp_scan scan = {0};
    unsigned replies = 0;
    for (size_t at = 1; at < size && replies < REPLIES_MAX;) {
        size_t taken = 0, left = size - at < piece ? size - at : piece;
        enum resp_found found = resp_scan(&scan, (const char *)data + at, left, &taken);
        FUZZ_CHECK(taken <= left && (found != RESP_MORE || taken == left), "%zu of %zu bytes",
                   taken, left);
        if (found == RESP_MALFORMED || found == RESP_OVERSIZED)
            break;
        at += taken;
        FUZZ_CHECK(at - from <= RESP_BYTES_MAX, "a reply of %zu bytes", at - from);
        if (found == RESP_REPLY) {
            read_one(op, reader, (const char *)data + from, at - from);
            from = at;
            replies++;
        }
    }
    redisReaderFree(reader);
    return 0;
}
