/* Effects of the core, and the guard's questions, as commands for the masters: the one place that
 * knows how keys and values are called there (D5.6). */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "agent/core/core_assert.h"
#include "agent/redis/asking.h"
#include "agent/redis/scripts.h"

/* How an operation is asked: by which script, and with which arguments for each item. */
struct asking {
    const char *mode; /* the first argument, where one script serves several operations */
    /* shared: of entries of readers and writers (R17); redisson: of locks of that format (R22).
     * SCRIPT_COUNT: they are never asked that */
    enum script_id script, shared, redisson;
    bool label, ttl, number;
    bool previous; /* then the token that is replaced */
    /* Its last keys where the group is guarded (D5.3). */
    bool vote, marker;
};

static const struct asking askings[OP_COUNT] = {
    [OP_ACQUIRE] = {NULL, SCRIPT_ACQUIRE, SCRIPT_ACQUIRE_RW, SCRIPT_ACQUIRE_REDISSON, .label = true,
                    .ttl = true, .number = true, .vote = true, .marker = true},
    [OP_HANDOVER] = {NULL, SCRIPT_ACQUIRE, SCRIPT_COUNT, SCRIPT_ACQUIRE_REDISSON, .label = true,
                     .ttl = true, .number = true, .previous = true, .vote = true, .marker = true},
    [OP_RAISE] = {NULL, SCRIPT_RAISE, SCRIPT_RAISE_RW, SCRIPT_RAISE_REDISSON, .number = true},
    [OP_RENEW] = {"renew", SCRIPT_EXTEND, SCRIPT_EXTEND_RW, SCRIPT_EXTEND_REDISSON, .ttl = true,
                  .number = true, .marker = true},
    [OP_REPAIR] = {"repair", SCRIPT_EXTEND, SCRIPT_EXTEND_RW, SCRIPT_EXTEND_REDISSON, .label = true,
                   .ttl = true, .number = true, .marker = true},
    [OP_ADOPT] = {"adopt", SCRIPT_EXTEND, SCRIPT_EXTEND_RW, SCRIPT_EXTEND_REDISSON, .ttl = true,
                  .number = true, .marker = true},
    [OP_RELEASE] = {NULL, SCRIPT_RELEASE, SCRIPT_RELEASE_RW, SCRIPT_RELEASE_REDISSON,
                    .number = true},
    [OP_READ] = {NULL, SCRIPT_READ, SCRIPT_READ_RW, SCRIPT_READ_REDISSON, .label = false},
    [OP_WITHDRAW] = {NULL, SCRIPT_WITHDRAW_FAIR, SCRIPT_WITHDRAW_RW, SCRIPT_COUNT, .label = false},
};

enum { AGENT_DIGITS = 8, OWNER_BYTES = TOKEN_RANDOM_CHARS + 1 + AGENT_DIGITS + 1 };

/* What the value of a hold begins with: `<random>:` at whichever agent it is,
 * `<random>:<agent>:` at this one (D3). */
static void owner(struct resp *resp, const struct token *token, uint32_t agent, bool any_agent,
                  struct text label)
{
    char text[OWNER_BYTES + 1];
    token_print_random(token, text);
    snprintf(text + TOKEN_RANDOM_CHARS, sizeof(text) - TOKEN_RANDOM_CHARS,
             ":%08x:", (unsigned)agent);
    resp_joined(resp, (struct text){text, any_agent ? TOKEN_RANDOM_CHARS + 1 : OWNER_BYTES},
                (struct text){"", 0}, label);
}

static const char *mode_letter(enum mode mode)
{
    return mode == MODE_READ ? "r" : "w";
}

/* The member that is a hold's entry (R17). */
static void add_entry(struct resp *resp, const struct send_item *item)
{
    char text[2 + OWNER_BYTES + 1];
    text[0] = *mode_letter(item->mode);
    text[1] = ':';
    token_print_random(&item->token, text + 2);
    snprintf(text + 2 + TOKEN_RANDOM_CHARS, sizeof(text) - 2 - TOKEN_RANDOM_CHARS,
             ":%08x:", (unsigned)item->agent);
    resp_joined(resp, (struct text){text, 2 + OWNER_BYTES}, (struct text){"", 0}, item->label);
}

/* A release looks at the number only where it is to be compared (C4). */
static bool uses_fence(enum op op, const struct send_item *item)
{
    return item->fencing && op != OP_READ && op != OP_WITHDRAW &&
           (op != OP_RELEASE || item->numbered);
}

/* Order fair: attempts show the agent's ticket, releases take off what is left of it, or put it
 * back (R9). */
static bool shows_ticket(enum op op, const struct send_item *item)
{
    return item->fair && (op == OP_ACQUIRE || op == OP_HANDOVER);
}

static bool uses_tickets(enum op op, const struct send_item *item)
{
    return shows_ticket(op, item) || (item->fair && (op == OP_RELEASE || op == OP_WITHDRAW));
}

static enum script_id fair_script(enum op op)
{
    return op == OP_RELEASE    ? SCRIPT_RELEASE_FAIR
           : op == OP_WITHDRAW ? SCRIPT_WITHDRAW_FAIR
                               : SCRIPT_ACQUIRE_FAIR;
}

/* R20: an attempt at a slot that is refused tells of the others; releases of all slots go to the
 * channel of their key; who looks sees all. To everything else a slot is an ordinary lock. */
static enum script_id slots_script(enum op op)
{
    return op == OP_RELEASE ? SCRIPT_RELEASE_SLOTS
           : op == OP_READ  ? SCRIPT_LOOK_SLOTS
                            : SCRIPT_ACQUIRE_SLOTS;
}

static bool uses_slots(enum op op, const struct send_item *item)
{
    return item->permits > 1 &&
           (op == OP_ACQUIRE || op == OP_HANDOVER || op == OP_RELEASE || op == OP_READ);
}

static enum script_id script_of(enum op op, const struct send_item *item)
{
    bool redisson = item->format == FORMAT_REDISSON;
    CORE_ASSERT(!uses_slots(op, item) || !item->fair);
    CORE_ASSERT(!redisson || !(item->shared || item->fair || item->permits > 1));
    return item->shared             ? askings[op].shared
           : redisson               ? askings[op].redisson
           : uses_tickets(op, item) ? fair_script(op)
           : uses_slots(op, item)   ? slots_script(op)
                                    : askings[op].script;
}

static void add_agent(struct resp *resp, uint64_t agent)
{
    char name[17];
    snprintf(name, sizeof(name), "%016llx", (unsigned long long)agent);
    resp_bytes(resp, name, agent != 0 ? 16 : 0);
}

/* `<kind><prefix><key>`, for a slot `<kind>lockagent:slot:<slot>:<prefix><key>` (D5.6). */
static void add_key_at(struct resp *resp, const struct config *config, const char *kind,
                       const struct send_item *item, uint8_t permit)
{
    const char *prefix = config->policies[item->policy].prefix;
    char begin[48];
    CORE_ASSERT(permit <= LIMIT_PERMITS);
    int len = permit == 0
                  ? snprintf(begin, sizeof(begin), "%s", kind)
                  : snprintf(begin, sizeof(begin), "%slockagent:slot:%d:", kind, permit - 1);
    resp_joined(resp, (struct text){begin, (size_t)len}, (struct text){prefix, strlen(prefix)},
                item->key);
}

static void add_key(struct resp *resp, const struct config *config, const char *kind,
                    const struct send_item *item)
{
    add_key_at(resp, config, kind, item, item->token.permit);
}

bool asking_adds_braces(const char *prefix, struct text key)
{
    return strchr(prefix, '{') == NULL && memchr(key.at, '{', key.len) == NULL;
}

/* The number of RFencedLock (R22). */
static void add_token_key(struct resp *resp, const struct config *config,
                          const struct send_item *item)
{
    const char *prefix = config->policies[item->policy].prefix;
    char begin[160], end[LIMIT_KEY_BYTES + 1];
    bool braces = asking_adds_braces(prefix, item->key);
    int len = snprintf(begin, sizeof(begin), "redisson_lock_token:%s%s", braces ? "{" : "", prefix);
    CORE_ASSERT(len > 0 && (size_t)len < sizeof(begin));
    memcpy(end, item->key.at, item->key.len);
    end[item->key.len] = '}';
    resp_joined(resp, (struct text){begin, (size_t)len}, (struct text){"", 0},
                (struct text){end, item->key.len + braces});
}

static void add_fence_key(struct resp *resp, const struct config *config,
                          const struct send_item *item)
{
    if (config->policies[item->policy].core.fencing == FENCING_REDISSON)
        add_token_key(resp, config, item);
    else
        add_key(resp, config, "lockagent:fence:", item);
}

/* How long a number is kept: one of RFencedLock's for ever (R22). */
static void add_retention(struct resp *resp, const struct core_policy *policy, bool fencing)
{
    CORE_ASSERT(!fencing || policy->fence_retention_ms > 0);
    if (fencing && policy->fencing == FENCING_REDISSON)
        resp_text(resp, "-1");
    else
        resp_number(resp, fencing ? policy->fence_retention_ms : 0);
}

/* R20: those of all slots, where all are looked at. */
static void add_lock_keys(struct resp *resp, const struct config *config, enum op op,
                          const struct send_item *item)
{
    bool looks_at_all = op == OP_READ && uses_slots(op, item);
    if (!looks_at_all)
        add_key(resp, config, "", item);
    for (uint8_t permit = 1; looks_at_all && permit <= item->permits; permit++)
        add_key_at(resp, config, "", item, permit);
}

/* Those of a kind stand together, so that a script reads them in one call. */
static void add_keys(struct resp *resp, const struct config *config, uint8_t group, enum op op,
                     const struct send_item *items, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        add_lock_keys(resp, config, op, &items[i]);
    for (unsigned i = 0; i < count; i++)
        if (uses_fence(op, &items[i]))
            add_fence_key(resp, config, &items[i]);
    for (unsigned i = 0; i < count; i++)
        if (uses_tickets(op, &items[i]))
            add_key(resp, config, "lockagent:ticket:", &items[i]);
    if (askings[op].vote && config->groups[group].guard)
        resp_text(resp, VOTE_KEY);
    if (askings[op].marker && config->groups[group].guard)
        resp_text(resp, MARKER_KEY);
}

/* As the scripts expect them: value, ttl, retention, number, ticket or permits, previous; RAISE:
 * value, number, retention; RELEASE: value, number (empty unless it is to be compared), ticket.
 * Where readers share the key the value is the entry, and a RELEASE says behind it whether it was
 * asked for, and behind the ticket that one's mode. */
static void add_arguments(struct resp *resp, const struct config_policy *policy, enum op op,
                          const struct send_item *item)
{
    const struct asking *asking = &askings[op];
    if (op == OP_READ || op == OP_WITHDRAW)
        return;
    if (item->shared)
        add_entry(resp, item);
    else
        owner(resp, &item->token, item->agent, op == OP_RELEASE && item->asked,
              asking->label ? item->label : (struct text){"", 0});
    if (op == OP_RAISE) {
        resp_number(resp, item->token.fence);
        add_retention(resp, &policy->core, item->fencing);
        return;
    }
    if (asking->ttl)
        resp_number(resp, item->ttl_ms);
    if (op != OP_RELEASE)
        add_retention(resp, &policy->core, item->fencing);
    if (op == OP_RELEASE && item->shared)
        resp_number(resp, item->asked);
    if (op == OP_RELEASE && !uses_fence(op, item))
        resp_text(resp, "");
    else if (asking->number)
        resp_number(resp, item->token.fence);
    if (uses_tickets(op, item)) {
        add_agent(resp, item->ticket.agent);
        resp_number(resp, item->ticket.number);
        resp_number(resp, item->ticket.ttl_ms);
    }
    if (shows_ticket(op, item))
        resp_number(resp, item->ticket.fresh);
    if (uses_slots(op, item) && op != OP_RELEASE)
        resp_number(resp, item->permits);
    else if (item->shared && op == OP_RELEASE)
        resp_text(resp, mode_letter(item->ticket.mode));
    if (asking->previous)
        owner(resp, &item->previous, item->agent, item->asked, (struct text){"", 0});
}

/* The script names its keys by how many they are, and RESP counts all arguments: both numbers stand
 * in front, and are known when everything behind them has been written. */
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
    if (asking->mode != NULL)
        resp_text(resp, asking->mode);
    else if (op == OP_WITHDRAW)
        add_agent(resp, items[0].ticket.agent);
    for (unsigned i = 0; i < count; i++)
        add_arguments(resp, &config->policies[items[i].policy], op, &items[i]);
    resp_number_first(resp, keys);
    resp_text_first(resp, redis_scripts[script_of(op, &items[0])].sha);
    resp_text_first(resp, "EVALSHA");
    return resp_end(resp);
}

/* ---- the marker ---- */

enum { EPOCH_BYTES = 8 };

struct text asking_marker(struct resp *resp, const struct guard_ask *ask, const char *run_id,
                          bool whole)
{
    unsigned char random[EPOCH_BYTES];
    char epoch[2 * EPOCH_BYTES + 1];
    CORE_ASSERT(getrandom(random, sizeof(random), 0) == sizeof(random));
    for (unsigned i = 0; i < EPOCH_BYTES; i++)
        snprintf(epoch + 2 * (size_t)i, 3, "%02x", random[i]);
    resp_begin(resp);
    resp_text(resp, whole ? "EVAL" : "EVALSHA");
    resp_text(resp, whole ? redis_scripts[SCRIPT_MARKER].text : redis_scripts[SCRIPT_MARKER].sha);
    resp_number(resp, 2);
    resp_text(resp, MARKER_KEY);
    resp_text(resp, VOTE_KEY);
    resp_text(resp, run_id);
    resp_text(resp, epoch);
    resp_number(resp, ask->max_ttl_ms);
    resp_text(resp, guard_question_word(ask->question));
    resp_text(resp, ask->epoch);
    resp_text(resp, ask->birth);
    return resp_end(resp);
}
