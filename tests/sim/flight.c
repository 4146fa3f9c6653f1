/* One message on its way to one master and back: copied out of the core, run there, told to the
 * core. When each of these happens is another one's affair (network.c, tests/explore). */
#include "world.h"

#include <string.h>

static struct connection *connection_of(struct world *w, const struct flight *flight)
{
    return &w->agents[flight->message->agent].connections[flight->master];
}

bool flight_is_connected(struct world *w, const struct flight *flight)
{
    return w->agents[flight->message->agent].incarnation == flight->message->incarnation &&
           connection_of(w, flight)->generation == flight->generation;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

const struct message *flight_copy(struct world *w, uint8_t agent, const struct effect_send *send,
                                  const struct send_item *items)
{
    struct message *message =
        world_allocate(w, sizeof *message + send->count * sizeof message->orders[0]);
    message->op = send->op;
    message->agent = agent;
    message->group = send->group;
    message->incarnation = w->agents[agent].incarnation;
    message->sent_at = w->now;
    message->count = send->count;
    struct bytes command = master_command(w, agent, send->op, items + send->first, send->count);
    char *bytes = world_allocate(w, command.len);
    memcpy(bytes, command.at, command.len);
    message->command = (struct bytes){bytes, command.len};
    const struct config *naming = &w->naming[0];
    message->names_vote = asking_names_vote(naming, send->group, send->op);
    message->has_own = asking_has_own(naming, send->group, send->op);
    if (send->native && (send->op == OP_ACQUIRE || w->switches.compares))
        message->native = master_native(w, agent, send->op, items + send->first, send->count);
    for (uint8_t m = 0; m < w->options.masters; m++)
        message->clocks_ms[m] = send->clocks_ms[m];
    message->proposals = asking_proposals(naming, items + send->first, send->count);
    for (size_t i = 0; i < send->count; i++) {
        const struct send_item *item = &items[send->first + i];
        struct order *order = &message->orders[i];
        order->ref = item->ref;
        order->token = item->token;
        order->previous = item->previous;
        order->ticket = item->ticket;
        order->ttl_ms = item->ttl_ms;
        order->key = world_place(w, item->key, item->token.slot);
        order->fencing = item->fencing;
        order->mode = item->mode;
        order->label_len = (uint8_t)(item->label.len < SIM_LABEL ? item->label.len : SIM_LABEL);
        if (send->op == OP_RELEASE) /* the ticket that comes with it is another one's */
            order->label_len = 0;
        if (order->label_len != 0)
            memcpy(order->label, item->label.at, order->label_len);
        turns_shown(w, agent, order);
        if (send->op == OP_RENEW || send->op == OP_RESUME || send->op == OP_REPAIR)
            checker_renews(w, order), labels_renewed(w, agent, order);
        if (send->op == OP_RENEW || send->op == OP_RESUME || send->op == OP_REPAIR ||
            send->op == OP_ADOPT)
            checker_asks(w, agent, order);
        if (send->op == OP_ADOPT)
            labels_adopts(w, agent, order);
    }
    return message;
}

static uint8_t name_of(const struct world *w, const struct flight *flight,
                       const struct order *order)
{
    return master_name(w, flight->message->agent, order->key);
}

static bool is_locked_by(struct world *w, const struct flight *flight, const struct order *order)
{
    return master_holds(w, flight->master, name_of(w, flight, order), order->token.random);
}

/* Notes the agent that set a key, and until when it owes the release of the key. */
static void note_author(struct world *w, const struct flight *flight, const struct order *order,
                        bool had)
{
    const struct message *message = flight->message;
    struct master_key *key = &w->masters[flight->master].keys[name_of(w, flight, order)];
    if (!is_locked_by(w, flight, order))
        return;
    if (!had) {
        key->set_by = message->agent;
        key->set_by_incarnation = message->incarnation;
        key->stray = !flight_is_connected(w, flight);
        key->set_back = flight->vote != NULL && master_wall_us(w, flight->master) <
                                                    1000 * message->clocks_ms[flight->master];
        key->lease_until = 0;
    }
    /* An adoption that fails owes nothing (D3), and a release that is refused extends nothing. */
    if (message->agent == key->set_by && message->op != OP_ADOPT && message->op != OP_RELEASE)
        key->lease_until = later(key->lease_until, message->sent_at + (int64_t)order->ttl_ms * 990);
    if (w->healed)
        master_end_set_back(w, flight->master, name_of(w, flight, order));
}

void flight_execute(struct world *w, struct flight *flight, enum mishap mishap)
{
    const struct message *message = flight->message;
    bool had[LIMIT_BATCH], inherits[LIMIT_BATCH];
    flight->executed = true;
    flight->verdicts = world_allocate(w, message->count * sizeof *flight->verdicts);
    for (size_t i = 0; i < message->count; i++) {
        const struct order *order = &message->orders[i];
        had[i] = is_locked_by(w, flight, order);
        inherits[i] =
            message->op == OP_HANDOVER &&
            master_holds(w, flight->master, name_of(w, flight, order), order->previous.random);
    }
    master_execute(w, flight, mishap, flight->verdicts);
    for (size_t i = 0; i < message->count; i++) {
        const struct order *order = &message->orders[i];
        const struct verdict *verdict = &flight->verdicts[i];
        note_author(w, flight, order, had[i]);
        if (w->verbose)
            world_say(w, "    m%u %s k%u %02x%02x for a%u%s: %s", flight->master,
                      op_name(message->op), order->key, order->token.random[0],
                      order->token.random[1], message->agent,
                      flight_is_connected(w, flight) ? "" : " (dead connection)",
                      vote_name(verdict->reply.vote));
        bool takes = message->op == OP_ACQUIRE || message->op == OP_HANDOVER;
        if (verdict->reply.vote == VOTE_YES && takes && !inherits[i])
            checker_voted(w, order);
        if (verdict->reply.vote == VOTE_YES && takes && !flight_is_connected(w, flight))
            w->intruded_at = w->now;
        w->figures.natives_granted += verdict->reply.is_native;
        w->figures.natives_released +=
            flight->vote != NULL && message->op == OP_RELEASE && verdict->reply.vote == VOTE_YES;
        w->figures.repairs += verdict->reply.vote == VOTE_REPAIRED;
        w->figures.handovers += message->op == OP_HANDOVER && verdict->reply.vote == VOTE_YES;
        w->figures.second_phases += message->op == OP_RAISE && verdict->reply.vote == VOTE_YES;
    }
}

void flight_report(struct world *w, const struct flight *flight, const struct verdict *verdicts,
                   enum vote vote)
{
    const struct message *message = flight->message;
    struct event_reply replies[LIMIT_BATCH];
    master_replies(flight, verdicts, vote, replies);
    struct event event = {.kind = EVENT_REPLIES, .replies = {replies, (uint16_t)message->count}};
    agent_step(w, message->agent, &event);
}
