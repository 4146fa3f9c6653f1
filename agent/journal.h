/* The journal: the holds of this agent in a file on a memory volume, so that an agent that was
 * killed and started again goes on with them. Off unless `journal.file` names one.
 *
 * It survives the process, not the machine: holds are measured on CLOCK_BOOTTIME, so a file of
 * another boot is of no use, and nothing is ever flushed to a disk. Tokens stand in it: only its
 * owner may read it. */
#ifndef LOCKAGENT_JOURNAL_H
#define LOCKAGENT_JOURNAL_H

#include "agent/core/core.h"

enum { BOOT_ID_BYTES = 36 };

/* Where and how masters keep a key: as long as it is the same, a token of it means something. */
typedef uint64_t journal_place_fn(void *arg, struct text key);

struct journal_source {
    const char *path;
    char boot_id[BOOT_ID_BYTES + 1]; /* of this boot */
    uint32_t agent;                  /* of a new agent; a journal that is used keeps its own */
    journal_place_fn *place;
    void *arg;
};

/* What was found in the file. */
struct journal_found {
    const char *discarded; /* why nothing in it was used; NULL: it was read, or is new */
    uint32_t refused;      /* records that are torn, or whose masters or policy have changed */
};

struct journal;

/* This boot's id; false and `error` where the kernel does not tell. */
bool journal_boot_id(char boot_id[BOOT_ID_BYTES + 1], char *error, size_t size);

/* Opens or creates the file, mode 0600, and locks it against other processes. NULL and `error` when
 * it can not be had, belongs to somebody else, can be read by others, is in use, or is no journal:
 * such a file is left as it is. */
struct journal *journal_open(const struct journal_source *source, char *error, size_t size);

/* What the holds in it are owned by on the masters (D3): as long-lived as the file's content. */
uint32_t journal_agent(const struct journal *journal);

/* Hands every hold in the file to `restore`, and empties the file of those that were not noted
 * again meanwhile. The holds are valid for the call; `now` bounds what can be true. Once, before
 * the first journal_note(). */
void journal_read(struct journal *journal, struct instant now,
                  void (*restore)(void *arg, const struct noted_hold *hold), void *arg,
                  struct journal_found *ret_found);

/* Writes one hold down, or forgets it; at once, so that a kill a moment later finds it there. False
 * when it could not. */
bool journal_note(struct journal *journal, const struct effect_hold *hold);

void journal_close(struct journal *journal); /* the file stays; NULL is allowed */

#endif
