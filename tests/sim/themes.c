/* Themes, which the command line turns on for all seeds alike, or the seed itself (--mixed). With
 * --mixed a seed draws any set of themes that the table of exclusions allows. Its schedule is the
 * same as with these themes on the command line. */
#include "world.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct theme {
    const char *name;
    size_t offset;
    uint8_t percent; /* per cent of the seeds, before the exclusions */
};

#define THEME(name, member, percent)                                                               \
    {                                                                                              \
        name, offsetof(struct switches, member), percent                                           \
    }
static const struct theme themes[] = {
    THEME("--forgetful", forgetful, 40),
    THEME("--kinds", kinds, 30),
    THEME("--redisson", redisson, 15),
    THEME("--rw", rw, 20),
    THEME("--semaphores", semaphores, 15),
    THEME("--fair", fair, 20),
    THEME("--roaming", roaming, 35),
    THEME("--replicas", replicas, 15),
    THEME("--few-rounds", few_rounds, 20),
    THEME("--many-wait", many_wait, 6),
    THEME("--in-turn", in_turn, 4),
    THEME("--wild-numbers", wild, 15),
    /* Nothing else fails, so it would hide the findings of other themes. */
    THEME("--apart", apart, 0),
    /* Breaks A1 and A3, so a seed never draws it. */
    THEME("--clocks", clocks, 0),
    /* For second phases, of which other themes have few. */
    THEME("--neighbours", neighbours, 0),
    /* Its looks and messages would change the schedules of the seeds that mutants name. */
    THEME("--followers", followers, 0),
    /* The same is true of releases without a script. */
    THEME("--compare-delete", compares, 0),
    /* Takes locks from their holders, so it would hide the findings of other themes. */
    THEME("--operator", unlocks, 0),
    /* Labels that PUTs name at once lead to further renewals. */
    THEME("--labels", labels, 0),
};
static_assert(sizeof themes / sizeof themes[0] == SIM_THEMES, "each theme has its count");

/* Themes that exclude each other, and why. The second theme is left out if a seed draws both. */
static const struct exclusion {
    const char *kept, *left_out, *why;
} exclusions[] = {
    /* Two kinds of one key: the configuration refuses them (R18, R20, R22). */
    {"--redisson", "--rw", "Java sees no readers"},
    {"--redisson", "--semaphores", "Java sees no permits"},
    {"--redisson", "--fair", "Java takes no ticket"},
    {"--rw", "--semaphores", "a slot has one holder"},
    {"--semaphores", "--fair", "a search for a slot has no order"},
    /* Each key draws its kind, so no theme says it for all of them. */
    {"--kinds", "--redisson", "each key draws its kind"},
    {"--kinds", "--rw", "each key draws its kind"},
    {"--kinds", "--semaphores", "each key draws its kind"},
    {"--kinds", "--fair", "each key draws its kind"},
    /* The turns of agents are measured (C11), and tickets decide them in order fair. */
    {"--rw", "--many-wait", "it measures the turns of order any"},
    {"--fair", "--many-wait", "it measures the turns of order any"},
    {"--kinds", "--many-wait", "it measures the turns of one mutex of order any"},
    /* One needs several masters, the other one has one. */
    {"--replicas", "--many-wait", "a single master splits no vote"},
    {"--replicas", "--wild-numbers", "a single master whose numbers are wild has no vote"},
    {"--replicas", "--in-turn", "a single master that is away is no quorum"},
    /* A hold is kept if a quorum carries it at every moment (C12): nothing else may fail. */
    {"--forgetful", "--in-turn", "a quorum that forgot carries no hold"},
    {"--wild-numbers", "--in-turn", "the wild master is one too many while another one is away"},
    {"--in-turn", "--clocks", "a master whose clock jumps is one too many, too"},
    /* --few-rounds takes at most two agents, and --many-wait three. */
    {"--few-rounds", "--many-wait", "two agents, or three"},
    {"--replicas", "--operator", "a single master that forgets brings an unlocked hold back"},
    {"--in-turn", "--operator", "a hold that is unlocked is not kept"},
    {"--replicas", "--apart", "an agent that is cut off from a single master has none"},
    {"--in-turn", "--apart", "both plan all faults"},
    {"--apart", "--clocks", "both plan all faults"},
    {"--apart", "--many-wait", "both plan all faults"},
    {"--clocks", "--redisson", "Java notices no clock that jumps"},
    {"--clocks", "--replicas", "a promoted master waits by its clock, which jumps"},
    {"--clocks", "--kinds", "a key may be shared with Java, which notices no clock that jumps"},
};

static bool *value_of(struct switches *switches, const struct theme *theme)
{
    return (bool *)((char *)switches + theme->offset);
}

bool *themes_find(struct switches *switches, const char *name)
{
    for (size_t i = 0; i < SIM_THEMES; i++)
        if (strcmp(themes[i].name, name) == 0)
            return value_of(switches, &themes[i]);
    return NULL;
}

static bool *value_named(struct switches *switches, const char *name)
{
    bool *value = themes_find(switches, name);
    if (value == NULL)
        abort(); /* an exclusion names a theme that is not there */
    return value;
}

const char *themes_clash(struct switches *switches, const char **ret_a, const char **ret_b)
{
    for (size_t i = 0; i < sizeof exclusions / sizeof exclusions[0]; i++) {
        const struct exclusion *exclusion = &exclusions[i];
        if (!*value_named(switches, exclusion->kept) ||
            !*value_named(switches, exclusion->left_out))
            continue;
        *ret_a = exclusion->kept;
        *ret_b = exclusion->left_out;
        return exclusion->why;
    }
    return NULL;
}

/* Draws from a generator of its own, so that the schedule is that of the same themes by hand. */
void themes_draw(struct world *w)
{
    struct prng own = {w->seed * 0x9e3779b97f4a7c15u + 7};
    const char *kept, *left_out;
    for (size_t i = 0; i < SIM_THEMES; i++)
        *value_of(&w->switches, &themes[i]) = prng_percent(&own, themes[i].percent);
    while (themes_clash(&w->switches, &kept, &left_out) != NULL)
        *value_named(&w->switches, left_out) = false;
    w->switches.forgetful |= w->switches.replicas;
    for (size_t i = 0; i < SIM_THEMES; i++)
        w->figures.themes[i] += *value_of(&w->switches, &themes[i]);
}

void themes_say(struct world *w)
{
    printf("themes:");
    for (size_t i = 0; i < SIM_THEMES; i++)
        if (*value_of(&w->switches, &themes[i]))
            printf(" %s", themes[i].name);
    putchar('\n');
}

unsigned themes_print(const struct world *w, uint64_t runs)
{
    unsigned idle = 0;
    for (size_t i = 0; i < SIM_THEMES; i++) {
        bool few = runs >= 500 && themes[i].percent > 0 && w->figures.themes[i] * 200 < runs;
        printf("%10llu seeds with %s%s\n", (unsigned long long)w->figures.themes[i], themes[i].name,
               few ? ": too few, nothing was proved" : "");
        idle += few;
    }
    return idle;
}

/* ---- kinds ---- */

static struct key_kind draw_kind(struct prng *prng, bool may_have_permits)
{
    struct key_kind kind = {.permits = 1};
    switch (prng_below(prng, may_have_permits ? 5 : 4)) {
    case 0:
        break;
    case 1:
        kind.fair = true;
        break;
    case 2:
        kind.rw = kind.fair = true;
        break;
    case 3:
        kind.redisson = true;
        break;
    default:
        kind.permits = 2;
        break;
    }
    return kind;
}

/* With permits a key has two places, so there are half as many keys. */
void themes_draw_kinds(struct world *w)
{
    struct options *o = &w->options;
    struct prng own = {w->seed * 0x2545f4914f6cdd1du + 11};
    bool may_have_permits = prng_percent(&own, 60);
    uint8_t most = may_have_permits ? SIM_KEYS / 2 : SIM_KEYS;
    o->several_kinds = true;
    if (o->keys < 2 || o->keys > most)
        o->keys = (uint8_t)prng_between(&own, 2, most);
    o->callers = SIM_CALLERS;
    o->policies = o->keys;
    o->permits = 1;
    o->fair = o->rw = o->redisson = false;
    for (uint8_t key = 0; key < o->keys; key++) {
        struct key_kind kind = draw_kind(&own, may_have_permits);
        o->kinds[key] = kind;
        o->permits = kind.permits > o->permits ? kind.permits : o->permits;
        o->fair |= kind.fair;
        o->rw |= kind.rw;
        o->redisson |= kind.redisson;
    }
}
