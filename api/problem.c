/* How problems are worded. */
#include "api/problem.h"

#include <stdio.h>

#include "agent/core/core_assert.h"

static const struct problem_report table[PROBLEM_COUNT] = {
#define X(name, code, status, title) [PROBLEM_##name] = {code, title, status, NULL, -1, NULL},
    PROBLEMS(X)
#undef X
};

struct problem_report problem_report(enum problem problem)
{
    CORE_ASSERT(problem != PROBLEM_NONE && problem < PROBLEM_COUNT);
    return table[problem];
}

char *problem_json(const struct problem_report *report)
{
    char type[64];
    snprintf(type, sizeof(type), "urn:lockagent:problem:%s", report->code);
    json_t *body = json_pack("{s:s, s:s, s:s, s:i, s:s}", "code", report->code, "type", type,
                             "title", report->title, "status", (int)report->status, "detail",
                             report->detail == NULL ? report->title : report->detail);
    if (body != NULL && report->members != NULL)
        json_object_update(body, report->members);
    char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    json_decref(body);
    json_decref(report->members);
    return text;
}
