/* The table of families as data. */
#include "agent/metrics/families.h"

#define X(id, ...) static const int64_t bounds_##id[] = {__VA_ARGS__};
BUCKET_SETS(X)
#undef X
#define X(id, ...) [BUCKETS_##id] = {bounds_##id, sizeof(bounds_##id) / sizeof(bounds_##id[0])},
const struct bucket_bounds bucket_bounds[BUCKET_SET_COUNT] = {BUCKET_SETS(X)};
#undef X

#define X(id, name, type, unit, label1, label2, label3, buckets, help)                             \
    [FAMILY_##id] = {name,                                                                         \
                     help,                                                                         \
                     TYPE_##type,                                                                  \
                     UNIT_##unit,                                                                  \
                     {LABEL_##label1, LABEL_##label2, LABEL_##label3},                             \
                     BUCKETS_##buckets},
const struct family metric_families[FAMILY_COUNT] = {FAMILIES(X)};
#undef X

#define X(id, part) [FAMILY_##id] = PART_##part,
const enum family_part basic_parts[FAMILY_COUNT] = {BASIC_FAMILIES(X)};
#undef X
