/* Followers of keys (D3.8): each agent follows each key from its start on.
 *
 *   C19 The numbers of a mutex's holders that one agent tells never fall. Only a key that is
 *       held has a number. In a healed world the last line about each key says that it is free, a
 *       second after its last lease has ended; the agent that reaches no quorum in time tells that
 *       it does not know. */
#include "checker.h"

/* Requests of followers have the numbers after those of callers. */
static uint32_t number_of(uint8_t key)
{
    return SIM_REQUESTS + key;
}

void followers_boot(struct world *w, uint8_t agent)
{
    if (!w->switches.followers)
        return;
    for (uint8_t key = 0; key < w->options.keys && w->violation[0] == '\0'; key++) {
        w->agents[agent].followed[key].begun = true;
        struct event event = {
            .kind = EVENT_READ,
            .read = {.request = number_of(key), .key = options_key_text(key), .follows = true}};
        agent_step(w, agent, &event);
    }
}

void followers_told(struct world *w, uint8_t agent, const struct effect_followed *now)
{
    uint8_t key = (uint8_t)(now->request - SIM_REQUESTS);
    struct followed_key *followed = &w->agents[agent].followed[key];
    uint64_t fence = now->occupant.fence;
    bool is_mutex = !options_kind(&w->options, key).rw && w->options.permits == 1 &&
                    !options_kind(&w->options, key).redisson;
    w->figures.told++;
    w->figures.told_held += now->state == KEY_HELD;
    if (now->state != KEY_HELD && w->options.permits == 1 && fence != 0)
        checker_fail(w, "C19 a%u tells a number of k%u, which is not held", agent, key);
    if (is_mutex && fence != 0 && fence < followed->fence)
        checker_fail(w, "C19 a%u tells number %llu of k%u after %llu", agent,
                     (unsigned long long)fence, key, (unsigned long long)followed->fence);
    if (fence > followed->fence)
        followed->fence = fence;
    followed->told = true;
    followed->state = now->state;
}

uint32_t followers_count(const struct world *w, uint8_t agent)
{
    uint32_t count = 0;
    for (uint8_t key = 0; key < w->options.keys; key++)
        count += w->agents[agent].followed[key].begun;
    return count;
}

void followers_end(struct world *w)
{
    for (uint8_t a = 0; a < w->options.agents && w->switches.followers; a++)
        for (uint8_t key = 0; key < w->options.keys; key++) {
            const struct followed_key *followed = &w->agents[a].followed[key];
            /* The choked agent gets no reply in time. */
            bool sees = a != w->choked && followed->told && followed->state == KEY_FREE;
            bool knows_nothing = a == w->choked && followed->state == KEY_UNKNOWN;
            if (!sees && !knows_nothing)
                checker_fail(w, "C19 a%u has not told that k%u is free", a, key);
        }
}
