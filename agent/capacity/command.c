/* The command line of `lockagent capacity`, and its page of figures. */
#include "agent/capacity/command.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/base/usage.h"
#include "agent/capacity/capacity.h"
#include "config/units.h"

enum { CAPACITY_EXIT_USAGE = 2 };

static const double kib = 1024, percent = 100;

enum figure_kind {
    FIGURE_COUNT,    /* whole */
    FIGURE_RATE,     /* with a fraction, as 0.2 */
    FIGURE_DURATION, /* with its unit; kept in ms */
    FIGURE_SIZE,     /* with its unit; kept in bytes */
    FIGURE_SHARE,    /* in percent; kept as a fraction */
};

struct figure {
    const char *name;
    enum figure_kind kind;
    size_t offset; /* within struct capacity_load */
    const char *preset;
    double min, max;
    const char *allowed, *meaning;
};

#define LOAD(field) offsetof(struct capacity_load, field)
#define PER_SECOND "0 to 10000, as 0.2"

static const struct figure figures[] = {
    {"pods", FIGURE_COUNT, LOAD(pods), "1000", 1, 1e6, "1 to 1000000",
     "pods that take locks, each with an agent"},
    {"holds", FIGURE_COUNT, LOAD(holds), "1", 0, 1e5, "0 to 100000",
     "locks that each pod holds at once, renewed by the agent"},
    {"rate", FIGURE_RATE, LOAD(rate), "1", 0, 1e4, PER_SECOND,
     "locks that each pod takes and gives back in a second"},
    {"refused", FIGURE_RATE, LOAD(refused), "0", 0, 1e4, PER_SECOND,
     "calls of each pod in a second for keys that others hold, without waiting"},
    {"reads", FIGURE_RATE, LOAD(reads), "0", 0, 1e4, PER_SECOND,
     "GET of each pod in a second, of keys that others hold"},
    {"waiters", FIGURE_RATE, LOAD(waiters), "0", 0, 1e4, PER_SECOND,
     "callers of each pod that wait at once, in the mean"},
    {"keys", FIGURE_COUNT, LOAD(keys), "0", 0, 1e12, "0 to 1000000000000",
     "different keys that are ever taken; 0: each lock has a new one"},
    {"ttl", FIGURE_DURATION, LOAD(ttl_ms), "30s", 1000, 3.6e6, "1s to 1h",
     "lease of what the agent renews"},
    {"core", FIGURE_SHARE, LOAD(core_share), "50%", 0.01, 1, "1% to 100%",
     "of a core, what each master may use"},
    {"memory", FIGURE_SIZE, LOAD(memory_bytes), "1024MiB", 1048576, 953674.0 * 1048576,
     "1MiB to 953674MiB, as 512MiB", "what each master may use"},
    {"connections", FIGURE_COUNT, LOAD(connections), "9000", 1, 1e6, "1 to 1000000",
     "what each master may have, below its maxclients"},
    {"pods-per-node", FIGURE_COUNT, LOAD(pods_per_node), "30", 1, 1e4, "1 to 10000",
     "pods that would share an agent per node"},
};

enum { FIGURES = sizeof(figures) / sizeof(figures[0]) };

static const char usage[] =
    "lockagent capacity [OPTION]...\n"
    "\n"
    "Reckons what a fleet costs the masters of a group, how many groups carry it, and whether "
    "each pod may\nhave an agent of its own. Asks no server. All figures are of each master.\n"
    "\n";

static bool read_number(enum config_type type, const char *text, double unit, double *ret_value)
{
    int64_t number;
    if (*text == '\0' || config_number_parse(type, text_of(text), &number) != NULL)
        return false;
    *ret_value = (double)number / unit;
    return true;
}

static bool read_figure(enum figure_kind kind, const char *text, double *ret_value)
{
    static const double parts_per_million = 1e6;
    char *end;
    switch (kind) {
    case FIGURE_RATE: /* digits, and a point between them */
        if (*text < '0' || *text > '9' || strspn(text, "0123456789.") != strlen(text))
            return false;
        *ret_value = strtod(text, &end);
        return *end == '\0';
    case FIGURE_DURATION:
        return read_number(TYPE_DURATION, text, 1, ret_value);
    case FIGURE_SIZE:
        return read_number(TYPE_SIZE, text, 1, ret_value);
    case FIGURE_SHARE:
        return read_number(TYPE_PERCENT, text, parts_per_million, ret_value);
    case FIGURE_COUNT:
        break;
    }
    return read_number(TYPE_COUNT, text, 1, ret_value);
}

static bool take_figure(struct capacity_load *load, const struct figure *figure, const char *text)
{
    double value;
    if (!read_figure(figure->kind, text, &value) || !(value >= figure->min) ||
        !(value <= figure->max)) {
        char shown[USAGE_SHOWN];
        fprintf(stderr, "lockagent capacity: --%s %s: allowed: %s\n", figure->name,
                usage_shown(text, shown), figure->allowed);
        return false;
    }
    memcpy((char *)load + figure->offset, &value, sizeof(value));
    return true;
}

static void print_share(const char *what, double us, double per_second)
{
    printf("  %-22s %11.1f /s %9.3f %% of a core\n", what, per_second, us / 1e6 * percent);
}

static void print_bytes(const char *what, double bytes)
{
    printf("  %-22s %14.1f MiB\n", what, bytes / kib / kib);
}

static void print_plan(const struct capacity_load *load, const struct capacity_plan *plan)
{
    static const char *const advice[] = {
        [CAPACITY_ONE_PER_POD] = "one in every pod",
        [CAPACITY_ONE_PER_NODE] = "one per node",
        [CAPACITY_TOO_MANY] = "too many, also with one per node: allow more, or divide the fleet",
    };
    const struct capacity_use *use = &plan->use;
    puts("Each master, with all keys in one group:\n");
    print_share("locks", use->locks_us, load->pods * load->rate);
    printf("  %-22s %11.0f    %9.3f %% of a core\n", "holds, renewed", load->pods * load->holds,
           use->renewals_us / 1e6 * percent);
    print_share("refused calls", use->refused_us, load->pods * load->refused);
    print_share("reads", use->reads_us, load->pods * load->reads);
    printf("  %-22s %11.0f    %9.3f %% of a core\n", "waiters", load->pods * load->waiters,
           use->waiters_us / 1e6 * percent);
    printf("  %-22s %11.0f    %9.3f %% of a core\n", "agents", use->agents,
           use->agents_us / 1e6 * percent);
    printf("  %-22s %11s    %9.3f %% of a core, of %g %%\n\n", "CPU", "", use->core_share * percent,
           load->core_share * percent);
    print_bytes("held keys", use->lock_bytes);
    print_bytes("fencing numbers", use->number_bytes);
    print_bytes("tickets", use->ticket_bytes);
    print_bytes("connections", use->connection_bytes);
    printf("  %-22s %14.1f MiB, of %g MiB\n", "memory", use->memory_bytes / kib / kib,
           load->memory_bytes / kib / kib);
    printf("  %-22s %14.0f, of %g\n\n", "connections", use->connections, load->connections);
    printf("Agents: %s; masters bear %.0f.\n", advice[plan->advice], plan->agents_max);
    if (plan->groups == 1)
        puts("Groups: one carries it.");
    else if (plan->groups > 1)
        printf("Groups: %.0f, with the keys spread over them (policies[].groups).\n", plan->groups);
}

int capacity_main(int argc, char **argv)
{
    static const char program[] = "lockagent capacity";
    struct option options[FIGURES + 2] = {{0}};
    struct capacity_load load;
    char shown[USAGE_SHOWN];
    int found, index;
    for (size_t i = 0; i < FIGURES; i++) {
        options[i] = (struct option){figures[i].name, required_argument, NULL, 0};
        take_figure(&load, &figures[i], figures[i].preset);
    }
    options[FIGURES] = (struct option){"help", no_argument, NULL, 'h'};
    while ((found = getopt_long(argc, argv, ":h", options, &index)) != -1) {
        if (found == 'h') {
            fputs(usage, stdout);
            for (size_t i = 0; i < FIGURES; i++)
                printf("  --%-14s %s (default %s; allowed: %s)\n", figures[i].name,
                       figures[i].meaning, figures[i].preset, figures[i].allowed);
            puts("  -h, --help       this");
            return EXIT_SUCCESS;
        }
        if (found != 0)
            usage_say_option(program, found, argv);
        if (found != 0 || !take_figure(&load, &figures[index], optarg))
            return CAPACITY_EXIT_USAGE;
    }
    if (optind < argc) {
        fprintf(stderr, "%s: unexpected argument: %s; see %s --help\n", program,
                usage_shown(argv[optind], shown), program);
        return CAPACITY_EXIT_USAGE;
    }
    struct capacity_plan plan = capacity_reckon(&load);
    print_plan(&load, &plan);
    return plan.advice == CAPACITY_TOO_MANY ? EXIT_FAILURE : EXIT_SUCCESS;
}
