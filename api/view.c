/* Holds, votes and labels in JSON, for callers. */
#include "api/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/core/core_assert.h"

int64_t view_valid_for_ms(const struct hold_view *hold, struct instant now)
{
    return instant_us_between(now, hold->valid_until) / 1000;
}

bool view_is_shared(const struct api *api, uint16_t policy)
{
    return api->config->policies[policy].core.form == FORM_SHARED;
}

static int64_t max_hold_ms(const struct hold_view *hold)
{
    return instant_us_between(hold->acquired_at, hold->max_hold_until) / 1000;
}

static const char *bind_name(const struct hold_view *hold)
{
    return hold->bound ? "connection" : "none";
}

char *view_line(json_t *json)
{
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    json_decref(json);
    size_t len = text == NULL ? 0 : strlen(text);
    char *line = text == NULL ? NULL : realloc(text, len + 2);
    if (line == NULL) {
        free(text);
        return NULL;
    }
    memcpy(line + len, "\n", 2);
    return line;
}

json_t *view_nodes(const struct tally *tally)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "granted", tally->granted, "held",
                     tally->taken, "error", tally->failed, "guarded", tally->guarded,
                     "unreplicated", tally->unreplicated, "total", tally->total, "quorum",
                     tally->quorum);
}

/* Returns the label, or null if it is not valid. Labels come from masters too, and any client of a
 * master may have written them. */
json_t *view_label(struct text label)
{
    return label.len == 0 || text_fault(label) != NULL ? json_null()
                                                       : json_stringn(label.at, label.len);
}

json_t *view_fence(uint64_t fence)
{
    return fence == 0 ? json_null() : json_integer((json_int_t)fence);
}

json_t *view_agent(uint32_t agent)
{
    char name[9];
    snprintf(name, sizeof(name), "%08" PRIx32, agent);
    return agent == 0 ? json_null() : json_string(name);
}

json_t *view_hold(const struct api *api, const struct hold_view *hold, struct instant now)
{
    int64_t valid_ms = view_valid_for_ms(hold, now);
    if (valid_ms <= 0)
        return NULL; /* No hold is reported after its validity (R14). */
    json_t *view =
        json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:i, s:i}", "label",
                  view_label(hold->label), "fencing_token", view_fence(hold->token.fence), "ttl_ms",
                  (json_int_t)hold->ttl_ms, "valid_for_ms", (json_int_t)valid_ms,
                  "valid_until_boottime_ms", (json_int_t)(hold->valid_until.us / 1000),
                  "held_for_ms", (json_int_t)(instant_us_between(hold->acquired_at, now) / 1000),
                  "max_hold_ms", (json_int_t)max_hold_ms(hold), "renew", renew_name(hold->renew),
                  "bind", bind_name(hold), "count", hold->count, "confirmed", hold->confirmed);
    if (view != NULL && hold->permits > 1) {
        json_object_set_new(view, "slot", json_integer(hold->token.slot));
        json_object_set_new(view, "permits", json_integer(hold->permits));
    }
    if (view != NULL && view_is_shared(api, hold->policy))
        json_object_set_new(view, "mode", json_string(mode_name(hold->mode)));
    return view;
}

size_t view_escape(struct text text, char *out, size_t size)
{
    CORE_ASSERT(size > 2 * text.len);
    char *end = out;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == '"' || text.at[i] == '\\')
            *end++ = '\\';
        *end++ = text.at[i];
    }
    *end = '\0';
    return (size_t)(end - out);
}

/* Written by hand, because it is called for every grant. */
size_t view_granted(const struct api *api, const struct request *request, const char *token,
                    const char *fence, int64_t valid_ms, char *body, size_t size)
{
    const struct effect_answer *answer = &request->kept.answer;
    const struct hold_view *hold = &answer->hold;
    char key[2 * LIMIT_KEY_BYTES + 1], more[64] = "", kind[40] = "";
    view_escape((struct text){request->key, request->key_len}, key, sizeof(key));
    if (answer->answer == ANSWER_RENEWED && answer->adopted)
        snprintf(more, sizeof(more), ",\"adopted\":true,\"continuous\":%s",
                 answer->continuous ? "true" : "\"unknown\"");
    if (answer->answer == ANSWER_REENTERED || answer->answer == ANSWER_REPEATED)
        snprintf(more, sizeof(more), ",\"count\":%u", hold->count);
    if (hold->permits > 1)
        snprintf(kind, sizeof(kind), ",\"slot\":%d,\"permits\":%u", hold->token.slot,
                 hold->permits);
    else if (view_is_shared(api, answer->policy))
        snprintf(kind, sizeof(kind), ",\"mode\":\"%s\"", mode_name(hold->mode));
    int len =
        snprintf(body, size,
                 "{\"key\":\"%s\",\"token\":\"%s\",\"fencing_token\":%s,\"ttl_ms\":%" PRIu32
                 ",\"valid_for_ms\":%" PRId64 ",\"valid_until_boottime_ms\":%" PRId64
                 ",\"max_hold_ms\":%" PRId64
                 ",\"nodes\":{\"granted\":%u,\"total\":%u,\"quorum\":%u},\"waited_ms\":%" PRId64
                 ",\"renew\":\"%s\",\"bind\":\"%s\"%s%s}\n",
                 key, token, fence[0] == '\0' ? "null" : fence, hold->ttl_ms, valid_ms,
                 hold->valid_until.us / 1000, max_hold_ms(hold), answer->tally.granted,
                 answer->tally.total, answer->tally.quorum, answer->waited_us / 1000,
                 renew_name(hold->renew), bind_name(hold), kind, more);
    CORE_ASSERT(len > 0 && (size_t)len < size);
    return (size_t)len;
}
