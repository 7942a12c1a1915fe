/* Metrics: counters, gauges and histograms with bounded label sets, printed as Prometheus text or
 * as OpenMetrics.
 *
 * A family is declared once; a series is one combination of label values. Series are made on first
 * use up to METRIC_SERIES_MAX per family and METRIC_PAGE_SERIES_MAX in all. After that the values
 * go to one series of the family whose labels all read "other"; fn_metrics_refused_series_total
 * counts. Values are updated without locks (atomics), series are looked up under a mutex and should
 * be kept by the caller.
 *
 * A page shows one moment: what is counted after metric_moment() is not on it, however long it is
 * in the making, so that figures which change together on the loop agree on every page.
 *
 * Labels that name something of a tenant (an app, a function, its image) are subject labels: there
 * may be thousands, so a page shows those that are used most, as many of each group as
 * metric_set_subjects() says, and the others as one whose labels read "other". No series ever
 * counts backwards by that. Whoever looked such a series up gives it back. [any] */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <base/buf.h>
#include <stdbool.h>
#include <stdint.h>

#define METRIC_SERIES_MAX 1000
#define METRIC_PAGE_SERIES_MAX 20000 /* but for those of subjects, which are folded */
#define METRIC_LABELS_MAX 6
#define METRIC_BOUNDS_MAX 32
#define METRIC_SUBJECTS_DEFAULT 32

/* Who counts what of subjects: each chooses and limits those that it shows by itself. */
enum metric_group { METRIC_OF_RUNNER, METRIC_OF_LB, METRIC_GROUPS_N };

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_family; /* declared once, lives for ever */
struct metric;        /* one series, lives for ever but for metric_release() */

struct metric_def {
    const char *name; /* full name, "fn_calls" */
    const char *help; /* one sentence with the unit */
    enum metric_kind kind;
    const char *const *labels; /* names, NULL ends; may be NULL */
    uint32_t n_subject_labels; /* how many of them, at the end, are subject labels */
    enum metric_group group;   /* of its subjects */
    const double *bounds;      /* METRIC_HISTOGRAM: upper bounds, ascending, n_bounds of them */
    uint32_t n_bounds;
    bool latency; /* a METRIC_HISTOGRAM of ms whose bounds operators set: metric_buckets_set() */
    double scale; /* printed value = stored integer * scale; 0 = 1 */
};

/* Same name again returns the first family. Never NULL: without memory what it counts
 * is on no page. */
struct metric_family *metric_declare(const struct metric_def *def);
/* One value per label, in the order of the names. Never NULL. */
struct metric *metric_series(struct metric_family *f, const char *const *values);
/* Gives a series back; it must not be used any more. One without subject labels that nobody has is
 * on no page until somebody looks it up again. */
void metric_release(struct metric *m);
/* How many subjects of a group a page shows; fn_metrics_folded_series says what it does not. */
void metric_set_subjects(enum metric_group group, uint32_t max);
/* Declares a family and makes its series for each of n values of its only label. */
void metric_each(const struct metric_def *def, const char *const *values, uint32_t n,
                 struct metric **ret);
/* Declares a family and returns one series of it: by label names, NULL ends, and their values. A
 * histogram is one of latencies. */
struct metric *metric_of(const char *name, enum metric_kind kind, const char *help,
                         const char *const *labels, const char *const *values);
/* The only series of a family without labels. */
struct metric *metric_simple(const char *name, enum metric_kind kind, const char *help);

void metric_add(struct metric *m, int64_t n);
/* A gauge, by one thread at a time; a page may show what is set while it is made. */
void metric_set(struct metric *m, int64_t n);
void metric_observe(struct metric *m, int64_t v); /* METRIC_HISTOGRAM */
int64_t metric_value(const struct metric *m);     /* histogram: count */

/* The call whose observation it is, for an exemplar. */
struct metric_exemplar {
    const char *trace_id; /* METRIC_TRACE_ID characters of hex; longer ones are cut */
    int64_t wall_ns;
};
#define METRIC_TRACE_ID 32u
/* metric_observe(), and the bucket keeps `of` until the next one. NULL: it keeps what it has. */
void metric_observe_of(struct metric *m, int64_t v, const struct metric_exemplar *of);

/* Replaces what a histogram holds: n_bounds + 1 counts, and the sum in stored units. For values
 * that are counted elsewhere and brought here when somebody reads. */
void metric_histogram_set(struct metric *m, const int64_t *counts, int64_t sum);

/* Called before each metric_print(), from its thread, to bring such values. Embed it. */
struct metric_source {
    void (*refresh)(struct metric_source *s);
    struct metric_source *next;
};
void metric_source_add(struct metric_source *s);
void metric_source_remove(struct metric_source *s); /* no refresh() runs after this */

/* [loop] The next page shows what was counted until now; costs nothing. No page is made meanwhile.
 * Without it a page shows the moment at which metric_print() begins. */
void metric_moment(void);
void metric_moment_undo(void); /* [loop] at once: there will be no page */

enum metric_format { METRIC_TEXT, METRIC_OPENMETRICS, METRIC_FORMATS_N };

/* Appends the Prometheus text of all families. Takes milliseconds for a long page: in a node it
 * runs on a worker, and those who count meanwhile do not wait for it. */
int metric_print(struct buf *out);
/* The same moment in each format that has a buffer, NULL = it is not wanted. OpenMetrics has the
 * same names (metric_open.c). */
int metric_print_formats(struct buf *const out[METRIC_FORMATS_N]);

/* Bounds of latencies in ms: Go Fn's, and some between 1 s and 10 s, where a placement that is slow
 * differs from one that is hopeless. */
#define METRIC_LATENCY_BUCKETS                                                                     \
    "1, 10, 50, 100, 250, 500, 1000, 1500, 2000, 2500, 3000, 5000, 7500, 10000, 60000, 120000"
#define METRIC_BUCKET_MS_MAX 1e12 /* more than anything lasts */

/* Numbers that ascend, in one or more texts. */
bool metric_buckets_good(const char *const *items, uint64_t n);
/* "fn_lb_placer_latency=1,10,100": the bounds of one histogram of latencies. */
bool metric_buckets_of_good(const char *item);
/* [init] Once, before any histogram of latencies is declared; what is not good is left out. */
void metric_buckets_set(const char *const *items, uint64_t n, const char *const *own_items,
                        uint64_t n_own);

#endif
