/* A cell of the journal's file with any bytes in it, and a header with any bytes. A cell is read if
 * it is not refused.
 *
 * sources: agent/core/random.c agent/core/terms.c agent/base/file.c
 * options: -eva-precision 2 -cpp-extra-args=-DVAGUE_LIBC
 *   -eva-slevel-function hash_bytes:3000,makes_sense:500,is_ours:100
 *   -eva-split-return-function is_ours:0,makes_sense:0 */
#include "agent/journal.c"

#include "tests/prove/prove.h"

/* As a hash of the key: every byte of it can be read. */
static uint64_t any_place(void *arg, struct text key)
{
    (void)arg;
    //@ assert \valid_read(key.at + (0 .. key.len - 1));
    return Frama_C_unsigned_long_interval(0, UINT64_MAX);
}

int main(void)
{
    struct journal journal = {.source.place = any_place};
    struct instant now = {Frama_C_long_interval(0, INT64_MAX / 2)};
    union record record;
    union header header;
    UNKNOWN(journal.hash_key);
    UNKNOWN(record);
    UNKNOWN(header);
    is_a_journals(&header, (size_t)ANY(0, CELL));
    if (is_ours(&journal, (uint32_t)ANY(0, LIMIT_LOCK_SLOTS - 1), &record, now)) {
        struct noted_hold hold = hold_of(&record);
        record_of(&journal, 0, &(struct noted_hold){.key = hold.key, .metadata = hold.metadata});
    }
    return 0;
}
