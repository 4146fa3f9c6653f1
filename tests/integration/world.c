/* The folder, the memory, the clocks and the child processes of a test. */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static struct {
    char folder[64];
    void **kept;
    size_t kept_count, kept_size;
    json_t **trees;
    size_t tree_count, tree_size;
    int caretaker_pipe;
    pid_t caretaker;
    unsigned files;
} world;

void *keep(void *memory)
{
    cr_assert_not_null(memory, "out of memory");
    if (world.kept_count == world.kept_size) {
        world.kept_size = world.kept_size * 2 + 64;
        world.kept = realloc(world.kept, world.kept_size * sizeof(*world.kept));
    }
    world.kept[world.kept_count++] = memory;
    return memory;
}

void keep_json(json_t *json)
{
    if (world.tree_count == world.tree_size) {
        world.tree_size = world.tree_size * 2 + 64;
        world.trees = realloc(world.trees, world.tree_size * sizeof(json_t *));
    }
    world.trees[world.tree_count++] = json;
}

char *format(const char *format, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, format);
    const int length = vasprintf(&text, format, list);
    va_end(list);
    cr_assert_geq(length, 0);
    return keep(text);
}

char *repeat(const char *unit, size_t count)
{
    const size_t length = strlen(unit);
    char *text = keep(calloc(length * count + 1, 1));
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * length, unit, length);
    return text;
}

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t boottime_ms(void)
{
    return clock_ms(CLOCK_BOOTTIME);
}

int64_t wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

void sleep_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

/* ---- files ----------------------------------------------------------------------------------- */

const char *world_path(const char *name)
{
    return format("%s/%s", world.folder, name);
}

const char *write_file(const char *name, const char *text)
{
    const char *path = world_path(name ? name : format("file%u", world.files++));
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s: %s", path, strerror(errno));
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
    return path;
}

char *read_whole_file(const char *path)
{
    char *text = NULL;
    size_t size = 0, length = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return format("%s", "");
    for (;;) {
        if (length + 1 >= size) {
            size = size * 2 + 4096;
            text = realloc(text, size);
            cr_assert_not_null(text);
        }
        const size_t got = fread(text + length, 1, size - length - 1, file);
        if (!got)
            break;
        length += got;
    }
    fclose(file);
    text[length] = '\0';
    return keep(text);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where;
    return remove(path);
}

void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_folder(void)
{
    /* A server that is just dying may still write: try again. */
    for (int round = 0;
         round < 20 && nftw(world.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT;
         round++)
        sleep_ms(50);
}

/* Waits for the end of the test process, however it comes, and removes the folder. */
static _Noreturn void take_care(int pipe_end)
{
    char byte;
    setsid();
    for (int fd = 0; fd < 256; fd++)
        if (fd != pipe_end)
            close(fd);
    while (read(pipe_end, &byte, 1) < 0 && errno == EINTR)
        continue;
    if (!getenv("LOCKAGENT_KEEP"))
        remove_folder();
    _exit(0);
}

static void start_caretaker(void)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    world.caretaker = fork();
    cr_assert_geq(world.caretaker, 0);
    if (!world.caretaker) {
        close(ends[1]);
        take_care(ends[0]);
    }
    close(ends[0]);
    world.caretaker_pipe = ends[1];
}

/* ---- processes ------------------------------------------------------------------------------- */

/* A clean environment: variables that configure the build must not configure the agent. */
static void leave_out_our_variables(void)
{
    for (size_t i = 0; environ[i];) {
        if (strncmp(environ[i], "LOCKAGENT_", 10)) {
            i++;
            continue;
        }
        char name[128];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(environ[i], "="), environ[i]);
        if (unsetenv(name))
            return;
    }
}

static void redirect(int fd, const char *path, int flags)
{
    const int file = open(path, flags, 0600);
    if (file < 0 || dup2(file, fd) < 0)
        _exit(126);
    close(file);
}

pid_t spawn(const char *const *arguments, const char *stdin_path, const char *out, const char *err)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    leave_out_our_variables();
    redirect(0, stdin_path ? stdin_path : "/dev/null", O_RDONLY);
    redirect(1, out, O_WRONLY | O_CREAT | O_APPEND);
    redirect(2, err, O_WRONLY | O_CREAT | O_APPEND);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

bool reap(pid_t pid, int64_t ms, int *ret_status)
{
    int status = 0;
    if (!eventually_within(ms, waitpid(pid, &status, WNOHANG) == pid))
        return false;
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return true;
}

bool is_privileged(void)
{
    static const uint64_t wanted = 1ull << CAP_SYS_ADMIN | 1ull << CAP_SYS_PTRACE;
    const char *effective = strstr(read_whole_file("/proc/self/status"), "\nCapEff:");
    cr_assert_not_null(effective);
    return (strtoull(effective + strlen("\nCapEff:"), NULL, 16) & wanted) == wanted;
}

void end_process(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

void world_open(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(world.folder, sizeof(world.folder), "%s/lockagent-XXXXXX",
             base && strlen(base) < 40 ? base : "/tmp");
    cr_assert_not_null(mkdtemp(world.folder), "%s: %s", world.folder, strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    start_caretaker();
}

void world_close(void)
{
    http_close();
    const bool clean = agents_close();
    masters_close();
    for (size_t i = 0; i < world.tree_count; i++)
        json_decref(world.trees[i]);
    for (size_t i = 0; i < world.kept_count; i++)
        free(world.kept[i]);
    free(world.trees);
    free(world.kept);
    if (getenv("LOCKAGENT_KEEP"))
        fprintf(stderr, "kept: %s\n", world.folder);
    close(world.caretaker_pipe);
    waitpid(world.caretaker, NULL, 0);
    if (!clean)
        abort(); /* Criterion does not count assertions in here, but it counts a crash */
}
