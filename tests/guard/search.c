/* The search as the driver of the guard's world (D5.3): every schedule of a script, within its
 * bounds. A draw of chance is a choice here, and each is taken. The agents' clocks never help: they
 * are set back before each step.
 *
 *   free     the next happening that is due (or the first one alone), the time when an agent asks
 *            for the lock, and to go on in time if nothing is due
 *   a fault  a connection that ends while its requests in flight never ran, have run, or run later;
 *            a master that an agent cannot reach for a while; requests or replies that are held up;
 *            an agent that is killed; a master that is flushed, restarts with its data or without,
 *            or with older data, is filled with another one's, or cannot write
 *
 * Faults and locks come in the first part of a schedule. In the rest all is well, so that its end
 * shows whether all guards end (G3). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/redis/asking.h"
#include "tests/explore/ranges.h"
#include "tests/explore/seen.h"
#include "tests/guard/scripts.h"

enum {
    DEPTH_MAX = 4096,
    WAITING_MAX = 64,
    STRAYS_MAX = 2,
    CHOICES_MAX = 320,
    LENGTHS = 2,
};
/* How long a master is out of reach: less and more than a second, because a witness of its past may
 * be away for one second. How long a message is held up, and how long an agent is gone. */
static const int64_t away_ms[LENGTHS] = {300, 4000}, held_up_ms[LENGTHS] = {200, 900},
                     gone_ms[LENGTHS] = {50, 1600};

static struct world world;
static const struct script *script;

/* ---- a master's data: one of all states that were ever seen, which never change ---- */

enum { KNOWN_KEYS_MAX = 1 << 20 };
static struct {
    uint64_t hash;
    struct keyspace *keys;
} known[KNOWN_KEYS_MAX];
static size_t known_count;
static struct keyspace *own_keys[MASTERS_MOST];

static uint64_t hash_keys(struct keyspace *keys)
{
    static const char *const fields[] = {"epoch",        "run", "since", "max_ttl", "longer",
                                         "longer_since", "top", "floor", "told"};
    static const char *const names[] = {VOTE_KEY, "k", "j"};
    struct bytes layouts_key = {LAYOUTS_KEY, strlen(LAYOUTS_KEY)};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char word[GUARD_WORD_BYTES];
        marker_field(keys, fields[i], word);
        hash = hash_more(hash, word, strlen(word) + 1);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct entry *entry = keyspace_find(keys, (struct bytes){names[i], strlen(names[i])});
        if (entry != NULL)
            hash = hash_more(hash, entry->value.at, entry->value.len);
        if (entry != NULL)
            hash = hash_more(hash, &entry->expires_ms, sizeof entry->expires_ms);
        hash = hash_mix(hash, i);
    }
    for (size_t i = 0; i < 2; i++) {
        const struct entry *bucket = keyspace_find(keys, script_bucket(i == 1));
        hash = hash_mix(hash, bucket != NULL ? (uint64_t)bucket->fields[0].score : 0);
    }
    const struct entry *layouts = keyspace_find(keys, layouts_key);
    for (size_t i = 0; i < AGENTS && layouts != NULL && script->layouts[i] != NULL; i++) {
        char name[LAYOUT_NAME_BYTES];
        layout_name((struct text){script->layouts[i], strlen(script->layouts[i])}, name);
        const struct string *value = entry_field(layouts, (struct bytes){name, strlen(name)});
        if (value != NULL)
            hash = hash_more(hash, value->at, value->len);
        hash = hash_mix(hash, i);
    }
    return hash;
}

/* Gives a master keys of its own, to be changed, until the end of the step. */
static void take_own_keys(struct world *of, uint8_t m)
{
    struct sim_master *master = &of->masters[m];
    if (own_keys[m] == NULL)
        own_keys[m] = keyspace_new();
    if (master->keys == own_keys[m])
        return;
    keyspace_clear(own_keys[m]);
    if (master->keys != NULL)
        keyspace_copy(own_keys[m], master->keys);
    master->keys = own_keys[m];
}

static void share_keys(uint8_t m)
{
    if (world.masters[m].keys != own_keys[m])
        return;
    uint64_t hash = hash_keys(own_keys[m]);
    size_t i = hash % KNOWN_KEYS_MAX;
    while (known[i].keys != NULL && known[i].hash != hash)
        i = (i + 1) % KNOWN_KEYS_MAX;
    if (known[i].keys == NULL) {
        if (++known_count == KNOWN_KEYS_MAX)
            abort();
        known[i].hash = hash;
        known[i].keys = keyspace_new();
        keyspace_copy(known[i].keys, own_keys[m]);
    }
    world.masters[m].keys = known[i].keys;
}

/* ---- the possible choices ---- */

enum choice_kind {
    CHOICE_DUE, /* the happening of this place */
    CHOICE_TICK,
    CHOICE_LOCK,
    CHOICE_TIME,
    CHOICE_REFUSE, /* as DUE, and the master cannot write; faults from here on */
    CHOICE_CUT,
    CHOICE_HOLD,
    CHOICE_CRASH,
    CHOICE_FORGET,
};
struct choice {
    uint16_t place;
    uint8_t kind, agent, master;
    uint8_t how; /* enum fate, enum forgetting; HOLD: 0 requests, 1 replies */
    int16_t ms;
};
struct listing {
    struct choice list[CHOICES_MAX];
    unsigned count;
};

static void add(struct listing *listing, struct choice choice)
{
    if (listing->count == CHOICES_MAX)
        abort();
    listing->list[listing->count++] = choice;
}

static bool is_stray(const struct happening *h)
{
    return h->at_us == INT64_MAX;
}

/* Returns the place of the first of that kind between the two; -1: there is none. */
static int first_of_path(enum happening_kind kind, uint8_t a, uint8_t m)
{
    for (unsigned i = 0; i < world.waiting; i++) {
        const struct happening *h = world_waiting(&world, i);
        if (h->kind == kind && h->agent == a && h->master == m && !is_stray(h))
            return (int)i;
    }
    return -1;
}

static bool wants_lock(uint8_t a)
{
    const struct sim_agent *agent = &world.agents[a];
    unsigned ready = 0;
    for (uint8_t m = 0; m < world.master_count; m++)
        ready += agent->links[m].ready;
    return agent->alive && agent->attempts < script->asks[a] && ready >= world.quorum &&
           world.now_us < world.chaos_until_us && !agent->attempt.open && !agent->attempt.holds;
}

/* Lists the happenings that are due, in the order of their kinds. Of the requests (or replies)
 * between an agent and a master only the first can come. */
static void list_due(struct listing *listing, bool all_orders)
{
    for (enum happening_kind kind = HAPPEN_START; kind <= HAPPEN_RELEASE; kind++)
        for (uint8_t a = 0; a < AGENTS; a++)
            for (uint8_t m = 0; m < world.master_count; m++) {
                int place = first_of_path(kind, a, m);
                if (place >= 0 && world_waiting(&world, (unsigned)place)->at_us <= world.now_us &&
                    (all_orders || listing->count == 0))
                    add(listing, (struct choice){.kind = CHOICE_DUE, .place = (uint16_t)place});
            }
    for (uint8_t a = 0; a < AGENTS; a++)
        if (world.agents[a].alive && guard_deadline(&world.agents[a].guard).us <= world.now_us &&
            (all_orders || listing->count == 0))
            add(listing, (struct choice){.kind = CHOICE_TICK, .agent = a});
}

static void list_faults_of_path(struct listing *listing, uint8_t a, uint8_t m)
{
    const struct link *link = &world.agents[a].links[m];
    int request = first_of_path(HAPPEN_REQUEST, a, m);
    bool waits = request >= 0, comes = first_of_path(HAPPEN_REPLY, a, m) >= 0;
    bool loses = (script->faults & MAY_LOSE) != 0 && !(script->blocked[a] >> m & 1);
    bool delays = (script->faults & (MAY_LOSE | MAY_DELAY)) != 0;
    for (unsigned i = 0; i < LENGTHS && delays; i++) {
        struct choice cut = {
            .kind = CHOICE_CUT, .agent = a, .master = m, .ms = (int16_t)away_ms[i]};
        struct choice hold = {
            .kind = CHOICE_HOLD, .agent = a, .master = m, .ms = (int16_t)held_up_ms[i]};
        for (cut.how = FATE_NEVER; cut.how <= FATE_LATER; cut.how++)
            if (cut.how == FATE_LATER ? waits : loses && (waits || cut.how == FATE_NEVER))
                add(listing, cut);
        if (loses && waits && link->last_request_us <= world.now_us)
            add(listing, hold);
        hold.how = 1;
        if (loses && comes && link->last_reply_us <= world.now_us)
            add(listing, hold);
    }
    if ((script->faults & MAY_REFUSE) != 0 && waits &&
        world_waiting(&world, (unsigned)request)->at_us <= world.now_us &&
        world_waiting(&world, (unsigned)request)->request < REQUEST_LOCK)
        add(listing, (struct choice){.kind = CHOICE_REFUSE, .place = (uint16_t)request});
}

static bool may_forget(enum forgetting how)
{
    static const unsigned needs[] = {
        [FLUSHED] = MAY_FLUSH,   [EMPTIED] = MAY_EMPTY, [OLD_DATA] = MAY_AGE,
        [OLD_UNVOTED] = MAY_AGE, [COPIED] = MAY_COPY,   [RESTARTED] = MAY_RESTART};
    return (script->faults & needs[how]) != 0;
}

static void list_faults(struct listing *listing)
{
    for (uint8_t a = 0; a < AGENTS; a++) {
        if (!world.agents[a].alive)
            continue;
        for (uint8_t m = 0; m < world.master_count; m++)
            list_faults_of_path(listing, a, m);
        for (unsigned i = 0; i < LENGTHS && (script->faults & MAY_CRASH) != 0; i++)
            add(listing,
                (struct choice){.kind = CHOICE_CRASH, .agent = a, .ms = (int16_t)gone_ms[i]});
    }
    for (uint8_t m = 0; m < world.master_count; m++)
        for (enum forgetting how = FLUSHED; how <= RESTARTED; how++)
            for (uint8_t from = 0; from < (how == COPIED ? world.master_count : 1); from++)
                if (may_forget(how) && (how != COPIED || from != m))
                    add(listing, (struct choice){.kind = CHOICE_FORGET,
                                                 .agent = from, /* copied from */
                                                 .master = m,
                                                 .how = (uint8_t)how});
}

/* All happenings that are due come before time moves on. With one order, the first is the only
 * choice. */
static void list_choices(struct listing *listing, unsigned faults_left, bool all_orders)
{
    listing->count = 0;
    list_due(listing, all_orders);
    bool is_quiet = listing->count == 0;
    for (uint8_t a = 0; a < AGENTS && is_quiet; a++)
        if (wants_lock(a))
            add(listing, (struct choice){.kind = CHOICE_LOCK, .agent = a});
    for (unsigned i = 0; i < world.waiting; i++)
        if (is_stray(world_waiting(&world, i)))
            add(listing, (struct choice){.kind = CHOICE_DUE, .place = (uint16_t)i});
    if (is_quiet)
        add(listing, (struct choice){.kind = CHOICE_TIME});
    if (faults_left > 0 && world.now_us < world.chaos_until_us)
        list_faults(listing);
}

/* ---- taking one ---- */

static void sooner(int64_t *next, int64_t at_us)
{
    if (at_us > world.now_us && at_us < *next)
        *next = at_us;
}

/* The next moment at which something becomes due. */
static int64_t next_time(void)
{
    int64_t next = world.end_us, part_us = 250 * MS;
    for (unsigned i = 0; i < world.waiting; i++)
        sooner(&next, world_waiting(&world, i)->at_us);
    for (uint8_t a = 0; a < AGENTS; a++)
        if (world.agents[a].alive)
            sooner(&next, guard_deadline(&world.agents[a].guard).us);
    for (uint8_t m = 0; m < world.master_count; m++) {
        struct keyspace *keys = world.masters[m].keys;
        uint64_t since = marker_number(keys, "since");
        if (since != 0)
            sooner(&next, world.now_us + MS * ((int64_t)since + 1001 +
                                               (int64_t)marker_number(keys, "max_ttl") -
                                               master_wall_ms(&world, &world.masters[m])));
    }
    if (world.now_us < world.chaos_until_us)
        sooner(&next, (world.now_us / part_us + 1) * part_us);
    return next;
}

/* Sets back the agents' clocks, which are of no help. Each proposal is as it was at first. */
static void set_back_clocks(void)
{
    struct sim_master now = {.skew_ms = 0};
    for (uint8_t a = 0; a < AGENTS; a++)
        world.agents[a].skew_ms = 1000 - master_wall_ms(&world, &now);
}

/* Removes the happenings that would do nothing any more. A request that a dead connection has left
 * behind may run at any time: it waits behind all others. */
static void sweep(void)
{
    unsigned strays = 0;
    for (unsigned i = 0; i < world.waiting;) {
        const struct happening *h = world_waiting(&world, i);
        bool is_left = h->kind == HAPPEN_REQUEST && h->late;
        strays += is_left && is_stray(h);
        if (world_is_void(&world, h) || strays > STRAYS_MAX)
            world_remove(&world, i);
        else if (is_left && !is_stray(h))
            world_plan(&world, INT64_MAX, world_remove(&world, i));
        else
            i++;
    }
}

static struct happening happening_of(const struct choice *choice)
{
    static const enum happening_kind kinds[] = {
        [CHOICE_TICK] = HAPPEN_TICK,    [CHOICE_LOCK] = HAPPEN_LOCK, [CHOICE_TIME] = HAPPEN_TIME,
        [CHOICE_CUT] = HAPPEN_DROP,     [CHOICE_HOLD] = HAPPEN_HOLD, [CHOICE_CRASH] = HAPPEN_CRASH,
        [CHOICE_FORGET] = HAPPEN_FORGET};
    if (choice->kind == CHOICE_DUE || choice->kind == CHOICE_REFUSE) {
        struct happening due = world_remove(&world, choice->place);
        due.refused = choice->kind == CHOICE_REFUSE;
        return due;
    }
    return (struct happening){.kind = kinds[choice->kind],
                              .agent = choice->kind == CHOICE_FORGET ? 0 : choice->agent,
                              .from = choice->agent,
                              .master = choice->master,
                              .connection = world.agents[choice->agent].life,
                              .how = choice->how,
                              .fate = choice->kind == CHOICE_CRASH ? FATE_RUN : choice->how,
                              .late = true,
                              .by_ms = choice->ms};
}

static void take(const struct choice *choice)
{
    struct happening h = happening_of(choice);
    set_back_clocks();
    if (choice->kind == CHOICE_TIME)
        world.now_us = next_time();
    world_take(&world, &h);
    for (uint8_t m = 0; m < world.master_count; m++)
        share_keys(m);
    sweep();
}

/* ---- copying out and back ---- */

/* All that a choice can change. */
struct saved {
    struct sim_agent agents[AGENTS];
    struct sim_master masters[MASTERS_MOST];
    char rest[offsetof(struct world, violation) - offsetof(struct world, now_us)];
    struct happening happenings[WAITING_MAX];
};

static void save(struct saved *ret_saved)
{
    if (world.waiting > WAITING_MAX)
        abort();
    memcpy(ret_saved->agents, world.agents, sizeof ret_saved->agents);
    memcpy(ret_saved->masters, world.masters, sizeof ret_saved->masters);
    memcpy(ret_saved->rest, &world.now_us, sizeof ret_saved->rest);
    for (unsigned i = 0; i < world.waiting; i++)
        ret_saved->happenings[i] = *world_waiting(&world, i);
}

static void restore(const struct saved *saved)
{
    memcpy(world.agents, saved->agents, sizeof saved->agents);
    memcpy(world.masters, saved->masters, sizeof saved->masters);
    memcpy(&world.now_us, saved->rest, sizeof saved->rest);
    for (unsigned i = 0; i < world.waiting; i++)
        *world_waiting(&world, i) = saved->happenings[i];
}

/* Clears the bytes behind a word's end, which hold an earlier word. */
static void tidy(char word[GUARD_WORD_BYTES])
{
    size_t len = strlen(word);
    memset(word + len, 0, GUARD_WORD_BYTES - len);
}

/* Clears a time that has passed. */
static void tidy_time(int64_t *at_us)
{
    if (*at_us <= world.now_us)
        *at_us = 0;
}

/* The order of happenings of two paths says nothing. */
static uint64_t hash_waiting(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < world.waiting; i++) {
        struct happening *h = world_waiting(&world, i);
        unsigned ahead = 0;
        for (unsigned j = 0; j < i; j++) {
            const struct happening *before = world_waiting(&world, j);
            ahead +=
                before->kind == h->kind && before->agent == h->agent && before->master == h->master;
        }
        tidy_time(&h->at_us);
        sum += hash_more(ahead, h, sizeof *h);
    }
    return sum;
}

/* Never 0. */
static uint64_t hash_state(void)
{
    uint64_t hash = 1;
    for (uint8_t a = 0; a < AGENTS; a++) {
        struct sim_agent *agent = &world.agents[a];
        for (uint8_t m = 0; m < world.master_count; m++) {
            struct link *link = &agent->links[m];
            tidy(agent->guard.masters[m].last.epoch);
            tidy(link->told_epoch);
            tidy_time(&link->last_request_us);
            tidy_time(&link->last_reply_us);
            tidy_time(&link->blocked_until_us);
            hash = hash_more(hash, link, sizeof *link);
            hash = hash_more(hash, &agent->guard.masters[m], sizeof agent->guard.masters[m]);
        }
        tidy_time(&agent->guard.layouts.refused_until.us);
        hash = hash_more(hash, &agent->guard, offsetof(struct guard, layouts));
        hash = hash_more(hash, &agent->guard.layouts, offsetof(struct guard_register, has_stepped));
        hash =
            hash_mix(hash, instant_before((struct instant){world.now_us}, agent->guard.idle_from));
        hash = hash_more(hash, &agent->alive, sizeof agent->alive);
        hash = hash_more(hash, &agent->attempts, sizeof agent->attempts);
        hash = hash_more(hash, &agent->attempt, sizeof agent->attempt);
    }
    hash = hash_mix(hash, hash_waiting());
    hash = hash_more(hash, world.masters, world.master_count * sizeof world.masters[0]);
    return hash_more(hash, &world.now_us,
                     offsetof(struct world, violation) - offsetof(struct world, now_us)) |
           1;
}

/* ---- the beginning ---- */

static void begin(void)
{
    unsigned masters = script->masters ? script->masters : 3;
    world_clear(&world, masters, script->quorum ? script->quorum : masters / 2 + 1);
    memcpy(world.layouts, script->layouts, sizeof script->layouts);
    world.apart = script->apart;
    world.slots = script->slots;
    world.is_searched = true;
    world.before_change = take_own_keys;
    world.unequal = script->max_ttl_ms[0] != script->max_ttl_ms[1];
    world.theme = world.unequal ? THEME_LEASES : THEME_FORGETFUL;
    world.durable = script->durable;
    world.agent_count = AGENTS;
    world.chaos_until_us = script->chaos_ms * MS;
    world.end_us = world.chaos_until_us + script->calm_ms * MS;
    for (uint8_t m = 0; m < world.master_count; m++) {
        char epoch[24];
        take_own_keys(&world, m);
        snprintf(epoch, sizeof epoch, "%x%03x%012x", m + 1u, (unsigned)!script->is_new, 0);
        world.masters[m].epochs = !script->is_new;
        if (!script->is_new)
            world_trust(&world, m, epoch);
        share_keys(m);
    }
    for (uint8_t a = 0; a < AGENTS; a++) {
        world.agents[a].max_ttl_ms = script->max_ttl_ms[a] ? script->max_ttl_ms[a] : 1000;
        world.agents[a].layout = a;
        for (uint8_t m = 0; m < world.master_count; m++)
            if (script->blocked[a] >> m & 1)
                world.agents[a].links[m].blocked_until_us = INT64_MAX;
        world_plan(&world, 0, (struct happening){.kind = HAPPEN_START, .agent = a});
    }
    /* The agents of an old group know that it votes. */
    struct listing listing;
    for (list_choices(&listing, 0, false); !script->is_new && listing.list[0].kind <= CHOICE_TICK;
         list_choices(&listing, 0, false))
        take(&listing.list[0]);
}

/* ---- the search ---- */

static struct seen_table seen;
static struct choice trail[DEPTH_MAX];
static unsigned trail_length;
static const struct options *options;
static bool ended;
static uint64_t states, ends, steps;
static double ends_at;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool is_known(unsigned faults_left)
{
    uint64_t hash = hash_state();
    struct seen *place = seen_place(&seen, hash);
    if (place->hash != 0 && place->faults_left >= faults_left)
        return true;
    states += place->hash == 0;
    *place = (struct seen){hash, 0, (uint8_t)faults_left};
    return false;
}

static bool is_late(void)
{
    if (++steps % 1024 == 0)
        ended = ended || (ends_at > 0 && cpu_seconds() > ends_at);
    return ended;
}

/* True: a violation was found, and the trail leads to it. */
static bool explore(unsigned faults_left)
{
    static struct listing listings[DEPTH_MAX];
    static struct saved saved[DEPTH_MAX];
    struct listing *listing = &listings[trail_length];
    if (is_late() || is_known(faults_left))
        return false;
    if (world.now_us >= world.end_us) {
        ends++;
        check_end(&world);
        return *world.violation != '\0';
    }
    list_choices(listing, faults_left, options->all_orders);
    save(&saved[trail_length]);
    for (unsigned i = 0; i < listing->count; i++) {
        trail[trail_length++] = listing->list[i];
        take(&listing->list[i]);
        if (trail_length == DEPTH_MAX)
            check_broken(&world, "endless", "after %u choices it is not over", trail_length);
        if (*world.violation || explore(faults_left - (listing->list[i].kind >= CHOICE_REFUSE)))
            return true;
        trail_length--;
        restore(&saved[trail_length]);
    }
    return false;
}

static bool search(unsigned bound)
{
    seen_forget_all(&seen);
    states = ends = 0;
    trail_length = 0;
    if (setjmp(world_asserted) != 0)
        return true;
    begin();
    return explore(bound);
}

/* Takes the trail's choices again, and prints what happens. */
static void tell_story(void)
{
    char violation[sizeof world.violation], why[sizeof world.why];
    memcpy(violation, world.violation, sizeof violation);
    memcpy(why, world.why, sizeof why);
    world.told = true;
    if (setjmp(world_asserted) == 0) {
        begin();
        for (unsigned i = 0; i < trail_length; i++)
            take(&trail[i]);
        if (world.now_us >= world.end_us)
            check_end(&world);
    }
    if (!*world.violation) /* it is endless */
        check_broken(&world, violation, "%s", why);
    world.told = false;
}

/* Returns true if the search ended as it should. */
static bool search_script(bool *has_found)
{
    unsigned last = options->bound >= 0 ? (unsigned)options->bound
                    : options->quick    ? script->quick_bound
                                        : script->bound;
    double began_at = cpu_seconds();
    bool found = false;
    ends_at = options->seconds > 0 ? began_at + options->seconds : 0;
    ended = false;
    memset(&world.count, 0, sizeof world.count);
    for (unsigned bound = 0; bound <= last && !found && !ended; bound++)
        found = search(bound);
    struct counts count = world.count;
    if (found)
        tell_story();
    printf("%-14s bound %u, %s: %10llu states %9llu ends, depth %4u, %7.1f s: ", script->name, last,
           options->all_orders ? "orders" : "one order", (unsigned long long)states,
           (unsigned long long)ends, trail_length, cpu_seconds() - began_at);
    bool is_thin = !found && last == script->bound && !options->all_orders &&
                   check_is_thin(&count, &script->least, 1);
    printf("%u answered, %u told, %u guessed, %u copies: %s", count.answered, count.told,
           count.guessed, count.copies, is_thin ? "too little happened: " : "");
    printf(found   ? "%s: %s\n"
           : ended ? "NOT COMPLETE, no violation\n"
                   : "complete, no violation\n",
           world.violation, world.why);
    if (found)
        printf("caught by %s in %s\n", world.violation, script->name);
    fflush(stdout);
    *has_found = *has_found || found;
    return options->caught_by ? found && strcmp(world.violation, options->caught_by) == 0
                              : !found && !ended && !is_thin;
}

bool search_runs(const struct options *of)
{
    unsigned passed = 0, failed = 0;
    bool has_found = false;
    options = of;
    for (size_t s = 0; s < script_count && !(options->stops_at_first && has_found); s++) {
        bool wanted = options->names[0] == NULL;
        for (char **name = options->names; *name; name++)
            wanted = wanted || strcmp(*name, scripts[s].name) == 0;
        script = &scripts[s];
        if (wanted && search_script(&has_found))
            passed++;
        else
            failed += wanted;
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 && passed > 0;
}

void search_list(void)
{
    for (size_t i = 0; i < script_count; i++)
        printf("%s | %s | %u | -\n", scripts[i].name, scripts[i].what, scripts[i].bound);
}
