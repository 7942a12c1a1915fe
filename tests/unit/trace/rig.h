/* A tracer on a fake clock, with a collector that answers as the test says. */
#ifndef TEST_TRACE_RIG_H
#define TEST_TRACE_RIG_H

#include "../lib/fake_env.h"

#include <trace/trace_int.h>

#include "otlp.pb-c.h"

struct rig {
    struct fake_env *fake;
    struct tracer *t;
    struct trace_options options;
    struct arena arena;
    uint32_t status; /* what the collector answers; 0 = nothing */
    uint32_t retry_after_s;
    uint32_t rejected;
    uint32_t posts;
    Fnd__Otlp__ExportRequest *last;
};

void rig_open(struct rig *r, const struct trace_options *o);
void rig_close(struct rig *r);
/* A whole call with this traceparent (NULL = none) that took `ms`. */
void rig_call(struct rig *r, const char *traceparent, int64_t ms, bool failed);
struct spans *rig_begin(struct rig *r, const char *traceparent);
/* Time for batches to be posted. */
void rig_settle(struct rig *r);

#define RIG_TRACE   "0af7651916cd43dd8448eb211c80319c"
#define RIG_SAMPLED "00-" RIG_TRACE "-b7ad6b7169203331-01"
#define RIG_NOT     "00-" RIG_TRACE "-b7ad6b7169203331-00"

#endif
