/* Shows the bytes that a library reads, if the library does not show all of them itself.
 *
 * This file defines recv() for the program and its libraries; it reads as recv() of the C library
 * does. MSG_PEEK before the library's read is not enough, because more bytes may come in between.
 * A library that reads by another function shows nothing: a caller of receive_watch() must not take
 * that for "nothing was read". */
#include "agent/base/receive.h"

#include <stdlib.h>
#include <sys/socket.h>

static struct watch {
    receive_fn *look; /* NULL: not watched */
    void *arg;
} * watches; /* by descriptor */
static size_t watch_count;

bool receive_watch(int fd, receive_fn *look, void *arg)
{
    enum { WATCHES_MIN = 256 };
    if (fd < 0)
        return false;
    size_t count = watch_count == 0 ? WATCHES_MIN : watch_count;
    while (count <= (size_t)fd)
        count *= 2;
    if (count > watch_count) {
        struct watch *room = realloc(watches, count * sizeof(*room));
        if (room == NULL)
            return false;
        for (size_t i = watch_count; i < count; i++)
            room[i] = (struct watch){0};
        watches = room;
        watch_count = count;
    }
    watches[fd] = (struct watch){look, arg};
    return true;
}

void receive_forget(int fd)
{
    if (fd >= 0 && (size_t)fd < watch_count)
        watches[fd] = (struct watch){0};
}

/* Declared under another name: that of the C library may be a macro or an inline function. */
__attribute__((used, visibility("default"))) ssize_t receive_shown(int fd, void *bytes, size_t size,
                                                                   int flags) __asm__("recv");

ssize_t receive_shown(int fd, void *bytes, size_t size, int flags)
{
    ssize_t got = recvfrom(fd, bytes, size, flags, NULL, NULL);
    bool is_watched = got > 0 && (flags & MSG_PEEK) == 0 && (size_t)fd < watch_count;
    if (is_watched && watches[fd].look != NULL)
        watches[fd].look(watches[fd].arg, bytes, (size_t)got);
    return got;
}
