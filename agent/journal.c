/* The file has a header of one cell, then a cell for each slot of the lock table. A cell is smaller
 * than a page and never crosses one. So a kill leaves it written or not. The checksum of a cell
 * finds all other damage. It is keyed by the boot and by the slot of the cell. */
#include "agent/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/file.h"
#include "agent/core/core_assert.h"
#include "agent/core/random.h"

enum { CELL = 1024, FORMAT = 4 };

static const char magic[16] = "lockagent.holds";

union header {
    struct {
        char magic[sizeof(magic)];
        uint32_t format, cell;
        char boot_id[BOOT_ID_BYTES];
        uint32_t agent;
        uint64_t checksum; /* Checksum of the bytes before it. */
    };
    char bytes[CELL];
};

enum { CELL_FREE, CELL_HELD, CELL_LOST, CELL_RELEASED };

union record {
    struct {
        uint64_t checksum; /* Checksum of the bytes after it. */
        uint64_t place;
        uint64_t fence, asked;
        int64_t acquired_us, valid_us, max_hold_us, lease_us;
        uint32_t ttl_ms;
        uint16_t key_len, count;
        uint8_t label_len, owner_len, idempotency_len, state, renew, adopted, delivered;
        uint8_t slot_from_1; /* The slot, counted from 1; 0: a mutex. */
        uint8_t random[RANDOM_BYTES];
        char key[LIMIT_KEY_BYTES];
        char label[LIMIT_LABEL_BYTES];
        char owner[LIMIT_SECRET_BYTES];
        char idempotency[LIMIT_SECRET_BYTES];
        uint8_t mode; /* 0 in records that were written before there were readers. */
    };
    char bytes[CELL];
};
static_assert(sizeof(union header) == CELL && sizeof(union record) == CELL, "a cell has one size");
static_assert(4096 % CELL == 0, "no cell crosses a page");

struct journal {
    struct journal_source source;
    int fd;
    uint64_t hash_key[2];
    uint32_t cells; /* Number of cells in the file when it was opened. */
    uint32_t noted; /* The slot that was noted last. */
    const char *discarded;
};

bool journal_boot_id(char boot_id[BOOT_ID_BYTES + 1], char *error, size_t size)
{
    if (file_read_path("/proc/sys/kernel/random/boot_id", boot_id, BOOT_ID_BYTES) !=
        BOOT_ID_BYTES) {
        snprintf(
            error, size,
            "journal: the kernel does not give its boot_id; a journal cannot be used without it");
        return false;
    }
    boot_id[BOOT_ID_BYTES] = '\0';
    return true;
}

/* ---- cells ---- */

/* Returns the header's checksum by the rules of the format that the header names. */
static uint64_t header_checksum(const union header *header)
{
    return hash_bytes(header->format, header->cell, header->bytes,
                      offsetof(union header, checksum));
}

static uint64_t record_checksum(const struct journal *journal, uint32_t slot,
                                const union record *record)
{
    return hash_bytes(journal->hash_key[0] ^ slot, journal->hash_key[1],
                      record->bytes + sizeof(record->checksum), CELL - sizeof(record->checksum));
}

static off_t offset_of(uint32_t slot)
{
    return (off_t)CELL * (slot + 1);
}

static bool write_cell(const struct journal *journal, off_t at, const char bytes[CELL])
{
    ssize_t written;
    do
        written = pwrite(journal->fd, bytes, CELL, at);
    while (written < 0 && errno == EINTR);
    if (written >= 0 && written < CELL)
        errno = ENOSPC; /* A short write sets none. */
    return written == CELL;
}

static bool free_cell(const struct journal *journal, uint32_t slot)
{
    static const char zeros[CELL];
    return write_cell(journal, offset_of(slot), zeros);
}

/* ---- opening ---- */

static bool lock_file(const struct journal *journal, char *error, size_t size)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(journal->fd, F_SETLK, &lock) == 0)
        return true;
    bool taken = errno == EACCES || errno == EAGAIN;
    const char *why = taken ? "is in use by another process" : strerror(errno);
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (taken && fcntl(journal->fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK &&
        lock.l_pid > 0)
        snprintf(error, size, "journal: %s %s, %d", journal->source.path, why, (int)lock.l_pid);
    else
        snprintf(error, size, "journal: %s %s", journal->source.path, why);
    return false;
}

/* Returns the fault of the file itself, or NULL if it has none. */
static const char *file_fault(const struct stat *stat)
{
    if (!S_ISREG(stat->st_mode))
        return "is not a regular file";
    if (stat->st_uid != geteuid())
        return "belongs to another user";
    if (stat->st_mode & 077)
        return "can be read or written by others; allowed: mode 0600, because it contains tokens";
    if (stat->st_nlink != 1)
        return "has a second name (hard link)";
    return NULL;
}

/* Empties the file and writes a new header. */
static bool begin_anew(struct journal *journal)
{
    union header header = {.bytes = {0}};
    memcpy(header.magic, magic, sizeof(magic));
    header.format = FORMAT;
    header.cell = CELL;
    memcpy(header.boot_id, journal->source.boot_id, BOOT_ID_BYTES);
    header.agent = journal->source.agent;
    header.checksum = header_checksum(&header);
    journal->cells = 0;
    return ftruncate(journal->fd, 0) == 0 && write_cell(journal, 0, header.bytes);
}

enum content { CONTENT_NONE, CONTENT_OURS, CONTENT_USELESS, CONTENT_FOREIGN };

/* Returns true if the header is a journal's, possibly damaged. Then either the magic is there, or
 * the file ends within the magic, or only zeros follow a part of the magic, or all but the magic is
 * right. */
static bool is_a_journals(const union header *header, size_t len)
{
    union header mended = *header;
    size_t said = 0;
    while (said < len && said < sizeof(magic) && header->magic[said] == magic[said])
        said++;
    size_t written = len;
    while (written > said && header->bytes[written - 1] == 0)
        written--;
    memcpy(mended.magic, magic, sizeof(magic));
    return said == sizeof(magic) || written == said ||
           (len == CELL && header->checksum == header_checksum(&mended));
}

static enum content content_of(struct journal *journal, off_t size)
{
    union header header = {.bytes = {0}};
    if (size == 0)
        return CONTENT_NONE;
    ssize_t got = pread(journal->fd, header.bytes, CELL, 0);
    if (got <= 0 || !is_a_journals(&header, (size_t)got))
        return CONTENT_FOREIGN;
    if (got != CELL || header.checksum != header_checksum(&header))
        journal->discarded = "its header is torn";
    else if (header.format != FORMAT || header.cell != CELL)
        journal->discarded = "it was written by another version";
    else if (memcmp(header.boot_id, journal->source.boot_id, BOOT_ID_BYTES) != 0)
        journal->discarded = "it was written in another boot";
    if (journal->discarded == NULL)
        journal->source.agent = header.agent;
    return journal->discarded == NULL ? CONTENT_OURS : CONTENT_USELESS;
}

static bool prepare(struct journal *journal, char *error, size_t size)
{
    const char *path = journal->source.path;
    struct stat stat;
    if (fstat(journal->fd, &stat) != 0) {
        snprintf(error, size, "journal: %s: %s", path, strerror(errno));
        return false;
    }
    const char *fault = file_fault(&stat);
    if (fault != NULL) {
        snprintf(error, size, "journal: %s %s", path, fault);
        return false;
    }
    if (!lock_file(journal, error, size))
        return false;
    off_t cells = (stat.st_size + CELL - 1) / CELL - 1; /* The last one may be cut. */
    switch (content_of(journal, stat.st_size)) {
    case CONTENT_OURS: /* Cells after the slots of the largest table do not count. */
        journal->cells = cells > LIMIT_LOCK_SLOTS ? LIMIT_LOCK_SLOTS : (uint32_t)cells;
        return true;
    case CONTENT_FOREIGN:
        snprintf(error, size,
                 "journal: %s is not a journal of lockagent; move it away or name another file",
                 path);
        return false;
    case CONTENT_NONE:
    case CONTENT_USELESS:
        break;
    }
    if (begin_anew(journal))
        return true;
    snprintf(error, size, "journal: %s: %s", path, strerror(errno));
    return false;
}

struct journal *journal_open(const struct journal_source *source, char *error, size_t size)
{
    struct journal *journal = calloc(1, sizeof(*journal));
    if (journal == NULL) {
        snprintf(error, size, "journal: out of memory");
        return NULL;
    }
    journal->source = *source;
    memcpy(journal->hash_key, source->boot_id, sizeof(journal->hash_key));
    journal->fd = open(source->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (journal->fd < 0) {
        snprintf(error, size, "journal: %s: %s", source->path, strerror(errno));
        free(journal);
        return NULL;
    }
    if (prepare(journal, error, size))
        return journal;
    journal_close(journal);
    return NULL;
}

uint32_t journal_agent(const struct journal *journal)
{
    return journal->source.agent;
}

void journal_close(struct journal *journal)
{
    if (journal == NULL)
        return;
    close(journal->fd);
    free(journal);
}

/* ---- reading ---- */

/* Returns false if a value is impossible: then the record is torn or was not written by an
 * agent. */
static bool makes_sense(const union record *record, struct instant now)
{
    int64_t most_us = now.us + (int64_t)TTL_MS_MAX * 1000;
    return record->state >= CELL_HELD && record->state <= CELL_RELEASED && record->key_len >= 1 &&
           record->key_len <= LIMIT_KEY_BYTES && record->label_len <= LIMIT_LABEL_BYTES &&
           record->adopted <= 1 && record->delivered <= 1 && record->slot_from_1 <= LIMIT_PERMITS &&
           record->owner_len <= LIMIT_SECRET_BYTES &&
           record->idempotency_len <= LIMIT_SECRET_BYTES && record->count >= 1 &&
           (record->renew == RENEW_AGENT || record->renew == RENEW_CALLER) &&
           (record->mode == MODE_WRITE || record->mode == MODE_READ) &&
           record->ttl_ms >= TTL_MS_MIN && record->ttl_ms <= TTL_MS_MAX &&
           record->acquired_us >= 0 && record->acquired_us <= now.us &&
           record->valid_us <= record->max_hold_us && record->valid_us <= record->lease_us &&
           record->lease_us <= most_us;
}

static bool is_ours(const struct journal *journal, uint32_t slot, const union record *record,
                    struct instant now)
{
    return record->checksum == record_checksum(journal, slot, record) && makes_sense(record, now) &&
           record->place == journal->source.place(journal->source.arg,
                                                  (struct text){record->key, record->key_len});
}

static struct noted_hold hold_of(const union record *record)
{
    struct noted_hold hold = {
        .key = {record->key, record->key_len},
        .token = {.has_slot = record->slot_from_1 > 0,
                  .slot = record->slot_from_1 > 0 ? (uint8_t)(record->slot_from_1 - 1) : 0,
                  .fence = record->fence},
        .ended = record->state != CELL_HELD,
        .released = record->state == CELL_RELEASED,
        .adopted = record->adopted != 0,
        .delivered = record->delivered != 0,
        .acquired_at = {record->acquired_us},
        .valid_until = {record->valid_us},
        .max_hold_until = {record->max_hold_us},
        .lease_until = {record->lease_us},
        .terms = {.ttl_ms = record->ttl_ms,
                  .renew = (enum renew)record->renew,
                  .mode = (enum mode)record->mode,
                  .count = record->count},
        .metadata = {.asked = record->asked},
    };
    metadata_set_label(&hold.metadata, (struct text){record->label, record->label_len});
    secret_take(&hold.metadata.owner, (struct text){record->owner, record->owner_len});
    secret_take(&hold.metadata.idempotency,
                (struct text){record->idempotency, record->idempotency_len});
    memcpy(hold.token.random, record->random, RANDOM_BYTES);
    return hold;
}

/* Returns the last slot of the hole in the file in which the empty `slot` lies; `slot` itself if
 * there is no hole. */
static uint32_t hole_end(const struct journal *journal, uint32_t slot)
{
    off_t data = lseek(journal->fd, offset_of(slot), SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? journal->cells - 1 : slot;
    off_t last = data / CELL - 2; /* The cell of `data` is that of the slot after the hole. */
    return last > slot ? (uint32_t)(last < journal->cells ? last : journal->cells - 1) : slot;
}

/* Slots are given in order, so a restored hold is noted in its old slot or in one before it. So
 * each old cell is freed as soon as it was read, unless its own hold was noted in it again. */
void journal_read(struct journal *journal, struct instant now,
                  void (*restore)(void *arg, const struct noted_hold *hold), void *arg,
                  struct journal_found *ret_found)
{
    static const char none[CELL];
    *ret_found = (struct journal_found){.discarded = journal->discarded};
    for (uint32_t slot = 0; slot < journal->cells; slot++) {
        union record record = {.bytes = {0}};
        ssize_t got = pread(journal->fd, record.bytes, CELL, offset_of(slot));
        if (got <= 0)
            break;
        if (memcmp(record.bytes, none, CELL) == 0) {
            slot = hole_end(journal, slot);
            continue;
        }
        journal->noted = UINT32_MAX;
        if (got == CELL && is_ours(journal, slot, &record, now)) {
            struct noted_hold hold = hold_of(&record);
            restore(arg, &hold);
        } else {
            ret_found->refused++;
        }
        if (journal->noted != slot)
            free_cell(journal, slot);
    }
    journal->cells = 0;
}

/* ---- writing ---- */

static uint8_t copy_text(char *bytes, struct text text)
{
    memcpy(bytes, text.at, text.len);
    return (uint8_t)text.len;
}

static uint8_t copy_secret(char *bytes, const struct secret *secret)
{
    return copy_text(bytes, (struct text){secret->bytes, secret->len});
}

static union record record_of(const struct journal *journal, uint32_t slot,
                              const struct noted_hold *hold)
{
    union record record = {.bytes = {0}};
    record.place = journal->source.place(journal->source.arg, hold->key);
    record.fence = hold->token.fence;
    record.slot_from_1 = hold->token.has_slot ? (uint8_t)(hold->token.slot + 1) : 0;
    record.asked = hold->metadata.asked;
    record.acquired_us = hold->acquired_at.us;
    record.valid_us = hold->valid_until.us;
    record.max_hold_us = hold->max_hold_until.us;
    record.lease_us = hold->lease_until.us;
    record.ttl_ms = hold->terms.ttl_ms;
    record.key_len = (uint16_t)hold->key.len;
    record.count = hold->terms.count;
    record.state = hold->released ? CELL_RELEASED : hold->ended ? CELL_LOST : CELL_HELD;
    record.renew = (uint8_t)hold->terms.renew;
    record.mode = (uint8_t)hold->terms.mode;
    record.adopted = hold->adopted;
    record.delivered = hold->delivered;
    memcpy(record.random, hold->token.random, RANDOM_BYTES);
    memcpy(record.key, hold->key.at, hold->key.len);
    record.label_len = copy_text(record.label, metadata_label(&hold->metadata));
    record.owner_len = copy_secret(record.owner, &hold->metadata.owner);
    record.idempotency_len = copy_secret(record.idempotency, &hold->metadata.idempotency);
    record.checksum = record_checksum(journal, slot, &record);
    return record;
}

bool journal_note(struct journal *journal, const struct effect_hold *hold)
{
    journal->noted = hold->slot;
    if (hold->forgotten)
        return free_cell(journal, hold->slot);
    union record record = record_of(journal, hold->slot, &hold->hold);
    return write_cell(journal, offset_of(hold->slot), record.bytes);
}
