/* Fuzzes the configuration: a file, and behind each byte 1 a setting of the environment
 * (LOCKAGENT_...) or of a flag. A configuration that loads is printed, loads again, and starts a
 * core. An error names its place and its reason. */
#include "config/config.h"

#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/text.h"
#include "tests/fuzz/fuzz.h"

enum { SETTINGS_MAX = 16, SETTING_BYTES_MAX = 600, LOCKS_MAX = 64 };

static struct config loaded, again;
static struct config_errors errors;

/* A file without a folder; the same one for every input. */
static const char *file_with(const void *bytes, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("config", MFD_CLOEXEC);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size,
               "no file");
    return path;
}

static char *print(const struct config *config)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    FUZZ_CHECK(out != NULL, "no memory");
    config_print(config, out);
    fclose(out);
    return text;
}

static void check_errors(const char *path)
{
    FUZZ_CHECK(errors.count > 0, "neither a configuration nor an error");
    const size_t kept = sizeof(errors.list) / sizeof(errors.list[0]);
    int line = 0;
    for (size_t i = 0; i < errors.count && i < kept; i++) {
        const struct config_error *error = &errors.list[i];
        size_t len = strnlen(error->text, sizeof(error->text));
        FUZZ_CHECK(len > 0 && len < sizeof(error->text), "no end: %.*s", (int)len, error->text);
        FUZZ_CHECK(text_fault(text_of(error->text)) == NULL, "a terminal can not take it: %s",
                   error->text);
        FUZZ_CHECK(error->line >= 0 && error->column >= 0 &&
                       (error->line > 0 || error->column == 0),
                   "%s", error->text);
        if (error->line == 0)
            continue;
        FUZZ_CHECK(strncmp(error->text, path, strlen(path)) == 0, "no place: %s", error->text);
        FUZZ_CHECK(error->line >= line, "not in the order of the file: %s", error->text);
        line = error->line;
    }
}

/* Checks that the core accepts a configuration that loads. The core asserts its ranges. */
static void check_core(struct config *config)
{
    struct core_group groups[LIMIT_GROUPS];
    static struct core_policy policies[LIMIT_POLICIES];
    const char *names[LIMIT_GROUPS];
    struct core_config core_config;
    if (config->locks_max > LOCKS_MAX)
        config->locks_max = LOCKS_MAX;
    config_for_core(config, 1, groups, policies, names, &core_config);
    if (core_config.requests_max > LOCKS_MAX)
        core_config.requests_max = LOCKS_MAX;
    void *memory = calloc(1, core_size(&core_config));
    struct core *core = core_init(memory, &core_config);
    FUZZ_CHECK(core_policy_of(core, text_of("a")) < config->policy_count, "no policy for a key");
    for (size_t i = 0; i < config->group_count; i++)
        FUZZ_CHECK(config_group_quorum(config, i) <= config->groups[i].master_count,
                   "no quorum can be had");
    free(memory);
}

/* Removes the passwords. They are printed as `***`, so only their presence comes back. */
static void forget_passwords(struct config *config)
{
    for (size_t g = 0; g < config->group_count; g++)
        for (size_t m = 0; m < config->groups[g].master_count; m++) {
            char *password = config->groups[g].masters[m].password;
            bool some = password[0] != '\0';
            memset(password, 0, sizeof(config->groups[g].masters[m].password));
            password[0] = some ? '*' : '\0';
        }
}

/* Both were zeroed before they were filled, so that padding is the same too. */
static bool same_bytes(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

static void check_loaded(void)
{
    char *first = print(&loaded);
    bool fine = config_load(file_with(first, strlen(first)), NULL, NULL, 0, &again, &errors);
    FUZZ_CHECK(fine, "%s\nis refused: %s", first, errors.list[0].text);
    char *second = print(&again);
    FUZZ_CHECK(strcmp(first, second) == 0, "%s\nis printed anew as\n%s", first, second);
    forget_passwords(&loaded);
    forget_passwords(&again);
    FUZZ_CHECK(same_bytes(&loaded, &again, sizeof(loaded)), "%s\nreads back as something else",
               first);
    fine = config_load(file_with(second, strlen(second)), NULL, NULL, 0, &again, &errors) &&
           config_load_next(&again, file_with(second, strlen(second)), NULL, NULL, 0, &loaded,
                            &errors);
    FUZZ_CHECK(fine, "%s\ncan not be reloaded: %s", second, errors.list[0].text);
    free(first);
    free(second);
    check_core(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char settings[SETTINGS_MAX][SETTING_BYTES_MAX], *environment[SETTINGS_MAX + 1] = {NULL};
    const char *flags[SETTINGS_MAX];
    size_t environment_count = 0, flag_count = 0;
    const uint8_t *end = data + size, *file_end = size == 0 ? end : memchr(data, 1, size);
    file_end = file_end == NULL ? end : file_end;
    const uint8_t *at = file_end;
    for (size_t i = 0; at < end && i < SETTINGS_MAX; i++) {
        const uint8_t *begin = at + 1,
                      *next = begin < end ? memchr(begin, 1, (size_t)(end - begin)) : NULL;
        at = next == NULL ? end : next;
        snprintf(settings[i], sizeof(settings[i]), "%.*s", (int)(at - begin), (const char *)begin);
        if (strncmp(settings[i], "LOCKAGENT_", 10) == 0)
            environment[environment_count++] = settings[i];
        else
            flags[flag_count++] = settings[i];
    }
    const char *path = file_with(data, (size_t)(file_end - data));
    memset(&loaded, 0x5a, sizeof(loaded));
    if (config_load(path, environment, flags, flag_count, &loaded, &errors)) {
        FUZZ_CHECK(errors.count == 0, "%s", errors.list[0].text);
        check_loaded();
    } else {
        check_errors(path);
        FUZZ_CHECK(loaded.group_count == (size_t)0x5a5a5a5a5a5a5a5a,
                   "a refused configuration was written");
    }
    return 0;
}
