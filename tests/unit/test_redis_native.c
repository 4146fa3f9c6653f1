/* Locks that are taken and released by native commands (R24): the bytes of a call, its ends, the
 * meaning of each reply, and the deeds of a real redis-server. */
#include "agent/redis/internal.h"
#include "agent/redis/replies.h"
#include "redis_rig.h"

static struct server one, two;

enum { CLOCK_MS = 1700000000, SPREAD_MS = 100 };

#define VALUE_A A40 AGENT BIG_TEXT ":me"
#define VALUE_B B40 AGENT "1760000000000001:me"
#define ENDS "$2\r\nNX\r\n$4\r\nPXAT\r\n$13\r\n0000000000000\r\n"
#define RAISE "*6\r\n$4\r\nZADD\r\n$26\r\n" BUCKET_OF_K "\r\n$2\r\nGT\r\n$2\r\nCH\r\n"
#define VOTE_IS "*2\r\n$3\r\nGET\r\n$15\r\nlockagent:votes\r\n"
#define ENDING "*1\r\n$4\r\nTIME\r\n*1\r\n$4\r\nEXEC\r\n"

static struct resp resp;

static void begin_bytes(bool guard)
{
    static char bytes[1 << 16];
    resp = (struct resp){.bytes = bytes, .size = sizeof(bytes)};
    rig_configure();
    rig.config->groups[0].guard = guard;
}

static void expect_bytes(const struct native *native, const char *expected)
{
    cr_assert_eq(native->bytes.len, strlen(expected), "%.*s", (int)native->bytes.len,
                 native->bytes.at);
    cr_assert_eq(memcmp(native->bytes.at, expected, native->bytes.len), 0, "%.*s",
                 (int)native->bytes.len, native->bytes.at);
}

/* ---- the bytes ---- */

Test(native, r24_a_numbered_lock_of_a_guarded_group_to_the_letter)
{
    begin_bytes(/* guard= */ true);
    struct send_item item = item_of("k", 1, BIG);
    struct native native = asking_native(&resp, rig.config, 0, &item, 1);
    expect_bytes(&native, "*1\r\n$5\r\nMULTI\r\n"
                          "*6\r\n$3\r\nSET\r\n$6\r\nlock:k\r\n$69\r\n" VALUE_A "\r\n" ENDS RAISE
                          "$16\r\n" BIG_TEXT "\r\n$1\r\nn\r\n" VOTE_IS ENDING);
    cr_assert_eq(native.count, 1);
    cr_assert_eq(native.results, 4);
    cr_assert_eq(native.before, 5, "OK, and QUEUED for each of the four");
    free(rig.config);
}

Test(native, r24_a_lock_without_number_or_guard_to_the_letter)
{
    begin_bytes(/* guard= */ false);
    struct send_item item = plain_of("k", 1);
    struct native native = asking_native(&resp, rig.config, 0, &item, 1);
    expect_bytes(&native,
                 "*1\r\n$5\r\nMULTI\r\n"
                 "*6\r\n$3\r\nSET\r\n$7\r\nplain:k\r\n$54\r\n" A40 AGENT "0:me\r\n" ENDS ENDING);
    cr_assert_eq(native.results, 2);
    cr_assert_eq(native.before, 3);
    free(rig.config);
}

/* Each slot has its own key, and its own bucket (R20). */
Test(native, r24_a_slot_to_the_letter)
{
    begin_bytes(/* guard= */ false);
    struct send_item item = item_of("k", 1, BIG);
    item.form = FORM_SLOTS;
    item.permits = 3;
    item.token.has_slot = true;
    item.token.slot = 1;
    struct native native = asking_native(&resp, rig.config, 0, &item, 1);
    expect_bytes(&native,
                 "*1\r\n$5\r\nMULTI\r\n"
                 "*6\r\n$3\r\nSET\r\n$23\r\nlockagent:slot:1:lock:k\r\n$69\r\n" VALUE_A "\r\n" ENDS
                 "*6\r\n$4\r\nZADD\r\n$26\r\nlockagent:number:lock:4573\r\n$2\r\nGT\r\n"
                 "$2\r\nCH\r\n$16\r\n" BIG_TEXT "\r\n$1\r\nn\r\n" ENDING);
    free(rig.config);
}

Test(native, r24_several_locks_share_a_call_and_its_vote)
{
    begin_bytes(/* guard= */ true);
    struct send_item items[] = {item_of("k", 1, BIG), item_of("k", 2, BIG + 1)};
    items[1].label = (struct text){"me", 2};
    struct native native = asking_native(&resp, rig.config, 0, items, 2);
    expect_bytes(&native, "*1\r\n$5\r\nMULTI\r\n"
                          "*6\r\n$3\r\nSET\r\n$6\r\nlock:k\r\n$69\r\n" VALUE_A "\r\n" ENDS RAISE
                          "$16\r\n" BIG_TEXT "\r\n$1\r\nn\r\n"
                          "*6\r\n$3\r\nSET\r\n$6\r\nlock:k\r\n$69\r\n" VALUE_B "\r\n" ENDS RAISE
                          "$16\r\n1760000000000001\r\n$1\r\nn\r\n" VOTE_IS ENDING);
    cr_assert_eq(native.count, 2);
    cr_assert_eq(native.results, 6);
    cr_assert_eq(native.before, 7);
    free(rig.config);
}

/* Returns the digits of an item's end. */
static const char *end_in(const struct native *native, unsigned i)
{
    static char digits[14];
    memcpy(digits, native->bytes.at + native->ends[i], 13);
    return digits;
}

/* R24: the end is the clock's lower bound, the spread, and the lease. Each master has its own, and
 * leaves no digit of another one. */
Test(native, r24_each_end_counts_from_the_clock_of_its_master)
{
    begin_bytes(/* guard= */ true);
    struct send_item items[] = {item_of("a", 1, BIG), item_of("b", 2, BIG)};
    items[1].ttl_ms = 3600000;
    struct native native = asking_native(&resp, rig.config, 0, items, 2);
    char *bytes = resp.bytes + resp.at;
    size_t len = native.bytes.len;
    static const struct {
        int64_t clock_ms;
        const char *ends[2];
    } rows[] = {
        {1700000000000, {"1700000010100", "1700003600100"}},
        {1, {"0000000010101", "0000003600101"}},
        {9999996399899, {"9999996409999", "9999999999999"}},
        {1700000000001, {"1700000010101", "1700003600101"}},
    };
    for (unsigned row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        asking_native_ends(&native, bytes, rows[row].clock_ms);
        cr_assert_eq(native.bytes.len, len);
        for (unsigned i = 0; i < 2; i++) {
            cr_assert_str_eq(end_in(&native, i), rows[row].ends[i]);
            cr_assert_eq(memcmp(bytes + native.ends[i] - 5, "$13\r\n", 5), 0);
            cr_assert_eq(memcmp(bytes + native.ends[i] + 13, "\r\n", 2), 0);
        }
    }
    free(rig.config);
}

/* ---- the bytes of a release ---- */

#define VALUE_OF_A "$69\r\n" VALUE_A "\r\n"
#define NUMSUB(words) "*" words "\r\n$6\r\nPUBSUB\r\n$6\r\nNUMSUB\r\n"
#define CHANNEL_OF_K "$24\r\nlockagent:channel:lock:k\r\n"

static struct send_item released(uint8_t token, uint64_t number)
{
    struct send_item item = item_of("k", token, number);
    item.label = (struct text){"me", 2};
    item.asked = true;
    return item;
}

Test(native, r24_a_release_names_the_whole_value_to_the_letter)
{
    begin_bytes(/* guard= */ true);
    struct send_item items[] = {released(1, BIG), released(2, BIG + 1)};
    struct native native =
        asking_native_release(&resp, rig.config, 0, COMPARE_DELETE_DELIFEQ, items, 2);
    expect_bytes(&native,
                 "*1\r\n$5\r\nMULTI\r\n"
                 "*3\r\n$7\r\nDELIFEQ\r\n$6\r\nlock:k\r\n" VALUE_OF_A
                 "*3\r\n$7\r\nDELIFEQ\r\n$6\r\nlock:k\r\n$69\r\n" VALUE_B "\r\n" VOTE_IS NUMSUB("4")
                     CHANNEL_OF_K CHANNEL_OF_K "*1\r\n$4\r\nEXEC\r\n");
    cr_assert_eq(native.count, 2);
    cr_assert_eq(native.results, 4);
    cr_assert_eq(native.before, 5, "OK, and QUEUED for each of the four");
    cr_assert_not(native.takes);
    free(rig.config);
}

/* All slots share the channel of their key (R9). Redis has another command than Valkey. */
Test(native, r24_a_release_of_a_slot_by_delex_to_the_letter)
{
    begin_bytes(/* guard= */ false);
    struct send_item item = released(1, BIG);
    item.form = FORM_SLOTS;
    item.permits = 3;
    item.token.has_slot = true;
    item.token.slot = 1;
    struct native native =
        asking_native_release(&resp, rig.config, 0, COMPARE_DELETE_DELEX, &item, 1);
    expect_bytes(&native,
                 "*1\r\n$5\r\nMULTI\r\n"
                 "*4\r\n$5\r\nDELEX\r\n$23\r\nlockagent:slot:1:lock:k\r\n"
                 "$4\r\nIFEQ\r\n" VALUE_OF_A NUMSUB("3") CHANNEL_OF_K "*1\r\n$4\r\nEXEC\r\n");
    cr_assert_eq(native.results, 2);
    free(rig.config);
}

/* ---- the vote ---- */

Test(native, r24_the_script_decides_without_a_plain_vote_and_out_of_the_numbers_range)
{
    static const struct {
        const char *vote;
        struct proposals proposals;
        bool goes;
    } rows[] = {
        {"=r:e:0000000000001000", {1001, 2000}, true},
        {"=r:e:0000000000001000", {1001, 2001}, false}, /* above the top */
        {"=r:e:0000000000001000", {1000, 2000}, false}, /* not above the floor */
        {"@r:e:f:0000000000001000", {1001, 2000}, false},
        {"!r:e:0000000000001000", {1001, 2000}, false},
        {"", {1001, 2000}, false},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct guard guard = {.master_count = 1, .floor = 1000};
        guard.masters[0] = (struct guard_master){.seen = true, .last = {.top = 2000}};
        snprintf(guard.masters[0].last.vote, sizeof(guard.masters[0].last.vote), "%s",
                 rows[i].vote);
        const char *vote = asking_native_vote(&guard, 0, (struct instant){0}, &rows[i].proposals);
        cr_assert_eq(vote != NULL, rows[i].goes, "%u", i);
        cr_assert(vote == NULL || strcmp(vote, rows[i].vote) == 0);
        guard.masters[0].seen = false;
        cr_assert_null(asking_native_vote(&guard, 0, (struct instant){0}, &rows[i].proposals));
    }
}

/* ---- replies ---- */

static redisReply *parsed(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    cr_assert_eq(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    cr_assert_not_null(reply, "%s", bytes);
    redisReaderFree(reader);
    return reply;
}

#define TIME_OF(seconds, us) "*2\r\n$10\r\n" seconds "\r\n$" us "\r\n"
#define ON_TIME TIME_OF("1700000000", "1\r\n0")
#define THE_VOTE "$3\r\n=v1\r\n"

/* Returns the meaning of a call for two locks, one word each. */
static const char *words_of(const struct native_results *call, const char *bytes, bool *ret_runs)
{
    static char words[64];
    struct event_reply replies[2];
    redisReply *reply = parsed(bytes);
    *ret_runs = native_reply_read(call, 2, reply, replies);
    *words = '\0';
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(replies[i].is_native, call->takes && replies[i].vote == VOTE_YES);
        cr_assert_eq(replies[i].fence, 0);
        cr_assert_eq(replies[i].occupant.left_ms, -1);
        snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s", i ? " " : "",
                 vote_name(replies[i].vote));
    }
    freeReplyObject(reply);
    return words;
}

/* Returns the same for two numbered locks of a guarded group that are taken. */
static const char *votes_of(const char *bytes, bool *ret_runs)
{
    static const struct native_results call = {.takes = true,
                                               .results = 6,
                                               .fencing = true,
                                               .vote = "=v1",
                                               .clock_ms = CLOCK_MS * INT64_C(1000),
                                               .spread_ms = SPREAD_MS};
    return words_of(&call, bytes, ret_runs);
}

#define BOTH "yes yes"
#define FIRST "yes by_script"
#define SECOND "by_script yes"
#define NONE "by_script by_script"

/* R24: every deviation from a grant, one by one. The script decides about it. */
Test(native, r24_only_the_whole_grant_is_a_yes)
{
    static const struct {
        const char *bytes, *votes;
    } rows[] = {
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, BOTH},
        /* SET */
        {"*6\r\n$-1\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n+OK\r\n:1\r\n$-1\r\n:1\r\n" THE_VOTE ON_TIME, FIRST},
        {"*6\r\n$2\r\nOK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n+QUEUED\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n+OKAY\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n-OOM no\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n-OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n:1\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n*0\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n:1\r\n+OK\r\n:1\r\n+OK\r\n" THE_VOTE ON_TIME, NONE},
        /* ZADD */
        {"*6\r\n+OK\r\n:0\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:0\r\n" THE_VOTE ON_TIME, FIRST},
        {"*6\r\n+OK\r\n:2\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n+OK\r\n:-1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n+OK\r\n$1\r\n1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n+OK\r\n$-1\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        {"*6\r\n+OK\r\n-WRONGTYPE no\r\n+OK\r\n:1\r\n" THE_VOTE ON_TIME, SECOND},
        /* the vote */
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n$3\r\n=v2\r\n" ON_TIME, NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n$2\r\n=v\r\n" ON_TIME, NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n$4\r\n=v11\r\n" ON_TIME, NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n$3\r\n!v1\r\n" ON_TIME, NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n$0\r\n\r\n" ON_TIME, NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n$-1\r\n" ON_TIME, NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n+=v1\r\n" ON_TIME, NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n-WRONGTYPE no\r\n" ON_TIME, NONE},
        /* the time */
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE TIME_OF("1700000000", "6\r\n100000"), BOTH},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE TIME_OF("1700000000", "6\r\n100001"), NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE TIME_OF("1699999999", "6\r\n999999"), NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE TIME_OF("1700000001", "1\r\n0"), NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE TIME_OF("9999999999", "1\r\n0"), NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE TIME_OF("170000000x", "1\r\n0"), NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE TIME_OF("1700000000", "2\r\n0x"), NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE "*1\r\n$10\r\n1700000000\r\n", NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE "*3\r\n$10\r\n1700000000\r\n$1\r\n0\r\n:0\r\n",
         NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE "*2\r\n:1700000000\r\n:0\r\n", NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE "$10\r\n1700000000\r\n", NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" THE_VOTE "-NOPERM no\r\n", NONE},
        {"*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" ON_TIME THE_VOTE, NONE},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool runs;
        cr_assert_str_eq(votes_of(rows[i].bytes, &runs), rows[i].votes, "%u: %s", i, rows[i].bytes);
        cr_assert(runs, "%u", i);
    }
}

#define CHANNEL "$1\r\nc\r\n"
#define NOBODY "*4\r\n" CHANNEL ":0\r\n" CHANNEL ":0\r\n"

/* R24: the same of a release. */
Test(native, r24_only_a_release_that_nobody_waits_for_is_a_yes)
{
    static const struct {
        const char *bytes, *votes;
    } rows[] = {
        {"*4\r\n:1\r\n:1\r\n" THE_VOTE NOBODY, BOTH},
        /* DELIFEQ */
        {"*4\r\n:0\r\n:1\r\n" THE_VOTE NOBODY, SECOND},
        {"*4\r\n:1\r\n:0\r\n" THE_VOTE NOBODY, FIRST},
        {"*4\r\n:-1\r\n:1\r\n" THE_VOTE NOBODY, SECOND},
        {"*4\r\n$1\r\n1\r\n:1\r\n" THE_VOTE NOBODY, SECOND},
        {"*4\r\n-WRONGTYPE no\r\n:1\r\n" THE_VOTE NOBODY, SECOND},
        {"*4\r\n$-1\r\n:1\r\n" THE_VOTE NOBODY, SECOND},
        /* the vote */
        {"*4\r\n:1\r\n:1\r\n$3\r\n=v2\r\n" NOBODY, NONE},
        {"*4\r\n:1\r\n:1\r\n$3\r\n@v1\r\n" NOBODY, NONE},
        {"*4\r\n:1\r\n:1\r\n$-1\r\n" NOBODY, NONE},
        {"*4\r\n:1\r\n:1\r\n-WRONGTYPE no\r\n" NOBODY, NONE},
        /* the waiters */
        {"*4\r\n:1\r\n:1\r\n" THE_VOTE "*4\r\n" CHANNEL ":1\r\n" CHANNEL ":0\r\n", SECOND},
        {"*4\r\n:1\r\n:1\r\n" THE_VOTE "*4\r\n" CHANNEL ":0\r\n" CHANNEL ":7\r\n", FIRST},
        {"*4\r\n:1\r\n:1\r\n" THE_VOTE "*2\r\n" CHANNEL ":0\r\n", NONE},
        {"*4\r\n:1\r\n:1\r\n" THE_VOTE "*4\r\n:0\r\n" CHANNEL ":0\r\n" CHANNEL, NONE},
        {"*4\r\n:1\r\n:1\r\n" THE_VOTE ":0\r\n", NONE},
        {"*4\r\n:1\r\n:1\r\n" THE_VOTE "-NOPERM no\r\n", NONE},
        {"-EXECABORT Transaction discarded because of previous errors.\r\n", NONE},
        {"*3\r\n:1\r\n:1\r\n" NOBODY, NONE},
    };
    static const struct native_results call = {.results = 4, .vote = "=v1"};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool runs;
        cr_assert_str_eq(words_of(&call, rows[i].bytes, &runs), rows[i].votes, "%u: %s", i,
                         rows[i].bytes);
    }
}

/* R6: the script that is asked next finds no key, and this call has deleted it. */
Test(native, r24_a_release_that_somebody_waits_for_has_deleted_its_key)
{
    static const struct native_results call = {.results = 4, .vote = "=v1"};
    struct event_reply replies[2];
    redisReply *reply =
        parsed("*4\r\n:1\r\n:0\r\n" THE_VOTE "*4\r\n" CHANNEL ":1\r\n" CHANNEL ":1\r\n");
    cr_assert(native_reply_read(&call, 2, reply, replies));
    cr_assert(replies[0].vote == VOTE_BY_SCRIPT && replies[0].is_deleted);
    cr_assert(replies[1].vote == VOTE_BY_SCRIPT && !replies[1].is_deleted);
    freeReplyObject(reply);
    reply = parsed("*4\r\n:1\r\n:1\r\n" THE_VOTE NOBODY);
    cr_assert(native_reply_read(&call, 2, reply, replies));
    cr_assert(!replies[0].is_deleted && !replies[1].is_deleted, "a yes says it");
    freeReplyObject(reply);
}

/* The commands may have been done one by one if MULTI was refused, so nothing proves that no key is
 * there. */
Test(native, r24_what_is_not_execs_reply_to_this_call_grants_nothing)
{
    static const struct {
        const char *bytes;
        bool possible;
    } rows[] = {
        {"-EXECABORT Transaction discarded because of previous errors.\r\n", true},
        {"-ERR EXEC without MULTI\r\n", true},
        {"-NOPERM this user has no permissions\r\n", true},
        {"*-1\r\n", false},
        {"*0\r\n", false},
        {"*5\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n" ON_TIME, false},
        {"*7\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n:1\r\n" THE_VOTE ON_TIME, false},
        {"+OK\r\n", false},
        {"+QUEUED\r\n", false},
        {":6\r\n", false},
        {"$2\r\nOK\r\n", false},
        {"$-1\r\n", false},
    };
    static const struct native_results call = {.takes = true, .results = 6};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool runs;
        redisReply *reply = parsed(rows[i].bytes);
        cr_assert_eq(native_reply_is_possible(&call, reply), rows[i].possible, "%s", rows[i].bytes);
        freeReplyObject(reply);
        cr_assert_str_eq(votes_of(rows[i].bytes, &runs), NONE, "%s", rows[i].bytes);
        cr_assert_not(runs, "%s", rows[i].bytes);
    }
}

/* Without MULTI the commands run one by one, so the script must not create a key that it does not
 * find. */
Test(native, r24_without_multi_the_keys_may_have_been_set)
{
    static const struct native_results call = {.takes = true, .results = 6};
    static const char *const errors[] = {"-ERR EXEC without MULTI\r\n", "-OOM no memory\r\n"};
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct event_reply replies[2];
        redisReply *reply = parsed(errors[i]);
        cr_assert_not(native_reply_read(&call, 2, reply, replies));
        cr_assert(replies[0].is_set == (i == 0) && replies[1].is_set == (i == 0), "%s", errors[i]);
        freeReplyObject(reply);
    }
}

/* Without fencing each lock has one result. Without a guard there is no vote. */
Test(native, r24_locks_without_number_and_groups_without_guard_have_fewer_results)
{
    struct event_reply replies[2];
    const struct native_results bare = {.takes = true,
                                        .results = 3,
                                        .clock_ms = CLOCK_MS * INT64_C(1000),
                                        .spread_ms = SPREAD_MS},
                                voted = {.takes = true,
                                         .results = 4,
                                         .vote = "=v1",
                                         .clock_ms = CLOCK_MS * INT64_C(1000),
                                         .spread_ms = SPREAD_MS};
    redisReply *reply = parsed("*3\r\n+OK\r\n$-1\r\n" ON_TIME);
    cr_assert(native_reply_read(&bare, 2, reply, replies));
    cr_assert(replies[0].vote == VOTE_YES && replies[1].vote == VOTE_BY_SCRIPT);
    cr_assert(!replies[0].is_set && !replies[1].is_set);
    cr_assert(!replies[0].is_unset && replies[1].is_unset);
    freeReplyObject(reply);
    reply = parsed("*4\r\n+OK\r\n+OK\r\n" THE_VOTE ON_TIME);
    cr_assert(native_reply_read(&voted, 2, reply, replies));
    cr_assert(replies[0].vote == VOTE_YES && replies[1].vote == VOTE_YES);
    freeReplyObject(reply);
    reply = parsed("*4\r\n+OK\r\n+OK\r\n$3\r\n=v2\r\n" ON_TIME);
    cr_assert(native_reply_read(&voted, 2, reply, replies));
    cr_assert(replies[0].vote == VOTE_BY_SCRIPT && replies[1].vote == VOTE_BY_SCRIPT);
    cr_assert(replies[0].is_set && replies[1].is_set);
    cr_assert(!replies[0].is_unset && !replies[1].is_unset);
    freeReplyObject(reply);
}

/* ---- on a server ---- */

static int64_t server_ms(void)
{
    redisReply *time = redisCommand(one.control, "TIME");
    int64_t ms = strtoll(time->element[0]->str, NULL, 10) * 1000 +
                 strtoll(time->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(time);
    return ms;
}

static redisReply *next_of(redisContext *context)
{
    void *reply = NULL;
    cr_assert_eq(redisGetReply(context, &reply), REDIS_OK);
    return reply;
}

/* Returns how often the server ran EXEC. */
static long execs(void)
{
    const char *at = strstr(ask(&one, "INFO commandstats"), "cmdstat_exec:calls=");
    return at == NULL ? 0 : strtol(at + strlen("cmdstat_exec:calls="), NULL, 10);
}

/* Returns an item that the script may create for long enough (R5). */
static struct send_item numbered(const char *key, uint8_t token, uint64_t number)
{
    struct send_item item = item_of(key, token, number);
    item.left_ms = 60000;
    return item;
}

static struct send_item unnumbered(const char *key, uint8_t token)
{
    struct send_item item = plain_of(key, token);
    item.left_ms = 60000;
    return item;
}

/* Sends by native commands, when the server's clock shows `behind_ms` more than is known. */
static enum vote take(const struct send_item *items, unsigned count, int64_t behind_ms)
{
    rig.native = true;
    rig.clock_ms = server_ms() - behind_ms;
    uint32_t slot = rig_send(OP_ACQUIRE, 1, items, count);
    rig.native = false;
    RUN_UNTIL(reply_to(slot, 0), 3000);
    return reply_to(slot, 0)->vote;
}

Test(native, r24_a_free_lock_is_taken_with_its_number_and_its_lease)
{
    begin(&one, NULL);
    struct send_item item = numbered("k", 1, BIG);
    cr_assert_eq(take(&item, 1, 0), VOTE_YES);
    cr_assert(reply_to(rig.next_slot - 1, 0)->is_native);
    cr_assert_eq(execs(), 1);
    cr_assert_str_eq(ask(&one, "GET lock:k"), VALUE_A);
    cr_assert_str_eq(stored_number(&one, "lock:k"), BIG_TEXT);
    long long left_ms = ask_number(&one, "PTTL", "lock:k");
    cr_assert(left_ms > 9000 && left_ms <= 10000 + SPREAD_MS, "%lld", left_ms);
    end(&one);
}

Test(native, r24_one_lock_that_is_held_spoils_no_other_one)
{
    begin(&one, NULL);
    struct send_item items[] = {numbered("a", 1, BIG), numbered("b", 1, BIG + 1)};
    ask(&one, "SET lock:a other PX 5000");
    cr_assert_eq(take(items, 2, 0), VOTE_BY_SCRIPT);
    cr_assert_eq(reply_to(rig.next_slot - 1, 0)->vote, VOTE_YES);
    cr_assert_str_eq(ask(&one, "GET lock:a"), "other");
    cr_assert_leq(ask_number(&one, "PTTL", "lock:a"), 5000);
    end(&one);
}

Test(native, r24_a_number_that_raises_nothing_is_left_to_the_script)
{
    begin(&one, NULL);
    struct send_item item = numbered("k", 1, BIG);
    store_number(&one, "lock:k", BIG_TEXT);
    cr_assert_eq(take(&item, 1, 0), VOTE_BY_SCRIPT);
    struct record script = exchange(OP_ACQUIRE, 0, item);
    cr_assert_eq(script.vote, VOTE_YES);
    cr_assert_eq(script.fence, BIG + 1);
    cr_assert_str_eq(stored_number(&one, "lock:k"), "1760000000000001");
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 AGENT "1760000000000001:me");
    end(&one);
}

/* The script leaves the key that the commands have set, and its end, and numbers it anew. */
/* The end that native commands named may be too early. */
Test(native, r24_the_script_prolongs_the_own_key)
{
    begin(&one, NULL);
    struct send_item item = numbered("k", 1, BIG);
    cr_assert_eq(take(&item, 1, /* behind_ms= */ 5000), VOTE_BY_SCRIPT);
    cr_assert_str_eq(ask(&one, "GET lock:k"), VALUE_A);
    long long ends_ms = ask_number(&one, "PEXPIRETIME", "lock:k");
    item.token.fence = BIG + 7;
    struct record script = exchange(OP_ACQUIRE, 0, item);
    cr_assert_eq(script.vote, VOTE_YES);
    cr_assert_eq(script.fence, BIG + 7);
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 AGENT "1760000000000007:me");
    cr_assert_geq(ask_number(&one, "PEXPIRETIME", "lock:k"), ends_ms + 4500);
    end(&one);
}

/* The key of the commands has been deleted since, by a release at another agent or an unlock. The
 * clock may not be known any more. */
Test(native, r24_the_script_does_not_set_a_key_again)
{
    begin(&one, NULL);
    for (int i = 0; i < 2; i++) {
        struct send_item item = numbered("k", 1, BIG);
        store_number(&one, "lock:k", BIG_TEXT);
        cr_assert_eq(take(&item, 1, 0), VOTE_BY_SCRIPT);
        item.was_set = true;
        rig.clock_ms = i == 0 ? server_ms() : 0;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES); /* It is there. */
        ask(&one, "DEL lock:k");
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_LATE);
        cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
        item.left_ms = 0;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_LATE);
        item.was_set = false;
        item.left_ms = 60000;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
        ask(&one, "DEL lock:k");
    }
    end(&one);
}

/* R7: nothing shortens. */
Test(native, r24_the_script_does_not_shorten_the_own_key)
{
    begin(&one, NULL);
    struct send_item item = numbered("k", 1, BIG);
    cr_assert_eq(take(&item, 1, /* behind_ms= */ -5000), VOTE_BY_SCRIPT);
    long long ends_ms = ask_number(&one, "PEXPIRETIME", "lock:k");
    item.token.fence = BIG + 7;
    rig.clock_ms = server_ms();
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
    cr_assert_eq(ask_number(&one, "PEXPIRETIME", "lock:k"), ends_ms);
    end(&one);
}

Test(native, r24_a_clock_that_shows_less_or_much_more_grants_nothing)
{
    static const struct {
        int64_t behind_ms;
        enum vote vote;
    } rows[] = {{-1000, VOTE_BY_SCRIPT}, {SPREAD_MS + 1, VOTE_BY_SCRIPT}, {0, VOTE_YES}};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct send_item item = numbered("k", 1, BIG + i);
        ask(&one, "DEL lock:k");
        cr_assert_eq(take(&item, 1, rows[i].behind_ms), rows[i].vote, "%u", i);
    }
    end(&one);
}

/* A clock that is not known goes by script, and so does an effect that does not allow more. */
Test(native, r24_the_script_is_asked_where_native_commands_cannot_be_read)
{
    begin(&one, NULL);
    struct send_item item = unnumbered("k", 1);
    rig.native = true;
    rig.clock_ms = 0;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
    rig.native = false;
    rig.clock_ms = server_ms();
    item.key = (struct text){"other", 5};
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
    cr_assert_eq(execs(), 0);
    end(&one);
}

/* R24: a master that did not run the commands is asked by script for a while. */
Test(native, r24_without_memory_the_master_is_asked_by_script_for_a_while)
{
    begin(&one, NULL);
    struct send_item item = unnumbered("k", 1), next = unnumbered("next", 1);
    ask(&one, "CONFIG SET maxmemory 1");
    cr_assert_eq(take(&item, 1, 0), VOTE_BY_SCRIPT);
    cr_assert_eq(ask_number(&one, "EXISTS", "plain:k"), 0);
    ask(&one, "CONFIG SET maxmemory 0");
    long before = execs();
    cr_assert_eq(take(&next, 1, 0), VOTE_YES);
    cr_assert_eq(execs(), before);
    struct master *master = &rig.redis->masters[0];
    cr_assert(instant_before(redis_now(), master->native_from));
    cr_assert_leq(instant_us_between(redis_now(), master->native_from), 10000000);
    master->native_from = redis_now();
    next.key = item.key;
    cr_assert_eq(take(&next, 1, 0), VOTE_YES);
    cr_assert_eq(execs(), before + 1);
    end(&one);
}

/* If the user may not use MULTI, the server runs each command at once. The key is there then, and
 * the script finds it. */
Test(native, r24_a_user_without_multi_is_served_by_script)
{
    begin(&one, NULL);
    ask(&one, "ACL SETUSER default -multi");
    struct send_item item = numbered("k", 1, BIG);
    cr_assert_eq(take(&item, 1, 0), VOTE_BY_SCRIPT);
    cr_assert_str_eq(ask(&one, "GET lock:k"), VALUE_A);
    item.token.fence = BIG + 1;
    cr_assert_eq(take(&item, 1, 0), VOTE_YES);
    cr_assert_not(reply_to(rig.next_slot - 1, 0)->is_native);
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 AGENT "1760000000000001:me");
    cr_assert(is_up(0));
    end(&one);
}

/* All replies before EXEC's belong to the call: commands on both sides get their own ones. */
Test(native, r24_calls_and_scripts_on_one_connection_get_their_own_replies)
{
    enum { CALLS = 40 };
    begin(&one, NULL);
    rig.clock_ms = server_ms();
    uint32_t slots[CALLS];
    char keys[CALLS][8];
    for (unsigned i = 0; i < CALLS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%u", i / 2);
        struct send_item item = numbered(keys[i], (uint8_t)(1 + i % 2), BIG + i);
        rig.native = i % 4 < 2;
        slots[i] = rig_send(OP_ACQUIRE, 1, &item, 1);
    }
    rig.native = false;
    RUN_UNTIL(replies() == rig.expected, 3000);
    for (unsigned i = 0; i < CALLS; i++) {
        enum vote expected = i % 2 == 0 ? VOTE_YES : i % 4 == 1 ? VOTE_BY_SCRIPT : VOTE_TAKEN;
        cr_assert_eq(reply_to(slots[i], 0)->vote, expected, "%u: %s", i,
                     vote_name(reply_to(slots[i], 0)->vote));
        cr_assert_eq(reply_to(slots[i], 0)->is_native, i % 4 == 0);
    }
    end(&one);
}

/* ---- releases on a server ---- */

/* Returns whether this server compares and deletes; another one is asked by script. */
static bool server_compares(void)
{
    redisReply *reply = redisCommand(one.control, "COMMAND INFO DELIFEQ DELEX");
    bool has = reply->element[0]->type == REDIS_REPLY_ARRAY ||
               reply->element[1]->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return has;
}

/* Sends the first release of a hold, as its holder asks for it. */
static enum vote give_back(struct send_item item)
{
    item.asked = true;
    rig.native = true;
    uint32_t slot = rig_send(OP_RELEASE, 1, &item, 1);
    rig.native = false;
    RUN_UNTIL(reply_to(slot, 0), 3000);
    return reply_to(slot, 0)->vote;
}

Test(native, r24_a_server_that_compares_deletes_without_a_script)
{
    begin(&one, NULL);
    struct send_item item = numbered("k", 1, BIG);
    cr_assert_eq(take(&item, 1, 0), VOTE_YES);
    cr_assert_eq(give_back(item), VOTE_YES);
    cr_assert_eq(execs(), 1 + server_compares());
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    cr_assert_str_eq(stored_number(&one, "lock:k"), BIG_TEXT);
    end(&one);
}

/* Another number, agent or label, and another holder. */
Test(native, r24_a_value_that_differs_is_released_by_script)
{
    static const char *const values[] = {A40 AGENT "1760000000000001:me", A40 ":000000a2:0:me",
                                         A40 AGENT BIG_TEXT ":you", VALUE_B};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct send_item item = numbered("k", 1, BIG);
        char set[160];
        bool is_own = i < 3;
        enum vote by_script = is_own ? VOTE_YES : VOTE_TAKEN;
        snprintf(set, sizeof(set), "SET lock:k %s", values[i]);
        ask(&one, set);
        cr_assert_eq(give_back(item), server_compares() ? VOTE_BY_SCRIPT : by_script, "%u", i);
        if (server_compares()) {
            cr_assert_str_eq(ask(&one, "GET lock:k"), values[i]);
            item.asked = item.untold = true;
            cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, by_script, "%u", i);
        }
        cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), !is_own, "%u", i);
    }
    end(&one);
}

/* The commands delete the key. The script tells the agent that waits, which was told nothing. */
Test(native, r24_the_script_tells_waiters_of_a_key_that_native_commands_deleted)
{
    begin(&one, NULL);
    redisContext *waiter = redisConnectUnix(one.socket);
    redisSetTimeout(waiter, (struct timeval){.tv_sec = 3});
    freeReplyObject(redisCommand(waiter, "SUBSCRIBE lockagent:channel:lock:k lockagent:channel:/"));
    freeReplyObject(next_of(waiter));
    struct send_item item = numbered("k", 1, BIG);
    cr_assert_eq(take(&item, 1, 0), VOTE_YES);
    cr_assert_eq(give_back(item), server_compares() ? VOTE_BY_SCRIPT : VOTE_YES);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    if (!server_compares()) /* It was released by script, which has told the waiter already. */
        freeReplyObject(next_of(waiter));
    item.asked = item.untold = true;
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_ABSENT);
    redisReply *message = next_of(waiter);
    cr_assert_str_eq(message->element[0]->str, "message");
    cr_assert_str_eq(message->element[1]->str, "lockagent:channel:lock:k");
    cr_assert_str_eq(message->element[2]->str, "1");
    freeReplyObject(message);
    redisFree(waiter);
    end(&one);
}

/* Another agent waits for the second of two locks in one call. */
Test(native, r24_each_lock_of_a_call_has_its_own_waiters)
{
    begin(&one, NULL);
    redisContext *waiter = redisConnectUnix(one.socket);
    freeReplyObject(redisCommand(waiter, "SUBSCRIBE lockagent:channel:lock:b lockagent:channel:/"));
    freeReplyObject(next_of(waiter));
    struct send_item items[2] = {numbered("a", 1, BIG), numbered("b", 2, BIG + 1)};
    cr_assert_eq(take(&items[0], 1, 0), VOTE_YES);
    cr_assert_eq(take(&items[1], 1, 0), VOTE_YES);
    items[0].asked = items[1].asked = rig.native = true;
    uint32_t slot = rig_send(OP_RELEASE, 1, items, 2);
    rig.native = false;
    RUN_UNTIL(reply_to(slot + 1, 0), 3000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_YES);
    cr_assert_eq(reply_to(slot + 1, 0)->vote, server_compares() ? VOTE_BY_SCRIPT : VOTE_YES);
    redisFree(waiter);
    end(&one);
}

/* The mark changes nothing for a key that is there: it is deleted, and told once. */
Test(native, r24_the_marked_script_releases_as_any_other_one)
{
    begin(&one, NULL);
    struct send_item item = numbered("k", 1, BIG);
    cr_assert_eq(take(&item, 1, 0), VOTE_YES);
    item.asked = item.untold = true;
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    end(&one);
}

Test(native, r24_a_user_that_may_not_compare_is_served_by_script)
{
    begin(&one, NULL);
    if (server_compares()) {
        ask(&one, "ACL SETUSER default -delifeq");
        struct send_item item = numbered("k", 1, BIG), next = numbered("next", 1, BIG + 1);
        cr_assert_eq(take(&item, 1, 0), VOTE_YES);
        cr_assert_eq(give_back(item), VOTE_BY_SCRIPT);
        cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 1, "the call runs whole or not at all");
        cr_assert_eq(rig.redis->masters[0].compares, COMPARE_DELETE_NONE);
        cr_assert_eq(take(&next, 1, 0), VOTE_YES, "locks are taken as before");
        cr_assert_eq(give_back(next), VOTE_YES);
        cr_assert(is_up(0));
    }
    cr_assert_eq(rig.redis->masters[0].compares, COMPARE_DELETE_NONE);
    end(&one);
}

/* Each master gets the command that it has, also beside one that has another. A server refuses the
 * whole call if it lacks the command, so the refusal shows the other command. */
Test(native, r24_masters_of_two_kinds_get_their_own_commands)
{
    server_start(&one, NULL);
    server_start(&two, NULL);
    rig_configure();
    rig_master(0, &one, false);
    rig_master(1, &two, false);
    rig_start();
    RUN_UNTIL(is_up(0) && is_up(1), 6000);
    if (rig.redis->masters[0].compares == COMPARE_DELETE_DELIFEQ) {
        struct send_item item = numbered("k", 1, BIG);
        rig.redis->masters[1].compares = COMPARE_DELETE_DELEX;
        for (unsigned i = 0; i < 2; i++)
            ask(i == 0 ? &one : &two, "SET lock:k " A40 AGENT BIG_TEXT ":me");
        item.asked = rig.native = true;
        uint32_t slot = rig_send(OP_RELEASE, 3, &item, 1);
        rig.native = false;
        RUN_UNTIL(reply_to(slot, 0) && reply_to(slot, 1), 3000);
        cr_assert_eq(reply_to(slot, 0)->vote, VOTE_YES);
        cr_assert_eq(reply_to(slot, 1)->vote, VOTE_BY_SCRIPT);
        cr_assert_eq(rig.redis->masters[1].compares, COMPARE_DELETE_NONE);
    }
    end(&one);
    server_remove(&two);
}

/* The largest call and its reply have room. */
Test(native, r24_the_largest_release_goes_in_one_call)
{
    begin(&one, NULL);
    struct send_item items[LIMIT_BATCH];
    char keys[LIMIT_BATCH][LIMIT_KEY_BYTES + 1], label[LIMIT_LABEL_BYTES];
    memset(label, 'x', sizeof(label));
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        memset(keys[i], 'k', LIMIT_KEY_BYTES);
        snprintf(keys[i] + LIMIT_KEY_BYTES - 3, 4, "%03u", i);
        items[i] = numbered(keys[i], 1, BIG);
        items[i].label = (struct text){label, sizeof(label)};
        cr_assert_eq(take(&items[i], 1, 0), VOTE_YES);
        items[i].asked = true;
    }
    long before = execs();
    rig.native = true;
    uint32_t slot = rig_send(OP_RELEASE, 1, items, LIMIT_BATCH);
    rig.native = false;
    RUN_UNTIL(reply_to(slot + LIMIT_BATCH - 1, 0), 3000);
    for (unsigned i = 0; i < LIMIT_BATCH; i++)
        cr_assert_eq(reply_to(slot + i, 0)->vote, VOTE_YES, "%u", i);
    cr_assert_eq(execs(), before + server_compares());
    end(&one);
}

/* ---- the vote on a server ---- */

/* Begins with a guarded master that votes. Returns a number above its floor. */
static uint64_t begin_voting(void)
{
    server_start(&one, NULL);
    rig_configure();
    rig_master(0, &one, false);
    rig.config->groups[0].guard = true;
    rig.config->max_ttl_ms = 1000;
    rig_start();
    RUN_UNTIL(is_up(0) && redis_master(rig.redis, 0, 0).votes, 6000);
    const struct guard *guard = &rig.redis->guards[0];
    struct send_item item = numbered("first", 1, guard_floor(guard) + 1);
    cr_assert_eq(take(&item, 1, 0), VOTE_YES);
    cr_assert_eq(execs(), 0, "above the top");
    RUN_UNTIL(guard_top(guard, 0) > guard_floor(guard) + 100, 3000);
    return guard_floor(guard) + 2;
}

Test(native, r24_a_vote_is_the_one_that_was_known)
{
    uint64_t number = begin_voting();
    struct send_item item = numbered("k", 1, number);
    cr_assert_eq(take(&item, 1, 0), VOTE_YES);
    cr_assert_eq(execs(), 1);
    ask(&one, "DEL lock:k");
    ask(&one, "APPEND lockagent:votes x");
    item.token.fence = number + 1;
    cr_assert_eq(take(&item, 1, 0), VOTE_BY_SCRIPT);
    cr_assert_eq(execs(), 2);
    end(&one);
}

/* D3.4: a master that may have forgotten the lock does not count, even if it deletes the key. */
Test(native, r24_a_release_counts_by_the_vote_that_was_known)
{
    uint64_t number = begin_voting();
    struct send_item item = numbered("k", 1, number);
    cr_assert_eq(take(&item, 1, 0), VOTE_YES);
    cr_assert_eq(execs(), 1);
    ask(&one, "APPEND lockagent:votes x");
    if (server_compares()) {
        cr_assert_eq(give_back(item), VOTE_BY_SCRIPT);
        cr_assert_eq(execs(), 2);
        cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    }
    /* Without a known vote the script is asked at once. */
    rig.redis->guards[0].masters[0].last.vote[0] = '\0';
    ask(&one, "DEL lockagent:votes");
    ask(&one, "SET lock:k " A40 AGENT "1:me PX 60000");
    cr_assert_eq(give_back(item), VOTE_GUARDED);
    cr_assert_eq(execs(), 1 + server_compares());
    /* The mark that the key may be gone changes nothing of that. */
    ask(&one, "SET lock:k " A40 AGENT "1:me PX 60000");
    item.asked = item.untold = true;
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_GUARDED);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    end(&one);
}

/* The reply to an earlier call must not be compared with a vote that came to be known since. */
Test(native, r24_a_vote_that_is_known_since_does_not_grant_an_earlier_call)
{
    uint64_t number = begin_voting();
    struct send_item first = numbered("a", 1, number), second = numbered("b", 1, number + 1);
    char *known = rig.redis->guards[0].masters[0].last.vote, vote[GUARD_VOTE_BYTES];
    snprintf(vote, sizeof(vote), "%s", known);
    rig.native = true;
    rig.clock_ms = server_ms();
    snprintf(known, GUARD_VOTE_BYTES, "=another");
    uint32_t slot = rig_send(OP_ACQUIRE, 1, &first, 1);
    snprintf(known, GUARD_VOTE_BYTES, "%s", vote);
    uint32_t next = rig_send(OP_ACQUIRE, 1, &second, 1);
    rig.native = false;
    RUN_UNTIL(reply_to(slot, 0) && reply_to(next, 0), 3000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_BY_SCRIPT);
    cr_assert_eq(reply_to(next, 0)->vote, VOTE_YES);
    cr_assert_eq(execs(), 2);
    end(&one);
}
