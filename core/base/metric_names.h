/* Under which names a page shows metrics: Go Fn's, for dashboards that exist, or as Prometheus'
 * conventions have them (https://prometheus.io/docs/practices/naming), which `promtool check
 * metrics` holds pages to. */
#ifndef BASE_METRIC_NAMES_H
#define BASE_METRIC_NAMES_H

#include <base/metric.h>

#define METRIC_NAME_MAX 128u

enum metric_names { METRIC_NAMES_FN, METRIC_NAMES_PROMETHEUS };

struct metric_shown {
    char name[METRIC_NAME_MAX];
    double factor;    /* of values and bounds: to base units */
    const char *note; /* for the help text, "" or " Shown in seconds." */
};

/* [any] For the pages that begin after this. */
void metric_names_set(enum metric_names names);

/* Pure. A counter ends in _total and nothing else does, no name but a histogram's parts in _count;
 * _milliseconds become seconds, _mb bytes. */
void metric_names_show(enum metric_names names, enum metric_kind kind, const char *name,
                       struct metric_shown *ret);

#endif
