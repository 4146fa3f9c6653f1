/* Loads shared libraries (library.h). */
#include "agent/base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Writes the loader's reason, which names the file and the function. */
static void write_reason(char *why, size_t size)
{
    bool memory_ran_out = errno == ENOMEM;
    const char *reason = dlerror();
    snprintf(why, size, "%s", memory_ran_out || reason == NULL ? "out of memory" : reason);
}

bool library_load(const char *file, const struct library_function *functions, size_t count,
                  char *why, size_t size)
{
    errno = 0;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        write_reason(why, size);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(library, functions[i].name);
        if (address == NULL) {
            write_reason(why, size);
            dlclose(library);
            return false;
        }
        memcpy(functions[i].pointer, &address, sizeof(address));
    }
    return true;
}
