/* Fits the configuration of an agent to the locks of one command, and says how others see them. */
#ifndef LOCKAGENT_RUN_FIT_H
#define LOCKAGENT_RUN_FIT_H

#include "config/config.h"

/* Fits `config` and sets up the log. One command needs few tables. It may wait and hold without a
 * limit, because its locks end with it. */
void run_fit_config(struct config *config);

/* Returns false, and reports it, if fewer files may be open than are needed. Otherwise libuv would
 * abort, or no master could be reached and no deadline kept. */
bool run_may_open_files(const struct config *config);

/* Makes the label under which others see the locks: `wanted`, or the host's name and our pid if
 * that is NULL. */
void run_make_label(const char *wanted, char label[LIMIT_LABEL_BYTES + 1]);

#endif
