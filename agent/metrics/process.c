/* Reads /proc/self and its kin for the process_* metrics. */
#include "agent/metrics/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/file.h"

static int64_t cpu_us(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return PROCESS_UNKNOWN;
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static bool read_text(const char *path, char *text, size_t size)
{
    ssize_t len = file_read_path(path, text, size - 1);
    text[len < 0 ? 0 : len] = '\0';
    return len > 0;
}

/* Since Linux 6.2 the folder's size is the number of its entries. Before it they must be counted,
 * which takes a microsecond or two each. */
static int64_t open_files(void)
{
    struct stat status;
    if (stat("/proc/self/fd", &status) == 0 && status.st_size > 0)
        return status.st_size;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return PROCESS_UNKNOWN;
    int64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* The folder itself was open. */
}

static int64_t open_files_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return PROCESS_UNKNOWN;
    return limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur;
}

struct process_figures process_read(void)
{
    struct process_figures figures = {
        .cpu_us = cpu_us(),
        .resident_bytes = PROCESS_UNKNOWN,
        .virtual_bytes = PROCESS_UNKNOWN,
        .open_files = open_files(),
        .open_files_max = open_files_max(),
    };
    int64_t page = sysconf(_SC_PAGESIZE), all, resident;
    char text[256];
    if (read_text("/proc/self/statm", text, sizeof(text)) &&
        sscanf(text, "%" SCNd64 " %" SCNd64, &all, &resident) == 2) {
        figures.virtual_bytes = all * page;
        figures.resident_bytes = resident * page;
    }
    return figures;
}

static bool read_booted(int64_t *ret_seconds)
{
    char line[4096];
    bool found = false;
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof(line), file) != NULL)
        found = sscanf(line, "btime %" SCNd64, ret_seconds) == 1;
    fclose(file);
    return found;
}

int64_t process_started_wall_us(void)
{
    char line[1024];
    uint64_t ticks;
    int64_t booted;
    /* Field 22 of the line is the start, in ticks since boot. The second field is a name in
     * parentheses that may hold any character, so fields are counted after the last parenthesis. */
    const char *at = read_text("/proc/self/stat", line, sizeof(line)) ? strrchr(line, ')') : NULL;
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL || sscanf(at, " %" SCNu64, &ticks) != 1 || !read_booted(&booted))
        return PROCESS_UNKNOWN;
    return booted * 1000000 + (int64_t)(ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
}
