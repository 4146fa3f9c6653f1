/* The printed timeline of a replayed seed: every event that a core is given and every effect that
 * it asks for. */
#include "world.h"

#include <stdio.h>

static void say_token(char *out, size_t size, const struct token *token)
{
    snprintf(out, size, "%02x%02x.%llu", token->random[0], token->random[1],
             (unsigned long long)token->fence);
}

static void say_reply(struct world *w, uint8_t agent, const struct event_reply *reply)
{
    world_say(w, "a%u <- m%u %s %u/%u/%u: %s fence %llu pttl %lld ticket %llu", agent,
              reply->master, op_name(reply->op), reply->ref.slot, reply->ref.generation,
              reply->ref.round, vote_name(reply->vote), (unsigned long long)reply->fence,
              (long long)reply->occupant.left_ms, (unsigned long long)reply->ticket);
}

void timeline_event(struct world *w, uint8_t agent, const struct event *e)
{
    char token[64];
    switch (e->kind) {
    case EVENT_TIME:
    case EVENT_FLUSH:
        world_say(w, "a%u <- time", agent);
        break;
    case EVENT_ACQUIRE:
        world_say(w, "a%u <- acquire #%u %.*s ttl %u wait %lld max_hold %lld renew %s by %.*s",
                  agent, e->acquire.request, (int)e->acquire.key.len, e->acquire.key.at,
                  e->acquire.ttl_ms, (long long)e->acquire.wait_ms,
                  (long long)e->acquire.max_hold_ms, renew_name(e->acquire.renew),
                  (int)e->acquire.label.len, e->acquire.label.at);
        break;
    case EVENT_RENEW:
        say_token(token, sizeof token, &e->renew.token);
        world_say(w, "a%u <- renew #%u %.*s %s ttl %u renew %s", agent, e->renew.request,
                  (int)e->renew.key.len, e->renew.key.at, token, e->renew.ttl_ms,
                  renew_name(e->renew.renew));
        break;
    case EVENT_RELEASE:
        say_token(token, sizeof token, &e->release.token);
        world_say(w, "a%u <- release #%u %.*s %s", agent, e->release.request,
                  (int)e->release.key.len, e->release.key.at, token);
        break;
    case EVENT_RESTORE:
        say_token(token, sizeof token, &e->restore.token);
        world_say(w, "a%u <- restore %.*s %s%s", agent, (int)e->restore.key.len, e->restore.key.at,
                  token, e->restore.ended ? " ended" : "");
        break;
    case EVENT_READ:
        world_say(w, "a%u <- read #%u %.*s", agent, e->read.request, (int)e->read.key.len,
                  e->read.key.at);
        break;
    case EVENT_CANCEL:
        world_say(w, "a%u <- cancel #%u", agent, e->cancel.request);
        break;
    case EVENT_UNDELIVERED:
        world_say(w, "a%u <- undelivered %u/%u", agent, e->undelivered.lock.slot,
                  e->undelivered.lock.generation);
        break;
    case EVENT_DELIVERED:
        world_say(w, "a%u <- delivered %u/%u", agent, e->delivered.lock.slot,
                  e->delivered.lock.generation);
        break;
    case EVENT_STUCK:
        world_say(w, "a%u <- stuck %u/%u", agent, e->stuck.lock.slot, e->stuck.lock.generation);
        break;
    case EVENT_REPLIES:
        for (uint16_t i = 0; i < e->replies.count; i++)
            say_reply(w, agent, &e->replies.at[i]);
        break;
    case EVENT_MASTER_UP:
    case EVENT_MASTER_DOWN:
    case EVENT_MASTER_CLOCK:
        world_say(w, "a%u <- m%u %s epoch %u offset %lld", agent, e->master.master,
                  e->kind == EVENT_MASTER_UP     ? "up"
                  : e->kind == EVENT_MASTER_DOWN ? "down"
                                                 : "clock",
                  e->master.epoch, (long long)e->master.clock_offset_us);
        break;
    case EVENT_FENCE_FLOOR:
        world_say(w, "a%u <- floor %llu", agent, (unsigned long long)e->master.floor);
        break;
    case EVENT_SUBSCRIBED:
    case EVENT_UNSUBSCRIBED:
    case EVENT_MESSAGE:
        world_say(w, "a%u <- m%u %s %.*s agents %u", agent, e->channel.master,
                  e->kind == EVENT_SUBSCRIBED     ? "subscribed"
                  : e->kind == EVENT_UNSUBSCRIBED ? "unsubscribed"
                                                  : "message",
                  (int)e->channel.key.len, e->channel.key.at, e->channel.agents);
        break;
    case EVENT_DRAIN:
    case EVENT_END:
        world_say(w, "a%u <- %s", agent, e->kind == EVENT_DRAIN ? "drain" : "end");
        break;
    }
}

static void say_send(struct world *w, uint8_t agent, const struct effect_send *send,
                     const struct send_item *items)
{
    for (unsigned i = 0; i < send->count; i++) {
        const struct send_item *item = &items[send->first + i];
        char token[64];
        say_token(token, sizeof token, &item->token);
        world_say(w, "  a%u -> %s to %03x: %.*s %s ttl %u ref %u/%u/%u", agent, op_name(send->op),
                  send->masters, (int)item->key.len, item->key.at, token, item->ttl_ms,
                  item->ref.slot, item->ref.generation, item->ref.round);
        if (form_is_fair(item->form) && send->op != OP_READ)
            world_say(w, "    ticket of %04x, %llu%s, for %u ms",
                      (unsigned)(item->ticket.agent >> 48), (unsigned long long)item->ticket.number,
                      item->ticket.fresh ? " or more" : "", item->ticket.ttl_ms);
    }
}

static void say_answer(struct world *w, uint8_t agent, const struct effect_answer *a)
{
    bool has_hold = a->answer == ANSWER_GRANTED || a->answer == ANSWER_RENEWED ||
                    a->answer == ANSWER_RENEW_FAILED;
    char token[64] = "";
    if (has_hold)
        say_token(token, sizeof token, &a->hold.token);
    world_say(w,
              "  a%u -> answer #%u %s %s %s valid until %.6f; granted %u held %u failed %u of %u, "
              "quorum %u",
              agent, a->request, answer_code(a->answer), reason_name(a->reason), token,
              has_hold ? (double)agent_real_us(w, agent, a->hold.valid_until) / 1e6 : 0.0,
              a->tally.granted, a->tally.taken, a->tally.failed, a->tally.total, a->tally.quorum);
}

void timeline_effect(struct world *w, uint8_t agent, const struct effect *effect,
                     const struct send_item *items)
{
    static const char *const kinds[] = {"attempt", "granted",     "renewed",      "renew_failed",
                                        "lost",    "released",    "debt_dropped", "foreign",
                                        "stalled", "clock_gained"};
    switch (effect->kind) {
    case EFFECT_SEND:
        say_send(w, agent, &effect->send, items);
        break;
    case EFFECT_WATCH:
    case EFFECT_UNWATCH:
        world_say(w, "  a%u -> %s %.*s", agent, effect->kind == EFFECT_WATCH ? "watch" : "unwatch",
                  (int)effect->watch.key.len, effect->watch.key.at);
        break;
    case EFFECT_READ_CLOCKS:
        world_say(w, "  a%u -> all clocks", agent);
        break;
    case EFFECT_ANSWER:
        say_answer(w, agent, &effect->answer);
        break;
    case EFFECT_FOLLOWED:
        world_say(w, "  a%u -> told %u state %d number %llu of %08x", agent,
                  effect->followed.request, (int)effect->followed.state,
                  (unsigned long long)effect->followed.occupant.fence,
                  effect->followed.occupant.agent);
        break;
    case EFFECT_HOLD:
        world_say(w, "  a%u -> note in %u%s%s", agent, effect->hold.slot,
                  effect->hold.forgotten ? " nothing" : "",
                  effect->hold.hold.ended ? " ended" : "");
        break;
    case EFFECT_TRACE:
        world_say(w, "  a%u -> %s %.*s %s %s elapsed %lld margin %lld cause %s", agent,
                  kinds[effect->trace.kind], (int)effect->trace.key.len, effect->trace.key.at,
                  effect->trace.kind == TRACE_ATTEMPT ? answer_code(effect->trace.answer) : "",
                  reason_name(effect->trace.reason), (long long)effect->trace.elapsed_us,
                  (long long)effect->trace.margin_us, cause_name(effect->trace.cause));
        break;
    }
}
