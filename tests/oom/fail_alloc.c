/* Goes into an agent (LD_PRELOAD) and fails allocations by number, as the page of memory in the
 * file FAIL_ALLOC_PAGE says, which tests/oom/walk.py writes. Every allocation of the process
 * counts, by any library. Tells on the same page where the first one failed, and where the process
 * was when a signal ended it. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FRAMES = 40, STORY_BYTES = 3000 };

/* The layout is walk.py's too. */
struct page {
    _Atomic uint32_t armed;
    uint32_t first, length; /* fails the allocations [first, first + length), counted from 1 */
    _Atomic uint32_t count, failed;
    uint32_t signal; /* that has ended the process; 0: none */
    /* Frames, the innermost first: FILE+OFFSET SYMBOL, one a line. */
    char failed_at[STORY_BYTES], ended_at[STORY_BYTES];
};

static struct page *page;
static __thread bool inside __attribute__((tls_model("initial-exec")));

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl*): as glibc calls its own
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
// NOLINTEND(bugprone-reserved-identifier,cert-dcl*)

/* ---- reporting the place ---- */

// NOLINTBEGIN(bugprone-signal-handler,cert-sig30-c): after the signal the process ends anyway
static int tell_frame(char *into, size_t size, const char *frame)
{
    Dl_info about;
    if (dladdr(frame, &about) == 0 || about.dli_fname == NULL)
        return snprintf(into, size, "? ?\n");
    const char *slash = strrchr(about.dli_fname, '/');
    return snprintf(into, size, "%s+0x%tx %s\n", slash != NULL ? slash + 1 : about.dli_fname,
                    frame - (const char *)about.dli_fbase,
                    about.dli_sname != NULL ? about.dli_sname : "?");
}

static void tell_where(char *story)
{
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);
    size_t len = 0;
    for (int i = 2; i < count && len < STORY_BYTES - 1; i++) {
        int added = tell_frame(story + len, STORY_BYTES - len, frames[i]);
        len += added > 0 ? (size_t)added : 0;
    }
}
// NOLINTEND(bugprone-signal-handler,cert-sig30-c)

static void on_end(int signal_number)
{
    inside = true;
    if (page->signal == 0) {
        page->signal = (uint32_t)signal_number;
        tell_where(page->ended_at);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* ---- the allocations ---- */

static bool fails(void)
{
    if (page == NULL || inside || !atomic_load(&page->armed))
        return false;
    uint32_t number = atomic_fetch_add(&page->count, 1) + 1;
    if (number < page->first || number - page->first >= page->length)
        return false;
    inside = true;
    if (atomic_fetch_add(&page->failed, 1) == 0)
        tell_where(page->failed_at);
    inside = false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return size > 0 && fails() ? NULL : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

void *memalign(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
    int before = errno;
    void *memory = memalign(alignment, size);
    errno = before;
    if (memory == NULL)
        return ENOMEM;
    *ret = memory;
    return 0;
}

/* ---- the page ---- */

/* A program that the agent starts, such as the command of `lockagent run`, has memory. */
static bool is_agent(void)
{
    char path[1024];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (len <= 0)
        return false;
    path[len] = '\0';
    const char *slash = strrchr(path, '/');
    return slash != NULL && strcmp(slash + 1, "lockagent") == 0;
}

__attribute__((constructor)) static void open_page(void)
{
    static const int ends[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    const char *path = getenv("FAIL_ALLOC_PAGE");
    void *warm[1];
    if (path == NULL || !is_agent())
        return;
    backtrace(warm, 1); /* takes memory the first time */
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        signal(ends[i], on_end);
    page = at;
}
