/* The scanner takes any stream of bytes, however long, in pieces of any size up to PIECE.
 *
 * sources: agent/redis/resp_scan.c
 * options: -eva-precision 3 -eva-split-return-function scanned_number:0
 *   -eva-slevel-function scanned_number:500 */
#include "agent/redis/resp_scan.h"
#include "tests/prove/prove.h"

enum { PIECE = 64 };

int main(void)
{
    struct resp_scan scan = {0};
    enum resp_found found = RESP_MORE;
    while (found == RESP_MORE || found == RESP_REPLY) {
        char bytes[PIECE];
        size_t taken;
        UNKNOWN(bytes);
        resp_scan_is_fresh(&scan);
        found = resp_scan(&scan, bytes, (size_t)ANY(0, PIECE), &taken);
    }
    return 0;
}
