/* Builds commands for the masters from the core's effects and the guard's questions. This is the
 * one place that knows the names of keys and values there (D5.6). */
#include "agent/redis/asking.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"

/* ---- scripts ---- */

/* The table of scripts (scripts.h), made by embed.py from the .lua files of this folder. */

const struct script redis_scripts[SCRIPT_COUNT] = {
#include "redis_scripts.h"
};

bool script_is_ours(const char *sha)
{
    for (unsigned i = 0; i < SCRIPT_COUNT; i++) {
        if (strcmp(sha, redis_scripts[i].sha) == 0)
            return true;
    }
    return false;
}

/* ---- a command in RESP ---- */

/* ---- appending to a command ---- */

static void append(struct resp *resp, const void *bytes, size_t len)
{
    CORE_ASSERT(len <= resp->size - resp->len);
    if (len > 0)
        memcpy(resp->bytes + resp->len, bytes, len);
    resp->len += len;
}

static struct text digits_of(uint64_t number, char digits[RESP_DIGITS_MAX])
{
    char *at = digits + RESP_DIGITS_MAX;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return (struct text){at, (size_t)(digits + RESP_DIGITS_MAX - at)};
}

void resp_begin(struct resp *resp)
{
    CORE_ASSERT(resp->size >= RESP_FRONT_BYTES);
    resp->at = resp->len = RESP_FRONT_BYTES;
    resp->args = 0;
}

void resp_joined(struct resp *resp, struct text a, struct text b, struct text c)
{
    char digits[RESP_DIGITS_MAX];
    struct text len = digits_of(a.len + b.len + c.len, digits);
    append(resp, "$", 1);
    append(resp, len.at, len.len);
    append(resp, "\r\n", 2);
    append(resp, a.at, a.len);
    append(resp, b.at, b.len);
    append(resp, c.at, c.len);
    append(resp, "\r\n", 2);
    resp->args++;
}

void resp_bytes(struct resp *resp, const char *bytes, size_t len)
{
    static const struct text none = {"", 0};
    resp_joined(resp, (struct text){bytes, len}, none, none);
}

void resp_text(struct resp *resp, const char *text)
{
    resp_bytes(resp, text, strlen(text));
}

void resp_number(struct resp *resp, uint64_t number)
{
    char digits[RESP_DIGITS_MAX];
    struct text text = digits_of(number, digits);
    resp_bytes(resp, text.at, text.len);
}

/* ---- prepending to a command: the first bytes are written last ---- */

static void prepend(struct resp *resp, const void *bytes, size_t len)
{
    CORE_ASSERT(len <= resp->at);
    resp->at -= len;
    memcpy(resp->bytes + resp->at, bytes, len);
}

static void prepend_header(struct resp *resp, const char *kind, size_t number)
{
    char digits[RESP_DIGITS_MAX];
    struct text text = digits_of(number, digits);
    prepend(resp, "\r\n", 2);
    prepend(resp, text.at, text.len);
    prepend(resp, kind, 1);
}

static void prepend_argument(struct resp *resp, struct text text)
{
    prepend(resp, "\r\n", 2);
    prepend(resp, text.at, text.len);
    prepend_header(resp, "$", text.len);
    resp->args++;
}

void resp_text_first(struct resp *resp, const char *text)
{
    prepend_argument(resp, (struct text){text, strlen(text)});
}

void resp_number_first(struct resp *resp, uint64_t number)
{
    char digits[RESP_DIGITS_MAX];
    prepend_argument(resp, digits_of(number, digits));
}

struct text resp_end(struct resp *resp)
{
    prepend_header(resp, "*", resp->args);
    return (struct text){resp->bytes + resp->at, resp->len - resp->at};
}

void resp_wipe(struct resp *resp)
{
    explicit_bzero(resp->bytes + resp->at, resp->len - resp->at);
}

/* ---- questions ---- */

/* The script of each operation; SCRIPT_COUNT: the form does not have the operation. A fair lock and
 * a slot are plain locks to most operations. In order fair an attempt shows the agent's ticket, and
 * a release removes the rest of it, or puts it back (R9). A refused attempt at a slot reports the
 * other slots, a release of any slot is published in the channel of the key, and a read sees all
 * slots (R20). */
static const enum script_id scripts[FORM_COUNT][OP_COUNT] = {
    [FORM_PLAIN] = {[OP_ACQUIRE] = SCRIPT_ACQUIRE,
                    [OP_HANDOVER] = SCRIPT_ACQUIRE,
                    [OP_RAISE] = SCRIPT_RAISE,
                    [OP_RENEW] = SCRIPT_EXTEND,
                    [OP_RESUME] = SCRIPT_EXTEND,
                    [OP_REPAIR] = SCRIPT_EXTEND,
                    [OP_ADOPT] = SCRIPT_EXTEND,
                    [OP_RELEASE] = SCRIPT_RELEASE,
                    [OP_READ] = SCRIPT_READ,
                    [OP_WITHDRAW] = SCRIPT_COUNT},
    [FORM_FAIR] = {[OP_ACQUIRE] = SCRIPT_ACQUIRE_FAIR,
                   [OP_HANDOVER] = SCRIPT_ACQUIRE_FAIR,
                   [OP_RAISE] = SCRIPT_RAISE,
                   [OP_RENEW] = SCRIPT_EXTEND,
                   [OP_RESUME] = SCRIPT_EXTEND,
                   [OP_REPAIR] = SCRIPT_EXTEND,
                   [OP_ADOPT] = SCRIPT_EXTEND,
                   [OP_RELEASE] = SCRIPT_RELEASE_FAIR,
                   [OP_READ] = SCRIPT_READ,
                   [OP_WITHDRAW] = SCRIPT_WITHDRAW_FAIR},
    [FORM_SLOTS] = {[OP_ACQUIRE] = SCRIPT_ACQUIRE_SLOTS,
                    [OP_HANDOVER] = SCRIPT_ACQUIRE_SLOTS,
                    [OP_RAISE] = SCRIPT_RAISE,
                    [OP_RENEW] = SCRIPT_EXTEND,
                    [OP_RESUME] = SCRIPT_EXTEND,
                    [OP_REPAIR] = SCRIPT_EXTEND,
                    [OP_ADOPT] = SCRIPT_EXTEND,
                    [OP_RELEASE] = SCRIPT_RELEASE_SLOTS,
                    [OP_READ] = SCRIPT_LOOK_SLOTS,
                    [OP_WITHDRAW] = SCRIPT_COUNT},
    [FORM_SHARED] = {[OP_ACQUIRE] = SCRIPT_ACQUIRE_RW,
                     [OP_HANDOVER] = SCRIPT_COUNT,
                     [OP_RAISE] = SCRIPT_RAISE_RW,
                     [OP_RENEW] = SCRIPT_EXTEND_RW,
                     [OP_RESUME] = SCRIPT_EXTEND_RW,
                     [OP_REPAIR] = SCRIPT_EXTEND_RW,
                     [OP_ADOPT] = SCRIPT_EXTEND_RW,
                     [OP_RELEASE] = SCRIPT_RELEASE_RW,
                     [OP_READ] = SCRIPT_READ_RW,
                     [OP_WITHDRAW] = SCRIPT_WITHDRAW_RW},
    [FORM_REDISSON] = {[OP_ACQUIRE] = SCRIPT_ACQUIRE_REDISSON,
                       [OP_HANDOVER] = SCRIPT_ACQUIRE_REDISSON,
                       [OP_RAISE] = SCRIPT_RAISE_REDISSON,
                       [OP_RENEW] = SCRIPT_EXTEND_REDISSON,
                       [OP_RESUME] = SCRIPT_EXTEND_REDISSON,
                       [OP_REPAIR] = SCRIPT_EXTEND_REDISSON,
                       [OP_ADOPT] = SCRIPT_EXTEND_REDISSON,
                       [OP_RELEASE] = SCRIPT_RELEASE_REDISSON,
                       [OP_READ] = SCRIPT_READ_REDISSON,
                       [OP_WITHDRAW] = SCRIPT_COUNT},
};

/* The arguments of an operation, for each item. */
struct asking {
    const char *mode; /* The first argument, if one script serves several operations. */
    bool label, ttl;
    bool number;   /* 0 if the policy does not number. */
    bool stores;   /* The number, if there is one (R12). */
    bool creates;  /* A deadline for each item, and the master's clock after them (R5). */
    bool unproved; /* Whether only a master without a vote may create the key (R7). */
    bool previous; /* The token that is replaced, after the deadline. */
    bool tickets;  /* The tickets of waiters, if the order is fair (R9). */
    /* Keys, if the group is guarded (D5.3). */
    bool vote, marker;
};

static const struct asking askings[OP_COUNT] = {
    [OP_ACQUIRE] = {.label = true,
                    .ttl = true,
                    .number = true,
                    .stores = true,
                    .creates = true,
                    .tickets = true,
                    .vote = true,
                    .marker = true},
    [OP_HANDOVER] = {.label = true,
                     .ttl = true,
                     .number = true,
                     .stores = true,
                     .creates = true,
                     .tickets = true,
                     .previous = true,
                     .vote = true,
                     .marker = true},
    [OP_RAISE] = {.number = true, .stores = true, .marker = true},
    [OP_RENEW] = {"renew", .label = true, .ttl = true, .marker = true},
    [OP_RESUME] = {"resume", .label = true, .ttl = true, .vote = true, .marker = true},
    [OP_REPAIR] = {"repair", .label = true, .ttl = true, .number = true, .stores = true,
                   .creates = true, .unproved = true, .vote = true, .marker = true},
    [OP_ADOPT] = {"adopt", .label = true, .ttl = true, .number = true, .vote = true,
                  .marker = true},
    [OP_RELEASE] = {.tickets = true, .vote = true},
    [OP_READ] = {NULL, .label = false},
    [OP_WITHDRAW] = {.tickets = true},
};

enum { VALUE_BEGIN_BYTES = TOKEN_RANDOM_CHARS + 1 + AGENT_DIGITS + 1 };

/* Appends the first part of a hold's value: `<random>:<agent>:` for a hold of this agent, or
 * `<random>:` if the hold may be of any agent (D3). */
static void add_value_begin(struct resp *resp, const struct token *token, uint32_t agent,
                            bool any_agent)
{
    char text[VALUE_BEGIN_BYTES + 1];
    token_print_random(token, text);
    snprintf(text + TOKEN_RANDOM_CHARS, sizeof(text) - TOKEN_RANDOM_CHARS,
             ":%08x:", (unsigned)agent);
    resp_joined(resp, (struct text){text, any_agent ? TOKEN_RANDOM_CHARS + 1 : VALUE_BEGIN_BYTES},
                (struct text){"", 0}, (struct text){"", 0});
}

/* Appends the value of a hold after `begin`: `<random>:<agent>:<number>:<label>` (D3.3). */
static void add_value(struct resp *resp, const char *begin, const struct send_item *item,
                      struct text label)
{
    enum { MODE_BYTES = 2 };
    char text[MODE_BYTES + VALUE_BEGIN_BYTES + RESP_DIGITS_MAX + 2];
    int len = snprintf(text, sizeof(text), "%.*s", MODE_BYTES, begin);
    token_print_random(&item->token, text + len);
    len += TOKEN_RANDOM_CHARS;
    len += snprintf(text + len, sizeof(text) - (size_t)len, ":%08x:%llu:", (unsigned)item->agent,
                    (unsigned long long)item->token.fence);
    CORE_ASSERT((size_t)len < sizeof(text));
    resp_joined(resp, (struct text){text, (size_t)len}, (struct text){"", 0}, label);
}

static const char *mode_letter(enum mode mode)
{
    return mode == MODE_READ ? "r" : "w";
}

/* Appends the member that is a hold's entry (R17). */
static void add_entry(struct resp *resp, const struct send_item *item)
{
    add_value(resp, item->mode == MODE_READ ? "r:" : "w:", item, item->label);
}

/* Returns true if the operation compares the number. A release does so only if it has to (C4), and
 * only if its holder asked for it. */
static bool compares_number(const struct send_item *item)
{
    CORE_ASSERT(item->asked || !item->numbered);
    return item->fencing && item->numbered;
}

static bool uses_tickets(enum op op, const struct send_item *item)
{
    return askings[op].tickets && form_is_fair(item->form);
}

static bool is_attempt(enum op op)
{
    return op == OP_ACQUIRE || op == OP_HANDOVER;
}

static enum script_id script_of(enum op op, const struct send_item *item)
{
    CORE_ASSERT(item->form < FORM_COUNT && scripts[item->form][op] != SCRIPT_COUNT);
    return scripts[item->form][op];
}

static void add_agent(struct resp *resp, uint64_t agent)
{
    char name[17];
    snprintf(name, sizeof(name), "%016llx", (unsigned long long)agent);
    resp_bytes(resp, name, agent != 0 ? 16 : 0);
}

enum { SLOT_BEGIN_BYTES = 32 };

/* Prints the part of a slot's key before the prefix; "" without a slot (D5.6). */
static struct text slot_begin(char ret_begin[SLOT_BEGIN_BYTES], bool has_slot, uint8_t slot)
{
    int len = has_slot ? snprintf(ret_begin, SLOT_BEGIN_BYTES, "lockagent:slot:%u:", slot) : 0;
    CORE_ASSERT(slot < LIMIT_PERMITS && len >= 0 && len < SLOT_BEGIN_BYTES);
    return (struct text){ret_begin, (size_t)len};
}

static void add_lock_key(struct resp *resp, const struct config *config,
                         const struct send_item *item, bool has_slot, uint8_t slot)
{
    char begin[SLOT_BEGIN_BYTES];
    const char *prefix = config->policies[item->policy].prefix;
    resp_joined(resp, slot_begin(begin, has_slot, slot), (struct text){prefix, strlen(prefix)},
                item->key);
}

static void add_ticket_key(struct resp *resp, const struct config *config,
                           const struct send_item *item)
{
    static const char begin[] = "lockagent:ticket:";
    const char *prefix = config->policies[item->policy].prefix;
    resp_joined(resp, (struct text){begin, sizeof(begin) - 1},
                (struct text){prefix, strlen(prefix)}, item->key);
}

bool asking_adds_braces(const char *prefix, struct text key)
{
    return strchr(prefix, '{') == NULL && memchr(key.at, '{', key.len) == NULL;
}

static uint64_t hash_on(uint64_t hash, struct text text)
{
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static unsigned bucket_of(struct text begin, struct text prefix, struct text key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    hash = hash_on(hash_on(hash_on(hash, begin), prefix), key);
    return (unsigned)((hash ^ hash >> 32) % NUMBER_BUCKETS);
}

unsigned asking_bucket(const char *lock_key)
{
    static const struct text none = {"", 0};
    return bucket_of(none, none, (struct text){lock_key, strlen(lock_key)});
}

struct text asking_number_key(char bytes[ASKING_NUMBER_KEY_BYTES],
                              const struct config_policy *policy, struct text key, bool has_slot,
                              uint8_t slot)
{
    char begin[SLOT_BEGIN_BYTES];
    const char *prefix = policy->prefix;
    int len;
    if (policy->core.fencing == FENCING_REDISSON) {
        bool braces = asking_adds_braces(prefix, key);
        len = snprintf(bytes, ASKING_NUMBER_KEY_BYTES, "redisson_lock_token:%s%s%.*s%s",
                       braces ? "{" : "", prefix, (int)key.len, key.at, braces ? "}" : "");
    } else {
        struct text slot_begins = slot_begin(begin, has_slot, slot);
        len = snprintf(bytes, ASKING_NUMBER_KEY_BYTES, NUMBER_KEY "%s%u", prefix,
                       bucket_of(slot_begins, (struct text){prefix, strlen(prefix)}, key));
    }
    CORE_ASSERT(len > 0 && len < ASKING_NUMBER_KEY_BYTES);
    return (struct text){bytes, (size_t)len};
}

static void add_number_key(struct resp *resp, const struct config *config,
                           const struct send_item *item)
{
    char bytes[ASKING_NUMBER_KEY_BYTES];
    struct text name = asking_number_key(bytes, &config->policies[item->policy], item->key,
                                         item->token.has_slot, item->token.slot);
    resp_bytes(resp, name.at, name.len);
}

void asking_keys_by_hand(struct resp *resp, const struct config *config,
                         const struct send_item *item)
{
    add_lock_key(resp, config, item, item->token.has_slot, item->token.slot);
    if (item->fencing)
        add_number_key(resp, config, item);
    if (form_is_fair(item->form))
        add_ticket_key(resp, config, item);
}

/* Appends the lock's key, or the keys of all slots if the operation looks at all of them (R20). */
static void add_lock_keys(struct resp *resp, const struct config *config, enum op op,
                          const struct send_item *item)
{
    bool looks_at_all = op == OP_READ && item->form == FORM_SLOTS;
    if (!looks_at_all)
        add_lock_key(resp, config, item, item->token.has_slot, item->token.slot);
    for (uint8_t slot = 0; looks_at_all && slot < item->permits; slot++)
        add_lock_key(resp, config, item, true, slot);
}

/* Appends the keys, kind by kind, so that a script reads those of one kind in one call. */
static void add_keys(struct resp *resp, const struct config *config, uint8_t group, enum op op,
                     const struct send_item *items, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        add_lock_keys(resp, config, op, &items[i]);
    for (unsigned i = 0; i < count; i++)
        if (uses_tickets(op, &items[i]))
            add_ticket_key(resp, config, &items[i]);
    if (askings[op].vote && config->groups[group].guard)
        resp_text(resp, VOTE_KEY);
    if (askings[op].marker && config->groups[group].guard)
        resp_text(resp, MARKER_KEY);
    for (unsigned i = 0; i < count; i++)
        if (askings[op].stores && items[i].fencing)
            add_number_key(resp, config, &items[i]);
}

/* Appends the time left for the operation. It is negative if the key is not to be created. */
static void add_left_ms(struct resp *resp, const struct send_item *item)
{
    char digits[RESP_DIGITS_MAX + 1];
    snprintf(digits, sizeof(digits), "%s%u", item->was_set ? "-" : "", (unsigned)item->left_ms);
    resp_text(resp, digits);
}

/* Appends the arguments in the order that the scripts expect: value, ttl, number, time left for the
 * operation, ticket or permits, previous. READ: the holder's part of the value of this agent's
 * hold. RELEASE: the first part of the value, the number (+, *, - or empty unless it is to be
 * compared), the ticket. If readers share the key, the value is the entry, and a RELEASE has the
 * ticket's mode after the ticket. */
static void add_arguments(struct resp *resp, enum op op, const struct send_item *item)
{
    const struct asking *asking = &askings[op];
    if (op == OP_READ && item->asked)
        add_value_begin(resp, &item->token, item->agent, /* any_agent= */ true);
    if (op == OP_READ || op == OP_WITHDRAW)
        return;
    if (item->form == FORM_SHARED)
        add_entry(resp, item);
    else if (op == OP_RELEASE)
        add_value_begin(resp, &item->token, item->agent, item->asked);
    else
        add_value(resp, "", item, asking->label ? item->label : (struct text){"", 0});
    if (asking->ttl)
        resp_number(resp, item->ttl_ms);
    if (op == OP_RELEASE && !compares_number(item))
        resp_text(resp, item->untold ? "+" : item->asked ? "*" : item->voted ? "-" : "");
    else if (asking->number || op == OP_RELEASE)
        resp_number(resp, item->fencing ? item->token.fence : 0);
    if (asking->creates)
        add_left_ms(resp, item);
    if (asking->unproved)
        resp_number(resp, item->unproved);
    if (uses_tickets(op, item)) {
        add_agent(resp, item->ticket.agent);
        resp_number(resp, item->ticket.number);
        resp_number(resp, item->ticket.ttl_ms);
    }
    if (is_attempt(op) && form_is_fair(item->form))
        resp_number(resp, item->ticket.fresh);
    if (is_attempt(op) && item->form == FORM_SLOTS)
        resp_number(resp, item->permits);
    if (op == OP_RELEASE && item->form == FORM_SHARED)
        resp_text(resp, mode_letter(item->ticket.mode));
    if (asking->previous)
        add_value_begin(resp, &item->previous, item->previous_agent, item->asked);
}

/* Builds one command. The count of keys comes before the keys, and RESP counts all arguments. Both
 * numbers are written last, in front of the arguments, because they are known only then. */
struct text asking_op(struct resp *resp, const struct config *config, uint8_t group, enum op op,
                      const struct send_item *items, unsigned count)
{
    const struct asking *asking = &askings[op];
    resp_begin(resp);
    for (unsigned i = 0; i < count; i++) {
        CORE_ASSERT(items[i].policy < config->policy_count && items[i].key.len <= LIMIT_KEY_BYTES);
        CORE_ASSERT(items[i].label.len <= LIMIT_LABEL_BYTES);
        CORE_ASSERT(script_of(op, &items[i]) == script_of(op, &items[0]));
    }
    add_keys(resp, config, group, op, items, count);
    unsigned keys = resp->args;
    resp->args += asking->creates;
    resp->args += asking_names_vote(config, group, op); /* Both are asking_own()'s. */
    if (asking->mode != NULL)
        resp_text(resp, asking->mode);
    else if (op == OP_WITHDRAW)
        add_agent(resp, items[0].ticket.agent);
    for (unsigned i = 0; i < count; i++)
        add_arguments(resp, op, &items[i]);
    resp_number_first(resp, keys);
    resp_text_first(resp, redis_scripts[script_of(op, &items[0])].sha);
    resp_text_first(resp, "EVALSHA");
    return resp_end(resp);
}

/* ---- native commands (R24) ---- */

enum { END_DIGITS = 13 }; /* Unix time in ms, until the year 2286. */

static void append_words(struct resp *resp, const char *words)
{
    append(resp, words, strlen(words));
}

/* Sets the numbers of replies, and the bytes. */
static void end_native(const struct resp *resp, struct native *native, unsigned results)
{
    native->results = (uint16_t)results;
    native->before = (uint16_t)(1u + results); /* MULTI's, and one for each queued command. */
    native->bytes = (struct text){resp->bytes + resp->at, resp->len - resp->at};
}

struct native asking_native(struct resp *resp, const struct config *config, uint8_t group,
                            const struct send_item *items, unsigned count)
{
    struct native native = {
        .count = (uint16_t)count,
        .takes = true,
        .spread_ms = native_spread_ms(config->groups[group].node_timeout_ms),
    };
    CORE_ASSERT(count >= 1 && count <= NATIVE_ITEMS_MAX);
    resp_begin(resp);
    append_words(resp, "*1\r\n$5\r\nMULTI\r\n");
    for (unsigned i = 0; i < count; i++) {
        const struct send_item *item = &items[i];
        CORE_ASSERT(item->fencing == items[0].fencing);
        append_words(resp, "*6\r\n$3\r\nSET\r\n");
        add_lock_key(resp, config, item, item->token.has_slot, item->token.slot);
        add_value(resp, "", item, item->label);
        append_words(resp, "$2\r\nNX\r\n$4\r\nPXAT\r\n$13\r\n");
        native.ends[i] = (uint32_t)(resp->len - resp->at);
        native.ttls_ms[i] = item->ttl_ms;
        append_words(resp, "0000000000000\r\n");
        if (item->fencing) {
            append_words(resp, "*6\r\n$4\r\nZADD\r\n");
            add_number_key(resp, config, item);
            append_words(resp, "$2\r\nGT\r\n$2\r\nCH\r\n");
            resp_number(resp, item->token.fence);
            append_words(resp, "$1\r\nn\r\n");
        }
    }
    bool votes = asking_names_vote(config, group, OP_ACQUIRE);
    if (votes)
        append_words(resp, "*2\r\n$3\r\nGET\r\n$15\r\n" VOTE_KEY "\r\n");
    append_words(resp, "*1\r\n$4\r\nTIME\r\n*1\r\n$4\r\nEXEC\r\n");
    end_native(resp, &native, count * (1u + items[0].fencing) + votes + 1u);
    return native;
}

enum compare_delete asking_compares(const redisReply *reply)
{
    enum compare_delete found = COMPARE_DELETE_NONE;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *name = reply->element[i];
        if (name->type != REDIS_REPLY_STRING)
            continue;
        if (strcmp(name->str, "delifeq") == 0)
            return COMPARE_DELETE_DELIFEQ;
        if (strcmp(name->str, "delex") == 0)
            found = COMPARE_DELETE_DELEX;
    }
    return found;
}

/* Appends the channel on which releases of the key are published (R9). */
static void add_channel(struct resp *resp, const struct config *config,
                        const struct send_item *item)
{
    static const struct text begin = {KEY_CHANNEL, sizeof(KEY_CHANNEL) - 1};
    const char *prefix = config->policies[item->policy].prefix;
    resp_joined(resp, begin, (struct text){prefix, strlen(prefix)}, item->key);
}

struct native asking_native_release(struct resp *resp, const struct config *config, uint8_t group,
                                    enum compare_delete how, const struct send_item *items,
                                    unsigned count)
{
    struct native native = {.count = (uint16_t)count};
    bool is_delex = how == COMPARE_DELETE_DELEX, votes = config->groups[group].guard;
    CORE_ASSERT(count >= 1 && count <= NATIVE_ITEMS_MAX && how != COMPARE_DELETE_NONE);
    resp_begin(resp);
    append_words(resp, "*1\r\n$5\r\nMULTI\r\n");
    for (unsigned i = 0; i < count; i++) {
        CORE_ASSERT(items[i].asked && !items[i].numbered);
        append_words(resp, is_delex ? "*4\r\n$5\r\nDELEX\r\n" : "*3\r\n$7\r\nDELIFEQ\r\n");
        add_lock_key(resp, config, &items[i], items[i].token.has_slot, items[i].token.slot);
        if (is_delex)
            append_words(resp, "$4\r\nIFEQ\r\n");
        add_value(resp, "", &items[i], items[i].label);
    }
    if (votes)
        append_words(resp, "*2\r\n$3\r\nGET\r\n$15\r\n" VOTE_KEY "\r\n");
    char head[32];
    snprintf(head, sizeof(head), "*%u\r\n", count + 2);
    append_words(resp, head);
    append_words(resp, "$6\r\nPUBSUB\r\n$6\r\nNUMSUB\r\n");
    for (unsigned i = 0; i < count; i++)
        add_channel(resp, config, &items[i]);
    append_words(resp, "*1\r\n$4\r\nEXEC\r\n");
    end_native(resp, &native, count + votes + 1u);
    return native;
}

void asking_native_ends(const struct native *native, char *bytes, int64_t clock_ms)
{
    CORE_ASSERT(native->takes && clock_ms > 0);
    int64_t latest_ms = clock_ms + native->spread_ms;
    for (unsigned i = 0; i < native->count; i++) {
        char digits[RESP_DIGITS_MAX], *at = bytes + native->ends[i];
        struct text end = digits_of((uint64_t)(latest_ms + native->ttls_ms[i]), digits);
        CORE_ASSERT(end.len <= END_DIGITS);
        memset(at, '0', END_DIGITS);
        memcpy(at + END_DIGITS - end.len, end.at, end.len);
    }
}

/* ---- the vote ---- */

bool asking_names_vote(const struct config *config, uint8_t group, enum op op)
{
    bool counts_by_vote = is_attempt(op) || op == OP_ADOPT || op == OP_RESUME || op == OP_RELEASE;
    return counts_by_vote && config->groups[group].guard;
}

static bool fits_marker(const struct guard *guard, uint8_t master,
                        const struct proposals *proposals)
{
    return proposals->least > guard_floor(guard) && proposals->most <= guard_top(guard, master);
}

const char *asking_native_vote(const struct guard *guard, uint8_t master, struct instant now,
                               const struct proposals *proposals)
{
    const char *vote = guard_vote(guard, master, now);
    bool fits = proposals == NULL || fits_marker(guard, master, proposals);
    return *vote == '=' && fits ? vote : NULL;
}

struct proposals asking_proposals(const struct config *config, const struct send_item *items,
                                  unsigned count)
{
    struct proposals found = {.least = UINT64_MAX};
    for (unsigned i = 0; i < count; i++) {
        uint64_t number = items[i].token.fence;
        if (!items[i].fencing || config->policies[items[i].policy].core.fencing == FENCING_REDISSON)
            continue;
        found.least = number < found.least ? number : found.least;
        found.most = number > found.most ? number : found.most;
    }
    return found;
}

bool asking_has_own(const struct config *config, uint8_t group, enum op op)
{
    return askings[op].creates || asking_names_vote(config, group, op);
}

struct text asking_own(char bytes[ASKING_OWN_BYTES], enum op op, int64_t clock_ms, struct text vote)
{
    char digits[RESP_DIGITS_MAX + 1];
    CORE_ASSERT(clock_ms >= 0);
    if (!askings[op].creates)
        return vote;
    int count = snprintf(digits, sizeof(digits), "%lld", (long long)clock_ms),
        len = snprintf(bytes, ASKING_OWN_BYTES, "$%d\r\n%s\r\n%.*s", count, digits, (int)vote.len,
                       vote.at);
    CORE_ASSERT(len > 0 && len < ASKING_OWN_BYTES);
    return (struct text){bytes, (size_t)len};
}

struct text asking_no_vote(void)
{
    static const char bytes[] = "$0\r\n\r\n";
    return (struct text){bytes, sizeof(bytes) - 1};
}

struct text asking_vote(char bytes[ASKING_VOTE_BYTES], const struct guard *guard, uint8_t master,
                        struct instant now, enum op op, const struct proposals *proposals)
{
    bool takes = is_attempt(op), fits = !takes || fits_marker(guard, master, proposals);
    const char *vote = takes ? guard_vote(guard, master, now) : guard_known_vote(guard, master);
    int len = *vote == '\0' ? snprintf(bytes, ASKING_VOTE_BYTES, "$0\r\n\r\n")
                            : snprintf(bytes, ASKING_VOTE_BYTES, "$%zu\r\n%c%s\r\n", strlen(vote),
                                       fits ? *vote : '!', vote + 1);
    CORE_ASSERT(len > 0 && len < ASKING_VOTE_BYTES);
    return (struct text){bytes, (size_t)len};
}
