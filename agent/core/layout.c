/* Parses and compares layouts (R23). */
#include "layout.h"

#include <string.h>

#include "core_assert.h"

/* ---- text ---- */

bool layout_is_plain(char byte)
{
    static const char others[] = "._-*?/:[]";
    if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
        (byte >= '0' && byte <= '9'))
        return true;
    for (const char *c = others; *c; c++)
        if (*c == byte)
            return true;
    return false;
}

/* Takes the part of `*rest` before the first `end`, and the separator with it. */
static struct text take_until(struct text *rest, char end)
{
    struct text part = {rest->at, 0};
    while (part.len < rest->len && part.at[part.len] != end)
        part.len++;
    size_t taken = part.len + (part.len < rest->len);
    *rest = (struct text){rest->at + taken, rest->len - taken};
    return part;
}

/* Returns a number of 1 to 99; 0: it is not one. */
static unsigned read_small(struct text text)
{
    unsigned number = 0;
    if (text.len < 1 || text.len > 2 || text.at[0] == '0')
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return 0;
        number = number * 10 + (unsigned)(text.at[i] - '0');
    }
    return number;
}

static int compare_bytes(struct text a, struct text b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared > 0 ? memcmp(a.at, b.at, shared) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static bool parse_prefixes(struct text text, struct layout *layout)
{
    do {
        struct text policies = take_until(&text, ','), name = take_until(&policies, '=');
        unsigned at = layout->prefix_count;
        if (policies.len == 0 || at == LIMIT_POLICIES ||
            (at > 0 && compare_bytes(layout->prefixes[at - 1].name, name) >= 0))
            return false;
        layout->prefixes[at].name = name;
        layout->prefixes[at].policies = policies;
        layout->prefix_count++;
    } while (text.len > 0);
    return true;
}

static bool parse_masters(struct text text, struct layout *layout)
{
    do {
        struct text name = take_until(&text, ' ');
        unsigned at = layout->master_count;
        if (name.len == 0 || at == LIMIT_MASTERS ||
            (at > 0 && compare_bytes(layout->masters[at - 1], name) >= 0))
            return false;
        layout->masters[at] = name;
        layout->master_count++;
    } while (text.len > 0);
    return true;
}

bool layout_parse(struct text text, struct layout *ret_layout)
{
    struct text rest = text, wire = take_until(&rest, ' ');
    ret_layout->prefix_count = ret_layout->master_count = 0;
    if (text.len > LAYOUT_BYTES || wire.len < 2 || wire.at[0] != 'w')
        return false;
    ret_layout->wire = read_small((struct text){wire.at + 1, wire.len - 1});
    ret_layout->quorum = read_small(take_until(&rest, ' '));
    return ret_layout->wire > 0 && ret_layout->quorum > 0 &&
           parse_prefixes(take_until(&rest, ' '), ret_layout) && parse_masters(rest, ret_layout) &&
           ret_layout->quorum <= ret_layout->master_count;
}

/* ---- neighbours ---- */

static bool quorums_meet(const struct layout *a, const struct layout *b)
{
    unsigned shared = 0, i = 0, k = 0;
    while (i < a->master_count && k < b->master_count) {
        int order = compare_bytes(a->masters[i], b->masters[k]);
        shared += order == 0;
        i += order <= 0;
        k += order >= 0;
    }
    if (MUTANT(GUARD_NEIGHBOURS_BY_SIZE))
        return shared + 1 >= a->master_count && shared + 1 >= b->master_count;
    /* The least number of shared masters that a quorum of each needs. */
    unsigned alone_a = a->master_count - shared, alone_b = b->master_count - shared,
             needs_a = a->quorum > alone_a ? a->quorum - alone_a : 0,
             needs_b = b->quorum > alone_b ? b->quorum - alone_b : 0;
    return needs_a + needs_b > shared;
}

enum layout_conflict layout_compare(const struct layout *a, const struct layout *b)
{
    unsigned shared = 0, i = 0, k = 0;
    bool agree = true;
    while (i < a->prefix_count && k < b->prefix_count) {
        int order = compare_bytes(a->prefixes[i].name, b->prefixes[k].name);
        shared += order == 0;
        agree = agree && (order != 0 ||
                          compare_bytes(a->prefixes[i].policies, b->prefixes[k].policies) == 0);
        i += order <= 0;
        k += order >= 0;
    }
    if (shared == 0)
        return LAYOUT_NEIGHBOURS;
    if (a->wire != b->wire)
        return LAYOUT_OTHER_WIRE;
    if (!agree && !MUTANT(GUARD_POLICIES_IGNORED))
        return LAYOUT_OTHER_POLICIES;
    return quorums_meet(a, b) ? LAYOUT_NEIGHBOURS : LAYOUT_OTHER_MASTERS;
}

/* ---- its name ---- */

/* FNV-1a. */
void layout_name(struct text text, char ret_name[LAYOUT_NAME_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < text.len; i++) {
        hash ^= (unsigned char)text.at[i];
        hash *= UINT64_C(0x100000001b3);
    }
    for (unsigned i = 0; i < LAYOUT_NAME_BYTES - 1; i++)
        ret_name[i] = digits[hash >> (60 - 4 * i) & 15];
    ret_name[LAYOUT_NAME_BYTES - 1] = '\0';
}
