/* The command line of `lockagent run`. */
#include "agent/run/run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/key.h"
#include "agent/base/text.h"
#include "agent/base/usage.h"
#include "agent/run/options.h"
#include "agent/run/say.h"
#include "agent/run/session.h"
#include "agent/settings.h"
#include "config/config.h"

enum { OVERRIDES_MAX = 64, OPTION_ON_LOST = 256, OPTION_MAX_HOLD };

static const char usage[] =
    "lockagent run [OPTION]... KEY... -- COMMAND [ARGUMENT]...\n"
    "\n"
    "Takes the lock KEY, runs COMMAND (without a shell), and releases the lock when it has ended. "
    "Needs Redis masters and\n"
    "their configuration, but no agent. Waits for the lock for as long as it takes, unless told "
    "otherwise.\n"
    "\n"
    "Several KEYs, up to 16, are taken one after the other, in the order of their bytes: all of "
    "them or none. The options\n"
    "apply to each, and a loss of one ends COMMAND.\n"
    "\n"
    "  -n, --no-wait             do not wait for another holder\n"
    "  -w, --wait DUR            wait at most so long for all keys together (as 500ms, 30s, 5m)\n"
    "  -r, --read                read the key, beside other readers, if its policy is of kind rw\n"
    "  -t, --ttl DUR             lease; it is renewed every ttl/3 for as long as COMMAND runs "
    "(default: the policy's)\n"
    "      --max-hold DUR        the lock is lost after so long (default: never, whatever the "
    "policy says: it ends with\n"
    "                            COMMAND)\n"
    "      --on-lost ACTION      term: SIGTERM, then SIGKILL before the validity ends (default)\n"
    "                            kill: SIGKILL at once\n"
    "                            ignore: COMMAND goes on, without the lock\n"
    "  -l, --label TEXT          who holds the lock, as others see it (default: HOST/PID)\n"
    "  -E, --conflict-exit-code CODE\n"
    "                            exit code when the lock is not acquired, 0 to 255 (default 1)\n"
    "  -q, --quiet               say nothing when another one holds the lock\n"
    "  -c, --config FILE         YAML; default /etc/lockagent/lockagent.yaml if that exists, else "
    "the environment alone;\n"
    "                            only the part `redis` is needed. log.level: info counts as warn\n"
    "  -s, --set KEY=VALUE       overrides a key of the configuration\n"
    "  -h, --help                this\n"
    "\n"
    "COMMAND gets LOCKAGENT_KEY, LOCKAGENT_TOKEN, LOCKAGENT_FENCING_TOKEN and, of a semaphore, "
    "LOCKAGENT_SLOT; with several\n"
    "keys LOCKAGENT_FENCING_TOKENS alone, as 'A=7 B=9'. It gets none of the other LOCKAGENT_ "
    "variables.\n"
    "It is in a process group of its own, which gets SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and "
    "SIGUSR2 that are sent\n"
    "to `run`, and which is killed when `run` dies, or COMMAND has ended and left others behind.\n"
    "\n"
    "Exit code: COMMAND's own, or 128 + the signal that it died of; 1 the lock was not acquired; "
    "75 the lock was lost;\n"
    "125 `run` failed; 126 COMMAND can not be executed; 127 it is not found; 128 + the signal that "
    "ended the wait.\n"
    "After Ctrl-C (SIGINT) `run` dies of the signal, so that a script around it ends as well.\n";

struct run_arguments {
    struct run_options options;
    struct settings_source source;
    const char *overrides[OVERRIDES_MAX];
};

static bool duration_option(const char *option, const char *text, int64_t min_ms, int64_t max_ms,
                            int64_t *ret_ms)
{
    char shown[USAGE_SHOWN], min[24], max[24];
    int64_t ms;
    if (config_parse_duration(text_of(text), &ms) && ms >= min_ms && ms <= max_ms) {
        *ret_ms = ms;
        return true;
    }
    run_say(NULL, "%s %s: no such duration; allowed: %s to %s, as 30s", option,
            usage_shown(text, shown), config_print_duration(min_ms, min, sizeof(min)),
            config_print_duration(max_ms, max, sizeof(max)));
    return false;
}

static bool exit_code_option(const char *text, int *ret_code)
{
    char shown[USAGE_SHOWN], *end;
    long code = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || code > 255) {
        run_say(NULL, "--conflict-exit-code %s: allowed: 0 to 255", usage_shown(text, shown));
        return false;
    }
    *ret_code = (int)code;
    return true;
}

static bool on_lost_option(const char *text, enum run_on_lost *ret_action)
{
    static const char *const words[] = {"term", "kill", "ignore"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_action = (enum run_on_lost)i;
            return true;
        }
    }
    char shown[USAGE_SHOWN];
    run_say(NULL, "--on-lost %s: allowed: term, kill, ignore", usage_shown(text, shown));
    return false;
}

static bool label_option(const char *text, const char **ret_label)
{
    const char *fault = text_fault(text_of(text));
    if (fault == NULL && strlen(text) > LIMIT_LABEL_BYTES)
        fault = "is too long";
    if (fault != NULL)
        run_say(NULL, "--label %s; allowed: up to %d bytes of UTF-8 without control characters",
                fault, LIMIT_LABEL_BYTES);
    *ret_label = text;
    return fault == NULL;
}

static bool take_option(struct run_arguments *arguments, int option, const char *value)
{
    struct run_options *options = &arguments->options;
    int64_t ttl_ms;
    switch (option) {
    case 'n':
        options->wait_ms = 0;
        return true;
    case 'w':
        return duration_option("--wait", value, 0, RUN_WITHOUT_END_MS, &options->wait_ms);
    case 'r':
        options->reads = true;
        return true;
    case 't':
        if (!duration_option("--ttl", value, TTL_MS_MIN_AGENT, TTL_MS_MAX, &ttl_ms))
            return false;
        options->ttl_ms = (uint32_t)ttl_ms;
        return true;
    case OPTION_MAX_HOLD:
        return duration_option("--max-hold", value, TTL_MS_MIN, RUN_WITHOUT_END_MS,
                               &options->max_hold_ms);
    case OPTION_ON_LOST:
        return on_lost_option(value, &options->on_lost);
    case 'E':
        return exit_code_option(value, &options->not_acquired_code);
    case 'l':
        return label_option(value, &options->label);
    case 'q':
        options->quiet = true;
        return true;
    case 'c':
        arguments->source.path = value;
        return true;
    case 's':
        if (arguments->source.override_count == OVERRIDES_MAX) {
            run_say(NULL, "too many --set");
            return false;
        }
        arguments->overrides[arguments->source.override_count++] = value;
        return true;
    default:
        return false;
    }
}

/* Reads the keys: argv[optind] to argv[ours - 1]. */
static bool take_keys(struct run_options *options, int ours, char **argv)
{
    char shown[USAGE_SHOWN];
    options->keys = &argv[optind];
    options->key_count = run_keys_sort(&argv[optind], (size_t)(ours - optind));
    if (options->key_count > RUN_KEYS_MAX) {
        run_say(NULL, "%zu different keys; allowed: 1 to %d before --", options->key_count,
                RUN_KEYS_MAX);
        return false;
    }
    for (size_t i = 0; i < options->key_count; i++) {
        const char *fault = key_fault(text_of(options->keys[i]));
        if (fault == NULL)
            continue;
        run_say(NULL,
                "the key \"%s\" %s; allowed: 1 to %d bytes of UTF-8, every / between two parts",
                usage_shown(options->keys[i], shown), fault, LIMIT_KEY_BYTES);
        return false;
    }
    return true;
}

static bool check_words(struct run_options *options, int ours, char **argv, bool divided)
{
    const char *fault = NULL;
    if (optind == ours)
        fault = "the key is missing";
    else if (!divided)
        fault = "-- is missing; allowed: KEY... -- COMMAND";
    else if (options->command[0] == NULL)
        fault = "the command is missing behind --";
    if (fault != NULL) {
        run_say(NULL, "%s; see lockagent run --help", fault);
        return false;
    }
    return take_keys(options, ours, argv);
}

/* Returns false if the program ends at once, with `*ret_code`. */
static bool parse_run_line(int argc, char **argv, struct run_arguments *arguments, int *ret_code)
{
    static const struct option options[] = {
        {"no-wait", no_argument, NULL, 'n'},
        {"wait", required_argument, NULL, 'w'},
        {"read", no_argument, NULL, 'r'},
        {"ttl", required_argument, NULL, 't'},
        {"max-hold", required_argument, NULL, OPTION_MAX_HOLD},
        {"on-lost", required_argument, NULL, OPTION_ON_LOST},
        {"conflict-exit-code", required_argument, NULL, 'E'},
        {"label", required_argument, NULL, 'l'},
        {"quiet", no_argument, NULL, 'q'},
        {"config", required_argument, NULL, 'c'},
        {"set", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int ours = 1, option; /* The arguments before `--` are ours, those after it are the command. */
    while (ours < argc && strcmp(argv[ours], "--") != 0)
        ours++;
    bool divided = ours < argc;
    if (divided)
        arguments->options.command = &argv[ours + 1];
    *ret_code = RUN_EXIT_FAILED;
    while ((option = getopt_long(ours, argv, ":nw:rt:E:l:qc:s:h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            *ret_code = EXIT_SUCCESS;
            return false;
        }
        if (option == '?' || option == ':')
            usage_say_option("lockagent run", option, argv);
        if (!take_option(arguments, option, optarg))
            return false;
    }
    return check_words(&arguments->options, ours, argv, divided);
}

int run_main(int argc, char **argv, const char *config_path)
{
    static struct run_arguments arguments;
    int code;
    arguments.options = (struct run_options){.wait_ms = RUN_WITHOUT_END_MS,
                                             .max_hold_ms = RUN_WITHOUT_END_MS,
                                             .not_acquired_code = RUN_EXIT_NOT_ACQUIRED};
    arguments.source = (struct settings_source){
        .path = config_path, .environment = environ, .overrides = arguments.overrides};
    if (!parse_run_line(argc, argv, &arguments, &code))
        return code;
    struct config *config = settings_load(&arguments.source);
    return config == NULL ? RUN_EXIT_FAILED : run_session(&arguments.options, config);
}
