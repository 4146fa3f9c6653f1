/* The commands: arguments, checks and errors in the server's order and in its words (Redis 7.0). */
#include "keyspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRONG_TYPE error_of("WRONGTYPE Operation against a key holding the wrong kind of value")
#define NOT_AN_INTEGER error_of("ERR value is not an integer or out of range")
#define SYNTAX error_of("ERR syntax error")
#define OK status_of("OK")

struct call {
    struct keyspace *keyspace;
    const struct bytes *args;
    uint32_t count;
};

/* ---- answers ---- */

static struct result integer_of(int64_t integer)
{
    return (struct result){.kind = RESULT_INTEGER, .integer = integer};
}
static struct result status_of(const char *text)
{
    return (struct result){.kind = RESULT_STATUS, .text = {text, strlen(text)}};
}
static struct result error_of(const char *text)
{
    return (struct result){.kind = RESULT_ERROR, .text = {text, strlen(text)}};
}
static struct result bulk_of(const struct string *string)
{
    return (struct result){.kind = RESULT_BULK, .text = bytes_of(string)};
}
static struct result nil(void)
{
    return (struct result){.kind = RESULT_NIL};
}
static struct item bulk_item(const struct string *string)
{
    return string == NULL ? (struct item){.kind = ITEM_NIL}
                          : (struct item){.kind = ITEM_BULK, .text = bytes_of(string)};
}

/* ---- arguments ---- */

static bool is_word(struct bytes bytes, const char *word)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (word[i] == '\0' ||
            word[i] !=
                (bytes.at[i] >= 'a' && bytes.at[i] <= 'z' ? bytes.at[i] - 0x20 : bytes.at[i]))
            return false;
    return word[bytes.len] == '\0';
}

/* As the server reads numbers: no blanks, no `+`, no leading zeros. */
static bool read_integer(struct bytes text, int64_t *ret_number)
{
    bool negative = text.len > 0 && text.at[0] == '-';
    size_t at = negative;
    uint64_t number = 0;
    if (text.len - at == 0 || text.len > 20)
        return false;
    if (text.at[at] == '0') {
        *ret_number = 0;
        return text.len == 1;
    }
    for (; at < text.len; at++) {
        if (text.at[at] < '0' || text.at[at] > '9')
            return false;
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text.at[at] - '0'), &number))
            return false;
    }
    if (number > (uint64_t)INT64_MAX + negative)
        return false;
    *ret_number = negative ? (int64_t)(0 - number) : (int64_t)number;
    return true;
}

/* ---- strings ---- */

static struct result get(struct call *call)
{
    const struct entry *entry = entry_find(call->keyspace, call->args[1]);
    if (entry == NULL)
        return nil();
    return entry->type == VALUE_STRING ? bulk_of(&entry->value) : WRONG_TYPE;
}

struct set_options {
    bool only_new, only_old, keeps_ttl, gets, expires, is_end;
    int64_t unit_ms, amount;
    struct bytes ttl;
};

static bool set_option(struct call *call, uint32_t *at, struct set_options *options)
{
    struct bytes word = call->args[*at];
    bool has_next = *at + 1 < call->count;
    if (is_word(word, "NX") && !options->only_old)
        return options->only_new = true;
    if (is_word(word, "XX") && !options->only_new)
        return options->only_old = true;
    if (is_word(word, "GET"))
        return options->gets = true;
    if (is_word(word, "KEEPTTL") && !options->expires)
        return options->keeps_ttl = true;
    if ((is_word(word, "PX") || is_word(word, "EX")) && has_next && !options->expires &&
        !options->keeps_ttl) {
        options->expires = true;
        options->unit_ms = is_word(word, "PX") ? 1 : 1000;
        options->ttl = call->args[++*at];
        return true;
    }
    if (is_word(word, "PXAT") && has_next && !options->expires && !options->keeps_ttl) {
        options->expires = options->is_end = true;
        options->ttl = call->args[++*at];
        return true;
    }
    return false;
}

/* Sets the end of a duration that begins now. Returns false if the duration is out of range. */
static bool end_of(const struct keyspace *keyspace, int64_t amount, int64_t unit_ms,
                   int64_t *ret_end_ms)
{
    int64_t ms;
    return amount > 0 && !__builtin_mul_overflow(amount, unit_ms, &ms) &&
           !__builtin_add_overflow(ms, keyspace->now_us / 1000, ret_end_ms);
}

static struct result set(struct call *call)
{
    struct set_options options = {.unit_ms = 1};
    for (uint32_t at = 3; at < call->count; at++)
        if (!set_option(call, &at, &options))
            return SYNTAX;
    int64_t end_ms = -1;
    if (options.expires) {
        if (!read_integer(options.ttl, &options.amount))
            return NOT_AN_INTEGER;
        bool fits = options.is_end
                        ? options.amount > 0
                        : end_of(call->keyspace, options.amount, options.unit_ms, &end_ms);
        if (!fits)
            return error_of("ERR invalid expire time in 'set' command");
        if (options.is_end)
            end_ms = options.amount;
    }
    struct entry *entry = entry_find(call->keyspace, call->args[1]);
    struct result before = nil();
    if (options.gets) {
        before = get(call);
        if (before.kind == RESULT_ERROR)
            return before;
        if (before.kind == RESULT_BULK) { /* the value's own place is about to be written */
            static struct string kept;
            string_set(&kept, before.text);
            before.text = bytes_of(&kept);
        }
    }
    if ((options.only_new && entry != NULL) || (options.only_old && entry == NULL))
        return options.gets ? before : nil();
    if (options.keeps_ttl && entry != NULL)
        end_ms = entry->expires_ms;
    entry = entry_make(call->keyspace, call->args[1], VALUE_STRING);
    string_set(&entry->value, call->args[2]);
    entry->expires_ms = end_ms;
    return options.gets ? before : OK;
}

static struct result mget(struct call *call)
{
    struct item *items = keyspace_items(call->keyspace, call->count - 1);
    for (uint32_t i = 1; i < call->count; i++) {
        const struct entry *entry = entry_find(call->keyspace, call->args[i]);
        items[i - 1] =
            bulk_item(entry != NULL && entry->type == VALUE_STRING ? &entry->value : NULL);
    }
    return (struct result){.kind = RESULT_ARRAY, .items = items, .count = call->count - 1};
}

static struct result incr(struct call *call)
{
    struct entry *entry = entry_find(call->keyspace, call->args[1]);
    int64_t number = 0;
    if (entry != NULL && entry->type != VALUE_STRING)
        return WRONG_TYPE;
    if (entry != NULL && !read_integer(bytes_of(&entry->value), &number))
        return NOT_AN_INTEGER;
    if (number == INT64_MAX)
        return error_of("ERR increment or decrement would overflow");
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)number + 1);
    if (entry == NULL)
        entry = entry_make(call->keyspace, call->args[1], VALUE_STRING);
    string_set(&entry->value, (struct bytes){digits, (size_t)len});
    entry_touch(call->keyspace, entry);
    return integer_of(number + 1);
}

static struct result string_length(struct call *call)
{
    const struct entry *entry = entry_find(call->keyspace, call->args[1]);
    if (entry == NULL)
        return integer_of(0);
    return entry->type == VALUE_STRING ? integer_of(entry->value.len) : WRONG_TYPE;
}

/* ---- keys ---- */

static struct result del(struct call *call)
{
    int64_t removed = 0;
    for (uint32_t i = 1; i < call->count; i++) {
        struct entry *entry = entry_find(call->keyspace, call->args[i]);
        if (entry == NULL)
            continue;
        entry_remove(call->keyspace, entry);
        removed++;
    }
    return integer_of(removed);
}

/* DELIFEQ of Valkey 9.0. */
static struct result delifeq(struct call *call)
{
    struct entry *entry = entry_find(call->keyspace, call->args[1]);
    struct bytes value = call->args[2];
    if (entry == NULL)
        return integer_of(0);
    if (entry->type != VALUE_STRING)
        return WRONG_TYPE;
    bool is_equal =
        entry->value.len == value.len && memcmp(entry->value.at, value.at, value.len) == 0;
    if (is_equal)
        entry_remove(call->keyspace, entry);
    return integer_of(is_equal);
}

static struct result exists(struct call *call)
{
    int64_t found = 0;
    for (uint32_t i = 1; i < call->count; i++)
        found += entry_find(call->keyspace, call->args[i]) != NULL;
    return integer_of(found);
}

static struct result type(struct call *call)
{
    static const char *const names[] = {"string", "hash", "list", "zset"};
    const struct entry *entry = entry_find(call->keyspace, call->args[1]);
    return status_of(entry == NULL ? "none" : names[entry->type]);
}

static struct result pttl(struct call *call)
{
    const struct entry *entry = entry_find(call->keyspace, call->args[1]);
    if (entry == NULL)
        return integer_of(-2);
    return integer_of(entry->expires_ms < 0 ? -1
                                            : entry->expires_ms - call->keyspace->now_us / 1000);
}

static struct result persist(struct call *call)
{
    struct entry *entry = entry_find(call->keyspace, call->args[1]);
    if (entry == NULL || entry->expires_ms < 0)
        return integer_of(0);
    entry->expires_ms = -1;
    entry_touch(call->keyspace, entry);
    return integer_of(1);
}

struct expiry_flags {
    bool if_none, if_any, if_later, if_sooner;
};

static struct result expiry_flags(struct call *call, struct expiry_flags *flags)
{
    for (uint32_t at = 3; at < call->count; at++) {
        struct bytes word = call->args[at];
        if (is_word(word, "NX")) {
            flags->if_none = true;
        } else if (is_word(word, "XX")) {
            flags->if_any = true;
        } else if (is_word(word, "GT")) {
            flags->if_later = true;
        } else if (is_word(word, "LT")) {
            flags->if_sooner = true;
        } else {
            static char text[128];
            snprintf(text, sizeof text, "ERR Unsupported option %.*s",
                     (int)(word.len < 64 ? word.len : 64), word.at);
            return error_of(text);
        }
    }
    if (flags->if_none && (flags->if_any || flags->if_later || flags->if_sooner))
        return error_of("ERR NX and XX, GT or LT options at the same time are not compatible");
    if (flags->if_later && flags->if_sooner)
        return error_of("ERR GT and LT options at the same time are not compatible");
    return OK;
}

static bool may_expire(const struct entry *entry, const struct expiry_flags *flags, int64_t end_ms)
{
    bool never = entry->expires_ms < 0;
    return !((flags->if_none && !never) || (flags->if_any && never) ||
             (flags->if_later && (never || end_ms <= entry->expires_ms)) ||
             (flags->if_sooner && !never && end_ms >= entry->expires_ms));
}

static struct result expire_at(struct call *call, int64_t unit_ms, int64_t base_ms,
                               const char *invalid)
{
    struct expiry_flags flags = {false};
    struct result checked = expiry_flags(call, &flags);
    int64_t amount, end_ms;
    if (checked.kind == RESULT_ERROR)
        return checked;
    if (!read_integer(call->args[2], &amount))
        return NOT_AN_INTEGER;
    if (__builtin_mul_overflow(amount, unit_ms, &end_ms) ||
        __builtin_add_overflow(end_ms, base_ms, &end_ms))
        return error_of(invalid);
    struct entry *entry = entry_find(call->keyspace, call->args[1]);
    if (entry == NULL || !may_expire(entry, &flags, end_ms))
        return integer_of(0);
    if (end_ms <= call->keyspace->now_us / 1000) {
        entry_remove(call->keyspace, entry);
        return integer_of(1);
    }
    entry->expires_ms = end_ms;
    entry_touch(call->keyspace, entry);
    return integer_of(1);
}

static struct result pexpire(struct call *call)
{
    return expire_at(call, 1, call->keyspace->now_us / 1000,
                     "ERR invalid expire time in 'pexpire' command");
}

static struct result pexpireat(struct call *call)
{
    return expire_at(call, 1, 0, "ERR invalid expire time in 'pexpireat' command");
}

/* ---- hashes ---- */

/* Finds the hash. Returns false if the key has another type. */
static bool find_hash(struct call *call, struct entry **ret_entry)
{
    *ret_entry = entry_find(call->keyspace, call->args[1]);
    return *ret_entry == NULL || (*ret_entry)->type == VALUE_HASH;
}

static struct result hget(struct call *call)
{
    struct entry *entry;
    if (!find_hash(call, &entry))
        return WRONG_TYPE;
    const struct string *value = entry == NULL ? NULL : entry_field(entry, call->args[2]);
    return value == NULL ? nil() : bulk_of(value);
}

static struct result hmget(struct call *call)
{
    struct entry *entry;
    if (!find_hash(call, &entry))
        return WRONG_TYPE;
    struct item *items = keyspace_items(call->keyspace, call->count - 2);
    for (uint32_t i = 2; i < call->count; i++)
        items[i - 2] = bulk_item(entry == NULL ? NULL : entry_field(entry, call->args[i]));
    return (struct result){.kind = RESULT_ARRAY, .items = items, .count = call->count - 2};
}

static struct result hgetall(struct call *call)
{
    struct entry *entry;
    if (!find_hash(call, &entry))
        return WRONG_TYPE;
    uint32_t count = entry == NULL ? 0 : entry->field_count;
    struct item *items = keyspace_items(call->keyspace, 2 * count);
    for (uint32_t i = 0; i < count; i++) {
        items[2 * i] = bulk_item(&entry->fields[i].name);
        items[2 * i + 1] = bulk_item(&entry->fields[i].value);
    }
    return (struct result){.kind = RESULT_ARRAY, .items = items, .count = 2 * count};
}

static struct result hset(struct call *call)
{
    struct entry *entry;
    int64_t came = 0;
    if (call->count % 2 != 0)
        return error_of("ERR wrong number of arguments for 'hset' command");
    if (!find_hash(call, &entry))
        return WRONG_TYPE;
    if (entry == NULL)
        entry = entry_make(call->keyspace, call->args[1], VALUE_HASH);
    for (uint32_t i = 2; i < call->count; i += 2)
        came += field_set(entry, call->args[i], call->args[i + 1]);
    entry_touch(call->keyspace, entry);
    return integer_of(came);
}

/* An empty one is gone. */
static struct result removed_from(struct call *call, struct entry *entry, int64_t removed)
{
    if (removed > 0)
        entry_touch(call->keyspace, entry);
    if (entry != NULL && entry->field_count == 0)
        entry_remove(call->keyspace, entry);
    return integer_of(removed);
}

static struct result remove_fields(struct call *call, enum value_type type)
{
    struct entry *entry = entry_find(call->keyspace, call->args[1]);
    int64_t removed = 0;
    if (entry != NULL && entry->type != type)
        return WRONG_TYPE;
    for (uint32_t i = 2; i < call->count && entry != NULL; i++)
        removed += field_remove(entry, call->args[i]);
    return removed_from(call, entry, removed);
}

static struct result hdel(struct call *call)
{
    return remove_fields(call, VALUE_HASH);
}

static struct result hlen(struct call *call)
{
    struct entry *entry;
    if (!find_hash(call, &entry))
        return WRONG_TYPE;
    return integer_of(entry == NULL ? 0 : entry->field_count);
}

static struct result hexists(struct call *call)
{
    struct entry *entry;
    if (!find_hash(call, &entry))
        return WRONG_TYPE;
    return integer_of(entry != NULL && entry_field(entry, call->args[2]) != NULL);
}

/* ---- sorted sets ---- */

static bool find_sorted(struct call *call, struct entry **ret_entry)
{
    *ret_entry = entry_find(call->keyspace, call->args[1]);
    return *ret_entry == NULL || (*ret_entry)->type == VALUE_SORTED;
}

/* As the server reads scores. */
static bool read_score(struct bytes text, double *ret_score)
{
    char copy[64], *end;
    if (text.len == 0 || text.len >= sizeof copy || text.at[0] == ' ')
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    *ret_score = strtod(copy, &end);
    return end == copy + text.len && *ret_score == *ret_score;
}

static struct result zadd(struct call *call)
{
    int64_t came = 0;
    double score;
    uint32_t first = 2;
    bool greater = false, changed = false;
    for (; first < call->count; first++) {
        if (is_word(call->args[first], "GT"))
            greater = true;
        else if (is_word(call->args[first], "CH"))
            changed = true;
        else
            break;
    }
    if (first == call->count || (call->count - first) % 2 != 0)
        return SYNTAX;
    for (uint32_t i = first; i < call->count; i += 2)
        if (!read_score(call->args[i], &score))
            return error_of("ERR value is not a valid float");
    struct entry *entry;
    if (!find_sorted(call, &entry))
        return WRONG_TYPE;
    if (entry == NULL)
        entry = entry_make(call->keyspace, call->args[1], VALUE_SORTED);
    for (uint32_t i = first; i < call->count && read_score(call->args[i], &score); i += 2) {
        const double *was = member_score(entry, call->args[i + 1]);
        if (was != NULL && (greater ? score <= *was : score == *was))
            continue;
        came += was == NULL || changed;
        member_set(entry, call->args[i + 1], score);
        entry_touch(call->keyspace, entry);
    }
    return integer_of(came);
}

static struct result zrem(struct call *call)
{
    return remove_fields(call, VALUE_SORTED);
}

static struct result zscore(struct call *call)
{
    struct entry *entry;
    if (!find_sorted(call, &entry))
        return WRONG_TYPE;
    const struct string *score = entry == NULL ? NULL : entry_field(entry, call->args[2]);
    return score == NULL ? nil() : bulk_of(score);
}

static struct result zcard(struct call *call)
{
    struct entry *entry;
    if (!find_sorted(call, &entry))
        return WRONG_TYPE;
    return integer_of(entry == NULL ? 0 : entry->field_count);
}

static struct result zrange(struct call *call)
{
    int64_t from, to;
    if (!read_integer(call->args[2], &from) || !read_integer(call->args[3], &to))
        return NOT_AN_INTEGER;
    bool scores = call->count == 5 && is_word(call->args[4], "WITHSCORES");
    if (call->count > 4 && !scores)
        return SYNTAX;
    struct entry *entry;
    if (!find_sorted(call, &entry))
        return WRONG_TYPE;
    int64_t count = entry == NULL ? 0 : entry->field_count;
    from = from < -count ? 0 : from < 0 ? from + count : from;
    to = to < 0 ? to + count : to >= count ? count - 1 : to;
    uint32_t each = scores ? 2 : 1, found = from <= to ? (uint32_t)(to - from + 1) : 0;
    struct item *items = keyspace_items(call->keyspace, found * each);
    for (uint32_t i = 0; i < found; i++) {
        const struct field *field = &entry->fields[(uint32_t)from + i];
        items[i * each] = bulk_item(&field->name);
        if (scores)
            items[i * each + 1] = bulk_item(&field->value);
    }
    return (struct result){.kind = RESULT_ARRAY, .items = items, .count = found * each};
}

/* One end of a range of scores: `(` leaves the score itself out. */
struct bound {
    double score;
    bool is_open;
};

static bool read_bound(struct bytes text, struct bound *ret_bound)
{
    char copy[64], *end;
    if (text.len >= sizeof copy)
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    ret_bound->is_open = copy[0] == '(';
    ret_bound->score = strtod(copy + ret_bound->is_open, &end); /* no text at all is 0 */
    return end == copy + text.len && ret_bound->score == ret_bound->score;
}

static bool is_within(double score, const struct bound *least, const struct bound *most)
{
    return (least->is_open ? score > least->score : score >= least->score) &&
           (most->is_open ? score < most->score : score <= most->score);
}

static struct result zcount(struct call *call)
{
    struct bound least, most;
    int64_t found = 0;
    if (!read_bound(call->args[2], &least) || !read_bound(call->args[3], &most))
        return error_of("ERR min or max is not a float");
    struct entry *entry;
    if (!find_sorted(call, &entry))
        return WRONG_TYPE;
    for (uint32_t i = 0; entry != NULL && i < entry->field_count; i++)
        found += is_within(entry->fields[i].score, &least, &most);
    return integer_of(found);
}

static struct result zremrangebyscore(struct call *call)
{
    struct bound least, most;
    int64_t removed = 0;
    if (!read_bound(call->args[2], &least) || !read_bound(call->args[3], &most))
        return error_of("ERR min or max is not a float");
    struct entry *entry;
    if (!find_sorted(call, &entry))
        return WRONG_TYPE;
    for (uint32_t i = entry == NULL ? 0 : entry->field_count; i-- > 0;)
        if (is_within(entry->fields[i].score, &least, &most))
            removed += field_remove(entry, bytes_of(&entry->fields[i].name));
    return removed_from(call, entry, removed);
}

/* ---- the rest ---- */

static struct result rpush(struct call *call)
{
    struct entry *entry = entry_find(call->keyspace, call->args[1]);
    if (entry != NULL && entry->type != VALUE_LIST)
        return WRONG_TYPE;
    if (entry == NULL)
        entry = entry_make(call->keyspace, call->args[1], VALUE_LIST);
    entry->elements += call->count - 2;
    entry_touch(call->keyspace, entry);
    return integer_of(entry->elements);
}

static struct result time_now(struct call *call)
{
    struct item *items = keyspace_items(call->keyspace, 2);
    const long long parts[] = {call->keyspace->now_us / 1000000, call->keyspace->now_us % 1000000};
    for (unsigned i = 0; i < 2; i++) {
        char *text = call->keyspace->scratch + 32 * (size_t)i, *at = text + 31;
        unsigned long long left = (unsigned long long)parts[i];
        do {
            *--at = (char)('0' + left % 10);
            left /= 10;
        } while (left > 0);
        items[i] = (struct item){.kind = ITEM_BULK, .text = {at, (size_t)(text + 31 - at)}};
    }
    return (struct result){.kind = RESULT_ARRAY, .items = items, .count = 2};
}

static struct result publish(struct call *call)
{
    struct keyspace *keyspace = call->keyspace;
    keyspace->sent++;
    return integer_of(keyspace->publish == NULL
                          ? 0
                          : keyspace->publish(keyspace->owner, call->args[1], call->args[2]));
}

static struct result pubsub(struct call *call)
{
    struct keyspace *keyspace = call->keyspace;
    if (!is_word(call->args[1], "NUMSUB"))
        return error_of("ERR unknown subcommand");
    struct item *items = keyspace_items(keyspace, 2 * (call->count - 2));
    for (uint32_t i = 2; i < call->count; i++) {
        items[2 * (i - 2)] = (struct item){.kind = ITEM_BULK, .text = call->args[i]};
        items[2 * (i - 2) + 1] =
            (struct item){.kind = ITEM_INTEGER,
                          .integer = keyspace->subscribers == NULL
                                         ? 0
                                         : keyspace->subscribers(keyspace->owner, call->args[i])};
    }
    return (struct result){.kind = RESULT_ARRAY, .items = items, .count = 2 * (call->count - 2)};
}

static struct result info(struct call *call)
{
    struct keyspace *keyspace = call->keyspace;
    static const char zeros[] = "0000000000000000000000000000000000000000";
    if (!*keyspace->replid)
        return error_of("ERR the server's replication id is not known");
    int length = snprintf(keyspace->scratch, sizeof keyspace->scratch,
                          "connected_slaves:%u\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\n",
                          keyspace->replicas, keyspace->replid,
                          *keyspace->replid2 ? keyspace->replid2 : zeros);
    return (struct result){.kind = RESULT_BULK, .text = {keyspace->scratch, (size_t)length}};
}

static struct result flushall(struct call *call)
{
    keyspace_clear(call->keyspace);
    call->keyspace->sent++;
    return OK;
}

/* ---- the table ---- */

struct command {
    const char *name;
    struct result (*run)(struct call *call);
    /* as the server counts: with the name; negative: at least so many */
    int arity;
    bool writes, denied_on_oom; /* its flags */
};

static const struct command commands[] = {
    {"GET", get, 2, false, false},
    {"SET", set, -3, true, true},
    {"PTTL", pttl, 2, false, false},
    {"PEXPIRE", pexpire, -3, true, false},
    {"DEL", del, -2, true, false},
    {"DELIFEQ", delifeq, 3, true, false},
    {"TIME", time_now, 1, false, false},
    {"INFO", info, -1, false, false},
    {"PUBSUB", pubsub, -2, false, false},
    {"PUBLISH", publish, 3, false, false},
    {"HGETALL", hgetall, 2, false, false},
    {"HMGET", hmget, -3, false, false},
    {"HGET", hget, 3, false, false},
    {"HSET", hset, -4, true, true},
    {"HDEL", hdel, -3, true, false},
    {"HLEN", hlen, 2, false, false},
    {"HEXISTS", hexists, 3, false, false},
    {"EXISTS", exists, -2, false, false},
    {"TYPE", type, 2, false, false},
    {"MGET", mget, -2, false, false},
    {"INCR", incr, 2, true, true},
    {"STRLEN", string_length, 2, false, false},
    {"PERSIST", persist, 2, true, false},
    {"PEXPIREAT", pexpireat, -3, true, false},
    {"RPUSH", rpush, -3, true, true},
    {"FLUSHALL", flushall, -1, true, false},
    {"ZADD", zadd, -4, true, true},
    {"ZREM", zrem, -3, true, false},
    {"ZSCORE", zscore, 3, false, false},
    {"ZCARD", zcard, 2, false, false},
    {"ZRANGE", zrange, -4, false, false},
    {"ZCOUNT", zcount, 4, false, false},
    {"ZREMRANGEBYSCORE", zremrangebyscore, 4, true, false},
};

static const struct command *find_command(struct bytes name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (commands[i].name[0] == (name.at[0] & ~0x20) && is_word(name, commands[i].name))
            return &commands[i];
    return NULL;
}

/* Memory is looked at before the first write of a script alone: it must not be stopped in its
 * midst. */
static bool refuses(const struct keyspace *keyspace, const struct command *command)
{
    if (keyspace->refusal == REFUSES_OOM)
        return command->denied_on_oom && !(keyspace->in_script && keyspace->script_wrote);
    return keyspace->refusal == REFUSES_MISCONF && command->writes &&
           !(keyspace->in_script && keyspace->script_wrote);
}

static struct result refused(const struct keyspace *keyspace)
{
    return keyspace->refusal == REFUSES_OOM
               ? error_of("OOM command not allowed when used memory > 'maxmemory'.")
               : error_of("MISCONF Redis is configured to save RDB snapshots, but it's currently "
                          "unable to persist to "
                          "disk. Commands that may modify the data set are disabled, because this "
                          "instance is "
                          "configured to report errors during writes if RDB snapshotting fails "
                          "(stop-writes-on-bgsave-error option). Please check the Redis logs for "
                          "details about the RDB "
                          "error.");
}

bool keyspace_refuses(const struct keyspace *keyspace, struct bytes name)
{
    const struct command *command = find_command(name);
    return command == NULL || refuses(keyspace, command);
}

struct result keyspace_command(struct keyspace *keyspace, const struct bytes *args, uint32_t count)
{
    const struct command *command = args[0].len == 0 ? NULL : find_command(args[0]);
    if (command == NULL)
        return error_of(keyspace->in_script ? "ERR Unknown Redis command called from script"
                                            : "ERR unknown command");
    if (command->arity > 0 ? count != (uint32_t)command->arity
                           : count < (uint32_t)-command->arity) {
        static char text[80];
        snprintf(text, sizeof text, "ERR wrong number of arguments for '%s' command",
                 command->name);
        /* the server names it in small letters */
        for (char *at = strchr(text, '\''); *at != '\0'; at++)
            *at = (char)(*at >= 'A' && *at <= 'Z' ? *at + 'a' - 'A' : *at);
        return error_of(keyspace->in_script
                            ? "ERR Wrong number of args calling Redis command from script"
                            : text);
    }
    if (refuses(keyspace, command))
        return refused(keyspace);
    keyspace->script_wrote = keyspace->script_wrote || (keyspace->in_script && command->writes);
    struct call call = {keyspace, args, count};
    return command->run(&call);
}
