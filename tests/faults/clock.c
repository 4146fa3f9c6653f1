/* A wall clock that can be set, for a redis-server alone: preloaded into it, this adds the number of milliseconds that the file named by
 * FAULT_CLOCK begins with (an int64_t) to whatever time the process is told. The file is mapped, so a change holds at once. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_ms;

__attribute__((constructor)) static void open_offset(void)
{
    const char *path = getenv("FAULT_CLOCK");
    const int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file >= 0 ? mmap(NULL, sizeof(*offset_ms), PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (mapped == MAP_FAILED)
        abort();
    offset_ms = mapped;
    close(file);
}

static int shifted(clockid_t clock, struct timespec *now)
{
    const int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) || offset_ms == NULL)
        return failed;
    const int64_t ms = *offset_ms;
    now->tv_sec += ms / 1000;
    now->tv_nsec += ms % 1000 * 1000000;
    if (now->tv_nsec < 0)
        now->tv_sec--, now->tv_nsec += 1000000000;
    else if (now->tv_nsec >= 1000000000)
        now->tv_sec++, now->tv_nsec -= 1000000000;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    return shifted(clock, now);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec real;
    (void)zone;
    shifted(CLOCK_REALTIME, &real);
    *now = (struct timeval){.tv_sec = real.tv_sec, .tv_usec = real.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret_now)
{
    struct timespec real;
    shifted(CLOCK_REALTIME, &real);
    if (ret_now != NULL)
        *ret_now = real.tv_sec;
    return real.tv_sec;
}
