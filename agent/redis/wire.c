/* Effects of the core -> bytes for the masters: the one place that knows how keys and values are called there (D5.6).
 */
#include <stdio.h>
#include <string.h>

#include "agent/redis/room.h"

const struct script redis_scripts[SCRIPT_COUNT] = {
#include "redis_scripts.h"
};

#define FENCE_PREFIX "lockagent:fence:"
#define TICKET_PREFIX "lockagent:ticket:"

/* How an operation is asked: by which script, and with which arguments for each item. */
struct asking {
    const char *mode; /* first argument, where one script serves several operations; RELEASE: the order */
    enum script_id script;
    bool label, ttl, number;
    bool previous; /* then the token that is replaced */
    bool marker;   /* the marker is its last key where the group is guarded (D5.3) */
};

static const struct asking askings[OP_COUNT] = {
    [OP_ACQUIRE] = {NULL, SCRIPT_ACQUIRE, .label = true, .ttl = true, .number = true, .marker = true},
    [OP_HANDOVER] = {NULL, SCRIPT_ACQUIRE, .label = true, .ttl = true, .number = true, .previous = true,
                     .marker = true},
    [OP_RAISE] = {NULL, SCRIPT_RAISE, .number = true},
    [OP_RENEW] = {"renew", SCRIPT_EXTEND, .ttl = true, .number = true, .marker = true},
    [OP_REPAIR] = {"repair", SCRIPT_EXTEND, .label = true, .ttl = true, .number = true, .marker = true},
    [OP_ADOPT] = {"adopt", SCRIPT_EXTEND, .ttl = true, .number = true, .marker = true},
    [OP_RELEASE] = {NULL, SCRIPT_RELEASE, .label = false},
    [OP_READ] = {NULL, SCRIPT_READ, .label = false},
    [OP_WITHDRAW] = {NULL, SCRIPT_WITHDRAW_FAIR, .label = false},
};

static void add(struct wire *wire, const void *bytes, size_t len)
{
    REDIS_ASSERT(len <= wire->size - wire->len);
    if (len > 0) {
        memcpy(wire->bytes + wire->len, bytes, len);
    }
    wire->len += len;
}

static size_t digits_of(uint64_t number, char digits[FENCE_DIGITS_MAX])
{
    char *at = digits + FENCE_DIGITS_MAX;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    size_t len = (size_t)(digits + FENCE_DIGITS_MAX - at);
    memmove(digits, at, len);
    return len;
}

static void header(struct wire *wire, char kind, size_t number)
{
    char digits[FENCE_DIGITS_MAX];
    size_t len = digits_of(number, digits);
    add(wire, &kind, 1);
    add(wire, digits, len);
    add(wire, "\r\n", 2);
}

void wire_begin(struct wire *wire, unsigned args)
{
    wire->len = 0;
    header(wire, '*', args);
}

void wire_bytes(struct wire *wire, const char *bytes, size_t len)
{
    header(wire, '$', len);
    add(wire, bytes, len);
    add(wire, "\r\n", 2);
}

void wire_text(struct wire *wire, const char *text)
{
    wire_bytes(wire, text, strlen(text));
}

void wire_number(struct wire *wire, uint64_t number)
{
    char digits[FENCE_DIGITS_MAX];
    wire_bytes(wire, digits, digits_of(number, digits));
}

/* One bulk string of three parts. */
static void joined(struct wire *wire, struct text a, struct text b, struct text c)
{
    header(wire, '$', a.len + b.len + c.len);
    add(wire, a.at, a.len);
    add(wire, b.at, b.len);
    add(wire, c.at, c.len);
    add(wire, "\r\n", 2);
}

static bool uses_fence(enum op op, const struct send_item *item)
{
    return item->fencing && op != OP_READ && op != OP_WITHDRAW;
}

/* Order fair: attempts show the agent's ticket, releases take off what is left of it, or put it back (R9). */
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
    return op == OP_RELEASE ? SCRIPT_RELEASE_FAIR : op == OP_WITHDRAW ? SCRIPT_WITHDRAW_FAIR : SCRIPT_ACQUIRE_FAIR;
}

static void add_agent(struct wire *wire, uint64_t agent)
{
    char name[17];
    snprintf(name, sizeof(name), "%016llx", (unsigned long long)agent);
    wire_bytes(wire, name, agent != 0 ? 16 : 0);
}

static void add_keys(struct wire *wire, const struct config_policy *policy, enum op op, const struct send_item *item)
{
    static const struct text none = {"", 0}, fence = {FENCE_PREFIX, sizeof(FENCE_PREFIX) - 1},
                             ticket = {TICKET_PREFIX, sizeof(TICKET_PREFIX) - 1};
    struct text prefix = {policy->prefix, strlen(policy->prefix)};
    joined(wire, none, prefix, item->key);
    if (uses_fence(op, item)) {
        joined(wire, fence, prefix, item->key);
    }
    if (uses_tickets(op, item)) {
        joined(wire, ticket, prefix, item->key);
    }
}

/* As the scripts expect them: value, ttl, retention, number, previous, ticket; RAISE: value, number, retention. */
static void add_arguments(struct wire *wire, const struct config_policy *policy, enum op op,
                          const struct send_item *item)
{
    const struct asking *asking = &askings[op];
    if (op == OP_READ || op == OP_WITHDRAW) {
        return;
    }
    char random[TOKEN_RANDOM_CHARS];
    token_print_random(&item->token, random);
    joined(wire, (struct text){random, sizeof(random)}, (struct text){":", 1},
           asking->label ? item->label : (struct text){"", 0});
    uint64_t retention_ms = item->fencing ? policy->fence_retention_ms : 0;
    REDIS_ASSERT(!item->fencing || retention_ms > 0);
    if (op == OP_RAISE) {
        wire_number(wire, item->token.fence);
        wire_number(wire, retention_ms);
        return;
    }
    if (asking->ttl) {
        wire_number(wire, item->ttl_ms);
    }
    wire_number(wire, retention_ms);
    if (asking->number) {
        wire_number(wire, item->token.fence);
    }
    if (asking->previous) {
        token_print_random(&item->previous, random);
        joined(wire, (struct text){random, sizeof(random)}, (struct text){":", 1}, (struct text){"", 0});
    }
    if (shows_ticket(op, item) && !asking->previous) {
        wire_text(wire, "");
    }
    if (uses_tickets(op, item)) {
        add_agent(wire, item->ticket.agent);
        wire_number(wire, item->ticket.number);
        wire_number(wire, item->ticket.ttl_ms);
    }
    if (shows_ticket(op, item)) {
        wire_number(wire, item->ticket.fresh);
    }
}

static unsigned arguments_of(const struct asking *asking, enum op op, const struct send_item *item)
{
    if (op == OP_READ || op == OP_WITHDRAW) {
        return 0;
    }
    unsigned ticket = shows_ticket(op, item) ? 5u - asking->previous : uses_tickets(op, item) ? 3u : 0u;
    return 2u + asking->ttl + asking->number + asking->previous + ticket;
}

void wire_op(struct wire *wire, const struct config *config, uint8_t group, enum op op, const struct send_item *items,
             unsigned count)
{
    const struct asking *asking = &askings[op];
    bool marker = asking->marker && config->groups[group].guard;
    unsigned keys = marker;
    for (unsigned i = 0; i < count; i++) {
        REDIS_ASSERT(items[i].policy < config->policy_count && items[i].key.len <= LIMIT_KEY_BYTES);
        REDIS_ASSERT(!asking->label || items[i].label.len <= LIMIT_LABEL_BYTES);
        REDIS_ASSERT(op != OP_RELEASE || uses_tickets(op, &items[i]) == uses_tickets(op, &items[0]));
        keys += 1u + uses_fence(op, &items[i]) + uses_tickets(op, &items[i]);
    }
    bool has_mode = asking->mode || op == OP_RELEASE, names_agent = op == OP_WITHDRAW;
    unsigned own = 0u + has_mode + names_agent + count * arguments_of(asking, op, &items[0]);
    wire_begin(wire, 3u + keys + own);
    wire_text(wire, "EVALSHA");
    wire_text(wire, redis_scripts[uses_tickets(op, &items[0]) ? fair_script(op) : asking->script].sha);
    wire_number(wire, keys);
    for (unsigned i = 0; i < count; i++) {
        add_keys(wire, &config->policies[items[i].policy], op, &items[i]);
    }
    if (marker) {
        wire_text(wire, MARKER_KEY);
    }
    if (has_mode) {
        wire_text(wire, asking->mode ? asking->mode : items[0].fair ? "fair" : "any");
    }
    if (names_agent) {
        add_agent(wire, items[0].ticket.agent);
    }
    for (unsigned i = 0; i < count; i++) {
        add_arguments(wire, &config->policies[items[i].policy], op, &items[i]);
    }
}
