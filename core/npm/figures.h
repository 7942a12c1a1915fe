/* Figures: what a group of runners shows as metrics. Labels are bounded by the configuration. */
#ifndef NPM_FIGURES_H
#define NPM_FIGURES_H

#include <base/metric.h>
#include <npm/npm.h>

struct figures {
    struct metric *wanted_mb, *desired_mb, *waiting, *asked, *lbs, *lbs_twice, *at_max;
    struct metric *standby;
    struct metric *cplane_failures, *stillborn, *failing;
    struct metric *runners[NPM_STATES_N], *capacity_mb[NPM_STATES_N];
    struct metric *drain_losses;
    struct metric *provision_latency;
    struct metric *accepted, *removals; /* counters */
    struct metric *notes[NPM_NOTES_N];  /* of those that are counted; else NULL */
};

void figures_declare(struct figures *f, const char *group);
void figures_show(const struct figures *f, const struct npm_group *group);

#endif
