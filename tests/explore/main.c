/* The explorer's command line: search scripts, replay a schedule, show that a broken rule is
 * caught. */
#include "explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOUND_OF_SCRIPT = 255 };

static struct search options = {.shortens = true};
static const char *expected;
static bool expects_violation, quick, listed, stops_at_first, has_found, tells_deeds, idles;
static uint8_t bound = BOUND_OF_SCRIPT;

static const char *const order_names[] = {"one order", "orders", "every order"};

static int usage(void)
{
    fputs("usage: explore [OPTION...] [SCRIPT...]      search these scripts, or all\n"
          "       explore [OPTION...] --replay SCRIPT CHOICES   take these choices, and tell them\n"
          "options:   --bound N              faults of a schedule (each script's own)\n"
          "           --orders               every order of delivery that matters, not one\n"
          "           --every-order          also those that are known not to\n"
          "           --quick                the bounds of `make test`\n"
          "           --no-memory            look at states again that were seen\n"
          "           --first                stop at the first violation\n"
          "           --exercised            print what has happened how often\n"
          "           --idle                 nobody makes a move: no script may pass\n"
          "           --verify               that each state comes back as it was\n"
          "           --seconds S            give up after so long, for each script\n"
          "           --long-story           do not look for a shorter one\n"
          "           --caught-by PROPERTY   fail unless the violation is of this property\n"
          "           --expect-violation     fail unless there is one\n"
          "           --list                 print the scripts\n"
          "rules that others than the core keep, broken:\n"
          "           --answers-unchecked  --register-accepts-all\n"
          "           --replace FILE TEXT BY in the scripts of the masters\n",
          stderr);
    return 2;
}

/* For run.py: name, subject, bound, bound of the orders. */
static void print_list(void)
{
    const struct script *script;
    for (size_t i = 0; (script = script_at(i)) != NULL; i++)
        printf("%s | %s | %u | %s\n", script->name, script->what, script->bound,
               script->each_order ? "0" : "-");
}

static const struct script *find(const char *name)
{
    const struct script *script;
    for (size_t i = 0; (script = script_at(i)) != NULL && strcmp(script->name, name) != 0; i++)
        continue;
    return script;
}

static unsigned bound_of(const struct script *script)
{
    return bound != BOUND_OF_SCRIPT       ? bound
           : quick                        ? script->quick_bound
           : options.orders != ORDERS_ONE ? 0
                                          : script->bound;
}

/* Returns true if the search ended as it should. */
static bool search_one(const struct script *script)
{
    struct search search = options;
    struct script idle = *script;
    memset(idle.moves, 0, sizeof idle.moves);
    search.bound = bound_of(script);
    if (options.orders != ORDERS_ONE && bound == BOUND_OF_SCRIPT && !quick && !script->each_order)
        return true;
    search_run(&search, idles ? &idle : script);
    bool found = search.violation[0] != '\0';
    bool proves_nothing = !found && search.complete && search.missing != NULL;
    printf("%-12s bound %u, %s: %10llu states %9llu ends, depth %4u, %7.1f s: %s%s\n", script->name,
           search.bound, order_names[search.orders], (unsigned long long)search.states,
           (unsigned long long)search.ends, search.depth, search.seconds,
           found              ? search.violation
           : !search.complete ? "NOT COMPLETE, no violation"
           : proves_nothing   ? "NOTHING PROVED, there was not once "
                              : "complete, no violation",
           proves_nothing ? search.missing : "");
    if (tells_deeds)
        exercised_print();
    fflush(stdout);
    has_found = has_found || found;
    if (found) {
        search_tell(script);
        printf("caught by %s in %s\n", search.property, script->name);
    }
    if (expected != NULL)
        return found && strcmp(search.property, expected) == 0;
    return expects_violation ? found : !found && search.complete && search.missing == NULL;
}

static int search_all(int argc, char **argv)
{
    unsigned passed = 0, failed = 0;
    const struct script *script;
    for (size_t i = 0; (script = script_at(i)) != NULL; i++) {
        bool wanted = argc == 0;
        for (int arg = 0; arg < argc; arg++)
            wanted = wanted || strcmp(argv[arg], script->name) == 0;
        if (!wanted)
            continue;
        bool well = search_one(script);
        passed += well;
        failed += !well;
        if (stops_at_first && has_found)
            break;
    }
    if (idles) { /* a row in which no caller moves must not pass */
        unsigned proved = passed;
        passed = failed;
        failed = proved;
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0 || passed == 0;
}

static bool turn_switch(const char *name)
{
    const struct {
        const char *name;
        bool *value;
    } table[] = {
        {"--quick", &quick},
        {"--list", &listed},
        {"--first", &stops_at_first},
        {"--exercised", &tells_deeds},
        {"--idle", &idles},
        {"--verify", &options.verifies},
        {"--no-memory", &options.no_memory},
        {"--expect-violation", &expects_violation},
        {"--answers-unchecked", &world.switches.answers_unchecked},
        {"--register-accepts-all", &world.switches.register_accepts_all},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(name, table[i].name) == 0) {
            *table[i].value = true;
            return true;
        }
    bool orders = strcmp(name, "--orders") == 0, every = strcmp(name, "--every-order") == 0,
         is_long = strcmp(name, "--long-story") == 0;
    options.orders = orders ? ORDERS_REDUCED : every ? ORDERS_ALL : options.orders;
    options.shortens = options.shortens && !is_long;
    return orders || every || is_long;
}

int main(int argc, char **argv)
{
    struct replacement replacement = {0};
    const char *replayed = NULL;
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (turn_switch(argv[i]))
            continue;
        if (strcmp(argv[i], "--replace") == 0 && i + 3 < argc) {
            replacement = (struct replacement){argv[i + 1], argv[i + 2], argv[i + 3]};
            i += 3;
        } else if (i + 1 == argc) {
            return usage();
        } else if (strcmp(argv[i], "--bound") == 0) {
            bound = (uint8_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            options.seconds_max = strtod(argv[++i], NULL);
        } else if (strcmp(argv[i], "--caught-by") == 0) {
            expected = argv[++i];
        } else if (strcmp(argv[i], "--replay") == 0) {
            replayed = argv[++i];
        } else {
            return usage();
        }
    }
    if (listed)
        return print_list(), 0;
    const char *why = master_load(&world, replacement.file == NULL ? NULL : &replacement);
    if (why != NULL) {
        fprintf(stderr, "explore: %s\n", why);
        return 2;
    }
    if (replayed != NULL)
        return find(replayed) == NULL || i >= argc ? usage()
                                                   : search_replay(find(replayed), argv[i]);
    return search_all(argc - i, argv + i);
}
