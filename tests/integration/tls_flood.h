#pragma once

#include <stddef.h>

/* A master that is done with its handshake and then sends, without end, records of TLS that carry
 * no data: KeyUpdate of TLS 1.3, or HelloRequest of TLS 1.2. Or it sends nothing, and ends the
 * connection. One at a time; each connection has a thread. */

enum flood { FLOOD_KEY_UPDATES, FLOOD_HELLO_REQUESTS, FLOOD_NOTHING };

/* Returns its port. `certificate`, `key`: paths of PEM. */
int tls_flood_start(enum flood flood, const char *certificate, const char *key);
/* How many records were sent, over all connections. */
size_t tls_flood_records(void);
void tls_flood_stop(void);
