/* Fuzzes the journal: any file at all is opened, read, written and read again. A file that was made
 * up yields no hold; a real one with bytes changed yields none that was not written. */
#include "agent/journal.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { HOLDS = 3, CELL = 1024, FILE_MAX = 16 * CELL };

static const char boot_id[] = "01234567-89ab-cdef-0123-456789abcdef";
static const struct instant now = {100000000};
static const char *const keys[HOLDS] = {"a", "b/c", "key"};
static char path[64];
static unsigned found;

static uint64_t place_of(void *arg, struct text key)
{
    (void)arg;
    return key.len;
}

static struct effect_hold hold_of(unsigned i)
{
    struct effect_hold effect = {
        .slot = i,
        .hold = {.key = {keys[i], strlen(keys[i])},
                 .token = {.random = {(uint8_t)i}, .fence = i},
                 .terms = {.renew = RENEW_AGENT, .ttl_ms = 30000, .count = 1},
                 .valid_until = {120000000},
                 .max_hold_until = {700000000},
                 .lease_until = {121000000},
                 .delivered = i % 2 == 1},
    };
    return effect;
}

static void take(void *arg, const struct noted_hold *hold)
{
    (void)arg;
    bool real = false;
    for (unsigned i = 0; i < HOLDS; i++) {
        struct noted_hold was = hold_of(i).hold;
        real = real ||
               (hold->token.random[0] == i && hold->key.len == strlen(keys[i]) &&
                memcmp(hold->key.at, keys[i], hold->key.len) == 0 && hold->token.fence == i &&
                hold->valid_until.us == was.valid_until.us &&
                hold->lease_until.us == was.lease_until.us && hold->delivered == was.delivered);
    }
    FUZZ_CHECK(real, "a hold that nobody wrote");
    found++;
}

static struct journal *open_it(void)
{
    struct journal_source source = {.path = path, .place = place_of};
    char error[256];
    memcpy(source.boot_id, boot_id, sizeof(boot_id));
    return journal_open(&source, error, sizeof(error));
}

static void read_all(struct journal *journal)
{
    struct journal_found what;
    found = 0;
    journal_read(journal, now, take, NULL, &what);
}

static void put(const void *bytes, size_t size, off_t at)
{
    FILE *file = fopen(path, at == 0 ? "wb" : "r+b");
    FUZZ_CHECK(file != NULL, "%s", path);
    FUZZ_CHECK(fseek(file, at, SEEK_SET) == 0 && fwrite(bytes, 1, size, file) == size, "%s", path);
    fclose(file);
    chmod(path, 0600);
}

/* The whole file is made up. */
static void made_up(const uint8_t *data, size_t size)
{
    put(data, size, 0);
    struct journal *journal = open_it();
    if (journal != NULL) {
        read_all(journal);
        struct effect_hold effect = hold_of(1);
        FUZZ_CHECK(journal_note(journal, &effect), "it was opened, and can not be written");
        journal_close(journal);
        journal = open_it();
        FUZZ_CHECK(journal != NULL, "what it wrote itself it does not read");
        read_all(journal);
        FUZZ_CHECK(found >= 1, "what it wrote itself is not there");
    }
    journal_close(journal);
}

/* A real one, over which the input is laid somewhere behind the header. */
static void damaged(const uint8_t *data, size_t size)
{
    unlink(path);
    struct journal *journal = open_it();
    FUZZ_CHECK(journal != NULL, "a fresh file");
    read_all(journal);
    for (unsigned i = 0; i < HOLDS; i++) {
        struct effect_hold effect = hold_of(i);
        FUZZ_CHECK(journal_note(journal, &effect), "slot %u", i);
    }
    journal_close(journal);
    off_t at = CELL + (size > 2 ? (data[0] << 8 | data[1]) % (HOLDS * CELL) : 0);
    if (size > 2)
        put(data + 2, size - 2, at);
    journal = open_it();
    FUZZ_CHECK(journal != NULL, "its header is whole");
    read_all(journal);
    FUZZ_CHECK(size > 2 || found == HOLDS, "%u holds", found);
    journal_close(journal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (path[0] == '\0')
        snprintf(path, sizeof(path), "/tmp/lockagent-fuzz-journal-%d", (int)getpid());
    if (size == 0 || size > FILE_MAX)
        return 0;
    unlink(path);
    if (data[0] & 1)
        damaged(data + 1, size - 1);
    else
        made_up(data + 1, size - 1);
    unlink(path);
    return 0;
}
