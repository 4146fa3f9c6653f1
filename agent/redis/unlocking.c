/* Builds the calls of unlock.lua, and reads their replies (unlocking.h). */
#include "agent/redis/unlocking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/core/core_assert.h"

/* The script's text for each form. */
static const char *const unlock_scripts[FORM_COUNT] = {
#include "unlock_scripts.h"
};

struct text unlocking_ask(struct resp *resp, const struct unlock_target *target,
                          const struct unlock_ask *ask)
{
    bool guard = target->config->groups[target->group].guard;
    const struct send_item item = {.policy = target->policy,
                                   .key = target->key,
                                   .form = target->form,
                                   .fencing = target->fencing,
                                   .token = {.has_slot = target->has_slot, .slot = target->slot}};
    CORE_ASSERT(ask->number > 0 || !target->fencing);
    CORE_ASSERT(ask->tombstone_ms == 0 || *ask->name != '\0');
    resp_begin(resp);
    resp_text(resp, "EVAL");
    resp_text(resp, unlock_scripts[target->form]);
    resp_number(resp, 1u + target->fencing + form_is_fair(target->form) + guard);
    asking_keys_by_hand(resp, target->config, &item);
    if (guard)
        resp_text(resp, MARKER_KEY);
    resp_text(resp, ask->name);
    resp_number(resp, target->fencing ? ask->number : 0);
    resp_number(resp, (uint64_t)ask->tombstone_ms);
    return resp_end(resp);
}

enum { ANSWER_WORD, ANSWER_NUMBER, ANSWER_MS, ANSWER_COLUMNS };
enum { HOLD_NAME, HOLD_AGENT, HOLD_NUMBER, HOLD_MS, HOLD_LABEL, HOLD_MODE, HOLD_COLUMNS };

static bool is_string_at(const redisReply *list, size_t at)
{
    return list->element[at]->type == REDIS_REPLY_STRING;
}

/* Reads digits; "" is 0. A number beyond the largest is that one. Returns false for any other
 * text. */
static bool parse_digits(const char *text, uint64_t *ret_number)
{
    *ret_number = strtoull(text, NULL, 10);
    return strspn(text, "0123456789") == strlen(text);
}

bool unlocking_read(const redisReply *reply, struct unlock_answer *ret_answer)
{
    static const char *const words[UNLOCK_WORDS] = {"free", "held", "foreign", "deleted",
                                                    "missing"};
    struct unlock_answer answer = {.word = UNLOCK_FREE};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < ANSWER_COLUMNS ||
        !is_string_at(reply, ANSWER_WORD) || !is_string_at(reply, ANSWER_NUMBER) ||
        reply->element[ANSWER_MS]->type != REDIS_REPLY_INTEGER)
        return false;
    while (answer.word < UNLOCK_WORDS &&
           strcmp(words[answer.word], reply->element[ANSWER_WORD]->str) != 0)
        answer.word++;
    const char *number = reply->element[ANSWER_NUMBER]->str;
    answer.spoiled = strcmp(number, "-") == 0;
    answer.left_ms = reply->element[ANSWER_MS]->integer;
    answer.gone = answer.word < UNLOCK_FOREIGN && answer.left_ms == 1;
    answer.holds = reply->elements - ANSWER_COLUMNS;
    if (answer.word == UNLOCK_WORDS || (answer.holds > 0) != (answer.word == UNLOCK_HELD) ||
        (!answer.spoiled && !parse_digits(number, &answer.number)))
        return false;
    *ret_answer = answer;
    return true;
}

bool unlocking_read_hold(const redisReply *reply, size_t index, struct unlock_hold *ret_hold)
{
    const redisReply *list = reply->element[ANSWER_COLUMNS + index];
    struct unlock_hold hold;
    bool fits = list->type == REDIS_REPLY_ARRAY && list->elements == HOLD_COLUMNS &&
                list->element[HOLD_MS]->type == REDIS_REPLY_INTEGER;
    for (size_t i = 0; fits && i < HOLD_COLUMNS; i++)
        fits = i == HOLD_MS || is_string_at(list, i);
    if (!fits || strlen(list->element[HOLD_NAME]->str) != HOLD_NAME_CHARS ||
        strlen(list->element[HOLD_AGENT]->str) != sizeof(hold.agent) - 1 ||
        !parse_digits(list->element[HOLD_NUMBER]->str, &hold.number))
        return false;
    snprintf(hold.name, sizeof(hold.name), "%s", list->element[HOLD_NAME]->str);
    snprintf(hold.agent, sizeof(hold.agent), "%s", list->element[HOLD_AGENT]->str);
    snprintf(hold.label, sizeof(hold.label), "%s", list->element[HOLD_LABEL]->str);
    text_tame(hold.label); /* Any client may have written it. */
    hold.mode = strcmp(list->element[HOLD_MODE]->str, "r") == 0 ? MODE_READ : MODE_WRITE;
    hold.left_ms = list->element[HOLD_MS]->integer;
    *ret_hold = hold;
    return true;
}
