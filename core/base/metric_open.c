/* OpenMetrics 1.0 (https://github.com/OpenObservability/OpenMetrics/blob/main/specification/
 * OpenMetrics.md): what it has beside or unlike Prometheus text.
 *
 * Scrapers ask for it by themselves, so that no name may be another one in it: a counter whose name
 * has no _total behind it, as Go Fn's, has the type unknown. Exemplars name the trace of a call in
 * the bucket that it was counted in. */
#include <base/metric_int.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL "_total"

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER; /* what series keep; held briefly */

/* ---- families -------------------------------------------------------------------------------- */

static bool ends_in(const char *name, size_t len, const char *end)
{
    size_t n = strlen(end);

    return len > n && memcmp(name + len - n, end, n) == 0;
}

static bool is_taken(const char *name, size_t len)
{
    for (struct metric_family *f = metric_next_family(&metric_families); f;
         f = metric_next_family(&f->next)) {
        if (strncmp(f->shown.name, name, len) == 0 && f->shown.name[len] == '\0') {
            return true;
        }
    }
    return false;
}

/* A counter's samples are called as its family and _total, which then must not be another family:
 * fn_lane_lost_total and fn_lane_lost. 0: it cannot be a counter. */
static size_t counter_base(const char *name)
{
    size_t len = strlen(name);
    size_t base = ends_in(name, len, TOTAL) ? len - strlen(TOTAL) : 0;

    return base > 0 && !is_taken(name, base) ? base : 0;
}

/* The unit that the name ends in, where it is true: Go Fn has milliseconds in names of seconds. */
static const char *unit_of(const struct metric_family *f, size_t len)
{
    static const char *const units[] = { "_seconds", "_bytes" };
    bool in_ms = f->latency && f->scale * f->shown.factor == 1;

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!in_ms && ends_in(f->shown.name, len, units[i])) {
            return units[i] + 1;
        }
    }
    return NULL;
}

void metric_open_head(struct buf *out, const struct metric_family *f)
{
    size_t base = f->kind == METRIC_COUNTER ? counter_base(f->shown.name) : 0;
    const char *type = base > 0                        ? "counter"
                       : f->kind == METRIC_COUNTER     ? "unknown"
                       : f->kind == METRIC_GAUGE       ? "gauge"
                                                       : "histogram";
    int len = (int)(base > 0 ? base : strlen(f->shown.name));
    const char *unit = unit_of(f, (size_t)len);

    buf_printf(out, "# TYPE %.*s %s\n", len, f->shown.name, type);
    if (unit) {
        buf_printf(out, "# UNIT %.*s %s\n", len, f->shown.name, unit);
    }
    buf_printf(out, "# HELP %.*s ", len, f->shown.name);
    metric_print_escaped(out, f->help);
    buf_printf(out, "%s\n", f->shown.note);
}

/* As Go prints a float, with a ".0" where it looks like an integer. */
void metric_open_bound(double bound, char ret[METRIC_BOUND_BYTES])
{
    char *e;
    size_t n;

    if (bound == 0 || (bound >= 1e-4 && bound < 1e6)) {
        snprintf(ret, METRIC_BOUND_BYTES, "%.15g", bound);
        n = strlen(ret);
        snprintf(ret + n, METRIC_BOUND_BYTES - n, "%s", strchr(ret, '.') ? "" : ".0");
        return;
    }
    snprintf(ret, METRIC_BOUND_BYTES, "%.14e", bound);
    e = strchr(ret, 'e');
    for (n = (size_t)(e - ret); ret[n - 1] == '0'; n--) {
    }
    n -= ret[n - 1] == '.';
    memmove(ret + n, e, strlen(e) + 1);
}

/* ---- exemplars ------------------------------------------------------------------------------- */

void metric_observe_of(struct metric *m, int64_t v, const struct metric_exemplar *of)
{
    struct metric_kept *all;

    metric_observe(m, v);
    if (!of) {
        return;
    }
    pthread_mutex_lock(&kept_lock);
    all = m->kept ? m->kept : calloc(m->family->n_bounds + 1, sizeof(*all));
    if (all) { /* else the page has none */
        struct metric_kept *k = &all[metric_bucket(m, v)];

        snprintf(k->trace_id, sizeof(k->trace_id), "%s", of->trace_id);
        k->value = v;
        k->wall_ns = of->wall_ns;
        __atomic_store_n(&m->kept, all, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&kept_lock);
}

void metric_open_exemplar(struct buf *out, const struct metric *m, uint32_t bucket)
{
    const struct metric_family *f = m->family;
    struct metric_kept k;

    /* One of a call that this page does not count yet is for the next one. */
    if (!__atomic_load_n(&m->kept, __ATOMIC_RELAXED) || metric_told_count(m, bucket) == 0) {
        return;
    }
    pthread_mutex_lock(&kept_lock);
    k = m->kept[bucket];
    pthread_mutex_unlock(&kept_lock);
    if (k.trace_id[0]) {
        buf_printf(out, " # {trace_id=\"%s\"} %.15g %" PRId64 ".%03d", k.trace_id,
                   (double)k.value * f->scale * f->shown.factor, k.wall_ns / 1000000000,
                   (int)(k.wall_ns / 1000000 % 1000));
    }
}
