/* The fleet's moves, and the checker that watches them.
 *
 *   one per agent and master, in order:
 *   agent --send--> [on its way ... | executed, reply on its way ...] --reply--> agent
 *                        | the connection ends
 *                        '--> ghosts of the master: may still arrive, in any order, or never (R5)
 *
 * C1 one holder per key inside the windows that agents report; C2 fencing numbers rise; C4 no wrong
 * token succeeds; C7 one answer per request, and all comes to rest and is counted; C10 no key is
 * deleted inside a window but at its holder's wish; C14 no reader's window meets a writer's; C15 of
 * a semaphore one window per slot; C16 a read's number is not below that of a write before it, and
 * below that of a later one. */
#include "tests/fuzz/fleet.h"

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "tests/sim/world.h"

enum { WINDOWS = 4096, GHOSTS = 256, QUEUE = 256, REST_STEPS = 20000 };

_Static_assert((int)FLEET_FENCE_RETENTION_MS == (int)SIM_FENCE_RETENTION_MS,
               "masters keep it as long");

struct parcel { /* one command to one master */
    struct parcel *next;
    bool executed;
    struct verdict verdicts[LIMIT_BATCH];
    struct message *message; /* in the same block */
    char *command;           /* its bytes; NULL: it concerns more keys than there is room for */
    uint8_t master;
};
struct link {
    bool up;
    struct parcel *first, **last;
};
struct asked {
    bool open, cancelled;
    enum event_kind kind;
    uint8_t key;
    struct token token;
};
struct member {
    struct core *core;
    size_t core_size;
    struct link links[SIM_MASTERS];
    struct asked asked[FLEET_REQUESTS];
    uint32_t asked_count;
    bool watches[SIM_KEYS];
    struct window *delivering; /* the latest grant, while its answer may still get lost */
};
/* What an agent has reported of one grant. */
struct window {
    struct token token;
    unsigned agent;
    struct lock_ref lock;
    uint8_t key; /* the place */
    enum mode mode;
    bool ended; /* its release was asked for, or it never reached its caller */
    struct instant until;
};

static struct fleet {
    struct world world; /* the masters' half of it */
    struct core_config config;
    struct member members[FLEET_AGENTS_MAX];
    unsigned count;
    fleet_answered_fn *answered;
    int64_t epoch_us; /* when this run began */
    struct window windows[WINDOWS];
    unsigned window_count;
    uint64_t written_last[SIM_KEYS], read_last[SIM_KEYS];
    struct parcel *ghosts[GHOSTS];
    unsigned ghost_count;
    struct text keys[SIM_KEYS];
    char key_bytes[SIM_KEYS][LIMIT_KEY_BYTES];
    unsigned key_count;
    struct effects effects;
    bool stepping;
    struct {
        unsigned agent;
        struct event event;
    } queue[QUEUE];
    unsigned queued;
} fleet;

struct instant fleet_now(void)
{
    return (struct instant){fleet.epoch_us + fleet.world.now};
}

struct core *fleet_core(unsigned agent)
{
    return fleet.members[agent].core;
}

bool fleet_is_open(unsigned agent, uint32_t request)
{
    return fleet.members[agent].asked[request].open;
}

bool fleet_token(unsigned i, struct token *ret_token)
{
    if (i >= fleet.window_count)
        return false;
    *ret_token = fleet.windows[i].token;
    return true;
}

/* The number of a key; the masters refuse whatever concerns more keys than they have room for. */
static uint8_t key_number(struct text key)
{
    for (unsigned i = 0; i < fleet.key_count; i++)
        if (fleet.keys[i].len == key.len && memcmp(fleet.keys[i].at, key.at, key.len) == 0)
            return (uint8_t)i;
    if (fleet.key_count == fleet.world.options.keys)
        return SIM_KEYS;
    unsigned i = fleet.key_count++;
    memcpy(fleet.key_bytes[i], key.at, key.len);
    fleet.keys[i] = (struct text){fleet.key_bytes[i], key.len};
    return (uint8_t)i;
}

/* Of what has a holder of its own: a key, or a slot of one (R20). */
static uint8_t place_of(uint8_t key, const struct token *token)
{
    return key == SIM_KEYS ? key : options_place(&fleet.world.options, key, token->permit);
}

/* ---- the checker ----------------------------------------------------------------------------- */

static struct window *find_window(const uint8_t random[RANDOM_BYTES])
{
    for (unsigned i = fleet.window_count; i-- > 0;)
        if (memcmp(fleet.windows[i].token.random, random, RANDOM_BYTES) == 0)
            return &fleet.windows[i];
    return NULL;
}

static void end_window(const struct token *token)
{
    struct window *window = find_window(token->random);
    if (window != NULL)
        window->ended = true;
}

static void end_undelivered(unsigned agent, struct lock_ref lock)
{
    for (unsigned i = 0; i < fleet.window_count; i++) {
        struct window *window = &fleet.windows[i];
        if (window->agent == agent && window->lock.slot == lock.slot &&
            window->lock.generation == lock.generation)
            window->ended = true;
    }
}

static bool is_open_window(const struct window *window)
{
    return !window->ended && instant_before(fleet_now(), window->until);
}

static bool may_be_beside(const struct window *window, const struct window *other)
{
    return other->key != window->key || (other->mode == MODE_READ && window->mode == MODE_READ);
}

/* C1, C14, C15 */
static void report_window(struct window *window, struct instant until)
{
    window->until = instant_max(window->until, until);
    if (!is_open_window(window))
        return;
    for (unsigned i = 0; i < fleet.window_count; i++) {
        const struct window *other = &fleet.windows[i];
        FUZZ_CHECK(other == window || may_be_beside(window, other) || !is_open_window(other),
                   "C1 two holders of key %u", window->key);
    }
}

/* C2, C16 */
static void check_number(uint8_t place, const struct hold_view *hold)
{
    const uint64_t fence = hold->token.fence, written = fleet.written_last[place],
                   read = fleet.read_last[place];
    bool reads = hold->mode == MODE_READ;
    FUZZ_CHECK(reads ? fence >= written : fence > written && fence > read,
               "C2 number %llu after %llu and, read, %llu", (unsigned long long)fence,
               (unsigned long long)written, (unsigned long long)read);
    if (!reads)
        fleet.written_last[place] = fence;
    else if (fence > read)
        fleet.read_last[place] = fence;
}

static void check_granted(uint8_t key, const struct hold_view *hold)
{
    const struct options *options = &fleet.world.options;
    FUZZ_CHECK((hold->token.permit > 0) == (options->permits > 1) &&
                   hold->token.permit <= options->permits,
               "C15 permit %u", hold->token.permit);
    uint8_t place = place_of(key, &hold->token);
    FUZZ_CHECK(find_window(hold->token.random) == NULL, "C4 a token was granted twice");
    FUZZ_CHECK(instant_before(fleet_now(), hold->valid_until), "R4 a grant without validity");
    FUZZ_CHECK(!instant_before(hold->max_hold_until, hold->valid_until),
               "C9 valid beyond max_hold");
    if (place < SIM_KEYS && hold->token.fence != 0)
        check_number(place, hold);
    FUZZ_CHECK(fleet.window_count < WINDOWS, "more grants than moves");
    struct window *window = &fleet.windows[fleet.window_count++];
    *window = (struct window){.token = hold->token, .key = place, .mode = hold->mode};
    report_window(window, hold->valid_until);
}

static void check_fits(const struct asked *asked, const struct effect_answer *answer)
{
    const struct window *window = find_window(asked->token.random);
    switch (answer->answer) {
    case ANSWER_GRANTED:
        FUZZ_CHECK(asked->kind == EVENT_ACQUIRE && !asked->cancelled,
                   "C7 granted to who has gone or not asked");
        check_granted(asked->key, &answer->hold);
        break;
    case ANSWER_RENEWED:
    case ANSWER_RELEASED:
        FUZZ_CHECK(asked->kind == (answer->answer == ANSWER_RENEWED ? EVENT_RENEW : EVENT_RELEASE),
                   "C7 wrong kind");
        FUZZ_CHECK(window != NULL && window->token.fence == asked->token.fence &&
                       window->token.permit == asked->token.permit &&
                       window->key == place_of(asked->key, &asked->token),
                   "C4 a wrong token succeeded");
        break;
    case ANSWER_STATE:
        FUZZ_CHECK(asked->kind == EVENT_READ, "C7 wrong kind");
        FUZZ_CHECK(answer->tally.total == fleet.config.groups[0].masters && answer->masters != NULL,
                   "no masters");
        break;
    default:
        break;
    }
}

static void take_answer(unsigned agent, const struct effect_answer *answer)
{
    struct member *member = &fleet.members[agent];
    FUZZ_CHECK(answer->request < FLEET_REQUESTS && member->asked[answer->request].open,
               "C7 request %u is answered, but not open", answer->request);
    struct asked *asked = &member->asked[answer->request];
    check_fits(asked, answer);
    asked->open = false;
    member->asked_count--;
    if (answer->answer == ANSWER_GRANTED) {
        member->delivering = &fleet.windows[fleet.window_count - 1];
        member->delivering->agent = agent;
        member->delivering->lock = answer->lock;
    }
    if (fleet.answered != NULL && !asked->cancelled)
        fleet.answered(agent, answer);
}

bool fleet_take_undelivered(unsigned agent, struct lock_ref *ret_lock)
{
    struct member *member = &fleet.members[agent];
    if (member->delivering == NULL)
        return false;
    *ret_lock = member->delivering->lock;
    member->delivering = NULL;
    return true;
}

static void check_after_step(const struct member *member)
{
    const struct core_stats *stats = core_stats(member->core);
    struct hold_view view;
    uint32_t cursor = 0, holds = 0;
    while (core_next_hold(member->core, fleet_now(), &cursor, &view)) {
        struct window *window = find_window(view.token.random);
        FUZZ_CHECK(instant_before(fleet_now(), view.valid_until), "C5 held beyond its validity");
        FUZZ_CHECK(window != NULL && window->token.fence == view.token.fence,
                   "C4 held, but never granted");
        report_window(window, view.valid_until);
        holds++;
    }
    FUZZ_CHECK(stats->locks_held == holds, "C7 %u are counted, %u are held", stats->locks_held,
               holds);
    FUZZ_CHECK(stats->requests == member->asked_count, "C7 %u are counted, %u are open",
               stats->requests, member->asked_count);
    FUZZ_CHECK(stats->waiters <= fleet.config.waiters_max &&
                   stats->locks_held <= fleet.config.locks_max,
               "C7 limits");
}

/* What the model masters would say in a timeline: nobody reads one here. */
void world_say(struct world *w, const char *format, ...)
{
    (void)w, (void)format;
}

/* How long a slot was free is the simulator's affair. */
/* C18: the model masters look at what is stored beside Java. */
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

/* No journal is kept here. */
void checker_repaired(struct world *w, uint8_t master, const struct message *message,
                      const struct order *order)
{
    (void)w, (void)master, (void)message, (void)order;
}

/* Turns are the simulator's affair. */
void turns_withheld(struct world *w, uint8_t master, uint8_t key, const struct kept_ticket *ticket)
{
    (void)w, (void)master, (void)key, (void)ticket;
}

/* C10: the model masters tell of every key that they delete. */
void checker_deleted(struct world *w, uint8_t master, const struct message *message,
                     const struct order *order, const uint8_t random[RANDOM_BYTES])
{
    const struct window *window = find_window(random);
    (void)w, (void)master, (void)message;
    FUZZ_CHECK(window == NULL || !is_open_window(window), "C10 key %u is deleted while it is held",
               order->key);
}

/* ---- agents ---------------------------------------------------------------------------------- */

static void free_parcel(struct parcel *parcel)
{
    free(parcel->command);
    free(parcel);
}

/* The masters know keys by their numbers, and one policy. */
static void encode(struct parcel *parcel, const struct send_item *items, int64_t clock_ms)
{
    static struct send_item named[LIMIT_BATCH];
    char own_bytes[ASKING_OWN_BYTES];
    struct text own = {"", 0};
    struct message *message = parcel->message;
    char names[SIM_KEYS][2];
    for (size_t i = 0; i < message->count; i++) {
        uint8_t place = message->orders[i].key, key = options_key_of(&fleet.world.options, place);
        if (place == SIM_KEYS)
            return;
        names[key][0] = 'k';
        names[key][1] = (char)('0' + key);
        named[i] = items[i];
        named[i].policy = 0;
        named[i].key = (struct text){names[key], 2};
    }
    message->command =
        master_command(&fleet.world, message->agent, message->op, named, message->count);
    if (asking_has_own(message->op))
        own = asking_own(own_bytes, clock_ms, /* vote= */ (struct text){"", 0});
    parcel->command = malloc(message->command.len + own.len);
    FUZZ_CHECK(parcel->command != NULL, "no memory");
    memcpy(parcel->command, message->command.at, message->command.len);
    memcpy(parcel->command + message->command.len, own.at, own.len);
    message->command = (struct bytes){parcel->command, message->command.len + own.len};
}

static void send_one(struct member *member, unsigned master, const struct effect_send *send,
                     const struct send_item *items)
{
    struct link *link = &member->links[master];
    struct parcel *parcel =
        calloc(1, sizeof(*parcel) + sizeof(*parcel->message) + send->count * sizeof(struct order));
    FUZZ_CHECK(parcel != NULL, "no memory");
    parcel->message = (struct message *)(parcel + 1);
    parcel->master = (uint8_t)master;
    parcel->message->op = send->op;
    parcel->message->agent = (uint8_t)(member - fleet.members);
    parcel->message->sent_at = fleet.world.now;
    parcel->message->count = send->count;
    for (size_t i = 0; i < send->count; i++) {
        const struct send_item *item = &items[i];
        struct order *order = &parcel->message->orders[i];
        *order = (struct order){
            .ref = item->ref,
            .token = item->token,
            .previous = item->previous,
            .ticket = item->ticket,
            .ttl_ms = item->ttl_ms,
            .key = place_of(key_number(item->key), &item->token),
            .fencing = item->fencing,
            .mode = item->mode,
            .label_len = (uint8_t)(item->label.len < SIM_LABEL ? item->label.len : SIM_LABEL)};
        if (order->label_len > 0)
            memcpy(order->label, item->label.at, order->label_len);
    }
    encode(parcel, items, send->clocks_ms[master]);
    if (!link->up) { /* it never leaves; said later, as the Redis room does */
        parcel->executed = true;
        for (size_t i = 0; i < send->count; i++)
            parcel->verdicts[i] = (struct verdict){.vote = VOTE_NOT_SENT, .pttl_ms = -1};
    }
    *link->last = parcel;
    link->last = &parcel->next;
}

static void send_all(struct member *member, const struct effect_send *send)
{
    bool batched = op_is_gathered(send->op);
    FUZZ_CHECK(send->count >= 1 && send->count <= (batched ? LIMIT_BATCH : 1), "%u items in one %s",
               send->count, op_name(send->op));
    FUZZ_CHECK(send->masters != 0 && send->masters >> fleet.config.groups[0].masters == 0,
               "to masters that are not");
    FUZZ_CHECK(send->first + send->count <= fleet.effects.item_count, "items that are not");
    for (unsigned m = 0; m < fleet.config.groups[0].masters; m++)
        if (send->masters >> m & 1)
            send_one(member, m, send, &fleet.effects.items[send->first]);
}

/* ---- channels ---- */

static void signal_channel(unsigned agent, unsigned master, uint8_t key, enum event_kind kind,
                           struct event_channel said)
{
    said.master = (uint8_t)master;
    said.key = fleet.keys[key];
    said.agents = channel_agents(&fleet.world, (uint8_t)master, key);
    struct event event = {.kind = kind, .channel = said};
    fleet_submit(agent, &event);
}

static void watch(unsigned agent, const struct effect_watch *effect, bool watches)
{
    uint8_t key = key_number(effect->key);
    if (key == SIM_KEYS)
        return;
    FUZZ_CHECK(fleet.members[agent].watches[key] != watches, "a key is watched, or left, twice");
    fleet.members[agent].watches[key] = watches;
    for (unsigned m = 0; watches && m < fleet.config.groups[0].masters; m++)
        if (fleet.members[agent].links[m].up)
            signal_channel(agent, m, key, EVENT_SUBSCRIBED, (struct event_channel){0});
}

uint32_t channel_agents(struct world *w, uint8_t master, uint8_t name)
{
    uint8_t key = name % SIM_KEYS;
    uint32_t agents = 0;
    (void)w;
    for (unsigned a = 0; a < fleet.count; a++)
        agents += fleet.members[a].watches[key] && fleet.members[a].links[master].up;
    return agents;
}

uint32_t channel_publish(struct world *w, uint8_t master, uint8_t name, struct bytes message)
{
    uint8_t key = name % SIM_KEYS;
    char text[64] = "";
    memcpy(text, message.at, message.len < sizeof(text) ? message.len : sizeof(text) - 1);
    for (unsigned a = 0; a < fleet.count; a++)
        if (fleet.members[a].watches[key] && fleet.members[a].links[master].up)
            signal_channel(a, master, key, EVENT_MESSAGE, message_read(text));
    return channel_agents(w, master, name);
}

static void step(unsigned agent, struct event *event)
{
    struct member *member = &fleet.members[agent];
    bool taken = false;
    for (unsigned turns = 0; !taken; turns++) {
        struct entropy *entropy = core_entropy(member->core);
        if (entropy->left < ENTROPY_BYTES / 2) {
            prng_fill(&fleet.world.writes, entropy->bytes, ENTROPY_BYTES);
            entropy->left = ENTROPY_BYTES;
        }
        event->now = fleet_now();
        event->wall_us = master_wall_us(&fleet.world, 0);
        taken = core_step(member->core, event, &fleet.effects);
        FUZZ_CHECK(turns < 100, "C7 does not come to rest");
        for (size_t i = 0; i < fleet.effects.count; i++) {
            const struct effect *effect = &fleet.effects.list[i];
            if (effect->kind == EFFECT_SEND)
                send_all(member, &effect->send);
            else if (effect->kind == EFFECT_ANSWER)
                take_answer(agent, &effect->answer);
            else if (effect->kind == EFFECT_WATCH || effect->kind == EFFECT_UNWATCH)
                watch(agent, &effect->watch, effect->kind == EFFECT_WATCH);
        }
    }
    if (core_awaits_flush(member->core))
        step(agent, &(struct event){.kind = EVENT_FLUSH});
}

static struct asked *asked_of(struct member *member, uint32_t request)
{
    FUZZ_CHECK(request < FLEET_REQUESTS && request < fleet.config.requests_max, "request %u",
               request);
    return &member->asked[request];
}

static void note_asked(struct member *member, enum event_kind kind, uint32_t request,
                       struct text key, const struct token *token)
{
    struct asked *asked = asked_of(member, request);
    FUZZ_CHECK(!asked->open, "request %u is open already", request);
    *asked = (struct asked){.open = true, .kind = kind, .key = key_number(key)};
    if (token != NULL)
        asked->token = *token;
    member->asked_count++;
}

/* Adoption is for a hold whose agent has ended (D3). Renewed at a second agent while the first
 * still has it, a hold has two agents that do not know of each other, and the first deletes its
 * keys when the lease that it knows of runs out: its windows bind nobody any more. */
static void note_renewed_elsewhere(unsigned agent, const struct token *token)
{
    struct window *window = find_window(token->random);
    if (window != NULL && window->agent != agent)
        window->ended = true;
}

/* What the surroundings owe the checker before the core sees the event. */
static void note_event(struct member *member, const struct event *event)
{
    switch (event->kind) {
    case EVENT_ACQUIRE:
        note_asked(member, event->kind, event->acquire.request, event->acquire.key, NULL);
        break;
    case EVENT_RENEW:
        note_asked(member, event->kind, event->renew.request, event->renew.key,
                   &event->renew.token);
        note_renewed_elsewhere((unsigned)(member - fleet.members), &event->renew.token);
        break;
    case EVENT_RELEASE:
        note_asked(member, event->kind, event->release.request, event->release.key,
                   &event->release.token);
        end_window(&event->release.token);
        break;
    case EVENT_READ:
        note_asked(member, event->kind, event->read.request, event->read.key, NULL);
        break;
    case EVENT_CANCEL:
        FUZZ_CHECK(asked_of(member, event->cancel.request)->open, "what is not open is cancelled");
        member->asked[event->cancel.request].cancelled = true;
        break;
    case EVENT_UNDELIVERED:
        end_undelivered((unsigned)(member - fleet.members), event->undelivered.lock);
        break;
    default:
        break;
    }
}

static void take_event(unsigned agent, struct event *event)
{
    struct member *member = &fleet.members[agent];
    note_event(member, event);
    step(agent, event);
    if (event->kind == EVENT_CANCEL && member->asked[event->cancel.request].open) {
        member->asked[event->cancel.request].open = false;
        member->asked_count--;
    }
    check_after_step(member);
}

void fleet_submit(unsigned agent, struct event *event)
{
    if (fleet.stepping) {
        FUZZ_CHECK(fleet.queued < QUEUE, "too much is answered at once");
        fleet.queue[fleet.queued].agent = agent;
        fleet.queue[fleet.queued++].event = *event;
        return;
    }
    fleet.stepping = true;
    take_event(agent, event);
    for (unsigned i = 0; i < fleet.queued; i++) {
        struct event queued = fleet.queue[i].event;
        take_event(fleet.queue[i].agent, &queued);
    }
    fleet.queued = 0;
    fleet.stepping = false;
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* How a master takes a command. */
enum manner { MANNER_WELL, MANNER_REFUSED, MANNER_NOT_RUN, MANNER_UNKNOWN, MANNERS };

static void execute(struct parcel *parcel, enum manner manner)
{
    static const enum vote votes[MANNERS] = {VOTE_YES, VOTE_REFUSED, VOTE_NOT_RUN, VOTE_UNKNOWN};
    bool fits = parcel->command != NULL,
         runs = fits && manner != MANNER_REFUSED && manner != MANNER_NOT_RUN;
    parcel->executed = true;
    struct flight flight = {
        .message = parcel->message, .command = parcel->message->command, .master = parcel->master};
    if (runs)
        master_execute(&fleet.world, &flight, MISHAP_NONE, parcel->verdicts);
    for (size_t i = 0; i < parcel->message->count && (!runs || manner == MANNER_UNKNOWN); i++)
        parcel->verdicts[i] =
            (struct verdict){.vote = fits ? votes[manner] : VOTE_REFUSED, .pttl_ms = -1};
}

static void arrive(struct link *link, enum manner manner)
{
    for (struct parcel *parcel = link->first; parcel != NULL; parcel = parcel->next)
        if (!parcel->executed) {
            execute(parcel, manner);
            return;
        }
}

static void report(unsigned agent, unsigned master, const struct parcel *parcel,
                   int64_t pttl_more_ms)
{
    struct event_reply replies[LIMIT_BATCH];
    for (size_t i = 0; i < parcel->message->count; i++) {
        const struct verdict *verdict = &parcel->verdicts[i];
        bool has_ttl = verdict->pttl_ms >= 0 && pttl_more_ms >= 0;
        replies[i] = (struct event_reply){
            .master = (uint8_t)master,
            .op = parcel->message->op,
            .ref = parcel->message->orders[i].ref,
            .vote = verdict->vote,
            .fence = verdict->fence,
            .agents = verdict->agents,
            .ticket = verdict->ticket,
            .taken = verdict->taken,
            .mode = verdict->mode,
            .readers = verdict->readers,
            .pttl_ms = has_ttl ? verdict->pttl_ms + pttl_more_ms : verdict->pttl_ms,
            .holder = {verdict->label, verdict->label_len},
        };
    }
    struct event event = {.kind = EVENT_REPLIES,
                          .replies = {replies, (uint16_t)parcel->message->count}};
    FUZZ_CHECK(!fleet.stepping, "a reply comes from within a delivery");
    fleet_submit(agent, &event);
}

/* The oldest reply on its way. `pttl_more_ms`: somebody else has given the key a longer life than
 * its holder asked for. */
static bool reply(unsigned agent, unsigned master, int64_t pttl_more_ms)
{
    struct link *link = &fleet.members[agent].links[master];
    struct parcel *parcel = link->first;
    if (parcel == NULL || !parcel->executed)
        return false;
    link->first = parcel->next;
    if (link->first == NULL)
        link->last = &link->first;
    report(agent, master, parcel, pttl_more_ms);
    free_parcel(parcel);
    return true;
}

static void become_ghost(struct parcel *parcel)
{
    if (parcel->executed || fleet.ghost_count == GHOSTS)
        free_parcel(parcel);
    else
        fleet.ghosts[fleet.ghost_count++] = parcel;
}

static void disconnect(unsigned agent, unsigned master, bool down_first)
{
    struct link *link = &fleet.members[agent].links[master];
    struct event down = {.kind = EVENT_MASTER_DOWN, .master.master = (uint8_t)master};
    if (!link->up)
        return;
    struct parcel *parcel = link->first;
    link->up = false;
    link->first = NULL;
    link->last = &link->first;
    if (down_first)
        fleet_submit(agent, &down);
    while (parcel != NULL) {
        struct parcel *next = parcel->next;
        bool never_sent = parcel->executed && parcel->verdicts[0].vote == VOTE_NOT_SENT;
        for (size_t i = 0; i < parcel->message->count; i++)
            parcel->verdicts[i] =
                (struct verdict){.vote = never_sent ? VOTE_NOT_SENT : VOTE_UNKNOWN, .pttl_ms = -1};
        report(agent, master, parcel, 0);
        become_ghost(parcel);
        parcel = next;
    }
    if (!down_first)
        fleet_submit(agent, &down);
}

static void connect(unsigned agent, unsigned master, bool new_epoch)
{
    struct link *link = &fleet.members[agent].links[master];
    if (link->up)
        return;
    if (new_epoch && ++fleet.world.masters[master].epoch == 0)
        fleet.world.masters[master].epoch = 1;
    link->up = true;
    struct event up = {
        .kind = EVENT_MASTER_UP,
        .master = {.master = (uint8_t)master, .epoch = fleet.world.masters[master].epoch}};
    fleet_submit(agent, &up);
}

static void haunt(unsigned which, bool lost)
{
    if (fleet.ghost_count == 0)
        return;
    unsigned i = which % fleet.ghost_count;
    struct parcel *ghost = fleet.ghosts[i];
    fleet.ghosts[i] = fleet.ghosts[--fleet.ghost_count];
    if (!lost)
        execute(ghost, MANNER_WELL);
    free_parcel(ghost);
}

/* To the next deadline of an agent and `late_us` beyond, at most a minute at once. */
static void tick(unsigned agent, int64_t late_us)
{
    struct instant due = core_next_deadline(fleet.members[agent].core);
    int64_t us = due.us == INSTANT_NEVER.us ? 0 : instant_us_between(fleet_now(), due);
    us = us < 0 ? 0 : us > 60000000 ? 60000000 : us;
    fleet.world.now += us + late_us;
    fleet_submit(agent, &(struct event){.kind = EVENT_TIME});
}

void fleet_move(struct fuzz_bytes *bytes)
{
    uint8_t kind = fuzz_byte(bytes), what = fuzz_byte(bytes);
    unsigned agent = what % fleet.count, master = what / 4 % fleet.config.groups[0].masters;
    switch (kind % 12) {
    case 0:
    case 1:
        arrive(&fleet.members[agent].links[master], (enum manner)(kind / 12 % MANNERS));
        break;
    case 2:
    case 3:
        reply(agent, master, kind < 240 ? 0 : (int64_t)(fuzz_number(bytes, 8) >> 2));
        break;
    case 4:
        disconnect(agent, master, kind & 128);
        break;
    case 5:
        connect(agent, master, kind & 128);
        break;
    case 6:
        fleet_submit(
            agent, &(struct event){.kind = EVENT_MASTER_CLOCK,
                                   .master = {.master = (uint8_t)master,
                                              .clock_offset_us =
                                                  (int64_t)(int32_t)fuzz_number(bytes, 4) * 1000}});
        break;
    case 7:
        fleet.world.now += what * 100;
        break;
    case 8:
        fleet.world.now += what * 20000;
        break;
    case 9:
        tick(agent, kind & 128 ? what * 10000 : what);
        break;
    case 10:
        haunt(what, kind & 128);
        break;
    default:
        fleet_calm();
        break;
    }
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void forget(void)
{
    for (unsigned agent = 0; agent < FLEET_AGENTS_MAX; agent++)
        for (unsigned m = 0; m < SIM_MASTERS; m++) {
            struct link *link = &fleet.members[agent].links[m];
            while (link->first != NULL) {
                struct parcel *parcel = link->first;
                link->first = parcel->next;
                free_parcel(parcel);
            }
            *link = (struct link){.up = false, .first = NULL};
            link->last = &link->first;
        }
    while (fleet.ghost_count > 0)
        free_parcel(fleet.ghosts[--fleet.ghost_count]);
    fleet.window_count = fleet.key_count = 0;
    memset(fleet.written_last, 0, sizeof(fleet.written_last));
    memset(fleet.read_last, 0, sizeof(fleet.read_last));
}

void fleet_start(const struct core_config *config, unsigned agents, fleet_answered_fn *answered)
{
    FUZZ_CHECK(agents <= FLEET_AGENTS_MAX && config->requests_max <= FLEET_REQUESTS &&
                   config->group_count == 1,
               "a larger fleet");
    forget();
    fleet.config = *config;
    fleet.count = agents;
    fleet.answered = answered;
    fleet.epoch_us += fleet.world.now + 1000000;
    fleet.world.now = 0;
    fleet.world.writes.state = 1;
    fleet.world.options =
        (struct options){.masters = config->groups[0].masters,
                         .keys = (uint8_t)(SIM_KEYS / config->policies[0].permits),
                         .permits = (uint8_t)config->policies[0].permits,
                         .rw = config->policies[0].form == FORM_SHARED};
    master_name_places(&fleet.world.options);
    if (fleet.world.scripting == NULL)
        FUZZ_CHECK(master_load(&fleet.world, NULL) == NULL, "the scripts do not compile");
    for (uint8_t m = 0; m < config->groups[0].masters; m++)
        master_reset(&fleet.world, m);
    for (unsigned agent = 0; agent < agents; agent++) {
        struct member *member = &fleet.members[agent];
        struct core_config own = *config;
        size_t size = core_size(config);
        if (size != member->core_size) { /* cores differ in size with their masters */
            free(member->core);
            member->core = malloc(size);
            member->core_size = size;
        }
        FUZZ_CHECK(member->core != NULL, "no memory");
        memset(member->core, 0, size);
        /* it names the agent on its tickets */
        own.seed += form_is_fair(config->policies[0].form) ? agent : 0;
        FUZZ_CHECK(core_init(member->core, &own) == member->core, "the core stands elsewhere");
        memset(member->asked, 0, sizeof(member->asked));
        member->asked_count = 0;
        member->delivering = NULL;
    }
}

void fleet_calm(void)
{
    bool moved = true;
    for (unsigned turns = 0; moved; turns++) {
        FUZZ_CHECK(turns < REST_STEPS, "C7 agents and masters talk for ever");
        moved = false;
        for (unsigned agent = 0; agent < fleet.count; agent++)
            for (unsigned m = 0; m < fleet.config.groups[0].masters; m++) {
                connect(agent, m, false);
                arrive(&fleet.members[agent].links[m], MANNER_WELL);
                moved |= reply(agent, m, 0);
            }
    }
}

static unsigned next_due(void)
{
    unsigned first = 0;
    for (unsigned agent = 1; agent < fleet.count; agent++)
        if (instant_before(core_next_deadline(fleet.members[agent].core),
                           core_next_deadline(fleet.members[first].core)))
            first = agent;
    return first;
}

static bool all_answered(void)
{
    unsigned open = 0;
    for (unsigned agent = 0; agent < fleet.count; agent++)
        open += fleet.members[agent].asked_count;
    return open == 0;
}

void fleet_settle(void)
{
    fleet_calm();
    for (unsigned steps = 0; !all_answered(); steps++) {
        FUZZ_CHECK(steps < REST_STEPS, "C7 a request is never answered");
        tick(next_due(), 1);
        fleet_calm();
    }
}

void fleet_end(void)
{
    for (unsigned agent = 0; agent < fleet.count; agent++) {
        fleet_submit(agent, &(struct event){.kind = EVENT_DRAIN});
        fleet_submit(agent, &(struct event){.kind = EVENT_END});
    }
    fleet_settle();
    int64_t end = fleet.world.now + (FLEET_TTL_MS_MAX + 1000) * 1000;
    for (unsigned steps = 0; fleet.world.now < end; steps++) {
        FUZZ_CHECK(steps < REST_STEPS, "C7 does not come to rest");
        unsigned agent = next_due();
        if (core_next_deadline(fleet.members[agent].core).us > fleet.epoch_us + end)
            fleet.world.now = end;
        else
            tick(agent, 1);
        fleet_calm();
    }
    for (unsigned m = 0; m < fleet.config.groups[0].masters; m++)
        for (uint8_t key = 0; key < SIM_KEYS; key++)
            FUZZ_CHECK(!master_is_locked(&fleet.world, (uint8_t)m, key),
                       "C6 key %u is left on master %u", key, m);
    for (unsigned agent = 0; agent < fleet.count; agent++)
        FUZZ_CHECK(core_stats(fleet.members[agent].core)->locks_held == 0,
                   "C7 held by an agent that has ended");
}
