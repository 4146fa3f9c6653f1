/* The default for failed assertions: stop at once. A program that links the core may define a
 * better one. */
#include "core_assert.h"

__attribute__((weak)) void lockcore_assert_failed(const char *expression, const char *file,
                                                  int line)
{
    (void)expression, (void)file, (void)line;
    __builtin_trap();
}
