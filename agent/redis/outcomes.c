/* The names of states, outcomes and faults, and what an error of a master means (D5.5). */
#include <stdio.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "agent/redis/outcomes.h"

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

/* How each class begins on the wire, and what people are told. A class without `begins` is known
 * by a part of its text. */
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
     "refuses writes for want of replicas (min-replicas-to-write)"},
    {REDIS_OUTCOME_LOADING, "LOADING ", NULL, "loading its data set"},
    {REDIS_OUTCOME_BUSY, "BUSY ", NULL, "busy running somebody's script"},
    {REDIS_OUTCOME_MASTERDOWN, "MASTERDOWN ", NULL, "a replica whose link to its master is down"},
    {REDIS_OUTCOME_NOAUTH, "NOAUTH ", NULL, "asks for a password"},
    {REDIS_OUTCOME_WRONGPASS, "WRONGPASS ", NULL, "refuses this user name and password"},
    {REDIS_OUTCOME_NOPERM, "NOPERM ", NULL, "the ACL does not allow what the agent needs"},
    {REDIS_OUTCOME_NOPERM, NULL, "The user executing the script can't",
     "the ACL does not allow what the scripts need"},
    {REDIS_OUTCOME_NOPERM, NULL, "ACL failure in script: ", /* Redis 7.2, Valkey */
     "the ACL does not allow what the scripts need"},
    {REDIS_OUTCOME_MAXCLIENTS, NULL, "max number of clients",
     "has no room for another client (maxclients)"},
    {REDIS_OUTCOME_WRONGTYPE, "WRONGTYPE ", NULL,
     "a key of another type stands under a lock's name"},
    {REDIS_OUTCOME_NOSCRIPT, "NOSCRIPT ", NULL, "its script cache was flushed"},
};
enum { CLASSES = sizeof(classes) / sizeof(classes[0]) };

/* An error raised inside a script may come with a mark in front: `-`, or `@user_script: 12: `. */
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

enum redis_outcome outcome_of_error(const char *text)
{
    text = skip_mark(text);
    for (unsigned i = 0; i < CLASSES; i++) {
        const struct error_class *class = &classes[i];
        if (class->begins != NULL ? strncmp(text, class->begins, strlen(class->begins)) == 0
                                  : strstr(text, class->contains) != NULL)
            return class->outcome;
    }
    return REDIS_OUTCOME_OTHER;
}

/* Redis quotes arguments of commands that it does not know, and ours hold tokens and passwords:
 * that part is cut off. */
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
    for (unsigned i = 0; i < CLASSES; i++) {
        if (classes[i].outcome == outcome) {
            snprintf(into, size, "%s: %s", redis_outcome_name(outcome), classes[i].says);
            return;
        }
    }
    if (text != NULL)
        copy_harmless(text, into, size);
    else
        snprintf(into, size, "%s", redis_outcome_name(outcome));
}
