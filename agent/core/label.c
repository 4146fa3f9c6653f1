/* A label that changes (D3.9). A PUT names it, each later renewal and repair writes it on masters,
 * and an adoption that names none takes that of the masters. It is not compared with anything, and
 * no decision depends on it. */
#include "internal.h"

#include <string.h>

#include "core_assert.h"

void label_set(struct core *core, struct lock *lock, struct text label)
{
    CORE_ASSERT(lock->state != LOCK_FREE && label.len <= LIMIT_LABEL_BYTES);
    struct text before = lock_label(lock);
    if (text_same(label, before))
        return;
    if (before.len > 0)
        outbox_let_go(core, lock->key);
    if (lock->metadata == NULL) {
        lock->metadata = slots_take(&core->metadata);
        *lock->metadata = (struct kept_metadata){.lock = lock};
    }
    struct kept_metadata *kept = lock->metadata;
    kept->is_other = kept->is_other != !MUTANT(LABEL_IN_PLACE);
    kept->metadata.label_len = (uint8_t)label.len;
    if (label.len > 0)
        memcpy(kept->is_other ? kept->other_label : kept->metadata.label, label.at, label.len);
    follow_label_changed(core, lock);
}

bool label_taken(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    const struct core_request *last = NULL;
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next) {
        const struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        if (request->metadata.label_len > 0 && !confirm_is_wanted(request))
            last = request;
    }
    if (last != NULL && !MUTANT(LABEL_NOT_TAKEN))
        label_set(core, lock, metadata_label(&last->metadata));
    return last != NULL;
}

/* If masters store different labels, the one that most of them store is taken: this is a majority
 * vote by Boyer and Moore. A master without a label may have missed the first one. */
void label_heard(struct core *core, struct lock *lock, struct text label)
{
    if (label.len == 0 || lock->relabels ||
        (lock->state != LOCK_ADOPTING && lock->state != LOCK_HELD))
        return;
    bool is_same = text_same(label, lock_label(lock));
    if (!is_same && lock->label_votes > 0 && !MUTANT(LABEL_OF_LAST)) {
        lock->label_votes--;
        return;
    }
    if (!MUTANT(LABEL_NOT_ADOPTED))
        label_set(core, lock, label);
    lock->label_votes++;
    if (!is_same && lock->state == LOCK_HELD) /* The journal has the one at the decision. */
        outbox_hold(core, lock);
}
