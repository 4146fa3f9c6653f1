/* Helpers of the tests of the configuration: files, and the messages of the last loading. */
#ifndef LOCKAGENT_TESTS_UNIT_CONFIG_RIG_H
#define LOCKAGENT_TESTS_UNIT_CONFIG_RIG_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/log.h"
#include "config/config.h"

/* Both are too large for the stack. */
static struct config config, other;
static struct config_errors errors;

static inline void enter(const char *folder)
{
    const char *source = getenv("LOCKAGENT_SOURCE");
    cr_assert_not_null(source, "LOCKAGENT_SOURCE must name the top of the source tree");
    cr_assert_eq(chdir(source), 0);
    cr_assert_eq(chdir(folder), 0, "%s: %s", folder, strerror(errno));
}

static inline void write_file(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file, "%s: %s", path, strerror(errno));
    cr_assert_eq(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

/* Makes a file of its own below /tmp. The caller removes it. */
static inline const char *temporary(const char *bytes, size_t len)
{
    static char path[64];
    strcpy(path, "/tmp/lockagent-config-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    write_file(path, bytes, len);
    return path;
}

static inline bool load_text(const char *text, struct config *ret)
{
    const char *path = temporary(text, strlen(text));
    bool ok = config_load(path, NULL, NULL, 0, ret, &errors);
    unlink(path);
    return ok;
}

/* Loads a file that is called f.yaml as a reload does. */
static inline bool load_next(const struct config *running, const char *text, struct config *ret)
{
    char folder[] = "/tmp/lockagent-config-XXXXXX";
    int here = open(".", O_RDONLY | O_DIRECTORY);
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
    write_file("f.yaml", text, strlen(text));
    bool ok = config_load_next(running, "f.yaml", NULL, NULL, 0, ret, &errors);
    unlink("f.yaml");
    cr_assert_eq(fchdir(here), 0);
    close(here);
    rmdir(folder);
    return ok;
}

/* Returns all messages, one per line. The caller frees them. */
static inline char *messages(void)
{
    char *text = NULL;
    size_t len = 0, kept = sizeof(errors.list) / sizeof(errors.list[0]);
    FILE *out = open_memstream(&text, &len);
    for (size_t i = 0; i < errors.count && i < kept; i++)
        fprintf(out, "%s\n", errors.list[i].text);
    if (errors.count > kept)
        fprintf(out, "and %zu more\n", errors.count - kept);
    fclose(out);
    return text;
}

static inline void expect_messages(const char *expected)
{
    char *text = messages();
    cr_expect_str_eq(text, expected, "got:\n%sexpected:\n%s", text, expected);
    free(text);
}

static inline void expect_ok(bool ok)
{
    char *text = messages();
    cr_assert(ok, "%s", text);
    free(text);
}

#endif
