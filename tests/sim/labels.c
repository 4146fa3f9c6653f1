/* Labels that PUTs change (D3.9), in runs with --labels: many PUTs name one, also those with a
 * wrong token. Each label is used once.
 *
 *   C20 A master stores a label beside the token of a PUT that named it, and beside no other one. A
 *       renewal or a repair that a master has carried out leaves the label that it names there.
 *       After a PUT with a label was answered, each later renewal of a hold of one agent names that
 *       label, until the next PUT with one. An adoption writes no label but that of its PUT, and
 *       without one takes the label that all masters store. */
#include "checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_PERCENT = 40, FIRST_LABEL = 3, /* bytes of a POST's label */ NOT_ONE = 0x7fffffff };

void labels_reset(struct world *w)
{
    w->labelling.chance = prng_stream(w->seed, STREAM_LABELS, 0);
    w->labelling.count = 0;
}

/* Returns the number of the PUT that named the label; 0: a POST named it, or none. */
static uint32_t number_of(const char *label, size_t len)
{
    char digits[SIM_LABEL - FIRST_LABEL + 1] = {0};
    if (len != SIM_LABEL)
        return 0;
    memcpy(digits, label + FIRST_LABEL, SIM_LABEL - FIRST_LABEL);
    return (uint32_t)strtoul(digits, NULL, 16);
}

/* Returns the number of the label that all masters store for the hold; NOT_ONE: they store several,
 * or not all of them have the hold. */
static uint32_t stored_number(struct world *w, const struct hold *hold)
{
    unsigned same = 0;
    uint32_t stored = 0;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        uint8_t random[RANDOM_BYTES];
        char label[SIM_LABEL];
        uint8_t name = master_name(w, hold->agent, hold->key);
        int len;
        for (unsigned i = 0; (len = master_label(w, m, name, i, random, label)) >= 0; i++) {
            if (memcmp(random, hold->token.random, RANDOM_BYTES) != 0)
                continue;
            uint32_t number = number_of(label, (size_t)len);
            same += m == 0 || number == stored;
            stored = number;
        }
    }
    return same == w->options.masters ? stored : NOT_ONE;
}

void labels_name(struct world *w, struct request *request)
{
    struct labelling *labelling = &w->labelling;
    if (!w->switches.labels || request->kind != EVENT_RENEW || labelling->count + 1 == SIM_RELABELS)
        return;
    struct hold *hold = checker_find(w, request->token.random);
    request->label_before = hold == NULL ? NOT_ONE : stored_number(w, hold);
    if (!prng_percent(&labelling->chance, NAMED_PERCENT))
        return;
    request->names_label = ++labelling->count;
    labelling->named[request->names_label] = request->token;
    if (hold != NULL)
        hold->label_named = request->names_label;
    w->figures.labels_named++;
}

struct text labels_text(const struct request *request, char label[SIM_LABEL + 1])
{
    if (request->names_label == 0)
        return (struct text){0};
    snprintf(label, SIM_LABEL + 1, "c%02u%05x", request->label % 100u,
             request->names_label & 0xfffffu);
    return (struct text){label, SIM_LABEL};
}

void labels_stored(struct world *w, uint8_t master, const struct message *message,
                   const struct order *order, const struct verdict *verdict)
{
    uint8_t random[RANDOM_BYTES];
    char label[SIM_LABEL];
    uint8_t name = master_name(w, message->agent, order->key);
    enum vote vote = verdict->reply.vote;
    bool renews = message->op == OP_RENEW || message->op == OP_RESUME || message->op == OP_REPAIR;
    for (unsigned i = 0; w->switches.labels; i++) {
        int len = master_label(w, master, name, i, random, label);
        if (len < 0)
            break;
        uint32_t number = number_of(label, (size_t)len);
        bool is_own = memcmp(random, order->token.random, RANDOM_BYTES) == 0;
        if (number > w->labelling.count ||
            (number != 0 && memcmp(random, w->labelling.named[number].random, RANDOM_BYTES) != 0))
            checker_fail(w, "C20 m%u stores beside a token of k%u the label of another one: %.*s",
                         master, order->key, len, label);
        if (renews && is_own && (vote == VOTE_YES || vote == VOTE_REPAIRED) &&
            order->label_len > 0 &&
            (order->label_len != len || memcmp(order->label, label, (size_t)len) != 0))
            checker_fail(w, "C20 a renewal of k%u on m%u leaves the label %.*s, and names %.*s",
                         order->key, master, len, label, order->label_len, order->label);
    }
}

void labels_renewed(struct world *w, uint8_t agent, const struct order *order)
{
    const struct hold *hold = checker_find(w, order->token.random);
    if (hold == NULL || hold->shared || hold->label_due == 0 ||
        hold->label_due != hold->label_named || hold->label_agent != agent)
        return; /* Each of several agents may change it. */
    bool is_known = (w->options.journal && hold->label_is_noted) ||
                    hold->label_incarnation == w->agents[agent].incarnation;
    uint32_t number = number_of(order->label, order->label_len);
    if (is_known && number != hold->label_due)
        checker_fail(w, "C20 a%u renews k%u with label %x after PUT of label %x was answered",
                     agent, order->key, number, hold->label_due);
}

static bool is_asked_for(const struct agent *agent, uint32_t number)
{
    for (uint32_t i = 0; i < SIM_REQUESTS; i++)
        if (number != 0 && agent->open[i] != NULL && agent->open[i]->names_label == number)
            return true;
    return false;
}

void labels_adopts(struct world *w, uint8_t agent, const struct order *order)
{
    const struct hold *hold = checker_find(w, order->token.random);
    uint32_t number = number_of(order->label, order->label_len);
    /* The last PUT may have been cancelled while the adoption goes on. */
    bool is_last = number != 0 && hold != NULL && hold->label_named == number;
    if (w->switches.labels && order->label_len > 0 && !is_last &&
        !is_asked_for(&w->agents[agent], number))
        checker_fail(w, "C20 a%u adopts k%u and writes label %.*s, which no PUT there names", agent,
                     order->key, order->label_len, order->label);
}

void labels_answered(struct world *w, uint8_t agent, const struct request *request,
                     const struct effect_answer *answer)
{
    struct hold *hold = request->hold;
    bool is_taken = answer->answer == ANSWER_RENEWED || answer->answer == ANSWER_RENEW_FAILED;
    if (!w->switches.labels || hold == NULL || request->kind != EVENT_RENEW || !is_taken)
        return;
    if (request->names_label != 0) {
        hold->label_due = request->names_label;
        hold->label_agent = agent;
        hold->label_incarnation = w->agents[agent].incarnation;
        hold->label_is_noted = answer->answer == ANSWER_RENEWED;
        w->figures.labels_taken++;
        return;
    }
    /* D3.9: an adoption takes the label of most masters. That of a PUT that failed is on few. */
    if (answer->adopted && !hold->label_is_noted)
        hold->label_due = 0;
    uint32_t told = number_of(answer->hold.label.at, answer->hold.label.len);
    if (!answer->adopted || hold->label_named == 0 || request->label_before == NOT_ONE ||
        request->label_before != stored_number(w, hold))
        return;
    w->figures.labels_adopted++;
    if (request->label_before != told)
        checker_fail(w, "C20 a%u adopts k%u with label %x, and masters store %x", agent,
                     request->key, told, request->label_before);
}
