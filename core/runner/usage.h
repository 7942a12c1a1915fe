/* Private to core/runner: samples of what containers use (usage.c). See runner_int.h. */
#ifndef RUNNER_USAGE_H
#define RUNNER_USAGE_H

#include <base/env.h>
#include <base/metric.h>
#include <fn/driver.h>

struct runner;

#define USAGE_BATCH 64u /* containers of a sample: a second's worth of work for few processors */

/* Of a container at its last sample (usage.c). */
struct usage_of {
    int64_t at_ns;    /* 0 = none yet */
    int64_t asked_ns; /* when the driver was asked for it */
    struct fn_usage last;
};

struct usage_metrics {
    struct metric *cpu_total, *cpu_user, *cpu_kernel, *mem_usage, *mem_limit;
    struct metric *net_rx, *net_tx, *disk_read, *disk_write;
};

struct usage {
    struct env_timer timer;
    struct env_work work;
    bool busy;
    uint64_t last; /* handle that was chosen last */
    uint32_t n;
    struct fn_usage items[USAGE_BATCH];
    int result;
    int64_t asked_ns, at_ns; /* of the sample */
    struct usage_metrics metrics;
};

/* After r->ops is set. */
void usage_init(struct runner *r);
bool usage_is_asked(const struct runner *r);
void usage_finish(struct runner *r);

#endif
