/* The keyspace and a real redis-server side by side, as the files of the comparison share them:
 * both.c asks the two, drawn.c draws the commands, differential.c is the run. */
#ifndef LOCKAGENT_KEYSPACE_DIFFERENTIAL_H
#define LOCKAGENT_KEYSPACE_DIFFERENTIAL_H

#include "scripting.h"

#include <sys/types.h>

#include "agent/redis/asking.h"
#include "tests/sim/prng.h"

enum { KEYS = 4, NAMES = 3 * 2 * KEYS + 2 };

extern struct server {
    char dir[64], socket[96], clock[96];
    pid_t pid;
    int64_t *now_us;
    int commands, subscriber;
} server;

extern struct comparison {
    struct prng prng;
    uint64_t seed;
    unsigned call;
    struct keyspace *keyspace;
    struct scripting *scripting;
    struct config config;
    char names[NAMES][64];
    char *published; /* by the keyspace */
    size_t published_len;
    bool out_of_memory;
    uint64_t replies;
} d;

#define PICK(list) (list)[prng_below(&d.prng, sizeof(list) / sizeof((list)[0]))]

/* ---- both.c ---- */

void server_start(const char *preload);
void server_stop(void);
/* Prints the seed, the call and the text, and ends the program. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void send_all(int fd, const char *bytes, size_t len);
/* Returns the next reply. It is valid until the next call with the same connection. */
struct bytes receive(int fd);
void show(const char *what, struct bytes bytes);
/* Begins a command. Its bytes are valid until the next one begins. */
struct resp *command_begin(void);
struct text command_of(unsigned count, const char *const *words);
/* Gives one command to both; the replies must be the same. */
struct bytes ask_both(struct text asked);
/* The same for commands from MULTI to EXEC. `before`: replies of the server that precede EXEC's. */
struct bytes ask_both_after(struct text asked, unsigned before);
/* Gives the command to the server alone. */
void tell_server(unsigned count, const char *const *words);
/* Compares all that is there: types, times, values. */
void compare_keys(void);
/* Prints the kinds of replies that came too seldom in so many calls. Returns their number. */
unsigned count_rare_replies(unsigned calls);

/* ---- drawn.c ---- */

/* Draws a command of its own, as others give them, and as the scripts may come to. */
void ask_command(void);
/* Stores a plausible value, so that the scripts come far. */
void ask_plausible(void);
/* Draws an operation, as the core asks. */
void ask_operation(void);
/* Draws a call of native commands that takes locks (R24). */
void ask_native(void);
/* Calls any script with any keys and any arguments, as no agent does. */
void ask_nonsense(void);
/* Calls the marker's script, which has arguments of its own. */
void ask_marker(void);
/* Compares conversions that the shipped scripts need not show: how values and errors pass between
 * the two languages. */
void ask_conversions(void);

#endif
