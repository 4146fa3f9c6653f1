/* Builds the commands to the masters: which script with which keys and arguments, in RESP. Does not
 * know the loop or sockets. */
#ifndef LOCKAGENT_REDIS_ASKING_H
#define LOCKAGENT_REDIS_ASKING_H

#include <hiredis/hiredis.h>

#include "agent/core/core.h"
#include "agent/core/guard.h"
#include "agent/core/types.h"
#include "config/config.h"

/* One command in RESP while it is built. The arguments are written one after the other. The header,
 * which has their count, is written last, in front of them. */

enum {
    RESP_DIGITS_MAX = 20,  /* Digits of the largest number. */
    RESP_FRONT_BYTES = 128 /* Kept free in front of the arguments. */
};

/* The memory belongs to the owner of the struct. It holds RESP_FRONT_BYTES more than the
 * arguments. */
struct resp {
    char *bytes;
    size_t size;
    size_t at, len; /* The written bytes are bytes[at..len). */
    unsigned args;  /* Number of arguments written. */
};

/* Begins a command without arguments. The previous command is overwritten. */
void resp_begin(struct resp *resp);

/* Add one argument each. The memory must be large enough: this is asserted. */
void resp_bytes(struct resp *resp, const char *bytes, size_t len);
void resp_text(struct resp *resp, const char *text);
void resp_number(struct resp *resp, uint64_t number);
/* Adds one argument that consists of three parts. */
void resp_joined(struct resp *resp, struct text a, struct text b, struct text c);

/* Adds one argument in front of all others. These arguments and the header share
 * RESP_FRONT_BYTES. */
void resp_text_first(struct resp *resp, const char *text);
void resp_number_first(struct resp *resp, uint64_t number);

/* Writes the header with the number of arguments. Returns the whole command, which is valid until
 * `resp` begins another one. */
struct text resp_end(struct resp *resp);

/* Overwrites a command that contains a secret. */
void resp_wipe(struct resp *resp);

#define MARKER_KEY "lockagent:marker"
#define VOTE_KEY "lockagent:votes"
#define LAYOUTS_KEY "lockagent:layouts"
/* The channel of one key: the prefix of the lock and the key follow (R9). */
#define KEY_CHANNEL "lockagent:channel:"
/* The channel of all agents that wait for a key; nothing is published there (R9). No key has this
 * name: none begins with a slash. */
#define WAITING_CHANNEL "lockagent:channel:/"
/* The channel of the message before a WAIT; it has no subscribers (R21).
 * No prefix and key have this name together: no key ends with a slash. */
#define REPLICAS_CHANNEL "lockagent:channel:/replicas/"
/* Buckets of numbers: the prefix of the lock and the number of the bucket follow (R12). */
#define NUMBER_KEY "lockagent:number:"
#define NEW_KEY "lockagent:new:" /* The name of one run of `lockagent trust --new` follows. */

enum { ASKING_VOTE_BYTES = GUARD_VOTE_BYTES + 16, ASKING_OWN_BYTES = ASKING_VOTE_BYTES + 32 };

/* The smallest and the largest number that the items of a call propose, of those that a master's
 * floor and top bound (R12). `most` 0: none. */
struct proposals {
    uint64_t least, most;
};

/* Builds one operation of the core on `count` items for the masters of a group. Returns the
 * command, which is valid until `resp` begins another one. If asking_has_own(), the arguments of
 * asking_own(), which differ by master, must follow. */
struct text asking_op(struct resp *resp, const struct config *config, uint8_t group, enum op op,
                      const struct send_item *items, unsigned count);

#define NATIVE_ITEMS_MAX 50
static_assert(NATIVE_ITEMS_MAX >= LIMIT_BATCH, "the largest batch must fit");

/* The largest clock of a master for native commands, in ms of unix time: in the year 2255, in which
 * fencing numbers end (R12). The ends of leases have 13 digits until the year 2286. */
#define NATIVE_CLOCK_MS_MAX (LIMIT_FENCE / 1000)

/* How a master compares and deletes (R24). Valkey has the first command since 9.0, Redis the second
 * one since 8.4. */
enum compare_delete { COMPARE_DELETE_NONE, COMPARE_DELETE_DELIFEQ, COMPARE_DELETE_DELEX };

/* A call of native commands that takes or releases locks (R24). The leases that it takes end at
 * times that differ by master. */
struct native {
    struct text bytes;                  /* Valid until the resp begins another command. */
    uint16_t count;                     /* Items. */
    uint16_t before;                    /* Replies to the commands before EXEC. */
    uint16_t results;                   /* Elements of EXEC's reply. */
    bool takes;                         /* It takes locks: asking_native_ends() is needed. */
    int64_t spread_ms;                  /* native_spread_ms() of the group. */
    uint32_t ends[NATIVE_ITEMS_MAX];    /* The places of the items' ends in the bytes. */
    uint32_t ttls_ms[NATIVE_ITEMS_MAX]; /* The leases of the items. */
};

/* Builds the call: MULTI, for each item SET and, with fencing, ZADD, then GET of the vote if the
 * group is guarded, TIME, and EXEC. The items have the form that form_is_native() allows, and are
 * all numbered or none. */
struct native asking_native(struct resp *resp, const struct config *config, uint8_t group,
                            const struct send_item *items, unsigned count);

/* Returns how the server compares and deletes. `reply`: names of its commands. */
enum compare_delete asking_compares(const redisReply *reply);

/* Builds the call that releases locks: MULTI, for each item DELIFEQ or DELEX, then GET of the vote
 * if the group is guarded, PUBSUB NUMSUB of the items' channels, and EXEC. The holders asked for
 * it, and the items have all that their values consist of. `how` is not COMPARE_DELETE_NONE. */
struct native asking_native_release(struct resp *resp, const struct config *config, uint8_t group,
                                    enum compare_delete how, const struct send_item *items,
                                    unsigned count);

/* Writes the ends of the items' leases into `bytes`, which are the call's. `clock_ms`: a lower
 * bound of the master's clock, 1 to NATIVE_CLOCK_MS_MAX. The leases are not shorter than asked for
 * if the commands run while the clock shows at most `spread_ms` more. */
void asking_native_ends(const struct native *native, char *bytes, int64_t clock_ms);

/* Returns the vote of this master, as `guard` knows it, for native commands. Returns NULL if the
 * script must decide: there is none, it names a replication history (R21), or a proposal is not
 * above the floor, or is above the top. `proposals` NULL: the commands propose nothing. */
const char *asking_native_vote(const struct guard *guard, uint8_t master, struct instant now,
                               const struct proposals *proposals);

/* Returns the number of the bucket in which the number of a lock is kept (R12). */
unsigned asking_bucket(const char *lock_key);

/* The key in which masters keep the number of a lock: its bucket, or RFencedLock's counter (R22).
 * Written into `bytes`. */
enum { ASKING_NUMBER_KEY_BYTES = LIMIT_KEY_BYTES + 192 };
struct text asking_number_key(char bytes[ASKING_NUMBER_KEY_BYTES],
                              const struct config_policy *policy, struct text key, bool has_slot,
                              uint8_t slot);

/* Appends the keys of one lock for a command by hand: the lock's, its number's if the policy
 * fences, and its tickets' if it has them. Of the item its policy, key, slot, form and fencing
 * count. */
void asking_keys_by_hand(struct resp *resp, const struct config *config,
                         const struct send_item *item);

/* Returns true if an argument for each master follows: the operation creates keys or names the
 * vote. */
bool asking_has_own(const struct config *config, uint8_t group, enum op op);

/* Builds the last arguments of such an operation for one master: a lower bound of its clock (0: not
 * known) if the operation creates keys (R5), and `vote` if it is not empty. Written into
 * `bytes`. */
struct text asking_own(char bytes[ASKING_OWN_BYTES], enum op op, int64_t clock_ms,
                       struct text vote);

/* Returns true if the operation counts only with the vote that the agent knows, and the group is
 * guarded: it takes locks, or it is the first that this process does for a hold (R24). */
bool asking_names_vote(const struct config *config, uint8_t group, enum op op);

struct proposals asking_proposals(const struct config *config, const struct send_item *items,
                                  unsigned count);

/* Builds the argument with the vote of this master, as `guard` knows it. For operations that take
 * locks it is marked if a proposal is not above the floor, or is above the top. Written into
 * `bytes`. */
struct text asking_vote(char bytes[ASKING_VOTE_BYTES], const struct guard *guard, uint8_t master,
                        struct instant now, enum op op, const struct proposals *proposals);

/* Returns true if Redisson puts braces around the name after its own prefix. It does so unless the
 * name has braces (R22). */
bool asking_adds_braces(const char *prefix, struct text key);

/* Returns the script's word for the question. */
const char *asking_question_word(enum guard_question question);

/* Builds the call of the marker's script (D5.3) for the server process `run_id` ("": not known).
 * `wall_us` is the agreed time in us of unix time. With `whole` the text of the script is sent, for
 * a server that may not have it. Draws the epoch that may begin. Returns the command as asking_op()
 * does. */
struct text asking_marker(struct resp *resp, const struct guard_ask *ask, const char *run_id,
                          int64_t wall_us, bool whole);

/* Like asking_marker(), with an epoch from the caller. */
struct text asking_marker_as(struct resp *resp, const struct guard_ask *ask, const char *run_id,
                             const char *epoch, int64_t wall_us, bool whole);

/* Returns the same argument of an agent that must not use any vote (R23). */
struct text asking_no_vote(void);

/* Returns the master's TIME in ms of a reply that asking_read_marker() has taken. */
int64_t asking_marker_time_ms(const redisReply *reply);

/* Reads the reply to asking_marker(). Returns false if it is not a possible one. The texts of
 * `ret_layouts` are borrowed from the reply. */
bool asking_read_marker(const redisReply *reply, struct guard_answer *ret_answer,
                        struct guard_layouts *ret_layouts);

#endif
