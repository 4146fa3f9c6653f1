/* The connections of a client that speaks to the masters itself: one to each, ordered, with the
 * commands of all callers pipelined on it. */
#ifndef LOCKAGENT_BENCH_MASTERS_H
#define LOCKAGENT_BENCH_MASTERS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

enum { MASTERS_MAX = 15, SHA_CHARS = 40, RANDOM_CHARS = 40 };

struct master;

/* Called for each reply, with the arguments of masters_send(). A reply to an operation that has
 * been decided meanwhile is the owner's to ignore. */
typedef void masters_reply_fn(uint16_t caller, uint32_t operation, const redisReply *reply,
                              int64_t now);

/* Takes the port of one more master, before masters_connect(). */
void masters_add(const char *port);
int master_count(void);
/* `epoll_fd` reports a struct master when bytes arrive. */
void masters_connect(int epoll_fd, masters_reply_fn *on_reply);
/* Loads a script into all masters. */
void masters_load(const char *script, char ret_sha[SHA_CHARS + 1]);
/* Hands the same bytes, which stay the caller's, to every master. They go out once per master and
 * iteration of the loop, in masters_flush(). `replies`: how many come; the last one is told. */
void masters_send(uint16_t caller, uint32_t operation, uint16_t replies, const char *bytes,
                  size_t length);
/* The same for a command of redisFormatCommand(), which had `length` as its result. Frees
 * `bytes`. */
void masters_send_formatted(uint16_t caller, uint32_t operation, char *bytes, int length);
void masters_read(struct master *master);
/* True when everything went out; otherwise the loop comes back at once. */
bool masters_flush(void);

/* Deletes KEYS[1] if it has the value ARGV[1], and returns how many keys that were. */
extern const char compare_and_delete[];

/* The random part of a token. */
void fresh_random(char ret_random[RANDOM_CHARS + 1]);

#endif
