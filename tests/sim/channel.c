/* Subscriptions and messages (R9): they share the fate of the connection, and any of them may be
 * late or lost. */
#include "world.h"

#include "agent/redis/replies.h"

#include <stdlib.h>
#include <string.h>

struct signal {
    enum event_kind kind; /* SUBSCRIBED, MESSAGE */
    uint8_t key;
    struct event_channel said; /* MESSAGE */
};

static struct connection *connection_of(struct world *w, uint8_t agent, uint8_t master)
{
    return &w->agents[agent].connections[master];
}

static int64_t delay_us(struct world *w, uint8_t agent, uint8_t master, int64_t cut_until)
{
    int64_t us = prng_between(&w->agents[agent].links[master], 20, w->options.out_us_max);
    return w->now < cut_until ? cut_until - w->now + us : us;
}

static void say_to_agent(struct world *w, uint8_t agent, uint8_t master, struct signal signal)
{
    struct connection *connection = connection_of(w, agent, master);
    struct signal *copy = world_allocate(w, sizeof *copy);
    *copy = signal;
    world_plan_in(w, delay_us(w, agent, master, connection->cut_back_until),
                  (struct happening){.kind = HAPPEN_SIGNAL,
                                     .agent = agent,
                                     .master = master,
                                     .number = connection->generation,
                                     .what = copy});
}

static void ask(struct world *w, uint8_t agent, uint8_t master, uint8_t key)
{
    struct connection *connection = connection_of(w, agent, master);
    struct signal *signal = world_allocate(w, sizeof *signal);
    signal->key = key;
    world_plan_in(w, delay_us(w, agent, master, connection->cut_out_until),
                  (struct happening){.kind = HAPPEN_SUBSCRIBE,
                                     .agent = agent,
                                     .master = master,
                                     .number = connection->generation,
                                     .what = signal});
}

void channel_watch(struct world *w, uint8_t agent, uint8_t key, bool watches)
{
    if (w->agents[agent].watches[key] == watches)
        checker_fail(w, "seam: a%u %s k%u twice", agent, watches ? "watches" : "leaves", key);
    w->agents[agent].watches[key] = watches;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        struct connection *connection = connection_of(w, agent, m);
        connection->subscribed[key] = false;
        if (watches && connection->up)
            ask(w, agent, m, key);
    }
}

void channel_connected(struct world *w, uint8_t agent, uint8_t master)
{
    for (uint8_t k = 0; k < w->options.keys; k++)
        if (w->agents[agent].watches[k])
            ask(w, agent, master, k);
}

static bool is_subscribed(struct world *w, uint8_t agent, uint8_t master, uint8_t name)
{
    uint8_t key = name % SIM_KEYS;
    return master_name(w, agent, key) == name && network_leads_to(w, agent, master) &&
           connection_of(w, agent, master)->subscribed[key];
}

/* The SUBSCRIBE reaches its master. */
void channel_subscribe(struct world *w, uint8_t agent, uint8_t master, uint32_t generation,
                       const void *what)
{
    const struct signal *signal = what;
    struct connection *connection = connection_of(w, agent, master);
    if (connection->generation != generation || !network_leads_to(w, agent, master) ||
        !w->agents[agent].watches[signal->key])
        return;
    connection->subscribed[signal->key] = true;
    say_to_agent(w, agent, master, (struct signal){.kind = EVENT_SUBSCRIBED, .key = signal->key});
}

uint32_t channel_publish(struct world *w, uint8_t master, uint8_t name, struct bytes message)
{
    uint8_t key = name % SIM_KEYS;
    char text[64] = "";
    memcpy(text, message.at, message.len < sizeof text ? message.len : sizeof text - 1);
    struct signal signal = {.kind = EVENT_MESSAGE, .key = key};
    if (!options_kind(&w->options, key).redisson)
        signal.said = message_read(text);
    else if (!message_is_redissons(text))
        return 0;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        if (is_subscribed(w, a, master, name) &&
            !prng_in_10000(&w->agents[a].links[master], w->options.message_lost)) {
            w->figures.messages++;
            say_to_agent(w, a, master, signal);
        }
    }
    return channel_agents(w, master, name);
}

uint32_t channel_agents(struct world *w, uint8_t master, uint8_t name)
{
    uint32_t agents = 0;
    for (uint8_t a = 0; a < w->options.agents; a++)
        agents += is_subscribed(w, a, master, name);
    return agents;
}

static void tell(struct world *w, uint8_t agent, uint8_t master, const struct signal *signal)
{
    struct event event = {.kind = signal->kind};
    event.channel = signal->said;
    event.channel.group = agent_group_of(w, agent, signal->key);
    event.channel.master = master;
    event.channel.key = options_key_text(signal->key);
    agent_step(w, agent, &event);
}

/* A confirmation or a message reaches its agent. */
void channel_signal(struct world *w, uint8_t agent, uint8_t master, uint32_t generation,
                    const void *what)
{
    if (connection_of(w, agent, master)->generation == generation && w->agents[agent].alive)
        tell(w, agent, master, what);
}

void channel_dropped(struct world *w, uint8_t agent, uint8_t master)
{
    struct connection *connection = connection_of(w, agent, master);
    for (uint8_t k = 0; k < w->options.keys; k++) {
        bool told = w->agents[agent].watches[k] && w->violation[0] == '\0';
        connection->subscribed[k] = false;
        if (told)
            tell(w, agent, master, &(struct signal){.kind = EVENT_UNSUBSCRIBED, .key = k});
    }
}
