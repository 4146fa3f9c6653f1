/* Goes into a redis-server (LD_PRELOAD), and gives it the same seed of its hash tables in each run:
 * it reads zeros in place of /dev/urandom. Otherwise other names share a bucket in each run. */
#undef _FILE_OFFSET_BITS /* Otherwise fopen() is a name of fopen64(). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_as(const char *function, const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *);
    void *found = dlsym(RTLD_NEXT, function);
    if (found == NULL)
        abort();
    memcpy(&real, &found, sizeof real);
    return real(strcmp(path, "/dev/urandom") == 0 ? "/dev/zero" : path, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return open_as("fopen", path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return open_as("fopen64", path, mode);
}
