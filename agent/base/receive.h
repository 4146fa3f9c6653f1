/* Shows the bytes that recv() reads of a descriptor, as they are read, for any caller of recv(). */
#ifndef LOCKAGENT_BASE_RECEIVE_H
#define LOCKAGENT_BASE_RECEIVE_H

#include <stdbool.h>
#include <stddef.h>

/* `bytes` are those that recv() has written into its caller's buffer, `len` of them. */
typedef void receive_fn(void *arg, const char *bytes, size_t len);

/* Shows `look` all bytes that are read of the descriptor, until receive_forget(), which comes
 * before its close. Returns false if out of memory: then nothing is shown. */
bool receive_watch(int fd, receive_fn *look, void *arg);
void receive_forget(int fd);

#endif
