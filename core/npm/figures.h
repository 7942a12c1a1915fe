/* Figures: what a group of runners shows as metrics. Labels are bounded by the configuration. */
#ifndef NPM_FIGURES_H
#define NPM_FIGURES_H

#include <base/metric.h>
#include <npm/npm.h>

#define FIGURES_GAUGES_N 11

struct figures {
    struct metric *gauges[FIGURES_GAUGES_N]; /* as figures.c lists them */
    struct metric *runners[NPM_STATES_N], *capacity_mb[NPM_STATES_N];
    struct metric *provision_latency;
    struct metric *accepted, *removals, *drain_losses, *claim_failures; /* counters */
    struct metric *notes[NPM_NOTES_N];  /* of those that are counted; else NULL */
};

void figures_declare(struct figures *f, const char *group);
void figures_show(const struct figures *f, const struct npm_group *group);

#endif
