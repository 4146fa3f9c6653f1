/* A master: a keyspace, a clock of its own, and the shipped scripts on it. The shipped asking.c
 * asks it, and the shipped replies.c reads its replies. The effect of a command is read off the
 * keyspace before and after it. */
#include "world.h"

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMAND_BYTES = 256 * 1024, NAME_BYTES = 48 };

static const char *const prefixes[] = {"lock:", "other:"};

/* ---- names on the masters ---- */

struct name {
    char at[NAME_BYTES];
    size_t len;
};

enum kind { KIND_LOCK, KIND_TICKETS, KIND_NUMBER, KINDS };

static struct name names[KINDS][SIM_NAMES];

static void name_bucket(unsigned i)
{
    struct name *name = &names[KIND_NUMBER][i];
    name->len = (size_t)snprintf(name->at, sizeof name->at, NUMBER_KEY "%s%u",
                                 prefixes[i / SIM_KEYS], asking_bucket(names[KIND_LOCK][i].at));
}

void master_name_places(const struct options *options)
{
    static const char *const kinds[] = {"", "lockagent:ticket:"};
    for (unsigned kind = 0; kind < KIND_NUMBER; kind++)
        for (unsigned i = 0; i < SIM_NAMES; i++) {
            struct name *name = &names[kind][i];
            unsigned place = i % SIM_KEYS;
            bool is_slot = options_kind(options, (uint8_t)place).permits > 1 ||
                           /* a place that no key uses */
                           (options->permits > 1 && place >= options->keys);
            char slot[24] = "";
            if (is_slot)
                snprintf(slot, sizeof slot, "lockagent:slot:%u:", place / options->keys);
            struct text key = options_key_text((uint8_t)(is_slot ? place % options->keys : place));
            name->len = (size_t)snprintf(name->at, sizeof name->at, "%s%s%s%.*s", kinds[kind], slot,
                                         prefixes[i / SIM_KEYS], (int)key.len, key.at);
        }
    for (unsigned i = 0; i < SIM_NAMES; i++)
        name_bucket(i);
}

static struct bytes name_of(enum kind kind, uint8_t name)
{
    return (struct bytes){names[kind][name].at, names[kind][name].len};
}

uint8_t master_name(const struct world *w, uint8_t agent, uint8_t key)
{
    return world_breaks(w, BREAK_DISAGREEMENT) && agent % 2 == 1 ? (uint8_t)(key + SIM_KEYS) : key;
}

static uint8_t name_of_channel(struct bytes channel)
{
    static const char ours[] = "lockagent:channel:", javas[] = "redisson_lock__channel:{";
    bool java = channel.at[0] == javas[0]; /* it ends with the other brace */
    uint8_t key = (uint8_t)(channel.at[channel.len - 1 - java] - '0');
    char first = channel.at[java ? sizeof javas - 1 : sizeof ours - 1];
    return first == prefixes[0][0] ? key : (uint8_t)(key + SIM_KEYS);
}

/* ---- the clock and the keys ---- */

int64_t master_wall_at(const struct world *w, uint8_t index, int64_t at)
{
    const struct master *master = &w->masters[index];
    return 1700000000000000 + at + at * master->rate_ppm / 1000000 + master->wall_us +
           master->jumped_us;
}

int64_t master_wall_us(const struct world *w, uint8_t index)
{
    return master_wall_at(w, index, w->now);
}

struct bytes master_lock_name(uint8_t name)
{
    return name_of(KIND_LOCK, name);
}

static struct keyspace *keys_now(struct world *w, uint8_t index)
{
    struct keyspace *keyspace = w->masters[index].keyspace;
    keyspace->now_us = master_wall_us(w, index);
    return keyspace;
}

/* An agent is on the channel of those that wait once for each key: scripts look whether any is. */
static uint32_t subscribers(void *owner, struct bytes channel)
{
    static const char waiting[] = WAITING_CHANNEL;
    const struct master *master = owner;
    uint32_t agents = 0;
    if (channel.len == sizeof waiting - 1 && memcmp(channel.at, waiting, channel.len) == 0) {
        for (uint8_t name = 0; name < SIM_NAMES; name++)
            agents += channel_agents(master->world, master->index, name);
        return agents;
    }
    return channel_agents(master->world, master->index, name_of_channel(channel));
}

static uint32_t publish(void *owner, struct bytes channel, struct bytes message)
{
    const struct master *master = owner;
    return channel_publish(master->world, master->index, name_of_channel(channel), message);
}

/* A command of the simulator's own. */
static void put(struct world *w, uint8_t index, const char *const *words, unsigned count)
{
    struct bytes args[24];
    for (unsigned i = 0; i < count; i++)
        args[i] = (struct bytes){words[i], strlen(words[i])};
    keyspace_command(keys_now(w, index), args, count);
}

static void print_epoch(uint8_t index, char text[16], uint16_t epoch)
{
    snprintf(text, 16, "%u", MARKER_EPOCH(epoch, index));
}

/* An installer has trusted all of them: they vote at once. */
static void put_first_marker(struct world *w, uint8_t index)
{
    char epoch[16], run[16], max_ttl[16], longer_since[24], top[24], vote[GUARD_VOTE_BYTES];
    int64_t wall_us = master_wall_us(w, index);
    print_epoch(index, epoch, w->masters[index].epoch);
    snprintf(run, sizeof run, "%u", w->masters[index].boot);
    snprintf(max_ttl, sizeof max_ttl, "%u", w->config.max_ttl_ms);
    snprintf(longer_since, sizeof longer_since, "%lld", (long long)(wall_us / 1000));
#ifdef SMALL_WORLD /* no number of a script is above it, so that markers hardly ever change */
    snprintf(top, sizeof top, "%lld", (long long)wall_us + 3600000000);
#else
    snprintf(top, sizeof top, "%lld", (long long)wall_us);
#endif
    const char *replid = w->masters[index].keyspace->replid;
    if (*replid)
        snprintf(vote, sizeof vote, "@%s:%s:%s:%016d", run, epoch, replid, 0);
    else
        snprintf(vote, sizeof vote, "=%s:%s:%016d", run, epoch, 0);
    const char *const marker[] = {
        "HSET",    MARKER_KEY, "epoch",        epoch,        "run",    run,   "since", "0",
        "max_ttl", max_ttl,    "longer",       max_ttl,      "told",   "1",   "top",   top,
        "floor",   "0",        "longer_since", longer_since, "replid", replid};
    put(w, index, marker, sizeof marker / sizeof marker[0]);
    put(w, index, (const char *const[]){"SET", VOTE_KEY, vote}, 3);
}

void master_begin_history(struct master *master)
{
    struct keyspace *keyspace = master->keyspace;
    memcpy(keyspace->replid2, keyspace->replid, sizeof keyspace->replid2);
    snprintf(keyspace->replid, sizeof keyspace->replid, "%040x", ++master->histories);
}

void master_reset(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[index];
    struct keyspace *keyspace = master->keyspace, *snapshot = master->snapshot.keyspace;
    memset(master, 0, sizeof *master);
    master->chance = prng_stream(w->seed, STREAM_MASTER, index);
    master->keyspace = keyspace == NULL ? keyspace_new() : keyspace;
    master->snapshot.keyspace = snapshot == NULL ? keyspace_new() : snapshot;
    master->world = w;
    master->index = index;
    master->keyspace->owner = master;
    master->keyspace->subscribers = subscribers;
    master->keyspace->publish = publish;
    keyspace_clear(master->keyspace);
    keyspace_clear(master->snapshot.keyspace);
    master->rate_ppm = prng_between(&master->chance, -w->options.rate_ppm, w->options.rate_ppm);
    master->wall_us = prng_percent(&master->chance, 80)
                          ? prng_between(&master->chance, -5000, 5000)
                          : prng_between(&master->chance, -100000000, 100000000);
    master->epoch = (uint16_t)prng_between(&master->chance, 1, 1000);
    master->parked_end = &master->parked;
    /* Numbers outlive lost buckets only by time. So the clocks are near each other if these are
     * lost. */
    if (w->switches.forgetful && !w->options.steps_clocks)
        master->wall_us = prng_between(&master->chance, -5000, 5000);
    memset(master->keyspace->replid, 0, sizeof master->keyspace->replid);
    if (w->options.replicas > 0)
        master_begin_history(master);
    if (w->switches.forgetful)
        put_first_marker(w, index);
    /* A foreign key occupies one lock on one master. With a majority to decide, the other masters
     * are enough. If the masters are away in turn, one more would be too many. */
    if (index == 0 && w->options.masters >= 5 && prng_percent(&master->chance, 3) &&
        !w->switches.in_turn) {
        const char *const words[] = {"RPUSH", "lock:k0", "x"};
        put(w, index, words, 3);
    }
}

void master_clear(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[index];
    keyspace_clear(master->keyspace);
    memset(master->keys, 0, sizeof master->keys);
}

void master_snapshot(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[index];
    keyspace_copy(master->snapshot.keyspace, master->keyspace);
    memcpy(master->snapshot.keys, master->keys, sizeof master->keys);
}

void master_roll_back(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[index];
    keyspace_copy(master->keyspace, master->snapshot.keyspace);
    memcpy(master->keys, master->snapshot.keys, sizeof master->keys);
}

void master_forget(struct world *w, uint8_t index)
{
    world_say(w, "m%u forgets everything", index);
    master_clear(w, index);
    w->masters[index].epoch++;
    if (w->options.steps_clocks) {
        int64_t was_us = w->masters[index].wall_us;
        w->masters[index].wall_us = prng_between(&w->masters[index].chance, -100000000, 100000000);
        if (w->masters[index].wall_us > was_us)
            clocks_stepped(w, index, w->masters[index].wall_us - was_us);
    }
    w->forgot_at = w->now;
    w->figures.forgotten++;
}

/* ---- holders of a key ---- */

enum { HOLDERS_MAX = 2 * SIM_LOCKS * SIM_AGENTS };

/* The stored random parts. A mutex has one. If readers share the key, each live entry has one
 * (R17). Strangers have none. */
struct holders {
    unsigned count;
    char random[HOLDERS_MAX][TOKEN_RANDOM_CHARS];
    bool reads; /* all of them */
};

static void add_holder(struct holders *holders, const char *random)
{
    if (holders->count == HOLDERS_MAX)
        abort();
    memcpy(holders->random[holders->count++], random, TOKEN_RANDOM_CHARS);
}

static void add_entries(struct holders *holders, const struct entry *entry, int64_t now_ms)
{
    for (uint32_t i = 0; i < entry->field_count; i++) {
        const struct field *field = &entry->fields[i];
        if (field->score <= (double)now_ms || field->name.len < 2 + TOKEN_RANDOM_CHARS)
            continue;
        add_holder(holders, field->name.at + 2);
        holders->reads = holders->reads && field->name.at[0] == 'r';
    }
}

/* R22: the fields of agents have the shape of their values. */
static bool is_agents(const struct field *field)
{
    return field->name.len > TOKEN_RANDOM_CHARS && field->name.at[TOKEN_RANDOM_CHARS] == ':';
}

static void read_holders(struct world *w, uint8_t index, uint8_t name, struct holders *ret_holders)
{
    struct keyspace *keyspace = keys_now(w, index);
    const struct entry *entry = keyspace_find(keyspace, name_of(KIND_LOCK, name));
    ret_holders->count = 0;
    ret_holders->reads = true;
    if (entry != NULL && entry->type == VALUE_SORTED) {
        add_entries(ret_holders, entry, keyspace->now_us / 1000);
    } else if (entry != NULL && entry->type == VALUE_HASH) {
        for (uint32_t i = 0; i < entry->field_count; i++)
            if (is_agents(&entry->fields[i]))
                add_holder(ret_holders, entry->fields[i].name.at);
        ret_holders->reads = ret_holders->count == 0;
    } else if (entry != NULL && entry->type == VALUE_STRING &&
               entry->value.len > TOKEN_RANDOM_CHARS &&
               entry->value.at[TOKEN_RANDOM_CHARS] == ':') {
        add_holder(ret_holders, entry->value.at);
        ret_holders->reads = false;
    }
}

/* Printed at the most once, and compared with as many masters' as there are. */
static void print_random(const uint8_t random[RANDOM_BYTES], char text[TOKEN_RANDOM_CHARS])
{
    struct token token;
    memcpy(token.random, random, RANDOM_BYTES);
    token_print_random(&token, text);
}

static bool has_text(const struct holders *holders, const char text[TOKEN_RANDOM_CHARS])
{
    for (unsigned i = 0; i < holders->count; i++)
        if (memcmp(holders->random[i], text, TOKEN_RANDOM_CHARS) == 0)
            return true;
    return false;
}

static bool has_random(const struct holders *holders, const uint8_t random[RANDOM_BYTES])
{
    char text[TOKEN_RANDOM_CHARS];
    if (holders->count == 0)
        return false;
    print_random(random, text);
    return has_text(holders, text);
}

static uint8_t nibble(char digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static void read_random(const char *stored, uint8_t ret_random[RANDOM_BYTES])
{
    for (unsigned i = 0; i < RANDOM_BYTES; i++)
        ret_random[i] = (uint8_t)(nibble(stored[2 * i]) << 4 | nibble(stored[2 * i + 1]));
}

bool master_holds(struct world *w, uint8_t index, uint8_t name, const uint8_t random[RANDOM_BYTES])
{
    static struct holders holders;
    read_holders(w, index, name, &holders);
    return has_random(&holders, random);
}

unsigned master_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES])
{
    unsigned count = 0;
    for (uint8_t m = 0; m < w->options.masters; m++)
        count += master_holds(w, m, name, random);
    return count;
}

uint16_t master_set_having(struct world *w, uint8_t name, const struct token *token)
{
    uint16_t set = 0;
    for (uint8_t m = 0; m < w->options.masters; m++)
        if (master_holds(w, m, name, token->random))
            set |= (uint16_t)(1u << m);
    return set;
}

bool master_holder(struct world *w, uint8_t index, uint8_t name, unsigned which,
                   uint8_t ret_random[RANDOM_BYTES])
{
    static struct holders holders;
    read_holders(w, index, name, &holders);
    if (which < holders.count)
        read_random(holders.random[which], ret_random);
    return which < holders.count;
}

bool master_is_locked(struct world *w, uint8_t index, uint8_t name)
{
    static struct holders holders;
    read_holders(w, index, name, &holders);
    return holders.count > 0;
}

int64_t master_next_end_ms(struct world *w, uint8_t index, uint8_t name)
{
    struct keyspace *keyspace = keys_now(w, index);
    const struct entry *entry = keyspace_find(keyspace, name_of(KIND_LOCK, name));
    int64_t next = INT64_MAX;
    if (entry != NULL && entry->type != VALUE_SORTED && entry->expires_ms >= 0)
        return entry->expires_ms + 1; /* a server keeps it for all of its last millisecond */
    for (uint32_t i = 0; entry != NULL && i < entry->field_count; i++) {
        int64_t ends_ms = (int64_t)entry->fields[i].score;
        if (ends_ms > keyspace->now_us / 1000 && ends_ms < next)
            next = ends_ms;
    }
    return next;
}

/* ---- tickets (R9, order fair) ---- */

static const struct kept_ticket *ticket_of(const struct master_key *key, uint64_t agent)
{
    for (unsigned i = 0; i < SIM_TICKETS; i++)
        if (key->tickets[i].agent == agent)
            return &key->tickets[i];
    return NULL;
}

/* Notes the tickets that the keyspace has now; that of the order's agent, if there, was written by
 * it. */
static void note_tickets(struct world *w, uint8_t index, const struct message *message,
                         const struct order *order)
{
    uint8_t name = master_name(w, message->agent, order->key);
    struct master_key *key = &w->masters[index].keys[name], noted;
    const struct entry *entry = keyspace_find(keys_now(w, index), name_of(KIND_TICKETS, name));
    if (entry != NULL && entry->version == key->tickets_version)
        return;
    if (entry == NULL && key->tickets_version == 0)
        return;
    noted = *key;
    memset(key->tickets, 0, sizeof key->tickets);
    key->tickets_version = entry == NULL ? 0 : entry->version;
    for (uint32_t i = 0;
         entry != NULL && entry->type == VALUE_HASH && i < entry->field_count && i < SIM_TICKETS;
         i++) {
        const struct field *field = &entry->fields[i];
        struct kept_ticket *ticket = &key->tickets[i];
        char text[64] = "", *end;
        memcpy(text, field->value.at,
               field->value.len < sizeof text ? field->value.len : sizeof text - 1);
        memset(text + sizeof text - 1, 0, 1);
        ticket->number = strtoull(text, &end, 10);
        ticket->until_ms = strtoll(*end == ':' ? end + 1 : end, &end, 10);
        ticket->mode = strcmp(end, ":r") == 0 ? MODE_READ : MODE_WRITE;
        memcpy(text, field->name.at, 16);
        text[16] = '\0';
        ticket->agent = strtoull(text, NULL, 16);
        const struct kept_ticket *before = ticket_of(&noted, ticket->agent);
        bool written = ticket->agent == order->ticket.agent || before == NULL;
        ticket->by = written ? message->agent : before->by;
        ticket->sent_at = written ? message->sent_at : before->sent_at;
    }
}

/* The lowest but that of `own`; of those whom one of this mode does not pass (R18). */
static const struct kept_ticket *first_ticket(const struct master_key *key, uint64_t own,
                                              enum mode mode)
{
    const struct kept_ticket *first = NULL;
    for (unsigned i = 0; i < SIM_TICKETS; i++) {
        const struct kept_ticket *ticket = &key->tickets[i];
        if (ticket->agent == 0 || ticket->agent == own ||
            (mode == MODE_READ && ticket->mode == MODE_READ))
            continue;
        if (first == NULL || ticket->number < first->number ||
            (ticket->number == first->number && ticket->agent < first->agent))
            first = ticket;
    }
    return first;
}

/* ---- commands ---- */

struct bytes master_command(struct world *w, uint8_t agent, enum op op,
                            const struct send_item *items, unsigned count)
{
    static char bytes[COMMAND_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    const struct config *naming = &w->naming[world_breaks(w, BREAK_DISAGREEMENT) && agent % 2 == 1];
    struct text command = asking_op(&resp, naming, 0, op, items, count);
    return (struct bytes){command.at, command.len};
}

static redisReply *run(struct world *w, uint8_t index, struct scripting *scripting,
                       struct bytes command)
{
    static redisReader *reader;
    void *reply = NULL;
    if (reader == NULL)
        reader = redisReaderCreate();
    struct bytes bytes = scripting_run(scripting, keys_now(w, index), command);
    if (redisReaderFeed(reader, bytes.at, bytes.len) != REDIS_OK ||
        redisReaderGetReply(reader, &reply) != REDIS_OK || reply == NULL)
        abort();
    return reply;
}

static bool is_lied_about(const struct world *w, uint8_t index, const struct message *message)
{
    for (unsigned i = 0; i < message->count; i++)
        if (w->masters[index].keys[master_name(w, message->agent, message->orders[i].key)].lies)
            return true;
    return false;
}

/* A server without memory runs the script. A server that cannot save refuses all writes. A server
 * whose cache was flushed knows no script. */
static redisReply *run_with(struct world *w, const struct flight *flight, enum mishap mishap)
{
    uint8_t index = flight->master;
    const struct message *message = flight->message;
    struct keyspace *keyspace = w->masters[index].keyspace;
    char unknown[128];
    if (mishap == MISHAP_NOT_RUN) {
        int len = snprintf(unknown, sizeof unknown,
                           "*3\r\n$7\r\nEVALSHA\r\n$40\r\n%040d\r\n$1\r\n0\r\n", 0);
        return run(w, index, w->scripting, (struct bytes){unknown, (size_t)len});
    }
    if (mishap == MISHAP_REFUSED)
        keyspace->refusal = message->sent_at % 2 == 0 ? REFUSES_OOM : REFUSES_MISCONF;
    redisReply *reply =
        run(w, index, is_lied_about(w, index, message) ? w->lying : w->scripting, flight->command);
    keyspace->refusal = REFUSES_NOTHING;
    return reply;
}

static struct verdict verdict_of(enum op op, const redisReply *entry)
{
    struct verdict verdict = {.reply = {.vote = VOTE_UNKNOWN, .occupant.left_ms = -1}};
    if (entry != NULL)
        item_reply_read(op, entry, &verdict.reply);
    struct text *label = &verdict.reply.occupant.label;
    label->len = label->len < SIM_LABEL ? label->len : SIM_LABEL;
    if (label->len != 0)
        memcpy(verdict.label, label->at, label->len);
    label->at = NULL; /* The explorer compares verdicts by their bytes. */
    return verdict;
}

static void note_deleted(struct world *w, uint8_t index, const struct message *message,
                         const struct order *order, const struct holders *before,
                         const struct holders *after)
{
    uint8_t random[RANDOM_BYTES];
    for (unsigned i = 0; i < before->count; i++) {
        if (has_text(after, before->random[i]))
            continue;
        read_random(before->random[i], random);
        checker_deleted(w, index, message, order, random);
    }
}

/* R17. */
static bool has_room(const struct holders *before, const struct message *message,
                     const struct order *order)
{
    bool inherits = message->op == OP_HANDOVER && has_random(before, order->previous.random);
    return before->count == 0 || inherits || (before->reads && order->mode == MODE_READ);
}

static void note_deeds(struct world *w, uint8_t index, const struct message *message,
                       const struct order *order, const struct verdict *verdict,
                       const struct holders *before)
{
    static struct holders after;
    uint8_t name = master_name(w, message->agent, order->key);
    bool takes = message->op == OP_ACQUIRE || message->op == OP_HANDOVER;
    read_holders(w, index, name, &after);
    note_deleted(w, index, message, order, before, &after);
    if (message->op == OP_REPAIR && !has_random(before, order->token.random) &&
        has_random(&after, order->token.random))
        checker_repaired(w, index, message, order);
    w->figures.guarded += verdict->reply.vote == VOTE_GUARDED;
    w->figures.spoiled += verdict->reply.vote == VOTE_SPOILED;
    w->figures.withdrawn += message->op == OP_WITHDRAW;
    if (order->ticket.agent == 0)
        return;
    note_tickets(w, index, message, order);
    const struct kept_ticket *first =
        first_ticket(&w->masters[index].keys[name], order->ticket.agent, order->mode);
    bool is_taken = takes && verdict->reply.vote == VOTE_TAKEN;
    if (is_taken && has_room(before, message, order) && first != NULL) {
        w->figures.queued++;
        turns_withheld(w, index, order->key, first);
    }
}

/* The marker's epoch is a number; without a marker it is the master's present one. */
static void read_epoch(const struct world *w, struct flight *flight, const redisReply *reply)
{
    const char *epoch = reply_epoch(flight->message->op, reply);
    flight->unmarked = epoch != NULL && *epoch == '\0';
    flight->epoch = epoch == NULL ? 0
                    : *epoch == '\0'
                        ? MARKER_EPOCH(w->masters[flight->master].epoch, flight->master)
                        : (uint16_t)strtoul(epoch, NULL, 10);
}

/* Returns the version of Java's data there; 0: nothing. */
static uint64_t javas_version(struct world *w, uint8_t index, uint8_t name)
{
    const struct entry *entry = keyspace_find(keys_now(w, index), name_of(KIND_LOCK, name));
    bool is_javas = entry != NULL && entry->type == VALUE_HASH &&
                    memcmp(entry->fields[0].name.at, "java", 4) == 0;
    return is_javas ? entry->version : 0;
}

/* C18. */
static void check_fields(struct world *w, uint8_t index, uint8_t name, uint64_t javas_before)
{
    static const struct bytes mode = {"mode", 4};
    const struct entry *entry = keyspace_find(keys_now(w, index), name_of(KIND_LOCK, name));
    if (javas_before != 0 && javas_version(w, index, name) != javas_before)
        checker_fail(w, "C18 an agent changed what Java has of k%u on m%u", name, index);
    if (javas_before != 0 || entry == NULL || entry->type != VALUE_HASH)
        return;
    const struct string *owner = entry_field(entry, mode);
    bool well = entry->field_count == 2 && entry->expires_ms >= 0 && owner != NULL &&
                owner->len == 9 && memcmp(owner->at, "lockagent", 9) == 0;
    for (uint32_t i = 0; well && i < entry->field_count; i++)
        if (is_agents(&entry->fields[i]))
            well = entry->fields[i].value.len == 1 && entry->fields[i].value.at[0] == '1';
    if (!well)
        checker_fail(w, "C18 what an agent stores of k%u on m%u is not one holder, once", name,
                     index);
}

void master_execute(struct world *w, struct flight *flight, enum mishap mishap,
                    struct verdict *ret_verdicts)
{
    uint8_t index = flight->master;
    const struct message *message = flight->message;
    static struct holders before[LIMIT_BATCH];
    static uint64_t javas[LIMIT_BATCH];
    for (unsigned i = 0; i < message->count; i++) {
        uint8_t name = master_name(w, message->agent, message->orders[i].key);
        read_holders(w, index, name, &before[i]);
        javas[i] = javas_version(w, index, name);
    }
    redisReply *reply = run_with(w, flight, mishap);
    for (unsigned i = 0; i < message->count; i++) {
        const redisReply *entry = reply_entry(message->op, message->count, reply, i);
        ret_verdicts[i] = verdict_of(message->op, entry);
        if (w->verbose && entry != NULL && entry->type == REDIS_REPLY_ERROR)
            world_say(w, "    m%u: %s", index, entry->str);
        note_deeds(w, index, message, &message->orders[i], &ret_verdicts[i], &before[i]);
        uint8_t name = master_name(w, message->agent, message->orders[i].key);
        if (options_kind(&w->options, message->orders[i].key).redisson)
            check_fields(w, index, name, javas[i]);
        checker_ran(w, index, message->orders[i].key, before[i].count > 0,
                    master_is_locked(w, index, name));
    }
    read_epoch(w, flight, reply);
    freeReplyObject(reply);
}

void master_replies(const struct flight *flight, const struct verdict *verdicts, enum vote vote,
                    struct event_reply *ret_replies)
{
    const struct message *message = flight->message;
    for (size_t i = 0; i < message->count; i++) {
        struct event_reply *reply = &ret_replies[i];
        *reply = verdicts == NULL ? (struct event_reply){.vote = vote, .occupant.left_ms = -1}
                                  : verdicts[i].reply;
        reply->group = message->group;
        reply->master = flight->master;
        reply->op = message->op;
        reply->ref = message->orders[i].ref;
        if (verdicts != NULL)
            reply->occupant.label.at = verdicts[i].label;
    }
}

/* ---- scripts of other users (R22) ---- */

int64_t master_eval(struct world *w, uint8_t index, const char *script, uint8_t key,
                    const char *holder, int64_t lease_ms)
{
    char bytes[4096], channel[96];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    struct bytes name = name_of(KIND_LOCK, key);
    snprintf(channel, sizeof channel, "redisson_lock__channel:{%.*s}", (int)name.len, name.at);
    resp_begin(&resp);
    resp_text(&resp, "EVAL");
    resp_text(&resp, script);
    resp_number(&resp, 2);
    resp_bytes(&resp, name.at, name.len);
    resp_text(&resp, channel);
    resp_text(&resp, holder);
    resp_number(&resp, (uint64_t)lease_ms);
    struct text command = resp_end(&resp);
    redisReply *reply = run(w, index, w->scripting, (struct bytes){command.at, command.len});
    bool is_foreign = reply->type == REDIS_REPLY_ERROR; /* a key of another type */
    int64_t number = is_foreign ? 0 : reply->integer;
    freeReplyObject(reply);
    return number;
}

void master_forget_java(struct world *w, uint8_t index, uint8_t key)
{
    char name[NAME_BYTES];
    struct bytes lock = name_of(KIND_LOCK, key);
    if (javas_version(w, index, key) == 0)
        return;
    snprintf(name, sizeof name, "%.*s", (int)lock.len, lock.at);
    put(w, index, (const char *const[]){"DEL", name}, 2);
}

/* ---- the marker (D5.3) ---- */

/* A number of the marker; 0: it is missing. */
static uint64_t marker_number(struct world *w, uint8_t index, const char *field)
{
    static const struct bytes marker = {MARKER_KEY, sizeof MARKER_KEY - 1};
    const struct entry *entry = keyspace_find(keys_now(w, index), marker);
    if (entry == NULL || entry->type != VALUE_HASH)
        return 0;
    const struct string *number = entry_field(entry, (struct bytes){field, strlen(field)});
    char text[RESP_DIGITS_MAX + 1] = "";
    if (number == NULL || number->len >= sizeof text)
        return 0;
    memcpy(text, number->at, number->len);
    return strtoull(text, NULL, 10);
}

uint64_t master_top(struct world *w, uint8_t index)
{
    return marker_number(w, index, "told") == 0 ? 0 : marker_number(w, index, "top");
}

void master_mark(struct world *w, uint8_t index, const struct guard_ask *ask, int64_t wall_us,
                 struct guard_answer *ret_answer)
{
    struct master *master = &w->masters[index];
    char bytes[1024], epoch[16], run_id[16];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    print_epoch(index, epoch, (uint16_t)(master->epoch + 1));
    snprintf(run_id, sizeof run_id, "%u", master->boot);
    bool was_told = marker_number(w, index, "told") != 0;
    struct text command = asking_marker_as(&resp, ask, run_id, epoch, wall_us, /* whole= */ false);
    redisReply *reply = run(w, index, w->scripting, (struct bytes){command.at, command.len});
    struct guard_layouts layouts;
    if (!asking_read_marker(reply, ret_answer, &layouts))
        abort();
    freeReplyObject(reply);
    if (strcmp(ret_answer->epoch, epoch) == 0) {
        master->epoch++;
        master->epoch_at = w->epoch_at = w->now;
        world_say(w, "m%u begins epoch %u", index, master->epoch);
    }
    if (ask->question == GUARD_ASK_TELL)
        world_say(w, "m%u is told top %llu: %s", index, (unsigned long long)ask->top,
                  ret_answer->told == GUARD_GUESSED ? "a guess"
                  : ret_answer->told == GUARD_TOLD  ? "it remembers"
                                                    : "in vain");
    if (!was_told && ret_answer->told == GUARD_GUESSED)
        checker_guessed(w, ret_answer->floor);
}

/* ---- a number that no agent granted (R12) ---- */

void master_plant(struct world *w, uint8_t index, uint8_t key, uint64_t number, bool lies)
{
    const struct name *bucket = &names[KIND_NUMBER][key];
    char digits[RESP_DIGITS_MAX + 1];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    const char *const words[] = {"ZADD", bucket->at, digits, "n"};
    put(w, index, words, sizeof words / sizeof words[0]);
    for (uint8_t i = 0; i < SIM_NAMES; i++) {
        bool shares = strcmp(names[KIND_NUMBER][i].at, bucket->at) == 0;
        w->masters[index].keys[i].planted |= shares;
        w->masters[index].keys[i].lies |= shares && lies;
    }
}

void master_raise(struct world *w, uint8_t index, uint8_t key, uint64_t number)
{
    char digits[RESP_DIGITS_MAX + 1];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    const char *const words[] = {"ZADD", names[KIND_NUMBER][key].at, "GT", digits, "n"};
    put(w, index, words, sizeof words / sizeof words[0]);
}

/* ---- loading ---- */

static const struct replacement unbounded = {"common",
                                             "local exact, ahead = 9007199254740991, 172800000000",
                                             "local exact, ahead = 1e300, 1e300"};

void master_configure(struct world *w)
{
    for (unsigned i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        for (unsigned g = 0; g < SIM_GROUPS; g++)
            w->naming[i].groups[g].guard = w->switches.forgetful;
    }
}

const char *master_load(struct world *w, const struct replacement *replacement)
{
    const char *why = NULL;
    w->scripting = scripting_new(replacement, &why);
    if (w->switches.wild || w->switches.mixed)
        w->lying = scripting_new(&unbounded, &why);
    for (unsigned i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        struct config *naming = &w->naming[i];
        naming->group_count = SIM_GROUPS;
        naming->policy_count = SIM_POLICIES;
        for (unsigned g = 0; g < SIM_GROUPS; g++)
            naming->groups[g].guard = w->switches.forgetful;
        for (unsigned p = 0; p < SIM_POLICIES; p++) {
            snprintf(naming->policies[p].prefix, sizeof naming->policies[p].prefix, "%s",
                     prefixes[i]);
        }
    }
    return why;
}
