/* Draws commands and calls of the shipped scripts, with plausible and implausible arguments. */
#include "differential.h"

#include <stdio.h>
#include <string.h>

#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"

#define A39 "010101010101010101010101010101010101010"

// NOLINTNEXTLINE(bugprone-suspicious-missing-comma): a prefix that most of them share
static const char *const values[] = {A39 "1:me",
                                     A39 "1:",
                                     A39 "1",
                                     A39 "2:you",
                                     A39 "1x:me",
                                     A39 "1:::",
                                     "",
                                     "abc",
                                     "0",
                                     "1760000000000000",
                                     "7",
                                     "-5",
                                     "1.5",
                                     "9007199254740991",
                                     "9007199254740993",
                                     "12x",
                                     "007",
                                     "1e3",
                                     "9999999999999999999",
                                     "99999999999999999999",
                                     " 1",
                                     "+1",
                                     "0x10",
                                     "inf",
                                     "nan",
                                     "-0",
                                     "any",
                                     "fair",
                                     "renew",
                                     "repair",
                                     "adopt",
                                     "restart",
                                     "keep",
                                     "look",
                                     "new",
                                     "trust",
                                     "two words",
                                     "a\r\nb",
                                     "-ERR looks like one",
                                     "10000"};
static const char *const times[] = {"1",
                                    "2",
                                    "50",
                                    "1000",
                                    "10000",
                                    "3600000",
                                    "0",
                                    "-1",
                                    "1760000000000000",
                                    "9223372036854775807",
                                    "9223372036854775",
                                    "x",
                                    "1.5",
                                    ""};

static const char *const scores[] = {
    "1",   "2",    "2", "-3", "1.5", "1e3", "1700000000500", "1800000000000",
    "inf", "-inf", "x", "",   "(5"};
#define ONES "01010101010101010101010101010101010101"
static const char *const members[] = {"r:" ONES "11:00000000:7:me",
                                      "r:" ONES "12:00000000:1000:you",
                                      "r:" ONES "13:00000000:0:",
                                      "w:" ONES "11:00000000:7:me",
                                      "w:" ONES "12:00000007:8:you",
                                      "r:" ONES "13:00000007:1760000000000000:a:b",
                                      "player",
                                      "r::",
                                      "",
                                      "x:" ONES "11:00000000:7:me"};

static const char *const fields[] = {
    ONES "11:00000000:7:me", ONES "12:00000000:1000:you", ONES "12:00000007:8:you",
    ONES "13:00000001:0:", "9f0c6a4e-0000-4000-8000-000000000001:1"};

static const char *name(void)
{
    return PICK(d.names);
}

static const char *ticket_text(void)
{
    static char text[64];
    int64_t now_ms = *server.now_us / 1000;
    if (prng_percent(&d.prng, 15))
        return PICK(values);
    snprintf(text, sizeof text, "%llu:%lld", (unsigned long long)prng_between(&d.prng, 1, 5) * 1000,
             (long long)(now_ms + prng_between(&d.prng, -2000, 5000)));
    return text;
}

static const char *agent_text(void)
{
    static const char *const agents[] = {"0000000000000001", "0000000000000002", "00000000000000ff",
                                         "", "x"};
    return PICK(agents);
}

enum { WORDS = 6 };

/* In place of these letters comes something drawn: K a name, V a value, T a time, S a score, M a
 * member, A an agent, I a ticket, C a channel. */
static const char *const commands[][WORDS] = {
    {"SET", "K", "V"},
    {"SET", "K", "V", "PX", "T"},
    {"SET", "K", "V", "NX", "PX", "T"},
    {"SET", "K", "V", "NX", "PXAT", "1700000000500"},
    {"SET", "K", "V", "PXAT", "T"},
    {"SET", "K", "V", "XX", "KEEPTTL"},
    {"SET", "K", "V", "XX", "GET"},
    {"SET", "K", "V", "NX", "GET"},
    {"SET", "K", "V", "EX", "T"},
    {"SET", "K", "V", "PX"},
    {"SET", "K", "V", "NX", "XX"},
    {"GET", "K"},
    {"DEL", "K"},
    {"DEL", "K", "K"},
    {"EXISTS", "K", "K", "K"},
    {"PEXPIRE", "K", "T"},
    {"PEXPIRE", "K", "T", "GT"},
    {"PEXPIRE", "K", "T", "LT"},
    {"PEXPIRE", "K", "T", "NX"},
    {"PEXPIRE", "K", "T", "XX"},
    {"PEXPIRE", "K", "T", "GT", "XX"},
    {"PEXPIRE", "K", "T", "GT", "LT"},
    {"PEXPIRE", "K", "T", "NX", "GT"},
    {"PEXPIRE", "K", "T", "V"},
    {"PEXPIREAT", "K", "1700000000500"},
    {"PEXPIREAT", "K", "T", "GT"},
    {"PTTL", "K"},
    {"PERSIST", "K"},
    {"TYPE", "K"},
    {"STRLEN", "K"},
    {"INCR", "K"},
    {"MGET", "K", "K", "K"},
    {"HSET", "K", "A", "I"},
    {"HSET", "K", "A", "I", "A", "I"},
    {"HSET", "K", "A", "I"},
    {"HSET", "K", "A"},
    {"HSET", "K", "A", "I", "A"},
    {"HGET", "K", "A"},
    {"HMGET", "K", "A", "A", "epoch"},
    {"HDEL", "K", "A", "A"},
    {"HLEN", "K"},
    {"HEXISTS", "K", "A"},
    {"HGETALL", "K"},
    {"RPUSH", "K", "V"},
    {"RPUSH", "K", "V"},
    {"ZADD", "K", "S", "M"},
    {"ZADD", "K", "S", "M", "S", "M"},
    {"ZADD", "K", "S", "M", "S"},
    {"ZADD", "K", "GT", "S", "M"},
    {"ZADD", "K", "GT", "CH", "S", "M"},
    {"ZADD", "K", "CH", "S", "M"},
    {"ZADD", "K", "GT", "CH"},
    {"ZREM", "K", "M", "M"},
    {"ZSCORE", "K", "M"},
    {"ZCARD", "K"},
    {"ZRANGE", "K", "0", "-1"},
    {"ZRANGE", "K", "-1", "-1", "WITHSCORES"},
    {"ZRANGE", "K", "T", "T"},
    {"ZCOUNT", "K", "S", "+inf"},
    {"ZCOUNT", "K", "(1700000000500", "S"},
    {"ZREMRANGEBYSCORE", "K", "-inf", "S"},
    {"PUBLISH", "C", "V"},
    {"PUBSUB", "NUMSUB", "C", "C"},
    {"PUBSUB", "NUMSUB"},
    {"TIME"},
    {"GET"},
    {"HSET", "lockagent:marker", "epoch", "e", "max_ttl", "T"},
    {"HSET", "lockagent:marker", "since", "V", "run", "V"},
    {"HDEL", "lockagent:marker", "epoch"},
};

/* Draws the word in place of a letter of the patterns. `room` is for its text. */
static const char *drawn_word(const char *letter, char room[96])
{
    switch (*letter) {
    case 'K':
        return name();
    case 'V':
        return PICK(values);
    case 'T':
        return PICK(times);
    case 'S':
        return PICK(scores);
    case 'M':
        return PICK(members);
    case 'A':
        return agent_text();
    case 'I':
        return strcpy(room, ticket_text());
    case 'C':
        snprintf(room, 96, "lockagent:channel:%s", name());
        return room;
    default:
        return letter;
    }
}

void ask_command(void)
{
    const char *const *pattern = PICK(commands);
    const char *words[WORDS];
    char rooms[WORDS][96];
    unsigned count = 0;
    for (; count < WORDS && pattern[count] != NULL; count++) {
        const char *word = pattern[count];
        bool is_one = word[0] != '\0' && word[1] == '\0' && count > 0;
        words[count] = is_one ? drawn_word(word, rooms[count]) : word;
    }
    ask_both(command_of(count, words));
}

static const char *const votes[] = {"=r1:e1:0000000000000007", "!r1:e1:0000000000000007",
                                    "=r2:e1:1760000000000000", "!r2:e1:1760000000000000", ""};

void ask_plausible(void)
{
    static const char *const lock_values[] = {A39 "1:me",
                                              A39 "2:you",
                                              A39 "3:",
                                              ONES "11:00000000:1:",
                                              ONES "12:00000000:me",
                                              ONES "12:00000007:8:you"};
    static const char *const numbers[] = {"1", "7", "1000", "1760000000000000", "1760000000000001"};
    char ttl[24], key[64], fence[96], now[24];
    unsigned which = (unsigned)prng_below(&d.prng, 2 * KEYS);
    snprintf(key, sizeof key, "%s", d.names[which]);
    snprintf(fence, sizeof fence, NUMBER_KEY "%.*s%u", (int)(strchr(key, ':') + 1 - key), key,
             asking_bucket(key));
    snprintf(ttl, sizeof ttl, "%lld", (long long)prng_between(&d.prng, 1, 5000));
    if (prng_percent(&d.prng, 60)) {
        const char *const words[] = {"SET", key, PICK(lock_values), "PX", ttl};
        ask_both(command_of(prng_percent(&d.prng, 90) ? 5 : 3, words));
        const char *const again[] = {"PEXPIRE", key, ttl, prng_percent(&d.prng, 50) ? "GT" : "LT"};
        if (prng_percent(&d.prng, 20)) /* to the same millisecond */
            ask_both(command_of(4, again));
    }
    if (prng_percent(&d.prng, 40)) {
        ask_both(command_of(4, (const char *const[]){"ZADD", fence, PICK(numbers), "n"}));
    }
    if (prng_percent(&d.prng, 20)) {
        snprintf(now, sizeof now, "%lld",
                 (long long)(*server.now_us / 1000 + prng_between(&d.prng, -9000, 100)));
        static const char *const tolds[] = {"0", "1", "2"};
        const char *const words[] = {"HSET",        MARKER_KEY,  "epoch", "e1",           "run",
                                     "r1",          "since",     now,     "max_ttl",      ttl,
                                     "told",        PICK(tolds), "top",   PICK(numbers),  "floor",
                                     PICK(numbers), "longer",    ttl,     "longer_since", now};
        ask_both(command_of(prng_percent(&d.prng, 70) ? 20 : 10, words));
    }
    if (prng_percent(&d.prng, 30)) {
        snprintf(now, sizeof now, "%lld",
                 (long long)(*server.now_us / 1000 + prng_between(&d.prng, -100, 5000)));
        ask_both(command_of(4, (const char *const[]){"ZADD", key, now, PICK(members)}));
    }
    if (prng_percent(&d.prng, 40)) {
        const char *const words[] = {
            "HSET", key,    PICK(fields),
            "1",    "mode", prng_percent(&d.prng, 80) ? "lockagent" : "read"};
        ask_both(command_of(prng_percent(&d.prng, 80) ? 6 : 4, words));
        ask_both(command_of(3, (const char *const[]){"PEXPIRE", key, ttl}));
    }
    if (prng_percent(&d.prng, 20))
        ask_both(command_of(3, (const char *const[]){"SET", VOTE_KEY, PICK(votes)}));
    if (prng_percent(&d.prng, 10))
        ask_both(command_of(2, (const char *const[]){"DEL", key}));
}

static uint64_t number(void)
{
    static const uint64_t numbers[] = {
        0, 1, 7, 8, 1000, 2000, 3000, 1760000000000000, 1760000000000001, 9007199254740991};
    return PICK(numbers);
}

static uint32_t duration(void)
{
    static const uint32_t durations[] = {1, 2, 100, 1000, 5000, 60000, 0};
    return PICK(durations);
}

/* Leaves a live entry of the same random part and number, which may be adopted. */
static void leave_adoptable(const struct send_item *item)
{
    char key[64], ends[24], entry[96];
    snprintf(entry, sizeof entry, "r:%s%02x:00000000:%llu:me", ONES,
             item->token.random[RANDOM_BYTES - 1], (unsigned long long)item->token.fence);
    snprintf(key, sizeof key, "%s%.*s", d.config.policies[item->policy].prefix, (int)item->key.len,
             item->key.at);
    snprintf(ends, sizeof ends, "%lld", (long long)(*server.now_us / 1000 + 1000));
    ask_both(command_of(2, (const char *const[]){"DEL", key}));
    ask_both(command_of(4, (const char *const[]){"ZADD", key, ends, entry}));
}

/* One more argument, behind the command. */
static void put_own(struct text *command, const struct resp *resp, const char *word)
{
    size_t at = (size_t)(command->at - resp->bytes) + command->len;
    command->len +=
        (size_t)snprintf(resp->bytes + at, resp->size - at, "$%zu\r\n%s\r\n", strlen(word), word);
}

/* Draws the lower bound of the master's clock: long ago, or later than the clock shows. */
static void put_clock(struct text *command, const struct resp *resp)
{
    static const int64_t off_ms[] = {-7200000, -7200000, 600000};
    char digits[24];
    int64_t clock_ms = prng_percent(&d.prng, 40) ? *server.now_us / 1000 + PICK(off_ms) : 0;
    snprintf(digits, sizeof digits, "%lld", (long long)clock_ms);
    put_own(command, resp, digits);
}

/* Draws the fields that the items of all operations have. */
static struct send_item drawn_item(void)
{
    static const char *const labels[] = {"me", "you", "", "a:b", "two words"};
    const char *label = PICK(labels);
    unsigned key = (unsigned)prng_below(&d.prng, KEYS);
    struct send_item item = {.permits = 1};
    item.key = (struct text){strchr(d.names[key], ':') + 1, 2};
    item.policy = (uint16_t)prng_below(&d.prng, 2);
    item.fencing = item.policy == 0 && prng_percent(&d.prng, 85);
    item.label = (struct text){label, strlen(label)};
    memset(item.token.random, 1, RANDOM_BYTES);
    memset(item.previous.random, 1, RANDOM_BYTES);
    item.token.random[RANDOM_BYTES - 1] = (uint8_t)prng_between(&d.prng, 0x11, 0x13);
    item.previous.random[RANDOM_BYTES - 1] = (uint8_t)prng_between(&d.prng, 0x11, 0x13);
    item.token.fence = number();
    item.ttl_ms = duration() + (prng_percent(&d.prng, 95) ? 1 : 0);
    return item;
}

void ask_operation(void)
{
    static const uint64_t agents[] = {0, 1, 2, 255};
    enum op op = (enum op)prng_below(&d.prng, OP_COUNT);
    unsigned count = op_is_gathered(op) ? (unsigned)prng_between(&d.prng, 1, 4) : 1;
    bool shared = op != OP_HANDOVER && prng_percent(&d.prng, 40);
    bool redisson = !shared && op != OP_WITHDRAW && prng_percent(&d.prng, 40);
    bool fair = shared || op == OP_WITHDRAW || (!redisson && prng_percent(&d.prng, 60));
    struct send_item items[4];
    d.config.groups[0].guard = prng_percent(&d.prng, 40);
    for (unsigned i = 0; i < count; i++) {
        struct send_item *item = &items[i];
        *item = drawn_item();
        item->left_ms = prng_percent(&d.prng, 50) ? duration() : 10800000;
        item->form = shared     ? FORM_SHARED
                     : redisson ? FORM_REDISSON
                     : fair     ? FORM_FAIR
                                : FORM_PLAIN;
        item->mode = prng_percent(&d.prng, 60) ? MODE_READ : MODE_WRITE;
        item->asked = prng_percent(&d.prng, 50);
        item->numbered = item->asked && prng_percent(&d.prng, 50);
        item->voted = !item->asked && prng_percent(&d.prng, 50);
        item->unproved = prng_percent(&d.prng, 50);
        item->ticket.mode = prng_percent(&d.prng, 50) ? MODE_READ : MODE_WRITE;
        item->ticket.agent =
            op == OP_RELEASE ? PICK(agents) : (uint64_t)prng_between(&d.prng, 1, 2);
        item->ticket.number = number();
        item->ticket.ttl_ms = duration();
        item->ticket.fresh = prng_percent(&d.prng, 50);
    }
    if (op == OP_ADOPT && prng_percent(&d.prng, 40))
        leave_adoptable(&items[0]);
    struct resp *resp = command_begin();
    struct text command = asking_op(resp, &d.config, 0, op, items, count);
    if (op_creates(op))
        put_clock(&command, resp);
    if (asking_names_vote(&d.config, 0, op))
        put_own(&command, resp, PICK(votes));
    ask_both(command);
}

/* The bound of the clock is the time, a little less, or so much less that the leases are over. */
void ask_native(void)
{
    unsigned count = (unsigned)prng_between(&d.prng, 1, 4);
    struct send_item items[4];
    bool fencing = prng_percent(&d.prng, 60);
    d.config.groups[0].guard = prng_percent(&d.prng, 60);
    for (unsigned i = 0; i < count; i++) {
        items[i] = drawn_item();
        items[i].fencing = fencing;
    }
    struct resp *resp = command_begin();
    struct native native = asking_native(resp, &d.config, 0, items, count);
    int64_t behind_ms = prng_percent(&d.prng, 80) ? prng_between(&d.prng, -10, 150) : 7200000;
    asking_native_ends(&native, resp->bytes + resp->at, *server.now_us / 1000 - behind_ms);
    ask_both_after(native.bytes, native.before);
}

void ask_nonsense(void)
{
    unsigned keys = (unsigned)prng_below(&d.prng, 6), args = (unsigned)prng_below(&d.prng, 12);
    struct resp *resp = command_begin();
    resp_text(resp, "EVALSHA");
    resp_text(resp, redis_scripts[prng_below(&d.prng, SCRIPT_COUNT)].sha);
    resp_number(resp, keys);
    for (unsigned i = 0; i < keys; i++)
        resp_text(resp, name());
    for (unsigned i = 0; i < args; i++)
        resp_text(resp, prng_percent(&d.prng, 50)   ? PICK(times)
                        : prng_percent(&d.prng, 20) ? agent_text()
                                                    : PICK(values));
    ask_both(resp_end(resp));
}

void ask_marker(void)
{
    static const char *const ways[] = {"restart", "keep", "tell", "trust"};
    static const char *const runs[] = {"r1", "r2", ""}, *const epochs[] = {"e1", "e2", ""};
    static const char *const others[] = {"", "", "e3 ", "e3 e1 "}, *const tolds[] = {"0", "1", "2"};
    char wall[24], lift[24], top[24];
    snprintf(wall, sizeof wall, "%lld",
             (long long)(*server.now_us + 1000000 * prng_between(&d.prng, -100, 100)));
    snprintf(lift, sizeof lift, "%llu", (unsigned long long)number());
    snprintf(top, sizeof top, "%llu", (unsigned long long)number());
    const char *const words[] = {"EVALSHA",
                                 redis_scripts[SCRIPT_MARKER].sha,
                                 "2",
                                 MARKER_KEY,
                                 VOTE_KEY,
                                 PICK(runs),
                                 prng_percent(&d.prng, 50) ? "e1" : "e2",
                                 PICK(times),
                                 PICK(ways),
                                 lift,
                                 PICK(others),
                                 wall,
                                 PICK(epochs),
                                 top,
                                 PICK(tolds)};
    ask_both(command_of(15, words));
}

void ask_conversions(void)
{
    static const char text[] =
        "local well, caught = pcall(redis.call, 'HGET', KEYS[1], 'f')\n"
        "local raised, thrown = pcall(error, {err = 'ERR mine', more = 1})\n"
        "local failed, said = pcall(function() return nil + 1 end)\n"
        "local soft = redis.pcall('INCR', KEYS[2])\n"
        "local odd = redis.pcall('GET', {})\n"
        "local none = redis.pcall()\n"
        "redis.call('SET', KEYS[2], tonumber(ARGV[1]) or 'x', 'PX', 2 ^ 40)\n"
        "local unset = pcall(function() return unknown end)\n"
        "local stored = redis.call('GET', KEYS[2])\n"
        "return {well, type(caught), tostring(caught), raised, type(thrown), tostring(thrown), "
        "failed, said, soft,\n"
        "    odd.err, none.err, unset, stored, tostring(tonumber(ARGV[1])), 3.99, -3.99, 2 ^ 53, "
        "true,\n"
        "    {1, {2, 'three'}}, redis.status_reply('FINE'), redis.error_reply('ERR bad'), "
        "redis.error_reply('bad'),\n"
        "    string.format('%.0f', 1760000000000001), 1760000000000001 .. '', false, 'seen', nil, "
        "'unseen'}\n";
    static const char *const numbers[] = {
        "1", "-7", "1.5", "1760000000000001", "1e20", "0.1", "-0", "9007199254740993", "x"};
    struct resp *resp = command_begin();
    resp_text(resp, "EVAL");
    resp_text(resp, text);
    resp_number(resp, 2);
    resp_text(resp, name());
    resp_text(resp, name());
    resp_text(resp, PICK(numbers));
    ask_both(resp_end(resp));
}
