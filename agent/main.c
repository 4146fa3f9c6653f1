/* lockagent: from the command line to a subcommand. Exit codes: 0 success, 1 failure, 2 wrong
 * usage. `run` has its own codes. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/key.h"
#include "agent/base/text.h"
#include "agent/base/usage.h"
#include "agent/capacity/capacity.h"
#include "agent/capacity/command.h"
#include "agent/core/core_assert.h"
#include "agent/healthcheck.h"
#include "agent/metrics/exposition.h"
#include "agent/prepare.h"
#include "agent/redis/redis.h"
#include "agent/run/run.h"
#include "agent/serve.h"
#include "agent/settings.h"
#include "agent/version.h"
#include "config/address.h"
#include "config/config.h"

enum { EXIT_USAGE = 2, OVERRIDES_MAX = 64 };

static const char default_config[] = "/etc/lockagent/lockagent.yaml";

static const char usage[] =
    "lockagent " LOCKAGENT_VERSION ": distributed locks on independent Redis masters, over HTTP\n"
    "\n"
    "  lockagent [serve] [--config FILE] [--set KEY=VALUE]... [--print-config]\n"
    "                            serve locks; with --print-config print the whole configuration "
    "instead\n"
    "  lockagent check [--ask] FILE\n"
    "                            check a configuration file and print its errors; with --ask ask "
    "its masters too\n"
    "  lockagent trust FILE      give every master of FILE its vote at once, whatever it may have "
    "forgotten\n"
    "  lockagent trust --new FILE\n"
    "                            give the masters of FILE their first votes, before the first "
    "agent "
    "starts\n"
    "  lockagent unlock FILE KEY [--yes HOLD]\n"
    "                            show the holders of KEY; with --yes delete the lock of "
    "HOLD\n"
    "  lockagent layouts FILE    compare the layouts at work on the masters with FILE's\n"
    "  lockagent healthcheck [--config FILE] [--set KEY=VALUE]... [--address ADDRESS] [--ready]\n"
    "                            ask a running agent whether it lives, or with --ready whether it "
    "can grant locks\n"
    "  lockagent run [OPTION]... KEY... -- COMMAND [ARGUMENT]...\n"
    "                            run COMMAND while holding the lock KEY, without an agent; see "
    "lockagent run --help\n"
    "  lockagent capacity [OPTION]...\n"
    "                            how many masters a fleet needs; see lockagent capacity --help\n"
    "  lockagent --version | --help\n"
    "\n"
    "  -c, --config FILE         YAML; default /etc/lockagent/lockagent.yaml if that exists, else "
    "the environment "
    "alone\n"
    "  -s, --set KEY=VALUE       overrides a key, as in --set log.level=debug\n"
    "\n"
    "Every key can also be set by the environment: LOCKAGENT_LOG_LEVEL=debug. SIGHUP reloads, "
    "SIGTERM drains.\n";

/* Prints the failed assertion and aborts; the default hook of the core only traps. There is no core
 * dump (prepare_process()). */
_Noreturn void lockcore_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "lockagent: assertion failed: %s (%s:%d)\n", expression, file, line);
    abort();
}

struct arguments {
    struct settings_source source;
    const char *overrides[OVERRIDES_MAX];
    const char *address;
    const char *unlocks; /* The name of the hold to unlock; NULL: only look. */
    bool print_config, ready, is_new, asks;
    unsigned given; /* The options that were given, as bits: bit i for options[i]. */
    const char *words[3];
    int word_count;
};

static int wrong_usage(const char *what, const char *word)
{
    char what_shown[USAGE_SHOWN], word_shown[USAGE_SHOWN] = "";
    fprintf(stderr, "lockagent: %s%s%s; see lockagent --help\n", usage_shown(what, what_shown),
            word == NULL ? "" : ": ", word == NULL ? "" : usage_shown(word, word_shown));
    return EXIT_USAGE;
}

static int command_print_config(const struct settings_source *source)
{
    struct config *config = settings_load(source);
    if (config == NULL)
        return EXIT_FAILURE;
    config_print(config, stdout);
    free(config);
    return EXIT_SUCCESS;
}

static void say_of_master(const char *group, const char *master, const char *text)
{
    printf("%s: %s%s%s\n", group, master == NULL ? "" : master, master == NULL ? "" : ": ", text);
    fflush(stdout); /* The next step may take seconds. */
}

/* Checks the configuration file, the certificate files that it names and, with --ask, its
 * masters. */
static int command_check(const struct arguments *arguments)
{
    if (arguments->word_count != 2)
        return wrong_usage("check takes one file", NULL);
    struct settings_source source = arguments->source;
    source.path = arguments->words[1];
    struct config *config = settings_load(&source);
    if (config == NULL)
        return EXIT_FAILURE;
    bool ok = settings_check_files(config, source.path);
    settings_print_remarks(config, source.path);
    if (ok && arguments->asks) {
        signal(SIGPIPE,
               SIG_IGN); /* A write to an ended connection is reported by its error code. */
        ok = redis_survey(config, say_of_master) == 0;
    }
    free(config);
    if (ok)
        printf("%s: ok\n", source.path);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int command_trust(const struct arguments *arguments)
{
    if (arguments->word_count != 2)
        return wrong_usage("trust takes one file", NULL);
    struct settings_source source = arguments->source;
    source.path = arguments->words[1];
    struct config *config = settings_load(&source);
    if (config == NULL)
        return EXIT_FAILURE;
    signal(SIGPIPE, SIG_IGN); /* A write to an ended connection is reported by its error code. */
    size_t failed = arguments->is_new ? redis_trust_new(config, say_of_master)
                                      : redis_trust(config, say_of_master);
    free(config);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Shows the holders of a key. With --yes deletes the lock of one of them (R25). */
static int command_unlock(const struct arguments *arguments)
{
    if (arguments->word_count != 3)
        return wrong_usage("unlock takes a file and a key", NULL);
    struct text key = text_of(arguments->words[2]);
    const char *fault = key_fault(key), *name = arguments->unlocks;
    if (fault != NULL) {
        fprintf(stderr, "lockagent: the key %s\n", fault);
        return EXIT_USAGE;
    }
    if (name != NULL &&
        (strlen(name) != HOLD_NAME_CHARS || strspn(name, "0123456789abcdef") != HOLD_NAME_CHARS))
        return wrong_usage("--yes takes the 12 hex digits of a hold that unlock shows", name);
    struct settings_source source = arguments->source;
    source.path = arguments->words[1];
    struct config *config = settings_load(&source);
    if (config == NULL)
        return EXIT_FAILURE;
    signal(SIGPIPE, SIG_IGN);
    bool well = redis_unlock(config, key, name, say_of_master);
    free(config);
    return well ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Compares the layouts at work with that of a file (R23). */
static int command_layouts(const struct arguments *arguments)
{
    size_t conflicts = 0;
    if (arguments->word_count != 2)
        return wrong_usage("layouts takes one file", NULL);
    struct settings_source source = arguments->source;
    source.path = arguments->words[1];
    struct config *config = settings_load(&source);
    if (config == NULL)
        return EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN);
    bool enough = redis_layouts(config, say_of_master, &conflicts);
    free(config);
    return conflicts > 0 ? EXIT_FAILURE : enough ? EXIT_SUCCESS : EXIT_USAGE;
}

static int command_healthcheck(const struct arguments *arguments)
{
    struct config_address address;
    if (arguments->word_count > 1)
        return wrong_usage("unexpected argument", arguments->words[1]);
    if (arguments->address != NULL) {
        const char *wrong = config_address_parse(arguments->address, &address);
        return wrong == NULL ? healthcheck(&address, arguments->ready)
                             : wrong_usage(arguments->address, wrong);
    }
    struct config *config = settings_load(&arguments->source);
    if (config == NULL)
        return EXIT_FAILURE;
    address = (config->admin.count > 0 ? &config->admin : &config->listen)->addresses[0];
    free(config);
    return healthcheck(&address, arguments->ready);
}

/* Prints a table of docs/ from the tables of the program: `lockagent docs
 * config|relations|sample|metrics|capacity`. */
static int command_docs(const struct arguments *arguments)
{
    const char *what = arguments->word_count == 2 ? arguments->words[1] : "";
    if (strcmp(what, "config") == 0) {
        config_print_markdown(stdout);
    } else if (strcmp(what, "relations") == 0) {
        config_print_relations(stdout);
    } else if (strcmp(what, "sample") == 0) {
        config_print_sample(stdout);
    } else if (strcmp(what, "metrics") == 0) {
        struct buffer page = {0};
        exposition_print_markdown(&page);
        fwrite(page.bytes, 1, page.len, stdout);
        buffer_free(&page);
    } else if (strcmp(what, "capacity") == 0) {
        capacity_print_markdown(stdout);
    } else {
        return wrong_usage("docs takes config, relations, sample, metrics or capacity", NULL);
    }
    return EXIT_SUCCESS;
}

static int command_serve(const struct arguments *arguments)
{
    if (arguments->word_count > 1)
        return wrong_usage("unexpected argument", arguments->words[1]);
    return arguments->print_config ? command_print_config(&arguments->source)
                                   : serve(&arguments->source);
}

/* Their options are read by run_main() and capacity_main(). */
static int command_out_of_place(const struct arguments *arguments)
{
    return wrong_usage("its options come after the command", arguments->words[0]);
}

static const struct subcommand {
    const char *name;
    const char *options; /* The letters of its options; NULL: those are not read here. */
    int (*run)(const struct arguments *arguments);
} commands[] = {
    {"serve", "csp", command_serve},
    {"check", "sA", command_check},
    {"trust", "sn", command_trust},
    {"unlock", "sy", command_unlock},
    {"layouts", "s", command_layouts},
    {"healthcheck", "csar", command_healthcheck},
    {"docs", "", command_docs},
    {"run", NULL, command_out_of_place},
    {"capacity", NULL, command_out_of_place},
};

static const struct option options[] = {
    {"config", required_argument, NULL, 'c'},
    {"set", required_argument, NULL, 's'},
    {"address", required_argument, NULL, 'a'},
    {"print-config", no_argument, NULL, 'p'},
    {"ready", no_argument, NULL, 'r'},
    {"new", no_argument, NULL, 'n'},
    {"ask", no_argument, NULL, 'A'},
    {"yes", required_argument, NULL, 'y'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void note_option(struct arguments *arguments, int letter)
{
    for (unsigned i = 0; options[i].name != NULL; i++)
        arguments->given |= options[i].val == letter ? 1U << i : 0;
}

/* An option of another command would be obeyed by none, and its caller would believe otherwise. */
static int run_command(const struct subcommand *command, const struct arguments *arguments)
{
    char what[64];
    for (unsigned i = 0; command->options != NULL && options[i].name != NULL; i++) {
        if ((arguments->given >> i & 1) == 0 || strchr(command->options, options[i].val) != NULL)
            continue;
        snprintf(what, sizeof(what), "%s has no option --%s", command->name, options[i].name);
        return wrong_usage(what, NULL);
    }
    return command->run(arguments);
}

static int dispatch(const struct arguments *arguments)
{
    const char *name = arguments->word_count == 0 ? "serve" : arguments->words[0];
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(name, commands[i].name) == 0)
            return run_command(&commands[i], arguments);
    return wrong_usage("unknown command", name);
}

/* Fills `arguments`. Returns true if the program ends here, with `*ret_code`. */
static bool parse_command_line(int argc, char **argv, struct arguments *arguments, int *ret_code)
{
    int option;
    *ret_code = EXIT_SUCCESS;
    while ((option = getopt_long(argc, argv, ":c:s:hV", options, NULL)) != -1) {
        note_option(arguments, option);
        switch (option) {
        case 'c':
            arguments->source.path = optarg;
            break;
        case 's':
            if (arguments->source.override_count == OVERRIDES_MAX) {
                *ret_code = wrong_usage("too many --set", NULL);
                return true;
            }
            arguments->overrides[arguments->source.override_count++] = optarg;
            break;
        case 'a':
            arguments->address = optarg;
            break;
        case 'p':
            arguments->print_config = true;
            break;
        case 'r':
            arguments->ready = true;
            break;
        case 'n':
            arguments->is_new = true;
            break;
        case 'A':
            arguments->asks = true;
            break;
        case 'y':
            arguments->unlocks = optarg;
            break;
        case 'V':
            puts("lockagent " LOCKAGENT_VERSION);
            return true;
        case 'h':
            fputs(usage, stdout);
            return true;
        default:
            usage_say_option("lockagent", option, argv);
            *ret_code = EXIT_USAGE;
            return true;
        }
    }
    for (; optind < argc; optind++) {
        if (arguments->word_count == 3) {
            *ret_code = wrong_usage("unexpected argument", argv[optind]);
            return true;
        }
        arguments->words[arguments->word_count++] = argv[optind];
    }
    return false;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.source.environment = environ};
    int code;
    prepare_process();
    opterr = 0; /* usage_say_option() prints the errors. */
    arguments.source.overrides = arguments.overrides;
    bool is_there = access(default_config, F_OK) == 0 || errno == EACCES;
    const char *path = is_there ? default_config : NULL;
    if (argc > 1 && strcmp(argv[1], "run") == 0)
        return run_main(argc - 1, argv + 1, path);
    if (argc > 1 && strcmp(argv[1], "capacity") == 0)
        return capacity_main(argc - 1, argv + 1);
    if (parse_command_line(argc, argv, &arguments, &code))
        return code;
    if (arguments.source.path == NULL)
        arguments.source.path = path;
    return dispatch(&arguments);
}
