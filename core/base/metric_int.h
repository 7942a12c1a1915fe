/* Private to metric*.c: families, series and their lock. */
#ifndef BASE_METRIC_INT_H
#define BASE_METRIC_INT_H

#include <base/metric_names.h>
#include <base/table.h>

#include <pthread.h>

#define VALUE_BYTES_MAX    256 /* of one label value; longer ones are cut */
#define KEY_BYTES_MAX      (METRIC_LABELS_MAX * (VALUE_BYTES_MAX + 1)) /* of all of a series */
#define SUBJECT_SERIES_MAX 8192 /* of a family with subjects, until the next page sweeps it */

/* Whom the last labels of a series name, the same in all families of a group: a function. The maker
 * of pages alone uses all but the key and the number of series. */
struct metric_subject {
    char *key; /* its group and the labels' values */
    size_t key_len;
    enum metric_group group;
    UT_hash_handle hh;
    uint32_t n_series;
    uint64_t seq;
    uint64_t fresh; /* events since the last page */
    uint64_t score; /* of all pages, older ones count less */
    bool shown;     /* has series of its own on the page */
};

/* Two banks of a value: everybody adds to the one that metric_bank names, and the other one stands
 * still. metric_moment() changes their parts in one store, so that all values are cut off at the
 * same moment without a look at any of them; whoever makes the page then has time to bring what
 * stands still to the settled part. A thread beside the loop that had chosen its bank just before
 * may still add to it: that is told on a later page, never lost. */
struct metric_banked {
    int64_t settled; /* by the maker of pages, metric_set() and metric_histogram_set() */
    int64_t bank[2];
};

/* The last observation of a bucket that is of a call with a trace. */
struct metric_kept {
    char trace_id[METRIC_TRACE_ID + 1]; /* "" = there was none */
    int64_t value;
    int64_t wall_ns;
};

/* What happened while a subject is folded belongs to `other` for ever, so that neither of the two
 * ever counts backwards: `told` is what pages have told of the values so far, `own` the part of it
 * that was told under the series' own labels. */
struct metric {
    struct metric_family *family;
    char *key; /* label values, each ended by NUL */
    size_t key_len;
    struct metric *next; /* in order of creation */
    UT_hash_handle hh;
    struct metric_banked value;   /* histogram: sum */
    struct metric_banked *counts; /* histogram: per bucket, n_bounds + 1 */
    struct metric_kept *kept;     /* the same; NULL until there is one */
    uint32_t refs;                /* written under the lock; atomic */
    /* of a family with subjects: */
    struct metric_subject *subject; /* NULL: it is an `other` */
    struct metric *other;           /* where it is folded to */
    int64_t told, own;
    int64_t *told_counts, *own_counts; /* one block */
    int64_t folded; /* `other` of a gauge: what is folded on this page */
};

struct metric_family {
    char *name;
    char *help;
    enum metric_kind kind;
    char *labels[METRIC_LABELS_MAX];
    uint32_t n_labels;
    uint32_t n_subject_labels; /* of these, at the end */
    enum metric_group group;
    double bounds[METRIC_BOUNDS_MAX];
    int64_t limits[METRIC_BOUNDS_MAX]; /* bounds in stored units */
    uint32_t n_bounds;
    double scale;
    bool latency;
    struct metric_shown shown; /* on the page that is being made; "" = it came after its moment */
    struct metric *by_key;
    struct metric *first;
    struct metric *last;
    uint32_t n_series;
    struct metric lost; /* stands for series that found no memory; on no page */
    struct metric_family *next;
};

/* Guards everything here but values. The maker of pages walks the lists without it: they grow at
 * their ends, what stands in them does not change, and he alone takes series out (with it). */
extern pthread_mutex_t metric_lock;
extern struct metric_family *metric_families;
extern uint32_t metric_bank; /* 0 or 1 */
extern int64_t metric_refused; /* series that found no room; atomic */

static inline void metric_banked_add(struct metric_banked *v, int64_t n)
{
    uint32_t bank = __atomic_load_n(&metric_bank, __ATOMIC_RELAXED);

    __atomic_fetch_add(&v->bank[bank], n, __ATOMIC_RELAXED);
}

static inline int64_t metric_banked_now(const struct metric_banked *v)
{
    return __atomic_load_n(&v->settled, __ATOMIC_RELAXED) +
           __atomic_load_n(&v->bank[0], __ATOMIC_RELAXED) +
           __atomic_load_n(&v->bank[1], __ATOMIC_RELAXED);
}

static inline int64_t metric_settled(const struct metric_banked *v)
{
    return __atomic_load_n(&v->settled, __ATOMIC_RELAXED);
}

static inline struct metric_family *metric_next_family(struct metric_family *const *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline struct metric *metric_next(struct metric *const *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

uint32_t metric_bucket(const struct metric *m, int64_t v); /* where it is counted */

/* The bounds of a histogram of latencies; aborts for one that metric_buckets.c does not know. */
uint32_t metric_buckets_get(const char *name, double scale, double ret[METRIC_BOUNDS_MAX]);

/* Under the lock. The subject of a new series: found or made; NULL when out of memory. */
struct metric_subject *metric_subject_get(enum metric_group group, const char *values, size_t len);
void metric_subject_put(struct metric_subject *s); /* one series less */
/* Takes a series that nobody holds out of its family and frees it; false: somebody does. What it
 * counted since the moment goes to its other-series. `before` is its neighbour, NULL = it is the
 * first. By the maker of pages. */
bool metric_drop(struct metric *m, struct metric *before);

/* By the maker of pages, one at a time, without the lock: brings what stood still since the moment
 * to the settled parts. */
void metric_settle(void);
/* After it: who is shown from now on, and what the others did since the last page is put under
 * `other`. */
void metric_fold(void);
/* ---- metric_open.c: what OpenMetrics has and Prometheus text has not; maker of pages --- */

/* Whether there was memory for all of it is asked of the buffer at the end. */
void metric_open_head(struct buf *out, const struct metric_family *f);
#define METRIC_BOUND_BYTES 32u
void metric_open_bound(double bound, char ret[METRIC_BOUND_BYTES]);
/* " # {trace_id=...} value time", where the bucket has one. */
void metric_open_exemplar(struct buf *out, const struct metric *m, uint32_t bucket);
void metric_print_escaped(struct buf *out, const char *text); /* metric_print.c */

/* What the page says of a series of any family. */
int64_t metric_told_value(const struct metric *m);
int64_t metric_told_count(const struct metric *m, uint32_t bucket);

#endif
