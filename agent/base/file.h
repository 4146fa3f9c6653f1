/* Small files, read whole. */
#ifndef LOCKAGENT_BASE_FILE_H
#define LOCKAGENT_BASE_FILE_H

#include <sys/types.h>

/* Reads up to `size` bytes: to the end of the file, or until `bytes` is full. Returns how many; -1
 * with errno set. */
ssize_t file_read(int fd, void *bytes, size_t size);

/* The same of the file at `path`, which is opened for it. Does not wait for the writer
 * of a pipe. */
ssize_t file_read_path(const char *path, void *bytes, size_t size);

#endif
