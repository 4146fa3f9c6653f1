/* The commands by hand at the masters of a configuration: `lockagent trust`, `lockagent trust
 * --new` and `lockagent layouts`.
 *
 * `lockagent trust` gives masters their vote (D5.3). Like an agent, it tells every master that does
 * not vote the numbers that the others remember. It reads these after the master's epoch began,
 * because before that the master may have granted numbers that the others do not have. Unlike an
 * agent, it does not wait for guards, and guesses at once if too few masters remember. */
#include "agent/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/text.h"
#include "agent/core/core_assert.h"
#include "agent/redis/asking.h"
#include "agent/redis/visit.h"
#include "new_script.h"

/* ---- trust ---- */

struct trusted {
    bool known; /* `marker` has been read. */
    struct guard_answer marker;
    int64_t time_ms;  /* The master's time. */
    size_t witnesses; /* Masters that remembered before this command, without this one. */
};

struct trusting {
    const struct config *config;
    struct visit visit;
    size_t needed; /* Masters that must remember, so that another one can be told. */
    struct trusted masters[LIMIT_MASTERS];
    bool has_neighbours; /* Another layout is at work on one of them (R23). */
    char layout[LAYOUT_BYTES + 1], layout_name[LAYOUT_NAME_BYTES];
};

/* ---- asking ---- */

static int64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Calls the marker's script and keeps its reply. A master that fails is not asked again. */
static bool ask_marker_by_hand(struct trusting *group, size_t master, struct guard_ask ask)
{
    struct visit *visit = &group->visit;
    struct trusted *trusted = &group->masters[master];
    const char *run_id = visit->masters[master].run_id;
    struct guard_layouts layouts;
    ask.master = (uint8_t)master;
    ask.has_replicas = visit->group->replicas_ack > 0;
    /* It is compared, and never noted. */
    ask.layout = (struct text){group->layout, strlen(group->layout)};
    memcpy(ask.layout_name, group->layout_name, sizeof(ask.layout_name));
    ask.keep_ms = 1, ask.renews = true;
    struct text command = asking_marker(visit->resp, &ask, run_id, wall_us(), /* whole= */ true);
    redisReply *reply = visit_ask(visit, master, command);
    trusted->known = reply != NULL && asking_read_marker(reply, &trusted->marker, &layouts);
    if (trusted->known)
        trusted->time_ms = asking_marker_time_ms(reply);
    if (trusted->known && layouts.at_work > (uint64_t)layouts.noted)
        group->has_neighbours = true;
    if (reply != NULL && !trusted->known)
        snprintf(visit->says, sizeof(visit->says), "broke the protocol: not a possible reply");
    freeReplyObject(reply);
    return trusted->known;
}

static bool votes(const struct trusted *master)
{
    return master->known && master->marker.vote[0] != '\0';
}

/* Makes the master's epoch that will be told begin: that of its present run. */
static bool settle_epoch(struct trusting *group, size_t master)
{
    struct guard_ask ask = {.question = GUARD_ASK_KEEP, .max_ttl_ms = group->config->max_ttl_ms};
    if (!visit_open(&group->visit, master))
        return false;
    if (!group->visit.group->durable)
        ask.question = GUARD_ASK_RESTART;
    if (!ask_marker_by_hand(group, master, ask))
        return false;
    ask.question = GUARD_ASK_RESTART;
    return votes(&group->masters[master]) || ask_marker_by_hand(group, master, ask);
}

/* ---- telling ---- */

static bool is_witness(const struct trusted *master)
{
    return master->known && master->marker.told != GUARD_NOT_TOLD && !master->marker.spoiled;
}

/* Returns the question for one master. It has the largest numbers that the others know and, if too
 * few of them remember, the clocks as well. */
static struct guard_ask word_for(const struct trusting *group, size_t master)
{
    const struct trusted *to = &group->masters[master];
    struct guard_ask ask = {
        .question = GUARD_ASK_TRUST,
        .max_ttl_ms = group->config->max_ttl_ms,
        .told = to->witnesses >= group->needed ? GUARD_TOLD : GUARD_GUESSED,
    };
    if (to->marker.told != GUARD_NOT_TOLD)
        ask.told = (uint8_t)to->marker.told; /* It remembers its numbers. */
    /* Without a run id each question would begin an epoch. */
    if (group->visit.masters[master].run_id[0] != '\0')
        snprintf(ask.epoch, sizeof(ask.epoch), "%s", to->marker.epoch);
    for (size_t m = 0; m < group->visit.group->master_count; m++) {
        const struct trusted *other = &group->masters[m];
        if (m == master || !other->known || other->marker.spoiled)
            continue;
        ask.top = other->marker.top > ask.top ? other->marker.top : ask.top;
        ask.max_ttl_ms =
            other->marker.max_ttl_ms > ask.max_ttl_ms ? other->marker.max_ttl_ms : ask.max_ttl_ms;
    }
    uint64_t clocks[] = {(uint64_t)wall_us(), (uint64_t)to->time_ms * 1000};
    for (size_t i = 0; ask.told == GUARD_GUESSED && i < 2; i++)
        ask.top = clocks[i] > ask.top ? clocks[i] : ask.top;
    return ask;
}

/* Reports masters that are the same server under another name. Such a server never votes (D5.3).
 * Returns how many there are. */
static size_t say_twins(const struct visit *visit, trust_say *say)
{
    const struct config_group *config = visit->group;
    size_t twins = 0;
    for (size_t m = 0; m < config->master_count; m++) {
        size_t twin = visit_twin(visit, m);
        char text[160];
        if (twin == m)
            continue;
        snprintf(text, sizeof(text), "the same server as %.100s: it never votes",
                 config->masters[twin].url);
        say(config->name, config->masters[m].url, text);
        twins++;
    }
    return twins;
}

/* Returns true if the master votes in the end. */
static bool tell_master(struct trusting *group, size_t master, trust_say *say)
{
    const struct config_group *config = group->visit.group;
    struct trusted *to = &group->masters[master];
    const char *url = config->masters[master].url;
    char text[160];
    if (votes(to)) {
        say(config->name, url, "votes already");
        return true;
    }
    struct trusted before = *to;
    if (!ask_marker_by_hand(group, master, word_for(group, master))) {
        *to = before; /* The masters after it are told with its earlier reply. */
        say(config->name, url, group->visit.says);
        return false;
    }
    if (votes(to))
        snprintf(text, sizeof(text), "trusted%s: %zu other masters remembered, %zu are needed",
                 to->marker.told == GUARD_GUESSED ? " on a guess" : "", to->witnesses,
                 group->needed);
    else
        snprintf(text, sizeof(text), "%s",
                 to->marker.spoiled
                     ? "not trusted: its marker holds a number that was never granted; delete "
                       "lockagent:marker there"
                 : strcmp(to->marker.epoch, before.marker.epoch) == 0
                     ? "not trusted: its vote cannot be written"
                     : "not trusted: it forgot meanwhile; try again");
    say(config->name, url, text);
    return votes(to);
}

/* Makes the master forget the layouts at work (R23). Agents at work note theirs again within
 * seconds; those that were refused remember what refused them. Returns false, with the error in
 * `says` of the visit, if the master refuses it. */
static bool forget_layouts(struct visit *visit, size_t master)
{
    resp_begin(visit->resp);
    resp_text(visit->resp, "DEL");
    resp_text(visit->resp, LAYOUTS_KEY);
    return visit_do(visit, master, resp_end(visit->resp));
}

/* Returns the number of masters of the group that do not vote in the end, or that keep their
 * layouts. */
static size_t trust_group(struct trusting *group, trust_say *say)
{
    const struct config_group *config = group->visit.group;
    struct guard_ask keep = {.question = GUARD_ASK_KEEP, .max_ttl_ms = group->config->max_ttl_ms};
    size_t failed = 0, remembering = 0;
    for (size_t m = 0; m < config->master_count; m++)
        if (!settle_epoch(group, m))
            say(config->name, config->masters[m].url, group->visit.says);
    if (say_twins(&group->visit, say) > 0)
        return config->master_count;
    for (size_t m = 0; m < config->master_count; m++)
        if (group->masters[m].known && !ask_marker_by_hand(group, m, keep))
            say(config->name, config->masters[m].url, group->visit.says);
    group->needed = guard_witnesses_needed((uint8_t)group->needed, (uint8_t)config->master_count,
                                           group->has_neighbours);
    for (size_t m = 0; m < config->master_count; m++)
        remembering += is_witness(&group->masters[m]);
    for (size_t m = 0; m < config->master_count; m++)
        group->masters[m].witnesses = remembering - is_witness(&group->masters[m]);
    for (size_t m = 0; m < config->master_count; m++)
        failed += !(group->masters[m].known && tell_master(group, m, say));
    for (size_t m = 0; m < config->master_count; m++) {
        if (group->visit.masters[m].blocking == NULL || forget_layouts(&group->visit, m))
            continue;
        say(config->name, config->masters[m].url, group->visit.says);
        failed += votes(&group->masters[m]); /* The others have been counted. */
    }
    return failed;
}

size_t redis_trust(const struct config *config, trust_say *say)
{
    static char bytes[16 << 10];
    struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    size_t failed = 0;
    for (size_t g = 0; g < config->group_count; g++) {
        if (!config->groups[g].guard)
            continue;
        struct trusting group = {.config = config};
        size_t len = config_layout(config, g, group.layout);
        layout_name((struct text){group.layout, len}, group.layout_name);
        group.needed = config->groups[g].master_count - config_group_quorum(config, g) + 1;
        visit_begin(&group.visit, &config->groups[g], &resp);
        failed += trust_group(&group, say);
        visit_close(&group.visit);
    }
    return failed;
}

/* ---- trust --new ---- */

/* `lockagent trust --new` gives their first votes to groups that no agent has ever used (D5.3).
 *
 * It makes three passes over all masters of a group; new.lua describes them. Each begins when the
 * one before has ended. There are 2 s between the first two. Within that time an agent that runs
 * and reaches any master writes its marker there. A marker on any master stops the command. The key
 * of this run shows the later passes that a master has not forgotten anything since the first one.
 * So the votes that the third pass writes erase nothing that was granted meanwhile.
 *
 * The command may end at any point. The key of its run then expires. Masters that it has marked
 * vote, and the others wait for the end of their guard. */

enum {
    OBJECTION_S = 2, /* An agent marks each master that it reaches within this time. */
    GUARD_MARGIN_MS = 1001,
};

enum finding { FOUND_NOTHING, FOUND_NEW, FOUND_VOTES, FOUND_MARKED, FOUND_LOST, FOUND_COUNT };

struct newcomers {
    struct visit visit;
    char own_key[48]; /* Key of this run and this group. */
    bool stopped;
    enum finding found[LIMIT_MASTERS];
    int64_t left_ms[LIMIT_MASTERS]; /* FOUND_MARKED: time until the guard is over; 0: it is over. */
};

static void print_random(char *into, size_t bytes)
{
    unsigned char random[16];
    CORE_ASSERT(bytes <= sizeof(random));
    ssize_t drawn = getrandom(random, bytes, 0);
    CORE_ASSERT(drawn == (ssize_t)bytes);
    for (size_t i = 0; i < bytes; i++)
        snprintf(into + 2 * i, 3, "%02x", random[i]);
}

/* ---- asking ---- */

static struct text new_command(struct newcomers *group, size_t master, const char *call,
                               uint32_t max_ttl_ms)
{
    struct resp *resp = group->visit.resp;
    char epoch[17];
    print_random(epoch, 8);
    resp_begin(resp);
    resp_text(resp, "EVAL");
    resp_text(resp, new_script);
    resp_number(resp, 3);
    resp_text(resp, MARKER_KEY);
    resp_text(resp, VOTE_KEY);
    resp_text(resp, group->own_key);
    resp_text(resp, call);
    resp_text(resp, group->visit.masters[master].run_id);
    resp_number(resp, group->visit.group->durable);
    resp_text(resp, epoch);
    resp_number(resp, max_ttl_ms);
    return resp_end(resp);
}

static enum finding read_finding(const redisReply *reply, int64_t *ret_left_ms)
{
    static const char *const words[FOUND_COUNT] = {
        [FOUND_NEW] = "new",
        [FOUND_VOTES] = "votes",
        [FOUND_MARKED] = "marked",
        [FOUND_LOST] = "lost",
    };
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_INTEGER)
        return FOUND_NOTHING;
    *ret_left_ms = reply->element[1]->integer;
    for (enum finding i = FOUND_NEW; i < FOUND_COUNT; i++)
        if (strcmp(reply->element[0]->str, words[i]) == 0)
            return i;
    return FOUND_NOTHING;
}

/* Calls the script on one master. Returns false, with the error in `says`, if that fails. */
static bool call_master(struct newcomers *group, size_t master, const char *call,
                        uint32_t max_ttl_ms)
{
    struct visit *visit = &group->visit;
    group->found[master] = FOUND_NOTHING;
    char run_id[sizeof(visit->masters[master].run_id)];
    if (!visit_ask_run_id(visit, master, run_id, sizeof(run_id)))
        return false;
    if (strcmp(run_id, visit->masters[master].run_id) != 0) { /* Since visit_open(). */
        snprintf(visit->says, sizeof(visit->says), "the server process has changed");
        return false;
    }
    redisReply *reply = visit_ask(visit, master, new_command(group, master, call, max_ttl_ms));
    if (reply == NULL)
        return false;
    group->found[master] = read_finding(reply, &group->left_ms[master]);
    freeReplyObject(reply);
    if (group->found[master] == FOUND_NOTHING)
        snprintf(visit->says, sizeof(visit->says), "broke the protocol: not a possible reply");
    return group->found[master] != FOUND_NOTHING;
}

static size_t count_found(const struct newcomers *group, enum finding finding)
{
    size_t count = 0;
    for (size_t m = 0; m < group->visit.group->master_count; m++)
        count += group->found[m] == finding;
    return count;
}

/* ---- texts ---- */

static void stop(struct newcomers *group, trust_say *say, size_t master, const char *why)
{
    const struct config_group *config = group->visit.group;
    say(config->name, config->masters[master].url, why);
    group->stopped = true;
}

/* Returns the time in ms until the guards of a quorum are over, when the group votes without this
 * command. */
static int64_t guards_end_in_ms(const struct newcomers *group, size_t quorum, uint32_t max_ttl_ms)
{
    int64_t sorted[LIMIT_MASTERS] = {0};
    for (size_t m = 0; m < group->visit.group->master_count; m++) {
        size_t at = m;
        int64_t left = group->found[m] == FOUND_VOTES    ? 0
                       : group->found[m] == FOUND_MARKED ? group->left_ms[m]
                                                         : max_ttl_ms + GUARD_MARGIN_MS;
        for (; at > 0 && sorted[at - 1] > left; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = left;
    }
    return sorted[quorum - 1];
}

static void say_found(const struct newcomers *group, trust_say *say, size_t quorum,
                      uint32_t max_ttl_ms, const char *who)
{
    const struct config_group *config = group->visit.group;
    char text[200], when[80];
    int64_t left_ms = guards_end_in_ms(group, quorum, max_ttl_ms);
    if (count_found(group, FOUND_VOTES) >= quorum)
        snprintf(when, sizeof(when), "%zu of its %zu masters vote", count_found(group, FOUND_VOTES),
                 config->master_count);
    else if (left_ms > 0)
        snprintf(when, sizeof(when), "the group votes by itself in %lld s",
                 (long long)(left_ms + 500) / 1000);
    else
        snprintf(when, sizeof(when), "the group votes by itself when an agent has asked it again");
    snprintf(text, sizeof(text), "%s; %s", who, when);
    say(config->name, NULL, text);
}

/* ---- the passes ---- */

/* Calls the script on all masters of the group. Stops the group if one of them does not reply. */
static void pass(struct newcomers *group, const char *call, uint32_t max_ttl_ms, trust_say *say)
{
    for (size_t m = 0; m < group->visit.group->master_count; m++)
        if (!call_master(group, m, call, max_ttl_ms))
            stop(group, say, m, group->visit.says);
}

static bool begin_group(struct newcomers *group, const struct config_group *config,
                        struct resp *resp, trust_say *say)
{
    visit_begin(&group->visit, config, resp);
    group->stopped = !config->guard;
    if (!config->guard) {
        say(config->name, NULL, "guard: off: nothing to do");
        return true;
    }
    size_t len = (size_t)snprintf(group->own_key, sizeof(group->own_key), "%s", NEW_KEY);
    print_random(group->own_key + len, 16);
    for (size_t m = 0; m < config->master_count; m++)
        if (!visit_open(&group->visit, m))
            stop(group, say, m, group->visit.says);
    group->stopped |= say_twins(&group->visit, say) > 0;
    return !group->stopped;
}

/* Returns true if all masters of the group vote already. */
static bool first_pass(struct newcomers *group, const struct config *config, size_t index,
                       trust_say *say)
{
    size_t count = group->visit.group->master_count;
    pass(group, "claim", config->max_ttl_ms, say);
    if (group->stopped || count_found(group, FOUND_NEW) == count)
        return false;
    group->stopped = true;
    if (count_found(group, FOUND_VOTES) == count) {
        say(group->visit.group->name, NULL, "all masters vote already");
        return true;
    }
    say_found(group, say, config_group_quorum(config, index), config->max_ttl_ms,
              "agents have been here");
    return false;
}

static void second_pass(struct newcomers *group, const struct config *config, size_t index,
                        trust_say *say)
{
    pass(group, "look", config->max_ttl_ms, say);
    for (size_t m = 0; m < group->visit.group->master_count; m++)
        if (group->found[m] == FOUND_LOST)
            stop(group, say, m, "lost its data within the last 2 s, or took too long");
    if (group->stopped || count_found(group, FOUND_NEW) == (size_t)group->visit.group->master_count)
        return;
    group->stopped = true;
    say_found(group, say, config_group_quorum(config, index), config->max_ttl_ms,
              "an agent came meanwhile");
}

/* Returns true if all masters of the group vote now. */
static bool third_pass(struct newcomers *group, const struct config *config, trust_say *say)
{
    size_t count = group->visit.group->master_count;
    pass(group, "vote", config->max_ttl_ms, say);
    size_t voting = count_found(group, FOUND_NEW) + count_found(group, FOUND_VOTES);
    char text[120];
    if (voting == count)
        snprintf(text, sizeof(text), "new: all %zu masters vote now", count);
    else
        snprintf(text, sizeof(text),
                 "new: %zu of %zu masters vote now; the others vote when their guard is over",
                 voting, count);
    say(group->visit.group->name, NULL, text);
    return voting == count;
}

size_t redis_trust_new(const struct config *config, trust_say *say)
{
    static struct newcomers groups[LIMIT_GROUPS];
    static char bytes[8 << 10];
    struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    size_t failed = 0, going_on = 0;
    bool well[LIMIT_GROUPS] = {false};
    for (size_t g = 0; g < config->group_count; g++)
        well[g] = begin_group(&groups[g], &config->groups[g], &resp, say);
    for (size_t g = 0; g < config->group_count; g++) {
        if (!groups[g].stopped)
            well[g] = first_pass(&groups[g], config, g, say);
        going_on += !groups[g].stopped;
    }
    struct timespec left = {.tv_sec = OBJECTION_S};
    while (going_on > 0 && nanosleep(&left, &left) != 0) {
    }
    for (size_t g = 0; g < config->group_count; g++)
        if (!groups[g].stopped)
            second_pass(&groups[g], config, g, say);
    for (size_t g = 0; g < config->group_count; g++) {
        if (!groups[g].stopped)
            well[g] = third_pass(&groups[g], config, say);
        failed += !well[g];
        visit_close(&groups[g].visit);
    }
    return failed;
}

/* ---- layouts ---- */

/* `lockagent layouts` reads the layouts at work (R23) on the masters of a configuration, and
 * compares them with that of the configuration. */

struct comparing {
    const char *group, *master;
    struct layout ours;
    trust_say *say;
    size_t conflicts;
};

/* Reports one entry of the hash, unless it is forgotten already. */
static void say_entry(struct comparing *comparing, const redisReply *name, const char *entry,
                      int64_t now_ms)
{
    static const char *const words[] = {[LAYOUT_NEIGHBOURS] = "a neighbour",
                                        [LAYOUT_OTHER_WIRE] = "NO NEIGHBOUR: another wire number",
                                        [LAYOUT_OTHER_POLICIES] = "NO NEIGHBOUR: other policies",
                                        [LAYOUT_OTHER_MASTERS] = "NO NEIGHBOUR: other masters"};
    long long until_ms, kept_ms;
    int text_at = 0;
    char text[LAYOUT_BYTES + 200];
    struct layout theirs;
    if (sscanf(entry, "%lld %lld %n", &until_ms, &kept_ms, &text_at) != 2 || text_at == 0)
        return;
    long long left_ms = until_ms - now_ms < kept_ms ? until_ms - now_ms : kept_ms;
    if (left_ms <= 0)
        return;
    bool known = layout_parse((struct text){entry + text_at, strlen(entry + text_at)}, &theirs);
    enum layout_conflict conflict =
        known ? layout_compare(&comparing->ours, &theirs) : LAYOUT_OTHER_WIRE;
    comparing->conflicts += conflict != LAYOUT_NEIGHBOURS;
    snprintf(text, sizeof(text), "%s, forgotten in %lld s, %s: %s", name->str,
             (left_ms + 999) / 1000, words[conflict], entry + text_at);
    text_tame(text); /* Any client may have written the entry. */
    comparing->say(comparing->group, comparing->master, text);
}

/* Reads the layouts that one master has noted. Returns false if it could not be read. */
static bool read_layouts_of(struct comparing *comparing, struct visit *visit, size_t master)
{
    if (!visit_open(visit, master))
        return false;
    resp_begin(visit->resp);
    resp_text(visit->resp, "TIME");
    redisReply *time = visit_ask(visit, master, resp_end(visit->resp)), *all = NULL;
    if (time != NULL) {
        resp_begin(visit->resp);
        resp_text(visit->resp, "HGETALL");
        resp_text(visit->resp, LAYOUTS_KEY);
        all = visit_ask(visit, master, resp_end(visit->resp));
    }
    bool well = time != NULL && time->type == REDIS_REPLY_ARRAY && time->elements == 2 &&
                time->element[0]->type == REDIS_REPLY_STRING && all != NULL &&
                all->type == REDIS_REPLY_ARRAY && all->elements % 2 == 0;
    if (time != NULL && all != NULL && !well)
        snprintf(visit->says, sizeof(visit->says), "broke the protocol: not a possible reply");
    for (size_t i = 0; well && i < all->elements; i++)
        well = all->element[i]->type == REDIS_REPLY_STRING;
    int64_t now_ms = well ? strtoll(time->element[0]->str, NULL, 10) * 1000 : 0;
    for (size_t i = 0; well && i < all->elements; i += 2)
        say_entry(comparing, all->element[i], all->element[i + 1]->str, now_ms);
    freeReplyObject(time);
    freeReplyObject(all);
    return well;
}

bool redis_layouts(const struct config *config, trust_say *say, size_t *ret_conflicts)
{
    static char bytes[4 << 10];
    struct resp resp = {.bytes = bytes, .size = sizeof(bytes)};
    struct comparing comparing = {.say = say};
    bool enough = true;
    for (size_t g = 0; g < config->group_count; g++) {
        const struct config_group *group = &config->groups[g];
        char text[LAYOUT_BYTES + 1], line[LAYOUT_BYTES + 32];
        struct visit visit;
        size_t len = config_layout(config, g, text), read = 0;
        bool parsed = layout_parse((struct text){text, len}, &comparing.ours);
        CORE_ASSERT(parsed);
        comparing.group = group->name;
        if (!group->guard) {
            say(group->name, NULL, "guard: off: agents compare no layouts");
            continue;
        }
        snprintf(line, sizeof(line), "this configuration: %s", text);
        say(group->name, NULL, line);
        visit_begin(&visit, group, &resp);
        for (size_t m = 0; m < group->master_count; m++) {
            comparing.master = group->masters[m].url;
            if (read_layouts_of(&comparing, &visit, m))
                read++;
            else
                say(group->name, group->masters[m].url, visit.says);
        }
        visit_close(&visit);
        enough = enough && read >= config_group_quorum(config, g);
    }
    *ret_conflicts = comparing.conflicts;
    return enough;
}
