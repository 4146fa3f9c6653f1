/* The shared parts of the callers: the HTTP conversation with an agent, the register that locks
 * protect, and the history that the checker reads. All times are microseconds of CLOCK_BOOTTIME,
 * the clock of the agents' promises. */
#ifndef LOCKAGENT_TESTS_FAULTS_CALLERS_H
#define LOCKAGENT_TESTS_FAULTS_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    TOKEN_BYTES = 96,
    KEY_BYTES = 32,
    CODE_BYTES = 32,
    ANSWER_BYTES = 16384, /* a look at a key with many readers */
    LABEL_BYTES = 24,
    MODE_BYTES = 8,
    KEYS_MAX = 64,
    SLOTS_MAX = 8,
    CONNECT_PATIENCE_MS = 100,
};

int64_t boottime_us(void);

/* ---- conversation ---------------------------------------------------------------------------- */

struct conversation {
    int fd; /* -1: not connected */
    int port;
    size_t filled;
    char bytes[ANSWER_BYTES];
};

enum answer_state { ANSWER_NONE_YET, ANSWER_WHOLE, ANSWER_BROKEN };

struct answer {
    int status;
    bool is_hold; /* it reports a lock as held: by this token and number, until then */
    char code[CODE_BYTES];
    char token[TOKEN_BYTES];
    int64_t fence, until_ms, for_ms;
    char mode[MODE_BYTES]; /* mode of a key that is read and written; otherwise "" */
    int64_t slot, permits; /* slot and permits of a semaphore; otherwise 0 */
};

/* Connects if it is not connected; false if no server listens. */
bool conversation_open(struct conversation *conversation);
void conversation_close(struct conversation *conversation);
/* One request without a body; `token` may be "". False when the connection is gone. */
bool conversation_ask(struct conversation *conversation, const char *method, const char *path,
                      const char *token);
/* Reads the bytes that have arrived. Closes the connection if it broke or the agent closes it. If a
 * key has several holds, the answer is about the one with that label. */
enum answer_state conversation_hear(struct conversation *conversation, const char *label,
                                    struct answer *ret_answer);

/* ---- register -------------------------------------------------------------------------------- */

/* One per key, or per slot of a semaphore: read with a fencing number, later written with it. It
 * keeps the largest number of a writer and of a caller that only looks, and refuses by them (R19).
 * It refuses a writer whose number is below the former or not above the latter. It refuses a look
 * below the former. */
struct shared_register {
    int64_t value, largest_fence, largest_look;
};

/* Reads the register for a caller that means to write. */
bool register_read(struct shared_register *shared, int64_t fence, int64_t *ret_value);
bool register_look(struct shared_register *shared, int64_t fence, int64_t *ret_value);
bool register_write(struct shared_register *shared, int64_t fence, int64_t value);

/* ---- history --------------------------------------------------------------------------------- */

/* The end of an operation; info: no answer came, it may have happened. */
enum outcome { OUTCOME_OK, OUTCOME_FAIL, OUTCOME_INFO };

struct operation {
    const char *name; /* acquire, renew, look, release, probe, write, read, vanish, expire */
    int caller, agent;
    const char *key;
    const char *hold; /* the token that it is about, or that it got; "" if there is none */
    int64_t began_us, ended_us;
    enum outcome outcome;
    const struct answer *answer; /* NULL: none */
    const char *note;            /* wrong or spent (probe), solo (acquire); NULL: none */
    int64_t fence, saw, wrote;   /* numbers of a write, and of a read, which wrote nothing */
    char mode[MODE_BYTES];       /* mode of the hold, as in its answer; the next two fields too */
    int64_t slot, permits;
    int64_t wait_ms; /* wait of an acquire */
};

/* Writes to `path`, a whole line at a time, so that a reader never sees half of one. */
bool history_open(const char *path);
void history_add(const struct operation *operation);
void history_close(void);

#endif
