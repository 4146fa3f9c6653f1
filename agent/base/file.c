/* Reads until the end: one read(2) may return less than the file has. */
#include "agent/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

ssize_t file_read(int fd, void *bytes, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(fd, (char *)bytes + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    return (ssize_t)len;
}

ssize_t file_read_path(const char *path, void *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t len = file_read(fd, bytes, size);
    int error = errno;
    close(fd);
    errno = error;
    return len;
}
