/* The page: what all series say, as Prometheus text. */
#include <base/metric_int.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER; /* one page at a time */
static pthread_mutex_t sources_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before metric_lock */
static struct metric_source *sources;
static bool moment_taken; /* for the next page */
static int names = METRIC_NAMES_FN;

static int print_number(struct buf *out, const struct metric_family *f, int64_t v)
{
    double scale = f->scale * f->shown.factor;

    if (scale == 1) {
        return buf_printf(out, " %" PRId64 "\n", v);
    }
    return buf_printf(out, " %.15g\n", (double)v * scale);
}

static int print_escaped(struct buf *out, const char *text)
{
    int r = 0;

    for (const char *p = text; *p && r == 0; p++) {
        if (*p == '\n') {
            r = buf_add(out, "\\n", 2);
        } else if (*p == '\\' || *p == '"') {
            r = buf_printf(out, "\\%c", *p);
        } else if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f) {
            r = buf_add(out, "?", 1); /* the format is UTF-8; ids of Fn are ASCII */
        } else {
            r = buf_add(out, p, 1);
        }
    }
    return r;
}

/* {label="value",le="1"}; `le` may be NULL. */
static int print_labels(struct buf *out, const struct metric *m, const char *le)
{
    const struct metric_family *f = m->family;
    const char *value = m->key;
    int r = 0;

    if (f->n_labels == 0 && !le) {
        return 0;
    }
    r = buf_add_str(out, "{");
    for (uint32_t i = 0; i < f->n_labels && r == 0; i++) {
        r = buf_printf(out, "%s%s=\"", i ? "," : "", f->labels[i]);
        if (r == 0) {
            r = print_escaped(out, value);
        }
        if (r == 0) {
            r = buf_add_str(out, "\"");
        }
        value += strlen(value) + 1;
    }
    if (r == 0 && le) {
        r = buf_printf(out, "%sle=\"%s\"", f->n_labels ? "," : "", le);
    }
    return r < 0 ? r : buf_add_str(out, "}");
}

static int print_line(struct buf *out, const struct metric *m, const char *suffix, const char *le)
{
    int r = buf_printf(out, "%s%s", m->family->shown.name, suffix);

    return r < 0 ? r : print_labels(out, m, le);
}

/* The count is the sum of the buckets that are printed, so that the text is consistent although
 * calls go on meanwhile. */
static int print_histogram(struct buf *out, const struct metric *m)
{
    const struct metric_family *f = m->family;
    int64_t count = 0;
    char le[32];
    int r = 0;

    for (uint32_t i = 0; i <= f->n_bounds && r == 0; i++) {
        count += metric_told_count(m, i);
        if (i < f->n_bounds) {
            snprintf(le, sizeof(le), "%.15g", f->bounds[i] * f->shown.factor);
        } else {
            snprintf(le, sizeof(le), "+Inf");
        }
        r = print_line(out, m, "_bucket", le);
        if (r == 0) {
            r = buf_printf(out, " %" PRId64 "\n", count);
        }
    }
    if (r == 0) {
        r = print_line(out, m, "_sum", NULL);
    }
    if (r == 0) {
        r = print_number(out, f, metric_told_value(m));
    }
    if (r == 0) {
        r = print_line(out, m, "_count", NULL);
    }
    return r < 0 ? r : buf_printf(out, " %" PRId64 "\n", count);
}

static bool has_counted(const struct metric *m)
{
    bool any = metric_told_value(m) != 0;

    for (uint32_t i = 0; m->counts && i <= m->family->n_bounds && !any; i++) {
        any = metric_told_count(m, i) != 0;
    }
    return any;
}

/* Without its other-series until something was folded into it. */
static bool is_on_page(const struct metric *m)
{
    if (m->family->n_subject_labels == 0) {
        return true;
    }
    return m->subject ? m->subject->shown : has_counted(m);
}

static int print_series(struct buf *out, const struct metric *m)
{
    int r;

    if (m->family->kind == METRIC_HISTOGRAM) {
        return print_histogram(out, m);
    }
    r = print_line(out, m, "", NULL);
    return r < 0 ? r : print_number(out, m->family, metric_told_value(m));
}

static int print_family(struct buf *out, struct metric_family *f)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"
    };
    struct metric *m = metric_next(&f->first);
    int r = 0;

    metric_names_show(__atomic_load_n(&names, __ATOMIC_RELAXED), f->kind, f->name, &f->shown);
    if (m) {
        r = buf_printf(out, "# HELP %s %s%s\n# TYPE %s %s\n", f->shown.name, f->help,
                       f->shown.note, f->shown.name, kinds[f->kind]);
    }
    for (; m && r == 0; m = metric_next(&m->next)) {
        if (is_on_page(m)) {
            r = print_series(out, m);
        }
    }
    return r;
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

int metric_print(struct buf *out)
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
    for (struct metric_family *f = metric_next_family(&metric_families); f && r == 0;
         f = metric_next_family(&f->next)) {
        r = print_family(out, f);
    }
    pthread_mutex_unlock(&pages_lock);
    return r;
}
