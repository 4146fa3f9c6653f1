/* The journal's file: the next process of the same boot finds all that was written, and nothing
 * more. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/random.h"
#include "agent/journal.h"

enum { CELL = 1024, SECOND = 1000000 };

static const struct instant now = {100 * SECOND};
static uint64_t place = 7; /* the place of every key */

static struct stage {
    char folder[64], path[96], error[256];
    struct journal *journal;
    struct journal_found found;
    struct noted_hold holds[8];
    char keys[8][LIMIT_KEY_BYTES + 1];
    size_t count;
    bool note_again; /* like the agent does: in slots from 0 on */
} stage;

static uint64_t place_of(void *arg, struct text key)
{
    (void)arg, (void)key;
    return place;
}

static struct journal *try_open_as(const char *boot_id)
{
    struct journal_source source = {.path = stage.path, .place = place_of};
    snprintf(source.boot_id, sizeof(source.boot_id), "%s", boot_id);
    stage.journal = journal_open(&source, stage.error, sizeof(stage.error));
    return stage.journal;
}

static const char this_boot[] = "01234567-89ab-cdef-0123-456789abcdef",
                  other_boot[] = "11234567-89ab-cdef-0123-456789abcdef";

static struct journal *open_it(void)
{
    cr_assert(try_open_as(this_boot), "%s", stage.error);
    return stage.journal;
}

static void set_up(void)
{
    snprintf(stage.folder, sizeof(stage.folder), "/tmp/lockagent-journal-XXXXXX");
    cr_assert_not_null(mkdtemp(stage.folder));
    snprintf(stage.path, sizeof(stage.path), "%s/journal", stage.folder);
}

static void tear_down(void)
{
    journal_close(stage.journal);
    unlink(stage.path);
    rmdir(stage.folder);
}
TestSuite(journal, .init = set_up, .fini = tear_down, .timeout = 30);

static struct effect_hold hold_of(uint32_t slot, const char *key)
{
    struct effect_hold effect = {
        .slot = slot,
        .hold = {.key = {key, strlen(key)},
                 .token = {.fence = 1700000000000000 + slot},
                 .acquired_at = {90 * SECOND},
                 .valid_until = {120 * SECOND},
                 .max_hold_until = {700 * SECOND},
                 .lease_until = {121 * SECOND},
                 .terms = {.ttl_ms = 30000, .renew = RENEW_AGENT, .count = 2},
                 .metadata = {.owner = {20, "an owner, 16 or more"},
                              .idempotency = {21, "a request, 16 or more"},
                              .asked = 4711,
                              .label_len = 2,
                              .label = "me"}},
    };
    memset(effect.hold.token.random, (int)slot + 1, RANDOM_BYTES);
    return effect;
}

static void note(uint32_t slot, const char *key)
{
    struct effect_hold effect = hold_of(slot, key);
    cr_assert(journal_note(stage.journal, &effect));
}

static void take(void *arg, const struct noted_hold *hold)
{
    (void)arg;
    cr_assert_lt(stage.count, 8);
    snprintf(stage.keys[stage.count], sizeof(stage.keys[0]), "%.*s", (int)hold->key.len,
             hold->key.at);
    stage.holds[stage.count] = *hold;
    if (stage.note_again)
        note((uint32_t)stage.count, stage.keys[stage.count]);
    stage.count++;
}

static void read_again(void)
{
    stage.count = 0;
    journal_read(stage.journal, now, take, NULL, &stage.found);
}

/* Closes the file, as a kill does, and begins anew. */
static void restart(void)
{
    journal_close(stage.journal);
    open_it();
    read_again();
}

static void overwrite(off_t at, const char *bytes, size_t len)
{
    int fd = open(stage.path, O_WRONLY);
    cr_assert_eq(pwrite(fd, bytes, len, at), (ssize_t)len);
    close(fd);
}

static off_t size_of_file(void)
{
    struct stat status;
    cr_assert_eq(stat(stage.path, &status), 0);
    return status.st_size;
}

Test(journal, what_was_noted_is_found_again)
{
    open_it();
    read_again();
    cr_assert(stage.count == 0 && stage.found.discarded == NULL && stage.found.refused == 0);
    note(0, "a"), note(3, "b/c"), note(5, "d");
    struct effect_hold gone = {.slot = 3, .forgotten = true}, ended = hold_of(5, "d");
    cr_assert(journal_note(stage.journal, &gone));
    ended.hold.ended = ended.hold.released = ended.hold.adopted = true;
    ended.hold.delivered = true;
    cr_assert(journal_note(stage.journal, &ended));
    restart();
    cr_assert_eq(stage.count, 2);
    const struct noted_hold *a = &stage.holds[0], *d = &stage.holds[1];
    cr_assert_str_eq(stage.keys[0], "a");
    cr_assert(a->token.fence == 1700000000000000 && a->token.random[0] == 1 &&
              a->token.random[19] == 1);
    cr_assert(a->terms.renew == RENEW_AGENT && a->terms.ttl_ms == 30000 && !a->ended &&
              !a->adopted && a->metadata.label_len == 2);
    cr_assert(a->acquired_at.us == 90 * SECOND && a->valid_until.us == 120 * SECOND &&
              a->max_hold_until.us == 700 * (int64_t)SECOND && a->lease_until.us == 121 * SECOND);
    cr_assert(a->terms.count == 2 && a->metadata.asked == 4711);
    cr_assert(a->metadata.owner.len == 20 && a->metadata.idempotency.len == 21);
    cr_assert_str_eq(a->metadata.owner.bytes, "an owner, 16 or more");
    cr_assert_str_eq(a->metadata.idempotency.bytes, "a request, 16 or more");
    cr_assert_str_eq(stage.keys[1], "d");
    cr_assert(d->ended && d->released && d->adopted && !a->released);
    cr_assert(d->delivered && !a->delivered);
    restart();
    cr_assert_eq(stage.count, 0, "what was not noted again is still there");
}

/* A kill between the two writes leaves the first. The hold is there, and it is unknown whether a
 * caller has its token. */
Test(journal, the_mark_that_the_answer_was_written_comes_second)
{
    open_it(), read_again();
    note(0, "a"), note(1, "b");
    struct effect_hold marked = hold_of(1, "b");
    marked.hold.delivered = true;
    cr_assert(journal_note(stage.journal, &marked));
    cr_assert_eq(size_of_file(), 3 * CELL, "it is the same cell");
    restart();
    cr_assert_eq(stage.count, 2);
    cr_assert(!stage.holds[0].delivered && stage.holds[1].delivered);
}

Test(journal, a_restart_moves_holds_to_the_front_and_loses_none)
{
    open_it(), read_again();
    note(0, "a"), note(2, "b"), note(3, "c");
    stage.note_again = true;
    for (int i = 0; i < 3; i++) {
        restart();
        cr_assert_eq(stage.count, 3);
        cr_assert(strcmp(stage.keys[0], "a") == 0 && strcmp(stage.keys[1], "b") == 0 &&
                  strcmp(stage.keys[2], "c") == 0);
    }
}

Test(journal, only_its_owner_can_read_it)
{
    struct stat status;
    umask(0);
    open_it();
    cr_assert_eq(stat(stage.path, &status), 0);
    cr_assert_eq(status.st_mode & 07777, 0600);
    journal_close(stage.journal);
    cr_assert_eq(chmod(stage.path, 0640), 0);
    cr_assert_null(try_open_as(this_boot));
    cr_assert_not_null(strstr(stage.error, "can be read or written by others"), "%s", stage.error);
    cr_assert_eq(chmod(stage.path, 0600), 0);
    if (geteuid() == 0) {
        cr_assert_eq(chown(stage.path, 65534, 65534), 0);
        cr_assert_null(try_open_as(this_boot));
        cr_assert_not_null(strstr(stage.error, "belongs to another user"), "%s", stage.error);
    }
}

Test(journal, no_link_leads_it_elsewhere)
{
    char other[128];
    snprintf(other, sizeof(other), "%s/other", stage.folder);
    open_it(), journal_close(stage.journal), stage.journal = NULL;
    cr_assert_eq(rename(stage.path, other), 0);
    cr_assert_eq(symlink(other, stage.path), 0);
    cr_assert_null(try_open_as(this_boot));
    cr_assert_eq(unlink(stage.path), 0);
    cr_assert_eq(link(other, stage.path), 0);
    cr_assert_null(try_open_as(this_boot));
    cr_assert_not_null(strstr(stage.error, "second name"), "%s", stage.error);
    unlink(other), unlink(stage.path);
    cr_assert_eq(mkdir(stage.path, 0700), 0);
    cr_assert_null(try_open_as(this_boot));
    rmdir(stage.path);
    cr_assert_eq(mkfifo(stage.path, 0600), 0);
    cr_assert_null(try_open_as(this_boot));
    cr_assert_not_null(strstr(stage.error, "not a regular file"), "%s", stage.error);
}

Test(journal, one_process_at_a_time)
{
    open_it();
    pid_t child = fork();
    if (child == 0) {
        char wanted[32];
        snprintf(wanted, sizeof(wanted), "in use by another process, %d", (int)getppid());
        _exit(try_open_as(this_boot) == NULL && strstr(stage.error, wanted) != NULL ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
}

Test(journal, one_of_another_boot_is_not_used)
{
    open_it(), read_again(), note(0, "a"), journal_close(stage.journal);
    cr_assert(try_open_as(other_boot));
    read_again();
    cr_assert_eq(stage.count, 0);
    cr_assert_str_eq(stage.found.discarded, "it was written in another boot");
    cr_assert_eq(size_of_file(), CELL, "old tokens are still in the file");
}

Test(journal, a_torn_cell_is_refused_and_the_others_are_not)
{
    open_it(), read_again();
    note(0, "a"), note(1, "b"), note(2, "c");
    for (off_t at = 0; at < 800; at += 7) {
        journal_close(stage.journal);
        overwrite(2 * CELL + at, "\xa5", 1);
        open_it();
        stage.note_again = false;
        read_again();
        cr_assert_eq(stage.found.refused, 1, "byte %lld", (long long)at);
        cr_assert_eq(stage.count, 2);
        cr_assert_str_eq(stage.keys[1], "c");
        note(0, "a"), note(1, "b"), note(2, "c");
    }
}

Test(journal, a_cell_is_of_its_place)
{
    char cell[CELL];
    open_it(), read_again(), note(0, "a");
    int fd = open(stage.path, O_RDONLY);
    cr_assert_eq(pread(fd, cell, CELL, CELL), CELL);
    close(fd);
    overwrite(2 * CELL, cell, CELL);
    restart();
    cr_assert_eq(stage.count, 1);
    cr_assert_eq(stage.found.refused, 1);
}

Test(journal, a_file_that_was_cut_short)
{
    open_it(), read_again(), note(0, "a"), note(1, "b");
    journal_close(stage.journal);
    cr_assert_eq(truncate(stage.path, 3 * CELL - 100), 0);
    open_it(), read_again();
    cr_assert_eq(stage.count, 1);
    cr_assert_eq(stage.found.refused, 1, "the cell that was cut");
    journal_close(stage.journal);
    cr_assert_eq(truncate(stage.path, 40), 0);
    open_it(), read_again();
    cr_assert_eq(stage.count, 0);
    cr_assert_str_eq(stage.found.discarded, "its header is torn");
}

/* The first bytes may be torn in the middle, or the kernel may have kept only the size of the
 * file. */
Test(journal, a_torn_header_is_no_foreign_file)
{
    static const char zeros[CELL];
    for (int i = 0; i < 4; i++) {
        open_it(), read_again(), note(0, "a");
        journal_close(stage.journal);
        if (i == 0)
            cr_assert_eq(truncate(stage.path, 5), 0);
        else
            overwrite(0, zeros, i == 1 ? 3 : i == 2 ? 16 : CELL);
        open_it(), read_again();
        cr_assert_eq(stage.count, 0);
        cr_assert_str_eq(stage.found.discarded, "its header is torn");
        journal_close(stage.journal);
    }
    open_it();
}

/* The file has the bytes of its first write that came, and zeros or nothing after them. */
Test(journal, a_header_of_which_a_part_was_written_is_no_foreign_file)
{
    static const struct {
        size_t written;
        off_t size;
    } torn[] = {{0, 1},   {0, 100},       {5, 6},         {5, 100},       {9, CELL},
                {15, 15}, {15, 3 * CELL}, {16, CELL - 1}, {24, 3 * CELL}, {0, 3 * CELL}};
    char header[CELL];
    open_it(), read_again();
    journal_close(stage.journal);
    int fd = open(stage.path, O_RDONLY);
    cr_assert_eq(read(fd, header, CELL), CELL);
    close(fd);
    for (size_t i = 0; i < sizeof(torn) / sizeof(torn[0]); i++) {
        cr_assert_eq(truncate(stage.path, 0), 0);
        overwrite(0, header, torn[i].written);
        cr_assert_eq(truncate(stage.path, torn[i].size), 0);
        cr_expect_not_null(try_open_as(this_boot), "%zu: %s", i, stage.error);
        if (stage.journal == NULL)
            continue;
        read_again();
        cr_expect_str_eq(stage.found.discarded, "its header is torn", "%zu", i);
        journal_close(stage.journal);
    }
    open_it();
}

Test(journal, another_version)
{
    enum { FORMAT_AT = 16, CHECKSUM_AT = 64 };
    uint64_t header[CELL / 8];
    open_it(), read_again(), note(0, "a");
    journal_close(stage.journal);
    int fd = open(stage.path, O_RDONLY);
    cr_assert_eq(read(fd, header, CELL), CELL);
    close(fd);
    uint32_t format = 3;
    memcpy((char *)header + FORMAT_AT, &format, sizeof(format));
    header[CHECKSUM_AT / 8] = hash_bytes(format, CELL, (char *)header, CHECKSUM_AT);
    overwrite(0, (char *)header, CELL);
    open_it(), read_again();
    cr_assert_eq(stage.count, 0);
    cr_assert_str_eq(stage.found.discarded, "it was written by another version");
}

static long long bytes_read(void)
{
    char line[64];
    long long bytes = -1;
    FILE *file = fopen("/proc/self/io", "r");
    cr_assert_not_null(file);
    cr_assert_not_null(fgets(line, sizeof(line), file));
    cr_assert_eq(sscanf(line, "rchar: %lld", &bytes), 1);
    fclose(file);
    return bytes;
}

/* False on a file system that takes a hole for data, as fuse-overlayfs of Docker does. */
static bool file_system_names_holes(void)
{
    const int fd = open(stage.path, O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    const bool names_them = lseek(fd, (off_t)1 << 30, SEEK_DATA) != (off_t)1 << 30;
    close(fd);
    return names_them;
}

/* It has no more cells than the largest table has slots. */
Test(journal, a_sparse_file_is_not_read_to_its_end)
{
    const long long before = bytes_read();
    open_it(), read_again(), note(0, "a");
    journal_close(stage.journal);
    cr_assert_eq(truncate(stage.path, (off_t)200 << 30), 0);
    open_it(), read_again();
    cr_assert_eq(stage.count, 1);
    const long long most = file_system_names_holes() ? 64 : LIMIT_LOCK_SLOTS + 64;
    cr_assert_lt(bytes_read() - before, most * CELL, "the hole is not read");
}

/* The kernel names the page that has data. The cell of slot 5003 is the first one of its page. */
Test(journal, what_stands_behind_a_hole_is_found)
{
    static const uint32_t slots[] = {3, 4, 5, 2000, 5003, 100001, LIMIT_LOCK_SLOTS - 1};
    open_it(), read_again();
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
        note(slots[i], "a");
    restart();
    cr_assert_eq(stage.count, sizeof(slots) / sizeof(slots[0]));
    cr_assert_eq(stage.found.refused, 0);
}

Test(journal, a_foreign_file_is_left_alone)
{
    static const char text[] = "what somebody else wrote\n";
    int fd = open(stage.path, O_WRONLY | O_CREAT, 0600);
    cr_assert_eq(write(fd, text, sizeof(text)), (ssize_t)sizeof(text));
    close(fd);
    cr_assert_null(try_open_as(this_boot));
    cr_assert_not_null(strstr(stage.error, "is not a journal of lockagent"), "%s", stage.error);
    cr_assert_eq(size_of_file(), (off_t)sizeof(text));
    /* A file that only begins like an unwritten journal is refused as well. */
    cr_assert_eq(truncate(stage.path, 0), 0);
    overwrite(0, "lock\0\0\0\0\0\0\0\0\0\0\0\0and more", 24);
    cr_assert_null(try_open_as(this_boot));
    cr_assert_eq(size_of_file(), 24);
}

Test(journal, holds_of_other_masters_or_policies_are_refused)
{
    open_it(), read_again(), note(0, "a");
    place = 8;
    restart();
    cr_assert_eq(stage.count, 0);
    cr_assert_eq(stage.found.refused, 1);
}

Test(journal, what_can_not_be_true_is_refused)
{
    open_it(), read_again();
    for (int lie = 0; lie < 10; lie++) {
        struct effect_hold effect = hold_of(0, "a");
        effect.hold.terms.ttl_ms = lie == 0 ? 1 : lie == 1 ? TTL_MS_MAX + 1 : 30000;
        if (lie == 2)
            effect.hold.acquired_at.us = now.us + 1;
        if (lie == 3)
            effect.hold.valid_until.us = effect.hold.lease_until.us + 1;
        if (lie == 4)
            effect.hold.lease_until.us = now.us + ((int64_t)TTL_MS_MAX + 1) * 1000;
        if (lie == 5)
            effect.hold.max_hold_until.us = effect.hold.valid_until.us - 1;
        if (lie == 6)
            effect.hold.terms.renew = RENEW_UNSET;
        if (lie == 7)
            effect.hold.token.has_slot = true, effect.hold.token.slot = LIMIT_PERMITS;
        if (lie == 8)
            effect.hold.terms.count = 0;
        if (lie == 9)
            effect.hold.terms.mode = (enum mode)2;
        cr_assert(journal_note(stage.journal, &effect));
        restart();
        cr_assert_eq(stage.count, 0, "lie %d", lie);
        cr_assert_eq(stage.found.refused, 1, "lie %d", lie);
    }
}

Test(journal, the_longest_key_and_label)
{
    char key[LIMIT_KEY_BYTES + 1], label[LIMIT_LABEL_BYTES];
    memset(key, 'k', LIMIT_KEY_BYTES), key[LIMIT_KEY_BYTES] = '\0';
    memset(label, 'l', sizeof(label));
    open_it(), read_again();
    struct effect_hold effect = hold_of(0, key);
    metadata_set_label(&effect.hold.metadata, (struct text){label, sizeof(label)});
    cr_assert(journal_note(stage.journal, &effect));
    restart();
    cr_assert_eq(stage.count, 1);
    cr_assert_str_eq(stage.keys[0], key);
}

/* The limit on the size of files replaces a full volume. */
Test(journal, a_full_volume_is_told)
{
    open_it(), read_again(), note(0, "a");
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {.rlim_cur = 2 * CELL + 100, .rlim_max = 2 * CELL + 100};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct effect_hold first = hold_of(0, "a"), second = hold_of(1, "b");
    errno = ENOTTY; /* The write is short first, then there is no room at all. */
    cr_assert_not(journal_note(stage.journal, &second));
    cr_assert_eq(errno, ENOSPC, "%s", strerror(errno));
    cr_assert(journal_note(stage.journal, &first));
    restart();
    cr_assert_eq(stage.count, 1);
    cr_assert_str_eq(stage.keys[0], "a");
}
