/* The kernel's figures of this process, for the process_* metrics. */
#ifndef LOCKAGENT_METRICS_PROCESS_H
#define LOCKAGENT_METRICS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#define PROCESS_UNKNOWN INT64_MIN /* Value of a figure below that cannot be read. */

struct process_figures {
    int64_t cpu_us, resident_bytes, virtual_bytes, open_files, open_files_max;
};
struct process_figures process_read(void);

/* Returns the start of this process in unix time. Reads a file that grows with the machine, so it
 * is called once. */
int64_t process_started_wall_us(void);

#endif
