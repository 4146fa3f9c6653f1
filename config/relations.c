/* The relations between keys: a table, and one interpreter that checks each row, lets defaults give
 * way and writes the errors. A relation is silent if one of its keys is wrong already. An error
 * names a key that was written, if there is one. */
#include "config/internal.h"

#include <stdarg.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "config/units.h"

/* ---- the table ---- */

enum operation { AT_LEAST, AT_MOST, NEEDS, EXCLUDES };

/* A state of a key: a word of a choice or a switch, `>1`, or NULL if any value will do that was
 * written and is not empty. For a list of masters: `one` or `rediss://`. */
struct state {
    const char *key, *value;
};

struct relation {
    struct state key;
    enum operation op;
    int factor; /* AT_LEAST, AT_MOST: the limit is factor x other - minus + plus */
    struct state other;
    const char *minus; /* NULL: nothing is subtracted */
    int64_t plus;
    struct state when;     /* The relation holds in this state alone; a NULL key: always. */
    const char *yields[2]; /* Keys whose default gives way, the first one first */
    const char *why;
};

#define G "redis.groups.<name>."
#define P "policies[]."
#define LIMIT(name, operation, times, of)                                                          \
    .key = {name, NULL}, .op = operation, .factor = times, .other = {of, NULL}
#define STATES(name, is, operation, of, be) .key = {name, is}, .op = operation, .other = {of, be}

/* A relation between a policy and a group holds for each group that the policy names. The order
 * counts only for defaults: `order` follows `kind` last, so that no error speaks of its default.
 * R1: ttl; R2: algorithm; R11, R18, R20, R22: forms; R15: lock_delay; R21: replicas; D9: waiters.
 */
/* clang-format off */
static const struct relation relations[] = {
    {LIMIT("limits.waiters", AT_MOST, 1, "limits.connections"), .plus = -64,
     .yields = {"limits.waiters"}, .why = "a holder must always find room to release"},

    {STATES(G "tls.ca_file", NULL, NEEDS, G "masters", "rediss://"),
     .why = "it is not used without TLS"},
    {STATES(G "tls.cert_file", NULL, NEEDS, G "masters", "rediss://"),
     .why = "it is not used without TLS"},
    {STATES(G "tls.key_file", NULL, NEEDS, G "masters", "rediss://"),
     .why = "it is not used without TLS"},
    {STATES(G "tls.server_name", NULL, NEEDS, G "masters", "rediss://"),
     .why = "it is not used without TLS"},
    {STATES(G "tls.cert_file", NULL, NEEDS, G "tls.key_file", NULL),
     .why = "a certificate is shown with its private key"},
    {STATES(G "tls.key_file", NULL, NEEDS, G "tls.cert_file", NULL),
     .why = "a private key is used with its certificate"},
    {STATES(G "replicas.timeout", NULL, NEEDS, G "replicas.ack", NULL),
     .why = "without replicas.ack no replica is asked"},
    {LIMIT(G "node_timeout", AT_LEAST, 1, G "replicas.timeout"), .plus = 20,
     .when = {G "replicas.ack", NULL}, .yields = {G "node_timeout"},
     .why = "a vote waits for the replicas"},
    {STATES(G "replicas.ack", NULL, NEEDS, G "masters", "one"),
     .why = "several masters are independent, and no replicas of each other"},
    {STATES(G "replicas.ack", NULL, EXCLUDES, G "durable", "true"),
     .why = "durable promises that no replica is promoted"},
    {STATES(G "replicas.ack", NULL, NEEDS, P "algorithm", "single"),
     .why = "replicas take no part if several masters decide"},

    {STATES(P "groups", NULL, EXCLUDES, P "group", NULL),
     .why = "both name the masters of the policy"},
    {STATES(P "algorithm", "single", NEEDS, G "masters", "one"),
     .why = "one master decides alone"},
    {LIMIT(P "ttl", AT_MOST, 1, "limits.max_ttl"), .yields = {P "ttl"},
     .why = "no lease is longer than limits.max_ttl"},
    {LIMIT(P "lock_delay", AT_MOST, 1, "limits.max_ttl"), .minus = P "ttl", .yields = {P "ttl"},
     .why = "no master may keep a key for longer than limits.max_ttl"},
    {LIMIT(P "ttl", AT_LEAST, 4, G "node_timeout"), .why = "four rounds must fit into a lease"},
    {LIMIT(P "ttl", AT_LEAST, 0, NULL), .plus = TTL_MS_MIN_AGENT, .when = {P "renew", "agent"},
     .why = "the watchdog needs time to renew"},
    {LIMIT(P "retry.min", AT_MOST, 1, P "retry.max"), .yields = {P "retry.max", P "retry.min"},
     .why = "the pauses grow from retry.min to retry.max"},

    {STATES(P "permits", ">1", EXCLUDES, P "kind", "rw"), .why = "readers have no slots"},
    {STATES(P "permits", ">1", EXCLUDES, P "order", "fair"), .why = "slots have no tickets"},
    {STATES(P "permits", ">1", EXCLUDES, P "reentrant", "on"),
     .why = "an owner cannot enter a slot again"},
    {STATES(P "format", "redisson", EXCLUDES, P "kind", "rw"),
     .why = "Redisson does not see readers"},
    {STATES(P "format", "redisson", EXCLUDES, P "order", "fair"),
     .why = "Redisson does not see tickets"},
    {STATES(P "format", "redisson", EXCLUDES, P "permits", ">1"),
     .why = "Redisson does not see slots"},
    {STATES(P "fencing", "redisson", NEEDS, P "format", "redisson"),
     .why = "its numbers are those of RFencedLock"},
    {STATES(P "fencing", "redisson", NEEDS, P "algorithm", "single"),
     .why = "Redisson counts on one master"},
    {STATES(P "order", "any", EXCLUDES, P "kind", "rw"), .yields = {P "order"},
     .why = "readers and writers are served by tickets"},
};
/* clang-format on */

enum { RELATIONS = sizeof(relations) / sizeof(relations[0]) };

/* ---- the interpreter: keys and their states ---- */

/* One row, for the agent, one group, one policy, or one of each. */
struct check {
    struct config_loading *loading; /* NULL: the row is printed, not checked. */
    const struct relation *row;
    size_t group, policy;
};

static enum config_scope scope_of(const char *path)
{
    return config_key_scope(config_key_find(path));
}

static size_t index_of(const struct check *check, const char *path)
{
    enum config_scope scope = scope_of(path);
    return scope == SCOPE_GROUP ? check->group : scope == SCOPE_POLICY ? check->policy : 0;
}

static bool was_set(const struct check *check, const char *path)
{
    return config_is_set(check->loading, path, index_of(check, path));
}

static bool was_bad(const struct check *check, const char *path)
{
    return path != NULL && config_is_bad(check->loading, path, index_of(check, path));
}

static void *field_of(const struct check *check, const char *path)
{
    return config_key_field(config_key_find(path), check->loading->config, index_of(check, path));
}

static int64_t number_of(const struct check *check, const char *path)
{
    return config_key_number(config_key_find(path), field_of(check, path));
}

static bool is_in(const struct check *check, struct state state)
{
    const struct config_key *key = config_key_find(state.key);
    if (key->type == TYPE_MASTERS) {
        const struct config_group *group = &check->loading->config->groups[check->group];
        bool tls = false;
        for (size_t i = 0; i < group->master_count; i++)
            tls = tls || group->masters[i].tls;
        return strcmp(state.value, "one") == 0 ? group->master_count <= 1 : tls;
    }
    if (state.value == NULL)
        return was_set(check, state.key) &&
               (key->type != TYPE_TEXT || *(const char *)field_of(check, state.key));
    int64_t number = number_of(check, state.key);
    if (key->type == TYPE_CHOICE)
        return strcmp(key->words[number - key->min], state.value) == 0;
    return number > (state.value[0] == '>'); /* >1, or a flag that is set */
}

/* ---- the interpreter: words ---- */

/* A text that is built piece by piece and cut at its end. */
struct sentence {
    char text[400];
    size_t len;
};

static void say(struct sentence *sentence, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct sentence *sentence, const char *format, ...)
{
    size_t room = sizeof(sentence->text) - sentence->len;
    va_list args;
    va_start(args, format);
    size_t len = (size_t)vsnprintf(sentence->text + sentence->len, room, format, args);
    va_end(args);
    sentence->len += len < room ? len : room - 1;
}

/* Returns the name of a key: in full in the documentation, otherwise without the group or policy
 * that it is of. */
static const char *name_of(const struct check *check, const char *path)
{
    enum config_scope scope = check->loading == NULL ? SCOPE_AGENT : scope_of(path);
    return path + (scope == SCOPE_GROUP ? strlen(G) : scope == SCOPE_POLICY ? strlen(P) : 0);
}

static void say_number(struct sentence *sentence, const char *path, int64_t number)
{
    char text[32];
    say(sentence, "%s",
        config_number_print(config_key_find(path)->type, number, text, sizeof(text)));
}

/* Says `limits.max_ttl (45m)`. */
static void say_key(struct sentence *sentence, const struct check *check, const char *path)
{
    if (check->loading == NULL) {
        say(sentence, "`%s`", path);
        return;
    }
    say(sentence, "%s (", name_of(check, path));
    say_number(sentence, path, number_of(check, path));
    say(sentence, ")");
}

/* Names the group or policy of `path`, unless the error is of a key of the same. */
static void say_where(struct sentence *sentence, const struct check *check, const char *path,
                      const char *reported)
{
    enum config_scope scope = scope_of(path);
    if (check->loading == NULL || scope == scope_of(reported))
        return;
    char quoted[CONFIG_QUOTED];
    const struct config *config = check->loading->config;
    const char *match = config->policies[check->policy].core.match;
    if (scope == SCOPE_GROUP)
        say(sentence, " in redis.groups.%s", config->groups[check->group].name);
    if (scope == SCOPE_POLICY)
        say(sentence, " in the policy for %s", config_quote(match, /* is_url= */ false, quoted));
}

/* Says `kind: rw`, `permits: 8`, replicas.ack, or exactly one master. */
static void say_state(struct sentence *sentence, const struct check *check, struct state state)
{
    const struct config_key *key = config_key_find(state.key);
    const char *name = name_of(check, state.key);
    bool is_number = key->type == TYPE_COUNT || key->type == TYPE_DURATION;
    if (key->type == TYPE_MASTERS) {
        bool one = strcmp(state.value, "one") == 0;
        say(sentence, "%s", one ? "exactly one master" : "a master with rediss://");
    } else if (check->loading != NULL && is_number && is_in(check, state)) {
        say(sentence, "`%s: ", name);
        say_number(sentence, state.key, number_of(check, state.key));
        say(sentence, "`");
    } else if (state.value == NULL) {
        say(sentence, check->loading == NULL ? "`%s`" : "%s", name);
    } else if (is_number) {
        say(sentence, "`%s` above %s", name, state.value + 1);
    } else {
        say(sentence, "`%s: %s`", name, state.value);
    }
}

/* Says what the key is although it is not in the state. */
static void say_actual(struct sentence *sentence, const struct check *check, struct state state)
{
    const struct config_key *key = config_key_find(state.key);
    const struct config_group *group = &check->loading->config->groups[check->group];
    if (key->type == TYPE_MASTERS && strcmp(state.value, "one") == 0)
        say(sentence, ", and the group has %zu", group->master_count);
    if (key->type == TYPE_CHOICE)
        say(sentence, ", and it is %s", key->words[number_of(check, state.key) - key->min]);
}

/* Says what else the key may be: `kind: mutex`, `fencing: off` or `fencing: on`, no replicas.ack.
 * */
static void say_instead(struct sentence *sentence, const struct check *check, struct state state)
{
    const struct config_key *key = config_key_find(state.key);
    const char *name = name_of(check, state.key), *between = "";
    if (state.value == NULL) {
        say(sentence, "no %s", name);
        return;
    }
    if (key->type != TYPE_CHOICE)
        say(sentence, "`%s: %s`", name,
            key->type == TYPE_COUNT    ? "1"
            : key->type == TYPE_SWITCH ? "off"
                                       : "false");
    for (int i = 0; key->type == TYPE_CHOICE && key->words[i] != NULL; i++)
        if (strcmp(key->words[i], state.value) != 0) {
            say(sentence, "%s`%s: %s`", between, name, key->words[i]);
            between = " or ";
        }
}

/* ---- the interpreter: limits ---- */

/* Returns how far the key is below its limit; negative if it is above. */
static int64_t slack_of(const struct check *check)
{
    const struct relation *row = check->row;
    int64_t limit = row->plus;
    if (row->other.key != NULL)
        limit += row->factor * number_of(check, row->other.key);
    if (row->minus != NULL)
        limit -= number_of(check, row->minus);
    return limit - number_of(check, row->key.key);
}

/* Returns `number`, or the end of the key's own range that is next to it. */
static int64_t in_range(const char *path, int64_t number)
{
    const struct config_key *key = config_key_find(path);
    return number < key->min ? key->min : number > key->max ? key->max : number;
}

/* Returns the limit of the key, within its own range. */
static int64_t limit_in_force(const struct check *check)
{
    const char *path = check->row->key.key;
    return in_range(path, number_of(check, path) + slack_of(check));
}

static bool keeps_limit(const struct check *check)
{
    int64_t number = number_of(check, check->row->key.key), limit = limit_in_force(check);
    return check->row->op == AT_LEAST ? number >= limit : number <= limit;
}

static bool concerns(const struct check *check, size_t group)
{
    return config_policy_uses(check->loading->config, check->policy, group);
}

/* Returns the least value of the policy's `path` that keeps the other limits. */
static int64_t least_of(const struct check *check, const char *path)
{
    int64_t least = config_key_find(path)->min;
    for (size_t i = 0; i < RELATIONS; i++)
        for (size_t g = 0; g < check->loading->config->group_count; g++) {
            struct check other = {check->loading, &relations[i], g, check->policy};
            const struct relation *row = &relations[i];
            if (row->op != AT_LEAST || strcmp(row->key.key, path) != 0 || !concerns(check, g) ||
                (row->when.key != NULL && !is_in(&other, row->when)))
                continue;
            int64_t limit = number_of(&other, path) + slack_of(&other);
            least = limit > least ? limit : least;
        }
    return least;
}

/* Moves the default of `path` until the limit is kept, or its own range ends. The ttl of a policy
 * stays within its other limits. */
static void yield_default(const struct check *check, const char *path)
{
    const struct relation *row = check->row;
    bool is_other = row->other.key != NULL && strcmp(path, row->other.key) == 0;
    int64_t slack = slack_of(check),
            number = in_range(path, number_of(check, path) + (is_other ? -slack : slack));
    CORE_ASSERT(!is_other || row->factor == 1);
    if (row->minus != NULL && strcmp(path, row->minus) == 0 && number < least_of(check, path))
        number = least_of(check, path);
    config_key_set_number(config_key_find(path), field_of(check, path), number);
}

/* Says `2 x limits.max_ttl (45m) - ttl (40m)`, or `- the least ttl (1s)` if the default of that key
 * has given way. */
static void say_limit(struct sentence *sentence, const struct check *check, const char *gave_way)
{
    const struct relation *row = check->row;
    if (row->factor > 1)
        say(sentence, "%d x ", row->factor);
    if (row->other.key != NULL) {
        say_key(sentence, check, row->other.key);
        say_where(sentence, check, row->other.key, row->key.key);
    }
    if (row->minus != NULL) {
        bool is_least = gave_way != NULL && strcmp(gave_way, row->minus) == 0;
        say(sentence, is_least ? " - the least " : " - ");
        say_key(sentence, check, row->minus);
    }
    if (row->plus != 0) {
        say(sentence, row->factor == 0 ? "" : row->plus < 0 ? " - " : " + ");
        say_number(sentence, row->key.key, row->plus < 0 ? -row->plus : row->plus);
    }
    if (row->when.key != NULL) {
        say(sentence, " with ");
        say_state(sentence, check, row->when);
    }
}

/* Refuses the key; or the other one, if the key is a default that does not give way. No further
 * relation speaks of it. */
static void refuse_limit(const struct check *check, const char *gave_way)
{
    const struct relation *row = check->row;
    const char *key = row->key.key, *other = row->other.key;
    bool turned = !was_set(check, key) && row->yields[0] == NULL && other != NULL,
         is_less = (row->op == AT_LEAST) != turned;
    const char *refused = turned ? other : key;
    CORE_ASSERT(!turned || (row->minus == NULL && row->plus == 0));
    struct sentence sentence = {.len = 0};
    say(&sentence, "`");
    say_number(&sentence, refused, number_of(check, refused));
    say(&sentence, "` is %s than ", is_less ? "less" : "more");
    if (turned) {
        say_key(&sentence, check, key);
        say(&sentence, " / %d", row->factor);
        say_where(&sentence, check, key, other);
    } else {
        say_limit(&sentence, check, gave_way);
    }
    say(&sentence, ": %s; allowed: at %s ", row->why, is_less ? "least" : "most");
    say_number(&sentence, refused,
               turned ? number_of(check, key) / row->factor : limit_in_force(check));
    if (row->when.key != NULL) {
        say(&sentence, ", or ");
        say_instead(&sentence, check, row->when);
    }
    config_refuse(check->loading, refused, index_of(check, refused), "%s", sentence.text);
    config_mark_bad(check->loading, refused, index_of(check, refused));
}

static void check_limit(const struct check *check)
{
    if (keeps_limit(check))
        return;
    /* The first key whose default may give way and that is not written. */
    const char *path = NULL;
    for (int i = 0; i < 2 && path == NULL && check->row->yields[i] != NULL; i++)
        if (!was_set(check, check->row->yields[i]))
            path = check->row->yields[i];
    int64_t before = path != NULL ? number_of(check, path) : 0;
    if (path != NULL)
        yield_default(check, path);
    if (keeps_limit(check))
        return;
    refuse_limit(check, path);
    if (path != NULL) /* No further error may speak of a default that gave way in vain. */
        config_key_set_number(config_key_find(path), field_of(check, path), before);
}

/* ---- the interpreter: states ---- */

static void refuse_state(const struct check *check)
{
    const struct relation *row = check->row;
    bool excludes = row->op == EXCLUDES;
    struct sentence sentence = {.len = 0};
    say_state(&sentence, check, row->key);
    say(&sentence, excludes ? " and " : " needs ");
    say_state(&sentence, check, row->other);
    say_where(&sentence, check, row->other.key, row->key.key);
    if (!excludes)
        say_actual(&sentence, check, row->other);
    say(&sentence, "%s: %s; allowed: ", excludes ? " are mutually exclusive" : "", row->why);
    if (!excludes) {
        say_state(&sentence, check, row->other);
        say(&sentence, ", or ");
    }
    say_instead(&sentence, check, row->key);
    if (excludes) {
        say(&sentence, ", or ");
        say_instead(&sentence, check, row->other);
    }
    config_refuse(check->loading, row->key.key, index_of(check, row->key.key), "%s", sentence.text);
}

static void check_states(const struct check *check)
{
    const struct relation *row = check->row;
    const struct config_key *key = config_key_find(row->key.key);
    if (!is_in(check, row->key) || is_in(check, row->other) == (row->op == NEEDS))
        return;
    if (row->yields[0] == NULL || was_set(check, key->path)) {
        refuse_state(check);
        return;
    }
    /* The default gives way to the other one of two words. */
    CORE_ASSERT(key->type == TYPE_CHOICE && key->words[2] == NULL);
    config_key_set_number(key, field_of(check, key->path),
                          2 * key->min + 1 - number_of(check, key->path));
}

/* ---- the interpreter: all rows ---- */

static bool is_limit(const struct relation *row)
{
    return row->op == AT_LEAST || row->op == AT_MOST;
}

static void check_row(const struct check *check)
{
    const struct relation *row = check->row;
    if (was_bad(check, row->key.key) || was_bad(check, row->other.key) ||
        was_bad(check, row->minus) || was_bad(check, row->when.key) ||
        (row->when.key != NULL && !is_in(check, row->when)))
        return;
    if (is_limit(row))
        check_limit(check);
    else
        check_states(check);
}

/* Returns true if the key or the other one is of `scope`; no further key of a row has another. */
static bool has_scope(const struct relation *row, enum config_scope scope)
{
    return scope_of(row->key.key) == scope ||
           (row->other.key != NULL && scope_of(row->other.key) == scope);
}

void config_relations_check(struct config_loading *loading)
{
    const struct config *config = loading->config;
    for (size_t i = 0; i < RELATIONS; i++) {
        bool of_group = has_scope(&relations[i], SCOPE_GROUP),
             of_policy = has_scope(&relations[i], SCOPE_POLICY);
        for (size_t p = 0; p < (of_policy ? config->policy_count : 1); p++)
            for (size_t g = 0; g < (of_group ? config->group_count : 1); g++) {
                const struct check check = {loading, &relations[i], g, p};
                if (!of_group || !of_policy || concerns(&check, g))
                    check_row(&check);
            }
    }
}

void config_print_relations(FILE *out)
{
    static const char *const operations[] = {"at least", "at most", "needs", "excludes"};
    fputs("| key | relation | default that gives way | why |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < RELATIONS; i++) {
        const struct relation *row = &relations[i];
        const struct check check = {.row = row};
        struct sentence line = {.len = 0};
        say_state(&line, &check, row->key);
        say(&line, " | %s ", operations[row->op]);
        if (is_limit(row))
            say_limit(&line, &check, /* gave_way= */ NULL);
        else
            say_state(&line, &check, row->other);
        say(&line, " |");
        for (int j = 0; j < 2 && row->yields[j] != NULL; j++)
            say(&line, "%s`%s`", j > 0 ? ", otherwise " : " ", row->yields[j]);
        fprintf(out, "| %s | %s |\n", line.text, row->why);
    }
}
