/* All scripts, in the order in which they are searched. */
#include "explore.h"

static const struct subject *const subjects[] = {&subject_mutex, &subject_guard, &subject_turns,
                                                 &subject_kinds, &subject_native};

const struct script *script_at(size_t index)
{
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        if (index < subjects[i]->count)
            return &subjects[i]->scripts[index];
        index -= subjects[i]->count;
    }
    return NULL;
}
