/* An end at an instant that no signal from outside would hit: preloaded into an agent, this kills
 * it (SIGKILL) right before it sends the answer 201 with the text that is in the file named by
 * FAULT_DEADLY. As long as there is no such file nothing happens; it is removed first. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TEXT_BYTES = 256 };

static void die_before(const struct iovec *parts, size_t count)
{
    static const char granted[] = "HTTP/1.1 201 ";
    char text[TEXT_BYTES];
    const char *path = getenv("FAULT_DEADLY");
    if (count == 0 || parts->iov_len < sizeof(granted) ||
        memcmp(parts->iov_base, granted, sizeof(granted) - 1) != 0)
        return;
    const int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t length = file >= 0 ? read(file, text, sizeof(text)) : 0;
    if (file >= 0)
        close(file);
    for (size_t i = 0; length > 0 && i < count; i++) {
        if (memmem(parts[i].iov_base, parts[i].iov_len, text, (size_t)length) != NULL) {
            unlink(path);
            kill(getpid(), SIGKILL);
        }
    }
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    const struct iovec part = {(void *)(size_t)bytes, length};
    die_before(&part, 1);
    return sendto(fd, bytes, length, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t (*real)(int, const struct msghdr *, int);
    *(void **)(void *)&real = dlsym(RTLD_NEXT, "sendmsg");
    die_before(message->msg_iov, message->msg_iovlen);
    return real(fd, message, flags);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    ssize_t (*real)(int, const struct iovec *, int);
    *(void **)(void *)&real = dlsym(RTLD_NEXT, "writev");
    die_before(parts, count > 0 ? (size_t)count : 0);
    return real(fd, parts, count);
}
