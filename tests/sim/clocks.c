/* Clocks that do not keep the assumptions (A1, A3): agents that are paused together with their
 * clocks, and masters' clocks that step. This file defines the part of the promise that is left
 * then.
 *
 *   the clock steps, or the agent goes on        noticed
 *        |------ A1, A3: two holders ---------------|------ C1 holds again --------->
 *              1 s and a round trip, or later if answers are late or connections died: until so
 *              many masters have told their clocks in time that the hold's validity shows it
 *
 * Such an event concerns the holds whose attempt was sent before it. For each of them it opens the
 * time in which it need not be noticed yet. From then on the agent's report gives the window, and
 * two windows at once are a violation as ever.
 *
 * Of the c masters that have a hold, with N masters and quorum Q, the (N - Q + 1)-th smallest sum
 * of their gains comes off its validity (R14). The agent may have noticed less of the gains than
 * happened. As long as its sum is smaller, the hold is excused. If all masters gain the same, that
 * is until c - (N - Q) of them have told their clocks. */
#include "checker.h"

#include <string.h>

enum {
    NOTICED_US = 1000000,
    NOTICED_LATEST_US = 2500000, /* R14: if connections died */
    RATE_US = 20000,             /* drift of the agents' clocks in that time */
    SHORTENED_US = 1200000,      /* Round trips that are added to a gain. Some are late. */
};

int64_t clocks_agent_us(const struct world *w, uint8_t index)
{
    const struct agent *agent = &w->agents[index];
    return (agent->paused ? agent->paused_at : w->now) - agent->paused_us;
}

static bool was_read_since(const struct world *w, uint8_t agent, int64_t at)
{
    bool read = true;
    for (uint8_t m = 0; m < w->options.masters; m++)
        read = read && w->agents[agent].clock_read_at[m] >= at;
    return read;
}

static bool was_any_read_since(const struct world *w, uint8_t agent, int64_t at)
{
    bool read = false;
    for (uint8_t m = 0; m < w->options.masters; m++)
        read = read || w->agents[agent].clock_read_at[m] >= at;
    return read;
}

/* Returns how much of the master's gain the agent knows by now. */
static int64_t noticed_us(const struct world *w, uint8_t agent, const struct shaken *shaken,
                          uint8_t m)
{
    const struct gained *gained = &shaken->gained[m];
    return w->agents[agent].clock_read_at[m] >= gained->at ? gained->us : gained->noticed_us;
}

/* Returns the time that comes off the hold's validity (R14). */
static int64_t comes_off_us(const struct world *w, uint8_t agent, const struct shaken *shaken,
                            uint16_t has, bool is_noticed)
{
    int64_t sums[SIM_MASTERS];
    unsigned count = 0, needed = w->options.masters - world_quorum(w) + 1;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        if ((has >> m & 1) == 0)
            continue;
        int64_t us = is_noticed ? noticed_us(w, agent, shaken, m) : shaken->gained[m].us;
        unsigned i = count++;
        for (; i > 0 && sums[i - 1] > us; i--)
            sums[i] = sums[i - 1];
        sums[i] = us;
    }
    return count < needed ? 0 : sums[needed - 1];
}

bool clocks_excuse(struct world *w, uint8_t agent, const struct hold *hold)
{
    const struct shaken *shaken = &hold->tenures[agent].shaken;
    if (shaken->us == 0 || w->switches.broken != ASSUME_ALL) /* A1 or A3 is looked at */
        return false;
    const struct agent *at = &w->agents[agent];
    int64_t from = shaken->at > at->stalled_last ? shaken->at : at->stalled_last;
    int64_t since_us = w->now - from - options_round_trip_us(&w->options) - RATE_US;
    if (at->stalled || since_us < NOTICED_US)
        return true;
    uint16_t has = shaken->on | master_set_having(w, hold->key, &hold->token);
    return comes_off_us(w, agent, shaken, has, true) < comes_off_us(w, agent, shaken, has, false);
}

bool clocks_excuse_all(struct world *w, const struct hold *hold)
{
    bool any = false, all = true;
    for (uint8_t a = 0; a < SIM_AGENTS && clocks_shook(hold); a++) {
        bool binds = hold->tenures[a].window_until > w->now;
        any = any || binds;
        all = all && (!binds || clocks_excuse(w, a, hold));
    }
    return any && all;
}

bool clocks_shook(const struct hold *hold)
{
    bool shook = false;
    for (uint8_t a = 0; a < SIM_AGENTS; a++)
        shook = shook || hold->tenures[a].shaken.us > 0;
    return shook;
}

unsigned clocks_unnoticed(const struct world *w, uint8_t agent, const struct hold *hold)
{
    const struct shaken *shaken = &hold->tenures[agent].shaken;
    unsigned count = 0;
    for (uint8_t m = 0; m < w->options.masters && shaken->us > 0; m++)
        count += noticed_us(w, agent, shaken, m) < shaken->gained[m].us;
    return count;
}

bool clocks_may_shorten(const struct tenure *tenure, int64_t us)
{
    return tenure->shaken.us > 0 && us <= tenure->shaken.us + SHORTENED_US;
}

static void gain(struct world *w, uint8_t agent, struct shaken *shaken, uint8_t m, int64_t us)
{
    struct gained *gained = &shaken->gained[m];
    gained->noticed_us = noticed_us(w, agent, shaken, m);
    gained->us += us;
    gained->at = w->now;
}

/* The masters have gained `us`. */
static void shake(struct world *w, uint8_t agent, struct shaken *shaken, uint16_t masters,
                  int64_t us)
{
    shaken->at = w->now;
    shaken->us += us;
    for (uint8_t m = 0; m < w->options.masters; m++)
        if ((masters >> m & 1) != 0)
            gain(w, agent, shaken, m, us);
}

/* Returns true if the round is void: a gain that is noticed at any master voids the rounds that
 * were sent before. */
bool clocks_are_behind(const struct world *w, uint8_t index, int64_t asked_at)
{
    const struct agent *agent = &w->agents[index];
    bool is_behind = agent->gained_us > 0 && agent->gone_on_at > asked_at &&
                     !was_any_read_since(w, index, agent->gone_on_at);
    for (uint8_t m = 0; m < w->options.masters; m++) {
        int64_t jumped_at = w->masters[m].jumped_at;
        is_behind = is_behind || (jumped_at > asked_at && agent->clock_read_at[m] < jumped_at);
    }
    return is_behind;
}

bool clocks_may_void(const struct world *w, uint8_t index, int64_t asked_at)
{
    const struct agent *agent = &w->agents[index];
    return (agent->gained_us > 0 && agent->gone_on_at + NOTICED_LATEST_US > asked_at) ||
           (w->jumped_us > 0 && w->jumped_at + NOTICED_LATEST_US > asked_at);
}

static uint16_t all_masters(const struct world *w)
{
    return (uint16_t)((1u << w->options.masters) - 1);
}

void clocks_asked(struct world *w, uint8_t agent, const struct message *message)
{
    for (size_t i = 0; i < message->count; i++) {
        struct attempt *attempt = world_allocate(w, sizeof *attempt);
        memcpy(attempt->random, message->orders[i].token.random, RANDOM_BYTES);
        attempt->sent_at = w->now;
        for (uint8_t m = 0; m < w->options.masters; m++)
            attempt->gained_us[m] = w->masters[m].gained_us;
        attempt->next = w->agents[agent].attempts;
        w->agents[agent].attempts = attempt;
    }
}

/* Returns the first command of the agent that carried the token of the hold. */
static const struct attempt *attempt_of(struct world *w, uint8_t agent, const struct hold *hold)
{
    const struct attempt *first = NULL, *attempt = w->agents[agent].attempts;
    for (; attempt != NULL; attempt = attempt->next)
        if (memcmp(attempt->random, hold->token.random, RANDOM_BYTES) == 0)
            first = attempt;
    if (first == NULL)
        checker_fail(w, "C4 k%u: a%u granted a token that it asked no master for", hold->key,
                     agent);
    return first;
}

/* A lease is as long as it seems if its master jumped before the command came. Its agent may
 * notice such a jump later, and takes it off too. */
void clocks_granted(struct world *w, uint8_t index, struct hold *hold)
{
    const struct agent *agent = &w->agents[index];
    struct shaken *shaken = &hold->tenures[index].shaken;
    if (agent->gained_us == 0 && w->jumped_us == 0)
        return;
    const struct attempt *attempt = attempt_of(w, index, hold);
    if (attempt == NULL)
        return;
    int64_t sent_at = attempt->sent_at;
    if (agent->gained_us > 0 &&
        (agent->gone_on_at > sent_at || !was_read_since(w, index, agent->gone_on_at))) {
        shake(w, index, shaken, agent->gone_on_at > sent_at ? all_masters(w) : 0, agent->gained_us);
        shaken->at = agent->gone_on_at;
    }
    if (w->jumped_us > 0 && (w->jumped_at > sent_at || !was_read_since(w, index, w->jumped_at))) {
        shake(w, index, shaken, 0, w->jumped_us);
        for (uint8_t m = 0; m < w->options.masters; m++)
            gain(w, index, shaken, m, w->masters[m].gained_us - attempt->gained_us[m]);
        shaken->at = w->jumped_at > agent->gone_on_at ? w->jumped_at : agent->gone_on_at;
    }
    for (uint8_t m = 0; m < w->options.masters; m++)
        shaken->gained[m].at = shaken->at;
}

/* A renewal that was sent after all gains were noticed counts from after them. They leave nothing
 * behind, unless another holder had the key before they were noticed: the hold goes on with the
 * smaller number. */
void clocks_renewed(const struct world *w, uint8_t agent, struct hold *hold)
{
    struct shaken *shaken = &hold->tenures[agent].shaken;
    if (shaken->us == 0 || hold->tenures[agent].asked.sent_at < shaken->at ||
        !was_read_since(w, agent, shaken->at))
        return;
    hold->came_back |= w->fence_last[hold->key] > hold->token.fence;
    *shaken = (struct shaken){0};
}

static void note_masters(struct world *w, uint8_t agent)
{
    for (uint8_t place = 0; place < SIM_KEYS; place++)
        for (struct hold *hold = w->agents[agent].held[place]; hold != NULL;
             hold = hold->tenures[agent].next)
            hold->tenures[agent].shaken.on |= master_set_having(w, hold->key, &hold->token);
}

static void shake_all(struct world *w, uint8_t agent, uint16_t masters, int64_t us)
{
    for (uint8_t place = 0; place < SIM_KEYS; place++)
        for (struct hold *hold = w->agents[agent].held[place]; hold != NULL;
             hold = hold->tenures[agent].next)
            shake(w, agent, &hold->tenures[agent].shaken, masters, us);
}

void clocks_pause(struct world *w, uint8_t index, int64_t us)
{
    struct agent *agent = &w->agents[index];
    if (agent->stalled || !agent->alive)
        return;
    world_say(w, "a%u is paused with its clocks for %lld us", index, (long long)us);
    w->figures.pauses++;
    note_masters(w, index);
    agent->paused_at = w->now;
    agent->paused = true;
    agent_stall(w, index, us);
}

/* Before anything reaches it. */
void clocks_go_on(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    if (!agent->paused)
        return;
    agent->paused = false;
    int64_t us = w->now - agent->paused_at;
    agent->paused_us += us;
    agent->gained_us = us;
    agent->gone_on_at = w->now;
    shake_all(w, index, all_masters(w), us);
}

/* An agent that said `lost` has told its caller, and reads no clock for the hold any more. */
static void end_windows_of_lost(const struct world *w, struct hold *hold)
{
    for (uint8_t a = 0; a < w->options.agents; a++)
        if (hold->tenures[a].lost && hold->tenures[a].window_until > w->now)
            hold_end_window(hold, a, w->now);
}

/* Back and forth; one that goes forward ends leases. */
void clocks_jump(struct world *w, uint8_t master, int64_t us)
{
    world_say(w, "m%u: the clock jumps by %lld us", master, (long long)us);
    for (uint8_t a = 0; a < w->options.agents; a++)
        note_masters(w, a);
    w->masters[master].jumped_us += us;
    w->figures.clock_jumps++;
    if (us < 0)
        w->set_back_us -= us;
    else
        clocks_stepped(w, master, us);
}

void clocks_stepped(struct world *w, uint8_t master, int64_t us)
{
    w->masters[master].jumped_at = w->jumped_at = w->now;
    w->masters[master].gained_us += us;
    w->jumped_us += us;
    for (uint16_t i = 1; i < w->hold_count && w->switches.broken == ASSUME_ALL; i++)
        end_windows_of_lost(w, &w->holds[i]);
    for (uint8_t a = 0; a < w->options.agents; a++)
        shake_all(w, a, (uint16_t)(1u << master), us);
}
