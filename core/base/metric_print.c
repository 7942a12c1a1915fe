/* The page: what all series say, as Prometheus text or OpenMetrics. */
#include <base/metric_int.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER; /* one page at a time */
static pthread_mutex_t sources_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before metric_lock */
static struct metric_source *sources;
static bool moment_taken; /* for the next page */
static int names = METRIC_NAMES_FN;

struct page {
    struct buf *out;
    bool open; /* OpenMetrics */
};

static void print_number(struct buf *out, const struct metric_family *f, int64_t v)
{
    double scale = f->scale * f->shown.factor;

    if (scale == 1) {
        buf_printf(out, " %" PRId64 "\n", v);
    } else {
        buf_printf(out, " %.15g\n", (double)v * scale);
    }
}

void metric_print_escaped(struct buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\n') {
            buf_add(out, "\\n", 2);
        } else if (*p == '\\' || *p == '"') {
            buf_printf(out, "\\%c", *p);
        } else if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f) {
            buf_add(out, "?", 1); /* the format is UTF-8; ids of Fn are ASCII */
        } else {
            buf_add(out, p, 1);
        }
    }
}

/* {label="value",le="1"}; `le` may be NULL. */
static void print_labels(struct buf *out, const struct metric *m, const char *le)
{
    const struct metric_family *f = m->family;
    const char *value = m->key;

    if (f->n_labels == 0 && !le) {
        return;
    }
    buf_add_str(out, "{");
    for (uint32_t i = 0; i < f->n_labels; i++) {
        buf_printf(out, "%s%s=\"", i ? "," : "", f->labels[i]);
        metric_print_escaped(out, value);
        buf_add_str(out, "\"");
        value += strlen(value) + 1;
    }
    if (le) {
        buf_printf(out, "%sle=\"%s\"", f->n_labels ? "," : "", le);
    }
    buf_add_str(out, "}");
}

static void print_line(struct buf *out, const struct metric *m, const char *suffix, const char *le)
{
    buf_printf(out, "%s%s", m->family->shown.name, suffix);
    print_labels(out, m, le);
}

static void print_bucket(const struct page *p, const struct metric *m, uint32_t i, int64_t count)
{
    const struct metric_family *f = m->family;
    char le[METRIC_BOUND_BYTES];

    if (i == f->n_bounds) {
        snprintf(le, sizeof(le), "+Inf");
    } else if (p->open) {
        metric_open_bound(f->bounds[i] * f->shown.factor, le);
    } else {
        snprintf(le, sizeof(le), "%.15g", f->bounds[i] * f->shown.factor);
    }
    print_line(p->out, m, "_bucket", le);
    buf_printf(p->out, " %" PRId64, count);
    if (p->open) {
        metric_open_exemplar(p->out, m, i);
    }
    buf_add(p->out, "\n", 1);
}

/* The count is the sum of the buckets that are printed, so that the text is consistent although
 * calls go on meanwhile. */
static void print_histogram(const struct page *p, const struct metric *m)
{
    const struct metric_family *f = m->family;
    int64_t count = 0;

    for (uint32_t i = 0; i <= f->n_bounds; i++) {
        count += metric_told_count(m, i);
        print_bucket(p, m, i, count);
    }
    print_line(p->out, m, "_sum", NULL);
    print_number(p->out, f, metric_told_value(m));
    print_line(p->out, m, "_count", NULL);
    buf_printf(p->out, " %" PRId64 "\n", count);
}

static bool has_counted(const struct metric *m)
{
    bool any = metric_told_value(m) != 0;

    for (uint32_t i = 0; m->counts && i <= m->family->n_bounds && !any; i++) {
        any = metric_told_count(m, i) != 0;
    }
    return any;
}

/* Without what was given back, and without its other-series until something was folded into it. */
static bool is_on_page(const struct metric *m)
{
    if (m->family->n_subject_labels == 0) {
        return __atomic_load_n(&m->refs, __ATOMIC_RELAXED) > 0;
    }
    return m->subject ? m->subject->shown : has_counted(m);
}

static void print_series(const struct page *p, const struct metric *m)
{
    if (m->family->kind == METRIC_HISTOGRAM) {
        print_histogram(p, m);
    } else {
        print_line(p->out, m, "", NULL);
        print_number(p->out, m->family, metric_told_value(m));
    }
}

static void print_head(const struct page *p, const struct metric_family *f)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"
    };

    if (p->open) {
        metric_open_head(p->out, f);
    } else {
        buf_printf(p->out, "# HELP %s %s%s\n# TYPE %s %s\n", f->shown.name, f->help,
                   f->shown.note, f->shown.name, kinds[f->kind]);
    }
}

static void print_family(const struct page *p, const struct metric_family *f)
{
    const struct metric *m = metric_next(&f->first);

    if (m) {
        print_head(p, f);
    }
    for (; m && !p->out->failed; m = metric_next(&m->next)) {
        if (is_on_page(m)) {
            print_series(p, m);
        }
    }
}

static int print_all(const struct page *p)
{
    for (struct metric_family *f = metric_next_family(&metric_families); f && !p->out->failed;
         f = metric_next_family(&f->next)) {
        if (f->shown.name[0]) {
            print_family(p, f);
        }
    }
    if (p->open) {
        buf_add_str(p->out, "# EOF\n");
    }
    return p->out->failed ? FN_E_EXHAUSTED : 0;
}

static void name_all(void)
{
    for (struct metric_family *f = metric_next_family(&metric_families); f;
         f = metric_next_family(&f->next)) {
        metric_names_show(__atomic_load_n(&names, __ATOMIC_RELAXED), f->kind, f->name, &f->shown);
    }
}

void metric_source_add(struct metric_source *s)
{
    pthread_mutex_lock(&sources_lock);
    s->next = sources;
    sources = s;
    pthread_mutex_unlock(&sources_lock);
}

void metric_source_remove(struct metric_source *s)
{
    pthread_mutex_lock(&sources_lock);
    for (struct metric_source **at = &sources; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    pthread_mutex_unlock(&sources_lock);
}

static void refresh_sources(void)
{
    pthread_mutex_lock(&sources_lock);
    for (struct metric_source *s = sources; s; s = s->next) {
        s->refresh(s);
    }
    pthread_mutex_unlock(&sources_lock);
}

static void change_banks(bool taken)
{
    __atomic_store_n(&metric_bank, !__atomic_load_n(&metric_bank, __ATOMIC_RELAXED),
                     __ATOMIC_RELEASE);
    moment_taken = taken;
}

void metric_moment(void)
{
    change_banks(true);
}

/* What stood still goes on: after two changes without a page its part would be on none for long. */
void metric_moment_undo(void)
{
    change_banks(false);
}

void metric_names_set(enum metric_names which)
{
    __atomic_store_n(&names, which, __ATOMIC_RELAXED);
}

/* Not counted where they are refused: that is under the lock. */
static void tell_refused(void)
{
    struct metric *m = metric_simple("fn_metrics_refused_series_total", METRIC_COUNTER,
                                     "Look-ups of a series beyond the limit of its metric or of "
                                     "the page; they were counted under other.");

    metric_set(m, __atomic_load_n(&metric_refused, __ATOMIC_RELAXED));
}

int metric_print_formats(struct buf *const out[METRIC_FORMATS_N])
{
    int r = 0;

    pthread_mutex_lock(&pages_lock);
    if (!moment_taken) {
        metric_moment();
    }
    moment_taken = false;
    metric_settle();
    refresh_sources();
    metric_fold();
    tell_refused();
    name_all();
    for (int i = 0; i < METRIC_FORMATS_N && r == 0; i++) {
        const struct page p = { out[i], i == METRIC_OPENMETRICS };

        r = p.out ? print_all(&p) : 0;
    }
    pthread_mutex_unlock(&pages_lock);
    return r;
}

int metric_print(struct buf *out)
{
    struct buf *const formats[METRIC_FORMATS_N] = { [METRIC_TEXT] = out };

    return metric_print_formats(formats);
}
