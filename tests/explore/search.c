/* Depth first, over every choice. A state that was seen with as many faults left, or more, is not
 * looked at again: states are known by 64 bits of their hash. */
#include "explore.h"

#include "seen.h"

#include "agent/core/core_assert.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH_MAX = 4096, STEPS_PER_LOOK = 1 << 12, SHORTENING_SECONDS = 10 };

static struct search *search;
static struct seen_table seen;
static struct choice trail[DEPTH_MAX], story[DEPTH_MAX];
static unsigned trail_length, story_length, depth_max;
static bool shortens, ended;
static double began_at, ends_at;
static jmp_buf on_assertion;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- seen states ---- */

/* Returns true if the state was searched before, with as many faults left and no deeper. */
static bool is_known(unsigned faults_left, unsigned depth)
{
    uint64_t hash = state_hash() | 1;
    struct seen *place = seen_place(&seen, hash);
    bool deeper = shortens && place->depth > depth;
    if (place->hash != 0 && place->faults_left >= faults_left && !deeper && !search->no_memory)
        return true;
    search->states += place->hash == 0;
    *place = (struct seen){hash, (uint16_t)depth, (uint8_t)faults_left};
    return false;
}

/* ---- the search ---- */

static void note_violation(void)
{
    memcpy(search->property, world.property, sizeof search->property);
    memcpy(search->violation, world.violation, sizeof search->violation);
    memcpy(story, trail, trail_length * sizeof story[0]);
    story_length = trail_length;
}

static bool is_late(void)
{
    if (++search->steps % STEPS_PER_LOOK != 0)
        return ended;
    ended = ended || (ends_at > 0 && cpu_seconds() > ends_at);
    return ended;
}

/* True: a violation was found. */
static bool explore(unsigned faults_left)
{
    struct choice list[CHOICES_MAX];
    if (is_late() || is_known(faults_left, trail_length))
        return false;
    search->depth = trail_length > search->depth ? trail_length : search->depth;
    bool over;
    unsigned count = choices_list(list, faults_left, search->orders, &over);
    if (over) {
        search->ends++;
        calm_check(/* always= */ search->bound == 0);
        if (world.violation[0] != '\0')
            return true;
    }
    if (trail_length >= depth_max) {
        if (depth_max == DEPTH_MAX)
            checker_fail(&world, "C7 the world does not come to rest");
        return depth_max == DEPTH_MAX;
    }
    uint64_t hash = search->verifies ? state_hash_anew() : 0;
    for (unsigned i = 0; i < count; i++) {
        size_t saved = state_save();
        trail[trail_length++] = list[i];
        choice_take(&list[i]);
        if (world.violation[0] != '\0' || explore(faults_left - choice_is_fault(&list[i])))
            return true;
        trail_length--;
        state_restore(saved);
        if (search->verifies && state_hash_anew() != hash) {
            checker_fail(&world, "explore: a state did not come back as it was");
            return true;
        }
    }
    return false;
}

/* The core's assertions end here. */
_Noreturn void lockcore_assert_failed(const char *expression, const char *file, int line)
{
    snprintf(world.property, sizeof world.property, "assertion");
    snprintf(world.violation, sizeof world.violation, "at %.6f s: assertion: %s (%s:%d)",
             (double)world.now / 1e6, expression, file, line);
    longjmp(on_assertion, 1);
}

/* True: a violation was found, and its story is noted. */
static bool search_once(const struct script *script, unsigned bound)
{
    seen_forget_all(&seen);
    state_reset();
    trail_length = 0;
    scene_begin(script);
    bool found = setjmp(on_assertion) != 0 || explore(bound);
    if (found)
        note_violation();
    return found;
}

/* As long as there is a shorter one, and there is time. */
static void shorten(const struct script *script, unsigned bound)
{
    struct search found = *search;
    shortens = true;
    ended = false;
    ends_at = cpu_seconds() + SHORTENING_SECONDS;
    do
        depth_max = story_length - 1;
    while (story_length > 1 && search_once(script, bound) && !ended);
    shortens = false;
    found.depth = story_length;
    memcpy(found.property, search->property, sizeof found.property);
    memcpy(found.violation, search->violation, sizeof found.violation);
    *search = found;
}

void search_run(struct search *s, const struct script *script)
{
    search = s;
    began_at = cpu_seconds();
    ended = false;
    bool found = false;
    exercised_begin();
    s->states = s->steps = s->ends = 0;
    s->violation[0] = '\0';
    for (unsigned bound = 0; bound <= s->bound && !found && !ended; bound++) {
        ends_at = s->seconds_max > 0 ? began_at + s->seconds_max : 0;
        depth_max = DEPTH_MAX;
        s->states = s->ends = s->depth = 0;
        found = search_once(script, bound);
        if (found && s->shortens)
            shorten(script, bound);
    }
    s->complete = found || !ended;
    s->missing = exercised_missing(script->sees | (s->bound > 0 ? script->sees_failing : 0));
    s->seconds = cpu_seconds() - began_at;
}

/* ---- the story ---- */

static void tell_choices(const struct choice *choices, unsigned count)
{
    for (unsigned i = 0; i < count && world.violation[0] == '\0'; i++) {
        size_t saved = state_save();
        choice_tell(&choices[i]);
        choice_take(&choices[i]);
        (void)saved;
    }
    struct choice list[CHOICES_MAX];
    bool over = false;
    if (world.violation[0] == '\0')
        choices_list(list, 0, ORDERS_ONE, &over);
    if (over)
        calm_check(/* always= */ true);
}

static void tell_all(const struct script *script, const struct choice *choices, unsigned count)
{
    state_reset();
    scene_begin(script);
    world.verbose = true;
    if (setjmp(on_assertion) == 0)
        tell_choices(choices, count);
    world.verbose = false;
    printf("%s\n", world.violation[0] == '\0' ? "no violation" : world.violation);
}

void search_tell(const struct script *script)
{
    tell_all(script, story, story_length);
    printf("again: --replay %s ", script->name);
    for (unsigned i = 0; i < story_length; i++)
        choice_print(&story[i]);
    putchar('\n');
}

int search_replay(const struct script *script, const char *choices)
{
    unsigned count = 0;
    while (count < DEPTH_MAX && choice_parse(&choices, &story[count]))
        count++;
    tell_all(script, story, count);
    return world.violation[0] != '\0';
}
