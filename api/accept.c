/* Content negotiation between the two media of lock calls: JSON (and problem+json), and plain text
 * for shells. */
#include "api/accept.h"

#include <string.h>
#include <strings.h>

#include "agent/base/text.h"

static const struct {
    const char *name;
    unsigned media; /* bit MEDIA_... */
    int exactness;
} ranges[] = {
    {"application/json", 1U << MEDIA_JSON, 3},
    {"application/problem+json", 1U << MEDIA_JSON, 3},
    {"application/x-ndjson", 1U << MEDIA_JSON, 3},
    {"text/plain", 1U << MEDIA_TEXT, 3},
    {"application/*", 1U << MEDIA_JSON, 2},
    {"text/*", 1U << MEDIA_TEXT, 2},
    {"*/*", 1U << MEDIA_JSON | 1U << MEDIA_TEXT, 1},
};

static struct text trimmed(struct text text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t'))
        text.at++, text.len--;
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Cuts `*rest` at the first `mark`; returns what stood before it, without outer blanks. */
static struct text next_part(struct text *rest, char mark)
{
    const char *end = memchr(rest->at, mark, rest->len);
    struct text part = {rest->at, end == NULL ? rest->len : (size_t)(end - rest->at)};
    size_t taken = part.len + (end != NULL);
    rest->at += taken;
    rest->len -= taken;
    return trimmed(part);
}

/* `0`, `0.5`, `1.000`; anything else counts as 1, so that a slip never turns into a refusal. */
static int weight_of(struct text q)
{
    if (q.len == 0 || q.at[0] != '0')
        return 1000;
    int weight = 0, scale = 100;
    for (size_t i = 2; i < q.len && i < 5; i++, scale /= 10)
        weight += q.at[i] >= '0' && q.at[i] <= '9' ? (q.at[i] - '0') * scale : 0;
    return weight;
}

static void take_range(struct accept *accept, struct text range, int weight)
{
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (range.len != strlen(ranges[i].name) ||
            strncasecmp(range.at, ranges[i].name, range.len) != 0)
            continue;
        for (int m = 0; m < MEDIA_NONE; m++) {
            bool better =
                ranges[i].exactness > accept->exactness[m] ||
                (ranges[i].exactness == accept->exactness[m] && weight > accept->weight[m]);
            if ((ranges[i].media & 1U << m) == 0 || !better)
                continue;
            accept->exactness[m] = ranges[i].exactness;
            accept->weight[m] = weight;
        }
    }
}

void accept_add(struct accept *accept, const char *header)
{
    struct text rest = text_of(header);
    accept->headers++;
    while (rest.len > 0) {
        struct text element = next_part(&rest, ',');
        struct text range = next_part(&element, ';');
        int weight = 1000;
        while (element.len > 0) {
            struct text parameter = next_part(&element, ';');
            if (parameter.len > 2 && (parameter.at[0] | 0x20) == 'q' && parameter.at[1] == '=')
                weight = weight_of((struct text){parameter.at + 2, parameter.len - 2});
        }
        take_range(accept, range, weight);
    }
}

enum media accept_choose(const struct accept *accept)
{
    const int *weight = accept->weight, *exactness = accept->exactness;
    if (accept->headers == 0)
        return MEDIA_JSON;
    if (weight[MEDIA_JSON] == 0 && weight[MEDIA_TEXT] == 0)
        return MEDIA_NONE;
    if (weight[MEDIA_JSON] != weight[MEDIA_TEXT])
        return weight[MEDIA_JSON] > weight[MEDIA_TEXT] ? MEDIA_JSON : MEDIA_TEXT;
    return exactness[MEDIA_JSON] >= exactness[MEDIA_TEXT] ? MEDIA_JSON : MEDIA_TEXT;
}
