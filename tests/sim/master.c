/* A master: a keyspace, a clock of its own, and the shipped scripts on it. The shipped asking.c
 * asks it, and the shipped replies.c reads its replies. The effect of a command is read off the
 * keyspace before and after it. */
#include "master.h"

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const prefixes[] = {"lock:", "other:"};

/* ---- names on the masters ---- */

struct name {
    char at[SIM_NAME_BYTES];
    size_t len;
};

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

struct bytes master_stored_name(enum stored kind, uint8_t name)
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
    return master_stored_name(KIND_LOCK, name);
}

struct keyspace *master_keys_now(struct world *w, uint8_t index)
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
    static const char replicas[] = REPLICAS_CHANNEL;
    const struct master *master = owner;
    if (channel.len == sizeof replicas - 1 && memcmp(channel.at, replicas, channel.len) == 0)
        return 0; /* no agent subscribes to it (R21) */
    return channel_publish(master->world, master->index, name_of_channel(channel), message);
}

void master_put(struct world *w, uint8_t index, const char *const *words, unsigned count)
{
    struct bytes args[24];
    for (unsigned i = 0; i < count; i++)
        args[i] = (struct bytes){words[i], strlen(words[i])};
    keyspace_command(master_keys_now(w, index), args, count);
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
    master_put(w, index, marker, sizeof marker / sizeof marker[0]);
    master_put(w, index, (const char *const[]){"SET", VOTE_KEY, vote}, 3);
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
        master_put(w, index, words, 3);
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
    w->forgot_at = w->masters[index].forgot_at = w->now;
    w->figures.forgotten++;
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
    const struct entry *entry =
        keyspace_find(master_keys_now(w, index), master_stored_name(KIND_TICKETS, name));
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
    static char bytes[SIM_COMMAND_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    const struct config *naming = &w->naming[world_breaks(w, BREAK_DISAGREEMENT) && agent % 2 == 1];
    struct text command = asking_op(&resp, naming, 0, op, items, count);
    return (struct bytes){command.at, command.len};
}

const struct native *master_native(struct world *w, uint8_t agent, enum op op,
                                   const struct send_item *items, unsigned count)
{
    static char bytes[SIM_COMMAND_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    const struct config *naming = &w->naming[world_breaks(w, BREAK_DISAGREEMENT) && agent % 2 == 1];
    struct native *native = world_allocate(w, sizeof *native);
    *native = op == OP_ACQUIRE
                  ? asking_native(&resp, naming, 0, items, count)
                  : asking_native_release(&resp, naming, 0, COMPARE_DELETE_DELIFEQ, items, count);
    char *copy = world_allocate(w, native->bytes.len);
    memcpy(copy, native->bytes.at, native->bytes.len);
    native->bytes.at = copy;
    return native;
}

redisReply *master_run(struct world *w, uint8_t index, struct scripting *scripting,
                       struct bytes command)
{
    static redisReader *reader;
    void *reply = NULL;
    if (reader == NULL)
        reader = redisReaderCreate();
    struct bytes bytes = scripting_run(scripting, master_keys_now(w, index), command);
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
 * whose cache was flushed knows no script. Native commands need none, and are then refused for
 * another reason. */
static redisReply *run_with(struct world *w, const struct flight *flight, enum mishap mishap)
{
    uint8_t index = flight->master;
    const struct message *message = flight->message;
    struct keyspace *keyspace = w->masters[index].keyspace;
    char unknown[128];
    if (mishap == MISHAP_NOT_RUN && flight->vote == NULL) {
        int len = snprintf(unknown, sizeof unknown,
                           "*3\r\n$7\r\nEVALSHA\r\n$40\r\n%040d\r\n$1\r\n0\r\n", 0);
        return master_run(w, index, w->scripting, (struct bytes){unknown, (size_t)len});
    }
    if (mishap != MISHAP_NONE)
        keyspace->refusal = message->sent_at % 2 == 0 ? REFUSES_OOM : REFUSES_MISCONF;
    redisReply *reply = master_run(
        w, index, is_lied_about(w, index, message) ? w->lying : w->scripting, flight->command);
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

static struct verdict native_verdict_of(const struct flight *flight, const redisReply *reply,
                                        unsigned i)
{
    struct event_reply replies[LIMIT_BATCH];
    const struct native_results call = {.takes = flight->message->native->takes,
                                        .results = flight->message->native->results,
                                        .fencing = flight->message->orders[0].fencing,
                                        .vote = *flight->vote == '\0' ? NULL : flight->vote,
                                        .clock_ms = flight->message->clocks_ms[flight->master],
                                        .spread_ms = flight->message->native->spread_ms};
    if (!native_reply_is_possible(&call, reply))
        abort();
    (void)native_reply_read(&call, flight->message->count, reply, replies);
    return (struct verdict){.reply = replies[i]};
}

static void note_deleted(struct world *w, uint8_t index, const struct message *message,
                         const struct order *order, const struct holders *before,
                         const struct holders *after)
{
    uint8_t random[RANDOM_BYTES];
    for (unsigned i = 0; i < before->count; i++) {
        if (holders_have_text(after, before->random[i]))
            continue;
        holders_read_random(before->random[i], random);
        checker_deleted(w, index, message, order, random);
    }
}

/* R17. */
static bool has_room(const struct holders *before, const struct message *message,
                     const struct order *order)
{
    bool inherits = message->op == OP_HANDOVER && holders_have(before, order->previous.random);
    return before->count == 0 || inherits || (before->reads && order->mode == MODE_READ);
}

static void note_deeds(struct world *w, uint8_t index, const struct message *message,
                       const struct order *order, const struct verdict *verdict,
                       const struct holders *before)
{
    static struct holders after;
    uint8_t name = master_name(w, message->agent, order->key);
    bool takes = message->op == OP_ACQUIRE || message->op == OP_HANDOVER;
    holders_read(w, index, name, &after);
    note_deleted(w, index, message, order, before, &after);
    if (message->op == OP_REPAIR && !holders_have(before, order->token.random) &&
        holders_have(&after, order->token.random))
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
    const char *epoch = flight->vote != NULL ? NULL : reply_epoch(flight->message->op, reply);
    flight->unmarked = epoch != NULL && *epoch == '\0';
    flight->epoch = epoch == NULL ? 0
                    : *epoch == '\0'
                        ? MARKER_EPOCH(w->masters[flight->master].epoch, flight->master)
                        : (uint16_t)strtoul(epoch, NULL, 10);
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
        holders_read(w, index, name, &before[i]);
        javas[i] = master_javas_version(w, index, name);
    }
    redisReply *reply = run_with(w, flight, mishap);
    for (unsigned i = 0; i < message->count; i++) {
        const redisReply *entry =
            flight->vote != NULL ? reply : reply_entry(message->op, message->count, reply, i);
        ret_verdicts[i] = flight->vote != NULL ? native_verdict_of(flight, reply, i)
                                               : verdict_of(message->op, entry);
        if (w->verbose && entry != NULL && entry->type == REDIS_REPLY_ERROR)
            world_say(w, "    m%u: %s", index, entry->str);
        note_deeds(w, index, message, &message->orders[i], &ret_verdicts[i], &before[i]);
        uint8_t name = master_name(w, message->agent, message->orders[i].key);
        if (options_kind(&w->options, message->orders[i].key).redisson)
            master_check_fields(w, index, name, javas[i]);
        checker_ran(w, index, message->orders[i].key, before[i].count > 0,
                    master_is_locked(w, index, name));
        labels_stored(w, index, message, &message->orders[i], &ret_verdicts[i]);
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

/* ---- the marker (D5.3) ---- */

/* A number of the marker; 0: it is missing. */
static uint64_t marker_number(struct world *w, uint8_t index, const char *field)
{
    static const struct bytes marker = {MARKER_KEY, sizeof MARKER_KEY - 1};
    const struct entry *entry = keyspace_find(master_keys_now(w, index), marker);
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
    redisReply *reply = master_run(w, index, w->scripting, (struct bytes){command.at, command.len});
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

/* ---- a key that a clock set back prolongs (R24) ---- */

/* Returns true if a hold that is valid has the key: a renewal has found it there. */
static bool is_of_a_hold(struct world *w, uint8_t index, uint8_t name)
{
    for (uint32_t i = 1; i < w->hold_count; i++)
        if (!w->holds[i].ended && w->holds[i].window_until > w->now &&
            master_holds(w, index, name, w->holds[i].token.random))
            return true;
    return false;
}

void master_end_set_back(struct world *w, uint8_t index, uint8_t name)
{
    struct master_key *key = &w->masters[index].keys[name];
    if (!key->set_back || is_of_a_hold(w, index, name))
        return;
    if (master_is_locked(w, index, name)) {
        const char *const words[] = {"DEL", names[KIND_LOCK][name].at};
        master_put(w, index, words, sizeof words / sizeof words[0]);
    }
    key->set_back = false;
}

/* ---- loading ---- */

static const struct replacement unbounded = {"common",
                                             "local exact, ahead = 9007199254740991, 172800000000",
                                             "local exact, ahead = 1e300, 1e300"};

static void set_group(const struct world *w, struct config_group *group)
{
    group->guard = w->switches.forgetful;
    group->node_timeout_ms = w->options.node_timeout_ms;
}

void master_configure(struct world *w)
{
    for (unsigned i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        for (unsigned g = 0; g < SIM_GROUPS; g++)
            set_group(w, &w->naming[i].groups[g]);
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
            set_group(w, &naming->groups[g]);
        for (unsigned p = 0; p < SIM_POLICIES; p++) {
            snprintf(naming->policies[p].prefix, sizeof naming->policies[p].prefix, "%s",
                     prefixes[i]);
        }
    }
    return why;
}
