/* Replies of the masters -> outcomes and votes (D5.5): what an error means, and what an entry of a script means. */
#include <stdio.h>
#include <string.h>

#include "agent/redis/room.h"

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

const char *redis_state_name(enum redis_state state)
{
    REDIS_ASSERT((unsigned)state < REDIS_STATE_COUNT);
    return state_names[state];
}

const char *redis_outcome_name(enum redis_outcome outcome)
{
    REDIS_ASSERT((unsigned)outcome < REDIS_OUTCOME_COUNT);
    return outcome_names[outcome];
}

/* How each class begins on the wire, and what people are told. A class without `begins` is known by a part of its text.
 */
struct error_class {
    enum redis_outcome outcome;
    const char *begins, *contains, *says;
};

static const struct error_class classes[] = {
    {REDIS_OUTCOME_OOM, "OOM ", NULL, "out of memory: refuses to set keys (maxmemory)"},
    {REDIS_OUTCOME_READONLY, "READONLY ", NULL, "a read-only replica, not a master"},
    {REDIS_OUTCOME_MISCONF, "MISCONF ", NULL,
     "refuses writes because its snapshots fail (stop-writes-on-bgsave-error)"},
    {REDIS_OUTCOME_NOREPLICAS, "NOREPLICAS ", NULL, "refuses writes for want of replicas (min-replicas-to-write)"},
    {REDIS_OUTCOME_LOADING, "LOADING ", NULL, "loading its data set"},
    {REDIS_OUTCOME_BUSY, "BUSY ", NULL, "busy running somebody's script"},
    {REDIS_OUTCOME_MASTERDOWN, "MASTERDOWN ", NULL, "a replica whose link to its master is down"},
    {REDIS_OUTCOME_NOAUTH, "NOAUTH ", NULL, "asks for a password"},
    {REDIS_OUTCOME_WRONGPASS, "WRONGPASS ", NULL, "refuses this user name and password"},
    {REDIS_OUTCOME_NOPERM, "NOPERM ", NULL, "the ACL does not allow what the agent needs"},
    {REDIS_OUTCOME_NOPERM, NULL, "The user executing the script can't", "the ACL does not allow what the scripts need"},
    {REDIS_OUTCOME_MAXCLIENTS, NULL, "max number of clients", "has no room for another client (maxclients)"},
    {REDIS_OUTCOME_WRONGTYPE, "WRONGTYPE ", NULL, "a key of another type stands under a lock's name"},
    {REDIS_OUTCOME_NOSCRIPT, "NOSCRIPT ", NULL, "its script cache was flushed"},
};
enum { CLASSES = sizeof(classes) / sizeof(classes[0]) };

/* An error raised inside a script may come with a mark in front: `-`, or `@user_script: 12: `. */
static const char *skip_mark(const char *text)
{
    if (strncmp(text, "@user_script", 12) == 0) {
        const char *colon = strchr(text, ':');
        const char *second = colon ? strchr(colon + 1, ':') : NULL;
        if (second && second[1] == ' ') {
            text = second + 2;
        }
    }
    return *text == '-' ? text + 1 : text;
}

enum redis_outcome outcome_of_error(const char *text)
{
    text = skip_mark(text);
    for (unsigned i = 0; i < CLASSES; i++) {
        const struct error_class *class = &classes[i];
        if (class->begins ? strncmp(text, class->begins, strlen(class->begins)) == 0
                          : strstr(text, class->contains) != NULL) {
            return class->outcome;
        }
    }
    return REDIS_OUTCOME_OTHER;
}

/* Errors of a known class come before anything is done: refused. Of any other nothing is known: it may have been done.
 */
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

/* Redis quotes arguments of commands that it does not know, and ours hold tokens and passwords: that part is cut off.
 */
static void copy_harmless(const char *text, char *into, size_t size)
{
    const char *end = strstr(text, ", with args");
    size_t len = end ? (size_t)(end - text) : strlen(text);
    if (len > 100) {
        len = 100;
    }
    int at = snprintf(into, size, "unexpected answer: ");
    for (size_t i = 0; i < len && (size_t)at + 1 < size; i++) {
        into[at++] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
    }
    into[at] = '\0';
}

void outcome_describe(enum redis_outcome outcome, const char *text, char *into, size_t size)
{
    for (unsigned i = 0; i < CLASSES; i++) {
        if (classes[i].outcome == outcome) {
            snprintf(into, size, "%s: %s", redis_outcome_name(outcome), classes[i].says);
            return;
        }
    }
    if (text) {
        copy_harmless(text, into, size);
    } else {
        snprintf(into, size, "%s", redis_outcome_name(outcome));
    }
}

bool op_is_batched(enum op op)
{
    return op == OP_RENEW || op == OP_REPAIR || op == OP_ADOPT || op == OP_RELEASE;
}

static const redisReply *element(const redisReply *list, size_t i, int type)
{
    return i < list->elements && list->element[i]->type == type ? list->element[i] : NULL;
}

/* ['handed', number, agents], ['guarded', ms left], ['held', pttl, label] and the number of a ticket, ['yes', pttl, label], ['foreign', pttl], ['repaired', number], ['misnumbered', number] */
static bool read_list(enum op op, const redisReply *list, struct item_reply *reply)
{
    const redisReply *word = element(list, 0, REDIS_REPLY_STRING), *number = element(list, 1, REDIS_REPLY_INTEGER);
    const redisReply *label = element(list, 2, REDIS_REPLY_STRING);
    if (!word || !number || number->integer < -1) {
        return false;
    }
    if (strcmp(word->str, "foreign") == 0) {
        reply->vote = VOTE_FOREIGN;
        reply->outcome = REDIS_OUTCOME_WRONGTYPE;
        reply->pttl_ms = number->integer;
        return true;
    }
    if (op == OP_HANDOVER && strcmp(word->str, "handed") == 0) {
        const redisReply *agents = element(list, 2, REDIS_REPLY_INTEGER);
        reply->vote = VOTE_YES;
        reply->fence = (uint64_t)number->integer;
        reply->agents = agents && agents->integer > 0 ? (uint32_t)agents->integer : 0;
        return number->integer >= 0;
    }
    if ((op == OP_ACQUIRE || op == OP_HANDOVER) && strcmp(word->str, "guarded") == 0) {
        reply->vote = VOTE_GUARDED;
        reply->pttl_ms = number->integer;
        return number->integer >= -1;
    }
    bool held = strcmp(word->str, "held") == 0;
    if (held || (op == OP_READ && strcmp(word->str, "yes") == 0)) {
        if (!label || (size_t)label->len > LIMIT_LABEL_BYTES) {
            return false;
        }
        reply->vote = held ? VOTE_HELD : VOTE_YES;
        reply->pttl_ms = number->integer;
        reply->holder = (struct text){label->str, (size_t)label->len};
        const redisReply *ticket = element(list, 3, REDIS_REPLY_INTEGER);
        reply->ticket = held && ticket && ticket->integer > 0 ? (uint64_t)ticket->integer : 0;
        return true;
    }
    bool repaired = op == OP_REPAIR && strcmp(word->str, "repaired") == 0;
    if (number->integer < 0 || (!repaired && (op != OP_ADOPT || strcmp(word->str, "misnumbered") != 0))) {
        return false;
    }
    reply->vote = repaired ? VOTE_REPAIRED : VOTE_MISNUMBERED;
    reply->fence = (uint64_t)number->integer;
    return true;
}

static bool read_entry(enum op op, const redisReply *entry, struct item_reply *reply)
{
    switch (entry->type) {
    case REDIS_REPLY_INTEGER:
        if (entry->integer == -1) {
            reply->vote = VOTE_ABSENT;
            return op != OP_ACQUIRE && op != OP_HANDOVER;
        }
        reply->vote = VOTE_YES;
        reply->fence = (uint64_t)entry->integer;
        return entry->integer >= 0 && op != OP_READ && op != OP_HANDOVER;
    case REDIS_REPLY_ARRAY:
        return read_list(op, entry, reply);
    case REDIS_REPLY_ERROR:
        reply->outcome = outcome_of_error(entry->str);
        reply->vote = vote_of_outcome(reply->outcome);
        return true;
    default:
        return false;
    }
}

void item_reply_read(enum op op, const redisReply *entry, struct item_reply *ret_reply)
{
    static const struct item_reply blank = {.outcome = REDIS_OUTCOME_OK, .pttl_ms = -1};
    *ret_reply = blank;
    if (!read_entry(op, entry, ret_reply)) {
        *ret_reply = blank;
        ret_reply->outcome = REDIS_OUTCOME_OTHER;
        ret_reply->vote = VOTE_UNKNOWN;
    }
}
