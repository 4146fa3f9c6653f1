/* Turns replies of the masters into votes (D5.5), and reads the entries of scripts and the messages
 * of channels. */
#include "agent/redis/replies.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/utf8.h"
#include "agent/core/core_assert.h"
#include "agent/redis/outcomes.h"

/* ---- outcomes ---- */

/* The names of states, outcomes and faults, and the meaning of a master's errors (D5.5). */

static const char *const state_names[] = {
#define X(name, text) text,
    REDIS_STATES(X)
#undef X
};
static const char *const outcome_names[] = {
#define X(name, text) text,
    REDIS_OUTCOMES(X)
#undef X
};

static const char *const fault_names[] = {
#define X(name, text) text,
    REDIS_FAULTS(X)
#undef X
};

static const char *const tls_fault_names[] = {
#define X(name, text) text,
    TLS_FAULTS(X)
#undef X
};

static const char *const optional_names[] = {"",
#define X(name, text, cost) text,
                                             REDIS_OPTIONAL(X)
#undef X
};

static const char *const optional_costs[] = {"",
#define X(name, text, cost) cost,
                                             REDIS_OPTIONAL(X)
#undef X
};

const char *redis_state_name(enum redis_state state)
{
    CORE_ASSERT((unsigned)state < REDIS_STATE_COUNT);
    return state_names[state];
}

const char *redis_outcome_name(enum redis_outcome outcome)
{
    CORE_ASSERT((unsigned)outcome < REDIS_OUTCOME_COUNT);
    return outcome_names[outcome];
}

const char *redis_optional_name(enum redis_optional optional)
{
    CORE_ASSERT((unsigned)optional < REDIS_OPTIONAL_COUNT);
    return optional_names[optional];
}

const char *redis_optional_cost(enum redis_optional optional)
{
    CORE_ASSERT((unsigned)optional < REDIS_OPTIONAL_COUNT);
    return optional_costs[optional];
}

const char *redis_fault_name(enum redis_fault fault)
{
    CORE_ASSERT((unsigned)fault < REDIS_FAULT_COUNT);
    return fault_names[fault];
}

const char *tls_fault_name(enum tls_fault fault)
{
    CORE_ASSERT((unsigned)fault < TLS_FAULT_COUNT);
    return tls_fault_names[fault];
}

/* The first word of each class in a reply, and its text for people. A class without `begins` is
 * known by a part of its text. */
struct error_class {
    enum redis_outcome outcome;
    const char *begins, *contains, *says;
};

static const struct error_class classes[] = {
    {REDIS_OUTCOME_OOM, "OOM ", NULL, "out of memory: refuses to set keys (maxmemory)"},
    {REDIS_OUTCOME_READONLY, "READONLY ", NULL, "a read-only replica, not a master"},
    {REDIS_OUTCOME_MISCONF, "MISCONF ", NULL,
     "refuses writes because its snapshots fail (stop-writes-on-bgsave-error)"},
    {REDIS_OUTCOME_NOREPLICAS, "NOREPLICAS ", NULL,
     "refuses writes because it lacks replicas (min-replicas-to-write)"},
    {REDIS_OUTCOME_LOADING, "LOADING ", NULL, "loading its data set"},
    {REDIS_OUTCOME_BUSY, "BUSY ", NULL, "busy running a script"},
    {REDIS_OUTCOME_MASTERDOWN, "MASTERDOWN ", NULL, "a replica whose link to its master is down"},
    {REDIS_OUTCOME_NOAUTH, "NOAUTH ", NULL, "asks for a password"},
    {REDIS_OUTCOME_WRONGPASS, "WRONGPASS ", NULL, "refuses this user name and password"},
    {REDIS_OUTCOME_NOPERM, "NOPERM ", NULL, "the ACL does not allow what the agent needs"},
    {REDIS_OUTCOME_NOPERM, NULL, "The user executing the script can't",
     "the ACL does not allow what the scripts need"},
    {REDIS_OUTCOME_NOPERM, NULL, "ACL failure in script: ", /* Redis 7.2, Valkey */
     "the ACL does not allow what the scripts need"},
    {REDIS_OUTCOME_NOCOMMAND, "ERR unknown command", NULL, "the server has no such command"},
    {REDIS_OUTCOME_NOCOMMAND, "ERR unknown subcommand", NULL, "the server has no such command"},
    /* A part of the script may have run. The text is that of Redis 7.0, or without "Redis". */
    {REDIS_OUTCOME_OTHER, NULL, "ommand called from script",
     "a script needs a command that the server does not have"},
    {REDIS_OUTCOME_MAXCLIENTS, NULL, "max number of clients",
     "has no room for another client (maxclients)"},
    {REDIS_OUTCOME_WRONGTYPE, "WRONGTYPE ", NULL, "a key of another type has a lock's name"},
    {REDIS_OUTCOME_NOSCRIPT, "NOSCRIPT ", NULL, "its script cache was flushed"},
};
enum { CLASSES = sizeof(classes) / sizeof(classes[0]) };

/* Skips a mark before an error of a script: `-`, or `@user_script: 12: `. */
static const char *skip_mark(const char *text)
{
    if (strncmp(text, "@user_script", 12) == 0) {
        const char *colon = strchr(text, ':');
        const char *second = colon != NULL ? strchr(colon + 1, ':') : NULL;
        if (second != NULL && second[1] == ' ')
            text = second + 2;
    }
    return *text == '-' ? text + 1 : text;
}

/* Returns the class of an error text, or NULL. */
static const struct error_class *class_of(const char *text)
{
    text = skip_mark(text);
    for (unsigned i = 0; i < CLASSES; i++) {
        const struct error_class *class = &classes[i];
        if (class->begins != NULL ? strncmp(text, class->begins, strlen(class->begins)) == 0
                                  : strstr(text, class->contains) != NULL)
            return class;
    }
    return NULL;
}

enum redis_outcome outcome_of_error(const char *text)
{
    const struct error_class *class = class_of(text);
    return class == NULL ? REDIS_OUTCOME_OTHER : class->outcome;
}

/* Copies an error text without the part that quotes arguments. Redis quotes arguments of commands
 * that it does not know, and ours hold tokens and passwords. */
static void copy_harmless(const char *text, char *into, size_t size)
{
    const char *end = strstr(text, ", with args");
    size_t len = end != NULL ? (size_t)(end - text) : strlen(text);
    if (len > 100)
        len = 100;
    int at = snprintf(into, size, "unexpected answer: ");
    for (size_t i = 0; i < len && (size_t)at + 1 < size; i++)
        into[at++] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
    into[at] = '\0';
}

void outcome_describe(enum redis_outcome outcome, const char *text, char *into, size_t size)
{
    const struct error_class *class = text == NULL ? NULL : class_of(text);
    for (unsigned i = 0; class == NULL && outcome != REDIS_OUTCOME_OTHER && i < CLASSES; i++)
        class = classes[i].outcome == outcome ? &classes[i] : NULL;
    if (class != NULL) {
        snprintf(into, size, "%s: %s", redis_outcome_name(outcome), class->says);
        return;
    }
    if (text != NULL)
        copy_harmless(text, into, size);
    else
        snprintf(into, size, "%s", redis_outcome_name(outcome));
}

/* ---- fields of INFO ---- */

void info_field(const char *info, const char *name, char *into, size_t size)
{
    size_t len = strlen(name);
    for (const char *line = info; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            const char *value = line + len + 1;
            snprintf(into, size, "%.*s", (int)strcspn(value, "\r\n"), value);
            return;
        }
    }
}

/* ---- votes ---- */

enum vote vote_of_outcome(enum redis_outcome outcome)
{
    switch (outcome) {
    case REDIS_OUTCOME_OK:
        return VOTE_YES;
    case REDIS_OUTCOME_WRONGTYPE:
        return VOTE_FOREIGN;
    case REDIS_OUTCOME_NOSCRIPT:
        return VOTE_NOT_RUN;
    case REDIS_OUTCOME_NOT_SENT:
        return VOTE_NOT_SENT;
    case REDIS_OUTCOME_OTHER:
    case REDIS_OUTCOME_LOST:
        return VOTE_UNKNOWN;
    default:
        return VOTE_REFUSED;
    }
}

bool op_is_gathered(enum op op)
{
    return op == OP_ACQUIRE || op == OP_RENEW || op == OP_RESUME || op == OP_REPAIR ||
           op == OP_RELEASE;
}

/* Returns true if the reply is a list of entries. An acquire of one lock has a reply without a
 * list. */
static bool answers_list(enum op op, unsigned count)
{
    return op == OP_ADOPT || (op_is_gathered(op) && (op != OP_ACQUIRE || count > 1));
}

static const redisReply *element(const redisReply *list, size_t i, int type)
{
    return i < list->elements && list->element[i]->type == type ? list->element[i] : NULL;
}

/* Returns true if the bytes are a valid label. Any client may have written the bytes after the
 * colon of a lock's value. They are passed on to callers only if a caller could have given them as
 * a label. */
static bool is_label(const char *bytes, size_t len)
{
    if (len > LIMIT_LABEL_BYTES)
        return false;
    for (size_t at = 0, size; at < len; at += size) {
        uint32_t code;
        size = utf8_decode(bytes + at, len - at, &code);
        if (size == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0))
            return false;
    }
    return true;
}

/* Limits a time in ms that a script reports. A stranger's key may live very long, and a broken
 * master may report anything. A time that is too long to be added to another one counts as
 * forever. */
static int64_t bounded_ms(int64_t ms)
{
    return ms > REPLY_MS_MAX ? REPLY_MS_MAX : ms;
}

/* Reads digits of a base up to the first other byte. A number that does not fit becomes the largest
 * that does. */
static const char *read_digits(const char *text, unsigned base, uint64_t *ret_number)
{
    static const char digits[] = "0123456789abcdef";
    const char *found;
    uint64_t number = 0;
    for (; *text && (found = memchr(digits, *text, base)) != NULL; text++) {
        uint64_t digit = (uint64_t)(found - digits);
        number = number > (UINT64_MAX - digit) / base ? UINT64_MAX : number * base + digit;
    }
    *ret_number = number;
    return text;
}

/* Reads the fencing number of a grant. A number of many digits comes as text, so that a master need
 * not turn it into a double. Returns false if it is not a number. */
static bool read_fence(const redisReply *reply, uint64_t *ret_fence)
{
    if (reply->type == REDIS_REPLY_INTEGER) {
        *ret_fence = (uint64_t)reply->integer;
        return reply->integer >= 0;
    }
    return reply->type == REDIS_REPLY_STRING && reply->len > 0 &&
           *read_digits(reply->str, 10, ret_fence) == '\0' && strlen(reply->str) == reply->len &&
           *ret_fence <= INT64_MAX;
}

/* The columns of an entry that is a list. An entry may end early. MS: the time that is left.
 * NUMBER: the same column in `repaired`, `misnumbered`, `adopted` and `handed`. SLOTS: the same
 * column as TICKET, of a semaphore. */
enum column { WORD, MS, NUMBER = MS, LABEL, TICKET, SLOTS = TICKET, MODE, READERS, AGENTS, NAME };
/* The positions in a HANDED entry. */
enum { HANDED_AGENTS = 2, HANDED_MS, HANDED_DELETED };

/* Returns how many agents wait, at most AGENTS_MAX; 0 if the master does not report it. */
static uint32_t read_agents(const redisReply *list, size_t i)
{
    const redisReply *agents = element(list, i, REDIS_REPLY_INTEGER);
    int64_t waiting = agents != NULL ? agents->integer : 0;
    return waiting > AGENTS_MAX ? AGENTS_MAX : waiting > 0 ? (uint32_t)waiting : 0;
}

/* Reads ['handed', number, agents, ms left of a guard, 1 if the token was there]. */
static bool read_handed(const redisReply *list, struct event_reply *reply)
{
    reply->vote = VOTE_YES;
    reply->agents = read_agents(list, HANDED_AGENTS);
    const redisReply *left = element(list, HANDED_MS, REDIS_REPLY_INTEGER);
    reply->occupant.left_ms = left != NULL && left->integer > 0 ? bounded_ms(left->integer) : -1;
    const redisReply *deleted = element(list, HANDED_DELETED, REDIS_REPLY_INTEGER);
    reply->is_deleted = deleted != NULL && deleted->integer == 1;
    return list->elements > NUMBER && read_fence(list->element[NUMBER], &reply->fence);
}

/* Reads one character for each slot, '1' if it is taken (R20). */
static slot_set read_slots(const redisReply *list)
{
    const redisReply *text = element(list, SLOTS, REDIS_REPLY_STRING);
    slot_set taken = 0;
    for (size_t i = 0; text != NULL && i < text->len && i < LIMIT_PERMITS; i++)
        taken |= (slot_set)(text->str[i] == '1') << i;
    return taken;
}

/* Reads '<agent>:<number>' of the value there. Anything else is not a name, because any client may
 * have written the value. */
static void read_agent_and_number(const redisReply *list, struct occupant *occupant)
{
    const redisReply *name = element(list, NAME, REDIS_REPLY_STRING);
    uint64_t agent, fence;
    if (name == NULL || strlen(name->str) != name->len)
        return;
    const char *end = read_digits(name->str, 16, &agent);
    if (end != name->str + AGENT_DIGITS || *end != ':')
        return;
    const char *number = end + 1;
    end = read_digits(number, 10, &fence);
    if (end == number || *end != '\0' || fence > LIMIT_FENCE)
        return;
    occupant->agent = (uint32_t)agent;
    occupant->fence = fence;
}

/* Reads the label. If readers share the key (R17), reads mode and readers; of format redisson, how
 * many wait (R22). Returns false if there is no label. */
static bool read_holders(const redisReply *list, struct event_reply *reply)
{
    const redisReply *label = element(list, LABEL, REDIS_REPLY_STRING),
                     *mode = element(list, MODE, REDIS_REPLY_STRING),
                     *readers = element(list, READERS, REDIS_REPLY_INTEGER);
    if (label == NULL)
        return false;
    struct occupant *occupant = &reply->occupant;
    occupant->label = (struct text){
        label->str, is_label(label->str, (size_t)label->len) ? (size_t)label->len : 0};
    occupant->mode = mode != NULL && strcmp(mode->str, "r") == 0 ? MODE_READ : MODE_WRITE;
    reply->agents = read_agents(list, AGENTS);
    if (occupant->mode == MODE_READ && readers != NULL && readers->integer > 0)
        occupant->readers =
            readers->integer > READERS_MAX ? READERS_MAX : (uint32_t)readers->integer;
    return true;
}

/* Reads the refusal of an operation that creates a key or raises a number. */
static bool read_refusal(enum op op, const char *word, const redisReply *list,
                         struct event_reply *reply)
{
    bool is_spoiled = strcmp(word, "spoiled") == 0 && (op_creates(op) || op == OP_RAISE),
         is_late = strcmp(word, "late") == 0 && op_creates(op);
    if (is_spoiled) {
        const redisReply *which = element(list, LABEL, REDIS_REPLY_STRING);
        reply->tickets = which != NULL && strcmp(which->str, "tickets") == 0;
    }
    if (is_spoiled || is_late)
        reply->vote = is_late ? VOTE_LATE : VOTE_SPOILED;
    return is_spoiled || is_late;
}

/* Reads the label of the key's holder, and the elements after it. Returns false if the label is not
 * a possible one. */
static bool read_occupant(enum op op, const redisReply *list, struct event_reply *reply)
{
    if (!read_holders(list, reply))
        return false;
    const redisReply *ticket = element(list, TICKET, REDIS_REPLY_INTEGER);
    bool has_ticket = reply->vote == VOTE_TAKEN && ticket != NULL && ticket->integer > 0;
    reply->ticket = has_ticket ? (uint64_t)ticket->integer : 0;
    reply->occupant.taken = read_slots(list);
    if (op == OP_READ)
        read_agent_and_number(list, &reply->occupant);
    return true;
}

/* Reads ['handed', ...], ['guarded', ms left], ['held', pttl, label] and the number of a ticket or
 * the slots, ['left', 0, ''] and the number of a ticket, ['moved', pttl, label], ['yes', pttl,
 * label] and perhaps the slots, ['own', pttl, label], ['foreign', pttl] and perhaps an empty label
 * and the slots, ['spoiled', pttl] and perhaps 'tickets', ['late', 0], ['unlocked', 0],
 * ['repaired', number], ['misnumbered', number], ['adopted', number, label] and perhaps the
 * mode. */
static bool read_list(enum op op, const redisReply *list, struct event_reply *reply)
{
    const redisReply *word = element(list, WORD, REDIS_REPLY_STRING),
                     *number = element(list, MS, REDIS_REPLY_INTEGER);
    if (op == OP_HANDOVER && word != NULL && strcmp(word->str, "handed") == 0)
        return read_handed(list, reply);
    if (word == NULL || number == NULL || number->integer < -1)
        return false;
    if (strcmp(word->str, "foreign") == 0) {
        reply->vote = VOTE_FOREIGN;
        reply->occupant.left_ms = bounded_ms(number->integer);
        reply->occupant.taken = read_slots(list);
        return true;
    }
    if (read_refusal(op, word->str, list, reply))
        return true;
    bool may_be_guarded = op == OP_ACQUIRE || op == OP_HANDOVER || op == OP_RESUME ||
                          op == OP_ADOPT || op == OP_RELEASE;
    if (may_be_guarded && strcmp(word->str, "guarded") == 0) {
        reply->vote = VOTE_GUARDED;
        reply->occupant.left_ms = bounded_ms(number->integer);
        return number->integer >= -1;
    }
    bool moved = (op == OP_RENEW || op == OP_RESUME || op == OP_REPAIR || op == OP_RAISE ||
                  op == OP_RELEASE) &&
                 strcmp(word->str, "moved") == 0;
    bool left = op == OP_HANDOVER && strcmp(word->str, "left") == 0,
         held = left || strcmp(word->str, "held") == 0;
    bool own = op == OP_READ && strcmp(word->str, "own") == 0;
    if (held || moved || own || (op == OP_READ && strcmp(word->str, "yes") == 0)) {
        reply->vote = held ? VOTE_TAKEN : moved ? VOTE_MOVED : VOTE_YES;
        reply->is_own = own;
        reply->is_deleted = left;
        reply->occupant.left_ms = bounded_ms(number->integer);
        return read_occupant(op, list, reply);
    }
    if (op == OP_ADOPT && strcmp(word->str, "adopted") == 0) {
        reply->vote = VOTE_YES;
        reply->fence = (uint64_t)number->integer;
        return number->integer >= 0 && read_holders(list, reply);
    }
    bool renews = op == OP_RENEW || op == OP_RESUME || op == OP_REPAIR;
    if (renews && strcmp(word->str, "unlocked") == 0) {
        reply->vote = VOTE_UNLOCKED;
        return true;
    }
    bool repaired = op == OP_REPAIR && strcmp(word->str, "repaired") == 0;
    bool misnumbered =
        (op == OP_ADOPT || op == OP_RELEASE) && strcmp(word->str, "misnumbered") == 0;
    if (number->integer < 0 || (!repaired && !misnumbered))
        return false;
    reply->vote = repaired ? VOTE_REPAIRED : VOTE_MISNUMBERED;
    reply->fence = (uint64_t)number->integer;
    return true;
}

static bool read_entry(enum op op, const redisReply *entry, struct event_reply *reply)
{
    switch (entry->type) {
    case REDIS_REPLY_INTEGER:
        if (entry->integer == -1) {
            reply->vote = VOTE_ABSENT;
            return op != OP_ACQUIRE && op != OP_HANDOVER;
        }
        reply->vote = VOTE_YES;
        reply->fence = (uint64_t)entry->integer;
        return entry->integer >= 0 && op != OP_READ && op != OP_HANDOVER && op != OP_ADOPT;
    case REDIS_REPLY_STRING:
        reply->vote = VOTE_YES;
        return op == OP_ACQUIRE && read_fence(entry, &reply->fence);
    case REDIS_REPLY_ARRAY:
        return read_list(op, entry, reply);
    default:
        return false;
    }
}

enum redis_outcome item_reply_read(enum op op, const redisReply *entry,
                                   struct event_reply *ret_reply)
{
    *ret_reply = (struct event_reply){.occupant.left_ms = -1};
    enum redis_outcome outcome = entry->type == REDIS_REPLY_ERROR   ? outcome_of_error(entry->str)
                                 : read_entry(op, entry, ret_reply) ? REDIS_OUTCOME_OK
                                                                    : REDIS_OUTCOME_OTHER;
    if (outcome != REDIS_OUTCOME_OK)
        *ret_reply = (struct event_reply){.vote = vote_of_outcome(outcome), .occupant.left_ms = -1};
    else if (ret_reply->vote == VOTE_FOREIGN || ret_reply->vote == VOTE_SPOILED)
        return REDIS_OUTCOME_WRONGTYPE;
    return outcome;
}

/* Returns the epoch after the entries of a list; NULL: there is none. */
const char *reply_epoch(enum op op, const redisReply *reply)
{
    bool is_list =
        answers_list(op, /* count= */ 1) && reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    const redisReply *last = is_list ? reply->element[reply->elements - 1] : NULL;
    return last != NULL && last->type == REDIS_REPLY_STRING ? last->str : NULL;
}

/* Returns true if the reply is a single 0, which replaces a list of zeros. */
static bool is_one_for_all(enum op op, const redisReply *reply)
{
    return (op == OP_RENEW || op == OP_RELEASE) && reply->type == REDIS_REPLY_INTEGER &&
           reply->integer == 0;
}

const redisReply *reply_entry(enum op op, unsigned count, const redisReply *reply, unsigned i)
{
    if (reply->type == REDIS_REPLY_ERROR || !answers_list(op, count) || is_one_for_all(op, reply))
        return reply;
    bool fits = reply->type == REDIS_REPLY_ARRAY &&
                (reply->elements == count ||
                 (reply->elements == count + 1u && reply_epoch(op, reply) != NULL));
    return fits ? reply->element[i] : NULL;
}

enum redis_outcome reply_read(enum op op, unsigned count, const redisReply *reply,
                              struct event_reply *ret_replies, const char **ret_error)
{
    enum redis_outcome worst = REDIS_OUTCOME_OK;
    for (unsigned i = 0; i < count; i++) {
        const redisReply *entry = reply_entry(op, count, reply, i);
        enum redis_outcome outcome = REDIS_OUTCOME_OTHER;
        ret_replies[i] = (struct event_reply){.vote = VOTE_UNKNOWN, .occupant.left_ms = -1};
        if (entry != NULL)
            outcome = item_reply_read(op, entry, &ret_replies[i]);
        /* An ACL refuses a whole call for one of its keys. So the others are sent again. */
        if (count > 1 && entry == reply && outcome == REDIS_OUTCOME_NOPERM)
            ret_replies[i].vote = VOTE_NOT_RUN;
        bool is_worse = worst == REDIS_OUTCOME_OK || worst == REDIS_OUTCOME_WRONGTYPE;
        if (outcome == REDIS_OUTCOME_OK || !is_worse)
            continue;
        worst = outcome;
        *ret_error = entry != NULL && entry->type == REDIS_REPLY_ERROR
                         ? entry->str
                         : "a reply of an unknown shape";
    }
    return worst;
}

/* ---- native commands (R24) ---- */

#define SECONDS_MAX (UINT64_C(1) << 40) /* No unix time has so many. */

static bool has_run(const struct native_results *call, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == call->results;
}

bool native_reply_lacks_multi(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "EXEC without MULTI") != NULL;
}

bool native_reply_is_possible(const struct native_results *call, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR || has_run(call, reply);
}

static bool is_integer(const redisReply *reply, long long value)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer == value;
}

static bool is_set(redisReply *const *at)
{
    return at[0]->type == REDIS_REPLY_STATUS && strcmp(at[0]->str, "OK") == 0;
}

static bool is_unset(redisReply *const *at)
{
    return at[0]->type == REDIS_REPLY_NIL;
}

/* Returns true if the commands of one item have set its key and raised its number. */
static bool is_done(const struct native_results *call, redisReply *const *at)
{
    return is_set(at) && (!call->fencing || MUTANT(UNRAISED_COUNTS) || is_integer(at[1], 1));
}

/* Reads TIME's reply. Returns -1 if it is not a possible one. */
static int64_t read_time_us(const redisReply *time)
{
    uint64_t seconds, us;
    bool fits = time->type == REDIS_REPLY_ARRAY && time->elements == 2 &&
                time->element[0]->type == REDIS_REPLY_STRING && time->element[0]->len > 0 &&
                time->element[1]->type == REDIS_REPLY_STRING && time->element[1]->len > 0 &&
                *read_digits(time->element[0]->str, 10, &seconds) == '\0' &&
                *read_digits(time->element[1]->str, 10, &us) == '\0' && us < 1000000 &&
                seconds < SECONDS_MAX;
    return fits ? (int64_t)(seconds * 1000000 + us) : -1;
}

/* Returns true if the leases are not shorter than asked for, and not much longer. */
static bool is_in_time(const struct native_results *call, const redisReply *time)
{
    int64_t now_us = read_time_us(time), least_us = call->clock_ms * 1000;
    return (now_us >= least_us && now_us <= least_us + 1000 * call->spread_ms) ||
           MUTANT(TIME_NOT_CHECKED);
}

/* Returns true if the key of item `i` had exactly the value, and no agent waits for it. `numsub`: a
 * channel and a number for each of the items. */
static bool is_released(redisReply *const *at, const redisReply *numsub, unsigned count, unsigned i)
{
    bool counts = numsub->type == REDIS_REPLY_ARRAY && numsub->elements == 2 * (size_t)count;
    bool is_deleted = is_integer(at[i], 1) || MUTANT(UNDELETED_COUNTS);
    return is_deleted && (MUTANT(RELEASED_UNTOLD) ||
                          (counts && is_integer(numsub->element[2 * (size_t)i + 1], 0)));
}

bool native_reply_read(const struct native_results *call, unsigned count, const redisReply *reply,
                       struct event_reply *ret_replies)
{
    bool runs = has_run(call, reply);
    const redisReply *last = runs ? reply->element[call->results - 1u] : NULL;
    bool votes = runs && (!call->takes || is_in_time(call, last));
    if (votes && call->vote != NULL && !MUTANT(VOTE_NOT_COMPARED)) {
        const redisReply *vote = reply->element[call->results - 2u];
        votes = vote->type == REDIS_REPLY_STRING && strcmp(vote->str, call->vote) == 0;
    }
    for (unsigned i = 0; i < count; i++) {
        redisReply *const *taken =
            runs && call->takes ? reply->element + i * (1u + call->fencing) : NULL;
        bool is_yes = votes && (call->takes ? is_done(call, taken)
                                            : is_released(reply->element, last, count, i)),
             may_be_set = taken != NULL ? !is_yes && is_set(taken)
                                        : call->takes && native_reply_lacks_multi(reply);
        ret_replies[i] = (struct event_reply){.vote = is_yes ? VOTE_YES : VOTE_BY_SCRIPT,
                                              .is_native = is_yes && call->takes,
                                              .is_set = may_be_set,
                                              .is_unset = taken != NULL && is_unset(taken),
                                              .is_deleted = runs && !call->takes && !is_yes &&
                                                            is_integer(reply->element[i], 1),
                                              .occupant.left_ms = -1};
    }
    return runs;
}

bool reply_is_possible(enum op op, unsigned count, const redisReply *reply)
{
    const redisReply *entry = reply_entry(op, count, reply, 0);
    return entry != NULL && (entry->type == REDIS_REPLY_INTEGER ||
                             entry->type == REDIS_REPLY_ARRAY || entry->type == REDIS_REPLY_ERROR ||
                             (entry->type == REDIS_REPLY_STRING && op == OP_ACQUIRE));
}

bool message_is_redissons(const char *text)
{
    return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
}

/* Reads the text after the number of waiters: nothing, the agent whose turn it is, or the free
 * slot. */
static bool read_behind(const char *text, struct event_channel *said)
{
    static const char slot[] = " slot ";
    uint64_t number;
    const char *end;
    if (strncmp(text, slot, strlen(slot)) == 0) {
        end = read_digits(text + strlen(slot), 10, &number);
        said->has_slot = number < LIMIT_PERMITS;
        said->slot = said->has_slot ? (uint8_t)number : 0;
        return end != text + strlen(slot) && *end == '\0';
    }
    if (*text != ' ')
        return *text == '\0';
    end = read_digits(text + 1, 16, &number);
    said->next = end - (text + 1) == 16 ? number : 0; /* The whole name of an agent. */
    said->next_reads = strcmp(end, " r") == 0;
    return *end == '\0' || said->next_reads || strcmp(end, " w") == 0;
}

struct event_channel message_read(const char *text)
{
    struct event_channel said = {0};
    uint64_t agents;
    const char *end = read_digits(text, 10, &agents);
    if (end == text || !read_behind(end, &said))
        return (struct event_channel){0};
    said.agents = agents > AGENTS_MAX ? AGENTS_MAX : (uint32_t)agents;
    return said;
}
