/* The journal keeps the holds of this agent in a file on a memory volume. An agent that was killed
 * and started again goes on with them. There is none unless `journal.file` names a file.
 *
 * The journal survives the process, not the machine. Holds are measured on CLOCK_BOOTTIME, so a
 * file of another boot is useless, and nothing is flushed to a disk. The file contains tokens, so
 * only its owner may read it. */
#ifndef LOCKAGENT_JOURNAL_H
#define LOCKAGENT_JOURNAL_H

#include "agent/core/core.h"

enum { BOOT_ID_BYTES = 36 };

/* Returns a hash of the masters and rules of `key`. A token of the key is usable as long as the
 * hash is the same. */
typedef uint64_t journal_place_fn(void *arg, struct text key);

struct journal_source {
    const char *path;
    char boot_id[BOOT_ID_BYTES + 1]; /* The id of this boot. */
    uint32_t agent;                  /* The name of a new agent. If the file has holds of this boot,
                                      * its name counts instead. */
    journal_place_fn *place;
    void *arg;
};

/* The result of reading the file. */
struct journal_found {
    const char *discarded; /* Why no record was used; NULL if the records were read or the file is
                            * new. */
    uint32_t refused; /* Number of records that are torn or cut, or whose masters or policy have
                            * changed. */
};

struct journal;

/* Reads the id of this boot. Returns false, with `error`, if the kernel does not give it. */
bool journal_boot_id(char boot_id[BOOT_ID_BYTES + 1], char *error, size_t size);

/* Opens or creates the file, mode 0600, and locks it against other processes. `source` is copied;
 * its texts must outlive the journal. Returns NULL, with `error`, if the file cannot be opened,
 * belongs to another user, can be read by others, is in use, or is no journal. Such a file is left
 * as it is. */
struct journal *journal_open(const struct journal_source *source, char *error, size_t size);

/* Returns the agent's name on the masters (D3.3), which is kept as long as the content of the
 * file. */
uint32_t journal_agent(const struct journal *journal);

/* Passes every hold in the file to `restore`. Then empties the file of those that `restore` did not
 * note again. A hold is valid for the call. `now` is the time: records that contradict it are
 * refused. Call it once, before the first journal_note() outside of `restore`. */
void journal_read(struct journal *journal, struct instant now,
                  void (*restore)(void *arg, const struct noted_hold *hold), void *arg,
                  struct journal_found *ret_found);

/* Writes a hold to its cell, or frees the cell. The write is not delayed, so that a kill a moment
 * later does not lose it. Returns false, with errno, if it failed. */
bool journal_note(struct journal *journal, const struct effect_hold *hold);

void journal_close(struct journal *journal); /* Closes the file, which stays. NULL is allowed. */

#endif
