/* Builds the question about the marker of a master (D5.3), and reads the answer. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "agent/core/core_assert.h"
#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"

enum { EPOCH_BYTES = 8 };

const char *asking_question_word(enum guard_question question)
{
    static const char *const words[] = {
        [GUARD_ASK_RESTART] = "restart",
        [GUARD_ASK_KEEP] = "keep",
        [GUARD_ASK_TELL] = "tell",
        [GUARD_ASK_TRUST] = "trust",
    };
    CORE_ASSERT(question < GUARD_QUESTION_COUNT);
    return words[question];
}

struct text asking_marker(struct resp *resp, const struct guard_ask *ask, const char *run_id,
                          int64_t wall_us, bool whole)
{
    unsigned char random[EPOCH_BYTES];
    char epoch[2 * EPOCH_BYTES + 1];
    ssize_t drawn = getrandom(random, sizeof(random), 0);
    CORE_ASSERT(drawn == sizeof(random));
    for (unsigned i = 0; i < EPOCH_BYTES; i++)
        snprintf(epoch + 2 * (size_t)i, 3, "%02x", random[i]);
    return asking_marker_as(resp, ask, run_id, epoch, wall_us, whole);
}

struct text asking_marker_as(struct resp *resp, const struct guard_ask *ask, const char *run_id,
                             const char *epoch, int64_t wall_us, bool whole)
{
    char keep[16];
    resp_begin(resp);
    resp_text(resp, whole ? "EVAL" : "EVALSHA");
    resp_text(resp, whole ? redis_scripts[SCRIPT_MARKER].text : redis_scripts[SCRIPT_MARKER].sha);
    resp_number(resp, 3);
    resp_text(resp, MARKER_KEY);
    resp_text(resp, VOTE_KEY);
    resp_text(resp, LAYOUTS_KEY);
    resp_text(resp, run_id);
    resp_text(resp, epoch);
    resp_number(resp, ask->max_ttl_ms);
    resp_text(resp, asking_question_word(ask->question));
    resp_number(resp, ask->lift);
    resp_text(resp, ask->others);
    resp_number(resp, wall_us > 0 ? (uint64_t)wall_us : 0);
    resp_text(resp, ask->epoch);
    resp_number(resp, ask->top);
    resp_number(resp, ask->told);
    resp_number(resp, ask->has_replicas);
    resp_text(resp, ask->layout_name);
    resp_bytes(resp, ask->layout.at, ask->layout.len);
    snprintf(keep, sizeof(keep), "%s%u", ask->renews ? "-" : "", (unsigned)ask->keep_ms);
    resp_text(resp, keep);
    resp_text(resp, ask->neighbours);
    return resp_end(resp);
}

/* Returns a number of a marker. A reply that no marker has, such as a double that Redis made an
 * integer of, becomes a number that was never granted. */
static uint64_t number_in(const redisReply *reply)
{
    return reply->integer < 0 || reply->integer > LIMIT_FENCE ? LIMIT_FENCE
                                                              : (uint64_t)reply->integer;
}

/* The places in a marker's reply. */
enum {
    EPOCH,
    LEFT,
    MAX_TTL,
    TOP,
    FLOOR,
    TOLD,
    VOTE,
    SPOILED,
    TIME,
    NOTED,
    AT_WORK,
    OTHERS,
    FIELDS
};

int64_t asking_marker_time_ms(const redisReply *reply)
{
    return reply->element[TIME]->integer;
}

/* Reads the layouts of a marker's reply: pairs of ms and a text (R23). */
static bool read_layouts(redisReply *const *is, struct guard_layouts *ret_layouts)
{
    const redisReply *others = is[OTHERS];
    if (is[NOTED]->type != REDIS_REPLY_INTEGER || is[AT_WORK]->type != REDIS_REPLY_INTEGER ||
        others->type != REDIS_REPLY_ARRAY || others->elements % 2 != 0 ||
        others->elements / 2 > GUARD_OTHERS)
        return false;
    *ret_layouts = (struct guard_layouts){.noted = is[NOTED]->integer == 1,
                                          .at_work = number_in(is[AT_WORK]),
                                          .count = (unsigned)others->elements / 2};
    for (unsigned i = 0; i < ret_layouts->count; i++) {
        const redisReply *left = others->element[2 * (size_t)i],
                         *text = others->element[2 * (size_t)i + 1];
        if (left->type != REDIS_REPLY_INTEGER || text->type != REDIS_REPLY_STRING ||
            left->integer < 0)
            return false;
        ret_layouts->others[i].left_ms =
            left->integer > REPLY_MS_MAX ? REPLY_MS_MAX : left->integer;
        ret_layouts->others[i].text = (struct text){text->str, text->len};
    }
    return true;
}

bool asking_read_marker(const redisReply *reply, struct guard_answer *ret_answer,
                        struct guard_layouts *ret_layouts)
{
    redisReply *const *is = reply->element;
    bool fits = reply->type == REDIS_REPLY_ARRAY && reply->elements == FIELDS;
    for (unsigned i = 0; fits && i < NOTED; i++)
        fits = is[i]->type == (i == EPOCH || i == VOTE ? REDIS_REPLY_STRING : REDIS_REPLY_INTEGER);
    if (!fits || !read_layouts(is, ret_layouts) || is[EPOCH]->len == 0 ||
        is[EPOCH]->len >= GUARD_WORD_BYTES || is[VOTE]->len >= GUARD_VOTE_BYTES ||
        is[LEFT]->integer < 0 || is[MAX_TTL]->integer < 0 || is[MAX_TTL]->integer > UINT32_MAX ||
        is[TOLD]->integer < GUARD_NOT_TOLD || is[TOLD]->integer > GUARD_GUESSED)
        return false;
    *ret_answer = (struct guard_answer){
        .left_ms = is[LEFT]->integer > REPLY_MS_MAX ? REPLY_MS_MAX : is[LEFT]->integer,
        .max_ttl_ms = (uint32_t)is[MAX_TTL]->integer,
        .top = number_in(is[TOP]),
        .floor = number_in(is[FLOOR]),
        .told = (enum guard_told)is[TOLD]->integer,
        .spoiled = is[SPOILED]->integer != 0,
    };
    snprintf(ret_answer->epoch, sizeof(ret_answer->epoch), "%s", is[EPOCH]->str);
    snprintf(ret_answer->vote, sizeof(ret_answer->vote), "%s", is[VOTE]->str);
    return true;
}
