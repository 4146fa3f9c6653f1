/* How the masters are asked: which script with which keys and arguments, in RESP. Knows neither
 * loop nor socket. */
#ifndef LOCKAGENT_REDIS_ASKING_H
#define LOCKAGENT_REDIS_ASKING_H

#include <hiredis/hiredis.h>

#include "agent/core/core.h"
#include "agent/core/guard.h"
#include "agent/core/types.h"
#include "config/config.h"

/* One command in RESP, as it is built: the arguments one behind the other, and what counts them
 * written last, in front of them. */

enum {
    RESP_DIGITS_MAX = 20,  /* of the largest number */
    RESP_FRONT_BYTES = 128 /* kept free for what is written in front of the arguments */
};

/* The memory is its owner's and holds RESP_FRONT_BYTES more than the arguments. */
struct resp {
    char *bytes;
    size_t size;
    size_t at, len; /* what has been written is bytes[at..len) */
    unsigned args;  /* how many arguments that are */
};

/* Begins a command without arguments; the one before it is forgotten. */
void resp_begin(struct resp *resp);

/* Each adds one argument; its memory is large enough, or the programmer has erred. */
void resp_bytes(struct resp *resp, const char *bytes, size_t len);
void resp_text(struct resp *resp, const char *text);
void resp_number(struct resp *resp, uint64_t number);
/* One argument of three parts. */
void resp_joined(struct resp *resp, struct text a, struct text b, struct text c);

/* The same in front of all arguments so far: RESP_FRONT_BYTES are for these and for the header. */
void resp_text_first(struct resp *resp, const char *text);
void resp_number_first(struct resp *resp, uint64_t number);

/* Writes the header, which says how many arguments there are. Returns the whole command: it stands
 * in the memory of `resp` until that begins another one. */
struct text resp_end(struct resp *resp);

/* Leaves nothing of a command with a secret in it. */
void resp_wipe(struct resp *resp);

#define MARKER_KEY "lockagent:marker"
#define VOTE_KEY "lockagent:votes"
#define NEW_KEY "lockagent:new:" /* then the name of one run of `lockagent trust --new` */

enum { ASKING_VOTE_BYTES = GUARD_VOTE_BYTES + 16, ASKING_OWN_BYTES = ASKING_VOTE_BYTES + 32 };

/* The numbers that the items of a call propose, of those that a master's floor and top bound
 * (R12); most 0: none. */
struct proposals {
    uint64_t least, most;
};

/* One operation of the core on `count` items, on the masters of a group. Returns the command, which
 * stands in `resp` until that begins another one. If asking_has_own(), arguments are missing at its
 * end, which differ by master: asking_own(). */
struct text asking_op(struct resp *resp, const struct config *config, uint8_t group, enum op op,
                      const struct send_item *items, unsigned count);

/* True if the operation creates keys, so that each master's clock stands behind it (R5). */
bool asking_has_own(enum op op);

/* The last arguments of such an operation for one master: what its clock shows at the least (0: not
 * known), and `vote`, if it has one. Written into `bytes`. */
struct text asking_own(char bytes[ASKING_OWN_BYTES], int64_t clock_ms, struct text vote);

/* True if the operation takes locks in a guarded group: it names the vote that the agent knows. */
bool asking_names_vote(const struct config *config, uint8_t group, enum op op);

struct proposals asking_proposals(const struct config *config, const struct send_item *items,
                                  unsigned count);

/* The vote of such an operation for this master, as an argument: as `guard` knows it, marked if a
 * proposal is not above the floor, or above the top. Written into `bytes`. */
struct text asking_vote(char bytes[ASKING_VOTE_BYTES], const struct guard *guard, uint8_t master,
                        const struct proposals *proposals);

/* R22: Redisson puts a name in braces behind what it puts in front of it, unless it has one. */
bool asking_adds_braces(const char *prefix, struct text key);

/* The marker's script (D5.3), for the server process that calls itself `run_id` ("": it does not
 * say). `wall_us` is the agreed time, unix time in us. With `whole` the script itself is sent, for
 * a server that may not know it. Draws the epoch that may begin, and returns the command as
 * asking_op() does. */
struct text asking_marker(struct resp *resp, const struct guard_ask *ask, const char *run_id,
                          int64_t wall_us, bool whole);

/* The same with an epoch that is handed in. */
struct text asking_marker_as(struct resp *resp, const struct guard_ask *ask, const char *run_id,
                             const char *epoch, int64_t wall_us, bool whole);

/* Reads the answer to asking_marker(). False: it makes no sense. */
bool asking_read_marker(const redisReply *reply, struct guard_answer *ret_answer);

#endif
