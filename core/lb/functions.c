/* Metrics of single functions: how their calls end, and how long those take that ran.
 *
 * Series are looked up at the first call of a function that the catalog holds, and given back with
 * it. Functions that are used little are folded (base/metric_fold.c). */
#include <lb/lb_int.h>

#define SUBJECT_LABELS 2 /* app_id, fn_id */

void functions_declare(struct lb_metrics *m)
{
    static const char *const end_labels[] = { "outcome", "app_id", "fn_id", NULL };
    static const char *const took_labels[] = { "app_id", "fn_id", NULL };
    const struct metric_def ends = {
        .name = "fn_lb_function_calls_total",
        .help = "Ended calls of a function, by outcome.",
        .kind = METRIC_COUNTER,
        .labels = end_labels,
        .n_subject_labels = SUBJECT_LABELS,
        .group = METRIC_OF_LB,
    };
    const struct metric_def took = {
        .name = "fn_lb_function_seconds",
        .help = "Time of a call from the request to the end of its response, execution included, "
                "of calls whose outcome is ok or failed, seconds.",
        .kind = METRIC_HISTOGRAM,
        .labels = took_labels,
        .n_subject_labels = SUBJECT_LABELS,
        .group = METRIC_OF_LB,
        .latency = true,
        .scale = 0.001,
    };

    m->fn_ends = metric_declare(&ends);
    m->fn_took = metric_declare(&took);
}

static struct metric *found(struct metric **at, struct metric_family *family,
                            const char *const *values)
{
    if (!*at) {
        *at = metric_series(family, values);
    }
    return *at;
}

void functions_count(const struct lb_call *c, enum outcome outcome,
                     const struct metric_exemplar *of)
{
    const struct lb_metrics *m = &c->lb->metrics;
    struct catalog_fn *f = c->fn;
    int64_t took_ns = env_now_ns(c->lb->deps.env) - c->created_ns;

    if (f) { /* before it is found, its id is a stranger's text */
        const char *const values[] = { outcome_names[outcome], f->model.app_id, f->model.fn_id };

        metric_add(found(&f->ends[outcome], m->fn_ends, values), 1);
        if (outcome == OUTCOME_OK || outcome == OUTCOME_FAILED) {
            metric_observe_of(found(&f->took, m->fn_took, values + 1), took_ns / ENV_MS, of);
        }
    }
}
