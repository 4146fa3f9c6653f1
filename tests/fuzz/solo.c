/* The agent's surroundings: commands wait at each master, in order, until it answers them.
 *
 *   agent --send--> [waits ...] --answered, refused, or its connection ends--> agent
 */
#include "tests/fuzz/solo.h"

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "tests/sim/world.h"

enum { TOKENS = 64, QUEUE = 256, REST_STEPS = 20000 };

struct parcel { /* one command to one master */
    struct parcel *next;
    struct message *message; /* in the same block */
    char *command;           /* its bytes; NULL: it concerns more keys than there is room for */
};
struct link {
    bool up;
    struct parcel *first, **last;
};

static struct solo {
    struct world world; /* the masters' half of it */
    unsigned masters;
    struct core *core;
    solo_answered_fn *answered;
    struct link links[SIM_MASTERS];
    bool open[SOLO_REQUESTS], cancelled[SOLO_REQUESTS], watches[SIM_KEYS];
    unsigned open_count;
    int64_t epoch_us; /* when this run began */
    struct token tokens[TOKENS];
    unsigned token_count;
    struct text keys[SIM_KEYS];
    char key_bytes[SIM_KEYS][LIMIT_KEY_BYTES];
    uint8_t key_count;
    struct effects effects;
    bool stepping;
    struct event queue[QUEUE];
    unsigned queued;
} solo;

struct instant solo_now(void)
{
    return (struct instant){solo.epoch_us + solo.world.now};
}

struct core *solo_core(void)
{
    return solo.core;
}

bool solo_token(unsigned i, struct token *ret_token)
{
    if (i >= solo.token_count)
        return false;
    *ret_token = solo.tokens[i];
    return true;
}

/* Returns the number of a key. Masters refuse a command about more keys than they have room for. */
static uint8_t key_number(struct text key)
{
    for (uint8_t i = 0; i < solo.key_count; i++)
        if (solo.keys[i].len == key.len && memcmp(solo.keys[i].at, key.at, key.len) == 0)
            return i;
    if (solo.key_count == SIM_KEYS)
        return SIM_KEYS;
    uint8_t i = solo.key_count++;
    memcpy(solo.key_bytes[i], key.at, key.len);
    solo.keys[i] = (struct text){solo.key_bytes[i], key.len};
    return i;
}

/* ---- reports that other tests check (the simulator, the schedule) ---------------------------- */

/* For native commands, of which there are none here: no master's clock is read. */
void *world_allocate(struct world *w, size_t bytes)
{
    (void)w, (void)bytes;
    FUZZ_CHECK(false, "native commands");
    return NULL;
}

void world_say(struct world *w, const char *format, ...)
{
    (void)w, (void)format;
}

void checker_fail(struct world *w, const char *format, ...)
{
    (void)w;
    FUZZ_CHECK(false, "%s", format);
}

void clocks_stepped(struct world *w, uint8_t master, int64_t us)
{
    (void)w, (void)master, (void)us;
}

void checker_guessed(struct world *w, uint64_t floor)
{
    (void)w, (void)floor;
}

void checker_ran(struct world *w, uint8_t master, uint8_t place, bool was_there, bool is_there)
{
    (void)w, (void)master, (void)place, (void)was_there, (void)is_there;
}

void labels_stored(struct world *w, uint8_t master, const struct message *message,
                   const struct order *order, const struct verdict *verdict)
{
    (void)w, (void)master, (void)message, (void)order, (void)verdict;
}

void checker_repaired(struct world *w, uint8_t master, const struct message *message,
                      const struct order *order)
{
    (void)w, (void)master, (void)message, (void)order;
}

void turns_withheld(struct world *w, uint8_t master, uint8_t key, const struct kept_ticket *ticket)
{
    (void)w, (void)master, (void)key, (void)ticket;
}

void checker_deleted(struct world *w, uint8_t master, const struct message *message,
                     const struct order *order, const uint8_t random[RANDOM_BYTES])
{
    (void)w, (void)master, (void)message, (void)order, (void)random;
}

/* ---- channels ---- */

static void signal_channel(unsigned master, uint8_t key, enum event_kind kind,
                           struct event_channel said)
{
    said.master = (uint8_t)master;
    said.key = solo.keys[key];
    said.agents = channel_agents(&solo.world, (uint8_t)master, key);
    solo_submit(&(struct event){.kind = kind, .channel = said});
}

static void watch(const struct effect_watch *effect, bool watches)
{
    uint8_t key = key_number(effect->key);
    if (key == SIM_KEYS)
        return;
    FUZZ_CHECK(solo.watches[key] != watches, "a key is watched, or left, twice");
    solo.watches[key] = watches;
    for (unsigned m = 0; watches && m < solo.masters; m++)
        if (solo.links[m].up)
            signal_channel(m, key, EVENT_SUBSCRIBED, (struct event_channel){0});
}

uint32_t channel_agents(struct world *w, uint8_t master, uint8_t name)
{
    (void)w;
    return solo.watches[name % SIM_KEYS] && solo.links[master].up;
}

uint32_t channel_publish(struct world *w, uint8_t master, uint8_t name, struct bytes message)
{
    uint32_t agents = channel_agents(w, master, name);
    char text[64] = "";
    memcpy(text, message.at, message.len < sizeof(text) ? message.len : sizeof(text) - 1);
    if (agents > 0)
        signal_channel(master, name % SIM_KEYS, EVENT_MESSAGE, message_read(text));
    return agents;
}

/* ---- the agent ------------------------------------------------------------------------------- */

static void free_parcel(struct parcel *parcel)
{
    free(parcel->command);
    free(parcel);
}

/* The masters know keys by their numbers, and one policy. */
static void encode(struct parcel *parcel, const struct send_item *items, int64_t clock_ms)
{
    static struct send_item named[LIMIT_BATCH];
    char own_bytes[ASKING_OWN_BYTES], names[SIM_KEYS][2];
    struct text own = {"", 0};
    struct message *message = parcel->message;
    for (size_t i = 0; i < message->count; i++) {
        uint8_t key = message->orders[i].key;
        if (key == SIM_KEYS)
            return;
        names[key][0] = 'k';
        names[key][1] = (char)('0' + key);
        named[i] = items[i];
        named[i].policy = 0;
        named[i].key = (struct text){names[key], 2};
    }
    struct bytes command = master_command(&solo.world, 0, message->op, named, message->count);
    own = asking_own(own_bytes, message->op, clock_ms, /* vote= */ (struct text){"", 0});
    parcel->command = malloc(command.len + own.len);
    FUZZ_CHECK(parcel->command != NULL, "no memory");
    memcpy(parcel->command, command.at, command.len);
    memcpy(parcel->command + command.len, own.at, own.len);
    message->command = (struct bytes){parcel->command, command.len + own.len};
}

static void send_one(unsigned master, const struct effect_send *send, const struct send_item *items)
{
    struct link *link = &solo.links[master];
    struct parcel *parcel =
        calloc(1, sizeof(*parcel) + sizeof(*parcel->message) + send->count * sizeof(struct order));
    FUZZ_CHECK(parcel != NULL, "no memory");
    parcel->message = (struct message *)(parcel + 1);
    parcel->message->op = send->op;
    parcel->message->sent_at = solo.world.now;
    parcel->message->count = send->count;
    for (size_t i = 0; i < send->count; i++)
        parcel->message->orders[i] = (struct order){.ref = items[i].ref,
                                                    .token = items[i].token,
                                                    .previous = items[i].previous,
                                                    .ticket = items[i].ticket,
                                                    .ttl_ms = items[i].ttl_ms,
                                                    .key = key_number(items[i].key),
                                                    .fencing = items[i].fencing,
                                                    .mode = items[i].mode};
    encode(parcel, items, send->clocks_ms[master]);
    *link->last = parcel;
    link->last = &parcel->next;
}

static void send_all(const struct effect_send *send)
{
    FUZZ_CHECK(send->masters != 0 && send->masters >> solo.masters == 0, "masters that are not");
    FUZZ_CHECK(send->first + send->count <= solo.effects.item_count, "items that are not");
    for (unsigned m = 0; m < solo.masters; m++)
        if (send->masters >> m & 1)
            send_one(m, send, &solo.effects.items[send->first]);
}

static void take_answer(const struct effect_answer *answer)
{
    FUZZ_CHECK(answer->request < SOLO_REQUESTS && solo.open[answer->request],
               "C7 request %u is answered, but not open", answer->request);
    solo.open[answer->request] = false;
    solo.open_count--;
    if (answer->answer == ANSWER_GRANTED && solo.token_count < TOKENS)
        solo.tokens[solo.token_count++] = answer->hold.token;
    if (!solo.cancelled[answer->request])
        solo.answered(answer);
}

static void step(struct event *event)
{
    bool taken = false;
    for (unsigned turns = 0; !taken; turns++) {
        struct entropy *entropy = core_entropy(solo.core);
        if (entropy->left < ENTROPY_BYTES / 2) {
            prng_fill(&solo.world.writes, entropy->bytes, ENTROPY_BYTES);
            entropy->left = ENTROPY_BYTES;
        }
        event->now = solo_now();
        event->wall_us = master_wall_us(&solo.world, 0);
        taken = core_step(solo.core, event, &solo.effects);
        FUZZ_CHECK(turns < 100, "C7 does not come to rest");
        for (size_t i = 0; i < solo.effects.count; i++) {
            const struct effect *effect = &solo.effects.list[i];
            if (effect->kind == EFFECT_SEND)
                send_all(&effect->send);
            else if (effect->kind == EFFECT_ANSWER)
                take_answer(&effect->answer);
            else if (effect->kind == EFFECT_WATCH || effect->kind == EFFECT_UNWATCH)
                watch(&effect->watch, effect->kind == EFFECT_WATCH);
        }
    }
    if (core_awaits_flush(solo.core))
        step(&(struct event){.kind = EVENT_FLUSH});
}

static void note_asked(uint32_t request)
{
    FUZZ_CHECK(request < SOLO_REQUESTS && !solo.open[request], "request %u is open", request);
    solo.open[request] = true;
    solo.cancelled[request] = false;
    solo.open_count++;
}

static void take_event(struct event *event)
{
    uint32_t cancelled = SOLO_REQUESTS;
    if (event->kind == EVENT_ACQUIRE) {
        note_asked(event->acquire.request);
    } else if (event->kind == EVENT_RENEW) {
        note_asked(event->renew.request);
    } else if (event->kind == EVENT_RELEASE) {
        note_asked(event->release.request);
    } else if (event->kind == EVENT_READ) {
        note_asked(event->read.request);
    } else if (event->kind == EVENT_CANCEL) {
        cancelled = event->cancel.request;
        FUZZ_CHECK(cancelled < SOLO_REQUESTS && solo.open[cancelled], "it is not open");
        solo.cancelled[cancelled] = true;
    }
    step(event);
    if (cancelled < SOLO_REQUESTS && solo.open[cancelled]) {
        solo.open[cancelled] = false;
        solo.open_count--;
    }
    const struct core_stats *stats = core_stats(solo.core);
    FUZZ_CHECK(stats->requests == solo.open_count, "C7 %u are counted, %u are open",
               stats->requests, solo.open_count);
}

void solo_submit(struct event *event)
{
    if (solo.stepping) {
        FUZZ_CHECK(solo.queued < QUEUE, "too much is answered at once");
        solo.queue[solo.queued++] = *event;
        return;
    }
    solo.stepping = true;
    take_event(event);
    for (unsigned i = 0; i < solo.queued; i++) {
        struct event queued = solo.queue[i];
        take_event(&queued);
    }
    solo.queued = 0;
    solo.stepping = false;
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Answers the first command that waits there. With YES or UNKNOWN it runs; unless it is YES, `vote`
 * is the answer. Returns false if none waits. */
static bool answer_next(unsigned master, enum vote vote)
{
    struct verdict verdicts[LIMIT_BATCH];
    struct event_reply replies[LIMIT_BATCH];
    struct link *link = &solo.links[master];
    struct parcel *parcel = link->first;
    if (parcel == NULL)
        return false;
    link->first = parcel->next;
    if (link->first == NULL)
        link->last = &link->first;
    struct flight flight = {
        .message = parcel->message, .command = parcel->message->command, .master = (uint8_t)master};
    bool fits = parcel->command != NULL, is_sent = link->up;
    if (is_sent && fits && (vote == VOTE_YES || vote == VOTE_UNKNOWN))
        master_execute(&solo.world, &flight, MISHAP_NONE, verdicts);
    vote = !is_sent ? VOTE_NOT_SENT : !fits ? VOTE_REFUSED : vote;
    master_replies(&flight, vote == VOTE_YES ? verdicts : NULL, vote, replies);
    solo_submit(
        &(struct event){.kind = EVENT_REPLIES, .replies = {replies, parcel->message->count}});
    free_parcel(parcel);
    return true;
}

static void set_link(unsigned master, bool up, bool runs)
{
    struct link *link = &solo.links[master];
    if (link->up == up)
        return;
    struct event event = {
        .kind = up ? EVENT_MASTER_UP : EVENT_MASTER_DOWN,
        .master = {.master = (uint8_t)master, .epoch = solo.world.masters[master].epoch}};
    while (!up && answer_next(master, runs ? VOTE_UNKNOWN : VOTE_NOT_RUN))
        continue;
    link->up = up;
    solo_submit(&event);
}

/* Goes to the next deadline of the agent and `late_us` beyond, at most a minute at once. */
static void tick(int64_t late_us)
{
    struct instant due = core_next_deadline(solo.core);
    int64_t us = due.us == INSTANT_NEVER.us ? 0 : instant_us_between(solo_now(), due);
    us = us < 0 ? 0 : us > 60000000 ? 60000000 : us;
    solo.world.now += us + late_us;
    solo_submit(&(struct event){.kind = EVENT_TIME});
}

void solo_move(struct fuzz_bytes *bytes)
{
    static const enum vote votes[] = {VOTE_YES, VOTE_YES, VOTE_REFUSED, VOTE_NOT_RUN, VOTE_UNKNOWN};
    uint8_t kind = fuzz_byte(bytes), what = fuzz_byte(bytes);
    unsigned master = what / 4 % solo.masters;
    switch (kind % 8) {
    case 0:
    case 1:
    case 2:
        answer_next(master, votes[kind / 8 % (sizeof(votes) / sizeof(votes[0]))]);
        break;
    case 3:
        set_link(master, kind & 128, kind & 64);
        break;
    case 4:
        solo.world.now += what * 100;
        break;
    case 5:
        solo.world.now += what * 20000;
        break;
    case 6:
        tick(kind & 128 ? what * 10000 : what);
        break;
    default:
        solo_calm();
        break;
    }
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void forget(void)
{
    for (unsigned m = 0; m < SIM_MASTERS; m++) {
        struct link *link = &solo.links[m];
        while (link->first != NULL) {
            struct parcel *parcel = link->first;
            link->first = parcel->next;
            free_parcel(parcel);
        }
        *link = (struct link){.up = false, .first = NULL};
        link->last = &link->first;
    }
    memset(solo.open, 0, sizeof(solo.open));
    memset(solo.watches, 0, sizeof(solo.watches));
    solo.token_count = solo.key_count = 0;
    solo.open_count = 0;
}

void solo_start(const struct core_config *config, solo_answered_fn *answered)
{
    FUZZ_CHECK(config->requests_max <= SOLO_REQUESTS && config->group_count == 1, "a larger one");
    forget();
    solo.answered = answered;
    solo.masters = config->groups[0].masters;
    solo.epoch_us += solo.world.now + 1000000;
    solo.world.now = 0;
    solo.world.writes.state = 1;
    solo.world.options = (struct options){.masters = (uint8_t)solo.masters,
                                          .keys = SIM_KEYS,
                                          .permits = 1,
                                          .rw = config->policies[0].form == FORM_SHARED};
    master_name_places(&solo.world.options);
    if (solo.world.scripting == NULL)
        FUZZ_CHECK(master_load(&solo.world, NULL) == NULL, "the scripts do not compile");
    for (uint8_t m = 0; m < solo.masters; m++)
        master_reset(&solo.world, m);
    size_t size = core_size(config);
    if (solo.core == NULL)
        solo.core = malloc(size);
    FUZZ_CHECK(solo.core != NULL, "no memory");
    memset(solo.core, 0, size);
    FUZZ_CHECK(core_init(solo.core, config) == solo.core, "the core has another address");
}

void solo_calm(void)
{
    bool moved = true;
    for (unsigned turns = 0; moved; turns++) {
        FUZZ_CHECK(turns < REST_STEPS, "C7 agent and masters talk forever");
        moved = false;
        for (unsigned m = 0; m < solo.masters; m++) {
            set_link(m, /* up= */ true, /* runs= */ false);
            moved |= answer_next(m, VOTE_YES);
        }
    }
}

void solo_settle(void)
{
    solo_calm();
    for (unsigned steps = 0; solo.open_count > 0; steps++) {
        FUZZ_CHECK(steps < REST_STEPS, "C7 a request is never answered");
        tick(1);
        solo_calm();
    }
}

void solo_end(void)
{
    solo_submit(&(struct event){.kind = EVENT_DRAIN});
    solo_submit(&(struct event){.kind = EVENT_END});
    solo_settle();
    int64_t end = solo.world.now + (SOLO_TTL_MS_MAX + 1000) * 1000;
    for (unsigned steps = 0; solo.world.now < end; steps++) {
        FUZZ_CHECK(steps < REST_STEPS, "C7 does not come to rest");
        if (core_next_deadline(solo.core).us > solo.epoch_us + end)
            solo.world.now = end;
        else
            tick(1);
        solo_calm();
    }
    for (uint8_t m = 0; m < solo.masters; m++)
        for (uint8_t key = 0; key < SIM_KEYS; key++)
            FUZZ_CHECK(!master_is_locked(&solo.world, m, key), "C6 key %u is left on master %u",
                       key, m);
    FUZZ_CHECK(core_stats(solo.core)->locks_held == 0, "C7 held by an agent that has ended");
}
