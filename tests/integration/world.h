/* Functions that the parts of the harness share with each other and not with the tests. */
#ifndef LOCKAGENT_TESTS_WORLD_H
#define LOCKAGENT_TESTS_WORLD_H

#include "harness.h"

/* Memory that lives as long as the world. */
void *keep(void *memory);
void keep_json(json_t *json);

/* Starts a program with its output in `log` (appended) and stdin from `stdin_path` (NULL: nothing).
 * `environment` ("NAME=value", NULL-terminated) is added to ours, from which every LOCKAGENT_
 * variable is taken out. The child dies with this process. */
pid_t spawn(const char *const *arguments, const char *stdin_path, const char *out, const char *err);
/* Waits for the end of a child; false when it still runs after `ms`. `*ret_status` is the exit
 * status, or -1. */
bool reap(pid_t pid, int64_t ms, int *ret_status);
/* True if this process may look into others and make namespaces. Root in a container may not. */
bool is_privileged(void);
/* SIGKILL (also to stopped ones) and reap. */
void end_process(pid_t pid);

void remove_tree(const char *path);
void masters_close(void);
#define MASTERS_PASSWORD "s3cret"
/* as a user of that name, with the rights of deploy/acl/full.acl */
bool masters_know_lockagent(void);
bool agents_close(void); /* false: one did not end cleanly */
void http_close(void);

#endif
