/* A header of up to 3 fields with any names and values, as libmicrohttpd hands them over, and any
 * request target. All of it lies in one piece of memory, as libmicrohttpd keeps it.
 *
 * sources: api/framing.c
 * left: api/framing.c: out of bounds read. assert \valid_read(walk->seen_to + i);
 * options: -cpp-extra-args=-DVAGUE_LIBC -eva-auto-loop-unroll 16 -eva-slevel 30 */
#include "api/internal.h"
#include "tests/prove/prove.h"

enum { HEADER = 64, FIELDS = 3 };

static char header[HEADER + 1];
static union MHD_ConnectionInfo info;

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type, ...)
{
    (void)connection, (void)type;
    info.header_size = (size_t)ANY(0, HEADER);
    return &info;
}

int MHD_get_connection_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                              MHD_KeyValueIterator iterator, void *arg)
{
    (void)connection;
    for (int i = 0; i < FIELDS; i++)
        if (iterator(arg, kind, header + ANY(0, HEADER),
                     ANY(0, 1) ? NULL : header + ANY(0, HEADER)) == MHD_NO)
            break;
    return FIELDS;
}

int main(void)
{
    struct connection connection = {0};
    Frama_C_make_unknown(header, HEADER);
    framing_fault_of_target(header);
    framing_fault(&connection, header, header + ANY(0, HEADER));
    return 0;
}
