/* A wall clock that can be set, for a redis-server alone. Preloaded into it, this adds a number of
 * milliseconds to each time that the process is told. The file named by FAULT_CLOCK begins with
 * that number (an int64_t). With STILL_CLOCK instead the file has the microseconds that it is told,
 * and the clock is stopped until they are changed. The file is mapped, so a change holds at once.
 * Other clocks go on. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_ms, *still_us;

static const volatile int64_t *map_file(const char *path)
{
    const int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const void *mapped =
        file >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (mapped == MAP_FAILED)
        abort();
    close(file);
    return mapped;
}

__attribute__((constructor)) static void open_clock(void)
{
    const char *still = getenv("STILL_CLOCK");
    if (still != NULL)
        still_us = map_file(still);
    else
        offset_ms = map_file(getenv("FAULT_CLOCK"));
}

static void set_wall_clock(struct timespec *now, int64_t us)
{
    *now = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    if (still_us != NULL)
        set_wall_clock(now, *still_us);
    else if (offset_ms != NULL)
        set_wall_clock(now,
                       (int64_t)now->tv_sec * 1000000 + now->tv_nsec / 1000 + *offset_ms * 1000);
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec told;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &told);
    *now = (struct timeval){.tv_sec = told.tv_sec, .tv_usec = told.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret_now)
{
    struct timespec told;
    clock_gettime(CLOCK_REALTIME, &told);
    if (ret_now != NULL)
        *ret_now = told.tv_sec;
    return told.tv_sec;
}
