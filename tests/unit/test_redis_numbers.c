/* The scripts with the vote that an agent knows, and with the floor and the top of their master
 * (D5.3, R12): each way of taking and raising a lock, on a real redis-server. */
#include "agent/redis/scripts.h"
#include "redis_rig.h"

static struct server one;

#define TOP 2000000000u
#define FLOOR 1000000000u
#define KNOWN "rr:ee:0000001000000000"
#define SLOT_KEY "lockagent:slot:0:lock:k" /* the lock key of take() */
#define BUCKET "lockagent:number:lock:7"   /* the scripts do not look at its name */
#define COUNTER "redisson_lock_token:{lock:k}"

enum { WORDS_MAX = 24 };

static redisReply *run(unsigned count, const char *const *words)
{
    redisReply *reply =
        redisCommandArgv(one.control, (int)count, (const char **)(uintptr_t)words, NULL);
    cr_assert(reply, "%s", one.control->errstr);
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "%s", reply->str);
    return reply;
}

/* Makes a master that votes, and has nothing else. */
static void vote(void)
{
    ask(&one, "FLUSHALL");
    ask(&one,
        "HSET lockagent:marker epoch ee run rr since 0 max_ttl 1000 longer 1000 longer_since 0 "
        "top %u floor %u told 1",
        TOP, FLOOR);
    ask(&one, "SET lockagent:votes =" KNOWN);
}

static uint64_t top(void)
{
    return strtoull(ask(&one, "HGET lockagent:marker top"), NULL, 10);
}

/* A way of taking a lock: its script, the beginning of its value, and the arguments between the
 * deadline and the vote. */
struct way {
    enum script_id script;
    const char *value;
    const char *more[5];
    bool tickets;
};
static const struct way ways[] = {
    {SCRIPT_ACQUIRE, A40 AGENT, {NULL}, false},
    {SCRIPT_ACQUIRE_SLOTS, A40 AGENT, {"2", NULL}, false},
    {SCRIPT_ACQUIRE_FAIR, A40 AGENT, {"00000000000000a1", "0", "0", "1", NULL}, true},
    {SCRIPT_ACQUIRE_RW, "w:" A40 AGENT, {"00000000000000a1", "0", "0", "1", NULL}, true},
    {SCRIPT_ACQUIRE_RW, "r:" A40 AGENT, {"00000000000000a1", "0", "0", "1", NULL}, true},
    {SCRIPT_ACQUIRE_REDISSON, A40 AGENT, {NULL}, false},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]), READS = 4 };

static redisReply *take(const struct way *way, const char *number_key, uint64_t proposed,
                        const char *known)
{
    char number[24], value[96];
    const char *words[WORDS_MAX] = {"EVALSHA", redis_scripts[way->script].sha,
                                    way->tickets ? "5" : "4", SLOT_KEY};
    unsigned count = 4;
    snprintf(number, sizeof(number), "%llu", (unsigned long long)proposed);
    snprintf(value, sizeof(value), "%s%s:me", way->value, number);
    if (way->tickets)
        words[count++] = "lockagent:ticket:lock:k";
    words[count++] = "lockagent:votes";
    words[count++] = "lockagent:marker";
    words[count++] = number_key;
    words[count++] = value;
    words[count++] = "10000";
    words[count++] = number;
    words[count++] = "0";
    for (unsigned i = 0; way->more[i] != NULL; i++)
        words[count++] = way->more[i];
    words[count++] = "0"; /* no deadline */
    words[count++] = known;
    return run(count, words);
}

/* Returns the granted number. */
static uint64_t granted(const struct way *way, uint64_t proposed, const char *known)
{
    redisReply *reply = take(way, BUCKET, proposed, known);
    cr_assert(reply->type == REDIS_REPLY_INTEGER || reply->type == REDIS_REPLY_STRING, "%s: %d",
              redis_scripts[way->script].name, reply->type);
    uint64_t number = reply->type == REDIS_REPLY_INTEGER ? (uint64_t)reply->integer
                                                         : strtoull(reply->str, NULL, 10);
    freeReplyObject(reply);
    cr_assert_eq(strtoull(ask(&one, "ZSCORE " BUCKET " n"), NULL, 10), number);
    return number;
}

static void expect_guarded(const struct way *way, const char *known, int64_t least_ms,
                           int64_t most_ms)
{
    redisReply *reply = take(way, BUCKET, FLOOR + 5, known);
    const char *name = redis_scripts[way->script].name;
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY, "%s", name);
    cr_assert_str_eq(reply->element[0]->str, "guarded", "%s", name);
    cr_assert(reply->element[1]->integer >= least_ms && reply->element[1]->integer <= most_ms,
              "%s: %lld", name, reply->element[1]->integer);
    freeReplyObject(reply);
    cr_assert_str_eq(ask(&one, "EXISTS " SLOT_KEY " " BUCKET), "0");
}

Test(numbers, d5_3_the_usual_case_touches_no_marker)
{
    begin(&one, NULL);
    for (unsigned i = 0; i < WAYS; i++) {
        vote();
        cr_assert_eq(granted(&ways[i], FLOOR + 5, "=" KNOWN), FLOOR + 5);
        cr_assert_eq(top(), TOP);
    }
    end(&one);
}

/* The agent sends with the vote whether its numbers are above the floor, and up to the top. */
Test(numbers, d5_3_a_vote_tells_whether_the_numbers_are_between_floor_and_top)
{
    static const struct {
        struct proposals proposals;
        char mark;
    } rows[] = {
        {{FLOOR + 1, TOP}, '='}, {{FLOOR, TOP}, '!'}, {{FLOOR + 1, TOP + 1}, '!'}, {{7, 8}, '!'}};
    struct guard guard = {.master_count = 1, .floor = FLOOR};
    guard.masters[0] = (struct guard_master){
        .seen = true, .last = {.top = TOP, .floor = FLOOR, .vote = "=" KNOWN}};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char bytes[ASKING_VOTE_BYTES], expected[ASKING_VOTE_BYTES];
        struct text said =
            asking_vote(bytes, &guard, 0, (struct instant){0}, OP_ACQUIRE, &rows[i].proposals);
        int len = snprintf(expected, sizeof(expected), "$%zu\r\n%c" KNOWN "\r\n", strlen("=" KNOWN),
                           rows[i].mark);
        cr_assert_eq(said.len, (size_t)len, "%u", i);
        cr_assert_eq(memcmp(said.at, expected, said.len), 0, "%u: %.*s", i, (int)said.len, said.at);
    }
}

/* The agent asked before it learned of the floor. */
Test(numbers, d5_3_no_grant_is_up_to_the_floor)
{
    begin(&one, NULL);
    for (unsigned i = 0; i < WAYS; i++) {
        vote();
        cr_assert_eq(granted(&ways[i], 7, "!" KNOWN), FLOOR + 1, "%u", i);
        cr_assert_eq(top(), TOP);
        vote(); /* it came back with an older number */
        ask(&one, "ZADD " BUCKET " 9 n");
        cr_assert_eq(granted(&ways[i], 7, "!" KNOWN), FLOOR + 1, "%u", i);
    }
    end(&one);
}

Test(numbers, d5_3_a_number_above_the_top_lifts_it)
{
    begin(&one, NULL);
    for (unsigned i = 0; i < WAYS; i++) {
        vote();
        cr_assert_eq(granted(&ways[i], TOP + 9, "!" KNOWN), TOP + 9, "%u", i);
        cr_assert_eq(top(), TOP + 9 + 2000000);
        vote();
        ask(&one, "ZADD " BUCKET " %u n", TOP);
        uint64_t number = i == READS ? TOP : TOP + 1; /* a read carries the last one */
        cr_assert_eq(granted(&ways[i], FLOOR + 5, "=" KNOWN), number, "%u", i);
        cr_assert_eq(top(), i == READS ? TOP : number + 2000000, "%u", i);
    }
    end(&one);
}

/* Java's counter has neither. */
Test(numbers, r22_a_counter_that_java_counts_on_lifts_no_top)
{
    begin(&one, NULL);
    vote();
    freeReplyObject(take(&ways[WAYS - 1], COUNTER, TOP + 9, "=" KNOWN));
    cr_assert_str_eq(ask(&one, "GET " COUNTER), "2000000009");
    cr_assert_eq(top(), TOP);
    vote();
    freeReplyObject(take(&ways[WAYS - 1], COUNTER, 7, "=" KNOWN));
    cr_assert_str_eq(ask(&one, "GET " COUNTER), "7");
    for (unsigned i = 1; i < 3; i++) { /* it rises even if the agent's clock is behind */
        ask(&one, "DEL " SLOT_KEY);
        freeReplyObject(take(&ways[WAYS - 1], COUNTER, 7, "=" KNOWN));
        cr_assert_eq(ask_number(&one, "GET", COUNTER), 7 + i);
    }
    end(&one);
}

Test(numbers, d5_3_a_vote_that_the_agent_does_not_know_is_none)
{
    static const char *const unknown[] = {"=r2:ee:0000001000000000", "=rr:e2:0000001000000000",
                                          "=rr:ee:0000001000000001", "!rr:e2:0000001000000000", ""};
    begin(&one, NULL);
    for (unsigned i = 0; i < WAYS; i++) {
        vote();
        for (unsigned u = 0; u < sizeof(unknown) / sizeof(unknown[0]); u++)
            expect_guarded(&ways[i], unknown[u], -1, -1);
        ask(&one, "DEL lockagent:votes"); /* its guard is over, and it does not know that yet */
        expect_guarded(&ways[i], "=" KNOWN, -1, -1);
        ask(&one, "HSET lockagent:marker since 99999999999999");
        expect_guarded(&ways[i], "=" KNOWN, 1, INT64_MAX);
        ask(&one, "DEL lockagent:marker");
        expect_guarded(&ways[i], "", -1, -1);
    }
    end(&one);
}

/* Makes a vote with the replication id that the server has now. */
static void vote_with_replid(char known[100])
{
    vote();
    const char *info = ask(&one, "INFO replication"),
               *replid = strstr(info, "master_replid:") + strlen("master_replid:");
    snprintf(known, 100, "@rr:ee:%.40s:0000001000000000", replid);
    ask(&one, "SET lockagent:votes %s", known);
}

/* Makes the master follow another one, and be a master again, all in one run. Its vote survives
 * that. */
static void follow_another(void)
{
    ask(&one, "REPLICAOF 127.0.0.1 1");
    ask(&one, "REPLICAOF NO ONE");
}

Test(numbers, r21_a_master_that_has_followed_another_has_no_vote)
{
    char known[100];
    begin(&one, NULL);
    for (unsigned i = 0; i < WAYS; i++) {
        vote_with_replid(known);
        granted(&ways[i], FLOOR + 5, known);
        ask(&one, "DEL " SLOT_KEY " " BUCKET);
        follow_another();
        expect_guarded(&ways[i], known, -1, -1);
    }
    end(&one);
}

/* Returns true if the reply says `guarded` of its item, and false if it says that no key is there.
 * Frees it. */
static bool says_guarded(redisReply *reply)
{
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY);
    const redisReply *item = reply->element[0];
    bool guarded = item->type == REDIS_REPLY_ARRAY;
    if (guarded)
        cr_assert_str_eq(item->element[0]->str, "guarded");
    else
        cr_assert_eq(item->integer, -1);
    freeReplyObject(reply);
    return guarded;
}

static char known_vote[100]; /* The vote that the agent knows. */

/* `is_guarded` asks a script about a key that is not there. The answer is certain only from a
 * master that has the vote that the agent knows and has followed no other server since. */
static void expect_certain_with_a_vote(bool (*is_guarded)(enum script_id), enum script_id script)
{
    vote_with_replid(known_vote);
    cr_assert_not(is_guarded(script), "%s", redis_scripts[script].name);
    ask(&one, "SET lockagent:votes =rr:another:0000001000000000");
    cr_assert(is_guarded(script), "%s", redis_scripts[script].name);
    ask(&one, "SET lockagent:votes %s", known_vote);
    follow_another();
    cr_assert(is_guarded(script), "%s", redis_scripts[script].name);
    ask(&one, "DEL lockagent:votes");
    cr_assert(is_guarded(script), "%s", redis_scripts[script].name);
}

/* Returns true if the script answers `guarded` to a release of a key that is not there. `number`: *
 * if its holder asked for it, - if a DELETE may join it, empty otherwise. */
static bool release_says_guarded(enum script_id script, const char *number)
{
    bool fair = script == SCRIPT_RELEASE_FAIR, rw = script == SCRIPT_RELEASE_RW;
    const char *words[WORDS_MAX] = {"EVALSHA", redis_scripts[script].sha, fair || rw ? "3" : "2",
                                    SLOT_KEY};
    unsigned count = 4;
    if (fair || rw)
        words[count++] = "lockagent:ticket:lock:k";
    words[count++] = "lockagent:votes";
    words[count++] = rw ? "w:" A40 AGENT : A40 ":";
    words[count++] = number;
    for (unsigned i = 0; i < (fair ? 3u : rw ? 4u : 0u); i++) /* no ticket */
        words[count++] = "";
    words[count++] = known_vote;
    return says_guarded(run(count, words));
}

static bool release_is_guarded(enum script_id script)
{
    cr_assert_not(release_says_guarded(script, ""), "%s", redis_scripts[script].name);
    bool is_guarded = release_says_guarded(script, "*");
    cr_assert_eq(release_says_guarded(script, "-"), is_guarded, "%s", redis_scripts[script].name);
    return is_guarded;
}

/* D3.4: a master without a vote answers nothing certain to a DELETE. */
Test(numbers, d3_a_master_that_has_followed_another_does_not_know_what_is_released)
{
    static const enum script_id scripts[] = {SCRIPT_RELEASE, SCRIPT_RELEASE_SLOTS,
                                             SCRIPT_RELEASE_FAIR, SCRIPT_RELEASE_RW,
                                             SCRIPT_RELEASE_REDISSON};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        expect_certain_with_a_vote(release_is_guarded, scripts[i]);
    end(&one);
}

/* Returns true if the script answers `guarded` to a PUT at an agent that does not know the hold, of
 * a key that is not there. */
static bool adoption_is_guarded(enum script_id script)
{
    const char *const words[] = {"EVALSHA",
                                 redis_scripts[script].sha,
                                 "3",
                                 "lock:k",
                                 "lockagent:votes",
                                 "lockagent:marker",
                                 "adopt",
                                 script == SCRIPT_EXTEND_RW ? "w:" A40 AGENT "7:me"
                                                            : A40 AGENT "7:me",
                                 "10000",
                                 "7",
                                 known_vote};
    return says_guarded(run(sizeof(words) / sizeof(words[0]), words));
}

/* R7, R21: neither does it to a renewal. Such a master has forgotten, and its marker does not show
 * it yet. So no epoch is answered, and the lock counts as forgotten. */
Test(numbers, r21_a_renewal_on_a_master_that_has_followed_another_gets_no_epoch)
{
    static const char *const words[] = {"EVALSHA",          NULL,    "2",  "lock:k",
                                        "lockagent:marker", "renew", NULL, "10000"};
    static const enum script_id scripts[] = {SCRIPT_EXTEND, SCRIPT_EXTEND_RW};
    char known[100];
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        const char *asked[sizeof(words) / sizeof(words[0])];
        memcpy(asked, words, sizeof(words));
        asked[1] = redis_scripts[scripts[i]].sha;
        asked[6] = scripts[i] == SCRIPT_EXTEND_RW ? "w:" A40 AGENT "7:me" : A40 AGENT "7:me";
        vote_with_replid(known);
        for (unsigned followed = 0; followed < 2; followed++) {
            redisReply *reply = run(sizeof(asked) / sizeof(asked[0]), asked);
            cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 2);
            cr_assert_eq(reply->element[0]->integer, -1);
            cr_assert_str_eq(reply->element[1]->str, followed ? "" : "ee");
            freeReplyObject(reply);
            follow_another();
        }
    }
    end(&one);
}

/* D3.4: neither does it to a PUT. */
Test(numbers, d3_a_master_that_has_followed_another_does_not_know_what_is_adopted)
{
    static const enum script_id scripts[] = {SCRIPT_EXTEND, SCRIPT_EXTEND_RW};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        expect_certain_with_a_vote(adoption_is_guarded, scripts[i]);
    end(&one);
}

/* R24: nor does a master with another vote than the agent knows: it may have forgotten since. */
Test(numbers, r24_a_master_with_another_vote_does_not_know_what_is_adopted)
{
    static const enum script_id scripts[] = {SCRIPT_EXTEND, SCRIPT_EXTEND_RW};
    static const char *const others[] = {"", "=another:e:0000000000000000"};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        for (unsigned other = 0; other < sizeof(others) / sizeof(others[0]); other++) {
            vote_with_replid(known_vote);
            cr_assert_not(adoption_is_guarded(scripts[i]));
            strcpy(known_vote, others[other]);
            cr_assert(adoption_is_guarded(scripts[i]), "%s", known_vote);
        }
    }
    end(&one);
}

/* D3.4: the same is true if it deletes the key. */
Test(numbers, d3_a_master_that_has_followed_another_deletes_and_does_not_know)
{
    begin(&one, NULL);
    vote_with_replid(known_vote);
    ask(&one, "SET " SLOT_KEY " " A40 AGENT "7:me PX 10000");
    follow_another();
    cr_assert(release_says_guarded(SCRIPT_RELEASE, "*"));
    cr_assert_eq(ask_number(&one, "EXISTS", SLOT_KEY), 0);
    end(&one);
}

/* D3.4: a hand-over on a master without a vote says so, even if the duration is unknown. */
Test(numbers, d3_a_hand_over_without_a_vote_says_so)
{
    static const char heir[] = "ffffffffffffffffffffffffffffffffffffffff" AGENT "3000000000:me",
                      holder[] = A40 AGENT;
    const char *known = "=" KNOWN;
    begin(&one, NULL);
    for (unsigned votes = 2; votes-- > 0;) {
        vote();
        ask(&one, "SET lock:k " A40 AGENT "7:me PX 10000");
        if (!votes)
            ask(&one, "DEL lockagent:votes lockagent:marker");
        const char *const words[] = {"EVALSHA",
                                     redis_scripts[SCRIPT_ACQUIRE].sha,
                                     "4",
                                     "lock:k",
                                     "lockagent:votes",
                                     "lockagent:marker",
                                     BUCKET,
                                     heir,
                                     "10000",
                                     "3000000000",
                                     "0",
                                     holder,
                                     "0",
                                     known};
        redisReply *reply = run(sizeof(words) / sizeof(words[0]), words);
        cr_assert_eq(reply->type, REDIS_REPLY_ARRAY);
        cr_assert_str_eq(reply->element[0]->str, "handed");
        cr_assert_eq(reply->element[3]->integer, votes ? 0 : 1);
        freeReplyObject(reply);
    }
    end(&one);
}

/* The same is true if another holder has the key: the released key may come back when that holder
 * has gone. */
Test(numbers, d3_a_master_without_a_vote_does_not_know_what_is_released_behind_another_holder)
{
    begin(&one, NULL);
    vote();
    for (unsigned votes = 2; votes-- > 0;) {
        const char *const words[] = {
            "EVALSHA", redis_scripts[SCRIPT_RELEASE].sha, "2", "lock:k", "lockagent:votes", A40,
            "*"};
        ask(&one, "SET lock:k another PX 10000");
        redisReply *reply = run(sizeof(words) / sizeof(words[0]), words);
        cr_assert_str_eq(reply->element[0]->element[0]->str, votes ? "held" : "guarded");
        freeReplyObject(reply);
        ask(&one, "DEL lockagent:votes");
    }
    end(&one);
}

/* One call has several locks. A lock that needs the slow way takes it alone. */
Test(numbers, d5_3_a_call_for_several_locks_minds_floor_and_top)
{
    begin(&one, NULL);
    vote();
    const char *known = "!" KNOWN;
    static const char first_value[] = A40 AGENT "7:me", second_value[] = A40 AGENT "3000000000:me";
    const char *const words[] = {"EVALSHA",
                                 redis_scripts[SCRIPT_ACQUIRE].sha,
                                 "6",
                                 "lock:a",
                                 "lock:b",
                                 "lockagent:votes",
                                 "lockagent:marker",
                                 BUCKET,
                                 BUCKET_OF_K,
                                 first_value,
                                 "10000",
                                 "7",
                                 "0",
                                 second_value,
                                 "10000",
                                 "3000000000",
                                 "0",
                                 "0",
                                 known};
    redisReply *reply = run(sizeof(words) / sizeof(words[0]), words);
    cr_assert_eq(reply->elements, 2u);
    freeReplyObject(reply);
    cr_assert_str_eq(ask(&one, "ZSCORE " BUCKET " n"), "1000000001");
    cr_assert_str_eq(ask(&one, "ZSCORE " BUCKET_OF_K " n"), "3000000000");
    cr_assert_eq(top(), 3002000000u);
    end(&one);
}

/* A holder hands over without a vote; the floor and the top hold for its numbers as well. */
Test(numbers, d5_3_a_hand_over_without_a_vote_minds_floor_and_top)
{
    static const enum script_id scripts[] = {SCRIPT_ACQUIRE, SCRIPT_ACQUIRE_REDISSON};
    begin(&one, NULL);
    for (unsigned i = 0; i < 2; i++) {
        vote();
        ask(&one, "DEL lockagent:votes");
        if (i == 0)
            ask(&one, "SET lock:k %s PX 10000", A40 AGENT "7:me");
        else
            ask(&one, "HSET lock:k %s 1 mode lockagent", A40 AGENT "7:me");
        const char *value = B40 AGENT "7:me", *part = A40 AGENT;
        const char *const words[] = {"EVALSHA",
                                     redis_scripts[scripts[i]].sha,
                                     "4",
                                     "lock:k",
                                     "lockagent:votes",
                                     "lockagent:marker",
                                     BUCKET,
                                     value,
                                     "10000",
                                     "7",
                                     "0",
                                     part,
                                     "0",
                                     ""};
        freeReplyObject(run(sizeof(words) / sizeof(words[0]), words));
        cr_assert_str_eq(ask(&one, "ZSCORE " BUCKET " n"), "1000000001");
    }
    end(&one);
}

/* R12: the second phase. */
Test(numbers, d5_3_a_raise_above_the_top_lifts_it)
{
    begin(&one, NULL);
    struct {
        enum script_id script;
        const char *own, *number_key, *stored; /* `stored` reads the number. */
        uint64_t top;
    } raises[] = {
        {SCRIPT_RAISE, A40 AGENT "7:", BUCKET, "ZSCORE " BUCKET " n", 3000000000u + 2000000},
        {SCRIPT_RAISE_RW, "w:" A40 AGENT "7:me", BUCKET, "ZSCORE " BUCKET " n",
         3000000000u + 2000000},
        {SCRIPT_RAISE_REDISSON, A40 AGENT "7:", BUCKET, "ZSCORE " BUCKET " n",
         3000000000u + 2000000},
        {SCRIPT_RAISE_REDISSON, A40 AGENT "7:", COUNTER, "GET " COUNTER, TOP}};
    for (unsigned i = 0; i < 4; i++) {
        vote();
        if (i == 0)
            ask(&one, "SET lock:k %s PX 10000", A40 AGENT "7:me");
        else if (i == 1)
            ask(&one, "ZADD lock:k 99999999999999 %s", "w:" A40 AGENT "7:me");
        else
            ask(&one, "HSET lock:k %s 1 mode lockagent", A40 AGENT "7:me");
        const char *words[] = {"EVALSHA",
                               redis_scripts[raises[i].script].sha,
                               "3",
                               "lock:k",
                               "lockagent:marker",
                               raises[i].number_key,
                               raises[i].own,
                               "1500000000"};
        freeReplyObject(run(8, words));
        cr_assert_str_eq(ask(&one, raises[i].stored), "1500000000", "%u", i);
        cr_assert_eq(top(), TOP, "%u", i);
        words[7] = "3000000000";
        freeReplyObject(run(8, words));
        cr_assert_str_eq(ask(&one, raises[i].stored), "3000000000", "%u", i);
        cr_assert_eq(top(), raises[i].top, "%u", i);
    }
    end(&one);
}
