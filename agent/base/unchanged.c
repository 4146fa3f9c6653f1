/* Compares what stat() says of a file. A file that is replaced has another inode. */
#include "agent/base/unchanged.h"

static bool is_same_time(struct timespec one, struct timespec other)
{
    return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

bool file_is_unchanged(const struct stat *before, const struct stat *now)
{
    return before->st_dev == now->st_dev && before->st_ino == now->st_ino &&
           before->st_size == now->st_size && is_same_time(before->st_mtim, now->st_mtim) &&
           is_same_time(before->st_ctim, now->st_ctim);
}
