/* Families live in one list that only grows; `lock` guards the list and the series tables. Values
 * are atomics, so that printing never stops a call. */
#include <base/metric.h>

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define VALUE_BYTES_MAX 256 /* of one label value; longer ones are cut */

struct metric {
    struct metric_family *family;
    char *key; /* label values, each ended by NUL */
    size_t key_len;
    struct metric *next; /* in order of creation */
    UT_hash_handle hh;
    int64_t value;   /* histogram: sum */
    int64_t *counts; /* histogram: per bucket, n_bounds + 1 */
};

struct metric_family {
    char *name;
    char *help;
    enum metric_kind kind;
    char *labels[METRIC_LABELS_MAX];
    uint32_t n_labels;
    double bounds[METRIC_BOUNDS_MAX];
    int64_t limits[METRIC_BOUNDS_MAX]; /* bounds in stored units */
    uint32_t n_bounds;
    double scale;
    struct metric *by_key;
    struct metric *first;
    struct metric *last;
    uint32_t n_series;
    struct metric_family *next;
};

const double metric_latency_bounds_ms[10] = {
    1, 10, 50, 100, 250, 500, 1000, 10000, 60000, 120000
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct metric_family *families;
static struct metric_family **families_end = &families;
static pthread_mutex_t sources_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before `lock` */
static struct metric_source *sources;

static void *must(void *p)
{
    if (!p) {
        abort();
    }
    return p;
}

static struct metric_family *family_find(const char *name)
{
    for (struct metric_family *f = families; f; f = f->next) {
        if (strcmp(f->name, name) == 0) {
            return f;
        }
    }
    return NULL;
}

static struct metric_family *family_create(const struct metric_def *def)
{
    struct metric_family *f = must(calloc(1, sizeof(*f)));

    f->name = must(strdup(def->name));
    f->help = must(strdup(def->help));
    f->kind = def->kind;
    f->scale = def->scale != 0 ? def->scale : 1;
    for (const char *const *l = def->labels; l && *l; l++) {
        if (f->n_labels == METRIC_LABELS_MAX) {
            abort();
        }
        f->labels[f->n_labels++] = must(strdup(*l));
    }
    if (def->n_bounds > METRIC_BOUNDS_MAX) {
        abort();
    }
    f->n_bounds = def->n_bounds;
    for (uint32_t i = 0; i < def->n_bounds; i++) {
        f->bounds[i] = def->bounds[i];
        f->limits[i] = llround(def->bounds[i] / f->scale);
    }
    return f;
}

struct metric_family *metric_declare(const struct metric_def *def)
{
    struct metric_family *f;

    pthread_mutex_lock(&lock);
    f = family_find(def->name);
    if (!f) {
        f = family_create(def);
        *families_end = f;
        families_end = &f->next;
    }
    pthread_mutex_unlock(&lock);
    return f;
}

/* Writes the label values as one key; `value` NULL = the values, else that text for each. */
static size_t key_write(const struct metric_family *f, const char *const *values, const char *value,
                        char *ret)
{
    size_t len = 0;

    for (uint32_t i = 0; i < f->n_labels; i++) {
        const char *text = value ? value : values[i] ? values[i] : "";
        size_t n = strlen(text);

        n = n < VALUE_BYTES_MAX ? n : VALUE_BYTES_MAX;
        memcpy(ret + len, text, n);
        ret[len + n] = '\0';
        len += n + 1;
    }
    return len;
}

static struct metric *series_find_or_add(struct metric_family *f, const char *key, size_t len,
                                         bool may_add)
{
    struct metric *m = NULL;

    HASH_FIND(hh, f->by_key, key, len, m);
    if (m || !may_add) {
        return m;
    }
    m = must(calloc(1, sizeof(*m)));
    m->family = f;
    m->key = must(malloc(len + 1));
    memcpy(m->key, key, len);
    m->key_len = len;
    if (f->kind == METRIC_HISTOGRAM) {
        m->counts = must(calloc(f->n_bounds + 1, sizeof(*m->counts)));
    }
    HASH_ADD_KEYPTR(hh, f->by_key, m->key, m->key_len, m);
    if (f->last) {
        f->last->next = m;
    } else {
        f->first = m;
    }
    f->last = m;
    f->n_series++;
    return m;
}

struct metric *metric_series(struct metric_family *f, const char *const *values)
{
    char key[METRIC_LABELS_MAX * (VALUE_BYTES_MAX + 1)];
    size_t len;
    struct metric *m;

    pthread_mutex_lock(&lock);
    len = key_write(f, values, NULL, key);
    m = series_find_or_add(f, key, len, f->n_series < METRIC_SERIES_MAX);
    if (!m) {
        len = key_write(f, values, "other", key);
        m = series_find_or_add(f, key, len, true);
    }
    pthread_mutex_unlock(&lock);
    return m;
}

struct metric *metric_simple(const char *name, enum metric_kind kind, const char *help)
{
    struct metric_def def = { .name = name, .help = help, .kind = kind };

    return metric_series(metric_declare(&def), NULL);
}

void metric_add(struct metric *m, int64_t n)
{
    __atomic_fetch_add(&m->value, n, __ATOMIC_RELAXED);
}

void metric_set(struct metric *m, int64_t n)
{
    __atomic_store_n(&m->value, n, __ATOMIC_RELAXED);
}

void metric_observe(struct metric *m, int64_t v)
{
    const struct metric_family *f = m->family;
    uint32_t i = 0;

    while (i < f->n_bounds && v > f->limits[i]) {
        i++;
    }
    __atomic_fetch_add(&m->counts[i], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&m->value, v, __ATOMIC_RELAXED);
}

int64_t metric_value(const struct metric *m)
{
    int64_t count = 0;

    if (m->family->kind != METRIC_HISTOGRAM) {
        return __atomic_load_n(&m->value, __ATOMIC_RELAXED);
    }
    for (uint32_t i = 0; i <= m->family->n_bounds; i++) {
        count += __atomic_load_n(&m->counts[i], __ATOMIC_RELAXED);
    }
    return count;
}

static int print_number(struct buf *out, const struct metric_family *f, int64_t v)
{
    if (f->scale == 1) {
        return buf_printf(out, " %" PRId64 "\n", v);
    }
    return buf_printf(out, " %.15g\n", (double)v * f->scale);
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
    int r = buf_printf(out, "%s%s", m->family->name, suffix);

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
        count += __atomic_load_n(&m->counts[i], __ATOMIC_RELAXED);
        if (i < f->n_bounds) {
            snprintf(le, sizeof(le), "%.15g", f->bounds[i]);
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
        r = print_number(out, f, __atomic_load_n(&m->value, __ATOMIC_RELAXED));
    }
    if (r == 0) {
        r = print_line(out, m, "_count", NULL);
    }
    return r < 0 ? r : buf_printf(out, " %" PRId64 "\n", count);
}

static int print_family(struct buf *out, const struct metric_family *f)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"
    };
    int r;

    if (!f->first) {
        return 0;
    }
    r = buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, kinds[f->kind]);
    for (const struct metric *m = f->first; m && r == 0; m = m->next) {
        if (f->kind == METRIC_HISTOGRAM) {
            r = print_histogram(out, m);
            continue;
        }
        r = print_line(out, m, "", NULL);
        if (r == 0) {
            r = print_number(out, f, __atomic_load_n(&m->value, __ATOMIC_RELAXED));
        }
    }
    return r;
}

void metric_histogram_set(struct metric *m, const int64_t *counts, int64_t sum)
{
    for (uint32_t i = 0; i <= m->family->n_bounds; i++) {
        __atomic_store_n(&m->counts[i], counts[i], __ATOMIC_RELAXED);
    }
    __atomic_store_n(&m->value, sum, __ATOMIC_RELAXED);
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

int metric_print(struct buf *out)
{
    int r = 0;

    refresh_sources();
    pthread_mutex_lock(&lock);
    for (const struct metric_family *f = families; f && r == 0; f = f->next) {
        r = print_family(out, f);
    }
    pthread_mutex_unlock(&lock);
    return r;
}
