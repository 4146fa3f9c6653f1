/* `lockagent trust`: gives masters their vote by hand (D5.3).
 *
 * As an agent does, it tells every master that does not vote what the others remember, and has
 * read that after the master's epoch began: before that, the master may have granted what the
 * others have not. It does not wait for guards, and guesses at once where too few remember. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/redis/asking.h"
#include "agent/redis/redis.h"
#include "agent/redis/visit.h"

struct trusted {
    bool known; /* `marker` has been read */
    struct guard_answer marker;
    int64_t time_ms;  /* of the master */
    size_t witnesses; /* so many other masters remembered before this command */
};

struct trusting {
    const struct config *config;
    struct visit visit;
    size_t needed; /* masters that meet every quorum (W) */
    struct trusted masters[LIMIT_MASTERS];
};

/* ---- asking ---- */

static int64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Asks the marker's script, and keeps its answer. A master that fails is not asked again. */
static bool ask_marker_by_hand(struct trusting *group, size_t master, struct guard_ask ask)
{
    struct visit *visit = &group->visit;
    struct trusted *trusted = &group->masters[master];
    const char *run_id = visit->masters[master].run_id;
    ask.master = (uint8_t)master;
    struct text command = asking_marker(visit->resp, &ask, run_id, wall_us(), /* whole= */ true);
    redisReply *reply = visit_ask(visit, master, command);
    trusted->known = reply != NULL && asking_read_marker(reply, &trusted->marker);
    if (trusted->known)
        trusted->time_ms = reply->element[reply->elements - 1]->integer;
    if (reply != NULL && !trusted->known)
        snprintf(visit->says, sizeof(visit->says), "broke the protocol: its answer means nothing");
    freeReplyObject(reply);
    return trusted->known;
}

static bool votes(const struct trusted *master)
{
    return master->known && master->marker.vote[0] != '\0';
}

/* Lets the epoch of a master begin that will be told: that of its present run. */
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

/* What one master is told: the largest numbers that the others know, and, if too few of them
 * remember, the clocks as well. */
static struct guard_ask word_for(const struct trusting *group, size_t master)
{
    const struct trusted *to = &group->masters[master];
    struct guard_ask ask = {
        .question = GUARD_ASK_TRUST,
        .max_ttl_ms = group->config->max_ttl_ms,
        .told = to->witnesses >= group->needed ? GUARD_TOLD : GUARD_GUESSED,
    };
    if (to->marker.told != GUARD_NOT_TOLD)
        ask.told = (uint8_t)to->marker.told; /* it remembers; its guard alone is to end */
    if (group->visit.masters[master].run_id[0] != '\0') /* else each question begins an epoch */
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

/* True if the master votes in the end. */
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
        *to = before; /* the next one is told what this one said */
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
                     : "not trusted: it forgot meanwhile; try again");
    say(config->name, url, text);
    return votes(to);
}

static void count_witnesses(struct trusting *group)
{
    size_t remembering = 0, count = group->visit.group->master_count;
    for (size_t m = 0; m < count; m++)
        remembering += is_witness(&group->masters[m]);
    for (size_t m = 0; m < count; m++)
        group->masters[m].witnesses = remembering - is_witness(&group->masters[m]);
}

/* Returns how many masters of the group do not vote in the end. */
static size_t trust_group(struct trusting *group, trust_say *say)
{
    const struct config_group *config = group->visit.group;
    struct guard_ask keep = {.question = GUARD_ASK_KEEP, .max_ttl_ms = group->config->max_ttl_ms};
    size_t failed = 0;
    for (size_t m = 0; m < config->master_count; m++)
        if (!settle_epoch(group, m))
            say(config->name, config->masters[m].url, group->visit.says);
    for (size_t m = 0; m < config->master_count; m++)
        if (group->masters[m].known && !ask_marker_by_hand(group, m, keep))
            say(config->name, config->masters[m].url, group->visit.says);
    count_witnesses(group);
    for (size_t m = 0; m < config->master_count; m++)
        failed += !(group->masters[m].known && tell_master(group, m, say));
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
        group.needed = config->groups[g].master_count - config_group_quorum(config, g) + 1;
        visit_begin(&group.visit, &config->groups[g], &resp);
        failed += trust_group(&group, say);
        visit_close(&group.visit);
    }
    return failed;
}
