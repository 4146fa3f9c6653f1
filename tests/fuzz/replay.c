/* Replays a corpus without libFuzzer, for every compiler: each file in a process of its own, so
 * that one that crashes or hangs is one that failed. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { SECONDS_MAX = 60, INPUT_BYTES_MAX = 1 << 20 };

/* Runs a file. Its bytes are in a block of their own size, so that a sanitizer sees a step beyond
 * them. */
static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *room = malloc(INPUT_BYTES_MAX);
    FUZZ_CHECK(file != NULL && room != NULL, "%s", path);
    size_t size = fread(room, 1, INPUT_BYTES_MAX, file);
    uint8_t *data = malloc(size == 0 ? 1 : size);
    FUZZ_CHECK(data != NULL, "%s", path);
    memcpy(data, room, size);
    free(room);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static bool replay(const char *path)
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_MAX);
        run_file(path);
        exit(0); /* not _exit(): the leak check is one of the checks */
    }
    bool fine = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    if (!fine)
        printf("FAILED %s: status %d\n", path, status);
    return fine;
}

int main(int argc, char **argv)
{
    unsigned passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **names = NULL;
        int count = scandir(argv[i], &names, NULL, alphasort);
        for (int n = 0; n < count; n++) {
            char path[4096];
            snprintf(path, sizeof(path), "%s/%s", argv[i], names[n]->d_name);
            if (names[n]->d_name[0] != '.')
                *(replay(path) ? &passed : &failed) += 1;
            free(names[n]);
        }
        free(names);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return passed > 0 && failed == 0 ? 0 : 1;
}
