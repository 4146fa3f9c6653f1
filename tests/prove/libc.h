/* The C library as the drivers see it. A function for which Frama-C has only a contract or a
 * builtin gives one vague result. The functions here look byte by byte, and keep results apart. */
#ifndef LOCKAGENT_PROVE_LIBC_H
#define LOCKAGENT_PROVE_LIBC_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/*@ requires \valid((char *)bytes + (0 .. len - 1));
    assigns ((char *)bytes)[0 .. len - 1] \from \nothing; */
void explicit_bzero(void *bytes, size_t len);

void *prove_memchr(const void *bytes, int byte, size_t len);
void *prove_memrchr(const void *bytes, int byte, size_t len);
int prove_memcmp(const void *a, const void *b, size_t len);
size_t prove_strlen(const char *text);
char *prove_strchr(const char *text, int byte);
int prove_strcmp(const char *a, const char *b);
int prove_strncmp(const char *a, const char *b, size_t len);
int prove_strcasecmp(const char *a, const char *b);
size_t prove_strspn(const char *text, const char *set);
size_t prove_strcspn(const char *text, const char *set);
char *prove_strstr(const char *text, const char *part);

/* Replaces gcc's builtin. Every caller adds times. */
bool prove_add_overflow(int64_t a, int64_t b, int64_t *ret_sum);

/* Contracts in the headers above name these functions, so they come first. With VAGUE_LIBC, a
 * driver has Frama-C's own instead: vague results, but few states. */
#ifndef VAGUE_LIBC
#define memchr prove_memchr
#define memrchr prove_memrchr
#define memcmp prove_memcmp
#define strlen prove_strlen
#define strchr prove_strchr
#define strcmp prove_strcmp
#define strncmp prove_strncmp
#define strcasecmp prove_strcasecmp
#define strspn prove_strspn
#define strcspn prove_strcspn
#define strstr prove_strstr
#endif

/* From Linux. The unistd.h of Frama-C has no such constant. */
#define SEEK_DATA 3

#define __builtin_add_overflow prove_add_overflow

#endif
