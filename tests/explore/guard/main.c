/* Every schedule of the guard of a small group (D5.3): two agents with the shipped step machine,
 * two to five masters that run the shipped scripts, and the checker of tests/sim/guard (G3 to G9).
 * A draw of its simulator is a choice here, and a search takes each of them. The agents' clocks
 * never help: they are set back before each step.
 *
 *   free     the next delivery (or one fixed order), the time when an agent asks for the lock, and
 *            to go on in time if nothing can be delivered
 *   a fault  a connection that ends while its commands in flight never ran, have run, or run later;
 *            a master that an agent cannot reach for a while; requests or answers that are held up;
 *            an agent that is killed; a master that is flushed, restarts with its data or without,
 *            or with older data, is filled with another one's, or cannot write
 *
 * Faults and locks come in the first part of a schedule. In the rest all is well, so that its end
 * shows whether all guards end (G3). */
#include "stage.h"

#include "agent/core/core_assert.h"
#include "tests/explore/seen.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH_MAX = 4096 };

/* ---- the search ---- */

static struct seen_table seen;
static struct choice trail[DEPTH_MAX];
static unsigned trail_length;
static bool all_orders, ended;
static uint64_t states, ends, steps;
static double seconds_max, ends_at;
static jmp_buf on_assertion;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool is_known(unsigned faults_left)
{
    uint64_t hash = stage_hash();
    struct seen *place = seen_place(&seen, hash);
    if (place->hash != 0 && place->faults_left >= faults_left)
        return true;
    states += place->hash == 0;
    *place = (struct seen){hash, 0, (uint8_t)faults_left};
    return false;
}

static bool is_late(void)
{
    if (++steps % 1024 == 0)
        ended = ended || (ends_at > 0 && cpu_seconds() > ends_at);
    return ended;
}

/* True: a violation was found, and the trail leads to it. */
static bool explore(unsigned faults_left)
{
    struct listing listing;
    static struct saved saved[DEPTH_MAX];
    if (is_late() || is_known(faults_left))
        return false;
    if (world.now_us >= guard_end_us()) {
        ends++;
        check_end(&world);
        return *world.violation != '\0';
    }
    guard_choices_list(&listing, faults_left, all_orders);
    if (trail_length == DEPTH_MAX)
        abort();
    stage_save(&saved[trail_length]);
    for (unsigned i = 0; i < listing.count; i++) {
        trail[trail_length++] = listing.list[i];
        guard_choice_take(&listing.list[i]);
        if (*world.violation || explore(faults_left - (listing.list[i].kind >= CHOICE_CUT_NEVER)))
            return true;
        trail_length--;
        stage_restore(&saved[trail_length]);
    }
    return false;
}

/* The core's assertions end here. */
_Noreturn void lockcore_assert_failed(const char *expression, const char *file, int line)
{
    snprintf(world.violation, sizeof world.violation, "asserts");
    snprintf(world.why, sizeof world.why, "%s (%s:%d)", expression, file, line);
    longjmp(on_assertion, 1);
}

static void tell_story(void)
{
    unsigned count = trail_length;
    stage_begin();
    if (setjmp(on_assertion) != 0)
        return;
    for (unsigned i = 0; i < count; i++) {
        guard_choice_tell(&trail[i]);
        guard_choice_take(&trail[i]);
    }
}

static bool search(unsigned bound)
{
    seen_forget_all(&seen);
    states = ends = 0;
    trail_length = 0;
    stage_begin();
    return setjmp(on_assertion) != 0 || explore(bound);
}

/* ---- the command line ---- */

static const char *expected;
static int bound_asked = -1;
static bool quick, stops_at_first, has_found;

static unsigned bound_of(void)
{
    return bound_asked >= 0 ? (unsigned)bound_asked : quick ? script->quick_bound : script->bound;
}

/* Returns true if the search ended as it should. */
static bool search_script(void)
{
    unsigned last = bound_of();
    double began_at = cpu_seconds();
    ends_at = seconds_max > 0 ? began_at + seconds_max : 0;
    ended = false;
    bool found = false;
    memset(&world.count, 0, sizeof world.count);
    for (unsigned bound = 0; bound <= last && !found && !ended; bound++)
        found = search(bound);
    char violation[sizeof world.violation], why[sizeof world.why];
    memcpy(violation, world.violation, sizeof violation);
    memcpy(why, world.why, sizeof why);
    if (found)
        tell_story();
    printf("%-14s bound %u, %s: %10llu states %9llu ends, depth %4u, %7.1f s: ", script->name, last,
           all_orders ? "orders" : "one order", (unsigned long long)states,
           (unsigned long long)ends, trail_length, cpu_seconds() - began_at);
    bool is_thin =
        !found && last == script->bound && !all_orders &&
        (world.count.answered < script->least.answered || world.count.told < script->least.told ||
         world.count.guessed < script->least.guessed || world.count.copies < script->least.copies);
    printf("%u answered, %u told, %u guessed, %u copies: ", world.count.answered, world.count.told,
           world.count.guessed, world.count.copies);
    if (is_thin)
        printf("too little happened: ");
    printf(found   ? "%s: %s\n"
           : ended ? "NOT COMPLETE, no violation\n"
                   : "complete, no violation\n",
           violation, why);
    if (found)
        printf("caught by %s in %s\n", violation, script->name);
    fflush(stdout);
    has_found = has_found || found;
    return expected != NULL ? found && strcmp(violation, expected) == 0
                            : !found && !ended && !is_thin;
}

static void print_list(void)
{
    for (size_t i = 0; i < script_count; i++)
        printf("%s | %s | %u | %s | -\n", scripts[i].name, scripts[i].what, scripts[i].bound,
               scripts[i].is_slow ? "slow" : "");
}

static int usage(void)
{
    fputs("usage: explore_guard [--quick | --bound N] [--orders] [--first] [--seconds S]\n"
          "                     [--break FILE FROM TO] [--caught-by PROPERTY] [SCRIPT...]\n"
          "       explore_guard --list\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            print_list();
            return 0;
        } else if (strcmp(argv[i], "--quick") == 0) {
            quick = true;
        } else if (strcmp(argv[i], "--first") == 0) {
            stops_at_first = true;
        } else if (strcmp(argv[i], "--orders") == 0) {
            all_orders = true;
        } else if (strcmp(argv[i], "--bound") == 0 && i + 1 < argc) {
            bound_asked = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
            seconds_max = strtod(argv[++i], NULL);
        } else if (strcmp(argv[i], "--caught-by") == 0 && i + 1 < argc) {
            expected = argv[++i];
        } else if (strcmp(argv[i], "--break") == 0 && i + 3 < argc) {
            script_break(argv[i + 1], argv[i + 2], argv[i + 3]);
            i += 3;
        } else {
            return usage();
        }
    }
    unsigned passed = 0, failed = 0;
    for (size_t s = 0; s < script_count; s++) {
        bool wanted = i == argc;
        for (int arg = i; arg < argc; arg++)
            wanted = wanted || strcmp(argv[arg], scripts[s].name) == 0;
        script = &scripts[s];
        if (stops_at_first && has_found)
            break;
        if (wanted && search_script())
            passed++;
        else
            failed += wanted;
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
