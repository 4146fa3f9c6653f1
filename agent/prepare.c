/* Opens the three standard descriptors, protects the memory, and prevents zombies. */
#include "agent/prepare.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

void prepare_process(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR); /* It gets the lowest free number. */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        _exit(EXIT_FAILURE); /* There is no descriptor for an error text. */
    close(fd);
    prctl(PR_SET_DUMPABLE, 0);
}

/* If SIGCHLD is ignored, the kernel reaps all children, also orphans of other processes. */
void prepare_for_orphans(void)
{
    signal(SIGCHLD, SIG_IGN);
}
